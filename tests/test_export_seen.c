/* What the exporters wrote before, as C, as ONNX and for a model server, of every op, of random networks and of a small model, with
 * options that are right and wrong. digests_export.txt has a digest of all that can be seen of each.
 *
 *     TP_TEST_WRITE=1 build/test/gcc-c11-test_export_seen    writes the digests anew, after a change that was meant
 *     TP_TEST_PRINT=conv2d ...                               prints what is said of the graphs of an op
 *
 * Constants are computed by the naive loops, whatever instruction set there is. */
#define TP_IMPLEMENTATION
#include "tp_export.h"
#include "tp_layers.h"
#include "tp_optim.h"
#include "tp_test.h"

#include "bench/networks.h"
#include "op_cases.h"

#include "onnx_tree.h"

#include "golden.h"

#include "seen_models.h"

#include <limits.h>

enum { VARIANTS = 10, NETWORKS = 60, EXPORTERS = 96, MOST_NODES = 40 };

static uint64_t dice_seed, dice_drawn;
static int dice(int n) { return (int)(tp_random_u32(dice_seed, 7, dice_drawn++) % (uint32_t)n); }
static void dice_begin(uint64_t a, uint64_t b) { dice_seed = tp_test_mix(a * 1000 + b), dice_drawn = 0; }

static bool printing;
static int n_c, n_onnx;

/* A sentence without the lines of this file, the folder of this run and the number of this process. */
static uint64_t seen_sentence(uint64_t h, const char *text, const char *dir)
{
    char said[2048];
    size_t n = 0;
    for (const char *p = text; *p && n + 1 < sizeof said; p++) {
        if (strncmp(p, "test_", 5) == 0) p = TP_TEST_SAID(p);
        if (strncmp(p, ".tmp.", 5) == 0) p += strcspn(p, " "); /* the name of a file for a while, with its process */
        said[n++] = *p;
        if (!*p) break;
    }
    said[n] = 0;
    return golden_hash_without(h, said, dir);
}
static uint64_t seen_status(uint64_t h, tp_status st)
{
    if (printing) printf("  status %d: %s\n", (int)st, st == TP_OK ? "" : tp_last_error());
    return seen_sentence(seen_int(h, st), st == TP_OK ? "" : tp_last_error(), NULL);
}

static void begin_seen(void)
{
    setenv("TP_ISA", "naive", 1);
    tp_set_log(tp_test_drop_log, NULL);
    n_c = n_onnx = 0;
}
static void end_seen(const char *section)
{
    tp_set_log(NULL, NULL);
    unsetenv("TP_ISA");
    printf("     %d exports as C, %d as ONNX\n", n_c, n_onnx);
    if (!getenv("TP_TEST_PRINT")) golden_compare("digests_export.txt", section);
}

static tp_session *open_seen(tp_graph *g)
{
    tp_session_config c = tp_default_session_config();
    c.threads = 1;
    return tp_session_new(g, &c);
}

/* Lists of inputs and outputs, mostly right. */
typedef struct operands {
    tp_node *in[MOST_NODES], *out[MOST_NODES];
    int n_in, n_out;
} operands;

