/* test_golden_augment.c - random augmentors with right, wrong and extreme options: what they say, draw and compute is what it was
 *
 *     TP_TEST_WRITE=1 build/test/gcc-c11-test_golden_augment    writes digests_augment.txt anew, after a change that was meant
 *     TP_TEST_PRINT=images:7 ...                                prints what case 7 of a section sees
 *
 * A case is a function of its number: the same with every compiler. */
#define TP_IMPLEMENTATION
#include "tp_input.h"
#include "tp_test.h"

#include "golden.h"
#include "golden_draw.h"

/* ==== >>random numbers ================================================================================ */

static bool odd; /* whether this augmentor may get options at their limits, and beyond them */

static tp_tri any_tri(void)
{
    static const tp_tri tri[] = {0, 0, TP_YES, TP_NO};
    return DRAW_OF(tri);
}
static int any_int(int most) /* 1 to `most`, or an odd one */
{
    static const int odds[] = {-1000, -1, 0, 1, 2, 1 << 24, (1 << 24) + 1, 2147483647};
    return odd && chance(30) ? DRAW_OF(odds) : 1 + draw(most);
}
static int any_name(int last) /* 0 to `last`, or an odd one; mostly `last` + 1 */
{
    static const int odds[] = {-1, 0, 1, 1000};
    if (odd && chance(25)) return chance(50) ? last + 1 : DRAW_OF(odds);
    return draw(last + 1);
}
static float odd_float(float most)
{
    const float limits[] = {
        most,    most, nextafterf(most, 1e9f), nextafterf(most, 0), -most, most * 1.01f, -most * 1.01f, -1, 0, 1,
        1000001, NAN};
    return DRAW_OF(limits);
}
static float any_float(float most) /* -most to most in 40 steps, or an odd one */
{
    return odd && chance(30) ? odd_float(most) : most * (float)(draw(41) - 20) / 20.0f;
}
static float any_part(float most) /* 0 to most, not most itself; TP_ZERO; or an odd one */
{
    if (odd && chance(30)) return odd_float(most);
    return chance(10) ? TP_ZERO : most * (float)draw(20) / 20.0f;
}
static void any_range(float *range, float low, float high)
{
    const float a = low + (high - low) * (float)draw(17) / 16.0f, b = a + (high - a) * (float)draw(17) / 16.0f;
    range[0] = range[1] = 0;
    if (chance(15)) return;
    range[0] = a;
    range[1] = b;
    if (!odd || chance(50)) return;
    const float other[] = {low, high, nextafterf(low, -1e9f), nextafterf(high, 1e9f), low * 2, high * 2, -1, NAN};
    const int which = draw(2);
    range[which] = DRAW_OF(other);
}

/* ==== >>what is seen ================================================================================== */

static uint64_t seen;
static bool printing;

static void see(const char *what, int64_t v)
{
    if (printing) printf("%s %lld\n", what, (long long)v);
    seen = tp_test_mix(seen ^ (uint64_t)v);
}
static void see_text(const char *text)
{
    if (printing) printf("%s\n", text);
    seen = golden_hash(seen, text);
}
static tp_status see_status(const char *what, tp_status st)
{
    see(what, st);
    if (st < TP_OK) see_text(tp_last_error());
    return st;
}
/* Floats are seen coarsely: some of them come from the C library's exp and pow. */
static void see_tensor(const tp_tensor *t)
{
    char shape[TP_SHAPE_TEXT];
    if (printing) printf("%s %s\n", tp_dtype_name(t->dtype), tp_shape_text(&t->shape, shape));
    see("dtype", t->dtype);
    see("ndim", t->shape.ndim);
    for (int i = 0; i < t->shape.ndim; i++) see("dim", t->shape.dim[i]);
    const int64_t n = tp_tensor_size(t);
    if (t->dtype != TP_F32) {
        if (n > 0) see("hash", (int64_t)tp_hash(t->data, tp_tensor_bytes(t)));
        return;
    }
    uint64_t h = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = tp_tensor_get(t, i) * 64 + 0.3137; /* no number with few bits lies near a border */
        h = tp_test_mix(h ^ (uint64_t)(fabs(x) < 1e8 ? (int64_t)floor(x) : 77));
    }
    see("coarse", (int64_t)h);
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
    golden_compare("digests_augment.txt", section);
}

