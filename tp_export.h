/* tp_export.h - v0.1 - writes a trained model as one C file, an ONNX file, or a folder for a model server
 *
 * Do this:
 *     #define TP_IMPLEMENTATION        // in ONE .c file, before any other include
 *     #include "tp_export.h"           // pulls in tp_graph.h
 *
 * WHAT THIS IS       tp_export_c writes the part of a graph between some inputs and some outputs, with the variables'
 *                    values, as C99 that needs only libm: no malloc, no threads; its memory is one static array whose size the
 *                    file states. It computes what the session computes with its naive loops and the same fusions, but for
 *                    roundings: sums and means are added in float here, in double there; those of layer_norm and group_norm
 *                    the other way round; exp, log and their like are libm's expf and logf. tp_export_onnx writes the same part
 *                    as an ONNX model, for programs that read ONNX; tp_model_exporter writes ONNX from a model's build function
 *                    and a checkpoint, as one file or as a folder for a model server.
 * WHAT THIS IS NOT   a generator of fast C: the loops are the naive definitions; tp_export_c supports only float32 values and
 *                    the ops of feed-forward networks: no recurrent layers, attention, resizing, bilinear_sampler, products of
 *                    many matrices, tp_reduce_prod, tp_reduce_all, tp_reduce_any, tp_l2_loss, tp_global_norm, tp_zero_fraction,
 *                    tp_argmax, tp_top_k, arc functions, mirrored padding, tp_check_numerics or tp_print (ONNX has these), and no
 *                    random numbers. Not a way to continue training elsewhere: only what inference needs is written. The error
 *                    names an op that cannot be exported.
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
 *         // model.c, and model.h with: void model(const float *x, float *prob);
 *         if (!s || tp_export_onnx(s, &x, 1, &y, 1, "model.onnx", NULL) != TP_OK) puts(tp_last_error());
 *         tp_session_free(s);
 *         tp_graph_free(g);
 *         return 0;
 *     }
 *
 * CONTENTS   >>c >>onnx >>exporter
 *
 * ERRORS     a status and a sentence in tp_last_error(). After an error no partial file remains.
 */
#ifndef TP_EXPORT_H
#define TP_EXPORT_H

#include "tp_graph.h"
/* clang-format off */
#if TP_VERSION_MAJOR != 0 || TP_VERSION_MINOR != 1
#error "tp_export.h 0.1 needs tp_tensor.h 0.1: copy all tp headers from the same version"
#endif
#if defined(TP_NO_STDIO) || defined(TP_NO_SENTENCES) || defined(TP_ONLY_F32)
#error "TP_NO_STDIO, TP_NO_SENTENCES, TP_ONLY_F32 and TP_TINY are for programs of tp_tensor.h, tp_graph.h, tp_layers.h and tp_optim.h alone"
#endif
/* clang-format on */

#ifdef __cplusplus
extern "C" {
#endif

/* ==== >>c ============================================================================================= */

typedef struct tp_export_c_desc {
    const char *name; /* name of the C function, and prefix of the other names in its file; default "model" */
    /* The C code has fixed sizes: batch is the value of every unknown dimension of the inputs. Default 1 where only the first
     * dimension of an input, the batch, is unknown; required where others are unknown. */
    int64_t batch;
} tp_export_c_desc;
typedef struct tp_export_c_info {
    size_t ram, flash; /* bytes of the file's static array, bytes of its constants */
    int kernels;
} tp_export_c_info;
/* Writes C code of a graph: void <name>(const float *<input>, ..., float *<output>, ...): inputs and outputs in this
 * order, row-major, with the names of their nodes. tp_export_c writes the function to path, and its declaration to a
 * header of the same name in the same folder (model.c: model.h; no header if path ends in .h or has no extension). All
 * other names of the file begin with <name>_ and are static, so that models with different names can be in one program,
 * also in one file. The file compiles as C99 and as C++; both can call the function. tp_export_c_text returns only the
 * text of the file. d and info may be NULL. Variables are written with their current values. [beyond: C export] */
TP_DEF tp_status tp_export_c(tp_session *s, tp_node *const *inputs, int n_inputs, tp_node *const *outputs,
                             int n_outputs, const char *path, const tp_export_c_desc *d);
TP_DEF tp_status tp_export_c_text(tp_session *s, tp_node *const *inputs, int n_inputs, tp_node *const *outputs,
                                  int n_outputs, tp_buf *out, const tp_export_c_desc *d, tp_export_c_info *info);

/* ==== >>onnx ========================================================================================== */

typedef struct tp_export_onnx_desc {
    const char *name; /* name of the ONNX graph in the file; default "model" */
    /* Folds a following batch norm into a convolution's weights (the last digits of the results change), and a preceding padding
     * with zeros into its padding. */
    bool fold;
    /* keep named nodes, stop_gradient, summaries, print and dropout as Identity; otherwise they are omitted */
    bool keep_identities;
    /* ONNX opset: 13 or 17; with 13 layer_norm is written as several ops. 0: 13, or 17 if an op needs it: layer_norm,
     * bilinear_sampler, gather_grad (segment sums) */
    int opset;
    /* Writes weights of 1,024 bytes or more to a second file, <path>.data, which must stay beside the model: needed above 2 GiB.
     * Both are complete before the second file is replaced, and then the model: after a crash or an error between these two
     * renames, an older model at this path has the new weights, so export again. Not for tp_export_onnx_buf. */
    bool external_data;
    /* The inputs may differ in unknown first dimensions, as the nodes and edges of a graph do: each is named "<input>_dim0". Otherwise
     * all are named "batch", from which ONNX Runtime concludes that they are equal. */
    bool separate_sizes;
} tp_export_onnx_desc;
/* Writes the part of the graph between inputs and outputs as an ONNX model, IR 7 and opset 13 (IR 8 and 17 where
 * .opset says so). Values that depend on no input are computed during the export and written as constants; ops that only
 * training needs are omitted. Values have the names of their nodes (output k > 0 of an op is "name:k") and tp's
 * layouts; an unknown first dimension is named "batch" (for an output, only if it equals that of the inputs; see
 * .separate_sizes), others "<name>_dim<axis>". d may be NULL. The error names an op without an ONNX form (random numbers, ops that change
 * variables, most derivatives). A derivative of element-wise functions and products has one; where it sums over what was broadcast,
 * it may have to know the sizes: give the placeholders a known first dimension. CaffeBilinearUpSample and bilinear_sampler need a
 * known height and width, and so do transposed convolutions, except the layers Conv2DTranspose and FixedUnPooling. An op of your own is written if it is element-wise, has no
 * attributes and its field `onnx` names an operator of opset 13. A file holds 2 GiB at most: a larger model needs .external_data.
 * What .trainable of tp_import_onnx must not train, because it follows from no variable that is trained, is listed in the file's
 * metadata_props, under "tp.untrained"; a file in which nothing is trained (of a frozen or an imported model) has no such list.
 * [beyond: ONNX export] */
TP_DEF tp_status tp_export_onnx(tp_session *s, tp_node *const *inputs, int n_inputs, tp_node *const *outputs,
                                int n_outputs, const char *path, const tp_export_onnx_desc *d);
TP_DEF tp_status tp_export_onnx_buf(tp_session *s, tp_node *const *inputs, int n_inputs, tp_node *const *outputs,
                                    int n_outputs, tp_buf *out, const tp_export_onnx_desc *d);

/* ==== >>exporter ====================================================================================== */

/* Builds a model for inference and loads its variables, so that it can be exported: the config names the inputs and outputs.
 * Becomes the owner of the config's session_init, as tp_offline_predictor does; session_creator is not used. Returns NULL after
 * an error, which tp_last_error() describes. [export: ModelExporter] */
typedef struct tp_model_exporter tp_model_exporter;
TP_DEF tp_model_exporter *tp_model_exporter_new(const tp_predict_config *c);
TP_DEF void tp_model_exporter_free(tp_model_exporter *x);           /* x may be NULL */
TP_DEF tp_session *tp_model_exporter_session(tp_model_exporter *x); /* the session that holds the model's variables */

typedef struct tp_export_compact_desc {
    tp_tri
        optimize; /* tp_tri; default TP_YES: fold batch norms and paddings with zeros into convolutions, omit identities */
    bool toco_compatible; /* use only opset 13, for converters that know few operators; needs optimize */
} tp_export_compact_desc;
/* Writes one self-contained ONNX file: variables are constants. [export: ModelExporter.export_compact] */
TP_DEF tp_status tp_export_compact(tp_model_exporter *x, const char *path, const tp_export_compact_desc *d);

typedef struct tp_export_serving_desc {
    /* tags, written to config.pbtxt as a parameter, for information: the server ignores them; NULL: "serve" */
    const char *const *tags;
    int n_tags;
    /* signature name, written as a parameter, like the tags; default "prediction_pipeline" */
    const char *signature_name;
    int64_t version; /* version of the exported model; default 1 */
    /* maximum batch size. 0 = 64 if all inputs and outputs begin with the batch, else no batching; TP_NONE: no
     * batching */
    int max_batch_size;
} tp_export_serving_desc;
/* Writes a model for NVIDIA's Triton server: <dir>/config.pbtxt and <dir>/<version>/model.onnx, where dir is in a model
 * repository and its name is the model's name. It is an error if the version exists, or if config.pbtxt exists with other
 * content. [export: ModelExporter.export_serving] */
TP_DEF tp_status tp_export_serving(tp_model_exporter *x, const char *dir, const tp_export_serving_desc *d);

/* Registers the option types of this header for TP_OPTIONS. */
TP_DEF const tp__zero_option *tp__export_zeros(void);
#define TP__PART_tp_export_c_desc       export
#define TP__PART_tp_export_onnx_desc    export
#define TP__PART_tp_export_compact_desc export
#define TP__PART_tp_export_serving_desc export

#ifdef __cplusplus
}
#endif
#endif /* TP_EXPORT_H */

/* ===== STOP HERE if you only want to use the library. Everything below is implementation. ===== */
#if defined(TP_IMPLEMENTATION) && !defined(TP__EXPORT_IMPLEMENTED)
#define TP__EXPORT_IMPLEMENTED
#undef TP__PLACED
#define TP__PLACED TP__UNPLACED
TP__EXACT_BEGIN
TP__COLD_BEGIN

static tp_status tp__export_open(tp_writer **file, const char *path, const tp_buf *b)
{
    const tp_status st = tp_writer_open(file, path);
    return st == TP_OK ? tp_writer_put(*file, b->data, b->len) : st;
}
/* If st is TP_OK, replaces one file, or two that belong together; each may be NULL. Both are on the disk before the first one is
 * renamed, so that a full disk leaves both old files. */
static tp_status tp__export_close(tp_status st, tp_writer *first, tp_writer *second)
{
    tp_writer *file[2] = {first, second};
    for (int i = 0; i < 2 && first && second && st == TP_OK; i++) {
        st = tp__writer_flush(file[i]);
        if (st == TP_OK && tp__os_sync(file[i]->fd) != 0) st = tp__writer_cannot(file[i], "synced to the disk");
    }
    for (int i = 0; i < 2; i++)
        if (st != TP_OK) tp_writer_abort(file[i]);
        else if (file[i]) st = tp_writer_commit(file[i]);
    return st;
}
static tp_status tp__export_write(const char *path, const tp_buf *b)
{
    tp_writer *file = NULL;
    const tp_status st = tp__export_open(&file, path, b);
    return tp__export_close(st, file, NULL);
}

/* The options whose zero is not their default: see OPTIONS in tp_tensor.h. */
TP_DEF const tp__zero_option *tp__export_zeros(void)
{
    /* clang-format off */
    static const tp__zero_option options[] = {
        TP__ZERO_OPTION(tp_export_compact_desc, optimize, NO),
        TP__ZERO_OPTION(tp_export_serving_desc, max_batch_size, NONE),
        {NULL, NULL, 0, 0, TP__ZERO_NO},
    };
    /* clang-format on */
    return options;
}

/* ==== >>c ============================================================================================= */

/* The state of the writer. The file has the declarations of constants first, then the used helpers, then the function. */
typedef struct tp__c_writer {
    const tp__plan *plan;
    const tp_exec *exec;
    const char *name;
    tp_buf constants, body;
    int *constant; /* for each buffer, the number of its array, or -1 */
    int n_constant;
    bool uses_static_array; /* the file needs the static array */
    bool large;             /* an operand has more than 32767 floats, the most that an int of 16 bits counts */
    size_t constant_bytes;
    unsigned helpers;
} tp__c_writer;

enum {
    TP__C_CONV = 1,
    TP__C_MATMUL = 2,
    TP__C_POOL = 4,
    TP__C_SOFTMAX = 8,
    TP__C_MOVE = 16,
    TP__C_REDUCE = 32,
    TP__C_CONV_TRANSPOSE = 64
};

/* Helpers that the C file may contain: naive loops that take every size and stride as an argument. */
static const struct {
    const char *name, *text;
} tp__c_helper[] = {

    {"conv2d",
     "(const float *x, const float *w, const float *bias, float *y, const int *g, int relu)\n"
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
     "}\n"},
    {"matmul", "(const float *a, const float *b, const float *bias, float *y, const int *g, int relu)\n"
               "{ /* g: M N K, distances in a of m, k and in b of k, n */\n"
               "    int m, n, k;\n"
               "    for (m = 0; m < g[0]; m++)\n"
               "        for (n = 0; n < g[1]; n++) {\n"
               "            float sum = 0.0f;\n"
               "            for (k = 0; k < g[2]; k++) sum += a[m * g[3] + k * g[4]] * b[k * g[5] + n * g[6]];\n"
               "            if (bias) sum += bias[n];\n"
               "            y[m * g[1] + n] = relu && sum < 0.0f ? 0.0f : sum;\n"
               "        }\n"
               "}\n"},
    {"pool", "(const float *x, float *y, const int *g, int mean)\n"
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
             "                            else if (n == 0 || e > r || e != e) r = e; /* NaN wins */\n"
             "                            n++;\n"
             "                        }\n"
             "                    y[b * g[16] + i * g[17] + j * g[18] + c * g[19]] = mean ? r / (float)n : r;\n"
             "                }\n"
             "}\n"},
    {"softmax",
     "(const float *x, float *y, int rows, int n, int logarithm)\n"
     "{\n"
     "    int r, i;\n"
     "    for (r = 0; r < rows; r++, x += n, y += n) {\n"
     "        float most = x[0], sum = 0.0f;\n"
     "        for (i = 1; i < n; i++) most = x[i] > most ? x[i] : most;\n"
     "        for (i = 0; i < n; i++) sum += expf(x[i] - most);\n"
     "        for (i = 0; i < n; i++) y[i] = logarithm ? x[i] - most - logf(sum) : expf(x[i] - most) / sum;\n"
     "    }\n"
     "}\n"},
    {"move", "(const float *x, float *y, int n, int rank, const int *dim, const int *from, const int *to)\n"
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
             "}\n"},
    {"reduce",
     "(const float *x, float *y, int n, int n_out, int rank, const int *dim, const int *to, int "
     "kind)\n"
     "{ /* kind: 0 sum, 1 mean, 2 largest, 3 least; to: the distances of x's axes in y, 0 where they are reduced */\n"
     "    int i, d;\n"
     "    for (i = 0; i < n_out; i++) y[i] = kind == 2 ? -HUGE_VALF : kind == 3 ? HUGE_VALF : 0.0f;\n"
     "    for (i = 0; i < n; i++) {\n"
     "        int rest = i, b = 0;\n"
     "        for (d = rank - 1; d >= 0; d--) {\n"
     "            b += rest % dim[d] * to[d];\n"
     "            rest /= dim[d];\n"
     "        }\n"
     "        if (kind == 2) y[b] = x[i] > y[b] || x[i] != x[i] ? x[i] : y[b]; /* NaN wins */\n"
     "        else if (kind == 3) y[b] = x[i] < y[b] || x[i] != x[i] ? x[i] : y[b];\n"
     "        else y[b] += x[i];\n"
     "    }\n"
     "    for (i = 0; i < n_out && kind == 1; i++) y[i] /= (float)(n / n_out);\n"
     "}\n"},
    {"conv2d_transpose",
     "(const float *y, const float *w, const float *bias, float *x, const int *g, int relu)\n"
     "{ /* g: as of conv2d, which makes y of x; here x is made of y */\n"
     "    const int cg = g[1] / g[15];\n"
     "    int b, i, j, o, p, q, c;\n"
     "    for (i = 0; i < g[0] * g[1] * g[2] * g[3]; i++) x[i] = 0.0f;\n"
     "    for (b = 0; b < g[0]; b++)\n"
     "        for (i = 0; i < g[7]; i++)\n"
     "            for (j = 0; j < g[8]; j++)\n"
     "                for (o = 0; o < g[4]; o++) {\n"
     "                    const float v = y[b * g[20] + i * g[21] + j * g[22] + o * g[23]];\n"
     "                    const int c0 = o / (g[4] / g[15]) * cg;\n"
     "                    for (p = 0; p < g[5]; p++)\n"
     "                        for (q = 0; q < g[6]; q++) {\n"
     "                            const int h = i * g[9] + p * g[11] - g[13], l = j * g[10] + q * g[12] - g[14];\n"
     "                            if (h < 0 || h >= g[2] || l < 0 || l >= g[3]) continue;\n"
     "                            for (c = 0; c < cg; c++)\n"
     "                                x[b * g[16] + h * g[17] + l * g[18] + (c0 + c) * g[19]] +=\n"
     "                                    v * w[((p * g[6] + q) * cg + c) * g[4] + o];\n"
     "                        }\n"
     "                }\n"
     "    for (i = 0; i < g[0] * g[1] * g[2] * g[3]; i++) {\n"
     "        if (bias) x[i] += bias[i % g[1]]; /* the channels are last */\n"
     "        if (relu && x[i] < 0.0f) x[i] = 0.0f;\n"
     "    }\n"
     "}\n"}};

/* Writes a float as C: the shortest decimal that reads back as the same float. */
static void tp__c_float(tp_buf *out, float v)
{
    char t[TP_NUMBER_TEXT];
    tp_format_float(t, v);
    if (v != v) tp_buf_printf(out, "NAN");
    else if (!tp__finite((double)v)) tp_buf_printf(out, v < 0 ? "-INFINITY" : "INFINITY");
    else tp_buf_printf(out, "%sf", t); /* the text already has a decimal point or an exponent */
}

/* Whether the first n characters of name are a word of the list, which begins and ends with a space. */
static bool tp__c_listed(const char *list, const char *name, size_t n)
{
    for (const char *word = list + 1; *word; word += strcspn(word, " ") + 1)
        if (strcspn(word, " ") == n && strncmp(word, name, n) == 0) return true;
    return false;
}
/* Whether nothing can have the name in C or in C++: a keyword, also of a newer standard, main, or a macro of the compiler or of the
 * headers that the file includes. */
static bool tp__c_keyword(const char *name)
{
    static const char keywords[] =
        " alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class "
        "co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype "
        "default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline "
        "int long main mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public "
        "register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast "
        "struct switch template this thread_local throw true try typedef typeid typename typeof typeof_unqual union "
        "unsigned using virtual void volatile wchar_t while xor xor_eq i386 linux unix ";
    static const char macros[] = " BIG_ENDIAN BYTE_ORDER EXIT_FAILURE EXIT_SUCCESS HUGE HUGE_VAL HUGE_VALF HUGE_VALL "
                                 "INFINITY LITTLE_ENDIAN MATH_ERREXCEPT MATH_ERRNO MAXFLOAT MB_CUR_MAX NAN "
                                 "NULL RAND_MAX SNAN SNANF SNANL math_errhandling signgam ";
    return tp__c_listed(keywords, name, strlen(name)) || tp__c_listed(macros, name, strlen(name)) ||
           strncmp(name, "M_", 2) == 0 || strncmp(name, "FP_", 3) == 0;
}

/* Makes a name for C: "conv0/output" becomes "conv0_output". The result differs from the keywords of C and C++ and the
 * like, from the other names in the file, and from n earlier names. */
