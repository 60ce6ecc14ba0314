/* text.c - predict the next character of a text, with an LSTM
 *   gcc -std=c11 -O2 -I../.. text.c -lm -lpthread -o text && ./text */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_train.h"
#include "tp_layers.h"
#include <stdio.h>
#include <string.h>

#define LENGTH 50 /* characters in a piece of text */

static const tp_spec inputs[] = {TP_SPEC("input", TP_I32, TP_ANY, LENGTH), TP_SPEC("next", TP_I32, TP_ANY, LENGTH)};

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    const int n_chars = *(const int *)user;
    (void)g;
    tp_node *x = tp_embedding(in[0], "embedding", .vocab = n_chars, .units = 32);
    x = tp_reshape(tp_lstm(x, "lstm", .units = 64), TP_ANY, 64); /* (B,LENGTH,64) -> (B*LENGTH,64) */
    tp_node *logits = tp_fully_connected(x, "fc", .units = n_chars);
    return tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, tp_flatten(in[1]))), "cost");
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_apply_grad_processors(tp_adam(tp_get_scalar_variable(g, "learning_rate", 1e-2f)),
                                    TP_GRADPROCS(tp_gradproc_global_norm_clip(5)));
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : __FILE__; /* any text file; this one is short, and soon learnt by heart */
    tp_vocabulary v;
    memset(&v, 0, sizeof v);
    if (tp_vocabulary_chars(&v, path) != TP_OK) return puts(tp_last_error()), 1;
    int n_chars = v.n;
    tp_vocabulary_free(&v);
    tp_logger_set_dir("train_log/text", 'd');
    return tp_launch_train_with_config(
               TP_OPTIONS(tp_train_config,
                          .model = {.inputs = inputs,
                                    .n_inputs = 2,
                                    .build_graph = build_graph,
                                    .optimizer = optimizer,
                                    .user = &n_chars},
                          .dataflow = tp_df_batch(tp_df_text_chars(path, .sequence_length = LENGTH, .size = 640), 16),
                          TP_CALLBACKS(tp_cb_model_saver()), .max_epoch = 3),
               tp_simple_trainer()) != TP_OK;
}