/* ==== >>augmentors ==================================================================================== */

/* A descriptor, all zero. */
#define DESC(type_, d_) \
    type_ d_;           \
    memset(&d_, 0, sizeof d_)

static tp_augmentor *any_size(int which)
{
    switch (which) {
    case 0: {
        DESC(tp_aug_resize_desc, d);
        d.h = any_int(20);
        if (chance(70)) d.w = any_int(20);
        d.interp = any_name(TP_INTER_LANCZOS), d.antialias = any_tri();
        return tp_aug_resize_(&d);
    }
    case 1: {
        DESC(tp_aug_resize_shortest_edge_desc, d);
        d.size = any_int(20), d.interp = any_name(TP_INTER_LANCZOS), d.antialias = any_tri();
        return tp_aug_resize_shortest_edge_(&d);
    }
    case 2: {
        DESC(tp_aug_random_resize_desc, d);
        d.pixels = any_tri();
        any_range(d.xrange, 0.25f, d.pixels == TP_YES ? 24 : 2);
        any_range(d.yrange, 0.25f, d.pixels == TP_YES ? 24 : 2);
        if (odd && chance(20)) d.xrange[1] = chance(50) ? 1e6f : 1000001;
        if (odd && chance(20)) d.yrange[1] = chance(50) ? 1e6f : 1000001;
        for (int i = 0; i < 2; i++) d.minimum[i] = chance(50) ? 0 : any_int(9);
        d.aspect_ratio_thres = any_part(0.5f), d.interp = any_name(TP_INTER_LANCZOS), d.antialias = any_tri();
        return tp_aug_random_resize_(&d);
    }
    case 3: {
        const int h = any_int(9), w = any_int(9);
        return chance(50) ? tp_aug_random_crop(h, w) : tp_aug_center_crop(h, w);
    }
    case 4: {
        DESC(tp_aug_random_crop_random_shape_desc, d);
        d.wmin = any_int(5), d.hmin = any_int(5);
        if (chance(60)) d.wmax = any_int(12);
        if (chance(60)) d.hmax = any_int(12);
        return tp_aug_random_crop_random_shape_(&d);
    }
    case 5: {
        DESC(tp_aug_google_net_random_crop_and_resize_desc, d);
        any_range(d.crop_area_fraction, 0, 1);
        any_range(d.aspect_ratio_range, 0.001f, odd ? 1000 : 3);
        d.target_shape = any_int(16), d.interp = any_name(TP_INTER_LANCZOS), d.antialias = any_tri();
        return tp_aug_google_net_random_crop_and_resize_(&d);
    }
    default: {
        DESC(tp_aug_random_cutout_desc, d);
        d.h_range[0] = any_int(6), d.w_range[0] = any_int(6), d.fill = any_float(300);
        if (d.h_range[0] > 1 << 30 || d.w_range[0] > 1 << 30) return tp_aug_random_cutout_(&d);
        if (chance(50)) d.h_range[1] = d.h_range[0] + (odd ? draw(4) - 1 : 1 + draw(3));
        if (chance(50)) d.w_range[1] = d.w_range[0] + (odd ? draw(4) - 1 : 1 + draw(3));
        return tp_aug_random_cutout_(&d);
    }
    }
}

static tp_augmentor *any_border(int which)
{
    switch (which) {
    case 0: {
        DESC(tp_aug_pad_desc, d);
        int *const side[] = {&d.pad, &d.top, &d.bottom, &d.left, &d.right};
        for (int i = 0; i < 5; i++)
            if (chance(40)) *side[i] = any_int(6) - 1;
        d.border = any_name(TP_EDGE_WRAP), d.border_value = any_float(300);
        return tp_aug_pad_(&d);
    }
    case 1: {
        DESC(tp_aug_paste_desc, d);
        d.h = any_int(30), d.fill = any_float(300);
        if (chance(70)) d.w = any_int(30);
        return chance(50) ? tp_aug_center_paste_(&d) : tp_aug_random_paste_(&d);
    }
    case 2: {
        DESC(tp_aug_flip_desc, d);
        d.horiz = any_tri(), d.prob = any_part(1);
        d.vert = odd ? any_tri() : d.horiz == TP_YES ? TP_NO : TP_YES;
        return tp_aug_flip_(&d);
    }
    case 3: {
        DESC(tp_aug_transpose_desc, d);
        d.prob = any_part(1);
        return tp_aug_transpose_(&d);
    }
    default: {
        DESC(tp_aug_shift_desc, d);
        d.horiz_frac = any_part(1), d.vert_frac = any_part(1);
        d.border = any_name(TP_EDGE_WRAP), d.border_value = any_float(300);
        return tp_aug_shift_(&d);
    }
    }
}

