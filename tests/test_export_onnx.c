/* The ONNX export: models are read back with a small protobuf walker, and what stands in them is counted; each is imported
 * again (test_import_ops.c compares the import with other programs) and gives what the session gave. With the environment
 * variable TP_ONNX_DIR, each model is written there with inputs and what the session computes, for onnx_judge.py. */
#define TP_IMPLEMENTATION
#include "tp_export.h"
#include "tp_import.h"
#include "tp_layers.h"
#include "tp_test.h"

#include "export_nets.h"
#include "op_cases.h"
#include <signal.h>
#include <sys/resource.h>

/* ==== >>reading ======================================================================================= */

typedef struct field {
    unsigned number, kind;
    uint64_t v;
    const uint8_t *p;
    size_t n;
} field;

static bool varint(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
    *v = 0;
    for (unsigned shift = 0; *p < end && shift < 64; shift += 7) {
        const uint8_t byte = *(*p)++;
        *v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return true;
    }
    return false;
}
/* The next field of a message; false at its end, or where it is damaged. */
static bool next(const uint8_t **p, const uint8_t *end, field *f)
{
    uint64_t key;
    if (*p == end || !varint(p, end, &key)) return false;
    f->number = (unsigned)(key >> 3), f->kind = (unsigned)(key & 7), f->v = 0, f->p = NULL, f->n = 0;
    if (f->kind == 0) return varint(p, end, &f->v);
    if (f->kind == 2) {
        if (!varint(p, end, &f->v) || f->v > (uint64_t)(end - *p)) return CHECK_MSG(false, "a length is wrong");
        f->n = (size_t)f->v;
    } else f->n = f->kind == 5 ? 4 : 8;
    f->p = *p;
    *p += f->n;
    return CHECK_MSG(f->kind == 2 || f->kind == 5 || f->kind == 1, "kind %u does not exist", f->kind);
}

#define MAX_PARTS 2048
typedef struct part {
    const uint8_t *p;
    size_t n;
    char name[160], op[40];
} part;
typedef struct model {
    tp_buf bytes;
    int ir, opset, n_node, n_init, n_input, n_output;
    part node[MAX_PARTS], init[MAX_PARTS], input[64], output[64];
} model;

static void text_of(const field *f, char *out, size_t size)
{
    snprintf(out, size, "%.*s", (int)f->n, (const char *)f->p);
}
static void read_part(part *to, const field *f, unsigned name)
{
    const uint8_t *p = f->p;
    field g;
    memset(to, 0, sizeof *to);
    to->p = f->p, to->n = f->n;
    while (next(&p, f->p + f->n, &g)) {
        if (g.number == name && g.kind == 2) text_of(&g, to->name, sizeof to->name);
        if (g.number == 4 && g.kind == 2) text_of(&g, to->op, sizeof to->op);
    }
    CHECK_MSG(p == f->p + f->n, "a message does not end with a field");
}
static void read_model(model *m)
{
    const uint8_t *p = (const uint8_t *)m->bytes.data, *end = p + m->bytes.len;
    field f, g;
    m->ir = m->opset = m->n_node = m->n_init = m->n_input = m->n_output = 0;
    while (next(&p, end, &f)) {
        const uint8_t *q = f.p;
        if (f.number == 1) m->ir = (int)f.v;
        if (f.number == 8)
            while (next(&q, f.p + f.n, &g)) m->opset = g.number == 2 ? (int)g.v : m->opset;
        if (f.number != 7) continue;
        while (next(&q, f.p + f.n, &g)) {
            if (g.number == 1 && m->n_node < MAX_PARTS) read_part(&m->node[m->n_node++], &g, 3);
            if (g.number == 5 && m->n_init < MAX_PARTS) read_part(&m->init[m->n_init++], &g, 8);
            if (g.number == 11 && m->n_input < 64) read_part(&m->input[m->n_input++], &g, 1);
            if (g.number == 12 && m->n_output < 64) read_part(&m->output[m->n_output++], &g, 1);
        }
        CHECK(q == f.p + f.n);
    }
    CHECK(p == end && m->n_output > 0);
}
static void free_model(model *m)
{
    tp_buf_free(&m->bytes);
    free(m);
}
static int count(const model *m, const char *op)
{
    int n = 0;
    for (int i = 0; i < m->n_node; i++) n += strcmp(m->node[i].op, op) == 0;
    return n;
}
static const part *find(const part *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0) return &list[i];
    return NULL;
}
/* Do these bytes occur in a part? Names and dimensions are searched for so. */
static bool holds(const part *x, const char *text)
{
    const size_t n = strlen(text);
    for (size_t i = 0; x && i + n <= x->n; i++)
        if (memcmp(x->p + i, text, n) == 0) return true;
    return false;
}

/* ==== >>writing ======================================================================================= */

static tp_session *open_graph(tp_graph *g)
{
    tp_session_config c;
    memset(&c, 0, sizeof c);
    c.threads = 1;
    if (!CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g))) return NULL;
    tp_session *s = tp_session_new(g, &c);
    CHECK_MSG(s != NULL, "%s", tp_last_error());
    return s;
}
static void name_of(const tp_node *n, char *to, size_t size)
{
    if (n->index) snprintf(to, size, "%s:%d", tp_node_name(n), n->index);
    else snprintf(to, size, "%s", tp_node_name(n));
}
static bool same_values(const char *name, const char *output, const tp_tensor *y, const tp_tensor *want)
{
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    if (!CHECK_MSG(y->dtype == want->dtype && tp_shape_equal(&y->shape, &want->shape), "%s: '%s' is %s %s, not %s %s",
                   name, output, tp_dtype_name(y->dtype), tp_shape_text(&y->shape, a), tp_dtype_name(want->dtype),
                   tp_shape_text(&want->shape, b)))
        return false;
    for (int64_t i = 0; i < tp_tensor_size(y); i++) {
        const double u = tp_tensor_get(y, i), v = tp_tensor_get(want, i);
        const bool rounded = tp_dtype_is_float(y->dtype) && !isinf(v);
        if (u == v || (isnan(u) && isnan(v)) || (rounded && fabs(u - v) <= 2e-5 + 1e-4 * fabs(v))) continue;
        return CHECK_MSG(false, "%s: element %lld of '%s' is %.9g, not %.9g", name, (long long)i, output, u, v);
    }
    return true;
}
/* What was exported, imported and run. constants: its inputs are known while it is built, which some sizes have to be. */
static tp_status run_imported(const char *name, const model *m, const tp_feed *feed, int n_in, tp_node *const *out,
                              int n_out, const tp_tensor *const *want, bool constants)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_session *s = NULL;
    tp_onnx_model back;
    tp_import_onnx_desc d;
    tp_onnx_value given[64];
    tp_feed again[64];
    tp_node *fetch[64];
    const tp_tensor *value[64];
    char key[64][300];
    memset(&d, 0, sizeof d);
    for (int i = 0; i < n_in; i++) {
        name_of(feed[i].node, key[i], sizeof key[i]);
        given[i].name = key[i];
        given[i].node = constants ? tp_constant(g, &feed[i].value) : NULL;
    }
    d.inputs = given, d.n_inputs = constants ? n_in : 0;
    tp_status st = tp_import_onnx_parse(g, m->bytes.data, m->bytes.len, name, &d, &back);
    if (st == TP_OK && CHECK(back.n_input == n_in && back.n_output == n_out)) {
        for (int i = 0; i < n_in; i++) {
            CHECK(strcmp(back.input[i].name, key[i]) == 0);
            again[i] = feed[i];
            again[i].node = back.input[i].node;
        }
        for (int i = 0; i < n_out; i++) fetch[i] = back.output[i].node;
        s = open_graph(g);
        st = s ? tp_session_run(s, again, constants ? 0 : n_in, fetch, n_out, value) : TP_ERR;
        for (int i = 0; i < n_out && st == TP_OK; i++) {
            name_of(out[i], key[0], sizeof key[0]);
            CHECK(strcmp(back.output[i].name, key[0]) == 0);
            if (!same_values(name, key[0], value[i], want[i])) break;
        }
    }
    tp_session_free(s);
    tp_graph_free(g);
    return st;
}

/* Export, read back, import and run, and if asked for write the model with inputs and outputs. NULL after a mistake. */
static model *export_model(const char *name, tp_session *s, const tp_feed *feed, int n_in, tp_node *const *out,
                           int n_out, const tp_export_onnx_desc *d)
{
    tp_node *in[64];
    model *m = (model *)calloc(1, sizeof *m);
    if (!CHECK(m != NULL)) return NULL;
    for (int i = 0; i < n_in; i++) in[i] = feed[i].node;
    const tp_status st = tp_export_onnx_buf(s, in, n_in, out, n_out, &m->bytes, d);
    if (!CHECK_MSG(st == TP_OK, "%s: %s", name, tp_last_error())) {
        free_model(m);
        return NULL;
    }
    read_model(m);
    const tp_tensor *value[64];
    if (!CHECK_MSG(tp_session_run(s, feed, n_in, out, n_out, value) == TP_OK, "%s: %s", name, tp_last_error()))
        return m;
    tp_status read = run_imported(name, m, feed, n_in, out, n_out, value, false);
    if (read != TP_OK) read = run_imported(name, m, feed, n_in, out, n_out, value, true);
    CHECK_MSG(read == TP_OK, "%s: %s", name, tp_last_error());
    const char *dir = getenv("TP_ONNX_DIR");
    if (!dir || !*dir) return m;
    char path[1024], key[300];
    tp_dict all;
    memset(&all, 0, sizeof all);
    for (int i = 0; i < n_in + n_out; i++) {
        const tp_node *n = i < n_in ? in[i] : out[i - n_in];
        snprintf(key, sizeof key, i < n_in ? "in " : "out ");
        name_of(n, key + strlen(key), sizeof key - strlen(key));
        tp_tensor *t = tp_dict_add(&all, key);
        CHECK(t && tp_tensor_copy(t, i < n_in ? &feed[i].value : value[i - n_in]) == TP_OK);
    }
    snprintf(path, sizeof path, "%s/%s.npz", dir, name);
    CHECK_OK(tp_npz_save(path, &all, false));
    tp_dict_free(&all);
    snprintf(path, sizeof path, "%s/%s.onnx", dir, name);
    CHECK(tp_test_write(path, m->bytes.data, m->bytes.len));
    return m;
}

/* Variables that are zero or one when they are made get other values, or biases and norms would prove nothing. */
static void shake(tp_session *s)
{
    tp_graph *g = tp_session_graph(s);
    for (int i = 0; i < tp_graph_n_variables(g); i++) {
        tp_variable *v = tp_graph_variable(g, i);
        tp_tensor t;
        memset(&t, 0, sizeof t);
        if (!tp_dtype_is_float(v->dtype) || v->shape.ndim != 1) continue;
        CHECK_OK(tp_session_read(s, v, &t));
        for (int64_t k = 0; k < tp_tensor_size(&t); k++)
            tp_tensor_set(&t, k, tp_tensor_get(&t, k) + (double)tp_random_uniform(11, (uint64_t)i, (uint64_t)k) * 0.5);
        CHECK_OK(tp_session_load(s, v, &t));
        tp_tensor_free(&t);
    }
}
/* Numbers to feed: floats in [-0.7,1.3), whole numbers below `below`. */
static void fill(tp_feed *f, tp_node *n, int64_t unknown, int below)
{
    tp_shape shape = n->shape;
    memset(f, 0, sizeof *f);
    f->node = n;
    for (int d = 0; d < shape.ndim; d++)
        if (shape.dim[d] < 0) shape.dim[d] = unknown;
    CHECK_OK(tp_tensor_resize(&f->value, n->dtype, shape));
    for (int64_t i = 0; i < tp_tensor_size(&f->value); i++) {
        const double u = (double)tp_random_uniform(7, 0, (uint64_t)i);
        tp_tensor_set(&f->value, i, tp_dtype_is_float(n->dtype) ? u * 2 - 0.7 : floor(u * below));
    }
}

/* ==== >>networks ====================================================================================== */

static tp_node *convnet(tp_graph *g, tp_node *x)
{
    tp_node *y = NULL;
    TP_ARGSCOPE(g, conv2d, .filters = 8, .kernel_size = 3, .activation = tp_relu)
    {
        y = tp_linear(tp_affine(tp_expand_dims(x, 3), 2, -1), TP_CONV2D("conv0"),
                      TP_MAX_POOLING("pool0", .pool_size = 2), TP_CONV2D("conv1"), TP_CONV2D("conv2"),
                      TP_MAX_POOLING("pool1", .pool_size = 2), TP_CONV2D("conv3"),
                      TP_FULLY_CONNECTED("fc0", .units = 16, .activation = tp_relu),
                      TP_DROPOUT("dropout", .rate = 0.5f), TP_FULLY_CONNECTED("fc1", .units = 10));
    }
    return y;
}