/* Makes one mistake, or something unusual. */
static void spoil(operands *o, tp_graph *other)
{
    const int at = o->n_in ? dice(o->n_in) : 0;
    const int of = o->n_out ? dice(o->n_out) : 0;
    tp_node *first = o->n_in ? o->in[0] : NULL;
    switch (dice(14)) {
    case 0: o->n_in -= o->n_in > 0; break;
    case 1: o->n_out = 0; break;
    case 2:
        if (o->n_in) o->in[at] = NULL;
        break;
    case 3: o->out[of] = NULL; break;
    case 4: o->in[o->n_in++] = first ? first : o->out[0]; break;
    case 5: o->out[o->n_out++] = o->out[of]; break;
    case 6:
        if (first) o->out[o->n_out++] = o->in[at];
        break;
    case 7: o->in[o->n_in++] = o->out[of]; break;
    case 8: o->in[o->n_in++] = tp_placeholder(other, "foreign", TP_F32, tp_make_shape(2)); break;
    case 9: o->out[o->n_out++] = tp_placeholder(other, "foreign", TP_F32, tp_make_shape(2)); break;
    case 10:
        for (int i = 0; i < o->n_in / 2; i++) {
            tp_node *t = o->in[i];
            o->in[i] = o->in[o->n_in - 1 - i], o->in[o->n_in - 1 - i] = t;
        }
        break;
    case 11: o->in[0] = o->out[of], o->n_in = 1; break;
    case 12: o->out[o->n_out++] = tp_const(tp_node_graph(o->out[of]), 0.5f); break;
    default:
        if (first) o->out[o->n_out++] = tp_named(o->in[at], "same");
    }
}

static uint64_t seen_c_of(uint64_t h, tp_session *s, const operands *o)
{
    static const char *const names[] = {NULL, NULL, "net", "", "2x", "float", "a-b", "new", "x", "_", "y0", "ne w"};
    static const int64_t batches[] = {0, 0, 0, 1, 2, 2, 3, 5, -1, INT_MAX};
    tp_export_c_desc d;
    tp_export_c_info info;
    tp_buf text;
    memset(&d, 0, sizeof d);
    memset(&info, 0, sizeof info);
    memset(&text, 0, sizeof text);
    d.name = names[dice(TP_COUNT(names))];
    d.batch = batches[dice(TP_COUNT(batches))];
    const bool bare = dice(8) == 0;
    const tp_status st = tp_export_c_text(s, o->in, o->n_in, o->out, o->n_out, &text, bare ? NULL : &d, &info);
    h = seen_status(h, st);
    n_c += st == TP_OK;
    if (st == TP_OK) h = seen_c(h, text.data);
    h = seen_int(seen_int(seen_int(h, (int64_t)info.ram), (int64_t)info.flash), info.kernels);
    tp_buf_free(&text);
    return h;
}

static uint64_t seen_onnx_of(uint64_t h, tp_session *s, const operands *o)
{
    static const char *const names[] = {NULL, NULL, "net", "", "a b"};
    static const int opsets[] = {0, 0, 0, 0, 13, 13, 17, 17, 12, 14, 18, -1, 1};
    tp_export_onnx_desc d;
    tp_buf model;
    memset(&d, 0, sizeof d);
    memset(&model, 0, sizeof model);
    d.name = names[dice(TP_COUNT(names))];
    d.fold = dice(2) == 0;
    d.keep_identities = dice(3) == 0;
    d.opset = opsets[dice(TP_COUNT(opsets))];
    const bool bare = dice(8) == 0;
    const tp_status st = tp_export_onnx_buf(s, o->in, o->n_in, o->out, o->n_out, &model, bare ? NULL : &d);
    h = seen_status(h, st);
    n_onnx += st == TP_OK;
    if (st == TP_OK) h = seen_onnx(h, model.data, model.len);
    tp_buf_free(&model);
    return h;
}

/* ==== >>ops ============================================================================================ */

/* Input i of a case: a placeholder, whose shape may be open, a constant or a variable. */
static tp_node *case_input(tp_graph *g, const op_case *c, int i, int openness, operands *o)
{
    const tp_tensor *t = &c->in[i];
    char name[16];
    snprintf(name, sizeof name, "x%d", i);
    const int kind = dice(i == 0 ? 8 : 4);
    if (kind == 0) return tp_constant(g, t);
    if (kind == 1 && t->dtype == TP_F32) {
        const int64_t n = tp_tensor_size(t);
        return tp_get_variable_as(g, name, TP_F32, t->shape, tp_init_values((const float *)t->data, n));
    }
    tp_shape s = t->shape;
    for (int d = 0; d < s.ndim; d++)
        if (openness == 2 || (openness == 1 && d == 0)) s.dim[d] = TP_ANY;
    tp_node *x = o->in[o->n_in++] = tp_placeholder(g, name, t->dtype, s);
    const int before = dice(6);
    if (before == 0) return tp_identity(x);
    if (before == 1 && t->dtype == TP_F32) return tp_relu(x);
    if (before == 2) return tp_stop_gradient(x);
    return x;
}

