/* tp_import_onnx: models built here byte by byte, whole and damaged. That the operators compute what ONNX says is checked
 * by onnx_cases.py with the onnx package's own cases. */
#define TP_IMPLEMENTATION
#include "tp_import.h"
#include "tp_export.h"
#include "tp_layers.h"
#include "tp_test.h"
#include <float.h>

/* -- a small protobuf writer */
typedef struct msg {
    uint8_t b[60000];
    size_t n;
} msg;

static void put_varint(msg *m, uint64_t v)
{
    for (; v >= 128; v >>= 7) m->b[m->n++] = (uint8_t)(v | 128);
    m->b[m->n++] = (uint8_t)v;
}
static void put_int(msg *m, int field, int64_t v)
{
    put_varint(m, (uint64_t)field << 3);
    put_varint(m, (uint64_t)v);
}
static void put_bytes(msg *m, int field, const void *p, size_t n)
{
    put_varint(m, (uint64_t)field << 3 | 2);
    put_varint(m, n);
    memcpy(m->b + m->n, p, n);
    m->n += n;
}
static void put_text(msg *m, int field, const char *s) { put_bytes(m, field, s, strlen(s)); }
/* Where `decorated`, a message begins with fields that nobody knows, and with numbers that it has as eight bytes each. */
static bool decorated;
static void put_unknown(msg *m)
{
    for (int field = 1; decorated && field <= 102; field += field == 15 ? 84 : 1) {
        put_varint(m, (uint64_t)field << 3 | (field == 100 ? 2 : field == 101 ? 5 : field == 102 ? 0 : 1));
        const size_t n = field == 101 ? 4 : field == 102 ? 1 : 8;
        if (field == 100) put_varint(m, n);
        memset(m->b + m->n, field == 102 ? 7 : 0x55, n);
        m->n += n;
    }
}
static void put_msg(msg *m, int field, const msg *sub) { put_bytes(m, field, sub->b, sub->n); }

/* A node "op" from inputs to outputs, lists separated by commas ("" between commas leaves one out); attribute: NULL, or one. */
static void put_names(msg *m, int field, const char *list)
{
    for (const char *p = list;; p++) {
        const size_t n = strcspn(p, ",");
        put_bytes(m, field, p, n);
        p += n;
        if (!*p) return;
    }
}
static void put_node(msg *graph, const char *op, const char *in, const char *out, const msg *attribute)
{
    static msg node;
    node.n = 0;
    put_unknown(&node);
    if (in) put_names(&node, 1, in);
    put_names(&node, 2, out);
    put_text(&node, 3, out);
    put_text(&node, 4, op);
    if (attribute) put_msg(&node, 5, attribute);
    put_msg(graph, 1, &node);
}
static const msg *int_attribute(const char *name, int64_t v)
{
    static msg a;
    a.n = 0;
    put_text(&a, 1, name);
    put_int(&a, 3, v);
    put_int(&a, 20, 2);
    return &a;
}
static const msg *float_attribute(const char *name, float v)
{
    static msg a;
    unsigned char little[4];
    a.n = 0;
    put_text(&a, 1, name);
    put_varint(&a, 2 << 3 | 5);
    tp_test_little_endian(little, &v, 4, 4);
    memcpy(a.b + a.n, little, 4);
    a.n += 4;
    put_int(&a, 20, 1);
    return &a;
}
static const msg *ints_attribute(const char *name, const int64_t *v, int n)
{
    static msg a;
    a.n = 0;
    put_text(&a, 1, name);
    for (int i = 0; i < n; i++) put_int(&a, 8, v[i]);
    put_int(&a, 20, 7);
    return &a;
}
static const msg *text_attribute(const char *name, const char *v)
{
    static msg a;
    a.n = 0;
    put_text(&a, 1, name);
    put_text(&a, 4, v);
    put_int(&a, 20, 3);
    return &a;
}
static const msg *texts_attribute(const char *name, const char *list) /* a list of texts, separated by commas */
{
    static msg a;
    a.n = 0;
    put_text(&a, 1, name);
    put_names(&a, 9, list);
    put_int(&a, 20, 8);
    return &a;
}
static const msg *graph_attribute(const char *name, const msg *g)
{
    static msg a;
    a.n = 0;
    put_text(&a, 1, name);
    put_msg(&a, 6, g);
    put_int(&a, 20, 5);
    return &a;
}
/* dims: numbers, -1 the dimension named "n", -2 one named "m", -3 one without a name. field 11 input, 12 output */
static void put_io(msg *graph, int field, const char *name, int elem, int ndim, const int64_t *dims)
{
    static msg info, type, tensor, shape, dim;
    info.n = type.n = tensor.n = shape.n = 0;
    put_unknown(&info), put_unknown(&type), put_unknown(&tensor), put_unknown(&shape);
    for (int i = 0; i < ndim; i++) {
        dim.n = 0;
        put_unknown(&dim);
        if (dims[i] >= 0) put_int(&dim, 1, dims[i]);
        else if (dims[i] > -3) put_text(&dim, 2, dims[i] == -2 ? "m" : "n");
        put_msg(&shape, 1, &dim);
    }
    put_int(&tensor, 1, elem);
    put_msg(&tensor, 2, &shape);
    put_msg(&type, 1, &tensor);
    put_text(&info, 1, name);
    put_msg(&info, 2, &type);
    put_msg(graph, field, &info);
}
static void put_weight(msg *graph, const char *name, int elem, int ndim, const int64_t *dims, const void *raw,
                       size_t bytes)
{
    static msg t;
    t.n = 0;
    for (int i = 0; i < ndim; i++) put_int(&t, 1, dims[i]);
    put_int(&t, 2, elem);
    put_text(&t, 8, name);
    static unsigned char little[1 << 16];
    const size_t size = elem == 7 || elem == 11 ? 8 : elem == 1 || elem == 6 ? 4 : elem == 10 || elem == 16 ? 2 : 1;
    if (!CHECK(bytes <= sizeof little)) return;
    tp_test_little_endian(little, raw, bytes, size);
    put_bytes(&t, 9, little, bytes);
    put_msg(graph, 5, &t);
}
static void put_model(msg *file, const msg *graph, int opset)
{
    static msg set;
    file->n = set.n = 0;
    put_unknown(file), put_unknown(&set);
    put_int(file, 1, 8);
    put_msg(file, 7, graph);
    put_int(&set, 2, opset);
    put_msg(file, 8, &set);
}

/* import it; the sentence has to contain `part` */
static bool refused(const msg *file, const tp_import_onnx_desc *d, const char *part)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model m;
    const tp_status st = tp_import_onnx_parse(g, file->b, file->n, "model.onnx", d, &m);
    const bool ok = st < TP_OK && strstr(tp_last_error(), part) && strstr(tp_last_error(), "model.onnx");
    if (!ok) printf("  status %d, '%s', expected '%s'\n", (int)st, tp_last_error(), part);
    tp_graph_free(g);
    return ok;
}
static bool accepted(const msg *file)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model m;
    const bool ok = tp_import_onnx_parse(g, file->b, file->n, "model.onnx", NULL, &m) == TP_OK;
    if (!ok) printf("  refused: '%s'\n", tp_last_error());
    tp_graph_free(g);
    return ok;
}
/* run it: x (rows, columns) as 1, 2, 3, ..; up to n numbers of the first output */
static int run_model(const msg *file, const tp_import_onnx_desc *d, int64_t rows, int64_t columns, double *y, int n)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model m;
    tp_session *s = NULL;
    float x[64];
    int count = -1;
    const int64_t dim[2] = {rows, columns};
    for (int i = 0; i < 64; i++) x[i] = (float)(i + 1);
    if (CHECK_OK(tp_import_onnx_parse(g, file->b, file->n, "model.onnx", d, &m)) && CHECK(m.n_output > 0) &&
        CHECK((s = tp_session_new(g, NULL)) != NULL)) {
        tp_feed feed;
        tp_node *fetch = m.output[0].node;
        const tp_tensor *out = NULL;
        memset(&feed, 0, sizeof feed);
        feed.node = tp_graph_find(g, "x");
        tp_tensor_view(&feed.value, TP_F32, tp_make_shape_n(2, dim), x);
        if (CHECK_OK(tp_session_run(s, &feed, feed.node ? 1 : 0, &fetch, 1, &out)))
            for (count = 0; count < n && count < tp_tensor_size(out); count++) y[count] = tp_tensor_get(out, count);
    }
    tp_session_free(s);
    tp_graph_free(g);
    return count;
}

static msg graph, file;
static const int64_t n_by_2[] = {-1, 2}, two[] = {2}, three[] = {3}, one[] = {1}, two_by_2[] = {2, 2};

/* Imports `file`, a model with one input and one output, and runs it. Returns the number of outputs, which fit into y; -1: it is refused. */
static int run_file(const tp_shape *shape, const float *x, int most, double *y)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model m;
    int n = -1;
    if (tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m) == TP_OK) {
        tp_session *s = tp_session_new(g, NULL);
        tp_node *fetch = m.output[0].node;
        const tp_tensor *out = NULL;
        tp_feed feed;
        memset(&feed, 0, sizeof feed);
        feed.node = m.input[0].node;
        tp_tensor_view(&feed.value, TP_F32, *shape, x);
        if (CHECK_OK(tp_session_run(s, &feed, 1, &fetch, 1, &out)) && CHECK(tp_tensor_size(out) <= most))
            for (n = 0; n < (int)tp_tensor_size(out); n++) y[n] = tp_tensor_get(out, n);
        tp_session_free(s);
    }
    tp_graph_free(g);
    return n;
}

/* y = x W + b over the batch, W and b weights */
static void linear_model(void)
{
    static const float w[] = {1, 2, 3, 4}, b[] = {10, 20};
    graph.n = 0;
    put_text(&graph, 2, "linear");
    put_weight(&graph, "layer/W", 1, 2, two_by_2, w, sizeof w);
    put_weight(&graph, "layer/b", 1, 1, two, b, sizeof b);
    put_io(&graph, 11, "x", 1, 2, n_by_2);
    put_node(&graph, "Gemm", "x,layer/W,layer/b", "y", NULL);
    put_io(&graph, 12, "y", 1, 2, n_by_2);
    put_model(&file, &graph, 17);
}

TEST(a_file_of_another_writer)
{
    static const char hex[] =
        "0807120274701a03302e313a3d0a0c0a0178120179220452656c751201675a140a0178120f0a0d080112090a0312014e0a020802"
        "62140a0179120f0a0d080112090a0312014e0a02080242040a00100d";
    double y[2];
    file.n = 0;
    for (const char *p = hex; *p; p += 2) {
        unsigned v = 0;
        sscanf(p, "%2x", &v);
        file.b[file.n++] = (uint8_t)v;
    }
    CHECK(file.n == 80);
    CHECK(run_model(&file, NULL, 1, 2, y, 2) == 2 && y[0] == 1 && y[1] == 2);
}

TEST(a_node_of_too_many_inputs_is_named)
{
    static char in[2 * 16385];
    for (int i = 0; i < 16385; i++) memcpy(in + 2 * i, i < 16384 ? "x," : "x", 2);
    graph.n = 0;
    put_text(&graph, 2, "sums");
    put_io(&graph, 11, "x", 1, 2, n_by_2);
    put_node(&graph, "Sum", in, "sum", NULL);
    put_io(&graph, 12, "sum", 1, 2, n_by_2);
    put_model(&file, &graph, 17);
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model m;
    CHECK_ERR(
        tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m), TP_ERR_UNSUPPORTED,
        "model.onnx: sum: the node has 16385 inputs and 1 outputs, 16384 of each at most: divide it into several");
    tp_graph_free(g);
}

/* The last node, its output and the output of the graph are called prob, as exporters do. */
TEST(names_are_those_of_the_file)
{
    static const int64_t n_by_1[] = {-1, 1};
    graph.n = 0;
    put_text(&graph, 2, "names");
    put_io(&graph, 11, "x", 1, 2, n_by_2);
    put_node(&graph, "Relu", "x", "hidden/output", NULL);
    put_node(&graph, "Neg", "hidden/output", "hidden/Neg:nchw", NULL); /* no name for a node of a graph */
    put_node(&graph, "Abs", "hidden/Neg:nchw", "hidden/Abs:0", NULL);
    put_node(&graph, "Exp", "hidden/Abs:0", "exp", NULL);
    put_node(&graph, "Split", "exp", "split:0,split:1", int_attribute("axis", 1)); /* TensorFlow calls them so */
    put_node(&graph, "Sum", "split:0,split:1", "prob", NULL);
    put_io(&graph, 12, "prob", 1, 2, n_by_1);
    put_model(&file, &graph, 17);
    for (int scoped = 0; scoped < 2; scoped++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_onnx_model m;
        tp_import_onnx_desc d;
        memset(&d, 0, sizeof d);
        if (scoped) d.scope = "imported";
        if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &m))) {
            CHECK_STR(tp_node_name(m.output[0].node), scoped ? "imported/prob" : "prob");
            CHECK(tp_graph_find(g, scoped ? "imported/prob" : "prob") == m.output[0].node);
            const tp_node *hidden = tp_graph_find(g, scoped ? "imported/hidden/output" : "hidden/output");
            CHECK(hidden && strcmp(hidden->op->row->name, "relu") == 0);
            const tp_node *neg = tp_graph_find(g, scoped ? "imported/hidden/Neg:nchw" : "hidden/Neg:nchw");
            CHECK(neg && strcmp(neg->op->row->name, "neg") == 0);
            const tp_node *absolute = tp_graph_find(g, scoped ? "imported/hidden/Abs:0" : "hidden/Abs:0");
            CHECK(absolute && strcmp(absolute->op->row->name, "abs") == 0);
            CHECK(tp_graph_find(g, scoped ? "imported/hidden/Neg:ncwh" : "hidden/Neg:ncwh") == NULL);
            CHECK_HAS(tp_last_error(), "hidden/Neg:nchw'?");
            const tp_operation *sum = m.output[0].node->op->in[0]->op;
            for (int i = 0; i < 4; i++) {
                static const char *const names[] = {"split", "split:0", "split:1", "spli"};
                char full[32];
                snprintf(full, sizeof full, "%s%s", scoped ? "imported/" : "", names[i]);
                const tp_node *part = tp_graph_find(g, full);
                CHECK_MSG(part == (i < 3 ? sum->in[i / 2] : NULL), "%s", full);
            }
        }
        tp_graph_free(g);
    }
}

TEST(inputs_outputs_and_names)
{
    linear_model();
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model m;
    tp_import_onnx_desc d;
    double y[4];
    memset(&d, 0, sizeof d);
    d.scope = "imported";
    if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &m))) {
        const int n = tp_graph_n_operations(g);
        CHECK(tp_neg(m.output[0].node)->op->at.file != NULL); /* this line's; the file's operations are of none */
        for (int k = 0; k < n; k++) CHECK(tp_graph_operation(g, k)->at.file == NULL);
        CHECK(m.n_input == 1 && m.n_output == 1);
        CHECK(strcmp(m.input[0].name, "x") == 0 && strcmp(m.output[0].name, "y") == 0);
        CHECK(m.input[0].node->shape.ndim == 2 && m.input[0].node->shape.dim[0] == TP_ANY &&
              m.input[0].node->shape.dim[1] == 2);
        CHECK(strncmp(tp_node_name(m.output[0].node), "imported/", 9) == 0);
        CHECK(tp_graph_n_variables(g) == 0);
    }
    tp_graph_free(g);
    CHECK(run_model(&file, NULL, 2, 2, y, 4) == 4);
    CHECK(y[0] == 17 && y[1] == 30 && y[2] == 25 && y[3] == 42); /* (1,2), (3,4) times W plus b */
}

TEST(weights_may_be_trained)
{
    linear_model();
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model m;
    tp_import_onnx_desc d;
    memset(&d, 0, sizeof d);
    d.trainable = TP_YES;
    if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &m))) {
        tp_variable *v = tp_find_variable(g, "layer/W");
        CHECK(v && v->trainable && tp_find_variable(g, "layer/b") && tp_graph_n_variables(g) == 2);
        tp_node *cost = tp_mean(tp_square(m.output[0].node)), *xs[1] = {v->node}, *dw = NULL;
        tp_gradients(cost, xs, 1, &dw);
        tp_node *step = tp_assign_sub(v->node, tp_affine(dw, 0.02f, 0.0f), NULL), *fetch[2] = {cost, step};
        tp_session *s = tp_session_new(g, NULL);
        float x[] = {1, 2, 3, 4};
        tp_feed feed;
        const tp_tensor *out[2];
        double first = 0, last = 0;
        memset(&feed, 0, sizeof feed);
        feed.node = m.input[0].node;
        tp_tensor_view(&feed.value, TP_F32, tp_make_shape_n(2, two_by_2), x);
        for (int i = 0; i < 20 && CHECK_OK(tp_session_run(s, &feed, 1, fetch, 2, out)); i++) {
            if (i == 0) first = tp_tensor_get(out[0], 0);
            last = tp_tensor_get(out[0], 0);
        }
        CHECK(first > 0 && last < 0.5 * first);
        tp_session_free(s);
    }
    tp_graph_free(g);
}

/* Weights, a mask and its equal copy, a running mean; `list`: what the file says not to train, NULL: nothing. */
static void masked_model(const char *list)
{
    static const float numbers[] = {3, 5};
    static const char *const weight[] = {"w", "attn/mask", "gamma", "beta", "mean", "variance"};
    static msg entry;
    graph.n = entry.n = 0;
    put_text(&graph, 2, "g");
    for (int i = 0; i < TP_COUNT(weight); i++) put_weight(&graph, weight[i], 1, 1, two, numbers, sizeof numbers);
    put_weight(&graph, "int_mask", 7, 1, one, "\0\0\0\0\0\0\0", 8);
    put_io(&graph, 11, "x", 1, 2, n_by_2);
    put_node(&graph, "Identity", "w", "w2", NULL);
    put_node(&graph, "Identity", "attn/mask", "mask2", NULL);
    put_node(&graph, "Mul", "x,w", "a", NULL);
    put_node(&graph, "Mul", "a,w2", "b", NULL);
    put_node(&graph, "Add", "b,attn/mask", "c", NULL);
    put_node(&graph, "Add", "c,mask2", "d", NULL);
    put_node(&graph, "BatchNormalization", "d,gamma,beta,mean,variance", "y", NULL);
    put_io(&graph, 12, "d", 1, 2, n_by_2);
    put_io(&graph, 12, "y", 1, 2, n_by_2);
    put_model(&file, &graph, 14);
    put_text(&entry, 1, "author");
    put_text(&entry, 2, "w");
    put_msg(&file, 14, &entry);
    if (!list) return;
    entry.n = 0;
    put_text(&entry, 1, "tp.untrained");
    put_text(&entry, 2, list);
    put_msg(&file, 14, &entry);
}
TEST(weights_that_stay_constant)
{
    static const struct {
        const char *constants, *list, *trained, *untrained,
            *said; /* said: a warning, or if trained that the list keeps some */
    } all[] = {
        {NULL, NULL, "w w2 attn/mask mask2 gamma beta ", "mean variance ", NULL},
        {"mask", NULL, "w w2 gamma beta ", "mean variance ", NULL},
        {"^attn/mask$", NULL, "w w2 gamma beta ", "mean variance ", NULL}, /* what is equal to a constant is one */
        {"^w2$|mean", NULL, "w attn/mask mask2 gamma beta ", "variance ", NULL},
        {"^int_mask$", NULL, "w w2 attn/mask mask2 gamma beta ", "mean variance ",
         "model.onnx: .constants is '^int_mask$', which matches no weight's name"},
        {"gama", NULL, "w w2 attn/mask mask2 gamma beta ", "mean variance ",
         "model.onnx: .constants is 'gama', which matches no weight's name; did you mean 'gamma'?"},
        {NULL, "attn/mask\nmean\nvariance\nnobody", "w w2 gamma beta ", "mean variance ",
         "model.onnx: 1 of its weights stay constant, because the file says that they were not trained"},
        {"w", "attn/mask\n", "attn/mask mask2 gamma beta ", "mean variance ", NULL}, /* in place of the list */
        {NULL, "", "w w2 attn/mask mask2 gamma beta ", "mean variance ", NULL},
        {NULL, "w\n\nattn/mask\ngamma\nbeta", "", "mean variance ", "model.onnx: 4 of its weights stay constant"}};
    for (int i = 0; i < TP_COUNT(all); i++)
        for (int trainable = 0; trainable < 2; trainable++) {
            static const char *const name[] = {"w", "w2", "attn/mask", "mask2", "gamma", "beta", "mean", "variance"};
            tp_graph *g = tp_graph_new(NULL);
            tp_onnx_model m;
            tp_import_onnx_desc d;
            char trained[200] = "", untrained[200] = "";
            memset(&d, 0, sizeof d);
            d.trainable = trainable ? TP_YES : TP_NO, d.constants = all[i].constants;
            masked_model(all[i].list);
            tp_test_keep_log();
            CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &m));
            if (all[i].said && (trainable || all[i].constants)) CHECK_HAS(tp_test_logged, all[i].said);
            else CHECK_STR(tp_test_logged, "");
            tp_set_log(NULL, NULL);
            for (int k = 0; k < TP_COUNT(name); k++) {
                const tp_variable *v = tp_find_variable(g, name[k]);
                char *to = !v ? NULL : v->trainable ? trained : untrained;
                if (to) snprintf(to + strlen(to), 100, "%s ", name[k]);
            }
            CHECK_STR(trained, trainable ? all[i].trained : "");
            CHECK_STR(untrained, trainable ? all[i].untrained : "");
            tp_session *s = tp_session_new(g, NULL);
            static const float x[] = {1, 2};
            const tp_tensor *out = NULL;
            tp_feed feed = TP_FEED(m.input[0].node, TP_F32, (void *)(uintptr_t)x, 1, 2);
            if (CHECK_OK(tp_session_run(s, &feed, 1, &m.output[0].node, 1, &out)))
                CHECK(tp_tensor_get(out, 0) == 3 * 3 + 3 + 3 && tp_tensor_get(out, 1) == 2 * 5 * 5 + 5 + 5);
            tp_session_free(s);
            tp_graph_free(g);
        }
}

/* A graph with trained, frozen and untrained variables and a constant is exported and imported: the same weights are trained. */
TEST(what_was_trained_is_trained)
{
    static const float table[] = {1, -1, 1, -1, 1, -1, 1, -1};
    tp_graph *g = tp_graph_new(NULL), *h = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 4, 4, 8)), *frozen = NULL;
    tp_tower_desc tower = {.is_training = false};
    tp_variable_desc fixed = {.name = "fixed", .shape = tp_make_shape(8), .trainable = TP_NO};
    tp_tower_enter(g, &tower);
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(8), tp_init_ones());
    TP_FREEZE_VARIABLES(g)
    frozen = tp_get_variable_as(g, "frozen", TP_F32, tp_make_shape(8), tp_init_ones());
    tp_tensor t = TP_EMPTY;
    tp_tensor_view(&t, TP_F32, tp_make_shape(8), table);
    tp_node *constant = tp_constant(g, &t);
    tp_node *y = tp_conv2d(x, "conv", .filters = 8, .kernel_size = 3, .activation = tp_bn_relu);
    y = tp_nn_group_norm(y, tp_get_variable_as(g, "gamma", TP_F32, tp_make_shape(8), tp_init_ones()),
                         tp_get_variable_as(g, "beta", TP_F32, tp_make_shape(8), tp_init_zeros()), 3, 2, 1e-5f);
    y = tp_mul(tp_add(y, tp_mul(w, constant)), frozen); /* w * constant becomes a weight: it follows from w */
    y = tp_add(tp_mul(y, tp_get_variable(g, &fixed)), tp_sin(constant));
    y = tp_fully_connected(y, "fc", .units = 3);
    tp_tower_leave(g);
    tp_session *s = tp_session_new(g, NULL);
    for (int fold = 0; fold < 2; fold++) {
        tp_graph *again = fold ? tp_graph_new(NULL) : h;
        tp_export_onnx_desc e = {.fold = fold};
        tp_import_onnx_desc d = {.trainable = TP_YES};
        tp_onnx_model m;
        tp_buf out = {0};
        int n = 0, n_other = 0;
        if (CHECK(s != NULL) && CHECK_OK(tp_export_onnx_buf(s, &x, 1, &y, 1, &out, &e)) &&
            CHECK_OK(tp_import_onnx_parse(again, out.data, out.len, "model.onnx", &d, &m)))
            for (int i = 0; i < tp_graph_n_variables(again); i++) {
                const tp_variable *v = tp_graph_variable(again, i);
                if (v->trainable) n++;
                else n_other++;
                CHECK_MSG(!strstr(v->name, "frozen") && !strstr(v->name, "fixed") && !strstr(v->name, "sin"), "%s",
                          v->name);
            }
        /* conv/W, conv/b, bn's gamma and beta unless they are folded, gamma, beta, w * constant, fc/W, fc/b; bn's mean and
         * variance */
        CHECK_MSG(n == (fold ? 7 : 9) && n_other == (fold ? 0 : 2), "%d trained, %d not", n, n_other);
        tp_buf_free(&out);
        tp_graph_free(again);
    }
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(sizes_follow_an_unknown_batch)
{
    /* y = reshape(x, (size of x's axis 0) * 2, -1): Shape, Gather, Mul, Concat and Reshape vanish but for the last */
    static const int64_t zero = 0, twice = 2, rest = -1;
    double y[9];
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_weight(&graph, "zero", 7, 1, one, &zero, 8);
    put_weight(&graph, "twice", 7, 1, one, &twice, 8);
    put_weight(&graph, "rest", 7, 1, one, &rest, 8);
    put_io(&graph, 11, "x", 1, 2, n_by_2);
    put_node(&graph, "Shape", "x", "shape", NULL);
    put_node(&graph, "Gather", "shape,zero", "rows", int_attribute("axis", 0));
    put_node(&graph, "Concat", "rows,twice", "same", int_attribute("axis", 0));
    put_node(&graph, "Reshape", "x,same", "y", NULL);
    /* a state of zeros as long as the batch, plus one */
    put_node(&graph, "Concat", "rows,twice", "state", int_attribute("axis", 0));
    put_node(&graph, "ConstantOfShape", "state", "zeros", NULL);
    put_node(&graph, "Add", "y,zeros", "z", NULL);
    put_io(&graph, 12, "z", 1, 2, n_by_2);
    put_model(&file, &graph, 13);
    CHECK(run_model(&file, NULL, 2, 2, y, 4) == 4 && y[3] == 4);
    CHECK(run_model(&file, NULL, 1, 2, y, 4) == 2 && y[1] == 2);

    /* the batch of what is empty has a length too */
    const int64_t n_by_0[] = {-1, 0};
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_weight(&graph, "zero", 7, 1, one, &zero, 8);
    put_weight(&graph, "twice", 7, 1, one, &twice, 8);
    put_io(&graph, 11, "x", 1, 2, n_by_0);
    put_node(&graph, "Shape", "x", "shape", NULL);
    put_node(&graph, "Gather", "shape,zero", "rows", int_attribute("axis", 0));
    put_node(&graph, "Concat", "rows,twice", "state", int_attribute("axis", 0));
    put_node(&graph, "ConstantOfShape", "state", "zeros", NULL);
    put_io(&graph, 12, "zeros", 1, 2, n_by_2);
    put_model(&file, &graph, 13);
    y[3] = 7;
    CHECK(run_model(&file, NULL, 2, 0, y, 9) == 4 && y[0] == 0 && y[3] == 0);

    /* arithmetic of it is followed as far as a reshape needs it: (2 n, -1) */
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_weight(&graph, "zero", 7, 1, one, &zero, 8);
    put_weight(&graph, "twice", 7, 1, one, &twice, 8);
    put_weight(&graph, "single", 7, 1, one, (const int64_t[]){1}, 8);
    put_io(&graph, 11, "x", 1, 2, n_by_2);
    put_node(&graph, "Shape", "x", "shape", NULL);
    put_node(&graph, "Gather", "shape,zero", "rows", NULL);
    put_node(&graph, "Mul", "rows,twice", "more", NULL);
    put_node(&graph, "Concat", "more,single", "wanted", int_attribute("axis", 0));
    put_node(&graph, "Reshape", "x,wanted", "y", NULL);
    put_io(&graph, 12, "y", 1, 2, n_by_2);
    put_model(&file, &graph, 13);
    CHECK(run_model(&file, NULL, 2, 2, y, 4) == 4 && y[3] == 4);

    /* what cannot be built without the number says so, and .dims gives it */
    tp_onnx_dim batch = {"n", 3};
    tp_import_onnx_desc d;
    memset(&d, 0, sizeof d);
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_weight(&graph, "zero", 7, 1, one, &zero, 8);
    put_weight(&graph, "one", 7, 0, NULL, (const int64_t[]){1}, 8);
    put_weight(&graph, "start", 7, 0, NULL, (const int64_t[]){0}, 8);
    put_io(&graph, 11, "x", 1, 2, n_by_2);
    put_node(&graph, "Shape", "x", "shape", NULL);
    put_node(&graph, "Gather", "shape,start", "rows", NULL);
    put_node(&graph, "Range", "start,rows,one", "y", NULL);
    put_io(&graph, 12, "y", 7, 1, n_by_2);
    put_model(&file, &graph, 13);
    CHECK(refused(&file, NULL, "known when the graph is built"));
    d.dims = &batch;
    d.n_dims = 1;
    CHECK(run_model(&file, &d, 3, 2, y, 4) == 3 && y[2] == 2);
}

TEST(pictures_of_an_open_batch_are_resized)
{
    /* sizes = (the batch, the channels) of the picture, then 2, 4: what PyTorch writes for interpolate(size=..) */
    static const int64_t zero = 0, two_of_it = 2, wanted[] = {2, 4}, picture[] = {-1, 1, 1, 2}, any[] = {-1, 1, -1, -1};
    static const int64_t one_by_one[] = {1, 1, 1, 1};
    const float same = 1;
    for (int kind = 0; kind < 4; kind++) {
        const bool open = kind % 2; /* the size of the picture is not known */
        const bool last = kind > 1; /* the graph has the picture with its channels last, because of a convolution */
        tp_graph *g = tp_graph_new(NULL);
        tp_onnx_model m;
        tp_session *s = NULL;
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_weight(&graph, "zero", 7, 1, one, &zero, 8);
        put_weight(&graph, "two", 7, 1, one, &two_of_it, 8);
        put_weight(&graph, "hw", 7, 1, two, wanted, sizeof wanted);
        put_io(&graph, 11, "x", 1, 4, open ? any : picture);
        put_weight(&graph, "w", 1, 4, one_by_one, &same, sizeof same);
        put_node(&graph, last ? "Conv" : "Identity", last ? "x,w" : "x", "p", NULL);
        put_node(&graph, "Shape", "p", "shape", NULL);
        put_node(&graph, "Slice", "shape,zero,two", "nc", NULL);
        put_node(&graph, "Concat", "nc,hw", "sizes", int_attribute("axis", 0));
        put_node(&graph, "Resize", "p,,,sizes", "y", text_attribute("mode", "linear"));
        put_io(&graph, 12, "y", 1, 4, any);
        put_model(&file, &graph, 17);
        if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m)) &&
            CHECK((s = tp_session_new(g, NULL)) != NULL)) {
            static const float x[] = {0, 4, 8, 0};
            static const double want[] = {0, 1, 3, 4, 0, 1, 3, 4, 8, 6, 2, 0, 8, 6, 2, 0}; /* half pixels */
            const int64_t dim[] = {2, 1, 1, 2};
            const tp_tensor *out = NULL;
            tp_feed feed;
            memset(&feed, 0, sizeof feed);
            feed.node = m.input[0].node;
            tp_tensor_view(&feed.value, TP_F32, tp_make_shape_n(4, dim), x);
            if (CHECK_OK(tp_session_run(s, &feed, 1, &m.output[0].node, 1, &out)) && CHECK(tp_tensor_size(out) == 16))
                for (int i = 0; i < 16; i++) CHECK_NEAR(tp_tensor_get(out, i), want[i], 1e-6, 0);
        }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* -- Resize of a picture whose height and width are not known */

