/* predict.c - load a checkpoint, and predict; run classify first
 *   gcc -std=c11 -O2 -I../.. predict.c -lm -lpthread -o predict && ./predict */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"
#include <stdio.h>

static const tp_spec inputs[] = {TP_SPEC("image", TP_F32, TP_ANY, 28, 28), TP_SPEC("label", TP_I32, TP_ANY)};

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    tp_node *logits = tp_linear(in[0], TP_FULLY_CONNECTED("fc0", .units = 64, .activation = tp_relu),
                                TP_FULLY_CONNECTED("fc1", .units = 10));
    tp_sym_prediction_incorrect(logits, in[1], 1, "wrong");
    return tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1])), "cost");
}

int main(void)
{
    static const char *const input[] = {"image"}, *const output[] = {"fc1/output"};
    tp_predict_config c = {.inputs = inputs,
                           .n_inputs = 2,
                           .build_graph = build_graph,
                           .input_names = input,
                           .n_input_names = 1,
                           .output_names = output,
                           .n_output_names = 1,
                           .checkpoint = "train_log/classify/checkpoint"}; /* or a file, model-561.npz */
    tp_predictor *p = tp_offline_predictor(&c);
    tp_dataflow *test = tp_df_batch(tp_df_digits("test", .size = 10), 1);
    tp_datapoint dp = {0, NULL, 0};
    int right = 0;
    tp_status st = p ? TP_OK : TP_ERR;
    while (st == TP_OK && (st = tp_df_next(test, &dp)) == TP_OK) {
        const tp_tensor *logits;
        if ((st = tp_predict(p, &dp.c[0], &logits)) != TP_OK) break; /* logits (1,10) are p's, until the next call */
        int best = 0;
        for (int i = 1; i < 10; i++)
            if (tp_tensor_get(logits, i) > tp_tensor_get(logits, best)) best = i;
        printf("a %d is taken for a %d\n", (int)tp_tensor_get(&dp.c[1], 0), best);
        right += best == (int)tp_tensor_get(&dp.c[1], 0);
    }
    if (st != TP_END) printf("%s\n", tp_last_error());
    tp_datapoint_free(&dp);
    tp_df_free(test);
    tp_predictor_free(p);
    return st == TP_END && right >= 7 ? 0 : 1;
}
