/* What each row says to the shapes and element types it is given: the types of its outputs, or a sentence. The rules are those
 * of the pages of tp_graph.h; "?" is a dimension that is not known. */
#define TP_IMPLEMENTATION
#include "tp_graph.h"
#include "tp_test.h"
#include "op_cases.h"

/* A row, its attributes ("axis 1;n 3"), its inputs and, behind a bar, the variables it writes; then the outputs, or the
 * sentence behind "!". */
typedef struct rule {
    const char *row, *attrs, *in, *out;
} rule;

static const char *const short_name[TP_DTYPE_COUNT] = {NULL, "f32", "f64", "f16", "bf16", "i32", "i64", "u8", "bool"};

/* "f32(2,?)" at *p; false at the end of the list. */
static bool read_type(const char **p, tp_dtype *dtype, tp_shape *s)
{
    const char *q = *p;
    while (*q == ' ') q++;
    *dtype = TP_DTYPE_UNSET;
    if (*q == 0 || *q == '|') return false;
    for (int d = 1; d < (int)TP_DTYPE_COUNT; d++) {
        const size_t n = strlen(short_name[d]);
        if (strncmp(q, short_name[d], n) == 0 && q[n] == '(') {
            *dtype = (tp_dtype)d;
            q += n;
            break;
        }
    }
    memset(s, 0, sizeof *s);
    if (!CHECK_MSG(*q == '(', "no type at '%s'", *p)) return false;
    for (q++; *q && *q != ')';) {
        char *end;
        if (*q == '?') s->dim[s->ndim++] = TP_ANY, q++;
        else s->dim[s->ndim++] = strtoll(q, &end, 10), q = end;
        if (*q == ',') q++;
    }
    *p = q + 1;
    return true;
}

static void write_type(const tp_node *n, char *text, size_t size)
{
    char t[TP_SHAPE_TEXT];
    snprintf(text + strlen(text), size - strlen(text), "%s%s%s", *text ? " " : "", short_name[n->dtype],
             tp_shape_text(&n->shape, t));
}

static void read_attrs(op_case *c, const char *row, const char *attrs)
{
    char text[512];
    memset(c, 0, sizeof *c);
    c->file = "test_op_rules.c";
    snprintf(c->op, sizeof c->op, "%s", row);
    snprintf(text, sizeof text, "%s", attrs);
    for (char *a = text; *a;) {
        char *end = strchr(a, ';');
        if (end) *end = 0;
        snprintf(c->attr[c->n_attr++], sizeof c->attr[0], "%.250s", a);
        a = end ? end + 1 : a + strlen(a);
    }
}

/* What the graph says where the table has this sentence: one that begins with the row's name begins with its label instead, since
 * the operation has no name of its own ("Add: shapes .."), so that it is not named twice. */
static const char *said(const tp_op *row, const char *sentence, char *out, size_t size)
{
    const size_t n = strlen(row->name);
    const bool begins = strncmp(sentence, row->name, n) == 0 && (sentence[n] == ':' || sentence[n] == ' ');
    snprintf(out, size, "%s%s", begins ? row->label ? row->label : row->name : "", sentence + (begins ? n : 0));
    return out;
}

static void check_rule(const rule *r)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *in[MAX_VALUES], *var[MAX_VALUES];
    tp_dtype dtype;
    tp_shape s;
    int n_in = 0, n_var = 0;
    char name[16], got[2048] = "", want[2048];
    op_case c;
    read_attrs(&c, r->row, r->attrs);
    const char *p = r->in;
    for (; read_type(&p, &dtype, &s); n_in++) {
        snprintf(name, sizeof name, "x%d", n_in);
        in[n_in] = tp_placeholder(g, name, dtype, s);
    }
    while (*p == ' ' || *p == '|') p++;
    for (; read_type(&p, &dtype, &s); n_var++) {
        snprintf(name, sizeof name, "v%d", n_var);
        var[n_var] = tp_get_variable_as(g, name, dtype, s, tp_init_zeros());
    }
    const tp_op *row = tp_op_find(r->row);
    if (CHECK_MSG(row != NULL, "there is no row '%s'", r->row) &&
        CHECK_MSG(tp_graph_status(g) == TP_OK, "%s %s: %s", r->row, r->in, tp_graph_error(g))) {
        void *attrs = calloc(row->attr_size + 1, 1);
        if (attrs && fill_attrs(&c, row, false, attrs)) {
            tp_apply_desc d;
            memset(&d, 0, sizeof d);
            d.row = row;
            d.in = in;
            d.n_in = n_in;
            d.attrs = attrs;
            d.vars = var;
            d.n_var = n_var;
            const tp_node *y = tp_apply_ex(g, &d);
            if (r->out[0] == '!') {
                CHECK_MSG(tp_is_poison(y) && tp_graph_status(g) != TP_OK, "%s %s %s: no mistake", r->row, r->attrs,
                          r->in);
                CHECK_HAS(tp_graph_error(g), said(d.row, r->out + 1, want, sizeof want));
            } else if (CHECK_MSG(!tp_is_poison(y), "%s %s %s: %s", r->row, r->attrs, r->in, tp_graph_error(g))) {
                for (int i = 0; i < y->op->n_out; i++) write_type(&y->op->out[i], got, sizeof got);
                CHECK_MSG(strcmp(got, r->out) == 0, "%s %s %s: %s, expected %s", r->row, r->attrs, r->in, got, r->out);
            }
        }
        free(attrs);
    }
    tp_graph_free(g);
}

static void check_rules(const rule *r, int n)
{
    for (int i = 0; i < n; i++) check_rule(&r[i]);
}
/* clang-format off */
static const rule elementwise[] = {
    {"add", "", "f32(2,3) f32(3)", "f32(2,3)"},
    {"add", "", "f32(?,3) f32(2,1)", "f32(2,3)"},
    {"add", "", "f32(?,1) f32(1,?)", "f32(?,?)"},
    {"add", "", "i32(0,3) i32(1,3)", "i32(0,3)"},
    {"add", "", "f16() f16(2,0)", "f16(2,0)"},
    {"add", "", "f32(2,3) f32(2)", "!add: shapes (2,3) and (2) do not broadcast"},
    {"add", "", "f32(2) i32(2)", "!add: element types float32 and int32 differ; tp_cast one of them"},
    {"add", "", "u8(2) u8(2)", "!add does not work on uint8; tp_cast it first"},
    {"add", "", "bool(2) bool(2)", "!add does not work on bool; tp_cast it first"},
    {"div", "", "i64(2) i64(2)", "!div does not work on int64; tp_cast it first"},
    {"pow", "", "i32(2) i32(2)", "!pow does not work on int32; tp_cast it first"},
    {"floordiv", "", "i64(2) i64()", "i64(2)"},
    {"greater", "", "f64(2,1) f64(3)", "bool(2,3)"},
    {"equal", "", "u8(2) u8(2)", "!equal does not work on uint8"},
    {"is_finite", "", "f16(?)", "bool(?)"},
    {"is_finite", "", "i32(2)", "!is_finite does not work on int32"},
    {"logical_and", "", "bool(2,1) bool(3)", "bool(2,3)"},
    {"logical_and", "", "bool(2) f32(2)", "!logical_and takes bool, input 1 is float32; compare it with something first"},
    {"logical_not", "", "u8(2)", "!logical_not takes bool, input 0 is uint8; compare it with something first"},
    {"select", "", "bool(3) f32(2,1) f32(2,3)", "f32(2,3)"},
    {"select", "", "bool() i64(2) i64()", "i64(2)"},
    {"select", "", "f32(2) f32(2) f32(2)", "!the condition is float32, not bool; compare it with something first"},
    {"select", "", "bool(2) f32(2) f64(2)", "!element types float32 and float64 differ; tp_cast one of them"},
    {"select", "", "bool(2) u8(2) u8(2)", "!select does not work on uint8; tp_select takes the row that does"},
    {"select", "", "bool(2) bool(2) bool(2)", "!select does not work on bool; tp_select takes the row that does"},
    {"select_bytes", "", "bool(2) u8(2) u8(2)", "u8(2)"},
    {"select_bytes", "", "bool(2) bool(2) bool()", "bool(2)"},
    {"select_bytes", "", "bool(2) f32(2) f32(2)", "!select_bytes does not work on float32; tp_select takes the row that does"},
    {"affine", "scale 2;offset -3", "i32(2)", "i32(2)"},
    {"affine", "scale 0.5", "i32(2)", "!x is int32, so scale 0.5 and offset 0 must be whole numbers"},
    {"affine", "scale 1;offset 0.25", "i64(2)", "!x is int64, so scale 1 and offset 0.25 must be whole numbers"},
    {"affine", "scale 2147483648", "i64(2)", "!x is int64, so scale 2.14748e+09 and offset 0 must be whole numbers"},
    {"affine", "scale -2147483648", "i64(2)", "!must be whole numbers"},
    {"affine", "scale 2147483520", "i64(2)", "i64(2)"},
    {"affine", "scale 0.5", "f32(2)", "f32(2)"},
    {"clip", "low -1;high -1", "f32(2)", "f32(2)"},
    {"clip", "low 2;high 1", "i32(2)", "!low 2 is above high 1"},
    {"clip", "low nan;high 1", "f32(2)", "!low nan is above high 1"},
    {"clip", "low 0.25;high 1", "i64(2)", "i64(2)"},
    {"clip", "low 0.25;high 0.75", "f32(2)", "f32(2)"},
    {"clip", "low 0.25;high 0.75", "i32(2)", "!x is int32, and no whole number is between low 0.25 and high 0.75"},
    {"cast", "from float32;to uint8", "f32(2,?)", "u8(2,?)"},
    {"cast", "from float64;to uint8", "f32(2)", "!the input is float32, the attribute `from` says float64"},
    {"cast", "from float32", "f32(2)", "!cast to no element type"},
};
TEST(rules_of_elementwise) { check_rules(elementwise, (int)TP_COUNT(elementwise)); }

static const rule reductions[] = {
    {"reduce_sum", "axes 0;n_axes 1", "f32(2,3)", "f32(3)"},
    {"reduce_sum", "axes -1 0;n_axes 2;keep_dims 1", "f32(2,?,0)", "f32(1,?,1)"},
    {"reduce_sum", "", "i64(?,3)", "i64()"},
    {"reduce_sum", "keep_dims 1", "f32(2,3)", "f32(1,1)"},
    {"reduce_sum", "", "f32()", "f32()"},
    {"reduce_sum", "axes 2;n_axes 1", "f32(2,3)", "!axis 2 does not exist in shape (2,3)"},
    {"reduce_sum", "axes -3;n_axes 1", "f32(2,3)", "!axis -3 does not exist in shape (2,3)"},
    {"reduce_sum", "axes 1 -1;n_axes 2", "f32(2,3)", "!an axis is given twice for shape (2,3)"},
    {"reduce_sum", "n_axes 9", "f32(2,3)", "!9 axes to reduce; a shape has at most 8"},
    {"reduce_sum", "n_axes -1", "f32(2,3)", "!-1 axes to reduce; a shape has at most 8"},
    {"reduce_sum", "axes 0 1 2 3 4 5 6 7;n_axes 8", "f32(1,2,1,2,1,2,1,2)", "f32()"},
    {"reduce_sum", "", "bool(2)", "!reduce_sum does not work on bool; tp_cast it first"},
    {"reduce_prod", "", "u8(2)", "!reduce_prod does not work on uint8; tp_cast it first"},
    {"reduce_max", "axes 0;n_axes 1", "bf16(2,3)", "bf16(3)"},
    {"reduce_mean", "", "i32(2)", "!reduce_mean does not work on int32; tp_cast it first"},
    {"reduce_prod_grad", "axes 0;n_axes 1", "f32(2,3) f32(3)", "f32(2,3)"},
    {"reduce_prod_grad", "axes 0;n_axes 1", "f32(2,?) f32(3)", "f32(2,?)"},
    {"reduce_prod_grad", "axes 0;n_axes 1", "f32(2,3) f32(2)", "!dy is float32 (2), it should be float32 (3)"},
    {"reduce_prod_grad", "axes 0;n_axes 1", "f32(2,3) f64(3)", "!dy is float64 (3), it should be float32 (3)"},
    {"reduce_prod_grad", "axes 4;n_axes 1", "f32(2,3) f32(3)", "!axis 4 does not exist in shape (2,3)"},
    {"reduce_prod_grad", "", "i32(2,3) i32()", "!reduce_prod_grad does not work on int32; tp_cast it first"},
    {"reduce_all", "axes 1;n_axes 1", "bool(2,3)", "bool(2)"},
    {"reduce_any", "", "f32(2)", "!reduce_any takes bool, not float32; compare it with something first"},
    {"size_ratio", "", "f64(?,3) f64(3)", "f64()"},
    {"size_ratio", "", "f16(?,3) f16(3)", "f32()"},
    {"size_ratio", "", "i32(2) i32(2)", "!size_ratio does not work on int32"},
    {"sum_to_like", "", "f32(2,3) i32(3)", "!sum_to_like does not work on int32"},
    {"sum_to_like", "", "f32(2,3) f32(1,3)", "f32(1,3)"},
    {"sum_to_like", "", "f32(?,3) f32(?)", "f32(?)"},
    {"sum_to_like", "", "f32(2,3) f32(2)", "!shape (2,3) cannot be summed to (2), which does not broadcast to it"},
    {"sum_to_like", "", "f32(3) f32(1,3)", "!shape (3) cannot be summed to (1,3), which does not broadcast to it"},
    {"sum_to_like", "", "f32(0,3) f32(2,3)", "!shape (0,3) cannot be summed to (2,3)"},
    {"sum_to_like", "", "f32(2,3) f32(0,3)", "!shape (2,3) cannot be summed to (0,3)"},
    {"broadcast_like", "", "bool(3) f32(2,3)", "bool(2,3)"},
    {"broadcast_like", "", "f32(2) f32(2,3)", "!shape (2) does not broadcast to (2,3)"},
    {"broadcast_like", "", "f32(0) f32(2)", "!shape (0) does not broadcast to (2)"},
    {"add_n", "", "f32(2,?) f32(?,3) f32(2,3)", "f32(2,3)"},
    {"add_n", "", "i64(2)", "i64(2)"},
    {"add_n", "", "u8(2) u8(2)", "!add_n does not work on uint8; tp_cast it first"},
    {"add_n", "", "bool(2)", "!add_n does not work on bool; tp_cast it first"},
    {"add_n", "", "f32(2,3) f32(3)", "!input 0 is float32 (2,3), input 1 is float32 (3); add_n does not broadcast"},
    {"add_n", "", "f32(2) f32(2) f64(2)", "!input 0 is float32 (2), input 2 is float64 (2); add_n does not broadcast"},
    {"all_reduce", "", "f32(2,?) f32(?,3)", "f32(2,3) f32(2,3)"},
    {"all_reduce", "mean 1", "f16(2)", "f16(2)"},
    {"all_reduce", "", "i32(2) i32(2)", "i32(2) i32(2)"},
    {"all_reduce", "mean 1", "i32(2) i32(2)", "!all_reduce: there is no mean of int32; tp_cast it first"},
    {"all_reduce", "", "f32(2) f32(3)", "!input 0 is float32 (2), input 1 is float32 (3); all_reduce does not broadcast"},
    {"l2_loss", "", "f64(2,3)", "f64()"},
    {"l2_loss", "", "i32(2)", "!l2_loss does not work on int32"},
    {"global_norm", "", "f16(2) f32(3,4) bf16()", "f32()"},
    {"global_norm", "", "f64(2) f64(?)", "f64()"},
    {"global_norm", "", "f32(2) f64(2)", "!input 0 is float32, input 1 is float64; tp_cast one of them"},
    {"global_norm", "", "f64(2) f64(3) f16(2)", "!input 0 is float64, input 2 is float16; tp_cast one of them"},
    {"global_norm", "", "f32(2) i32(2)", "!global_norm does not work on int32"},
    {"zero_fraction", "", "f32(2,3)", "f32()"},
    {"zero_fraction", "", "bool(2)", "!zero_fraction does not work on bool"},
    {"argmax", "axis -1", "i32(2,?)", "i64(2)"},
    {"argmax", "axis 0", "f16(?,3,4)", "i64(3,4)"},
    {"argmax", "axis 1", "f32(2)", "!axis 1 does not exist in shape (2)"},
    {"argmax", "axis 0", "u8(2)", "!argmax does not work on uint8; tp_cast it first"},
    {"argmax", "axis 0", "bool(2)", "!argmax does not work on bool; tp_cast it first"},
    {"argmax", "axis 1", "f32(2,0)", "!axis 1 is empty, so it has no largest"},
    {"argmax", "axis 0", "f32(2,0)", "i64(0)"},
    {"cumsum", "axis -1", "i64(2,?)", "i64(2,?)"},
    {"cumsum", "axis 2", "f32(2,3)", "!axis 2 does not exist in shape (2,3)"},
    {"cumsum", "axis 0", "u8(3)", "!cumsum does not work on uint8; tp_cast it first"},
    {"cumsum", "axis 0", "bool(3)", "!cumsum does not work on bool; tp_cast it first"},
    {"top_k", "k 3", "f32(2,3)", "f32(2,3) i32(2,3)"},
    {"top_k", "k 9", "f64(2,?)", "f64(2,9) i32(2,9)"},
    {"top_k", "k 4", "f32(2,3)", "!the 4 largest of the last axis of shape (2,3) do not exist"},
    {"top_k", "k 0", "f32(2,3)", "!the 0 largest of the last axis of shape (2,3) do not exist"},
    {"top_k", "k 1", "f32()", "!the 1 largest of the last axis of shape () do not exist"},
    {"top_k", "k 1", "f32(2,0)", "!the 1 largest of the last axis of shape (2,0) do not exist"},
    {"top_k", "k 1", "i32(3)", "!top_k does not work on int32"},
    {"take_last", "", "f32(2,3) i32(2,5)", "f32(2,5)"},
    {"take_last", "", "f32(?,3) i32(2,1)", "f32(2,1)"},
    {"take_last", "", "f32(2,3) i64(2,1)", "!x is float32 and index int64; they should be floating and int32"},
    {"take_last", "", "i32(2,3) i32(2,1)", "!x is int32 and index int32; they should be floating and int32"},
    {"take_last", "", "f32(2,3) i32(3,1)", "!x is (2,3) and index (3,1); they may differ in the last dimension only"},
    {"take_last", "", "f32() i32()", "!x is () and index (); they may differ in the last dimension only"},
    {"take_last", "", "f32(3) i32()", "!x is (3) and index (); they may differ in the last dimension only"},
    {"put_last", "", "f32(2,3) i32(2,3) f32(2,7)", "f32(2,7)"},
    {"put_last", "", "f32(?,3) i32(2,?) f32(2,7)", "f32(2,7)"},
    {"put_last", "", "f32(2,5) i32(2,3) f32(2,7)", "!x is (2,5) and index (2,3); they should have the same shape"},
    {"put_last", "", "f32(2,3) i32(2,5) f32(2,7)", "!x is (2,3) and index (2,5); they should have the same shape"},
    {"put_last", "", "f32(2,3) i32(2,3) f32(1,7)", "!x is (2,3) and ref (1,7); they may differ in the last dimension only"},
    {"put_last", "", "f32(3) i32(3) f32()", "!x is (3) and ref (); they may differ in the last dimension only"},
    {"in_top_k", "k 1", "f32(2,5) i32(2)", "bool(2)"},
    {"in_top_k", "k 1", "f32(2,5) i64(?)", "bool(2)"},
    {"in_top_k", "k 1", "f16(?,5) i64(2)", "bool(2)"},
    {"in_top_k", "k 1", "f32(2,5) f32(2)", "!logits are float32 and labels float32; they should be floating and int32 or int64"},
    {"in_top_k", "k 1", "i32(2,5) i32(2)", "!logits are int32 and labels int32; they should be floating and int32 or int64"},
    {"in_top_k", "k 1", "f32(2,5) i32(3)", "!logits are (2,5) and labels (3); they should be (B,C) and (B)"},
    {"in_top_k", "k 1", "f32(0,5) i32(3)", "!logits are (0,5) and labels (3); they should be (B,C) and (B)"},
    {"in_top_k", "k 1", "f32(3,5) i32(0)", "!logits are (3,5) and labels (0); they should be (B,C) and (B)"},
    {"in_top_k", "k 1", "f32(2) i32(2)", "!logits are (2) and labels (2); they should be (B,C) and (B)"},
    {"in_top_k", "k 1", "f32(2,5) i32(2,1)", "!logits are (2,5) and labels (2,1); they should be (B,C) and (B)"},
};
TEST(rules_of_reductions) { check_rules(reductions, (int)TP_COUNT(reductions)); }