static tp_augmentor *any_warp(int which)
{
    static const float steps[] = {0, 0, 90, 45, 60, 180, 7, 181, -1, NAN, 1};
    switch (which) {
    case 0: {
        DESC(tp_aug_rotation_desc, d);
        d.step_deg = odd ? DRAW_OF(steps) : chance(30) ? 45 : 0;
        d.max_deg = d.step_deg > 0 && !(odd && chance(20)) ? 180 : any_part(odd ? 1e6f : 180);
        any_range(d.center_range, 0, odd ? 1e6f : 1);
        d.interp = any_name(TP_INTER_CUBIC), d.border = any_name(TP_EDGE_WRAP), d.border_value = any_float(300);
        return tp_aug_rotation_(&d);
    }
    case 1: {
        DESC(tp_aug_rotation_and_crop_valid_desc, d);
        d.step_deg = odd ? DRAW_OF(steps) : chance(30) ? 45 : 0;
        d.max_deg = d.step_deg > 0 && !(odd && chance(20)) ? 180 : any_part(odd ? 1e6f : 180);
        d.interp = any_name(TP_INTER_CUBIC);
        return tp_aug_rotation_and_crop_valid_(&d);
    }
    default: {
        DESC(tp_aug_affine_desc, d);
        any_range(d.scale, odd ? 0.001f : 0.5f, odd ? 1000 : 2);
        for (int i = 0; i < 2; i++) d.translate_frac[i] = chance(50) ? 0 : any_part(odd ? 100 : 0.5f);
        d.rotate_max_deg = any_part(odd ? 1e6f : 180);
        d.shear = chance(50) ? 0 : any_part(90);
        d.interp = any_name(TP_INTER_CUBIC), d.border = any_name(TP_EDGE_WRAP), d.border_value = any_float(300);
        return tp_aug_affine_(&d);
    }
    }
}

static tp_augmentor *any_colour(int which)
{
    switch (which) {
    case 0: {
        DESC(tp_aug_brightness_desc, d);
        d.delta = any_part(odd ? 1e6f : 200), d.clip = any_tri();
        return tp_aug_brightness_(&d);
    }
    case 1: {
        DESC(tp_aug_brightness_scale_desc, d);
        any_range(d.range, odd ? -1e6f : 0, odd ? 1e6f : 2);
        d.clip = any_tri();
        return tp_aug_brightness_scale_(&d);
    }
    case 2: {
        DESC(tp_aug_contrast_desc, d);
        any_range(d.factor_range, odd ? -1e6f : 0, odd ? 1e6f : 2);
        d.rgb = any_tri(), d.clip = any_tri();
        return tp_aug_contrast_(&d);
    }
    case 3: {
        DESC(tp_aug_saturation_desc, d);
        d.alpha = any_part(1), d.rgb = any_tri(), d.clip = any_tri();
        return tp_aug_saturation_(&d);
    }
    case 4: {
        DESC(tp_aug_hue_desc, d);
        any_range(d.range, odd ? -1e6f : -360, odd ? 1e6f : 720);
        d.rgb = any_tri();
        return tp_aug_hue_(&d);
    }
    case 5: {
        DESC(tp_aug_gamma_desc, d);
        any_range(d.range, -0.999f, odd ? 1e6f : 3);
        return tp_aug_gamma_(&d);
    }
    case 6: {
        DESC(tp_aug_clip_desc, d);
        d.min = any_float(300), d.max = any_float(300);
        if (!odd && d.max < d.min) d.min = -300;
        return tp_aug_clip_(&d);
    }
    default: {
        DESC(tp_aug_lighting_desc, d);
        d.std = any_part(odd ? 1e6f : 1), d.clip = any_tri();
        for (int i = 0; i < 3; i++) d.eigval[i] = chance(60) ? 0 : any_float(60);
        for (int i = 0; i < 9; i++) d.eigvec[i] = chance(80) ? 0 : any_float(1);
        return tp_aug_lighting_(&d);
    }
    }
}