TEST(a_convnet_has_one_transpose)
{
    tp_graph *g = inference_tower();
    tp_node *x = tp_placeholder(g, "image", TP_F32, tp_make_shape(TP_ANY, 28, 28));
    tp_node *label = tp_placeholder(g, "label", TP_I32, tp_make_shape(TP_ANY));
    tp_node *logits = convnet(g, x);
    tp_node *prob = tp_named(tp_softmax(logits), "prob");
    tp_node *cost = tp_mean(tp_sparse_softmax_cross_entropy(logits, label)), *w = tp_layer_variable(logits, "W"), *dw;
    tp_gradients(cost, &w, 1, &dw); /* what only training needs */
    tp_node *counter = tp_get_scalar_variable(g, "counter", 0), *counted = tp_assign_add(counter, tp_const(g, 1), NULL);
    prob = tp_named(tp_with_dependencies(tp_stop_gradient(prob), &counted, 1), "answer");
    tp_tower_leave(g);
    tp_session *s = open_graph(g);
    tp_feed feed;
    fill(&feed, x, 3, 0);
    if (s) {
        shake(s);
        model *m = export_model("net_convnet", s, &feed, 1, &prob, 1, NULL);
        if (m) {
            CHECK(m->ir == 7 && m->opset == 13);
            CHECK(count(m, "Transpose") == 1 && count(m, "Conv") == 4 && count(m, "MaxPool") == 2);
            CHECK(count(m, "Gemm") == 2 && count(m, "Flatten") == 1 && count(m, "Relu") == 5);
            CHECK(count(m, "Add") == 1 && count(m, "Mul") == 1 && count(m, "Identity") == 0);
            CHECK(m->n_node == 4 + 2 + 2 + 1 + 5 + 1 + 1 + 1 + 2); /* and Unsqueeze and Softmax: nothing else */
            CHECK(m->n_input == 1 && m->n_output == 1);
            CHECK(find(m->input, 1, "image") && find(m->output, 1, "answer"));
            CHECK(holds(&m->input[0], "batch") && holds(&m->output[0], "batch"));
            CHECK(find(m->init, m->n_init, "conv0/b") && find(m->init, m->n_init, "fc1/W"));
            CHECK(find(m->init, m->n_init, "conv0/W:oihw") && find(m->init, m->n_init, "fc0/W:rows7x7"));
            CHECK(!find(m->init, m->n_init, "conv0/W") && !find(m->input, 1, "label"));
            free_model(m);
        }
        tp_tensor t;
        memset(&t, 0, sizeof t);
        CHECK_OK(tp_session_read(s, tp_find_variable(g, "counter"), &t));
        CHECK(tp_tensor_get(&t, 0) == 1); /* by the run; nothing is counted by an export */
        tp_tensor_free(&t);
        /* all the names */
        tp_export_onnx_desc d;
        memset(&d, 0, sizeof d);
        d.keep_identities = true;
        m = export_model("net_convnet_names", s, &feed, 1, &prob, 1, &d);
        if (m) {
            CHECK(count(m, "Identity") > 4 && count(m, "Transpose") == 1);
            CHECK(find(m->node, m->n_node, "prob") && find(m->node, m->n_node, "answer"));
            free_model(m);
        }
    }
    tp_tensor_free(&feed.value);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(training_builds_are_refused)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_desc t;
    memset(&t, 0, sizeof t);
    t.is_training = true;
    tp_disable_layer_logging(g);
    tp_tower_enter(g, &t);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 4, 4, 3)), *y;
    y = tp_batch_norm(x, "bn");
    tp_tower_leave(g);
    tp_session *s = open_graph(g);
    tp_buf b;
    memset(&b, 0, sizeof b);
    if (s) {
        CHECK(tp_export_onnx_buf(s, &x, 1, &y, 1, &b, NULL) == TP_ERR_UNSUPPORTED);
        CHECK_HAS(tp_last_error(), "needs the op 'batch_norm', which has no ONNX form: build the tower for inference");
    }
    tp_buf_free(&b);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(a_residual_block)
{
    tp_graph *g = inference_tower();
    tp_node *x, *y = residual_block(g, &x);
    tp_tower_leave(g);
    tp_session *s = open_graph(g);
    tp_feed feed;
    fill(&feed, x, 2, 0);
    if (s) {
        shake(s);
        model *m = export_model("net_block", s, &feed, 1, &y, 1, NULL);
        if (m) {
            CHECK(count(m, "Transpose") == 1 && count(m, "BatchNormalization") == 2 && count(m, "Pad") == 1);
            CHECK(find(m->init, m->n_init, "bn0/bn/gamma") && find(m->init, m->n_init, "bn0/bn/mean/EMA"));
            free_model(m);
        }
        tp_export_onnx_desc d;
        memset(&d, 0, sizeof d);
        d.fold = true;
        m = export_model("net_block_folded", s, &feed, 1, &y, 1, &d);
        if (m) {
            CHECK(count(m, "Transpose") == 1 && count(m, "BatchNormalization") == 1); /* bn0 follows nothing */
            free_model(m);
        }
    }
    tp_tensor_free(&feed.value);
    tp_session_free(s);
    tp_graph_free(g);
}

static tp_node *resnet20(tp_graph *g, tp_node *x)
{
    tp_node *l = NULL;
    const int axes[2] = {1, 2};
    TP_ARGSCOPE(g, conv2d, .kernel_size = 3, .use_bias = TP_NO, .activation = tp_bn_relu)
    {
        l = tp_conv2d(x, "conv0", .filters = 8);
        for (int stage = 0; stage < 3; stage++)
            for (int block = 0; block < 3; block++) {
                char name[32];
                const int filters = 8 << stage;
                const int stride = stage && !block ? 2 : 1;
                tp_node *before = l;
                snprintf(name, sizeof name, "res%d.%d", stage, block);
                tp_variable_scope_desc v;
                memset(&v, 0, sizeof v);
                v.name = name;
                tp_variable_scope_push(g, &v);
                l = tp_conv2d(l, "conv1", .filters = filters, .strides = stride);
                l = tp_batch_norm(tp_conv2d(l, "conv2", .filters = filters, .activation = tp_identity), "bn2");
                if (stride == 2) {
                    const int64_t border[4] = {0, 0, 0, filters / 4};
                    before = tp_pad(tp_avg_pooling(before, "pool", .pool_size = 2), border, border, TP_PAD_CONSTANT, 0);
                }
                l = tp_relu(tp_add(l, before));
                tp_variable_scope_pop(g);
            }
    }
    return tp_named(tp_softmax(tp_fully_connected(tp_reduce_mean(l, axes, 2, false), "linear", .units = 10)), "prob");
}

TEST(a_resnet_of_layers)
{
    tp_graph *g = inference_tower();
    tp_node *x = tp_placeholder(g, "image", TP_F32, tp_make_shape(TP_ANY, 16, 16, 3)), *y = resnet20(g, x);
    tp_tower_leave(g);
    tp_session *s = open_graph(g);
    tp_feed feed;
    fill(&feed, x, 2, 0);
    for (int folded = 0; s && folded < 2; folded++) {
        tp_export_onnx_desc d;
        memset(&d, 0, sizeof d);
        d.fold = folded;
        if (!folded) shake(s);
        model *m = export_model(folded ? "net_resnet20_folded" : "net_resnet20", s, &feed, 1, &y, 1, &d);
        if (!m) continue;
        CHECK(count(m, "Conv") == 19 && count(m, "Transpose") == 1 && count(m, "Gemm") == 1);
        CHECK(count(m, "BatchNormalization") == (folded ? 0 : 19) && count(m, "Identity") == 0);
        CHECK(holds(find(m->output, 1, "prob"), "batch"));
        free_model(m);
    }
    tp_tensor_free(&feed.value);
    tp_session_free(s);
    tp_graph_free(g);
}

static tp_node *weight(tp_graph *g, const char *name, int n, int64_t a, int64_t b)
{
    const int64_t dim[2] = {a, b};
    return tp_get_variable_as(g, name, TP_F32, tp_make_shape_n(n, dim), tp_init_normal(0, 0.3f));
}

/* Characters in, the next one's scores and the states out; the batch is open, and so is the time. */
static void char_rnn(const char *name, bool lstm, bool batch_major)
{
    tp_graph *g = inference_tower();
    tp_node *ids = tp_placeholder(g, "ids", TP_I32, tp_make_shape(TP_ANY, TP_ANY));
    tp_node *h0 = tp_placeholder(g, "h0", TP_F32, tp_make_shape(TP_ANY, 6)), *out[3];
    tp_node *c0 = tp_affine(h0, 0.5f, 0.1f), *x = tp_gather(weight(g, "embed", 2, 11, 5), ids), *y;
    int n_out = 2;
    if (lstm) {
        y = tp_nn_lstm(x, weight(g, "kernel", 2, 11, 24), weight(g, "bias", 1, 24, 0), h0, c0, 1, batch_major, &out[1],
                       &out[2]);
        n_out = 3;
    } else {
        y = tp_nn_gru(x, weight(g, "gates", 2, 11, 12), weight(g, "gates_bias", 1, 12, 0), weight(g, "cand", 2, 11, 6),
                      weight(g, "cand_bias", 1, 6, 0), h0, batch_major, &out[1]);
    }
    y = tp_nn_bias_add(tp_matmul(y, weight(g, "W", 2, 6, 11)), weight(g, "b", 1, 11, 0), TP_NHWC);
    out[0] = tp_named(tp_log_softmax(y), "scores");
    tp_tower_leave(g);
    tp_session *s = open_graph(g);
    tp_feed feed[2];
    fill(&feed[0], ids, 4, 11);
    fill(&feed[1], h0, 4, 0);
    if (s) {
        model *m = export_model(name, s, feed, 2, out, n_out, NULL);
        if (m) {
            CHECK(count(m, lstm ? "LSTM" : "GRU") == 1 && count(m, "Transpose") == (batch_major ? 2 : 0));
            CHECK(m->n_output == n_out && holds(&m->input[0], "ids_dim1"));
            free_model(m);
        }
    }
    for (int i = 0; i < 2; i++) tp_tensor_free(&feed[i].value);
    tp_session_free(s);
    tp_graph_free(g);
}
TEST(recurrent_networks)
{
    char_rnn("net_lstm", true, true);
    char_rnn("net_lstm_time_major", true, false);
    char_rnn("net_gru", false, true);
    char_rnn("net_gru_time_major", false, false);
}

