/* test_readers.c - datasets and file formats (tp_input.h, >>readers). Files of other programs and what those read from them
 * stand in ref_readers.h, which ref_readers.py writes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define TP_IMPLEMENTATION
#include "tp_input.h"
#include "tp_test.h"
#include "inject.h"

#include "ref_readers.h"

/* ==== >>helpers ======================================================================================= */

static const char *write_file(const char *dir, const char *name, const void *data, size_t size)
{
    const char *path = tp_test_path(dir, name);
    CHECK(tp_test_write(path, data, size));
    return path;
}

static bool same_bytes(const tp_tensor *t, tp_dtype dtype, const void *data, size_t size)
{
    return t->dtype == dtype && tp_tensor_bytes(t) == size && (size == 0 || memcmp(t->data, data, size) == 0);
}

/* A number that stands for a datapoint: its bytes, dtypes and shapes. */
static uint64_t digest(const tp_datapoint *dp)
{
    uint64_t h = 17;
    for (int i = 0; i < dp->n; i++) {
        const tp_tensor *t = &dp->c[i];
        h = 31 * h + tp_hash(t->shape.dim, (size_t)t->shape.ndim * sizeof(int64_t)) + (uint64_t)t->dtype;
        h = 31 * h + tp_hash(tp_tensor_bytes(t) ? t->data : "", tp_tensor_bytes(t));
    }
    return h;
}

enum { MOST = 128 };
static int walk(tp_dataflow *df, int64_t pass, uint64_t *seen)
{
    tp_datapoint dp = {0, NULL, 0};
    int n = 0;
    tp_status st = tp_df_restart(df, pass);
    while (st == TP_OK && n < MOST && (st = tp_df_next(df, &dp)) == TP_OK) seen[n++] = digest(&dp);
    CHECK_MSG(st == TP_END || n == MOST, "%s", tp_last_error());
    tp_datapoint_free(&dp);
    return n;
}

/* What every flow keeps: passes can be taken in any order and again, seek is as if so many had been taken, TP_END stays. The
 * flow is freed. distinct: a pass has no datapoint twice, and shuffled ones differ in their order. */
static void check_protocol_(tp_dataflow *df, int64_t size, bool shuffled, int line)
{
    uint64_t pass[3][MOST], again[MOST];
    int n[3];
    CHECK_MSG(tp_df_status(df) == TP_OK, "line %d: %s", line, tp_last_error());
    CHECK_MSG(tp_df_size(df) == size, "line %d: size %lld", line, (long long)tp_df_size(df));
    for (int p = 0; p < 3; p++) n[p] = walk(df, p, pass[p]);
    CHECK_MSG(n[0] == size && n[1] == size && n[2] == size, "line %d: %d %d %d datapoints", line, n[0], n[1], n[2]);
    CHECK(walk(df, 1, again) == n[1] && memcmp(again, pass[1], (size_t)n[1] * sizeof *again) == 0);
    CHECK_MSG((memcmp(pass[0], pass[1], (size_t)n[0] * sizeof *again) != 0) == shuffled, "line %d: shuffled", line);
    for (int64_t k = 0; k <= size + 1; k++) {
        tp_datapoint dp = {0, NULL, 0};
        int64_t skipped = -1;
        tp_df_restart(df, 2);
        CHECK_OK(tp_df_seek(df, k, &skipped));
        CHECK_MSG(skipped == (k < size ? k : size), "line %d: seek(%lld) skipped %lld", line, (long long)k,
                  (long long)skipped);
        for (int64_t i = k; i < size; i++)
            CHECK_MSG(tp_df_next(df, &dp) == TP_OK && digest(&dp) == pass[2][i], "line %d: %lld after seek(%lld)", line,
                      (long long)i, (long long)k);
        CHECK(tp_df_next(df, &dp) == TP_END && tp_df_next(df, &dp) == TP_END);
        tp_datapoint_free(&dp);
    }
    tp_df_free(df);
}
#define check_protocol(df_, size_, shuffled_) check_protocol_((df_), (size_), (shuffled_), __LINE__)

/* After a first pass nothing is allocated. The flow is freed. */
static void check_no_allocation(tp_dataflow *df)
{
    tp_datapoint dp = {0, NULL, 0};
    for (int pass = 0; pass < 2; pass++) {
        CHECK_OK(tp_df_restart(df, 0));
        while (tp_df_next(df, &dp) == TP_OK) continue;
    }
    tp_test_fail_after(1);
    for (int pass = 0; pass < 2; pass++) {
        CHECK_OK(tp_df_restart(df, 0));
        tp_status st;
        while ((st = tp_df_next(df, &dp)) == TP_OK) continue;
        CHECK(st == TP_END);
    }
    CHECK(!tp_test_alloc_failed());
    tp_test_alloc_reset();
    tp_datapoint_free(&dp);
    tp_df_free(df);
}

/* make() and a pass with each allocation failing once, after one without: TP_ERR_NOMEM or a whole pass, and nothing stays. needs_all: the
 * flow needs all that it allocates, so it is TP_ERR_NOMEM from the step in which an allocation fails. */
static void check_no_memory_(tp_dataflow *(*make)(void), bool needs_all, int line)
{
    long n = 0, whole = 0;
    for (long failed = 1; failed && n < 2000; n++) {
        long points = 0;
        tp_test_fail_after(n);
        tp_dataflow *df = make();
        tp_datapoint dp = {0, NULL, 0};
        tp_status st = df ? tp_df_status(df) : TP_ERR_NOMEM;
        while (st == TP_OK) {
            const bool before = tp_test_alloc_failed();
            st = tp_df_next(df, &dp);
            points += st == TP_OK;
            CHECK_MSG(!needs_all || before || !tp_test_alloc_failed() || st == TP_ERR_NOMEM,
                      "line %d: allocation %ld fails in a step that comes to %s", line, n, tp_status_name(st));
        }
        failed = tp_test_alloc_failed();
        CHECK_MSG(st == TP_END || (failed && st == TP_ERR_NOMEM), "line %d: allocation %ld: %s: %s", line, n,
                  tp_status_name(st), tp_last_error());
        if (n == 0) whole = points, failed = 1;
        CHECK_MSG(st != TP_END || points == whole, "line %d: allocation %ld: %ld of %ld datapoints", line, n, points,
                  whole);
        tp_df_free(df);
        tp_datapoint_free(&dp);
        CHECK_MSG(tp_test_live_blocks() == 0, "line %d: allocation %ld: %ld blocks stay", line, n,
                  (long)tp_test_live_blocks());
    }
    CHECK_MSG(n > 3, "line %d: only %ld allocations", line, n);
    tp_test_alloc_reset();
}
#define check_no_memory(make_) check_no_memory_((make_), true, __LINE__)

static void check_refused_(tp_dataflow *df, tp_status st, const char *part, int line)
{
    const tp_status is = tp_df_status(df);
    CHECK_MSG(is == st && strstr(tp_last_error(), part), "line %d: %s: %s", line, tp_status_name(is), tp_last_error());
    tp_df_free(df);
}
#define check_refused(df_, st_, part_) check_refused_((df_), (st_), (part_), __LINE__)

static char warnings[32][600];
static int n_warnings;
static void keep_warnings(void *user, tp_log_level level, const char *message)
{
    (void)user;
    if (level == TP_LOG_WARN && n_warnings < 32) snprintf(warnings[n_warnings++], sizeof warnings[0], "%s", message);
}

/* ==== >>cifar ========================================================================================= */

/* Byte k of channel c, pixel j of image i of batch b: a number that tells them apart. */
static unsigned char cifar_byte(int b, int i, int c, int j)
{
    return (unsigned char)(b * 37 + i * 11 + c * 83 + j % 251 + j / 251);
}

static void write_cifar(const char *dir, const char *name, int b, int images, int labels)
{
    static unsigned char record[4 * 3074];
    unsigned char *p = record;
    for (int i = 0; i < images; i++) {
        for (int k = 0; k < labels; k++)
            *p++ = (unsigned char)((b + i + 10 * k * (labels - 1)) % (k || labels == 1 ? 10 : 20));
        for (int c = 0; c < 3; c++)
            for (int j = 0; j < 1024; j++) *p++ = cifar_byte(b, i, c, j);
    }
    write_file(dir, name, record, (size_t)(p - record));
}

static const char *cifar_dir;
static void make_cifar(void)
{
    const char *const batches[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                                   "data_batch_5.bin"};
    cifar_dir = tp_test_tmpdir();
    for (int b = 0; b < 5; b++) write_cifar(cifar_dir, batches[b], b, 2, 1);
    write_cifar(cifar_dir, "test_batch.bin", 7, 3, 1);
    write_cifar(cifar_dir, "train.bin", 1, 4, 2);
    write_cifar(cifar_dir, "test.bin", 2, 3, 2);
}

TEST(cifar_is_planar_in_the_file_and_interleaved_in_the_image)
{
    make_cifar();
    tp_dataflow *df = tp_df_cifar10("train", .dir = cifar_dir, .shuffle = TP_NO);
    tp_datapoint dp = {0, NULL, 0};
    for (int n = 0; n < 10 && CHECK_OK(tp_df_next(df, &dp)); n++) {
        const unsigned char *x = (const unsigned char *)dp.c[0].data;
        char text[TP_SHAPE_TEXT];
        CHECK_STR(tp_shape_text(&dp.c[0].shape, text), "(32,32,3)");
        CHECK(dp.n == 2 && dp.c[0].dtype == TP_U8 && dp.c[1].dtype == TP_I32 && dp.c[1].shape.ndim == 0);
        CHECK(tp_tensor_get(&dp.c[1], 0) == (n / 2 + n % 2) % 10);
        int wrong = 0;
        for (int y = 0; y < 32; y++)
            for (int w = 0; w < 32; w++)
                for (int c = 0; c < 3; c++) wrong += x[(y * 32 + w) * 3 + c] != cifar_byte(n / 2, n % 2, c, y * 32 + w);
        CHECK(wrong == 0);
    }
    CHECK(tp_df_next(df, &dp) == TP_END);
    tp_df_free(df);
    df = tp_df_cifar100("test", .dir = cifar_dir);
    for (int i = 0; i < 3 && CHECK_OK(tp_df_next(df, &dp)); i++)
        CHECK(tp_tensor_get(&dp.c[1], 0) == (2 + i + 10) % 10); /* fine */
    tp_df_free(df);
    df = tp_df_cifar100("test", .dir = cifar_dir, .coarse = TP_YES);
    for (int i = 0; i < 3 && CHECK_OK(tp_df_next(df, &dp)); i++) CHECK(tp_tensor_get(&dp.c[1], 0) == (2 + i) % 20);
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

TEST(cifar_is_shuffled_for_training_alone)
{
    make_cifar();
    check_protocol(tp_df_cifar10("train", .dir = cifar_dir), 10, true);
    check_protocol(tp_df_cifar10("test", .dir = cifar_dir), 3, false);
    check_protocol(tp_df_cifar100("train", .dir = cifar_dir, .seed = 5), 4, true);
    check_protocol(tp_df_cifar100("test", .dir = cifar_dir, .shuffle = TP_YES, .seed = 3), 3, true);
    check_no_allocation(tp_df_cifar10("train", .dir = cifar_dir));
}

TEST(cifar_is_looked_for_in_the_usual_places)
{
    make_cifar();
    char data[600];
    const char *root = tp_test_tmpdir();
    snprintf(data, sizeof data, "%s/cifar10/cifar-10-batches-bin", root);
    CHECK_OK(tp_make_dirs(data));
    write_cifar(data, "test_batch.bin", 7, 3, 1);
    setenv("TP_DATA", root, 1);
    check_protocol(tp_df_cifar10("test"), 3, false);
    check_refused(tp_df_cifar100("test"), TP_ERR_IO, "there is no test.bin in");
    unsetenv("TP_DATA");
    snprintf(data, sizeof data, "%s/cifar100_data", root);
    CHECK_OK(tp_make_dirs(data));
    write_cifar(data, "test.bin", 2, 3, 2);
    setenv("TENSORPACK_DATASET", root, 1);
    check_protocol(tp_df_cifar100("test"), 3, false);
    unsetenv("TENSORPACK_DATASET");
}

TEST(cifar_files_are_not_trusted)
{
    make_cifar();
    char record[3073] = {9}, two[3074] = {19, 99};
    const char *dir = tp_test_tmpdir();
    write_file(dir, "test_batch.bin", record, 3072);
    check_refused(tp_df_cifar10("test", .dir = dir), TP_ERR_FORMAT,
                  "has 3072 bytes, which is not a multiple of the record size, 3073 bytes");
    write_file(dir, "test_batch.bin", record, 0);
    check_refused(tp_df_cifar10("test", .dir = dir), TP_ERR_FORMAT, "has 0 bytes");
    write_file(dir, "test_batch.bin", record, 3073);
    check_protocol(tp_df_cifar10("test", .dir = dir), 1, false);
    record[0] = 10;
    write_file(dir, "test_batch.bin", record, 3073);
    check_refused(tp_df_cifar10("test", .dir = dir), TP_ERR_FORMAT,
                  "record 0 at byte 0 has label 10, there are 10 classes");
    write_file(dir, "test.bin", two, 3074);
    check_protocol(tp_df_cifar100("test", .dir = dir), 1, false);
    two[0] = 20;
    write_file(dir, "test.bin", two, 3074);
    check_refused(tp_df_cifar100("test", .dir = dir), TP_ERR_FORMAT, "label 20, there are 20 classes");
    check_refused(tp_df_cifar10("validate", .dir = dir), TP_ERR_ARG, "neither \"train\" nor \"test\"");
    check_refused(tp_df_cifar10("train", .dir = dir), TP_ERR_IO, "there is no data_batch_1.bin in");
}

static tp_dataflow *a_cifar(void) { return tp_df_cifar100("train", .dir = cifar_dir); }
TEST(cifar_without_memory)
{
    make_cifar();
    check_no_memory(a_cifar);
}

/* ==== >>svhn ========================================================================================== */

/* How a test writes a MAT-file: the highest byte of a number first (else last); compressed by zlib; in blocks of deflate that are stored. */
typedef struct mat_style {
    bool big, compressed, stored;
} mat_style;

static void mat_number(tp_buf *b, mat_style s, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        const unsigned char byte = (unsigned char)(v >> 8 * (s.big ? bytes - 1 - i : i));
        tp_buf_put(b, &byte, 1);
    }
}
static void mat_tag(tp_buf *b, mat_style s, uint32_t type, size_t size)
{
    mat_number(b, s, type, 4);
    mat_number(b, s, size, 4);
}
static void mat_part(tp_buf *b, mat_style s, uint32_t type, const void *data, size_t size)
{
    mat_tag(b, s, type, size);
    tp_buf_put(b, data, size);
    tp_buf_put(b, "\0\0\0\0\0\0\0", (8 - size % 8) % 8);
}

static void zlib_of(const tp_buf *in, bool stored, tp_buf *out)
{
    uint32_t a = 1, c = 0;
    tp_buf_put(out, "\x78\x9c", 2);
    for (size_t at = 0, n; stored && at < in->len; at += n) {
        n = in->len - at < 65535 ? in->len - at : 65535;
        const unsigned char head[5] = {at + n == in->len, (unsigned char)n, (unsigned char)(n >> 8), (unsigned char)~n,
                                       (unsigned char)(~n >> 8)};
        tp_buf_put(out, head, 5);
        tp_buf_put(out, in->data + at, n);
    }
    if (!stored) CHECK_OK(tp_deflate(in->data, in->len, out));
    for (size_t i = 0; i < in->len; i++) {
        a = (a + (unsigned char)in->data[i]) % 65521;
        c = (c + a) % 65521;
    }
    mat_number(out, (mat_style){.big = true}, (uint64_t)c << 16 | a, 4);
}

/* Appends an array: its class, its dimensions, and its values, which stand there as `type`. */
static void mat_array(tp_buf *b, mat_style s, const char *name, uint32_t kind, const int *dim, int ndim, uint32_t type,
                      const void *values, size_t size)
{
    tp_buf array = {NULL, 0, 0, false}, whole = {NULL, 0, 0, false}, z = {NULL, 0, 0, false};
    mat_tag(&array, s, 6, 8);
    mat_number(&array, s, kind, 4);
    mat_number(&array, s, 0, 4);
    mat_tag(&array, s, 5, 4 * (size_t)ndim);
    for (int i = 0; i < ndim; i++) mat_number(&array, s, (uint64_t)dim[i], 4);
    if (ndim % 2) mat_number(&array, s, 0, 4);
    if (s.big) mat_part(&array, s, 1, name, strlen(name)); /* MATLAB puts a short name into the tag: both are allowed */
    else {
        mat_number(&array, s, (uint64_t)strlen(name) << 16 | 1, 4);
        tp_buf_put(&array, name, strlen(name));
        tp_buf_put(&array, "\0\0\0\0", 4 - strlen(name));
    }
    mat_part(&array, s, type, values, size);
    mat_part(&whole, s, 14, array.data, array.len);
    if (s.compressed) {
        zlib_of(&whole, s.stored, &z);
        mat_tag(b, s, 15, z.len);
        tp_buf_put(b, z.data, z.len);
    } else tp_buf_put(b, whole.data, whole.len);
    tp_buf_free(&array);
    tp_buf_free(&whole);
    tp_buf_free(&z);
}
static void mat_header(tp_buf *b, mat_style s)
{
    char text[124];
    memset(text, ' ', sizeof text);
    memcpy(text, "MATLAB 5.0 MAT-file", 19);
    tp_buf_put(b, text, sizeof text);
    mat_number(b, s, 0x100, 2);
    mat_number(b, s, 'M' << 8 | 'I', 2);
}

/* n images whose byte at row y, column x, colour c is a number that tells them apart. */
static unsigned char svhn_byte(int i, int y, int x, int c)
{
    return (unsigned char)((i * 37 + y * 5 + x * 11 + c * 83) ^ (i * x * y >> 3));
}
static void mat_images(tp_buf *b, mat_style s, int n)
{
    unsigned char *values = (unsigned char *)malloc((size_t)n * 3072), *p = values;
    const int dim[4] = {32, 32, 3, n};
    for (int i = 0; i < n; i++)
        for (int c = 0; c < 3; c++)
            for (int x = 0; x < 32; x++)
                for (int y = 0; y < 32; y++) *p++ = svhn_byte(i, y, x, c);
    mat_array(b, s, "X", 9, dim, 4, 2, values, (size_t)n * 3072);
    free(values);
}
/* Labels 1, 2, .. 10, 1, .. as double, which are doubles in the file too, or bytes. */
static void mat_labels(tp_buf *b, mat_style s, int n, uint32_t type)
{
    tp_buf values = {NULL, 0, 0, false};
    const int dim[2] = {n, 1};
    for (int i = 0; i < n; i++) {
        const double d = i % 10 + 1;
        uint64_t bits;
        memcpy(&bits, &d, sizeof bits);
        mat_number(&values, s, type == 9 ? bits : (uint64_t)d, type == 9 ? 8 : 1);
    }
    mat_array(b, s, "y", 6, dim, 2, type, values.data, values.len);
    tp_buf_free(&values);
}
static tp_buf svhn_file(mat_style s, int n)
{
    static const double other[] = {1, 2, 3};
    tp_buf b = {NULL, 0, 0, false};
    const int dim[2] = {1, 3};
    mat_header(&b, s);
    if (n % 2) mat_labels(&b, s, n, 2);
    mat_array(&b, s, "z", 6, dim, 2, 9, other, sizeof other);
    mat_images(&b, s, n);
    if (n % 2 == 0) mat_labels(&b, s, n, 9);
    CHECK(!b.failed);
    return b;
}

static const char *svhn_dir;
static void write_svhn(const char *name, mat_style s, int n)
{
    tp_buf b = svhn_file(s, n);
    write_file(svhn_dir, name, b.data, b.len);
    tp_buf_free(&b);
}

