/* tp_export.h - v0.1 - a trained model as one C file
 *
 * Do this:
 *     #define TP_IMPLEMENTATION        // in ONE .c file, before any other include
 *     #include "tp_export.h"           // pulls in tp_graph.h
 *
 * WHAT THIS IS       tp_export_c writes the part of a graph between some inputs and some outputs, with the variables'
 *                    values, as C99 that needs nothing but libm: no malloc, no threads, its memory one static array whose
 *                    size stands in the file. It is what the session computes by its naive loops, fused the same way, so
 *                    that a microcontroller says what the training program said.
 * WHAT THIS IS NOT   fast: the loops are the definitions. Only float32 values are exported, and the ops of feed-forward
 *                    networks; an op without a C form is named in the error.
 *
 * A COMPLETE PROGRAM
 *     #define TP_IMPLEMENTATION
 *     #include "tp_export.h"
 *     int main(void)
 *     {
 *         tp_graph *g = tp_graph_new(NULL);
 *         tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 3));
 *         tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(3, 2), tp_init_ones());
 *         tp_node *y = tp_named(tp_softmax(tp_matmul(x, w)), "prob");
 *         tp_session *s = tp_session_new(g, NULL);
 *         if (!s || tp_export_c(s, &x, 1, &y, 1, "model.c", NULL) != TP_OK) puts(tp_last_error());
 *         tp_session_free(s); // model.c: void model(const float *x, float *prob), and model.h's text in its first comment
 *         tp_graph_free(g);
 *         return 0;
 *     }
 *
 * ERRORS     a status and a sentence in tp_last_error(). The file appears whole or not at all.
 */
#ifndef TP_EXPORT_H
#define TP_EXPORT_H

#include "tp_graph.h"
/* clang-format off */
#if TP_VERSION_MAJOR != 0 || TP_VERSION_MINOR != 1
#error "tp_export.h 0.1 needs tp_tensor.h 0.1: copy all tp headers from the same version"
#endif
/* clang-format on */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tp_export_c_desc {
    const char *name; /* of the function, and what its file's names begin with; NULL = "model" */
    int64_t batch;    /* what an unknown dimension of an input becomes; 0 = 1 */
} tp_export_c_desc;
typedef struct tp_export_c_info {
    size_t ram, flash; /* bytes of the static array, bytes of the constants */
    int kernels;
} tp_export_c_info;
/* void <name>(const float *<input>, ..., float *<output>, ...): inputs and outputs in this order, called after their
 * nodes, row-major. d and info may be NULL. Variables are written as they are now. [beyond: C export] */
TP_DEF tp_status tp_export_c(tp_session *s, tp_node *const *inputs, int n_inputs, tp_node *const *outputs,
                             int n_outputs, const char *path, const tp_export_c_desc *d);
TP_DEF tp_status tp_export_c_text(tp_session *s, tp_node *const *inputs, int n_inputs, tp_node *const *outputs,
                                  int n_outputs, tp_buf *out, const tp_export_c_desc *d, tp_export_c_info *info);

#ifdef __cplusplus
}
#endif
#endif /* TP_EXPORT_H */

/* ===== STOP HERE if you only want to use the library. Everything below is implementation. ===== */
#if defined(TP_IMPLEMENTATION) && !defined(TP__EXPORT_IMPLEMENTED)
#define TP__EXPORT_IMPLEMENTED
TP__COLD_BEGIN

/* What is being written: declarations of constants first, then helpers that are used, then the function. */
typedef struct tp__c_writer {
    const tp__plan *plan;
    const tp_exec *exec;
    const char *name;
    tp_buf constants, body;
    int *constant; /* buffer -> number of its array, or -1 */
    int n_constant;
    size_t flash;
    unsigned helpers;
} tp__c_writer;

enum { TP__C_CONV = 1, TP__C_MATMUL = 2, TP__C_POOL = 4, TP__C_SOFTMAX = 8, TP__C_MOVE = 16, TP__C_REDUCE = 32 };