static const rule shapes[] = {
    {"reshape", "shape 2 3 -1", "f32(2,6)", "f32(3,4)"},
    {"reshape", "shape 2 3 -1", "f32(?,6)", "f32(3,?)"},
    {"reshape", "shape 1 12", "u8(2,6)", "u8(12)"},
    {"reshape", "shape 0", "f32(1,1)", "f32()"},
    {"reshape", "shape 2 0 5", "f32(3,0)", "f32(0,5)"},
    {"reshape", "shape 2 -1 4", "f32(3,0)", "f32(0,4)"},
    {"reshape", "shape 2 -1 0", "f32(3,0)", "!shape (3,0) has 0 elements, which do not make (?,0)"},
    {"reshape", "shape 2 5 -1", "f32(2,6)", "!shape (2,6) has 12 elements, which do not make (5,?)"},
    {"reshape", "shape 1 11", "f32(2,6)", "!shape (2,6) has 12 elements, which do not make (11)"},
    {"reshape", "shape 2 -1 -1", "f32(2,6)", "!the new shape (?,?) has two unknown dimensions: tp_reshape_like(x, y) takes y's shape"},
    {"reshape", "shape 9", "f32(2,6)", "!the new shape has more than 8 dimensions"},
    {"reshape", "shape -1", "f32(2,6)", "!the new shape has more than 8 dimensions"},
    {"reshape", "shape 3 4294967296 4294967296 -1", "f32(2,6)", "!the new shape (4294967296,4294967296,?) is too large"},
    {"reshape", "shape 8 1 1 1 1 1 1 1 1", "f32()", "f32(1,1,1,1,1,1,1,1)"},
    {"reshape_like", "", "f32(2,6) i32(3,4)", "f32(3,4)"},
    {"reshape_like", "", "f32(?,6) i32(3,4)", "f32(3,4)"},
    {"reshape_like", "", "f32(2,6) i32(3,?)", "f32(3,?)"},
    {"reshape_like", "", "f32(2,6) i32(3,5)", "!shape (2,6) has 12 elements, (3,5) has 15"},
    {"reshape_like", "", "f32(0) i32(3)", "!shape (0) has 0 elements, (3) has 3"},
    {"reshape_like", "", "f32(3) i32(0)", "!shape (3) has 3 elements, (0) has 0"},
    {"batch_flatten", "", "f32(?,2,3)", "f32(?,6)"},
    {"batch_flatten", "", "f32(4)", "f32(4,1)"},
    {"batch_flatten", "", "f32(4,?,2)", "f32(4,?)"},
    {"batch_flatten", "", "f32(4,0,2)", "f32(4,0)"},
    {"batch_flatten", "", "f32()", "!a scalar has no batch dimension"},
    {"expand_dims", "axis 0", "f32(2,3)", "f32(1,2,3)"},
    {"expand_dims", "axis 2", "bool(2,3)", "bool(2,3,1)"},
    {"expand_dims", "axis -3", "f32(2,3)", "f32(1,2,3)"},
    {"expand_dims", "axis 3", "f32(2,3)", "!there is no place 3 for a new dimension in shape (2,3)"},
    {"expand_dims", "axis -4", "f32(2,3)", "!there is no place -4 for a new dimension in shape (2,3)"},
    {"expand_dims", "axis 0", "f32(1,2,3,4,5,6,7,8)", "!shape (1,2,3,4,5,6,7,8) has 8 dimensions, which is the most"},
    {"squeeze", "axis -1", "f32(2,1)", "f32(2)"},
    {"squeeze", "axis 0", "f32(?,2)", "f32(2)"},
    {"squeeze", "axis 1", "f32(2,3)", "!dimension 1 of shape (2,3) is not 1, so it cannot be taken away"},
    {"squeeze", "axis 0", "f32(0,3)", "!dimension 0 of shape (0,3) is not 1, so it cannot be taken away"},
    {"squeeze", "axis 2", "f32(2,3)", "!axis 2 does not exist in shape (2,3)"},
    {"identity", "", "bool(2,?)", "bool(2,?)"},
    {"stop_gradient", "", "u8(2)", "u8(2)"},
    {"fill_like", "value 2", "u8(2,?)", "u8(2,?)"},
    {"print", "", "bool(2)", "bool(2)"},
    {"check_numerics", "", "f16(2)", "f16(2)"},
    {"check_numerics", "", "i32(2)", "!check_numerics does not work on int32"},
    {"transpose", "", "f32(2,?,4)", "f32(4,?,2)"},
    {"transpose", "perm 1 -1 0;n 3", "f32(2,3,4)", "f32(3,4,2)"},
    {"transpose", "perm 1 0;n 2", "f32(2,3,4)", "!perm is no permutation of the 3 axes of shape (2,3,4)"},
    {"transpose", "perm 2 1;n 2", "f32(2,3,4)", "!perm is no permutation of the 3 axes of shape (2,3,4)"},
    {"transpose", "perm 0 0 1;n 3", "f32(2,3,4)", "!perm is no permutation of the 3 axes of shape (2,3,4)"},
    {"transpose", "perm 0 3 1;n 3", "f32(2,3,4)", "!perm is no permutation of the 3 axes of shape (2,3,4)"},
    {"reverse", "axes 1;n_axes 1", "u8(2,?)", "u8(2,?)"},
    {"reverse", "axes 2;n_axes 1", "u8(2,3)", "!axis 2 does not exist in shape (2,3)"},
    {"concat", "axis 1", "f32(2,3) f32(?,4)", "f32(2,7)"},
    {"concat", "axis 1", "f32(?,3) f32(2,4)", "f32(2,7)"},
    {"concat", "axis -1", "f32(2,3) f32(2,?) f32(2,1)", "f32(2,?)"},
    {"concat", "axis 0", "bool(0,3) bool(0,3)", "bool(0,3)"},
    {"concat", "axis 0", "i32(2)", "i32(2)"},
    {"concat", "axis 2", "f32(2,3) f32(2,4)", "!axis 2 does not exist in shape (2,3)"},
    {"concat", "axis 0", "f32(2,3) f64(2,3)", "!input 0 is float32, input 1 is float64; tp_cast one of them"},
    {"concat", "axis 0", "f32(2,3) f32(2,3) i32(2,3)", "!input 0 is float32, input 2 is int32; tp_cast one of them"},
    {"concat", "axis 1", "f32(2,3) f32(2,3) f32(3,3)", "!input 0 is (2,3), input 2 is (3,3); they may differ along axis 1 only"},
    {"concat", "axis 1", "f32(2,3) f32(2)", "!input 0 is (2,3), input 1 is (2); they may differ along axis 1 only"},
    {"concat_grad", "axis 1", "f32(2,7) f32(2,3) f32(2,4)", "f32(2,3) f32(2,4)"},
    {"concat_grad", "axis 1", "f32(2,7) f32(?,3) f32(?,4)", "f32(2,3) f32(2,4)"},
    {"concat_grad", "axis 1", "f32(2,?) f32(2,3) f32(2,9)", "f32(2,3) f32(2,9)"},
    {"concat_grad", "axis 1", "f32(2,7) f32(2,?) f32(2,9)", "f32(2,?) f32(2,9)"},
    {"concat_grad", "axis 1", "f32(2,0) f32(2,0) f32(2,0)", "f32(2,0) f32(2,0)"},
    {"concat_grad", "axis 1", "f32(2,7) f32(2,3) f32(2,5)", "!the parts make 8 along axis 1 of shape (2,7)"},
    {"concat_grad", "axis 1", "f32(2,0) f32(2,3)", "!the parts make 3 along axis 1 of shape (2,0)"},
    {"concat_grad", "axis 1", "f32(2,3) f32(2,0)", "!the parts make 0 along axis 1 of shape (2,3)"},
    {"concat_grad", "axis 1", "f32(2,7) f32(7)", "!part 0 of (2,7) has 1 dimensions"},
    {"concat_grad", "axis 2", "f32(2,7) f32(2,7)", "!axis 2 does not exist in shape (2,7)"},
    {"split", "axis 1;n 3", "u8(2,6)", "u8(2,2) u8(2,2) u8(2,2)"},
    {"split", "axis -2;n 2", "f32(?,6)", "f32(?,6) f32(?,6)"},
    {"split", "axis 0;n 2", "f32(0)", "f32(0) f32(0)"},
    {"split", "axis 1;n 4", "f32(2,6)", "!axis 1 of shape (2,6) cannot be split into 4 equal parts (256 at most)"},
    {"split", "axis 1;n 0", "f32(2,6)", "!axis 1 of shape (2,6) cannot be split into 0 equal parts (256 at most)"},
    {"split", "axis 0;n 257", "f32(257)", "!257 parts are more than the 256 of one split: cut its input into fewer with tp_slice first"},
    {"split", "axis 2;n 1", "f32(2,6)", "!axis 2 does not exist in shape (2,6)"},
    {"stack", "axis 0", "f32(2,?) f32(?,3)", "f32(2,2,3)"},
    {"stack", "axis 0", "f32(0,3) f32(?,3)", "f32(2,0,3)"},
    {"stack", "axis -1", "bool(2) bool(2) bool(2)", "bool(2,3)"},
    {"stack", "axis 0", "f32(2) f32(3)", "!input 0 is float32 (2), input 1 is float32 (3); they should be alike"},
    {"stack", "axis 0", "f32(2) f64(2)", "!input 0 is float32 (2), input 1 is float64 (2); they should be alike"},
    {"stack", "axis 2", "f32(2) f32(2)", "!there is no place 2 for a new dimension in shape (2)"},
    {"stack", "axis 0", "f32(1,1,1,1,1,1,1,1)", "!shape (1,1,1,1,1,1,1,1) has 8 dimensions, which is the most"},
    {"unstack", "axis 1;n 3", "f32(2,3,?)", "f32(2,?) f32(2,?) f32(2,?)"},
    {"unstack", "axis 0;n 2", "f32(?,3)", "f32(3) f32(3)"},
    {"unstack", "axis 0;n 3", "f32(2,3)", "!axis 0 of shape (2,3) is not 3 long (256 at most)"},
    {"unstack", "axis 0;n 1", "f32(0,3)", "!axis 0 of shape (0,3) is not 1 long (256 at most)"},
    {"unstack", "axis 0;n 0", "f32(0,3)", "!axis 0 of shape (0,3) is not 0 long (256 at most)"},
    {"unstack", "axis 0;n 257", "f32(257,3)", "!257 parts are more than the 256 of one unstack: cut its input into fewer with tp_slice first"},
    {"unstack", "axis 2;n 1", "f32(2,3)", "!axis 2 does not exist in shape (2,3)"},
    {"slice", "begin 1 0;size 2 -1", "f32(3,4)", "f32(2,4)"},
    {"slice", "begin 3 4;size 0 -1", "f32(3,4)", "f32(0,0)"},
    {"slice", "begin 5 0;size -1 2", "f32(?,4)", "f32(?,2)"},
    {"slice", "begin 5 0;size 3 4", "f32(?,4)", "f32(3,4)"},
    {"slice", "begin 4 0;size -1 4", "f32(3,4)", "!the slice from 4 of size -1 leaves dimension 0 of shape (3,4)"},
    {"slice", "begin 0 2;size 3 3", "f32(3,4)", "!the slice from 2 of size 3 leaves dimension 1 of shape (3,4)"},
    {"slice", "begin -1 0;size 1 4", "f32(3,4)", "!the slice from -1 of size 1 leaves dimension 0 of shape (3,4)"},
    {"slice", "begin 0 1;size -2 -3", "f32(3,4)", "f32(2,1)"},
    {"slice", "begin 1 0;size -3 4", "f32(3,4)", "f32(0,4)"},
    {"slice", "begin 1 0;size -3 4", "f32(?,4)", "f32(?,4)"},
    {"slice", "begin 1 0;size -4 4", "f32(3,4)", "!the slice from 1 of size -4 leaves dimension 0 of shape (3,4)"},
    {"slice", "begin 0 0;size -9223372036854775808 4", "f32(3,4)", "!leaves dimension 0 of shape (3,4)"},
    {"slice", "begin 1;size 1", "f32(0)", "!the slice from 1 of size 1 leaves dimension 0 of shape (0)"},
    {"slice_grad", "begin 1 0;size 2 -1", "f32(2,4) f32(3,4)", "f32(3,4)"},
    {"slice_grad", "begin 1 0;size 2 -1", "f32(3,4) f32(3,4)", "!dy is (3,4), the slice is (2,4)"},
    {"slice_grad", "begin 4 0;size 2 -1", "f32(2,4) f32(3,4)", "!the slice from 4 of size 2 leaves dimension 0 of shape (3,4)"},
    {"pad", "before 1 0;after 0 2", "f32(?,3)", "f32(?,5)"},
    {"pad", "before 2 0;after 3 0", "u8(0,3)", "u8(5,3)"},
    {"pad", "before 2;after 2;mode 1", "f32(3)", "f32(7)"},
    {"pad", "before 3;mode 1", "f32(3)", "!dimension 0 of shape (3) has not enough elements to mirror 3 and 0"},
    {"pad", "after 3;mode 1", "f32(3)", "!dimension 0 of shape (3) has not enough elements to mirror 0 and 3"},
    {"pad", "before 3;after 3;mode 2", "f32(3)", "f32(9)"},
    {"pad", "after 4;mode 2", "f32(3)", "!dimension 0 of shape (3) has not enough elements to mirror 0 and 4"},
    {"pad", "mode 1", "f32(0)", "f32(0)"},
    {"pad", "mode 3", "f32(3)", "!padding mode 3 is no tp_pad_mode"},
    {"pad", "mode -1", "f32(3)", "!padding mode -1 is no tp_pad_mode"},
    {"pad", "before 0 -1", "f32(3,3)", "!padding of -1 and 0 along dimension 1 makes no sense"},
    {"pad", "after -1", "f32(3,3)", "!padding of 0 and -1 along dimension 0 makes no sense"},
    {"pad", "before 281474976710657", "f32(1)", "!padding of 281474976710657 and 0 along dimension 0 makes no sense"},
    {"pad", "after 281474976710657", "f32(1)", "!padding of 0 and 281474976710657 along dimension 0 makes no sense"},
    {"pad", "before 281474976710656", "f32(0)", "f32(281474976710656)"},
    {"pad_grad", "before 1;after 2", "f32(6) f32(3)", "f32(3)"},
    {"pad_grad", "before 1;after 2", "f32(5) f32(3)", "!dy is (5), the padded shape is (6)"},
    {"pad_grad", "mode 5", "f32(5) f32(3)", "!padding mode 5 is no tp_pad_mode"},
    {"tile", "multiples 2 0", "f32(3,?)", "f32(6,?)"},
    {"tile", "multiples 0", "f32(3)", "f32(0)"},
    {"tile", "multiples 7", "f32(0)", "f32(0)"},
    {"tile", "multiples -1", "f32(3)", "!shape (3) cannot be repeated -1 times along dimension 0; tp_broadcast_like repeats to a size known when it runs"},
    {"tile", "multiples 1 281474976710656", "f32(1,2)", "!shape (1,2) cannot be repeated 281474976710656 times along dimension 1"},
    {"tile", "multiples 1 140737488355328", "f32(1,2)", "f32(1,281474976710656)"},
    {"tile", "multiples 281474976710656 0", "f32(1,1)", "f32(281474976710656,0)"},
    {"tile", "multiples 281474976710657 0", "f32(1,1)", "!shape (1,1) cannot be repeated 281474976710657 times along dimension 0"},
    {"tile", "multiples 140737488355330 0", "f32(1,1)", "f32(140737488355330,0)"},
    {"tile_grad", "multiples 2", "f32(6) f32(3)", "f32(3)"},
    {"tile_grad", "multiples 2", "f32(5) f32(3)", "!dy is (5), the tiled shape is (6)"},
    {"tile_grad", "multiples -2", "f32(5) f32(3)", "!shape (3) cannot be repeated -2 times along dimension 0"},
    {"gather", "", "bool(9,2,?) i32(3,4)", "bool(3,4,2,?)"},
    {"gather", "", "f32(9) i64()", "f32()"},
    {"gather", "", "f32(9) f32(2)", "!indices are float32; they should be int32 or int64"},
    {"gather", "", "f32() i32(2)", "!a scalar has no rows to gather"},
    {"gather", "", "f32(2,1,1,1,1) i32(1,1,1,1)", "f32(1,1,1,1,1,1,1,1)"},
    {"gather", "", "f32(2,1,1,1,1) i32(1,1,1,1,1)", "!indices of shape (1,1,1,1,1) make more than 8 dimensions"},
    {"gather_grad", "", "f32(3,2) i32(3) f32(9,2)", "f32(9,2)"},
    {"gather_grad", "", "f32(3,3) i32(3) f32(9,2)", "!dy is (3,3), gathered rows are (3,2)"},
    {"gather_grad", "", "i32(3,2) i32(3) i32(9,2)", "!dy is int32; it should be floating"},
    {"gather_grad", "", "f32(3,2) u8(3) f32(9,2)", "!indices are uint8; they should be int32 or int64"},
    {"one_hot", "depth 4", "i64(2,?)", "f32(2,?,4)"},
    {"one_hot", "depth 4", "u8(2)", "!indices are uint8; they should be int32 or int64"},
    {"one_hot", "depth 0", "i32(2)", "!depth 0 behind 1 dimensions makes no shape"},
    {"one_hot", "depth 2", "i32(1,1,1,1,1,1,1,1)", "!depth 2 behind 8 dimensions makes no shape"},
};
TEST(rules_of_shapes) { check_rules(shapes, (int)TP_COUNT(shapes)); }

