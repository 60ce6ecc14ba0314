/* export.c - write a model as ONNX, as a folder for a model server, and as C; run classify first
 *   gcc -std=c11 -O2 -I../.. export.c -lm -lpthread -o export && ./export */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_export.h"
#include <stdio.h>

static const tp_spec inputs[] = {TP_SPEC("image", TP_F32, TP_ANY, 28, 28), TP_SPEC("label", TP_I32, TP_ANY)};

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    tp_node *logits = tp_linear(in[0], TP_FULLY_CONNECTED("fc0", .units = 64, .activation = tp_relu),
                                TP_FULLY_CONNECTED("fc1", .units = 10));
    tp_named(tp_softmax(logits), "prob");
    tp_sym_prediction_incorrect(logits, in[1], 1, "wrong");
    return tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1])), "cost");
}

int main(void)
{
    static const char *const input[] = {"image"}, *const output[] = {"prob"};
    tp_predict_config c = {.inputs = inputs,
                           .n_inputs = 2,
                           .build_graph = build_graph,
                           .input_names = input,
                           .n_input_names = 1,
                           .output_names = output,
                           .n_output_names = 1,
                           .checkpoint = "train_log/classify/checkpoint"};
    tp_model_exporter *e = tp_model_exporter_new(&c);
    tp_status st = e ? TP_OK : TP_ERR;
    if (st == TP_OK) st = tp_make_dirs("train_log/export");
    if (st == TP_OK) st = tp_export_compact(e, "train_log/export/digits.onnx", NULL); /* one file */
    if (st == TP_OK) st = tp_export_serving(e, "train_log/export/digits", NULL);      /* for NVIDIA's Triton */
    if (st == TP_OK) { /* digits.c, and digits.h with: void digits(const float *image, float *prob); */
        tp_session *s = tp_model_exporter_session(e);
        tp_node *image = tp_graph_find(tp_session_graph(s), "image"),
                *prob = tp_graph_find(tp_session_graph(s), "prob");
        const tp_export_c_desc d = {.name = "digits"};
        st = tp_export_c(s, &image, 1, &prob, 1, "train_log/export/digits.c", &d);
    }
    if (st != TP_OK) printf("%s\n", tp_last_error());
    tp_model_exporter_free(e);
    return st != TP_OK;
}
