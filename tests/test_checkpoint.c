/* test_checkpoint.c - safetensors and TensorFlow's checkpoints, good and hostile, and what sessions do with them. The
 * oracles are bytes that TensorFlow and the safetensors package wrote. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define TP_IMPLEMENTATION
#include "tp_graph.h"
#include "tp_help.h"
#include "inject.h"
#include "formats.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* ==== >>helpers ======================================================================================= */

/* A byte string that tests build by hand. */
typedef struct bytes {
    uint8_t p[1 << 15];
    size_t n;
} bytes;

static void put(bytes *b, const void *p, size_t n)
{
    if (n) memcpy(b->p + b->n, p, n);
    b->n += n;
}
static void put_le(bytes *b, uint64_t v, int n)
{
    while (n-- > 0) b->p[b->n++] = (uint8_t)v, v >>= 8;
}
static void put_varint(bytes *b, uint64_t v)
{
    for (; v > 127; v >>= 7) b->p[b->n++] = (uint8_t)(v | 128);
    b->p[b->n++] = (uint8_t)v;
}

/* Bytes from hexadecimal text; spaces are skipped. */
static void put_hex(bytes *b, const char *text)
{
    int high = -1;
    for (; *text; text++) {
        if (*text == ' ') continue;
        int v = *text <= '9' ? *text - '0' : *text - 'a' + 10;
        if (high < 0) high = v;
        else b->p[b->n++] = (uint8_t)(16 * high + v), high = -1;
    }
}

static tp_shape shape_of(int ndim, int64_t a, int64_t b)
{
    int64_t dim[2];
    dim[0] = a;
    dim[1] = b;
    return tp_make_shape_n(ndim, dim);
}

/* Element i is first + i, or a truth value. */
static void add(tp_dict *d, const char *name, tp_dtype dtype, tp_shape shape, double first)
{
    tp_tensor *t = tp_dict_add(d, name);
    if (!CHECK(t != NULL) || !CHECK_OK(tp_tensor_resize(t, dtype, shape))) return;
    for (int64_t i = 0; i < tp_tensor_size(t); i++)
        tp_tensor_set(t, i, dtype == TP_BOOL ? (double)(i & 1) : first + (double)i);
}

static bool same(const tp_tensor *a, const tp_tensor *b)
{
    if (!a || !b || a->dtype != b->dtype || !tp_shape_equal(&a->shape, &b->shape)) return false;
    return tp_tensor_size(a) == 0 || memcmp(a->data, b->data, tp_tensor_bytes(a)) == 0;
}

static bool same_dict(const tp_dict *a, const tp_dict *b)
{
    bool ok = a->n == b->n;
    for (int i = 0; i < a->n && ok; i++) ok = same(&a->item[i].value, tp_dict_find(b, a->item[i].name));
    return ok;
}

/* Everything that can be saved. */
static void fill(tp_dict *d)
{
    char name[40];
    for (int t = TP_F32; t < TP_DTYPE_COUNT; t++) {
        snprintf(name, sizeof name, "scope/%s", tp_dtype_name((tp_dtype)t));
        add(d, name, (tp_dtype)t, shape_of(2, 2, 3), 1);
    }
    add(d, "scalar", TP_I64, shape_of(0, 0, 0), 12345);
    add(d, "empty", TP_F32, shape_of(2, 0, 5), 0);
    add(d, "tp:input/consumed", TP_I64, shape_of(1, 1, 0), 7);
    add(d, "quote\" back\\ bell\a \xc3\xa9", TP_F32, shape_of(1, 2, 0), 1);
    add(d, "../../up", TP_F32, shape_of(1, 2, 0), 5);
    add(d, "/etc/passwd", TP_F32, shape_of(1, 2, 0), 5);
}

TEST(every_format_brings_everything_back)
{
    const char *dir = tp_test_tmpdir();
    tp_dict d = {NULL, 0, 0}, back = {NULL, 0, 0};
    fill(&d);
    for (int f = 0; f < 3; f++) {
        const char *path = file_of(dir, "all", f);
        add(&back, "old", TP_F32, shape_of(1, 1, 0), 0);
        CHECK_OK(save_as(f, path, &d));
        CHECK_OK(load_as(f, path, &back));
        if (f == 0) { /* npz has no bfloat16 */
            tp_tensor *t = tp_dict_find(&back, "scope/bfloat16");
            CHECK(t && t->dtype == TP_F32);
            if (t) CHECK_OK(tp_tensor_copy(t, tp_dict_find(&d, "scope/bfloat16")));
        }
        CHECK_MSG(same_dict(&d, &back), "format %d", f);
        /* nothing at all is a checkpoint, too */
        tp_dict none = {NULL, 0, 0};
        CHECK_OK(save_as(f, path, &none));
        CHECK_OK(load_as(f, path, &back));
        CHECK(back.n == 0);
        CHECK(load_as(f, tp_test_path(dir, "missing"), &back) == TP_ERR_IO);
    }
    CHECK(tp_test_files_in(dir) == 4); /* names are names, not paths */
    tp_dict_free(&d);
    tp_dict_free(&back);
}

/* Files are written and checked in pieces of 1 MiB: arrays that end before a piece does, with it, or in the next. */
TEST(arrays_of_several_pieces)
{
    static const int64_t counts[] = {1 << 20, (1 << 20) + 1, (2 << 20) + 5};
    const char *dir = tp_test_tmpdir();
    for (int f = 0; f < 3; f++)
        for (int i = 0; i < TP_COUNT(counts); i++) {
            tp_dict d = {NULL, 0, 0}, back = {NULL, 0, 0};
            const char *path = file_of(dir, "large", f);
            tp_tensor *t = tp_dict_add(&d, "a");
            if (!CHECK(t != NULL) || !CHECK_OK(tp_tensor_resize(t, TP_U8, shape_of(1, counts[i], 0)))) return;
            for (int64_t k = 0; k < counts[i]; k++) ((uint8_t *)t->data)[k] = (uint8_t)(k % 251);
            add(&d, "b", TP_I32, shape_of(1, 3, 0), 5);
            CHECK_OK(save_as(f, path, &d));
            CHECK_OK(load_as(f, path, &back));
            CHECK_MSG(same_dict(&d, &back), "format %d, %d bytes", f, (int)counts[i]);
            tp_dict_free(&d);
            tp_dict_free(&back);
        }
}

TEST(names_of_characters_of_each_length)
{
    /* the first and the last of each length, and those beside the surrogates */
    static const char *const good[] = {"\x7f",         "\xc2\x80",         "\xdf\xbf",
                                       "\xe0\xa0\x80", "\xed\x9f\xbf",     "\xee\x80\x80",
                                       "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"};
    const char *dir = tp_test_tmpdir();
    tp_dict d = {NULL, 0, 0};
    for (int i = 0; i < TP_COUNT(good); i++) add(&d, good[i], TP_F32, shape_of(1, 1, 0), 0);
    for (int f = 0; f < 3; f++) {
        tp_dict back = {NULL, 0, 0};
        const char *path = tp_test_path(dir, f == 0 ? "x.safetensors" : f == 1 ? "x.npz" : "bundle");
        CHECK_OK(f == 0   ? tp_safetensors_save(path, &d)
                 : f == 1 ? tp_npz_save(path, &d, false)
                          : tp_tf_checkpoint_save(path, &d));
        CHECK_OK(f == 0   ? tp_safetensors_load(path, &back)
                 : f == 1 ? tp_npz_load(path, &back)
                          : tp_tf_checkpoint_load(path, &back));
        CHECK_MSG(same_dict(&d, &back), "format %d", f);
        tp_dict_free(&back);
    }
    tp_dict_free(&d);
}

