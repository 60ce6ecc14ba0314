/* test_load.c - image files that are read, decoded and augmented on threads (tp_df_load_image, .num_thread of the augmenting flows) */
#define TP_IMPLEMENTATION
#include "tp_input.h"
#include "tp_test.h"
#include "ref_readers.h"
#include <stdlib.h>

/* ==== >>helpers ======================================================================================= */

enum { H = 10, W = 12, FILES = 11 };

static bool no_stb(void)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    const tp_status st = tp_image_decode(ref_jpeg444, sizeof ref_jpeg444, 3, &t);
    tp_tensor_free(&t);
    return st == TP_ERR_UNSUPPORTED;
}
#define NEEDS_STB() \
    if (no_stb()) TEST_SKIP("stb_image.h was not found (Debian: libstb-dev)")

/* Byte c of pixel (i,j) of file k. */
static int byte_of(int k, int i, int j, int c) { return (k * 37 + i * 11 + j * 5 + c * 83 + i * j) % 256; }

/* File k as a BMP of 24 bits: 54 bytes of header, then rows from the bottom, blue before green before red. */
static size_t bmp_of(int k, unsigned char *to)
{
    const unsigned row = (3 * W + 3) / 4 * 4, size = 54 + row * H;
    memset(to, 0, size);
    to[0] = 'B', to[1] = 'M';
    to[2] = (unsigned char)size, to[3] = (unsigned char)(size >> 8);
    to[10] = 54, to[14] = 40, to[18] = W, to[22] = H, to[26] = 1, to[28] = 24;
    for (int i = 0; i < H; i++)
        for (int j = 0; j < W; j++)
            for (int c = 0; c < 3; c++)
                to[54 + row * (unsigned)(H - 1 - i) + (unsigned)(3 * j + 2 - c)] = (unsigned char)byte_of(k, i, j, c);
    return size;
}

/* A folder of two classes with FILES images in all, made once: file k is k-th in the order of the flow. */
static const char *folder(void)
{
    static char dir[400];
    if (dir[0]) return dir;
    snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
    for (int k = 0; k < FILES; k++) {
        unsigned char bmp[54 + 4 * W * H];
        char sub[500], name[32];
        snprintf(sub, sizeof sub, "%s/%s", dir, k < 6 ? "a" : "b");
        CHECK_OK(tp_make_dirs(sub));
        snprintf(name, sizeof name, "%02d.bmp", k);
        const size_t size = bmp_of(k, bmp);
        CHECK(tp_test_write(tp_test_path(sub, name), bmp, size));
    }
    return dir;
}

static tp_augmentor *changes(void)
{
    return tp_aug_list(TP_AUGS(tp_aug_pad(.pad = 4), tp_aug_random_crop(H, W), tp_aug_flip(.horiz = TP_YES),
                               tp_aug_brightness(.delta = 63), tp_aug_contrast(.factor_range = {0.2f, 1.8f}),
                               tp_aug_gaussian_noise(.sigma = 3)));
}

/* The contents of the files, in order. */
static tp_dataflow *contents(void)
{
    static unsigned char bmp[FILES][54 + 4 * W * H];
    tp_datapoint point[FILES];
    tp_tensor bytes[FILES];
    memset(point, 0, sizeof point);
    memset(bytes, 0, sizeof bytes);
    for (int k = 0; k < FILES; k++) {
        const int64_t size = (int64_t)bmp_of(k, bmp[k]);
        tp_tensor_view(&bytes[k], TP_U8, tp_make_shape_n(1, &size), bmp[k]);
        point[k].c = &bytes[k];
        point[k].n = 1;
    }
    return tp_df_from_list(point, FILES, .shuffle = TP_NO);
}

/* Two points behind the label. */
static tp_status add_points(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    const int64_t dim[2] = {2, 2};
    tp_status st = tp_datapoint_resize(out, in->n + 1);
    if (st == TP_OK) st = tp_tensor_resize(&out->c[in->n], TP_F32, tp_make_shape_n(2, dim));
    for (int i = 0; i < 4 && st == TP_OK; i++) ((float *)out->c[in->n].data)[i] = (float)(call->index + i);
    return st;
}

/* The flows that take .num_thread. */
enum { FROM_FILES, FROM_CONTENTS, FROM_KEPT, IMAGE, COORDINATES, IMAGES, FLOWS };

