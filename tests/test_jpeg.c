/* JPEG files decoded by libjpeg-turbo (TP_JPEG): the pixels of Pillow and, within the tolerance of the format, those of stb_image;
 * damaged files and large ones. */
/* needs: jerror.h -DTP_JPEG -ljpeg */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

static bool disk_broken; /* then no file can be read */
static ssize_t read_or_fail(int fd, void *data, size_t n)
{
    if (disk_broken) errno = EIO;
    return disk_broken ? -1 : read(fd, data, n);
}
#define TP_OS_READ read_or_fail

#define TP__PNG_CHUNK 50 /* a PNG has several of them */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_input.h"
#include "tp_test.h"

#ifndef TP_JPEG
TEST(jpeg) { TEST_SKIP("jpeglib.h or its library was not found (Debian: libjpeg62-turbo-dev)"); }
#else
#include "ref_readers.h"

/* An image of w x h, encoded by libjpeg; free it with free(). */
typedef struct picture {
    int w, h, components; /* 1 grey, 3 RGB, 4 CMYK */
    bool ycck, progressive, adobe;
    int across, down; /* subsampling of colour */
    int restart;      /* rows of blocks between restart markers */
    bool noise;
} picture;

static unsigned char *encode(const picture *p, unsigned long *size)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr error;
    unsigned char *data = NULL, *row = (unsigned char *)malloc((size_t)p->w * 4 + 1);
    *size = 0;
    if (!row) return NULL;
    c.err = jpeg_std_error(&error);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &data, size);
    c.image_width = (JDIMENSION)p->w, c.image_height = (JDIMENSION)p->h;
    c.input_components = p->components;
    c.in_color_space = p->components == 1 ? JCS_GRAYSCALE : p->components == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&c);
    if (p->ycck) jpeg_set_colorspace(&c, JCS_YCCK);
    if (p->across) c.comp_info[0].h_samp_factor = p->across, c.comp_info[0].v_samp_factor = p->down;
    jpeg_set_quality(&c, 90, TRUE);
    if (p->progressive) jpeg_simple_progression(&c);
    c.restart_in_rows = p->restart;
    if (p->components == 4) c.write_Adobe_marker = p->adobe;
    jpeg_start_compress(&c, TRUE);
    for (int y = 0; y < p->h; y++) {
        for (int i = 0; i < p->w * p->components; i++) {
            const double x = i / p->components, k = i % p->components + 1;
            row[i] = p->noise ? (unsigned char)tp_random_u32(7, (uint64_t)y, (uint64_t)i)
                              : (unsigned char)(128 + 60 * sin(x * k / 5 + y / 7.0) + 60 * cos(y * k / 9.0));
        }
        JSAMPROW one = row;
        jpeg_write_scanlines(&c, &one, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    free(row);
    return data;
}

/* The same bytes as Pillow, which uses libjpeg-turbo too: the references were made by it. */
static void same_as_pillow(const void *data, size_t size, int channels, const unsigned char *want, int line)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    if (CHECK_OK(tp_image_decode(data, size, channels, &t)))
        CHECK_MSG(tp_tensor_bytes(&t) == 17 * 23 * (size_t)channels && memcmp(t.data, want, tp_tensor_bytes(&t)) == 0,
                  "line %d", line);
    tp_tensor_free(&t);
}

TEST(the_bytes_of_pillow)
{
    same_as_pillow(ref_jpeg444, sizeof ref_jpeg444, 3, ref_jpeg444_rgb, __LINE__);
    same_as_pillow(ref_jpeg420, sizeof ref_jpeg420, 3, ref_jpeg420_rgb, __LINE__);
    same_as_pillow(ref_jpeg_progressive, sizeof ref_jpeg_progressive, 3, ref_jpeg_progressive_rgb, __LINE__);
    same_as_pillow(ref_jpeg_grey, sizeof ref_jpeg_grey, 3, ref_jpeg_grey_rgb, __LINE__);
    same_as_pillow(ref_jpeg_grey, sizeof ref_jpeg_grey, 1, ref_jpeg_grey_l, __LINE__);
}

#ifdef TP__STB
/* A decoder's inverse transform may be off by 1 (IEEE 1180), so two differ by 2 in luma and in colour; colour between pixels is
 * rounded once more, and blue is Y + 1.772 Cb, rounded: 2 + 1.772 * 3 + 1 = 8.3. Not compared: the last two columns of 4:2:2, in which
 * stb_image gives the last sample the weight of the one before; less than 5 columns, where libjpeg repeats colours. */
