/* augmentors.c - single augmentors: microseconds of the median image
 *
 *     make build/augmentors && build/augmentors [part of a name] [seconds for each]
 *     python tests/bench/augmentors.py [part of a name]     the same operations by OpenCV and numpy, in turn
 *
 * A line of JSON for each case. The image has 256 x 256 pixels of three channels, uint8 or, where the name ends in ".f32",
 * float32. The random numbers of each image are drawn anew; that time is included. */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_input.h"
#include <math.h>
#include <stdlib.h>

enum { SIDE = 256, MOST_RUNS = 20000, BYTES = 1, FLOATS = 2, BOTH = 3 };

static tp_augmentor *imagenet(void)
{
    return tp_aug_list(
        TP_AUGS(tp_aug_google_net_random_crop_and_resize(),
                tp_aug_random_order(TP_AUGS(tp_aug_brightness_scale(.range = {0.6f, 1.4f}, .clip = TP_NO),
                                            tp_aug_contrast(.factor_range = {0.6f, 1.4f}, .rgb = TP_YES, .clip = TP_NO),
                                            tp_aug_saturation(.alpha = 0.4f), tp_aug_lighting(.std = 0.1f))),
                tp_aug_flip(.horiz = TP_YES)));
}

/* name, dtypes, augmentor */
#define CASES(X)                                                                                                \
    X(resize_nearest_up, BOTH, tp_aug_resize(.h = 320, .interp = TP_INTER_NEAREST))                             \
    X(resize_nearest_down, BOTH, tp_aug_resize(.h = 160, .interp = TP_INTER_NEAREST))                           \
    X(resize_linear_up, BOTH, tp_aug_resize(.h = 320))                                                          \
    X(resize_linear_down, BOTH, tp_aug_resize(.h = 160))                                                        \
    X(resize_cubic_up, BOTH, tp_aug_resize(.h = 320, .interp = TP_INTER_CUBIC))                                 \
    X(resize_cubic_down, BOTH, tp_aug_resize(.h = 160, .interp = TP_INTER_CUBIC))                               \
    X(resize_area_160, BOTH, tp_aug_resize(.h = 160, .interp = TP_INTER_AREA))                                  \
    X(resize_area_64, BOTH, tp_aug_resize(.h = 64, .interp = TP_INTER_AREA))                                    \
    X(resize_lanczos_up, BOTH, tp_aug_resize(.h = 320, .interp = TP_INTER_LANCZOS))                             \
    X(resize_lanczos_down, BOTH, tp_aug_resize(.h = 160, .interp = TP_INTER_LANCZOS))                           \
    X(resize_shortest_edge, BYTES, tp_aug_resize_shortest_edge(.size = 224))                                    \
    X(center_crop, BOTH, tp_aug_center_crop(224, 224))                                                          \
    X(random_crop, BYTES, tp_aug_random_crop(224, 224))                                                         \
    X(google_net, BOTH, tp_aug_google_net_random_crop_and_resize())                                             \
    X(flip_horiz, BOTH, tp_aug_flip(.horiz = TP_YES, .prob = 1))                                                \
    X(flip_vert, BOTH, tp_aug_flip(.vert = TP_YES, .prob = 1))                                                  \
    X(transpose, BOTH, tp_aug_transpose(.prob = 1))                                                             \
    X(pad_constant, BOTH, tp_aug_pad(.pad = 16))                                                                \
    X(pad_reflect, BOTH, tp_aug_pad(.pad = 16, .border = TP_EDGE_REFLECT))                                      \
    X(center_paste, BOTH, tp_aug_center_paste(.h = 320, .w = 320))                                              \
    X(shift, BOTH, tp_aug_shift(.horiz_frac = 0.2f, .vert_frac = 0.2f))                                         \
    X(rotation_nearest, BOTH, tp_aug_rotation(.max_deg = 30, .interp = TP_INTER_NEAREST))                       \
    X(rotation_linear, BOTH, tp_aug_rotation(.max_deg = 30))                                                    \
    X(rotation_cubic, BOTH, tp_aug_rotation(.max_deg = 30, .interp = TP_INTER_CUBIC))                           \
    X(rotation_constant, BOTH, tp_aug_rotation(.max_deg = 30, .border = TP_EDGE_CONSTANT))                      \
    X(rotation_reflect, BOTH, tp_aug_rotation(.max_deg = 30, .border = TP_EDGE_REFLECT_101))                    \
    X(rotation_crop, BYTES, tp_aug_rotation_and_crop_valid(.max_deg = 15))                                      \
    X(affine_linear, BOTH, tp_aug_affine(.scale = {0.9f, 1.1f}, .translate_frac = {0.1f, 0.1f}, .shear = 10))   \
    X(affine_cubic, BOTH, tp_aug_affine(.scale = {0.9f, 1.1f}, .rotate_max_deg = 20, .interp = TP_INTER_CUBIC)) \
    X(brightness, BOTH, tp_aug_brightness(.delta = 63))                                                         \
    X(brightness_scale, BOTH, tp_aug_brightness_scale(.range = {0.6f, 1.4f}))                                   \
    X(contrast, BOTH, tp_aug_contrast(.factor_range = {0.6f, 1.4f}))                                            \
    X(contrast_rgb, BOTH, tp_aug_contrast(.factor_range = {0.6f, 1.4f}, .rgb = TP_YES))                         \
    X(saturation, BOTH, tp_aug_saturation())                                                                    \
    X(hue, BOTH, tp_aug_hue())                                                                                  \
    X(gamma, BOTH, tp_aug_gamma())                                                                              \
    X(clip, BOTH, tp_aug_clip(.min = 20, .max = 200))                                                           \
    X(lighting, BOTH, tp_aug_lighting(.std = 0.1f))                                                             \
    X(mean_variance, BOTH, tp_aug_mean_variance_normalize())                                                    \
    X(mean_variance_channels, BOTH, tp_aug_mean_variance_normalize(.all_channel = TP_NO))                       \
    X(min_max, BOTH, tp_aug_min_max_normalize())                                                                \
    X(min_max_channels, BOTH, tp_aug_min_max_normalize(.all_channel = TP_NO))                                   \
    X(grayscale, BOTH, tp_aug_grayscale(.rgb = TP_YES))                                                         \
    X(grayscale_keepshape, BYTES, tp_aug_grayscale(.rgb = TP_YES, .keepshape = TP_YES))                         \
    X(rgb2bgr, BOTH, tp_aug_color_space(.mode = TP_COLOR_RGB2BGR))                                              \
    X(rgb2hsv, BOTH, tp_aug_color_space(.mode = TP_COLOR_RGB2HSV))                                              \
    X(hsv2rgb, BOTH, tp_aug_color_space(.mode = TP_COLOR_HSV2RGB))                                              \
    X(to_float32, BYTES, tp_aug_to_float32())                                                                   \
    X(to_uint8, FLOATS, tp_aug_to_uint8())                                                                      \
    X(blur_3, BOTH, tp_aug_gaussian_blur(.size_range = {1, 2}))                                                 \
    X(blur_5, BOTH, tp_aug_gaussian_blur(.size_range = {2, 3}))                                                 \
    X(blur_7, BOTH, tp_aug_gaussian_blur(.size_range = {3, 4}))                                                 \
    X(blur_5_sigma, BOTH, tp_aug_gaussian_blur(.size_range = {2, 3}, .sigma_range = {1, 2}))                    \
    X(blur_13, BOTH, tp_aug_gaussian_blur(.size_range = {6, 7}))                                                \
    X(jpeg_noise, BYTES, tp_aug_jpeg_noise())                                                                   \
    X(gaussian_noise, BOTH, tp_aug_gaussian_noise(.sigma = 5))                                                  \
    X(salt_pepper, BOTH, tp_aug_salt_pepper_noise())                                                            \
    X(cutout, BOTH, tp_aug_random_cutout(.h_range = {64}, .w_range = {64}))                                     \
    X(imagenet, BOTH, imagenet())