static tp_augmentor *any_whole(int which)
{
    switch (which) {
    case 0: {
        DESC(tp_aug_mean_variance_normalize_desc, d);
        d.all_channel = any_tri();
        return tp_aug_mean_variance_normalize_(&d);
    }
    case 1: {
        DESC(tp_aug_min_max_normalize_desc, d);
        d.min = any_float(300), d.max = any_float(300), d.all_channel = any_tri();
        return tp_aug_min_max_normalize_(&d);
    }
    case 2: {
        DESC(tp_aug_grayscale_desc, d);
        d.rgb = any_tri(), d.keepshape = any_tri(), d.keepdims = any_tri();
        if (!odd && d.keepshape == TP_YES) d.keepdims = TP_YES;
        return tp_aug_grayscale_(&d);
    }
    case 3:
    case 4: {
        DESC(tp_aug_color_space_desc, d);
        d.mode = odd ? any_name(TP_COLOR_HSV2BGR) : 1 + draw(TP_COLOR_HSV2BGR);
        d.keepdims = any_tri();
        return tp_aug_color_space_(&d);
    }
    case 5: return tp_aug_to_uint8();
    case 6: return tp_aug_to_float32();
    default: return tp_aug_identity();
    }
}

static tp_augmentor *any_noise(int which)
{
    static const int odd_sizes[] = {-1, 0, 1, 100, 9999, 10000, 10001};
    static const int odd_qualities[] = {-1, 0, 1, 2, 99, 100, 101, 102};
    switch (which) {
    case 0:
    case 1: {
        DESC(tp_aug_gaussian_blur_desc, d);
        if (chance(80)) d.size_range[0] = draw(7), d.size_range[1] = d.size_range[0] + 1 + draw(4);
        const int end = draw(2);
        if (odd) d.size_range[end] = DRAW_OF(odd_sizes);
        any_range(d.sigma_range, 0, odd ? 1e6f : 3);
        d.symmetric = any_tri();
        return tp_aug_gaussian_blur_(&d);
    }
    case 2:
    case 3: {
        DESC(tp_aug_jpeg_noise_desc, d);
        if (chance(80)) d.quality_range[0] = 1 + draw(100), d.quality_range[1] = 1 + d.quality_range[0];
        const int end = draw(2);
        if (odd) d.quality_range[end] = DRAW_OF(odd_qualities);
        d.subsample = any_tri();
        return tp_aug_jpeg_noise_(&d);
    }
    case 4: {
        DESC(tp_aug_gaussian_noise_desc, d);
        d.sigma = any_part(odd ? 1e6f : 60), d.clip = any_tri();
        return tp_aug_gaussian_noise_(&d);
    }
    default: {
        DESC(tp_aug_salt_pepper_noise_desc, d);
        d.white_prob = any_part(odd ? 1 : 0.5f), d.black_prob = any_part(odd ? 1 : 0.5f);
        return tp_aug_salt_pepper_noise_(&d);
    }
    }
}

/* -- a function of the program */

static tp_status invert(const tp_tensor *in, tp_tensor *out, const tp_aug_call *call)
{
    const tp_status st = tp_tensor_resize(out, in->dtype, in->shape);
    for (int64_t i = 0; i < tp_tensor_size(in) && st == TP_OK; i++)
        tp_tensor_set(out, i, (double)((255 + call->index) % 256) - tp_tensor_get(in, i));
    return st;
}
static tp_status halve(const tp_tensor *in, tp_tensor *out, const tp_aug_call *call)
{
    tp_shape shape = in->shape;
    (void)call;
    shape.dim[0] = (shape.dim[0] + 1) / 2;
    const tp_status st = tp_tensor_resize(out, in->dtype, shape);
    if (st == TP_OK) memcpy(out->data, in->data, tp_tensor_bytes(out));
    return st;
}
static tp_status fail(const tp_tensor *in, tp_tensor *out, const tp_aug_call *call)
{
    (void)in, (void)out, (void)call;
    return tp_fail(TP_ERR_IO, "the function has failed");
}
static void half_point(float *x, float *y, const tp_aug_call *call)
{
    *x += (float)call->index;
    *y *= 0.5f;
}
static void half_size(int64_t *h, int64_t *w, const tp_aug_call *call)
{
    (void)w, (void)call;
    *h = (*h + 1) / 2;
}
static int n_made, n_released;
static void release(void *user) { n_released += user != NULL; }