static tp_dataflow *flow_of(int which, int threads)
{
    tp_dataflow *df = NULL;
    if (which == FROM_FILES)
        return tp_df_load_image(tp_df_image_folder(folder(), .decode = TP_NO), changes(), .num_thread = threads,
                                .buffer_size = 5, .seed = 7);
    if (which == FROM_CONTENTS)
        return tp_df_load_image(contents(), changes(), .encoded = TP_YES, .num_thread = threads, .buffer_size = 5);
    if (which == FROM_KEPT) {
        df = tp_df_map(tp_df_image_folder(folder(), .decode = TP_NO), tp_map_image_file, .keeps_all = TP_YES);
        return tp_df_load_image(tp_df_cache(df, .shuffle = TP_YES), changes(), .encoded = TP_YES, .num_thread = threads,
                                .buffer_size = 5);
    }
    df = tp_df_image_folder(folder());
    if (which == IMAGE) return tp_df_augment_image(df, changes(), .num_thread = threads, .buffer_size = 5, .seed = 7);
    df = tp_df_map(df, add_points, .keeps_all = TP_YES);
    if (which == COORDINATES)
        return tp_df_augment_coordinates(df, changes(), .coords_index = 2, .num_thread = threads, .buffer_size = 5);
    return tp_df_augment_images(df, changes(), .index = {0}, .n_index = 1, .coords_index = {2}, .n_coords_index = 1,
                                .num_thread = threads, .buffer_size = 5);
}

static bool same_datapoints(const tp_datapoint *a, const tp_datapoint *b)
{
    if (a->n != b->n) return false;
    for (int c = 0; c < a->n; c++)
        if (a->c[c].dtype != b->c[c].dtype || !tp_shape_equal(&a->c[c].shape, &b->c[c].shape) ||
            memcmp(a->c[c].data, b->c[c].data, tp_tensor_bytes(&a->c[c])) != 0)
            return false;
    return true;
}

/* What is left of the two flows' passes is the same; how many datapoints that is. */
static int same_rest(tp_dataflow *one, tp_dataflow *two, const char *what, int number)
{
    tp_datapoint a = {0, NULL, 0}, b = {0, NULL, 0};
    int n = 0;
    for (;; n++) {
        const tp_status sa = tp_df_next(one, &a), sb = tp_df_next(two, &b);
        if (!CHECK_MSG(sa == sb, "%s %d: %s: %s", what, number, tp_status_name(sb), tp_last_error())) break;
        if (sa != TP_OK || !CHECK_MSG(same_datapoints(&a, &b), "%s %d: datapoint %d differs", what, number, n)) break;
    }
    tp_datapoint_free(&a);
    tp_datapoint_free(&b);
    return n;
}

/* ==== >>values ======================================================================================== */

TEST(an_image_is_loaded_as_it_is)
{
    NEEDS_STB();
    for (int threads = 0; threads <= 2; threads += 2)
        for (int encoded = 0; encoded < 2; encoded++) {
            tp_dataflow *df = encoded ? contents() : tp_df_image_folder(folder(), .decode = TP_NO, .shuffle = TP_NO);
            tp_datapoint dp = {0, NULL, 0};
            df = tp_df_load_image(df, tp_aug_identity(), .encoded = encoded ? TP_YES : TP_NO, .num_thread = threads);
            CHECK(tp_df_size(df) == FILES);
            for (int k = 0; k < FILES && CHECK_OK(tp_df_next(df, &dp)); k++) {
                CHECK(dp.c[0].dtype == TP_U8 && dp.c[0].shape.ndim == 3 && dp.c[0].shape.dim[0] == H &&
                      dp.c[0].shape.dim[1] == W && dp.c[0].shape.dim[2] == 3);
                CHECK(encoded || tp_tensor_get(&dp.c[1], 0) == (k < 6 ? 0 : 1));
                for (int i = 0; i < H * W * 3; i++)
                    if (!CHECK_MSG((int)tp_tensor_get(&dp.c[0], i) == byte_of(k, i / (3 * W), i / 3 % W, i % 3),
                                   "file %d, byte %d", k, i))
                        break;
            }
            CHECK(tp_df_next(df, &dp) == TP_END);
            tp_datapoint_free(&dp);
            tp_df_free(df);
        }
    tp_datapoint dp = {0, NULL, 0};
    tp_dataflow *df = tp_df_load_image(contents(), tp_aug_identity(), .encoded = TP_YES, .channel = 1);
    CHECK(CHECK_OK(tp_df_next(df, &dp)) && dp.c[0].shape.dim[2] == 1);
    tp_datapoint_free(&dp);
    tp_df_free(df);
}

