/* cifar10_convnet.c - a convolutional network on CIFAR-10's small photographs
 *
 *   gcc -std=c11 -O2 -I.. cifar10_convnet.c -lm -lpthread -o cifar10_convnet && ./cifar10_convnet --data cifar10
 *
 * tensorpack's examples/basics/cifar-convnet.py, with half of its filters. --data names a folder with train/<class>/... and
 * test/<class>/..., images of 32x32 as JPEG or PNG (stb_image, Debian: libstb-dev, decodes them). Without --data it trains on
 * coloured digits, which are easier.
 * New here, compared with svhn_digits.c: augmentors that move and flip the picture, so that the validation takes its middle; a
 * layer's options for a whole block (TP_ARGSCOPE) with batch norm in place of a bias. The next one is cifar10_resnet.c.
 *   --epochs n (30)   --steps n (of an epoch; 0: a pass over the data) */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"
#include "options.h"
#include <string.h>

#define BATCH 128
#define SIDE  30 /* of the part of a picture that the network sees */

static const tp_spec inputs[] = {TP_SPEC("image", TP_U8, TP_ANY, SIDE, SIDE, 3), TP_SPEC("label", TP_I32, TP_ANY)};

/* 1. The data. Without files: a digit in one colour on another, (32,32,3). */
static tp_status coloured(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    const float *digit = (const float *)in->c[0].data;
    const tp_status st = tp_tensor_resize(&out->c[0], TP_U8, tp_make_shape(32, 32, 3));
    if (st != TP_OK) return st;
    unsigned char *pixel = (unsigned char *)out->c[0].data;
    memset(pixel, 0, 32 * 32 * 3);
    for (int c = 0; c < 3; c++) {
        const float dark = 120 * tp_random_uniform(call->key, (uint64_t)call->index, (uint64_t)c);
        const float light = 120 + 130 * tp_random_uniform(call->key, (uint64_t)call->index, 3 + (uint64_t)c);
        for (int y = 0; y < 32; y++)
            for (int x = 0; x < 32; x++) {
                const bool inside = y >= 2 && y < 30 && x >= 2 && x < 30;
                const float ink = inside ? digit[(y - 2) * 28 + x - 2] : 0;
                pixel[(y * 32 + x) * 3 + c] = (unsigned char)(dark + ink * (light - dark));
            }
    }
    return TP_OK;
}

static tp_dataflow *pictures(const char *data, const char *part, bool training)
{
    char dir[1024];
    tp_dataflow *df;
    if (data) {
        snprintf(dir, sizeof dir, "%s/%s", data, part);
        df = tp_df_parallel_map(tp_df_image_folder(dir, .decode = false, .shuffle = training), tp_map_image);
    } else
        df = tp_df_map(tp_df_digits(part, .size = training ? 12000 : 1000, .shuffle = training), coloured,
                       .keeps_all = true);
    if (training)
        df = tp_df_augment_image(
            df,
            tp_aug_list(TP_AUGS(tp_aug_random_crop(SIDE, SIDE), data ? tp_aug_flip(.horiz = true) : tp_aug_identity(),
                                tp_aug_brightness(.delta = 63), tp_aug_contrast(.factor_range = {0.2f, 1.8f}))));
    else df = tp_df_augment_image(df, tp_aug_center_crop(SIDE, SIDE));
    return tp_df_batch(df, BATCH, .remainder = !training);
}

/* 2. The network. */
static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *logits = NULL, *image = tp_affine(tp_cast(in[0], TP_F32), 1 / 64.0f, -2);
    (void)user;
    TP_ARGSCOPE(g, conv2d, .filters = 32, .kernel_size = 3, .activation = tp_bn_relu, .use_bias = false)
    {
        logits = tp_linear(
            image, TP_CONV2D("conv1.1"), TP_CONV2D("conv1.2"), TP_MAX_POOLING("pool1", .pool_size = 2),
            TP_CONV2D("conv2.1", .filters = 64), TP_CONV2D("conv2.2", .filters = 64),
            TP_MAX_POOLING("pool2", .pool_size = 2), TP_CONV2D("conv3.1", .filters = 64, .padding = TP_VALID),
            TP_CONV2D("conv3.2", .filters = 64, .padding = TP_VALID),
            TP_FULLY_CONNECTED("fc0", .units = 256, .activation = tp_relu), TP_DROPOUT("drop", .rate = 0.5f),
            TP_FULLY_CONNECTED("fc1", .units = 256, .activation = tp_relu), TP_FULLY_CONNECTED("linear", .units = 10));
    }
    tp_node *cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1])), "cross_entropy_loss");
    tp_node *wrong = tp_sym_prediction_incorrect(logits, in[1], 1, "incorrect_vector");
    tp_node *decay = tp_regularize_cost(g, "fc.*/W", tp_l2_regularizer(4e-4f), "regularize_loss");
    tp_add_moving_summary(cost, tp_named(tp_mean(wrong), "train_error"));
    return tp_named(tp_add(cost, decay), "cost");
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_adam(tp_get_scalar_variable(g, "learning_rate", 2e-3f), .epsilon = 1e-3f);
}

static tp_status a_fifth(double *rate, void *user) { return (void)user, *rate *= 0.2, TP_OK; }

int main(int argc, char **argv)
{
    const char *data = NULL;
    int epochs = 30, steps = 0;
    const option list[] = {option_text("--data folder", &data), option_int("--epochs n", &epochs, 1),
                           option_int("--steps n", &steps, 0)};
    read_options(argc, argv, list, TP_COUNT(list));

    tp_dataflow *train = pictures(data, "train", true);
    if (tp_df_status(train) != TP_OK) { /* noticed before the files of an earlier run are deleted */
        fprintf(stderr, "%s\n", tp_last_error());
        tp_df_free(train);
        return 1;
    }
    if (steps == 0) steps = (int)tp_df_size(train);
    tp_logger_set_dir("train_log/cifar10_convnet", 'd');
    return tp_launch_train_with_config(
               TP_OPTIONS(
                   tp_train_config,
                   .model = {.inputs = inputs,
                             .n_inputs = TP_COUNT(inputs),
                             .build_graph = build_graph,
                             .optimizer = optimizer},
                   .dataflow = train,
                   TP_CALLBACKS(
                       tp_cb_model_saver(),
                       tp_cb_inference_runner(pictures(data, "test", false),
                                              .inferencers = {tp_inf_scalar_stats(TP_NAMES("cross_entropy_loss")),
                                                              tp_inf_classification_error()}),
                       tp_cb_min_saver("validation_error"),
                       tp_cb_stat_monitor_param_setter("learning_rate", .stat_name = "validation_error", .fn = a_fifth,
                                                       .threshold = 0.001, .last_k = 10)),
                   .steps_per_epoch = steps, .max_epoch = epochs),
               tp_queue_input_trainer()) != TP_OK;
}
