/* regression.c - learn a number instead of a class, from arrays in memory
 *   gcc -std=c11 -O2 -I../.. regression.c -lm -lpthread -o regression && ./regression */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"
#include <math.h>
#include <string.h>

#define N 2000

static const tp_spec inputs[] = {TP_SPEC("x", TP_F32, TP_ANY, 2), TP_SPEC("y", TP_F32, TP_ANY, 1)};

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    tp_node *y = tp_linear(in[0], TP_FULLY_CONNECTED("fc0", .units = 32, .activation = tp_tanh),
                           TP_FULLY_CONNECTED("fc1", .units = 1));
    return tp_named(tp_sym_mse(y, in[1], NULL), "cost");
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_adam(tp_get_scalar_variable(g, "learning_rate", 1e-2f));
}

int main(void)
{
    static float x[N][2], y[N][1];
    for (uint64_t i = 0; i < N; i++) {
        for (uint64_t k = 0; k < 2; k++) x[i][k] = 4 * tp_random_uniform(1, i, k) - 2;
        y[i][0] = sinf(x[i][0]) + x[i][1] * x[i][1];
    }
    tp_tensor data[2];
    memset(data, 0, sizeof data);
    tp_tensor_view(&data[0], TP_F32, tp_make_shape(N, 2), x);
    tp_tensor_view(&data[1], TP_F32, tp_make_shape(N, 1), y); /* the arrays are copied: more of them for validation */
    tp_dataflow *test = tp_df_batch(tp_df_from_arrays(data, 2, .seed = 7), 100);
    tp_logger_set_dir("train_log/regression", 'd');
    double cost;
    const tp_status st = tp_launch_train_with_config(
        TP_OPTIONS(tp_train_config,
                   .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build_graph, .optimizer = optimizer},
                   .dataflow = tp_df_batch(tp_df_from_arrays(data, 2), 50),
                   TP_CALLBACKS(tp_cb_inference_runner(test, .inferencers = {tp_inf_scalar_stats(TP_NAMES("cost"))}),
                                tp_cb_get_latest("validation_cost", &cost)),
                   .max_epoch = 10),
        tp_simple_trainer());
    printf("mean squared error %g\n", cost);
    return st == TP_OK && cost < 0.05 ? 0 : 1; /* was it learnt? */
}
