/* The operators of tp_import_onnx: small models of each operator, version and set of attributes, against what the ONNX
 * project's reference evaluator and ONNX Runtime say (ref_onnx.txt, written by ref_onnx.py). Each model is imported in
 * several ways (the enum below): its inputs are fed; inputs that may be sizes are constants; all inputs are constants, so that the
 * import computes the outputs itself; the dimensions of the inputs are unknown; the inputs that are images have their channels last
 * in the graph. */
#define TP_IMPLEMENTATION
#include "tp_import.h"
#include "tp_test.h"

#include "op_cases.h"

#include "onnx_text.h"

enum { FED, SIZES, KNOWN, OPEN, LAST, FIRST_LAST, SECOND_LAST, LAST_OPEN, N_WAYS };
static const char *const way_name[] = {"fed",
                                       "sizes known",
                                       "all known",
                                       "dimensions unknown",
                                       "channels last",
                                       "channels of the first input last",
                                       "channels of the second input last",
                                       "channels last, dimensions unknown"};

/* May this be a size, an axis, a list of them? */
static bool is_size(const tp_tensor *t) { return !tp_dtype_is_float(t->dtype) && tp_tensor_size(t) <= 16; }

static const char *difference(const tp_tensor *y, const tp_tensor *want, double rtol, double atol, char *text,
                              size_t size)
{
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    if (y->dtype != want->dtype || !tp_shape_equal(&y->shape, &want->shape)) {
        snprintf(text, size, "it is %s %s, not %s %s", tp_dtype_name(y->dtype), tp_shape_text(&y->shape, a),
                 tp_dtype_name(want->dtype), tp_shape_text(&want->shape, b));
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

static bool is_image(int way, int i, const tp_tensor *t)
{
    return t->shape.ndim > 2 && t->shape.ndim < 5 && !is_size(t) &&
           (way == LAST || way == LAST_OPEN || way == FIRST_LAST + i);
}
/* x, which is fed, as import leaves an image: the transpose of a value with the channels last. */
static tp_node *with_channels_last(tp_node *x)
{
    static const int last[2][4] = {{0, 2, 1}, {0, 2, 3, 1}}, first[2][4] = {{0, 2, 1}, {0, 3, 1, 2}};
    const int n = x->shape.ndim;
    return tp_transpose(tp_identity(tp_transpose(x, last[n - 3], n)), first[n - 3], n);
}

/* One import of a case, run and compared. Its status; TP_OK with text: another value. ran: import was content. */
static tp_status attempt(const onnx_case *c, int way, bool *ran, char *text, size_t size)
{
    tp_onnx_model m;
    tp_import_onnx_desc desc;
    tp_onnx_value given[8];
    tp_feed feed[8];
    tp_node *fetch[8];
    const tp_tensor *out[8];
    int n_feed = 0;
    tp_graph *g = tp_graph_new(NULL);
    tp_session *s = NULL;
    memset(&desc, 0, sizeof desc);
    memset(feed, 0, sizeof feed);
    text[0] = 0;
    desc.inputs = given;
    for (int i = 0; i < c->n_in; i++) {
        tp_shape shape = c->in[i].shape;
        const bool size_known = is_size(&c->in[i]), image = is_image(way, i, &c->in[i]);
        if (way == FED || ((way == SIZES || way >= LAST) && !size_known && !image)) continue;
        for (int d = 0; d < shape.ndim && (way == OPEN || way == LAST_OPEN); d++) shape.dim[d] = TP_ANY;
        tp_node *x = (way == OPEN || image) && !size_known ? tp_placeholder(g, c->in_name[i], c->in[i].dtype, shape)
                                                           : tp_constant(g, &c->in[i]);
        given[desc.n_inputs].name = c->in_name[i];
        given[desc.n_inputs++].node = image ? with_channels_last(x) : x;
        if (!image) continue;
        feed[n_feed].node = x;
        tp_tensor_view(&feed[n_feed++].value, c->in[i].dtype, c->in[i].shape, c->in[i].data);
    }
    tp_status st = tp_import_onnx_parse(g, c->model, c->size, c->name, &desc, &m);
    if (st == TP_OK && !(s = tp_session_new(g, NULL))) st = TP_ERR;
    for (int i = 0; st == TP_OK && i < m.n_input; i++) {
        if (m.input[i].node->op->row != tp_op_find("placeholder")) continue;
        int k = 0;
        while (k < c->n_in && strcmp(c->in_name[k], m.input[i].name) != 0) k++;
        if (!CHECK_MSG(k < c->n_in, "%s has an input '%s' more", c->name, m.input[i].name)) break;
        feed[n_feed].node = m.input[i].node;
        tp_tensor_view(&feed[n_feed++].value, c->in[k].dtype, c->in[k].shape, c->in[k].data);
    }
    for (int i = 0; st == TP_OK && i < m.n_output; i++) fetch[i] = m.output[i].node;
    if (st == TP_OK) *ran = true, st = tp_session_run(s, feed, n_feed, fetch, m.n_output, out);
    for (int i = 0; st == TP_OK && i < m.n_output && !text[0]; i++) {
        char why[200];
        const char *bad = i < c->n_out ? difference(out[i], &c->out[i], c->rtol, c->atol, why, sizeof why) : "too many";
        if (bad) snprintf(text, size, "output %d: %s", i, bad);
    }
    tp_session_free(s);
    tp_graph_free(g);
    return st;
}

TEST(operators_give_what_the_reference_says)
{
    int n = 0, n_model = 0, right[N_WAYS] = {0};
    onnx_case *list = read_onnx_cases(&n);
    tp_set_log(tp_test_drop_log, NULL);
    for (int i = 0; i < n; i++) {
        const onnx_case *c = &list[i];
        bool accepted = false;
        if (c->refused[0]) continue;
        n_model++;
        for (int way = 0; way < N_WAYS; way++) {
            char text[300];
            bool ran = false;
            const tp_status st = attempt(c, way, &ran, text, sizeof text);
            accepted |= st == TP_OK;
            if (st == TP_OK) right[way] += CHECK_MSG(!text[0], "%s, %s: %s", c->name, way_name[way], text);
            else /* the sentence names the model and what has to be known; what was not known may be found to be wrong later */
                CHECK_MSG(way != KNOWN && (strstr(tp_last_error(), "known when the graph is built") ||
                                           ((way == OPEN || way == LAST_OPEN) &&
                                            (strstr(tp_last_error(), ".dims") || ran || st == TP_ERR_UNSUPPORTED))),
                          "%s, %s: %s", c->name, way_name[way], tp_last_error());
        }
        CHECK_MSG(accepted, "%s is refused however it is given: %s", c->name, tp_last_error());
    }
    printf(
        "  %d models; right: %d fed, %d with sizes known, %d all known, %d with unknown dimensions, %d with channels "
        "last, %d with those and unknown dimensions\n",
        n_model, right[FED], right[SIZES], right[KNOWN], right[OPEN], right[LAST], right[LAST_OPEN]);
    CHECK_MSG(n > 450 && right[FED] > 400 && right[SIZES] > 480 && right[KNOWN] == n_model && right[OPEN] > 300 &&
                  right[LAST] >= right[SIZES] && right[LAST_OPEN] >= right[OPEN],
              "fewer models than there were");
    tp_set_log(NULL, NULL);
    free_onnx_cases(list, n);
}

TEST(what_cannot_be_imported_is_refused_with_a_sentence)
{
    int n = 0, n_refused = 0;
    onnx_case *list = read_onnx_cases(&n);
    for (int i = 0; i < n; i++) {
        const onnx_case *c = &list[i];
        tp_graph *g = tp_graph_new(NULL);
        tp_onnx_model m;
        if (!c->refused[0]) {
            tp_graph_free(g);
            continue;
        }
        n_refused++;
        const tp_status st = tp_import_onnx_parse(g, c->model, c->size, c->name, NULL, &m);
        CHECK_MSG(st < TP_OK && strncmp(tp_last_error(), c->name, strlen(c->name)) == 0 &&
                      strstr(tp_last_error(), c->refused),
                  "%s: status %d, '%s', expected '%s'", c->name, (int)st, st == TP_OK ? "" : tp_last_error(),
                  c->refused);
        tp_graph_free(g);
    }
    CHECK_MSG(n_refused > 400, "fewer models than there were: %d", n_refused);
    free_onnx_cases(list, n);
}

/* No operator of the table is without a model, but those that draw random numbers: test_import.c has them. */
TEST(every_operator_has_a_model)
{
    int n = 0;
    onnx_case *list = read_onnx_cases(&n);
    for (int k = 0; tp_import_onnx_operator(k); k++) {
        const char *name = tp_import_onnx_operator(k);
        const size_t length = strlen(name);
        bool found = false;
        for (int i = 0; i < n && !found; i++) /* field 4 of a node: its operator */
            for (size_t at = 0; at + length + 2 <= list[i].size && !found; at++)
                found = list[i].model[at] == (4 << 3 | 2) && list[i].model[at + 1] == length &&
                        memcmp(list[i].model + at + 2, name, length) == 0;
        found |= strncmp(name, "Random", 6) == 0 || strcmp(name, "Bernoulli") == 0;
        CHECK_MSG(found, "no model has the operator %s", name);
    }
    free_onnx_cases(list, n);
}

TEST_MAIN()
