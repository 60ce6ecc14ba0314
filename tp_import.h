/* tp_import.h - v0.1 - reads a model in an ONNX file as nodes of a graph
 *
 * Do this:
 *     #define TP_IMPLEMENTATION        // in ONE .c file, before any other include
 *     #include "tp_import.h"           // pulls in tp_graph.h
 *
 * WHAT THIS IS       tp_import_onnx adds the operators of an ONNX file to a graph as ops of the op table, so that a model of
 *                    another framework can be run, differentiated, fine-tuned and exported like a graph built with tp. An
 *                    operator without an op is composed of several ops. Values that depend only on constants and shapes are
 *                    computed during the import, so that the usual chains of Shape, Gather, Concat and Reshape vanish.
 * WHAT THIS IS NOT   complete: control flow (except an If with a known condition), strings, sequences, integers of 8 and 16
 *                    bits (except uint8) and quantised operators are not supported; the error names such a node. Sizes that the
 *                    file leaves open remain open where the ops allow it. Some operators over open dimensions (Reshape, Resize,
 *                    Range, Slice, Einsum, GatherElements, a TopK whose k follows from them, RNN, PyTorch's GRU) must know the
 *                    sizes: give them in .dims. LSTM, GRU and RNN take sequence_lens only as a constant in which each sequence
 *                    has the length of the input. A graph for a second size, with the same weights, is a second import:
 *
 *     TP_VARIABLE_SCOPE(g, "net", .reuse = TP_REUSE_AUTO) st = tp_import_onnx(g, path, &small, &m1); // .trainable = TP_YES
 *     TP_VARIABLE_SCOPE(g, "net", .reuse = TP_REUSE_AUTO) st = tp_import_onnx(g, path, &large, &m2); // .dims has other sizes
 *
 * A COMPLETE PROGRAM
 *     #define TP_IMPLEMENTATION
 *     #include "tp_import.h"
 *     int main(int argc, char **argv)
 *     {
 *         tp_graph *g = tp_graph_new(NULL);
 *         tp_onnx_model m;
 *         if (argc < 2) return puts("give the name of an ONNX file"), 1;
 *         if (tp_import_onnx(g, argv[1], NULL, &m) != TP_OK) return puts(tp_last_error()), 1;
 *         for (int i = 0; i < m.n_input; i++) puts(m.input[i].name);   // feed m.input[i].node ...
 *         for (int i = 0; i < m.n_output; i++) puts(m.output[i].name); // ... fetch m.output[i].node
 *         tp_graph_free(g);
 *         return 0;
 *     }
 *
 * TYPES      float16 and bfloat16 are computed in float32. Integers are computed exactly, but for CumSum, TopK, MatMul, Gemm, Pow,
 *            ReduceMean, ReduceProd, MaxPool, a Resize that is linear or cubic or has a roi, and the like, which compute them in float64:
 *            an int64 beyond 2^53 is rounded there.
 * RANDOM     RandomUniform, RandomNormal, their forms with Like, and Bernoulli draw new numbers in each run, also in a tower
 *            for inference, as ONNX says. The numbers follow from the seed of the graph and the name of the node, as those of
 *            tp_rand_uniform do; the attribute `seed` is not used.
 * LAYOUT     Inputs, outputs and the values that tp_graph_find finds have the layout of the file, NCHW. Between them, images are
 *            computed as NHWC, which is the layout of the fast kernels; a transpose remains where an operator needs NCHW.
 * ERRORS     a status and a sentence in tp_last_error(), with the file and the node. An error found while a node is built is
 *            also kept by the graph (tp_graph_error).
 */
#ifndef TP_IMPORT_H
#define TP_IMPORT_H

#include "tp_graph.h"
/* clang-format off */
#if TP_VERSION_MAJOR != 0 || TP_VERSION_MINOR != 1
#error "tp_import.h 0.1 needs tp_tensor.h 0.1: copy all tp headers from the same version"
#endif
#if defined(TP_NO_STDIO) || defined(TP_NO_SENTENCES) || defined(TP_ONLY_F32)
#error "TP_NO_STDIO, TP_NO_SENTENCES, TP_ONLY_F32 and TP_TINY are for programs of tp_tensor.h, tp_graph.h, tp_layers.h and tp_optim.h alone"
#endif
/* clang-format on */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tp_onnx_value {
    const char *name; /* name of the input or output in the file */
    tp_node *node;    /* the node; its name is that in the file, in the import's scope, unless it is taken */
} tp_onnx_value;
typedef struct tp_onnx_dim {
    const char *name; /* name of a dimension without a fixed size, such as "batch" */
    int64_t size;
} tp_onnx_dim;
typedef struct tp_import_onnx_desc {
    /* name scope of the added nodes; NULL: the current one. Variables are not in it: a TP_VARIABLE_SCOPE around the import is
     * their scope */
    const char *scope;
    /* nodes that replace inputs of the file; the other inputs become placeholders. A constant among these nodes is known at
     * import time; sizes, axes and shapes must be known then */
    const tp_onnx_value *inputs;
    int n_inputs;
    /* sizes for named dimensions; dimensions that are not listed remain unknown. A warning lists the names that no input has */
    const tp_onnx_dim *dims;
    int n_dims;
    /* TP_YES: float weights become trainable variables with their names, except for the running mean and variance of
     * BatchNormalization, which become variables that are not trained; default: they become constants. Weights are the
     * initializers of the file that have a dimension. In a file of tp_export_onnx those that were not trained there stay
     * constants, unless .constants is given. A file of another program does not tell weights from other numbers: its causal masks,
     * rotary tables, scales of attention and other buffers of floats are trained too, unless .constants names them (an INFO line
     * tells of those of one element). A BatchNormalization or Dropout in the file's
     * training mode is for inference in a tower for inference; in the main training tower the running mean and variance get
     * their updates in the collection TP_KEY_UPDATE_OPS */
    tp_tri trainable;
    /* a regular expression (>>regex of tp_graph.h): a weight stays a constant if its name in the file contains a match:
     * "mask$|rotary|relative_coords". A regex without a match gets a warning. NULL: none */
    const char *constants;
    /* limit of the number of operations that import computes from constants, so that a small file cannot keep it busy for ever;
     * default 2e10, some seconds to a minute; TP_ZERO: no operation is allowed */
    double max_work;
    /* limit of the bytes that an import may take, so that a small file cannot fill the memory: the nodes of the graph, with those of
     * recurrent layers and pools that are taken apart, and values that are read or computed; default 1.5 GiB and 16 times the size of the
     * model's files */
    double max_memory;
} tp_import_onnx_desc;
/* The imported model; the graph owns the arrays. Inputs that d->inputs replaced are listed too. */
typedef struct tp_onnx_model {
    tp_onnx_value *input, *output;
    int n_input, n_output;
} tp_onnx_model;
/* Imports an ONNX file into a graph. d may be NULL. tp_graph_find finds the values of the file by their names there (in .scope).
 * Weights in separate files ("external data") are read from the folder of the file. Operators of opsets before 7 that meant something
 * else then (.axis of a sum, a PRelu with channels, a BatchNormalization without is_test) are refused; an opset that is not known yet
 * gets a warning. [beyond: ONNX import] */
TP_DEF tp_status tp_import_onnx(tp_graph *g, const char *path, const tp_import_onnx_desc *d, tp_onnx_model *m);
/* Like tp_import_onnx, from memory; `what` names the model in errors. External data is not supported. */
TP_DEF tp_status tp_import_onnx_parse(tp_graph *g, const void *data, size_t size, const char *what,
                                      const tp_import_onnx_desc *d, tp_onnx_model *m);
TP_DEF const char *tp_import_onnx_operator(int i); /* names of the supported operators, by index; NULL past the end */

/* Registers the option types of this header for TP_OPTIONS. */
TP_DEF const tp__zero_option *tp__import_zeros(void);
#define TP__PART_tp_import_onnx_desc import

#ifdef __cplusplus
}
#endif
#endif /* TP_IMPORT_H */

/* ===== STOP HERE if you only want to use the library. Everything below is implementation. ===== */
#if defined(TP_IMPLEMENTATION) && !defined(TP__IMPORT_IMPLEMENTED)
#define TP__IMPORT_IMPLEMENTED
#undef TP__PLACED
#define TP__PLACED TP__UNPLACED
TP__EXACT_BEGIN
TP__COLD_BEGIN

/* The options whose zero is not their default: see OPTIONS in tp_tensor.h. */
TP_DEF const tp__zero_option *tp__import_zeros(void)
{
    /* clang-format off */
    static const tp__zero_option options[] = {
        TP__ZERO_OPTION(tp_import_onnx_desc, max_work, ZERO),
        {NULL, NULL, 0, 0, TP__ZERO_NO},
    };
    /* clang-format on */
    return options;
}

/* ==== >>protobuf ======================================================================================= */

/* Reads the next number of a repeated field, which is stored packed or as one field per number. False at the end. */
static bool tp__pb_number(tp__pb *p, tp__pb *pack, int number, int wire, uint64_t *v)
{
    tp__pb_field f;
    for (;;) {
        if (pack->at != pack->end) {
            *v = wire == 0 ? tp__pb_get_varint(pack) : tp__pb_get_fixed(pack, wire == 1 ? 8 : 4);
            p->bad |= pack->bad;
            return !p->bad;
        }
        if (!tp__pb_next(p, &f)) return false;
        if (f.number != number) continue;
        if (f.wire == wire) {
            *v = f.value;
            return true;
        }
        if (f.wire == 2) *pack = f.sub;
        else p->bad = true;
    }
}

static float tp__bits_f32(uint64_t bits)
{
    const uint32_t u = (uint32_t)bits;
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

/* ==== >>model: what an import knows ===================================================================== */

/* A value of the file. A known value stores its elements here and becomes a node when an op needs one. */
typedef struct tp__import_value {
    const char *name;
    tp_node *node[2]; /* the value's node in the user's graph, and in the graph for constant folding */
    tp_tensor known;
    bool is_known;
    bool partial;  /* the value is an int64 list; some of its elements are unknown sizes of dimensions */
    bool variable; /* the value is a variable, which will change: its shape is known, but it is never folded */
} tp__import_value;
/* In a list of sizes, an unknown size is stored as TP__OV_ANY plus the number of its symbol, which stands for one dimension of a
 * node. An unknown size without a symbol, computed from other unknown sizes, is TP__OV_ANY. */
#define TP__OV_ANY     (INT64_MIN + 4711)
#define TP__OV_SYMBOLS 65536
static bool tp__is_any(int64_t v) { return v >= TP__OV_ANY && v < TP__OV_ANY + TP__OV_SYMBOLS; }
typedef struct tp__symbol {
    tp_node *node;
    int axis, number;
    int64_t times; /* the size is so many times that of the dimension */
    int base;      /* number of the symbol of the dimension itself */
} tp__symbol;
/* A dimension of an input whose size is not known. */
typedef struct tp__open_dim {
    const tp_node *node;
    const char *input;
    const char *name; /* the dimension's name in the file; "" if it has none, or if .inputs gives the node */
    int axis;
    int same; /* index in open_dims of the first dimension of this name; its own without a name */
} tp__open_dim;

/* The state of an import. Operators are built into the user's graph; if all inputs are known, into a private graph, whose
 * session computes the value. */
typedef struct tp__importer {
    tp_graph *graph[2];
    int graph_index; /* index of the graph in which nodes are being built */
    tp_session *session;
    const tp_import_onnx_desc *options;
    const char *model_name;
    const char *path; /* folder of the file, for external data; NULL when importing from memory */
    tp_arena mem;
    tp__map values;
    tp__list all_values;
    tp__list symbols; /* list of symbols: item i is symbol i + 1 */
    tp__list trials;  /* by operation of the user's graph: shapes of its outputs in trials, see tp__importer_trial */
    int n_fresh;      /* number of sizes that the trials have invented, beside those of open_dims */
    int next_open;    /* index in open_dims of the first dimension that no trial has had */
    int64_t opset;
    double work, max_work; /* number of elements listed and operations computed so far, and its limit */
    double value_bytes;    /* of the values that are known */
    double max_memory;     /* limit of these, of the graph's nodes and of `mem` */
    size_t graph_bytes;    /* those that the graph had before the import */
    int depth;             /* depth of nested Ifs */
    tp__pb file;           /* the whole model */
    tp__map files;         /* has the names of the files with external data */
    tp__list dim_names;    /* names of the dimensions of the inputs, in their order; the map has each of them */
    tp__map dim_name_map;
    tp__list open_dims;  /* a tp__open_dim for each dimension of an input whose size is not known */
    tp__map open_names;  /* of each name of theirs, the first one */
    tp__map reads;       /* of each name that is read, how many inputs of nodes have it: see tp__importer_reads */
    bool has_reads;      /* the map was made */
    bool reads_all;      /* what is read is not known */
    tp__map inputs;      /* has the names of the inputs */
    tp__map symbol_map;  /* has the symbols by node and axis */
    tp__map statistics;  /* has the names of the weights that are running statistics of batch norms, with a value */
    tp__map untrained;   /* has the names that the file lists as no trained weights */
    bool has_untrained;  /* the file has such a list */
    int n_untrained;     /* how many of them stay constant */
    int n_single;        /* how many trained weights have one element */
    const char *single;  /* the name of the first of them */
    tp_regex *constants; /* that of .constants; NULL: none */
    tp__nearest near;    /* the name that is most similar to it */
    bool has_constants;  /* .constants has matched a name */
    bool is_size_wanted; /* the first error is that a size is not known */
    tp__words missing;   /* what to do about that */
    tp_status status;
    /* status of the first error: a builder continues to the end of its node, which may cause more errors */
    char sentence[1400];
} tp__importer;

typedef struct tp__import_attr {
    const char *name;
    tp__pb msg;
} tp__import_attr;

/* The ONNX node that is being built. */
typedef struct tp__import_node {
    tp__importer *importer;
    const struct tp__import_row *row;
    const char *name, *op;
    tp__import_value **in; /* NULL for an omitted optional input */
    const char **out;
    tp_node **made;
    tp_tensor *value; /* values of outputs that the builder itself computes, where set[i] is true */
    bool *set, partial;
    bool channels_last; /* the inputs and outputs are images whose last axis is the channel: see "layouts" */
    tp__import_attr *attr;
    int n_in, n_out, n_attr;
} tp__import_node;

typedef struct tp__import_row {
    const char *name;
    void (*build)(tp__import_node *n);
    tp_node *(*unary)(tp_node *x);
    tp_node *(*binary)(tp_node *a, tp_node *b);
    int flags;
} tp__import_row;
enum {
    TP__IMPORT_NO_FOLD = 1, /* the operator computes its value itself, or draws random numbers */
    TP__IMPORT_SIZES = 2,   /* arithmetic of sizes, which is computed even if some of them are unknown */
    TP__IMPORT_SHAPE = 8,   /* the operator takes a list of sizes, some of which may be unknown, as a shape */
    TP__IMPORT_BYTES = 4,   /* operators with one or two inputs for which uint8 and bool are computed as int32 */
    TP__IMPORT_IMAGE = 16,  /* the first input may be an image with its channels last; the output is one then */
    TP__IMPORT_IMAGES = 32, /* element-wise or Concat: all inputs are images then */
    TP__IMPORT_WINDOWS = 64 /* a convolution: the first input is always made such an image */
};

static tp_status tp__importer_fail(tp__importer *c, const char *node, tp_status st, const char *fmt, ...)
    TP_PRINTF(4, 5);
static tp_status tp__importer_fail(tp__importer *c, const char *node, tp_status st, const char *fmt, ...)
{
    char text[700];
    va_list ap;
    va_start(ap, fmt);
    tp__vformat(text, sizeof text, fmt, ap);
    va_end(ap);
    if (c->status != TP_OK) return c->status;
    const tp_graph *g = c->graph[c->graph_index];
    if (g && tp_graph_status(g) == TP_ERR_NOMEM) { /* a node that is missing for lack of memory causes other errors */
        st = TP_ERR_NOMEM;
        snprintf(text, sizeof text, "%s", tp_graph_error(g));
    }
    snprintf(c->sentence, sizeof c->sentence, "%s: %s%s%s", c->model_name, node ? node : "", node ? ": " : "", text);
    return c->status = tp_fail(st, "%s", c->sentence);
}
static tp_status tp__importer_nomem(tp__importer *c)
{
    return tp__importer_fail(c, NULL, TP_ERR_NOMEM, "out of memory");
}
/* The most elements of a value that is computed or listed during the import, and of a value of the graph (TP__VALUE_MAX), so
 * that products of a few dimensions cannot overflow. */
#define TP__IMPORT_MAX  ((int64_t)1 << 28)
#define TP__IMPORT_LAST TP__VALUE_MAX
/* The default limit of an import's memory is TP__IMPORT_BASE bytes and TP__IMPORT_SHARE bytes for each byte of the model's files. */
#define TP__IMPORT_BASE           1610612736.0
#define TP__IMPORT_SHARE          16.0
#define tp__on_fail(n_, st_, ...) tp__importer_fail((n_)->importer, (n_)->name, (st_), __VA_ARGS__)
/* Whether so many bytes more are within the limit of the import's memory; false after an error, too. */
static bool tp__importer_has_room(tp__importer *c, const char *node, double bytes)
{
    const double nodes = (double)(c->graph[0]->arena.used - c->graph_bytes);
    if (c->value_bytes + nodes + (double)c->mem.used + bytes <= c->max_memory) return c->status == TP_OK;
    tp__importer_fail(c, node, TP_ERR_UNSUPPORTED,
                      "the import would take more than %g bytes of memory; .max_memory is how many are allowed",
                      c->max_memory);
    return false;
}
/* Counts operations that the import computes, and asks for bytes that it needs. */
static bool tp__import_node_spend(tp__import_node *n, double work, double bytes)
{
    n->importer->work += work;
    if (n->importer->work <= n->importer->max_work) return tp__importer_has_room(n->importer, n->name, bytes);
    tp__on_fail(n, TP_ERR_UNSUPPORTED,
                "%s: what follows from constants takes too many operations to compute; .max_work "
                "is how many are allowed",
                n->op);
    return false;
}

static tp_node *tp__import_node_unsupported(tp__import_node *n, const char *reason)
{
    tp__on_fail(n, TP_ERR_UNSUPPORTED, "%s with %s cannot be expressed", n->op, reason);
    return tp_poison(n->importer->graph[n->importer->graph_index]);
}

static void *tp__importer_alloc(tp__importer *c, size_t n, size_t size)
{
    size_t bytes = 0;
    void *p = tp_mul_size(n, size, &bytes) ? tp_arena_alloc(&c->mem, bytes + 1) : NULL;
    if (!p) tp__importer_nomem(c);
    return p;
}

#define TP__IMPORT_LISTED 6 /* most names or dimensions that a sentence lists */

/* Adds an item to a list in a sentence: a name between `before` and `after`. i: how many items were added before. */
static void tp__import_list(tp__words *w, int i, const char *before, const char *name, const char *after)
{
    const size_t n = strlen(name);
    if (i > TP__IMPORT_LISTED) return;
    if (i) tp__words_put(w, ", ");
    tp__words_put(w, i < TP__IMPORT_LISTED ? before : "...");
    if (i == TP__IMPORT_LISTED) return;
    tp__words_add(w, name, n < 40 ? n : 40);
    tp__words_put(w, n < 40 ? "" : "...");
    tp__words_put(w, after);
}
/* Says how to give a size that is not known, and which dimensions of inputs it may be. x, axis: the wanted dimension, which is
 * the only one that is named if x is an input; x may be NULL. */
static const char *tp__importer_missing(tp__importer *c, const tp_node *x, int axis)
{
    tp__words *w = &c->missing;
    bool is_input = false;
    int n_named = 0, n_other = 0, n = 0;
    if (c->status != TP_OK) return "";
    while (x && x->op->row == &tp__op_transpose) { /* the dimension has the same size before it is moved */
        int perm[TP_MAX_DIMS];
        tp__permutation((const tp__transpose_attrs *)x->op->attrs, x->shape.ndim, perm);
        axis = perm[axis], x = x->op->in[0];
    }
    c->is_size_wanted = true;
    w->n = 0;
    for (int i = 0; i < c->open_dims.n; i++) {
        const tp__open_dim *o = (const tp__open_dim *)c->open_dims.item[i];
        is_input |= o->node == x && o->axis == axis;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < c->open_dims.n; i++) {
            const tp__open_dim *o = (const tp__open_dim *)c->open_dims.item[i];
            char place[48];
            if (is_input && (o->node != x || o->axis != axis)) continue;
            if (pass == 0) {
                *(o->name[0] ? &n_named : &n_other) += 1;
                continue;
            }
            snprintf(place, sizeof place, "dimension %d of '", o->axis);
            tp__import_list(w, n, place, o->input, "'");
            if (o->name[0] && n < TP__IMPORT_LISTED) tp__import_list(w, 0, " ('", o->name, "')");
            n++;
        }
        if (pass == 0)
            tp__words_put(w, n_named && n_other
                                 ? "give it in .dims, or, if the dimension has no name, by a placeholder of "
                                   "known shape in .inputs: "
                             : n_named ? "give it in .dims: "
                             : n_other ? "give it by a placeholder of known shape in .inputs: "
                                       : "give it in .dims");
        if (pass == 0 && !is_input && n_named + n_other > 1) tp__words_put(w, "one of ");
    }
    return w->text;
}
/* The symbol of a size in a list; NULL: the size has none. */
static const tp__symbol *tp__importer_symbol_of(const tp__importer *c, int64_t size)
{
    const bool has = tp__is_any(size) && size > TP__OV_ANY && size - TP__OV_ANY <= c->symbols.n;
    return has ? (const tp__symbol *)c->symbols.item[size - TP__OV_ANY - 1] : NULL;
}
/* Names the dimension for the first unknown size of a list. */
static const char *tp__importer_missing_in(tp__importer *c, const tp_tensor *list)
{
    for (int64_t i = 0; list->dtype == TP_I64 && i < tp_tensor_size(list); i++) {
        const int64_t v = ((const int64_t *)list->data)[i];
        if (!tp__is_any(v)) continue;
        const tp__symbol *s = tp__importer_symbol_of(c, v);
        return tp__importer_missing(c, s ? s->node : NULL, s ? s->axis : 0);
    }
    return tp__importer_missing(c, NULL, 0);
}
static void tp__import_node_unknown_size(tp__import_node *n, const tp_tensor *list)
{
    tp__on_fail(n, TP_ERR_UNSUPPORTED, "%s with a size that is not known cannot be expressed; %s", n->op,
                tp__importer_missing_in(n->importer, list));
}

/* Copies a string of the file. */
static const char *tp__importer_string(tp__importer *c, tp__pb s)
{
    const size_t n = (size_t)(s.end - s.at);
    char *t = (char *)tp__importer_alloc(c, n + 1, 1);
    if (!t) return "";
    if (n) memcpy(t, s.at, n);
    t[n] = 0;
    if (memchr(t, 0, n)) tp__importer_fail(c, NULL, TP_ERR_FORMAT, "a name has a zero byte in it; the file is damaged");
    return t;
}

/* Turns a name of the file into a name of the graph: invalid characters become '_', and so does '-' where a name
 * begins with it. */
static const char *tp__importer_name(tp__importer *c, const char *name)
{
    char *t = (char *)tp__importer_alloc(c, strlen(name) + 3, 1);
    size_t n = 0;
    if (!t) return "node";
    for (const char *p = name; *p; p++) {
        const bool letter =
            (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || *p == '_';
        if (*p == '/' && (n == 0 || t[n - 1] == '/')) continue; /* skip slashes that would make empty scopes */
        if ((n == 0 || t[n - 1] == '/') && !letter && *p != '.') t[n++] = '_';
        else t[n++] = letter || *p == '.' || *p == '-' || *p == '/' ? *p : '_';
    }
    while (n > 0 && t[n - 1] == '/') n--;
    t[n] = 0;
    return n ? t : "node";
}

static tp__import_value *tp__importer_value(tp__importer *c, const char *name)
{
    tp__import_value *v = (tp__import_value *)tp__importer_alloc(c, 1, sizeof *v);
    if (!v || !tp__list_add(&c->all_values, v) || !tp__map_put(&c->values, name, v)) {
        tp__importer_nomem(c);
        return NULL;
    }
    v->name = name;
    return v;
}

/* Returns the element type for a type number of ONNX; 0 if there is none. */
static tp_dtype tp__import_dtype(int64_t elem)
{
    switch (elem) {
    case 1:
    case 10:
    case 16: return TP_F32;
    case 11: return TP_F64;
    case 6: return TP_I32;
    case 7: return TP_I64;
    case 2: return TP_U8;
    case 9: return TP_BOOL;
    default: return TP_DTYPE_UNSET;
    }
}
static const char *tp__import_dtype_name(int64_t elem)
{
    static const char *const name[] = {"undefined", "float32", "uint8",     "int8",       "uint16",  "int16",
                                       "int32",     "int64",   "string",    "bool",       "float16", "float64",
                                       "uint32",    "uint64",  "complex64", "complex128", "bfloat16"};
    return elem >= 0 && elem < (int64_t)(sizeof name / sizeof *name) ? name[elem] : "a type of a newer ONNX";
}

/* -- weights that are stored in a separate file */
static bool tp__importer_is_number(const char *text)
{
    text += *text == '-'; /* refused later, with the file's name */
    return *text && strspn(text, "0123456789") == strlen(text);
}
/* Opens the file `location` in the model's folder; -1 after an error. Links are refused, in folders on the way too: they may lead out. */
static int tp__importer_open(tp__importer *c, const char *name, const char *location, tp__os_info *is)
{
    const char *slash = tp__os_last_separator(c->path);
    const size_t folder = slash ? (size_t)(slash - c->path) + 1 : 0;
    char *file = tp_arena_printf(&c->mem, "%.*s%s", (int)folder, c->path, location);
    bool inside = !tp__os_is_absolute(location) && !strchr(location, '\\');
    if (!file) return tp__importer_nomem(c), -1;
    for (const char *p = location; inside && *p; p += strcspn(p, "/"), p += *p == '/')
        if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || p[2] == 0)) inside = false;
    const int fd = inside ? tp__os_open_inside(file, folder) : -1;
    if (fd >= 0 && tp__os_fstat(fd, is) == 0 && is->kind == TP__OS_FILE) return fd;
    const bool is_refused = inside && fd < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP &&
                            errno != EMLINK && errno != ENXIO; /* the system has it, and does not open it */
    if (is_refused)
        tp__importer_fail(c, name, TP_ERR_IO, "its data in '%s' cannot be read: %s", location, tp__os_error());
    else
        tp__importer_fail(c, name, TP_ERR_FORMAT,
                          "its data should lie in '%s', which is no plain file in the model's folder", location);
    if (fd >= 0) tp__os_close(fd);
    return -1;
}
/* Reads n bytes of an open file, from `offset` on: one file often has the data of all tensors. */
static tp_status tp__importer_read_part(tp__importer *c, const char *name, const char *location, int fd, int64_t offset,
                                        int64_t n, char **data, size_t *size)
{
    int64_t got = -1;
    *data = (uint64_t)n < SIZE_MAX ? (char *)tp_malloc((size_t)n + 1) : NULL;
    if (!*data) return tp__importer_nomem(c);
    *size = (size_t)n;
    got = tp__os_read_at(fd, *data, *size, offset);
    if (got == n) return TP_OK;
    tp__importer_fail(c, name, TP_ERR_IO, "its data in '%s' cannot be read: %s", location,
                      got < 0 ? tp__os_error() : "the file ends too soon");
    tp_free(*data);
    *data = NULL;
    return c->status;
}
/* The limit of the memory grows with each file of data. False after an error. */
static bool tp__importer_has_file(tp__importer *c, const char *location, const tp__os_info *is)
{
    /* one file may have many paths, "w.bin" and "./w.bin"; number 0: this system has no numbers of files */
    const char *key = !is->number ? location
                                  : tp_arena_printf(&c->mem, "%llx %llx", (unsigned long long)is->device,
                                                    (unsigned long long)is->number);
    if (key && tp__map_get(&c->files, key)) return true;
    if (!key || !tp__map_put(&c->files, key, c)) return tp__importer_nomem(c), false;
    if (!c->options || !(c->options->max_memory > 0)) c->max_memory += TP__IMPORT_SHARE * (double)is->size;
    return true;
}
static tp_status tp__importer_external(tp__importer *c, const char *name, tp__pb msg, char **data, size_t *size)
{
    const char *location = NULL, *wrong_key = NULL, *wrong_value = "";
    int64_t offset = 0, length = -1;
    bool wrong_length = false;
    tp__pb_field f, e;
    while (tp__pb_next(&msg, &f)) {
        if (f.number != 13 || f.wire != 2) continue;
        const char *key = "", *value = "";
        while (tp__pb_next(&f.sub, &e)) {
            if (e.number == 1 && e.wire == 2) key = tp__importer_string(c, e.sub);
            if (e.number == 2 && e.wire == 2) value = tp__importer_string(c, e.sub);
        }
        const bool is_offset = strcmp(key, "offset") == 0, is_length = strcmp(key, "length") == 0;
        if ((is_offset || is_length) && !tp__importer_is_number(value)) wrong_key = key, wrong_value = value;
        if (strcmp(key, "location") == 0) location = value;
        else if (is_offset) offset = (int64_t)strtoll(value, NULL, 10);
        else if (is_length) {
            length = (int64_t)strtoll(value, NULL, 10);
            wrong_length = length < 0;
        }
    }
    if (!location || !location[0] || !c->path)
        return tp__importer_fail(c, name, TP_ERR_FORMAT, "its data lies in another file, which %s",
                                 c->path ? "is not named" : "a model from memory does not have");
    if (wrong_key)
        return tp__importer_fail(c, name, TP_ERR_FORMAT,
                                 "the %s of its data in another file is '%s', which is no number", wrong_key,
                                 wrong_value);
    tp__os_info is;
    const int fd = tp__importer_open(c, name, location, &is);
    if (fd < 0) return c->status;
    const int64_t all = (int64_t)is.size, n = length >= 0 ? length : all - offset;
    if (wrong_length || offset < 0 || offset > all || n > all - offset)
        tp__importer_fail(c, name, TP_ERR_FORMAT, "its data is %lld bytes from byte %lld of '%s' on, which has %lld",
                          (long long)length, (long long)offset, location, (long long)all);
    else if (tp__importer_has_file(c, location, &is) && tp__importer_has_room(c, name, (double)n))
        tp__importer_read_part(c, name, location, fd, offset, n, data, size);
    tp__os_close(fd);
    return c->status;
}

/* -- tensors (TensorProto) */
/* Reads the elements of a tensor into t: `item` bytes each from `raw`, or, if that is NULL, from the field for their type. Returns how many
 * there are. */
static int64_t tp__importer_elements(tp__pb msg, const tp__pb *raw, int64_t elem, int item, tp_tensor *t)
{
    /* the field that holds the numbers, and its wire type */
    const int number = elem == 1 ? 4 : elem == 11 ? 10 : elem == 7 ? 7 : 5, wire = elem == 1 ? 5 : elem == 11 ? 1 : 0;
    const tp_dtype dtype = t->dtype;
    const int64_t n = tp_tensor_size(t);
    tp__pb pack = {NULL, NULL, false};
    int64_t i = 0;
    uint64_t v;
    for (; i < n; i++) {
        if (raw) {
            v = 0;
            for (int k = 0; k < item; k++) v |= (uint64_t)raw->at[i * item + k] << (8 * k);
        } else if (!tp__pb_number(&msg, &pack, number, wire, &v)) break;
        uint8_t *to = (uint8_t *)t->data + i * (int64_t)tp_dtype_size(dtype);
        if (elem == 10 || elem == 16) {
            const float x = elem == 10 ? tp_f16_to_f32((uint16_t)v) : tp_bf16_to_f32((uint16_t)v);
            memcpy(to, &x, sizeof x);
        } else if (dtype == TP_BOOL) *to = v != 0;
        else if (dtype == TP_U8) *to = (uint8_t)v;
        else if (item == 4) {
            const uint32_t x = (uint32_t)v;
            memcpy(to, &x, sizeof x);
        } else memcpy(to, &v, sizeof v);
    }
    return i;
}
static tp_status tp__importer_tensor(tp__importer *c, tp__pb msg, tp_tensor *t, const char **name_out, const char *node)
{
    tp__pb_field f;
    tp__pb m = msg, raw = {NULL, NULL, false}, pack = {NULL, NULL, false};
    tp_shape shape;
    int64_t elem = 0, n = 1;
    bool external = false, has_raw = false;
    uint64_t v;
    const char *name = node ? node : "?";
    memset(&shape, 0, sizeof shape);
    while (tp__pb_next(&m, &f)) {
        if (f.number == 2 && f.wire == 0) elem = (int64_t)f.value;
        else if (f.number == 8 && f.wire == 2) {
            name = tp__importer_string(c, f.sub);
            if (name_out) *name_out = name;
        } else if (f.number == 9 && f.wire == 2) raw = f.sub, has_raw = true;
        else if (f.number == 14 && f.wire == 0) external = f.value == 1;
    }
    if (m.bad) return tp__importer_fail(c, NULL, TP_ERR_FORMAT, "the tensor '%s' is damaged", name);
    for (m = msg; tp__pb_number(&m, &pack, 1, 0, &v);) {
        if (shape.ndim == TP_MAX_DIMS)
            return tp__importer_fail(c, NULL, TP_ERR_UNSUPPORTED, "the tensor '%s' has more than %d dimensions", name,
                                     TP_MAX_DIMS);
        if (v > INT64_MAX || (v > 0 && n > TP__IMPORT_LAST / (int64_t)v))
            return tp__importer_fail(c, NULL, TP_ERR_FORMAT, "the tensor '%s' has impossible dimensions", name);
        if (v > 0) n *= (int64_t)v; /* zeros are counted separately, so that a later dimension cannot overflow n */
        shape.dim[shape.ndim++] = (int64_t)v;
    }
    const tp_dtype dtype = tp__import_dtype(elem);
    const int item = elem == 10 || elem == 16 ? 2 : (int)tp_dtype_size(dtype);
    n = tp_shape_size(&shape);
    if (!dtype)
        return tp__importer_fail(c, NULL, TP_ERR_UNSUPPORTED, "the tensor '%s' is %s, which tp does not have", name,
                                 tp__import_dtype_name(elem));
    char *file = NULL;
    if (external) {
        size_t size = 0;
        if (tp__importer_external(c, name, msg, &file, &size) != TP_OK) return c->status;
        raw.at = (const uint8_t *)file;
        raw.end = raw.at + size;
        has_raw = true;
    }
    if (has_raw ? raw.end - raw.at != n * item : n > msg.end - msg.at) {
        tp_free(file);
        return tp__importer_fail(c, NULL, TP_ERR_FORMAT, "the tensor '%s' has %lld bytes for %lld elements of %s", name,
                                 (long long)(has_raw ? raw.end - raw.at : msg.end - msg.at), (long long)n,
                                 tp__import_dtype_name(elem));
    }
    if (!tp__importer_has_room(c, name, (double)n * (double)tp_dtype_size(dtype))) {
        tp_free(file);
        return c->status;
    }
    if (tp_tensor_resize(t, dtype, shape) != TP_OK) {
        tp_free(file);
        return tp__importer_nomem(c);
    }
    const int64_t i = tp__importer_elements(msg, has_raw ? &raw : NULL, elem, item, t);
    tp_free(file);
    if (i < n)
        return tp__importer_fail(c, NULL, TP_ERR_FORMAT, "the tensor '%s' has %lld of its %lld elements", name,
                                 (long long)i, (long long)n);
    return TP_OK;
}

/* -- values as nodes */

static tp_node *tp__importer_node(tp__importer *c, tp__import_value *v, const char *node, const char *op)
{
    tp_graph *g = c->graph[c->graph_index];
    if (v->node[c->graph_index]) return v->node[c->graph_index];
    if (v->partial) {
        tp__importer_fail(c, node, TP_ERR_UNSUPPORTED,
                          "%s%sthe value '%s' depends on a dimension that is not known when the graph is built; %s", op,
                          op[0] ? ": " : "", v->name, tp__importer_missing_in(c, &v->known));
        return tp_poison(g);
    }
    return v->node[c->graph_index] = v->is_known ? tp_constant(g, &v->known) : tp_poison(g);
}

static tp_node *tp__import_node_input(tp__import_node *n, int i)
{
    if (i < n->n_in && n->in[i]) return tp__importer_node(n->importer, n->in[i], n->name, n->op);
    tp__on_fail(n, TP_ERR_FORMAT, "%s lacks its input %d", n->op, i);
    return tp_poison(n->importer->graph[n->importer->graph_index]);
}
static bool tp__import_node_has(const tp__import_node *n, int i) { return i < n->n_in && n->in[i]; }
static const tp_tensor *tp__import_node_known(const tp__import_node *n, int i)
{
    return tp__import_node_has(n, i) && n->in[i]->is_known ? &n->in[i]->known : NULL;
}
/* Returns the value of an input that must be known at import time. */
static const tp_tensor *tp__import_node_need(tp__import_node *n, int i)
{
    const tp_tensor *t = tp__import_node_known(n, i);
    if (!t && tp__import_node_has(n, i))
        tp__on_fail(n, TP_ERR_UNSUPPORTED,
                    "the input '%s' of %s must be known when the graph is built; give it as a constant in .inputs",
                    n->in[i]->name, n->op);
    else if (!t) tp__on_fail(n, TP_ERR_FORMAT, "%s lacks its input %d", n->op, i);
    return t;
}
/* Returns the value of an input that must be a single number, known at import time. */
static const tp_tensor *tp__import_node_known_number(tp__import_node *n, int i)
{
    const tp_tensor *t = tp__import_node_need(n, i);
    if (t && tp_tensor_size(t) == 1 && !n->in[i]->partial) return t;
    if (t)
        tp__on_fail(n, TP_ERR_FORMAT,
                    "the input '%s' of %s should be a single number, known when the graph is built%s%s", n->in[i]->name,
                    n->op, n->in[i]->partial ? "; " : "",
                    n->in[i]->partial ? tp__importer_missing_in(n->importer, t) : "");
    return NULL;
}
static int64_t tp__known_int(const tp_tensor *t, int64_t i)
{
    if (t->dtype == TP_I64) return ((const int64_t *)t->data)[i];
    if (t->dtype == TP_I32) return ((const int32_t *)t->data)[i];
    return tp__float_to_int(tp_tensor_get(t, i), INT64_MIN, INT64_MAX);
}

static void tp__import_node_set_output(tp__import_node *n, int i, tp_node *y)
{
    if (i < n->n_out) n->made[i] = y;
}
static bool tp__import_node_output_used(const tp__import_node *n, int i) { return i < n->n_out && n->out[i][0]; }
static bool tp__pb_is_text(tp__pb s, const char *text)
{
    const size_t n = (size_t)(s.end - s.at);
    return n == strlen(text) && (n == 0 || memcmp(s.at, text, n) == 0);
}
/* Counts what a GraphProto reads: the inputs of its nodes, the names that graphs in it read, and its outputs. Only inputs of nodes of the
 * model's own graph, at depth 0, add to a name's number. */
