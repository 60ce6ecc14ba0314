/* own_data.c - data of your own: a function that makes datapoint number i, read on threads, shuffled and batched
 *   gcc -std=c11 -O2 -I../.. own_data.c -lm -lpthread -o own_data && ./own_data */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"

static const tp_spec inputs[] = {TP_SPEC("image", TP_F32, TP_ANY, 16, 16), TP_SPEC("label", TP_I32, TP_ANY)};

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

/* Datapoint number `index`: read yours from a file, a camera, a socket. Here: a bar of brightness at row 1.5 times its label. */
static tp_status make(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user, (void)pass;
    tp_status st = tp_datapoint_resize(dp, 2);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape(16, 16));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_I32, tp_make_shape_n(0, NULL)); /* a scalar */
    if (st != TP_OK) return st; /* an error ends the training with its sentence; TP_END: there are no more */
    const int label = (int)(index % 10);
    for (int i = 0; i < 256; i++)
        ((float *)dp->c[0].data)[i] = tp_random_uniform(3, (uint64_t)index, (uint64_t)i) + (i / 16 == label * 3 / 2);
    ((int32_t *)dp->c[1].data)[0] = label;
    return TP_OK;
}

int main(void)
{
    tp_dataflow *df = tp_df_from_generator(make, .size = 4000, .indexed = TP_YES);
    df = tp_df_batch(tp_df_locally_shuffle(df, .buffer_size = 1000), 50); /* in a new order each time */
    df = tp_df_prefetch(df);                                              /* made by a thread, while the model trains */
    tp_logger_set_dir("train_log/own_data", 'd');
    return tp_launch_train_with_config(
               TP_OPTIONS(
                   tp_train_config,
                   .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build_graph, .optimizer = optimizer},
                   .dataflow = df, .max_epoch = 3),
               tp_simple_trainer()) != TP_OK;
}