/* The helpers: naive loops, with every size and distance given. */
static const char *const tp__c_helper[] = {
    "static void conv2d(const float *x, const float *w, const float *bias, float *y, const int *g, int relu)\n"
    "{ /* g: B C H W O KH KW OH OW, strides, dilations, top, left, groups, distances in x and in y of b, h, w, c */\n"
    "    const int cg = g[1] / g[15];\n"
    "    int b, i, j, o, p, q, c;\n"
    "    for (b = 0; b < g[0]; b++)\n"
    "        for (i = 0; i < g[7]; i++)\n"
    "            for (j = 0; j < g[8]; j++)\n"
    "                for (o = 0; o < g[4]; o++) {\n"
    "                    float sum = 0.0f;\n"
    "                    const int c0 = o / (g[4] / g[15]) * cg;\n"
    "                    for (p = 0; p < g[5]; p++)\n"
    "                        for (q = 0; q < g[6]; q++) {\n"
    "                            const int h = i * g[9] + p * g[11] - g[13], v = j * g[10] + q * g[12] - g[14];\n"
    "                            if (h < 0 || h >= g[2] || v < 0 || v >= g[3]) continue;\n"
    "                            for (c = 0; c < cg; c++)\n"
    "                                sum += x[b * g[16] + h * g[17] + v * g[18] + (c0 + c) * g[19]] *\n"
    "                                       w[((p * g[6] + q) * cg + c) * g[4] + o];\n"
    "                        }\n"
    "                    if (bias) sum += bias[o];\n"
    "                    y[b * g[20] + i * g[21] + j * g[22] + o * g[23]] = relu && sum < 0.0f ? 0.0f : sum;\n"
    "                }\n"
    "}\n",
    "static void matmul(const float *a, const float *b, const float *bias, float *y, const int *g, int relu)\n"
    "{ /* g: M N K, distances in a of m, k and in b of k, n */\n"
    "    int m, n, k;\n"
    "    for (m = 0; m < g[0]; m++)\n"
    "        for (n = 0; n < g[1]; n++) {\n"
    "            float sum = 0.0f;\n"
    "            for (k = 0; k < g[2]; k++) sum += a[m * g[3] + k * g[4]] * b[k * g[5] + n * g[6]];\n"
    "            if (bias) sum += bias[n];\n"
    "            y[m * g[1] + n] = relu && sum < 0.0f ? 0.0f : sum;\n"
    "        }\n"
    "}\n",
    "static void pool(const float *x, float *y, const int *g, int mean)\n"
    "{ /* g: B C H W OH OW, window, strides, top, left, distances in x and in y of b, h, w, c */\n"
    "    int b, i, j, c, p, q;\n"
    "    for (b = 0; b < g[0]; b++)\n"
    "        for (i = 0; i < g[4]; i++)\n"
    "            for (j = 0; j < g[5]; j++)\n"
    "                for (c = 0; c < g[1]; c++) {\n"
    "                    float r = 0.0f;\n"
    "                    int n = 0;\n"
    "                    for (p = 0; p < g[6]; p++)\n"
    "                        for (q = 0; q < g[7]; q++) {\n"
    "                            const int h = i * g[8] + p - g[10], v = j * g[9] + q - g[11];\n"
    "                            float e;\n"
    "                            if (h < 0 || h >= g[2] || v < 0 || v >= g[3]) continue;\n"
    "                            e = x[b * g[12] + h * g[13] + v * g[14] + c * g[15]];\n"
    "                            if (mean) r += e;\n"
    "                            else if (n == 0 || e > r) r = e;\n"
    "                            n++;\n"
    "                        }\n"
    "                    y[b * g[16] + i * g[17] + j * g[18] + c * g[19]] = mean ? r / (float)n : r;\n"
    "                }\n"
    "}\n",
    "static void softmax(const float *x, float *y, int rows, int n, int logarithm)\n"
    "{\n"
    "    int r, i;\n"
    "    for (r = 0; r < rows; r++, x += n, y += n) {\n"
    "        float most = x[0], sum = 0.0f;\n"
    "        for (i = 1; i < n; i++) most = x[i] > most ? x[i] : most;\n"
    "        for (i = 0; i < n; i++) sum += expf(x[i] - most);\n"
    "        for (i = 0; i < n; i++) y[i] = logarithm ? x[i] - most - logf(sum) : expf(x[i] - most) / sum;\n"
    "    }\n"
    "}\n",
    "static void move(const float *x, float *y, int n, int rank, const int *dim, const int *from, const int *to)\n"
    "{ /* n elements of a box of sizes dim: from and to are the distances of its axes in x and y */\n"
    "    int i, d;\n"
    "    for (i = 0; i < n; i++) {\n"
    "        int rest = i, a = 0, b = 0;\n"
    "        for (d = rank - 1; d >= 0; d--) {\n"
    "            a += rest % dim[d] * from[d];\n"
    "            b += rest % dim[d] * to[d];\n"
    "            rest /= dim[d];\n"
    "        }\n"
    "        y[b] = x[a];\n"
    "    }\n"
    "}\n",
    "static void reduce(const float *x, float *y, int n, int n_out, int rank, const int *dim, const int *to, int "
    "kind)\n"
    "{ /* kind: 0 sum, 1 mean, 2 largest; to: the distances of x's axes in y, 0 where they are reduced */\n"
    "    int i, d;\n"
    "    for (i = 0; i < n_out; i++) y[i] = kind == 2 ? -HUGE_VALF : 0.0f;\n"
    "    for (i = 0; i < n; i++) {\n"
    "        int rest = i, b = 0;\n"
    "        for (d = rank - 1; d >= 0; d--) {\n"
    "            b += rest % dim[d] * to[d];\n"
    "            rest /= dim[d];\n"
    "        }\n"
    "        if (kind == 2) y[b] = x[i] > y[b] ? x[i] : y[b];\n"
    "        else y[b] += x[i];\n"
    "    }\n"
    "    for (i = 0; i < n_out && kind == 1; i++) y[i] /= (float)(n / n_out);\n"
    "}\n"};

/* A float as C: the shortest that reads back as itself. */
static void tp__c_float(tp_buf *out, float v)
{
    char t[40];
    if (v != v) tp_buf_printf(out, "NAN");
    else if (v - v != 0.0f) tp_buf_printf(out, v < 0 ? "-INFINITY" : "INFINITY");
    else {
        for (int digits = 6; digits <= 9; digits += 3) {
            snprintf(t, sizeof t, "%.*g", digits, (double)v);
            if (strtof(t, NULL) == v) break;
        }
        tp_buf_printf(out, "%s%sf", t, strpbrk(t, ".e") ? "" : ".0");
    }
}