static void tp__importer_count_reads(tp__importer *c, tp__pb graph, int depth)
{
    tp__pb_field m, e, a;
    c->reads_all |= depth > 30; /* such graphs are refused elsewhere */
    while (c->status == TP_OK && depth <= 30 && tp__pb_next(&graph, &m))
        for (tp__pb p = m.sub; (m.number == 1 || m.number == 12) && m.wire == 2 && tp__pb_next(&p, &e);) {
            if (e.number == 1 && e.wire == 2) {
                const char *name = tp__importer_string(c, e.sub);
                int *reads = (int *)tp__map_get(&c->reads, name);
                if (!reads) {
                    reads = (int *)tp__importer_alloc(c, 1, sizeof *reads);
                    if (!reads) return;
                    *reads = 0;
                    if (!tp__map_put(&c->reads, name, reads)) tp__importer_nomem(c);
                }
                *reads += depth == 0 && m.number == 1 && *reads < INT_MAX;
            }
            for (tp__pb q = e.sub; m.number == 1 && e.number == 5 && e.wire == 2 && tp__pb_next(&q, &a);)
                if ((a.number == 6 || a.number == 11) && a.wire == 2) tp__importer_count_reads(c, a.sub, depth + 1);
        }
}
/* How many inputs of nodes have this name; -1 if nothing reads it. What the whole file reads is counted at the first call. */
static int tp__importer_reads(tp__importer *c, const char *name)
{
    tp__pb_field f;
    if (!c->has_reads)
        for (tp__pb p = c->file; c->status == TP_OK && tp__pb_next(&p, &f);) {
            /* fields of a ModelProto: 7 the graph, 25 a function, where names are local */
            if (f.number == 25) c->reads_all = true;
            if (f.number == 7 && f.wire == 2) tp__importer_count_reads(c, f.sub, 0);
        }
    c->has_reads = true;
    const int *reads = (const int *)tp__map_get(&c->reads, name);
    return reads ? *reads : -1;
}
/* Whether another node or the caller reads output i; in a model with functions, where names are local, whether it has a name. */
static bool tp__import_node_output_read(const tp__import_node *n, int i)
{
    return tp__import_node_output_used(n, i) &&
           (tp__importer_reads(n->importer, n->out[i]) >= 0 || n->importer->reads_all);
}
/* Whether the import is for training, as far as the tower around it tells: true where there is none. */
static bool tp__import_trains(const tp__import_node *n)
{
    const tp_tower_context *tower = tp_current_tower_context(n->importer->graph[0]);
    return !tower || tower->is_training;
}
/* Creates the tensor of an output whose value the builder computes. NULL after an error. */
static tp_tensor *tp__import_node_value(tp__import_node *n, int i, tp_dtype dtype, tp_shape shape)
{
    if (tp_shape_size(&shape) > TP__IMPORT_MAX) {
        tp__on_fail(n, TP_ERR_UNSUPPORTED, "%s gives more than %lld numbers", n->op, (long long)TP__IMPORT_MAX);
        return NULL;
    }
    const double count = (double)tp_shape_size(&shape);
    if (!tp__import_node_spend(n, count, count * (double)tp_dtype_size(dtype))) return NULL;
    if (tp_tensor_resize(&n->value[i], dtype, shape) != TP_OK) {
        tp__importer_nomem(n->importer);
        return NULL;
    }
    n->set[i] = true;
    return &n->value[i];
}

/* -- layouts: the file's images are (N,C,H,W); tp's kernels are fast for (N,H,W,C). An operator on images is built for channels
 * last, and a transpose to channels first follows, which is the value of the file. The next operator on images takes the
 * transpose's input instead. What no operator reads is not computed. All this holds for three to four dimensions. */

/* Where axis d of an image with channels first lies in the same image with channels last; and the reverse. */
static int tp__axis_in_last(int d, int ndim) { return d == 0 ? 0 : d == 1 ? ndim - 1 : d - 1; }
static int tp__axis_in_first(int d, int ndim) { return d == 0 ? 0 : d == ndim - 1 ? 1 : d + 1; }
static int tp__import_node_place(const tp__import_node *n, int axis, int ndim)
{
    return n->channels_last ? tp__axis_in_last(axis, ndim) : axis;
}
static int tp__import_node_file_axis(const tp__import_node *n, int axis, int ndim)
{
    return n->channels_last ? tp__axis_in_first(axis, ndim) : axis;
}
/* Returns y if x is the transpose of y that has its axis d at place[d](d); else NULL. */
static tp_node *tp__transposed_from(const tp_node *x, int (*place)(int d, int ndim))
{
    const int nd = x->shape.ndim;
    int perm[TP_MAX_DIMS];
    if (nd < 3 || nd > 4 || x->op->row != &tp__op_transpose) return NULL;
    tp__permutation((const tp__transpose_attrs *)x->op->attrs, nd, perm);
    for (int d = 0; d < nd; d++)
        if (perm[d] != place(d, nd)) return NULL;
    return x->op->in[0];
}
static tp_node *tp__transposed_by(tp_node *x, int (*place)(int d, int ndim))
{
    int perm[TP_MAX_DIMS];
    for (int d = 0; d < x->shape.ndim; d++) perm[d] = place(d, x->shape.ndim);
    return tp_transpose(x, perm, x->shape.ndim);
}
/* x with its channels last, if the graph has it; NULL if not. */
static tp_node *tp__has_nhwc(const tp_node *x) { return tp__transposed_from(x, tp__axis_in_last); }
static tp_node *tp__nhwc(tp_node *x)
{
    tp_node *y = tp__has_nhwc(x);
    return y ? y : tp__transposed_by(x, tp__axis_in_first);
}
static tp_node *tp__nchw(tp_node *x)
{
    tp_node *y = tp__transposed_from(x, tp__axis_in_first);
    return y ? y : tp__transposed_by(x, tp__axis_in_last);
}
/* First of the axes H and W (D, H and W) of an image, and its axis of channels. */
static int tp__import_node_space(const tp__import_node *n) { return n->channels_last ? 1 : 2; }
static int tp__import_node_channels(const tp__import_node *n, const tp_node *x)
{
    return n->channels_last ? x->shape.ndim - 1 : 1;
}

/* -- attributes */
static const tp__pb *tp__import_node_attr(const tp__import_node *n, const char *name)
{
    for (int i = 0; i < n->n_attr; i++)
        if (strcmp(n->attr[i].name, name) == 0) return &n->attr[i].msg;
    return NULL;
}
/* Whether the attribute has the type whose values are in field `number`. Newer files state the type, and may omit zeros
 * and empty lists. Older files must have only that field. */
static bool tp__import_node_kind(tp__import_node *n, const char *name, int number)
{
    static const int type_of[] = {0, 0, 1, 2, 3, 4, 5, 6, 7, 8}; /* the fields from 2 (a float) to 9 (strings) */
    const tp__pb *a = tp__import_node_attr(n, name);
    tp__pb_field e;
    bool valid = true;
    if (!a) return false;
    for (tp__pb m = *a; tp__pb_next(&m, &e);)
        if (e.number == 20) valid &= e.wire == 0 && e.value == (uint64_t)type_of[number];
        else if (e.number != 1 && e.number != 13 && e.number != number) valid = false;
    if (!valid) tp__on_fail(n, TP_ERR_FORMAT, "the attribute '%s' is of another kind than %s takes", name, n->op);
    return valid;
}
static bool tp__import_node_field(tp__import_node *n, const char *name, int number, int wire, tp__pb_field *f)
{
    tp__pb_field e;
    memset(f, 0, sizeof *f);
    if (!tp__import_node_kind(n, name, number)) return false;
    for (tp__pb m = *tp__import_node_attr(n, name); tp__pb_next(&m, &e);)
        if (e.number == number && e.wire == wire) *f = e;
    return true;
}
static int64_t tp__import_node_int(tp__import_node *n, const char *name, int64_t otherwise)
{
    tp__pb_field f;
    return tp__import_node_field(n, name, 3, 0, &f) ? (int64_t)f.value : otherwise;
}
static float tp__import_node_float(tp__import_node *n, const char *name, float otherwise)
{
    tp__pb_field f;
    return tp__import_node_field(n, name, 2, 5, &f) ? tp__bits_f32(f.value) : otherwise;
}
static const char *tp__import_node_string(tp__import_node *n, const char *name, const char *otherwise)
{
    tp__pb_field f;
    return tp__import_node_field(n, name, 4, 2, &f) ? tp__importer_string(n->importer, f.sub) : otherwise;
}
/* Reads a text that is one of `choices`, which spaces separate; an empty text is the default. Another one is an error: a newer
 * version of the operator may mean something else by it. */
static const char *tp__import_node_choice(tp__import_node *n, const char *name, const char *otherwise,
                                          const char *choices)
{
    const char *text = tp__import_node_string(n, name, otherwise);
    const size_t length = strlen(text);
    if (!length) return otherwise;
    for (const char *word = choices; *word; word += strspn(word, " ")) {
        const size_t size = strcspn(word, " ");
        if (size == length && strncmp(word, text, size) == 0) return text;
        word += size;
    }
    tp__on_fail(n, TP_ERR_UNSUPPORTED, "%s with %s = '%s' cannot be expressed: it is one of %s", n->op, name, text,
                choices);
    return otherwise;
}
/* Refuses a number of the file that would be taken for an unknown size. */
static void tp__import_node_no_size(tp__import_node *n, int64_t v)
{
    tp__on_fail(n, TP_ERR_FORMAT, "%s cannot take a list with the number %lld", n->op, (long long)v);
}
/* Reads a list of integers from the attribute or, in newer files, from input i (-1: no such input). Returns their number, or -1
 * if there is no list. */
#define TP__ON_INTS 64
static int tp__import_node_ints(tp__import_node *n, const char *name, int i, int64_t *to)
{
    const tp__pb *a = tp__import_node_attr(n, name);
    int count = 0;
    if (a) {
        tp__pb m = *a, pack = {NULL, NULL, false};
        uint64_t v;
        if (!tp__import_node_kind(n, name, 8)) return -1;
        while (tp__pb_number(&m, &pack, 8, 0, &v)) {
            if (count == TP__ON_INTS)
                return tp__on_fail(n, TP_ERR_UNSUPPORTED, "%s: the list '%s' is too long", n->op, name), -1;
            to[count++] = (int64_t)v;
        }
        if (m.bad) return tp__on_fail(n, TP_ERR_FORMAT, "%s: the list '%s' is damaged", n->op, name), -1;
        for (int k = 0; k < count; k++)
            if (tp__is_any(to[k])) return tp__import_node_no_size(n, to[k]), -1;
        return count;
    }
    if (i < 0 || !tp__import_node_has(n, i)) return -1;
    const tp_tensor *t = tp__import_node_need(n, i);
    if (!t) return -1;
    const int64_t size = tp_tensor_size(t);
    if (n->in[i]->partial && !(n->row->flags & TP__IMPORT_SHAPE))
        return tp__on_fail(n, TP_ERR_UNSUPPORTED,
                           "the input '%s' of %s depends on a dimension that is not known when the graph is built; %s",
                           n->in[i]->name, n->op, tp__importer_missing_in(n->importer, t)),
               -1;
    if (size > TP__ON_INTS || (t->dtype != TP_I64 && t->dtype != TP_I32))
        return tp__on_fail(n, TP_ERR_FORMAT, "the input '%s' of %s should be a short list of integers", n->in[i]->name,
                           n->op),
               -1;
    for (; count < size; count++) to[count] = tp__known_int(t, count);
    for (int k = 0; k < count && !n->in[i]->partial; k++)
        if (tp__is_any(to[k])) return tp__import_node_no_size(n, to[k]), -1;
    return count;
}
/* Converts an axis of the file to one of the graph: counted from 0, and in the layout in which the operator is built. */
static int tp__import_node_axis(tp__import_node *n, int64_t axis, int ndim)
{
    if (axis >= -ndim && axis < ndim) return tp__import_node_place(n, (int)(axis < 0 ? axis + ndim : axis), ndim);
    tp__on_fail(n, TP_ERR_FORMAT, "%s has axis %lld of a value with %d dimensions", n->op, (long long)axis, ndim);
    return 0;
}
/* Converts axes to flags, one per dimension; false after an error. */
static bool tp__import_node_axes(tp__import_node *n, const int64_t *axes, int count, int ndim, bool *flag)
{
    memset(flag, 0, TP_MAX_DIMS * sizeof *flag);
    for (int i = 0; i < count; i++) {
        const int a = tp__import_node_axis(n, axes[i], ndim);
        if (n->importer->status != TP_OK) return false;
        if (flag[a])
            return tp__on_fail(n, TP_ERR_FORMAT, "%s names axis %d twice", n->op,
                               tp__import_node_file_axis(n, a, ndim)),
                   false;
        flag[a] = true;
    }
    return true;
}
/* Reports that dimension d, in the file's layout, of the input x must be known. */
static int64_t tp__import_node_unknown_dim(tp__import_node *n, const tp_node *x, int d)
{
    if (!tp_is_poison(x))
        tp__on_fail(n, TP_ERR_UNSUPPORTED, "%s needs to know dimension %d of its input; %s", n->op, d,
                    tp__importer_missing(n->importer, x, d));
    return 1;
}
/* Returns dimension d of a weight w, which must be known. */
static int64_t tp__import_weight_dim(tp__import_node *n, const tp_node *w, int d)
{
    return d < w->shape.ndim && w->shape.dim[d] >= 0 ? w->shape.dim[d] : tp__import_node_unknown_dim(n, w, d);
}
/* Returns dimension d, which must be known, of an x in the layout in which the operator is built. */
static int64_t tp__import_node_dim(tp__import_node *n, const tp_node *x, int d)
{
    const tp_node *of_file = n->channels_last ? tp__transposed_from(x, tp__axis_in_first) : NULL;
    if (d >= 0 && d < x->shape.ndim && x->shape.dim[d] >= 0) return x->shape.dim[d];
    return tp__import_node_unknown_dim(n, of_file ? of_file : x, tp__import_node_file_axis(n, d, x->shape.ndim));
}
static bool tp__import_node_rank(tp__import_node *n, const tp_node *x, int min_rank, int max_rank)
{
    if (x->shape.ndim >= min_rank && x->shape.ndim <= max_rank) return true;
    if (!tp_is_poison(x))
        tp__on_fail(n, TP_ERR_UNSUPPORTED, "%s of a value with %d dimensions cannot be expressed", n->op,
                    x->shape.ndim);
    return false;
}

/* -- small functions that builders share */
static tp_node *tp__constant_like(const tp_node *x, double v) { return tp_const_as(tp_node_graph(x), x->dtype, v); }
static tp_shape tp__shape1(int64_t n) { return tp_make_shape_n(1, &n); }
/* Moves axis `from` to position `to`; the other axes keep their order. */
static tp_node *tp__move_axis(tp_node *x, int from, int to)
{
    int perm[TP_MAX_DIMS], k = 0;
    if (from == to || tp_is_poison(x)) return x;
    for (int d = 0; d < x->shape.ndim; d++) {
        k += k == from;
        perm[d] = d == to ? from : k++;
    }
    return tp_transpose(x, perm, x->shape.ndim);
}
/* Gathers along any axis. indices is a vector. */
static tp_node *tp__take(tp_node *x, tp_node *indices, int axis)
{
    return tp__move_axis(tp_gather(tp__move_axis(x, axis, 0), indices), 0, axis);
}
static tp_node *tp__index_list(tp__import_node *n, const int64_t *index, int64_t count)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    tp_tensor_view(&t, TP_I64, tp__shape1(count), index);
    return tp_constant(n->importer->graph[n->importer->graph_index], &t);
}
/* Slices an axis: `count` elements from `begin` on; count -1: to the end. */
static tp_node *tp__slice_from(tp_node *x, int axis, int64_t begin, int64_t count)
{
    int64_t from[TP_MAX_DIMS] = {0}, size[TP_MAX_DIMS];
    for (int d = 0; d < TP_MAX_DIMS; d++) size[d] = -1;
    from[axis] = begin;
    size[axis] = count;
    return tp_slice(x, from, size);
}
/* Reshapes x: adds leading dimensions of 1 until there are `ndim` dimensions, and `behind` trailing ones. */
static tp_node *tp__with_ones(tp_node *x, int ndim, int behind)
{
    while (x->shape.ndim < ndim && !tp_is_poison(x)) x = tp_expand_dims(x, 0);
    for (; behind > 0 && !tp_is_poison(x); behind--) x = tp_expand_dims(x, x->shape.ndim);
    return x;
}
static tp_node *tp__cast_if_needed(tp_node *x, tp_dtype d)
{
    return x->dtype == d || tp_is_poison(x) ? x : tp_cast(x, d);
}
/* Casts uint8 and bool to int32, for which arithmetic is defined. */
static tp_node *tp__bytes_to_int32(tp_node *x)
{
    return x->dtype == TP_U8 || x->dtype == TP_BOOL ? tp__cast_if_needed(x, TP_I32) : x;
}

/* ==== >>operators ====================================================================================== */
/* One builder per operator of ONNX: it reads its inputs and attributes and sets its outputs. After an error a builder returns;
 * the nodes it has already built are not used. */

/* -- element-wise */

static void tp__import_map(
    tp__import_node *n) /* Builds an operator by a function for one or two inputs, which the row names. */
{
    const bool bytes = n->row->flags & TP__IMPORT_BYTES;
    tp_node *a = tp__import_node_input(n, 0), *b = n->row->binary ? tp__import_node_input(n, 1) : NULL;
    const tp_dtype d = a->dtype;
    if (b && b->dtype != d && !tp_is_poison(b) && !tp_is_poison(a)) {
        tp__on_fail(n, TP_ERR_DTYPE, "%s of %s and %s", n->op, tp_dtype_name(d), tp_dtype_name(b->dtype));
        return;
    }
    if (bytes) a = tp__bytes_to_int32(a), b = b ? tp__bytes_to_int32(b) : NULL;
    tp_node *y = b ? n->row->binary(a, b) : n->row->unary(a);
    tp__import_node_set_output(n, 0, bytes && y->dtype == TP_I32 ? tp__cast_if_needed(y, d) : y);
}

static tp_node *tp__divide(tp_node *a, tp_node *b) /* integer division rounds toward zero */
{
    if (a->dtype != TP_I32 && a->dtype != TP_I64) return tp_div(a, b);
    tp_node *q = tp_floordiv(a, b), *zero = tp__constant_like(a, 0), *rest = tp_not_equal(tp_mul(q, b), a);
    tp_node *signs_differ = tp__cast_if_needed(tp_less(b, zero), TP_I32);
    signs_differ = tp_not_equal(tp__cast_if_needed(tp_less(a, zero), TP_I32), signs_differ);
    return tp_add(q, tp__cast_if_needed(tp_logical_and(rest, signs_differ), a->dtype));
}
static tp_node *tp__xor(tp_node *a, tp_node *b)
{
    b = tp__bytes_to_int32(b);
    return tp_not_equal(tp__bytes_to_int32(a), b);
}
static tp_node *tp__softsign(tp_node *x) { return tp_div(x, tp_affine(tp_abs(x), 1.0f, 1.0f)); }
static tp_node *tp__hard_swish(tp_node *x)
{
    return tp_mul(x, tp__clip_flat(tp__affine_of(x, 1.0 / 6.0, 0.5), 0.0f, 1.0f));
}
static tp_node *tp__mish(tp_node *x) { return tp_mul(x, tp_tanh(tp_softplus(x))); }
static tp_node *tp__is_nan(tp_node *x) { return tp_not_equal(x, x); }
static tp_node *tp__tan(tp_node *x)
{
    tp_node *c = tp_cos(x);
    return tp_div(tp_sin(x), c);
}
/* e^(sign x) / 2, which is finite where e^x is not, as the product of two roots; so is its derivative, because each root has an
 * argument of its own, whose gradient is halved before they are added. */
static tp_node *tp__half_exp(tp_node *x, float sign)
{
    tp_node *root = tp_exp(tp_affine(x, 0.5f * sign, 0.0f));
    tp_node *half = tp_affine(tp_exp(tp_affine(x, 0.5f * sign, 0.0f)), 0.5f, 0.0f);
    return tp_mul(root, half);
}
static tp_node *tp__cosh(tp_node *x)
{
    tp_node *other = tp__half_exp(x, -1.0f);
    return tp_add(tp__half_exp(x, 1.0f), other);
}
/* x (c[0] + c[1] x^2 + c[2] x^4 + ..), for functions that lose their digits or have no derivative near 0 in another form */
static tp_node *tp__odd_series(tp_node *x, const double *c, int n)
{
    tp_node *square = tp_square(x), *series = tp__affine_of(square, c[n - 1], c[n - 2]);
    for (int i = n - 3; i >= 0; i--) series = tp__affine_of(tp_mul(series, square), 1, c[i]);
    return tp_mul(x, series);
}
static tp_node *tp__sinh(tp_node *x) /* by its series below 1 */
{
    double c[9] = {1};
    tp_node *a = tp_abs(x), *zero = tp__constant_like(x, 0), *is_small = tp_less(a, tp__constant_like(x, 1));
    for (int i = 1; i < TP_COUNT(c); i++) c[i] = c[i - 1] / (2.0 * i * (2.0 * i + 1));
    tp_node *other = tp__half_exp(x, -1.0f), *far = tp_sub(tp__half_exp(x, 1.0f), other);
    return tp_select(is_small, tp__odd_series(tp_select(is_small, x, zero), c, TP_COUNT(c)), far);
}
/* asinh by its series below 1/8, whose derivative at 0 is 1; by ln(a + sqrt(a^2 + 1)) up to 1, a = |x|; beyond, where a^2 may be
 * infinite, by ln a + ln(1 + sqrt(1 + 1/a^2)). Each part gets arguments of its own range: no gradient of the others is NaN. */
static tp_node *tp__asinh(tp_node *x)
{
    double c[8] = {1}, t = 1; /* asinh(x) / x as a polynomial of x^2 */
    tp_node *a = tp_abs(x), *one = tp__constant_like(x, 1), *zero = tp__constant_like(x, 0);
    tp_node *is_small = tp_less(a, tp__constant_like(x, 0.125)), *is_large = tp_greater(a, one);
    for (int i = 1; i < TP_COUNT(c); i++) {
        t *= -(2.0 * i - 1) / (2.0 * i);
        c[i] = t / (2.0 * i + 1);
    }
    tp_node *series = tp__odd_series(tp_select(is_small, x, zero), c, TP_COUNT(c));
    tp_node *mid = tp_select(is_large, one, a);
    mid = tp_ln(tp_add(mid, tp_sqrt(tp_affine(tp_square(mid), 1.0f, 1.0f))));
    tp_node *far = tp_select(is_large, a, one), *root = tp_sqrt(tp_affine(tp_square(tp_div(one, far)), 1.0f, 1.0f));
    root = tp_ln(tp_affine(root, 1.0f, 1.0f));
    far = tp_add(tp_ln(far), root);
    tp_node *y = tp_select(is_large, far, mid);
    return tp_select(is_small, series, tp_mul(tp_sign(x), y));
}
static tp_node *tp__acosh(tp_node *x) /* 2 asinh(sqrt((x - 1) / 2)) */
{
    return tp_affine(tp__asinh(tp_sqrt(tp_affine(x, 0.5f, -0.5f))), 2.0f, 0.0f);
}
static tp_node *tp__atanh(tp_node *x) /* by its series below 1/8 */
{
    double c[9];
    tp_node *a = tp_abs(x), *zero = tp__constant_like(x, 0), *is_small = tp_less(a, tp__constant_like(x, 0.125));
    for (int i = 0; i < TP_COUNT(c); i++) c[i] = 1 / (2.0 * i + 1);
    tp_node *below = tp_affine(x, -1.0f, 1.0f), *far = tp_div(tp_affine(x, 1.0f, 1.0f), below);
    far = tp_affine(tp_ln(far), 0.5f, 0.0f);
    return tp_select(is_small, tp__odd_series(tp_select(is_small, x, zero), c, TP_COUNT(c)), far);
}

static void tp__import_mod(tp__import_node *n)
{
    tp_node *a = tp__import_node_input(n, 0), *b = tp__import_node_input(n, 1);
    const tp_dtype d = a->dtype;
    a = tp__bytes_to_int32(a), b = tp__bytes_to_int32(b);
    tp_node *y;
    if (tp__import_node_int(n, "fmod", 0)) {
        y = tp_abs(b);
        y = tp_mod(tp_abs(a), y);
        y = tp_mul(tp_sign(a), y);
    } else y = tp_mod(a, b);
    tp__import_node_set_output(n, 0, tp__cast_if_needed(y, d));
}

static void tp__import_pow(tp__import_node *n) /* the result of Pow has the type of the base */
{
    tp_node *a = tp__import_node_input(n, 0), *b = tp__import_node_input(n, 1);
    const tp_dtype d = a->dtype;
    if (!tp_dtype_is_float(d) || a->dtype != b->dtype) {
        const tp_dtype compute_type = d == TP_F32 && b->dtype != TP_F64 ? TP_F32 : TP_F64;
        a = tp__cast_if_needed(a, compute_type), b = tp__cast_if_needed(b, compute_type);
    }
    tp__import_node_set_output(n, 0, tp__cast_if_needed(tp_pow(a, b), d));
}

static void tp__import_fold_left(tp__import_node *n) /* Builds Max, Min, Sum, Mean of any number of inputs. */
{
    tp_node *y = tp__import_node_input(n, 0);
    const tp_dtype d = y->dtype;
    y = tp__bytes_to_int32(y);
    for (int i = 1; i < n->n_in; i++) y = n->row->binary(y, tp__bytes_to_int32(tp__import_node_input(n, i)));
    if (n->op[1] == 'e')
        y = tp_div(y, tp__constant_like(y, n->n_in)); /* Mean: divides the sum by the number of inputs */
    tp__import_node_set_output(n, 0, tp__cast_if_needed(y, d));
}

/* The limit number i of Clip, as a number that is known; false: there is none. */
static bool tp__clip_limit(tp__import_node *n, int i, const char *name, float *limit)
{
    const tp_tensor *t = tp__import_node_known(n, i);
    if (t && t->dtype == TP_F32 && tp_tensor_size(t) == 1) *limit = ((const float *)t->data)[0];
    else if (!tp__import_node_has(n, i) && tp__import_node_attr(n, name)) *limit = tp__import_node_float(n, name, 0);
    else return false;
    return true;
}
static void tp__import_clip(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0), *y = tp__bytes_to_int32(x);
    float low, high;
    if (x->dtype == TP_F32 && tp__clip_limit(n, 1, "min", &low) && tp__clip_limit(n, 2, "max", &high) && low <= high) {
        tp__import_node_set_output(n, 0, tp_clip(x, low, high));
        return;
    }
    for (int i = 1; i <= 2; i++) {
        const char *name = i == 1 ? "min" : "max";
        tp_node *limit = tp__import_node_has(n, i)       ? tp__import_node_input(n, i)
                         : tp__import_node_attr(n, name) ? tp__constant_like(x, tp__import_node_float(n, name, 0))
                                                         : NULL;
        if (limit) y = (i == 1 ? tp_maximum : tp_minimum)(y, tp__bytes_to_int32(limit));
    }
    tp__import_node_set_output(n, 0, tp__cast_if_needed(y, x->dtype));
}

/* relu(x) + alpha elu(below), where `below` is 0 above 0 */
static tp_node *tp__elu_below(tp_node *x, tp_node *below, float alpha)
{
    below = tp_affine(tp_elu(below), alpha, 0.0f);
    return tp_add(tp_relu(x), below);
}

/* Builds activations with attributes. */
static void tp__import_activation(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0), *y = x;
    const char *op = n->op;
    if (strcmp(op, "LeakyRelu") == 0) y = tp_leaky_relu(x, tp__import_node_float(n, "alpha", 0.01f));
    else if (strcmp(op, "Elu") == 0) {
        const float alpha = tp__import_node_float(n, "alpha", 1.0f);
        y = alpha == 1.0f ? tp_elu(x) : tp__elu_below(x, tp_minimum(x, tp__constant_like(x, 0)), alpha);
    } else if (strcmp(op, "Celu") == 0) {
        const float alpha = tp__import_node_float(n, "alpha", 1.0f);
        y = tp__affine_of(tp_minimum(x, tp__constant_like(x, 0)), 1.0 / (double)alpha, 0.0);
        y = tp__elu_below(x, y, alpha);
    } else if (strcmp(op, "Selu") == 0) {
        const float alpha = tp__import_node_float(n, "alpha", 1.67326319217681884765625f),
                    gamma = tp__import_node_float(n, "gamma", 1.05070102214813232421875f);
        y = tp_affine(tp__elu_below(x, tp_minimum(x, tp__constant_like(x, 0)), alpha), gamma, 0.0f);
    } else if (strcmp(op, "HardSigmoid") == 0) {
        const float beta = tp__import_node_float(n, "beta", 0.5f);
        y = tp__clip_flat(tp_affine(x, tp__import_node_float(n, "alpha", 0.2f), beta), 0.0f, 1.0f);
    } else if (strcmp(op, "ThresholdedRelu") == 0) {
        tp_node *zeros = tp_zeros_like(x);
        y = tp_select(tp_greater(x, tp__constant_like(x, (double)tp__import_node_float(n, "alpha", 1.0f))), x, zeros);
    } else if (strcmp(op, "Shrink") == 0) {
        const double lambd = (double)tp__import_node_float(n, "lambd", 0.5f),
                     bias = (double)tp__import_node_float(n, "bias", 0.0f);
        tp_node *w = tp__bytes_to_int32(x), *zeros = tp_zeros_like(w), *moved = tp_sub(w, tp__constant_like(w, bias));
        y = tp_select(tp_greater(w, tp__constant_like(w, lambd)), moved, zeros);
        moved = tp_add(w, tp__constant_like(w, bias));
        y = tp__cast_if_needed(tp_select(tp_less(w, tp__constant_like(w, -lambd)), moved, y), x->dtype);
    } else if (strcmp(op, "Gelu") == 0)
        y = strcmp(tp__import_node_choice(n, "approximate", "none", "none tanh"), "tanh") == 0 ? tp_gelu_tanh(x)
                                                                                               : tp_gelu(x);
    else if (strcmp(op, "Swish") == 0) {
        const float alpha = tp__import_node_float(n, "alpha", 1.0f);
        y = alpha == 1.0f ? tp_silu(x) : tp_mul(x, tp_sigmoid(tp_affine(x, alpha, 0.0f)));
    } else if (strcmp(op, "SwiGLU") == 0) {
        tp_node *gate = tp__import_node_input(n, 1);
        y = tp_mul(tp_mul(x, tp_sigmoid(tp_affine(x, tp__import_node_float(n, "alpha", 1.0f), 0.0f))), gate);
    } else if (strcmp(op, "IsInf") == 0) {
        tp_node *up = tp_equal(x, tp__constant_like(x, HUGE_VAL)), *down = tp_equal(x, tp__constant_like(x, -HUGE_VAL)),
                *no = tp_less(x, x);
        if (!tp__import_node_int(n, "detect_negative", 1)) down = no;
        y = tp_logical_or(tp__import_node_int(n, "detect_positive", 1) ? up : no, down);
    }
    tp__import_node_set_output(n, 0, y);
}

static void tp__import_prelu(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0), *slope = tp__import_node_input(n, 1);
    if (n->importer->opset < 7 && slope->shape.ndim == 1 && slope->shape.dim[0] != 1 && x->shape.ndim > 2) {
        tp__on_fail(n, TP_ERR_UNSUPPORTED,
                    "before opset 7 PRelu has a slope for each channel: give the slope a 1 for each dimension that "
                    "follows the channels, and convert the model by onnx.version_converter");
        return;
    }
    tp_node *below = tp_mul(x, slope),
            *positive = tp_greater(x, tp__constant_like(x, 0)); /* as tp_prelu: dx at 0 is slope */
    tp__import_node_set_output(n, 0, tp_select(positive, x, below));
}

static void tp__import_where(tp__import_node *n)
{
    tp_node *c = tp__import_node_input(n, 0), *a = tp__import_node_input(n, 1), *b = tp__import_node_input(n, 2);
    b = tp__bytes_to_int32(b);
    tp__import_node_set_output(n, 0, tp__cast_if_needed(tp_select(c, tp__bytes_to_int32(a), b), a->dtype));
}

static tp_node *tp__cast_to(tp_node *x, int64_t elem)
{
    x = tp__cast_if_needed(x, tp__import_dtype(elem));
    return elem == 10 ? tp_cast(tp_cast(x, TP_F16), TP_F32) : elem == 16 ? tp_cast(tp_cast(x, TP_BF16), TP_F32) : x;
}
static void tp__import_cast(tp__import_node *n)
{
    const int64_t to = tp__import_node_int(n, "to", 0);
    if (!tp__import_dtype(to))
        tp__on_fail(n, TP_ERR_UNSUPPORTED, "Cast to %s, which tp does not have", tp__import_dtype_name(to));
    else tp__import_node_set_output(n, 0, tp__cast_to(tp__import_node_input(n, 0), to));
}
static void tp__import_cast_like(tp__import_node *n)
{
    const tp_dtype d = tp__import_node_input(n, 1)->dtype;
    tp__import_node_set_output(n, 0, tp__cast_if_needed(tp__import_node_input(n, 0), d));
}

/* Dropout drops elements only in the training mode of the file, and not in a tower for inference; otherwise it is the identity. */
static void tp__import_dropout(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0);
    const tp_tensor *training = tp__import_node_has(n, 2) ? tp__import_node_known_number(n, 2) : NULL;
    const tp_tensor *ratio = tp__import_node_has(n, 1) ? tp__import_node_known_number(n, 1) : NULL;
    const double rate = ratio ? tp_tensor_get(ratio, 0) : (double)tp__import_node_float(n, "ratio", 0.5f);
    const bool drops = training && tp_tensor_get(training, 0) != 0.0 && rate > 0 && tp__import_trains(n);
    if (drops && tp__import_node_output_read(n, 1)) tp__import_node_unsupported(n, "the mask of a training run");
    else tp__import_node_set_output(n, 0, drops ? tp_nn_dropout(x, (float)rate) : tp_identity(x));
    if (tp__import_node_output_used(n, 1)) /* the second output, the mask: all elements are kept */
        tp__import_node_set_output(n, 1, tp_cast(tp_ones_like(tp__cast_if_needed(x, TP_F32)), TP_BOOL));
}

/* -- reductions */

static void tp__import_reduce(tp__import_node *n)
{
    int64_t list[TP__ON_INTS];
    const int count = tp__import_node_ints(n, "axes", 1, list);
    const bool squeeze = n->channels_last && !tp__import_node_int(n, "keepdims", 1); /* once the order is the file's */
    const bool keep_dims = squeeze || tp__import_node_int(n, "keepdims", 1) != 0;
    const char *op = n->op + 6; /* the operator's name without "Reduce" */
    tp_node *x = tp__import_node_input(n, 0), *y;
    int axes[TP_MAX_DIMS], k = 0;
    bool flag[TP_MAX_DIMS];
    if (n->importer->status != TP_OK || !tp__import_node_axes(n, list, count > 0 ? count : 0, x->shape.ndim, flag))
        return;
    for (int d = 0; d < x->shape.ndim; d++)
        if (flag[d] || count <= 0) axes[k++] = d;
    if ((count <= 0 && tp__import_node_int(n, "noop_with_empty_axes", 0)) || x->shape.ndim == 0) k = 0;
    const bool bools = x->dtype == TP_BOOL && k; /* the maximum of bools is "any" */
    y = bools ? (op[1] == 'a' ? tp_reduce_any : tp_reduce_all)(x, axes, k, keep_dims) : tp__bytes_to_int32(x);
    if (strcmp(op, "L1") == 0) y = tp_abs(y);
    else if (strcmp(op, "L2") == 0 || strcmp(op, "SumSquare") == 0) y = tp__stays_float32(tp_square(y));
    if (strcmp(op, "LogSumExp") == 0) {
        if (k) {
            tp_node *maximum = tp_reduce_max(y, axes, k, true), *zeros = tp_zeros_like(maximum);
            maximum = tp_select(tp_is_finite(maximum), maximum, zeros);
            y = tp_add(tp_ln(tp_reduce_sum(tp_exp(tp_sub(y, maximum)), axes, k, true)), maximum);
            if (!keep_dims) y = tp_reduce_sum(y, axes, k, false); /* each sum has one element: only drop the axes */
        }
    } else if (k && !bools) {
        tp_node *(*fn)(tp_node *, const int *, int, bool) = strcmp(op, "Mean") == 0   ? tp_reduce_mean
                                                            : strcmp(op, "Max") == 0  ? tp_reduce_max
                                                            : strcmp(op, "Min") == 0  ? tp_reduce_min
                                                            : strcmp(op, "Prod") == 0 ? tp_reduce_prod
                                                                                      : tp_reduce_sum;
        const tp_dtype d = y->dtype; /* mean and product of integers are computed as doubles */
        const bool through_double = (fn == tp_reduce_mean || fn == tp_reduce_prod) && !tp_dtype_is_float(d);
        y = tp__cast_if_needed(fn(through_double ? tp__cast_if_needed(y, TP_F64) : y, axes, k, keep_dims), d);
    }
    if (strcmp(op, "L2") == 0) y = tp__root_of_powers(y, 2.0f);
    else if (strcmp(op, "LogSum") == 0) y = tp_ln(y);
    if (squeeze && k) {
        y = tp__nchw(y);
        for (int d = x->shape.ndim - 1; d >= 0; d--)
            if (count <= 0 || flag[tp__axis_in_last(d, x->shape.ndim)]) y = tp_squeeze(y, d);
        n->channels_last = false;
    }
    tp__import_node_set_output(n, 0, tp__cast_if_needed(y, x->dtype));
}

/* Allocates a list of indices; NULL after an error. */
static int64_t *tp__import_node_list(tp__import_node *n, int64_t count)
{
    if (count >= 0 && count <= TP__IMPORT_MAX && !tp__import_node_spend(n, (double)count, 16.0 * (double)count))
        return NULL; /* the list, and the constant that has it */
    if (count >= 0 && count <= TP__IMPORT_MAX)
        return (int64_t *)tp__importer_alloc(n->importer, (size_t)count, sizeof(int64_t));
    tp__on_fail(n, TP_ERR_UNSUPPORTED, "%s takes a list of %lld elements", n->op, (long long)count);
    return NULL;
}

static void tp__import_arg(tp__import_node *n) /* Builds ArgMax and ArgMin. */
{
    tp_node *x = tp__bytes_to_int32(tp__import_node_input(n, 0));
    const int axis = tp__import_node_axis(n, tp__import_node_int(n, "axis", 0), x->shape.ndim);
    const bool select_last = tp__import_node_int(n, "select_last_index", 0) != 0;
    /* -1 - x turns the order of integers around; the least of them has no -x */
    if (n->op[3] == 'M' && n->op[4] == 'i') x = tp_dtype_is_float(x->dtype) ? tp_neg(x) : tp_affine(x, -1.0f, -1.0f);
    if (select_last) x = tp_reverse(x, &axis, 1);
    if (select_last) tp__import_node_dim(n, x, axis);
    if (n->importer->status != TP_OK) return;
    tp_node *y = tp_argmax(x, axis);
    if (select_last) y = tp_sub(tp__constant_like(y, (double)(x->shape.dim[axis] - 1)), y);
    tp__import_node_set_output(n, 0, tp__import_node_int(n, "keepdims", 1) ? tp_expand_dims(y, axis) : y);
}