/* y = Resize(x, sizes): attributes "name=value" separated by spaces, ints as name#value. */
static void resize_model(const char *attributes, const int64_t *sizes, int n_sizes, int elem, int open)
{
    static const int64_t dims[][4] = {{2, 1, 3, 4}, {2, 1, -1, -1}, {2, 1, 3, -1}, {2, 1, 0, 4}, {2, 1, 3, 0}};
    static msg node;
    const int64_t dim[] = {n_sizes};
    char word[128], *value;
    graph.n = node.n = 0;
    put_text(&graph, 2, "g");
    put_weight(&graph, "sizes", 7, 1, dim, sizes, (size_t)n_sizes * 8);
    put_io(&graph, 11, "x", elem, 4, dims[open]);
    put_names(&node, 1, "x,,,sizes");
    put_text(&node, 2, "y");
    put_text(&node, 3, "y");
    put_text(&node, 4, "Resize");
    for (const char *p = attributes; *p; p += *p == ' ') {
        const size_t n = strcspn(p, " ");
        snprintf(word, sizeof word, "%.*s", (int)n, p);
        p += n;
        if ((value = strchr(word, '=')) != NULL) {
            *value++ = 0;
            put_msg(&node, 5, text_attribute(word, value));
        } else if ((value = strchr(word, '#')) != NULL) {
            int64_t list[4];
            int k = 0;
            *value++ = 0;
            for (char *q = value; *q; q += *q == ',') list[k++] = strtoll(q, &q, 10);
            put_msg(&node, 5, k > 1 ? ints_attribute(word, list, k) : int_attribute(word, list[0]));
        }
    }
    put_msg(&graph, 1, &node);
    put_io(&graph, 12, "y", elem, 4, dims[1]);
    put_model(&file, &graph, 19);
}
/* The model's output for a picture of 2 by 3 by 4; how many numbers. */
static int resize_run(double *y, int most)
{
    static const int64_t dim[] = {2, 1, 3, 4};
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model m;
    tp_session *s = NULL;
    tp_feed feed;
    const tp_tensor *out = NULL;
    float x[24];
    int n = -1;
    memset(&feed, 0, sizeof feed);
    for (int i = 0; i < 24; i++) x[i] = (float)((i * 7) % 24);
    if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m)) &&
        CHECK((s = tp_session_new(g, NULL)) != NULL)) {
        feed.node = m.input[0].node;
        tp_tensor_view(&feed.value, TP_F32, tp_make_shape_n(4, dim), x);
        if (CHECK_OK(tp_session_run(s, &feed, 1, &m.output[0].node, 1, &out)))
            for (n = 0; n < most && n < tp_tensor_size(out); n++) y[n] = tp_tensor_get(out, n);
    }
    tp_session_free(s);
    tp_graph_free(g);
    return n;
}

TEST(pictures_of_unknown_size_are_resized_where_the_table_can)
{
    static const int64_t sizes[] = {2, 1, 5, 7}, zero[] = {2, 1, 0, 7}, zero_wide[] = {2, 1, 5, 0}, two_only[] = {5, 7},
                         other[] = {3, 1, 5, 7}, planes[] = {2, 2, 5, 7}, large[] = {2, 1, 1 << 21, 7},
                         wide[] = {2, 1, 5, 1 << 21};
    static const char *const good[] = {
        "mode=linear",
        "mode=linear coordinate_transformation_mode=half_pixel",
        "mode=linear coordinate_transformation_mode=align_corners",
        "mode=linear coordinate_transformation_mode=asymmetric",
        "mode=nearest coordinate_transformation_mode=asymmetric nearest_mode=floor",
        "mode=nearest coordinate_transformation_mode=half_pixel nearest_mode=round_prefer_ceil",
        "mode=nearest coordinate_transformation_mode=align_corners nearest_mode=round_prefer_ceil"};
    static const char *const more[] = {"mode=cubic",
                                       "mode=linear antialias#1",
                                       "mode=linear coordinate_transformation_mode=pytorch_half_pixel",
                                       "mode=linear coordinate_transformation_mode=half_pixel_symmetric",
                                       "mode=nearest coordinate_transformation_mode=asymmetric nearest_mode=ceil",
                                       "mode=nearest coordinate_transformation_mode=half_pixel nearest_mode=floor",
                                       "mode=nearest",
                                       "mode=linear keep_aspect_ratio_policy=not_larger"};
    static const struct {
        const int64_t *sizes;
        int n;
        const char *attributes;
    } odd[] = {{zero, 4, ""}, {zero_wide, 4, ""}, {other, 4, ""}, {planes, 4, ""}, {large, 4, ""}, {wide, 4, ""}};
    double want[70], y[70];
    char text[200];
    for (int i = 0; i < TP_COUNT(good); i++) {
        resize_model(good[i], sizes, 4, 1, 0);
        CHECK(resize_run(want, 70) == 70);
        for (int open = 1; open < 3; open++) {
            resize_model(good[i], sizes, 4, 1, open);
            if (!CHECK_MSG(resize_run(y, 70) == 70, "%s", good[i])) continue;
            for (int k = 0; k < 70; k++)
                if (!CHECK_MSG(fabs(y[k] - want[k]) <= 1e-5 * (1 + fabs(want[k])), "%s: %d: %g, not %g", good[i], k,
                               y[k], want[k]))
                    break;
        }
    }
    /* .axes names the two axes of the sizes, or all four of them; the picture's size is known (ways 0 and 1), or not */
    for (int way = 0; way < 6; way++) {
        const bool some = way % 2 == 0;
        resize_model("mode=linear", sizes, 4, 1, 0);
        CHECK(resize_run(want, 70) == 70);
        resize_model(some ? "mode=linear axes#2,3" : "mode=linear axes#0,1,2,3", some ? two_only : sizes, some ? 2 : 4,
                     1, way / 2);
        if (CHECK(resize_run(y, 70) == 70))
            for (int k = 0; k < 70; k++) CHECK_NEAR(y[k], want[k], 1e-5, 1e-5);
    }
    for (int beyond = 0; beyond < 2; beyond++) { /* the largest size, and one more */
        const int64_t most[] = {2, 1, (1 << 20) + beyond, 4};
        resize_model("mode=nearest", most, 4, 1, 0);
        CHECK(beyond ? refused(&file, NULL, "Resize from 3 to 1048577") : accepted(&file));
    }
    for (int i = 0; i < TP_COUNT(more); i++) { /* the others need the size, and give the same once it is known */
        resize_model(more[i], sizes, 4, 1, 1);
        CHECK(refused(&file, NULL, "Resize needs to know dimension 2 of its input; give it in .dims"));
        resize_model(more[i], sizes, 4, 1, 2);
        CHECK(refused(&file, NULL, strstr(more[i], "not_larger") ? "dimension 3" : "Resize needs to know dimension 3"));
        resize_model(more[i], sizes, 4, 1, 0);
        CHECK(resize_run(y, 70) > 0);
    }
    for (int open = 3; open < 5; open++) { /* no height, or no width: nothing to take pixels from */
        resize_model("mode=linear", sizes, 4, 1, open);
        CHECK(refused(&file, NULL, open == 3 ? "Resize from 0 to 5" : "Resize from 0 to 7"));
    }
    resize_model("mode=linear", sizes, 4, 6, 1); /* whole numbers */
    CHECK(refused(&file, NULL, "Resize needs to know dimension 2"));
    for (int i = 0; i < TP_COUNT(odd); i++) {
        snprintf(text, sizeof text, "mode=linear%s", odd[i].attributes);
        resize_model(text, odd[i].sizes, odd[i].n, 1, 1);
        CHECK(refused(&file, NULL, "Resize needs to know dimension 2"));
    }
}

/* At their kinks, HardSwish and HardSigmoid have the derivatives of PyTorch: those of the flat side. */
TEST(derivatives_at_kinks)
{
    static const int64_t row[] = {1, 3};
    static const float x[] = {-3, 3, 0};
    for (int i = 0; i < 2; i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_onnx_model m;
        tp_session *s = NULL;
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, 2, row);
        put_node(&graph, i ? "HardSigmoid" : "HardSwish", "x", "y", i ? float_attribute("alpha", 1.0f / 6) : NULL);
        put_io(&graph, 12, "y", 1, 2, row);
        put_model(&file, &graph, 14);
        if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m)) &&
            CHECK((s = tp_session_new(g, NULL)) != NULL)) {
            tp_feed feed;
            tp_node *dx = NULL;
            const tp_tensor *out = NULL;
            memset(&feed, 0, sizeof feed);
            feed.node = m.input[0].node;
            tp_tensor_view(&feed.value, TP_F32, tp_make_shape_n(2, row), x);
            tp_gradients(tp_sum(m.output[0].node), &m.input[0].node, 1, &dx);
            if (CHECK_OK(tp_session_run(s, &feed, 1, &dx, 1, &out))) {
                CHECK_NEAR(tp_tensor_get(out, 0), 0, 0, 0);
                CHECK_NEAR(tp_tensor_get(out, 1), i ? 0 : 1, 0, 1e-6);
                CHECK_NEAR(tp_tensor_get(out, 2), i ? 1.0 / 6 : 0.5, 0, 1e-6);
            }
        }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* The gradient of a norm is 0 where all that it is of is 0, as in PyTorch; elsewhere it is that of the formula. */
TEST(norms_have_a_gradient_of_zero_at_zero)
{
    static const int64_t sides[] = {1, 1, 2, 1}, window[] = {2, 1};
    static const float x[2][2] = {{0, 0}, {3, 4}};
    static const struct {
        const char *op;
        double want[2][2]; /* of the sum of the outputs: at 0, 0 and at 3, 4 */
    } row[] = {{"ReduceL2", {{0, 0}, {0.6, 0.8}}},
               {"LpNormalization", {{1, 1}, {0.032, -0.024}}},
               {"MeanVarianceNormalization", {{0, 0}, {0, 0}}},
               {"LpPool", {{0, 0}, {0.6, 0.8}}}};
    for (int i = 0; i < 2 * TP_COUNT(row); i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_onnx_model m;
        tp_session *s = NULL;
        const int op = i / 2;
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, 4, sides);
        put_node(&graph, row[op].op, "x", "y",
                 op == 1   ? int_attribute("axis", 2)
                 : op == 3 ? ints_attribute("kernel_shape", window, 2)
                           : NULL);
        put_io(&graph, 12, "y", 1, 0, NULL);
        put_model(&file, &graph, 13);
        if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m)) &&
            CHECK((s = tp_session_new(g, NULL)) != NULL)) {
            const tp_feed feed = TP_FEED(m.input[0].node, TP_F32, x[i % 2], 1, 1, 2, 1);
            tp_node *dx = NULL;
            const tp_tensor *out = NULL;
            tp_gradients(tp_sum(m.output[0].node), &m.input[0].node, 1, &dx);
            if (CHECK_OK(tp_session_run(s, &feed, 1, &dx, 1, &out)))
                for (int k = 0; k < 2; k++) CHECK_NEAR(tp_tensor_get(out, k), row[op].want[i % 2][k], 0, 1e-5);
        }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* Resizing to the nearest pixel copies pixels. An infinite pixel must not change the others. */
TEST(infinite_pixels_are_not_spread)
{
    static const int64_t sizes[] = {2, 1, 6, 8}, dim[] = {2, 1, 3, 4};
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model m;
    tp_session *s = NULL;
    float x[24] = {0};
    x[6] = INFINITY;
    resize_model("mode=nearest coordinate_transformation_mode=asymmetric nearest_mode=floor", sizes, 4, 1, 0);
    if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m)) &&
        CHECK((s = tp_session_new(g, NULL)) != NULL)) {
        tp_feed feed;
        const tp_tensor *out = NULL;
        int infinite = 0, other = 0;
        memset(&feed, 0, sizeof feed);
        feed.node = m.input[0].node;
        tp_tensor_view(&feed.value, TP_F32, tp_make_shape_n(4, dim), x);
        if (CHECK_OK(tp_session_run(s, &feed, 1, &m.output[0].node, 1, &out)))
            for (int64_t i = 0; i < tp_tensor_size(out); i++) {
                infinite += tp_tensor_get(out, i) == INFINITY;
                other += tp_tensor_get(out, i) != INFINITY && tp_tensor_get(out, i) != 0;
            }
        CHECK_MSG(infinite == 4 && other == 0, "%d infinite, %d others", infinite, other);
    }
    tp_session_free(s);
    tp_graph_free(g);
}

/* The batch and the channels are unknown. Sizes that exchange them, or that are of another input, are not those of x. */
TEST(only_its_own_batch_and_channels_keep_their_size)
{
    static const int64_t zero = 0, first = 1, wanted[] = {2, 4}, any[] = {-1, -1, -1, -1}, most = 1 << 20,
                         over = most + 1;
    static const char *const batch[] = {"n,c,hw", "c,n,hw", "n,n,hw", "c,c,hw", "n,c,least", "n,c,most", "n,c,over"};
    for (int i = 0; i < TP_COUNT(batch); i++) {
        const int64_t limits[3][2] = {{1, 1}, {most, most}, {most, over}};
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_weight(&graph, "zero", 7, 1, one, &zero, 8);
        put_weight(&graph, "first", 7, 1, one, &first, 8);
        put_weight(&graph, "hw", 7, 1, two, wanted, sizeof wanted);
        put_weight(&graph, "least", 7, 1, two, limits[0], sizeof limits[0]);
        put_weight(&graph, "most", 7, 1, two, limits[1], sizeof limits[1]);
        put_weight(&graph, "over", 7, 1, two, limits[2], sizeof limits[2]);
        put_io(&graph, 11, "x", 1, 4, any);
        put_node(&graph, "Shape", "x", "shape", NULL);
        put_node(&graph, "Gather", "shape,zero", "n", NULL);
        put_node(&graph, "Gather", "shape,first", "c", NULL);
        put_node(&graph, "Concat", batch[i], "sizes", int_attribute("axis", 0));
        put_node(&graph, "Resize", "x,,,sizes", "y", text_attribute("mode", "linear"));
        put_io(&graph, 12, "y", 1, 4, any);
        put_model(&file, &graph, 17);
        if (i == 0 || i == 4 || i == 5) CHECK_MSG(accepted(&file), "%s: %s", batch[i], tp_last_error());
        else if (i == 6) CHECK(refused(&file, NULL, "Resize needs to know dimension"));
        else CHECK(refused(&file, NULL, "Resize to a size that is not known when the graph is built"));
    }
}

/* Squeeze, Unsqueeze and Flatten: a dimension of -1 is not known to the model and 2 when it runs. */
static bool shape_model_gives(const char *op, const int64_t *dims, int nd, const char *shape)
{
    static const float x[64] = {0};
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model m;
    tp_session *s = NULL;
    tp_feed feed;
    char t[TP_SHAPE_TEXT] = "";
    const char *row = "";
    bool ok = false;
    int64_t dim[TP_MAX_DIMS];
    const tp_tensor *out = NULL;
    memset(&feed, 0, sizeof feed);
    for (int d = 0; d < nd; d++) dim[d] = dims[d] < 0 ? 2 : dims[d];
    if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m)) &&
        CHECK((s = tp_session_new(g, NULL)) != NULL)) {
        feed.node = m.input[0].node;
        row = m.output[0].node->op->in[0]->op->row->name; /* y itself only gives it the name of the file */
        tp_tensor_view(&feed.value, TP_F32, tp_make_shape_n(nd, dim), x);
        if (CHECK_OK(tp_session_run(s, &feed, 1, &m.output[0].node, 1, &out))) {
            /* an operator that changes nothing is a node of its own, and only then is there an identity */
            const bool same = tp_shape_equal(&out->shape, &feed.value.shape);
            ok = strcmp(tp_shape_text(&out->shape, t), shape) == 0 && (strcmp(row, "identity") == 0) == same &&
                 strcmp(tp_node_name(m.output[0].node), "y") == 0;
        }
    }
    if (!ok) printf("  %s gives %s by %s, not %s\n", op, t, row, shape);
    tp_session_free(s);
    tp_graph_free(g);
    return ok;
}

TEST(operators_that_give_the_same_elements_another_shape)
{
    static const struct {
        const char *op;
        int nd;
        int64_t dims[8];
        int n; /* how many axes; -1: they are left out */
        int64_t axes[8];
        const char *shape, *sentence;
    } cases[] = {
        {"Squeeze", 3, {1, 2, 1}, -1, {0}, "(2)", NULL},
        {"Squeeze", 2, {2, 3}, -1, {0}, "(2,3)", NULL},
        {"Squeeze", 2, {-1, 1}, -1, {0}, NULL, "Squeeze needs to know dimension 0"},
        {"Squeeze", 2, {1, -1}, -1, {0}, NULL, "Squeeze needs to know dimension 1"},
        {"Squeeze", 2, {-1, 1}, 0, {0}, "(2,1)", NULL},
        {"Squeeze", 2, {1, 2}, 0, {0}, "(1,2)", NULL},
        {"Squeeze", 2, {-1, 1}, 1, {1}, "(2)", NULL},
        {"Squeeze", 8, {1, 1, 1, 1, 1, 1, 1, 2}, 2, {0, 6}, "(1,1,1,1,1,2)", NULL},
        {"Squeeze", 8, {2, 1, 1, 1, 1, 1, 1, 1}, -1, {0}, "(2)", NULL},
        {"Squeeze", 8, {2, 1, 1, 1, 1, 1, 1, 1}, 1, {-1}, "(2,1,1,1,1,1,1)", NULL},
        {"Unsqueeze", 2, {1, 2}, 6, {0, 1, 2, 3, 4, 5}, "(1,1,1,1,1,1,1,2)", NULL},
        {"Unsqueeze", 2, {1, 2}, 7, {0, 1, 2, 3, 4, 5, 6}, NULL, "Unsqueeze makes more than 8 dimensions"},
        {"Unsqueeze", 2, {-1, 3}, 2, {1, -1}, "(2,1,3,1)", NULL},
        {"Unsqueeze", 2, {-1, 3}, 0, {0}, "(2,3)", NULL},
        {"Flatten", 3, {-1, 2, 3}, -1, {0}, "(2,6)", NULL},
        {"Flatten", 3, {-1, 2, 3}, 1, {0}, "(1,12)", NULL},
        {"Flatten", 3, {-1, 2, 3}, 1, {2}, "(4,3)", NULL},
        {"Flatten", 3, {-1, 2, 3}, 1, {3}, "(12,1)", NULL},
        {"Flatten", 3, {-1, 2, 3}, 1, {-3}, "(1,12)", NULL},
        {"Flatten", 3, {-1, 2, 3}, 1, {-4}, NULL, "Flatten has axis -4"},
        {"Flatten", 3, {-1, 2, 3}, 1, {4}, NULL, "Flatten has axis 4"},
        {"Flatten", 3, {2, 3, -1}, 1, {2}, "(6,2)", NULL},
        {"Flatten", 3, {-1, 3, -1}, 1, {1}, "(2,6)", NULL},
        {"Flatten", 3, {-1, 3, -1}, 1, {2}, NULL, "Flatten needs to know dimension 2"},
        {"Flatten", 3, {-1, -1, 3}, 1, {2}, "(4,3)", NULL},
        {"Flatten", 3, {2, 0, 3}, 1, {2}, "(0,3)", NULL},
        {"Flatten", 3, {2, 3, 0}, 1, {2}, "(6,0)", NULL},
        {"Flatten", 3, {0, 3, 0}, 1, {2}, "(0,0)", NULL},
        {"Flatten", 3, {0, 3, 2}, 1, {0}, "(1,0)", NULL},
        {"Flatten", 3, {-1, 3, 0}, -1, {0}, "(2,0)", NULL},
    };
    for (int i = 0; i < TP_COUNT(cases); i++) {
        const int64_t n[] = {cases[i].n};
        const bool flatten = strcmp(cases[i].op, "Flatten") == 0, lists = !flatten && cases[i].n >= 0;
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, cases[i].nd, cases[i].dims);
        if (lists) put_weight(&graph, "axes", 7, 1, n, cases[i].axes, (size_t)cases[i].n * 8);
        put_node(&graph, cases[i].op, lists ? "x,axes" : "x", "y",
                 flatten && cases[i].n > 0 ? int_attribute("axis", cases[i].axes[0]) : NULL);
        put_io(&graph, 12, "y", 1, 0, NULL);
        put_model(&file, &graph, 13);
        if (cases[i].sentence) CHECK_MSG(refused(&file, NULL, cases[i].sentence), "case %d", i);
        else CHECK_MSG(shape_model_gives(cases[i].op, cases[i].dims, cases[i].nd, cases[i].shape), "case %d", i);
    }
}

/* Resize and Upsample by scales of a picture, x; a size of -1 is not known to the model and 2 when it runs. way 0: Resize with
 * an input of scales; 1: Upsample with one; 2: Upsample with an attribute. n_axes: -1 if they are left out. */
static void scales_model(int way, int nd, const int64_t *dims, int n, const float *scales, int n_axes,
                         const int64_t *axes)
{
    static msg attribute;
    const int64_t size[] = {n};
    attribute.n = graph.n = 0;
    put_text(&graph, 2, "g");
    put_io(&graph, 11, "x", 1, nd, dims);
    if (way < 2) put_weight(&graph, "scales", 1, 1, size, scales, (size_t)n * 4);
    put_text(&attribute, 1, "scales");
    for (int i = 0; i < n; i++) {
        uint8_t little[4];
        tp_test_little_endian(little, &scales[i], 4, 4);
        put_varint(&attribute, 7 << 3 | 5);
        memcpy(attribute.b + attribute.n, little, 4);
        attribute.n += 4;
    }
    put_int(&attribute, 20, 6);
    put_node(&graph, way ? "Upsample" : "Resize",
             way == 0   ? "x,,scales"
             : way == 1 ? "x,scales"
                        : "x",
             "y",
             way == 2      ? &attribute
             : n_axes >= 0 ? ints_attribute("axes", axes, n_axes)
                           : NULL);
    put_io(&graph, 12, "y", 1, 0, NULL);
    put_model(&file, &graph, way == 0 ? 19 : way == 1 ? 9 : 7);
}

/* There is one scale for each axis; what has a scale of 1 need not be known. */
TEST(pictures_are_resized_by_scales)
{
    static const struct {
        int nd;
        int64_t dims[8];
        int n;
        float scales[9];
        int n_axes;
        int64_t axes[9];
        const char *shape, *sentence;
    } cases[] = {
        {4, {-1, 1, 1, 2}, 4, {1, 1, 2, 2}, -1, {0}, "(2,1,2,4)", NULL},
        {4, {1, 1, -1, 2}, 4, {1, 1, 1, 2}, -1, {0}, "(1,1,2,4)", NULL},
        {4, {1, 1, 2, 2}, 4, {1, 1, 0.5f, 0.5f}, -1, {0}, "(1,1,1,1)", NULL},
        {4, {1, 1, 2, 2}, 4, {1, 1, 0.4f, 1}, -1, {0}, NULL, "from 2 to 0"},
        {4, {1, 1, 2, -1}, 4, {1, 1, 1, 2}, -1, {0}, NULL, "needs to know dimension 3"},
        {4, {1, 1, 2, 2}, 3, {1, 1, 2}, -1, {0}, NULL, "has 3 scales for 4 axes"},
        {4, {1, 1, 2, 2}, 5, {1, 1, 2, 2, 2}, -1, {0}, NULL, "has 5 scales for 4 axes"},
        {4, {1, 1, 2, 2}, 9, {1, 1, 2, 2, 1, 1, 1, 1, 1}, -1, {0}, NULL, "has 9 scales for 4 axes"},
        {8, {1, 1, 1, 1, 1, 1, 1, 2}, 8, {1, 1, 1, 1, 1, 1, 2, 1}, -1, {0}, "(1,1,1,1,1,1,2,2)", NULL},
        {8, {1, 1, 1, 1, 1, 1, 1, 2}, 9, {1, 1, 1, 1, 1, 1, 2, 1, 1}, -1, {0}, NULL, "has 9 scales for 8 axes"},
        {4, {-1, 1, 1, 2}, 2, {2, 1}, 2, {-1, 0}, "(2,1,1,4)", NULL},
        {4, {-1, 1, 1, 2}, 2, {2, 3}, 2, {3, 2}, "(2,1,3,4)", NULL},
        {4, {1, 1, 1, 2}, 4, {1, 1, 1, 1}, 0, {0}, NULL, "has 4 scales for 0 axes"},
        {4, {1, 1, 1, 2}, 2, {2, 2}, 2, {3, -1}, NULL, "Resize names axis 3 twice"},
        {4, {1, 1, 1, 2}, 2, {2, 2}, 2, {3, 4}, NULL, "Resize has axis 4"},
        {4, {1, 1, 1, 2}, 9, {1, 1, 1, 1, 1, 1, 1, 1, 1}, 9, {0, 1, 2, 3, 3, 3, 3, 3, 3}, NULL, "names axis 3 twice"},
    };
    for (int i = 0; i < TP_COUNT(cases); i++)
        for (int way = 0; way < (cases[i].n_axes < 0 ? 3 : 1); way++) {
            scales_model(way, cases[i].nd, cases[i].dims, cases[i].n, cases[i].scales, cases[i].n_axes, cases[i].axes);
            if (cases[i].sentence) CHECK_MSG(refused(&file, NULL, cases[i].sentence), "case %d, way %d", i, way);
            else
                CHECK_MSG(shape_model_gives("Resize", cases[i].dims, cases[i].nd, cases[i].shape), "case %d, way %d", i,
                          way);
        }
}

/* Windows that are taken apart are not larger than 4096 elements, by height and by width. */
TEST(windows_that_are_too_large_to_take_apart)
{
    static const struct {
        int64_t kernel[2], picture[4];
        const char *sentence; /* NULL: it is imported */
    } list[] = {{{4097, 1}, {1, 1, 4100, 1}, "a window of 4097 by 1 is larger than the picture, or too large"},
                {{1, 4097}, {1, 1, 1, 4100}, "a window of 1 by 4097 is larger"},
                {{65, 64}, {1, 1, 70, 70}, "a window of 65 by 64 is larger"},
                {{3, 2}, {1, 1, 2, 2}, "a window of 3 by 2 is larger"},
                {{2, 3}, {1, 1, 2, 2}, "a window of 2 by 3 is larger"},
                {{2, 2}, {1, 1, 2, 2}, NULL},
                {{40, 1}, {1, 1, 40, 1}, NULL}};
    static msg node;
    for (int i = 0; i < TP_COUNT(list); i++) {
        graph.n = node.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, 4, list[i].picture);
        put_text(&node, 1, "x");
        put_names(&node, 2, "y,places");
        put_text(&node, 3, "y");
        put_text(&node, 4, "MaxPool");
        put_msg(&node, 5, ints_attribute("kernel_shape", list[i].kernel, 2));
        put_msg(&graph, 1, &node);
        put_io(&graph, 12, "places", 7, 4, (const int64_t[]){-1, -1, -1, -1});
        put_model(&file, &graph, 13);
        if (list[i].sentence) CHECK(refused(&file, NULL, list[i].sentence));
        else CHECK(accepted(&file));
    }
}

/* What is computed from trainable weights follows them when they change; a variable that is there already must fit. */
TEST(what_follows_from_weights_that_are_trained)
{
    static const float w[] = {1, 2, 3, 4};
    tp_graph *g = tp_graph_new(NULL), *other = tp_graph_new(NULL);
    tp_onnx_model m;
    tp_session *s = NULL;
    tp_tensor t, y;
    tp_import_onnx_desc d;
    float changed[] = {5, 6, 7, 8}, x[] = {1, 0, 0, 1};
    memset(&d, 0, sizeof d);
    memset(&t, 0, sizeof t);
    memset(&y, 0, sizeof y);
    d.trainable = TP_YES;
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_weight(&graph, "w", 1, 2, two_by_2, w, sizeof w);
    put_weight(&graph, "whole", 7, 1, two, (const int64_t[]){3, 4}, 16);
    put_weight(&graph, "single", 1, 0, NULL, w, 4);
    put_io(&graph, 11, "x", 1, 2, n_by_2);
    put_node(&graph, "Neg", "w", "minus", NULL);
    put_node(&graph, "MatMul", "x,minus", "y", NULL);
    put_io(&graph, 12, "y", 1, 2, n_by_2);
    put_model(&file, &graph, 13);
    if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &m)) &&
        CHECK((s = tp_session_new(g, NULL)) != NULL)) {
        tp_feed feed;
        const tp_tensor *out = NULL;
        memset(&feed, 0, sizeof feed);
        CHECK(tp_graph_n_variables(g) == 1); /* floats with dimensions alone */
        feed.node = m.input[0].node;
        tp_tensor_view(&feed.value, TP_F32, tp_make_shape_n(2, two_by_2), x);
        tp_tensor_view(&t, TP_F32, tp_make_shape_n(2, two_by_2), changed);
        for (int pass = 0; pass < 2; pass++) {
            if (CHECK_OK(tp_session_run(s, &feed, 1, &m.output[0].node, 1, &out)))
                for (int i = 0; i < 4; i++) CHECK(tp_tensor_get(out, i) == -(double)(pass ? changed[i] : w[i]));
            CHECK_OK(tp_session_load(s, tp_find_variable(g, "w"), &t));
        }
    }
    tp_session_free(s);
    tp_get_variable_as(other, "w", TP_F32, tp_make_shape(3), tp_init_ones());
    CHECK(tp_import_onnx_parse(other, file.b, file.n, "model.onnx", &d, &m) < TP_OK);
    CHECK_HAS(tp_last_error(), "model.onnx: w: ");
    tp_graph_free(g);
    tp_graph_free(other);
}

TEST(inputs_may_be_nodes_and_constants)
{
    linear_model();
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model m;
    tp_onnx_value v;
    tp_import_onnx_desc d;
    float x[] = {1, 2};
    tp_tensor t, y;
    memset(&d, 0, sizeof d);
    memset(&t, 0, sizeof t);
    memset(&y, 0, sizeof y);
    tp_tensor_view(&t, TP_F32, tp_make_shape_n(2, (const int64_t[]){1, 2}), x);
    v.name = "x";
    v.node = tp_constant(g, &t);
    d.inputs = &v;
    d.n_inputs = 1;
    if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &m))) {
        CHECK(m.input[0].node == v.node);
        CHECK(m.output[0].node->op->in[0]->op->row ==
              tp_op_find("constant")); /* all of it was computed while importing */
        tp_session *s = tp_session_new(g, NULL);
        CHECK(CHECK_OK(tp_session_eval(s, m.output[0].node, &y)) && tp_tensor_get(&y, 0) == 17);
        tp_session_free(s);
    }
    tp_tensor_free(&y);
    tp_graph_free(g);

    tp_graph *other = tp_graph_new(NULL);
    v.node = tp_placeholder(other, "p", TP_I32, tp_make_shape_n(2, two_by_2));
    CHECK(tp_import_onnx_parse(other, file.b, file.n, "model.onnx", &d, &m) == TP_ERR_ARG);
    CHECK(strstr(tp_last_error(), "int32 (2,2)") && strstr(tp_last_error(), "float32 (?,2)"));
    v.name = "z";
    CHECK(tp_import_onnx_parse(other, file.b, file.n, "model.onnx", &d, &m) == TP_ERR_NAME);
    CHECK(strstr(tp_last_error(), "no input 'z'"));
    tp_graph_free(other);
}

/* Imports linear_model into a graph with these options; the status has to be TP_ERR_ARG, the sentence has `part` and the file. */
static bool options_refused(tp_graph *g, const tp_import_onnx_desc *d, const char *part)
{
    tp_onnx_model m;
    const tp_status st = tp_import_onnx_parse(g, file.b, file.n, "model.onnx", d, &m);
    const bool ok =
        st == TP_ERR_ARG && strncmp(tp_last_error(), "model.onnx: ", 12) == 0 && strstr(tp_last_error(), part);
    if (!ok) printf("  status %d, '%s', expected '%s'\n", (int)st, tp_last_error(), part);
    return ok;
}