TEST(the_pixels_of_stb_image)
{
    static const picture list[] = {
        {1, 1, 3, false, false, false, 2, 2, 0, false},
        {7, 5, 1, false, false, false, 0, 0, 0, false},
        {64, 48, 3, false, false, false, 1, 1, 0, false},
        {61, 47, 3, false, false, false, 2, 2, 0, false},
        {61, 47, 3, false, false, false, 2, 1, 1, false},
        {61, 47, 3, false, true, false, 2, 2, 0, false},
        {40, 33, 1, false, true, false, 0, 0, 2, false},
        {64, 48, 3, false, false, false, 1, 1, 0, true},
        {40, 33, 4, false, false, true, 0, 0, 0, false},
        {40, 33, 4, true, false, true, 1, 1, 0, false},
        {200, 3, 3, false, false, false, 2, 2, 0, false},
        {5, 200, 3, false, false, false, 2, 2, 0, false},
        /* rows of 1023 and 1026 bytes: the last that count as short, and the first that do not */
        {341, 9, 3, false, false, false, 2, 2, 0, false},
        {342, 9, 3, false, false, false, 2, 2, 0, false}};
    for (int i = 0; i < TP_COUNT(list); i++)
        for (int channels = 1; channels <= 3; channels += 2) {
            unsigned long size;
            unsigned char *data = encode(&list[i], &size);
            tp_tensor a, b;
            tp__stb s;
            memset(&a, 0, sizeof a), memset(&b, 0, sizeof b), memset(&s, 0, sizeof s);
            const tp__image_header look = tp__look_at_image(data, size);
            const bool good = CHECK_OK(tp_image_decode(data, size, channels, &a)) &&
                              CHECK_OK(tp__image_unpack(&s, data, size, &look, "x", channels, &b)) &&
                              CHECK(tp_shape_equal(&a.shape, &b.shape));
            int worst = 0;
            double sum = 0;
            const int64_t n = good ? tp_tensor_size(&a) : 0;
            for (int64_t k = 0; k < n; k++) {
                if (list[i].across > list[i].down && k / channels % list[i].w >= list[i].w - 2) continue;
                const int off = abs(((uint8_t *)a.data)[k] - ((uint8_t *)b.data)[k]);
                worst = off > worst ? off : worst;
                sum += off;
            }
            CHECK_MSG(worst <= 8 && sum <= 0.7 * (double)n, "picture %d, %d channels: off by %d, %g on average", i,
                      channels, worst, sum / (double)n);
            tp_tensor_free(&a), tp_tensor_free(&b);
            tp__stb_free_all(&s);
            free(data);
        }
}
#endif

/* A PNG whose pixels take more than a chunk. */
#ifdef TP__STB
TEST(pixels_in_several_chunks)
{
    tp_tensor t, back;
    char path[400];
    memset(&t, 0, sizeof t), memset(&back, 0, sizeof back);
    snprintf(path, sizeof path, "%s/x.png", tp_test_tmpdir());
    CHECK_OK(tp_tensor_resize(&t, TP_U8, tp_make_shape(20, 17, 3)));
    for (int i = 0; i < 20 * 17 * 3; i++) ((uint8_t *)t.data)[i] = (uint8_t)tp_random_u32(3, 0, (uint64_t)i);
    CHECK_OK(tp_save_png(path, &t));
    char *file = NULL;
    size_t size = 0;
    int chunks = 0;
    CHECK_OK(tp_file_read(path, false, 0, &file, &size));
    for (size_t i = 0; i + 4 < size; i++) chunks += memcmp(file + i, "IDAT", 4) == 0;
    CHECK_MSG(chunks > 20, "%d", chunks);
    if (CHECK_OK(tp_image_decode(file, size, 3, &back)))
        CHECK(tp_shape_equal(&t.shape, &back.shape) && memcmp(t.data, back.data, 20 * 17 * 3) == 0);
    tp_free(file);
    tp_tensor_free(&t), tp_tensor_free(&back);
}
#endif