static tp_node *case_op(tp_graph *g, const op_case *c, const tp_op *row, int openness, operands *o)
{
    tp_node *in[MAX_VALUES], *var[MAX_VALUES];
    void *attrs = calloc(row->attr_size + 1, 1);
    tp_apply_desc d;
    memset(&d, 0, sizeof d);
    for (int i = 0; i < c->n_in; i++) in[i] = case_input(g, c, i, openness, o);
    for (int i = 0; i < c->n_var; i++) {
        char name[16];
        snprintf(name, sizeof name, "v%d", i);
        var[i] = tp_get_variable_as(g, name, c->var[i].dtype, c->var[i].shape, tp_init_zeros());
    }
    d.row = row, d.in = in, d.n_in = c->n_in, d.attrs = attrs, d.vars = var, d.n_var = c->n_var;
    if (dice(4) == 0) d.name = "scope/op";
    tp_node *y = attrs && fill_attrs(c, row, false, attrs) ? tp_apply_ex(g, &d) : tp_poison(g);
    free(attrs);
    return y;
}

/* What follows an output: what is fused, folded or omitted. */
static tp_node *case_output(tp_node *y)
{
    tp_node *z = NULL;
    const int kind = dice(9);
    if (y->dtype != TP_F32) return kind == 0 ? tp_identity(y) : y;
    switch (kind) {
    case 0: return tp_relu(y);
    case 1: return tp_named(y, "y");
    case 2: return tp_affine(y, 0.5f, 0.25f);
    case 3: z = tp_square(y); return tp_add(y, z);
    case 4: return y->shape.ndim > 1 ? tp_transpose(y, NULL, 0) : tp_neg(y);
    case 5: return y->shape.ndim > 1 ? tp_batch_flatten(y) : y;
    default: return y;
    }
}

static uint64_t seen_case(uint64_t h, const op_case *c, const tp_op *row)
{
    operands o;
    memset(&o, 0, sizeof o);
    tp_graph *g = tp_graph_new(NULL), *other = tp_graph_new(NULL);
    if (!CHECK(g && other)) return h;
    const int openness = dice(3);
    tp_node *y = case_op(g, c, row, openness, &o);
    if (!tp_is_poison(y)) {
        tp_operation *op = y->op;
        const int only = dice(4) ? -1 : dice(op->n_out);
        for (int i = 0; i < op->n_out && o.n_out < MOST_NODES / 2; i++)
            if (only < 0 || only == i) o.out[o.n_out++] = case_output(&op->out[i]);
        if (dice(5) == 0) spoil(&o, other);
    }
    h = seen_int(seen_graph(h, g), tp_graph_status(g));
    h = seen_sentence(h, tp_graph_error(g), NULL);
    tp_session *s = tp_graph_status(g) == TP_OK ? open_seen(g) : NULL;
    if (s) {
        h = seen_c_of(h, s, &o);
        h = seen_onnx_of(h, s, &o);
    }
    tp_session_free(s);
    tp_graph_free(g);
    tp_graph_free(other);
    return h;
}

TEST(every_op_is_written_as_it_was)
{
    const char *wanted = getenv("TP_TEST_PRINT");
    case_list l = all_cases();
    begin_seen();
    for (int i = 0; i < l.n; i++) {
        const op_case *c = &l.item[i];
        const tp_op *row = tp_op_find(c->op);
        uint64_t h = 0;
        if (!CHECK_MSG(row != NULL, "no op %s", c->op)) continue;
        printing = wanted && strcmp(wanted, c->op) == 0;
        int64_t elements = 0;
        for (int k = 0; k < c->n_in; k++) elements += tp_tensor_size(&c->in[k]);
        for (int k = 0; k < VARIANTS && elements < 3000; k++) {
            dice_begin((uint64_t)i, (uint64_t)k);
            h = seen_case(h, c, row);
        }
        golden_digest(h);
    }
    printing = false;
    end_seen("ops");
    free_cases(&l);
}

