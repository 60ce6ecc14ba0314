/* svhn_digits.c - the digits of house numbers: coloured, of uneven light, with pieces of their neighbours in the picture
 *
 *   gcc -std=c11 -O2 -I.. svhn_digits.c -lm -lpthread -o svhn_digits && ./svhn_digits
 *
 * tensorpack's examples/basics/svhn-digit-convnet.py. --data names the folder of train_32x32.mat, extra_32x32.mat and test_32x32.mat, from
 * http://ufldl.stanford.edu/housenumbers (format 2); without the extra file it trains on the other pictures alone. Without
 * --data, pictures of that kind are made of digits that the library draws.
 * New here, compared with mnist_convnet.c: colour; augmentors of brightness and contrast, of the training pictures alone; batch
 * norm; a learning rate that falls when the validation no longer improves.
 *   --epochs n (10)   --steps n (of an epoch; 0: a pass over the data) */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"
#include "options.h"

#define BATCH 128
#define SIDE  40

static const tp_spec inputs[] = {TP_SPEC("image", TP_U8, TP_ANY, SIDE, SIDE, 3), TP_SPEC("label", TP_I32, TP_ANY)};

/* 1. The data. A house number: the digit, half of itself at either side, in a colour, on another one that changes across the picture. */
static tp_status house_number(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    const float *digit = (const float *)in->c[0].data;
    const tp_status st = tp_tensor_resize(&out->c[0], TP_U8, tp_make_shape(SIDE, SIDE, 3));
    if (st != TP_OK) return st;
    unsigned char *pixel = (unsigned char *)out->c[0].data;
    float r[12];
    for (uint64_t i = 0; i < 12; i++) r[i] = tp_random_uniform(call->key, (uint64_t)call->index, i);
    const int y0 = (int)(13 * r[0]), x0 = 4 + (int)(5 * r[1]), gap = 16 + (int)(6 * r[2]);
    const float contrast = (r[3] < 0.5f ? -1.0f : 1.0f) * (70 + 60 * r[4]);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            float ink = 0;
            for (int k = -1; k <= 1; k++) {
                const int v = y - y0, u = x - x0 - k * gap;
                if (v >= 0 && v < 28 && u >= 0 && u < 28 && digit[v * 28 + u] > ink) ink = digit[v * 28 + u];
            }
            for (int c = 0; c < 3; c++) {
                const float ground = 90 + 75 * r[5 + c] + 40 * (r[8] - 0.5f) * (float)x / SIDE;
                const float value = ground + ink * contrast * (0.6f + 0.4f * r[9 + c]);
                *pixel++ = (unsigned char)(value < 0 ? 0 : value > 255 ? 255 : value);
            }
        }
    return TP_OK;
}

static tp_dataflow *pictures(const char *data, const char *part, bool training)
{
    char extra[1024];
    tp_dataflow *df;
    snprintf(extra, sizeof extra, "%s/extra_32x32.mat", data ? data : ".");
    if (data && training && tp_file_exists(extra)) {
        tp_dataflow *const both[] = {tp_df_svhn_digit("train", .dir = data), tp_df_svhn_digit("extra", .dir = data)};
        df = tp_df_random_mix(both, 2);
    } else if (data) df = tp_df_svhn_digit(part, .dir = data, .shuffle = training);
    else
        df = tp_df_map(tp_df_digits(part, .size = training ? 12000 : 1000, .shuffle = training), house_number,
                       .keeps_all = true);
    if (training)
        df = tp_df_augment_image(df, tp_aug_list(TP_AUGS(tp_aug_resize(.h = SIDE), tp_aug_brightness(.delta = 30),
                                                         tp_aug_contrast(.factor_range = {0.5f, 1.5f}))));
    else df = tp_df_augment_image(df, tp_aug_resize(.h = SIDE));
    return tp_df_batch(df, BATCH, .remainder = !training);
}

/* 2. The network. */
static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *logits = NULL, *image = tp_affine(tp_cast(in[0], TP_F32), 1 / 128.0f, -1);
    (void)user;
    TP_ARGSCOPE(g, conv2d, .kernel_size = 3, .activation = tp_bn_relu, .use_bias = false)
    {
        logits = tp_linear(
            image, TP_CONV2D("conv1", .filters = 24, .kernel_size = 5, .padding = TP_VALID),
            TP_MAX_POOLING("pool1", .pool_size = 2), TP_CONV2D("conv2", .filters = 32, .padding = TP_VALID),
            TP_CONV2D("conv3", .filters = 32, .padding = TP_VALID), TP_MAX_POOLING("pool2", .pool_size = 2),
            TP_CONV2D("conv4", .filters = 64, .padding = TP_VALID), TP_DROPOUT("drop", .rate = 0.5f),
            TP_FULLY_CONNECTED("fc0", .units = 256, .activation = tp_relu), TP_FULLY_CONNECTED("linear", .units = 10));
    }
    tp_node *cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1])), "cross_entropy_loss");
    tp_node *wrong = tp_sym_prediction_incorrect(logits, in[1], 1, "incorrect_vector");
    tp_node *decay = tp_regularize_cost(g, "fc.*/W", tp_l2_regularizer(1e-5f), "regularize_loss");
    tp_add_moving_summary(cost, tp_named(tp_mean(wrong), "train_error"));
    tp_add_param_summary(g, ".*/W", TP_SUMMARY_HISTOGRAM | TP_SUMMARY_RMS);
    return tp_named(tp_add(cost, decay), "cost");
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_adam(tp_get_scalar_variable(g, "learning_rate", 1e-3f), .epsilon = 1e-3f);
}

static tp_status a_fifth(double *rate, void *user) { return (void)user, *rate *= 0.2, TP_OK; }

int main(int argc, char **argv)
{
    const char *data = NULL;
    int epochs = 10, steps = 0;
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
    tp_logger_set_dir("train_log/svhn_digits", 'd');
    return tp_launch_train_with_config(
               TP_OPTIONS(tp_train_config,
                          .model = {.inputs = inputs,
                                    .n_inputs = TP_COUNT(inputs),
                                    .build_graph = build_graph,
                                    .optimizer = optimizer},
                          .dataflow = train,
                          TP_CALLBACKS(tp_cb_model_saver(),
                                       tp_cb_inference_runner(
                                           pictures(data, "test", false),
                                           .inferencers = {tp_inf_scalar_stats(TP_NAMES("cross_entropy_loss")),
                                                           tp_inf_classification_error()}),
                                       tp_cb_min_saver("validation_error"),
                                       tp_cb_stat_monitor_param_setter("learning_rate", .stat_name = "validation_error",
                                                                       .fn = a_fifth, .threshold = 0.001, .last_k = 3)),
                          .steps_per_epoch = steps, .max_epoch = epochs),
               tp_queue_input_trainer()) != TP_OK;
}
