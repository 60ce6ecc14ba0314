/* test_augment.c - augmentors of images (tp_input.h) */
#define TP_IMPLEMENTATION
#include "tp_input.h"
#include "tp_test.h"
#include "augment_vectors.h"

/* ==== >>helpers ======================================================================================= */

static tp_tensor new_image(tp_dtype dtype, int64_t h, int64_t w, int64_t c)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    const int64_t dim[3] = {h, w, c};
    CHECK_OK(tp_tensor_resize(&t, dtype, tp_make_shape_n(c ? 3 : 2, dim)));
    return t;
}

static int digit(char c) { return c >= 'a' ? c - 'a' + 10 : c - '0'; }
static void from_hex(void *to, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)to)[i] = (unsigned char)(16 * digit(text[2 * i]) + digit(text[2 * i + 1]));
}

/* A view of static memory, which holds until the next call. */
static tp_tensor vector_image(const augment_vector *v)
{
    static unsigned char bytes[2048];
    static float floats[2048];
    tp_tensor t;
    const int64_t dim[3] = {v->in[0], v->in[1], v->in[2]}, n = dim[0] * dim[1] * dim[2];
    memset(&t, 0, sizeof t);
    from_hex(bytes, v->image, (size_t)n);
    for (int64_t i = 0; i < n; i++) floats[i] = (float)bytes[i] * 0.75f + 0.125f;
    tp_tensor_view(&t, v->floats ? TP_F32 : TP_U8, tp_make_shape_n(3, dim), v->floats ? (void *)floats : (void *)bytes);
    return t;
}

static void check_vector(int i, const tp_tensor *got, const char *steps)
{
    const augment_vector *v = &augment_vectors[i];
    const int64_t dim[3] = {v->out[0], v->out[1], v->out[2]};
    const tp_shape shape = tp_make_shape_n(v->ndim, dim);
    char text[TP_SHAPE_TEXT];
    if (!CHECK_MSG(got->dtype == (v->out_floats ? TP_F32 : TP_U8) && tp_shape_equal(&got->shape, &shape),
                   "case %d: %s: %s %s", i, steps, tp_dtype_name(got->dtype), tp_shape_text(&got->shape, text)))
        return;
    double most = 0, sum = 0;
    const int64_t n = tp_tensor_size(got);
    tp_tensor want = new_image(got->dtype, v->out[0], v->out[1], v->out[2]);
    from_hex(want.data, v->result, tp_tensor_bytes(&want));
    for (int64_t k = 0; k < n; k++) {
        const double d = fabs(tp_tensor_get(got, k) - tp_tensor_get(&want, k));
        most = d > most || d != d ? d : most;
        sum += d;
    }
    CHECK_MSG(most <= v->most && sum / (double)n <= v->mean, "case %d: %s: differs by up to %g, %g in the mean", i,
              steps, most, sum / (double)n);
    tp_tensor_free(&want);
}

/* ==== >>values ======================================================================================== */

/* Every augmentor against Pillow, numpy and OpenCV's formulas: see gen_augment.py. */
TEST(augmentors_do_what_others_do)
{
    tp_transform t;
    memset(&t, 0, sizeof t);
    for (int i = 0; i < TP_COUNT(augment_vectors); i++) {
        char steps[512];
        tp_augmentor *a = vector_augmentor(i);
        tp_tensor image = vector_image(&augment_vectors[i]), out;
        memset(&out, 0, sizeof out);
        if (CHECK_OK(tp_aug_draw(a, image.shape.dim[0], image.shape.dim[1], VECTOR_KEY, VECTOR_INDEX, &t)) &&
            CHECK_OK(tp_aug_apply_image(&t, &image, &out)))
            check_vector(i, &out, tp_transform_text(&t, steps, sizeof steps));
        CHECK(t.out_h == out.shape.dim[0] && t.out_w == out.shape.dim[1]);
        tp_tensor_free(&image);
        tp_tensor_free(&out);
        tp_aug_free(a);
    }
    tp_transform_free(&t);
}

/* ==== >>drawing ======================================================================================= */

static tp_augmentor *usual(void)
{
    return tp_aug_list(TP_AUGS(tp_aug_pad(.pad = 4), tp_aug_random_crop(12, 10), tp_aug_flip(.horiz = TP_YES),
                               tp_aug_brightness(.delta = 63), tp_aug_contrast(.factor_range = {0.2f, 1.8f})));
}

static const char *steps_of(const tp_augmentor *a, int64_t h, int64_t w, uint64_t key, int64_t index, char *text,
                            size_t n)
{
    tp_transform t;
    memset(&t, 0, sizeof t);
    CHECK_OK(tp_aug_draw(a, h, w, key, index, &t));
    tp_transform_text(&t, text, n);
    tp_transform_free(&t);
    return text;
}

/* What is drawn depends on the key, the index and the place; not on what was drawn before. */
TEST(drawing_is_a_function_of_key_index_and_place)
{
    char a[256], b[256];
    tp_augmentor *aug = usual();
    tp_transform t;
    memset(&t, 0, sizeof t);
    for (int64_t i = 0; i < 8; i++) {
        CHECK_OK(tp_aug_draw(aug, 12, 10, 1, i, &t));
        CHECK_STR(tp_transform_text(&t, a, sizeof a), steps_of(aug, 12, 10, 1, i, b, sizeof b));
    }
    CHECK(strcmp(steps_of(aug, 12, 10, 1, 0, a, sizeof a), steps_of(aug, 12, 10, 1, 1, b, sizeof b)) != 0);
    CHECK(strcmp(a, steps_of(aug, 12, 10, 2, 0, b, sizeof b)) != 0);
    tp_aug_free(aug);
    /* the second of a list, whatever the first does */
    tp_augmentor *one = tp_aug_list(TP_AUGS(tp_aug_identity(), tp_aug_brightness(.delta = 9)));
    tp_augmentor *two = tp_aug_list(TP_AUGS(tp_aug_flip(.vert = TP_YES, .prob = 1), tp_aug_brightness(.delta = 9)));
    const double v = -9 + 18 * (double)tp_random_uniform(tp_random_key(77, 2), 3, 0);
    snprintf(a, sizeof a, "Brightness(factor=1, plus=%.6g, clip=1)", v);
    CHECK_STR(steps_of(one, 5, 5, 77, 3, b, sizeof b), a);
    CHECK(strstr(steps_of(two, 5, 5, 77, 3, b, sizeof b), a) != NULL);
    tp_aug_free(one);
    tp_aug_free(two);
    tp_transform_text(&t, a, 5); /* cut off where the buffer ends */
    CHECK_STR(a, "Pad(");
    tp_transform_free(&t);
}

/* How often one of the steps of n draws has this text in it. */
static int count_draws(const tp_augmentor *a, const char *part, int n)
{
    char text[256];
    int found = 0;
    for (int i = 0; i < n; i++) found += strstr(steps_of(a, 20, 20, 5, i, text, sizeof text), part) != NULL;
    return found;
}

TEST(choices_have_their_probabilities)
{
    const double prob[3] = {0.2, 0.5, 0.3};
    tp_augmentor *a = tp_aug_flip(.horiz = TP_YES, .prob = 0.25f);
    CHECK(abs(count_draws(a, "Flip", 4000) - 1000) < 110); /* four deviations */
    tp_aug_free(a);
    a = tp_aug_random_apply(tp_aug_flip(.vert = TP_YES, .prob = 1), 0.7);
    CHECK(abs(count_draws(a, "Flip(horiz=0)", 4000) - 2800) < 116);
    tp_aug_free(a);
    a = tp_aug_random_choose(TP_AUGS(tp_aug_resize(.h = 3), tp_aug_resize(.h = 4), tp_aug_resize(.h = 5)), prob);
    CHECK(abs(count_draws(a, "h=3", 4000) - 800) < 102);
    CHECK(abs(count_draws(a, "h=4", 4000) - 2000) < 127);
    CHECK(abs(count_draws(a, "h=5", 4000) - 1200) < 116);
    tp_aug_free(a);
    a = tp_aug_random_choose(TP_AUGS(tp_aug_resize(.h = 3), tp_aug_resize(.h = 4)), NULL);
    CHECK(abs(count_draws(a, "h=3", 4000) - 2000) < 127);
    tp_aug_free(a);
    a = tp_aug_random_order(TP_AUGS(tp_aug_resize(.h = 3), tp_aug_resize(.h = 4), tp_aug_resize(.h = 5)));
    static const char *const order[6] = {"h=3*h=4*h=5", "h=3*h=5*h=4", "h=4*h=3*h=5",
                                         "h=4*h=5*h=3", "h=5*h=3*h=4", "h=5*h=4*h=3"};
    int seen[6] = {0};
    for (int i = 0; i < 3000; i++) {
        char text[256];
        steps_of(a, 20, 20, 5, i, text, sizeof text);
        for (int k = 0; k < 6; k++) {
            char first[4] = {0}, second[4] = {0};
            memcpy(first, order[k], 3);
            memcpy(second, order[k] + 4, 3);
            const char *x = strstr(text, first), *y = strstr(text, second), *z = strstr(text, order[k] + 8);
            seen[k] += x && y && z && x < y && y < z;
        }
    }
    for (int k = 0; k < 6; k++) CHECK_MSG(abs(seen[k] - 500) < 82, "order %d came %d times of 3000", k, seen[k]);
    tp_aug_free(a);
    a = tp_aug_random_crop(18, 19); /* 3 by 2 places */
    for (int y = 0; y < 3; y++)
        for (int x = 0; x < 2; x++) {
            char text[32];
            snprintf(text, sizeof text, "y0=%d, x0=%d,", y, x);
            CHECK(abs(count_draws(a, text, 3000) - 500) < 82);
        }
    tp_aug_free(a);
}

/* What has probability 0 is never chosen, also where the others sum to a little less than 1. */
TEST(what_has_no_probability_is_never_chosen)
{
    const double prob[3] = {0, 0.9999995, 0};
    tp_augmentor *a =
        tp_aug_random_choose(TP_AUGS(tp_aug_resize(.h = 3), tp_aug_resize(.h = 4), tp_aug_resize(.h = 5)), prob);
    const uint64_t key = tp_random_key(5, 0);
    char text[256];
    int64_t i = 0;
    while ((double)tp_random_uniform(key, (uint64_t)i, 0) < prob[1]) i++;
    CHECK_HAS(steps_of(a, 20, 20, 5, i, text, sizeof text), "h=4");
    tp_aug_free(a);
}

/* ==== >>masks and points ============================================================================== */

/* All that moves pixels, each so that it does something. */
static tp_augmentor *moving(int which)
{
    switch (which) {
    case 0: return tp_aug_random_crop(25, 30);
    case 1: return tp_aug_center_crop(33, 41);
    case 2: return tp_aug_pad(.pad = 3, .left = 4);
    case 3: return tp_aug_random_paste(.h = 60, .w = 70);
    case 4: return tp_aug_flip(.horiz = TP_YES, .prob = 1);
    case 5: return tp_aug_flip(.vert = TP_YES, .prob = 1);
    case 6: return tp_aug_transpose(.prob = 1);
    case 7: return tp_aug_shift(.horiz_frac = 0.2f, .vert_frac = 0.1f);
    case 8: return tp_aug_resize(.h = 80, .w = 61);
    case 9: return tp_aug_resize(.h = 31, .w = 77, .interp = TP_INTER_CUBIC);
    case 10: return tp_aug_resize_shortest_edge(.size = 29, .interp = TP_INTER_AREA);
    case 11: return tp_aug_random_resize(.xrange = {0.7f, 1.5f});
    case 12: return tp_aug_rotation(.max_deg = 30, .center_range = {0.3f, 0.7f});
    case 13: return tp_aug_rotation_and_crop_valid(.max_deg = 15);
    case 14:
        return tp_aug_affine(.scale = {0.7f, 1.2f}, .translate_frac = {0.1f, 0.1f}, .rotate_max_deg = 20, .shear = 15);
    case 15: return tp_aug_center_paste(.h = 51, .w = 53);
    case 16: return tp_aug_google_net_random_crop_and_resize(.crop_area_fraction = {0.5f, 1}, .target_shape = 40);
    case 17: return tp_aug_random_crop_random_shape(.wmin = 30, .hmin = 30);
    default: return NULL;
    }
}
#define MOVING 18

/* A bump of light at (x,y) of the plane of points. */
static tp_tensor bump(int64_t h, int64_t w, double x, double y)
{
    tp_tensor t = new_image(TP_F32, h, w, 0);
    for (int64_t i = 0; i < h; i++)
        for (int64_t j = 0; j < w; j++) {
            const double dx = (double)j + 0.5 - x, dy = (double)i + 0.5 - y;
            ((float *)t.data)[i * w + j] = (float)(200 * exp(-(dx * dx + dy * dy) / 8));
        }
    return t;
}
static void middle_of_light(const tp_tensor *t, double *x, double *y)
{
    double sum = 0;
    *x = *y = 0;
    for (int64_t i = 0; i < t->shape.dim[0]; i++)
        for (int64_t j = 0; j < t->shape.dim[1]; j++) {
            const double v = tp_tensor_get(t, i * t->shape.dim[1] + j);
            sum += v;
            *x += v * ((double)j + 0.5);
            *y += v * ((double)i + 0.5);
        }
    *x /= sum;
    *y /= sum;
}