TEST(svhn_is_by_columns_in_the_file_and_by_rows_in_the_image)
{
    svhn_dir = tp_test_tmpdir();
    for (int k = 0; k < 12; k++) {
        const mat_style s = {k % 2 != 0, k % 6 >= 2, k % 6 >= 4};
        const int n = k == 5 ? 70 : k < 6 ? 13 : 24; /* 70 images are more than is read at a time */
        write_svhn("extra_32x32.mat", s, n);
        tp_dataflow *df = tp_df_svhn_digit("extra", .dir = svhn_dir, .shuffle = TP_NO);
        tp_datapoint dp = {0, NULL, 0};
        CHECK_MSG(tp_df_size(df) == n, "file %d: %s", k, tp_last_error());
        for (int i = 0; i < n && CHECK_OK(tp_df_next(df, &dp)); i++) {
            const unsigned char *p = (const unsigned char *)dp.c[0].data;
            char text[TP_SHAPE_TEXT];
            CHECK_STR(tp_shape_text(&dp.c[0].shape, text), "(32,32,3)");
            CHECK(dp.n == 2 && dp.c[0].dtype == TP_U8 && dp.c[1].dtype == TP_I32 && dp.c[1].shape.ndim == 0);
            CHECK(tp_tensor_get(&dp.c[1], 0) == (i + 1) % 10);
            int wrong = 0;
            for (int y = 0; y < 32; y++)
                for (int x = 0; x < 32; x++)
                    for (int c = 0; c < 3; c++) wrong += *p++ != svhn_byte(i, y, x, c);
            CHECK_MSG(wrong == 0, "file %d, image %d: %d bytes", k, i, wrong);
        }
        CHECK(tp_df_next(df, &dp) == TP_END);
        tp_df_free(df);
        tp_datapoint_free(&dp);
    }
}

TEST(svhn_is_looked_for_in_the_usual_places_and_shuffled)
{
    char data[600];
    const char *root = tp_test_tmpdir();
    snprintf(data, sizeof data, "%s/svhn", root);
    CHECK_OK(tp_make_dirs(data));
    svhn_dir = data;
    write_svhn("train_32x32.mat", (mat_style){.compressed = true}, 7);
    setenv("TP_DATA", root, 1);
    check_protocol(tp_df_svhn_digit("train"), 7, true);
    check_protocol(tp_df_svhn_digit("train", .shuffle = TP_NO), 7, false);
    check_no_allocation(tp_df_svhn_digit("train"));
    check_refused(tp_df_svhn_digit("test"), TP_ERR_IO, "there is no test_32x32.mat in");
    unsetenv("TP_DATA");
    snprintf(data, sizeof data, "%s/svhn_data", root);
    CHECK_OK(tp_make_dirs(data));
    write_svhn("test_32x32.mat", (mat_style){.compressed = false}, 4);
    setenv("TENSORPACK_DATASET", root, 1);
    check_protocol(tp_df_svhn_digit("test"), 4, true);
    unsetenv("TENSORPACK_DATASET");
    check_refused(tp_df_svhn_digit("validate"), TP_ERR_ARG,
                  "\"validate\" is neither \"train\", \"test\" nor \"extra\"");
}

static void refuse_svhn(const tp_buf *b, tp_status st, const char *part)
{
    write_file(svhn_dir, "train_32x32.mat", b->data, b->len);
    check_refused(tp_df_svhn_digit("train", .dir = svhn_dir), st, part);
}

TEST(svhn_files_of_other_kinds_are_refused)
{
    static const unsigned char zeros[6144] = {0};
    static const struct {
        char name;
        uint32_t kind, type;
        int dim[5], ndim;
        size_t size;
        const char *says;
    } arrays[] = {{'X', 9, 2, {32, 32, 3}, 3, 3072, "has no array y"},
                  {'X', 9, 2, {32, 32, 3, 0}, 4, 0, "X is empty, of shape (32,32,3,0): SVHN has images there"},
                  {'X', 9, 2, {32, 3, 32, 1}, 4, 3072, "X is uint8 (32,3,32,1)"},
                  {'X', 9, 2, {32, 32, 3, 1, 1}, 5, 3072, "X is uint8 (32,32,3,1,1)"},
                  {'X', 6, 2, {32, 32, 3, 1}, 4, 3072, "X is double (32,32,3,1)"},
                  {'X', 9 | 0x800, 2, {32, 32, 3, 1}, 4, 3072, "X is complex uint8"},
                  {'X', 9, 2, {32, 32, 3, 2}, 4, 3072, "it has 6144 values, and 3072 bytes for them"},
                  {'X', 9, 2, {32, 32, 3, 1}, 4, 6144, "it has 3072 values, and 6144 bytes for them"},
                  {'y', 6, 9, {2, 2}, 2, 32, "y is double (2,2), SVHN has numbers (N,1) there"},
                  {'y', 6, 9, {0, 1}, 2, 0, "y is empty, of shape (0,1): SVHN has a label for each image"},
                  {'y', 6, 9, {3}, 1, 24, "y is double (3)"},
                  {'y', 6, 16, {3, 1}, 2, 24, "y is double (3,1)"},
                  {'y', 6, 9, {3, 1}, 2, 16, "it has 3 values, and 16 bytes for them"},
                  {'y', 6, 3, {3, 1}, 2, 7, "it has 3 values, and 7 bytes for them"},
                  {'z', 6, 9, {3, 1}, 2, 24, "has no array X"},
                  {'X', 4, 2, {32, 32, 3, 1}, 4, 3072, "has no array X"}};
    svhn_dir = tp_test_tmpdir();
    for (int i = 0; i < 2 * TP_COUNT(arrays); i++) {
        const char name[2] = {arrays[i / 2].name, 0};
        tp_buf b = {NULL, 0, 0, false};
        const mat_style s = {.compressed = i % 2 != 0};
        mat_header(&b, s);
        mat_array(&b, s, name, arrays[i / 2].kind, arrays[i / 2].dim, arrays[i / 2].ndim, arrays[i / 2].type, zeros,
                  arrays[i / 2].size);
        refuse_svhn(&b, strstr(arrays[i / 2].says, " is ") ? TP_ERR_SHAPE : TP_ERR_FORMAT, arrays[i / 2].says);
        tp_buf_free(&b);
    }
    tp_buf b = {NULL, 0, 0, false};
    const int dim[2] = {1, 4};
    mat_header(&b, (mat_style){.big = false});
    mat_images(&b, (mat_style){.big = false}, 5);
    mat_array(&b, (mat_style){.big = false}, "y", 9, dim, 2, 2, "\1\5\12\0", 4);
    refuse_svhn(&b, TP_ERR_SHAPE, "train_32x32.mat: X has 5 images but y has 4 labels: each image needs one");
    b.data[b.len - 7] = 11;
    refuse_svhn(&b, TP_ERR_FORMAT, "image 1 has label 11, SVHN has 1 to 10, and 10 is the digit 0");
    b.data[125] = 2;
    refuse_svhn(&b, TP_ERR_FORMAT, "is a MAT-file of version 2 (2: MATLAB 7.3, HDF5): save it with -v7");
    b.data[126] = 0;
    refuse_svhn(&b, TP_ERR_FORMAT, "is no MAT-file of MATLAB 5 or later");
    b.len = 127;
    refuse_svhn(&b, TP_ERR_FORMAT, "has 127 bytes, a MAT-file has at least 128");
    tp_buf_free(&b);
}

/* A file cut short at any byte, or with a changed bit. A change in the values of an array that is not compressed is not seen, nor is one
 * in an array with another name; what is read then still has the types and shapes of SVHN. */
TEST(damaged_svhn_files_are_refused)
{
    svhn_dir = tp_test_tmpdir();
    for (int k = 0; k < 4; k++) {
        tp_buf b = svhn_file((mat_style){k % 2 != 0, k >= 2, false}, 2);
        const char *path = write_file(svhn_dir, "test_32x32.mat", b.data, b.len);
        const size_t step = getenv("TP_TEST_QUICK") ? 13 : 1;
        int accepted = 0;
        for (size_t i = 0; i < b.len; i += i < 320 || b.len - i < 320 ? 1 : step) {
            CHECK(tp_test_write(path, b.data, i));
            tp_dataflow *df = tp_df_svhn_digit("test", .dir = svhn_dir);
            CHECK_MSG(tp_df_status(df) == TP_ERR_FORMAT && strstr(tp_last_error(), "test_32x32.mat"),
                      "file %d of %d bytes: %s", k, (int)i, tp_last_error());
            tp_df_free(df);
            b.data[i] = (char)(b.data[i] ^ 1 << i % 8);
            CHECK(tp_test_write(path, b.data, b.len));
            df = tp_df_svhn_digit("test", .dir = svhn_dir);
            const tp_status st = tp_df_status(df);
            CHECK_MSG(st == TP_OK ? tp_df_size(df) == 2 : st == TP_ERR_FORMAT || st == TP_ERR_SHAPE,
                      "file %d, byte %d changed: %s", k, (int)i, tp_last_error());
            accepted += st == TP_OK && i >= 320;
            tp_df_free(df);
            b.data[i] = (char)(b.data[i] ^ 1 << i % 8);
        }
        /* of a compressed array, only the bits that fill up the last byte of deflate's data mean nothing */
        CHECK_MSG(k < 2 || accepted <= 2, "%d changes of compressed images and labels were accepted", accepted);
        tp_buf_free(&b);
    }
}

static tp_dataflow *a_svhn(void) { return tp_df_svhn_digit("train", .dir = svhn_dir); }
TEST(svhn_without_memory)
{
    svhn_dir = tp_test_tmpdir();
    write_svhn("train_32x32.mat", (mat_style){.compressed = true}, 3);
    check_no_memory(a_svhn);
}

/* An allocator that counts bytes; each block has its size before it. */
static size_t counted_live, counted_most;
static void *counted_alloc(size_t n, void *user)
{
    char *p = (char *)malloc(n + 16);
    (void)user;
    if (!p) return NULL;
    memcpy(p, &n, sizeof n);
    counted_live += n;
    if (counted_live > counted_most) counted_most = counted_live;
    return p + 16;
}
static void counted_free(void *p, void *user)
{
    size_t n;
    (void)user;
    if (!p) return;
    memcpy(&n, (char *)p - 16, sizeof n);
    counted_live -= n;
    free((char *)p - 16);
}
static void *counted_realloc(void *p, size_t n, void *user)
{
    size_t old = 0;
    void *q = counted_alloc(n, user);
    if (p) memcpy(&old, (char *)p - 16, sizeof old);
    if (q && p) memcpy(q, p, old < n ? old : n);
    if (q) counted_free(p, user);
    return q;
}

/* While a file is read there is no memory but that of the images, of one image more, and what inflate needs. */
TEST(svhn_needs_the_memory_of_its_images)
{
    enum { IMAGES = 2000, LARGE_PAGE = 2 << 20 }; /* a large tensor begins at a large page */
    svhn_dir = tp_test_tmpdir();
    write_svhn("train_32x32.mat", (mat_style){.compressed = true}, IMAGES);
    const tp_allocator counted = {counted_alloc, counted_realloc, counted_free, NULL};
    tp_set_allocator(&counted);
    counted_live = counted_most = 0;
    tp_dataflow *df = tp_df_svhn_digit("train", .dir = svhn_dir);
    CHECK_OK(tp_df_status(df));
    CHECK_MSG(counted_most > (size_t)IMAGES * 3072 && counted_most < (size_t)IMAGES * 3072 + LARGE_PAGE + 300000,
              "%d images needed %zu bytes", (int)IMAGES, counted_most);
    tp_df_free(df);
    CHECK(counted_live == 0);
    tp_set_allocator(NULL);
}

TEST(means_per_pixel_and_per_channel)
{
    make_cifar();
    tp_dataflow *df = tp_df_cifar10("train", .dir = cifar_dir); /* shuffled: whole numbers add up alike in any order */
    tp_tensor mean;
    memset(&mean, 0, sizeof mean);
    double all[3] = {0, 0, 0};
    if (!CHECK_OK(tp_df_per_pixel_mean(df, 0, &mean))) return;
    CHECK(mean.dtype == TP_F32 && tp_tensor_size(&mean) == 3072 && mean.shape.ndim == 3);
    for (int j = 0; j < 1024; j++)
        for (int c = 0; c < 3; c++) {
            double sum = 0;
            for (int n = 0; n < 10; n++) sum += cifar_byte(n / 2, n % 2, c, j);
            all[c] += sum;
            CHECK(((const float *)mean.data)[3 * j + c] == (float)(sum / 10));
        }
    CHECK_OK(tp_df_per_channel_mean(df, 0, &mean));
    CHECK(tp_tensor_size(&mean) == 3 && mean.shape.ndim == 1);
    for (int c = 0; c < 3; c++) CHECK(((const float *)mean.data)[c] == (float)(all[c] / 10240));
    CHECK_OK(tp_df_per_channel_mean(df, 1, &mean)); /* of scalars */
    CHECK_NEAR(((const float *)mean.data)[0], 2.5, 1e-6, 0);
    CHECK_ERR(tp_df_per_pixel_mean(df, 2, &mean), TP_ERR_ARG, "component 2");
    uint64_t first[MOST], then[MOST];
    CHECK(walk(df, 0, first) == 10);
    CHECK_OK(tp_df_per_channel_mean(df, 0, &mean));
    tp_datapoint dp = {0, NULL, 0};
    for (int i = 0; i < 10 && CHECK_OK(tp_df_next(df, &dp)); i++) then[i] = digest(&dp);
    CHECK(memcmp(first, then, 10 * sizeof *first) == 0); /* the flow stands at the start again */
    tp_datapoint_free(&dp);
    tp_tensor_free(&mean);
    tp_df_free(df);
}

/* ==== >>npz =========================================================================================== */

static const char *npz_path;
static void make_npz(void) { npz_path = write_file(tp_test_tmpdir(), "a.npz", ref_npz, sizeof ref_npz); }

TEST(npz_of_numpy)
{
    make_npz();
    tp_dataflow *df = tp_df_npz(npz_path, .names = {"X", "y"}, .shuffle = TP_NO);
    tp_datapoint dp = {0, NULL, 0};
    const int64_t y[5] = {3, 1, 4, 1, 5};
    for (int i = 0; i < 5 && CHECK_OK(tp_df_next(df, &dp)); i++) {
        unsigned char row[6];
        for (int k = 0; k < 6; k++) row[k] = (unsigned char)((6 * i + k) * 7);
        CHECK(same_bytes(&dp.c[0], TP_U8, row, 6) && dp.c[0].shape.ndim == 2 && dp.c[0].shape.dim[1] == 3);
        CHECK(same_bytes(&dp.c[1], TP_I64, &y[i], 8) && dp.c[1].shape.ndim == 0);
    }
    tp_datapoint_free(&dp);
    tp_df_free(df);
    check_protocol(tp_df_npz(npz_path, .names = {"y", "X"}, .seed = 1), 5, true);
    check_protocol(tp_df_npz(npz_path, .names = {"other"}, .shuffle = TP_NO), 2, false);
    check_no_allocation(tp_df_npz(npz_path, .names = {"X", "y"}));
    check_refused(tp_df_npz(npz_path), TP_ERR_SHAPE, "y"); /* all three: of different lengths */
    check_refused(tp_df_npz(npz_path, .names = {"X", "z"}), TP_ERR_NAME, "no array \"z\"; its first is \"X\"");
    check_refused(tp_df_npz(npz_path, .names = {"X", "X"}), TP_ERR_ARG, "\"X\" is asked for twice");
    check_refused(tp_df_npz(NULL), TP_ERR_ARG, "the path is NULL");
    tp_df_npz_desc many = {.path = npz_path};
    for (int i = 0; i <= TP_MAX_COMPONENTS; i++) many.names[i] = "X";
    check_refused(tp_df_npz_(&many), TP_ERR_ARG, "tp_df_npz: at most ");
    check_refused(tp_df_npz(tp_test_path(tp_test_tmpdir(), "none.npz")), TP_ERR_IO, "none.npz");
    static const unsigned char empty[22] = {'P', 'K', 5, 6};
    const char *path = write_file(tp_test_tmpdir(), "empty.npz", empty, sizeof empty);
    check_refused(tp_df_npz(path), TP_ERR_FORMAT, "empty.npz has no arrays: there is nothing to read");
}

/* A header of a few bytes may claim any number of rows without elements, whose order would fill the memory. */
TEST(rows_without_elements)
{
    static const unsigned char idx[12] = {0, 0, 8, 2, 5, 245, 225, 0, 0, 0, 0, 0}; /* uint8, 10^8 x 0 */
    const char *dir = tp_test_tmpdir(), *idx_path = write_file(dir, "rows.idx", idx, sizeof idx);
    check_refused(tp_df_idx(&idx_path, 1), TP_ERR_FORMAT,
                  "rows.idx has the shape (100000000,0), so its rows have no elements");
    tp_dict d = {NULL, 0, 0};
    tp_tensor *x = tp_dict_add(&d, "X");
    CHECK(x && tp_tensor_resize(x, TP_F32, tp_make_shape(1000000, 0, 3)) == TP_OK);
    const char *path = tp_test_path(dir, "rows.npz");
    CHECK_OK(tp_npz_save(path, &d, false));
    check_refused(tp_df_npz(path), TP_ERR_FORMAT,
                  "rows.npz: tp_df_npz: X has the shape (1000000,0,3), so its rows have no elements");
    /* beside another array they have a use, and the file is as large as they are many; so have those of a program */
    CHECK(x && tp_tensor_resize(x, TP_F32, tp_make_shape(7, 0)) == TP_OK);
    tp_tensor *y = tp_dict_add(&d, "y");
    CHECK(y && tp_tensor_resize(y, TP_U8, tp_make_shape(7)) == TP_OK);
    for (int i = 0; y && i < 7; i++) ((unsigned char *)y->data)[i] = (unsigned char)i;
    CHECK_OK(tp_npz_save(path, &d, false));
    check_protocol(tp_df_npz(path, .names = {"X", "y"}), 7, true);
    x = tp_dict_find(&d, "X");
    if (CHECK(x)) check_protocol(tp_df_from_arrays(x, 1, .shuffle = TP_NO), 7, false);
    tp_dict_free(&d);
}