/* "conv0/output" -> "conv0_output", which is unique among `n` earlier names. */
static void tp__c_name(char *out, size_t size, const char *name, const char (*before)[64], int n)
{
    size_t k = 0;
    char base[50];
    if (*name >= '0' && *name <= '9') base[k++] = '_';
    for (; *name && k + 2 < sizeof base; name++) base[k++] = isalnum((unsigned char)*name) ? *name : '_';
    base[k] = 0;
    static const char *const taken[] = {
        "conv2d",   "matmul", "pool",     "softmax",  "move",    "reduce", "memcpy", "fabsf",   "powf",   "sqrtf",
        "expf",     "logf",   "sinf",     "cosf",     "erff",    "tanhf",  "log1pf", "expm1f",  "floorf", "ceilf",
        "rintf",    "auto",   "break",    "case",     "char",    "const",  "else",   "default", "do",     "double",
        "enum",     "extern", "float",    "for",      "goto",    "if",     "inline", "int",     "long",   "register",
        "return",   "short",  "signed",   "sizeof",   "static",  "struct", "switch", "typedef", "union",  "void",
        "unsigned", "while",  "restrict", "volatile", "continue"};
    for (int i = 0; i < TP_COUNT(taken); i++)
        if (strcmp(base, taken[i]) == 0) snprintf(base + k, sizeof base - k, "_");
    snprintf(out, size, "%s", base);
    for (int i = 0, tries = 1; i < n; i++)
        if (strcmp(before[i], out) == 0) {
            snprintf(out, size, "%s_%d", base, ++tries);
            i = -1;
        }
}

static int tp__c_root(const tp__plan *p, int b)
{
    while (p->buffer[b].merged >= 0) b = p->buffer[b].merged;
    return b;
}

/* Where a buffer lies, as an expression. Constants and variables become arrays when they are first wanted. */
static void tp__c_pointer(tp__c_writer *w, tp_buf *out, int buffer)
{
    const int b = tp__c_root(w->plan, buffer);
    const tp__buffer *x = &w->plan->buffer[b];
    if (x->where == TP__IN_ARENA) {
        tp_buf_printf(out, "(%s_ram + %llu)", w->name, (unsigned long long)(x->offset / sizeof(float)));
        return;
    }
    int same = b; /* several buffers may stand for one variable */
    for (int i = 0; i < b && x->var; i++)
        if (w->constant[i] >= 0 && w->plan->buffer[i].var == x->var) same = i;
    if (w->constant[same] < 0) {
        const float *v = (const float *)tp__buffer_data(w->plan, w->exec, b);
        const int64_t n = x->bytes / (int64_t)sizeof(float);
        w->constant[same] = w->n_constant++;
        if (x->var) tp_buf_printf(&w->constants, "/* %s */\n", x->var->name);
        tp_buf_printf(&w->constants, "static const float %s_c%d[%lld] = {", w->name, w->constant[same],
                      (long long)(n > 0 ? n : 1));
        for (int64_t i = 0; i < n; i++) {
            tp_buf_printf(&w->constants, i % 8 == 0 ? "\n    " : " ");
            tp__c_float(&w->constants, v[i]);
            tp_buf_printf(&w->constants, i + 1 < n ? "," : "");
        }
        tp_buf_printf(&w->constants, n > 0 ? "};\n" : "0.0f};\n");
        w->flash += (size_t)x->bytes;
    }
    tp_buf_printf(out, "%s_c%d", w->name, w->constant[same]);
}
static void tp__c_operand(tp__c_writer *w, const tp__step *s, int i)
{
    if (s->buffer[i] < 0) tp_buf_printf(&w->body, "0");
    else tp__c_pointer(w, &w->body, s->buffer[i]);
}

static void tp__c_ints(tp_buf *out, const char *name, const int64_t *v, int n)
{
    tp_buf_printf(out, "        static const int %s[] = {", name);
    for (int i = 0; i < n; i++) tp_buf_printf(out, "%s%lld", i ? ", " : "", (long long)v[i]);
    tp_buf_printf(out, n ? "};\n" : "0};\n");
}