TEST(names_that_cannot_be_saved)
{
    static const char *const bad[] = {
        "", "__metadata__", "\xff", "\xc3", "\xed\xa0\x80", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80"};
    const char *dir = tp_test_tmpdir();
    for (int i = 0; i < TP_COUNT(bad); i++) {
        tp_dict d = {NULL, 0, 0};
        add(&d, bad[i], TP_F32, shape_of(1, 1, 0), 0);
        CHECK_ERR(tp_safetensors_save(tp_test_path(dir, "x"), &d), TP_ERR_NAME, i ? "cannot hold" : "needs a name");
        if (i == 0) CHECK_ERR(tp_tf_checkpoint_save(tp_test_path(dir, "x"), &d), TP_ERR_NAME, "needs a name");
        tp_dict_free(&d);
    }
    tp_dict d = {NULL, 0, 0};
    add(&d, "a", TP_F32, shape_of(1, 1, 0), 0);
    add(&d, "b", TP_I64, shape_of(1, 1, 0), 0);
    d.item[1].name[0] = 'a';
    CHECK_ERR(tp_safetensors_save(tp_test_path(dir, "x"), &d), TP_ERR_NAME, "two tensors 'a'");
    CHECK_ERR(tp_tf_checkpoint_save(tp_test_path(dir, "x"), &d), TP_ERR_NAME, "two tensors 'a'");
    d.item[1].value.dtype = TP_DTYPE_UNSET;
    CHECK_ERR(tp_safetensors_save(tp_test_path(dir, "x"), &d), TP_ERR_ARG, "no element type");
    CHECK_ERR(tp_tf_checkpoint_save("", &d), TP_ERR_ARG, "empty");
    CHECK_ERR(tp_tf_checkpoint_save(tp_test_path(dir, "none/x"), &d), TP_ERR_ARG, "no element type");
    d.item[1].value.dtype = TP_I64;
    d.item[1].name[0] = 'b';
    CHECK_ERR(tp_tf_checkpoint_save(tp_test_path(dir, "none/x"), &d), TP_ERR_IO, "cannot be created");
    CHECK_ERR(tp_tf_checkpoint_load(NULL, &d), TP_ERR_ARG, "NULL");
    CHECK(tp_test_files_in(dir) == 0);
    tp_dict_free(&d);
}

/* ==== >>safetensors =================================================================================== */

static tp_status parse(const bytes *b, tp_dict *d) { return tp_safetensors_parse(b->p, b->n, "x.safetensors", d); }

/* A header and n bytes after it. */
static void safetensors_of(bytes *b, const char *header, size_t n)
{
    b->n = 0;
    put_le(b, strlen(header), 8);
    put(b, header, strlen(header));
    for (size_t i = 0; i < n; i++) put_le(b, i, 1);
}

static const char known_safetensors[] =
    "98000000000000007b225f5f6d657461646174615f5f223a7b22666f726d6174223a227470227d2c22636f6e76302f57223a7b226474797065"
    "223a22463332222c227368617065223a5b322c325d2c22646174615f6f666673657473223a5b302c31365d7d2c2273746570223a7b22647479"
    "7065223a22493634222c227368617065223a5b5d2c22646174615f6f666673657473223a5b31362c32345d7d7d200000803f00000040000040"
    "40000080400700000000000000";

/* What the safetensors package (0.8.0) writes for these arrays. */
TEST(safetensors_known_bytes)
{
    const char *dir = tp_test_tmpdir(), *path = tp_test_path(dir, "x.safetensors");
    bytes b;
    tp_dict d = {NULL, 0, 0};
    b.n = 0;
    put_hex(&b, known_safetensors);
    CHECK(b.n == 184);
    CHECK_OK(parse(&b, &d));
    const tp_tensor *w = tp_dict_find(&d, "conv0/W"), *step = tp_dict_find(&d, "step");
    CHECK(d.n == 2 && w && step && w->dtype == TP_F32 && w->shape.ndim == 2 && tp_tensor_get(w, 3) == 4);
    CHECK(step && step->dtype == TP_I64 && step->shape.ndim == 0 && tp_tensor_get(step, 0) == 7);
    tp_dict_free(&d);

    static const char header[] = "{\"__metadata__\":{\"format\":\"tp2\",\"tp.crc32c\":"
                                 "\"0000000000000000000000000000000000000000000000000000000000000000\"},"
                                 "\"scalar\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
                                 "\"scope/float64\":{\"dtype\":\"F64\",\"shape\":[1,2],\"data_offsets\":[8,24]},"
                                 "\"empty\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[24,24]},"
                                 "\"scope/float32\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,28]},"
                                 "\"\xc3\xa9\\\"\\\\\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[28,32]},"
                                 "\"scope/float16\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[32,34]},"
                                 "\"scope/bool\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[34,36]}}";
    add(&d, "scope/bool", TP_BOOL, shape_of(1, 2, 0), 0);
    add(&d, "scope/float16", TP_F16, shape_of(1, 1, 0), 1);
    add(&d, "scope/float32", TP_F32, shape_of(1, 1, 0), 1);
    add(&d, "\xc3\xa9\"\\", TP_F32, shape_of(1, 1, 0), 2);
    add(&d, "empty", TP_F32, shape_of(2, 0, 5), 2);
    add(&d, "scope/float64", TP_F64, shape_of(2, 1, 2), 1);
    add(&d, "scalar", TP_I64, shape_of(0, 0, 0), 7);
    const size_t pad = (8 - strlen(header) % 8) % 8;
    b.n = 0;
    put_le(&b, strlen(header) + pad, 8);
    put(&b, header, strlen(header));
    put(&b, "       ", pad);
    put_hex(&b, "0700000000000000 000000000000f03f0000000000000040 0000803f 00000040 003c 0001");
    static const int end[] = {0,  8,  24, 24,
                              28, 32, 34, 36}; /* the checksums: of each tensor, then of the header with them */
    const size_t data = 8 + strlen(header) + pad, sums = 8 + (size_t)(strstr(header, "00000000") - header);
    char text[16];
    for (int i = 7; i >= 0; i--) {
        const uint32_t sum =
            i ? tp_crc32c(0, b.p + data + end[i - 1], (size_t)(end[i] - end[i - 1])) : tp_crc32c(0, b.p, data);
        snprintf(text, sizeof text, "%08x", (unsigned)sum);
        memcpy(b.p + sums + 8 * (size_t)i, text, 8);
    }
    CHECK_OK(tp_safetensors_save(path, &d));
    CHECK(tp_test_file_equals(path, b.p, b.n));
    tp_dict_free(&d);
}

/* What counts against the limit of a file is the bytes of its tensors, wherever they lie: many small ones behind a large one. */
TEST(safetensors_many_behind_a_large_one)
{
    const char *path = tp_test_path(tp_test_tmpdir(), "x.safetensors");
    tp_dict d = {NULL, 0, 0}, back = {NULL, 0, 0};
    add(&d, "z", TP_F32, shape_of(1, (1 << 22) - 2048, 0), 1);
    for (int i = 0; i < 512; i++) {
        char name[8];
        snprintf(name, sizeof name, "a%d", i);
        add(&d, name, TP_U8, shape_of(1, 4, 0), 1);
    }
    CHECK_OK(tp_safetensors_save(path, &d));
    CHECK_OK(tp_safetensors_load(path, &back));
    CHECK(back.n == 513);
    tp_dict_free(&d);
    tp_dict_free(&back);
}

/* Of the characters of a name, those below the space are written as numbers, and quotes and backslashes behind a backslash. */
TEST(safetensors_characters_of_names)
{
    const char *path = tp_test_path(tp_test_tmpdir(), "x.safetensors");
    char *data = NULL;
    size_t size = 0;
    tp_dict d = {NULL, 0, 0}, back = {NULL, 0, 0};
    for (int ch = 1; ch < 128; ch++) {
        const char name[] = {'a', (char)ch, 'b', 0};
        add(&d, name, TP_F32, shape_of(1, 1, 0), ch);
    }
    CHECK_OK(tp_safetensors_save(path, &d));
    CHECK_OK(tp_safetensors_load(path, &back));
    CHECK(same_dict(&d, &back));
    if (!CHECK_OK(tp_file_read(path, false, 0, &data, &size))) return;
    for (int ch = 1; ch < 128; ch++) {
        char want[32];
        if (ch < 32) snprintf(want, sizeof want, ",\"a\\u%04xb\":{", (unsigned)ch);
        else snprintf(want, sizeof want, ch == '"' || ch == '\\' ? ",\"a\\%cb\":{" : ",\"a%cb\":{", ch);
        CHECK_MSG(strstr(data + 8, want), "character %d", ch);
    }
    tp_free(data);
    tp_dict_free(&d);
    tp_dict_free(&back);
}

/* A bit that changed anywhere in a file of ours is noticed, and the sentence says where. */
TEST(safetensors_flipped_bits_are_refused)
{
    const char *dir = tp_test_tmpdir(), *path = tp_test_path(dir, "x.safetensors");
    tp_dict d = {NULL, 0, 0};
    char *data = NULL;
    size_t size = 0;
    uint32_t r[4];
    add(&d, "conv0/W", TP_F32, shape_of(2, 20, 10), 1);
    add(&d, "conv0/b", TP_F32, shape_of(1, 10, 0), 2);
    add(&d, "half", TP_F16, shape_of(1, 30, 0), 1);
    add(&d, "step", TP_I64, shape_of(0, 0, 0), 7);
    if (!CHECK_OK(tp_safetensors_save(path, &d)) || !CHECK_OK(tp_file_read(path, false, 0, &data, &size))) return;
    CHECK_OK(tp_safetensors_parse(data, size, "x", &d));
    const size_t head = 8 + (size_t)(unsigned char)data[0] + 256u * (unsigned char)data[1];
    for (int i = 0; i < 1000 + (int)head * 8; i++) { /* all of the header's, and 1,000 anywhere */
        tp_philox(5, (uint64_t)i, 0, r);
        const size_t bit = i < 1000 ? r[0] % (size * 8) : (size_t)i - 1000;
        data[bit / 8] = (char)(data[bit / 8] ^ 1 << bit % 8);
        const tp_status st = tp_safetensors_parse(data, size, "x", &d);
        data[bit / 8] = (char)(data[bit / 8] ^ 1 << bit % 8);
        const char *said = tp_last_error();
        CHECK_MSG(st < 0, "bit %d of byte %d is not missed", (int)(bit % 8), (int)(bit / 8));
        const bool names =
            strstr(said, "'conv0/W'") || strstr(said, "'conv0/b'") || strstr(said, "'half'") || strstr(said, "'step'");
        CHECK_MSG(bit / 8 < head ? names || strstr(said, "header") || strstr(said, "tensor") : names, "byte %d: %s",
                  (int)(bit / 8), said);
    }
    CHECK(d.n == 4); /* an error leaves it as it was */
    CHECK_OK(tp_safetensors_parse(data, size, "x", &d));
    tp_free(data);
    tp_dict_free(&d);
}

/* As many checksums as tensors and one for the header, no more and no less; a file of ours has them. */
TEST(safetensors_as_many_checksums_as_tensors)
{
    static const struct {
        const char *metadata, *part;
    } row[] = {{"\"tp.crc32c\":\"\"", "it has not one checksum for each tensor"},
               {"\"tp.crc32c\":\"00000000\"", "it has not one checksum for each tensor"},
               {"\"tp.crc32c\":\"000000000000000\"", "it has not one checksum for each tensor"},
               {"\"tp.crc32c\":\"00000000000000000\"", "it has not one checksum for each tensor"},
               {"\"tp.crc32c\":\"000000000000000000000000\"", "it has not one checksum for each tensor"},
               {"\"format\":\"tp2\"", "it has not one checksum for each tensor"},
               {"\"format\":\"tp2\",\"tp.crc32c\":\"\"", "it has not one checksum for each tensor"},
               {"\"tp.crc32c\":\"0000000000000000\"", "its checksum does not match: use another copy"},
               {"\"tp.crc32c\":1", "__metadata__ is no object of texts"}};
    for (int i = 0; i < TP_COUNT(row); i++) {
        bytes b;
        char header[300];
        tp_dict d = {NULL, 0, 0};
        snprintf(header, sizeof header,
                 "{\"__metadata__\":{%s},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                 row[i].metadata);
        safetensors_of(&b, header, 1);
        CHECK_ERR(parse(&b, &d), TP_ERR_FORMAT, row[i].part);
        CHECK_HAS(tp_last_error(), "x.safetensors");
        tp_dict_free(&d);
    }
}

TEST(safetensors_types_and_spelling)
{
    static const struct {
        const char *dtype;
        tp_dtype becomes;
        int size;
        double first;
    } row[] = {{"F64", TP_F64, 8, 0},
               {"F32", TP_F32, 4, 0},
               {"F16", TP_F16, 2, 0},
               {"BF16", TP_BF16, 2, 0},
               {"I64", TP_I64, 8, -1},
               {"I32", TP_I32, 4, -1},
               {"I16", TP_I32, 2, -1},
               {"I8", TP_I32, 1, -1},
               {"U8", TP_U8, 1, 255},
               {"U16", TP_I32, 2, 65535},
               {"U32", TP_I64, 4, 4294967295.0},
               {"BOOL", TP_BOOL, 1, 1}};
    bytes b;
    tp_dict d = {NULL, 0, 0};
    char header[300];
    for (int i = 0; i < TP_COUNT(row); i++) {
        snprintf(header, sizeof header, "{\"t\":{\"dtype\":\"%s\",\"shape\":[2],\"data_offsets\":[0,%d]}}",
                 row[i].dtype, 2 * row[i].size);
        safetensors_of(&b, header, (size_t)(2 * row[i].size));
        memset(b.p + b.n - 2 * row[i].size, row[i].first == 0 ? 0 : 255, (size_t)row[i].size);
        if (!CHECK_OK(parse(&b, &d))) continue;
        CHECK_MSG(
            d.n == 1 && d.item[0].value.dtype == row[i].becomes && tp_tensor_get(&d.item[0].value, 0) == row[i].first,
            "%s becomes %s %g", row[i].dtype, tp_dtype_name(d.item[0].value.dtype), tp_tensor_get(&d.item[0].value, 0));
    }
    safetensors_of(&b, "{\"t\":{\"dtype\":\"U64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8);
    CHECK_OK(parse(&b, &d));
    b.p[b.n - 1] = 255;
    CHECK_ERR(parse(&b, &d), TP_ERR_UNSUPPORTED, "tensor 't': an unsigned 64-bit number does not fit");
    CHECK(d.n == 1); /* an error leaves the dict as it was */
    static const char *const other[] = {"F8_E4M3", "F8_E5M2", "C64", "F4", "f32", ""};
    for (int i = 0; i < TP_COUNT(other); i++) {
        snprintf(header, sizeof header, "{\"t\":{\"dtype\":\"%s\",\"shape\":[1],\"data_offsets\":[0,1]}}", other[i]);
        safetensors_of(&b, header, 1);
        CHECK_ERR(parse(&b, &d), TP_ERR_UNSUPPORTED, "tensor 't' has elements of type");
        CHECK_HAS(tp_last_error(), other[i]);
    }
    static const char *const good[] = {
        "{}",
        "{}   ",
        "{ }\n",
        "{\"__metadata__\":{}}",
        "{\"__metadata__\":{\"a\":\"b\",\"c\":\"\"}}",
        "{ \"t\" : {\"shape\": [ 1 , 2 ] ,\"data_offsets\":[0,8],\t\"dtype\":\"F32\"} } ",
        "{\"t\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[4,8]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
        "\"data_offsets\":[0,4]}}",
        "{\"\\u0061\\u00e9\\u20ac\\ud83d\\ude00\\/\\n\":{\"dtype\":\"U8\",\"shape\":[2,2,2],\"data_offsets\":[0,8]}}",
        "{\"a\\n\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}",
        "{\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[8,8]},\"f\":{\"dtype\":\"U8\",\"shape\":[0],"
        "\"data_offsets\":[0,0]},\"t\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}"};
    for (int i = 0; i < TP_COUNT(good); i++) {
        safetensors_of(&b, good[i], i < 5 ? 0 : 8);
        CHECK_MSG(parse(&b, &d) == TP_OK, "%s: %s", good[i], tp_last_error());
        if (i == 8) CHECK_STR(d.item[0].name, "a\n");
        if (i == 7) CHECK_STR(d.item[0].name, "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80/\n");
    }
    tp_dict_free(&d);
}

TEST(safetensors_hostile)
{
#define T(name_, shape_, offsets_) \
    "\"" name_ "\":{\"dtype\":\"F32\",\"shape\":[" shape_ "],\"data_offsets\":[" offsets_ "]}"
    static const struct {
        const char *header;
        int n; /* bytes after it */
        const char *part;
    } row[] = {
        /* a shape whose product wraps around to 0 */
        {"{" T("t", "4294967296,4294967296", "0,0") "}", 0, "impossibly large"},
        {"{" T("t", "9223372036854775807,9223372036854775807,4", "0,4") "}", 4, "impossibly large"},
        {"{" T("t", "0,4294967296,4294967296", "0,0") "}", 0, "impossibly large"},
        {"{" T("t", "18446744073709551615", "0,4") "}", 4, "impossibly large"},
        {"{" T("t", "9223372036854775808,0", "0,0") "}", 0, "impossibly large"},
        {"{" T("t", "18446744073709551616", "0,4") "}", 4, "natural numbers"},
        {"{" T("t", "4611686018427387905", "0,4") "}", 4, "impossibly large"},
        /* offsets that do not fit the shape, the file or each other */
        {"{" T("t", "1", "0,8") "}", 8, "do not make the bytes"},
        {"{" T("t", "4", "0,4") "}", 4, "do not make the bytes"},
        {"{" T("t", "1", "4,0") "}", 4, "do not make the bytes"},
        {"{" T("t", "1", "18446744073709551612,0") "}", 4, "do not make the bytes"},
        {"{" T("t", "1", "18446744073709551608,18446744073709551612") "}", 4, "a hole"},
        {"{" T("t", "1", "0,4") "}", 3, "cut short"},
        {"{" T("t", "1", "0,4") "}", 5, "too much"},
        {"{" T("t", "1", "4,8") "}", 8, "a hole"},
        {"{" T("t", "1", "0,4") "," T("u", "1", "0,4") "}", 4, "overlaps"},
        {"{" T("t", "2", "0,8") "," T("u", "1", "4,8") "}", 8, "overlaps"},
        {"{" T("t", "1", "0,4") "," T("u", "1", "8,12") "}", 12, "a hole"},
        {"{" T("t", "1", "0,4") "," T("e", "0", "2,2") "}", 4, "overlaps"},
        {"{" T("t", "1", "0,4,8") "}", 4, "two natural numbers"},
        {"{" T("t", "1", "0") "}", 4, "two natural numbers"},
        {"{" T("t", "1", "") "}", 4, "two natural numbers"},
        {"{" T("t", "1", "-4,0") "}", 4, "two natural numbers"},
        {"{" T("t", "1e0", "0,4") "}", 4, "natural numbers"},
        {"{" T("t", "1.0", "0,4") "}", 4, "natural numbers"},
        {"{" T("t", "-1", "0,4") "}", 4, "natural numbers"},
        {"{" T("t", "01", "0,4") "}", 4, "natural numbers"},
        {"{" T("t", "1,", "0,4") "}", 4, "natural numbers"},
        {"{" T("t", "\"1\"", "0,4") "}", 4, "natural numbers"},
        {"{" T("t", "1,1,1,1,1,1,1,1,1", "0,4") "}", 4, "at most 8"},
        {"{" T("t", "1,1,1,1,1,1,1,1,1,1,1,1", "0,4") "}", 4, "at most 8"},
        /* names */
        {"{" T("t", "1", "0,4") "," T("t", "1", "4,8") "}", 8, "two of this name"},
        {"{" T("t", "1", "0,4") "," T("\\u0074", "1", "4,8") "}", 8, "two of this name"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "two __metadata__"},
        {"{" T("\\u0000", "1", "0,4") "}", 4, "no text"},
        {"{" T("\\ud800", "1", "0,4") "}", 4, "no text"},
        {"{" T("\\ud800\\u0041", "1", "0,4") "}", 4, "no text"},
        {"{" T("\\udc00", "1", "0,4") "}", 4, "no text"},
        {"{" T("\\ud83dXudc00", "1", "0,4") "}", 4, "no text"},
        {"{" T("\\ud83d\\Xdc00", "1", "0,4") "}", 4, "no text"},
        {"{" T("\\u12g4", "1", "0,4") "}", 4, "no text"},
        {"{" T("\\x41", "1", "0,4") "}", 4, "no text"},
        {"{" T("\xff", "1", "0,4") "}", 4, "no text"},
        {"{" T("\n", "1", "0,4") "}", 4, "no text"},
        /* the JSON itself */
        {"", 0, "does not begin"},
        {" {}", 0, "does not begin"},
        {"[]", 0, "does not begin"},
        {"{", 0, "cut short"},
        {"{}x", 0, "follows its end"},
        {"{,}", 0, "no text"},
        {"{" T("t", "1", "0,4") ",}", 4, "no text"},
        {"{" T("t", "1", "0,4"), 4, "missing"},
        {"{\"t\"}", 0, ": is missing"},
        {"{\"t\":1}", 0, "object should follow"},
        {"{\"t\":{}}", 0, "each once"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "each once"},
        {"{\"t\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "each once"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, "each once"},
        {"{\"t\":{\"dtype\":4,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no text"},
        {"{\"t\":{\"dtype\":\"F32\" \"shape\":[1],\"data_offsets\":[0,4]}}", 4, "each once"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "object of texts"},
        {"{\"__metadata__\":[]}", 0, "object of texts"},
        {"{\"__metadata__\":{\"a\":\"b\",}}", 0, "object of texts"},
        {"{\"__metadata__\":{\"a\":\"b\"", 0, "object of texts"},
        {"{\"__metadata__\":{\"a\":{\"b\":\"c\"}}}", 0, "object of texts"},
    };
#undef T
    bytes b;
    tp_dict d = {NULL, 0, 0};
    for (int i = 0; i < TP_COUNT(row); i++) {
        safetensors_of(&b, row[i].header, (size_t)row[i].n);
        CHECK_MSG(parse(&b, &d) == TP_ERR_FORMAT && strstr(tp_last_error(), row[i].part) && d.n == 0,
                  "%s: \"%s\" lacks \"%s\"", row[i].header, tp_last_error(), row[i].part);
    }
    /* the length of the header: nothing may be allocated by it, nor wrap around */
    static const uint64_t length[] = {UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63, 100000001, 100000000, 3, 4};
    for (int i = 0; i < TP_COUNT(length); i++) {
        safetensors_of(&b, "{}", 1);
        b.n = 0;
        put_le(&b, length[i], 8);
        b.n = 11;
        CHECK(parse(&b, &d) == TP_ERR_FORMAT);
    }
    CHECK_ERR(tp_safetensors_parse("", 0, NULL, &d), TP_ERR_FORMAT, "too short");
    /* a name from outside cannot spoil the sentence */
    safetensors_of(&b, "{\"\\u001b[31m\":{}}", 0);
    CHECK_ERR(parse(&b, &d), TP_ERR_FORMAT, "'?[31m'");
    CHECK(d.n == 0);
}

/* ==== >>bundle ======================================================================================== */

/* Real ones, from the tests of TensorFlow Serving and from TensorFlow 2.21. */
static const char counter_index[] =
    "00000608011a020801 00070b636f756e746572 08011200280435a67b113a 0000000001000000 00 5fa01073 0000000001000000 00 "
    "c0f2a1b0 00010264 0026 00000000 01000000 00 22b16103 2b08380e 000000000000000000000000000000000000000000000000"
    "000000000000000000000000 57fb808b247547db";
static const char three_index[] =
    "00000608011a020801000713636f6e76302f570801120812020802120208032818357aebf5ab0601116208011204120208032018280c355575"
    "b442000b0d676c6f62616c5f737465700809120020242808350795119a0000000001000000006fce3180000000000100000000c0f2a1b00001"
    "0268005e000000000100000000a76bb26d6308700e000000000000000000000000000000000000000000000000000000000000000000000000"
    "57fb808b247547db";
static const char three_data[] = "0000803f0000004000004040000080400000a0400000c040 000000000000003f000080bf "
                                 "e803000000000000";
/* compressed: TensorFlow 1 and 2 */
static const char half1_index[] =
    "646c00000608011a02080100010b61080112002804350638271f01010d32010f0420040d110c00010d6205112c0828043510fd784f00010d63"
    "05111c0c280435efd682c315333c10280435efd682c300000000010000000103da3e1d000000000100000000c0f2a1b0000102640057000000"
    "00010000000075f79c875c08690e00000000000000000000000000000000000000000000000000000000000000000000000057fb808b247547"
    "db";
static const char half2_index[] =
    "c001f06d00000608011a020801001c0e5f434845434b504f494e5441424c455f4f424a4543545f475241504808071200200c28eb043590d1b7"
    "47001c0b612f2e415454524942555445532f5641524941424c455f56414c5545080112002804350638271f001c0d622f2e4154545249425554"
    "522a0034200428043510fd784f001c0d632f765600402008280435efd682c3000000000100000001fd7ecf88000000000100000000c0f2a1b0"
    "00010364009901000000000100000000e8ae73ba9e0108ab010f00000000000000000000000000000000000000000000000000000000000000"
    "00000057fb808b247547db";
/* every type, a string, an empty one */
static const char types_index[] =
    "00000608011a02080100080f62666c6f61743136080e120412020803280635d426037e0103116f6f6c080a120412020803200628033533ee9f"
    "12000511656d70747908011206120012020803200935d8ea82a2000711666c6f61743136081312041202080320092806356a14597505021133"
    "320801120412020803200f280c355902bd5105021136340802120412020803201b2818359cec8319000511696e743136080512041202080320"
    "332806356699b601030211333208031204120208032039280c354e73e648030211363408091204120208032045281835842837df0301113808"
    "06120412020803205d2803354677a50000060d7363616c61720809120020602808358eed42100004117465787408071204120208022068280a"
    "35605c3c8e00061175696e743136081112041202080320722806356699b601040211333208161204120208032078280c354e73e64804021236"
    "340817120412020803208401281835842837df00051275696e74380804120412020803209c012803354677a500000000006901000002000000"
    "0078e26842000000000100000000c0f2a1b000010376008f03000000000100000000cf51f084940308a1030f00000000000000000000000000"
    "00000000000000000000000000000000000000000057fb808b247547db";
static const char types_data[] =
    "0000803fa0400001010000003c0045000000000000803f0000a0400000000000000000000000000000f03f0000000000001440000001000500"
    "000000000100000005000000000000000000000001000000000000000500000000000000000105feffffffffffffff01034439ac2f61626364"
    "000001000500000000000100000005000000000000000000000001000000000000000500000000000000000105";
static const char partitioned_index[] =
    "00000608011a020801000a13007700010102808580840801120812020805120208042850355a6de30a06041585858084080112081202080512"
    "020804205028503522fb28a900012277080112081202080a120208043a080a0210050a0210043a0a0a04080510050a02100400011278080112"
    "041202080320a001280c35f1bbede600000000010000000098d43400000000000100000000c0f2a1b000010379008901000000000100000000"
    "a98377328e01089b010f0000000000000000000000000000000000000000000000000000000000000000000057fb808b247547db";

static const char *bundle_dir;

/* Write <dir>/x.index and its data file, and load them. */
static tp_status load_bundle(const bytes *index, const bytes *data, tp_dict *d)
{
    if (!bundle_dir) bundle_dir = tp_test_tmpdir();
    tp_test_write(tp_test_path(bundle_dir, "x.index"), index->p, index->n);
    tp_test_write(tp_test_path(bundle_dir, "x.data-00000-of-00001"), data->p, data->n);
    return tp_tf_checkpoint_load(tp_test_path(bundle_dir, "x"), d);
}

static tp_status load_hex(const char *index, const char *data, tp_dict *d)
{
    bytes i, x;
    i.n = x.n = 0;
    put_hex(&i, index);
    put_hex(&x, data);
    return load_bundle(&i, &x, d);
}

TEST(bundle_known_bytes)
{
    const char *dir = tp_test_tmpdir(), *index = tp_test_path(dir, "m-1.index");
    const char *data = tp_test_path(dir, "m-1.data-00000-of-00001");
    bytes b;
    tp_dict d = {NULL, 0, 0}, back = {NULL, 0, 0};
    add(&d, "counter", TP_F32, shape_of(0, 0, 0), 0);
    CHECK_OK(tp_tf_checkpoint_save(tp_test_path(dir, "m-1"), &d));
    b.n = 0;
    put_hex(&b, counter_index);
    CHECK(tp_test_file_equals(index, b.p, b.n));
    b.n = 0;
    put_hex(&b, "00000000");
    CHECK(tp_test_file_equals(data, b.p, b.n));
    tp_dict_free(&d);

    /* in any order, and by any of its names */
    add(&d, "global_step", TP_I64, shape_of(0, 0, 0), 1000);
    add(&d, "conv0/b", TP_F32, shape_of(1, 3, 0), 0);
    tp_tensor_set(&d.item[1].value, 1, .5);
    tp_tensor_set(&d.item[1].value, 2, -1);
    add(&d, "conv0/W", TP_F32, shape_of(2, 2, 3), 1);
    CHECK(unlink(index) == 0); /* else this one's data would be another file */
    CHECK_OK(tp_tf_checkpoint_save(data, &d));
    b.n = 0;
    put_hex(&b, three_index);
    CHECK(tp_test_file_equals(index, b.p, b.n));
    b.n = 0;
    put_hex(&b, three_data);
    CHECK(tp_test_file_equals(data, b.p, b.n));
    const char *const names[3] = {"m-1", "m-1.index", "m-1.data-00000-of-00001"};
    for (int i = 0; i < 3; i++) {
        CHECK_OK(tp_tf_checkpoint_load(tp_test_path(dir, names[i]), &back));
        CHECK(same_dict(&d, &back));
    }
    CHECK(tp_test_files_in(dir) == 2);
    tp_dict_free(&d);
    tp_dict_free(&back);
}

/* 8000 tensors: the index has two blocks. The checksums are of the files that TensorFlow's SaveV2 wrote. */
TEST(bundle_of_8000_tensors)
{
    const char *dir = tp_test_tmpdir();
    tp_dict d = {NULL, 0, 0}, back = {NULL, 0, 0};
    char name[80], *p;
    size_t n;
    for (int i = 0; i < 8000; i++) {
        snprintf(name, sizeof name, "layer%05d/some/long/scope/name/weights", i);
        tp_tensor *t = tp_dict_add(&d, name);
        if (!t || tp_tensor_resize(t, TP_F32, shape_of(0, 0, 0)) != TP_OK) return;
        tp_tensor_set(t, 0, i);
    }
    CHECK_OK(tp_tf_checkpoint_save(tp_test_path(dir, "many"), &d));
    if (CHECK_OK(tp_file_read(tp_test_path(dir, "many.index"), false, 0, &p, &n)))
        CHECK(n == 387429 && tp_crc32c(0, p, n) == 0xea583519u);
    tp_free(p);
    if (CHECK_OK(tp_file_read(tp_test_path(dir, "many.data-00000-of-00001"), false, 0, &p, &n)))
        CHECK(n == 32000 && tp_crc32c(0, p, n) == 0x6144b7b9u);
    tp_free(p);
    CHECK_OK(tp_tf_checkpoint_load(tp_test_path(dir, "many"), &back));
    bool ok = back.n == d.n;
    for (int i = 0; i < back.n && ok; i++)
        ok = strcmp(back.item[i].name, d.item[i].name) == 0 && same(&back.item[i].value, &d.item[i].value);
    CHECK(ok);
    tp_dict_free(&d);
    tp_dict_free(&back);
}

/* The keys between blocks, for names that differ early, late, by one, or not before an end. */
TEST(bundle_of_long_names)
{
    static char name[100200];
    const char *dir = tp_test_tmpdir();
    tp_dict d = {NULL, 0, 0}, back = {NULL, 0, 0};
    for (int i = 0; i < 40; i++) {
        memset(name, i % 4 < 2 ? 'a' : 0xFF, sizeof name);
        snprintf(name + 50000 + 1000 * i, 20, i % 2 ? "x" : "%d", i);
        add(&d, name, TP_U8, shape_of(1, 3, 0), i);
    }
    CHECK_OK(tp_tf_checkpoint_save(tp_test_path(dir, "long"), &d));
    CHECK_OK(tp_tf_checkpoint_load(tp_test_path(dir, "long"), &back));
    CHECK(same_dict(&d, &back));
    tp_dict_free(&d);
    tp_dict_free(&back);
}

TEST(bundle_real_files)
{
    tp_dict d = {NULL, 0, 0};
    tp_test_keep_log();
    CHECK_OK(load_hex(half1_index, "0000003f0000003f000000400000404000004040", &d));
    static const char *const names[5] = {"a", "a2", "b", "c", "c2"};
    static const double want[5] = {.5, .5, 2, 3, 3};
    for (int i = 0; i < 5; i++) {
        const tp_tensor *t = tp_dict_find(&d, names[i]);
        CHECK(d.n == 5 && t && t->shape.ndim == 0 && tp_tensor_get(t, 0) == want[i]);
    }
    CHECK_STR(tp_test_logged, "");
    bytes index, data;
    index.n = data.n = 0;
    put_hex(&index, half2_index);
    put_hex(&data, "0000003f0000004000004040"); /* then the graph of objects, a string */
    CHECK_OK(load_bundle(&index, &data, &d));
    const tp_tensor *a = tp_dict_find(&d, "a"), *c = tp_dict_find(&d, "c");
    CHECK(d.n == 3 && a && c && tp_tensor_get(a, 0) == .5 && tp_tensor_get(c, 0) == 3);
    CHECK_HAS(tp_test_logged, "x.index: '_CHECKPOINTABLE_OBJECT_GRAPH' is skipped: strings are not read.\n");
    CHECK_OK(load_hex(types_index, types_data, &d));
    static const struct {
        const char *name;
        tp_dtype dtype;
    } row[] = {{"float32", TP_F32}, {"float64", TP_F64}, {"float16", TP_F16}, {"bfloat16", TP_BF16}, {"int8", TP_I32},
               {"int16", TP_I32},   {"int32", TP_I32},   {"int64", TP_I64},   {"uint8", TP_U8},      {"uint16", TP_I32},
               {"uint32", TP_I64},  {"uint64", TP_I64},  {"bool", TP_BOOL}};
    for (int i = 0; i < TP_COUNT(row); i++) { /* each is 0, 1, 5 */
        const tp_tensor *t = tp_dict_find(&d, row[i].name);
        CHECK_MSG(t && t->dtype == row[i].dtype && tp_tensor_size(t) == 3 && tp_tensor_get(t, 0) == 0 &&
                      tp_tensor_get(t, 1) == 1 && tp_tensor_get(t, 2) == (t->dtype == TP_BOOL ? 1 : 5),
                  "%s", row[i].name);
    }
    const tp_tensor *e = tp_dict_find(&d, "empty"), *s = tp_dict_find(&d, "scalar");
    CHECK(d.n == 15 && e && e->shape.ndim == 2 && e->shape.dim[1] == 3 && s && tp_tensor_get(s, 0) == -2);
    CHECK_ERR(load_hex(partitioned_index, "", &d), TP_ERR_UNSUPPORTED, "variable 'w' is partitioned");
    CHECK(d.n == 15);
    tp_set_log(NULL, NULL);
    tp_dict_free(&d);
}

/* -- indexes built by hand, with any lie in them */

static void put_entry(bytes *b, size_t shared, const char *key, size_t nkey, const bytes *value)
{
    put_varint(b, shared);
    put_varint(b, nkey);
    put_varint(b, value->n);
    put(b, key, nkey);
    put(b, value->p, value->n);
}

static void put_block(bytes *f, const void *p, size_t n, int type)
{
    const size_t at = f->n;
    put(f, p, n);
    put_le(f, (uint64_t)type, 1);
    const uint32_t c = tp_crc32c(0, f->p + at, n + 1);
    put_le(f, (c >> 15 | c << 17) + 0xa282ead8u, 4);
}

/* Index file of a data block that is stored as p, n of `type`, and an empty block. list: the blocks that the file names, in this
 * order: d is the data block, e the empty one. */
static void index_naming(bytes *f, const char *list, const void *p, size_t n, int type)
{
    bytes block, handle;
    f->n = block.n = handle.n = 0;
    put_block(f, p, n, type);
    const size_t meta = f->n;
    put_block(f, "\0\0\0\0\1\0\0\0", 8, 0);
    for (int i = 0; list[i]; i++) {
        const char key = (char)(0x70 + i);
        handle.n = 0;
        put_varint(&handle, list[i] == 'd' ? 0 : meta);
        put_varint(&handle, list[i] == 'd' ? n : 8);
        put_entry(&block, 0, &key, 1, &handle);
    }
    put_le(&block, 0, 4);
    put_le(&block, 1, 4);
    const size_t at = f->n;
    put_block(f, block.p, block.n, 0);
    const size_t foot = f->n;
    put_varint(f, meta);
    put_varint(f, 8);
    put_varint(f, at);
    put_varint(f, block.n);
    while (f->n < foot + 40) put_le(f, 0, 1);
    put_le(f, 0xdb4775248b80fb57u, 8);
}

static void index_of(bytes *f, const void *p, size_t n, int type) { index_naming(f, "d", p, n, type); }

static void header_entry(bytes *block, const char *hex)
{
    bytes v;
    v.n = 0;
    put_hex(&v, hex);
    block->n = 0;
    put_entry(block, 0, "", 0, &v);
}

/* A block from one header and entries, then what load makes of it. */
static tp_status load_block(bytes *block, const bytes *data, tp_dict *d)
{
    bytes f;
    put_le(block, 0, 4);
    put_le(block, 1, 4);
    index_of(&f, block->p, block->n, 0);
    return load_bundle(&f, data, d);
}

static void crc_field(bytes *v, const bytes *data, size_t at, size_t n)
{
    const uint32_t c = tp_crc32c(0, data->p + at, n);
    put_hex(v, "35");
    put_le(v, (c >> 15 | c << 17) + 0xa282ead8u, 4);
}

TEST(bundle_entries)
{
    static const struct {
        const char *header, *entry; /* a checksum of all 8 bytes of data is added */
        tp_status status;
        const char *part;
    } row[] = {
        {"08011a020801", "0801 1204 12020802 2808", TP_OK, ""},
        {"08011a020801", "0865 1204 12020802 2808", TP_OK, ""}, /* a reference */
        {"08011a020801", "0802 1200 1800 2808", TP_OK, ""},     /* defaults written out */
        {"08011a020801", "0801 1206 12020802 1800 2808 4801 5100000000000000005d00000000 6203616263", TP_OK,
         ""}, /* later fields */
        {"08011a020801", "0801 120f 12030802 18 00 12080a066162636465662808", TP_ERR_FORMAT, "its entry is wrong"},
        {"08011a020801", "0801 1204 12020803 2808", TP_ERR_FORMAT, "do not make the bytes"},
        {"08011a020801", "0801 1204 12020803 280c", TP_ERR_FORMAT, "behind the end"},
        {"08011a020801", "0801 1204 12020802 2004 2808", TP_ERR_FORMAT, "behind the end"},
        {"08011a020801", "0801 1204 12020802 20ffffffffffffffffff01 2808", TP_ERR_FORMAT, "outside its data file"},
        {"08011a020801", "0801 1204 12020802 20f8ffffffffffffffff01 2807", TP_ERR_FORMAT, "do not make the bytes"},
        {"08011a020801", "0801 120d 120b 08ffffffffffffffffff01 2808", TP_ERR_FORMAT, "its entry is wrong"},
        {"08011a020801", "0801 121a 120b 0880808080808080808001 120b 0880808080808080808001 2800", TP_ERR_FORMAT,
         "its entry is wrong"},
        {"08011a020801", "0801 1218 120a 08808080808080808040 120a 08808080808080808040 2800", TP_ERR_FORMAT,
         "impossibly large"},
        {"08011a020801", "0801 121b 1200 120b 0880808080808080808001 120a 08808080808080808040 2800", TP_ERR_FORMAT,
         "its entry is wrong"},
        {"08011a020801", "0801 1202 1801 2808", TP_ERR_FORMAT, "unknown rank"},
        {"08011a020801",
         "0801 1224 12020801 12020801 12020801 12020801 12020801 12020801 12020801 12020801 12020802 2808",
         TP_ERR_FORMAT, "8 dimensions"},
        {"08011a020801", "0801 1204 12020802 1801 2808", TP_ERR_FORMAT, "its entry is wrong"}, /* shard 1 of 1 */
        {"08011a020801", "0808 1200 2808", TP_ERR_UNSUPPORTED, "TensorFlow's type 8"},         /* complex */
        {"08011a020801", "1200 2808", TP_ERR_UNSUPPORTED, "type 0"},
        {"08011a020801", "08ffffffffffffffffff01 1200 2808", TP_ERR_UNSUPPORTED, "not read"},
        {"08011a020801", "0801 1204 12020802 2808 3a00", TP_ERR_UNSUPPORTED, "partitioned"},
        {"08011a020801", "0801 1204 12020802 28", TP_ERR_FORMAT, "its entry is wrong"},
        {"08011a020801", "0801 12ff7f 12020802 2808", TP_ERR_FORMAT, "its entry is wrong"},
        {"08011a020801", "0801 1204 120f0802 2808", TP_ERR_FORMAT, "its entry is wrong"},
        {"08011a020801", "0801 1204 12020802 28ffffffffffffffffffff01", TP_ERR_FORMAT, "its entry is wrong"},
        {"08011a020801", "0b01", TP_ERR_FORMAT, "its entry is wrong"},                 /* a group */
        {"08011a020801", "0001", TP_ERR_FORMAT, "its entry is wrong"},                 /* field 0 */
        {"08011a020801", "0801 15ffffff7f 2808", TP_ERR_FORMAT, "its entry is wrong"}, /* a number for the shape */
        {"08011a020801", "0801 1205 15ffffff7f 2808", TP_ERR_FORMAT, "its entry is wrong"},
        {"08011dffffff7f", "0801 1204 12020802 2808", TP_OK, ""},
        {"08011a020801", "0807 1204 12020802 28ff7f", TP_OK, ""}, /* a string: whatever it says */
        {"08011a0408011001", "0801 1204 12020802 2808", TP_OK, ""},
        {"08011a0408021002", "0801 1204 12020802 2808", TP_ERR_UNSUPPORTED, "version (2)"},
        {"08011001 1a020801", "0801 1204 12020802 2808", TP_OK, ""}, /* big-endian */
        {"08011002 1a020801", "0801 1204 12020802 2808", TP_ERR_FORMAT, "its header is wrong"},
        {"1a020801", "0801 1204 12020802 2808", TP_ERR_FORMAT, "its header is wrong"}, /* no shard */
        {"08ffffffff0f 1a020801", "0801 1204 12020802 2808", TP_ERR_FORMAT, "its header is wrong"},
        {"08", "0801 1204 12020802 2808", TP_ERR_FORMAT, "its header is wrong"},
        {"08011a0208", "0801 1204 12020802 2808", TP_ERR_FORMAT, "its header is wrong"},
        {"08021a020801", "0801 1204 12020802 2808", TP_ERR_IO, "x.data-00000-of-00002"},
    };
    tp_dict d = {NULL, 0, 0};
    bytes data, block, v;
    data.n = 0;
    put_hex(&data, "0000803f3f800000"); /* 1 in either order */
    tp_test_keep_log();
    for (int i = 0; i < TP_COUNT(row); i++) {
        header_entry(&block, row[i].header);
        v.n = 0;
        put_hex(&v, row[i].entry);
        crc_field(&v, &data, 0, 8);
        put_entry(&block, 0, "w", 1, &v);
        const tp_status s = load_block(&block, &data, &d);
        CHECK_MSG(s == row[i].status && (s == TP_OK || strstr(tp_last_error(), row[i].part)), "row %d: %s: %s", i,
                  tp_status_name(s), tp_last_error());
        const tp_tensor *t = s == TP_OK ? tp_dict_find(&d, "w") : NULL;
        if (t && t->dtype == TP_F32)
            CHECK(tp_tensor_get(t, row[i].header[3] == '1' && row[i].header[5] == '0' ? 1 : 0) == 1);
    }
    tp_set_log(NULL, NULL);

    /* names: their order, their length, those that mean another thing */
    static const struct {
        const char *a;
        int na;
        const char *b;
        int nb;
        size_t shared; /* of b */
        tp_status status;
        const char *part;
    } pair[] = {
        {"a", 1, "b", 1, 0, TP_OK, ""},
        {"../a", 4, "/a", 2, 0, TP_OK, ""},
        {"a", 1, "b", 1, 1, TP_OK, ""}, /* "ab" */
        {"a", 1, "b", 1, 2, TP_ERR_FORMAT, "not in order"},
        {"a", 1, "", 0, 1, TP_ERR_FORMAT, "not in order"},
        {"a", 1, "a", 1, 0, TP_ERR_FORMAT, "not in order"},
        {"b", 1, "a", 1, 0, TP_ERR_FORMAT, "not in order"},
        {"ab", 2, "a", 1, 0, TP_ERR_FORMAT, "not in order"},
        {"\x80", 1, "a", 1, 0, TP_ERR_FORMAT, "not in order"},
        {"a\0b", 3, "b", 1, 0, TP_ERR_FORMAT, "a name is impossible"},
        {"\0a", 2, "b", 1, 0, TP_ERR_UNSUPPORTED, "parts of partitioned"},
        {"a", 1, "a/.ATTRIBUTES/VARIABLE_VALUE", 28, 0, TP_ERR_FORMAT, "two of this name"},
        {"/.ATTRIBUTES/VARIABLE_VALUE", 27, "b", 1, 0, TP_OK, ""}, /* not a suffix of anything */
    };
    for (int i = 0; i < TP_COUNT(pair); i++) {
        header_entry(&block, "08011a020801");
        v.n = 0;
        put_hex(&v, "0801 1200 2804");
        crc_field(&v, &data, 0, 4);
        put_entry(&block, 0, pair[i].a, (size_t)pair[i].na, &v);
        v.n = 0;
        put_hex(&v, "0801 1200 2004 2804");
        crc_field(&v, &data, 4, 4);
        put_entry(&block, pair[i].shared, pair[i].b, (size_t)pair[i].nb, &v);
        const tp_status s = load_block(&block, &data, &d);
        CHECK_MSG(s == pair[i].status && (s == TP_OK ? d.n == 2 : strstr(tp_last_error(), pair[i].part) != NULL),
                  "pair %d: %s: %s", i, tp_status_name(s), tp_last_error());
    }
    CHECK(tp_test_files_in(bundle_dir) == 2);
    /* names that grow by sharing what is before: a file must not ask for more memory than it is worth */
    static bytes big;
    header_entry(&big, "08011a020801");
    v.n = 0;
    put_hex(&v, "0801120012002800");
    for (size_t i = 0; big.n < 30000; i++) put_entry(&big, i, "a", 1, &v);
    CHECK_ERR(load_block(&big, &data, &d), TP_ERR_FORMAT, "its names are too long");
    tp_dict_free(&d);
}

/* A small file that names one block or the same bytes again and again would take hours, or gigabytes. */
TEST(bundle_that_names_a_place_twice)
{
    static const struct {
        const char *list;
        bool ok;
    } blocks[] = {{"d", true}, {"de", true}, {"dee", false}, {"ed", false}, {"ded", false}};
    static const struct {
        const char *a, *b; /* the entries of two tensors, each of 8 bytes of zeros or of none */
        bool ok;
    } tensors[] = {
        {"0801 1204 12020802 2808", "0801 1204 12020802 2008 2808", true},
        {"0801 1204 12020802 2008 2808", "0801 1204 12020802 2808", true},
        {"0801 1204 12020802 2808", "0801 1204 12020800 2004 2800", true}, /* no bytes are nobody's */
        {"0801 1204 12020802 2808", "0801 1204 12020802 2808", false},
        {"0801 1204 12020802 2808", "0801 1204 12020802 2007 2808", false},
        {"0801 1204 12020802 2001 2808", "0801 1204 12020802 2808", false},
        {"0801 1204 12020802 2808", "0801 1204 12020802 1801 2808", true}, /* two files */
    };
    tp_dict d = {NULL, 0, 0};
    bytes data, block, v, f;
    data.n = 0;
    put_hex(&data, "00000000 00000000 00000000 00000000");
    for (int i = 0; i < TP_COUNT(blocks); i++) {
        header_entry(&block, "08011a020801");
        put_le(&block, 0, 4);
        put_le(&block, 1, 4);
        index_naming(&f, blocks[i].list, block.p, block.n, 0);
        const tp_status s = load_bundle(&f, &data, &d);
        CHECK_MSG(blocks[i].ok ? s == TP_OK
                               : s == TP_ERR_FORMAT &&
                                     strstr(tp_last_error(), "x.index: the checkpoint's index is damaged: its blocks "
                                                             "overlap, or are not in order"),
                  "blocks %s: %s: %s", blocks[i].list, tp_status_name(s), tp_last_error());
    }
    tp_test_write(tp_test_path(bundle_dir, "x.data-00000-of-00002"), data.p, data.n);
    tp_test_write(tp_test_path(bundle_dir, "x.data-00001-of-00002"), data.p, data.n);
    for (int i = 0; i < TP_COUNT(tensors); i++) {
        header_entry(&block, "08021a020801");
        for (int k = 0; k < 2; k++) {
            const char *entry = k ? tensors[i].b : tensors[i].a;
            v.n = 0;
            put_hex(&v, entry);
            crc_field(&v, &data, 0, strstr(entry, "2800") ? 0 : 8);
            put_entry(&block, 0, &"ab"[k], 1, &v);
        }
        const tp_status s = load_block(&block, &data, &d);
        CHECK_MSG(tensors[i].ok ? s == TP_OK && d.n == 2
                                : s == TP_ERR_FORMAT && strstr(tp_last_error(), "': it overlaps another"),
                  "tensors %d: %s: %s", i, tp_status_name(s), tp_last_error());
    }
    tp_dict_free(&d);
}

TEST(bundle_several_shards)
{
    const char *dir = tp_test_tmpdir();
    tp_dict d = {NULL, 0, 0};
    bytes data, block, v, f;
    data.n = 0;
    put_hex(&data, "0000803f00000040");
    header_entry(&block, "08031a020801");
    for (int i = 0; i < 3; i++) { /* a and c in shard 2, b in shard 0, nothing in shard 1 */
        static const char *const entry[3] = {"0801 1200 1802 2004 2804", "0801 1200 2804", "0801 1200 1802 2804"};
        v.n = 0;
        put_hex(&v, entry[i]);
        crc_field(&v, &data, i ? 0 : 4, 4);
        put_entry(&block, 0, &"abc"[i], 1, &v);
    }
    put_le(&block, 0, 4);
    put_le(&block, 1, 4);
    index_of(&f, block.p, block.n, 0);
    tp_test_write(tp_test_path(dir, "m.index"), f.p, f.n);
    tp_test_write(tp_test_path(dir, "m.data-00000-of-00003"), data.p, 8);
    CHECK_ERR(tp_tf_checkpoint_load(tp_test_path(dir, "m.index"), &d), TP_ERR_IO,
              "m.data-00002-of-00003 cannot be opened");
    tp_test_write(tp_test_path(dir, "m.data-00002-of-00003"), data.p, 8);
    CHECK_OK(tp_tf_checkpoint_load(tp_test_path(dir, "m.data-00000-of-00003"), &d));
    for (int i = 0; i < 3; i++) {
        char name[2] = {"abc"[i], 0};
        const tp_tensor *t = tp_dict_find(&d, name);
        CHECK(t && tp_tensor_get(t, 0) == (i ? 1 : 2));
    }
    /* the path may be that of any shard: five digits twice; with anything else in their place it is another's prefix */
    for (size_t k = 0; k < strlen(".data-00000-of-00003"); k++)
        for (char c = '0' - 2; c <= '9' + 1; c++) {
            char name[] = "m.data-00000-of-00003";
            const bool is_digit = c >= '0' && c <= '9', wants_digit = (k > 5 && k < 11) || k > 14;
            if (c == '/' || (k == 0 && c == '.') || c == name[1 + k]) continue;
            name[1 + k] = c;
            const tp_status st = tp_tf_checkpoint_load(tp_test_path(dir, name), &d);
            CHECK_MSG(st == (is_digit && wants_digit ? TP_OK : TP_ERR_IO), "%s: %s", name, tp_status_name(st));
        }
    tp_dict_free(&d);
}

/* Old data that cannot be removed stay, which the log says; the checkpoint is the new one. */
TEST(bundle_beside_old_data_that_stay)
{
    const char *dir = tp_test_tmpdir();
    tp_dict d = {NULL, 0, 0}, back = {NULL, 0, 0};
    add(&d, "x", TP_F32, shape_of(0, 0, 0), 1);
    CHECK_OK(tp_make_dirs(tp_test_path(dir, "m.data-00001-of-00002")));
    tp_test_keep_log();
    CHECK_OK(tp_tf_checkpoint_save(tp_test_path(dir, "m"), &d));
    CHECK_HAS(tp_test_logged, "Old data of a checkpoint stay: ");
    CHECK_HAS(tp_test_logged, "m.data-00001-of-00002 cannot be removed");
    tp_set_log(NULL, NULL);
    CHECK_OK(tp_tf_checkpoint_load(tp_test_path(dir, "m"), &back));
    CHECK(same_dict(&d, &back));
    tp_dict_free(&d);
    tp_dict_free(&back);
}

/* A block of one header and "w", under snappy as `hex`. */
static tp_status load_snappy(const char *hex, tp_dict *d)
{
    bytes b, f, data;
    b.n = data.n = 0;
    put_hex(&b, hex);
    put_hex(&data, "0000803f");
    index_of(&f, b.p, b.n, 1);
    return load_bundle(&f, &data, d);
}

TEST(bundle_snappy)
{
    tp_dict d = {NULL, 0, 0};
    bytes block, v, data;
    char hex[400], plain[300];
    data.n = v.n = 0;
    put_hex(&data, "0000803f");
    header_entry(&block, "08011a020801");
    put_hex(&v, "0801 1200 2804");
    crc_field(&v, &data, 0, 4);
    put_entry(&block, 0, "wwwwwwwwwwwwwwwwwwww", 20, &v);
    put_le(&block, 0, 4);
    put_le(&block, 1, 4);
    /* as text: header entry 9 bytes, 3 bytes, 20 w, the value, 8 bytes of restarts */
    char *at = plain;
    for (size_t i = 0; i < block.n; i++) at += snprintf(at, 3, "%02x", block.p[i]);
    CHECK(block.n == 9 + 3 + 20 + 11 + 8);
    static const struct {
        const char *first; /* what makes the first 32 bytes */
        bool ok;
    } row[] = {
        {"7c000006080 11a020801 00140b 7777777777777777777777777777777777777777", true}, /* one literal */
        {"f01f 000006080 11a020801 00140b 7777777777777777777777777777777777777777", true},
        {"f41f00 000006080 11a020801 00140b 7777777777777777777777777777777777777777", true},
        {"f81f0000 000006080 11a020801 00140b 7777777777777777777777777777777777777777", true},
        {"fc1f000000 000006080 11a020801 00140b 7777777777777777777777777777777777777777", true},
        {"30000006080 11a020801 00140b 77 1d01 1101", true},   /* copies of 11 and 8, one byte back: they overlap */
        {"30000006080 11a020801 00140b 77 4a0100", true},      /* two bytes of offset */
        {"30000006080 11a020801 00140b 77 4b01000000", true},  /* four */
        {"34000006080 11a020801 00140b 7777 1d02 0d02", true}, /* 11 and 7, two back */
        {"30000006080 11a020801 00140b 77 4a0000", false},     /* an offset of 0 */
        {"30000006080 11a020801 00140b 77 4a0e00", false},     /* from before the beginning */
        {"30000006080 11a020801 00140b 77 4b01000001", false},
        {"30000006080 11a020801 00140b 77 fe0100", false}, /* more than promised */
        {"fcffffffff 00", false},
        {"f4ffff 00", false},
    };
    for (int i = 0; i < TP_COUNT(row); i++) {
        /* the rest is a literal of 19 bytes */
        snprintf(hex, sizeof hex, "33 %s 48 %s", row[i].first, plain + 64);
        const tp_status s = load_snappy(hex, &d);
        CHECK_MSG(row[i].ok ? s == TP_OK && d.n == 1 && tp_tensor_get(&d.item[0].value, 0) == 1
                            : s == TP_ERR_FORMAT && strstr(tp_last_error(), "compressed data is damaged"),
                  "row %d: %s: %s", i, tp_status_name(s), tp_last_error());
        if (row[i].ok) CHECK_STR(d.item[0].name, "wwwwwwwwwwwwwwwwwwww");
    }
    CHECK_ERR(load_snappy("ffffffff7f 00", &d), TP_ERR_FORMAT, "size of a compressed block is impossible");
    CHECK_ERR(load_snappy("ff", &d), TP_ERR_FORMAT, "size of a compressed block is impossible");
    CHECK_ERR(load_snappy("", &d), TP_ERR_FORMAT, "size of a compressed block is impossible");
    CHECK_ERR(load_snappy("00", &d), TP_ERR_FORMAT, "a block is cut short");
    CHECK_ERR(load_snappy("04 0c01000000", &d), TP_ERR_FORMAT, "a block is cut short");
    CHECK_ERR(load_snappy("04 0c00000000", &d), TP_ERR_FORMAT, "a block is cut short");
    CHECK_ERR(load_snappy("08 1c 00000000ffffffff", &d), TP_ERR_FORMAT, "a block is cut short");
    CHECK_ERR(load_snappy("08 1c 0000000001000000", &d), TP_ERR_FORMAT, "has no header");
    /* the byte behind a block says how it is compressed: not at all, or by snappy */
    static const int types[] = {0, 1, 2, 3, 255};
    for (int i = 0; i < TP_COUNT(types); i++) {
        bytes f;
        index_of(&f, block.p, block.n, types[i]);
        if (i == 0) CHECK_OK(load_bundle(&f, &data, &d));
        else
            CHECK_ERR(load_bundle(&f, &data, &d), TP_ERR_FORMAT,
                      i == 1 ? "block" : "a block is compressed in an unknown way");
    }
    tp_dict_free(&d);
}

TEST(bundle_footers)
{
    tp_dict d = {NULL, 0, 0};
    bytes good, bad, data;
    good.n = data.n = 0;
    put_hex(&good, three_index);
    put_hex(&data, three_data);
    /* handles of the empty and of the index block: outside, wrapping around, on top of the footer */
    static const char *const feet[] = {
        "ffffffffffffffffff01 08 700e",
        "6308 ffffffffffffffffff01 0e",
        "6308 70 ffffffffffffffffff01",
        "6308 70 faffffffffffffffff01",
        "6308 7e0e",
        "6308 830105",
        "fb0108 700e",
        "63087000",
        "6308700d",
        "700e6308",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"};
    for (int i = 0; i < TP_COUNT(feet); i++) {
        bad = good;
        bad.n -= 48;
        put_hex(&bad, feet[i]);
        while (bad.n < good.n - 8) put_le(&bad, 0, 1);
        put_hex(&bad, "57fb808b247547db");
        CHECK_MSG(load_bundle(&bad, &data, &d) == TP_ERR_FORMAT, "%s", feet[i]);
    }
    bad.n = 0; /* a footer alone */
    while (bad.n < 40) put_le(&bad, 0, 1);
    put_hex(&bad, "57fb808b247547db");
    CHECK_ERR(load_bundle(&bad, &data, &d), TP_ERR_FORMAT, "a block lies outside the file");
    CHECK_OK(load_bundle(&good, &data, &d));
    tp_dict_free(&d);
}

/* ==== >>damage ======================================================================================== */

TEST(disk_full_leaves_the_old_checkpoint)
{
    struct rlimit old, small;
    tp_dict before = {NULL, 0, 0}, after = {NULL, 0, 0}, back = {NULL, 0, 0};
    add(&before, "W", TP_F32, shape_of(1, 10, 0), 0);
    add(&after, "W", TP_F32, shape_of(1, 100000, 0), 0);
    for (int i = 0; i < 3000; i++) {
        char name[32];
        snprintf(name, sizeof name, "other%d", i);
        tp_tensor *t = tp_dict_add(&after, name);
        if (t) CHECK_OK(tp_tensor_resize(t, TP_U8, shape_of(1, 0, 0)));
    }
    if (getrlimit(RLIMIT_FSIZE, &old) != 0) TEST_SKIP("no limits on file sizes here");
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (int f = 1; f < 3; f++) {
        const char *dir = tp_test_tmpdir();
        /* in the data, and (smaller than the index alone) in what is written last */
        for (int again = 0; again < 3; again++) {
            const char *path = file_of(dir, again < 2 ? "x" : "fresh", f);
            if (again < 2) CHECK_OK(save_as(f, path, &before));
            small = old;
            small.rlim_cur = again == 1 ? 30000 : 300000;
            if (again == 1) tp_tensor_free(&after.item[0].value), add(&after, "W", TP_F32, shape_of(1, 10, 0), 0);
            if (setrlimit(RLIMIT_FSIZE, &small) != 0) TEST_SKIP("the limit on file sizes cannot be set");
            if (again == 2) add(&after, "W", TP_F32, shape_of(1, 100000, 0), 0);
            const tp_status s = save_as(f, path, &after);
            setrlimit(RLIMIT_FSIZE, &old);
            CHECK_ERR(s, TP_ERR_IO, "cannot be written");
            if (again < 2) {
                CHECK_OK(load_as(f, path, &back));
                CHECK(same_dict(&before, &back));
            }
        }
        CHECK(tp_test_files_in(dir) == f);
    }
    signal(SIGXFSZ, handler);
    tp_dict_free(&before);
    tp_dict_free(&after);
    tp_dict_free(&back);
}

typedef struct saving {
    int format;
    const char *path;
    const tp_dict *d;
} saving;
static int save_body(void *arg)
{
    const saving *s = (const saving *)arg;
    return save_as(s->format, s->path, s->d) == TP_OK ? 0 : 1;
}

static int nothing_body(void *arg)
{
    (void)arg;
    return 0;
}

/* Killed at each of its calls that change a file, a process leaves a whole checkpoint: the one that was there, if there was
 * one, or its own. The next one is written as if nothing had happened. */
TEST(killed_while_saving)
{
    static inject_result r;
    inject_plan p;
    memset(&p, 0, sizeof p);
    if (inject_run(nothing_body, NULL, &p, &r) != 0) TEST_SKIP(r.why);
    tp_dict before = {NULL, 0, 0}, after = {NULL, 0, 0}, back = {NULL, 0, 0};
    add(&before, "W", TP_F32, shape_of(1, 60000, 0), 7);
    add(&after, "W", TP_F32, shape_of(1, 50000, 0), 0);
    add(&after, "b", TP_F32, shape_of(1, 5, 0), 1);
    for (int i = 0; i < 6; i++) {
        const int f = i / 2, over = i % 2;
        const char *dir = tp_test_tmpdir();
        int old = 0, own = 0, none = 0;
        for (long n = 1;; n++) {
            char name[40];
            snprintf(name, sizeof name, "m-%ld", n);
            const char *path = file_of(dir, name, f);
            if (over) CHECK_OK(save_as(f, path, &before));
            saving s;
            s.format = f, s.path = path, s.d = &after;
            p.what = INJECT_KILL, p.n = n, p.kinds = INJECT_CHANGES;
            fflush(stdout);
            CHECK(inject_run(save_body, &s, &p, &r) == 0);
            if (r.fired) CHECK(WIFSIGNALED(r.status) && WTERMSIG(r.status) == SIGKILL);
            else CHECK(WIFEXITED(r.status) && WEXITSTATUS(r.status) == 0);
            if (tp_file_exists(path)) {
                CHECK_MSG(load_as(f, path, &back) == TP_OK &&
                              (same_dict(&after, &back) || (over && same_dict(&before, &back))),
                          "%s over %s, killed at call %ld (%s): %s", format_ends[f], over ? "an old one" : "nothing", n,
                          r.call, tp_last_error());
                if (back.n == 1) old++;
                else own++;
            } else none++;
            if (!r.fired || n > 1000) break;
            CHECK_OK(save_as(f, path, &after));
            CHECK(load_as(f, path, &back) == TP_OK && same_dict(&after, &back));
        }
        printf("     %s over %s: %d times the old one, %d times none, %d times its own\n", format_ends[f],
               over ? "an old one" : "nothing", old, none, own);
        CHECK(own >= 1 && (over ? old : none) >= 3 && (over ? none : old) == 0);
    }
    tp_dict_free(&before);
    tp_dict_free(&after);
    tp_dict_free(&back);
}

/* ==== >>sessions ====================================================================================== */

static tp_node *var(tp_graph *g, const char *name, tp_dtype dtype, tp_shape shape, float value)
{
    return tp_get_variable_as(g, name, dtype, shape, tp_init_constant(value));
}

static tp_status restore(tp_session_init *init, tp_session *s)
{
    const tp_status st = init ? tp_session_init_run(init, s) : TP_ERR_NOMEM;
    tp_session_init_free(init);
    return st;
}

TEST(sessions_save_and_restore_each_format)
{
    const char *dir = tp_test_tmpdir();
    char path[1200];
    tp_test_keep_log();
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w = var(g, "conv0/W", TP_F32, shape_of(2, 2, 3), 1), *b = var(g, "conv0/b", TP_F32, shape_of(1, 2, 0), 2);
    tp_node *step = tp_get_global_step_var(g);
    tp_session *s = tp_session_new(g, NULL);
    tp_tensor *state = tp_dict_add(tp_session_state(s), "tp:random_step");
    CHECK_OK(tp_tensor_resize(state, TP_I64, shape_of(0, 0, 0)));
    tp_tensor_set(state, 0, 99);
    tp_node *make = tp_assign(w, tp_affine(w, 3, 0), NULL),
            *bump = tp_assign_add(step, tp_const_as(g, TP_I64, 5), NULL);
    tp_node *both[2];
    both[0] = make, both[1] = bump;
    CHECK_OK(tp_session_run(s, NULL, 0, both, 2, NULL));
    for (int f = 0; f < 3; f++) {
        char sub[900];
        snprintf(sub, sizeof sub, "%s/%d", dir, f);
        CHECK_OK(tp_make_dirs(sub));
        CHECK_OK(tp_save_checkpoint(s, file_of(sub, "model-5", f), NULL, 0));
        CHECK(tp_test_files_in(sub) == (f == 2 ? 2 : 1));
        const char *const name = "model-5";
        CHECK_OK(tp_checkpoint_state_write(sub, &name, 1));
        static const char *const ways[] = {"", "/", "/checkpoint", "/model-5", NULL, "/model-5.data-00000-of-00001"};
        for (int k = 0; k < (f == 2 ? 6 : 5); k++) {
            snprintf(path, sizeof path, "%s%s", sub, ways[k] ? ways[k] : "");
            tp_session *t = tp_session_new(g, NULL);
            CHECK_OK(restore(tp_saver_restore(ways[k] ? path : file_of(sub, "model-5", f)), t));
            CHECK(value_at(t, w, 5) == 3 && value_at(t, b, 0) == 2 && tp_get_global_step_value(t) == 5);
            const tp_tensor *back = tp_dict_find(tp_session_state(t), "tp:random_step");
            CHECK(back && tp_tensor_get(back, 0) == 99);
            tp_session_free(t);
        }
        CHECK(!strstr(tp_test_logged, "not found"));
        tp_dict d = {NULL, 0, 0};
        CHECK_OK(tp_load_checkpoint_vars(sub, &d));
        CHECK(d.n == 6 && tp_dict_find(&d, "global_step") && tp_dict_find(&d, "tp:isa"));
        CHECK(tp_dict_find(&d, "tp:random_step_outside"));
        CHECK_OK(tp_save_checkpoint_vars(&d, file_of(sub, "again-1", f)));
        tp_dict again = {NULL, 0, 0};
        CHECK_OK(load_as(f, file_of(sub, "again-1", f), &again));
        CHECK(same_dict(&d, &again));
        tp_dict_free(&d);
        tp_dict_free(&again);
        CHECK_OK(tp_dump_session_params(s, file_of(sub, "params", f)));
        CHECK_OK(load_as(f, file_of(sub, "params", f), &d));
        CHECK(d.n == 2 && tp_dict_find(&d, "conv0/W:0"));
        tp_dict_free(&d);
        /* some variables only, and a strict and a relaxed restore into other shapes and types */
        tp_variable *some = tp_node_variable(w);
        CHECK_OK(tp_save_checkpoint(s, file_of(sub, "some-1", f), &some, 1));
        tp_graph *g2 = tp_graph_new(NULL);
        tp_node *flat = var(g2, "conv0/W", TP_F64, shape_of(1, 6, 0), 0);
        tp_variable *foreign[2] = {some, tp_node_variable(flat)};
        CHECK_ERR(tp_save_checkpoint(s, file_of(sub, "foreign-1", f), foreign, 2), TP_ERR_ARG,
                  "'conv0/W' is not a variable of this session's graph");
        CHECK(!tp_file_exists(file_of(sub, "foreign-1", f)));
        tp_session *t = tp_session_new(g2, NULL);
        snprintf(path, sizeof path, "%s/some-1", sub);
        CHECK(restore(tp_saver_restore(path), t) < 0);
        CHECK_OK(restore(tp_smart_init(path, true), t));
        CHECK(value_at(t, flat, 5) == 3);
        CHECK_HAS(tp_test_logged, "is reshaped");
        tp_session_free(t);
        tp_graph_free(g2);
        /* SmartInit by suffix */
        t = tp_session_new(g, NULL);
        CHECK_OK(restore(tp_smart_init(file_of(sub, "model-5", f), false), t));
        CHECK(value_at(t, w, 0) == 3);
        tp_session_free(t);
        tp_test_logged[0] = 0;
    }
    tp_session_free(s);
    tp_graph_free(g);
    tp_set_log(NULL, NULL);
}

/* Noise goes on after a restore where it was when the checkpoint was made, also in a session that has drawn other numbers. */
TEST(a_restored_session_goes_on_with_its_random_numbers)
{
    char early[1200], late[1200];
    double drawn[6];
    tp_graph *g = tp_graph_new(NULL);
    tp_node *noise = tp_rand_uniform(g, shape_of(0, 0, 0), 0, 1);
    const tp_tensor *y;
    snprintf(early, sizeof early, "%s/early.npz", tp_test_tmpdir());
    snprintf(late, sizeof late, "%s/late.npz", tp_test_tmpdir());
    tp_session *s = tp_session_new(g, NULL);
    CHECK_OK(tp_save_checkpoint(s, early, NULL, 0));
    for (int i = 0; i < 6; i++) {
        CHECK_OK(tp_session_run(s, NULL, 0, &noise, 1, &y));
        drawn[i] = tp_tensor_get(y, 0);
        if (i == 2) CHECK_OK(tp_save_checkpoint(s, late, NULL, 0));
    }
    for (int way = 0; way < 2; way++) {
        tp_session *other = way ? s : tp_session_new(g, NULL);
        CHECK_OK(tp_restore_checkpoint(other, late));
        for (int i = 3; i < 6; i++) {
            CHECK_OK(tp_session_run(other, NULL, 0, &noise, 1, &y));
            CHECK(tp_tensor_get(y, 0) == drawn[i] && drawn[i] != drawn[i - 3]);
        }
        CHECK_OK(tp_restore_checkpoint(other, early)); /* made before the first run */
        CHECK_OK(tp_session_run(other, NULL, 0, &noise, 1, &y));
        CHECK(tp_tensor_get(y, 0) == drawn[0]);
        tp_session_free(other);
    }
    tp_graph_free(g);
}

/* Names in a file do not make lines of the log. */
TEST(names_with_line_feeds_stay_in_their_line)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/odd.npz", tp_test_tmpdir());
    tp_dict d = {NULL, 0, 0};
    add(&d, "w", TP_F32, shape_of(1, 2, 0), 1);
    add(&d, "x\n[0101 00:00:00] forged\x1b[31m", TP_F32, shape_of(1, 2, 0), 1);
    tp_tensor *isa = tp_dict_add(&d, "tp:isa");
    CHECK(isa && tp_tensor_resize(isa, TP_U8, shape_of(1, 5, 0)) == TP_OK);
    memcpy(isa->data, "a\nb\x1b!", 5);
    CHECK_OK(tp_npz_save(path, &d, false));
    tp_graph *g = tp_graph_new(NULL);
    var(g, "w", TP_F32, shape_of(1, 2, 0), 0);
    tp_session *s = tp_session_new(g, NULL);
    tp_test_keep_log();
    CHECK_OK(restore(tp_saver_restore(path), s));
    tp_set_log(NULL, NULL);
    CHECK_HAS(tp_test_logged, "not found in the graph: x [0101 00:00:00] forged?[31m\n");
    CHECK_HAS(tp_test_logged, "instruction set 'a?b?!'");
    CHECK(!strchr(tp_test_logged, 27));
    tp_session_free(s);
    tp_graph_free(g);
    tp_dict_free(&d);
}

/* A new training that begins with a model: its weights and averages, frozen ones too, without what belongs to the old training; and a
 * layer of another shape, which is ignored together with its slots. */
TEST(weights_without_the_training_that_made_them)
{
    static const char *const names[] = {"fc/W",        "fc/W/Adam",   "head/W",      "head/W/Adam",
                                        "head/W/mine", "bn/mean/EMA", "beta1_power", "learning_rate"};
    static const char *const head = "head/W";
    char path[1200];
    snprintf(path, sizeof path, "%s/model.npz", tp_test_tmpdir());
    tp_test_keep_log();
    for (int way = -1; way < 3; way++) { /* -1: saves; 0: all; 1: .weights_only; 2: .ignore and another shape */
        tp_graph *g = tp_graph_new(NULL);
        tp_node *v[TP_COUNT(names)];
        for (int i = 0; i < TP_COUNT(names); i++) {
            tp_variable_desc d;
            memset(&d, 0, sizeof d);
            d.name = way == 1 && i == 6 ? "power_of_another" : names[i]; /* what is left out may be missing */
            d.shape = i >= 6 ? shape_of(0, 0, 0) : shape_of(1, way == 2 && i >= 2 && i < 5 ? 3 : 2, 0);
            d.init = tp_init_constant(way < 0 ? (float)(10 + i) : 0);
            d.trainable = i == 2 ? TP_YES : TP_NO; /* fc/W is frozen */
            v[i] = tp_get_variable(g, &d);
            if (i == 1 || i == 3 || i == 4) tp_node_variable(v[i])->slot_of = tp_node_variable(v[i == 1 ? 0 : 2]);
        }
        tp_session *s = tp_session_new(g, NULL);
        tp_test_logged[0] = 0;
        if (way < 0) CHECK_OK(tp_save_checkpoint(s, path, NULL, 0));
        tp_saver_restore_desc d;
        memset(&d, 0, sizeof d);
        d.path = path, d.weights_only = d.strict = way == 1;
        if (way == 2) d.ignore = &head, d.n_ignore = 1;
        if (way >= 0) CHECK_OK(restore(tp_saver_restore_ex(&d), s));
        for (int i = 0; i < TP_COUNT(names) && way >= 0; i++) {
            const bool slot = i == 1 || i == 3 || i == 4 || i >= 6, of_head = i >= 2 && i < 5;
            const double want = (way == 1 && slot) || (way == 2 && of_head) ? 0 : 10 + i;
            CHECK_MSG(value_at(s, v[i], 0) == want, "way %d: %s is %g, not %g", way, names[i], value_at(s, v[i], 0),
                      want);
        }
        if (way == 0)
            CHECK_HAS(tp_test_logged, "2 are restored, 0 begin anew, 0 of the checkpoint are not used. (.weights_only");
        if (way == 1) CHECK_HAS(tp_test_logged, "0 are restored, 2 begin anew, 2 of the checkpoint are not used.\n");
        if (way == 1) CHECK(!tp_dict_find(tp_session_state(s), "tp:random_step_outside"));
        if (way == 2) CHECK_HAS(tp_test_logged, "Variable 'head/W/mine' in the graph will not be loaded");
        tp_session_free(s);
        tp_graph_free(g);
    }
    tp_set_log(NULL, NULL);
}

/* A restore that is refused leaves the values and the state of a session in use as they were: each kind of fault, at each place in
 * the file. */
TEST(a_refused_restore_changes_nothing)
{
    enum { SHAPE, DTYPE, MISSING, UNUSED, CONFLICT, OTHER_MODEL, FAULTS };
    static const tp_status want[FAULTS] = {TP_ERR_SHAPE, TP_ERR_DTYPE, TP_ERR_NAME,
                                           TP_ERR_NAME,  TP_ERR_NAME,  TP_ERR_NAME};
    char path[1200];
    snprintf(path, sizeof path, "%s/model-1.npz", tp_test_tmpdir());
    for (int fault = 0; fault < FAULTS; fault++)
        for (int dict = 0; dict < 2; dict++) {
            if (dict && fault != SHAPE && fault != DTYPE) continue; /* what only tp_saver_restore_ex refuses */
            tp_graph *g = tp_graph_new(NULL);
            tp_node *w[4];
            w[0] = var(g, "a/W", TP_F32, shape_of(1, 2, 0), 1);
            w[1] = var(g, "a/b", TP_F32, shape_of(1, 2, 0), 1);
            w[2] = var(g, "c/W", TP_F32, shape_of(1, 2, 0), 1);
            w[3] = var(g, fault == CONFLICT ? "x/a/W" : "c/b", TP_F32, shape_of(1, 2, 0), 1);
            tp_get_global_step_var(g);
            tp_session *s = tp_session_new(g, NULL);
            tp_dict d = {NULL, 0, 0};
            const bool ours = fault != OTHER_MODEL;
            add(&d, ours ? "a/W" : "z/W", TP_F32, shape_of(1, 2, 0), 5);
            add(&d, ours ? "a/b" : "z/b", TP_F32, shape_of(1, 2, 0), 5);
            if (ours) add(&d, "c/W", TP_F32, shape_of(1, 2, 0), 5);
            if (ours && fault != MISSING)
                add(&d, "c/b", fault == DTYPE ? TP_I32 : TP_F32, shape_of(1, fault == SHAPE ? 3 : 2, 0), 5);
            if (fault == UNUSED) add(&d, "zz", TP_F32, shape_of(1, 2, 0), 5);
            add(&d, "global_step", TP_I64, shape_of(0, 0, 0), 5);
            add(&d, "tp:random_step", TP_I64, shape_of(0, 0, 0), 5);
            CHECK_OK(tp_save_checkpoint_vars(&d, path));
            tp_saver_restore_desc r;
            memset(&r, 0, sizeof r);
            r.path = path;
            r.strict = fault == MISSING || fault == UNUSED;
            r.prefix = fault == CONFLICT ? "x" : NULL;
            const tp_status st = restore(dict ? tp_dict_restore(&d, false) : tp_saver_restore_ex(&r), s);
            CHECK_MSG(st == want[fault], "%d: %s, %s", fault, tp_status_name(st), tp_last_error());
            for (int k = 0; k < 4; k++)
                CHECK_MSG(value_at(s, w[k], 1) == 1, "fault %d: variable %d is loaded", fault, k);
            CHECK(tp_get_global_step_value(s) == 0 && !tp_dict_find(tp_session_state(s), "tp:random_step"));
            CHECK_ERR(restore(tp_saver_restore(NULL), s), TP_ERR_ARG, "SaverRestore: .path is NULL");
            tp_dict_free(&d);
            tp_session_free(s);
            tp_graph_free(g);
        }
}

/* A dict with the entries w and b. An entry whose value is -1 is left out. */
static tp_dict two(double w, double b)
{
    tp_dict d = {NULL, 0, 0};
    if (w >= 0) add(&d, "w", TP_F32, shape_of(0, 0, 0), w);
    if (b >= 0) add(&d, "b", TP_F32, shape_of(0, 0, 0), b);
    return d;
}
TEST(smart_init_of_dicts_and_lists)
{
    tp_test_keep_log();
    const char *dir = tp_test_tmpdir();
    tp_dict file = two(-1, 7), first = two(1, 2), second = two(-1, 4), third = two(5, -1), none = {NULL, 0, 0};
    CHECK_OK(tp_npz_save(tp_test_path(dir, "file.npz"), &file, false));
    char path[300];
    snprintf(path, sizeof path, "%s", tp_test_path(dir, "file.npz"));
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w = var(g, "w", TP_F32, shape_of(0, 0, 0), 0), *b = var(g, "b", TP_F32, shape_of(0, 0, 0), 0);
    tp_session *s = tp_session_new(g, NULL);
    CHECK_OK(restore(tp_smart_init_list(NULL, 0, false), s)); /* nothing */
    CHECK(value_at(s, w, 0) == 0);
    tp_smart_source inner[2], list[4];
    memset(inner, 0, sizeof inner);
    memset(list, 0, sizeof list);
    list[0].dict = &first; /* the last one wins */
    inner[0].dict = &second;
    inner[1].path = path;
    list[1].list = inner;
    list[1].n = 2;
    list[2].path = ""; /* nothing */
    list[3].dict = &third;
    tp_session_init *init = tp_smart_init_list(list, 4, false);
    CHECK(first.n == 0 && second.n == 0 && third.n == 0); /* taken over */
    CHECK_OK(restore(init, s));
    CHECK(value_at(s, w, 0) == 5 && value_at(s, b, 0) == 7);
    /* ignore_mismatch reaches each of them */
    for (int relaxed = 0; relaxed < 2; relaxed++) {
        tp_dict wide = {NULL, 0, 0};
        add(&wide, "w", TP_F32, shape_of(1, 3, 0), 1);
        list[0].dict = NULL;
        list[1].list = NULL, list[1].n = 0;
        list[3].dict = &wide;
        const tp_status st = restore(tp_smart_init_list(list, 4, relaxed), s);
        CHECK(relaxed ? st == TP_OK : st == TP_ERR_SHAPE);
    }
    /* mistakes: two at once, a list without a length, nothing with one */
    for (int how = 0; how < 3; how++) {
        tp_dict d = two(8, 8);
        memset(list, 0, sizeof list);
        list[0].dict = &d;
        if (how == 0) list[0].path = path;
        if (how == 1) list[1].list = inner, list[1].n = -1;
        if (how == 2) list[1].n = 2;
        CHECK_ERR(restore(tp_smart_init_list(list, 2, false), s), TP_ERR_ARG,
                  how ? "number 1 is to be one" : "number 0 is");
        CHECK(value_at(s, w, 0) != 8 && d.n == 0);
        tp_dict_free(&d);
    }
    inner[0].dict = &none;
    for (long n = 1, failed = 1; failed; n++) {
        tp_dict d = two(1, 1), e = two(2, 2);
        list[0].dict = &d, list[0].path = NULL;
        list[1].list = inner, list[1].n = 2;
        list[2].dict = &e;
        tp_test_fail_after(n);
        init = tp_smart_init_list(list, 3, false);
        failed = tp_test_alloc_failed();
        tp_test_alloc_reset();
        CHECK(failed ? init == NULL : init != NULL);
        CHECK(d.n == 0 && e.n == 0);
        tp_session_init_free(init);
    }
    tp_session_free(s);
    tp_graph_free(g);
    tp_dict_free(&file);
    tp_set_log(NULL, NULL);
}

static tp_status loaded_into(tp_session_init *init, tp_graph *g)
{
    tp_session *s = tp_session_new(g, NULL);
    const tp_status st = restore(init, s);
    tp_session_free(s);
    return st;
}
TEST(smart_init_knows_the_users_folder)
{
    tp_test_keep_log();
    const char *dir = tp_test_tmpdir(), *before = getenv("HOME");
    char kept[300], home[320];
    snprintf(kept, sizeof kept, "%s", before ? before : "");
    tp_dict d = two(3, 4);
    CHECK_OK(tp_npz_save(tp_test_path(dir, "model-1.npz"), &d, false));
    CHECK_OK(tp_npz_save(tp_test_path(dir, "plain.npz"), &d, false));
    tp_dict_free(&d);
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w = var(g, "w", TP_F32, shape_of(0, 0, 0), 0);
    var(g, "b", TP_F32, shape_of(0, 0, 0), 0);
    static const char *const names[] = {"~/model-1", "~/plain.npz"};
    for (int slash = 0; slash < 2; slash++)
        for (int i = 0; i < 2; i++) {
            snprintf(home, sizeof home, "%s%s", dir, slash ? "//" : "");
            CHECK(setenv("HOME", home, 1) == 0);
            tp_session *s = tp_session_new(g, NULL);
            CHECK_OK(restore(tp_smart_init(names[i], false), s));
            CHECK(value_at(s, w, 0) == 3);
            tp_session_free(s);
        }
    CHECK(setenv("HOME", "/", 1) == 0);
    CHECK_ERR(loaded_into(tp_smart_init("~/no/such.npz", false), g), TP_ERR_NAME, "'/no/such.npz'");
    CHECK_ERR(loaded_into(tp_smart_init("~somebody/such.npz", false), g), TP_ERR_NAME, "'~somebody/such.npz'");
    CHECK_ERR(loaded_into(tp_smart_init("a~/such.npz", false), g), TP_ERR_NAME, "'a~/such.npz'");
    CHECK(unsetenv("HOME") == 0);
    CHECK_ERR(loaded_into(tp_smart_init("~/such.npz", false), g), TP_ERR_NAME, "'~/such.npz'");
    if (before) setenv("HOME", kept, 1);
    tp_graph_free(g);
    tp_set_log(NULL, NULL);
}

static void set_time(const char *path, time_t t)
{
    struct timespec times[2];
    times[0].tv_sec = times[1].tv_sec = t;
    times[0].tv_nsec = times[1].tv_nsec = 0;
    CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
}

TEST(checkpoints_of_several_formats)
{
    const char *dir = tp_test_tmpdir();
    tp_dict d = {NULL, 0, 0};
    for (int f = 0; f < 3; f++) {
        add(&d, "x", TP_F32, shape_of(0, 0, 0), f);
        CHECK_OK(tp_save_checkpoint_vars(&d, file_of(dir, "model-3", f)));
        if (f) CHECK_OK(tp_save_checkpoint_vars(&d, file_of(dir, f == 1 ? "model-20" : "model-1", f)));
    }
    tp_test_write(tp_test_path(dir, "model-9.index.tmp.77"), "", 0); /* of a process that was killed */
    tp_test_write(tp_test_path(dir, "model-9.npy"), "", 0);
    tp_checkpoint_entry *e = NULL;
    int n = 0;
    CHECK_OK(tp_get_all_checkpoints(dir, "model", &e, &n));
    if (CHECK(n == 5)) {
        CHECK(e[0].step == 1 && e[1].step == 3 && e[3].step == 3 && e[4].step == 20);
        CHECK_HAS(e[0].path, "/model-1.index");
        CHECK_HAS(e[1].path, "/model-3.index");
        CHECK_HAS(e[2].path, "/model-3.npz");
        CHECK_HAS(e[4].path, "/model-20.safetensors");
        for (int i = 0; i < n; i++) CHECK_OK(tp_load_checkpoint_vars(e[i].path, &d));
    }
    tp_free(e);
    /* of one name, the newest is meant */
    for (int newest = 0; newest < 3; newest++) {
        for (int f = 0; f < 3; f++) set_time(file_of(dir, "model-3", f), f == newest ? 2000 : 1000 + f);
        CHECK_OK(tp_load_checkpoint_vars(tp_test_path(dir, "model-3"), &d));
        CHECK(d.n == 1 && tp_tensor_get(&d.item[0].value, 0) == newest);
    }
    CHECK_ERR(tp_load_checkpoint_vars(tp_test_path(dir, "model-4"), &d), TP_ERR_NAME, "there is no checkpoint");
    tp_dict_free(&d);
}

TEST(the_file_checkpoint)
{
    static const struct {
        const char *text;
        tp_status status;
        const char *part;
    } row[] = {
        {"model_checkpoint_path: \"m-1\"\n", TP_OK, ""},
        {"model_checkpoint_path: \"./m-1\"\nall_model_checkpoint_paths: \"nonsense", TP_OK, ""},
        {"model_checkpoint_path: \"m-1.index\"\n", TP_OK, ""},
        {"model_checkpoint_path: \"../here/m-1\"\n", TP_OK, ""}, /* relative names are TensorFlow's, too */
        {"model_checkpoint_path: \"\\303\\251-1\"\n", TP_OK, ""},
        {"model_checkpoint_path: \"\xc3\xa9-1\"\n", TP_OK, ""},
        {"model_checkpoint_path: \"back\\\\slash-1\"\n", TP_OK, ""},
        {"model_checkpoint_path: \"m-2\"\n", TP_ERR_NAME, "there is no checkpoint"},
        {"model_checkpoint_path: \"../../../m-1\"\n", TP_ERR_NAME, "there is no checkpoint"},
        {"model_checkpoint_path: \"/nowhere/m-1\"\n", TP_ERR_NAME, "there is no checkpoint '/nowhere/m-1'"},
        {"model_checkpoint_path: \"checkpoint\"\n", TP_ERR_FORMAT, "is no checkpoint"},
        {"model_checkpoint_path: \"./checkpoint\"\n", TP_ERR_FORMAT, "is no checkpoint"},
        {"model_checkpoint_path: \"../here/checkpoint\"\n", TP_ERR_FORMAT, "is no checkpoint"},
        {"model_checkpoint_path: \".\"\n", TP_ERR_FORMAT, "is no checkpoint"},
        {"model_checkpoint_path: \"..\"\n", TP_ERR_FORMAT, "is no checkpoint"},
        {"model_checkpoint_path: \"/\"\n", TP_ERR_FORMAT, "is no checkpoint"},
        {"model_checkpoint_path: \"\"\n", TP_ERR_FORMAT, "does not begin"},
        {"model_checkpoint_path: \"m-1\n", TP_ERR_FORMAT, "does not begin"},
        {"model_checkpoint_path: \"m-1\\", TP_ERR_FORMAT, "does not begin"},
        {"model_checkpoint_path: \"\\000m-1\"", TP_ERR_FORMAT, "does not begin"},
        {"model_checkpoint_path: m-1\n", TP_ERR_FORMAT, "does not begin"},
        {"model_checkpoint_path:", TP_ERR_FORMAT, "does not begin"},
        {"", TP_ERR_FORMAT, "does not begin"},
        {"\xff\xfe\x01\x02garbage", TP_ERR_FORMAT, "does not begin"},
    };
    char dir[1000], deep[3000];
    snprintf(dir, sizeof dir, "%s/here", tp_test_tmpdir());
    CHECK_OK(tp_make_dirs(dir));
    tp_dict d = {NULL, 0, 0};
    add(&d, "x", TP_F32, shape_of(0, 0, 0), 1);
    CHECK_OK(tp_tf_checkpoint_save(tp_test_path(dir, "m-1"), &d));
    CHECK_OK(tp_safetensors_save(tp_test_path(dir, "\xc3\xa9-1.safetensors"), &d));
    CHECK_OK(tp_npz_save(tp_test_path(dir, "back\\slash-1.npz"), &d, false));
    CHECK_ERR(tp_load_checkpoint_vars(dir, &d), TP_ERR_NAME, "no checkpoint was saved there");
    for (int i = 0; i < TP_COUNT(row); i++) {
        tp_test_write(tp_test_path(dir, "checkpoint"), row[i].text, strlen(row[i].text));
        const tp_status s = tp_load_checkpoint_vars(tp_test_path(dir, "checkpoint"), &d);
        CHECK_MSG(s == row[i].status && (s == TP_OK || strstr(tp_last_error(), row[i].part)), "%s: %s: %s", row[i].text,
                  tp_status_name(s), tp_last_error());
        CHECK(tp_load_checkpoint_vars(dir, &d) == s);
    }
    memset(deep, 'x', sizeof deep);
    memcpy(deep, "model_checkpoint_path: \"", 24);
    memcpy(deep + sizeof deep - 2, "\"", 2);
    tp_test_write(tp_test_path(dir, "checkpoint"), deep, sizeof deep - 1);
    CHECK(tp_load_checkpoint_vars(dir, &d) < 0);
    /* its own writer and reader agree on odd names */
    const char *odd = "a\"b\\c 1";
    char latest[1100];
    CHECK_OK(tp_checkpoint_state_write(dir, &odd, 1));
    CHECK_OK(tp_checkpoint_state_latest(dir, latest, sizeof latest));
    CHECK_STR(strrchr(latest, '/') + 1, odd);
    tp_dict_free(&d);
}

TEST(allocation_failure)
{
    const char *dir = tp_test_tmpdir();
    tp_dict d = {NULL, 0, 0};
    tp_test_keep_log();
    for (int i = 0; i < 70; i++) {
        char name[32];
        snprintf(name, sizeof name, "scope/v%d", i);
        add(&d, name, i % 2 ? TP_F32 : TP_BF16, shape_of(2, 3, 5), i);
    }
    tp_graph *g = tp_graph_new(NULL);
    var(g, "W", TP_F32, shape_of(1, 3, 0), 1);
    tp_session *s = tp_session_new(g, NULL);
    bytes half;
    half.n = 0;
    put_hex(&half, half2_index);
    tp_test_write(tp_test_path(dir, "half.index"), half.p, half.n);
    tp_test_write(tp_test_path(dir, "half.data-00000-of-00001"), "\0\0\0\x3f\0\0\0\x40\0\0\x40\x40", 12);
    for (int f = 0; f < 3; f++) CHECK_OK(save_as(f, file_of(dir, "full", f), &d));
    for (int what = 0; what < 10; what++) {
        bool failed = true;
        for (long n = 1; failed && n < 100000; n++) {
            tp_dict in = {NULL, 0, 0};
            const int f = what % 3;
            char fresh[40];
            snprintf(fresh, sizeof fresh, "fresh%d", what);
            tp_status st;
            tp_test_fail_after(n);
            if (what < 3) st = load_as(f, file_of(dir, "full", f), &in);
            else if (what < 6) st = save_as(f, file_of(dir, fresh, f), &d);
            else if (what < 9) st = tp_save_checkpoint(s, file_of(dir, fresh, f), NULL, 0);
            else st = tp_tf_checkpoint_load(tp_test_path(dir, "half"), &in);
            failed = tp_test_alloc_failed();
            CHECK_MSG(st == (failed ? TP_ERR_NOMEM : TP_OK), "operation %d, allocation %ld: %s: %s", what, n,
                      tp_status_name(st), tp_last_error());
            tp_dict_free(&in);
            CHECK_MSG(tp_test_live_blocks() == 0, "operation %d, allocation %ld: %ld blocks leak", what, n,
                      tp_test_live_blocks());
            /* nothing, or a whole checkpoint */
            if (what == 5 || what == 8) {
                const bool index = tp_file_exists(file_of(dir, fresh, f));
                char data[2][80];
                for (int k = 0; k < 2; k++) snprintf(data[k], sizeof data[k], "%s.data-00000-of-0000%d", fresh, k + 1);
                CHECK(index ==
                      (tp_file_exists(tp_test_path(dir, data[0])) != tp_file_exists(tp_test_path(dir, data[1]))));
            }
        }
        CHECK(!failed);
    }
    tp_test_alloc_reset();
    CHECK(tp_test_files_in(dir) == 2 + 4 + 8);
    tp_session_free(s);
    tp_graph_free(g);
    tp_set_log(NULL, NULL);
    tp_dict_free(&d);
}

/* No warning if the graph lacks what only training needs, which is known by the end or by the beginning of its name; one letter less
 * is another name. */
TEST(names_of_what_only_training_needs)
{
    static const char *const yes[] = {"w/Adam",
                                      "w/Adam_1",
                                      "w/Momentum",
                                      "w/Adadelta",
                                      "w/Adadelta_1",
                                      "w/RMSProp",
                                      "w/RMSProp_1",
                                      "w/RMSProp_2",
                                      "w/LAMB",
                                      "w/Lion",
                                      "w/Ftrl_12",
                                      "w/Adagrad",
                                      "w/AccumGrad",
                                      "/Adam",
                                      "EMA/x",
                                      "EMA/",
                                      "a/EMA/x",
                                      "AccumGrad",
                                      "AccumGrad/counter",
                                      "apply_gradients/x",
                                      "apply_gradients"};
    static const char *const no[] = {"w",
                                     "Adam",
                                     "w/Adam2",
                                     "w/_2",
                                     "w/Adam/x",
                                     "w/adam",
                                     "w/Adadelta_",
                                     "wMomentum",
                                     "EMA",
                                     "EMAx",
                                     "a/EMA",
                                     "aEMA/x",
                                     "AccumGra",
                                     "a/AccumGrad/x",
                                     "apply_gradient",
                                     "a/apply_gradients",
                                     "bpply_gradients",
                                     "BccumGrad",
                                     "FMA/x"};
    tp_dict d = {NULL, 0, 0};
    tp_buf want = {NULL, 0, 0, false};
    tp_graph *g = tp_graph_new(NULL);
    tp_session *s = tp_session_new(g, NULL);
    for (int i = 0; i < TP_COUNT(yes); i++) add(&d, yes[i], TP_F32, shape_of(1, 1, 0), 0);
    for (int i = 0; i < TP_COUNT(no); i++) add(&d, no[i], TP_F32, shape_of(1, 1, 0), 0);
    for (int i = 0; i < TP_COUNT(no); i++) tp_buf_printf(&want, "%s%s", i ? ", " : "not found in the graph: ", no[i]);
    tp_test_keep_log();
    CHECK_OK(restore(tp_dict_restore(&d, false), s));
    const char *told = strstr(tp_test_logged, "not found in the graph: ");
    if (CHECK(told != NULL)) CHECK_MSG(strncmp(told, want.data, want.len) == 0 && told[want.len] == '\n', "%s", told);
    tp_set_log(NULL, NULL);
    tp_buf_free(&want);
    tp_dict_free(&d);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST_MAIN()