static void tp__import_top_k(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0), *index = NULL;
    const tp_tensor *kt = tp__import_node_attr(n, "k") ? NULL : tp__import_node_known_number(n, 1);
    const int64_t k = kt ? tp__known_int(kt, 0) : tp__import_node_int(n, "k", 1);
    const int axis = tp__import_node_axis(n, tp__import_node_int(n, "axis", -1), x->shape.ndim);
    const bool smallest = !tp__import_node_int(n, "largest", 1);
    const tp_dtype d = x->dtype;
    if (n->importer->status != TP_OK) return;
    if (k < 1 || k > INT_MAX) {
        tp__import_node_unsupported(n, "that k");
        return;
    }
    x = tp__move_axis(tp_dtype_is_float(d) ? x : tp__cast_if_needed(x, TP_F64), axis, x->shape.ndim - 1);
    tp_node *y = tp_top_k(smallest ? tp_neg(x) : x, (int)k, &index);
    tp__import_node_set_output(n, 0,
                               tp__cast_if_needed(tp__move_axis(smallest ? tp_neg(y) : y, x->shape.ndim - 1, axis), d));
    tp__import_node_set_output(n, 1, tp__cast_if_needed(tp__move_axis(index, x->shape.ndim - 1, axis), TP_I64));
}

static void tp__import_cum_sum(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0);
    const tp_tensor *at = tp__import_node_known_number(n, 1);
    if (!at) return;
    const int axis = tp__import_node_axis(n, tp__known_int(at, 0), x->shape.ndim);
    const bool exclusive = tp__import_node_int(n, "exclusive", 0) != 0,
               reverse = tp__import_node_int(n, "reverse", 0) != 0;
    if (n->importer->status != TP_OK) return;
    const tp_dtype compute_type = tp_dtype_is_float(x->dtype) ? x->dtype : TP_F64;
    tp__import_node_set_output(
        n, 0, tp__cast_if_needed(tp_cumsum(tp__cast_if_needed(x, compute_type), axis, exclusive, reverse), x->dtype));
}

/* -- products */

static tp_node *tp__matrix_product(tp_node *a,
                                   tp_node *b) /* as in numpy: a vector is a row on the left and a column on the
                                                * right */
{
    const bool row = a->shape.ndim == 1, column = b->shape.ndim == 1;
    const tp_dtype d = a->dtype;
    if (tp_is_poison(a) || tp_is_poison(b)) return a;
    if (!tp_dtype_is_float(d)) a = tp__cast_if_needed(a, TP_F64), b = tp__cast_if_needed(b, TP_F64);
    if (column) b = tp_expand_dims(b, 1);
    tp_node *y = tp_matmul(row ? tp_expand_dims(a, 0) : a, b);
    if (column) y = tp_squeeze(y, y->shape.ndim - 1);
    if (row) y = tp_squeeze(y, y->shape.ndim - (column ? 1 : 2));
    return tp__cast_if_needed(y, d);
}

static void tp__import_gemm(tp__import_node *n)
{
    tp_node *a = tp__import_node_input(n, 0), *b = tp__import_node_input(n, 1);
    const float alpha = tp__import_node_float(n, "alpha", 1.0f), beta = tp__import_node_float(n, "beta", 1.0f);
    const tp_dtype d = a->dtype;
    if (!tp_dtype_is_float(d)) a = tp__cast_if_needed(a, TP_F64), b = tp__cast_if_needed(b, TP_F64);
    const bool b_transposed = tp__import_node_int(n, "transB", 0) != 0;
    tp_node *y = tp_matmul_ex(a, b, tp__import_node_int(n, "transA", 0) != 0, b_transposed);
    if (alpha != 1.0f) y = tp_affine(y, alpha, 0.0f);
    if (tp__import_node_has(n, 2) && beta != 0.0f) {
        tp_node *c = tp__cast_if_needed(tp__import_node_input(n, 2), y->dtype);
        if (beta != 1.0f) c = tp_affine(c, beta, 0.0f);
        y = c->shape.ndim == 1 && c->shape.dim[0] == y->shape.dim[1] ? tp_nn_bias_add(y, c, TP_NHWC) : tp_add(y, c);
    }
    tp__import_node_set_output(n, 0, tp__cast_if_needed(y, d));
}

/* -- windows: convolutions and pools. All values have two spatial axes, H and W; a value with one axis gets H = 1. */

typedef struct tp__window {
    int64_t k[3], stride[3], dilation[3], before[3], after[3]; /* size of the window for H and W, or for D, H and W */
    int axes, first;                                           /* number of spatial axes, and the first of them */
    bool same_padding, no_padding;                             /* same_padding: the padding is what TP_SAME gives */
    bool unknown_padding;                                      /* the amount of padding depends on an unknown size */
    bool one_axis;                                             /* the ONNX node has only one spatial axis */
} tp__window;

static tp_node *tp__two_axes(tp_node *x, int first, bool *is_one_axis)
{
    *is_one_axis = x->shape.ndim == 3;
    return *is_one_axis ? tp_expand_dims(x, first) : x;
}

static const char *tp__import_node_auto_pad(tp__import_node *n)
{
    return tp__import_node_choice(n, "auto_pad", "NOTSET", "NOTSET SAME_UPPER SAME_LOWER VALID");
}

/* Reads the attributes of a window. The kernel size comes from the attribute or the weight; with one axis only k[1] is used. x
 * is (N,C,H,W), (N,H,W,C) or (N,C,D,H,W). */
static bool tp__import_node_window(tp__import_node *n, const tp_node *x, bool is_one_axis, tp__window *w)
{
    static const char *const list[] = {"strides", "dilations", "pads"};
    const char *mode = tp__import_node_auto_pad(n);
    const int axes = x->shape.ndim - 2, rank = is_one_axis ? 1 : axes;
    /* x is the poison node */
    if (axes < 1) return tp__on_fail(n, TP_ERR_FORMAT, "%s without spatial axes", n->op), false;
    w->one_axis = is_one_axis;
    w->axes = axes;
    w->first = tp__import_node_space(n);
    for (int i = 0; i < 3; i++) w->stride[i] = w->dilation[i] = 1, w->before[i] = w->after[i] = 0;
    for (int attribute = 0; attribute < 3; attribute++) {
        int64_t v[TP__ON_INTS];
        const int count = tp__import_node_ints(n, list[attribute], -1, v);
        if (count < 0) continue;
        if (count != (attribute == 2 ? 2 * rank : rank))
            return tp__on_fail(n, TP_ERR_FORMAT, "%s has %d %s for %d spatial axes", n->op, count, list[attribute],
                               rank),
                   false;
        for (int i = 0; i < rank; i++) {
            if (attribute == 0) w->stride[i + is_one_axis] = v[i];
            else if (attribute == 1) w->dilation[i + is_one_axis] = v[i];
            else w->before[i + is_one_axis] = v[i], w->after[i + is_one_axis] = v[i + rank];
        }
    }
    w->same_padding = w->no_padding = true;
    w->unknown_padding = false;
    for (int i = 0; i < axes; i++) {
        const int64_t size = x->shape.dim[w->first + i], s = w->stride[i];
        if (w->k[i] < 1 || w->k[i] > 1 << 20 || s < 1 || s > 1 << 20 || w->dilation[i] < 1 ||
            w->dilation[i] > 1 << 20 || w->before[i] < 0 || w->after[i] < 0 || w->before[i] > 1 << 20 ||
            w->after[i] > 1 << 20)
            return tp__on_fail(n, TP_ERR_UNSUPPORTED,
                               "%s with kernel %lld, stride %lld, pads %lld and %lld cannot be expressed", n->op,
                               (long long)w->k[i], (long long)s, (long long)w->before[i], (long long)w->after[i]),
                   false;
        const int64_t k = (w->k[i] - 1) * w->dilation[i] + 1;
        const bool exact = size >= 0 || s == 1;
        int64_t total = !exact ? 0 : s == 1 ? k - 1 : ((size + s - 1) / s - 1) * s + k - size;
        if (total < 0) total = 0;
        if (strcmp(mode, "VALID") == 0) w->before[i] = w->after[i] = 0;
        else if (strncmp(mode, "SAME", 4) == 0) {
            if (!exact && strcmp(mode, "SAME_LOWER") == 0) tp__import_node_dim(n, x, w->first + i);
            w->before[i] = strcmp(mode, "SAME_LOWER") == 0 ? total - total / 2 : total / 2;
            w->after[i] = total - w->before[i];
        }
        if (exact ? w->before[i] != total / 2 || w->after[i] != total - total / 2 : strcmp(mode, "SAME_UPPER") != 0)
            w->same_padding = false;
        if (w->before[i] || w->after[i] || (!exact && w->same_padding)) w->no_padding = false;
        w->unknown_padding |= !exact;
    }
    w->unknown_padding = w->unknown_padding && w->same_padding;
    return n->importer->status == TP_OK;
}

static tp_node *tp__pad_space(tp_node *x, const tp__window *w, float value)
{
    int64_t before[TP_MAX_DIMS] = {0}, after[TP_MAX_DIMS] = {0}, is_padded = 0;
    for (int i = 0; i < w->axes; i++)
        is_padded |= before[w->first + i] = w->before[i], is_padded |= after[w->first + i] = w->after[i];
    return is_padded ? tp_pad(x, before, after, TP_PAD_CONSTANT, value) : x;
}

static tp_conv2d_attrs tp__window_conv(const tp__window *w, int groups, bool same)
{
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    a.stride_h = (int)w->stride[0], a.stride_w = (int)w->stride[1];
    a.dilation_h = (int)w->dilation[0], a.dilation_w = (int)w->dilation[1];
    a.padding = same ? TP_SAME : TP_VALID;
    a.data_format = w->first == 1 ? TP_NHWC : TP_NCHW;
    a.groups = groups;
    return a;
}

/* Transposes a weight to tp's layout: (O,I,KH,KW) to (KH,KW,I,O), or (O,I,K) with KH = 1. */
static tp_node *tp__weight(tp__import_node *n, tp_node *w, tp__window *win)
{
    static const int perm[] = {2, 3, 1, 0};
    bool is_one_axis;
    w = tp__two_axes(w, 2, &is_one_axis);
    for (int i = 0; i < 2; i++) win->k[i] = tp__import_weight_dim(n, w, 2 + i);
    return tp_transpose(w, perm, 4);
}

static void tp__import_conv(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0), *w = tp__import_node_input(n, 1);
    tp__window win;
    bool is_one_axis;
    if (!tp__import_node_rank(n, x, 3, 4) || !tp__import_node_rank(n, w, x->shape.ndim, x->shape.ndim)) return;
    x = tp__two_axes(x, tp__import_node_space(n), &is_one_axis);
    w = tp__weight(n, w, &win);
    if (n->importer->status != TP_OK || !tp__import_node_window(n, x, is_one_axis, &win)) return;
    const int64_t groups = tp__import_node_int(n, "group", 1);
    const tp_conv2d_attrs a =
        tp__window_conv(&win, groups < 1 || groups > INT_MAX ? -1 : (int)groups, win.same_padding && !win.no_padding);
    tp_node *y = tp_nn_conv2d(win.same_padding ? x : tp__pad_space(x, &win, 0.0f), w, &a);
    if (tp__import_node_has(n, 2)) y = tp_nn_bias_add(y, tp__import_node_input(n, 2), a.data_format);
    tp__import_node_set_output(n, 0, is_one_axis ? tp_squeeze(y, win.first) : y);
}

/* The gradient of a convolution with respect to its input, computed without cropping and then cropped. */
static void tp__import_conv_transpose(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0), *w = tp__import_node_input(n, 1);
    tp__window win;
    bool is_one_axis;
    int64_t extra[TP__ON_INTS] = {0}, output_shape[TP__ON_INTS], tiles[TP_MAX_DIMS] = {1, 1, 1, 1},
            zero[TP_MAX_DIMS] = {0}, more[TP_MAX_DIMS] = {0}, border[TP_MAX_DIMS] = {0};
    const char *mode = tp__import_node_auto_pad(n);
    if (!tp__import_node_rank(n, x, 3, 4) || !tp__import_node_rank(n, w, x->shape.ndim, x->shape.ndim)) return;
    x = tp__two_axes(x, tp__import_node_space(n), &is_one_axis);
    const int64_t groups = tp__import_node_int(n, "group", 1),
                  O = tp__limited_product(tp__import_weight_dim(n, w, 1), groups);
    w = tp__weight(n, w, &win);
    if (n->importer->status != TP_OK || !tp__import_node_window(n, x, is_one_axis, &win)) return;
    const int n_extra = tp__import_node_ints(n, "output_padding", -1, extra),
              n_output_shape = tp__import_node_ints(n, "output_shape", -1, output_shape);
    if (groups < 1 || groups > 1 << 20 || O < 1 || (n_extra >= 0 && n_extra != 2 - is_one_axis) ||
        (n_output_shape >= 0 && n_output_shape < 2 - is_one_axis)) {
        tp__on_fail(n, TP_ERR_FORMAT, "%s: its groups, output_padding or output_shape make no sense", n->op);
        return;
    }
    int64_t size[2], from[2];
    bool same = true; /* what is cropped is the padding that TP_SAME gives the convolution */
    const int channels = tp__import_node_channels(n, x), first = win.first;
    tiles[channels] = O;
    for (int i = 0; i < 2; i++) {
        const int64_t H = tp__import_node_dim(n, x, first + i), s = win.stride[i];
        const int64_t add = i >= is_one_axis && n_extra > 0 ? extra[i - is_one_axis] : 0;
        if (add < 0 || add > 1 << 20) {
            tp__import_node_unsupported(n, "that output_padding");
            return;
        }
        const int64_t full = tp__limited_product(H - 1, s) + (win.k[i] - 1) * win.dilation[i] + 1 + add;
        int64_t padding = win.before[i] + win.after[i];
        from[i] = win.before[i];
        size[i] = full - padding;
        if ((n_output_shape > 0 || strncmp(mode, "SAME", 4) == 0) && i >= is_one_axis) {
            size[i] = n_output_shape > 0 ? output_shape[n_output_shape - (2 - is_one_axis) + i - is_one_axis]
                                         : tp__limited_product(H, s);
            if (size[i] < 0 || size[i] > TP__IMPORT_LAST) size[i] = 0; /* the error is reported below */
            padding = full - size[i];
            from[i] = padding < 0 ? 0 : strcmp(mode, "SAME_UPPER") == 0 ? padding / 2 : padding - padding / 2;
        }
        if (full < H || size[i] < 1) {
            tp__import_node_unsupported(n, "those sizes");
            return;
        }
        const int64_t reached = full - add; /* rows or columns that the filter writes; those after them are 0 */
        const int64_t cropped = reached - size[i];
        more[first + i] = reached - H;
        border[first + i] = from[i] + size[i] > reached ? from[i] + size[i] - reached : 0;
        same = same && cropped >= 0 && from[i] == cropped / 2 && size[i] >= H && (size[i] + s - 1) / s == H;
    }
    if (n->importer->status != TP_OK) return;
    for (int i = 0; i < 2 && same; i++) more[first + i] = size[i] - x->shape.dim[first + i], from[i] = 0;
    const tp_conv2d_attrs a = tp__window_conv(&win, (int)groups, same);
    tp_node *like = tp_pad(tp_tile(tp__slice_from(x, channels, 0, 1), tiles), zero, more, TP_PAD_CONSTANT, 0.0f);
    tp_node *y = tp_nn_conv2d_input_grad(x, w, like, &a);
    if (border[first] || border[first + 1]) y = tp_pad(y, zero, border, TP_PAD_CONSTANT, 0.0f);
    for (int i = 0; i < 2 && !same; i++) y = tp__slice_from(y, first + i, from[i], size[i]);
    if (tp__import_node_has(n, 2)) y = tp_nn_bias_add(y, tp__import_node_input(n, 2), a.data_format);
    tp__import_node_set_output(n, 0, is_one_axis ? tp_squeeze(y, win.first) : y);
}

/* Slices rows or columns: `count` of them, every stride-th from `first` on. */
static tp_node *tp__slice_every(tp__import_node *n, tp_node *x, int axis, int64_t first, int64_t stride, int64_t count)
{
    if (stride == 1) return tp__slice_from(x, axis, first, count);
    int64_t *list = tp__import_node_list(n, count);
    if (!list) return x;
    for (int64_t i = 0; i < count; i++) list[i] = first + i * stride;
    return tp__take(x, tp__index_list(n, list, count), axis);
}

/* Computes the number of windows along H and W of a padded x. Reports windows that are too large: each element of a
 * window becomes a node. */
static bool tp__import_node_window_counts(tp__import_node *n, const tp_node *x, const tp__window *w, int64_t *size)
{
    for (int i = 0; i < 2; i++) {
        size[i] = (tp__import_node_dim(n, x, w->first + i) - (w->k[i] - 1) * w->dilation[i] - 1) / w->stride[i] + 1;
        if (size[i] < 1 || w->k[0] * w->k[1] > 4096)
            tp__on_fail(n, TP_ERR_UNSUPPORTED, "%s: a window of %lld by %lld is larger than the picture, or too large",
                        n->op, (long long)w->k[0], (long long)w->k[1]);
    }
    return n->importer->status == TP_OK;
}

/* Computes the maximum or mean of each window of a padded x. Dilated windows: combines one shifted image per element of
 * the window. */
static tp_node *tp__pool_windows(tp__import_node *n, tp_node *x, const tp__window *w, bool mean, bool same)
{
    tp_pool_attrs a;
    tp_node *y = NULL;
    if (w->axes == 3) { /* pool first over H and W, then over D */
        const int64_t N = x->shape.dim[0], C = tp__import_node_dim(n, x, 1), D = tp__import_node_dim(n, x, 2);
        int64_t size[3], dim[5] = {N, C * D, tp__import_node_dim(n, x, 3), tp__import_node_dim(n, x, 4), 1};
        tp__window plane_window = *w, depth_window = *w;
        if (n->importer->status != TP_OK) return x;
        for (int i = 0; i < 3; i++)
            size[i] = (x->shape.dim[2 + i] - (w->k[i] - 1) * w->dilation[i] - 1) / w->stride[i] + 1;
        for (int i = 0; i < 2; i++)
            plane_window.k[i] = w->k[i + 1], plane_window.stride[i] = w->stride[i + 1],
            plane_window.dilation[i] = w->dilation[i + 1];
        plane_window.axes = depth_window.axes = 2;
        depth_window.k[1] = depth_window.stride[1] = depth_window.dilation[1] = 1;
        y = tp__pool_windows(n, tp_reshape_to(x, tp_make_shape_n(4, dim)), &plane_window, mean, false);
        dim[1] = C, dim[2] = D, dim[3] = size[1] * size[2];
        y = tp__pool_windows(n, tp_reshape_to(y, tp_make_shape_n(4, dim)), &depth_window, mean, false);
        for (int i = 0; i < 3; i++) dim[2 + i] = size[i];
        return tp_reshape_to(y, tp_make_shape_n(5, dim));
    }
    memset(&a, 0, sizeof a);
    a.size_h = (int)w->k[0], a.size_w = (int)w->k[1];
    a.stride_h = (int)w->stride[0], a.stride_w = (int)w->stride[1];
    a.padding = same ? TP_SAME : TP_VALID;
    a.data_format = w->first == 1 ? TP_NHWC : TP_NCHW;
    if (w->dilation[0] == 1 && w->dilation[1] == 1) return mean ? tp_nn_avg_pool(x, &a) : tp_nn_max_pool(x, &a);
    int64_t size[2];
    if (!tp__import_node_window_counts(n, x, w, size)) return x;
    for (int64_t p = 0; p < w->k[0] && tp__import_node_spend(n, 0, 0); p++)
        for (int64_t q = 0; q < w->k[1] && tp__import_node_spend(n, 0, 0); q++) {
            tp_node *part = tp__slice_every(n, x, w->first, p * w->dilation[0], w->stride[0], size[0]);
            part = tp__slice_every(n, part, w->first + 1, q * w->dilation[1], w->stride[1], size[1]);
            y = !y ? part : mean ? tp_add(y, part) : tp_maximum(y, part);
        }
    return y && mean ? tp_div(y, tp__constant_like(y, (double)(w->k[0] * w->k[1]))) : y ? y : x;
}

/* Computes the maximum of each window and, as the second output, its index in the flattened x. */
static tp_node *tp__pool_places(tp__import_node *n, tp_node *x, const tp__window *w)
{
    const bool by_column = tp__import_node_int(n, "storage_order", 0) != 0;
    int64_t dim[4], size[2], strides[4];
    tp_tensor t;
    tp_node *best = NULL, *best_place = NULL;
    memset(&t, 0, sizeof t);
    if (!tp__import_node_rank(n, x, 4, 4)) return x;
    for (int d = 0; d < 4; d++) dim[d] = tp__import_node_dim(n, x, d);
    if (n->importer->status != TP_OK) return x;
    strides[2] = by_column ? 1 : dim[3], strides[3] = by_column ? dim[2] : 1;
    strides[1] = dim[2] * dim[3], strides[0] = dim[1] * strides[1];
    if (dim[0] * strides[0] > TP__IMPORT_MAX) return tp__import_node_unsupported(n, "that many places");
    if (!tp__import_node_spend(n, (double)(dim[0] * strides[0]), 16.0 * (double)(dim[0] * strides[0]))) return x;
    if (tp_tensor_resize(&t, TP_I64, tp_make_shape_n(4, dim)) != TP_OK) return tp__importer_nomem(n->importer), x;
    for (int64_t i = 0; i < dim[0] * strides[0]; i++) {
        const int64_t h = i / dim[3] % dim[2], v = i % dim[3];
        ((int64_t *)t.data)[i] = i - h * dim[3] - v + h * strides[2] + v * strides[3];
    }
    tp_node *place = tp__pad_space(tp_constant(tp_node_graph(x), &t), w, 0.0f);
    tp_tensor_free(&t);
    x = tp__pad_space(x, w, -HUGE_VALF);
    if (!tp__import_node_window_counts(n, x, w, size)) return x;
    for (int64_t p = 0; p < w->k[0] && tp__import_node_spend(n, 0, 0); p++)
        for (int64_t q = 0; q < w->k[1] && tp__import_node_spend(n, 0, 0); q++) {
            tp_node *part[2] = {x, place};
            for (int i = 0; i < 2; i++) {
                part[i] = tp__slice_every(n, part[i], 2, p * w->dilation[0], w->stride[0], size[0]);
                part[i] = tp__slice_every(n, part[i], 3, q * w->dilation[1], w->stride[1], size[1]);
            }
            tp_node *is_larger = best ? tp_greater(part[0], best) : NULL;
            best = best ? tp_select(is_larger, part[0], best) : part[0];
            best_place = best_place ? tp_select(is_larger, part[1], best_place) : part[1];
        }
    tp__import_node_set_output(n, 1, best_place && w->one_axis ? tp_squeeze(best_place, 2) : best_place);
    return best ? best : x;
}

static void tp__import_pool(tp__import_node *n) /* Builds MaxPool, AveragePool and LpPool. */
{
    tp_node *x = tp__import_node_input(n, 0);
    const char kind = n->op[0];
    const tp_dtype d = x->dtype;
    int64_t k[TP__ON_INTS], elements = 1;
    bool has_extra_pad = false;
    bool is_one_axis;
    tp__window w;
    if (!tp__import_node_rank(n, x, 3, 5)) return;
    const int first = tp__import_node_space(n);
    x = tp__two_axes(tp_dtype_is_float(d) ? x : tp__cast_if_needed(x, TP_F64), first, &is_one_axis);
    if (tp__import_node_ints(n, "kernel_shape", -1, k) != (is_one_axis ? 1 : x->shape.ndim - 2)) {
        tp__on_fail(n, TP_ERR_FORMAT, "%s should have a kernel_shape of as many numbers as there are spatial axes",
                    n->op);
        return;
    }
    for (int i = 0; i < x->shape.ndim - 2; i++) w.k[i] = !is_one_axis ? k[i] : i ? k[0] : 1;
    if (!tp__import_node_window(n, x, is_one_axis, &w)) return;
    if (w.unknown_padding) {
        if (kind == 'L' || w.axes == 3 || tp__import_node_output_used(n, 1) || w.dilation[0] > 1 || w.dilation[1] > 1 ||
            tp__import_node_int(n, "ceil_mode", 0) || tp__import_node_int(n, "count_include_pad", 0))
            for (int i = 0; i < w.axes; i++) tp__import_node_dim(n, x, first + i);
        if (n->importer->status != TP_OK) return;
        tp_node *y = tp__pool_windows(n, x, &w, kind == 'A', true);
        tp__import_node_set_output(n, 0, tp__cast_if_needed(is_one_axis ? tp_squeeze(y, first) : y, d));
        return;
    }
    const tp__window counted = w;
    /* with ceil_mode, the last window may extend past the end if it begins inside */
    for (int i = 0; i < w.axes && tp__import_node_int(n, "ceil_mode", 0); i++) {
        const int64_t full = tp__import_node_dim(n, x, first + i) + w.before[i] + w.after[i],
                      reach = (w.k[i] - 1) * w.dilation[i] + 1;
        int64_t count = (full - reach + w.stride[i] - 1) / w.stride[i] + 1;
        if ((count - 1) * w.stride[i] >= full - w.after[i]) count--;
        const int64_t missing = (count - 1) * w.stride[i] + reach - full;
        if (missing > 0) w.after[i] += missing, has_extra_pad = true;
    }
    for (int i = 0; i < w.axes; i++) elements *= w.k[i];
    if (n->importer->status != TP_OK) return;
    tp_node *y;
    if (kind == 'M' && tp__import_node_output_used(n, 1)) y = tp__pool_places(n, x, &w);
    else if (kind == 'M') y = tp__pool_windows(n, tp__pad_space(x, &w, -HUGE_VALF), &w, false, false);
    else if (kind == 'L') {
        const float p = (float)(tp__import_node_attr(n, "p") ? tp__import_node_int(n, "p", 2) : 2);
        tp_node *power = p == 2.0f ? NULL : tp__constant_like(x, (double)p);
        y = power ? tp_pow(tp_abs(x), power) : tp_square(x);
        y = tp__pool_windows(n, tp__pad_space(y, &w, 0.0f), &w, true, false);
        y = tp_affine(y, (float)elements, 0.0f);
        y = tp__root_of_powers(y, p);
    } else {
        const bool all = tp__import_node_int(n, "count_include_pad", 0) != 0 || counted.no_padding;
        const bool like_ours =
            w.same_padding && !all && !has_extra_pad && w.axes == 2 && w.dilation[0] == 1 && w.dilation[1] == 1;
        y = tp__pool_windows(n, like_ours ? x : tp__pad_space(x, &w, 0.0f), &w, true, like_ours);
        if ((!all || has_extra_pad) && !like_ours) { /* divide by the fraction of each window that is counted */
            int64_t dim[5] = {1, 1, 1, 1, 1};
            for (int i = 0; i < w.axes; i++) dim[first + i] = tp__import_node_dim(n, x, first + i);
            tp_node *ones =
                n->importer->status == TP_OK ? tp_tile(tp__with_ones(tp__constant_like(x, 1), 2 + w.axes, 0), dim) : x;
            if (all) ones = tp__pad_space(ones, &counted, 1.0f);
            tp__window padding = w;
            for (int i = 0; i < w.axes && all; i++)
                padding.before[i] = 0, padding.after[i] = w.after[i] - counted.after[i];
            y = tp_div(y, tp__pool_windows(n, tp__pad_space(ones, &padding, 0.0f), &w, true, false));
        }
    }
    tp__import_node_set_output(n, 0, tp__cast_if_needed(is_one_axis ? tp_squeeze(y, first) : y, d));
}

static void tp__import_global_pool(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0);
    int axes[TP_MAX_DIMS], k = 0;
    for (int d = 2; d < x->shape.ndim; d++) axes[k++] = tp__import_node_place(n, d, x->shape.ndim);
    if (k == 0) tp__import_node_rank(n, x, 3, TP_MAX_DIMS);
    else tp__import_node_set_output(n, 0, (n->op[6] == 'A' ? tp_reduce_mean : tp_reduce_max)(x, axes, k, true));
}

/* -- normalisation */

/* Normalises: (x - mean) / sqrt(var + epsilon) over `first` and all following axes. */
static tp_node *tp__standard(tp_node *x, int first, float epsilon, tp_node **mean, tp_node **reciprocal_deviation)
{
    int axes[TP_MAX_DIMS], k = 0;
    for (int d = first; d < x->shape.ndim; d++) axes[k++] = d;
    if (tp_is_poison(x) || k == 0) return x;
    tp_node *m = tp_reduce_mean(x, axes, k, true), *c = tp_sub(x, m);
    tp_node *r = tp_rsqrt(tp_affine(tp_reduce_mean(tp__stays_float32(tp_square(c)), axes, k, true), 1.0f, epsilon));
    if (mean) *mean = m;
    if (reciprocal_deviation) *reciprocal_deviation = r;
    return tp_mul(c, r);
}

static void tp__import_batch_norm(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0), *gamma = tp__import_node_input(n, 1), *beta = tp__import_node_input(n, 2),
            *mean = tp__import_node_input(n, 3), *var = tp__import_node_input(n, 4);
    const float epsilon = tp__import_node_float(n, "epsilon", 1e-5f),
                momentum = tp__import_node_float(n, "momentum", 0.9f);
    if (!tp__import_node_rank(n, x, 2, TP_MAX_DIMS)) return;
    const int axis = tp__import_node_channels(n, x);
    if (n->importer->opset < 7 && !tp__import_node_int(n, "is_test", 0)) {
        tp__on_fail(n, TP_ERR_UNSUPPORTED,
                    "BatchNormalization of opset %d without is_test = 1 uses the batch's own mean and variance: export "
                    "the model for inference",
                    (int)n->importer->opset);
        return;
    }
    const bool of_training = tp__import_node_int(n, "training_mode", 0) != 0;
    if (!of_training || !tp__import_trains(n)) {
        /* running statistics are variables among others, but they are not trained */
        tp_node *m = mean, *v = var;
        if (tp__import_node_has(n, 3) && n->in[3]->variable) m = tp_stop_gradient(mean);
        if (tp__import_node_has(n, 4) && n->in[4]->variable) v = tp_stop_gradient(var);
        tp__import_node_set_output(n, 0, tp_nn_batch_norm_infer(x, gamma, beta, m, v, axis, epsilon));
        if (of_training) tp__import_node_set_output(n, 1, mean), tp__import_node_set_output(n, 2, var);
        return;
    }
    tp_node *m = NULL, *v = NULL;
    tp__import_node_set_output(n, 0, tp_nn_batch_norm_train(x, gamma, beta, axis, epsilon, false, &m, &v));
    const tp_tower_context *tower = tp_current_tower_context(n->importer->graph[0]);
    if (tower && tower->is_main_training_tower && !tp_is_poison(m)) {
        const tp_variable *of_mean = tp_node_variable(mean), *of_var = tp_node_variable(var);
        /* one that another node reads, too, is a trained weight */
        if (of_mean && of_var && !of_mean->trainable && !of_var->trainable) {
            tp_collection_add(n->importer->graph[0], TP_KEY_UPDATE_OPS,
                              tp_assign_moving_average(mean, m, momentum, NULL));
            tp_collection_add(n->importer->graph[0], TP_KEY_UPDATE_OPS,
                              tp_assign_moving_average(var, v, momentum, NULL));
        }
    }
    m = tp_affine(m, 1.0f - momentum, 0.0f);
    tp__import_node_set_output(n, 1, tp_add(tp_affine(mean, momentum, 0.0f), m));
    v = tp_affine(v, 1.0f - momentum, 0.0f);
    tp__import_node_set_output(n, 2, tp_add(tp_affine(var, momentum, 0.0f), v));
}

static void tp__import_layer_norm(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0), *scale = tp__import_node_input(n, 1), *mean = NULL, *rdev = NULL;
    const int axis = tp__import_node_axis(n, tp__import_node_int(n, "axis", -1), x->shape.ndim);
    const float epsilon = tp__import_node_float(n, "epsilon", 1e-5f);
    if (n->importer->status != TP_OK) return;
    if (axis == x->shape.ndim - 1 && scale->shape.ndim == 1 && tp__import_node_has(n, 2) && n->n_out == 1) {
        tp__import_node_set_output(n, 0, tp_nn_layer_norm(x, scale, tp__import_node_input(n, 2), epsilon));
        return;
    }
    tp_node *y = tp_mul(tp__standard(x, axis, epsilon, &mean, &rdev), scale);
    tp__import_node_set_output(n, 0, tp__import_node_has(n, 2) ? tp_add(y, tp__import_node_input(n, 2)) : y);
    tp__import_node_set_output(n, 1, mean);
    tp__import_node_set_output(n, 2, rdev);
}

static void tp__import_rms_norm(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0);
    const int first = tp__import_node_axis(n, tp__import_node_int(n, "axis", -1), x->shape.ndim);
    int axes[TP_MAX_DIMS], k = 0;
    for (int d = first; d < x->shape.ndim; d++) axes[k++] = d;
    tp_node *r = tp_rsqrt(tp_affine(tp_reduce_mean(tp__stays_float32(tp_square(x)), axes, k, true), 1.0f,
                                    tp__import_node_float(n, "epsilon", 1e-5f)));
    tp_node *scale = tp__import_node_input(n, 1);
    tp__import_node_set_output(n, 0, tp_mul(tp_mul(x, r), scale));
}

/* Returns the number of channels of x; if that is unknown, the length of scale or bias. */
static int64_t tp__import_channels(tp__import_node *n, const tp_node *x)
{
    const int axis = tp__import_node_channels(n, x);
    for (int i = 1; i < 3 && x->shape.dim[axis] < 0; i++) {
        const tp_shape *v = &tp__import_node_input(n, i)->shape;
        if (v->ndim == 1 && v->dim[0] > 0) return v->dim[0];
    }
    return tp__import_node_dim(n, x, axis);
}
static void tp__import_instance_norm(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0);
    if (!tp__import_node_rank(n, x, 3, TP_MAX_DIMS)) return;
    const int64_t C = tp__import_channels(n, x);
    if (n->importer->status == TP_OK && C > INT_MAX)
        tp__on_fail(n, TP_ERR_FORMAT, "%s: %lld channels are too many", n->op, (long long)C);
    if (n->importer->status != TP_OK) return;
    const float epsilon = tp__import_node_float(n, "epsilon", 1e-5f);
    tp_node *bias = tp__import_node_input(n, 2), *scale = tp__import_node_input(n, 1);
    tp__import_node_set_output(n, 0, tp_nn_group_norm(x, scale, bias, tp__import_node_channels(n, x), (int)C, epsilon));
}

static void tp__import_group_norm(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0), *of[2];
    if (!tp__import_node_rank(n, x, 3, TP_MAX_DIMS)) return;
    /* before opset 21 scale and bias may have one value per group */
    const int64_t groups = tp__import_node_int(n, "num_groups", 0),
                  C = n->importer->opset < 21 ? tp__import_node_dim(n, x, tp__import_node_channels(n, x))
                                              : tp__import_channels(n, x);
    if (n->importer->status != TP_OK) return;
    if (groups < 1 || groups > INT_MAX || C % groups != 0) {
        tp__on_fail(n, TP_ERR_FORMAT, "%s: %lld groups of %lld channels", n->op, (long long)groups, (long long)C);
        return;
    }
    for (int i = 0; i < 2; i++) {
        of[i] = tp__import_node_input(n, 1 + i);
        if (n->importer->opset < 21 && of[i]->shape.ndim == 1 && of[i]->shape.dim[0] == groups && groups != C) {
            const int64_t times[2] = {1, C / groups};
            of[i] = tp_reshape_to(tp_tile(tp_expand_dims(of[i], -1), times), tp_make_shape_n(1, &C));
        }
    }
    tp__import_node_set_output(n, 0,
                               tp_nn_group_norm(x, of[0], of[1], tp__import_node_channels(n, x), (int)groups,
                                                tp__import_node_float(n, "epsilon", 1e-5f)));
}

static void tp__import_lp_norm(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0);
    const int axis = tp__import_node_axis(n, tp__import_node_int(n, "axis", -1), x->shape.ndim);
    tp_node *r = tp__import_node_int(n, "p", 2) == 1
                     ? tp_reduce_sum(tp_abs(x), &axis, 1, true)
                     : tp__root_of_powers(tp_reduce_sum(tp__stays_float32(tp_square(x)), &axis, 1, true), 2.0f);
    tp_node *zero = tp_equal(r, tp__constant_like(r, 0)); /* 0 divided by 0 gives 0 */
    tp__import_node_set_output(n, 0, tp_div(x, tp_select(zero, tp_ones_like(r), r)));
}

static void tp__import_mean_variance_norm(tp__import_node *n)
{
    int64_t list[TP__ON_INTS] = {0, 2, 3};
    int axes[TP_MAX_DIMS], count = tp__import_node_ints(n, "axes", -1, list);
    tp_node *x = tp__import_node_input(n, 0);
    if (count < 0) count = 3;
    bool flag[TP_MAX_DIMS];
    if (n->importer->status != TP_OK || !tp__import_node_axes(n, list, count, x->shape.ndim, flag)) return;
    for (int i = 0; i < count; i++) axes[i] = tp__import_node_axis(n, list[i], x->shape.ndim);
    tp_node *c = tp_sub(x, tp_reduce_mean(x, axes, count, true));
    tp_node *deviation = tp__root_of_powers(tp_reduce_mean(tp__stays_float32(tp_square(c)), axes, count, true), 2.0f);
    tp__import_node_set_output(n, 0, tp_div(c, tp_affine(deviation, 1.0f, 1e-9f)));
}