/* ==== >>networks ======================================================================================= */

static int64_t weights_of(const tp_graph *g)
{
    int64_t n = 0;
    for (int i = 0; i < tp_graph_n_variables(g); i++) n += tp_shape_size(&tp_graph_variable(g, i)->shape);
    return n;
}

static void see_network(int batch, bool training)
{
    drawing n;
    operands o;
    uint64_t h = 0;
    memset(&n, 0, sizeof n);
    memset(&o, 0, sizeof o);
    (void)make_feeds; /* nothing is run */
    tp_node *cost = draw(&n, batch, training);
    if (training) add_training(&n, cost);
    h = seen_graph(h, n.g);
    h = seen_sentence(h, tp_graph_error(n.g), NULL);
    const int64_t weights = weights_of(n.g);
    tp_session *s = weights < 300000 && tp_graph_status(n.g) == TP_OK ? open_seen(n.g) : NULL;
    for (int k = 0; k < 3 && s; k++) {
        o.n_in = o.n_out = 0;
        o.in[o.n_in++] = n.x;
        if (k == 2) o.in[o.n_in++] = n.label;
        o.out[o.n_out++] = k == 2 ? cost : n.y;
        if (k == 1 && training) o.out[o.n_out++] = n.fetch[0];
        h = seen_onnx_of(h, s, &o);
        if (weights < 20000) h = seen_c_of(h, s, &o);
    }
    tp_session_free(s);
    golden_digest(h);
    tp_graph_free(n.g);
}

TEST(networks_are_written_as_they_were)
{
    begin_seen();
    seen_most = 4;
    for (seed = 1; seed <= NETWORKS; seed++)
        for (int k = 0; k < 4; k++) {
            dice_begin(seed, (uint64_t)k);
            see_network(k == 3 ? TP_ANY : 1 + k, k == 1);
        }
    seen_most = 256;
    end_seen("networks");
}

/* ==== >>exporter ======================================================================================= */

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
    tp_named(tp_cast(tp_greater(y, tp_relu(y)), TP_U8), "byte");
    tp_top_k(y, 2, NULL);
    return tp_named(tp_mean(tp_sparse_softmax_cross_entropy(y, in[1])), "cost");
}

/* The files of a folder that are expected there. */
static uint64_t seen_folder(uint64_t h, const char *dir)
{
    static const char *const names[] = {"config.pbtxt",    "1/model.onnx", "2/model.onnx",         "7/model.onnx",
                                        "../m.onnx/model", "../m.onnx",    "9999999999/model.onnx"};
    h = seen_int(h, tp_test_files_in(dir));
    for (int i = 0; i < TP_COUNT(names); i++) {
        char *data = NULL;
        size_t size = 0;
        const char *path = tp_test_path(dir, names[i]);
        if (!tp_file_exists(path) || tp_file_read(path, false, 0, &data, &size) != TP_OK) continue;
        h = seen_int(h, i);
        if (i == 0) h = seen_bytes(h, (const uint8_t *)data, size);
        else h = seen_onnx(h, data, size);
        tp_free(data);
    }
    return h;
}

static uint64_t seen_saved(uint64_t h, tp_status st, const char *dir)
{
    h = seen_int(h, st);
    if (printing) printf("  status %d: %s\n", (int)st, st == TP_OK ? "" : tp_last_error());
    return st == TP_OK ? h : seen_sentence(h, tp_last_error(), dir);
}

