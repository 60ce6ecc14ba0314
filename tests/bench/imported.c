/* imported.c - time of a prediction by a network that was imported from an ONNX file: one thread, float32
 *
 *   build/imported <model.onnx> <input> <output> <seconds>
 *
 * The model has one input and one output of fixed shapes. <input> has the input's values as float32, the program writes the output's
 * to <output>. Prints one line of JSON: the milliseconds of the fastest run. imported.py calls it. */
#define TP_IMPLEMENTATION
#include "tp_import.h"
#include <stdio.h>
#include <string.h>

static tp_status predict(const char *model, const char *input, const char *output, double seconds, double *best)
{
    tp_onnx_model m;
    tp_feed feed;
    const tp_tensor *out = NULL;
    char *values = NULL;
    size_t size = 0;
    tp_session *s = NULL;
    tp_session_config config = tp_default_session_config();
    tp_graph *g = tp_graph_new(NULL);
    config.threads = 1;
    memset(&feed, 0, sizeof feed);
    tp_status st = tp_import_onnx(g, model, NULL, &m);
    if (st == TP_OK) st = tp_file_read(input, false, 0, &values, &size);
    if (st == TP_OK && !(s = tp_session_new(g, &config))) st = TP_ERR;
    if (st == TP_OK) {
        feed.node = m.input[0].node;
        if ((size_t)tp_shape_size(&feed.node->shape) * sizeof(float) != size)
            st = tp_fail(TP_ERR_SHAPE, "%s does not fit the input of %s", input, model);
        tp_tensor_view(&feed.value, TP_F32, feed.node->shape, values);
    }
    const double end = tp_time() + seconds;
    for (int i = 0; st == TP_OK && (i < 3 || tp_time() < end); i++) {
        const double begin = tp_time();
        st = tp_session_run(s, &feed, 1, &m.output[0].node, 1, &out);
        const double t = tp_time() - begin;
        if (i == 0 || t < *best) *best = t;
    }
    FILE *f = st == TP_OK ? fopen(output, "wb") : NULL;
    if (st == TP_OK && (!f || fwrite(out->data, tp_tensor_bytes(out), 1, f) != 1))
        st = tp_fail(TP_ERR_IO, "%s cannot be written", output);
    if (f) fclose(f);
    tp_session_free(s);
    tp_graph_free(g);
    tp_free(values);
    return st;
}

int main(int argc, char **argv)
{
    double best = 0;
    if (argc != 5) return puts("usage: imported <model.onnx> <input> <output> <seconds>"), 2;
    if (predict(argv[1], argv[2], argv[3], strtod(argv[4], NULL), &best) != TP_OK) return puts(tp_last_error()), 1;
    printf("{\"ms\": %.4f}\n", best * 1e3);
    return 0;
}