/* Where light goes in an image and in a mask, there goes its point. */
TEST(points_and_masks_go_with_the_image)
{
    tp_transform t;
    tp_tensor out, mask, points;
    memset(&t, 0, sizeof t), memset(&out, 0, sizeof out), memset(&mask, 0, sizeof mask),
        memset(&points, 0, sizeof points);
    for (int which = 0; which < MOVING; which++)
        for (int64_t index = 0; index < 4; index++) {
            tp_augmentor *a = moving(which);
            tp_tensor image = bump(40, 50, 24.7, 19.4);
            float at[2] = {24.7f, 19.4f};
            double x, y;
            tp_tensor_view(&points, TP_F32, tp_make_shape(1, 2), at);
            CHECK_OK(tp_aug_draw(a, 40, 50, 9, index, &t));
            CHECK_OK(tp_aug_apply_image(&t, &image, &out));
            CHECK_OK(tp_aug_apply_mask(&t, &image, 0, &mask));
            CHECK_OK(tp_aug_apply_coords(&t, &points, &points));
            CHECK(t.out_h == out.shape.dim[0] && t.out_w == out.shape.dim[1] && out.shape.ndim == 2);
            CHECK(tp_shape_equal(&mask.shape, &out.shape));
            const double px = tp_tensor_get(&points, 0), py = tp_tensor_get(&points, 1);
            middle_of_light(&out, &x, &y);
            CHECK_MSG(fabs(x - px) < 0.03 && fabs(y - py) < 0.03,
                      "augmentor %d: the light is at (%g,%g), the point at (%g,%g)", which, x, y, px, py);
            middle_of_light(&mask, &x, &y);
            CHECK_MSG(fabs(x - px) < 0.35 && fabs(y - py) < 0.35,
                      "augmentor %d: in the mask it is at (%g,%g), the point at (%g,%g)", which, x, y, px, py);
            for (int64_t i = 0; i < tp_tensor_size(&mask); i++) { /* nothing is mixed */
                const float v = ((float *)mask.data)[i];
                bool found = v == 0.0f;
                for (int64_t k = 0; k < 2000 && !found; k++) found = v == ((float *)image.data)[k];
                if (!CHECK(found)) break;
            }
            tp_tensor_free(&image);
            tp_aug_free(a);
        }
    tp_transform_free(&t);
    tp_tensor_free(&out);
    tp_tensor_free(&mask);
    tp_tensor_free(&points);
}

static void check_boxes(tp_augmentor *a, const float *from, const float *to)
{
    tp_transform t;
    tp_tensor boxes, out;
    memset(&t, 0, sizeof t), memset(&boxes, 0, sizeof boxes), memset(&out, 0, sizeof out);
    tp_tensor_view(&boxes, TP_F32, tp_make_shape(1, 4), from);
    CHECK_OK(tp_aug_draw(a, 10, 20, 3, 4, &t));
    CHECK_OK(tp_aug_apply_boxes(&t, &boxes, &out));
    for (int i = 0; i < 4; i++) CHECK_NEAR(((float *)out.data)[i], to[i], 1e-5, 0);
    tp_transform_free(&t);
    tp_tensor_free(&out);
    tp_aug_free(a);
}
TEST(boxes_stay_upright)
{
    const float box[4] = {2, 3, 7, 8};
    const float flipped[4] = {13, 3, 18, 8}, upside[4] = {2, 2, 7, 7}, doubled[4] = {4, 9, 14, 24};
    const float transposed[4] = {3, 2, 8, 7}, padded[4] = {6, 5, 11, 10}, all[4] = {0, 0, 20, 10};
    check_boxes(tp_aug_flip(.horiz = TP_YES, .prob = 1), box, flipped);
    check_boxes(tp_aug_flip(.vert = TP_YES, .prob = 1), box, upside);
    check_boxes(tp_aug_resize(.h = 30, .w = 40), box, doubled);
    check_boxes(tp_aug_transpose(.prob = 1), box, transposed);
    check_boxes(tp_aug_pad(.top = 2, .left = 4), box, padded);
    /* a turn by d: the box around the box has sides w cos + h sin and w sin + h cos */
    tp_augmentor *a = tp_aug_rotation(.max_deg = 80, .center_range = {0.5f, 0.5f});
    const double d = (-80 + 160 * (double)tp_random_uniform(tp_random_key(3, 0), 4, 2)) * acos(-1.0) / 180;
    const double w = 10 * fabs(cos(d)) + 5 * fabs(sin(d)), h = 10 * fabs(sin(d)) + 5 * fabs(cos(d));
    const float turned[4] = {(float)(10 - w), (float)(5 - h), (float)(10 + w), (float)(5 + h)};
    check_boxes(a, all, turned);
}

static tp_status leave(const tp_tensor *in, tp_tensor *out, const tp_aug_call *call)
{
    (void)in, (void)out, (void)call;
    return TP_OK;
}
/* Several boxes move each by itself; nothing behind the last one is written, and no box needs no coords_fn. */
TEST(boxes_of_any_number)
{
    float box[12] = {2, 3, 7, 8, 0, 0, 20, 10, 5, 1, 6, 9};
    const float flipped[12] = {13, 3, 18, 8, 0, 0, 20, 10, 14, 1, 15, 9};
    tp_transform t;
    tp_tensor boxes, out = new_image(TP_F32, 4, 4, 0);
    memset(&t, 0, sizeof t), memset(&boxes, 0, sizeof boxes);
    tp_augmentor *a = tp_aug_flip(.horiz = TP_YES, .prob = 1);
    CHECK_OK(tp_aug_draw(a, 10, 20, 3, 4, &t));
    for (int n = 0; n <= 3; n++) {
        CHECK_OK(tp_tensor_resize(&out, TP_F32, tp_make_shape(4, 4)));
        for (int i = 0; i < 16; i++) ((float *)out.data)[i] = 77;
        const int64_t dim[2] = {n, 4};
        tp_tensor_view(&boxes, TP_F32, tp_make_shape_n(2, dim), box);
        CHECK_OK(tp_aug_apply_boxes(&t, &boxes, &out));
        CHECK(tp_shape_equal(&out.shape, &boxes.shape));
        for (int i = 0; i < 16; i++) CHECK_NEAR(((float *)out.data)[i], i < 4 * n ? flipped[i] : 77, 1e-5, 0);
    }
    tp_aug_free(a);
    a = tp_aug_map_image(.fn = leave);
    CHECK_OK(tp_aug_draw(a, 10, 20, 3, 4, &t));
    for (int n = 0; n <= 3; n++) {
        const int64_t dim[2] = {n, 4};
        tp_tensor_view(&boxes, TP_F32, tp_make_shape_n(2, dim), box);
        if (n == 0) CHECK_OK(tp_aug_apply_boxes(&t, &boxes, &out));
        else CHECK_ERR(tp_aug_apply_boxes(&t, &boxes, &out), TP_ERR_UNSUPPORTED, "without coords_fn");
    }
    tp_aug_free(a);
    tp_transform_free(&t);
    tp_tensor_free(&out);
}

/* A rectangle anywhere in an image that is higher than wide is filled, and nothing beside it. */
TEST(cutouts_lie_where_they_were_drawn)
{
    enum { H = 9, W = 5 };
    tp_transform t;
    memset(&t, 0, sizeof t);
    unsigned seen = 0; /* a bit for each edge of the image that a rectangle touched */
    tp_augmentor *a = tp_aug_random_cutout(.h_range = {2, 4}, .w_range = {1, 3}, .fill = 77);
    for (int index = 0; index < 60; index++) {
        tp_tensor image = new_image(index % 2 ? TP_F32 : TP_U8, H, W, 2), out;
        char text[256];
        int y0 = -1, x0 = -1, h = -1, w = -1;
        memset(&out, 0, sizeof out);
        for (int i = 0; i < H * W * 2; i++) tp_tensor_set(&image, i, i % 70);
        CHECK_OK(tp_aug_draw(a, H, W, 5, index, &t));
        tp_transform_text(&t, text, sizeof text);
        CHECK(sscanf(text, "RandomCutout(y0=%d, x0=%d, h=%d, w=%d, fill=77)", &y0, &x0, &h, &w) == 4);
        CHECK(y0 >= 0 && x0 >= 0 && h >= 2 && h < 4 && w >= 1 && w < 3 && y0 + h <= H && x0 + w <= W);
        seen |= (unsigned)((y0 == 0) | (y0 + h == H) << 1 | (x0 == 0) << 2 | (x0 + w == W) << 3);
        CHECK_OK(tp_aug_apply_image(&t, &image, &out));
        for (int i = 0; i < H * W * 2; i++) {
            const int y = i / (2 * W), x = i / 2 % W;
            const bool inside = y >= y0 && y < y0 + h && x >= x0 && x < x0 + w;
            CHECK_MSG(tp_tensor_get(&out, i) == (inside ? 77 : i % 70), "%s: element %d is %g", text, i,
                      tp_tensor_get(&out, i));
        }
        tp_tensor_free(&image);
        tp_tensor_free(&out);
    }
    CHECK(seen == 15);
    tp_aug_free(a);
    tp_transform_free(&t);
}

/* Noise is computed for some hundred elements at a time: each element has its own number, whatever the size, and none
 * behind the last one is written. `from` and `want`: element i before and after, up to `tolerance`. */
static void check_noise(const tp_augmentor *a, double (*from)(int i), double (*want)(int i, bool bytes, int which),
                        int which, double tolerance)
{
    static const int sizes[] = {1, 2, 511, 512, 513, 600, 1024, 1500};
    tp_transform t;
    memset(&t, 0, sizeof t);
    for (int k = 0; k < 2 * TP_COUNT(sizes); k++) {
        const int n = sizes[k / 2];
        const tp_dtype dtype = k % 2 ? TP_F32 : TP_U8;
        tp_tensor image = new_image(dtype, n, 1, 0), larger = new_image(dtype, 4096, 1, 0), out;
        memset(&out, 0, sizeof out);
        for (int i = 0; i < 4096; i++) tp_tensor_set(&larger, i, 7);
        for (int i = 0; i < n; i++) tp_tensor_set(&image, i, from(i));
        /* the memory that the image gets is that of a larger one before */
        CHECK_OK(tp_aug_draw(a, 4096, 1, 3, 4, &t));
        for (int twice = 0; twice < 2; twice++) CHECK_OK(tp_aug_apply_image(&t, &larger, &out));
        for (int b = 0; b < TP_COUNT(t.image_); b++)
            if (t.image_[b].own) memset(t.image_[b].own, 7, t.image_[b].capacity);
        CHECK_OK(tp_aug_draw(a, n, 1, 3, 4, &t));
        CHECK_OK(tp_aug_apply_image(&t, &image, &out));
        int wrong = 0;
        for (int i = 0; i < n; i++)
            wrong += !(fabs(tp_tensor_get(&out, i) - want(i, dtype == TP_U8, which)) <= tolerance);
        CHECK_MSG(wrong == 0, "%d of %d elements of %s are wrong", wrong, n, tp_dtype_name(dtype));
        CHECK(out.data == out.own && out.capacity >= 4096);
        for (size_t i = tp_tensor_bytes(&out); i < out.capacity; i++)
            if (!CHECK_MSG(((const char *)out.own)[i] == 7, "byte %d is written, of %d elements", (int)i, n)) break;
        tp_tensor_free(&image);
        tp_tensor_free(&larger);
        tp_tensor_free(&out);
    }
    tp_transform_free(&t);
}

static double one_hundred(int i) { return (void)i, 100; }
static double salted(int i, bool bytes, int which)
{
    const float u = tp_random_uniform(tp_random_key(3, 0), 4, (uint64_t)i);
    (void)bytes, (void)which;
    return u < 0.4f ? 0 : u > (float)(1.0 - (double)0.3f) ? 255 : 100;
}
TEST(salt_and_pepper_at_every_element)
{
    tp_augmentor *a = tp_aug_salt_pepper_noise(.white_prob = 0.3f, .black_prob = 0.4f);
    check_noise(a, one_hundred, salted, 0, 0);
    tp_aug_free(a);
}

static double light_and_dark(int i) { return i % 3 * 127.5; }
/* Bytes are limited to 0 .. 255 and lose their fraction, floats are limited unless .clip is TP_NO. */
static double noisy(int i, bool bytes, int no_clip)
{
    const double was = bytes ? floor(light_and_dark(i)) : light_and_dark(i);
    const double x = (double)(float)(was + 20 * tp_random_normal(tp_random_key(3, 0), 4, (uint64_t)i));
    if (no_clip && !bytes) return x;
    return x < 0 ? 0 : x > 255 ? 255 : bytes ? floor(x) : x;
}
TEST(gaussian_noise_at_every_element)
{
    for (int no_clip = 0; no_clip < 2; no_clip++) {
        tp_augmentor *a = tp_aug_gaussian_noise(.sigma = 20, .clip = no_clip ? TP_NO : TP_UNSET);
        check_noise(a, light_and_dark, noisy, no_clip, 1e-4);
        tp_aug_free(a);
    }
}