/* The C of an element-wise op: %a and %b are operands, %p and %q its attributes. NULL: it has none. */
static const char *tp__c_map(const char *row)
{
    static const char *const map[][2] = {{"add", "%a + %b"},
                                         {"sub", "%a - %b"},
                                         {"mul", "%a * %b"},
                                         {"div", "%a / %b"},
                                         {"maximum", "%a > %b ? %a : %b"},
                                         {"minimum", "%a < %b ? %a : %b"},
                                         {"squared_difference", "(%a - %b) * (%a - %b)"},
                                         {"pow", "powf(%a, %b)"},
                                         {"neg", "-%a"},
                                         {"abs", "fabsf(%a)"},
                                         {"sign", "%a > 0.0f ? 1.0f : %a < 0.0f ? -1.0f : %a"},
                                         {"square", "%a * %a"},
                                         {"affine", "%p * %a + %q"},
                                         {"clip", "%a < %p ? %p : %a > %q ? %q : %a"},
                                         {"sqrt", "sqrtf(%a)"},
                                         {"rsqrt", "1.0f / sqrtf(%a)"},
                                         {"reciprocal", "1.0f / %a"},
                                         {"exp", "expf(%a)"},
                                         {"ln", "logf(%a)"},
                                         {"sin", "sinf(%a)"},
                                         {"cos", "cosf(%a)"},
                                         {"erf", "erff(%a)"},
                                         {"tanh", "tanhf(%a)"},
                                         {"sigmoid", "1.0f / (1.0f + expf(-%a))"},
                                         {"softplus", "(%a > 0.0f ? %a : 0.0f) + log1pf(expf(-fabsf(%a)))"},
                                         {"relu", "0.0f > %a ? 0.0f : %a"},
                                         {"leaky_relu", "%a > 0.0f ? %a : %p * %a"},
                                         {"elu", "%a > 0.0f ? %a : expm1f(%a)"},
                                         {"floor", "floorf(%a)"},
                                         {"ceil", "ceilf(%a)"},
                                         {"round", "rintf(%a)"},
                                         {"copy", "%a"}};
    for (int i = 0; i < TP_COUNT(map); i++)
        if (strcmp(map[i][0], row) == 0) return map[i][1];
    return NULL;
}

/* A fused chain: one loop over its elements. */
static tp_status tp__c_fused(tp__c_writer *w, const tp__step *s)
{
    const tp__program *p = (const tp__program *)s->call.attrs;
    tp_buf *o = &w->body;
    tp_buf_printf(o, "        int i;\n        for (i = 0; i < %lld; i++) {\n", (long long)p->n);
    for (int e = 0; e < p->n_ext; e++) {
        const tp__ext *x = &p->ext[e];
        tp_buf_printf(o, "            const float e%d = ", e);
        tp__c_operand(w, s, e);
        if (x->how == TP__DIRECT) tp_buf_printf(o, "[i];\n");
        else if (x->how == TP__SPLAT) tp_buf_printf(o, "[0];\n");
        else if (x->how == TP__INNER) tp_buf_printf(o, "[i %% %lld];\n", (long long)x->period);
        else if (x->how == TP__OUTER)
            tp_buf_printf(o, "[i / %lld %% %lld];\n", (long long)x->inner, (long long)x->period);
        else {
            int64_t after = 1;
            tp_buf_printf(o, "[0");
            for (int d = p->shape.ndim - 1; d >= 0; after *= p->shape.dim[d], d--)
                if (x->stride[d])
                    tp_buf_printf(o, " + i / %lld %% %lld * %lld", (long long)after, (long long)p->shape.dim[d],
                                  (long long)x->stride[d]);
            tp_buf_printf(o, "];\n");
        }
    }
    for (int j = 0; j < p->n_instr; j++) {
        const tp__instr *t = &p->instr[j];
        const char *form = tp__c_map(t->row->name);
        if (!form)
            return tp_fail(TP_ERR_UNSUPPORTED, "C export: '%s' needs the op '%s', which has no C form", s->name,
                           t->row->name);
        tp_buf_printf(o, "            const float t%d = ", j);
        for (const char *c = form; *c; c++) {
            if (*c != '%') {
                tp_buf_printf(o, "%c", *c);
                continue;
            }
            c++;
            if (*c == 'p' || *c == 'q') {
                tp__c_float(o, ((const float *)t->attrs)[*c - 'p']);
                continue;
            }
            const int a = *c - 'a', from = t->from[a], index = t->in[a];
            if (from == TP__FROM_EXT) {
                tp_buf_printf(o, "e%d", index);
                continue;
            }
            int last = j - 1; /* the newest instruction that wrote there */
            while (last >= 0 && !(p->instr[last].to == from && p->instr[last].out == index)) last--;
            tp_buf_printf(o, "t%d", last);
        }
        tp_buf_printf(o, ";\n");
    }
    for (int k = 0; k < p->n_out; k++) {
        int last = p->n_instr - 1;
        while (last >= 0 && !(p->instr[last].to == TP__FROM_OUT && p->instr[last].out == k)) last--;
        tp_buf_printf(o, "            ");
        tp__c_operand(w, s, p->n_ext + k);
        tp_buf_printf(o, "[i] = t%d;\n", last);
    }
    tp_buf_printf(o, "        }\n");
    return TP_OK;
}

/* Distances between neighbours along each axis of a dense array. */
static void tp__c_strides(const tp_shape *s, int64_t *stride)
{
    int64_t n = 1;
    for (int d = s->ndim - 1; d >= 0; n *= s->dim[d], d--) stride[d] = n;
}

static void tp__c_call(tp__c_writer *w, const tp__step *s, const char *name, int n_in, int out)
{
    tp_buf_printf(&w->body, "        %s(", name);
    for (int i = 0; i < n_in; i++) {
        tp__c_operand(w, s, i);
        tp_buf_printf(&w->body, ", ");
    }
    tp__c_operand(w, s, s->call.n_in + out);
}

