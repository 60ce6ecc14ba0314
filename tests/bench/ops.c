/* ops.c - milliseconds of single ops and of their gradients: float32, one thread
 *
 *   make build/ops && build/ops [part of a name] [seconds for each]
 *
 * Prints one line of JSON for each case: "ms" is the median of runs of y = f(x), "step_ms" that of runs of y and of dx for a given
 * dy; -1 where f has no gradient. x, dy and the other operands are variables. A case is named after the op and what is special about
 * it; ops.py has the same cases for PyTorch and compares. Cases that train networks: sweep.c; element-wise functions: elementwise.c. */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_graph.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RUNS = 2000 };

typedef tp_node *(*function)(tp_node *x);
/* other operands of this shape, the same in each run: normal numbers; numbers from 0.5 to 2 */
#define OTHER(...) tp_get_variable_as(tp_node_graph(x), "b", TP_F32, tp_make_shape(__VA_ARGS__), tp_init_normal(0, 1))
#define POSITIVE(...) \
    tp_get_variable_as(tp_node_graph(x), "c", TP_F32, tp_make_shape(__VA_ARGS__), tp_init_uniform(0.5f, 2))
static tp_node *whole(tp_node *x, float scale) { return tp_cast(tp_affine(tp_abs(x), scale, 0), TP_I32); }
/* n indices below `most`, in no order */
static tp_node *indices(tp_node *x, int64_t n, int64_t most)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    if (tp_tensor_resize(&t, TP_I32, tp_make_shape(n)) != TP_OK) return tp_poison(tp_node_graph(x));
    for (int64_t i = 0; i < n; i++)
        ((int32_t *)t.data)[i] = (int32_t)(tp_random_u32(5, 0, (uint64_t)i) % (uint32_t)most);
    tp_node *y = tp_constant(tp_node_graph(x), &t);
    tp_tensor_free(&t);
    return y;
}

#define CASE(name_, value_) \
    static tp_node *name_(tp_node *x) { return value_; }