static const rule networks[] = {
    {"matmul", "", "f32(2,3) f32(3,4)", "f32(2,4)"},
    {"matmul", "transpose_a 1", "f32(3,2) f32(3,4)", "f32(2,4)"},
    {"matmul", "transpose_b 1", "f64(2,3) f64(4,3)", "f64(2,4)"},
    {"matmul", "transpose_a 1;transpose_b 1", "f16(3,2) f16(4,3)", "f16(2,4)"},
    {"matmul", "", "f32(5,1,2,3) f32(6,3,4)", "f32(5,6,2,4)"},
    {"matmul", "", "f32(6,2,3) f32(5,1,3,4)", "f32(5,6,2,4)"},
    {"matmul", "", "f32(?,2,?) f32(7,3,?)", "f32(7,2,?)"},
    {"matmul", "", "f32(7,2,3) f32(?,3,4)", "f32(7,2,4)"},
    {"matmul", "", "f32(1,2,3) f32(?,3,4)", "f32(?,2,4)"},
    {"matmul", "", "f32(0,2,3) f32(1,3,4)", "f32(0,2,4)"},
    {"matmul", "", "f32(2,0) f32(0,4)", "f32(2,4)"},
    {"matmul", "", "i32(2,3) i32(3,4)", "!matmul does not work on int32"},
    {"matmul", "", "f32(2,3) f64(3,4)", "!matmul: element types float32 and float64 differ; tp_cast one of them"},
    {"matmul", "", "f32(3) f32(3,4)", "!matmul: shapes (3) and (3,4), both need at least 2 dimensions"},
    {"matmul", "", "f32(2,3) f32(3)", "!matmul: shapes (2,3) and (3), both need at least 2 dimensions"},
    {"matmul", "", "f32(2,3) f32(4,3)", "!matmul: shapes (2,3) and (4,3) do not fit: 3 columns meet 4 rows"},
    {"matmul", "transpose_a 1", "f32(2,3) f32(3,4)", "!matmul: shapes (2,3) and (3,4) do not fit: 2 columns meet 3 rows"},
    {"matmul", "transpose_b 1", "f32(2,3) f32(3,4)", "!matmul: shapes (2,3) and (3,4) do not fit: 3 columns meet 4 rows"},
    {"matmul", "", "f32(2,0) f32(3,4)", "!do not fit: 0 columns meet 3 rows"},
    {"matmul", "", "f32(2,3) f32(0,4)", "!do not fit: 3 columns meet 0 rows"},
    {"matmul", "", "f32(2,2,3) f32(3,3,4)", "!matmul: leading dimensions of (2,2,3) and (3,3,4) do not broadcast"},
    {"matmul", "", "f32(0,2,3) f32(3,3,4)", "!matmul: leading dimensions of (0,2,3) and (3,3,4) do not broadcast"},
    {"conv2d", "padding 1", "f32(?,8,9,4) f32(3,3,4,6)", "f32(?,8,9,6)"},
    {"conv2d", "padding 2", "f32(2,8,9,4) f32(3,2,4,6)", "f32(2,6,8,6)"},
    {"conv2d", "padding 1;data_format 2", "f32(2,4,8,9) f32(3,3,4,6)", "f32(2,6,8,9)"},
    {"conv2d", "padding 2;stride_h 2;stride_w 3", "f32(2,8,9,4) f32(3,3,4,6)", "f32(2,3,3,6)"},
    {"conv2d", "padding 1;stride_h 2;stride_w 3", "f32(2,9,10,4) f32(3,3,4,6)", "f32(2,5,4,6)"},
    {"conv2d", "padding 2;dilation_h 2;dilation_w 3", "f32(2,8,9,4) f32(3,3,4,6)", "f32(2,4,3,6)"},
    {"conv2d", "padding 2;dilation_h 2", "f32(2,5,5,1) f32(3,3,1,1)", "f32(2,1,3,1)"},
    {"conv2d", "padding 1;groups 2", "f32(2,8,9,4) f32(3,3,2,6)", "f32(2,8,9,6)"},
    {"conv2d", "padding 1", "f32(2,?,9,4) f32(3,3,4,6)", "f32(2,?,9,6)"},
    {"conv2d", "padding 2", "f32(2,?,9,4) f32(3,3,4,6)", "f32(2,?,7,6)"},
    {"conv2d", "padding 1;stride_h 2;stride_w 2", "f32(2,9,8,4) f32(?,?,4,6)", "f32(2,5,4,6)"},
    {"conv2d", "padding 2", "f32(2,9,8,4) f32(?,3,4,?)", "f32(2,?,6,?)"},
    {"conv2d", "padding 1", "f32(2,9,8,?) f32(3,3,4,6)", "f32(2,9,8,6)"},
    {"conv2d", "padding 1", "f32(0,9,8,4) f32(3,3,4,6)", "f32(0,9,8,6)"},
    {"conv2d", "", "i32(2,8,9,4) i32(3,3,4,6)", "!conv2d does not work on int32"},
    {"conv2d", "", "f32(2,8,9,4) f64(3,3,4,6)", "!conv2d: element types float32 and float64 differ"},
    {"conv2d", "", "f32(8,9,4) f32(3,3,4,6)", "!conv2d: input is (8,9,4), needs 4 dimensions (B,H,W,C)"},
    {"conv2d", "data_format 2", "f32(8,9,4) f32(3,3,4,6)", "!conv2d: input is (8,9,4), needs 4 dimensions (B,C,H,W)"},
    {"conv2d", "", "f32(2,8,9,4) f32(3,4,6)", "!conv2d: filter is (3,4,6), needs 4 dimensions (KH,KW,C/groups,O)"},
    {"conv2d", "stride_h -1", "f32(2,8,9,4) f32(3,3,4,6)", "!conv2d: strides, dilations and groups must be positive"},
    {"conv2d", "stride_w -1", "f32(2,8,9,4) f32(3,3,4,6)", "!conv2d: strides, dilations and groups must be positive"},
    {"conv2d", "dilation_h -1", "f32(2,8,9,4) f32(3,3,4,6)", "!conv2d: strides, dilations and groups must be positive"},
    {"conv2d", "dilation_w -1", "f32(2,8,9,4) f32(3,3,4,6)", "!conv2d: strides, dilations and groups must be positive"},
    {"conv2d", "groups -1", "f32(2,8,9,4) f32(3,3,4,6)", "!conv2d: strides, dilations and groups must be positive"},
    {"conv2d", "padding 3", "f32(2,8,9,4) f32(3,3,4,6)", "!conv2d: unknown padding 3"},
    {"conv2d", "padding -1", "f32(2,8,9,4) f32(3,3,4,6)", "!conv2d: unknown padding -1"},
    {"conv2d", "data_format 3", "f32(2,8,9,4) f32(3,3,4,6)", "!conv2d: unknown data_format 3"},
    {"conv2d", "data_format -1", "f32(2,8,9,4) f32(3,3,4,6)", "!conv2d: unknown data_format -1"},
    {"conv2d", "padding 1", "f32(2,8,9,4) f32(0,3,4,6)", "!conv2d: filter is (0,3,4,6), it is empty"},
    {"conv2d", "padding 1", "f32(2,8,9,4) f32(3,0,4,6)", "!conv2d: filter is (3,0,4,6), it is empty"},
    {"conv2d", "padding 1", "f32(2,8,9,4) f32(3,3,3,6)", "!conv2d: input (2,8,9,4), filter (3,3,3,6) and 1 groups do not fit: the filter needs (KH,KW,C/groups,O)"},
    {"conv2d", "padding 1;groups 2", "f32(2,8,9,4) f32(3,3,2,5)", "!filter (3,3,2,5) and 2 groups do not fit"},
    {"conv2d", "padding 1;groups 3", "f32(2,8,9,4) f32(3,3,1,6)", "!filter (3,3,1,6) and 3 groups do not fit"},
    {"conv2d", "padding 1;groups 2", "f32(2,8,9,4) f32(3,3,0,6)", "!filter (3,3,0,6) and 2 groups do not fit"},
    {"conv2d", "padding 1", "f32(2,8,9,0) f32(3,3,4,6)", "!conv2d: input (2,8,9,0), filter (3,3,4,6) and 1 groups do not fit"},
    {"conv2d", "padding 2", "f32(2,2,9,4) f32(3,3,4,6)", "!conv2d: the kernel (3,3,4,6) is larger than the input (2,2,9,4)"},
    {"conv2d", "padding 2", "f32(2,9,2,4) f32(3,3,4,6)", "!conv2d: the kernel (3,3,4,6) is larger than the input (2,9,2,4)"},
    {"conv2d", "padding 2;dilation_w 4", "f32(2,9,8,4) f32(3,3,4,6)", "!conv2d: the kernel (3,3,4,6) is larger than the input (2,9,8,4)"},
    {"conv2d_input_grad", "padding 1", "f32(2,8,9,6) f32(3,3,4,6) f32(2,8,9,4)", "f32(2,8,9,4)"},
    {"conv2d_input_grad", "padding 1", "f32(2,8,8,6) f32(3,3,4,6) f32(2,8,9,4)", "!conv2d_input_grad: dy is (2,8,8,6), the convolution's output is (2,8,9,6)"},
    {"conv2d_input_grad", "padding 1", "f32(2,8,9,6) f64(3,3,4,6) f32(2,8,9,4)", "!conv2d_input_grad: element types float32 and float64 differ"},
    {"conv2d_filter_grad", "padding 1", "f32(2,8,9,4) f32(2,8,9,6) f32(3,3,4,6)", "f32(3,3,4,6)"},
    {"conv2d_filter_grad", "padding 2", "f32(2,8,9,4) f32(2,8,9,6) f32(3,3,4,6)", "!conv2d_filter_grad: dy is (2,8,9,6), the convolution's output is (2,6,7,6)"},
    {"bias_add", "", "f32(?,2,3) f32(3)", "f32(?,2,3)"},
    {"bias_add", "data_format 2", "f32(2,3,4,5) f32(3)", "f32(2,3,4,5)"},
    {"bias_add", "", "f32(2,?) f32(3)", "f32(2,?)"},
    {"bias_add", "", "f32(2,3) f64(3)", "!bias_add: element types float32 and float64 differ"},
    {"bias_add", "", "i32(2,3) i32(3)", "!bias_add does not work on int32"},
    {"bias_add", "", "f32(3) f32(3)", "!bias_add: input is (3) and bias (3): needs (B,..,C) and (C)"},
    {"bias_add", "", "f32(2,3) f32(1,3)", "!bias_add: input is (2,3) and bias (1,3): needs (B,..,C) and (C)"},
    {"bias_add", "", "f32(2,3) f32(2)", "!bias_add: input is (2,3), a bias of (2) does not fit its channels"},
    {"bias_add", "", "f32(2,0) f32(2)", "!bias_add: input is (2,0), a bias of (2) does not fit its channels"},
    {"bias_add", "", "f32(2,2) f32(0)", "!bias_add: input is (2,2), a bias of (0) does not fit its channels"},
    {"bias_add", "data_format 2", "f32(2,4,3) f32(3)", "!bias_add: input is (2,4,3), a bias of (3) does not fit its channels"},
    {"max_pool", "size_h 2;size_w 3", "f32(?,8,9,4)", "f32(?,4,3,4) u8(?,4,3,4)"},
    {"max_pool", "size_h 2;size_w 3;data_format 2", "f32(2,4,8,9)", "f32(2,4,4,3) u8(2,4,4,3)"},
    {"max_pool", "size_h 3;size_w 3;stride_h 2;stride_w 1;padding 1", "f32(2,9,9,4)", "f32(2,5,9,4) u8(2,5,9,4)"},
    {"max_pool", "size_h 16;size_w 16;padding 1", "f32(2,20,20,1)", "f32(2,2,2,1) u8(2,2,2,1)"},
    {"max_pool", "size_h 257;size_w 1;padding 1", "f32(2,20,20,1)", "f32(2,1,20,1) i32(2,1,20,1)"},
    {"max_pool", "size_h 2;size_w 2", "f32(2,?,9,?)", "f32(2,?,4,?) u8(2,?,4,?)"},
    {"max_pool", "size_h 1;size_w 1", "i32(2,8,8,4)", "!max_pool does not work on int32"},
    {"max_pool", "size_h 1;size_w 1", "f32(8,8,4)", "!max_pool: input is (8,8,4), needs 4 dimensions (B,H,W,C)"},
    {"max_pool", "size_h 1;size_w 1;data_format 2", "f32(8,8,4)", "!max_pool: input is (8,8,4), needs 4 dimensions (B,C,H,W)"},
    {"max_pool", "size_h 0;size_w 1", "f32(2,8,8,4)", "!max_pool: a window of 0 x 1 with strides 0, 0 makes no sense"},
    {"max_pool", "size_h 1;size_w 0", "f32(2,8,8,4)", "!max_pool: a window of 1 x 0 with strides 0, 0 makes no sense"},
    {"max_pool", "size_h 1;size_w 1;stride_h -1", "f32(2,8,8,4)", "!max_pool: a window of 1 x 1 with strides -1, 0 makes no sense"},
    {"max_pool", "size_h 1;size_w 1;stride_w -1", "f32(2,8,8,4)", "!max_pool: a window of 1 x 1 with strides 0, -1 makes no sense"},
    {"max_pool", "size_h 1;size_w 1;padding 3", "f32(2,8,8,4)", "!max_pool: unknown padding 3"},
    {"max_pool", "size_h 1;size_w 1;padding -1", "f32(2,8,8,4)", "!max_pool: unknown padding -1"},
    {"max_pool", "size_h 1;size_w 1;data_format 3", "f32(2,8,8,4)", "!max_pool: unknown data_format 3"},
    {"max_pool", "size_h 1;size_w 1;data_format -1", "f32(2,8,8,4)", "!max_pool: unknown data_format -1"},
    {"max_pool", "size_h 65536;size_w 65536;padding 1", "f32(2,8,8,4)", "!max_pool: a window of 65536 x 65536 is too large"},
    {"max_pool", "size_h 3;size_w 2", "f32(2,2,8,4)", "!max_pool: the window 3 x 2 is larger than the input (2,2,8,4)"},
    {"max_pool", "size_h 2;size_w 9", "f32(2,2,8,4)", "!max_pool: the window 2 x 9 is larger than the input (2,2,8,4)"},
    {"max_pool", "size_h 2;size_w 2;padding 1", "f32(2,0,8,4)", "!max_pool: the window 2 x 2 is larger than the input (2,0,8,4)"},
    {"max_pool", "size_h 2;size_w 2;padding 1", "f32(2,8,0,4)", "!max_pool: the window 2 x 2 is larger than the input (2,8,0,4)"},
    {"max_pool_grad", "size_h 2;size_w 2", "f32(2,4,4,3) u8(2,4,4,3) f32(2,8,8,3)", "f32(2,8,8,3)"},
    {"max_pool_grad", "size_h 2;size_w 2", "f32(2,4,5,3) u8(2,4,4,3) f32(2,8,8,3)", "!max_pool_grad: dy is (2,4,5,3), the pooled shape is (2,4,4,3)"},
    {"max_pool_grad", "size_h 2;size_w 2", "f32(2,4,4,3) u8(2,4,4,3) f32(2,1,8,3)", "!max_pool_grad: the window 2 x 2 is larger than the input (2,1,8,3)"},
    {"max_pool_take", "size_h 2;size_w 2", "f32(2,8,8,3) u8(2,4,4,3)", "f32(2,4,4,3)"},
    {"avg_pool", "size_h 2;size_w 3", "f16(?,8,9,4)", "f16(?,4,3,4)"},
    {"avg_pool_grad", "size_h 2;size_w 2", "f32(2,4,4,3) f32(2,8,8,3)", "f32(2,8,8,3)"},
    {"avg_pool_grad", "size_h 2;size_w 2", "f32(2,4,3,3) f32(2,8,8,3)", "!avg_pool_grad: dy is (2,4,3,3), the pooled shape is (2,4,4,3)"},
    {"resize", "out_h 4;out_w 7", "f32(?,2,3,5)", "f32(?,4,7,5)"},
    {"resize", "out_h 4;out_w 7;data_format 2", "f32(2,5,2,3)", "f32(2,5,4,7)"},
    {"resize", "out_h 4;out_w 7", "f32(2,?,3,5)", "f32(2,4,7,5)"},
    {"resize", "out_h 4;out_w 7", "i32(2,2,3,5)", "!resize does not work on int32"},
    {"resize", "out_h 4;out_w 7", "f32(2,3,5)", "!resize: input is (2,3,5), needs 4 dimensions (B,H,W,C)"},
    {"resize", "out_h 4;out_w 7", "f32(2,0,3,5)", "!resize: input is (2,0,3,5), its images are empty"},
    {"resize", "out_h 4;out_w 7", "f32(2,3,0,5)", "!resize: input is (2,3,0,5), its images are empty"},
    {"resize", "out_h 4;out_w 7;data_format 2", "f32(2,3,5,0)", "!resize: input is (2,3,5,0), its images are empty"},
    {"resize", "out_h 0;out_w 7", "f32(2,2,3,5)", "!resize: there are no images of 0 x 7"},
    {"resize", "out_h 4;out_w 0", "f32(2,2,3,5)", "!resize: there are no images of 4 x 0"},
    {"resize", "out_h 4;out_w 7;data_format 3", "f32(2,2,3,5)", "!resize: unknown data_format 3"},
    {"resize", "out_h 4;out_w 7;data_format -1", "f32(2,2,3,5)", "!resize: unknown data_format -1"},
    {"resize", "out_h 4;out_w 7;align_corners 1;half_pixel_centers 1", "f32(2,2,3,5)", "!resize: align_corners and half_pixel_centers exclude each other"},
    {"resize_grad", "out_h 4;out_w 7", "f32(2,4,7,5) f32(2,2,3,5)", "f32(2,2,3,5)"},
    {"resize_grad", "out_h 4;out_w 7", "f32(2,4,6,5) f32(2,2,3,5)", "!dy is (2,4,6,5), the resized shape is (2,4,7,5)"},
    {"resize_grad", "out_h 4;out_w 0", "f32(2,4,6,5) f32(2,2,3,5)", "!resize_grad: there are no images of 4 x 0"},
    {"bilinear_sampler", "", "f32(?,4,5,3) f32(2,6,7,2)", "f32(2,6,7,3)"},
    {"bilinear_sampler", "", "f32(2,4,5,3) f32(?,6,?,?)", "f32(2,6,?,3)"},
    {"bilinear_sampler", "border 1", "f32(2,4,5,0) f32(2,0,7,2)", "f32(2,0,7,0)"},
    {"bilinear_sampler", "", "i32(2,4,5,3) i32(2,6,7,2)", "!bilinear_sampler does not work on int32"},
    {"bilinear_sampler", "", "f32(2,4,5,3) f64(2,6,7,2)", "!the image is (2,4,5,3) and coords (2,6,7,2): needs (B,H,W,C), with pixels, and (B,H2,W2,2) of one element type"},
    {"bilinear_sampler", "", "f32(4,5,3) f32(2,6,7,2)", "!the image is (4,5,3) and coords (2,6,7,2): needs"},
    {"bilinear_sampler", "", "f32(2,4,5,3) f32(6,7,2)", "!the image is (2,4,5,3) and coords (6,7,2): needs"},
    {"bilinear_sampler", "", "f32(2,4,5,3) f32(2,6,7,3)", "!the image is (2,4,5,3) and coords (2,6,7,3): needs"},
    {"bilinear_sampler", "", "f32(2,4,5,3) f32(2,6,7,0)", "!the image is (2,4,5,3) and coords (2,6,7,0): needs"},
    {"bilinear_sampler", "", "f32(2,4,5,3) f32(3,6,7,2)", "!the image is (2,4,5,3) and coords (3,6,7,2): needs"},
    {"bilinear_sampler", "", "f32(0,4,5,3) f32(3,6,7,2)", "!the image is (0,4,5,3) and coords (3,6,7,2): needs"},
    {"bilinear_sampler", "", "f32(3,4,5,3) f32(0,6,7,2)", "!the image is (3,4,5,3) and coords (0,6,7,2): needs"},
    {"bilinear_sampler", "", "f32(2,0,5,3) f32(2,6,7,2)", "!the image is (2,0,5,3) and coords (2,6,7,2): needs"},
    {"bilinear_sampler", "", "f32(2,4,0,3) f32(2,6,7,2)", "!the image is (2,4,0,3) and coords (2,6,7,2): needs"},
    {"bilinear_sampler", "border 2", "f32(2,4,5,3) f32(2,6,7,2)", "!border 2 is no tp_border"},
    {"bilinear_sampler", "border -1", "f32(2,4,5,3) f32(2,6,7,2)", "!border -1 is no tp_border"},
    {"batch_norm", "axis 1", "f32(?,3) f32(3) f32(3)", "f32(?,3) f32(3) f32(3) f32(3)"},
    {"batch_norm", "axis -1", "f32(2,4,5,3) f32(3) f32(3)", "f32(2,4,5,3) f32(3) f32(3) f32(3)"},
    {"batch_norm", "axis 1", "f32(2,?,4) f32(3) f32(?)", "f32(2,?,4) f32(3) f32(3) f32(3)"},
    {"batch_norm", "axis 0", "f32(3) f32(3) f32(3)", "!batch_norm: input is (3), which has no channel axis 0"},
    {"batch_norm", "axis 2", "f32(2,3) f32(3) f32(3)", "!batch_norm: input is (2,3), which has no channel axis 2"},
    {"batch_norm", "axis 1", "f32(2,3) f32(3) f32(2)", "!batch_norm: input 2 is (2), needs one float32 for each of 3 channels"},
    {"batch_norm", "axis 1", "f32(2,3) f32(3,1) f32(3)", "!batch_norm: input 1 is (3,1), needs one float32 for each of 3 channels"},
    {"batch_norm", "axis 1", "f32(2,3) f64(3) f32(3)", "!batch_norm: input 1 is (3), needs one float32 for each of 3 channels"},
    {"batch_norm", "axis 1", "f32(2,0) f32(3) f32(3)", "!batch_norm: input 1 is (3), needs one float32 for each of 0 channels"},
    {"batch_norm", "axis 1", "f32(2,3) f32(0) f32(3)", "!batch_norm: input 1 is (0), needs one float32 for each of 3 channels"},
    {"batch_norm", "axis 1", "i32(2,3) i32(3) i32(3)", "!batch_norm does not work on int32"},
    {"batch_norm_grad", "axis 1", "f32(2,3) f32(2,3) f32(3) f32(3) f32(3)", "f32(2,3) f32(3) f32(3)"},
    {"batch_norm_grad", "axis 1", "f32(2,3) f32(2,3) f32(3) f32(3) f32(2)", "!batch_norm_grad: input 4 is (2), needs one float32 for each of 3 channels"},
    {"batch_norm_infer", "axis 1", "f32(2,3) f32(3) f32(3) f32(3) f32(3)", "f32(2,3)"},
    {"batch_norm_infer", "axis 1", "f32(2,3) f32(3) f32(3) f32(4) f32(3)", "!batch_norm_infer: input 3 is (4), needs one float32 for each of 3 channels"},
    {"layer_norm", "", "f32(?,4,3) f32(3) f32(3)", "f32(?,4,3) f32(?,4) f32(?,4)"},
    {"layer_norm", "", "f32(3) f32(?) f32(3)", "f32(3) f32() f32()"},
    {"layer_norm", "", "f32(2,?) f32(3) f32(3)", "f32(2,?) f32(2) f32(2)"},
    {"layer_norm", "", "i32(2,3) i32(3) i32(3)", "!layer_norm does not work on int32"},
    {"layer_norm", "", "f32() f32(3) f32(3)", "!layer_norm: input is (), its last axis has nothing to normalise"},
    {"layer_norm", "", "f32(2,0) f32(0) f32(0)", "!layer_norm: input is (2,0), its last axis has nothing to normalise"},
    {"layer_norm", "", "f32(2,3) f32(2) f32(3)", "!layer_norm: gamma is (2), needs one value for each element of the last axis of (2,3)"},
    {"layer_norm", "", "f32(2,3) f32(3) f32(2)", "!layer_norm: beta is (2), needs one value for each element of the last axis of (2,3)"},
    {"layer_norm", "", "f32(2,3) f32(3,1) f32(3)", "!layer_norm: gamma is (3,1), needs one value"},
    {"layer_norm", "", "f32(2,3) f32(3) f64(3)", "!layer_norm: element types float32 and float64 differ; tp_cast one of them"},
    {"layer_norm", "", "f32(2,3) f32(0) f32(3)", "!layer_norm: gamma is (0), needs one value"},
    {"layer_norm_grad", "", "f32(2,3) f32(2,3) f32(3) f32(2) f32(2)", "f32(2,3) f32(3) f32(3)"},
    {"group_norm", "axis 3;groups 2", "f32(?,5,?,6) f32(6) f32(?)", "f32(?,5,?,6) f32(?,2) f32(?,2)"},
    {"group_norm", "axis 1;groups 3", "f32(2,?,4) f32(6) f32(6)", "f32(2,?,4) f32(2,3) f32(2,3)"},
    {"group_norm", "axis -1;groups 3", "f64(2,5,3) f64(3) f64(3)", "f64(2,5,3) f64(2,3) f64(2,3)"},
    {"group_norm", "axis 1;groups 1", "f32(2,3) f32(3) f32(3)", "!group_norm: input is (2,3); it needs samples, a channel axis (1) and another axis"},
    {"group_norm", "axis 0;groups 1", "f32(2,3,4) f32(2) f32(2)", "!group_norm: input is (2,3,4); it needs samples, a channel axis (0) and another axis"},
    {"group_norm", "axis 3;groups 1", "f32(2,3,4) f32(2) f32(2)", "!group_norm: input is (2,3,4); it needs samples, a channel axis (3) and another axis"},
    {"group_norm", "axis 2;groups 3", "f32(2,3,4) f32(4) f32(4)", "!group_norm: 3 groups do not divide 4 channels"},
    {"group_norm", "axis 2;groups 0", "f32(2,3,4) f32(4) f32(4)", "!group_norm: 0 groups do not divide 4 channels"},
    {"group_norm", "axis 2;groups 1", "f32(2,3,0) f32(0) f32(0)", "!group_norm: 1 groups do not divide 0 channels"},
    {"group_norm", "axis 2;groups 2", "f32(2,3,4) f32(3) f32(4)", "!group_norm: gamma is float32 (3), needs one float32 for each channel of (2,3,4)"},
    {"group_norm", "axis 2;groups 2", "f32(2,3,4) f32(4) f32(4,1)", "!group_norm: beta is float32 (4,1), needs one float32 for each channel of (2,3,4)"},
    {"group_norm", "axis 2;groups 2", "f32(2,3,4) f64(4) f32(4)", "!group_norm: gamma is float64 (4), needs one float32 for each channel of (2,3,4)"},
    {"group_norm", "axis 2;groups 2", "i32(2,3,4) i32(4) i32(4)", "!group_norm does not work on int32"},
    {"group_norm_grad", "axis 2;groups 2", "f32(2,3,4) f32(2,3,4) f32(4) f32(2,2) f32(2,2)", "f32(2,3,4) f32(4) f32(4)"},
    {"softmax", "", "f32(2,?)", "f32(2,?)"},
    {"softmax", "", "f32()", "!softmax of a scalar: it needs at least 1 dimension"},
    {"log_softmax", "", "i32(2,3)", "!log_softmax does not work on int32"},
    {"sparse_softmax_cross_entropy", "", "f32(?,5) i64(2)", "f32(2) f32(?,5)"},
    {"sparse_softmax_cross_entropy", "", "f32(2,5) i32(?)", "f32(2) f32(2,5)"},
    {"sparse_softmax_cross_entropy", "", "i32(2,5) i32(2)", "!sparse_softmax_cross_entropy: logits are int32"},
    {"sparse_softmax_cross_entropy", "", "f32(2,5) f32(2)", "!sparse_softmax_cross_entropy: labels are float32, int32 or int64 are needed"},
    {"sparse_softmax_cross_entropy", "", "f32(2,5) i32(3)", "!sparse_softmax_cross_entropy: logits are (2,5) and labels (3): needs (B,..,C) and (B,..)"},
    {"sparse_softmax_cross_entropy", "", "f32(0,5) i32(3)", "!sparse_softmax_cross_entropy: logits are (0,5) and labels (3)"},
    {"sparse_softmax_cross_entropy", "", "f32(3,5) i32(0)", "!sparse_softmax_cross_entropy: logits are (3,5) and labels (0)"},
    {"sparse_softmax_cross_entropy", "", "f32(5) i32(5)", "!sparse_softmax_cross_entropy: logits are (5) and labels (5)"},
    {"sparse_softmax_cross_entropy", "", "f32(2,5) i32(2,1)", "!sparse_softmax_cross_entropy: logits are (2,5) and labels (2,1)"},
};
TEST(rules_of_networks) { check_rules(networks, (int)TP_COUNT(networks)); }