/* conv2d or matmul, with the bias and the ReLU that were folded into it. */
static void tp__c_product(tp__c_writer *w, const tp__step *s, const char *name, int bias, int act)
{
    tp_buf *o = &w->body;
    tp_buf_printf(o, "        %s(", name);
    for (int i = 0; i < 3; i++) {
        if (i < 2 || bias) tp__c_operand(w, s, i);
        else tp_buf_printf(o, "0");
        tp_buf_printf(o, ", ");
    }
    tp__c_operand(w, s, s->call.n_in);
    tp_buf_printf(o, ", g, %d);\n", act == TP_EPILOGUE_RELU);
}

/* Move a box of x, whose axes lie `from` apart, into y, where they lie `to` apart and begin at `at`. */
static void tp__c_move(tp__c_writer *w, const tp__step *s, int in, const tp_shape *box, const int64_t *from,
                       const int64_t *to, int64_t at)
{
    tp_buf *o = &w->body;
    w->helpers |= TP__C_MOVE;
    tp_buf_printf(o, "        {\n");
    tp__c_ints(o, "dim", box->dim, box->ndim);
    tp__c_ints(o, "from", from, box->ndim);
    tp__c_ints(o, "to", to, box->ndim);
    tp_buf_printf(o, "        move(");
    tp__c_operand(w, s, in);
    tp_buf_printf(o, ", ");
    tp__c_operand(w, s, s->call.n_in);
    tp_buf_printf(o, " + %lld, %lld, %d, dim, from, to);\n        }\n", (long long)at, (long long)tp_shape_size(box),
                  box->ndim);
}

