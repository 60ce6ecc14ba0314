/* What TensorBoard is shown: histograms and images in event files, read back by a reader of our own (records, protobuf, PNG),
 * and images by Python where there is one. */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_test.h"

/* -- protobuf: the fields of a message, one after another */

typedef struct field {
    unsigned number, wire;
    uint64_t v; /* wire 0, and the bits of 1 and 5 */
    const unsigned char *p;
    size_t n; /* wire 2 */
} field;

static uint64_t varint(const unsigned char **p, const unsigned char *end)
{
    uint64_t v = 0;
    for (int shift = 0; *p < end && shift < 64; shift += 7) {
        v |= (uint64_t)(**p & 127) << shift;
        if (*(*p)++ < 128) break;
    }
    return v;
}
static bool next_field(const unsigned char **p, const unsigned char *end, field *f)
{
    if (*p >= end) return false;
    const uint64_t key = varint(p, end);
    memset(f, 0, sizeof *f);
    f->number = (unsigned)(key >> 3), f->wire = (unsigned)(key & 7);
    if (f->wire == 0) f->v = varint(p, end);
    else if (f->wire == 2) {
        f->n = (size_t)varint(p, end);
        f->p = *p;
        if (!CHECK(f->n <= (size_t)(end - *p))) return false;
        *p += f->n;
    } else {
        const int bytes = f->wire == 1 ? 8 : 4;
        if (!CHECK(f->wire == 1 || f->wire == 5) || !CHECK(end - *p >= bytes)) return false;
        for (int i = bytes; i-- > 0;) f->v = f->v << 8 | (*p)[i];
        *p += bytes;
    }
    return true;
}
static double bits_double(uint64_t v)
{
    double d;
    memcpy(&d, &v, sizeof d);
    return d;
}
static bool find_field(const unsigned char *p, size_t n, unsigned number, field *f)
{
    const unsigned char *end = p + n;
    while (next_field(&p, end, f))
        if (f->number == number) return true;
    memset(f, 0, sizeof *f);
    return false;
}

/* -- the values of all summaries in the folder's event file */

typedef struct shown {
    char tag[64];
    int64_t step;
    field image, histogram;
} shown;
static shown seen[32];
static int n_seen;
static char *events;

static void one_value(const field *value, int64_t step)
{
    field tag;
    if (!CHECK(n_seen < TP_COUNT(seen))) return;
    shown *s = &seen[n_seen++];
    memset(s, 0, sizeof *s);
    CHECK(find_field(value->p, value->n, 1, &tag));
    snprintf(s->tag, sizeof s->tag, "%.*s", (int)tag.n, (const char *)tag.p);
    s->step = step;
    find_field(value->p, value->n, 4, &s->image);
    find_field(value->p, value->n, 5, &s->histogram);
}

static void read_events(const char *dir)
{
    size_t size = 0;
    n_seen = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (strstr(e->d_name, "tfevents"))
            CHECK_OK(tp_file_read(tp_test_path(dir, e->d_name), false, 0, &events, &size));
    if (d) closedir(d);
    const unsigned char *p = (const unsigned char *)events, *end = p + size;
    while (p && p + 16 <= end) {
        size_t n = 0;
        field step, summary, value;
        for (int i = 7; i >= 0; i--) n = n << 8 | p[i];
        if (!CHECK(n <= (size_t)(end - p) - 16)) break;
        find_field(p + 12, n, 2, &step);
        if (find_field(p + 12, n, 5, &summary)) {
            const unsigned char *q = summary.p;
            while (next_field(&q, summary.p + summary.n, &value)) one_value(&value, (int64_t)step.v);
        }
        p += 16 + n;
    }
}

static const shown *find_shown(const char *tag)
{
    for (int i = 0; i < n_seen; i++)
        if (strcmp(seen[i].tag, tag) == 0) return &seen[i];
    CHECK_MSG(false, "nothing is shown under %s", tag);
    return NULL;
}

/* -- PNG, as these are: no interlacing, rows without filter; the pixels, tp_free them */