#define FUNCTION(name_, dtypes_, augmentor_) \
    static tp_augmentor *make_##name_(void) { return augmentor_; }
CASES(FUNCTION)

#define ROW(name_, dtypes_, augmentor_) {#name_, dtypes_, make_##name_},
static const struct {
    const char *name;
    int dtypes;
    tp_augmentor *(*make)(void);
} cases[] = {CASES(ROW)};

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static void must(tp_status st)
{
    if (st != TP_OK) puts(tp_last_error()), exit(1);
}

/* Draws and applies the augmentor to one image after the other; returns the median of the microseconds. */
static double measure(const tp_augmentor *a, const tp_tensor *image, double seconds)
{
    static double t[MOST_RUNS];
    int runs = 0;
    tp_transform transform;
    tp_tensor out;
    memset(&transform, 0, sizeof transform);
    memset(&out, 0, sizeof out);
    must(tp_aug_status(a));
    for (double end = tp_time() + seconds; runs < MOST_RUNS && (runs < 20 || tp_time() < end); runs++) {
        const double begin = tp_time();
        must(tp_aug_draw(a, SIDE, SIDE, 1, runs, &transform));
        must(tp_aug_apply_image(&transform, image, &out));
        t[runs] = tp_time() - begin;
    }
    tp_tensor_free(&out);
    tp_transform_free(&transform);
    qsort(t, (size_t)runs, sizeof t[0], by_value);
    return t[runs / 2] * 1e6;
}

/* waves and a little noise, as in augmentors.py */
static void draw_image(tp_tensor *image, tp_dtype dtype)
{
    must(tp_tensor_resize(image, dtype, tp_make_shape(SIDE, SIDE, 3)));
    for (int64_t i = 0; i < SIDE * SIDE * 3; i++) {
        const double y = (double)(i / (3 * SIDE)), x = (double)(i / 3 % SIDE), c = (double)(i % 3);
        const double v = 120 + 60 * sin(0.11 * y + c) + 40 * cos(0.07 * x - 0.5 * c);
        tp_tensor_set(image, i, floor(v + 16 * (double)tp_random_uniform(1, 0, (uint64_t)i)));
    }
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    const double seconds = argc > 2 ? atof(argv[2]) : 0.2;
    tp_tensor image[2];
    memset(image, 0, sizeof image);
    for (int k = 0; k < 2; k++) draw_image(&image[k], k ? TP_F32 : TP_U8);
    for (int c = 0; c < TP_COUNT(cases); c++)
        for (int k = 0; k < 2; k++) {
            char name[64];
            snprintf(name, sizeof name, "%s%s", cases[c].name, k ? ".f32" : "");
            if (!(cases[c].dtypes & (k ? FLOATS : BYTES)) || !strstr(name, only)) continue;
            tp_augmentor *a = cases[c].make();
            printf("{\"op\": \"%s\", \"us\": %.2f}\n", name, measure(a, &image[k], seconds));
            fflush(stdout);
            tp_aug_free(a);
        }
    for (int k = 0; k < 2; k++) tp_tensor_free(&image[k]);
    return 0;
}