static tp_augmentor *any_function(void)
{
    static const tp_aug_image_fn fns[] = {halve, halve, invert, fail, NULL};
    DESC(tp_aug_map_image_desc, d);
    d.fn = chance(odd ? 50 : 100) ? halve : DRAW_OF(fns);
    d.mask_fn = chance(70) ? halve : DRAW_OF(fns);
    if (chance(80)) d.coords_fn = half_point;
    if (chance(odd ? 60 : 100)) d.size_fn = half_size;
    d.user = &n_made, d.release = release;
    n_made++;
    return tp_aug_map_image_(&d);
}

static tp_augmentor *any_augmentor(int depth);
static tp_augmentor *any_parent(int depth)
{
    static const double chances[][3] = {{0.25, 0.75, 0},     {0.5, 0.25, 0.25},  {1, 0, 0},     {0.5, 0.6, 0},
                                        {0.5, 0.4999985, 0}, {-0.5, 1.5, 0},     {0.5, 0.5, 0}, {0.5, 0.4999995, 0},
                                        {0.5, 0.5000005, 0}, {0.5, 0.5000015, 0}};
    static const double parts[] = {0, 0.5, 0.9, 1, 1.01, -0.01, 1e-9};
    tp_augmentor *child[4] = {NULL, NULL, NULL, NULL};
    const bool wrong = odd;
    const int n = wrong && chance(10) ? 0 : 1 + draw(4), kind = draw(4);
    odd = false;
    for (int i = 0; i < n; i++) {
        if (wrong && chance(10)) odd = true;
        child[i] = any_augmentor(depth - 1);
        odd = false;
    }
    if (kind == 0) return tp_aug_list(child, n);
    if (kind == 1) return tp_aug_random_order(child, n);
    if (kind == 2 && n <= 3) {
        const double *p = chance(40) ? NULL : chances[draw(wrong ? TP_COUNT(chances) : 3)];
        return tp_aug_random_choose(child, n, p);
    }
    for (int i = 1; i < n; i++) tp_aug_free(child[i]);
    if (n == 0) child[0] = tp_aug_identity();
    return tp_aug_random_apply(child[0], parts[draw(wrong ? TP_COUNT(parts) : 4)]);
}
static tp_augmentor *any_augmentor(int depth)
{
    if (depth > 0 && chance(50)) return any_parent(depth);
    switch (draw(13)) {
    case 0:
    case 1:
    case 2: return any_size(draw(7));
    case 3:
    case 4: return any_border(draw(5));
    case 5:
    case 6: return any_warp(draw(3));
    case 7:
    case 8: return any_colour(draw(8));
    case 9: return any_whole(draw(8));
    case 10:
    case 11: return any_noise(draw(6));
    default: return chance(30) ? any_function() : any_colour(draw(8));
    }
}

/* ==== >>images ======================================================================================== */