/* Pixels of any size, flipped and transposed, by their places. */
TEST(pixels_of_any_size_are_moved)
{
    static const tp_dtype types[] = {TP_U8, TP_F32, TP_F64, TP_I32}; /* the last two as masks */
    static const int channels[] = {1, 2, 3, 4, 5, 12, 13};
    tp_augmentor *a[3] = {tp_aug_flip(.horiz = TP_YES, .prob = 1), tp_aug_flip(.vert = TP_YES, .prob = 1),
                          tp_aug_transpose(.prob = 1)};
    tp_transform t;
    memset(&t, 0, sizeof t);
    for (int k = 0; k < 3 * 4 * 7 * 6; k++) {
        const int which = k % 3, c = channels[k / 12 % 7], w = k / 84 + 1, h = 4;
        const tp_dtype dtype = types[k / 3 % 4];
        tp_tensor image = new_image(dtype, h, w, c), out;
        memset(&out, 0, sizeof out);
        for (int i = 0; i < h * w * c; i++) tp_tensor_set(&image, i, i % 251);
        CHECK_OK(tp_aug_draw(a[which], h, w, 1, 1, &t));
        CHECK_OK(k / 3 % 4 < 2 ? tp_aug_apply_image(&t, &image, &out) : tp_aug_apply_mask(&t, &image, 0, &out));
        if (CHECK(tp_tensor_size(&out) == h * w * c && out.shape.dim[0] == (which == 2 ? w : h)))
            for (int i = 0; i < h * w * c; i++) {
                const int y = i / (w * c), x = i / c % w;
                const int at = which == 0 ? y * w + w - 1 - x : which == 1 ? (h - 1 - y) * w + x : x * h + y;
                CHECK_MSG(tp_tensor_get(&out, at * c + i % c) == i % 251, "%d, %s, %d columns, %d channels: element %d",
                          which, tp_dtype_name(dtype), w, c, i);
            }
        tp_tensor_free(&image);
        tp_tensor_free(&out);
    }
    for (int i = 0; i < 3; i++) tp_aug_free(a[i]);
    tp_transform_free(&t);
}

/* A mask of labels of any type: colours leave it alone, borders get the fill. */
TEST(masks_keep_their_labels)
{
    tp_augmentor *a = tp_aug_list(TP_AUGS(tp_aug_to_float32(), tp_aug_brightness(.delta = 50), tp_aug_pad(.pad = 1),
                                          tp_aug_grayscale(.rgb = TP_YES), tp_aug_gaussian_noise(.sigma = 9),
                                          tp_aug_flip(.horiz = TP_YES, .prob = 1),
                                          tp_aug_random_cutout(.h_range = {2}, .w_range = {2})));
    tp_transform t;
    tp_tensor mask = new_image(TP_I32, 3, 4, 0), out;
    memset(&t, 0, sizeof t), memset(&out, 0, sizeof out);
    for (int i = 0; i < 12; i++) ((int32_t *)mask.data)[i] = 1000 * i;
    CHECK_OK(tp_aug_draw(a, 3, 4, 1, 2, &t));
    CHECK_OK(tp_aug_apply_mask(&t, &mask, -1, &out));
    CHECK(out.dtype == TP_I32 && out.shape.ndim == 2 && out.shape.dim[0] == 5 && out.shape.dim[1] == 6);
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 6; j++) {
            const bool inside = i > 0 && i < 4 && j > 0 && j < 5;
            CHECK(((int32_t *)out.data)[6 * i + j] == (inside ? 1000 * (4 * (i - 1) + 4 - j) : -1));
        }
    tp_aug_free(a);
    tp_transform_free(&t);
    tp_tensor_free(&mask);
    tp_tensor_free(&out);
}

/* ==== >>functions of the program's own ================================================================ */

static tp_status halve(const tp_tensor *in, tp_tensor *out, const tp_aug_call *call)
{
    const int64_t dim[3] = {in->shape.dim[0] / 2, in->shape.dim[1] / 2, 1};
    tp_status st = tp_tensor_resize(out, TP_F32, tp_make_shape_n(3, dim));
    for (int64_t i = 0; i < dim[0] && st == TP_OK; i++)
        for (int64_t j = 0; j < dim[1]; j++)
            ((float *)out->data)[i * dim[1] + j] = (float)tp_tensor_get(in, (2 * i * in->shape.dim[1] + 2 * j)) +
                                                   tp_random_uniform(call->key, (uint64_t)call->index, 0);
    ++*(int *)call->user;
    return st;
}
static void halve_point(float *x, float *y, const tp_aug_call *call)
{
    (void)call;
    *x /= 2, *y /= 2;
}
static void halve_size(int64_t *h, int64_t *w, const tp_aug_call *call)
{
    CHECK(call->index == 11);
    *h /= 2, *w /= 2;
}
static void count_release(void *user) { *(int *)user += 100; }

TEST(functions_of_the_program)
{
    int calls = 0;
    tp_transform t;
    tp_tensor image = new_image(TP_U8, 6, 8, 0), out, points;
    memset(&t, 0, sizeof t), memset(&out, 0, sizeof out), memset(&points, 0, sizeof points);
    for (int i = 0; i < 48; i++) ((unsigned char *)image.data)[i] = (unsigned char)i;
    tp_augmentor *a = tp_aug_list(TP_AUGS(tp_aug_map_image(.fn = halve, .coords_fn = halve_point, .size_fn = halve_size,
                                                           .user = &calls, .release = count_release),
                                          tp_aug_center_crop(3, 3)));
    CHECK_OK(tp_aug_draw(a, 6, 8, 4, 11, &t));
    CHECK_OK(tp_aug_apply_image(&t, &image, &out));
    CHECK(calls == 1 && out.dtype == TP_F32 && out.shape.ndim == 3 && out.shape.dim[0] == 3 && out.shape.dim[1] == 3);
    const double u = (double)tp_random_uniform(tp_random_key(4, 1), 11, 0);
    for (int i = 0; i < 9; i++) CHECK_NEAR(tp_tensor_get(&out, i), 16 * (i / 3) + 2 * (i % 3) + u, 1e-4, 0);
    const float at[2] = {3, 5};
    tp_tensor_view(&points, TP_F32, tp_make_shape(1, 2), at);
    CHECK_OK(tp_aug_apply_coords(&t, &points, &points));
    CHECK_NEAR(tp_tensor_get(&points, 0), 1.5, 0, 0);
    CHECK_NEAR(tp_tensor_get(&points, 1), 2.5, 0, 0);
    CHECK_ERR(tp_aug_apply_mask(&t, &image, 0, &out), TP_ERR_UNSUPPORTED, "without mask_fn");
    tp_aug_free(a);
    CHECK(calls == 101);
    a = tp_aug_map_image(.fn = halve, .mask_fn = leave, .user = &calls); /* a size that was not announced */
    CHECK_OK(tp_aug_draw(a, 6, 8, 4, 11, &t));
    CHECK_ERR(tp_aug_apply_image(&t, &image, &out), TP_ERR_SHAPE, "(3,4,1) of an image");
    CHECK_ERR(tp_aug_apply_coords(&t, &points, &points), TP_ERR_UNSUPPORTED, "without coords_fn");
    CHECK_OK(tp_aug_apply_mask(&t, &image, 0, &out)); /* a function that does nothing leaves the image */
    CHECK(memcmp(out.data, image.data, 48) == 0 && out.data != image.data);
    tp_aug_free(a);
    a = tp_aug_map_image(.fn = leave, .user = &calls); /* an image of bytes may stay one */
    CHECK_OK(tp_aug_draw(a, 6, 8, 4, 11, &t));
    CHECK_OK(tp_aug_apply_image(&t, &image, &out));
    CHECK(out.dtype == TP_U8 && memcmp(out.data, image.data, 48) == 0);
    tp_aug_free(a);
    CHECK_ERR(tp_aug_status(a = tp_aug_map_image(.user = &calls, .release = count_release)), TP_ERR_ARG, "is NULL");
    tp_aug_free(a);
    CHECK(calls == 202);
    tp_transform_free(&t);
    tp_tensor_free(&image);
    tp_tensor_free(&out);
    tp_tensor_free(&points);
}

/* Leaves out as a view of the lower half of the image, or of memory of its own behind a row. */
static tp_status lower_half(const tp_tensor *in, tp_tensor *out, const tp_aug_call *call)
{
    const int64_t h = in->shape.dim[0], w = in->shape.dim[1], row[2] = {h, w}, half[2] = {h / 2, w};
    const unsigned char *from = (const unsigned char *)in->data;
    if (*(int *)call->user == 1) {
        const tp_status st = tp_tensor_resize(out, TP_U8, tp_make_shape_n(2, row));
        if (st != TP_OK) return st;
        memcpy(out->data, from, (size_t)(h * w));
        from = (const unsigned char *)out->data;
    }
    tp_tensor_view(out, TP_U8, tp_make_shape_n(2, half), from + (h - h / 2) * w);
    return TP_OK;
}
static void half_size(int64_t *h, int64_t *w, const tp_aug_call *call)
{
    (void)w, (void)call;
    *h /= 2;
}
/* The buffer of which out is a view stays in use: the steps behind, which need more memory, do not write over it. */
TEST(a_function_leaves_a_view_of_a_part)
{
    for (int own = 0; own < 2; own++)
        for (int before = 0; before < 3; before++) { /* steps before, so that the image lies in either buffer */
            tp_transform t;
            tp_tensor image = new_image(TP_U8, 8, 40, 0), out;
            memset(&t, 0, sizeof t), memset(&out, 0, sizeof out);
            for (int i = 0; i < 8 * 40; i++) ((unsigned char *)image.data)[i] = (unsigned char)(i % 251);
            tp_augmentor *a =
                tp_aug_list(TP_AUGS(before > 0 ? tp_aug_flip(.horiz = TP_YES, .prob = 1) : tp_aug_identity(),
                                    before > 1 ? tp_aug_flip(.horiz = TP_YES, .prob = 1) : tp_aug_identity(),
                                    tp_aug_map_image(.fn = lower_half, .size_fn = half_size, .user = &own),
                                    tp_aug_pad(.pad = 50), tp_aug_center_crop(4, 40)));
            CHECK_OK(tp_aug_draw(a, 8, 40, 4, 11, &t));
            CHECK_OK(tp_aug_apply_image(&t, &image, &out));
            CHECK(out.shape.dim[0] == 4 && out.shape.dim[1] == 40);
            for (int i = 0; i < 4 * 40; i++) {
                const int column = before == 1 ? 39 - i % 40 : i % 40;
                if (!CHECK(((const unsigned char *)out.data)[i] == ((i / 40 + 4) * 40 + column) % 251)) break;
            }
            tp_aug_free(a);
            tp_transform_free(&t);
            tp_tensor_free(&image);
            tp_tensor_free(&out);
        }
}

/* Contrast and brightness at both ends of 0 .. 255, in images of whole vectors and of vectors with a rest. */
TEST(colours_are_limited_at_every_size)
{
    static const double from[4] = {0, 200, 90, 110}; /* their mean is 100 */
    static const double to[3][4] = {{0, 255, 70, 130}, {0, 0, 0, 0}, {0, 255, 225, 255}};
    tp_augmentor *a[3] = {tp_aug_contrast(.factor_range = {3, 3}), tp_aug_brightness_scale(.range = {-1, -1}),
                          tp_aug_brightness_scale(.range = {2.5f, 2.5f})};
    tp_transform t;
    memset(&t, 0, sizeof t);
    for (int which = 0; which < 3; which++)
        for (int c = 1; c <= 5; c++)
            for (int w = 4; w <= 52; w += 4)
                for (int floats = 0; floats < 2; floats++) {
                    tp_tensor image = new_image(floats ? TP_F32 : TP_U8, 1, w, c), out;
                    memset(&out, 0, sizeof out);
                    for (int i = 0; i < w * c; i++) tp_tensor_set(&image, i, from[i / c % 4]);
                    CHECK_OK(tp_aug_draw(a[which], 1, w, 8, 1, &t));
                    CHECK_OK(tp_aug_apply_image(&t, &image, &out));
                    for (int i = 0; i < w * c && i < tp_tensor_size(&out); i++)
                        if (!CHECK_MSG(fabs(tp_tensor_get(&out, i) - to[which][i / c % 4]) < 1e-3,
                                       "%d, %d columns, %d channels: element %d is %g", which, w, c, i,
                                       tp_tensor_get(&out, i)))
                            break;
                    CHECK(tp_tensor_size(&out) == w * c);
                    tp_tensor_free(&image);
                    tp_tensor_free(&out);
                }
    for (int which = 0; which < 3; which++) tp_aug_free(a[which]);
    tp_transform_free(&t);
}

/* A transform keeps the weights of the last blur. Another blur of that size has its own, of another sigma. */
TEST(blurs_of_one_size_have_their_own_weights)
{
    static const float sigmas[][2] = {{2, 0}, {0, 2}, {2, 0.5f}, {0.5f, 2}, {0, 0}};
    tp_transform kept, t;
    memset(&kept, 0, sizeof kept);
    memset(&t, 0, sizeof t);
    tp_tensor image = new_image(TP_F32, 9, 9, 1);
    for (int i = 0; i < 81; i++) tp_tensor_set(&image, i, (double)(i * i % 97));
    for (int i = 0; i < TP_COUNT(sigmas); i++)
        for (int k = 0; k < 2; k++) {
            tp_tensor with, without;
            memset(&with, 0, sizeof with);
            memset(&without, 0, sizeof without);
            const float sigma = sigmas[i][k];
            tp_augmentor *a = tp_aug_gaussian_blur(.size_range = {2, 3}, .sigma_range = {sigma, sigma});
            CHECK_OK(tp_aug_draw(a, 9, 9, 1, 1, &kept));
            CHECK_OK(tp_aug_draw(a, 9, 9, 1, 1, &t));
            CHECK_OK(tp_aug_apply_image(&kept, &image, &with));
            CHECK_OK(tp_aug_apply_image(&t, &image, &without));
            CHECK_MSG(memcmp(with.data, without.data, tp_tensor_bytes(&with)) == 0, "sigma %g, pair %d", (double)sigma,
                      i);
            tp_transform_free(&t);
            tp_tensor_free(&with);
            tp_tensor_free(&without);
            tp_aug_free(a);
        }
    tp_tensor_free(&image);
    tp_transform_free(&kept);
}