TEST(options_that_make_no_sense_are_refused)
{
    tp_graph *g = tp_graph_new(NULL), *other = tp_graph_new(NULL);
    tp_onnx_model m;
    tp_import_onnx_desc d;
    tp_onnx_dim dims[2] = {{"n", 3}, {"n", 4}};
    tp_onnx_value v[2];
    linear_model();
    v[0].name = v[1].name = "x";
    v[0].node = v[1].node = tp_placeholder(g, "given", TP_F32, tp_make_shape(3, 2));

    memset(&d, 0, sizeof d);
    d.n_dims = 2;
    CHECK(options_refused(g, &d, ".n_dims is 2, but there is no .dims"));
    d.dims = dims, d.n_dims = -1;
    CHECK(options_refused(g, &d, ".n_dims is -1"));
    d.n_dims = 2;
    CHECK(options_refused(g, &d, ".dims gives 'n' the sizes 3 and 4"));
    dims[1].size = 0;
    CHECK(options_refused(g, &d, ".dims gives 'n' the size 0"));
    dims[1].size = -7;
    CHECK(options_refused(g, &d, ".dims gives 'n' the size -7"));
    dims[1].name = NULL;
    CHECK(options_refused(g, &d, ".dims[1].name is NULL"));

    memset(&d, 0, sizeof d);
    d.n_inputs = 1;
    CHECK(options_refused(g, &d, ".n_inputs is 1, but there is no .inputs"));
    d.inputs = v, d.n_inputs = -2;
    CHECK(options_refused(g, &d, ".n_inputs is -2"));
    d.n_inputs = 2;
    CHECK(options_refused(g, &d, ".inputs gives 'x' two nodes"));
    v[1].node = NULL;
    CHECK(options_refused(g, &d, ".inputs[1].node is NULL"));
    v[1].name = NULL;
    CHECK(options_refused(g, &d, ".inputs[1].name is NULL"));
    v[0].node = tp_placeholder(other, "given", TP_F32, tp_make_shape(3, 2));
    CHECK(options_refused(g, &d, "the node of .inputs for 'x' belongs to another graph"));

    memset(&d, 0, sizeof d);
    d.trainable = 7;
    CHECK(options_refused(g, &d, ".trainable is 7, which is no tp_tri"));
    d.trainable = -1;
    CHECK(options_refused(g, &d, ".trainable is -1"));
    d.trainable = TP_UNSET, d.max_work = -1;
    CHECK(options_refused(g, &d, ".max_work is -1"));
    d.max_work = (double)NAN;
    CHECK(options_refused(g, &d, ".max_work is"));
    d.max_work = 0, d.max_memory = -1;
    CHECK(options_refused(g, &d, ".max_memory is -1: give a number of bytes"));
    d.max_memory = (double)NAN;
    CHECK(options_refused(g, &d, ".max_memory is"));
    d.max_memory = 0, d.constants = "";
    CHECK(options_refused(g, &d, ".constants is empty, which matches every name"));
    d.constants = "layer/(W";
    CHECK(options_refused(g, &d, ".constants: "));

    /* a name may be given twice with the same size; each value of a tp_tri is accepted */
    dims[1] = dims[0];
    memset(&d, 0, sizeof d);
    d.dims = dims, d.n_dims = 2;
    for (d.trainable = TP_UNSET; d.trainable >= 0; d.trainable--) {
        tp_graph *fresh = tp_graph_new(NULL);
        CHECK_OK(tp_import_onnx_parse(fresh, file.b, file.n, "model.onnx", &d, &m));
        CHECK(m.n_input == 1 && m.input[0].node->shape.dim[0] == 3);
        tp_graph_free(fresh);
    }
    CHECK(tp_graph_status(g) == TP_OK);
    tp_graph_free(g);
    tp_graph_free(other);
}

/* A model that must know a dimension of its input: a Slice turns x around along `axis`. */
static void turned_model(int ndim, const int64_t *dims, int64_t axis)
{
    static const int64_t minus = -1, least = -100;
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_weight(&graph, "from", 7, 1, one, &minus, 8);
    put_weight(&graph, "to", 7, 1, one, &least, 8);
    put_weight(&graph, "axis", 7, 1, one, &axis, 8);
    put_io(&graph, 11, "x", 1, ndim, dims);
    put_node(&graph, "Slice", "x,from,to,axis,from", "y", NULL);
    put_io(&graph, 12, "y", 1, ndim, dims);
    put_model(&file, &graph, 13);
}

TEST(dimensions_are_named)
{
    static const int64_t open[] = {-1, -2, 5}, nameless[] = {-3, 2}, many[] = {-1, -2, -3, -1, -1, -1, -1};
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model m;
    tp_onnx_dim dims[3] = {{"m", 4}, {"height", 7}, {"width", 8}};
    tp_onnx_value v;
    tp_import_onnx_desc d;
    memset(&d, 0, sizeof d);
    d.dims = dims;

    /* the dimension that is wanted: where it is, and its name */
    turned_model(3, open, 1);
    CHECK(refused(&file, NULL, "dimension 1 of its input; give it in .dims: dimension 1 of 'x' ('m')"));
    d.dims = dims + 1, d.n_dims = 2;
    CHECK(
        refused(&file, &d, "('m'); .dims has 'height', 'width', but the names of the inputs' dimensions are 'n', 'm'"));
    turned_model(2, nameless, 0);
    CHECK(refused(&file, NULL, "; give it by a placeholder of known shape in .inputs: dimension 0 of 'x'"));

    /* a name that no input has is warned of; one that an input has is not */
    linear_model();
    tp_test_keep_log();
    CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &m));
    CHECK_HAS(tp_test_logged,
              "model.onnx: .dims has 'height', 'width', but the names of the inputs' dimensions are 'n'\n");
    dims[1].name = "n";
    d.n_dims = 1;
    tp_test_keep_log();
    CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &m));
    CHECK(tp_test_logged[0] == 0);
    turned_model(1, two, 0);
    CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &m));
    CHECK_HAS(tp_test_logged, ".dims has 'n', but no dimension of an input has a name\n");
    tp_set_log(NULL, NULL);

    /* the placeholder of .inputs has dimensions of its own; the model's inputs are listed */
    turned_model(3, open, 1);
    memset(&d, 0, sizeof d);
    d.inputs = &v, d.n_inputs = 1;
    v.name = "z", v.node = tp_placeholder(g, "given", TP_F32, tp_make_shape(TP_ANY, TP_ANY, 5));
    CHECK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &m) == TP_ERR_NAME);
    CHECK_HAS(tp_last_error(), "the model has no input 'z'; its inputs are 'x'");
    v.name = "x";
    CHECK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &m) == TP_ERR_UNSUPPORTED);
    CHECK_HAS(tp_last_error(), "; give it by a placeholder of known shape in .inputs: dimension 1 of 'x'");
    tp_graph_free(g);

    /* of a value that is computed it is one of the inputs' dimensions; a long list is cut */
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_io(&graph, 11, "x", 1, 7, many);
    put_node(&graph, "Shape", "x", "shape", NULL);
    put_weight(&graph, "two", 7, 1, one, two, 8);
    put_node(&graph, "Add", "shape,two", "more", NULL);
    put_node(&graph, "Cast", "more", "y", int_attribute("to", 1));
    put_io(&graph, 12, "y", 1, 1, (const int64_t[]){7});
    put_model(&file, &graph, 13);
    CHECK(refused(
        &file, NULL,
        "not known cannot be expressed; give it in .dims, or, if the dimension has no name, by a placeholder of "
        "known shape in .inputs: one of dimension 0 of 'x' ('n'), dimension 1 of 'x' ('m'), dimension 2 of 'x', "
        "dimension 3 of 'x' ('n'), dimension 4 of 'x' ('n'), dimension 5 of 'x' ('n'), ..."));

    /* a multiple of it names it */
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_io(&graph, 11, "x", 1, 7, many);
    put_node(&graph, "Shape", "x", "shape", NULL);
    put_weight(&graph, "two", 7, 1, one, two, 8);
    put_node(&graph, "Mul", "shape,two", "more", NULL);
    put_node(&graph, "Cast", "more", "y", int_attribute("to", 1));
    put_io(&graph, 12, "y", 1, 1, (const int64_t[]){7});
    put_model(&file, &graph, 13);
    CHECK(refused(&file, NULL, "not known cannot be expressed; give it in .dims: dimension 0 of 'x' ('n')"));
}

/* -- activations of recurrent operators */

/* Builds an operator of one unit, over the three steps of x (3,1,1): W and R are ones. extra: its attribute. */
static void recurrent_model(const char *op, int64_t gates, const msg *extra)
{
    static const float ones[] = {1, 1, 1, 1};
    static const int64_t steps[] = {3, 1, 1};
    const int64_t dim[] = {1, gates, 1};
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_weight(&graph, "W", 1, 3, dim, ones, (size_t)gates * 4);
    put_weight(&graph, "R", 1, 3, dim, ones, (size_t)gates * 4);
    put_io(&graph, 11, "x", 1, 3, steps);
    put_node(&graph, op, "x,W,R", "y", extra);
    put_io(&graph, 12, "y", 1, 4, (const int64_t[]){3, 1, 1, 1});
    put_model(&file, &graph, 14);
}

TEST(activations_of_recurrent_operators)
{
    static const struct {
        const char *op;
        int64_t gates;
        const char *usual, *odd_case, *other, *sentence;
    } row[] = {{"RNN", 1, "Tanh", "tANh", "Softsign", "RNN with activations = 'Softsign' cannot be"},
               {"LSTM", 4, "Sigmoid,Tanh,Tanh", "sigmoid,tanh,TANH", "Sigmoid,Tanh,Relu",
                "LSTM with activations = 'Sigmoid', 'Tanh', 'Relu' cannot be"},
               {"GRU", 3, "Sigmoid,Tanh", "SIGMOID,tanh", "Sigmoid", "GRU with activations = 'Sigmoid' cannot be"}};
    static const float x[] = {0.5f, -2, 0.25f};
    const tp_shape shape = tp_make_shape(3, 1, 1);
    for (int i = 0; i < TP_COUNT(row); i++) {
        double want[3] = {0, 0, 0}, y[3] = {1, 1, 1};
        recurrent_model(row[i].op, row[i].gates, NULL);
        CHECK(run_file(&shape, x, 3, want) == 3);
        for (int way = 0; way < 2; way++) {
            recurrent_model(row[i].op, row[i].gates,
                            texts_attribute("activations", way ? row[i].odd_case : row[i].usual));
            CHECK_MSG(run_file(&shape, x, 3, y) == 3 && memcmp(y, want, sizeof y) == 0, "%s: %s", row[i].op,
                      tp_last_error());
        }
        recurrent_model(row[i].op, row[i].gates, texts_attribute("activations", row[i].other));
        CHECK(refused(&file, NULL, row[i].sentence));
        recurrent_model(row[i].op, row[i].gates, text_attribute("activations", row[i].usual));
        CHECK(refused(&file, NULL, "the attribute 'activations' is of another kind"));
        recurrent_model(row[i].op, row[i].gates, float_attribute("clip", 2.5f));
        CHECK(refused(&file, NULL, "with clip = 2.5 cannot be"));
    }
    double y[3] = {0, 0, 0};
    recurrent_model("RNN", 1, texts_attribute("activations", "Relu")); /* h = max(0, x + h) */
    CHECK(run_file(&shape, x, 3, y) == 3 && y[0] == 0.5 && y[1] == 0 && y[2] == 0.25);
    recurrent_model("RNN", 1, texts_attribute("activations", "Tanh ")); /* longer than the name by a space */
    CHECK(refused(&file, NULL, "with activations = 'Tanh ' cannot be"));
    recurrent_model("LSTM", 4, int_attribute("input_forget", 1));
    CHECK(refused(&file, NULL, "LSTM with input_forget = 1 cannot be"));
}

/* A GRU as PyTorch writes it, whose steps and batch are swapped before it; an LSTM with lengths that are an input. */
TEST(sizes_and_lengths_of_recurrent_operators)
{
    static const float ones[] = {1, 1, 1, 1};
    static const int64_t open[] = {-1, -2, 1}, dim[] = {1, 3, 1}, dim_of_lstm[] = {1, 4, 1}, swap[] = {1, 0, 2};
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_weight(&graph, "W", 1, 3, dim, ones, 12);
    put_weight(&graph, "R", 1, 3, dim, ones, 12);
    put_io(&graph, 11, "x", 1, 3, open);
    put_node(&graph, "Transpose", "x", "steps_first", ints_attribute("perm", swap, 3));
    put_node(&graph, "GRU", "steps_first,W,R", "y", int_attribute("linear_before_reset", 1));
    put_io(&graph, 12, "y", 1, 4, (const int64_t[]){-2, 1, -1, 1});
    put_model(&file, &graph, 14);
    CHECK(
        refused(&file, NULL, "GRU needs to know dimension 0 of its input; give it in .dims: dimension 1 of 'x' ('m')"));
    CHECK_MSG(!strstr(tp_last_error(), "('n')"), "%s", tp_last_error());
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_weight(&graph, "W", 1, 3, dim_of_lstm, ones, 16);
    put_weight(&graph, "R", 1, 3, dim_of_lstm, ones, 16);
    put_io(&graph, 11, "x", 1, 3, open);
    put_io(&graph, 11, "lengths", 6, 1, open + 1);
    put_node(&graph, "LSTM", "x,W,R,,lengths", "y", NULL);
    put_io(&graph, 12, "y", 1, 4, (const int64_t[]){-1, 1, -2, 1});
    put_model(&file, &graph, 14);
    CHECK(refused(&file, NULL, "LSTM with sequences of different lengths cannot be expressed; give such a constant"));
}

/* -- weights of batch norms */

/* y = two batch norms of x, one after the other. "both" is the mean and also the beta of the second one. */
static void norm_model(void)
{
    static const float numbers[] = {1, 2};
    static const char *const weight[] = {"gamma", "beta", "mean", "variance", "both"};
    graph.n = 0;
    put_text(&graph, 2, "g");
    for (int i = 0; i < TP_COUNT(weight); i++) put_weight(&graph, weight[i], 1, 1, two, numbers, sizeof numbers);
    put_io(&graph, 11, "x", 1, 2, n_by_2);
    put_node(&graph, "BatchNormalization", "x,gamma,beta,mean,variance", "z", NULL);
    put_node(&graph, "BatchNormalization", "z,gamma,both,both,variance", "y", NULL);
    put_io(&graph, 12, "y", 1, 2, n_by_2);
    put_model(&file, &graph, 14);
}
static bool is_collected(const tp_graph *g, const char *key, const tp_variable *v)
{
    int n = 0;
    tp_node *const *item = tp_collection(g, key, &n);
    for (int i = 0; i < n; i++)
        if (item[i] == v->node) return true;
    return false;
}

TEST(running_statistics_are_not_trained)
{
    static const char *const weight[] = {"gamma", "beta", "both", "mean", "variance"};
    for (int tower = 0; tower < 3; tower++) { /* none, one of training, one of inference */
        tp_graph *g = tp_graph_new(NULL);
        tp_onnx_model m;
        tp_import_onnx_desc d;
        tp_tower_desc t = {.is_training = tower == 1};
        memset(&d, 0, sizeof d);
        d.trainable = TP_YES;
        norm_model();
        if (tower) tp_tower_enter(g, &t);
        CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &m));
        if (tower) tp_tower_leave(g);
        CHECK(tp_graph_n_variables(g) == TP_COUNT(weight));
        for (int i = 0; i < TP_COUNT(weight); i++) {
            const tp_variable *v = tp_find_variable(g, weight[i]);
            if (!CHECK(v != NULL)) continue;
            CHECK_MSG(v->trainable == (i < 3), "%s", weight[i]);
            CHECK(is_collected(g, TP_KEY_TRAINABLE_VARIABLES, v) == (i < 3));
            CHECK(is_collected(g, TP_KEY_MODEL_VARIABLES, v) == (i >= 3));
            CHECK(is_collected(g, TP_KEY_GLOBAL_VARIABLES, v));
        }
        tp_graph_free(g);
    }
}

/* A file that PyTorch exported in its training mode: y = Dropout(BatchNormalization(x)), where nothing reads the mask. In a training tower the
 * batch's own mean and variance are used and the running ones updated, in one for inference the running ones are used and nothing is
 * dropped. Without a tower it is what the file says. */
TEST(a_file_of_training_follows_its_tower)
{
    static const float numbers[] = {1, 2}, half = 0.5f, x[] = {1, 2, 3, 4};
    static const unsigned char yes = 1;
    static const char *const weight[] = {"gamma", "beta", "mean", "variance"};
    for (int way = 0; way < 4; way++) { /* without a tower, training, inference; 3: the mask is read */
        graph.n = 0;
        put_text(&graph, 2, "g");
        for (int i = 0; i < 4; i++) put_weight(&graph, weight[i], 1, 1, two, numbers, sizeof numbers);
        put_weight(&graph, "ratio", 1, 0, NULL, &half, sizeof half);
        put_weight(&graph, "training", 9, 0, NULL, &yes, 1);
        put_io(&graph, 11, "x", 1, 2, n_by_2);
        put_node(&graph, "BatchNormalization", "x,gamma,beta,mean,variance", "normal,new_mean,new_variance",
                 int_attribute("training_mode", 1));
        put_node(&graph, "Dropout", "normal,ratio,training", "y,mask", NULL);
        put_io(&graph, 12, "y", 1, 2, n_by_2);
        put_io(&graph, 12, "normal", 1, 2, n_by_2);
        if (way == 3) put_io(&graph, 12, "mask", 9, 2, n_by_2);
        put_model(&file, &graph, 15);
        if (way == 3) {
            CHECK(refused(&file, NULL, "the mask of a training run"));
            continue;
        }
        tp_graph *g = tp_graph_new(NULL);
        tp_onnx_model m;
        tp_import_onnx_desc d;
        tp_tower_desc t = {.is_training = way == 1};
        const tp_tensor *out[2];
        memset(&d, 0, sizeof d);
        d.trainable = TP_YES;
        if (way) tp_tower_enter(g, &t);
        CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &m));
        if (way) tp_tower_leave(g);
        tp_session *s = tp_session_new(g, NULL);
        tp_node *fetch[2] = {m.output[0].node, m.output[1].node};
        tp_feed feed = TP_FEED(m.input[0].node, TP_F32, (void *)(uintptr_t)x, 2, 2);
        if (CHECK_OK(tp_session_run(s, &feed, 1, fetch, 2, out))) {
            CHECK_NEAR(tp_tensor_get(out[1], 0), way == 2 ? 1 : 0, 1e-4, 0);
            CHECK_NEAR(tp_tensor_get(out[1], 3), way == 2 ? 2 + 2 * sqrt(2) : 4, 1e-4, 0);
            for (int i = 0; i < 4; i++) {
                const double y = tp_tensor_get(out[0], i), normal = tp_tensor_get(out[1], i);
                CHECK_MSG(y == normal ? way == 2 || normal == 0 : way < 2 && (y == 0 || y == 2 * normal),
                          "way %d: %g of %g", way, y, normal);
            }
        }
        int n = 0;
        tp_node *const *update = tp_collection(g, TP_KEY_UPDATE_OPS, &n);
        CHECK(n == (way == 1 ? 2 : 0));
        if (n == 2 && CHECK_OK(tp_session_run(s, &feed, 1, update, 2, NULL))) {
            static const double want[] = {0.9 * 1 + 0.1 * 2, 0.9 * 2 + 0.1 * 3, 0.9 * 1 + 0.1, 0.9 * 2 + 0.1};
            tp_tensor v = TP_EMPTY;
            for (int i = 0; i < 4 && CHECK_OK(tp_session_read(s, tp_find_variable(g, weight[2 + i / 2]), &v)); i++)
                CHECK_NEAR(tp_tensor_get(&v, i % 2), want[i], 1e-6, 0);
            tp_tensor_free(&v);
        }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* PyTorch writes equal weights once, and the others as Identity: each is trained alone. A weight that only an Identity reads is one. */
TEST(equal_weights_are_weights_of_their_own)
{
    static const float numbers[] = {3, 5};
    static const char *const weight[] = {"w", "gamma", "beta", "mean", "variance", "alone"};
    static const struct {
        const char *name;
        bool trainable;
    } all[] = {{"w", true},     {"gamma", true}, {"beta", true}, {"mean", false}, {"variance", false},
               {"alone", true}, {"w2", true},    {"w3", true},   {"mean2", false}};
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model m;
    tp_import_onnx_desc d;
    memset(&d, 0, sizeof d);
    d.trainable = TP_YES;
    graph.n = 0;
    put_text(&graph, 2, "g");
    for (int i = 0; i < TP_COUNT(weight); i++) put_weight(&graph, weight[i], 1, 1, two, numbers, sizeof numbers);
    put_io(&graph, 11, "x", 1, 2, n_by_2);
    put_node(&graph, "Identity", "w", "w2", NULL);
    put_node(&graph, "Identity", "w", "w3", NULL);
    put_node(&graph, "Identity", "mean", "mean2", NULL);
    put_node(&graph, "Identity", "alone", "named", NULL);
    put_node(&graph, "Mul", "x,w", "a", NULL);
    put_node(&graph, "Mul", "a,w2", "b", NULL);
    put_node(&graph, "Mul", "b,w3", "product", NULL);
    put_node(&graph, "BatchNormalization", "product,gamma,beta,mean,variance", "c", NULL);
    put_node(&graph, "BatchNormalization", "c,gamma,named,mean2,variance", "y", NULL);
    put_io(&graph, 12, "product", 1, 2, n_by_2);
    put_io(&graph, 12, "y", 1, 2, n_by_2);
    put_model(&file, &graph, 14);
    CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &m));
    CHECK(tp_graph_n_variables(g) == TP_COUNT(all));
    for (int i = 0; i < TP_COUNT(all); i++) {
        const tp_variable *v = tp_find_variable(g, all[i].name);
        CHECK_MSG(v && v->trainable == all[i].trainable, "%s", all[i].name);
    }
    const tp_variable *w[] = {tp_find_variable(g, "w"), tp_find_variable(g, "w2"), tp_find_variable(g, "w3")};
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK(s && w[0] && w[1] && w[2])) {
        float x[] = {1, 1}, ones[] = {1, 1};
        tp_feed feed;
        tp_tensor t;
        const tp_tensor *out = NULL;
        memset(&feed, 0, sizeof feed);
        memset(&t, 0, sizeof t);
        feed.node = m.input[0].node;
        tp_tensor_view(&feed.value, TP_F32, tp_make_shape(1, 2), x);
        tp_tensor_view(&t, TP_F32, tp_make_shape(2), ones);
        double want = 27; /* 3 * 3 * 3 */
        for (int i = 0; i < 4; i++, want /= 3) {
            if (CHECK_OK(tp_session_run(s, &feed, 1, &m.output[0].node, 1, &out))) CHECK(tp_tensor_get(out, 0) == want);
            if (i < 3) CHECK_OK(tp_session_load(s, w[i], &t));
        }
    }
    tp_session_free(s);
    tp_graph_free(g);
}

/* -- scopes of variables, functions */

TEST(a_second_size_has_the_same_weights)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model m, again;
    tp_onnx_dim n = {"n", 2};
    tp_import_onnx_desc d;
    tp_status st = TP_ERR;
    memset(&d, 0, sizeof d);
    d.trainable = TP_YES, d.dims = &n, d.n_dims = 1;
    linear_model();
    TP_VARIABLE_SCOPE(g, "net", .reuse = TP_REUSE_AUTO)
    st = tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &m);
    CHECK_OK(st);
    n.size = 5;
    TP_VARIABLE_SCOPE(g, "net", .reuse = TP_REUSE_AUTO)
    st = tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &again);
    CHECK_OK(st);
    CHECK(m.output[0].node->shape.dim[0] == 2 && again.output[0].node->shape.dim[0] == 5);
    CHECK(tp_graph_n_variables(g) == 2 && tp_find_variable(g, "net/layer/W"));
    d.scope = "elsewhere"; /* which is no scope of variables */
    TP_VARIABLE_SCOPE(g, "net") st = tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &again);
    CHECK(st == TP_ERR_NAME);
    CHECK_HAS(tp_last_error(), "variable 'net/layer/W' exists already");
    CHECK_HAS(tp_last_error(), "; an import's variables are in the TP_VARIABLE_SCOPE around it, not in .scope");
    tp_graph_free(g);
}

TEST(functions_of_a_model_are_named)
{
    for (int way = 0; way < 3; way++) { /* the function is of the node's domain, of another, or called otherwise */
        static msg function, node;
        function.n = node.n = graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, 2, n_by_2);
        put_text(&node, 1, "x");
        put_text(&node, 2, "y");
        put_text(&node, 4, "Sq");
        put_text(&node, 7, "loc");
        put_msg(&graph, 1, &node);
        put_io(&graph, 12, "y", 1, 2, n_by_2);
        put_model(&file, &graph, 18);
        put_text(&function, 1, way == 2 ? "Sqr" : "Sq");
        put_text(&function, 10, way == 1 ? "lok" : "loc");
        put_msg(&file, 25, &function);
        CHECK(refused(&file, NULL,
                      way ? "y: tp has no operator loc.Sq"
                          : "y: the model defines its own operator loc.Sq as a function: inline the functions first, "
                            "onnx.inliner.inline_local_functions does"));
    }
}

/* More is computed while importing than one graph for it holds. */
TEST(long_sums_of_weights)
{
    char in[32] = "o", out[32];
    double y[2];
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_weight(&graph, "o", 1, 0, NULL, (const float[]){1}, 4);
    put_io(&graph, 11, "x", 1, 2, n_by_2);
    for (int k = 1; k < 600; k++) {
        char both[64];
        snprintf(both, sizeof both, "%s,o", in);
        snprintf(out, sizeof out, "s%d", k);
        put_node(&graph, "Add", both, out, NULL);
        snprintf(in, sizeof in, "%s", out);
    }
    put_node(&graph, "Mul", "x,s599", "y", NULL);
    put_io(&graph, 12, "y", 1, 2, n_by_2);
    put_model(&file, &graph, 13);
    CHECK(run_model(&file, NULL, 1, 2, y, 2) == 2 && y[0] == 600 && y[1] == 1200);
}

TEST(if_takes_its_branch)
{
    static msg then, otherwise, attributes, info;
    double y[2];
    for (int cond = 0; cond < 2; cond++) {
        const uint8_t yes = (uint8_t)cond;
        then.n = otherwise.n = graph.n = 0;
        put_node(&then, "Neg", "x", "a", NULL);
        put_int(&then, 12, 3); /* the importer skips a number in the place of an output or of its name */
        info.n = 0;
        put_text(&info, 1, "a");
        put_int(&info, 1, 3);
        put_msg(&then, 12, &info);
        put_node(&otherwise, "Abs", "x", "b", NULL);
        put_io(&otherwise, 12, "b", 1, 2, n_by_2);
        put_text(&graph, 2, "g");
        put_weight(&graph, "cond", 9, 0, NULL, &yes, 1);
        put_io(&graph, 11, "x", 1, 2, n_by_2);
        attributes.n = 0;
        put_text(&attributes, 1, "cond");
        put_text(&attributes, 2, "y");
        put_text(&attributes, 4, "If");
        put_msg(&attributes, 5, graph_attribute("then_branch", &then));
        put_msg(&attributes, 5, graph_attribute("else_branch", &otherwise));
        put_msg(&graph, 1, &attributes);
        put_io(&graph, 12, "y", 1, 2, n_by_2);
        put_model(&file, &graph, 13);
        CHECK(run_model(&file, NULL, 1, 2, y, 2) == 2 && y[1] == (cond ? -2 : 2));
    }
}

/* A weight that is the output of a branch is trained as it would be without the If. */
TEST(if_gives_a_weight)
{
    static const float w[] = {1, 2, 3, 4};
    static msg then;
    graph.n = then.n = 0;
    put_io(&then, 12, "w", 1, 2, two_by_2);
    put_text(&graph, 2, "g");
    put_weight(&graph, "cond", 9, 0, NULL, "\1", 1);
    put_weight(&graph, "w", 1, 2, two_by_2, w, sizeof w);
    put_io(&graph, 11, "x", 1, 2, n_by_2);
    put_node(&graph, "If", "cond", "chosen", graph_attribute("then_branch", &then));
    put_node(&graph, "MatMul", "x,chosen", "y", NULL);
    put_io(&graph, 12, "y", 1, 2, n_by_2);
    put_model(&file, &graph, 13);
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model m;
    tp_import_onnx_desc d;
    memset(&d, 0, sizeof d);
    d.trainable = TP_YES;
    if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &m))) {
        tp_variable *v = tp_find_variable(g, "w");
        tp_node *dw = NULL;
        if (CHECK(v != NULL)) tp_gradients(tp_sum(m.output[0].node), &v->node, 1, &dw);
        CHECK(dw != NULL && !tp_is_poison(dw));
    }
    tp_graph_free(g);
}

/* A branch that gives the sizes of x, the first of which is not known when the graph is built. */
TEST(if_gives_what_is_partly_known)
{
    static const int64_t twice[] = {2, 1}, back[] = {1, 2};
    static msg then;
    double y[4];
    for (int what = 0; what < 4; what++) {
        graph.n = then.n = 0;
        put_node(&then, "Shape", "x", "s", NULL);
        put_io(&then, 12, "s", 7, 1, two);
        put_weight(&then, "w", 1, 1, two, (const float[]){1, 2}, 8); /* one more output than the node has */
        put_io(&then, 12, "w", 1, 1, two);
        put_text(&graph, 2, "g");
        put_weight(&graph, "cond", 9, 0, NULL, "\1", 1);
        put_weight(&graph, "twice", 7, 1, two, twice, sizeof twice);
        put_weight(&graph, "back", 7, 1, two, back, sizeof back);
        put_io(&graph, 11, "x", 1, 2, n_by_2);
        put_node(&graph, "If", "cond", "sizes", graph_attribute("then_branch", &then));
        put_node(&graph, "Mul", "sizes,twice", "more", NULL);
        put_node(&graph, "Div", what == 1 ? "more,back" : "more,twice", "again", NULL);
        if (what < 2) put_node(&graph, "Reshape", what ? "x,again" : "x,sizes", "y", NULL);
        if (what < 2) put_io(&graph, 12, "y", 1, 2, (const int64_t[]){-1, -1});
        else put_io(&graph, 12, what == 2 ? "sizes" : "again", 7, 1, two);
        put_model(&file, &graph, 17);
        if (what < 2) CHECK(run_model(&file, NULL, 2, 2, y, 4) == 4 && y[0] == 1 && y[3] == 4);
        else CHECK(refused(&file, NULL, "depends on a dimension that is not known when the graph is built"));
    }
}

/* If operators may be nested 16 deep. */
TEST(ifs_in_each_other)
{
    static msg inner[2];
    double y[2];
    for (int deep = 15; deep <= 17; deep++) {
        inner[0].n = 0;
        put_node(&inner[0], "Neg", "x", "i", NULL);
        put_io(&inner[0], 12, "i", 1, 2, n_by_2);
        for (int k = 0; k < deep; k++) {
            msg *in = &inner[k % 2], *out = &inner[1 - k % 2];
            char name[16];
            out->n = 0;
            snprintf(name, sizeof name, "i%d", k);
            put_node(out, "If", "cond", name, graph_attribute("then_branch", in));
            put_io(out, 12, name, 1, 2, n_by_2);
        }
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_weight(&graph, "cond", 9, 0, NULL, "\1", 1);
        put_io(&graph, 11, "x", 1, 2, n_by_2);
        memcpy(graph.b + graph.n, inner[deep % 2].b, inner[deep % 2].n);
        graph.n += inner[deep % 2].n;
        put_model(&file, &graph, 13);
        if (deep > 16) CHECK(refused(&file, NULL, "If inside If, deeper than 16"));
        else CHECK(run_model(&file, NULL, 1, 2, y, 2) == 2 && y[1] == -2);
    }
}

/* The limit of 16 counts Ifs inside of each other, not one after the other. */
TEST(as_many_ifs_as_there_are)
{
    static msg then;
    char in[32] = "x", inner[32], out[32];
    double y[2];
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_weight(&graph, "cond", 9, 0, NULL, "\1", 1);
    put_io(&graph, 11, "x", 1, 2, n_by_2);
    for (int k = 0; k < 21; k++) {
        then.n = 0;
        snprintf(inner, sizeof inner, "inner%d", k);
        snprintf(out, sizeof out, "out%d", k);
        put_node(&then, "Neg", in, inner, NULL);
        put_io(&then, 12, inner, 1, 2, n_by_2);
        put_node(&graph, "If", "cond", out, graph_attribute("then_branch", &then));
        snprintf(in, sizeof in, "%s", out);
    }
    put_io(&graph, 12, in, 1, 2, n_by_2);
    put_model(&file, &graph, 13);
    CHECK(run_model(&file, NULL, 1, 2, y, 2) == 2 && y[0] == -1 && y[1] == -2);
}

/* Slice backwards: a start behind the last element is the last one, as in Python x[9::-1]. */
TEST(slices_backwards_begin_with_the_last)
{
    static const int64_t all[] = {INT64_MIN}, axis[] = {1}, back[] = {-1}, x_dim[] = {2, 4};
    double y[8];
    for (int64_t start = 0; start < 9; start++) {
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_weight(&graph, "start", 7, 1, one, &start, 8);
        put_weight(&graph, "end", 7, 1, one, all, 8);
        put_weight(&graph, "axis", 7, 1, one, axis, 8);
        put_weight(&graph, "step", 7, 1, one, back, 8);
        put_io(&graph, 11, "x", 1, 2, x_dim);
        put_node(&graph, "Slice", "x,start,end,axis,step", "y", NULL);
        put_io(&graph, 12, "y", 1, 2, (const int64_t[]){-1, -1});
        put_model(&file, &graph, 13);
        const int n = start < 4 ? (int)start + 1 : 4; /* of a row */
        if (!CHECK(run_model(&file, NULL, 2, 4, y, 8) == 2 * n)) continue;
        for (int i = 0; i < 2 * n; i++) CHECK_NEAR(y[i], i / n * 4 + n - i % n, 0, 0);
    }
}