/* The numbers are those that >>augmentors says: of the key of (seed, "tp_df_augment_image", pass), at the image's index. */
TEST(a_crop_is_where_its_numbers_say)
{
    NEEDS_STB();
    tp_dataflow *df = tp_df_image_folder(folder(), .decode = TP_NO, .shuffle = TP_NO);
    tp_datapoint dp = {0, NULL, 0};
    df = tp_df_load_image(df, tp_aug_random_crop(4, 5), .num_thread = 3, .seed = 11);
    for (int64_t pass = 0; pass < 2; pass++) {
        const uint64_t key =
            tp_random_key(tp_random_key(tp_random_key(11, tp_hash_name("tp_df_augment_image")), (uint64_t)pass), 0);
        CHECK_OK(tp_df_restart(df, pass));
        for (int k = 0; k < FILES && CHECK_OK(tp_df_next(df, &dp)); k++) {
            const int y0 = (int)((uint64_t)tp_random_u32(key, (uint64_t)k, 0) * (H - 4 + 1) >> 32),
                      x0 = (int)((uint64_t)tp_random_u32(key, (uint64_t)k, 1) * (W - 5 + 1) >> 32);
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 5; j++)
                    CHECK((int)tp_tensor_get(&dp.c[0], (i * 5 + j) * 3) == byte_of(k, y0 + i, x0 + j, 0));
        }
    }
    tp_datapoint_free(&dp);
    tp_df_free(df);
}

TEST(loading_and_augmenting_is_augmenting_what_was_decoded)
{
    NEEDS_STB();
    for (int again = 0; again < 2;
         again++) { /* the second time both have an augmenting flow on top, which draws the same numbers in both */
        tp_dataflow *loads = flow_of(FROM_FILES, 2), *decoded = flow_of(IMAGE, 0);
        if (again) loads = tp_df_augment_image(loads, changes()), decoded = tp_df_augment_image(decoded, changes());
        for (int pass = 0; pass < 3; pass++) {
            CHECK_OK(tp_df_restart(loads, pass));
            CHECK_OK(tp_df_restart(decoded, pass));
            CHECK(same_rest(decoded, loads, "pass", pass) == FILES);
        }
        tp_df_free(loads);
        tp_df_free(decoded);
    }
}

/* Makes a folder with n BMP files in its folder c, and writes its path to dir. File number `broken` is cut short, file number `empty`
 * has no byte; -1: none. */
static void bmp_name(int k, int broken, int empty, char name[32])
{
    snprintf(name, 32, k == broken ? "%02d_broken.bmp" : k == empty ? "%02d_empty.bmp" : "%02d.bmp", k);
}
static void bmp_folder(char dir[400], int n, int broken, int empty)
{
    char sub[500], name[32];
    unsigned char bmp[54 + 4 * W * H];
    snprintf(dir, 400, "%s", tp_test_tmpdir());
    snprintf(sub, sizeof sub, "%s/c", dir);
    CHECK_OK(tp_make_dirs(sub));
    for (int k = 0; k < n; k++) {
        const size_t size = bmp_of(k, bmp);
        bmp_name(k, broken, empty, name);
        CHECK(tp_test_write(tp_test_path(sub, name), bmp, k == broken ? 40 : k == empty ? 0 : size));
    }
}

/* Files that are kept in memory give the images of the files, also when the files are gone. */
TEST(kept_files_are_read_once)
{
    NEEDS_STB();
    char dir[400], sub[500], name[32];
    bmp_folder(dir, FILES, -1, -1);
    snprintf(sub, sizeof sub, "%s/c", dir);
    for (int threads = 0; threads <= 2; threads += 2) {
        tp_dataflow *kept = tp_df_map(tp_df_image_folder(dir, .decode = TP_NO, .shuffle = TP_NO), tp_map_image_file);
        kept =
            tp_df_load_image(tp_df_cache(kept, .shuffle = TP_YES), changes(), .encoded = TP_YES, .num_thread = threads);
        tp_dataflow *files = tp_df_load_image(tp_df_image_folder(dir, .decode = TP_NO, .shuffle = TP_NO), changes());
        CHECK(same_rest(files, kept, "threads", threads) == FILES);
        for (int k = 0; k < FILES && threads; k++) {
            bmp_name(k, -1, -1, name);
            CHECK(remove(tp_test_path(sub, name)) == 0);
        }
        tp_datapoint dp = {0, NULL, 0};
        for (int64_t pass = 1; pass < 4; pass++) {
            int n = 0;
            for (CHECK_OK(tp_df_restart(kept, pass)); tp_df_next(kept, &dp) == TP_OK; n++) {}
            CHECK_MSG(n == FILES, "pass %d: %d images: %s", (int)pass, n, tp_last_error());
        }
        tp_datapoint_free(&dp);
        tp_df_free(kept);
        tp_df_free(files);
    }
}

