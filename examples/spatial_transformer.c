/* spatial_transformer.c - a network that looks where it has to: adding two digits that are turned and moved in one picture
 *
 *   gcc -std=c11 -O2 -I.. spatial_transformer.c -lm -lpthread -o spatial_transformer && ./spatial_transformer --data mnist
 *
 * After 1,500 steps of MNIST (80 s of one core) 7.6% of the sums are wrong. tensorpack's
 * examples/SpatialTransformer/mnist-addition.py. Only the sum of the two digits (0 to 18) is told, never which digits they are
 * or where they stand. Two small networks learn, each, where to cut a piece of 28x28 out of the picture and how to turn it; a
 * third one reads the two pieces. (In the original further layers learn to add; here the sum is computed, which is sooner
 * learnt.)
 * New here, compared with mnist_convnet.c: data made of other data by a function (two_digits); an affine grid and
 * tp_grid_sample, which is differentiated by the place where it reads; a smaller learning rate for some variables, by a
 * gradient processor. The pictures, each beside the two pieces that the network has cut out of it, are in
 * train_log/spatial_transformer/report.html.
 *   --data folder of MNIST's IDX files (without: digits that the library draws)   --turn degrees (60)
 *   --epochs n (20)   --steps n (of an epoch; 500) */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"
#include "options.h"
#include <math.h>
#include <string.h>

#define BATCH 64
#define SIDE  42 /* of a picture */
#define PIECE 28 /* of what is cut out of it */

static const tp_spec inputs[] = {TP_SPEC("image", TP_F32, TP_ANY, SIDE, SIDE, 1), TP_SPEC("sum", TP_I32, TP_ANY)};

static const tp_shape scalar = {0, {0}};

/* 1. The data. Draws a digit of 28x28, turned by an angle, with its middle at (cy,cx) of the picture. */
static void put(const float *digit, float *picture, double cy, double cx, double angle)
{
    const double c = cos(angle), s = sin(angle);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            const double v = c * (y - cy) + s * (x - cx) + 13.5, u = c * (x - cx) - s * (y - cy) + 13.5;
            if (v < 0 || u < 0 || v >= 27 || u >= 27) continue;
            const int i = (int)v, j = (int)u;
            const double p = v - i, q = u - j;
            const float *d = digit + i * 28 + j;
            const double pixel = (1 - p) * ((1 - q) * d[0] + q * d[1]) + p * ((1 - q) * d[28] + q * d[29]);
            if (pixel > picture[y * SIDE + x]) picture[y * SIDE + x] = (float)pixel;
        }
}

/* (image, label, image, label) -> (picture, sum): one digit at the left, one at the right, each turned by up to *user degrees */
static tp_status two_digits(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    const double turn = *(const double *)call->user * 3.14159265 / 180;
    double r[6];
    for (uint64_t i = 0; i < 6; i++) r[i] = 2 * tp_random_uniform(call->key, (uint64_t)call->index, i) - 1;
    tp_status st = tp_datapoint_resize(out, 2);
    if (st == TP_OK) st = tp_tensor_resize(&out->c[0], TP_F32, tp_make_shape(SIDE, SIDE, 1));
    if (st == TP_OK) st = tp_tensor_resize(&out->c[1], TP_I32, scalar);
    if (st != TP_OK) return st;
    float *picture = (float *)out->c[0].data;
    memset(picture, 0, SIDE * SIDE * sizeof *picture);
    for (int k = 0; k < 2; k++)
        put((const float *)in->c[2 * k].data, picture, 20.5 + 6 * r[k], (k ? 30.5 : 10.5) + 2 * r[k + 2],
            turn * r[k + 4]);
    *(int32_t *)out->c[1].data = *(const int32_t *)in->c[1].data + *(const int32_t *)in->c[3].data;
    return TP_OK;
}

static tp_dataflow *pictures(const char *data, const char *part, double *turn)
{
    tp_dataflow *both[2];
    for (uint64_t k = 0; k < 2; k++) /* the same digits in two orders */
        both[k] =
            data ? tp_df_mnist(part, .dir = data, .seed = 1 + k) : tp_df_digits(part, .shuffle = true, .seed = 1 + k);
    return tp_df_batch(tp_df_map(tp_df_join(both, 2), two_digits, .user = turn, .keeps_all = true), BATCH);
}

/* 2. Cuts a piece out of the picture. Six numbers say from where: pixel (y,x) of the piece is read at (a y + b x + c, d y + e x + f).
 * They begin as a piece without rotation, `left` pixels from the left. */
static tp_node *cut(tp_graph *g, tp_node *image, const char *name, float left)
{
    static float grid[3][PIECE * PIECE];
    const float begin[] = {1, 0, (SIDE - PIECE) / 2, 0, 1, left};
    tp_node *piece = NULL;
    tp_tensor t;
    memset(&t, 0, sizeof t);
    for (int i = 0; i < PIECE * PIECE; i++)
        grid[0][i] = (float)(i / PIECE), grid[1][i] = (float)(i % PIECE), grid[2][i] = 1;
    tp_tensor_view(&t, TP_F32, tp_make_shape(3, PIECE * PIECE), grid);
    TP_VARIABLE_SCOPE(g, name)
    {
        tp_node *where = tp_linear(image, TP_AVG_POOLING("down", .pool_size = 2),
                                   TP_CONV2D("conv0", .filters = 20, .kernel_size = 5, .activation = tp_relu),
                                   TP_MAX_POOLING("pool0", .pool_size = 2),
                                   TP_CONV2D("conv1", .filters = 20, .kernel_size = 5, .activation = tp_relu),
                                   TP_FULLY_CONNECTED("fc1", .units = 32, .activation = tp_relu),
                                   TP_FULLY_CONNECTED("fct", .units = 6, .kernel_initializer = tp_init_zeros(),
                                                      .bias_initializer = tp_init_values(begin, 6)));
        tp_node *coords = tp_matmul(tp_reshape(where, TP_ANY, 2, 3), tp_constant(g, &t)); /* (B,2,28*28) */
        coords = tp_reshape(tp_permute(coords, 0, 2, 1), TP_ANY, PIECE, PIECE, 2);
        piece = tp_grid_sample(image, NULL, .coords = coords, .border_mode = TP_BORDER_CONSTANT);
    }
    return piece;
}