static void tp__import_lrn(tp__import_node *n) /* sums over adjacent channels: a pool over (channels, all other axes) */
{
    tp_node *x = tp__import_node_input(n, 0), *y;
    const int64_t size = tp__import_node_int(n, "size", 1);
    const float alpha = tp__import_node_float(n, "alpha", 1e-4f), beta = tp__import_node_float(n, "beta", 0.75f),
                bias = tp__import_node_float(n, "bias", 1.0f);
    int64_t before[TP_MAX_DIMS] = {0}, after[TP_MAX_DIMS] = {0}, n_pixels = 1;
    if (!tp__import_node_rank(n, x, 3, TP_MAX_DIMS)) return;
    if (size < 1 || size > 1 << 20) {
        tp__import_node_unsupported(n, "that size");
        return;
    }
    before[2] = (size - 1) / 2, after[2] = size - 1 - before[2];
    for (int d = 2; d < x->shape.ndim; d++) n_pixels *= tp__import_node_dim(n, x, d);
    const int64_t flat[4] = {x->shape.dim[0], 1, tp__import_node_dim(n, x, 1), n_pixels};
    tp__window w;
    memset(&w, 0, sizeof w);
    w.axes = w.first = 2;
    for (int i = 0; i < 2; i++) w.k[i] = w.stride[i] = w.dilation[i] = 1;
    w.k[0] = size;
    if (n->importer->status != TP_OK) return;
    y = tp__pool_windows(n,
                         tp_pad(tp_reshape_to(tp__stays_float32(tp_square(x)), tp_make_shape_n(4, flat)), before, after,
                                TP_PAD_CONSTANT, 0.0f),
                         &w, true, false);
    tp_node *power = tp__constant_like(y, (double)beta);
    /* the pool gives the mean over `size` channels: alpha times the mean is alpha / size times the sum */
    y = tp_pow(tp_affine(y, alpha, bias), power);
    tp__import_node_set_output(n, 0, tp_div(x, tp_reshape_like(y, x)));
}

static tp_node *tp__hardmax(tp_node *x)
{
    const int last_axis = x->shape.ndim - 1;
    if (tp_is_poison(x)) return x;
    return tp__cast_if_needed(
        tp_one_hot(tp_argmax(x, last_axis), x->shape.dim[last_axis] < 1 ? 1 : x->shape.dim[last_axis], 1.0f, 0.0f),
        x->dtype);
}
/* Builds Softmax, LogSoftmax and Hardmax over an axis; before opset 13, over this and all following axes. */
static void tp__import_softmax(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0);
    const bool old = n->importer->opset < 13;
    const int last_axis = x->shape.ndim - 1,
              axis = tp__import_node_axis(n, tp__import_node_int(n, "axis", old ? 1 : -1), x->shape.ndim);
    if (n->importer->status != TP_OK || tp_is_poison(x)) return;
    if (n->op[0] == 'H') tp__import_node_dim(n, x, axis);
    if (!old || axis == last_axis)
        tp__import_node_set_output(n, 0,
                                   tp__move_axis(n->row->unary(tp__move_axis(x, axis, last_axis)), last_axis, axis));
    else {
        int64_t flat[2] = {1, 1};
        for (int d = 0; d <= last_axis; d++)
            flat[d >= axis] *= d < axis && axis == 1 ? 1 : tp__import_node_dim(n, x, d);
        if (axis == 1) flat[0] = x->shape.dim[0];
        tp__import_node_set_output(n, 0, tp_reshape_like(n->row->unary(tp_reshape_to(x, tp_make_shape_n(2, flat))), x));
    }
}

/* -- shapes */

static void tp__import_identity(tp__import_node *n)
{
    tp__import_node_set_output(n, 0, tp_identity(tp__import_node_input(n, 0)));
}

/* Returns the symbol of `times` the size of an unknown dimension, created at first use. */
static int64_t tp__importer_symbol_times(tp__importer *c, tp_node *x, int axis, int64_t times)
{
    char key[80];
    const int64_t base = times == 1 ? 0 : tp__importer_symbol_times(c, x, axis, 1);
    if (base == TP__OV_ANY) return TP__OV_ANY;
    tp__format(key, sizeof key, "%p,%d,%lld", (void *)x, axis, (long long)times);
    tp__symbol *s = (tp__symbol *)tp__map_get(&c->symbol_map, key);
    if (s) return TP__OV_ANY + s->number;
    if (c->symbols.n >= TP__OV_SYMBOLS - 1) return TP__OV_ANY;
    s = (tp__symbol *)tp__importer_alloc(c, 1, sizeof *s);
    const char *kept = tp_arena_strdup(&c->mem, key);
    if (!s || !kept || !tp__list_add(&c->symbols, s) || !tp__map_put(&c->symbol_map, kept, s)) {
        tp__importer_nomem(c);
        return TP__OV_ANY;
    }
    s->node = x;
    s->axis = axis;
    s->number = c->symbols.n;
    s->times = times;
    s->base = times == 1 ? s->number : (int)(base - TP__OV_ANY);
    return TP__OV_ANY + s->number;
}
static int64_t tp__importer_symbol(tp__importer *c, tp_node *x, int axis)
{
    return tp__importer_symbol_times(c, x, axis, 1);
}

/* Makes zeros along `axis` of `ndim` dimensions, as many as the symbol says; NULL: the size has no symbol. */
static tp_node *tp__importer_zeros_along(tp__importer *c, int64_t symbol, tp_dtype dtype, int axis, int ndim)
{
    const tp__symbol *s = tp__importer_symbol_of(c, symbol);
    if (!s) return NULL;
    tp_node *last = tp__has_nhwc(s->node), *from = last ? last : s->node, *x = from;
    const int at = last ? tp__axis_in_last(s->axis, from->shape.ndim) : s->axis;
    tp_shape shape;
    int summed[TP_MAX_DIMS], n_summed = 0;
    for (int d = 0; d < from->shape.ndim; d++)
        if (d != at && from->shape.dim[d] < 1) summed[n_summed++] = d;
        else if (d != at) x = tp__slice_from(x, d, 0, 1);
    x = tp__cast_if_needed(tp_zeros_like(x), dtype);
    /* a dimension that may have no elements is summed, not sliced: the sum of nothing is 0 */
    if (n_summed) x = tp_reduce_sum(x, summed, n_summed, true);
    memset(&shape, 0, sizeof shape);
    shape.ndim = ndim;
    for (int d = 0; d < ndim; d++) shape.dim[d] = d == axis ? TP_ANY : 1;
    x = tp_reshape_to(x, shape);
    shape.dim[axis] = s->times;
    return s->times == 1 ? x : tp_tile(x, shape.dim);
}

static void tp__import_shape(tp__import_node *n) /* the shape may be known although the value is not */
{
    tp_node *x = tp__import_node_input(n, 0);
    const int64_t nd = x->shape.ndim;
    int64_t from = tp__import_node_int(n, "start", 0), to = tp__import_node_int(n, "end", nd);
    from = from < 0 ? from + nd : from, to = to < 0 ? to + nd : to;
    from = from < 0 ? 0 : from > nd ? nd : from, to = to > nd ? nd : to < from ? from : to;
    tp_tensor *t = n->importer->status == TP_OK ? tp__import_node_value(n, 0, TP_I64, tp__shape1(to - from)) : NULL;
    for (int64_t i = from; i < to && t; i++) {
        n->partial |= x->shape.dim[i] < 0;
        ((int64_t *)t->data)[i - from] =
            x->shape.dim[i] < 0 ? tp__importer_symbol(n->importer, x, (int)i) : x->shape.dim[i];
    }
}

static void tp__import_size(tp__import_node *n)
{
    const int64_t size = tp_shape_size(&tp__import_node_input(n, 0)->shape);
    tp_tensor *t = n->importer->status == TP_OK ? tp__import_node_value(n, 0, TP_I64, tp_make_shape_n(0, NULL)) : NULL;
    n->partial = size < 0;
    if (t) *(int64_t *)t->data = size < 0 ? TP__OV_ANY : size;
}

static void tp__import_constant(tp__import_node *n)
{
    tp__pb_field f;
    tp_tensor *t;
    if (tp__import_node_attr(n, "value")) {
        if (tp__import_node_field(n, "value", 5, 2, &f) &&
            (t = tp__import_node_value(n, 0, TP_F32, tp_make_shape_n(0, NULL))) != NULL)
            tp__importer_tensor(n->importer, f.sub, t, NULL, n->name);
    } else if (tp__import_node_attr(n, "value_float")) {
        const float v = tp__import_node_float(n, "value_float", 0);
        if ((t = tp__import_node_value(n, 0, TP_F32, tp_make_shape_n(0, NULL))) != NULL) *(float *)t->data = v;
    } else if (tp__import_node_attr(n, "value_int")) {
        const int64_t v = tp__import_node_int(n, "value_int", 0);
        if ((t = tp__import_node_value(n, 0, TP_I64, tp_make_shape_n(0, NULL))) != NULL) *(int64_t *)t->data = v;
    } else if (tp__import_node_attr(n, "value_ints") || tp__import_node_attr(n, "value_floats")) {
        const bool ints = tp__import_node_attr(n, "value_ints") != NULL;
        const tp__pb *a = tp__import_node_attr(n, ints ? "value_ints" : "value_floats");
        if (!tp__import_node_kind(n, ints ? "value_ints" : "value_floats", ints ? 8 : 7)) return;
        for (int pass = 0; pass < 2; pass++) {
            tp__pb m = *a, pack = {NULL, NULL, false};
            int64_t count = 0;
            uint64_t v;
            for (; tp__pb_number(&m, &pack, ints ? 8 : 7, ints ? 0 : 5, &v); count++)
                if (!pass) continue;
                else if (ints) ((int64_t *)n->value[0].data)[count] = (int64_t)v;
                else ((float *)n->value[0].data)[count] = tp__bits_f32(v);
            if (m.bad) {
                tp__on_fail(n, TP_ERR_FORMAT, "%s: its list is damaged", n->op);
                return;
            }
            if (!pass && !tp__import_node_value(n, 0, ints ? TP_I64 : TP_F32, tp__shape1(count))) return;
        }
    } else tp__import_node_unsupported(n, "a string or a sparse tensor");
}

/* Converts a known list to a shape; unknown sizes become TP_ANY. */
static bool tp__import_node_shape(tp__import_node *n, const int64_t *list, int count, tp_shape *s)
{
    memset(s, 0, sizeof *s);
    if (count > TP_MAX_DIMS)
        return tp__on_fail(n, TP_ERR_UNSUPPORTED, "%s makes more than %d dimensions", n->op, TP_MAX_DIMS), false;
    s->ndim = count < 0 ? 0 : count;
    for (int d = 0; d < s->ndim; d++) {
        s->dim[d] = tp__is_any(list[d]) ? TP_ANY : list[d];
        if (s->dim[d] < TP_ANY)
            return tp__on_fail(n, TP_ERR_FORMAT, "%s has a dimension of %lld", n->op, (long long)list[d]), false;
    }
    return n->importer->status == TP_OK;
}

/* Broadcasts x to a shape of `count` known sizes or symbols; NULL after an error. */
static tp_node *tp__import_node_expand(tp__import_node *n, tp_node *x, const int64_t *list, int count)
{
    int64_t tiles[TP_MAX_DIMS];
    bool is_tiled = false;
    tp_shape s;
    if (!tp__import_node_shape(n, list, count, &s)) return NULL;
    x = tp__with_ones(x, count, 0);
    for (int d = 0; d < x->shape.ndim; d++) {
        const int e = d - (x->shape.ndim - count);
        const int64_t old_size = x->shape.dim[d], new_size = e < 0 ? 1 : s.dim[e];
        tiles[d] = old_size == 1 && new_size >= 0 ? new_size : 1;
        is_tiled |= tiles[d] != 1;
        if (old_size > 1 && new_size > 1 && new_size != old_size) {
            tp__on_fail(n, TP_ERR_SHAPE, "%s of dimension %d from %lld to %lld", n->op, d, (long long)old_size,
                        (long long)new_size);
            return NULL;
        }
        if ((new_size >= 0 && old_size >= 0) || new_size == 1 || old_size > 1) continue;
        /* a size is known only at run time: add zeros of the wanted shape, which broadcasts x to it */
        const tp_dtype dtype = x->dtype;
        tp_node *computable = tp__bytes_to_int32(x), *zeros;
        if (new_size >= 0) {
            int64_t tile_sizes[TP_MAX_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1};
            tile_sizes[d] = new_size;
            zeros = tp_tile(tp__with_ones(tp__constant_like(computable, 0), x->shape.ndim, 0), tile_sizes);
        } else zeros = tp__importer_zeros_along(n->importer, list[e], computable->dtype, d, x->shape.ndim);
        if (!zeros) {
            tp__on_fail(n, TP_ERR_UNSUPPORTED, "%s to a dimension that is not known when the graph is built; %s", n->op,
                        tp__importer_missing(n->importer, new_size < 0 ? NULL : x, d));
            return NULL;
        }
        x = tp__cast_if_needed(tp_add(computable, zeros), dtype);
    }
    return is_tiled ? tp_tile(x, tiles) : x;
}

static void tp__import_constant_of_shape(tp__import_node *n)
{
    int64_t list[TP__ON_INTS];
    tp_shape s;
    tp__pb_field f;
    tp_tensor v, *t;
    memset(&v, 0, sizeof v);
    const int count = tp__import_node_need(n, 0) ? tp__import_node_ints(n, "", 0, list) : -1;
    if (count < 0 || !tp__import_node_shape(n, list, count, &s)) return;
    if (tp_shape_size(&s) > TP__IMPORT_MAX) {
        tp__import_node_unsupported(n, "a shape that large");
        return;
    }
    if (tp__import_node_attr(n, "value") && (!tp__import_node_field(n, "value", 5, 2, &f) ||
                                             tp__importer_tensor(n->importer, f.sub, &v, NULL, n->name) != TP_OK)) {
        tp_tensor_free(&v);
        return;
    }
    if (v.data && tp_tensor_size(&v) != 1) {
        tp__on_fail(n, TP_ERR_FORMAT, "%s: its value should be a single number", n->op);
        tp_tensor_free(&v);
        return;
    }
    if (tp_shape_size(&s) < 0) {
        tp_node *x = v.data ? tp_constant(n->importer->graph[n->importer->graph_index], &v)
                            : tp_const(n->importer->graph[n->importer->graph_index], 0.0f);
        tp_tensor_free(&v);
        x = tp__import_node_expand(n, tp_reshape_to(x, tp_make_shape_n(0, NULL)), list, count);
        if (x) tp__import_node_set_output(n, 0, x);
    } else if ((t = tp__import_node_value(n, 0, v.data ? v.dtype : TP_F32, s)) != NULL)
        for (int64_t i = 0; i < tp_tensor_size(t); i++) {
            const size_t size = tp_dtype_size(t->dtype);
            if (v.data) memcpy((char *)t->data + (size_t)i * size, v.data, size);
            else memset((char *)t->data + (size_t)i * size, 0, size);
        }
    tp_tensor_free(&v);
}

/* Range of integers, which float64 does not have all. */
static void tp__import_range_of_integers(tp__import_node *n, tp_dtype dtype, int64_t from, int64_t to, int64_t by)
{
    const bool up = by > 0, any = up ? from < to : from > to;
    const uint64_t span = up ? (uint64_t)to - (uint64_t)from : (uint64_t)from - (uint64_t)to,
                   step = up ? (uint64_t)by : 0 - (uint64_t)by,
                   count = !any || by == 0 ? 0 : span / step + (span % step != 0);
    if (by == 0 || count >= 100000000) {
        tp__on_fail(n, TP_ERR_FORMAT, "Range from %g to %g by %g", (double)from, (double)to, (double)by);
        return;
    }
    tp_tensor *t = tp__import_node_value(n, 0, dtype, tp__shape1((int64_t)count));
    for (int64_t i = 0; t && i < (int64_t)count; i++) {
        const int64_t v = (int64_t)((uint64_t)from + (uint64_t)i * (uint64_t)by);
        if (dtype == TP_I64) ((int64_t *)t->data)[i] = v;
        else ((int32_t *)t->data)[i] = (int32_t)v;
    }
}
static void tp__import_range(tp__import_node *n)
{
    const tp_tensor *a = tp__import_node_known_number(n, 0), *b = tp__import_node_known_number(n, 1),
                    *c = tp__import_node_known_number(n, 2);
    if (!a || !b || !c) return;
    if (a->dtype != b->dtype || a->dtype != c->dtype) {
        tp__on_fail(n, TP_ERR_DTYPE, "Range from %s to %s by %s", tp_dtype_name(a->dtype), tp_dtype_name(b->dtype),
                    tp_dtype_name(c->dtype));
        return;
    }
    if (a->dtype == TP_I64 || a->dtype == TP_I32) {
        tp__import_range_of_integers(n, a->dtype, tp__known_int(a, 0), tp__known_int(b, 0), tp__known_int(c, 0));
        return;
    }
    const double from = tp_tensor_get(a, 0), to = tp_tensor_get(b, 0), by = tp_tensor_get(c, 0),
                 count = ceil((to - from) / by);
    if (!(count < 1e8)) {
        tp__on_fail(n, TP_ERR_FORMAT, "Range from %g to %g by %g", from, to, by);
        return;
    }
    tp_tensor *t = tp__import_node_value(n, 0, a->dtype, tp__shape1(count > 0 ? (int64_t)count : 0));
    for (int64_t i = 0; t && i < tp_tensor_size(t); i++) tp_tensor_set(t, i, from + (double)i * by);
}

/* The shuffle of an image's channels: (N,C,H,W) as (N,a,b,H,W), whose axes a and b are swapped, as (N,C,H,W) again. x is what the last
 * of the three ops reads and `to` its shape. With the channels last the numbers of each pixel are shuffled. NULL: x is no shuffle. */
static tp_node *tp__shuffled_channels(const tp_node *x, const tp_shape *to)
{
    static const int swap[] = {0, 2, 1, 3, 4}, last_two[] = {0, 1, 2, 4, 3};
    int perm[TP_MAX_DIMS], unknown = 0;
    if (to->ndim != 4 || x->shape.ndim != 5 || x->op->row != &tp__op_transpose) return NULL;
    const tp_node *split = x->op->in[0];
    tp__permutation((const tp__transpose_attrs *)x->op->attrs, 5, perm);
    if (memcmp(perm, swap, sizeof swap) != 0 || split->op->row != &tp__op_reshape) return NULL;
    const tp_node *image = split->op->in[0];
    tp_node *last = tp__has_nhwc(image);
    const int64_t *s = split->shape.dim, *d = to->dim;
    if (!last || image->shape.ndim != 4 || !tp_shape_equal(&image->shape, to)) return NULL;
    if (s[0] != d[0] || s[3] != d[2] || s[4] != d[3] || s[1] < 1 || s[2] < 1 || s[1] * s[2] != d[1]) return NULL;
    for (int i = 0; i < 4; i++) unknown += d[i] < 1;
    if (unknown > 1) return NULL; /* one unknown size follows from the others, unless one of these is 0 */
    const int64_t parts[] = {d[0], d[2], d[3], s[1], s[2]};
    return tp_reshape_to(tp_transpose(tp_reshape_to(last, tp_make_shape_n(5, parts)), last_two, 5), last->shape);
}

/* Trials replace each unknown size by a number: the sizes that come out show which follow from others. Multiples of 96 can be strided
 * and divided; the numbers are small, so that products of several fit, and three trials agree by chance on nearly nothing. */
enum { TP__TRIALS = 3 };
static int64_t tp__trial_dim(int trial, int64_t k)
{
    return 96 * (trial == 0 ? 2 + k % 59 : trial == 1 ? 3 + 5 * k % 53 : 5 + 7 * (k % 47) * (k % 47) % 47);
}
/* Number of the size of an unknown dimension of an operation's output; those of an input with one name have one number. */
static int tp__importer_trial_number(tp__importer *c, const tp_node *x, int axis)
{
    while (c->next_open < c->open_dims.n) { /* inputs are looked at in the order in which they were made */
        const tp__open_dim *o = (const tp__open_dim *)c->open_dims.item[c->next_open];
        if (o->node->op->id > x->op->id || (o->node == x && o->axis > axis)) break;
        c->next_open++;
        if (o->node == x && o->axis == axis) return o->same;
    }
    return c->open_dims.n + c->n_fresh++;
}
/* Shapes of an operation's outputs in one trial, as far as the shape rule tells them. Sizes of an element-wise op whose operands are
 * not known to have the same sizes are those of the first operand. */
static void tp__importer_try(tp__importer *c, const tp_operation *op, int trial, tp_shape *shape)
{
    enum { MOST = 64 };
    tp_type in[MOST], out[TP_MAX_OUTPUTS];
    tp_infer s;
    bool is_known = true, follows = op->n_in > 0 && op->n_in <= MOST && op->n_var == 0;
    memset(&s, 0, sizeof s);
    memset(out, 0, sizeof out);
    for (int i = 0; i < op->n_out; i++) {
        shape[i] = op->out[i].shape;
        is_known &= tp_shape_known(&op->out[i].shape);
    }
    for (int i = 0; i < op->n_in && follows; i++) {
        in[i].dtype = op->in[i]->dtype;
        in[i].shape = ((tp_shape **)c->trials.item[op->in[i]->op->id])[trial][op->in[i]->index];
        follows = tp__shape_fits(&in[i].shape);
    }
    s.op = op->row, s.attrs = op->attrs, s.name = op->name;
    s.n_in = op->n_in, s.in = in, s.n_out = op->n_out, s.out = out;
    if (is_known || !follows) return;
    const bool inferred = op->row->infer(&s) == TP_OK;
    for (int i = 0; i < op->n_out && inferred; i++)
        if (out[i].shape.ndim == op->out[i].shape.ndim) shape[i] = out[i].shape;
    for (int i = 0; i < op->n_in && !inferred && op->row->naive_f32 == tp__map_kernel; i++)
        for (int d = 0; d < shape[0].ndim && in[i].shape.ndim == shape[0].ndim; d++)
            if (shape[0].dim[d] < 0 && op->in[i]->shape.dim[d] < 0) shape[0].dim[d] = in[i].shape.dim[d];
}
/* The shape of a node of the user's graph in one of the trials; NULL: out of memory, or its elements are too many. */
static const tp_shape *tp__importer_trial(tp__importer *c, const tp_node *x, int trial)
{
    while (c->trials.n <= x->op->id) {
        const tp_operation *op = (const tp_operation *)c->graph[0]->op.item[c->trials.n];
        tp_shape **shape = (tp_shape **)tp__importer_alloc(c, TP__TRIALS, sizeof *shape);
        for (int i = 0; i < TP__TRIALS && shape; i++)
            if (!(shape[i] = (tp_shape *)tp__importer_alloc(c, (size_t)op->n_out, sizeof **shape))) return NULL;
        if (!shape || !tp__list_add(&c->trials, (void *)shape)) {
            tp__importer_nomem(c);
            return NULL;
        }
        for (int i = 0; i < TP__TRIALS; i++) tp__importer_try(c, op, i, shape[i]);
        for (int i = 0; i < op->n_out; i++)
            for (int d = 0; d < op->out[i].shape.ndim; d++) {
                bool is_known = true;
                for (int k = 0; k < TP__TRIALS; k++) is_known &= shape[k][i].dim[d] >= 0;
                const int number = is_known ? 0 : tp__importer_trial_number(c, &op->out[i], d);
                for (int k = 0; k < TP__TRIALS && !is_known; k++) shape[k][i].dim[d] = tp__trial_dim(k, number);
            }
    }
    const tp_shape *s = &((tp_shape **)c->trials.item[x->op->id])[trial][x->index];
    return tp__shape_fits(s) ? s : NULL;
}
/* The size that is left for the -1 of a list of sizes, for any sizes of the unknown dimensions; -1: it depends on them, or is not
 * known. Sizes of 0 are left out. */
static int64_t tp__import_reshape_rest(tp__import_node *n, const tp_node *x, const int64_t *list, int count)
{
    tp__importer *c = n->importer;
    int64_t rest[TP__TRIALS];
    for (int trial = 0; trial < TP__TRIALS; trial++) {
        const tp_shape *shape = tp__importer_trial(c, x, trial);
        int64_t others = 1;
        if (!shape) return -1;
        rest[trial] = 1;
        for (int d = 0; d < shape->ndim; d++)
            if (shape->dim[d] > 0) rest[trial] *= shape->dim[d];
        for (int d = 0; d < count; d++) {
            const tp__symbol *s = tp__importer_symbol_of(c, list[d]);
            const tp_shape *of = s ? tp__importer_trial(c, s->node, trial) : NULL;
            if (s && !of) return -1;
            const int64_t times = s ? s->times : 1, size = of ? of->dim[s->axis] : list[d];
            if (size == 0 || size == -1) continue;
            if (size < 0 || size > TP__VALUE_MAX / others / times) return -1;
            others *= times * size;
        }
        if (rest[trial] % others) return -1;
        rest[trial] /= others;
        if (rest[trial] != rest[0]) return -1;
    }
    return rest[0];
}

static void tp__import_reshape(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0);
    int64_t list[TP__ON_INTS];
    const int count = tp__import_node_ints(n, "shape", 1, list);
    const bool allow_zero = tp__import_node_int(n, "allowzero", 0) != 0;
    int copied = 0, free_dim = -1;
    bool is_empty = false;
    tp_shape s;
    for (int d = 0; d < count && d < TP_MAX_DIMS; d++) {
        if (list[d] == 0 && !allow_zero) {
            if (d >= x->shape.ndim) {
                tp__on_fail(n, TP_ERR_FORMAT, "Reshape copies dimension %d, which the input does not have", d);
                return;
            }
            list[d] = x->shape.dim[d] < 0 ? tp__importer_symbol(n->importer, x, d) : x->shape.dim[d];
        }
        if (list[d] == -1 && free_dim >= 0) {
            tp__on_fail(n, TP_ERR_FORMAT, "Reshape to a list with two dimensions of -1");
            return;
        }
        if (list[d] == -1) free_dim = d;
        else if (tp__is_any(list[d])) copied++;
    }
    if (free_dim >= 0 && copied > 0 && n->importer->graph_index == 0 && !tp_is_poison(x)) {
        list[free_dim] = tp__import_reshape_rest(n, x, list, count);
        if (list[free_dim] >= 0) free_dim = -1;
    }
    if (count < 0 || !tp__import_node_shape(n, list, count, &s)) return;
    for (int d = copied = 0; d < s.ndim; d++) copied += s.dim[d] < 0, is_empty |= s.dim[d] == 0;
    tp_node *shuffled = tp__shuffled_channels(x, &s);
    /* if several dimensions are unknown, or one that does not follow from no elements, reshape to the shape of a node that
     * has them */
    if (shuffled) tp__import_node_set_output(n, 0, tp__nchw(shuffled));
    else if (copied > 1 || (copied == 1 && is_empty && free_dim < 0)) {
        tp_node *ref =
            tp__import_node_expand(n, tp_const(n->importer->graph[n->importer->graph_index], 0.0f), list, count);
        if (ref) tp__import_node_set_output(n, 0, tp_reshape_like(x, ref));
    } else tp__import_node_set_output(n, 0, tp_reshape_to(x, s));
}

static void tp__import_flatten(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0);
    const int64_t at = tp__import_node_int(n, "axis", 1);
    const int nd = x->shape.ndim, axis = (int)(at < 0 ? at + nd : at);
    int64_t flat[2] = {1, 1};
    if (at < -nd || at > nd) {
        tp__import_node_axis(n, at, nd);
        return;
    }
    bool is_unknown[2] = {false, false};
    for (int d = 0; d < nd; d++)
        if (x->shape.dim[d] < 0) is_unknown[d >= axis] = true;
        else flat[d >= axis] *= x->shape.dim[d];
    for (int i = 0; i < 2; i++)
        if (is_unknown[i]) flat[i] = TP_ANY;
    for (int d = axis; d < nd && is_unknown[0] && is_unknown[1] && axis != 1; d++)
        tp__import_node_dim(n, x, d); /* only one unknown size is allowed */
    if (n->importer->status != TP_OK) return;
    tp__import_node_set_output(n, 0, axis == 1 ? tp_batch_flatten(x) : tp_reshape_to(x, tp_make_shape_n(2, flat)));
}

static void tp__import_squeeze(tp__import_node *n) /* Builds Squeeze and Unsqueeze. */
{
    int64_t list[TP__ON_INTS];
    tp_node *x = tp__import_node_input(n, 0);
    const int count = tp__import_node_ints(n, "axes", 1, list);
    const bool add = n->op[0] == 'U';
    const int nd = x->shape.ndim + (add && count > 0 ? count : 0);
    bool flag[TP_MAX_DIMS];
    if (n->importer->status != TP_OK || tp_is_poison(x)) return;
    if (nd > TP_MAX_DIMS) {
        tp__on_fail(n, TP_ERR_UNSUPPORTED, "%s makes more than %d dimensions", n->op, TP_MAX_DIMS);
        return;
    }
    if (!tp__import_node_axes(n, list, count > 0 ? count : 0, nd, flag)) return;
    for (int d = 0; d < nd && add; d++)
        if (flag[d]) x = tp_expand_dims(x, d);
    for (int d = 0; d < nd && !add && count < 0; d++)
        tp__import_node_dim(n, x, d); /* the size must be known, because only dimensions of 1 are removed */
    if (n->importer->status != TP_OK) return;
    for (int d = nd - 1; d >= 0 && !add; d--)
        if (count < 0 ? x->shape.dim[d] == 1 : flag[d]) x = tp_squeeze(x, d);
    tp__import_node_set_output(n, 0, count == 0 || (!add && x == tp__import_node_input(n, 0)) ? tp_identity(x) : x);
}

static void tp__import_transpose(tp__import_node *n)
{
    int64_t list[TP__ON_INTS];
    int perm[TP_MAX_DIMS];
    tp_node *x = tp__import_node_input(n, 0);
    const int count = tp__import_node_ints(n, "perm", -1, list);
    bool flag[TP_MAX_DIMS];
    if (count >= 0 && (count != x->shape.ndim || !tp__import_node_axes(n, list, count, count, flag))) {
        tp__on_fail(n, TP_ERR_FORMAT, "Transpose orders %d axes of a value with %d dimensions", count, x->shape.ndim);
        return;
    }
    const int nd = x->shape.ndim;
    tp_node *last = tp__has_nhwc(x);
    bool is_same = true;
    for (int d = 0; d < nd; d++) {
        perm[d] = count < 0 ? nd - 1 - d : tp__import_node_axis(n, list[d], nd);
        if (last) perm[d] = tp__axis_in_last(perm[d], nd);
        is_same &= perm[d] == d;
    }
    tp__import_node_set_output(n, 0, is_same ? tp_identity(last ? last : x) : tp_transpose(last ? last : x, perm, nd));
}

static void tp__import_concat(tp__import_node *n)
{
    tp_node **xs = (tp_node **)tp__importer_alloc(n->importer, (size_t)n->n_in, sizeof *xs);
    if (!xs) return;
    if (n->n_in < 1) {
        tp__on_fail(n, TP_ERR_FORMAT, "Concat has no inputs");
        return;
    }
    for (int i = 0; i < n->n_in; i++) xs[i] = tp__import_node_input(n, i);
    const int axis = tp__import_node_axis(n, tp__import_node_int(n, "axis", 1), xs[0]->shape.ndim);
    if (n->importer->status == TP_OK)
        tp__import_node_set_output(n, 0, n->n_in == 1 ? tp_identity(xs[0]) : tp_concat(xs, n->n_in, axis));
}

static void tp__import_split(tp__import_node *n)
{
    int64_t size[TP__ON_INTS], at = 0;
    tp_node *x = tp__import_node_input(n, 0);
    const int axis = tp__import_node_axis(n, tp__import_node_int(n, "axis", 0), x->shape.ndim),
              count = tp__import_node_ints(n, "split", 1, size);
    const int64_t equal = tp__import_node_int(n, "num_outputs", n->n_out);
    if (n->importer->status != TP_OK) return;
    if (equal != n->n_out) {
        tp__on_fail(n, TP_ERR_FORMAT, "Split into %lld has %d outputs", (long long)equal, n->n_out);
        return;
    }
    /* the axis is unknown: cut off the given sizes in order; the run reports an error if the axis is too short */
    const int64_t axis_size = count > 0 && x->shape.dim[axis] < 0 ? TP__IMPORT_LAST : tp__import_node_dim(n, x, axis);
    const int64_t part_size = (axis_size + n->n_out - 1) / n->n_out;
    if (n->importer->status != TP_OK) return;
    if (count >= 0 && count != n->n_out) {
        tp__on_fail(n, TP_ERR_FORMAT, "Split has %d sizes for %d outputs", count, n->n_out);
        return;
    }
    for (int i = 0; i < n->n_out; i++) {
        const int64_t k = count > 0 ? size[i] : at + part_size <= axis_size ? part_size : axis_size - at;
        if (k < 0 || k > axis_size - at) {
            tp__on_fail(n, TP_ERR_FORMAT, "Split cuts more than there is along axis %d", axis);
            return;
        }
        tp__import_node_set_output(n, i, tp__slice_from(x, axis, at, k));
        at += k;
    }
}

static void tp__import_slice(tp__import_node *n)
{
    int64_t from[TP__ON_INTS], to[TP__ON_INTS], axes[TP__ON_INTS], steps[TP__ON_INTS];
    tp_node *x = tp__import_node_input(n, 0), *y = x;
    const int count = tp__import_node_ints(n, "starts", 1, from), n_to = tp__import_node_ints(n, "ends", 2, to);
    const int n_axes = tp__import_node_ints(n, "axes", 3, axes), n_steps = tp__import_node_ints(n, "steps", 4, steps);
    if (n->importer->status != TP_OK) return;
    if (count < 0 || count != n_to || (n_axes >= 0 && n_axes != count) || (n_steps >= 0 && n_steps != count)) {
        tp__on_fail(n, TP_ERR_FORMAT, "Slice has lists of different lengths");
        return;
    }
    bool flag[TP_MAX_DIMS];
    if (n_axes > 0 && !tp__import_node_axes(n, axes, n_axes, x->shape.ndim, flag)) return;
    for (int i = 0; i < count; i++) {
        const int axis = tp__import_node_axis(n, n_axes < 0 ? i : axes[i], x->shape.ndim);
        const int64_t size = n->importer->status == TP_OK ? x->shape.dim[axis] : 1, max_step = TP__IMPORT_LAST;
        const int64_t step = n_steps < 0            ? 1
                             : steps[i] > max_step  ? max_step
                             : steps[i] < -max_step ? -max_step
                                                    : steps[i];
        int64_t a = from[i], b = to[i];
        if (n->importer->status != TP_OK) return;
        if (step == 0) {
            tp__on_fail(n, TP_ERR_FORMAT, "Slice with a step of 0");
            return;
        }
        if (size < 0 && step == 1 && a >= 0 && b >= INT32_MAX) { /* all elements from index a on */
            y = tp__slice_from(y, axis, a, -1);
            continue;
        }
        if (size < 0 && step == 1 && a >= 0 && b < 0 && b > -INT32_MAX) { /* all but the last -b */
            y = tp__slice_from(y, axis, a, b - 1);
            continue;
        }
        /* the whole axis in reverse order */
        if (size < 0 && step == -1 && (a == -1 || a >= INT32_MAX) && b <= -INT32_MAX) {
            y = tp_reverse(y, &axis, 1);
            continue;
        }
        if (size < 0 && step == 1 && a >= 0 && b > a) { /* the run reports an error if the axis is too short */
            y = tp__slice_from(y, axis, a, b - a);
            continue;
        }
        if (tp__import_node_dim(n, x, axis) < 0 || n->importer->status != TP_OK) return;
        a = a < 0 ? a + size : a, b = b < 0 ? b + size : b;
        if (step > 0) {
            a = a < 0 ? 0 : a > size ? size : a, b = b < a ? a : b > size ? size : b;
            y = tp__slice_every(n, y, axis, a, step, (b - a + step - 1) / step);
        } else {
            a = a < 0 ? -1 : a > size - 1 ? size - 1 : a, b = b < -1 ? -1 : b > a ? a : b;
            y = tp__slice_every(n, y, axis, a, step, (a - b - step - 1) / -step);
        }
        if (n->importer->status != TP_OK) return;
    }
    tp__import_node_set_output(n, 0, y == x ? tp_identity(x) : y);
}

/* Pads with a constant. The op's value is a float32: one that this cannot be is selected where a pad of ones has its zeros. */
static tp_node *tp__pad_constant(tp__import_node *n, tp_node *y, const int64_t *before, const int64_t *after,
                                 const tp_tensor *v, float value)
{
    bool fits = !v || v->dtype != y->dtype;
    if (!fits && tp_dtype_is_float(v->dtype)) fits = !(fabs(tp_tensor_get(v, 0) - (double)value) > 0);
    else if (!fits) fits = tp__known_int(v, 0) <= 1 << 24 && tp__known_int(v, 0) >= -(1 << 24);
    if (fits) return tp_pad(y, before, after, TP_PAD_CONSTANT, value);
    tp_node *inside = tp_pad(tp_ones_like(y), before, after, TP_PAD_CONSTANT, 0.0f);
    inside = tp_not_equal(inside, tp__constant_like(y, 0));
    y = tp_pad(y, before, after, TP_PAD_CONSTANT, 0.0f);
    tp_node *number = tp_constant(n->importer->graph[n->importer->graph_index], v); /* may have dimensions of 1 */
    return tp_select(inside, y, tp_reshape_to(number, tp_make_shape_n(0, NULL)));
}

static void tp__import_pad(tp__import_node *n)
{
    int64_t pads[TP__ON_INTS], axes[TP__ON_INTS], before[TP_MAX_DIMS] = {0}, after[TP_MAX_DIMS] = {0};
    tp_node *x = tp__import_node_input(n, 0), *y = x;
    const int count = tp__import_node_ints(n, "pads", 1, pads), n_axes = tp__import_node_ints(n, "", 3, axes);
    const char *mode = tp__import_node_string(n, "mode", "constant");
    const tp_tensor *v = tp__import_node_has(n, 2) ? tp__import_node_known_number(n, 2) : NULL;
    const float value = v ? (float)tp_tensor_get(v, 0) : tp__import_node_float(n, "value", 0.0f);
    const int k = n_axes >= 0 ? n_axes : x->shape.ndim;
    bool negative = false, any = false;
    if (n->importer->status != TP_OK) return;
    if (count != 2 * k) {
        tp__on_fail(n, TP_ERR_FORMAT, "Pad has %d numbers for %d axes", count, k);
        return;
    }
    for (int i = 0; i < k; i++) {
        const int d = tp__import_node_axis(n, n_axes >= 0 ? axes[i] : i, x->shape.ndim);
        before[d] = pads[i], after[d] = pads[i + k];
        if (pads[i] > TP__IMPORT_MAX || pads[i] < -TP__IMPORT_MAX || pads[i + k] > TP__IMPORT_MAX ||
            pads[i + k] < -TP__IMPORT_MAX) {
            tp__import_node_unsupported(n, "pads that large");
            return;
        }
        negative |= pads[i] < 0 || pads[i + k] < 0;
        any |= pads[i] || pads[i + k];
    }
    if (n->importer->status != TP_OK) return;
    for (int d = 0; d < x->shape.ndim && negative; d++) { /* a negative padding crops */
        const int64_t a = before[d] < 0 ? -before[d] : 0, b = after[d] < 0 ? -after[d] : 0;
        if (a || b) y = tp__slice_from(y, d, a, -1 - b);
        before[d] = before[d] < 0 ? 0 : before[d], after[d] = after[d] < 0 ? 0 : after[d];
    }
    if (strcmp(mode, "constant") == 0) y = tp__pad_constant(n, y, before, after, v, value);
    else if (strcmp(mode, "reflect") == 0) y = tp_pad(y, before, after, TP_PAD_REFLECT, 0.0f);
    else if (strcmp(mode, "edge") != 0 && strcmp(mode, "wrap") != 0) tp__import_node_unsupported(n, "that mode");
    else /* modes edge and wrap: gather, with the index of each element */
        for (int d = 0; d < x->shape.ndim; d++) {
            if (!before[d] && !after[d]) continue; /* its size, such as the batch, may be unknown */
            const int64_t size = tp__import_node_dim(n, y, d), all = before[d] + size + after[d];
            int64_t *list;
            if (all > 1 << 24 || size < 1) {
                tp__import_node_unsupported(n, "those pads");
                return;
            }
            if (!(list = tp__import_node_list(n, all))) return;
            for (int64_t i = 0; i < all; i++) {
                const int64_t at = i - before[d];
                list[i] = mode[0] == 'w' ? ((at % size) + size) % size : at < 0 ? 0 : at >= size ? size - 1 : at;
            }
            y = tp__take(y, tp__index_list(n, list, all), d);
        }
    tp__import_node_set_output(n, 0, any ? y : tp_identity(x));
}