static void put_number(tp_buf *b, uint32_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)(v >> 8 * i);
        tp_buf_put(b, &c, 1);
    }
}
/* Adds a stored member to a zip file and its entry to the directory. */
static void zip_put(tp_buf *zip, tp_buf *directory, const char *name, const tp_buf *data, uint32_t flags,
                    uint32_t method, uint32_t crc)
{
    const uint32_t at = (uint32_t)zip->len, size = (uint32_t)data->len, length = (uint32_t)strlen(name);
    for (int central = 0; central < 2; central++) {
        tp_buf *b = central ? directory : zip;
        put_number(b, central ? 0x02014b50u : 0x04034b50u, 4);
        put_number(b, 20, central ? 4 : 2);
        put_number(b, flags, 2);
        put_number(b, method, 2);
        put_number(b, 0, 4);
        put_number(b, crc, 4);
        put_number(b, size, 4);
        put_number(b, size, 4);
        put_number(b, length, 4);
        if (central) {
            for (int i = 0; i < 3; i++) put_number(b, 0, i < 2 ? 4 : 2);
            put_number(b, at, 4);
        }
        tp_buf_put(b, name, length);
        if (!central) tp_buf_put(b, data->data, data->len);
    }
}
static void zip_put_array(tp_buf *zip, tp_buf *directory, const char *name, const char *type, int rows, int row_bytes)
{
    tp_buf npy = {NULL, 0, 0, false};
    char header[119];
    memset(header, ' ', sizeof header);
    header[snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%d,)}", type, rows)] =
        ' ';
    header[117] = '\n';
    tp_buf_put(&npy, "\x93NUMPY\1", 7);
    put_number(&npy, 118 << 8, 3);
    tp_buf_put(&npy, header, 118);
    for (int i = 0; i < rows * row_bytes; i++) put_number(&npy, (uint32_t)i, 1);
    zip_put(zip, directory, name, &npy, 0, 0, tp_crc32(0, npy.data, npy.len) + (strcmp(name, "bad.npy") == 0));
    tp_buf_free(&npy);
}
/* Beside X and y: arrays and members that cannot be read, and a large one. */
static void make_mixed_npz(tp_buf *zip)
{
    static const char bytes[] = "not an array";
    tp_buf directory = {NULL, 0, 0, false}, text = {NULL, 0, 0, false};
    tp_buf_put(&text, bytes, sizeof bytes);
    zip_put(zip, &directory, "readme.txt", &text, 0, 0, tp_crc32(0, text.data, text.len));
    zip_put_array(zip, &directory, "X.npy", "|u1", 6, 1);
    zip_put_array(zip, &directory, "class_names.npy", "<U3", 2, 12);
    zip_put_array(zip, &directory, "bad.npy", "|u1", 6, 1);
    zip_put_array(zip, &directory, "large.npy", "|u1", 1 << 20, 1);
    zip_put(zip, &directory, "secret.npy", &text, 1, 0, 0);
    zip_put(zip, &directory, "packed.npy", &text, 0, 12, 0);
    zip_put_array(zip, &directory, "y", "|u1", 6, 1);
    const uint32_t begin = (uint32_t)zip->len;
    tp_buf_put(zip, directory.data, directory.len);
    put_number(zip, 0x06054b50u, 4);
    put_number(zip, 0, 4);
    put_number(zip, 8 | 8 << 16, 4);
    put_number(zip, (uint32_t)directory.len, 4);
    put_number(zip, begin, 4);
    put_number(zip, 0, 2);
    CHECK(!zip->failed && !directory.failed && !text.failed);
    tp_buf_free(&directory);
    tp_buf_free(&text);
}
/* With names only those arrays are read: the others may be of any kind, and take no memory. */
TEST(npz_with_names_reads_only_those)
{
    tp_buf zip = {NULL, 0, 0, false};
    make_mixed_npz(&zip);
    const char *path = write_file(tp_test_tmpdir(), "mixed.npz", zip.data, zip.len);
    tp_test_fail_after(0);
    tp_dataflow *df = tp_df_npz(path, .names = {"y", "X"}, .shuffle = TP_NO);
    CHECK_OK(tp_df_status(df));
    CHECK_MSG(tp_test_alloc_bytes() < 1 << 18, "%lld bytes were asked for", (long long)tp_test_alloc_bytes());
    tp_datapoint dp = {0, NULL, 0};
    for (int i = 0; i < 6 && CHECK_OK(tp_df_next(df, &dp)); i++)
        CHECK(dp.n == 2 && tp_tensor_get(&dp.c[0], 0) < i + 0.5 && tp_tensor_get(&dp.c[1], 0) > i - 0.5);
    CHECK(tp_df_next(df, &dp) == TP_END);
    tp_datapoint_free(&dp);
    tp_df_free(df);
    CHECK(tp_test_live_blocks() == 0);
    tp_test_alloc_reset();
    check_refused(tp_df_npz(path), TP_ERR_UNSUPPORTED, "member 'secret.npy' is encrypted");
    check_refused(tp_df_npz(path, .names = {"X", "secret"}), TP_ERR_UNSUPPORTED, "member 'secret.npy' is encrypted");
    check_refused(tp_df_npz(path, .names = {"packed"}), TP_ERR_UNSUPPORTED, "'packed.npy' is compressed by method 12");
    check_refused(tp_df_npz(path, .names = {"class_names"}), TP_ERR_UNSUPPORTED, "elements of type '<U3' are not read");
    check_refused(tp_df_npz(path, .names = {"bad"}), TP_ERR_FORMAT, "array 'bad': the checksum does not match");
    check_refused(tp_df_npz(path, .names = {"readme.txt"}), TP_ERR_FORMAT, "this is no npy array");
    check_refused(tp_df_npz(path, .names = {"X", "Y"}), TP_ERR_NAME, "no array \"Y\"; its first is \"readme.txt\"");
    check_refused(tp_df_npz(path, .names = {"y.npy"}), TP_ERR_NAME, "no array \"y.npy\"");
    check_refused(tp_df_npz(tp_test_tmpdir(), .names = {"X"}), TP_ERR_IO, "is a directory");
    path = write_file(tp_test_tmpdir(), "cut.npz", zip.data, zip.len - 1);
    check_refused(tp_df_npz(path, .names = {"X"}), TP_ERR_FORMAT, "it has no end record");
    const char *pipe = tp_test_path(tp_test_tmpdir(), "pipe.npz");
    if (CHECK(mkfifo(pipe, 0600) == 0)) { /* it can be read only once, from the beginning */
        fflush(stdout);
        const pid_t pid = fork();
        if (pid == 0) _exit(tp_test_write(pipe, zip.data, zip.len) ? 0 : 1);
        df = tp_df_npz(pipe, .names = {"X"}, .shuffle = TP_NO);
        CHECK_OK(tp_df_status(df));
        CHECK(tp_df_size(df) == 6);
        tp_df_free(df);
        waitpid(pid, NULL, 0);
    }
    tp_buf_free(&zip);
}

static tp_dataflow *an_npz(void) { return tp_df_npz(npz_path, .names = {"X", "y"}); }
TEST(npz_without_memory)
{
    make_npz();
    check_no_memory(an_npz);
}

/* ==== >>tfrecord ====================================================================================== */

static const char *const feature_names[] = {"ids", "image", "label", "weights"}; /* sorted, as protobuf wrote them */
static const tp_spec features[] = {TP_SPEC("image", TP_U8, 2, 3), TP_SPEC("label", TP_I32),
                                   TP_SPEC("ids", TP_I64, TP_ANY), TP_SPEC("weights", TP_F32, 3)};

static const unsigned char *ref_example(int i, size_t *size)
{
    *size = i == 0 ? sizeof ref_example0 : i == 1 ? sizeof ref_example1 : sizeof ref_example2;
    return i == 0 ? ref_example0 : i == 1 ? ref_example1 : ref_example2;
}

static void check_example(const tp_datapoint *dp, int i)
{
    unsigned char image[6];
    const int32_t label = i - 1;
    const int64_t ids[3] = {-1, (int64_t)1 << 40, 300};
    const float weights[3] = {0.5f, -1.25f * (float)i, 1e-3f};
    for (int k = 0; k < 6; k++) image[k] = (unsigned char)(10 * i + k);
    CHECK(dp->n == 4 && same_bytes(&dp->c[0], TP_U8, image, 6) && dp->c[0].shape.ndim == 2);
    CHECK(same_bytes(&dp->c[1], TP_I32, &label, 4) && dp->c[1].shape.ndim == 0);
    CHECK(same_bytes(&dp->c[2], TP_I64, ids, (size_t)i * 8) && dp->c[2].shape.dim[0] == i);
    CHECK(same_bytes(&dp->c[3], TP_F32, weights, 12));
}

TEST(examples_of_protobuf_are_read_and_written_alike)
{
    tp_datapoint dp = {0, NULL, 0}, sorted = {0, NULL, 0};
    for (int i = 0; i < 3; i++) {
        size_t size;
        const unsigned char *data = ref_example(i, &size);
        tp_buf out = {NULL, 0, 0, false};
        if (!CHECK_OK(tp_example_parse(data, size, "ref", features, 4, &dp))) continue;
        check_example(&dp, i);
        CHECK_OK(tp_datapoint_resize(&sorted, 4));
        const int order[4] = {2, 0, 1, 3};
        for (int k = 0; k < 4; k++)
            tp_tensor_view(&sorted.c[k], dp.c[order[k]].dtype, dp.c[order[k]].shape, dp.c[order[k]].data);
        CHECK_OK(tp_example_write(&sorted, feature_names, &out));
        CHECK_MSG(out.len == size && memcmp(out.data, data, size) == 0, "example %d: other bytes than protobuf's", i);
        tp_buf_free(&out);
    }
    tp_datapoint_free(&dp);
    tp_datapoint_free(&sorted);
}

TEST(examples_that_cannot_be_written)
{
    static const char *const names[2] = {"a", "b"}, *const nameless[2] = {"a", NULL};
    const float values[2] = {1, 2};
    tp_device elsewhere;
    tp_datapoint dp = {0, NULL, 0};
    tp_buf out = {NULL, 0, 0, false};
    memset(&elsewhere, 0, sizeof elsewhere);
    CHECK_OK(tp_datapoint_resize(&dp, 2));
    for (int i = 0; i < 2; i++) tp_tensor_view(&dp.c[i], TP_F32, tp_make_shape(2), values);
    CHECK_ERR(tp_example_write(&dp, nameless, &out), TP_ERR_ARG, "component 1 has no name");
    dp.c[1].device = &elsewhere;
    CHECK_ERR(tp_example_write(&dp, names, &out), TP_ERR_ARG, "component 1 has no data in host memory");
    dp.c[1].device = NULL, dp.c[0].dtype = TP_DTYPE_UNSET;
    CHECK_ERR(tp_example_write(&dp, names, &out), TP_ERR_ARG, "component 0 has no dtype");
    dp.c[0].dtype = TP_F32;
    CHECK(out.len == 0 && !out.failed); /* none of it is in the buffer */
    long n = 1;
    for (long failed = 1; failed; n++) {
        tp_test_fail_after(n);
        const tp_status st = tp_example_write(&dp, names, &out);
        failed = tp_test_alloc_failed();
        CHECK(failed ? st == TP_ERR_NOMEM && out.failed : st == TP_OK && out.len > 0);
        tp_buf_free(&out);
        CHECK(tp_test_live_blocks() == 0);
    }
    CHECK(n > 3);
    tp_test_alloc_reset();
    tp_datapoint_free(&dp);
}

/* Example { features { feature { key: "x" value { <list> } } } } around the bytes of a list's message. */
static tp_status parse_list(int kind, const void *list, size_t n, const tp_spec *spec, tp_datapoint *dp)
{
    unsigned char m[256];
    const unsigned char k = (unsigned char)n;
    size_t at = 0;
    m[at++] = 0x0a, m[at++] = (unsigned char)(k + 9);
    m[at++] = 0x0a, m[at++] = (unsigned char)(k + 7);
    m[at++] = 0x0a, m[at++] = 1, m[at++] = 'x';
    m[at++] = 0x12, m[at++] = (unsigned char)(k + 2);
    m[at++] = (unsigned char)(kind << 3 | 2), m[at++] = k;
    memcpy(m + at, list, n);
    return tp_example_parse(m, at + n, "hand", spec, 1, dp);
}