/* ==== >>streams ======================================================================================= */

TEST(one_stream_for_any_number_of_threads)
{
    NEEDS_STB();
    for (int which = 0; which < FLOWS; which++)
        for (int threads = 1; threads <= 8; threads *= 2) {
            tp_dataflow *one = tp_df_batch(flow_of(which, 0), 3), *many = tp_df_batch(flow_of(which, threads), 3);
            for (int pass = 0; pass < 4; pass++) {
                CHECK_OK(tp_df_restart(one, pass));
                CHECK_OK(tp_df_restart(many, pass));
                CHECK(same_rest(one, many, "flow", which) == FILES / 3);
            }
            tp_df_free(one);
            tp_df_free(many);
        }
}

/* After n datapoints of a pass a new flow, of any number of threads, goes on with the rest of the stream: that is a resume. */
TEST(a_resumed_flow_gives_the_rest)
{
    NEEDS_STB();
    for (int which = 0; which < FLOWS; which++)
        for (int n = 0; n <= FILES; n += 2) {
            tp_dataflow *walk = flow_of(which, 2), *resumed = flow_of(which, n % 3);
            tp_datapoint dp = {0, NULL, 0};
            int64_t skipped = 0;
            CHECK_OK(tp_df_restart(walk, 2));
            for (int i = 0; i < n; i++) CHECK_OK(tp_df_next(walk, &dp));
            CHECK_OK(tp_df_restart(resumed, 2));
            CHECK_OK(tp_df_seek(resumed, n, &skipped));
            CHECK(skipped == n && same_rest(walk, resumed, "flow", which) == FILES - n);
            tp_datapoint_free(&dp);
            tp_df_free(walk);
            tp_df_free(resumed);
        }
}

/* The same for the real files, where they are there. */
TEST(cifar10_is_one_stream)
{
    NEEDS_STB();
    const char *dir = getenv("TP_TEST_CIFAR10_JPEG");
    if (!dir) TEST_SKIP("TP_TEST_CIFAR10_JPEG is not set to a folder of class folders");
    tp_dataflow *df[4];
    for (int i = 0; i < 4; i++)
        df[i] = tp_df_take(
            tp_df_load_image(tp_df_image_folder(dir, .decode = TP_NO), changes(), .num_thread = i == 0 ? 0 : 1 << i),
            600);
    for (int i = 1; i < 4; i++) {
        CHECK_OK(tp_df_restart(df[0], 1));
        CHECK_OK(tp_df_restart(df[i], 1));
        CHECK(same_rest(df[0], df[i], "flow", i) == 600);
    }
    for (int i = 0; i < 4; i++) tp_df_free(df[i]);
}

/* ==== >>failures ====================================================================================== */

static int n_skipped, n_left_out;
static void hear(void *user, tp_log_level level, const char *message)
{
    (void)user;
    if (level != TP_LOG_WARN) return;
    if (strstr(message, "skipped: ") && strstr(message, "broken.bmp")) n_skipped++;
    if (strstr(message, "a part of 99x99 was asked for") && strstr(message, "was left out")) n_left_out++;
}

