/* cifar10_fast.c - the recipe for 94% of CIFAR-10's test images right after 24 short epochs on one GPU
 *
 *   gcc -std=c11 -O2 -I.. cifar10_fast.c -lm -lpthread -o cifar10_fast && ./cifar10_fast --data cifar10
 *
 * and for a GPU, in the folder above: make CUDA=1 && build/cuda/cifar10_fast --data cifar10 --gpu 0
 *
 * The residual network of nine layers, the batches of 512 and the learning rate that rises for five epochs and falls for nineteen
 * are those with which David Page trained CIFAR-10 to 94% in DAWNBench (2018). --data names a folder with train/<class>/... and
 * test/<class>/..., images of 32x32 as JPEG or PNG. Without --data it trains on coloured digits, to show that it runs.
 * On an H200, with pictures that were stored as JPEGs of 320 bytes: 9.0% wrong after 13.7 seconds, as PyTorch with this recipe.
 * New here, compared with cifar10_resnet.c: half precision, whose loss is scaled; images kept in memory, whose augmentation alone is
 * repeated; a learning rate that changes after each step; Nesterov's momentum.
 *   --width n (64: channels of the first layer; the recipe's. 16 is work for a CPU)   --epochs n (24)   --batch n (512)
 *   --steps n (of an epoch; 0: a pass over the data)   --rate r (0.4: the highest learning rate)   --threads n, for images (4)
 *   --gpu n (the n-th GPU, from 0: make CUDA=1, or by hand with -DTP_CUDA and what the README, On a GPU, links)   --seed n (1) */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"
#include "options.h"

static const tp_spec inputs[] = {TP_SPEC("image", TP_U8, TP_ANY, 32, 32, 3), TP_SPEC("label", TP_I32, TP_ANY)};

typedef struct options {
    const char *data;
    int width, epochs, batch, steps, threads, gpu;
    double rate;
    uint64_t seed;
} options;

/* 1. The data. Without --data: a light digit on a background of one random dark colour, uint8 (32,32,3). */
static tp_status coloured(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    const float *digit = (const float *)in->c[0].data;
    const tp_status st = tp_tensor_resize(&out->c[0], TP_U8, tp_make_shape(32, 32, 3));
    if (st != TP_OK) return st;
    unsigned char *pixel = (unsigned char *)out->c[0].data;
    for (int i = 0; i < 32 * 32; i++) {
        const int y = i / 32 - 2, x = i % 32 - 2;
        const float ink = y >= 0 && y < 28 && x >= 0 && x < 28 ? digit[y * 28 + x] : 0;
        for (int c = 0; c < 3; c++) {
            const float dark = 120 * tp_random_uniform(call->key, (uint64_t)call->index, (uint64_t)c);
            pixel[i * 3 + c] = (unsigned char)(dark + ink * (250 - dark));
        }
    }
    return TP_OK;
}

/* Each image is decoded once (tp_df_cache keeps it), and moved, flipped and partly covered anew in each epoch. */
static tp_dataflow *pictures(const options *o, bool training)
{
    const char *part = training ? "train" : "test";
    char dir[1024];
    tp_dataflow *df;
    if (o->data) {
        snprintf(dir, sizeof dir, "%s/%s", o->data, part);
        df = tp_df_image_folder(dir, .decode = false, .shuffle = training);
        df = tp_df_parallel_map(df, tp_map_image, .num_thread = o->threads);
    } else
        df = tp_df_map(tp_df_digits(part, .size = training ? 4096 : 1000, .shuffle = training), coloured,
                       .keeps_all = true);
    df = tp_df_cache(df, .shuffle = training, .seed = o->seed);
    if (training)
        df = tp_df_augment_image(
            df,
            tp_aug_list(TP_AUGS(tp_aug_pad(.pad = 4, .border = TP_EDGE_REFLECT_101), tp_aug_random_crop(32, 32),
                                o->data ? tp_aug_flip(.horiz = true) : tp_aug_identity(),
                                tp_aug_random_cutout(.h_range = {8}, .w_range = {8}, .fill = 120))),
            .num_thread = o->threads, .seed = o->seed);
    return tp_df_batch(df, o->batch, .remainder = !training);
}