/* broadcasts */
CASE(add_row, tp_add(x, OTHER(1, 1024)))
CASE(add_column, tp_add(x, OTHER(1024, 1)))
CASE(mul_channels_nchw, tp_mul(x, OTHER(1, 64, 1, 1)))
CASE(mul_samples, tp_mul(x, OTHER(64, 1, 1, 64)))
CASE(outer_sum, tp_add(x, OTHER(1, 1024)))
CASE(mul_middle, tp_mul(x, OTHER(64, 1, 128)))
CASE(add_scalar, tp_add(x, OTHER(1)))
/* element-wise */
CASE(mod, tp_mod(x, POSITIVE(1024, 1024)))
CASE(floordiv, tp_floordiv(x, POSITIVE(1024, 1024)))
CASE(maximum, tp_maximum(x, OTHER(1024, 1024)))
CASE(select_greater, tp_select(tp_greater(x, OTHER(1024, 1024)), x, POSITIVE(1024, 1024)))
CASE(round_, tp_round(x))
CASE(clip, tp_clip(x, -1, 1))
CASE(to_f64, tp_cast(tp_square(tp_cast(x, TP_F64)), TP_F32))
CASE(to_int, tp_cast(whole(x, 100), TP_F32))
CASE(int_sum, tp_cast(tp_add(whole(x, 100), whole(x, 50)), TP_F32))
CASE(int_product, tp_cast(tp_mul(whole(x, 100), whole(x, 50)), TP_F32))
CASE(int_div, tp_cast(tp_floordiv(whole(x, 1000), tp_cast(tp_affine(tp_abs(x), 3, 1), TP_I32)), TP_F32))
CASE(logical, tp_cast(tp_logical_and(tp_greater(x, OTHER(1024, 1024)), tp_is_finite(x)), TP_F32))
/* reductions */
CASE(sum_rows, tp_sum_over(x, 1))
CASE(sum_columns, tp_sum_over(x, 0))
CASE(sum_middle, tp_sum_over(x, 1))
CASE(sum_outer, tp_sum_over(x, 0, 2))
CASE(sum_maps_nchw, tp_sum_over(x, 2, 3))
CASE(sum_pixels, tp_sum_over(x, 0, 1, 2))
CASE(max_rows, tp_max_over(x, 1))
CASE(max_columns, tp_max_over(x, 0))
CASE(max_middle, tp_max_over(x, 1))
CASE(min_maps_nchw, tp_min_over(x, 2, 3))
CASE(prod_rows, tp_prod_over(x, 1))
CASE(prod_columns, tp_prod_over(x, 0))
CASE(prod_middle, tp_prod_over(x, 1))
CASE(norm_rows, tp_sqrt(tp_sum_over(tp_square(x), 1)))
CASE(variance_columns, tp_mean_over(tp_square(tp_sub(x, tp_reduce_mean(x, TP__INTS(0), true))), 0))
CASE(argmax_rows, tp_cast(tp_argmax(x, 1), TP_F32))
CASE(argmax_columns, tp_cast(tp_argmax(x, 0), TP_F32))
CASE(any_rows, tp_cast(tp_reduce_any(tp_greater(x, tp_const(tp_node_graph(x), 9)), TP__INTS(1), false), TP_F32))
CASE(cumsum_rows, tp_cumsum(x, 1, false, false))
CASE(cumsum_columns, tp_cumsum(x, 0, false, false))
CASE(cumsum_reverse, tp_cumsum(x, 1, false, true))
CASE(top_5_of_100, tp_top_k(x, 5, NULL))
CASE(top_10_of_8192, tp_top_k(x, 10, NULL))
CASE(top_1000_of_8192, tp_top_k(x, 1000, NULL))
CASE(in_top_5, tp_cast(tp_in_top_k(x, indices(x, 1024, 1000), 5), TP_F32))
/* rows of probabilities */
CASE(softmax_10, tp_softmax(x))
CASE(softmax_1000, tp_softmax(x))
CASE(softmax_30000, tp_log_softmax(x))
CASE(cross_entropy_10, tp_sparse_softmax_cross_entropy(x, indices(x, 65536, 10)))
CASE(cross_entropy_30000, tp_sparse_softmax_cross_entropy(x, indices(x, 64, 30000)))
CASE(cross_entropy_dense, tp_softmax_cross_entropy(x, POSITIVE(1024, 1000)))
CASE(sigmoid_cross_entropy, tp_sigmoid_cross_entropy(x, POSITIVE(1024, 1024)))
/* data that moves */
CASE(transpose, tp_permute(x, 1, 0))
CASE(transpose_odd, tp_permute(x, 1, 0))
CASE(nchw_to_nhwc, tp_permute(x, 0, 2, 3, 1))
CASE(nhwc_to_nchw, tp_permute(x, 0, 3, 1, 2))
CASE(images_to_nchw, tp_permute(x, 0, 3, 1, 2))
CASE(heads, tp_permute(x, 0, 2, 1, 3))
CASE(patches, tp_permute(x, 0, 1, 3, 2, 4, 5))
CASE(reverse_rows, tp_reverse(x, TP__INTS(1)))
CASE(reverse_columns, tp_reverse(x, TP__INTS(0)))
CASE(flip_images, tp_reverse(x, TP__INTS(2)))
CASE(concat_columns, tp_concat_along(1, x, OTHER(1024, 1000), x))
CASE(concat_channels, tp_concat_along(3, x, OTHER(32, 32, 32, 3), x))
CASE(stack_last, tp_stack_along(2, x, x, x))
CASE(tile_rows, tp_tile(x, (const int64_t[]){1, 4}))
CASE(tile_samples, tp_tile(x, (const int64_t[]){4, 1}))
CASE(pad_zero, tp_pad(x, (const int64_t[]){0, 1, 1, 0}, (const int64_t[]){0, 1, 1, 0}, TP_PAD_CONSTANT, 0))
CASE(pad_reflect, tp_pad(x, (const int64_t[]){0, 2, 2, 0}, (const int64_t[]){0, 2, 2, 0}, TP_PAD_REFLECT, 0))
CASE(crop, tp_slice(x, (const int64_t[]){0, 2, 2, 0}, (const int64_t[]){-1, 28, 28, -1}))
CASE(slice_columns, tp_slice(x, (const int64_t[]){0, 3}, (const int64_t[]){-1, 500}))
CASE(gather_64, tp_gather(x, indices(x, 65536, 10000)))
CASE(gather_1, tp_gather(x, indices(x, 1000000, 1000000)))
CASE(gather_1024, tp_gather(x, indices(x, 2048, 1024)))
CASE(one_hot, tp_matmul(tp_one_hot(indices(x, 4096, 256), 256, 1, 0), x))
/* images */
#define POOL(kind_, size_, stride_, padding_, format_) \
    kind_(x, &(const tp_pool_attrs){size_, size_, stride_, stride_, padding_, format_})