TEST(a_bad_file_is_skipped_or_refused)
{
    NEEDS_STB();
    char dir[400];
    bmp_folder(dir, 6, 3, -1);
    for (int threads = 0; threads <= 3; threads += 3) {
        tp_datapoint dp = {0, NULL, 0};
        tp_dataflow *df = tp_df_load_image(tp_df_image_folder(dir, .decode = TP_NO, .shuffle = TP_NO),
                                           tp_aug_identity(), .on_error = TP_SKIP, .num_thread = threads);
        n_skipped = 0;
        tp_set_log(hear, NULL);
        for (int pass = 0; pass < 3; pass++) {
            static const int files[5] = {0, 1, 2, 4, 5};
            CHECK_OK(tp_df_restart(df, pass));
            for (int k = 0; k < 5 && CHECK_OK(tp_df_next(df, &dp)); k++)
                CHECK((int)tp_tensor_get(&dp.c[0], 0) == byte_of(files[k], 0, 0, 0));
            CHECK(tp_df_next(df, &dp) == TP_END);
        }
        int64_t skipped = 0;
        CHECK_OK(tp_df_restart(df, 0));
        CHECK_OK(tp_df_seek(df, 4, &skipped));
        CHECK(skipped == 4 && CHECK_OK(tp_df_next(df, &dp)) && (int)tp_tensor_get(&dp.c[0], 0) == byte_of(5, 0, 0, 0));
        tp_set_log(NULL, NULL);
        CHECK_MSG(n_skipped == (threads == 0), "%d warnings", n_skipped); /* said once in a program */
        tp_df_free(df);
        df = tp_df_load_image(tp_df_image_folder(dir, .decode = TP_NO, .shuffle = TP_NO), tp_aug_identity(),
                              .num_thread = threads);
        for (int k = 0; k < 3; k++) CHECK_OK(tp_df_next(df, &dp));
        CHECK_ERR(tp_df_next(df, &dp), TP_ERR_FORMAT, "3_broken.bmp is a damaged BMP");
        CHECK_HAS(tp_last_error(), "[tp_df_load_image: pass 0, datapoint 3]");
        tp_datapoint_free(&dp);
        tp_df_free(df);
    }
}

TEST(a_bad_file_is_not_kept)
{
    NEEDS_STB();
    char dir[400];
    unsigned char bmp[54 + 4 * W * H];
    bmp_folder(dir, 4, 1, 2);
    tp_datapoint dp = {0, NULL, 0};
    tp_image_options options = {0, 0, TP_SKIP};
    tp_dataflow *df =
        tp_df_map(tp_df_image_folder(dir, .decode = TP_NO, .shuffle = TP_NO), tp_map_image_file, &options);
    df = tp_df_load_image(tp_df_cache(df, .shuffle = TP_YES), tp_aug_identity(), .encoded = TP_YES, .num_thread = 2);
    n_skipped = 0;
    tp_set_log(hear, NULL);
    for (int pass = 0; pass < 3; pass++) {
        int n = 0;
        for (CHECK_OK(tp_df_restart(df, pass)); tp_df_next(df, &dp) == TP_OK; n++) {}
        CHECK(n == 2);
    }
    tp_set_log(NULL, NULL);
    CHECK_MSG(n_skipped == 1, "%d warnings", n_skipped);
    tp_df_free(df);
    df = tp_df_map(tp_df_image_folder(dir, .decode = TP_NO, .shuffle = TP_NO), tp_map_image_file);
    CHECK(CHECK_OK(tp_df_next(df, &dp)) && dp.c[0].shape.ndim == 1 && tp_tensor_bytes(&dp.c[0]) == bmp_of(0, bmp) &&
          memcmp(dp.c[0].data, bmp, tp_tensor_bytes(&dp.c[0])) == 0);
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_FORMAT, "1_broken.bmp is a damaged BMP");
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_FORMAT, "2_empty.bmp is empty");
    tp_df_free(df);
    options.max_pixels = H * W - 1;
    options.on_error = TP_REFUSE;
    df = tp_df_map(tp_df_image_folder(dir, .decode = TP_NO, .shuffle = TP_NO), tp_map_image_file, &options);
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_FORMAT, "more than the 119 allowed");
    tp_df_free(df);
    options.channel = 2;
    df = tp_df_map(tp_df_image_folder(dir, .decode = TP_NO), tp_map_image_file, &options);
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_ARG, "tp_map_image_file: channel is 2");
    tp_df_free(df);
    df = tp_df_map(tp_df_image_folder(dir, .shuffle = TP_NO), tp_map_image_file);
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_ARG, "tp_map_image_file: component 0 must be a path");
    tp_datapoint_free(&dp);
    tp_df_free(df);
}

