/* similarity_learning.c - digits as points in a plane: a network that learns only which pictures are alike
 *
 *   gcc -std=c11 -O2 -I.. similarity_learning.c -lm -lpthread -o similarity_learning && ./similarity_learning --loss triplet
 *
 * tensorpack's examples/SimilarityLearning/mnist-embeddings.py. No digit is ever told: the network sees three digits, two of
 * which are the same, and makes a point of two numbers of each. --loss siamese, cosine, triplet or softtriplet says what it
 * shall make smaller: distances, or angles, of like digits compared with those of unlike ones.
 * New here, compared with mnist_convnet.c: datapoints drawn by a generator; one network called three times; an inferencer of
 * one's own, which gets all points of the validation digits, reports how many lie nearest to the mean of their own digit, and
 * draws them: in train_log/similarity_learning/report.html (Images), a colour for each digit.
 * On MNIST, with triplets: 0.89 of the digits lie nearest to the mean of their own kind after 10 epochs, in 41 s.
 *   --data folder of MNIST's IDX files (without: digits that the library draws)   --loss (triplet)
 *   --epochs n (10)   --steps n (of an epoch; 200) */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"
#include "options.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 64
#define MOST  10000 /* points of a validation */

static const tp_shape scalar = {0, {0}};

/* 1. The data: the digits of the training set, by label; from these triplets are drawn: two of one digit, one of another. The
 * label of the first is for the validation alone. */
typedef struct digits {
    float *image[10]; /* of each label: n[label] images of 28x28 */
    int n[10];
} digits;

static tp_status load(digits *d, tp_dataflow *df)
{
    tp_datapoint dp = {0};
    tp_status st = df ? TP_OK : TP_ERR_NOMEM;
    for (int k = 0; k < 10; k++) d->image[k] = NULL, d->n[k] = 0;
    while (st == TP_OK && (st = tp_df_next(df, &dp)) == TP_OK) {
        const int k = (int)tp_tensor_get(&dp.c[1], 0);
        float *more = (float *)realloc(d->image[k], (size_t)(d->n[k] + 1) * 784 * sizeof *more);
        if (!more) st = tp_fail(TP_ERR_NOMEM, "no memory for the digits");
        else d->image[k] = more, memcpy(more + (size_t)d->n[k]++ * 784, dp.c[0].data, 784 * sizeof *more);
    }
    tp_datapoint_free(&dp);
    tp_df_free(df);
    return st == TP_END ? TP_OK : st;
}

static tp_status triplet(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    const digits *d = (const digits *)user;
    const uint64_t i = (uint64_t)index, key = (uint64_t)pass + 1;
    const int a = (int)(10 * tp_random_uniform(key, i, 0)), b = (a + 1 + (int)(9 * tp_random_uniform(key, i, 1))) % 10;
    tp_status st = tp_datapoint_resize(dp, 4);
    for (int k = 0; k < 3 && st == TP_OK; k++) {
        const int label = k < 2 ? a : b;
        const int which = (int)((float)d->n[label] * tp_random_uniform(key, i, 2 + (uint64_t)k));
        st = tp_tensor_resize(&dp->c[k], TP_F32, tp_make_shape(28, 28));
        if (st == TP_OK) memcpy(dp->c[k].data, d->image[label] + (size_t)which * 784, 784 * sizeof(float));
    }
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[3], TP_I32, scalar);
    if (st == TP_OK) *(int32_t *)dp->c[3].data = a;
    return st;
}

static tp_dataflow *triplets(digits *d, int64_t size)
{
    return tp_df_batch(tp_df_from_generator(triplet, .user = d, .size = size, .indexed = true), BATCH);
}

/* 2. The network, and the losses. */
static const tp_spec inputs[] = {TP_SPEC("anchor", TP_F32, TP_ANY, 28, 28), TP_SPEC("alike", TP_F32, TP_ANY, 28, 28),
                                 TP_SPEC("other", TP_F32, TP_ANY, 28, 28), TP_SPEC("label", TP_I32, TP_ANY)};