static uint64_t use_exporter(uint64_t h, tp_model_exporter *x, const char *dir)
{
    static const char *const tags[] = {"serve", "cpu \"fast\"", "a\\b\n", ""};
    static const char *const signatures[] = {NULL, NULL, "", "s", "quo\"te\x01"};
    static const char *const folders[] = {"model", "model", "model", "model/deep", "", "m.onnx"};
    static const int64_t versions[] = {0, 0, 1, 2, 7, -1, 9999999999};
    static const int batches[] = {0, 0, 0, 1, 8, -1, TP_NONE, INT_MAX};
    for (int k = 0; k < 3; k++) {
        tp_export_serving_desc d;
        tp_export_compact_desc c;
        memset(&d, 0, sizeof d);
        memset(&c, 0, sizeof c);
        const int first = dice(TP_COUNT(tags));
        d.tags = tags + first, d.n_tags = dice(TP_COUNT(tags) - first + 1);
        d.signature_name = signatures[dice(TP_COUNT(signatures))];
        d.version = versions[dice(TP_COUNT(versions))];
        d.max_batch_size = batches[dice(TP_COUNT(batches))];
        const char *folder = folders[dice(TP_COUNT(folders))];
        const char *path = *folder ? tp_test_path(dir, folder) : "";
        const bool bare = dice(6) == 0;
        h = seen_saved(h, tp_export_serving(x, path, bare ? NULL : &d), dir);
        if (*folder) h = seen_folder(h, path);
        c.optimize = dice(3) == 0 ? TP_NO : dice(2) ? TP_YES : TP_UNSET;
        c.toco_compatible = dice(3) == 0;
        h = seen_saved(h, tp_export_compact(x, tp_test_path(dir, "m.onnx"), bare ? NULL : &c), dir);
        h = seen_folder(h, tp_test_path(dir, "model"));
    }
    return seen_int(h, tp_test_files_in(dir));
}

static uint64_t seen_exporter(const char *dir)
{
    static const char *const outputs[] = {"prob",  "class",   "best",        "scalar", "byte", "cost",
                                          "image", "nothing", "conv/output", "TopKV2", "fc/W", "prob"};
    static const char *const inputs[] = {"image", "label", "nothing", "image"};
    tp_predict_config c;
    tp_spec spec[2];
    uint64_t h = 0;
    memset(&c, 0, sizeof c);
    memset(spec, 0, sizeof spec);
    const int64_t batch = dice(4) ? TP_ANY : dice(3), side = dice(6) ? 6 : TP_ANY;
    spec[0].name = "image", spec[0].dtype = TP_F32, spec[0].shape = tp_make_shape(batch, side, 6, 2);
    spec[1].name = "label", spec[1].dtype = TP_I32, spec[1].shape = tp_make_shape(batch);
    c.inputs = spec, c.n_inputs = 2;
    c.build_graph = classifier;
    const int first_in = dice(3) ? 0 : dice(TP_COUNT(inputs)), first_out = dice(TP_COUNT(outputs));
    c.input_names = dice(8) ? inputs + first_in : NULL;
    c.n_input_names = dice(4) ? 1 : dice(TP_COUNT(inputs) - first_in + 1);
    c.output_names = outputs + first_out;
    c.n_output_names = dice(2) ? 1 : dice(TP_COUNT(outputs) - first_out + 1);
    tp_model_exporter *x = tp_model_exporter_new(&c);
    h = seen_saved(h, x ? TP_OK : TP_ERR, dir);
    if (x) h = use_exporter(seen_graph(h, tp_session_graph(tp_model_exporter_session(x))), x, dir);
    tp_model_exporter_free(x);
    return h;
}

TEST(exporters_write_the_files_that_they_wrote)
{
    const char *dir = tp_test_tmpdir();
    begin_seen();
    printing = getenv("TP_TEST_PRINT") != NULL;
    for (int i = 0; i < EXPORTERS; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%d", dir, i);
        CHECK_OK(tp_make_dirs(path));
        dice_begin(77, (uint64_t)i);
        golden_digest(seen_exporter(path));
    }
    printing = false;
    end_seen("exporters");
}

TEST_MAIN()