static uint32_t big(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
static unsigned char *read_png(const field *f, int *h, int *w, int *c)
{
    static const unsigned char signature[8] = {0x89, 'P', 'N', 'G', 13, 10, 26, 10};
    unsigned char *pixels = NULL;
    char *raw = NULL;
    size_t n = 0, used = 0;
    if (!CHECK(f->n > 57 && memcmp(f->p, signature, 8) == 0)) return NULL;
    bool ended = false;
    for (const unsigned char *p = f->p + 8; p < f->p + f->n;) {
        const uint32_t size = big(p);
        if (!CHECK((size_t)(f->p + f->n - p) >= 12 + (size_t)size)) break;
        CHECK(big(p + 8 + size) == tp_crc32(0, p + 4, 4 + size));
        if (memcmp(p + 4, "IHDR", 4) == 0) {
            *w = (int)big(p + 8), *h = (int)big(p + 12);
            *c = p[17] == 6 ? 4 : p[17] == 2 ? 3 : 1;
            CHECK(size == 13 && p[16] == 8 && (p[17] == 0 || p[17] == 2 || p[17] == 6));
            CHECK(p[18] == 0 && p[19] == 0 && p[20] == 0);
        } else if (memcmp(p + 4, "IDAT", 4) == 0 && CHECK(raw == NULL)) {
            CHECK((p[8] << 8 | p[9]) % 31 == 0 && (p[8] & 15) == 8);
            CHECK_OK(tp_inflate_alloc(p + 10, size - 2, 1 << 24, &raw, &n, &used));
            uint32_t a = 1, b = 0;
            for (size_t i = 0; i < n; i++) a = (a + (unsigned char)raw[i]) % 65521, b = (b + a) % 65521;
            CHECK(used == size - 6 && big(p + 10 + used) == (b << 16 | a));
        } else {
            ended = memcmp(p + 4, "IEND", 4) == 0;
            CHECK(ended && size == 0);
        }
        p += 12 + size;
    }
    const size_t row = (size_t)(*w * *c);
    if (CHECK(ended && raw && n == (row + 1) * (size_t)*h)) {
        pixels = (unsigned char *)tp_malloc(row * (size_t)*h);
        for (int y = 0; pixels && y < *h; y++) {
            CHECK(raw[(size_t)y * (row + 1)] == 0);
            memcpy(pixels + (size_t)y * row, raw + (size_t)y * (row + 1) + 1, row);
        }
    }
    tp_free(raw);
    return pixels;
}

/* -- what is reported at the end of an epoch */

enum { H = 5, W = 300 };
static tp_tensor picture[4]; /* (2,H,W,3), (H,W,4), (H,W), numbers for a histogram */
static const double numbers[] = {-2.5, -2.5, 0, 0, 0, 1e-13, 1, 1, 1.05, 3e19, -1e30, 7};

static tp_status report(tp_callback *cb)
{
    const tp_summary_value v = {"tower0/weights-summary", TP_SUMMARY_HISTOGRAM, 0, false, &picture[3]};
    const tp_summary s = {&v, 1};
    tp_status st = tp_monitors_put_image(cb->train->monitors, "rgb", &picture[0]);
    if (st == TP_OK) st = tp_monitors_put_image(cb->train->monitors, "rgba", &picture[1]);
    if (st == TP_OK) st = tp_monitors_put_image(cb->train->monitors, "grey", &picture[2]);
    return st == TP_OK ? tp_monitors_put_summary(cb->train->monitors, &s) : st;
}

static double pixel(int which, int64_t i) { return (double)((i * 37 + which * 11) % 300) - 20; } /* -20 .. 279 */

static const char *train(void)
{
    static const int64_t dim[4][4] = {{2, H, W, 3}, {H, W, 4}, {H, W}, {TP_COUNT(numbers) + 3}};
    static const int ndim[4] = {4, 3, 2, 1};
    const char *dir = tp_test_tmpdir();
    for (int k = 0; k < 4; k++) {
        CHECK_OK(tp_tensor_resize(&picture[k], k == 3 ? TP_F64 : TP_F32, tp_make_shape_n(ndim[k], dim[k])));
        for (int64_t i = 0; i < tp_tensor_size(&picture[k]); i++)
            tp_tensor_set(&picture[k], i,
                          k < 3                   ? pixel(k, i)
                          : i < TP_COUNT(numbers) ? numbers[i]
                          : i % 2                 ? NAN
                                                  : INFINITY);
    }
    tp_monitor_tf_event_writer_desc d;
    memset(&d, 0, sizeof d);
    d.logdir = dir;
    tp_monitor *m = tp_monitor_tf_event_writer_(&d);
    tp_callback *cb = tp_callback_new("Report", 0);
    cb->trigger = report;
    tp_train_desc t;
    memset(&t, 0, sizeof t);
    t.callbacks = &cb, t.n_callbacks = 1, t.monitors = &m, t.n_monitors = 1;
    t.steps_per_epoch = 2, t.max_epoch = 1;
    tp_trainer *trainer = tp_noop_trainer();
    CHECK_OK(tp_train(trainer, &t));
    tp_trainer_free(trainer);
    for (int k = 0; k < 4; k++) tp_tensor_free(&picture[k]);
    return dir;
}

static void same_pixels(const shown *s, int which, int64_t first, int channels)
{
    int h = 0, w = 0, c = 0;
    field f;
    if (!s || !CHECK(s->image.p != NULL) || !CHECK(find_field(s->image.p, s->image.n, 4, &f))) return;
    unsigned char *p = read_png(&f, &h, &w, &c);
    CHECK(h == H && w == W && c == channels && s->step == 2);
    CHECK(find_field(s->image.p, s->image.n, 1, &f) && f.v == H);
    CHECK(find_field(s->image.p, s->image.n, 2, &f) && f.v == W);
    CHECK(find_field(s->image.p, s->image.n, 3, &f) && f.v == (uint64_t)channels);
    for (int64_t i = 0; p && i < (int64_t)H * W * channels; i++) {
        const double v = pixel(which, first + i);
        if (!CHECK_MSG(p[i] == (v < 0     ? 0
                                : v > 255 ? 255
                                          : (int)v),
                       "%s: byte %d is %d, not %g", s->tag, (int)i, p[i], v))
            break;
    }
    tp_free(p);
}

TEST(images_are_pictures)
{
    const char *dir = train();
    read_events(dir);
    CHECK_MSG(n_seen == 5, "%d values: each is written once", n_seen); /* four pictures and a histogram */
    same_pixels(find_shown("rgb/0"), 0, 0, 3);
    same_pixels(find_shown("rgb/1"), 0, (int64_t)H * W * 3, 3);
    same_pixels(find_shown("rgba"), 1, 0, 4);
    same_pixels(find_shown("grey"), 2, 0, 1);
    const char *python = getenv("TP_TEST_PYTHON");
    const shown *s = find_shown("rgb/1");
    field f;
    if (python && s && find_field(s->image.p, s->image.n, 4, &f)) { /* and somebody else's eyes */
        char command[4000];
        const char *png = tp_test_path(dir, "rgb.png");
        tp_test_write(png, f.p, f.n);
        snprintf(command, sizeof command,
                 "'%s' -c 'import sys, zlib, struct\n"
                 "d = open(sys.argv[1], \"rb\").read()\n"
                 "n = struct.unpack(\">I\", d[33:37])[0]\n"
                 "assert d[37:41] == b\"IDAT\" and len(zlib.decompress(d[41:41 + n])) == %d\n"
                 "assert struct.unpack(\">I\", d[41 + n:45 + n])[0] == zlib.crc32(d[37:41 + n])' '%s'",
                 python, H * (W * 3 + 1), png);
        CHECK(system(command) == 0);
    }
    tp_free(events);
    events = NULL;
}

TEST(histograms_count)
{
    double limit[64], count[64], low = numbers[0], high = low, sum = 0, squares = 0, all = 0;
    int n[2] = {0, 0};
    field f;
    read_events(train());
    const shown *s = find_shown("weights"); /* without its tower and "-summary" */
    if (!s || !CHECK(s->histogram.p != NULL)) return;
    const unsigned char *p = s->histogram.p, *h = p;
    for (int i = 0; i < TP_COUNT(numbers); i++) {
        low = numbers[i] < low ? numbers[i] : low;
        high = numbers[i] > high ? numbers[i] : high;
        sum += numbers[i], squares += numbers[i] * numbers[i];
    }
    CHECK(find_field(h, s->histogram.n, 1, &f) && bits_double(f.v) == low);
    CHECK(find_field(h, s->histogram.n, 2, &f) && bits_double(f.v) == high);
    CHECK(find_field(h, s->histogram.n, 3, &f) &&
          bits_double(f.v) == TP_COUNT(numbers)); /* what is not finite is left out */
    CHECK(find_field(h, s->histogram.n, 4, &f) && bits_double(f.v) == sum);
    CHECK(find_field(h, s->histogram.n, 5, &f) && bits_double(f.v) == squares);
    while (next_field(&p, h + s->histogram.n, &f))
        if (f.number >= 6 && CHECK(f.number <= 7 && f.n % 8 == 0 && f.n / 8 <= 64))
            for (size_t i = 0; i < f.n; i += 8) {
                uint64_t v = 0;
                for (int k = 7; k >= 0; k--) v = v << 8 | f.p[i + (size_t)k];
                (f.number == 6 ? limit : count)[n[f.number - 6]++] = bits_double(v);
            }
    CHECK(n[0] == n[1] && n[0] >= 8);
    for (int b = 0; b < n[0]; b++) { /* a bucket holds what lies from the limit before to below its own */
        const double from = b ? limit[b - 1] : -INFINITY;
        double want = 0;
        CHECK(limit[b] > from);
        for (int i = 0; i < TP_COUNT(numbers); i++) want += numbers[i] >= from && numbers[i] < limit[b];
        CHECK_MSG(count[b] == want, "bucket %d, from %g to %g: %g, not %g", b, from, limit[b], count[b], want);
        /* one with something in it is a tenth wide */
        if (want > 0 && from > 1e-12 && limit[b] < 1e20) CHECK_NEAR(limit[b] / from, 1.1, 1e-9, 0);
        all += count[b];
    }
    CHECK(all == TP_COUNT(numbers));
    tp_free(events);
    events = NULL;
}

/* Whatever allocation fails: no histogram that lacks something is written. */
TEST(a_histogram_runs_out_of_memory_anywhere)
{
    const char *dir = tp_test_tmpdir();
    double x[40];
    tp_tensor t;
    tp_train_state train;
    tp_monitor_tf_event_writer_desc d;
    long failures = 0;
    memset(&t, 0, sizeof t), memset(&train, 0, sizeof train), memset(&d, 0, sizeof d);
    for (int i = 0; i < TP_COUNT(x); i++) x[i] = pow(2, i); /* far enough from each other for a bucket each */
    const int64_t n_x = TP_COUNT(x);
    tp_tensor_view(&t, TP_F64, tp_make_shape_n(1, &n_x), x);
    const tp_summary_value v = {"weights", TP_SUMMARY_HISTOGRAM, 0, false, &t};
    const tp_summary s = {&v, 1};
    d.logdir = dir;
    for (long n = 1, failed = 1; failed; n++) {
        tp_test_fail_after(n);
        tp_monitor *m = tp_monitor_tf_event_writer_(&d);
        tp_status st = m ? tp_callback_setup_graph(&m->cb, &train) : TP_ERR_NOMEM;
        if (st == TP_OK) st = m->process_summary(m, &s);
        failed = tp_test_alloc_failed();
        failures += failed;
        CHECK_MSG(failed ? st == TP_ERR_NOMEM : st == TP_OK, "allocation %ld: %s, %s", n, tp_status_name(st),
                  tp_last_error());
        if (m) tp_monitor_free(m);
        if (!CHECK_MSG(tp_test_live_blocks() == 0, "allocation %ld leaks", n)) break;
    }
    CHECK(failures > 8);
    tp_test_alloc_reset();
}

/* Pictures of wrong shapes are refused by a sentence. */
static tp_shape wrong;
static tp_status report_wrong(tp_callback *cb)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    CHECK_OK(tp_tensor_resize(&t, TP_F32, wrong));
    const tp_status st = tp_monitors_put_image(cb->train->monitors, "wrong", &t);
    tp_tensor_free(&t);
    return st;
}
TEST(what_is_no_picture)
{
    static const int64_t dim[2][4] = {{7}, {2, 3, 4, 2}};
    static const char *const why[2] = {"(7)", "2 channels"};
    for (int i = 0; i < 2; i++) {
        TEST_EXPECT_ERROR(why[i]);
        wrong = tp_make_shape_n(i ? 4 : 1, dim[i]);
        tp_callback *cb = tp_callback_new("Report", 0);
        cb->trigger = report_wrong;
        tp_train_desc t;
        memset(&t, 0, sizeof t);
        t.callbacks = &cb, t.n_callbacks = 1, t.steps_per_epoch = 1, t.max_epoch = 1;
        tp_trainer *trainer = tp_noop_trainer();
        CHECK_ERR(tp_train(trainer, &t), TP_ERR_SHAPE, why[i]);
        tp_trainer_free(trainer);
    }
}

TEST_MAIN()