static tp_status tp__c_step(tp__c_writer *w, const tp__step *s)
{
    const char *row = s->row->name;
    const tp_shape *x = &s->call.in[0].shape, *y = &s->call.out[0].shape;
    tp_buf *o = &w->body;
    for (int i = 0; i < s->call.n_in + s->call.n_out; i++)
        if (s->buffer[i] >= 0 && s->operand[i].dtype != TP_F32)
            return tp_fail(TP_ERR_UNSUPPORTED, "C export: '%s' (%s) has a value of type %s, only float32 is exported",
                           s->name, row, tp_dtype_name(s->operand[i].dtype));
    tp_buf_printf(o, "    { /* %s: %s */\n", s->name, row);
    if (s->row == &tp__op_fused) {
        const tp_status st = tp__c_fused(w, s);
        if (st != TP_OK) return st;
    } else if (s->row == &tp__op_conv2d) {
        const tp_conv2d_attrs *a = (const tp_conv2d_attrs *)s->call.attrs;
        const tp__conv g = tp__conv_geometry(a, x, &s->call.in[1].shape);
        const int64_t v[24] = {g.B,  g.C,   g.H,    g.W,      g.O,  g.KH, g.KW, g.OH, g.OW, g.sh, g.sw, g.dh,
                               g.dw, g.top, g.left, g.groups, g.xb, g.xh, g.xw, g.xc, g.yb, g.yh, g.yw, g.yc};
        w->helpers |= TP__C_CONV;
        tp__c_ints(o, "g", v, 24);
        tp__c_product(w, s, "conv2d", a->fused_bias, a->fused_act);
    } else if (s->row == &tp__op_matmul) {
        const tp__matmul_attrs *a = (const tp__matmul_attrs *)s->call.attrs;
        const tp__matmul_dims d = tp__matmul_sizes(&s->call);
        if (s->call.in[1].shape.ndim != 2 || (a->transpose_a && d.batch != 1))
            return tp_fail(TP_ERR_UNSUPPORTED, "C export: '%s' is a product of many matrices, which has no C form",
                           s->name);
        const int64_t v[7] = {d.M * d.batch,
                              d.N,
                              d.K,
                              a->transpose_a ? 1 : d.K,
                              a->transpose_a ? d.M : 1,
                              a->transpose_b ? 1 : d.N,
                              a->transpose_b ? d.K : 1};
        w->helpers |= TP__C_MATMUL;
        tp__c_ints(o, "g", v, 7);
        tp__c_product(w, s, "matmul", a->fused_bias, a->fused_act);
    } else if (s->row == &tp__op_max_pool || s->row == &tp__op_avg_pool) {
        const tp__pool g = tp__pool_geometry((const tp_pool_attrs *)s->call.attrs, x);
        const int64_t v[20] = {g.B,   g.C,    g.H,  g.W,  g.OH, g.OW, g.kh, g.kw, g.sh, g.sw,
                               g.top, g.left, g.xb, g.xh, g.xw, g.xc, g.yb, g.yh, g.yw, g.yc};
        w->helpers |= TP__C_POOL;
        tp__c_ints(o, "g", v, 20);
        tp__c_call(w, s, "pool", 1, 0);
        tp_buf_printf(o, ", g, %d);\n", s->row == &tp__op_avg_pool);
    } else if (s->row == &tp__op_softmax || s->row == &tp__op_log_softmax) {
        const int64_t n = x->dim[x->ndim - 1];
        w->helpers |= TP__C_SOFTMAX;
        tp__c_call(w, s, "softmax", 1, 0);
        tp_buf_printf(o, ", %lld, %lld, %d);\n", (long long)(tp_shape_size(x) / n), (long long)n,
                      s->row == &tp__op_log_softmax);
    } else if (s->row == &tp__op_bias_add) {
        const int axis = ((const tp__bias_attrs *)s->call.attrs)->data_format == TP_NCHW ? 1 : x->ndim - 1;
        int64_t inner = 1;
        for (int d = axis + 1; d < x->ndim; d++) inner *= x->dim[d];
        tp_buf_printf(o, "        int i;\n        for (i = 0; i < %lld; i++) ", (long long)tp_shape_size(x));
        tp__c_operand(w, s, 2);
        tp_buf_printf(o, "[i] = ");
        tp__c_operand(w, s, 0);
        tp_buf_printf(o, "[i] + ");
        tp__c_operand(w, s, 1);
        tp_buf_printf(o, "[i / %lld %% %lld];\n", (long long)inner, (long long)x->dim[axis]);
    } else if (s->row == &tp__op_batch_norm_infer) {
        const tp__bn_attrs *a = (const tp__bn_attrs *)s->call.attrs;
        const int axis = a->axis < 0 ? a->axis + x->ndim : a->axis;
        int64_t inner = 1;
        for (int d = axis + 1; d < x->ndim; d++) inner *= x->dim[d];
        tp_buf_printf(
            o,
            "        int i;\n        for (i = 0; i < %lld; i++) {\n            const int c = i / %lld %% %lld;\n"
            "            const float v = (",
            (long long)tp_shape_size(x), (long long)inner, (long long)x->dim[axis]);
        tp__c_operand(w, s, 0);
        tp_buf_printf(o, "[i] - ");
        tp__c_operand(w, s, 3);
        tp_buf_printf(o, "[c]) * (");
        tp__c_operand(w, s, 1);
        tp_buf_printf(o, "[c] / sqrtf(");
        tp__c_operand(w, s, 4);
        tp_buf_printf(o, "[c] + ");
        tp__c_float(o, a->epsilon);
        tp_buf_printf(o, ")) + ");
        tp__c_operand(w, s, 2);
        tp_buf_printf(o, "[c];\n            ");
        tp__c_operand(w, s, s->call.n_in);
        tp_buf_printf(o, a->relu_ ? "[i] = v < 0.0f ? 0.0f : v;\n        }\n" : "[i] = v;\n        }\n");
    } else if (s->row == &tp__op_reduce_sum || s->row == &tp__op_reduce_mean || s->row == &tp__op_reduce_max) {
        const tp__reduce_attrs *a = (const tp__reduce_attrs *)s->call.attrs;
        bool reduced[TP_MAX_DIMS];
        int64_t to[TP_MAX_DIMS], n = 1;
        for (int d = 0; d < x->ndim; d++) reduced[d] = a->n_axes == 0;
        for (int i = 0; i < a->n_axes; i++) reduced[a->axes[i] < 0 ? a->axes[i] + x->ndim : a->axes[i]] = true;
        for (int d = x->ndim - 1; d >= 0; d--) {
            to[d] = reduced[d] ? 0 : n;
            if (!reduced[d]) n *= x->dim[d];
        }
        w->helpers |= TP__C_REDUCE;
        tp__c_ints(o, "dim", x->dim, x->ndim);
        tp__c_ints(o, "to", to, x->ndim);
        tp__c_call(w, s, "reduce", 1, 0);
        tp_buf_printf(o, ", %lld, %lld, %d, dim, to, %d);\n", (long long)tp_shape_size(x), (long long)n, x->ndim,
                      s->row == &tp__op_reduce_sum    ? 0
                      : s->row == &tp__op_reduce_mean ? 1
                                                      : 2);
    } else if (s->row == &tp__op_transpose) {
        int perm[TP_MAX_DIMS];
        int64_t in[TP_MAX_DIMS], from[TP_MAX_DIMS], to[TP_MAX_DIMS];
        tp__permutation((const tp__transpose_attrs *)s->call.attrs, x->ndim, perm);
        tp__c_strides(x, in);
        tp__c_strides(y, to);
        for (int d = 0; d < y->ndim; d++) from[d] = in[perm[d]];
        tp__c_move(w, s, 0, y, from, to, 0);
    } else if (s->row == &tp__op_pad && ((const tp__pad_attrs *)s->call.attrs)->mode == TP_PAD_CONSTANT) {
        const tp__pad_attrs *a = (const tp__pad_attrs *)s->call.attrs;
        int64_t from[TP_MAX_DIMS], to[TP_MAX_DIMS], at = 0;
        tp__c_strides(x, from);
        tp__c_strides(y, to);
        for (int d = 0; d < x->ndim; d++) at += a->before[d] * to[d];
        tp_buf_printf(o, "        int i;\n        for (i = 0; i < %lld; i++) ", (long long)tp_shape_size(y));
        tp__c_operand(w, s, s->call.n_in);
        tp_buf_printf(o, "[i] = ");
        tp__c_float(o, a->value);
        tp_buf_printf(o, ";\n");
        tp__c_move(w, s, 0, x, from, to, at);
    } else if (s->row == &tp__op_concat) {
        const tp__parts_attrs *a = (const tp__parts_attrs *)s->call.attrs;
        const int axis = a->axis < 0 ? a->axis + y->ndim : a->axis;
        int64_t to[TP_MAX_DIMS], at = 0;
        tp__c_strides(y, to);
        for (int i = 0; i < s->call.n_in; i++) {
            int64_t from[TP_MAX_DIMS];
            tp__c_strides(&s->call.in[i].shape, from);
            tp__c_move(w, s, i, &s->call.in[i].shape, from, to, at);
            at += s->call.in[i].shape.dim[axis] * to[axis];
        }
    } else if (s->row == &tp__op_copy) {
        tp_buf_printf(o, "        memcpy(");
        tp__c_operand(w, s, 1);
        tp_buf_printf(o, ", ");
        tp__c_operand(w, s, 0);
        tp_buf_printf(o, ", %lld * sizeof(float));\n", (long long)tp_shape_size(y));
    } else {
        return tp_fail(TP_ERR_UNSUPPORTED, "C export: '%s' needs the op '%s', which has no C form", s->name, row);
    }
    tp_buf_printf(o, "    }\n");
    return TP_OK;
}