TEST(what_threads_cannot_augment_is_left_out)
{
    NEEDS_STB();
    tp_datapoint dp = {0, NULL, 0};
    for (int threads = 0; threads <= 3; threads += 3) {
        tp_dataflow *df = tp_df_augment_image(tp_df_image_folder(folder()), tp_aug_random_crop(99, 99),
                                              .catch_exceptions = TP_YES, .num_thread = threads);
        n_left_out = 0;
        tp_set_log(hear, NULL);
        CHECK(tp_df_next(df, &dp) == TP_END);
        tp_set_log(NULL, NULL);
        CHECK_MSG(n_left_out == 9, "%d of %d lines", n_left_out, (int)FILES); /* the first 9 */
        tp_df_free(df);
    }
    tp_datapoint_free(&dp);
}

/* Any buffer can get any image, so a few passes go by until each has had the largest. */
TEST(loading_allocates_nothing_in_the_long_run)
{
    NEEDS_STB();
    tp_datapoint dp = {0, NULL, 0};
    for (int which = 0; which < FLOWS; which++)
        for (int threads = 0; threads <= 2; threads += 2) {
            tp_test_fail_after(0);
            tp_dataflow *df = flow_of(which, threads);
            long before = -1, now = 0;
            for (int64_t pass = 0; pass < 200 && before != now; pass += 5) {
                before = tp_test_alloc_count();
                for (int64_t p = pass; p < pass + 5; p++)
                    for (CHECK_OK(tp_df_restart(df, p)); tp_df_next(df, &dp) == TP_OK;) {}
                now = tp_test_alloc_count();
            }
            CHECK_MSG(before == now, "flow %d on %d threads allocates %ld times", which, threads, now - before);
            tp_df_free(df);
        }
    tp_datapoint_free(&dp);
    tp_test_alloc_reset();
}

TEST(loading_survives_out_of_memory)
{
    NEEDS_STB();
    folder();
    for (int which = 0; which < FLOWS; which++)
        for (int threads = 0; threads <= 2; threads += 2)
            for (long n = 1, failed = 1; failed; n++) {
                tp_datapoint dp = {0, NULL, 0};
                tp_test_fail_after(n);
                tp_dataflow *df = flow_of(which, threads);
                tp_status st = df ? TP_OK : TP_ERR_NOMEM, worst = st;
                for (int i = 0; i < 2 * FILES && df && st != TP_END; i++)
                    if ((st = tp_df_next(df, &dp)) < worst) worst = st;
                failed = tp_test_alloc_failed();
                CHECK_MSG(worst == TP_OK || (failed && worst == TP_ERR_NOMEM), "flow %d, allocation %ld: %s: %s", which,
                          n, tp_status_name(worst), tp_last_error());
                tp_datapoint_free(&dp);
                tp_df_free(df);
                CHECK_MSG(tp_test_live_blocks() == 0, "flow %d, allocation %ld leaks", which, n);
            }
    tp_test_alloc_reset();
}

/* A file for which there was no memory is not a bad one: later passes read it. */
TEST(no_memory_is_no_bad_file)
{
    NEEDS_STB();
    char dir[400];
    bmp_folder(dir, 4, -1, -1);
    int refused = 0;
    for (long n = 1, failed = 1; failed; n++) {
        tp_datapoint dp = {0, NULL, 0};
        tp_dataflow *df = tp_df_image_folder(dir, .on_error = TP_SKIP);
        tp_test_fail_after(n);
        tp_status st = TP_OK;
        while ((st = tp_df_next(df, &dp)) != TP_END)
            if (st != TP_OK) refused++;
        failed = tp_test_alloc_failed();
        tp_test_alloc_reset();
        CHECK_OK(tp_df_restart(df, 1));
        int given = 0;
        for (; tp_df_next(df, &dp) == TP_OK; given++) {}
        CHECK_MSG(given == 4, "allocation %ld: %d images of 4", n, given);
        tp_df_free(df);
        tp_datapoint_free(&dp);
    }
    CHECK(refused > 2);
}

/* ==== >>misuse ======================================================================================== */

static void refused(tp_dataflow *df, const char *why)
{
    CHECK_ERR(tp_df_status(df), TP_ERR_ARG, why);
    tp_df_free(df);
}