static const rule sequences[] = {
    {"ctc_loss", "", "f32(9,2,5) i32(2,4) i32(2) i64(2)", "f32(2) f32(9,2,5)"},
    {"ctc_loss", "batch_major 1;blank -1", "f32(2,9,5) i32(2,4) i32(2) i64(2)", "f32(2) f32(2,9,5)"},
    {"ctc_loss", "", "f32(9,?,5) i32(2,4) i32(?) i64(?)", "f32(2) f32(9,?,5)"},
    {"ctc_loss", "blank 4", "f32(9,2,5) i32(2,4) i32(2) i64(2)", "f32(2) f32(9,2,5)"},
    {"ctc_loss", "", "f32(9,2,5) f32(2,4) i32(2) i32(2)", "!ctc_loss: labels are float32, int32 or int64 are needed"},
    {"ctc_loss", "", "f32(9,2,5) i32(2,4) u8(2) i32(2)", "!ctc_loss: lengths are uint8, int32 or int64 are needed"},
    {"ctc_loss", "", "f32(9,2,5) i32(2,4) i32(2) bool(2)", "!ctc_loss: lengths are bool, int32 or int64 are needed"},
    {"ctc_loss", "", "f32(9,2,5) i32(3,4) i32(2) i32(2)", "!ctc_loss: logits are (9,2,5), labels (3,4), their lengths (2), those of the logits (2): needs (T,B,C), (B,L), (B), (B)"},
    {"ctc_loss", "batch_major 1", "f32(9,2,5) i32(2,4) i32(2) i32(2)", "!their lengths (2), those of the logits (2): needs (B,T,C), (B,L), (B), (B)"},
    {"ctc_loss", "", "f32(9,2,5) i32(2,4) i32(3) i32(2)", "!ctc_loss: logits are (9,2,5), labels (2,4), their lengths (3)"},
    {"ctc_loss", "", "f32(9,2,5) i32(2,4) i32(2) i32(3)", "!those of the logits (3): needs"},
    {"ctc_loss", "", "f32(9,?,5) i32(2,4) i32(2) i32(3)", "!those of the logits (3): needs"},
    {"ctc_loss", "", "f32(9,0,5) i32(?,4) i32(2) i32(2)", "!ctc_loss: logits are (9,0,5), labels (?,4)"},
    {"ctc_loss", "", "f32(9,0,5) i32(2,4) i32(2) i32(2)", "!ctc_loss: logits are (9,0,5)"},
    {"ctc_loss", "", "f32(9,2,5) i32(0,4) i32(2) i32(2)", "!labels (0,4), their lengths (2)"},
    {"ctc_loss", "", "f32(9,2) i32(2,4) i32(2) i32(2)", "!ctc_loss: logits are (9,2), labels"},
    {"ctc_loss", "", "f32(9,2,5) i32(2) i32(2) i32(2)", "!labels (2), their lengths (2)"},
    {"ctc_loss", "", "f32(9,2,5) i32(2,4) i32(2,1) i32(2)", "!their lengths (2,1), those"},
    {"ctc_loss", "", "f32(9,2,5) i32(2,4) i32(2) i32()", "!those of the logits (): needs"},
    {"ctc_loss", "", "i32(9,2,5) i32(2,4) i32(2) i32(2)", "!ctc_loss: logits are int32; tp_cast them first"},
    {"ctc_loss", "blank 5", "f32(9,2,5) i32(2,4) i32(2) i32(2)", "!ctc_loss: blank 5 is none of the classes of (9,2,5)"},
    {"ctc_loss", "blank -2", "f32(9,2,5) i32(2,4) i32(2) i32(2)", "!ctc_loss: blank -2 is none of the classes of (9,2,5)"},
    {"ctc_loss", "blank -1", "f32(9,2,0) i32(2,4) i32(2) i32(2)", "!ctc_loss: blank -1 is none of the classes of (9,2,0)"},
    {"ctc_loss", "blank 9", "f32(9,2,?) i32(2,4) i32(2) i32(2)", "f32(2) f32(9,2,?)"},
    {"lstm", "", "f32(7,2,3) f32(8,20) f32(20) f32(2,5) f32(2,5)", "f32(7,2,5) f32(2,5) f32(2,5) f32(7,2,20) f32(7,2,5)"},
    {"lstm", "batch_major 1", "f32(?,7,3) f32(8,20) f32(20) f32(2,5) f32(2,5)", "f32(?,7,5) f32(2,5) f32(2,5) f32(?,7,20) f32(?,7,5)"},
    {"lstm", "", "f32(7,2,3) f32(?,?) f32(?) f32(?,5) f32(2,?)", "f32(7,2,5) f32(2,5) f32(2,5) f32(7,2,20) f32(7,2,5)"},
    {"lstm", "", "f32(7,2,?) f32(8,20) f32(20) f32(2,5) f32(2,5)", "f32(7,2,5) f32(2,5) f32(2,5) f32(7,2,20) f32(7,2,5)"},
    {"lstm", "", "f32(7,2,3) f32(8,20) f32(20) f32(2,?) f32(2,5)", "f32(7,2,?) f32(2,?) f32(2,?) f32(7,2,?) f32(7,2,?)"},
    {"lstm", "", "i32(7,2,3) i32(8,20) i32(20) i32(2,5) i32(2,5)", "!lstm does not work on int32"},
    {"lstm", "", "f32(7,2,3) f32(8,20) f32(20) f32(2,5) f64(2,5)", "!lstm: element types float32 and float64 differ; tp_cast one of them"},
    {"lstm", "", "f32(2,3) f32(8,20) f32(20) f32(2,5) f32(2,5)", "!lstm: x is (2,3), needs 3 dimensions (time,batch,features)"},
    {"lstm", "batch_major 1", "f32(2,3) f32(8,20) f32(20) f32(2,5) f32(2,5)", "!lstm: x is (2,3), needs 3 dimensions (batch,time,features)"},
    {"lstm", "", "f32(7,2,3) f32(8,20) f32(20) f32(5) f32(2,5)", "!lstm: state h0 is (5), needs (batch,units) for x (7,2,3)"},
    {"lstm", "", "f32(7,2,3) f32(3,0) f32(0) f32(2,0) f32(2,0)", "!lstm: state h0 is (2,0), needs (batch,units) for x (7,2,3)"},
    {"lstm", "", "f32(7,2,3) f32(8,19) f32(20) f32(2,5) f32(2,5)", "!lstm: the kernel is (8,19); (7,2,3) inputs and 5 units need (8,20)"},
    {"lstm", "", "f32(7,2,3) f32(7,20) f32(20) f32(2,5) f32(2,5)", "!lstm: the kernel is (7,20); (7,2,3) inputs and 5 units need (8,20)"},
    {"lstm", "", "f32(7,2,3) f32(0,20) f32(20) f32(2,5) f32(2,5)", "!lstm: the kernel is (0,20); (7,2,3) inputs and 5 units need (8,20)"},
    {"lstm", "", "f32(7,2,3) f32(8,0) f32(20) f32(2,5) f32(2,5)", "!lstm: the kernel is (8,0); (7,2,3) inputs and 5 units need (8,20)"},
    {"lstm", "", "f32(7,2,3) f32(160) f32(20) f32(2,5) f32(2,5)", "!lstm: the kernel is (160); (7,2,3) inputs and 5 units need (8,20)"},
    {"lstm", "", "f32(7,2,3) f32(8,20) f32(5) f32(2,5) f32(2,5)", "!lstm: the bias is (5), needs (20)"},
    {"lstm", "", "f32(7,2,3) f32(8,20) f32(0) f32(2,5) f32(2,5)", "!lstm: the bias is (0), needs (20)"},
    {"lstm", "", "f32(7,2,3) f32(8,20) f32(1,20) f32(2,5) f32(2,5)", "!lstm: the bias is (1,20), needs (20)"},
    {"lstm", "", "f32(7,2,3) f32(8,20) f32(20) f32(3,5) f32(2,5)", "!lstm: state h0 is (3,5), needs (batch,units) for x (7,2,3)"},
    {"lstm", "", "f32(7,2,3) f32(8,20) f32(20) f32(2,5) f32(2,4)", "!lstm: state c0 is (2,4), needs (batch,units) for x (7,2,3) and h0 (2,5)"},
    {"lstm", "", "f32(7,0,3) f32(8,20) f32(20) f32(2,5) f32(2,5)", "!lstm: state h0 is (2,5), needs (batch,units) for x (7,0,3)"},
    {"lstm_grad", "", "f32(7,2,5) f32(2,5) f32(2,5) f32(7,2,3) f32(8,20) f32(2,5) f32(2,5) f32(7,2,5) f32(7,2,20) f32(7,2,5)", "f32(7,2,3) f32(8,20) f32(20) f32(2,5) f32(2,5)"},
    {"gru", "", "f32(7,2,3) f32(8,10) f32(10) f32(8,5) f32(5) f32(2,5)", "f32(7,2,5) f32(2,5) f32(7,2,15)"},
    {"gru", "batch_major 1", "f32(2,7,3) f32(8,10) f32(10) f32(8,5) f32(5) f32(?,5)", "f32(2,7,5) f32(2,5) f32(2,7,15)"},
    {"gru", "", "f32(7,2,?) f32(?,10) f32(?) f32(8,?) f32(5) f32(2,?)", "f32(7,2,?) f32(2,?) f32(7,2,?)"},
    {"gru", "", "i32(7,2,3) i32(8,10) i32(10) i32(8,5) i32(5) i32(2,5)", "!gru does not work on int32"},
    {"gru", "", "f32(7,2,3) f32(8,10) f32(10) f32(8,5) f32(5) f64(2,5)", "!gru: element types float32 and float64 differ; tp_cast one of them"},
    {"gru", "", "f32(2,3) f32(8,10) f32(10) f32(8,5) f32(5) f32(2,5)", "!gru: x is (2,3), needs 3 dimensions (time,batch,features)"},
    {"gru", "batch_major 1", "f32(2,3) f32(8,10) f32(10) f32(8,5) f32(5) f32(2,5)", "!gru: x is (2,3), needs 3 dimensions (batch,time,features)"},
    {"gru", "", "f32(7,2,3) f32(8,10) f32(10) f32(8,5) f32(5) f32(3,5)", "!gru: state h0 is (3,5), needs (batch,units) for x (7,2,3)"},
    {"gru", "batch_major 1", "f32(7,2,3) f32(8,10) f32(10) f32(8,5) f32(5) f32(2,5)", "!gru: state h0 is (2,5), needs (batch,units) for x (7,2,3)"},
    {"gru", "", "f32(7,2,3) f32(3,0) f32(0) f32(3,0) f32(0) f32(2,0)", "!gru: state h0 is (2,0), needs (batch,units) for x (7,2,3)"},
    {"gru", "", "f32(7,2,3) f32(8,10) f32(10) f32(8,5) f32(5) f32(5)", "!gru: state h0 is (5), needs (batch,units) for x (7,2,3)"},
    {"gru", "", "f32(7,2,3) f32(8,5) f32(10) f32(8,5) f32(5) f32(2,5)", "!gru: the gates' kernel is (8,5); (7,2,3) inputs and 5 units need (8,10)"},
    {"gru", "", "f32(7,2,3) f32(7,10) f32(10) f32(8,5) f32(5) f32(2,5)", "!gru: the gates' kernel is (7,10); (7,2,3) inputs and 5 units need (8,10)"},
    {"gru", "", "f32(7,2,3) f32(8,10) f32(5) f32(8,5) f32(5) f32(2,5)", "!gru: the gates' bias is (5), needs (10)"},
    {"gru", "", "f32(7,2,3) f32(8,10) f32(1,10) f32(8,5) f32(5) f32(2,5)", "!gru: the gates' bias is (1,10), needs (10)"},
    {"gru", "", "f32(7,2,3) f32(8,10) f32(0) f32(8,5) f32(5) f32(2,5)", "!gru: the gates' bias is (0), needs (10)"},
    {"gru", "", "f32(7,2,3) f32(8,10) f32(10) f32(8,10) f32(5) f32(2,5)", "!gru: the candidate's kernel is (8,10); (7,2,3) inputs and 5 units need (8,5)"},
    {"gru", "", "f32(7,2,3) f32(8,10) f32(10) f32(8,5) f32(10) f32(2,5)", "!gru: the candidate's bias is (10), needs (5)"},
    {"gru_grad", "", "f32(7,2,5) f32(2,5) f32(7,2,3) f32(8,10) f32(8,5) f32(2,5) f32(7,2,5) f32(7,2,15)", "f32(7,2,3) f32(8,10) f32(10) f32(8,5) f32(5) f32(2,5)"},
    {"attention", "heads 2", "f32(3,5,8) f32(3,7,8) f32(3,7,8)", "f32(3,5,8) f32(3,2,5)"},
    {"attention", "heads 2;causal 1", "f32(3,5,8) f32(3,5,8) f32(3,5,8)", "f32(3,5,8) f32(3,2,5)"},
    {"attention", "heads 4", "f32(?,5,8) f32(3,?,8) f32(3,7,?)", "f32(?,5,8) f32(?,4,5)"},
    {"attention", "heads 4", "f32(3,5,?) f32(3,7,8) f32(3,7,8)", "f32(3,5,?) f32(3,4,5)"},
    {"attention", "heads 2", "i32(3,5,8) i32(3,7,8) i32(3,7,8)", "!attention does not work on int32"},
    {"attention", "heads 2", "f32(5,8) f32(3,7,8) f32(3,7,8)", "!attention: q is (5,8), k (3,7,8), v (3,7,8); needs (B,Tq,C), (B,Tk,C), (B,Tk,C)"},
    {"attention", "heads 2", "f32(3,5,8) f32(7,8) f32(7,8)", "!attention: q is (3,5,8), k (7,8), v (7,8); needs"},
    {"attention", "heads 2", "f32(3,5,8) f32(3,7,8) f32(3,6,8)", "!attention: q is (3,5,8), k (3,7,8), v (3,6,8); needs"},
    {"attention", "heads 2", "f32(3,5,8) f32(2,7,8) f32(2,7,8)", "!attention: q is (3,5,8), k (2,7,8), v (2,7,8); needs"},
    {"attention", "heads 2", "f32(3,5,8) f32(3,7,6) f32(3,7,6)", "!attention: q is (3,5,8), k (3,7,6), v (3,7,6); needs"},
    {"attention", "heads 2", "f32(0,5,8) f32(3,7,8) f32(3,7,8)", "!attention: q is (0,5,8), k (3,7,8)"},
    {"attention", "heads 2", "f32(3,5,8) f32(0,7,8) f32(0,7,8)", "!attention: q is (3,5,8), k (0,7,8)"},
    {"attention", "heads 2", "f32(3,5,8) f64(3,7,8) f32(3,7,8)", "!attention: element types float32 and float64 differ"},
    {"attention", "heads 2", "f32(3,5,8) f32(3,7,8) f64(3,7,8)", "!attention: element types float32 and float64 differ"},
    {"attention", "heads 3", "f32(3,5,8) f32(3,7,8) f32(3,7,8)", "!attention: 3 heads do not divide the 8 elements of (3,5,8)"},
    {"attention", "heads 0", "f32(3,5,8) f32(3,7,8) f32(3,7,8)", "!attention: 0 heads do not divide the 8 elements of (3,5,8)"},
    {"attention", "heads 1", "f32(3,5,0) f32(3,7,0) f32(3,7,0)", "!attention: 1 heads do not divide the 0 elements of (3,5,0)"},
    {"attention", "heads 2", "f32(3,5,8) f32(3,0,8) f32(3,0,8)", "!attention: 5 queries and 0 keys leave a query without a key"},
    {"attention", "heads 2;causal 1", "f32(3,5,8) f32(3,4,8) f32(3,4,8)", "!attention: 5 queries and 4 keys leave a query without a key"},
    {"attention", "heads 2", "f32(3,?,8) f32(3,0,8) f32(3,0,8)", "f32(3,?,8) f32(3,2,?)"},
    {"attention", "heads 2", "f32(3,0,8) f32(3,0,8) f32(3,0,8)", "f32(3,0,8) f32(3,2,0)"},
    {"attention", "heads 2", "f32(3,5,8) f32(3,4,8) f32(3,4,8)", "f32(3,5,8) f32(3,2,5)"},
    {"attention", "heads 2;causal 1", "f32(3,0,8) f32(3,4,8) f32(3,4,8)", "f32(3,0,8) f32(3,2,0)"},
    {"attention_grad", "heads 2", "f32(3,5,8) f32(3,5,8) f32(3,7,8) f32(3,7,8) f32(3,5,8) f32(3,2,5)", "f32(3,5,8) f32(3,7,8) f32(3,7,8)"},
    {"dropout", "rate 0.5", "f16(2,?)", "f16(2,?)"},
    {"dropout", "rate 0", "f32(2)", "f32(2)"},
    {"dropout", "rate 1", "f32(2)", "!dropout: rate is 1, it must be in [0,1)"},
    {"dropout", "rate -0.5", "f32(2)", "!dropout: rate is -0.5, it must be in [0,1)"},
    {"dropout", "rate nan", "f32(2)", "!dropout: rate is nan, it must be in [0,1)"},
    {"dropout", "rate 0.5", "i32(2)", "!dropout does not work on int32"},
    {"random", "shape 2 3 4", "", "f32(3,4)"},
    {"random", "", "f16(2,?)", "f16(2,?)"},
    {"random", "", "i32(2)", "!random does not work on int32"},
};
TEST(rules_of_sequences) { check_rules(sequences, (int)TP_COUNT(sequences)); }

