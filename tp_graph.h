/* tp_graph.h - v0.1 - symbolic graphs: ops with gradients, variables, towers, a planner and a session
 *
 * Do this:
 *     #define TP_IMPLEMENTATION        // in ONE .c file, before any other include
 *     #include "tp_graph.h"            // pulls in tp_tensor.h
 *
 * WHAT THIS IS       building a graph gives tp_node handles; tp_gradients adds the nodes of a derivative; a
 *                    tp_session compiles what is fetched into a plan once and runs it many times.
 * WHAT THIS IS NOT   layers (tp_layers.h), optimizers (tp_optim.h), loops over epochs (tp_train.h).
 *
 * A COMPLETE PROGRAM
 *     #define TP_IMPLEMENTATION
 *     #include "tp_graph.h"
 *     int main(void)
 *     {
 *         tp_graph *g = tp_graph_new(NULL);
 *         tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 3));
 *         tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(3, 1), tp_init_ones());
 *         tp_node *y = tp_mean(tp_square(tp_matmul(x, w))), *dw = NULL;
 *         tp_gradients(y, &w, 1, &dw);
 *         tp_session *s = tp_session_new(g, NULL);
 *         float data[6] = {1, 2, 3, 4, 5, 6};
 *         tp_feed feed = {x, {0}};
 *         tp_tensor_view(&feed.value, TP_F32, tp_make_shape(2, 3), data);
 *         tp_node *fetch[] = {y, dw};
 *         const tp_tensor *out[2];
 *         if (!s || tp_session_run(s, &feed, 1, fetch, 2, out) != TP_OK) puts(tp_last_error());
 *         else printf("y = %g, dy/dw0 = %g\n", tp_tensor_get(out[0], 0), tp_tensor_get(out[1], 0));
 *         tp_session_free(s);
 *         tp_graph_free(g);
 *         return 0;
 *     }
 *
 * CONTENTS   >>types >>optable >>graph >>names >>scopes >>variables >>towers >>gradients >>nodes >>summaries
 *            >>session >>hooks >>checkpoints   then, in the implementation: >>core >>ops >>plan >>run >>saver
 *
 * OWNERSHIP  the graph owns every node, name and copied option: they die with tp_graph_free. The session owns the
 *            variables' values and everything a run needs; free sessions before their graph.
 * THREADS    one graph is built by one thread. A session's run functions may be used by one thread per tp_exec.
 * ERRORS     builders never return NULL: the first mistake sticks to the graph and later calls pass on a poison node;
 *            tp_graph_status / tp_graph_error (and whoever runs the graph) report it, with file:line and name scope.
 * NOTATION   B batch, H W height and width, C input channels, O output channels, N elements; d<x> = d cost / d <x>.
 */
#ifndef TP_GRAPH_H
#define TP_GRAPH_H

#include "tp_tensor.h"
#if TP_VERSION_MAJOR != 0 || TP_VERSION_MINOR != 1
#error "tp_graph.h 0.1 needs tp_tensor.h 0.1: copy all tp headers from the same version"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ==== >>types ========================================================================================= */

typedef struct tp_graph tp_graph;
typedef struct tp_session tp_session;
typedef struct tp_exec tp_exec;
typedef struct tp_op tp_op;
typedef struct tp_operation tp_operation;
typedef struct tp_variable tp_variable;

/* One output value of an operation. Read the fields, never write them. */
typedef struct tp_node {
    tp_operation *op;
    int index; /* which output of op */
    tp_dtype dtype;
    tp_shape shape; /* static shape; TP_ANY where unknown */
} tp_node;

/* One operation of a graph: a row of the op table applied to inputs. Read the fields, never write them. */
struct tp_operation {
    tp_graph *graph;
    const tp_op *row;
    const char *name; /* "tower0/conv1/Relu" */
    int id;           /* creation order */
    int n_in, n_out, n_ctrl, n_var;
    tp_node **in;
    tp_node *out;         /* n_out values; effect-only ops have one, a bool of shape (0) */
    tp_operation **ctrl;  /* run before this one */
    tp_variable **var;    /* written in place by this op (WRITES_VAR), or what a variable op stands for */
    void *attrs;          /* the row's attribute struct */
    void *user;           /* HOST ops: what the builder registered */
    uint64_t stream;      /* random stream: hash of the name, or another op's stream to repeat its numbers */
    int device;           /* device tag: index into the session's devices */
    tp_at at;             /* where the user asked for it; file may be NULL */
};

/* Initial values. Make one with the functions below; a zeroed one is "unset". Formulas: >>variables. */
typedef enum tp_init_kind {
    TP_INIT_UNSET = 0,
    TP_INIT_CONSTANT,
    TP_INIT_NORMAL,
    TP_INIT_TRUNCATED_NORMAL,
    TP_INIT_UNIFORM,
    TP_INIT_VARIANCE_SCALING,
    TP_INIT_VALUES
} tp_init_kind;
typedef enum { TP_FAN_IN = 1, TP_FAN_OUT, TP_FAN_AVG } tp_fan_mode;
typedef enum { TP_DIST_TRUNCATED_NORMAL = 1, TP_DIST_NORMAL, TP_DIST_UNIFORM } tp_distribution;
typedef struct tp_init {
    int kind;   /* tp_init_kind */
    float a, b; /* constant: a. normal: mean a, deviation b. uniform: [a,b). variance scaling: scale a */
    int mode, distribution;
    const float *values; /* TP_INIT_VALUES: copied when the variable is made */
    int64_t n_values;
} tp_init;

/* A named input or output signature. TP_SPEC("input", TP_F32, TP_ANY, 28, 28) [train: TensorSpec, InputDesc] */
typedef struct tp_spec {
    const char *name;
    tp_dtype dtype;
    tp_shape shape;
} tp_spec;
#ifndef __cplusplus
#define TP_SPEC(name_, dtype_, ...)                                                          \
    {                                                                                        \
        name_, dtype_, { (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), { __VA_ARGS__ } } \
    }
#endif

/* ==== >>optable ======================================================================================= */
/* An op is one entry: its row, with the formula, the shape rule, the gradient and the naive loop standing together
 * under >>ops. Tests walk the table (tp_op_registry), so that a new entry is tested by being there. */