/* Colour (1: blue, 2: red) of a pixel, 128 if it is grey; 0: brightness. */
static double colour_of(const unsigned char *p, int channel)
{
    static const double part[3][3] = {
        {0.299, 0.587, 0.114}, {-0.168735892, -0.331264108, 0.5}, {0.5, -0.418687589, -0.081312411}};
    double v = channel ? 128 : 0;
    for (int k = 0; k < 3; k++) v += part[channel][k] * p[k];
    return v;
}
/* Colour at half resolution: the mean of 2 x 2 pixels. Beyond the image its last row or column is repeated. */
static double half_colour(const unsigned char *p, int h, int w, int channel, int y, int x)
{
    double sum = 0;
    y = y < 0 ? 0 : y > (h - 1) / 2 ? (h - 1) / 2 : y;
    x = x < 0 ? 0 : x > (w - 1) / 2 ? (w - 1) / 2 : x;
    for (int k = 0; k < 4; k++) {
        const int i = 2 * y + k / 2, j = 2 * x + k % 2;
        sum += colour_of(p + 3 * ((i < h ? i : h - 1) * w + (j < w ? j : w - 1)), channel) / 4;
    }
    return sum;
}
/* A JPEG of quality 100 changes next to nothing but the resolution of the colour: that is halved, by means of 2 x 2 pixels,
 * and doubled, by 3/4 of the nearer and 1/4 of the farther one in both directions. */
TEST(jpeg_noise_halves_the_colour)
{
    tp_transform t;
    memset(&t, 0, sizeof t);
    for (int half = 0; half < 2; half++) {
        tp_augmentor *a = tp_aug_jpeg_noise(.quality_range = {100, 101}, .subsample = half ? TP_YES : TP_NO);
        for (int h = 1; h <= 19; h += h < 5 || h > 14 ? 1 : 5)
            for (int w = 1; w <= 34; w += w < 5 || w > 13 ? 1 : 4) {
                tp_tensor image = new_image(TP_U8, h, w, 3), out;
                unsigned char *p = (unsigned char *)image.data;
                double most = 0;
                memset(&out, 0, sizeof out);
                /* the colour changes from column to column and from row to row, far from 0 and 255 */
                for (int i = 0; i < h * w * 3; i++)
                    p[i] = (unsigned char)(100 + 40 * ((i / 3 % w + i % 3) % 2) + 30 * ((i / 3 / w + i % 3) % 3 == 1));
                CHECK_OK(tp_aug_draw(a, h, w, 8, 1, &t));
                CHECK_OK(tp_aug_apply_image(&t, &image, &out));
                for (int i = 0; i < h * w && i < tp_tensor_size(&out) / 3; i++)
                    for (int k = 0; k < 3; k++) {
                        const int y = i / w, x = i % w, i2 = y & 1 ? y / 2 + 1 : y / 2 - 1,
                                  j2 = x & 1 ? x / 2 + 1 : x / 2 - 1;
                        double want = colour_of(p + 3 * i, k);
                        if (half && k > 0)
                            want = (9 * half_colour(p, h, w, k, y / 2, x / 2) + 3 * half_colour(p, h, w, k, y / 2, j2) +
                                    3 * half_colour(p, h, w, k, i2, x / 2) + half_colour(p, h, w, k, i2, j2)) /
                                   16;
                        const double d = fabs(colour_of((const unsigned char *)out.data + 3 * i, k) - want);
                        most = d > most ? d : most;
                    }
                CHECK_MSG(most < 4, "half %d, %d x %d: differs by %g", half, h, w, most);
                tp_tensor_free(&image);
                tp_tensor_free(&out);
            }
        tp_aug_free(a);
    }
    tp_transform_free(&t);
}

/* A hue of 400 degrees is one of 40, and one of -20 is one of 340. */
TEST(hues_go_round)
{
    static const float hues[4] = {40, 400, 340, -20};
    tp_augmentor *a = tp_aug_color_space(.mode = TP_COLOR_HSV2RGB);
    tp_tensor image = new_image(TP_F32, 1, 4, 3), out;
    tp_transform t;
    memset(&out, 0, sizeof out);
    memset(&t, 0, sizeof t);
    for (int i = 0; i < 4; i++) {
        float *pixel = (float *)image.data + 3 * i;
        pixel[0] = hues[i], pixel[1] = 0.5f, pixel[2] = 0.75f;
    }
    CHECK_OK(tp_aug_draw(a, 1, 4, 8, 1, &t));
    CHECK_OK(tp_aug_apply_image(&t, &image, &out));
    for (int i = 0; i < 12; i++) {
        const double got = tp_tensor_get(&out, i), same = tp_tensor_get(&out, i / 6 * 6 + i % 3);
        CHECK_MSG(fabs(got - same) < 1e-4 && got > 0.37 && got < 0.76, "number %d: %g instead of %g", i, got, same);
    }
    tp_tensor_free(&image);
    tp_tensor_free(&out);
    tp_transform_free(&t);
    tp_aug_free(a);
}

/* A turn by less than a float can add to a hue, forward or back, is none: the pixels keep the bits that they get otherwise. */
TEST(hues_that_hardly_turn)
{
    static const float turn[3] = {1e-30f, -1e-30f, 360};
    tp_tensor image = new_image(TP_F32, 2, 9, 3), out[3];
    tp_transform t;
    memset(out, 0, sizeof out);
    memset(&t, 0, sizeof t);
    for (int i = 0; i < 54; i++) ((float *)image.data)[i] = 255 * tp_random_uniform(3, 5, (uint64_t)i);
    for (int i = 0; i < 3; i++) {
        tp_augmentor *a = tp_aug_hue(.range = {turn[i], turn[i]});
        CHECK_OK(tp_aug_draw(a, 2, 9, 3, 1, &t));
        CHECK_OK(tp_aug_apply_image(&t, &image, &out[i]));
        CHECK_MSG(memcmp(out[i].data, out[0].data, 54 * sizeof(float)) == 0, "a turn by %g", (double)turn[i]);
        tp_aug_free(a);
    }
    for (int i = 0; i < 3; i++) tp_tensor_free(&out[i]);
    tp_tensor_free(&image);
    tp_transform_free(&t);
}

/* The crop of a rotated image is the largest upright rectangle around its center that shows the image alone. It is never larger than
 * the image was. */
TEST(rotated_images_are_cropped_to_what_is_valid)
{
    static const int size[][2] = {{9000, 9000}, {9000, 4000}, {4000, 9000}, {9000, 500}, {500, 9000}, {1, 1}, {1, 9}};
    tp_augmentor *a = tp_aug_rotation_and_crop_valid(.max_deg = 180);
    tp_transform t;
    memset(&t, 0, sizeof t);
    for (int i = 0; i < TP_COUNT(size); i++)
        for (int64_t index = 0; index < 40; index++) {
            const double h = size[i][0], w = size[i][1],
                         u = (double)tp_random_uniform(tp_random_key(3, 0), (uint64_t)index, 0);
            const double turn = (-180 + 360 * u) * acos(-1.0) / 180, c = fabs(cos(turn)), s = fabs(sin(turn));
            double most = 0, best = 0; /* area, and area of the part that lies in the image */
            char text[300], crop[100];
            CHECK_OK(tp_aug_draw(a, size[i][0], size[i][1], 3, index, &t));
            const double y = (double)t.out_h, x = (double)t.out_w;
            for (int k = 1; k <= 4000; k++) {
                const double width = fmin(w / c, h / s) * k / 4000;
                const double height = fmin((w - width * c) / s, (h - width * s) / c);
                if (width * height <= most) continue;
                most = width * height;
                best = fmin(width, w) * fmin(height, h);
            }
            CHECK_MSG(x >= 1 && y >= 1 && x * c + y * s < w + 2 && x * s + y * c < h + 2 && x <= w && y <= h,
                      "%g x %g turned by %g: the crop of %g x %g does not lie within", h, w, turn, y, x);
            if (h > 9)
                CHECK_MSG(x * y > 0.99 * best && x * y < 1.01 * best, "%g x %g turned by %g: %g x %g", h, w, turn, y,
                          x);
            snprintf(crop, sizeof crop, "Crop(y0=%d, x0=%d,", (int)(h * 0.5 - y * 0.5), (int)(w * 0.5 - x * 0.5));
            CHECK_HAS(tp_transform_text(&t, text, sizeof text), crop);
        }
    tp_aug_free(a);
    tp_transform_free(&t);
}

/* Of a narrow image no crop has its whole area: its middle, resized by its shorter edge, is the result. */
TEST(narrow_images_are_cropped_in_the_middle)
{
    tp_augmentor *a = tp_aug_google_net_random_crop_and_resize(.crop_area_fraction = {1, 1}, .target_shape = 8);
    for (int wide = 0; wide < 2; wide++) {
        tp_tensor image = new_image(TP_F32, wide ? 8 : 64, wide ? 64 : 8, 1), out;
        tp_transform t;
        memset(&out, 0, sizeof out);
        memset(&t, 0, sizeof t);
        for (int i = 0; i < 512; i++) tp_tensor_set(&image, i, i);
        CHECK_OK(tp_aug_draw(a, image.shape.dim[0], image.shape.dim[1], 8, 1, &t));
        CHECK_OK(tp_aug_apply_image(&t, &image, &out));
        if (CHECK(out.shape.ndim == 3 && out.shape.dim[0] == 8 && out.shape.dim[1] == 8))
            for (int y = 0; y < 8; y++)
                for (int x = 0; x < 8; x++)
                    CHECK(tp_tensor_get(&out, 8 * y + x) == (wide ? 64 * y + x + 28 : 8 * (y + 28) + x));
        tp_tensor_free(&image);
        tp_tensor_free(&out);
        tp_transform_free(&t);
    }
    tp_aug_free(a);
}

/* The crop of Inception by its formula: up to ten times an area and an aspect ratio are drawn, width and height are
 * swapped half the time, and the first that fits is taken. If none fits, it is the middle. */
static bool inception_crop(const double area[2], const double aspect[2], int64_t h, int64_t w, int64_t index,
                           int64_t crop[4])
{
    const uint64_t key = tp_random_key(9, 0);
    uint64_t drawn = 0;
    for (int i = 0; i < 10; i++) {
        const double u = (double)tp_random_uniform(key, (uint64_t)index, drawn++);
        const double v = (double)tp_random_uniform(key, (uint64_t)index, drawn++);
        const double target = (area[0] + (area[1] - area[0]) * u) * (double)(h * w);
        const double ratio = aspect[0] + (aspect[1] - aspect[0]) * v;
        const int64_t a = (int64_t)floor(sqrt(target * ratio) + 0.5), b = (int64_t)floor(sqrt(target / ratio) + 0.5);
        const bool swap = tp_random_uniform(key, (uint64_t)index, drawn++) < 0.5f;
        crop[2] = swap ? a : b;
        crop[3] = swap ? b : a;
        if (crop[2] < 1 || crop[3] < 1 || crop[2] > h || crop[3] > w) continue;
        for (int k = 1; k >= 0; k--) { /* the column is drawn first */
            const uint64_t r = tp_random_u32(key, (uint64_t)index, drawn++);
            crop[k] = (int64_t)(r * (uint64_t)((k ? w - crop[3] : h - crop[2]) + 1) >> 32);
        }
        return true;
    }
    return false;
}

/* Crops of a whole image, of one row, of one column and of no pixel. For some images most of the draws do not fit. */
TEST(inception_crops_by_formula)
{
    static const struct {
        int64_t h, w;
        float area[2], aspect[2];
        int most, least; /* of 200 draws, how many find a crop */
    } rows[] = {{8, 1, {0.125f, 0.125f}, {1, 1}, 200, 200},
                {1, 8, {0.125f, 0.125f}, {1, 1}, 200, 200},
                {8, 1, {0.001f, 0.001f}, {1, 1}, 0, 0},
                {6, 6, {1, 1}, {1, 1}, 200, 200},
                {6, 24, {1, 1}, {4, 4}, 200, 190},
                {24, 6, {1, 1}, {4, 4}, 200, 190},
                {40, 7, {0.08f, 1}, {0.75f, 1.333f}, 199, 50},
                {7, 40, {0.08f, 1}, {0.75f, 1.333f}, 199, 50},
                {50, 5, {0.08f, 1}, {0.75f, 1.333f}, 190, 20},
                {20, 20, {0.08f, 1}, {0.25f, 4}, 200, 190}};
    for (int k = 0; k < TP_COUNT(rows); k++) {
        const double area[2] = {(double)rows[k].area[0], (double)rows[k].area[1]};
        const double aspect[2] = {(double)rows[k].aspect[0], (double)rows[k].aspect[1]};
        const int64_t h = rows[k].h, w = rows[k].w, side = h < w ? h : w, longer = h < w ? w : h;
        tp_augmentor *a =
            tp_aug_google_net_random_crop_and_resize(.crop_area_fraction = {rows[k].area[0], rows[k].area[1]},
                                                     .aspect_ratio_range = {rows[k].aspect[0], rows[k].aspect[1]},
                                                     .target_shape = 16);
        int found = 0;
        for (int64_t i = 0; i < 200; i++) {
            char text[256], want[256];
            int64_t c[4] = {0, 0, 0, 0};
            const bool fits = inception_crop(area, aspect, h, w, i, c);
            const int at = (int)((16 * longer / side - 16) / 2);
            if (fits)
                snprintf(want, sizeof want, "Crop(y0=%d, x0=%d, h=%d, w=%d), Resize(h=16, w=16,", (int)c[0], (int)c[1],
                         (int)c[2], (int)c[3]);
            else snprintf(want, sizeof want, ", Crop(y0=%d, x0=%d, h=16, w=16)", h < w ? 0 : at, h < w ? at : 0);
            CHECK_HAS(steps_of(a, h, w, 9, i, text, sizeof text), want);
            found += fits;
        }
        CHECK_MSG(found <= rows[k].most && found >= rows[k].least, "%d of 200 found a crop in row %d", found, k);
        tp_aug_free(a);
    }
}