TEST(example_lists_packed_and_unpacked)
{
    tp_datapoint dp = {0, NULL, 0};
    const tp_spec ints[1] = {TP_SPEC("x", TP_I32, TP_ANY)}, floats[1] = {TP_SPEC("x", TP_F64, TP_ANY)},
                  raw[1] = {TP_SPEC("x", TP_F32, 1, TP_ANY)};
    /* values 1 and 300, each with its key; then packed; then both ways in one list */
    CHECK_OK(parse_list(3, "\x08\x01\x08\xac\x02", 5, ints, &dp));
    CHECK(dp.c[0].shape.dim[0] == 2 && tp_tensor_get(&dp.c[0], 0) == 1 && tp_tensor_get(&dp.c[0], 1) == 300);
    CHECK_OK(parse_list(3, "\x0a\x03\x01\xac\x02", 5, ints, &dp));
    CHECK(dp.c[0].shape.dim[0] == 2 && tp_tensor_get(&dp.c[0], 0) == 1 && tp_tensor_get(&dp.c[0], 1) == 300);
    CHECK_OK(parse_list(3, "\x08\x07\x0a\x03\x01\xac\x02\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 18, ints, &dp));
    CHECK(dp.c[0].shape.dim[0] == 4 && tp_tensor_get(&dp.c[0], 0) == 7 && tp_tensor_get(&dp.c[0], 3) == -1);
    /* 1.5 is 00 00 c0 3f */
    CHECK_OK(parse_list(2, "\x0d\0\0\xc0\x3f\x0a\x04\0\0\xc0\x3f", 11, floats, &dp));
    CHECK(dp.c[0].dtype == TP_F64 && dp.c[0].shape.dim[0] == 2 && tp_tensor_get(&dp.c[0], 0) == 1.5 &&
          tp_tensor_get(&dp.c[0], 1) == 1.5);
    /* a string as little-endian elements */
    CHECK_OK(parse_list(1, "\x0a\x04\0\0\xc0\x3f", 6, raw, &dp));
    CHECK(dp.c[0].shape.ndim == 2 && dp.c[0].shape.dim[1] == 1 && tp_tensor_get(&dp.c[0], 0) == 1.5);
    CHECK_OK(parse_list(3, "", 0, ints, &dp));
    CHECK(dp.c[0].shape.dim[0] == 0);
    /* what cannot be */
    CHECK_ERR(parse_list(3, "\x0a\x02\x01\xac", 4, ints, &dp), TP_ERR_FORMAT, "no tf.train.Example");
    CHECK_ERR(parse_list(2, "\x0a\x03\0\0\0", 5, floats, &dp), TP_ERR_FORMAT, "no tf.train.Example");
    CHECK_ERR(parse_list(3, "\x0d\0\0\0\0", 5, ints, &dp), TP_ERR_FORMAT, "no tf.train.Example");
    CHECK_ERR(parse_list(2, "\x0d\0\0\xc0\x3f", 5, ints, &dp), TP_ERR_DTYPE,
              "hand: feature \"x\" is a float list, it cannot be read as int32");
    CHECK_ERR(parse_list(1, "\x0a\x01g\x0a\x01h", 6, raw, &dp), TP_ERR_FORMAT, "has 2 strings");
    CHECK_ERR(parse_list(1, "\x0a\x03ghi", 5, raw, &dp), TP_ERR_FORMAT, "has 3 bytes");
    CHECK_ERR(parse_list(3, "\x08\x80\x80\x80\x80\x08", 6, ints, &dp), TP_ERR_FORMAT,
              "does not fit into int32"); /* 2^31 */
    const tp_spec two[1] = {TP_SPEC("x", TP_I32, 2)}, other[1] = {TP_SPEC("y", TP_I32)},
                  small[1] = {TP_SPEC("x", TP_U8, TP_ANY)};
    CHECK_ERR(parse_list(3, "\x08\x01", 2, two, &dp), TP_ERR_SHAPE,
              "an int64 list with 1 elements, which do not have the shape (2)");
    /* of one open dimension the size is what the numbers leave; of two it is not known */
    static const struct {
        tp_shape shape, want; /* no dimensions: it is refused */
    } open[] = {{{2, {TP_ANY, 2}}, {2, {3, 2}}},
                {{2, {2, TP_ANY}}, {2, {2, 3}}},
                {{3, {1, TP_ANY, 6}}, {3, {1, 1, 6}}},
                {{1, {6}}, {1, {6}}},
                {{2, {TP_ANY, TP_ANY}}, {0, {0}}},
                {{3, {TP_ANY, 2, TP_ANY}}, {0, {0}}},
                {{3, {2, TP_ANY, TP_ANY}}, {0, {0}}},
                {{2, {TP_ANY, 4}}, {0, {0}}},
                {{2, {TP_ANY, 0}}, {0, {0}}},
                {{2, {0, TP_ANY}}, {0, {0}}},
                {{2, {2, 4}}, {0, {0}}},
                {{3, {INT64_MAX, 2, TP_ANY}}, {0, {0}}}};
    for (int i = 0; i < TP_COUNT(open); i++) {
        tp_spec six[1] = {TP_SPEC("x", TP_I32)};
        six[0].shape = open[i].shape;
        const tp_status st = parse_list(3, "\x0a\x06\1\2\3\4\5\6", 8, six, &dp);
        if (open[i].want.ndim) CHECK_MSG(st == TP_OK && tp_shape_equal(&dp.c[0].shape, &open[i].want), "shape %d", i);
        else CHECK_ERR(st, TP_ERR_SHAPE, "with 6 elements, which do not have the shape");
    }
    CHECK_ERR(parse_list(3, "\x08\x01", 2, other, &dp), TP_ERR_NAME, "hand has no feature \"y\"");
    CHECK_ERR(parse_list(3, "\x08\x80\x02", 3, small, &dp), TP_ERR_FORMAT, "does not fit into uint8"); /* 256 */
    CHECK_OK(parse_list(3, "\x08\xff\x01", 3, small, &dp));
    CHECK(tp_tensor_get(&dp.c[0], 0) == 255);
    tp_datapoint_free(&dp);
}

/* A number of an int64 list is read as a float that is this number, or not at all. */
TEST(int64_lists_as_floats_are_exact)
{
    static const struct {
        tp_dtype dtype;
        int64_t most;               /* the largest of the whole numbers that it has without a gap */
        int64_t largest, too_large; /* numbers beyond them, the second one is none of its own */
    } row[] = {{TP_F16, 2048, 65504, 65536},
               {TP_BF16, 256, (int64_t)1 << 62, INT64_MAX},
               {TP_F32, 1 << 24, (int64_t)1 << 62, INT64_MAX},
               {TP_F64, (int64_t)1 << 53, (int64_t)1 << 62, INT64_MAX}};
    tp_datapoint dp = {0, NULL, 0};
    for (int i = 0; i < TP_COUNT(row); i++)
        for (int sign = 1; sign >= -1; sign -= 2)
            for (int packed = 0; packed < 2; packed++) {
                const tp_spec spec[1] = {{"x", row[i].dtype, {1, {TP_ANY}}}};
                const int64_t v[6] = {
                    0, row[i].most - 1, row[i].most, row[i].most + 1, row[i].largest, row[i].too_large};
                for (int k = 0; k < 6; k++) {
                    const int64_t x = sign * v[k];
                    unsigned char list[16];
                    size_t n = 2;
                    for (uint64_t left = (uint64_t)x;; left >>= 7) {
                        list[n++] = (unsigned char)(left & 127) | (left > 127 ? 128 : 0);
                        if (left <= 127) break;
                    }
                    list[0] = packed ? 0x0a : 0x08, list[1] = (unsigned char)(n - 2);
                    if (!packed) memmove(list + 1, list + 2, --n);
                    const tp_status st = parse_list(3, list, n, spec, &dp);
                    if (k == 3 || k == 5) {
                        char want[100];
                        snprintf(want, sizeof want,
                                 "hand: feature \"x\" holds a number that is damaged or does not fit into %s",
                                 tp_dtype_name(row[i].dtype));
                        CHECK_ERR(st, TP_ERR_FORMAT, want);
                    } else {
                        CHECK_MSG(st == TP_OK && tp_tensor_get(&dp.c[0], 0) == (double)x, "%s: %lld is %g",
                                  tp_dtype_name(row[i].dtype), (long long)x, tp_tensor_get(&dp.c[0], 0));
                    }
                }
            }
    const tp_spec spec[1] = {TP_SPEC("x", TP_F64, TP_ANY)}; /* -2^63 is a float */
    CHECK_OK(parse_list(3, "\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11, spec, &dp));
    CHECK(tp_tensor_get(&dp.c[0], 0) == -9223372036854775808.0);
    tp_datapoint_free(&dp);
}

/* Each feature needs a name, and its dtype is one that there is. */
TEST(features_without_a_name_or_dtype)
{
    static const char value[2] = {8, 1};
    tp_datapoint dp = {0, NULL, 0};
    for (int bad = 0; bad < 4; bad++) {
        tp_spec spec[1] = {TP_SPEC("x", TP_I32, TP_ANY)};
        if (bad == 1) spec[0].name = NULL;
        if (bad == 2) spec[0].dtype = TP_DTYPE_COUNT;
        if (bad == 3) spec[0].dtype = (tp_dtype)99;
        const tp_status st = parse_list(3, value, 2, spec, &dp);
        if (bad) CHECK_ERR(st, TP_ERR_ARG, "feature 0 has no name or no dtype");
        else CHECK_OK(st);
    }
    tp_datapoint_free(&dp);
}

static const char *record_paths[2];
static void make_records(void)
{
    const char *dir = tp_test_tmpdir();
    record_paths[0] = write_file(dir, "a.tfrecord", ref_tfrecord, sizeof ref_tfrecord - 16); /* without the empty one */
    record_paths[1] = write_file(dir, "b.tfrecord", ref_tfrecord, sizeof ref_example0 + 16); /* the first */
}

TEST(tfrecords_of_tensorboard_are_read_and_written_alike)
{
    const char *dir = tp_test_tmpdir(), *path = write_file(dir, "r.tfrecord", ref_tfrecord, sizeof ref_tfrecord);
    tp_tfrecord_reader *r = NULL;
    tp_buf out = {NULL, 0, 0, false};
    tp_writer *w = NULL;
    const void *data;
    size_t size, want;
    if (!CHECK_OK(tp_tfrecord_open(&r, path))) return;
    CHECK_OK(tp_writer_open(&w, tp_test_path(dir, "w.tfrecord")));
    for (int i = 0; i < 4 && CHECK_OK(tp_tfrecord_next(r, &data, &size)); i++) {
        const unsigned char *example = ref_example(i, &want);
        if (i == 3) want = 0;
        CHECK(size == want && (!want || memcmp(data, example, size) == 0));
        tp_tfrecord_append(&out, data, size);
        CHECK_OK(tp_tfrecord_put(w, data, size));
    }
    CHECK(tp_tfrecord_next(r, &data, &size) == TP_END && tp_tfrecord_next(r, &data, &size) == TP_END);
    tp_tfrecord_close(r);
    CHECK_OK(tp_writer_commit(w));
    CHECK(out.len == sizeof ref_tfrecord && memcmp(out.data, ref_tfrecord, out.len) == 0);
    tp_buf_free(&out);
    char *whole = NULL;
    CHECK_OK(tp_file_read(tp_test_path(dir, "w.tfrecord"), false, 0, &whole, &size));
    CHECK(size == sizeof ref_tfrecord && memcmp(whole, ref_tfrecord, size) == 0);
    tp_free(whole);
}

/* Lists of floats are converted in blocks: each element is what tp_convert makes of it, at any length and alignment. */
TEST(tfrecords_of_many_floats)
{
    static const tp_dtype to[] = {TP_F32, TP_F64, TP_F16};
    static const int64_t size[] = {1, 255, 256, 257, 700};
    static const char *const name[] = {"wave"};
    for (int k = 0; k < TP_COUNT(to) * TP_COUNT(size); k++) {
        const tp_dtype t = to[k % TP_COUNT(to)];
        const int64_t n = size[k / TP_COUNT(to)];
        const char *const path = tp_test_path(tp_test_tmpdir(), "floats.tfrecord");
        tp_spec spec = {"wave", t, tp_make_shape_n(1, &n)};
        tp_datapoint dp = {0, NULL, 0};
        tp_tensor x, want;
        memset(&x, 0, sizeof x), memset(&want, 0, sizeof want);
        const int64_t rows[2] = {2, n};
        CHECK_OK(tp_tensor_resize(&x, TP_F32, tp_make_shape_n(2, rows)));
        CHECK_OK(tp_tensor_resize(&want, t, tp_make_shape_n(2, rows)));
        for (int64_t i = 0; i < 2 * n; i++) tp_tensor_set(&x, i, (double)(i * 7919 % 1009) / 7 - 40);
        for (int64_t i = 0; i < 2 * n; i++) tp_tensor_set(&want, i, tp_tensor_get(&x, i));
        tp_dataflow *df = tp_df_from_arrays(&x, 1, .shuffle = TP_NO);
        CHECK_OK(tp_df_save_tfrecord(df, path, name, 1));
        tp_df_free(df);
        df = tp_df_tfrecord(&path, 1, .features = &spec, .n_features = 1);
        const size_t bytes = (size_t)n * tp_dtype_size(t);
        for (size_t i = 0; i < 2 && CHECK_OK(tp_df_next(df, &dp)); i++)
            CHECK_MSG(memcmp(dp.c[0].data, (const char *)want.data + i * bytes, bytes) == 0, "%s", tp_dtype_name(t));
        tp_df_free(df);
        tp_datapoint_free(&dp);
        tp_tensor_free(&x), tp_tensor_free(&want);
    }
}

TEST(tfrecord_flows)
{
    make_records();
    tp_dataflow *df = tp_df_tfrecord(record_paths, 2, .features = features, .n_features = 4);
    tp_datapoint dp = {0, NULL, 0};
    for (int i = 0; i < 4 && CHECK_OK(tp_df_next(df, &dp)); i++) check_example(&dp, i % 3);
    CHECK(tp_df_next(df, &dp) == TP_END);
    tp_df_free(df);
    df = tp_df_tfrecord(record_paths, 1);
    for (int i = 0; i < 3 && CHECK_OK(tp_df_next(df, &dp)); i++) {
        size_t size;
        const unsigned char *data = ref_example(i, &size);
        CHECK(dp.n == 1 && same_bytes(&dp.c[0], TP_U8, data, size));
    }
    tp_datapoint_free(&dp);
    tp_df_free(df);
    check_protocol(tp_df_tfrecord(record_paths, 2, .features = features, .n_features = 4), 4, false);
    check_protocol(tp_df_tfrecord(record_paths, 1, .features = features, .n_features = 4, .shuffle = TP_YES), 3, true);
    check_no_allocation(tp_df_tfrecord(record_paths, 2, .features = features, .n_features = 4));
    const tp_spec missing[1] = {TP_SPEC("depth", TP_F32)};
    df = tp_df_tfrecord(record_paths, 1, .features = missing, .n_features = 1);
    CHECK_OK(tp_df_seek(df, 1, NULL));
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_NAME, "a.tfrecord: record 1 at byte 104 has no feature \"depth\"");
    tp_df_free(df);
    tp_datapoint_free(&dp);
    check_refused(tp_df_tfrecord(NULL, 0), TP_ERR_ARG, "at least one path");
    check_refused(tp_df_tfrecord(record_paths, 1, .n_features = 2), TP_ERR_ARG, "2 features at NULL");
}

TEST(more_tfrecord_files_than_are_kept_open)
{
    const char *dir = tp_test_tmpdir(), *paths[70];
    static char names[70][300];
    for (int i = 0; i < 70; i++) {
        const char c = (char)i;
        tp_buf b = {NULL, 0, 0, false};
        tp_tfrecord_append(&b, &c, 1);
        snprintf(names[i], sizeof names[i], "%s/%d", dir, i);
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        write_file(dir, name, b.data, b.len);
        paths[i] = names[i];
        tp_buf_free(&b);
    }
    check_protocol(tp_df_tfrecord(paths, 70, .shuffle = TP_YES), 70, true);
    /* a file that was closed and is opened once more: as long as it was, or shorter */
    for (long cut = 0; cut <= 17; cut++) {
        tp_datapoint dp = {0, NULL, 0};
        tp_buf b = {NULL, 0, 0, false};
        tp_tfrecord_append(&b, "a", 1);
        write_file(dir, "3", b.data, b.len);
        tp_dataflow *df = tp_df_tfrecord(paths, 70);
        CHECK_OK(tp_df_seek(df, 3, NULL));
        CHECK(b.len == 17 && truncate(paths[3], (off_t)(17 - cut)) == 0);
        if (cut == 0) CHECK(tp_df_next(df, &dp) == TP_OK && tp_tensor_get(&dp.c[0], 0) == 'a');
        else CHECK_ERR(tp_df_next(df, &dp), TP_ERR_FORMAT, "/3 has become shorter since the flow was made");
        CHECK_OK(tp_df_next(df, &dp)); /* the next file is whole */
        tp_df_free(df);
        tp_datapoint_free(&dp);
        tp_buf_free(&b);
    }
}

TEST(damaged_tfrecords_are_named_by_number_and_byte)
{
    const char *dir = tp_test_tmpdir();
    unsigned char bytes[sizeof ref_tfrecord];
    tp_datapoint dp = {0, NULL, 0};
    const size_t second = sizeof ref_example0 + 16; /* where record 1 begins */
    for (size_t cut = second + 1; cut < second + sizeof ref_example1 + 16; cut += 7) {
        const char *path = write_file(dir, "cut", ref_tfrecord, cut);
        check_refused(tp_df_tfrecord(&path, 1), TP_ERR_FORMAT, "cut: record 1 at byte 104 is cut short");
    }
    for (size_t at = 0; at < 12; at++) { /* the length and its checksum */
        memcpy(bytes, ref_tfrecord, sizeof bytes);
        bytes[second + at] ^= 0x10;
        const char *path = write_file(dir, "head", bytes, sizeof bytes);
        check_refused(tp_df_tfrecord(&path, 1), TP_ERR_FORMAT,
                      "record 1 at byte 104: the checksum of its length does not match");
    }
    for (size_t at = second + 12; at < second + 12 + sizeof ref_example1 + 4; at += 5) { /* the data and theirs */
        memcpy(bytes, ref_tfrecord, sizeof bytes);
        bytes[at] ^= 0x01;
        const char *path = write_file(dir, "data", bytes, sizeof bytes);
        tp_dataflow *df = tp_df_tfrecord(&path, 1);
        CHECK_OK(tp_df_next(df, &dp));
        CHECK_ERR(tp_df_next(df, &dp), TP_ERR_FORMAT,
                  "data: record 1 at byte 104: the checksum of its data does not match");
        CHECK_OK(tp_df_next(df, &dp)); /* the next one is whole */
        tp_df_free(df);
    }
    tp_datapoint_free(&dp);
    /* gzip's first two bytes mean gzip at the beginning of the file, and both of them */
    memcpy(bytes, ref_tfrecord, sizeof bytes);
    bytes[second] = 0x1f, bytes[second + 1] = 0x8b;
    const char *path = write_file(dir, "later", bytes, sizeof bytes);
    check_refused(tp_df_tfrecord(&path, 1), TP_ERR_FORMAT,
                  "later: record 1 at byte 104: the checksum of its length does not match: the file is damaged");
    for (int which = 0; which < 2; which++) {
        memcpy(bytes, ref_tfrecord, sizeof bytes);
        bytes[which] = which ? 0x8b : 0x1f;
        path = write_file(dir, "half", bytes, sizeof bytes);
        check_refused(tp_df_tfrecord(&path, 1), TP_ERR_FORMAT,
                      "half: record 0 at byte 0: the checksum of its length does not match: this is no TFRecord file");
    }
    path = write_file(dir, "gz", "\x1f\x8b\x08 and so on, for sixteen bytes", 30);
    check_refused(tp_df_tfrecord(&path, 1), TP_ERR_FORMAT, "compressed by gzip");
    check_refused(tp_df_tfrecord(&dir, 1), TP_ERR_IO, "is not a file");
    path = tp_test_path(dir, "none");
    check_refused(tp_df_tfrecord(&path, 1), TP_ERR_IO, "none cannot be opened");
    static char old; /* what was there before is not kept */
    tp_tfrecord_reader *r = (tp_tfrecord_reader *)(void *)&old;
    CHECK_ERR(tp_tfrecord_open(&r, path), TP_ERR_IO, "none cannot be opened");
    CHECK(!r);
}

/* The file is cut while it is open, at each byte of its second record. */
TEST(a_tfrecord_file_that_becomes_shorter)
{
    const char *dir = tp_test_tmpdir();
    const size_t second = sizeof ref_example0 + 16; /* where record 1 begins */
    tp_datapoint dp = {0, NULL, 0};
    for (size_t left = second; left < second + sizeof ref_example1 + 16; left++) {
        const char *path = write_file(dir, "short", ref_tfrecord, sizeof ref_tfrecord);
        tp_tfrecord_reader *r = NULL;
        tp_dataflow *df = tp_df_tfrecord(&path, 1);
        const void *data;
        size_t size;
        if (!CHECK_OK(tp_tfrecord_open(&r, path))) break;
        CHECK(truncate(path, (off_t)left) == 0);
        CHECK(tp_tfrecord_next(r, &data, &size) == TP_OK && size == sizeof ref_example0);
        for (int again = 0; again < 2; again++)
            CHECK_ERR(tp_tfrecord_next(r, &data, &size), TP_ERR_FORMAT, "short has become shorter while it was read");
        tp_tfrecord_close(r);
        CHECK_OK(tp_df_next(df, &dp));
        CHECK_ERR(tp_df_next(df, &dp), TP_ERR_FORMAT, "short has become shorter while it was read");
        tp_df_free(df);
    }
    tp_datapoint_free(&dp);
}

/* Reads all four records. 0: they came; 1: a sentence says that the file cannot be read; 2: something else. */
static int read_records(void *path)
{
    tp_tfrecord_reader *r = NULL;
    const void *data;
    size_t size;
    int n = 0;
    tp_status st = tp_tfrecord_open(&r, (const char *)path);
    while (st == TP_OK && (st = tp_tfrecord_next(r, &data, &size)) == TP_OK) n++;
    tp_tfrecord_close(r);
    if (st == TP_END) return n == 4 ? 0 : 2;
    return st == TP_ERR_IO && strstr(tp_last_error(), "cannot be read") ? 1 : 2;
}
static int read_flow(void *path)
{
    const char *const paths[1] = {(const char *)path};
    tp_dataflow *df = tp_df_tfrecord(paths, 1);
    tp_datapoint dp = {0, NULL, 0};
    int n = 0;
    tp_status st = df ? tp_df_status(df) : TP_ERR_NOMEM;
    while (st == TP_OK && (st = tp_df_next(df, &dp)) == TP_OK) n++;
    tp_datapoint_free(&dp);
    tp_df_free(df);
    if (st == TP_END) return n == 4 ? 0 : 2;
    return st == TP_ERR_IO && strstr(tp_last_error(), "cannot be read") ? 1 : 2;
}
/* Each read of the file fails in its turn, is interrupted, or gives half of the bytes. */
TEST(reads_of_tfrecords_that_fail)
{
    char path[300];
    snprintf(path, sizeof path, "%s", write_file(tp_test_tmpdir(), "r.tfrecord", ref_tfrecord, sizeof ref_tfrecord));
    for (int flow = 0; flow < 2; flow++)
        for (int kind = 0; kind < 3; kind++) {
            inject_plan plan;
            inject_result r;
            memset(&plan, 0, sizeof plan);
            plan.what = kind < 2 ? INJECT_FAIL : INJECT_SHORT;
            plan.error = kind ? EINTR : EIO;
            plan.kinds = INJECT_READ;
            for (plan.n = 1;; plan.n++) {
                memset(&r, 0, sizeof r);
                fflush(stdout);
                if (inject_run(flow ? read_flow : read_records, path, &plan, &r) != 0) TEST_SKIP(r.why);
                CHECK_MSG(WIFEXITED(r.status) && WEXITSTATUS(r.status) == (kind == 0 && r.fired),
                          "read %ld of the %s, fault %d: status %d", plan.n, flow ? "flow" : "reader", kind, r.status);
                if (!r.fired || plan.n > 100) break;
            }
            CHECK_MSG(plan.n == 9, "%ld reads", plan.n - 1); /* two for each record */
        }
}

static tp_dataflow *records(void)
{
    return tp_df_tfrecord(record_paths, 2, .features = features, .n_features = 4, .shuffle = TP_YES);
}
static tp_dataflow *records_as_bytes(void) { return tp_df_tfrecord(record_paths, 2, .shuffle = TP_NO); }
TEST(tfrecord_without_memory)
{
    make_records();
    check_no_memory(records);
    check_no_memory(records_as_bytes);
    /* a record without a feature that is asked for: either that is said, or that there is no memory to say it */
    const tp_spec missing[1] = {{"no such feature", TP_F32, {0, {0}}}};
    for (long n = 1, failed = 1; failed && n < 100; n++) {
        tp_datapoint dp = {0, NULL, 0};
        tp_dataflow *df = tp_df_tfrecord(record_paths, 2, .features = missing, .n_features = 1);
        CHECK_OK(tp_df_seek(df, 1, NULL));
        tp_test_fail_after(n);
        const tp_status st = tp_df_next(df, &dp);
        failed = tp_test_alloc_failed();
        tp_test_alloc_reset();
        if (failed) CHECK_MSG(st == TP_ERR_NOMEM, "allocation %ld: %s", n, tp_status_name(st));
        else CHECK_ERR(st, TP_ERR_NAME, "has no feature \"no such feature\"");
        CHECK_MSG(failed || n > 2, "only %ld allocations", n);
        tp_datapoint_free(&dp);
        tp_df_free(df);
    }
}

TEST(a_flow_saved_as_tfrecords)
{
    make_records();
    const char *dir = tp_test_tmpdir(), *path = tp_test_path(dir, "saved");
    const int order[4] = {2, 0, 1, 3};
    tp_dataflow *df = tp_df_select(tp_df_tfrecord(record_paths, 1, .features = features, .n_features = 4), order, 4);
    char *data = NULL;
    size_t size;
    CHECK_OK(tp_df_save_tfrecord(df, path, feature_names, 4));
    CHECK_OK(tp_file_read(path, false, 0, &data, &size));
    CHECK(size == sizeof ref_tfrecord - 16 && memcmp(data, ref_tfrecord, size) == 0);
    tp_free(data);
    CHECK_ERR(tp_df_save_tfrecord(df, path, feature_names, 3), TP_ERR_ARG, "has 4 components, 3 were to be saved");
    CHECK_OK(tp_file_read(path, false, 0, &data, &size)); /* the old file is there */
    CHECK(size == sizeof ref_tfrecord - 16);
    tp_free(data);
    tp_df_free(df);
    df = tp_df_tfrecord(record_paths, 1); /* bytes as they are */
    CHECK_OK(tp_df_save_tfrecord(df, path, NULL, 0));
    tp_df_free(df);
    CHECK_OK(tp_file_read(path, false, 0, &data, &size));
    CHECK(size == sizeof ref_tfrecord - 16 && memcmp(data, ref_tfrecord, size) == 0);
    tp_free(data);
}

/* A flow that has another order in each epoch is saved in the order of epoch 0, also where it stands in a later one. */
TEST(the_first_epoch_is_what_is_saved)
{
    make_records();
    const char *path = tp_test_path(tp_test_tmpdir(), "shuffled");
    tp_dataflow *df = tp_df_tfrecord(record_paths, 1, .shuffle = TP_YES, .seed = 3);
    tp_datapoint want, got;
    memset(&want, 0, sizeof want);
    memset(&got, 0, sizeof got);
    int n_moved = 0;
    for (int epoch = 0; epoch < 2; epoch++) {
        CHECK_OK(tp_df_restart(df, 1));
        CHECK_OK(tp_df_save_tfrecord(df, path, NULL, 0));
        tp_dataflow *saved = tp_df_tfrecord(&path, 1);
        CHECK_OK(tp_df_restart(saved, 0));
        CHECK_OK(tp_df_restart(df, epoch));
        while (tp_df_next(df, &want) == TP_OK && CHECK_OK(tp_df_next(saved, &got))) {
            const size_t size = tp_tensor_bytes(&want.c[0]);
            const bool same = tp_tensor_bytes(&got.c[0]) == size && memcmp(got.c[0].data, want.c[0].data, size) == 0;
            if (epoch == 0) CHECK(same);
            else n_moved += !same;
        }
        tp_df_free(saved);
    }
    CHECK(n_moved > 0);
    tp_datapoint_free(&want);
    tp_datapoint_free(&got);
    tp_df_free(df);
}

/* ==== >>csv =========================================================================================== */

static const char *csv_path;
static const char *make_csv(const char *text)
{
    return csv_path = write_file(tp_test_tmpdir(), "t.csv", text, strlen(text));
}

static bool same_text(const tp_tensor *t, const char *text)
{
    return same_bytes(t, TP_U8, text, strlen(text)) && t->shape.ndim == 1;
}

TEST(csv_of_python)
{
    const char *path = write_file(tp_test_tmpdir(), "python.csv", ref_csv, sizeof ref_csv);
    const tp_csv_column columns[] = {{"big", 0, 0, TP_I64},
                                     {"name", 0, 0, TP_U8},
                                     {"weight", 0, 0, TP_F64},
                                     {NULL, 1, 0, TP_I32},
                                     {"age", 0, 2, TP_F32}};
    const char *const names[] = {"plain", "a \"quoted\", field", "two\nlines", ""};
    const int64_t big[] = {INT64_MIN, INT64_MAX, 0, 1};
    const int32_t age[] = {1, INT32_MIN, INT32_MAX, 7};
    const double weight[] = {0.1, 1e-300, 2.5};
    tp_dataflow *df = tp_df_csv(path, columns, 5, .shuffle = TP_NO);
    tp_datapoint dp = {0, NULL, 0};
    for (int i = 0; i < 4 && CHECK_OK(tp_df_next(df, &dp)); i++) {
        CHECK(dp.n == 5 && same_bytes(&dp.c[0], TP_I64, &big[i], 8) && dp.c[0].shape.ndim == 0);
        CHECK(same_text(&dp.c[1], names[i]));
        if (i < 3) CHECK(same_bytes(&dp.c[2], TP_F64, &weight[i], 8));
        else CHECK(isnan(tp_tensor_get(&dp.c[2], 0)));
        CHECK(same_bytes(&dp.c[3], TP_I32, &age[i], 4));
        CHECK(dp.c[4].dtype == TP_F32 && dp.c[4].shape.ndim == 1 && dp.c[4].shape.dim[0] == 2);
        CHECK(((const float *)dp.c[4].data)[0] == (float)age[i]);
        if (i < 3) CHECK(((const float *)dp.c[4].data)[1] == (float)weight[i]);
    }
    CHECK(tp_df_next(df, &dp) == TP_END);
    tp_datapoint_free(&dp);
    tp_df_free(df);
    check_protocol(tp_df_csv(path, columns, 5, .shuffle = TP_NO), 4, false);
    check_protocol(tp_df_csv(path, columns, 5), 4, true);
    check_no_allocation(tp_df_csv(path, columns, 5));
}

/* "a|b|c;d|e|f": the fields that three columns of text give. */
static const char *fields_of(const char *text, int n, int header, char separator)
{
    static char out[512];
    const tp_csv_column columns[3] = {{NULL, 0, 0, TP_U8}, {NULL, 1, 0, TP_U8}, {NULL, 2, 0, TP_U8}};
    tp_dataflow *df = tp_df_csv(make_csv(text), columns, n, .shuffle = TP_NO, .header = header, .separator = separator);
    tp_datapoint dp = {0, NULL, 0};
    size_t at = 0;
    out[0] = 0;
    if (tp_df_status(df) != TP_OK)
        snprintf(out, sizeof out, "%s",
                 strstr(tp_last_error(), "/t.csv") ? strstr(tp_last_error(), "/t.csv") + 1 : tp_last_error());
    else
        for (int row = 0; tp_df_next(df, &dp) == TP_OK; row++)
            for (int i = 0; i < n; i++)
                at += (size_t)snprintf(out + at, sizeof out - at, "%s%.*s",
                                       i     ? "|"
                                       : row ? ";"
                                             : "",
                                       (int)tp_tensor_size(&dp.c[i]), (const char *)dp.c[i].data);
    tp_datapoint_free(&dp);
    tp_df_free(df);
    return out;
}

TEST(csv_quotes_and_line_ends)
{
    CHECK_STR(fields_of("a,b,c\nd,e,f\n", 3, TP_NO, 0), "a|b|c;d|e|f");
    CHECK_STR(fields_of("a,b,c\r\nd,e,f", 3, TP_NO, 0), "a|b|c;d|e|f"); /* CRLF, and no end of the last line */
    CHECK_STR(fields_of("\xEF\xBB\xBF"
                        "a,b,c\n\n\r\nd,e,f\n\n",
                        3, TP_NO, 0),
              "a|b|c;d|e|f"); /* a mark and empty lines */
    CHECK_STR(fields_of("x,y,z\na,b,c\n", 3, TP_YES, 0), "a|b|c");
    CHECK_STR(fields_of("\"a\"\"b\",\",\",\"\r\n\"\r\n\"\",,\n", 3, TP_NO, 0), "a\"b|,|\r\n;||");
    CHECK_STR(fields_of("a;b,c;d\n", 3, TP_NO, ';'), "a|b,c|d");
    CHECK_STR(fields_of("a\tb\tc\"c\"\n", 3, TP_NO, '\t'), "a|b|c\"c\"");
    CHECK_STR(fields_of("a,b,\n,,c", 3, TP_NO, 0), "a|b|;||c");
    CHECK_STR(fields_of("a\rb,c,d\n", 3, TP_NO, 0), "a\rb|c|d"); /* a lone CR ends no line */
    CHECK_STR(fields_of("", 3, TP_NO, 0), "");
    CHECK_STR(fields_of("x,y,z", 3, TP_YES, 0), "");
    CHECK_STR(fields_of("\r\na\n\r\n\r", 1, TP_NO, 0), "a;\r"); /* and where a line begins it is a field */
    CHECK_STR(fields_of("\r", 1, TP_NO, 0), "\r");
    CHECK_STR(fields_of("\r\n", 1, TP_NO, 0), "");
}

TEST(csv_errors_name_line_and_column)
{
    CHECK_STR(fields_of("a,b,c\nd,\"e,f\ng", 3, TP_NO, 0), "t.csv:2: a quote is opened here and never closed");
    CHECK_HAS(fields_of("a,b,c\n\"d\"x,e,f\n", 3, TP_NO, 0), "t.csv:2: text follows after a closing quote");
    CHECK_STR(fields_of("\"a\n\n\",b,c\n\nd,e\n", 3, TP_NO, 0),
              "t.csv:5: this line has 2 fields, those before it have 3");
    CHECK_STR(fields_of("a,b\n", 3, TP_NO, 0), "t.csv:1: column 2 was asked for, there are 2, numbered from 0");
    CHECK_STR(fields_of("\n\n", 3, TP_YES, 0), "t.csv is empty: a line with the names of the columns was expected");
    const char *const wrong[] = {"", " ", "abc", "1x", "--1", "1.5", "0x10", "9999999999", "1e3", "+", "1 2"};
    const tp_csv_column whole[1] = {{"n", 0, 0, TP_I32}}, real[1] = {{"n", 0, 0, TP_F32}};
    for (int i = 0; i < TP_COUNT(wrong); i++) {
        char text[64], part[64];
        snprintf(text, sizeof text, "m,n\n1,2\n1,%s\n", wrong[i]);
        snprintf(part, sizeof part, "t.csv:3: column 1 (n): \"%s\" is no int32", wrong[i]);
        check_refused(tp_df_csv(make_csv(text), whole, 1), TP_ERR_FORMAT, part);
    }
    check_refused(tp_df_csv(make_csv("m,n\n1,1,5\n"), real, 1), TP_ERR_FORMAT, "t.csv:2: this line has 3 fields");
    check_refused(tp_df_csv(make_csv("m,n\n1,1;5\n"), real, 1), TP_ERR_FORMAT,
                  "t.csv:2: column 1 (n): \"1;5\" is no float32");
    check_refused(tp_df_csv(make_csv("m,n\n1,\n"), real, 1), TP_ERR_FORMAT,
                  "\"\" is no float32: .missing = TP_YES makes it NaN");
    check_refused(tp_df_csv(make_csv("m,o\n1,1\n"), real, 1), TP_ERR_NAME,
                  "t.csv:1: there is no column called \"n\"; the columns are \"m\", \"o\"");
    check_refused(tp_df_csv(make_csv("n,n\n1,1\n"), real, 1), TP_ERR_FORMAT, "columns 0 and 1 are both called \"n\"");
    check_refused(tp_df_csv(make_csv("n\n1\n"), real, 1, .header = TP_NO), TP_ERR_ARG, "there is no header");
    check_refused(tp_df_csv(make_csv("n\n1\n"), real, 1, .separator = '"'), TP_ERR_ARG, "cannot be the separator");
    check_refused(tp_df_csv(make_csv("n\n1\n"), NULL, 0), TP_ERR_ARG, "at least one column");
    const tp_csv_column odd[1] = {{"n", 0, 0, TP_BOOL}};
    check_refused(tp_df_csv(make_csv("n\n1\n"), odd, 1), TP_ERR_ARG, "component 0");
}

TEST(csv_missing_values)
{
    const tp_csv_column columns[] = {{"x", 0, 2, TP_F32}, {"z", 0, 0, TP_F64}, {"name", 0, 0, TP_U8}};
    const char *const fields[] = {"", " ", "NA", "na", " n/a\t", "\"N/A\"", "NULL", "None", "?", "NaN", "nan"};
    for (int i = 0; i < TP_COUNT(fields); i++) {
        char text[100];
        tp_datapoint dp = {0, NULL, 0};
        snprintf(text, sizeof text, "name,x,y,z\nNA,%s,2,%s\n,1,%s,3\n", fields[i], fields[i], fields[i]);
        tp_dataflow *df = tp_df_csv(make_csv(text), columns, 3, .shuffle = TP_NO, .missing = TP_YES);
        if (CHECK_OK(tp_df_next(df, &dp))) {
            CHECK(isnan(tp_tensor_get(&dp.c[0], 0)) && tp_tensor_get(&dp.c[0], 1) == 2);
            CHECK(isnan(tp_tensor_get(&dp.c[1], 0)) && same_text(&dp.c[2], "NA"));
        }
        if (CHECK_OK(tp_df_next(df, &dp))) {
            CHECK(tp_tensor_get(&dp.c[0], 0) == 1 && isnan(tp_tensor_get(&dp.c[0], 1)));
            CHECK(tp_tensor_get(&dp.c[1], 0) == 3 && same_text(&dp.c[2], ""));
        }
        tp_datapoint_free(&dp);
        tp_df_free(df);
    }
    const tp_csv_column whole[1] = {{"n", 0, 0, TP_I32}}, real[1] = {{"n", 0, 0, TP_F32}};
    const char *const no_number[] = {"NAN1", "nay", "n/", "??", "-", "nul", "x"};
    for (int i = 0; i < TP_COUNT(no_number); i++) {
        char text[60];
        snprintf(text, sizeof text, "m,n\n1,%s\n", no_number[i]);
        check_refused(tp_df_csv(make_csv(text), real, 1, .missing = TP_YES), TP_ERR_FORMAT, "is no float32");
        CHECK(!strstr(tp_last_error(), ".missing"));
    }
    check_refused(tp_df_csv(make_csv("m,n\n1,NA\n"), real, 1), TP_ERR_FORMAT,
                  "t.csv:2: column 1 (n): \"NA\" is no float32: .missing = TP_YES makes it NaN");
    check_refused(tp_df_csv(make_csv("m,n\n1,NA\n"), whole, 1, .missing = TP_YES), TP_ERR_FORMAT,
                  "\"NA\" is no int32: only a column of TP_F32 or TP_F64 can have missing values");
}

static tp_dataflow *a_csv(void)
{
    const tp_csv_column columns[2] = {{"b", 0, 0, TP_U8}, {"a", 0, 0, TP_I64}};
    return tp_df_csv(csv_path, columns, 2);
}
TEST(csv_without_memory)
{
    make_csv("a,b\n1,\"x\"\n2,y\n3,z\n");
    check_no_memory(a_csv);
}

/* ==== >>text ========================================================================================== */

static const char *text_path;
static void make_text(void) { text_path = write_file(tp_test_tmpdir(), "t.txt", ref_text, sizeof ref_text); }

static void check_ids(const tp_tensor *t, const int *ids, int n)
{
    CHECK(t->dtype == TP_I32 && tp_tensor_size(t) == n);
    for (int i = 0; i < n && i < tp_tensor_size(t); i++)
        CHECK_MSG(tp_tensor_get(t, i) == ids[i], "id %d is %g, expected %d", i, tp_tensor_get(t, i), ids[i]);
}

TEST(characters_get_the_ids_of_char_rnn)
{
    make_text();
    const int n = TP_COUNT(ref_char_ids);
    tp_dataflow *df = tp_df_text_chars(text_path, .sequence_length = n - 1, .shuffle = TP_NO);
    tp_datapoint dp = {0, NULL, 0};
    if (CHECK_OK(tp_df_next(df, &dp))) {
        check_ids(&dp.c[0], ref_char_ids, n - 1);
        check_ids(&dp.c[1], ref_char_ids + 1, n - 1);
    }
    tp_df_free(df);
    tp_vocabulary v;
    memset(&v, 0, sizeof v);
    CHECK_OK(tp_vocabulary_chars(&v, text_path));
    CHECK(v.n == ref_char_count[0] && v.unk == -1);
    CHECK(tp_vocabulary_find(&v, "\xc3\xa9", 2) >= 0 &&
          tp_vocabulary_find(&v, "\xe2\x82\xac", 3) >= 0); /* each is one character */
    CHECK(tp_vocabulary_find(&v, "Z", 1) == -1 && tp_vocabulary_find(&v, "", 0) == -1);
    for (int i = 0; i < v.n; i++) {
        int64_t count = 0;
        for (int k = 0; k < n; k++) count += ref_char_ids[k] == i;
        CHECK(v.count[i] == count && tp_vocabulary_find(&v, v.word[i], strlen(v.word[i])) == i);
    }
    /* pieces: any start gives its own ids and the next ones; two passes differ; a pass without .size covers the text once */
    df = tp_df_text_chars(text_path, .vocabulary = &v, .sequence_length = 5, .size = 40);
    tp_vocabulary_free(&v);
    bool first = false, last = false;
    for (int i = 0; i < 40 && CHECK_OK(tp_df_next(df, &dp)); i++) {
        bool found = false;
        for (int s = 0; s + 5 < n; s++) {
            bool same = true;
            for (int k = 0; k < 5; k++)
                same = same && tp_tensor_get(&dp.c[0], k) == ref_char_ids[s + k] &&
                       tp_tensor_get(&dp.c[1], k) == ref_char_ids[s + k + 1];
            found = found || same;
            if (same && s < 10) first = true;
            if (same && s + 5 >= n - 10) last = true;
        }
        CHECK_MSG(found, "piece %d is not in the text", i);
    }
    CHECK(first && last);
    tp_df_free(df);
    tp_datapoint_free(&dp);
    check_protocol(tp_df_text_chars(text_path, .sequence_length = 5), (n - 1) / 5, true);
    check_protocol(tp_df_text_chars(text_path, .sequence_length = 5, .shuffle = TP_NO), (n - 1) / 5, false);
    check_no_allocation(tp_df_text_chars(text_path, .sequence_length = 5));
}

/* The first and the last character of two, three and four bytes is one; a byte that begins none stands for itself. */
TEST(characters_of_one_to_four_bytes)
{
    static const char *const whole[] = {
        "a", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xef\xbf\xbf", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"};
    static const char *const bytes[] = {"\xc1\x81", "\xf8\x88\x82\x83\x84", "\xff\xfe"}; /* each of them for itself */
    tp_buf b = {NULL, 0, 0, false};
    tp_vocabulary v;
    int n = TP_COUNT(whole);
    memset(&v, 0, sizeof v);
    for (int i = 0; i < TP_COUNT(whole); i++) tp_buf_printf(&b, "%s", whole[i]);
    for (int i = 0; i < TP_COUNT(bytes); i++) tp_buf_printf(&b, "%s", bytes[i]);
    CHECK_OK(tp_vocabulary_chars(&v, write_file(tp_test_tmpdir(), "utf8", b.data, b.len)));
    for (int i = 0; i < TP_COUNT(whole); i++) {
        const int id = tp_vocabulary_find(&v, whole[i], strlen(whole[i]));
        CHECK_MSG(id >= 0 && v.count[id] == 1, "character %d is not found", i);
    }
    for (int i = 0; i < TP_COUNT(bytes); i++)
        for (const char *c = bytes[i]; *c; c++, n++) {
            const int id = tp_vocabulary_find(&v, c, 1);
            CHECK_MSG(id >= 0 && v.count[id] == 1, "byte %02x is not found", (unsigned)(unsigned char)*c);
        }
    CHECK_MSG(v.n == n, "%d characters, expected %d", v.n, n);
    tp_vocabulary_free(&v);
    tp_buf_free(&b);
}

/* What only looks like UTF-8 is bytes: longer than needed, surrogates, beyond the last character. */
TEST(bytes_that_are_no_characters)
{
    static const char *const bytes[] = {"\xe0\x80\x81",     "\xe0\x9f\x81",     "\xed\xa0\x80",    "\xed\xbf\x80",
                                        "\xf0\x8f\x81\x82", "\xf4\x90\x80\x81", "\xf5\x80\x81\x82"};
    static const char *const whole[] = {"\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xf0\x90\x80\x80"};
    const char *dir = tp_test_tmpdir();
    tp_vocabulary v;
    memset(&v, 0, sizeof v);
    for (int i = 0; i < TP_COUNT(bytes) + TP_COUNT(whole); i++) {
        const bool is_whole = i >= TP_COUNT(bytes);
        const char *text = is_whole ? whole[i - TP_COUNT(bytes)] : bytes[i];
        CHECK_OK(tp_vocabulary_chars(&v, write_file(dir, "x", text, strlen(text))));
        CHECK_MSG(v.n == (is_whole ? 1 : (int)strlen(text)), "text %d: %d characters", i, v.n);
    }
    /* a byte order mark at the beginning is none of the text, elsewhere it is a character */
    const char *marked = write_file(dir, "bom",
                                    "\xef\xbb\xbf"
                                    "a b\xef\xbb\xbf",
                                    9);
    CHECK_OK(tp_vocabulary_chars(&v, marked));
    CHECK(v.n == 4 && strcmp(v.word[0], "a") == 0);
    CHECK_OK(tp_vocabulary_words(&v, marked, 1, 0));
    CHECK(tp_vocabulary_find(&v, "a", 1) != v.unk && tp_vocabulary_find(&v,
                                                                        "\xef\xbb\xbf"
                                                                        "a",
                                                                        4) == v.unk);
    tp_dataflow *df = tp_df_text_chars(marked, .sequence_length = 3, .shuffle = TP_NO);
    tp_datapoint dp = {0, NULL, 0};
    static const int ids[] = {0, 1, 2};
    if (CHECK_OK(tp_df_next(df, &dp))) check_ids(&dp.c[0], ids, 3);
    tp_df_free(df);
    tp_datapoint_free(&dp);
    tp_vocabulary_free(&v);
}

static void check_words(const tp_vocabulary *v, const char *const *words, int n)
{
    CHECK(v->n == n);
    for (int i = 0; i < n && i < v->n; i++) {
        CHECK_STR(v->word[i], words[i]);
        CHECK(v->count[i] == 0 && tp_vocabulary_find(v, words[i], strlen(words[i])) == i);
    }
}
TEST(a_vocabulary_from_a_list_and_a_file)
{
    static const char *const words[] = {"b", "<unk>", "\n", "\\n", "a\\", "\r", " x\t", "caf\xc3\xa9", "\xff"};
    const char *dir = tp_test_tmpdir(), *path = tp_test_path(dir, "words.txt");
    tp_vocabulary v, w;
    memset(&v, 0, sizeof v);
    memset(&w, 0, sizeof w);
    CHECK_OK(tp_vocabulary_from_list(&v, words, TP_COUNT(words)));
    check_words(&v, words, TP_COUNT(words));
    CHECK(v.unk == 1 && tp_vocabulary_find(&v, "other", 5) == 1);
    CHECK_OK(tp_vocabulary_save(&v, path));
    char *text = NULL;
    size_t size;
    CHECK_OK(tp_file_read(path, true, 0, &text, &size));
    CHECK_STR(text, "b\n<unk>\n\\n\n\\\\n\na\\\\\n\\r\n x\t\ncaf\xc3\xa9\n\xff\n");
    tp_free(text);
    CHECK_OK(tp_vocabulary_load(&w, path));
    check_words(&w, words, TP_COUNT(words));
    CHECK_OK(tp_vocabulary_from_list(&w, w.word + 2, 3)); /* the list lies in the vocabulary that is replaced */
    check_words(&w, words + 2, 3);
    CHECK(w.unk == -1 && tp_vocabulary_find(&w, "b", 1) == -1);
    CHECK_OK(tp_vocabulary_load(&w, write_file(dir, "crlf", "one\r\ntwo\r\n", 10)));
    static const char *const lines[] = {"one", "two"};
    check_words(&w, lines, 2);

    static const char *const twice[] = {"a", "b", "a"}, *const none[] = {"a", ""}, *const null[] = {NULL};
    CHECK_ERR(tp_vocabulary_from_list(&w, twice, 3), TP_ERR_NAME, "word 2, \"a\", is word 0, too");
    CHECK(w.n == 0 && !w.word);
    CHECK_ERR(tp_vocabulary_from_list(&w, none, 2), TP_ERR_ARG, "word 1 is empty");
    CHECK_ERR(tp_vocabulary_from_list(&w, null, 1), TP_ERR_ARG, "word 0 is NULL");
    CHECK_ERR(tp_vocabulary_from_list(&w, words, 0), TP_ERR_ARG, "no words");
    CHECK_ERR(tp_vocabulary_from_list(&w, NULL, 2), TP_ERR_ARG, "no words");
    CHECK_ERR(tp_vocabulary_save(&w, path), TP_ERR_ARG, "the vocabulary is empty");
    CHECK_ERR(tp_vocabulary_save(&v, tp_test_path(dir, "none/words.txt")), TP_ERR_IO, "its folder is missing");
    CHECK_ERR(tp_vocabulary_load(&w, tp_test_path(dir, "none")), TP_ERR_IO, "none");
    static const struct {
        const char *text, *sentence;
    } bad[] = {{"a\nb\na\n", "line 3 is the word of line 1 again"},
               {"a\n\nb\n", "line 2 is empty"},
               {"a\n\\x\n", "line 2 is empty, or a backslash"},
               {"a\n\\\n", "line 2 is empty, or a backslash"},
               {"a\nb", "is no vocabulary, or was cut"},
               {"", "is no vocabulary, or was cut"}};
    for (int i = 0; i < TP_COUNT(bad); i++) {
        CHECK_ERR(tp_vocabulary_load(&w, write_file(dir, "bad", bad[i].text, strlen(bad[i].text))), TP_ERR_FORMAT,
                  bad[i].sentence);
        CHECK(w.n == 0 && !w.word);
    }
    CHECK_ERR(tp_vocabulary_load(&w, write_file(dir, "zero", "a\0b\n", 4)), TP_ERR_FORMAT, "is no vocabulary");
    tp_vocabulary_free(&v);
    tp_vocabulary_free(&w);
    for (long n = 1, failed = 1; failed && n < 100; n++) {
        tp_test_fail_after(n);
        const tp_status made = tp_vocabulary_from_list(&v, words, TP_COUNT(words));
        const tp_status kept = made == TP_OK ? tp_vocabulary_save(&v, path) : TP_ERR_NOMEM;
        const tp_status st = kept == TP_OK ? tp_vocabulary_load(&w, path) : TP_ERR_NOMEM;
        failed = tp_test_alloc_failed();
        CHECK(st == (failed ? TP_ERR_NOMEM : TP_OK) && w.n == (failed ? 0 : TP_COUNT(words)));
        tp_vocabulary_free(&v);
        tp_vocabulary_free(&w);
        CHECK(tp_test_live_blocks() == 0);
    }
    tp_test_alloc_reset();
}

TEST(words_get_the_ids_of_the_treebank_reader)
{
    make_text();
    tp_vocabulary v;
    memset(&v, 0, sizeof v);
    for (int least = 1; least <= 2; least++) {
        const int *ids = least == 1 ? ref_word_ids1 : ref_word_ids2, n = TP_COUNT(ref_word_ids1);
        CHECK_OK(tp_vocabulary_words(&v, text_path, least, 0));
        CHECK(v.n == (least == 1 ? ref_word_count1 : ref_word_count2)[0]);
        tp_dataflow *df = tp_df_text_words(text_path, .vocabulary = &v, .batch_size = 1, .sequence_length = n - 1);
        tp_datapoint dp = {0, NULL, 0};
        if (CHECK_OK(tp_df_next(df, &dp))) {
            check_ids(&dp.c[0], ids, n - 1);
            check_ids(&dp.c[1], ids + 1, n - 1);
        }
        CHECK(tp_vocabulary_find(&v, "zebra", 5) == v.unk && strcmp(v.word[v.unk], "<unk>") == 0);
        tp_df_free(df);
        tp_datapoint_free(&dp);
    }
    /* v: words that come twice at least. Batches of 2 rows, 3 steps */
    tp_dataflow *df = tp_df_text_words(text_path, .vocabulary = &v, .batch_size = 2, .sequence_length = 3);
    tp_datapoint dp = {0, NULL, 0};
    const int batches = TP_COUNT(ref_ptb_x) / 6;
    for (int i = 0; i < batches && CHECK_OK(tp_df_next(df, &dp)); i++) {
        CHECK(dp.c[0].shape.ndim == 2 && dp.c[0].shape.dim[0] == 2);
        check_ids(&dp.c[0], ref_ptb_x + 6 * i, 6);
        check_ids(&dp.c[1], ref_ptb_y + 6 * i, 6);
    }
    CHECK(tp_df_next(df, &dp) == TP_END);
    tp_df_free(df);
    tp_datapoint_free(&dp);
    check_protocol(tp_df_text_words(text_path, .vocabulary = &v, .batch_size = 2, .sequence_length = 3), batches,
                   false);
    check_no_allocation(tp_df_text_words(text_path, .batch_size = 2, .sequence_length = 3));
    CHECK_OK(tp_vocabulary_words(&v, text_path, 1, 3)); /* the two most frequent and <unk>, which the rest adds up to */
    CHECK(v.n == 3 && v.unk == 0 && v.count[0] == TP_COUNT(ref_word_ids1) - 4 - 4);
    CHECK_STR(v.word[1], "<eos>");
    CHECK_STR(v.word[2], "the");
    tp_vocabulary_free(&v);
    tp_vocabulary_free(&v);
}

/* A validation text beside a training text: two parts of one file with the ids of the whole file. */
TEST(a_part_of_a_text)
{
    make_text();
    const int n = TP_COUNT(ref_char_ids), half = n / 2;
    tp_datapoint dp = {0, NULL, 0};
    tp_dataflow *df = tp_df_text_chars(text_path, .sequence_length = half - 1, .shuffle = false, .end = 0.5);
    if (CHECK_OK(tp_df_next(df, &dp))) check_ids(&dp.c[0], ref_char_ids, half - 1);
    if (dp.n == 2) check_ids(&dp.c[1], ref_char_ids + 1, half - 1);
    CHECK(tp_df_size(df) == 1);
    tp_df_free(df);
    df = tp_df_text_chars(text_path, .sequence_length = n - half - 1, .shuffle = false, .begin = 0.5);
    if (CHECK_OK(tp_df_next(df, &dp))) check_ids(&dp.c[0], ref_char_ids + half, n - half - 1);
    if (dp.n == 2) check_ids(&dp.c[1], ref_char_ids + half + 1, n - half - 1);
    CHECK(tp_df_size(df) == 1);
    tp_df_free(df);
    tp_datapoint_free(&dp);

    /* words: the two halves of the whole text's datapoint of one row */
    tp_datapoint whole = {0, NULL, 0};
    int64_t n_words = 0;
    tp_vocabulary v;
    memset(&v, 0, sizeof v);
    CHECK_OK(tp_vocabulary_words(&v, text_path, 1, 0));
    for (int i = 0; i < v.n; i++) n_words += v.count[i];
    tp_vocabulary_free(&v);
    const int first = (int)(n_words / 2), rest = (int)n_words - first;
    df = tp_df_text_words(text_path, .batch_size = 1, .sequence_length = (int)n_words - 1);
    CHECK_OK(tp_df_next(df, &whole));
    tp_dataflow *part = tp_df_text_words(text_path, .batch_size = 1, .sequence_length = rest - 1, .begin = 0.5);
    if (CHECK_OK(tp_df_next(part, &dp)))
        for (int i = 0; i + 1 < rest && i + first + 1 < n_words; i++) {
            CHECK(tp_tensor_get(&dp.c[0], i) == tp_tensor_get(&whole.c[0], first + i));
            CHECK(tp_tensor_get(&dp.c[1], i) == tp_tensor_get(&whole.c[1], first + i));
        }
    tp_df_free(part);
    tp_df_free(df);
    tp_datapoint_free(&dp);
    tp_datapoint_free(&whole);

    check_refused(tp_df_text_chars(text_path, .begin = 0.5, .end = 0.5), TP_ERR_ARG, "begin 0.5 and end 0.5");
    check_refused(tp_df_text_chars(text_path, .begin = -0.1), TP_ERR_ARG, "begin -0.1");
    check_refused(tp_df_text_words(text_path, .end = 1.1), TP_ERR_ARG, "end 1.1");
    check_refused(tp_df_text_words(text_path, .end = (double)NAN), TP_ERR_ARG, "end nan");
    check_refused(tp_df_text_chars(text_path, .sequence_length = 5, .begin = 0.99), TP_ERR_FORMAT, "needs one more");
    check_refused(tp_df_text_chars(text_path, .sequence_length = 5, .begin = 0.99), TP_ERR_FORMAT,
                  "the part [0.99, 1) of ");
    check_refused(tp_df_text_words(text_path, .end = 0.1), TP_ERR_FORMAT, "the part [0, 0.1) of ");
}

TEST(texts_that_cannot_be)
{
    make_text();
    const char *dir = tp_test_tmpdir(), *empty = write_file(dir, "empty", "", 0),
               *zero = write_file(dir, "zero", "ab\0c", 4), *short_one = write_file(dir, "short", "abcde", 5);
    tp_vocabulary v;
    memset(&v, 0, sizeof v);
    check_refused(tp_df_text_chars(empty), TP_ERR_FORMAT, "empty is empty");
    check_refused(tp_df_text_words(empty), TP_ERR_FORMAT, "empty is empty");
    check_refused(tp_df_text_chars(zero), TP_ERR_FORMAT, "zero is no text");
    check_refused(tp_df_text_chars(short_one, .sequence_length = 5), TP_ERR_FORMAT,
                  "has 5 characters, a sequence of 5 needs one more");
    check_protocol(tp_df_text_chars(short_one, .sequence_length = 4), 1, false);
    check_refused(tp_df_text_chars(short_one, .sequence_length = 2, .size = 3, .shuffle = TP_NO), TP_ERR_ARG,
                  "2 sequences of 2");
    check_refused(tp_df_text_words(short_one, .batch_size = 2, .sequence_length = 3), TP_ERR_FORMAT,
                  "needs at least 8");
    check_refused(tp_df_text_chars(NULL), TP_ERR_ARG, "a path");
    check_refused(tp_df_text_chars(text_path, .sequence_length = -1), TP_ERR_ARG, "sequence_length -1");
    check_refused(tp_df_text_chars(text_path, .size = -1), TP_ERR_ARG, "a size that is not negative");
    check_refused(tp_df_text_words(text_path, .batch_size = -1), TP_ERR_ARG, "batch_size -1");
    check_refused(tp_df_text_chars(text_path, .vocabulary = &v), TP_ERR_ARG,
                  "the vocabulary is empty: make it with tp_vocabulary_chars");
    check_refused(tp_df_text_words(text_path, .vocabulary = &v), TP_ERR_ARG,
                  "the vocabulary is empty: make it with tp_vocabulary_words");
    CHECK_OK(tp_vocabulary_chars(&v, short_one));
    check_refused(tp_df_text_chars(text_path, .vocabulary = &v), TP_ERR_NAME,
                  "\"t\" before byte 1 is not in the vocabulary");
    CHECK_ERR(tp_vocabulary_words(&v, text_path, 1, -1), TP_ERR_ARG, "max_words -1");
    CHECK_OK(tp_vocabulary_words(&v, text_path, 1, 0));
    check_refused(tp_df_text_chars(text_path, .vocabulary = &v), TP_ERR_ARG, "of the vocabulary is a word");
    tp_vocabulary_free(&v);
    const char *broken =
        write_file(dir, "broken", "\xc3(\xe2\x82\xff\xc3\xa9\xe2\x82", 9); /* UTF-8 that is cut in places */
    CHECK_OK(tp_vocabulary_chars(&v, broken));
    CHECK(v.n == 6); /* c3 ( e2 82 ff and é; e2 and 82 again */
    tp_vocabulary_free(&v);
}

TEST(a_text_of_many_words)
{
    tp_buf b = {NULL, 0, 0, false};
    tp_vocabulary v;
    memset(&v, 0, sizeof v);
    for (int i = 0; i < 5000; i++)
        for (int k = 0; k <= i % 3; k++) tp_buf_printf(&b, "w%d ", i);
    const char *path = write_file(tp_test_tmpdir(), "many", b.data, b.len);
    CHECK_OK(tp_vocabulary_words(&v, path, 2, 0));
    CHECK(v.n == 1 + 3333 && v.unk == 0 && v.count[0] == 1667); /* 1667 numbers are 0 mod 3 and come once */
    for (int i = 0; i < 5000; i++) {
        char word[16];
        const int n = snprintf(word, sizeof word, "w%d", i), id = tp_vocabulary_find(&v, word, (size_t)n);
        CHECK(i % 3 == 0 ? id == 0 : id > 0 && v.count[id] == i % 3 + 1);
    }
    tp_vocabulary_free(&v);
    tp_buf_free(&b);
}

static tp_dataflow *chars_flow(void) { return tp_df_text_chars(text_path, .sequence_length = 5); }
static tp_dataflow *words_flow(void) { return tp_df_text_words(text_path, .batch_size = 2, .sequence_length = 3); }
TEST(texts_without_memory)
{
    make_text();
    check_no_memory(chars_flow);
    check_no_memory(words_flow);
    /* a vocabulary is whole, or there is none */
    for (int words = 0; words < 2; words++) {
        long n = 1;
        for (long failed = 1; failed; n++) {
            tp_vocabulary v;
            memset(&v, 0, sizeof v);
            tp_test_fail_after(n);
            const tp_status st = words ? tp_vocabulary_words(&v, text_path, 1, 0) : tp_vocabulary_chars(&v, text_path);
            failed = tp_test_alloc_failed();
            CHECK_MSG(failed ? st == TP_ERR_NOMEM && v.n == 0 : st == TP_OK && v.n > 0 && (v.unk >= 0) == (words == 1),
                      "words %d: allocation %ld: %s, %d tokens", words, n, tp_status_name(st), (int)v.n);
            tp_vocabulary_free(&v);
            CHECK(tp_test_live_blocks() == 0);
        }
        CHECK(n > 3);
    }
    tp_test_alloc_reset();
}

/* ==== >>images ======================================================================================== */

static bool no_stb(void)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    const tp_status st = tp_image_decode(ref_png_rgb, sizeof ref_png_rgb, 3, &t);
    tp_tensor_free(&t);
    return st == TP_ERR_UNSUPPORTED;
}
#define NEEDS_STB() \
    if (no_stb()) TEST_SKIP("stb_image.h was not found (Debian: libstb-dev)")

/* Decoded as by Pillow, up to `most` in each byte. */
static void check_image_(const void *data, size_t size, int channels, const unsigned char *want, int most, int line)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    if (tp_image_decode(data, size, channels, &t) != TP_OK) {
        CHECK_MSG(false, "line %d: %s", line, tp_last_error());
    } else {
        int worst = 0;
        char text[TP_SHAPE_TEXT];
        CHECK_STR(tp_shape_text(&t.shape, text), channels == 3 ? "(17,23,3)" : "(17,23,1)");
        for (int i = 0; i < 17 * 23 * channels; i++) {
            const int off = abs(((const unsigned char *)t.data)[i] - want[i]);
            worst = off > worst ? off : worst;
        }
        CHECK_MSG(worst <= most, "line %d: a byte differs by %d, %d allowed", line, worst, most);
        CHECK(t.dtype == TP_U8);
    }
    tp_tensor_free(&t);
}
#define check_image(name_, channels_, want_, most_) \
    check_image_(name_, sizeof name_, (channels_), (want_), (most_), __LINE__)

TEST(images_decode_as_by_pillow)
{
    NEEDS_STB();
    /* lossless formats: every bit */
    check_image(ref_png_rgb, 3, ref_png_rgb_rgb, 0);
    check_image(ref_png_grey, 3, ref_png_grey_rgb, 0);
    check_image(ref_png_grey, 1, ref_png_grey_l, 0);
    check_image(ref_png_palette, 3, ref_png_palette_rgb, 0);
    check_image(ref_png_palette12, 3, ref_png_palette12_rgb, 0);
    check_image(ref_bmp_os2, 3, ref_bmp_os2_rgb, 0);
    check_image(ref_png_rgba, 3, ref_png_rgba_rgb, 0);
    check_image(ref_bmp, 3, ref_bmp_rgb, 0);
    check_image(ref_bmp_grey, 3, ref_bmp_grey_rgb, 0);
    check_image(ref_bmp_grey, 1, ref_bmp_grey_l, 0);
    /* JPEG leaves the rounding of the transform (1) and of the colours (1 each, blue times 1.772) to the decoder */
    check_image(ref_jpeg_grey, 1, ref_jpeg_grey_l, 1);
    check_image(ref_jpeg_grey, 3, ref_jpeg_grey_rgb, 1);
    check_image(ref_jpeg444, 3, ref_jpeg444_rgb, 4);
    check_image(ref_jpeg_progressive, 3, ref_jpeg_progressive_rgb, 4);
    check_image(ref_jpeg420, 3, ref_jpeg420_rgb, 6); /* and how colours are spread over two pixels */
}

/* Writes a JPEG segment of EXIF data, little- or big-endian: a table of two entries, a width and the orientation. Returns its size. */
static size_t put_exif(unsigned char *to, bool little, int orientation)
{
    static const unsigned char head[] = {0xff, 0xe1, 0, 42, 'E', 'x', 'i', 'f', 0, 0};
    const unsigned table[][2] = {{2, 42},    {4, 8}, {2, 2}, /* the header, two entries */
                                 {2, 0x100}, {2, 3}, {4, 1}, {2, 3},
                                 {2, 0}, /* a width of 3 */
                                 {2, 0x112}, {2, 3}, {4, 1}, {2, (unsigned)orientation},
                                 {2, 0}};
    size_t n = sizeof head;
    memcpy(to, head, n);
    to[n++] = little ? 'I' : 'M';
    to[n++] = little ? 'I' : 'M';
    for (int i = 0; i < TP_COUNT(table); i++) {
        for (unsigned k = 0; k < table[i][0]; k++)
            to[n + k] = (unsigned char)(table[i][1] >> 8 * (little ? k : table[i][0] - 1 - k));
        n += table[i][0];
    }
    return n;
}

/* Cameras store a picture as the sensor saw it and note how it was held: it is turned upright, as Pillow's exif_transpose and
 * OpenCV's imread do. */
TEST(images_are_turned_as_exif_notes)
{
    NEEDS_STB();
    enum { STORED = sizeof ref_orientations / 8, PIXELS = 3 * 5 * 3 };
    tp_tensor t, plain;
    char text[TP_SHAPE_TEXT];
    memset(&t, 0, sizeof t);
    memset(&plain, 0, sizeof plain);
    for (int i = 0; i < 8; i++) {
        if (!CHECK_OK(tp_image_decode(ref_orientations + i * STORED, STORED, 3, &t))) continue;
        CHECK_STR(tp_shape_text(&t.shape, text), i < 4 ? "(3,5,3)" : "(5,3,3)");
        CHECK_MSG(memcmp(t.data, ref_upright + i * PIXELS, PIXELS) == 0, "orientation %d", i + 1);
        CHECK_OK(tp_image_decode(ref_orientations + i * STORED, STORED, 1, &t)); /* grey */
        CHECK_STR(tp_shape_text(&t.shape, text), i < 4 ? "(3,5,1)" : "(5,3,1)");
    }
    if (!CHECK_OK(tp_image_decode(ref_jpeg444, sizeof ref_jpeg444, 3, &plain))) return;
    for (int i = 0; i < 2 * 12; i++) {
        const int orientation = i / 2, known = orientation >= 1 && orientation <= 8 ? orientation : 1;
        unsigned char file[sizeof ref_jpeg444 + 64] = {0xff, 0xd8};
        const size_t n = put_exif(file + 2, i % 2, orientation);
        memcpy(file + 2 + n, ref_jpeg444 + 2, sizeof ref_jpeg444 - 2);
        if (!CHECK_OK(tp_image_decode(file, sizeof ref_jpeg444 + n, 3, &t))) continue;
        CHECK_STR(tp_shape_text(&t.shape, text), known < 5 ? "(17,23,3)" : "(23,17,3)");
        int wrong = 0;
        for (int y = 0; y < 17; y++)
            for (int x = 0; x < 23; x++) { /* where pixel y, x of the stored picture belongs */
                const int where[8][2] = {{y, x}, {y, 22 - x}, {16 - y, 22 - x}, {16 - y, x},
                                         {x, y}, {x, 16 - y}, {22 - x, 16 - y}, {22 - x, y}};
                const int at = where[known - 1][0] * (known < 5 ? 23 : 17) + where[known - 1][1];
                wrong += memcmp((char *)t.data + at * 3, (char *)plain.data + (y * 23 + x) * 3, 3) != 0;
            }
        CHECK_MSG(wrong == 0, "orientation %d: %d pixels are at another place", orientation, wrong);
    }
    tp_tensor_free(&t);
    tp_tensor_free(&plain);
}

/* EXIF data that are cut short or make no sense leave the picture as it is stored: they are no damage of the image. */
TEST(damaged_exif_data_turn_nothing)
{
    NEEDS_STB();
    tp_tensor t;
    memset(&t, 0, sizeof t);
    for (int little = 0; little < 2; little++) {
        unsigned char exif[64], *file;
        const size_t n = put_exif(exif, little != 0, 6);
        for (size_t i = 0; i < 3 * n; i++) { /* each shorter length, and each byte changed in two ways */
            const size_t size = i < n ? i : n;
            if (size < 4) continue;
            if (!CHECK((file = (unsigned char *)tp_malloc(sizeof ref_jpeg444 + size)) != NULL)) return;
            memcpy(file, ref_jpeg444, 2);
            memcpy(file + 2, exif, size);
            file[5] = (unsigned char)(size - 2);
            if (i >= n + 4 && i < 2 * n) file[2 + i - n] = 255;
            if (i >= 2 * n + 4) file[2 + i - 2 * n] ^= 1;
            memcpy(file + 2 + size, ref_jpeg444 + 2, sizeof ref_jpeg444 - 2);
            CHECK_OK(tp_image_decode(file, sizeof ref_jpeg444 + size, 3, &t));
            CHECK(t.shape.dim[0] * t.shape.dim[1] == 17 * 23);
            if (i < n) CHECK(t.shape.dim[0] == 17);
            tp_free(file);
        }
    }
    tp_tensor_free(&t);
}

/* The kind of an image is told by its first bytes: by all of them, and by no others. */
TEST(an_image_begins_with_its_kind)
{
    NEEDS_STB();
    static const struct {
        const unsigned char *data;
        size_t size, magic;
        const char *kind;
    } row[] = {{ref_jpeg420, sizeof ref_jpeg420, 3, "JPEG"},
               {ref_png_rgb, sizeof ref_png_rgb, 8, "PNG"},
               {ref_bmp, sizeof ref_bmp, 2, "BMP"}};
    tp_tensor t;
    memset(&t, 0, sizeof t);
    for (int i = 0; i < TP_COUNT(row); i++) {
        unsigned char *p = (unsigned char *)tp_malloc(row[i].size);
        if (!CHECK(p != NULL)) continue;
        memcpy(p, row[i].data, row[i].size);
        CHECK_OK(tp_image_decode(p, row[i].size, 3, &t));
        for (size_t k = 0; k < row[i].magic; k++) {
            p[k] ^= 1;
            CHECK_ERR(tp_image_decode(p, row[i].size, 3, &t), TP_ERR_FORMAT, "is no image");
            p[k] ^= 1;
        }
        tp_free(p);
        for (size_t n = 1; n <= row[i].magic; n++) { /* memory of n bytes */
            char damaged[60];
            unsigned char *start = (unsigned char *)malloc(n);
            if (!CHECK(start != NULL)) break;
            memcpy(start, row[i].data, n);
            snprintf(damaged, sizeof damaged, "is a damaged %s: it is cut short", row[i].kind);
            CHECK_ERR(tp_image_decode(start, n, 3, &t), TP_ERR_FORMAT, n < row[i].magic ? "is no image" : damaged);
            free(start);
        }
    }
    tp_tensor_free(&t);
}

TEST(what_is_no_image_has_a_sentence)
{
    NEEDS_STB();
    tp_tensor t;
    memset(&t, 0, sizeof t);
    CHECK_ERR(tp_image_decode("", 0, 3, &t), TP_ERR_FORMAT, "is empty");
    CHECK_ERR(tp_image_decode("hello", 5, 3, &t), TP_ERR_FORMAT,
              "is no image: it begins as neither JPEG nor PNG nor BMP does");
    CHECK_ERR(tp_image_decode(ref_gif, sizeof ref_gif, 3, &t), TP_ERR_FORMAT, "is no image");
    CHECK_ERR(tp_image_decode(ref_bomb_head, sizeof ref_bomb_head, 3, &t), TP_ERR_FORMAT,
              "is a PNG of 10000 x 10000 pixels, more than the 67108864");
    CHECK_ERR(tp_image_decode(ref_png_rgb, sizeof ref_png_rgb, 2, &t), TP_ERR_ARG, "2 channels");
    CHECK_ERR(tp_image_decode(NULL, 5, 3, &t), TP_ERR_ARG, "");
    for (size_t n = 8; n < sizeof ref_png_rgb; n += 13)
        CHECK_ERR(tp_image_decode(ref_png_rgb, n, 3, &t), TP_ERR_FORMAT, "is a damaged PNG: it is cut short");
    for (size_t n = 3; n < sizeof ref_jpeg420; n += 7)
        CHECK_ERR(tp_image_decode(ref_jpeg420, n, 3, &t), TP_ERR_FORMAT, "is a damaged JPEG: it is cut short");
    unsigned char jpeg[sizeof ref_jpeg420];
    int tables = 0;
    for (size_t at = 2; at + 20 < sizeof jpeg && ref_jpeg420[at + 1] != 0xda; at++) { /* tables of 257 codes and more */
        if (ref_jpeg420[at] != 0xff || ref_jpeg420[at + 1] != 0xc4) continue;
        memcpy(jpeg, ref_jpeg420, sizeof jpeg);
        memset(jpeg + at + 5, 0xff, 16);
        tables++;
        CHECK_ERR(tp_image_decode(jpeg, sizeof jpeg, 3, &t), TP_ERR_FORMAT, "is a damaged JPEG: a Huffman table has");
    }
    CHECK(tables > 0);
    for (size_t n = 2; n < sizeof ref_bmp; n += 61)
        CHECK_ERR(tp_image_decode(ref_bmp, n, 3, &t), TP_ERR_FORMAT, "is a damaged BMP: it is cut short");
    unsigned char png[sizeof ref_png_rgb], bmp[sizeof ref_bmp_grey];
    memcpy(bmp, ref_bmp_grey, sizeof bmp);
    memset(bmp + 10, 0, 4);
    for (int whole = 0; whole < 2; whole++) /* or it ends before the bits of a pixel */
        CHECK_ERR(tp_image_decode(bmp, whole ? sizeof bmp : 28, 3, &t), TP_ERR_FORMAT,
                  "a damaged BMP: its pixels begin inside its header");
    for (size_t at = 16; at < sizeof png - 12; at += 5) { /* any changed bit of a chunk */
        memcpy(png, ref_png_rgb, sizeof png);
        png[at] ^= 4;
        CHECK(tp_image_decode(png, sizeof png, 3, &t) == TP_ERR_FORMAT);
    }
    tp_tensor_free(&t);
}

/* ff, kind, length, contents: for a start of frame 8 bits, 20000 rows and 10000 columns. */
static size_t put_segment(unsigned char *to, int kind, size_t length, size_t present)
{
    static const unsigned char size[] = {8, 20000 >> 8, 20000 & 255, 10000 >> 8, 10000 & 255, 3};
    to[0] = 0xff, to[1] = (unsigned char)kind;
    to[2] = (unsigned char)(length >> 8), to[3] = (unsigned char)length;
    memset(to + 4, 0, present + 8);
    memcpy(to + 4, size, sizeof size);
    return 2 + present;
}
/* The segments of a JPEG say its size, or what is damaged, before anything is decoded. */
TEST(segments_of_a_jpeg)
{
    NEEDS_STB();
    static const char *const size = "is a JPEG of 10000 x 20000 pixels, more than the 67108864",
                             *const none = "is a damaged JPEG: its header has no size",
                             *const cut = "is a damaged JPEG: it is cut short",
                             *const table = "is a damaged JPEG: a Huffman table has too many codes";
    unsigned char p[64] = {0xff, 0xd8};
    tp_tensor t;
    memset(&t, 0, sizeof t);
    for (int kind = 2; kind < 255; kind++) { /* which segments tell the size */
        const bool frame = kind >= 0xc0 && kind <= 0xcf && kind != 0xc4 && kind != 0xc8 && kind != 0xcc;
        const bool has_contents = kind < 0xd0 || kind > 0xd9;
        const size_t n = 2 + put_segment(p + 2, kind, 8, 8);
        p[n] = 0xff, p[n + 1] = 0xd9;
        CHECK_ERR(tp_image_decode(p, n + 2, 3, &t), TP_ERR_FORMAT, frame ? size : kind == 0xc4 ? table : none);
        /* cut off behind the segment, and one byte before its end */
        CHECK_ERR(tp_image_decode(p, n, 3, &t), TP_ERR_FORMAT,
                  frame          ? size
                  : kind == 0xc4 ? table
                  : kind == 0xd9 ? none
                                 : cut);
        if (has_contents) CHECK_ERR(tp_image_decode(p, n - 1, 3, &t), TP_ERR_FORMAT, cut);
    }
    for (size_t length = 0; length < 10; length++) { /* seven bytes hold a size; a length counts its own two bytes */
        const size_t n = 2 + put_segment(p + 2, 0xc0, length, length < 2 ? 2 : length);
        p[n] = 0xff, p[n + 1] = 0xd9;
        CHECK_ERR(tp_image_decode(p, n + 2, 3, &t), TP_ERR_FORMAT, length < 2 ? cut : length < 7 ? none : size);
    }
    for (int kind = 0; kind < 256; kind++) { /* which markers have no length: behind the others, ff is contents */
        const bool alone = kind < 2 || (kind >= 0xd0 && kind <= 0xd9) || kind == 0xff;
        unsigned char *exact = (unsigned char *)malloc(8);
        if (!CHECK(exact)) break;
        memcpy(exact, "\xff\xd8\xff.\0\x03\xff\xd9", 8);
        exact[3] = (unsigned char)kind;
        CHECK_ERR(tp_image_decode(exact, 8, 3, &t), TP_ERR_FORMAT, alone ? none : kind == 0xc4 ? table : cut);
        free(exact);
        for (size_t k = 3; k < 8; k++) { /* cut off, in blocks of exactly their size */
            exact = (unsigned char *)malloc(k);
            if (!CHECK(exact)) break;
            memcpy(exact, "\xff\xd8\xff.\0\x03\xff", k);
            if (k > 3) exact[3] = (unsigned char)kind;
            CHECK_ERR(tp_image_decode(exact, k, 3, &t), TP_ERR_FORMAT,
                      k > 3 && kind == 0xd9    ? none
                      : k == 7 && kind == 0xc4 ? table
                                               : cut);
            free(exact);
        }
    }
    for (int over = 0; over < 2; over++) { /* 2^26 pixels are allowed */
        put_segment(p + 2, 0xc0, 8, 8);
        p[7] = 8192 >> 8, p[8] = (unsigned char)over, p[9] = 8192 >> 8, p[10] = 0;
        CHECK_ERR(tp_image_decode(p, 12, 3, &t), TP_ERR_FORMAT, over ? "is a JPEG of 8192 x 8193 pixels, more" : cut);
    }
    /* the first of two frames counts, the second has one row; ff may be repeated before a kind */
    const size_t second = 2 + put_segment(p + 2, 0xc2, 8, 8), n = second + put_segment(p + second, 0xc0, 8, 8);
    p[second + 5] = 0, p[second + 6] = 1;
    CHECK_ERR(tp_image_decode(p, n, 3, &t), TP_ERR_FORMAT, size);
    memmove(p + 4, p + 2, n - 2);
    p[2] = p[3] = 0xff;
    CHECK_ERR(tp_image_decode(p, n + 2, 3, &t), TP_ERR_FORMAT, size);
    CHECK_ERR(tp_image_decode("\xff\xd8\xff\xd9", 4, 3, &t), TP_ERR_FORMAT, none);
    CHECK_ERR(tp_image_decode("\xff\xd8\xff\xff\xff", 5, 3, &t), TP_ERR_FORMAT, cut);
    tp_tensor_free(&t);
}

/* Huffman tables of 0, 256 and 257 codes, one or two of them, in segments that end with the last one or elsewhere. */
TEST(huffman_tables_of_a_jpeg)
{
    NEEDS_STB();
    static const struct {
        int codes, tables, more; /* more: bytes that the segment is longer than its tables */
        bool good;
    } rows[] = {{0, 0, 0, true},    {0, 1, 0, true},    {0, 1, -1, false},  {0, 1, 1, false},    {1, 1, 0, true},
                {12, 2, 0, true},   {12, 2, -1, false}, {12, 2, 1, false},  {12, 2, 16, false},  {256, 1, 0, true},
                {257, 1, 0, false}, {256, 2, 0, true},  {255, 1, 1, false}, {256, 1, -1, false}, {300, 1, 0, false}};
    for (int i = 0; i < TP_COUNT(rows); i++) {
        unsigned char p[800] = {0xff, 0xd8, 0xff, 0xc4};
        tp_tensor t;
        size_t n = 6;
        memset(&t, 0, sizeof t);
        for (int k = 0; k < rows[i].tables; k++) {
            const int half = rows[i].codes > 255 ? rows[i].codes - 255 : 0; /* codes of the first and the last length */
            p[n + 1] = (unsigned char)half, p[n + 16] = (unsigned char)(rows[i].codes - half);
            n += 17 + (size_t)rows[i].codes;
        }
        n = (size_t)((int)n + rows[i].more);
        p[4] = (unsigned char)((n - 4) >> 8), p[5] = (unsigned char)(n - 4);
        p[n] = 0xff, p[n + 1] = 0xd9;
        const tp_status st = tp_image_decode(p, n + 2, 3, &t);
        const char *want = rows[i].good ? "its header has no size" : "a Huffman table has too many codes";
        CHECK_MSG(st == TP_ERR_FORMAT && strstr(tp_last_error(), want), "row %d: %s", i, tp_last_error());
        tp_tensor_free(&t);
    }
}

/* A BMP of 24 bits for each pixel, the lowest row first; a negative height: the highest row first. */
static size_t put_bmp(unsigned char *p, int w, int h)
{
    const int rows = abs(h), row = (3 * w + 3) / 4 * 4, size = 54 + rows * row;
    const uint32_t word[4] = {40, (uint32_t)w, (uint32_t)h, 1u | 24u << 16};
    memset(p, 0, (size_t)size);
    p[0] = 'B', p[1] = 'M', p[2] = (unsigned char)size, p[10] = 54;
    for (int i = 0; i < 16; i++) p[14 + i] = (unsigned char)(word[i / 4] >> 8 * (i % 4));
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < w; x++)
            for (int c = 0; c < 3; c++) /* blue, green, red */
                p[54 + (h < 0 ? y : rows - 1 - y) * row + 3 * x + c] = (unsigned char)(40 * y + 8 * x + 2 - c);
    return (size_t)size;
}
/* Images of one row and of one column; none of them has no row or no column. */
TEST(images_of_few_pixels)
{
    NEEDS_STB();
    unsigned char p[400];
    tp_tensor t;
    memset(&t, 0, sizeof t);
    for (int w = 0; w <= 5; w++)
        for (int h = -5; h <= 5; h++) {
            const size_t size = put_bmp(p, w, h);
            const tp_status st = tp_image_decode(p, size, 3, &t);
            if (w == 0 || h == 0) {
                CHECK_ERR(st, TP_ERR_FORMAT, "is a damaged BMP: its header has no size");
                continue;
            }
            if (!CHECK_OK(st) || !CHECK(t.shape.dim[0] == abs(h) && t.shape.dim[1] == w)) continue;
            for (int i = 0; i < tp_tensor_size(&t); i++)
                CHECK_MSG(tp_tensor_get(&t, i) == 40 * (i / (3 * w)) + 8 * (i / 3 % w) + i % 3,
                          "%d x %d: byte %d is %g", w, h, i, tp_tensor_get(&t, i));
        }
    tp_tensor_free(&t);
}