enum {
    TP_OP_PURE = 0,                /* may be merged, folded, pruned */
    TP_OP_RANDOM = 1 << 0,         /* depends on the random step: never merged or folded */
    TP_OP_READS_VAR = 1 << 1,      /* its value is a variable's */
    TP_OP_WRITES_VAR = 1 << 2,     /* changes variables in place */
    TP_OP_COLLECTIVE = 1 << 3,     /* all ranks must run it, in creation order */
    TP_OP_HOST = 1 << 4,           /* runs on the host, has an outside effect (print, check) */
    TP_OP_DYNAMIC_SHAPE = 1 << 5,  /* its output shape is not a function of input shapes and attributes */
    TP_OP_ELEMENTWISE = 1 << 6,    /* out[i] depends on in[][i] alone, after broadcasting: has block functions */
    TP_OP_ANY_DTYPE = 1 << 7,      /* moves elements without looking at them: naive[0] serves every dtype */
    TP_OP_VIEW = 1 << 8,           /* output 0 is input 0's memory under another shape: no work at run time */
    TP_OP_SOURCE = 1 << 9,         /* placeholder, constant, variable: has no kernel */
    TP_OP_NO_ALIAS = 1 << 10       /* the output may not share memory with a dying input */
};

typedef enum { TP_ATTR_INT, TP_ATTR_INTS8, TP_ATTR_I64S8, TP_ATTR_FLOAT, TP_ATTR_BOOL, TP_ATTR_DTYPE, TP_ATTR_SHAPE, TP_ATTR_STRING, TP_ATTR_U64 } tp_attr_kind;
/* One field of an attribute struct: int, int[8], int64_t[8], float, bool, tp_dtype, tp_shape, const char *, uint64_t. */
typedef struct tp_attr {
    const char *name;
    tp_attr_kind kind;
    size_t offset;
} tp_attr;

/* What a shape rule sees: input types and attributes; it fills `out`. It runs when the graph is built (dimensions may
 * be TP_ANY) and again when a plan is bound (all known), and must agree with itself. */
#define TP_MAX_OUTPUTS 256 /* of one op */
typedef struct tp_infer {
    const tp_op *op;
    const void *attrs;
    const char *name; /* of the operation, for sentences */
    int n_in;
    const tp_type *in;
    int n_out; /* set for rows with a variable number of outputs; else preset */
    tp_type *out;
    int n_var;
    const tp_type *var;
} tp_infer;

/* What a gradient function sees: it sets din[i] (preset NULL = no gradient) from nodes. dout[i] is NULL where output i
 * does not reach the cost. */
typedef struct tp_grad {
    tp_graph *graph;
    tp_operation *op;
    tp_node **in, **dout, **din;
    tp_node *out; /* op->out */
} tp_grad;

/* A block of an element-wise op: n elements of contiguous inputs (already broadcast) to contiguous output. */
typedef void (*tp_block_fn)(int64_t n, void *y, const void *const *in, const void *attrs);

struct tp_op {
    const char *name;  /* "softmax"; automatic node names use `label` */
    const char *label; /* TensorFlow's name for it, "Softmax" */
    unsigned flags;
    int min_in, max_in; /* max_in -1: any number */
    int n_out;          /* outputs, auxiliary ones included; -1: the shape rule says */
    const tp_attr *attr; /* the schema, ends with a NULL name; NULL: no attributes */
    size_t attr_size;
    tp_status (*infer)(tp_infer *s);
    void (*grad)(tp_grad *g);   /* NULL: no gradient flows through */
    tp_kernel_fn naive_f32, naive_f64; /* the definition; naive_f32 serves every dtype of TP_OP_ANY_DTYPE rows */
    tp_kernel_fn fast;          /* float32 on the CPU, or NULL */
    tp_block_fn block_f32, block_f64, block_i32, block_i64; /* TP_OP_ELEMENTWISE rows */
    tp_vec vec;                 /* the engine's vector function for block_f32, if it has one */
    double (*flops)(const tp_call *k); /* NULL: one per output element. Bytes follow from the operands. */
    size_t (*scratch)(const tp_call *k); /* bytes the kernel needs; shapes are set, pointers are not. NULL: none */
    unsigned shape_only;        /* bit i: input i is read for its shape alone */
    const char *onnx;           /* ONNX operator, NULL if composed */
    const char *fault;          /* sentence for tp_kernel_fault, with one %lld for its value; NULL: cannot happen */
};

TP_DEF const tp_op *tp_op_registry(int i);           /* every row; NULL past the end */
TP_DEF const tp_op *tp_op_find(const char *name);    /* NULL if there is none */
/* Fail inside a shape rule: `return tp_infer_fail(s, TP_ERR_SHAPE, "input is %s, ...")`. */
TP_DEF tp_status tp_infer_fail(tp_infer *s, tp_status status, const char *fmt, ...) TP_PRINTF(3, 4);

/* Apply any row, built-in or your own, to inputs; attrs (copied) may be NULL for zeros. Returns output 0; its siblings
 * are node->op->out[i]. User rows are equal to built-in ones. */
TP_DEF tp_node *tp_apply(tp_graph *g, const tp_op *row, tp_node *const *in, int n_in, const void *attrs);
/* The same with everything: written variables, a name (NULL: the row's label), a user pointer. */
typedef struct tp_apply_desc {
    const tp_op *row;
    tp_node *const *in;
    int n_in;
    const void *attrs;
    tp_node *const *vars; /* variable nodes written in place */
    int n_var;
    const char *name;
    void *user;
    uint64_t stream; /* 0: from the name */
} tp_apply_desc;
TP_DEF tp_node *tp_apply_ex(tp_graph *g, const tp_apply_desc *d);

/* ==== >>graph ========================================================================================= */

typedef struct tp_graph_config {
    uint64_t seed; /* of everything random in this graph; 0 = 42 */
} tp_graph_config;
TP_DEF tp_graph *tp_graph_new(const tp_graph_config *config); /* NULL: out of memory */
TP_DEF void tp_graph_free(tp_graph *g);
TP_DEF tp_status tp_graph_status(const tp_graph *g);   /* of the first mistake, TP_OK if none */
TP_DEF const char *tp_graph_error(const tp_graph *g);  /* its sentence, "" if none */
TP_DEF uint64_t tp_graph_seed(const tp_graph *g);
/* Record a mistake in the graph (the first one stays) and return the poison node. at may be NULL. */
TP_DEF tp_node *tp_graph_fail(tp_graph *g, const tp_at *at, tp_status status, const char *fmt, ...) TP_PRINTF(4, 5);
TP_DEF bool tp_is_poison(const tp_node *n);
TP_DEF tp_node *tp_poison(tp_graph *g);
TP_DEF tp_graph *tp_node_graph(const tp_node *n);
/* Errors and new nodes carry this place until it is set again (layers set it to their caller's line). */
TP_DEF void tp_graph_set_at(tp_graph *g, tp_at at);
TP_DEF void *tp_graph_alloc(tp_graph *g, size_t size); /* zeroed, dies with the graph; NULL on no memory */
TP_DEF char *tp_graph_strdup(tp_graph *g, const char *s);
TP_DEF int tp_graph_n_operations(const tp_graph *g);
TP_DEF tp_operation *tp_graph_operation(const tp_graph *g, int i);
TP_DEF int tp_graph_n_variables(const tp_graph *g);
TP_DEF tp_variable *tp_graph_variable(const tp_graph *g, int i);
TP_DEF void tp_graph_finalize(tp_graph *g); /* adding nodes later is a mistake */
TP_DEF void tp_graph_describe_variables(tp_graph *g, tp_buf *out); /* table of trainable variables [describe_trainable_vars] */