static void any_image(tp_tensor *t, int64_t h, int64_t w)
{
    const int channels[] = {3, 3, 3, 3, 1, 0, 2, 4, 5};
    const int c = DRAW_OF(channels), kind = draw(6), start = draw(64);
    const int64_t dim[3] = {h, w, c};
    if (!CHECK_OK(tp_tensor_resize(t, chance(55) ? TP_U8 : TP_F32, tp_make_shape_n(c ? 3 : 2, dim)))) return;
    for (int64_t i = 0; i < tp_tensor_size(t); i++) {
        const int64_t pixel = i / (c ? c : 1);
        const double noise = (double)(draw64() & 255),
                     smooth = (double)((start + 7 * (pixel % w) + 3 * (pixel / w)) & 255);
        double v = kind == 0   ? (start > 40 ? 255 : start)
                   : kind == 1 ? smooth
                   : kind == 2 ? (smooth > 80 ? 255 : 0)
                               : noise;
        if (t->dtype == TP_F32) v = kind == 3 ? v / 256 : kind == 4 ? 1.25 * v - 30.5 : v;
        tp_tensor_set(t, i, v);
    }
}
static void any_mask(tp_tensor *t, int64_t h, int64_t w)
{
    static const tp_dtype dtypes[] = {TP_U8, TP_U8, TP_I32, TP_F32, TP_I64, TP_F64, TP_BOOL, TP_F16, TP_BF16};
    const int c = draw(4);
    const int64_t dim[3] = {h, w, c};
    if (!CHECK_OK(tp_tensor_resize(t, DRAW_OF(dtypes), tp_make_shape_n(c ? 3 : 2, dim)))) return;
    for (int64_t i = 0; i < tp_tensor_size(t); i++) tp_tensor_set(t, i, (double)(draw64() & 63));
}
static void any_points(tp_tensor *t, int columns)
{
    const int rows = draw(4), ndim = chance(97) ? 2 : 1;
    const tp_dtype dtype = chance(97) ? TP_F32 : TP_F64;
    const int64_t dim[2] = {rows, columns + (chance(3) ? 1 : 0)};
    if (!CHECK_OK(tp_tensor_resize(t, dtype, tp_make_shape_n(ndim, dim)))) return;
    for (int64_t i = 0; i < tp_tensor_size(t); i++) tp_tensor_set(t, i, (double)(draw(400) - 100) / 8);
}

/* An image, a mask or points that do not fit, some of them. */
static void one_misfit(void)
{
    static const tp_dtype dtypes[] = {TP_U8, TP_F32, TP_I32, TP_BOOL, TP_F64};
    tp_transform t;
    tp_tensor in, out;
    memset(&t, 0, sizeof t);
    memset(&in, 0, sizeof in);
    memset(&out, 0, sizeof out);
    odd = false;
    tp_augmentor *a = any_augmentor(1);
    if (chance(90)) see_status("draw", tp_aug_draw(a, 4, 6, 1, draw(9), &t));
    const int h = chance(90) ? 4 : draw(6), w = chance(90) ? 6 : draw(8), c = chance(90) ? 3 : 0;
    const int ndim = chance(80) ? 3 : draw(5);
    const int64_t dim[4] = {h, w, c, 1};
    CHECK_OK(tp_tensor_resize(&in, DRAW_OF(dtypes), tp_make_shape_n(ndim, dim)));
    for (int64_t i = 0; i < tp_tensor_size(&in); i++) tp_tensor_set(&in, i, (double)(i % 64));
    if (see_status("image", tp_aug_apply_image(&t, &in, &out)) == TP_OK) see_tensor(&out);
    if (see_status("mask", tp_aug_apply_mask(&t, &in, 3, &out)) == TP_OK) see_tensor(&out);
    for (int columns = 1; columns <= 4; columns++) {
        any_points(&in, columns);
        if (see_status("points", tp_aug_apply_coords(&t, &in, &out)) == TP_OK) see_tensor(&out);
        if (see_status("boxes", tp_aug_apply_boxes(&t, &in, &out)) == TP_OK) see_tensor(&out);
    }
    tp_tensor_free(&in);
    tp_tensor_free(&out);
    tp_transform_free(&t);
    tp_aug_free(a);
}

/* Applies the transform to everything that it can be applied to. */
static void apply_all(tp_transform *t)
{
    static const double fills[] = {0, 1, 7, 254.5, -1, 300};
    tp_tensor in, out;
    memset(&in, 0, sizeof in);
    memset(&out, 0, sizeof out);
    any_image(&in, t->h, t->w);
    if (see_status("image", tp_aug_apply_image(t, &in, &out)) == TP_OK) see_tensor(&out);
    any_mask(&in, t->h, t->w);
    const double fill = DRAW_OF(fills);
    if (see_status("mask", tp_aug_apply_mask(t, &in, fill, &out)) == TP_OK) see_tensor(&out);
    any_points(&in, 2);
    if (see_status("points", tp_aug_apply_coords(t, &in, &out)) == TP_OK) see_tensor(&out);
    any_points(&in, 4);
    if (see_status("boxes", tp_aug_apply_boxes(t, &in, &out)) == TP_OK) see_tensor(&out);
    tp_tensor_free(&in);
    tp_tensor_free(&out);
}