/* A chunk of a PNG, with its length and its sum. */
static void put_chunk(tp_buf *png, const char *type, const void *data, size_t n)
{
    const uint32_t crc = tp_crc32(tp_crc32(0, type, 4), data, n);
    unsigned char word[4];
    for (int k = 0; k < 4; k++) word[k] = (unsigned char)(n >> (24 - 8 * k));
    tp_buf_put(png, word, 4);
    tp_buf_put(png, type, 4);
    tp_buf_put(png, data, n);
    for (int k = 0; k < 4; k++) word[k] = (unsigned char)(crc >> (24 - 8 * k));
    tp_buf_put(png, word, 4);
}
static void put_png_head(tp_buf *png, int w, int h, int colour)
{
    unsigned char ihdr[13] = {0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0};
    for (int k = 0; k < 4; k++) {
        ihdr[k] = (unsigned char)(w >> (24 - 8 * k));
        ihdr[4 + k] = (unsigned char)(h >> (24 - 8 * k));
    }
    ihdr[9] = (unsigned char)colour;
    tp_buf_put(png, "\x89PNG\r\n\x1a\n", 8);
    put_chunk(png, "IHDR", ihdr, sizeof ihdr);
}
static void put_png_data(tp_buf *png, const void *rows, size_t n)
{
    tp_buf idat = {NULL, 0, 0, false};
    tp_buf_put(&idat, "\x78\x01", 2);
    CHECK_OK(tp_deflate(rows, n, &idat));
    tp_buf_put(&idat, "\0\0\0\0", 4);
    put_chunk(png, "IDAT", idat.data, idat.len);
    put_chunk(png, "IEND", "", 0);
    tp_buf_free(&idat);
}