/* ==== >>names ========================================================================================= */
/* "conv0/output" and "conv0/output:0" are the same node; ":1" is the second output. */
TP_DEF tp_node *tp_graph_find(const tp_graph *g, const char *name);         /* NULL if absent */
TP_DEF tp_operation *tp_graph_find_operation(const tp_graph *g, const char *name);
TP_DEF const char *tp_node_name(const tp_node *n);                          /* the operation's name */
TP_DEF tp_node *tp_named(tp_node *x, const char *name);                     /* identity with this name in the current scope */

/* ==== >>scopes ======================================================================================== */
TP_DEF void tp_name_scope_push(tp_graph *g, const char *name); /* made unique (_1, _2); "x/" re-enters exactly x/; "" is the root */
TP_DEF void tp_name_scope_pop(tp_graph *g);
TP_DEF const char *tp_name_scope(const tp_graph *g); /* "" or "a/b" */
/* Memoised scope: the same one at each entry [tfutils: cached_name_scope]. */
TP_DEF void tp_cached_name_scope_push(tp_graph *g, const char *name, bool top_level);

typedef enum { TP_REUSE_INHERIT = 0, TP_REUSE_NO, TP_REUSE_YES, TP_REUSE_AUTO } tp_reuse;
typedef struct tp_getter_call tp_getter_call;
struct tp_variable_desc;
/* Wraps variable creation: may change the description, pass it on with tp_getter_next, and return another node made
 * from the variable. [tfutils: varreplace] */
typedef tp_node *(*tp_getter_fn)(tp_getter_call *call, struct tp_variable_desc *d, void *user);
typedef struct tp_variable_scope_desc {
    const char *name; /* NULL: stay in the current scope, without a name scope of its own */
    int reuse;        /* tp_reuse */
    tp_getter_fn getter;
    void *getter_user;
    bool no_name_scope;
} tp_variable_scope_desc;
TP_DEF void tp_variable_scope_push(tp_graph *g, const tp_variable_scope_desc *d); /* opens a name scope of the same name too */
TP_DEF void tp_variable_scope_pop(tp_graph *g);
TP_DEF const char *tp_variable_scope(const tp_graph *g);
TP_DEF int tp_variable_scope_reuse(const tp_graph *g); /* TP_REUSE_NO, _YES or _AUTO */
#define TP__U(x) TP__CAT(x, __LINE__)
/* TP_NAME_SCOPE(g, "losses") { ... }  Leave the block at its end only (no break, return or goto out of it). */
#define TP_NAME_SCOPE(g, name_) \
    for (int TP__U(tp__i) = (tp_name_scope_push((g), (name_)), 1); TP__U(tp__i); TP__U(tp__i) = (tp_name_scope_pop(g), 0))

/* Collections: named lists of nodes. [tfutils: collection; the standard keys] */
#define TP_KEY_GLOBAL_VARIABLES      "variables"
#define TP_KEY_LOCAL_VARIABLES       "local_variables"
#define TP_KEY_TRAINABLE_VARIABLES   "trainable_variables"
#define TP_KEY_MODEL_VARIABLES       "model_variables"
#define TP_KEY_UPDATE_OPS            "update_ops"
#define TP_KEY_REGULARIZATION_LOSSES "regularization_losses"
#define TP_KEY_SUMMARIES             "summaries"
#define TP_KEY_MOVING_SUMMARY_OPS    "MOVING_SUMMARY_OPS"
TP_DEF void tp_collection_add(tp_graph *g, const char *key, tp_node *n);
TP_DEF tp_node *const *tp_collection(const tp_graph *g, const char *key, int *n); /* valid until the next add */
typedef struct tp_collection_backup tp_collection_backup; /* lives in the graph's arena */
TP_DEF tp_collection_backup *tp_backup_collection(tp_graph *g, const char *const *keys, int n_keys); /* NULL keys: all */
TP_DEF void tp_restore_collection(tp_graph *g, const tp_collection_backup *b);

/* ==== >>variables ===================================================================================== */

/* Adds something to the cost for a weight; scale 0 and fn NULL mean none. */
typedef struct tp_regularizer {
    tp_node *(*fn)(tp_node *w, float scale);
    float scale;
} tp_regularizer;

struct tp_variable {
    tp_graph *graph;
    const char *name; /* "conv0/W" */
    tp_node *node;    /* its value at the start of a run */
    tp_dtype dtype;
    tp_shape shape;
    tp_init init;
    bool trainable, local; /* local: not saved */
    int id, device;
};

typedef struct tp_variable_desc {
    const char *name;
    tp_dtype dtype; /* 0 = TP_F32 */
    tp_shape shape;
    tp_init init;    /* unset: glorot uniform for floats, zeros else */
    int trainable;   /* tp_tri; 0 = TP_YES */
    bool local;      /* LOCAL_VARIABLES instead of GLOBAL_VARIABLES */
    const char *collection; /* one more collection, or NULL */
    tp_regularizer regularizer; /* its value is added to REGULARIZATION_LOSSES when the variable is made */
} tp_variable_desc;
/* Create or reuse by the rules of the current variable scope and its getters. Existing without reuse, missing under
 * reuse, or another shape: a mistake. Returns the variable's node (or what a getter made of it). */
TP_DEF tp_node *tp_get_variable(tp_graph *g, const tp_variable_desc *d);
TP_DEF tp_node *tp_get_variable_as(tp_graph *g, const char *name, tp_dtype dtype, tp_shape shape, tp_init init);
TP_DEF tp_node *tp_getter_next(tp_getter_call *call, tp_variable_desc *d);
/* A scalar float that is not trained, by default `learning_rate` and the like. [get_scalar_var] */
TP_DEF tp_node *tp_get_scalar_variable(tp_graph *g, const char *name, float init);
TP_DEF tp_variable *tp_find_variable(const tp_graph *g, const char *name); /* "conv0/W" or "conv0/W:0"; NULL if absent */
TP_DEF tp_variable *tp_node_variable(const tp_node *n);                    /* NULL if n is no variable */
/* int64 scalar "global_step" at the root scope, made at first use. [tfutils: get_global_step_var] */
TP_DEF tp_node *tp_get_global_step_var(tp_graph *g);