/* ==== >>memory ======================================================================================== */

/* One transform for images of many kinds and sizes: once it has seen them, nothing is allocated. */
TEST(nothing_is_allocated_after_the_first_images)
{
    tp_transform t;
    tp_tensor out;
    memset(&t, 0, sizeof t), memset(&out, 0, sizeof out);
    tp_test_fail_after(0);
    for (int i = 0; i < TP_COUNT(augment_vectors); i++) {
        long after = 0;
        tp_augmentor *a = vector_augmentor(i);
        tp_tensor image = vector_image(&augment_vectors[i]);
        for (int k = 0; k < 40; k++) {
            const long before = tp_test_alloc_count();
            CHECK_OK(tp_aug_draw(a, image.shape.dim[0], image.shape.dim[1], 8, k % 20, &t));
            CHECK_OK(tp_aug_apply_image(&t, &image, &out));
            CHECK_OK(tp_aug_apply_image(&t, &image, &out));
            after += k < 20 ? 0 : tp_test_alloc_count() - before;
        }
        CHECK_MSG(after == 0, "case %d allocates %ld times", i, after);
        tp_tensor_free(&image);
        tp_aug_free(a);
    }
    tp_transform_free(&t);
    tp_tensor_free(&out);
    CHECK(tp_test_live_blocks() == 0);
    tp_test_alloc_reset();
}

/* Makes each tensor of a transform this large, and sets every byte to 7. */
enum { MARKED = 1 << 14 };
static void mark(tp_tensor *t, tp_dtype dtype)
{
    const int64_t n = MARKED / (int64_t)tp_dtype_size(dtype);
    CHECK_OK(tp_tensor_resize(t, dtype, tp_make_shape_n(1, &n)));
    memset(t->own, 7, t->capacity);
}
static bool is_marked(const tp_tensor *t)
{
    for (size_t i = t->own ? tp_tensor_bytes(t) : t->capacity; i < t->capacity; i++)
        if (((const char *)t->own)[i] != 7) return false;
    return true;
}

/* A transform writes nothing behind its results and its scratch memory. It reads nothing behind the image, whose block has exactly
 * its size, so that the address sanitizer sees such a read. Not checked: several steps, and the scratch memory of Resize, because
 * both use a tensor twice, at different sizes. */
static bool writes_and_reads_within(const tp_augmentor *a, tp_dtype dtype, const int size[3], const char *name)
{
    tp_transform t;
    tp_tensor image, out;
    char steps[256];
    memset(&t, 0, sizeof t), memset(&out, 0, sizeof out), memset(&image, 0, sizeof image);
    const int64_t n = size[0] * size[1] * size[2], dim[3] = {size[0], size[1], size[2]};
    void *block = malloc((size_t)n * tp_dtype_size(dtype));
    if (!CHECK(block)) return false;
    tp_tensor_view(&image, dtype, tp_make_shape_n(3, dim), block);
    for (int64_t i = 0; i < n; i++) tp_tensor_set(&image, i, (double)(i * 37 % 256));
    for (int i = 0; i < 2; i++) {
        mark(&t.image_[i], TP_F32), mark(&t.row_[i], TP_F32);
        mark(&t.taps_[i].start, TP_I32), mark(&t.taps_[i].weight, TP_F32);
    }
    mark(&t.work_, TP_F32);
    const bool done = tp_aug_draw(a, size[0], size[1], 8, 1, &t) == TP_OK && t.n == 1 &&
                      tp_aug_apply_image(&t, &image, &out) == TP_OK;
    tp_transform_text(&t, steps, sizeof steps);
    CHECK_MSG(!done || out.capacity >= MARKED, "%s: the result has %d bytes", name, (int)out.capacity);
    CHECK_MSG(!done || is_marked(&out), "%s, %s: bytes behind the result are written", name, steps);
    CHECK_MSG(!done || strstr(steps, "Resize") || is_marked(&t.work_),
              "%s, %s: bytes behind the scratch memory are written", name, steps);
    for (int i = 0; i < 2 && done; i++)
        CHECK_MSG(is_marked(&t.image_[i]) && is_marked(&t.row_[i]) && is_marked(&t.taps_[i].start) &&
                      is_marked(&t.taps_[i].weight),
                  "%s, %s: bytes behind tensor %d are written", name, steps, i);
    tp_transform_free(&t);
    tp_tensor_free(&out);
    free(block);
    return done;
}

TEST(nothing_behind_an_image_is_touched)
{
    static const int size[][3] = {{7, 9, 3}, {8, 5, 1}, {5, 8, 4}, {1, 1, 1},
                                  {1, 6, 3}, {6, 1, 3}, {9, 8, 2}, {5, 7, 20}};
    int done = 0;
    for (int i = 0; i < TP_COUNT(augment_vectors) + MOVING; i++)
        for (int k = 0; k < 2 * TP_COUNT(size); k++) {
            char name[64];
            const int which = i - TP_COUNT(augment_vectors);
            tp_augmentor *a = which < 0 ? vector_augmentor(i) : moving(which);
            snprintf(name, sizeof name, "case %d, %d x %d x %d", i, size[k / 2][0], size[k / 2][1], size[k / 2][2]);
            done += writes_and_reads_within(a, k % 2 ? TP_F32 : TP_U8, size[k / 2], name);
            tp_aug_free(a);
        }
    CHECK_MSG(done > 700, "%d transforms were applied", done);
}

/* A step whose result gets no memory gives this status, whether the result has one row, one column or the largest size. */
TEST(steps_of_any_size_survive_out_of_memory)
{
    static const int size[][2] = {{1, 1}, {1, 5}, {5, 1}, {1 << 24, 1 << 24}, {1 << 24, 1}, {1, 1 << 24}};
    for (int i = 0; i < 3 * TP_COUNT(size); i++) {
        const int *s = size[i / 3];
        tp_augmentor *a = i % 3 == 0   ? tp_aug_resize(.h = s[0], .w = s[1])
                          : i % 3 == 1 ? tp_aug_center_crop(s[0], s[1])
                                       : tp_aug_random_paste(.h = s[0], .w = s[1]);
        const int64_t h = i % 3 ? s[0] : 7, w = i % 3 ? s[1] : 7;
        tp_transform t;
        memset(&t, 0, sizeof t);
        tp_test_fail_after(1);
        CHECK_MSG(tp_aug_draw(a, h, w, 0, 0, &t) == TP_ERR_NOMEM, "step %d of %d x %d: %s", i % 3, s[0], s[1],
                  tp_last_error());
        tp_test_alloc_reset();
        CHECK_OK(tp_aug_draw(a, h, w, 0, 0, &t));
        CHECK(t.out_h == s[0] && t.out_w == s[1]);
        tp_transform_free(&t);
        tp_aug_free(a);
    }
}

TEST(augmentors_survive_out_of_memory)
{
    for (int i = 0; i < TP_COUNT(augment_vectors); i++)
        for (long n = 1, failed = 1; failed; n++) {
            tp_transform t;
            tp_tensor out, image = vector_image(&augment_vectors[i]);
            memset(&t, 0, sizeof t), memset(&out, 0, sizeof out);
            tp_test_fail_after(n);
            tp_augmentor *a = vector_augmentor(i);
            tp_status st = a ? tp_aug_status(a) : TP_ERR_NOMEM;
            if (st == TP_OK) st = tp_aug_draw(a, image.shape.dim[0], image.shape.dim[1], 8, 1, &t);
            if (st == TP_OK) st = tp_aug_apply_image(&t, &image, &out);
            failed = tp_test_alloc_failed();
            CHECK_MSG(failed ? st == TP_ERR_NOMEM : st == TP_OK, "case %d, allocation %ld: %s: %s", i, n,
                      tp_status_name(st), tp_last_error());
            tp_aug_free(a);
            tp_transform_free(&t);
            tp_tensor_free(&out);
            tp_tensor_free(&image);
            CHECK_MSG(tp_test_live_blocks() == 0, "case %d, allocation %ld leaks", i, n);
        }
    tp_test_alloc_reset();
}

/* Images of one pixel, of one row, of two and five channels: done, or refused with a sentence. */
TEST(odd_images)
{
    static const int size[5][3] = {{1, 1, 3}, {1, 7, 3}, {9, 1, 1}, {3, 2, 2}, {5, 4, 5}};
    tp_transform t;
    memset(&t, 0, sizeof t);
    int done = 0;
    for (int i = 0; i < TP_COUNT(augment_vectors); i++)
        for (int k = 0; k < 10; k++) {
            tp_augmentor *a = vector_augmentor(i);
            const int *s = size[k / 2];
            tp_tensor image = new_image(k % 2 ? TP_F32 : TP_U8, s[0], s[1], s[2]), out;
            memset(&out, 0, sizeof out);
            for (int64_t j = 0; j < tp_tensor_size(&image); j++) tp_tensor_set(&image, j, (double)(j * 37 % 256));
            tp_status st = tp_aug_draw(a, s[0], s[1], 8, 1, &t);
            if (st == TP_OK) st = tp_aug_apply_image(&t, &image, &out);
            CHECK_MSG(st == TP_OK || st == TP_ERR_SHAPE, "case %d: %s", i, tp_last_error());
            done += st == TP_OK;
            for (int64_t j = 0; j < tp_tensor_size(&out) && st == TP_OK; j++) /* no NaN */
                if (!CHECK(fabs(tp_tensor_get(&out, j)) < 1e6)) break;
            tp_tensor_free(&image);
            tp_tensor_free(&out);
            tp_aug_free(a);
        }
    CHECK(done > 400);
    tp_transform_free(&t);
}

/* out may be the image, owned or a view of somebody's memory, which is not written to. */
TEST(the_result_may_replace_the_image)
{
    tp_augmentor *a = usual();
    tp_transform t;
    tp_tensor image = vector_image(&augment_vectors[0]), out, own, view;
    memset(&t, 0, sizeof t), memset(&out, 0, sizeof out), memset(&own, 0, sizeof own), memset(&view, 0, sizeof view);
    CHECK_OK(tp_tensor_copy(&own, &image));
    CHECK_OK(tp_tensor_copy(&view, &image));
    CHECK_OK(tp_aug_draw(a, image.shape.dim[0], image.shape.dim[1], 1, 1, &t));
    tp_tensor_view(&view, TP_U8, image.shape, image.data);
    CHECK_OK(tp_aug_apply_image(&t, &image, &out));
    CHECK_OK(tp_aug_apply_image(&t, &own, &own));
    CHECK_OK(tp_aug_apply_image(&t, &view, &view));
    CHECK(memcmp(out.data, own.data, 360) == 0 && memcmp(out.data, view.data, 360) == 0);
    CHECK(view.data != image.data && memcmp(out.data, image.data, tp_tensor_bytes(&image)) != 0);
    tp_aug_free(a);
    tp_transform_free(&t);
    tp_tensor_free(&image);
    tp_tensor_free(&out);
    tp_tensor_free(&own);
    tp_tensor_free(&view);
}

/* ==== >>flows ========================================================================================= */

/* Datapoint i: an image of 12x10x3 (every third is 5x10x3 if some are small), its red as a mask, a point and a box. */
static tp_status scene(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)pass;
    if (index >= 9) return TP_END;
    const int64_t h = *(const int *)user && index % 3 == 2 ? 5 : 12;
    const int64_t dim[3] = {h, 10, 3};
    tp_status st = tp_datapoint_resize(dp, 4);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_U8, tp_make_shape_n(3, dim));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_U8, tp_make_shape_n(2, dim));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[2], TP_F32, tp_make_shape(1, 2));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[3], TP_F32, tp_make_shape(1, 4));
    if (st != TP_OK) return st;
    for (int64_t i = 0; i < 30 * h; i++) ((unsigned char *)dp->c[0].data)[i] = (unsigned char)(i * (index + 3));
    for (int64_t i = 0; i < 10 * h; i++) ((unsigned char *)dp->c[1].data)[i] = (unsigned char)(3 * i * (index + 3));
    for (int i = 0; i < 2; i++) ((float *)dp->c[2].data)[i] = (float)(i + index);
    for (int i = 0; i < 4; i++) ((float *)dp->c[3].data)[i] = (float)(2 * i + 1);
    return TP_OK;
}
static const int all_large = 0, some_small = 1;
static tp_dataflow *scenes(const int *small)
{
    return tp_df_from_generator(scene, (void *)(uintptr_t)small, .size = 9, .indexed = TP_YES);
}