CASE(max_pool_2, POOL(tp_nn_max_pool, 2, 2, TP_VALID, TP_NHWC))
CASE(max_pool_3_2, POOL(tp_nn_max_pool, 3, 2, TP_SAME, TP_NHWC))
CASE(max_pool_5_1, POOL(tp_nn_max_pool, 5, 1, TP_SAME, TP_NHWC))
CASE(max_pool_nchw, POOL(tp_nn_max_pool, 2, 2, TP_VALID, TP_NCHW))
CASE(avg_pool_2, POOL(tp_nn_avg_pool, 2, 2, TP_VALID, TP_NHWC))
CASE(avg_pool_3_1, POOL(tp_nn_avg_pool, 3, 1, TP_SAME, TP_NHWC))
CASE(avg_pool_31, POOL(tp_nn_avg_pool, 31, 1, TP_VALID, TP_NHWC))
CASE(max_pool_31, POOL(tp_nn_max_pool, 31, 1, TP_VALID, TP_NHWC))
CASE(avg_pool_nchw, POOL(tp_nn_avg_pool, 2, 2, TP_VALID, TP_NCHW))
CASE(global_pool, tp_mean_over(x, 1, 2))
CASE(bilinear_2x, tp_resize_bilinear(x, &(const tp_resize_attrs){128, 128, .half_pixel_centers = true}))
CASE(bilinear_rgb, tp_resize_bilinear(x, &(const tp_resize_attrs){224, 224, .half_pixel_centers = true}))
CASE(nearest_2x, tp_resize_nearest(x, &(const tp_resize_attrs){128, 128, .align_corners = false}))
CASE(sampler, tp_bilinear_sampler(x, POSITIVE(8, 64, 64, 2), TP_BORDER_REPEAT))
/* norms, products, random numbers */
static tp_node *gamma_(tp_node *x, int n)
{
    return tp_get_variable_as(tp_node_graph(x), "gamma", TP_F32, tp_make_shape(n), tp_init_constant(1));
}
static tp_node *beta_(tp_node *x, int n)
{
    return tp_get_variable_as(tp_node_graph(x), "beta", TP_F32, tp_make_shape(n), tp_init_constant(0));
}
CASE(layer_norm_768, tp_nn_layer_norm(x, gamma_(x, 768), beta_(x, 768), 1e-5f))
CASE(layer_norm_32, tp_nn_layer_norm(x, gamma_(x, 32), beta_(x, 32), 1e-5f))
CASE(group_norm, tp_nn_group_norm(x, gamma_(x, 64), beta_(x, 64), 3, 8, 1e-5f))
CASE(group_norm_nchw, tp_nn_group_norm(x, gamma_(x, 64), beta_(x, 64), 1, 8, 1e-5f))
CASE(instance_norm_nchw, tp_nn_group_norm(x, gamma_(x, 64), beta_(x, 64), 1, 64, 1e-5f))
CASE(batch_norm, tp_nn_batch_norm_train(x, gamma_(x, 64), beta_(x, 64), 3, 1e-5f, false, NULL, NULL))
CASE(batch_norm_nchw, tp_nn_batch_norm_train(x, gamma_(x, 64), beta_(x, 64), 1, 1e-5f, false, NULL, NULL))
CASE(batch_norm_rows, tp_nn_batch_norm_train(x, gamma_(x, 1024), beta_(x, 1024), 1, 1e-5f, false, NULL, NULL))
/* few channels, last: one or three floats for each pixel */
CASE(bias_c1, tp_nn_bias_add(x, beta_(x, 1), TP_NHWC))
CASE(bias_c3, tp_nn_bias_add(x, beta_(x, 3), TP_NHWC))
CASE(group_norm_c1, tp_nn_group_norm(x, gamma_(x, 1), beta_(x, 1), 3, 1, 1e-5f))
CASE(group_norm_c3, tp_nn_group_norm(x, gamma_(x, 3), beta_(x, 3), 3, 3, 1e-5f))
CASE(batch_norm_c1, tp_nn_batch_norm_train(x, gamma_(x, 1), beta_(x, 1), 3, 1e-5f, false, NULL, NULL))
CASE(batch_norm_c3, tp_nn_batch_norm_train(x, gamma_(x, 3), beta_(x, 3), 3, 1e-5f, false, NULL, NULL))
CASE(depthwise_c3, tp_nn_conv2d(x, OTHER(3, 3, 1, 3), &(const tp_conv2d_attrs){.groups = 3}))
CASE(max_pool_c1, POOL(tp_nn_max_pool, 3, 1, TP_SAME, TP_NHWC))
CASE(max_pool_c3, POOL(tp_nn_max_pool, 3, 1, TP_SAME, TP_NHWC))
CASE(max_pool_2_c3, POOL(tp_nn_max_pool, 2, 2, TP_VALID, TP_NHWC))
CASE(sampler_c1, tp_bilinear_sampler(x, POSITIVE(8, 128, 128, 2), TP_BORDER_REPEAT))
CASE(sampler_c3, tp_bilinear_sampler(x, POSITIVE(8, 128, 128, 2), TP_BORDER_REPEAT))
CASE(sum_middle_c3, tp_sum_over(x, 1))
CASE(products_16, tp_matmul(x, OTHER(4096, 16, 16)))
CASE(products_64, tp_matmul(x, OTHER(256, 64, 64)))
CASE(products_shared, tp_matmul(x, OTHER(64, 32)))
CASE(matrix_vector, tp_matmul(x, OTHER(1024, 1)))
CASE(outer_product, tp_matmul(x, OTHER(1, 1024)))
CASE(attention_long, tp_nn_attention(x, x, x, 4, true))
CASE(attention_short, tp_nn_attention(x, x, x, 4, false))
CASE(dropout, tp_nn_dropout(x, 0.5f))
CASE(add_noise, tp_add(x, tp_rand_normal_like(x, 0, 1)))
CASE(segment_sum, tp_unsorted_segment_sum(x, indices(x, 65536, 1000), 1000))

