/* test_golden_files.c - files with a byte changed, cut and lengthened, compressed data and numbers as text: what was made of them before
 *
 *     TP_TEST_WRITE=1 build/test/gcc-c11-test_golden_files    writes digests_files.txt anew, after a change that was meant
 *
 * A case is a function of its number: the same with every compiler. */
#define TP_IMPLEMENTATION
#include "tp_tensor.h"
#include "tp_test.h"

#include "golden.h"

static uint64_t dice_seed, dice_drawn;
static int dice(int n) { return (int)(tp_random_u32(dice_seed, 7, dice_drawn++) % (uint32_t)n); }
static void dice_begin(int section, int i)
{
    dice_seed = tp_test_mix((uint64_t)(section * 100000 + i)), dice_drawn = 0;
}

static char dir[300], path[400];
static const char *at(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}
static uint64_t with(uint64_t h, uint64_t v) { return tp_test_mix(h ^ v); }
static uint64_t with_bytes(uint64_t h, const void *p, size_t n) { return with(with(h, n), n ? tp_hash(p, n) : 3); }
static uint64_t with_tensor(uint64_t h, const tp_tensor *t)
{
    char shape[TP_SHAPE_TEXT];
    h = golden_hash(with(h, (uint64_t)t->dtype), tp_shape_text(&t->shape, shape));
    return with_bytes(h, t->data, t->data ? tp_tensor_bytes(t) : 0);
}
static uint64_t with_dict(uint64_t h, const tp_dict *d)
{
    h = with(h, (uint64_t)d->n);
    for (int i = 0; i < d->n; i++) h = with_tensor(golden_hash(h, d->item[i].name), &d->item[i].value);
    return h;
}
/* A status, with its sentence. */
static uint64_t with_status(uint64_t h, tp_status st)
{
    return golden_hash_without(with(h, (uint64_t)st), st == TP_OK ? "" : tp_last_error(), dir);
}

/* -- tensors in files ---------------------------------------------------------------------------------- */

static void draw_tensor(tp_tensor *t)
{
    static const tp_dtype dtypes[] = {TP_F32, TP_F64, TP_F16, TP_BF16, TP_I32, TP_I64, TP_U8, TP_BOOL};
    int64_t dim[4];
    const int ndim = dice(4);
    for (int i = 0; i < ndim; i++) dim[i] = dice(9) ? 1 + dice(4) : 0;
    CHECK_OK(tp_tensor_resize(t, dtypes[dice(TP_COUNT(dtypes))], tp_make_shape_n(ndim, dim)));
    for (int64_t i = 0; i < tp_tensor_size(t); i++) tp_tensor_set(t, i, dice(3) ? dice(2) : dice(100) - 50);
}
static void draw_dict(tp_dict *d, int section, int i)
{
    static const char *const names[] = {
        "a", "conv0/W", "x\"y", "tab\there", "\xc3\xa9", "long/name/of/a/variable/in/a/tower", "b:0", "back\\slash"};
    memset(d, 0, sizeof *d);
    dice_begin(section, i);
    for (int n = dice(5); n >= 0; n--) {
        const char *name = names[dice(TP_COUNT(names))];
        if (!tp_dict_find(d, name)) draw_tensor(tp_dict_add(d, name));
    }
}

