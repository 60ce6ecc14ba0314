/* resume.c - go on where a training was stopped or killed, with the same bits
 *   gcc -std=c11 -O2 -I../.. resume.c -lm -lpthread -o resume && ./resume
 * `./resume 1`, then `./resume 3`: the second one trains epochs 2 and 3. Kill it (or press Ctrl-C) and start it again. */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"
#include <stdio.h>
#include <stdlib.h>

static const tp_spec inputs[] = {TP_SPEC("image", TP_F32, TP_ANY, 28, 28), TP_SPEC("label", TP_I32, TP_ANY)};

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    tp_node *logits = tp_linear(in[0], TP_FULLY_CONNECTED("fc0", .units = 64, .activation = tp_relu),
                                TP_FULLY_CONNECTED("fc1", .units = 10));
    tp_sym_prediction_incorrect(logits, in[1], 1, "wrong");
    return tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1])), "cost");
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_adam(tp_get_scalar_variable(g, "learning_rate", 1e-3f));
}

int main(int argc, char **argv)
{
    char *end = NULL;
    const long epochs = argc > 1 ? strtol(argv[1], &end, 10) : 2;
    if ((end && (end == argv[1] || *end)) || epochs < 1)
        return fprintf(stderr, "resume wants a number of epochs of at least 1, not '%s'\n", argv[1]), 2;
    tp_logger_set_dir("train_log/resume", 'k'); /* what is in the directory is kept */
    return tp_launch_train_with_config(
               TP_OPTIONS(
                   tp_train_config,
                   .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build_graph, .optimizer = optimizer},
                   .dataflow = tp_df_batch(tp_df_digits("train"), 64), TP_CALLBACKS(tp_cb_model_saver()),
                   .max_epoch = epochs, .auto_resume = true),
               tp_simple_trainer()) != TP_OK;
}