static void tp__import_tile(tp__import_node *n)
{
    int64_t list[TP__ON_INTS];
    tp_node *x = tp__import_node_input(n, 0);
    const int count = tp__import_node_ints(n, "", 1, list);
    if (n->importer->status != TP_OK) return;
    if (count != x->shape.ndim)
        tp__on_fail(n, TP_ERR_FORMAT, "Tile has %d repeats for %d dimensions", count, x->shape.ndim);
    else tp__import_node_set_output(n, 0, count ? tp_tile(x, list) : tp_identity(x));
}

static void tp__import_expand(tp__import_node *n)
{
    int64_t list[TP__ON_INTS];
    tp_node *x = tp__import_node_input(n, 0);
    const int count = tp__import_node_ints(n, "", 1, list);
    tp_node *y = count < 0 ? NULL : tp__import_node_expand(n, x, list, count);
    if (y) tp__import_node_set_output(n, 0, y == x ? tp_identity(x) : y);
}

/* -- picking elements */

/* The size of an axis of x, of the type of index. */
static tp_node *tp__size_of_axis(tp__import_node *n, tp_node *index, tp_node *x, int axis)
{
    if (tp_is_poison(x) || x->shape.dim[axis] >= 0) return tp__constant_like(index, (double)x->shape.dim[axis]);
    /* it is known only at run time */
    tp_node *zeros =
        tp__importer_zeros_along(n->importer, tp__importer_symbol(n->importer, x, axis), index->dtype, 0, 1);
    return zeros ? tp_sum(tp_ones_like(zeros)) : tp__constant_like(index, (double)tp__import_node_dim(n, x, axis));
}
/* Converts indices into an axis of x, which may be negative (counted from the end), to indices >= 0. */
static tp_node *tp__index_from_start(tp__import_node *n, tp_node *index, tp_node *x, int axis)
{
    tp_node *counted = tp_add(index, tp__size_of_axis(n, index, x, axis));
    return tp_select(tp_less(index, tp__constant_like(index, 0)), counted, index);
}

static void tp__import_gather(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0), *index = tp__import_node_input(n, 1);
    const int axis = tp__import_node_axis(n, tp__import_node_int(n, "axis", 0), x->shape.ndim), k = index->shape.ndim;
    const tp_tensor *known = tp__import_node_known(n, 1);
    bool negative = !known;
    for (int64_t i = 0; known && i < tp_tensor_size(known); i++) negative |= tp__known_int(known, i) < 0;
    if (n->importer->status != TP_OK) return;
    if (negative) index = tp__index_from_start(n, index, x, axis);
    /* Permutes (index.., rest..): moves the first `axis` dimensions of rest to the front. */
    tp_node *y = tp_gather(tp__move_axis(x, axis, 0), index);
    int perm[TP_MAX_DIMS];
    if (tp_is_poison(y) || axis == 0) {
        tp__import_node_set_output(n, 0, y);
        return;
    }
    for (int d = 0; d < y->shape.ndim; d++) perm[d] = d < axis ? k + d : d < axis + k ? d - axis : d;
    tp__import_node_set_output(n, 0, tp_transpose(y, perm, y->shape.ndim));
}

static tp_node *tp__positions(tp__import_node *n, const tp_node *x, int64_t size, int axis);
/* Checks numbers of the index that the file gives: every step-th one from `first` on counts along an axis of x. Returns false if they or
 * the size of the axis are known at run time only, and after an error. */
static bool tp__index_is_known(tp__import_node *n, const tp_node *x, int axis, int64_t first, int64_t step)
{
    const tp_tensor *index = tp__import_node_known(n, 1);
    const int64_t size = x->shape.dim[axis];
    if (!index || size < 0) return false;
    for (int64_t i = first; i < tp_tensor_size(index); i += step) {
        const int64_t at = tp__known_int(index, i);
        if (at >= -size && at < size) continue;
        tp__on_fail(n, TP_ERR_FORMAT, "%s takes number %lld along dimension %d, which has %lld", n->op, (long long)at,
                    axis, (long long)size);
        return false;
    }
    return true;
}
/* Lets the run fail where an index, counted from the start of an axis of x, is outside of the axis: such an index, and 0 for the others, is
 * gathered from a single 0, which is added to the index. */
static tp_node *tp__index_inside(tp__import_node *n, tp_node *index, tp_node *x, int axis)
{
    if (tp_is_poison(x) || tp_is_poison(index)) return index;
    tp_node *none = tp__constant_like(index, 0);
    tp_node *size = tp__size_of_axis(n, index, x, axis);
    tp_node *low = tp_less(index, none), *high = tp_greater_equal(index, size), *either = tp_logical_or(low, high);
    tp_node *outside = tp_select(either, index, none), *zero = tp__positions(n, index, 1, 3);
    return tp_add(index, tp_gather(zero, outside));
}

/* For GatherElements and ScatterElements: computes the index in the flattened x for each element of an index. is_checked: what is
 * outside of the axis needs no check. */
static tp_node *tp__flat_elements(tp__import_node *n, tp_node *x, tp_node *index, int axis, bool is_checked)
{
    int64_t stride[TP_MAX_DIMS + 1], at = 0, size = 1;
    tp_tensor base;
    memset(&base, 0, sizeof base);
    stride[x->shape.ndim] = 1;
    for (int d = x->shape.ndim - 1; d > 0; d--) stride[d] = stride[d + 1] * tp__import_node_dim(n, x, d);
    for (int d = 0; d < index->shape.ndim; d++) size *= tp__import_node_dim(n, index, d);
    if (n->importer->status != TP_OK) return index;
    if (index->shape.ndim != x->shape.ndim || size > 1 << 26) {
        tp__import_node_unsupported(n, "an index of that shape");
        return index;
    }
    for (int d = 0; d < x->shape.ndim; d++)
        if (d != axis && x->shape.dim[d] >= 0 && index->shape.dim[d] > x->shape.dim[d]) {
            tp__on_fail(n, TP_ERR_FORMAT, "%s has an index with %lld elements along dimension %d, which has %lld",
                        n->op, (long long)index->shape.dim[d], d, (long long)x->shape.dim[d]);
            return index;
        }
    is_checked = is_checked || tp__index_is_known(n, x, axis, 0, 1);
    if (n->importer->status != TP_OK || !tp__import_node_spend(n, (double)size, 16.0 * (double)size)) return index;
    if (tp_tensor_resize(&base, TP_I64, index->shape) != TP_OK) return tp__importer_nomem(n->importer), index;
    for (int64_t i = 0; i < size; i++) {
        int64_t index_left = i;
        at = 0;
        for (int d = index->shape.ndim - 1; d >= 0; d--) {
            if (d != axis) at += index_left % index->shape.dim[d] * stride[d + 1];
            index_left /= index->shape.dim[d];
        }
        ((int64_t *)base.data)[i] = at;
    }
    tp_node *b = tp_constant(tp_node_graph(x), &base);
    tp_tensor_free(&base);
    index = tp__index_from_start(n, tp__cast_if_needed(index, TP_I64), x, axis);
    if (!is_checked) index = tp__index_inside(n, index, x, axis);
    return tp_flatten(tp_add(tp_mul(index, tp__constant_like(index, (double)stride[axis + 1])), b));
}

static void tp__import_gather_elements(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0), *index = tp__import_node_input(n, 1);
    const int axis = tp__import_node_axis(n, tp__import_node_int(n, "axis", 0), x->shape.ndim);
    if (n->importer->status != TP_OK) return;
    bool same_other_sizes = x->shape.ndim == index->shape.ndim;
    for (int d = 0; d < x->shape.ndim && same_other_sizes; d++) {
        const int64_t a = x->shape.dim[d], b = index->shape.dim[d];
        same_other_sizes = d == axis || a == b || a < 0 || b < 0;
    }
    if (same_other_sizes && tp_dtype_is_float(x->dtype)) { /* tp__op_take_last gathers elements along the last axis */
        const int last_axis = x->shape.ndim - 1;
        const bool is_known = tp__index_is_known(n, x, axis, 0, 1);
        tp_node *in[2] = {tp__move_axis(x, axis, last_axis), NULL};
        index = tp__index_from_start(n, index, x, axis);
        if (index->dtype == TP_I64 && !is_known) { /* one that int32 does not have stays outside of the axis */
            index = tp_minimum(index, tp__constant_like(index, INT32_MAX));
            index = tp_maximum(index, tp__constant_like(index, -1));
        }
        in[1] = tp__move_axis(tp__cast_if_needed(index, TP_I32), axis, last_axis);
        tp__import_node_set_output(
            n, 0, tp__move_axis(tp_apply(tp_node_graph(x), &tp__op_take_last, in, 2, NULL), last_axis, axis));
        return;
    }
    tp_node *flat = tp__flat_elements(n, x, index, axis, axis == 0); /* then the gather checks it */
    if (n->importer->status == TP_OK)
        tp__import_node_set_output(n, 0, tp_reshape_to(tp_gather(tp_flatten(x), flat), index->shape));
}

/* For GatherND and ScatterND: merges the leading axes of x (batch axes and indexed axes) and returns the row for each index
 * vector. gathers: what gathers the rows checks that they are there. */
static tp_node *tp__flat_places(tp__import_node *n, tp_node *x, tp_node *index, int64_t batched, bool gathers,
                                int64_t *rows, int *used)
{
    const int batch = batched < 0 || batched > TP_MAX_DIMS ? -1 : (int)batched;
    const int last_axis = index->shape.ndim - 1;
    const int64_t k = last_axis >= 0 ? tp__import_node_dim(n, index, last_axis) : 0;
    int64_t stride[TP_MAX_DIMS], count = 1, row_size = 1;
    tp_tensor t;
    memset(&t, 0, sizeof t);
    if (n->importer->status != TP_OK) return index;
    if (last_axis < 0 || k < 1 || k > TP_MAX_DIMS || batch < 0 || batch + k > x->shape.ndim || batch > last_axis) {
        tp__on_fail(n, TP_ERR_FORMAT, "%s has places of %lld numbers in a value with %d dimensions", n->op,
                    (long long)k, x->shape.ndim);
        return index;
    }
    *used = batch + (int)k;
    for (int d = *used - 1; d >= 0; d--) {
        stride[d] = *rows;
        *rows *= tp__import_node_dim(n, x, d);
    }
    for (int d = 0; d < last_axis; d++) *(d < batch ? &count : &row_size) *= tp__import_node_dim(n, index, d);
    if (n->importer->status != TP_OK) return index;
    tp_node *place = tp__cast_if_needed(index, TP_I64), *row = NULL;
    for (int j = 0; j < k; j++) {
        tp_node *index_of_axis = tp_squeeze(tp__slice_from(place, last_axis, j, 1), last_axis);
        const bool is_known = tp__index_is_known(n, x, batch + j, j, k);
        index_of_axis = tp__index_from_start(n, index_of_axis, x, batch + j);
        if (!is_known && !(gathers && batch + j == 0)) index_of_axis = tp__index_inside(n, index_of_axis, x, batch + j);
        if (n->importer->status != TP_OK) return index;
        index_of_axis = tp_mul(index_of_axis, tp__constant_like(index_of_axis, (double)stride[batch + j]));
        row = row ? tp_add(row, index_of_axis) : index_of_axis;
    }
    row = tp_flatten(row);
    if (batch > 0) { /* adds the first row of each batch element to the indices */
        if (count * row_size > TP__IMPORT_MAX) return tp__import_node_unsupported(n, "that many places");
        if (!tp__import_node_spend(n, (double)(count * row_size), 16.0 * (double)(count * row_size))) return index;
        if (tp_tensor_resize(&t, TP_I64, tp__shape1(count * row_size)) != TP_OK)
            return tp__importer_nomem(n->importer), index;
        for (int64_t i = 0; i < count * row_size; i++) ((int64_t *)t.data)[i] = i / row_size * stride[batch - 1];
        row = tp_add(row, tp_constant(tp_node_graph(x), &t));
        tp_tensor_free(&t);
    }
    return row;
}

/* Merges the first `used` axes of x, which have `rows` elements together, into one axis; x has room for it if none is merged. */
static tp_node *tp__merged(tp_node *x, int64_t rows, int used)
{
    tp_shape s = x->shape;
    s.ndim = x->shape.ndim - used + 1;
    s.dim[0] = rows;
    for (int d = 1; d < s.ndim; d++) s.dim[d] = x->shape.dim[used + d - 1];
    return tp_reshape_to(x, s);
}

static void tp__import_gather_nd(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0), *index = tp__import_node_input(n, 1);
    int64_t rows = 1;
    int used = 0;
    tp_node *row = tp__flat_places(n, x, index, tp__import_node_int(n, "batch_dims", 0), true, &rows, &used);
    if (n->importer->status != TP_OK) return;
    tp_shape s = index->shape; /* all dimensions of index but the last, then the rest of x */
    s.ndim--;
    if (s.ndim + x->shape.ndim - used > TP_MAX_DIMS) {
        tp__on_fail(n, TP_ERR_UNSUPPORTED, "%s makes more than %d dimensions", n->op, TP_MAX_DIMS);
        return;
    }
    for (int d = used; d < x->shape.ndim; d++) s.dim[s.ndim++] = x->shape.dim[d];
    tp__import_node_set_output(n, 0, tp_reshape_to(tp_gather(tp__merged(x, rows, used), row), s));
}

/* The sum of the updates of each row, in the type of x. The op of the sums is for floats: float64 has all int32, and the halves of an
 * int64. */
static tp_node *tp__scatter_sum(tp_node *updates, tp_node *row, tp_node *x)
{
    tp_node *in[3] = {updates, row, x};
    const tp_dtype d = x->dtype;
    const bool halves = d == TP_I64 && updates->dtype == TP_I64;
    if (tp_is_poison(x) || tp_is_poison(updates)) return x;
    tp_node *base = halves ? tp__constant_like(updates, 4294967296.0) : NULL, *high = NULL;
    if (!tp_dtype_is_float(d)) in[2] = tp__cast_if_needed(x, TP_F64);
    if (halves) {
        in[0] = tp_cast(tp_floordiv(updates, base), TP_F64);
        high = tp_mul(tp_cast(tp_apply(tp_node_graph(x), &tp__op_gather_grad, in, 3, NULL), d), base);
        updates = tp_mod(updates, base);
    }
    in[0] = tp_dtype_is_float(d) ? updates : tp__cast_if_needed(updates, TP_F64);
    tp_node *sum = tp__cast_if_needed(tp_apply(tp_node_graph(x), &tp__op_gather_grad, in, 3, NULL), d);
    return halves ? tp_add(sum, high) : sum;
}
/* Builds ScatterElements and ScatterND: rows are replaced (each at most once), added, or combined by max, min or mul. Rows are added
 * by the op that is the gradient of gather. */
static tp_node *tp__scattered(tp__import_node *n, tp_node *x, tp_node *row, tp_node *updates)
{
    const char *reduction = tp__import_node_string(n, "reduction", "none");
    tp_node *(*mix)(tp_node *, tp_node *) = strcmp(reduction, "max") == 0   ? tp_maximum
                                            : strcmp(reduction, "min") == 0 ? tp_minimum
                                            : strcmp(reduction, "mul") == 0 ? tp_mul
                                                                            : NULL;
    if (mix) { /* with a reduction: apply the updates to the rows one after the other */
        const int64_t count = tp__import_node_dim(n, row, 0), rows = tp__import_node_dim(n, x, 0);
        if (n->importer->status != TP_OK || count > 256)
            return tp__import_node_unsupported(n, "that many updates to mix");
        tp_node *place = tp__positions(n, row, rows, 3);
        for (int64_t i = 0; i < count && !tp_is_poison(x); i++) {
            tp_node *is_target = tp__with_ones(tp_equal(place, tp__slice_from(row, 0, i, 1)), 1, x->shape.ndim - 1);
            x = tp_select(is_target, mix(x, tp__slice_from(updates, 0, i, 1)), x);
        }
        return x;
    }
    if (strcmp(reduction, "none") != 0 && strcmp(reduction, "add") != 0)
        return tp__import_node_unsupported(n, reduction);
    const tp_dtype d = x->dtype;
    tp_node *w = tp__bytes_to_int32(x), *sum = tp__scatter_sum(tp__bytes_to_int32(updates), row, w);
    if (reduction[0] == 'a') return tp__cast_if_needed(tp_add(w, sum), d);
    tp_node *ones = tp_ones_like(tp_dtype_is_float(d) ? updates : tp__cast_if_needed(updates, TP_F32));
    tp_node *touched = tp__scatter_sum(ones, row, tp_dtype_is_float(d) ? x : tp__cast_if_needed(x, TP_F32));
    return tp__cast_if_needed(tp_select(tp_greater(touched, tp__constant_like(touched, 0)), sum, w), d);
}
static void tp__import_scatter_elements(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0), *index = tp__import_node_input(n, 1),
            *updates = tp__import_node_input(n, 2);
    const int axis = tp__import_node_axis(n, tp__import_node_int(n, "axis", 0), x->shape.ndim);
    if (n->importer->status != TP_OK) return;
    tp_node *flat = tp__flat_elements(n, x, index, axis, false);
    if (n->importer->status != TP_OK) return;
    updates = tp_flatten(updates);
    tp_node *elements = tp_flatten(x);
    if (axis != 0 && x->shape.dim[0] < 0)
        flat = tp__index_inside(n, flat, elements, 0); /* x may lack a row of the index */
    tp__import_node_set_output(n, 0, tp_reshape_like(tp__scattered(n, elements, flat, updates), x));
}
static void tp__import_scatter_nd(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0), *updates = tp__import_node_input(n, 2);
    int64_t rows = 1, count = 1;
    int used = 0;
    tp_node *index = tp__import_node_input(n, 1), *row = tp__flat_places(n, x, index, 0, false, &rows, &used);
    for (int d = 0; d < index->shape.ndim - 1; d++) count *= tp__import_node_dim(n, index, d);
    if (n->importer->status != TP_OK || tp_is_poison(updates)) return;
    const int wanted = index->shape.ndim - 1 + x->shape.ndim - used;
    if (updates->shape.ndim != wanted || wanted > TP_MAX_DIMS - (index->shape.ndim == 1)) {
        tp__on_fail(n, TP_ERR_FORMAT,
                    "%s has updates with %d dimensions; its places and what it changes ask for %d, of at most %d",
                    n->op, updates->shape.ndim, wanted, TP_MAX_DIMS - (index->shape.ndim == 1));
        return;
    }
    updates = tp__merged(updates, count, index->shape.ndim - 1);
    tp_node *merged = tp__merged(x, rows, used);
    tp__import_node_set_output(n, 0, tp_reshape_like(tp__scattered(n, merged, row, updates), x));
}

static void tp__import_one_hot(tp__import_node *n)
{
    tp_node *index = tp__cast_if_needed(tp__import_node_input(n, 0), TP_I64), *values = tp__import_node_input(n, 2);
    const tp_tensor *depth = tp__import_node_known_number(n, 1);
    if (!depth) return;
    const int64_t k = tp__known_int(depth, 0);
    const int axis = tp__import_node_axis(n, tp__import_node_int(n, "axis", -1), index->shape.ndim + 1);
    if (n->importer->status != TP_OK) return;
    if (k < 1 || k > INT_MAX) {
        tp__import_node_unsupported(n, "that depth");
        return;
    }
    /* Negative indices count from the end. Before opset 11 the specification gives them off_value everywhere, but ONNX Runtime
     * counts them then, too. */
    tp_node *counted = tp_add(index, tp__constant_like(index, (double)k));
    index = tp_select(tp_less(index, tp__constant_like(index, 0)), counted, index);
    tp_node *encoded = tp_one_hot(index, k, 1.0f, 0.0f), *values_computed = tp__bytes_to_int32(values);
    encoded = tp__move_axis(tp_greater(encoded, tp__constant_like(encoded, 0.5)), encoded->shape.ndim - 1, axis);
    tp_node *off = tp_squeeze(tp__slice_from(values_computed, 0, 0, 1), 0);
    tp_node *on = tp_squeeze(tp__slice_from(values_computed, 0, 1, 1), 0);
    tp__import_node_set_output(n, 0, tp__cast_if_needed(tp_select(encoded, on, off), values->dtype));
}

static void tp__import_trilu(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0), *w = tp__bytes_to_int32(x);
    const tp_tensor *kt = tp__import_node_has(n, 1) ? tp__import_node_known_number(n, 1) : NULL;
    const int64_t k = kt ? tp__known_int(kt, 0) : 0;
    const bool upper = tp__import_node_int(n, "upper", 1) != 0;
    tp_tensor t;
    memset(&t, 0, sizeof t);
    if (!tp__import_node_rank(n, x, 2, TP_MAX_DIMS)) return;
    const int64_t dim[2] = {tp__import_node_dim(n, x, x->shape.ndim - 2), tp__import_node_dim(n, x, x->shape.ndim - 1)};
    if (n->importer->status != TP_OK) return;
    if (dim[0] * dim[1] > TP__IMPORT_MAX) {
        tp__import_node_unsupported(n, "a matrix that large");
        return;
    }
    if (!tp__import_node_spend(n, (double)(dim[0] * dim[1]), 2.0 * (double)(dim[0] * dim[1]))) return;
    if (tp_tensor_resize(&t, TP_BOOL, tp_make_shape_n(2, dim)) != TP_OK) {
        tp__importer_nomem(n->importer);
        return;
    }
    for (int64_t i = 0; i < dim[0] * dim[1]; i++)
        ((bool *)t.data)[i] = upper ? i % dim[1] - i / dim[1] >= k : i % dim[1] - i / dim[1] <= k;
    tp_node *zeros = tp_zeros_like(w);
    tp__import_node_set_output(n, 0,
                               tp__cast_if_needed(tp_select(tp_constant(tp_node_graph(x), &t), w, zeros), x->dtype));
    tp_tensor_free(&t);
}

static void tp__import_eye_like(tp__import_node *n)
{
    const tp_node *x = tp__import_node_input(n, 0);
    const int64_t k = tp__import_node_int(n, "k", 0), elem = tp__import_node_int(n, "dtype", 0);
    if (!tp__import_node_rank(n, x, 2, 2)) return;
    const int64_t dim[2] = {tp__import_node_dim(n, x, 0), tp__import_node_dim(n, x, 1)};
    if (n->importer->status != TP_OK) return;
    if (elem && !tp__import_dtype(elem)) {
        tp__import_node_unsupported(n, tp__import_dtype_name(elem));
        return;
    }
    tp_tensor *t = tp__import_node_value(n, 0, elem ? tp__import_dtype(elem) : x->dtype, tp_make_shape_n(2, dim));
    for (int64_t i = 0; t && i < dim[0] * dim[1]; i++) tp_tensor_set(t, i, i % dim[1] - i / dim[1] == k ? 1.0 : 0.0);
}

static void tp__import_depth_space(tp__import_node *n) /* Builds DepthToSpace and SpaceToDepth. */
{
    /* orders of the six axes: for channels first and last, for each op, for the modes DCR and CRD */
    static const int order[2][2][2][6] = {
        {{{0, 3, 4, 1, 5, 2}, {0, 1, 4, 2, 5, 3}}, {{0, 3, 5, 1, 2, 4}, {0, 1, 3, 5, 2, 4}}},
        {{{0, 1, 3, 2, 4, 5}, {0, 1, 4, 2, 5, 3}}, {{0, 1, 3, 2, 4, 5}, {0, 1, 3, 5, 2, 4}}}};
    tp_node *x = tp__import_node_input(n, 0);
    const bool to_space = n->op[0] == 'D',
               by_column = strcmp(tp__import_node_choice(n, "mode", "DCR", "DCR CRD"), "CRD") == 0;
    const bool last = n->channels_last;
    const int64_t b = tp__import_node_int(n, "blocksize", 0);
    if (!tp__import_node_rank(n, x, 4, 4)) return;
    const int h = tp__import_node_space(n);
    const int64_t N = x->shape.dim[0], C = tp__import_node_dim(n, x, tp__import_node_channels(n, x)),
                  H = tp__import_node_dim(n, x, h), W = tp__import_node_dim(n, x, h + 1);
    if (n->importer->status != TP_OK) return;
    if (b < 1 || b > 4096 || (to_space ? C % (b * b) : H % b || W % b)) {
        tp__on_fail(n, TP_ERR_FORMAT, "%s with blocks of %lld", n->op, (long long)b);
        return;
    }
    /* the six axes, and the four of the result: for channels first, then for channels last */
    const int64_t c = C / (b * b), to_dcr[2][6] = {{N, b, b, c, H, W}, {N, H, W, b, b, c}},
                  to_crd[2][6] = {{N, c, b, b, H, W}, {N, H, W, c, b, b}},
                  to_depth[2][6] = {{N, C, H / b, b, W / b, b}, {N, H / b, b, W / b, b, C}},
                  space[2][4] = {{N, c, H * b, W * b}, {N, H * b, W * b, c}}, deep = tp__limited_product(C, b * b),
                  depth[2][4] = {{N, deep, H / b, W / b}, {N, H / b, W / b, deep}};
    const int64_t *axes = !to_space ? to_depth[last] : by_column ? to_crd[last] : to_dcr[last];
    tp_node *y = tp_transpose(tp_reshape_to(x, tp_make_shape_n(6, axes)), order[last][!to_space][by_column], 6);
    tp__import_node_set_output(n, 0, tp_reshape_to(y, tp_make_shape_n(4, to_space ? space[last] : depth[last])));
}

static void tp__import_center_crop_pad(tp__import_node *n)
{
    int64_t size[TP__ON_INTS], axes[TP__ON_INTS], before[TP_MAX_DIMS] = {0}, after[TP_MAX_DIMS] = {0};
    tp_node *x = tp__import_node_input(n, 0), *y = x;
    const int count = tp__import_node_ints(n, "", 1, size), n_axes = tp__import_node_ints(n, "axes", -1, axes);
    bool flag[TP_MAX_DIMS];
    if (n->importer->status != TP_OK) return;
    if (count != (n_axes >= 0 ? n_axes : x->shape.ndim)) {
        tp__on_fail(n, TP_ERR_FORMAT, "%s has %d sizes for %d axes", n->op, count,
                    n_axes >= 0 ? n_axes : x->shape.ndim);
        return;
    }
    if (n_axes >= 0 && !tp__import_node_axes(n, axes, n_axes, x->shape.ndim, flag)) return;
    for (int i = 0; i < count; i++) {
        const int d = tp__import_node_axis(n, n_axes >= 0 ? axes[i] : i, x->shape.ndim);
        const int64_t old_size = tp__import_node_dim(n, x, d), new_size = size[i];
        if (n->importer->status != TP_OK) return;
        if (new_size < 0 || new_size > TP__IMPORT_LAST) {
            tp__on_fail(n, TP_ERR_FORMAT, "%s to a size of %lld", n->op, (long long)new_size);
            return;
        }
        if (old_size > new_size) y = tp__slice_from(y, d, (old_size - new_size) / 2, new_size);
        else before[d] = (new_size - old_size) / 2, after[d] = new_size - old_size - before[d];
    }
    if (n->importer->status == TP_OK) tp__import_node_set_output(n, 0, tp_pad(y, before, after, TP_PAD_CONSTANT, 0.0f));
}

/* -- resizing: axis after axis. The nearest elements are gathered; for the other modes the axis is multiplied by a matrix of
 *    weights, so that an element that is infinite or NaN makes all of its line NaN, also where its weight is 0. */

typedef struct tp__resize {
    const char *mode, *coordinate_mode, *nearest;
    float a; /* coefficient of the cubic filter */
    bool outside, antialias;
    double scale, start, end;
    int64_t in, out;
} tp__resize;

static double tp__resize_weight(const tp__resize *r, double x)
{
    const double a = (double)r->a;
    x = fabs(x);
    if (r->mode[0] == 'l') return x < 1 ? 1 - x : 0;
    return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : x < 2 ? ((x - 5) * x + 8) * x * a - 4 * a : 0;
}

/* Computes which place of the input output element i has. Returns false if it is outside the image. */
static bool tp__resize_place(const tp__resize *r, int64_t i, double *place)
{
    const double in = (double)r->in, out = (double)r->out, pixel = (double)i, s = r->scale;
    double x = (pixel + 0.5) / s - 0.5;
    bool inside = true;
    if (strcmp(r->coordinate_mode, "asymmetric") == 0) x = pixel / s;
    else if (strcmp(r->coordinate_mode, "align_corners") == 0) x = s * in == 1 ? 0 : pixel * (in - 1) / (s * in - 1);
    else if (strcmp(r->coordinate_mode, "pytorch_half_pixel") == 0) x = r->out == 1 ? -0.5 : x;
    else if (strcmp(r->coordinate_mode, "tf_half_pixel_for_nn") == 0) x = (pixel + 0.5) / s;
    else if (strcmp(r->coordinate_mode, "half_pixel_symmetric") == 0) x += in / 2 * (1 - out / (s * in));
    else if (strcmp(r->coordinate_mode, "tf_crop_and_resize") == 0) {
        x = r->out > 1 ? r->start * (in - 1) + pixel * (r->end - r->start) * (in - 1) / (out - 1)
                       : 0.5 * (r->start + r->end) * (in - 1);
        inside = x >= 0 && x <= in - 1;
    }
    *place = x;
    return inside;
}
static double tp__resize_nearest(const tp__resize *r,
                                 double x) /* the element of the input that is nearest to a place */
{
    const double last = (double)r->in - 1, at = strcmp(r->nearest, "floor") == 0               ? floor(x)
                                                : strcmp(r->nearest, "ceil") == 0              ? ceil(x)
                                                : strcmp(r->nearest, "round_prefer_ceil") == 0 ? floor(x + 0.5)
                                                                                               : ceil(x - 0.5);
    return at < 0 ? 0 : at > last ? last : at;
}
/* Computes a row of the resize matrix: the weights of the input elements in an output element. */
static void tp__resize_row(const tp__resize *r, double x, double *row)
{
    const double s = r->scale;
    double sum = 0;
    for (int64_t j = 0; j < r->in; j++) row[j] = 0;
    const double shrink = r->antialias && s < 1 ? s : 1, reach = (r->mode[0] == 'l' ? 1 : 2) / shrink;
    const int64_t last = (int64_t)ceil(x + reach); /* tp__import_resize limits x and the scale */
    for (int64_t at = (int64_t)floor(x - reach); at <= last; at++) {
        const double w = tp__resize_weight(r, ((double)at - x) * shrink);
        if (r->outside && (at < 0 || at >= r->in)) continue;
        row[at < 0 ? 0 : at >= r->in ? r->in - 1 : at] += w;
        sum += w;
    }
    for (int64_t j = 0; j < r->in && sum != 0; j++) row[j] /= sum;
}

/* An unknown size must be the size of the same dimension of x, such as the batch. */
static bool tp__resize_keeps_size(tp__import_node *n, const tp_node *x, int axis, int64_t size)
{
    const tp__symbol *s = tp__importer_symbol_of(n->importer, size);
    const int of_file = tp__import_node_file_axis(n, axis, x->shape.ndim);
    if (s && s->times == 1 && s->axis == of_file && (of_file < 2 || s->node == x || tp__has_nhwc(s->node) == x))
        return true;
    tp__on_fail(n, TP_ERR_UNSUPPORTED, "%s to a size that is not known when the graph is built; %s", n->op,
                tp__importer_missing(n->importer, s ? s->node : NULL, s ? s->axis : 0));
    return false;
}

/* Computes the sizes that Resize gives to the axes of the file, from the sizes or scales of k axes. False: a size is unknown or is no
 * whole multiple of a scale. Sizes that remain are TP_ANY where they are not known. */
static bool tp__resize_targets(tp__import_node *n, const tp_node *x, int k, const int64_t *axes, const int64_t *sizes,
                               const float *scales, int64_t *target)
{
    for (int d = 0; d < x->shape.ndim; d++) target[d] = x->shape.dim[tp__import_node_place(n, d, x->shape.ndim)];
    for (int i = 0; i < k; i++) {
        const int axis = tp__import_node_axis(n, axes ? axes[i] : i, x->shape.ndim);
        const int of_file = tp__import_node_file_axis(n, axis, x->shape.ndim);
        const int64_t size = x->shape.dim[axis];
        if (n->importer->status != TP_OK) return false;
        if (sizes && tp__is_any(sizes[i])) {
            if (!tp__resize_keeps_size(n, x, axis, sizes[i])) return false;
        } else if (sizes) target[of_file] = sizes[i];
        else if (scales[i] != 1.0f) {
            const double y = size < 0 ? -1 : (double)scales[i] * (double)size;
            if (!(y >= 1) || y > 1 << 20 || y != floor(y)) return false;
            target[of_file] = (int64_t)y;
        }
    }
    return true;
}

/* Resizes height and width of images by an op of tp_graph.h, in the modes that it has. Returns false in other cases. */
static bool tp__import_resize_image(tp__import_node *n, tp_node *x, const tp__resize *r, const char *policy, int k,
                                    const int64_t *axes, const int64_t *sizes, const float *scales)
{
    tp_resize_attrs a;
    int64_t target[TP_MAX_DIMS];
    memset(&a, 0, sizeof a);
    const bool nearest = r->mode[0] == 'n', half = strcmp(r->coordinate_mode, "half_pixel") == 0;
    const bool corners = strcmp(r->coordinate_mode, "align_corners") == 0,
               plain = strcmp(r->coordinate_mode, "asymmetric") == 0;
    if (x->shape.ndim != 4 || !tp_dtype_is_float(x->dtype)) return false;
    if (r->antialias || r->outside || r->mode[0] == 'c' || !(half || corners || plain)) return false;
    if (nearest && strcmp(r->nearest, plain ? "floor" : "round_prefer_ceil") != 0) return false;
    if (strcmp(policy, "stretch") != 0) return false;
    if (!tp__resize_targets(n, x, k, axes, sizes, scales, target)) return false;
    for (int d = 0; d < 2; d++)
        if (target[d] != x->shape.dim[tp__import_node_place(n, d, 4)]) return false;
    for (int d = 2; d < 4; d++)
        if (target[d] < 1 || target[d] > 1 << 20 || x->shape.dim[tp__import_node_place(n, d, 4)] == 0) return false;
    a.out_h = (int)target[2], a.out_w = (int)target[3];
    a.align_corners = corners;
    a.half_pixel_centers = half;
    a.data_format = n->channels_last ? TP_NHWC : TP_NCHW;
    tp__import_node_set_output(n, 0, nearest ? tp_resize_nearest(x, &a) : tp_resize_bilinear(x, &a));
    return true;
}

/* Reads the scales of `k` axes, from the attribute "scales" or from input number `at`. */
static void tp__resize_scales(tp__import_node *n, int at, int k, float *scales)
{
    const tp_tensor *st = NULL;
    const tp__pb *a = tp__import_node_attr(n, "scales");
    int64_t count = 0;
    if (a) {
        tp__pb m = *a, pack = {NULL, NULL, false};
        uint64_t v;
        if (!tp__import_node_kind(n, "scales", 7)) return;
        for (; tp__pb_number(&m, &pack, 7, 5, &v); count++)
            if (count < k) scales[count] = tp__bits_f32(v);
    } else if ((st = tp__import_node_need(n, at)) != NULL) {
        count = tp_tensor_size(st);
        for (int i = 0; i < k && i < count; i++) scales[i] = (float)tp_tensor_get(st, i);
    }
    if (n->importer->status == TP_OK && count != k)
        tp__on_fail(n, TP_ERR_FORMAT, "%s has %lld scales for %d axes", n->op, (long long)count, k);
}

/* Returns the scale that keeps the aspect ratio; 0 if each axis has its own scale. */
static double tp__resize_common(tp__import_node *n, const tp_node *x, const char *policy, int n_sizes,
                                const int64_t *sizes, int n_axes, const int64_t *axes)
{
    double common = 0;
    for (int i = 0; i < n_sizes && strcmp(policy, "stretch") != 0; i++) {
        const int64_t old_size =
            tp__import_node_dim(n, x, tp__import_node_axis(n, n_axes >= 0 ? axes[i] : i, x->shape.ndim));
        const double s = (double)sizes[i] / (double)(old_size ? old_size : 1);
        if (tp__is_any(sizes[i])) continue;
        if (common == 0 || (strcmp(policy, "not_larger") == 0 ? s < common : s > common)) common = s;
    }
    return common;
}

/* Multiplies an axis of y by a matrix (outputs, inputs). */
static tp_node *tp__resize_product(tp_node *y, const tp_tensor *matrix, int axis)
{
    const int nd = y->shape.ndim;
    tp_node *w = tp_constant(tp_node_graph(y), matrix);
    y = tp__move_axis(y, axis, nd - 1);
    y = nd == 1 ? tp_squeeze(tp_matmul_ex(tp_expand_dims(y, 0), w, false, true), 0) : tp_matmul_ex(y, w, false, true);
    return tp__move_axis(y, nd - 1, axis);
}

/* Resizes one axis of y. *inside says which output elements are inside the image; NULL: all are. It is updated for this axis.
 * Returns NULL after an error. */
static tp_node *tp__resize_axis(tp__import_node *n, tp_node *y, const tp__resize *r, int axis, tp_node **inside)
{
    const int behind = y->shape.ndim - 1 - axis;
    const bool nearest = r->mode[0] == 'n';
    tp_tensor m,
        in; /* the nearest inputs (out), or the matrix (out, in); flags of the outputs that are inside the image */
    memset(&m, 0, sizeof m);
    memset(&in, 0, sizeof in);
    const int64_t dim[2] = {r->out, nearest ? 1 : r->in}, weights = dim[0] * dim[1];
    if (!tp__import_node_spend(n, (double)weights + (r->scale < 1 ? 4.0 / r->scale : 4.0) * (double)r->out,
                               16.0 * (double)(weights + r->out)))
        return NULL;
    double *row = (double *)tp__importer_alloc(n->importer, (size_t)dim[1], sizeof *row);
    bool all_inside = true;
    if (row && tp_tensor_resize(&m, nearest ? TP_I32 : y->dtype, tp_make_shape_n(nearest ? 1 : 2, dim)) == TP_OK &&
        tp_tensor_resize(&in, TP_BOOL, tp__shape1(r->out)) == TP_OK) {
        for (int64_t o = 0; o < r->out; o++) {
            double place;
            const bool is_inside = tp__resize_place(r, o, &place);
            all_inside &= is_inside;
            tp_tensor_set(&in, o, is_inside ? 1.0 : 0.0);
            if (nearest) row[0] = tp__resize_nearest(r, place);
            else tp__resize_row(r, place, row);
            for (int64_t j = 0; j < dim[1]; j++) tp_tensor_set(&m, o * dim[1] + j, row[j]);
        }
        y = nearest ? tp__take(y, tp_constant(tp_node_graph(y), &m), axis) : tp__resize_product(y, &m, axis);
        if (!all_inside) {
            tp_node *is_inside = tp__with_ones(tp_constant(tp_node_graph(y), &in), 1, behind);
            *inside = *inside ? tp_logical_and(*inside, is_inside) : is_inside;
        }
    } else tp__importer_nomem(n->importer);
    tp_tensor_free(&m);
    tp_tensor_free(&in);
    return y;
}