/* fans of shape s: rank 0: 1,1; rank 1: s0,s0; rank 2: s0,s1; else receptive field r = product of all but the last
 * two, fan_in = r*s[-2], fan_out = r*s[-1]. Truncated normals are redrawn beyond two deviations. Element i of a
 * variable is a function of (graph seed, variable name, i). */
TP_DEF tp_init tp_init_constant(float value);
TP_DEF tp_init tp_init_zeros(void);
TP_DEF tp_init tp_init_ones(void);
TP_DEF tp_init tp_init_normal(float mean, float stddev);
TP_DEF tp_init tp_init_truncated_normal(float mean, float stddev); /* the real deviation is 0.88*stddev, as in TF */
TP_DEF tp_init tp_init_uniform(float low, float high);
/* n = fan; truncated normal: sigma = sqrt(scale/n)/0.87962566103423978; normal: sqrt(scale/n); uniform: +-sqrt(3 scale/n) */
TP_DEF tp_init tp_init_variance_scaling(float scale, tp_fan_mode mode, tp_distribution distribution);
TP_DEF tp_init tp_init_glorot_uniform(void); /* +-sqrt(6/(fan_in+fan_out)) */
TP_DEF tp_init tp_init_values(const float *values, int64_t n);
/* Fill t (float32 or float64 or integers) with the initial value of a variable of this name. */
TP_DEF tp_status tp_init_fill(const tp_init *init, uint64_t seed, const char *name, tp_tensor *t);

/* ==== >>towers ======================================================================================== */

typedef struct tp_tower_context {
    tp_graph *graph;
    const char *ns_name, *vs_name; /* "tower0", ""; names of its name scope and variable scope */
    bool is_training, is_main_training_tower, has_own_variables;
    int index, total;
} tp_tower_context;
typedef struct tp_tower_desc {
    const char *name;    /* NULL or "": none */
    const char *vs_name; /* NULL or "": the current variable scope */
    bool is_training;
    int index, total; /* training towers; total 0 = 1 */
} tp_tower_desc;
/* [tfutils: TowerContext] Only one at a time. NULL after a mistake (which the graph keeps). */
TP_DEF const tp_tower_context *tp_tower_enter(tp_graph *g, const tp_tower_desc *d);
TP_DEF void tp_tower_leave(tp_graph *g);
TP_DEF const tp_tower_context *tp_current_tower_context(const tp_graph *g); /* NULL outside */
/* Items of a collection that were added inside the current tower; array in the graph's arena. */
TP_DEF tp_node *const *tp_tower_collection(tp_graph *g, const char *key, int *n);

typedef tp_node *(*tp_build_fn)(tp_graph *g, tp_node *const *in, void *user);
typedef struct tp_tower_func tp_tower_func; /* lives in the graph's arena */
typedef struct tp_tower_handle {
    tp_tower_context ctx;
    tp_tower_func *func;
    tp_node **in;    /* one per signature entry */
    tp_node *output; /* what the function returned; may be NULL */
} tp_tower_handle;
/* [tfutils: TowerFunc] Names of the signature: unique, without ':', '/', ' '. The specs are copied. */
TP_DEF tp_tower_func *tp_tower_func_new(tp_graph *g, tp_build_fn fn, void *user, const tp_spec *specs, int n);
TP_DEF tp_node *tp_tower_func_call(tp_tower_func *f, tp_node *const *in); /* inside a tower context; records a handle */
TP_DEF const tp_spec *tp_tower_func_signature(const tp_tower_func *f, int *n);
TP_DEF int tp_tower_func_n_towers(const tp_tower_func *f);
TP_DEF const tp_tower_handle *tp_tower_func_tower(const tp_tower_func *f, int i);
TP_DEF const tp_tower_handle *tp_tower_func_find(const tp_tower_func *f, const char *ns_name); /* NULL if absent */
/* [TowerTensorHandle.get_tensor] "ns_name/name", an input of that signature name, or a variable; NULL if none. */
TP_DEF tp_node *tp_tower_handle_get(const tp_tower_handle *h, const char *name);

/* ==== >>gradients ===================================================================================== */

/* dxs[i] = d sum(y) / d xs[i], as new nodes (under name scope "gradients"); NULL where y does not depend on xs[i]. The
 * derivatives may be differentiated again. Nothing flows through tp_stop_gradient. A value with several consumers gets
 * the sum of what they give, in the order in which they were made. */
TP_DEF void tp_gradients(tp_node *y, tp_node *const *xs, int n, tp_node **dxs);
/* The same with a seed: dy has y's shape (NULL: ones). */
TP_DEF void tp_gradients_from(tp_node *y, tp_node *dy, tp_node *const *xs, int n, tp_node **dxs);

/* [tfutils: dependency_of_targets] Does any target depend on this op (itself included)? */
TP_DEF bool tp_depends_on(tp_node *const *targets, int n, const tp_operation *op);

/* ==== >>nodes ========================================================================================= */
/* Functions that add one op (rarely two) to the graph of their inputs. Shapes are checked here. Axes may be negative. */

/* -- sources */
TP_DEF tp_node *tp_placeholder(tp_graph *g, const char *name, tp_dtype dtype, tp_shape shape); /* must be fed */
TP_DEF tp_node *tp_constant(tp_graph *g, const tp_tensor *value);                              /* copied */
TP_DEF tp_node *tp_const(tp_graph *g, float value);                                            /* float32 scalar */
TP_DEF tp_node *tp_const_as(tp_graph *g, tp_dtype dtype, double value);                        /* scalar of a dtype */
TP_DEF tp_node *tp_fill_like(tp_node *x, float value); /* x's shape and dtype; x is not read */
TP_DEF tp_node *tp_zeros_like(tp_node *x);
TP_DEF tp_node *tp_ones_like(tp_node *x);
TP_DEF tp_node *tp_identity(tp_node *x);
TP_DEF tp_node *tp_stop_gradient(tp_node *x);
/* An effect-only node that runs after all of these (NULL entries are skipped). [tf.group] */
TP_DEF tp_node *tp_group(tp_graph *g, tp_node *const *nodes, int n, const char *name);
TP_DEF tp_node *tp_with_dependencies(tp_node *x, tp_node *const *after, int n); /* identity of x that runs after them */
TP_DEF tp_node *tp_print(tp_node *x, const char *message);          /* identity that logs shape, mean, rms, first 20 elements */
TP_DEF tp_node *tp_check_numerics(tp_node *x, const char *message); /* identity; a NaN or infinity fails the run */