typedef struct format {
    const char *name, *file;
    tp_status (*save)(const char *file, const tp_dict *d);
    tp_status (*load)(const char *file, tp_dict *d);
} format;
static tp_status save_npy(const char *file, const tp_dict *d) { return tp_npy_save(file, &d->item[0].value); }
static tp_status load_npy(const char *file, tp_dict *d)
{
    tp_tensor *t = tp_dict_add(d, "only");
    return t ? tp_npy_load(file, t) : TP_ERR_NOMEM;
}
static tp_status save_npz(const char *file, const tp_dict *d) { return tp_npz_save(file, d, false); }
static tp_status save_packed(const char *file, const tp_dict *d) { return tp_npz_save(file, d, true); }
static tp_status save_bundle(const char *file, const tp_dict *d)
{
    char prefix[400];
    snprintf(prefix, sizeof prefix, "%.*s", (int)(strlen(file) - strlen(".index")), file);
    return tp_tf_checkpoint_save(prefix, d);
}
static tp_status load_bundle(const char *file, tp_dict *d)
{
    char prefix[400];
    snprintf(prefix, sizeof prefix, "%.*s", (int)(strlen(file) - strlen(".index")), file);
    return tp_tf_checkpoint_load(prefix, d);
}
static const format formats[] = {{"npy", "t.npy", save_npy, load_npy},
                                 {"npz", "t.npz", save_npz, tp_npz_load},
                                 {"packed npz", "p.npz", save_packed, tp_npz_load},
                                 {"safetensors", "t.safetensors", tp_safetensors_save, tp_safetensors_load},
                                 {"bundle", "t.index", save_bundle, load_bundle}};

static void write_bytes(const char *file, const char *p, size_t n)
{
    FILE *f = fopen(file, "wb");
    if (CHECK(f != NULL)) {
        CHECK(n == 0 || fwrite(p, 1, n, f) == n);
        CHECK(fclose(f) == 0);
    }
}

/* Changes the file: a byte, its end, or some bytes that are put in. */
static size_t damage(char *p, size_t n)
{
    static const unsigned char odd[] = {0, 1, 2, 4, 7, 8, 127, 128, 254, 255, '"', '\\', '}', ','};
    const size_t place = n ? (size_t)dice((int)n) : 0;
    switch (dice(8)) {
    case 0: return place;
    case 1: return memset(p + n, dice(3) ? 0 : ' ', 9), n + 1 + (size_t)dice(8);
    case 2: memmove(p + place + 1, p + place, n - place); return n + 1;
    case 3: memmove(p + place, p + place + 1, n - place - (n > place)); return n - (n > 0);
    case 4: p[place] = (char)(p[place] + 1); return n;
    case 5: p[place] = (char)(p[place] - 1); return n;
    case 6: p[place] = (char)(p[place] ^ (1 << dice(8))); return n;
    default: p[place] = (char)odd[dice(TP_COUNT(odd))]; return n;
    }
}

/* Each file is read as it was written, and seven times with a damage. */
static void see_format(const format *f, int section, int files)
{
    static char copy[1 << 16];
    char file[400];
    snprintf(file, sizeof file, "%s", at(f->file));
    for (int i = 0; i < 8 * files; i += 8) {
        tp_dict d, back;
        char *p = NULL;
        size_t n = 0;
        draw_dict(&d, section, i);
        tp_status st = f->save(file, &d);
        tp_dict_free(&d);
        golden_digest(with_status(1, st));
        if (st != TP_OK || !CHECK_OK(tp_file_read(file, false, 0, &p, &n)) || !CHECK(n + 64 < sizeof copy)) continue;
        golden_digest(with_bytes(1, p, n));
        for (int k = 0; k < 8; k++) {
            memcpy(copy, p, n);
            dice_begin(section + 1, i + k);
            if (k > 0) write_bytes(file, copy, damage(copy, n));
            memset(&back, 0, sizeof back);
            st = f->load(file, &back);
            const uint64_t h = with_status(1, st);
            golden_digest(st == TP_OK ? with_dict(h, &back) : h);
            tp_dict_free(&back);
        }
        tp_free(p);
    }
    golden_compare("digests_files.txt", f->name);
}
TEST(files_of_tensors_are_read_as_they_were)
{
    snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
    for (int k = 0; k < TP_COUNT(formats); k++) see_format(&formats[k], 10 * k, 80);
}

/* -- compression --------------------------------------------------------------------------------------- */