/* What gradients read beside the values of their op: each must be as the op has or makes it. */
static const rule gradients[] = {
    {"size_ratio", "", "f32(2,3) f64(2)", "!size_ratio: element types float32 and float64 differ; tp_cast one of them"},
    {"sum_to_like", "", "f32(2,3) f64(3)", "!sum_to_like: element types float32 and float64 differ; tp_cast one of them"},
    {"put_last", "", "f32(2,3) i32(2,3) f64(2,7)", "!x is float32 and ref float64; they should have the same element type"},
    {"concat_grad", "axis 1", "f32(3,7) f32(2,3) f32(2,4)", "!dy is (3,7), part 0 is (2,3); they may differ along axis 1 only"},
    {"concat_grad", "axis 1", "f32(2,7,2) f32(2,3,2) f32(2,4,0)", "!dy is (2,7,2), part 1 is (2,4,0); they may differ along axis 1 only"},
    {"concat_grad", "axis 1", "f32(?,7,2) f32(2,3,2) f32(3,4,?)", "f32(2,3,2) f32(3,4,2)"},
    {"pad_grad", "before 1;after 2", "f32(6) f64(3)", "!pad_grad: element types float32 and float64 differ; tp_cast one of them"},
    {"pad_grad", "before 1;after 2", "u8(6) u8(3)", "!pad_grad does not work on uint8; tp_cast it first"},
    {"tile_grad", "multiples 2", "f32(6) f64(3)", "!tile_grad: element types float32 and float64 differ; tp_cast one of them"},
    {"tile_grad", "multiples 2", "u8(6) u8(3)", "!tile_grad does not work on uint8; tp_cast it first"},
    {"gather_grad", "", "f32(3,2) i32(3) f64(9,2)", "!input 0 is float32, input 2 is float64; tp_cast one of them"},
    {"resize_grad", "out_h 4;out_w 7", "f32(2,4,7,5) f64(2,2,3,5)", "!resize_grad: element types float32 and float64 differ; tp_cast one of them"},
    {"avg_pool_grad", "size_h 2;size_w 2", "f32(2,4,4,3) f64(2,8,8,3)", "!input 0 is float32, input 1 is float64; tp_cast one of them"},
    {"avg_pool_grad", "size_h 2;size_w 2", "f32(2,4,4,3) i32(2,8,8,3)", "!input 0 is float32, input 1 is int32; tp_cast one of them"},
    {"max_pool_grad", "size_h 2;size_w 2", "f32(2,4,4,3) u8(2,4,4,3) f64(2,8,8,3)", "!input 0 is float32, input 2 is float64; tp_cast one of them"},
    {"max_pool_grad", "size_h 2;size_w 2", "f32(2,4,4,3) u8(2,4,4,2) f32(2,8,8,3)", "!max_pool_grad: input 1 is uint8 (2,4,4,2), it should be uint8 (2,4,4,3)"},
    {"max_pool_grad", "size_h 2;size_w 2", "f32(2,4,4,3) u8(2,4,4) f32(2,8,8,3)", "!max_pool_grad: input 1 is uint8 (2,4,4), it should be uint8 (2,4,4,3)"},
    {"max_pool_grad", "size_h 2;size_w 2", "f32(2,4,4,3) i32(2,4,4,3) f32(2,8,8,3)", "!max_pool_grad: input 1 is int32 (2,4,4,3), it should be uint8 (2,4,4,3)"},
    {"max_pool_grad", "size_h 2;size_w 2", "f32(2,4,4,3) f32(2,4,4,3) f32(2,8,8,3)", "!max_pool_grad: input 1 is float32 (2,4,4,3), it should be uint8 (2,4,4,3)"},
    {"max_pool_grad", "size_h 17;size_w 17", "f32(2,1,1,3) u8(2,1,1,3) f32(2,17,17,3)", "!max_pool_grad: input 1 is uint8 (2,1,1,3), it should be int32 (2,1,1,3)"},
    {"max_pool_grad", "size_h 16;size_w 16", "f32(2,1,1,3) u8(2,1,1,3) f32(2,17,17,3)", "f32(2,17,17,3)"},
    {"max_pool_grad", "size_h 2;size_w 2", "f32(?,4,4,3) u8(2,?,4,3) f32(2,8,8,?)", "f32(2,8,8,?)"},
    {"max_pool_take", "size_h 2;size_w 2", "f32(2,8,8,3) u8(2,4,?,3)", "f32(2,4,4,3)"},
    {"max_pool_take", "size_h 2;size_w 2", "f32(2,8,8,3) u8(1,4,4,3)", "!max_pool_take: input 1 is uint8 (1,4,4,3), it should be uint8 (2,4,4,3)"},
    {"max_pool_take", "size_h 2;size_w 2", "f32(2,8,8,3) i32(2,4,4,3)", "!max_pool_take: input 1 is int32 (2,4,4,3), it should be uint8 (2,4,4,3)"},
    {"bilinear_sampler_grad", "", "f32(2,4,4,3) f32(2,5,6,3) f32(2,4,4,2)", "f32(2,5,6,3) f32(2,4,4,2)"},
    {"bilinear_sampler_grad", "", "f32(2,4,?,3) f32(?,5,6,3) f32(2,4,4,2)", "f32(?,5,6,3) f32(2,4,4,2)"},
    {"bilinear_sampler_grad", "", "f32(2,4,4,2) f32(2,5,6,3) f32(2,4,4,2)", "!bilinear_sampler_grad: input 0 is float32 (2,4,4,2), it should be float32 (2,4,4,3)"},
    {"bilinear_sampler_grad", "", "f64(2,4,4,3) f32(2,5,6,3) f32(2,4,4,2)", "!bilinear_sampler_grad: input 0 is float64 (2,4,4,3), it should be float32 (2,4,4,3)"},
    {"bilinear_sampler_grad", "", "f32(2,4,4,3) f32(1,5,6,3) f32(2,4,4,2)", "!the image is (1,5,6,3) and coords (2,4,4,2): needs (B,H,W,C), with pixels, and (B,H2,W2,2) of one element type"},
    {"bilinear_sampler_grad", "", "f32(2,4,4,3) f32(2,5,6,3) f32(2,4,4,3)", "!the image is (2,5,6,3) and coords (2,4,4,3): needs (B,H,W,C), with pixels, and (B,H2,W2,2) of one element type"},
    {"bilinear_sampler_grad", "border 2", "f32(2,4,4,3) f32(2,5,6,3) f32(2,4,4,2)", "!border 2 is no tp_border"},
    {"batch_norm_grad", "axis 1", "f32(2,2) f32(2,3) f32(3) f32(3) f32(3)", "!batch_norm_grad: input 0 is float32 (2,2), it should be float32 (2,3)"},
    {"batch_norm_grad", "axis 1", "f32(6) f32(2,3) f32(3) f32(3) f32(3)", "!batch_norm_grad: input 0 is float32 (6), it should be float32 (2,3)"},
    {"batch_norm_grad", "axis 1", "f64(2,3) f32(2,3) f32(3) f32(3) f32(3)", "!batch_norm_grad: input 0 is float64 (2,3), it should be float32 (2,3)"},
    {"batch_norm_grad", "axis 1", "f32(2,?) f32(?,3) f32(3) f32(?) f32(3)", "f32(?,3) f32(3) f32(3)"},
    {"layer_norm_grad", "", "f32(1,3) f32(2,3) f32(3) f32(2) f32(2)", "!layer_norm_grad: input 0 is float32 (1,3), it should be float32 (2,3)"},
    {"layer_norm_grad", "", "f64(2,3) f32(2,3) f32(3) f32(2) f32(2)", "!layer_norm_grad: input 0 is float64 (2,3), it should be float32 (2,3)"},
    {"layer_norm_grad", "", "f32(2,3) f32() f32(3) f32(2) f32(2)", "!layer_norm_grad: input is (), its last axis has nothing to normalise"},
    {"layer_norm_grad", "", "f32(2,3) f32(2,3) f32(2) f32(2) f32(2)", "!layer_norm_grad: gamma is (2), needs one value for each element of the last axis of (2,3)"},
    {"layer_norm_grad", "", "f32(2,3) f32(2,3) f32() f32(2) f32(2)", "!layer_norm_grad: gamma is (), needs one value for each element of the last axis of (2,3)"},
    {"layer_norm_grad", "", "f32(2,3) f32(2,3) f32(3) f32(1) f32(2)", "!layer_norm_grad: input 3 is float32 (1), it should be float32 (2)"},
    {"layer_norm_grad", "", "f32(2,3) f32(2,3) f32(3) f32(2) f32(2,1)", "!layer_norm_grad: input 4 is float32 (2,1), it should be float32 (2)"},
    {"layer_norm_grad", "", "f32(2,3) f32(2,3) f32(3) f32(2) f64(2)", "!layer_norm_grad: input 4 is float64 (2), it should be float32 (2)"},
    {"layer_norm_grad", "", "f32(2,3) f32(?,3) f32(?) f32(2) f32(?)", "f32(?,3) f32(?) f32(?)"},
    {"group_norm_grad", "axis 2;groups 2", "f32(1,3,4) f32(2,3,4) f32(4) f32(2,2) f32(2,2)", "!group_norm_grad: input 0 is float32 (1,3,4), it should be float32 (2,3,4)"},
    {"group_norm_grad", "axis 2;groups 2", "f32(2,3,4) f32(3,4) f32(4) f32(2,2) f32(2,2)", "!group_norm_grad: input is (3,4); it needs samples, a channel axis (2) and another axis"},
    {"group_norm_grad", "axis 2;groups 2", "f32(2,3,4) f32(2,3,4) f32(3) f32(2,2) f32(2,2)", "!group_norm_grad: gamma is float32 (3), needs one float32 for each channel of (2,3,4)"},
    {"group_norm_grad", "axis 2;groups 2", "f32(2,3,4) f32(2,3,4) f64(4) f32(2,2) f32(2,2)", "!group_norm_grad: gamma is float64 (4), needs one float32 for each channel of (2,3,4)"},
    {"group_norm_grad", "axis 2;groups 2", "f32(2,3,4) f32(2,3,4) f32(4) f32(2,1) f32(2,2)", "!group_norm_grad: input 3 is float32 (2,1), it should be float32 (2,2)"},
    {"group_norm_grad", "axis 2;groups 2", "f32(2,3,4) f32(2,3,4) f32(4) f32(2,2) f32(2)", "!group_norm_grad: input 4 is float32 (2), it should be float32 (2,2)"},
    {"group_norm_grad", "axis 2;groups 0", "f32(2,3,4) f32(2,3,4) f32(4) f32(2,2) f32(2,2)", "!group_norm_grad: 0 groups do not divide 4 channels into equal parts"},
    {"group_norm_grad", "axis 2;groups -2", "f32(2,3,4) f32(2,3,4) f32(4) f32(2,2) f32(2,2)", "!group_norm_grad: -2 groups do not divide 4 channels into equal parts"},
    {"group_norm_grad", "axis 2;groups 3", "f32(2,3,4) f32(2,3,4) f32(4) f32(2,2) f32(2,2)", "!group_norm_grad: 3 groups do not divide 4 channels into equal parts"},
    {"group_norm_grad", "axis 2;groups 8", "f32(2,3,4) f32(2,3,4) f32(4) f32(2,2) f32(2,2)", "!group_norm_grad: 8 groups do not divide 4 channels into equal parts"},
    {"group_norm_grad", "axis 3;groups 2", "f32(2,3,4) f32(2,3,4) f32(4) f32(2,2) f32(2,2)", "!group_norm_grad: input is (2,3,4); it needs samples, a channel axis (3) and another axis"},
    {"group_norm_grad", "axis 2;groups 2", "f32(?,3,4) f32(2,?,4) f32(4) f32(2,?) f32(?,2)", "f32(2,?,4) f32(4) f32(4)"},
    {"lstm_grad", "", "f32(6,2,5) f32(2,5) f32(2,5) f32(7,2,3) f32(8,20) f32(2,5) f32(2,5) f32(7,2,5) f32(7,2,20) f32(7,2,5)", "!lstm_grad: input 0 is float32 (6,2,5), it should be float32 (7,2,5)"},
    {"lstm_grad", "", "f32(7,2) f32(2,5) f32(2,5) f32(7,2,3) f32(8,20) f32(2,5) f32(2,5) f32(7,2,5) f32(7,2,20) f32(7,2,5)", "!lstm_grad: input 0 is float32 (7,2), it should be float32 (7,2,5)"},
    {"lstm_grad", "", "f32(7,2,5) f32(1,5) f32(2,5) f32(7,2,3) f32(8,20) f32(2,5) f32(2,5) f32(7,2,5) f32(7,2,20) f32(7,2,5)", "!lstm_grad: input 1 is float32 (1,5), it should be float32 (2,5)"},
    {"lstm_grad", "", "f32(7,2,5) f32(2,5) f32(2,4) f32(7,2,3) f32(8,20) f32(2,5) f32(2,5) f32(7,2,5) f32(7,2,20) f32(7,2,5)", "!lstm_grad: input 2 is float32 (2,4), it should be float32 (2,5)"},
    {"lstm_grad", "", "f32(7,2,5) f32(2,5) f32(2,5) f32(7,2,3) f32(8,20) f32(2,5) f32(2,5) f32(7,2,4) f32(7,2,20) f32(7,2,5)", "!lstm_grad: input 7 is float32 (7,2,4), it should be float32 (7,2,5)"},
    {"lstm_grad", "", "f32(7,2,5) f32(2,5) f32(2,5) f32(7,2,3) f32(8,20) f32(2,5) f32(2,5) f32(7,2,5) f32(7,2,15) f32(7,2,5)", "!lstm_grad: input 8 is float32 (7,2,15), it should be float32 (7,2,20)"},
    {"lstm_grad", "", "f32(7,2,5) f32(2,5) f32(2,5) f32(7,2,3) f32(8,20) f32(2,5) f32(2,5) f32(7,2,5) f32(7,2,20) f32(7,1,5)", "!lstm_grad: input 9 is float32 (7,1,5), it should be float32 (7,2,5)"},
    {"lstm_grad", "", "f32(7,2,5) f32(2,5) f32(2,5) f32(7,2,3) f32(8,20) f32(2,5) f32(2,5) f32(7,2,5) f32(7,2,20) f64(7,2,5)", "!lstm_grad: input 9 is float64 (7,2,5), it should be float32 (7,2,5)"},
    {"lstm_grad", "", "f32(7,2,5) f32(2,5) f32(2,5) f32(7,3) f32(8,20) f32(2,5) f32(2,5) f32(7,2,5) f32(7,2,20) f32(7,2,5)", "!lstm_grad: x is (7,3), needs 3 dimensions (time,batch,features)"},
    {"lstm_grad", "", "f32(7,2,5) f32(2,5) f32(2,5) f32(7,2,3) f32(8,16) f32(2,5) f32(2,5) f32(7,2,5) f32(7,2,20) f32(7,2,5)", "!lstm_grad: the kernel is (8,16); (7,2,3) inputs and 5 units need (8,20)"},
    {"lstm_grad", "", "f32(7,2,5) f32(2,5) f32(2,5) f32(7,2,3) f32(20) f32(2,5) f32(2,5) f32(7,2,5) f32(7,2,20) f32(7,2,5)", "!lstm_grad: the kernel is (20); (7,2,3) inputs and 5 units need (8,20)"},
    {"lstm_grad", "", "f32(7,2,5) f32(2,5) f32(2,5) f32(7,2,3) f32(8,20) f32(3,5) f32(2,5) f32(7,2,5) f32(7,2,20) f32(7,2,5)", "!lstm_grad: state h0 is (3,5), needs (batch,units) for x (7,2,3)"},
    {"lstm_grad", "", "f32(7,2,5) f32(2,5) f32(2,5) f32(7,2,3) f32(8,20) f32(2,5) f32(2,4) f32(7,2,5) f32(7,2,20) f32(7,2,5)", "!lstm_grad: state c0 is (2,4), needs (batch,units) for x (7,2,3) and h0 (2,5)"},
    {"lstm_grad", "batch_major 1", "f32(7,2,5) f32(2,5) f32(2,5) f32(7,2,3) f32(8,20) f32(2,5) f32(2,5) f32(7,2,5) f32(7,2,20) f32(7,2,5)", "!lstm_grad: state h0 is (2,5), needs (batch,units) for x (7,2,3)"},
    {"lstm_grad", "", "f32(7,?,5) f32(2,?) f32(2,5) f32(7,2,3) f32(?,20) f32(2,5) f32(2,5) f32(7,2,5) f32(?,?,?) f32(7,2,?)", "f32(7,2,3) f32(?,20) f32(20) f32(2,5) f32(2,5)"},
    {"gru_grad", "", "f32(7,2,4) f32(2,5) f32(7,2,3) f32(8,10) f32(8,5) f32(2,5) f32(7,2,5) f32(7,2,15)", "!gru_grad: input 0 is float32 (7,2,4), it should be float32 (7,2,5)"},
    {"gru_grad", "", "f32(7,2,5) f32(2,6) f32(7,2,3) f32(8,10) f32(8,5) f32(2,5) f32(7,2,5) f32(7,2,15)", "!gru_grad: input 1 is float32 (2,6), it should be float32 (2,5)"},
    {"gru_grad", "", "f32(7,2,5) f32(2,5) f32(7,2,3) f32(8,10) f32(8,5) f32(2,5) f32(7,1,5) f32(7,2,15)", "!gru_grad: input 6 is float32 (7,1,5), it should be float32 (7,2,5)"},
    {"gru_grad", "", "f32(7,2,5) f32(2,5) f32(7,2,3) f32(8,10) f32(8,5) f32(2,5) f32(7,2,5) f32(7,2,10)", "!gru_grad: input 7 is float32 (7,2,10), it should be float32 (7,2,15)"},
    {"gru_grad", "", "f32(7,2,5) f32(2,5) f32(7,3) f32(8,10) f32(8,5) f32(2,5) f32(7,2,5) f32(7,2,15)", "!gru_grad: x is (7,3), needs 3 dimensions (time,batch,features)"},
    {"gru_grad", "", "f32(7,2,5) f32(2,5) f32(7,2,3) f32(8,5) f32(8,5) f32(2,5) f32(7,2,5) f32(7,2,15)", "!gru_grad: the gates' kernel is (8,5); (7,2,3) inputs and 5 units need (8,10)"},
    {"gru_grad", "", "f32(7,2,5) f32(2,5) f32(7,2,3) f32(8,10) f32(7,5) f32(2,5) f32(7,2,5) f32(7,2,15)", "!gru_grad: the candidate's kernel is (7,5); (7,2,3) inputs and 5 units need (8,5)"},
    {"gru_grad", "", "f32(7,2,5) f32(2,5) f32(7,2,3) f32(8,10) f32(8,5) f32(1,5) f32(7,2,5) f32(7,2,15)", "!gru_grad: state h0 is (1,5), needs (batch,units) for x (7,2,3)"},
    {"gru_grad", "", "f32(?,2,5) f32(2,5) f32(7,2,3) f32(8,?) f32(8,5) f32(2,5) f32(7,2,5) f32(?,?,15)", "f32(7,2,3) f32(8,?) f32(?) f32(8,5) f32(5) f32(2,5)"},
    {"attention_grad", "heads 2", "f32(3,4,8) f32(3,5,8) f32(3,7,8) f32(3,7,8) f32(3,5,8) f32(3,2,5)", "!attention_grad: input 0 is float32 (3,4,8), it should be float32 (3,5,8)"},
    {"attention_grad", "heads 2", "f32(5,8) f32(3,5,8) f32(3,7,8) f32(3,7,8) f32(3,5,8) f32(3,2,5)", "!attention_grad: input 0 is float32 (5,8), it should be float32 (3,5,8)"},
    {"attention_grad", "heads 2", "f32(3,5,8) f32(3,5,8) f32(3,7,8) f32(3,7,8) f32(3,5,4) f32(3,2,5)", "!attention_grad: input 4 is float32 (3,5,4), it should be float32 (3,5,8)"},
    {"attention_grad", "heads 2", "f32(3,5,8) f32(3,5,8) f32(3,7,8) f32(3,7,8) f32(3,5,8) f32(3,4,5)", "!attention_grad: input 5 is float32 (3,4,5), it should be float32 (3,2,5)"},
    {"attention_grad", "heads 2", "f32(3,5,8) f32(3,5,8) f32(3,7,8) f32(3,7,8) f32(3,5,8) f64(3,2,5)", "!attention_grad: input 5 is float64 (3,2,5), it should be float32 (3,2,5)"},
    {"attention_grad", "heads 2", "f32(3,5,8) f32(2,5,8) f32(3,7,8) f32(3,7,8) f32(3,5,8) f32(3,2,5)", "!attention_grad: q is (2,5,8), k (3,7,8), v (3,7,8); needs (B,Tq,C), (B,Tk,C), (B,Tk,C)"},
    {"attention_grad", "heads 2", "f32(3,5,8) f32(3,5,8) f32(3,7,8) f32(3,6,8) f32(3,5,8) f32(3,2,5)", "!attention_grad: q is (3,5,8), k (3,7,8), v (3,6,8); needs (B,Tq,C), (B,Tk,C), (B,Tk,C)"},
    {"attention_grad", "heads 0", "f32(3,5,8) f32(3,5,8) f32(3,7,8) f32(3,7,8) f32(3,5,8) f32(3,2,5)", "!attention_grad: 0 heads do not divide the 8 elements of (3,5,8)"},
    {"attention_grad", "heads 3", "f32(3,5,8) f32(3,5,8) f32(3,7,8) f32(3,7,8) f32(3,5,8) f32(3,2,5)", "!attention_grad: 3 heads do not divide the 8 elements of (3,5,8)"},
    {"attention_grad", "heads 2", "f32(?,5,8) f32(3,5,8) f32(3,7,8) f32(3,7,8) f32(3,?,8) f32(?,2,?)", "f32(3,5,8) f32(3,7,8) f32(3,7,8)"},
};
TEST(rules_of_gradients) { check_rules(gradients, (int)TP_COUNT(gradients)); }

