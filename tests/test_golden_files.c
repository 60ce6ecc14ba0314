/* test_golden_files.c - numbers as text, conversions, checksums, deflate, and files of arrays that are right, at a limit or damaged:
 * what is written and read, and each sentence, is what it was
 *
 *     TP_TEST_WRITE=1 build/test/gcc-c11-test_golden_files    writes digests_files.txt anew, after a change that was meant
 *     TP_TEST_PRINT=npy:7 ...                                 prints what case 7 of a section sees
 *
 * A case is a function of its number: the same with every compiler. */
#define TP_IMPLEMENTATION
#include "tp_tensor.h"
#include "tp_test.h"

#include "golden.h"
#include "golden_draw.h"

/* ==== >>random numbers ================================================================================ */

static uint64_t draw_bits(void) /* as often a small number as a large one */
{
    const uint64_t bits = draw64();
    return bits >> draw(64);
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
static void see_text(const char *text)
{
    if (printing) printf("%s\n", text);
    seen = golden_hash_without(seen, text, dir);
}
static void see_bytes(const void *p, size_t n)
{
    see("bytes", (int64_t)n);
    if (n) see("hash", (int64_t)tp_hash(p, n));
}
static tp_status see_status(const char *what, tp_status st)
{
    see(what, st);
    if (st < TP_OK) see_text(tp_last_error());
    return st;
}
static void see_tensor(const tp_tensor *t)
{
    see("dtype", t->dtype);
    see("ndim", t->shape.ndim);
    for (int i = 0; i < t->shape.ndim; i++) see("dim", t->shape.dim[i]);
    if (tp_tensor_size(t) > 0) see_bytes(t->data, tp_tensor_bytes(t));
}
static void see_dict(const tp_dict *d)
{
    see("n", d->n);
    for (int i = 0; i < d->n; i++) {
        see_text(d->item[i].name);
        see_tensor(&d->item[i].value);
    }
}
static void see_file(const char *path)
{
    char *data = NULL;
    size_t size = 0;
    if (see_status("file", tp_file_read(path, false, 0, &data, &size)) == TP_OK) see_bytes(data, size);
    tp_free(data);
}

static void run_section(const char *section, int cases, int together, void (*one)(void))
{
    char wanted[64];
    const char *print = getenv("TP_TEST_PRINT");
    for (int i = 0; i < cases; i++) {
        if (i % together == 0) seen = 0;
        snprintf(wanted, sizeof wanted, "%s:%d", section, i);
        printing = print && strcmp(print, wanted) == 0;
        state = tp_test_mix((uint64_t)i) ^ tp_hash_name(section);
        one();
        if (i % together == together - 1) golden_digest(seen);
    }
    golden_compare("digests_files.txt", section);
}

/* ==== >>numbers ======================================================================================= */

/* Any bits, few digits, or near a power of ten or two; finite or not. */
static double any_double(void)
{
    uint64_t bits = draw64();
    double v;
    switch (draw(5)) {
    case 0: memcpy(&v, &bits, sizeof v); break;
    case 1: v = (double)(int64_t)draw_bits(); break;
    case 2: v = (double)(bits % 100000) / (double)(1 + bits / 7 % 1000); break;
    case 3:
        bits = (bits % 2047 << 52) + (bits >> 40 & 7) - 3;
        memcpy(&v, &bits, sizeof v);
        break;
    default: v = (double)(bits % 1000) * 0.0005 - 0.25;
    }
    return v;
}
static void one_number(void)
{
    static const char form[] = "eEfFgG";
    char text[TP_NUMBER_TEXT], fmt[40];
    const double v = any_double();
    const uint32_t bits = (uint32_t)draw_bits();
    float f;
    memcpy(&f, &bits, sizeof f);
    if (chance(50)) f = (float)(v > 1e30 ? 1e30 : v < -1e30 || v != v ? -1e30 : v);
    int n = tp_format_double(text, v);
    CHECK_MSG(n == (int)strlen(text), "%s", text);
    see_text(text);
    n = tp_format_float(text, f);
    CHECK_MSG(n == (int)strlen(text), "%s", text);
    see_text(text);

    tp_buf b = {NULL, 0, 0, false};
    size_t at = 1;
    fmt[0] = '%';
    for (; chance(30) && at < 6; at++) fmt[at] = "-+ #0"[draw(5)];
    if (chance(50)) at += (size_t)snprintf(fmt + at, 8, "%d", 1 + draw(30));
    if (chance(50)) at += (size_t)snprintf(fmt + at, 8, ".%d", draw(chance(5) ? 40 : 12));
    fmt[at] = form[draw(6)], fmt[at + 1] = 0;
    /* the format is not known to the compiler, whose check is left out: its kind is that of the argument */
    void (*print)(tp_buf *, const char *, ...) = tp_buf_printf;
    print(&b, fmt, v);
    fmt[at] = "diuoxX"[draw(6)];
    print(&b, fmt, (int)draw_bits());
    fmt[at + 2] = 0, fmt[at + 1] = fmt[at], fmt[at] = 'l';
    print(&b, fmt, (long)draw_bits());
    fmt[at] = 's', fmt[at + 1] = 0;
    print(&b, fmt, "a word");
    fmt[at] = 'c';
    print(&b, fmt, 'x');
    see_text(b.data);
    tp_buf_free(&b);
}
TEST(numbers_are_printed_as_before) { run_section("numbers", 9000, 30, one_number); }

/* A text that is almost a number. */
static void one_parse(void)
{
    static const char alphabet[] = "0123456789000111999....eE+- \tinfatyINF_x";
    char text[64];
    const char *end;
    int n = 0;
    if (chance(50)) {
        const uint64_t whole = draw_bits();
        const int power = draw(120) - 60;
        n = snprintf(text, 40, "%s%llu.25e%d", chance(30) ? "-" : "", (unsigned long long)whole, power);
    }
    for (int more = 1 + draw(12); more > 0; more--) text[n++] = alphabet[draw((int)sizeof alphabet - 1)];
    text[n] = 0;
    const int place = draw(n);
    if (chance(30)) text[place] = alphabet[draw((int)sizeof alphabet - 1)];
    const double v = tp_parse_double(text, &end);
    see("double ends", end - text);
    if (v == v) see_bytes(&v, sizeof v);
    const float f = tp_parse_float(text, &end);
    see("float ends", end - text);
    if (f == f) see_bytes(&f, sizeof f);
}
TEST(numbers_are_read_as_before) { run_section("parse", 60000, 150, one_parse); }

/* Any type to any other: all elements, and no byte behind them. */
static void one_conversion(void)
{
    enum { MOST = 600, BEHIND = 32 };
    static unsigned char from[MOST * 8], to[MOST * 8 + BEHIND];
    static const int lengths[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 255, 256, 257, 511, 512, 513, 600};
    const tp_dtype a = (tp_dtype)(TP_F32 + draw(TP_DTYPE_COUNT - TP_F32)),
                   b = (tp_dtype)(TP_F32 + draw(TP_DTYPE_COUNT - TP_F32));
    const int n = DRAW_OF(lengths);
    for (int i = 0; i < n; i++) {
        const uint64_t bits = draw_bits();
        const int64_t whole = (int64_t)(chance(50) ? bits : 0 - bits);
        const double part = (double)whole / (double)(1 + draw(9));
        if (tp_dtype_is_float(a)) tp_convert(from + (size_t)i * tp_dtype_size(a), a, &part, TP_F64, 1);
        else tp_convert(from + (size_t)i * tp_dtype_size(a), a, &whole, TP_I64, 1);
    }
    memset(to, 0xA5, sizeof to);
    tp_convert(to, b, from, a, n);
    const size_t bytes = (size_t)n * tp_dtype_size(b);
    see_bytes(to, bytes);
    for (int i = 0; i < BEHIND; i++)
        if (!CHECK_MSG(to[bytes + (size_t)i] == 0xA5, "%d elements of %s to %s: byte %d behind them is written", n,
                       tp_dtype_name(a), tp_dtype_name(b), i))
            break;
}
TEST(conversions_write_what_they_wrote_and_nothing_behind) { run_section("convert", 4000, 40, one_conversion); }

/* ==== >>bytes ========================================================================================= */

static uint8_t area[70000];

/* Bytes that repeat themselves more or less. */
static size_t any_bytes(void)
{
    static const int sizes[] = {0,   1,   2,   3,   4,    5,    57,   63,   64,   65,  258,
                                259, 260, 300, 515, 1000, 4095, 4096, 4097, 4100, 9000};
    static const int large[] = {32767, 32768, 32769, 32770, 65535, 65536, 65540};
    const int n = chance(4) ? DRAW_OF(large) : DRAW_OF(sizes), letters = 1 + draw(chance(50) ? 4 : 256),
              copies = draw(100);
    for (int i = 0; i < n;) {
        if (i > 0 && draw(100) < copies) {
            const int back = 1 + draw(chance(70) && i > 20 ? 20 : i), length = 3 + draw(chance(10) ? 300 : 12);
            for (int k = 0; k < length && i < n; k++, i++) area[i] = area[i - back];
        } else area[i++] = (uint8_t)draw(letters);
    }
    return (size_t)n;
}
static void one_stream(void)
{
    const size_t n = any_bytes();
    tp_buf b = {NULL, 0, 0, false};
    char *out = NULL;
    size_t out_size = 0, used = 0;
    see("crc32", tp_crc32(0, area, n));
    see("crc32c", tp_crc32c((uint32_t)draw64(), area, n));
    see_status("deflate", tp_deflate(area, n, &b));
    see_bytes(b.data, b.len);
    if (CHECK_OK(tp_inflate_alloc(b.data, b.len, n, &out, &out_size, &used)))
        CHECK(out_size == n && used == b.len && memcmp(out, area, n) == 0);
    tp_free(out);
    if (n > 0 && see_status("a byte too many", tp_inflate_alloc(b.data, b.len, n - 1, &out, &out_size, &used)) == TP_OK)
        tp_free(out);
    /* a stream that is cut or changed, or one of dynamic codes that begins as one should */
    const int kind = draw(3);
    size_t size = b.len;
    if (kind == 0) size = (size_t)draw((int)b.len);
    else if (kind == 1 && b.len)
        for (int k = 1 + draw(3); k > 0; k--) {
            const int place = draw((int)b.len);
            b.data[place] = (char)(b.data[place] ^ 1 << draw(8));
        }
    else if (b.len)
        for (size_t k = 0; k < b.len && k < 60; k++) {
            const uint64_t bits = draw64();
            const uint8_t any = (uint8_t)(bits & bits >> 8 & (k < 12 ? 0xff : bits >> 16));
            b.data[k] = (char)(k ? any : (any & 0xf8) | 5);
        }
    if (see_status("inflate", tp_inflate_alloc(b.data, size, 100000, &out, &out_size, &used)) == TP_OK) {
        see_bytes(out, out_size);
        see("used", (int64_t)used);
        tp_free(out);
    }
    see_status("exact", tp_inflate(b.data, size, area, n));
    tp_buf_free(&b);
}
TEST(streams_are_compressed_and_refused_as_before) { run_section("streams", 1200, 6, one_stream); }

/* ==== >>files of arrays =============================================================================== */

static const char *const words[] = {"",
                                    "a",
                                    "b",
                                    "conv0/W",
                                    "conv0/b",
                                    "fc.npy",
                                    "a\"q",
                                    "back\\slash",
                                    "x\\",
                                    "new\nline",
                                    "\xc3\xa4",
                                    "\xe2\x82\xac",
                                    "\xf0\x9f\x98\x80",
                                    "\xff",
                                    "a.b/c.d/e",
                                    "..",
                                    "/abs",
                                    "dir/",
                                    "/.ATTRIBUTES/VARIABLE_VALUE",
                                    "x/.ATTRIBUTES/VARIABLE_VALUE",
                                    ".ATTRIBUTES/VARIABLE_VALUE",
                                    "y/.ATTRIBUTES/VARIABLE_VALUE_",
                                    "__metadata__",
                                    "\x7f",
                                    "tab\t",
                                    "e\x01"};

static void fill(tp_tensor *t)
{
    const size_t n = tp_tensor_bytes(t);
    for (size_t i = 0; i < n; i++) ((uint8_t *)t->data)[i] = (uint8_t)(t->dtype == TP_BOOL ? draw(2) : draw(256));
}
static void any_dict(tp_dict *d, bool odd)
{
    const int n = draw(chance(10) ? 40 : 5);
    for (int i = 0; i < n; i++) {
        char name[400];
        const char *word = words[draw(odd ? TP_COUNT(words) : 5)];
        if (chance(40)) snprintf(name, sizeof name, "%s", word);
        else
            snprintf(name, sizeof name, "%s%d%.*s", word, i, chance(5) ? draw(300) : 0,
                     "a long name of many characters that goes on and on and on and on and on and on and on and on and "
                     "on and on and on and on and on and on and on and on and on and on and on and on and on and on "
                     "and on and on and on and on and on and on and on and on");
        tp_tensor *t = tp_dict_add(d, name);
        if (!CHECK(t != NULL)) return;
        const tp_dtype dtype = (tp_dtype)(TP_F32 + draw(TP_DTYPE_COUNT - TP_F32));
        int64_t dim[4];
        for (int k = 0; k < 4; k++) dim[k] = draw(40) % 13 % 5;
        if (CHECK_OK(tp_tensor_resize(t, dtype, tp_make_shape_n(draw(5), dim)))) fill(t);
    }
}

static tp_status save(int format, const char *path, const tp_dict *d)
{
    return format < 2    ? tp_npz_save(path, d, format == 1)
           : format == 2 ? tp_safetensors_save(path, d)
                         : tp_tf_checkpoint_save(path, d);
}
static tp_status load(int format, const char *path, tp_dict *d)
{
    return format < 2    ? tp_npz_load(path, d)
           : format == 2 ? tp_safetensors_load(path, d)
                         : tp_tf_checkpoint_load(path, d);
}

static void one_dict(void)
{
    const int format = draw(4);
    const char *path = tp_test_path(dir, format == 3 ? "d" : "d.npz");
    tp_dict d = {NULL, 0, 0}, back = {NULL, 0, 0};
    any_dict(&d, chance(40));
    for (int i = 0; i < 3; i++) {
        const char *name = DRAW_OF(words);
        if (!tp_dict_find(&d, name)) see_text(tp_last_error());
    }
    const tp_status st = see_status("save", save(format, path, &d));
    if (st == TP_OK && format < 3) see_file(path);
    if (st == TP_OK && format == 3) {
        see_file(tp_test_path(dir, "d.index"));
        see("second", tp_file_exists(tp_test_path(dir, "d.data-00000-of-00002")));
    }
    if (st == TP_OK && see_status("load", load(format, path, &back)) == TP_OK) see_dict(&back);
    tp_dict_free(&d);
    tp_dict_free(&back);
}
TEST(dicts_are_saved_as_before)
{
    snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
    run_section("dicts", 120, 2, one_dict);
}

/* -- headers that are almost right: a list of tokens, some of them left out, doubled or replaced */

static tp_buf made;
static void token(const char *text, const char *const *others, int n)
{
    const int what = draw(100);
    if (what == 0) return;
    if (what < 4) text = others[draw(n)];
    if (what == 4) tp_buf_printf(&made, "%s", text);
    if (chance(4)) tp_buf_printf(&made, "%s", chance(70) ? " " : "\n");
    tp_buf_printf(&made, "%s", text);
}
static void finish_npy(int version, int length_off, int data)
{
    tp_buf file = {NULL, 0, 0, false};
    const size_t n = (size_t)((int)made.len + length_off);
    const uint8_t minor = chance(2), longer = chance(3);
    const uint8_t head[12] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', (uint8_t)version, minor, (uint8_t)(n & 255), (uint8_t)(n >> 8), 0, longer};
    tp_buf_put(&file, head, version == 1 ? 10 : 12);
    tp_buf_put(&file, made.data, made.len);
    uint8_t elements[200];
    for (int i = 0; i < data; i++) elements[i] = (uint8_t)draw(256);
    tp_buf_put(&file, elements, (size_t)data);
    const size_t size = chance(3) ? (size_t)draw((int)file.len) : file.len;
    tp_tensor t;
    memset(&t, 0, sizeof t);
    if (printing) printf("%.*s\n", (int)made.len, made.data ? made.data : "");
    if (see_status("npy", tp_npy_parse(file.data, size, "t.npy", &t)) == TP_OK) see_tensor(&t);
    tp_tensor_free(&t);
    tp_buf_free(&file);
}
static void one_npy(void)
{
    static const char *const types[] = {
        "'<f4'", "'<f4'", "'>f4'",          "'|f4'",      "'=f8'",   "'f2'",   "'<i1'",   "'>i2'", "'<i4'", "'>i8'",
        "'u1'",  "'<u2'", "'>u4'",          "'<u8'",      "'|b1'",   "'|O'",   "'<c8'",   "'<U3'", "'<f'",  "'<f44'",
        "''",    "'<'",   "[('a', '<f4')]", "('<f4', 2)", "\"<f4\"", "'<f4\"", "'<f\\4'", "'?'",   "'i3'"};
    static const char *const shapes[] = {"()",
                                         "(1,)",
                                         "(2, 3)",
                                         "(3, 2,)",
                                         "(2L, 2L)",
                                         "(0, 5)",
                                         "(1, 2, 3)",
                                         "(3)",
                                         "(,)",
                                         "(1 2)",
                                         "(-1,)",
                                         "(1, 1, 1, 1, 1, 1, 1, 1)",
                                         "(1, 1, 1, 1, 1, 1, 1, 1, 1)",
                                         "(9223372036854775797,)",
                                         "(9223372036854775798,)",
                                         "(922337203685477580,)",
                                         "(922337203685477581,)",
                                         "(99999999999999999999,)",
                                         "(4294967296, 4294967296, 0)",
                                         "(1,,)",
                                         "(01,)",
                                         "(5,",
                                         "5"};
    static const char *const others[] = {"'",    "{",     "}",       ",",       ":",       "(",    ")",
                                         "True", "False", "'descr'", "'shape'", "'order'", "None", "x"};
    static const int sizes[] = {1, 2, 4, 8};
    const char *type = DRAW_OF(types), *shape = shapes[draw(chance(60) ? 7 : TP_COUNT(shapes))];
    const int first = draw(3);
    made.len = 0;
    token("{", others, TP_COUNT(others));
    for (int k = 0; k < 3; k++) {
        const int key = (first + k) % 3;
        token(key == 0 ? "'descr'" : key == 1 ? "'fortran_order'" : "\"shape\"", others, TP_COUNT(others));
        token(":", others, TP_COUNT(others));
        if (key == 0) token(type, types, TP_COUNT(types));
        else if (key == 1) token(chance(50) ? "True" : "False", others, TP_COUNT(others));
        else token(shape, shapes, TP_COUNT(shapes));
        if (k < 2 || chance(50)) token(",", others, TP_COUNT(others));
    }
    token("}", others, TP_COUNT(others));
    if (chance(80)) tp_buf_printf(&made, "   \n");
    const int off = chance(4) ? draw(21) - 10 : 0, version = chance(80) ? 1 : draw(5), size = DRAW_OF(sizes);
    finish_npy(version, off < -(int)made.len ? 0 : off, chance(80) ? 6 * size : draw(60));
}
TEST(headers_of_npy_are_read_as_before)
{
    run_section("npy", 40000, 100, one_npy);
    tp_buf_free(&made);
}

/* The first bytes of an npy file, each number of them. */
TEST(npy_files_of_few_bytes)
{
    static const char whole[] = "\x93NUMPY\x01\x00\x37\x00{'descr': '|u1', 'fortran_order': False, 'shape': (1,)}\x07";
    const size_t size = sizeof whole - 1, header = 6 + 2 + 2 + 0x37;
    tp_tensor t;
    memset(&t, 0, sizeof t);
    for (size_t n = 0; n <= size; n++) {
        char *copy = (char *)tp_malloc(n + 1);
        if (!CHECK(copy != NULL)) return;
        memcpy(copy, whole, n);
        const tp_status st = tp_npy_parse(copy, n, "t", &t);
        if (n < 6) CHECK_ERR(st, TP_ERR_FORMAT, "t: this is no npy array (it does not begin with \\x93NUMPY)");
        else if (n < header) CHECK_ERR(st, TP_ERR_FORMAT, "t: the npy header is cut short");
        else if (n < size) CHECK(st == TP_ERR_FORMAT);
        else CHECK_OK(st);
        tp_free(copy);
    }
    CHECK(t.dtype == TP_U8 && tp_tensor_size(&t) == 1 && tp_tensor_get(&t, 0) == 7);
    tp_tensor_free(&t);
}

/* What stands in a header of safetensors, right and wrong. */
static const char *const header_types[] = {"\"F32\"", "\"F32\"",       "\"F64\"", "\"F16\"",  "\"BF16\"",
                                           "\"I64\"", "\"I32\"",       "\"I16\"", "\"I8\"",   "\"U8\"",
                                           "\"U16\"", "\"U32\"",       "\"U64\"", "\"BOOL\"", "\"F8_E4M3\"",
                                           "\"\"",    "\"F\\u00332\"", "F32",     "3"};
static const char *const header_names[] = {"\"a\"",
                                           "\"b\"",
                                           "\"a\\n\"",
                                           "\"a\\\"\"",
                                           "\"\\\\\"",
                                           "\"\\u0041\"",
                                           "\"\\u00e4\"",
                                           "\"\\u20AC\"",
                                           "\"\\ud83d\\ude00\"",
                                           "\"\\ud83dx\\ude00\"",
                                           "\"\\ud83dxude00\"",
                                           "\"\\ud83d\\xde00\"",
                                           "\"\\ud83d\"",
                                           "\"\\ud83d\\ude0\"",
                                           "\"\\ud83d\\ud83d\"",
                                           "\"\\ude00\"",
                                           "\"\\udfff\"",
                                           "\"\\ue000\"",
                                           "\"\\ud7ff\"",
                                           "\"\\ud800\\udc00\"",
                                           "\"\\udbff\\udfff\"",
                                           "\"\\ud800\\udbff\"",
                                           "\"\\ud800\\ue000\"",
                                           "\"\\u0000\"",
                                           "\"\\u007f\"",
                                           "\"\\u0080\"",
                                           "\"\\u07ff\"",
                                           "\"\\u0800\"",
                                           "\"\\uffff\"",
                                           "\"\\u00g0\"",
                                           "\"\\u12\"",
                                           "\"\\x\"",
                                           "\"\x1f\"",
                                           "\"\\b\\f\\n\\r\\t\\/\"",
                                           "\"\xc3\"",
                                           "\"__metadata__\"",
                                           "\"",
                                           "\"\\\"",
                                           "a"};
static const char *const header_characters[] =
    {/* the first and the last ones of each length, and what lies beside them */
     "\x80",
     "\xbf",
     "\xc0\x80",
     "\xc1\xbf",
     "\xc2\x80",
     "\xc2\x7f",
     "\xdf\xbf",
     "\xdf\xc0",
     "\xe0\x9f\xbf",
     "\xe0\xa0\x80",
     "\xe1\x80",
     "\xed\x9f\xbf",
     "\xed\xa0\x80",
     "\xee\x80\x80",
     "\xef\xbf\xbf",
     "\xef\xbf\xc0",
     "\xf0\x8f\xbf\xbf",
     "\xf0\x90\x80\x80",
     "\xf0\x90\x80",
     "\xf4\x8f\xbf\xbf",
     "\xf4\x90\x80\x80",
     "\xf5\x80\x80\x80",
     "\xf3\xbf\xbf\x7f",
     "\xff"};
static const char *const header_shapes[] = {"[]",
                                            "[2]",
                                            "[1,2]",
                                            "[2,1,1,1,1,1,1,1]",
                                            "[1,1,1,1,1,1,1,1,1]",
                                            "[1,1,1,1,1,1,1,1,1,1]",
                                            "[02]",
                                            "[0]",
                                            "[-2]",
                                            "[2.0]",
                                            "[18446744073709551615]",
                                            "[18446744073709551616]",
                                            "[9223372036854775807]",
                                            "[9223372036854775808]",
                                            "[2,]",
                                            "[,2]",
                                            "[2",
                                            "2",
                                            "[ 2 , 1 ]"};
static const char *const header_others[] = {
    "{", "}", ",", ":", "[", "]", "\"dtype\"", "\"shape\"", "null", "\"x\"", "\"data_offsets\""};
static const int header_sizes[] = {4, 4, 8, 2, 2, 8, 4, 2, 1, 1, 2, 4, 8, 1};

/* An entry: the name, and its three keys in any order. Its bytes begin at `at`; returns where they end. */
static int put_entry(int i, int at)
{
    static const char *const keys[] = {"\"dtype\"", "\"shape\"", "\"data_offsets\""};
    const int type = draw(chance(80) ? 14 : TP_COUNT(header_types)), first = draw(3),
              shape = chance(80) ? draw(4) : draw(TP_COUNT(header_shapes));
    const int size = type < TP_COUNT(header_sizes) ? header_sizes[type] : 4, end = at + (shape == 0 ? size : 2 * size);
    char own[24];
    snprintf(own, sizeof own, "\"n%d%s\"", i, chance(15) ? DRAW_OF(header_characters) : "");
    token(chance(60) ? own : DRAW_OF(header_names), header_names, TP_COUNT(header_names));
    token(":", header_others, TP_COUNT(header_others));
    token("{", header_others, TP_COUNT(header_others));
    for (int k = 0; k < 3; k++) {
        const int key = (first + k) % 3;
        char offsets[64];
        const int later = chance(3), earlier = chance(3);
        snprintf(offsets, sizeof offsets, "[%d,%d]", at + later, end - earlier);
        token(keys[key], header_others, TP_COUNT(header_others));
        token(":", header_others, TP_COUNT(header_others));
        if (key == 0) token(header_types[type], header_types, TP_COUNT(header_types));
        else if (key == 1) token(header_shapes[shape], header_shapes, TP_COUNT(header_shapes));
        else token(offsets, header_shapes, TP_COUNT(header_shapes));
        if (k < 2) token(",", header_others, TP_COUNT(header_others));
    }
    token("}", header_others, TP_COUNT(header_others));
    return end;
}
static void one_safetensors(void)
{
    const int n = draw(4);
    int at = 0;
    made.len = 0;
    token("{", header_others, TP_COUNT(header_others));
    if (chance(15))
        tp_buf_printf(&made, "\"__metadata__\":%s,",
                      chance(50)   ? "{\"format\":\"pt\"}"
                      : chance(50) ? "{}"
                      : chance(50) ? "{\"format\":\"tp2\"}"
                                   : "{\"a\":1}");
    for (int i = 0; i < n; i++) {
        at = put_entry(i, at);
        if (i + 1 < n) token(",", header_others, TP_COUNT(header_others));
    }
    token("}", header_others, TP_COUNT(header_others));
    if (chance(30)) tp_buf_printf(&made, "  ");
    tp_buf file = {NULL, 0, 0, false};
    const size_t length = made.len + (size_t)(chance(4) ? draw(3) : 0);
    const uint8_t head[8] = {(uint8_t)(length & 255),     (uint8_t)(length >> 8), 0, 0, 0, 0, 0,
                             (uint8_t)(chance(1) ? 1 : 0)};
    tp_buf_put(&file, head, 8);
    tp_buf_put(&file, made.data, made.len);
    for (int i = (chance(4) ? 1 : 0); i < at; i++) {
        const uint8_t byte = (uint8_t)draw(256);
        tp_buf_put(&file, &byte, 1);
    }
    const size_t whole = chance(2) ? (size_t)draw((int)file.len) : file.len;
    tp_dict d = {NULL, 0, 0};
    if (printing) printf("%.*s\n", (int)made.len, made.data ? made.data : "");
    if (see_status("safetensors", tp_safetensors_parse(file.data, whole, "t", &d)) == TP_OK) see_dict(&d);
    tp_dict_free(&d);
    tp_buf_free(&file);
}
TEST(headers_of_safetensors_are_read_as_before)
{
    run_section("safetensors", 40000, 100, one_safetensors);
    tp_buf_free(&made);
}

/* -- files of which a few bytes are changed; checksums of blocks are made right again */

static const uint8_t odd_bytes[] = {0, 1, 2, 3, 7, 8, 9, 16, 127, 128, 129, 255};
/* Changes numbers of 1, 2, 4 or 8 bytes in [from, to). */
static void change(char *p, size_t from, size_t to)
{
    for (int k = 1 + draw(2); k > 0; k--) {
        const size_t at = from + (size_t)draw((int)(to - from));
        const int how = draw(4), width = 1 << draw(4);
        if (how == 0) p[at] = (char)(p[at] + 1);
        else if (how == 1) p[at] = (char)(p[at] - 1);
        else if (how == 2) p[at] = (char)DRAW_OF(odd_bytes);
        else
            for (size_t i = at; i < at + (size_t)width && i < to; i++) p[i] = (char)(chance(95) ? 255 : 0);
    }
}

static char *zip_of[2];
static size_t zip_size[2];
static void make_zips(void)
{
    tp_dict d = {NULL, 0, 0};
    static const char *const names[] = {"a", "conv0/W", "bb"};
    state = 5;
    for (int i = 0; i < 3; i++) {
        const int64_t dim[2] = {2 + i, 3};
        tp_tensor *t = tp_dict_add(&d, names[i]);
        if (CHECK(t != NULL) && CHECK_OK(tp_tensor_resize(t, i ? TP_F32 : TP_I32, tp_make_shape_n(2, dim)))) fill(t);
    }
    for (int i = 0; i < 2; i++) {
        const char *path = tp_test_path(dir, "whole.npz");
        CHECK_OK(tp_npz_save(path, &d, i == 1));
        CHECK_OK(tp_file_read(path, false, 0, &zip_of[i], &zip_size[i]));
    }
    tp_dict_free(&d);
}
static void one_zip(void)
{
    const int which = draw(2);
    const size_t n = zip_size[which];
    const char *path = tp_test_path(dir, "changed.npz");
    tp_dict d = {NULL, 0, 0};
    char *copy = (char *)tp_malloc(n + 40);
    if (!CHECK(copy != NULL)) return;
    memcpy(copy, zip_of[which], n);
    memset(copy + n, 0, 40);
    if (chance(60)) change(copy, n - 200, n);
    else if (chance(90)) change(copy, 0, n);
    size_t size = n;
    if (chance(10)) size = n - (size_t)draw(60);
    if (chance(10)) size = n + (size_t)draw(40);
    if (size > n && chance(70)) copy[n - 2] = (char)(size - n); /* a comment */
    remove(path);                                               /* a file that is written over may wait for the disk */
    CHECK(tp_test_write(path, copy, size));
    if (see_status("zip", tp_npz_load(path, &d)) == TP_OK) see_dict(&d);
    tp_dict_free(&d);
    tp_free(copy);
}
TEST(zip_files_are_read_and_refused_as_before)
{
    snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
    make_zips();
    run_section("zip", 1600, 8, one_zip);
    for (int i = 0; i < 2; i++) tp_free(zip_of[i]);
}

static char *index_bytes, *shard_bytes;
static size_t index_size, shard_size,
    block_at[4]; /* where a block begins; its type and its checksum are before the next one */

static uint64_t read_varint(const char *p, size_t *at)
{
    uint64_t v = 0;
    for (int shift = 0;; shift += 7) {
        const uint8_t byte = (uint8_t)p[(*at)++];
        v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return v;
    }
}
static void make_index(void)
{
    tp_dict d = {NULL, 0, 0};
    const char *path = tp_test_path(dir, "whole");
    state = 6;
    for (int i = 0; i < 20; i++) {
        char name[60];
        const int64_t dim[3] = {2, 1 + i % 3, 2};
        snprintf(name, sizeof name, "layer%d%s", i,
                 i % 5 == 4 ? "/.ATTRIBUTES/VARIABLE_VALUE"
                 : i % 2    ? "/W"
                            : "/W/Adam");
        if (i < 2) snprintf(name, sizeof name, i ? "/.ATTRIBUTES/VARIABLE_VALUE" : "x/.ATTRIBUTES/VARIABLE_VALUE");
        tp_tensor *t = tp_dict_add(&d, name);
        const tp_dtype dtype = (tp_dtype)(TP_F32 + i % (TP_DTYPE_COUNT - TP_F32));
        if (CHECK(t != NULL) && CHECK_OK(tp_tensor_resize(t, dtype, tp_make_shape_n(i % 4, dim)))) fill(t);
    }
    CHECK_OK(tp_tf_checkpoint_save(path, &d));
    CHECK_OK(tp_file_read(tp_test_path(dir, "whole.index"), false, 0, &index_bytes, &index_size));
    CHECK_OK(tp_file_read(tp_test_path(dir, "whole.data-00000-of-00001"), false, 0, &shard_bytes, &shard_size));
    tp_dict_free(&d);
    size_t at = index_size - 48;
    block_at[1] = (size_t)read_varint(index_bytes, &at);
    read_varint(index_bytes, &at);
    block_at[2] = (size_t)read_varint(index_bytes, &at);
    block_at[3] = index_size - 48;
}
static void mend_block(char *p, int block)
{
    const size_t n = block_at[block + 1] - block_at[block] - 4;
    const uint32_t sum = tp_crc32c(0, p + block_at[block], n), masked = (sum >> 15 | sum << 17) + 0xa282ead8u;
    for (int i = 0; i < 4; i++) p[block_at[block] + n + (size_t)i] = (char)(masked >> (8 * i));
}
static void see_log(void *user, tp_log_level level, const char *message)
{
    (void)user;
    see("level", (int64_t)level);
    see_text(message);
}
static void one_index(void)
{
    const char *prefix = tp_test_path(dir, "changed");
    tp_dict d = {NULL, 0, 0};
    char *copy = (char *)tp_malloc(index_size + 1);
    if (!CHECK(copy != NULL)) return;
    memcpy(copy, index_bytes, index_size);
    const int block = draw(10);
    if (block < 7) change(copy, block_at[0], block_at[1]);
    else if (block == 7) change(copy, block_at[2], block_at[3]);
    else if (block == 8) change(copy, block_at[3], index_size);
    else change(copy, 0, index_size);
    for (int i = 0; i < 3 && chance(98); i++) mend_block(copy, i);
    const size_t size = chance(5) ? (size_t)draw((int)index_size) : index_size;
    const char *path = tp_test_path(dir, "changed.index");
    remove(path);
    CHECK(tp_test_write(path, copy, size));
    if (see_status("index", tp_tf_checkpoint_load(prefix, &d)) == TP_OK) see_dict(&d);
    tp_dict_free(&d);
    tp_free(copy);
}
TEST(indices_of_tensorflow_are_read_and_refused_as_before)
{
    snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
    make_index();
    CHECK(tp_test_write(tp_test_path(dir, "changed.data-00000-of-00001"), shard_bytes, shard_size));
    tp_set_log(see_log, NULL);
    run_section("index", 1600, 8, one_index);
    tp_set_log(NULL, NULL);
    tp_free(index_bytes);
    tp_free(shard_bytes);
}

TEST_MAIN()