static size_t draw_data(char *p, size_t most)
{
    const size_t n = dice(4) ? (size_t)dice(600) : (size_t)dice((int)most);
    const int kind = dice(5), letters = 1 + dice(20);
    for (size_t i = 0; i < n; i++) {
        const size_t back = 1 + (size_t)dice(dice(2) ? 300 : 40000);
        if (kind == 0) p[i] = (char)dice(256);
        else if (kind == 1) p[i] = (char)('a' + dice(letters));
        else if (kind == 2) p[i] = (char)(i % (size_t)letters);
        else if (kind == 3) p[i] = 0;
        else p[i] = (char)dice(256);
        for (int left = kind == 4 ? dice(300) : 0; left > 0 && i + 1 < n && back <= i; left--, i++)
            p[i + 1] = p[i + 1 - back];
    }
    return n;
}
TEST(compressed_data_is_what_it_was)
{
    enum { MOST = 90000 };
    static char data[MOST], copy[2 * MOST];
    tp_buf out;
    memset(&out, 0, sizeof out);
    for (int i = 0; i < 160; i++) {
        dice_begin(100, i);
        const size_t n = draw_data(data, MOST);
        out.len = 0;
        uint64_t h = with_status(2, tp_deflate(data, n, &out));
        h = with_bytes(h, out.data, out.len);
        for (int k = 0; k < 6 && out.len < sizeof copy - 64; k++) {
            char *back = NULL;
            size_t size = 0, used = 0;
            memcpy(copy, out.data, out.len);
            const size_t length = k ? damage(copy, out.len) : out.len;
            const tp_status st = tp_inflate_alloc(copy, length, k % 2 ? n : 2 * n + 9, &back, &size, &used);
            h = with_status(with(h, used), st);
            if (st == TP_OK) h = with_bytes(h, back, size);
            if (k == 0) CHECK(st == TP_OK && size == n && (n == 0 || memcmp(back, data, n) == 0));
            tp_free(back);
        }
        golden_digest(h);
    }
    tp_buf_free(&out);
    golden_compare("digests_files.txt", "deflate");
}

/* -- numbers ------------------------------------------------------------------------------------------- */

TEST(numbers_are_written_and_read_as_they_were)
{
    char text[TP_NUMBER_TEXT], line[400];
    static const char *const odd[] = {"",
                                      "+",
                                      "-",
                                      ".",
                                      "e",
                                      "1e",
                                      "1e+",
                                      "0x",
                                      "0x1p",
                                      "inf",
                                      "-nan",
                                      "1_0",
                                      " 2",
                                      "3 ",
                                      "1e400",
                                      "1e-400",
                                      "4.9e-324",
                                      "2.4703282292062327e-324",
                                      "1.7976931348623159e308",
                                      "9007199254740993",
                                      "0.1e1e1"};
    for (int i = 0; i < 3000; i++) {
        dice_begin(200, i);
        uint64_t bits = tp_test_mix(dice_seed);
        if (i % 3 == 0) bits &= (uint64_t)0xffff << 48;
        double v;
        memcpy(&v, &bits, sizeof v);
        if (i % 3 == 1) {
            const int digits = dice(2000000) - 1000000;
            v = (double)digits / pow(10, dice(8));
        }
        float narrow = (float)(i % 2 ? v : v * 1e-300);
        uint64_t h = with(5, (uint64_t)tp_format_double(text, v));
        h = golden_hash(h, text);
        h = golden_hash(with(h, (uint64_t)tp_format_float(text, narrow)), text);
        const char *end = NULL;
        const char *more = dice(4) ? "" : odd[dice(TP_COUNT(odd))];
        snprintf(line, sizeof line, "%s%s%s", text, more, dice(3) ? "" : "x");
        v = tp_parse_double(i % 10 == 9 ? odd[i / 10 % TP_COUNT(odd)] : line, &end);
        memcpy(&bits, &v, sizeof bits);
        h = golden_hash(v != v ? with(h, 77) : with(h, bits), end);
        golden_digest(h);
    }
    golden_compare("digests_files.txt", "numbers");
}

TEST_MAIN()