static void slice_model(int64_t start, int64_t end, int64_t step)
{
    static const int64_t axis = 0;
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_weight(&graph, "start", 7, 1, one, &start, 8);
    put_weight(&graph, "end", 7, 1, one, &end, 8);
    put_weight(&graph, "axis", 7, 1, one, &axis, 8);
    put_weight(&graph, "step", 7, 1, one, &step, 8);
    put_io(&graph, 11, "x", 1, 2, n_by_2);
    put_node(&graph, "Slice", "x,start,end,axis,step", "y", NULL);
    put_io(&graph, 12, "y", 1, 2, (const int64_t[]){-1, 2});
    put_model(&file, &graph, 13);
}
/* Along an axis of unknown size a slice may go from some element on, up to one, or be all of it from behind; each other
 * slice needs the size, also where a single number is different. */
TEST(slices_of_an_axis_of_unknown_size)
{
    enum { LAST = INT32_MAX };
    static const struct {
        int64_t start, end, step;
        int rows[5]; /* of 4 rows, counted from 1; 0: the end. The first is 0: needs the size */
    } c[] = {
        {1, INT64_MAX, 1, {2, 3, 4}},
        {1, LAST, 1, {2, 3, 4}},
        {0, LAST, 1, {1, 2, 3, 4}},
        {1, LAST - 1, 1, {-1}}, /* more than there are: the run says so */
        {1, 3, 1, {2, 3}},
        {0, 1, 1, {1}},
        {1, 1, 1, {0}},
        {2, 1, 1, {0}},
        {-1, LAST, 1, {0}},
        {0, -1, 1, {1, 2, 3}},
        {1, -2, 1, {2}},
        {3, -2, 1, {-1}},
        {0, -LAST, 1, {0}},
        {0, LAST, 2, {0}},
        {0, 4, 2, {0}},
        {-1, INT64_MIN, -1, {4, 3, 2, 1}},
        {-1, -LAST, -1, {4, 3, 2, 1}},
        {LAST, -LAST, -1, {4, 3, 2, 1}},
        {INT64_MAX, INT64_MIN, -1, {4, 3, 2, 1}},
        {LAST - 1, -LAST, -1, {0}},
        {-2, -LAST, -1, {0}},
        {0, -LAST, -1, {0}},
        {3, INT64_MIN, -1, {0}},
        {-1, 1 - LAST, -1, {0}},
        {-1, 0, -1, {0}},
        {-1, -LAST, -2, {0}},
        {-1, LAST, -1, {0}},
    };
    for (int i = 0; i < TP_COUNT(c); i++) {
        double y[9];
        int n = 0;
        slice_model(c[i].start, c[i].end, c[i].step);
        if (c[i].rows[0] < 0) {
            CHECK(accepted(&file));
            continue;
        }
        if (!c[i].rows[0]) {
            if (!CHECK(refused(&file, NULL, "Slice needs to know dimension 0 of its input"))) printf("  case %d\n", i);
            continue;
        }
        while (c[i].rows[n]) n++;
        if (!CHECK_MSG(run_model(&file, NULL, 4, 2, y, 9) == 2 * n, "case %d", i)) continue;
        for (int k = 0; k < n; k++)
            CHECK_MSG(y[2 * k] == 2 * c[i].rows[k] - 1 && y[2 * k + 1] == 2 * c[i].rows[k], "case %d, row %d", i, k);
    }
}

/* In the modes edge and wrap Pad needs the size of each axis that it pads. The batch is not padded, so its size may be unknown. */
TEST(pads_of_an_unknown_batch)
{
    static const int64_t four[] = {4}, pads[2][4] = {{0, 1, 0, 1}, {1, 0, 0, 0}};
    static const char *const modes[] = {"edge", "wrap"};
    static const double want[2][8] = {{1, 1, 2, 2, 3, 3, 4, 4}, {2, 1, 2, 1, 4, 3, 4, 3}};
    for (int i = 0; i < 2 * 2; i++) {
        double y[9];
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_weight(&graph, "pads", 7, 1, four, pads[i / 2], sizeof pads[0]);
        put_io(&graph, 11, "x", 1, 2, n_by_2);
        put_node(&graph, "Pad", "x,pads", "y", text_attribute("mode", modes[i % 2]));
        put_io(&graph, 12, "y", 1, 2, (const int64_t[]){-1, -1});
        put_model(&file, &graph, 13);
        if (i / 2) CHECK(refused(&file, NULL, "Pad needs to know dimension 0 of its input"));
        else if (CHECK_MSG(run_model(&file, NULL, 2, 2, y, 9) == 8, "%s", tp_last_error()))
            for (int k = 0; k < 8; k++) CHECK_MSG(y[k] == want[i][k], "%s: %d: %g", modes[i], k, y[k]);
    }
}

/* Split along an axis of unknown size cuts the sizes that it is given; without them, also with a list of none, it needs the size. */
TEST(splits_of_an_axis_of_unknown_size)
{
    static const int64_t sizes[] = {1, 3}, less[] = {1, -1}, none[] = {0}, known[] = {4, 2};
    static const struct {
        const int64_t *rows, *count, *size; /* dimensions of x and of the list, or NULL: no list */
        int outputs;
        const char *sentence;
    } c[] = {
        {n_by_2, two, sizes, 2, NULL},
        {n_by_2, NULL, NULL, 2, "Split needs to know dimension 0 of its input"},
        {n_by_2, none, sizes, 2, "Split needs to know dimension 0 of its input"},
        {n_by_2, one, sizes, 2, "Split has 1 sizes for 2 outputs"},
        {n_by_2, two, sizes, 3, "Split has 2 sizes for 3 outputs"},
        {n_by_2, two, less, 2, "Split cuts more than there is along axis 0"},
        {known, two, sizes, 2, NULL},
        {known, none, sizes, 2, "Split has 0 sizes for 2 outputs"},
        {known, one, sizes, 2, "Split has 1 sizes for 2 outputs"},
        {known, two, less, 2, "Split cuts more than there is along axis 0"},
    };
    for (int i = 0; i < TP_COUNT(c); i++) {
        double y[9];
        graph.n = 0;
        put_text(&graph, 2, "g");
        if (c[i].count)
            put_weight(&graph, "sizes", 7, 1, c[i].count, c[i].size, (size_t)c[i].count[0] * sizeof *c[i].size);
        put_io(&graph, 11, "x", 1, 2, c[i].rows);
        put_node(&graph, "Split", c[i].count ? "x,sizes" : "x", c[i].outputs == 2 ? "b,a" : "b,a,c", NULL);
        put_io(&graph, 12, "a", 1, 2, n_by_2);
        put_model(&file, &graph, 13);
        if (c[i].sentence) {
            if (!CHECK(refused(&file, NULL, c[i].sentence))) printf("  case %d\n", i);
        } else if (CHECK(run_model(&file, NULL, 4, 2, y, 9) == 6)) {
            for (int k = 0; k < 6; k++) CHECK(y[k] == k + 3);
        }
    }
}

TEST(numbers_come_in_every_coding)
{
    /* the same three numbers as raw bytes, packed floats, half floats, packed integers */
    static const uint16_t half[] = {0x3c00, 0x4000, 0xc200}, brain[] = {0x3f80, 0x4000, 0xc040};
    static const float f[] = {1, 2, -3};
    unsigned char packed[sizeof f];
    double y[3];
    tp_test_little_endian(packed, f, sizeof f, 4);
    for (int kind = 0; kind < 6; kind++) {
        static msg t, pack;
        t.n = pack.n = graph.n = 0;
        put_text(&graph, 2, "g");
        if (kind == 0) put_weight(&graph, "w", 1, 1, three, f, sizeof f);
        else if (kind == 1) put_weight(&graph, "w", 10, 1, three, half, sizeof half);
        else if (kind == 2) put_weight(&graph, "w", 16, 1, three, brain, sizeof brain);
        else {
            put_int(&t, 1, 3);
            put_int(&t, 2, kind == 3 ? 1 : kind == 4 ? 6 : 7);
            put_text(&t, 8, "w");
            if (kind == 3) put_bytes(&t, 4, packed, sizeof packed);                 /* float_data, packed */
            for (int i = 0; i < 3 && kind == 4; i++) put_int(&t, 5, (int32_t)f[i]); /* int32_data, one by one */
            for (int i = 0; i < 3 && kind == 5; i++) put_varint(&pack, (uint64_t)(int64_t)f[i]);
            if (kind == 5) put_msg(&t, 7, &pack); /* int64_data, packed */
            put_msg(&graph, 5, &t);
        }
        put_node(&graph, "Identity", "w", "y", NULL);
        put_io(&graph, 12, "y", kind < 4 ? 1 : kind + 2, 1, three);
        put_model(&file, &graph, 13);
        CHECK(run_model(&file, NULL, 1, 1, y, 3) == 3 && y[0] == 1 && y[1] == 2 && y[2] == -3);
    }
}

/* -- weights in a file of their own; offset, length: may be NULL */
static void external_model(const char *location, const char *offset, const char *length)
{
    static msg t, e;
    t.n = graph.n = 0;
    put_text(&graph, 2, "g");
    put_int(&t, 1, 3);
    put_int(&t, 2, 1);
    put_text(&t, 8, "w");
    const char *pair[3][2] = {{"length", length}, {"location", location}, {"offset", offset}};
    for (int i = 0; i < 3; i++) {
        if (!pair[i][1]) continue;
        e.n = 0;
        put_text(&e, 1, pair[i][0]);
        put_text(&e, 2, pair[i][1]);
        put_msg(&t, 13, &e);
    }
    put_int(&t, 14, 1);
    put_msg(&graph, 5, &t);
    put_node(&graph, "Identity", "w", "y", NULL);
    put_io(&graph, 12, "y", 1, 1, three);
    put_model(&file, &graph, 13);
}
static bool write_file(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    const bool ok = f && fwrite(p, 1, n, f) == n;
    return f && fclose(f) == 0 && ok;
}

/* Imports the model and checks its three weights. */
static tp_status external_weights(const char *path, const float *want)
{
    tp_onnx_model m;
    tp_graph *g = tp_graph_new(NULL);
    tp_tensor y;
    memset(&y, 0, sizeof y);
    tp_session *s = NULL;
    tp_status st = g ? tp_import_onnx(g, path, NULL, &m) : TP_ERR_NOMEM;
    if (st == TP_OK)
        st = (s = tp_session_new(g, NULL)) != NULL ? tp_session_eval(s, m.output[0].node, &y) : TP_ERR_NOMEM;
    for (int i = 0; i < 3 && st == TP_OK; i++) CHECK((float)tp_tensor_get(&y, i) == want[i]);
    tp_session_free(s);
    tp_tensor_free(&y);
    tp_graph_free(g);
    return st;
}
static char external_folder[300]; /* with w.bin, and files that have no business there */
static void make_external_folder(const float *numbers, const char *path)
{
    static const char *const others[] = {"../w.bin", "sub/w.bin", "back\\slash.bin"};
    static const float other_numbers[] = {7, 7, 7, 7};
    unsigned char bytes[4 * sizeof *numbers];
    char sub[400], link[400];
    snprintf(sub, sizeof sub, "%s/sub", external_folder);
    CHECK_OK(tp_make_dirs(sub));
    tp_test_little_endian(bytes, other_numbers, sizeof bytes, 4);
    for (int i = 0; i < TP_COUNT(others); i++) {
        snprintf(sub, sizeof sub, "%s/%s", external_folder, others[i]);
        CHECK(write_file(sub, bytes, sizeof bytes));
    }
    tp_test_little_endian(bytes, numbers, sizeof bytes, 4);
    static const char *const same[] = {"sub/..w.bin", "..w.bin", "w.bin"};
    for (int i = 0; i < TP_COUNT(same); i++) {
        snprintf(sub, sizeof sub, "%s/%s", external_folder, same[i]);
        CHECK(write_file(sub, bytes, sizeof bytes));
    }
    snprintf(link, sizeof link, "%s/link.bin", external_folder);
    CHECK(symlink(sub, link) == 0);
    snprintf(link, sizeof link, "%s/out", external_folder);
    CHECK(symlink("..", link) == 0);
    snprintf(link, sizeof link, "%s/sub/out", external_folder);
    CHECK(symlink("../..", link) == 0);
    external_model("w.bin", "4", "12");
    CHECK(write_file(path, file.b, file.n));
}

TEST(external_data_stays_in_its_folder)
{
    static const float numbers[] = {9, 1, 2, 3};
    static const struct {
        const char *location, *offset, *length, *sentence; /* sentence NULL: it is read */
        int first;                                         /* of the numbers */
    } row[] = {{"w.bin", "4", "12", NULL, 1},
               {"w.bin", "4", NULL, NULL, 1},
               {"w.bin", NULL, "12", NULL, 0},
               {"../w.bin", "4", "12", "no plain file in the model's folder", 0},
               {"..w.bin", "4", "12", NULL, 1}, /* names that begin with two dots, and lead nowhere else */
               {"sub/..w.bin", "4", "12", NULL, 1},
               {"..", "0", "12", "no plain file in the model's folder", 0},
               {"sub/..", "0", "12", "no plain file in the model's folder", 0},
               {"sub/../w.bin", "4", "12", "no plain file in the model's folder", 0},
               {"sub/../../w.bin", "4", "12", "no plain file in the model's folder", 0},
               {"/etc/passwd", "0", "12", "no plain file in the model's folder", 0},
               {"/sub/w.bin", "4", "12", "no plain file in the model's folder", 0},
               {"back\\slash.bin", "4", "12", "no plain file in the model's folder", 0},
               {"link.bin", "4", "12", "no plain file in the model's folder", 0},
               {"out/w.bin", "4", "12", "no plain file in the model's folder", 0}, /* out: a link to a folder */
               {"sub/out/w.bin", "4", "12", "no plain file in the model's folder", 0},
               {"sub//./..w.bin", "4", "12", NULL, 1},
               {"w.bin/", "4", "12", "no plain file in the model's folder", 0},
               {"w.bin/x", "4", "12", "no plain file in the model's folder", 0},
               {"sub/", "4", "12", "no plain file in the model's folder", 0},
               {"w\n[1130] \033[2Jx\177", "4", "12", "should lie in 'w [1130] ?[2Jx?', which is no plain file", 0},
               {"sub", "0", "12", "no plain file in the model's folder", 0},
               {"missing.bin", "0", "12", "no plain file in the model's folder", 0},
               {"", "0", "12", "which is not named", 0},
               {NULL, "0", "12", "which is not named", 0},
               {"w.bin", "8", "12", "12 bytes from byte 8 of 'w.bin' on, which has 16", 0},
               {"w.bin", "17", NULL, "-1 bytes from byte 17 of 'w.bin' on, which has 16", 0},
               {"w.bin", "16", "0", "0 bytes for 3 elements", 0},
               {"w.bin", "-4", "12", "from byte -4", 0},
               {"w.bin", "4", "-1", "-1 bytes from byte 4 of", 0},
               {"w.bin", NULL, "-12", "-12 bytes from byte 0 of", 0},
               {"w.bin", "9223372036854775807", "9223372036854775807", "which has 16", 0},
               {"w.bin", "4", "8", "8 bytes for 3 elements", 0},
               {"w.bin", "abc", "12", "the offset of its data in another file is 'abc', which is no number", 0},
               {"w.bin", "4x", "12", "is '4x', which is no number", 0},
               {"w.bin", "", "12", "is '', which is no number", 0},
               {"w.bin", " 4", "12", "is ' 4', which is no number", 0},
               {"w.bin", "4", "12x", "the length of its data in another file is '12x', which is no number", 0}};
    char path[400], here[4096];
    snprintf(external_folder, sizeof external_folder, "%s/m", tp_test_tmpdir());
    snprintf(path, sizeof path, "%s/model.onnx", external_folder);
    make_external_folder(numbers, path);
    if (CHECK(getcwd(here, sizeof here) != NULL && chdir(external_folder) == 0)) { /* a path without a folder */
        CHECK_OK(external_weights("model.onnx", numbers + 1));
        CHECK(chdir(here) == 0);
    }
    for (int i = 0; i < TP_COUNT(row); i++) {
        tp_test_fail_after(1 << 30); /* none fails; they are counted */
        external_model(row[i].location, row[i].offset, row[i].length);
        CHECK(write_file(path, file.b, file.n));
        const tp_status st = external_weights(path, numbers + row[i].first);
        if (!row[i].sentence) CHECK_OK(st);
        else CHECK_ERR(st, st < TP_OK ? st : TP_ERR_FORMAT, row[i].sentence);
        CHECK_MSG(tp_test_live_blocks() == 0, "row %d leaks", i);
    }
    CHECK(refused(&file, NULL, "a model from memory does not have"));
    for (int dots = 0; dots < 3000; dots += 1400) { /* a long name is a piece of memory of its own */
        char location[3100];
        memset(location, '/', sizeof location);
        for (int i = 0; i < dots; i += 2) location[i] = '.';
        snprintf(location + dots, sizeof location - (size_t)dots, "w.bin");
        external_model(location, "4", "12");
        CHECK(write_file(path, file.b, file.n));
        for (long n = 1, failed = 1; failed; n++) {
            tp_test_fail_after(n);
            const tp_status st = external_weights(path, numbers + 1);
            failed = tp_test_alloc_failed();
            CHECK_MSG(st == (failed ? TP_ERR_NOMEM : TP_OK), "%d, allocation %ld: %s", dots, n, tp_status_name(st));
            CHECK_MSG(tp_test_live_blocks() == 0, "%d, allocation %ld leaks", dots, n);
        }
    }
    tp_test_alloc_reset();
}

/* No number that a file gives as a size stands for an unknown size. */
TEST(sizes_below_minus_one)
{
    static const int64_t sizes[] = {
        -2, INT64_MIN, INT64_MIN + 4710, INT64_MIN + 4711 + 65536, INT64_MIN + 4711 + 65537, -65536};
    static const char *const ops[] = {"Reshape", "Expand"};
    for (int i = 0; i < 2 * TP_COUNT(sizes); i++) {
        char sentence[80];
        const int64_t list[2] = {sizes[i / 2], 2};
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, 2, n_by_2);
        put_weight(&graph, "s", 7, 1, two, list, sizeof list);
        put_node(&graph, ops[i % 2], "x,s", "y", NULL);
        put_io(&graph, 12, "y", 1, 2, n_by_2);
        put_model(&file, &graph, 13);
        snprintf(sentence, sizeof sentence, "%s has a dimension of %lld", ops[i % 2], (long long)sizes[i / 2]);
        CHECK(refused(&file, NULL, sentence));
    }
}

/* Zeros of the shape of x, whose sizes are known at run time alone: any of them may be 0. */
TEST(zeros_of_a_shape_that_is_unknown)
{
    static const int64_t open[][3] = {{-1, -1, 2}, {-1, 0, 2}, {-1, 3, 2}, {4, -1, -1}, {-1, -1, -1}};
    static const float x[64] = {1, 2, 3};
    for (int i = 0; i < TP_COUNT(open); i++)
        for (int sizes = 0; sizes < 8; sizes++) {
            const int64_t given[] = {sizes & 1 ? 4 : 0, sizes & 2 ? 3 : 0, sizes & 4 ? 2 : 0};
            bool fits = true;
            int64_t n = 1;
            for (int d = 0; d < 3; d++) fits &= open[i][d] < 0 || open[i][d] == given[d], n *= given[d];
            if (!fits) continue;
            const tp_shape shape = tp_make_shape_n(3, given);
            double y[64];
            graph.n = 0;
            put_text(&graph, 2, "g");
            put_io(&graph, 11, "x", 1, 3, open[i]);
            put_node(&graph, "Shape", "x", "s", NULL);
            put_node(&graph, "ConstantOfShape", "s", "y", NULL);
            put_io(&graph, 12, "y", 1, 3, open[i]);
            put_model(&file, &graph, 13);
            const int got = run_file(&shape, x, 64, y);
            CHECK_MSG(got == (int)n, "row %d, sizes %d: %d of %d: %s", i, sizes, got, (int)n, tp_last_error());
            for (int k = 0; k < got; k++) CHECK(y[k] == 0);
        }
}

/* Sizes of CenterCropPad: of all axes, of some, of none, and what does not go. */
TEST(crops_and_pads_in_the_centre)
{
    static const struct {
        int n_axes, n_sizes; /* n_axes -1: no list of axes */
        int64_t axes[2], sizes[3];
        const char *refused;
        int n;
        double y[6];
    } row[] = {{-1, 2, {0}, {2, 2}, NULL, 4, {1, 2, 3, 4}},
               {-1, 2, {0}, {1, 4}, NULL, 4, {0, 1, 2, 0}},
               {-1, 2, {0}, {1, 3}, NULL, 3, {1, 2, 0}},
               {-1, 2, {0}, {3, 1}, NULL, 3, {1, 3, 0}},
               {1, 1, {0}, {1}, NULL, 2, {1, 2}},
               {1, 1, {-1}, {1}, NULL, 2, {1, 3}},
               {1, 1, {1}, {0}, NULL, 0, {0}},
               {0, 0, {0}, {0}, NULL, 4, {1, 2, 3, 4}},
               {0, 2, {0}, {2, 2}, "CenterCropPad has 2 sizes for 0 axes", 0, {0}},
               {-1, 1, {0}, {2}, "CenterCropPad has 1 sizes for 2 axes", 0, {0}},
               {-1, 0, {0}, {2}, "CenterCropPad has 0 sizes for 2 axes", 0, {0}},
               {-1, 3, {0}, {2, 2, 2}, "CenterCropPad has 3 sizes for 2 axes", 0, {0}},
               {1, 2, {0}, {2, 2}, "CenterCropPad has 2 sizes for 1 axes", 0, {0}},
               {2, 2, {0, -2}, {2, 2}, "names axis 0 twice", 0, {0}},
               {1, 1, {2}, {2}, "CenterCropPad has axis 2 of a value with 2 dimensions", 0, {0}},
               {1, 1, {-3}, {2}, "CenterCropPad has axis -3 of a value with 2 dimensions", 0, {0}},
               {1, 1, {0}, {-1}, "CenterCropPad to a size of -1", 0, {0}}};
    for (int i = 0; i < TP_COUNT(row); i++) {
        const int64_t n_sizes = row[i].n_sizes;
        double y[6];
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, 2, two_by_2);
        put_weight(&graph, "s", 7, 1, &n_sizes, row[i].sizes, (size_t)n_sizes * 8);
        put_node(&graph, "CenterCropPad", "x,s", "y",
                 row[i].n_axes >= 0 ? ints_attribute("axes", row[i].axes, row[i].n_axes) : NULL);
        put_io(&graph, 12, "y", 1, 2, n_by_2);
        put_model(&file, &graph, 18);
        if (row[i].refused) CHECK(refused(&file, NULL, row[i].refused));
        else if (CHECK_MSG(run_model(&file, NULL, 2, 2, y, 6) == row[i].n, "row %d", i))
            for (int k = 0; k < row[i].n; k++) CHECK_MSG(y[k] == row[i].y[k], "row %d: %d: %g", i, k, y[k]);
    }
}

TEST(mistakes_are_sentences)
{
    static const float f[] = {1, 2, 3};
    static const int64_t huge[] = {INT64_C(1) << 40, INT64_C(1) << 40}, longer[] = {1, INT64_C(1) << 62},
                         zero_huge[] = {0, INT64_MAX, INT64_MAX}, minus[] = {-1, 2};
    static msg junk;
    junk.n = 0;
    put_text(&junk, 1, "not a model");
    CHECK(refused(&junk, NULL, "no ONNX model"));
    junk.n = 0;
    CHECK(refused(&junk, NULL, "no ONNX model"));

#define START() (graph.n = 0, put_text(&graph, 2, "g"), put_io(&graph, 11, "x", 1, 2, n_by_2))
#define END()   (put_io(&graph, 12, "y", 1, 2, n_by_2), put_model(&file, &graph, 13))
    START();
    put_node(&graph, "Add", "x,b", "a", NULL);
    put_node(&graph, "Relu", "a", "b", NULL);
    END();
    CHECK(refused(&file, NULL, "takes 'b', which nothing before it makes")); /* a cycle */
    START();
    put_node(&graph, "Relu", "y", "y", NULL);
    END();
    CHECK(refused(&file, NULL, "takes 'y', which nothing before it makes"));
    START();
    put_node(&graph, "Relu", "x", "y", NULL);
    put_node(&graph, "Abs", "x", "y", NULL);
    END();
    CHECK(refused(&file, NULL, "makes 'y', which is there already"));
    START();
    END();
    CHECK(refused(&file, NULL, "the output 'y' is made by no node"));
    START();
    put_node(&graph, "Frobnicate", "x", "y", NULL);
    END();
    CHECK(refused(&file, NULL, "y: tp has no operator Frobnicate"));
    START();
    put_node(&graph, "Relu", "x", "y", NULL);
    put_io(&graph, 12, "y", 1, 2, n_by_2);
    put_model(&file, &graph, 0);
    CHECK(refused(&file, NULL, "which version of the operators"));
    START();
    put_node(&graph, "Softmax", "x", "y", int_attribute("axis", 7));
    END();
    CHECK(refused(&file, NULL, "axis 7 of a value with 2 dimensions"));
    START();
    put_node(&graph, "Softmax", "x", "y", ints_attribute("axis", two, 1));
    END();
    CHECK(refused(&file, NULL, "the attribute 'axis' is of another kind"));
    START();
    put_node(&graph, "Add", "x", "y", NULL);
    END();
    CHECK(refused(&file, NULL, "Add lacks its input 1"));
    START();
    put_weight(&graph, "w", 1, 2, huge, f, sizeof f);
    END();
    CHECK(refused(&file, NULL, "the tensor 'w' has impossible dimensions"));
    START();
    put_weight(&graph, "w", 1, 3, zero_huge, f, 0);
    END();
    CHECK(refused(&file, NULL, "the tensor 'w' has impossible dimensions"));
    START();
    put_weight(&graph, "w", 1, 2, minus, f, sizeof f);
    END();
    CHECK(refused(&file, NULL, "the tensor 'w' has impossible dimensions"));
    START();
    put_weight(&graph, "w", 1, 2, two_by_2, f, sizeof f);
    END();
    CHECK(refused(&file, NULL, "12 bytes for 4 elements of float32"));
    static msg weight; /* its last field should have 127 bytes, and has none */
    weight.n = 0;
    put_int(&weight, 2, 1);
    put_text(&weight, 8, "w");
    weight.b[weight.n++] = 9 << 3 | 2;
    weight.b[weight.n++] = 127;
    START();
    put_msg(&graph, 5, &weight);
    put_node(&graph, "Relu", "x", "y", NULL);
    END();
    CHECK(refused(&file, NULL, "the tensor 'w' is damaged"));
    START();
    put_weight(&graph, "w", 3, 1, three, f, 3);
    END();
    CHECK(refused(&file, NULL, "'w' is int8, which tp does not have"));
    START();
    put_weight(&graph, "x", 1, 1, three, f, sizeof f);
    put_weight(&graph, "x", 1, 1, three, f, sizeof f);
    END();
    CHECK(refused(&file, NULL, "two values are called 'x'"));
    START();
    put_io(&graph, 11, "big", 1, 2, huge);
    END();
    CHECK(refused(&file, NULL, "the input 'big' has impossible dimensions"));
    START();
    put_io(&graph, 11, "s", 8, 1, one);
    END();
    CHECK(refused(&file, NULL, "'s' is string"));
    START(); /* what the graph finds carries the node's name too */
    put_weight(&graph, "w", 1, 1, three, f, sizeof f);
    put_node(&graph, "Add", "x,w", "y", NULL);
    END();
    CHECK(refused(&file, NULL, "y: Add"));
    START(); /* a terabyte of zeros */
    put_weight(&graph, "s", 7, 1, two, huge, sizeof huge);
    put_node(&graph, "ConstantOfShape", "s", "y", NULL);
    END();
    CHECK(refused(&file, NULL, "ConstantOfShape"));
    START(); /* longer than any dimension may be */
    put_weight(&graph, "s", 7, 1, two, longer, sizeof longer);
    put_node(&graph, "Tile", "x,s", "y", NULL);
    END();
    CHECK(refused(&file, NULL, "y: Tile"));
    START();
    put_node(&graph, "Gemm", "x,x", "y", int_attribute("transB", 1));
    put_node(&graph, "Reshape", "x,y", "z", NULL);
    END();
    CHECK(refused(&file, NULL, "must be known when the graph is built"));
}

/* The model of one operator with one attribute. Input x and output y have the same shape; `inputs` names x once or more often. */
static void one_operator(const char *op, const char *inputs, const msg *attribute, const int64_t shape[4], int opset)
{
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_io(&graph, 11, "x", 1, 4, shape);
    put_node(&graph, op, inputs, "y", attribute);
    put_io(&graph, 12, "y", 1, 4, shape);
    put_model(&file, &graph, opset);
}

/* Operators of opset 6 that mean something else since are refused, and are taken where they mean the same. */
TEST(operators_that_meant_something_else)
{
    static const int64_t picture[] = {1, 2, 2, 2};
    static const float two_numbers[] = {1, 2};
    static const struct {
        const char *op, *in;
        const char *attribute[2];
        int64_t value[2];
        const char *sentence; /* in opset 6; NULL: it is taken, as all are in opset 7 */
    } row[] = {{"Add", "x,w", {"broadcast", "axis"}, {1, 1}, "Add of opset 6 broadcasts along an axis"},
               {"Mul", "x,w", {"broadcast", "axis"}, {1, 3}, "Mul of opset 6 broadcasts along an axis"},
               {"Add",
                "x,w",
                {"broadcast", NULL},
                {1, 0},
                NULL}, /* without axis: along the last dimensions, as in newer opsets */
               {"Add", "x,x", {"broadcast", NULL}, {0, 0}, NULL},
               {"PRelu", "x,w", {NULL, NULL}, {0, 0}, "before opset 7 PRelu has a slope for each channel"},
               {"BatchNormalization", "x,w,w,w,w", {"is_test", NULL}, {1, 0}, NULL},
               {"BatchNormalization", "x,w,w,w,w", {"is_test", NULL}, {0, 0}, "without is_test = 1"},
               {"BatchNormalization", "x,w,w,w,w", {NULL, NULL}, {0, 0}, "without is_test = 1"}};
    for (int i = 0; i < TP_COUNT(row); i++)
        for (int opset = 6; opset <= 7; opset++) {
            static msg node;
            node.n = graph.n = 0;
            put_text(&graph, 2, "g");
            put_io(&graph, 11, "x", 1, 4, picture);
            put_weight(&graph, "w", 1, 1, two, two_numbers, sizeof two_numbers);
            put_names(&node, 1, row[i].in);
            put_names(&node, 2, "y");
            put_text(&node, 4, row[i].op);
            for (int k = 0; k < 2; k++)
                if (row[i].attribute[k]) put_msg(&node, 5, int_attribute(row[i].attribute[k], row[i].value[k]));
            put_msg(&graph, 1, &node);
            put_io(&graph, 12, "y", 1, 4, picture);
            put_model(&file, &graph, opset);
            const char *sentence = opset == 6 ? row[i].sentence : NULL;
            CHECK_MSG(sentence ? refused(&file, NULL, sentence) : accepted(&file), "row %d, opset %d", i, opset);
        }
}

TEST(an_opset_that_is_not_known_yet)
{
    static const int64_t picture[] = {1, 2, 2, 2};
    tp_test_keep_log();
    one_operator("Relu", "x", NULL, picture, 28);
    CHECK(accepted(&file));
    CHECK_STR(tp_test_logged, "");
    one_operator("Relu", "x", NULL, picture, 99);
    CHECK(accepted(&file));
    CHECK_HAS(tp_test_logged, "model.onnx: opset 99 is newer than 28, the newest that is known here");
    tp_set_log(NULL, NULL);
}

/* LRN takes from 1 to 2^20 channels at a time. */
TEST(channels_that_are_normalised_together)
{
    static const struct {
        int64_t size;
        bool right;
    } list[] = {{0, false}, {1, true}, {2, true}, {1 << 20, true}, {(1 << 20) + 1, false}, {1 << 21, false}};
    static const int64_t picture[] = {1, 3, 2, 2};
    for (int i = 0; i < TP_COUNT(list); i++) {
        one_operator("LRN", "x", int_attribute("size", list[i].size), picture, 13);
        if (!list[i].right) CHECK(refused(&file, NULL, "that size"));
        else CHECK(accepted(&file));
    }
}

/* The places of GatherND are vectors: a list is one of them, a single number is none. */
TEST(places_are_vectors)
{
    static const int64_t at[2] = {1, 0};
    double y[2];
    for (int nd = 0; nd < 2; nd++) {
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, 2, two_by_2);
        put_weight(&graph, "i", 7, nd, two, at, nd ? 16 : 8);
        put_node(&graph, "GatherND", "x,i", "y", NULL);
        put_io(&graph, 12, "y", 1, 0, NULL);
        put_model(&file, &graph, 13);
        if (nd) CHECK(run_model(&file, NULL, 2, 2, y, 2) == 1 && y[0] == 3);
        else CHECK(refused(&file, NULL, "GatherND has places of 0 numbers in a value with 2 dimensions"));
    }
}