TEST(wrong_arguments_are_sentences)
{
    refused(tp_df_load_image(contents(), tp_aug_identity(), .num_thread = -1), "num_thread is -1");
    refused(tp_df_load_image(contents(), tp_aug_identity(), .num_thread = 1 << 20), "num_thread is 1048576");
    refused(tp_df_load_image(contents(), tp_aug_identity(), .buffer_size = -2), "buffer_size is -2");
    refused(tp_df_augment_image(contents(), tp_aug_identity(), .num_thread = -1),
            "tp_df_augment_image: num_thread is -1");
    refused(tp_df_load_image(contents(), tp_aug_identity(), .channel = 2), "channel is 2");
    refused(tp_df_load_image(contents(), tp_aug_identity(), .max_pixels = -1), "max_pixels -1");
    refused(tp_df_load_image(contents(), tp_aug_identity(), .index = -1), "there is no component -1");
    refused(tp_df_load_image(contents(), tp_aug_random_crop(0, 0)), "tp_aug_random_crop");
    tp_dataflow *df = tp_df_load_image(contents(), NULL);
    CHECK(!df || tp_df_status(df) != TP_OK);
    tp_df_free(df);
    CHECK(!tp_df_load_image(NULL, tp_aug_identity()));
    refused(tp_df_load_image_(NULL), "the descriptor is NULL");
    tp_datapoint dp = {0, NULL, 0};
    const int64_t dim[2] = {2, 2};
    tp_tensor rows;
    memset(&rows, 0, sizeof rows);
    CHECK_OK(tp_tensor_resize(&rows, TP_F32, tp_make_shape_n(2, dim)));
    tp_tensor_set(&rows, 0, 0), tp_tensor_set(&rows, 1, 0), tp_tensor_set(&rows, 2, 0), tp_tensor_set(&rows, 3, 0);
    for (int threads = 0; threads < 2; threads++) {
        df = tp_df_load_image(tp_df_from_arrays(&rows, 1), tp_aug_identity(), .num_thread = threads);
        CHECK_ERR(tp_df_next(df, &dp), TP_ERR_ARG, "component 0 is to be loaded, so it must be a path: uint8 (length)");
        tp_df_free(df);
        df = tp_df_load_image(contents(), tp_aug_identity(), .index = 4, .num_thread = threads);
        CHECK_ERR(tp_df_next(df, &dp), TP_ERR_ARG, "component 4 is to be augmented, the datapoint has 1 components");
        tp_df_free(df);
    }
    tp_datapoint_free(&dp);
    tp_tensor_free(&rows);
}

/* A folder without images is a class, and takes a number: a warning, because a folder of other data may lack it. */
TEST(a_class_without_images)
{
    const char *dir = tp_test_tmpdir();
    CHECK_OK(tp_make_dirs(tp_test_path(dir, "red")));
    CHECK(tp_test_write(tp_test_path(dir, "red/a.bmp"), "BM", 2));
    for (int empty = 0; empty < 2; empty++) {
        if (empty) CHECK_OK(tp_make_dirs(tp_test_path(dir, "green")));
        tp_test_keep_log();
        tp_dataflow *df = tp_df_image_folder(dir, .decode = TP_NO);
        CHECK_OK(tp_df_status(df));
        CHECK((strstr(tp_test_logged, "the folder 'green' has no images, and counts as class 0 all the same") !=
               NULL) == (empty == 1));
        tp_df_free(df);
        tp_set_log(NULL, NULL);
    }
}

/* An image that is smaller than its crop is no bad file: catch_exceptions leaves it out. */
TEST(an_image_too_small_for_its_crop)
{
    NEEDS_STB();
    char dir[400];
    bmp_folder(dir, 2, -1, -1);
    for (int how = 0; how < 3; how++) {
        tp_datapoint dp = {0, NULL, 0};
        tp_dataflow *df =
            tp_df_load_image(tp_df_image_folder(dir, .decode = TP_NO, .shuffle = TP_NO), tp_aug_random_crop(H + 1, W),
                             .on_error = how ? TP_SKIP : TP_REFUSE, .catch_exceptions = how == 1 ? TP_NO : TP_YES);
        n_skipped = 0;
        tp_set_log(hear, NULL);
        const tp_status st = tp_df_next(df, &dp);
        tp_set_log(NULL, NULL);
        if (how == 1) CHECK_MSG(st < TP_OK, "%s", tp_status_name(st)); /* the file can be read */
        else CHECK(st == TP_END);
        tp_datapoint_free(&dp);
        tp_df_free(df);
    }
}

TEST_MAIN()
