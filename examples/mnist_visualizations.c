/* mnist_visualizations.c - what a convolutional network has learnt, as pictures: its filters, and what they make of a digit
 *
 *   gcc -std=c11 -O2 -I.. mnist_visualizations.c -lm -lpthread -o mnist_visualizations && ./mnist_visualizations
 *
 * tensorpack's examples/basics/mnist-visualizations.py. Trains the network of mnist_convnet.c; after each epoch there are, for
 * each of its four convolutions, a picture of the filters and one of the activations of one digit, in
 * train_log/mnist_visualizations/report.html (Images, with a slider over the epochs) and in TensorBoard.
 * New here, compared with mnist_convnet.c: a value of any shape made into a picture by ops of the graph; summaries of variables
 * (histograms) and of activations (the part that is zero).
 * On MNIST: 3.1% wrong after 3 epochs of 90 steps, in 7 s.
 *   --data folder of MNIST's IDX files (without: digits that the library draws)   --epochs n (3)   --steps n (of an epoch; 90) */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"
#include "options.h"

#define BATCH   128
#define FILTERS 16

static const tp_spec inputs[] = {TP_SPEC("image", TP_F32, TP_ANY, 28, 28), TP_SPEC("label", TP_I32, TP_ANY)};

/* 1. A sheet of pictures. x is (H,W,rows*columns): that many pictures of H by W. The smallest value becomes black, the largest
 * white. A border of one pixel stands around each, and each pixel is drawn as zoom x zoom pixels. */
static void summary_of_sheet(tp_node *x, int rows, int columns, int zoom, const char *name)
{
    const int h = (int)x->shape.dim[0] + 1, w = (int)x->shape.dim[1] + 1;
    const int64_t before[] = {0, 0, 0}, after[] = {1, 1, 0};
    tp_resize_attrs size = {0};
    size.out_h = zoom * rows * h, size.out_w = zoom * columns * w;
    tp_node *low = tp_reduce_min(x, NULL, 0, false), *high = tp_reduce_max(x, NULL, 0, false);
    x = tp_div(tp_sub(x, low), tp_affine(tp_sub(high, low), 1, 1e-6f));
    x = tp_pad(x, before, after, TP_PAD_CONSTANT, 0.5f);
    x = tp_permute(tp_reshape(x, h, w, rows, columns), 2, 0, 3, 1); /* row, y, column, x */
    x = tp_affine(tp_reshape(x, 1, rows * h, columns * w, 1), 255, 0);
    tp_add_tensor_summary(tp_resize_nearest(x, &size), TP_SUMMARY_IMAGE, name, NULL);
}

/* The filters of a convolution (K,K,C,O): a row for each of its C inputs. Its output (B,H,W,O): of the first digit of the batch. */
static void pictures_of(tp_node *l, const char *name)
{
    static const int64_t from[] = {0, 0, 0, 0}, one[] = {1, -1, -1, -1};
    tp_node *w = tp_layer_variable(l, "W");
    const int64_t k = w->shape.dim[0], in = w->shape.dim[2], out = w->shape.dim[3];
    char text[64];
    snprintf(text, sizeof text, "filters_%s", name);
    summary_of_sheet(tp_reshape(w, k, k, in * out), (int)in, (int)out, 4, text);
    snprintf(text, sizeof text, "activations_%s", name);
    summary_of_sheet(tp_squeeze(tp_slice(l, from, one), 0), 4, (int)out / 4, 2, text);
    tp_add_activation_summary(l, TP_SUMMARY_SPARSITY | TP_SUMMARY_RMS, NULL, NULL);
}

/* 2. The network. */
static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *c[4] = {NULL, NULL, NULL, NULL}, *logits = NULL;
    tp_node *image = tp_affine(tp_expand_dims(in[0], 3), 2, -1);
    TP_ARGSCOPE(g, conv2d, .filters = FILTERS, .kernel_size = 3, .activation = tp_relu)
    {
        c[0] = tp_conv2d(image, "conv0");
        c[1] = tp_conv2d(tp_max_pooling(c[0], "pool0", .pool_size = 2), "conv1");
        c[2] = tp_conv2d(c[1], "conv2");
        c[3] = tp_conv2d(tp_max_pooling(c[2], "pool1", .pool_size = 2), "conv3");
        logits = tp_linear(c[3], TP_FULLY_CONNECTED("fc0", .units = 128, .activation = tp_relu),
                           TP_DROPOUT("dropout", .rate = 0.5f), TP_FULLY_CONNECTED("fc1", .units = 10));
    }
    if (tp_current_tower_context(g)->is_training) {
        static const char *const names[] = {"conv0", "conv1", "conv2", "conv3"};
        TP_NAME_SCOPE(g, "visualization")
        {
            for (int i = 0; i < 4; i++) pictures_of(c[i], names[i]);
        }
        tp_add_param_summary(g, "conv.*/W", TP_SUMMARY_HISTOGRAM | TP_SUMMARY_RMS);
    }
    tp_node *cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1])), "cost");
    tp_node *wrong = tp_sym_prediction_incorrect(logits, in[1], 1, "incorrect_vector");
    tp_add_moving_summary(cost, tp_named(tp_mean(wrong), "train_error"));
    return cost;
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_adam(tp_get_scalar_variable(g, "learning_rate", 1e-3f));
}

int main(int argc, char **argv)
{
    const char *data = NULL;
    int epochs = 3, steps = 90;
    const option list[] = {option_text("--data folder", &data), option_int("--epochs n", &epochs, 1),
                           option_int("--steps n", &steps, 1)};
    read_options(argc, argv, list, TP_COUNT(list));

    tp_dataflow *train = data ? tp_df_mnist("train", .dir = data) : tp_df_digits("train");
    tp_dataflow *test = data ? tp_df_mnist("test", .dir = data) : tp_df_digits("test", .size = 1000);
    if (tp_df_status(train) != TP_OK || tp_df_status(test) != TP_OK ||
        tp_logger_set_dir("train_log/mnist_visualizations", 'd') != TP_OK)
        return fprintf(stderr, "%s\n", tp_last_error()), 1; /* without data the files of an earlier run stay */
    return tp_launch_train_with_config(
               TP_OPTIONS(tp_train_config,
                          .model = {.inputs = inputs,
                                    .n_inputs = TP_COUNT(inputs),
                                    .build_graph = build_graph,
                                    .optimizer = optimizer},
                          .dataflow = tp_df_batch(train, BATCH),
                          TP_CALLBACKS(tp_cb_model_saver(),
                                       tp_cb_inference_runner(tp_df_batch(test, 2 * BATCH, .remainder = true),
                                                              .inferencers = {tp_inf_classification_error()})),
                          .steps_per_epoch = steps, .max_epoch = epochs),
               tp_queue_input_trainer()) != TP_OK;
}