static void tp__resize_read(tp__import_node *n, bool old, tp__resize *r)
{
    r->mode = tp__import_node_choice(n, "mode", "nearest", "nearest linear cubic");
    r->coordinate_mode = tp__import_node_choice(
        n, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel",
        "half_pixel half_pixel_symmetric pytorch_half_pixel align_corners asymmetric tf_half_pixel_for_nn "
        "tf_crop_and_resize");
    r->nearest = tp__import_node_choice(n, "nearest_mode", old ? "floor" : "round_prefer_floor",
                                        "round_prefer_floor round_prefer_ceil floor ceil");
    r->a = tp__import_node_float(n, "cubic_coeff_a", -0.75f);
    r->outside = tp__import_node_int(n, "exclude_outside", 0) != 0;
    r->antialias = tp__import_node_int(n, "antialias", 0) != 0;
}

static void tp__import_resize(tp__import_node *n) /* Builds Resize and Upsample. */
{
    tp_node *x = tp__import_node_input(n, 0), *y = x, *inside = NULL;
    const bool old = n->op[0] == 'U' || n->importer->opset < 11;
    int64_t sizes[TP__ON_INTS], axes[TP__ON_INTS];
    float scales[TP_MAX_DIMS];
    const int nd = x->shape.ndim, at = old ? 1 : 2, n_axes = tp__import_node_ints(n, "axes", -1, axes);
    const int n_sizes = old ? -1 : tp__import_node_ints(n, "", 3, sizes), k = n_axes >= 0 ? n_axes : nd;
    const char *policy =
        tp__import_node_choice(n, "keep_aspect_ratio_policy", "stretch", "stretch not_larger not_smaller");
    const float fill = tp__import_node_float(n, "extrapolation_value", 0.0f);
    const tp_tensor *roi = NULL;
    bool flag[TP_MAX_DIMS];
    tp__resize r;
    memset(&r, 0, sizeof r);
    tp__resize_read(n, old, &r);
    if (n_axes > 0 && !tp__import_node_axes(n, axes, n_axes, nd, flag)) return; /* so k is TP_MAX_DIMS at most */
    if (n_sizes <= 0) tp__resize_scales(n, at, k, scales);
    else if (n_sizes != k) tp__on_fail(n, TP_ERR_FORMAT, "%s has %d sizes for %d axes", n->op, n_sizes, k);
    if (strcmp(r.coordinate_mode, "tf_crop_and_resize") == 0) {
        roi = tp__import_node_need(n, 1);
        if (roi && tp_tensor_size(roi) != 2 * k)
            tp__on_fail(n, TP_ERR_FORMAT, "%s has a roi of %lld numbers", n->op, (long long)tp_tensor_size(roi));
    }
    if (n->importer->status != TP_OK) return;
    if (tp__import_resize_image(n, x, &r, policy, k, n_axes >= 0 ? axes : NULL, n_sizes > 0 ? sizes : NULL, scales))
        return;
    if (n->importer->status != TP_OK) return;
    const double common = tp__resize_common(n, x, policy, n_sizes, sizes, n_axes, axes);
    const tp_dtype d = x->dtype;
    if (!tp_dtype_is_float(d) && (roi || r.mode[0] != 'n')) y = tp__cast_if_needed(y, TP_F64);
    for (int i = 0; i < k; i++) {
        const int axis = tp__import_node_axis(n, n_axes >= 0 ? axes[i] : i, nd);
        if (n->importer->status != TP_OK) return;
        if (n_sizes <= 0 && scales[i] == 1.0f && !roi) continue;
        if (n_sizes > 0 && tp__is_any(sizes[i]) && tp__resize_keeps_size(n, x, axis, sizes[i])) continue;
        r.in = tp__import_node_dim(n, x, axis);
        r.start = roi ? tp_tensor_get(roi, i) : 0, r.end = roi ? tp_tensor_get(roi, i + k) : 1;
        if (n_sizes > 0) {
            r.scale = common > 0 ? common : (double)sizes[i] / (double)(r.in ? r.in : 1);
            r.out = common > 0 ? tp__float_to_int(floor(r.scale * (double)r.in + 0.5), 0, INT64_MAX) : sizes[i];
        } else {
            r.scale = (double)scales[i];
            const double out = floor((double)r.in * (r.end - r.start) * r.scale);
            r.out = out > 0 && out < 1 << 20 ? (int64_t)out : 0;
        }
        if (n->importer->status != TP_OK) return;
        if (r.out == r.in && (r.scale == 1.0 || r.in == 0) && !roi) continue;
        if (r.in < 1 || r.out < 1 || !(r.scale > 0) || r.in > 1 << 20 || r.out > 1 << 20 || r.in * r.out > 1 << 26 ||
            !(r.scale < 1e9) || !(fabs(r.start) < 1e9) || !(fabs(r.end) < 1e9)) {
            tp__on_fail(n, TP_ERR_UNSUPPORTED, "%s from %lld to %lld", n->op, (long long)r.in, (long long)r.out);
            return;
        }
        y = tp__resize_axis(n, y, &r, axis, &inside);
        if (!y) return;
    }
    if (inside) y = tp_select(inside, y, tp__constant_like(y, (double)fill));
    tp__import_node_set_output(n, 0, y == x ? tp_identity(x) : tp__cast_if_needed(y, d));
}

/* Builds GridSample: y = x, bilinear, at grid's coordinates, which are (x, y) in -1 to 1. GridSample's border of zeros is blended with
 * the pixels at the edge; a frame of zeros around the image does the same. */
static void tp__import_grid_sample(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0), *grid = tp__import_node_input(n, 1);
    const char *mode = tp__import_node_string(n, "mode", "bilinear");
    const char *border = tp__import_node_string(n, "padding_mode", "zeros");
    const bool zeros = strcmp(border, "zeros") == 0, corners = tp__import_node_int(n, "align_corners", 0) != 0;
    const int swapped = 3;
    const int64_t frame[4] = {0, 1, 1, 0}, two = 2;
    float scale[2], shift[2];
    if (!tp__import_node_rank(n, x, 4, 4) || !tp__import_node_rank(n, grid, 4, 4)) return;
    if ((strcmp(mode, "bilinear") != 0 && strcmp(mode, "linear") != 0) || (!zeros && strcmp(border, "border") != 0)) {
        tp__on_fail(n, TP_ERR_UNSUPPORTED, "%s of mode %s and padding_mode %s", n->op, mode, border);
        return;
    }
    for (int i = 0; i < 2; i++) { /* from -1 .. 1 to pixels */
        const int64_t size = tp__import_node_dim(n, x, 2 + i);
        scale[i] = 0.5f * (float)(size - (corners ? 1 : 0));
        shift[i] = 0.5f * (float)(size - 1) + (zeros ? 1.0f : 0.0f);
    }
    if (n->importer->status != TP_OK) return;
    tp_tensor t;
    memset(&t, 0, sizeof t);
    tp_tensor_view(&t, TP_F32, tp_make_shape_n(1, &two), scale);
    tp_node *coords = tp_reverse(grid, &swapped, 1);
    coords = tp_mul(coords, tp__cast_if_needed(tp_constant(tp_node_graph(x), &t), grid->dtype));
    tp_tensor_view(&t, TP_F32, tp_make_shape_n(1, &two), shift);
    coords = tp_add(coords, tp__cast_if_needed(tp_constant(tp_node_graph(x), &t), grid->dtype));
    x = tp__move_axis(x, 1, 3);
    if (zeros) x = tp_pad(x, frame, frame, TP_PAD_CONSTANT, 0.0f);
    tp__import_node_set_output(n, 0, tp__move_axis(tp_bilinear_sampler(x, coords, TP_BORDER_REPEAT), 3, 1));
}

/* -- losses */

static void tp__import_class_loss(
    tp__import_node *n) /* Builds SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss. */
{
    tp_node *x = tp__import_node_input(n, 0), *label = tp__cast_if_needed(tp__import_node_input(n, 1), TP_I64),
            *weight = NULL, *keep = NULL;
    const bool softmax = n->op[0] == 'S', ignores = tp__import_node_attr(n, "ignore_index") != NULL;
    const double ignored = (double)tp__import_node_int(n, "ignore_index", 0);
    const char *reduction = tp__import_node_choice(n, "reduction", "mean", "none sum mean");
    const int last_axis = x->shape.ndim - 1;
    if (!tp__import_node_rank(n, x, 2, TP_MAX_DIMS)) return;
    tp_node *p = tp__move_axis(x, 1, last_axis); /* (N, .., C) */
    if (softmax) p = tp_log_softmax(p);
    if (tp__import_node_output_used(n, 1)) tp__import_node_set_output(n, 1, tp__move_axis(p, last_axis, 1));
    if (ignores) {
        keep = tp_not_equal(label, tp__constant_like(label, ignored));
        label = tp_select(keep, label, tp_zeros_like(label));
    }
    if (n->importer->status != TP_OK) return;
    label = tp__index_inside(n, label, x, 1); /* a label that is no class fails the run */
    if (tp__import_node_has(n, 2)) weight = tp_gather(tp__import_node_input(n, 2), label);
    /* the element, not the sum of a product with the one-hot label: another class may have a logarithm of -infinity */
    tp_node *in[2] = {p, tp__cast_if_needed(tp_expand_dims(label, last_axis), TP_I32)};
    tp_node *y = tp_neg(tp_squeeze(tp_apply(tp_node_graph(x), &tp__op_take_last, in, 2, NULL), last_axis));
    if (keep) { /* before the product: class 0, which stands in for an ignored label, may have a loss of infinity */
        y = tp_select(keep, y, tp__constant_like(y, 0));
        if (weight) weight = tp_select(keep, weight, tp__constant_like(weight, 0));
    }
    if (weight) y = tp_mul(y, weight);
    else if (keep) weight = tp__cast_if_needed(keep, p->dtype);
    if (strcmp(reduction, "sum") == 0) y = tp_sum(y);
    else if (strcmp(reduction, "mean") == 0 && !weight) y = tp_mean(y);
    else if (strcmp(reduction, "mean") == 0) {
        weight = tp_sum(weight);
        y = tp_div(tp_sum(y), weight);
    }
    tp__import_node_set_output(n, 0, y);
}

/* -- recurrent layers: W (directions, gates H, I), R (directions, gates H, H), B (directions, 2 gates H). tp's sequence ops are
 *    used where they compute the same; other cells are unrolled over the time steps. */

/* selects direction d of a tensor */
static tp_node *tp__rnn_part(tp_node *x, int64_t d) { return tp_squeeze(tp__slice_from(x, 0, d, 1), 0); }
static tp_node *tp__rnn_gate(tp_node *x, int64_t gate, int64_t H) { return tp__slice_from(x, 0, gate * H, H); }
static tp_node *tp__rnn_gates(tp_node *x, const char *order, int64_t H) /* reorders the gates of a tensor */
{
    tp_node *gate[4];
    int k = 0;
    for (; order[k]; k++) gate[k] = tp__rnn_gate(x, order[k] - '0', H);
    return k == 1 ? gate[0] : tp_concat(gate, k, 0);
}
/* Makes the kernel of a sequence op: rows for x, then for h; columns in the op's order of gates. */
static tp_node *tp__rnn_kernel(tp_node *W, tp_node *R, const char *order, int64_t H)
{
    tp_node *kernels[2] = {tp_transpose(tp__rnn_gates(W, order, H), NULL, 0),
                           tp_transpose(tp__rnn_gates(R, order, H), NULL, 0)};
    return tp_concat(kernels, 2, 0);
}
static tp_node *tp__rnn_linear(tp_node *x, tp_node *W, tp_node *h, tp_node *R, tp_node *b, int64_t gate, int64_t H)
{
    b = tp__rnn_gate(b, gate, H);
    h = tp_matmul_ex(h, tp__rnn_gate(R, gate, H), false, true);
    return tp_nn_bias_add(tp_add(tp_matmul_ex(x, tp__rnn_gate(W, gate, H), false, true), h), b, TP_NHWC);
}

static tp_node *tp__rnn_product(tp_node *x, tp_node *W, tp_node *b, int64_t gate, int64_t H)
{
    b = tp__rnn_gate(b, gate, H);
    return tp_nn_bias_add(tp_matmul_ex(x, tp__rnn_gate(W, gate, H), false, true), b, TP_NHWC);
}

/* The operands of one direction, and its state before and after. */
typedef struct tp__import_node_rnn {
    tp_node *x, *inputs;                     /* inputs: the inputs in the order of the steps */
    tp_node *w, *r, *bias_x, *bias_h, *bias; /* bias: the sum of bias_x and bias_h */
    tp_node *peepholes;                      /* weights of an LSTM's peepholes, or NULL */
    tp_node *h, *c;
    int64_t H;
    bool is_relu; /* an RNN's activation: Relu, not Tanh */
} tp__import_node_rnn;

/* A gate of an LSTM with peepholes, which see the state c. */
static tp_node *tp__rnn_seeing(const tp__import_node_rnn *q, tp_node *xt, tp_node *c, int64_t gate)
{
    tp_node *seen = tp_mul(c, tp__rnn_gate(q->peepholes, gate, q->H));
    return tp_sigmoid(tp_add(tp__rnn_linear(xt, q->w, q->h, q->r, q->bias, gate, q->H), seen));
}

/* Builds one step of a cell that has no sequence op; updates q->h and q->c. */
static void tp__rnn_step(char kind, tp__import_node_rnn *q, tp_node *xt)
{
    tp_node *w = q->w, *r = q->r, *sum = q->bias, *h = q->h, *c = q->c;
    const int64_t H = q->H;
    if (kind == 'R') {
        h = tp__rnn_linear(xt, w, h, r, sum, 0, H);
        h = q->is_relu ? tp_relu(h) : tp_tanh(h);
    } else if (kind == 'G') {
        tp_node *z = tp_sigmoid(tp__rnn_linear(xt, w, h, r, sum, 0, H)),
                *s = tp_sigmoid(tp__rnn_linear(xt, w, h, r, sum, 1, H));
        tp_node *recurrent = tp__rnn_product(h, r, q->bias_h, 2, H);
        tp_node *candidate = tp__rnn_product(xt, w, q->bias_x, 2, H);
        candidate = tp_tanh(tp_add(candidate, tp_mul(s, recurrent)));
        h = tp_mul(z, h);
        h = tp_add(tp_mul(tp_affine(z, -1.0f, 1.0f), candidate), h);
    } else { /* LSTM with peepholes; the gates are in the order i, o, f */
        tp_node *in = tp__rnn_seeing(q, xt, c, 0), *forget = tp__rnn_seeing(q, xt, c, 2);
        tp_node *next = tp_mul(in, tp_tanh(tp__rnn_linear(xt, w, h, r, sum, 3, H)));
        next = tp_add(tp_mul(forget, c), next);
        tp_node *out = tp__rnn_seeing(q, xt, next, 1);
        c = next;
        h = tp_mul(out, tp_tanh(c));
    }
    q->h = h, q->c = c;
}

/* Unrolls a cell without a sequence op over the time steps; returns the outputs of all steps, or NULL after an error. */
static tp_node *tp__rnn_unrolled(tp__import_node *n, char kind, tp__import_node_rnn *q)
{
    const int64_t T = tp__import_node_dim(n, q->x, 0);
    if (n->importer->status != TP_OK) return NULL;
    if (T > 4096 || T < 1) {
        tp__import_node_unsupported(n, "that many steps");
        return NULL;
    }
    tp_node **step = (tp_node **)tp__importer_alloc(n->importer, (size_t)T, sizeof *step);
    if (!step) return NULL;
    for (int64_t t = 0; t < T; t++) {
        if (!tp__import_node_spend(n, 0, 0)) return NULL;
        tp__rnn_step(kind, q, tp__rnn_part(q->inputs, t));
        step[t] = q->h;
    }
    return tp_stack(step, (int)T, 0);
}

/* Builds all steps of one direction; NULL after an error. */
static tp_node *tp__rnn_direction(tp__import_node *n, char kind, bool after, tp__import_node_rnn *q)
{
    tp_node *hl = NULL, *cl = NULL, *y;
    const int64_t H = q->H;
    if (kind == 'L' && !q->peepholes) {
        tp_node *bias = tp__rnn_gates(q->bias, "0321", H), *kernel = tp__rnn_kernel(q->w, q->r, "0321", H);
        y = tp_nn_lstm(q->inputs, kernel, bias, q->h, q->c, 0.0f, false, &hl, &cl);
        q->h = hl, q->c = cl;
    } else if (kind == 'G' && !after) {
        tp_node *candidate_bias = tp__rnn_gates(q->bias, "2", H), *candidate = tp__rnn_kernel(q->w, q->r, "2", H);
        tp_node *bias = tp__rnn_gates(q->bias, "10", H), *kernel = tp__rnn_kernel(q->w, q->r, "10", H);
        y = tp_nn_gru(q->inputs, kernel, bias, candidate, candidate_bias, q->h, false, &hl);
        q->h = hl;
    } else y = tp__rnn_unrolled(n, kind, q);
    return y;
}

/* Refuses the attributes that no op has. */
static bool tp__rnn_plain(tp__import_node *n, char kind)
{
    char text[40];
    if (tp__import_node_attr(n, "clip")) {
        tp__format(text, sizeof text, "clip = %g", (double)tp__import_node_float(n, "clip", 0));
        tp__import_node_unsupported(n, text);
    } else if (kind == 'L' && tp__import_node_int(n, "input_forget", 0))
        tp__import_node_unsupported(n, "input_forget = 1");
    return n->importer->status == TP_OK;
}
static bool tp__same_letters(const char *a, const char *b) /* compares without regard to case */
{
    for (; *a && *b && (*a | 32) == (*b | 32); a++) b++;
    return !*a && !*b;
}
/* Reads the activations, which may be left out: they have to be the usual ones, or Relu in an RNN. is_relu: for each direction. */
static bool tp__rnn_activations(tp__import_node *n, char kind, bool *is_relu)
{
    static const char *const usual[] = {"Sigmoid", "Tanh", "Tanh"};
    const int per_direction = kind == 'L' ? 3 : kind == 'G' ? 2 : 1, first = kind == 'R' ? 1 : 0;
    tp__words w;
    tp__pb_field e;
    bool known = true;
    int i = 0;
    is_relu[0] = is_relu[1] = false;
    if (!tp__import_node_attr(n, "activations")) return true;
    if (!tp__import_node_kind(n, "activations", 9)) return false;
    w.n = 0;
    tp__words_put(&w, "activations = ");
    for (tp__pb m = *tp__import_node_attr(n, "activations"); tp__pb_next(&m, &e);) {
        if (e.number != 9 || e.wire != 2) continue;
        const char *name = tp__importer_string(n->importer, e.sub);
        const bool relu = kind == 'R' && i < 2 && tp__same_letters(name, "Relu");
        known &= relu || tp__same_letters(name, usual[first + i % per_direction]);
        if (relu) is_relu[i] = true;
        tp__import_list(&w, i++, "'", name, "'");
    }
    known &= i == 0 || i == per_direction || i == 2 * per_direction;
    if (i == 1) is_relu[1] = is_relu[0];
    if (!known) tp__import_node_unsupported(n, w.text);
    return n->importer->status == TP_OK;
}

/* Checks the lengths of the sequences, which may be left out: each must be the number of x's steps (T,B,C). */
static bool tp__rnn_lengths(tp__import_node *n, const tp_node *x)
{
    const tp_tensor *lengths = tp__import_node_known(n, 4);
    if (!lengths && tp__import_node_has(n, 4))
        return tp__on_fail(
                   n, TP_ERR_UNSUPPORTED,
                   "the input '%s' of %s has the lengths of the sequences, which must be known when the graph is "
                   "built and be the number of steps of the input: %s with sequences of different lengths cannot "
                   "be expressed; give such a constant in .inputs",
                   n->in[4]->name, n->op, n->op),
               false;
    for (int64_t i = 0; lengths && i < tp_tensor_size(lengths); i++)
        if (tp__known_int(lengths, i) != tp__import_node_dim(n, x, 0))
            tp__import_node_unsupported(n, "sequences of different lengths");
    return n->importer->status == TP_OK;
}

static void tp__import_rnn(tp__import_node *n) /* Builds LSTM, GRU and RNN. */
{
    const char kind = n->op[0];
    const int gates = kind == 'L' ? 4 : kind == 'G' ? 3 : 1;
    tp_node *x = tp__import_node_input(n, 0), *W = tp__import_node_input(n, 1), *R = tp__import_node_input(n, 2);
    const char *direction = tp__import_node_choice(n, "direction", "forward", "forward reverse bidirectional");
    const bool batch_first = tp__import_node_int(n, "layout", 0) != 0,
               after = tp__import_node_int(n, "linear_before_reset", 0) != 0;
    if (!tp__import_node_rank(n, x, 3, 3) || !tp__import_node_rank(n, W, 3, 3) || !tp__import_node_rank(n, R, 3, 3))
        return;
    if (batch_first) x = tp__move_axis(x, 1, 0);
    const int64_t D = tp__import_node_dim(n, R, 0), H = tp__import_node_dim(n, R, 2);
    if (n->importer->status != TP_OK) return;
    bool is_relu[2];
    if (!tp__rnn_plain(n, kind) || !tp__rnn_activations(n, kind, is_relu)) return;
    if (D != (strcmp(direction, "bidirectional") == 0 ? 2 : 1) || H < 1 ||
        R->shape.dim[1] != tp__limited_product(gates, H)) {
        tp__on_fail(n, TP_ERR_FORMAT, "%s: its weights do not fit its direction", n->op);
        return;
    }
    if (!tp__rnn_lengths(n, x)) return;
    const int64_t row[TP_MAX_DIMS] = {1, H}, bias_size[TP_MAX_DIMS] = {2 * gates * H};
    static const int batch_then_time[] = {2, 0, 1, 3}, time = 0;
    tp_node *zero =
        tp_zeros_like(tp_tile(tp_squeeze(tp__slice_from(tp__slice_from(x, 0, 0, 1), 2, 0, 1), 0), row)); /* (B,H) */
    tp_node *outputs[2], *hs[2], *cs[2];
    for (int64_t d = 0; d < D; d++) {
        const bool backwards = d == 1 || strcmp(direction, "reverse") == 0;
        tp__import_node_rnn q;
        memset(&q, 0, sizeof q);
        q.H = H;
        q.is_relu = is_relu[d];
        q.x = x;
        q.w = tp__rnn_part(W, d), q.r = tp__rnn_part(R, d), q.inputs = backwards ? tp_reverse(x, &time, 1) : x;
        tp_node *b = tp__import_node_has(n, 3) ? tp__rnn_part(tp__import_node_input(n, 3), d) : NULL;
        if (!b) b = tp_tile(tp__with_ones(tp__constant_like(x, 0), 1, 0), bias_size);
        q.bias_x = tp__slice_from(b, 0, 0, gates * H), q.bias_h = tp__slice_from(b, 0, gates * H, gates * H);
        q.bias = tp_add(q.bias_x, q.bias_h), q.h = q.c = zero;
        for (int i = 0; i < 2; i++)
            if (tp__import_node_has(n, 5 + i) && (i == 0 || kind == 'L')) {
                tp_node *start = tp__import_node_input(n, 5 + i);
                start = tp__rnn_part(batch_first ? tp__move_axis(start, 1, 0) : start, d);
                if (i) q.c = start;
                else q.h = start;
            }
        if (kind == 'L' && tp__import_node_has(n, 7)) q.peepholes = tp__rnn_part(tp__import_node_input(n, 7), d);
        if (n->importer->status != TP_OK) return;
        tp_node *y = tp__rnn_direction(n, kind, after, &q);
        if (!y) return;
        outputs[d] = backwards ? tp_reverse(y, &time, 1) : y, hs[d] = q.h, cs[d] = q.c;
    }
    const int by = batch_first ? 1 : 0; /* where the axis of directions is: after the batch, or before it */
    tp_node *y = tp_stack(outputs, (int)D, 1);
    tp__import_node_set_output(n, 0, batch_first ? tp_transpose(y, batch_then_time, 4) : y);
    tp__import_node_set_output(n, 1, tp_stack(hs, (int)D, by));
    if (kind == 'L') tp__import_node_set_output(n, 2, tp_stack(cs, (int)D, by));
}

/* -- attention */

/* Reshapes (B, S, heads * size) to (B, heads, S, size). */
static tp_node *tp__split_heads(tp__import_node *n, tp_node *x, int64_t heads)
{
    static const int perm[] = {0, 2, 1, 3};
    if (x->shape.ndim == 4 || tp_is_poison(x) || !tp__import_node_rank(n, x, 3, 4)) return x;
    const int64_t C = tp__import_node_dim(n, x, 2),
                  dim[4] = {x->shape.dim[0], tp__import_node_dim(n, x, 1), heads, heads > 0 ? C / heads : 0};
    if (heads < 1 || C % heads != 0)
        tp__on_fail(n, TP_ERR_FORMAT, "%s: %lld heads of %lld channels", n->op, (long long)heads, (long long)C);
    return n->importer->status == TP_OK ? tp_transpose(tp_reshape_to(x, tp_make_shape_n(4, dim)), perm, 4) : x;
}
static tp_node *tp__merge_heads(tp__import_node *n, tp_node *x)
{
    static const int perm[] = {0, 2, 1, 3};
    const int64_t dim[3] = {x->shape.dim[0], tp__import_node_dim(n, x, 2),
                            tp__import_node_dim(n, x, 1) * tp__import_node_dim(n, x, 3)};
    return n->importer->status == TP_OK ? tp_reshape_to(tp_transpose(x, perm, 4), tp_make_shape_n(3, dim)) : x;
}
/* Makes a constant with 0, 1, .. along one of the last two axes of (1,1,S,T). */
static tp_node *tp__positions(tp__import_node *n, const tp_node *x, int64_t size, int axis)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    if (size > TP__IMPORT_MAX) return tp__import_node_unsupported(n, "a sequence that long");
    if (!tp__import_node_spend(n, (double)size, 16.0 * (double)size))
        return tp_poison(n->importer->graph[n->importer->graph_index]);
    if (tp_tensor_resize(&t, x->dtype, tp__shape1(size)) != TP_OK)
        return tp__importer_nomem(n->importer), tp_poison(n->importer->graph[n->importer->graph_index]);
    for (int64_t i = 0; i < size; i++) tp_tensor_set(&t, i, (double)i);
    tp_node *y = tp_constant(n->importer->graph[n->importer->graph_index], &t);
    tp_tensor_free(&t);
    return axis == 3 ? y : tp_expand_dims(y, 1);
}

static void tp__import_attention(tp__import_node *n)
{
    tp_node *Q = tp__import_node_input(n, 0), *K = tp__import_node_input(n, 1), *V = tp__import_node_input(n, 2);
    const bool flat = Q->shape.ndim == 3;
    const int64_t mode = tp__import_node_int(n, "qk_matmul_output_mode", 0),
                  left = tp__import_node_int(n, "left_window_size", -1),
                  right = tp__import_node_int(n, "right_window_size", -1);
    int64_t past_length = 0;
    Q = tp__split_heads(n, Q, tp__import_node_int(n, "q_num_heads", 0));
    K = tp__split_heads(n, K, tp__import_node_int(n, "kv_num_heads", 0));
    V = tp__split_heads(n, V, tp__import_node_int(n, "kv_num_heads", 0));
    if (n->importer->status != TP_OK || !tp__import_node_rank(n, Q, 4, 4) || !tp__import_node_rank(n, K, 4, 4) ||
        !tp__import_node_rank(n, V, 4, 4))
        return;
    if (tp__import_node_has(n, 4) && tp__import_node_has(n, 5)) {
        tp_node *k[2] = {tp__import_node_input(n, 4), K}, *v[2] = {tp__import_node_input(n, 5), V};
        past_length = tp__import_node_dim(n, k[0], 2);
        K = tp_concat(k, 2, 2), V = tp_concat(v, 2, 2);
    }
    tp__import_node_set_output(n, 1, K);
    tp__import_node_set_output(n, 2, V);
    const int64_t heads = tp__import_node_dim(n, Q, 1), kv = tp__import_node_dim(n, K, 1),
                  S = tp__import_node_dim(n, Q, 2), T = tp__import_node_dim(n, K, 2), E = tp__import_node_dim(n, Q, 3);
    if (n->importer->status != TP_OK) return;
    if (kv < 1 || heads % kv != 0) {
        tp__on_fail(n, TP_ERR_FORMAT, "%s: %lld query heads for %lld key heads", n->op, (long long)heads,
                    (long long)kv);
        return;
    }
    for (int i = 0; i < 2 && kv != heads; i++) { /* each key head is used by a group of query heads */
        tp_node *x = i ? V : K;
        const int64_t tiles[TP_MAX_DIMS] = {1, 1, heads / kv, 1, 1},
                      dim[4] = {x->shape.dim[0], heads, T, tp__import_node_dim(n, x, 3)};
        x = tp_reshape_to(tp_tile(tp_expand_dims(x, 2), tiles), tp_make_shape_n(4, dim));
        if (i) V = x;
        else K = x;
    }
    const double scale = (double)tp__import_node_float(n, "scale", (float)(1.0 / sqrt((double)E)));
    const float half = (float)sqrt(scale), cap = tp__import_node_float(n, "softcap", 0.0f);
    if (cap > 0 && cap < FLT_MIN) { /* a soft cap of the scores that is denormal: kernels treat it as zero */
        tp__import_node_unsupported(n, "a softcap that small");
        return;
    }
    K = tp_affine(K, half, 0.0f);
    tp_node *s = tp_matmul_ex(tp_affine(Q, half, 0.0f), K, false, true);
    if (mode == 0) tp__import_node_set_output(n, 3, s);
    if (cap > 0) s = tp_affine(tp_tanh(tp_div(s, tp__constant_like(s, (double)cap))), cap, 0.0f);
    if (mode == 1) tp__import_node_set_output(n, 3, s);
    tp_node *minus_infinity = tp__constant_like(s, -HUGE_VAL);
    if (tp__import_node_has(n, 3)) {
        tp_node *m = tp__import_node_input(n, 3);
        if (!tp__import_node_rank(n, m, 1, 4)) return;
        const int64_t n_missing = T - tp__import_node_dim(n, m, m->shape.ndim - 1);
        const bool is_bool = m->dtype == TP_BOOL;
        int64_t none[TP_MAX_DIMS] = {0}, more[TP_MAX_DIMS] = {0};
        if (n->importer->status != TP_OK) return;
        if (n_missing > 0) {
            more[m->shape.ndim - 1] = n_missing;
            m = tp_pad(m, none, more, TP_PAD_CONSTANT, is_bool ? 0.0f : -HUGE_VALF);
        }
        s = is_bool ? tp_select(m, s, minus_infinity) : tp_add(s, tp__cast_if_needed(m, s->dtype));
    }
    /* masks depend on the distance between a key and the query's position among the keys */
    tp_node *valid = NULL, *place = tp__positions(n, s, S, 2), *key = tp__positions(n, s, T, 3);
    if (tp__import_node_has(n, 6))
        valid = tp__with_ones(tp__cast_if_needed(tp__import_node_input(n, 6), s->dtype), 1, 3); /* (B,1,1,1) */
    place = valid && past_length == 0 ? tp_add(place, tp_affine(valid, 1.0f, (float)-S))
                                      : tp_affine(place, 1.0f, (float)past_length);
    if (tp__import_node_int(n, "is_causal", 0)) s = tp_select(tp_less_equal(key, place), s, minus_infinity);
    if (left >= 0) s = tp_select(tp_greater_equal(key, tp_affine(place, 1.0f, (float)-left)), s, minus_infinity);
    if (right >= 0) s = tp_select(tp_less_equal(key, tp_affine(place, 1.0f, (float)right)), s, minus_infinity);
    if (valid) s = tp_select(tp_less(key, valid), s, minus_infinity);
    if (mode == 2) tp__import_node_set_output(n, 3, s);
    /* a query that attends to no key gets 0, not NaN */
    tp_node *p = tp_softmax(tp_maximum(s, tp__constant_like(s, -1e30))), *zeros = tp_zeros_like(p);
    p = tp_select(tp_equal(s, minus_infinity), zeros, p);
    if (mode == 3) tp__import_node_set_output(n, 3, p);
    tp_node *y = tp_matmul(p, V);
    tp__import_node_set_output(n, 0, flat ? tp__merge_heads(n, y) : y);
}

static void tp__import_rotary(tp__import_node *n)
{
    tp_node *x = tp__import_node_input(n, 0), *cache[2] = {tp__import_node_input(n, 1), tp__import_node_input(n, 2)};
    const bool flat = x->shape.ndim == 3, interleaved = tp__import_node_int(n, "interleaved", 0) != 0;
    x = tp__split_heads(n, x, tp__import_node_int(n, "num_heads", 0)); /* reshaped to (B, heads, S, size) */
    if (n->importer->status != TP_OK || !tp__import_node_rank(n, x, 4, 4)) return;
    const int64_t size = tp__import_node_dim(n, x, 3), some = tp__import_node_int(n, "rotary_embedding_dim", 0),
                  dim = some ? some : size;
    if (n->importer->status != TP_OK) return;
    if (dim < 2 || dim % 2 || dim > size) {
        tp__on_fail(n, TP_ERR_FORMAT, "%s: a rotation of %lld of %lld numbers", n->op, (long long)dim, (long long)size);
        return;
    }
    for (int i = 0; i < 2; i++) {
        if (tp__import_node_has(n, 3)) cache[i] = tp_gather(cache[i], tp__import_node_input(n, 3));
        cache[i] = tp_expand_dims(cache[i], 1); /* reshaped to (B, 1, S, dim / 2) */
    }
    tp_node *rotated = tp__slice_from(x, 3, 0, dim), *a, *b, *parts[3];
    a = interleaved ? tp__slice_every(n, rotated, 3, 0, 2, dim / 2) : tp__slice_from(rotated, 3, 0, dim / 2);
    b = interleaved ? tp__slice_every(n, rotated, 3, 1, 2, dim / 2) : tp__slice_from(rotated, 3, dim / 2, dim / 2);
    parts[0] = tp_mul(b, cache[1]);
    parts[0] = tp_sub(tp_mul(a, cache[0]), parts[0]);
    parts[1] = tp_mul(b, cache[0]);
    parts[1] = tp_add(tp_mul(a, cache[1]), parts[1]);
    parts[2] = tp__slice_from(x, 3, dim, -1);
    tp_node *y;
    if (interleaved) {
        tp_node *pair = tp_stack(parts, 2, 4);
        tp_shape s = x->shape;
        for (int d = 1; d < 3; d++) s.dim[d] = tp__import_node_dim(n, x, d);
        s.dim[3] = dim;
        y = tp_reshape_to(pair, s);
        parts[1] = parts[2];
        parts[0] = y;
        if (dim < size) y = tp_concat(parts, 2, 3);
    } else y = tp_concat(parts, dim < size ? 3 : 2, 3);
    tp__import_node_set_output(n, 0, flat ? tp__merge_heads(n, y) : y);
}

/* -- Einsum: diagonals, sums, transposes, and a product for each operand after the first one, from left to right */
#define TP__EINSUM_INPUTS 16
typedef struct tp__einsum {
    /* the equation: one letter per axis; of several operands, in[0] and in[1] are those of the product that is made */
    char in[TP__EINSUM_INPUTS][32], out[64];
    char dots[TP_MAX_DIMS + 1]; /* the letters of "..." */
    int n_in;
    tp_node *x[2];
} tp__einsum;

/* Copies the equation to `text` without spaces; letters that the equation does not use replace "...". False after an error. */
static bool tp__einsum_expand(tp__import_node *n, const char *eq, char text[128], tp__einsum *e)
{
    /* letters for "...": as many as the first input has axes without a letter */
    const char free_letters[] = "ZYXWVUTS";
    int len = 0, dots = 0, letters = 0;
    for (const char *q = eq; *q && *q != ',' && *q != '-'; q++) letters += *q != ' ' && *q != '.';
    if (strstr(eq, "...")) dots = tp__import_node_input(n, 0)->shape.ndim - letters;
    for (int i = 0; i < 8; i++)
        if (strchr(eq, free_letters[i])) dots = -1;
    if (dots < 0 && strstr(eq, "...")) {
        tp__import_node_unsupported(n, "these axes");
        return false;
    }
    if (dots > 0) memcpy(e->dots, free_letters, (size_t)dots);
    const char *p = eq;
    for (; *p && len < 100; p++) {
        if (strncmp(p, "...", 3) == 0) {
            for (int i = 0; i < dots; i++) text[len++] = free_letters[i];
            p += 2;
        } else if (*p != ' ') text[len++] = *p;
    }
    text[len] = 0;
    if (*p) tp__import_node_unsupported(n, "an equation of more than 100 characters");
    return !*p;
}

/* Splits "ij,jk->ik" into the letters of inputs and output. Without "->" the output has the axes of "..." and then the letters that
 * occur once, in alphabetical order. False if the text is not of this form. */