static tp_dataflow *augmented(int which)
{
    switch (which) {
    case 0: return tp_df_augment_image(scenes(&all_large), usual());
    case 1: return tp_df_augment_coordinates(scenes(&all_large), usual(), .coords_index = 2);
    case 2:
        return tp_df_augment_images(scenes(&all_large), usual(), .index = {0}, .n_index = 1, .mask_index = {1},
                                    .n_mask_index = 1, .coords_index = {2}, .n_coords_index = 1, .box_index = {3},
                                    .n_box_index = 1);
    case 3: return tp_df_augment_images(scenes(&all_large), usual());
    case 4: return tp_df_augment_image(scenes(&some_small), tp_aug_random_crop(8, 8), .catch_exceptions = TP_YES);
    case 5: return tp_df_augment_image(scenes(&all_large), tp_aug_jpeg_noise(), .seed = 3);
    default: return NULL;
    }
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

static int warned;
static void hear(void *user, tp_log_level level, const char *message)
{
    (void)user;
    warned += level == TP_LOG_WARN &&
              strstr(message, "tp_aug_random_crop: a part of 8x8 was asked for, the image is 5x10") &&
              strstr(message, "tp_df_augment_image: pass 0, datapoint ");
}

/* The rest of the stream after seek, in any pass, is what walking gives: that is a resume. */
TEST(a_flow_that_seeks_gives_what_walking_gives)
{
    tp_datapoint a = {0, NULL, 0}, b = {0, NULL, 0};
    tp_set_log(hear, NULL);
    for (int which = 0; which < 6; which++) {
        tp_dataflow *walk = augmented(which), *seek = augmented(which);
        for (int64_t pass = 0; pass < 5; pass += 2)
            for (int64_t n = 0; n <= 10; n++) {
                int64_t skipped = -1, taken = 0;
                CHECK_OK(tp_df_restart(walk, pass));
                CHECK_OK(tp_df_restart(seek, pass));
                CHECK_OK(tp_df_seek(seek, n, &skipped));
                while (taken < n && tp_df_next(walk, &a) == TP_OK) taken++;
                CHECK(taken == skipped);
                for (;;) {
                    const tp_status sa = tp_df_next(walk, &a), sb = tp_df_next(seek, &b);
                    if (!CHECK(sa == sb) || sa != TP_OK) break;
                    CHECK_MSG(same_datapoints(&a, &b), "flow %d, pass %d, after %d", which, (int)pass, (int)n);
                }
            }
        tp_df_free(walk);
        tp_df_free(seek);
    }
    tp_set_log(NULL, NULL);
    tp_datapoint_free(&a);
    tp_datapoint_free(&b);
}

/* Each image has 4 i + j in its pixel (i,j). */
static tp_status places(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    tp_status st = tp_datapoint_resize(dp, 1);
    (void)user, (void)pass, (void)index;
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_U8, tp_make_shape(4, 4));
    for (int i = 0; i < 16 && st == TP_OK; i++) ((uint8_t *)dp->c[0].data)[i] = (uint8_t)i;
    return st;
}

static double correlation(const double *a, const double *b, int n)
{
    double sa = 0, sb = 0, aa = 0, bb = 0, ab = 0;
    for (int i = 0; i < n; i++) sa += a[i], sb += b[i], aa += a[i] * a[i], bb += b[i] * b[i], ab += a[i] * b[i];
    return (ab * n - sa * sb) / sqrt((aa * n - sa * sa) * (bb * n - sb * sb));
}

/* Crops or mirrors upside down, and then mirrors: in two flows, or by a list in one. Where a part begins and how it is mirrored is
 * seen in the first two pixels. */
TEST(flows_that_augment_draw_numbers_of_their_own)
{
    enum { N = 2000 };
    static double row[N], mirrored[N];
    for (int which = 0; which < 6; which++) {
        tp_augmentor *two[2] = {which % 2 ? tp_aug_flip(.vert = TP_YES) : tp_aug_random_crop(2, 2),
                                tp_aug_flip(.horiz = TP_YES)};
        tp_dataflow *df = tp_df_from_generator(places);
        const int threads = which / 2 == 2 ? 2 : 0;
        df = which < 2 ? tp_df_augment_image(df, tp_aug_list(two, 2))
                       : tp_df_augment_image(tp_df_augment_image(df, two[0]), two[1], .num_thread = threads);
        tp_datapoint dp = {0, NULL, 0};
        for (int i = 0; i < N && CHECK_OK(tp_df_next(df, &dp)); i++) {
            const int first = (int)tp_tensor_get(&dp.c[0], 0), second = (int)tp_tensor_get(&dp.c[0], 1);
            row[i] = first / 4;
            mirrored[i] = first > second;
        }
        const double r = correlation(row, mirrored, N);
        CHECK_MSG(fabs(r) < 0.1, "case %d: the correlation is %g", which, r);
        tp_datapoint_free(&dp);
        tp_df_free(df);
    }
}

/* The components of a datapoint get the same numbers, those of tp_aug_draw with the flow's key. */
TEST(components_are_augmented_alike)
{
    tp_dataflow *one = augmented(2), *two = augmented(3),
                *other = tp_df_augment_image(scenes(&all_large), usual(), .seed = 5);
    tp_datapoint a = {0, NULL, 0}, b = {0, NULL, 0}, c = {0, NULL, 0}, raw = {0, NULL, 0};
    tp_dataflow *below = scenes(&all_large);
    tp_augmentor *aug = usual();
    tp_transform t;
    tp_tensor want;
    memset(&t, 0, sizeof t), memset(&want, 0, sizeof want);
    int differ = 0;
    for (int64_t i = 0; i < 9; i++) {
        CHECK_OK(tp_df_next(one, &a));
        CHECK_OK(tp_df_next(two, &b));
        CHECK_OK(tp_df_next(other, &c));
        CHECK_OK(tp_df_next(below, &raw));
        CHECK_OK(
            tp_aug_draw(aug, 12, 10, tp_random_key(tp_random_key(42, tp_hash_name("tp_df_augment_images")), 0), i, &t));
        CHECK_OK(tp_aug_apply_image(&t, &raw.c[0], &want));
        CHECK(memcmp(a.c[0].data, want.data, 360) == 0);
        CHECK(memcmp(b.c[0].data, want.data, 360) == 0);
        differ += memcmp(c.c[0].data, want.data, 360) != 0;
        CHECK_OK(tp_aug_apply_mask(&t, &raw.c[1], 0, &want));
        CHECK(memcmp(a.c[1].data, want.data, 120) == 0);
        CHECK_OK(tp_aug_apply_image(&t, &raw.c[1], &want));
        CHECK(memcmp(b.c[1].data, want.data, 120) == 0);
        CHECK_OK(tp_aug_apply_coords(&t, &raw.c[2], &want));
        CHECK(memcmp(a.c[2].data, want.data, 8) == 0);
        CHECK_OK(tp_aug_apply_boxes(&t, &raw.c[3], &want));
        CHECK(memcmp(a.c[3].data, want.data, 16) == 0);
        CHECK(memcmp(b.c[3].data, raw.c[3].data, 16) == 0); /* not named: left alone */
    }
    CHECK(differ >= 8);
    tp_df_free(one), tp_df_free(two), tp_df_free(other), tp_df_free(below);
    tp_datapoint_free(&a), tp_datapoint_free(&b), tp_datapoint_free(&c), tp_datapoint_free(&raw);
    tp_aug_free(aug);
    tp_transform_free(&t);
    tp_tensor_free(&want);
}

/* What a mask gets where there is no image is .mask_fill, and not what the image gets there. */
TEST(masks_are_filled_with_a_value_of_their_own)
{
    tp_dataflow *below = scenes(&all_large);
    tp_dataflow *df = tp_df_augment_images(scenes(&all_large), tp_aug_pad(.pad = 1, .border_value = 3), .index = {0},
                                           .n_index = 1, .mask_index = {1}, .n_mask_index = 1, .mask_fill = 7);
    tp_datapoint a = {0, NULL, 0}, raw = {0, NULL, 0};
    const tp_shape padded = tp_make_shape(14, 12);
    for (int k = 0; k < 3 && CHECK_OK(tp_df_next(df, &a)) && CHECK_OK(tp_df_next(below, &raw)); k++) {
        if (!CHECK(tp_shape_equal(&a.c[1].shape, &padded))) break;
        for (int i = 0; i < 14; i++)
            for (int j = 0; j < 12; j++) {
                const bool border = i == 0 || i == 13 || j == 0 || j == 11;
                const double mask = border ? 7 : tp_tensor_get(&raw.c[1], (i - 1) * 10 + j - 1);
                const double red = border ? 3 : tp_tensor_get(&raw.c[0], ((i - 1) * 10 + j - 1) * 3);
                CHECK(tp_tensor_get(&a.c[1], i * 12 + j) == mask);
                CHECK(tp_tensor_get(&a.c[0], (i * 12 + j) * 3) == red);
            }
    }
    tp_df_free(df), tp_df_free(below);
    tp_datapoint_free(&a), tp_datapoint_free(&raw);
}

/* The image may be any component, and the points another one before it. */
TEST(points_follow_the_image_that_is_named)
{
    tp_dataflow *below = scenes(&all_large);
    tp_dataflow *df = tp_df_select(scenes(&all_large), (const int[2]){2, 0}, 2);
    df =
        tp_df_augment_coordinates(df, tp_aug_flip(.horiz = TP_YES, .prob = 1), .img_index = 1, .coords_index = TP_NONE);
    tp_datapoint a = {0, NULL, 0}, raw = {0, NULL, 0};
    for (int k = 0; k < 3 && CHECK_OK(tp_df_next(df, &a)) && CHECK_OK(tp_df_next(below, &raw)); k++) {
        CHECK(tp_tensor_get(&a.c[0], 0) == 10 - tp_tensor_get(&raw.c[2], 0)); /* the image is 10 wide */
        CHECK(tp_tensor_get(&a.c[0], 1) == tp_tensor_get(&raw.c[2], 1));
        for (int i = 0; i < 12; i++)
            for (int j = 0; j < 10; j++)
                CHECK(tp_tensor_get(&a.c[1], (i * 10 + j) * 3) == tp_tensor_get(&raw.c[0], (i * 10 + 9 - j) * 3));
    }
    tp_df_free(df), tp_df_free(below);
    tp_datapoint_free(&a), tp_datapoint_free(&raw);
}

/* Without .n_index, the images are components 0 and 1, and .index is ignored. The other lists are used as given. */
TEST(the_first_two_components_are_the_images)
{
    tp_datapoint a = {0, NULL, 0}, b = {0, NULL, 0};
    tp_augmentor *aug[2] = {tp_aug_flip(.horiz = TP_YES, .prob = 1), tp_aug_flip(.horiz = TP_YES, .prob = 1)};
    tp_df_augment_images_desc d;
    for (int k = 0; k < 2; k++) aug[k] = tp_aug_list(TP_AUGS(aug[k], tp_aug_random_crop(7, 6)));
    tp_dataflow *below[2] = {scenes(&all_large), scenes(&all_large)}, *df[2];
    for (int k = 0; k < 2; k++) { /* the same, by default and spelt out */
        memset(&d, 0, sizeof d);
        d.df = tp_df_select(below[k], (const int[7]){0, 1, 1, 2, 3, 2, 1}, 7);
        d.augmentors = aug[k];
        for (int i = 0; i < 3; i++) d.index[i] = k ? i : 9;
        d.n_index = k ? 2 : 0;
        d.mask_index[0] = 2, d.mask_index[1] = 6, d.n_mask_index = 2;
        d.coords_index[0] = 3, d.coords_index[1] = 5, d.n_coords_index = 2;
        d.box_index[0] = 4, d.n_box_index = 1;
        df[k] = tp_df_augment_images_(&d);
    }
    for (int i = 0; i < 9; i++) {
        CHECK_OK(tp_df_next(df[0], &a));
        CHECK_OK(tp_df_next(df[1], &b));
        CHECK_MSG(same_datapoints(&a, &b), "datapoint %d", i);
        CHECK(a.c[0].shape.dim[0] == 7 && a.c[1].shape.dim[0] == 7 && a.c[2].shape.dim[0] == 7);
    }
    for (int k = 0; k < 2; k++) tp_df_free(df[k]);
    tp_datapoint_free(&a), tp_datapoint_free(&b);
}

TEST(datapoints_that_fail_are_named_or_left_out)
{
    tp_datapoint dp = {0, NULL, 0};
    tp_dataflow *df = tp_df_augment_image(scenes(&some_small), tp_aug_random_crop(8, 8));
    CHECK_OK(tp_df_next(df, &dp));
    CHECK_OK(tp_df_next(df, &dp));
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_SHAPE, "8x8");
    CHECK(strstr(tp_last_error(), "pass 0, datapoint 2") != NULL);
    tp_df_free(df);
    df = tp_df_augment_image(scenes(&some_small), tp_aug_random_crop(8, 8), .catch_exceptions = TP_YES);
    tp_set_log(hear, NULL);
    warned = 0;
    int n = 0;
    while (tp_df_next(df, &dp) == TP_OK) {
        n++;
        CHECK(dp.c[0].shape.dim[0] == 8 && dp.c[0].shape.dim[1] == 8);
    }
    tp_set_log(NULL, NULL);
    CHECK(n == 6 && warned == 3);
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