static void tp__c_name(const tp__c_writer *w, char *out, size_t size, const char *name, const char (*before)[64], int n)
{
    size_t k = 0;
    char base[50];
    if (*name >= '0' && *name <= '9') base[k++] = '_';
    for (; *name && k + 2 < sizeof base; name++) base[k++] = isalnum((unsigned char)*name) ? *name : '_';
    base[k] = 0;
    static const char used[] =
        " memcpy fmodf fabsf powf sqrtf expf logf sinf cosf erff tanhf log1pf expm1f floorf ceilf rintf ";
    const size_t prefix_length = strlen(w->name);
    bool clash = strncmp(base, w->name, prefix_length) == 0 && (base[prefix_length] == 0 || base[prefix_length] == '_');
    clash = clash || tp__c_keyword(base) || tp__c_listed(used, base, strlen(base));
    if (clash) snprintf(base + k, sizeof base - k, "_");
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

/* Writes the address of a buffer as an expression. Constants and variables become arrays when they are first used. */
static void tp__c_pointer(tp__c_writer *w, tp_buf *out, int buffer)
{
    const int b = tp__c_root(w->plan, buffer);
    const tp__buffer *x = &w->plan->buffer[b];
    if (x->place == TP__IN_ARENA) {
        w->uses_static_array = true;
        tp_buf_printf(out, "(%s_ram + %llu)", w->name, (unsigned long long)(x->offset / sizeof(float)));
        return;
    }
    int first_buffer = b; /* several buffers may hold the same variable: the one that is read first has the array */
    for (int i = 0; i < w->plan->n_buffer && x->var; i++)
        if (w->constant[i] >= 0 && w->plan->buffer[i].var == x->var) first_buffer = i;
    if (w->constant[first_buffer] < 0) {
        const float *v = (const float *)tp__buffer_data(w->plan, w->exec, b);
        const int64_t n = x->bytes / (int64_t)sizeof(float);
        w->constant[first_buffer] = w->n_constant++;
        if (x->var) tp_buf_printf(&w->constants, "/* %s */\n", x->var->name);
        tp_buf_printf(&w->constants, "static const float %s_c%d[%lld] = {", w->name, w->constant[first_buffer],
                      (long long)(n > 0 ? n : 1));
        for (int64_t i = 0; i < n; i++) {
            tp_buf_printf(&w->constants, i % 8 == 0 ? "\n    " : " ");
            tp__c_float(&w->constants, v[i]);
            tp_buf_printf(&w->constants, i + 1 < n ? "," : "");
        }
        tp_buf_printf(&w->constants, n > 0 ? "};\n" : "0.0f};\n");
        w->constant_bytes += (size_t)x->bytes;
    }
    tp_buf_printf(out, "%s_c%d", w->name, w->constant[first_buffer]);
}
static void tp__c_operand(tp__c_writer *w, const tp__step *s, int i)
{
    const bool bytes = s->buffer[i] >= 0 && s->operand[i].dtype == TP_BOOL;
    if (bytes) tp_buf_printf(&w->body, "((unsigned char *)");
    if (s->buffer[i] < 0) tp_buf_printf(&w->body, "0");
    else tp__c_pointer(w, &w->body, s->buffer[i]);
    if (bytes) tp_buf_printf(&w->body, ")");
}

static void tp__c_ints(tp_buf *out, const char *name, const int64_t *v, int n)
{
    tp_buf_printf(out, "        static const int %s[] = {", name);
    for (int i = 0; i < n; i++) tp_buf_printf(out, "%s%lld", i ? ", " : "", (long long)v[i]);
    tp_buf_printf(out, n ? "};\n" : "0};\n");
}

/* The C form of an element-wise op: %a, %b and %c are operands, %p and %q its attributes; a bool is 1.0f or 0.0f. NULL: the op has
 * no C form. */
static const char *tp__c_map(const char *row)
{
    static const char *const map[][2] = {{"add", "%a + %b"},
                                         {"sub", "%a - %b"},
                                         {"mul", "%a * %b"},
                                         {"div", "%a / %b"},
                                         {"maximum", "%a > %b || %a != %a ? %a : %b"},
                                         {"minimum", "%a < %b || %a != %a ? %a : %b"},
                                         {"squared_difference", "(%a - %b) * (%a - %b)"},
                                         {"floordiv", "floorf(%a / %b)"},
                                         {"mod", "fmodf(%a, %b) != 0.0f && (fmodf(%a, %b) < 0.0f) != (%b < 0.0f) "
                                                 "? fmodf(%a, %b) + %b : fmodf(%a, %b)"},
                                         {"greater", "%a > %b ? 1.0f : 0.0f"},
                                         {"greater_equal", "%a >= %b ? 1.0f : 0.0f"},
                                         {"less", "%a < %b ? 1.0f : 0.0f"},
                                         {"less_equal", "%a <= %b ? 1.0f : 0.0f"},
                                         {"equal", "%a == %b ? 1.0f : 0.0f"},
                                         {"not_equal", "%a != %b ? 1.0f : 0.0f"},
                                         {"is_finite", "%a - %a == 0.0f ? 1.0f : 0.0f"},
                                         {"logical_and", "%a != 0.0f && %b != 0.0f ? 1.0f : 0.0f"},
                                         {"logical_or", "%a != 0.0f || %b != 0.0f ? 1.0f : 0.0f"},
                                         {"logical_not", "%a != 0.0f ? 0.0f : 1.0f"},
                                         {"select", "%a != 0.0f ? %b : %c"},
                                         {"select_bytes", "%a != 0.0f ? %b : %c"},
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

/* What a sentence advises about an op that has no C form. */
static const char *tp__c_lack(const tp_op *row)
{
    return row->flags & TP_OP_RANDOM
               ? "leave the noise out where the tower is not training, or make it an input of the exported network"
               : "build it from other ops, or use tp_export_onnx";
}

/* Whether a value of this dtype is a float of a chain in C. */
static bool tp__c_is_number(tp_dtype dtype) { return dtype == TP_F32 || dtype == TP_BOOL; }

/* The C form of a step of a chain; NULL: it has none, or it computes in another type than float32 and bool. */
static const char *tp__c_instr_form(const tp__instr *t)
{
    if (t->row == &tp__op_cast) {
        const tp__cast_attrs *a = (const tp__cast_attrs *)t->attrs;
        if (!tp__c_is_number(a->from) || !tp__c_is_number(a->to)) return NULL;
        return a->to == TP_BOOL ? "%a != 0.0f ? 1.0f : 0.0f" : "%a";
    }
    return tp__c_is_number(t->dtype) && tp__c_is_number(t->out_dtype) ? tp__c_map(t->row->name) : NULL;
}

/* Returns the last step of a chain before step `end` that wrote result `index` of kind `to`. */
static int tp__c_writer_of(const tp__program *p, int end, int to, int index)
{
    int writer = end - 1;
    while (writer >= 0 && !(p->instr[writer].to == to && p->instr[writer].out == index)) writer--;
    return writer;
}

/* Writes step j of a chain as a float, tj, by its form. */
static void tp__c_instr(tp_buf *o, const tp__program *p, int j, const char *form)
{
    const tp__instr *t = &p->instr[j];
    tp_buf_printf(o, "            const float t%d = ", j);
    for (const char *c = form; *c; c++) {
        if (*c != '%') {
            tp_buf_printf(o, "%c", *c);
            continue;
        }
        c++;
        const int a = *c - 'a';
        if (*c == 'p' || *c == 'q') tp__c_float(o, ((const float *)t->attrs)[*c - 'p']);
        else if (t->from[a] == TP__FROM_EXTERNAL) tp_buf_printf(o, "e%d", t->in[a]);
        else tp_buf_printf(o, "t%d", tp__c_writer_of(p, j, t->from[a], t->in[a]));
    }
    tp_buf_printf(o, ";\n");
}

/* Writes a fused chain of element-wise ops as one loop over the elements. */
static tp_status tp__c_fused(tp__c_writer *w, const tp__step *s)
{
    const tp__program *p = (const tp__program *)s->call.attrs;
    tp_buf *o = &w->body;
    tp_buf_printf(o, "        int i;\n        for (i = 0; i < %lld; i++) {\n", (long long)p->n);
    for (int e = 0; e < p->n_external; e++) {
        const tp__external *x = &p->external[e];
        tp_buf_printf(o, "            const float e%d = ", e);
        tp__c_operand(w, s, e);
        if (x->access == TP__DIRECT) tp_buf_printf(o, "[i];\n");
        else if (x->access == TP__SPLAT) tp_buf_printf(o, "[0];\n");
        else if (x->access == TP__INNER) tp_buf_printf(o, "[i %% %lld];\n", (long long)x->period);
        else if (x->access == TP__OUTER)
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
        const char *form = tp__c_instr_form(t);
        if (!form)
            return tp_fail(TP_ERR_UNSUPPORTED, "C export: '%s' needs the op '%s', which has no C form: %s", s->name,
                           t->row->name, tp__c_lack(t->row));
        tp__c_instr(o, p, j, form);
    }
    for (int k = 0; k < p->n_out; k++) {
        const int writer = tp__c_writer_of(p, p->n_instr, TP__FROM_OUT, k);
        tp_buf_printf(o, "            ");
        tp__c_operand(w, s, p->n_external + k);
        tp_buf_printf(o, s->operand[p->n_external + k].dtype == TP_BOOL ? "[i] = t%d != 0.0f;\n" : "[i] = t%d;\n",
                      writer);
    }
    tp_buf_printf(o, "        }\n");
    return TP_OK;
}

/* Computes the stride of each axis of a contiguous array. */
static void tp__c_strides(const tp_shape *s, int64_t *stride)
{
    int64_t n = 1;
    for (int d = s->ndim - 1; d >= 0; n *= s->dim[d], d--) stride[d] = n;
}

static void tp__c_call(tp__c_writer *w, const tp__step *s, const char *name, int n_in, int out)
{
    tp_buf_printf(&w->body, "        %s_%s(", w->name, name);
    for (int i = 0; i < n_in; i++) {
        tp__c_operand(w, s, i);
        tp_buf_printf(&w->body, ", ");
    }
    tp__c_operand(w, s, s->call.n_in + out);
}

/* Writes conv2d, conv2d_transpose or matmul, with the bias and the ReLU that were fused into it. */
static void tp__c_product(tp__c_writer *w, const tp__step *s, const char *name)
{
    const tp_fused *f = &s->call.fused;
    tp_buf *o = &w->body;
    tp_buf_printf(o, "        %s_%s(", w->name, name);
    for (int i = 0; i < 3; i++) {
        if (i < 2 || f->bias) tp__c_operand(w, s, i < 2 ? i : f->bias);
        else tp_buf_printf(o, "0");
        tp_buf_printf(o, ", ");
    }
    tp__c_operand(w, s, s->call.n_in);
    tp_buf_printf(o, ", g, %d);\n", f->act == TP_EPILOGUE_RELU);
}

/* Writes code that copies a box of operand `in`, from element `first` with the strides `from`, into operand `out`, from element `at`
 * with the strides `to`. */
static void tp__c_move(tp__c_writer *w, const tp__step *s, int in, int out, const tp_shape *box, const int64_t *from,
                       int64_t first, const int64_t *to, int64_t at)
{
    tp_buf *o = &w->body;
    w->helpers |= TP__C_MOVE;
    tp_buf_printf(o, "        {\n");
    tp__c_ints(o, "dim", box->dim, box->ndim);
    tp__c_ints(o, "from", from, box->ndim);
    tp__c_ints(o, "to", to, box->ndim);
    tp_buf_printf(o, "        %s_move(", w->name);
    tp__c_operand(w, s, in);
    if (first) tp_buf_printf(o, " + %lld", (long long)first);
    tp_buf_printf(o, ", ");
    tp__c_operand(w, s, out);
    tp_buf_printf(o, " + %lld, %lld, %d, dim, from, to);\n        }\n", (long long)at, (long long)tp_shape_size(box),
                  box->ndim);
}

/* Writes the geometry of a convolution of x by a filter. */
static void tp__c_conv_geometry(tp__c_writer *w, const tp__step *s, const tp_shape *x, const tp_shape *filter)
{
    const tp__conv g = tp__conv_geometry((const tp_conv2d_attrs *)s->call.attrs, x, filter);
    const int64_t v[] = {g.B,          g.C,          g.H,          g.W,          g.O,          g.KH,
                         g.KW,         g.OH,         g.OW,         g.stride_h,   g.stride_w,   g.dilation_h,
                         g.dilation_w, g.top,        g.left,       g.groups,     g.x_stride_b, g.x_stride_h,
                         g.x_stride_w, g.x_stride_c, g.y_stride_b, g.y_stride_h, g.y_stride_w, g.y_stride_c};
    tp__c_ints(&w->body, "g", v, TP_COUNT(v));
}
static void tp__c_conv2d(tp__c_writer *w, const tp__step *s)
{
    w->helpers |= TP__C_CONV;
    tp__c_conv_geometry(w, s, &s->call.in[0].shape, &s->call.in[1].shape);
    tp__c_product(w, s, "conv2d");
}
/* Writes a transposed convolution (the op conv2d_input_grad). Its operands are dy, the filter, and x, of which only the shape is used. */
static void tp__c_conv2d_transpose(tp__c_writer *w, const tp__step *s)
{
    w->helpers |= TP__C_CONV_TRANSPOSE;
    tp__c_conv_geometry(w, s, &s->call.in[2].shape, &s->call.in[1].shape);
    tp__c_product(w, s, "conv2d_transpose");
}

static tp_status tp__c_matmul(tp__c_writer *w, const tp__step *s)
{
    const tp__matmul_attrs *a = (const tp__matmul_attrs *)s->call.attrs;
    const tp__matmul_dims d = tp__matmul_sizes(&s->call);
    if (s->call.in[1].shape.ndim != 2 || (a->transpose_a && d.batch != 1))
        return tp_fail(TP_ERR_UNSUPPORTED, "C export: '%s' is a product of many matrices, which has no C form",
                       s->name);
    const int64_t v[7] = {d.M * d.batch, d.N, d.K, d.a_m, d.a_k, d.b_k, d.b_n};
    w->helpers |= TP__C_MATMUL;
    tp__c_ints(&w->body, "g", v, 7);
    tp__c_product(w, s, "matmul");
    return TP_OK;
}

static void tp__c_pool(tp__c_writer *w, const tp__step *s)
{
    tp_buf *o = &w->body;
    const tp__pool g = tp__pool_geometry((const tp_pool_attrs *)s->call.attrs, &s->call.in[0].shape);
    const int64_t v[20] = {g.B,          g.C,          g.H,          g.W,          g.OH,
                           g.OW,         g.window_h,   g.window_w,   g.stride_h,   g.stride_w,
                           g.top,        g.left,       g.x_stride_b, g.x_stride_h, g.x_stride_w,
                           g.x_stride_c, g.y_stride_b, g.y_stride_h, g.y_stride_w, g.y_stride_c};
    w->helpers |= TP__C_POOL;
    tp__c_ints(o, "g", v, 20);
    tp__c_call(w, s, "pool", 1, 0);
    tp_buf_printf(o, ", g, %d);\n", s->row == &tp__op_avg_pool);
}

static void tp__c_softmax(tp__c_writer *w, const tp__step *s)
{
    const tp_shape *x = &s->call.in[0].shape;
    const int64_t n = x->dim[x->ndim - 1];
    w->helpers |= TP__C_SOFTMAX;
    tp__c_call(w, s, "softmax", 1, 0);
    tp_buf_printf(&w->body, ", %lld, %lld, %d);\n", (long long)(tp_shape_size(x) / n), (long long)n,
                  s->row == &tp__op_log_softmax);
}

static void tp__c_bias_add(tp__c_writer *w, const tp__step *s)
{
    const tp_shape *x = &s->call.in[0].shape;
    tp_buf *o = &w->body;
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
}

static void tp__c_batch_norm(tp__c_writer *w, const tp__step *s)
{
    const tp_shape *x = &s->call.in[0].shape;
    tp_buf *o = &w->body;
    const tp__bn_attrs *a = (const tp__bn_attrs *)s->call.attrs;
    const int axis = a->axis < 0 ? a->axis + x->ndim : a->axis;
    int64_t inner = 1;
    for (int d = axis + 1; d < x->ndim; d++) inner *= x->dim[d];
    tp_buf_printf(o,
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
    tp_buf_printf(o, s->call.fused.act == TP_EPILOGUE_RELU ? "[i] = v < 0.0f ? 0.0f : v;\n        }\n"
                                                           : "[i] = v;\n        }\n");
}

/* group_norm; layer_norm is seen as one group of one row for each row of x. Outputs 1 and 2 are mean and inv. */
static void tp__c_group_norm(tp__c_writer *w, const tp__step *s)
{
    const tp_shape *x = &s->call.in[0].shape;
    tp_buf *o = &w->body;
    const bool rows = s->row == &tp__op_layer_norm;
    const int64_t C = s->call.in[1].shape.dim[0];
    tp__gn_shape n = {tp_shape_size(x) / C, 1, C, 1, 1, C};
    if (!rows) n = tp__gn_shape_of(&s->call, &s->call.in[0]);
    if (tp_shape_size(x) == 0) return;
    const int64_t row = n.C * n.inner,
                  piece = n.per_group * n.inner; /* adjacent elements: of all channels, of a group */
    tp_buf_printf(o,
                  "        int u, r, i;\n        for (u = 0; u < %lld; u++) {\n"
                  "            const int at = u / %lld * %lld + u %% %lld * %lld;\n"
                  "            double sum = 0, squares = 0;\n            float mean, inv;\n"
                  "            for (r = 0; r < %lld; r++)\n                for (i = 0; i < %lld; i++) sum += ",
                  (long long)(n.B * n.groups), (long long)n.groups, (long long)(n.rows * row), (long long)n.groups,
                  (long long)piece, (long long)n.rows, (long long)piece);
    tp__c_operand(w, s, 0);
    tp_buf_printf(o,
                  "[at + r * %lld + i];\n            mean = (float)(sum / %lld);\n"
                  "            for (r = 0; r < %lld; r++)\n                for (i = 0; i < %lld; i++) {\n"
                  "                    const double d = ",
                  (long long)row, (long long)(n.rows * piece), (long long)n.rows, (long long)piece);
    tp__c_operand(w, s, 0);
    tp_buf_printf(o,
                  "[at + r * %lld + i] - sum / %lld;\n                    squares += d * d;\n                }\n"
                  "            inv = 1.0f / sqrtf((float)(squares / %lld) + ",
                  (long long)row, (long long)(n.rows * piece), (long long)(n.rows * piece));
    tp__c_float(o,
                rows ? ((const tp__ln_attrs *)s->call.attrs)->epsilon : ((const tp__gn_attrs *)s->call.attrs)->epsilon);
    tp_buf_printf(o, ");\n");
    for (int i = 1; i < 3; i++) {
        if (s->buffer[s->call.n_in + i] < 0) continue;
        tp_buf_printf(o, "            ");
        tp__c_operand(w, s, s->call.n_in + i);
        tp_buf_printf(o, "[u] = %s;\n", i == 1 ? "mean" : "inv");
    }
    tp_buf_printf(o,
                  "            for (r = 0; r < %lld; r++)\n                for (i = 0; i < %lld; i++) {\n"
                  "                    const int c = u %% %lld * %lld + i / %lld;\n                    ",
                  (long long)n.rows, (long long)piece, (long long)n.groups, (long long)n.per_group, (long long)n.inner);
    tp_buf_printf(o, "const float v = (");
    tp__c_operand(w, s, 0);
    tp_buf_printf(o, "[at + r * %lld + i] - mean) * inv * ", (long long)row);
    tp__c_operand(w, s, 1);
    tp_buf_printf(o, "[c] + ");
    tp__c_operand(w, s, 2);
    tp_buf_printf(o, "[c];\n                    ");
    tp__c_operand(w, s, s->call.n_in);
    tp_buf_printf(o, "[at + r * %lld + i] = %s;\n                }\n        }\n", (long long)row,
                  s->call.fused.act == TP_EPILOGUE_RELU ? "v < 0.0f ? 0.0f : v" : "v");
}

static void tp__c_reduce(tp__c_writer *w, const tp__step *s)
{
    const tp_shape *x = &s->call.in[0].shape;
    tp_buf *o = &w->body;
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
                  : s->row == &tp__op_reduce_max  ? 2
                                                  : 3);
}

static void tp__c_transpose(tp__c_writer *w, const tp__step *s)
{
    const tp_shape *x = &s->call.in[0].shape, *y = &s->call.out[0].shape;
    int perm[TP_MAX_DIMS];
    int64_t in[TP_MAX_DIMS], from[TP_MAX_DIMS], to[TP_MAX_DIMS];
    tp__permutation((const tp__transpose_attrs *)s->call.attrs, x->ndim, perm);
    tp__c_strides(x, in);
    tp__c_strides(y, to);
    for (int d = 0; d < y->ndim; d++) from[d] = in[perm[d]];
    tp__c_move(w, s, 0, 1, y, from, 0, to, 0);
}

static void tp__c_reverse(tp__c_writer *w, const tp__step *s)
{
    const tp_shape *x = &s->call.in[0].shape;
    bool is_reversed[TP_MAX_DIMS];
    int64_t from[TP_MAX_DIMS], to[TP_MAX_DIMS], last = 0;
    tp__reduced_dims((const tp__reduce_attrs *)s->call.attrs, x->ndim, is_reversed);
    tp__c_strides(x, from);
    tp__c_strides(x, to);
    for (int d = 0; d < x->ndim; d++) {
        if (!is_reversed[d]) continue;
        last += (x->dim[d] - 1) * to[d];
        from[d] = -to[d];
    }
    tp__c_move(w, s, 0, 1, x, from, last, to, 0);
}

static void tp__c_slice(tp__c_writer *w, const tp__step *s)
{
    const tp_shape *x = &s->call.in[0].shape, *y = &s->call.out[0].shape;
    int64_t from[TP_MAX_DIMS], to[TP_MAX_DIMS];
    tp__c_strides(x, from);
    tp__c_strides(y, to);
    tp__c_move(w, s, 0, 1, y, from, tp__element_at(((const tp__slice_attrs *)s->call.attrs)->begin, x), to, 0);
}

static void tp__c_broadcast_like(tp__c_writer *w, const tp__step *s)
{
    const tp_shape *x = &s->call.in[0].shape, *y = &s->call.out[0].shape;
    const int lead = y->ndim - x->ndim;
    int64_t of_x[TP_MAX_DIMS], from[TP_MAX_DIMS], to[TP_MAX_DIMS];
    tp__c_strides(x, of_x);
    tp__c_strides(y, to);
    for (int d = 0; d < y->ndim; d++) from[d] = d < lead || x->dim[d - lead] == 1 ? 0 : of_x[d - lead];
    tp__c_move(w, s, 0, 2, y, from, 0, to, 0);
}

/* Writes code that fills y with the constant, then copies x into it. */
static void tp__c_pad(tp__c_writer *w, const tp__step *s)
{
    const tp_shape *x = &s->call.in[0].shape, *y = &s->call.out[0].shape;
    tp_buf *o = &w->body;
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
    tp__c_move(w, s, 0, 1, x, from, 0, to, at);
}

static void tp__c_tile(tp__c_writer *w, const tp__step *s)
{
    const tp_shape *x = &s->call.in[0].shape, *y = &s->call.out[0].shape;
    tp_buf *o = &w->body;
    int64_t stride[TP_MAX_DIMS], after = 1;
    tp__c_strides(x, stride);
    tp_buf_printf(o, "        int i;\n        for (i = 0; i < %lld; i++) ", (long long)tp_shape_size(y));
    tp__c_operand(w, s, s->call.n_in);
    tp_buf_printf(o, "[i] = ");
    tp__c_operand(w, s, 0);
    tp_buf_printf(o, "[0");
    for (int d = y->ndim - 1; d >= 0; after *= y->dim[d], d--)
        if (x->dim[d] > 1)
            tp_buf_printf(o, " + i / %lld %% %lld %% %lld * %lld", (long long)after, (long long)y->dim[d],
                          (long long)x->dim[d], (long long)stride[d]);
    tp_buf_printf(o, "];\n");
}

/* Writes concat, stack, split and unstack: a whole and its parts, which lie side by side along an axis. */
static void tp__c_parts(tp__c_writer *w, const tp__step *s)
{
    const tp_call *k = &s->call;
    const bool joins = s->row == &tp__op_concat || s->row == &tp__op_stack;
    const tp_operand *whole = joins ? k->out : k->in, *part = joins ? k->in : k->out;
    const int n = joins ? k->n_in : k->n_out, axis = tp__axis(joins ? ((const tp__axis_attrs *)k->attrs)->axis
                                                                    : ((const tp__parts_attrs *)k->attrs)->axis,
                                                              whole->shape.ndim);
    int64_t of_whole[TP_MAX_DIMS], first = 0;
    tp__c_strides(&whole->shape, of_whole);
    for (int i = 0; i < n; i++) {
        const tp_shape *x = &part[i].shape;
        const bool lacks_axis = x->ndim < whole->shape.ndim; /* of stack and unstack */
        int64_t own[TP_MAX_DIMS], there[TP_MAX_DIMS];
        tp__c_strides(x, own);
        for (int d = 0; d < x->ndim; d++) there[d] = of_whole[d + (lacks_axis && d >= axis)];
        if (joins) tp__c_move(w, s, i, n, x, own, 0, there, first);
        else if (s->buffer[1 + i] >= 0) tp__c_move(w, s, 0, 1 + i, x, there, first, own, 0);
        first += (lacks_axis ? 1 : x->dim[axis]) * of_whole[axis];
    }
}

static void tp__c_add_n(tp__c_writer *w, const tp__step *s)
{
    tp_buf *o = &w->body;
    tp_buf_printf(o, "        int i;\n        for (i = 0; i < %lld; i++) {\n", (long long)tp__size(&s->call.out[0]));
    for (int i = 0; i < s->call.n_in; i++) {
        tp_buf_printf(o, i ? "            sum += " : "            float sum = ");
        tp__c_operand(w, s, i);
        tp_buf_printf(o, "[i];\n");
    }
    tp_buf_printf(o, "            ");
    tp__c_operand(w, s, s->call.n_in);
    tp_buf_printf(o, "[i] = sum;\n        }\n");
}

/* Writes cumsum: line l of n elements, which are `apart` floats apart; the sums are kept in double. */
static void tp__c_cumsum(tp__c_writer *w, const tp__step *s)
{
    const tp__cumsum_attrs *a = (const tp__cumsum_attrs *)s->call.attrs;
    const tp_shape *x = &s->call.in[0].shape;
    const int axis = tp__axis(a->axis, x->ndim);
    const long long n = x->dim[axis], apart = tp__product(x, axis + 1, x->ndim);
    tp_buf *o = &w->body;
    tp_buf_printf(o, "        int l, i;\n        for (l = 0; l < %lld; l++) {\n            double sum = 0;\n",
                  (long long)tp_shape_size(x) / n);
    tp_buf_printf(
        o, a->reverse ? "            for (i = %lld; i >= 0; i--) {\n" : "            for (i = 0; i <= %lld; i++) {\n",
        n - 1);
    tp_buf_printf(o, "                const int at = l / %lld * %lld + l %% %lld + i * %lld;\n", apart, n * apart,
                  apart, apart);
    tp_buf_printf(o, "                const float v = ");
    tp__c_operand(w, s, 0);
    tp_buf_printf(o, a->exclusive ? "[at];\n                " : "[at];\n                sum += v;\n                ");
    tp__c_operand(w, s, 1);
    tp_buf_printf(o, "[at] = (float)sum;\n%s            }\n        }\n",
                  a->exclusive ? "                sum += v;\n" : "");
}

static void tp__c_fill_like(tp__c_writer *w, const tp__step *s)
{
    tp_buf *o = &w->body;
    tp_buf_printf(o, "        int i;\n        for (i = 0; i < %lld; i++) ",
                  (long long)tp_shape_size(&s->call.out[0].shape));
    tp__c_operand(w, s, s->call.n_in);
    tp_buf_printf(o, "[i] = ");
    tp__c_float(o, ((const tp__fill_attrs *)s->call.attrs)->value);
    tp_buf_printf(o, ";\n");
}
static void tp__c_copy(tp__c_writer *w, const tp__step *s)
{
    tp_buf *o = &w->body;
    tp_buf_printf(o, "        memcpy(");
    tp__c_operand(w, s, 1);
    tp_buf_printf(o, ", ");
    tp__c_operand(w, s, 0);
    tp_buf_printf(o, ", %lld * sizeof(float));\n", (long long)tp_shape_size(&s->call.out[0].shape));
}

/* Reports operands that C code of this exporter cannot hold: bools are bytes of the static array, and only chains use them. Notes
 * large ones. */
static tp_status tp__c_check(tp__c_writer *w, const tp__step *s)
{
    const char *row = s->row->name;
    for (int i = 0; i < s->call.n_in + s->call.n_out; i++)
        if (s->buffer[i] >= 0 && s->operand[i].dtype != TP_F32 &&
            (s->operand[i].dtype != TP_BOOL || s->row != &tp__op_fused ||
             w->plan->buffer[tp__c_root(w->plan, s->buffer[i])].place != TP__IN_ARENA))
            return tp_fail(TP_ERR_UNSUPPORTED, "C export: '%s' (%s) has a value of type %s, only float32 is exported",
                           s->name, row, tp_dtype_name(s->operand[i].dtype));
    for (int i = 0; i < s->call.n_in + s->call.n_out; i++) {
        if (tp__size(&s->operand[i]) > INT_MAX / 4)
            return tp_fail(TP_ERR_UNSUPPORTED, "C export: '%s' (%s) has a value that is too large", s->name, row);
        if (tp__size(&s->operand[i]) > INT16_MAX) w->large = true;
    }
    return TP_OK;
}

/* Writes one step of the plan as a block of C. */
static tp_status tp__c_step(tp__c_writer *w, const tp__step *s)
{
    const tp_op *row = s->row;
    tp_status st = tp__c_check(w, s);
    if (st != TP_OK) return st;
    int64_t elements = 0; /* elements of all outputs; an empty output needs no code */
    for (int i = 0; i < s->call.n_out; i++) elements += tp__size(&s->call.out[i]);
    if (s->call.n_out && elements == 0) return TP_OK;
    tp_buf_printf(&w->body, "    { /* %s: %s */\n", s->name, row->name);
    if (row == &tp__op_fused) st = tp__c_fused(w, s);
    else if (row == &tp__op_conv2d) tp__c_conv2d(w, s);
    else if (row == &tp__op_conv2d_input_grad && !s->call.fused.add) tp__c_conv2d_transpose(w, s);
    else if (row == &tp__op_matmul) st = tp__c_matmul(w, s);
    else if (row == &tp__op_max_pool || row == &tp__op_avg_pool) tp__c_pool(w, s);
    else if (row == &tp__op_softmax || row == &tp__op_log_softmax) tp__c_softmax(w, s);
    else if (row == &tp__op_bias_add) tp__c_bias_add(w, s);
    else if (row == &tp__op_batch_norm_infer) tp__c_batch_norm(w, s);
    else if (row == &tp__op_group_norm || row == &tp__op_layer_norm) tp__c_group_norm(w, s);
    else if (row == &tp__op_reduce_sum || row == &tp__op_reduce_mean || row == &tp__op_reduce_max ||
             row == &tp__op_reduce_min)
        tp__c_reduce(w, s);
    else if (row == &tp__op_transpose) tp__c_transpose(w, s);
    else if (row == &tp__op_pad && ((const tp__pad_attrs *)s->call.attrs)->mode == TP_PAD_CONSTANT) tp__c_pad(w, s);
    else if (row == &tp__op_pad)
        st = tp_fail(TP_ERR_UNSUPPORTED,
                     "C export: '%s' pads with mirrored values, which has no C form: pad with a constant", s->name);
    else if (row == &tp__op_tile) tp__c_tile(w, s);
    else if (row == &tp__op_reverse) tp__c_reverse(w, s);
    else if (row == &tp__op_slice) tp__c_slice(w, s);
    else if (row == &tp__op_broadcast_like) tp__c_broadcast_like(w, s);
    else if (row == &tp__op_concat || row == &tp__op_stack || row == &tp__op_split || row == &tp__op_unstack)
        tp__c_parts(w, s);
    else if (row == &tp__op_add_n) tp__c_add_n(w, s);
    else if (row == &tp__op_cumsum) tp__c_cumsum(w, s);
    else if (row == &tp__op_copy) tp__c_copy(w, s);
    else if (row == &tp__op_fill_like) tp__c_fill_like(w, s);
    else
        st = tp_fail(TP_ERR_UNSUPPORTED, "C export: '%s' needs the op '%s', which has no C form: %s", s->name,
                     row->name, tp__c_lack(row));
    if (st == TP_OK) tp_buf_printf(&w->body, "    }\n");
    return st;
}

/* Writes void name(const float *x, float *y), without the text after it. */
static void tp__c_prototype(const tp__c_writer *w, tp_buf *out, const char (*param)[64])
{
    const tp__plan *p = w->plan;
    tp_buf_printf(out, "void %s(", w->name);
    for (int i = 0; i < p->n_feed + p->n_fetch; i++)
        tp_buf_printf(out, "%s%s%s", i ? ", " : "", i < p->n_feed ? "const float *" : "float *", param[i]);
    tp_buf_printf(out, ")");
}
/* Writes comment lines with the shapes of inputs and outputs. */
static void tp__c_signature(const tp__c_writer *w, tp_buf *out, const char (*param)[64])
{
    const tp__plan *p = w->plan;
    char t[TP_SHAPE_TEXT];
    tp_buf_printf(out, " * ");
    tp__c_prototype(w, out, param);
    tp_buf_printf(out, ";\n *\n");
    for (int i = 0; i < p->n_feed + p->n_fetch; i++)
        tp_buf_printf(out, " * %-6s %s: float%s\n", i < p->n_feed ? "input" : "output", param[i],
                      tp_shape_text(i < p->n_feed ? &p->feed_type[i].shape : &p->fetch_type[i - p->n_feed].shape, t));
}
/* Writes the text of the header: the function, and the number of floats in each array. */
static void tp__c_header(const tp__c_writer *w, tp_buf *out, const char (*param)[64])
{
    const tp__plan *p = w->plan;
    tp_buf_printf(out, "/* Written by tp %d.%d. Not reentrant.\n *\n", TP_VERSION_MAJOR, TP_VERSION_MINOR);
    tp__c_signature(w, out, param);
    tp_buf_printf(
        out, " *\n * %s_n_<array> is how many floats an array has. */\n#ifndef %s_INCLUDED\n#define %s_INCLUDED\n\n",
        w->name, w->name, w->name);
    tp_buf_printf(out, "enum {");
    for (int i = 0; i < p->n_feed + p->n_fetch; i++)
        tp_buf_printf(
            out, "%s\n    %s_n_%s = %lld", i ? "," : "", w->name, param[i],
            (long long)tp_shape_size(i < p->n_feed ? &p->feed_type[i].shape : &p->fetch_type[i - p->n_feed].shape));
    tp_buf_printf(out, "\n};\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
    tp__c_prototype(w, out, param);
    tp_buf_printf(out, ";\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}

/* Writes the whole file around the steps. header: receives the text of the header file, or NULL. */
static tp_status tp__c_file(tp__c_writer *w, tp_buf *out, tp_buf *header)
{
    const tp__plan *p = w->plan;
    char(*param)[64] = (char(*)[64])tp_calloc((size_t)(p->n_feed + p->n_fetch) + 1, sizeof *param);
    tp_status st = param ? TP_OK : TP_ERR_NOMEM;
    const size_t bytes = p->arena_bytes[0], floats = bytes ? (bytes + sizeof(float) - 1) / sizeof(float) : 1;
    for (int i = 0; i < p->n_feed + p->n_fetch && st == TP_OK; i++)
        tp__c_name(w, param[i], sizeof param[i], tp_node_name(i < p->n_feed ? p->feed[i] : p->fetch[i - p->n_feed]),
                   (const char(*)[64])param, i);
    for (int i = 0; i < p->n_step && st == TP_OK; i++) st = tp__c_step(w, &p->step[i]);
    tp_buf inputs, outputs;
    memset(&inputs, 0, sizeof inputs);
    memset(&outputs, 0, sizeof outputs);
    for (int i = 0; i < p->n_fetch && st == TP_OK; i++) {
        if (p->fetch_type[i].dtype != TP_F32)
            st = tp_fail(TP_ERR_UNSUPPORTED, "C export: output '%s' is %s, only float32 is exported",
                         tp_node_name(p->fetch[i]), tp_dtype_name(p->fetch_type[i].dtype));
        tp_buf_printf(&outputs, "    memcpy(%s, ", param[p->n_feed + i]);
        if (p->fetch_buffer[i] >= 0) tp__c_pointer(w, &outputs, p->fetch_buffer[i]);
        tp_buf_printf(&outputs, ", %lld * sizeof(float));\n", (long long)tp_shape_size(&p->fetch_type[i].shape));
    }
    for (int i = 0; i < p->n_feed && st == TP_OK; i++) {
        tp_buf_printf(&inputs, "    memcpy(");
        tp__c_pointer(w, &inputs, p->feed_buffer[i]);
        tp_buf_printf(&inputs, ", %s, %lld * sizeof(float));\n", param[i],
                      (long long)tp_shape_size(&p->feed_type[i].shape));
    }
    if (st == TP_OK) {
        tp_buf_printf(out, "/* Written by tp %d.%d. C99 or C++, needs libm; not reentrant.\n *\n", TP_VERSION_MAJOR,
                      TP_VERSION_MINOR);
        tp__c_signature(w, out, (const char(*)[64])param);
        tp_buf_printf(out, " * RAM %llu bytes, constants %llu bytes, %d kernels */\n", (unsigned long long)(floats * 4),
                      (unsigned long long)w->constant_bytes, p->n_step);
        tp_buf_printf(out, "#include <math.h>\n#include <string.h>\n\n");
        if (w->large)
            tp_buf_printf(out,
                          "/* An error here: the compiler's int has 16 bits, which is too small for this model. */\n"
                          "typedef char %s_needs_int_of_32_bits[sizeof(int) > 2 ? 1 : -1];\n",
                          w->name);
        if (w->constants.data) tp_buf_put(out, w->constants.data, w->constants.len);
        if (w->uses_static_array)
            tp_buf_printf(out, "\nstatic float %s_ram[%llu];\n", w->name, (unsigned long long)floats);
        for (int i = 0; i < TP_COUNT(tp__c_helper); i++)
            if (w->helpers & 1u << i)
                tp_buf_printf(out, "\nstatic void %s_%s%s", w->name, tp__c_helper[i].name, tp__c_helper[i].text);
        tp_buf_printf(out, "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
        tp__c_prototype(w, out, (const char(*)[64])param);
        tp_buf_printf(out, ";\n#ifdef __cplusplus\n}\n#endif\n");
        tp__c_prototype(w, out, (const char(*)[64])param);
        tp_buf_printf(out, "\n{\n");
        if (inputs.data) tp_buf_put(out, inputs.data, inputs.len);
        if (w->body.data) tp_buf_put(out, w->body.data, w->body.len);
        if (outputs.data) tp_buf_put(out, outputs.data, outputs.len);
        tp_buf_printf(out, "}\n");
        if (header) tp__c_header(w, header, (const char(*)[64])param);
        if (out->failed || w->body.failed || w->constants.failed || inputs.failed || outputs.failed ||
            (header && header->failed))
            st = TP_ERR_NOMEM;
    }
    tp_buf_free(&inputs);
    tp_buf_free(&outputs);
    tp_free(param);
    return st == TP_ERR_NOMEM ? tp_fail(TP_ERR_NOMEM, "out of memory while a model was written as C") : st;
}

/* The sentence of an input that is no node of the session: a NULL may come from tp_graph_find, and then has a name. */
static tp_status tp__export_no_input(const char *what, const tp_session *s, const tp_node *input, int i)
{
    char name[TP__MISSING_TEXT] = "";
    return input ? tp_fail(TP_ERR_ARG, "%s: input %d is not a node of this session's graph", what, i)
                 : tp_fail(TP_ERR_ARG, "%s: input %d is NULL%s", what, i, tp__node_missing(s->graph, name));
}

/* Makes the feed of input i, of which only the type is read. Unknown dimensions are .batch, or 1 if that is not given. *unsized
 * becomes the first input that needs it: one with an unknown dimension after the first. */
static tp_status tp__c_input(tp_session *s, tp_node *input, int i, const tp_export_c_desc *d, tp_feed *feed,
                             const tp_node **unsized)
{
    static const float nothing = 0;
    const bool given = d && d->batch > 0;
    bool later = false; /* a dimension after the first one is unknown */
    if (!input || input->op->graph != s->graph) return tp__export_no_input("C export", s, input, i);
    feed->node = input;
    feed->value.dtype = input->dtype;
    feed->value.shape = input->shape;
    feed->value.data = (void *)(uintptr_t)&nothing;
    for (int k = 0; k < input->shape.ndim; k++)
        if (input->shape.dim[k] < 0) {
            feed->value.shape.dim[k] = given ? d->batch : 1;
            later = later || k > 0;
        }
    if (later && !given && !*unsized) *unsized = input;
    if (input->dtype != TP_F32)
        return tp_fail(
            TP_ERR_UNSUPPORTED,
            "C export: input '%s' is %s, only float32 is exported: give a float32 node that is computed from it as the "
            "input, such as tp_named(tp_cast(image, TP_F32), \"pixels\") or an embedding's output",
            tp_node_name(input), tp_dtype_name(input->dtype));
    if (tp_shape_size(&feed->value.shape) > INT_MAX / 4)
        return tp_fail(TP_ERR_UNSUPPORTED, "C export: input '%s' is too large", tp_node_name(input));
    return TP_OK;
}

static tp_status tp__c_unsized(const tp_node *input)
{
    char text[TP_SHAPE_TEXT];
    return tp_fail(TP_ERR_SHAPE,
                   "C export: input '%s' is %s, and C code has fixed sizes: set .batch, the value of all unknown "
                   "dimensions, or build the graph with an input of known size",
                   tp_node_name(input), tp_shape_text(&input->shape, text));
}

/* Whether the headers that the file includes declare the name; in C++ these include <stdlib.h>. */
static bool tp__c_library(const char *name)
{
    static const char functions[] =
        " basename bcmp bcopy bzero explicit_bzero ffs ffsl ffsll index memccpy memchr memcmp memcpy memfrob memmem "
        "memmove mempcpy memrchr memset rawmemchr rindex sigabbrev_np sigdescr_np stpcpy stpncpy strcasestr strcat "
        "strchr strchrnul strcmp strcpy strcspn strdup strdupa strerrordesc_np strerrorname_np strfry strlcat "
        "strlcpy strlen strncat strncmp strncpy strndup strndupa strnlen strpbrk strrchr strsep strsignal strspn "
        "strstr strverscmp lgamma_r lgammaf_r lgammal_r fpclassify iscanonical iseqsig isfinite isgreater "
        "isgreaterequal isless islessequal islessgreater isnormal issignaling issubnormal isunordered iszero signbit "
        "daddl ddivl dfmal dmull dsqrtl dsubl ";
    static const char types[] =
        " blkcnt_t blksize_t caddr_t clock_t clockid_t daddr_t dev_t div_t double_t fd_mask fd_set float_t fsid_t "
        "gid_t id_t ino_t int16_t int32_t int64_t int8_t key_t ldiv_t lldiv_t locale_t loff_t mode_t nlink_t off_t "
        "pid_t quad_t register_t sigset_t size_t ssize_t std suseconds_t time_t timer_t u_char u_int u_long u_quad_t "
        "u_short uid_t uint ulong useconds_t ushort ";
    static const char variants[] = /* some also with _r, _l or 64 behind them */
        " a64l abort abs aligned_alloc alloca arc4random arc4random_buf arc4random_uniform at_quick_exit atexit atof "
        "atoi atol atoll bsearch calloc canonicalize_file_name clearenv div drand48 ecvt erand48 exit fcvt free gcvt "
        "getenv getloadavg getpt getsubopt grantpt initstate jrand48 l64a labs lcong48 ldiv llabs lldiv lrand48 "
        "malloc mblen mbstowcs mbtowc mkdtemp mkostemp mkostemps mkstemp mkstemps mktemp mrand48 nrand48 on_exit "
        "posix_memalign posix_openpt pselect ptsname putenv qecvt qfcvt qgcvt qsort quick_exit rand realloc "
        "reallocarray realpath rpmatch secure_getenv random seed48 select setenv setstate srand srand48 srandom "
        "strcasecmp strcoll strerror strfromd strncasecmp strtod strtof strtok strtol strtold strtoll strtoq strtoul "
        "strtoull strtouq strxfrm system unlockpt unsetenv valloc wcstombs wctomb ";
    static const char math[] = /* each also with f, l, f32, f64 and the like behind it */
        " acos acosh asin asinh atan atan2 atanh canonicalize cbrt ceil copysign cos cosh drem erf erfc exp exp10 exp2 "
        "expm1 fabs fadd fdim fdiv ffma finite floor fma fmax fmaximum fmaximum_mag fmaximum_mag_num fmaximum_num "
        "fmaxmag fmin fminimum fminimum_mag fminimum_mag_num fminimum_num fminmag fmod fmul frexp fromfp fromfpx fsqrt "
        "fsub gamma getpayload hypot ilogb isinf isnan j0 j1 jn ldexp lgamma llogb llrint llround log log10 log1p log2 "
        "logb lrint lround modf nan nearbyint nextafter nextdown nexttoward nextup pow pow10 remainder remquo rint "
        "round roundeven scalb scalbln scalbn setpayload setpayloadsig significand sin sincos sinh sqrt strfrom strto "
        "tan tanh tgamma totalorder totalordermag trunc ufromfp ufromfpx y0 y1 yn ";
    const size_t n = strlen(name);
    if (tp__c_listed(functions, name, n) || tp__c_listed(types, name, n)) return true;
    for (size_t k = 1; k <= n; k++) {
        const char *behind = tp__c_listed(math, name, k)       ? " f l f16 f32 f32x f64 f64x f128 "
                             : tp__c_listed(variants, name, k) ? " _r _l 64 "
                                                               : NULL;
        if (behind && (k == n || tp__c_listed(behind, name + k, n - k))) return true;
    }
    return false;
}

static tp_status tp__export_c(tp_session *s, tp_node *const *inputs, int n_inputs, tp_node *const *outputs,
                              int n_outputs, tp_buf *out, tp_buf *header, const tp_export_c_desc *d,
                              tp_export_c_info *info)
{
    tp__c_writer w;
    const int64_t batch = d && d->batch > 0 ? d->batch : 1;
    memset(&w, 0, sizeof w);
    if (d && d->batch < 0) return tp_fail(TP_ERR_ARG, "C export: .batch is %lld: it is 1 or more", (long long)d->batch);
    w.name = d && d->name ? d->name : "model";
    for (const char *c = w.name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_')
            return tp_fail(TP_ERR_NAME, "C export: '%s' cannot be a function's name", w.name);
    if (!*w.name || isdigit((unsigned char)*w.name) || n_outputs < 1)
        return tp_fail(TP_ERR_ARG,
                       n_outputs < 1 ? "C export: there are no outputs" : "C export: '%s' cannot be a function's name",
                       w.name);
    if (tp__c_keyword(w.name)) return tp_fail(TP_ERR_NAME, "C export: '%s' cannot be a function's name", w.name);
    if (tp__c_library(w.name))
        return tp_fail(TP_ERR_NAME,
                       "C export: '%s' cannot be a function's name: <math.h> or <string.h>, which the file includes, "
                       "has it",
                       w.name);
    for (int i = 0; i < s->n_device; i++)
        if (!s->device[i]->host)
            return tp_fail(TP_ERR_UNSUPPORTED,
                           "C export: the session's variables are on %s: load them into one on the CPU",
                           s->device[i]->name);
    /* makes a plan with naive kernels, for inputs of known shapes; nothing is run */
    tp_device *naive = tp_cpu_device_new(1, "naive");
    tp_exec *e = naive ? tp_exec_new(s) : NULL;
    tp_feed *feed = (tp_feed *)tp_calloc((size_t)n_inputs + 1, sizeof *feed);
    const tp_node *unsized = NULL;
    tp_status st = e && feed ? TP_OK : tp_fail(TP_ERR_NOMEM, "out of memory while a model was written as C");
    for (int i = 0; i < n_inputs && st == TP_OK; i++) st = tp__c_input(s, inputs[i], i, d, &feed[i], &unsized);
    if (st == TP_OK) st = tp__check_run(s, feed, n_inputs, outputs, n_outputs);
    if (st == TP_OK) {
        tp__plan *p = NULL;
        e->device[0] = naive;
        e->one_device = true;
        tp_mutex_lock(s->graph->lock);
        if (s->n_var < s->graph->var.n) st = tp__session_grow(s);
        if (st == TP_OK) p = tp__find_plan(e, feed, n_inputs, outputs, n_outputs, &st);
        tp_mutex_unlock(s->graph->lock);
        if (!p && st == TP_ERR_ARG) st = tp_fail(st, "C export: %s. List it among the inputs", tp_last_error());
        if (st == TP_ERR_SHAPE && !unsized)
            st = tp_fail(st, "C export with a batch of %lld (see .batch): %s", (long long)batch, tp_last_error());
        if (p) {
            w.plan = p;
            w.exec = e;
            w.constant = (int *)tp_malloc(((size_t)p->n_buffer + 1) * sizeof *w.constant);
            if (!w.constant) st = TP_ERR_NOMEM;
            for (int i = 0; i < p->n_buffer && w.constant; i++) w.constant[i] = -1;
            if (st == TP_OK) st = tp__c_file(&w, out, header);
            if (info) {
                info->ram = (p->arena_bytes[0] + 3) / 4 * 4;
                info->flash = w.constant_bytes;
                info->kernels = p->n_step;
            }
            tp_free(w.constant);
        }
    }
    /* Only now, because an op without a C form is the more important error: .batch would not help. */
    if (unsized && (st == TP_OK || st == TP_ERR_SHAPE)) st = tp__c_unsized(unsized);
    tp_buf_free(&w.constants);
    tp_buf_free(&w.body);
    tp_exec_free(e);
    tp_free(feed);
    if (naive) naive->close(naive);
    return st;
}

TP_DEF tp_status tp_export_c_text(tp_session *s, tp_node *const *inputs, int n_inputs, tp_node *const *outputs,
                                  int n_outputs, tp_buf *out, const tp_export_c_desc *d, tp_export_c_info *info)
{
    TP__REQUIRE(s && (inputs || n_inputs == 0) && n_inputs >= 0 && (outputs || n_outputs < 1) && out, TP_ERR_ARG)

    return tp__export_c(s, inputs, n_inputs, outputs, n_outputs, out, NULL, d, info);
}

TP_DEF tp_status tp_export_c(tp_session *s, tp_node *const *inputs, int n_inputs, tp_node *const *outputs,
                             int n_outputs, const char *path, const tp_export_c_desc *d)
{
    TP__REQUIRE(s && (inputs || n_inputs == 0) && n_inputs >= 0 && (outputs || n_outputs < 1) && path, TP_ERR_ARG)

    tp_buf text, header, header_path;
    memset(&text, 0, sizeof text);
    memset(&header, 0, sizeof header);
    memset(&header_path, 0, sizeof header_path);
    const char *slash = tp__os_last_separator(path), *dot = strrchr(slash ? slash : path, '.');
    const bool with_header = dot && strcmp(dot, ".h") != 0;
    if (with_header) {
        tp_buf_put(&header_path, path, (size_t)(dot - path));
        tp_buf_put(&header_path, ".h", 3);
    }
    tp_status st = tp__export_c(s, inputs, n_inputs, outputs, n_outputs, &text, with_header ? &header : NULL, d, NULL);
    if (st == TP_OK && header_path.failed) st = tp_fail(TP_ERR_NOMEM, "out of memory while a model was written as C");
    tp_writer *file[2] = {NULL, NULL};
    if (st == TP_OK) st = tp__export_open(&file[0], path, &text);
    if (st == TP_OK && with_header) st = tp__export_open(&file[1], header_path.data, &header);
    st = tp__export_close(st, file[0], file[1]);
    tp_buf_free(&text);
    tp_buf_free(&header);
    tp_buf_free(&header_path);
    return st;
}

/* ==== >>onnx ========================================================================================== */
/* A value that depends on no input is a constant: the session computes it and the file stores it. All other ops are written in
 * the order in which they were created. A value of four dimensions has two forms: its own layout, and channels first, its
 * permutation (0,3,1,2). Convolutions of NHWC images use and produce the second form. Other ops use the form that exists; if an
 * op needs a form that does not exist, one Transpose creates it. So a network transposes its images only once, at the
 * inputs. A flattened image of two dimensions may have a third form, the elements in the order of channels first, which only a
 * product with constant weights can read. */

enum { TP__OWN, TP__CHANNELS_FIRST, TP__FLAT_FIRST };
/* for each axis of the second form (channels first), the axis of the value */
static const int tp__onnx_to_first[4] = {0, 3, 1, 2};
static const int tp__onnx_to_own[4] = {0, 2, 3, 1}; /* for each axis of the value, the axis of the second form */

typedef struct tp__onnx_value {
    const char *name;    /* name of the value in the ONNX file */
    const char *form[3]; /* name of the tensor that holds this form; NULL: the form does not exist yet */
    /* set if this value is a flattened image in the form TP__FLAT_FIRST: the image */
    const tp_node *flat;
    const tp_tensor *constant; /* the constant, if the value depends on no input */
    const tp_operation *user;  /* one of the ops that read the value */
    int uses;                  /* number of uses by ops that are written; an output counts 2 */
    bool input;
    bool trained; /* the value follows from a variable that is trained */
} tp__onnx_value;

typedef struct tp__onnx {
    tp_session *session;
    const tp_export_onnx_desc *options;
    tp_arena names;
    tp__map written; /* names of constants that are written when first needed */
    tp_buf node, init, attr;
    tp_buf untrained; /* names of the float32 initializers that depend on no trained variable, one per line */
    bool has_trained; /* an initializer is a trained weight */
    tp_writer
        *weights; /* the file of external data, its name, and how many bytes have been written; NULL: there is none */
    const char *location;
    int64_t n_weights;
    tp__onnx_value *value;
    int *first; /* for each operation id, the index of its first value */
    char *depends_on_input,
        *done;              /* for each operation id: whether it depends on an input; whether it is already written */
    tp_type *type;          /* shape of each value, inferred for inputs of another batch size */
    const tp_operation *op; /* the op that is being written */
    int n_names, opset;
    tp_status status; /* status of the first error */
} tp__onnx;

static tp_status tp__onnx_nomem(void)
{
    return tp_fail(TP_ERR_NOMEM, "out of memory while a model was written as ONNX");
}
/* Returns name, or ""; if name is NULL, because the arena had no memory, records an error. */
static const char *tp__onnx_check_name(tp__onnx *w, const char *name)
{
    if (!name) w->status = tp__onnx_nomem();
    return name ? name : "";
}
static const char *tp__onnx_unique_name(tp__onnx *w)
{
    return tp__onnx_check_name(w, tp_arena_printf(&w->names, "%s:t%d", w->op->name, w->n_names++));
}

/* -- values */

static bool tp__onnx_passes_through(const tp__onnx *w, const tp_op *row)
{
    if (w->options->keep_identities) return false;
    return row == &tp__op_identity || row == &tp__op_stop_gradient || row == &tp__op_print ||
           row == &tp__op_check_numerics || row == &tp__op_summary || row == &tp__op_dropout;
}
static tp__onnx_value *tp__onnx_raw(const tp__onnx *w, const tp_node *n)
{
    return &w->value[w->first[n->op->id] + n->index];
}
/* Finds the node that computes the value of node n: skips ops that do nothing at inference, such as dropout. */
static const tp_node *tp__onnx_root(const tp__onnx *w, const tp_node *n)
{
    while (!tp__onnx_raw(w, n)->input && tp__onnx_passes_through(w, n->op->row)) n = n->op->in[0];
    return n;
}
static tp__onnx_value *tp__onnx_at(const tp__onnx *w, const tp_node *n) { return tp__onnx_raw(w, tp__onnx_root(w, n)); }

/* -- attributes of the node that is written next */

static void tp__onnx_attr(tp__onnx *w, const char *name, int kind, tp_buf *a)
{
    tp__pb_text(a, 1, name);
    tp__pb_int(a, 20, kind);
    tp__pb_message(&w->attr, 5, a);
}
static void tp__onnx_int(tp__onnx *w, const char *name, int64_t v)
{
    tp_buf a;
    memset(&a, 0, sizeof a);
    tp__pb_int(&a, 3, v);
    tp__onnx_attr(w, name, 2, &a);
}
static void tp__onnx_float(tp__onnx *w, const char *name, float v)
{
    tp_buf a;
    memset(&a, 0, sizeof a);
    tp__pb_float(&a, 2, v);
    tp__onnx_attr(w, name, 1, &a);
}
static void tp__onnx_text(tp__onnx *w, const char *name, const char *v)
{
    tp_buf a;
    memset(&a, 0, sizeof a);
    tp__pb_text(&a, 4, v);
    tp__onnx_attr(w, name, 3, &a);
}
static void tp__onnx_ints(tp__onnx *w, const char *name, const int64_t *v, int n)
{
    tp_buf a;
    memset(&a, 0, sizeof a);
    for (int i = 0; i < n; i++) tp__pb_int(&a, 8, v[i]);
    tp__onnx_attr(w, name, 7, &a);
}

/* -- nodes */

static void tp__onnx_emit_n(tp__onnx *w, const char *type, const char *const *in, int n_in, const char *const *out,
                            int n_out)
{
    tp_buf n;
    memset(&n, 0, sizeof n);
    for (int i = 0; i < n_in; i++) tp__pb_text(&n, 1, in[i]);
    for (int i = 0; i < n_out; i++) tp__pb_text(&n, 2, out[i]);
    for (int i = 0, named = 0; i < n_out && !named; i++)
        if (*out[i]) tp__pb_text(&n, 3, out[i]), named = 1;
    tp__pb_text(&n, 4, type);
    if (w->attr.failed) n.failed = true;
    tp_buf_put(&n, w->attr.data, w->attr.len);
    w->attr.len = 0;
    tp__pb_message(&w->node, 1, &n);
}
/* Writes an ONNX node with one output and up to three inputs; NULL: no more inputs; "": an optional input that is
 * omitted. */
static const char *tp__onnx_emit_to(tp__onnx *w, const char *out, const char *type, const char *a, const char *b,
                                    const char *c)
{
    const char *in[3];
    in[0] = a, in[1] = b, in[2] = c;
    tp__onnx_emit_n(w, type, in, c ? 3 : b ? 2 : a ? 1 : 0, &out, 1);
    return out;
}
static const char *tp__onnx_emit(tp__onnx *w, const char *type, const char *a, const char *b, const char *c)
{
    return tp__onnx_emit_to(w, tp__onnx_unique_name(w), type, a, b, c);
}
/* Writes an op of any number of inputs; axis -1: it has no such attribute. tp_import_onnx takes 16,384 inputs of a node, so more of them
 * make a chain: a node's result is the first input of the next one. Overwrites `in`. */
static void tp__onnx_join(tp__onnx *w, const char *type, const char **in, int n, int64_t axis, const char *y)
{
    enum { TP__ONNX_INPUTS = 16384 };
    for (int left = n; left > 0; left -= TP__ONNX_INPUTS - 1, in += TP__ONNX_INPUTS - 1) {
        const bool last = left <= TP__ONNX_INPUTS;
        const char *part = last ? y : tp__onnx_unique_name(w);
        if (axis >= 0) tp__onnx_int(w, "axis", axis);
        tp__onnx_emit_n(w, type, in, last ? left : TP__ONNX_INPUTS, &part, 1);
        if (last) return;
        in[TP__ONNX_INPUTS - 1] = part;
    }
}

/* -- initializers */

static int tp__onnx_dtype(tp_dtype d)
{
    static const int of[TP_DTYPE_COUNT] = {0, 1, 11, 10, 16, 6, 7, 2, 9};
    return of[d];
}
/* The fields of a tensor but for its elements. */
static tp_buf tp__onnx_tensor_head(const char *name, tp_dtype dtype, const tp_shape *shape)
{
    tp_buf head;
    memset(&head, 0, sizeof head);
    for (int d = 0; d < shape->ndim; d++) tp__pb_int(&head, 1, shape->dim[d]);
    tp__pb_int(&head, 2, tp__onnx_dtype(dtype));
    if (name) tp__pb_text(&head, 8, name);
    return head;
}
static void tp__onnx_tensor(tp_buf *b, unsigned field, const char *name, tp_dtype dtype, const tp_shape *shape,
                            const void *data)
{
    const size_t size = tp_dtype_size(dtype), bytes = (size_t)tp_shape_size(shape) * size;
    tp_buf head = tp__onnx_tensor_head(name, dtype, shape);
    tp__pb_varint(&head, 9u << 3 | 2u);
    tp__pb_varint(&head, bytes);
    if (head.failed) b->failed = true;
    tp__pb_varint(b, field << 3 | 2u); /* elements go straight into b, without a second copy */
    tp__pb_varint(b, head.len + bytes);
    tp_buf_put(b, head.data, head.len);
    if (tp__little_endian() || size == 1) tp_buf_put(b, data, bytes);
    else
        for (size_t i = 0; i < bytes; i++)
            tp_buf_put(b, (const char *)data + i / size * size + (size - 1 - i % size), 1);
    tp_buf_free(&head);
}
static void tp__onnx_entry(tp_buf *b, unsigned field, const char *key,
                           const char *value) /* writes a StringStringEntryProto */
{
    tp_buf entry;
    memset(&entry, 0, sizeof entry);
    tp__pb_text(&entry, 1, key);
    tp__pb_text(&entry, 2, value);
    tp__pb_message(b, field, &entry);
}
/* Writes the elements of an initializer to the file of external data, from a multiple of 64 bytes on, and where they are to the model. */
static tp_status tp__onnx_external(tp__onnx *w, const char *name, tp_dtype dtype, const tp_shape *shape,
                                   const void *data)
{
    static const char zeros[64] = {0};
    const size_t size = tp_dtype_size(dtype), bytes = (size_t)tp_shape_size(shape) * size;
    const size_t gap = (size_t)(-w->n_weights & 63);
    char number[32];
    tp_buf tensor = tp__onnx_tensor_head(name, dtype, shape);
    tp_status st = tp_writer_put(w->weights, zeros, gap);
    w->n_weights += (int64_t)gap;
    if (st == TP_OK && (tp__little_endian() || size == 1)) st = tp_writer_put(w->weights, data, bytes);
    else
        for (size_t i = 0; i < bytes && st == TP_OK; i++)
            st = tp_writer_put(w->weights, (const char *)data + i / size * size + (size - 1 - i % size), 1);
    tp__onnx_entry(&tensor, 13, "location", w->location);
    tp__format(number, sizeof number, "%lld", (long long)w->n_weights);
    tp__onnx_entry(&tensor, 13, "offset", number);
    tp__format(number, sizeof number, "%lld", (long long)bytes);
    tp__onnx_entry(&tensor, 13, "length", number);
    tp__pb_int(&tensor, 14, 1); /* data_location: external */
    tp__pb_message(&w->init, 5, &tensor);
    w->n_weights += (int64_t)bytes;
    return st;
}
#define TP__ONNX_EXTERNAL 1024 /* bytes from which an initializer is external data */
/* Writes an initializer. trained: it follows from a variable that is trained. */
static const char *tp__onnx_init(tp__onnx *w, const char *name, tp_dtype dtype, const tp_shape *shape, const void *data,
                                 bool trained)
{
    const size_t bytes = (size_t)tp_shape_size(shape) * tp_dtype_size(dtype), most = INT32_MAX;
    w->has_trained |= trained;
    if (w->status == TP_OK && !trained && dtype == TP_F32 && shape->ndim > 0)
        tp_buf_printf(&w->untrained, "%s%s", w->untrained.len ? "\n" : "", name);
    if (w->status == TP_OK && w->weights && bytes >= TP__ONNX_EXTERNAL) {
        w->status = tp__onnx_external(w, name, dtype, shape, data);
        return name;
    }
    if (w->status == TP_OK && (bytes > most || w->init.len > most - bytes))
        w->status =
            tp_fail(TP_ERR_UNSUPPORTED,
                    "ONNX export: with '%s' the model is larger than 2 GiB, which protobuf cannot hold: export it by "
                    "tp_export_onnx with .external_data",
                    name);
    if (w->status == TP_OK) tp__onnx_tensor(&w->init, 5, name, dtype, shape, data);
    return name;
}
static const char *tp__onnx_scalar(tp__onnx *w, tp_dtype dtype, double v)
{
    double converted = 0;
    tp_shape scalar;
    memset(&scalar, 0, sizeof scalar);
    tp_convert(&converted, dtype, &v, TP_F64, 1);
    return tp__onnx_init(w, tp__onnx_unique_name(w), dtype, &scalar, &converted, false);
}
static const char *tp__onnx_list(tp__onnx *w, const int64_t *v, int n) /* Writes a vector of int64 as a constant. */
{
    const int64_t size = n;
    const tp_shape shape = tp_make_shape_n(1, &size);
    return tp__onnx_init(w, tp__onnx_unique_name(w), TP_I64, &shape, v, false);
}
static const char *tp__onnx_list_of_one(tp__onnx *w, int64_t v) { return tp__onnx_list(w, &v, 1); }

/* Whether an initializer or a value of this name has been written. Marks it as written. */
static bool tp__onnx_is_written(tp__onnx *w, const char *name)
{
    if (w->status != TP_OK || tp__map_get(&w->written, name)) return true;
    if (!tp__map_put(&w->written, name, w)) w->status = tp__onnx_nomem();
    return w->status != TP_OK;
}

/* Writes t with leading dimensions of 1 up to n dimensions and with permuted axes. If `as` is not NULL, it is the shape that is
 * written. */
static const char *tp__onnx_init_permuted(tp__onnx *w, const char *name, const tp_tensor *t, int n, const int *perm,
                                          const tp_shape *as, bool trained)
{
    const size_t size = tp_dtype_size(t->dtype);
    tp_shape y;
    int64_t stride[TP_MAX_DIMS], from[TP_MAX_DIMS], step = 1;
    const int64_t count = tp_tensor_size(t);
    memset(&y, 0, sizeof y);
    memset(from, 0, sizeof from);
    y.ndim = n;
    for (int d = n - 1; d >= 0; d--) {
        const int e = d - (n - t->shape.ndim);
        stride[d] = step;
        if (e >= 0) step *= t->shape.dim[e];
    }
    for (int d = 0; d < n; d++) {
        const int e = perm[d] - (n - t->shape.ndim);
        y.dim[d] = e >= 0 ? t->shape.dim[e] : 1;
        from[d] = stride[perm[d]];
    }
    char *data = (char *)tp_malloc((size_t)count * size + 1);
    if (!data) {
        w->status = tp__onnx_nomem();
        return name;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t index_left = i, at = 0;
        for (int d = n - 1; d >= 0; d--) {
            at += index_left % y.dim[d] * from[d];
            index_left /= y.dim[d];
        }
        memcpy(data + (size_t)i * size, (const char *)t->data + (size_t)at * size, size);
    }
    tp__onnx_init(w, name, t->dtype, as ? as : &y, data, trained);
    tp_free(data);
    return name;
}

static const char *tp__onnx_transpose(tp__onnx *w, const char *out, const char *x, const int *perm, int n)
{
    int64_t v[TP_MAX_DIMS];
    for (int d = 0; d < n; d++) v[d] = perm[d];
    tp__onnx_ints(w, "perm", v, n);
    return tp__onnx_emit_to(w, out ? out : tp__onnx_unique_name(w), "Transpose", x, NULL, NULL);
}
static const char *tp__onnx_flatten(tp__onnx *w, const char *out, const char *x)
{
    tp__onnx_int(w, "axis", 1);
    return tp__onnx_emit_to(w, out, "Flatten", x, NULL, NULL);
}
static const char *tp__onnx_unsqueeze(tp__onnx *w, const char *out, const char *x, int64_t axis)
{
    const char *axes = tp__onnx_list_of_one(w, axis);
    return tp__onnx_emit_to(w, out ? out : tp__onnx_unique_name(w), "Unsqueeze", x, axes, NULL);
}

/* Returns the name of the tensor that holds a value in a form; creates the form if necessary. For channels first, a
 * value of fewer than four dimensions gets leading dimensions of 1; a scalar stays a scalar. */
static const char *tp__onnx_get(tp__onnx *w, const tp_node *node, int form)
{
    const tp_node *n = tp__onnx_root(w, node);
    tp__onnx_value *v = tp__onnx_raw(w, n);
    const int ndim = n->shape.ndim;
    if (form == TP__CHANNELS_FIRST && ndim == 0) form = TP__OWN;
    if (form == TP__CHANNELS_FIRST && v->flat) tp__onnx_get(w, node, TP__OWN); /* that form is made of this one */
    if (v->form[form] || w->status != TP_OK) return v->form[form] ? v->form[form] : "";
    const char *name =
        form == TP__OWN
            ? v->name
            : tp__onnx_check_name(w, tp_arena_printf(&w->names, v->flat ? "%s:1xnchw" : "%s:nchw", v->name));
    /* the attributes stored so far belong to the node that uses the value, not to the nodes that are written here */
    const tp_buf attr = w->attr;
    memset(&w->attr, 0, sizeof w->attr);
    if (v->constant && form == TP__OWN)
        tp__onnx_init(w, name, v->constant->dtype, &v->constant->shape, v->constant->data, v->trained);
    else if (v->constant) tp__onnx_init_permuted(w, name, v->constant, 4, tp__onnx_to_first, NULL, v->trained);
    else if (form == TP__OWN && v->flat) tp__onnx_flatten(w, name, tp__onnx_get(w, v->flat, TP__OWN));
    else if (form == TP__OWN && v->form[TP__CHANNELS_FIRST])
        tp__onnx_transpose(w, name, v->form[TP__CHANNELS_FIRST], tp__onnx_to_own, 4);
    else if (form == TP__CHANNELS_FIRST && v->form[TP__OWN]) {
        const char *unsqueezed = v->form[TP__OWN];
        const int64_t new_axes[3] = {0, 1, 2};
        if (ndim < 4)
            unsqueezed = tp__onnx_emit(w, "Unsqueeze", unsqueezed, tp__onnx_list(w, new_axes, 4 - ndim), NULL);
        tp__onnx_transpose(w, name, unsqueezed, tp__onnx_to_first, 4);
    } else {
        w->status = tp_fail(TP_ERR_UNSUPPORTED, "ONNX export: output %d of '%s' (%s) has no ONNX form", n->index,
                            n->op->name, n->op->row->name);
    }
    if (w->attr.failed) w->status = tp__onnx_nomem();
    tp_buf_free(&w->attr);
    w->attr = attr;
    return v->form[form] = name;
}
static const char *tp__onnx_in(tp__onnx *w, int i, int form) { return tp__onnx_get(w, w->op->in[i], form); }

/* Returns the name for output i of the op that is being written; marks this form of the output as existing. */
static const char *tp__onnx_out(tp__onnx *w, const tp_operation *op, int i, int form)
{
    tp__onnx_value *v = tp__onnx_raw(w, &op->out[i]);
    return v->form[form] =
               form == TP__OWN ? v->name : tp__onnx_check_name(w, tp_arena_printf(&w->names, "%s:nchw", v->name));
}

/* Whether the value exists with channels first, but not in its own layout. */
static bool tp__onnx_only_first(const tp__onnx *w, const tp_node *n)
{
    const tp__onnx_value *v = tp__onnx_at(w, n);
    return n->shape.ndim == 4 && v->form[TP__CHANNELS_FIRST] && !v->form[TP__OWN];
}
/* Chooses the form for an op that broadcasts its operands: the one that needs fewer transposes. */
static int tp__onnx_form(const tp__onnx *w)
{
    int own = 0, first = 0, existing = 0;
    if (w->op->out[0].shape.ndim != 4) return TP__OWN;
    for (int i = 0; i < w->op->n_in; i++) {
        const tp__onnx_value *v = tp__onnx_at(w, w->op->in[i]);
        if (v->constant || w->op->in[i]->shape.ndim != 4) continue;
        own += !v->form[TP__OWN];
        first += !v->form[TP__CHANNELS_FIRST];
        existing += v->form[TP__CHANNELS_FIRST] != NULL;
    }
    return existing && first <= own ? TP__CHANNELS_FIRST : TP__OWN;
}

/* Permutes a value: a permuted constant, or a Transpose; `kind` is appended to its name. */
static const char *tp__onnx_permuted(tp__onnx *w, const tp_node *node, int n, const int *perm, const char *kind)
{
    const tp__onnx_value *v = tp__onnx_at(w, node);
    const char *name = tp__onnx_check_name(w, tp_arena_printf(&w->names, "%s:%s", v->name, kind));
    if (tp__onnx_is_written(w, name)) return name;
    if (v->constant) return tp__onnx_init_permuted(w, name, v->constant, n, perm, NULL, v->trained);
    const char *x = tp__onnx_get(w, node, TP__OWN);
    int64_t new_axes[TP_MAX_DIMS];
    bool moves = false;
    for (int d = 0; d < TP_MAX_DIMS; d++) new_axes[d] = d;
    for (int d = 0; d < n; d++) moves |= perm[d] != d;
    if (node->shape.ndim < n) {
        const char *axes = tp__onnx_list(w, new_axes, n - node->shape.ndim);
        x = tp__onnx_emit_to(w, moves ? tp__onnx_unique_name(w) : name, "Unsqueeze", x, axes, NULL);
    }
    return moves ? tp__onnx_transpose(w, name, x, perm, n) : x;
}
static const char *tp__onnx_swapped(tp__onnx *w, const tp_node *node) /* permutation that swaps the last two axes */
{
    const int n = node->shape.ndim;
    int perm[TP_MAX_DIMS];
    for (int d = 0; d < n; d++) perm[d] = d < n - 2 ? d : 2 * n - 3 - d;
    return tp__onnx_permuted(w, node, n, perm, "transposed");
}
/* Reshapes a vector so that it broadcasts along one axis of a value of n dimensions. */
static const char *tp__onnx_broadcast_axis(tp__onnx *w, const tp_node *vector, int axis, int n)
{
    const tp__onnx_value *v = tp__onnx_at(w, vector);
    if (axis == n - 1) return tp__onnx_get(w, vector, TP__OWN);
    const char *name = tp__onnx_check_name(w, tp_arena_printf(&w->names, "%s:along%d", v->name, n - axis));
    if (tp__onnx_is_written(w, name)) return name;
    tp_shape long_shape;
    int64_t behind[TP_MAX_DIMS];
    memset(&long_shape, 0, sizeof long_shape);
    long_shape.ndim = n - axis;
    for (int d = 0; d < TP_MAX_DIMS; d++) long_shape.dim[d] = 1, behind[d] = d + 1;
    if (v->constant) {
        long_shape.dim[0] = v->constant->shape.dim[0];
        return tp__onnx_init(w, name, v->constant->dtype, &long_shape, v->constant->data, v->trained);
    }
    const char *axes = tp__onnx_list(w, behind, long_shape.ndim - 1);
    return tp__onnx_emit_to(w, name, "Unsqueeze", tp__onnx_get(w, vector, TP__OWN), axes, NULL);
}
/* Returns the shape of a value, as a vector. */
static const char *tp__onnx_shape(tp__onnx *w, const tp_node *n)
{
    if (tp_shape_known(&n->shape)) return tp__onnx_list(w, n->shape.dim, n->shape.ndim);
    if (!tp__onnx_only_first(w, n)) return tp__onnx_emit(w, "Shape", tp__onnx_get(w, n, TP__OWN), NULL, NULL);
    const int64_t order[4] = {0, 2, 3, 1};
    const char *s = tp__onnx_emit(w, "Shape", tp__onnx_at(w, n)->form[TP__CHANNELS_FIRST], NULL, NULL);
    return tp__onnx_emit(w, "Gather", s, tp__onnx_list(w, order, 4), NULL);
}
/* Returns dimension `axis` of a value as a scalar. */
static const char *tp__onnx_dim(tp__onnx *w, const tp_node *n, int axis)
{
    if (n->shape.dim[axis] >= 0) return tp__onnx_scalar(w, TP_I64, (double)n->shape.dim[axis]);
    const char *index = tp__onnx_scalar(w, TP_I64, axis);
    return tp__onnx_emit(w, "Gather", tp__onnx_shape(w, n), index, NULL);
}
static const char *tp__onnx_cast_to(tp__onnx *w, const char *out, const char *x, tp_dtype dtype)
{
    tp__onnx_int(w, "to", tp__onnx_dtype(dtype));
    return tp__onnx_emit_to(w, out ? out : tp__onnx_unique_name(w), "Cast", x, NULL, NULL);
}
static const char *tp__onnx_is_finite(tp__onnx *w, const char *out, const char *x)
{
    const char *not_finite = tp__onnx_emit(w, "IsNaN", x, NULL, NULL);
    not_finite = tp__onnx_emit(w, "Or", tp__onnx_emit(w, "IsInf", x, NULL, NULL), not_finite, NULL);
    return tp__onnx_emit_to(w, out ? out : tp__onnx_unique_name(w), "Not", not_finite, NULL, NULL);
}
/* Returns the constant value of input i; an error if it depends on the model's inputs. */
static const tp_tensor *tp__onnx_constant(tp__onnx *w, int i)
{
    const tp__onnx_value *v = tp__onnx_at(w, w->op->in[i]);
    if (!v->constant && w->status == TP_OK)
        w->status = tp_fail(TP_ERR_UNSUPPORTED,
                            "ONNX export: '%s' (%s) needs weights that do not depend on the inputs, but '%s' does",
                            w->op->name, w->op->row->name, tp_node_name(w->op->in[i]));
    return v->constant;
}

/* -- element-wise ops */

static const char *tp__onnx_signs_differ(tp__onnx *w, const char *a, const char *b, const char *zero)
{
    const char *negative = tp__onnx_emit(w, "Less", b, zero, NULL);
    return tp__onnx_emit(w, "Xor", tp__onnx_emit(w, "Less", a, zero, NULL), negative, NULL);
}

/* The ops floordiv and mod round down; integers divided by 0 give 0. */
static void tp__onnx_divide(tp__onnx *w, const char *a, const char *b, const char *y, bool remainder)
{
    const tp_dtype t = w->op->out[0].dtype;
    const char *zero = tp__onnx_scalar(w, t, 0);
    if (tp_dtype_is_float(t) && !remainder) {
        tp__onnx_emit_to(w, y, "Floor", tp__onnx_emit(w, "Div", a, b, NULL), NULL, NULL);
    } else if (tp_dtype_is_float(t)) {
        tp__onnx_int(w, "fmod", 1);
        const char *r = tp__onnx_emit(w, "Mod", a, b, NULL);
        const char *signs_differ = tp__onnx_signs_differ(w, r, b, zero);
        const char *has_remainder = tp__onnx_emit(w, "Not", tp__onnx_emit(w, "Equal", r, zero, NULL), NULL, NULL);
        const char *moved = tp__onnx_emit(w, "Add", r, b, NULL);
        tp__onnx_emit_to(w, y, "Where", tp__onnx_emit(w, "And", signs_differ, has_remainder, NULL), moved, r);
    } else {
        /* x / 0 and INT_MIN / -1 would crash: for the divisors 0 and -1 the quotient is a * b and the remainder 0 */
        const char *crashing_divisor = tp__onnx_emit(w, "Equal", b, tp__onnx_scalar(w, t, -1), NULL);
        crashing_divisor = tp__onnx_emit(w, "Or", tp__onnx_emit(w, "Equal", b, zero, NULL), crashing_divisor, NULL);
        const char *safe_divisor = tp__onnx_emit(w, "Where", crashing_divisor, tp__onnx_scalar(w, t, 1), b);
        const char *r = tp__onnx_emit(w, "Mod", a, safe_divisor, NULL); /* the remainder has the divisor's sign */
        if (remainder) {
            tp__onnx_emit_to(w, y, "Where", crashing_divisor, zero, r);
            return;
        }
        const char *signs_differ = tp__onnx_signs_differ(w, a, b, zero);
        const char *has_remainder = tp__onnx_emit(w, "Not", tp__onnx_emit(w, "Equal", r, zero, NULL), NULL, NULL);
        const char *rounds_down =
            tp__onnx_cast_to(w, NULL, tp__onnx_emit(w, "And", signs_differ, has_remainder, NULL), t);
        const char *q = tp__onnx_emit(w, "Sub", tp__onnx_emit(w, "Div", a, safe_divisor, NULL), rounds_down, NULL);
        tp__onnx_emit_to(w, y, "Where", crashing_divisor, tp__onnx_emit(w, "Mul", a, b, NULL), q);
    }
}

static void tp__onnx_map(tp__onnx *w)
{
    const tp_op *row = w->op->row;
    const int form = tp__onnx_form(w);
    const tp_dtype t = w->op->in[w->op->n_in - 1]->dtype;
    const char *x[3] = {NULL, NULL, NULL};
    for (int i = 0; i < w->op->n_in && i < 3; i++) x[i] = tp__onnx_in(w, i, form);
    const char *y = tp__onnx_out(w, w->op, 0, form);
    if (row == &tp__op_squared_difference || row == &tp__op_square) {
        const char *e = row == &tp__op_square ? x[0] : tp__onnx_emit(w, "Sub", x[0], x[1], NULL);
        tp__onnx_emit_to(w, y, "Mul", e, e, NULL);
    } else if (row == &tp__op_floordiv || row == &tp__op_mod) {
        tp__onnx_divide(w, x[0], x[1], y, row == &tp__op_mod);
    } else if (row == &tp__op_not_equal) {
        tp__onnx_emit_to(w, y, "Not", tp__onnx_emit(w, "Equal", x[0], x[1], NULL), NULL, NULL);
    } else if (row == &tp__op_rsqrt) {
        tp__onnx_emit_to(w, y, "Reciprocal", tp__onnx_emit(w, "Sqrt", x[0], NULL, NULL), NULL, NULL);
    } else if (row == &tp__op_select_bytes && t == TP_BOOL) { /* ONNX Runtime's Where takes no bools on the CPU */
        const char *no = tp__onnx_emit(w, "Not", x[0], NULL, NULL);
        no = tp__onnx_emit(w, "And", no, x[2], NULL);
        tp__onnx_emit_to(w, y, "Or", tp__onnx_emit(w, "And", x[0], x[1], NULL), no, NULL);
    } else if (row == &tp__op_affine) {
        const tp__affine_attrs *a = (const tp__affine_attrs *)w->op->attrs;
        const char *e = x[0];
        if (a->scale != 1.0f || a->offset == 0.0f) {
            const char *scale = tp__onnx_scalar(w, t, (double)a->scale);
            e = tp__onnx_emit_to(w, a->offset != 0.0f ? tp__onnx_unique_name(w) : y, "Mul", e, scale, NULL);
        }
        if (a->offset != 0.0f) tp__onnx_emit_to(w, y, "Add", e, tp__onnx_scalar(w, t, (double)a->offset), NULL);
    } else if (row == &tp__op_clip) {
        const tp__clip_attrs *a = (const tp__clip_attrs *)w->op->attrs;
        const bool whole = !tp_dtype_is_float(t);
        const double low = whole ? ceil((double)a->low) : (double)a->low,
                     high = whole ? floor((double)a->high) : (double)a->high;
        const char *most = tp__onnx_scalar(w, t, high);
        tp__onnx_emit_to(w, y, "Clip", x[0], tp__onnx_scalar(w, t, low), most);
    } else if (row == &tp__op_leaky_relu) {
        tp__onnx_float(w, "alpha", ((const tp__leaky_attrs *)w->op->attrs)->alpha);
        tp__onnx_emit_to(w, y, "LeakyRelu", x[0], NULL, NULL);
    } else if (row == &tp__op_is_finite) {
        tp__onnx_is_finite(w, y, x[0]);
    } else if (row == &tp__op_cast) {
        tp__onnx_cast_to(w, y, x[0], ((const tp__cast_attrs *)w->op->attrs)->to);
    } else if (row == &tp__op_add_n && !tp_dtype_is_float(t)) { /* ONNX's Sum takes floats only */
        const char *sum = x[0];
        for (int i = 1; i < w->op->n_in; i++) {
            const char *next = tp__onnx_in(w, i, form);
            sum = tp__onnx_emit_to(w, i + 1 < w->op->n_in ? tp__onnx_unique_name(w) : y, "Add", sum, next, NULL);
        }
        if (w->op->n_in == 1) tp__onnx_emit_to(w, y, "Identity", sum, NULL, NULL);
    } else { /* ONNX has the same op; its name is in the row of the op table */
        const char **in = (const char **)tp_arena_alloc(&w->names, (size_t)w->op->n_in * sizeof *in);
        if (!in) w->status = tp__onnx_nomem();
        for (int i = 0; i < w->op->n_in && in; i++) in[i] = tp__onnx_in(w, i, form);
        if (in) tp__onnx_join(w, row->onnx, in, w->op->n_in, -1, y);
    }
}

/* -- reductions */

/* When the remaining axes keep their order in the form with channels first, that form can be reduced directly. */
static int tp__onnx_reduce_form(const tp__onnx *w, const bool *reduced, bool keep_dims)
{
    const bool order = reduced[3] || (reduced[1] && reduced[2]);
    return tp__onnx_only_first(w, w->op->in[0]) && (keep_dims || order) ? TP__CHANNELS_FIRST : TP__OWN;
}
static void tp__onnx_reduce(tp__onnx *w)
{
    const tp_op *row = w->op->row;
    const tp__reduce_attrs *a = (const tp__reduce_attrs *)w->op->attrs;
    const int n = w->op->in[0]->shape.ndim;
    const bool truth = row == &tp__op_reduce_all || row == &tp__op_reduce_any;
    bool reduced[TP_MAX_DIMS];
    int64_t axes[TP_MAX_DIMS];
    int n_axes = 0;
    tp__reduced_dims(a, n, reduced);
    const int form = n == 4 ? tp__onnx_reduce_form(w, reduced, a->keep_dims) : TP__OWN;
    const char *x = tp__onnx_in(w, 0, form);
    const char *y = tp__onnx_out(w, w->op, 0, a->keep_dims ? form : TP__OWN), *end = y;
    if (n == 0) {
        tp__onnx_emit_to(w, y, "Identity", x, NULL, NULL);
        return;
    }
    for (int d = 0; d < n; d++)
        if (reduced[form == TP__OWN ? d : tp__onnx_to_first[d]]) axes[n_axes++] = d;
    if (truth) x = tp__onnx_cast_to(w, NULL, x, TP_I32), end = tp__onnx_unique_name(w);
    tp__onnx_int(w, "keepdims", a->keep_dims);
    /* reduce_any is a sum, which is 0 (false) over no elements */
    const bool sum = row == &tp__op_reduce_sum || row == &tp__op_reduce_any;
    if (n_axes < n && !sum) tp__onnx_ints(w, "axes", axes, n_axes);
    tp__onnx_emit_to(w, end,
                     sum                         ? "ReduceSum"
                     : row == &tp__op_reduce_all ? "ReduceMin"
                                                 : row->onnx,
                     x, n_axes < n && sum ? tp__onnx_list(w, axes, n_axes) : NULL, NULL);
    if (truth) tp__onnx_cast_to(w, y, end, TP_BOOL);
}
static const char *tp__onnx_sum_of_squares(tp__onnx *w, int i)
{
    tp__onnx_int(w, "keepdims", 0);
    return tp__onnx_emit(w, "ReduceSumSquare",
                         tp__onnx_in(w, i, tp__onnx_only_first(w, w->op->in[i]) ? TP__CHANNELS_FIRST : TP__OWN), NULL,
                         NULL);
}
/* Writes reductions over all elements: l2_loss, global_norm, zero_fraction. */
static void tp__onnx_reduce_to_scalar(tp__onnx *w)
{
    const tp_dtype t = w->op->out[0].dtype;
    const char *y = tp__onnx_out(w, w->op, 0, TP__OWN);
    if (w->op->row == &tp__op_l2_loss) {
        const char *half = tp__onnx_scalar(w, t, 0.5);
        tp__onnx_emit_to(w, y, "Mul", tp__onnx_sum_of_squares(w, 0), half, NULL);
    } else if (w->op->row == &tp__op_global_norm) {
        const char *sum = NULL;
        for (int i = 0; i < w->op->n_in; i++) {
            const char *squares = tp__onnx_sum_of_squares(w, i);
            if (w->op->in[i]->dtype != t) squares = tp__onnx_cast_to(w, NULL, squares, t);
            sum = sum ? tp__onnx_emit(w, "Add", sum, squares, NULL) : squares;
        }
        tp__onnx_emit_to(w, y, "Sqrt", sum, NULL, NULL);
    } else { /* only for zero_fraction */
        const char *x = tp__onnx_in(w, 0, tp__onnx_only_first(w, w->op->in[0]) ? TP__CHANNELS_FIRST : TP__OWN);
        const char *zero = tp__onnx_emit(w, "Equal", x, tp__onnx_scalar(w, w->op->in[0]->dtype, 0), NULL);
        zero = tp__onnx_cast_to(w, NULL, zero, t);
        tp__onnx_int(w, "keepdims", 0);
        tp__onnx_emit_to(w, y, "ReduceMean", zero, NULL, NULL);
    }
}
static void tp__onnx_argmax(tp__onnx *w)
{
    const tp_node *x = w->op->in[0];
    const int axis = tp__axis(((const tp__axis_attrs *)w->op->attrs)->axis, x->shape.ndim);
    bool reduced[TP_MAX_DIMS];
    for (int d = 0; d < TP_MAX_DIMS; d++) reduced[d] = d == axis;
    const int form = x->shape.ndim == 4 ? tp__onnx_reduce_form(w, reduced, false) : TP__OWN;
    tp__onnx_int(w, "axis", form == TP__OWN ? axis : tp__onnx_to_own[axis]);
    tp__onnx_int(w, "keepdims", 0);
    const char *in = tp__onnx_in(w, 0, form);
    tp__onnx_emit_to(w, tp__onnx_out(w, w->op, 0, TP__OWN), "ArgMax", in, NULL, NULL);
}
static void tp__onnx_cumsum(tp__onnx *w)
{
    const tp__cumsum_attrs *a = (const tp__cumsum_attrs *)w->op->attrs;
    const char *axis = tp__onnx_scalar(w, TP_I64, tp__axis(a->axis, w->op->in[0]->shape.ndim));
    const char *x = tp__onnx_in(w, 0, TP__OWN);
    tp__onnx_int(w, "exclusive", a->exclusive);
    tp__onnx_int(w, "reverse", a->reverse);
    tp__onnx_emit_to(w, tp__onnx_out(w, w->op, 0, TP__OWN), "CumSum", x, axis, NULL);
}
static void tp__onnx_reverse(tp__onnx *w)
{
    int64_t v[4][TP_MAX_DIMS]; /* Slice with step -1, from the last element to the first */
    bool is_reversed[TP_MAX_DIMS];
    int n = 0;
    tp__reduced_dims((const tp__reduce_attrs *)w->op->attrs, w->op->in[0]->shape.ndim, is_reversed);
    for (int d = 0; d < w->op->in[0]->shape.ndim; d++)
        if (is_reversed[d]) v[0][n] = v[3][n] = -1, v[1][n] = INT64_MIN, v[2][n++] = d;
    const char *in[5], *y = tp__onnx_out(w, w->op, 0, TP__OWN);
    in[0] = tp__onnx_in(w, 0, TP__OWN);
    for (int i = 0; i < 4 && n; i++) in[1 + i] = tp__onnx_list(w, v[i], n);
    tp__onnx_emit_n(w, n ? "Slice" : "Identity", in, n ? 5 : 1, &y, 1);
}
static void tp__onnx_top_k(tp__onnx *w)
{
    const char *in[2], *out[2];
    in[0] = tp__onnx_in(w, 0, TP__OWN);
    in[1] = tp__onnx_list_of_one(w, ((const tp__top_k_attrs *)w->op->attrs)->k);
    out[0] = tp__onnx_out(w, w->op, 0, TP__OWN);
    out[1] = tp__onnx_unique_name(w);
    tp__onnx_int(w, "axis", -1);
    tp__onnx_emit_n(w, "TopK", in, 2, out, 2);
    tp__onnx_cast_to(w, tp__onnx_out(w, w->op, 1, TP__OWN), out[1], TP_I32);
}
static void tp__onnx_in_top_k(
    tp__onnx *w) /* in_top_k: fewer than k elements of the row are larger; the label is in range and its value finite */
{
    const tp_node *x = w->op->in[0];
    const char *logits = tp__onnx_in(w, 0, TP__OWN), *label = tp__onnx_in(w, 1, TP__OWN);
    if (w->op->in[1]->dtype != TP_I64) label = tp__onnx_cast_to(w, NULL, label, TP_I64);
    const char *one = tp__onnx_scalar(w, TP_I64, 1);
    const char *last_class = tp__onnx_emit(w, "Sub", tp__onnx_dim(w, x, 1), one, NULL);
    const char *zero = tp__onnx_scalar(w, TP_I64, 0);
    const char *inside = tp__onnx_emit(w, "Max", tp__onnx_emit(w, "Min", label, last_class, NULL), zero, NULL);
    const char *column = tp__onnx_unsqueeze(w, NULL, inside, 1);
    tp__onnx_int(w, "axis", 1);
    const char *v = tp__onnx_emit(w, "GatherElements", logits, column, NULL);
    const char *larger = tp__onnx_cast_to(w, NULL, tp__onnx_emit(w, "Greater", logits, v, NULL), TP_I32);
    tp__onnx_int(w, "keepdims", 0);
    larger = tp__onnx_emit(w, "ReduceSum", larger, tp__onnx_list_of_one(w, 1), NULL);
    const char *few =
        tp__onnx_emit(w, "Less", larger, tp__onnx_scalar(w, TP_I32, ((const tp__top_k_attrs *)w->op->attrs)->k), NULL);
    const char *axis = tp__onnx_list_of_one(w, 1);
    const char *finite = tp__onnx_emit(w, "Squeeze", tp__onnx_is_finite(w, NULL, v), axis, NULL);
    const char *valid = tp__onnx_emit(w, "And", finite, tp__onnx_emit(w, "Equal", inside, label, NULL), NULL);
    tp__onnx_emit_to(w, tp__onnx_out(w, w->op, 0, TP__OWN), "And", few, valid, NULL);
}

/* -- shapes */

static void tp__onnx_identity(tp__onnx *w)
{
    const int form = tp__onnx_form(w);
    const char *x = tp__onnx_in(w, 0, form);
    tp__onnx_emit_to(w, tp__onnx_out(w, w->op, 0, form), "Identity", x, NULL, NULL);
}
/* Writes flatten: (B,..) -> (B,product). With channels first an image's elements have another order, the form TP__FLAT_FIRST; a
 * following matmul with constant weights uses it and permutes the rows of the weights. */
static void tp__onnx_flat(tp__onnx *w)
{
    const tp_node *x = w->op->in[0];
    const int64_t *d = x->shape.dim;
    if (tp__onnx_only_first(w, x) && d[1] > 0 && d[2] > 0 && d[3] > 0) {
        const bool order_is_same = (d[1] == 1 && d[2] == 1) || d[3] == 1;
        const char *in = tp__onnx_in(w, 0, TP__CHANNELS_FIRST);
        if (!order_is_same) tp__onnx_raw(w, &w->op->out[0])->flat = x;
        tp__onnx_flatten(w, tp__onnx_out(w, w->op, 0, order_is_same ? TP__OWN : TP__FLAT_FIRST), in);
        return;
    }
    const char *in = tp__onnx_in(w, 0, TP__OWN);
    tp__onnx_flatten(w, tp__onnx_out(w, w->op, 0, TP__OWN), in);
}
/* ONNX's Reshape reads 0 as "the same dimension as the input". */
static void tp__onnx_check_new_zero(tp__onnx *w, const tp_node *x, const tp_shape *s)
{
    for (int d = 0; d < s->ndim && w->status == TP_OK; d++)
        if (s->dim[d] == 0 && !(d < x->shape.ndim && x->shape.dim[d] == 0))
            w->status = tp_fail(TP_ERR_UNSUPPORTED,
                                "ONNX export: '%s' (%s) makes a dimension of 0, which ONNX cannot say before opset 14",
                                w->op->name, w->op->row->name);
}
static void tp__onnx_reshape(tp__onnx *w)
{
    const tp_node *x = w->op->in[0], *y = &w->op->out[0];
    const char *in, *shape;
    if (w->op->row == &tp__op_reshape) {
        const tp_shape *s = &((const tp__reshape_attrs *)w->op->attrs)->shape;
        const int64_t flat_size = x->shape.ndim == 4 ? tp__known_product(&x->shape, 1, 4) : TP_ANY;
        if (s->ndim == 2 && flat_size > 0 && s->dim[1] == flat_size) {
            tp__onnx_flat(w);
            return;
        }
        tp__onnx_check_new_zero(w, x, s);
        in = tp__onnx_in(w, 0, TP__OWN);
        shape = tp__onnx_list(w, s->dim, s->ndim);
    } else {
        if (tp_shape_known(&w->op->in[1]->shape)) tp__onnx_check_new_zero(w, x, &w->op->in[1]->shape);
        in = tp__onnx_in(w, 0, TP__OWN);
        shape = tp__onnx_shape(w, w->op->in[1]);
    }
    tp__onnx_emit_to(w, tp__onnx_out(w, y->op, 0, TP__OWN), "Reshape", in, shape, NULL);
}
static void tp__onnx_dims(tp__onnx *w) /* Writes expand_dims and squeeze. */
{
    const tp_node *x = w->op->in[0];
    const bool expands = w->op->row == &tp__op_expand_dims;
    const int axis = tp__axis(((const tp__axis_attrs *)w->op->attrs)->axis, x->shape.ndim + expands);
    const char *in = tp__onnx_in(w, 0, TP__OWN);
    const char *axes = tp__onnx_list_of_one(w, axis);
    tp__onnx_emit_to(w, tp__onnx_out(w, w->op, 0, TP__OWN), expands ? "Unsqueeze" : "Squeeze", in, axes, NULL);
}
static void tp__onnx_transposed(tp__onnx *w)
{
    const tp_node *x = w->op->in[0];
    const int n = x->shape.ndim;
    int perm[TP_MAX_DIMS];
    tp__onnx_value *v = tp__onnx_raw(w, &w->op->out[0]);
    const tp__onnx_value *from = tp__onnx_at(w, x);
    tp__permutation((const tp__transpose_attrs *)w->op->attrs, n, perm);
    if (n == 4 && memcmp(perm, tp__onnx_to_first, sizeof tp__onnx_to_first) == 0 && from->form[TP__CHANNELS_FIRST]) {
        v->form[TP__OWN] = from->form[TP__CHANNELS_FIRST];
    } else if (n == 4 && memcmp(perm, tp__onnx_to_own, sizeof tp__onnx_to_own) == 0) {
        v->form[TP__CHANNELS_FIRST] = tp__onnx_in(w, 0, TP__OWN);
    } else {
        const int form = tp__onnx_only_first(w, x) ? TP__CHANNELS_FIRST : TP__OWN;
        for (int d = 0; d < n && form == TP__CHANNELS_FIRST; d++) perm[d] = tp__onnx_to_own[perm[d]];
        const char *in = tp__onnx_in(w, 0, form);
        tp__onnx_transpose(w, tp__onnx_out(w, w->op, 0, TP__OWN), in, perm, n);
    }
}
/* concat and split keep the existing form; stack and unstack change the number of dimensions */
static void tp__onnx_parts(tp__onnx *w)
{
    const tp_op *row = w->op->row;
    const bool joins = row == &tp__op_concat || row == &tp__op_stack, is_stack = row == &tp__op_stack;
    const tp_node *x = w->op->in[0];
    const int n = joins ? w->op->n_in : w->op->n_out;
    int form = TP__OWN,
        axis = tp__axis(row == &tp__op_concat || is_stack ? ((const tp__axis_attrs *)w->op->attrs)->axis
                                                          : ((const tp__parts_attrs *)w->op->attrs)->axis,
                        x->shape.ndim + is_stack);
    if (row == &tp__op_concat) form = tp__onnx_form(w);
    if (row == &tp__op_split && tp__onnx_only_first(w, x)) form = TP__CHANNELS_FIRST;
    const int64_t at = form == TP__OWN ? axis : tp__onnx_to_own[axis];
    const char **part = (const char **)tp_arena_alloc(&w->names, (size_t)n * sizeof *part);
    if (!part) {
        w->status = tp__onnx_nomem();
        return;
    }
    for (int i = 0; i < n && joins; i++) {
        part[i] = tp__onnx_in(w, i, form);
        if (is_stack) part[i] = tp__onnx_unsqueeze(w, NULL, part[i], at);
    }
    if (joins) {
        tp__onnx_join(w, "Concat", part, n, at, tp__onnx_out(w, w->op, 0, form));
        return;
    }
    /* ONNX Runtime takes two Splits of one value for the same, whatever their numbers of outputs, unless they list sizes */
    const char *in[2] = {tp__onnx_in(w, 0, form), NULL};
    if (x->shape.dim[axis] >= 0) {
        int64_t *size = (int64_t *)tp_arena_alloc(&w->names, (size_t)n * sizeof *size);
        for (int i = 0; size && i < n; i++) size[i] = x->shape.dim[axis] / n;
        in[1] = size ? tp__onnx_list(w, size, n) : NULL;
        if (!size) w->status = tp__onnx_nomem();
    }
    for (int i = 0; i < n; i++)
        part[i] = row == &tp__op_split ? tp__onnx_out(w, w->op, i, form) : tp__onnx_unique_name(w);
    tp__onnx_int(w, "axis", at);
    tp__onnx_emit_n(w, "Split", in, in[1] ? 2 : 1, part, n);
    for (int i = 0; i < n && row == &tp__op_unstack; i++) {
        const char *axes = tp__onnx_list_of_one(w, at);
        tp__onnx_emit_to(w, tp__onnx_out(w, w->op, i, TP__OWN), "Squeeze", part[i], axes, NULL);
    }
}
static const char *tp__onnx_slice_axis(tp__onnx *w, const char *out, const char *x, int64_t axis, int64_t from,
                                       int64_t to, int64_t step)
{
    const char *in[5];
    in[0] = x, in[1] = tp__onnx_list_of_one(w, from), in[2] = tp__onnx_list_of_one(w, to),
    in[3] = tp__onnx_list_of_one(w, axis);
    in[4] = tp__onnx_list_of_one(w, step);
    if (!out) out = tp__onnx_unique_name(w);
    tp__onnx_emit_n(w, "Slice", in, 5, &out, 1);
    return out;
}
static void tp__onnx_slice(tp__onnx *w)
{
    const tp__slice_attrs *a = (const tp__slice_attrs *)w->op->attrs;
    const tp_shape *x = &w->op->in[0]->shape;
    const int form = tp__onnx_form(w);
    int64_t from[TP_MAX_DIMS], to[TP_MAX_DIMS], axes[TP_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < x->ndim; d++) {
        const int e = form == TP__OWN ? d : tp__onnx_to_first[d];
        if (a->begin[e] == 0 && (a->size[e] == -1 || a->size[e] == x->dim[e])) continue;
        from[n] = a->begin[e];
        to[n] = a->size[e] == -1 ? INT64_MAX : a->size[e] < 0 ? a->size[e] + 1 : a->begin[e] + a->size[e];
        axes[n++] = d;
    }
    const char *in[4], *y;
    in[0] = tp__onnx_in(w, 0, form);
    y = tp__onnx_out(w, w->op, 0, form);
    for (int i = 0; i < 3 && n; i++) in[1 + i] = tp__onnx_list(w, i == 0 ? from : i == 1 ? to : axes, n);
    tp__onnx_emit_n(w, n ? "Slice" : "Identity", in, n ? 4 : 1, &y, 1);
}
static const tp_operation *tp__onnx_border_for(const tp__onnx *w, const tp_operation *pad);
static void tp__onnx_pad(tp__onnx *w)
{
    const tp__pad_attrs *a = (const tp__pad_attrs *)w->op->attrs;
    if (tp__onnx_border_for(w, w->op)) return;
    const tp_shape *x = &w->op->in[0]->shape;
    const int form = tp__onnx_form(w), n = x->ndim;
    int64_t pads[2 * TP_MAX_DIMS];
    for (int d = 0; d < n; d++) {
        const int e = form == TP__OWN ? d : tp__onnx_to_first[d];
        pads[d] = a->before[e];
        pads[n + d] = a->after[e];
    }
    const char *in = tp__onnx_in(w, 0, form), *y = tp__onnx_out(w, w->op, 0, form);
    if (a->mode != TP_PAD_SYMMETRIC) {
        const bool constant = a->mode == TP_PAD_CONSTANT;
        tp__onnx_text(w, "mode", constant ? "constant" : "reflect");
        const char *value = constant ? tp__onnx_scalar(w, w->op->in[0]->dtype, (double)a->value) : NULL;
        tp__onnx_emit_to(w, y, "Pad", in, tp__onnx_list(w, pads, 2 * n), value);
        return;
    }
    for (int d = 0; d < n; d++) { /* ONNX's Pad has no symmetric mode: concatenate the mirrored edges and the image */
        const char *part[3];
        int k = 0;
        if (pads[d] > 0) part[k++] = tp__onnx_slice_axis(w, NULL, in, d, pads[d] - 1, INT64_MIN, -1);
        part[k++] = in;
        if (pads[n + d] > 0) part[k++] = tp__onnx_slice_axis(w, NULL, in, d, -1, -pads[n + d] - 1, -1);
        if (k == 1) continue;
        tp__onnx_int(w, "axis", d);
        const char *joined = tp__onnx_unique_name(w);
        tp__onnx_emit_n(w, "Concat", part, k, &joined, 1);
        in = joined;
    }
    tp__onnx_emit_to(w, y, "Identity", in, NULL, NULL);
}
static void tp__onnx_tile(tp__onnx *w)
{
    const int n = w->op->in[0]->shape.ndim, form = tp__onnx_form(w);
    int64_t times[TP_MAX_DIMS];
    for (int d = 0; d < n; d++)
        times[d] = ((const tp__tile_attrs *)w->op->attrs)->multiples[form == TP__OWN ? d : tp__onnx_to_first[d]];
    const char *in = tp__onnx_in(w, 0, form), *repeats = n ? tp__onnx_list(w, times, n) : NULL;
    tp__onnx_emit_to(w, tp__onnx_out(w, w->op, 0, form), n ? "Tile" : "Identity", in, repeats, NULL);
}
static void tp__onnx_gather(tp__onnx *w)
{
    const char *rows = tp__onnx_in(w, 0, TP__OWN), *index = tp__onnx_in(w, 1, TP__OWN);
    tp__onnx_emit_to(w, tp__onnx_out(w, w->op, 0, TP__OWN), "Gather", rows, index, NULL);
}
/* Writes gather_grad as ScatterND, which adds to zeros. */
static void tp__onnx_gather_grad(tp__onnx *w)
{
    const tp_node *dy = w->op->in[0], *index = w->op->in[1], *params = w->op->in[2], *y = &w->op->out[0];
    if (w->options->opset == 13) {
        if (w->status == TP_OK)
            w->status =
                tp_fail(TP_ERR_UNSUPPORTED,
                        "ONNX export: '%s' (gather_grad) must have opset 17, since it becomes ScatterND with `add`",
                        w->op->name);
        return;
    }
    w->opset = 17;
    const char *updates = tp__onnx_in(w, 0, TP__OWN), *at = tp__onnx_in(w, 1, TP__OWN), *shape;
    if (tp_shape_known(&y->shape)) shape = tp__onnx_shape(w, y);
    else if (params->shape.ndim == y->shape.ndim) shape = tp__onnx_shape(w, params);
    else { /* params tells the number of rows, dy what is in one */
        const int64_t begin = index->shape.ndim, end = INT32_MAX;
        const char *row = tp__onnx_shape(w, dy), *from = tp__onnx_list(w, &begin, 1), *to = tp__onnx_list(w, &end, 1);
        row = tp__onnx_emit(w, "Slice", row, from, to);
        const char *rows = tp__onnx_shape(w, params);
        tp__onnx_int(w, "axis", 0);
        shape = tp__onnx_emit(w, "Concat", rows, row, NULL);
    }
    const char *zeros = tp__onnx_emit(w, "Expand", tp__onnx_scalar(w, y->dtype, 0), shape, NULL);
    if (index->dtype != TP_I64) at = tp__onnx_cast_to(w, NULL, at, TP_I64);
    at = tp__onnx_unsqueeze(w, NULL, at, -1);
    tp__onnx_text(w, "reduction", "add");
    tp__onnx_emit_to(w, tp__onnx_out(w, w->op, 0, TP__OWN), "ScatterND", zeros, at, updates);
}
/* Writes slice_grad as Pad: in front `begin`, behind what is left. */
static void tp__onnx_slice_grad(tp__onnx *w)
{
    const tp_shape *x = &w->op->in[1]->shape;
    const int64_t *begin = ((const tp__slice_attrs *)w->op->attrs)->begin;
    const char *dy = tp__onnx_in(w, 0, TP__OWN), *first = tp__onnx_list(w, begin, x->ndim);
    const char *behind = tp__onnx_shape(w, w->op->in[1]), *part = tp__onnx_shape(w, w->op->in[0]);
    behind = tp__onnx_emit(w, "Sub", behind, part, NULL);
    behind = tp__onnx_emit(w, "Sub", behind, first, NULL);
    tp__onnx_int(w, "axis", 0);
    const char *pads = tp__onnx_emit(w, "Concat", first, behind, NULL);
    tp__onnx_emit_to(w, tp__onnx_out(w, w->op, 0, TP__OWN), "Pad", dy, pads, NULL);
}
/* Writes the derivatives of activations: dy where the second operand is inside, else 0, or dy times a factor. */
static void tp__onnx_activation_grad(tp__onnx *w)
{
    const tp_op *row = w->op->row;
    const tp_dtype dtype = w->op->out[0].dtype;
    const char *dy = tp__onnx_in(w, 0, TP__OWN), *by = tp__onnx_in(w, 1, TP__OWN), *zero = tp__onnx_scalar(w, dtype, 0);
    const char *inside, *outside = zero;
    if (row == &tp__op_clip_grad) {
        const tp__clip_attrs *t = (const tp__clip_attrs *)w->op->attrs;
        const char *high = tp__onnx_emit(w, "LessOrEqual", by, tp__onnx_scalar(w, dtype, (double)t->high), NULL);
        inside = tp__onnx_emit(w, "GreaterOrEqual", by, tp__onnx_scalar(w, dtype, (double)t->low), NULL);
        inside = tp__onnx_emit(w, "And", inside, high, NULL);
    } else inside = tp__onnx_emit(w, "Greater", by, zero, NULL);
    if (row == &tp__op_leaky_relu_grad) {
        const double alpha = (double)((const tp__leaky_attrs *)w->op->attrs)->alpha;
        outside = tp__onnx_emit(w, "Mul", dy, tp__onnx_scalar(w, dtype, alpha), NULL);
    } else if (row == &tp__op_elu_grad)
        outside = tp__onnx_emit(w, "Mul", dy, tp__onnx_emit(w, "Add", by, tp__onnx_scalar(w, dtype, 1), NULL), NULL);
    tp__onnx_emit_to(w, tp__onnx_out(w, w->op, 0, TP__OWN), "Where", inside, dy, outside);
}
static void tp__onnx_take_last(tp__onnx *w)
{
    const char *x = tp__onnx_in(w, 0, TP__OWN), *index = tp__onnx_in(w, 1, TP__OWN);
    tp__onnx_int(w, "axis", -1);
    tp__onnx_emit_to(w, tp__onnx_out(w, w->op, 0, TP__OWN), "GatherElements", x, index, NULL);
}
static void tp__onnx_one_hot(tp__onnx *w) /* OneHot is not used, because it counts negative indices from the end */
{
    const tp__one_hot_attrs *a = (const tp__one_hot_attrs *)w->op->attrs;
    const int64_t n = a->depth;
    const tp_shape shape = tp_make_shape_n(1, &n);
    int64_t *v = (int64_t *)tp_arena_alloc(&w->names, (size_t)n * sizeof *v);
    if (!v) {
        w->status = tp__onnx_nomem();
        return;
    }
    for (int64_t i = 0; i < n; i++) v[i] = i;
    const char *index = tp__onnx_in(w, 0, TP__OWN);
    if (w->op->in[0]->dtype != TP_I64) index = tp__onnx_cast_to(w, NULL, index, TP_I64);
    const char *classes = tp__onnx_init(w, tp__onnx_unique_name(w), TP_I64, &shape, v, false);
    const char *is_class = tp__onnx_emit(w, "Equal", tp__onnx_unsqueeze(w, NULL, index, -1), classes, NULL);
    const char *off = tp__onnx_scalar(w, TP_F32, (double)a->off), *on = tp__onnx_scalar(w, TP_F32, (double)a->on);
    tp__onnx_emit_to(w, tp__onnx_out(w, w->op, 0, TP__OWN), "Where", is_class, on, off);
}
static void tp__onnx_like(tp__onnx *w) /* Writes fill_like and broadcast_like. */
{
    const bool fill = w->op->row == &tp__op_fill_like;
    const char *x = fill
                        ? tp__onnx_scalar(w, w->op->out[0].dtype, (double)((const tp__fill_attrs *)w->op->attrs)->value)
                        : tp__onnx_in(w, 0, TP__OWN);
    const char *shape = tp__onnx_shape(w, w->op->in[fill ? 0 : 1]);
    tp__onnx_emit_to(w, tp__onnx_out(w, w->op, 0, TP__OWN), "Expand", x, shape, NULL);
}
static void tp__onnx_sum_to_like(tp__onnx *w)
{
    const tp_shape *x = &w->op->in[0]->shape, *y = &w->op->out[0].shape;
    const int n_leading = x->ndim - y->ndim;
    int64_t leading_axes[TP_MAX_DIMS], axes[TP_MAX_DIMS];
    int n = 0;
    const char *e = tp__onnx_in(w, 0, TP__OWN), *out = tp__onnx_out(w, w->op, 0, TP__OWN);
    for (int d = 0; d < n_leading; d++) leading_axes[d] = d;
    for (int d = 0; d < y->ndim; d++) {
        if (y->dim[d] == 1 && x->dim[d + n_leading] != 1) axes[n++] = d;
        if (y->dim[d] < 0 && x->dim[d + n_leading] != 1 && w->status == TP_OK)
            w->status =
                tp_fail(TP_ERR_UNSUPPORTED,
                        "ONNX export: '%s' (sum_to_like, of a derivative) must know dimension %d of what it sums to: "
                        "give it a size in the placeholder, tp_make_shape(8, 3) instead of tp_make_shape(TP_ANY, 3)",
                        w->op->name, d);
    }
    if (n_leading > 0) {
        const char *leading = tp__onnx_list(w, leading_axes, n_leading);
        tp__onnx_int(w, "keepdims", 0);
        e = tp__onnx_emit_to(w, n ? tp__onnx_unique_name(w) : out, "ReduceSum", e, leading, NULL);
    }
    if (n) {
        tp__onnx_int(w, "keepdims", 1);
        tp__onnx_emit_to(w, out, "ReduceSum", e, tp__onnx_list(w, axes, n), NULL);
    }
    if (!n && n_leading <= 0) tp__onnx_emit_to(w, out, "Identity", e, NULL, NULL);
}

/* -- neural networks */

/* Finds the convolution into which a padding with zeros can be folded, or NULL. */
static const tp_operation *tp__onnx_border_for(const tp__onnx *w, const tp_operation *pad)
{
    const tp__pad_attrs *a = (const tp__pad_attrs *)pad->attrs;
    const tp__onnx_value *v = tp__onnx_raw(w, &pad->out[0]);
    if (!w->options->fold || a->mode != TP_PAD_CONSTANT || a->value != 0.0f || v->input || v->uses != 1) return NULL;
    const tp_operation *conv = v->user;
    if (conv->row != &tp__op_conv2d || tp__onnx_root(w, conv->in[0]) != &pad->out[0]) return NULL;
    const tp_conv2d_attrs *c = (const tp_conv2d_attrs *)conv->attrs;
    const int channels = c->data_format == TP_NCHW ? 1 : 3;
    if (c->padding != TP_VALID || a->before[0] || a->after[0] || a->before[channels] || a->after[channels]) return NULL;
    return conv;
}

/* Writes the attributes of a window; `border` (or NULL) is a padding of the image, whose height is axis `spatial`. SAME is
 * written as explicit padding if the sizes are known, because readers interpret auto_pad differently. */
static void tp__onnx_window(tp__onnx *w, bool same, int64_t H, int64_t W, int64_t kh, int64_t kw, int sh, int sw,
                            int dh, int dw, const tp__pad_attrs *border, int spatial)
{
    const int64_t in[2] = {H, W}, size[2] = {kh, kw}, stride[2] = {sh, sw}, dilation[2] = {dh, dw};
    int64_t pads[4] = {0, 0, 0, 0};
    bool by_reader = false;
    for (int i = 0; i < 2 && same; i++) {
        int64_t total = (size[i] - 1) * dilation[i]; /* with stride 1, SAME pads by this number for any image size */
        if (size[i] < 0 || (in[i] < 0 && stride[i] != 1)) by_reader = true;
        if (in[i] >= 0) total += ((in[i] + stride[i] - 1) / stride[i] - 1) * stride[i] + 1 - in[i];
        if (total < 0) total = 0;
        pads[i] = total / 2;
        pads[2 + i] = total - total / 2;
    }
    for (int i = 0; i < 2 && border; i++) {
        pads[i] = border->before[spatial + i];
        pads[2 + i] = border->after[spatial + i];
    }
    if (kh >= 0 && kw >= 0) tp__onnx_ints(w, "kernel_shape", size, 2);
    tp__onnx_ints(w, "strides", stride, 2);
    if (dh != 1 || dw != 1) tp__onnx_ints(w, "dilations", dilation, 2);
    if (by_reader && (dh != 1 || dw != 1) &&
        w->status == TP_OK) /* ONNX Runtime does not support auto_pad with dilations */
        w->status = tp_fail(
            TP_ERR_UNSUPPORTED,
            "ONNX export: '%s' (conv2d) must know height, width and the filter's size, since it is dilated, has "
            "strides and is padded to the same size",
            w->op->name);
    if (by_reader) tp__onnx_text(w, "auto_pad", "SAME_UPPER");
    else tp__onnx_ints(w, "pads", pads, 4);
}

/* Returns the only user of a value, if that user is an op of this row of the op table; else NULL. */
static const tp_operation *tp__onnx_only_user(const tp__onnx *w, const tp_node *n, const tp_op *row)
{
    const tp__onnx_value *v = tp__onnx_raw(w, n);
    return v->uses == 1 && v->user && v->user->row == row && tp__onnx_root(w, v->user->in[0]) == n ? v->user : NULL;
}
/* Returns the bias_add after a product, if it can be fused into the product, else NULL. */
static const tp_operation *tp__onnx_bias_of(const tp__onnx *w, const tp_operation *op, bool nchw)
{
    const tp_operation *b = tp__onnx_only_user(w, &op->out[0], &tp__op_bias_add);
    if (!b || !tp__onnx_at(w, b->in[1])->constant) return NULL;
    return (((const tp__bias_attrs *)b->attrs)->data_format == TP_NCHW) == nchw ? b : NULL;
}
/* Returns the batch norm after a convolution, if it can be folded into the weights, else NULL. */
static const tp_operation *tp__onnx_norm_of(const tp__onnx *w, const tp_operation *conv, const tp_operation *last_op,
                                            bool nchw)
{
    const tp_operation *n = tp__onnx_only_user(w, &last_op->out[0], &tp__op_batch_norm_infer);
    const tp_tensor *weights = tp__onnx_at(w, conv->in[1])->constant;
    if (!n || !w->options->fold || !weights || weights->dtype != TP_F32) return NULL;
    if (tp__axis(((const tp__bn_attrs *)n->attrs)->axis, 4) != (nchw ? 1 : 3)) return NULL;
    for (int i = 1; i < 5; i++)
        if (!tp__onnx_at(w, n->in[i])->constant) return NULL;
    return n;
}
/* Folds a batch norm into the weights: W' = W gamma / sqrt(var + epsilon), b' = (b - mean) gamma / sqrt(var + epsilon)
 * + beta, per filter */
static void tp__onnx_fold_norm(tp__onnx *w, const tp_operation *conv, const tp_operation *bias,
                               const tp_operation *norm, const char **weights, const char **b)
{
    static const int oihw[4] = {3, 2, 0, 1};
    const tp_tensor *old = tp__onnx_at(w, conv->in[1])->constant;
    const tp_tensor *of[5], *shift = bias ? tp__onnx_at(w, bias->in[1])->constant : NULL;
    const double epsilon = (double)((const tp__bn_attrs *)norm->attrs)->epsilon;
    const int64_t O = old->shape.dim[3], n = tp_tensor_size(old);
    tp_tensor scaled, moved;
    memset(&scaled, 0, sizeof scaled);
    memset(&moved, 0, sizeof moved);
    bool trained = tp__onnx_at(w, conv->in[1])->trained || (bias && tp__onnx_at(w, bias->in[1])->trained);
    for (int i = 1; i < 5; i++) of[i] = tp__onnx_at(w, norm->in[i])->constant;
    for (int i = 1; i < 3; i++) trained |= tp__onnx_at(w, norm->in[i])->trained;
    if (w->status == TP_OK) w->status = tp_tensor_copy(&scaled, old);
    if (w->status == TP_OK) w->status = tp_tensor_resize(&moved, TP_F32, tp_make_shape_n(1, &O));
    for (int64_t o = 0; o < O && w->status == TP_OK; o++) {
        const double scale = tp_tensor_get(of[1], o) / sqrt(tp_tensor_get(of[4], o) + epsilon);
        for (int64_t i = o; i < n; i += O) tp_tensor_set(&scaled, i, tp_tensor_get(old, i) * scale);
        tp_tensor_set(&moved, o,
                      ((shift ? tp_tensor_get(shift, o) : 0) - tp_tensor_get(of[3], o)) * scale +
                          tp_tensor_get(of[2], o));
    }
    *weights = tp__onnx_check_name(w, tp_arena_printf(&w->names, "%s:weights", norm->name));
    *b = tp__onnx_check_name(w, tp_arena_printf(&w->names, "%s:bias", norm->name));
    if (w->status == TP_OK) tp__onnx_init_permuted(w, *weights, &scaled, 4, oihw, NULL, trained);
    if (w->status == TP_OK) tp__onnx_init(w, *b, TP_F32, &moved.shape, moved.data, trained);
    tp_tensor_free(&scaled);
    tp_tensor_free(&moved);
}
static void tp__onnx_conv(tp__onnx *w)
{
    static const int oihw[4] = {3, 2, 0, 1};
    const tp_operation *op = w->op, *last_op = op;
    const tp_conv2d_attrs *a = (const tp_conv2d_attrs *)op->attrs;
    const tp__conv g = tp__conv_geometry(a, &op->in[0]->shape, &op->in[1]->shape);
    const int form = g.nchw ? TP__OWN : TP__CHANNELS_FIRST;
    const tp_operation *bias = tp__onnx_bias_of(w, op, g.nchw);
    if (bias) last_op = bias;
    const tp_operation *norm = tp__onnx_norm_of(w, op, last_op, g.nchw);
    if (norm) last_op = norm;
    const tp_operation *border = tp__onnx_root(w, op->in[0])->op;
    if (border->row != &tp__op_pad || !w->depends_on_input[border->id] || tp__onnx_border_for(w, border) != op)
        border = NULL;
    const char *x = tp__onnx_get(w, border ? border->in[0] : op->in[0], form), *weights, *b = NULL;
    if (norm) tp__onnx_fold_norm(w, op, bias, norm, &weights, &b);
    else {
        weights = tp__onnx_permuted(w, op->in[1], 4, oihw, "oihw");
        if (bias) b = tp__onnx_get(w, bias->in[1], TP__OWN);
    }
    tp__onnx_window(w, a->padding != TP_VALID, g.H, g.W, g.KH, g.KW, (int)g.stride_h, (int)g.stride_w,
                    (int)g.dilation_h, (int)g.dilation_w, border ? (const tp__pad_attrs *)border->attrs : NULL,
                    g.nchw ? 2 : 1);
    if (g.groups != 1) tp__onnx_int(w, "group", g.groups);
    tp__onnx_emit_to(w, tp__onnx_out(w, last_op, 0, form), "Conv", x, weights, b);
    if (bias) w->done[bias->id] = 1;
    if (norm) w->done[norm->id] = 1;
}
/* For a transposed convolution of unknown size: whether its output has stride times as many rows (i = 0) or columns (i = 1) as its input,
 * plus a constant, extra[i]. That is so if the operand that gives the output's size is the input, tiled and padded. */
static bool tp__onnx_enlarged(const tp_operation *op, int i, int64_t extra[2])
{
    const tp_conv2d_attrs *a = (const tp_conv2d_attrs *)op->attrs;
    const int axis = (a->data_format == TP_NCHW ? 2 : 1) + i;
    const tp_node *like = op->in[2];
    int64_t times = 1;
    for (extra[i] = 0; like != op->in[0]; like = like->op->in[0]) {
        const tp_op *row = like->op->row;
        if (row == &tp__op_pad) {
            const tp__pad_attrs *p = (const tp__pad_attrs *)like->op->attrs;
            extra[i] += times * (p->before[axis] + p->after[axis]);
        } else if (row == &tp__op_tile) times *= ((const tp__tile_attrs *)like->op->attrs)->multiples[axis];
        else if (row != &tp__op_slice || ((const tp__slice_attrs *)like->op->attrs)->begin[axis] ||
                 ((const tp__slice_attrs *)like->op->attrs)->size[axis] != -1)
            return false;
    }
    return times == (i ? a->stride_w : a->stride_h);
}
/* Writes the gradient of a convolution with respect to its input; networks use it to enlarge images. */
static void tp__onnx_conv_transpose(tp__onnx *w)
{
    /* permutation of the weights; the O of this layout is the number of input channels here */
    static const int oihw[4] = {3, 2, 0, 1};
    const tp_conv2d_attrs *a = (const tp_conv2d_attrs *)w->op->attrs;
    const tp__conv g = tp__conv_geometry(a, &w->op->in[2]->shape, &w->op->in[1]->shape);
    const int form = g.nchw ? TP__OWN : TP__CHANNELS_FIRST;
    const int64_t size[2] = {g.KH, g.KW}, stride[2] = {g.stride_h, g.stride_w},
                  dilation[2] = {g.dilation_h, g.dilation_w}, to[2] = {g.H, g.W}, from[2] = {g.OH, g.OW};
    int64_t pads[4] = {0, 0, 0, 0}, output_padding[2] = {0, 0}, extra[2];
    for (int i = 0; i < 2; i++) {
        const int64_t reach = (size[i] - 1) * dilation[i];
        const bool enlarged = to[i] < 0 && tp__onnx_enlarged(w->op, i, extra);
        int64_t padding_total = reach; /* the total padding, if the image is large enough for every filter position */
        if (to[i] >= 0) padding_total = stride[i] * (from[i] - 1) + reach + 1 - to[i];
        else if (enlarged) padding_total = reach + 1 - stride[i] - extra[i];
        else if (a->padding == TP_VALID) padding_total = 0;
        if ((to[i] < 0 && stride[i] != 1 && !enlarged) || size[i] < 0) {
            if (w->status == TP_OK)
                w->status =
                    tp_fail(TP_ERR_UNSUPPORTED,
                            "ONNX export: '%s' (%s) must know height and width of what it makes, and its filter's size",
                            w->op->name, w->op->row->name);
            return;
        }
        if (a->padding != TP_VALID && padding_total > 0) pads[i] = padding_total / 2;
        pads[2 + i] = padding_total - pads[i] > 0 ? padding_total - pads[i] : 0;
        output_padding[i] = padding_total < 0 ? -padding_total : 0;
    }
    const char *x = tp__onnx_in(w, 0, form), *weights = tp__onnx_permuted(w, w->op->in[1], 4, oihw, "oihw");
    tp__onnx_ints(w, "kernel_shape", size, 2);
    tp__onnx_ints(w, "strides", stride, 2);
    tp__onnx_ints(w, "dilations", dilation, 2);
    tp__onnx_ints(w, "pads", pads, 4);
    if (output_padding[0] || output_padding[1]) tp__onnx_ints(w, "output_padding", output_padding, 2);
    if (g.groups != 1) tp__onnx_int(w, "group", g.groups);
    tp__onnx_emit_to(w, tp__onnx_out(w, w->op, 0, form), w->op->row->onnx, x, weights, NULL);
}
static void tp__onnx_pool(tp__onnx *w)
{
    const tp_pool_attrs *a = (const tp_pool_attrs *)w->op->attrs;
    const tp__pool g = tp__pool_geometry(a, &w->op->in[0]->shape);
    const int form = g.nchw ? TP__OWN : TP__CHANNELS_FIRST;
    const char *x = tp__onnx_in(w, 0, form);
    tp__onnx_window(w, a->padding == TP_SAME, g.H, g.W, g.window_h, g.window_w, (int)g.stride_h, (int)g.stride_w, 1, 1,
                    NULL, 0);
    tp__onnx_emit_to(w, tp__onnx_out(w, w->op, 0, form), w->op->row->onnx, x, NULL, NULL);
}
static void tp__onnx_resize(tp__onnx *w)
{
    const tp_resize_attrs *a = (const tp_resize_attrs *)w->op->attrs;
    const bool nchw = a->data_format == TP_NCHW;
    const int form = nchw ? TP__OWN : TP__CHANNELS_FIRST;
    const tp_shape *x = &w->op->in[0]->shape;
    int64_t size[4];
    const char *in[4];
    size[0] = x->dim[0], size[1] = x->dim[nchw ? 1 : 3], size[2] = a->out_h, size[3] = a->out_w;
    in[0] = tp__onnx_in(w, 0, form);
    in[1] = in[2] = ""; /* leave out Resize's optional inputs: the region of interest and the scales */
    if (size[0] >= 0 && size[1] >= 0) {
        in[3] = tp__onnx_list(w, size, 4);
    } else {
        const char *part[2], *all = tp__onnx_unique_name(w);
        part[0] = tp__onnx_slice_axis(w, NULL, tp__onnx_emit(w, "Shape", in[0], NULL, NULL), 0, 0, 2, 1);
        part[1] = tp__onnx_list(w, size + 2, 2);
        tp__onnx_int(w, "axis", 0);
        tp__onnx_emit_n(w, "Concat", part, 2, &all, 1);
        in[3] = all;
    }
    tp__onnx_text(w, "mode", a->nearest ? "nearest" : "linear");
    tp__onnx_text(w, "coordinate_transformation_mode",
                  a->align_corners        ? "align_corners"
                  : a->half_pixel_centers ? "half_pixel"
                                          : "asymmetric");
    /* with half pixels ONNX subtracts 0.5 and TensorFlow does not; rounding instead of floor compensates for it */
    if (a->nearest)
        tp__onnx_text(w, "nearest_mode", a->align_corners || a->half_pixel_centers ? "round_prefer_ceil" : "floor");
    const char *y = tp__onnx_out(w, w->op, 0, form);
    tp__onnx_emit_n(w, "Resize", in, 4, &y, 1);
}
/* Writes two numbers, for rows and columns, as a constant. */
static const char *tp__onnx_pair(tp__onnx *w, tp_dtype dtype, double a, double b)
{
    const double pair[2] = {a, b};
    const int64_t two = 2;
    double converted[2] = {0, 0};
    const tp_shape shape = tp_make_shape_n(1, &two);
    tp_convert(converted, dtype, pair, TP_F64, 2);
    return tp__onnx_init(w, tp__onnx_unique_name(w), dtype, &shape, converted, false);
}
/* Writes bilinear_sampler as GridSample, whose coordinates are (x, y) in -1 to 1. They are moved to the edge before, because programs
 * that read ONNX turn far ones into integers that overflow. A constant border is 0 wherever a coordinate is outside; GridSample's own
 * would blend it with the pixels at the edge. */
static void tp__onnx_sampler(tp__onnx *w)
{
    const tp_shape *x = &w->op->in[0]->shape;
    const tp_dtype dtype = w->op->in[0]->dtype;
    const double last_row = (double)(x->dim[1] - 1), last_column = (double)(x->dim[2] - 1);
    const int64_t swapped[2] = {1, 0}, last_axis = 3, channels = 1;
    const bool constant = ((const tp__sampler_attrs *)w->op->attrs)->border == TP_BORDER_CONSTANT;
    const bool has_size = x->dim[1] >= 0 && x->dim[2] >= 0;
    if (!has_size || w->options->opset == 13) {
        if (w->status == TP_OK)
            w->status = tp_fail(TP_ERR_UNSUPPORTED, "ONNX export: '%s' (bilinear_sampler) must %s", w->op->name,
                                has_size ? "have opset 17, since it becomes GridSample"
                                         : "know height and width of its image: declare them in the TP_SPEC");
        return;
    }
    w->opset = 17;
    const char *coords = tp__onnx_in(w, 1, TP__OWN), *one = tp__onnx_scalar(w, dtype, 1);
    const char *last = tp__onnx_pair(w, dtype, last_row, last_column), *zero = tp__onnx_scalar(w, dtype, 0);
    const char *clamped = tp__onnx_emit(w, "Min", tp__onnx_emit(w, "Max", coords, zero, NULL), last, NULL);
    tp__onnx_int(w, "axis", last_axis);
    const char *grid = tp__onnx_emit(w, "Gather", clamped, tp__onnx_list(w, swapped, 2), NULL);
    const char *scale = tp__onnx_pair(w, dtype, last_column > 0 ? 2 / last_column : 0, last_row > 0 ? 2 / last_row : 0);
    grid = tp__onnx_emit(w, "Sub", tp__onnx_emit(w, "Mul", grid, scale, NULL), one, NULL);
    const char *image = tp__onnx_in(w, 0, TP__CHANNELS_FIRST);
    const char *y = constant ? tp__onnx_unique_name(w) : tp__onnx_out(w, w->op, 0, TP__CHANNELS_FIRST);
    tp__onnx_text(w, "mode", "bilinear");
    tp__onnx_text(w, "padding_mode", "border");
    tp__onnx_int(w, "align_corners", 1);
    tp__onnx_emit_to(w, y, "GridSample", image, grid, NULL);
    if (!constant) return;
    const char *low = tp__onnx_emit(w, "Less", coords, zero, NULL);
    const char *high = tp__onnx_emit(w, "Greater", coords, last, NULL);
    const char *inside = tp__onnx_emit(w, "Not", tp__onnx_emit(w, "Or", low, high, NULL), NULL, NULL);
    tp__onnx_int(w, "to", tp__onnx_dtype(dtype));
    inside = tp__onnx_emit(w, "Cast", inside, NULL, NULL);
    tp__onnx_ints(w, "axes", &last_axis, 1);
    tp__onnx_int(w, "keepdims", 0);
    inside = tp__onnx_emit(w, "ReduceMin", inside, NULL, NULL);
    inside = tp__onnx_emit(w, "Unsqueeze", inside, tp__onnx_list(w, &channels, 1), NULL);
    tp__onnx_emit_to(w, tp__onnx_out(w, w->op, 0, TP__CHANNELS_FIRST), "Mul", y, inside, NULL);
}
static void tp__onnx_matmul(tp__onnx *w)
{
    const tp_operation *op = w->op;
    const tp__matmul_attrs *a = (const tp__matmul_attrs *)op->attrs;
    const bool flat = op->in[0]->shape.ndim == 2 && op->in[1]->shape.ndim == 2;
    const tp_operation *bias = flat ? tp__onnx_bias_of(w, op, false) : NULL;
    const tp__onnx_value *image = tp__onnx_at(w, op->in[0]), *weights = tp__onnx_at(w, op->in[1]);
    const char *x, *y;
    if (image->flat && !image->form[TP__OWN] && weights->constant && flat && !a->transpose_a && !a->transpose_b) {
        const int64_t *d = image->flat->shape.dim;
        const int64_t rows[4] = {d[1], d[2], d[3], weights->constant->shape.dim[1]};
        const int first[4] = {2, 0, 1, 3};
        tp_tensor t = *weights->constant;
        t.shape = tp_make_shape_n(4, rows);
        y = tp__onnx_check_name(
            w, tp_arena_printf(&w->names, "%s:rows%lldx%lld", weights->name, (long long)d[1], (long long)d[2]));
        if (!tp__onnx_is_written(w, y))
            tp__onnx_init_permuted(w, y, &t, 4, first, &weights->constant->shape, weights->trained);
        x = image->form[TP__FLAT_FIRST];
    } else if (flat) {
        x = tp__onnx_in(w, 0, TP__OWN);
        y = tp__onnx_in(w, 1, TP__OWN);
    } else {
        x = a->transpose_a ? tp__onnx_swapped(w, op->in[0]) : tp__onnx_in(w, 0, TP__OWN);
        y = a->transpose_b ? tp__onnx_swapped(w, op->in[1]) : tp__onnx_in(w, 1, TP__OWN);
    }
    const char *b = bias ? tp__onnx_get(w, bias->in[1], TP__OWN) : NULL;
    const char *out = tp__onnx_out(w, bias ? bias : op, 0, TP__OWN);
    if (flat && (bias || a->transpose_a || a->transpose_b)) {
        if (a->transpose_a) tp__onnx_int(w, "transA", 1);
        if (a->transpose_b) tp__onnx_int(w, "transB", 1);
        tp__onnx_emit_to(w, out, "Gemm", x, y, b);
    } else {
        tp__onnx_emit_to(w, out, "MatMul", x, y, NULL);
    }
    if (bias) w->done[bias->id] = 1;
}
static void tp__onnx_bias_add(tp__onnx *w)
{
    const int n = w->op->in[0]->shape.ndim;
    const bool nchw = ((const tp__bias_attrs *)w->op->attrs)->data_format == TP_NCHW;
    const int form = nchw ? TP__OWN : tp__onnx_form(w);
    const char *x = tp__onnx_in(w, 0, form);
    const char *b =
        form == TP__OWN ? tp__onnx_broadcast_axis(w, w->op->in[1], nchw ? 1 : n - 1, n) : tp__onnx_in(w, 1, form);
    tp__onnx_emit_to(w, tp__onnx_out(w, w->op, 0, form), "Add", x, b, NULL);
}
static void tp__onnx_batch_norm(tp__onnx *w)
{
    const tp__bn_attrs *a = (const tp__bn_attrs *)w->op->attrs;
    const int n = w->op->in[0]->shape.ndim, axis = tp__axis(a->axis, n);
    if (axis == 1 || (n == 4 && axis == 3)) {
        const int form = axis == 1 ? TP__OWN : TP__CHANNELS_FIRST;
        const char *in[5], *y;
        for (int i = 0; i < 5; i++) in[i] = tp__onnx_in(w, i, i ? TP__OWN : form);
        y = tp__onnx_out(w, w->op, 0, form);
        tp__onnx_float(w, "epsilon", a->epsilon);
        tp__onnx_emit_n(w, "BatchNormalization", in, 5, &y, 1);
        return;
    }
    const char *v[5]; /* ONNX's BatchNormalization needs the channels at axis 1: write its parts instead */
    for (int i = 1; i < 5; i++) v[i] = tp__onnx_broadcast_axis(w, w->op->in[i], axis, n);
    const char *x = tp__onnx_in(w, 0, TP__OWN), *epsilon = tp__onnx_scalar(w, w->op->in[0]->dtype, (double)a->epsilon);
    const char *root = tp__onnx_emit(w, "Sqrt", tp__onnx_emit(w, "Add", v[4], epsilon, NULL), NULL, NULL);
    const char *scaled = tp__onnx_emit(w, "Div", v[1], root, NULL);
    scaled = tp__onnx_emit(w, "Mul", tp__onnx_emit(w, "Sub", x, v[3], NULL), scaled, NULL);
    tp__onnx_emit_to(w, tp__onnx_out(w, w->op, 0, TP__OWN), "Add", scaled, v[2], NULL);
}
/* Writes (x - mean) / sqrt(var + epsilon), mean and var of the last axis. */
static const char *tp__onnx_standard(tp__onnx *w, const char *x, tp_dtype dtype, float epsilon)
{
    const int64_t last_axis = -1;
    tp__onnx_ints(w, "axes", &last_axis, 1);
    const char *c = tp__onnx_emit(w, "Sub", x, tp__onnx_emit(w, "ReduceMean", x, NULL, NULL), NULL);
    const char *square = tp__onnx_emit(w, "Mul", c, c, NULL);
    tp__onnx_ints(w, "axes", &last_axis, 1);
    const char *var = tp__onnx_emit(w, "ReduceMean", square, NULL, NULL);
    var = tp__onnx_emit(w, "Add", var, tp__onnx_scalar(w, dtype, (double)epsilon), NULL);
    return tp__onnx_emit(w, "Div", c, tp__onnx_emit(w, "Sqrt", var, NULL, NULL), NULL);
}
static void tp__onnx_layer_norm(tp__onnx *w)
{
    const float epsilon = ((const tp__ln_attrs *)w->op->attrs)->epsilon;
    const char *x = tp__onnx_in(w, 0, TP__OWN), *gamma = tp__onnx_in(w, 1, TP__OWN), *beta = tp__onnx_in(w, 2, TP__OWN);
    const char *y = tp__onnx_out(w, w->op, 0, TP__OWN);
    if (w->options->opset != 13) {
        w->opset = 17;
        tp__onnx_float(w, "epsilon", epsilon);
        tp__onnx_emit_to(w, y, "LayerNormalization", x, gamma, beta);
        return;
    }
    const char *c = tp__onnx_standard(w, x, w->op->in[0]->dtype, epsilon);
    tp__onnx_emit_to(w, y, "Add", tp__onnx_emit(w, "Mul", c, gamma, NULL), beta, NULL);
}
/* Writes a vector of n equal float32 values as a constant. */
static const char *tp__onnx_filled(tp__onnx *w, int64_t n, float value)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    if (w->status == TP_OK && tp_tensor_resize(&t, TP_F32, tp_make_shape_n(1, &n)) != TP_OK)
        w->status = tp__onnx_nomem();
    for (int64_t i = 0; i < n && w->status == TP_OK; i++) ((float *)t.data)[i] = value;
    const char *name =
        w->status == TP_OK ? tp__onnx_init(w, tp__onnx_unique_name(w), TP_F32, &t.shape, t.data, false) : "";
    tp_tensor_free(&t);
    return name;
}
/* Writes group_norm. ONNX's GroupNormalization has a gamma for each channel only from opset 21 on. Instead the groups become the channels of
 * an InstanceNormalization, which needs channels first, and gamma and beta are applied after it. In float64, which few programs support
 * there, the normalisation is written as several ops. */
static void tp__onnx_group_norm(tp__onnx *w)
{
    const tp__gn_attrs *a = (const tp__gn_attrs *)w->op->attrs;
    const tp_node *in = w->op->in[0];
    const int n = in->shape.ndim, axis = tp__axis(a->axis, n);
    const bool moved = axis != 1 && (n != 4 || axis != 3), single = in->dtype == TP_F32;
    const int form = axis == 1 || moved ? TP__OWN : TP__CHANNELS_FIRST;
    const int64_t C = in->shape.dim[axis], groups = a->groups;
    int64_t split[3] = {0, 0, 1}, perm[TP_MAX_DIMS], back[TP_MAX_DIMS]; /* perm moves the channels to axis 1 */
    const char *x = tp__onnx_in(w, 0, form), *out = tp__onnx_out(w, w->op, 0, form), *y = out;
    for (int d = 0; d < n; d++) perm[d] = d == 0 ? 0 : d == 1 ? axis : d <= axis ? d - 1 : d;
    for (int d = 0; d < n; d++) back[perm[d]] = d;
    if (moved) {
        tp__onnx_ints(w, "perm", perm, n);
        x = tp__onnx_emit(w, "Transpose", x, NULL, NULL);
        y = tp__onnx_unique_name(w);
    }
    if (single && groups == C) {
        const char *gamma = tp__onnx_in(w, 1, TP__OWN), *beta = tp__onnx_in(w, 2, TP__OWN);
        tp__onnx_float(w, "epsilon", a->epsilon);
        tp__onnx_emit_to(w, y, "InstanceNormalization", x, gamma, beta);
    } else {
        split[1] = groups;
        for (int d = 1; d < n;
             d++) /* split[2]: the elements of a group; -1, to be inferred, if a dimension is unknown */
            split[2] = split[2] < 0 || in->shape.dim[d] < 0 ? -1 : split[2] * in->shape.dim[d];
        if (split[2] >= 0) split[2] /= groups;
        const char *v = tp__onnx_emit(w, "Reshape", x, tp__onnx_list(w, split, 3), NULL);
        if (single) {
            const char *ones = tp__onnx_filled(w, groups, 1), *zeros = tp__onnx_filled(w, groups, 0);
            tp__onnx_float(w, "epsilon", a->epsilon);
            v = tp__onnx_emit(w, "InstanceNormalization", v, ones, zeros);
        } else v = tp__onnx_standard(w, v, in->dtype, a->epsilon);
        v = tp__onnx_emit(w, "Reshape", v, tp__onnx_emit(w, "Shape", x, NULL, NULL), NULL);
        v = tp__onnx_emit(w, "Mul", v, tp__onnx_broadcast_axis(w, w->op->in[1], 1, n), NULL);
        tp__onnx_emit_to(w, y, "Add", v, tp__onnx_broadcast_axis(w, w->op->in[2], 1, n), NULL);
    }
    if (!moved) return;
    tp__onnx_ints(w, "perm", back, n);
    tp__onnx_emit_to(w, out, "Transpose", y, NULL, NULL);
}
static void tp__onnx_softmax(tp__onnx *w)
{
    const int form = tp__onnx_form(w);
    const char *x = tp__onnx_in(w, 0, form);
    tp__onnx_int(w, "axis", form == TP__OWN ? -1 : 1);
    tp__onnx_emit_to(w, tp__onnx_out(w, w->op, 0, form), w->op->row->onnx, x, NULL, NULL);
}
static void tp__onnx_cross_entropy(tp__onnx *w)
{
    const char *x = tp__onnx_in(w, 0, TP__OWN), *label = tp__onnx_in(w, 1, TP__OWN);
    if (tp__onnx_raw(w, &w->op->out[0])->uses) {
        tp__onnx_text(w, "reduction", "none");
        tp__onnx_emit_to(w, tp__onnx_out(w, w->op, 0, TP__OWN), "SoftmaxCrossEntropyLoss", x, label, NULL);
    }
    if (tp__onnx_raw(w, &w->op->out[1])->uses) {
        tp__onnx_int(w, "axis", -1);
        tp__onnx_emit_to(w, tp__onnx_out(w, w->op, 1, TP__OWN), "Softmax", x, NULL, NULL);
    }
}

/* Copies rows of kernels and biases in ONNX's order: row q of `to` is column from[q] of the rows [begin, begin + n) of `k`. */
static void tp__onnx_gate_rows(tp_tensor *to, int64_t at, int64_t stride, const tp_tensor *k, int64_t begin, int64_t n,
                               int64_t column, int64_t columns)
{
    for (int64_t i = 0; i < n; i++)
        tp_tensor_set(to, at * stride + i, tp_tensor_get(k, (begin + i) * columns + column));
}
/* lstm and gru. ONNX has one row per unit of a gate, the gates of LSTM in the order i, o, f, c (tp: i, j, f, o) and of GRU in
 * the order z, r, h (tp: r, u and the candidate; z is u). By default ONNX's GRU resets h before the product, as tp's does. */
static void tp__onnx_rnn(tp__onnx *w)
{
    const tp_operation *op = w->op;
    const bool lstm = op->row == &tp__op_lstm;
    const bool batch_major =
        lstm ? ((const tp__lstm_attrs *)op->attrs)->batch_major : ((const tp__gru_attrs *)op->attrs)->batch_major;
    const tp_tensor *kernel = tp__onnx_constant(w, 1), *bias = tp__onnx_constant(w, 2), *more = NULL, *more_bias = NULL;
    if (!lstm) more = tp__onnx_constant(w, 3), more_bias = tp__onnx_constant(w, 4);
    if (w->status != TP_OK) return;
    const int64_t gates = lstm ? 4 : 3, H = lstm ? kernel->shape.dim[1] / 4 : more->shape.dim[1];
    const int64_t D = kernel->shape.dim[0] - H, G = gates * H;
    const int64_t w_dim[3] = {1, G, D}, r_dim[3] = {1, G, H}, b_dim[2] = {1, 2 * G};
    static const int lstm_from[4] = {0, 3, 2, 1}, gru_from[3] = {1, 0, 0};
    const int identity[3] = {0, 1, 2}, swap[3] = {1, 0, 2};
    bool trained[2] = {false, false}; /* the kernels, the biases */
    for (int i = 1; i < (lstm ? 3 : 5); i++) trained[(i + 1) % 2] |= tp__onnx_at(w, op->in[i])->trained;
    tp_tensor W, R, B;
    memset(&W, 0, sizeof W);
    memset(&R, 0, sizeof R);
    memset(&B, 0, sizeof B);
    w->status = tp_tensor_resize(&W, kernel->dtype, tp_make_shape_n(3, w_dim));
    if (w->status == TP_OK) w->status = tp_tensor_resize(&R, kernel->dtype, tp_make_shape_n(3, r_dim));
    if (w->status == TP_OK) w->status = tp_tensor_resize(&B, kernel->dtype, tp_make_shape_n(2, b_dim));
    const char *in[7] = {"", "", "", "", "", "", ""}, *out[3] = {"", "", ""};
    if (w->status == TP_OK) {
        for (int64_t q = 0; q < G; q++) {
            const int64_t gate = q / H, u = q % H, column = (lstm ? lstm_from[gate] : gru_from[gate]) * H + u;
            const tp_tensor *k = !lstm && gate == 2 ? more : kernel, *kb = !lstm && gate == 2 ? more_bias : bias;
            const int64_t columns = k->shape.dim[1];
            double b = tp_tensor_get(kb, column);
            if (lstm && gate == 2) b += (double)((const tp__lstm_attrs *)op->attrs)->forget_bias;
            tp__onnx_gate_rows(&W, q, D, k, 0, D, column, columns);
            tp__onnx_gate_rows(&R, q, H, k, D, H, column, columns);
            tp_tensor_set(&B, q, b);
            tp_tensor_set(&B, G + q, 0);
        }
        in[0] = batch_major ? tp__onnx_permuted(w, op->in[0], 3, swap, "time_major") : tp__onnx_in(w, 0, TP__OWN);
        in[1] = tp__onnx_init(w, tp__onnx_unique_name(w), W.dtype, &W.shape, W.data, trained[0]);
        in[2] = tp__onnx_init(w, tp__onnx_unique_name(w), R.dtype, &R.shape, R.data, trained[0]);
        in[3] = tp__onnx_init(w, tp__onnx_unique_name(w), B.dtype, &B.shape, B.data, trained[1]);
        for (int i = 0; i <= lstm; i++)
            in[5 + i] = tp__onnx_permuted(w, op->in[(lstm ? 3 : 5) + i], 3, identity, "state");
        for (int i = 0; i < 2 + lstm; i++)
            if (tp__onnx_raw(w, &op->out[i])->uses) out[i] = tp__onnx_unique_name(w);
        tp__onnx_int(w, "hidden_size", H);
        tp__onnx_emit_n(w, op->row->onnx, in, 6 + lstm, out, 2 + lstm);
        for (int i = 0; i < 2 + lstm; i++) {
            const char *axis = *out[i] ? tp__onnx_list_of_one(w, i == 0) : NULL;
            if (axis && i == 0 && batch_major) {
                const char *y = tp__onnx_emit(w, "Squeeze", out[0], axis, NULL);
                tp__onnx_transpose(w, tp__onnx_out(w, op, 0, TP__OWN), y, swap, 3);
            } else if (axis) tp__onnx_emit_to(w, tp__onnx_out(w, op, i, TP__OWN), "Squeeze", out[i], axis, NULL);
        }
    }
    tp_tensor_free(&W);
    tp_tensor_free(&R);
    tp_tensor_free(&B);
}

/* Writes the causal mask: 0 if query i attends to key j, that is j <= i + Tk - Tq, otherwise minus infinity. */
static const char *tp__onnx_causal_mask(tp__onnx *w)
{
    const tp_node *q = w->op->in[0], *k = w->op->in[1];
    const tp_dtype t = q->dtype;
    const int64_t Tq = q->shape.dim[1], Tk = k->shape.dim[1];
    if (Tq >= 0 && Tk >= 0) {
        const int64_t dim[2] = {Tq, Tk};
        tp_tensor m;
        memset(&m, 0, sizeof m);
        const char *name = tp__onnx_unique_name(w);
        if (w->status == TP_OK) w->status = tp_tensor_resize(&m, t, tp_make_shape_n(2, dim));
        for (int64_t i = 0; i < Tq * Tk && w->status == TP_OK; i++)
            tp_tensor_set(&m, i, i % Tk <= i / Tk + Tk - Tq ? 0 : -(double)INFINITY);
        if (w->status == TP_OK) tp__onnx_init(w, name, t, &m.shape, m.data, false);
        tp_tensor_free(&m);
        return name;
    }
    const char *n = tp__onnx_dim(w, q, 1), *m = tp__onnx_dim(w, k, 1);
    const char *zero = tp__onnx_scalar(w, TP_I64, 0), *one = tp__onnx_scalar(w, TP_I64, 1);
    const char *key = tp__onnx_emit(w, "Range", zero, m, one);
    const char *query = tp__onnx_unsqueeze(w, NULL, tp__onnx_emit(w, "Range", zero, n, one), 1);
    query = tp__onnx_emit(w, "Add", query, tp__onnx_emit(w, "Sub", m, n, NULL), NULL);
    const char *seen = tp__onnx_scalar(w, t, 0), *unseen = tp__onnx_scalar(w, t, -(double)INFINITY);
    return tp__onnx_emit(w, "Where", tp__onnx_emit(w, "Greater", key, query, NULL), unseen, seen);
}
static void tp__onnx_attention(tp__onnx *w)
{
    const tp__attention_attrs *a = (const tp__attention_attrs *)w->op->attrs;
    const int64_t C = w->op->in[0]->shape.dim[2], D = C < 0 ? 1 : C / a->heads;
    const int64_t split[4] = {0, 0, a->heads, D}, join[3] = {0, 0, C};
    static const int perm[3][4] = {{0, 2, 1, 3}, {0, 2, 3, 1}, {0, 2, 1, 3}};
    if (C < 0) {
        w->status =
            tp_fail(TP_ERR_UNSUPPORTED, "ONNX export: '%s' (attention) must know the last dimension of q", w->op->name);
        return;
    }
    const char *shape = tp__onnx_list(w, split, 4), *x[3];
    for (int i = 0; i < 3; i++)
        x[i] = tp__onnx_transpose(w, NULL, tp__onnx_emit(w, "Reshape", tp__onnx_in(w, i, TP__OWN), shape, NULL),
                                  perm[i], 4);
    const char *score = tp__onnx_emit(w, "MatMul", x[0], x[1], NULL);
    score = tp__onnx_emit(w, "Mul", score, tp__onnx_scalar(w, w->op->in[0]->dtype, 1 / sqrt((double)D)), NULL);
    if (a->causal) score = tp__onnx_emit(w, "Add", score, tp__onnx_causal_mask(w), NULL);
    tp__onnx_int(w, "axis", -1);
    const char *p = tp__onnx_emit(w, "Softmax", score, NULL, NULL);
    const char *y = tp__onnx_transpose(w, NULL, tp__onnx_emit(w, "MatMul", p, x[2], NULL), perm[0], 4);
    shape = tp__onnx_list(w, join, 3);
    tp__onnx_emit_to(w, tp__onnx_out(w, w->op, 0, TP__OWN), "Reshape", y, shape, NULL);
}

/* -- the function that writes each op */

typedef void (*tp__onnx_fn)(tp__onnx *w);
static const struct {
    const tp_op *row;
    tp__onnx_fn fn;
} tp__onnx_forms[] = {{&tp__op_squared_difference, tp__onnx_map},
                      {&tp__op_square, tp__onnx_map},
                      {&tp__op_floordiv, tp__onnx_map},
                      {&tp__op_mod, tp__onnx_map},
                      {&tp__op_not_equal, tp__onnx_map},
                      {&tp__op_rsqrt, tp__onnx_map},
                      {&tp__op_affine, tp__onnx_map},
                      {&tp__op_clip, tp__onnx_map},
                      {&tp__op_leaky_relu, tp__onnx_map},
                      {&tp__op_is_finite, tp__onnx_map},
                      {&tp__op_cast, tp__onnx_map},
                      {&tp__op_add_n, tp__onnx_map},
                      {&tp__op_identity, tp__onnx_identity},
                      {&tp__op_stop_gradient, tp__onnx_identity},
                      {&tp__op_print, tp__onnx_identity},
                      {&tp__op_check_numerics, tp__onnx_identity},
                      {&tp__op_summary, tp__onnx_identity},
                      {&tp__op_dropout, tp__onnx_identity},
                      {&tp__op_reduce_sum, tp__onnx_reduce},
                      {&tp__op_reduce_mean, tp__onnx_reduce},
                      {&tp__op_reduce_max, tp__onnx_reduce},
                      {&tp__op_reduce_min, tp__onnx_reduce},
                      {&tp__op_reduce_prod, tp__onnx_reduce},
                      {&tp__op_reduce_all, tp__onnx_reduce},
                      {&tp__op_reduce_any, tp__onnx_reduce},
                      {&tp__op_l2_loss, tp__onnx_reduce_to_scalar},
                      {&tp__op_global_norm, tp__onnx_reduce_to_scalar},
                      {&tp__op_zero_fraction, tp__onnx_reduce_to_scalar},
                      {&tp__op_argmax, tp__onnx_argmax},
                      {&tp__op_cumsum, tp__onnx_cumsum},
                      {&tp__op_reverse, tp__onnx_reverse},
                      {&tp__op_top_k, tp__onnx_top_k},
                      {&tp__op_in_top_k, tp__onnx_in_top_k},
                      {&tp__op_reshape, tp__onnx_reshape},
                      {&tp__op_reshape_like, tp__onnx_reshape},
                      {&tp__op_batch_flatten, tp__onnx_flat},
                      {&tp__op_expand_dims, tp__onnx_dims},
                      {&tp__op_squeeze, tp__onnx_dims},
                      {&tp__op_transpose, tp__onnx_transposed},
                      {&tp__op_concat, tp__onnx_parts},
                      {&tp__op_split, tp__onnx_parts},
                      {&tp__op_stack, tp__onnx_parts},
                      {&tp__op_unstack, tp__onnx_parts},
                      {&tp__op_slice, tp__onnx_slice},
                      {&tp__op_pad, tp__onnx_pad},
                      {&tp__op_tile, tp__onnx_tile},
                      {&tp__op_gather, tp__onnx_gather},
                      {&tp__op_gather_grad, tp__onnx_gather_grad},
                      {&tp__op_slice_grad, tp__onnx_slice_grad},
                      {&tp__op_relu_grad, tp__onnx_activation_grad},
                      {&tp__op_leaky_relu_grad, tp__onnx_activation_grad},
                      {&tp__op_elu_grad, tp__onnx_activation_grad},
                      {&tp__op_clip_grad, tp__onnx_activation_grad},
                      {&tp__op_take_last, tp__onnx_take_last},
                      {&tp__op_one_hot, tp__onnx_one_hot},
                      {&tp__op_fill_like, tp__onnx_like},
                      {&tp__op_broadcast_like, tp__onnx_like},
                      {&tp__op_sum_to_like, tp__onnx_sum_to_like},
                      {&tp__op_conv2d, tp__onnx_conv},
                      {&tp__op_conv2d_input_grad, tp__onnx_conv_transpose},
                      {&tp__op_max_pool, tp__onnx_pool},
                      {&tp__op_avg_pool, tp__onnx_pool},
                      {&tp__op_resize, tp__onnx_resize},
                      {&tp__op_bilinear_sampler, tp__onnx_sampler},
                      {&tp__op_matmul, tp__onnx_matmul},
                      {&tp__op_bias_add, tp__onnx_bias_add},
                      {&tp__op_batch_norm_infer, tp__onnx_batch_norm},
                      {&tp__op_layer_norm, tp__onnx_layer_norm},
                      {&tp__op_group_norm, tp__onnx_group_norm},
                      {&tp__op_softmax, tp__onnx_softmax},
                      {&tp__op_log_softmax, tp__onnx_softmax},
                      {&tp__op_sparse_softmax_cross_entropy, tp__onnx_cross_entropy},
                      {&tp__op_lstm, tp__onnx_rnn},
                      {&tp__op_gru, tp__onnx_rnn},
                      {&tp__op_attention, tp__onnx_attention}};
static tp__onnx_fn tp__onnx_find(const tp_op *row)
{
    for (int i = 0; i < TP_COUNT(tp__onnx_forms); i++)
        if (tp__onnx_forms[i].row == row) return tp__onnx_forms[i].fn;
    return (row->flags & TP_OP_ELEMENTWISE) && row->onnx && !row->attr && row->n_out == 1 ? tp__onnx_map : NULL;
}

/* -- the whole graph */

static bool tp__onnx_shape_only(const tp_operation *op, int i)
{
    int64_t extra[2];
    if (i >= 32 || !((op->row->shape_only >> i) & 1u)) return false;
    return tp_shape_known(&op->in[i]->shape) ||
           (op->row == &tp__op_conv2d_input_grad && tp__onnx_enlarged(op, 0, extra) && tp__onnx_enlarged(op, 1, extra));
}
/* What to do about an op without an ONNX form. */
static const char *tp__onnx_lack(const tp_op *row)
{
    const size_t n = strlen(row->name);
    if (row == &tp__op_batch_norm) return "build the tower for inference";
    if (row->flags & TP_OP_RANDOM) return tp__c_lack(row);
    if (row == &tp__op_pad_grad)
        return "it is a derivative; if none is meant, an image is upsampled to an unknown size: declare height and "
               "width in the TP_SPEC";
    if (n > 5 && strcmp(row->name + n - 5, "_grad") == 0) return "it is a derivative: choose outputs that need none";
    return "an op of your own names its form in the row's .onnx, or is built from other ops";
}

/* Marks each op as unused, constant or dependent on an input, and names the values. */
static tp_status tp__onnx_mark(tp__onnx *w, tp_node *const *inputs, int n_inputs, tp_node *const *outputs,
                               int n_outputs)
{
    const tp_graph *g = w->session->graph;
    const int n = g->op.n;
    for (int i = 0; i < n_inputs; i++) {
        tp__onnx_value *v = tp__onnx_raw(w, inputs[i]);
        if (v->input) return tp_fail(TP_ERR_NAME, "ONNX export: '%s' is an input twice", tp_node_name(inputs[i]));
        v->input = true;
    }
    for (int id = 0; id < n; id++) {
        const tp_operation *op = (const tp_operation *)g->op.item[id];
        bool trained = op->row == &tp__op_variable && op->var[0]->trainable && !op->var[0]->frozen;
        for (int i = 0; i < op->n_in; i++)
            trained |= op->row != &tp__op_stop_gradient && tp__onnx_raw(w, op->in[i])->trained;
        for (int i = 0; i < op->n_out; i++) {
            tp__onnx_value *v = tp__onnx_raw(w, &op->out[i]);
            v->trained = trained;
            v->name = op->name;
            if (i) v->name = tp__onnx_check_name(w, tp_arena_printf(&w->names, "%s:%d", op->name, i));
            if (v->input) v->form[TP__OWN] = v->name;
        }
        /* an op with control dependencies or side effects must not be run during the export */
        bool depends = op->n_ctrl > 0 ||
                       (op->row->flags & (TP_OP_RANDOM | TP_OP_WRITES_VAR | TP_OP_COLLECTIVE | TP_OP_HOST)) ||
                       op->row == &tp__op_placeholder || op->row == &tp__op_read_after;
        for (int i = 0; i < op->n_in && !depends; i++)
            depends = w->depends_on_input[op->in[i]->op->id] || tp__onnx_raw(w, op->in[i])->input;
        w->depends_on_input[id] = depends;
    }
    for (int i = 0; i < n_outputs; i++) {
        tp__onnx_value *v = tp__onnx_at(w, outputs[i]);
        v->uses += 2; /* counts an output twice, so that it is never folded into another op */
        v->user = NULL;
        for (int k = 0; k < i; k++)
            if (outputs[k] == outputs[i])
                return tp_fail(TP_ERR_NAME, "ONNX export: '%s' is an output twice", tp_node_name(outputs[i]));
    }
    for (int id = n - 1; id >= 0; id--) {
        const tp_operation *op = (const tp_operation *)g->op.item[id];
        bool needed = false;
        for (int i = 0; i < op->n_out; i++) {
            const tp__onnx_value *v = tp__onnx_raw(w, &op->out[i]);
            if (v->uses && !v->input) needed = true;
        }
        w->done[id] = !needed || !w->depends_on_input[id];
        if (!needed) continue;
        if (op->row == &tp__op_placeholder)
            return tp_fail(
                TP_ERR_ARG,
                "ONNX export: the outputs need placeholder '%s', so it must be an input: list it among the inputs",
                op->name);
        if (w->depends_on_input[id] && !tp__onnx_find(op->row))
            return tp_fail(TP_ERR_UNSUPPORTED, "ONNX export: '%s' needs the op '%s', which has no ONNX form: %s",
                           op->name, op->row->name, tp__onnx_lack(op->row));
        for (int i = 0; i < op->n_in && w->depends_on_input[id]; i++) {
            if (tp__onnx_shape_only(op, i)) continue;
            tp__onnx_value *v = tp__onnx_at(w, op->in[i]);
            v->uses++;
            v->user = op;
        }
    }
    /* an output that is only another name of a value gives its name to the value; a constant that is an output is renamed, and
     * the output keeps the name */
    for (int i = 0; i < n_outputs; i++) {
        const tp_node *root = tp__onnx_root(w, outputs[i]);
        tp__onnx_value *v = tp__onnx_raw(w, root);
        if (root == outputs[i] && !w->depends_on_input[root->op->id] && !v->input)
            v->name = tp__onnx_check_name(w, tp_arena_printf(&w->names, "%s:value", v->name));
        bool taken = root == outputs[i] || v->input || !w->depends_on_input[root->op->id];
        for (int k = 0; k < n_outputs && !taken; k++)
            taken = outputs[k] == root || (k < i && tp__onnx_root(w, outputs[k]) == root);
        if (!taken) v->name = tp_node_name(outputs[i]);
    }
    return w->status;
}

/* Computes all values that depend on no input, in one run. They are valid until the next run with the same tp_exec. */
static tp_status tp__onnx_fold(tp__onnx *w, tp_exec *e)
{
    const tp_graph *g = w->session->graph;
    int n = 0, k = 0;
    for (int pass = 0; pass < 2; pass++) { /* count the constants, then collect them */
        tp_node **fetch = pass && n ? (tp_node **)tp_malloc((size_t)n * sizeof *fetch) : NULL;
        const tp_tensor **value = pass && n ? (const tp_tensor **)tp_malloc((size_t)n * sizeof *value) : NULL;
        tp_status st = pass && n && (!fetch || !value) ? tp__onnx_nomem() : TP_OK;
        for (int id = 0; id < g->op.n && st == TP_OK; id++) {
            tp_operation *op = (tp_operation *)g->op.item[id];
            for (int i = 0; i < op->n_out && !w->depends_on_input[id]; i++) {
                const tp__onnx_value *v = tp__onnx_raw(w, &op->out[i]);
                if (!v->uses || v->input) continue;
                if (fetch) fetch[k++] = &op->out[i];
                else n++;
            }
        }
        if (fetch && st == TP_OK) st = tp_exec_run(e, NULL, 0, fetch, n, value);
        for (int i = 0; i < k && st == TP_OK; i++) tp__onnx_raw(w, fetch[i])->constant = value[i];
        tp_free((void *)fetch);
        tp_free((void *)value);
        if (st != TP_OK || n == 0) return st;
    }
    return TP_OK;
}

/* Whether the first dimension of each output is that of the inputs. Shapes are inferred a second time, with an unusual
 * batch size. */
static tp_status tp__onnx_infer_batched(tp__onnx *w, tp_node *const *inputs, int n_inputs)
{
    const int64_t batch = 9973;
    const tp_graph *g = w->session->graph;
    int most = 0;
    tp_infer s;
    for (int id = 0; id < g->op.n; id++) {
        const tp_operation *op = (const tp_operation *)g->op.item[id];
        most = op->n_in > most ? op->n_in : most;
        for (int i = 0; i < op->n_out; i++) {
            w->type[w->first[id] + i].dtype = op->out[i].dtype;
            w->type[w->first[id] + i].shape = op->out[i].shape;
        }
    }
    for (int i = 0; i < n_inputs; i++) {
        tp_shape *x = &w->type[w->first[inputs[i]->op->id] + inputs[i]->index].shape;
        if (x->ndim > 0 && x->dim[0] < 0) x->dim[0] = batch;
    }
    tp_type *in = (tp_type *)tp_malloc(((size_t)most + TP_MAX_OUTPUTS) * sizeof *in), *out;
    if (!in) return tp__onnx_nomem();
    out = in + most;
    for (int id = 0; id < g->op.n; id++) {
        const tp_operation *op = (const tp_operation *)g->op.item[id];
        if (!w->depends_on_input[id] || op->n_in == 0 || op->n_var) continue;
        memset(&s, 0, sizeof s);
        memset(out, 0, TP_MAX_OUTPUTS * sizeof *out);
        for (int i = 0; i < op->n_in; i++) in[i] = w->type[w->first[op->in[i]->op->id] + op->in[i]->index];
        s.op = op->row, s.attrs = op->attrs, s.name = op->name;
        s.n_in = op->n_in, s.in = in, s.n_out = op->row->n_out, s.out = out;
        if (!op->row->infer || op->row->infer(&s) != TP_OK) continue;
        for (int i = 0; i < op->n_out && i < s.n_out; i++)
            if (!tp__onnx_raw(w, &op->out[i])->input) w->type[w->first[id] + i] = out[i];
    }
    tp_free(in);
    return TP_OK;
}
static bool tp__onnx_is_batch(const tp__onnx *w, const tp_node *n)
{
    const tp_shape *s = &w->type[w->first[n->op->id] + n->index].shape;
    return n->shape.ndim > 0 && n->shape.dim[0] < 0 && s->dim[0] == 9973;
}

static void tp__onnx_value_info(tp__onnx *w, tp_buf *graph, unsigned field, const tp_node *n)
{
    const char *name = tp_node_name(n);
    tp_buf shape, tensor, type, info;
    memset(&shape, 0, sizeof shape);
    memset(&tensor, 0, sizeof tensor);
    memset(&type, 0, sizeof type);
    memset(&info, 0, sizeof info);
    if (n->index) name = tp__onnx_check_name(w, tp_arena_printf(&w->names, "%s:%d", name, n->index));
    for (int d = 0; d < n->shape.ndim; d++) {
        tp_buf dim;
        memset(&dim, 0, sizeof dim);
        if (n->shape.dim[d] >= 0) tp__pb_int(&dim, 1, n->shape.dim[d]);
        else if (d == 0 && !w->options->separate_sizes && tp__onnx_is_batch(w, n)) tp__pb_text(&dim, 2, "batch");
        else tp__pb_text(&dim, 2, tp__onnx_check_name(w, tp_arena_printf(&w->names, "%s_dim%d", name, d)));
        tp__pb_message(&shape, 1, &dim);
    }
    tp__pb_int(&tensor, 1, tp__onnx_dtype(n->dtype));
    tp__pb_message(&tensor, 2, &shape);
    tp__pb_message(&type, 1, &tensor);
    tp__pb_text(&info, 1, name);
    tp__pb_message(&info, 2, &type);
    tp__pb_message(graph, field, &info);
}

static tp_status tp__onnx_write(tp__onnx *w, tp_node *const *inputs, int n_inputs, tp_node *const *outputs,
                                int n_outputs, tp_buf *model)
{
    const tp_graph *g = w->session->graph;
    tp_buf graph, opset;
    memset(&graph, 0, sizeof graph);
    memset(&opset, 0, sizeof opset);
    for (int id = 0; id < g->op.n && w->status == TP_OK; id++) {
        w->op = (const tp_operation *)g->op.item[id];
        if (w->done[id] || tp__onnx_passes_through(w, w->op->row)) continue;
        tp__onnx_find(w->op->row)(w);
    }
    for (int i = 0; i < n_outputs && w->status == TP_OK; i++) {
        const char *name = tp_node_name(outputs[i]);
        w->op = outputs[i]->op;
        if (outputs[i]->index)
            name = tp__onnx_check_name(w, tp_arena_printf(&w->names, "%s:%d", name, outputs[i]->index));
        const char *tensor = tp__onnx_get(w, outputs[i], TP__OWN);
        if (strcmp(tensor, name) != 0) tp__onnx_emit_to(w, name, "Identity", tensor, NULL, NULL);
    }
    if (w->status != TP_OK) return w->status;
    if (w->node.failed || w->init.failed || w->attr.failed || w->untrained.failed) return tp__onnx_nomem();
    if (w->node.data) tp_buf_put(&graph, w->node.data, w->node.len);
    tp_buf_free(&w->node);
    tp__pb_text(&graph, 2, w->options->name ? w->options->name : "model");
    if (w->init.data) tp_buf_put(&graph, w->init.data, w->init.len);
    tp_buf_free(&w->init);
    for (int i = 0; i < n_inputs; i++) tp__onnx_value_info(w, &graph, 11, inputs[i]);
    for (int i = 0; i < n_outputs; i++) tp__onnx_value_info(w, &graph, 12, outputs[i]);
    if (graph.len + w->untrained.len > (size_t)INT32_MAX - 65536 && !graph.failed) {
        tp_buf_free(&graph);
        return tp_fail(TP_ERR_UNSUPPORTED,
                       "ONNX export: the model is larger than 2 GiB, which protobuf cannot hold: export it by "
                       "tp_export_onnx with .external_data");
    }
    tp__pb_int(model, 1, w->opset >= 15 ? 8 : 7);
    tp__pb_text(model, 2, "tp");
    tp__pb_text(model, 3, tp_version());
    tp__pb_message(model, 7, &graph);
    tp__pb_text(&opset, 1, "");
    tp__pb_int(&opset, 2, w->opset);
    tp__pb_message(model, 8, &opset);
    if (w->untrained.len && w->has_trained)
        tp__onnx_entry(model, 14, TP__ONNX_UNTRAINED, w->untrained.data); /* an entry of metadata_props */
    return model->failed || w->status != TP_OK ? tp__onnx_nomem() : TP_OK;
}

/* weights (may be NULL): the file of external data, called `location` in the model. *batched (may be NULL): whether every input and
 * output has an unknown first dimension, the batch. */
static tp_status tp__export_onnx(tp_session *s, tp_node *const *inputs, int n_inputs, tp_node *const *outputs,
                                 int n_outputs, tp_buf *out, const tp_export_onnx_desc *d, tp_writer *weights,
                                 const char *location, bool *batched)
{
    tp_export_onnx_desc standard;
    tp__onnx w;
    memset(&standard, 0, sizeof standard);
    memset(&w, 0, sizeof w);
    w.session = s;
    w.options = d ? d : &standard;
    w.weights = weights, w.location = location;
    w.opset = 13;
    if (w.options->opset != 0 && w.options->opset != 13 && w.options->opset != 17)
        return tp_fail(TP_ERR_ARG, "ONNX export: opset %d is not written: choose 13 or 17, or 0 for what is needed",
                       w.options->opset);
    if (w.options->opset) w.opset = w.options->opset;
    if (n_outputs < 1) return tp_fail(TP_ERR_ARG, "ONNX export: there are no outputs");
    tp_status st = tp__check_run(s, NULL, 0, outputs, n_outputs);
    for (int i = 0; i < n_inputs && st == TP_OK; i++)
        if (!inputs[i] || inputs[i]->op->graph != s->graph || tp_is_poison(inputs[i]))
            st = tp__export_no_input("ONNX export", s, inputs[i], i);
    if (st != TP_OK) return st;
    const tp_graph *g = s->graph;
    const size_t n = (size_t)g->op.n + 1;
    size_t values = 1;
    tp_exec *e = NULL;
    w.first = (int *)tp_calloc(n, sizeof *w.first);
    w.depends_on_input = (char *)tp_calloc(n, 1);
    w.done = (char *)tp_calloc(n, 1);
    for (int id = 0; id < g->op.n && w.first; id++) {
        w.first[id] = (int)values - 1;
        values += (size_t)((const tp_operation *)g->op.item[id])->n_out;
    }
    w.value = (tp__onnx_value *)tp_calloc(values, sizeof *w.value);
    w.type = (tp_type *)tp_calloc(values, sizeof *w.type);
    if (w.first && w.depends_on_input && w.done && w.value && w.type) e = tp_exec_new(s);
    st = e ? TP_OK : tp__onnx_nomem();
    if (st == TP_OK) st = tp__onnx_mark(&w, inputs, n_inputs, outputs, n_outputs);
    if (st == TP_OK) st = tp__onnx_fold(&w, e);
    if (st == TP_OK) st = tp__onnx_infer_batched(&w, inputs, n_inputs);
    if (st == TP_OK) st = tp__onnx_write(&w, inputs, n_inputs, outputs, n_outputs, out);
    if (batched) {
        *batched = st == TP_OK && n_inputs > 0;
        for (int i = 0; i < n_inputs + n_outputs && *batched; i++)
            *batched = tp__onnx_is_batch(&w, i < n_inputs ? inputs[i] : outputs[i - n_inputs]);
    }
    tp_exec_free(e);
    tp_arena_free(&w.names);
    tp__map_free(&w.written);
    tp_buf_free(&w.node);
    tp_buf_free(&w.init);
    tp_buf_free(&w.attr);
    tp_buf_free(&w.untrained);
    tp_free(w.first);
    tp_free(w.depends_on_input);
    tp_free(w.done);
    tp_free(w.value);
    tp_free(w.type);
    return st;
}

TP_DEF tp_status tp_export_onnx_buf(tp_session *s, tp_node *const *inputs, int n_inputs, tp_node *const *outputs,
                                    int n_outputs, tp_buf *out, const tp_export_onnx_desc *d)
{
    TP__REQUIRE(s && (inputs || n_inputs == 0) && n_inputs >= 0 && (outputs || n_outputs < 1) && out, TP_ERR_ARG)

    if (d && d->external_data)
        return tp_fail(TP_ERR_ARG, "tp_export_onnx_buf has .external_data, which is a file beside another one: call "
                                   "tp_export_onnx");
    return tp__export_onnx(s, inputs, n_inputs, outputs, n_outputs, out, d, NULL, NULL, NULL);
}

TP_DEF tp_status tp_export_onnx(tp_session *s, tp_node *const *inputs, int n_inputs, tp_node *const *outputs,
                                int n_outputs, const char *path, const tp_export_onnx_desc *d)
{
    TP__REQUIRE(s && (inputs || n_inputs == 0) && n_inputs >= 0 && (outputs || n_outputs < 1) && path, TP_ERR_ARG)

    tp_buf model, data_path;
    tp_writer *weights = NULL, *file = NULL;
    tp_status st = TP_OK;
    memset(&model, 0, sizeof model);
    memset(&data_path, 0, sizeof data_path);
    tp_buf_printf(&data_path, "%s.data", path);
    const char *slash = tp__os_last_separator(path);
    if (data_path.failed) st = tp__onnx_nomem();
    else if (d && d->external_data) st = tp_writer_open(&weights, data_path.data);
    if (st == TP_OK)
        st = tp__export_onnx(s, inputs, n_inputs, outputs, n_outputs, &model, d, weights,
                             data_path.data + (slash ? slash - path + 1 : 0), NULL);
    if (st == TP_OK) st = tp__export_open(&file, path, &model);
    st = tp__export_close(st, weights, file);
    tp_buf_free(&model);
    tp_buf_free(&data_path);
    return st;
}

/* ==== >>exporter ====================================================================================== */

struct tp_model_exporter {
    tp_predictor *predictor;
};

TP_DEF tp_model_exporter *tp_model_exporter_new(const tp_predict_config *c)
{
    TP__REQUIRE(c, NULL)

    tp_predict_config config = *c;
    config.session_creator = NULL; /* always a new session on the CPU, whatever predictors use */
    tp_model_exporter *x = (tp_model_exporter *)tp_calloc(1, sizeof *x);
    if (!x) {
        tp__session_init_delete(c->session_init);
        return NULL;
    }
    x->predictor = tp_offline_predictor(&config);
    if (x->predictor) return x;
    tp_free(x);
    return NULL;
}
TP_DEF void tp_model_exporter_free(tp_model_exporter *x)
{
    if (!x) return;
    tp_predictor_free(x->predictor);
    tp_free(x);
}
TP_DEF tp_session *tp_model_exporter_session(tp_model_exporter *x)
{
    TP__REQUIRE(x, NULL)
    return x->predictor->session;
}

/* Writes the ONNX model of an exporter; `batched` as in tp__export_onnx. */
static tp_status tp__exporter_model(tp_model_exporter *x, tp_buf *model, int optimize, bool toco_compatible,
                                    bool *batched)
{
    const tp_predictor *p = x->predictor;
    tp_export_onnx_desc d;
    memset(&d, 0, sizeof d);
    d.fold = optimize != TP_NO;
    d.keep_identities = optimize == TP_NO;
    d.opset = toco_compatible ? 13 : 0;
    return tp__export_onnx(p->session, p->in, p->n_in, p->out, p->n_out, model, &d, NULL, NULL, batched);
}

TP_DEF tp_status tp_export_compact(tp_model_exporter *x, const char *path, const tp_export_compact_desc *d)
{
    TP__REQUIRE(x && path, TP_ERR_ARG)

    const int optimize = d ? d->optimize : TP_UNSET;
    tp_buf model;
    memset(&model, 0, sizeof model);
    if (d && d->toco_compatible && optimize == TP_NO)
        return tp_fail(TP_ERR_ARG, "export_compact: toco_compatible needs optimize");
    tp_status st = tp__exporter_model(x, &model, optimize, d && d->toco_compatible, NULL);
    if (st == TP_OK) st = tp__export_write(path, &model);
    tp_buf_free(&model);
    return st;
}

/* Writes one "input" or "output" of config.pbtxt, without the batch dimension, which max_batch_size describes. dims
 * must not be empty: a value that is a scalar per sample is described as one element that is reshaped. The server takes
 * no other scalars. */
static tp_status tp__serving_value(tp_buf *c, const char *section, const tp_node *n, bool batched)
{
    static const char *const type[TP_DTYPE_COUNT] = {"",           "TYPE_FP32",  "TYPE_FP64",  "TYPE_FP16", "TYPE_BF16",
                                                     "TYPE_INT32", "TYPE_INT64", "TYPE_UINT8", "TYPE_BOOL"};
    const int from = batched ? 1 : 0;
    bool empty = n->shape.ndim == 0;
    for (int d = 0; d < n->shape.ndim; d++) empty |= n->shape.dim[d] == 0;
    if (empty)
        return tp_fail(
            TP_ERR_SHAPE,
            "export_serving: the %s '%s' is a scalar or empty, which the server does not take: reshape it to (1)",
            section, tp_node_name(n));
    tp_buf_printf(c, "%s [\n  {\n    name: \"%s", section, tp_node_name(n));
    if (n->index) tp_buf_printf(c, ":%d", n->index);
    tp_buf_printf(c, "\"\n    data_type: %s\n    dims: [", type[n->dtype]);
    for (int d = from; d < n->shape.ndim; d++)
        tp_buf_printf(c, "%s %lld", d > from ? "," : "", n->shape.dim[d] < 0 ? -1LL : (long long)n->shape.dim[d]);
    tp_buf_printf(c, n->shape.ndim > from ? " ]\n" : " 1 ]\n    reshape { shape: [ ] }\n");
    tp_buf_printf(c, "  }\n]\n");
    return TP_OK;
}
static void tp__serving_text(tp_buf *c, const char *s) /* writes a quoted string */
{
    tp_buf_printf(c, "\"");
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') tp_buf_printf(c, "\\%c", *s);
        else if ((unsigned char)*s < 32) tp_buf_printf(c, "\\%03o", (unsigned)(unsigned char)*s);
        else tp_buf_printf(c, "%c", *s);
    }
    tp_buf_printf(c, "\"");
}
static tp_status tp__serving_config(tp_model_exporter *x, const tp_export_serving_desc *d, int max_batch, tp_buf *c)
{
    const tp_predictor *p = x->predictor;
    tp_buf_printf(c, "backend: \"onnxruntime\"\nmax_batch_size: %d\n", max_batch);
    tp_status st = TP_OK;
    for (int i = 0; i < p->n_in && st == TP_OK; i++) st = tp__serving_value(c, "input", p->in[i], max_batch > 0);
    for (int i = 0; i < p->n_out && st == TP_OK; i++) st = tp__serving_value(c, "output", p->out[i], max_batch > 0);
    if (st != TP_OK) return st;
    tp_buf_printf(c, "parameters {\n  key: \"signature_name\"\n  value { string_value: ");
    tp__serving_text(c, d->signature_name ? d->signature_name : "prediction_pipeline");
    tp_buf_printf(c, " }\n}\nparameters {\n  key: \"tags\"\n  value { string_value: ");
    tp_buf tags;
    memset(&tags, 0, sizeof tags);
    for (int i = 0; i < d->n_tags; i++) tp_buf_printf(&tags, "%s%s", i ? "," : "", d->tags[i]);
    tp__serving_text(c, d->n_tags ? (tags.data ? tags.data : "") : "serve");
    if (tags.failed) c->failed = true;
    tp_buf_free(&tags);
    tp_buf_printf(c, " }\n}\n");
    return c->failed ? tp__onnx_nomem() : TP_OK;
}

/* Writes the folder as a whole: the version is written under a temporary name and renamed when it is complete. */
static tp_status tp__serving_write(const char *dir, int64_t version, const tp_buf *model, const tp_buf *config)
{
    const size_t size = strlen(dir) + 96;
    char *path_buffer = (char *)tp_malloc(4 * size), *old = NULL;
    if (!path_buffer) return TP_ERR_NOMEM;
    char *final_dir = path_buffer, *temp = path_buffer + size, *file = path_buffer + 2 * size,
         *pbtxt = path_buffer + 3 * size;
    size_t old_size = 0;
    snprintf(final_dir, size, "%s/%lld", dir, (long long)version);
    snprintf(temp, size, "%s/.%lld.tmp.%ld", dir, (long long)version, (long)tp__os_pid());
    snprintf(file, size, "%s/.%lld.tmp.%ld/model.onnx", dir, (long long)version, (long)tp__os_pid());
    snprintf(pbtxt, size, "%s/config.pbtxt", dir);
    const bool had_dir = tp_file_exists(dir), had_config = tp_file_exists(pbtxt);
    bool made_temp = false, made_config = false;
    tp_status st = TP_OK;
    if (tp_file_exists(final_dir))
        st = tp_fail(TP_ERR_STATE, "export_serving: %s exists: remove it, or choose another version", final_dir);
    if (st == TP_OK && had_config) {
        st = tp_file_read(pbtxt, false, 0, &old, &old_size);
        if (st == TP_OK && (old_size != config->len || memcmp(old, config->data, old_size) != 0))
            st = tp_fail(TP_ERR_STATE,
                         "export_serving: %s describes other versions with other inputs, outputs or options: choose "
                         "another folder",
                         pbtxt);
    }
    if (st == TP_OK) st = tp_make_dirs(temp);
    if (st == TP_OK) made_temp = true;
    if (st == TP_OK) st = tp__export_write(file, model);
    if (st == TP_OK && !had_config) {
        made_config = true; /* delete the temporary folder also after an error, because the file may exist then */
        st = tp__export_write(pbtxt, config);
    }
    if (st == TP_OK && tp__os_rename(temp, final_dir) != 0)
        st = tp_fail(TP_ERR_IO, "export_serving: %s cannot be renamed to %s: %s", temp, final_dir, tp__os_error());
    if (st != TP_OK) {
        if (made_config) tp__os_remove(pbtxt);
        if (made_temp) tp__os_remove(file);
        if (made_temp) tp__os_rmdir(temp);
        if (!had_dir) tp__os_rmdir(dir);
    }
    tp_free(old);
    tp_free(path_buffer);
    return st;
}

/* Checks .tags and .max_batch_size. */
static tp_status tp__serving_check(const tp_export_serving_desc *d)
{
    if (d->n_tags < 0 || (d->n_tags > 0 && !d->tags))
        return tp_fail(TP_ERR_ARG, "export_serving: .n_tags is %d%s: give the list in .tags and its length in .n_tags",
                       d->n_tags, d->n_tags > 0 ? ", but there is no .tags" : "");
    for (int i = 0; i < d->n_tags; i++)
        if (!d->tags[i]) return tp_fail(TP_ERR_ARG, "export_serving: .tags[%d] is NULL: give the tag's text", i);
    if (d->max_batch_size < 0 && d->max_batch_size != TP_NONE)
        return tp_fail(TP_ERR_ARG,
                       "export_serving: .max_batch_size is %d: give a number of samples, or TP_NONE for no batching",
                       d->max_batch_size);
    return TP_OK;
}

TP_DEF tp_status tp_export_serving(tp_model_exporter *x, const char *dir, const tp_export_serving_desc *d)
{
    TP__REQUIRE(x && dir, TP_ERR_ARG)

    tp_export_serving_desc standard;
    tp_buf model, config;
    bool batched = false;
    memset(&standard, 0, sizeof standard);
    memset(&model, 0, sizeof model);
    memset(&config, 0, sizeof config);
    if (!d) d = &standard;
    const int64_t version = d->version ? d->version : 1;
    if (!dir || !*dir || version < 1)
        return tp_fail(TP_ERR_ARG, version < 1 ? "export_serving: a version must be positive"
                                               : "export_serving: the folder's path is empty");
    tp_status st = tp__serving_check(d);
    if (st == TP_OK) st = tp__exporter_model(x, &model, TP_YES, false, &batched);
    if (st == TP_OK && d->max_batch_size > 0 && !batched)
        st = tp_fail(
            TP_ERR_SHAPE,
            "export_serving: max_batch_size is %d, but not every input and output has the batch as an open first "
            "dimension: leave it 0",
            d->max_batch_size);
    const int max_batch = d->max_batch_size > 0 ? d->max_batch_size : d->max_batch_size == 0 && batched ? 64 : 0;
    if (st == TP_OK) st = tp__serving_config(x, d, max_batch, &config);
    if (st == TP_OK) st = tp__serving_write(dir, version, &model, &config);
    tp_buf_free(&model);
    tp_buf_free(&config);
    return st;
}

TP__COLD_END
TP__EXACT_END
#undef TP__PLACED
#define TP__PLACED TP__PLACE
#endif