static const rule variables[] = {
    {"constant", "dtype float32;shape 1 3", "", "!needs more than its attributes: tp_constant makes one"},
    {"variable", "dtype float32;shape 1 3", "", "!needs more than its attributes: tp_get_variable makes one"},
    {"placeholder", "dtype float32;shape 1 3", "", "f32(3)"},
    {"assign", "", "bool(2) | bool(2)", "bool(2)"},
    {"assign", "", "f32(?,3) bool() | f32(2,3)", "f32(2,3)"},
    {"assign", "", "f32(2)", "!assign writes one variable, not 0"},
    {"assign", "", "f32(2) | f32(2) f32(2)", "!assign writes one variable, not 2"},
    {"assign", "", "f32(3) | f32(2)", "!assign: a value of float32 (3) does not fit the variable, which is float32 (2)"},
    {"assign_add", "", "u8(2) | u8(2)", "!assign_add does not work on uint8"},
    {"assign_sub", "", "bool(2) | bool(2)", "!assign_sub does not work on bool"},
    {"assign_add", "", "f64(2) | f32(2)", "!assign_add: a value of float64 (2) does not fit the variable, which is float32 (2)"},
    {"assign_sub", "", "i64(2) f32() | i64(2)", "!assign_sub: the predicate is float32 (), it must be a scalar bool"},
    {"assign", "", "f32(2) bool(1) | f32(2)", "!assign: the predicate is bool (1), it must be a scalar bool"},
    {"assign_moving_average", "decay 0.9", "f64(2) | f64(2)", "f64(2)"},
    {"assign_moving_average", "decay 0.9", "i32(2) | i32(2)", "!assign_moving_average: the variable is int32"},
    {"read_after", "", "bool(0) | f64(2,3)", "f64(2,3)"},
    {"read_after", "", "bool(0)", "!read_after reads one variable, not 0"},
    {"ema_debias", "decay 0.9", "f32() | f32() f32()", "f32()"},
    {"ema_debias", "decay 0.9", "f32(1) | f32() f32()", "!ema_debias takes a float32 scalar and two variables"},
    {"ema_debias", "decay 0.9", "f64() | f32() f32()", "!ema_debias takes a float32 scalar and two variables"},
    {"ema_debias", "decay 0.9", "f32() | f32()", "!ema_debias takes a float32 scalar and two variables"},
    {"ema_debias", "decay 0.9", "f32() | f64() f32()", "!ema_debias takes a float32 scalar and two variables, which are such too"},
    {"ema_debias", "decay 0.9", "f32() | f32() u8()", "!ema_debias takes a float32 scalar and two variables, which are such too"},
    {"ema_debias", "decay 0.9", "f32() | f32() f32(0)", "!ema_debias takes a float32 scalar and two variables, which are such too"},
    {"apply_gradient_descent", "n 2", "f32(2) f32(3) f32() | f32(2) f32(3)", "bool(0)"},
    {"apply_gradient_descent", "n 1", "f32(2) f32() bool() | f32(2)", "bool(0)"},
    {"apply_gradient_descent", "n 1", "f32(2) f32() f32() | f32(2)", "!apply_gradient_descent: the predicate is float32 (), it must be a scalar bool"},
    {"apply_gradient_descent", "n 0", "f32(2) f32() | f32(2)", "!apply_gradient_descent: 0 gradients, 2 inputs and 1 variables do not fit together"},
    {"apply_gradient_descent", "n 2", "f32(2) f32() | f32(2)", "!apply_gradient_descent: 2 gradients, 2 inputs and 1 variables do not fit together"},
    {"apply_gradient_descent", "n 2", "f32(2) f32(2) | f32(2) f32(2)", "!apply_gradient_descent: 2 gradients, 2 inputs and 2 variables do not fit together"},
    {"apply_gradient_descent", "n 1", "f32(2) f32() bool() bool() | f32(2)", "!apply_gradient_descent: 1 gradients, 4 inputs and 1 variables do not fit together"},
    {"apply_gradient_descent", "n 1", "f32(2) f32() | f32(2) f32(2)", "!apply_gradient_descent: 1 gradients, 2 inputs and 2 variables do not fit together"},
    {"apply_gradient_descent", "n 1", "i32(2) i32() | i32(2)", "!apply_gradient_descent: variable 0 is int32"},
    {"apply_gradient_descent", "n 1", "f32(3) f32() | f32(2)", "!apply_gradient_descent: gradient 0 is float32 (3), its variable is float32 (2)"},
    {"apply_gradient_descent", "n 1", "f64(2) f32() | f32(2)", "!apply_gradient_descent: gradient 0 is float64 (2), its variable is float32 (2)"},
    {"apply_gradient_descent", "n 1", "f32(2) f32(1) | f32(2)", "!apply_gradient_descent: the learning rate and powers must be float32 scalars, input 1 is float32 (1)"},
    {"apply_gradient_descent", "n 1", "f32(2) f64() | f32(2)", "!the learning rate and powers must be float32 scalars, input 1 is float64 ()"},
    {"apply_momentum", "n 1", "f32(2) f32() | f32(2) f32(2)", "bool(0)"},
    {"apply_momentum", "n 1", "f32(2) f32() | f32(2)", "!apply_momentum: 1 gradients, 2 inputs and 1 variables do not fit together"},
    {"apply_momentum", "n 2", "f32(2) f32(3) f32() | f32(2) f32(3) f32(2) f32(2)", "!apply_momentum: gradient 1 is float32 (3), its variable is float32 (2)"},
    {"apply_adam", "n 1", "f64(2) f64() f64() f64() | f64(2) f64(2) f64(2)", "bool(0)"},
    {"apply_adam", "n 1", "f32(2) f32() f32() f64() | f32(2) f32(2) f32(2)", "!the learning rate and powers must be float32 scalars, input 3 is float64 ()"},
    {"apply_adam", "n 1", "f32(2) f32() f32() f32() i32() | f32(2) f32(2) f32(2)", "!apply_adam: the predicate is int32 (), it must be a scalar bool"},
    {"apply_adam", "n 1", "f32(2) f32() f32() | f32(2) f32(2) f32(2)", "!apply_adam: 1 gradients, 3 inputs and 3 variables do not fit together"},
};
TEST(rules_of_variables) { check_rules(variables, (int)TP_COUNT(variables)); }
/* clang-format on */