/* ScatterND and GatherND of as many dimensions as there are, and of more. */
static void scatter_model(int x_ndim, int i_ndim, int u_ndim)
{
    static const int64_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1}, at[1] = {0};
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_io(&graph, 11, "x", 1, x_ndim, ones);
    put_io(&graph, 11, "u", 1, u_ndim, ones);
    put_weight(&graph, "i", 7, i_ndim, ones, at, sizeof at);
    put_node(&graph, "ScatterND", "x,i,u", "y", NULL);
    put_io(&graph, 12, "y", 1, x_ndim, ones);
    put_model(&file, &graph, 18);
}
TEST(dimensions_of_updates)
{
    static const int64_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1}, at[1] = {0};
    scatter_model(8, 1, 7);
    CHECK(accepted(&file));
    scatter_model(1, 8, 7);
    CHECK(accepted(&file));
    scatter_model(8, 1, 8);
    CHECK(refused(&file, NULL, "y: ScatterND has updates with 8 dimensions; its places and what it changes ask for 7"));
    scatter_model(4, 1, 8);
    CHECK(refused(&file, NULL, "updates with 8 dimensions; its places and what it changes ask for 3, of at most 7"));
    scatter_model(1, 8, 1);
    CHECK(refused(&file, NULL, "updates with 1 dimensions; its places and what it changes ask for 7, of at most 8"));
    scatter_model(8, 8, 8);
    CHECK(refused(&file, NULL, "updates with 8 dimensions; its places and what it changes ask for 14, of at most 8"));
    for (int nd = 1; nd <= 8; nd += 7) {
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, 8, ones);
        put_weight(&graph, "i", 7, nd, ones, at, sizeof at);
        put_node(&graph, "GatherND", "x,i", "y", NULL);
        put_io(&graph, 12, "y", 1, 8, ones);
        put_model(&file, &graph, 18);
        CHECK(nd == 1 ? accepted(&file) : refused(&file, NULL, "y: GatherND makes more than 8 dimensions"));
    }
}

/* A weight w (2,3), whose elements of the type `elem` are 0 to 5, and an index: a weight too, or the input. */
static int indexed(const char *op, int elem, int64_t axis, int ndim, const int64_t *dims, const float *index,
                   bool is_known, double *y)
{
    static const int64_t two_by_3[] = {2, 3};
    static const float floats[] = {0, 1, 2, 3, 4, 5};
    static const int64_t ints[] = {0, 1, 2, 3, 4, 5};
    const bool scatters = op[0] == 'S', is_float = elem == 1;
    int64_t count = 1, known[8], of_updates[2];
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model m;
    int got = -1;
    for (int d = 0; d < ndim; d++) count *= dims[d];
    for (int i = 0; i < count; i++) known[i] = (int64_t)index[i];
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_io(&graph, 11, "x", 1, ndim, dims);
    put_weight(&graph, "w", elem, 2, two_by_3, is_float ? (const void *)floats : ints, is_float ? 24 : 48);
    put_weight(&graph, "k", 7, ndim, dims, known, (size_t)count * 8);
    put_node(&graph, "Cast", "x", "c", int_attribute("to", 7));
    memcpy(of_updates, dims, sizeof of_updates);
    if (strstr(op, "ND")) of_updates[1] = 3; /* an index of one number picks a whole row of three */
    const int nu = strstr(op, "ND") && dims[1] == 2 ? 1 : 2;
    put_weight(&graph, "u", elem, nu, of_updates, is_float ? (const void *)floats : ints,
               (size_t)(nu == 1 ? dims[0] : of_updates[0] * of_updates[1]) * (is_float ? 4 : 8));
    put_node(&graph, "Neg", "w", "minus", NULL);
    put_node(&graph, op,
             scatters   ? is_known ? "w,k,u" : "w,c,u"
             : is_known ? "w,k"
                        : "w,c",
             "y", axis < 0 ? NULL : int_attribute("axis", axis));
    put_io(&graph, 12, "y", elem, 0, NULL);
    put_model(&file, &graph, 18);
    if (tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m) == TP_OK) {
        tp_session *s = tp_session_new(g, NULL);
        tp_node *fetch = m.output[0].node;
        const tp_tensor *out = NULL;
        tp_feed feed;
        memset(&feed, 0, sizeof feed);
        feed.node = m.input[0].node;
        tp_tensor_view(&feed.value, TP_F32, tp_make_shape_n(ndim, dims), index);
        if (tp_session_run(s, &feed, 1, &fetch, 1, &out) == TP_OK)
            for (got = 0; got < (int)tp_tensor_size(out); got++) y[got] = tp_tensor_get(out, got);
        tp_session_free(s);
    }
    tp_graph_free(g);
    return got;
}
/* An index that is outside of its own axis picks no element of another row: the import or the run fails. */
TEST(indices_outside_of_their_axis)
{
    static const struct {
        const char *op;
        int64_t axis, dims[2]; /* of the index */
        float index[2];
        int size; /* elements of the result; 0: the import or the run fails */
        double first;
    } row[] = {{"GatherElements", 1, {1, 1}, {2}, 1, 2},
               {"GatherElements", 1, {1, 1}, {-3}, 1, 0},
               {"GatherElements", 1, {1, 1}, {3}, 0, 0},
               {"GatherElements", 1, {1, 1}, {-4}, 0, 0},
               {"GatherElements", 1, {2, 1}, {0, 2}, 2, 0},
               {"GatherElements", 1, {2, 1}, {0, 3}, 0, 0},
               {"GatherElements", 1, {2, 1}, {0, 4294967296.0f}, 0, 0},
               {"GatherElements", 1, {2, 1}, {0, -4294967296.0f}, 0, 0},
               {"GatherElements", 0, {1, 1}, {-2}, 1, 0},
               {"GatherElements", 0, {1, 1}, {2}, 0, 0},
               {"GatherElements", 0, {1, 2}, {-3, 0}, 0, 0},
               {"GatherND", -1, {1, 2}, {1, 2}, 1, 5},
               {"GatherND", -1, {1, 2}, {0, 4}, 0, 0},
               {"GatherND", -1, {1, 2}, {1, -4}, 0, 0},
               {"GatherND", -1, {1, 2}, {2, -3}, 0, 0},
               {"GatherND", -1, {1, 1}, {1}, 3, 3},
               {"GatherND", -1, {1, 1}, {2}, 0, 0},
               {"ScatterElements", 1, {1, 1}, {2}, 6, 0},
               {"ScatterElements", 1, {1, 1}, {4}, 0, 0},
               {"ScatterElements", 1, {1, 1}, {-4}, 0, 0},
               {"ScatterElements", 0, {1, 2}, {2, 0}, 0, 0},
               {"ScatterND", -1, {1, 2}, {1, 2}, 6, 0},
               {"ScatterND", -1, {1, 2}, {0, 4}, 0, 0},
               {"ScatterND", -1, {1, 2}, {2, 0}, 0, 0},
               {"ScatterND", -1, {1, 1}, {-2}, 6, 0},
               {"ScatterND", -1, {1, 1}, {2}, 0, 0}};
    for (int i = 0; i < TP_COUNT(row); i++)
        for (int kind = 0; kind < 4; kind++) {
            double y[6] = {9};
            const int got =
                indexed(row[i].op, kind & 1 ? 7 : 1, row[i].axis, 2, row[i].dims, row[i].index, kind & 2, y);
            CHECK_MSG(got == (row[i].size ? row[i].size : -1), "row %d, kind %d: %d, %s", i, kind, got,
                      tp_last_error());
            if (got > 0) CHECK(y[0] == row[i].first);
            else if (kind & 2) CHECK(strstr(tp_last_error(), "along dimension ") || strstr(tp_last_error(), "outside"));
            else CHECK_HAS(tp_last_error(), "outside");
        }
    static const int64_t too_wide[] = {1, 4}, one_row[] = {3, 1};
    static const float zeros[4] = {0};
    double y[6];
    for (int kind = 0; kind < 4; kind++) {
        const char *op = kind & 1 ? "ScatterElements" : "GatherElements";
        CHECK(indexed(op, 7, 0, 2, too_wide, zeros, kind & 2, y) < 0);
        CHECK_HAS(tp_last_error(), "Elements has an index with 4 elements along dimension 1, which has 3");
        CHECK(indexed(op, 7, 1, 2, one_row, zeros, kind & 2, y) < 0);
        CHECK_HAS(tp_last_error(), "Elements has an index with 3 elements along dimension 0, which has 2");
    }
}

/* A label of a loss that is no class fails the run, but for the one that is ignored. */
TEST(labels_that_are_no_class)
{
    static const struct {
        float label[2];
        bool ignores, runs;
    } row[] = {{{0, 2}, false, true}, {{0, 3}, false, false}, {{-1, 0}, false, false},
               {{-1, 0}, true, true}, {{99, 0}, true, false}, {{0, -2}, true, false}};
    static const char *const op[] = {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"};
    static const int64_t scores[] = {2, 3};
    static const float s[] = {1, 2, 3, 4, 5, 6};
    for (int i = 0; i < 2 * TP_COUNT(row); i++) {
        const tp_shape shape = tp_make_shape_n(1, two);
        tp_graph *g = tp_graph_new(NULL);
        tp_onnx_model m;
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, 1, two);
        put_weight(&graph, "s", 1, 2, scores, s, sizeof s);
        put_node(&graph, "Cast", "x", "label", int_attribute("to", 7));
        put_node(&graph, op[i % 2], "s,label", "y", row[i / 2].ignores ? int_attribute("ignore_index", -1) : NULL);
        put_io(&graph, 12, "y", 1, 0, NULL);
        put_model(&file, &graph, 17);
        if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m))) {
            tp_session *session = tp_session_new(g, NULL);
            tp_node *fetch = m.output[0].node;
            const tp_tensor *out = NULL;
            tp_feed feed;
            memset(&feed, 0, sizeof feed);
            feed.node = m.input[0].node;
            tp_tensor_view(&feed.value, TP_F32, shape, row[i / 2].label);
            const tp_status st = tp_session_run(session, &feed, 1, &fetch, 1, &out);
            if (row[i / 2].runs) CHECK_OK(st);
            else CHECK_ERR(st, st < TP_OK ? st : TP_ERR, "is outside the rows");
            tp_session_free(session);
        }
        tp_graph_free(g);
    }
}

/* Imports `file`, a model of one input, feeds x, and reads its output y and, if dx is not NULL, the gradient of its sum; at most 16
 * numbers of each. Returns the number of elements of y; -1: an error. */
static int values_and_gradient(tp_dtype dtype, tp_shape shape, const void *x, double *y, double *dx)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model m;
    tp_session *s = NULL;
    int n = -1;
    if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m))) {
        tp_node *fetch[2] = {m.output[0].node, NULL};
        const tp_tensor *out[2] = {NULL, NULL};
        const tp_feed feed = tp_make_feed(m.input[0].node, dtype, shape, x);
        if (dx) tp_gradients(tp_sum(fetch[0]), &m.input[0].node, 1, &fetch[1]);
        if (CHECK((s = tp_session_new(g, NULL)) != NULL) &&
            CHECK_OK(tp_session_run(s, &feed, 1, fetch, dx ? 2 : 1, out))) {
            n = (int)tp_tensor_size(out[0]);
            for (int i = 0; i < n && i < 16; i++) y[i] = tp_tensor_get(out[0], i);
            for (int i = 0; dx && i < tp_tensor_size(out[1]) && i < 16; i++) dx[i] = tp_tensor_get(out[1], i);
        }
    }
    tp_session_free(s);
    tp_graph_free(g);
    return n;
}

/* As in PyTorch and of the layer PReLU, the derivative at 0 is the slope. */
TEST(prelu_has_its_slope_at_zero)
{
    static const int64_t row[] = {1, 3};
    static const float x[3] = {-2, 0, 2}, slope[1] = {0.25f};
    double y[16], dx[16];
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_io(&graph, 11, "x", 1, 2, row);
    put_weight(&graph, "slope", 1, 1, one, slope, sizeof slope);
    put_node(&graph, "PRelu", "x,slope", "y", NULL);
    put_io(&graph, 12, "y", 1, 2, row);
    put_model(&file, &graph, 17);
    if (!CHECK(values_and_gradient(TP_F32, tp_make_shape_n(2, row), x, y, dx) == 3)) return;
    CHECK(y[0] == -0.5 && y[1] == 0 && y[2] == 2);
    CHECK(dx[0] == 0.25 && dx[1] == 0.25 && dx[2] == 1);
    /* a trained weight of one element may be a constant of a formula; i 2: unless the file tells */
    for (int i = 0; i < 3; i++) {
        if (i == 2) {
            static msg entry;
            entry.n = 0;
            put_text(&entry, 1, "tp.untrained");
            put_text(&entry, 2, "other");
            put_msg(&file, 14, &entry);
        }
        tp_import_onnx_desc d;
        tp_onnx_model m;
        tp_graph *g = tp_graph_new(NULL);
        memset(&d, 0, sizeof d);
        d.trainable = TP_YES, d.constants = i == 1 ? "slope" : NULL;
        tp_test_keep_log();
        CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &m));
        CHECK((strstr(tp_test_logged, "1 of the trained weights have one element each, as 'slope'") != NULL) ==
              (i == 0));
        tp_graph_free(g);
    }
}

/* The loss is that of the label's class alone: a class of probability 0, whose logarithm is -infinity, changes nothing. Neither does
 * the class that stands for an ignored label. */
TEST(losses_beside_a_class_of_probability_zero)
{
    static const char *const op[] = {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"};
    static const float x[6] = {-INFINITY, -1, -2, -INFINITY, -3, -1};
    static const int64_t by_class[] = {2, 3}, label[2][2] = {{1, 2}, {1, -1}};
    const double lost = log(1 + exp(-1.0)), p = 1 / (1 + exp(-1.0)), q = 1 / (1 + exp(-2.0));
    for (int i = 0; i < 4; i++) {
        const bool ignores = i / 2 == 1;
        double y[16], dx[16];
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, 2, by_class);
        put_weight(&graph, "label", 7, 1, two, label[i / 2], 16);
        put_node(&graph, op[i % 2], "x,label", "y", ignores ? int_attribute("ignore_index", -1) : NULL);
        put_io(&graph, 12, "y", 1, 0, NULL);
        put_model(&file, &graph, 17);
        if (!CHECK(values_and_gradient(TP_F32, tp_make_shape_n(2, by_class), x, y, dx) == 1)) continue;
        const double n = ignores ? 1 : 2;
        if (i % 2) {
            CHECK_NEAR(y[0], 1, 0, 1e-6);
            const double want[6] = {0, -1 / n, 0, 0, 0, ignores ? 0 : -0.5};
            for (int k = 0; k < 6; k++) CHECK_NEAR(dx[k], want[k], 0, 0);
        } else {
            CHECK_NEAR(y[0], ignores ? lost : (lost + log(1 + exp(-2.0))) / 2, 1e-6, 0);
            const double want[6] = {
                0, (p - 1) / n, (1 - p) / n, 0, ignores ? 0 : (1 - q) / 2, ignores ? 0 : (q - 1) / 2};
            for (int k = 0; k < 6; k++) CHECK_NEAR(dx[k], want[k], 0, 1e-6);
        }
    }
}

/* asinh and acosh near 0 and 1, and where the square of x is infinite. */
TEST(inverse_hyperbolic_functions)
{
    static const double of_asinh[] = {0, 1e-4, -1e-4, 0.1249, 0.125, -0.9, 1, 3, -1e19, 1e38, INFINITY, -INFINITY},
                        of_acosh[] = {1.0001220703125, 1.125, 1.5, 2, 10, 1e19, 2e19, 1e38, INFINITY, 3, 4, 5};
    for (int i = 0; i < 4; i++) {
        const bool sine = i % 2 == 0, is_double = i / 2 == 1;
        const double *x = sine ? of_asinh : of_acosh, exact = is_double ? 3e-15 : 1.2e-6;
        const tp_shape shape = tp_make_shape(12);
        double y[16], dx[16];
        float single[12];
        for (int k = 0; k < 12; k++) single[k] = (float)x[k];
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", is_double ? 11 : 1, 1, shape.dim);
        put_node(&graph, sine ? "Asinh" : "Acosh", "x", "y", NULL);
        put_io(&graph, 12, "y", is_double ? 11 : 1, 1, shape.dim);
        put_model(&file, &graph, 17);
        const void *fed = is_double ? (const void *)x : single;
        if (!CHECK(values_and_gradient(is_double ? TP_F64 : TP_F32, shape, fed, y, dx) == 12)) continue;
        for (int k = 0; k < 12; k++) {
            const double v = is_double ? x[k] : (double)single[k];
            CHECK_NEAR(y[k], sine ? asinh(v) : acosh(v), 0, exact);
            CHECK_NEAR(dx[k], sine ? 1 / hypot(v, 1) : 1 / (sqrt(v - 1) * sqrt(v + 1)), 1e-37, exact);
        }
    }
}

/* sinh and cosh up to the largest number, also where e^x is infinite, and sinh and atanh near 0, with their derivatives. */
TEST(hyperbolic_functions)
{
    static const char *const op[] = {"Sinh", "Cosh", "Atanh"};
    static const double wide[] = {0, 1e-30, -1e-5, 1e-3, 0.999, 1, -3, 20, 88.7, 89, 89.4, -89.4},
                        narrow[] = {0, 1e-30, -1e-5, 1e-3, 0.1249, 0.125, -0.126, 0.5, -0.9, 0.99, 0.9375, -0.75};
    for (int i = 0; i < 6; i++) {
        const bool is_double = i / 3 == 1;
        const double *x = i % 3 == 2 ? narrow : wide, exact = is_double ? 4e-15 : 2e-6;
        const tp_shape shape = tp_make_shape(12);
        double y[16], dx[16];
        float single[12];
        for (int k = 0; k < 12; k++) single[k] = (float)x[k];
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", is_double ? 11 : 1, 1, shape.dim);
        put_node(&graph, op[i % 3], "x", "y", NULL);
        put_io(&graph, 12, "y", is_double ? 11 : 1, 1, shape.dim);
        put_model(&file, &graph, 17);
        const void *fed = is_double ? (const void *)x : single;
        if (!CHECK(values_and_gradient(is_double ? TP_F64 : TP_F32, shape, fed, y, dx) == 12)) continue;
        for (int k = 0; k < 12; k++) {
            const double v = is_double ? x[k] : (double)single[k];
            CHECK_NEAR(y[k], i % 3 == 0 ? sinh(v) : i % 3 == 1 ? cosh(v) : atanh(v), 0, exact);
            CHECK_NEAR(dx[k],
                       i % 3 == 0   ? cosh(v)
                       : i % 3 == 1 ? sinh(v)
                                    : 1 / ((1 - v) * (1 + v)),
                       i % 3 == 1 ? exact : 0, exact);
        }
    }
}

/* The least integer is the least, although it has no negative. */
TEST(the_least_integer_is_found)
{
    static const int32_t a[] = {5, INT32_MIN, 7, INT32_MAX};
    static const int64_t four[] = {4}, b[] = {INT64_MIN + 1, INT64_MIN, 0, INT64_MAX};
    double y[16];
    for (int i = 0; i < 4; i++) {
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", i % 2 ? 7 : 6, 1, four);
        put_node(&graph, i / 2 ? "ArgMax" : "ArgMin", "x", "y", NULL);
        put_io(&graph, 12, "y", 7, 1, one);
        put_model(&file, &graph, 17);
        const void *x = i % 2 ? (const void *)b : a;
        CHECK(values_and_gradient(i % 2 ? TP_I64 : TP_I32, tp_make_shape(4), x, y, NULL) == 1 &&
              y[0] == (i / 2 ? 3 : 1));
    }
}

/* The numbers of an int64 beyond 2^53 are not rounded. */
static bool gives_int64(const int64_t *want, int n)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model m;
    bool right = false;
    if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m))) {
        tp_session *s = tp_session_new(g, NULL);
        tp_node *fetch = m.output[0].node;
        const tp_tensor *out = NULL;
        if (CHECK_OK(tp_session_run(s, NULL, 0, &fetch, 1, &out)) && CHECK(out->dtype == TP_I64))
            right = tp_tensor_size(out) == n && memcmp(out->data, want, (size_t)n * sizeof *want) == 0;
        tp_session_free(s);
    }
    tp_graph_free(g);
    return right;
}
TEST(large_integers_are_scattered)
{
    static const int64_t big = ((int64_t)1 << 53) + 1, at[] = {2, 0};
    static const int64_t x[] = {INT64_MAX, -((int64_t)1 << 60) - 1, 7}, places[] = {2, 1};
    static const char *const how[] = {"none", "add"};
    for (int i = 0; i < 4; i++) {
        const int64_t updates[] = {i & 2 ? INT64_MIN : big, -big};
        int64_t want[3] = {-big, x[1], updates[0]};
        if (i & 1) want[0] = INT64_MAX - big, want[2] = updates[0] + 7;
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_weight(&graph, "x", 7, 1, three, x, sizeof x);
        put_weight(&graph, "at", 7, 2, places, at, sizeof at);
        put_weight(&graph, "u", 7, 1, two, updates, sizeof updates);
        put_node(&graph, "ScatterND", "x,at,u", "y", text_attribute("reduction", how[i & 1]));
        put_io(&graph, 12, "y", 7, 1, three);
        put_model(&file, &graph, 18);
        CHECK_MSG(gives_int64(want, 3), "case %d", i);
    }
}
/* Pad's value keeps its bits, whether a float32 has it or not. */
TEST(pads_of_any_number)
{
    static const struct {
        tp_dtype dtype;
        int elem;
        double value; /* of a float64 */
        int64_t whole;
    } row[] = {{TP_F64, 11, 0.1, 0},      {TP_F64, 11, 1e300, 0},        {TP_F64, 11, INFINITY, 0},
               {TP_F64, 11, 2.5, 0},      {TP_I32, 6, 0, 16777217},      {TP_I32, 6, 0, -3},
               {TP_I32, 6, 0, INT32_MIN}, {TP_I64, 7, 0, INT64_MAX - 1}, {TP_I64, 7, 0, 16777217},
               {TP_I64, 7, 0, INT64_MIN}};
    static const int64_t pads[] = {0, 1, 1, 0}, open[] = {-1, 2}, four[] = {4}, fed_size[] = {1, 2};
    for (int i = 0; i < TP_COUNT(row); i++) {
        const double fed_f64[] = {INFINITY, -0.3};
        const int64_t fed_i64[] = {INT64_MAX, INT64_MIN};
        const int32_t fed_i32[] = {INT32_MAX, INT32_MIN}, whole = (int32_t)row[i].whole;
        const void *fed = row[i].elem == 11  ? (const void *)fed_f64
                          : row[i].elem == 7 ? (const void *)fed_i64
                                             : (const void *)fed_i32;
        const void *value = row[i].elem == 11  ? (const void *)&row[i].value
                            : row[i].elem == 7 ? (const void *)&row[i].whole
                                               : (const void *)&whole;
        const size_t size = row[i].elem == 6 ? 4 : 8;
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", row[i].elem, 2, open);
        put_weight(&graph, "pads", 7, 1, four, pads, sizeof pads);
        put_weight(&graph, "value", row[i].elem, 0, NULL, value, size);
        put_node(&graph, "Pad", "x,pads,value", "y", NULL);
        put_io(&graph, 12, "y", row[i].elem, 0, NULL);
        put_model(&file, &graph, 17);
        tp_graph *g = tp_graph_new(NULL);
        tp_onnx_model m;
        tp_session *s = NULL;
        if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m)) &&
            CHECK((s = tp_session_new(g, NULL)) != NULL)) {
            const tp_feed feed = tp_make_feed(m.input[0].node, row[i].dtype, tp_make_shape_n(2, fed_size), fed);
            tp_node *fetch = m.output[0].node;
            const tp_tensor *y = NULL;
            if (CHECK_OK(tp_session_run(s, &feed, 1, &fetch, 1, &y)) && CHECK(tp_tensor_size(y) == 6))
                for (int k = 0; k < 6; k++) {
                    const void *want =
                        k == 1 || k == 2 ? (const char *)fed + (size_t)(k - 1) * size : (const char *)value;
                    CHECK_MSG(memcmp((const char *)y->data + (size_t)k * size, want, size) == 0, "row %d, element %d",
                              i, k);
                }
        }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

TEST(ranges_of_large_integers)
{
    static const int64_t big = ((int64_t)1 << 53) + 1;
    static const struct {
        int64_t from, to, by;
        int n;
        int64_t list[4];
    } row[] = {{big, big + 3, 1, 3, {big, big + 1, big + 2}},
               {big + 3, big, -2, 2, {big + 3, big + 1}},
               {INT64_MIN, INT64_MAX, INT64_MAX, 3, {INT64_MIN, -1, INT64_MAX - 1}},
               {INT64_MAX, INT64_MIN, INT64_MIN, 2, {INT64_MAX, -1}},
               {5, 5, 1, 0, {0}},
               {5, 4, 1, 0, {0}},
               {4, 5, -1, 0, {0}}};
    static const char *const name[] = {"from", "to", "by"};
    for (int i = 0; i < TP_COUNT(row) + 2; i++) {
        const int64_t numbers[][3] = {{1, 5, 0}, {INT64_MIN, INT64_MAX, 1}};
        const bool good = i < TP_COUNT(row);
        graph.n = 0;
        put_text(&graph, 2, "g");
        for (int k = 0; k < 3; k++) {
            const int64_t v = !good    ? numbers[i - TP_COUNT(row)][k]
                              : k == 0 ? row[i].from
                              : k == 1 ? row[i].to
                                       : row[i].by;
            put_weight(&graph, name[k], 7, 0, NULL, &v, sizeof v);
        }
        put_node(&graph, "Range", "from,to,by", "y", NULL);
        put_io(&graph, 12, "y", 7, 1, n_by_2);
        put_model(&file, &graph, 18);
        if (good) CHECK_MSG(gives_int64(row[i].list, row[i].n), "row %d", i);
        else CHECK(refused(&file, NULL, i == TP_COUNT(row) ? "Range from 1 to 5 by 0" : "by 1"));
    }
}

/* A small file does not fill the memory: values that are computed, windows and loops that are taken apart. */
static bool takes_too_much(double most)
{
    tp_import_onnx_desc d;
    memset(&d, 0, sizeof d);
    d.max_memory = most;
    return refused(&file, &d, "of memory; .max_memory is how many are allowed");
}
TEST(memory_of_an_import)
{
    static const int64_t steps[] = {500, 1, 1}, image[] = {1, 1, 24, 24}, cell[] = {1, 1, 1}, window[] = {24, 24};
    static const int64_t many[] = {1 << 27}, some[] = {1000};
    static const float weight[] = {1};
    char out[16];
    for (int large = 0; large < 2; large++) {
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_weight(&graph, "s", 7, 1, one, large ? many : some, sizeof *some);
        put_node(&graph, "ConstantOfShape", "s", "c", NULL);
        put_node(&graph, "Neg", "c", "y", NULL);
        put_node(&graph, "Neg", "y", "z", NULL);
        put_model(&file, &graph, 17);
        if (!large) CHECK(accepted(&file) && takes_too_much(9000));
        else CHECK(refused(&file, NULL, "the import would take more than 1.61"));
    }
    for (int loops = 0; loops < 2; loops++) {
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, loops ? 3 : 4, loops ? steps : image);
        if (loops) put_weight(&graph, "w", 1, 3, cell, weight, sizeof weight);
        for (int i = 0; i < 4; i++) {
            snprintf(out, sizeof out, loops ? "y%d" : "y%d,i%d", i, i);
            if (loops) put_node(&graph, "RNN", "x,w,w", out, int_attribute("hidden_size", 1));
            else put_node(&graph, "MaxPool", "x", out, ints_attribute("kernel_shape", window, 2));
        }
        put_model(&file, &graph, 17);
        CHECK(takes_too_much(5e5) && takes_too_much(3e6));
        CHECK(accepted(&file));
    }
    linear_model();
    CHECK(accepted(&file) && takes_too_much(100));
}

/* A file of n nodes takes a time that grows with n, not with its square: minutes for these. */
static void put_model_of(tp_buf *model, const tp_buf *nodes)
{
    msg length;
    length.n = 0;
    put_int(&length, 1, 8);
    put_varint(&length, 7 << 3 | 2);
    put_varint(&length, nodes->len);
    tp_buf_put(model, length.b, length.n);
    tp_buf_put(model, nodes->data, nodes->len);
    tp_buf_put(model, "\x42\x02\x10\x11", 4); /* opset 17 */
}
TEST(files_of_many_nodes)
{
    static const float weight[] = {1, 2}, half = 0.5f;
    static const uint8_t yes = 1;
    static const char *const kinds[] = {"Identity", "Dropout", "Shape", "Relu"};
    for (int kind = 0; kind < TP_COUNT(kinds); kind++) {
        tp_buf nodes, model;
        tp_import_onnx_desc d;
        tp_onnx_model m;
        tp_graph *g = tp_graph_new(NULL);
        char in[32], out[32];
        memset(&nodes, 0, sizeof nodes);
        memset(&model, 0, sizeof model);
        memset(&d, 0, sizeof d);
        d.trainable = TP_YES;
        graph.n = 0;
        put_weight(&graph, "w", 1, 1, two, weight, sizeof weight);
        put_weight(&graph, "r", 1, 0, NULL, &half, sizeof half);
        put_weight(&graph, "t", 9, 0, NULL, &yes, sizeof yes);
        put_io(&graph, 11, "x", 1, 1, two);
        for (int i = 0; i < 20000; i++) {
            snprintf(in, sizeof in, kind == 0 ? "w" : kind == 1 ? "x,r,t" : "i%d", i);
            snprintf(out, sizeof out, "y%d", i);
            if (kind > 1) put_io(&graph, 11, in, 1, 2, n_by_2);
            put_node(&graph, kinds[kind], in, out, NULL);
            tp_buf_put(&nodes, graph.b, graph.n);
            graph.n = 0;
        }
        put_model_of(&model, &nodes);
        const double start = tp_test__ms();
        CHECK_OK(tp_import_onnx_parse(g, model.data, model.len, "model.onnx", &d, &m));
        CHECK_MSG(tp_test__ms() - start < 20e3, "20000 nodes of %s take %g s", kinds[kind],
                  (tp_test__ms() - start) / 1000);
        tp_graph_free(g);
        tp_buf_free(&nodes);
        tp_buf_free(&model);
    }
    graph.n = 0; /* names are found again */
    put_io(&graph, 11, "x", 1, 2, n_by_2);
    put_io(&graph, 11, "x", 1, 2, n_by_2);
    put_model(&file, &graph, 17);
    CHECK(refused(&file, NULL, "two inputs are called 'x'"));
    graph.n = 0;
    put_io(&graph, 11, "x", 1, 2, n_by_2);
    put_node(&graph, "Split", "x", "a,b,a", NULL);
    put_model(&file, &graph, 17);
    CHECK(refused(&file, NULL, "Split makes 'a', which is there already"));
}

/* Control characters in the names of a file would write lines of their own into a log. */
TEST(names_with_control_characters)
{
    static const tp_onnx_dim dims[] = {{"no\033", 3}};
    static const float weight[] = {1, 2};
    tp_import_onnx_desc d;
    tp_onnx_model m;
    memset(&d, 0, sizeof d);
    graph.n = 0;
    put_io(&graph, 11, "x\n", 1, 2, n_by_2);
    put_node(&graph, "Foo\n\033]0;owned\007", "x\n", "a\n[1130 10:00:00] done\033[2J\177", NULL);
    put_model(&file, &graph, 17);
    CHECK(refused(&file, NULL, "a [1130 10:00:00] done?[2J?: tp has no operator Foo ?]0;owned?"));
    graph.n = 0;
    put_io(&graph, 11, "x\n", 1, 2, n_by_2);
    put_node(&graph, "Expand", "x\n,x\n", "y", NULL);
    put_model(&file, &graph, 17);
    CHECK(refused(&file, NULL, "the input 'x ' of Expand must be known"));
    graph.n = 0; /* in warnings, too */
    put_weight(&graph, "weight\n\033", 1, 1, two, weight, sizeof weight);
    put_model(&file, &graph, 17);
    d.trainable = TP_YES, d.constants = "weigth", d.dims = dims, d.n_dims = 1;
    tp_graph *g = tp_graph_new(NULL);
    tp_test_keep_log();
    CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &m));
    CHECK_HAS(tp_test_logged, "'no?'");
    CHECK(!strchr(tp_test_logged, '\033'));
    tp_set_log(NULL, NULL);
    tp_graph_free(g);
}