/* 3. What reads a piece, the same variables for both: (B,10), how probable each digit is. */
static tp_node *reading(tp_graph *g, tp_node *piece)
{
    tp_node *l = NULL;
    TP_VARIABLE_SCOPE(g, "read", .reuse = TP_REUSE_AUTO)
    {
        l = tp_linear(piece, TP_CONV2D("conv0", .filters = 16, .kernel_size = 5, .activation = tp_bn_relu),
                      TP_MAX_POOLING("pool0", .pool_size = 2),
                      TP_CONV2D("conv1", .filters = 32, .kernel_size = 3, .activation = tp_bn_relu),
                      TP_MAX_POOLING("pool1", .pool_size = 2),
                      TP_FULLY_CONNECTED("fc0", .units = 64, .activation = tp_bn_relu),
                      TP_FULLY_CONNECTED("fct", .units = 10));
    }
    return tp_softmax(l);
}

/* How probable each sum is: of all pairs of digits with that sum, the probabilities are added. */
static tp_node *added(tp_graph *g, tp_node *a, tp_node *b)
{
    static float has_sum[100][19];
    tp_tensor t;
    memset(&t, 0, sizeof t);
    for (int i = 0; i < 100; i++) has_sum[i][i / 10 + i % 10] = 1;
    tp_tensor_view(&t, TP_F32, tp_make_shape(100, 19), has_sum);
    tp_node *pairs = tp_mul(tp_expand_dims(a, 2), tp_expand_dims(b, 1)); /* (B,10,10) */
    return tp_matmul(tp_batch_flatten(pairs), tp_constant(g, &t));
}

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *left = cut(g, in[0], "STN1", 0), *right = cut(g, in[0], "STN2", SIDE - PIECE);
    tp_node *sums = added(g, reading(g, left), reading(g, right));
    tp_node *probability = tp_sum_over(tp_mul(sums, tp_one_hot(in[1], 19, 1, 0)), 1);
    tp_node *cost = tp_named(tp_neg(tp_mean(tp_ln(tp_affine(probability, 1, 1e-6f)))), "cost");
    tp_node *wrong = tp_sym_prediction_incorrect(sums, in[1], 1, "incorrect_vector");
    tp_add_moving_summary(cost, tp_named(tp_mean(wrong), "train_error"));

    /* eight pictures, each with its two pieces at its right */
    const int64_t above[] = {0, 0, 0, 0}, below[] = {0, SIDE - PIECE, 0, 0}, eight[] = {8, -1, -1, -1};
    tp_node *pieces = tp_pad(tp_concat_along(2, left, right), above, below, TP_PAD_CONSTANT, 0);
    tp_node *seen = tp_slice(tp_concat_along(2, in[0], pieces), above, eight);
    tp_add_tensor_summary(tp_affine(seen, 255, 0), TP_SUMMARY_IMAGE, "seen", NULL);
    return cost;
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    tp_optimizer *adam = tp_adam(tp_get_scalar_variable(g, "learning_rate", 1e-3f));
    return tp_apply_grad_processors(adam, TP_GRADPROCS(tp_gradproc_scale("STN.*", 0.1f)));
}

int main(int argc, char **argv)
{
    const char *data = NULL;
    int epochs = 20, steps = 500;
    double turn = 60;
    const option list[] = {option_text("--data folder", &data), option_double("--turn degrees", &turn, 0),
                           option_int("--epochs n", &epochs, 1), option_int("--steps n", &steps, 1)};
    read_options(argc, argv, list, TP_COUNT(list));

    tp_dataflow *train = pictures(data, "train", &turn), *test = tp_df_take(pictures(data, "test", &turn), 30);
    if (tp_df_status(train) != TP_OK || tp_df_status(test) != TP_OK ||
        tp_logger_set_dir("train_log/spatial_transformer", 'd') != TP_OK)
        return fprintf(stderr, "%s\n", tp_last_error()), 1; /* without data the files of an earlier run stay */
    return tp_launch_train_with_config(
               TP_OPTIONS(
                   tp_train_config,
                   .model = {.inputs = inputs,
                             .n_inputs = TP_COUNT(inputs),
                             .build_graph = build_graph,
                             .optimizer = optimizer},
                   .dataflow = train,
                   TP_CALLBACKS(tp_cb_model_saver(),
                                tp_cb_inference_runner(test, .inferencers = {tp_inf_scalar_stats(TP_NAMES("cost")),
                                                                             tp_inf_classification_error()}),
                                tp_cb_scheduled_hyper_param_setter("learning_rate", .schedule = {{epochs / 2, 5e-4}})),
                   .steps_per_epoch = steps, .max_epoch = epochs),
               tp_queue_input_trainer()) != TP_OK;
}