TEST(a_gpt_block)
{
    for (int open = 0; open < 2; open++) {
        tp_graph *g = inference_tower();
        const int C = 12, T = 5;
        tp_node *x = tp_placeholder(g, "tokens", TP_F32, tp_make_shape(TP_ANY, open ? TP_ANY : T, C));
        tp_node *qkv[3], *h, *y;
        h = tp_nn_layer_norm(x, tp_get_variable_as(g, "ln0/gamma", TP_F32, tp_make_shape(C), tp_init_ones()),
                             weight(g, "ln0/beta", 1, C, 0), 1e-5f);
        tp_split(tp_matmul(h, weight(g, "qkv", 2, C, 3 * C)), 3, -1, qkv);
        h = tp_matmul(tp_nn_attention(qkv[0], qkv[1], qkv[2], 3, true), weight(g, "proj", 2, C, C));
        y = tp_add(x, h);
        h = tp_nn_layer_norm(y, tp_get_variable_as(g, "ln1/gamma", TP_F32, tp_make_shape(C), tp_init_ones()),
                             weight(g, "ln1/beta", 1, C, 0), 1e-5f);
        h = tp_gelu(tp_nn_bias_add(tp_matmul(h, weight(g, "up", 2, C, 4 * C)), weight(g, "up_b", 1, 4 * C, 0), 0));
        y = tp_named(tp_add(y, tp_matmul(tp_silu(h), weight(g, "down", 2, 4 * C, C))), "block");
        tp_tower_leave(g);
        tp_session *s = open_graph(g);
        tp_feed feed;
        fill(&feed, x, T, 0);
        for (int only13 = 0; s && only13 < 2; only13++) {
            tp_export_onnx_desc d;
            char name[64];
            memset(&d, 0, sizeof d);
            d.opset = only13 ? 13 : 0;
            snprintf(name, sizeof name, "net_gpt%s%s", open ? "_open" : "", only13 ? "_opset13" : "");
            model *m = export_model(name, s, &feed, 1, &y, 1, &d);
            if (!m) continue;
            CHECK(m->opset == (only13 ? 13 : 17) && m->ir == (only13 ? 7 : 8));
            CHECK(count(m, "LayerNormalization") == (only13 ? 0 : 2) && count(m, "Softmax") == 1);
            CHECK(count(m, "Range") == (open ? 2 : 0));
            free_model(m);
        }
        tp_tensor_free(&feed.value);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* The mask is a constant if the lengths are known, no query included. The last model, of known lengths, is the one that `make interop`
 * reads. */
TEST(causal_masks_of_known_and_unknown_lengths)
{
    static const int64_t queries[] = {TP_ANY, 0, 1, 3, 4}, keys[] = {TP_ANY, 4, 5};
    for (int i = 0; i < TP_COUNT(queries) * TP_COUNT(keys); i++)
        for (int causal = 0; causal < 2; causal++) {
            const int64_t Tq = queries[i / TP_COUNT(keys)], Tk = keys[i % TP_COUNT(keys)];
            const bool open = Tq < 0 || Tk < 0;
            tp_graph *g = inference_tower();
            tp_node *q = tp_placeholder(g, "q", TP_F32, tp_make_shape(2, Tq, 4)),
                    *k = tp_placeholder(g, "k", TP_F32, tp_make_shape(2, Tk, 4));
            tp_node *y = tp_named(tp_nn_attention(q, k, k, 2, causal == 1), "seen");
            tp_tower_leave(g);
            tp_session *s = open_graph(g);
            tp_feed feed[2];
            fill(&feed[0], q, 3, 0);
            fill(&feed[1], k, 5, 0);
            model *m = s ? export_model("net_mask", s, feed, 2, &y, 1, NULL) : NULL;
            if (m)
                CHECK_MSG(count(m, "Range") == (open && causal ? 2 : 0) && count(m, "Add") == causal + (open && causal),
                          "%d queries, %d keys: %d Range, %d Add", (int)Tq, (int)Tk, count(m, "Range"),
                          count(m, "Add"));
            if (m) free_model(m);
            for (int n = 0; n < 2; n++) tp_tensor_free(&feed[n].value);
            tp_session_free(s);
            tp_graph_free(g);
        }
}

/* ==== >>every op ====================================================================================== */

/* Rows of the op table that have no ONNX form: derivatives, what changes variables, random numbers, effects. */
static const char *const without_form[] = {"reduce_prod_grad",
                                           "size_ratio",
                                           "put_last",
                                           "group",
                                           "concat_grad",
                                           "pad_grad",
                                           "tile_grad",
                                           "conv2d_filter_grad",
                                           "max_pool_grad",
                                           "max_pool_take",
                                           "resize_grad",
                                           "bilinear_sampler_grad",
                                           "ctc_loss",
                                           "avg_pool_grad",
                                           "batch_norm",
                                           "batch_norm_grad",
                                           "random",
                                           "assign",
                                           "assign_add",
                                           "assign_sub",
                                           "assign_moving_average",
                                           "all_reduce",
                                           "read_after",
                                           "ema_debias",
                                           "apply_gradient_descent",
                                           "apply_momentum",
                                           "apply_adam",
                                           "apply_rmsprop",
                                           "apply_adagrad",
                                           "apply_adadelta",
                                           "apply_ftrl",
                                           "apply_lamb",
                                           "apply_lion",
                                           "lstm_grad",
                                           "layer_norm_grad",
                                           "group_norm_grad",
                                           "attention_grad",
                                           "gru_grad"};
static bool has_form(const char *row)
{
    for (int i = 0; i < TP_COUNT(without_form); i++)
        if (strcmp(without_form[i], row) == 0) return false;
    return true;
}

/* How a case is built: every input fed, or all but the first (of lstm and gru: all but x and the states) constant; with known
 * dimensions, an open first one, or none known; or an image that a convolution by the identity made channels first. */
enum { FED, CONSTANTS, OPEN_BATCH, NOTHING_KNOWN, CHANNELS_FIRST, CHANNELS_FIRST_CONSTANTS, WAYS };
static const char *const way_name[] = {"fed", "constants", "batch", "unknown", "nchw", "nchw_constants"};

static bool is_fed(const op_case *c, int way, int i)
{
    if (strcmp(c->op, "lstm") == 0) return i == 0 || i > 2;
    if (strcmp(c->op, "gru") == 0) return i == 0 || i == 5;
    return way == CONSTANTS || way == OPEN_BATCH || way == CHANNELS_FIRST_CONSTANTS ? i == 0 : true;
}
/* An op without a form is refused by name. Returns false where this way makes no sense for the case. */
static bool walk_case(const op_case *c, int way, int number)
{
    const tp_op *row = tp_op_find(c->op);
    tp_feed feed[MAX_VALUES];
    tp_node *in[MAX_VALUES], *out[MAX_VALUES];
    int n_feed = 0, n_out = 0;
    char name[128];
    /* ONNX does not say what a coordinate gives that is not finite, */
    for (int64_t i = 0; strcmp(c->op, "bilinear_sampler") == 0 && i < tp_tensor_size(&c->in[1]); i++)
        if (!isfinite(tp_tensor_get(&c->in[1], i))) return false;
    /* nor what the largest of a NaN and a number is */
    if (strcmp(c->op, "argmax") == 0 || strcmp(c->op, "reduce_max") == 0 || strcmp(c->op, "reduce_min") == 0)
        for (int64_t i = 0; i < tp_tensor_size(&c->in[0]); i++)
            if (isnan(tp_tensor_get(&c->in[0], i))) return false;
    if (way == CONSTANTS && c->n_in < 2) return false;
    if (way == OPEN_BATCH && c->in[0].shape.ndim < 1) return false;
    if (way == CHANNELS_FIRST_CONSTANTS && (c->n_in < 2 || c->in[0].shape.ndim != 4)) return false;
    if (way >= CHANNELS_FIRST) {
        bool image = false;
        for (int i = 0; i < c->n_in; i++) image |= c->in[i].shape.ndim == 4 && c->in[i].dtype == TP_F32;
        if (!image) return false;
    }
    tp_graph *g = tp_graph_new(NULL);
    memset(feed, 0, sizeof feed);
    for (int i = 0; i < c->n_in; i++) {
        tp_shape shape = c->in[i].shape;
        if (!is_fed(c, way, i)) {
            in[i] = tp_constant(g, &c->in[i]);
            continue;
        }
        for (int d = 0; d < shape.ndim; d++)
            if (way == NOTHING_KNOWN || (way == OPEN_BATCH && d == 0)) shape.dim[d] = TP_ANY;
        snprintf(name, sizeof name, "x%d", i);
        in[i] = tp_placeholder(g, name, c->in[i].dtype, shape);
        feed[n_feed].node = in[i];
        feed[n_feed++].value = c->in[i];
        if (way >= CHANNELS_FIRST && shape.ndim == 4 && c->in[i].dtype == TP_F32 && shape.dim[3] > 0) {
            const int64_t C = shape.dim[3], dim[4] = {1, 1, C, C};
            tp_tensor eye;
            memset(&eye, 0, sizeof eye);
            CHECK_OK(tp_tensor_resize(&eye, TP_F32, tp_make_shape_n(4, dim)));
            for (int64_t k = 0; k < C * C; k++) tp_tensor_set(&eye, k, k / C == k % C);
            tp_conv2d_attrs a;
            memset(&a, 0, sizeof a);
            in[i] = tp_nn_conv2d(in[i], tp_constant(g, &eye), &a);
            tp_tensor_free(&eye);
        }
    }
    void *attrs = calloc(row->attr_size + 1, 1);
    tp_node *y = attrs && fill_attrs(c, row, false, attrs) ? tp_apply(g, row, in, c->n_in, attrs) : tp_poison(g);
    free(attrs);
    bool done = false;
    tp_session *s = NULL;
    if (!tp_is_poison(y)) s = open_graph(g);
    else CHECK_MSG(way == NOTHING_KNOWN, "%s:%d: %s", c->file, c->line, tp_graph_error(g));
    /* what only the derivative reads has no form: chosen elements, gates, statistics of rows */
    const bool first_only = strcmp(c->op, "max_pool") == 0 || strcmp(c->op, "attention") == 0 ||
                            strstr(c->op, "r_norm") || strstr(c->op, "p_norm");
    const int states = strcmp(c->op, "lstm") == 0 ? 3 : strcmp(c->op, "gru") == 0 ? 2 : MAX_VALUES;
    for (int i = 0; s && i < y->op->n_out && i < (first_only ? 1 : states); i++) out[n_out++] = &y->op->out[i];
    if (s) {
        tp_node *fed[MAX_VALUES];
        tp_buf b;
        memset(&b, 0, sizeof b);
        for (int i = 0; i < n_feed; i++) fed[i] = feed[i].node;
        const tp_status st = tp_export_onnx_buf(s, fed, n_feed, out, n_out, &b, NULL);
        if (!has_form(c->op)) {
            done = CHECK_MSG(st == TP_ERR_UNSUPPORTED && strstr(tp_last_error(), "has no ONNX form"), "%s:%d: %s: %s",
                             c->file, c->line, c->op, tp_last_error());
        } else if (st == TP_OK) {
            snprintf(name, sizeof name, "op_%s_%03d_%s%s", c->op, number, c->in[0].dtype == TP_F64 ? "f64_" : "",
                     way_name[way]);
            model *m = export_model(name, s, feed, n_feed, out, n_out, NULL);
            done = m != NULL;
            if (m) free_model(m);
        } else {
            CHECK_MSG(way == NOTHING_KNOWN && strstr(tp_last_error(), "must know"), "%s:%d: %s %s: %s", c->file,
                      c->line, c->op, way_name[way], tp_last_error());
        }
        tp_buf_free(&b);
    }
    tp_session_free(s);
    tp_graph_free(g);
    return done;
}

TEST(every_op_in_every_form)
{
    case_list l = all_cases();
    int written[WAYS] = {0}, rows = 0, refused = 0;
    const tp_op *row;
    for (int k = 0; k < l.n; k++) {
        const op_case *c = &l.item[k];
        double elements = 0;
        for (int i = 0; i < c->n_in; i++) elements += (double)tp_tensor_size(&c->in[i]);
        if (elements > 200000) continue;
        if (!has_form(c->op)) {
            if (!(tp_op_find(c->op)->flags & TP_OP_WRITES_VAR)) refused += walk_case(c, FED, k);
            continue;
        }
        for (int way = 0; way < WAYS; way++) written[way] += walk_case(c, way, k);
    }
    for (int i = 0; (row = tp_op_registry(i)) != NULL; i++) {
        bool seen = false;
        for (int k = 0; k < l.n && !seen; k++) seen = strcmp(l.item[k].op, row->name) == 0;
        rows += seen && has_form(row->name);
        const bool none = (row->flags & (TP_OP_SOURCE | TP_OP_RANDOM)) || strcmp(row->name, "read_after") == 0;
        CHECK_MSG(seen || none, "%s has no case", row->name);
    }
    printf("     %d cases of ops without a form, %d rows:", refused, rows);
    for (int way = 0; way < WAYS; way++) printf(" %d %s", written[way], way_name[way]);
    printf("\n");
    for (int way = 0; way < WAYS; way++) CHECK(written[way] > 90);
    CHECK(refused >= TP_COUNT(without_form));
    free_cases(&l);
}

/* ==== >>parameters of windows, products, norms, slices ================================================= */

/* Export outputs of one fed value, in a graph that ends here; how many of its nodes are Gemm. */
static int check_model(const char *name, tp_graph *g, tp_node *x, int64_t unknown, tp_node *const *y, int n)
{
    tp_session *s = open_graph(g);
    tp_feed feed;
    fill(&feed, x, unknown, 0);
    model *m = s ? export_model(name, s, &feed, 1, y, n, NULL) : NULL;
    const int n_gemm = m ? count(m, "Gemm") : -1;
    if (m) free_model(m);
    tp_tensor_free(&feed.value);
    tp_session_free(s);
    tp_graph_free(g);
    return n_gemm;
}
static tp_node *numbers(tp_graph *g, int n, const int64_t *dim)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    CHECK_OK(tp_tensor_resize(&t, TP_F32, tp_make_shape_n(n, dim)));
    for (int64_t i = 0; i < tp_tensor_size(&t); i++)
        tp_tensor_set(&t, i, (double)tp_random_uniform(3, (uint64_t)n, (uint64_t)i) + 0.25);
    tp_node *y = tp_constant(g, &t);
    tp_tensor_free(&t);
    return y;
}

/* What differs between height and width: kernel, stride, dilation; each padding, both layouts, groups, unknown sizes. */
TEST(windows_of_every_kind)
{
    static const int form[][6] = {/* kernel, stride, dilation: height and width */
                                  {1, 1, 1, 1, 1, 1}, {2, 3, 1, 1, 1, 1}, {3, 2, 2, 1, 1, 1}, {3, 2, 1, 2, 1, 1},
                                  {3, 2, 1, 1, 2, 1}, {3, 2, 1, 1, 1, 2}, {2, 3, 3, 2, 1, 1}, {3, 3, 2, 1, 1, 3},
                                  {1, 4, 1, 3, 1, 2}, {4, 1, 2, 2, 2, 1}, {3, 3, 4, 4, 1, 1}, {5, 2, 3, 1, 1, 1}};
    for (int k = 0; k < TP_COUNT(form); k++)
        for (int way = 0; way < 8; way++) {
            const int *f = form[k];
            const bool nchw = way & 1, valid = way & 2, open = way & 4, plain = f[4] == 1 && f[5] == 1;
            const int64_t H = 11, W = 14, dim[4] = {f[0], f[1], 2, 6}, full[4] = {f[0], f[1], 4, 4};
            tp_graph *g = tp_graph_new(NULL);
            tp_shape shape = nchw ? tp_make_shape(2, 4, H, W) : tp_make_shape(2, H, W, 4);
            for (int d = 0; d < 2 && open; d++) shape.dim[nchw ? 2 + d : 1 + d] = TP_ANY;
            tp_node *x = tp_placeholder(g, "x", TP_F32, shape), *y[4];
            int n = 0;
            tp_conv2d_attrs a;
            tp_pool_attrs p;
            memset(&a, 0, sizeof a);
            memset(&p, 0, sizeof p);
            a.stride_h = f[2], a.stride_w = f[3], a.dilation_h = f[4], a.dilation_w = f[5];
            a.padding = valid ? TP_VALID : TP_SAME, a.data_format = nchw ? TP_NCHW : TP_NHWC, a.groups = 2;
            p.size_h = f[0], p.size_w = f[1], p.stride_h = f[2], p.stride_w = f[3];
            p.padding = a.padding, p.data_format = a.data_format;
            const bool said = open && !valid && !plain && (f[2] > 1 || f[3] > 1); /* ONNX Runtime lacks it */
            if (said) {
                tp_session *s = open_graph(g);
                tp_node *c = tp_nn_conv2d(x, numbers(g, 4, dim), &a);
                tp_buf b;
                memset(&b, 0, sizeof b);
                CHECK(s && tp_export_onnx_buf(s, &x, 1, &c, 1, &b, NULL) == TP_ERR_UNSUPPORTED);
                CHECK_HAS(tp_last_error(),
                          "(conv2d) must know height, width and the filter's size, since it is dilated");
                tp_buf_free(&b);
                tp_session_free(s);
            }
            if (!said) y[n++] = tp_nn_conv2d(x, numbers(g, 4, dim), &a);
            if (plain) y[n++] = tp_nn_max_pool(x, &p);
            if (plain) y[n++] = tp_nn_avg_pool(x, &p);
            if (!open && !said) { /* its gradient by the input: of a convolution's result, as large as x */
                a.groups = 1;
                tp_node *w = numbers(g, 4, full);
                y[n++] = tp_nn_conv2d_input_grad(tp_nn_conv2d(x, w, &a), w, x, &a);
            }
            char name[64];
            snprintf(name, sizeof name, "window_%d_%d", k, way);
            if (n) check_model(name, g, x, 13, y, n);
            else tp_graph_free(g);
        }
}

/* Ranks, transposes, a bias that is constant or fed, matrices that are constant or fed. */
TEST(products_of_every_kind)
{
    static const int64_t a_dim[][4] = {{3, 4}, {2, 3, 4}, {2, 3, 4}, {2, 5, 3, 4}, {5, 3, 4}, {3, 4}};
    static const int64_t b_dim[][4] = {{4, 6}, {4, 6}, {2, 4, 6}, {5, 4, 6}, {2, 1, 4, 6}, {2, 4, 6}};
    static const int rank[][2] = {{2, 2}, {3, 2}, {3, 3}, {4, 3}, {3, 4}, {2, 3}};
    for (int k = 0; k < TP_COUNT(rank); k++)
        for (int way = 0; way < 16; way++) {
            const bool ta = way & 1, tb = way & 2, bias = way & 4, fed = way & 8;
            int64_t ad[4], bd[4], six = 6;
            const int an = rank[k][0], bn = rank[k][1];
            memcpy(ad, a_dim[k], sizeof ad);
            memcpy(bd, b_dim[k], sizeof bd);
            if (ta) ad[an - 2] = a_dim[k][an - 1], ad[an - 1] = a_dim[k][an - 2];
            if (tb) bd[bn - 2] = b_dim[k][bn - 1], bd[bn - 1] = b_dim[k][bn - 2];
            tp_graph *g = tp_graph_new(NULL);
            tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(an, ad)),
                    *zero = tp_reduce_sum(x, NULL, 0, false);
            tp_node *b = numbers(g, bn, bd), *c = numbers(g, 1, &six);
            zero = tp_affine(zero, 0, 0);
            if (fed) b = tp_add(b, zero), c = tp_add(c, zero); /* it depends on what is fed */
            tp_node *y = tp_matmul_ex(x, b, ta, tb);
            if (bias) y = tp_nn_bias_add(y, c, TP_NHWC);
            tp_node *out[2];
            out[0] = y, out[1] = tp_relu(y);
            char name[64];
            snprintf(name, sizeof name, "product_%d_%d", k, way);
            /* Gemm takes matrices alone, and is for what MatMul does not do */
            CHECK(check_model(name, g, x, 0, out, 2) == (an == 2 && bn == 2 && (ta || tb || (bias && !fed))));
        }
}

