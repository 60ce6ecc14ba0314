/* What imports gave before, and what the exporters wrote of it: ONNX models that are right, almost right, and changed in each place
 * in turn. digests_import.txt has a digest of all that can be seen of each: sentences, graphs, files.
 *
 *     TP_TEST_WRITE=1 build/test/gcc-c11-test_import_seen    writes the digests anew, after a change that was meant
 *     TP_TEST_PRINT=add_bcast ...                            prints status, sentence and graph of a model with all its changes
 *
 * Constants are folded by the naive loops, whatever instruction set there is. */
#define TP_IMPLEMENTATION
#include "tp_import.h"

#include "tp_export.h"
#include "tp_test.h"

#include "op_cases.h"

#include "onnx_text.h"

#include "onnx_tree.h"

#include "onnx_change.h"

#include "golden.h"

#include "seen_models.h"

enum { SEEDS = 6000, MOST_VALUES = 16 };

static bool printing;
static int n_seen, n_accepted, n_onnx, n_c;

static void begin_seen(void)
{
    setenv("TP_ISA", "naive", 1);
    tp_set_log(tp_test_drop_log, NULL);
    n_seen = n_accepted = n_onnx = n_c = 0;
    plant();
}
static void end_seen(const char *section)
{
    uproot();
    tp_set_log(NULL, NULL);
    unsetenv("TP_ISA");
    printf("     %d models, %d accepted, %d written as ONNX, %d as C\n", n_seen, n_accepted, n_onnx, n_c);
    golden_compare("digests_import.txt", section);
}

/* A status and its sentence; a buffer that was written by then. */
static uint64_t seen_status(uint64_t h, tp_status st)
{
    if (printing) printf("  status %d: %s\n", (int)st, st == TP_OK ? "" : tp_last_error());
    return golden_hash(seen_int(h, st), st == TP_OK ? "" : tp_last_error());
}

/* What both exporters write of a model. */
static uint64_t seen_exports(uint64_t h, tp_graph *g, const tp_onnx_model *m, int kind)
{
    tp_node *in[MOST_VALUES], *out[MOST_VALUES];
    tp_buf text;
    tp_export_c_desc cd;
    tp_export_onnx_desc od;
    tp_export_c_info info;
    int n_in = 0;
    if (m->n_input > MOST_VALUES || m->n_output > MOST_VALUES) return h;
    tp_session_config c = tp_default_session_config();
    c.threads = 1;
    tp_session *s = tp_session_new(g, &c);
    if (!s) return seen_status(h, TP_ERR);
    for (int i = 0; i < m->n_input; i++)
        if (strcmp(m->input[i].node->op->row->name, "placeholder") == 0) in[n_in++] = m->input[i].node;
    for (int i = 0; i < m->n_output; i++) out[i] = m->output[i].node;
    memset(&text, 0, sizeof text);
    memset(&cd, 0, sizeof cd);
    memset(&od, 0, sizeof od);
    memset(&info, 0, sizeof info);
    cd.batch = kind % 3;
    tp_status st = tp_export_c_text(s, in, n_in, out, m->n_output, &text, &cd, &info);
    h = seen_status(h, st);
    n_c += st == TP_OK;
    if (st == TP_OK)
        h = seen_int(seen_int(seen_int(seen_c(h, text.data), (int64_t)info.ram), (int64_t)info.flash), info.kernels);
    tp_buf_free(&text);
    od.fold = kind % 2, od.keep_identities = kind / 2 % 2, od.opset = kind / 4 % 2 ? 17 : 0;
    st = tp_export_onnx_buf(s, in, n_in, out, m->n_output, &text, &od);
    h = seen_status(h, st);
    n_onnx += st == TP_OK;
    if (st == TP_OK) h = seen_onnx(h, text.data, text.len);
    tp_buf_free(&text);
    tp_session_free(s);
    return h;
}