/* The whole file around the steps. */
static tp_status tp__c_file(tp__c_writer *w, tp_buf *out)
{
    const tp__plan *p = w->plan;
    char(*param)[64] = (char(*)[64])tp_calloc((size_t)(p->n_feed + p->n_fetch) + 1, sizeof *param);
    char t[TP_SHAPE_TEXT];
    tp_status st = param ? TP_OK : TP_ERR_NOMEM;
    const size_t floats = (p->arena_bytes + sizeof(float) - 1) / sizeof(float);
    for (int i = 0; i < p->n_feed + p->n_fetch && st == TP_OK; i++)
        tp__c_name(param[i], sizeof param[i], tp_node_name(i < p->n_feed ? p->feed[i] : p->fetch[i - p->n_feed]),
                   (const char(*)[64])param, i);
    for (int i = 0; i < p->n_step && st == TP_OK; i++) st = tp__c_step(w, &p->step[i]);
    tp_buf outputs;
    memset(&outputs, 0, sizeof outputs);
    for (int i = 0; i < p->n_fetch && st == TP_OK; i++) {
        if (p->fetch_type[i].dtype != TP_F32)
            st = tp_fail(TP_ERR_UNSUPPORTED, "C export: output '%s' is %s, only float32 is exported",
                         tp_node_name(p->fetch[i]), tp_dtype_name(p->fetch_type[i].dtype));
        tp_buf_printf(&outputs, "    memcpy(%s, ", param[p->n_feed + i]);
        if (p->fetch_buffer[i] >= 0) tp__c_pointer(w, &outputs, p->fetch_buffer[i]);
        tp_buf_printf(&outputs, ", %lld * sizeof(float));\n", (long long)tp_shape_size(&p->fetch_type[i].shape));
    }
    if (st == TP_OK) {
        tp_buf_printf(out, "/* Written by tp %d.%d. C99, needs libm; not reentrant.\n *\n * void %s(", TP_VERSION_MAJOR,
                      TP_VERSION_MINOR, w->name);
        for (int i = 0; i < p->n_feed + p->n_fetch; i++)
            tp_buf_printf(out, "%s%s%s", i ? ", " : "", i < p->n_feed ? "const float *" : "float *", param[i]);
        tp_buf_printf(out, ");\n *\n");
        for (int i = 0; i < p->n_feed + p->n_fetch; i++)
            tp_buf_printf(
                out, " * %-6s %s: float%s\n", i < p->n_feed ? "input" : "output", param[i],
                tp_shape_text(i < p->n_feed ? &p->feed_type[i].shape : &p->fetch_type[i - p->n_feed].shape, t));
        tp_buf_printf(out, " * RAM %llu bytes, constants %llu bytes, %d kernels */\n", (unsigned long long)(floats * 4),
                      (unsigned long long)w->flash, p->n_step);
        tp_buf_printf(out, "#include <math.h>\n#include <string.h>\n\n");
        if (w->constants.data) tp_buf_put(out, w->constants.data, w->constants.len);
        if (floats) tp_buf_printf(out, "\nstatic float %s_ram[%llu];\n", w->name, (unsigned long long)floats);
        for (int i = 0; i < TP_COUNT(tp__c_helper); i++)
            if (w->helpers & 1u << i) tp_buf_printf(out, "\n%s", tp__c_helper[i]);
        tp_buf_printf(out, "\nvoid %s(", w->name);
        for (int pass = 0; pass < 2; pass++) { /* a prototype, then the definition */
            if (pass) tp_buf_printf(out, ");\nvoid %s(", w->name);
            for (int i = 0; i < p->n_feed + p->n_fetch; i++)
                tp_buf_printf(out, "%s%s%s", i ? ", " : "", i < p->n_feed ? "const float *" : "float *", param[i]);
        }
        tp_buf_printf(out, ")\n{\n");
        for (int i = 0; i < p->n_feed; i++) {
            tp_buf_printf(out, "    memcpy(");
            tp__c_pointer(w, out, p->feed_buffer[i]);
            tp_buf_printf(out, ", %s, %lld * sizeof(float));\n", param[i],
                          (long long)tp_shape_size(&p->feed_type[i].shape));
        }
        if (w->body.data) tp_buf_put(out, w->body.data, w->body.len);
        if (outputs.data) tp_buf_put(out, outputs.data, outputs.len);
        tp_buf_printf(out, "}\n");
        if (out->failed || w->body.failed || w->constants.failed || outputs.failed) st = TP_ERR_NOMEM;
    }
    tp_buf_free(&outputs);
    tp_free(param);
    return st == TP_ERR_NOMEM ? tp_fail(TP_ERR_NOMEM, "out of memory while a model was written as C") : st;
}

