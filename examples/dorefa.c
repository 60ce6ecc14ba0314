/* dorefa.c - DoReFa: a network whose weights are +1 or -1, times one number a layer, and whose activations have 2 bits
 *
 *   gcc -std=c11 -O2 -I.. dorefa.c -lm -lpthread -o dorefa && ./dorefa --weight-bits 1 --activation-bits 2
 *
 * tensorpack's examples/DoReFa-Net/svhn-digit-dorefa.py, on grey digits; gradients are not quantised here. Try --weight-bits 32
 * --activation-bits 32 to see what the bits cost.
 * New here, compared with mnist_convnet.c: tp_remap_variables_push, inside which layers get a function of their variables
 * instead of these: the variables themselves stay float32 and are trained; values that are rounded forward but not backward
 * ("straight through"), by tp_stop_gradient.
 * On MNIST, with weights of 1 bit and activations of 2: validation_error 0.031 after 5 epochs, in 28 s.
 *   --data folder of MNIST's IDX files (without: digits that the library draws)
 *   --weight-bits n, 1 to 32 (1)   --activation-bits n, 1 to 32 (2)   --epochs n (5)
 *   --steps n (of an epoch; 180) */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"
#include "options.h"
#include <string.h>

#define BATCH      64
#define FLOAT_BITS 24 /* a float has no finer steps: values of more bits stay as they are */

static int weight_bits = 1, activation_bits = 2;
static const tp_spec inputs[] = {TP_SPEC("image", TP_F32, TP_ANY, 28, 28), TP_SPEC("label", TP_I32, TP_ANY)};

/* 1. Forward the value is q, backward it is x: d q / d x = 1. */
static tp_node *straight_through(tp_node *x, tp_node *q) { return tp_add(x, tp_stop_gradient(tp_sub(q, x))); }

/* x of 0 to 1, in steps of 1/(2^bits - 1) */
static tp_node *quantized(tp_node *x, int bits)
{
    const float steps = (float)((1 << bits) - 1);
    return straight_through(x, tp_affine(tp_round(tp_affine(x, steps, 0)), 1 / steps, 0));
}

/* Weights: their sign, times the mean of their sizes; or, with more bits, steps between -1 and 1. The first and the last layer keep
 * theirs, as do biases and batch norm. */
static tp_node *remapped(tp_node *var, void *user)
{
    const char *name = tp_node_name(var), *end = name + strlen(name) - 2;
    (void)user;
    if (weight_bits > FLOAT_BITS || strcmp(end, "/W") != 0 || strncmp(name, "conv0", 5) == 0 ||
        strncmp(name, "fct", 3) == 0)
        return var;
    if (weight_bits == 1) {
        tp_node *size = tp_stop_gradient(tp_mean(tp_abs(var))), *zero = tp_zeros_like(var);
        return straight_through(var,
                                tp_mul(tp_select(tp_less(var, zero), tp_fill_like(var, -1), tp_ones_like(var)), size));
    }
    tp_node *x = tp_tanh(var);
    x = tp_affine(tp_div(x, tp_stop_gradient(tp_reduce_max(tp_abs(x), NULL, 0, false))), 0.5f, 0.5f);
    return tp_affine(quantized(x, weight_bits), 2, -1);
}

/* Activations: 0 to 1, in steps */
static tp_node *activation(tp_node *x)
{
    if (activation_bits > FLOAT_BITS) return tp_relu(x);
    return quantized(tp_clip(x, 0, 1), activation_bits);
}
static tp_node *bn_activation(tp_node *x) { return activation(tp_batch_norm(x, "bn")); }

/* 2. The network does not know of all this. */
static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *logits = NULL, *image = tp_affine(tp_expand_dims(in[0], 3), 2, -1);
    (void)user;
    tp_remap_variables_push(g, remapped, NULL);
    TP_ARGSCOPE(g, conv2d, .kernel_size = 3, .activation = bn_activation, .use_bias = false)
    {
        logits = tp_linear(image, TP_CONV2D("conv0", .filters = 16, .kernel_size = 5, .use_bias = true),
                           TP_MAX_POOLING("pool0", .pool_size = 2), TP_CONV2D("conv1", .filters = 32),
                           TP_MAX_POOLING("pool1", .pool_size = 2), TP_CONV2D("conv2", .filters = 32),
                           TP_FULLY_CONNECTED("fc0", .units = 128, .activation = bn_activation, .use_bias = false),
                           TP_FULLY_CONNECTED("fct", .units = 10));
    }
    tp_variable_scope_pop(g);
    tp_node *cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1])), "cost");
    tp_node *wrong = tp_sym_prediction_incorrect(logits, in[1], 1, "incorrect_vector");
    tp_add_moving_summary(cost, tp_named(tp_mean(wrong), "train_error"));
    return cost;
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_adam(tp_get_scalar_variable(g, "learning_rate", 1e-3f), .epsilon = 1e-5f);
}

int main(int argc, char **argv)
{
    const char *data = NULL;
    int epochs = 5, steps = 180;
    const option list[] = {option_text("--data folder", &data), option_int_to("--weight-bits n", &weight_bits, 1, 32),
                           option_int_to("--activation-bits n", &activation_bits, 1, 32),
                           option_int("--epochs n", &epochs, 1), option_int("--steps n", &steps, 1)};
    read_options(argc, argv, list, TP_COUNT(list));

    tp_dataflow *train = data ? tp_df_mnist("train", .dir = data) : tp_df_digits("train");
    tp_dataflow *test = data ? tp_df_mnist("test", .dir = data) : tp_df_digits("test", .size = 1000);
    if (tp_df_status(train) != TP_OK || tp_df_status(test) != TP_OK ||
        tp_logger_set_dir("train_log/dorefa", 'd') != TP_OK)
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