/* Channels along each axis of each rank; the same vectors serve two norms and two biases. */
TEST(norms_along_every_axis)
{
    for (int n = 2; n <= 5; n++)
        for (int axis = 0; axis < n; axis++)
            for (int fed = 0; fed < 2; fed++) {
                const int64_t dim[5] = {2, 3, 4, 3, 2};
                tp_graph *g = tp_graph_new(NULL);
                tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(n, dim)), *v[4], *y[3];
                tp_node *zero = tp_affine(tp_reduce_sum(x, NULL, 0, false), 0, 0);
                for (int i = 0; i < 4; i++) {
                    v[i] = tp_affine(numbers(g, 1, &dim[axis]), 1.0f + (float)i, 0.125f);
                    if (fed) v[i] = tp_add(v[i], zero);
                }
                y[0] = tp_nn_batch_norm_infer(x, v[0], v[1], v[2], v[3], axis, 0.01f);
                y[1] = tp_nn_batch_norm_infer(y[0], v[0], v[1], v[2], v[3], axis - n, 0.25f);
                y[2] = axis == 1       ? tp_nn_bias_add(tp_nn_bias_add(x, v[0], TP_NCHW), v[0], TP_NCHW)
                       : axis == n - 1 ? tp_nn_bias_add(tp_nn_bias_add(x, v[0], TP_NHWC), v[0], TP_NHWC)
                                       : tp_neg(x);
                char name[64];
                snprintf(name, sizeof name, "norm_%d_%d_%d", n, axis, fed);
                check_model(name, g, x, 0, y, 3);
            }
}

/* Parts of each axis: all, from the begin on, to the end, one; of a value as it is and with channels first. */
TEST(slices_and_borders_of_every_axis)
{
    static const int64_t cut[][2] = {{0, -1}, {1, -1}, {1, 1}, {0, 1}, {2, -1}, {0, -2}, {1, -3}};
    for (int k = 0; k < 4 * TP_COUNT(cut); k++)
        for (int way = 0; way < 4; way++) {
            const int axis = k % 4;
            int64_t begin[4] = {0, 0, 0, 0}, size[4] = {-1, -1, -1, -1}, before[4] = {0, 1, 0, 2},
                    after[4] = {2, 0, 1, 0};
            tp_graph *g = tp_graph_new(NULL);
            tp_shape shape = tp_make_shape(4, 5, 6, 3);
            for (int d = 0; d < 3 && (way & 2); d++) shape.dim[d] = TP_ANY;
            tp_node *x = tp_placeholder(g, "x", TP_F32, shape), *h = x, *y[5];
            tp_conv2d_attrs a;
            memset(&a, 0, sizeof a);
            a.groups = 3;
            const int64_t one[4] = {1, 1, 1, 3};
            if (way & 1) h = tp_nn_conv2d(x, numbers(g, 4, one), &a); /* with channels first */
            begin[axis] = cut[k / 4][0], size[axis] = cut[k / 4][1];
            begin[(axis + 1) % 4] = 1;
            y[0] = tp_slice(h, begin, size);
            y[1] = tp_pad(h, before, after, TP_PAD_CONSTANT, (float)k);
            y[2] = tp_pad(h, begin, begin, TP_PAD_REFLECT, 0);
            y[3] = tp_reverse(h, &axis, 1);
            y[4] = tp_reduce_max(h, &axis, 1, k & 1);
            char name[64];
            snprintf(name, sizeof name, "slice_%d_%d", k, way);
            check_model(name, g, x, 5, y, 5);
        }
}

/* Chains of any number of ops: lists are as long as they are. */
TEST(graphs_of_any_length)
{
    for (int n = 1; n < 70; n++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 3)), *y = x;
        for (int i = 0; i < n; i++) y = tp_affine(y, -1, 0.5f);
        tp_session *s = open_graph(g);
        tp_feed feed;
        tp_buf c;
        memset(&c, 0, sizeof c);
        fill(&feed, x, 2, 0);
        model *m = s ? export_model("chain", s, &feed, 1, &y, 1, NULL) : NULL;
        if (m) {
            CHECK(count(m, "Mul") == n && count(m, "Add") == n && m->n_node == 2 * n && m->n_init == 2 * n);
            free_model(m);
        }
        if (s) CHECK_OK(tp_export_c_text(s, &x, 1, &y, 1, &c, NULL, NULL));
        tp_buf_free(&c);
        tp_tensor_free(&feed.value);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* Runs the model in a file and compares with what the session gives. */
static void check_file(const char *path, tp_session *s, const tp_feed *feed, tp_node *y)
{
    const tp_tensor *value, *want;
    tp_graph *g = tp_graph_new(NULL);
    tp_onnx_model back;
    if (CHECK_OK(tp_session_run(s, feed, 1, &y, 1, &want)) && CHECK_OK(tp_import_onnx(g, path, NULL, &back))) {
        tp_session *again = open_graph(g);
        tp_feed f = *feed;
        f.node = back.input[0].node;
        if (again && CHECK_OK(tp_session_run(again, &f, 1, &back.output[0].node, 1, &value)))
            same_values(path, tp_node_name(y), value, want);
        tp_session_free(again);
    }
    tp_graph_free(g);
}

/* Large weights go to a second file, small ones stay in the first; a reader needs both. */
TEST(weights_in_a_second_file)
{
    const char *dir = tp_test_tmpdir(), *path = tp_test_path(dir, "m.onnx"), *data = tp_test_path(dir, "m.onnx.data");
    const int64_t filter[4] = {3, 3, 4, 16}, matrix[2] = {16, 21}, bias[1] = {21};
    tp_export_onnx_desc d;
    char *bytes = NULL;
    size_t size = 0, data_size = 0;
    tp_buf all;
    memset(&d, 0, sizeof d);
    memset(&all, 0, sizeof all);
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 7, 6, 4));
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    const int axes[2] = {1, 2};
    tp_node *y = tp_reduce_mean(tp_nn_conv2d(x, numbers(g, 4, filter), &a), axes, 2, false);
    y = tp_named(tp_nn_bias_add(tp_matmul(y, numbers(g, 2, matrix)), numbers(g, 1, bias), TP_NHWC), "y");
    tp_session *s = open_graph(g);
    tp_feed feed;
    fill(&feed, x, 2, 0);
    CHECK_OK(tp_export_onnx_buf(s, &x, 1, &y, 1, &all, &d));
    d.external_data = true;
    CHECK_OK(tp_export_onnx(s, &x, 1, &y, 1, path, &d));
    check_file(path, s, &feed, y);
    CHECK_OK(tp_file_read(data, false, 0, &bytes, &data_size));
    tp_free(bytes);
    CHECK_OK(tp_file_read(path, false, 0, &bytes, &size));
    /* 3x3x4x16 floats, which end at a multiple of 64 bytes, and 16x21; the bias is too small */
    CHECK_MSG(data_size == (576 + 336) * sizeof(float), "%zu bytes of weights", data_size);
    CHECK_MSG(size + data_size < all.len + 400, "%zu and %zu bytes of %zu", size, data_size, all.len);
    tp_free(bytes);
    CHECK(tp_test_write(data, "short", 5));
    tp_onnx_model back;
    tp_graph *h = tp_graph_new(NULL);
    CHECK_ERR(tp_import_onnx(h, path, NULL, &back), TP_ERR_FORMAT, "of 'm.onnx.data' on, which has 5");
    tp_graph_free(h);
    CHECK_ERR(tp_export_onnx_buf(s, &x, 1, &y, 1, &all, &d), TP_ERR_ARG, "call tp_export_onnx");
    CHECK_ERR(tp_export_onnx(s, &x, 1, &y, 1, tp_test_path(dir, "no/m.onnx"), &d), TP_ERR_IO, "no/m.onnx.data");
    d.opset = 1; /* a failed export leaves no file */
    CHECK_ERR(tp_export_onnx(s, &x, 1, &y, 1, tp_test_path(dir, "n.onnx"), &d), TP_ERR_ARG, "opset 1");
    CHECK(!tp_file_exists(tp_test_path(dir, "n.onnx")) && !tp_file_exists(tp_test_path(dir, "n.onnx.data")));
    d.opset = 0;
    const char *judged = getenv("TP_ONNX_DIR");
    model *m = export_model("external_data", s, &feed, 1, &y, 1, NULL);
    if (judged && *judged) CHECK_OK(tp_export_onnx(s, &x, 1, &y, 1, tp_test_path(judged, "external_data.onnx"), &d));
    free_model(m);
    tp_buf_free(&all);
    tp_tensor_free(&feed.value);
    tp_session_free(s);
    tp_graph_free(g);
}

/* A model that does not fit on the disk leaves the older one with its weights: both files are complete before one is replaced. */
TEST(a_full_disk_leaves_both_files)
{
    enum { SMALL = 40 };
    const char *dir = tp_test_tmpdir(), *path = tp_test_path(dir, "m.onnx"), *data = tp_test_path(dir, "m.onnx.data");
    const int64_t large[2] = {16, 200}, small[1] = {200};
    tp_export_onnx_desc d;
    struct rlimit old, limit;
    memset(&d, 0, sizeof d);
    d.external_data = true;
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 16)), *y = tp_matmul(x, numbers(g, 2, large));
    for (int i = 0; i < SMALL; i++) y = tp_relu(tp_nn_bias_add(y, numbers(g, 1, small), TP_NHWC));
    tp_session *s = open_graph(g);
    CHECK(tp_test_write(path, "model", 5) && tp_test_write(data, "weights", 7));
    if (s && getrlimit(RLIMIT_FSIZE, &old) == 0) {
        void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
        limit = old;
        limit.rlim_cur = 16 * 200 * 4 + 64; /* enough for the weights, not for the 40 that are in the model */
        tp_status st = TP_ERR;
        if (setrlimit(RLIMIT_FSIZE, &limit) == 0) {
            st = tp_export_onnx(s, &x, 1, &y, 1, path, &d);
            setrlimit(RLIMIT_FSIZE, &old);
        }
        signal(SIGXFSZ, handler);
        CHECK_MSG(st == TP_ERR_IO, "status %d: %s", (int)st, tp_last_error());
        for (int i = 0; i < 2; i++) {
            char *bytes = NULL;
            size_t size = 0;
            if (CHECK_OK(tp_file_read(i ? data : path, false, 0, &bytes, &size)))
                CHECK(size == (i ? 7 : 5) && memcmp(bytes, i ? "weights" : "model", size) == 0);
            tp_free(bytes);
        }
    }
    tp_session_free(s);
    tp_graph_free(g);
}

/* ==== >>folding ======================================================================================= */

/* Exported as it is, folded, with all identities, for opset 17: each gives what the session gave. The nodes that are `op` when
 * it is folded. */
