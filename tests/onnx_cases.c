/* onnx_cases.c - models with inputs and expected outputs, run through tp_import_onnx
 *
 *     onnx_cases <folder>        every <name>.onnx of the folder, or those that its file `list` names
 *     onnx_cases --operators     names of the operators that tp_import_onnx knows
 *
 * <name>.npz has the inputs as "in <name of the input>" and what should come out as "out <name of the output>". A line of
 * `list` is a name, a relative and an absolute tolerance (without it 1e-4 and 1e-4). Prints a line a case: PASS (with its
 * inputs fed, "sizes": integers and single numbers given as constants, "all": everything constant), REFUSED with the
 * sentence, or FAIL with what differed. */
#define TP_IMPLEMENTATION
#include "tp_import.h"

#include <stdio.h>

static bool is_size(const tp_tensor *t)
{
    return !tp_dtype_is_float(t->dtype) || (tp_tensor_size(t) <= 8 && t->shape.ndim <= 1);
}

/* Where y and the expected values differ, or NULL. Both are read as doubles. */
static const char *difference(const tp_tensor *y, const tp_tensor *want, double rtol, double atol, char *text,
                              size_t size)
{
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    if (!tp_shape_equal(&y->shape, &want->shape)) {
        snprintf(text, size, "shape %s, not %s", tp_shape_text(&y->shape, a), tp_shape_text(&want->shape, b));
        return text;
    }
    for (int64_t i = 0; i < tp_tensor_size(y); i++) {
        const double u = tp_tensor_get(y, i), v = tp_tensor_get(want, i);
        if (u == v || (isnan(u) && isnan(v)) || (!isinf(v) && fabs(u - v) <= atol + rtol * fabs(v))) continue;
        snprintf(text, size, "element %lld is %.9g, not %.9g", (long long)i, u, v);
        return text;
    }
    return NULL;
}

/* One attempt. constants: 0 none, 1 sizes, 2 all. */
static tp_status attempt(const char *model, const tp_dict *d, int constants, double rtol, double atol, char *text,
                         size_t size)
{
    tp_onnx_model m;
    tp_import_onnx_desc desc;
    tp_onnx_value given[64];
    tp_feed feed[64];
    tp_node *fetch[64];
    const tp_tensor *out[64];
    int n_feed = 0;
    tp_graph *g = tp_graph_new(NULL);
    tp_session *s = NULL;
    memset(&desc, 0, sizeof desc);
    memset(feed, 0, sizeof feed);
    desc.inputs = given;
    for (int i = 0; i < d->n && desc.n_inputs < 64 && constants; i++) {
        const tp_tensor *t = &d->item[i].value;
        if (strncmp(d->item[i].name, "in ", 3) != 0 || (constants == 1 && !is_size(t))) continue;
        tp_tensor f32;
        memset(&f32, 0, sizeof f32);
        if (t->dtype == TP_F16 && tp_tensor_resize(&f32, TP_F32, t->shape) == TP_OK)
            tp_convert(f32.data, TP_F32, t->data, TP_F16, tp_tensor_size(t));
        given[desc.n_inputs].name = d->item[i].name + 3;
        given[desc.n_inputs++].node = tp_constant(g, f32.data ? &f32 : t);
        tp_tensor_free(&f32);
    }
    tp_status st = tp_import_onnx(g, model, &desc, &m);
    if (st == TP_OK && !(s = tp_session_new(g, NULL))) st = TP_ERR;
    for (int i = 0; st == TP_OK && i < m.n_input; i++) {
        char key[300];
        snprintf(key, sizeof key, "in %s", m.input[i].name);
        const tp_tensor *t = tp_dict_find(d, key);
        if (m.input[i].node->op->row != tp_op_find("placeholder")) continue;
        if (!t) {
            st = tp_fail(TP_ERR_ARG, "the case has no input '%s'", m.input[i].name);
            break;
        }
        feed[n_feed].node = m.input[i].node;
        st = tp_tensor_resize(&feed[n_feed].value, m.input[i].node->dtype, t->shape);
        if (st == TP_OK)
            tp_convert(feed[n_feed].value.data, feed[n_feed].value.dtype, t->data, t->dtype, tp_tensor_size(t));
        n_feed++;
    }
    for (int i = 0; st == TP_OK && i < m.n_output && i < 64; i++) fetch[i] = m.output[i].node;
    if (st == TP_OK) st = tp_session_run(s, feed, n_feed, fetch, m.n_output, out);
    text[0] = 0;
    for (int i = 0; st == TP_OK && i < m.n_output; i++) {
        char key[300];
        char why[200];
        snprintf(key, sizeof key, "out %s", m.output[i].name);
        const tp_tensor *want = tp_dict_find(d, key);
        const char *bad = want ? difference(out[i], want, rtol, atol, why, sizeof why) : "nothing is expected of it";
        if (bad && !text[0]) snprintf(text, size, "%s: %s", key, bad);
    }
    for (int i = 0; i < n_feed; i++) tp_tensor_free(&feed[i].value);
    tp_session_free(s);
    tp_graph_free(g);
    return st;
}

static void run_case(const char *folder, const char *name, double rtol, double atol)
{
    static const char *const how[] = {"fed", "sizes", "all"};
    char path[1400], text[700];
    tp_dict d = {NULL, 0, 0};
    tp_status st = TP_ERR;
    int k = 0;
    snprintf(path, sizeof path, "%s/%s.npz", folder, name);
    if (tp_npz_load(path, &d) != TP_OK) {
        printf("FAIL %s %s\n", name, tp_last_error());
        return;
    }
    snprintf(path, sizeof path, "%s/%s.onnx", folder, name);
    for (; k < 3; k++) {
        st = attempt(path, &d, k, rtol, atol, text, sizeof text);
        if (st == TP_OK || !strstr(tp_last_error(), "must be known")) break;
    }
    if (st != TP_OK) printf("REFUSED %s %s\n", name, tp_last_error());
    else if (text[0]) printf("FAIL %s %s\n", name, text);
    else printf("PASS %s %s\n", name, how[k]);
    fflush(stdout);
    tp_dict_free(&d);
}

int main(int argc, char **argv)
{
    char path[1024], name[300];
    double rtol, atol;
    if (argc > 1 && strcmp(argv[1], "--operators") == 0) {
        for (int i = 0; tp_import_onnx_operator(i); i++) puts(tp_import_onnx_operator(i));
        return 0;
    }
    if (argc != 2) return fprintf(stderr, "onnx_cases <folder>\n"), 1;
    snprintf(path, sizeof path, "%s/list", argv[1]);
    FILE *list = fopen(path, "r");
    if (list) {
        while (fscanf(list, "%299s %lf %lf", name, &rtol, &atol) == 3) run_case(argv[1], name, rtol, atol);
        fclose(list);
        return 0;
    }
    DIR *dir = opendir(argv[1]);
    if (!dir) return fprintf(stderr, "onnx_cases: no folder '%s'\n", argv[1]), 1;
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        const size_t n = strlen(e->d_name);
        if (n < 6 || n > sizeof name || strcmp(e->d_name + n - 5, ".onnx") != 0) continue;
        snprintf(name, sizeof name, "%.*s", (int)(n - 5), e->d_name);
        run_case(argv[1], name, 1e-4, 1e-4);
    }
    closedir(dir);
    return 0;
}