static tp_node *embedding(tp_graph *g, tp_node *image)
{
    tp_node *l = NULL;
    TP_VARIABLE_SCOPE(g, "embedding", .reuse = TP_REUSE_AUTO)
    {
        l = tp_linear(tp_affine(tp_expand_dims(image, 3), 2, -1),
                      TP_CONV2D("conv0", .filters = 20, .kernel_size = 5, .activation = tp_relu),
                      TP_MAX_POOLING("pool0", .pool_size = 2),
                      TP_CONV2D("conv1", .filters = 32, .kernel_size = 3, .activation = tp_relu),
                      TP_MAX_POOLING("pool1", .pool_size = 2),
                      TP_FULLY_CONNECTED("fc0", .units = 100, .activation = tp_relu),
                      TP_FULLY_CONNECTED("fc1", .units = 2));
    }
    return l;
}

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    const char *loss = (const char *)user;
    tp_node *a = tp_named(embedding(g, in[0]), "point"), *p = embedding(g, in[1]), *n = embedding(g, in[2]), *cost;
    tp_named(in[3], "digit");
    if (strcmp(loss, "triplet") == 0) cost = tp_sym_triplet_loss(a, p, n, 5, "loss");
    else if (strcmp(loss, "softtriplet") == 0) cost = tp_sym_soft_triplet_loss(a, p, n, "loss");
    else { /* of pairs: the alike ones, then the others */
        tp_node *one = tp_ones_like(tp_sum_over(a, 1)), *alike = tp_concat_along(0, one, tp_zeros_like(one));
        tp_node *left = tp_concat_along(0, a, a), *right = tp_concat_along(0, p, n);
        if (strcmp(loss, "siamese") == 0) cost = tp_sym_contrastive_loss(left, right, alike, 5, "loss");
        else if (strcmp(loss, "cosine") == 0) cost = tp_sym_siamese_cosine_loss(left, right, alike, "loss");
        else
            return tp_graph_fail(g, NULL, TP_ERR_ARG, "--loss %s: triplet, softtriplet, siamese or cosine is meant",
                                 loss);
    }
    tp_add_moving_summary(cost);
    return cost;
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_adam(tp_get_scalar_variable(g, "learning_rate", 1e-3f));
}

/* 3. An inferencer: gets the points of the validation digits, batch by batch, and the labels of the digits. */
typedef struct points {
    float at[MOST][2];
    int label[MOST], n;
} points;

static tp_status begin(tp_inferencer *inf) { return ((points *)inf->user)->n = 0, TP_OK; }

static tp_status keep(tp_inferencer *inf, const tp_tensor *const *values, int n)
{
    points *p = (points *)inf->user;
    const int64_t batch = values[0]->shape.dim[0];
    (void)n;
    for (int64_t i = 0; i < batch && p->n < MOST; i++, p->n++) {
        p->at[p->n][0] = (float)tp_tensor_get(values[0], 2 * i),
        p->at[p->n][1] = (float)tp_tensor_get(values[0], 2 * i + 1);
        p->label[p->n] = (int)tp_tensor_get(values[1], i);
    }
    return TP_OK;
}