/* Adobe's CMYK is stored inverted, other programs' is not: of the same numbers, one is the other's negative. */
TEST(cmyk_with_and_without_adobe)
{
    picture p = {16, 16, 4, false, false, true, 0, 0, 0, false};
    unsigned long size[2];
    unsigned char *data[2];
    tp_tensor t[2];
    memset(t, 0, sizeof t);
    for (int i = 0; i < 2; i++) {
        p.adobe = i == 0;
        data[i] = encode(&p, &size[i]);
        CHECK_OK(tp_image_decode(data[i], size[i], 3, &t[i]));
        free(data[i]);
    }
    int c = 0, k = 0, worst = 0;
    for (int y = 0; y < 16 && t[0].data && t[1].data; y++)
        for (int x = 0; x < 16; x++) { /* the numbers as encode makes them */
            c = (unsigned char)(128 + 60 * sin(x / 5.0 + y / 7.0) + 60 * cos(y / 9.0));
            k = (unsigned char)(128 + 60 * sin(x * 4.0 / 5 + y / 7.0) + 60 * cos(y * 4.0 / 9));
            const int off = abs(((uint8_t *)t[0].data)[(y * 16 + x) * 3] - c * k / 255),
                      off2 = abs(((uint8_t *)t[1].data)[(y * 16 + x) * 3] - (255 - c) * (255 - k) / 255);
            worst = off > worst ? off : worst;
            worst = off2 > worst ? off2 : worst;
        }
    CHECK_MSG(worst < 16, "%d", worst); /* of the compression */
    tp_tensor_free(&t[0]), tp_tensor_free(&t[1]);
}

TEST(damaged_files)
{
    static const picture list[] = {{61, 47, 3, false, false, false, 2, 2, 0, false},
                                   {61, 47, 3, false, true, false, 2, 2, 0, false},
                                   {61, 47, 4, false, false, true, 0, 0, 1, false}};
    const long before = tp_test_live_blocks();
    tp_tensor t;
    memset(&t, 0, sizeof t);
    for (int i = 0; i < TP_COUNT(list); i++) {
        unsigned long size;
        unsigned char *data = encode(&list[i], &size), *bad = (unsigned char *)malloc(size + 2);
        if (!CHECK(data && bad)) return;
        for (size_t n = 2; n + 20 < size; n += 1 + n / 40) { /* cut, and an end marker */
            memcpy(bad, data, n);
            memcpy(bad + n, "\xff\xd9", 2);
            const tp_status st =
                tp_image_decode(bad, n + 2, 3, &t); /* of whole scans of a progressive one an image is made */
            if (st != TP_OK || !list[i].progressive) CHECK_ERR(st, TP_ERR_FORMAT, "is a damaged JPEG: ");
        }
        for (size_t at = 2; at < size; at += 3) { /* any byte: an error with a sentence or an image of its size */
            memcpy(bad, data, size);
            bad[at] ^= (unsigned char)(1 + at % 255);
            const tp_status st = tp_image_decode(bad, size, 3, &t);
            CHECK(st == TP_ERR_FORMAT || (st == TP_OK && t.shape.ndim == 3 && t.shape.dim[2] == 3));
        }
        free(bad);
        free(data);
    }
    tp_tensor_free(&t);
    CHECK(tp_test_live_blocks() == before);
}

/* The first scan again and again: each costs a pass through the image, and the file only a few bytes. */
TEST(too_many_scans)
{
    static const picture p = {16, 16, 1, false, true, false, 0, 0, 0, false};
    unsigned long size;
    unsigned char *data = encode(&p, &size);
    tp_buf b = {NULL, 0, 0, false};
    tp_tensor t;
    memset(&t, 0, sizeof t);
    size_t sos = 0, stop = 0;
    for (size_t at = 2; data && at + 1 < size && !stop; at++) {
        if (data[at] != 0xff || data[at + 1] == 0) continue;
        if (sos) stop = at;
        else if (data[at + 1] == 0xda) sos = at;
    }
    if (!CHECK(sos && stop)) return;
    tp_buf_put(&b, data, stop);
    for (int i = 0; i < 600; i++) tp_buf_put(&b, data + sos, stop - sos);
    tp_buf_put(&b, data + stop, size - stop);
    CHECK_ERR(tp_image_decode(b.data, b.len, 3, &t), TP_ERR_FORMAT, "is a damaged JPEG: it has more than 500 scans");
    CHECK_OK(tp_image_decode(data, size, 3, &t));
    /* a decoder that ran out of memory before */
    tp__stb s;
    memset(&s, 0, sizeof s);
    CHECK_OK(tp__image_decode(&s, data, size, "x", 3, TP__MAX_PIXELS, &t));
    if (s.jpeg) s.jpeg->nomem = true;
    CHECK_ERR(tp__image_decode(&s, b.data, b.len, "x", 3, TP__MAX_PIXELS, &t), TP_ERR_FORMAT, "more than 500 scans");
    tp__stb_free_all(&s);
    tp_buf_free(&b);
    tp_tensor_free(&t);
    free(data);
}