/* ==== >>work ========================================================================================== */

/* Operations that a row counts for these inputs, outputs and, behind the bar, variables: 2 for each product and sum of
 * what is a sum of products, and what the loops do for each element elsewhere. */
typedef struct work {
    const char *row, *attrs, *in, *out;
    double count;
} work;

static int read_operands(const char **p, tp_operand *x)
{
    int n = 0;
    tp_dtype dtype;
    tp_shape s;
    for (; read_type(p, &dtype, &s); n++) {
        memset(&x[n], 0, sizeof x[n]);
        x[n].dtype = dtype;
        x[n].shape = s;
    }
    while (**p == ' ' || **p == '|') (*p)++;
    return n;
}

/* clang-format off */
static const work works[] = {
    {"add", "", "f32(4,5) f32(5)", "f32(4,5)", 20},
    {"reduce_sum", "", "f32(4,5)", "f32()", 20},
    {"reduce_mean", "axes 0;n_axes 1", "f32(4,5)", "f32(5)", 20},
    {"reduce_max", "", "f32(4,5)", "f32()", 20},
    {"reduce_min", "", "f32(4,5)", "f32()", 20},
    {"reduce_prod", "", "f32(4,5)", "f32()", 20},
    {"reduce_all", "", "bool(4,5)", "bool()", 20},
    {"sum_to_like", "", "f32(4,5) f32(5)", "f32(5)", 20},
    {"add_n", "", "f32(4,5) f32(4,5) f32(4,5)", "f32(4,5)", 40},
    {"all_reduce", "", "f32(4,5) f32(4,5) f32(4,5)", "f32(4,5) f32(4,5) f32(4,5)", 60},
    {"l2_loss", "", "f32(4,5)", "f32()", 40},
    {"global_norm", "", "f32(4,5) f32(3)", "f32()", 46},
    {"zero_fraction", "", "f32(4,5)", "f32()", 20},
    {"argmax", "axis 0", "f32(4,5)", "i64(5)", 20},
    {"top_k", "k 3", "f32(4,5)", "f32(4,3) i32(4,3)", 60},
    {"in_top_k", "k 3", "f32(4,5) i32(4)", "bool(4)", 20},
    {"reshape", "", "f32(4,5)", "f32(20)", 0},
    {"transpose", "", "f32(4,5)", "f32(5,4)", 0},
    {"size_ratio", "", "f32(4,5) f32(5)", "f32()", 0},
    {"gather", "", "f32(4,5) i32(2)", "f32(2,5)", 0},
    {"gather_grad", "", "f32(2,5) i32(2) f32(4,5)", "f32(4,5)", 10},
    {"pad_grad", "before 1", "f32(5,5) f32(4,5)", "f32(4,5)", 25},
    {"tile_grad", "multiples 2 1", "f32(8,5) f32(4,5)", "f32(4,5)", 40},
    {"matmul", "", "f32(3,4) f32(4,5)", "f32(3,5)", 2.0 * 3 * 4 * 5},
    {"matmul", "transpose_a 1;transpose_b 1", "f32(4,3) f32(5,4)", "f32(3,5)", 2.0 * 3 * 4 * 5},
    {"matmul", "", "f32(6,1,3,4) f32(7,4,5)", "f32(6,7,3,5)", 2.0 * 6 * 7 * 3 * 4 * 5},
    {"conv2d", "padding 1;groups 2", "f32(2,8,9,4) f32(3,5,2,6)", "f32(2,8,9,6)", 2.0 * 2 * 8 * 9 * 3 * 5 * 2 * 6},
    {"conv2d", "padding 2;data_format 2;stride_h 2", "f32(2,4,8,9) f32(3,5,4,6)", "f32(2,6,3,5)", 2.0 * 2 * 3 * 5 * 3 * 5 * 4 * 6},
    {"conv2d_input_grad", "padding 2", "f32(2,6,5,6) f32(3,5,4,6) f32(2,8,9,4)", "f32(2,8,9,4)", 2.0 * 2 * 6 * 5 * 3 * 5 * 4 * 6},
    {"conv2d_filter_grad", "padding 2", "f32(2,8,9,4) f32(2,6,5,6) f32(3,5,4,6)", "f32(3,5,4,6)", 2.0 * 2 * 6 * 5 * 3 * 5 * 4 * 6},
    {"max_pool", "size_h 2;size_w 3", "f32(2,8,9,4)", "f32(2,4,3,4) u8(2,4,3,4)", 2.0 * 4 * 3 * 4 * 6},
    {"avg_pool", "size_h 2;size_w 3", "f32(2,8,9,4)", "f32(2,4,3,4)", 2.0 * 4 * 3 * 4 * 6},
    {"resize_grad", "out_h 4;out_w 4", "f32(1,4,4,3) f32(1,2,2,3)", "f32(1,2,2,3)", 48},
    {"bilinear_sampler", "", "f32(1,4,4,3) f32(1,2,2,2)", "f32(1,2,2,3)", 8 * 12},
    {"batch_norm", "axis 1", "f32(7,3) f32(3) f32(3)", "f32(7,3) f32(3) f32(3) f32(3)", 8 * 21},
    {"layer_norm", "", "f32(7,3) f32(3) f32(3)", "f32(7,3) f32(7) f32(7)", 8 * 21},
    {"group_norm", "axis 2;groups 3", "f32(7,2,3) f32(3) f32(3)", "f32(7,2,3) f32(7,3) f32(7,3)", 8 * 42},
    {"softmax", "", "f32(7,3)", "f32(7,3)", 5 * 21},
    {"sparse_softmax_cross_entropy", "", "f32(7,3) i32(7)", "f32(7) f32(7,3)", 5 * 21},
    {"ctc_loss", "", "f32(9,2,5) i32(2,4) i32(2) i32(2)", "f32(2) f32(9,2,5)", 9 * 2 * 5 * 6 + 9 * 2 * 4 * 40},
    {"lstm", "", "f32(7,2,3) f32(8,20) f32(20) f32(2,5) f32(2,5)", "f32(7,2,5) f32(2,5) f32(2,5) f32(7,2,20) f32(7,2,5)", 2.0 * 4 * 5 * (3 + 5) * 7 * 2},
    {"lstm", "", "f32(9,3) f32(8,20) f32(20) f32(2,5) f32(2,5) i32(7,2)", "f32(7,2,5) f32(2,5) f32(2,5) f32(7,2,20) f32(7,2,5)", 2.0 * 4 * 5 * (9 * 3 + 7 * 2 * 5)},
    {"lstm_grad", "", "f32(7,2,5) f32(2,5) f32(2,5) f32(7,2,3) f32(8,20) f32(2,5) f32(2,5) f32(7,2,5) f32(7,2,20) f32(7,2,5)", "f32(7,2,3) f32(8,20) f32(20) f32(2,5) f32(2,5)", 4.0 * 4 * 5 * (3 + 5) * 7 * 2},
    {"lstm_grad", "", "f32(7,2,5) f32(2,5) f32(2,5) f32(9,3) f32(8,20) f32(2,5) f32(2,5) f32(7,2,5) f32(7,2,20) f32(7,2,5) i32(7,2)", "f32(7,2,3) f32(8,20) f32(20) f32(2,5) f32(2,5) f32(9,3)", 4.0 * 4 * 5 * (9 * 3 + 7 * 2 * 5)},
    {"gru", "", "f32(7,2,3) f32(8,10) f32(10) f32(8,5) f32(5) f32(2,5)", "f32(7,2,5) f32(2,5) f32(7,2,15)", 2.0 * 3 * 5 * (3 + 5) * 7 * 2},
    {"gru", "", "f32(9,3) f32(8,10) f32(10) f32(8,5) f32(5) f32(2,5) i32(7,2)", "f32(7,2,5) f32(2,5) f32(7,2,15)", 2.0 * 3 * 5 * (9 * 3 + 7 * 2 * 5)},
    {"gru_grad", "", "f32(7,2,5) f32(2,5) f32(7,2,3) f32(8,10) f32(8,5) f32(2,5) f32(7,2,5) f32(7,2,15)", "f32(7,2,3) f32(8,10) f32(10) f32(8,5) f32(5) f32(2,5)", 4.0 * 3 * 5 * (3 + 5) * 7 * 2},
    {"attention", "heads 2", "f32(3,5,8) f32(3,7,8) f32(3,7,8)", "f32(3,5,8) f32(3,2,5)", 4.0 * 3 * 5 * 7 * 8},
    {"attention_grad", "heads 2", "f32(3,5,8) f32(3,5,8) f32(3,7,8) f32(3,7,8) f32(3,5,8) f32(3,2,5)", "f32(3,5,8) f32(3,7,8) f32(3,7,8)", 10.0 * 3 * 5 * 7 * 8},
    {"apply_gradient_descent", "n 2", "f32(2) f32(3) f32() | f32(2) f32(3)", "bool(0)", 2 * 5},
    {"apply_momentum", "n 1", "f32(5) f32() | f32(5) f32(5)", "bool(0)", 4 * 5},
    {"apply_adam", "n 2", "f32(5) f32(2) f32() f32() f32() | f32(5) f32(2) f32(5) f32(2) f32(5) f32(2)", "bool(0)", 10 * 7},
};
/* clang-format on */

TEST(work_of_each_row)
{
    for (int i = 0; i < TP_COUNT(works); i++) {
        const work *w = &works[i];
        const tp_op *row = tp_op_find(w->row);
        tp_operand x[3 * MAX_VALUES];
        op_case c;
        tp_call k;
        memset(&k, 0, sizeof k);
        read_attrs(&c, w->row, w->attrs);
        const char *in = w->in, *out = w->out;
        k.n_in = read_operands(&in, x);
        k.in = x;
        k.out = x + k.n_in;
        k.n_out = read_operands(&out, x + k.n_in);
        k.var = x + k.n_in + k.n_out;
        k.n_var = read_operands(&in, x + k.n_in + k.n_out);
        if (!CHECK_MSG(row != NULL, "there is no row '%s'", w->row)) continue;
        void *attrs = calloc(row->attr_size + 1, 1);
        if (attrs && fill_attrs(&c, row, false, attrs)) {
            k.op = row;
            k.attrs = attrs;
            const double got = row->flops ? row->flops(&k) : (double)tp_shape_size(&k.out[0].shape);
            CHECK_MSG(got == w->count, "%s %s: %g, expected %g", w->row, w->in, got, w->count);
        }
        free(attrs);
    }
}

TEST_MAIN()