/* Draws the points, 256x256, the middle half of them between 64 and 192. */
static tp_status draw(const points *p, tp_monitors *monitors)
{
    static const unsigned char colours[10][3] = {{230, 25, 75},  {60, 180, 75},  {255, 225, 25}, {0, 130, 200},
                                                 {245, 130, 48}, {145, 30, 180}, {70, 240, 240}, {240, 50, 230},
                                                 {128, 128, 0},  {170, 110, 40}};
    double mean[2] = {0, 0}, spread[2] = {1e-9, 1e-9};
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < 2; k++) mean[k] += (double)p->at[i][k] / p->n;
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < 2; k++) spread[k] += fabs(p->at[i][k] - mean[k]) / p->n;
    tp_tensor image;
    memset(&image, 0, sizeof image);
    tp_status st = tp_tensor_resize(&image, TP_U8, tp_make_shape(256, 256, 3));
    if (st != TP_OK) return st;
    unsigned char *pixel = (unsigned char *)image.data;
    memset(pixel, 255, 256 * 256 * 3);
    for (int i = 0; i < p->n; i++) {
        const double x = 128 + 50 * (p->at[i][0] - mean[0]) / spread[0],
                     y = 128 + 50 * (p->at[i][1] - mean[1]) / spread[1];
        if (x > 0 && x < 256 && y > 0 && y < 256) memcpy(pixel + ((int)y * 256 + (int)x) * 3, colours[p->label[i]], 3);
    }
    st = tp_monitors_put_image(monitors, "points", &image);
    tp_tensor_free(&image);
    return st;
}

static tp_status end(tp_inferencer *inf)
{
    const points *p = (const points *)inf->user;
    double mean[10][3] = {{0}};
    int right = 0;
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < 3; k++) mean[p->label[i]][k] += k < 2 ? p->at[i][k] : 1;
    for (int i = 0; i < p->n; i++) {
        double best = 1e300;
        int nearest = 0;
        for (int k = 0; k < 10; k++) {
            const double y = p->at[i][0] - mean[k][0] / mean[k][2], x = p->at[i][1] - mean[k][1] / mean[k][2];
            if (y * y + x * x < best) best = y * y + x * x, nearest = k;
        }
        right += nearest == p->label[i];
    }
    tp_status st = tp_monitors_put_scalar(inf->train->monitors, "nearest_mean_accuracy", (double)right / p->n);
    return st == TP_OK ? draw(p, inf->train->monitors) : st;
}

static tp_inferencer *scatter(void)
{
    static const char *const names[] = {"point", "digit"};
    tp_inferencer *inf = tp_inferencer_new("Scatter", sizeof(points));
    if (inf && tp_inferencer_set_names(inf, names, 2) == TP_OK)
        inf->before_inference = begin, inf->on_fetches = keep, inf->after_inference = end;
    return inf;
}

int main(int argc, char **argv)
{
    static digits train, test;
    const char *data = NULL, *loss = "triplet";
    int epochs = 10, steps = 200;
    const option list[] = {option_text("--data folder", &data),
                           option_text("--loss siamese|cosine|triplet|softtriplet", &loss),
                           option_int("--epochs n", &epochs, 1), option_int("--steps n", &steps, 0)};
    read_options(argc, argv, list, TP_COUNT(list));

    tp_status st = load(&train, data ? tp_df_mnist("train", .dir = data) : tp_df_digits("train", .size = 4000));
    if (st == TP_OK) st = load(&test, data ? tp_df_mnist("test", .dir = data) : tp_df_digits("test", .size = 1000));
    /* without data the files of an earlier run stay */
    if (st == TP_OK) st = tp_logger_set_dir("train_log/similarity_learning", 'd');
    if (st == TP_OK)
        st = tp_launch_train_with_config(
            TP_OPTIONS(tp_train_config,
                       .model = {.inputs = inputs,
                                 .n_inputs = TP_COUNT(inputs),
                                 .build_graph = build_graph,
                                 .optimizer = optimizer,
                                 .user = (void *)loss},
                       .dataflow = triplets(&train, (int64_t)BATCH * steps),
                       TP_CALLBACKS(tp_cb_model_saver(),
                                    tp_cb_inference_runner(triplets(&test, 2048), .inferencers = {scatter()})),
                       .max_epoch = epochs),
            tp_queue_input_trainer());
    else fprintf(stderr, "%s\n", tp_last_error());
    for (int k = 0; k < 10; k++) free(train.image[k]), free(test.image[k]);
    return st != TP_OK;
}