/* Numbers that stand for unknown sizes inside the import are no numbers of a file. */
TEST(numbers_that_stand_for_unknown_sizes)
{
    static const int64_t sizes[] = {INT64_MIN + 4711, INT64_MIN + 4712, INT64_MIN + 4711 + 65535};
    for (int i = 0; i < 2 * TP_COUNT(sizes); i++) {
        const int64_t list[2] = {sizes[i / 2], 2};
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, 2, n_by_2);
        put_weight(&graph, "s", 7, 1, two, list, sizeof list);
        put_node(&graph, "Shape", "x", "of_x", NULL);
        put_node(&graph, "Concat", "of_x,s", "both", int_attribute("axis", 0));
        if (i % 2) put_node(&graph, "Reshape", "x,s", "y", NULL);
        else put_node(&graph, "Expand", "x,both", "y", NULL);
        put_io(&graph, 12, "y", 1, 2, n_by_2);
        put_model(&file, &graph, 13);
        CHECK(refused(&file, NULL, "cannot take a list with the number -92233720368547"));
    }
}
TEST(slices_of_one_axis_twice)
{
    static const int64_t zeros[2] = {0, 0}, ends[2] = {2, 10};
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_io(&graph, 11, "x", 1, 2, n_by_2);
    put_weight(&graph, "zeros", 7, 1, two, zeros, sizeof zeros);
    put_weight(&graph, "ends", 7, 1, two, ends, sizeof ends);
    put_node(&graph, "Slice", "x,zeros,ends,zeros", "y", NULL);
    put_io(&graph, 12, "y", 1, 2, n_by_2);
    put_model(&file, &graph, 13);
    CHECK(refused(&file, NULL, "y: Slice names axis 0 twice"));
}

/* The channels of SpaceToDepth times its blocks are more than an int64 holds. */
TEST(more_channels_than_an_int64_holds)
{
    static const int64_t x[] = {1, (int64_t)1 << 44, 0, 0};
    static const char *const op[] = {"SpaceToDepth", "DepthToSpace"};
    for (int i = 0; i < 2; i++) {
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, 4, x);
        put_node(&graph, op[i], "x", "y", int_attribute("blocksize", 4096));
        put_io(&graph, 12, "y", 1, 4, x);
        put_model(&file, &graph, 17);
        if (i) CHECK(accepted(&file));
        else CHECK(refused(&file, NULL, "larger than any memory"));
    }
}

/* Attention of inputs without an axis for heads needs their number. */
TEST(heads_are_counted)
{
    static const int64_t x[] = {1, 2, 4};
    static const char *const list[] = {"q_num_heads", "kv_num_heads"};
    for (int i = 0; i < TP_COUNT(list); i++) {
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, 3, x);
        put_node(&graph, "Attention", "x,x,x", "y", int_attribute(list[i], 1));
        put_io(&graph, 12, "y", 1, 3, x);
        put_model(&file, &graph, 23);
        CHECK(refused(&file, NULL, "Attention: 0 heads of 4 channels"));
    }
}

/* Updates that are mixed with what is there are applied one by one: 256 of them and no more. */
TEST(as_many_updates_as_are_mixed)
{
    static const char *const how[] = {"max", "min", "mul", "add", "none"};
    static const double want[] = {7, -3, 6, 8, 7};
    static const int64_t counts[] = {1, 256, 257}, of_x[] = {3};
    static const float x[] = {5, 1, 5};
    static int64_t at[257];
    static float update[257];
    for (int i = 0; i < TP_COUNT(how); i++)
        for (int k = 0; k < (i == 4 ? 1 : TP_COUNT(counts)); k++) { /* "none" puts one into a place at most */
            const int last = (int)counts[k] - 1;
            const size_t n = (size_t)counts[k];
            double y[3];
            for (int u = 0; u <= last; u++) at[u] = 1, update[u] = i < 3 ? 1.0f : 0.0f;
            update[last] = i == 1 ? -3.0f : i == 2 ? 6.0f : 7.0f;
            graph.n = 0;
            put_text(&graph, 2, "g");
            put_io(&graph, 11, "x", 1, 1, of_x);
            put_weight(&graph, "at", 7, 1, &counts[k], at, n * sizeof *at);
            put_weight(&graph, "u", 1, 1, &counts[k], update, n * sizeof *update);
            put_node(&graph, "ScatterElements", "x,at,u", "y", text_attribute("reduction", how[i]));
            put_io(&graph, 12, "y", 1, 1, of_x);
            put_model(&file, &graph, 18);
            const tp_shape shape = tp_make_shape_n(1, of_x);
            if (i < 3 && k == 2) CHECK(refused(&file, NULL, "that many updates to mix"));
            else if (CHECK(run_file(&shape, x, 3, y) == 3)) CHECK(y[0] == 5 && y[1] == want[i] && y[2] == 5);
        }
}

/* Whether the model of `file` fails in a run with a single row. */
static bool axis_run_fails(const float *x)
{
    static const int64_t one_row[] = {1, 2};
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model m;
    bool fails = false;
    if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m))) {
        tp_session *s = tp_session_new(g, NULL);
        tp_node *fetch = m.output[0].node;
        const tp_tensor *out = NULL;
        tp_feed feed;
        memset(&feed, 0, sizeof feed);
        feed.node = m.input[0].node;
        tp_tensor_view(&feed.value, TP_F32, tp_make_shape_n(2, one_row), x);
        fails = tp_session_run(s, &feed, 1, &fetch, 1, &out) < TP_OK && strstr(tp_last_error(), "outside the rows");
        tp_session_free(s);
    }
    tp_graph_free(g);
    return fails;
}
/* Where the first size of what is changed is unknown: it takes no part in the places of the others. */
TEST(places_in_a_batch_of_unknown_size)
{
    static const int64_t shape[] = {3, 2}, at[2][4] = {{1, 0, -1, 1}, {1, 0, -2, 1}};
    static const float x[] = {1, 2, 3, 4, 5, 6}, u[] = {10, 20, 30, 40};
    static const double want[2][6] = {{1, 20, 10, 40, 30, 6}, {20, 10, 30, 40, 5, 6}};
    const tp_shape of_x = tp_make_shape_n(2, shape);
    for (int axis = 0; axis < 2; axis++) {
        double y[6];
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, 2, n_by_2);
        put_weight(&graph, "at", 7, 2, two_by_2, at[axis], sizeof at[axis]);
        put_weight(&graph, "u", 1, 2, two_by_2, u, sizeof u);
        put_node(&graph, "ScatterElements", "x,at,u", "y", int_attribute("axis", axis));
        put_io(&graph, 12, "y", 1, 2, n_by_2);
        put_model(&file, &graph, 18);
        if (CHECK_MSG(run_file(&of_x, x, 6, y) == 6, "axis %d: %s", axis, tp_last_error()))
            for (int i = 0; i < 6; i++) CHECK(y[i] == want[axis][i]);
        CHECK(axis_run_fails(x));
    }
    graph.n = 0; /* the size of another axis has to be known */
    put_text(&graph, 2, "g");
    put_io(&graph, 11, "x", 1, 2, (const int64_t[]){3, -1});
    put_weight(&graph, "at", 7, 2, two_by_2, at[0], sizeof at[0]);
    put_weight(&graph, "u", 1, 2, two_by_2, u, sizeof u);
    put_node(&graph, "ScatterElements", "x,at,u", "y", NULL);
    put_io(&graph, 12, "y", 1, 2, n_by_2);
    put_model(&file, &graph, 18);
    CHECK(refused(&file, NULL, "ScatterElements needs to know dimension 1 of its input"));
}

/* A mask of attention that is shorter than the keys hides those beyond its end; one that is longer is refused. */
static int masked_attention(double *y, int elem, int64_t keys, const void *mask, size_t bytes)
{
    static const int64_t x[] = {1, 1, 2, 2}, open[] = {-1, -1, -1, -1};
    static const float k[6] = {1, 0, 0, 2, 3, 3}, v[6] = {1, 10, 2, 20, 3, 30};
    static const int64_t of_keys[] = {1, 1, 3, 2};
    const int64_t of_mask[] = {2, keys};
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_io(&graph, 11, "x", 1, 4, x);
    put_weight(&graph, "k", 1, 4, of_keys, k, sizeof k);
    put_weight(&graph, "v", 1, 4, of_keys, v, sizeof v);
    put_weight(&graph, "mask", elem, 2, of_mask, mask, bytes);
    put_node(&graph, "Attention", "x,k,v,mask", "y", NULL);
    put_io(&graph, 12, "y", 1, 4, open);
    put_model(&file, &graph, 23);
    static const float q[4] = {0.5f, -1, 2, 0.25f};
    const tp_shape of_x = tp_make_shape_n(4, x);
    return run_file(&of_x, q, 4, y);
}
TEST(masks_of_attention_have_dimensions)
{
    static const int64_t x[] = {1, 1, 2, 2};
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_io(&graph, 11, "x", 1, 4, x);
    put_io(&graph, 11, "mask", 1, 0, NULL);
    put_node(&graph, "Attention", "x,x,x,mask", "y", NULL);
    put_io(&graph, 12, "y", 1, 4, x);
    put_model(&file, &graph, 23);
    CHECK(refused(&file, NULL, "y: Attention of a value with 0 dimensions cannot be expressed"));
}
TEST(masks_of_attention_end_before_the_keys)
{
    static const float all[6] = {0, 0.5f, -1e9f, 0, 0.25f, -1e9f}, two_keys[4] = {0, 0.5f, 0, 0.25f}, long_one[8] = {0};
    static const char may_all[6] = {1, 1, 0, 0, 1, 0}, may_two[4] = {1, 1, 0, 1}, may_first[2] = {1, 1};
    double want[4], got[4];
    if (!CHECK(masked_attention(want, 1, 3, all, sizeof all) == 4)) return;
    CHECK(want[0] > 1 && want[0] < 2 && want[2] > 1 && want[2] < 2); /* between the first two values */
    CHECK(masked_attention(got, 1, 2, two_keys, sizeof two_keys) == 4);
    for (int i = 0; i < 4; i++) CHECK_NEAR(got[i], want[i], 1e-6, 1e-6);
    if (!CHECK(masked_attention(want, 9, 3, may_all, sizeof may_all) == 4)) return;
    CHECK_NEAR(want[2], 2, 1e-6, 0); /* the second query may see the second key alone */
    CHECK(masked_attention(got, 9, 2, may_two, sizeof may_two) == 4);
    for (int i = 0; i < 4; i++) CHECK_NEAR(got[i], want[i], 1e-6, 1e-6);
    /* a mask of one column is the first key's: it is not repeated for the others */
    CHECK(masked_attention(got, 9, 1, may_first, sizeof may_first) == 4);
    for (int i = 0; i < 4; i++) CHECK_NEAR(got[i], i % 2 ? 10 : 1, 1e-5, 0);
    CHECK(masked_attention(got, 1, 4, long_one, sizeof long_one) == -1);
    CHECK_HAS(tp_last_error(), "shapes (1,1,2,3) and (2,4) do not broadcast");
}

/* A soft cap that kernels would treat as zero is refused; one of zero or less caps nothing. */
TEST(soft_caps_of_attention)
{
    static const struct {
        float cap;
        bool refused;
    } row[] = {{-1.0f, false},   {0.0f, false}, {1e-40f, true}, {FLT_MIN / 2, true},
               {FLT_MIN, false}, {0.5f, false}, {2.0f, false}};
    static const int64_t shape[] = {1, 1, 2, 2};
    for (int i = 0; i < TP_COUNT(row); i++) {
        one_operator("Attention", "x,x,x", float_attribute("softcap", row[i].cap), shape, 23);
        if (row[i].refused) CHECK(refused(&file, NULL, "a softcap that small"));
        else CHECK_MSG(accepted(&file), "row %d", i);
    }
}

/* Norms whose input has unknown channels learn their number from scale or bias, where that has a value for each; else they are refused. */
static int unknown_channels(const char *op, int opset, int64_t values, const msg *attribute, double *y)
{
    static const int64_t open[] = {-1, -1, -1}, shape[] = {1, 2, 3};
    static const float scale[2] = {2, 1}, bias[2] = {0, 10}, x[6] = {0, 1, 2, 7, 7, 7};
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_io(&graph, 11, "x", 1, 3, open);
    put_weight(&graph, "scale", 1, 1, &values, scale, (size_t)values * sizeof *scale);
    put_weight(&graph, "bias", 1, 1, &values, bias, (size_t)values * sizeof *bias);
    put_node(&graph, op, "x,scale,bias", "y", attribute);
    put_io(&graph, 12, "y", 1, 3, open);
    put_model(&file, &graph, opset);
    const tp_shape of_x = tp_make_shape_n(3, shape);
    return run_file(&of_x, x, 6, y);
}
/* x of four channels, 0 to 7, in so many groups, with so many values of scale, all 2; false: it is refused */
static bool normed_channels(int opset, int64_t groups, int per_group, double y[8])
{
    static const int64_t shape[] = {1, 4, 2};
    static const float x[8] = {0, 1, 2, 3, 4, 5, 6, 7}, scale[4] = {1, 2, 3, 4}, bias[4] = {0, 0, 0, 0};
    const int64_t values = per_group ? groups : 4;
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_io(&graph, 11, "x", 1, 3, shape);
    put_weight(&graph, "scale", 1, 1, &values, scale, (size_t)values * sizeof *scale);
    put_weight(&graph, "bias", 1, 1, &values, bias, (size_t)values * sizeof *bias);
    put_node(&graph, "GroupNormalization", "x,scale,bias", "y", int_attribute("num_groups", groups));
    put_io(&graph, 12, "y", 1, 3, shape);
    put_model(&file, &graph, opset);
    const tp_shape of_x = tp_make_shape_n(3, shape);
    return run_file(&of_x, x, 8, y) == 8;
}
/* Before version 21 a value of scale is that of a group or of a channel; from then on it is that of a channel. */
TEST(norms_with_a_scale_for_each_group_or_channel)
{
    for (int groups = 1; groups <= 4; groups *= 2)
        for (int opset = 18; opset <= 21; opset += 3)
            for (int per_group = 0; per_group < 2; per_group++) {
                double y[8];
                if (opset == 21 && per_group && groups < 4) {
                    CHECK(!normed_channels(opset, groups, per_group, y));
                    CHECK_HAS(tp_last_error(), "GroupNormalization");
                    continue;
                }
                if (!CHECK(normed_channels(opset, groups, per_group, y))) continue;
                const int n = 8 / groups; /* of a group */
                const double deviation = sqrt((n * n - 1) / 12.0);
                for (int i = 0; i < 8; i++) {
                    const double scale = per_group ? i / n + 1 : i / 2 + 1;
                    CHECK_NEAR(y[i], scale * (i % n - (n - 1) / 2.0) / deviation, 1e-3, 1e-4);
                }
            }
}
TEST(norms_of_unknown_channels)
{
    double y[6];
    const double root = sqrt(1.5); /* 0, 1 and 2 have the variance 2/3 */
    if (CHECK(unknown_channels("InstanceNormalization", 22, 2, NULL, y) == 6))
        for (int i = 0; i < 6; i++) CHECK_NEAR(y[i], i < 3 ? 2 * root * (i - 1) : 10, 1e-4, 0);
    if (CHECK(unknown_channels("GroupNormalization", 21, 2, int_attribute("num_groups", 2), y) == 6))
        for (int i = 0; i < 6; i++) CHECK_NEAR(y[i], i < 3 ? 2 * root * (i - 1) : 10, 1e-4, 0);
    CHECK(unknown_channels("GroupNormalization", 18, 1, int_attribute("num_groups", 1), y) == -1);
    CHECK_HAS(tp_last_error(), "GroupNormalization needs to know dimension 1 of its input");
}
/* Numbers of groups and channels that do not fit an int are refused. */
TEST(norms_of_more_groups_than_an_int_holds)
{
    static const int64_t x[] = {1, (int64_t)3 << 32, 1};
    static const char *const op[] = {"InstanceNormalization", "GroupNormalization"};
    static const char *const why[] = {"12884901888 channels are too many", "4294967296 groups of 12884901888 channels"};
    static const float value = 1;
    for (int i = 0; i < 2; i++) {
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, 3, x);
        put_weight(&graph, "scale", 1, 1, one, &value, sizeof value);
        put_weight(&graph, "bias", 1, 1, one, &value, sizeof value);
        put_node(&graph, op[i], "x,scale,bias", "y", i ? int_attribute("num_groups", (int64_t)1 << 32) : NULL);
        put_io(&graph, 12, "y", 1, 3, x);
        put_model(&file, &graph, 21);
        CHECK(refused(&file, NULL, why[i]));
    }
}

/* y = a random number for each of the 3 x 2000 elements of x, all 0.25: in its range, with its mean and deviation, new in each
 * run, in a tower for inference too. The gradient of x is that of the sum. */
TEST(random_numbers_are_drawn)
{
    static const int64_t n_by_2000[] = {-1, 2000}, rows[] = {3, 2000};
    static const struct {
        const char *op, *name;
        double value, mean, deviation, low, high;
        int elem;
    } list[] = {{"RandomUniformLike", "low", -3, -1, 2 / 1.7320508075688772, -3, 1, 1},
                {"RandomUniformLike", "seed", 3, 0.5, 0.5 / 1.7320508075688772, 0, 1, 1},
                {"RandomNormalLike", "scale", 3, 0, 3, -30, 30, 1},
                {"RandomNormalLike", "mean", 2, 2, 1, -30, 30, 11},
                {"Bernoulli", "dtype", 7, 0.25, 0.4330127018922193, 0, 1, 7},
                {"Bernoulli", "dtype", 1, 0.25, 0.4330127018922193, 0, 1, 1},
                {"RandomUniform", "shape", 0, 0.5, 0.5 / 1.7320508075688772, 0, 1, 1},
                {"RandomNormal", "shape", 0, 0, 1, -30, 30, 1}};
    static float x[6000];
    for (int i = 0; i < 6000; i++) x[i] = 0.25f;
    for (int k = 0; k < TP_COUNT(list); k++) {
        const bool like = strcmp(list[k].name, "shape") != 0, is_int = strcmp(list[k].name, "dtype") == 0;
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", list[k].elem == 11 ? 11 : 1, 2, n_by_2000);
        put_node(&graph, list[k].op, like ? "x" : NULL, "y",
                 !like    ? ints_attribute("shape", rows, 2)
                 : is_int ? int_attribute("dtype", list[k].elem)
                          : float_attribute(list[k].name, (float)list[k].value));
        put_node(&graph, "Cast", "y", "number", int_attribute("to", list[k].elem == 11 ? 11 : 1));
        put_node(&graph, "Add", "number,x", "z", NULL);
        put_io(&graph, 12, "y", list[k].elem, 2, n_by_2000);
        put_io(&graph, 12, "z", list[k].elem == 11 ? 11 : 1, 2, n_by_2000);
        put_model(&file, &graph, 15);
        tp_graph *g = tp_graph_new(NULL);
        tp_onnx_model m;
        tp_tower_desc t = {.is_training = false};
        tp_tower_enter(g, &t);
        if (!CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m))) {
            tp_graph_free(g);
            continue;
        }
        tp_tower_leave(g);
        tp_session *s = tp_session_new(g, NULL);
        tp_node *fetch[2] = {m.output[0].node, NULL};
        tp_gradients(tp_reduce_sum(tp_cast(m.output[1].node, TP_F32), NULL, 0, false), &m.input[0].node, 1, &fetch[1]);
        tp_feed feed;
        tp_tensor wide = TP_EMPTY, before = TP_EMPTY;
        const tp_tensor *out[2];
        CHECK(fetch[0]->dtype == (list[k].elem == 11 ? TP_F64 : list[k].elem == 7 ? TP_I64 : TP_F32));
        memset(&feed, 0, sizeof feed);
        feed.node = m.input[0].node;
        CHECK_OK(tp_tensor_resize(&wide, list[k].elem == 11 ? TP_F64 : TP_F32, tp_make_shape(3, 2000)));
        for (int i = 0; i < 6000; i++) tp_tensor_set(&wide, i, (double)x[i]);
        feed.value = wide;
        for (int run = 0; run < 2 && CHECK_OK(tp_session_run(s, &feed, 1, fetch, 2, out)); run++) {
            double sum = 0, squares = 0;
            int same = 0, outside = 0;
            for (int i = 0; i < 6000; i++) {
                const double y = tp_tensor_get(out[0], i), e = y - list[k].mean;
                sum += e, squares += e * e;
                outside += !(y >= list[k].low && y <= list[k].high) || (is_int && y != 0 && y != 1);
                same += run && y == tp_tensor_get(&before, i);
                if (tp_tensor_get(out[1], i) != 1) outside++;
            }
            CHECK_MSG(outside == 0 && same < (is_int ? 4500 : 10), "%s: %d outside, %d the same", list[k].op, outside,
                      same);
            CHECK_NEAR(sum / 6000, 0, 0.06 * list[k].deviation, 0);
            CHECK_NEAR(sqrt(squares / 6000), list[k].deviation, 0, 0.06);
            CHECK_OK(tp_tensor_copy(&before, out[0]));
        }
        tp_tensor_free(&wide);
        tp_tensor_free(&before);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

TEST(random_numbers_that_cannot_be_drawn)
{
    static const int64_t odd[] = {2, -1}, large[] = {1 << 30, 1 << 30, 1 << 30}, nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    static const char *const why[] = {
        "RandomUniform lacks its attribute 'shape'",
        "RandomUniform has impossible dimensions",
        "RandomUniform has impossible dimensions",
        "RandomUniform makes more than 8 dimensions",
        "RandomUniform of int64 cannot be expressed; give it the dtype of a float, 1 for float32",
        "RandomNormalLike of int64 cannot be expressed",
        "RandomUniformLike of int64 cannot be expressed",
        "Bernoulli of int8 cannot be expressed",
        "RandomNormalLike lacks its input 0"};
    for (int i = 0; i < TP_COUNT(why); i++) {
        const char *space = strchr(why[i], ' ');
        char op[32];
        snprintf(op, sizeof op, "%.*s", (int)(space - why[i]), why[i]);
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", i == 6 ? 7 : 1, 2, n_by_2);
        put_node(&graph, op, i > 4 && i < 8 ? "x" : NULL, "y",
                 i == 0 || i == 6 || i == 8 ? NULL
                 : i == 1                   ? ints_attribute("shape", odd, 2)
                 : i == 2                   ? ints_attribute("shape", large, 3)
                 : i == 3                   ? ints_attribute("shape", nine, 9)
                                            : int_attribute("dtype", i == 7 ? 3 : 7));
        put_io(&graph, 12, "y", 1, 2, n_by_2);
        put_model(&file, &graph, 15);
        CHECK(refused(&file, NULL, why[i]));
    }
}

/* An equation with two arrows, and one that is too long, are refused: nothing of them is left out. */
TEST(equations_are_read_to_their_end)
{
    static const char long_equation[] = "ij->ij->ij->ij->ij->ij->ij->ij->ij->ij->ij->ij->ij->ij->ij->ij"
                                        "->ij->ij->ij->ij->ij->ij->ij->ij->ij->ij->ij->ij->ij->ij->ij";
    static const char *const list[] = {"ij->ji", "ij->ji->ij", long_equation};
    static const int64_t x[] = {2, 2};
    for (int i = 0; i < TP_COUNT(list); i++) {
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, 2, x);
        put_node(&graph, "Einsum", "x", "y", text_attribute("equation", list[i]));
        put_io(&graph, 12, "y", 1, 2, x);
        put_model(&file, &graph, 13);
        if (i)
            CHECK(
                refused(&file, NULL, i == 1 ? "Einsum 'ij->ji->ij' cannot be expressed" : "more than 100 characters"));
        else CHECK(accepted(&file));
    }
}

/* The first and the last of the letters, small and capital. */
TEST(equations_of_any_letter)
{
    static const int64_t dim[] = {2, 3, 1, 2}, turned[] = {2, 1, 3, 2};
    float x[12];
    double y[12];
    for (int i = 0; i < 12; i++) x[i] = (float)i;
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_io(&graph, 11, "x", 1, 4, dim);
    put_node(&graph, "Einsum", "x", "y", text_attribute("equation", "azAZ->ZAza"));
    put_io(&graph, 12, "y", 1, 4, turned);
    put_model(&file, &graph, 13);
    const tp_shape of_x = tp_make_shape_n(4, dim);
    if (CHECK(run_file(&of_x, x, 12, y) == 12))
        for (int i = 0; i < 12; i++) CHECK(y[i] == i / 6 + 2 * (i / 2 % 3) + 6 * (i % 2));
}

/* As many letters as a value has dimensions at most, of one input and of two. */
TEST(equations_of_eight_letters)
{
    static const int64_t eight[] = {1, 2, 1, 2, 1, 1, 3, 1}, back[] = {1, 3, 1, 1, 2, 1, 2, 1}, two_of_them[] = {1, 2},
                         rest[] = {1, 2, 1, 1, 3, 1};
    float x[12], twice[2] = {2, 3};
    double y[12];
    for (int i = 0; i < 12; i++) x[i] = (float)i;
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_io(&graph, 11, "x", 1, 8, eight);
    put_node(&graph, "Einsum", "x", "y", text_attribute("equation", "abcdefgh->hgfedcba"));
    put_io(&graph, 12, "y", 1, 8, back);
    put_model(&file, &graph, 13);
    const tp_shape of_x = tp_make_shape_n(8, eight), of_rest = tp_make_shape_n(6, rest);
    if (CHECK(run_file(&of_x, x, 12, y) == 12))
        for (int i = 0; i < 12; i++) CHECK(y[i] == i / 4 + 3 * (i / 2 % 2) + 6 * (i % 2));
    for (int more = 0; more < 2; more++) { /* a product of eight letters, then of nine */
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, 6, rest);
        put_weight(&graph, "w", 1, more ? 3 : 2, more ? (const int64_t[]){1, 2, 1} : two_of_them, twice, sizeof twice);
        put_node(&graph, "Einsum", "w,x", "y",
                 text_attribute("equation", more ? "abi,cdefgh->hgfedcba" : "ab,cdefgh->hgfedcba"));
        put_io(&graph, 12, "y", 1, 8, back);
        put_model(&file, &graph, 13);
        if (more) CHECK(accepted(&file)); /* its ninth letter is summed */
        else if (CHECK(run_file(&of_rest, x, 12, y) == 12))
            for (int i = 0; i < 12; i++) CHECK(y[i] == (i % 2 ? 3 : 2) * (i / 4 + 3 * (i / 2 % 2)));
    }
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_io(&graph, 11, "x", 1, 6, rest);
    put_weight(&graph, "w", 1, 3, (const int64_t[]){1, 2, 1}, twice, sizeof twice);
    put_node(&graph, "Einsum", "w,x", "y", text_attribute("equation", "abi,cdefgh->abicdefgh"));
    put_io(&graph, 12, "y", 1, 8, back);
    put_model(&file, &graph, 13);
    CHECK(refused(&file, NULL, "Einsum"));
}

/* What an equation gives, as a sum over the places of all letters; letter c has 2 or 3 places, operand k the numbers of
 * `number`. Returns the number of elements. */
static float number(int k, int i) { return (float)((i * 7 + k * 5) % 11 - 4); }
static int letter_size(char c) { return 2 + c % 2; }
static int sum_of_products(const char *eq, const char *out, double *y)
{
    int place[128] = {0}, n = 1;
    for (const char *p = out; *p; p++) n *= letter_size(*p);
    for (int i = 0; i < n; i++) y[i] = 0;
    for (;;) {
        double product = 1;
        int k = 0, at = 0;
        const char *p = eq;
        for (;; p++) {
            if (*p >= 'a' && *p <= 'z') at = at * letter_size(*p) + place[(int)*p];
            else product *= (double)number(k++, at), at = 0;
            if (*p == '-' || !*p) break;
        }
        at = 0;
        for (p = out; *p; p++) at = at * letter_size(*p) + place[(int)*p];
        y[at] += product;
        int c = 'a';
        for (; c <= 'z'; c++) {
            if (!strchr(eq, c)) continue;
            if (++place[c] < letter_size((char)c)) break;
            place[c] = 0;
        }
        if (c > 'z') return n;
    }
}

/* Three and more operands. The first one is fed, or known like the others. */
TEST(equations_of_many_operands)
{
    static const struct {
        const char *equation, *out;
    } list[] = {{"teh,ehd,te->td", "td"},
                {"te,teh,teh->t", "t"},
                {"te,tf,tg->efg", "efg"},
                {"te,tf,tg", "efg"},
                {"ii,ij,jk,k->i", "i"},
                {"ab,,b->a", "a"},
                {"a,b,c->", ""},
                {"ab,cd,be->e", "e"},
                {"i,i,i,i,i->i", "i"},
                {"abc,cd,de,ef,fg->bag", "bag"},
                {"abc,abc,abc->cab", "cab"},
                {"ij,kl,mn,jk,lm->ni", "ni"}};
    for (int i = 0; i < TP_COUNT(list); i++)
        for (int known = 0; known < 2; known++) {
            float x[64];
            double want[64], y[64];
            char names[64] = "";
            int k = 0;
            tp_shape of_x = {0};
            graph.n = 0;
            put_text(&graph, 2, "g");
            for (const char *p = list[i].equation; *p && *p != '-'; p += *p == ',') {
                int64_t dim[8];
                int ndim = 0, n = 1;
                for (; *p >= 'a' && *p <= 'z'; p++) n *= letter_size(*p), dim[ndim++] = letter_size(*p);
                for (int j = 0; j < n; j++) x[j] = number(k, j);
                const char name[3] = {'x', (char)('0' + k), 0};
                if (k == 0) of_x = tp_make_shape_n(ndim, dim);
                if (k || known) put_weight(&graph, name, 1, ndim, dim, x, (size_t)n * sizeof *x);
                else put_io(&graph, 11, name, 1, ndim, dim);
                snprintf(names + strlen(names), 8, "%s%s", k++ ? "," : "", name);
            }
            if (known) put_io(&graph, 11, "unused", 1, of_x.ndim, of_x.dim);
            put_node(&graph, "Einsum", names, "y", text_attribute("equation", list[i].equation));
            put_io(&graph, 12, "y", 1, 0, NULL);
            put_model(&file, &graph, 13);
            const int n = sum_of_products(list[i].equation, list[i].out, want);
            for (int64_t j = 0; j < tp_shape_size(&of_x); j++) x[j] = number(0, (int)j);
            if (CHECK_MSG(run_file(&of_x, x, 64, y) == n, "%s: %s", list[i].equation, tp_last_error()))
                for (int j = 0; j < n; j++)
                    CHECK_MSG(y[j] == want[j], "%s: %g, not %g", list[i].equation, y[j], want[j]);
        }
}

TEST(equations_that_do_not_fit)
{
    static const struct {
        const char *equation, *why;
    } list[] = {{"ij,jk->ik", "Einsum 'ij,jk->ik' is an equation of 2 inputs, but the node has 3"},
                {"ij,jk,kl,lm->im", "is an equation of 4 inputs, but the node has 3"},
                {"ij,jk,kl->z", "asks for a letter that no input has"},
                {"ij,jk,kl->ii",
                 "cannot be expressed: an equation is like 'ij,jk->ik', of letters only, with at most 16 inputs"},
                {",,,,,,,,,,,,,,,,->", "cannot be expressed: an equation is like"},
                {"ij,jk,k->i", "Einsum of a value with 2 dimensions"}};
    for (int i = 0; i < TP_COUNT(list); i++) {
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, 2, two_by_2);
        put_node(&graph, "Einsum", "x,x,x", "y", text_attribute("equation", list[i].equation));
        put_io(&graph, 12, "y", 1, 2, two_by_2);
        put_model(&file, &graph, 13);
        CHECK(refused(&file, NULL, list[i].why));
    }
}

/* A model with most kinds of field in it. */
static void rich_model(void)
{
    static const float w[18] = {0.5f, -1, 2}, b[] = {1, 2};
    static const int64_t wdim[] = {2, 1, 3, 3}, xdim[] = {-1, 4}, shape[] = {0, 1, 2, -1}, four[] = {4},
                         ones[] = {1, 1, 1, 1};
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_weight(&graph, "w", 1, 4, wdim, w, sizeof w);
    put_weight(&graph, "b", 1, 1, two, b, sizeof b);
    put_weight(&graph, "s", 7, 1, four, shape, sizeof shape);
    put_io(&graph, 11, "x", 1, 2, xdim);
    put_node(&graph, "Reshape", "x,s", "r", NULL);
    put_node(&graph, "Conv", "r,w,b", "c", ints_attribute("pads", ones, 4));
    put_node(&graph, "Relu", "c", "a", NULL);
    put_node(&graph, "GlobalAveragePool", "a", "p", NULL);
    put_node(&graph, "Flatten", "p", "y", NULL);
    put_io(&graph, 12, "y", 1, 2, n_by_2);
    put_model(&file, &graph, 13);
}