static void one_image(void)
{
    static const int64_t sides[] = {1, 2, 3, 5, 8, 9, 12, 16, 17, 24, 3, 7, 16, 70};
    static const int64_t odd_sides[] = {-1, 0, 1, (int64_t)1 << 24, ((int64_t)1 << 24) + 1, 100};
    char text[4096];
    tp_transform t;
    memset(&t, 0, sizeof t);
    odd = chance(40);
    tp_augmentor *a = any_augmentor(2);
    if (see_status("made", tp_aug_status(a)) == TP_OK) {
        const int64_t h = chance(3) ? DRAW_OF(odd_sides) : DRAW_OF(sides),
                      w = chance(3) ? DRAW_OF(odd_sides) : DRAW_OF(sides);
        const uint64_t key = draw64();
        for (int i = 0; i < 3; i++) { /* what a transform keeps for the next image does not change it */
            const int64_t index = i == 2 ? ((int64_t)1 << 40) + draw(100) : i;
            if (see_status("draw", tp_aug_draw(a, h, w, key, index, &t)) != TP_OK) continue;
            see_text(tp_transform_text(&t, text, sizeof text));
            see("n", t.n), see("h", t.out_h), see("w", t.out_w);
            if (t.h * t.w <= 5000 && t.out_h * t.out_w <= 65536) apply_all(&t);
        }
    }
    tp_transform_free(&t);
    tp_aug_free(a);
}
TEST(images_are_what_they_were)
{
    run_section("images", 18000, 6, one_image);
    CHECK_MSG(n_released == n_made, "%d of %d functions were released", n_released, n_made);
}

/* What is compiled for AVX2 computes what is compiled for every processor, which TP_ISA=naive asks for. */
TEST(instruction_sets_give_the_same_bits)
{
    static const int64_t sides[] = {1, 2, 3, 5, 7, 8, 16, 17, 31, 33, 70, 131, 260};
    tp_transform t;
    tp_tensor in, out[2];
    char saved[64] = "";
    const char *env = getenv("TP_ISA");
    int n_compared = 0;
    if (env) snprintf(saved, sizeof saved, "%s", env);
    memset(&t, 0, sizeof t);
    memset(&in, 0, sizeof in);
    memset(out, 0, sizeof out);
    for (int i = 0; i < 3000; i++) {
        tp_status st[2] = {TP_OK, TP_OK};
        char text[4096];
        for (int k = 0; k < 2; k++) {
            state = tp_test_mix((uint64_t)i) ^ tp_hash_name("instruction sets");
            odd = false;
            if (k) unsetenv("TP_ISA");
            else setenv("TP_ISA", "naive", 1);
            tp_augmentor *a = any_augmentor(1);
            const int64_t h = DRAW_OF(sides), w = DRAW_OF(sides);
            st[k] = tp_aug_draw(a, h, w, 1, i, &t);
            if (t.out_h * t.out_w > 100000) st[k] = TP_ERR_SHAPE;
            if (st[k] == TP_OK) any_image(&in, h, w);
            if (st[k] == TP_OK) st[k] = tp_aug_apply_image(&t, &in, &out[k]);
            tp_transform_text(&t, text, sizeof text);
            tp_aug_free(a);
        }
        CHECK(st[0] == st[1]);
        n_compared += st[0] == TP_OK;
        CHECK_MSG(st[0] != TP_OK || (tp_tensor_bytes(&out[0]) == tp_tensor_bytes(&out[1]) &&
                                     memcmp(out[0].data, out[1].data, tp_tensor_bytes(&out[0])) == 0),
                  "case %d: %s", i, text);
    }
    if (env) setenv("TP_ISA", saved, 1);
    CHECK_MSG(n_compared > 1000, "%d images were compared", n_compared);
    tp_tensor_free(&in);
    for (int k = 0; k < 2; k++) tp_tensor_free(&out[k]);
    tp_transform_free(&t);
}

