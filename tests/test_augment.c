/* test_augment.c - augmentors of images (tp_input.h) */
#define TP_IMPLEMENTATION
#include "../tp_input.h"
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

static tp_tensor vector_image(const augment_vector *v)
{
    tp_tensor t = new_image(TP_U8, v->in[0], v->in[1], v->in[2]), f;
    from_hex(t.data, v->image, tp_tensor_bytes(&t));
    if (!v->floats) return t;
    f = new_image(TP_F32, v->in[0], v->in[1], v->in[2]);
    for (int64_t i = 0; i < tp_tensor_size(&f); i++)
        ((float *)f.data)[i] = (float)((unsigned char *)t.data)[i] * 0.75f + 0.125f;
    tp_tensor_free(&t);
    return f;
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

TEST_MAIN()