/* A PNG of w x h pixels of a colour type whose data inflate to so many zeros. False: no memory. */
static bool put_png(tp_buf *png, int w, int h, int colour, size_t zeros)
{
    char *zero = (char *)calloc(zeros, 1);
    if (!zero) return false;
    put_png_head(png, w, h, colour);
    put_png_data(png, zero, zeros);
    free(zero);
    return true;
}

/* Colours that a palette lacks are black: of the first palette that is too short, where there are several. */
TEST(palettes_that_lack_colours)
{
    NEEDS_STB();
    static const struct {
        int colours[3]; /* of each palette in the file; 0: no more */
        int want[4];    /* colours of the pixels 0, 1, 200, 255 */
    } list[] = {{{256}, {50, 51, 250, 49}},   {{201}, {50, 51, 250, 0}},     {{2}, {50, 51, 0, 0}},
                {{256, 2}, {60, 61, 0, 0}},   {{256, 256}, {60, 61, 4, 59}}, {{2, 256}, {60, 61, 4, 59}},
                {{255, 1}, {60, 51, 250, 0}}, {{256, 256, 1}, {70, 0, 0, 0}}};
    static const unsigned char row[] = {0, 0, 1, 200, 255}; /* not filtered */
    tp_tensor t;
    memset(&t, 0, sizeof t);
    for (int i = 0; i < TP_COUNT(list); i++) {
        tp_buf png = {NULL, 0, 0, false};
        put_png_head(&png, 4, 1, 3);
        for (int k = 0; k < 3 && list[i].colours[k]; k++) {
            unsigned char palette[768]; /* grays, brighter in each further palette */
            for (int j = 0; j < 768; j++) palette[j] = (unsigned char)(j / 3 + 50 + 10 * k);
            put_chunk(&png, "PLTE", palette, 3 * (size_t)list[i].colours[k]);
        }
        put_png_data(&png, row, sizeof row);
        if (CHECK_OK(tp_image_decode(png.data, png.len, 3, &t)))
            for (int k = 0; k < 12; k++)
                CHECK_MSG(tp_tensor_get(&t, k) == list[i].want[k / 3], "file %d: byte %d is %g", i, k,
                          tp_tensor_get(&t, k));
        tp_buf_free(&png);
    }
    tp_tensor_free(&t);
}

