/* fine_tune.c - begin with the weights of another training; train a new last layer, and nothing else; run classify first
 *   gcc -std=c11 -O2 -I../.. fine_tune.c -lm -lpthread -o fine_tune && ./fine_tune */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"

static const tp_spec inputs[] = {TP_SPEC("image", TP_F32, TP_ANY, 28, 28), TP_SPEC("label", TP_I32, TP_ANY)};

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *features = NULL;
    (void)user;
    TP_FREEZE_VARIABLES(g, .stop_gradient = true, .skip_collection = true) /* what is made inside is not trained */
    {
        features =
            tp_fully_connected(in[0], "fc0", .units = 64, .activation = tp_relu); /* the name is as in classify.c */
    }
    tp_node *logits = tp_fully_connected(features, "odd_or_even", .units = 2); /* a new name: it begins anew */
    tp_node *odd = tp_mod(in[1], tp_const_as(g, TP_I32, 2));
    tp_sym_prediction_incorrect(logits, odd, 1, "wrong");
    return tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, odd)), "cost");
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_adam(tp_get_scalar_variable(g, "learning_rate", 1e-3f));
}

int main(void)
{
    /* without the other training's learning rate, step and slots of its optimizer: they begin anew */
    const tp_saver_restore_desc weights = {.path = "train_log/classify/checkpoint", .weights_only = true};
    tp_logger_set_dir("train_log/fine_tune", 'd');
    return tp_launch_train_with_config(
               TP_OPTIONS(
                   tp_train_config,
                   .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build_graph, .optimizer = optimizer},
                   .dataflow = tp_df_batch(tp_df_digits("train"), 64),
                   TP_CALLBACKS(tp_cb_inference_runner(
                       tp_df_batch(tp_df_digits("test"), 100),
                       .inferencers = {tp_inf_classification_error(.wrong_tensor_name = "wrong")})),
                   /* a model of another program, a dict of arrays (.npz or .safetensors), is loaded by name, too */
                   .session_init = tp_saver_restore_ex(&weights), .max_epoch = 2),
               tp_simple_trainer()) != TP_OK;
}