TEST(what_does_not_fit_is_told) { run_section("misfits", 1600, 5, one_misfit); }

/* ==== >>flows ========================================================================================= */

static tp_status generate(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    const int components = *(const int *)user;
    if (index >= 4) return TP_END;
    const uint64_t before = state;
    state = tp_test_mix((uint64_t)(10 * pass + index));
    const tp_status st = tp_datapoint_resize(dp, components);
    for (int i = 0; i < components && st == TP_OK; i++) {
        if (i < 2) any_image(&dp->c[i], 8, chance(80) ? 9 : 12);
        else if (i == 2) any_mask(&dp->c[i], 8, 9);
        else any_points(&dp->c[i], i == 3 ? 2 : 4);
    }
    state = before;
    return st;
}

static void any_list(int *list, int *n, int component)
{
    static const int odd_counts[] = {-1, 0, 7, 8, 9, 2};
    list[0] = component;
    list[1] = chance(50) ? component : draw(6) - 1;
    *n = odd && chance(20) ? DRAW_OF(odd_counts) : draw(2);
    if (odd && chance(10)) list[0] = draw(7) - 1;
}
static tp_dataflow *any_flow(tp_dataflow *df, tp_augmentor *a)
{
    static const int indices[] = {0, 0, 0, 0, 1, 2, 5, -1};
    static const uint64_t seeds[] = {0, 0, 1, 7, (uint64_t)TP_NONE};
    const int index = indices[draw(odd ? TP_COUNT(indices) : 5)], second = odd && chance(30) ? draw(7) - 1 : 3;
    const uint64_t seed = DRAW_OF(seeds);
    const tp_tri catches = any_tri();
    const int kind = draw(4);
    if (kind == 0) {
        DESC(tp_df_augment_image_desc, d);
        d.df = df, d.augmentors = a, d.index = index, d.catch_exceptions = catches, d.seed = seed;
        return tp_df_augment_image_(&d);
    }
    if (kind == 1) {
        DESC(tp_df_augment_coordinates_desc, d);
        d.df = df, d.augmentors = a, d.img_index = index, d.coords_index = second;
        d.catch_exceptions = catches, d.seed = seed;
        return tp_df_augment_coordinates_(&d);
    }
    DESC(tp_df_augment_images_desc, d);
    d.df = df, d.augmentors = a, d.mask_fill = any_float(300), d.catch_exceptions = catches, d.seed = seed;
    any_list(d.index, &d.n_index, 0);
    any_list(d.mask_index, &d.n_mask_index, 2);
    any_list(d.coords_index, &d.n_coords_index, 3);
    any_list(d.box_index, &d.n_box_index, 4);
    return tp_df_augment_images_(&d);
}

static void see_log(void *user, tp_log_level level, const char *message)
{
    (void)user;
    if (!strstr(message, "channels meant?")) see_text(message); /* that is said once */
    see("level", (int64_t)level);
}
static void one_flow(void)
{
    int components = chance(90) ? 5 : 1 + draw(5);
    odd = chance(30);
    tp_augmentor *a = chance(3) ? NULL : any_augmentor(1);
    odd = chance(50);
    DESC(tp_df_from_generator_desc, d);
    d.fn = generate, d.user = &components, d.size = 4;
    tp_dataflow *df = any_flow(tp_df_from_generator_(&d), a);
    tp_datapoint dp;
    memset(&dp, 0, sizeof dp);
    if (see_status("made", tp_df_status(df)) == TP_OK) {
        see("size", tp_df_size(df));
        tp_status st = see_status("restart", tp_df_restart(df, draw(3)));
        for (int i = 0; i < 10 && st == TP_OK; i++) {
            st = see_status("next", tp_df_next(df, &dp));
            for (int c = 0; c < dp.n && st == TP_OK; c++) see_tensor(&dp.c[c]);
        }
    }
    tp_datapoint_free(&dp);
    tp_df_free(df);
}
TEST(flows_of_images_give_what_they_gave)
{
    tp_set_log(see_log, NULL);
    run_section("flows", 2400, 6, one_flow);
    tp_set_log(NULL, NULL);
}

TEST_MAIN()