/* -- element-wise; binary ones broadcast as numpy does */
TP_DEF tp_node *tp_add(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_sub(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_mul(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_div(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_pow(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_maximum(tp_node *a, tp_node *b); /* ties: the gradient goes to a */
TP_DEF tp_node *tp_minimum(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_squared_difference(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_floordiv(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_mod(tp_node *a, tp_node *b); /* sign of b, as Python */
TP_DEF tp_node *tp_greater(tp_node *a, tp_node *b); /* comparisons give TP_BOOL */
TP_DEF tp_node *tp_greater_equal(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_less(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_less_equal(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_equal(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_not_equal(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_logical_and(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_logical_or(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_logical_not(tp_node *a);
TP_DEF tp_node *tp_select(tp_node *cond, tp_node *a, tp_node *b); /* cond ? a : b */
TP_DEF tp_node *tp_neg(tp_node *x);
TP_DEF tp_node *tp_abs(tp_node *x);
TP_DEF tp_node *tp_sign(tp_node *x);
TP_DEF tp_node *tp_square(tp_node *x);
TP_DEF tp_node *tp_sqrt(tp_node *x);
TP_DEF tp_node *tp_rsqrt(tp_node *x);
TP_DEF tp_node *tp_reciprocal(tp_node *x);
TP_DEF tp_node *tp_exp(tp_node *x);
TP_DEF tp_node *tp_ln(tp_node *x); /* natural logarithm (tp_log writes a log line) */
TP_DEF tp_node *tp_sin(tp_node *x);
TP_DEF tp_node *tp_cos(tp_node *x);
TP_DEF tp_node *tp_erf(tp_node *x);
TP_DEF tp_node *tp_tanh(tp_node *x);
TP_DEF tp_node *tp_sigmoid(tp_node *x);
TP_DEF tp_node *tp_softplus(tp_node *x);
TP_DEF tp_node *tp_relu(tp_node *x);
TP_DEF tp_node *tp_leaky_relu(tp_node *x, float alpha);
TP_DEF tp_node *tp_elu(tp_node *x);
TP_DEF tp_node *tp_floor(tp_node *x);
TP_DEF tp_node *tp_ceil(tp_node *x);
TP_DEF tp_node *tp_round(tp_node *x); /* half to even */
TP_DEF tp_node *tp_is_finite(tp_node *x);
TP_DEF tp_node *tp_clip(tp_node *x, float low, float high);
TP_DEF tp_node *tp_affine(tp_node *x, float scale, float offset); /* x*scale + offset */
TP_DEF tp_node *tp_cast(tp_node *x, tp_dtype dtype);
TP_DEF tp_node *tp_add_n(tp_node *const *xs, int n); /* same shapes; added left to right */

/* -- reductions; n_axes 0 = all */
TP_DEF tp_node *tp_reduce_sum(tp_node *x, const int *axes, int n_axes, bool keep_dims);
TP_DEF tp_node *tp_reduce_mean(tp_node *x, const int *axes, int n_axes, bool keep_dims);
TP_DEF tp_node *tp_reduce_max(tp_node *x, const int *axes, int n_axes, bool keep_dims); /* gradient split among ties */
TP_DEF tp_node *tp_reduce_min(tp_node *x, const int *axes, int n_axes, bool keep_dims);
TP_DEF tp_node *tp_reduce_prod(tp_node *x, const int *axes, int n_axes, bool keep_dims);
TP_DEF tp_node *tp_reduce_all(tp_node *x, const int *axes, int n_axes, bool keep_dims);
TP_DEF tp_node *tp_reduce_any(tp_node *x, const int *axes, int n_axes, bool keep_dims);
TP_DEF tp_node *tp_sum(tp_node *x);
TP_DEF tp_node *tp_mean(tp_node *x);
TP_DEF tp_node *tp_l2_loss(tp_node *x);       /* 0.5 * sum(x^2) */
TP_DEF tp_node *tp_zero_fraction(tp_node *x); /* of exact zeros; no gradient */
TP_DEF tp_node *tp_global_norm(tp_node *const *xs, int n); /* sqrt(sum of all squares), float32 scalar */
TP_DEF tp_node *tp_argmax(tp_node *x, int axis);           /* int64; the first of ties */
TP_DEF tp_node *tp_top_k(tp_node *x, int k, tp_node **indices); /* last axis, descending; *indices int32, may be NULL */
TP_DEF tp_node *tp_in_top_k(tp_node *logits, tp_node *labels, int k); /* (B,C),(B) -> bool (B); ties count as correct */
/* reduce dy to the shape of ref: sum over broadcast axes (the gradient of broadcasting); ref is read for its shape */
TP_DEF tp_node *tp_sum_to_like(tp_node *dy, tp_node *ref);
TP_DEF tp_node *tp_broadcast_like(tp_node *x, tp_node *ref);

/* -- linear algebra */
TP_DEF tp_node *tp_matmul(tp_node *a, tp_node *b); /* (..,M,K) (..,K,N); leading dimensions broadcast */
TP_DEF tp_node *tp_matmul_ex(tp_node *a, tp_node *b, bool transpose_a, bool transpose_b);

/* -- neural networks. data_format "NHWC" unless said otherwise; weights are HWIO in both. */
typedef enum { TP_FORMAT_DEFAULT = 0, TP_NHWC, TP_NCHW } tp_data_format;
typedef enum { TP_PADDING_DEFAULT = 0, TP_SAME, TP_VALID } tp_padding;
typedef struct tp_conv2d_attrs {
    int stride_h, stride_w;     /* 0 = 1 */
    int dilation_h, dilation_w; /* 0 = 1 */
    int padding;                /* tp_padding; 0 = SAME */
    int data_format;            /* tp_data_format; 0 = NHWC */
    int groups;                 /* 0 = 1 */
    int fused_bias, fused_act;  /* set by the planner */
} tp_conv2d_attrs;
TP_DEF tp_node *tp_nn_conv2d(tp_node *x, tp_node *w, const tp_conv2d_attrs *a); /* w (KH,KW,C/groups,O) */
TP_DEF tp_node *tp_nn_conv2d_input_grad(tp_node *dy, tp_node *w, tp_node *x_like, const tp_conv2d_attrs *a);
TP_DEF tp_node *tp_nn_conv2d_filter_grad(tp_node *x, tp_node *dy, tp_node *w_like, const tp_conv2d_attrs *a);
TP_DEF tp_node *tp_nn_bias_add(tp_node *x, tp_node *b, int data_format); /* b (C); any rank >= 2; NCHW adds along axis 1 */
typedef struct tp_pool_attrs {
    int size_h, size_w, stride_h, stride_w; /* strides: 0 = the size */
    int padding;                            /* 0 = VALID */
    int data_format;
} tp_pool_attrs;
TP_DEF tp_node *tp_nn_max_pool(tp_node *x, const tp_pool_attrs *a);
TP_DEF tp_node *tp_nn_avg_pool(tp_node *x, const tp_pool_attrs *a); /* padding is not counted */
/* Batch norm over all axes but `axis`. Training: y from the batch's mean and biased variance; out_mean, out_var
 * (either may be NULL) get the statistics for the running averages, var times N/(N-1) if `unbiased`. */
TP_DEF tp_node *tp_nn_batch_norm_train(tp_node *x, tp_node *gamma, tp_node *beta, int axis, float epsilon, bool unbiased,
                                       tp_node **out_mean, tp_node **out_var);
TP_DEF tp_node *tp_nn_batch_norm_infer(tp_node *x, tp_node *gamma, tp_node *beta, tp_node *mean, tp_node *var, int axis,
                                       float epsilon);
TP_DEF tp_node *tp_softmax(tp_node *x); /* last axis */
TP_DEF tp_node *tp_log_softmax(tp_node *x);
TP_DEF tp_node *tp_sparse_softmax_cross_entropy(tp_node *logits, tp_node *labels); /* (B,C), int (B) -> (B); a label outside fails the run */
TP_DEF tp_node *tp_softmax_cross_entropy(tp_node *logits, tp_node *labels);        /* dense labels (B,C) -> (B) */
TP_DEF tp_node *tp_sigmoid_cross_entropy(tp_node *logits, tp_node *labels);        /* element-wise, stable */
TP_DEF tp_node *tp_nn_dropout(tp_node *x, float rate); /* kept with probability 1-rate and divided by it */

/* -- shapes */
TP_DEF tp_node *tp_reshape_to(tp_node *x, tp_shape shape); /* one dimension may be TP_ANY: it follows from the rest */
TP_DEF tp_node *tp_reshape_like(tp_node *x, tp_node *ref); /* ref is read for its shape */
TP_DEF tp_node *tp_batch_flatten(tp_node *x);              /* (B,...) -> (B,product) */
TP_DEF tp_node *tp_flatten(tp_node *x);                    /* -> (N) */
TP_DEF tp_node *tp_expand_dims(tp_node *x, int axis);
TP_DEF tp_node *tp_squeeze(tp_node *x, int axis);
TP_DEF tp_node *tp_transpose(tp_node *x, const int *perm, int n); /* n 0: reverse the axes */
TP_DEF tp_node *tp_concat(tp_node *const *xs, int n, int axis);
TP_DEF void tp_split(tp_node *x, int n, int axis, tp_node **out); /* n equal parts */
TP_DEF tp_node *tp_stack(tp_node *const *xs, int n, int axis);
TP_DEF void tp_unstack(tp_node *x, int axis, int n, tp_node **out);
TP_DEF tp_node *tp_slice(tp_node *x, const int64_t *begin, const int64_t *size); /* one per dimension; size -1: to the end */
typedef enum { TP_PAD_CONSTANT = 0, TP_PAD_REFLECT, TP_PAD_SYMMETRIC } tp_pad_mode;
TP_DEF tp_node *tp_pad(tp_node *x, const int64_t *before, const int64_t *after, int mode, float value);
TP_DEF tp_node *tp_tile(tp_node *x, const int64_t *multiples);
TP_DEF tp_node *tp_gather(tp_node *params, tp_node *indices); /* rows of axis 0; an index outside fails the run */
TP_DEF tp_node *tp_one_hot(tp_node *indices, int64_t depth, float on, float off);
#ifndef __cplusplus
#define tp_reshape(x, ...) tp_reshape_to((x), tp_make_shape(__VA_ARGS__))
#endif

/* -- random: fresh numbers each run, a function of (seed, op name, random step, index) */
TP_DEF tp_node *tp_rand_uniform(tp_graph *g, tp_shape shape, float low, float high);
TP_DEF tp_node *tp_rand_normal(tp_graph *g, tp_shape shape, float mean, float stddev);
TP_DEF tp_node *tp_rand_truncated_normal(tp_graph *g, tp_shape shape, float mean, float stddev);
TP_DEF tp_node *tp_rand_uniform_like(tp_node *x, float low, float high);
TP_DEF tp_node *tp_rand_normal_like(tp_node *x, float mean, float stddev);

/* -- state. `pred` (scalar bool, or NULL) says at run time whether anything is written. Outputs are the new values. */
TP_DEF tp_node *tp_assign(tp_node *var, tp_node *value, tp_node *pred);
TP_DEF tp_node *tp_assign_add(tp_node *var, tp_node *value, tp_node *pred);
TP_DEF tp_node *tp_assign_sub(tp_node *var, tp_node *value, tp_node *pred);
TP_DEF tp_node *tp_read_after(tp_node *var, tp_node *after); /* the variable's value once `after` has run */
/* var = var - (1-decay)*(var - value) */
TP_DEF tp_node *tp_assign_moving_average(tp_node *var, tp_node *value, float decay, tp_node *pred);

/* -- optimizer steps: one op for all variables of a group; vars[i] is written with grads[i] (n of each). lr is a scalar
 * node. They return an effect-only node. Slots are variable nodes of the same shapes. */
TP_DEF tp_node *tp_apply_gradient_descent(tp_node *const *vars, tp_node *const *grads, int n, tp_node *lr, tp_node *pred);
/* a = mu*a + g; w -= lr*a, or with nesterov w -= lr*(g + mu*a) */
TP_DEF tp_node *tp_apply_momentum(tp_node *const *vars, tp_node *const *accums, tp_node *const *grads, int n, tp_node *lr,
                                  float momentum, bool nesterov, tp_node *pred);
/* lr_t = lr*sqrt(1-beta2_power)/(1-beta1_power); m, v averages; w -= lr_t*m/(sqrt(v)+epsilon) */
TP_DEF tp_node *tp_apply_adam(tp_node *const *vars, tp_node *const *ms, tp_node *const *vs, tp_node *const *grads, int n,
                              tp_node *lr, tp_node *beta1_power, tp_node *beta2_power, float beta1, float beta2,
                              float epsilon, tp_node *pred);

/* ==== >>summaries ===================================================================================== */

typedef enum { TP_SUMMARY_SCALAR = 1, TP_SUMMARY_HISTOGRAM = 2, TP_SUMMARY_IMAGE = 4, TP_SUMMARY_SPARSITY = 8, TP_SUMMARY_MEAN = 16, TP_SUMMARY_RMS = 32 } tp_summary_type;
/* A summary node passes its input through and carries a tag and a kind (scalar, histogram or image); whoever fetches
 * the collection SUMMARIES gives the values to the monitors. */
typedef struct tp_summary_attrs {
    const char *tag;
    int kind; /* TP_SUMMARY_SCALAR, _HISTOGRAM or _IMAGE */
} tp_summary_attrs;
TP_DEF const tp_summary_attrs *tp_summary_info(const tp_node *n); /* NULL if n is no summary */
/* types is a sum of tp_summary_type; name NULL = the op's. Only in the main training tower, or outside towers. Tags:
 * <name>-summary, -histogram, -sparsity, -mean, -rms. collection NULL = SUMMARIES. [tfutils: add_tensor_summary] */
TP_DEF void tp_add_tensor_summary(tp_node *x, int types, const char *name, const char *collection);
typedef struct tp_moving_summary_desc {
    float decay;                    /* 0 = 0.95; TP_ZERO for 0 */
    const char *collection;         /* NULL = MOVING_SUMMARY_OPS */
    const char *summary_collection; /* NULL = SUMMARIES */
} tp_moving_summary_desc;
/* Zero-debiased moving average of scalars, in local variables EMA/<name>. [tfutils: add_moving_summary] */
TP_DEF void tp_add_moving_summary_n(tp_node *const *scalars, int n, const tp_moving_summary_desc *d);
/* For each trainable variable whose name matches (from the start, `$` appended). [tfutils: add_param_summary] */
TP_DEF void tp_add_param_summary(tp_graph *g, const char *regex, int types);
#ifndef __cplusplus
#define tp_add_moving_summary(...)                                                                         \
    tp_add_moving_summary_n((tp_node *const[]){__VA_ARGS__},                                               \
                            (int)(sizeof((tp_node *const[]){__VA_ARGS__}) / sizeof(tp_node *)), NULL)
#endif
/* POSIX extended regex; anchored: match from the start as Python's re.match after `$` was appended, else search. A bad
 * pattern matches nothing and is logged. Without regex support (TP_NO_REGEX) only literal names match. */
TP_DEF bool tp_regex_match(const char *pattern, const char *text, bool anchored);

/* ==== >>session ======================================================================================= */

typedef struct tp_session_config {
    int threads;            /* 0 = one a processor. One seed gives the same bits for any number. */
    const char *isa;        /* NULL = the best; see tp_cpu_device_new */
    tp_device *const *devices; /* NULL: one CPU device of the session's own; else borrowed, must outlive it */
    int n_devices;
    bool no_fusion;         /* run op by op, for debugging; same bits */
    float memory_fraction;  /* of a GPU; 0 = 0.99 */
} tp_session_config;
TP_DEF tp_session_config tp_default_session_config(void); /* [tfutils: get_default_sess_config] */

/* A session owns the values of the graph's variables. It is initialised lazily: variables get their initial values at
 * creation; ones added to the graph later, at the next run. NULL on failure, the graph's own mistake included. */
TP_DEF tp_session *tp_session_new(tp_graph *g, const tp_session_config *c);
TP_DEF void tp_session_free(tp_session *s);
TP_DEF tp_graph *tp_session_graph(const tp_session *s);
TP_DEF tp_device *tp_session_device(const tp_session *s, int i);

typedef struct tp_feed {
    tp_node *node;
    tp_tensor value;
} tp_feed;
/* Run what the fetches need. Any node may be fed. values[i] points to session-owned memory, valid until the next run of
 * the same exec (the session's own one here). values may be NULL. */
TP_DEF tp_status tp_session_run(tp_session *s, const tp_feed *feeds, int n_feeds, tp_node *const *fetches, int n_fetches,
                                const tp_tensor **values);
/* One fetch, no feeds, into a tensor of the caller's. */
TP_DEF tp_status tp_session_eval(tp_session *s, tp_node *fetch, tp_tensor *value);
/* A variable's value now; load converts float dtypes, shapes must be equal. */
TP_DEF tp_status tp_session_read(tp_session *s, const tp_variable *v, tp_tensor *value);
TP_DEF tp_status tp_session_load(tp_session *s, const tp_variable *v, const tp_tensor *value);
TP_DEF int64_t tp_get_global_step_value(tp_session *s); /* 0 if there is no such variable */
/* Named state that travels in checkpoints beside the variables ("tp:" keys): random step, stream position, callbacks. */
TP_DEF tp_dict *tp_session_state(tp_session *s);

/* An exec owns an arena, compiled plans and a random step, and has one user at a time; several share a session's
 * variables (inference beside training, predictors on threads). */
TP_DEF tp_exec *tp_exec_new(tp_session *s);
TP_DEF void tp_exec_free(tp_exec *e);
TP_DEF tp_exec *tp_session_exec(tp_session *s); /* the session's own, made at first use */
TP_DEF tp_status tp_exec_run(tp_exec *e, const tp_feed *feeds, int n_feeds, tp_node *const *fetches, int n_fetches,
                             const tp_tensor **values);
TP_DEF uint64_t tp_exec_random_step(const tp_exec *e); /* rises by one per run */
TP_DEF void tp_exec_set_random_step(tp_exec *e, uint64_t step);
/* The plan of these fetches (must have been run once): each kernel, its output, bytes, FLOPs and, if timed, its
 * milliseconds; the arena. */
TP_DEF tp_status tp_exec_print_plan(tp_exec *e, tp_node *const *fetches, int n_fetches, tp_buf *out);
TP_DEF void tp_exec_set_timing(tp_exec *e, bool on); /* measure each kernel from now on */
typedef struct tp_plan_info {
    int n_steps, n_fused, n_folded; /* kernels; element-wise ops inside fused ones; ops folded to constants */
    size_t arena_bytes, constant_bytes;
    double flops, bytes;
} tp_plan_info;
TP_DEF tp_status tp_exec_plan_info(tp_exec *e, tp_node *const *fetches, int n_fetches, tp_plan_info *info);

/* ==== >>hooks ========================================================================================= */
/* What wants a part in each run: extra fetches before, their values after. [callbacks: SessionRunHook] */

typedef struct tp_run_request tp_run_request;
TP_DEF int tp_request_fetch(tp_run_request *r, tp_node *n); /* index into the values; -1 and a sentence on failure */
TP_DEF tp_status tp_request_feed(tp_run_request *r, tp_node *n, const tp_tensor *value); /* borrowed until the run is over */
typedef struct tp_run_values {
    const tp_tensor *const *value; /* of this hook's fetches, in its order */
    int n;
} tp_run_values;
typedef struct tp_hook {
    const char *name;
    void *user;
    tp_status (*begin)(struct tp_hook *h, tp_graph *g);                   /* before the session; may add nodes */
    tp_status (*after_create_session)(struct tp_hook *h, tp_session *s);
    tp_status (*before_run)(struct tp_hook *h, tp_run_request *r);
    tp_status (*after_run)(struct tp_hook *h, const tp_run_values *v);
    void (*end)(struct tp_hook *h, tp_session *s);
    void (*free)(struct tp_hook *h);
} tp_hook;
typedef struct tp_hooked_session tp_hooked_session;
/* Runs on an exec of its own. The hooks are borrowed. */
TP_DEF tp_hooked_session *tp_hooked_session_new(tp_session *s, tp_hook *const *hooks, int n_hooks);
TP_DEF void tp_hooked_session_free(tp_hooked_session *h);
TP_DEF tp_exec *tp_hooked_session_exec(tp_hooked_session *h);
TP_DEF void tp_hooked_session_request_stop(tp_hooked_session *h);
TP_DEF bool tp_hooked_session_should_stop(const tp_hooked_session *h);
/* All before_run in order, one run of the caller's and the hooks' fetches together, all after_run in order. */
TP_DEF tp_status tp_hooked_run(tp_hooked_session *h, tp_node *const *fetches, int n_fetches, const tp_tensor **values);

/* Makes the session of a trainer: user_provided says that its settings are not the default. [tfutils: sesscreate] */
typedef struct tp_session_creator {
    tp_session *(*create)(struct tp_session_creator *c, tp_graph *g);
    tp_session_config config;
    void *user;
} tp_session_creator;
TP_DEF tp_session_creator tp_new_session_creator(const tp_session_config *config);
TP_DEF tp_session_creator tp_reuse_session_creator(tp_session *s);

/* ==== >>checkpoints =================================================================================== */

/* Restores variables after they were initialised. Owned by whoever it is given to (the trainer); lives until run was
 * called and free releases it. NULL is allowed wherever one is taken and means "nothing". [tfutils: sessinit] */
typedef struct tp_session_init {
    tp_status (*setup_graph)(struct tp_session_init *i, tp_graph *g);
    tp_status (*run)(struct tp_session_init *i, tp_session *s);
    void (*free)(struct tp_session_init *i);
    void *user;
} tp_session_init;
TP_DEF tp_status tp_session_init_run(tp_session_init *i, tp_session *s); /* NULL is fine; does not free */
TP_DEF void tp_session_init_free(tp_session_init *i);
/* A checkpoint: path of model-N.npz, or of model-N, or of the text file `checkpoint` (its latest). Names that are in one
 * side only are warned about in one line each. prefix (or NULL) is stripped from graph names; ignore: names not to load. */
typedef struct tp_saver_restore_desc {
    const char *path;
    const char *prefix;
    const char *const *ignore;
    int n_ignore;
    bool relaxed; /* SaverRestoreRelaxed: reshape and cast with a warning, skip what cannot fit */
} tp_saver_restore_desc;
TP_DEF tp_session_init *tp_saver_restore_ex(const tp_saver_restore_desc *d);
TP_DEF tp_session_init *tp_saver_restore(const char *path);
TP_DEF tp_session_init *tp_dict_restore(tp_dict *d, bool ignore_mismatch); /* takes over the dict's content */
TP_DEF tp_session_init *tp_chain_init(tp_session_init *const *inits, int n); /* owns them */
TP_DEF tp_session_init *tp_just_current_session(void);
TP_DEF tp_session_init *tp_smart_init(const char *path, bool ignore_mismatch); /* "" or NULL: nothing; .npz: dict; else a checkpoint */

/* Write all variables of the GLOBAL collection (or of `variables`, n of them) and the session's state to path (an npz,
 * names without ":0"), whole or not at all. */
TP_DEF tp_status tp_save_checkpoint(tp_session *s, const char *path, tp_variable *const *variables, int n);
/* Trainable and model variables only, deflated, keys with ":0": what tensorpack's tools exchange. [dump_session_params] */
TP_DEF tp_status tp_dump_session_params(tp_session *s, const char *path);
TP_DEF tp_status tp_load_checkpoint_vars(const char *path, tp_dict *d); /* ":0" removed */
TP_DEF tp_status tp_save_checkpoint_vars(const tp_dict *d, const char *path);
/* The text file `checkpoint` of a directory: names relative to it, oldest first, the last one is the latest. */
TP_DEF tp_status tp_checkpoint_state_write(const char *dir, const char *const *names, int n);
TP_DEF tp_status tp_checkpoint_state_latest(const char *dir, char *path, size_t size); /* TP_ERR_NAME if there is none */
/* Checkpoints <prefix>-<step>.npz of a directory, ascending by step; free with tp_free. [get_all_checkpoints] */
typedef struct tp_checkpoint_entry {
    char path[512];
    int64_t step;
} tp_checkpoint_entry;
TP_DEF tp_status tp_get_all_checkpoints(const char *dir, const char *prefix, tp_checkpoint_entry **entries, int *n);

#ifdef __cplusplus
}
#endif
#endif /* TP_GRAPH_H */

/* ===== STOP HERE if you only want to use the library. Everything below is implementation. ===== */
#if defined(TP_IMPLEMENTATION) && !defined(TP__GRAPH_IMPLEMENTED)
#define TP__GRAPH_IMPLEMENTED
#ifndef TP_GRAPH_FILE
#define TP_GRAPH_FILE "tp_graph.h"
#endif
#include "parts/graph_core.inc"
/* The op pages are read four times, for the four types a naive loop is written for; the last pass adds the rows. */
#define TP__NUM int32_t
#define TP__F(name) name##_i32
#define TP__PASS_INT 1
#include "parts/graph_ops_math.inc"
#undef TP__NUM
#undef TP__F
#define TP__NUM int64_t
#define TP__F(name) name##_i64
#include "parts/graph_ops_math.inc"
#undef TP__NUM
#undef TP__F
#undef TP__PASS_INT
#define TP__NUM float
#define real float
#define TP__F(name) name##_f32
#define TP__REAL_IS_FLOAT 1
#include "parts/graph_ops_math.inc"
#include "parts/graph_ops_nn.inc"
#undef TP__NUM
#undef real
#undef TP__F
#undef TP__REAL_IS_FLOAT
#define TP__NUM double
#define real double
#define TP__F(name) name##_f64
#define TP__ROWS 1
#include "parts/graph_ops_math.inc"
#include "parts/graph_ops_nn.inc"
#undef TP__NUM
#undef real
#undef TP__F
#undef TP__ROWS
#include "parts/graph_registry.inc"
#include "parts/graph_plan.inc"
#include "parts/graph_saver.inc"
#endif