static bool tp__einsum_parse(const char *text, tp__einsum *e)
{
    bool arrow = false;
    int k = 0;
    for (int i = 0, j = 0; text[i]; i++) {
        if (text[i] == ',' && k + 1 < TP__EINSUM_INPUTS && !arrow) k++, j = 0;
        else if (text[i] == '-' && text[i + 1] == '>' && !arrow) arrow = true, j = 0, i++;
        else if (((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z')) && j < TP_MAX_DIMS) {
            char *to = arrow ? e->out : e->in[k];
            if (arrow && strchr(to, text[i])) return false;
            to[j++] = text[i];
        } else return false;
    }
    e->n_in = k + 1;
    char *o = e->out + strlen(e->dots);
    if (!arrow) strcpy(e->out, e->dots);
    for (char ch = 'A'; ch <= 'z' && !arrow; ch++) {
        int times = strchr(e->dots, ch) ? 2 : 0;
        for (int i = 0; i <= k; i++)
            for (const char *p = e->in[i]; *p; p++) times += *p == ch;
        if (times == 1) *o++ = ch, *o = 0;
    }
    return true;
}

/* Whether an operand from number i on, or the output, has the letter. */
static bool tp__einsum_needs(const tp__einsum *e, int i, char letter)
{
    for (; i < e->n_in; i++)
        if (strchr(e->in[i], letter)) return true;
    return strchr(e->out, letter) != NULL;
}

/* Reduces factor i of a product so that each of its letters occurs once and is also in the output, in the other factor or in
 * an operand after them: a letter that occurs twice becomes the diagonal, a letter that nothing else has is summed. False
 * after an error. */
static bool tp__einsum_reduce(tp__import_node *n, tp__einsum *e, int i)
{
    char *in = e->in[i];
    tp_node *x = e->x[i];
    if (!tp__import_node_rank(n, x, (int)strlen(in), (int)strlen(in))) return false;
    for (int d = (int)strlen(in) - 1; d > 0; d--) {
        const int first = (int)(strchr(in, in[d]) - in);
        if (first == d) continue;
        tp_node *a = tp__positions(n, x, tp__import_node_dim(n, x, first), 3);
        tp_node *is_diagonal = tp__with_ones(a, 1, x->shape.ndim - 1 - d);
        is_diagonal = tp_equal(tp__with_ones(a, 1, x->shape.ndim - 1 - first), is_diagonal);
        x = tp_reduce_sum(tp_select(is_diagonal, x, tp_zeros_like(x)), &d, 1, false);
        memmove(in + d, in + d + 1, strlen(in + d));
    }
    for (int d = (int)strlen(in) - 1; d >= 0; d--)
        if (!tp__einsum_needs(e, 2, in[d]) && !strchr(e->in[1 - i], in[d])) {
            x = tp_reduce_sum(x, &d, 1, false);
            memmove(in + d, in + d + 1, strlen(in + d));
        }
    e->x[i] = x;
    return true;
}

/* Computes the product of two factors as one matmul: (shared.., own 0.., summed..) times (shared.., summed.., own 1..). A
 * letter of both is summed unless it is needed later. result_letters receives the letters of the result. NULL after an
 * error. */
static tp_node *tp__einsum_product(tp__import_node *n, tp__einsum *e, char result_letters[96])
{
    char shared[32] = "", summed[32] = "", unshared[2][32] = {"", ""};
    /* products of the sizes of: shared, unshared[0], unshared[1], summed */
    int64_t size[128], product[4] = {1, 1, 1, 1}, dim[TP_MAX_DIMS];
    memset(size, 0, sizeof size);
    for (int i = 0; i < 2; i++)
        for (int d = 0; e->in[i][d]; d++) {
            const char ch[2] = {e->in[i][d], 0};
            const bool in_both = strchr(e->in[1 - i], ch[0]) != NULL;
            size[(int)ch[0]] = tp__import_node_dim(n, e->x[i], d);
            if (i == 0 || !in_both) strcat(in_both ? tp__einsum_needs(e, 2, ch[0]) ? shared : summed : unshared[i], ch);
        }
    if (n->importer->status != TP_OK) return NULL;
    const char *group[4] = {shared, unshared[0], unshared[1], summed};
    for (int i = 0; i < 4; i++)
        for (const char *p = group[i]; *p; p++) product[i] *= size[(int)*p];
    for (int i = 0; i < 2; i++) {
        int perm[TP_MAX_DIMS], m = 0;
        const char *order[3] = {shared, i ? summed : unshared[0], i ? unshared[1] : summed};
        for (int j = 0; j < 3; j++)
            for (const char *p = order[j]; *p; p++) perm[m++] = (int)(strchr(e->in[i], *p) - e->in[i]);
        const int64_t matrix[3] = {product[0], i ? product[3] : product[1], i ? product[2] : product[3]};
        e->x[i] = tp_reshape_to(m > 1 ? tp_transpose(e->x[i], perm, m) : e->x[i], tp_make_shape_n(3, matrix));
    }
    snprintf(result_letters, 96, "%s%s%s", shared, unshared[0], unshared[1]);
    const int m = (int)strlen(result_letters);
    if (m > TP_MAX_DIMS) {
        tp__on_fail(n, TP_ERR_UNSUPPORTED,
                    "Einsum cannot be expressed: its inputs are multiplied from left to right, and a product has %d "
                    "dimensions, more than "
                    "%d; another order of the inputs may need fewer",
                    m, TP_MAX_DIMS);
        return NULL;
    }
    for (int d = 0; d < m; d++) dim[d] = size[(int)result_letters[d]];
    return tp_reshape_to(tp_matmul(e->x[0], e->x[1]), tp_make_shape_n(m, dim));
}

static void tp__import_einsum(tp__import_node *n)
{
    const char *eq = tp__import_node_string(n, "equation", "");
    char text[128], result_letters[96] = "";
    int perm[TP_MAX_DIMS];
    tp__einsum e;
    memset(&e, 0, sizeof e);
    if (!tp__einsum_expand(n, eq, text, &e)) return;
    if (!tp__einsum_parse(text, &e)) {
        tp__on_fail(
            n, TP_ERR_UNSUPPORTED,
            "Einsum '%s' cannot be expressed: an equation is like 'ij,jk->ik', of letters only, with at most %d inputs "
            "of at most %d letters each, and no letter twice in the output",
            eq, TP__EINSUM_INPUTS, TP_MAX_DIMS);
        return;
    }
    if (e.n_in != n->n_in) {
        tp__on_fail(n, TP_ERR_FORMAT, "Einsum '%s' is an equation of %d inputs, but the node has %d", eq, e.n_in,
                    n->n_in);
        return;
    }
    e.x[0] = tp__import_node_input(n, 0);
    if (e.n_in == 1 && !tp__einsum_reduce(n, &e, 0)) return;
    while (e.n_in > 1) {
        e.x[1] = tp__import_node_input(n, n->n_in - e.n_in + 1);
        for (int i = 0; i < 2; i++)
            if (!tp__einsum_reduce(n, &e, i)) return;
        e.x[0] = tp__einsum_product(n, &e, result_letters);
        if (!e.x[0]) return;
        memcpy(e.in[0], result_letters, sizeof e.in[0]); /* the product takes the place of its factors */
        memmove(e.in[1], e.in[2], sizeof e.in - 2 * sizeof *e.in);
        memset(e.in[TP__EINSUM_INPUTS - 1], 0, sizeof *e.in);
        e.n_in--;
    }
    const int m = (int)strlen(e.in[0]);
    if (strlen(e.out) != strlen(e.in[0])) {
        tp__on_fail(n, TP_ERR_FORMAT, "Einsum '%s' asks for a letter that no input has", eq);
        return;
    }
    for (int d = 0; d < m; d++) perm[d] = (int)(strchr(e.in[0], e.out[d]) - e.in[0]);
    tp__import_node_set_output(n, 0, m > 1 ? tp_transpose(e.x[0], perm, m) : tp_identity(e.x[0]));
}

/* The random numbers of a node, with the shape of x or, where x is NULL, of the attribute. NULL after an error. */
static tp_node *tp__import_random_node(tp__import_node *n, tp_node *x)
{
    const bool is_normal = strstr(n->op, "Normal") != NULL;
    const float a = tp__import_node_float(n, is_normal ? "mean" : "low", 0.0f),
                b = tp__import_node_float(n, is_normal ? "scale" : "high", 1.0f);
    int64_t list[TP__ON_INTS];
    tp_shape s;
    if (x) return is_normal ? tp_rand_normal_like(x, a, b) : tp_rand_uniform_like(x, a, b);
    const int count = tp__import_node_ints(n, "shape", -1, list);
    if (count < 0) tp__on_fail(n, TP_ERR_FORMAT, "%s lacks its attribute 'shape'", n->op);
    if (count < 0 || !tp__import_node_shape(n, list, count, &s)) return NULL;
    if (!tp_shape_known(&s) || !tp__shape_fits(&s)) {
        tp__on_fail(n, TP_ERR_FORMAT, "%s has impossible dimensions", n->op);
        return NULL;
    }
    tp_graph *g = n->importer->graph[n->importer->graph_index];
    return is_normal ? tp_rand_normal(g, s, a, b) : tp_rand_uniform(g, s, a, b);
}
/* Builds RandomUniform, RandomNormal, RandomUniformLike, RandomNormalLike and Bernoulli. The graph has the seed, not the file:
 * no other program draws the same numbers. */
static void tp__import_random(tp__import_node *n)
{
    const bool is_bernoulli = n->op[0] == 'B', has_input = is_bernoulli || strstr(n->op, "Like");
    const int64_t elem = tp__import_node_int(n, "dtype", has_input ? 0 : 1);
    tp_node *x = has_input ? tp__import_node_input(n, 0) : NULL;
    if (n->importer->status != TP_OK) return;
    const tp_dtype dtype = elem || !x ? tp__import_dtype(elem) : x->dtype;
    if (!dtype || (!is_bernoulli && !tp_dtype_is_float(dtype))) {
        tp__on_fail(n, TP_ERR_UNSUPPORTED, "%s of %s cannot be expressed; give it the dtype of a float, 1 for float32",
                    n->op, elem || !x ? tp__import_dtype_name(elem) : tp_dtype_name(dtype));
        return;
    }
    if (is_bernoulli && !tp_dtype_is_float(x->dtype)) x = tp_cast(x, TP_F32);
    tp_node *y = tp__import_random_node(n, x && !is_bernoulli ? tp__cast_if_needed(x, dtype) : x);
    if (is_bernoulli) y = tp_less(y, x); /* x has the probabilities of 1 */
    if (y) tp__import_node_set_output(n, 0, tp__cast_if_needed(y, dtype));
}

static void tp__import_window(tp__import_node *n) /* Builds HannWindow, HammingWindow and BlackmanWindow. */
{
    const tp_tensor *t = tp__import_node_known_number(n, 0);
    const int64_t elem = tp__import_node_int(n, "output_datatype", 1), size = t ? tp__known_int(t, 0) : 0;
    const double pi = 3.14159265358979323846, a0 = n->op[0] == 'B' ? 0.42 : n->op[2] == 'm' ? 25.0 / 46 : 0.5;
    if (!t || n->importer->status != TP_OK) return;
    if (size < 0 || size > 1 << 28 || !tp__import_dtype(elem)) {
        tp__import_node_unsupported(n, "that size or type");
        return;
    }
    tp_tensor *y = tp__import_node_value(n, 0, tp__import_dtype(elem), tp__shape1(size));
    for (int64_t i = 0; y && i < size; i++) {
        const double angle = 2 * pi * (double)i / (double)(tp__import_node_int(n, "periodic", 1) ? size : size - 1);
        tp_tensor_set(y, i,
                      n->op[0] == 'B' ? a0 - 0.5 * cos(angle) + 0.08 * cos(2 * angle) : a0 - (1 - a0) * cos(angle));
    }
}

/* -- If: builds the chosen branch in place of the node */
static void tp__importer_nodes(tp__importer *c, tp__pb graph);
static tp_status tp__importer_initializers(tp__importer *c, tp__pb graph);
static void tp__import_if(tp__import_node *n)
{
    const tp_tensor *cond = tp__import_node_known_number(n, 0);
    tp__pb_field f, e, name;
    int i = 0;
    if (!cond || !tp__import_node_field(n, tp_tensor_get(cond, 0) != 0.0 ? "then_branch" : "else_branch", 6, 2, &f))
        return;
    if (n->importer->depth >= 16) {
        tp__on_fail(n, TP_ERR_FORMAT, "If inside If, deeper than 16");
        return;
    }
    n->importer->depth++;
    if (tp__importer_initializers(n->importer, f.sub) == TP_OK) tp__importer_nodes(n->importer, f.sub);
    n->importer->depth--;
    for (tp__pb g = f.sub; n->importer->status == TP_OK && tp__pb_next(&g, &e);) {
        if (e.number != 12 || e.wire != 2) continue; /* an output of the branch is an output of the node */
        const char *text = "";
        while (tp__pb_next(&e.sub, &name))
            if (name.number == 1 && name.wire == 2) text = tp__importer_string(n->importer, name.sub);
        tp__import_value *v = (tp__import_value *)tp__map_get(&n->importer->values, text);
        if (!v) tp__on_fail(n, TP_ERR_FORMAT, "If: its branch gives '%s', which nothing makes", text);
        else if (i < n->n_out && v->is_known && !v->variable) { /* a variable's value of now is no constant */
            n->set[i] = tp_tensor_copy(&n->value[i], &v->known) == TP_OK;
            if (!n->set[i]) tp__importer_nomem(n->importer);
            n->partial |= v->partial;
        } else tp__import_node_set_output(n, i, tp__importer_node(n->importer, v, n->name, n->op));
        i++;
    }
}

/* ==== >>table ========================================================================================== */

#define TP__IMPORT_ONE(name_, fn_)                          \
    {                                                       \
        name_, tp__import_map, fn_, NULL, TP__IMPORT_IMAGES \
    }
#define TP__IMPORT_TWO(name_, fn_, more_)                                                \
    {                                                                                    \
        name_, tp__import_map, NULL, fn_, TP__IMPORT_BYTES | TP__IMPORT_IMAGES | (more_) \
    }
#define TP__IMPORT_BY(name_, build_) \
    {                                \
        name_, build_, NULL, NULL, 0 \
    }
#define TP__IMPORT_DRAW(name_)                                                      \
    {                                                                               \
        name_, tp__import_random, NULL, NULL, TP__IMPORT_NO_FOLD | TP__IMPORT_IMAGE \
    }
static const tp__import_row tp__import_table[] = {
    /* rows of element-wise operators */
    TP__IMPORT_ONE("Sqrt", tp_sqrt),
    TP__IMPORT_ONE("Reciprocal", tp_reciprocal),
    TP__IMPORT_ONE("Exp", tp_exp),
    TP__IMPORT_ONE("Log", tp_ln),
    TP__IMPORT_ONE("Sin", tp_sin),
    TP__IMPORT_ONE("Cos", tp_cos),
    TP__IMPORT_ONE("Tan", tp__tan),
    TP__IMPORT_ONE("Asin", tp_asin),
    TP__IMPORT_ONE("Acos", tp_acos),
    TP__IMPORT_ONE("Atan", tp_atan),
    TP__IMPORT_ONE("Sinh", tp__sinh),
    TP__IMPORT_ONE("Cosh", tp__cosh),
    TP__IMPORT_ONE("Asinh", tp__asinh),
    TP__IMPORT_ONE("Acosh", tp__acosh),
    TP__IMPORT_ONE("Atanh", tp__atanh),
    TP__IMPORT_ONE("Erf", tp_erf),
    TP__IMPORT_ONE("Tanh", tp_tanh),
    TP__IMPORT_ONE("Sigmoid", tp_sigmoid),
    TP__IMPORT_ONE("Softplus", tp_softplus),
    TP__IMPORT_ONE("Softsign", tp__softsign),
    TP__IMPORT_ONE("HardSwish", tp__hard_swish),
    TP__IMPORT_ONE("Mish", tp__mish),
    TP__IMPORT_ONE("Floor", tp_floor),
    TP__IMPORT_ONE("Ceil", tp_ceil),
    TP__IMPORT_ONE("Round", tp_round),
    TP__IMPORT_ONE("IsNaN", tp__is_nan),
    TP__IMPORT_ONE("Not", tp_logical_not),
    TP__IMPORT_ONE("Relu", tp_relu),
    {"Neg", tp__import_map, tp_neg, NULL, TP__IMPORT_BYTES | TP__IMPORT_IMAGES},
    {"Abs", tp__import_map, tp_abs, NULL, TP__IMPORT_BYTES | TP__IMPORT_IMAGES},
    {"Sign", tp__import_map, tp_sign, NULL, TP__IMPORT_BYTES | TP__IMPORT_IMAGES},
    TP__IMPORT_TWO("Add", tp_add, TP__IMPORT_SIZES),
    TP__IMPORT_TWO("Sub", tp_sub, TP__IMPORT_SIZES),
    TP__IMPORT_TWO("Mul", tp_mul, TP__IMPORT_SIZES),
    TP__IMPORT_TWO("Div", tp__divide, TP__IMPORT_SIZES),
    TP__IMPORT_TWO("Equal", tp_equal, TP__IMPORT_SIZES),
    TP__IMPORT_TWO("Greater", tp_greater, 0),
    TP__IMPORT_TWO("GreaterOrEqual", tp_greater_equal, 0),
    TP__IMPORT_TWO("Less", tp_less, 0),
    TP__IMPORT_TWO("LessOrEqual", tp_less_equal, 0),
    {"And", tp__import_map, NULL, tp_logical_and, TP__IMPORT_IMAGES},
    {"Or", tp__import_map, NULL, tp_logical_or, TP__IMPORT_IMAGES},
    {"Xor", tp__import_map, NULL, tp__xor, TP__IMPORT_IMAGES},
    {"Max", tp__import_fold_left, NULL, tp_maximum, TP__IMPORT_IMAGES},
    {"Min", tp__import_fold_left, NULL, tp_minimum, TP__IMPORT_IMAGES},
    {"Sum", tp__import_fold_left, NULL, tp_add, TP__IMPORT_IMAGES},
    {"Mean", tp__import_fold_left, NULL, tp_add, TP__IMPORT_IMAGES},
    {"Mod", tp__import_mod, NULL, NULL, TP__IMPORT_IMAGES},
    {"Pow", tp__import_pow, NULL, NULL, TP__IMPORT_IMAGES},
    {"Clip", tp__import_clip, NULL, NULL, TP__IMPORT_IMAGES},
    {"LeakyRelu", tp__import_activation, NULL, NULL, TP__IMPORT_IMAGES},
    {"Elu", tp__import_activation, NULL, NULL, TP__IMPORT_IMAGES},
    {"Celu", tp__import_activation, NULL, NULL, TP__IMPORT_IMAGES},
    {"Selu", tp__import_activation, NULL, NULL, TP__IMPORT_IMAGES},
    {"HardSigmoid", tp__import_activation, NULL, NULL, TP__IMPORT_IMAGES},
    {"ThresholdedRelu", tp__import_activation, NULL, NULL, TP__IMPORT_IMAGES},
    {"Shrink", tp__import_activation, NULL, NULL, TP__IMPORT_IMAGES},
    {"Gelu", tp__import_activation, NULL, NULL, TP__IMPORT_IMAGES},
    TP__IMPORT_BY("SwiGLU", tp__import_activation),
    {"Swish", tp__import_activation, NULL, NULL, TP__IMPORT_IMAGES},
    {"IsInf", tp__import_activation, NULL, NULL, TP__IMPORT_IMAGES},
    {"PRelu", tp__import_prelu, NULL, NULL, TP__IMPORT_IMAGES},
    {"Where", tp__import_where, NULL, NULL, TP__IMPORT_SIZES | TP__IMPORT_IMAGES},
    {"Cast", tp__import_cast, NULL, NULL, TP__IMPORT_SIZES | TP__IMPORT_IMAGES},
    TP__IMPORT_BY("CastLike", tp__import_cast_like),
    {"Dropout", tp__import_dropout, NULL, NULL, TP__IMPORT_NO_FOLD | TP__IMPORT_IMAGES},
    /* rows of reductions */
    {"ReduceSum", tp__import_reduce, NULL, NULL, TP__IMPORT_IMAGE},
    {"ReduceMean", tp__import_reduce, NULL, NULL, TP__IMPORT_IMAGE},
    {"ReduceMax", tp__import_reduce, NULL, NULL, TP__IMPORT_IMAGE},
    {"ReduceMin", tp__import_reduce, NULL, NULL, TP__IMPORT_IMAGE},
    {"ReduceProd", tp__import_reduce, NULL, NULL, TP__IMPORT_SIZES | TP__IMPORT_IMAGE},
    {"ReduceL1", tp__import_reduce, NULL, NULL, TP__IMPORT_IMAGE},
    {"ReduceL2", tp__import_reduce, NULL, NULL, TP__IMPORT_IMAGE},
    {"ReduceLogSum", tp__import_reduce, NULL, NULL, TP__IMPORT_IMAGE},
    {"ReduceLogSumExp", tp__import_reduce, NULL, NULL, TP__IMPORT_IMAGE},
    {"ReduceSumSquare", tp__import_reduce, NULL, NULL, TP__IMPORT_IMAGE},
    TP__IMPORT_BY("ArgMax", tp__import_arg),
    TP__IMPORT_BY("ArgMin", tp__import_arg),
    TP__IMPORT_BY("TopK", tp__import_top_k),
    TP__IMPORT_BY("CumSum", tp__import_cum_sum),
    /* rows of products */
    {"MatMul", tp__import_map, NULL, tp__matrix_product, 0},
    TP__IMPORT_BY("Gemm", tp__import_gemm),
    TP__IMPORT_BY("Einsum", tp__import_einsum),
    {"Conv", tp__import_conv, NULL, NULL, TP__IMPORT_WINDOWS},
    {"ConvTranspose", tp__import_conv_transpose, NULL, NULL, TP__IMPORT_WINDOWS},
    /* rows of pools */
    {"MaxPool", tp__import_pool, NULL, NULL, TP__IMPORT_IMAGE},
    {"AveragePool", tp__import_pool, NULL, NULL, TP__IMPORT_IMAGE},
    {"LpPool", tp__import_pool, NULL, NULL, TP__IMPORT_IMAGE},
    {"GlobalAveragePool", tp__import_global_pool, NULL, NULL, TP__IMPORT_IMAGE},
    {"GlobalMaxPool", tp__import_global_pool, NULL, NULL, TP__IMPORT_IMAGE},
    /* rows of normalisations */
    {"BatchNormalization", tp__import_batch_norm, NULL, NULL, TP__IMPORT_IMAGE},
    TP__IMPORT_BY("LayerNormalization", tp__import_layer_norm),
    TP__IMPORT_BY("RMSNormalization", tp__import_rms_norm),
    {"InstanceNormalization", tp__import_instance_norm, NULL, NULL, TP__IMPORT_IMAGE},
    {"GroupNormalization", tp__import_group_norm, NULL, NULL, TP__IMPORT_IMAGE},
    TP__IMPORT_BY("LpNormalization", tp__import_lp_norm),
    TP__IMPORT_BY("MeanVarianceNormalization", tp__import_mean_variance_norm),
    TP__IMPORT_BY("LRN", tp__import_lrn),
    {"Softmax", tp__import_softmax, tp_softmax, NULL, TP__IMPORT_IMAGE},
    {"LogSoftmax", tp__import_softmax, tp_log_softmax, NULL, TP__IMPORT_IMAGE},
    {"Hardmax", tp__import_softmax, tp__hardmax, NULL, TP__IMPORT_IMAGE},
    /* rows of operators about shapes */
    {"Identity", tp__import_identity, NULL, NULL, TP__IMPORT_SIZES | TP__IMPORT_IMAGES},
    {"Shape", tp__import_shape, NULL, NULL, TP__IMPORT_NO_FOLD},
    {"Size", tp__import_size, NULL, NULL, TP__IMPORT_NO_FOLD},
    {"Constant", tp__import_constant, NULL, NULL, TP__IMPORT_NO_FOLD},
    {"ConstantOfShape", tp__import_constant_of_shape, NULL, NULL, TP__IMPORT_NO_FOLD | TP__IMPORT_SHAPE},
    {"Range", tp__import_range, NULL, NULL, TP__IMPORT_NO_FOLD},
    {"EyeLike", tp__import_eye_like, NULL, NULL, TP__IMPORT_NO_FOLD},
    {"Reshape", tp__import_reshape, NULL, NULL, TP__IMPORT_SIZES | TP__IMPORT_SHAPE},
    TP__IMPORT_BY("Flatten", tp__import_flatten),
    {"Squeeze", tp__import_squeeze, NULL, NULL, TP__IMPORT_SIZES},
    {"Unsqueeze", tp__import_squeeze, NULL, NULL, TP__IMPORT_SIZES},
    TP__IMPORT_BY("Transpose", tp__import_transpose),
    {"Concat", tp__import_concat, NULL, NULL, TP__IMPORT_SIZES | TP__IMPORT_IMAGES},
    {"Split", tp__import_split, NULL, NULL, TP__IMPORT_SIZES | TP__IMPORT_IMAGE},
    {"Slice", tp__import_slice, NULL, NULL, TP__IMPORT_SIZES | TP__IMPORT_IMAGE},
    {"Pad", tp__import_pad, NULL, NULL, TP__IMPORT_IMAGE},
    TP__IMPORT_BY("Tile", tp__import_tile),
    {"Expand", tp__import_expand, NULL, NULL, TP__IMPORT_SHAPE},
    {"DepthToSpace", tp__import_depth_space, NULL, NULL, TP__IMPORT_IMAGE},
    {"SpaceToDepth", tp__import_depth_space, NULL, NULL, TP__IMPORT_IMAGE},
    TP__IMPORT_BY("CenterCropPad", tp__import_center_crop_pad),
    {"Resize", tp__import_resize, NULL, NULL, TP__IMPORT_SHAPE | TP__IMPORT_IMAGE},
    {"Upsample", tp__import_resize, NULL, NULL, TP__IMPORT_IMAGE},
    TP__IMPORT_BY("GridSample", tp__import_grid_sample),
    /* rows of operators that pick elements */
    {"Gather", tp__import_gather, NULL, NULL, TP__IMPORT_SIZES},
    TP__IMPORT_BY("GatherElements", tp__import_gather_elements),
    TP__IMPORT_BY("GatherND", tp__import_gather_nd),
    TP__IMPORT_BY("ScatterElements", tp__import_scatter_elements),
    TP__IMPORT_BY("Scatter", tp__import_scatter_elements),
    TP__IMPORT_BY("ScatterND", tp__import_scatter_nd),
    TP__IMPORT_BY("OneHot", tp__import_one_hot),
    TP__IMPORT_BY("Trilu", tp__import_trilu),
    /* rows of random numbers */
    TP__IMPORT_DRAW("RandomUniform"),
    TP__IMPORT_DRAW("RandomNormal"),
    TP__IMPORT_DRAW("RandomUniformLike"),
    TP__IMPORT_DRAW("RandomNormalLike"),
    TP__IMPORT_DRAW("Bernoulli"),
    /* recurrent layers, attention, losses, windows, control flow */
    TP__IMPORT_BY("LSTM", tp__import_rnn),
    TP__IMPORT_BY("GRU", tp__import_rnn),
    TP__IMPORT_BY("RNN", tp__import_rnn),
    TP__IMPORT_BY("Attention", tp__import_attention),
    TP__IMPORT_BY("RotaryEmbedding", tp__import_rotary),
    TP__IMPORT_BY("SoftmaxCrossEntropyLoss", tp__import_class_loss),
    TP__IMPORT_BY("NegativeLogLikelihoodLoss", tp__import_class_loss),
    TP__IMPORT_BY("HannWindow", tp__import_window),
    TP__IMPORT_BY("HammingWindow", tp__import_window),
    TP__IMPORT_BY("BlackmanWindow", tp__import_window),
    {"If", tp__import_if, NULL, NULL, TP__IMPORT_NO_FOLD}};

TP_DEF const char *tp_import_onnx_operator(int i)
{
    TP__REQUIRE(i >= 0, NULL)

    return i >= 0 && i < (int)(sizeof tp__import_table / sizeof *tp__import_table) ? tp__import_table[i].name : NULL;
}

/* ==== >>import ========================================================================================= */

#define TP__IMPORT_SCRATCH ((size_t)1 << 28) /* bytes of the graph for folding that are not kept */
/* Creates the graph for folding and its session; replaces them when the graph has grown. reset: only frees them. */
static tp_status tp__importer_scratch(tp__importer *c, bool reset)
{
    if (reset ||
        (c->graph[1] && (tp_graph_n_operations(c->graph[1]) > 512 || c->graph[1]->arena.used > TP__IMPORT_SCRATCH))) {
        tp_session_free(c->session);
        tp_graph_free(c->graph[1]);
        c->session = NULL;
        c->graph[1] = NULL;
        for (int i = 0; i < c->all_values.n; i++) ((tp__import_value *)c->all_values.item[i])->node[1] = NULL;
    }
    if (reset || c->graph[1]) return TP_OK;
    tp_session_config config = tp_default_session_config();
    config.threads = 1;
    c->graph[1] = tp_graph_new(NULL);
    c->session = c->graph[1] ? tp_session_new(c->graph[1], &config) : NULL;
    return c->session ? TP_OK : tp__importer_nomem(c);
}

/* Whether the elements of v change their places when the channels of an image move to the end. */
static bool tp__import_value_moves(const tp__import_value *v)
{
    const tp_shape *s = v->node[0] ? &v->node[0]->shape : &v->known.shape;
    for (int d = 0; d < s->ndim; d++)
        if (s->dim[d] != 1) return true;
    return false;
}
/* Adds up the elements that a transpose would move during each run if the operator is built for channels last (*to_last), or
 * for channels first (*to_first). Returns the number of dimensions of the images; 0: it has none, or inputs that do not fit. */
static int tp__import_node_moves(tp__import_node *n, double *to_last, double *to_first)
{
    int ndim = 0;
    *to_last = *to_first = 0;
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i]) continue;
        if (n->in[i]->partial) return 0;
        const tp_node *x = n->in[i]->node[0];
        if (x && tp__has_nhwc(x)) ndim = x->shape.ndim;
    }
    for (int i = 0; i < n->n_in && ndim; i++) {
        if (!n->in[i]) continue;
        const tp_node *x = tp__importer_node(n->importer, n->in[i], n->name, n->op);
        double size = 1;
        if (x->shape.ndim > ndim || (x->shape.ndim < ndim && n->row->build == tp__import_concat)) return 0;
        for (int d = 0; d < x->shape.ndim; d++) size *= x->shape.dim[d] > 0 ? (double)x->shape.dim[d] : 1.0;
        if (tp__has_nhwc(x)) *to_first += size;
        else if (!n->in[i]->is_known && tp__import_value_moves(n->in[i])) *to_last += size;
    }
    return ndim;
}
/* Whether the operator is built for images with their channels last. */
static bool tp__import_node_is_image(tp__import_node *n)
{
    const int flags = n->row->flags;
    double to_last, to_first;
    if (flags & TP__IMPORT_IMAGES) return tp__import_node_moves(n, &to_last, &to_first) > 0 && to_first > to_last;
    if (!(flags & (TP__IMPORT_IMAGE | TP__IMPORT_WINDOWS)) || n->n_in < 1 || !n->in[0]) return false;
    if (n->row->build == tp__import_softmax && n->importer->opset < 13) return false;        /* over several axes */
    if (n->row->build == tp__import_pool && tp__import_node_output_used(n, 1)) return false; /* places in NCHW */
    if (!(flags & TP__IMPORT_WINDOWS)) return n->in[0]->node[0] && tp__has_nhwc(n->in[0]->node[0]);
    const int ndim = tp__importer_node(n->importer, n->in[0], n->name, n->op)->shape.ndim;
    return ndim == 3 || ndim == 4;
}
/* Returns the inputs of the operator with their channels last. */
static tp__import_value **tp__import_node_channels_last(tp__import_node *n)
{
    tp__importer *c = n->importer;
    const bool all = (n->row->flags & TP__IMPORT_IMAGES) != 0;
    int ndim = 0;
    tp__import_value **in = (tp__import_value **)tp__importer_alloc(c, (size_t)n->n_in, sizeof *in);
    for (int i = 0; i < n->n_in && in; i++) {
        in[i] = n->in[i];
        if (in[i] && in[i]->node[0] && in[i]->node[0]->shape.ndim > ndim) ndim = in[i]->node[0]->shape.ndim;
    }
    for (int i = 0; i < n->n_in && in && (all || i == 0); i++) {
        if (!in[i] || (all && !tp__import_value_moves(in[i]))) continue;
        tp__import_value *v = (tp__import_value *)tp__importer_alloc(c, 1, sizeof *v);
        if (!v) break;
        *v = *in[i];
        v->node[0] = tp__nhwc(all ? tp__with_ones(v->node[0], ndim, 0) : v->node[0]);
        v->is_known = v->partial = false; /* what is known of its elements has the layout of the file */
        in[i] = v;
    }
    return in ? in : n->in;
}

/* Builds the node in the current graph; an error of the graph becomes the import's error. */
static void tp__import_node_build(tp__import_node *n)
{
    tp__importer *c = n->importer;
    tp_graph *g = c->graph[c->graph_index];
    memset(n->made, 0, (size_t)n->n_out * sizeof *n->made);
    n->partial = false;
    if (c->graph_index == 0) tp_name_scope_push(g, tp__importer_name(c, n->name));
    tp__import_value **in = n->in;
    n->channels_last = c->graph_index == 0 && tp__import_node_is_image(n);
    if (n->channels_last) n->in = tp__import_node_channels_last(n);
    if (tp__import_node_spend(n, 0, 0)) n->row->build(n);
    for (int i = 0; i < n->n_out && n->channels_last; i++)
        if (n->made[i] && n->made[i]->shape.ndim > 2) n->made[i] = tp__nchw(n->made[i]);
    n->in = in;
    if (c->graph_index == 0) tp_name_scope_pop(g);
    if (c->status == TP_OK && tp_graph_status(g) != TP_OK)
        tp__importer_fail(c, n->name, tp_graph_status(g), "%s: %s%s", n->op, tp_graph_error(g),
                          n->channels_last ? " (of images as NHWC)" : "");
    for (int i = 0; i < n->n_out && c->status == TP_OK; i++) {
        const tp_node *y = n->made[i];
        if (n->out[i][0] && !y && !n->set[i])
            tp__on_fail(n, TP_ERR_UNSUPPORTED, "%s with its output %d cannot be expressed", n->op, i);
        else if (y && c->graph_index && tp_shape_size(&y->shape) > TP__IMPORT_MAX)
            tp__on_fail(n, TP_ERR_UNSUPPORTED, "%s gives too many numbers", n->op);
    }
}

/* Builds the node in the graph for folding and computes its outputs. */
static void tp__import_node_fold(tp__import_node *n)
{
    tp__importer *c = n->importer;
    if (tp__importer_scratch(c, false) != TP_OK) return;
    const int first = tp_graph_n_operations(c->graph[1]);
    c->graph_index = 1;
    tp__import_node_build(n);
    c->graph_index = 0;
    double bytes = 0; /* of all that is computed */
    for (int i = first; i < tp_graph_n_operations(c->graph[1]) && c->status == TP_OK; i++) {
        const tp_operation *o = tp_graph_operation(c->graph[1], i);
        for (int k = 0; k < o->n_out; k++)
            bytes += (double)tp_shape_size(&o->out[k].shape) * (double)tp_dtype_size(o->out[k].dtype);
        tp__import_node_spend(n, tp__operation_work(o), bytes);
    }
    for (int i = 0; i < n->n_out && c->status == TP_OK; i++) {
        if (!n->made[i] || !n->out[i][0]) continue;
        const tp_status st = tp_session_eval(c->session, n->made[i], &n->value[i]);
        if (st != TP_OK) tp__on_fail(n, st, "%s: %s", n->op, tp_last_error());
        n->set[i] = c->status == TP_OK;
        n->made[i] = NULL;
    }
}

/* In the two trial runs of arithmetic with sizes, the size of the dimension of symbol k, and for k = 0 one without a symbol. The second is
 * convex in k, so that a sum of sizes is no multiple of another size in both; and it is odd where the first is even. */
enum { TP__TRIAL_LEAST = 100003 };
static int64_t tp__trial_size(int run, int64_t k) { return run ? 200004 + 7 * k * k : TP__TRIAL_LEAST + k; }

/* The size that has the values a and b in the two trial runs: a multiple of a dimension with a symbol, or one without. */
static int64_t tp__importer_size_of_trials(tp__importer *c, int64_t a, int64_t b)
{
    if (a <= 0) return TP__OV_ANY;
    const int64_t times = a / TP__TRIAL_LEAST,
                  k = times ? a / times - TP__TRIAL_LEAST : 0; /* where times * k is small */
    if (k < 1 || k > c->symbols.n || a % times || b % times || b / times != tp__trial_size(1, k)) return TP__OV_ANY;
    const tp__symbol *y = (const tp__symbol *)c->symbols.item[k - 1];
    return y->times == 1 ? tp__importer_symbol_times(c, y->node, y->axis, times) : TP__OV_ANY;
}

/* Creates the inputs for a trial run of the operator, in which unknown sizes have the values above, so that the result shows which
 * sizes depend on them. An input that is named twice has one copy. */
static bool tp__import_node_guess(tp__import_node *n, tp__import_value **in, tp__import_value **assumed, int run)
{
    tp__importer *c = n->importer;
    for (int i = 0; i < n->n_in; i++) {
        assumed[i] = in[i];
        if (!in[i] || !in[i]->partial || c->status != TP_OK) continue;
        int same = 0;
        while (in[same] != in[i]) same++;
        const int64_t size = tp_tensor_size(&in[i]->known);
        assumed[i] = assumed[same];
        /* the copy, and the constant of the graph for folding */
        if (same < i || !tp__importer_has_room(c, n->name, 2.0 * (double)size * (double)sizeof(int64_t))) continue;
        if (!(assumed[i] = (tp__import_value *)tp__importer_alloc(c, 1, sizeof **assumed))) assumed[i] = in[i];
        else if (tp_tensor_copy(&assumed[i]->known, &in[i]->known) != TP_OK) tp__importer_nomem(c);
        if (c->status != TP_OK) continue;
        assumed[i]->name = in[i]->name;
        assumed[i]->is_known = true;
        int64_t *v = (int64_t *)assumed[i]->known.data;
        for (int64_t k = 0; k < size; k++) {
            const tp__symbol *s = tp__importer_symbol_of(c, v[k]);
            if (tp__is_any(v[k])) v[k] = s ? s->times * tp__trial_size(run, s->base) : tp__trial_size(run, 0);
        }
    }
    return c->status == TP_OK;
}

/* The first input that is partly known. */
static const tp_tensor *tp__import_node_partial(const tp__import_node *n)
{
    int i = 0;
    while (i + 1 < n->n_in && !(n->in[i] && n->in[i]->partial)) i++;
    return &n->in[i]->known;
}

/* Computes sizes from partly unknown sizes in two trial runs: outputs that differ depend on unknown sizes. */
static void tp__import_node_fold_sizes(tp__import_node *n)
{
    tp__importer *c = n->importer;
    tp__import_value **in = n->in, **stand = (tp__import_value **)tp__importer_alloc(c, (size_t)n->n_in, sizeof *stand);
    tp_tensor *first = (tp_tensor *)tp__importer_alloc(c, (size_t)n->n_out, sizeof *first);
    if (!stand || !first) return;
    /* a slice ends where the list ends: with both trial sizes, which are large, it would be the whole list */
    for (int i = 1; i < n->n_in && n->row->build == tp__import_slice; i++)
        if (in[i] && in[i]->partial) tp__import_node_unknown_size(n, &in[i]->known);
    for (int pass = 0; pass < 2 && c->status == TP_OK; pass++) {
        n->in = stand;
        if (tp__import_node_guess(n, in, stand, pass)) tp__import_node_fold(n);
        for (int i = 0; i < n->n_in; i++)
            if (stand[i] != in[i]) tp_tensor_free(&stand[i]->known);
        n->in = in;
        if (pass > 0 || c->status != TP_OK) continue;
        memcpy(first, n->value, (size_t)n->n_out * sizeof *first);
        memset(n->value, 0, (size_t)n->n_out * sizeof *n->value);
    }
    n->partial = false;
    for (int i = 0; i < n->n_out; i++) {
        const tp_tensor *second = &n->value[i];
        if (c->status == TP_OK && !tp_shape_equal(&first[i].shape, &second->shape))
            tp__import_node_unknown_size(n, tp__import_node_partial(n));
        for (int64_t k = 0; c->status == TP_OK && first[i].data && k < tp_tensor_size(&first[i]); k++) {
            const int64_t a = tp__known_int(&first[i], k), b = tp__known_int(second, k);
            if (a == b && tp__is_any(a)) tp__import_node_no_size(n, a);
            if (a == b) continue;
            if (second->dtype == TP_I64) ((int64_t *)second->data)[k] = tp__importer_size_of_trials(c, a, b);
            else tp__import_node_unknown_size(n, tp__import_node_partial(n));
            n->partial = true;
        }
        tp_tensor_free(&first[i]);
    }
}