/* A bomb needs no memory before it is refused; an image that fits fails with a sentence at any allocation of ours. */
TEST(bombs_and_no_memory)
{
    static const picture p = {20, 10, 3, false, false, false, 2, 2, 0, false};
    unsigned long size;
    unsigned char *data = encode(&p, &size);
    tp_tensor t;
    memset(&t, 0, sizeof t);
    size_t sof = 2;
    while (data && sof + 9 < size && !(data[sof] == 0xff && data[sof + 1] == 0xc0)) sof++;
    if (!CHECK(data && sof + 9 < size)) return;
    for (long n = 1, failed = 1; failed; n++) {
        tp_test_fail_after(n);
        const tp_status st = tp_image_decode(data, size, 3, &t);
        failed = tp_test_alloc_failed();
        CHECK(st == (failed ? TP_ERR_NOMEM : TP_OK));
        tp_tensor_free(&t);
    }
    tp_test_alloc_reset();
    memcpy(data + sof + 5, "\x27\x10\x27\x10", 4); /* 10,000 x 10,000 */
    tp_test_fail_after(1);
    CHECK_ERR(tp_image_decode(data, size, 3, &t), TP_ERR_FORMAT,
              "is a JPEG of 10000 x 10000 pixels, more than the 67108864");
    CHECK(!tp_test_alloc_failed());
    tp_test_alloc_reset();
    tp_tensor_free(&t);
    free(data);
}

/* A folder with damaged files: three passes on two threads name each once; the decoders are kept from file to file. */
TEST(a_folder_with_damaged_files)
{
    static const picture p = {20, 10, 3, false, false, false, 2, 2, 0, false};
    unsigned long size;
    unsigned char *data = encode(&p, &size);
    const char *dir = tp_test_tmpdir();
    char path[9][400];
    const char *files[9];
    if (!CHECK(data)) return;
    tp_test_keep_log();
    for (int i = 0; i < 9; i++) {
        snprintf(path[i], sizeof path[i], "%s/%d.jpg", dir, i);
        files[i] = path[i];
        const size_t n = i % 3 == 1 ? size - 40 : size;
        memcpy(data + n - 2, "\xff\xd9", 2);
        CHECK(tp_test_write(path[i], data, n));
        free(data);
        if (!CHECK((data = encode(&p, &size)) != NULL)) return;
    }
    free(data);
    tp_dataflow *df = tp_df_image_from_file(.files = files, .n = 9, .on_error = TP_SKIP);
    for (int pass = 0; pass < 3; pass++) {
        tp_datapoint dp;
        int n = 0;
        memset(&dp, 0, sizeof dp);
        CHECK_OK(tp_df_restart(df, pass));
        for (; tp_df_next(df, &dp) == TP_OK; n++) CHECK(dp.c[0].shape.dim[0] == 10 && dp.c[0].shape.dim[1] == 20);
        CHECK_MSG(n == 6, "pass %d: %d", pass, n);
        tp_datapoint_free(&dp);
    }
    tp_df_free(df);
    for (int i = 0; i < 9; i++) {
        const char *found = strstr(tp_test_logged, path[i]);
        CHECK((found != NULL) == (i % 3 == 1));
        if (found) CHECK(!strstr(found + 1, path[i]));
    }
    tp_set_log(NULL, NULL);
}

/* A file that can be opened but not read is named, with the reason of the system; afterwards it is read. */
TEST(a_disk_that_fails)
{
    static const picture p = {20, 10, 3, false, false, false, 2, 2, 0, false};
    unsigned long size;
    unsigned char *data = encode(&p, &size);
    const char *path = tp_test_path(tp_test_tmpdir(), "a.jpg");
    tp_datapoint dp = {0, NULL, 0};
    if (!CHECK(data)) return;
    CHECK(tp_test_write(path, data, size));
    free(data);
    tp_dataflow *df = tp_df_image_from_file(&path, 1);
    disk_broken = true;
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_IO, "a.jpg cannot be read: ");
    CHECK_HAS(tp_last_error(), strerror(EIO));
    disk_broken = false;
    CHECK_OK(tp_df_restart(df, 0));
    CHECK_OK(tp_df_next(df, &dp));
    tp_df_free(df);
    tp_datapoint_free(&dp);
}
#endif

TEST_MAIN()