/* All of an import; `kind` chooses options and what is written. */
static uint64_t seen_import(uint64_t h, const void *data, size_t size, int kind, bool exports)
{
    static const tp_onnx_dim dims[] = {{"batch", 3}, {"n", 2}, {"N", 4}, {"unused", 1}};
    tp_import_onnx_desc d;
    tp_onnx_model m;
    tp_graph *g = tp_graph_new(NULL);
    memset(&d, 0, sizeof d);
    if (!CHECK(g != NULL)) return h;
    d.trainable = kind % 5 == 1 ? TP_YES : TP_UNSET;
    d.max_work = kind % 7 == 2 ? 100 : 1e5;
    if (kind % 4 == 3) d.scope = "a/b";
    if (kind % 6 == 4) d.dims = dims, d.n_dims = TP_COUNT(dims);
    const tp_status st = tp_import_onnx_parse(g, data, size, "m.onnx", &d, &m);
    h = seen_status(h, st);
    n_seen++;
    if (st == TP_OK) {
        n_accepted++;
        h = seen_int(seen_int(h, m.n_input), m.n_output);
        for (int i = 0; i < m.n_input; i++) h = seen_int(golden_hash(h, m.input[i].name), m.input[i].node->op->id);
        for (int i = 0; i < m.n_output; i++) h = seen_int(golden_hash(h, m.output[i].name), m.output[i].node->op->id);
        h = seen_graph(h, g);
        if (exports) h = seen_exports(h, g, &m, kind);
    } else h = golden_hash(h, TP_TEST_SAID(tp_graph_error(g)));
    tp_graph_free(g);
    return h;
}
static uint64_t seen_tree(uint64_t h, const part *root, int kind)
{
    bytes b = {NULL, 0, 0};
    write_message(&b, root);
    h = seen_import(h, b.data, b.size, kind, false);
    free(b.data);
    return h;
}

TEST(models_give_what_they_gave)
{
    begin_seen();
    for (int i = 0; i < n_seeds; i++) {
        uint64_t h = 0;
        for (int kind = 0; kind < 8; kind++)
            h = seen_import(h, seeds[i].model, seeds[i].size, kind + 8 * (i % 15), kind % 2 == i % 2);
        golden_digest(h);
    }
    end_seen("models");
}

TEST(models_that_are_almost_right_give_what_they_gave)
{
    uint64_t h = 0;
    begin_seen();
    for (int seed = 1; seed <= SEEDS; seed++) {
        bytes b = case_of_seed((uint64_t)seed + 1000000);
        h = seen_import(h, b.data, b.size, seed, seed % 2 == 0);
        free(b.data);
        if (seed % 3 == 0) golden_digest(h), h = 0;
    }
    end_seen("almost right");
}

/* ==== >>each place in turn ============================================================================== */

static part *model; /* the tree that is being changed; the next functions leave it as it was */
static uint64_t seen;
static int n_changes;
static void look(void) { seen = seen_tree(seen, model, n_changes++); }

static void with_number(part *p, uint64_t v)
{
    const uint64_t before = p->v;
    p->v = v;
    if (v != before) look();
    p->v = before;
}
static void with_text(part *p, const char *text)
{
    uint8_t *const before = p->bytes;
    const size_t size = p->size;
    p->bytes = NULL;
    set_text(p, text);
    look();
    free(p->bytes);
    p->bytes = before, p->size = size;
}
static void without(part *in, int at)
{
    part *p = in->sub[at];
    memmove(in->sub + at, in->sub + at + 1, (size_t)(in->n_sub - at - 1) * sizeof *in->sub);
    in->n_sub--;
    look();
    in->n_sub++;
    memmove(in->sub + at + 1, in->sub + at, (size_t)(in->n_sub - at - 1) * sizeof *in->sub);
    in->sub[at] = p;
}
static void doubled(part *in, int at)
{
    insert(in, at, copy(in->sub[at]));
    look();
    drop(in, at);
}

/* whole numbers packed into a leaf: those of a list, an int64 tensor */
static void with_packed(part *p, size_t width)
{
    for (size_t i = 0; i + width <= p->size && i < 6 * width; i += width) {
        uint8_t before[8];
        memcpy(before, p->bytes + i, width);
        for (int k = 0; k < 4; k++) {
            int64_t v = 0;
            for (size_t b = width; b > 0; b--) v = (int64_t)((uint64_t)v << 8 | before[b - 1]);
            v = k == 0 ? v + 1 : k == 1 ? v - 1 : k == 2 ? 0 : -v;
            for (size_t b = 0; b < width; b++) p->bytes[i + b] = (uint8_t)((uint64_t)v >> (8 * b));
            look();
            memcpy(p->bytes + i, before, width);
        }
    }
}