/* What a reader does not know, and known numbers with another wire, is passed over wherever it stands. */
TEST(unknown_fields_are_passed_over)
{
    double y[4], want[4];
    linear_model();
    CHECK(run_model(&file, NULL, 2, 2, want, 4) == 4);
    decorated = true;
    linear_model();
    CHECK(run_model(&file, NULL, 2, 2, y, 4) == 4 && memcmp(y, want, sizeof y) == 0);
    rich_model();
    CHECK(run_model(&file, NULL, 2, 4, y, 4) == 4);
    decorated = false;
    rich_model();
    CHECK(run_model(&file, NULL, 2, 4, want, 4) == 4 && memcmp(y, want, sizeof y) == 0);
}

/* Names of nodes as names of the graph: no empty scopes, a letter or '.' in front, '_' for every other sign. */
/* x (2,3,6,6): a convolution with ReLU, a pool, a gate of the channels, a concatenation, a mean over height and width. */
static void image_model(const float *w0, const float *w1)
{
    static const int64_t picture[] = {2, 3, 6, 6}, wide[] = {4, 3, 3, 3}, narrow[] = {4, 4, 1, 1}, scale[] = {4, 1, 1};
    static const int64_t pads[] = {1, 1, 1, 1}, kernel[] = {2, 2}, axes[] = {2, 3}, any[] = {-3, -3, -3, -3};
    static const float scales[] = {1, 2, 3, 4};
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_weight(&graph, "w0", 1, 4, wide, w0, 4 * 108);
    put_weight(&graph, "w1", 1, 4, narrow, w1, 4 * 16);
    put_weight(&graph, "scale", 1, 3, scale, scales, sizeof scales);
    put_weight(&graph, "axes", 7, 1, two, axes, sizeof axes);
    put_io(&graph, 11, "x", 1, 4, picture);
    put_node(&graph, "Conv", "x,w0", "a", ints_attribute("pads", pads, 4));
    put_node(&graph, "Relu", "a", "b", NULL);
    put_node(&graph, "MaxPool", "b", "c", ints_attribute("kernel_shape", kernel, 2));
    put_node(&graph, "GlobalAveragePool", "c", "d", NULL);
    put_node(&graph, "Conv", "d,w1", "e", NULL);
    put_node(&graph, "Sigmoid", "e", "gate", NULL);
    put_node(&graph, "Mul", "c,gate", "f", NULL);
    put_node(&graph, "Mul", "f,scale", "h", NULL);
    put_node(&graph, "Concat", "c,h", "i", int_attribute("axis", 1));
    put_node(&graph, "ReduceMean", "i,axes", "y", int_attribute("keepdims", 0));
    put_io(&graph, 12, "y", 1, 2, any);
    put_io(&graph, 12, "i", 1, 4, any);
    put_model(&file, &graph, 18);
}
static int count_text(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part)) n++;
    return n;
}

/* Inside, images have their channels last: only the input and the mean are transposed. What the file names has its layout. */
TEST(images_have_their_channels_last_inside)
{
    static const int oihw[] = {2, 3, 1, 0}, space[] = {2, 3};
    const int64_t wide[] = {4, 3, 3, 3}, narrow[] = {4, 4, 1, 1}, picture[] = {2, 3, 6, 6}, scale[] = {4, 1, 1};
    const float scales[] = {1, 2, 3, 4};
    float w0[108], w1[16], x[216];
    for (int i = 0; i < 108; i++) w0[i] = (float)(i * 37 % 23 - 11) / 16;
    for (int i = 0; i < 16; i++) w1[i] = (float)(i * 29 % 17 - 8) / 8;
    for (int i = 0; i < 216; i++) x[i] = (float)(i * 53 % 31 - 15) / 8;
    image_model(w0, w1);
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model m;
    tp_session *s = NULL;
    if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m)) &&
        CHECK((s = tp_session_new(g, NULL)) != NULL)) {
        tp_conv2d_attrs conv;
        tp_pool_attrs pool;
        tp_tensor t[3];
        tp_buf plan;
        memset(&conv, 0, sizeof conv), memset(&pool, 0, sizeof pool), memset(&plan, 0, sizeof plan);
        conv.data_format = pool.data_format = TP_NCHW, pool.padding = TP_VALID;
        pool.size_h = pool.size_w = 2, pool.stride_h = pool.stride_w = 1;
        tp_tensor_view(&t[0], TP_F32, tp_make_shape_n(4, wide), w0);
        tp_tensor_view(&t[1], TP_F32, tp_make_shape_n(4, narrow), w1);
        tp_tensor_view(&t[2], TP_F32, tp_make_shape_n(3, scale), scales);
        tp_node *c = tp_relu(tp_nn_conv2d(m.input[0].node, tp_transpose(tp_constant(g, &t[0]), oihw, 4), &conv));
        c = tp_nn_max_pool(c, &pool);
        tp_node *gate = tp_reduce_mean(c, space, 2, true);
        gate = tp_sigmoid(tp_nn_conv2d(gate, tp_transpose(tp_constant(g, &t[1]), oihw, 4), &conv));
        tp_node *both[2] = {c, tp_mul(tp_mul(c, gate), tp_constant(g, &t[2]))}, *want[2];
        want[1] = tp_concat(both, 2, 1);
        want[0] = tp_reduce_mean(want[1], space, 2, false);
        const tp_tensor *out[4] = {NULL, NULL, NULL, NULL};
        tp_node *f = tp_graph_find(g, "f"), *fetch[4] = {want[0], m.output[0].node, want[1], m.output[1].node};
        tp_feed feed;
        memset(&feed, 0, sizeof feed);
        feed.node = m.input[0].node;
        tp_tensor_view(&feed.value, TP_F32, tp_make_shape_n(4, picture), x);
        CHECK(f && f->shape.ndim == 4 && f->shape.dim[1] == 4 && f->shape.dim[2] == 5);
        if (CHECK_OK(tp_session_run(s, &feed, 1, fetch, 4, out)))
            for (int i = 0; i < 4; i += 2) {
                CHECK(tp_shape_equal(&out[i]->shape, &out[i + 1]->shape));
                for (int64_t k = 0; k < tp_tensor_size(out[i]); k++)
                    CHECK_NEAR(tp_tensor_get(out[i + 1], k), tp_tensor_get(out[i], k), 1e-5, 1e-6);
            }
        if (CHECK_OK(tp_session_run(s, &feed, 1, &fetch[1], 1, out)) &&
            CHECK_OK(tp_exec_print_plan(tp_session_exec(s), &fetch[1], 1, &plan)))
            CHECK_MSG(count_text(plan.data, "  transpose ") == 2 && !strstr(plan.data, "(2,4,"), "%s", plan.data);
        tp_buf_free(&plan);
    }
    tp_session_free(s);
    tp_graph_free(g);
}

/* The shuffle of a network's channels moves numbers within the pixels; other transposes of five dimensions are as they are. */
TEST(channels_are_shuffled_within_their_pixels)
{
    static const int64_t picture[] = {2, 6, 3, 4}, weight[] = {6, 6, 1, 1}, back[] = {2, 6, 3, 4}, n_five[] = {5},
                         n_four[] = {4};
    static const int64_t any[] = {-3, -3, -3, -3},
                         five[][5] = {{2, 2, 3, 3, 4}, {2, 3, 2, 3, 4}, {0, 2, 3, 3, 4}, {2, 2, 3, 4, 3}};
    static const int64_t perm[][5] = {{0, 2, 1, 3, 4}, {0, 2, 1, 4, 3}};
    float x[144], w[36], y[144], want[144];
    for (int i = 0; i < 144; i++) x[i] = (float)i;
    for (int i = 0; i < 36; i++) w[i] = i % 7 == 0;
    for (int which = 0; which < 5; which++) {
        const int64_t *split = five[which % 4], *order = perm[which == 4];
        const int64_t a = split[1], b = split[2];
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_weight(&graph, "w", 1, 4, weight, w, sizeof w);
        put_weight(&graph, "five", 7, 1, n_five, split, 40);
        put_weight(&graph, "four", 7, 1, n_four, back, 32);
        put_io(&graph, 11, "x", 1, 4, picture);
        put_node(&graph, "Conv", "x,w", "c", NULL);
        put_node(&graph, "Reshape", "c,five", "s", NULL);
        put_node(&graph, "Transpose", "s", "t", ints_attribute("perm", order, 5));
        put_node(&graph, "Reshape", "t,four", "r", NULL);
        put_node(&graph, "Conv", "r,w", "y", NULL);
        put_io(&graph, 12, "y", 1, 4, any);
        put_model(&file, &graph, 18);
        for (int64_t i = 0; i < 144; i++) { /* the element of c that element i of t is */
            int64_t at[5] = {0, 0, 0, 0, 0}, size[5], left = i;
            for (int d = 0; d < 5; d++) size[d] = split[order[d]] ? split[order[d]] : 2;
            for (int d = 4; d >= 0; d--) at[order[d]] = left % size[d], left /= size[d];
            want[i] = x[(((at[0] * a + at[1]) * b + at[2]) * split[3] + at[3]) * split[4] + at[4]];
        }
        tp_graph *g = tp_graph_new(NULL);
        tp_onnx_model m;
        tp_session *s = NULL;
        tp_buf plan;
        memset(&plan, 0, sizeof plan);
        if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m)) &&
            CHECK((s = tp_session_new(g, NULL)) != NULL)) {
            const tp_tensor *out;
            tp_feed feed;
            memset(&feed, 0, sizeof feed);
            feed.node = m.input[0].node;
            tp_tensor_view(&feed.value, TP_F32, tp_make_shape_n(4, picture), x);
            if (CHECK_OK(tp_session_run(s, &feed, 1, &m.output[0].node, 1, &out)))
                for (int i = 0; i < 144; i++) y[i] = (float)tp_tensor_get(out, i);
            CHECK_MSG(memcmp(y, want, sizeof y) == 0, "shuffle %d", which);
            CHECK_OK(tp_exec_print_plan(tp_session_exec(s), &m.output[0].node, 1, &plan));
            /* the input, the shuffle and the output; or the shuffle with channels first, between two more */
            CHECK_MSG(count_text(plan.data, "  transpose ") == (which < 3 ? 3 : 5), "shuffle %d: %s", which, plan.data);
        }
        tp_buf_free(&plan);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

TEST(names_of_nodes_in_the_graph)
{
    static const char *const name[][2] = {
        {"plain", "plain"}, {"a/b", "a/b"},       {"/a//b/", "a/b"},  {"a b:c", "a_b_c"},   {"-x", "_x"},
        {"a/-x", "a/_x"},   {".x/.y", ".x/.y"},   {"x-y.z", "x-y.z"}, {"9lives", "9lives"}, {"_a", "_a"},
        {"\xc3\xa4", "__"}, {"A/Z/z0", "A/Z/z0"}, {"///", "node"},    {"a/b///", "a/b"},    {"@{}[`", "_____"}};
    for (int i = 0; i < TP_COUNT(name); i++) {
        static msg node;
        tp_graph *g = tp_graph_new(NULL);
        tp_onnx_model m;
        char want[100], got[300];
        graph.n = node.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, 2, n_by_2);
        put_text(&node, 1, "x");
        put_text(&node, 2, "y");
        put_text(&node, 3, name[i][0]);
        put_text(&node, 4, "Relu");
        put_msg(&graph, 1, &node);
        put_io(&graph, 12, "y", 1, 2, n_by_2);
        put_model(&file, &graph, 13);
        if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m))) {
            bool found = false;
            snprintf(want, sizeof want, "%s/", name[i][1]);
            for (int k = 0; k < tp_graph_n_operations(g); k++) {
                snprintf(got, sizeof got, "%s", tp_graph_operation(g, k)->name);
                found |= strncmp(got, want, strlen(want)) == 0 && strchr(got + strlen(want), '/') == NULL;
            }
            CHECK_MSG(found, "'%s' is not '%s'", name[i][0], want);
        }
        tp_graph_free(g);
    }
}

/* A pool of x, of dims (1,1,H,W) with -1 where it is not known. list: numbers of an attribute, ended by -99. */
static void pool_model(const char *op, const int64_t *picture, int n, const int64_t list[4][5], const char *mode,
                       const char *flag, bool places)
{
    static const char *const name[] = {"kernel_shape", "strides", "dilations", "pads"};
    static const int64_t any[] = {-1, -1, -1, -1, -1};
    static msg node;
    graph.n = node.n = 0;
    put_text(&graph, 2, "g");
    put_io(&graph, 11, "x", 1, n, picture);
    put_text(&node, 1, "x");
    put_names(&node, 2, places ? "y,places" : "y");
    put_text(&node, 3, "y");
    put_text(&node, 4, op);
    for (int k = 0; k < 4; k++) {
        int count = 0;
        while (count < 5 && list[k][count] != -99) count++;
        if (count) put_msg(&node, 5, ints_attribute(name[k], list[k], count));
    }
    if (mode) put_msg(&node, 5, text_attribute("auto_pad", mode));
    if (flag) put_msg(&node, 5, int_attribute(flag, 1));
    put_msg(&graph, 1, &node);
    put_io(&graph, 12, places ? "places" : "y", places ? 7 : 1, n, any);
    put_model(&file, &graph, 13);
}

/* Windows over three axes, each axis with numbers of its own, against a plain loop. */
TEST(windows_of_three_uneven_axes)
{
    enum { E = -99, N = 2, C = 2, CASES = 24 };
    static const int64_t picture[] = {N, C, 7, 8, 9};
    float x[N * C * 7 * 8 * 9];
    for (int i = 0; i < TP_COUNT(x); i++) x[i] = (float)(((uint32_t)i * 2654435761u) >> 8 & 0xffff) / 64 - 512;
    for (int i = 0; i < 2 * CASES; i++) {
        const bool mean = i % 2;
        int64_t list[4][5], out[3];
        for (int k = 0; k < 4; k++) list[k][0] = list[k][3] = E;
        for (int a = 0; a < 3; a++) { /* kernels of 1 to 3, strides and dilations of 1 and 2 */
            const uint32_t r = ((uint32_t)(i / 2 * 3 + a) * 2654435761u) >> 16;
            list[0][a] = 1 + r % 3, list[1][a] = 1 + r / 3 % 2, list[2][a] = i < 16 ? 1 : 1 + r / 6 % 2;
            out[a] = (picture[2 + a] - (list[0][a] - 1) * list[2][a] - 1) / list[1][a] + 1;
        }
        pool_model(mean ? "AveragePool" : "MaxPool", picture, 5, (const int64_t(*)[5])list, NULL, NULL, false);
        tp_graph *g = tp_graph_new(NULL);
        tp_onnx_model m;
        tp_session *s = NULL;
        const tp_tensor *y = NULL;
        tp_feed feed;
        memset(&feed, 0, sizeof feed);
        if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m)) &&
            CHECK((s = tp_session_new(g, NULL)) != NULL)) {
            feed.node = m.input[0].node;
            tp_tensor_view(&feed.value, TP_F32, tp_make_shape_n(5, picture), x);
            tp_node *fetch = m.output[0].node;
            CHECK_OK(tp_session_run(s, &feed, 1, &fetch, 1, &y));
        }
        if (y && CHECK(tp_tensor_size(y) == N * C * out[0] * out[1] * out[2]))
            for (int64_t e = 0; e < tp_tensor_size(y); e++) {
                const int64_t w = e % out[2], h = e / out[2] % out[1], d = e / out[2] / out[1] % out[0],
                              plane = e / out[2] / out[1] / out[0];
                double sum = 0, most = -1e9;
                for (int64_t p = 0; p < list[0][0]; p++)
                    for (int64_t q = 0; q < list[0][1]; q++)
                        for (int64_t r = 0; r < list[0][2]; r++) {
                            const int64_t at =
                                ((plane * 7 + d * list[1][0] + p * list[2][0]) * 8 + h * list[1][1] + q * list[2][1]) *
                                    9 +
                                w * list[1][2] + r * list[2][2];
                            sum += (double)x[at], most = (double)x[at] > most ? (double)x[at] : most;
                        }
                const double want = mean ? sum / (double)(list[0][0] * list[0][1] * list[0][2]) : most;
                if (!CHECK_NEAR(tp_tensor_get(y, e), want, 1e-3, 1e-6)) break;
            }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* SAME pads so that there is a window for every stride begun, and nothing where windows are shorter than strides leave. */
TEST(windows_padded_to_the_same)
{
    enum { E = -99 };
    float x[9 * 5];
    for (int i = 0; i < TP_COUNT(x); i++) x[i] = (float)((i * 29 + 13) % 47) - 20;
    for (int i = 0; i < 7 * 3 * 4 * 4; i++) {
        const int64_t size = 3 + i / 48 % 7, k = 1 + i / 16 % 3, s = 1 + i / 4 % 4, columns = 5;
        const bool lower = i & 1, mean = i & 2;
        const int64_t picture[] = {1, 1, size, columns}, list[4][5] = {{k, 1, E}, {s, 1, E}, {E}, {E}};
        const int64_t rows = (size + s - 1) / s, all = (rows - 1) * s + k - size, total = all > 0 ? all : 0;
        const int64_t before = lower ? total - total / 2 : total / 2;
        pool_model(mean ? "AveragePool" : "MaxPool", picture, 4, list, lower ? "SAME_LOWER" : "SAME_UPPER", NULL,
                   false);
        tp_graph *g = tp_graph_new(NULL);
        tp_onnx_model m;
        tp_session *session = NULL;
        const tp_tensor *y = NULL;
        tp_feed feed;
        memset(&feed, 0, sizeof feed);
        if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m)) &&
            CHECK((session = tp_session_new(g, NULL)) != NULL)) {
            feed.node = m.input[0].node;
            tp_tensor_view(&feed.value, TP_F32, tp_make_shape_n(4, picture), x);
            tp_node *fetch = m.output[0].node;
            CHECK_OK(tp_session_run(session, &feed, 1, &fetch, 1, &y));
        }
        if (y && CHECK_MSG(tp_tensor_size(y) == rows * columns, "%d rows by %d, stride %d", (int)size, (int)k, (int)s))
            for (int64_t e = 0; e < rows * columns; e++) {
                double sum = 0, most = -1e9;
                int n = 0;
                for (int64_t p = 0; p < k; p++) {
                    const int64_t row = e / columns * s + p - before;
                    if (row < 0 || row >= size) continue;
                    const double v = (double)x[row * columns + e % columns];
                    sum += v, most = v > most ? v : most, n++;
                }
                if (!CHECK_NEAR(tp_tensor_get(y, e), mean ? sum / n : most, 1e-5, 1e-6)) break;
            }
        tp_session_free(session);
        tp_graph_free(g);
    }
}

/* Windows over pictures of unknown size give what they give where the size is known. */
TEST(windows_of_unknown_size)
{
    enum { E = -99 };
    static const int64_t known[] = {1, 2, 5, 5}, open[] = {1, 2, -1, -1};
    float x[50];
    for (int i = 0; i < TP_COUNT(x); i++) x[i] = (float)((i * 29 + 13) % 47) - 20;
    for (int i = 0; i < 2 * 2 * 3 * 3 * 3; i++) {
        const int axes = 1 + i % 2, k = 1 + i / 4 % 3, s = 1 + i / 12 % 3, how = i / 36;
        const char *op = i & 2 ? "AveragePool" : "MaxPool", *mode = how == 0 ? "SAME_UPPER" : how == 1 ? "VALID" : NULL;
        const int64_t list[4][5] = {{k, axes > 1 ? k : E, E}, {s, axes > 1 ? s : E, E}, {E}, {E}};
        const tp_shape shape = tp_make_shape_n(2 + axes, known);
        double want[50], y[50];
        pool_model(op, known, 2 + axes, list, mode, NULL, false);
        const int n = run_file(&shape, x, 50, want);
        CHECK(n > 0);
        pool_model(op, open, 2 + axes, list, mode, NULL, false);
        if (!CHECK_MSG(run_file(&shape, x, 50, y) == n, "%s, %d axes, window %d, stride %d: %s", op, axes, k, s,
                       tp_last_error()))
            continue;
        for (int e = 0; e < n; e++) CHECK_NEAR(y[e], want[e], 1e-6, 1e-6);
    }
}

/* Transposed convolution of 1, 2, 3 over one axis; a list of no number or one is an attribute. */
static void transposed_model(int64_t stride, const char *name, const int64_t *list, int n)
{
    static const float x[] = {1, 2, 3}, w[] = {1, 10, 100};
    static const int64_t dims[] = {1, 1, 3}, any[] = {-1, -1, -1};
    static msg node;
    graph.n = node.n = 0;
    put_text(&graph, 2, "g");
    put_weight(&graph, "u", 1, 3, dims, x, sizeof x);
    put_weight(&graph, "w", 1, 3, dims, w, sizeof w);
    put_names(&node, 1, "u,w");
    put_text(&node, 2, "y");
    put_text(&node, 3, "y");
    put_text(&node, 4, "ConvTranspose");
    put_msg(&node, 5, ints_attribute("strides", &stride, 1));
    if (name) put_msg(&node, 5, ints_attribute(name, list, n));
    put_msg(&graph, 1, &node);
    put_io(&graph, 12, "y", 1, 3, any);
    put_model(&file, &graph, 13);
}

/* It is as much longer as output_padding says (also where that is more than the stride allows), or as long as output_shape says:
 * what is too much is cut off, first at the beginning. */
TEST(transposed_convolutions_of_one_axis)
{
    for (int64_t stride = 1; stride <= 3; stride++) {
        const int64_t whole = 2 * stride + 3;
        double all[32] = {0}, y[32];
        for (int i = 0; i < 9; i++) all[i / 3 * stride + i % 3] += (1 + i / 3) * pow(10, i % 3);
        for (int64_t size = whole - 3; size < whole + stride + 3; size++)
            for (int shaped = 0; shaped < 2; shaped++) {
                const int64_t extra = size - whole, from = extra < 0 ? -extra - -extra / 2 : 0;
                if (extra < 0 && !shaped) continue;
                if (shaped) transposed_model(stride, "output_shape", &size, 1);
                else transposed_model(stride, extra ? "output_padding" : NULL, &extra, 1);
                const int n = run_model(&file, NULL, 1, 1, y, 32);
                if (CHECK_MSG(n == size, "stride %d: %d numbers, not %d", (int)stride, n, (int)size))
                    for (int i = 0; i < n; i++) CHECK(y[i] == all[from + i]);
            }
    }
    static const int64_t none[] = {0};
    transposed_model(2, "output_padding", none, 1);
    CHECK(accepted(&file));
    transposed_model(2, "output_padding", none, 0);
    CHECK(refused(&file, NULL, "make no sense"));
    transposed_model(2, "output_shape", none, 0);
    CHECK(refused(&file, NULL, "make no sense"));
    transposed_model(2, "output_shape", none, 1);
    CHECK(refused(&file, NULL, "those sizes"));
    /* the length is not known; the number of channels, which lie there when they are last, is */
    static const int64_t long_x[] = {1, 2, -3}, filter[] = {2, 1, 3};
    const float w[6] = {0};
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_weight(&graph, "w", 1, 3, filter, w, sizeof w);
    put_io(&graph, 11, "x", 1, 3, long_x);
    put_node(&graph, "ConvTranspose", "x,w", "y", NULL);
    put_io(&graph, 12, "y", 1, 3, long_x);
    put_model(&file, &graph, 13);
    CHECK(refused(&file, NULL, "ConvTranspose needs to know"));
    CHECK(refused(&file, NULL, ": dimension 2 of 'x'"));
}

/* y = reshape(abs(x), list), where the list has sizes of x, multiples of them and -1; x is (n, 8, 4), or (8 n, 4) made of it. */
TEST(the_rest_of_a_reshape)
{
    static const struct {
        const char *list; /* n: size of x's first dimension; 8n, 4n, 16n: multiples; m: -1; numbers */
        bool rows;        /* the input of Reshape is (8 n, 4) */
        int64_t want[4];  /* for n = 3; 0: no such dimension */
    } row[] = {{"8n,m", false, {24, 4}},          {"4n,m", false, {12, 8}},     {"m,8n", false, {4, 24}},
               {"n,m", false, {3, 32}},           {"n,m,d4", true, {3, 8, 4}},  {"n,m,d2", true, {3, 16, 2}},
               {"8n,m", true, {24, 4}},           {"m,n", true, {32, 3}},       {"m,n,d4", false, {8, 3, 4}},
               {"n,d2,m,d4", true, {3, 2, 4, 4}}, {"16n,m", true, {48, 2}},     {"back,m", false, {3, 32}},
               {"m,d8", true, {12, 8}},           {"n,d4,m", false, {3, 4, 8}}, {"8n,d4", false, {24, 4}},
               {"n,d8,d4", true, {3, 8, 4}}};
    static const int64_t x_size[] = {-1, 8, 4}, fed_size[] = {3, 8, 4}, zero = 0, d2 = 2, d4 = 4, d8 = 8, d16 = 16,
                         m = -1;
    float x[96];
    for (int i = 0; i < 96; i++) x[i] = (float)(i + 1);
    for (int i = 0; i < TP_COUNT(row); i++) {
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_weight(&graph, "zero", 7, 1, one, &zero, 8);
        put_weight(&graph, "d2", 7, 1, one, &d2, 8);
        put_weight(&graph, "d4", 7, 1, one, &d4, 8);
        put_weight(&graph, "d8", 7, 1, one, &d8, 8);
        put_weight(&graph, "d16", 7, 1, one, &d16, 8);
        put_weight(&graph, "m", 7, 1, one, &m, 8);
        put_io(&graph, 11, "x", 1, 3, x_size);
        put_node(&graph, "Shape", "x", "shape", NULL);
        put_node(&graph, "Gather", "shape,zero", "n", int_attribute("axis", 0));
        put_node(&graph, "Mul", "n,d8", "8n", NULL);
        put_node(&graph, "Mul", "n,d4", "4n", NULL);
        put_node(&graph, "Mul", "8n,d2", "16n", NULL);
        put_node(&graph, "Div", "16n,d16", "back", NULL);
        put_node(&graph, "Concat", "m,d4", "rows", int_attribute("axis", 0));
        put_node(&graph, "Concat", row[i].list, "list", int_attribute("axis", 0));
        put_node(&graph, "Abs", "x", "a", NULL);
        put_node(&graph, "Reshape", "a,rows", "r", NULL);
        put_node(&graph, "Reshape", row[i].rows ? "r,list" : "a,list", "y", NULL);
        put_io(&graph, 12, "y", 1, 0, NULL);
        put_model(&file, &graph, 13);
        tp_graph *g = tp_graph_new(NULL);
        tp_onnx_model model;
        tp_session *s = NULL;
        const tp_tensor *y = NULL;
        char text[TP_SHAPE_TEXT];
        int ndim = 0;
        while (ndim < 4 && row[i].want[ndim]) ndim++;
        const tp_shape want = tp_make_shape_n(ndim, row[i].want);
        if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &model)) &&
            CHECK((s = tp_session_new(g, NULL)) != NULL)) {
            tp_feed feed = tp_make_feed(model.input[0].node, TP_F32, tp_make_shape_n(3, fed_size), x);
            tp_node *fetch = model.output[0].node;
            CHECK_OK(tp_session_run(s, &feed, 1, &fetch, 1, &y));
        }
        CHECK_MSG(y && tp_shape_equal(&y->shape, &want) && memcmp(y->data, x, sizeof x) == 0, "%s of %s gives %s",
                  row[i].list, row[i].rows ? "rows" : "x", y ? tp_shape_text(&y->shape, text) : "nothing");
        tp_session_free(s);
        tp_graph_free(g);
    }

    /* what depends on the sizes is no number */
    static const char *const depends[] = {"n,m", "n,m,d4", "8n,m"};
    for (int i = 0; i < TP_COUNT(depends); i++) {
        static const int64_t open[] = {-1, -2, 4};
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_weight(&graph, "zero", 7, 1, one, &zero, 8);
        put_weight(&graph, "d4", 7, 1, one, &d4, 8);
        put_weight(&graph, "d8", 7, 1, one, &d8, 8);
        put_weight(&graph, "m", 7, 1, one, &m, 8);
        put_io(&graph, 11, "x", 1, 3, open);
        put_io(&graph, 11, "other", 1, 1, (const int64_t[]){-3});
        put_node(&graph, "Shape", "other", "shape", NULL);
        put_node(&graph, "Gather", "shape,zero", "n", int_attribute("axis", 0));
        put_node(&graph, "Mul", "n,d8", "8n", NULL);
        put_node(&graph, "Concat", depends[i], "list", int_attribute("axis", 0));
        put_node(&graph, "Reshape", "x,list", "y", NULL);
        put_io(&graph, 12, "y", 1, 0, NULL);
        put_model(&file, &graph, 13);
        CHECK_MSG(refused(&file, NULL, "not known when the graph is built"), "%s", depends[i]);
    }
}

/* A sum of two unknown sizes is not twice a third one, whatever the sizes' numbers; nor is half of one, taken four times, twice it. */
TEST(sums_of_sizes_are_no_multiples)
{
    static const char *const sum[][2] = {
        {"sa,sb", "Add"}, {"sa,sc", "Add"}, {"sb,sc", "Add"}, {"ssab,sc", "Add"}, {"half,d4", "Mul"}};
    static const int64_t d2 = 2, d4 = 4;
    for (int i = 0; i < TP_COUNT(sum); i++) {
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_weight(&graph, "d2", 7, 1, one, &d2, 8);
        put_weight(&graph, "d4", 7, 1, one, &d4, 8);
        put_io(&graph, 11, "a", 1, 1, (const int64_t[]){-1});
        put_io(&graph, 11, "b", 1, 1, (const int64_t[]){-2});
        put_io(&graph, 11, "c", 1, 1, (const int64_t[]){-3});
        put_node(&graph, "Shape", "a", "sa", NULL);
        put_node(&graph, "Shape", "b", "sb", NULL);
        put_node(&graph, "Shape", "c", "sc", NULL);
        put_node(&graph, "Add", "sa,sb", "ssab", NULL);
        put_node(&graph, "Div", "sa,d2", "half", NULL);
        put_node(&graph, sum[i][1], sum[i][0], "sum", NULL);
        put_node(&graph, "Cast", "sum", "y", int_attribute("to", 1));
        put_io(&graph, 12, "y", 1, 0, NULL);
        put_model(&file, &graph, 13);
        CHECK_MSG(refused(&file, NULL, "one of dimension 0 of 'a'"), "%s", sum[i][0]);
    }
}

/* Nodes of .inputs have dimensions without names; where an op needs them to be equal, they are. */
TEST(the_rest_of_a_reshape_of_given_nodes)
{
    static const int64_t zero = 0, m = -1, x_size[] = {-1, 8, 4};
    tp_graph *g = tp_graph_new(NULL);
    tp_node *in[2];
    const char *names[2] = {"a", "b"};
    for (int i = 0; i < 2; i++) in[i] = tp_placeholder(g, names[i], TP_F32, tp_make_shape(TP_ANY, 8, 4));
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_weight(&graph, "zero", 7, 1, one, &zero, 8);
    put_weight(&graph, "m", 7, 1, one, &m, 8);
    for (int i = 0; i < 2; i++) put_io(&graph, 11, names[i], 1, 3, x_size);
    put_node(&graph, "Shape", "a", "shape", NULL);
    put_node(&graph, "Gather", "shape,zero", "n", int_attribute("axis", 0));
    put_node(&graph, "Concat", "n,m", "list", int_attribute("axis", 0));
    put_node(&graph, "Add", "a,b", "sum", NULL);
    put_node(&graph, "Reshape", "sum,list", "y", NULL);
    put_io(&graph, 12, "y", 1, 0, NULL);
    put_model(&file, &graph, 13);
    tp_import_onnx_desc d;
    tp_onnx_value v[2] = {{"a", in[0]}, {"b", in[1]}};
    tp_onnx_model model;
    memset(&d, 0, sizeof d);
    d.inputs = v, d.n_inputs = 2;
    if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &model)))
        CHECK(model.output[0].node->shape.ndim == 2 && model.output[0].node->shape.dim[1] == 32);
    tp_graph_free(g);
}

/* Reshape keeps sizes of 0 and those that are not known. What follows from no elements is no size. */
TEST(what_is_empty_is_reshaped)
{
    static const int64_t x[][3] = {{0, 0, 3}, {2, 0, 3}, {-1, 0, 3}, {-1, -1, 3}};
    static const int64_t to[][3] = {{0, 0, 3}, {0, 0, 0}, {0, 0, -1}};
    static const float fed[12] = {0};
    for (int i = 0; i < TP_COUNT(x); i++)
        for (int k = 0; k < TP_COUNT(to); k++) {
            const int64_t size[] = {x[i][0] < 0 ? 2 : x[i][0], x[i][1] < 0 ? 2 : x[i][1], 3};
            graph.n = 0;
            put_text(&graph, 2, "g");
            put_weight(&graph, "to", 7, 1, three, to[k], sizeof to[k]);
            put_io(&graph, 11, "x", 1, 3, x[i]);
            put_node(&graph, "Reshape", "x,to", "y", NULL);
            put_io(&graph, 12, "y", 1, 0, NULL);
            put_model(&file, &graph, 13);
            if (i < 2 && k == 2) {
                CHECK(refused(&file, NULL, "has 0 elements, which do not make"));
                continue;
            }
            tp_graph *g = tp_graph_new(NULL);
            tp_onnx_model m;
            tp_session *s = NULL;
            const tp_tensor *y = NULL;
            tp_feed feed;
            memset(&feed, 0, sizeof feed);
            if (CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m)) &&
                CHECK((s = tp_session_new(g, NULL)) != NULL)) {
                feed.node = m.input[0].node;
                tp_tensor_view(&feed.value, TP_F32, tp_make_shape_n(3, size), fed);
                tp_node *fetch = m.output[0].node;
                CHECK_OK(tp_session_run(s, &feed, 1, &fetch, 1, &y));
            }
            const tp_shape want = tp_make_shape_n(3, size);
            CHECK_MSG(y && tp_shape_equal(&y->shape, &want), "input %d to %d", i, k);
            tp_session_free(s);
            tp_graph_free(g);
        }
}