/* 2. The network: convolutions of 3x3 with batch norm and ReLU, pooling by two, and twice a residual of two convolutions. */
static tp_node *convolutions(tp_graph *g, tp_node *x, const char *name, int filters, bool residual)
{
    TP_VARIABLE_SCOPE(g, name)
    {
        x = tp_conv2d(x, "conv", .filters = filters);
        x = tp_max_pooling(x, "pool", .pool_size = 2);
        if (residual)
            x = tp_add(x, tp_conv2d(tp_conv2d(x, "residual1", .filters = filters), "residual2", .filters = filters));
    }
    return x;
}

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    const options *o = (const options *)user;
    tp_node *x = tp_affine(tp_cast(in[0], TP_F32), 1 / 63.0f,
                           -1.92f); /* bytes to numbers with a mean near 0 and a deviation near 1 */
    const tp_init small =
        tp_init_variance_scaling(1 / 3.0f, TP_FAN_IN, TP_DIST_UNIFORM); /* the recipe's initial weights */
    TP_ARGSCOPE(g, conv2d, .kernel_size = 3, .activation = tp_bn_relu, .use_bias = false, .kernel_initializer = small)
    {
        x = tp_conv2d(x, "prepare", .filters = o->width);
        x = convolutions(g, x, "layer1", 2 * o->width, true);
        x = convolutions(g, x, "layer2", 4 * o->width, false);
        x = convolutions(g, x, "layer3", 8 * o->width, true);
    }
    x = tp_max_pooling(x, "pool", .pool_size = 4);
    tp_node *logits = tp_affine(
        tp_fully_connected(x, "linear", .units = 10, .use_bias = false, .kernel_initializer = small), 0.125f, 0);
    tp_node *cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1])), "cross_entropy_loss");
    tp_node *wrong = tp_sym_prediction_incorrect(logits, in[1], 1, "incorrect_vector");
    tp_add_moving_summary(cost, tp_named(tp_mean(wrong), "train_error"));
    return tp_named(tp_add(cost, tp_regularize_cost(g, ".*", tp_l2_regularizer(5e-4f), "regularize_loss")), "cost");
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    /* half precision has no gradients below 6e-8: they are computed of a larger cost, and divided again */
    return tp_loss_scale(
        tp_momentum(tp_get_scalar_variable(g, "learning_rate", 0), .momentum = 0.9f, .use_nesterov = true));
}

/* 3. How to train it: the device, and the learning rate, which rises from 0 in a fifth of the steps and falls to 0 again. */
static int train(const options *o)
{
    tp_session_config session = tp_default_session_config();
    tp_device *device = NULL;
    if (o->gpu >= 0) {
#ifdef TP_CUDA
        device = tp_cuda_open(o->gpu);
#else
        tp_fail(TP_ERR_UNSUPPORTED, "this program was built without CUDA: make CUDA=1");
#endif
        if (!device) return fprintf(stderr, "%s\n", tp_last_error()), 1;
        session.devices = &device, session.n_devices = 1;
        session.precision = TP_PRECISION_F16;
    }
    tp_dataflow *df = pictures(o, true), *test = pictures(o, false);
    if (tp_df_status(df) != TP_OK || tp_df_status(test) != TP_OK ||
        tp_logger_set_dir("train_log/cifar10_fast", 'd') != TP_OK)
        return fprintf(stderr, "%s\n", tp_last_error()), 1; /* without data the files of an earlier run stay */
    const int64_t steps = o->steps ? o->steps : tp_df_size(df);
    const int64_t all =
        steps * o->epochs > 1 ? steps * o->epochs : 2; /* the schedule has three points, even of one step */
    const int64_t peak = all * 5 / 24 > 0 ? all * 5 / 24 : 1;
    const tp_status st = tp_launch_train_with_config(
        TP_OPTIONS(
            tp_train_config,
            .model = {.inputs = inputs,
                      .n_inputs = TP_COUNT(inputs),
                      .build_graph = build_graph,
                      .optimizer = optimizer,
                      .user = (void *)o},
            .dataflow = df,
            TP_CALLBACKS(
                tp_cb_inference_runner(
                    test, .inferencers = {tp_inf_classification_error(.wrong_tensor_name = "incorrect_vector",
                                                                      .summary_name = "validation_error")}),
                tp_cb_scheduled_hyper_param_setter("learning_rate", .schedule = {{0, 0}, {peak, o->rate}, {all, 0}},
                                                   .n_schedule = 3, .interp = TP_INTERP_LINEAR, .step_based = true),
                tp_cb_throughput_tracker(.samples_per_step = (double)o->batch)),
            .session_config = &session, .steps_per_epoch = steps, .max_epoch = o->epochs, .seed = o->seed),
        tp_queue_input_trainer());
    if (device) device->close(device);
    return st != TP_OK;
}

int main(int argc, char **argv)
{
    options o = {NULL, 64, 24, 512, 0, 4, -1, 0.4, 1};
    const option list[] = {option_text("--data folder", &o.data),    option_int("--width n", &o.width, 1),
                           option_int("--epochs n", &o.epochs, 1),   option_int("--batch n", &o.batch, 1),
                           option_int("--steps n", &o.steps, 0),     option_double("--rate r", &o.rate, 0),
                           option_int("--threads n", &o.threads, 0), option_int("--gpu n", &o.gpu, 0),
                           option_seed("--seed n", &o.seed)};
    read_options(argc, argv, list, TP_COUNT(list));
    return train(&o);
}