/* A PNG of one pixel whose data inflate to 4 MiB is refused, and needs no such memory. */
TEST(an_image_that_unpacks_to_too_much)
{
    NEEDS_STB();
    tp_buf png = {NULL, 0, 0, false};
    if (!put_png(&png, 1, 1, 0, (size_t)4 << 20)) TEST_SKIP("no memory");
    tp_tensor t;
    memset(&t, 0, sizeof t);
    CHECK_ERR(tp_image_decode(png.data, png.len, 3, &t), TP_ERR_FORMAT, "it unpacks to more than its pixels");
    tp_tensor_free(&t);
    tp_buf_free(&png);
}

/* An image that is large in one direction or in both is decoded, though its file is small. */
TEST(images_of_many_equal_pixels)
{
    NEEDS_STB();
    static const int size[][2] = {{1, 1}, {1, 65000}, {64, 12000}, {12000, 64}, {65000, 1}, {1200, 700}};
    tp_tensor t;
    memset(&t, 0, sizeof t);
    for (int i = 0; i < TP_COUNT(size); i++) {
        tp_buf png = {NULL, 0, 0, false};
        const int w = size[i][0], h = size[i][1];
        if (!put_png(&png, w, h, 2, (size_t)h * (1 + 3 * (size_t)w))) TEST_SKIP("no memory");
        const tp_status st = tp_image_decode(png.data, png.len, 3, &t);
        CHECK_MSG(st == TP_OK, "%d x %d: %s", w, h, tp_last_error());
        CHECK(st != TP_OK || (t.shape.dim[0] == h && t.shape.dim[1] == w && t.shape.dim[2] == 3));
        int64_t not_zero = 0;
        for (int64_t k = 0; st == TP_OK && k < tp_tensor_size(&t); k++)
            not_zero += ((const unsigned char *)t.data)[k] != 0;
        CHECK(not_zero == 0);
        tp_buf_free(&png);
    }
    tp_tensor_free(&t);
}

static const char *image_dir, *image_files[4];
static void make_images(void)
{
    image_dir = tp_test_tmpdir();
    image_files[0] = write_file(image_dir, "0.jpg", ref_jpeg444, sizeof ref_jpeg444);
    image_files[1] = write_file(image_dir, "1.png", ref_png_rgb, sizeof ref_png_rgb);
    image_files[2] = write_file(image_dir, "2.bmp", ref_bmp_grey, sizeof ref_bmp_grey);
    image_files[3] = write_file(image_dir, "3.png", ref_png_palette, sizeof ref_png_palette);
}