TP_DEF tp_status tp_export_c_text(tp_session *s, tp_node *const *inputs, int n_inputs, tp_node *const *outputs,
                                  int n_outputs, tp_buf *out, const tp_export_c_desc *d, tp_export_c_info *info)
{
    tp__c_writer w;
    memset(&w, 0, sizeof w);
    w.name = d && d->name ? d->name : "model";
    for (const char *c = w.name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_')
            return tp_fail(TP_ERR_NAME, "C export: '%s' cannot be a function's name", w.name);
    if (!*w.name || isdigit((unsigned char)*w.name) || n_outputs < 1)
        return tp_fail(TP_ERR_ARG,
                       n_outputs < 1 ? "C export: there are no outputs" : "C export: '%s' cannot be a function's name",
                       w.name);
    if (!s->device[0]->host)
        return tp_fail(TP_ERR_UNSUPPORTED, "C export: the session's variables are on %s: load them into one on the CPU",
                       s->device[0]->name);
    /* a plan of naive kernels, for inputs of known shape; nothing is run */
    tp_device *naive = tp_cpu_device_new(1, "naive");
    tp_exec *e = naive ? tp_exec_new(s) : NULL;
    tp_feed *feed = (tp_feed *)tp_calloc((size_t)n_inputs + 1, sizeof *feed);
    tp_status st = e && feed ? TP_OK : tp_fail(TP_ERR_NOMEM, "out of memory while a model was written as C");
    for (int i = 0; i < n_inputs && st == TP_OK; i++) {
        feed[i].node = inputs[i];
        feed[i].value.dtype = inputs[i]->dtype;
        feed[i].value.shape = inputs[i]->shape;
        for (int k = 0; k < inputs[i]->shape.ndim; k++)
            if (inputs[i]->shape.dim[k] < 0) feed[i].value.shape.dim[k] = d && d->batch > 0 ? d->batch : 1;
        if (inputs[i]->dtype != TP_F32)
            st = tp_fail(TP_ERR_UNSUPPORTED, "C export: input '%s' is %s, only float32 is exported",
                         tp_node_name(inputs[i]), tp_dtype_name(inputs[i]->dtype));
        else if (tp_shape_size(&feed[i].value.shape) > INT_MAX / 4)
            st = tp_fail(TP_ERR_UNSUPPORTED, "C export: input '%s' is too large", tp_node_name(inputs[i]));
        static const float nothing = 0;
        feed[i].value.data = (void *)(uintptr_t)&nothing; /* only its shape is looked at */
    }
    if (st == TP_OK) st = tp__check_run(s, feed, n_inputs, outputs, n_outputs);
    if (st == TP_OK) {
        tp_device *own = e->device;
        tp__plan *p = NULL;
        e->device = naive;
        tp_mutex_lock(s->graph->lock);
        if (s->n_var < s->graph->var.n) st = tp__session_grow(s);
        if (st == TP_OK) p = tp__find_plan(e, feed, n_inputs, outputs, n_outputs, &st);
        tp_mutex_unlock(s->graph->lock);
        if (p) {
            w.plan = p;
            w.exec = e;
            w.constant = (int *)tp_malloc(((size_t)p->n_buffer + 1) * sizeof *w.constant);
            if (!w.constant) st = TP_ERR_NOMEM;
            for (int i = 0; i < p->n_buffer && w.constant; i++) w.constant[i] = -1;
            if (st == TP_OK) st = tp__c_file(&w, out);
            if (info) {
                info->ram = (p->arena_bytes + 3) / 4 * 4;
                info->flash = w.flash;
                info->kernels = p->n_step;
            }
            tp_free(w.constant);
        }
        e->device = own;
    }
    tp_buf_free(&w.constants);
    tp_buf_free(&w.body);
    tp_exec_free(e);
    tp_free(feed);
    if (naive) naive->close(naive);
    return st;
}

TP_DEF tp_status tp_export_c(tp_session *s, tp_node *const *inputs, int n_inputs, tp_node *const *outputs,
                             int n_outputs, const char *path, const tp_export_c_desc *d)
{
    tp_buf text;
    memset(&text, 0, sizeof text);
    tp_status st = tp_export_c_text(s, inputs, n_inputs, outputs, n_outputs, &text, d, NULL);
    tp_writer *file = NULL;
    if (st == TP_OK) st = tp_writer_open(&file, path);
    if (st == TP_OK) st = tp_writer_put(file, text.data, text.len);
    if (st == TP_OK) st = tp_writer_commit(file);
    else tp_writer_abort(file);
    tp_buf_free(&text);
    return st;
}

TP__COLD_END
#endif