TEST(augmenting_flows_allocate_nothing_and_survive_out_of_memory)
{
    tp_datapoint dp = {0, NULL, 0};
    for (int which = 0; which < 6; which++) {
        if (which == 4) continue; /* its log lines */
        tp_test_fail_after(0);
        tp_dataflow *df = augmented(which);
        for (int pass = 0; pass < 3; pass++)
            for (tp_df_restart(df, pass); tp_df_next(df, &dp) == TP_OK;) {}
        const long before = tp_test_alloc_count();
        for (int pass = 3; pass < 6; pass++)
            for (tp_df_restart(df, pass); tp_df_next(df, &dp) == TP_OK;) {}
        CHECK_MSG(tp_test_alloc_count() == before, "flow %d allocates %ld times", which,
                  tp_test_alloc_count() - before);
        tp_df_free(df);
        tp_datapoint_free(&dp);
        for (long n = 1, failed = 1; failed; n++) {
            tp_test_fail_after(n);
            df = augmented(which);
            tp_status st = df ? tp_df_status(df) : TP_ERR_NOMEM;
            for (int i = 0; i < 4 && st == TP_OK; i++) st = tp_df_next(df, &dp);
            failed = tp_test_alloc_failed();
            CHECK_MSG(failed ? st == TP_ERR_NOMEM : st == TP_OK, "flow %d, allocation %ld: %s: %s", which, n,
                      tp_status_name(st), tp_last_error());
            tp_datapoint_free(&dp);
            tp_df_free(df);
            CHECK_MSG(tp_test_live_blocks() == 0, "flow %d, allocation %ld leaks", which, n);
        }
    }
    tp_test_alloc_reset();
}

/* ==== >>misuse ======================================================================================== */

static void refused(tp_augmentor *a, const char *why)
{
    CHECK_ERR(tp_aug_status(a), TP_ERR_ARG, why);
    tp_aug_free(a);
}
static void accepted(tp_augmentor *a)
{
    CHECK_OK(tp_aug_status(a));
    tp_aug_free(a);
}
/* The first options that are refused, and the last ones before them. */
TEST(options_at_their_limits)
{
    static const float fractions[][2] = {{1, 0}, {0, 1}, {-0.1f, 0}, {0, -0.1f}, {NAN, 0}, {0, NAN}, {2, 2}};
    for (int i = 0; i < TP_COUNT(fractions); i++) {
        char why[80];
        snprintf(why, sizeof why, "the fractions are %g and %g", (double)fractions[i][0], (double)fractions[i][1]);
        refused(tp_aug_shift(.horiz_frac = fractions[i][0], .vert_frac = fractions[i][1]), why);
    }
    accepted(tp_aug_shift(.horiz_frac = 0.99f, .vert_frac = 0.99f));
    accepted(tp_aug_shift());
    for (int border = -1; border <= 6; border++) {
        char why[80];
        snprintf(why, sizeof why, "border %d is no tp_edge", border);
        if (border >= 0 && border < 6) {
            accepted(tp_aug_shift(.border = border));
            accepted(tp_aug_rotation(.max_deg = 9, .border = border));
        } else {
            refused(tp_aug_shift(.border = border), why);
            refused(tp_aug_rotation(.max_deg = 9, .border = border), why);
        }
    }
    refused(tp_aug_google_net_random_crop_and_resize(.interp = 9), "interp 9");
    accepted(tp_aug_random_resize(.xrange = {0.5f, 1}, .minimum = {0, 0}));
    refused(tp_aug_random_resize(.xrange = {0.5f, 1}, .minimum = {-1, 0}), "minimum {-1, 0}");
    refused(tp_aug_random_resize(.xrange = {0.5f, 1}, .minimum = {0, -1}), "minimum {0, -1}");
    for (int i = 0; i < 4; i++) {
        const int h = i == 1 ? -1 : 3, w = i == 2 ? -1 : i == 3 ? 0 : 4;
        if (i % 3 == 0) {
            accepted(tp_aug_center_paste(.h = h, .w = w));
            accepted(tp_aug_random_paste(.h = h, .w = w));
        } else {
            refused(tp_aug_center_paste(.h = h, .w = w), i == 1 ? "-1x4" : "3x-1");
            refused(tp_aug_random_paste(.h = h, .w = w), i == 1 ? "-1x4" : "3x-1");
        }
    }
    accepted(tp_aug_random_resize(.xrange = {0.5f, 1}, .interp = TP_INTER_AREA));
    refused(tp_aug_random_resize(.xrange = {0.5f, 1}, .interp = 9), "interp 9");
    refused(tp_aug_saturation(.alpha = 1), "alpha is 1,");
    refused(tp_aug_saturation(.alpha = 1.5f), "alpha is 1.5");
    refused(tp_aug_saturation(.alpha = -0.1f), "alpha is -0.1");
    refused(tp_aug_saturation(.alpha = NAN), "alpha is ");
    accepted(tp_aug_saturation(.alpha = TP_ZERO));
    accepted(tp_aug_saturation(.alpha = 0.99f));
    accepted(tp_aug_gaussian_blur(.size_range = {9999, 10000}));
    accepted(tp_aug_jpeg_noise(.quality_range = {1, 101}));
    refused(tp_aug_random_resize(.xrange = {1, 2}, .interp = TP_INTER_LANCZOS + 1), "interp 6");
    accepted(tp_aug_random_resize(.xrange = {1, 2}, .interp = TP_INTER_LANCZOS));
}

/* A cutout may cover the image, and no more. */
TEST(cutouts_as_large_as_the_image)
{
    for (int h = 4; h <= 6; h++)
        for (int w = 6; w <= 8; w++) {
            tp_augmentor *a = tp_aug_random_cutout(.h_range = {h}, .w_range = {w});
            tp_transform t;
            char want[80];
            memset(&t, 0, sizeof t);
            snprintf(want, sizeof want, "a part of %dx%d was asked for, the image is 5x7", h, w);
            const tp_status st = tp_aug_draw(a, 5, 7, 1, 1, &t);
            if (h <= 5 && w <= 7) CHECK_OK(st);
            else CHECK_ERR(st, TP_ERR_SHAPE, want);
            tp_transform_free(&t);
            tp_aug_free(a);
        }
}
TEST(wrong_options_are_refused)
{
    const double half[2] = {0.5, 0.6};
    tp_test_fail_after(0);
    refused(tp_aug_resize(.h = 0), "the size is 0x0");
    refused(tp_aug_resize(.h = 3, .interp = 9), "interp 9");
    refused(tp_aug_resize_shortest_edge(.size = -1), "the size is -1");
    refused(tp_aug_random_resize(.xrange = {2, 1}), "xrange is {2, 1}");
    refused(tp_aug_random_resize(.xrange = {1, 2}, .aspect_ratio_thres = -1), "aspect_ratio_thres is -1");
    refused(tp_aug_random_crop(0, 3), "0x3");
    refused(tp_aug_center_crop(3, -4), "3x-4");
    refused(tp_aug_random_crop_random_shape(.wmin = 3, .hmin = 3, .hmax = 2), "less than the minimum");
    refused(tp_aug_google_net_random_crop_and_resize(.crop_area_fraction = {0.5f, 2}), "crop_area_fraction");
    refused(tp_aug_random_cutout(.h_range = {5, 5}, .w_range = {3}), "h_range is {5, 5}");
    refused(tp_aug_pad(.left = -1), "-1 pixels");
    refused(tp_aug_pad(.border = 6), "border 6");
    refused(tp_aug_center_paste(.fill = 3), "0x0");
    refused(tp_aug_flip(.prob = 0.5f), ".horiz and .vert");
    refused(tp_aug_flip(.horiz = TP_YES, .vert = TP_YES), ".horiz and .vert");
    refused(tp_aug_flip(.horiz = TP_YES, .prob = 1.5f), "1.5");
    refused(tp_aug_transpose(.prob = -1), "-1");
    refused(tp_aug_rotation(.max_deg = 90, .step_deg = 45), "step_deg 45");
    refused(tp_aug_rotation(.max_deg = 90, .interp = TP_INTER_AREA), "interp 4");
    refused(tp_aug_rotation_and_crop_valid(.max_deg = -3), "max_deg is -3");
    refused(tp_aug_affine(.scale = {-1, 1}), "scale is {-1, 1}");
    refused(tp_aug_affine(.shear = 90), "shear 90");
    refused(tp_aug_affine(.shear = -1), "shear -1");
    refused(tp_aug_affine(.rotate_max_deg = -1), "rotate_max_deg is -1");
    refused(tp_aug_affine(.rotate_max_deg = 2e6f), "rotate_max_deg is 2e+06");
    refused(tp_aug_affine(.scale = {1, 2e3f}), "scale is {1, 2000}");
    refused(tp_aug_affine(.interp = 9), "interp 9");
    refused(tp_aug_affine(.border = 6), "border 6");
    static const float shifts[][2] = {{-1, 0}, {0, -1}, {101, 0}, {0, 101}, {NAN, 0}, {0, NAN}, {0.5f, -0.5f}};
    for (int i = 0; i < TP_COUNT(shifts); i++) {
        char why[80];
        snprintf(why, sizeof why, "translate_frac is {%g, %g}", (double)shifts[i][0], (double)shifts[i][1]);
        refused(tp_aug_affine(.translate_frac = {shifts[i][0], shifts[i][1]}), why);
    }
    tp_augmentor *most = tp_aug_affine(.translate_frac = {100, 100}, .rotate_max_deg = 1e6f, .shear = 89.9f);
    CHECK_OK(tp_aug_status(most));
    tp_aug_free(most);
    refused(tp_aug_brightness(), "delta is 0");
    refused(tp_aug_brightness_scale(), "range is {0, 0}");
    refused(tp_aug_contrast(.factor_range = {2, 1}), "factor_range is {2, 1}");
    refused(tp_aug_hue(.range = {3, 2}), "range is {3, 2}");
    refused(tp_aug_gamma(.range = {-1, 0}), "range is {-1, 0}");
    refused(tp_aug_clip(.min = 300), "min is 300");
    refused(tp_aug_lighting(), "std is 0");
    refused(tp_aug_grayscale(.keepshape = TP_YES, .keepdims = TP_NO), "needs .keepdims");
    refused(tp_aug_color_space(), "mode 0");
    refused(tp_aug_gaussian_blur(.size_range = {3, 2}), "size_range is {3, 2}");
    refused(tp_aug_gaussian_blur(.size_range = {2, 0}), "size_range is {2, 0}");
    refused(tp_aug_gaussian_blur(.size_range = {-1, 3}), "size_range is {-1, 3}");
    refused(tp_aug_gaussian_blur(.size_range = {0, 10001}), "size_range is {0, 10001}");
    refused(tp_aug_gaussian_blur(.size_range = {1, 2}, .sigma_range = {2, 1}), "sigma_range is {2, 1}");
    refused(tp_aug_jpeg_noise(.quality_range = {0, 50}), "quality_range is {0, 50}");
    refused(tp_aug_jpeg_noise(.quality_range = {50, 0}), "quality_range is {50, 0}");
    refused(tp_aug_jpeg_noise(.quality_range = {50, 102}), "quality_range is {50, 102}");
    refused(tp_aug_gaussian_noise(.sigma = -1), "sigma is -1");
    refused(tp_aug_salt_pepper_noise(.white_prob = 0.6f, .black_prob = 0.6f), "black_prob 0.6");
    refused(tp_aug_random_apply(tp_aug_identity(), 2), "is 2");
    refused(tp_aug_random_choose(TP_AUGS(tp_aug_identity(), tp_aug_identity()), half), "their sum is 1.1");
    refused(tp_aug_list(NULL, 0), "at least one");
    /* the place is told, and what is wrong within goes to the top */
    tp_augmentor *a =
        tp_aug_list(TP_AUGS(tp_aug_identity(), tp_aug_random_apply(tp_aug_resize(.h = -1), 0.5), tp_aug_transpose()));
    CHECK_ERR(tp_aug_status(a), TP_ERR_ARG, "test_augment.c:");
    tp_dataflow *df = tp_df_augment_image(scenes(&all_large), a);
    CHECK_ERR(tp_df_status(df), TP_ERR_ARG, "tp_aug_resize");
    tp_df_free(df);
    CHECK(tp_test_live_blocks() == 0);
    tp_test_alloc_reset();
}

/* A refusal names the source file without its folders, and the line. */
TEST(a_refusal_names_file_and_line)
{
    static const struct {
        const char *file, *place;
    } row[] = {{"net.c", "net.c:12: "}, {"/home/me/net.c", "net.c:12: "}, {"me/net.c", "net.c:12: "}, {NULL, ""}};
    for (int i = 0; i < TP_COUNT(row); i++) {
        tp_aug_resize_desc d;
        char want[200];
        memset(&d, 0, sizeof d);
        d.at_.file = row[i].file, d.at_.line = 12;
        tp_augmentor *a = tp_aug_resize_(&d);
        snprintf(want, sizeof want, "%stp_aug_resize: ", row[i].place);
        CHECK_ERR(tp_aug_status(a), TP_ERR_ARG, want);
        CHECK_MSG(strncmp(tp_last_error(), want, strlen(want)) == 0, "\"%s\"", tp_last_error());
        tp_aug_free(a);
    }
}