static void change_attributes(part *in)
{
    static const char *const texts[] = {"", "x", "linear", "SAME_UPPER", "VALID", "max", "none", "reflect"};
    for (int i = 0; i < in->n_sub; i++) {
        part *p = in->sub[i];
        if (in->kind == ATTR && p->kind == LEAF && p->field != 20) {
            if (p->wire == 0) {
                with_number(p, p->v - 1);
                with_number(p, p->v + 1);
                with_number(p, 0);
                with_number(p, (uint64_t)1 << 31);
                with_number(p, (uint64_t)-5);
            } else if (p->wire == 5) {
                static const uint32_t floats[] = {0, 0xbf800000u, 0x7fc00000u, 0x7f800000u, 0x3f000000u, 0x40400000u};
                for (int k = 0; k < TP_COUNT(floats); k++) with_number(p, floats[k]);
            } else if (p->wire == 2) {
                for (int k = 0; k < TP_COUNT(texts); k++) with_text(p, texts[k]);
                if (p->field == 8) with_packed(p, 1);
            }
            if (p->field == 8 || p->field == 7) doubled(in, i), without(in, i);
        } else if (in->kind == NODE && p->kind == ATTR) without(in, i);
        if (p->kind == GRAPH || p->kind == NODE || p->kind == ATTR) change_attributes(p);
    }
}

/* Names of inputs and outputs of nodes, and what the graph takes and gives. */
static void change_operands(part *in)
{
    for (int i = 0; i < in->n_sub; i++) {
        part *p = in->sub[i];
        if (in->kind == NODE && p->kind == LEAF && p->wire == 2 && (p->field == 1 || p->field == 2)) {
            without(in, i);
            doubled(in, i);
            with_text(p, "");
            for (int k = 0; k < in->n_sub && p->field == 1; k++)
                if (k != i && in->sub[k]->field == 1 && in->sub[k]->kind == LEAF) {
                    in->sub[i] = in->sub[k], in->sub[k] = p; /* two inputs change places */
                    look();
                    in->sub[k] = in->sub[i], in->sub[i] = p;
                }
        } else if (p->kind == VALUE || p->kind == TENSOR || p->kind == NODE) {
            if (in->kind == GRAPH) without(in, i), doubled(in, i);
        }
        if (p->kind == GRAPH || p->kind == NODE) change_operands(p);
    }
}

static void change_types(part *in)
{
    for (int i = 0; i < in->n_sub; i++) {
        part *p = in->sub[i];
        if (in->kind == DIM && p->wire == 0) {
            for (uint64_t v = 0; v < 2; v++) with_number(p, v);
            with_number(p, p->v + 1);
            with_number(p, p->v - 1);
            p->field = 3; /* nothing: the dimension is unknown */
            look();
            p->field = 1;
        } else if (in->kind == SHAPE) doubled(in, i), without(in, i);
        else if (in->kind == TENSOR_TYPE && p->wire == 0)
            for (uint64_t v = 0; v < 18; v++) with_number(p, v);
        else if (in->kind == TENSOR && p->wire == 0)
            for (uint64_t v = 0; v < 9; v++) with_number(p, v);
        else if (in->kind == TENSOR && p->wire == 2 && (p->field == 9 || p->field == 7))
            with_packed(p, p->field == 9 && seen_elem(in) == 7 ? 8 : 1);
        if (p->kind != LEAF) change_types(p);
    }
}

/* All dimensions unknown, then each opset. */
static void open_dimensions(part *in, bool open)
{
    for (int i = 0; i < in->n_sub; i++) {
        if (in->kind == DIM && in->sub[i]->wire == 0) in->sub[i]->field = open ? 3 : 1;
        if (in->sub[i]->kind != LEAF) open_dimensions(in->sub[i], open);
    }
}
static void change_opset(part *in)
{
    for (int i = 0; i < in->n_sub; i++)
        if (in->kind == OPSET && in->sub[i]->field == 2)
            for (uint64_t v = 0; v <= 26; v++) with_number(in->sub[i], v);
        else if (in->sub[i]->kind == OPSET) change_opset(in->sub[i]);
}
static void change_rest(part *in)
{
    open_dimensions(in, true);
    look();
    change_opset(in);
    open_dimensions(in, false);
    change_opset(in);
}

static void change_all(const char *section, void (*change_each)(part *in))
{
    const char *wanted = getenv("TP_TEST_PRINT");
    begin_seen();
    for (int i = 0; i < n_seeds; i++) {
        if (wanted && strcmp(seeds[i].name, wanted) != 0) continue;
        printing = wanted != NULL;
        model = grown[i];
        seen = 0;
        n_changes = i;
        change_each(model);
        golden_digest(seen);
    }
    printing = false;
    if (!wanted) end_seen(section);
}

TEST(models_with_other_attributes_give_what_they_gave) { change_all("attributes", change_attributes); }
TEST(models_with_other_operands_give_what_they_gave) { change_all("operands", change_operands); }
TEST(models_with_other_types_give_what_they_gave) { change_all("types", change_types); }
TEST(models_of_other_opsets_give_what_they_gave) { change_all("opsets", change_rest); }

TEST_MAIN()