static int in_every_way(const char *name, tp_graph *g, tp_node *x, int64_t unknown, tp_node *const *y, int n,
                        const char *op)
{
    tp_session *s = open_graph(g);
    tp_feed feed;
    int counted = -1;
    fill(&feed, x, unknown, 0);
    for (int way = 0; s && way < 4; way++) {
        tp_export_onnx_desc d;
        memset(&d, 0, sizeof d);
        d.fold = way == 1, d.keep_identities = way == 2, d.opset = way == 3 ? 17 : 0;
        model *m = export_model(name, s, &feed, 1, y, n, &d);
        if (m && way == 1) counted = count(m, op);
        if (m) CHECK(m->opset == (way == 3 ? 17 : 13));
        if (m) free_model(m);
    }
    tp_tensor_free(&feed.value);
    tp_session_free(s);
    tp_graph_free(g);
    return counted;
}

/* A border becomes the padding of a convolution only where it is of zeros, around the picture, and for this convolution. */
TEST(borders_that_fold_and_borders_that_do_not)
{
    static const struct {
        int64_t before[4], after[4]; /* of N, H, W, C */
        float value;
        int mode, same, twice, seen, folds;
    } list[] = {{{0, 1, 2, 0}, {0, 2, 1, 0}, 0, TP_PAD_CONSTANT, 0, 0, 0, 1},
                {{0, 0, 3, 0}, {0, 1, 0, 0}, 0, TP_PAD_CONSTANT, 0, 0, 0, 1},
                {{0, 1, 2, 0}, {0, 2, 1, 0}, 0.5f, TP_PAD_CONSTANT, 0, 0, 0, 0},
                {{0, 1, 2, 0}, {0, 2, 1, 0}, 0, TP_PAD_REFLECT, 0, 0, 0, 0},
                {{0, 1, 2, 0}, {0, 2, 1, 0}, 0, TP_PAD_CONSTANT, 1, 0, 0, 0},
                {{0, 1, 2, 0}, {0, 2, 1, 0}, 0, TP_PAD_CONSTANT, 0, 1, 0, 0},
                {{0, 1, 2, 0}, {0, 2, 1, 0}, 0, TP_PAD_CONSTANT, 0, 0, 1, 0},
                {{1, 1, 2, 0}, {0, 2, 1, 0}, 0, TP_PAD_CONSTANT, 0, 0, 0, 0},
                {{0, 1, 2, 0}, {1, 2, 1, 0}, 0, TP_PAD_CONSTANT, 0, 0, 0, 0},
                {{0, 1, 2, 1}, {0, 2, 1, 0}, 0, TP_PAD_CONSTANT, 0, 0, 0, 0},
                {{0, 1, 2, 0}, {0, 2, 1, 1}, 0, TP_PAD_CONSTANT, 0, 0, 0, 0}};
    for (int k = 0; k < TP_COUNT(list); k++)
        for (int nchw = 0; nchw < 2; nchw++) {
            const int64_t channels = 2 + list[k].before[3] + list[k].after[3], dim[4] = {3, 2, channels, 4};
            static const int order[4] = {0, 3, 1, 2};
            int64_t before[4], after[4];
            for (int d = 0; d < 4; d++) {
                before[d] = list[k].before[nchw ? order[d] : d];
                after[d] = list[k].after[nchw ? order[d] : d];
            }
            tp_graph *g = tp_graph_new(NULL);
            tp_node *x =
                tp_placeholder(g, "x", TP_F32, nchw ? tp_make_shape(TP_ANY, 2, 7, 6) : tp_make_shape(TP_ANY, 7, 6, 2));
            tp_node *p = tp_pad(x, before, after, list[k].mode, list[k].value), *w = numbers(g, 4, dim), *y[3];
            tp_conv2d_attrs a;
            int n = 0;
            memset(&a, 0, sizeof a);
            a.padding = list[k].same ? TP_SAME : TP_VALID, a.data_format = nchw ? TP_NCHW : TP_NHWC, a.stride_h = 2;
            y[n++] = tp_named(tp_relu(tp_nn_conv2d(p, w, &a)), "first");
            if (list[k].twice) y[n++] = tp_named(tp_neg(tp_nn_conv2d(p, w, &a)), "second");
            if (list[k].seen) y[n++] = p;
            char name[64];
            snprintf(name, sizeof name, "border_%d_%d", k, nchw);
            const int left = in_every_way(name, g, x, 2, y, n, "Pad");
            if (list[k].mode == TP_PAD_CONSTANT) CHECK_MSG(left == !list[k].folds, "%s: %d", name, left);
        }
    /* a border that is the filter, not the picture */
    const int64_t one[4] = {1, 1, 1, 2}, none[4] = {0, 0, 0, 0}, more[4] = {1, 1, 0, 0}, six[4] = {1, 5, 5, 1};
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(1, 1, 1, 2));
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    a.padding = TP_VALID;
    tp_node *w = tp_pad(numbers(g, 4, one), none, more, TP_PAD_CONSTANT, 0);
    tp_node *y = tp_nn_conv2d(tp_mul(tp_reduce_sum(x, NULL, 0, true), numbers(g, 4, six)), w, &a);
    CHECK(in_every_way("border_of_a_filter", g, x, 1, &y, 1, "Pad") == 0);
}

/* A norm becomes part of the convolution before it where all its numbers are constant, along its channels. */
TEST(norms_that_fold_and_norms_that_do_not)
{
    for (int way = 0; way < 32; way++) {
        const bool nchw = way & 1, bias = way & 2, fed = way & 4, seen = way & 8, across = way & 16;
        const int64_t dim[4] = {2, 3, 3, 5}, five = 5, wide = nchw ? 6 : 7;
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, nchw ? tp_make_shape(2, 3, 7, 6) : tp_make_shape(2, 7, 6, 3)),
                *v[4], *y[2];
        tp_node *zero = tp_affine(tp_reduce_sum(x, NULL, 0, false), 0, 0), *w = numbers(g, 4, dim);
        tp_conv2d_attrs a;
        int n = 0;
        memset(&a, 0, sizeof a);
        a.data_format = nchw ? TP_NCHW : TP_NHWC;
        tp_node *c = tp_nn_conv2d(x, w, &a);
        if (bias) c = tp_nn_bias_add(c, numbers(g, 1, &five), nchw ? TP_NCHW : TP_NHWC);
        for (int i = 0; i < 4; i++)
            v[i] = tp_affine(numbers(g, 1, across ? &wide : &five), (float)(i + 1), -0.125f * (float)i);
        if (fed) v[way / 8 % 4] = tp_add(v[way / 8 % 4], zero);
        const int axis = across ? (nchw ? 3 : 1) : (nchw ? 1 : 3);
        y[n++] = tp_named(tp_relu(tp_nn_batch_norm_infer(c, v[0], v[1], v[2], v[3], axis, 0.01f)), "normed");
        if (seen) y[n++] = tp_named(tp_neg(c), "seen");
        char name[64];
        snprintf(name, sizeof name, "norm_%d", way);
        const int left = in_every_way(name, g, x, 0, y, n, "BatchNormalization");
        CHECK_MSG(left == (fed || seen || across), "%s: %d", name, left);
    }
}

/* Pictures flattened after a convolution: their product with constant rows takes the rows in another order; everything else that
 * sees them sees them in theirs. */
TEST(flattened_pictures)
{
    static const int64_t size[][3] = {{4, 3, 2}, {1, 1, 5}, {4, 3, 1}, {1, 6, 2}, {5, 1, 2}};
    for (int k = 0; k < TP_COUNT(size); k++)
        for (int way = 0; way < 16; way++) {
            const int64_t *d = size[k], rest = d[0] * d[1] * d[2], eye[4] = {1, 1, d[2], d[2]}, rows[2] = {rest, 3},
                          columns[2] = {3, rest}, flat[2] = {TP_ANY, rest}, known[2] = {2, rest};
            const bool as_reshape = way & 1, twice = way & 2, bias = way & 4, both = way & 8;
            const int64_t three = 3;
            tp_graph *g = tp_graph_new(NULL);
            tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, d[0], d[1], d[2])), *y[4];
            tp_conv2d_attrs a;
            int n = 0;
            memset(&a, 0, sizeof a);
            tp_node *h = tp_relu(tp_nn_conv2d(x, numbers(g, 4, eye), &a));
            tp_node *f = as_reshape ? tp_reshape_to(h, tp_make_shape_n(2, both ? known : flat)) : tp_batch_flatten(h);
            tp_node *p = tp_matmul(f, numbers(g, 2, rows));
            if (bias) p = tp_nn_bias_add(p, numbers(g, 1, &three), TP_NHWC);
            y[n++] = tp_named(p, "product");
            if (twice) y[n++] = tp_named(tp_matmul_ex(f, numbers(g, 2, columns), false, true), "other");
            if (both) y[n++] = tp_named(tp_neg(f), "flat");
            char name[64];
            snprintf(name, sizeof name, "flattened_%d_%d", k, way);
            /* what needs them in their order turns them, unless both orders are the same: the transposed rows, and all but products */
            const bool same = (d[0] == 1 && d[1] == 1) || d[2] == 1;
            const int turned = in_every_way(name, g, x, 2, y, n, "Transpose");
            CHECK_MSG(turned == 1 + ((both || twice) && !same), "%s: %d Transpose", name, turned);
        }
}

/* A flattened picture that is added to pictures is one row for each of their pixels, not a picture with channels first. */
TEST(flattened_pictures_are_added_to_pictures)
{
    for (int way = 0; way < 4; way++) {
        const int64_t eye[4] = {1, 1, 4, 4}, wide[4] = {1, 1, 4, 16}, rows[2] = {16, 3};
        const bool product = way & 1, flat_first = way & 2;
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(1, 2, 2, 4)), *y[2];
        tp_conv2d_attrs a;
        memset(&a, 0, sizeof a);
        tp_node *h = tp_nn_conv2d(x, numbers(g, 4, eye), &a);
        tp_node *f = tp_batch_flatten(h), *c = tp_nn_conv2d(x, numbers(g, 4, wide), &a);
        if (product) y[1] = tp_named(tp_matmul(f, numbers(g, 2, rows)), "product");
        y[0] = tp_named(flat_first ? tp_sub(f, c) : tp_add(c, f), "sum");
        in_every_way("flattened_added", g, x, 1, y, product ? 2 : 1, "Transpose");
    }
}

/* Values whose shape is unknown and which are stored with channels first. */
TEST(shapes_of_pictures_of_unknown_size)
{
    const int64_t eye[4] = {1, 1, 2, 2}, twice[4] = {1, 2, 1, 3};
    for (int way = 0; way < 2; way++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, TP_ANY, way ? TP_ANY : 3, 2)), *y[6];
        tp_conv2d_attrs a;
        memset(&a, 0, sizeof a);
        tp_node *h = tp_nn_conv2d(x, numbers(g, 4, eye), &a);
        y[0] = tp_named(tp_fill_like(h, 2.5f), "filled");
        y[1] = tp_named(tp_reshape_like(tp_batch_flatten(x), h), "back");
        y[2] = tp_named(tp_tile(h, twice), "tiled");
        y[3] = tp_named(tp_softmax(h), "soft");
        y[4] = tp_named(tp_log_softmax(h), "log");
        y[5] = tp_named(tp_argmax(h, 3), "most");
        in_every_way(way ? "shapes_open" : "shapes", g, x, 3, y, 6, "Shape");
    }
}

/* Images of unknown size are enlarged: the op says by how much. Filters are smaller and larger than the stride. */
TEST(unknown_sizes_are_enlarged)
{
    const tp_data_format formats[] = {TP_NHWC, TP_NCHW};
    for (int way = 0; way < 2 * 2; way++) {
        tp_graph *g = tp_graph_new(NULL);
        const tp_data_format format = formats[way & 1];
        tp_node *x = tp_placeholder(g, "x", TP_F32,
                                    way & 1 ? tp_make_shape(TP_ANY, 3, TP_ANY, way & 2 ? 4 : TP_ANY)
                                            : tp_make_shape(TP_ANY, TP_ANY, way & 2 ? 4 : TP_ANY, 3)),
                *y[5];
        y[0] = tp_fixed_unpooling(x, "un", .shape = 2, .shape_w = 3, .data_format = format);
        y[1] = tp_conv2d_transpose(x, "same", .filters = 4, .kernel_size = 3, .strides = 2, .data_format = format);
        y[2] = tp_conv2d_transpose(y[1], "valid", .filters = 2, .kernel_size = 4, .kernel_size_w = 2, .strides = 3,
                                   .padding = TP_VALID, .data_format = format);
        y[3] = tp_conv2d_transpose(x, "point", .filters = 3, .kernel_size = 1, .strides = 2, .data_format = format);
        y[4] = tp_conv2d_transpose(tp_identity(x), "one", .filters = 3, .kernel_size = 3, .strides = 1,
                                   .data_format = format);
        char name[64];
        snprintf(name, sizeof name, "enlarged_unknown_%d", way);
        CHECK(in_every_way(name, g, x, 5, y, 5, "ConvTranspose") == 5);
    }
}

/* ==== >>graphs ======================================================================================== */

/* Constants and middles as outputs, one weight used twice, transposes of the user's that meet ours, several outputs of an op,
 * images flattened in both orders. */