/* An augmentor without its descriptor is a sentence, not NULL. */
TEST(augmentors_need_their_descriptors)
{
    tp_augmentor *const none[] = {tp_aug_map_image_(NULL),
                                  tp_aug_resize_(NULL),
                                  tp_aug_resize_shortest_edge_(NULL),
                                  tp_aug_random_resize_(NULL),
                                  tp_aug_random_crop_random_shape_(NULL),
                                  tp_aug_google_net_random_crop_and_resize_(NULL),
                                  tp_aug_random_cutout_(NULL),
                                  tp_aug_pad_(NULL),
                                  tp_aug_center_paste_(NULL),
                                  tp_aug_random_paste_(NULL),
                                  tp_aug_flip_(NULL),
                                  tp_aug_transpose_(NULL),
                                  tp_aug_shift_(NULL),
                                  tp_aug_rotation_(NULL),
                                  tp_aug_rotation_and_crop_valid_(NULL),
                                  tp_aug_affine_(NULL),
                                  tp_aug_brightness_(NULL),
                                  tp_aug_brightness_scale_(NULL),
                                  tp_aug_contrast_(NULL),
                                  tp_aug_saturation_(NULL),
                                  tp_aug_hue_(NULL),
                                  tp_aug_gamma_(NULL),
                                  tp_aug_clip_(NULL),
                                  tp_aug_mean_variance_normalize_(NULL),
                                  tp_aug_min_max_normalize_(NULL),
                                  tp_aug_grayscale_(NULL),
                                  tp_aug_color_space_(NULL),
                                  tp_aug_gaussian_blur_(NULL),
                                  tp_aug_jpeg_noise_(NULL),
                                  tp_aug_gaussian_noise_(NULL),
                                  tp_aug_salt_pepper_noise_(NULL)};
    for (int i = 0; i < TP_COUNT(none); i++) {
        CHECK_MSG(none[i] != NULL, "augmentor %d of the list is NULL", i);
        refused(none[i], "the descriptor is NULL");
    }
}

/* A size is taken if its aspect changes by less than .aspect_ratio_thres and 1e-5; otherwise, after 50 more, none. */
TEST(an_aspect_at_the_threshold)
{
    const double change = 100001.0 / 100000 - 1;
    const float thres = (float)(change - 1e-5); /* 6.6e-17 */
    char text[256];
    if ((double)thres + 1e-5 != change) TEST_SKIP("doubles are not those of IEEE 754");
    for (int i = -1; i <= 1; i++)
        for (int taller = 0; taller < 2; taller++) {
            const float most = 100001, x = taller ? 100000 : most, y = taller ? most : 100000;
            tp_augmentor *a = tp_aug_random_resize(.xrange = {x, x}, .yrange = {y, y}, .pixels = TP_YES,
                                                   .aspect_ratio_thres = i < 0 ? thres / 2
                                                                         : i   ? thres * 2
                                                                               : thres);
            steps_of(a, 100000, 100000, 5, 0, text, sizeof text);
            /* a taller image changes by a little less than a wider one */
            CHECK_MSG((strstr(text, "100001") != NULL) == (i > 0 || taller), "%d, %d: %s", i, taller, text);
            tp_aug_free(a);
        }
}

/* Sixty-four augmentors can be ordered, one more cannot. What is wrong with one of them, or a lack of memory, is told first. */
TEST(as_many_augmentors_as_can_be_ordered)
{
    tp_augmentor *a[65];
    for (int i = 0; i < 65; i++) a[i] = i == 64 ? tp_aug_resize(.h = -3) : tp_aug_identity();
    tp_augmentor *wrong = tp_aug_random_order(a, 65);
    CHECK(tp_aug_status(wrong) == TP_ERR_ARG && !strstr(tp_last_error(), "ordered"));
    tp_aug_free(wrong);
    for (int n = 1; n <= 3; n++) {
        for (int i = 0; i < 65; i++) a[i] = tp_aug_identity();
        tp_test_fail_after(n);
        CHECK(tp_aug_random_order(a, 65) == NULL && tp_test_alloc_failed());
        tp_test_alloc_reset();
    }
    for (int n = 64; n <= 65; n++) {
        for (int i = 0; i < n; i++) a[i] = tp_aug_identity();
        tp_augmentor *all = tp_aug_random_order(a, n);
        if (n == 64) CHECK_OK(tp_aug_status(all));
        else CHECK_ERR(tp_aug_status(all), TP_ERR_ARG, "65 augmentors, at most 64 can be ordered");
        tp_aug_free(all);
    }
}

TEST(augmentors_have_one_owner)
{
    tp_test_fail_after(0);
    tp_augmentor *flip = tp_aug_flip(.horiz = TP_YES);
    tp_augmentor *a = tp_aug_list(TP_AUGS(flip, flip));
    CHECK_ERR(tp_aug_status(a), TP_ERR_ARG, "given away twice");
    tp_aug_free(a);
    flip = tp_aug_flip(.horiz = TP_YES);
    a = tp_aug_list(&flip, 1);
    tp_augmentor *b = tp_aug_random_order(TP_AUGS(tp_aug_identity(), flip, tp_aug_identity()));
    CHECK_ERR(tp_aug_status(b), TP_ERR_ARG, "given away twice");
    tp_dataflow *one = tp_df_augment_image(scenes(&all_large), a), *two = tp_df_augment_image(scenes(&all_large), a);
    CHECK_OK(tp_df_status(one));
    CHECK_ERR(tp_df_status(two), TP_ERR_ARG, "given away twice");
    tp_dataflow *three = tp_df_augment_image(one, tp_aug_identity(), .index = -1);
    CHECK_ERR(tp_df_status(three), TP_ERR_ARG, "no component -1");
    tp_df_free(two), tp_df_free(three);
    tp_aug_free(b);
    CHECK(tp_df_augment_image(NULL, tp_aug_identity()) == NULL);
    CHECK(tp_df_augment_image(scenes(&all_large), NULL) == NULL);
    CHECK(tp_aug_list(TP_AUGS(tp_aug_identity(), NULL)) == NULL);
    CHECK_ERR(tp_aug_status(NULL), TP_ERR_ARG, "NULL");
    tp_aug_free(NULL);
    tp_transform_free(NULL);
    CHECK(tp_test_live_blocks() == 0);
    tp_test_alloc_reset();
}

static void size_of_the_user(int64_t *h, int64_t *w, const tp_aug_call *call)
{
    const int64_t *size = (const int64_t *)call->user;
    *h = size[0], *w = size[1];
}
/* A result has a pixel at least and at most 2^24 rows and columns. */
TEST(sizes_that_no_image_has)
{
    static const int64_t size[][2] = {{0, 5}, {5, 0}, {-1, 5}, {5, -1}, {0, 0}, {(1 << 24) + 1, 5}, {5, (1 << 24) + 1}};
    static const int64_t most[2] = {1 << 24, 1 << 24};
    char want[80];
    tp_transform t;
    memset(&t, 0, sizeof t);
    for (int i = 0; i < TP_COUNT(size); i++) {
        tp_augmentor *a =
            tp_aug_map_image(.fn = leave, .size_fn = size_of_the_user, .user = (void *)(uintptr_t)size[i]);
        snprintf(want, sizeof want, "tp_aug_map_image: the result would have %d rows and %d columns", (int)size[i][0],
                 (int)size[i][1]);
        CHECK_ERR(tp_aug_draw(a, 12, 10, 0, 0, &t), TP_ERR_SHAPE, want);
        tp_aug_free(a);
    }
    tp_augmentor *a = tp_aug_map_image(.fn = leave, .size_fn = size_of_the_user, .user = (void *)(uintptr_t)most);
    CHECK_OK(tp_aug_draw(a, 12, 10, 0, 0, &t));
    CHECK(t.out_h == most[0] && t.out_w == most[1]);
    tp_aug_free(a);
    a = tp_aug_pad(.top = 1 << 24);
    CHECK_ERR(tp_aug_draw(a, 12, 10, 0, 0, &t), TP_ERR_SHAPE, "16777228 rows and 10 columns");
    tp_aug_free(a);
    a = tp_aug_pad(.right = 1 << 24);
    CHECK_ERR(tp_aug_draw(a, 12, 10, 0, 0, &t), TP_ERR_SHAPE, "12 rows and 16777226 columns");
    tp_aug_free(a);
    a = tp_aug_resize_shortest_edge(.size = 1 << 20);
    CHECK_ERR(tp_aug_draw(a, 1, 17, 0, 0, &t), TP_ERR_SHAPE, "1048576 rows and 17825792 columns");
    CHECK_ERR(tp_aug_draw(a, 17, 1, 0, 0, &t), TP_ERR_SHAPE, "17825792 rows and 1048576 columns");
    tp_aug_free(a);
    tp_transform_free(&t);
}

TEST(wrong_images_are_refused)
{
    tp_transform t;
    tp_augmentor *a = usual();
    tp_tensor image = new_image(TP_F64, 12, 10, 3), out, points = new_image(TP_F32, 4, 3, 0);
    memset(&t, 0, sizeof t), memset(&out, 0, sizeof out);
    CHECK_ERR(tp_aug_draw(NULL, 12, 10, 0, 0, &t), TP_ERR_ARG, "NULL");
    CHECK_ERR(tp_aug_draw(a, 0, 10, 0, 0, &t), TP_ERR_SHAPE, "0 rows");
    CHECK_ERR(tp_aug_draw(a, 3, 1, 0, 0, &t), TP_ERR_SHAPE, "the image is 11x9");
    CHECK_ERR(tp_aug_apply_image(&t, &image, &out), TP_ERR_DTYPE, "float64");
    image.dtype = TP_F32;
    CHECK_ERR(tp_aug_apply_image(&t, &image, &out), TP_ERR_STATE, "tp_aug_draw comes first");
    CHECK_ERR(tp_aug_apply_coords(&t, &points, &out), TP_ERR_SHAPE, "(4,3)");
    CHECK_OK(tp_aug_draw(a, 12, 11, 0, 0, &t));
    CHECK_ERR(tp_aug_apply_image(&t, &image, &out), TP_ERR_SHAPE, "drawn for an image of 12x11");
    image.shape.ndim = 1;
    CHECK_ERR(tp_aug_apply_image(&t, &image, &out), TP_ERR_SHAPE, "(H,W)");
    points.dtype = TP_I32;
    CHECK_ERR(tp_aug_apply_boxes(&t, &points, &out), TP_ERR_DTYPE, "int32");
    CHECK_ERR(tp_aug_apply_mask(&t, NULL, 0, &out), TP_ERR_ARG, "NULL");
    tp_aug_free(a);
    a = tp_aug_hue();
    image.shape = tp_make_shape(12, 10);
    CHECK_OK(tp_aug_draw(a, 12, 10, 0, 0, &t));
    CHECK_ERR(tp_aug_apply_image(&t, &image, &out), TP_ERR_SHAPE, "1 channels, it must have 3");
    tp_aug_free(a);
    a = tp_aug_pad(.pad = 1 << 24);
    CHECK_ERR(tp_aug_draw(a, 12, 10, 0, 0, &t), TP_ERR_SHAPE, "33554444 rows");
    tp_aug_free(a);
    a = tp_aug_center_paste(.h = 11);
    CHECK_ERR(tp_aug_draw(a, 12, 10, 0, 0, &t), TP_ERR_SHAPE, "does not fit into it");
    tp_aug_free(a);
    tp_transform_free(&t);
    /* a draw that fails leaves no step, of its own or of an earlier one */
    static const struct {
        int h, w;
        tp_status st;
    } draw[] = {{11, 10, TP_OK},
                {12, 10, TP_ERR_SHAPE},
                {10, 11, TP_OK},
                {0, 10, TP_ERR_SHAPE},
                {11, 11, TP_OK},
                {10, 0, TP_ERR_SHAPE},
                {1, 1, TP_OK},
                {1, (1 << 24) + 1, TP_ERR_SHAPE},
                {(1 << 24) + 1, 1, TP_ERR_SHAPE}};
    a = tp_aug_list(TP_AUGS(tp_aug_transpose(.prob = 1), tp_aug_center_paste(.h = 11, .w = 11)));
    image.shape = tp_make_shape(12, 10);
    for (int i = 0; i < TP_COUNT(draw); i++) {
        const bool good = draw[i].st == TP_OK;
        char text[80];
        CHECK(tp_aug_draw(a, draw[i].h, draw[i].w, 0, 0, &t) == draw[i].st);
        CHECK(t.n == (good ? 2 : 0) && t.h == (good ? draw[i].h : 0) && t.w == (good ? draw[i].w : 0));
        CHECK(t.out_h == (good ? 11 : 0) && t.out_w == (good ? 11 : 0));
        CHECK((*tp_transform_text(&t, text, sizeof text) != 0) == good);
        if (!good) CHECK_ERR(tp_aug_apply_image(&t, &image, &out), TP_ERR_STATE, "tp_aug_draw comes first");
    }
    tp_aug_free(a);
    a = tp_aug_resize(.h = -1); /* what is no augmentor after one that is */
    CHECK_ERR(tp_aug_draw(a, 1, 1, 0, 0, &t), TP_ERR_ARG, "tp_aug_resize");
    CHECK(t.n == 0 && t.h == 0 && t.w == 0 && t.out_h == 0 && t.out_w == 0);
    tp_aug_free(a);
    tp_transform_free(&t);
    tp_tensor_free(&image);
    tp_tensor_free(&out);
    tp_tensor_free(&points);
}

TEST_MAIN()
