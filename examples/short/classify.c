/* classify.c - train a classifier, with validation and checkpoints
 *   gcc -std=c11 -O2 -I../.. classify.c -lm -lpthread -o classify && ./classify */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"

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

int main(void)
{
    tp_logger_set_dir("train_log/classify", 'd'); /* the directory is new */
    return tp_launch_train_with_config(
               TP_OPTIONS(
                   tp_train_config,
                   .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build_graph, .optimizer = optimizer},
                   .dataflow = tp_df_batch(tp_df_digits("train"), 64),
                   TP_CALLBACKS(tp_cb_model_saver(),
                                tp_cb_inference_runner(
                                    tp_df_batch(tp_df_digits("test"), 100),
                                    .inferencers = {tp_inf_classification_error(.wrong_tensor_name = "wrong")}),
                                tp_cb_min_saver("validation_error")),
                   .max_epoch = 3),
               tp_simple_trainer()) != TP_OK;
}
