/* fuzz_import.c - arbitrary bytes into tp_import_onnx
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -I. tests/fuzz_import.c -lm -lpthread -o fuzz_import
 *     cc -g -DFUZZ_REPLAY -I. tests/fuzz_import.c -lm -lpthread -o replay && ./replay crash-*
 *
 * What is accepted must have a planable graph: it is run once with zeros where its inputs are small. */
#define TP_IMPLEMENTATION
#include "tp_import.h"

static void quiet(void *user, tp_log_level level, const char *message) { (void)user, (void)level, (void)message; }

static void run_once(tp_graph *g, const tp_onnx_model *m)
{
    tp_feed feed[8];
    tp_node *fetch[8];
    int n = 0, k = 0;
    double elements = 0;
    memset(feed, 0, sizeof feed);
    for (int i = 0; i < tp_graph_n_operations(g); i++) { /* nothing that takes long */
        const tp_operation *op = tp_graph_operation(g, i);
        for (int j = 0; j < op->n_out; j++) {
            double size = 1;
            for (int d = 0; d < op->out[j].shape.ndim; d++)
                size *= op->out[j].shape.dim[d] < 0 ? 2 : (double)op->out[j].shape.dim[d];
            elements += size;
        }
    }
    if (elements > 1e5 || m->n_input > 8 || m->n_output > 8) return;
    for (int i = 0; i < m->n_input; i++) {
        tp_shape s = m->input[i].node->shape;
        for (int d = 0; d < s.ndim; d++)
            if (s.dim[d] < 0) s.dim[d] = 2;
        if (m->input[i].node->op->row != tp_op_find("placeholder")) continue;
        feed[n].node = m->input[i].node;
        if (tp_tensor_resize(&feed[n].value, feed[n].node->dtype, s) == TP_OK && tp_tensor_bytes(&feed[n].value))
            memset(feed[n].value.data, 0, tp_tensor_bytes(&feed[n].value));
        n++;
    }
    for (; k < m->n_output; k++) fetch[k] = m->output[k].node;
    tp_session_config c = tp_default_session_config();
    c.threads = 1;
    tp_session *s = tp_session_new(g, &c);
    if (s && k) tp_session_run(s, feed, n, fetch, k, NULL);
    tp_session_free(s);
    for (int i = 0; i < n; i++) tp_tensor_free(&feed[i].value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tp_set_log(quiet, NULL);
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model m;
    if (!g) return 0;
    const tp_status st = tp_import_onnx_parse(g, data, size, "fuzz.onnx", NULL, &m);
    if (st > TP_OK || (st != TP_OK && !tp_last_error()[0])) {
        fprintf(stderr, "fuzz_import: status %d: %s\n", (int)st, tp_last_error());
        abort();
    }
    if (st == TP_OK) run_once(g, &m);
    tp_graph_free(g);
    return 0;
}

#ifdef FUZZ_REPLAY
int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char *data = NULL;
        size_t size = 0;
        if (tp_file_read(argv[i], false, 0, &data, &size) != TP_OK) return puts(tp_last_error()), 1;
        printf("%s\n", argv[i]);
        LLVMFuzzerTestOneInput((const uint8_t *)data, size);
        tp_free(data);
    }
    return 0;
}
#endif