TEST(image_files)
{
    NEEDS_STB();
    make_images();
    tp_dataflow *df = tp_df_image_from_file(image_files, 4);
    tp_datapoint dp = {0, NULL, 0};
    const unsigned char *const want[4] = {NULL, ref_png_rgb_rgb, ref_bmp_grey_rgb, ref_png_palette_rgb};
    for (int i = 0; i < 4 && CHECK_OK(tp_df_next(df, &dp)); i++)
        CHECK(dp.n == 1 && (!want[i] || same_bytes(&dp.c[0], TP_U8, want[i], 17 * 23 * 3)));
    tp_df_free(df);
    df = tp_df_image_from_file(image_files + 2, 1, .channel = 1);
    CHECK(CHECK_OK(tp_df_next(df, &dp)) && same_bytes(&dp.c[0], TP_U8, ref_bmp_grey_l, 17 * 23) &&
          dp.c[0].shape.ndim == 3);
    tp_df_free(df);
    tp_datapoint_free(&dp);
    check_protocol(tp_df_image_from_file(image_files, 4), 4, false);
    check_protocol(tp_df_image_from_file(image_files, 4, .shuffle = TP_YES), 4, true);
    check_no_allocation(tp_df_image_from_file(image_files, 4));
    check_refused(tp_df_image_from_file(NULL, 0), TP_ERR_ARG, "at least one file");
    check_refused(tp_df_image_from_file(image_files, 1, .channel = 4), TP_ERR_ARG, "channel is 4");
    check_refused(tp_df_image_from_file(image_files, 1, .max_pixels = -1), TP_ERR_ARG, "max_pixels is -1");
    df = tp_df_image_from_file(image_files, 1, .max_pixels = 17 * 23 - 1);
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_FORMAT,
              "0.jpg is a JPEG of 23 x 17 pixels, more than the 390 allowed (.max_pixels)");
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

/* Classes b, a with images, one of them deeper, and what else lies around. */
static const char *make_folder(void)
{
    static char root[400];
    char sub[500];
    snprintf(root, sizeof root, "%s", tp_test_tmpdir());
    snprintf(sub, sizeof sub, "%s/b/deep/er", root);
    CHECK_OK(tp_make_dirs(sub));
    write_file(sub, "x.png", ref_png_grey, sizeof ref_png_grey);
    snprintf(sub, sizeof sub, "%s/b", root);
    write_file(sub, "y.png", ref_png_rgb, sizeof ref_png_rgb);
    write_file(sub, ".hidden", "no image", 8);
    snprintf(sub, sizeof sub, "%s/a", root);
    CHECK_OK(tp_make_dirs(sub));
    write_file(sub, "z.bmp", ref_bmp, sizeof ref_bmp);
    write_file(sub, "A.bmp", ref_bmp_grey, sizeof ref_bmp_grey);
    write_file(root, "README", "not a class", 11);
    return root;
}

/* Links between folders: a few of them could give images without end, or 2^16 times each image. */
TEST(image_folders_with_links)
{
    char root[400], sub[500], link[600];
    snprintf(root, sizeof root, "%s", tp_test_tmpdir());
    for (int i = 0; i < 12; i++) { /* each folder has two links to the next */
        if (i == 0) snprintf(sub, sizeof sub, "%s/a", root);
        else snprintf(sub, sizeof sub, "%s/.far/%d", root, i);
        CHECK_OK(tp_make_dirs(sub));
        for (int k = 0; k < 2 && i < 11; k++) {
            char target[500];
            snprintf(target, sizeof target, "%s/.far/%d", root, i + 1);
            snprintf(link, sizeof link, "%s/%c", sub, 'p' + k);
            CHECK(symlink(target, link) == 0);
        }
        write_file(sub, "z.bmp", ref_bmp, sizeof ref_bmp);
    }
    snprintf(sub, sizeof sub, "%s/b", root); /* another class may have the same images */
    CHECK_OK(tp_make_dirs(sub));
    snprintf(link, sizeof link, "%s/of_a", sub);
    CHECK(symlink("../a", link) == 0);
    n_warnings = 0;
    tp_set_log(keep_warnings, NULL);
    tp_dataflow *df = tp_df_image_folder(root, .decode = TP_NO, .shuffle = TP_NO);
    tp_set_log(NULL, NULL);
    CHECK_OK(tp_df_status(df));
    CHECK(tp_df_size(df) == 24);
    CHECK(n_warnings == 2 &&
          strstr(warnings[0], "class 'a': 11 links lead to folders whose images were taken already: each is"));
    tp_df_free(df);
    check_no_allocation(tp_df_image_folder(root, .decode = TP_NO));
    for (int up = 0; up < 2; up++) {
        snprintf(link, sizeof link, "%s/b/up", root);
        unlink(link);
        CHECK(symlink(up ? ".." : ".", link) == 0);
        check_refused(tp_df_image_folder(root, .decode = TP_NO), TP_ERR_FORMAT,
                      "b/up is a link to a folder that it lies in: remove it, its images would have no end");
    }
}

/* As tensorpack's ImageFromFile(resize=): what tp_aug_resize makes of the image in the file. */
TEST(image_files_are_resized)
{
    NEEDS_STB();
    make_images();
    const int sizes[3][2] = {{9, 31}, {12, 0}, {17, 23}};
    for (int i = 0; i < 3; i++)
        for (int channel = 1; channel <= 3; channel += 2) {
            const int h = sizes[i][0], w = sizes[i][1];
            tp_dataflow *df = tp_df_image_from_file(image_files, 4, .channel = channel, .resize = {h, w});
            tp_dataflow *by_hand = tp_df_augment_image(tp_df_image_from_file(image_files, 4, .channel = channel),
                                                       tp_aug_resize(.h = h, .w = w));
            tp_datapoint dp = {0, NULL, 0}, want = {0, NULL, 0};
            for (int k = 0; k < 4 && CHECK_OK(tp_df_next(df, &dp)) && CHECK_OK(tp_df_next(by_hand, &want)); k++) {
                const int64_t *dim = dp.c[0].shape.dim;
                CHECK(dim[0] == h && dim[1] == (w ? w : h) && dim[2] == channel);
                CHECK(same_bytes(&dp.c[0], TP_U8, want.c[0].data, tp_tensor_bytes(&want.c[0])));
            }
            CHECK(tp_df_next(df, &dp) == TP_END);
            tp_datapoint_free(&dp);
            tp_datapoint_free(&want);
            tp_df_free(df);
            tp_df_free(by_hand);
        }
    check_protocol(tp_df_image_from_file(image_files, 4, .resize = {7}), 4, false);
    check_no_allocation(tp_df_image_from_file(image_files, 4, .resize = {40, 7}));
    check_refused(tp_df_image_from_file(image_files, 4, .resize = {0, 7}), TP_ERR_ARG,
                  "tp_df_image_from_file: .resize: tp_aug_resize: the size is 0x7, it must be positive");
    check_refused(tp_df_image_from_file(image_files, 4, .resize = {-1, 7}), TP_ERR_ARG, "the size is -1x7");
}

TEST(image_folders)
{
    NEEDS_STB();
    const char *root = make_folder();
    tp_dataflow *df = tp_df_image_folder(root, .shuffle = TP_NO);
    tp_datapoint dp = {0, NULL, 0};
    const unsigned char *const want[4] = {ref_bmp_grey_rgb, ref_bmp_rgb, ref_png_grey_rgb, ref_png_rgb_rgb};
    for (int i = 0; i < 4 && CHECK_OK(tp_df_next(df, &dp)); i++) {
        CHECK(dp.n == 2 && same_bytes(&dp.c[0], TP_U8, want[i], 17 * 23 * 3));
        CHECK(dp.c[1].dtype == TP_I32 && dp.c[1].shape.ndim == 0 && tp_tensor_get(&dp.c[1], 0) == i / 2);
    }
    int n = -1;
    const char *const *classes = tp_df_image_classes(df, &n);
    CHECK(n == 2 && classes && strcmp(classes[0], "a") == 0 && strcmp(classes[1], "b") == 0);
    tp_df_free(df);
    check_protocol(tp_df_image_folder(root), 4, true);
    check_protocol(tp_df_image_folder(root, .shuffle = TP_NO), 4, false);
    check_no_allocation(tp_df_image_folder(root));
    check_no_allocation(tp_df_image_folder(root, .decode = TP_NO));
    /* paths, decoded by a map */
    df = tp_df_map(tp_df_image_folder(root, .shuffle = TP_NO, .decode = TP_NO), tp_map_image, .keeps_all = TP_YES);
    for (int i = 0; i < 4 && CHECK_OK(tp_df_next(df, &dp)); i++)
        CHECK(same_bytes(&dp.c[0], TP_U8, want[i], 17 * 23 * 3) && tp_tensor_get(&dp.c[1], 0) == i / 2);
    CHECK(!tp_df_image_classes(df, &n) && n == 0);
    tp_df_free(df);
    tp_datapoint_free(&dp);
    check_refused(tp_df_image_folder(tp_test_tmpdir()), TP_ERR_FORMAT,
                  "has no folders: it must have a folder for each class");
    check_refused(tp_df_image_folder(tp_test_path(root, "none")), TP_ERR_IO, "none cannot be read");
    check_refused(tp_df_image_folder(NULL), TP_ERR_ARG, "the folder is NULL");
}

TEST(image_lists)
{
    NEEDS_STB();
    make_images();
    char text[2048];
    snprintf(text, sizeof text, "1.png 7\r\n\n  2.bmp\t0 \n%s 12\n", image_files[3]);
    const char *list = write_file(image_dir, "list.txt", text, strlen(text));
    tp_dataflow *df = tp_df_image_list(list, .dir = image_dir, .shuffle = TP_NO);
    tp_datapoint dp = {0, NULL, 0};
    const unsigned char *const want[3] = {ref_png_rgb_rgb, ref_bmp_grey_rgb, ref_png_palette_rgb};
    const int label[3] = {7, 0, 12};
    for (int i = 0; i < 3 && CHECK_OK(tp_df_next(df, &dp)); i++)
        CHECK(same_bytes(&dp.c[0], TP_U8, want[i], 17 * 23 * 3) && tp_tensor_get(&dp.c[1], 0) == label[i]);
    CHECK(tp_df_next(df, &dp) == TP_END);
    tp_datapoint_free(&dp);
    tp_df_free(df);
    check_protocol(tp_df_image_list(list, .dir = image_dir), 3, true);
    const char *const wrong[] = {"a.png 1\nb.png\n", "a.png 1\nb.png -1\n", "a.png 1\n5\n", "a.png 1\nb.png x\n",
                                 "a.png 1\nb.png 99999999999\n"};
    for (int i = 0; i < TP_COUNT(wrong); i++) {
        list = write_file(image_dir, "wrong.txt", wrong[i], strlen(wrong[i]));
        check_refused(tp_df_image_list(list), TP_ERR_FORMAT, "wrong.txt:2: a line has a path, a blank and a label");
    }
    check_refused(tp_df_image_list(write_file(image_dir, "e", "\n\n", 2)), TP_ERR_FORMAT, "lists no image");
    check_refused(tp_df_image_list(NULL), TP_ERR_ARG, "the list is NULL");
}

/* A folder with everything that can be wrong with an image file, and two good ones. */
static const char *make_bad_folder(int *bad)
{
    static char root[400];
    char sub[500];
    unsigned char broken[sizeof ref_jpeg444];
    snprintf(root, sizeof root, "%s", tp_test_tmpdir());
    snprintf(sub, sizeof sub, "%s/c", root);
    CHECK_OK(tp_make_dirs(sub));
    write_file(sub, "a_good.png", ref_png_rgb, sizeof ref_png_rgb);
    write_file(sub, "b_cut.jpg", ref_jpeg420, sizeof ref_jpeg420 / 2);
    memcpy(broken, ref_jpeg444, sizeof broken);
    for (size_t i = 0; i + 5 < sizeof broken; i++)
        if (broken[i] == 0xff && broken[i + 1] == 0xc4) memset(broken + i + 5, 0xff, 16); /* codes of a Huffman table */
    write_file(sub, "c_broken.jpg", broken, sizeof broken);
    write_file(sub, "d_empty.jpg", "", 0);
    write_file(sub, "e_text.txt", "a text\n", 7);
    write_file(sub, "f_bomb.png", ref_bomb_head, sizeof ref_bomb_head);
    *bad = 5;
#ifndef _WIN32
    const char *link = tp_test_path(sub, "g_unreadable.jpg");
    if (symlink("nowhere", link) == 0) ++*bad;
    const char *pipe = tp_test_path(sub, "h_pipe.jpg");
    if (mkfifo(pipe, 0600) == 0) ++*bad;
    if (geteuid() != 0) { /* root reads everything */
        CHECK(chmod(write_file(sub, "i_secret.png", ref_png_rgb, sizeof ref_png_rgb), 0) == 0);
        ++*bad;
    }
#endif
    write_file(sub, "z_good.bmp", ref_bmp, sizeof ref_bmp);
    return root;
}

TEST(bad_image_files_are_skipped_and_each_is_named_once)
{
    NEEDS_STB();
    int bad;
    const char *root = make_bad_folder(&bad);
    tp_dataflow *df = tp_df_image_folder(root, .on_error = TP_SKIP);
    tp_datapoint dp = {0, NULL, 0};
    n_warnings = 0;
    tp_set_log(keep_warnings, NULL);
    for (int pass = 0; pass < 3; pass++) {
        int good = 0;
        CHECK_OK(tp_df_restart(df, pass));
        while (tp_df_next(df, &dp) == TP_OK) good++;
        CHECK(good == 2);
    }
    CHECK_MSG(n_warnings == bad, "%d warnings for %d files", n_warnings, bad);
    const char *const named[] = {"b_cut.jpg is a damaged JPEG: it is cut short",
                                 "c_broken.jpg is a damaged JPEG",
                                 "d_empty.jpg is empty",
                                 "e_text.txt is no image",
                                 "f_bomb.png is a PNG of 10000 x 10000 pixels",
                                 "g_unreadable.jpg cannot be opened",
                                 "h_pipe.jpg is not a file"};
    for (int i = 0; i < (bad < 7 ? 5 : 7); i++) {
        int times = 0;
        for (int k = 0; k < n_warnings; k++) times += strstr(warnings[k], named[i]) != NULL;
        CHECK_MSG(times == 1, "\"%s\" stands %d times in the log", named[i], times);
    }
    tp_df_free(df);
    /* refused: the first one that comes, with the same sentence */
    df = tp_df_image_folder(root, .shuffle = TP_NO);
    CHECK_OK(tp_df_next(df, &dp));
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_FORMAT, "b_cut.jpg is a damaged JPEG: it is cut short");
    tp_df_free(df);
    /* and each of them, alone */
    static const char *const file[] = {"b_cut.jpg",  "c_broken.jpg",     "d_empty.jpg", "e_text.txt",
                                       "f_bomb.png", "g_unreadable.jpg", "h_pipe.jpg"};
    for (int i = 0; i < (bad < 7 ? 5 : 7); i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/c/%s", root, file[i]);
        const char *one = path;
        df = tp_df_image_from_file(&one, 1);
        CHECK_ERR(tp_df_next(df, &dp), i < 5 ? TP_ERR_FORMAT : TP_ERR_IO, named[i]);
        tp_df_free(df);
    }
    /* by the map function, on threads too: dropped, named once */
    const tp_image_options options = {0, 0, TP_SKIP};
    for (int threads = 0; threads <= 4; threads += 2) {
        void *user = (void *)(uintptr_t)&options;
        n_warnings = 0;
        df = tp_df_image_folder(make_bad_folder(&bad), .decode = TP_NO); /* a program hears of a file once */
        df = threads ? tp_df_parallel_map(df, tp_map_image, user, .num_thread = threads)
                     : tp_df_map(df, tp_map_image, user);
        for (int pass = 0; pass < 3; pass++) {
            int good = 0;
            CHECK_OK(tp_df_restart(df, pass));
            while (tp_df_next(df, &dp) == TP_OK) good++;
            CHECK(good == 2);
        }
        CHECK_MSG(n_warnings == bad, "%d warnings for %d files by %d threads", n_warnings, bad, threads);
        tp_df_free(df);
    }
    tp_set_log(NULL, NULL);
    tp_datapoint_free(&dp);
}

/* seek in a fresh flow passes over the same files as walking does. */
TEST(seek_over_bad_image_files)
{
    NEEDS_STB();
    int bad;
    const char *root = make_bad_folder(&bad);
    tp_set_log(keep_warnings, NULL);
    uint64_t seen[MOST];
    for (int pass = 0; pass < 3; pass++)
        for (int64_t k = 0; k <= 3; k++) {
            tp_dataflow *df = tp_df_image_folder(root, .on_error = TP_SKIP);
            CHECK(walk(df, pass, seen) == 2);
            tp_df_free(df);
            df = tp_df_image_folder(root, .on_error = TP_SKIP);
            tp_datapoint dp = {0, NULL, 0};
            int64_t skipped = 0;
            CHECK_OK(tp_df_restart(df, pass));
            CHECK_OK(tp_df_seek(df, k, &skipped));
            CHECK(skipped == (k < 2 ? k : 2));
            for (int64_t i = skipped; i < 2; i++) CHECK(tp_df_next(df, &dp) == TP_OK && digest(&dp) == seen[i]);
            CHECK(tp_df_next(df, &dp) == TP_END);
            tp_datapoint_free(&dp);
            tp_df_free(df);
        }
    tp_set_log(NULL, NULL);
}

static tp_dataflow *image_flow(void) { return tp_df_image_from_file(image_files, 4, .shuffle = TP_YES); }
static tp_dataflow *resized_flow(void) { return tp_df_image_from_file(image_files, 4, .resize = {9, 40}); }
static const char *long_names[4];
static tp_dataflow *long_flow(void) { return tp_df_image_from_file(long_names, 4); }
static const char *folder_root;
static tp_dataflow *folder_flow(void) { return tp_df_image_folder(folder_root); }
static tp_dataflow *decoding_flow(void)
{
    return tp_df_map(tp_df_image_folder(folder_root, .decode = TP_NO), tp_map_image);
}
TEST(images_without_memory)
{
    NEEDS_STB();
    make_images();
    check_no_memory_(image_flow, false, __LINE__); /* it can do without a block for the next image */
    check_no_memory_(resized_flow, false, __LINE__);
    /* names that fill blocks of memory of their own */
    for (int i = 0; i < 4; i++) {
        static char name[4][4000];
        size_t n = strlen(image_dir);
        memcpy(name[i], image_dir, n);
        for (; n < 3000; n += 2) memcpy(name[i] + n, "/.", 2);
        snprintf(name[i] + n, sizeof name[i] - n, "%s", image_files[i] + strlen(image_dir));
        long_names[i] = name[i];
    }
    check_no_memory_(long_flow, false, __LINE__);
    folder_root = make_folder();
    check_no_memory_(folder_flow, false, __LINE__);
    check_no_memory_(decoding_flow, false, __LINE__);
}

/* CIFAR-10's JPEG files, where a folder of them is there: TP_TEST_CIFAR10_JPEG=<folder of class folders>. */
TEST(a_folder_of_jpeg_files)
{
    NEEDS_STB();
    const char *dir = getenv("TP_TEST_CIFAR10_JPEG");
    if (!dir) TEST_SKIP("TP_TEST_CIFAR10_JPEG is not set to a folder of class folders");
    tp_dataflow *df = tp_df_image_folder(dir);
    tp_datapoint dp = {0, NULL, 0};
    if (!CHECK_OK(tp_df_status(df))) return;
    int n;
    CHECK(tp_df_image_classes(df, &n) && n == 10);
    for (int i = 0; i < 1000 && CHECK_OK(tp_df_next(df, &dp)); i++) CHECK(tp_tensor_size(&dp.c[0]) == 3072);
    tp_datapoint_free(&dp);
    tp_df_free(df);
}

/* ==== >>lmdb ========================================================================================== */

#ifndef TP_LMDB
TEST(lmdb_is_an_optional_part)
{
    tp_dataflow *df = tp_df_digits("test", .size = 3);
    check_refused(tp_df_lmdb("x"), TP_ERR_UNSUPPORTED, "define TP_LMDB");
    CHECK_ERR(tp_lmdb_save(df, "x"), TP_ERR_UNSUPPORTED, "define TP_LMDB");
    tp_df_free(df);
}
#endif

TEST_MAIN()