#define ROW(name_, ...)                      \
    {                                        \
#name_, name_, {__VA_ARGS__ }, false \
    }
#define NO_GRADIENT(name_, ...)             \
    {                                       \
#name_, name_, {__VA_ARGS__ }, true \
    }
static const struct {
    const char *name;
    function fn;
    int64_t dim[6];
    bool forward_only;
} cases[] = {
    ROW(add_row, 1024, 1024),
    ROW(add_column, 1024, 1024),
    ROW(mul_channels_nchw, 64, 64, 16, 16),
    ROW(mul_samples, 64, 256, 1, 64),
    ROW(outer_sum, 1024, 1),
    ROW(mul_middle, 64, 128, 128),
    ROW(add_scalar, 1024, 1024),
    ROW(mod, 1024, 1024),
    NO_GRADIENT(floordiv, 1024, 1024),
    ROW(maximum, 1024, 1024),
    ROW(select_greater, 1024, 1024),
    NO_GRADIENT(round_, 1024, 1024),
    ROW(clip, 1024, 1024),
    ROW(to_f64, 1024, 1024),
    NO_GRADIENT(to_int, 1024, 1024),
    NO_GRADIENT(int_sum, 1024, 1024),
    NO_GRADIENT(int_product, 1024, 1024),
    NO_GRADIENT(int_div, 1024, 1024),
    NO_GRADIENT(logical, 1024, 1024),
    ROW(sum_rows, 1024, 1024),
    ROW(sum_columns, 1024, 1024),
    ROW(sum_middle, 64, 128, 128),
    ROW(sum_outer, 64, 128, 128),
    ROW(sum_maps_nchw, 64, 256, 8, 8),
    ROW(sum_pixels, 64, 16, 16, 64),
    ROW(max_rows, 1024, 1024),
    ROW(max_columns, 1024, 1024),
    ROW(max_middle, 64, 128, 128),
    ROW(min_maps_nchw, 64, 256, 8, 8),
    ROW(prod_rows, 4096, 16),
    ROW(prod_columns, 16, 65536),
    ROW(prod_middle, 1024, 16, 64),
    ROW(norm_rows, 8192, 128),
    ROW(variance_columns, 1024, 1024),
    NO_GRADIENT(argmax_rows, 1024, 1024),
    NO_GRADIENT(argmax_columns, 1024, 1024),
    NO_GRADIENT(any_rows, 1024, 1024),
    ROW(cumsum_rows, 1024, 1024),
    ROW(cumsum_columns, 1024, 1024),
    ROW(cumsum_reverse, 1024, 1024),
    ROW(top_5_of_100, 10000, 100),
    ROW(top_10_of_8192, 128, 8192),
    ROW(top_1000_of_8192, 128, 8192),
    NO_GRADIENT(in_top_5, 1024, 1000),
    ROW(softmax_10, 65536, 10),
    ROW(softmax_1000, 1024, 1000),
    ROW(softmax_30000, 64, 30000),
    ROW(cross_entropy_10, 65536, 10),
    ROW(cross_entropy_30000, 64, 30000),
    ROW(cross_entropy_dense, 1024, 1000),
    ROW(sigmoid_cross_entropy, 1024, 1024),
    ROW(transpose, 1024, 1024),
    ROW(transpose_odd, 1023, 77),
    ROW(nchw_to_nhwc, 32, 64, 28, 28),
    ROW(nhwc_to_nchw, 32, 28, 28, 64),
    ROW(images_to_nchw, 8, 224, 224, 3),
    ROW(heads, 16, 128, 8, 64),
    ROW(patches, 32, 8, 4, 8, 4, 3),
    ROW(reverse_rows, 1024, 1024),
    ROW(reverse_columns, 1024, 1024),
    ROW(flip_images, 64, 64, 64, 3),
    ROW(concat_columns, 1024, 300),
    ROW(concat_channels, 32, 32, 32, 16),
    ROW(stack_last, 512, 512),
    ROW(tile_rows, 1024, 256),
    ROW(tile_samples, 256, 1024),
    ROW(pad_zero, 32, 32, 32, 32),
    ROW(pad_reflect, 32, 32, 32, 32),
    ROW(crop, 64, 32, 32, 16),
    ROW(slice_columns, 2048, 1000),
    ROW(gather_64, 10000, 64),
    ROW(gather_1, 1000000),
    ROW(gather_1024, 1024, 1024),
    ROW(one_hot, 256, 64),
    ROW(max_pool_2, 32, 32, 32, 32),
    ROW(max_pool_3_2, 32, 56, 56, 16),
    ROW(max_pool_5_1, 8, 28, 28, 64),
    ROW(max_pool_nchw, 32, 32, 32, 32),
    ROW(avg_pool_2, 32, 32, 32, 32),
    ROW(avg_pool_3_1, 32, 32, 32, 32),
    ROW(avg_pool_31, 4, 64, 64, 16),
    ROW(max_pool_31, 4, 64, 64, 16),
    ROW(avg_pool_nchw, 32, 32, 32, 32),
    ROW(global_pool, 64, 14, 14, 128),
    ROW(bilinear_2x, 8, 64, 64, 16),
    ROW(bilinear_rgb, 8, 128, 128, 3),
    ROW(nearest_2x, 8, 64, 64, 16),
    ROW(sampler, 8, 64, 64, 16),
    ROW(layer_norm_768, 2048, 768),
    ROW(layer_norm_32, 32768, 32),
    ROW(group_norm, 16, 32, 32, 64),
    ROW(group_norm_nchw, 16, 64, 32, 32),
    ROW(instance_norm_nchw, 16, 64, 32, 32),
    ROW(batch_norm, 32, 28, 28, 64),
    ROW(batch_norm_nchw, 32, 64, 28, 28),
    ROW(batch_norm_rows, 1024, 1024),
    ROW(bias_c1, 8, 256, 256, 1),
    ROW(bias_c3, 8, 256, 256, 3),
    ROW(group_norm_c1, 8, 256, 256, 1),
    ROW(group_norm_c3, 8, 256, 256, 3),
    ROW(batch_norm_c1, 8, 256, 256, 1),
    ROW(batch_norm_c3, 8, 256, 256, 3),
    ROW(depthwise_c3, 8, 128, 128, 3),
    ROW(max_pool_c1, 8, 128, 128, 1),
    ROW(max_pool_c3, 8, 128, 128, 3),
    ROW(max_pool_2_c3, 8, 128, 128, 3),
    ROW(sampler_c1, 8, 128, 128, 1),
    ROW(sampler_c3, 8, 128, 128, 3),
    ROW(sum_middle_c3, 1000, 100, 3),
    ROW(products_16, 4096, 16, 16),
    ROW(products_64, 256, 64, 64),
    ROW(products_shared, 64, 128, 64),
    ROW(matrix_vector, 1024, 1024),
    ROW(outer_product, 1024, 1),
    ROW(attention_long, 2, 512, 128),
    ROW(attention_short, 64, 32, 128),
    ROW(dropout, 1024, 1024),
    ROW(add_noise, 1024, 1024),
    ROW(segment_sum, 65536, 64),
};

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
/* Returns the median of the milliseconds of runs; ends the program after an error. */
static double measure(tp_session *s, tp_node *fetch, double seconds)
{
    static double t[MOST_RUNS];
    int runs = 0;
    if (tp_session_run(s, NULL, 0, &fetch, 1, NULL) != TP_OK) puts(tp_last_error()), exit(1);
    for (double end = tp_time() + seconds; runs < MOST_RUNS && (runs < 5 || tp_time() < end); runs++) {
        const double begin = tp_time();
        if (tp_session_run(s, NULL, 0, &fetch, 1, NULL) != TP_OK) puts(tp_last_error()), exit(1);
        t[runs] = tp_time() - begin;
    }
    qsort(t, (size_t)runs, sizeof t[0], by_value);
    return t[runs / 2] * 1e3;
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    const double seconds = argc > 2 ? atof(argv[2]) : 0.2;
    tp_session_config config = tp_default_session_config();
    config.threads = 1;
    for (int c = 0; c < TP_COUNT(cases); c++) {
        if (!strstr(cases[c].name, only)) continue;
        tp_graph *g = tp_graph_new(NULL);
        tp_shape shape;
        memset(&shape, 0, sizeof shape);
        while (shape.ndim < 6 && cases[c].dim[shape.ndim])
            shape.dim[shape.ndim] = cases[c].dim[shape.ndim], shape.ndim++;
        tp_node *x = tp_get_variable_as(g, "x", TP_F32, shape, tp_init_normal(0, 1)), *fetch[2];
        fetch[0] = cases[c].fn(x);
        if (!cases[c].forward_only) {
            tp_node *dy = tp_get_variable_as(g, "dy", TP_F32, fetch[0]->shape, tp_init_normal(0, 1));
            tp_gradients_from(fetch[0], dy, &x, 1, &fetch[1]);
        }
        /* computed, as within a network, but not copied for the caller */
        tp_node *forward = tp_group(g, fetch, 1, "forward"),
                *step = tp_group(g, fetch, cases[c].forward_only ? 1 : 2, "step");
        tp_session *s = tp_session_new(g, &config);
        if (!s) return puts(tp_last_error()), 1;
        const double ms = measure(s, forward, seconds),
                     step_ms = cases[c].forward_only ? -1 : measure(s, step, seconds);
        printf("{\"op\": \"%s\", \"ms\": %.4f, \"step_ms\": %.4f}\n", cases[c].name, ms, step_ms);
        fflush(stdout);
        tp_session_free(s);
        tp_graph_free(g);
    }
    return 0;
}