static const tp__import_row *tp__import_find(const char *op)
{
    for (size_t i = 0; i < sizeof tp__import_table / sizeof *tp__import_table; i++)
        if (strcmp(tp__import_table[i].name, op) == 0) return &tp__import_table[i];
    return NULL;
}

#define TP__IMPORT_OPERANDS 16384 /* largest number of inputs or outputs of a node */

/* Lets tp_graph_find find a value of the file by its name there, beside the name of its operation in the graph. */
static void tp__importer_findable(tp__importer *c, const char *name, tp_node *y)
{
    const char *scope = tp_name_scope(c->graph[0]);
    int index; /* names of TensorFlow's outputs have an index, "relu:0": tp_graph_find looks for "relu" */
    const int n = (int)tp__split_name(name, &index);
    const char *full =
        tp_arena_printf(&c->graph[0]->arena, "%s%s%.*s", scope, *scope ? "/" : "", index ? n + 2 : n, name);
    if (!full) tp__importer_nomem(c);
    else if (y->index == 0 && !tp_is_poison(y) && !tp__map_get(&c->graph[0]->by_name, full) &&
             !tp__map_put(&c->graph[0]->by_name, full, y->op))
        tp__importer_nomem(c);
}

/* Makes the variable of a weight. A running statistic is not trained, as those of tp_batch_norm are not. */
static void tp__importer_variable(tp__importer *c, const char *name, tp__import_value *v)
{
    tp_graph *g = c->graph[0];
    const tp_tower_context *tower = tp_current_tower_context(g);
    const tp_tensor *t = &v->known;
    tp_variable_desc d;
    memset(&d, 0, sizeof d);
    d.name = tp__importer_name(c, name);
    d.dtype = t->dtype;
    d.shape = t->shape;
    d.init = tp_init_values((const float *)t->data, tp_tensor_size(t));
    if (tp__map_get(&c->statistics, name)) {
        d.trainable = TP_NO;
        if (!tower || tower->is_main_training_tower || !tower->is_training) d.collection = TP_KEY_MODEL_VARIABLES;
    } else if (tp_tensor_size(t) == 1) {
        if (c->n_single == 0) c->single = name;
        c->n_single++;
    }
    v->node[0] = tp_get_variable(g, &d);
    v->variable = true;
    if (tp_graph_status(g) != TP_OK)
        tp__importer_fail(c, name, tp_graph_status(g), "%s%s", tp_graph_error(g),
                          tp_graph_status(g) != TP_ERR_NAME
                              ? ""
                              : "; an import's variables are in the TP_VARIABLE_SCOPE around it, not in .scope");
}

/* Whether .constants names a weight. */
static bool tp__importer_is_constant(tp__importer *c, const char *name)
{
    bool found = false;
    if (!c->constants) return false;
    const tp_status st = tp_regex_search(c->constants, name, &found, NULL, 0);
    if (st != TP_OK) tp__importer_fail(c, name, st, ".constants: %s", tp_last_error());
    c->has_constants |= found;
    tp__nearest_try(&c->near, name);
    return found;
}
/* Whether an initializer is to become a variable. What .constants says takes the place of what the file says. */
static bool tp__importer_is_variable(tp__importer *c, const char *name, const tp_tensor *t)
{
    if (t->dtype != TP_F32 || t->shape.ndim == 0) return false;
    const bool is_constant = tp__importer_is_constant(c, name);
    if (!c->options || c->options->trainable != TP_YES || is_constant) return false;
    if (c->constants || !tp__map_get(&c->untrained, name) || tp__map_get(&c->statistics, name)) return true;
    c->n_untrained++;
    return false;
}
/* Reads which weights a file of tp says not to train. */
static void tp__importer_untrained(tp__importer *c)
{
    tp__pb_field f, e;
    for (tp__pb p = c->file; c->status == TP_OK && tp__pb_next(&p, &f);) {
        if (f.number != 14 || f.wire != 2) continue; /* field 14 of a ModelProto: an entry of metadata_props */
        bool is_list = false;
        tp__pb list = {NULL, NULL, false};
        while (tp__pb_next(&f.sub, &e)) {
            if (e.number == 1 && e.wire == 2) is_list = tp__pb_is_text(e.sub, TP__ONNX_UNTRAINED);
            c->has_untrained |= is_list;
            if (e.number == 2 && e.wire == 2) list = e.sub;
        }
        while (is_list && c->status == TP_OK && list.at != list.end) {
            tp__pb name = list;
            const void *end = memchr(list.at, '\n', (size_t)(list.end - list.at));
            name.end = end ? (const uint8_t *)end : list.end;
            list.at = end ? name.end + 1 : list.end;
            if (!tp__map_put(&c->untrained, tp__importer_string(c, name), c)) tp__importer_nomem(c);
        }
    }
}

/* Whether a node is an Identity of a trainable weight that other nodes read, too. PyTorch writes equal weights once, and each other one
 * of them as such a node: it is a weight of its own, which is equal only before the training. */
static bool tp__import_node_is_weight(const tp__import_node *n)
{
    if (strcmp(n->op, "Identity") != 0 || n->n_in != 1 || n->n_out != 1 || !n->in[0] || !n->in[0]->variable ||
        !n->in[0]->is_known || !n->out[0][0])
        return false;
    return tp__importer_reads(n->importer, n->in[0]->name) > 1 && tp__importer_reads(n->importer, n->out[0]) > 0;
}

/* Builds a node in the graph, or computes it if its inputs are known, and stores its outputs as values of the file. */
static void tp__import_node_run(tp__import_node *n)
{
    tp__importer *c = n->importer;
    if (tp__import_node_is_weight(n)) {
        const double bytes = (double)tp_tensor_bytes(&n->in[0]->known);
        tp__import_value *v = tp__importer_has_room(c, n->name, bytes) ? tp__importer_value(c, n->out[0]) : NULL;
        if (!v) return;
        c->value_bytes += bytes;
        if (tp_tensor_copy(&v->known, &n->in[0]->known) != TP_OK) {
            tp__importer_nomem(c);
            return;
        }
        v->is_known = true;
        if (tp__importer_is_variable(c, n->out[0], &v->known)) tp__importer_variable(c, n->out[0], v);
        return;
    }
    bool known = true, partial = false, variable = false;
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i]) continue;
        known &= n->in[i]->is_known;
        partial |= n->in[i]->partial;
        variable |= n->in[i]->variable;
    }
    if (!known || variable || (n->row->flags & TP__IMPORT_NO_FOLD)) tp__import_node_build(n);
    else if (!partial) tp__import_node_fold(n);
    else if (n->row->flags & TP__IMPORT_SIZES) tp__import_node_fold_sizes(n);
    else tp__import_node_build(n); /* the builder reports an error if it needs the unknown sizes */
    for (int i = 0; i < n->n_out; i++) {
        tp__import_value *v = c->status == TP_OK && n->out[i][0] ? tp__importer_value(c, n->out[i]) : NULL;
        if (!v) {
            tp_tensor_free(&n->value[i]);
            continue;
        }
        v->node[0] = n->made[i];
        if (v->node[0]) tp__importer_findable(c, n->out[i], v->node[0]);
        v->is_known = n->set[i];
        c->value_bytes += (double)tp_tensor_bytes(&n->value[i]);
        v->known = n->value[i]; /* v becomes the owner of the tensor */
        v->partial = n->partial && n->set[i] && n->value[i].dtype == TP_I64;
    }
}

/* Whether the model defines the operator itself, as a function. */
static bool tp__importer_has_function(const tp__importer *c, const char *domain, const char *op)
{
    tp__pb_field f, e;
    for (tp__pb p = c->file; tp__pb_next(&p, &f);) {
        if (f.number != 25 || f.wire != 2) continue; /* field 25 of a ModelProto: a FunctionProto */
        bool same_name = false, same_domain = !domain[0];
        while (tp__pb_next(&f.sub, &e)) {
            if (e.wire == 2 && e.number == 1) same_name = tp__pb_is_text(e.sub, op);
            if (e.wire == 2 && e.number == 10) same_domain = tp__pb_is_text(e.sub, domain);
        }
        if (same_name && same_domain) return true;
    }
    return false;
}

/* Refuses outputs whose names other values have, or other outputs of the node. */
static bool tp__import_node_outputs_are_new(tp__import_node *n)
{
    tp__importer *c = n->importer;
    tp__map names;
    memset(&names, 0, sizeof names);
    for (int i = 0; i < n->n_out && c->status == TP_OK; i++) {
        const char *name = n->out[i];
        if (!name[0]) continue;
        if (tp__map_get(&c->values, name) || tp__map_get(&names, name))
            tp__on_fail(n, TP_ERR_FORMAT, "%s makes '%s', which is there already", n->op, name);
        else if (n->n_out > 1 && !tp__map_put(&names, name, c)) tp__importer_nomem(c);
    }
    tp__map_free(&names);
    return c->status == TP_OK;
}

static tp_status tp__importer_node_msg(tp__importer *c, tp__pb msg)
{
    tp__import_node n;
    tp__pb m;
    tp__pb_field f, e;
    const char *domain = "", *name = NULL;
    int n_in = 0, n_out = 0, n_attr = 0;
    memset(&n, 0, sizeof n);
    n.importer = c;
    n.op = "";
    for (m = msg; tp__pb_next(&m, &f);) n_in += f.number == 1, n_out += f.number == 2, n_attr += f.number == 5;
    if (m.bad) return tp__importer_fail(c, NULL, TP_ERR_FORMAT, "a node is damaged");
    if (n_in > TP__IMPORT_OPERANDS || n_out > TP__IMPORT_OPERANDS) {
        for (m = msg; tp__pb_next(&m, &f);)
            if (f.number == 3 && f.wire == 2) name = tp__importer_string(c, f.sub);
        return tp__importer_fail(c, name, TP_ERR_UNSUPPORTED,
                                 "the node has %d inputs and %d outputs, %d of each at most: divide it into several",
                                 n_in, n_out, TP__IMPORT_OPERANDS);
    }
    n.in = (tp__import_value **)tp__importer_alloc(c, (size_t)n_in, sizeof *n.in);
    n.out = (const char **)tp__importer_alloc(c, (size_t)n_out, sizeof *n.out);
    n.made = (tp_node **)tp__importer_alloc(c, (size_t)n_out, sizeof *n.made);
    n.value = (tp_tensor *)tp__importer_alloc(c, (size_t)n_out, sizeof *n.value);
    n.set = (bool *)tp__importer_alloc(c, (size_t)n_out, sizeof *n.set);
    n.attr = (tp__import_attr *)tp__importer_alloc(c, (size_t)n_attr, sizeof *n.attr);
    if (!n.in || !n.out || !n.made || !n.value || !n.set || !n.attr) return c->status;
    const char *missing = NULL;
    for (m = msg; tp__pb_next(&m, &f);) {
        if (f.wire != 2) continue;
        if (f.number == 3) name = tp__importer_string(c, f.sub);
        else if (f.number == 4) n.op = tp__importer_string(c, f.sub);
        else if (f.number == 7) domain = tp__importer_string(c, f.sub);
        else if (f.number == 2) n.out[n.n_out++] = tp__importer_string(c, f.sub);
        else if (f.number == 1) {
            const char *text = tp__importer_string(c, f.sub);
            n.in[n.n_in] = text[0] ? (tp__import_value *)tp__map_get(&c->values, text) : NULL;
            if (text[0] && !n.in[n.n_in]) missing = text;
            n.n_in++;
        } else if (f.number == 5) {
            tp__pb a = f.sub;
            n.attr[n.n_attr].name = "";
            n.attr[n.n_attr].msg = f.sub;
            while (tp__pb_next(&a, &e))
                if (e.number == 1 && e.wire == 2) n.attr[n.n_attr].name = tp__importer_string(c, e.sub);
            if (a.bad) return tp__importer_fail(c, name, TP_ERR_FORMAT, "an attribute is damaged");
            n.n_attr++;
        }
    }
    n.name = name && name[0] ? name : n.n_out && n.out[0][0] ? n.out[0] : n.op;
    n.row = domain[0] && strcmp(domain, "ai.onnx") != 0 ? NULL : tp__import_find(n.op);
    if (c->status != TP_OK) return c->status;
    if (missing)
        return tp__importer_fail(
            c, n.name, TP_ERR_FORMAT,
            "%s takes '%s', which nothing before it makes; nodes have to be in order, without cycles", n.op, missing);
    if (!n.row) {
        const char *dot = domain[0] ? "." : "";
        if (tp__importer_has_function(c, domain, n.op))
            return tp__importer_fail(c, n.name, TP_ERR_UNSUPPORTED,
                                     "the model defines its own operator %s%s%s as a function: inline the functions "
                                     "first, onnx.inliner.inline_local_functions does",
                                     domain, dot, n.op);
        return tp__importer_fail(c, n.name, TP_ERR_UNSUPPORTED, "tp has no operator %s%s%s", domain, dot, n.op);
    }
    if (n.n_out < 1) return tp__importer_fail(c, n.name, TP_ERR_FORMAT, "%s has no outputs", n.op);
    if (!tp__import_node_outputs_are_new(&n)) return c->status;
    if (c->opset < 7 && tp__import_node_int(&n, "broadcast", 0) && tp__import_node_attr(&n, "axis"))
        return tp__importer_fail(c, n.name, TP_ERR_UNSUPPORTED,
                                 "%s of opset %d broadcasts along an axis, which newer ones do not: convert the model "
                                 "to opset 7 or later, onnx.version_converter.convert_version does",
                                 n.op, (int)c->opset);
    tp__import_node_run(&n);
    return c->status;
}

static void tp__importer_nodes(tp__importer *c, tp__pb graph)
{
    tp__pb_field f;
    while (c->status == TP_OK && tp__pb_next(&graph, &f))
        if (f.number == 1 && f.wire == 2) tp__importer_node_msg(c, f.sub);
    if (graph.bad) tp__importer_fail(c, NULL, TP_ERR_FORMAT, "the graph is damaged");
}

/* Finds the weights that are the running mean or variance of batch norms and nothing else. pass 0 adds the inputs 3 and 4 of
 * each BatchNormalization to c->statistics; pass 1 takes out what is another input too. */
static void tp__importer_statistics(tp__importer *c, tp__pb graph, int pass, int depth)
{
    tp__pb_field f, e, a;
    while (c->status == TP_OK && tp__pb_next(&graph, &f)) {
        if (f.number != 1 || f.wire != 2) continue;
        bool is_norm = false, is_copy = false;
        for (tp__pb node = f.sub; tp__pb_next(&node, &e);)
            if (e.number == 4 && e.wire == 2) {
                is_norm = tp__pb_is_text(e.sub, "BatchNormalization");
                is_copy = tp__pb_is_text(e.sub, "Identity"); /* of an equal weight: see tp__import_node_is_weight */
            }
        int i = 0;
        for (tp__pb node = f.sub; c->status == TP_OK && tp__pb_next(&node, &e);) {
            if (e.wire != 2) continue;
            for (tp__pb attr = e.sub; e.number == 5 && depth < 16 && tp__pb_next(&attr, &a);)
                if (a.number == 6 && a.wire == 2) tp__importer_statistics(c, a.sub, pass, depth + 1);
            if (e.number != 1) continue;
            const bool is_statistic = is_norm && (i == 3 || i == 4);
            i++;
            if (is_statistic ? pass : !pass || is_copy) continue;
            const char *name = tp__importer_string(c, e.sub);
            if (!is_statistic && !tp__map_get(&c->statistics, name)) continue;
            if (!tp__map_put(&c->statistics, name, is_statistic ? c : NULL)) tp__importer_nomem(c);
        }
    }
}

static tp_status tp__importer_initializers(tp__importer *c, tp__pb graph)
{
    tp__pb_field f;
    while (c->status == TP_OK && tp__pb_next(&graph, &f)) {
        if (f.number == 15) return tp__importer_fail(c, NULL, TP_ERR_UNSUPPORTED, "the model has sparse weights");
        if (f.number != 5 || f.wire != 2) continue;
        tp_tensor t;
        const char *name = NULL;
        memset(&t, 0, sizeof t);
        if (tp__importer_tensor(c, f.sub, &t, &name, NULL) == TP_OK) {
            tp__import_value *v = NULL;
            if (!name || !name[0] || tp__map_get(&c->values, name))
                tp__importer_fail(c, NULL, TP_ERR_FORMAT,
                                  name && name[0] ? "two values are called '%s'" : "a weight has no name%s",
                                  name ? name : "");
            else v = tp__importer_value(c, name);
            if (v) {
                c->value_bytes += (double)tp_tensor_bytes(&t);
                v->known = t;
                v->is_known = true;
                if (tp__importer_is_variable(c, name, &t)) tp__importer_variable(c, name, v);
                continue;
            }
        }
        tp_tensor_free(&t);
    }
    return c->status;
}

/* Reads a dimension: its size, which .dims may give, and its name. */
static int64_t tp__importer_dim(tp__importer *c, tp__pb msg, const char **name)
{
    tp__pb_field d;
    int64_t size = TP_ANY;
    while (tp__pb_next(&msg, &d)) {
        if (d.number == 1 && d.wire == 0) size = (int64_t)d.value < 0 ? TP_ANY : (int64_t)d.value;
        if (d.number != 2 || d.wire != 2) continue;
        *name = tp__importer_string(c, d.sub);
        for (int i = 0; c->options && i < c->options->n_dims; i++)
            if (strcmp(c->options->dims[i].name, *name) == 0) size = c->options->dims[i].size;
    }
    return size;
}

/* Reads an input or output: its name; for an input, also its type. dim_names may be NULL. */
static tp_status tp__importer_signature(tp__importer *c, tp__pb msg, const char **name, int64_t *elem, tp_shape *shape,
                                        bool *has_shape, const char **dim_names)
{
    tp__pb_field f, t, e, s;
    *name = "";
    *elem = 0;
    *has_shape = false;
    memset(shape, 0, sizeof *shape);
    while (tp__pb_next(&msg, &f)) {
        if (f.number == 1 && f.wire == 2) *name = tp__importer_string(c, f.sub);
        if (f.number != 2 || f.wire != 2) continue;
        while (tp__pb_next(&f.sub, &t)) {
            if (t.number != 1 || t.wire != 2) continue; /* field 1 of a TypeProto: tensor_type */
            while (tp__pb_next(&t.sub, &e)) {
                if (e.number == 1 && e.wire == 0) *elem = (int64_t)e.value;
                if (e.number != 2 || e.wire != 2) continue;
                *has_shape = true;
                while (tp__pb_next(&e.sub, &s)) {
                    if (s.number != 1 || s.wire != 2) continue;
                    const char *dim_name = "";
                    const int64_t size = tp__importer_dim(c, s.sub, &dim_name);
                    if (shape->ndim == TP_MAX_DIMS)
                        return tp__importer_fail(c, NULL, TP_ERR_UNSUPPORTED, "'%s' has more than %d dimensions", *name,
                                                 TP_MAX_DIMS);
                    if (dim_names) dim_names[shape->ndim] = dim_name;
                    shape->dim[shape->ndim++] = size;
                }
            }
        }
    }
    if (msg.bad) tp__importer_fail(c, NULL, TP_ERR_FORMAT, "the description of '%s' is damaged", *name);
    return c->status;
}

/* Remembers the names of an input's dimensions, and those whose size is not known. is_given: .inputs gives the node. */
static bool tp__importer_input_dims(tp__importer *c, const char *input, const tp_node *node, const char *const *name,
                                    int n_names, bool is_given)
{
    for (int d = 0; d < n_names; d++)
        if (name[d][0] && !tp__map_get(&c->dim_name_map, name[d]) &&
            (!tp__map_put(&c->dim_name_map, name[d], c) || !tp__list_add(&c->dim_names, (void *)(uintptr_t)name[d])))
            return tp__importer_nomem(c), false;
    for (int d = 0; d < node->shape.ndim; d++) {
        if (node->shape.dim[d] >= 0) continue;
        tp__open_dim *o = (tp__open_dim *)tp__importer_alloc(c, 1, sizeof *o);
        if (!o || !tp__list_add(&c->open_dims, o)) return tp__importer_nomem(c), false;
        o->node = node;
        o->input = input;
        o->name = d < n_names && !is_given ? name[d] : "";
        o->axis = d;
        o->same = c->open_dims.n - 1;
        const tp__open_dim *first = o->name[0] ? (const tp__open_dim *)tp__map_get(&c->open_names, o->name) : NULL;
        if (first) o->same = first->same;
        else if (o->name[0] && !tp__map_put(&c->open_names, o->name, o)) return tp__importer_nomem(c), false;
    }
    return true;
}

static tp_status tp__importer_input(tp__importer *c, tp__pb msg, tp_onnx_model *m)
{
    const char *name, *dim_name[TP_MAX_DIMS];
    int64_t elem;
    tp_shape shape;
    bool has_shape;
    tp_node *node = NULL;
    if (tp__importer_signature(c, msg, &name, &elem, &shape, &has_shape, dim_name) != TP_OK) return c->status;
    if (!name[0]) return tp__importer_fail(c, NULL, TP_ERR_FORMAT, "an input has no name");
    if (tp__map_get(&c->inputs, name))
        return tp__importer_fail(c, NULL, TP_ERR_FORMAT, "two inputs are called '%s'", name);
    if (tp__map_get(&c->values, name)) return TP_OK; /* an initializer: it is the default value of the input */
    const tp_dtype dtype = tp__import_dtype(elem);
    if (!tp__shape_fits(&shape))
        return tp__importer_fail(c, NULL, TP_ERR_FORMAT, "the input '%s' has impossible dimensions", name);
    for (int i = 0; c->options && i < c->options->n_inputs; i++)
        if (strcmp(c->options->inputs[i].name, name) == 0) node = c->options->inputs[i].node;
    if (!dtype)
        return tp__importer_fail(c, NULL, TP_ERR_UNSUPPORTED, "the input '%s' is %s, which tp does not have", name,
                                 tp__import_dtype_name(elem));
    if (node && (node->dtype != dtype || (has_shape && !tp_shape_compatible(&node->shape, &shape)))) {
        char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
        return tp__importer_fail(c, NULL, TP_ERR_ARG, "what .inputs gives for '%s' is %s %s; the file wants %s %s",
                                 name, tp_dtype_name(node->dtype), tp_shape_text(&node->shape, a), tp_dtype_name(dtype),
                                 has_shape ? tp_shape_text(&shape, b) : "");
    }
    if (!node && !has_shape)
        return tp__importer_fail(
            c, NULL, TP_ERR_UNSUPPORTED,
            "the input '%s' does not say how many dimensions it has; give a node for it in .inputs", name);
    const bool is_given = node != NULL;
    if (!node) node = tp_placeholder(c->graph[0], tp__importer_name(c, name), dtype, shape);
    if (tp_graph_status(c->graph[0]) != TP_OK)
        return tp__importer_fail(c, name, tp_graph_status(c->graph[0]), "%s", tp_graph_error(c->graph[0]));
    tp__import_value *v = tp__importer_value(c, name);
    if (!v || !tp__importer_input_dims(c, name, node, dim_name, shape.ndim, is_given)) return c->status;
    v->node[0] = node;
    if (node->op->row == &tp__op_constant) {
        tp_tensor view;
        memset(&view, 0, sizeof view);
        tp_tensor_view(&view, node->dtype, node->shape, node->op->user);
        v->is_known = tp_tensor_copy(&v->known, &view) == TP_OK;
        if (!v->is_known) return tp__importer_nomem(c);
    }
    if (!tp__map_put(&c->inputs, name, c)) return tp__importer_nomem(c);
    m->input[m->n_input].name = tp_graph_strdup(c->graph[0], name);
    m->input[m->n_input++].node = node;
    return TP_OK;
}

/* Reads the names of the outputs and reserves them for the nodes that tp__importer_model makes at the end, so that no node of the file
 * gets one of these names before. */
static void tp__importer_output_names(tp__importer *c, tp__pb graph, const char **name, const char **full)
{
    tp__pb_field f;
    int64_t elem;
    tp_shape shape;
    bool has_shape;
    for (int i = 0; tp__pb_next(&graph, &f);) {
        if (f.number != 12 || f.wire != 2) continue;
        if (tp__importer_signature(c, f.sub, &name[i], &elem, &shape, &has_shape, NULL) != TP_OK) return;
        full[i] = tp__unique_name(c->graph[0], tp_name_scope(c->graph[0]), tp__importer_name(c, name[i]));
        if (!full[i++]) tp__importer_nomem(c);
    }
}

/* Refuses a name in .inputs that no input has. */
static void tp__importer_unknown_inputs(tp__importer *c, const tp_onnx_model *m)
{
    tp__words w;
    for (int i = 0; c->status == TP_OK && c->options && i < c->options->n_inputs; i++) {
        bool used = false;
        for (int k = 0; k < m->n_input; k++) used |= strcmp(m->input[k].name, c->options->inputs[i].name) == 0;
        if (used) continue;
        w.n = 0;
        tp__words_put(&w, m->n_input ? "; its inputs are " : "; it has no inputs");
        for (int k = 0; k < m->n_input; k++) tp__import_list(&w, k, "'", m->input[k].name, "'");
        tp__importer_fail(c, NULL, TP_ERR_NAME, "the model has no input '%s'%s", c->options->inputs[i].name, w.text);
    }
}

/* Writes which names in .dims no dimension of an input has, and which names there are. Returns whether there is such a name. */
static bool tp__importer_unknown_dims(const tp__importer *c, tp__words *w)
{
    int n = 0;
    w->n = 0;
    for (int i = 0; c->options && i < c->options->n_dims; i++) {
        const char *name = c->options->dims[i].name;
        if (tp__map_get(&c->dim_name_map, name)) continue;
        if (n == 0) tp__words_put(w, ".dims has ");
        tp__import_list(w, n++, "'", name, "'");
    }
    if (n == 0) return false;
    tp__words_put(w, c->dim_names.n ? ", but the names of the inputs' dimensions are "
                                    : ", but no dimension of an input has a name");
    for (int i = 0; i < c->dim_names.n; i++) tp__import_list(w, i, "'", (const char *)c->dim_names.item[i], "'");
    return true;
}

#define TP__IMPORT_NEWEST 28 /* the newest opset whose operators are known */

static tp_status tp__importer_model(tp__importer *c, tp__pb file, tp_onnx_model *m)
{
    tp__pb_field f, e;
    tp__pb graph = {NULL, NULL, false}, p;
    bool found = false;
    int n_in = 0, n_out = 0;
    for (p = file; tp__pb_next(&p, &f);) {
        if (f.number == 7 && f.wire == 2) graph = f.sub, found = true;
        if (f.number != 8 || f.wire != 2) continue;
        const char *domain = "";
        int64_t version = 0;
        while (tp__pb_next(&f.sub, &e)) {
            if (e.number == 1 && e.wire == 2) domain = tp__importer_string(c, e.sub);
            if (e.number == 2 && e.wire == 0) version = (int64_t)e.value;
        }
        if (!domain[0] || strcmp(domain, "ai.onnx") == 0) c->opset = version;
    }
    if (p.bad || !found)
        return tp__importer_fail(c, NULL, TP_ERR_FORMAT, "this is no ONNX model, or the file is damaged or cut off");
    if (c->opset < 1)
        return tp__importer_fail(c, NULL, TP_ERR_FORMAT,
                                 "the model does not say which version of the operators it uses");
    if (c->opset > TP__IMPORT_NEWEST)
        tp_log(TP_LOG_WARN,
               "%s: opset %lld is newer than %d, the newest that is known here: an operator that has changed since is "
               "computed as it was",
               c->model_name, (long long)c->opset, TP__IMPORT_NEWEST);
    for (p = graph; tp__pb_next(&p, &f);) n_in += f.number == 11 && f.wire == 2, n_out += f.number == 12 && f.wire == 2;
    if (p.bad) return tp__importer_fail(c, NULL, TP_ERR_FORMAT, "the graph is damaged");
    m->input = (tp_onnx_value *)tp_graph_alloc(c->graph[0], (size_t)(n_in + 1) * sizeof *m->input);
    m->output = (tp_onnx_value *)tp_graph_alloc(c->graph[0], (size_t)(n_out + 1) * sizeof *m->output);
    if (!m->input || !m->output) return tp__importer_nomem(c);
    if (c->options && c->options->trainable == TP_YES)
        for (int pass = 0; pass < 2; pass++) tp__importer_statistics(c, graph, pass, 0);
    tp__importer_untrained(c);
    if (c->status == TP_OK) tp__importer_initializers(c, graph);
    for (p = graph; c->status == TP_OK && tp__pb_next(&p, &f);)
        if (f.number == 11 && f.wire == 2) tp__importer_input(c, f.sub, m);
    tp__importer_unknown_inputs(c, m);
    const char **name = (const char **)tp__importer_alloc(c, (size_t)n_out, sizeof *name);
    const char **full = (const char **)tp__importer_alloc(c, (size_t)n_out, sizeof *full);
    if (c->status == TP_OK) tp__importer_output_names(c, graph, name, full);
    if (c->status == TP_OK) tp__importer_nodes(c, graph);
    for (int i = 0; i < n_out && c->status == TP_OK; i++) {
        tp__import_value *v = (tp__import_value *)tp__map_get(&c->values, name[i]);
        if (!v) return tp__importer_fail(c, NULL, TP_ERR_FORMAT, "the output '%s' is made by no node", name[i]);
        m->output[i].name = tp_graph_strdup(c->graph[0], name[i]);
        tp_node *y = tp_identity(tp__importer_node(c, v, NULL, ""));
        m->output[m->n_output++].node = tp_is_poison(y) ? y : tp__rename(y, full[i]);
    }
    if (c->status == TP_OK && tp_graph_status(c->graph[0]) != TP_OK)
        tp__importer_fail(c, NULL, tp_graph_status(c->graph[0]), "%s", tp_graph_error(c->graph[0]));
    return c->status;
}

/* Checks what .dims and .inputs give. */
static tp_status tp__importer_check_lists(tp__importer *c)
{
    const tp_import_onnx_desc *d = c->options;
    const bool dims = d->n_dims < 0 || (d->n_dims > 0 && !d->dims);
    if (dims || d->n_inputs < 0 || (d->n_inputs > 0 && !d->inputs)) {
        const char *list = dims ? "dims" : "inputs";
        const int n = dims ? d->n_dims : d->n_inputs;
        return tp__importer_fail(c, NULL, TP_ERR_ARG, ".n_%s is %d%s%s: give the list in .%s and its length in .n_%s",
                                 list, n, n > 0 ? ", but there is no ." : "", n > 0 ? list : "", list, list);
    }
    for (int i = 0; i < d->n_dims; i++) {
        const char *name = d->dims[i].name;
        if (!name)
            return tp__importer_fail(c, NULL, TP_ERR_ARG, ".dims[%d].name is NULL: give the dimension's name", i);
        if (d->dims[i].size < 1)
            return tp__importer_fail(c, NULL, TP_ERR_ARG, ".dims gives '%s' the size %lld: give a size of 1 or more",
                                     name, (long long)d->dims[i].size);
        for (int k = 0; k < i; k++)
            if (strcmp(d->dims[k].name, name) == 0 && d->dims[k].size != d->dims[i].size)
                return tp__importer_fail(c, NULL, TP_ERR_ARG, ".dims gives '%s' the sizes %lld and %lld: give it one",
                                         name, (long long)d->dims[k].size, (long long)d->dims[i].size);
    }
    for (int i = 0; i < d->n_inputs; i++) {
        const tp_onnx_value *v = &d->inputs[i];
        if (!v->name || !v->node)
            return tp__importer_fail(c, NULL, TP_ERR_ARG, ".inputs[%d].%s is NULL: give the input's name and its node",
                                     i, v->name ? "node" : "name");
        if (v->node->op->graph != c->graph[0])
            return tp__importer_fail(c, NULL, TP_ERR_ARG,
                                     "the node of .inputs for '%s' %s: give a node of the graph that imports", v->name,
                                     v->node->op->graph ? "belongs to another graph" : "was not made");
        for (int k = 0; k < i; k++)
            if (strcmp(d->inputs[k].name, v->name) == 0)
                return tp__importer_fail(c, NULL, TP_ERR_ARG, ".inputs gives '%s' two nodes: give it one", v->name);
    }
    return TP_OK;
}

static tp_status tp__importer_check_options(tp__importer *c)
{
    const tp_import_onnx_desc *d = c->options;
    if (!d) return TP_OK;
    if (d->trainable < 0 || d->trainable > TP_UNSET)
        return tp__importer_fail(c, NULL, TP_ERR_ARG, ".trainable is %d, which is no tp_tri: give TP_YES or TP_NO",
                                 d->trainable);
    if (!(d->max_work >= 0))
        return tp__importer_fail(c, NULL, TP_ERR_ARG,
                                 ".max_work is %g: give a number of operations; TP_ZERO allows none", d->max_work);
    if (!(d->max_memory >= 0))
        return tp__importer_fail(c, NULL, TP_ERR_ARG, ".max_memory is %g: give a number of bytes", d->max_memory);
    if (tp__importer_check_lists(c) != TP_OK || !d->constants) return c->status;
    if (!*d->constants)
        return tp__importer_fail(c, NULL, TP_ERR_ARG,
                                 ".constants is empty, which matches every name: give a regular expression, or NULL");
    c->near.wanted = d->constants;
    const tp_status st = tp_regex_new(d->constants, &c->constants);
    return st == TP_OK ? TP_OK : tp__importer_fail(c, NULL, st, ".constants: %s", tp_last_error());
}

static tp_status tp__import_onnx(tp_graph *g, const void *data, size_t size, const char *model_name, const char *path,
                                 const tp_import_onnx_desc *d, tp_onnx_model *m)
{
    tp__importer c;
    tp__pb file = {(const uint8_t *)data, size ? (const uint8_t *)data + size : (const uint8_t *)data, false};
    tp__words w;
    memset(&c, 0, sizeof c);
    memset(m, 0, sizeof *m);
    c.graph[0] = g;
    c.options = d;
    c.model_name = model_name;
    c.path = path;
    c.max_work = d && d->max_work > 0 ? d->max_work : 2e10;
    c.max_memory = d && d->max_memory > 0 ? d->max_memory : TP__IMPORT_BASE + TP__IMPORT_SHARE * (double)size;
    c.graph_bytes = g->arena.used;
    c.file = file;
    if (tp_graph_status(g) != TP_OK) return tp_fail(tp_graph_status(g), "%s", tp_graph_error(g));
    if (tp__importer_check_options(&c) != TP_OK) return c.status;
    if (d && d->scope) tp_name_scope_push(g, d->scope);
    const tp_status st = tp__importer_model(&c, file, m);
    if (d && d->scope) tp_name_scope_pop(g);
    if ((st == TP_OK || c.is_size_wanted) && tp__importer_unknown_dims(&c, &w)) {
        const size_t n = strlen(c.sentence);
        if (st == TP_OK) {
            tp__no_control(w.text, false);
            tp_log(TP_LOG_WARN, "%s: %s", model_name, w.text);
        } else snprintf(c.sentence + n, sizeof c.sentence - n, "; %s", w.text);
    }
    if (st == TP_OK && c.constants && !c.has_constants) {
        char near[TP__NEAREST_TEXT];
        tp__nearest_text(&c.near, near);
        tp__no_control(near, false);
        tp_log(TP_LOG_WARN, "%s: .constants is '%s', which matches no weight's name%s", model_name, d->constants, near);
    }
    if (st == TP_OK && c.n_untrained > 0)
        tp_log(TP_LOG_INFO,
               "%s: %d of its weights stay constant, because the file says that they were not trained; .constants "
               "takes the "
               "place of "
               "its list",
               model_name, c.n_untrained);
    if (st == TP_OK && c.n_single > 0 && !c.constants && !c.has_untrained) {
        tp__words name;
        memset(&name, 0, sizeof name);
        snprintf(name.text, sizeof name.text, "%s", c.single);
        tp__no_control(name.text, false);
        tp_log(
            TP_LOG_INFO,
            "%s: %d of the trained weights have one element each, as '%s': .constants keeps those that are factors of "
            "a formula, like the scale of attention in files of PyTorch",
            model_name, c.n_single, name.text);
    }
    tp__importer_scratch(&c, true);
    for (int i = 0; i < c.all_values.n; i++) tp_tensor_free(&((tp__import_value *)c.all_values.item[i])->known);
    tp_free((void *)c.all_values.item);
    tp_free((void *)c.symbols.item);
    tp_free((void *)c.trials.item);
    tp_free((void *)c.dim_names.item);
    tp_free((void *)c.open_dims.item);
    tp__map_free(&c.dim_name_map);
    tp__map_free(&c.open_names);
    tp__map_free(&c.statistics);
    tp__map_free(&c.untrained);
    tp__map_free(&c.files);
    tp__map_free(&c.reads);
    tp__map_free(&c.inputs);
    tp__map_free(&c.symbol_map);
    tp_regex_free(c.constants);
    tp__map_free(&c.values);
    tp_arena_free(&c.mem);
    if (st == TP_OK) tp__graph_fix_places(g); /* the new operations belong to no source line of the program */
    return st == TP_OK ? TP_OK : tp_fail(st, "%s", c.sentence);
}

TP_DEF tp_status tp_import_onnx_parse(tp_graph *g, const void *data, size_t size, const char *what,
                                      const tp_import_onnx_desc *d, tp_onnx_model *m)
{
    TP__REQUIRE(g && (data || size == 0) && what && m, TP_ERR_ARG)

    return tp__import_onnx(g, data, size, what, NULL, d, m);
}

TP_DEF tp_status tp_import_onnx(tp_graph *g, const char *path, const tp_import_onnx_desc *d, tp_onnx_model *m)
{
    TP__REQUIRE(g && path && m, TP_ERR_ARG)

    char *data = NULL;
    size_t size = 0;
    memset(m, 0, sizeof *m);
    tp_status st = tp_file_read(path, false, 0, &data, &size);
    if (st == TP_OK) st = tp__import_onnx(g, data, size, path, path, d, m);
    tp_free(data);
    return st;
}

TP__COLD_END
TP__EXACT_END
#undef TP__PLACED
#define TP__PLACED TP__PLACE
#endif /* TP_IMPLEMENTATION */