TEST(odd_graphs)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 6, 5, 2)), *out[11], *half[2], *index;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(3, 3, 2, 2), tp_init_normal(0, 1));
    const int first[4] = {0, 3, 1, 2}, last[4] = {0, 2, 3, 1}, other[4] = {0, 2, 1, 3};
    const int64_t flat[2] = {TP_ANY, 60};
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    tp_node *y = tp_nn_conv2d(tp_nn_conv2d(x, w, &a), w, &a); /* the weights stand there once */
    out[0] = tp_named(tp_affine(w, 2, 1), "doubled");         /* computed now */
    out[1] = w;
    out[2] = tp_named(w, "again");
    out[3] = tp_named(tp_transpose(y, first, 4), "planes"); /* no Transpose */
    a.data_format = TP_NCHW;
    tp_node *z = tp_nn_conv2d(out[3], w, &a); /* what is there already */
    a.data_format = TP_NHWC;
    out[4] = tp_named(tp_nn_conv2d(tp_transpose(z, last, 4), w, &a), "back"); /* back to the user's order */
    out[5] = tp_named(tp_transpose(y, other, 4), "turned");
    tp_split(y, 2, 3, half);
    out[6] = half[1];
    out[7] = tp_top_k(tp_batch_flatten(y), 3, &index); /* in the order of y */
    out[8] = index;
    out[9] = tp_named(tp_mul(y, tp_mean(y)), "scaled");
    tp_node *m = tp_get_variable_as(g, "m", TP_F32, tp_make_shape(60, 3), tp_init_normal(0, 1));
    tp_node *f = tp_reshape_to(tp_relu(y), tp_make_shape_n(2, flat)); /* rows of m in another order, once as they are */
    out[10] = tp_named(tp_sub(tp_matmul(f, m), tp_matmul(tp_affine(f, 2, 0), m)), "product");
    tp_session *s = open_graph(g);
    tp_feed feed;
    fill(&feed, x, 2, 0);
    if (s) {
        model *e = export_model("net_odd", s, &feed, 1, out, 11, NULL);
        if (e) {
            int copies = 0;
            for (int i = 0; i < e->n_init; i++) copies += strstr(e->init[i].name, "oihw") != NULL;
            CHECK(copies == 1 && count(e, "Conv") == 4);
            CHECK(find(e->init, e->n_init, "w:value") && find(e->init, e->n_init, "m"));
            CHECK(find(e->output, e->n_output, "Split:1") && holds(find(e->output, e->n_output, "turned"), "batch"));
            free_model(e);
        }
        tp_export_onnx_desc d;
        memset(&d, 0, sizeof d);
        d.name = "part";
        feed.node = y; /* from the middle on */
        tp_node *rest = out[9];
        e = export_model("net_middle", s, &feed, 1, &rest, 1, &d);
        if (e) {
            CHECK(e->n_node == 2 && e->n_init == 0 && find(e->input, 1, "Conv2D_1"));
            free_model(e);
        }
    }
    tp_tensor_free(&feed.value);
    tp_session_free(s);
    tp_graph_free(g);
}

/* Dropout and what only watches are not there; half precision stays half. */
TEST(what_does_nothing_is_left_out)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2, 3)), *y, *out[2];
    tp_add_tensor_summary(x, TP_SUMMARY_RMS, NULL, NULL);
    y = tp_check_numerics(tp_stop_gradient(tp_nn_dropout(tp_exp(x), 0.5f)), "weights");
    out[0] = tp_named(y, "kept");
    tp_node *half = tp_cast(x, TP_F16);
    out[1] = tp_named(tp_cast(tp_add(tp_mul(half, half), tp_const_as(g, TP_F16, 0.25)), TP_F32), "half");
    tp_session *s = open_graph(g);
    tp_feed feed;
    fill(&feed, x, 2, 0);
    if (s) {
        tp_buf b;
        memset(&b, 0, sizeof b);
        CHECK_OK(tp_export_onnx_buf(s, &x, 1, out, 1, &b, NULL));
        model *m = (model *)calloc(1, sizeof *m);
        if (CHECK(m != NULL)) {
            m->bytes = b;
            read_model(m);
            CHECK(m->n_node == 1 && count(m, "Exp") == 1 && find(m->node, 1, "kept"));
            free_model(m);
        }
        for (int i = 0; i < 6; i++) tp_tensor_set(&feed.value, i, 0.25 * i - 0.5); /* exact, however it is rounded */
        m = export_model("net_half", s, &feed, 1, &out[1], 1, NULL);
        if (m) {
            CHECK(count(m, "Cast") == 2 && m->n_node == 4);
            free_model(m);
        }
    }
    tp_tensor_free(&feed.value);
    tp_session_free(s);
    tp_graph_free(g);
}

/* Outputs that are other names of a value: the first of them names the value that an op gives, unless that is an output itself; an
 * input keeps its name and needs no node, and what is known keeps its name. All others are Identity. */
TEST(outputs_that_are_other_names)
{
    enum { X, X1, X2, Y, Y1, Y2, W, W1, N };
    static const struct {
        int n, out[4], identities;
        const char *exp; /* the output of the op, as it stands in the file */
    } cases[] = {{1, {X}, 0, ""},
                 {1, {X1}, 1, ""},
                 {2, {X1, X2}, 2, ""},
                 {3, {X2, X, X1}, 2, ""},
                 {1, {Y}, 0, "\022\003Exp"},
                 {1, {Y1}, 0, "\022\002y1"},
                 {2, {Y2, Y1}, 1, "\022\002y2"},
                 {2, {Y, Y1}, 1, "\022\003Exp"},
                 {3, {Y1, Y2, Y}, 2, "\022\003Exp"},
                 {1, {W}, 1, ""},
                 {1, {W1}, 1, ""},
                 {2, {W1, W}, 2, ""},
                 {4, {X1, Y2, W1, Y1}, 3, "\022\002y2"}};
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x[N];
    x[X] = tp_placeholder(g, "x", TP_F32, tp_make_shape(2, 1, 1, 3));
    x[X1] = tp_named(tp_stop_gradient(x[X]), "x1"), x[X2] = tp_named(tp_stop_gradient(x[X1]), "x2");
    x[Y] = tp_exp(x[X]);
    x[Y1] = tp_named(tp_stop_gradient(x[Y]), "y1"), x[Y2] = tp_named(tp_stop_gradient(x[Y1]), "y2");
    x[W] = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(2, 3), tp_init_normal(0, 1));
    x[W1] = tp_named(tp_stop_gradient(x[W]), "w1");
    const int64_t eye[4] = {1, 1, 3, 3};
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    tp_node *conv = tp_nn_conv2d(x[X], numbers(g, 4, eye), &a);
    tp_session *s = open_graph(g);
    tp_feed feed;
    fill(&feed, x[X], 0, 0);
    for (int c = 0; s && c < TP_COUNT(cases); c++) {
        tp_node *out[4];
        for (int i = 0; i < cases[c].n; i++) out[i] = x[cases[c].out[i]];
        model *m = export_model("net_other_names", s, &feed, 1, out, cases[c].n, NULL);
        if (!m) continue;
        const bool one = *cases[c].exp != 0;
        CHECK_MSG(count(m, "Identity") == cases[c].identities && m->n_node == cases[c].identities + one,
                  "%d: %d nodes, %d of them Identity", c, m->n_node, count(m, "Identity"));
        CHECK(count(m, "Exp") == one && find(m->input, m->n_input, "x") && m->n_input == 1);
        for (int i = 0; i < m->n_node; i++)
            if (strcmp(m->node[i].op, "Exp") == 0)
                CHECK_MSG(holds(&m->node[i], cases[c].exp), "%d: its output is not %s", c, cases[c].exp + 2);
        free_model(m);
    }
    tp_node *out[2] = {x[X1], conv};
    model *m = s ? export_model("net_other_name_and_order", s, &feed, 1, out, 2, NULL) : NULL;
    if (m) { /* the input in another order is called after the input */
        int named = 0;
        for (int i = 0; i < m->n_node; i++) named += holds(&m->node[i], "\022\006x:nchw");
        CHECK(named == 1 && count(m, "Conv") == 1 && count(m, "Identity") == 1);
        free_model(m);
    }
    tp_tensor_free(&feed.value);
    tp_session_free(s);
    tp_graph_free(g);
}

/* A border of zeros is the padding of the convolution behind it; any other border, and one that others see, stays. */
TEST(borders_become_padding)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 7, 6, 2)), *out[5], *p[3];
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(3, 3, 2, 2), tp_init_normal(0, 1));
    const int64_t before[4] = {0, 1, 2, 0}, after[4] = {0, 2, 1, 0}, planes[4] = {0, 0, 1, 2};
    const int first[4] = {0, 3, 1, 2};
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    a.padding = TP_VALID, a.stride_h = a.stride_w = 2;
    p[0] = tp_pad(x, before, after, TP_PAD_CONSTANT, 0);
    p[1] = tp_pad(x, before, after, TP_PAD_CONSTANT, 1);
    p[2] = tp_pad(x, after, before, TP_PAD_REFLECT, 0);
    for (int i = 0; i < 3; i++) out[i] = tp_nn_conv2d(p[i], w, &a);
    a.data_format = TP_NCHW;
    out[3] = tp_nn_conv2d(tp_pad(tp_transpose(x, first, 4), planes, planes, TP_PAD_CONSTANT, 0), w, &a);
    out[4] = tp_named(tp_neg(p[1]), "seen");
    tp_session *s = open_graph(g);
    tp_feed feed;
    fill(&feed, x, 2, 0);
    for (int folded = 0; s && folded < 2; folded++) {
        tp_export_onnx_desc d;
        memset(&d, 0, sizeof d);
        d.fold = folded;
        model *m = export_model(folded ? "net_borders_folded" : "net_borders", s, &feed, 1, out, 5, &d);
        if (!m) continue;
        CHECK(count(m, "Pad") == (folded ? 2 : 4) && count(m, "Conv") == 4);
        free_model(m);
    }
    tp_tensor_free(&feed.value);
    tp_session_free(s);
    tp_graph_free(g);
}

/* The first dimension of an output is called "batch" only where it is the inputs'. */
TEST(names_of_dimensions)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, TP_ANY, 4)), *out[3];
    const int64_t rows[2] = {TP_ANY, 4};
    const int swap[3] = {1, 0, 2};
    out[0] = tp_named(tp_reshape_to(x, tp_make_shape_n(2, rows)), "rows");
    out[1] = tp_named(tp_transpose(x, swap, 3), "time_major");
    out[2] = tp_named(tp_exp(x), "same");
    tp_session *s = open_graph(g);
    tp_feed feed;
    fill(&feed, x, 3, 0);
    if (s) {
        model *m = export_model("net_dims", s, &feed, 1, out, 3, NULL);
        if (m) {
            CHECK(holds(&m->input[0], "batch") && holds(&m->input[0], "x_dim1"));
            CHECK(!holds(&m->output[0], "batch") && holds(&m->output[0], "rows_dim0"));
            CHECK(!holds(&m->output[1], "batch") && holds(&m->output[2], "batch"));
            free_model(m);
        }
    }
    tp_tensor_free(&feed.value);
    tp_session_free(s);
    tp_graph_free(g);
}

/* The batch behind ops whose number of outputs varies, and behind more than 64 inputs. */
TEST(the_batch_behind_long_lists)
{
    enum { MOST = 70 };
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 4)), *half[2], *column[4], *list[MOST], *out[5];
    tp_split(x, 2, 1, half);
    tp_unstack(x, 1, 4, column); /* without sizes, ONNX Runtime takes it for the other Split */
    for (int i = 0; i < MOST; i++) list[i] = i ? tp_affine(x, (float)i, 1.0f) : x;
    out[0] = tp_named(tp_exp(half[1]), "half");
    out[1] = tp_named(tp_exp(column[3]), "column");
    out[2] = tp_named(tp_concat(list, MOST, 1), "wide");
    out[3] = tp_named(tp_add_n(list, MOST), "sum");
    out[4] = tp_named(tp_concat(list, MOST, 0), "long");
    tp_session *s = open_graph(g);
    tp_feed feed;
    fill(&feed, x, 3, 0);
    model *m = s ? export_model("long_lists_of_a_batch", s, &feed, 1, out, 5, NULL) : NULL;
    for (int i = 0; m && i < 5; i++)
        CHECK_MSG(holds(&m->output[i], "batch") == (i < 4), "output '%s'", tp_node_name(out[i]));
    if (m) free_model(m);
    tp_tensor_free(&feed.value);
    tp_session_free(s);
    tp_graph_free(g);
}

static tp_status sinh_infer(tp_infer *s)
{
    s->out[0] = s->in[0];
    return TP_OK;
}
static void sinh_block(int64_t n, void *y, const void *const *in, const void *attrs)
{
    (void)attrs;
    for (int64_t i = 0; i < n; i++) ((float *)y)[i] = sinhf(((const float *)in[0])[i]);
}
TEST(rows_of_your_own)
{
    tp_op row;
    memset(&row, 0, sizeof row);
    row.name = "sinh", row.label = "Sinh", row.flags = TP_OP_ELEMENTWISE;
    row.min_in = row.max_in = row.n_out = 1;
    row.infer = sinh_infer, row.block_f32 = sinh_block;
    row.naive_f32 = tp_op_find("tanh")->naive_f32;
    for (int named = 0; named < 2; named++) {
        row.onnx = named ? "Sinh" : NULL;
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 3)), *y = tp_apply(g, &row, &x, 1, NULL);
        tp_session *s = open_graph(g);
        tp_feed feed;
        fill(&feed, x, 2, 0);
        if (s && named) {
            model *m = export_model("net_own_row", s, &feed, 1, &y, 1, NULL);
            if (m) free_model(m);
        } else if (s) {
            tp_buf b;
            memset(&b, 0, sizeof b);
            CHECK_ERR(tp_export_onnx_buf(s, &x, 1, &y, 1, &b, NULL), TP_ERR_UNSUPPORTED,
                      "ONNX export: 'Sinh' needs the op 'sinh', which has no ONNX form");
            CHECK(b.len == 0);
            tp_buf_free(&b);
        }
        tp_tensor_free(&feed.value);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* A step of a graph network: messages of edges are summed in nodes, whose number is known or not; some ids name no node. */
