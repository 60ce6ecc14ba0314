/* auto_encoder.c - a digit in eight numbers, and back: a convolutional auto-encoder
 *
 *   gcc -std=c11 -O2 -I.. auto_encoder.c -lm -lpthread -o auto_encoder && ./auto_encoder --data mnist
 *
 * Not in tensorpack. A network that makes few numbers of a picture, and one that makes the picture of these numbers, are
 * trained together, with no labels at all. The score is the peak signal-to-noise ratio (`psnr`, in dB: more is better).
 * New here, compared with mnist_convnet.c: transposed convolutions; data without labels (tp_df_select); a regression with its
 * score; digits, and below them what became of them, as pictures in train_log/auto_encoder/report.html (Images).
 * On MNIST, with 8 numbers a digit: validation_psnr 16.8 after 10 epochs, in 50 s.
 *   --data folder of MNIST's IDX files (without: digits that the library draws)   --code n numbers (8)
 *   --noise sigma, which is added to the pictures that the network sees, so that it learns to remove it (0)
 *   --epochs n (10)   --steps n (of an epoch; 180) */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"
#include "options.h"

#define BATCH 64

typedef struct options {
    int code;
    float noise;
} options;

static const tp_spec inputs[] = {TP_SPEC("image", TP_F32, TP_ANY, 28, 28)};

/* 1. The network. */
static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    const options *o = (const options *)user;
    tp_node *image = tp_expand_dims(in[0], 3), *l = image;
    if (o->noise > 0) l = tp_add(l, tp_rand_normal_like(l, 0, o->noise));
    tp_node *noisy = l;
    TP_ARGSCOPE(g, (conv2d, conv2d_transpose), .kernel_size = 4, .strides = 2, .activation = tp_bn_relu)
    {
        l = tp_conv2d(l, "conv0", .filters = 16);                                /* 14x14 */
        l = tp_conv2d(l, "conv1", .filters = 32);                                /* 7x7 */
        l = tp_named(tp_fully_connected(l, "encode", .units = o->code), "code"); /* what remains of the picture */
        l = tp_fully_connected(l, "decode", .units = 7 * 7 * 32, .activation = tp_bn_relu);
        l = tp_conv2d_transpose(tp_reshape(l, TP_ANY, 7, 7, 32), "deconv0", .filters = 16);
        l = tp_conv2d_transpose(l, "deconv1", .filters = 1, .activation = tp_identity);
    }
    tp_node *cost = tp_named(tp_mean(tp_sigmoid_cross_entropy(l, image)), "cost");
    l = tp_sigmoid(l);
    tp_node *psnr = tp_sym_psnr(l, image, 1, "psnr");
    tp_add_moving_summary(cost, psnr);

    /* 16 pictures, as the network sees them, above what it makes of them */
    static const int64_t from[] = {0, 0, 0, 0}, sixteen[] = {16, -1, -1, -1};
    tp_node *rows =
        tp_stack_along(0, tp_slice(noisy, from, sixteen), tp_slice(l, from, sixteen)); /* row, column, y, x, 1 */
    rows = tp_reshape(tp_permute(tp_squeeze(rows, 4), 0, 2, 1, 3), 1, 2 * 28, 16 * 28, 1);
    tp_add_tensor_summary(tp_clip(tp_affine(rows, 255, 0), 0, 255), TP_SUMMARY_IMAGE, "pictures", NULL);
    return cost;
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_adam(tp_get_scalar_variable(g, "learning_rate", 2e-3f));
}

/* 2. The data: of (image, label) the image. */
static tp_dataflow *images(tp_dataflow *digits)
{
    static const int first[] = {0};
    return tp_df_batch(tp_df_select(digits, first, 1), BATCH);
}

int main(int argc, char **argv)
{
    const char *data = NULL;
    int epochs = 10, steps = 180;
    options o = {8, 0};
    const option list[] = {option_text("--data folder", &data), option_int("--code n", &o.code, 1),
                           option_float("--noise sigma", &o.noise, 0), option_int("--epochs n", &epochs, 1),
                           option_int("--steps n", &steps, 1)};
    read_options(argc, argv, list, TP_COUNT(list));

    tp_dataflow *train = data ? tp_df_mnist("train", .dir = data) : tp_df_digits("train");
    tp_dataflow *test = data ? tp_df_mnist("test", .dir = data) : tp_df_digits("test", .size = 1000);
    if (tp_df_status(train) != TP_OK || tp_df_status(test) != TP_OK ||
        tp_logger_set_dir("train_log/auto_encoder", 'd') != TP_OK)
        return fprintf(stderr, "%s\n", tp_last_error()), 1; /* without data the files of an earlier run stay */
    return tp_launch_train_with_config(
               TP_OPTIONS(tp_train_config,
                          .model = {.inputs = inputs,
                                    .n_inputs = TP_COUNT(inputs),
                                    .build_graph = build_graph,
                                    .optimizer = optimizer,
                                    .user = &o},
                          .dataflow = images(train),
                          TP_CALLBACKS(tp_cb_model_saver(),
                                       tp_cb_inference_runner(images(test), .inferencers = {tp_inf_scalar_stats(
                                                                                TP_NAMES("cost", "psnr"))})),
                          .steps_per_epoch = steps, .max_epoch = epochs),
               tp_queue_input_trainer()) != TP_OK;
}