/* The model of one Softmax, LogSoftmax or Hardmax of (rows,3,2,2), and what it makes of x; axis 4: none is named. */
static bool softmax_model(const char *op, int opset, int64_t rows, int64_t axis, const float *x, double *y)
{
    static const int64_t any[] = {-1, -1, -1, -1}, fed_size[] = {2, 3, 2, 2};
    const int64_t size[] = {rows, 3, 2, 2};
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_io(&graph, 11, "x", 1, 4, size);
    put_node(&graph, op, "x", "y", axis == 4 ? NULL : int_attribute("axis", axis));
    put_io(&graph, 12, "y", 1, 4, any);
    put_model(&file, &graph, opset);
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model m;
    tp_feed feed;
    const tp_tensor *value = NULL;
    memset(&feed, 0, sizeof feed);
    const bool built = tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m) == TP_OK;
    tp_session *s = built ? tp_session_new(g, NULL) : NULL;
    if (built && CHECK(s != NULL)) {
        tp_node *fetch = m.output[0].node;
        feed.node = m.input[0].node;
        tp_tensor_view(&feed.value, TP_F32, tp_make_shape_n(4, fed_size), (void *)(uintptr_t)x);
        CHECK_OK(tp_session_run(s, &feed, 1, &fetch, 1, &value));
        for (int64_t i = 0; value && i < 24; i++) y[i] = tp_tensor_get(value, i);
    }
    tp_session_free(s);
    tp_graph_free(g);
    return built;
}

/* Softmax and its kin over an axis; before version 13, over this one and all behind it, whose sizes must be known. */
TEST(softmax_of_old_and_new_versions)
{
    static const char *const op[] = {"Softmax", "LogSoftmax", "Hardmax"};
    static const int64_t size[] = {2, 3, 2, 2};
    float x[24];
    double y[24] = {0};
    for (int i = 0; i < 24; i++) x[i] = (float)(i * 7 % 24) / 4;
    for (int i = 0; i < 3 * 2 * 2 * 9; i++) {
        const bool old = i / 3 % 2, open = i / 6 % 2;
        const int kind = i % 3, axis = i / 12 - 4,
                  named = axis < 4 ? axis
                          : old    ? 1
                                   : -1,
                  d = named < 0 ? named + 4 : named;
        int outer = 1, inner = 1;
        for (int k = 0; k < d; k++) outer *= (int)size[k];
        for (int k = d + 1; k < 4 && !old; k++) inner *= (int)size[k];
        const int n = 24 / outer / inner;
        /* of an unknown number of rows: not over the rows together with others, nor a Hardmax over them */
        const bool refused_here = open && (old ? d != 1 && d != 3 : kind == 2 && d == 0);
        const bool built = softmax_model(op[kind], old ? 12 : 13, open ? -1 : 2, axis, x, y);
        CHECK_MSG(built == !refused_here, "%s of axis %d, version %d: '%s'", op[kind], axis, old ? 12 : 13,
                  tp_last_error());
        if (!built) CHECK_HAS(tp_last_error(), "needs to know dimension 0 of its input");
        for (int k = 0; k < 24 && built; k++) {
            const float *row = x + k / (n * inner) * n * inner + k % inner;
            double sum = 0;
            float most = -1;
            for (int q = 0; q < n; q++) sum += exp(row[q * inner]), most = fmaxf(most, row[q * inner]);
            const double want = kind == 2 ? x[k] == most : kind == 1 ? x[k] - log(sum) : exp(x[k]) / sum;
            CHECK_MSG(fabs(y[k] - want) < 1e-5, "%s of axis %d, version %d, element %d: %g, not %g", op[kind], axis,
                      old ? 12 : 13, k, y[k], want);
        }
    }
}

/* A list of which a part is taken that depends on an unknown size: how long the part is cannot be known. Such parts of the sizes
 * themselves at places that are known are fine. */
TEST(a_cut_at_an_unknown_size)
{
    static const int64_t zero = 0, most = 9, list[] = {5, 6, 7};
    static const struct {
        const char *inputs;
        bool refused;
    } row[] = {{"list,zero,rows", true},        {"list,rows,most", true},  {"list,less,most", true},
               {"list,zero,less", true},        {"shape,zero,rows", true}, {"list,zero,most,zero,rows", true},
               {"shape,zero,most,zero", false}, {"list,zero,most", false}};
    for (int i = 0; i < TP_COUNT(row); i++) {
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_weight(&graph, "zero", 7, 1, one, &zero, 8);
        put_weight(&graph, "most", 7, 1, one, &most, 8);
        put_weight(&graph, "list", 7, 1, three, list, sizeof list);
        put_io(&graph, 11, "x", 1, 2, n_by_2);
        put_node(&graph, "Shape", "x", "shape", NULL);
        put_node(&graph, "Gather", "shape,zero", "rows", NULL);
        put_node(&graph, "Sub", "rows,most", "less", NULL);
        put_node(&graph, "Slice", row[i].inputs, "part", NULL);
        put_node(&graph, "ReduceProd", "part", "all", NULL);
        put_node(&graph, "Reshape", row[i].inputs[0] == 's' ? "x,all" : "x,shape", "y", NULL);
        put_io(&graph, 12, "y", 1, 0, NULL);
        put_model(&file, &graph, 13);
        if (row[i].refused) CHECK(refused(&file, NULL, "Slice with a size that is not known cannot be expressed"));
        else CHECK(accepted(&file));
    }
    graph.n = 0; /* and sizes that are no int64 any more */
    put_text(&graph, 2, "g");
    put_io(&graph, 11, "x", 1, 2, n_by_2);
    put_node(&graph, "Shape", "x", "shape", NULL);
    put_node(&graph, "Cast", "shape", "y", int_attribute("to", 1));
    put_io(&graph, 12, "y", 1, 1, two);
    put_model(&file, &graph, 13);
    CHECK(refused(&file, NULL, "Cast with a size that is not known cannot be expressed"));
}

/* k from none to one more than there are, the largest and the least. */
TEST(the_largest_and_the_least_of_a_row)
{
    for (int64_t k = 0; k <= 3; k++)
        for (int least = 0; least < 2; least++) {
            double y[4];
            graph.n = 0;
            put_text(&graph, 2, "g");
            put_weight(&graph, "k", 7, 1, one, &k, 8);
            put_io(&graph, 11, "x", 1, 2, n_by_2);
            put_node(&graph, "TopK", "x,k", "y,places", int_attribute("largest", !least));
            put_io(&graph, 12, "y", 1, 2, n_by_2);
            put_model(&file, &graph, 13);
            if (k == 0) CHECK(refused(&file, NULL, "that k"));
            else if (k == 3) CHECK(refused(&file, NULL, "the 3 largest of the last axis"));
            else if (CHECK(run_model(&file, NULL, 2, 2, y, 4) == 2 * k)) /* of 1, 2 and 3, 4 */
                for (int i = 0; i < 2 * k; i++) {
                    const int64_t row = i / k, place = i % k;
                    CHECK(y[i] == (double)(2 * row + (least ? 1 + place : 2 - place)));
                }
        }
}

/* The limits of what a window may be, and windows of pictures of unknown size, which only plain ones can be. */
TEST(limits_of_windows)
{
    enum { M = 1 << 20, E = -99 };
    static const int64_t small[] = {1, 1, 5, 5}, open[] = {1, 1, -1, -1}, deep[] = {1, 1, -1, 6, 6};
    static const struct {
        int64_t list[4][5];
        const char *sentence;
    } bad[] = {
        {{{0, 1, E}, {E}, {E}, {E}}, "with kernel 0, stride 1, pads 0 and 0 cannot be expressed"},
        {{{1, M + 1, E}, {E}, {E}, {E}}, "with kernel 1048577, stride 1"},
        {{{1, 1, E}, {0, 1, E}, {E}, {E}}, "with kernel 1, stride 0"},
        {{{1, 1, E}, {1, M + 1, E}, {E}, {E}}, "with kernel 1, stride 1048577"},
        {{{1, 1, E}, {E}, {0, 1, E}, {E}}, "cannot be expressed"},
        {{{1, 1, E}, {E}, {1, M + 1, E}, {E}}, "cannot be expressed"},
        {{{1, 1, E}, {E}, {E}, {-1, 0, 0, 0, E}}, "pads -1 and 0"},
        {{{1, 1, E}, {E}, {E}, {0, 0, 0, -1, E}}, "pads 0 and -1"},
        {{{1, 1, E}, {E}, {E}, {0, M + 1, 0, 0, E}}, "pads 1048577 and 0"},
        {{{1, 1, E}, {E}, {E}, {0, 0, M + 1, 0, E}}, "pads 0 and 1048577"},
        {{{1, 1, E}, {1, E}, {E}, {E}}, "MaxPool has 1 strides for 2 spatial axes"},
        {{{1, 1, E}, {E}, {1, E}, {E}}, "MaxPool has 1 dilations for 2 spatial axes"},
        {{{1, 1, E}, {E}, {E}, {1, 1, E}}, "MaxPool has 2 pads for 2 spatial axes"},
        {{{1, E}, {E}, {E}, {E}}, "MaxPool should have a kernel_shape of as many numbers as there are spatial axes"},
        {{{E}, {E}, {E}, {E}}, "MaxPool should have a kernel_shape"}};
    static const int64_t two_by_three[4][5] = {{2, 3, E}, {2, 2, E}, {E}, {E}},
                         dilated[4][5] = {{2, 3, E}, {2, 2, E}, {1, 2, E}, {E}},
                         cube[4][5] = {{2, 2, 2, E}, {2, 2, 2, E}, {E}, {E}};
    static const int64_t good[][4][5] = {
        {{1, M, E}, {E}, {E}, {E}}, {{1, 1, E}, {1, M, E}, {E}, {E}}, {{1, 1, E}, {E}, {1, M, E}, {E}}};
    for (int i = 0; i < TP_COUNT(bad); i++) {
        pool_model("MaxPool", small, 4, bad[i].list, NULL, NULL, false);
        CHECK(refused(&file, NULL, bad[i].sentence));
    }
    for (int i = 0; i < TP_COUNT(good); i++) {
        pool_model("MaxPool", small, 4, good[i], "SAME_UPPER", NULL, false);
        CHECK(accepted(&file));
    }
    static const int64_t pads[][4][5] = {{{1, M, E}, {E}, {E}, {0, M, 0, 0, E}},
                                         {{1, M, E}, {E}, {E}, {0, 0, 0, M, E}}};
    for (int i = 0; i < TP_COUNT(pads); i++) {
        pool_model("AveragePool", small, 4, pads[i], NULL, NULL, false);
        CHECK(accepted(&file));
        pool_model("MaxPool", small, 4, pads[i], NULL, NULL, false);
        CHECK(accepted(&file));
    }
    /* SAME of an unknown size: plain ones, and what makes them need it */
    for (int i = 0; i < 2; i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_onnx_model m;
        pool_model(i ? "AveragePool" : "MaxPool", open, 4, two_by_three, "SAME_UPPER", NULL, false);
        CHECK_OK(tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m));
        tp_graph_free(g);
    }
    pool_model("MaxPool", open, 4, two_by_three, "SAME_LOWER", NULL, false);
    CHECK(refused(&file, NULL, "MaxPool needs to know dimension 2 of its input"));
    pool_model("LpPool", open, 4, two_by_three, "SAME_UPPER", NULL, false);
    CHECK(refused(&file, NULL, "LpPool needs to know dimension 2 of its input"));
    pool_model("MaxPool", open, 4, two_by_three, "SAME_UPPER", NULL, true);
    CHECK(refused(&file, NULL, "MaxPool needs to know dimension 2 of its input"));
    pool_model("MaxPool", open, 4, dilated, "SAME_UPPER", NULL, false);
    CHECK(refused(&file, NULL, "MaxPool needs to know dimension 2 of its input"));
    pool_model("MaxPool", open, 4, two_by_three, "SAME_UPPER", "ceil_mode", false);
    CHECK(refused(&file, NULL, "MaxPool needs to know dimension 2 of its input"));
    pool_model("AveragePool", open, 4, two_by_three, "SAME_UPPER", "count_include_pad", false);
    CHECK(refused(&file, NULL, "AveragePool needs to know dimension 2 of its input"));
    pool_model("MaxPool", deep, 5, cube, "SAME_UPPER", NULL, false);
    CHECK(refused(&file, NULL, "MaxPool needs to know dimension 2 of its input"));
}

/* Which version of the operators counts: that of ONNX's own domain, whatever else the model uses. */
TEST(versions_of_domains)
{
    static const struct {
        const char *domain[2];
        int version[2];
        const char *node_domain, *sentence; /* Squeeze takes its axes as an attribute up to version 12 */
    } list[] = {{{"", NULL}, {11, 0}, NULL, NULL},
                {{"ai.onnx", NULL}, {11, 0}, NULL, NULL},
                {{"", "com.other"}, {11, 99}, NULL, NULL},
                {{"com.other", "ai.onnx"}, {99, 11}, "ai.onnx", NULL},
                {{"", NULL}, {11, 0}, "com.other", "tp has no operator com.other.Squeeze"},
                {{"com.other", NULL}, {11, 0}, NULL, "which version of the operators"}};
    for (int i = 0; i < TP_COUNT(list); i++) {
        static msg node, set;
        static const int64_t axis[] = {1}, x_dim[] = {2, 1};
        tp_graph *g = tp_graph_new(NULL);
        tp_onnx_model m;
        graph.n = node.n = file.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, 2, x_dim);
        put_text(&node, 1, "x");
        put_text(&node, 2, "y");
        put_text(&node, 4, "Squeeze");
        put_msg(&node, 5, ints_attribute("axes", axis, 1));
        if (list[i].node_domain) put_text(&node, 7, list[i].node_domain);
        put_msg(&graph, 1, &node);
        put_io(&graph, 12, "y", 1, 1, two);
        put_int(&file, 1, 8);
        put_msg(&file, 7, &graph);
        for (int k = 0; k < 2 && list[i].domain[k]; k++) {
            set.n = 0;
            put_text(&set, 1, list[i].domain[k]);
            put_int(&set, 2, list[i].version[k]);
            put_int(&set, 3, 0); /* a field of a later ONNX */
            put_msg(&file, 8, &set);
        }
        const tp_status st = tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m);
        if (list[i].sentence)
            CHECK_MSG(st < TP_OK && strstr(tp_last_error(), list[i].sentence), "%d: %s", i, tp_last_error());
        else
            CHECK_MSG(st == TP_OK && m.output[0].node->shape.ndim == 1, "%d: %s", i,
                      st == TP_OK ? "" : tp_last_error());
        tp_graph_free(g);
    }
    static msg sparse;
    linear_model();
    sparse.n = 0;
    put_text(&sparse, 8, "s");
    put_msg(&graph, 15, &sparse);
    put_model(&file, &graph, 17);
    CHECK(refused(&file, NULL, "the model has sparse weights"));
}

TEST(cut_off_anywhere)
{
    double y[4];
    rich_model();
    CHECK(run_model(&file, NULL, 2, 4, y, 4) == 4);
    for (size_t n = 0; n < file.n; n++) {
        uint8_t *exact = (uint8_t *)malloc(n + 1); /* so that reading past the end is seen */
        memcpy(exact, file.b, n);
        tp_graph *g = tp_graph_new(NULL);
        tp_onnx_model m;
        /* cut between two fields, it can be a whole file of another meaning: then it still says which part is missing */
        const tp_status st = tp_import_onnx_parse(g, exact, n, "cut.onnx", NULL, &m);
        if (!CHECK(st < TP_OK && strstr(tp_last_error(), "cut.onnx"))) printf("  at %zu: %s\n", n, tp_last_error());
        tp_graph_free(g);
        free(exact);
    }
}

TEST(any_byte_may_be_wrong)
{
    rich_model();
    static msg original;
    original = file;
    int accepted = 0;
    for (size_t i = 0; i < original.n; i++)
        for (int k = 0; k < 3; k++) {
            uint8_t *exact = (uint8_t *)malloc(original.n);
            memcpy(exact, original.b, original.n);
            exact[i] = k == 0 ? (uint8_t)(exact[i] ^ 0x80) : k == 1 ? (uint8_t)(exact[i] + 1) : 0xff;
            tp_graph *g = tp_graph_new(NULL);
            tp_onnx_model m;
            const tp_status st = tp_import_onnx_parse(g, exact, original.n, "bad.onnx", NULL, &m);
            accepted += st == TP_OK;
            CHECK(st == TP_OK || (st < TP_OK && tp_last_error()[0]));
            tp_graph_free(g);
            free(exact);
        }
    CHECK(accepted > 0); /* a weight's byte is as good as another */
}

/* The models that take other ways through the import: unknown sizes, trainable weights, branches, pictures taken apart. */
static void other_model(int which)
{
    static const int64_t zero = 0, picture[] = {2, 1, 6, 6}, any[] = {-1, 1, -1, -1}, kernel[] = {2, 2},
                         sizes[] = {-1, 1, 5, 7};
    static const uint8_t yes = 1;
    static const float known[] = {1, 2, 3};
    static msg then;
    graph.n = then.n = 0;
    put_text(&graph, 2, "g");
    switch (which) {
    case 0: /* a list of sizes in which one is not known, through operators that are tried with guesses */
        put_weight(&graph, "zero", 7, 1, one, &zero, 8);
        put_weight(&graph, "twice", 7, 1, one, two, 8);
        put_io(&graph, 11, "x", 1, 2, n_by_2);
        put_node(&graph, "Shape", "x", "shape", NULL);
        put_node(&graph, "Gather", "shape,zero", "rows", NULL);
        put_node(&graph, "Mul", "rows,twice", "more", NULL);
        put_node(&graph, "Div", "more,twice", "again", NULL);
        put_node(&graph, "Concat", "again,twice", "wanted", int_attribute("axis", 0));
        put_node(&graph, "Reshape", "x,wanted", "r", NULL);
        put_node(&graph, "Concat", "rows,twice", "state", int_attribute("axis", 0));
        put_node(&graph, "ConstantOfShape", "state", "zeros", NULL);
        put_node(&graph, "Add", "r,zeros", "y", NULL);
        put_io(&graph, 12, "y", 1, 2, n_by_2);
        break;
    case 1:
        put_io(&graph, 11, "x", 1, 4, picture);
        put_node(&graph, "MaxPool", "x", "y,places", ints_attribute("kernel_shape", kernel, 2));
        put_node(&graph, "GlobalAveragePool", "y", "z", NULL);
        put_io(&graph, 12, "places", 7, 4, any);
        put_io(&graph, 12, "z", 1, 4, any);
        break;
    case 2:
        put_node(&then, "Neg", "x", "a", NULL);
        put_io(&then, 12, "a", 1, 2, n_by_2);
        put_weight(&graph, "cond", 9, 0, NULL, &yes, 1);
        put_io(&graph, 11, "x", 1, 2, n_by_2);
        put_node(&graph, "If", "cond", "y", graph_attribute("then_branch", &then));
        put_io(&graph, 12, "y", 1, 2, n_by_2);
        break;
    case 3: resize_model("mode=cubic", (const int64_t[]){2, 1, 5, 7}, 4, 1, 0); return;
    case 4: linear_model(); return;
    case 5:
        put_weight(&graph, "sizes", 7, 1, (const int64_t[]){4}, sizes, sizeof sizes);
        put_weight(&graph, "start", 7, 0, NULL, &zero, 8);
        put_weight(&graph, "stop", 7, 0, NULL, (const int64_t[]){6}, 8);
        put_weight(&graph, "step", 7, 0, NULL, (const int64_t[]){2}, 8);
        put_node(&graph, "Range", "start,stop,step", "y", NULL);
        put_io(&graph, 12, "y", 7, 1, three);
        break;
    case 7: norm_model(); return;
    case 9: masked_model("attn/mask\nmean"); return;
    case 6: /* an If that gives what is known */
        put_weight(&then, "a", 1, 1, three, known, sizeof known);
        put_io(&then, 12, "a", 1, 1, three);
        put_weight(&graph, "cond", 9, 0, NULL, &yes, 1);
        put_node(&graph, "If", "cond", "y", graph_attribute("then_branch", &then));
        put_io(&graph, 12, "y", 1, 1, three);
        break;
    default: rich_model(); return;
    }
    put_model(&file, &graph, 17);
}

TEST(out_of_memory_anywhere)
{
    for (int which = 0; which < 10; which++) {
        tp_import_onnx_desc d;
        long failures = 0;
        memset(&d, 0, sizeof d);
        d.trainable = which == 4 || which == 7 || which == 9 ? TP_YES : 0;
        d.constants = which == 9 ? "w|mean" : NULL;
        d.scope = which == 2 ? "scope" : NULL;
        other_model(which);
        for (long n = 1, failed = 1; failed; n++) {
            tp_test_fail_after(n);
            tp_graph *g = tp_graph_new(NULL);
            tp_onnx_model m;
            const tp_status st = g ? tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &m) : TP_ERR_NOMEM;
            failed = tp_test_alloc_failed();
            failures += failed;
            if (!CHECK(failed ? st == TP_ERR_NOMEM : st == TP_OK))
                printf("  model %d, allocation %ld: status %d, %s\n", which, n, (int)st, tp_last_error());
            if (g && failed) CHECK_HAS(tp_last_error(), "memory");
            tp_graph_free(g);
            if (!CHECK(tp_test_live_blocks() == 0)) break;
        }
        CHECK(failures > 8);
    }
    tp_test_alloc_reset();
}

/* Models whose pieces of memory come in turn to the end of a block. */
static void piecewise_model(int which, int fill)
{
    static const int64_t n_by_6[] = {-1, 6}, from = 1, to = 6, axis = 1, step = 2, picture[] = {1, 1, 4, 4};
    static const int64_t windows[4][5] = {{2, 2, -99}, {2, 2, -99}, {-99}, {-99}};
    if (which) pool_model("MaxPool", picture, 4, windows, NULL, NULL, true);
    else {
        graph.n = 0;
        put_text(&graph, 2, "g");
        put_io(&graph, 11, "x", 1, 2, n_by_6);
        put_weight(&graph, "from", 7, 1, one, &from, 8);
        put_weight(&graph, "to", 7, 1, one, &to, 8);
        put_weight(&graph, "axis", 7, 1, one, &axis, 8);
        put_weight(&graph, "step", 7, 1, one, &step, 8);
        put_node(&graph, "Slice", "x,from,to,axis,step", "part", NULL);
        put_node(&graph, "Shape", "x", "s", NULL);
        put_node(&graph, "ConstantOfShape", "s", "y", NULL);
        put_io(&graph, 12, "y", 1, 2, n_by_6);
    }
    file.n = 0;
    for (int i = 0; i < 3; i++) { /* names of domains fill the block up to here or there */
        static msg version;
        char domain[2048] = "";
        memset(domain, 'd', (size_t)(i == 2 ? 0 : i ? fill - fill / 32 * 16 : fill / 32 * 16));
        version.n = 0;
        put_text(&version, 1, domain);
        put_int(&version, 2, 13);
        put_msg(&file, 8, &version);
    }
    put_msg(&file, 7, &graph);
}

/* Whatever a model takes memory for may be what does not fit into the block at hand any more. */
TEST(out_of_memory_for_each_piece)
{
    long failures = 0;
    for (int i = 0; i < 500; i++) {
        piecewise_model(i % 2, i / 2 * 16); /* the first block has 4096 bytes, and what needs half of one has its own */
        for (long k = 1, failed = 1; failed; k++) {
            tp_test_fail_after(k);
            tp_graph *g = tp_graph_new(NULL);
            tp_onnx_model m;
            const tp_status st = g ? tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m) : TP_ERR_NOMEM;
            failed = tp_test_alloc_failed();
            failures += failed;
            CHECK_MSG(st == (failed ? TP_ERR_NOMEM : TP_OK), "model %d, allocation %ld: %s", i, k, tp_last_error());
            tp_graph_free(g);
            if (!CHECK(tp_test_live_blocks() == 0)) break;
        }
    }
    CHECK(failures > 1000);
    tp_test_alloc_reset();
}

/* The list of so many outputs has a block of its own, which may be the one that there is no memory for. */
TEST(out_of_memory_for_the_outputs)
{
    static const float value = 3;
    graph.n = 0;
    put_text(&graph, 2, "g");
    put_weight(&graph, "w", 1, 0, NULL, &value, sizeof value);
    for (int i = 0; i < 260; i++) put_io(&graph, 12, "w", 1, 0, NULL);
    put_model(&file, &graph, 13);
    long k = 1;
    for (long failed = 1; failed; k++) {
        tp_test_fail_after(k);
        tp_graph *g = tp_graph_new(NULL);
        tp_onnx_model m;
        const tp_status st = g ? tp_import_onnx_parse(g, file.b, file.n, "model.onnx", NULL, &m) : TP_ERR_NOMEM;
        failed = tp_test_alloc_failed();
        CHECK_MSG(st == (failed ? TP_ERR_NOMEM : TP_OK), "allocation %ld: %s", k, tp_last_error());
        if (!failed && st == TP_OK) CHECK(m.n_input == 0 && m.n_output == 260);
        tp_graph_free(g);
        if (!CHECK(tp_test_live_blocks() == 0)) break;
    }
    CHECK(k > 8);
    tp_test_alloc_reset();
}

/* Long names need memory of their own, so that the allocation for a name fails too. */
TEST(out_of_memory_for_a_name)
{
    static char x[560], w[560], y[560], both[1130];
    static const float two_numbers[] = {1, 2};
    long failures = 0;
    tp_import_onnx_desc d;
    memset(&d, 0, sizeof d);
    d.trainable = TP_YES;
    for (int n = 40; n < (int)sizeof x; n += 30) {
        memset(x, 'x', (size_t)n), memset(w, 'w', (size_t)n), memset(y, 'y', (size_t)n);
        x[n] = w[n] = y[n] = 0;
        snprintf(both, sizeof both, "%s,%s", x, w);
        graph.n = 0;
        put_text(&graph, 2, "g");
        for (int i = 0; i < 4; i++, w[0]++) put_weight(&graph, w, 1, 1, two, two_numbers, sizeof two_numbers);
        put_io(&graph, 11, x, 1, 2, n_by_2);
        put_node(&graph, "Add", both, y, NULL);
        put_io(&graph, 12, y, 1, 2, n_by_2);
        put_model(&file, &graph, 13);
        for (long k = 1, failed = 1; failed; k++) {
            tp_test_fail_after(k);
            tp_graph *g = tp_graph_new(NULL);
            tp_onnx_model m;
            const tp_status st = g ? tp_import_onnx_parse(g, file.b, file.n, "model.onnx", &d, &m) : TP_ERR_NOMEM;
            failed = tp_test_alloc_failed();
            failures += failed;
            CHECK_MSG(failed ? st == TP_ERR_NOMEM && strstr(tp_last_error(), "memory") : st == TP_OK,
                      "names of %d, allocation %ld: status %d, %s", n, k, (int)st, tp_last_error());
            /* the graph has no other mistake */
            if (g) CHECK(tp_graph_status(g) == TP_OK || tp_graph_status(g) == TP_ERR_NOMEM);
            tp_graph_free(g);
            if (!CHECK(tp_test_live_blocks() == 0)) break;
        }
    }
    CHECK(failures > 100);
    tp_test_alloc_reset();
}

/* A network of layers, out and in again; what came in is trained a little, and goes out once more. */
TEST(what_tp_writes_it_reads)
{
    char path[300];
    snprintf(path, sizeof path, "%s/net.onnx", tp_test_tmpdir());
    tp_graph *g = tp_graph_new(NULL), *h = tp_graph_new(NULL);
    tp_node *image = tp_placeholder(g, "image", TP_F32, tp_make_shape(TP_ANY, 12, 12, 3));
    tp_tower_desc tower = {.is_training = false};
    tp_tower_enter(g, &tower);
    tp_node *y = tp_linear(image, TP_CONV2D("conv0", .filters = 8, .kernel_size = 3, .activation = tp_bn_relu),
                           TP_MAX_POOLING("pool", .pool_size = 2),
                           TP_CONV2D("conv1", .filters = 6, .kernel_size = 3, .strides = 2), TP_OP(tp_relu),
                           TP_FULLY_CONNECTED("fc", .units = 5), TP_OP(tp_softmax));
    tp_tower_leave(g);
    tp_session *s = tp_session_new(g, NULL), *t = NULL;
    tp_onnx_model m;
    tp_import_onnx_desc d;
    memset(&d, 0, sizeof d);
    d.trainable = TP_YES;
    if (CHECK(s != NULL) && CHECK_OK(tp_export_onnx(s, &image, 1, &y, 1, path, NULL)) &&
        CHECK_OK(tp_import_onnx(h, path, &d, &m)) && CHECK(m.n_input == 1 && m.n_output == 1) &&
        CHECK((t = tp_session_new(h, NULL)) != NULL)) {
        CHECK(strcmp(m.input[0].name, "image") == 0);
        CHECK(m.input[0].node->shape.dim[0] == TP_ANY && m.input[0].node->shape.dim[3] == 3);
        CHECK(tp_graph_n_variables(h) >= 6);
        float x[2 * 12 * 12 * 3];
        for (int i = 0; i < (int)(sizeof x / sizeof *x); i++) x[i] = (float)(i * 37 % 101) / 50 - 1;
        tp_feed feed[2];
        const tp_tensor *a = NULL, *b = NULL;
        memset(feed, 0, sizeof feed);
        feed[0].node = image;
        feed[1].node = m.input[0].node;
        for (int i = 0; i < 2; i++) tp_tensor_view(&feed[i].value, TP_F32, tp_make_shape(2, 12, 12, 3), x);
        CHECK_OK(tp_session_run(s, &feed[0], 1, &y, 1, &a));
        CHECK_OK(tp_session_run(t, &feed[1], 1, &m.output[0].node, 1, &b));
        for (int64_t i = 0; a && b && i < 10; i++) CHECK_NEAR(tp_tensor_get(b, i), tp_tensor_get(a, i), 1e-6, 1e-5);

        tp_node *cost =
            tp_neg(tp_ln(tp_mean(tp_slice(m.output[0].node, (const int64_t[]){0, 2}, (const int64_t[]){-1, 1}))));
        tp_node *vars[32], *grads[32];
        int n = 0, k = 0;
        for (; n < tp_graph_n_variables(h) && n < 32; n++) vars[n] = tp_graph_variable(h, n)->node;
        tp_gradients(cost, vars, n, grads);
        for (int i = 0; i < n; i++) /* the running statistics have none */
            if (grads[i]) vars[k] = vars[i], grads[k++] = grads[i];
        CHECK(k >= 6 && k < n);
        tp_node *step = tp_apply_gradient_descent(vars, grads, k, tp_const(h, 0.05f), NULL), *fetch[2] = {cost, step};
        const tp_tensor *out[2];
        double first = 0, last = 0;
        for (int i = 0; i < 30 && CHECK_OK(tp_session_run(t, &feed[1], 1, fetch, 2, out)); i++) {
            last = tp_tensor_get(out[0], 0);
            if (i == 0) first = last;
        }
        CHECK_MSG(last < 0.7 * first, "%g, then %g", first, last);
        CHECK_OK(tp_export_onnx(t, &m.input[0].node, 1, &m.output[0].node, 1, path, NULL));
    }
    tp_session_free(s);
    tp_session_free(t);
    tp_graph_free(g);
    tp_graph_free(h);
}

TEST(operators_are_listed)
{
    int n = 0;
    bool conv = false;
    for (; tp_import_onnx_operator(n); n++) {
        conv |= strcmp(tp_import_onnx_operator(n), "Conv") == 0;
        for (int i = 0; i < n; i++) CHECK(strcmp(tp_import_onnx_operator(i), tp_import_onnx_operator(n)) != 0);
    }
    CHECK(conv && n > 130);
    CHECK(!tp_import_onnx_operator(-1) && !tp_import_onnx_operator(n) && !tp_import_onnx_operator(INT32_MAX));
}

TEST_MAIN()