TEST(sums_of_segments)
{
    for (int known = 0; known < 2; known++) {
        tp_graph *g = inference_tower();
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(known ? 5 : TP_ANY, 3)), *out[2];
        tp_node *from = tp_placeholder(g, "from", TP_I32, tp_make_shape(TP_ANY)),
                *to = tp_placeholder(g, "to", TP_I64, tp_make_shape(TP_ANY));
        tp_node *message = tp_leaky_relu(tp_matmul(tp_gather(x, from), weight(g, "w", 2, 3, 4)), 0.1f);
        out[0] = known ? tp_unsorted_segment_sum(message, to, 5) : tp_unsorted_segment_sum_like(message, to, x);
        tp_gradients(tp_sum(tp_square(tp_elu(tp_clip(out[0], -1, 1)))), &x, 1, &out[1]);
        tp_tower_leave(g);
        tp_session *s = open_graph(g);
        tp_feed feed[3];
        fill(&feed[0], x, 5, 0), fill(&feed[1], from, 9, 5), fill(&feed[2], to, 9, 5);
        tp_tensor_set(&feed[2].value, 2, -1), tp_tensor_set(&feed[2].value, 4, 5);
        tp_export_onnx_desc d;
        memset(&d, 0, sizeof d);
        d.separate_sizes = true; /* nodes and edges */
        model *m =
            s ? export_model(known ? "net_segments_edges_unknown" : "net_segments_unknown", s, feed, 3, out, 2, &d)
              : NULL;
        if (m) {
            CHECK(count(m, "ScatterND") == 2 && holds(&m->input[1], "from_dim0") && holds(&m->input[2], "to_dim0"));
            CHECK(known || holds(&m->input[0], "x_dim0"));
            free_model(m);
        }
        for (int i = 0; i < 3; i++) tp_tensor_free(&feed[i].value);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* ==== >>mistakes ====================================================================================== */

TEST(what_cannot_be_exported_is_said)
{
    tp_graph *g = tp_graph_new(NULL), *strange = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 3)),
            *label = tp_placeholder(g, "l", TP_I32, x->shape);
    tp_node *v = tp_get_scalar_variable(g, "v", 1), *in[2], *out[2];
    tp_node *sampled = tp_named(tp_rand_uniform_like(x, 0, 1), "sampled");
    tp_node *noise = tp_add(x, tp_rand_normal(g, tp_make_shape(3), 0, 1));
    const int64_t twice[2] = {1, 2};
    tp_node *cost = tp_sum(tp_square(tp_tile(tp_relu(x), twice))), *dx = NULL, *y = tp_relu(x), *lse, *elsewhere;
    tp_node *group = tp_group(g, &y, 1, "all"), *q = tp_placeholder(g, "q", TP_F32, tp_make_shape(2, 3, 4)), *arg;
    tp_node *h = tp_placeholder(g, "h", TP_F32, tp_make_shape(2, 4)),
            *kernel = tp_placeholder(g, "k", TP_F32, tp_make_shape(8, 16));
    tp_node *rnn = tp_nn_lstm(q, kernel, tp_get_variable_as(g, "b", TP_F32, tp_make_shape(16), tp_init_zeros()), h, h,
                              1, true, NULL, NULL);
    tp_gradients(cost, &x, 1, &dx);
    lse = &tp_nn_attention(q, q, q, 2, false)->op->out[1];
    tp_pool_attrs pool;
    memset(&pool, 0, sizeof pool);
    pool.size_h = pool.size_w = 2;
    tp_node *image = tp_placeholder(g, "image", TP_F32, tp_make_shape(1, 4, 4, 1));
    arg = &tp_nn_max_pool(image, &pool)->op->out[1];
    elsewhere = tp_placeholder(strange, "x", TP_F32, tp_make_shape(1));
    tp_node *table = tp_placeholder(g, "table", TP_F32, tp_make_shape(4, 3)), *d_table = NULL;
    tp_node *ids = tp_placeholder(g, "ids", TP_I32, tp_make_shape(2));
    tp_node *picked = tp_sum(tp_square(tp_gather(table, ids)));
    tp_gradients(picked, &table, 1, &d_table);
    tp_session *s = open_graph(g);
    tp_buf b;
    memset(&b, 0, sizeof b);
    if (s) {
#define REFUSED(n_in_, o_, n_out_, status_, part_) \
    CHECK_ERR(tp_export_onnx_buf(s, in, n_in_, o_, n_out_, &b, NULL), status_, part_)
        in[0] = x;
        REFUSED(1, &sampled, 1, TP_ERR_UNSUPPORTED,
                "needs the op 'random', which has no ONNX form: leave the noise out where the tower is not training, "
                "or make it an input of the exported network");
        REFUSED(1, &noise, 1, TP_ERR_UNSUPPORTED, "needs the op 'random'"); /* not folded to one number */
        REFUSED(1, &dx, 1, TP_ERR_UNSUPPORTED,
                "needs the op 'tile_grad', which has no ONNX form: it is a derivative: choose outputs that need none");
        tp_export_onnx_desc old;
        memset(&old, 0, sizeof old);
        old.opset = 13, in[0] = table, in[1] = ids;
        CHECK_ERR(tp_export_onnx_buf(s, in, 2, &d_table, 1, &b, &old), TP_ERR_UNSUPPORTED,
                  "(gather_grad) must have opset 17, since it becomes ScatterND with `add`");
        tp_node *other = tp_placeholder(g, "other", TP_F32, tp_make_shape(TP_ANY, 3)), *pair[2], *d_pair = NULL;
        pair[0] = tp_placeholder(g, "batch", TP_F32, tp_make_shape(TP_ANY, 3)), pair[1] = other;
        tp_gradients(tp_sum(tp_mul(pair[0], other)), pair, 1, &d_pair);
        CHECK_ERR(tp_export_onnx_buf(s, pair, 2, &d_pair, 1, &b, NULL), TP_ERR_UNSUPPORTED,
                  "must know dimension 0 of what it sums to: give it a size in the placeholder");
        in[0] = x;
        REFUSED(1, &group, 1, TP_ERR_UNSUPPORTED, "'all' needs the op 'group'");
        out[0] = tp_assign_add(v, tp_const(g, 1), NULL);
        REFUSED(1, out, 1, TP_ERR_UNSUPPORTED, "needs the op 'assign_add'");
        out[0] = tp_mul(x, tp_cast(label, TP_F32));
        REFUSED(1, out, 1, TP_ERR_ARG, "ONNX export: the outputs need placeholder 'l', so it must be an input");
        REFUSED(1, &y, 0, TP_ERR_ARG, "there are no outputs");
        out[0] = out[1] = y;
        REFUSED(1, out, 2, TP_ERR_NAME, "'Relu_1' is an output twice");
        in[1] = x;
        REFUSED(2, &y, 1, TP_ERR_NAME, "'x' is an input twice");
        in[1] = elsewhere;
        REFUSED(2, &y, 1, TP_ERR_ARG, "input 1 is not a node of this session's graph");
        out[0] = NULL;
        REFUSED(1, out, 1, TP_ERR_ARG, "fetch 0 is NULL");
        in[0] = q;
        REFUSED(1, &lse, 1, TP_ERR_UNSUPPORTED, "ONNX export: output 1 of 'Attention' (attention) has no ONNX form");
        in[1] = h;
        REFUSED(2, &rnn, 1, TP_ERR_ARG, "need placeholder 'k'");
        tp_node *three[3];
        three[0] = q, three[1] = h, three[2] = kernel;
        CHECK_ERR(tp_export_onnx_buf(s, three, 3, &rnn, 1, &b, NULL), TP_ERR_UNSUPPORTED,
                  "ONNX export: 'LSTM' (lstm) needs weights that do not depend on the inputs, but 'k' does");
        in[0] = image;
        REFUSED(1, &arg, 1, TP_ERR_UNSUPPORTED, "output 1 of 'MaxPool' (max_pool)");
        for (int like = 0; like < 2; like++) { /* in ONNX a dimension of 0 is one of the input's */
            in[0] = tp_placeholder(g, like ? "none_like" : "none_to", TP_F32, tp_make_shape(0));
            tp_node *none = tp_placeholder(g, like ? "like_none" : "to_none", TP_F32, tp_make_shape(1, 0));
            out[0] = like ? tp_reshape_like(in[0], none) : tp_reshape_to(in[0], none->shape);
            REFUSED(1, out, 1, TP_ERR_UNSUPPORTED, "makes a dimension of 0, which ONNX cannot say before opset 14");
        }
        tp_export_onnx_desc d;
        memset(&d, 0, sizeof d);
        d.opset = 9;
        CHECK_ERR(tp_export_onnx_buf(s, &x, 1, &y, 1, &b, &d), TP_ERR_ARG, "opset 9 is not written: choose 13 or 17");
        CHECK(b.len == 0);
        CHECK_ERR(tp_export_onnx(s, &x, 1, &y, 1, "/nowhere/at/all.onnx", NULL), TP_ERR_IO, "/nowhere/at/all.onnx");
#undef REFUSED
    }
    tp_buf_free(&b);
    tp_session_free(s);
    tp_graph_free(g);
    tp_graph_free(strange);
}

/* A node with so many inputs that their names need a block of memory of their own. */
TEST(a_sum_of_many_without_memory)
{
    enum { N = 3000 };
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2)), *in[N];
    for (int i = 0; i < N; i++) in[i] = x;
    tp_node *y = tp_named(tp_add_n(in, N), "y");
    tp_session *s = tp_session_new(g, NULL);
    int failures = 0;
    for (long n = 1, failed = 1; failed && n < 2000; n++) {
        tp_buf b = TP_EMPTY;
        tp_test_fail_after(n);
        const tp_status st = tp_export_onnx_buf(s, &x, 1, &y, 1, &b, NULL);
        failed = tp_test_alloc_failed();
        CHECK_MSG(failed ? st == TP_ERR_NOMEM : st == TP_OK, "allocation %ld: %s: %s", n, tp_status_name(st),
                  tp_last_error());
        failures += failed != 0;
        tp_buf_free(&b);
        CHECK(tp_test_live_blocks() == 0);
        tp_test_alloc_reset();
    }
    CHECK(failures > 5);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(memory_may_run_out_anywhere)
{
    int failures = 0;
    for (long n = 1, failed = 1; failed && n < 20000; n++) {
        tp_test_fail_after(n);
        tp_graph *g = tp_graph_new(NULL);
        tp_session *s = NULL;
        tp_status st = TP_ERR_NOMEM;
        tp_buf b;
        memset(&b, 0, sizeof b);
        if (g) {
            tp_conv2d_attrs a;
            memset(&a, 0, sizeof a);
            tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 4, 4, 2)), *out[3], *half[2];
            tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(3, 3, 2, 4), tp_init_ones());
            tp_node *c = tp_get_variable_as(g, "c", TP_F32, tp_make_shape(4), tp_init_ones());
            tp_node *m = tp_get_variable_as(g, "m", TP_F32, tp_make_shape(64, 3), tp_init_ones());
            tp_node *k = tp_get_variable_as(g, "k", TP_F32, tp_make_shape(8, 16), tp_init_ones());
            tp_node *y = tp_nn_bias_add(tp_nn_conv2d(x, w, &a), c, TP_NHWC);
            y = tp_relu(tp_nn_batch_norm_infer(y, c, tp_exp(c), c, c, 3, 1e-3f));
            out[0] = tp_named(tp_softmax(tp_matmul(tp_batch_flatten(y), m)), "prob");
            tp_split(y, 2, 3, half);
            out[1] = tp_broadcast_like(tp_sum(tp_concat(half, 2, 3)), x);
            tp_node *t = tp_placeholder(g, "t", TP_F32, tp_make_shape(2, 3, 4)), *in[2];
            in[0] = x, in[1] = t;
            t = tp_nn_attention(t, t, t, 2, true);
            tp_node *zero = tp_get_variable_as(g, "zero", TP_F32, tp_make_shape(2, 4), tp_init_zeros());
            tp_node *bias = tp_get_variable_as(g, "bias", TP_F32, tp_make_shape(16), tp_init_zeros());
            out[2] = tp_nn_lstm(tp_nn_layer_norm(t, c, c, 1e-5f), k, bias, zero, zero, 1, true, NULL, NULL);
            tp_export_onnx_desc d;
            memset(&d, 0, sizeof d);
            d.fold = n % 2 == 0;
            s = tp_session_new(g, NULL);
            if (s) st = tp_export_onnx_buf(s, in, 2, out, 3, &b, &d);
        }
        failed = tp_test_alloc_failed();
        CHECK_MSG(failed ? st == TP_ERR_NOMEM : st == TP_OK, "allocation %ld: %s: %s", n, tp_status_name(st),
                  tp_last_error());
        failures += failed != 0;
        tp_buf_free(&b);
        tp_session_free(s);
        tp_graph_free(g);
        CHECK(tp_test_live_blocks() == 0);
    }
    tp_test_alloc_reset();
    CHECK(failures > 100);
}

/* ==== >>exporter ====================================================================================== */

/* prob of an image, and the cost of a label: what a model builds, training or not. */
static tp_node *classifier(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_disable_layer_logging(g);
    tp_node *y = tp_conv2d(in[0], "conv", .filters = 4, .kernel_size = 3, .use_bias = TP_NO, .activation = tp_bn_relu);
    y = tp_fully_connected(tp_dropout(y, "dropout", .rate = 0.5f), "fc", .units = 3);
    tp_named(tp_softmax(y), "prob");
    tp_named(tp_reduce_max(y, NULL, 0, true), "best");
    tp_named(tp_reduce_max(y, NULL, 0, false), "scalar");
    tp_named(tp_argmax(y, 1), "class");
    return tp_named(tp_mean(tp_sparse_softmax_cross_entropy(y, in[1])), "cost");
}
static const char *const prob_and_class[] = {"prob", "class"}, *const best_only[] = {"best"},
                         *const scalar_only[] = {"scalar"}, *const image_only[] = {"image"};
static void config(tp_predict_config *c, tp_spec spec[2])
{
    memset(c, 0, sizeof *c);
    memset(spec, 0, 2 * sizeof *spec);
    spec[0].name = "image", spec[0].dtype = TP_F32, spec[0].shape = tp_make_shape(TP_ANY, 6, 6, 2);
    spec[1].name = "label", spec[1].dtype = TP_I32, spec[1].shape = tp_make_shape(TP_ANY);
    c->inputs = spec;
    c->n_inputs = 2;
    c->build_graph = classifier;
    c->input_names = image_only;
    c->n_input_names = 1;
    c->output_names = prob_and_class;
    c->n_output_names = 2;
}
static model *read_file(const char *path)
{
    model *m = (model *)calloc(1, sizeof *m);
    char *data = NULL;
    size_t size = 0;
    if (m && CHECK_OK(tp_file_read(path, false, 0, &data, &size))) {
        tp_buf_put(&m->bytes, data, size);
        read_model(m);
    }
    tp_free(data);
    return m;
}
TEST(a_model_exporter_writes_compact_files)
{
    tp_predict_config c;
    tp_spec spec[2];
    const char *dir = tp_test_tmpdir(), *path = tp_test_path(dir, "model.onnx");
    config(&c, spec);
    tp_dict d;
    memset(&d, 0, sizeof d);
    tp_tensor *b = tp_dict_add(&d, "fc/b");
    const int64_t three = 3;
    if (CHECK(b && tp_tensor_resize(b, TP_F32, tp_make_shape_n(1, &three)) == TP_OK))
        for (int i = 0; i < 3; i++) tp_tensor_set(b, i, i + 0.25);
    c.session_init = tp_dict_restore(&d, false);
    c.allow_missing_variables = true; /* the others are as they are initialised */
    tp_model_exporter *x = tp_model_exporter_new(&c);
    if (CHECK_MSG(x != NULL, "%s", tp_last_error())) {
        tp_tensor t;
        memset(&t, 0, sizeof t);
        tp_session *s = tp_model_exporter_session(x);
        CHECK_OK(tp_session_eval(s, tp_graph_find(tp_session_graph(s), "fc/b"), &t));
        CHECK(tp_tensor_size(&t) == 3 && tp_tensor_get(&t, 2) == 2.25);
        tp_tensor_free(&t);
        tp_export_compact_desc how;
        memset(&how, 0, sizeof how);
        CHECK_OK(tp_export_compact(x, path, NULL));
        model *m = read_file(path);
        CHECK(count(m, "Conv") == 1 && count(m, "BatchNormalization") == 0 && count(m, "Identity") == 0);
        CHECK(find(m->input, m->n_input, "image") && m->n_input == 1 && find(m->output, m->n_output, "prob"));
        const float given[3] = {0.25f, 1.25f, 2.25f}; /* what session_init gave */
        unsigned char bias[sizeof given];
        tp_test_little_endian(bias, given, sizeof given, 4);
        const part *init = find(m->init, m->n_init, "fc/b");
        CHECK(init && init->n > sizeof bias && memcmp(init->p + init->n - sizeof bias, bias, sizeof bias) == 0);
        free_model(m);
        how.optimize = TP_NO;
        CHECK_OK(tp_export_compact(x, path, &how));
        m = read_file(path);
        CHECK(count(m, "BatchNormalization") == 1 && count(m, "Identity") > 2);
        free_model(m);
        how.toco_compatible = true;
        CHECK_ERR(tp_export_compact(x, path, &how), TP_ERR_ARG, "toco_compatible needs optimize");
        how.optimize = TP_YES;
        CHECK_OK(tp_export_compact(x, path, &how));
        CHECK_ERR(tp_export_compact(x, dir, NULL), TP_ERR_IO, dir); /* a folder is in the way */
        CHECK(tp_test_files_in(dir) == 1);
    }
    tp_model_exporter_free(x);
    config(&c, spec);
    c.output_names = NULL;
    CHECK(tp_model_exporter_new(&c) == NULL);
    CHECK_HAS(tp_last_error(), "output_names");
    config(&c, spec);
    c.input_names = NULL, c.n_input_names = 3;
    CHECK(tp_model_exporter_new(&c) == NULL);
    CHECK_HAS(tp_last_error(), ".n_input_names is 3, but there is no .input_names");
    c.n_input_names = -1;
    CHECK(tp_model_exporter_new(&c) == NULL);
    CHECK_HAS(tp_last_error(), ".n_input_names is -1: give the list");
    tp_model_exporter_free(NULL);
}

TEST(a_model_exporter_writes_server_folders)
{
    tp_predict_config c;
    tp_spec spec[2];
    const char *judged = getenv("TP_ONNX_DIR"), *dir = judged && *judged ? judged : tp_test_tmpdir();
    char folder[600], scalar[600], full[600];
    snprintf(folder, sizeof folder, "%s/triton_classifier", dir);
    snprintf(scalar, sizeof scalar, "%s/triton_scalar", dir);
    snprintf(full, sizeof full, "%s/full", dir);
    const char *const tags[] = {"serve", "cpu \"fast\""};
    char *text = NULL;
    size_t size = 0;
    tp_export_serving_desc d;
    memset(&d, 0, sizeof d);
    config(&c, spec);
    tp_model_exporter *x = tp_model_exporter_new(&c);
    if (CHECK_MSG(x != NULL, "%s", tp_last_error())) {
        CHECK_OK(tp_export_serving(x, folder, NULL));
        CHECK_OK(tp_file_read(tp_test_path(folder, "config.pbtxt"), false, 0, &text, &size));
        CHECK_HAS(text, "max_batch_size: 64\n");
        CHECK_HAS(text, "name: \"image\"\n    data_type: TYPE_FP32\n    dims: [ 6, 6, 2 ]");
        CHECK_HAS(text, "name: \"class\"\n    data_type: TYPE_INT64\n    dims: [ 1 ]\n    reshape { shape: [ ] }");
        CHECK_HAS(text, "key: \"tags\"\n  value { string_value: \"serve\" }");
        CHECK_HAS(text, "string_value: \"prediction_pipeline\"");
        tp_free(text);
        CHECK(tp_file_exists(tp_test_path(folder, "1/model.onnx")) && tp_test_files_in(folder) == 2);
        CHECK_ERR(tp_export_serving(x, folder, NULL), TP_ERR_STATE, "/1 exists: remove it, or choose another version");
        d.version = 2;
        CHECK_OK(tp_export_serving(x, folder, &d));
        CHECK(tp_test_files_in(folder) == 3);
        d.version = 3, d.max_batch_size = 8;
        CHECK_ERR(tp_export_serving(x, folder, &d), TP_ERR_STATE, "choose another folder");
        CHECK(tp_test_files_in(folder) == 3);
        d.version = -1;
        CHECK_ERR(tp_export_serving(x, folder, &d), TP_ERR_ARG, "a version must be positive");
        static const char *const half[] = {"serve", NULL};
        static const struct {
            const char *const *tags;
            int n_tags, max_batch_size;
            const char *sentence;
        } wrong[] = {{NULL, 2, 0, ".n_tags is 2, but there is no .tags: give the list in .tags"},
                     {half, -2, 0, ".n_tags is -2: give the list in .tags"},
                     {half, 2, 0, ".tags[1] is NULL"},
                     {NULL, 0, -7, ".max_batch_size is -7"}};
        for (int i = 0; i < TP_COUNT(wrong); i++) {
            memset(&d, 0, sizeof d);
            d.version = 4, d.tags = wrong[i].tags, d.n_tags = wrong[i].n_tags;
            d.max_batch_size = wrong[i].max_batch_size;
            CHECK_ERR(tp_export_serving(x, scalar, &d), TP_ERR_ARG, wrong[i].sentence);
            CHECK(!tp_file_exists(scalar));
        }
        CHECK_ERR(tp_export_serving(x, "/dev/null/model", NULL), TP_ERR_IO, "/dev/null is in the way");

        /* a full disk, played by a limit on file sizes: nothing stays */
        struct rlimit old, small;
        if (getrlimit(RLIMIT_FSIZE, &old) == 0) {
            void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
            for (int late = 0; late < 2; late++) { /* the model does not fit; nor does anything */
                small = old;
                small.rlim_cur = late ? 100 : 1000;
                if (setrlimit(RLIMIT_FSIZE, &small) != 0) break;
                const tp_status st = tp_export_serving(x, full, NULL), st2 = tp_export_compact(x, full, NULL);
                setrlimit(RLIMIT_FSIZE, &old);
                CHECK_MSG(st == TP_ERR_IO && st2 == TP_ERR_IO, "%s", tp_last_error());
                CHECK(!tp_file_exists(full));
            }
            signal(SIGXFSZ, handler);
        }
    }
    tp_model_exporter_free(x);

    config(&c, spec);
    c.output_names = scalar_only, c.n_output_names = 1;
    x = tp_model_exporter_new(&c);
    if (CHECK(x != NULL))
        CHECK_ERR(tp_export_serving(x, scalar, NULL), TP_ERR_SHAPE, "the output 'scalar' is a scalar or empty");
    CHECK(!tp_file_exists(scalar));
    tp_model_exporter_free(x);

    config(&c, spec);
    c.output_names = best_only, c.n_output_names = 1; /* one number for the whole batch */
    x = tp_model_exporter_new(&c);
    if (CHECK_MSG(x != NULL, "%s", tp_last_error())) {
        memset(&d, 0, sizeof d);
        d.max_batch_size = 4;
        CHECK_ERR(tp_export_serving(x, scalar, &d), TP_ERR_SHAPE,
                  "max_batch_size is 4, but not every input and output");
        CHECK(!tp_file_exists(scalar));
        d.max_batch_size = 0, d.version = 7, d.tags = tags, d.n_tags = 2, d.signature_name = "best\\of\nall";
        CHECK_OK(tp_export_serving(x, scalar, &d));
        CHECK_OK(tp_file_read(tp_test_path(scalar, "config.pbtxt"), false, 0, &text, &size));
        CHECK_HAS(text, "max_batch_size: 0\n");
        CHECK_HAS(text, "dims: [ -1, 6, 6, 2 ]");
        CHECK_HAS(text, "string_value: \"serve,cpu \\\"fast\\\"\"");
        CHECK_HAS(text, "string_value: \"best\\\\of\\012all\"");
        tp_free(text);
    }
    tp_model_exporter_free(x);
}

TEST(an_exporter_runs_out_of_memory_anywhere)
{
    const char *dir = tp_test_tmpdir(), *folder = tp_test_path(dir, "model"), *file = tp_test_path(dir, "model.onnx");
    tp_predict_config c;
    tp_spec spec[2];
    int failures = 0;
    for (long n = 1, failed = 1; failed && n < 20000; n += 2) {
        tp_test_fail_after(n);
        config(&c, spec);
        tp_model_exporter *x = tp_model_exporter_new(&c);
        tp_status st = x ? tp_export_serving(x, folder, NULL) : TP_ERR_NOMEM;
        const bool there = tp_file_exists(folder);
        if (st == TP_OK) st = tp_export_compact(x, file, NULL);
        else CHECK(!there);
        failed = tp_test_alloc_failed();
        CHECK_MSG(failed ? st != TP_OK : st == TP_OK, "allocation %ld: %s: %s", n, tp_status_name(st), tp_last_error());
        failures += failed != 0;
        tp_model_exporter_free(x);
        CHECK(tp_test_live_blocks() == 0);
        if (there) tp_test_remove(folder);
    }
    tp_test_alloc_reset();
    CHECK_MSG(failures > 100 && tp_test_files_in(dir) == 1, "%d failures, %d files", failures, tp_test_files_in(dir));
}

/* A node of a file takes 16,384 inputs in the import: longer sums and joins are several nodes. */
TEST(long_sums_and_joins_are_chains)
{
    enum { MOST = 16384 };
    const int lengths[] = {MOST, MOST + 1, 2 * MOST - 1, 2 * MOST};
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2, 1)), *y = tp_affine(x, 3, 1);
    tp_node **list = (tp_node **)malloc(2 * MOST * sizeof *list), *out[2 * TP_COUNT(lengths)];
    for (int k = 0; k < TP_COUNT(lengths); k++) {
        for (int i = 0; i < lengths[k]; i++) list[i] = i % 5000 && i < lengths[k] - 1 ? x : y;
        out[2 * k] = tp_add_n(list, lengths[k]), out[2 * k + 1] = tp_concat(list, lengths[k], 1);
    }
    free(list);
    tp_session *s = open_graph(g);
    tp_feed feed;
    fill(&feed, x, 0, 0);
    for (int k = 0; k < TP_COUNT(lengths) && s; k++) {
        model *m = export_model("long_lists", s, &feed, 1, &out[2 * k], 2, NULL);
        const int links = lengths[k] > 2 * MOST - 1 ? 3 : lengths[k] > MOST ? 2 : 1;
        if (m) CHECK(count(m, "Sum") == links && count(m, "Concat") == links), free_model(m);
    }
    tp_tensor_free(&feed.value);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST_MAIN()
