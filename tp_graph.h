/* tp_graph.h - v0.1 - symbolic graphs: ops with gradients, variables, towers, a planner and a session
 *
 * Do this:
 *     #define TP_IMPLEMENTATION        // in ONE .c file, before any other include
 *     #include "tp_graph.h"            // pulls in tp_tensor.h
 *
 * WHAT THIS IS       building a graph gives tp_node handles; tp_gradients adds the nodes of a derivative; a
 *                    tp_session compiles a plan for the fetched nodes once and runs it many times.
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
 *         tp_feed feed = TP_FEED(x, TP_F32, data, 2, 3);
 *         tp_node *fetch[] = {y, dw};
 *         const tp_tensor *out[2];
 *         if (!s || tp_session_run(s, &feed, 1, fetch, 2, out) != TP_OK) puts(tp_last_error());
 *         else printf("y = %g, dy/dw0 = %g\n", tp_tensor_get(out[0], 0), tp_tensor_get(out[1], 0));
 *         tp_session_free(s);
 *         tp_graph_free(g);
 *         return 0;
 *     }
 *
 * HOW IT WORKS  how a batch passes through one training step of y = relu(conv2d(x, W) + b), a cost and Momentum
 *     Building.   tp_conv2d of tp_layers.h makes the variable conv0/W (tp_get_variable_as) and calls tp_nn_conv2d. Every builder
 *         ends in tp_apply_ex: it adds one operation to the graph's list, and the shape rule of its row (tp__conv2d_infer)
 *         gives its outputs their types. A row is an entry of the op table: one constant tp_op on the op's page under >>ops.
 *         tp_gradients goes from the cost back through that list (tp__gradients_from) and calls the grad function of each
 *         row (tp__conv2d_gradient), which adds the nodes of the derivative: conv2d_filter_grad gives dW. A table of rules
 *         (tp__gradient_rules) replaces some of them by cheaper ones. tp_apply_gradients of tp_optim.h adds an operation
 *         apply_momentum, which writes conv0/W. Nothing has been computed.
 *     Planning.   tp_session_run(s, feeds, fetches) asks tp__find_plan for the plan of these fetches and these fed shapes. The
 *         first time tp__compile makes it, in the 8 steps that the head of >>plan lists: the operations that the fetches need
 *         (tp__plan_mark_needed), their shapes, their order, which values are aliases, what can be folded; then the rules
 *         of tp__rules record in a tp__fusion that the step of conv2d also adds the bias and does the ReLU (tp__fuse_epilogue).
 *         tp__emit_op makes one tp__step of each operation that is left: a kernel and a tp_call with its operands, attributes and
 *         what is fused (tp_fused). tp__plan_place gives every buffer an offset in one block of memory, the arena.
 *     Running.    tp__run_feeds copies the batch to its place in the arena. tp__run_steps calls the kernels in order: on the CPU
 *         tp__conv2d_fast of tp_fast.h, or the page's naive loop tp__conv2d_f32; on a GPU tp__conv2d_cuda of tp_cuda.cu. A GPU
 *         records the second run and replays the recording: steps that share no memory then run beside each other
 *         (tp__record_steps).
 *         They split their work with tp_device_parallel. tp__apply_fast writes the new conv0/W into the session's own memory
 *         of that variable. tp__run_fetches copies the cost to the tensor that the caller gets.
 *     So a run allocates nothing, and two runs with the same shapes run the same plan. A kernel gives the same bits for any
 *     number of threads, and no step of planning changes the bits of a value: other fetches give the same training.
 *
 * GLOSSARY   node        a tp_node: one output of an operation, while the graph is built; it has a type and no data
 *            operation   a tp_operation: a row of the op table applied to nodes. op: the row; it defines the computation
 *            value       a node in a plan: all dimensions of its type are known
 *            buffer      memory of one or more values: in the arena, a variable's, or a constant's
 *            arena       the one block of memory per exec and device in which the plan places buffers by lifetime
 *            step        one kernel call of a plan; also, in tp_train.h, one run of the train_op
 *            plan        the steps for given fetches and fed shapes; exec: the plans and arenas of one thread that runs
 *            fold        compute an operation when the plan is made, because all its inputs are constant
 *            fuse        let the step of one op do what another op would do; absorbed: the op that has no step because of that
 *            elide       not store a value, because the ops that read it compute it while loading
 *            alias       a value that has the buffer of another one: views, names
 *            replica     the copy of a value on another device or in another precision
 *            tower       the part of a graph that is built once for each device in data-parallel training
 *
 * CONTENTS   >>types >>optable >>graph >>names >>scopes >>variables >>towers >>gradients >>nodes >>summaries
 *            >>regex >>session >>hooks >>checkpoints >>predict >>places
 *            behind STOP HERE, for kernels on other devices too: >>kernels
 *            the implementation: >>core >>scopes and variables >>towers and towers' functions >>gradients >>regex >>registry
 *            >>gradient rules >>summaries >>plan >>run >>hooked runs >>saver >>predict >>ops
 *
 * OWNERSHIP  the graph owns every node, name and copied option: tp_graph_free frees them. The session owns the
 *            variables' values and everything a run needs. A graph, its sessions, the users of these sessions (execs, hooked
 *            sessions, predictors, trainers) and your own devices may be freed in any order: the memory of a graph is kept
 *            until its last session is freed, that of a session until its last user is freed, that of a device until all of
 *            them are freed. Freeing an object twice is refused with a sentence as long as its memory is kept.
 * THREADS    one graph is built by one thread. A session's run functions may be used by one thread per tp_exec;
 *            tp_session_cancel by any. A thread that runs a session needs a stack of 128 KiB, of which the registers of a
 *            chain take 96.
 * ERRORS     builders never return NULL: the graph keeps the first mistake, and later calls return a poison node;
 *            tp_graph_status, tp_graph_error and every run report the mistake, with file:line (>>places) and name scope.
 * NOTATION   B batch, H W height and width, C input channels, O output channels, N elements; d<x> = d cost / d <x>.
 */
/* This block has the whole file except the op pages at its end, which the file reads by including itself. */
#ifndef TP__F
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
    int index; /* the number of this output among the outputs of its operation */
    tp_dtype dtype;
    tp_shape shape; /* the shape; TP_ANY stands for a dimension that is not known yet */
} tp_node;

/* One operation of a graph: a row of the op table applied to inputs. Read the fields, never write them. */
struct tp_operation {
    tp_graph *graph;
    const tp_op *row;
    const char *name; /* the full name, for example "tower0/conv1/Relu" */
    int id;           /* number of the operation in the order of creation */
    int n_in, n_out, n_ctrl, n_var;
    tp_node **in;
    tp_node *out;        /* n_out values; an op that has only an effect has one, a bool of shape (0) */
    tp_operation **ctrl; /* control dependencies: operations that run before this one */
    tp_variable **var;   /* variables that this op writes in place (WRITES_VAR); of a variable op: its variable */
    void *attrs;         /* the op's attributes, a struct that depends on the op */
    void *user;          /* for TP_OP_HOST ops: the pointer tp_apply_desc.user */
    uint64_t stream;     /* key of the random numbers: hash of the name, or another op's key, to repeat its numbers */
    int device;          /* the device that runs it: index into the session's devices (see tp_device_enter) */
    tp_at at;            /* the user's line that added the operation; file may be NULL */
};

/* How a variable is initialised. Make one with the functions tp_init_*; a zeroed one is "unset". Formulas: >>variables. */
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
    int kind; /* how the values are chosen: a tp_init_kind */
    /* by kind: constant: the value is a. normal: mean a, deviation b. uniform: from a up to b. variance scaling: scale
     * a */
    float a, b;
    int mode, distribution;
    const float *values; /* the values, for TP_INIT_VALUES; copied when the variable is made */
    int64_t n_values;
} tp_init;

/* A named input or output signature. TP_SPEC("input", TP_F32, TP_ANY, 28, 28) [train: TensorSpec, InputDesc] */
typedef struct tp_spec {
    const char *name;
    tp_dtype dtype;
    tp_shape shape;
} tp_spec;
#ifdef TP_KEYWORDS
#define TP_SPEC(name_, ...)                                                                                       \
    {                                                                                                             \
        name_, TP__SPEC_TYPE(__VA_ARGS__, 0),                                                                     \
            TP__SPEC_PICK(__VA_ARGS__, TP__SPEC_DIMS, TP__SPEC_DIMS, TP__SPEC_DIMS, TP__SPEC_DIMS, TP__SPEC_DIMS, \
                          TP__SPEC_DIMS, TP__SPEC_DIMS, TP__SPEC_DIMS, TP__SPEC_SCALAR, 0)(__VA_ARGS__)           \
    }
#define TP__SPEC_TYPE(dtype_, ...) dtype_
/* expands to its tenth argument, the macro for that number of dimensions */
#define TP__SPEC_PICK(t_, a_, b_, c_, d_, e_, f_, g_, h_, pick_, ...) pick_
#define TP__SPEC_SCALAR(dtype_) \
    {                           \
        0, { 0 }                \
    }
#define TP__SPEC_DIMS(dtype_, ...)                   \
    {                                                \
        TP__SPEC_COUNT(__VA_ARGS__), { __VA_ARGS__ } \
    }
#ifdef __cplusplus
#define TP__SPEC_COUNT(...) (int)sizeof(tp__cxx_count(__VA_ARGS__))
#else
#define TP__SPEC_COUNT(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#endif
#endif

/* ==== >>optable ======================================================================================= */
/* An op is one entry of the op table, its row. The formula, the shape rule, the gradient and the naive loop are together
 * on the op's page under >>ops. Tests walk the table (tp_op_registry), so a new entry is tested automatically. */

enum {
    TP_OP_PURE = 0,            /* the op may be merged with an equal one, folded or pruned */
    TP_OP_RANDOM = 1 << 0,     /* depends on the random step: never merged or folded */
    TP_OP_READS_VAR = 1 << 1,  /* the op's output is the value of a variable */
    TP_OP_WRITES_VAR = 1 << 2, /* the op changes variables in place */
    TP_OP_COLLECTIVE = 1 << 3, /* all ranks of a job must run the op, in the order of creation */
    /* Has an effect outside the graph (prints, checks, communicates with other processes): each run calls its kernel. A GPU
     * records the kernels before and after it separately; the kernel waits for its operands (tp_device.download, wait). */
    TP_OP_HOST = 1 << 4,
    TP_OP_DYNAMIC_SHAPE = 1 << 5, /* the op's output shape is not a function of input shapes and attributes */
    /* element i of the output depends on element i of the inputs alone, after broadcasting; the row has block functions,
     * which compute a part of the output */
    TP_OP_ELEMENTWISE = 1 << 6,
    TP_OP_ANY_DTYPE = 1 << 7, /* copies elements without computing: naive_f32 serves every dtype */
    TP_OP_VIEW = 1 << 8,      /* output 0 is an alias of input 0 with another shape: no work at run time */
    TP_OP_SOURCE = 1 << 9,    /* a placeholder, constant or variable, which has no kernel; not for rows of your own */
    TP_OP_NO_ALIAS = 1 << 10, /* no output may be in the buffer of an input, even if the input is not read later */
    /* the op computes products, with half-precision operands where the session allows it */
    TP_OP_HALF = 1 << 11,
    TP_OP_FOLLOWS = 1 << 12, /* output 0 has the floating-point precision of input 0 when it is stored */
    /* the op runs as soon as its inputs are computed, before ops that were created earlier */
    TP_OP_EARLY = 1 << 13,
    TP_OP_ANY_DEVICE =
        1 << 14, /* the op's kernel accesses operands only through the device's functions, so it runs on every device */
    /* output 0 holds copies of the inputs, one after the other, each at a multiple of 64 bytes. The planner may place an input where
     * its copy belongs; the kernel then finds it at that address, and does not copy it */
    TP_OP_PACKS = 1 << 15
};

typedef enum {
    TP_ATTR_INT,
    TP_ATTR_INTS8,
    TP_ATTR_I64S8,
    TP_ATTR_FLOAT,
    TP_ATTR_BOOL,
    TP_ATTR_DTYPE,
    TP_ATTR_SHAPE,
    TP_ATTR_STRING,
    TP_ATTR_U64
} tp_attr_kind;
/* One field of an attribute struct: int, int[8], int64_t[8], float, bool, tp_dtype, tp_shape, const char *, uint64_t. */
typedef struct tp_attr {
    const char *name;
    tp_attr_kind kind;
    size_t offset;
} tp_attr;

/* The argument of a shape rule: input types and attributes; the rule fills `out`. It is called when the graph is built
 * (dimensions may be TP_ANY) and again when a plan is made (all known); both results must agree. */
#define TP_MAX_OUTPUTS 256 /* largest number of outputs of one op */
typedef struct tp_infer {
    const tp_op *op;
    const void *attrs;
    const char *name; /* name of the operation, for error sentences */
    int n_in;
    const tp_type *in;
    /* number of outputs; the rule sets it, from 1 to TP_MAX_OUTPUTS, for rows with a variable number; for others it is preset */
    int n_out;
    tp_type *out;
    int n_var;
    const tp_type *var;
} tp_infer;

/* The argument of a gradient function: the function sets din[i], the gradient of input i, to a node (preset NULL = no
 * gradient). dout[i] is the gradient of output i; NULL where the cost does not depend on that output. */
typedef struct tp_grad {
    tp_graph *graph;
    tp_operation *op;
    tp_node **in, **dout, **din;
    tp_node *out;      /* the operation's outputs, op->out */
    const char *below; /* private; by operation id: whether the operation depends on what one differentiates by */
} tp_grad;

/* Computes a block of the output of an element-wise op: n elements. Inputs (already broadcast) and output are
 * contiguous. */
typedef void (*tp_block_fn)(int64_t n, void *y, const void *const *in, const void *attrs);

struct tp_op {
    const char *name;  /* the op's name, for example "softmax"; automatic node names use `label` */
    const char *label; /* TensorFlow's name for the op, "Softmax" */
    unsigned flags;
    int min_in, max_in;  /* least and largest number of inputs; max_in -1: any number */
    int n_out;           /* number of outputs, auxiliary ones included; -1: the shape rule sets it */
    const tp_attr *attr; /* the attributes' schema, ends with a NULL name; NULL: no attributes */
    size_t attr_size;    /* sizeof the struct of attributes; 0: no attributes */
    tp_status (*infer)(tp_infer *s);
    void (*grad)(tp_grad *g); /* adds the nodes of the gradient; NULL: no gradient flows through the op */
    /* naive loops, which define the op; naive_f32 serves every dtype of TP_OP_ANY_DTYPE rows */
    tp_kernel_fn naive_f32, naive_f64;
    tp_kernel_fn fast; /* fast kernel for float32 (TP_OP_ANY_DTYPE rows: for every dtype) on the CPU, or NULL */
    /* for TP_OP_ELEMENTWISE rows: functions that compute a block */
    tp_block_fn block_f32, block_f64, block_i32, block_i64;
    tp_vec vec; /* finds the vectorised function for block_f32, if there is one */
    /* number of FLOPs; NULL: one per output element. Bytes follow from the operands. */
    double (*flops)(const tp_call *k);
    /* scratch bytes that the kernel needs; k has shapes, no pointers. NULL: none */
    size_t (*scratch)(const tp_call *k);
    unsigned shape_only;            /* bit i: the op reads only the shape of input i */
    const char *onnx;               /* the ONNX operator, NULL if the op needs several */
    const char *fault;              /* sentence for tp_kernel_fault, with one %lld for its value; NULL: the kernel has
                                     * no fault */
    unsigned single_in, single_out; /* for TP_OP_HALF rows, bit i: input i (output i) stays float32 */
    unsigned fuses;                 /* TP_FUSES_ bits: what can be fused into `fast` */
    /* bit i: `fast` may write output 0 over input i. Output 0 may always be written over a fused addend */
    unsigned in_place;
    int sequence;                    /* for sequence ops: index of the input x */
    const struct tp__update *update; /* for optimizers: their slots and formulas; NULL: not an optimizer */
};

TP_DEF const tp_op *tp_op_registry(int i);        /* returns row i of the op table; NULL past the end */
TP_DEF const tp_op *tp_op_find(const char *name); /* the row of that name; NULL and a sentence if there is none */
/* Reports an error in a shape rule: `return tp_infer_fail(s, TP_ERR_SHAPE, "input is %s, ...")`. */
TP_DEF tp_status tp_infer_fail(tp_infer *s, tp_status status, const char *fmt, ...) TP_PRINTF(3, 4);
#ifdef TP_NO_SENTENCES
#define tp_infer_fail(s_, status_, ...) (TP__NOT_SAID(__VA_ARGS__), (tp_infer_fail)((s_), (status_), NULL))
#endif

/* Applies any row, built-in or your own, to inputs; attrs (copied) may be NULL for zeros. Returns output 0; the other outputs are
 * &node->op->out[i]. Your own rows can do everything that built-in ones can. */
TP_DEF tp_node *tp_apply(tp_graph *g, const tp_op *row, tp_node *const *in, int n_in, const void *attrs);
/* In all functions that have nodes as inputs, the graph g may be NULL: it is then the graph of the inputs. */
/* The same as tp_apply, with all options: written variables, a name (NULL: the row's label), a user pointer. */
typedef struct tp_apply_desc {
    const tp_op *row;
    tp_node *const *in;
    int n_in;
    const void *attrs;
    tp_node *const *vars; /* nodes of the variables that the op writes in place */
    int n_var;
    const char *name;
    void *user;
    uint64_t stream; /* key of the random stream; 0: hash of the name */
} tp_apply_desc;
TP_DEF tp_node *tp_apply_ex(tp_graph *g, const tp_apply_desc *d);

/* ==== >>graph ========================================================================================= */

typedef struct tp_graph_config {
    uint64_t seed; /* seed of all random numbers in this graph; default 42; write (uint64_t)TP_NONE for 0 */
} tp_graph_config;
TP_DEF tp_graph *tp_graph_new(const tp_graph_config *config); /* returns NULL if memory runs out */
TP_DEF void tp_graph_free(tp_graph *g);
TP_DEF tp_status tp_graph_status(const tp_graph *g);  /* status of the first mistake, TP_OK if none */
TP_DEF const char *tp_graph_error(const tp_graph *g); /* sentence of the first mistake, "" if none */
TP_DEF uint64_t tp_graph_seed(const tp_graph *g);
/* Records a mistake in the graph, which keeps only the first one, and returns the poison node. `at`, the mistake's
 * place in the source, may be NULL. */
TP_DEF tp_node *tp_graph_fail(tp_graph *g, const tp_at *at, tp_status status, const char *fmt, ...) TP_PRINTF(4, 5);
#ifdef TP_NO_SENTENCES
#define tp_graph_fail(g_, at_, status_, ...) (TP__NOT_SAID(__VA_ARGS__), (tp_graph_fail)((g_), (at_), (status_), NULL))
#endif
TP_DEF bool tp_is_poison(const tp_node *n);
TP_DEF tp_node *tp_poison(tp_graph *g);
TP_DEF tp_graph *tp_node_graph(const tp_node *n);
/* From this call to the next one, errors and new nodes get this place instead of their builder's (>>places); layers set the
 * place to their caller's line while they build. */
TP_DEF void tp_graph_set_at(tp_graph *g, tp_at at);
/* returns zeroed memory that is freed with the graph; NULL if memory runs out */
TP_DEF void *tp_graph_alloc(tp_graph *g, size_t size);
TP_DEF char *tp_graph_strdup(tp_graph *g, const char *s);
TP_DEF int tp_graph_n_operations(const tp_graph *g);
TP_DEF tp_operation *tp_graph_operation(const tp_graph *g, int i);
TP_DEF int tp_graph_n_variables(const tp_graph *g);
TP_DEF tp_variable *tp_graph_variable(const tp_graph *g, int i);
TP_DEF void tp_graph_finalize(tp_graph *g); /* finishes the graph: adding nodes later is a mistake */
/* writes a table of the trainable variables to out [describe_trainable_vars] */
TP_DEF void tp_graph_describe_variables(tp_graph *g, tp_buf *out);
/* The graph in the language of graphviz: one box per operation, with its row and output shape; variables as cylinders, control
 * edges dotted. targets not NULL: only the operations that these n nodes depend on. */
TP_DEF void tp_graph_to_dot(tp_graph *g, tp_node *const *targets, int n, tp_buf *out);

/* ==== >>names ========================================================================================= */
/* Find a node or an operation by name. If there is none they return NULL, and tp_last_error() has the most similar name. While a
 * tower is built, tp_graph_find looks among the tower's own nodes first: "cost" is not that of another tower.
 * "conv0/output" and "conv0/output:0" are the same node; ":1" is the second output. */
TP_DEF tp_node *tp_graph_find(const tp_graph *g, const char *name);
TP_DEF tp_operation *tp_graph_find_operation(const tp_graph *g, const char *name);
TP_DEF const char *tp_node_name(const tp_node *n); /* the name of the operation that has this output */
/* Names a node: returns an identity op on x with this name in the current scope. Names are made unique, as in TensorFlow: the second
 * node called "cost" is "cost_1". A lookup of "cost" then finds the first one, and warns. */
TP_DEF tp_node *tp_named(tp_node *x, const char *name);

/* ==== >>scopes ======================================================================================== */
/* Functions that open or close a scope return the graph. Names are made unique (_1, _2); "x/" re-enters x/ itself; "" is the
 * root. */
TP_DEF tp_graph *tp_name_scope_push(tp_graph *g, const char *name);
TP_DEF tp_graph *tp_name_scope_pop(tp_graph *g);
TP_DEF const char *tp_name_scope(const tp_graph *g); /* the current name scope: "" or "a/b" */
/* Enters the same scope at each call with this name, without making the name unique [tfutils: cached_name_scope]. */
TP_DEF tp_graph *tp_cached_name_scope_push(tp_graph *g, const char *name, bool top_level);

typedef enum { TP_REUSE_INHERIT = 0, TP_REUSE_NO, TP_REUSE_YES, TP_REUSE_AUTO } tp_reuse;
typedef struct tp_getter_call tp_getter_call;
struct tp_variable_desc;
/* Wraps variable creation: may change the description, calls tp_getter_next with it, and may return another node computed
 * from the variable. [tfutils: varreplace] */
typedef tp_node *(*tp_getter_fn)(tp_getter_call *call, struct tp_variable_desc *d, void *user);
typedef struct tp_variable_scope_desc {
    const char *name; /* NULL: stay in the current variable scope, without a new name scope */
    int reuse;        /* whether get_variable makes or reuses variables: a tp_reuse */
    tp_getter_fn getter;
    void *getter_user;
    bool no_name_scope;
} tp_variable_scope_desc;
/* Opens a variable scope and, unless no_name_scope is set, a name scope of the same name. */
TP_DEF tp_graph *tp_variable_scope_push(tp_graph *g, const tp_variable_scope_desc *d);
TP_DEF tp_graph *tp_variable_scope_pop(tp_graph *g);
TP_DEF const char *tp_variable_scope(const tp_graph *g);
/* the reuse mode of the current variable scope: TP_REUSE_NO, _YES or _AUTO */
TP_DEF int tp_variable_scope_reuse(const tp_graph *g);
#define TP__U(x) TP__CAT(x, __LINE__)
/* Opens a name scope for a block: TP_NAME_SCOPE(g, "losses") { ... }  Leave the block at its end only (no break, return
 * or goto out of it). */
#define TP_NAME_SCOPE(g, name_)                                                  \
    for (int TP__U(tp__i) = (tp_name_scope_push((g), (name_)), 1); TP__U(tp__i); \
         TP__U(tp__i) = (tp_name_scope_pop(g), 0))
/* Opens a variable scope for a block: TP_VARIABLE_SCOPE(g, "gen") { ... }, TP_VARIABLE_SCOPE(g, "gen", .reuse =
 * TP_REUSE_AUTO) { ... }: the name, then options of tp_variable_scope_desc. Leave the block at its end only. */
#ifdef TP_KEYWORDS
#define TP_VARIABLE_SCOPE(g_, ...)                                                                       \
    for (int TP__U(tp__i) =                                                                              \
             (tp_variable_scope_push((g_), TP_OPTIONS(tp_variable_scope_desc, .name = __VA_ARGS__)), 1); \
         TP__U(tp__i); TP__U(tp__i) = (tp_variable_scope_pop(g_), 0))
#endif

/* Operations that are added between enter and leave run on the session's device number `device`, and their variables are stored
 * on that device; outside, the device is 0. An op that writes variables runs on the device of the variables; the gradient of an
 * op runs on the device of the op. A value that another device reads is copied to it, once per run. A number for which the
 * session has no device is a mistake when the session is made or the op is run. (A trainer without .session_config makes a session
 * with as many CPU devices as its graph uses: >>devices of tp_train.h.) */
TP_DEF tp_graph *tp_device_enter(tp_graph *g, int device);
TP_DEF tp_graph *tp_device_leave(tp_graph *g);
TP_DEF int tp_current_device(const tp_graph *g);
/* The device that stores a value: the device of its op; for an output of tp_all_reduce: that of the input of the same index. */
TP_DEF int tp_node_device(const tp_node *n);
/* Adds the operations of a block to a device: TP_DEVICE(g, 1) { ... }  Leave the block at its end only. */
#define TP_DEVICE(g, device_) \
    for (int TP__U(tp__i) = (tp_device_enter((g), (device_)), 1); TP__U(tp__i); TP__U(tp__i) = (tp_device_leave(g), 0))

/* The decorators of tensorpack as scopes around a call; `function` is the name of the called function.
 * auto_reuse: the first call in an enclosing variable scope follows that scope's reuse, later calls reuse variables; no scope
 * level is added. under_variable: opens a variable scope with the name of the function. End both with tp_variable_scope_pop.
 * under_name: opens the name scope `name` in the current one, the same one at each call, with a warning if another node has
 * the name; name NULL: a new scope with the name of the function. End it with tp_name_scope_pop. [scope_utils:
 * auto_reuse_variable_scope, under_variable_scope, under_name_scope] */
TP_DEF tp_graph *tp_auto_reuse_variable_scope_push(tp_graph *g, const char *function);
TP_DEF tp_graph *tp_under_variable_scope_push(tp_graph *g, const char *function);
TP_DEF tp_graph *tp_under_name_scope_push(tp_graph *g, const char *function, const char *name);

/* Getters, pushed like variable scopes and ended by tp_variable_scope_pop. */
/* Between push and pop, tp_get_variable returns fn(variable) instead of the variable: a node computed from it, or the variable
 * itself for no change. The variable itself is not changed, and the gradient flows through fn. fn also gets variables that are not
 * trained, such as the running mean of a batch norm: for these tp_node_variable(var)->trainable is false. Variables that fn asks for
 * itself, such as a shadow of this one, are not remapped. [varreplace: remap_variables] */
TP_DEF tp_graph *tp_remap_variables_push(tp_graph *g, tp_node *(*fn)(tp_node *var, void *user), void *user);
/* Freezes trainable variables. stop_gradient: layers get a node freezed_<name> through which no gradient flows; the
 * variable stays in TP_KEY_TRAINABLE_VARIABLES, so weight decay still changes it. skip_collection: the variable is not trainable and
 * is added to MODEL_VARIABLES instead; this has an effect only on variables created inside. The running averages of a batch norm are
 * no trainable variables and go on: TP_ARGSCOPE(g, batch_norm, .training = TP_NO) inside stops them. Trainable variables that a function of
 * tp_remap_variables_push makes inside, such as the factors of LoRA, are frozen too, with a warning: make them before, and let the
 * function find them (tp_find_variable). [varreplace: freeze_variables] */
TP_DEF tp_graph *tp_freeze_variables_push(tp_graph *g, bool stop_gradient, bool skip_collection);
typedef struct tp_freeze_variables_desc {
    tp_tri stop_gradient;   /* whether no gradient flows to the variables; default TP_YES */
    tp_tri skip_collection; /* whether the variables are moved to MODEL_VARIABLES; default TP_NO */
    int end_;               /* unused; it lets the macro TP_FREEZE_VARIABLES be called without options */
} tp_freeze_variables_desc;
/* `d`, the options, may be NULL for the defaults. */
TP_DEF tp_graph *tp_freeze_variables_(tp_graph *g, const tp_freeze_variables_desc *d);
#ifdef TP_KEYWORDS
/* Freezes the variables of a block: TP_FREEZE_VARIABLES(g) { ... }, or TP_FREEZE_VARIABLES(g, .skip_collection = true) { ... }
 * Leave the block at its end only. */
#ifdef __cplusplus
#define TP_FREEZE_VARIABLES(g_, ...) TP__FREEZE_VARIABLES(g_ __VA_OPT__(, ) __VA_ARGS__)
#else
#define TP_FREEZE_VARIABLES(...) TP__FREEZE_VARIABLES(__VA_ARGS__, .end_ = 0)
#endif
#define TP__FREEZE_VARIABLES(g_, ...)                                                                           \
    for (int TP__U(tp__z) = (tp_freeze_variables_((g_), TP_OPTIONS(tp_freeze_variables_desc, __VA_ARGS__)), 1); \
         TP__U(tp__z); TP__U(tp__z) = (tp_variable_scope_pop(g_), 0))
#endif

/* Collections: named lists of nodes. [tfutils: collection; the standard keys] */
#define TP_KEY_GLOBAL_VARIABLES      "variables"
#define TP_KEY_LOCAL_VARIABLES       "local_variables"
#define TP_KEY_TRAINABLE_VARIABLES   "trainable_variables"
#define TP_KEY_MODEL_VARIABLES       "model_variables"
#define TP_KEY_UPDATE_OPS            "update_ops"
#define TP_KEY_REGULARIZATION_LOSSES "regularization_losses"
#define TP_KEY_SUMMARIES             "summaries"
#define TP_KEY_MOVING_SUMMARY_OPS    "MOVING_SUMMARY_OPS"
TP_DEF tp_graph *tp_collection_add(tp_graph *g, const char *key, tp_node *n);
/* the nodes of a collection; valid until a node is added */
TP_DEF tp_node *const *tp_collection(const tp_graph *g, const char *key, int *n);
/* a stored list of the nodes in collections; freed with the graph */
typedef struct tp_collection_backup tp_collection_backup;
/* Stores the contents of collections. keys NULL: all collections; restoring then empties collections that were added
 * later. */
TP_DEF tp_collection_backup *tp_backup_collection(tp_graph *g, const char *const *keys, int n_keys);
TP_DEF void tp_restore_collection(tp_graph *g, const tp_collection_backup *b);
/* TP_FREEZE_COLLECTION(g, keys, n) { ... }  Nodes that the block adds to these collections (keys NULL: all) are removed after it.
 * Leave the block at its end only. [collection: freeze_collection] */
#define TP_FREEZE_COLLECTION(g_, ...)                                                                 \
    for (tp_collection_backup * TP__U(tp__b) = tp_backup_collection((g_), __VA_ARGS__); TP__U(tp__b); \
         tp_restore_collection((g_), TP__U(tp__b)), TP__U(tp__b) = NULL)

/* ==== >>variables ===================================================================================== */

/* A term of the cost for a weight: fn(w, scale), a floating scalar. scale 0 or fn NULL: no regularizer. */
typedef struct tp_regularizer {
    tp_node *(*fn)(tp_node *w, float scale);
    float scale;
} tp_regularizer;

struct tp_variable {
    tp_graph *graph;
    const char *name; /* the full name, for example "conv0/W" */
    tp_node *node;    /* the variable's value at the start of a run */
    tp_dtype dtype;
    tp_shape shape;
    tp_init init;
    bool trainable, local; /* a local variable is not saved in checkpoints */
    bool frozen;           /* made inside TP_FREEZE_VARIABLES, where no gradient flows to it */
    int id, device;
    tp_variable *copy_of;   /* for a copy in another tower: the first tower's variable or optimizer slot; else NULL */
    struct tp__slot *slots; /* list of the slots that optimizers created for the variable */
};

typedef struct tp_variable_desc {
    const char *name;
    tp_dtype dtype; /* element type; default TP_F32 */
    tp_shape shape;
    tp_init init;           /* how the variable is initialised; unset: glorot uniform for floats, else zeros */
    int trainable;          /* whether the variable is trained: a tp_tri; default TP_YES */
    bool local;             /* adds the variable to TP_KEY_LOCAL_VARIABLES instead of TP_KEY_GLOBAL_VARIABLES */
    const char *collection; /* one more collection to add the variable to, or NULL */
    /* the regularizer's value is added to REGULARIZATION_LOSSES when the variable is made */
    tp_regularizer regularizer;
} tp_variable_desc;
/* Creates or reuses a variable by the rules of the current variable scope and its getters. Mistakes: the variable exists without
 * reuse, is missing with reuse, or has another shape. Returns the variable's node, or the node that a getter returned. */
TP_DEF tp_node *tp_get_variable(tp_graph *g, const tp_variable_desc *d);
TP_DEF tp_node *tp_get_variable_as(tp_graph *g, const char *name, tp_dtype dtype, tp_shape shape, tp_init init);
TP_DEF tp_node *tp_getter_next(tp_getter_call *call, tp_variable_desc *d);
/* A float32 scalar variable that is not trained, for example `learning_rate`, by the rules of tp_get_variable: in the variable
 * scope gen its name is gen/learning_rate. Reuse with another initial value is a mistake. [get_scalar_var] */
TP_DEF tp_node *tp_get_scalar_variable(tp_graph *g, const char *name, float init);
/* Finds a variable by name, "conv0/W" or "conv0/W:0". If there is none it returns NULL, and tp_last_error() has the most similar
 * name. */
TP_DEF tp_variable *tp_find_variable(const tp_graph *g, const char *name);
TP_DEF tp_variable *tp_node_variable(const tp_node *n); /* the variable of a node; NULL if the node is no variable */
/* the int64 scalar "global_step" at the root scope, made at first use. [tfutils: get_global_step_var] */
TP_DEF tp_node *tp_get_global_step_var(tp_graph *g);

/* fan_in, fan_out of shape s: rank 0: 1,1; rank 1: s0,s0; rank 2: s0,s1; else receptive field r = product of all dimensions
 * but the last two, fan_in = r*s[-2], fan_out = r*s[-1]. A truncated normal redraws numbers beyond two deviations. Element
 * i of a variable is a function of (graph seed, variable name, i). */
TP_DEF tp_init tp_init_constant(float value);
TP_DEF tp_init tp_init_zeros(void);
TP_DEF tp_init tp_init_ones(void);
TP_DEF tp_init tp_init_normal(float mean, float stddev);
/* the actual deviation is 0.88*stddev, as in TensorFlow */
TP_DEF tp_init tp_init_truncated_normal(float mean, float stddev);
TP_DEF tp_init tp_init_uniform(float low, float high);
/* Scales by the fan n: truncated normal: sigma = sqrt(scale/n)/0.87962566103423978; normal: sqrt(scale/n); uniform:
 * +-sqrt(3 scale/n) */
TP_DEF tp_init tp_init_variance_scaling(float scale, tp_fan_mode mode, tp_distribution distribution);
TP_DEF tp_init tp_init_glorot_uniform(void); /* uniform in +-sqrt(6/(fan_in+fan_out)) */
/* the n values, in memory order; n must be the number of elements of the variable, which copies them when it is created */
TP_DEF tp_init tp_init_values(const float *values, int64_t n);
/* Fills t (float32 or float64 or integers) with the initial value of a variable of this name. */
TP_DEF tp_status tp_init_fill(const tp_init *init, uint64_t seed, const char *name, tp_tensor *t);

/* ==== >>towers ======================================================================================== */

typedef struct tp_tower_context {
    tp_graph *graph;
    const char *ns_name, *vs_name; /* names of the tower's name scope ("tower0") and variable scope ("") */
    bool is_training, is_main_training_tower, has_own_variables;
    int index, total, device;     /* device: the current device when the tower was entered */
    tp_collection_backup *added_; /* the nodes that the tower added to collections, stored at its end */
} tp_tower_context;
typedef struct tp_tower_desc {
    const char *name;    /* name of the tower's scope; NULL or "": no name scope */
    const char *vs_name; /* name of the tower's variable scope; NULL or "": the current one */
    bool is_training;
    int index, total; /* index of this tower; total: number of training towers, where 0 means 1 */
} tp_tower_desc;
/* Enters a tower. Only one tower can be open at a time. NULL after a mistake (which the graph keeps). [tfutils:
 * TowerContext] */
TP_DEF const tp_tower_context *tp_tower_enter(tp_graph *g, const tp_tower_desc *d);
TP_DEF void tp_tower_leave(tp_graph *g);
/* the open tower; NULL outside of a tower */
TP_DEF const tp_tower_context *tp_current_tower_context(const tp_graph *g);
/* Nodes of a collection that were added inside the current tower; the array is freed with the graph. */
TP_DEF tp_node *const *tp_tower_collection(tp_graph *g, const char *key, int *n);

/* Builds training towers tower0, tower1, ... with one function, each on its device: the nodes of its layers are named
 * tower<i>/..., the first tower creates the variables and the others use them. [train: DataParallelBuilder.call_for_each_tower]
 *
 * A layer may combine a value over all towers (tp_tower_all_reduce). Therefore tower 0 is built up to such a layer, then tower 1
 * up to the same layer, and so on; when all towers have reached the layer, all go on. Each tower's function runs on its own
 * thread, but never two at a time; each tower has its own scopes, device and place of errors; a collection has the nodes that
 * earlier towers have added so far. With one tower, and with TP_NO_THREADS, fn runs on the caller's thread.
 *
 * The result of fn for tower i is stored in outputs[i] (outputs may be NULL), poison after a mistake. Returns the graph's status;
 * after a mistake tp_last_error gives the sentence, too. Calling it inside a tower is a mistake. */
typedef tp_node *(*tp_tower_build_fn)(const tp_tower_context *tower, void *user);
typedef struct tp_towers_desc {
    int n;              /* number of towers */
    const int *devices; /* device of each tower; NULL: tower i is on device i */
    bool own_variables; /* later towers create their own variables, tower<i>/..., which are not saved [use_vs] */
} tp_towers_desc;
TP_DEF tp_status tp_build_on_towers(tp_graph *g, const tp_towers_desc *d, tp_tower_build_fn fn, void *user,
                                    tp_node **outputs);
/* For layers: ys[i] is the sum (or mean) of xs[i] over all towers, by tp_all_reduce; n values at once. `what` names the layer in
 * error sentences. With a single tower, ys are the xs. All towers must call this function for the same layers in the same
 * order. */
TP_DEF void tp_tower_all_reduce(tp_graph *g, tp_node *const *xs, int n, bool mean, const char *what, tp_node **ys);

typedef tp_node *(*tp_build_fn)(tp_graph *g, tp_node *const *in, void *user);
typedef struct tp_tower_func tp_tower_func; /* a function that builds a tower from its inputs; freed with the graph */
typedef struct tp_tower_handle {
    tp_tower_context ctx;
    tp_tower_func *func;
    tp_node **in;    /* the input nodes, one for each entry of the signature */
    tp_node *output; /* the node that the tower function returned; may be NULL */
} tp_tower_handle;
/* Makes a tower function. The names in specs must be unique, without ':', '/', ' '. The specs are copied. [tfutils:
 * TowerFunc] */
TP_DEF tp_tower_func *tp_tower_func_new(tp_graph *g, tp_build_fn fn, void *user, const tp_spec *specs, int n);
/* Calls a tower function inside an open tower, and adds a handle of this tower. */
TP_DEF tp_node *tp_tower_func_call(tp_tower_func *f, tp_node *const *in);
TP_DEF const tp_spec *tp_tower_func_signature(const tp_tower_func *f, int *n);
TP_DEF int tp_tower_func_n_towers(const tp_tower_func *f);
TP_DEF const tp_tower_handle *tp_tower_func_tower(const tp_tower_func *f, int i);
/* finds the handle of a tower by name; NULL and a sentence if there is none */
TP_DEF const tp_tower_handle *tp_tower_func_find(const tp_tower_func *f, const char *ns_name);
/* A view of the function's towers: all of them, or those of training or of inference. [TowerTensorHandles] */
typedef enum { TP_TOWERS_ALL, TP_TOWERS_TRAINING, TP_TOWERS_INFERENCE } tp_towers;
typedef struct tp_tower_handles {
    const tp_tower_func *func;
    tp_towers which;
} tp_tower_handles;
TP_DEF tp_tower_handles tp_tower_func_towers(const tp_tower_func *f, tp_towers which);
TP_DEF int tp_tower_handles_n(tp_tower_handles h);
/* returns handle number i; NULL if there is none */
TP_DEF const tp_tower_handle *tp_tower_handles_at(tp_tower_handles h, int i);
/* finds a handle by the tower's name; NULL and a sentence if there is none */
TP_DEF const tp_tower_handle *tp_tower_handles_find(tp_tower_handles h, const char *ns_name);
/* Finds "ns_name/name", an input of that signature name, or a variable; NULL and a sentence if there is none.
 * [TowerTensorHandle.get_tensor] */
TP_DEF tp_node *tp_tower_handle_get(const tp_tower_handle *h, const char *name);
/* Finds the variable of this name, without the tower's variable scope; NULL and a sentence if there is none. [get_variable] */
TP_DEF tp_node *tp_tower_handle_get_variable(const tp_tower_handle *h, const char *name);
/* Looks up n names and stores the results in nodes. A name that is not found gives NULL; the result is then TP_ERR_NAME, whose
 * sentence has the first such name. [get_tensors, get_variables] */
TP_DEF tp_status tp_tower_handle_get_tensors(const tp_tower_handle *h, const char *const *names, int n,
                                             tp_node **nodes);
TP_DEF tp_status tp_tower_handle_get_variables(const tp_tower_handle *h, const char *const *names, int n,
                                               tp_node **nodes);
/* The nodes that were added to a collection from the tower's beginning to its end (for the current tower: until now), without
 * those that are removed at its end (summaries of towers but the main one). The array is freed with the graph. [get_collection] */
TP_DEF tp_node *const *tp_tower_handle_get_collection(const tp_tower_handle *h, const char *key, int *n);

/* ==== >>gradients ===================================================================================== */

/* Adds the gradient dxs[i] = d sum(y) / d xs[i] as new nodes (under name scope "gradients"); NULL where y does not
 * depend on xs[i]. Returns a node, no status: y, or poison after a mistake. The derivatives may be differentiated again, except those of
 * lstm, gru, attention and ctc_loss, which warn and give no gradient. No gradient flows through
 * tp_stop_gradient. The gradients from several consumers of a value are added in the order in which the consumers were
 * created. */
TP_DEF tp_node *tp_gradients(tp_node *y, tp_node *const *xs, int n, tp_node **dxs);
/* The same as tp_gradients, with the gradient dy of y, which has y's shape (NULL: ones). */
TP_DEF tp_node *tp_gradients_from(tp_node *y, tp_node *dy, tp_node *const *xs, int n, tp_node **dxs);

/* Whether any target depends on this op or is its output. [tfutils: dependency_of_targets] */
TP_DEF bool tp_depends_on(tp_node *const *targets, int n, const tp_operation *op);
/* Whether any node of these lists depends on op. For example the fetches of a run and those of its hooks.
 * [dependency_of_fetches] */
TP_DEF bool tp_dependency_of_fetches(tp_node *const *const *lists, const int *n, int n_lists, const tp_operation *op);

/* ==== >>nodes ========================================================================================= */
/* Functions that add one op (rarely two) to the graph of their inputs. They check shapes. Axes may be negative. Functions with
 * several outputs store them in an array, and return the first. */

/* -- sources */
/* A value that each run must feed. name NULL: "Placeholder". */
TP_DEF tp_node *tp_placeholder(tp_graph *g, const char *name, tp_dtype dtype, tp_shape shape);
TP_DEF tp_node *tp_constant(tp_graph *g, const tp_tensor *value);       /* a constant, a copy of `value` */
TP_DEF tp_node *tp_const(tp_graph *g, float value);                     /* a constant, a float32 scalar */
TP_DEF tp_node *tp_const_as(tp_graph *g, tp_dtype dtype, double value); /* a constant, a scalar of this dtype */
/* a constant of x's shape and dtype; the values of x are not read */
TP_DEF tp_node *tp_fill_like(tp_node *x, float value);
TP_DEF tp_node *tp_zeros_like(tp_node *x);
TP_DEF tp_node *tp_ones_like(tp_node *x);
TP_DEF tp_node *tp_identity(tp_node *x);
TP_DEF tp_node *tp_stop_gradient(tp_node *x);
/* A node without a value that runs all n nodes (NULL entries are skipped). [tf.group] */
TP_DEF tp_node *tp_group(tp_graph *g, tp_node *const *nodes, int n, const char *name);
/* an identity of x that runs after the nodes `after` */
TP_DEF tp_node *tp_with_dependencies(tp_node *x, tp_node *const *after, int n);
/* An identity of x that logs its shape, mean, rms and first 20 elements. */
TP_DEF tp_node *tp_print(tp_node *x, const char *message);
/* an identity of x; the run fails if x has a NaN or infinity */
TP_DEF tp_node *tp_check_numerics(tp_node *x, const char *message);

/* -- element-wise; binary ones broadcast as numpy does */
TP_DEF tp_node *tp_add(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_sub(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_mul(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_div(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_pow(tp_node *a, tp_node *b);
/* the larger of two values; if they are equal, the gradient goes to a */
TP_DEF tp_node *tp_maximum(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_minimum(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_squared_difference(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_floordiv(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_mod(tp_node *a, tp_node *b);     /* a modulo b: the result has the sign of b, as in Python */
TP_DEF tp_node *tp_greater(tp_node *a, tp_node *b); /* a > b; this and the other comparisons give TP_BOOL */
TP_DEF tp_node *tp_greater_equal(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_less(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_less_equal(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_equal(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_not_equal(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_logical_and(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_logical_or(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_logical_not(tp_node *a);
TP_DEF tp_node *tp_select(tp_node *cond, tp_node *a, tp_node *b); /* element-wise: a where cond is true, else b */
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
TP_DEF tp_node *tp_asin(tp_node *x);
TP_DEF tp_node *tp_acos(tp_node *x);
TP_DEF tp_node *tp_atan(tp_node *x);
TP_DEF tp_node *tp_erf(tp_node *x);
TP_DEF tp_node *tp_gelu(tp_node *x);      /* gelu: x Phi(x), where Phi is computed with the error function */
TP_DEF tp_node *tp_gelu_tanh(tp_node *x); /* gelu, approximated by tanh */
TP_DEF tp_node *tp_silu(tp_node *x);      /* x sigmoid(x), also called swish or SiLU */
TP_DEF tp_node *tp_tanh(tp_node *x);
TP_DEF tp_node *tp_sigmoid(tp_node *x);
TP_DEF tp_node *tp_softplus(tp_node *x);
TP_DEF tp_node *tp_relu(tp_node *x);
TP_DEF tp_node *tp_leaky_relu(tp_node *x, float alpha);
TP_DEF tp_node *tp_elu(tp_node *x);
TP_DEF tp_node *tp_selu(tp_node *x); /* 1.0507 (x > 0 ? x : 1.6733 (e^x - 1)) */
TP_DEF tp_node *tp_floor(tp_node *x);
TP_DEF tp_node *tp_ceil(tp_node *x);
TP_DEF tp_node *tp_round(tp_node *x); /* rounds to nearest, half to even */
TP_DEF tp_node *tp_is_finite(tp_node *x);
TP_DEF tp_node *tp_clip(tp_node *x, float low, float high);
TP_DEF tp_node *tp_affine(tp_node *x, float scale, float offset); /* x*scale + offset */
TP_DEF tp_node *tp_cast(tp_node *x, tp_dtype dtype);
TP_DEF tp_node *tp_add_n(tp_node *const *xs, int n); /* adds tensors of one shape from left to right */
/* Sums n values of one shape over devices, each on its own device: ys[i] is their sum (or mean), added in the order of xs, on the
 * device of xs[i], with the same bits on all devices. A mean needs floats. With tp_session_config.nccl_all_reduce the order is
 * NCCL's. */
TP_DEF tp_node *tp_all_reduce(tp_node *const *xs, int n, bool mean, tp_node **ys);

/* -- reductions; n_axes 0 = all */
TP_DEF tp_node *tp_reduce_sum(tp_node *x, const int *axes, int n_axes, bool keep_dims);
TP_DEF tp_node *tp_reduce_mean(tp_node *x, const int *axes, int n_axes, bool keep_dims);
/* the maximum; equal maxima share the gradient */
TP_DEF tp_node *tp_reduce_max(tp_node *x, const int *axes, int n_axes, bool keep_dims);
TP_DEF tp_node *tp_reduce_min(tp_node *x, const int *axes, int n_axes, bool keep_dims);
TP_DEF tp_node *tp_reduce_prod(tp_node *x, const int *axes, int n_axes, bool keep_dims);
TP_DEF tp_node *tp_reduce_all(tp_node *x, const int *axes, int n_axes, bool keep_dims);
TP_DEF tp_node *tp_reduce_any(tp_node *x, const int *axes, int n_axes, bool keep_dims);
TP_DEF tp_node *tp_sum(tp_node *x);
TP_DEF tp_node *tp_mean(tp_node *x);
TP_DEF tp_node *tp_l2_loss(tp_node *x); /* the L2 loss, 0.5 * sum(x^2) */
/* fraction of elements that are exactly 0; it has no gradient */
TP_DEF tp_node *tp_zero_fraction(tp_node *x);
/* sqrt of the sum of the squares of all elements, a float32 scalar; where all are 0 its gradient is 0 */
TP_DEF tp_node *tp_global_norm(tp_node *const *xs, int n);
/* int64 indices of the maxima along an axis; the first one of equal elements */
TP_DEF tp_node *tp_argmax(tp_node *x, int axis);
/* Running sums along an axis. exclusive: without the element itself; reverse: from the end. */
TP_DEF tp_node *tp_cumsum(tp_node *x, int axis, bool exclusive, bool reverse);
/* the k largest along the last axis, in descending order; *indices int32, may be NULL */
TP_DEF tp_node *tp_top_k(tp_node *x, int k, tp_node **indices);
/* logits (B,C) and labels (B) give bool (B): whether the label is among the k largest; a tie counts as correct */
TP_DEF tp_node *tp_in_top_k(tp_node *logits, tp_node *labels, int k);
/* Reduces dy to the shape of ref by summing over broadcast axes (the gradient of broadcasting); only the shape of ref
 * is read. */
TP_DEF tp_node *tp_sum_to_like(tp_node *dy, tp_node *ref);
TP_DEF tp_node *tp_broadcast_like(tp_node *x, tp_node *ref);

/* -- linear algebra */
/* matrix product of (..,M,K) and (..,K,N); leading dimensions are broadcast */
TP_DEF tp_node *tp_matmul(tp_node *a, tp_node *b);
TP_DEF tp_node *tp_matmul_ex(tp_node *a, tp_node *b, bool transpose_a, bool transpose_b);

/* -- neural networks. data_format "NHWC" unless said otherwise; weights are HWIO in both. */
typedef enum { TP_FORMAT_DEFAULT = 0, TP_NHWC, TP_NCHW } tp_data_format;
typedef enum { TP_PADDING_DEFAULT = 0, TP_SAME, TP_VALID } tp_padding;
typedef struct tp_conv2d_attrs {
    int stride_h, stride_w;     /* default 1; distance between two windows, in rows and columns */
    int dilation_h, dilation_w; /* default 1; distance between two elements of the filter, in pixels */
    int padding;                /* a tp_padding; default SAME */
    int data_format;            /* a tp_data_format; default NHWC */
    int groups;                 /* number of groups of channels; default 1 */
} tp_conv2d_attrs;
TP_DEF tp_node *tp_nn_conv2d(tp_node *x, tp_node *w, const tp_conv2d_attrs *a); /* w has the shape (KH,KW,C/groups,O) */
TP_DEF tp_node *tp_nn_conv2d_input_grad(tp_node *dy, tp_node *w, tp_node *x_like, const tp_conv2d_attrs *a);
TP_DEF tp_node *tp_nn_conv2d_filter_grad(tp_node *x, tp_node *dy, tp_node *w_like, const tp_conv2d_attrs *a);
/* Adds b (C) along the channels; x has rank 2 or more; NCHW adds along axis 1. */
TP_DEF tp_node *tp_nn_bias_add(tp_node *x, tp_node *b, int data_format);
typedef struct tp_pool_attrs {
    int size_h, size_w, stride_h, stride_w; /* size of the window; the strides' default is that size */
    int padding;                            /* a tp_padding; default VALID */
    int data_format;
} tp_pool_attrs;
TP_DEF tp_node *tp_nn_max_pool(tp_node *x, const tp_pool_attrs *a);
/* average pooling; the mean does not count the padding */
TP_DEF tp_node *tp_nn_avg_pool(tp_node *x, const tp_pool_attrs *a);
/* Resize images as TensorFlow 1 does: output row i samples the input at row i H/out_h, with align_corners at i (H-1)/(out_h-1),
 * with half_pixel_centers at (i+1/2) H/out_h - 1/2 (nearest: without the -1/2); columns are sampled in the same way. Bilinear
 * interpolates between the two neighbours; nearest takes the row at or before that position, with align_corners the nearer. */
typedef struct tp_resize_attrs {
    int out_h, out_w;
    bool align_corners, half_pixel_centers; /* give at most one of align_corners and half_pixel_centers */
    bool nearest; /* set by the builder: tp_resize_nearest sets it, tp_resize_bilinear clears it */
    int data_format;
} tp_resize_attrs;
TP_DEF tp_node *tp_resize_bilinear(tp_node *x, const tp_resize_attrs *a);
TP_DEF tp_node *tp_resize_nearest(tp_node *x, const tp_resize_attrs *a);
typedef enum { TP_BORDER_REPEAT = 0, TP_BORDER_CONSTANT } tp_border;
/* Samples an image: y[b,i,j,:] = image (B,H,W,C) at row coords[b,i,j,0], column coords[b,i,j,1], interpolated between
 * the four pixels around; coords (B,H2,W2,2). Pixel (1,1) has coordinates (1.0,1.0). Outside: the nearest edge pixel,
 * or (CONSTANT) zeros. [ImageSample] */
TP_DEF tp_node *tp_bilinear_sampler(tp_node *image, tp_node *coords, int border);
/* Batch norm over all axes but `axis`. Training: y uses the batch's mean and biased variance; out_mean, out_var
 * (either may be NULL) get the statistics for the running averages, the variance times N/(N-1) if `unbiased`. */
TP_DEF tp_node *tp_nn_batch_norm_train(tp_node *x, tp_node *gamma, tp_node *beta, int axis, float epsilon,
                                       bool unbiased, tp_node **out_mean, tp_node **out_var);
TP_DEF tp_node *tp_nn_batch_norm_infer(tp_node *x, tp_node *gamma, tp_node *beta, tp_node *mean, tp_node *var, int axis,
                                       float epsilon);
/* Layer norm over the last axis: y = gamma (x - mean) / sqrt(var + epsilon) + beta; gamma, beta (C). */
TP_DEF tp_node *tp_nn_layer_norm(tp_node *x, tp_node *gamma, tp_node *beta, float epsilon);
/* Group norm of x (B,..,C,..), three dimensions or more, channels on `axis`: y = gamma (x - mean) / sqrt(var + epsilon) + beta, with the
 * mean and biased variance of each sample and each of the `groups` equal groups of adjacent channels. gamma, beta (C). One group: layer
 * norm of whole samples; as many groups as channels: instance norm. `groups` must divide C. [GroupNorm, InstanceNorm, LayerNorm] */
TP_DEF tp_node *tp_nn_group_norm(tp_node *x, tp_node *gamma, tp_node *beta, int axis, int groups, float epsilon);
TP_DEF tp_node *tp_softmax(tp_node *x); /* softmax along the last axis */
TP_DEF tp_node *tp_log_softmax(tp_node *x);
/* Logits (B,..,C) and labels int (B,..) give losses (B,..), for example of each pixel or word; a label outside the classes fails
 * the run. */
TP_DEF tp_node *tp_sparse_softmax_cross_entropy(tp_node *logits, tp_node *labels);
/* softmax cross entropy; labels are distributions (B,..,C), of the shape of the logits; losses (B,..) */
TP_DEF tp_node *tp_softmax_cross_entropy(tp_node *logits, tp_node *labels);
/* sigmoid cross entropy, element-wise; large logits do not overflow */
TP_DEF tp_node *tp_sigmoid_cross_entropy(tp_node *logits, tp_node *labels);
typedef struct tp_ctc_attrs {
    int blank;        /* index of the blank class; -1: the last one */
    bool batch_major; /* logits are (B,T,C) instead of (T,B,C) */
    /* labels that cannot be aligned cost 0 instead of infinity. An infinite cost has a gradient of 0, so a training goes on, but
     * averages of the cost stay infinite or become NaN. */
    bool zero_infinity;
} tp_ctc_attrs;
/* Connectionist temporal classification: logits (T,B,C), not normalised; labels (B,L). Of sequence b the first label_lengths[b]
 * labels and the first logit_lengths[b] steps are used. y (B) = -log of the probability that a class drawn at each step, with
 * repetitions merged and then blanks removed, gives the labels. a NULL: the blank is class 0. */
TP_DEF tp_node *tp_ctc_loss(tp_node *logits, tp_node *labels, tp_node *label_lengths, tp_node *logit_lengths,
                            const tp_ctc_attrs *a);
/* LSTM over all steps of x, (T,B,D) or with batch_major (B,T,D): y (T,B,H) or (B,T,H); h0, c0 (B,H) the state before the
 * first step, last_h, last_c (either may be NULL) the state after the last. kernel (D+H,4H): the rows for x come before those
 * for h, columns i, j, f, o; bias (4H); forget_bias is added to f. As TensorFlow's BasicLSTMCell. */
TP_DEF tp_node *tp_nn_lstm(tp_node *x, tp_node *kernel, tp_node *bias, tp_node *h0, tp_node *c0, float forget_bias,
                           bool batch_major, tp_node **last_h, tp_node **last_c);
/* GRU over all steps of x, laid out as for tp_nn_lstm. gates (D+H,2H), columns r, u, with bias (2H); candidate (D+H,H) with
 * its bias (H); h_t = u h_t-1 + (1 - u) tanh([x_t, r h_t-1] candidate + bias). As TensorFlow's GRUCell. */
TP_DEF tp_node *tp_nn_gru(tp_node *x, tp_node *gates, tp_node *gates_bias, tp_node *candidate, tp_node *candidate_bias,
                          tp_node *h0, bool batch_major, tp_node **last_h);
/* Scaled dot-product attention with `heads` heads: q (B,Tq,C), k and v (B,Tk,C), each head a slice of C/heads of the last
 * axis; y (B,Tq,C) = softmax(q k^T / sqrt(C/heads)) v. causal: query i sees keys up to i + Tk - Tq (needs Tk >= Tq). Numbers are
 * finite: whether a NaN or an infinity in a value that a query does not see makes a NaN of its result depends on the kernel, as the
 * probability 0 is multiplied by it or left out; in PyTorch it does. */
TP_DEF tp_node *tp_nn_attention(tp_node *q, tp_node *k, tp_node *v, int heads, bool causal);
/* dropout: each element is kept with probability 1-rate and then divided by 1-rate */
TP_DEF tp_node *tp_nn_dropout(tp_node *x, float rate);

/* -- shapes */
/* x with another shape, of which one dimension may be TP_ANY: it is computed from the others */
TP_DEF tp_node *tp_reshape_to(tp_node *x, tp_shape shape);
/* gives x the shape of ref; the values of ref are not read */
TP_DEF tp_node *tp_reshape_like(tp_node *x, tp_node *ref);
TP_DEF tp_node *tp_batch_flatten(tp_node *x); /* flattens all dimensions but the batch: (B,...) becomes (B,product) */
TP_DEF tp_node *tp_flatten(tp_node *x);       /* -> (N) */
TP_DEF tp_node *tp_expand_dims(tp_node *x, int axis);
TP_DEF tp_node *tp_squeeze(tp_node *x, int axis);
TP_DEF tp_node *tp_transpose(tp_node *x, const int *perm, int n); /* permutes the axes; n 0: reverses their order */
/* tp_concat and tp_stack take any number of nodes. tp_split, into n equal parts, and tp_unstack make TP_MAX_OUTPUTS (256) at most. */
TP_DEF tp_node *tp_concat(tp_node *const *xs, int n, int axis);
TP_DEF tp_node *tp_split(tp_node *x, int n, int axis, tp_node **out);
TP_DEF tp_node *tp_stack(tp_node *const *xs, int n, int axis);
TP_DEF tp_node *tp_unstack(tp_node *x, int axis, int n, tp_node **out);
TP_DEF tp_node *tp_reverse(tp_node *x, const int *axes, int n_axes); /* flips x along these axes; n_axes 0: along all */
/* Cuts a box out of x. begin and size: one entry per dimension; size -1: to the end, -1 - k: without the last k, also where the
 * dimension is unknown (in Python x[begin:-k]). */
TP_DEF tp_node *tp_slice(tp_node *x, const int64_t *begin, const int64_t *size);
typedef enum { TP_PAD_CONSTANT = 0, TP_PAD_REFLECT, TP_PAD_SYMMETRIC } tp_pad_mode;
TP_DEF tp_node *tp_pad(tp_node *x, const int64_t *before, const int64_t *after, int mode, float value);
TP_DEF tp_node *tp_tile(tp_node *x, const int64_t *multiples);
TP_DEF tp_node *tp_gather(tp_node *params, tp_node *indices); /* picks rows of axis 0; an index outside fails the run */
/* `on` at each index along a new last axis of `depth`, else `off`; an index outside gives a row of `off` */
TP_DEF tp_node *tp_one_hot(tp_node *indices, int64_t depth, float on, float off);
/* Macros that take a list of arguments instead of an array: tp_concat_along(1, a, b, c); tp_mean_over(x, 1, 2), whose result
 * lacks axes 1 and 2. */
#ifdef TP_KEYWORDS
#define tp_reshape(x, ...)          tp_reshape_to((x), tp_make_shape(__VA_ARGS__))
#define tp_concat_along(axis_, ...) tp_concat(TP__NODES(__VA_ARGS__), (axis_))
#define tp_stack_along(axis_, ...)  tp_stack(TP__NODES(__VA_ARGS__), (axis_))
#define tp_add_all(...)             tp_add_n(TP__NODES(__VA_ARGS__))
#define tp_sum_over(x_, ...)        tp_reduce_sum((x_), TP__INTS(__VA_ARGS__), false)
#define tp_mean_over(x_, ...)       tp_reduce_mean((x_), TP__INTS(__VA_ARGS__), false)
#define tp_max_over(x_, ...)        tp_reduce_max((x_), TP__INTS(__VA_ARGS__), false)
#define tp_min_over(x_, ...)        tp_reduce_min((x_), TP__INTS(__VA_ARGS__), false)
#define tp_prod_over(x_, ...)       tp_reduce_prod((x_), TP__INTS(__VA_ARGS__), false)
#define tp_permute(x_, ...)         tp_transpose((x_), TP__INTS(__VA_ARGS__))
#endif

/* -- random: new numbers each run, a function of (graph seed, op name, random step, index) */
TP_DEF tp_node *tp_rand_uniform(tp_graph *g, tp_shape shape, float low, float high);
TP_DEF tp_node *tp_rand_normal(tp_graph *g, tp_shape shape, float mean, float stddev);
TP_DEF tp_node *tp_rand_truncated_normal(tp_graph *g, tp_shape shape, float mean, float stddev);
TP_DEF tp_node *tp_rand_uniform_like(tp_node *x, float low, float high);
TP_DEF tp_node *tp_rand_normal_like(tp_node *x, float mean, float stddev);

/* -- state. `pred` (scalar bool; NULL: true) tells at run time whether the variable is written. The output is its new value. */
TP_DEF tp_node *tp_assign(tp_node *var, tp_node *value, tp_node *pred);
TP_DEF tp_node *tp_assign_add(tp_node *var, tp_node *value, tp_node *pred);
TP_DEF tp_node *tp_assign_sub(tp_node *var, tp_node *value, tp_node *pred);
TP_DEF tp_node *tp_read_after(tp_node *var, tp_node *after); /* the variable's value once `after` has run */
/* moving average: var = var - (1-decay)*(var - value); decay is from 0 to 1 */
TP_DEF tp_node *tp_assign_moving_average(tp_node *var, tp_node *value, float decay, tp_node *pred);

/* -- optimizer steps: one op for all variables of a group; vars[i] is written with grads[i] (n of each). lr is a scalar
 * node. They return an effect-only node. Slots are variable nodes of the same shapes. */
TP_DEF tp_node *tp_apply_gradient_descent(tp_node *const *vars, tp_node *const *grads, int n, tp_node *lr,
                                          tp_node *pred);
/* Momentum: a = mu*a + g; w -= lr*a, or with nesterov w -= lr*(g + mu*a) */
TP_DEF tp_node *tp_apply_momentum(tp_node *const *vars, tp_node *const *accums, tp_node *const *grads, int n,
                                  tp_node *lr, float momentum, bool nesterov, tp_node *pred);
/* Adam: lr_t = lr*sqrt(1-beta2_power)/(1-beta1_power); m, v averages; w -= lr_t*m/(sqrt(v)+epsilon) */
TP_DEF tp_node *tp_apply_adam(tp_node *const *vars, tp_node *const *ms, tp_node *const *vs, tp_node *const *grads,
                              int n, tp_node *lr, tp_node *beta1_power, tp_node *beta2_power, float beta1, float beta2,
                              float epsilon, tp_node *pred);
/* AdamW: first w -= lr*decay*w, then as tp_apply_adam. */
TP_DEF tp_node *tp_apply_adamw(tp_node *const *vars, tp_node *const *ms, tp_node *const *vs, tp_node *const *grads,
                               int n, tp_node *lr, tp_node *beta1_power, tp_node *beta2_power, float beta1, float beta2,
                               float epsilon, float decay, tp_node *pred);
/* RMSProp: ms = decay*ms + (1-decay)*g*g; mom = momentum*mom + lr*g/sqrt(ms+epsilon); w -= mom. mgs not NULL
 * (centered): mg = decay*mg + (1-decay)*g, and the root is that of ms - mg*mg + epsilon. */
TP_DEF tp_node *tp_apply_rmsprop(tp_node *const *vars, tp_node *const *ms, tp_node *const *moms, tp_node *const *mgs,
                                 tp_node *const *grads, int n, tp_node *lr, float decay, float momentum, float epsilon,
                                 tp_node *pred);
/* Adagrad: a += g*g; w -= lr*g/sqrt(a) */
TP_DEF tp_node *tp_apply_adagrad(tp_node *const *vars, tp_node *const *accums, tp_node *const *grads, int n,
                                 tp_node *lr, tp_node *pred);
/* Adadelta: a = rho*a + (1-rho)*g*g; d = g*sqrt(u+epsilon)/sqrt(a+epsilon); u = rho*u + (1-rho)*d*d; w -= lr*d */
TP_DEF tp_node *tp_apply_adadelta(tp_node *const *vars, tp_node *const *accums, tp_node *const *updates,
                                  tp_node *const *grads, int n, tp_node *lr, float rho, float epsilon, tp_node *pred);
/* FTRL, with p(x) = x^-lr_power: a' = a + g*g; l += g + 2*shrinkage*w - (p(a') - p(a))/lr*w; a = a'; w = |l| > l1 ?
 * (l1*sign(l) - l) / (p(a)/lr + 2*l2) : 0. */
TP_DEF tp_node *tp_apply_ftrl(tp_node *const *vars, tp_node *const *accums, tp_node *const *linears,
                              tp_node *const *grads, int n, tp_node *lr, float lr_power, float l1, float l2,
                              float shrinkage, tp_node *pred);
/* LAMB: m, v averages; r = m/(1-beta1_power) / (sqrt(v/(1-beta2_power)) + epsilon) + decay*w; w -= lr*|w|/|r|*r, where
 * |w|/|r| is 1 if either norm is 0. The norms are computed for each variable by itself. */
TP_DEF tp_node *tp_apply_lamb(tp_node *const *vars, tp_node *const *ms, tp_node *const *vs, tp_node *const *grads,
                              int n, tp_node *lr, tp_node *beta1_power, tp_node *beta2_power, float beta1, float beta2,
                              float epsilon, float decay, tp_node *pred);

/* ==== >>summaries ===================================================================================== */

typedef enum {
    TP_SUMMARY_SCALAR = 1,
    TP_SUMMARY_HISTOGRAM = 2,
    TP_SUMMARY_IMAGE = 4,
    TP_SUMMARY_SPARSITY = 8,
    TP_SUMMARY_MEAN = 16,
    TP_SUMMARY_RMS = 32
} tp_summary_type;
/* The output of a summary node is its input; the node has a tag and a kind (scalar, histogram or image). The callback
 * MergeAllSummaries fetches the nodes of the collection TP_KEY_SUMMARIES and gives their values to the monitors. */
typedef struct tp_summary_attrs {
    const char *tag;
    int kind; /* the kind: TP_SUMMARY_SCALAR, _HISTOGRAM or _IMAGE */
} tp_summary_attrs;
/* tag and kind of a summary node; NULL if n is no summary */
TP_DEF const tp_summary_attrs *tp_summary_info(const tp_node *n);
/* Adds summaries of x: tp_add_tensor_summary(x, TP_SUMMARY_MEAN | TP_SUMMARY_RMS, .name = "x"). Tags: <name>-summary, -histogram,
 * -sparsity, -mean, -rms, after the name scope: a/<name>-rms; a tag that exists already gets the suffix _1, _2, ... As in tensorpack
 * the default name has the scope in it in which x was made: a/a/x-rms, if you are still in that scope; give .name = "x" there. Monitors
 * remove towerN/ and a suffix -summary from tags. What towers but the main one add to TP_KEY_SUMMARIES is removed when the tower ends;
 * what they add to your own collections is kept. [tfutils: add_tensor_summary] */
#define TP_NO_COLLECTION ""
typedef struct tp_tensor_summary_desc {
    tp_at at_;
    int types;        /* kinds of summaries: a sum of tp_summary_type */
    const char *name; /* the beginning of the tags; default: the op's name */
    const char
        *collection; /* the collection that gets the summaries; default TP_KEY_SUMMARIES; TP_NO_COLLECTION: none */
    /* whether only the main training tower adds summaries (default TP_YES); TP_NO: all towers do */
    int main_tower_only;
    const char *const *collections; /* instead of `collection`: several collections; the list ends with NULL */
} tp_tensor_summary_desc;
TP_DEF void tp_add_tensor_summary_(tp_node *x, const tp_tensor_summary_desc *d);
TP_DEF void tp_add_tensor_summary(tp_node *x, int types, const char *name, const char *collection);
/* Summaries of an activation under activation-summary/: types is a sum of tp_summary_type; 0: sparsity, rms and histogram. A
 * scalar gets a warning and no summary. [tfutils: add_activation_summary] */
TP_DEF void tp_add_activation_summary(tp_node *x, int types, const char *name, const char *collection);
typedef struct tp_moving_summary_desc {
    float decay; /* the average's decay, at least 0 and less than 1; default 0.95; write TP_ZERO for 0 */
    /* gets the returned nodes; default TP_KEY_MOVING_SUMMARY_OPS; TP_NO_COLLECTION: run them yourself */
    const char *collection;
    const char
        *summary_collection; /* gets the summaries of the averages; default TP_KEY_SUMMARIES; TP_NO_COLLECTION: none */
    /* several collections for the summaries instead of one; the list ends with NULL */
    const char *const *summary_collections;
} tp_moving_summary_desc;
/* Zero-debiased moving average of scalars, in local variables EMA/<name>. Returns n nodes; running one updates its average with
 * the current value. Returns NULL in a tower that is not the main one, in a variable scope with reuse, and after a mistake. The
 * array is freed with the graph. [tfutils: add_moving_summary] */
TP_DEF tp_node *const *tp_add_moving_summary_n(tp_node *const *scalars, int n, const tp_moving_summary_desc *d);
/* Adds summaries for each trainable variable whose name matches the regex (>>regex), with `$` appended, from the start; NULL: all.
 * A regex that matches none gets a warning. For several pairs of regex and types, call it once per pair. [tfutils:
 * add_param_summary] */
typedef struct tp_param_summary_desc {
    tp_at at_;
    const char *regex;
    int types;                      /* kinds of summaries: a sum of tp_summary_type */
    const char *collection;         /* gets the summaries; default TP_KEY_SUMMARIES; TP_NO_COLLECTION: none */
    const char *const *collections; /* instead of `collection`: several collections; the list ends with NULL */
} tp_param_summary_desc;
TP_DEF void tp_add_param_summary_(tp_graph *g, const tp_param_summary_desc *d);
TP_DEF void tp_add_param_summary(tp_graph *g, const char *regex, int types);
/* clang-format off */
#ifndef __cplusplus
#define tp_add_tensor_summary(x_, ...) tp_add_tensor_summary_(x_, TP__OPTIONS(graph, tp_tensor_summary_desc, #__VA_ARGS__, __VA_ARGS__))
#define tp_add_param_summary(g_, ...)  tp_add_param_summary_(g_, TP__OPTIONS(graph, tp_param_summary_desc, #__VA_ARGS__, __VA_ARGS__))
#define TP__INTS(...)  (const int[]){__VA_ARGS__}, (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int))
#define TP__NODES(...) (tp_node *const[]){__VA_ARGS__}, (int)(sizeof((tp_node *const[]){__VA_ARGS__}) / sizeof(tp_node *))
#elif __cplusplus >= 202002L
#define tp_add_tensor_summary(x_, types_, ...) \
    tp_add_tensor_summary_(x_, TP__CXX(graph, tp_tensor_summary_desc, 1, TP__WITH(tp_tensor_summary_desc, types, types_), #types_ ", " #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__))
#define tp_add_param_summary(g_, regex_, ...) \
    tp_add_param_summary_(g_, TP__CXX(graph, tp_param_summary_desc, 1, TP__WITH(tp_param_summary_desc, regex, regex_), #regex_ ", " #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__))
#define TP__INTS(...)  TP__LIST(int, __VA_ARGS__)
#define TP__NODES(...) TP__LIST(tp_node *, __VA_ARGS__)
#endif
#ifdef TP_KEYWORDS
#define TP__BARE(...) __VA_ARGS__
/* tp_add_moving_summary(cost, error), or with options: tp_add_moving_summary_with((.decay = 0.9f), cost, error) */
#define tp_add_moving_summary(...) tp_add_moving_summary_n(TP__NODES(__VA_ARGS__), NULL)
#define tp_add_moving_summary_with(options_, ...) tp_add_moving_summary_n(TP__NODES(__VA_ARGS__), TP_OPTIONS(tp_moving_summary_desc, TP__BARE options_))
#endif
/* clang-format on */
/* ==== >>regex ========================================================================================= */

/* Regular expressions with the syntax and the results of Python's re (3.11) for str: literals, . ^ $ | * + ? {m,n}, lazy with a
 * ? after them and possessive with a +, sets, \d \w \s \D \W \S \b \B \A \Z, (...) (?:...) (?P<name>...) (?>...), (?=...) (?!...)
 * (?<=...) (?<!...), (?#...), flags i m s x a u as (?i) at the start or (?i-s:...), escapes. Patterns and texts are UTF-8.
 * Differences from Python: back references, conditions and \N are mistakes; the flag i works for ASCII and Latin-1 only; beyond
 * Latin-1 \w matches all characters but spaces, punctuation and symbols; \d matches 0 to 9 only. Time and memory grow with
 * pattern length times text length; lookarounds can multiply that: after 20 million steps the search ends with TP_ERR_ARG.
 *
 * Compiles a pattern; the caller owns *re and frees it with tp_regex_free. Errors: TP_ERR_ARG with the place of a mistake in the
 * pattern; TP_ERR_NOMEM. */
typedef struct tp_regex tp_regex;
TP_DEF tp_status tp_regex_new(const char *pattern, tp_regex **re);
TP_DEF void tp_regex_free(tp_regex *re);
/* number of groups, not counting group 0, the whole match */
TP_DEF int tp_regex_n_groups(const tp_regex *re);
TP_DEF int tp_regex_group(const tp_regex *re, const char *name); /* the number of the group (?P<name>...), or -1 */
typedef struct tp_span {
    int64_t begin, end; /* a match as byte offsets in the text; -1, -1 for a group that did not match */
} tp_span;
/* *found: whether there is a match anywhere (search), at the start (match), of the whole text (fullmatch). If there is one,
 * spans[0] is the whole match, spans[1] group 1, and so on for n_spans entries; spans may be NULL with n_spans 0. One regex may
 * be used by many threads. [re.search, re.match, re.fullmatch] */
TP_DEF tp_status tp_regex_search(const tp_regex *re, const char *text, bool *found, tp_span *spans, int n_spans);
TP_DEF tp_status tp_regex_match(const tp_regex *re, const char *text, bool *found, tp_span *spans, int n_spans);
TP_DEF tp_status tp_regex_fullmatch(const tp_regex *re, const char *text, bool *found, tp_span *spans, int n_spans);

/* ==== >>session ======================================================================================= */

typedef struct tp_session_config {
    /* number of threads; default: one per processor. One seed gives the same bits for any number of threads. */
    int threads;
    const char *isa; /* name of the CPU's instruction set; NULL: the best; see tp_cpu_device_new */
    /* The devices 0, 1, ... of tp_device_enter: borrowed; they may be closed before or after the session is freed. NULL: none */
    tp_device *const *devices;
    int n_devices;
    /* CPU devices that the session creates, numbered after .devices: each has its own memory, and they share `threads`.
     * 0: one if .devices is NULL, else none */
    int n_cpu_devices;
    bool no_fusion;         /* runs op by op without fusion, for debugging; the bits are the same */
    tp_precision precision; /* which number formats products may use: a tp_precision */
    /* The fraction of a GPU's memory that all sessions on it may use together: at most 1; default 0.99. If sessions differ, the
     * smallest counts until the GPU is closed. NCCL's and cuDNN's own memory is not counted. [per_process_gpu_memory_fraction] */
    float memory_fraction;
    /* true: NCCL computes tp_all_reduce of values on different GPUs, which needs less memory and, if the GPUs are linked, less
     * time. The order in which NCCL adds depends on the number of GPUs and on their links, so the result has the same bits each
     * time on one machine, but not the same as on other devices. false: the values are added in the order of the inputs, with the
     * same bits on all machines */
    bool nccl_all_reduce;
} tp_session_config;
/* Default configurations, whose fields you may change. memory_fraction is mem_fraction (0 = 0.99) in the first, 0.99 in the
 * second. [tfutils: get_default_sess_config] */
TP_DEF tp_session_config tp_get_default_sess_config(float mem_fraction);
TP_DEF tp_session_config tp_default_session_config(void);

/* A session owns the values of the graph's variables. The variables that the graph has get their initial values when the session
 * is created; variables added later get them at the next run. NULL on failure, also if the graph has a mistake. */
TP_DEF tp_session *tp_session_new(tp_graph *g, const tp_session_config *c);
TP_DEF void tp_session_free(tp_session *s);
TP_DEF tp_graph *tp_session_graph(const tp_session *s);
TP_DEF tp_device *tp_session_device(const tp_session *s, int i);

/* A value for a node. It is in host memory or (value.device, see tp_tensor) on a device of the session: on the device that reads
 * the node no upload is needed; from another device it is copied. A run does not change it. For a tensor t that is there:
 * tp_feed feed = {x, t}, which borrows t's data. */
typedef struct tp_feed {
    tp_node *node;
    tp_tensor value;
} tp_feed;
/* A feed that borrows data: an array of the given type and shape, in host memory, which must stay valid during the runs that get
 * the feed. tp_feed feeds[] = {TP_FEED(x, TP_F32, pixels, 8, 28, 28), TP_FEED(y, TP_I32, labels, 8)}: the dimensions come last; a
 * scalar has none, TP_FEED(rate, TP_F32, &value). */
TP_DEF tp_feed tp_make_feed(tp_node *node, tp_dtype dtype, tp_shape shape, const void *data);
#ifdef TP_KEYWORDS
#define TP_FEED(node_, dtype_, ...)                                                                       \
    TP__SPEC_PICK(__VA_ARGS__, TP__FEED_DIMS, TP__FEED_DIMS, TP__FEED_DIMS, TP__FEED_DIMS, TP__FEED_DIMS, \
                  TP__FEED_DIMS, TP__FEED_DIMS, TP__FEED_DIMS, TP__FEED_SCALAR, 0)                        \
    (node_, dtype_, __VA_ARGS__)
#define TP__FEED_SCALAR(node_, dtype_, data_)    tp_make_feed(node_, dtype_, tp_make_shape(), data_)
#define TP__FEED_DIMS(node_, dtype_, data_, ...) tp_make_feed(node_, dtype_, tp_make_shape(__VA_ARGS__), data_)
#endif
/* Run the operations that the fetches need. Any node may be fed. values[i] points to memory of the session, valid until the next
 * run of the same exec (here: the session's own exec). values may be NULL. */
TP_DEF tp_status tp_session_run(tp_session *s, const tp_feed *feeds, int n_feeds, tp_node *const *fetches,
                                int n_fetches, const tp_tensor **values);
/* -- traces: what a run did, and when */

typedef enum tp_trace_kind {
    TP_TRACE_HOOKS = 1, /* before_run of a hooked session's hooks, including reading data and waiting for it */
    TP_TRACE_PLAN,      /* finding the plan, or making it in the first run of these fetches and shapes */
    TP_TRACE_FEED,      /* time spent copying the fed values to the devices */
    TP_TRACE_KERNEL,    /* a kernel, on the running thread and the threads of the device's pool */
    TP_TRACE_COPY,      /* time spent copying a value to another device */
    TP_TRACE_FETCH,     /* copying the fetched values back, and waiting for the devices */
    TP_TRACE_WORK,      /* the part of a kernel that a thread of the device's pool did */
    TP_TRACE_IDLE       /* time in which a thread of a device's pool did nothing for this run */
} tp_trace_kind;
/* Times are nanoseconds of the clock of tp_time; the trace owns the texts. name: for KERNEL and WORK the op ("conv2d"; "fused" is
 * a chain of element-wise ops), else the kind as a word. node and device: for KERNEL, COPY and WORK the operation
 * ("conv0/Conv2D") and the device ("cpu:0"), else "". bytes: for KERNEL the bytes read and written, computed from the shapes of
 * the operands; for COPY, FEED and FETCH the bytes copied; else 0. flops: for KERNEL, by its op's formula, as in tp_plan_info;
 * else 0. */
typedef struct tp_trace_record {
    tp_trace_kind kind;
    int thread;  /* number of the thread: 0 called the run, from 1 on those of its devices' pools */
    int64_t run; /* number of the run in this trace, from 0 */
    const char *name, *node, *device;
    int64_t start, end;
    double bytes, flops;
} tp_trace_record;
/* The records of traced runs, in order: zero-initialise the struct, read it, free it with tp_trace_free. One thread may use it at
 * a time. After a run the trace needs neither session nor graph. The records of one thread and run follow each other without gaps
 * or overlap, those of thread 0 in the order of the plan, so their durations add up to the run's wall time: from its beginning
 * until tp_session_run returns, or until the first after_run is called. A run that fails keeps the records of what it did. */
typedef struct tp_trace {
    tp_trace_record *record;
    int64_t n, cap;
    int64_t n_run;
    int64_t lost; /* number of records that were dropped because memory ran out */
    const char **name_;
    int64_t n_name_, cap_name_;
    tp_arena mem_;
} tp_trace;
TP_DEF void tp_trace_free(tp_trace *t); /* frees the records; *t is empty then. NULL is fine */
/* Writes Chrome's trace format, for chrome://tracing and Perfetto: {"traceEvents": [...]}, one event (ph "X") per record; records
 * TP_TRACE_IDLE are left out and appear as gaps; ts and dur in microseconds, one process per device, bytes and FLOPs in args. The
 * file is written whole or not at all. */
TP_DEF tp_status tp_trace_save(const tp_trace *t, const char *path);

/* Options of one run. A zeroed struct sets none. */
typedef struct tp_run_options {
    /* Records of this run are added to this trace. The run then waits for each kernel, and does not replay a GPU's recording
     * but launches each kernel, so that each kernel has its own times (launch included); the run is slower, with the same bits. */
    tp_trace *trace;
    /* The run's time limit in milliseconds; 0: none. A run that exceeds it stops as a cancelled run does, with TP_ERR_TIMEOUT. */
    int64_t timeout_ms;
} tp_run_options;
/* The same as tp_session_run, with options (NULL: none). */
TP_DEF tp_status tp_session_run_ex(tp_session *s, const tp_run_options *o, const tp_feed *feeds, int n_feeds,
                                   tp_node *const *fetches, int n_fetches, const tp_tensor **values);
/* Cancels the current runs of all execs of the session: they end with TP_ERR_CANCELLED and a sentence. Any thread may call it
 * until the session is freed. Returns the number of these runs; later runs are not cancelled. A run checks for cancellation and
 * for its time limit while an input waits for data (data read by then is fed to the next run) and before each kernel, up to the
 * first kernel that writes a variable; from there the run goes on and ends normally. So a run that is cancelled or out of time
 * has changed neither a variable nor the random step: the next run gives the same bits as if there had been none. These are not
 * interrupted: a kernel, the making of a plan, a replay on a GPU, a dataflow or generator that a FeedInput reads. The session
 * stays usable. Other ranks of a collective op are not cancelled: cancel them, too. */
TP_DEF int tp_session_cancel(tp_session *s);
/* Runs one fetch without feeds, and copies it to the caller's tensor. */
TP_DEF tp_status tp_session_eval(tp_session *s, tp_node *fetch, tp_tensor *value);
/* For debugging while the graph is being built: computes x from the variables' initial values and the feeds, and copies it to
 * *value; value NULL: logs its shape and first elements. Each call makes a new session on the CPU, which is slow. */
TP_DEF tp_status tp_eval_now(tp_node *x, const tp_feed *feeds, int n_feeds, tp_tensor *value);
/* Tests the gradient of y, for ops and layers of your own: a weighted sum of y's elements is differentiated by each floating feed,
 * and each element of these gradients is compared with a central difference. Feed float64, if your op has naive_f64, and values
 * that are no kinks (0 for relu). TP_ERR_NUMERIC and a sentence: some element differs by more than tolerance * max(1, |gradient|);
 * tolerance 0: 1e-6, with float32 feeds 0.02. *worst (NULL: not asked for): the largest such difference. Random ops give the same
 * numbers in each run. Like tp_eval_now it makes a session of its own; it adds nodes to the graph. */
TP_DEF tp_status tp_check_gradients(tp_node *y, const tp_feed *feeds, int n_feeds, double tolerance, double *worst);
/* Read and set the current value of a variable; load converts float dtypes, shapes must be equal. */
TP_DEF tp_status tp_session_read(tp_session *s, const tp_variable *v, tp_tensor *value);
TP_DEF tp_status tp_session_load(tp_session *s, const tp_variable *v, const tp_tensor *value);
/* number of elements of a variable; 0 if there is no such variable */
TP_DEF int64_t tp_get_global_step_value(tp_session *s);
/* Named state that checkpoints store with the variables ("tp:" keys): random step, stream position, state of callbacks. */
TP_DEF tp_dict *tp_session_state(tp_session *s);

/* An exec owns an arena, compiled plans and a random step; one thread may use it at a time. Several execs share a session's
 * variables (inference beside training, predictors on threads). A run beside a training step may read some variables before and
 * some after their update, or half of one; the thread sanitizer reports that. On one GPU runs take turns.
 * Each set of fetches and of shapes of the feeds has a plan of its own. An exec keeps 32 plans, and those used least recently make room
 * for new ones; of a session whose variables no run writes, 4 of them keep packed weights. So feed few shapes: pad batches to a few sizes. */
TP_DEF tp_exec *tp_exec_new(tp_session *s);
TP_DEF void tp_exec_free(tp_exec *e);
TP_DEF tp_exec *tp_session_exec(tp_session *s); /* the session's own exec, made at first use and freed with it */
TP_DEF tp_status tp_exec_run(tp_exec *e, const tp_feed *feeds, int n_feeds, tp_node *const *fetches, int n_fetches,
                             const tp_tensor **values);
TP_DEF tp_status tp_exec_run_ex(tp_exec *e, const tp_run_options *o, const tp_feed *feeds, int n_feeds,
                                tp_node *const *fetches, int n_fetches, const tp_tensor **values);
TP_DEF uint64_t tp_exec_random_step(const tp_exec *e); /* the random step, which rises by one in each run */
TP_DEF void tp_exec_set_random_step(tp_exec *e, uint64_t step);
/* Prints the plan of these fetches, which must have been run once; fetches NULL and n_fetches 0: of the last run, for a training
 * the step that a callback's trigger_step sees with tp_hooked_session_exec(t->state.hooked_session). For each kernel: its output,
 * bytes, FLOPs, milliseconds if timed, its node and, in brackets, the rules that fused other ops into it; then the size of the
 * arena. */
TP_DEF tp_status tp_exec_print_plan(tp_exec *e, tp_node *const *fetches, int n_fetches, tp_buf *out);
TP_DEF void tp_exec_set_timing(tp_exec *e, bool on); /* from now on, measures the time of each kernel */
typedef struct tp_plan_info {
    /* numbers of kernels, of element-wise ops inside fused kernels, of ops folded to constants */
    int n_steps, n_fused, n_folded;
    int n_copies; /* number of steps that copy a value to another device */
    /* each run replays one recording of a GPU, or several with host ops between them */
    bool recorded;
    /* bytes of the arenas of all devices; of constants, and of packed weights that a plan without updates keeps for its next runs */
    size_t arena_bytes, constant_bytes;
    double flops, bytes;
} tp_plan_info;
TP_DEF tp_status tp_exec_plan_info(tp_exec *e, tp_node *const *fetches, int n_fetches, tp_plan_info *info);

/* ==== >>hooks ========================================================================================= */
/* A hook takes part in each run: it adds fetches before the run, and gets their values after it. [callbacks: SessionRunHook] */

typedef struct tp_run_request tp_run_request;
/* adds a fetch; returns the index of its value in tp_run_values, or -1 and an error sentence */
TP_DEF int tp_request_fetch(tp_run_request *r, tp_node *n);
/* feeds a value, which is borrowed until the run has ended */
TP_DEF tp_status tp_request_feed(tp_run_request *r, tp_node *n, const tp_tensor *value);
/* Traces this run, before_run of all hooks included. The hook reads the trace in its after_run. A run has at most one trace: a
 * second request fails. */
TP_DEF tp_status tp_request_trace(tp_run_request *r, tp_trace *trace);
/* For inputs that feed several towers: the number n of datapoints of this run, for the first n towers; 0: one for each tower.
 * See tp_hooked_session_set_datapoints. */
TP_DEF int tp_request_datapoints(const tp_run_request *r);
/* For inputs that wait in before_run: as tp_cond_wait (the mutex must be locked), but it ends when the run is cancelled or out of
 * time. TP_OK: check your condition again, because of a signal or after a short time. TP_ERR_CANCELLED, TP_ERR_TIMEOUT: return it;
 * the sentence ends with `what`, for example "QueueInput waited for data". */
TP_DEF tp_status tp_request_wait(tp_run_request *r, tp_cond *c, tp_mutex *m, const char *what);
typedef struct tp_run_values {
    const tp_tensor *const *value; /* the values of this hook's fetches, in the order in which it requested them */
    int n;
} tp_run_values;
typedef struct tp_hook {
    const char *name;
    void *user;
    tp_status (*begin)(struct tp_hook *h, tp_graph *g); /* called before the session is made; the hook may add nodes */
    tp_status (*after_create_session)(struct tp_hook *h, tp_session *s);
    tp_status (*before_run)(struct tp_hook *h, tp_run_request *r);
    tp_status (*after_run)(struct tp_hook *h, const tp_run_values *v);
    void (*end)(struct tp_hook *h, tp_session *s);
    void (*free)(struct tp_hook *h);
} tp_hook;
typedef struct tp_hooked_session tp_hooked_session;
/* A hooked session has its own exec. The hooks are borrowed. */
TP_DEF tp_hooked_session *tp_hooked_session_new(tp_session *s, tp_hook *const *hooks, int n_hooks);
TP_DEF void tp_hooked_session_free(tp_hooked_session *h);
TP_DEF tp_exec *tp_hooked_session_exec(tp_hooked_session *h);
/* Sets the time limit of later runs, before_run of their hooks included, as tp_run_options.timeout_ms; 0: none.
 * [callbacks: SessionRunTimeout] */
TP_DEF void tp_hooked_session_set_timeout(tp_hooked_session *h, int64_t timeout_ms);
/* For an input that feeds several towers: later runs take n datapoints, for the first n towers, and the fetches must not need
 * other towers; 0: one for each tower. So 7 datapoints on 3 towers are two runs of 3, and one run of 1. */
TP_DEF void tp_hooked_session_set_datapoints(tp_hooked_session *h, int n);
TP_DEF void tp_hooked_session_request_stop(tp_hooked_session *h);
TP_DEF bool tp_hooked_session_should_stop(const tp_hooked_session *h);
/* Calls before_run of all hooks in order, runs the caller's and the hooks' fetches in one run, calls all after_run in order. */
TP_DEF tp_status tp_hooked_run(tp_hooked_session *h, tp_node *const *fetches, int n_fetches, const tp_tensor **values);

/* Makes the session of a trainer. [tfutils: sesscreate] */
typedef struct tp_session_creator {
    tp_session *(*create)(struct tp_session_creator *c, tp_graph *g);
    tp_session_config config;
    void *user;
    bool borrowed; /* the session that create returns has another owner: the caller of create does not free it */
} tp_session_creator;
TP_DEF tp_session_creator tp_new_session_creator(const tp_session_config *config);
/* You keep the ownership of s: trainers and predictors that use it do not free it, and may be freed before or after it. They
 * must use the graph of s. */
TP_DEF tp_session_creator tp_reuse_session_creator(tp_session *s);
/* Passes the session of the creator `inner` to fn, which returns the session to use. After a mistake fn returns NULL and frees
 * the session that it got, unless inner.borrowed. The result is borrowed if inner is. The caller owns *a and keeps it as long
 * as the creator is used. [SessionCreatorAdapter] */
typedef struct tp_session_adapter {
    tp_session_creator inner;
    tp_session *(*fn)(tp_session *s, void *user);
    void *user;
} tp_session_adapter;
TP_DEF tp_session_creator tp_session_creator_adapter(tp_session_adapter *a);

/* ==== >>checkpoints =================================================================================== */

/* Restores variables after they were initialised. A trainer, a predictor or a chain that gets one takes it over: it calls `run`,
 * and `free` at the latest when it is freed itself. NULL is allowed everywhere: nothing is restored. [tfutils: sessinit] */
typedef struct tp_session_init {
    /* Called once, before the session is made: may add operations and variables to the graph. NULL: adds nothing. */
    tp_status (*setup_graph)(struct tp_session_init *i, tp_graph *g);
    tp_status (*run)(struct tp_session_init *i, tp_session *s);
    void (*free)(struct tp_session_init *i);
    void *user;
    tp_owner owner_;
} tp_session_init;
/* For your own session: calls setup_graph, then run. i NULL is fine; i is not freed. For a checkpoint: tp_restore_checkpoint.
 * [SessionInit.init] */
TP_DEF tp_status tp_session_init_run(tp_session_init *i, tp_session *s);
TP_DEF void tp_session_init_free(tp_session_init *i);
/* The format of a checkpoint follows from the end of its name: npz, safetensors or TensorFlow (V2). */
typedef enum tp_checkpoint_format {
    TP_CHECKPOINT_NPZ,        /* <name>.npz, the default */
    TP_CHECKPOINT_TF,         /* <name>.index and <name>.data-00000-of-00001, which tf.train.load_checkpoint reads */
    TP_CHECKPOINT_SAFETENSORS /* <name>.safetensors */
} tp_checkpoint_format;
/* path: model-N.npz, model-N.safetensors, model-N.index; or model-N (the newest of these files); or the text file `checkpoint` or
 * its folder (the latest checkpoint). Names that only the graph or only the checkpoint has get one line of warning; of slots of the
 * optimizer only the number is told. A checkpoint without any of the model's weights is an error, but for .relaxed. All is checked
 * before the first variable is loaded: a restore that is refused leaves the session's values as they were. prefix (or NULL) is
 * removed from the graph's names that begin with it; names without it are looked up as they are. Write it without the '/' that follows
 * it. ignore: names of the n_ignore variables not to load. All others are loaded, also learning_rate and global_step: ignore these two
 * to train anew from the weights of another model. An Adam, AdamW or LAMB of which an average or a power of beta is not restored, as for
 * a new layer, begins anew: none of its averages is restored, nor are its powers. If the checkpoint cannot be read, the sentence of the
 * error names the newest older one in the folder that can. */
typedef struct tp_saver_restore_desc {
    const char *path;
    const char *prefix;
    const char *const *ignore;
    int n_ignore;
    /* as tensorpack's SaverRestoreRelaxed: reshape and cast with a warning, skip values that do not fit. If nothing fits,
     * that is a warning, too */
    bool relaxed;
    /* a name that only the graph or only the checkpoint has is an error, TP_ERR_NAME, instead of a warning. Not
     * together with .relaxed */
    bool strict;
} tp_saver_restore_desc;
TP_DEF tp_session_init *tp_saver_restore_ex(const tp_saver_restore_desc *d);
TP_DEF tp_session_init *tp_saver_restore(const char *path);
/* takes over the content of the dict; ignore_mismatch is .relaxed of tp_saver_restore_desc */
TP_DEF tp_session_init *tp_dict_restore(tp_dict *d, bool ignore_mismatch);
/* takes over the initialisers of the list */
TP_DEF tp_session_init *tp_chain_init(tp_session_init *const *inits, int n);
TP_DEF tp_session_init *tp_just_current_session(void);
/* Restores a path: "" or NULL restores nothing; a .npz or .safetensors file is restored as a dict, any other path as a
 * checkpoint. "~" and "~/" at the beginning are replaced by $HOME ("~somebody" is not replaced). For a dict instead of a path:
 * tp_dict_restore or tp_smart_init_list. ignore_mismatch: .relaxed of tp_saver_restore_desc. [SmartInit] */
TP_DEF tp_session_init *tp_smart_init(const char *path, bool ignore_mismatch);
/* Restores n sources in order, so that a later one overwrites an earlier one. Each is a path as in tp_smart_init, or a
 * dict, whose content is taken over, or another list; a source with no field set restores nothing. [SmartInit of a dict
 * and of a list] */
typedef struct tp_smart_source {
    const char *path;
    tp_dict *dict;
    const struct tp_smart_source *list;
    int n; /* number of sources in the list */
} tp_smart_source;
TP_DEF tp_session_init *tp_smart_init_list(const tp_smart_source *list, int n, bool ignore_mismatch);

/* Write all variables of the collection TP_KEY_GLOBAL_VARIABLES (or the n of `variables`) and the session's state, names without
 * ":0". The end of path chooses the format: .safetensors, .index (with its data file beside it), else npz. The file is written
 * whole or not at all. */
TP_DEF tp_status tp_save_checkpoint(tp_session *s, const char *path, tp_variable *const *variables, int n);
/* Loads a checkpoint into a session of your own: tp_saver_restore, tp_session_init_run and tp_session_init_free in one call. path: as
 * for tp_saver_restore. */
TP_DEF tp_status tp_restore_checkpoint(tp_session *s, const char *path);
/* Write trainable and model variables only, compressed, keys with ":0", as tensorpack's tools do. [dump_session_params] */
TP_DEF tp_status tp_dump_session_params(tp_session *s, const char *path);
/* Loads a checkpoint into a dict. path: as for tp_saver_restore; removes ":0" from names. */
TP_DEF tp_status tp_load_checkpoint_vars(const char *path, tp_dict *d);
/* The end of path chooses the format: .npz (compressed), .safetensors, .index; any other name "x" is a TensorFlow checkpoint:
 * x.index and its data file. tp_dump_session_params chooses in the same way. [save_checkpoint_vars] */
TP_DEF tp_status tp_save_checkpoint_vars(const tp_dict *d, const char *path);
/* Writes the text file `checkpoint` of a directory: names relative to the directory, oldest first; the last is the latest. */
TP_DEF tp_status tp_checkpoint_state_write(const char *dir, const char *const *names, int n);
/* Finds the path of the latest checkpoint named in the text file `checkpoint`; TP_ERR_NAME if there is none. */
TP_DEF tp_status tp_checkpoint_state_latest(const char *dir, char *path, size_t size);
/* The checkpoints <prefix>-<step>.npz, .safetensors and .index of a directory, ascending by step; free *entries with tp_free.
 * dir NULL: ".", prefix NULL: "model". [get_all_checkpoints] */
typedef struct tp_checkpoint_entry {
    const char *path; /* the text is in the same block of memory as the entries */
    int64_t step;
} tp_checkpoint_entry;
TP_DEF tp_status tp_get_all_checkpoints(const char *dir, const char *prefix, tp_checkpoint_entry **entries, int *n);

/* ==== >>predict ======================================================================================= */

/* A predictor calls a graph as a function from tensors to tensors. Each predictor has its own plan and memory, so several
 * predictors may be used at once, each by one thread. [predict: PredictorBase] */
typedef struct tp_predictor tp_predictor;
/* A predictor for nodes of the graph of s, with the variables of s. Session and graph are borrowed, and may be freed before or
 * after the predictor. [OnlinePredictor] */
TP_DEF tp_predictor *tp_online_predictor(tp_session *s, tp_node *const *inputs, int n_inputs, tp_node *const *outputs,
                                         int n_outputs);
typedef struct tp_predict_config {
    const tp_spec *inputs; /* signature of build_graph. The fields inputs to user are as in tp_model */
    int n_inputs;
    tp_build_fn build_graph;
    void *user;
    const char *const
        *input_names; /* the fed nodes, by signature name or by the name of any node; NULL: the signature */
    int n_input_names;
    const char *const *output_names; /* the output nodes: "prob", "conv1/output"; at least one */
    int n_output_names;
    tp_session_init
        *session_init;      /* restores the variables; NULL: their initial values. Always taken over, and freed with
                                    * the predictor, so use it for one predictor only */
    const char *checkpoint; /* instead of session_init: a path for tp_smart_init, for any number of predictors */
    /* makes the session; NULL: a new session with default options. See tp_session_creator.borrowed */
    tp_session_creator *session_creator;
    bool allow_missing_variables; /* true: variables without a restored value keep their initial value; false: error */
    tp_graph *graph;   /* NULL: a new graph; else borrowed, and towers named tower-pred-<n> are added to it */
    tp_tri log_layers; /* TP_NO: do not log a line for each layer. Default TP_YES */
} tp_predict_config;
/* Builds the graph as a tower for inference and loads its variables. NULL after a mistake; tp_last_error() gives the sentence.
 * [PredictConfig, OfflinePredictor] */
TP_DEF tp_predictor *tp_offline_predictor(const tp_predict_config *c);
/* n offline predictors for n threads: the graph is built as towers tower0, tower1, ..., which share variables and a session.
 * Returns the predictor of tower 0. If the session has d devices, tower i runs on device i mod d; the variables are on device 0.
 * [MultiTowerOfflinePredictor] */
TP_DEF tp_predictor *tp_multi_tower_predictor(const tp_predict_config *c, int n);
/* The predictor of tower i, owned by p; for i >= n that of tower i mod n, with a warning. [get_predictor] */
TP_DEF tp_predictor *tp_predictor_tower(tp_predictor *p, int i);
/* For a predictor with one input and one output, else TP_ERR_ARG. The predictor owns *output, which is valid until the next
 * call. Each shape of the input has a plan, made in its first call; 32 are kept (tp_exec_new): pad batches to a few sizes. */
TP_DEF tp_status tp_predict(tp_predictor *p, const tp_tensor *input, const tp_tensor **output);
/* For any predictor: one tensor per input, one pointer per output. TP_ERR_ARG if n_inputs or n_outputs is another number. */
TP_DEF tp_status tp_predict_n(tp_predictor *p, const tp_tensor *inputs, int n_inputs, const tp_tensor **outputs,
                              int n_outputs);
/* For recurrent networks, step by step: from now on the value of input number `input` is output number `output` of the call
 * before, and zeros in the first call. The arrays of tp_predict_n then lack this input; the others keep their order. `input` is
 * always an index into the inputs of the config. If the first dimension of the input is unknown, it is the batch size of the
 * first given input. A call that fails changes no state. tp_predictor_reset sets the state to zeros. */
TP_DEF tp_status tp_predictor_carry(tp_predictor *p, int output, int input);
TP_DEF void tp_predictor_reset(tp_predictor *p);
/* number of inputs that the caller gives, without those that tp_predictor_carry carries over */
TP_DEF int tp_predictor_n_inputs(const tp_predictor *p);
TP_DEF int tp_predictor_n_outputs(const tp_predictor *p);
TP_DEF tp_session *tp_predictor_session(tp_predictor *p);
TP_DEF void tp_predictor_free(tp_predictor *p); /* frees a predictor; p may be NULL */

/* ==== >>places ======================================================================================== */
/* The place of an operation is the file and line of the user's call that added it: its `at`, with which error sentences begin. A
 * call of a builder expands to a macro around the function, which after the call gives file and line to all new operations and to
 * a new mistake of the graph; each argument is evaluated once. The name without a call (.activation = tp_relu) and (tp_relu)(x)
 * are the function itself: its nodes and mistakes get the place of the builder called next. The same holds for functions that
 * return neither a node nor the graph. All operations of a layer (tp_layers.h) have the layer's line; those that tp_gradients adds
 * have the place of the operation that they differentiate. Your own builder in a header gets its caller's line by such a macro. */
TP_DEF tp_node *tp__node_at(tp_node *n, const char *file, int line);
TP_DEF tp_graph *tp__graph_at(tp_graph *g, const char *file, int line);
#define TP__PLACE(at_, ...) at_(__VA_ARGS__, __FILE__, __LINE__)
/* replaces TP__PLACE while an implementation is compiled: calls get no place */
#define TP__UNPLACED(at_, ...) __VA_ARGS__
#define TP__PLACED             TP__PLACE
/* clang-format off */
#define tp_apply(...)                        TP__PLACED(tp__node_at, tp_apply(__VA_ARGS__))
#define tp_apply_ex(...)                     TP__PLACED(tp__node_at, tp_apply_ex(__VA_ARGS__))
#define tp_named(...)                        TP__PLACED(tp__node_at, tp_named(__VA_ARGS__))
#define tp_get_variable(...)                 TP__PLACED(tp__node_at, tp_get_variable(__VA_ARGS__))
#define tp_get_variable_as(...)              TP__PLACED(tp__node_at, tp_get_variable_as(__VA_ARGS__))
#define tp_get_scalar_variable(...)          TP__PLACED(tp__node_at, tp_get_scalar_variable(__VA_ARGS__))
#define tp_get_global_step_var(...)          TP__PLACED(tp__node_at, tp_get_global_step_var(__VA_ARGS__))
#define tp_tower_func_call(...)              TP__PLACED(tp__node_at, tp_tower_func_call(__VA_ARGS__))
#define tp_gradients(...)                    TP__PLACED(tp__node_at, tp_gradients(__VA_ARGS__))
#define tp_gradients_from(...)               TP__PLACED(tp__node_at, tp_gradients_from(__VA_ARGS__))
#define tp_placeholder(...)                  TP__PLACED(tp__node_at, tp_placeholder(__VA_ARGS__))
#define tp_constant(...)                     TP__PLACED(tp__node_at, tp_constant(__VA_ARGS__))
#define tp_const(...)                        TP__PLACED(tp__node_at, tp_const(__VA_ARGS__))
#define tp_const_as(...)                     TP__PLACED(tp__node_at, tp_const_as(__VA_ARGS__))
#define tp_fill_like(...)                    TP__PLACED(tp__node_at, tp_fill_like(__VA_ARGS__))
#define tp_zeros_like(...)                   TP__PLACED(tp__node_at, tp_zeros_like(__VA_ARGS__))
#define tp_ones_like(...)                    TP__PLACED(tp__node_at, tp_ones_like(__VA_ARGS__))
#define tp_identity(...)                     TP__PLACED(tp__node_at, tp_identity(__VA_ARGS__))
#define tp_stop_gradient(...)                TP__PLACED(tp__node_at, tp_stop_gradient(__VA_ARGS__))
#define tp_group(...)                        TP__PLACED(tp__node_at, tp_group(__VA_ARGS__))
#define tp_with_dependencies(...)            TP__PLACED(tp__node_at, tp_with_dependencies(__VA_ARGS__))
#define tp_print(...)                        TP__PLACED(tp__node_at, tp_print(__VA_ARGS__))
#define tp_check_numerics(...)               TP__PLACED(tp__node_at, tp_check_numerics(__VA_ARGS__))
#define tp_add(...)                          TP__PLACED(tp__node_at, tp_add(__VA_ARGS__))
#define tp_sub(...)                          TP__PLACED(tp__node_at, tp_sub(__VA_ARGS__))
#define tp_mul(...)                          TP__PLACED(tp__node_at, tp_mul(__VA_ARGS__))
#define tp_div(...)                          TP__PLACED(tp__node_at, tp_div(__VA_ARGS__))
#define tp_pow(...)                          TP__PLACED(tp__node_at, tp_pow(__VA_ARGS__))
#define tp_maximum(...)                      TP__PLACED(tp__node_at, tp_maximum(__VA_ARGS__))
#define tp_minimum(...)                      TP__PLACED(tp__node_at, tp_minimum(__VA_ARGS__))
#define tp_squared_difference(...)           TP__PLACED(tp__node_at, tp_squared_difference(__VA_ARGS__))
#define tp_floordiv(...)                     TP__PLACED(tp__node_at, tp_floordiv(__VA_ARGS__))
#define tp_mod(...)                          TP__PLACED(tp__node_at, tp_mod(__VA_ARGS__))
#define tp_greater(...)                      TP__PLACED(tp__node_at, tp_greater(__VA_ARGS__))
#define tp_greater_equal(...)                TP__PLACED(tp__node_at, tp_greater_equal(__VA_ARGS__))
#define tp_less(...)                         TP__PLACED(tp__node_at, tp_less(__VA_ARGS__))
#define tp_less_equal(...)                   TP__PLACED(tp__node_at, tp_less_equal(__VA_ARGS__))
#define tp_equal(...)                        TP__PLACED(tp__node_at, tp_equal(__VA_ARGS__))
#define tp_not_equal(...)                    TP__PLACED(tp__node_at, tp_not_equal(__VA_ARGS__))
#define tp_logical_and(...)                  TP__PLACED(tp__node_at, tp_logical_and(__VA_ARGS__))
#define tp_logical_or(...)                   TP__PLACED(tp__node_at, tp_logical_or(__VA_ARGS__))
#define tp_logical_not(...)                  TP__PLACED(tp__node_at, tp_logical_not(__VA_ARGS__))
#define tp_select(...)                       TP__PLACED(tp__node_at, tp_select(__VA_ARGS__))
#define tp_neg(...)                          TP__PLACED(tp__node_at, tp_neg(__VA_ARGS__))
#define tp_abs(...)                          TP__PLACED(tp__node_at, tp_abs(__VA_ARGS__))
#define tp_sign(...)                         TP__PLACED(tp__node_at, tp_sign(__VA_ARGS__))
#define tp_square(...)                       TP__PLACED(tp__node_at, tp_square(__VA_ARGS__))
#define tp_sqrt(...)                         TP__PLACED(tp__node_at, tp_sqrt(__VA_ARGS__))
#define tp_rsqrt(...)                        TP__PLACED(tp__node_at, tp_rsqrt(__VA_ARGS__))
#define tp_reciprocal(...)                   TP__PLACED(tp__node_at, tp_reciprocal(__VA_ARGS__))
#define tp_exp(...)                          TP__PLACED(tp__node_at, tp_exp(__VA_ARGS__))
#define tp_ln(...)                           TP__PLACED(tp__node_at, tp_ln(__VA_ARGS__))
#define tp_sin(...)                          TP__PLACED(tp__node_at, tp_sin(__VA_ARGS__))
#define tp_cos(...)                          TP__PLACED(tp__node_at, tp_cos(__VA_ARGS__))
#define tp_asin(...)                         TP__PLACED(tp__node_at, tp_asin(__VA_ARGS__))
#define tp_acos(...)                         TP__PLACED(tp__node_at, tp_acos(__VA_ARGS__))
#define tp_atan(...)                         TP__PLACED(tp__node_at, tp_atan(__VA_ARGS__))
#define tp_erf(...)                          TP__PLACED(tp__node_at, tp_erf(__VA_ARGS__))
#define tp_gelu(...)                         TP__PLACED(tp__node_at, tp_gelu(__VA_ARGS__))
#define tp_gelu_tanh(...)                    TP__PLACED(tp__node_at, tp_gelu_tanh(__VA_ARGS__))
#define tp_silu(...)                         TP__PLACED(tp__node_at, tp_silu(__VA_ARGS__))
#define tp_tanh(...)                         TP__PLACED(tp__node_at, tp_tanh(__VA_ARGS__))
#define tp_sigmoid(...)                      TP__PLACED(tp__node_at, tp_sigmoid(__VA_ARGS__))
#define tp_softplus(...)                     TP__PLACED(tp__node_at, tp_softplus(__VA_ARGS__))
#define tp_relu(...)                         TP__PLACED(tp__node_at, tp_relu(__VA_ARGS__))
#define tp_leaky_relu(...)                   TP__PLACED(tp__node_at, tp_leaky_relu(__VA_ARGS__))
#define tp_elu(...)                          TP__PLACED(tp__node_at, tp_elu(__VA_ARGS__))
#define tp_selu(...)                         TP__PLACED(tp__node_at, tp_selu(__VA_ARGS__))
#define tp_floor(...)                        TP__PLACED(tp__node_at, tp_floor(__VA_ARGS__))
#define tp_ceil(...)                         TP__PLACED(tp__node_at, tp_ceil(__VA_ARGS__))
#define tp_round(...)                        TP__PLACED(tp__node_at, tp_round(__VA_ARGS__))
#define tp_is_finite(...)                    TP__PLACED(tp__node_at, tp_is_finite(__VA_ARGS__))
#define tp_clip(...)                         TP__PLACED(tp__node_at, tp_clip(__VA_ARGS__))
#define tp_affine(...)                       TP__PLACED(tp__node_at, tp_affine(__VA_ARGS__))
#define tp_cast(...)                         TP__PLACED(tp__node_at, tp_cast(__VA_ARGS__))
#define tp_add_n(...)                        TP__PLACED(tp__node_at, tp_add_n(__VA_ARGS__))
#define tp_all_reduce(...)                   TP__PLACED(tp__node_at, tp_all_reduce(__VA_ARGS__))
#define tp_reduce_sum(...)                   TP__PLACED(tp__node_at, tp_reduce_sum(__VA_ARGS__))
#define tp_reduce_mean(...)                  TP__PLACED(tp__node_at, tp_reduce_mean(__VA_ARGS__))
#define tp_reduce_max(...)                   TP__PLACED(tp__node_at, tp_reduce_max(__VA_ARGS__))
#define tp_reduce_min(...)                   TP__PLACED(tp__node_at, tp_reduce_min(__VA_ARGS__))
#define tp_reduce_prod(...)                  TP__PLACED(tp__node_at, tp_reduce_prod(__VA_ARGS__))
#define tp_reduce_all(...)                   TP__PLACED(tp__node_at, tp_reduce_all(__VA_ARGS__))
#define tp_reduce_any(...)                   TP__PLACED(tp__node_at, tp_reduce_any(__VA_ARGS__))
#define tp_sum(...)                          TP__PLACED(tp__node_at, tp_sum(__VA_ARGS__))
#define tp_mean(...)                         TP__PLACED(tp__node_at, tp_mean(__VA_ARGS__))
#define tp_l2_loss(...)                      TP__PLACED(tp__node_at, tp_l2_loss(__VA_ARGS__))
#define tp_zero_fraction(...)                TP__PLACED(tp__node_at, tp_zero_fraction(__VA_ARGS__))
#define tp_global_norm(...)                  TP__PLACED(tp__node_at, tp_global_norm(__VA_ARGS__))
#define tp_argmax(...)                       TP__PLACED(tp__node_at, tp_argmax(__VA_ARGS__))
#define tp_cumsum(...)                       TP__PLACED(tp__node_at, tp_cumsum(__VA_ARGS__))
#define tp_top_k(...)                        TP__PLACED(tp__node_at, tp_top_k(__VA_ARGS__))
#define tp_in_top_k(...)                     TP__PLACED(tp__node_at, tp_in_top_k(__VA_ARGS__))
#define tp_sum_to_like(...)                  TP__PLACED(tp__node_at, tp_sum_to_like(__VA_ARGS__))
#define tp_broadcast_like(...)               TP__PLACED(tp__node_at, tp_broadcast_like(__VA_ARGS__))
#define tp_matmul(...)                       TP__PLACED(tp__node_at, tp_matmul(__VA_ARGS__))
#define tp_matmul_ex(...)                    TP__PLACED(tp__node_at, tp_matmul_ex(__VA_ARGS__))
#define tp_nn_conv2d(...)                    TP__PLACED(tp__node_at, tp_nn_conv2d(__VA_ARGS__))
#define tp_nn_conv2d_input_grad(...)         TP__PLACED(tp__node_at, tp_nn_conv2d_input_grad(__VA_ARGS__))
#define tp_nn_conv2d_filter_grad(...)        TP__PLACED(tp__node_at, tp_nn_conv2d_filter_grad(__VA_ARGS__))
#define tp_nn_bias_add(...)                  TP__PLACED(tp__node_at, tp_nn_bias_add(__VA_ARGS__))
#define tp_nn_max_pool(...)                  TP__PLACED(tp__node_at, tp_nn_max_pool(__VA_ARGS__))
#define tp_nn_avg_pool(...)                  TP__PLACED(tp__node_at, tp_nn_avg_pool(__VA_ARGS__))
#define tp_resize_bilinear(...)              TP__PLACED(tp__node_at, tp_resize_bilinear(__VA_ARGS__))
#define tp_resize_nearest(...)               TP__PLACED(tp__node_at, tp_resize_nearest(__VA_ARGS__))
#define tp_bilinear_sampler(...)             TP__PLACED(tp__node_at, tp_bilinear_sampler(__VA_ARGS__))
#define tp_nn_batch_norm_train(...)          TP__PLACED(tp__node_at, tp_nn_batch_norm_train(__VA_ARGS__))
#define tp_nn_batch_norm_infer(...)          TP__PLACED(tp__node_at, tp_nn_batch_norm_infer(__VA_ARGS__))
#define tp_nn_layer_norm(...)                TP__PLACED(tp__node_at, tp_nn_layer_norm(__VA_ARGS__))
#define tp_nn_group_norm(...)                TP__PLACED(tp__node_at, tp_nn_group_norm(__VA_ARGS__))
#define tp_softmax(...)                      TP__PLACED(tp__node_at, tp_softmax(__VA_ARGS__))
#define tp_log_softmax(...)                  TP__PLACED(tp__node_at, tp_log_softmax(__VA_ARGS__))
#define tp_sparse_softmax_cross_entropy(...) TP__PLACED(tp__node_at, tp_sparse_softmax_cross_entropy(__VA_ARGS__))
#define tp_softmax_cross_entropy(...)        TP__PLACED(tp__node_at, tp_softmax_cross_entropy(__VA_ARGS__))
#define tp_sigmoid_cross_entropy(...)        TP__PLACED(tp__node_at, tp_sigmoid_cross_entropy(__VA_ARGS__))
#define tp_ctc_loss(...)                     TP__PLACED(tp__node_at, tp_ctc_loss(__VA_ARGS__))
#define tp_nn_lstm(...)                      TP__PLACED(tp__node_at, tp_nn_lstm(__VA_ARGS__))
#define tp_nn_gru(...)                       TP__PLACED(tp__node_at, tp_nn_gru(__VA_ARGS__))
#define tp_nn_attention(...)                 TP__PLACED(tp__node_at, tp_nn_attention(__VA_ARGS__))
#define tp_nn_dropout(...)                   TP__PLACED(tp__node_at, tp_nn_dropout(__VA_ARGS__))
#define tp_reshape_to(...)                   TP__PLACED(tp__node_at, tp_reshape_to(__VA_ARGS__))
#define tp_reshape_like(...)                 TP__PLACED(tp__node_at, tp_reshape_like(__VA_ARGS__))
#define tp_batch_flatten(...)                TP__PLACED(tp__node_at, tp_batch_flatten(__VA_ARGS__))
#define tp_flatten(...)                      TP__PLACED(tp__node_at, tp_flatten(__VA_ARGS__))
#define tp_expand_dims(...)                  TP__PLACED(tp__node_at, tp_expand_dims(__VA_ARGS__))
#define tp_squeeze(...)                      TP__PLACED(tp__node_at, tp_squeeze(__VA_ARGS__))
#define tp_transpose(...)                    TP__PLACED(tp__node_at, tp_transpose(__VA_ARGS__))
#define tp_concat(...)                       TP__PLACED(tp__node_at, tp_concat(__VA_ARGS__))
#define tp_split(...)                        TP__PLACED(tp__node_at, tp_split(__VA_ARGS__))
#define tp_stack(...)                        TP__PLACED(tp__node_at, tp_stack(__VA_ARGS__))
#define tp_unstack(...)                      TP__PLACED(tp__node_at, tp_unstack(__VA_ARGS__))
#define tp_reverse(...)                      TP__PLACED(tp__node_at, tp_reverse(__VA_ARGS__))
#define tp_slice(...)                        TP__PLACED(tp__node_at, tp_slice(__VA_ARGS__))
#define tp_pad(...)                          TP__PLACED(tp__node_at, tp_pad(__VA_ARGS__))
#define tp_tile(...)                         TP__PLACED(tp__node_at, tp_tile(__VA_ARGS__))
#define tp_gather(...)                       TP__PLACED(tp__node_at, tp_gather(__VA_ARGS__))
#define tp_one_hot(...)                      TP__PLACED(tp__node_at, tp_one_hot(__VA_ARGS__))
#define tp_rand_uniform(...)                 TP__PLACED(tp__node_at, tp_rand_uniform(__VA_ARGS__))
#define tp_rand_normal(...)                  TP__PLACED(tp__node_at, tp_rand_normal(__VA_ARGS__))
#define tp_rand_truncated_normal(...)        TP__PLACED(tp__node_at, tp_rand_truncated_normal(__VA_ARGS__))
#define tp_rand_uniform_like(...)            TP__PLACED(tp__node_at, tp_rand_uniform_like(__VA_ARGS__))
#define tp_rand_normal_like(...)             TP__PLACED(tp__node_at, tp_rand_normal_like(__VA_ARGS__))
#define tp_assign(...)                       TP__PLACED(tp__node_at, tp_assign(__VA_ARGS__))
#define tp_assign_add(...)                   TP__PLACED(tp__node_at, tp_assign_add(__VA_ARGS__))
#define tp_assign_sub(...)                   TP__PLACED(tp__node_at, tp_assign_sub(__VA_ARGS__))
#define tp_read_after(...)                   TP__PLACED(tp__node_at, tp_read_after(__VA_ARGS__))
#define tp_assign_moving_average(...)        TP__PLACED(tp__node_at, tp_assign_moving_average(__VA_ARGS__))
#define tp_apply_gradient_descent(...)       TP__PLACED(tp__node_at, tp_apply_gradient_descent(__VA_ARGS__))
#define tp_apply_momentum(...)               TP__PLACED(tp__node_at, tp_apply_momentum(__VA_ARGS__))
#define tp_apply_adam(...)                   TP__PLACED(tp__node_at, tp_apply_adam(__VA_ARGS__))
#define tp_apply_adamw(...)                  TP__PLACED(tp__node_at, tp_apply_adamw(__VA_ARGS__))
#define tp_apply_rmsprop(...)                TP__PLACED(tp__node_at, tp_apply_rmsprop(__VA_ARGS__))
#define tp_apply_adagrad(...)                TP__PLACED(tp__node_at, tp_apply_adagrad(__VA_ARGS__))
#define tp_apply_adadelta(...)               TP__PLACED(tp__node_at, tp_apply_adadelta(__VA_ARGS__))
#define tp_apply_ftrl(...)                   TP__PLACED(tp__node_at, tp_apply_ftrl(__VA_ARGS__))
#define tp_apply_lamb(...)                   TP__PLACED(tp__node_at, tp_apply_lamb(__VA_ARGS__))
#define tp_name_scope_push(...)              TP__PLACED(tp__graph_at, tp_name_scope_push(__VA_ARGS__))
#define tp_name_scope_pop(...)               TP__PLACED(tp__graph_at, tp_name_scope_pop(__VA_ARGS__))
#define tp_cached_name_scope_push(...)       TP__PLACED(tp__graph_at, tp_cached_name_scope_push(__VA_ARGS__))
#define tp_variable_scope_push(...)          TP__PLACED(tp__graph_at, tp_variable_scope_push(__VA_ARGS__))
#define tp_variable_scope_pop(...)           TP__PLACED(tp__graph_at, tp_variable_scope_pop(__VA_ARGS__))
#define tp_device_enter(...)                 TP__PLACED(tp__graph_at, tp_device_enter(__VA_ARGS__))
#define tp_device_leave(...)                 TP__PLACED(tp__graph_at, tp_device_leave(__VA_ARGS__))
#define tp_auto_reuse_variable_scope_push(...) TP__PLACED(tp__graph_at, tp_auto_reuse_variable_scope_push(__VA_ARGS__))
#define tp_under_variable_scope_push(...)    TP__PLACED(tp__graph_at, tp_under_variable_scope_push(__VA_ARGS__))
#define tp_under_name_scope_push(...)        TP__PLACED(tp__graph_at, tp_under_name_scope_push(__VA_ARGS__))
#define tp_remap_variables_push(...)         TP__PLACED(tp__graph_at, tp_remap_variables_push(__VA_ARGS__))
#define tp_freeze_variables_push(...)        TP__PLACED(tp__graph_at, tp_freeze_variables_push(__VA_ARGS__))
#define tp_collection_add(...)               TP__PLACED(tp__graph_at, tp_collection_add(__VA_ARGS__))
/* clang-format on */

/* For the macro TP_OPTIONS: the macros TP__PART_<type> tell which option types are defined in this header. */
TP_DEF const tp__zero_option *tp__graph_zeros(void);
#define TP__PART_tp_apply_desc            graph
#define TP__PART_tp_graph_config          graph
#define TP__PART_tp_freeze_variables_desc graph
#define TP__PART_tp_variable_scope_desc   graph
#define TP__PART_tp_variable_desc         graph
#define TP__PART_tp_tower_desc            graph
#define TP__PART_tp_towers_desc           graph
#define TP__PART_tp_moving_summary_desc   graph
#define TP__PART_tp_session_config        graph
#define TP__PART_tp_saver_restore_desc    graph
#define TP__PART_tp_predict_config        graph

#ifdef __cplusplus
}
#endif
#endif /* TP_GRAPH_H */

/* ===== STOP HERE if you only want to use the library. Everything below is implementation. ===== */
#if ((defined(TP_IMPLEMENTATION) && !defined(TP__GRAPH_IMPLEMENTED)) || defined(TP__KERNELS)) && \
    !defined(TP__KERNELS_SEEN)
#define TP__KERNELS_SEEN
#include <string.h>
#ifdef __cplusplus
extern "C" {
#endif
/* ==== >>kernels ======================================================================================= */
/* What kernels read besides tp_call: the attributes of each op, whose schemas are on the op's page (>>ops), the geometry of
 * convolutions, and the program of a chain of element-wise ops. tp_cuda.cu defines TP__KERNELS to include this part. Private: names and fields may change,
 * together with TP_ABI. */

typedef struct tp__source_attrs {
    tp_dtype dtype;
    tp_shape shape;
} tp__source_attrs;
typedef struct tp__affine_attrs {
    float scale, offset;
} tp__affine_attrs;
typedef struct tp__clip_attrs {
    float low, high; /* first, as the vectorised functions read them */
    bool flat;       /* the derivative is 0 at low and at high, too */
} tp__clip_attrs;
typedef struct tp__leaky_attrs {
    float alpha;
} tp__leaky_attrs;
typedef struct tp__cast_attrs {
    /* dtypes of the input and of the result; a block function is not told the input's dtype otherwise */
    tp_dtype from, to;
} tp__cast_attrs;
typedef struct tp__reduce_attrs {
    int axes[TP_MAX_DIMS];
    int n_axes; /* number of axes to reduce; 0: all axes */
    bool keep_dims;
} tp__reduce_attrs;
typedef struct tp__axis_attrs {
    int axis;
} tp__axis_attrs;
typedef struct tp__cumsum_attrs {
    int axis;
    bool exclusive, reverse;
} tp__cumsum_attrs;
typedef struct tp__top_k_attrs {
    int k;
} tp__top_k_attrs;
typedef struct tp__reshape_attrs {
    tp_shape shape;
} tp__reshape_attrs;
typedef struct tp__fill_attrs {
    float value;
} tp__fill_attrs;
typedef struct tp__transpose_attrs {
    int perm[TP_MAX_DIMS];
    int n; /* number of axes in perm; 0: the order of all axes is reversed */
} tp__transpose_attrs;
typedef struct tp__all_reduce_attrs {
    bool mean;
} tp__all_reduce_attrs;
typedef struct tp__parts_attrs {
    int axis, n;
} tp__parts_attrs;
typedef struct tp__slice_attrs {
    int64_t begin[TP_MAX_DIMS], size[TP_MAX_DIMS];
} tp__slice_attrs;
typedef struct tp__pad_attrs {
    int64_t before[TP_MAX_DIMS], after[TP_MAX_DIMS];
    int mode; /* how the border is filled: a tp_pad_mode */
    float value;
} tp__pad_attrs;
typedef struct tp__tile_attrs {
    int64_t multiples[TP_MAX_DIMS];
} tp__tile_attrs;
typedef struct tp__one_hot_attrs {
    int depth;
    float on, off;
} tp__one_hot_attrs;
typedef struct tp__message_attrs {
    const char *message; /* text for the log or the error; NULL or "": the op's name */
} tp__message_attrs;
/* For the op print: the numbers of its log line. A device that computes these numbers itself calls the row's naive_f32 with this
 * struct as scratch, to write the line; naive_f32 then reads no data. */
#define TP__GLANCE 20
typedef struct tp__print_numbers {
    double sum, squares, first[TP__GLANCE];
} tp__print_numbers;
typedef struct tp__matmul_attrs {
    bool transpose_a, transpose_b;
} tp__matmul_attrs;
typedef struct tp__bias_attrs {
    int data_format;
} tp__bias_attrs;
typedef struct tp__sampler_attrs {
    int border;
} tp__sampler_attrs;
typedef struct tp__bn_attrs {
    int axis;
    float epsilon;
    bool unbiased;
} tp__bn_attrs;
typedef struct tp__gn_attrs {
    int axis, groups;
    float epsilon;
} tp__gn_attrs;
typedef struct tp__ln_attrs {
    float epsilon;
} tp__ln_attrs;
typedef struct tp__lstm_attrs {
    float forget_bias;
    bool batch_major;
} tp__lstm_attrs;
typedef struct tp__gru_attrs {
    bool batch_major;
} tp__gru_attrs;
typedef struct tp__attention_attrs {
    int heads;
    bool causal;
} tp__attention_attrs;
typedef struct tp__dropout_attrs {
    float rate;
} tp__dropout_attrs;
typedef struct tp__random_attrs {
    tp_shape shape;
    float a, b; /* uniform: low and high; normal: mean and deviation */
    int kind;   /* distribution: 0 uniform, 1 normal, 2 truncated normal */
} tp__random_attrs;
typedef struct tp__assign_attrs {
    float decay;
} tp__assign_attrs;
/* Attributes that all optimizers have. n: the number of variables. */
typedef struct tp__apply_attrs {
    int n;
} tp__apply_attrs;
typedef tp__apply_attrs tp__gradient_descent_attrs;
typedef struct tp__momentum_attrs {
    tp__apply_attrs list;
    float momentum;
    bool nesterov;
} tp__momentum_attrs;
typedef struct tp__adam_attrs { /* the attributes of Adam, AdamW and LAMB */
    tp__apply_attrs list;
    float beta1, beta2, epsilon, decay;
} tp__adam_attrs;
typedef struct tp__rmsprop_attrs {
    tp__apply_attrs list;
    float decay, momentum, epsilon;
} tp__rmsprop_attrs;
typedef tp__apply_attrs tp__adagrad_attrs;
typedef struct tp__adadelta_attrs {
    tp__apply_attrs list;
    float rho, epsilon;
} tp__adadelta_attrs;
typedef struct tp__ftrl_attrs {
    tp__apply_attrs list;
    float lr_power, l1, l2, shrinkage;
} tp__ftrl_attrs;
typedef struct tp__lion_attrs {
    tp__apply_attrs list;
    float beta1, beta2, decay;
} tp__lion_attrs;
/* Inputs of an optimizer after its gradients; Adam and LAMB have all three, other optimizers the first. */
enum tp__apply_scalars { TP__LEARNING_RATE, TP__BETA1_POWER, TP__BETA2_POWER };
/* Updates elements [from, to) of variable i by one optimizer. */
typedef void (*tp__piece_fn)(const tp_call *k, int i, int64_t from, int64_t to);
/* What distinguishes an optimizer: its numbers of slots and scalars, and its loops. */
typedef struct tp__update {
    int min_slots, max_slots; /* least and largest number of slots per variable */
    /* number of scalar inputs after the gradients: the first ones of enum tp__apply_scalars */
    int scalars;
    double flops; /* FLOPs per element with min_slots slots; 4 more for each further slot */
    tp__piece_fn piece_f32, piece_f64;
    tp__piece_fn piece_fast; /* a fast loop for float32 on the CPU; NULL: piece_f32 is used */
} tp__update;
/* The node of a step of the optimizer whose op has this name ("apply_lion"). attrs: its attribute struct; slots: lists of n
 * variables each, as many as the op has, optional ones at the end may be NULL; scalars: in the order of enum tp__apply_scalars;
 * pred: NULL, or a scalar bool that tells whether the step is taken. */
TP_DEF tp_node *tp__apply_optimizer(const char *op, const void *attrs, tp_node *const *vars,
                                    tp_node *const *const *slots, tp_node *const *grads, tp_node *const *scalars,
                                    tp_node *pred);

/* -- the geometry of convolutions and pools ------------------------------------------------------------ */

/* Multiplies two sizes; the result is limited so that it cannot overflow even if one of them was not checked. */
static int64_t tp__limited_product(int64_t a, int64_t b)
{
    const int64_t limit = INT64_MAX / 4;
    const double product = (double)a * (double)b;
    return product > (double)limit ? limit : product < -(double)limit ? -limit : a * b;
}

/* The output size of one dimension and the padding before it. SAME: out = ceil(in / stride); half of the padding is before the image
 * and half after, an odd pixel after. VALID: no padding, out = ceil((in - (k-1) dilation) / stride). Sizes may be unknown. */
static void tp__same_or_valid(int padding, int64_t in, int64_t k, int64_t stride, int64_t dilation, int64_t *out,
                              int64_t *before)
{
    const int64_t eff = tp__limited_product(k - 1, dilation) + 1;
    *before = 0;
    if (in < 0 || (k < 0 && padding == TP_VALID)) {
        *out = TP_ANY;
        return;
    }
    if (k < 0) { /* the size of the filter is unknown; with padding SAME it does not matter */
        *out = (in + stride - 1) / stride;
        return;
    }
    if (padding == TP_VALID) {
        *out = in >= eff ? (in - eff) / stride + 1 : 0;
        return;
    }
    *out = (in + stride - 1) / stride;
    const int64_t pad = (*out - 1) * stride + eff - in;
    *before = pad > 0 ? pad / 2 : 0;
}

/* Sets the strides of contiguous x and y in one of the layouts. */
static void tp__conv_strides(tp__conv *g, bool nchw)
{
    g->nchw = nchw;
    if (nchw) {
        g->x_stride_w = 1, g->x_stride_h = g->W, g->x_stride_c = g->H * g->W, g->x_stride_b = g->C * g->x_stride_c;
        g->y_stride_w = 1, g->y_stride_h = g->OW, g->y_stride_c = g->OH * g->OW,
        g->y_stride_b = tp__limited_product(g->O, g->y_stride_c);
    } else {
        g->x_stride_c = 1, g->x_stride_w = g->C, g->x_stride_h = g->W * g->C, g->x_stride_b = g->H * g->x_stride_h;
        g->y_stride_c = 1, g->y_stride_w = g->O, g->y_stride_h = tp__limited_product(g->OW, g->O),
        g->y_stride_b = tp__limited_product(g->OH, g->y_stride_h);
    }
}

/* x and w: the image and the filter of the convolution, also where its gradients are computed. */
static inline tp__conv tp__conv_geometry(const tp_conv2d_attrs *a, const tp_shape *x, const tp_shape *w)
{
    const bool nchw = a->data_format == TP_NCHW;
    tp__conv g;
    memset(&g, 0, sizeof g);
    g.stride_h = a->stride_h ? a->stride_h : 1;
    g.stride_w = a->stride_w ? a->stride_w : 1;
    g.dilation_h = a->dilation_h ? a->dilation_h : 1;
    g.dilation_w = a->dilation_w ? a->dilation_w : 1;
    g.groups = a->groups ? a->groups : 1;
    g.B = x->dim[0];
    g.C = x->dim[nchw ? 1 : 3];
    g.H = x->dim[nchw ? 2 : 1];
    g.W = x->dim[nchw ? 3 : 2];
    g.KH = w->dim[0];
    g.KW = w->dim[1];
    g.O = w->dim[3];
    tp__same_or_valid(a->padding, g.H, g.KH, g.stride_h, g.dilation_h, &g.OH, &g.top);
    tp__same_or_valid(a->padding, g.W, g.KW, g.stride_w, g.dilation_w, &g.OW, &g.left);
    tp__conv_strides(&g, nchw);
    return g;
}
/* The same for an input that is read with a border of zeros (tp_fused.pad). */
static inline tp__conv tp__conv_geometry_padded(const tp_conv2d_attrs *a, const uint8_t pad[4], const tp_shape *x,
                                                const tp_shape *w)
{
    tp_shape with = *x;
    with.dim[1] += pad[0] + pad[1];
    with.dim[2] += pad[2] + pad[3];
    const bool nhwc = a->data_format != TP_NCHW; /* only then there may be a border */
    tp__conv g = tp__conv_geometry(a, nhwc ? &with : x, w);
    for (int i = 0; i < 4 && nhwc; i++) g.border[i] = i % 2 ? pad[i] + pad[i - 1] : pad[i];
    g.H -= g.border[1], g.W -= g.border[3], g.top += g.border[0], g.left += g.border[2];
    return g;
}

/* -- group_norm: x as (B, rows, C, inner) */
typedef struct tp__gn_shape {
    int64_t B, rows, C, inner, groups, per_group; /* per_group: the channels of a group */
} tp__gn_shape;
static inline tp__gn_shape tp__gn_shape_of(const tp_call *k, const tp_operand *x)
{
    const tp__gn_attrs *t = (const tp__gn_attrs *)k->attrs;
    const int axis = t->axis < 0 ? t->axis + x->shape.ndim : t->axis;
    tp__gn_shape s;
    s.B = x->shape.dim[0];
    s.rows = s.inner = 1;
    s.C = x->shape.dim[axis];
    for (int d = 1; d < axis; d++) s.rows *= x->shape.dim[d];
    for (int d = axis + 1; d < x->shape.ndim; d++) s.inner *= x->shape.dim[d];
    s.groups = t->groups;
    s.per_group = s.C / s.groups;
    return s;
}

/* -- "fused": a chain of element-wise ops as one kernel; attrs of its call is a tp__program */
#define TP__MAX_REG      24
#define TP__MAX_INSTR    48
#define TP__MAX_EXTERNAL 24 /* largest number of external operands of a fused chain; also of its results */
#if TP__MAX_REG < TP__MAX_EXTERNAL || TP__MAX_INSTR < TP__MAX_EXTERNAL
#error "each operand of a chain may need a register, and each op has an operand"
#endif

enum { TP__FROM_EXTERNAL, TP__FROM_OUT, TP__FROM_REG };

/* One element-wise op inside a fused chain. */
typedef struct tp__instr {
    const tp_op *row;
    const void *attrs;
    tp_block_fn block;
    tp_vec_fn vec; /* if not NULL, called instead of block */
    int n_in;
    int from[4], in[4]; /* where each operand is: TP__FROM_EXTERNAL, _OUT or _REG, and its index */
    int to, out;        /* where the result is stored: TP__FROM_OUT or TP__FROM_REG, and its index */
    int out_size;       /* bytes of an element of the result */
    tp_dtype dtype;     /* the dtype in which the op computes: that of its last operand */
    tp_dtype out_dtype;
} tp__instr;

enum { TP__DIRECT, TP__SPLAT, TP__INNER, TP__OUTER, TP__STRIDED }; /* how an operand of a chain is broadcast */

typedef struct tp__external {
    int access, size; /* access: how the operand is broadcast (TP__DIRECT, ...); size: bytes of an element */
    /* The operand's dimensions, with adjacent ones that are broadcast alike as one, and the distance in elements between two values of an
     * index, which is 0 along a dimension that is broadcast. At least two. */
    int n_dim;
    int64_t dim[TP_MAX_DIMS], step[TP_MAX_DIMS];
    /* `tile` adjacent values are repeated over and over in each run of `repeats` elements; tile 0: they are not */
    int64_t tile, repeats;
    /* which element of the operand is read for element i of the result: for INNER i % period, for OUTER (i / inner) %
     * period */
    int64_t inner, period;
    int64_t stride[TP_MAX_DIMS];
    int reg; /* the register that holds a block of the broadcast operand; -1 if it is read directly */
} tp__external;

typedef struct tp__program {
    tp_shape shape; /* the shape of the chain's results; all have the same */
    int64_t n;
    int64_t block; /* number of elements that are computed at a time: at most TP__FUSE_BLOCK */
    int n_instr, n_external, n_out, n_reg;
    /* arrays, each as long as this chain needs: most chains are short */
    tp__instr *instr;
    tp__external *external;
    int *out_size;
} tp__program;

#ifdef __cplusplus
}
#endif
#endif

#if defined(TP_IMPLEMENTATION) && !defined(TP__GRAPH_IMPLEMENTED)
#define TP__GRAPH_IMPLEMENTED
#ifndef TP_GRAPH_FILE
#define TP_GRAPH_FILE "tp_graph.h"
#endif
#undef TP__PLACED
#define TP__PLACED TP__UNPLACED
TP__EXACT_BEGIN
TP__COLD_BEGIN

/* The options whose default is not zero: see OPTIONS in tp_tensor.h. */
TP_DEF const tp__zero_option *tp__graph_zeros(void)
{
    /* clang-format off */
    static const tp__zero_option options[] = {
        TP__ZERO_OPTION(tp_graph_config, seed, NONE),
        TP__ZERO_OPTION(tp_variable_desc, trainable, NO),
        TP__ZERO_OPTION(tp_freeze_variables_desc, stop_gradient, NO),
        TP__ZERO_OPTION(tp_tensor_summary_desc, main_tower_only, NO),
        TP__ZERO_OPTION(tp_moving_summary_desc, decay, ZERO),
        TP__ZERO_OPTION(tp_predict_config, log_layers, NO),
        {NULL, NULL, 0, 0, TP__ZERO_NO},
    };
    /* clang-format on */
    return options;
}

/* ==== >>core ========================================================================================== */

/* Further flags of a row, after TP_OP_: ops that the planner can fuse with others. The planner tests these flags instead of the
 * row's address, because an address would link the op and its kernels into every program. (No enum: C++20 deprecates | of two
 * enums.) */
#define TP__OP_CONV2D             (1 << 16)
#define TP__OP_BATCH_NORM         (1 << 17)
#define TP__OP_BATCH_NORM_INFER   (1 << 18)
#define TP__OP_BATCH_NORM_GRAD    (1 << 19)
#define TP__OP_GATHER             (1 << 20)
#define TP__OP_GATHER_GRAD        (1 << 21)
#define TP__OP_SEQUENCE           (1 << 22) /* lstm, gru: x may be a table, with its indices as one more input */
#define TP__OP_SEQUENCE_GRAD      (1 << 23) /* lstm_grad, gru_grad: the gradient of a table is one more output */
#define TP__OP_CONV2D_FILTER_GRAD (1 << 24)
#define TP__OP_CONV2D_INPUT_GRAD  (1 << 25)
#define TP__OP_MAX_POOL           (1 << 26)
#define TP__OP_MAX_POOL_GRAD      (1 << 27)
#define TP__OP_GROUP_NORM         (1 << 28)
#define TP__OP_GROUP_NORM_GRAD    (1 << 29)
#define TP__OP_PAD                (1 << 30)
#define TP__OP_CLIP               (1u << 31)
/* A graph is a list of operations in creation order. The inputs of an operation are created before it, so creation order is a
 * topological order of the data edges, and each pass over the graph is a loop over this list. */

/* -- a map from names to pointers: open addressing, never shrinks, keys are in the graph's tp_arena */
typedef struct tp__map {
    const char **key;
    void **value;
    size_t cap, n;
} tp__map;

/* Finds the hash table's slot for the name in the first n bytes of `key`. */
static size_t tp__map_slot_n(const tp__map *m, const char *key, size_t n)
{
    size_t i = (size_t)tp_hash(key, n) & (m->cap - 1);
    while (m->key[i] && (strncmp(m->key[i], key, n) != 0 || m->key[i][n])) i = (i + 1) & (m->cap - 1);
    return i;
}

static size_t tp__map_slot(const tp__map *m, const char *key) { return tp__map_slot_n(m, key, strlen(key)); }

static void *tp__map_get_n(const tp__map *m, const char *key, size_t n)
{
    return m->cap == 0 ? NULL : m->value[tp__map_slot_n(m, key, n)];
}

static void *tp__map_get(const tp__map *m, const char *key) { return tp__map_get_n(m, key, strlen(key)); }

static bool tp__map_put(tp__map *m, const char *key, void *value)
{
    if ((m->n + 1) * 2 > m->cap) {
        tp__map bigger;
        bigger.cap = m->cap ? m->cap * 2 : 256;
        bigger.n = m->n;
        bigger.key = (const char **)tp_calloc(bigger.cap, sizeof *bigger.key);
        bigger.value = (void **)tp_calloc(bigger.cap, sizeof *bigger.value);
        if (!bigger.key || !bigger.value) {
            tp_free((void *)bigger.key);
            tp_free((void *)bigger.value);
            return false;
        }
        for (size_t i = 0; i < m->cap; i++) {
            if (!m->key[i]) continue;
            size_t j = tp__map_slot(&bigger, m->key[i]);
            bigger.key[j] = m->key[i];
            bigger.value[j] = m->value[i];
        }
        tp_free((void *)m->key);
        tp_free((void *)m->value);
        *m = bigger;
    }
    size_t i = tp__map_slot(m, key);
    if (!m->key[i]) {
        m->key[i] = key;
        m->n++;
    }
    m->value[i] = value;
    return true;
}

static void tp__map_free(tp__map *m)
{
    tp_free((void *)m->key);
    tp_free((void *)m->value);
    memset(m, 0, sizeof *m);
}

/* -- a growing array of pointers */
typedef struct tp__list {
    void **item;
    int n, cap;
} tp__list;

static bool tp__list_add(tp__list *l, void *p)
{
    if (l->n == l->cap) {
        int cap = l->cap ? l->cap * 2 : 16;
        void **item = (void **)tp_realloc((void *)l->item, (size_t)cap * sizeof *item);
        if (!item) return false;
        l->item = item;
        l->cap = cap;
    }
    l->item[l->n++] = p;
    return true;
}

typedef struct tp__collection {
    const char *key;
    tp__list list; /* a list of tp_node */
} tp__collection;

typedef struct tp__variable_scope {
    const char *prefix; /* the scope's name, "" or "a/b" */
    int reuse;          /* the reuse mode: TP_REUSE_NO, _YES or _AUTO */
    tp_getter_fn getter;
    void *getter_user;
    bool has_name_scope;
} tp__variable_scope;

struct tp_collection_backup {
    bool all; /* a backup of all collections: restoring empties those that were added later */
    int n;
    const char **key;
    tp_node ***item;
    int *n_item;
};

#define TP__MAX_SCOPES 64
#define TP__MAX_KEPT   8

/* How layers average values over the ranks of a job. The trainer sets it, because this header knows nothing of ranks. */
typedef struct tp__over_ranks {
    int n_rank;          /* number of ranks; 0: there is one process, as far as the trainer knows */
    const char *refusal; /* why this trainer cannot average over its ranks; NULL: it can */
    /* sets ys[i] to the mean of xs[i] over all ranks; ys may be xs */
    void (*mean)(void *user, tp_node *const *xs, int n, tp_node **ys);
    void *user;
} tp__over_ranks;

struct tp_graph {
    tp_owner owner_; /* the trainer or predictor that made it, and frees it */
    tp_arena arena;
    uint64_t seed;
    tp_status status;
    const char *error;
    bool finalized;
    tp_at at;
    bool unplaced; /* the graph's mistake has no place in the source yet */
    int n_placed;  /* the first n_placed operations have their final place, see tp__node_at */
    tp__list op, var, collection;
    tp__map by_name; /* operations by name */
    tp__map used;    /* names of operations and scopes, each with the number of suffixes used */
    tp__map var_by_name, slot, cached_scope;
    const char *name_scope[TP__MAX_SCOPES];
    int n_name_scope;
    tp__variable_scope var_scope[TP__MAX_SCOPES];
    int n_var_scope;
    int device[TP__MAX_SCOPES], n_device; /* stack of current devices; device[0] is 0 */
    tp_tower_context tower;
    bool in_tower;
    int tower_devices; /* n_device when the tower was entered */
    int tower_scopes;  /* number of open scopes when the tower had opened its own; used to find scopes left open */
    int n_argscope, tower_argscopes; /* number of open argscopes of tp_layers.h: now, and when the tower was entered */
    tp_at argscope_at;               /* the place of the last one that was opened */
    tp_collection_backup *tower_entry;
    /* pointers that other headers keep, with one value for each tower being built (tp__graph_keep) */
    void **kept[TP__MAX_KEPT];
    int n_kept;
    struct tp__towers *towers; /* the towers of tp_build_on_towers while it builds, else NULL */
    tp_node poison;
    tp_operation poison_op;
    tp_node *poison_in[1];
    tp_type *infer_in, *infer_out; /* buffers of tp_apply_ex */
    int infer_in_cap, infer_out_cap;
    tp__map auto_reuse;    /* "function@scope" of each scope that was entered before */
    tp_node **query;       /* the target nodes of the last call of tp__ancestors */
    char *ancestor;        /* whether each operation, by id, is an ancestor of the last query's targets */
    int n_query, query_op; /* query_op: number of operations at the last call of tp__ancestors */
    /* guards fields that runs change: infer_in and infer_out, query, ancestor, n_session, freed */
    tp_mutex *lock;
    tp__over_ranks over_ranks;
    int n_session;     /* number of sessions that are not freed */
    bool quiet_layers; /* layers do not log their shapes */
    bool freed;        /* the owner has freed the graph; its memory is freed when n_session is 0 */
};

/* -- rows of the op table: one macro for each kind of op; its columns have the order of struct tp_op
 *
 *   TP__MAP_ROW     element-wise: (name, label, number of inputs, gradient, maps, vector function, ONNX operator)
 *   TP__REDUCE_ROW  a reduction over axes: (name, label, shape rule, gradient, kernels, scratch, ONNX operator)
 *   TP__VIEW_ROW    the same memory with another shape or name: (name, label, number of inputs, attributes, shape rule,
 *                   gradient, rest); it has no kernel
 *   TP__MOVE_ROW    moves elements of any type and does not read their values: (name, label, inputs and outputs,
 *                   attributes, shape rule, gradient, kernel, rest)
 *   TP__ROW         any other op: (name, label, flags, inputs and outputs, attributes, shape rule, gradient, kernels,
 *                   flops, rest)
 *
 * Several fields that belong together are one column, written as one of the macros below.
 *
 * Inputs and outputs: n_in inputs, n_out outputs; or from min_in to max_in inputs. */
#define TP__IO(n_in_, n_out_)                  n_in_, n_in_, n_out_
#define TP__IO_RANGE(min_in_, max_in_, n_out_) min_in_, max_in_, n_out_
/* Columns of an op's row for its attributes. TP__ATTRS: struct tp__<op>_attrs with the schema tp__<op>_schema.
 * TP__ATTRS_OF: a struct of another name with that schema. */
#define TP__ATTRS(op_)           tp__##op_##_schema, sizeof(tp__##op_##_attrs)
#define TP__ATTRS_OF(op_, type_) tp__##op_##_schema, sizeof(type_)
#define TP__NO_ATTRS             NULL, 0
/* Functions that a switch leaves out: with TP_ONLY_F32 the loops of other types, with TP_NO_TRACE the counts of FLOPs. */
typedef double (*tp__flops_fn)(const tp_call *k);
#define TP__F64_KERNEL(fn_)  (TP__HAS_F64 ? (fn_) : (tp_kernel_fn)NULL)
#define TP__OTHER_BLOCK(fn_) (TP__HAS_F64 ? (fn_) : (tp_block_fn)NULL)
#define TP__COUNT_FLOPS(fn_) (TP__HAS_TRACE ? (fn_) : (tp__flops_fn)NULL)
/* Columns of the row of an element-wise op: its block functions ("maps"). MAPS: one for each number type. REAL_MAPS:
 * one for each real type. ANY_MAP: the same for all number types. BYTE_MAP: one for bytes. */
#define TP__MAPS(fn_)                                                                            \
    tp__map_kernel, TP__F64_KERNEL(tp__map_kernel), NULL, fn_##_f32, TP__OTHER_BLOCK(fn_##_f64), \
        TP__OTHER_BLOCK(fn_##_i32), TP__OTHER_BLOCK(fn_##_i64)
#define TP__REAL_MAPS(fn_) \
    tp__map_kernel, TP__F64_KERNEL(tp__map_kernel), NULL, fn_##_f32, TP__OTHER_BLOCK(fn_##_f64), NULL, NULL
#define TP__ANY_MAP(fn_)  tp__map_kernel, tp__map_kernel, NULL, fn_, fn_, fn_, fn_
#define TP__BYTE_MAP(fn_) tp__map_kernel, tp__map_kernel, NULL, fn_, NULL, NULL, NULL
/* Columns of an op's row for its kernels, unless it is element-wise. NAIVE: fn_f32 and fn_f64. NUMBERS: fn_any, for
 * float32 and integers, and fn_f64. With _FAST, fn_fast of tp_fast.h is added. */
#define TP__KERNELS(f32_, f64_, fast_) \
    f32_, TP__F64_KERNEL(f64_), TP__IF_FAST(fast_, NULL), NULL, NULL, NULL, NULL, NULL
#define TP__NAIVE(fn_)        TP__KERNELS(fn_##_f32, fn_##_f64, NULL)
#define TP__NAIVE_FAST(fn_)   TP__KERNELS(fn_##_f32, fn_##_f64, fn_##_fast)
#define TP__NUMBERS(fn_)      TP__KERNELS(fn_##_any, fn_##_f64, NULL)
#define TP__NUMBERS_FAST(fn_) TP__KERNELS(fn_##_any, fn_##_f64, fn_##_fast)
#define TP__NO_KERNEL         TP__KERNELS(NULL, NULL, NULL)
/* Columns of an op's row: the functions that return the number of FLOPs (NULL: one per output element) and the size of
 * the scratch memory. */
#define TP__FLOPS(flops_)                   TP__COUNT_FLOPS(flops_), NULL
#define TP__FLOPS_SCRATCH(flops_, scratch_) TP__COUNT_FLOPS(flops_), scratch_
/* The last three fields of an op's row: bits of the inputs of which only the shape is read, the ONNX operator, the sentence of
 * the op's fault. TP__REST sets all three. */
#define TP__ONNX(name_)                      0, name_, NULL
#define TP__NO_ONNX                          0, NULL, NULL
#define TP__SHAPE_ONLY(bits_)                bits_, NULL, NULL
#define TP__FAULT(sentence_)                 0, NULL, sentence_
#define TP__REST(shape_only_, onnx_, fault_) shape_only_, onnx_, fault_

/* A row of the op table; its last six fields are 0. */
#define TP__ROW(...)                     \
    {                                    \
        __VA_ARGS__, 0, 0, 0, 0, 0, NULL \
    }
/* A row for an op whose fast kernel can also compute other ops that are fused into it. */
#define TP__FUSING_ROW(fuses_, in_place_, ...)            \
    {                                                     \
        __VA_ARGS__, 0, 0, (fuses_), (in_place_), 0, NULL \
    }
/* A row for an op with the flag TP_OP_HALF, some of whose operands stay float32. */
#define TP__HALF_ROW(single_in_, single_out_, ...)              \
    {                                                           \
        __VA_ARGS__, (single_in_), (single_out_), 0, 0, 0, NULL \
    }
/* A row for a sequence op with the flag TP_OP_HALF; x_: index of its input x. */
#define TP__SEQUENCE_ROW(x_, single_in_, single_out_, ...)       \
    {                                                            \
        __VA_ARGS__, (single_in_), (single_out_), 0, 0, x_, NULL \
    }
/* An element-wise op with attributes or a shape rule of its own. */
#define TP__MAP_ROW_OF(attrs_, infer_, name_, label_, n_in_, gradient_, maps_, vec_, onnx_)                           \
    TP__ROW(name_, label_, TP_OP_ELEMENTWISE, n_in_, n_in_, 1, attrs_, infer_, gradient_, maps_, vec_, NULL, NULL, 0, \
            onnx_, NULL)
/* The usual element-wise op: no attributes; operands of one type, which are broadcast. */
#define TP__MAP_ROW(name_, label_, n_in_, gradient_, maps_, vec_, onnx_)                                             \
    TP__ROW(name_, label_, TP_OP_ELEMENTWISE, n_in_, n_in_, 1, NULL, 0, tp__infer_map, gradient_, maps_, vec_, NULL, \
            NULL, 0, onnx_, NULL)
/* fast_scratch_: the scratch function of the fast kernel; NULL: none */
#define TP__REDUCE_ROW(name_, label_, infer_, gradient_, kernels_, fast_scratch_, onnx_)        \
    TP__ROW(name_, label_, TP_OP_PURE, 1, 1, 1, TP__ATTRS(reduce), infer_, gradient_, kernels_, \
            TP__COUNT_FLOPS(tp__flops_of_input), TP__IF_FAST(fast_scratch_, NULL), 0, onnx_, NULL)
#define TP__VIEW_ROW(name_, label_, n_in_, attrs_, infer_, gradient_, rest_)                                        \
    TP__ROW(name_, label_, TP_OP_VIEW | TP_OP_ANY_DTYPE, n_in_, n_in_, 1, attrs_, infer_, gradient_, TP__NO_KERNEL, \
            tp__flops_none, NULL, rest_)
#define TP__MOVE_ROW(name_, label_, io_, attrs_, infer_, gradient_, kernel_, rest_)                           \
    TP__ROW(name_, label_, TP_OP_ANY_DTYPE, io_, attrs_, infer_, gradient_, TP__KERNELS(kernel_, NULL, NULL), \
            tp__flops_none, NULL, rest_)

/* One field of an op's schema of attributes, and the last entry of a schema. */
#define TP__ATTR(type_, kind_, field_)                       \
    {                                                        \
        "" #field_, TP_ATTR_##kind_, offsetof(type_, field_) \
    }
#define TP__ATTRS_END        \
    {                        \
        NULL, TP_ATTR_INT, 0 \
    }

static const tp_op tp__op_poison = TP__ROW("poison", "Poison", TP_OP_SOURCE, TP__IO(0, 1), TP__NO_ATTRS, NULL, NULL,
                                           TP__NO_KERNEL, TP__FLOPS(NULL), TP__NO_ONNX);

TP_DEF tp_graph *tp_graph_new(const tp_graph_config *config)
{
    tp_graph *g = (tp_graph *)tp_calloc(1, sizeof *g);
    if (!g) return NULL;
    g->seed = (uint64_t)tp__int_option(config ? (int64_t)config->seed : 0, 42);
    g->error = "";
    g->poison_op.graph = g;
    g->poison_op.row = &tp__op_poison;
    g->poison_op.name = "poison";
    g->poison_op.id = -1;
    g->poison_op.n_out = 1;
    g->poison_op.out = &g->poison;
    g->poison_op.in = g->poison_in;
    g->poison.op = &g->poison_op;
    g->poison.dtype = TP_F32;
    g->name_scope[0] = "";
    g->n_name_scope = 1;
    g->var_scope[0].prefix = "";
    g->var_scope[0].reuse = TP_REUSE_NO;
    g->n_var_scope = 1;
    g->n_device = 1;
    g->lock = tp_mutex_new();
    if (!g->lock) {
        tp_graph_free(g);
        return NULL;
    }
    return g;
}

/* The last name that tp_graph_find or tp_find_variable did not find in this thread, and the graph that was searched. */
static TP__THREAD_LOCAL char tp__not_found[96];
static TP__THREAD_LOCAL const tp_graph *tp__not_found_in;
static void tp__remember_missing(const tp_graph *g, const char *name)
{
    tp__format(tp__not_found, sizeof tp__not_found, "%.95s", name);
    tp__not_found_in = g;
}

static void tp__graph_destroy(tp_graph *g)
{
    if (tp__not_found_in == g) tp__not_found[0] = 0;
    for (int i = 0; i < g->collection.n; i++) {
        tp__collection *c = (tp__collection *)g->collection.item[i];
        tp_free((void *)c->list.item);
    }
    tp_free((void *)g->op.item);
    tp_free((void *)g->var.item);
    tp_free((void *)g->collection.item);
    tp__map_free(&g->by_name);
    tp__map_free(&g->used);
    tp__map_free(&g->var_by_name);
    tp__map_free(&g->slot);
    tp__map_free(&g->cached_scope);
    tp__map_free(&g->auto_reuse);
    tp_free((void *)g->query);
    tp_free(g->ancestor);
    tp_mutex_free(g->lock);
    tp_free(g->infer_in);
    tp_free(g->infer_out);
    tp_arena_free(&g->arena);
    tp_free(g);
}

static void tp__graph_delete(tp_graph *g)
{
    if (!g) return;
    tp_mutex_lock(g->lock);
    const bool twice = g->freed, is_last_user = g->n_session == 0;
    g->freed = true;
    tp_mutex_unlock(g->lock);
    if (twice) tp_fail(TP_ERR_STATE, "tp_graph_free: this graph was freed already; it stays until its sessions are");
    else if (is_last_user) tp__graph_destroy(g);
}
TP_DEF void tp_graph_free(tp_graph *g)
{
    if (g && tp__may_free(&g->owner_, __func__, "the graph")) tp__graph_delete(g);
}

/* Adds `by` (1 or -1) to the number of the graph's sessions. */
static void tp__graph_sessions(tp_graph *g, int by)
{
    tp_mutex_lock(g->lock);
    g->n_session += by;
    const bool is_last_user = g->freed && g->n_session == 0;
    tp_mutex_unlock(g->lock);
    if (is_last_user) tp__graph_destroy(g);
}

/* A NULL graph is treated as a graph with a mistake, so the code below need not check for NULL. Its poison node is tp__no_node; a
 * builder returns it if none of its arguments has a graph. When a builder gets tp__no_node together with a node of a graph, that
 * graph keeps the sentence of the mistake. */
static const tp_operation tp__no_operation = {
    NULL, &tp__op_poison, "poison", -1, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, {NULL, 0},
};
static const tp_node tp__no_node = {(tp_operation *)(uintptr_t)&tp__no_operation, 0, TP_F32, {0, {0}}};
/* The sentence of the mistake for which a builder last returned tp__no_node in this thread. */
static TP__THREAD_LOCAL char tp__no_node_sentence[256];
static TP__THREAD_LOCAL bool tp__no_node_unplaced; /* the place in the source is not known yet */

#define TP__PLACE_TEXT 256
/* the beginning of a sentence: "train.c:12: ", or "" */
static const char *tp__place_text(const tp_at *at, char text[TP__PLACE_TEXT])
{
    const char *base = at && at->file ? strrchr(at->file, '/') : NULL;
    text[0] = 0;
    if (at && at->file) tp__format(text, TP__PLACE_TEXT, "%s:%d: ", base ? base + 1 : at->file, at->line);
    return text;
}

/* The same check as TP__REQUIRE, but the mistake is recorded in the graph. */
#define TP__GRAPH_REQUIRE(g_, cond_, ret_)                                                              \
    if (!(cond_)) {                                                                                     \
        tp__graph_misuse((g_), TP__HAS_SENTENCES ? __func__ : NULL, TP__HAS_SENTENCES ? #cond_ : NULL); \
        return ret_;                                                                                    \
    }
static void tp__graph_misuse(tp_graph *g, const char *function, const char *needs)
{
#ifdef TP_NO_SENTENCES
    (void)function, (void)needs;
    (void)(tp_graph_fail)(g, NULL, TP_ERR_ARG, NULL);
#else
    tp__words w;
    tp__misuse_in_words(&w, function, needs);
    tp_graph_fail(g, NULL, TP_ERR_ARG, "%s", w.text);
#endif
}
static tp_graph *tp__list_graph(tp_node *const *xs, int n)
{
    tp_graph *g = NULL;
    for (int i = 0; xs && i < n && !g; i++) g = tp_node_graph(xs[i]);
    return g;
}

static bool tp__is_broken(const tp_graph *g) { return !g || g->status != TP_OK; }

TP_DEF tp_status tp_graph_status(const tp_graph *g)
{
    return g ? g->status : tp_fail(TP_ERR_ARG, "there is no graph: it is NULL");
}
TP_DEF const char *tp_graph_error(const tp_graph *g) { return g ? g->error : "there is no graph: it is NULL"; }
TP_DEF uint64_t tp_graph_seed(const tp_graph *g)
{
    TP__REQUIRE(g, 0)
    return g->seed;
}
TP_DEF bool tp_is_poison(const tp_node *n) { return !n || n->op->row == &tp__op_poison; }
/* Why the call failed that made this poison node. */
TP__UNUSED static const char *tp__poison_reason(const tp_node *n)
{
    const char *sentence = n->op->graph ? tp_graph_error(n->op->graph) : tp__no_node_sentence;
    return sentence[0] ? sentence : "no reason is known";
}
TP_DEF tp_node *tp_poison(tp_graph *g) { return g ? &g->poison : (tp_node *)(uintptr_t)&tp__no_node; }
TP_DEF tp_graph *tp_node_graph(const tp_node *n) { return n ? n->op->graph : NULL; }
TP_DEF void tp_graph_set_at(tp_graph *g, tp_at at)
{
    TP__REQUIRE(g, )
    g->at = at;
}
TP_DEF int tp_graph_n_operations(const tp_graph *g)
{
    TP__REQUIRE(g, 0)
    return g->op.n;
}
TP_DEF tp_operation *tp_graph_operation(const tp_graph *g, int i)
{
    TP__REQUIRE(g && i >= 0 && i < g->op.n, NULL)
    return (tp_operation *)g->op.item[i];
}
TP_DEF int tp_graph_n_variables(const tp_graph *g)
{
    TP__REQUIRE(g, 0)
    return g->var.n;
}
TP_DEF tp_variable *tp_graph_variable(const tp_graph *g, int i)
{
    TP__REQUIRE(g && i >= 0 && i < g->var.n, NULL)
    return (tp_variable *)g->var.item[i];
}
TP_DEF void tp_graph_finalize(tp_graph *g)
{
    TP__REQUIRE(g, )
    g->finalized = true;
}
TP_DEF const char *tp_node_name(const tp_node *n)
{
    TP__REQUIRE(n, "")
    return n->op->name;
}

/* only the first mistake is kept, because later ones mostly follow from it */
TP_DEF tp_node *(tp_graph_fail)(tp_graph *g, const tp_at *at, tp_status status, const char *fmt, ...)
{
    if (g && g->status != TP_OK) return &g->poison;
    char text[768], place[TP__PLACE_TEXT];
    va_list ap;
    va_start(ap, fmt);
    tp__vformat(text, sizeof text, fmt ? fmt : TP__NO_TEXT(status), ap);
    va_end(ap);
    if ((!at || !at->file) && g) at = &g->at;
    (tp_fail)(status, "%s%s", tp__place_text(at, place), text);
    if (!g) {
        tp__no_node_unplaced = !place[0];
        tp__format(tp__no_node_sentence, sizeof tp__no_node_sentence, "%.255s", tp_last_error());
        return tp_poison(NULL);
    }
    g->status = status;
    g->unplaced = !place[0];
    g->error = tp_arena_strdup(&g->arena, tp_last_error());
    if (!g->error) g->error = "out of memory while an error was reported";
    return &g->poison;
}

/* Gives the place `at` to the graph's mistake and to each new operation, unless they have one already. */
static void tp__graph_place(tp_graph *g, const tp_at *at)
{
    char place[TP__PLACE_TEXT];
    if (g->status != TP_OK && g->unplaced) {
        const bool is_last_error = strcmp(tp_last_error(), g->error) == 0;
        const char *sentence = tp_arena_printf(&g->arena, "%s%s", tp__place_text(at, place), g->error);
        if (sentence) g->error = sentence;
        if (is_last_error) (tp_fail)(g->status, "%s", g->error);
        g->unplaced = false;
    }
    for (; g->n_placed < g->op.n; g->n_placed++) {
        tp_operation *o = (tp_operation *)g->op.item[g->n_placed];
        if (!o->at.file) o->at = *at;
    }
}

/* The operations added so far do not get the place of the builder called next. */
TP__UNUSED static void tp__graph_fix_places(tp_graph *g) { g->n_placed = g->op.n; }

TP_DEF tp_node *tp__node_at(tp_node *n, const char *file, int line)
{
    tp_at at;
    at.file = file;
    at.line = line;
    tp_graph *g = tp_node_graph(n);
    if (g) tp__graph_place(g, &at);
    if (n != tp_poison(NULL) || !tp__no_node_unplaced) return n;
    char sentence[sizeof tp__no_node_sentence], place[TP__PLACE_TEXT];
    const bool is_last_error = strcmp(tp_last_error(), tp__no_node_sentence) == 0;
    memcpy(sentence, tp__no_node_sentence, sizeof sentence);
    tp__format(tp__no_node_sentence, sizeof tp__no_node_sentence, "%.100s%.150s", tp__place_text(&at, place), sentence);
    if (is_last_error) (tp_fail)(TP_ERR_ARG, "%s", tp__no_node_sentence);
    tp__no_node_unplaced = false;
    return n;
}

TP_DEF tp_graph *tp__graph_at(tp_graph *g, const char *file, int line)
{
    tp_at at;
    at.file = file;
    at.line = line;
    if (g) tp__graph_place(g, &at);
    return g;
}

static tp_node *tp__graph_nomem(tp_graph *g)
{
    if (g && g->status == TP_OK) {
        g->status = tp_fail(TP_ERR_NOMEM, "out of memory while the graph was built");
        g->error = "out of memory while the graph was built";
    }
    return tp_poison(g);
}

TP_DEF void *tp_graph_alloc(tp_graph *g, size_t size)
{
    TP__REQUIRE(g, NULL)

    void *p = tp_arena_alloc(&g->arena, size ? size : 1);
    if (!p) tp__graph_nomem(g);
    return p;
}

TP_DEF char *tp_graph_strdup(tp_graph *g, const char *s)
{
    TP__REQUIRE(g && s, NULL)

    char *p = tp_arena_strdup(&g->arena, s);
    if (!p) tp__graph_nomem(g);
    return p;
}

/* A pointer per graph and key for headers that include this one (argscope, registries); NULL at first. */
TP__UNUSED static void **tp__graph_slot(tp_graph *g, const char *key)
{
    void **p = (void **)tp__map_get(&g->slot, key);
    if (p) return p;
    p = (void **)tp_graph_alloc(g, sizeof *p);
    const char *k = tp_graph_strdup(g, key);
    if (!p || !k || !tp__map_put(&g->slot, k, (void *)p)) {
        tp__graph_nomem(g);
        return NULL;
    }
    return p;
}

/* Registers a pointer that another header changes during building (for example its innermost scope), so that each tower of
 * tp_build_on_towers has its own value of *p. It is NULL in towers that were suspended before this call. */
TP__UNUSED static void tp__graph_keep(tp_graph *g, void **p)
{
    if (g->n_kept < TP__MAX_KEPT) g->kept[g->n_kept++] = p;
    else tp_graph_fail(g, NULL, TP_ERR_STATE, "more than %d pointers are to be kept for each tower", TP__MAX_KEPT);
}

/* -- names of operations and scopes */

static bool tp__name_valid(const char *s)
{
    if (!s || !*s) return false;
    for (; *s; s++) {
        char c = *s;
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
              c == '-' || c == '/' || c == '(' || c == ')' || c == ' '))
            return false;
    }
    return true;
}

/* Returns scope/name made unique by a suffix _1, _2, ...; NULL after an error. */
static const char *tp__unique_name(tp_graph *g, const char *scope, const char *name)
{
    const char *full = *scope ? tp_arena_printf(&g->arena, "%s/%s", scope, name) : tp_arena_strdup(&g->arena, name);
    if (!full) return tp__graph_nomem(g), (const char *)NULL;
    const char *unique = full;
    /* 1 + the number of suffixes (_1, _2, ...) that were given to this name; 0: the name is free */
    uintptr_t next = (uintptr_t)tp__map_get(&g->used, full);
    if (next) {
        do {
            unique = tp_arena_printf(&g->arena, "%s_%lu", full, (unsigned long)next);
            if (!unique) return tp__graph_nomem(g), (const char *)NULL;
            next++;
        } while (tp__map_get(&g->used, unique));
        if (!tp__map_put(&g->used, full, (void *)next)) return tp__graph_nomem(g), (const char *)NULL;
        if (!tp__map_put(&g->used, unique, (void *)(uintptr_t)1)) return tp__graph_nomem(g), (const char *)NULL;
        return unique;
    }
    if (!tp__map_put(&g->used, full, (void *)(uintptr_t)1)) return tp__graph_nomem(g), (const char *)NULL;
    return unique;
}

TP_DEF const char *tp_name_scope(const tp_graph *g)
{
    TP__REQUIRE(g, "")
    return g->name_scope[g->n_name_scope - 1];
}

static void tp__name_scope_enter(tp_graph *g, const char *full)
{
    if (g->n_name_scope == TP__MAX_SCOPES) {
        tp_graph_fail(g, NULL, TP_ERR_STATE, "name scopes are nested more than %d deep at '%s': is one left open?",
                      TP__MAX_SCOPES, full);
        return;
    }
    g->name_scope[g->n_name_scope++] = full;
}

TP_DEF tp_graph *tp_name_scope_push(tp_graph *g, const char *name)
{
    TP__REQUIRE(g, g)

    size_t n = name ? strlen(name) : 0;
    const char *full = "";
    if (n == 0) {
        full = "";
    } else if (name[n - 1] == '/') { /* the name ends with "/": enter this scope itself, from the root */
        char *copy = tp_graph_strdup(g, name);
        if (copy) copy[n - 1] = 0;
        full = copy ? copy : "";
        if (*full && !tp__map_get(&g->used, full) && !tp__map_put(&g->used, full, (void *)(uintptr_t)1))
            tp__graph_nomem(g);
    } else {
        if (!tp__name_valid(name))
            tp_graph_fail(g, NULL, TP_ERR_NAME, "'%s' is no name for a scope: use letters, digits, '_', '.', '-'",
                          name);
        full = g->status == TP_OK ? tp__unique_name(g, tp_name_scope(g), name) : "";
        if (!full) full = "";
    }
    tp__name_scope_enter(g, full);
    return g;
}

TP_DEF tp_graph *tp_name_scope_pop(tp_graph *g)
{
    TP__REQUIRE(g, g)

    if (g->n_name_scope <= 1) {
        tp_graph_fail(g, NULL, TP_ERR_STATE, "a name scope is closed that was never opened");
        return g;
    }
    g->n_name_scope--;
    return g;
}

TP_DEF tp_graph *tp_cached_name_scope_push(tp_graph *g, const char *name, bool top_level)
{
    TP__GRAPH_REQUIRE(g, g && name && *name, g)

    const char *outer = top_level ? "" : tp_name_scope(g);
    const char *key = tp_arena_printf(&g->arena, "%s|%s", outer, name);
    if (!key) tp__graph_nomem(g), key = "";
    const char *full = (const char *)tp__map_get(&g->cached_scope, key);
    if (!full) {
        full = tp__unique_name(g, outer, name);
        if (!full || !tp__map_put(&g->cached_scope, key, (void *)(uintptr_t)full)) tp__graph_nomem(g), full = "";
    }
    tp__name_scope_enter(g, full);
    return g;
}

TP_DEF tp_graph *tp_under_name_scope_push(tp_graph *g, const char *function, const char *name)
{
    TP__GRAPH_REQUIRE(g, g && function, g)

    if (!name) {
        tp_name_scope_push(g, function);
        return g;
    }
    tp_cached_name_scope_push(g, name, false);
    const char *is = tp_name_scope(g);
    const size_t a = strlen(is), b = strlen(name);
    if (a < b || strcmp(is + a - b, name) != 0)
        tp_log(TP_LOG_WARN, "name scope '%s' is taken: %s runs in '%s'", name, function, is);
    return g;
}

/* Splits "op" or "op:0": returns the length of the operation's name; *index: the output. The index has one digit, as in
 * tensorpack. */
static size_t tp__split_name(const char *name, int *index)
{
    const size_t n = strlen(name);
    *index = 0;
    if (n < 3 || name[n - 2] != ':' || name[n - 1] < '0' || name[n - 1] > '9') return n;
    *index = name[n - 1] - '0';
    return n - 2;
}

/* -- names that are not found, and similar names that exist */

/* A search for the name most similar to a misspelled one: begin with {wanted, NULL, 0}, then call tp__nearest_try for each
 * name. */
typedef struct tp__nearest {
    const char *wanted, *name;
    int distance;
} tp__nearest;

/* The edit distance of a and b: inserted, deleted, changed characters and swapped neighbours; `max_distance` + 1 if it is larger than
 * `max_distance`, or if a name has 128 characters or more. */
static int tp__edit_distance(const char *a, const char *b, int max_distance)
{
    int row[3][128]; /* distances for the last three prefixes of a, in rotation */
    const int na = (int)strlen(a), nb = (int)strlen(b);
    if (na > 127 || nb > 127 || na - nb > max_distance || nb - na > max_distance) return max_distance + 1;
    for (int i = 0; i <= na; i++)
        for (int j = 0; j <= nb; j++) {
            const int *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];
            int d = i == 0 ? j : i; /* if either prefix is empty, the distance is the length of the other */
            if (i > 0 && j > 0) {
                d = up[j - 1] + (a[i - 1] != b[j - 1]);
                if (d > up[j] + 1) d = up[j] + 1;
                if (d > row[i % 3][j - 1] + 1) d = row[i % 3][j - 1] + 1;
                if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d > up2[j - 2] + 1)
                    d = up2[j - 2] + 1;
            }
            row[i % 3][j] = d;
        }
    return row[na % 3][nb] <= max_distance ? row[na % 3][nb] : max_distance + 1;
}

static bool tp__equal_without_case(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        const char x = *a >= 'A' && *a <= 'Z' ? (char)(*a + 32) : *a, y = *b >= 'A' && *b <= 'Z' ? (char)(*b + 32) : *b;
        if (x != y) return false;
    }
    return *a == *b;
}

/* How different two names are; -1: not similar. Similar are names that differ in upper and lower case (0); a name and its last part,
 * "tower0/cost" and "cost", or a layer and its output, "fc0" and "fc0/output" (1); a name of three characters or more and one that
 * goes on after it, "wrong" and "wrong_vector" (2); names of which at most a third would have to change. */
static int tp__name_distance(const char *wanted, const char *name)
{
    const bool wanted_is_longer = strlen(wanted) > strlen(name);
    const char *longer = wanted_is_longer ? wanted : name, *shorter = wanted_is_longer ? name : wanted;
    const size_t n = strlen(longer), m = strlen(shorter), over = n - m;
    const int max_distance = (int)n / 3 + (strlen(wanted) < 3);
    const bool begins = m > 0 && strncmp(longer, shorter, m) == 0;
    if (tp__equal_without_case(wanted, name)) return 0;
    if (over > 1 && longer[over - 1] == '/' && strcmp(longer + over, shorter) == 0) return 1;
    if (begins && strcmp(longer + m, "/output") == 0) return 1;
    const int d = tp__edit_distance(wanted, name, max_distance);
    if (begins && m >= 3 && strchr("/_-.", longer[m]) && (d > 2 || d > max_distance)) return 2;
    return d <= max_distance ? d : -1;
}

/* Keeps the most similar name, and of equally similar ones the first. */
TP__UNUSED static void tp__nearest_try(tp__nearest *n, const char *name)
{
    if (!TP__HAS_SENTENCES || !n->wanted || !name || !*name) return;
    const int d = tp__name_distance(n->wanted, name);
    if (d < 0 || (n->name && d >= n->distance)) return;
    n->name = name;
    n->distance = d;
}

#define TP__NEAREST_TEXT 160
/* The end of an error sentence: "; did you mean 'x'?", or "" */
TP__UNUSED static const char *tp__nearest_text(const tp__nearest *n, char text[TP__NEAREST_TEXT])
{
    text[0] = 0;
    if (TP__HAS_SENTENCES && n->name) tp__format(text, TP__NEAREST_TEXT, "; did you mean '%s'?", n->name);
    return text;
}

/* The text of tp__nearest_text for the name of a node ("cost", "cost:0") or variable that does not exist. */
TP__UNUSED static const char *tp__node_near(const tp_graph *g, const char *name, char text[TP__NEAREST_TEXT])
{
    char op[512]; /* longer names are not compared */
    int index;
    tp__nearest n;
    memset(&n, 0, sizeof n);
    tp__format(op, sizeof op, "%.*s", (int)tp__split_name(name, &index), name);
    n.wanted = op;
    for (int i = 0; i < g->op.n; i++) tp__nearest_try(&n, ((const tp_operation *)g->op.item[i])->name);
    /* these include the names that an importer gives to nodes, see tp__importer_findable */
    for (size_t i = 0; i < g->by_name.cap; i++)
        if (g->by_name.key[i]) tp__nearest_try(&n, g->by_name.key[i]);
    return tp__nearest_text(&n, text);
}
TP__UNUSED static const char *tp__variable_near(const tp_graph *g, const char *name, char text[TP__NEAREST_TEXT])
{
    char op[512]; /* longer names are not compared */
    int index;
    tp__nearest n;
    memset(&n, 0, sizeof n);
    tp__format(op, sizeof op, "%.*s", (int)tp__split_name(name, &index), name);
    n.wanted = op;
    for (int i = 0; i < g->var.n; i++) tp__nearest_try(&n, ((const tp_variable *)g->var.item[i])->name);
    return tp__nearest_text(&n, text);
}

/* Warns if more operations were given the name of op and were therefore renamed to <name>_1, <name>_2, ... */
static void tp__warn_same_name(const tp_graph *g, const tp_operation *op)
{
    if (!TP__HAS_SENTENCES) return;
    const uintptr_t n_suffix = (uintptr_t)tp__map_get(&g->used, op->name);
    char name[512], place[TP__PLACE_TEXT], other_place[TP__PLACE_TEXT];
    for (uintptr_t i = 1; i < n_suffix; i++) {
        tp__format(name, sizeof name, "%s_%lu", op->name, (unsigned long)i);
        const tp_operation *other = (const tp_operation *)tp__map_get(&g->by_name, name);
        if (!other) continue;
        tp__place_text(&op->at, place);
        tp__place_text(&other->at, other_place);
        tp_log_once(TP_LOG_WARN, "The name '%s' was given more than once. It finds %s'%s'; not found: %s'%s'", op->name,
                    place, op->name, other_place, name);
        return;
    }
}

TP__UNUSED static tp_node *tp__node_named(const tp_graph *g, const char *name)
{
    int index;
    const size_t n = tp__split_name(name, &index);
    tp_operation *op = index ? (tp_operation *)tp__map_get(&g->by_name, name) : NULL;
    if (op) return &op->out[0]; /* a value that is called "split:1" in an imported file */
    op = (tp_operation *)tp__map_get_n(&g->by_name, name, n);
    if (op) tp__warn_same_name(g, op);
    return op && index < op->n_out ? &op->out[index] : NULL;
}

static tp_variable *tp__variable_named(const tp_graph *g, const char *name)
{
    int index;
    const size_t n = tp__split_name(name, &index);
    return index == 0 ? (tp_variable *)tp__map_get_n(&g->var_by_name, name, n) : NULL;
}

/* The end of an error sentence for a NULL node or variable, which explains that the last name looked up was not found in this
 * graph: "; was 'cots' meant? There is no node of that name; did you mean 'cost'?". "" if it was found, or exists by now. The
 * next call does not see this name. */
#define TP__MISSING_TEXT (2 * TP__NEAREST_TEXT)
static const char *tp__missing(const tp_graph *g, bool variable, char text[TP__MISSING_TEXT])
{
    char near[TP__NEAREST_TEXT], name[sizeof tp__not_found];
    text[0] = near[0] = 0;
    if (!TP__HAS_SENTENCES) return text;
    tp__format(name, sizeof name, "%s", tp__not_found);
    tp__not_found[0] = 0;
    if (!name[0] || (g && g != tp__not_found_in)) return text;
    if (g && (variable ? tp__variable_named(g, name) != NULL : tp__node_named(g, name) != NULL)) return text;
    if (g && variable) tp__variable_near(g, name, near);
    else if (g) tp__node_near(g, name, near);
    tp__format(text, TP__MISSING_TEXT, "; was '%s' meant? There is no %s of that name%s", name,
               variable ? "variable" : "node", near);
    return text;
}
static const char *tp__node_missing(const tp_graph *g, char text[TP__MISSING_TEXT])
{
    return tp__missing(g, false, text);
}

TP_DEF tp_operation *tp_graph_find_operation(const tp_graph *g, const char *name)
{
    TP__REQUIRE(g && name, NULL)

    tp_operation *op = (tp_operation *)tp__map_get(&g->by_name, name);
    char near[TP__NEAREST_TEXT];
    if (!op) tp_fail(TP_ERR_NAME, "there is no operation '%s' in the graph%s", name, tp__node_near(g, name, near));
    return op;
}

TP_DEF tp_node *tp_graph_find(const tp_graph *g, const char *name)
{
    TP__REQUIRE(g && name, NULL)
    const tp_tower_context *tower = tp_current_tower_context(g);
    char near[TP__NEAREST_TEXT], in_tower[512];
    tp_node *n = NULL;
    if (tower && tower->ns_name && tower->ns_name[0] &&
        tp__format(in_tower, sizeof in_tower, "%s/%s", tower->ns_name, name) < (int)sizeof in_tower)
        n = tp__node_named(g, in_tower);
    if (!n) n = tp__node_named(g, name);
    if (!n) {
        tp_fail(TP_ERR_NAME, "there is no node '%s' in the graph%s", name, tp__node_near(g, name, near));
        /* if the caller passes this NULL on, the error there tells the name that was not found: see tp__missing */
        tp__remember_missing(g, name);
    }
    return n;
}

/* -- operations */

/* Whether the library gave an operation of this row its name: "fc0/MatMul" and "fc0/MatMul_1" of the label "MatMul". */
static bool tp__is_default_name(const char *name, const tp_op *row)
{
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    const char *label = row->label ? row->label : row->name;
    const size_t n = strlen(label);
    if (strcmp(last, row->name) == 0) return true;
    if (strncmp(last, label, n) != 0) return false;
    return !last[n] || (last[n] == '_' && last[n + 1] && !last[n + 1 + strspn(last + n + 1, "0123456789")]);
}

TP_DEF tp_status(tp_infer_fail)(tp_infer *s, tp_status status, const char *fmt, ...)
{
    TP__REQUIRE(s && (fmt || !TP__HAS_SENTENCES), TP_ERR_ARG)
    if (!TP__HAS_SENTENCES && !fmt) return (tp_fail)(status, NULL);

    char text[640];
    va_list ap;
    va_start(ap, fmt);
    tp__vformat(text, sizeof text, fmt ? fmt : " ", ap);
    va_end(ap);
    /* a sentence that begins with the op ("matmul: shapes ..", "matmul does not ..") would name it twice after its default name */
    const char *op = s->op && s->op->name ? s->op->name : "", *name = s->name ? s->name : op, *rest = text;
    const size_t n = strlen(op);
    if (n && strncmp(text, op, n) == 0 && tp__is_default_name(name, s->op)) rest += n;
    if (rest > text && (*rest == ':' || *rest == ' ')) return tp_fail(status, "%s%s", name, rest);
    return tp_fail(status, "%s: %s", name, text);
}

/* The largest product that a value's dimensions, zeros left out, may have, so that computations with shapes cannot overflow. */
#define TP__VALUE_MAX ((int64_t)1 << 48)
static bool tp__shape_fits(const tp_shape *s)
{
    int64_t n = 1;
    if (s->ndim < 0 || s->ndim > TP_MAX_DIMS) return false;
    for (int d = 0; d < s->ndim; d++) {
        if (s->dim[d] < TP_ANY || s->dim[d] > TP__VALUE_MAX / n) return false;
        if (s->dim[d] > 1) n *= s->dim[d];
    }
    return true;
}

/* Calls the row's shape rule, and checks that its results are valid shapes. */
static tp_status tp__infer_types(tp_infer *s)
{
    const unsigned before = tp__n_errors;
    const tp_status st = tp__add_missing_sentence(s->name, before, s->op->infer(s));
    const int n_row = s->op->n_out;
    char t[TP_SHAPE_TEXT];
    if (st == TP_OK && n_row > 0 && s->n_out != n_row)
        return tp_infer_fail(s, TP_ERR_ARG, "%s: its shape rule sets n_out to %d, but n_out of its row is %d",
                             s->op->name, s->n_out, n_row);
    if (st == TP_OK && (s->n_out < 1 || s->n_out > TP_MAX_OUTPUTS))
        return tp_infer_fail(s, TP_ERR_ARG, "%s: its shape rule sets n_out to %d: an op has 1 to %d outputs",
                             s->op->name, s->n_out, TP_MAX_OUTPUTS);
    for (int i = 0; i < s->n_out && st == TP_OK; i++)
        if (s->out[i].shape.ndim < 0 || s->out[i].shape.ndim > TP_MAX_DIMS)
            return tp_infer_fail(s, TP_ERR_SHAPE, "%s: the ndim of its shape would be %d: it must be from 0 to %d",
                                 s->op->name, s->out[i].shape.ndim, TP_MAX_DIMS);
    for (int i = 0; i < s->n_out && st == TP_OK; i++)
        for (int d = 0; d < s->out[i].shape.ndim; d++)
            if (s->out[i].shape.dim[d] < TP_ANY)
                return tp_infer_fail(s, TP_ERR_SHAPE,
                                     "%s: dimension %d would be %lld: it must be at least 0, or TP_ANY", s->op->name, d,
                                     (long long)s->out[i].shape.dim[d]);
    for (int i = 0; i < s->n_out && st == TP_OK; i++)
        if (!tp__shape_fits(&s->out[i].shape))
            return tp_infer_fail(s, TP_ERR_SHAPE, "%s: output %d would have the shape %s, larger than any memory",
                                 s->op->name, i, tp_shape_text(&s->out[i].shape, t));
    return st;
}

/* An estimate of the work of an operation from its shapes alone: FLOPs plus elements of its outputs and inputs. */
TP__UNUSED static double tp__operation_work(const tp_operation *o)
{
    enum { MOST = 64 };
    tp_operand x[MOST];
    tp_call k;
    double work = 0;
    memset(&k, 0, sizeof k);
    memset(x, 0, sizeof x);
    for (int i = 0; i < o->n_in + o->n_out; i++) {
        const tp_node *v = i < o->n_in ? o->in[i] : &o->out[i - o->n_in];
        const int64_t n = tp_shape_size(&v->shape);
        work += n > 0 ? (double)n : 0;
        if (i >= MOST) continue;
        x[i].dtype = v->dtype;
        x[i].shape = v->shape;
    }
    if (!o->row->flops || o->n_in + o->n_out > MOST || o->n_var) return work;
    k.op = o->row;
    k.attrs = o->attrs;
    k.in = x;
    k.n_in = o->n_in;
    k.out = x + o->n_in;
    k.n_out = o->n_out;
    return work + o->row->flops(&k);
}

static tp_status tp__infer_same(tp_infer *s)
{
    s->out[0] = s->in[0];
    return TP_OK;
}

/* Broadcasts the shapes of inputs first..first+n-1 as numpy does. An unknown dimension with 1 gives unknown, with k > 1 gives k. */
static tp_status tp__infer_broadcast(tp_infer *s, int first, int n, tp_shape *out)
{
    *out = s->in[first].shape;
    for (int i = first + 1; i < first + n; i++) {
        const tp_shape a = *out, *b = &s->in[i].shape;
        const int nd = a.ndim > b->ndim ? a.ndim : b->ndim;
        memset(out, 0, sizeof *out);
        out->ndim = nd;
        for (int d = 0; d < nd; d++) {
            const int64_t x = d < nd - a.ndim ? 1 : a.dim[d - (nd - a.ndim)];
            const int64_t y = d < nd - b->ndim ? 1 : b->dim[d - (nd - b->ndim)];
            if (x == y || y == 1) out->dim[d] = x;
            else if (x == 1) out->dim[d] = y;
            else if (x < 0) out->dim[d] = y;
            else if (y < 0) out->dim[d] = x;
            else {
                char ta[TP_SHAPE_TEXT], tb[TP_SHAPE_TEXT];
                return tp_infer_fail(s, TP_ERR_SHAPE, "%s: shapes %s and %s do not broadcast", s->op->name,
                                     tp_shape_text(&a, ta), tp_shape_text(b, tb));
            }
        }
    }
    return TP_OK;
}

static tp_status tp__infer_broadcast_same(tp_infer *s)
{
    for (int i = 1; i < s->n_in; i++)
        if (s->in[i].dtype != s->in[0].dtype)
            return tp_infer_fail(s, TP_ERR_DTYPE, "%s: element types %s and %s differ; tp_cast one of them",
                                 s->op->name, tp_dtype_name(s->in[0].dtype), tp_dtype_name(s->in[i].dtype));
    s->out[0].dtype = s->in[0].dtype;
    return tp__infer_broadcast(s, 0, s->n_in, &s->out[0].shape);
}

/* The caller owns the strings in attributes: the graph's copy of the attributes gets copies of them. */
static bool tp__attrs_own_strings(tp_graph *g, const tp_op *row, void *attrs)
{
    for (const tp_attr *a = row->attr; a && a->name; a++) {
        if (a->kind != TP_ATTR_STRING) continue;
        const char **p = (const char **)(void *)((char *)attrs + a->offset);
        if (*p && !(*p = tp_graph_strdup(g, *p))) return false;
    }
    return true;
}

/* Reports why x cannot be input i of an op, and returns the poison node; NULL: it can. */
static tp_node *tp__bad_input(tp_graph *g, const char *op, int i, const tp_node *x)
{
    if (!x) {
        char reason[TP__MISSING_TEXT];
        tp__node_missing(g, reason);
        return tp_graph_fail(g, NULL, TP_ERR_ARG, "%s: input %d is NULL%s", op, i,
                             reason[0] || !g || !g->in_tower ? reason
                                                             : " (a model has .n_inputs inputs in build_graph's `in`)");
    }
    if (x->op->graph == g) return tp_is_poison(x) ? tp_poison(g) : NULL;
    if (!x->op->graph)
        return tp_graph_fail(g, NULL, TP_ERR_ARG, "%s: input %d was not made: %s", op, i, tp__no_node_sentence);
    return tp_graph_fail(g, NULL, TP_ERR_ARG, "%s: input %d belongs to another graph", op, i);
}

/* Stores the types of inputs and variables in g->infer_in, and makes room for those of outputs. Returns NULL, or the poison node
 * after a mistake. */
static tp_node *tp__apply_types(tp_graph *g, const tp_apply_desc *d)
{
    const tp_op *row = d->row;
    if (g->finalized)
        return tp_graph_fail(g, NULL, TP_ERR_STATE,
                             "%s is added to a graph that is finalized: build it before the session", row->name);
    if (d->n_in < row->min_in || (row->max_in >= 0 && d->n_in > row->max_in))
        return tp_graph_fail(g, NULL, TP_ERR_ARG, "%s takes %d to %d inputs, not %d", row->name, row->min_in,
                             row->max_in, d->n_in);
    const int n_type = d->n_in + d->n_var;
    if (n_type > g->infer_in_cap) {
        tp_type *t = (tp_type *)tp_realloc(g->infer_in, (size_t)n_type * 2 * sizeof *t);
        if (!t) return tp__graph_nomem(g);
        g->infer_in = t;
        g->infer_in_cap = n_type * 2;
    }
    const int n_out = row->n_out > 0 ? row->n_out : TP_MAX_OUTPUTS;
    if (n_out > g->infer_out_cap) {
        tp_type *t = (tp_type *)tp_realloc(g->infer_out, (size_t)n_out * sizeof *t);
        if (!t) return tp__graph_nomem(g);
        g->infer_out = t;
        g->infer_out_cap = n_out;
    }
    for (int i = 0; i < d->n_in; i++) {
        const tp_node *x = d->in[i];
        tp_node *poison = tp__bad_input(g, row->name, i, x);
        if (poison) return poison;
        g->infer_in[i].dtype = x->dtype;
        g->infer_in[i].shape = x->shape;
    }
    for (int i = 0; i < d->n_var; i++) {
        const tp_variable *v = d->vars[i] && !tp_is_poison(d->vars[i]) ? tp_node_variable(d->vars[i]) : NULL;
        if (!v)
            return tp_graph_fail(g, NULL, TP_ERR_ARG, "%s: '%s' is not a variable, so it cannot be assigned", row->name,
                                 d->vars[i] ? d->vars[i]->op->name : "NULL");
        g->infer_in[d->n_in + i].dtype = v->dtype;
        g->infer_in[d->n_in + i].shape = v->shape;
    }
    return NULL;
}
/* Sets the fields of the operation except its outputs. Returns NULL, or the poison node after a mistake. */
static tp_node *tp__apply_fields(tp_graph *g, const tp_apply_desc *d, tp_operation *op)
{
    const tp_op *row = d->row;
    op->graph = g;
    op->row = row;
    op->at = g->at;
    op->device = tp_current_device(g);
    op->user = d->user;
    op->n_in = d->n_in;
    op->n_var = d->n_var;
    op->in = (tp_node **)tp_graph_alloc(g, (size_t)d->n_in * sizeof *op->in);
    op->var = (tp_variable **)tp_graph_alloc(g, (size_t)d->n_var * sizeof *op->var);
    op->attrs = tp_graph_alloc(g, row->attr_size);
    if (!op->in || !op->var || !op->attrs) return &g->poison;
    for (int i = 0; i < d->n_in; i++) op->in[i] = d->in[i];
    for (int i = 0; i < d->n_var; i++) {
        op->var[i] = tp_node_variable(d->vars[i]);
        if (op->var[i]->device != op->var[0]->device)
            return tp_graph_fail(g, NULL, TP_ERR_ARG,
                                 "%s: '%s' lives on device %d and '%s' on device %d: one op writes variables of one "
                                 "device",
                                 row->name, op->var[0]->name, op->var[0]->device, op->var[i]->name, op->var[i]->device);
    }
    if (d->n_var) op->device = op->var[0]->device;
    if (d->attrs && row->attr_size) {
        memcpy(op->attrs, d->attrs, row->attr_size);
        if (!tp__attrs_own_strings(g, row, op->attrs)) return &g->poison;
    }
    const char *label = d->name ? d->name : row->label;
    if (!tp__name_valid(label))
        return tp_graph_fail(g, NULL, TP_ERR_NAME, "'%s' is no name for %s: use letters, digits, '_', '.', '-', '/'",
                             label, row->name);
    op->name = tp__unique_name(g, tp_name_scope(g), label);
    if (!op->name) return &g->poison;
    op->stream = d->stream ? d->stream : tp_hash_name(op->name);
    return NULL;
}
/* Creates the outputs of the operation by the shape rule. Returns NULL, or the poison node after a mistake. */
static tp_node *tp__apply_outputs(tp_graph *g, tp_operation *op)
{
    const tp_op *row = op->row;
    tp_infer s;
    s.op = row;
    s.attrs = op->attrs;
    s.name = op->name;
    s.n_in = op->n_in;
    s.in = g->infer_in;
    s.n_var = op->n_var;
    s.var = op->n_var ? g->infer_in + op->n_in : NULL;
    s.n_out = row->n_out;
    s.out = g->infer_out;
    memset(g->infer_out, 0, (size_t)(row->n_out > 0 ? row->n_out : TP_MAX_OUTPUTS) * sizeof *g->infer_out);
    const tp_status st = tp__infer_types(&s);
    if (st != TP_OK) {
        char text[2048];
        tp__format(text, sizeof text, "%s", tp_last_error());
        return tp_graph_fail(g, NULL, st, "%s", text);
    }
    for (int i = 0; i < s.n_out; i++)
        if (tp_dtype_size(s.out[i].dtype) == 0)
            return op->n_in && !s.out[i].dtype
                       ? tp_graph_fail(g, NULL, TP_ERR_ARG, "%s: its shape rule sets no type of output %d: s->out[%d]",
                                       op->name, i, i)
                       : tp_graph_fail(g, NULL, TP_ERR_ARG, "%s: there is no such element type", op->name);
    op->n_out = s.n_out;
    op->out = (tp_node *)tp_graph_alloc(g, (size_t)s.n_out * sizeof *op->out);
    if (!op->out) return &g->poison;
    for (int i = 0; i < s.n_out; i++) {
        op->out[i].op = op;
        op->out[i].index = i;
        op->out[i].dtype = s.out[i].dtype;
        op->out[i].shape = s.out[i].shape;
    }
    return NULL;
}

/* Whether a row of the program names an attribute that is not within its struct. */
static bool tp__attrs_do_not_fit(const tp_op *row)
{
    for (const tp_attr *a = row->attr; a && a->name; a++)
        if (a->offset >= row->attr_size) return true;
    return false;
}

static bool tp__is_source(const tp_op *row);
/* Returns NULL, or the poison node if a row is wrong. */
static tp_node *tp__bad_row(tp_graph *g, const tp_op *row)
{
    if (!row->name || !row->label || !row->infer || row->n_out == 0 || row->n_out > TP_MAX_OUTPUTS)
        return tp_graph_fail(
            g, NULL, TP_ERR_ARG,
            "the row of op %s is not filled in: it needs name, label, infer (the shape rule) and n_out",
            row->name ? row->name : "without a name");
    if (tp__attrs_do_not_fit(row))
        return tp_graph_fail(g, NULL, TP_ERR_ARG,
                             "the row of op %s has attributes, but attr_size is %zu: it is the size of their struct",
                             row->name, row->attr_size);
    if (row->max_in >= 0 && row->min_in > row->max_in)
        return tp_graph_fail(
            g, NULL, TP_ERR_ARG,
            "the row of op %s has min_in %d and max_in %d: min_in is the least number of inputs, max_in "
            "the largest, -1 for any number",
            row->name, row->min_in, row->max_in);
    if ((row->flags & TP_OP_SOURCE) && !tp__is_source(row))
        return tp_graph_fail(g, NULL, TP_ERR_ARG,
                             "the row of op %s has the flag TP_OP_SOURCE, which is for placeholders, constants and "
                             "variables only: a row of your own has a kernel",
                             row->name);
    return NULL;
}

static const char *tp__maker_of(const tp_apply_desc *d);
TP_DEF tp_node *tp_apply_ex(tp_graph *g, const tp_apply_desc *d)
{
    TP__GRAPH_REQUIRE(g, d && d->row, tp_poison(g))
    const tp_op *row = d->row;
    if (g && g->status != TP_OK) return &g->poison;
    tp_node *poison = tp__bad_row(g ? g : tp__list_graph(d->in, d->n_in), row);
    if (poison) return poison;
    if (tp__maker_of(d))
        return tp_graph_fail(g, NULL, TP_ERR_ARG, "%s needs more than its attributes: %s makes one", row->name,
                             tp__maker_of(d));
    if (d->n_in < 0 || (d->n_in > 0 && !d->in) || d->n_var < 0 || (d->n_var > 0 && !d->vars))
        return tp_graph_fail(g, NULL, TP_ERR_ARG, "%s: the list of its inputs is NULL or shorter than none", row->name);
    /* inputs of several graphs are a mistake, which is recorded in the first input's graph */
    for (int i = 0; i < d->n_in && !g; i++) {
        g = tp_node_graph(d->in[i]);
        if (tp__is_broken(g)) continue;
        for (int j = 0; j < i; j++) return tp__bad_input(g, row->name, j, d->in[j]);
    }
    if (!g)
        return d->n_in ? tp__bad_input(g, row->name, 0, d->in[0])
                       : tp_graph_fail(g, NULL, TP_ERR_ARG, "%s: there is no graph: it is NULL", row->name);
    if ((poison = tp__apply_types(g, d))) return poison;
    tp_operation *op = (tp_operation *)tp_graph_alloc(g, sizeof *op);
    if (!op) return &g->poison;
    if ((poison = tp__apply_fields(g, d, op)) || (poison = tp__apply_outputs(g, op))) return poison;
    op->id = g->op.n;
    if (!tp__list_add(&g->op, op) || !tp__map_put(&g->by_name, op->name, op)) return tp__graph_nomem(g);
    return &op->out[0];
}

TP_DEF tp_node *tp_apply(tp_graph *g, const tp_op *row, tp_node *const *in, int n_in, const void *attrs)
{
    TP__GRAPH_REQUIRE(g, row, tp_poison(g))

    tp_apply_desc d;
    memset(&d, 0, sizeof d);
    d.row = row;
    d.in = in;
    d.n_in = n_in;
    d.attrs = attrs;
    return tp_apply_ex(g, &d);
}

/* Adds a control dependency: `op` runs after `before`; neither is the poison. A mistake if `before` was created after `op`, since
 * that could make a cycle. */
static void tp__add_control(tp_operation *op, tp_operation *before)
{
    tp_graph *g = op->graph;
    if (before->id >= op->id) {
        tp_graph_fail(g, NULL, TP_ERR_STATE, "'%s' cannot wait for '%s', which was made after it", op->name,
                      before->name);
        return;
    }
    tp_operation **c = (tp_operation **)tp_graph_alloc(g, (size_t)(op->n_ctrl + 1) * sizeof *c);
    if (!c) return;
    if (op->n_ctrl) memcpy(c, op->ctrl, (size_t)op->n_ctrl * sizeof *c);
    c[op->n_ctrl++] = before;
    op->ctrl = c;
    tp_free(g->ancestor); /* the new edge may change cached ancestors */
    g->ancestor = NULL;
}

/* -- helpers for op pages */

static tp_node *tp__op_named(const tp_op *row, tp_node *const *in, int n, const void *attrs, const char *name)
{
    tp_apply_desc d;
    memset(&d, 0, sizeof d);
    d.row = row;
    d.in = in;
    d.n_in = n;
    d.attrs = attrs;
    d.name = name;
    if (n < 1 || !in) return tp_graph_fail(NULL, NULL, TP_ERR_ARG, "%s: there are no inputs", row->name);
    return tp_apply_ex(tp_node_graph(in[0]), &d);
}

static tp_node *tp__opn(const tp_op *row, tp_node *const *in, int n, const void *attrs)
{
    return tp__op_named(row, in, n, attrs, NULL);
}

static tp_node *tp__op1(const tp_op *row, tp_node *x, const void *attrs) { return tp__opn(row, &x, 1, attrs); }

static tp_node *tp__op2(const tp_op *row, tp_node *a, tp_node *b, const void *attrs)
{
    tp_node *in[2];
    in[0] = a;
    in[1] = b;
    return tp__opn(row, in, 2, attrs);
}

static tp_node *tp__op3(const tp_op *row, tp_node *a, tp_node *b, tp_node *c, const void *attrs)
{
    tp_node *in[3];
    in[0] = a;
    in[1] = b;
    in[2] = c;
    return tp__opn(row, in, 3, attrs);
}

static int tp__axis(int axis, int ndim)
{
    if (axis < 0) axis += ndim;
    return axis >= 0 && axis < ndim ? axis : -1;
}

/* Returns the gradient of an operand that was broadcast: the sum back to the operand's shape. */
static tp_node *tp__unbroadcast(tp_node *dy, tp_node *ref)
{
    if (tp_shape_known(&dy->shape) && tp_shape_equal(&dy->shape, &ref->shape)) return dy;
    return tp_sum_to_like(dy, ref);
}

/* -- sources: placeholders, constants, variables. They have no kernel: the run provides their memory. */

static const tp_attr tp__source_schema[] = {TP__ATTR(tp__source_attrs, DTYPE, dtype),
                                            TP__ATTR(tp__source_attrs, SHAPE, shape), TP__ATTRS_END};

static tp_status tp__source_infer(tp_infer *s)
{
    const tp__source_attrs *a = (const tp__source_attrs *)s->attrs;
    s->out[0].dtype = a->dtype;
    s->out[0].shape = a->shape;
    return TP_OK;
}

static const tp_op tp__op_placeholder =
    TP__ROW("placeholder", "Placeholder", TP_OP_SOURCE, TP__IO(0, 1), TP__ATTRS(source), tp__source_infer, NULL,
            TP__NO_KERNEL, TP__FLOPS(NULL), TP__NO_ONNX);
static const tp_op tp__op_constant =
    TP__ROW("constant", "Const", TP_OP_SOURCE, TP__IO(0, 1), TP__ATTRS(source), tp__source_infer, NULL, TP__NO_KERNEL,
            TP__FLOPS(NULL), TP__ONNX("Constant"));
static const tp_op tp__op_variable =
    TP__ROW("variable", "VariableV2", TP_OP_SOURCE | TP_OP_READS_VAR, TP__IO(0, 1), TP__ATTRS(source), tp__source_infer,
            NULL, TP__NO_KERNEL, TP__FLOPS(NULL), TP__NO_ONNX);

static bool tp__is_source(const tp_op *row)
{
    return row == &tp__op_placeholder || row == &tp__op_constant || row == &tp__op_variable;
}

/* The function that makes what a desc describes without its memory: a constant without values, a variable without its fields; NULL: it
 * is complete. */
static const char *tp__maker_of(const tp_apply_desc *d)
{
    if (d->user) return NULL;
    return d->row == &tp__op_constant ? "tp_constant" : d->row == &tp__op_variable ? "tp_get_variable" : NULL;
}

TP_DEF tp_node *tp_placeholder(tp_graph *g, const char *name, tp_dtype dtype, tp_shape shape)
{
    TP__GRAPH_REQUIRE(g, g, tp_poison(g))

    tp__source_attrs a;
    tp_apply_desc d;
    memset(&d, 0, sizeof d);
    memset(&a, 0, sizeof a);
    a.dtype = dtype == TP_DTYPE_UNSET ? TP_F32 : dtype;
    a.shape = shape;
    d.row = &tp__op_placeholder;
    d.attrs = &a;
    d.name = name;
    return tp_apply_ex(g, &d);
}

TP_DEF tp_node *tp_constant(tp_graph *g, const tp_tensor *value)
{
    TP__GRAPH_REQUIRE(g, g && value && (value->data || tp_tensor_bytes(value) == 0), tp_poison(g))

    tp__source_attrs a;
    tp_apply_desc d;
    memset(&d, 0, sizeof d);
    memset(&a, 0, sizeof a);
    a.dtype = value->dtype;
    a.shape = value->shape;
    const size_t bytes = tp_tensor_bytes(value);
    char *data = (char *)tp_graph_alloc(g, bytes + 64);
    if (!data) return &g->poison;
    data += (64 - (uintptr_t)data % 64) % 64;
    if (bytes) memcpy(data, value->data, bytes);
    d.row = &tp__op_constant;
    d.attrs = &a;
    d.user = data;
    return tp_apply_ex(g, &d);
}

static tp_node *tp__const_as(tp_graph *g, tp_dtype dtype, tp__wide value)
{
    TP__GRAPH_REQUIRE(g, g && dtype > TP_DTYPE_UNSET && dtype < TP_DTYPE_COUNT, tp_poison(g))

    int64_t storage[1] = {0}; /* has room for an element of any type */
    tp_tensor t;
    tp_shape scalar;
    memset(&t, 0, sizeof t);
    memset(&scalar, 0, sizeof scalar);
    tp_tensor_view(&t, dtype, scalar, storage);
    if (tp__is_left_out(dtype))
        return tp_graph_fail(g, NULL, TP_ERR_UNSUPPORTED,
                             "this program was built with TP_ONLY_F32: no constant of type %s", tp_dtype_name(dtype));
    tp_convert(storage, dtype, &value, TP__WIDE_DTYPE, 1);
    return tp_constant(g, &t);
}

TP_DEF tp_node *tp_const_as(tp_graph *g, tp_dtype dtype, double value)
{
    return tp__const_as(g, dtype, (tp__wide)value);
}
TP_DEF tp_node *tp_const(tp_graph *g, float value) { return tp__const_as(g, TP_F32, (tp__wide)value); }

/* Replaces the name of a new node by a unique one; NULL: there was no memory for it. */
static tp_node *tp__rename(tp_node *y, const char *full)
{
    tp_graph *g = tp_node_graph(y);
    if (!full) return &g->poison;
    y->op->name = full;
    return tp__map_put(&g->by_name, full, y->op) ? y : tp__graph_nomem(g);
}

TP_DEF tp_node *tp_named(tp_node *x, const char *name)
{
    tp_node *y = tp_identity(x);
    if (tp_is_poison(y)) return y;
    tp_graph *g = tp_node_graph(x);
    if (!tp__name_valid(name))
        return tp_graph_fail(g, NULL, TP_ERR_NAME,
                             "'%s' is no name for a node: use letters, digits, '_', '.', '-', '/'",
                             name ? name : "NULL");
    /* tp_identity gave an automatic name: replace it by the wanted name */
    return tp__rename(y, tp__unique_name(g, tp_name_scope(g), name));
}

/* ==== >>scopes and variables ========================================================================== */

static tp__variable_scope *tp__top_scope(const tp_graph *g)
{
    return (tp__variable_scope *)(uintptr_t)&g->var_scope[g->n_var_scope - 1];
}

TP_DEF const char *tp_variable_scope(const tp_graph *g)
{
    TP__REQUIRE(g, "")
    return tp__top_scope(g)->prefix;
}
TP_DEF int tp_variable_scope_reuse(const tp_graph *g)
{
    TP__REQUIRE(g, TP_REUSE_NO)
    return tp__top_scope(g)->reuse;
}

TP_DEF tp_graph *tp_variable_scope_push(tp_graph *g, const tp_variable_scope_desc *d)
{
    TP__GRAPH_REQUIRE(g, g && d && d->reuse >= TP_REUSE_INHERIT && d->reuse <= TP_REUSE_AUTO, g)

    if (g->n_var_scope == TP__MAX_SCOPES) {
        tp_graph_fail(g, NULL, TP_ERR_STATE, "variable scopes are nested more than %d deep: is one left open?",
                      TP__MAX_SCOPES);
        return g;
    }
    const tp__variable_scope *top = tp__top_scope(g);
    tp__variable_scope s;
    memset(&s, 0, sizeof s);
    s.reuse = d->reuse == TP_REUSE_INHERIT ? top->reuse : d->reuse;
    /* as in TensorFlow, reuse of an outer scope cannot be undone inside */
    if (top->reuse == TP_REUSE_YES) s.reuse = TP_REUSE_YES;
    s.getter = d->getter;
    s.getter_user = d->getter_user;
    s.prefix = top->prefix;
    if (d->name && *d->name) {
        if (!tp__name_valid(d->name))
            tp_graph_fail(g, NULL, TP_ERR_NAME, "'%s' is no name for a scope: use letters, digits, '_', '.', '-'",
                          d->name);
        s.prefix = *top->prefix ? tp_arena_printf(&g->arena, "%s/%s", top->prefix, d->name)
                                : tp_arena_strdup(&g->arena, d->name);
        if (!s.prefix) tp__graph_nomem(g), s.prefix = "";
        if (!d->no_name_scope) {
            const int before = g->n_name_scope;
            tp_name_scope_push(g, d->name);
            s.has_name_scope = g->n_name_scope > before;
        }
    }
    g->var_scope[g->n_var_scope++] = s;
    return g;
}

TP_DEF tp_graph *tp_variable_scope_pop(tp_graph *g)
{
    TP__REQUIRE(g, g)

    if (g->n_var_scope <= 1) {
        tp_graph_fail(g, NULL, TP_ERR_STATE, "a variable scope is closed that was never opened");
        return g;
    }
    if (tp__top_scope(g)->has_name_scope) tp_name_scope_pop(g);
    g->n_var_scope--;
    return g;
}

/* -- devices */

TP_DEF int tp_current_device(const tp_graph *g)
{
    TP__REQUIRE(g, 0)
    return g->device[g->n_device - 1];
}

TP_DEF tp_graph *tp_device_enter(tp_graph *g, int device)
{
    TP__REQUIRE(g, g)

    if (device < 0)
        tp_graph_fail(g, NULL, TP_ERR_ARG, "there is no device %d: the devices of a session are numbered from 0",
                      device);
    if (g->n_device == TP__MAX_SCOPES) {
        tp_graph_fail(g, NULL, TP_ERR_STATE, "device scopes are nested more than %d deep: is one left open?",
                      TP__MAX_SCOPES);
        return g;
    }
    g->device[g->n_device++] = device < 0 ? 0 : device;
    return g;
}

TP_DEF tp_graph *tp_device_leave(tp_graph *g)
{
    TP__REQUIRE(g, g)

    if (g->n_device <= 1) {
        tp_graph_fail(g, NULL, TP_ERR_STATE, "a device scope is closed that was never opened");
        return g;
    }
    g->n_device--;
    return g;
}

/* -- collections */

static tp__collection *tp__find_collection(const tp_graph *g, const char *key)
{
    for (int i = 0; i < g->collection.n; i++) {
        tp__collection *c = (tp__collection *)g->collection.item[i];
        if (strcmp(c->key, key) == 0) return c;
    }
    return NULL;
}

/* A mistake: `key` is the name of a TP_KEY_ constant instead of its value, such as "SUMMARIES" for TP_KEY_SUMMARIES. Returns that
 * constant's name and sets *value to its value; NULL: `key` is no such name. */
static const char *tp__key_macro(const char *key, const char **value)
{
    static const char *const keys[][2] = {{"TP_KEY_GLOBAL_VARIABLES", TP_KEY_GLOBAL_VARIABLES},
                                          {"TP_KEY_LOCAL_VARIABLES", TP_KEY_LOCAL_VARIABLES},
                                          {"TP_KEY_TRAINABLE_VARIABLES", TP_KEY_TRAINABLE_VARIABLES},
                                          {"TP_KEY_MODEL_VARIABLES", TP_KEY_MODEL_VARIABLES},
                                          {"TP_KEY_UPDATE_OPS", TP_KEY_UPDATE_OPS},
                                          {"TP_KEY_REGULARIZATION_LOSSES", TP_KEY_REGULARIZATION_LOSSES},
                                          {"TP_KEY_SUMMARIES", TP_KEY_SUMMARIES}};
    for (int i = 0; i < TP_COUNT(keys); i++)
        if (strcmp(keys[i][0], key) == 0 || strcmp(keys[i][0] + strlen("TP_KEY_"), key) == 0) {
            *value = keys[i][1];
            return keys[i][0];
        }
    return NULL;
}

TP_DEF tp_graph *tp_collection_add(tp_graph *g, const char *key, tp_node *n)
{
    TP__GRAPH_REQUIRE(g, g && key && n, g)

    const char *value = "", *macro = tp__key_macro(key, &value);
    if (macro) {
        tp_graph_fail(g, NULL, TP_ERR_NAME, "collection '%s': write the constant %s, which is \"%s\"", key, macro,
                      value);
        return g;
    }
    if (tp_is_poison(n)) return g;
    tp__collection *c = tp__find_collection(g, key);
    if (!c) {
        c = (tp__collection *)tp_graph_alloc(g, sizeof *c);
        if (!c || !(c->key = tp_graph_strdup(g, key))) return g;
        if (!tp__list_add(&g->collection, c)) {
            tp__graph_nomem(g);
            return g;
        }
    }
    if (!tp__list_add(&c->list, n)) tp__graph_nomem(g);
    return g;
}

TP_DEF tp_node *const *tp_collection(const tp_graph *g, const char *key, int *n)
{
    if (n) *n = 0;
    TP__REQUIRE(g && key && n, NULL)

    const tp__collection *c = tp__find_collection(g, key);
    const char *value = "", *macro = c ? NULL : tp__key_macro(key, &value);
    if (macro)
        tp_log_once(TP_LOG_WARN, "there is no collection '%s': write the constant %s, which is \"%s\"", key, macro,
                    value);
    *n = c ? c->list.n : 0;
    return c ? (tp_node *const *)(void *)c->list.item : NULL;
}

TP_DEF tp_collection_backup *tp_backup_collection(tp_graph *g, const char *const *keys, int n_keys)
{
    TP__REQUIRE(g && (!keys || n_keys >= 0), NULL)

    const int n = keys ? n_keys : g->collection.n;
    tp_collection_backup *b = (tp_collection_backup *)tp_graph_alloc(g, sizeof *b);
    if (!b) return NULL;
    b->key = (const char **)tp_graph_alloc(g, (size_t)n * sizeof *b->key);
    b->item = (tp_node ***)tp_graph_alloc(g, (size_t)n * sizeof *b->item);
    b->n_item = (int *)tp_graph_alloc(g, (size_t)n * sizeof *b->n_item);
    if (!b->key || !b->item || !b->n_item) return NULL;
    b->all = keys == NULL;
    b->n = n;
    for (int i = 0; i < n; i++) {
        const char *key = keys ? keys[i] : ((tp__collection *)g->collection.item[i])->key;
        const tp__collection *c = tp__find_collection(g, key);
        b->key[i] = tp_graph_strdup(g, key);
        b->n_item[i] = c ? c->list.n : 0;
        b->item[i] = (tp_node **)tp_graph_alloc(g, (size_t)b->n_item[i] * sizeof(tp_node *));
        if (!b->key[i] || !b->item[i]) return NULL;
        for (int j = 0; j < b->n_item[i]; j++) b->item[i][j] = (tp_node *)c->list.item[j];
    }
    return b;
}

TP_DEF void tp_restore_collection(tp_graph *g, const tp_collection_backup *b)
{
    TP__REQUIRE(g, )

    if (!b) return;
    for (int i = 0; b->all && i < g->collection.n; i++) ((tp__collection *)g->collection.item[i])->list.n = 0;
    for (int i = 0; i < b->n; i++) {
        tp__collection *c = tp__find_collection(g, b->key[i]);
        if (c) c->list.n = 0;
        for (int j = 0; j < b->n_item[i]; j++) tp_collection_add(g, b->key[i], b->item[i][j]);
    }
}

/* -- variables */

TP_DEF tp_variable *tp_node_variable(const tp_node *n)
{
    return n && n->op->row == &tp__op_variable ? n->op->var[0] : NULL;
}

TP_DEF tp_variable *tp_find_variable(const tp_graph *g, const char *name)
{
    TP__REQUIRE(g && name, NULL)
    tp_variable *v = tp__variable_named(g, name);
    char near[TP__NEAREST_TEXT];
    if (!v) {
        tp_fail(TP_ERR_NAME, "there is no variable '%s' in the graph%s", name, tp__variable_near(g, name, near));
        /* if the caller passes this NULL on, the error there tells the name that was not found: see tp__missing */
        tp__remember_missing(g, name);
    }
    return v;
}

/* Whether a regularizer gave a scalar for `name`; else the graph has the sentence. A poison node has its own. */
static bool tp__is_regularizer_loss(tp_graph *g, const tp_at *at, const char *name, const tp_node *loss)
{
    char t[TP_SHAPE_TEXT];
    if (!loss) tp_graph_fail(g, at, TP_ERR, "the regularizer of '%s' gave no node", name);
    else if (!tp_is_poison(loss) && !tp_dtype_is_float(loss->dtype))
        tp_graph_fail(g, at, TP_ERR_DTYPE, "the regularizer of '%s' gives %s, it must give a float", name,
                      tp_dtype_name(loss->dtype));
    else if (!tp_is_poison(loss) && loss->shape.ndim != 0)
        tp_graph_fail(g, at, TP_ERR_SHAPE, "the regularizer of '%s' gives %s %s: it must give a scalar, take its sum",
                      name, tp_dtype_name(loss->dtype), tp_shape_text(&loss->shape, t));
    else return !tp_is_poison(loss);
    return false;
}

static tp_node *tp__new_variable(tp_graph *g, const tp_variable_desc *d, const char *full)
{
    tp__source_attrs a;
    memset(&a, 0, sizeof a);
    a.dtype = d->dtype == TP_DTYPE_UNSET ? TP_F32 : d->dtype;
    a.shape = d->shape;
    if (!tp_shape_known(&a.shape)) {
        char t[TP_SHAPE_TEXT];
        return tp_graph_fail(g, NULL, TP_ERR_SHAPE, "variable '%s' has shape %s: every dimension must be known", full,
                             tp_shape_text(&a.shape, t));
    }
    if (tp_shape_size(&a.shape) > ((int64_t)1 << 40)) {
        char t[TP_SHAPE_TEXT];
        return tp_graph_fail(g, NULL, TP_ERR_SHAPE, "variable '%s' of shape %s is too large", full,
                             tp_shape_text(&a.shape, t));
    }
    tp_variable *v = (tp_variable *)tp_graph_alloc(g, sizeof *v);
    tp_apply_desc ad;
    memset(&ad, 0, sizeof ad);
    if (!v) return &g->poison;
    ad.row = &tp__op_variable;
    ad.attrs = &a;
    ad.user = v;
    ad.name = full;
    if (tp__map_get(&g->used, full))
        return tp_graph_fail(g, NULL, TP_ERR_NAME, "the name '%s' of a variable is already that of another node", full);
    tp__name_scope_enter(g, ""); /* a variable's name has its variable scope, not the name scope */
    tp_node *n = tp_apply_ex(g, &ad);
    tp_name_scope_pop(g);
    if (tp_is_poison(n)) return &g->poison;
    n->op->var = (tp_variable **)tp_graph_alloc(g, sizeof *n->op->var);
    if (!n->op->var) return &g->poison;
    n->op->var[0] = v;
    v->graph = g;
    v->name = n->op->name;
    v->node = n;
    v->dtype = a.dtype;
    v->shape = a.shape;
    v->init = d->init;
    v->trainable = d->trainable != TP_NO;
    v->local = d->local;
    v->id = g->var.n;
    v->device = n->op->device;
    if (v->init.kind == TP_INIT_UNSET)
        v->init = tp_dtype_is_float(v->dtype) ? tp_init_glorot_uniform() : tp_init_zeros();
    if (v->init.kind == TP_INIT_VALUES) {
        if (v->init.n_values != tp_shape_size(&v->shape))
            return tp_graph_fail(g, NULL, TP_ERR_SHAPE, "variable '%s' has %lld elements, its initial values are %lld",
                                 full, (long long)tp_shape_size(&v->shape), (long long)v->init.n_values);
        if (v->init.n_values && !v->init.values)
            return tp_graph_fail(g, NULL, TP_ERR_ARG, "the initial values of variable '%s' are NULL", full);
        float *copy = (float *)tp_graph_alloc(g, (size_t)v->init.n_values * sizeof(float));
        if (!copy) return &g->poison;
        if (v->init.n_values) memcpy(copy, v->init.values, (size_t)v->init.n_values * sizeof(float));
        v->init.values = copy;
    }
    if (!tp__list_add(&g->var, v) || !tp__map_put(&g->var_by_name, v->name, v)) return tp__graph_nomem(g);
    tp_collection_add(g, v->local ? TP_KEY_LOCAL_VARIABLES : TP_KEY_GLOBAL_VARIABLES, n);
    if (v->trainable) tp_collection_add(g, TP_KEY_TRAINABLE_VARIABLES, n);
    if (d->collection) tp_collection_add(g, d->collection, n);
    if (d->regularizer.fn && d->regularizer.scale != 0.0f) {
        tp_name_scope_push(g, "Regularizer");
        tp_node *loss = d->regularizer.fn(n, d->regularizer.scale);
        tp_name_scope_pop(g);
        if (tp__is_regularizer_loss(g, NULL, full, loss)) tp_collection_add(g, TP_KEY_REGULARIZATION_LOSSES, loss);
        else return &g->poison;
    }
    return n;
}

struct tp_getter_call {
    tp_graph *g;
    /* getters of variable scopes are called from the innermost outwards; those at this level or above have been
     * called */
    int level;
};

TP_DEF tp_node *tp_getter_next(tp_getter_call *call, tp_variable_desc *d)
{
    TP__GRAPH_REQUIRE(NULL, call && d, tp_poison(NULL))

    tp_graph *g = call->g;
    for (int i = call->level - 1; i >= 0; i--) {
        if (!g->var_scope[i].getter) continue;
        tp_getter_call next;
        next.g = g;
        next.level = i;
        tp_node *n = g->var_scope[i].getter(&next, d, g->var_scope[i].getter_user);
        return n ? n
                 : tp_graph_fail(g, NULL, TP_ERR_ARG, "the getter of variable scope '%s' returned NULL for '%s'",
                                 g->var_scope[i].prefix, d->name);
    }
    const tp__variable_scope *top = tp__top_scope(g);
    if (!tp__name_valid(d->name))
        return tp_graph_fail(g, NULL, TP_ERR_NAME,
                             "'%s' is no name for a variable: use letters, digits, '_', '.', '-', '/'",
                             d->name ? d->name : "NULL");
    const char *full = *top->prefix ? tp_arena_printf(&g->arena, "%s/%s", top->prefix, d->name) : d->name;
    if (!full) return tp__graph_nomem(g);
    tp_variable *v = (tp_variable *)tp__map_get(&g->var_by_name, full);
    if (!v) {
        if (top->reuse == TP_REUSE_YES) {
            char near[TP__NEAREST_TEXT];
            return tp_graph_fail(g, NULL, TP_ERR_NAME,
                                 "variable '%s' does not exist, and this scope only reuses variables%s", full,
                                 tp__variable_near(g, full, near));
        }
        return tp__new_variable(g, d, full);
    }
    if (top->reuse == TP_REUSE_NO)
        return tp_graph_fail(g, NULL, TP_ERR_NAME,
                             "variable '%s' exists already: give it or its layer another name, or open its scope with "
                             ".reuse = TP_REUSE_AUTO",
                             full);
    const tp_dtype dtype = d->dtype == TP_DTYPE_UNSET ? TP_F32 : d->dtype;
    if (!tp_shape_equal(&v->shape, &d->shape) || v->dtype != dtype) {
        char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
        return tp_graph_fail(g, NULL, TP_ERR_SHAPE, "variable '%s' is %s %s, but it is reused as %s %s", full,
                             tp_dtype_name(v->dtype), tp_shape_text(&v->shape, a), tp_dtype_name(dtype),
                             tp_shape_text(&d->shape, b));
    }
    return v->node;
}

static void tp__getter_push(tp_graph *g, tp_getter_fn fn, const void *user, size_t size)
{
    tp_variable_scope_desc d;
    void *copy = tp_graph_alloc(g, size);
    memset(&d, 0, sizeof d);
    d.no_name_scope = true;
    if (copy) {
        memcpy(copy, user, size);
        d.getter = fn;
        d.getter_user = copy;
    }
    tp_variable_scope_push(g, &d);
}

typedef struct tp__remap {
    tp_node *(*fn)(tp_node *var, void *user);
    void *user;
    bool inside; /* fn is running: what it gets itself is not remapped */
} tp__remap;
static tp_node *tp__remap_getter(tp_getter_call *call, tp_variable_desc *d, void *user)
{
    tp__remap *r = (tp__remap *)user;
    tp_node *v = tp_getter_next(call, d);
    if (r->inside || tp_is_poison(v)) return v;
    r->inside = true;
    v = r->fn(v, r->user);
    r->inside = false;
    return v;
}
TP_DEF tp_graph *tp_remap_variables_push(tp_graph *g, tp_node *(*fn)(tp_node *var, void *user), void *user)
{
    TP__REQUIRE(g, g)

    tp__remap r;
    memset(&r, 0, sizeof r);
    r.fn = fn;
    r.user = user;
    if (!fn) tp_graph_fail(g, NULL, TP_ERR_ARG, "remap_variables: the function is NULL");
    tp__getter_push(g, fn ? tp__remap_getter : NULL, &r, sizeof r);
    return g;
}

/* Whether the function of a tp_remap_variables_push runs now: then it is this function that asks for a variable. */
static bool tp__remap_runs(const tp_graph *g)
{
    bool runs = false;
    for (int i = 0; i < g->n_var_scope; i++)
        runs =
            runs || (g->var_scope[i].getter == tp__remap_getter && ((tp__remap *)g->var_scope[i].getter_user)->inside);
    return runs;
}

static tp_node *tp__freeze_getter(tp_getter_call *call, tp_variable_desc *d, void *user)
{
    const bool *flags = (const bool *)user; /* flags[0]: the option stop_gradient; flags[1]: skip_collection */
    const bool trained = d->trainable != TP_NO;
    const int n_before = call->g->var.n;
    if (trained && flags[1]) d->trainable = TP_NO;
    tp_node *v = tp_getter_next(call, d);
    tp_graph *g = call->g;
    if (!trained || tp_is_poison(v)) return v;
    if ((flags[0] || flags[1]) && g->var.n > n_before && tp__remap_runs(g)) /* mostly meant to be trained */
        tp_log(
            TP_LOG_WARN,
            "freeze_variables: '%s', which the function of tp_remap_variables_push makes, is frozen too. To train it, "
            "make it before the variables are frozen, and let the function return what it makes of "
            "tp_find_variable(g, name)->node",
            tp_node_name(v));
    tp_variable *var = tp_node_variable(v);
    if (!var) tp_log(TP_LOG_WARN, "freeze_variables: '%s' is a tensor that another getter made", tp_node_name(v));
    if (var && flags[1]) {
        int n = 0;
        bool in_collection = false;
        tp_node *const *model = tp_collection(g, TP_KEY_MODEL_VARIABLES, &n);
        for (int i = 0; i < n; i++) in_collection = in_collection || model[i] == v;
        if (!in_collection) tp_collection_add(g, TP_KEY_MODEL_VARIABLES, v);
    }
    if (!flags[0]) return v;
    if (var) var->frozen = true;
    const char *name = tp_arena_printf(&g->arena, "freezed_%s", tp_node_name(v));
    return name ? tp_named(tp_stop_gradient(v), name) : tp__graph_nomem(g);
}
TP_DEF tp_graph *tp_freeze_variables_(tp_graph *g, const tp_freeze_variables_desc *d)
{
    return tp_freeze_variables_push(g, !d || d->stop_gradient != TP_NO, d && d->skip_collection == TP_YES);
}

TP_DEF tp_graph *tp_freeze_variables_push(tp_graph *g, bool stop_gradient, bool skip_collection)
{
    TP__REQUIRE(g, g)

    bool flags[2];
    flags[0] = stop_gradient, flags[1] = skip_collection;
    tp__getter_push(g, tp__freeze_getter, flags, sizeof flags);
    return g;
}

TP_DEF tp_graph *tp_auto_reuse_variable_scope_push(tp_graph *g, const char *function)
{
    TP__GRAPH_REQUIRE(g, g && function, g)

    tp_variable_scope_desc d;
    memset(&d, 0, sizeof d);
    d.no_name_scope = true;
    const char *key = tp_arena_printf(&g->arena, "%s@%s", function, tp_variable_scope(g));
    if (!key) tp__graph_nomem(g);
    else if (tp__map_get(&g->auto_reuse, key)) d.reuse = TP_REUSE_YES;
    else if (!tp__map_put(&g->auto_reuse, key, g)) tp__graph_nomem(g);
    tp_variable_scope_push(g, &d);
    return g;
}
TP_DEF tp_graph *tp_under_variable_scope_push(tp_graph *g, const char *function)
{
    TP__GRAPH_REQUIRE(g, g && function, g)

    tp_variable_scope_desc d;
    memset(&d, 0, sizeof d);
    d.name = function;
    tp_variable_scope_push(g, &d);
    return g;
}

TP_DEF tp_node *tp_get_variable(tp_graph *g, const tp_variable_desc *d)
{
    TP__GRAPH_REQUIRE(g, g && d, tp_poison(g))

    if (g->status != TP_OK) return &g->poison;
    tp_variable_desc copy = *d;
    tp_getter_call call;
    call.g = g;
    call.level = g->n_var_scope;
    return tp_getter_next(&call, &copy);
}

TP_DEF tp_node *tp_get_variable_as(tp_graph *g, const char *name, tp_dtype dtype, tp_shape shape, tp_init init)
{
    TP__GRAPH_REQUIRE(g, g, tp_poison(g))

    tp_variable_desc d;
    memset(&d, 0, sizeof d);
    d.name = name;
    d.dtype = dtype;
    d.shape = shape;
    d.init = init;
    return tp_get_variable(g, &d);
}

TP_DEF tp_node *tp_get_scalar_variable(tp_graph *g, const char *name, float init)
{
    TP__GRAPH_REQUIRE(g, g && name, tp_poison(g))
    tp_variable_desc d;
    memset(&d, 0, sizeof d);
    d.name = name;
    d.init = tp_init_constant(init);
    d.trainable = TP_NO;
    tp_node *n = tp_get_variable(g, &d);
    const tp_variable *v = tp_node_variable(n);
    if (v && (v->init.kind != TP_INIT_CONSTANT || tp__float_bits(v->init.a) != tp__float_bits(init)))
        return tp_graph_fail(
            g, NULL, TP_ERR_ARG,
            "scalar variable '%s' exists with another initial value than %g: reuse it with the same value, "
            "or give it another name or variable scope",
            v->name, (double)init);
    return n;
}

TP_DEF tp_node *tp_get_global_step_var(tp_graph *g)
{
    TP__GRAPH_REQUIRE(g, g, tp_poison(g))

    if (g->status != TP_OK) return &g->poison;
    const tp_variable *v = tp__variable_named(g, "global_step");
    if (v) return v->node;
    tp_variable_desc d;
    memset(&d, 0, sizeof d);
    d.dtype = TP_I64;
    d.init = tp_init_zeros();
    d.trainable = TP_NO;
    return tp__new_variable(g, &d, "global_step");
}

TP_DEF void tp_graph_describe_variables(tp_graph *g, tp_buf *out)
{
    TP__REQUIRE(g && out, )

    int n = 0, count = 0;
    double total = 0, bytes = 0;
    size_t width = 4;
    char t[TP_SHAPE_TEXT];
    tp_node *const *vars = tp_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n);
    for (int i = 0; i < n; i++) {
        const size_t w = strlen(vars[i]->op->name);
        if (strncmp(vars[i]->op->name, "tower", 5) != 0 && w > width) width = w;
    }
    tp_buf_printf(out, "%-*s  %-16s %10s\n", (int)width, "name", "shape", "#elements");
    for (int i = 0; i < n; i++) {
        const tp_variable *v = tp_node_variable(vars[i]);
        if (!v || strncmp(v->name, "tower", 5) == 0) continue; /* skip a tower's own copy of a variable */
        const int64_t size = tp_shape_size(&v->shape);
        tp_buf_printf(out, "%-*s  %-16s %10lld\n", (int)width, v->name, tp_shape_text(&v->shape, t), (long long)size);
        count++;
        total += (double)size;
        bytes += (double)size * (double)tp_dtype_size(v->dtype);
    }
    tp_buf_printf(out,
                  "Number of trainable variables: %d\nNumber of parameters (elements): %.0f\nStorage space needed for "
                  "all trainable variables: %.2f MB\n",
                  count, total, bytes / 1048576.0);
}

/* Computes for each operation id whether it is an ancestor of the targets, or a target. The last result is cached.
 * NULL: out of memory. */
static const char *tp__ancestors(tp_graph *g, tp_node *const *targets, int n)
{
    if (g->ancestor && g->n_query == n &&
        memcmp((void *)g->query, (const void *)targets, (size_t)n * sizeof *targets) == 0)
        return g->ancestor;
    char *seen = (char *)tp_calloc((size_t)g->op.n + 1, 1);
    tp_node **query = (tp_node **)tp_malloc((size_t)n * sizeof *query);
    tp_free((void *)g->query);
    tp_free(g->ancestor);
    g->query = query;
    g->ancestor = seen;
    g->n_query = n;
    g->query_op = g->op.n;
    if (!seen || !query) {
        tp_free((void *)query);
        tp_free(seen);
        g->query = NULL;
        g->ancestor = NULL;
        return NULL;
    }
    memcpy((void *)query, (const void *)targets, (size_t)n * sizeof *query);
    for (int i = 0; i < n; i++)
        if (targets[i] && targets[i]->op->id >= 0) seen[targets[i]->op->id] = 1;
    for (int id = g->op.n - 1; id >= 0; id--) { /* inputs are created before the operations that read them */
        if (!seen[id]) continue;
        const tp_operation *o = (const tp_operation *)g->op.item[id];
        for (int i = 0; i < o->n_in; i++) seen[o->in[i]->op->id] = 1;
        for (int i = 0; i < o->n_ctrl; i++) seen[o->ctrl[i]->id] = 1;
    }
    return seen;
}

TP_DEF void tp_graph_to_dot(tp_graph *g, tp_node *const *targets, int n, tp_buf *out)
{
    TP__REQUIRE(g && (targets || n <= 0) && out, )

    char t[TP_SHAPE_TEXT];
    tp_mutex_lock(g->lock);
    const char *seen = targets && n > 0 ? tp__ancestors(g, targets, n) : NULL;
    const int count = seen ? g->query_op : g->op.n;
    tp_buf_printf(out, "digraph tp {\n  node [shape=box, fontsize=10];\n");
    /* the names of the graph's operations have no character that must be escaped */
    for (int id = 0; id < count; id++) {
        const tp_operation *o = (const tp_operation *)g->op.item[id];
        if (seen && !seen[id]) continue;
        const bool variable = o->row == &tp__op_variable;
        tp_buf_printf(out, "  n%d [label=\"%s\\n%s", id, o->name, o->row->name);
        if (o->n_out) tp_buf_printf(out, " %s", tp_shape_text(&o->out[0].shape, t));
        tp_buf_printf(out, "\"%s];\n", variable ? ", shape=cylinder" : "");
        for (int i = 0; i < o->n_in; i++) {
            tp_buf_printf(out, "  n%d -> n%d", o->in[i]->op->id, id);
            if (o->in[i]->index) tp_buf_printf(out, " [taillabel=\"%d\"]", o->in[i]->index);
            tp_buf_printf(out, ";\n");
        }
        for (int i = 0; i < o->n_ctrl; i++) tp_buf_printf(out, "  n%d -> n%d [style=dotted];\n", o->ctrl[i]->id, id);
        for (int i = 0; i < o->n_var && !variable; i++)
            tp_buf_printf(out, "  n%d -> n%d [style=dashed, dir=back];\n", o->var[i]->node->op->id, id);
    }
    tp_buf_printf(out, "}\n");
    tp_mutex_unlock(g->lock);
}

/* -- initial values */

static tp_init tp__init_make(int kind, float a, float b)
{
    tp_init i;
    memset(&i, 0, sizeof i);
    i.kind = kind;
    i.a = a;
    i.b = b;
    return i;
}

TP_DEF tp_init tp_init_constant(float value) { return tp__init_make(TP_INIT_CONSTANT, value, 0); }
TP_DEF tp_init tp_init_zeros(void) { return tp_init_constant(0.0f); }
TP_DEF tp_init tp_init_ones(void) { return tp_init_constant(1.0f); }
TP_DEF tp_init tp_init_normal(float mean, float stddev) { return tp__init_make(TP_INIT_NORMAL, mean, stddev); }
TP_DEF tp_init tp_init_truncated_normal(float mean, float stddev)
{
    return tp__init_make(TP_INIT_TRUNCATED_NORMAL, mean, stddev);
}
TP_DEF tp_init tp_init_uniform(float low, float high) { return tp__init_make(TP_INIT_UNIFORM, low, high); }

TP_DEF tp_init tp_init_variance_scaling(float scale, tp_fan_mode mode, tp_distribution distribution)
{
    tp_init i = tp__init_make(TP_INIT_VARIANCE_SCALING, scale, 0);
    i.mode = (int)mode;
    i.distribution = (int)distribution;
    return i;
}

TP_DEF tp_init tp_init_glorot_uniform(void) { return tp_init_variance_scaling(1.0f, TP_FAN_AVG, TP_DIST_UNIFORM); }

TP_DEF tp_init tp_init_values(const float *values, int64_t n)
{
    tp_init i = tp__init_make(TP_INIT_VALUES, 0, 0);
    i.values = values;
    i.n_values = n;
    return i;
}

/* Replaces variance scaling by a normal, truncated normal or uniform distribution for the fans of the shape. */
static tp_init tp__init_resolve(const tp_init *init, const tp_shape *s)
{
    if (init->kind != TP_INIT_VARIANCE_SCALING) return *init;
    tp__wide fan_in = 1, fan_out = 1, field = 1;
    if (s->ndim == 1) fan_in = fan_out = tp__wide_of(s->dim[0]);
    if (s->ndim >= 2) {
        for (int d = 0; d < s->ndim - 2; d++) field *= tp__wide_of(s->dim[d]);
        fan_in = field * tp__wide_of(s->dim[s->ndim - 2]);
        fan_out = field * tp__wide_of(s->dim[s->ndim - 1]);
    }
    tp__wide n = init->mode == TP_FAN_OUT ? fan_out : init->mode == TP_FAN_AVG ? (fan_in + fan_out) / 2 : fan_in;
    if (n < 1) n = 1;
    const tp__wide scale = (tp__wide)init->a;
    if (init->distribution == TP_DIST_UNIFORM) {
        const float limit = (float)TP__WIDE_SQRT(3 * scale / n);
        return tp_init_uniform(-limit, limit);
    }
    if (init->distribution == TP_DIST_NORMAL) return tp_init_normal(0.0f, (float)TP__WIDE_SQRT(scale / n));
    /* truncation multiplies the deviation by this factor */
    return tp_init_truncated_normal(0.0f, (float)(TP__WIDE_SQRT(scale / n) / (tp__wide).87962566103423978));
}

/* Fills a tensor in pieces, which threads can share. */
#define TP__FILL_PIECE 8192
typedef struct tp__init_job {
    tp_init init;
    const struct tp__isa *isa;
    uint64_t key;
    tp_tensor *t;
} tp__init_job;

/* Converts the first element, then doubles the filled part by copying it. Speed matters here: the zeros of optimizer slots can be
 * twice the size of the model. */
static void tp__fill_constant(char *out, tp_dtype dtype, tp__wide value, int64_t n)
{
    const size_t size = tp_dtype_size(dtype), all = (size_t)n * size;
    if (n > 0) tp_convert(out, dtype, &value, TP__WIDE_DTYPE, 1);
    for (size_t done = size; done < all; done *= 2) memcpy(out + done, out, done < all - done ? done : all - done);
}

static void tp__fill_chunk(void *user, int64_t chunk)
{
    const tp__init_job *f = (const tp__init_job *)user;
    const int64_t i0 = chunk * TP__FILL_PIECE, all = tp_tensor_size(f->t);
    const int64_t n = all - i0 < TP__FILL_PIECE ? all - i0 : TP__FILL_PIECE;
    char *out = (char *)f->t->data + (size_t)i0 * tp_dtype_size(f->t->dtype);
    const tp__wide a = (tp__wide)f->init.a;
    if (f->init.kind == TP_INIT_VALUES) tp_convert(out, f->t->dtype, f->init.values + i0, TP_F32, n);
    else if (f->init.kind == TP_INIT_CONSTANT) tp__fill_constant(out, f->t->dtype, a, n);
    else
        tp__random_values(f->isa,
                          f->init.kind == TP_INIT_UNIFORM  ? TP__UNIFORM
                          : f->init.kind == TP_INIT_NORMAL ? TP__NORMAL
                                                           : TP__TRUNCATED,
                          a, (tp__wide)f->init.b, f->key, 0, 1, i0, n, f->t->dtype, out);
}

static tp_status tp__init_fill(tp_device *d, const tp_init *init, uint64_t seed, const char *name, tp_tensor *t)
{
    tp__init_job f;
    const int64_t n = tp_tensor_size(t), chunks = (n + TP__FILL_PIECE - 1) / TP__FILL_PIECE;
    f.init = tp__init_resolve(init, &t->shape);
    f.isa = d ? d->isa : NULL;
    f.key = tp_random_key(seed, tp_hash_name(name));
    f.t = t;
    if (f.init.kind < TP_INIT_CONSTANT || f.init.kind > TP_INIT_VALUES)
        return tp_fail(TP_ERR_ARG, "'%s' has an initialiser of unknown kind %d", name, f.init.kind);
    if (f.init.kind == TP_INIT_VALUES && f.init.n_values != n)
        return tp_fail(TP_ERR_SHAPE, "'%s' has %lld elements, its initial values are %lld", name, (long long)n,
                       (long long)f.init.n_values);
    if (d) tp_device_parallel(d, chunks, tp__fill_chunk, &f);
    else
        for (int64_t i = 0; i < chunks; i++) tp__fill_chunk(&f, i);
    return TP_OK;
}

TP_DEF tp_status tp_init_fill(const tp_init *init, uint64_t seed, const char *name, tp_tensor *t)
{
    TP__REQUIRE(init && name && t, TP_ERR_ARG)

    return tp__init_fill(NULL, init, seed, name, t);
}

/* ==== >>towers and towers' functions ================================================================== */

static const char *const tp__frozen_keys[] = {TP_KEY_SUMMARIES, TP_KEY_MOVING_SUMMARY_OPS, TP_KEY_UPDATE_OPS};

TP_DEF const tp_tower_context *tp_current_tower_context(const tp_graph *g)
{
    TP__REQUIRE(g, NULL)
    return g->in_tower ? &g->tower : NULL;
}

TP_DEF const tp_tower_context *tp_tower_enter(tp_graph *g, const tp_tower_desc *d)
{
    TP__REQUIRE(g && d, NULL)

    const char *name = d->name ? d->name : "", *vs = d->vs_name ? d->vs_name : "";
    const int total = d->total ? d->total : 1;
    if (g->in_tower) {
        tp_graph_fail(
            g, NULL, TP_ERR_STATE,
            "cannot nest tower contexts: leave '%s' before entering '%s'. In build_graph the tower is open already",
            g->tower.ns_name, name);
        return NULL;
    }
    if (*vs && !*name) {
        tp_graph_fail(g, NULL, TP_ERR_ARG, "a tower with variable scope '%s' needs a name", vs);
        return NULL;
    }
    const bool reuse = tp_variable_scope_reuse(g) == TP_REUSE_YES;
    if (d->is_training) {
        if (d->index < 0 || d->index >= total) {
            tp_graph_fail(g, NULL, TP_ERR_ARG, "tower '%s' has index %d of %d", name, d->index, total);
            return NULL;
        }
        if (*tp_variable_scope(g)) {
            tp_graph_fail(g, NULL, TP_ERR_STATE,
                          "training tower '%s' must be entered at the root variable scope, not in '%s'", name,
                          tp_variable_scope(g));
            return NULL;
        }
        if (*vs && reuse) {
            tp_graph_fail(g, NULL, TP_ERR_STATE,
                          "training tower '%s' has a variable scope of its own, so it cannot reuse variables", name);
            return NULL;
        }
    }
    memset(&g->tower, 0, sizeof g->tower);
    g->tower.graph = g;
    g->tower.ns_name = tp_graph_strdup(g, name);
    g->tower.is_training = d->is_training;
    g->tower.index = d->index;
    g->tower.total = total;
    g->tower.device = tp_current_device(g);
    g->tower.is_main_training_tower = d->is_training && d->index == 0;
    g->tower.has_own_variables = reuse ? false : d->is_training ? d->index == 0 || *vs : true;
    tp_variable_scope_desc sd;
    memset(&sd, 0, sizeof sd);
    sd.name = vs;
    sd.no_name_scope = true;
    tp_variable_scope_push(g, &sd);
    g->tower.vs_name = tp_variable_scope(g);
    if (*name) {
        char *abs_name = tp_arena_printf(&g->arena, "%s/", name);
        tp_name_scope_push(g, abs_name ? abs_name : "");
    } else {
        tp__name_scope_enter(g, tp_name_scope(g));
    }
    g->tower_entry = tp_backup_collection(g, NULL, 0);
    g->tower.added_ = (tp_collection_backup *)tp_graph_alloc(g, sizeof *g->tower.added_);
    if (g->status != TP_OK || !g->tower_entry || !g->tower.added_) {
        tp_name_scope_pop(g);
        tp_variable_scope_pop(g);
        return NULL;
    }
    g->in_tower = true;
    g->tower_scopes = g->n_name_scope * 1000 + g->n_var_scope;
    g->tower_argscopes = g->n_argscope;
    g->tower_devices = g->n_device;
    return &g->tower;
}

/* The number of nodes in a collection when the current tower was entered. */
static int tp__towers_entry_count(const tp_graph *g, const char *key);
static int tp__tower_entry_count(const tp_graph *g, const char *key)
{
    if (g->towers) return tp__towers_entry_count(g, key);
    for (int i = 0; i < g->tower_entry->n; i++)
        if (strcmp(g->tower_entry->key[i], key) == 0) return g->tower_entry->n_item[i];
    return 0;
}

TP_DEF tp_node *const *tp_tower_collection(tp_graph *g, const char *key, int *n)
{
    if (n) *n = 0;
    TP__REQUIRE(g && key && n, NULL)

    tp_node *const *all = tp_collection(g, key, n);
    if (!g->in_tower) return all;
    const int before = tp__tower_entry_count(g, key);
    *n = *n > before ? *n - before : 0;
    tp_node **copy = (tp_node **)tp_graph_alloc(g, (size_t)(*n + 1) * sizeof *copy);
    if (!copy) return *n = 0, (tp_node *const *)NULL;
    for (int i = 0; i < *n; i++) copy[i] = all[before + i];
    return copy;
}

/* Stores the nodes that the current tower added to collections, for its handles. */
static void tp__tower_store_added(tp_graph *g)
{
    tp_collection_backup *b = g->tower.added_;
    const int n = g->collection.n;
    b->key = (const char **)tp_graph_alloc(g, (size_t)n * sizeof *b->key);
    b->item = (tp_node ***)tp_graph_alloc(g, (size_t)n * sizeof *b->item);
    b->n_item = (int *)tp_graph_alloc(g, (size_t)n * sizeof *b->n_item);
    if (!b->key || !b->item || !b->n_item) return;
    b->n = n;
    for (int i = 0; i < n; i++) {
        b->key[i] = ((const tp__collection *)g->collection.item[i])->key;
        tp_node *const *items = tp_tower_collection(g, b->key[i], &b->n_item[i]);
        memcpy((void *)&b->item[i], (const void *)&items, sizeof items);
    }
}

/* Called by tp_layers.h when an argscope is opened (change 1) or closed (-1). */
TP__UNUSED static void tp__argscopes_changed(tp_graph *g, int change, const tp_at *at)
{
    g->n_argscope += change;
    if (at) g->argscope_at = *at;
}

TP_DEF void tp_tower_leave(tp_graph *g)
{
    TP__REQUIRE(g, )

    if (!g->in_tower) {
        tp_graph_fail(g, NULL, TP_ERR_STATE, "a tower context is left that was never entered");
        return;
    }
    const int scopes = g->n_name_scope * 1000 + g->n_var_scope;
    if (g->status == TP_OK && g->tower_scopes > scopes)
        tp_graph_fail(g, NULL, TP_ERR_STATE,
                      "tower '%s' closed more scopes than it opened: remove a call of a pop function",
                      g->tower.ns_name);
    if (g->status == TP_OK && g->tower_scopes < scopes)
        tp_graph_fail(
            g, NULL, TP_ERR_STATE,
            "tower '%s' ends with the scope '%s' still open: leave scope blocks at their end, not by return or break",
            g->tower.ns_name, tp_name_scope(g));
    /* its options would apply to what is built later, without a word */
    if (g->status == TP_OK && g->n_argscope > g->tower_argscopes)
        tp_graph_fail(g, &g->argscope_at, TP_ERR_STATE,
                      "this argscope is still open at the end of its tower: leave the block at its end, not by return "
                      "or break");
    if (g->status == TP_OK && g->n_device > g->tower_devices)
        tp_graph_fail(g, NULL, TP_ERR_STATE,
                      "tower '%s' ends on a device that it has entered: tp_device_leave is missing", g->tower.ns_name);
    int n = 0;
    tp_node *const *trainable = tp_tower_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n);
    if (!g->tower.has_own_variables && n > 0)
        tp_graph_fail(g, NULL, TP_ERR_STATE, "tower '%s' shares its variables, but made a new trainable one: '%s'",
                      g->tower.ns_name, trainable[0]->op->name);
    const bool main_tower = g->tower.is_main_training_tower;
    const int n_frozen = main_tower ? 0 : g->tower.is_training ? 2 : 3;
    for (int i = 0; i < n_frozen; i++) {
        tp__collection *c = tp__find_collection(g, tp__frozen_keys[i]);
        const int before = tp__tower_entry_count(g, tp__frozen_keys[i]);
        if (c && c->list.n > before) c->list.n = before;
    }
    tp__tower_store_added(g);
    g->in_tower = false;
    /* close the scopes that were left open in the tower; they were reported above */
    while (g->n_name_scope > g->tower_scopes / 1000) g->n_name_scope--;
    while (g->n_var_scope > g->tower_scopes % 1000) g->n_var_scope--;
    g->n_argscope = g->tower_argscopes;
    if (g->n_device > g->tower_devices) g->n_device = g->tower_devices;
    if (g->n_name_scope > 1) g->n_name_scope--;
    if (g->n_var_scope > 1) g->n_var_scope--;
}

/* -- tp_build_on_towers */

/* The state of building: the fields of the graph that belong to a tower, saved while another tower is built. */
typedef struct tp__building {
    const char *name_scope[TP__MAX_SCOPES];
    tp__variable_scope var_scope[TP__MAX_SCOPES];
    int device[TP__MAX_SCOPES];
    int n_name_scope, n_var_scope, n_device;
    tp_tower_context tower;
    bool in_tower;
    int tower_scopes, n_argscope, tower_argscopes;
    tp_collection_backup *tower_entry;
    tp_at at;
    void *kept[TP__MAX_KEPT];
    int n_kept;
} tp__building;

typedef struct tp__tower_build {
    struct tp__towers *all;
    int index;
    tp_thread *thread;
    tp__building state;
    tp__list *own; /* for each collection, the nodes that the tower added to it */
    int n_own;
    bool done;
    /* arguments of tp_tower_all_reduce; set while the tower waits in it */
    bool waits, mean;
    tp_node *const *reduce_in;
    tp_node **reduce_out;
    int n;
    const char *layer_kind, *layer; /* name of the layer that waits: "BatchNorm", "conv1/bn" */
    tp_node *output;
} tp__tower_build;

typedef struct tp__towers {
    tp_graph *graph;
    const tp_towers_desc *desc;
    tp_tower_build_fn fn;
    void *user;
    tp__building caller_state; /* the graph's state before the towers were built */
    int *base, n_base;         /* number of nodes in each collection before the towers were built */
    tp__tower_build *tower;
    int running; /* the tower whose state is in the graph's fields; -1: none */
    tp_mutex *lock;
    tp_cond *passed;
    int running_tower; /* the tower whose thread may run; -1: the caller's thread */
} tp__towers;

static void tp__building_save(const tp_graph *g, tp__building *b)
{
    memcpy((void *)b->name_scope, (const void *)g->name_scope, sizeof b->name_scope);
    memcpy(b->var_scope, g->var_scope, sizeof b->var_scope);
    memcpy(b->device, g->device, sizeof b->device);
    b->n_name_scope = g->n_name_scope;
    b->n_var_scope = g->n_var_scope;
    b->n_device = g->n_device;
    b->tower = g->tower;
    b->in_tower = g->in_tower;
    b->tower_scopes = g->tower_scopes;
    b->n_argscope = g->n_argscope;
    b->tower_argscopes = g->tower_argscopes;
    b->tower_entry = g->tower_entry;
    b->at = g->at;
    b->n_kept = g->n_kept;
    for (int i = 0; i < g->n_kept; i++) b->kept[i] = *g->kept[i];
}

static void tp__building_restore(tp_graph *g, const tp__building *b)
{
    memcpy((void *)g->name_scope, (const void *)b->name_scope, sizeof b->name_scope);
    memcpy(g->var_scope, b->var_scope, sizeof b->var_scope);
    memcpy(g->device, b->device, sizeof b->device);
    g->n_name_scope = b->n_name_scope;
    g->n_var_scope = b->n_var_scope;
    g->n_device = b->n_device;
    g->tower = b->tower;
    g->in_tower = b->in_tower;
    g->tower_scopes = b->tower_scopes;
    g->n_argscope = b->n_argscope;
    g->tower_argscopes = b->tower_argscopes;
    g->tower_entry = b->tower_entry;
    g->at = b->at;
    /* pointers that were registered later (tp__graph_keep) start with NULL */
    for (int i = 0; i < g->n_kept; i++) *g->kept[i] = i < b->n_kept ? b->kept[i] : NULL;
}

/* The number of nodes in a collection before this tower's own: those before tp_build_on_towers and those of earlier towers. */
static int tp__towers_before(const tp__towers *t, int collection, int tower)
{
    int n = collection < t->n_base ? t->base[collection] : 0;
    for (int i = 0; i < tower; i++)
        if (collection < t->tower[i].n_own) n += t->tower[i].own[collection].n;
    return n;
}

static int tp__towers_entry_count(const tp_graph *g, const char *key)
{
    for (int c = 0; c < g->collection.n && g->towers->running >= 0; c++)
        if (strcmp(((const tp__collection *)g->collection.item[c])->key, key) == 0)
            return tp__towers_before(g->towers, c, g->towers->running);
    return 0;
}

/* Sets each collection to the nodes before tp_build_on_towers and those of the first `n` towers, in the order of the towers. */
static void tp__towers_show_collections(tp__towers *t, int n)
{
    tp_graph *g = t->graph;
    for (int c = 0; c < g->collection.n; c++) {
        tp__list *l = &((tp__collection *)g->collection.item[c])->list;
        const int base = c < t->n_base ? t->base[c] : 0;
        if (l->n > base) l->n = base;
        for (int i = 0; i < n; i++)
            for (int k = 0; c < t->tower[i].n_own && k < t->tower[i].own[c].n; k++)
                if (!tp__list_add(l, t->tower[i].own[c].item[k])) tp__graph_nomem(g);
    }
}

static void tp__towers_switch_in(tp__towers *t, int i)
{
    tp__building_restore(t->graph, &t->tower[i].state);
    tp__towers_show_collections(t, i + 1);
    t->running = i;
}

static void tp__towers_switch_out(tp__towers *t)
{
    tp_graph *g = t->graph;
    tp__tower_build *b = &t->tower[t->running];
    tp__building_save(g, &b->state);
    if (b->n_own < g->collection.n) {
        tp__list *lists = (tp__list *)tp_realloc(b->own, (size_t)g->collection.n * sizeof *lists);
        if (!lists) tp__graph_nomem(g);
        else {
            memset(lists + b->n_own, 0, (size_t)(g->collection.n - b->n_own) * sizeof *lists);
            b->own = lists;
            b->n_own = g->collection.n;
        }
    }
    for (int c = 0; c < b->n_own; c++) {
        const tp__list *l = &((const tp__collection *)g->collection.item[c])->list;
        b->own[c].n = 0;
        for (int k = tp__towers_before(t, c, b->index); k < l->n; k++)
            if (!tp__list_add(&b->own[c], l->item[k])) tp__graph_nomem(g);
    }
    t->running = -1;
    tp__building_restore(g, &t->caller_state);
}

/* The running thread (tower `own_tower`, -1: the caller) lets tower `to` run and waits until it may run again itself. */
static void tp__towers_switch_to(tp__towers *t, int to, int own_tower)
{
    tp_mutex_lock(t->lock);
    t->running_tower = to;
    tp_cond_broadcast(t->passed);
    while (t->running_tower != own_tower) tp_cond_wait(t->passed, t->lock);
    tp_mutex_unlock(t->lock);
}

/* The getter of a tower with its own variables, which are copies and are not saved. user: the tower's name. */
static tp_node *tp__local_getter(tp_getter_call *call, tp_variable_desc *d, void *user)
{
    const char *tower = (const char *)user;
    const size_t skip = strlen(tower) + 1;
    d->local = true;
    tp_node *n = tp_getter_next(call, d);
    tp_variable *v = tp_node_variable(n);
    if (v && !v->copy_of && strncmp(v->name, tower, skip - 1) == 0 && v->name[skip - 1] == '/')
        v->copy_of = (tp_variable *)tp__map_get(&v->graph->var_by_name, v->name + skip);
    return n;
}

/* Builds one tower, from its beginning to its end. */
static void tp__tower_body(tp__tower_build *b)
{
    const tp__towers *t = b->all;
    tp_graph *g = t->graph;
    const bool own_variables = t->desc->own_variables && b->index > 0;
    char name[32];
    tp_variable_scope_desc vs;
    tp_tower_desc d;
    memset(&vs, 0, sizeof vs);
    memset(&d, 0, sizeof d);
    tp__format(name, sizeof name, "tower%d", b->index);
    vs.no_name_scope = true;
    if (own_variables) vs.getter = tp__local_getter, vs.getter_user = name;
    else if (b->index > 0) vs.reuse = TP_REUSE_YES;
    d.name = name;
    d.vs_name = own_variables ? name : NULL;
    d.is_training = true;
    d.index = b->index;
    d.total = t->desc->n;
    tp_device_enter(g, t->desc->devices ? t->desc->devices[b->index] : b->index);
    tp_variable_scope_push(g, &vs);
    const int level = g->n_device;
    if (tp_tower_enter(g, &d)) {
        tp_node *y = t->fn(tp_current_tower_context(g), t->user);
        if (g->n_device != level)
            tp_graph_fail(g, NULL, TP_ERR_STATE,
                          "tower '%s' ends with a device scope still open: leave scope blocks at their end, not by "
                          "return or break",
                          name);
        if (g->in_tower) tp_tower_leave(g);
        b->output = y;
    }
    tp_variable_scope_pop(g);
    tp_device_leave(g);
}

static void tp__tower_thread(void *user)
{
    tp__tower_build *b = (tp__tower_build *)user;
    tp__towers *t = b->all;
    tp_mutex_lock(t->lock);
    while (t->running_tower != b->index) tp_cond_wait(t->passed, t->lock);
    tp_mutex_unlock(t->lock);
    tp__tower_body(b);
    tp_mutex_lock(t->lock);
    b->done = true;
    t->running_tower = -1;
    tp_cond_broadcast(t->passed);
    tp_mutex_unlock(t->lock);
}

/* Lets tower i build until it waits in tp_tower_all_reduce or ends. */
static void tp__towers_run(tp__towers *t, int i)
{
    tp__tower_build *b = &t->tower[i];
    tp__towers_switch_in(t, i);
    b->waits = false;
    if (t->lock) {
        const tp_status st = b->thread ? TP_OK : tp_thread_start(&b->thread, tp__tower_thread, b);
        if (st != TP_OK) {
            char reason[512];
            tp__format(reason, sizeof reason, "%.500s", tp_last_error());
            tp_graph_fail(t->graph, NULL, st, "tower%d cannot be built: %s", i, reason);
            b->done = true;
        } else {
            tp__towers_switch_to(t, i, -1);
        }
    } else {
        tp__tower_body(b);
        b->done = true;
    }
    tp__towers_switch_out(t);
}

static void tp__all_reduce_as(tp_node *const *xs, int n, bool mean, const char *name, tp_node **ys);

/* All towers wait or have ended. If all wait for the same all-reduce, build it; else report that they would wait for ever. */
static void tp__towers_build_all_reduce(tp__towers *t)
{
    tp_graph *g = t->graph;
    const int n = t->desc->n;
    const tp__tower_build *first = NULL;
    for (int i = 0; i < n && !first; i++)
        if (t->tower[i].waits) first = &t->tower[i];
    if (!first) return;
    for (int i = 0; i < n; i++) {
        const tp__tower_build *b = &t->tower[i];
        const bool matches = b->waits && strcmp(b->layer, first->layer) == 0 &&
                             strcmp(b->layer_kind, first->layer_kind) == 0 && b->n == first->n &&
                             b->mean == first->mean;
        if (matches) continue;
        const char *rule = "every tower must build the same layers in the same order";
        if (!b->waits)
            tp_graph_fail(g, &first->state.at, TP_ERR_STATE,
                          "%s '%s' of tower%d waits for the other towers, but tower%d ended without it: %s",
                          first->layer_kind, first->layer, first->index, i, rule);
        else
            tp_graph_fail(g, &b->state.at, TP_ERR_STATE,
                          "%s '%s' of tower%d waits for the other towers, but tower%d is at %s '%s': %s",
                          first->layer_kind, first->layer, first->index, i, b->layer_kind, b->layer, rule);
    }
    tp_node **x = (tp_node **)tp_graph_alloc(g, (size_t)n * sizeof *x);
    tp_node **y = (tp_node **)tp_graph_alloc(g, (size_t)n * sizeof *y);
    const char *name = tp_arena_printf(&g->arena, "%s%sAllReduce", first->layer, *first->layer ? "/" : "");
    if (!name) tp__graph_nomem(g);
    tp_graph_set_at(g, first->state.at);
    for (int k = 0; k < first->n && g->status == TP_OK; k++) {
        for (int i = 0; i < n; i++) x[i] = t->tower[i].reduce_in[k];
        tp__all_reduce_as(x, n, first->mean, name, y);
        for (int i = 0; i < n; i++) t->tower[i].reduce_out[k] = y[i];
    }
    g->at = t->caller_state.at;
}

TP_DEF void tp_tower_all_reduce(tp_graph *g, tp_node *const *xs, int n, bool mean, const char *what, tp_node **ys)
{
    TP__GRAPH_REQUIRE(g, g && xs && n > 0 && ys && what, )

    const tp_tower_context *tower = tp_current_tower_context(g);
    /* copied, because ys may be the same array as xs */
    tp_node **inputs = (tp_node **)tp_graph_alloc(g, (size_t)n * sizeof *inputs);
    bool whole = inputs != NULL;
    for (int i = 0; i < n && inputs; i++) {
        inputs[i] = xs[i];
        whole = whole && !tp_is_poison(xs[i]);
    }
    for (int i = 0; i < n; i++) ys[i] = &g->poison;
    if (!whole || g->status != TP_OK) return;
    if (!tower) {
        tp_graph_fail(g, NULL, TP_ERR_STATE, "%s asks for a value of all towers outside a tower", what);
        return;
    }
    if (tower->total == 1) {
        for (int i = 0; i < n; i++) ys[i] = inputs[i];
        return;
    }
    tp__towers *t = g->towers;
    if (!t || !t->lock) {
        tp_graph_fail(
            g, NULL, t ? TP_ERR_UNSUPPORTED : TP_ERR_STATE,
            t ? "%s asks for a value of all towers, which needs a thread for each: this program was built with "
                "TP_NO_THREADS"
              : "%s asks for a value of all towers, but they are built one after the other: make them with "
                "tp_build_on_towers",
            what);
        return;
    }
    tp__tower_build *b = &t->tower[t->running];
    const char *scope = tp_name_scope(g);
    const size_t skip = strlen(tower->ns_name);
    b->layer = strncmp(scope, tower->ns_name, skip) != 0 ? scope : scope[skip] == '/' ? scope + skip + 1 : "";
    b->layer_kind = what;
    b->reduce_in = inputs;
    b->reduce_out = ys;
    b->n = n;
    b->mean = mean;
    b->waits = true;
    tp__towers_switch_to(t, -1, b->index);
    for (int i = 0; i < n && g->status != TP_OK; i++) ys[i] = &g->poison;
}

TP_DEF tp_status tp_build_on_towers(tp_graph *g, const tp_towers_desc *d, tp_tower_build_fn fn, void *user,
                                    tp_node **outputs)
{
    TP__REQUIRE(g && d, TP_ERR_ARG)

    for (int i = 0; i < d->n && outputs; i++) outputs[i] = &g->poison;
    if (d->n < 1) tp_graph_fail(g, NULL, TP_ERR_ARG, "%d towers make no sense", d->n);
    else if (!fn) tp_graph_fail(g, NULL, TP_ERR_ARG, "there is no function to build towers with");
    else if (g->in_tower)
        tp_graph_fail(g, NULL, TP_ERR_STATE, "towers are to be built inside tower '%s': leave it first",
                      g->tower.ns_name);
    if (g->status != TP_OK) return tp_fail(g->status, "%s", g->error);
    tp__towers t;
    memset(&t, 0, sizeof t);
    t.graph = g;
    t.desc = d;
    t.fn = fn;
    t.user = user;
    t.running = t.running_tower = -1;
    t.tower = (tp__tower_build *)tp_calloc((size_t)d->n, sizeof *t.tower);
    t.base = (int *)tp_calloc((size_t)g->collection.n + 1, sizeof *t.base);
    bool ok = t.tower && t.base;
#ifndef TP_NO_THREADS
    if (ok && d->n > 1) ok = (t.lock = tp_mutex_new()) != NULL && (t.passed = tp_cond_new()) != NULL;
#endif
    if (ok) {
        t.n_base = g->collection.n;
        for (int c = 0; c < t.n_base; c++) t.base[c] = ((const tp__collection *)g->collection.item[c])->list.n;
        tp__building_save(g, &t.caller_state);
        for (int i = 0; i < d->n; i++) {
            t.tower[i].all = &t;
            t.tower[i].index = i;
            t.tower[i].state = t.caller_state;
            t.tower[i].output = &g->poison;
        }
        g->towers = &t;
        for (bool towers_left = true; towers_left;) {
            towers_left = false;
            for (int i = 0; i < d->n; i++) {
                if (!t.tower[i].done) tp__towers_run(&t, i);
                towers_left = towers_left || !t.tower[i].done;
            }
            tp__towers_build_all_reduce(&t);
        }
        for (int i = 0; i < d->n; i++) tp_thread_join(t.tower[i].thread);
        tp__towers_show_collections(&t, d->n);
        g->towers = NULL;
        for (int i = 0; i < d->n; i++) {
            if (outputs) outputs[i] = g->status == TP_OK ? t.tower[i].output : &g->poison;
            for (int c = 0; c < t.tower[i].n_own; c++) tp_free((void *)t.tower[i].own[c].item);
            tp_free(t.tower[i].own);
        }
    } else {
        tp__graph_nomem(g);
    }
    tp_cond_free(t.passed);
    tp_mutex_free(t.lock);
    tp_free(t.base);
    tp_free(t.tower);
    return g->status == TP_OK ? TP_OK : tp_fail(g->status, "%s", g->error);
}

struct tp_tower_func {
    tp_graph *graph;
    tp_build_fn fn;
    void *user;
    int n_spec;
    tp_spec *spec;
    tp_tower_handle **handle;
    int n_handle;
};

TP_DEF tp_tower_func *tp_tower_func_new(tp_graph *g, tp_build_fn fn, void *user, const tp_spec *specs, int n)
{
    TP__GRAPH_REQUIRE(g, g && fn && (specs || n == 0) && n >= 0, NULL)

    for (int i = 0; i < n; i++) {
        const char *s = specs[i].name;
        if (!s || !*s || strpbrk(s, ":/ ")) {
            tp_graph_fail(g, NULL, TP_ERR_NAME,
                          "input %d of the signature is named '%s': it needs a name without ':', '/' or space", i,
                          s ? s : "NULL");
            return NULL;
        }
        for (int j = 0; j < i; j++)
            if (strcmp(specs[j].name, s) == 0) {
                tp_graph_fail(g, NULL, TP_ERR_NAME, "inputs %d and %d of the signature are both named '%s'", j, i, s);
                return NULL;
            }
    }
    tp_tower_func *f = (tp_tower_func *)tp_graph_alloc(g, sizeof *f);
    if (!f) return NULL;
    f->graph = g;
    f->fn = fn;
    f->user = user;
    f->n_spec = n;
    f->spec = (tp_spec *)tp_graph_alloc(g, (size_t)n * sizeof *f->spec);
    if (!f->spec) return NULL;
    for (int i = 0; i < n; i++) {
        f->spec[i] = specs[i];
        if (f->spec[i].dtype == TP_DTYPE_UNSET) f->spec[i].dtype = TP_F32;
        f->spec[i].name = tp_graph_strdup(g, specs[i].name);
        if (!f->spec[i].name) return NULL;
    }
    return f;
}

TP_DEF tp_node *tp_tower_func_call(tp_tower_func *f, tp_node *const *in)
{
    TP__GRAPH_REQUIRE(NULL, f, tp_poison(NULL))

    tp_graph *g = f->graph;
    TP__GRAPH_REQUIRE(g, in || f->n_spec == 0, &g->poison)

    if (!g->in_tower)
        return tp_graph_fail(g, NULL, TP_ERR_STATE,
                             "a tower function is called outside a tower context: tp_tower_enter first");
    tp_tower_handle *h = (tp_tower_handle *)tp_graph_alloc(g, sizeof *h);
    if (!h || !(h->in = (tp_node **)tp_graph_alloc(g, (size_t)f->n_spec * sizeof *h->in))) return &g->poison;
    for (int i = 0; i < f->n_spec; i++) h->in[i] = in[i];
    h->ctx = g->tower;
    h->func = f;
    tp__graph_fix_places(g);
    h->output = f->fn(g, in, f->user); /* the tower function may leave this tower and enter others */
    tp_tower_handle **list = (tp_tower_handle **)tp_graph_alloc(g, (size_t)(f->n_handle + 1) * sizeof *list);
    if (!list) return &g->poison;
    for (int i = 0; i < f->n_handle; i++) list[i] = f->handle[i];
    list[f->n_handle++] = h;
    f->handle = list;
    return h->output;
}

TP_DEF const tp_spec *tp_tower_func_signature(const tp_tower_func *f, int *n)
{
    if (n) *n = 0;
    TP__REQUIRE(f && n, NULL)

    *n = f->n_spec;
    return f->spec;
}
TP_DEF int tp_tower_func_n_towers(const tp_tower_func *f)
{
    TP__REQUIRE(f, 0)
    return f->n_handle;
}
TP_DEF const tp_tower_handle *tp_tower_func_tower(const tp_tower_func *f, int i)
{
    TP__REQUIRE(f && i >= 0 && i < f->n_handle, NULL)
    return f->handle[i];
}
TP_DEF tp_tower_handles tp_tower_func_towers(const tp_tower_func *f, tp_towers which)
{
    tp_tower_handles h;
    h.func = f;
    h.which = which;
    return h;
}
TP_DEF int tp_tower_handles_n(tp_tower_handles h)
{
    int n = 0;
    while (tp_tower_handles_at(h, n)) n++;
    return n;
}
TP_DEF const tp_tower_handle *tp_tower_handles_at(tp_tower_handles h, int i)
{
    TP__REQUIRE(h.func, NULL)

    for (int k = 0; k < h.func->n_handle && i >= 0; k++) {
        const tp_tower_handle *t = h.func->handle[k];
        if (h.which != TP_TOWERS_ALL && t->ctx.is_training != (h.which == TP_TOWERS_TRAINING)) continue;
        if (i-- == 0) return t;
    }
    return NULL;
}
/* The same as tp_tower_handles_find, but a name that is not found is no error. */
static const tp_tower_handle *tp__tower_named(tp_tower_handles h, const char *ns_name)
{
    const tp_tower_handle *t;
    for (int i = 0; (t = tp_tower_handles_at(h, i)) != NULL; i++)
        if (strcmp(t->ctx.ns_name, ns_name) == 0) return t;
    return NULL;
}
TP_DEF const tp_tower_handle *tp_tower_handles_find(tp_tower_handles h, const char *ns_name)
{
    TP__REQUIRE(h.func && ns_name, NULL)

    const tp_tower_handle *t = tp__tower_named(h, ns_name);
    tp__nearest n;
    char near[TP__NEAREST_TEXT];
    if (t) return t;
    memset(&n, 0, sizeof n);
    n.wanted = ns_name;
    for (int i = 0; (t = tp_tower_handles_at(h, i)) != NULL; i++) tp__nearest_try(&n, t->ctx.ns_name);
    tp_fail(TP_ERR_NAME, "there is no %stower '%s'%s",
            h.which == TP_TOWERS_ALL        ? ""
            : h.which == TP_TOWERS_TRAINING ? "training "
                                            : "inference ",
            ns_name, tp__nearest_text(&n, near));
    return NULL;
}
TP_DEF const tp_tower_handle *tp_tower_func_find(const tp_tower_func *f, const char *ns_name)
{
    TP__REQUIRE(f && ns_name, NULL)
    return tp_tower_handles_find(tp_tower_func_towers(f, TP_TOWERS_ALL), ns_name);
}

static tp_node *tp__tower_variable(const tp_tower_handle *h, const char *name)
{
    int index;
    const size_t base = tp__split_name(name, &index);
    tp_buf full;
    memset(&full, 0, sizeof full);
    tp_buf_printf(&full, "%s%s%.*s", h->ctx.vs_name, *h->ctx.vs_name ? "/" : "", (int)base, name);
    const tp_variable *v = full.data ? tp__variable_named(h->ctx.graph, full.data) : NULL;
    const bool failed = full.failed;
    tp_buf_free(&full);
    if (failed) return tp__graph_nomem(h->ctx.graph);
    return v ? v->node : NULL;
}

/* The same as tp_tower_handle_get, but a name that is not found is no error: the caller looks elsewhere too. */
static tp_node *tp__tower_node(const tp_tower_handle *h, const char *name)
{
    int index;
    const size_t base = tp__split_name(name, &index);
    tp_node *input = NULL;
    for (int i = 0; i < h->func->n_spec && !input;
         i++) { /* an input of the tower is preferred to a node of the same name */
        const char *input_name = h->func->spec[i].name;
        if (strncmp(input_name, name, base) == 0 && !input_name[base]) input = h->in[i];
    }
    tp_buf full;
    memset(&full, 0, sizeof full);
    tp_buf_printf(&full, "%s%s%s", h->ctx.ns_name, *h->ctx.ns_name ? "/" : "", name);
    tp_node *n = full.data ? tp__node_named(h->ctx.graph, full.data) : NULL;
    const bool failed = full.failed;
    tp_buf_free(&full);
    if (input && n && n->op != input->op)
        tp_log_once(TP_LOG_WARN, "The name '%s' finds the tower's input; not found: '%s'", name, n->op->name);
    if (failed) return tp__graph_nomem(h->ctx.graph); /* after running out of memory, do not look for another node */
    if (input) return input;
    return n ? n : tp__tower_variable(h, name);
}

/* The sentence for a name that a tower lacks. value_kind: "tensor" or "variable". */
static tp_status tp__tower_lacks(const tp_tower_handle *h, const char *value_kind, const char *name)
{
    char near[TP__NEAREST_TEXT] = "";
    if (name && value_kind[0] == 'v') tp__variable_near(h->ctx.graph, name, near);
    else if (name) tp__node_near(h->ctx.graph, name, near);
    return tp_fail(TP_ERR_NAME, "tower '%s' has no %s '%s'%s", h->ctx.ns_name, value_kind, name ? name : "NULL", near);
}

TP_DEF tp_node *tp_tower_handle_get(const tp_tower_handle *h, const char *name)
{
    TP__REQUIRE(h && name, NULL)
    tp_node *n = tp__tower_node(h, name);
    if (!n) tp__tower_lacks(h, "tensor", name);
    return n;
}

TP_DEF tp_node *tp_tower_handle_get_variable(const tp_tower_handle *h, const char *name)
{
    TP__REQUIRE(h && name, NULL)
    tp_node *n = tp__tower_variable(h, name);
    if (!n) tp__tower_lacks(h, "variable", name);
    return n;
}

/* Looks up each name of a list with the function `one`, tp__tower_node or tp__tower_variable. */
static tp_status tp__tower_handle_list(const tp_tower_handle *h, const char *const *names, int n, tp_node **nodes,
                                       tp_node *(*one)(const tp_tower_handle *h, const char *name),
                                       const char *value_kind)
{
    tp_status st = TP_OK;
    for (int i = 0; i < n; i++) nodes[i] = NULL;
    for (int i = 0; i < n; i++) {
        nodes[i] = names[i] ? one(h, names[i]) : NULL;
        if (!nodes[i] && st == TP_OK) st = tp__tower_lacks(h, value_kind, names[i]);
    }
    return st;
}

TP_DEF tp_status tp_tower_handle_get_tensors(const tp_tower_handle *h, const char *const *names, int n, tp_node **nodes)
{
    TP__REQUIRE(h && n >= 0 && ((names && nodes) || n == 0), TP_ERR_ARG)
    return tp__tower_handle_list(h, names, n, nodes, tp__tower_node, "tensor");
}

TP_DEF tp_status tp_tower_handle_get_variables(const tp_tower_handle *h, const char *const *names, int n,
                                               tp_node **nodes)
{
    TP__REQUIRE(h && n >= 0 && ((names && nodes) || n == 0), TP_ERR_ARG)
    return tp__tower_handle_list(h, names, n, nodes, tp__tower_variable, "variable");
}

TP_DEF tp_node *const *tp_tower_handle_get_collection(const tp_tower_handle *h, const char *key, int *n)
{
    if (n) *n = 0;
    TP__REQUIRE(h && key && n, NULL)

    tp_graph *g = h->ctx.graph;
    const tp_collection_backup *b = h->ctx.added_;
    if (g->in_tower && g->tower.added_ == b) return tp_tower_collection(g, key, n);
    for (int i = 0; i < b->n; i++)
        if (strcmp(b->key[i], key) == 0) {
            *n = b->n_item[i];
            return b->item[i];
        }
    return NULL;
}

/* ==== >>gradients ===================================================================================== */

TP_DEF bool tp_depends_on(tp_node *const *targets, int n, const tp_operation *op)
{
    TP__REQUIRE(op && (targets || n <= 0), false)

    if (n == 0 || op->id < 0) return false;
    tp_mutex_lock(op->graph->lock);
    const char *seen = tp__ancestors(op->graph, targets, n);
    /* out of memory: `true` is safe, because then the op is run */
    const bool depends = !seen || (op->id < op->graph->query_op && seen[op->id] != 0);
    tp_mutex_unlock(op->graph->lock);
    return depends;
}

TP_DEF bool tp_dependency_of_fetches(tp_node *const *const *lists, const int *n, int n_lists, const tp_operation *op)
{
    TP__REQUIRE(op && ((lists && n) || n_lists <= 0), false)

    for (int i = 0; i < n_lists; i++)
        if (tp_depends_on(lists[i], n[i], op)) return true;
    return false;
}

/* A linked list of gradients to be added for one value, newest consumer first. */
typedef struct tp__contribution {
    tp_node *value, *grad;
    struct tp__contribution *next;
} tp__contribution;

#ifdef TP__NO_SYSTEM
#define TP__FEW_TERMS INT_MAX /* the other form is not linked */
#else
#define TP__FEW_TERMS 8
#endif
/* Returns the sum of the contributions to the gradient of `value`, added on the device of `value`; NULL: there are none. */
static tp_node *tp__sum_contributions(tp_graph *g, tp__contribution *const *head, const tp_node *value)
{
    int n = 0, i;
    for (const tp__contribution *c = head[value->op->id]; c; c = c->next) n += c->value == value;
    if (n == 0) return NULL;
    tp_node **list = (tp_node **)tp_graph_alloc(g, (size_t)n * sizeof *list);
    if (!list) return &g->poison;
    i = n;
    for (const tp__contribution *c = head[value->op->id]; c; c = c->next)
        if (c->value == value) list[--i] = c->grad; /* adds the contribution of the oldest consumer first */
    if (n == 1) return list[0];
    tp_device_enter(g, tp_node_device(value));
    tp_node *sum = list[0];
    if (n > TP__FEW_TERMS) sum = tp_add_n(list, n);
    else
        for (i = 1; i < n; i++) sum = tp_add(sum, list[i]); /* single sums, which the planner can fuse */
    tp_device_leave(g);
    return sum;
}

/* A gradient has the shape and the type of its input: a mistake in the grad function of a row is told here, not by a later op. */
static void tp__check_gradient_type(tp_graph *g, const tp_operation *o, int i, const tp_node *dx)
{
    const tp_node *x = o->in[i];
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    if (g->status != TP_OK || tp_is_poison(dx) || !tp_dtype_is_float(x->dtype)) return;
    if (dx->dtype == x->dtype && tp_shape_compatible(&dx->shape, &x->shape)) return;
    tp_graph_fail(
        g, NULL, TP_ERR_SHAPE,
        "%s: its gradient function gives input %d, which is %s %s, a gradient of %s %s: their shapes and types "
        "must be equal",
        o->name, i, tp_dtype_name(x->dtype), tp_shape_text(&x->shape, a), tp_dtype_name(dx->dtype),
        tp_shape_text(&dx->shape, b));
}

static bool tp__cheaper_gradient(tp_grad *g);
/* Adds the gradients of o's inputs, computed from those of its outputs, in the scope "<scope>/<name of o>_grad". The gradient of
 * an input that depends on an x is added to the contributions of that input. */
static void tp__gradient_of(tp_graph *g, tp_operation *o, const char *scope, const char *below, tp__contribution **head)
{
    tp_node **dout = (tp_node **)tp_graph_alloc(g, (size_t)o->n_out * sizeof *dout);
    tp_node **din = (tp_node **)tp_graph_alloc(g, (size_t)o->n_in * sizeof *din);
    char *sub = tp_arena_printf(&g->arena, "%s/%s_grad/", scope, o->name);
    if (!dout || !din || !sub) {
        tp__graph_nomem(g);
        return;
    }
    const tp_at at = g->at;
    g->at = o->at;
    tp_name_scope_push(g, sub);
    tp_device_enter(g, o->device);
    for (int i = 0; i < o->n_out; i++) dout[i] = tp__sum_contributions(g, head, &o->out[i]);
    tp_grad ctx;
    memset(&ctx, 0, sizeof ctx);
    ctx.graph = g;
    ctx.op = o;
    ctx.in = o->in;
    ctx.dout = dout;
    ctx.din = din;
    ctx.out = o->out;
    ctx.below = below;
    if (!tp__cheaper_gradient(&ctx)) o->row->grad(&ctx);
    tp_device_leave(g);
    tp_name_scope_pop(g);
    for (int i = 0; i < o->n_in; i++)
        if (din[i]) tp__check_gradient_type(g, o, i, din[i]);
    g->at = at;
    for (int i = 0; i < o->n_in; i++) {
        tp_node *x = o->in[i];
        if (!din[i] || !below[x->op->id] || !tp_dtype_is_float(x->dtype)) continue;
        tp__contribution *c = (tp__contribution *)tp_graph_alloc(g, sizeof *c);
        if (!c) return;
        c->value = x;
        c->grad = din[i];
        c->next = head[x->op->id];
        head[x->op->id] = c;
    }
}

/* The gradient dy that a caller gives for y has the shape and the type of y. */
static void tp__check_seed(tp_graph *g, const tp_node *y, const tp_node *dy)
{
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    if (tp_is_poison(dy) || (dy->dtype == y->dtype && tp_shape_compatible(&dy->shape, &y->shape))) return;
    tp_graph_fail(g, NULL, TP_ERR_SHAPE, "the gradient of '%s' is %s %s, but it is itself %s %s", y->op->name,
                  tp_dtype_name(dy->dtype), tp_shape_text(&dy->shape, a), tp_dtype_name(y->dtype),
                  tp_shape_text(&y->shape, b));
}

/* Whether y may be differentiated with respect to xs; if not, the graph of y has the sentence, or had one. */
static bool tp__gradients_may_begin(tp_node *y, tp_node *dy, tp_node *const *xs, int n)
{
    tp_graph *g = tp_node_graph(y);
    char missing[TP__MISSING_TEXT];
    if (tp_is_poison(y)) return false;
    for (int i = 0; i < n; i++) {
        if (!xs[i])
            tp_graph_fail(g, NULL, TP_ERR_ARG, "tp_gradients: xs[%d] is NULL%s", i, tp__node_missing(g, missing));
        else if (tp_node_graph(xs[i]) != g)
            tp_graph_fail(g, NULL, TP_ERR_ARG, "tp_gradients: xs[%d], '%s', belongs to another graph than '%s'", i,
                          tp_node_name(xs[i]), y->op->name);
        if (tp_is_poison(xs[i]) || tp__is_broken(g)) return false;
    }
    if (dy && tp_node_graph(dy) != g)
        tp_graph_fail(g, NULL, TP_ERR_ARG, "tp_gradients: dy, '%s', belongs to another graph than '%s'",
                      tp_node_name(dy), y->op->name);
    else if (!tp_dtype_is_float(y->dtype))
        tp_graph_fail(g, NULL, TP_ERR_DTYPE, "'%s' is %s: only a floating value has a gradient; tp_cast its inputs",
                      y->op->name, tp_dtype_name(y->dtype));
    else return true;
    return false;
}
static void tp__gradients_from(tp_node *y, tp_node *dy, tp_node *const *xs, int n, tp_node **dxs)
{
    TP__GRAPH_REQUIRE(tp_node_graph(y), dxs && (xs || n == 0) && n >= 0, )

    for (int i = 0; i < n; i++) dxs[i] = NULL;
    TP__GRAPH_REQUIRE(tp__list_graph(xs, n), y, )
    if (!tp__gradients_may_begin(y, dy, xs, n)) return;
    tp_graph *g = tp_node_graph(y);
    tp__name_scope_enter(g, "");
    tp_name_scope_push(g, "gradients");
    const char *scope = tp_name_scope(g);
    tp_device_enter(g, tp_node_device(y));
    if (!dy) dy = tp_ones_like(y);
    tp_device_leave(g);
    tp__check_seed(g, y, dy);
    const int last_id = y->op->id, n_op = last_id + 1;
    char *above = (char *)tp_calloc((size_t)n_op, 1); /* for each operation id: whether y depends on the operation */
    /* for each operation id, bit 0: whether the operation depends on an x */
    char *below = (char *)tp_calloc((size_t)n_op, 1);
    tp__contribution **head = (tp__contribution **)tp_calloc((size_t)n_op, sizeof *head);
    if (!above || !below || !head) {
        tp__graph_nomem(g);
        goto done;
    }
    above[last_id] = 1;
    for (int id = last_id; id >= 0; id--) {
        const tp_operation *o = (const tp_operation *)g->op.item[id];
        if (above[id])
            for (int i = 0; i < o->n_in; i++) above[o->in[i]->op->id] = 1;
    }
    for (int i = 0; i < n; i++)
        if (xs[i]->op->id <= last_id) below[xs[i]->op->id] = 1;
    for (int id = 0; id <= last_id; id++) {
        const tp_operation *o = (const tp_operation *)g->op.item[id];
        for (int i = 0; i < o->n_in && !below[id]; i++)
            if (!((o->row->shape_only >> (i < 31 ? i : 31)) & 1u) && below[o->in[i]->op->id]) below[id] = 1;
    }
    {
        tp__contribution *seed = (tp__contribution *)tp_graph_alloc(g, sizeof *seed);
        if (!seed) goto done;
        seed->value = y;
        seed->grad = dy;
        head[last_id] = seed;
    }
    for (int id = last_id; id >= 0 && g->status == TP_OK; id--) {
        tp_operation *o = (tp_operation *)g->op.item[id];
        if (!above[id] || !below[id] || !head[id] || o->n_in == 0) continue;
        if (!o->row->grad) {
            const size_t len =
                strlen(o->row->name); /* a gradient op that has no gradient: warn, because the result lacks terms */
            if (len > 5 && strcmp(o->row->name + len - 5, "_grad") == 0)
                tp_log_once(TP_LOG_WARN,
                            "a gradient of a gradient meets '%s': %s has none, so nothing flows through it", o->name,
                            o->row->name);
            continue;
        }
        bool inside = false; /* whether an input of o depends on one of the xs */
        for (int i = 0; i < o->n_in; i++) inside = inside || below[o->in[i]->op->id];
        if (!inside) continue;
        tp__gradient_of(g, o, scope, below, head);
    }
    for (int i = 0; i < n && g->status == TP_OK; i++)
        if (xs[i]->op->id <= last_id && head[xs[i]->op->id]) dxs[i] = tp__sum_contributions(g, head, xs[i]);
done:
    tp_free(above);
    tp_free(below);
    tp_free((void *)head);
    tp_name_scope_pop(g);
    tp_name_scope_pop(g);
}

/* Sets has[i]: whether tp_gradients would give a gradient for xs[i]. Adds nothing to the graph. Private, for
 * tp_train.h. */
TP__UNUSED static void tp__has_gradients(const tp_node *y, tp_node *const *xs, int n, bool *has_gradient)
{
    tp_graph *g = y->op->graph;
    const int last_id = y->op->id;
    bool *reached = (bool *)tp_calloc((size_t)last_id + 1, sizeof *reached);
    for (int i = 0; i < n; i++) has_gradient[i] = false;
    if (!reached) tp__graph_nomem(g);
    if (!reached) return;
    reached[last_id] = true;
    for (int id = last_id; id >= 0; id--) {
        const tp_operation *o = (const tp_operation *)g->op.item[id];
        for (int i = 0; i < o->n_in && reached[id] && o->row->grad; i++)
            if (!((o->row->shape_only >> (i < 31 ? i : 31)) & 1u) && tp_dtype_is_float(o->in[i]->dtype))
                reached[o->in[i]->op->id] = true;
    }
    for (int i = 0; i < n; i++) has_gradient[i] = xs[i]->op->id <= last_id && reached[xs[i]->op->id];
    tp_free(reached);
}

TP_DEF tp_node *tp_gradients_from(tp_node *y, tp_node *dy, tp_node *const *xs, int n, tp_node **dxs)
{
    tp_graph *g = y ? tp_node_graph(y) : tp__list_graph(xs, n);
    tp__gradients_from(y, dy, xs, n, dxs);
    return tp__is_broken(g) ? tp_poison(g) : y;
}

TP_DEF tp_node *tp_gradients(tp_node *y, tp_node *const *xs, int n, tp_node **dxs)
{
    tp_graph *g = y ? tp_node_graph(y) : tp__list_graph(xs, n);
    TP__GRAPH_REQUIRE(g, dxs && (xs || n == 0) && n >= 0, tp_poison(g))
    for (int i = 0; i < n; i++) dxs[i] = NULL;
    TP__GRAPH_REQUIRE(g, y, tp_poison(g))
    return tp_gradients_from(y, NULL, xs, n, dxs);
}

/* ==== >>regex ========================================================================================= */

/* A regular expression is compiled to a program for a machine that backtracks as Python's does. The machine records
 * which choices have failed at which position of the text, and does not try them again, so the time of (a+)+b is
 * proportional to the text length. Jumps are relative, so that a counted repetition can copy the repeated instructions. */
enum {
    TP__RE_CHAR,  /* match the character x */
    TP__RE_ANY,   /* match any character, a line feed only with flag s */
    TP__RE_SET,   /* match one of set[x] ... set[x + y - 1] */
    TP__RE_AT,    /* match a position: x is '^', '$', 'Z', 'b', 'B' */
    TP__RE_JUMP,  /* jump to x */
    TP__RE_SPLIT, /* a choice: jump to x; if that fails, to y */
    TP__RE_SAVE,  /* store the position in reg[x]; with TP__RE_NOT store -1 */
    TP__RE_CHECK, /* leave the loop, jump to y, if the iteration that began at reg[x] matched no character */
    TP__RE_LOOK,  /* match the group that follows, up to TP__RE_DONE, from y characters back; then jump to x. `flags`:
                  * the kind of group */
    TP__RE_DONE,
    TP__RE_MATCH
};
enum { TP__RE_I = 1, TP__RE_M = 2, TP__RE_S = 4, TP__RE_X = 8, TP__RE_A = 16, TP__RE_U = 32, TP__RE_NOT = 64 };
enum { TP__RE_AHEAD, TP__RE_NOT_AHEAD, TP__RE_ATOMIC };
#define TP__RE_CATEGORY 0xffffffffu /* value of `high` in a set's item that stands for \d, \D, \s, \S, \w or \W */
#define TP__RE_MANY     0xffffffffu /* a repetition without upper bound */
#define TP__RE_CODE     30000
#define TP__RE_DEPTH    100
#define TP__RE_STEPS    20000000

typedef struct tp__re_inst {
    uint8_t op, flags;
    /* for SPLIT: the innermost enclosing loop whose iterations may be empty; -1: none yet, -2: never any */
    int16_t loop;
    int32_t x, y; /* operands of the instruction; only SPLIT uses y for a second target */
    int32_t row;  /* for SPLIT: its first row in the table of failures */
} tp__re_inst;

typedef struct tp__re_item {
    uint32_t low, high;
} tp__re_item;

typedef struct tp__re_name {
    const char *text;
    int n, group;
} tp__re_name;

struct tp_regex {
    char *pattern;
    tp__re_inst *code;
    tp__re_item *set;
    tp__re_name *name; /* named groups of the regex; their names point into `pattern` */
    int16_t *outer;    /* loop -> index of the enclosing loop, or -1 */
    int n_code, n_set, n_name, n_loop, n_group, n_row;
    int cap_code, cap_set, cap_name, cap_loop;
};

typedef struct tp__re_parser {
    tp_regex *re;
    const char *at;
    int depth;
    tp_status status;
} tp__re_parser;

/* The least and the largest number of characters that a part of the pattern matches. */
typedef struct tp__re_width {
    uint32_t low, high;
} tp__re_width;

static tp__re_width tp__re_alternatives(tp__re_parser *p, unsigned flags);

/* Only the first mistake is kept. The parser is moved to the end of the pattern, so that parsing ends. */
static void tp__re_fail(tp__re_parser *p, const char *at, const char *problem)
{
    if (p->status == TP_OK)
        p->status = tp_fail(TP_ERR_ARG, "regular expression '%.200s', character %d: %s", p->re->pattern,
                            (int)(at - p->re->pattern) + 1, problem);
    p->at = p->re->pattern + strlen(p->re->pattern);
}

static void tp__re_nomem(tp__re_parser *p)
{
    if (p->status == TP_OK) p->status = tp_fail(TP_ERR_NOMEM, "out of memory for a regular expression");
    tp__re_fail(p, p->at, ""); /* moves to the end of the pattern */
}

/* Adds an entry to an array of the program. Returns its index, or -1. */
static int tp__re_more(tp__re_parser *p, void *array, int *n, int *cap, size_t size)
{
    void *a;
    memcpy(&a, array, sizeof a);
    if (*n == *cap) {
        const int new_cap = *cap ? 2 * *cap : 16;
        a = tp_realloc(a, (size_t)new_cap * size);
        if (!a) {
            tp__re_nomem(p);
            return -1;
        }
        memcpy(array, &a, sizeof a);
        *cap = new_cap;
    }
    return (*n)++;
}

/* Inserts an instruction before instruction `index`. */
static void tp__re_insert(tp__re_parser *p, int index, int op, unsigned flags, int32_t x, int32_t y)
{
    tp_regex *re = p->re;
    if (re->n_code >= TP__RE_CODE) tp__re_fail(p, p->at, "the counts of the repetitions make it too large");
    if (p->status != TP_OK || tp__re_more(p, (void *)&re->code, &re->n_code, &re->cap_code, sizeof *re->code) < 0)
        return;
    tp__re_inst *i = re->code + index;
    memmove(i + 1, i, (size_t)(re->n_code - 1 - index) * sizeof *i);
    memset(i, 0, sizeof *i);
    i->op = (uint8_t)op;
    i->flags = (uint8_t)flags;
    i->loop = -1;
    i->x = x;
    i->y = y;
}
static void tp__re_emit(tp__re_parser *p, int op, unsigned flags, int32_t x, int32_t y)
{
    tp__re_insert(p, p->re->n_code, op, flags, x, y);
}

/* Puts the choices from instruction `begin` on into this loop, unless they are in a loop already. */
static void tp__re_enclose(tp_regex *re, int begin, int loop)
{
    for (tp__re_inst *i = re->code + begin; i < re->code + re->n_code; i++) {
        if (i->loop != -1 || (i->op != TP__RE_SPLIT && i->op != TP__RE_CHECK)) continue;
        i->loop = (int16_t)loop;
        if (i->op == TP__RE_CHECK) re->outer[i->x] = (int16_t)loop;
    }
}

/* Ends the group of the TP__RE_LOOK at `begin`. Loops around the group do not affect the choices inside (loop -2). */
static void tp__re_close_look(tp__re_parser *p, int begin, int behind)
{
    tp__re_emit(p, TP__RE_DONE, 0, 0, 0);
    if (p->status != TP_OK) return;
    tp__re_enclose(p->re, begin + 1, -2);
    p->re->code[begin].x = p->re->n_code - begin;
    p->re->code[begin].y = behind;
}

static void tp__re_item_add(tp__re_parser *p, uint32_t low, uint32_t high)
{
    tp_regex *re = p->re;
    const int i = tp__re_more(p, (void *)&re->set, &re->n_set, &re->cap_set, sizeof *re->set);
    if (i < 0) return;
    re->set[i].low = low;
    re->set[i].high = high;
}

/* The character at s (s < end); *size: its number of bytes. A byte that is not UTF-8 is one character, as with Python's
 * surrogateescape. */
static uint32_t tp__re_decode(const char *s, const char *end, int *size)
{
    const unsigned char *u = (const unsigned char *)s;
    const int n = u[0] < 0x80 ? 1 : u[0] < 0xc2 ? 0 : u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : u[0] < 0xf5 ? 4 : 0;
    uint32_t c = n < 2 ? u[0] : u[0] & (0x7fu >> n);
    *size = 1;
    for (int i = 1; i < n; i++) {
        if (end - s <= i || (u[i] & 0xc0) != 0x80) return 0xdc00u + u[0];
        c = c << 6 | (u[i] & 0x3fu);
    }
    if (n == 0) return 0xdc00u + u[0];
    if ((n == 3 && (c < 0x800 || (c >= 0xd800 && c < 0xe000))) || (n == 4 && (c < 0x10000 || c > 0x10ffff)))
        return 0xdc00u + u[0];
    *size = n;
    return c;
}

/* Reads the next character of the pattern and moves p->at to the one after it. 0 at the end of the pattern. */
static uint32_t tp__re_next(tp__re_parser *p)
{
    int size;
    if (!*p->at) return 0;
    const uint32_t c = tp__re_decode(p->at, p->at + strlen(p->at), &size);
    p->at += size;
    return c;
}

static bool tp__re_skip_char(tp__re_parser *p, char c)
{
    if (*p->at != c) return false;
    p->at++;
    return true;
}

static bool tp__re_is_digit(char c) { return c >= '0' && c <= '9'; }
static bool tp__re_is_letter(uint32_t c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }

/* Reads at most n digits in a base into *value. Returns the number of digits. */
static int tp__re_digits(tp__re_parser *p, int n, uint32_t base, uint32_t *value)
{
    int i = 0;
    for (*value = 0; i < n; i++, p->at++) {
        const char c = *p->at;
        const uint32_t d = tp__re_is_digit(c)                   ? (uint32_t)(c - '0')
                           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (uint32_t)((c | 32) - 'a') + 10
                                                                : 99;
        if (d >= base) break;
        *value = *value * base + d;
    }
    return i;
}

/* Reads an escape such as \d or \n after its backslash. False: *c is a character; true: a category, *c is its letter.
 * The caller handles anchors. */
static bool tp__re_escape(tp__re_parser *p, bool in_set, uint32_t *c)
{
    static const char simple[] = "a\af\fn\nr\rt\tv\v";
    const char *begin = p->at - 1;
    *c = tp__re_next(p);
    if (*c == 0) {
        tp__re_fail(p, begin, "bad escape (end of pattern)");
    } else if (*c < 128 && strchr("dDsSwW", (int)*c)) {
        return true;
    } else if (*c == 'b' && in_set) {
        *c = '\b';
    } else if (*c == 'x' || *c == 'u' || *c == 'U') {
        const int n = *c == 'x' ? 2 : *c == 'u' ? 4 : 8;
        if (tp__re_digits(p, n, 16, c) != n || *c > 0x10ffff) tp__re_fail(p, begin, "incomplete escape");
    } else if (*c >= '0' && *c <= '9') {
        const char *digits = --p->at;
        const int n = tp__re_digits(p, 3, 8, c);
        if (!in_set && *digits != '0' && n < 3) tp__re_fail(p, begin, "back references are not supported");
        else if (n == 0 || *c > 255) tp__re_fail(p, begin, "bad octal escape");
    } else {
        for (int i = 0; simple[i]; i += 2)
            if (*c == (uint32_t)simple[i]) {
                *c = (uint32_t)simple[i + 1];
                return false;
            }
        if (tp__re_is_letter(*c)) tp__re_fail(p, begin, "bad escape");
    }
    return false;
}

/* Parses a set [...] after its first bracket. */
static void tp__re_class(tp__re_parser *p, unsigned flags)
{
    const char *begin = p->at - 1;
    const int first = p->re->n_set;
    if (tp__re_skip_char(p, '^')) flags |= TP__RE_NOT;
    for (;;) {
        const char *start = p->at;
        uint32_t low = tp__re_next(p), high;
        if (low == 0) tp__re_fail(p, begin, "unterminated character set");
        if (p->status != TP_OK || (low == ']' && p->re->n_set > first)) break;
        bool category = low == '\\' && tp__re_escape(p, true, &low);
        const bool range = p->at[0] == '-' && p->at[1] != ']';
        high = category ? TP__RE_CATEGORY : low;
        if (range) {
            p->at++;
            high = tp__re_next(p);
            if (high == '\\' && tp__re_escape(p, true, &high)) category = true;
            if (high == 0) tp__re_fail(p, begin, "unterminated character set");
            else if (category || high < low) tp__re_fail(p, start, "bad character range");
        }
        tp__re_item_add(p, low, high);
    }
    tp__re_emit(p, TP__RE_SET, flags, first, p->re->n_set - first);
}

/* Adds `times` copies of the n instructions at `item`. */
static void tp__re_copies(tp__re_parser *p, const tp__re_inst *item, int n, uint32_t times)
{
    for (; n > 0 && times > 0; times--)
        for (int i = 0; i < n; i++) {
            tp__re_emit(p, 0, 0, 0, 0);
            if (p->status != TP_OK) return;
            p->re->code[p->re->n_code - 1] = item[i];
        }
}

/* Adds `low` copies of the n instructions at item, then a loop, or high - low optional copies. */
static void tp__re_expand(tp__re_parser *p, const tp__re_inst *item, int n, uint32_t low, uint32_t high, bool lazy,
                          int loop)
{
    tp_regex *re = p->re;
    if (loop >= 0 && low > 0) tp__re_emit(p, TP__RE_SAVE, TP__RE_NOT, -1 - loop, 0);
    tp__re_copies(p, item, n, low);
    if (high == TP__RE_MANY && loop < 0 && low > 0) { /* the loop repeats the last of the `low` copies */
        tp__re_emit(p, TP__RE_SPLIT, 0, lazy ? 1 : -n, lazy ? -n : 1);
        return;
    }
    const int begin = re->n_code;
    uint32_t times = high == TP__RE_MANY ? 1 : high - low;
    /* a jump to 0 means the end of the repetition; the code below sets it */
    for (uint32_t i = 0; i < times && p->status == TP_OK; i++) {
        if (loop >= 0 && i > 0) tp__re_emit(p, TP__RE_CHECK, 0, loop, 0);
        tp__re_emit(p, TP__RE_SPLIT, 0, !lazy, lazy);
        if (loop >= 0) tp__re_emit(p, TP__RE_SAVE, 0, -1 - loop, 0);
        tp__re_copies(p, item, n, 1);
    }
    if (high == TP__RE_MANY) {
        if (loop >= 0) tp__re_emit(p, TP__RE_CHECK, 0, loop, 0);
        tp__re_emit(p, TP__RE_JUMP, 0, begin - re->n_code, 0);
    }
    if (p->status != TP_OK) return;
    for (int i = begin; i < re->n_code; i++) {
        tp__re_inst *in = re->code + i;
        if (in->op == TP__RE_SPLIT && in->x == 0) in->x = re->n_code - i;
        if ((in->op == TP__RE_SPLIT || in->op == TP__RE_CHECK) && in->y == 0) in->y = re->n_code - i;
    }
}

static uint32_t tp__re_times(uint32_t a, uint32_t b)
{
    const uint64_t v = (uint64_t)a * b;
    return v < TP__RE_MANY ? (uint32_t)v : TP__RE_MANY;
}
static uint32_t tp__re_plus(uint32_t a, uint32_t b) { return a < TP__RE_MANY - b ? a + b : TP__RE_MANY; }

/* Makes the instructions from `begin` on, which match `width` characters, match low to high times. */
static void tp__re_repeat(tp__re_parser *p, int begin, tp__re_width *width, uint32_t low, uint32_t high, bool lazy)
{
    tp_regex *re = p->re;
    const int n = re->n_code - begin;
    int loop = -1;
    if (p->status != TP_OK) return;
    if (width->high == 0) { /* the item matches no characters: repeating it changes nothing */
        low = low > 0;
        high = high > 0;
    }
    if (width->low == 0 && high - low > 1) {
        loop = tp__re_more(p, (void *)&re->outer, &re->n_loop, &re->cap_loop, sizeof *re->outer);
        if (loop < 0) return;
        re->outer[loop] = -1;
        tp__re_enclose(re, begin, loop);
    }
    tp__re_inst *item = (tp__re_inst *)tp_malloc((size_t)(n + 1) * sizeof *item);
    if (!item) {
        tp__re_nomem(p);
        return;
    }
    if (n > 0) memcpy(item, re->code + begin, (size_t)n * sizeof *item);
    re->n_code = begin;
    tp__re_expand(p, item, n, low, high, lazy, loop);
    tp_free(item);
    width->low = tp__re_times(width->low, low);
    width->high = tp__re_times(width->high, high);
}

/* Moves past the next `c` that has no backslash before it; false: there is none. */
static bool tp__re_skip(tp__re_parser *p, char c)
{
    while (*p->at && *p->at != c) {
        if (*p->at++ != '\\') continue;
        if (*p->at) p->at++;
        else tp__re_fail(p, p->at - 1, "bad escape (end of pattern)");
    }
    return tp__re_skip_char(p, c);
}

/* The TP__RE_ flag for a letter of (?imsxau), or 0. */
static unsigned tp__re_flag(char c)
{
    static const char letters[] = "imsxau";
    const char *at = c ? strchr(letters, c) : NULL;
    return at ? 1u << (at - letters) : 0;
}

/* Parses the flags of "(?i)" or "(?i-s:". True if they are for the group that follows, false if for the whole pattern. */
static bool tp__re_flags(tp__re_parser *p, unsigned *flags, bool first)
{
    const char *begin = p->at;
    unsigned on = 0, off = 0, bit;
    for (; (bit = tp__re_flag(*p->at)) != 0; p->at++) on |= bit;
    const bool minus = tp__re_skip_char(p, '-');
    for (; minus && (bit = tp__re_flag(*p->at)) != 0; p->at++) off |= bit;
    const char end = *p->at;
    if ((end != ':' && end != ')') || (end == ')' && minus) || (minus && !off) || (!minus && !on))
        tp__re_fail(p, begin, "unknown extension or flag");
    else if ((on & off) || (off & (TP__RE_A | TP__RE_U)) || (on & (TP__RE_A | TP__RE_U)) == (TP__RE_A | TP__RE_U))
        tp__re_fail(p, begin, "bad inline flags");
    else if (end == ')' && !first) tp__re_fail(p, begin, "global flags not at the start of the expression");
    else p->at++;
    if (end == ':' && (on & (TP__RE_A | TP__RE_U))) *flags &= ~(unsigned)(TP__RE_A | TP__RE_U);
    *flags = (*flags | on) & ~off;
    if (end == ')' && (*flags & TP__RE_A) && (*flags & TP__RE_U)) tp__re_fail(p, begin, "bad inline flags");
    return end == ':';
}

/* Parses "name>" of a group. */
static void tp__re_group_name(tp__re_parser *p, int group)
{
    tp_regex *re = p->re;
    const char *begin = p->at;
    while (tp__re_is_letter((unsigned char)*p->at) || *p->at == '_' || (unsigned char)*p->at >= 128 ||
           (p->at > begin && tp__re_is_digit(*p->at)))
        p->at++;
    const int n = (int)(p->at - begin);
    if (n == 0 || !tp__re_skip_char(p, '>')) {
        tp__re_fail(p, begin, "bad or unterminated group name");
        return;
    }
    for (int i = 0; i < re->n_name; i++)
        if (re->name[i].n == n && memcmp(re->name[i].text, begin, (size_t)n) == 0)
            tp__re_fail(p, begin, "redefinition of a group name");
    const int i = tp__re_more(p, (void *)&re->name, &re->n_name, &re->cap_name, sizeof *re->name);
    if (i < 0) return;
    re->name[i].text = begin;
    re->name[i].n = n;
    re->name[i].group = group;
}

/* Parses a group after its parenthesis. False for comments and flags, which match nothing. */
static bool tp__re_group(tp__re_parser *p, unsigned *flags, bool first, tp__re_width *width)
{
    tp_regex *re = p->re;
    const char *begin = p->at - 1;
    const int start = re->n_code;
    int look = -1, group = -1;
    unsigned inner = *flags;
    bool behind = false;
    if (!tp__re_skip_char(p, '?')) {
        group = ++re->n_group;
    } else if (tp__re_skip_char(p, '#')) {
        if (!tp__re_skip(p, ')')) tp__re_fail(p, begin, "missing ), unterminated comment");
        return false;
    } else if (tp__re_skip_char(p, 'P')) {
        if (!tp__re_skip_char(p, '<'))
            tp__re_fail(p, begin, *p->at == '=' ? "back references are not supported" : "unknown extension");
        else tp__re_group_name(p, group = ++re->n_group);
    } else if (tp__re_skip_char(p, '>')) {
        look = TP__RE_ATOMIC;
    } else if (*p->at == '(') {
        tp__re_fail(p, begin, "groups with a condition are not supported");
    } else if (*p->at == '=' || *p->at == '!' || *p->at == '<') {
        behind = tp__re_skip_char(p, '<');
        if (*p->at != '=' && *p->at != '!') tp__re_fail(p, begin, "unknown extension");
        else look = *p->at++ == '=' ? TP__RE_AHEAD : TP__RE_NOT_AHEAD;
    } else if (!tp__re_skip_char(p, ':') && !tp__re_flags(p, &inner, first)) {
        *flags = inner;
        return false;
    }
    if (group > 0) tp__re_emit(p, TP__RE_SAVE, 0, 2 * group, 0);
    if (look >= 0) tp__re_emit(p, TP__RE_LOOK, (unsigned)look, 0, 0);
    *width = tp__re_alternatives(p, inner);
    if (!tp__re_skip_char(p, ')')) tp__re_fail(p, begin, "missing ), unterminated subpattern");
    if (group > 0) tp__re_emit(p, TP__RE_SAVE, 0, 2 * group + 1, 0);
    if (look >= 0) tp__re_close_look(p, start, behind ? (int)width->low : 0);
    if (behind && (width->low != width->high || width->low > TP__RE_CODE))
        tp__re_fail(p, begin, "look-behind requires fixed-width pattern");
    if (look == TP__RE_AHEAD || look == TP__RE_NOT_AHEAD) width->low = width->high = 0;
    return true;
}

/* Parses one of * + ? {m,n} after its first character c. False: c is a { that does not begin a repetition. */
static bool tp__re_counts(tp__re_parser *p, uint32_t c, uint32_t *low, uint32_t *high)
{
    const char *begin = p->at;
    uint32_t *v[2];
    v[0] = low;
    v[1] = high;
    *low = c == '+';
    *high = c == '?' ? 1 : TP__RE_MANY;
    if (c == '*' || c == '+' || c == '?') return true;
    if (c != '{' || *p->at == '}') return false;
    for (int k = 0; k < 2; k++) {
        if (tp__re_is_digit(*p->at)) *v[k] = 0;
        for (; tp__re_is_digit(*p->at); p->at++) *v[k] = tp__re_plus(tp__re_times(*v[k], 10), (uint32_t)(*p->at - '0'));
        if (k == 0 && !tp__re_skip_char(p, ',')) {
            if (p->at > begin) *high = *low;
            break;
        }
    }
    if (!tp__re_skip_char(p, '}')) {
        p->at = begin;
        return false;
    }
    if (*low == TP__RE_MANY || (*high == TP__RE_MANY && p->at[-2] != ','))
        tp__re_fail(p, begin, "the repetition number is too large");
    else if (*low > *high) tp__re_fail(p, begin, "min repeat greater than max repeat");
    return true;
}

enum { TP__RE_NONE, TP__RE_ANCHOR, TP__RE_ITEM, TP__RE_REPEATED };

/* Adds the instruction for one character or anchor that begins with character c; returns TP__RE_ITEM or TP__RE_ANCHOR. */
static int tp__re_single(tp__re_parser *p, uint32_t c, unsigned flags, tp__re_width *width)
{
    width->low = width->high = 0;
    if (c == '^' || c == '$' || (c == '\\' && *p->at && strchr("AZbB", *p->at))) {
        if (c == '\\') {
            c = tp__re_next(p);
            flags &= ~(unsigned)TP__RE_M;
        }
        tp__re_emit(p, TP__RE_AT, flags, c == 'A' ? '^' : (int32_t)c, 0);
        return TP__RE_ANCHOR;
    }
    width->low = width->high = 1;
    if (c == '[') {
        tp__re_class(p, flags);
    } else if (c == '.') {
        tp__re_emit(p, TP__RE_ANY, flags, 0, 0);
    } else if (c == '\\' && tp__re_escape(p, false, &c)) {
        tp__re_emit(p, TP__RE_SET, flags, p->re->n_set, 1);
        tp__re_item_add(p, c, TP__RE_CATEGORY);
    } else {
        tp__re_emit(p, TP__RE_CHAR, flags, (int32_t)c, 0);
    }
    return TP__RE_ITEM;
}

static tp__re_width tp__re_sequence(tp__re_parser *p, unsigned *flags, bool first)
{
    tp__re_width total_width = {0, 0}, last = {0, 0};
    int kind = TP__RE_NONE, begin = p->re->n_code;
    while (*p->at && *p->at != '|' && *p->at != ')') {
        const char *item_start = p->at;
        uint32_t c = tp__re_next(p), low, high;
        if ((*flags & TP__RE_X) && c < 128 && strchr(" \t\n\r\v\f#", (int)c)) {
            if (c == '#' && !tp__re_skip(p, '\n')) break;
        } else if (tp__re_counts(p, c, &low, &high)) {
            if (kind < TP__RE_ITEM) tp__re_fail(p, item_start, "nothing to repeat");
            if (kind == TP__RE_REPEATED) tp__re_fail(p, item_start, "multiple repeat");
            const bool lazy = tp__re_skip_char(p, '?');
            tp__re_repeat(p, begin, &last, low, high, lazy);
            if (!lazy && tp__re_skip_char(p, '+')) { /* a + after a repetition makes it possessive */
                tp__re_insert(p, begin, TP__RE_LOOK, TP__RE_ATOMIC, 0, 0);
                tp__re_close_look(p, begin, 0);
            }
            kind = TP__RE_REPEATED;
        } else {
            tp__re_width width = {0, 0};
            const int start = p->re->n_code;
            if (c == '(' && !tp__re_group(p, flags, first && kind == TP__RE_NONE, &width)) continue;
            kind = c == '(' ? TP__RE_ITEM : tp__re_single(p, c, *flags, &width);
            total_width.low = tp__re_plus(total_width.low, last.low);
            total_width.high = tp__re_plus(total_width.high, last.high);
            last = width;
            begin = start;
        }
    }
    total_width.low = tp__re_plus(total_width.low, last.low);
    total_width.high = tp__re_plus(total_width.high, last.high);
    return total_width;
}

static tp__re_width tp__re_alternatives(tp__re_parser *p, unsigned flags)
{
    tp_regex *re = p->re;
    tp__re_width total_width = {TP__RE_MANY, 0};
    /* index of the last jump to the end of the alternatives so far, -1: none; until the end is known, the x of each jump
     * holds the index of the jump before it */
    int jumps = -1;
    if (p->depth++ >= TP__RE_DEPTH) tp__re_fail(p, p->at, "its groups are nested too deep");
    for (bool first = p->depth == 1;; first = false) {
        const int begin = re->n_code;
        const tp__re_width alternative = tp__re_sequence(p, &flags, first);
        if (alternative.low < total_width.low) total_width.low = alternative.low;
        if (alternative.high > total_width.high) total_width.high = alternative.high;
        if (!tp__re_skip_char(p, '|')) break;
        tp__re_insert(p, begin, TP__RE_SPLIT, 0, 1, re->n_code + 2 - begin);
        tp__re_emit(p, TP__RE_JUMP, 0, jumps, 0);
        jumps = re->n_code - 1;
    }
    while (p->status == TP_OK && jumps >= 0) {
        const int before = re->code[jumps].x;
        re->code[jumps].x = re->n_code - jumps;
        jumps = before;
    }
    p->depth--;
    return total_width;
}

/* Gives numbers to the registers, and to each choice its rows in the table of failures: one row for each possible number of loops
 * around the choice whose current iteration is still empty. Only this number affects whether the rest of the pattern matches,
 * because an iteration of an inner loop begins no earlier than that of the loop around it. */
static void tp__re_link(tp_regex *re)
{
    for (tp__re_inst *i = re->code; i < re->code + re->n_code; i++) {
        if (i->op == TP__RE_SAVE && i->x < 0) i->x = 2 * re->n_group + 1 - i->x;
        if (i->op == TP__RE_CHECK) i->x += 2 * re->n_group + 2;
        if (i->op != TP__RE_SPLIT) continue;
        i->row = re->n_row++;
        for (int l = i->loop; l >= 0; l = re->outer[l]) re->n_row++;
    }
}

TP_DEF tp_status tp_regex_new(const char *pattern, tp_regex **out)
{
    tp__re_parser p;
    TP__REQUIRE(out, TP_ERR_ARG)
    memset(&p, 0, sizeof p);
    *out = NULL;
    if (!pattern) return tp_fail(TP_ERR_ARG, "tp_regex_new: the pattern is NULL");
    const size_t n = strlen(pattern) + 1;
    p.re = (tp_regex *)tp_calloc(1, sizeof *p.re);
    if (p.re) p.re->pattern = (char *)tp_malloc(n);
    if (!p.re || !p.re->pattern) {
        tp_free(p.re);
        return tp_fail(TP_ERR_NOMEM, "out of memory for a regular expression");
    }
    memcpy(p.re->pattern, pattern, n);
    p.at = p.re->pattern;
    tp__re_alternatives(&p, 0);
    if (*p.at) tp__re_fail(&p, p.at, "unbalanced parenthesis");
    tp__re_emit(&p, TP__RE_MATCH, 0, 0, 0);
    if (p.status != TP_OK) {
        tp_regex_free(p.re);
        return p.status;
    }
    tp__re_link(p.re);
    *out = p.re;
    return TP_OK;
}

TP_DEF void tp_regex_free(tp_regex *re)
{
    if (!re) return;
    tp_free(re->pattern);
    tp_free(re->code);
    tp_free(re->set);
    tp_free(re->name);
    tp_free(re->outer);
    tp_free(re);
}

TP_DEF int tp_regex_n_groups(const tp_regex *re) { return re ? re->n_group : 0; }

TP_DEF int tp_regex_group(const tp_regex *re, const char *name)
{
    for (int i = 0; re && name && i < re->n_name; i++)
        if (strlen(name) == (size_t)re->name[i].n && memcmp(name, re->name[i].text, (size_t)re->name[i].n) == 0)
            return re->name[i].group;
    return -1;
}

/* An entry of the backtracking stack: action >= 0: try instruction `action` at position a; action < 0: one of these
 * constants. */
enum {
    TP__RE_RESTORE = -1 /* restores the register: reg[a] = b */,
    TP__RE_FAILED = -2 /* marks position b as failed in row a of the table of failures */
};
typedef struct tp__re_entry {
    int32_t action, a, b;
} tp__re_entry;

typedef struct tp__re_machine {
    const tp_regex *re;
    const char *text;
    int32_t len, end; /* end: where the last match of a group or of the pattern ends */
    bool full;
    int32_t *reg;
    unsigned char *failed;
    tp__re_entry *stack;
    int n, cap;
    long steps;
    tp_status status;
} tp__re_machine;

static bool tp__re_push(tp__re_machine *m, int32_t action, int32_t a, int32_t b)
{
    if (m->n == m->cap) {
        const int cap = m->cap ? 2 * m->cap : 64;
        tp__re_entry *s = (tp__re_entry *)tp_realloc(m->stack, (size_t)cap * sizeof *s);
        if (!s) {
            m->status = tp_fail(TP_ERR_NOMEM, "out of memory for a regular expression");
            return false;
        }
        m->stack = s;
        m->cap = cap;
    }
    tp__re_entry *e = &m->stack[m->n++];
    e->action = action;
    e->a = a;
    e->b = b;
    return true;
}

/* Converts a character of ASCII or Latin-1 to lower case. */
static uint32_t tp__re_lower(uint32_t c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 0xc0 && c <= 0xde && c != 0xd7) ? c + 32 : c;
}
static uint32_t tp__re_upper(uint32_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 0xe0 && c <= 0xfe && c != 0xf7) ? c - 32 : c;
}

/* Whether \w matches c. Beyond Latin-1 it matches all characters but spaces, punctuation and symbols. */
static bool tp__re_is_word(uint32_t c, unsigned flags)
{
    static const char latin[] = "\xaa\xb2\xb3\xb5\xb9\xba\xbc\xbd\xbe";
    if (c < 128) return tp__re_is_letter(c) || tp__re_is_digit((char)c) || c == '_';
    if (flags & TP__RE_A) return false;
    if (c < 0xc0) return strchr(latin, (int)c) != NULL;
    return c != 0xd7 && c != 0xf7 && c != 0x1680 && (c < 0x2000 || c > 0x2bff) && (c < 0x3000 || c > 0x3004) &&
           (c < 0xd800 || c > 0xf8ff) && (c < 0x1f000 || c > 0x1faff);
}

static bool tp__re_is_space(uint32_t c, unsigned flags)
{
    if (c == ' ' || (c >= 9 && c <= 13)) return true;
    if (flags & TP__RE_A) return false;
    return (c >= 28 && c <= 31) || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static bool tp__re_in_set(const tp_regex *re, const tp__re_inst *i, uint32_t c)
{
    for (int k = 0; k < i->y; k++) {
        const tp__re_item *s = &re->set[i->x + k];
        if (s->high == TP__RE_CATEGORY) {
            const uint32_t kind = s->low | 32;
            const bool in_class = kind == 'd'   ? c >= '0' && c <= '9'
                                  : kind == 'w' ? tp__re_is_word(c, i->flags)
                                                : tp__re_is_space(c, i->flags);
            if (in_class == (s->low == kind)) return true;
        } else if (c >= s->low && c <= s->high) {
            return true;
        }
    }
    return false;
}

/* Whether the instruction matches the character c. */
static bool tp__re_matches_char(const tp_regex *re, const tp__re_inst *i, uint32_t c)
{
    if (i->op == TP__RE_ANY) return c != '\n' || (i->flags & TP__RE_S);
    if (i->op == TP__RE_CHAR)
        return c == (uint32_t)i->x || ((i->flags & TP__RE_I) && tp__re_lower(c) == tp__re_lower((uint32_t)i->x));
    bool matches = tp__re_in_set(re, i, c);
    if (i->flags & TP__RE_I) matches = tp__re_in_set(re, i, tp__re_lower(c)) || tp__re_in_set(re, i, tp__re_upper(c));
    return matches != ((i->flags & TP__RE_NOT) != 0);
}

/* Returns the position at which the character before `at` begins. */
static int32_t tp__re_before(const tp__re_machine *m, int32_t at)
{
    for (int32_t n = 4; n > 1; n--) {
        int size;
        if (at < n) continue;
        tp__re_decode(m->text + at - n, m->text + at, &size);
        if (size == n) return at - n;
    }
    return at - 1;
}

static bool tp__re_position_matches(const tp__re_machine *m, const tp__re_inst *i, int32_t at)
{
    const char *t = m->text;
    const bool lines = (i->flags & TP__RE_M) != 0;
    bool word[2] = {false, false};
    int size;
    switch (i->x) {
    case '^': return at == 0 || (lines && t[at - 1] == '\n');
    case '$': return at == m->len || (t[at] == '\n' && (lines || at == m->len - 1));
    case 'Z': return at == m->len;
    default: break;
    }
    if (at > 0) word[0] = tp__re_is_word(tp__re_decode(t + tp__re_before(m, at), t + at, &size), i->flags);
    if (at < m->len) word[1] = tp__re_is_word(tp__re_decode(t + at, t + m->len, &size), i->flags);
    return m->len > 0 && (word[0] != word[1]) == (i->x == 'b');
}

static int tp__re_run(tp__re_machine *m, int32_t pc, int32_t at);

/* Runs a lookaround or an atomic group at `pc`: 1 it holds, 0 it does not, -1 error. The registers that its groups set keep
 * their values, and can be restored later; its untried choices are dropped. */
static int tp__re_lookaround(tp__re_machine *m, int32_t pc, int32_t at)
{
    const tp__re_inst *i = &m->re->code[pc];
    const int base = m->n;
    int found = 1, kept = base;
    for (int32_t k = 0; k < i->y && found; k++) {
        found = at > 0;
        if (found) at = tp__re_before(m, at);
    }
    if (found) found = tp__re_run(m, pc + 1, at);
    if (found < 0) return found;
    for (int k = base; k < m->n; k++)
        if (m->stack[k].action == TP__RE_RESTORE) m->stack[kept++] = m->stack[k];
    m->n = kept;
    if (i->flags != TP__RE_NOT_AHEAD) return found;
    while (m->n > base) {
        m->n--;
        m->reg[m->stack[m->n].a] = m->stack[m->n].b;
    }
    return !found;
}

/* Backtracks to the last untried choice above `base` on the stack: false if there is none. */
static bool tp__re_backtrack(tp__re_machine *m, int base, int32_t *pc, int32_t *at)
{
    while (m->n > base) {
        const tp__re_entry e = m->stack[--m->n];
        if (e.action >= 0) {
            *pc = e.action;
            *at = e.a;
            return true;
        }
        if (e.action == TP__RE_RESTORE) {
            m->reg[e.a] = e.b;
        } else {
            const size_t bit = (size_t)e.a * ((size_t)m->len + 1) + (size_t)e.b;
            m->failed[bit / 8] = (unsigned char)(m->failed[bit / 8] | 1u << (bit % 8));
        }
    }
    return false;
}

/* Whether the choice is known to fail at this position. 1: yes; 0: no, and an entry TP__RE_FAILED is pushed, which
 * marks the choice as failed when the machine backtracks over it; -1: error. */
static int tp__re_known_to_fail(tp__re_machine *m, const tp__re_inst *i, int32_t at)
{
    int32_t row = i->row;
    for (int l = i->loop; l >= 0; l = m->re->outer[l]) row += m->reg[2 * m->re->n_group + 2 + l] == at;
    const size_t bit = (size_t)row * ((size_t)m->len + 1) + (size_t)at;
    if (m->failed[bit / 8] >> (bit % 8) & 1) return 1;
    return tp__re_push(m, TP__RE_FAILED, row, at) ? 0 : -1;
}

/* Runs the program from instruction pc at position `at` to the end of the group or pattern: 1 it matches, 0 it does not, -1
 * error. */
static int tp__re_run(tp__re_machine *m, int32_t pc, int32_t at)
{
    const int base = m->n;
    for (;;) {
        const tp__re_inst *i = &m->re->code[pc];
        int ok = 1, size;
        if (++m->steps > TP__RE_STEPS) {
            m->status =
                tp_fail(TP_ERR_ARG, "regular expression '%.200s': no answer within %d steps for a text of %d bytes",
                        m->re->pattern, TP__RE_STEPS, (int)m->len);
            return -1;
        }
        switch (i->op) {
        case TP__RE_AT:
            ok = tp__re_position_matches(m, i, at);
            pc++;
            break;
        case TP__RE_JUMP: pc += i->x; break;
        case TP__RE_SPLIT:
            ok = tp__re_known_to_fail(m, i, at);
            if (ok < 0 || (ok == 0 && !tp__re_push(m, pc + i->y, at, 0))) return -1;
            ok = !ok;
            pc += i->x;
            break;
        case TP__RE_SAVE:
            if (!tp__re_push(m, TP__RE_RESTORE, i->x, m->reg[i->x])) return -1;
            m->reg[i->x] = i->flags & TP__RE_NOT ? -1 : at;
            pc++;
            break;
        case TP__RE_CHECK: pc += m->reg[i->x] == at ? i->y : 1; break;
        case TP__RE_LOOK:
            ok = tp__re_lookaround(m, pc, at);
            if (ok < 0) return -1;
            if (i->flags == TP__RE_ATOMIC) at = m->end;
            pc += i->x;
            break;
        case TP__RE_MATCH:
        case TP__RE_DONE:
            ok = i->op == TP__RE_DONE || !m->full || at == m->len;
            m->end = at;
            if (ok) return 1;
            break;
        default: /* all other instructions match one character */
            ok = at < m->len;
            if (!ok) break;
            ok = tp__re_matches_char(m->re, i, tp__re_decode(m->text + at, m->text + m->len, &size));
            at += size;
            pc++;
        }
        if (!ok && !tp__re_backtrack(m, base, &pc, &at)) return 0;
    }
}

typedef enum { TP__RE_SEARCH, TP__RE_START, TP__RE_FULL } tp__re_mode;

static tp_status tp__re_find(const tp_regex *re, const char *text, tp__re_mode mode, bool *found, tp_span *span, int n)
{
    tp__re_machine m;
    TP__REQUIRE(found && (span || n <= 0), TP_ERR_ARG)
    memset(&m, 0, sizeof m);
    *found = false;
    if (!re || !text) return tp_fail(TP_ERR_ARG, "tp_regex: the %s is NULL", re ? "text" : "regular expression");
    const size_t len = strlen(text), n_reg = (size_t)(2 * re->n_group + 2 + re->n_loop);
    if (len >= INT32_MAX || (uint64_t)re->n_row * (len + 1) >= UINT32_MAX)
        return tp_fail(TP_ERR_ARG, "regular expression '%.200s': a text of %zu bytes is too long", re->pattern, len);
    m.re = re;
    m.text = text;
    m.len = (int32_t)len;
    m.full = mode == TP__RE_FULL;
    m.reg = (int32_t *)tp_malloc(n_reg * sizeof *m.reg);
    m.failed = (unsigned char *)tp_calloc((size_t)re->n_row * (len + 1) / 8 + 1, 1);
    if (!m.reg || !m.failed) m.status = tp_fail(TP_ERR_NOMEM, "out of memory for a regular expression");
    for (size_t i = 0; i < n_reg && m.reg; i++) m.reg[i] = -1;
    int32_t at = 0;
    int size = 1;
    while (m.status == TP_OK) {
        *found = tp__re_run(&m, 0, at) > 0;
        if (*found || at >= m.len || mode != TP__RE_SEARCH) break;
        tp__re_decode(text + at, text + m.len, &size);
        at += size;
    }
    for (int i = 0; i < n && *found; i++) {
        const bool took = i > 0 && i <= re->n_group && m.reg[2 * i] >= 0 && m.reg[2 * i + 1] >= 0;
        span[i].begin = i == 0 ? at : took ? m.reg[2 * i] : -1;
        span[i].end = i == 0 ? m.end : took ? m.reg[2 * i + 1] : -1;
    }
    tp_free(m.reg);
    tp_free(m.failed);
    tp_free(m.stack);
    return m.status;
}

TP_DEF tp_status tp_regex_search(const tp_regex *re, const char *text, bool *found, tp_span *spans, int n_spans)
{
    return tp__re_find(re, text, TP__RE_SEARCH, found, spans, n_spans);
}
TP_DEF tp_status tp_regex_match(const tp_regex *re, const char *text, bool *found, tp_span *spans, int n_spans)
{
    return tp__re_find(re, text, TP__RE_START, found, spans, n_spans);
}
TP_DEF tp_status tp_regex_fullmatch(const tp_regex *re, const char *text, bool *found, tp_span *spans, int n_spans)
{
    return tp__re_find(re, text, TP__RE_FULL, found, spans, n_spans);
}

/* -- filters of names */

/* Selects names by a pattern, for functions that build graphs: open the filter, test each name, close it. */
typedef struct tp__filter {
    tp_graph *g;
    tp_at at;
    const char *filter_name;
    tp_regex *re; /* the compiled pattern; NULL: all names match */
    bool search;
    int n_matched;
    tp__nearest near;
} tp__filter;

/* Opens a filter. search: a match anywhere in the name, as re.search; else as re.match of the pattern with `$`
 * appended, as in tensorpack: of a|b the `$` belongs to b only. A NULL pattern matches all names. The graph keeps a
 * mistake in the pattern, with `at` and `filter_name`. */
TP__UNUSED static bool tp__filter_open(tp__filter *f, tp_graph *g, const tp_at *at, const char *filter_name,
                                       const char *pattern, bool search)
{
    memset(f, 0, sizeof *f);
    f->g = g;
    if (at) f->at = *at;
    f->filter_name = filter_name;
    f->search = search;
    f->near.wanted = pattern;
    if (!pattern || tp_graph_status(g) != TP_OK) return tp_graph_status(g) == TP_OK;
    const size_t n = strlen(pattern);
    if (!search && (n == 0 || pattern[n - 1] != '$')) pattern = tp_arena_printf(&g->arena, "%s$", pattern);
    if (!pattern) return tp__graph_nomem(g), false;
    const tp_status s = tp_regex_new(pattern, &f->re);
    if (s == TP_ERR_NOMEM) tp__graph_nomem(g);
    else if (s != TP_OK) tp_graph_fail(g, at, s, "%s: %s", filter_name, tp_last_error());
    return s == TP_OK;
}

TP__UNUSED static bool tp__filter_matches(tp__filter *f, const char *name)
{
    bool matches = f->near.wanted == NULL;
    if (f->re) {
        const tp_status s = f->search ? tp_regex_search(f->re, name, &matches, NULL, 0)
                                      : tp_regex_match(f->re, name, &matches, NULL, 0);
        if (s == TP_ERR_NOMEM) tp__graph_nomem(f->g);
        else if (s != TP_OK) tp_graph_fail(f->g, &f->at, s, "%s: %s", f->filter_name, tp_last_error());
    }
    if (matches) f->n_matched++;
    else tp__nearest_try(&f->near, name);
    return matches;
}

/* Warns, once, if the pattern matched no name. */
TP__UNUSED static void tp__filter_close(tp__filter *f)
{
    char text[TP__NEAREST_TEXT], place[TP__PLACE_TEXT];
    tp_regex_free(f->re);
    if (f->n_matched > 0 || tp_graph_status(f->g) != TP_OK) return;
    tp__nearest_text(&f->near, text);
    tp_log_once(TP_LOG_WARN, "%s[%s] No match was found for regex %s%s", tp__place_text(&f->at, place), f->filter_name,
                f->near.wanted ? f->near.wanted : ".*", text[0] ? text : ".");
}

/* The op pages (>>ops, at the end of this file) are included four times, once for each of the four element types of naive loops;
 * the last time adds shape rules, gradients and rows. */
#define TP__NUM      int32_t
#define TP__F(name)  name##_i32
#define TP__PASS_INT 1
#include TP_GRAPH_FILE
#undef TP__NUM
#undef TP__F
#define TP__NUM     int64_t
#define TP__F(name) name##_i64
#include TP_GRAPH_FILE
#undef TP__NUM
#undef TP__F
#undef TP__PASS_INT
TP__COLD_END
#define TP__NUM           float
#define real              float
#define TP__F(name)       name##_f32
#define TP__REAL_IS_FLOAT 1
#include TP_GRAPH_FILE
#undef TP__NUM
#undef real
#undef TP__F
#undef TP__REAL_IS_FLOAT
TP__COLD_BEGIN
/* The fast kernels. The rows of the op table, which the last inclusion of the op pages defines, refer to them. */
#if TP__FAST
#define TP__FAST_OPS
#include "tp_fast.h"
#undef TP__FAST_OPS
#endif
#define TP__NUM     double
#define real        double
#define TP__F(name) name##_f64
#define TP__ROWS    1
#include TP_GRAPH_FILE
#undef TP__NUM
#undef real
#undef TP__F
#undef TP__ROWS
/* ==== >>registry ====================================================================================== */

TP_DEF const tp_op *tp_op_registry(int i)
{
    const int n_math = TP_COUNT(tp__math_rows), n_nn = TP_COUNT(tp__nn_rows);
    if (i < 0) return NULL;
    if (i < n_math) return tp__math_rows[i];
    if (i < n_math + n_nn) return tp__nn_rows[i - n_math];
    switch (i - n_math - n_nn) {
    case 0: return &tp__op_placeholder;
    case 1: return &tp__op_constant;
    case 2: return &tp__op_variable;
    default: return NULL;
    }
}

TP_DEF const tp_op *tp_op_find(const char *name)
{
    TP__REQUIRE(name, NULL)

    const tp_op *row;
    for (int i = 0; (row = tp_op_registry(i)) != NULL; i++)
        if (strcmp(row->name, name) == 0) return row;
    tp__nearest n;
    char near[TP__NEAREST_TEXT];
    memset(&n, 0, sizeof n);
    n.wanted = name;
    for (int i = 0; (row = tp_op_registry(i)) != NULL; i++) tp__nearest_try(&n, row->name);
    tp_fail(TP_ERR_NAME, "there is no op '%s'%s", name, tp__nearest_text(&n, near));
    return NULL;
}

/* ==== >>gradient rules ================================================================================ */
/* Rules that replace an op's own gradient (on its page) by a cheaper one, where the ops around it allow that. */

/* y = relu(x), and only a max pool reads y. Where the pooled maximum is 0, the ReLU has no gradient. So relu_grad is applied before
 * max_pool_grad, to the fewer pooled elements. The bits are the same as with relu_grad after it. */
static bool tp__gradient_of_pooled_relu(tp_grad *g)
{
    const tp_operation *unpool = g->dout[0] ? g->dout[0]->op : NULL;
    if (g->op->row != &tp__op_relu || !unpool || !(unpool->row->flags & TP__OP_MAX_POOL_GRAD)) return false;
    const tp_operation *pool = unpool->in[1]->op;
    if (!(pool->row->flags & TP__OP_MAX_POOL) || tp__skip_identities(pool->in[0]) != g->out ||
        tp__skip_identities(unpool->in[2]) != g->out)
        return false;
    tp_node *in[3];
    in[0] = tp__op2(&tp__op_relu_grad, unpool->in[0], &pool->out[0], NULL);
    in[1] = unpool->in[1];
    in[2] = g->out;
    g->din[0] = tp__opn(unpool->row, in, 3, unpool->attrs);
    return true;
}
/* y = x + b, and only a max pool reads y. The bias gradient sums the input of max_pool_grad instead of its output: the sum per
 * channel is equal, and there are fewer elements. */
static bool tp__gradient_of_pooled_bias(tp_grad *g)
{
    if (g->op->row != &tp__op_bias_add || !g->dout[0] || !(g->dout[0]->op->row->flags & TP__OP_MAX_POOL_GRAD))
        return false;
    tp_node *dy = g->dout[0];
    const bool channels_last = ((const tp__bias_attrs *)g->op->attrs)->data_format != TP_NCHW;
    if (channels_last != (((const tp_pool_attrs *)dy->op->attrs)->data_format != TP_NCHW))
        return false; /* the bias_add and the pooling have different channel axes */
    g->dout[0] = dy->op->in[0];
    g->op->row->grad(g);
    g->dout[0] = g->din[0] = dy;
    return true;
}

typedef struct tp__gradient_rule {
    const char *what;
    bool (*match)(tp_grad *g); /* a gradient rule; it returns true if it has set g->din */
} tp__gradient_rule;
static const tp__gradient_rule tp__gradient_rules[] = {
    {"the mask of a pooled ReLU comes before the unpooling", tp__gradient_of_pooled_relu},
    {"the gradient of a bias is summed before the unpooling", tp__gradient_of_pooled_bias},
};
static bool tp__cheaper_gradient(tp_grad *g)
{
    for (int i = 0; i < (TP__HAS_FUSION ? TP_COUNT(tp__gradient_rules) : 0); i++)
        if (tp__gradient_rules[i].match(g)) return true;
    return false;
}

/* ==== >>summaries ===================================================================================== */

TP_DEF const tp_summary_attrs *tp_summary_info(const tp_node *n)
{
    return n && n->op->row == &tp__op_summary ? (const tp_summary_attrs *)n->op->attrs : NULL;
}

/* Whether summaries are added here: in the main training tower, or outside towers. */
static bool tp__summary_here(const tp_graph *g)
{
    const tp_tower_context *t = tp_current_tower_context(g);
    return g->status == TP_OK && (!t || t->is_main_training_tower);
}

/* The collections that get a new node: those of a list that ends with NULL; without a list `one`; without `one` the default. The
 * name "" stands for no collection. */
typedef struct tp__collection_keys {
    const char *one;
    const char *const *several;
} tp__collection_keys;
static tp__collection_keys tp__collection_keys_of(const char *one, const char *const *several, const char *otherwise)
{
    tp__collection_keys k;
    k.one = one ? one : otherwise;
    k.several = several;
    return k;
}
static void tp__add_to_collections(tp_graph *g, const tp__collection_keys *k, tp_node *n)
{
    for (int i = 0; k->several && k->several[i]; i++)
        if (*k->several[i]) tp_collection_add(g, k->several[i], n);
    if (!k->several && *k->one) tp_collection_add(g, k->one, n);
}

/* Adds a summary node. Its tag is the node's name, with its name scope and unique in the graph, as in TensorFlow. */
static void tp__summary_node(tp_node *x, const char *name, int kind, const tp__collection_keys *keys)
{
    tp_graph *g = tp_node_graph(x);
    tp_summary_attrs a;
    tp_apply_desc d;
    memset(&a, 0, sizeof a);
    memset(&d, 0, sizeof d);
    a.tag = name;
    a.kind = kind;
    d.row = &tp__op_summary;
    d.in = &x;
    d.n_in = 1;
    d.attrs = &a;
    d.name = name;
    tp_node *n = tp_apply_ex(g, &d);
    if (tp_is_poison(n)) return;
    ((tp_summary_attrs *)n->op->attrs)->tag = n->op->name;
    tp__add_to_collections(g, keys, n);
}

/* Returns name + suffix, in the graph's tp_arena. */
static const char *tp__tag(tp_graph *g, const char *name, const char *suffix)
{
    const char *s = tp_arena_printf(&g->arena, "%s%s", name, suffix);
    return s ? s : (tp__graph_nomem(g), "");
}

static void tp__tensor_summary(tp_node *x, int types, const char *name, const tp__collection_keys *k, const tp_at *at)
{
    tp_graph *g = tp_node_graph(x);
    const int known = TP_SUMMARY_SCALAR | TP_SUMMARY_HISTOGRAM | TP_SUMMARY_SPARSITY | TP_SUMMARY_MEAN |
                      TP_SUMMARY_RMS | TP_SUMMARY_IMAGE;
    if (types & ~known) {
        tp_graph_fail(g, at, TP_ERR_ARG, "summary of '%s': %d is no sum of TP_SUMMARY_ types", x->op->name, types);
        return;
    }
    if (types & TP_SUMMARY_SCALAR && tp_shape_size(&x->shape) != 1) {
        char t[TP_SHAPE_TEXT];
        tp_log_once(
            TP_LOG_WARN,
            "the summary of '%s' as a scalar shows its first element only, its shape is %s: take its mean, or give "
            "TP_SUMMARY_MEAN or TP_SUMMARY_HISTOGRAM",
            x->op->name, tp_shape_text(&x->shape, t));
    }
    const int64_t channels = x->shape.ndim == 4 ? x->shape.dim[3] : -1;
    if (types & TP_SUMMARY_IMAGE && channels >= 0 && channels != 1 && channels != 3 && channels != 4) {
        tp_graph_fail(g, at, TP_ERR_SHAPE, "image summary of '%s': it has %lld channels, 1, 3 or 4 are possible",
                      x->op->name, (long long)channels);
        return;
    }
    if (!name) name = x->op->name;
    if (types & TP_SUMMARY_SCALAR) tp__summary_node(x, tp__tag(g, name, "-summary"), TP_SUMMARY_SCALAR, k);
    if (types & TP_SUMMARY_HISTOGRAM) tp__summary_node(x, tp__tag(g, name, "-histogram"), TP_SUMMARY_HISTOGRAM, k);
    if (types & TP_SUMMARY_IMAGE) tp__summary_node(x, name, TP_SUMMARY_IMAGE, k);
    if (types & TP_SUMMARY_SPARSITY)
        tp__summary_node(tp_zero_fraction(x), tp__tag(g, name, "-sparsity"), TP_SUMMARY_SCALAR, k);
    if (types & TP_SUMMARY_MEAN) tp__summary_node(tp_mean(x), tp__tag(g, name, "-mean"), TP_SUMMARY_SCALAR, k);
    if (types & TP_SUMMARY_RMS)
        tp__summary_node(tp_sqrt(tp_mean(tp_square(x))), tp__tag(g, name, "-rms"), TP_SUMMARY_SCALAR, k);
}

TP_DEF void tp_add_tensor_summary_(tp_node *x, const tp_tensor_summary_desc *d)
{
    if (!x) tp_log(TP_LOG_WARN, "tp_add_tensor_summary: x is NULL, so nothing is summarised");
    TP__REQUIRE(x && d, )

    if (tp_is_poison(x)) return;
    const tp_graph *g = tp_node_graph(x);
    const tp__collection_keys k = tp__collection_keys_of(d->collection, d->collections, TP_KEY_SUMMARIES);
    if (d->types == 0)
        tp_log_once(TP_LOG_WARN,
                    "tp_add_tensor_summary of '%s' has no types, so it adds nothing: give TP_SUMMARY_SCALAR or others",
                    tp_node_name(x));
    if (d->main_tower_only == TP_NO ? g->status == TP_OK : tp__summary_here(g))
        tp__tensor_summary(x, d->types, d->name, &k, &d->at_);
}

TP_DEF void(tp_add_tensor_summary)(tp_node *x, int types, const char *name, const char *collection)
{
    tp_tensor_summary_desc d;
    memset(&d, 0, sizeof d);
    d.types = types;
    d.name = name;
    d.collection = collection;
    tp_add_tensor_summary_(x, &d);
}

TP_DEF void tp_add_activation_summary(tp_node *x, int types, const char *name, const char *collection)
{
    if (!x) tp_log(TP_LOG_WARN, "tp_add_activation_summary: x is NULL, so nothing is summarised");
    TP__REQUIRE(x, )

    if (tp_is_poison(x)) return;
    tp_graph *g = tp_node_graph(x);
    if (x->shape.ndim < 2) {
        tp_log(TP_LOG_WARN, "Cannot summarize scalar activation %s", x->op->name);
        return;
    }
    if (types == 0) types = TP_SUMMARY_SPARSITY | TP_SUMMARY_RMS | TP_SUMMARY_HISTOGRAM;
    tp_cached_name_scope_push(g, "activation-summary", true);
    (tp_add_tensor_summary)(x, types, name, collection);
    tp_name_scope_pop(g);
}

/* Returns `name` without every "towerN/". */
static const char *tp__strip_towers(tp_graph *g, const char *name)
{
    char *out = tp_graph_strdup(g, name);
    if (!out) return "";
    for (char *p = out; (p = strstr(p, "tower")) != NULL;) {
        char *q = p + 5;
        while (*q >= '0' && *q <= '9') q++;
        if (q > p + 5 && *q == '/') memmove(p, q + 1, strlen(q + 1) + 1);
        else p += 5;
    }
    return out;
}

/* Adds the moving average of one scalar. Returns NULL in towers other than the main one, under reuse, and after a mistake. */
static tp_node *tp__moving_summary(tp_node *x, float decay, const tp__collection_keys *averages,
                                   const tp__collection_keys *summaries)
{
    tp_graph *g = tp_node_graph(x);
    if (tp_is_poison(x) || !tp__summary_here(g)) return NULL;
    if (tp_variable_scope_reuse(g) == TP_REUSE_YES) {
        tp_log(TP_LOG_WARN, "the moving summary of '%s' is ignored: its variable scope only reuses variables",
               x->op->name);
        return NULL;
    }
    if (x->shape.ndim != 0) {
        char t[TP_SHAPE_TEXT];
        tp_graph_fail(g, &x->op->at, TP_ERR_SHAPE,
                      "moving summary of '%s': its shape is %s, a scalar is needed: take its mean", x->op->name,
                      tp_shape_text(&x->shape, t));
        return NULL;
    }
    const char *name = tp__strip_towers(g, x->op->name);
    if (x->dtype != TP_F32) x = tp_cast(x, TP_F32);
    tp_variable_desc vd;
    memset(&vd, 0, sizeof vd);
    vd.init = tp_init_zeros();
    vd.trainable = TP_NO;
    vd.local = true;
    tp_node *vars[2];
    const char *suffix[2] = {"biased", "local_step"};
    for (int k = 0; k < 2; k++) { /* variables at the root scope: `name` has its scopes already */
        const char *full = tp_arena_printf(&g->arena, "EMA/%s/%s", name, suffix[k]);
        if (!full) full = "EMA";
        tp_variable *v = tp__variable_named(g, full);
        vars[k] = v ? v->node : tp__new_variable(g, &vd, full);
    }
    const float attrs = decay;
    tp_apply_desc d;
    memset(&d, 0, sizeof d);
    d.row = &tp__op_ema_debias;
    d.in = &x;
    d.n_in = 1;
    d.attrs = &attrs;
    d.vars = vars;
    d.n_var = 2;
    d.name = tp__tag(g, "EMA/", name);
    tp_node *ema = tp_apply_ex(g, &d);
    tp_name_scope_push(g, ""); /* `name` already contains its scopes */
    tp__summary_node(ema, tp__tag(g, name, "-summary"), TP_SUMMARY_SCALAR, summaries);
    tp_name_scope_pop(g);
    tp__add_to_collections(g, averages, ema);
    return g->status == TP_OK ? ema : NULL;
}

TP_DEF tp_node *const *tp_add_moving_summary_n(tp_node *const *scalars, int n, const tp_moving_summary_desc *desc)
{
    TP__REQUIRE((scalars || n == 0) && n >= 0, NULL)

    tp_moving_summary_desc none;
    memset(&none, 0, sizeof none);
    if (!desc) desc = &none;
    const tp__collection_keys averages = tp__collection_keys_of(desc->collection, NULL, TP_KEY_MOVING_SUMMARY_OPS),
                              summaries = tp__collection_keys_of(desc->summary_collection, desc->summary_collections,
                                                                 TP_KEY_SUMMARIES);
    const float decay = tp__float_option(desc->decay, 0.95f);
    if (!(decay >= 0.0f && decay < 1.0f)) {
        tp_graph_fail(tp__list_graph(scalars, n), NULL, TP_ERR_ARG,
                      "tp_add_moving_summary has .decay %g: it must be at least 0 and less than 1", (double)decay);
        return NULL;
    }
    tp_node **ema = NULL;
    for (int i = 0; i < n; i++) {
        if (!scalars[i]) tp_log(TP_LOG_WARN, "tp_add_moving_summary: node %d is NULL: nothing is reported of it", i);
        tp_node *y = tp__moving_summary(scalars[i], decay, &averages, &summaries);
        if (!y) return NULL;
        if (!ema) ema = (tp_node **)tp_graph_alloc(tp_node_graph(y), (size_t)n * sizeof *ema);
        if (!ema) return NULL;
        ema[i] = y;
    }
    return ema;
}

TP_DEF void tp_add_param_summary_(tp_graph *g, const tp_param_summary_desc *d)
{
    TP__GRAPH_REQUIRE(g, g && d, )

    int n = 0;
    if (!tp__summary_here(g)) return;
    const tp__collection_keys k = tp__collection_keys_of(d->collection, d->collections, TP_KEY_SUMMARIES);
    if (d->types == 0)
        tp_log_once(
            TP_LOG_WARN,
            "tp_add_param_summary of '%s' has no types, so it adds nothing: give TP_SUMMARY_HISTOGRAM or others",
            d->regex ? d->regex : "");
    tp_cached_name_scope_push(g, "param-summary", true);
    tp__filter f;
    if (tp__filter_open(&f, g, &d->at_, "add_param_summary", d->regex, false)) {
        tp_node *const *vars = tp_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n);
        for (int i = 0; i < n; i++)
            if (tp__filter_matches(&f, vars[i]->op->name)) tp__tensor_summary(vars[i], d->types, NULL, &k, &d->at_);
        tp__filter_close(&f);
    }
    tp_name_scope_pop(g);
}

TP_DEF void(tp_add_param_summary)(tp_graph *g, const char *regex, int types)
{
    tp_param_summary_desc d;
    memset(&d, 0, sizeof d);
    d.regex = regex;
    d.types = types;
    tp_add_param_summary_(g, &d);
}

/* ==== >>plan ========================================================================================== */
/* A plan is compiled once per (fetches, fed nodes, fed shapes) and run many times:
 *   1. reach     finds the operations that the fetches need, and those of which only the shape is needed
 *   2. infer     computes every shape from the fed shapes
 *      2b        rewrite: the rules of tp__rewrites replace operations by cheaper ones with the same results
 *   3. order     is creation order, except where a variable's old value must be read before it is written, and for ops that
 *                must run early
 *      3b        precision: chooses the values that are stored in half precision, if the session has one
 *   4. alias     views, identities and equal-shape broadcasts get no buffer of their own
 *   5. fold      computes at once every value that depends on constants alone
 *   6. fuse      tries each rule of tp__rules once for each op and records the result in the op's tp__fusion; then it joins
 *                chains of element-wise ops into one kernel each
 *   7. emit      makes the steps in order, each with its kernel and buffers, and the copies between devices
 *   8. place     puts results over operands that are read for the last time, and buffers into the arena by lifetime
 * Each of these steps keeps the bits of every value: a fetch never changes what is trained.
 *
 * Each operation runs on its device, and its values are in that device's arena. Steps 4 to 6 never combine operations of
 * different devices. A value that is read on another device is copied there when its first reader on that device is emitted
 * (tp__replicate_on). The copy thus runs just before that reader, and the order of readers and writers in step 3 holds
 * for copies too. */

#define TP__MAX_RULES    4   /* largest number of fusion rules that match the same op */
#define TP__MAX_DESCENTS 256 /* largest number of products that one op of gradient descent absorbs */
#define TP__MAX_PLANS    32
#define TP__MAX_KEEPING  4 /* largest number of plans of an exec that keep packed weights */

/* -- the parts of a plan ------------------------------------------------------------------------------- */

typedef enum { TP__IN_NOTHING, TP__IN_ARENA, TP__IN_VAR, TP__IN_CONST } tp__place;

typedef struct tp__buffer {
    tp__place place;
    int device;
    int64_t bytes;
    /* the first step that writes the buffer and the last step that reads it; last INT_MAX: the value is fetched */
    int first, last;
    size_t offset; /* offset of the buffer in the arena, or in the buffer whose memory it shares */
    const tp_variable *var;
    void *data;            /* address of a constant, on its device */
    const void *host_data; /* address of the constant for the host; NULL: the host cannot read it */
    int merged;            /* the buffer whose memory this one shares; -1: none */
} tp__buffer;

/* One value of the plan. */
typedef struct tp__value {
    tp_type type;
    tp_type op_type; /* for a fed value: the type that its op computes; the shape of the fed value may differ */
    int buffer;      /* index of the value's buffer; -1: no step reads the value */
} tp__value;
struct tp__compiler;

/* A rule of fusion: see tp__rules. */
typedef struct tp__rule {
    const char *name, *what;
    tp_status (*match)(struct tp__compiler *c, const tp_operation *o, const struct tp__rule *self);
} tp__rule;

typedef struct tp__step {
    const tp_op *row;
    tp_kernel_fn fn;
    const char *name;
    tp_call call;
    tp_operand *operand; /* the operands of the call: inputs, then outputs, then variables */
    int *buffer;         /* buffer of each operand; -1: none */
    int scratch;         /* index of the scratch buffer; -1: none */
    int device;
    int from; /* the step is a copy from this device; -1: it runs a kernel */
    /* a collective step: all devices of its operands run it jointly, through the all_reduce of the first one */
    bool is_collective;
    bool convert;        /* half-precision operands are converted to float for the kernel and back */
    bool needs_epilogue; /* the kernel handles no bias and no activation: tp__finish_naive applies them */
    const struct tp__rule *rule[TP__MAX_RULES]; /* the fusion rules that matched the step's op */
    int n_rule;
    double seconds; /* measured run time of this step, in seconds */
    int64_t runs;
} tp__step;

/* A copy of a constant on a device. */
typedef struct tp__constant {
    void *data;
    int device;
} tp__constant;

/* A fed value and the buffer that it is copied to. A value that several devices read has several uploads. */
typedef struct tp__upload {
    int feed, buffer;
    int staged; /* during a run: number of its staging copy; -1: not staged */
} tp__upload;

/* Steps that are recorded and replayed together; or, if `recording` is NULL, one or more host ops, which run in every run. */
typedef struct tp__plan_piece {
    int from, to; /* index of the first step, and of the step after the last */
    void *recording;
} tp__plan_piece;

typedef struct tp__plan {
    struct tp__plan *next;
    tp_arena arena; /* owns all memory of the plan */
    tp_device **device;
    int n_device;
    bool *used; /* device -> true if a step of the plan runs on it, or a value is fed or fetched there */
    uint64_t hash, used_at;
    int n_fetch, n_feed, n_step, n_buffer;
    int first_write; /* the first step that writes a variable; n_step: no step does */
    /* the session's version of its variables from which the steps' kept memory was made (tp_call.kept); 0: of none */
    uint64_t kept_version;
    bool keeps; /* a step has kept memory */
    tp_node **fetch;
    tp_node **feed;
    tp_type *feed_type;
    int *feed_buffer;
    tp__upload *upload;
    int n_upload, cap_upload;
    int *fetch_buffer;
    tp_type *fetch_type;
    tp_tensor *value; /* the fetched values, for the caller */
    tp__step *step;
    int cap_step;
    tp__buffer *buffer;
    size_t *arena_bytes; /* size of the arena on each device */
    size_t constant_bytes;
    uint64_t arena_version; /* the exec's counter `arenas` when the pointers were resolved; 0: not resolved */
    tp__constant *constant;
    int n_constant, cap_constant;
    void *host_buffer; /* host memory for copies between devices that cannot reach each other's memory */
    size_t room_bytes;
    /* The device that records the plan; -1: none. The other devices that the plan uses take part in the recording. */
    int record_on;
    bool *takes_part;
    int has_run; /* 1 after the first run since the pointers were resolved, else 0 */
    tp__plan_piece *piece;
    int n_piece;
    bool recorded; /* all pieces without host ops are recorded */
    tp_plan_info info;
} tp__plan;

struct tp_session {
    tp_owner owner_;
    tp_graph *graph;
    tp_session_config config;
    tp_device **device;
    int n_device;
    int n_given;     /* number of borrowed devices, the first ones of `device` */
    void **var_data; /* for each variable id, its memory */
    int n_var, var_cap;
    uint64_t var_version; /* counts up from 1 when variables may have changed; accessed atomically */
    bool for_predictor;   /* the session's variables are loaded for a predictor */
    bool *loaded;         /* by variable id, n_loaded entries: true if tp_session_load set it; NULL: not recorded */
    int n_loaded;
    tp_exec *exec;
    tp_dict state;
    uint64_t runs; /* atomic: lower half: runs in progress; upper half: number of cancellations */
    int n_exec;    /* execs not yet freed, its own included; guarded by the graph's lock */
    bool freed;    /* the owner has freed the session, whose memory is freed when n_exec is 0 */
};

/* The memory of an exec on one device. */
typedef struct tp__exec_device {
    char *arena;
    size_t arena_bytes;
    uint64_t *step_word; /* device memory: the random step of this run, then two words that report a fault */
    uint64_t words[3];   /* a copy of step_word, downloaded after the run */
} tp__exec_device;

struct tp_exec {
    tp_owner owner_; /* the session or hooked session that made it, and frees it */
    tp_session *session;
    tp_device **device;
    int n_device;
    bool one_device; /* everything runs on device 0, whatever devices the ops name: for the C exporter */
    tp__exec_device *device_state;
    uint64_t arena_version; /* incremented whenever an arena is moved to a new address */
    tp__plan *plans;
    uint64_t clock;
    uint64_t random_step;
    bool timing;
    bool running; /* atomic: a run is in progress */
};

static void tp__forget_recording(tp__plan *p)
{
    for (int i = 0; i < p->n_piece; i++) {
        tp__plan_piece *piece = &p->piece[i];
        if (piece->recording) p->device[p->record_on]->record_free(p->device[p->record_on], piece->recording);
        piece->recording = NULL;
    }
    p->recorded = false;
    p->has_run = 0;
}

static void tp__plan_free(tp__plan *p)
{
    if (!p) return;
    for (int i = 0; i < p->n_fetch && p->value; i++) tp_tensor_free(&p->value[i]);
    tp__forget_recording(p);
    for (int i = 0; i < p->n_constant; i++) {
        tp_device *d = p->device[p->constant[i].device];
        d->free(d, p->constant[i].data);
    }
    tp_arena a = p->arena;
    tp_arena_free(&a);
}

/* -- the state of a compilation ------------------------------------------------------------------------ */

/* The copy of a value on another device or in another precision. */
typedef struct tp__replica {
    int device, buffer;
    tp_dtype dtype; /* precision of the replica; unset: that of the value */
    struct tp__replica *next;
} tp__replica;

/* How the step of an op differs from the op alone. The rules of step 6 fill it in; steps 7 and 8 read it without knowing
 * the rules. All zero: the step computes the op alone. */
typedef struct tp__fusion {
    const struct tp__rule *rule[TP__MAX_RULES]; /* the fusion rules that matched this op */
    int n_rule;
    int n_absorbed;    /* number of ops that the matched rules absorbed */
    tp_fused fused;    /* the fused parts, as the kernel gets them */
    const tp_op *row;  /* the step's row; NULL: that of the op */
    const void *attrs; /* the step's attributes; NULL: those of the op */
    tp_node **in;      /* the step's inputs; NULL: the op's inputs */
    int n_in;
    tp_variable **var; /* the variables that the step updates; NULL: the op's variables */
    int n_var;
    const tp_operation *result;   /* the op absorbed last, whose output 0 the step computes; NULL: the step's op */
    bool has_extra_output;        /* the step has an additional output: see `extra_op` */
    const tp_operation *extra_op; /* the op whose output 0 is the additional output; NULL: no op reads it */
    const tp_operation *fault_op; /* the op that the step names when it reports a fault; NULL: its own op */
    const tp_operation *place;    /* the step runs at this op's place in the order; NULL: at the place of its own op */
} tp__fusion;

typedef struct tp__group {
    int op[TP__MAX_INSTR], n;
} tp__group;

/* An op writes a variable. */
typedef struct tp__writing {
    int at; /* index of the op in `order` */
    struct tp__writing *next;
} tp__writing;

typedef struct tp__compiler {
    tp_arena arena; /* memory that is freed at the end of planning */
    tp_exec *exec;
    tp_graph *g;
    tp__plan *plan;
    int n_op;
    const tp_operation **op; /* op id -> the op in this plan: the graph's own, or its replacement from step 2b */
    char *need, *shape_need;
    int *first_value; /* op id -> index of its first value */
    tp__value *value;
    int n_value;
    int *position; /* op id -> index in `order` */
    int *order, n_order;
    tp__writing **writes; /* variable id -> the ops that write it, in their order */
    int *awaited_at; /* op id -> index in `order` of the first op that has it as a control dependency; INT_MAX: none */
    tp__fusion *fusion;  /* op id -> what is fused into its step */
    int *absorbed_by;    /* op id -> the op whose step computes this op; -1: it has a step of its own */
    int *first_at_place; /* op id -> the first op whose step runs at this op's place in the order; -1: none */
    int *next_at_place;  /* op id -> the next op whose step runs at the same place; -1: none */
    int *group;          /* op id -> its group of element-wise ops; -1: none */
    tp__group *groups;
    int n_group;
    /* op id -> 0, or that no group stores the op's result: other groups that read it compute it again, by so many ops in a row */
    char *repeated;
    int *alias;     /* value -> the value that it is an alias of; -1: none */
    char *folded;   /* op id -> whether it is folded to a constant */
    char *constant; /* op id -> whether it depends on constants alone; used by step 3b */
    /* op id -> whether it is a half-precision product whose sum stays float32 until the bias is added */
    char *keeps_float32;
    int *use_head, *use_next, *use_op; /* value -> list of the ops that read its data */
    int n_use;
    char *fetched; /* value -> whether it is fetched */
    /* value -> whether it is elided; its buffer then holds mean, scale and beta of each channel */
    char *elided;
    int *fed;               /* value -> index of its feed; -1: not fed */
    tp__replica **replicas; /* value -> its replicas on other devices or in another precision */
    int cap_buffer;
} tp__compiler;
static int tp__value_of(const tp__compiler *c, const tp_node *n) { return c->first_value[n->op->id] + n->index; }

static const tp_type *tp__made_type(const tp__compiler *c, int v)
{
    return c->fed[v] >= 0 ? &c->value[v].op_type : &c->value[v].type;
}

static bool tp__type_equal(const tp_type *a, const tp_type *b)
{
    return a->dtype == b->dtype && tp_shape_equal(&a->shape, &b->shape);
}

static bool tp__shape_only(const tp_op *row, int i) { return i < 32 && ((row->shape_only >> i) & 1u); }

static bool tp__is_writer(const tp_operation *o) { return (o->row->flags & TP_OP_WRITES_VAR) != 0; }

/* Returns the device on which an operation runs, and the device on which a value is. */
static int tp__device_of(const tp__compiler *c, const tp_operation *o)
{
    return !TP__HAS_DEVICES || c->exec->one_device ? 0 : o->device;
}

static int tp__node_on(const tp__compiler *c, const tp_node *n)
{
    return !TP__HAS_DEVICES || c->exec->one_device ? 0 : tp_node_device(n);
}

/* Returns the session's half precision; unset: it has none. */
static tp_dtype tp__session_half_dtype(const tp__compiler *c)
{
    const tp_precision p = c->exec->session->config.precision;
    if (!TP__HAS_F64) return TP_DTYPE_UNSET;
    return p == TP_PRECISION_BF16 ? TP_BF16 : p == TP_PRECISION_F16 ? TP_F16 : TP_DTYPE_UNSET;
}

/* Whether the node is float32 in the graph. The plan may store its value in half precision. */
static bool tp__is_float32(const tp__compiler *c, const tp_node *n)
{
    return n->dtype == TP_F32 && c->value[tp__value_of(c, n)].type.dtype != TP_F64;
}

/* Returns the value at the end of a chain of aliases, and the node that it belongs to. */
static int tp__alias_root(const tp__compiler *c, int v)
{
    while (c->alias[v] >= 0) v = c->alias[v];
    return v;
}

static const tp_node *tp__alias_root_node(const tp__compiler *c, const tp_node *n)
{
    while (c->alias[tp__value_of(c, n)] >= 0) n = n->op->in[0];
    return n;
}

static void *tp__check_memory(void *p, bool *ok)
{
    if (!p) *ok = false;
    return p;
}

static int *tp__alloc_ints(tp__compiler *c, int n, int value, bool *ok)
{
    int *x = (int *)tp__check_memory(tp_arena_alloc(&c->arena, (size_t)n * sizeof *x), ok);
    for (int i = 0; i < n && x; i++) x[i] = value;
    return x;
}

static char *tp__alloc_marks(tp__compiler *c, int n, bool *ok)
{
    return (char *)tp__check_memory(tp_arena_alloc(&c->arena, (size_t)n), ok);
}

static tp_status tp__nomem_plan(void) { return tp_fail(TP_ERR_NOMEM, "out of memory while a plan was compiled"); }

/* Reports why a plan cannot run. The sentence begins with the place in the source where the operation was created. */
static tp_status tp__plan_fail(const tp_operation *o, tp_status status, const char *fmt, ...) TP_PRINTF(3, 4);
#ifdef TP_NO_SENTENCES
#define tp__plan_fail(o_, status_, ...) (TP__NOT_SAID(__VA_ARGS__), (tp__plan_fail)((o_), (status_), NULL))
#endif

static tp_status(tp__plan_fail)(const tp_operation *o, tp_status status, const char *fmt, ...)
{
    char text[TP__ERROR_TEXT], place[TP__PLACE_TEXT];
    va_list ap;
    va_start(ap, fmt);
    tp__vformat(text, sizeof text, fmt ? fmt : TP__NO_TEXT(status), ap);
    va_end(ap);
    return (tp_fail)(status, "%s%s", tp__place_text(&o->at, place), text);
}

static tp_status tp__compiler_init(tp__compiler *c, tp_exec *e, tp__plan *p)
{
    memset(c, 0, sizeof *c);
    c->exec = e;
    c->g = e->session->graph;
    c->plan = p;
    c->n_op = c->g->op.n;
    bool ok = true;
    c->first_value = tp__alloc_ints(c, c->n_op, 0, &ok);
    c->op = (const tp_operation **)tp__check_memory(tp_arena_alloc(&c->arena, (size_t)c->n_op * sizeof *c->op), &ok);
    if (!ok) return tp__nomem_plan();
    int n_use = 0;
    for (int id = 0; id < c->n_op; id++) {
        const tp_operation *o = c->op[id] = (const tp_operation *)c->g->op.item[id];
        c->first_value[id] = c->n_value;
        c->n_value += o->n_out;
        n_use += o->n_in + 1;
    }
    c->need = tp__alloc_marks(c, c->n_op, &ok);
    c->shape_need = tp__alloc_marks(c, c->n_op, &ok);
    c->folded = tp__alloc_marks(c, c->n_op, &ok);
    c->constant = tp__alloc_marks(c, c->n_op, &ok);
    c->keeps_float32 = tp__alloc_marks(c, c->n_op, &ok);
    c->repeated = tp__alloc_marks(c, c->n_op, &ok);
    c->fetched = tp__alloc_marks(c, c->n_value, &ok);
    c->elided = tp__alloc_marks(c, c->n_value, &ok);
    c->position = tp__alloc_ints(c, c->n_op, -1, &ok);
    c->order = tp__alloc_ints(c, c->n_op, -1, &ok);
    c->fusion = (tp__fusion *)tp__check_memory(tp_arena_alloc(&c->arena, (size_t)c->n_op * sizeof *c->fusion), &ok);
    c->absorbed_by = tp__alloc_ints(c, c->n_op, -1, &ok);
    c->first_at_place = tp__alloc_ints(c, c->n_op, -1, &ok);
    c->next_at_place = tp__alloc_ints(c, c->n_op, -1, &ok);
    c->group = tp__alloc_ints(c, c->n_op, -1, &ok);
    c->alias = tp__alloc_ints(c, c->n_value, -1, &ok);
    c->fed = tp__alloc_ints(c, c->n_value, -1, &ok);
    c->use_head = tp__alloc_ints(c, c->n_value, -1, &ok);
    c->use_next = tp__alloc_ints(c, n_use, -1, &ok);
    c->use_op = tp__alloc_ints(c, n_use, -1, &ok);
    c->awaited_at = tp__alloc_ints(c, c->n_op, INT_MAX, &ok);
    c->writes =
        (tp__writing **)tp__check_memory(tp_arena_alloc(&c->arena, (size_t)c->g->var.n * sizeof *c->writes), &ok);
    c->replicas =
        (tp__replica **)tp__check_memory(tp_arena_alloc(&c->arena, (size_t)c->n_value * sizeof *c->replicas), &ok);
    c->value = (tp__value *)tp__check_memory(tp_arena_alloc(&c->arena, (size_t)c->n_value * sizeof *c->value), &ok);
    if (!ok) return tp__nomem_plan();
    for (int id = 0; id < c->n_op; id++) c->first_at_place[id] = id;
    for (int v = 0; v < c->n_value; v++) c->value[v].buffer = -1;
    for (int i = 0; i < p->n_feed; i++) {
        const int v = tp__value_of(c, p->feed[i]);
        c->fed[v] = i;
        c->value[v].type = p->feed_type[i];
    }
    return TP_OK;
}

/* -- buffers ------------------------------------------------------------------------------------------- */

static int tp__new_buffer(tp__compiler *c, tp__place place, int64_t bytes, int device)
{
    tp__plan *p = c->plan;
    if (p->n_buffer == c->cap_buffer) {
        const int bigger = c->cap_buffer ? c->cap_buffer * 2 : 256;
        tp__buffer *b = (tp__buffer *)tp_arena_alloc(&p->arena, (size_t)bigger * sizeof *b);
        if (!b) return -1;
        if (p->n_buffer) memcpy(b, p->buffer, (size_t)p->n_buffer * sizeof *b);
        p->buffer = b;
        c->cap_buffer = bigger;
    }
    tp__buffer *b = &p->buffer[p->n_buffer];
    memset(b, 0, sizeof *b);
    b->place = place;
    b->device = device;
    b->bytes = bytes;
    b->first = INT_MAX;
    b->last = -1;
    b->merged = -1;
    return p->n_buffer++;
}

static void tp__extend_lifetime(tp__plan *p, int buffer, int step)
{
    if (buffer < 0) return;
    tp__buffer *b = &p->buffer[buffer];
    while (b->merged >= 0) b = &p->buffer[b->merged];
    if (step < b->first) b->first = step;
    if (step > b->last) b->last = step;
}

static tp_operand tp__operand(const tp_type *t)
{
    tp_operand o;
    o.data = NULL;
    o.dtype = t->dtype;
    o.shape = t->shape;
    return o;
}

static int64_t tp__bytes_of(const tp_type *t) { return tp_shape_size(&t->shape) * (int64_t)tp_dtype_size(t->dtype); }

/* Memory on a device that lasts as long as the plan; NULL: there is none. */
static void *tp__constant_memory(tp__plan *p, int device, size_t bytes)
{
    tp_device *d = p->device[device];
    if (p->n_constant == p->cap_constant) {
        const int cap = p->cap_constant ? p->cap_constant * 2 : 8;
        tp__constant *list = (tp__constant *)tp_arena_alloc(&p->arena, (size_t)cap * sizeof *list);
        if (!list) return NULL;
        if (p->n_constant) memcpy(list, p->constant, (size_t)p->n_constant * sizeof *list);
        p->constant = list;
        p->cap_constant = cap;
    }
    void *data = d->alloc(d, bytes ? bytes : 1);
    if (!data) return NULL;
    p->constant[p->n_constant].data = data;
    p->constant[p->n_constant++].device = device;
    p->constant_bytes += bytes;
    return data;
}

/* Stores a constant on its buffer's device. Devices of the host read the caller's memory, without a copy. */
static tp_status tp__constant_data(tp__compiler *c, int buffer, const void *host_data)
{
    tp__plan *p = c->plan;
    tp__buffer *b = &p->buffer[buffer];
    tp_device *d = p->device[b->device];
    b->host_data = host_data;
    b->data = (void *)(uintptr_t)host_data;
    if (d->host) return TP_OK;
    b->data = tp__constant_memory(p, b->device, (size_t)b->bytes);
    if (!b->data) return tp__nomem_plan();
    return d->upload(d, b->data, host_data, (size_t)b->bytes);
}

static tp_status tp__add_upload(tp__compiler *c, int feed, int buffer)
{
    tp__plan *p = c->plan;
    if (p->n_upload == p->cap_upload) {
        const int cap = p->cap_upload ? p->cap_upload * 2 : 8;
        tp__upload *u = (tp__upload *)tp_arena_alloc(&p->arena, (size_t)cap * sizeof *u);
        if (!u) return tp__nomem_plan();
        if (p->n_upload) memcpy(u, p->upload, (size_t)p->n_upload * sizeof *u);
        p->upload = u;
        p->cap_upload = cap;
    }
    p->upload[p->n_upload].feed = feed;
    p->upload[p->n_upload++].buffer = buffer;
    return TP_OK;
}

/* -- 1. reach: which operations the fetches need ------------------------------------------------------- */

/* 1. Marks the ops whose data is needed, and the ops of which only the shape is needed. Inputs and control inputs are older than
 * the op. */
static tp_status tp__plan_mark_needed(tp__compiler *c)
{
    const tp__plan *p = c->plan;
    for (int i = 0; i < p->n_fetch; i++) {
        const int v = tp__value_of(c, p->fetch[i]);
        c->fetched[v] = 1;
        if (c->fed[v] < 0) c->need[p->fetch[i]->op->id] = 1;
    }
    for (int id = c->n_op - 1; id >= 0; id--) {
        const tp_operation *o = c->op[id];
        if (c->need[id]) {
            c->shape_need[id] = 1;
            for (int i = 0; i < o->n_in; i++)
                if ((!tp__shape_only(o->row, i) || o->row == &tp__op_read_after) &&
                    c->fed[tp__value_of(c, o->in[i])] < 0)
                    c->need[o->in[i]->op->id] = 1;
            for (int i = 0; i < o->n_ctrl; i++) /* an op whose value is fed is not run */
                if (o->ctrl[i]->n_out > 1 || c->fed[c->first_value[o->ctrl[i]->id]] < 0) c->need[o->ctrl[i]->id] = 1;
            if (o->row == &tp__op_placeholder && c->fed[c->first_value[id]] < 0)
                return tp__plan_fail(o, TP_ERR_ARG, "placeholder '%s' must be fed: what is fetched depends on it",
                                     o->name);
        }
        if (c->shape_need[id])
            for (int i = 0; i < o->n_in; i++)
                if (c->fed[tp__value_of(c, o->in[i])] < 0) c->shape_need[o->in[i]->op->id] = 1;
    }
    return TP_OK;
}

/* Checks that the session has every device that the plan uses. */
static tp_status tp__plan_devices(const tp__compiler *c)
{
    const int n = c->exec->n_device;
    for (int id = 0; id < c->n_op; id++) {
        const tp_operation *o = c->op[id];
        bool wanted = c->need[id] != 0;
        for (int i = 0; i < o->n_out && !wanted; i++) wanted = c->fed[c->first_value[id] + i] >= 0;
        if (wanted && tp__device_of(c, o) >= n)
            return tp_fail(TP_ERR_ARG, "'%s' is to run on device %d, but the session has %d device%s, numbered from 0",
                           o->name, o->device, n, n == 1 ? "" : "s");
    }
    return TP_OK;
}

/* -- 2. infer: the shape of every value ---------------------------------------------------------------- */

/* Whether the types that a shape rule gives for a plan are those it gave when the graph was built, as far as they were known. */
static tp_status tp__plan_check_types(const tp_operation *o, const tp_infer *s)
{
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    if (s->n_out != o->n_out)
        return tp__plan_fail(o, TP_ERR_SHAPE,
                             "%s: its shape rule gave %d outputs when the graph was built, and %d for this run",
                             o->name, o->n_out, s->n_out);
    for (int i = 0; i < o->n_out; i++)
        if (s->out[i].dtype != o->out[i].dtype || !tp_shape_compatible(&s->out[i].shape, &o->out[i].shape))
            return tp__plan_fail(
                o, TP_ERR_SHAPE,
                "%s: its shape rule gave output %d as %s %s when the graph was built, and as %s %s for "
                "this run",
                o->name, i, tp_dtype_name(o->out[i].dtype), tp_shape_text(&o->out[i].shape, a),
                tp_dtype_name(s->out[i].dtype), tp_shape_text(&s->out[i].shape, b));
    return TP_OK;
}

/* 2. Computes the type of every value whose shape is needed. */
static tp_status tp__plan_infer(tp__compiler *c)
{
    tp_type *in = NULL;
    int cap = 0;
    tp_status st = TP_OK;
    for (int i = 0; i < c->plan->n_feed; i++) {
        char t[TP_SHAPE_TEXT];
        const tp_shape *s = &c->plan->feed_type[i].shape;
        if (!tp__shape_fits(s))
            return tp_fail(TP_ERR_SHAPE, "'%s' is fed with the shape %s, larger than any memory",
                           c->plan->feed[i]->op->name, tp_shape_text(s, t));
    }
    for (int id = 0; id < c->n_op && st == TP_OK; id++) {
        const tp_operation *o = c->op[id];
        if (!c->shape_need[id]) continue;
        const int n_type = o->n_in + o->n_var;
        if (n_type > cap) {
            tp_type *t = (tp_type *)tp_realloc(in, (size_t)n_type * 2 * sizeof *t);
            if (!t) {
                st = tp__nomem_plan();
                break;
            }
            in = t;
            cap = n_type * 2;
        }
        for (int i = 0; i < o->n_in; i++) in[i] = c->value[tp__value_of(c, o->in[i])].type;
        for (int i = 0; i < o->n_var; i++) {
            in[o->n_in + i].dtype = o->var[i]->dtype;
            in[o->n_in + i].shape = o->var[i]->shape;
        }
        if (o->row == &tp__op_placeholder && c->fed[c->first_value[id]] < 0) {
            st = tp__plan_fail(o, TP_ERR_ARG,
                               "placeholder '%s' must be fed: the shape of what is fetched depends on it", o->name);
            break;
        }
        tp_infer s;
        s.op = o->row;
        s.attrs = o->attrs;
        s.name = o->name;
        s.n_in = o->n_in;
        s.in = in;
        s.n_out = o->n_out;
        s.out = c->g->infer_out;
        s.n_var = o->n_var;
        s.var = o->n_var ? in + o->n_in : NULL;
        memset(s.out, 0, (size_t)o->n_out * sizeof *s.out);
        if ((st = tp__infer_types(&s)) != TP_OK) {
            char text[TP__ERROR_TEXT];
            tp__format(text, sizeof text, "%s", tp_last_error());
            tp__plan_fail(o, st, "%s", text);
            break;
        }
        if ((st = tp__plan_check_types(o, &s)) != TP_OK) break;
        for (int i = 0; i < o->n_out; i++) {
            const int v = c->first_value[id] + i;
            c->value[v].op_type = s.out[i];
            if (c->fed[v] >= 0) continue;
            c->value[v].type = s.out[i];
            if (!tp_shape_known(&s.out[i].shape)) {
                char t[TP_SHAPE_TEXT];
                st = tp__plan_fail(o, TP_ERR_SHAPE, "the shape of '%s' is still %s when everything is fed%s", o->name,
                                   tp_shape_text(&s.out[i].shape, t),
                                   o->n_in == 0 ? ": give all its dimensions, or use a function of another node "
                                                  "(tp_rand_normal_like, tp_zeros_like, ..)"
                                                : "");
                break;
            }
            if (tp_shape_size(&s.out[i].shape) > ((int64_t)1 << 40)) {
                char t[TP_SHAPE_TEXT];
                st = tp__plan_fail(o, TP_ERR_SHAPE, "'%s' would have shape %s, too large for any memory", o->name,
                                   tp_shape_text(&s.out[i].shape, t));
                break;
            }
        }
    }
    tp_free(in);
    return st;
}

/* -- 2b. rewrite: operations are replaced by cheaper ones with the same results ------------------------ */

/* The rule "table": the input x of a sequence op consists of rows of a table (an embedding), and the table has fewer rows
 * than x has. The op then works on the table: it multiplies each row of the table once, forward and backward (>>op lstm).
 * Whether the rule matches depends on the graph, the shapes and the device alone, so that a fetch changes no bit. The
 * op's outputs stay the same and can be fetched. The rewritten op is a copy that has the indices as one more input. The
 * forward op reports bad indices in place of the gather; the backward op has the output of gather_grad as one more
 * output. */

/* Returns the gather whose output is x, also if views of that output are between them; NULL if there is none, if a
 * value on the way is fed, or if an op on the way has control inputs or runs on another device. */
static const tp_operation *tp__gathered(const tp__compiler *c, const tp_node *x, int device)
{
    for (;; x = x->op->in[0]) {
        const tp_operation *o = x->op;
        if (c->fed[tp__value_of(c, x)] >= 0 || o->n_ctrl || tp__device_of(c, o) != device) return NULL;
        if (o->row->flags & TP__OP_GATHER) return o;
        if (!(o->row->flags & TP_OP_VIEW) || tp__is_writer(o)) return NULL;
    }
}

/* Whether x is the memory of a variable that some op with an id below `id` writes, or the result of such a write. */
static bool tp__is_written_before(const tp__compiler *c, const tp_node *x, int id)
{
    while ((x->op->row->flags & TP_OP_VIEW) && !tp__is_writer(x->op)) x = x->op->in[0];
    const tp_variable *v = x->op->n_var ? x->op->var[0] : tp_node_variable(x);
    for (int j = 0; j < id && v; j++) {
        const tp_operation *w = c->op[j];
        for (int i = 0; i < w->n_var && tp__is_writer(w); i++)
            if (w->var[i] == v) return true;
    }
    return false;
}

static tp_operation *tp__changed_op(tp__compiler *c, int id, int n_in, int n_ctrl)
{
    tp_operation *o = (tp_operation *)tp_arena_alloc(&c->plan->arena, sizeof *o);
    tp_node **in = (tp_node **)tp_arena_alloc(&c->plan->arena, (size_t)(n_in + 1) * sizeof *in);
    tp_operation **ctrl = (tp_operation **)tp_arena_alloc(&c->plan->arena, (size_t)(n_ctrl + 1) * sizeof *ctrl);
    if (!o || !in || !ctrl) return NULL;
    *o = *c->op[id];
    for (int i = 0; i < n_in && i < o->n_in; i++) in[i] = o->in[i];
    for (int i = 0; i < o->n_ctrl; i++) ctrl[i] = o->ctrl[i];
    o->in = in;
    o->ctrl = ctrl;
    o->n_in = n_in;
    o->n_ctrl = n_ctrl;
    c->op[id] = o;
    return o;
}

/* Records that op o has no step of its own: the step of op `by` computes it. */
static void tp__absorb(tp__compiler *c, const tp_operation *o, const tp_operation *by)
{
    c->absorbed_by[o->id] = by->id;
    c->first_at_place[o->id] = -1;
}

static bool tp__is_live_gather_grad(const tp__compiler *c, const tp_operation *o)
{
    return (o->row->flags & TP__OP_GATHER_GRAD) && c->fed[c->first_value[o->id]] < 0;
}

/* Returns the gradient that this gather_grad reads, also through views. The caller checks that it is dx, output 0 of a
 * sequence op's gradient. */
static const tp_node *tp__gathered_gradient(const tp__compiler *c, const tp_operation *o)
{
    const tp_node *dx = o->in[0];
    while ((dx->op->row->flags & TP_OP_VIEW) && !tp__is_writer(dx->op) && !dx->op->n_ctrl &&
           c->fed[tp__value_of(c, dx)] < 0)
        dx = dx->op->in[0];
    return dx;
}

static tp_status tp__rewrite_table(tp__compiler *c, const tp_operation *o, const tp__rule *rule)
{
    const bool back = (o->row->flags & TP__OP_SEQUENCE_GRAD) != 0;
    const int device = tp__device_of(c, o), i = o->row->sequence;
    tp_device *d = c->plan->device[device];
    if (tp__session_half_dtype(c)) return TP_OK;
    if (tp__is_live_gather_grad(c, o)) { /* the step of the sequence op's gradient computes it */
        const tp_node *dx = tp__gathered_gradient(c, o);
        const tp_operation *from = c->op[dx->op->id];
        tp__fusion *f = &c->fusion[from->id];
        if (!f->has_extra_output || f->extra_op || dx->index != 0 || c->fed[tp__value_of(c, dx)] >= 0 ||
            device != tp__device_of(c, from) || d->find_kernel(d, o->row->name) ||
            o->in[1] != from->in[f->fused.table] || o->in[2] != from->in[from->row->sequence])
            return TP_OK;
        tp_operation *rewritten = tp__changed_op(c, o->id, 0, o->n_ctrl + 1);
        if (!rewritten) return tp__nomem_plan();
        rewritten->ctrl[rewritten->n_ctrl - 1] = (tp_operation *)(uintptr_t)from;
        f->extra_op = rewritten;
        tp__absorb(c, rewritten, from);
        return TP_OK;
    }
    if (!c->need[o->id] || (!back && !(o->row->flags & TP__OP_SEQUENCE))) return TP_OK;
    const tp_operation *gather = tp__gathered(c, o->in[i], device);
    if (!gather || !d->isa || d->find_kernel(d, o->row->name) || d->find_kernel(d, gather->row->name)) return TP_OK;
    const tp_type *x = &c->value[tp__value_of(c, o->in[i])].type, *t = &c->value[tp__value_of(c, gather->in[0])].type;
    if (t->dtype != TP_F32 || t->shape.ndim != 2 || t->shape.dim[1] != x->shape.dim[2] || t->shape.dim[0] < 1 ||
        t->shape.dim[0] >= x->shape.dim[0] * x->shape.dim[1] || tp__node_on(c, gather->in[0]) != device ||
        tp__is_written_before(c, gather->in[0], o->id) || tp__is_written_before(c, gather->in[1], o->id))
        return TP_OK;
    tp_operation *rewritten = tp__changed_op(c, o->id, o->n_in + 1, o->n_ctrl);
    if (!rewritten) return tp__nomem_plan();
    tp__fusion *f = &c->fusion[o->id];
    rewritten->in[i] = gather->in[0];
    rewritten->in[rewritten->n_in - 1] = gather->in[1];
    f->fused.table = rewritten->n_in - 1;
    f->has_extra_output = back;
    f->fault_op = back ? NULL : gather;
    f->rule[f->n_rule++] = rule;
    return TP_OK;
}

/* Rules that replace operations of the plan by others. They read the graph, its shapes and the devices, never the
 * fetches: a fetch changes no bit. */
static const tp__rule tp__rewrites[] = {
    {"table", "a sequence op over rows of a small table multiplies the table once", tp__rewrite_table},
};

static tp_status tp__plan_rewrite(tp__compiler *c)
{
    for (int r = 0; r < (TP__HAS_FUSION ? TP_COUNT(tp__rewrites) : 0); r++)
        for (int id = 0; id < c->n_op; id++) {
            const tp_status st = tp__rewrites[r].match(c, c->op[id], &tp__rewrites[r]);
            if (st != TP_OK) return st;
        }
    memset(c->need, 0, (size_t)c->n_op);
    memset(c->shape_need, 0, (size_t)c->n_op);
    return tp__plan_mark_needed(c); /* the rewritten operations may need other ones: mark again */
}

/* -- 3. order: the order in which the ops run ---------------------------------------------------------- */

/* For each value, lists the ops that read its data, in creation order. */
static void tp__plan_uses(tp__compiler *c)
{
    for (int id = c->n_op - 1; id >= 0; id--) {
        const tp_operation *o = c->op[id];
        if (!c->need[id]) continue;
        for (int i = 0; i < o->n_in; i++) {
            if (tp__shape_only(o->row, i)) continue;
            const int v = tp__value_of(c, o->in[i]);
            c->use_op[c->n_use] = id;
            c->use_next[c->n_use] = c->use_head[v];
            c->use_head[v] = c->n_use++;
        }
    }
}

typedef struct tp__edge {
    int to;
    struct tp__edge *next;
} tp__edge;

typedef struct tp__edges {
    tp__edge **from; /* for each op id, the ops that must run after it */
    int *degree;     /* for each op id, the number of ops that must run before it and are not yet ordered */
    bool ok;         /* becomes false if memory runs out */
} tp__edges;

/* Records that op a must run before op b. */
static void tp__order_before(tp__compiler *c, tp__edges *g, int a, int b)
{
    tp__edge *e = (tp__edge *)tp__check_memory(tp_arena_alloc(&c->arena, sizeof *e), &g->ok);
    if (!e) return;
    e->to = b;
    e->next = g->from[a];
    g->from[a] = e;
    g->degree[b]++;
}

/* Records that all readers of op a's output 0 must run before op b. */
static void tp__order_readers_before(tp__compiler *c, tp__edges *g, int a, int b)
{
    for (int u = c->use_head[c->first_value[a]]; u >= 0; u = c->use_next[u])
        if (c->use_op[u] != b) tp__order_before(c, g, c->use_op[u], b);
}

static bool tp__op_writes(const tp__compiler *c, int id, const tp_variable *v)
{
    const tp_operation *o = c->op[id];
    if (!c->need[id] || !tp__is_writer(o)) return false;
    for (int i = 0; i < o->n_var; i++)
        if (o->var[i] == v) return true;
    return false;
}

static void tp__plan_edges(tp__compiler *c, tp__edges *g)
{
    int *last_writer =
        tp__alloc_ints(c, c->g->var.n, -1, &g->ok); /* for each variable: the last op so far that writes it; -1: none */
    if (!last_writer) return;
    for (int id = 0; id < c->n_op; id++) {
        const tp_operation *o = c->op[id];
        if (!c->need[id]) continue;
        for (int i = 0; i < o->n_in; i++) {
            const bool data = !tp__shape_only(o->row, i) && c->fed[tp__value_of(c, o->in[i])] < 0;
            if (c->need[o->in[i]->op->id] && (data || o->row == &tp__op_read_after))
                tp__order_before(c, g, o->in[i]->op->id, id);
        }
        for (int i = 0; i < o->n_ctrl; i++)
            if (c->need[o->ctrl[i]->id]) tp__order_before(c, g, o->ctrl[i]->id, id);
    }
    /* a writer runs after the readers of the old value; writers of one variable keep their creation order */
    for (int id = 0; id < c->n_op; id++) {
        const tp_operation *o = c->op[id];
        for (int k = 0; k < o->n_var && c->need[id] && tp__is_writer(o); k++) {
            const tp_variable *v = o->var[k];
            const int previous = last_writer[v->id];
            if (previous == id) continue;
            last_writer[v->id] = id;
            if (previous >= 0) tp__order_before(c, g, previous, id);
            tp__order_readers_before(c, g, previous >= 0 ? previous : v->node->op->id, id);
        }
    }
    for (int id = 0; id < c->n_op; id++) { /* a read_after and its readers run before newer ops write the variable */
        const tp_operation *o = c->op[id];
        if (!c->need[id] || o->row != &tp__op_read_after) continue;
        for (int w = id + 1; w < c->n_op; w++) {
            if (!tp__op_writes(c, w, o->var[0])) continue;
            tp__order_before(c, g, id, w);
            tp__order_readers_before(c, g, id, w);
        }
    }
}

/* A min-heap of the ops that are ready: all ops that must run before them are ordered. The key is the id; for TP_OP_EARLY
 * ops it is the id minus the number of all ops, so that they come first. */
static void tp__heap_put(int *heap, int *n, int id)
{
    int i = (*n)++;
    for (; i > 0 && heap[(i - 1) / 2] > id; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = id;
}

static int tp__heap_take(int *heap, int *n)
{
    const int smallest = heap[0], id = heap[--*n];
    int i = 0;
    for (;;) {
        int k = 2 * i + 1;
        if (k + 1 < *n && heap[k + 1] < heap[k]) k++;
        if (k >= *n || heap[k] > id) break;
        heap[i] = heap[k];
        i = k;
    }
    heap[i] = id;
    return smallest;
}

static int tp__order_key(const tp__compiler *c, int id)
{
    return c->op[id]->row->flags & TP_OP_EARLY ? id - c->n_op : id;
}

/* Records what later steps ask about stretches of the order, which may be long: who writes a variable, who waits for an op. */
static tp_status tp__index_order(tp__compiler *c)
{
    bool ok = true;
    for (int k = c->n_order - 1; k >= 0; k--) {
        const tp_operation *o = c->op[c->order[k]];
        for (int i = 0; i < o->n_ctrl; i++) c->awaited_at[o->ctrl[i]->id] = k;
        for (int i = 0; i < o->n_var && tp__is_writer(o); i++) {
            tp__writing *w = (tp__writing *)tp__check_memory(tp_arena_alloc(&c->arena, sizeof *w), &ok);
            if (!ok) return tp__nomem_plan();
            w->at = k;
            w->next = c->writes[o->var[i]->id];
            c->writes[o->var[i]->id] = w;
        }
    }
    return TP_OK;
}

static tp_status tp__plan_order(tp__compiler *c)
{
    tp__edges g;
    int n_ready = 0;
    g.ok = true;
    g.from = (tp__edge **)tp__check_memory(tp_arena_alloc(&c->arena, (size_t)c->n_op * sizeof *g.from), &g.ok);
    g.degree = tp__alloc_ints(c, c->n_op, 0, &g.ok);
    int *ready = tp__alloc_ints(c, c->n_op + 1, 0, &g.ok);
    if (g.ok) tp__plan_edges(c, &g);
    if (!g.ok) return tp__nomem_plan();
    for (int id = 0; id < c->n_op; id++)
        if (c->need[id] && g.degree[id] == 0) tp__heap_put(ready, &n_ready, tp__order_key(c, id));
    c->n_order = 0;
    while (n_ready > 0) {
        const int key = tp__heap_take(ready, &n_ready), id = key < 0 ? key + c->n_op : key;
        c->position[id] = c->n_order;
        c->order[c->n_order++] = id;
        for (const tp__edge *e = g.from[id]; e; e = e->next)
            if (--g.degree[e->to] == 0) tp__heap_put(ready, &n_ready, tp__order_key(c, e->to));
    }
    for (int id = 0; id < c->n_op; id++)
        if (c->need[id] && g.degree[id] > 0)
            return tp_fail(TP_ERR_STATE,
                           "'%s' needs the old value of a variable but can only run after it was written: use the "
                           "assignment's output, or tp_read_after",
                           c->op[id]->name);
    return tp__index_order(c);
}

/* Whether a step after position `at` and before position `end` writes variable v. If so, a value of v that is read at `at` and still
 * needed at `end` must be copied. */
static bool tp__written_between(const tp__compiler *c, const tp_variable *v, int at, int end)
{
    const tp__writing *w = c->writes[v->id];
    while (w && w->at <= at) w = w->next;
    return w && w->at < end;
}

/* -- 3b. precision: values that are stored in half precision ------------------------------------------- */

/* 3b. With a half precision, chooses the float32 values that are stored in it: the results of products, of ops that
 * compute element by element from half-precision values or only move them, and of ops that work in the precision of
 * their input. Other ops read float32: tp__node_as_dtype converts. tp__only_moves_values: whether the op only moves values, or adds
 * them up. */
static bool tp__only_moves_values(const tp_operation *o)
{
    const unsigned no = TP_OP_HOST | TP_OP_WRITES_VAR | TP_OP_SOURCE;
    return ((o->row->flags & TP_OP_ANY_DTYPE) && !(o->row->flags & no)) || o->row == &tp__op_add_n;
}

static bool tp__is_stored_half(const tp__compiler *c, const tp_node *n)
{
    const tp_dtype half = tp__session_half_dtype(c);
    return half && n->dtype == TP_F32 && c->value[tp__value_of(c, n)].type.dtype == half;
}

/* Whether op o is the bias_add of a product. The sum of such a product is rounded to half precision once, after its
 * bias was added: it is float32 until then, even if a plan does not fuse the two. This does not hold for convolutions,
 * because not every kernel computes them by products. */
static bool tp__has_bias(const tp_operation *o)
{
    if (o->row != &tp__op_bias_add) return false;
    const tp_node *x = o->in[0];
    return x->op->row == &tp__op_matmul && x->op->in[1]->shape.ndim == 2 &&
           (((const tp__bias_attrs *)o->attrs)->data_format != TP_NCHW || x->shape.ndim == 2);
}

static bool tp__keeps_float32(const tp__compiler *c, const tp_node *n)
{
    /* no check of n's index is needed, because a product has one output */
    return c->keeps_float32[n->op->id] && c->fed[tp__value_of(c, n)] < 0;
}

static void tp__plan_precision(tp__compiler *c)
{
    const tp_dtype half = tp__session_half_dtype(c);
    for (int id = 0; id < c->n_op && half; id++) {
        const tp_operation *o = c->op[id];
        if (tp__has_bias(o)) c->keeps_float32[o->in[0]->op->id] = 1;
    }
    for (int k = 0; k < c->n_order && half; k++) {
        const tp_operation *o = c->op[c->order[k]];
        const unsigned flags = o->row->flags;
        const int v = c->first_value[o->id];
        c->constant[o->id] = o->row == &tp__op_constant;
        if ((flags & TP_OP_SOURCE) || o->n_var || o->out[0].dtype != TP_F32) continue;
        bool all_half = true, any_float32 = false, constant = true;
        for (int i = 0; i < o->n_in; i++) {
            const tp_node *in = o->in[i];
            const int from = tp__value_of(c, in);
            if (tp__shape_only(o->row, i)) continue;
            constant = constant && c->constant[in->op->id] && c->fed[from] < 0;
            if (in->dtype != TP_F32) continue;
            if ((flags & TP_OP_ELEMENTWISE) && !tp_shape_equal(&c->value[from].type.shape, &c->value[v].type.shape))
                continue; /* an operand that is broadcast, such as a bias, does not decide the precision */
            all_half = all_half && tp__is_stored_half(c, in);
            any_float32 = true;
        }
        c->constant[o->id] = constant && !(flags & (TP_OP_RANDOM | TP_OP_READS_VAR));
        if (c->constant[o->id] || !any_float32) { /* constants are folded in float32 */
            c->keeps_float32[o->id] = 0;
            continue;
        }
        const bool same = o->row == &tp__op_sum_to_like &&
                          tp_shape_equal(&c->value[tp__value_of(c, o->in[0])].type.shape, &c->value[v].type.shape);
        if (flags & TP_OP_FOLLOWS) {
            const bool follows = tp__is_stored_half(c, o->in[0]) || (tp__keeps_float32(c, o->in[0]) && tp__has_bias(o));
            if (follows && c->fed[v] < 0) c->value[v].type.dtype = half;
        } else if ((flags & TP_OP_HALF) ||
                   (all_half && ((flags & TP_OP_ELEMENTWISE) || tp__only_moves_values(o) || same))) {
            for (int i = 0; i < o->n_out; i++)
                if (o->out[i].dtype == TP_F32 && c->fed[v + i] < 0 && !c->keeps_float32[o->id] &&
                    !((flags & TP_OP_HALF) && ((o->row->single_out >> i) & 1u)))
                    c->value[v + i].type.dtype = half;
        }
    }
}

/* Returns the precision in which op o reads its operand i, which is node n. */
static tp_dtype tp__operand_precision(const tp__compiler *c, const tp_operation *o, const tp_node *n, int i)
{
    const tp_dtype stored = c->value[tp__value_of(c, n)].type.dtype, half = tp__session_half_dtype(c);
    if (!half || n->dtype != TP_F32) return stored;
    if (o->row->flags & TP_OP_HALF)
        return (tp__is_stored_half(c, &o->out[0]) || tp__keeps_float32(c, &o->out[0])) &&
                       !((o->row->single_in >> i) & 1u)
                   ? half
                   : TP_F32;
    if (tp__keeps_float32(c, o->in[0]) && tp__has_bias(o)) return i == 1 ? half : stored;
    if (o->row->flags &
        TP_OP_FOLLOWS) /* operands with one value per channel have fewer dimensions; they stay float32 */
        return tp__is_stored_half(c, o->in[0]) && (i == 0 || n->shape.ndim == o->in[0]->shape.ndim) ? half : TP_F32;
    if (tp__only_moves_values(o)) return tp__is_stored_half(c, &o->out[0]) ? half : TP_F32;
    /* an element-wise op reads each operand in the precision in which it is stored */
    if ((o->row->flags & TP_OP_ELEMENTWISE) && o->row != &tp__op_cast) return stored;
    return TP_F32;
}

/* -- 4. alias: values that have the buffer of another value -------------------------------------------- */

/* Returns the variable whose memory holds the value of n; NULL: it is elsewhere. */
static const tp_variable *tp__memory_of(const tp__compiler *c, const tp_node *n)
{
    n = tp__alias_root_node(c, n);
    if (n->index != 0 || c->fed[tp__value_of(c, n)] >= 0) return NULL;
    return n->op->n_var ? n->op->var[0] : tp_node_variable(n);
}

/* 4. Finds the values that are aliases. A value in a variable's memory gets no alias if the variable is written later. */
static void tp__plan_alias(tp__compiler *c)
{
    for (int i = 0; i < c->n_order; i++) {
        const tp_operation *o = c->op[c->order[i]];
        const int v = c->first_value[o->id];
        if (o->n_in < 1 || (o->row->flags & TP_OP_SOURCE) || tp__is_writer(o) || o->row == &tp__op_read_after) continue;
        const int in = tp__value_of(c, o->in[0]);
        bool view = (o->row->flags & TP_OP_VIEW) != 0;
        if ((o->row == &tp__op_sum_to_like || o->row == &tp__op_broadcast_like) &&
            tp__type_equal(&c->value[v].type, &c->value[in].type))
            view = true;
        if (!view || c->value[in].type.dtype != c->value[v].type.dtype) continue;
        /* an op on another device copies the value, so its output is no alias */
        if (tp__node_on(c, o->in[0]) != tp__device_of(c, o)) continue;
        const tp_variable *var = tp__memory_of(c, o->in[0]);
        if (var && tp__written_between(c, var, i, c->n_order)) continue;
        c->alias[v] = in;
    }
}

/* -- 5. fold: values that depend on constants alone are computed when the plan is compiled ------------- */

/* Creates the buffers of feeds, constants and variables. */
static tp_status tp__plan_sources(tp__compiler *c)
{
    tp__plan *p = c->plan;
    for (int i = 0; i < p->n_feed; i++) {
        const int b = tp__new_buffer(c, TP__IN_ARENA, tp__bytes_of(&p->feed_type[i]), tp__node_on(c, p->feed[i]));
        if (b < 0) return tp__nomem_plan();
        p->buffer[b].first = -1;
        p->buffer[b].last = -1;
        p->feed_buffer[i] = b;
        c->value[tp__value_of(c, p->feed[i])].buffer = b;
    }
    for (int k = 0; k < c->n_order; k++) {
        const tp_operation *o = c->op[c->order[k]];
        const int v = c->first_value[o->id];
        if (c->fed[v] >= 0 || !(o->row->flags & TP_OP_SOURCE)) continue;
        const bool constant = o->row == &tp__op_constant;
        const int b = tp__new_buffer(c, constant ? TP__IN_CONST : TP__IN_VAR, tp__bytes_of(&c->value[v].type),
                                     tp__device_of(c, o));
        if (b < 0) return tp__nomem_plan();
        c->value[v].buffer = b;
        c->folded[o->id] = constant;
        if (!constant) {
            p->buffer[b].var = o->var[0];
        } else {
            const tp_status st = tp__constant_data(c, b, o->user);
            if (st != TP_OK) return st;
        }
    }
    return TP_OK;
}

/* 5. Decides which ops are folded: those on the host that have no effect, only constant operands, and a result that is small or no
 * larger than an operand (the weights of an imported model, in another layout). Their outputs are constants too. */
static void tp__plan_fold(tp__compiler *c)
{
    const unsigned effects =
        TP_OP_RANDOM | TP_OP_READS_VAR | TP_OP_WRITES_VAR | TP_OP_COLLECTIVE | TP_OP_HOST | TP_OP_SOURCE;
    for (int k = 0; k < c->n_order; k++) {
        const tp_operation *o = c->op[c->order[k]];
        if ((o->row->flags & effects) || o->n_in == 0 || o->n_ctrl || !c->plan->device[tp__device_of(c, o)]->host ||
            (o->row->shape_only & 1u) || ((o->row->flags & TP_OP_VIEW) && c->alias[c->first_value[o->id]] < 0))
            continue;
        bool all_constant = true;
        int64_t limit = (int64_t)1 << 22;
        for (int i = 0; i < o->n_in; i++) {
            if (tp__shape_only(o->row, i)) continue;
            const int v = tp__value_of(c, o->in[i]);
            const int64_t bytes = tp__bytes_of(&c->value[v].type);
            all_constant = all_constant && c->fed[v] < 0 && c->folded[o->in[i]->op->id];
            limit = bytes > limit ? bytes : limit;
        }
        c->folded[o->id] = all_constant && tp__bytes_of(&c->value[c->first_value[o->id]].type) <= limit;
    }
}

/* -- 6. fuse: an op's step also does what ops around it would do; each rule is one function and an entry of tp__rules --- */

/* Returns the TP_FUSES_ flags of the kernel that will run op o: what can be fused into it. */
static unsigned tp__kernel_fuses(const tp__compiler *c, const tp_operation *o)
{
    tp_device *d = c->plan->device[tp__device_of(c, o)];
    if (d->find_kernel(d, o->row->name)) return d->fuses ? d->fuses(d, o->row->name) : 0;
    if (!d->host) return 0;
    /* on the CPU, tp__finish_naive applies bias and activation after a naive loop */
    return d->isa && o->row->fast ? o->row->fuses : TP_FUSES_BIAS | TP_FUSES_ACT;
}

/* Whether the channels are the last dimension of o's output 0. */
static bool tp__channels_last(const tp__compiler *c, const tp_operation *o)
{
    const int ndim = c->value[c->first_value[o->id]].type.shape.ndim;
    if (o->row->flags & (TP__OP_BATCH_NORM | TP__OP_BATCH_NORM_INFER | TP__OP_BATCH_NORM_GRAD))
        return tp__axis(((const tp__bn_attrs *)o->attrs)->axis, ndim) == ndim - 1;
    if (o->row->flags & (TP__OP_CONV2D | TP__OP_CONV2D_INPUT_GRAD | TP__OP_CONV2D_FILTER_GRAD))
        return ((const tp_conv2d_attrs *)o->attrs)->data_format != TP_NCHW;
    if (o->row->flags & TP__OP_MAX_POOL) return ((const tp_pool_attrs *)o->attrs)->data_format != TP_NCHW;
    return true;
}

static bool tp__can_fuse(const tp__compiler *c, const tp_operation *o, unsigned needed)
{
    const unsigned fuses = tp__kernel_fuses(c, o);
    return (fuses & needed) == needed && (!(fuses & TP_FUSES_CHANNELS_LAST) || tp__channels_last(c, o));
}

/* Returns the only op that reads value v, if v is not fetched; -1: no op, or several. */
static int tp__sole_direct_consumer(const tp__compiler *c, int v)
{
    if (c->fetched[v] || c->use_head[v] < 0 || c->use_next[c->use_head[v]] >= 0) return -1;
    return c->use_op[c->use_head[v]];
}

/* Returns the only op that reads value v or an alias of v, if none of them is fetched; -1: no op, or several. */
static int tp__sole_consumer(const tp__compiler *c, int v)
{
    for (;;) {
        const int id = tp__sole_direct_consumer(c, v);
        if (id < 0 || c->alias[c->first_value[id]] != v || c->op[id]->n_ctrl) return id;
        v = c->first_value[id];
    }
}

/* Adds a rule that has matched op o to the fusion of o, which gets its own list of inputs, with room for `more` new ones. Returns
 * NULL if memory runs out. */
static tp__fusion *tp__fuse(tp__compiler *c, const tp_operation *o, const tp__rule *rule, int more)
{
    tp__fusion *f = &c->fusion[o->id];
    const int n = f->in ? f->n_in : o->n_in;
    TP_ASSERT(f->n_rule < TP__MAX_RULES);
    tp_node **in = (tp_node **)tp_arena_alloc(&c->plan->arena, (size_t)(n + more + 1) * sizeof *in);
    if (!in) return NULL;
    for (int i = 0; i < n; i++) in[i] = f->in ? f->in[i] : o->in[i];
    f->in = in;
    f->n_in = n;
    f->rule[f->n_rule++] = rule;
    return f;
}

static int tp__add_input(tp__fusion *f, tp_node *n)
{
    f->in[f->n_in] = n;
    return f->n_in++;
}

/* Absorbs op `o` into the step of op `by` with fusion f. That step's output 0 is now the output of o. */
static void tp__absorb_next(tp__compiler *c, tp__fusion *f, const tp_operation *o, const tp_operation *by)
{
    tp__absorb(c, o, by);
    f->result = o;
    f->n_absorbed++;
}

/* The step of op o runs at the place of op `at`, before the steps that are there. */
static void tp__run_at_place_of(tp__compiler *c, const tp_operation *o, const tp_operation *at)
{
    const tp_operation *before = c->fusion[o->id].place;
    int *link = before ? &c->first_at_place[before->id] : NULL;
    while (link && *link >= 0 && *link != o->id) link = &c->next_at_place[*link];
    if (link && *link == o->id) *link = c->next_at_place[o->id]; /* it ran at another place */
    c->first_at_place[o->id] = -1;
    c->next_at_place[o->id] = c->first_at_place[at->id];
    c->first_at_place[at->id] = o->id;
    c->fusion[o->id].place = at;
}

/* Returns the place in the order of the step that computes an op's results. */
static int tp__place_of_result(const tp__compiler *c, const tp_operation *o)
{
    const tp_operation *by = c->absorbed_by[o->id] >= 0 ? c->op[c->absorbed_by[o->id]] : o;
    const tp_operation *place = c->fusion[by->id].place;
    return c->position[place ? place->id : by->id];
}

/* Whether the step of op o may run at the place of op `last`, which comes later and is absorbed into it, as is `also`: no op in
 * between may write what the step reads, or have an absorbed op or an alias of its value as a control dependency. */
static bool tp__may_run_later(const tp__compiler *c, const tp_operation *o, const tp_operation *also,
                              const tp_operation *last)
{
    for (int q = c->position[o->id] + 1; q < c->position[last->id]; q++) {
        const tp_operation *w = c->op[c->order[q]];
        if (tp__is_writer(w)) return false;
        for (int z = 0; z < w->n_ctrl; z++) {
            const tp_operation *x = w->ctrl[z];
            while (x->n_out > 0 && c->alias[c->first_value[x->id]] >= 0) x = x->in[0]->op;
            if (x == o || x == also || c->absorbed_by[x->id] == o->id) return false;
        }
    }
    return true;
}

/* Whether an op before position `end` of the order has o as a control dependency. */
static bool tp__is_awaited(const tp__compiler *c, const tp_operation *o, int end) { return c->awaited_at[o->id] < end; }

/* Whether input i of a gradient descent op can be fused with the op. The input must be a weight gradient a^T b that no other op
 * reads. The fusion keeps the bits as long as the sum over k is not split (>>gemm). */
static bool tp__can_fuse_descent(const tp__compiler *c, const tp_operation *apply, int i)
{
    const int n = ((const tp__apply_attrs *)apply->attrs)->n;
    const tp_node *grad = tp__skip_identities(apply->in[i]);
    const tp_operation *m = grad->op;
    const int v = tp__value_of(c, grad);
    if (m->row != &tp__op_matmul || m->n_ctrl || c->folded[m->id] || c->absorbed_by[m->id] >= 0 || c->fed[v] >= 0 ||
        tp__device_of(c, m) != tp__device_of(c, apply) || tp__sole_consumer(c, v) != apply->id ||
        c->value[v].type.dtype != TP_F32)
        return false;
    const tp__matmul_attrs *t = (const tp__matmul_attrs *)m->attrs;
    const tp_shape *a = &c->value[tp__value_of(c, m->in[0])].type.shape,
                   *b = &c->value[tp__value_of(c, m->in[1])].type.shape;
    if (!t->transpose_a || t->transpose_b || a->ndim != 2 || b->ndim != 2) return false;
    /* the fusion must save time, and use no more memory than the gradient would */
    const int64_t K = a->dim[0], M = a->dim[1], N = b->dim[1];
    if (K < 1 || K > TP__WHOLE_SUM || K * (M + N) > M * N) return false;
    /* The product can be fused if none of its operands is a variable, no op has it as a control dependency, and the
     * variable is updated by this op alone and read by no other input of the op. */
    for (int q = 0; q < 2; q++)
        if (tp__memory_of(c, m->in[q])) return false;
    for (int q = 0; q < n; q++)
        if (q != i && apply->var[q] == apply->var[i]) return false;
    for (int q = 0; q < apply->n_in; q++)
        if (tp__memory_of(c, apply->in[q]) == apply->var[i]) return false;
    return !tp__is_awaited(c, m, c->n_order);
}

static tp_status tp__fuse_descent(tp__compiler *c, const tp_operation *apply, const tp__rule *rule)
{
    if (apply->row != &tp__op_apply_gradient_descent) return TP_OK;
    tp_device *d = c->plan->device[tp__device_of(c, apply)];
    const int n = ((const tp__apply_attrs *)apply->attrs)->n;
    bool descends[TP__MAX_DESCENTS];
    int left = n;
    if (apply->n_in != n + 1 || (!d->host && !d->find_kernel(d, tp__op_descend.name)))
        /* one more input is a predicate, with which the update does not always happen; or the device has no kernel */
        return TP_OK;
    for (int i = 0; i < n && i < TP__MAX_DESCENTS; i++)
        if ((descends[i] = left > 1 && tp__can_fuse_descent(c, apply, i))) left--;
    if (left == n) return TP_OK;
    tp_arena *arena = &c->plan->arena;
    tp__fusion *apply_fusion = &c->fusion[apply->id];
    tp__apply_attrs *attrs = (tp__apply_attrs *)tp_arena_alloc(arena, sizeof *attrs);
    apply_fusion->in = (tp_node **)tp_arena_alloc(arena, (size_t)(left + 1) * sizeof *apply_fusion->in);
    apply_fusion->var = (tp_variable **)tp_arena_alloc(arena, (size_t)left * sizeof *apply_fusion->var);
    if (!attrs || !apply_fusion->in || !apply_fusion->var) return tp__nomem_plan();
    *attrs = *(const tp__apply_attrs *)apply->attrs;
    attrs->n = left;
    apply_fusion->attrs = attrs;
    for (int i = n - 1; i >= 0; i--)
        if (i >= TP__MAX_DESCENTS || !descends[i]) {
            apply_fusion->in[apply_fusion->n_in++] = apply->in[i];
            apply_fusion->var[apply_fusion->n_var++] = apply->var[i];
        }
    apply_fusion->in[apply_fusion->n_in++] = apply->in[n];
    /* a step added later runs before those added earlier: the products of the last layers come first, because the
     * backward pass used their operands last */
    for (int i = 0; i < n && i < TP__MAX_DESCENTS; i++) {
        if (!descends[i]) continue;
        const tp_operation *m = tp__skip_identities(apply->in[i])->op;
        tp__fusion *f = tp__fuse(c, m, rule, 1);
        if (!f) return tp__nomem_plan();
        tp__add_input(f, apply->in[n]);
        f->row = &tp__op_descend;
        f->var = &apply->var[i];
        f->n_var = 1;
        f->n_absorbed = 1;
        tp__run_at_place_of(c, m, apply);
    }
    return TP_OK;
}

/* Fuses a batch norm or group norm and the ReLU that follows it. */
TP__UNUSED static tp_status tp__fuse_bn_relu(tp__compiler *c, const tp_operation *o, const tp__rule *rule)
{
    const int v = c->first_value[o->id];
    if (!(o->row->flags & (TP__OP_BATCH_NORM | TP__OP_BATCH_NORM_INFER | TP__OP_GROUP_NORM)) ||
        !tp__is_float32(c, &o->out[0]) || !tp__can_fuse(c, o, TP_FUSES_ACT))
        return TP_OK;
    const int id = tp__sole_consumer(c, v);
    if (id < 0 || c->fed[v] >= 0) return TP_OK;
    const tp_operation *relu = c->op[id];
    if (relu->row != &tp__op_relu || relu->n_ctrl || c->fed[c->first_value[id]] >= 0 || c->folded[id] ||
        tp__device_of(c, relu) != tp__device_of(c, o))
        return TP_OK;
    tp__fusion *f = tp__fuse(c, o, rule, 0);
    if (!f) return tp__nomem_plan();
    f->fused.act = TP_EPILOGUE_RELU;
    tp__absorb_next(c, f, relu, o);
    return TP_OK;
}

/* If op o is the gradient of a batch norm or group norm and its dy is masked by a ReLU, returns the norm whose output that ReLU
 * reads; NULL if there is none. */
static const tp_operation *tp__masked_norm(const tp__compiler *c, const tp_operation *o)
{
    const tp_operation *mask = o->in[0]->op;
    if (mask->row != &tp__op_relu_grad || mask->n_ctrl || c->folded[mask->id]) return NULL;
    const int v = c->first_value[mask->id];
    if (c->fed[v] >= 0 || tp__sole_direct_consumer(c, v) != o->id) return NULL;
    const tp_operation *relu = mask->in[1]->op;
    if (relu->row != &tp__op_relu) return NULL;
    const tp_node *y = tp__skip_identities(relu->in[0]);
    const tp_operation *bn = y->op;
    const bool groups = (o->row->flags & TP__OP_GROUP_NORM_GRAD) != 0;
    const int inv = groups ? 2 : 3; /* which output of the norm */
    if (!(bn->row->flags & (groups ? TP__OP_GROUP_NORM : TP__OP_BATCH_NORM)) || y->index != 0) return NULL;
    const int device = tp__device_of(c, o);
    if (tp__device_of(c, mask) != device || tp__device_of(c, relu) != device || tp__device_of(c, bn) != device)
        return NULL;
    if (bn->in[0] != o->in[1] || bn->in[1] != o->in[2] || o->in[3] != &bn->out[1] || o->in[4] != &bn->out[inv])
        return NULL;
    /* no value between the norm and its gradient o may be fed, and beta must not have changed */
    for (const tp_node *n = mask->in[1]; n != y; n = n->op->in[0])
        if (c->fed[tp__value_of(c, n)] >= 0) return NULL;
    /* o must read the y, mean and inv that this norm computes, not fed values */
    const int *fed = &c->fed[tp__value_of(c, y)];
    if (fed[0] >= 0 || fed[1] >= 0 || fed[inv] >= 0) return NULL;
    /* if the gradient is in a variable's memory, another op could write it before op o reads it */
    if (tp__memory_of(c, mask->in[0])) return NULL;
    const tp_variable *var = tp__memory_of(c, bn->in[2]);
    if (var && tp__written_between(c, var, -1, c->position[o->id])) return NULL;
    return c->value[tp__alias_root(c, tp__value_of(c, bn->in[2]))].type.dtype == TP_F32 ? bn : NULL;
}

TP__UNUSED static tp_status tp__fuse_bn_mask(tp__compiler *c, const tp_operation *o, const tp__rule *rule)
{
    if (!(o->row->flags & (TP__OP_BATCH_NORM_GRAD | TP__OP_GROUP_NORM_GRAD)) || !tp__is_float32(c, &o->out[0]) ||
        !tp__can_fuse(c, o, TP_FUSES_MASK))
        return TP_OK;
    if (c->value[c->first_value[o->id]].type.dtype == TP_F16) return TP_OK; /* a float32 above 0 may be 0 in float16 */
    const tp_operation *bn = tp__masked_norm(c, o), *mask = o->in[0]->op;
    if (!bn) return TP_OK;
    tp__fusion *f = tp__fuse(c, o, rule, 1);
    if (!f) return tp__nomem_plan();
    f->in[0] = mask->in[0];
    f->fused.mask = tp__add_input(f, bn->in[2]);
    f->n_absorbed++;
    tp__absorb(c, mask, o);
    return TP_OK;
}

/* Fuses bias and activation into a convolution, transposed or not, or into a product. The step runs at the place of the last of these ops. */
TP__UNUSED static tp_status tp__fuse_epilogue(tp__compiler *c, const tp_operation *o, const tp__rule *rule)
{
    const int v = c->first_value[o->id];
    const bool product = o->row == &tp__op_matmul && c->value[tp__value_of(c, o->in[1])].type.shape.ndim == 2;
    const bool conv = (o->row->flags & (TP__OP_CONV2D | TP__OP_CONV2D_INPUT_GRAD)) && tp__channels_last(c, o);
    if (!product && !conv) return TP_OK;
    /* in half precision the result would be rounded before the bias is added */
    if (c->value[v].type.dtype != TP_F32) return TP_OK;
    if (!tp__can_fuse(c, o, TP_FUSES_BIAS | TP_FUSES_ACT)) return TP_OK;
    int id = tp__sole_direct_consumer(c, v);
    const tp_operation *bias = id >= 0 ? c->op[id] : NULL, *last = bias;
    if (!bias || bias->row != &tp__op_bias_add || tp__value_of(c, bias->in[0]) != v || c->folded[id] ||
        tp__device_of(c, bias) != tp__device_of(c, o))
        return TP_OK;
    if (((const tp__bias_attrs *)bias->attrs)->data_format == TP_NCHW && c->value[v].type.shape.ndim > 2) return TP_OK;
    id = tp__sole_consumer(c, c->first_value[id]);
    if (id >= 0 && !tp__type_equal(&c->value[v].type, &c->value[c->first_value[id]].type))
        id = -1; /* after a reshape */
    const tp__clip_attrs *clip =
        id >= 0 && c->op[id]->row->flags & TP__OP_CLIP ? (const tp__clip_attrs *)c->op[id]->attrs : NULL;
    /* -0 and what is so small that a kernel may take it for 0 are other bounds */
    if (clip && (clip->low != 0 || copysignf(1, clip->low) < 0 || !(clip->high >= FLT_MIN) ||
                 !tp__can_fuse(c, o, TP_FUSES_MOST)))
        clip = NULL;
    if (id >= 0 && (clip || c->op[id]->row == &tp__op_relu) && tp__device_of(c, c->op[id]) == tp__device_of(c, o))
        last = c->op[id];
    if (!tp__may_run_later(c, o, bias, last)) return TP_OK;
    tp__fusion *f = tp__fuse(c, o, rule, 1);
    if (!f) return tp__nomem_plan();
    f->fused.bias = tp__add_input(f, bias->in[1]);
    tp__absorb_next(c, f, bias, o);
    if (last != bias) {
        f->fused.act = TP_EPILOGUE_RELU;
        f->fused.most = clip ? clip->high : 0;
        tp__absorb_next(c, f, last, o);
    }
    tp__run_at_place_of(c, o, last);
    return TP_OK;
}

/* Returns the geometry of a convolution in the plan, or of the convolution whose gradient o computes. */
static tp__conv tp__conv_of(const tp__compiler *c, const tp_operation *o)
{
    const tp_shape *out = &c->value[c->first_value[o->id]].type.shape;
    const tp_shape *x = &c->value[tp__value_of(c, o->in[0])].type.shape,
                   *w = &c->value[tp__value_of(c, o->in[1])].type.shape;
    const tp__fusion *f = &c->fusion[o->id];
    if (o->row->flags & TP__OP_CONV2D_INPUT_GRAD) x = out;
    else if (f->in) x = &c->value[tp__value_of(c, f->in[0])].type.shape; /* without the border, if that is fused */
    if (o->row->flags & TP__OP_CONV2D_FILTER_GRAD) w = out;
    return tp__conv_geometry_padded((const tp_conv2d_attrs *)o->attrs, f->fused.pad, x, w);
}

/* Whether the kernel of op o can read its input as if it had the border of `value` that op pad adds. */
static bool tp__can_read_border(const tp__compiler *c, const tp_operation *o, const tp__pad_attrs *t)
{
    /* a filter of 1x1 is a matrix product without a border, which adds in another order */
    if (o->row->flags & TP__OP_CONV2D) {
        const tp__conv g = tp__conv_of(c, o);
        return t->value == 0 && g.KH * g.KW > 1;
    }
    if (!(o->row->flags & TP__OP_MAX_POOL)) return false;
    /* each window has an element of the image, and nobody asks which of its elements is the largest */
    const tp_pool_attrs *a = (const tp_pool_attrs *)o->attrs;
    const int v = c->first_value[o->id];
    for (int d = 0; d < 2; d++)
        if (t->before[1 + d] >= (d ? a->size_w : a->size_h) || t->after[1 + d] >= (d ? a->size_w : a->size_h))
            return false;
    const tp_shape *x = &c->value[tp__value_of(c, o->in[0]->op->in[0])].type.shape;
    if (a->padding == TP_SAME || x->dim[1] < 1 || x->dim[2] < 1) return false;
    return t->value == -HUGE_VALF && a->size_h * a->size_w <= 256 && c->use_head[v + 1] < 0 && !c->fetched[v + 1] &&
           (c->use_head[v] >= 0 || c->fetched[v]);
}
/* A convolution reads its input as if that had the border of zeros that an op before it adds for it alone, a max pool as if it had one
 * of minus infinity. The gradients read the border, so this is for predictions. The values are those of the two ops, but for weights
 * that are infinite or NaN: times the zeros of a border these give NaN, which a fused border does not. */
TP__UNUSED static tp_status tp__fuse_pad(tp__compiler *c, const tp_operation *o, const tp__rule *rule)
{
    const tp_operation *pad = o->n_in ? o->in[0]->op : NULL;
    if (!pad || !(pad->row->flags & TP__OP_PAD) || !tp__can_fuse(c, o, TP_FUSES_PAD)) return TP_OK;
    const int v = c->first_value[pad->id];
    const tp__pad_attrs *t = (const tp__pad_attrs *)pad->attrs;
    if (t->mode != TP_PAD_CONSTANT || !tp__can_read_border(c, o, t) || c->value[v].type.dtype != TP_F32 ||
        pad->n_ctrl || c->folded[pad->id] || c->fed[v] >= 0 || c->absorbed_by[pad->id] >= 0 ||
        tp__sole_direct_consumer(c, v) != o->id || tp__is_awaited(c, pad, c->n_order) || tp__memory_of(c, pad->in[0]) ||
        tp__device_of(c, pad) != tp__device_of(c, o) || t->before[0] || t->after[0] || t->before[3] || t->after[3])
        return TP_OK;
    for (int d = 1; d < 3; d++)
        if (t->before[d] > UINT8_MAX || t->after[d] > UINT8_MAX) return TP_OK;
    tp__fusion *f = tp__fuse(c, o, rule, 0);
    if (!f) return tp__nomem_plan();
    f->in[0] = pad->in[0];
    for (int i = 0; i < 4; i++) f->fused.pad[i] = (uint8_t)(i % 2 ? t->after : t->before)[1 + i / 2];
    f->n_absorbed++;
    tp__absorb(c, pad, o);
    return TP_OK;
}

/* Whether the convolution's kernel can normalise its output. */
TP__UNUSED static bool tp__conv_can_normalise_after(const tp__compiler *c, const tp_operation *o)
{
    const tp_device *d = c->plan->device[tp__device_of(c, o)];
    const tp__conv g = tp__conv_of(c, o);
    (void)d, (void)g;
    return TP__IF_FAST(tp__conv_normalises(d, &g), false);
}

/* Fuses the batch norm of a prediction, with its ReLU, into the convolution before it: the kernel normalises each part of its output
 * while that is in the cache. The step runs at the place of the batch norm. */
TP__UNUSED static tp_status tp__fuse_norm_after(tp__compiler *c, const tp_operation *o, const tp__rule *rule)
{
    if (!(o->row->flags & TP__OP_CONV2D) || !tp__can_fuse(c, o, TP_FUSES_NORM_AFTER) || !tp__channels_last(c, o))
        return TP_OK;
    const tp_operation *result = c->fusion[o->id].result ? c->fusion[o->id].result : o;
    const int v = c->first_value[result->id], id = tp__sole_consumer(c, v);
    const tp_operation *norm = id >= 0 ? c->op[id] : NULL;
    if (!norm || !(norm->row->flags & TP__OP_BATCH_NORM_INFER) ||
        tp__alias_root(c, tp__value_of(c, norm->in[0])) != v || c->folded[id] ||
        tp__device_of(c, norm) != tp__device_of(c, o) || !tp__channels_last(c, norm) ||
        c->value[c->first_value[o->id]].type.dtype != TP_F32 || c->value[c->first_value[id]].type.dtype != TP_F32)
        return TP_OK;
    for (int i = 1; i < 5; i++)
        if (c->value[tp__alias_root(c, tp__value_of(c, norm->in[i]))].type.dtype != TP_F32) return TP_OK;
    if (!tp__conv_can_normalise_after(c, o) || !tp__may_run_later(c, o, norm, norm)) return TP_OK;
    const tp__fusion *of_norm = &c->fusion[id];
    tp__fusion *f = tp__fuse(c, o, rule, 4);
    if (!f) return tp__nomem_plan();
    f->fused.norm_after = tp__add_input(f, norm->in[1]);
    for (int i = 2; i < 5; i++) tp__add_input(f, norm->in[i]);
    f->fused.epsilon = ((const tp__bn_attrs *)norm->attrs)->epsilon;
    f->fused.norm_after_relu = of_norm->fused.act == TP_EPILOGUE_RELU;
    tp__absorb_next(c, f, norm, o);
    if (of_norm->result) tp__absorb_next(c, f, of_norm->result, o);
    tp__run_at_place_of(c, o, norm);
    return TP_OK;
}

/* Whether the convolution's kernel can add another value while it writes its output: only the kernels of some shapes can. */
static bool tp__conv_can_add(const tp__compiler *c, const tp_operation *o)
{
    tp_device *d = c->plan->device[tp__device_of(c, o)];
    if (d->can_add) {
        const tp_operand in[2] = {tp__operand(&c->value[tp__value_of(c, o->in[0])].type),
                                  tp__operand(&c->value[tp__value_of(c, o->in[1])].type)},
                         out = tp__operand(&c->value[c->first_value[o->id]].type);
        tp_call k;
        memset(&k, 0, sizeof k);
        k.device = d, k.op = o->row, k.attrs = o->attrs, k.precision = c->exec->session->config.precision;
        k.n_in = 2, k.n_out = 1, k.in = in, k.out = &out;
        return d->can_add(d, &k);
    }
    const tp__conv g = tp__conv_of(c, o);
    (void)g;
    return !d->isa || TP__IF_FAST(tp__conv_adds(d, &g), false);
}

/* Whether the convolution can normalise x while loading it: it has one group and a filter larger than 1x1, because only those
 * kernels copy x. */
static bool tp__conv_can_normalise(const tp__compiler *c, const tp_operation *o)
{
    const tp__conv g = tp__conv_of(c, o);
    return g.groups == 1 && g.KH * g.KW > 1;
}

/* Returns the ReLU that alone reads value v, if the kernel of op o can do it; NULL: none. */
static const tp_operation *tp__relu_after(const tp__compiler *c, int v, const tp_operation *o)
{
    const int id = tp__sole_consumer(c, v);
    const tp_operation *relu = id >= 0 ? c->op[id] : NULL;
    if (!relu || relu->row != &tp__op_relu || relu->n_ctrl || c->fed[c->first_value[id]] >= 0 || c->folded[id] ||
        c->absorbed_by[id] >= 0 || tp__device_of(c, relu) != tp__device_of(c, o) || !tp__can_fuse(c, o, TP_FUSES_ACT))
        return NULL;
    return relu;
}

/* Fuses an addition into a convolution, a batch norm or its gradient: the kernel adds the other summand while it writes. A batch norm
 * also does the ReLU after the sum, and in half precision rounds its own result first, as if it were stored. */
TP__UNUSED static tp_status tp__fuse_sum(tp__compiler *c, const tp_operation *o, const tp__rule *rule)
{
    const bool conv = (o->row->flags & (TP__OP_CONV2D | TP__OP_CONV2D_INPUT_GRAD)) != 0,
               norm = (o->row->flags & TP__OP_BATCH_NORM) != 0;
    if ((!conv && !norm && !(o->row->flags & TP__OP_BATCH_NORM_GRAD)) || !tp__can_fuse(c, o, TP_FUSES_ADD))
        return TP_OK;
    const int v = c->first_value[o->id], device = tp__device_of(c, o);
    const int id = norm ? tp__sole_consumer(c, v) : tp__sole_direct_consumer(c, v);
    if (id < 0 || o->n_ctrl || c->fed[v] >= 0 || (!norm && c->value[v].type.dtype != TP_F32)) return TP_OK;
    const tp_operation *sum = c->op[id];
    if (sum->row != &tp__op_add || sum->n_ctrl || c->folded[id] || c->absorbed_by[id] >= 0 ||
        tp__device_of(c, sum) != device || c->fed[c->first_value[id]] >= 0)
        return TP_OK;
    tp_node *other = sum->in[tp__alias_root(c, tp__value_of(c, sum->in[0])) == v];
    const tp_node *root = tp__alias_root_node(c, other);
    if (tp__value_of(c, root) == v || !tp__type_equal(&c->value[v].type, &c->value[tp__value_of(c, other)].type))
        return TP_OK;
    /* the other summand must be computed before o; if it is an element-wise op, it runs at the end of its chain, which
     * may be after o */
    if ((root->op->row->flags & (TP_OP_READS_VAR | TP_OP_WRITES_VAR)) ||
        c->position[root->op->id] >= c->position[o->id] || tp__place_of_result(c, root->op) >= c->position[o->id])
        return TP_OK;
    if (c->absorbed_by[root->op->id] < 0 && (root->op->row->flags & TP_OP_ELEMENTWISE) &&
        c->fed[tp__value_of(c, root)] < 0)
        return TP_OK;
    if (conv && !tp__conv_can_add(c, o)) return TP_OK;
    tp__fusion *f = tp__fuse(c, o, rule, 1);
    if (!f) return tp__nomem_plan();
    f->fused.add = tp__add_input(f, other);
    tp__absorb_next(c, f, sum, o);
    const tp_operation *relu = norm ? tp__relu_after(c, c->first_value[id], o) : NULL;
    if (relu) {
        f->fused.act = TP_EPILOGUE_RELU;
        tp__absorb_next(c, f, relu, o);
    }
    return TP_OK;
}

/* Whether value v, with all its aliases, is read only by convolutions that can normalise their input. */
static bool tp__read_only_by_convs(const tp__compiler *c, int v, int device)
{
    if (c->fetched[v] || c->fed[v] >= 0 || c->use_head[v] < 0) return false;
    for (int u = c->use_head[v]; u >= 0; u = c->use_next[u]) {
        const tp_operation *o = c->op[c->use_op[u]];
        const int first = c->first_value[o->id];
        if (tp__device_of(c, o) != device || c->folded[o->id]) return false;
        if (c->alias[first] == v) {
            if (o->row != &tp__op_identity || o->n_ctrl || !tp__read_only_by_convs(c, first, device)) return false;
            continue;
        }
        if (o->row == &tp__op_relu_grad && c->absorbed_by[o->id] >= 0 && tp__value_of(c, o->in[0]) != v)
            continue; /* this op reads y only for the mask, which the batch norm's gradient computes itself */
        if (!(o->row->flags & (TP__OP_CONV2D | TP__OP_CONV2D_FILTER_GRAD)) || !tp__can_fuse(c, o, TP_FUSES_NORM))
            return false;
        if (tp__value_of(c, o->in[0]) != v || tp__value_of(c, o->in[1]) == v) return false;
        if (!tp__conv_can_normalise(c, o) || c->value[first].type.dtype != TP_F32) return false;
    }
    return true;
}

/* Makes all convolutions that read v read x and the normalisation (mean, scale, beta) instead. */
static tp_status tp__normalise_on_load(tp__compiler *c, int v, tp_node *x, bool relu, const tp__rule *rule)
{
    for (int u = c->use_head[v]; u >= 0; u = c->use_next[u]) {
        const tp_operation *o = c->op[c->use_op[u]];
        tp_status st = TP_OK;
        if (c->alias[c->first_value[o->id]] == v) st = tp__normalise_on_load(c, c->first_value[o->id], x, relu, rule);
        else if (o->row != &tp__op_relu_grad) {
            tp__fusion *f = tp__fuse(c, o, rule, 1);
            if (!f) return tp__nomem_plan();
            f->fused.norm = tp__add_input(f, f->in[0]);
            f->fused.norm_relu = relu;
            f->in[0] = x;
        }
        if (st != TP_OK) return st;
    }
    return TP_OK;
}

/* The output of a batch norm (or of its ReLU) that only convolutions read is elided: they normalise x while they load it. */
TP__UNUSED static tp_status tp__fuse_norm(tp__compiler *c, const tp_operation *o, const tp__rule *rule)
{
    tp__fusion *f = &c->fusion[o->id];
    if (!(o->row->flags & TP__OP_BATCH_NORM) || !tp__can_fuse(c, o, TP_FUSES_ELIDE)) return TP_OK;
    /* there is a reshape between the batch norm and the convolution */
    if (f->result && tp__skip_identities(f->result->in[0])->op != o) return TP_OK;
    const tp_operation *last = f->result ? f->result : o;
    const int v = c->first_value[last->id];
    const tp_type *y = &c->value[v].type, *x = &c->value[tp__value_of(c, o->in[0])].type;
    if (y->shape.ndim != 4 || y->shape.dim[0] < 1 || y->dtype != TP_F32 || x->dtype != TP_F32 ||
        !tp__channels_last(c, o) ||
        (tp__skip_identities(o->in[0])->op->row->flags & (TP_OP_READS_VAR | TP_OP_WRITES_VAR)))
        return TP_OK;
    if (!tp__read_only_by_convs(c, v, tp__device_of(c, o))) return TP_OK;
    if (!(f = tp__fuse(c, o, rule, 0))) return tp__nomem_plan();
    f->fused.elided = true;
    c->elided[v] = 1;
    return tp__normalise_on_load(c, v, o->in[0], last != o, rule);
}

/* Fuses a multiplication by a constant into the softmax that follows it. */
TP__UNUSED static tp_status tp__fuse_scale(tp__compiler *c, const tp_operation *o, const tp__rule *rule)
{
    if (o->row != &tp__op_softmax || !tp__can_fuse(c, o, TP_FUSES_SCALE)) return TP_OK;
    const tp_operation *affine = o->in[0]->op;
    const int v = tp__value_of(c, o->in[0]);
    if (affine->row != &tp__op_affine || affine->n_ctrl || c->folded[affine->id] || c->fed[v] >= 0 ||
        c->value[v].type.dtype != TP_F32 || tp__device_of(c, affine) != tp__device_of(c, o) ||
        tp__sole_direct_consumer(c, v) != o->id || tp__is_awaited(c, affine, c->n_order))
        return TP_OK;
    const tp__affine_attrs *t = (const tp__affine_attrs *)affine->attrs;
    if (t->offset != 0 || t->scale == 0) return TP_OK;
    if (tp__memory_of(c, affine->in[0])) return TP_OK; /* another op could write the variable before op o reads it */
    tp__fusion *f = tp__fuse(c, o, rule, 0);
    if (!f) return tp__nomem_plan();
    f->in[0] = affine->in[0];
    f->fused.scale = t->scale;
    f->n_absorbed++;
    tp__absorb(c, affine, o);
    return TP_OK;
}

/* The rules in the order in which they are tried. Each is tried once for each op, in the order of the plan. All values
 * that still exist keep their bits. */
static const tp__rule tp__rules[] = {
    {"descent", "gradient descent subtracts a product where it is summed, and never stores it", tp__fuse_descent},
#if TP__HAS_FUSION
    {"batch norm, ReLU", "batch norm and group norm do the ReLU that follows them", tp__fuse_bn_relu},
    {"mask, batch norm", "the gradients of these norms mask dy as the gradient of the ReLU would", tp__fuse_bn_mask},
    {"pad", "a convolution or max pool reads its input as if it had the border that an op before it adds",
     tp__fuse_pad},
    {"epilogue", "a convolution or product adds the bias and does the ReLU, or clips from 0 on, each finished sum",
     tp__fuse_epilogue},
    {"norm after", "a convolution normalises its output as the batch norm of a prediction would", tp__fuse_norm_after},
    {"sum", "a convolution, a batch norm or its gradient adds its result to another value", tp__fuse_sum},
    {"norm on load", "convolutions normalise their input while they load it; batch norm's output is elided",
     tp__fuse_norm},
    {"scale, softmax", "softmax multiplies its input by a constant while it loads it", tp__fuse_scale},
#endif
};

/* 6. Tries the rules of fusion. */
static tp_status tp__plan_fuse(tp__compiler *c)
{
    for (int r = 0; r < TP_COUNT(tp__rules); r++)
        for (int k = 0; k < c->n_order; k++) {
            const tp_operation *o = c->op[c->order[k]];
            if (c->folded[o->id] || c->absorbed_by[o->id] >= 0) continue;
            const tp_status st = tp__rules[r].match(c, o, &tp__rules[r]);
            if (st != TP_OK) return st;
        }
    return TP_OK;
}

/* -- 6. fuse: chains of element-wise ops become one kernel each ---------------------------------------- */

static bool tp__fusable(const tp__compiler *c, const tp_operation *o)
{
    if (!(o->row->flags & TP_OP_ELEMENTWISE) || o->n_in > 4) return false;
    /* other devices fuse all types; the CPU's block functions have no half precision */
    if (!c->plan->device[tp__device_of(c, o)]->host) return true;
    for (int i = 0; i < o->n_in; i++) {
        const tp_dtype d = c->value[tp__value_of(c, o->in[i])].type.dtype;
        if (d == TP_F16 || d == TP_BF16) return false;
    }
    const tp_dtype d = c->value[c->first_value[o->id]].type.dtype;
    return d != TP_F16 && d != TP_BF16;
}

static bool tp__is_member(const tp__group *g, int id)
{
    for (int k = 0; k < g->n; k++)
        if (g->op[k] == id) return true;
    return false;
}

/* Whether op `id` reads the result of a member in another shape than the member's, which a chain cannot do: before it has run, the result
 * has no memory. */
static bool tp__reads_reshaped(const tp__compiler *c, const tp__group *g, int id)
{
    const tp_operation *o = c->op[id];
    for (int i = 0; i < o->n_in; i++) {
        const int v = tp__value_of(c, o->in[i]), root = tp__alias_root(c, v);
        if (!tp_shape_equal(&c->value[v].type.shape, &c->value[root].type.shape) &&
            tp__is_member(g, tp__alias_root_node(c, o->in[i])->op->id))
            return true;
    }
    return false;
}

/* Whether one chain has room for a group's operands and registers. */
static bool tp__chain_fits(const tp__compiler *c, const tp__group *g)
{
    const tp_shape *shape = &c->value[c->first_value[g->op[0]]].type.shape;
    int last[TP__MAX_INSTR], external[TP__MAX_EXTERNAL], n_external = 0, n_filled = 0;
    for (int m = 0; m < g->n; m++) {
        const tp_operation *o = c->op[g->op[m]];
        last[m] = -1; /* the last member that reads the result of member m */
        for (int i = 0; i < o->n_in; i++) {
            const int v = tp__value_of(c, o->in[i]), root = tp__alias_root(c, v);
            const bool same = tp_shape_equal(&c->value[v].type.shape, shape);
            int k = 0;
            while (k < m && (!same || c->first_value[g->op[k]] != root)) k++;
            if (k < m) {
                last[k] = m;
                continue;
            }
            for (k = 0; k < n_external && external[k] != v;) k++;
            if (k < n_external) continue;
            if (n_external == TP__MAX_EXTERNAL) return false;
            external[n_external++] = v;
            n_filled += !same; /* a register is filled with it */
        }
    }
    for (int m = 0; m < g->n; m++) {
        int live = n_filled + 1; /* the result of m and those that m or a later member reads */
        for (int k = 0; k < m; k++) live += last[k] >= m;
        if (live > TP__MAX_REG) return false;
    }
    return true;
}

/* Whether op `id` may join the group of element-wise ops. The whole group then runs at id's place in the order. */
static bool tp__may_join(const tp__compiler *c, const tp__group *g, int id)
{
    const tp_operation *o = c->op[id];
    const int at = c->position[id];
    tp__group grown = *g;
    if (g->n == TP__MAX_EXTERNAL || tp__reads_reshaped(c, g, id)) return false; /* each member may be a result */
    grown.op[grown.n++] = id;
    for (int m = 0; m < g->n; m++) {
        const tp_operation *w = c->op[g->op[m]];
        if (tp__device_of(c, w) != tp__device_of(c, o) || tp__reads_reshaped(c, g, w->id) ||
            !tp_shape_equal(&c->value[c->first_value[w->id]].type.shape, &c->value[c->first_value[id]].type.shape))
            return false;
        /* any other op that reads a member's result must run after id */
        const int v = c->first_value[w->id];
        int stack[64], n = 0;
        stack[n++] = v;
        while (n > 0) {
            const int x = stack[--n];
            for (int u = c->use_head[x]; u >= 0; u = c->use_next[u]) {
                const int user = c->use_op[u], out = c->first_value[user];
                if (c->alias[out] == x) {
                    if (n == 64) return false;
                    stack[n++] = out;
                    continue;
                }
                bool member = user == id;
                for (int k = 0; k < g->n; k++) member = member || g->op[k] == user;
                if (!member && c->position[user] < at) return false;
            }
        }
        /* no op between a member and id may have the member as a control dependency, or overwrite a variable's memory that it reads */
        if (tp__is_awaited(c, w, at)) return false;
        for (int i = 0; i < w->n_in; i++) {
            const tp_variable *var = tp__memory_of(c, w->in[i]);
            if (var && tp__written_between(c, var, c->position[w->id], at)) return false;
        }
    }
    return tp__chain_fits(c, &grown);
}

/* Returns the members of two groups in their order; `all` is false if they are too many for one chain. */
static tp__group tp__merge_groups(const tp__compiler *c, const tp__group *a, const tp__group *b, bool *all)
{
    tp__group g;
    int i = 0, j = 0;
    *all = a->n + b->n < TP__MAX_EXTERNAL;
    g.n = 0;
    while (*all && (i < a->n || j < b->n)) {
        const bool first = j == b->n || (i < a->n && c->position[a->op[i]] < c->position[b->op[j]]);
        g.op[g.n++] = first ? a->op[i++] : b->op[j++];
    }
    return g;
}

/* 6. Puts each element-wise op into the group of one of its operands where it may join, and merges with it the groups of its other
 * operands where these may join too. Without fusion each op has a group of its own. */
static tp_status tp__plan_groups(tp__compiler *c)
{
    c->groups = (tp__group *)tp_arena_alloc(&c->arena, (size_t)(c->n_order + 1) * sizeof *c->groups);
    if (!c->groups) return tp__nomem_plan();
    for (int k = 0; k < c->n_order; k++) {
        const tp_operation *o = c->op[c->order[k]];
        const int v = c->first_value[o->id];
        if (c->folded[o->id] || c->absorbed_by[o->id] >= 0 || c->alias[v] >= 0 || !tp__fusable(c, o)) continue;
        int best = -1;
        for (int i = 0; i < o->n_in && !c->exec->session->config.no_fusion; i++) {
            const tp_node *node = tp__alias_root_node(c, o->in[i]);
            const int group = c->group[node->op->id];
            if (group < 0 || group == best || node->index != 0) continue;
            if (best < 0) {
                if (tp__may_join(c, &c->groups[group], o->id)) best = group;
                continue;
            }
            bool all;
            const tp__group both = tp__merge_groups(c, &c->groups[best], &c->groups[group], &all);
            if (!all || !tp__may_join(c, &both, o->id)) continue;
            c->groups[best] = both;
            for (int m = 0; m < c->groups[group].n; m++) c->group[c->groups[group].op[m]] = best;
            c->groups[group].n = 0;
        }
        if (best < 0) best = c->n_group++;
        tp__group *g = &c->groups[best];
        c->group[o->id] = best;
        g->op[g->n++] = o->id;
    }
    return TP_OK;
}

#ifdef TP__NO_SYSTEM
#define TP__REPEATS 0 /* its code would take a kilobyte of flash */
#else
#define TP__REPEATS TP__HAS_FUSION
#endif
#define TP__MOST_REPEATED 4 /* cheap ops in a row; more of them take longer than storing and loading a value */

/* Whether an op takes so little time that reading its operand and computing it again is as fast as reading its result. */
static bool tp__is_cheap(const tp_operation *o)
{
    return o->row == &tp__op_affine || o->row == &tp__op_square || o->row == &tp__op_neg || o->row == &tp__op_relu ||
           (o->row->flags & TP__OP_CLIP);
}

/* Collects the other groups that read the result of op o, a member of a group. Returns their number; -1: others read it too, or read it in
 * another shape or on another device, so it must be stored. */
static int tp__reading_groups(const tp__compiler *c, const tp_operation *o, int *other)
{
    const int v = c->first_value[o->id];
    int n = 0;
    if (c->fetched[v]) return -1;
    for (int u = c->use_head[v]; u >= 0; u = c->use_next[u]) {
        const tp_operation *user = c->op[c->use_op[u]];
        const int out = c->first_value[user->id], group = c->group[user->id];
        if (group == c->group[o->id]) continue;
        bool known = false;
        for (int k = 0; k < n; k++) known = known || other[k] == group;
        if (known) continue;
        if (group < 0 || n == TP__MAX_EXTERNAL || tp__device_of(c, user) != tp__device_of(c, o) ||
            !tp_shape_equal(&c->value[out].type.shape, &c->value[v].type.shape))
            return -1;
        other[n++] = group;
    }
    return n;
}

/* Whether value v, the result of a member of `group` or a view of it, is fetched or read by an op outside of the group. */
static bool tp__leaves_group(const tp__compiler *c, int v, int group)
{
    if (c->fetched[v]) return true;
    for (int u = c->use_head[v]; u >= 0; u = c->use_next[u]) {
        const int user = c->use_op[u], out = c->first_value[user];
        if (c->alias[out] == v ? tp__leaves_group(c, out, group) : c->group[user] != group) return true;
    }
    return false;
}

/* Adds op o to a group, and the repeated ops that it reads, unless they are members already. Returns false if the group has no room;
 * it may then hold some of them. */
static bool tp__repeat_in(const tp__compiler *c, tp__group *g, const tp_operation *o)
{
    if (tp__is_member(g, o->id)) return true;
    const tp_operation *before = tp__alias_root_node(c, o->in[0])->op;
    if (c->repeated[before->id] && !tp__repeat_in(c, g, before)) return false;
    if (g->n == TP__MAX_INSTR) return false;
    int at = g->n++;
    for (; at > 0 && c->position[g->op[at - 1]] > c->position[o->id]; at--) g->op[at] = g->op[at - 1];
    g->op[at] = o->id;
    return tp__chain_fits(c, g);
}

/* 6. A cheap op whose result only groups read, and whose operand is in memory anyway or is repeated itself, is computed again by each of
 * these groups instead of being stored and loaded. So the gradient of gelu_tanh(x) loads dy, x and the tanh, and computes the products
 * of x that it needs. */
static tp_status tp__repeat_cheap(tp__compiler *c)
{
    for (int k = 0; k < c->n_order && !c->exec->session->config.no_fusion; k++) {
        const tp_operation *o = c->op[c->order[k]];
        if (c->group[o->id] < 0 || !tp__is_cheap(o)) continue;
        int other[TP__MAX_EXTERNAL];
        const int n = tp__reading_groups(c, o, other);
        const tp_node *from = tp__alias_root_node(c, o->in[0]);
        /* another op may write a variable before the other groups read it */
        if (n < 0 || tp__memory_of(c, o->in[0])) continue;
        const int group = c->group[from->op->id], before = c->repeated[from->op->id];
        if (before == TP__MOST_REPEATED) continue;
        if (group >= 0 && !before && !tp__leaves_group(c, c->first_value[from->op->id], group)) continue;
        tp__group *grown = (tp__group *)tp_arena_alloc(&c->arena, (size_t)(n + 1) * sizeof *grown);
        if (!grown) return tp__nomem_plan();
        bool all = true;
        for (int i = 0; i < n && all; i++) {
            grown[i] = c->groups[other[i]];
            all = tp__repeat_in(c, &grown[i], o);
        }
        if (!all) continue;
        for (int i = 0; i < n; i++) c->groups[other[i]] = grown[i];
        c->repeated[o->id] = (char)(before + 1);
    }
    return TP_OK;
}

/* Elements that a fused chain computes at a time: its registers then fit in the L1 cache, or on the stack of a microcontroller. */
#ifdef TP__NO_SYSTEM
#define TP__FUSE_BLOCK 32
#else
#define TP__FUSE_BLOCK 512
#endif

/* Returns an element of four bytes twice. */
static uint64_t tp__pair_of(const char *src)
{
    uint32_t w;
    memcpy(&w, src, 4);
    return (uint64_t)w << 32 | w;
}
/* Copies n elements of `size` bytes that are `stride` elements apart (0: one element n times) into a contiguous block. */
static void tp__copy_strided(char *dst, const char *src, size_t size, int64_t stride, int64_t n)
{
    if (stride == 1) {
        tp__copy_bytes(dst, src, (size_t)n * size);
    } else if (stride == 0 && size == 4) {
        const uint64_t pair = tp__pair_of(src);
        for (int64_t k = 0; k + 2 <= n; k += 2) memcpy(dst + k * 4, &pair, 8);
        if (n % 2) memcpy(dst + (n - 1) * 4, &pair, 4);
    } else if (size == 4) {
        for (int64_t k = 0; k < n; k++) memcpy(dst + k * 4, src + k * stride * 4, 4);
    } else {
        for (int64_t k = 0; k < n; k++) memcpy(dst + (size_t)k * size, src + k * stride * (int64_t)size, size);
    }
}
/* Copies `rows` rows of n elements, as tp__copy_strided does one. Rows that are all the same are copied in growing pieces. dst has room for
 * one element more. */
static void tp__broadcast_rows(char *dst, const char *src, size_t size, int64_t rows, int64_t row_stride, int64_t n,
                               int64_t stride)
{
    const size_t row = (size_t)n * size, all = (size_t)rows * row;
    if (row_stride == 0) {
        tp__copy_strided(dst, src, size, stride, n);
        for (size_t done = row; done < all;) {
            const size_t more = done < all - done ? done : all - done;
            tp__copy_bytes(dst + done, dst, more);
            done += more;
        }
        return;
    }
    /* rows that are too short for a call, in pairs: the last may be one element too long */
    for (; stride == 0 && size == 4 && n < 32 && rows > 0; rows--, dst += row, src += row_stride * 4) {
        const uint64_t pair = tp__pair_of(src);
        for (int64_t k = 0; k < n; k += 2) memcpy(dst + k * 4, &pair, 8);
    }
    for (int64_t r = 0; r < rows; r++)
        tp__copy_strided(dst + (size_t)r * row, src + r * row_stride * (int64_t)size, size, stride, n);
}

/* Copies elements [i0, i0+n) of a broadcast operand into a contiguous block. */
static void tp__external_load(const tp__external *e, const char *src, int64_t i0, int64_t n, char *dst)
{
    const int last = e->n_dim - 1, row = last - 1;
    int64_t index[TP_MAX_DIMS] = {0}, index_left = i0;
    for (int d = last; d >= 0; d--) {
        index[d] = index_left % e->dim[d];
        index_left /= e->dim[d];
    }
    for (int64_t done = 0, run; done < n; done += run) {
        const int64_t left = n - done, length = e->dim[last], row_left = length - index[last];
        int64_t at = 0, rows = left / length;
        for (int d = 0; d <= last; d++) at += index[d] * e->step[d];
        if (rows > e->dim[row] - index[row]) rows = e->dim[row] - index[row];
        if (index[last] > 0 || rows == 0) { /* a part of a row */
            run = row_left < left ? row_left : left;
            tp__copy_strided(dst + (size_t)done * (size_t)e->size, src + at * e->size, (size_t)e->size, e->step[last],
                             run);
        } else {
            run = rows * length;
            tp__broadcast_rows(dst + (size_t)done * (size_t)e->size, src + at * e->size, (size_t)e->size, rows,
                               e->step[row], length, e->step[last]);
        }
        index[row] += (index[last] + run) / length;
        index[last] = (index[last] + run) % length;
        for (int d = row; d > 0 && index[d] == e->dim[d]; d--) index[d] = 0, index[d - 1]++;
    }
}

/* Whether elements [i0, i0+n) of an operand have the values of the block before, which are still in its register. */
static bool tp__same_as_before(const tp__program *p, const tp__external *e, int64_t i0, int64_t n)
{
    return e->tile && p->block % e->tile == 0 && (i0 - p->block) / e->repeats == (i0 + n - 1) / e->repeats;
}

#define TP__FUSED_BLOCKS 16 /* blocks of a chunk, which one thread computes */

static void tp__fused_chunk(void *user, int64_t chunk)
{
    const tp_call *k = (const tp_call *)user;
    const tp__program *p = (const tp__program *)k->attrs;
    double registers[TP__MAX_REG][TP__FUSE_BLOCK]; /* eight bytes per element, enough for any dtype */
    const int64_t length = TP__FUSED_BLOCKS * p->block, begin = chunk * length;
    const int64_t end = begin + length < p->n ? begin + length : p->n;
    for (int64_t i0 = begin; i0 < end; i0 += p->block) {
        const int64_t n = end - i0 < p->block ? end - i0 : p->block;
        for (int e = 0; e < p->n_external; e++)
            if (p->external[e].reg >= 0 && (i0 == begin || !tp__same_as_before(p, &p->external[e], i0, n)))
                tp__external_load(&p->external[e], (const char *)k->in[e].data, i0, n,
                                  (char *)registers[p->external[e].reg]);
        for (int j = 0; j < p->n_instr; j++) {
            const tp__instr *s = &p->instr[j];
            const void *in[5] = {NULL, NULL, NULL, NULL, NULL};
            for (int a = 0; a < s->n_in; a++) {
                const int w = s->in[a];
                if (s->from[a] == TP__FROM_REG) in[a] = registers[w];
                else if (s->from[a] == TP__FROM_OUT) in[a] = (const char *)k->out[w].data + i0 * p->out_size[w];
                else if (p->external[w].reg >= 0) in[a] = registers[p->external[w].reg];
                else in[a] = (const char *)k->in[w].data + i0 * p->external[w].size;
            }
            void *y = s->to == TP__FROM_REG ? (void *)registers[s->out]
                                            : (void *)((char *)k->out[s->out].data + i0 * s->out_size);
            in[s->n_in] = s->attrs; /* a vector function gets its attributes as one more argument */
            if (s->vec) s->vec(n, (float *)y, (const float *const *)(const void *)in);
            else s->block(n, y, in, s->attrs);
        }
    }
}

static void tp__fused_kernel(const tp_call *k)
{
    const tp__program *p = (const tp__program *)k->attrs;
    const int64_t length = TP__FUSED_BLOCKS * p->block, chunks = (p->n + length - 1) / length;
    tp_device_parallel(k->device, chunks, tp__fused_chunk, (void *)(uintptr_t)k);
}

static const tp_op tp__op_fused =
    TP__ROW("fused", "Fused", TP_OP_PURE, TP__IO_RANGE(0, -1, -1), TP__NO_ATTRS, NULL, NULL,
            TP__KERNELS(tp__fused_kernel, tp__fused_kernel, NULL), TP__FLOPS(NULL), TP__NO_ONNX);

/* -- 7. emit: steps and their kernels ------------------------------------------------------------------ */

static tp__step *tp__add_step(tp__compiler *c, const tp_op *row, const char *name, int n_in, int n_out, int n_var,
                              int device)
{
    tp__plan *p = c->plan;
    if (p->n_step == p->cap_step) {
        const int cap = p->cap_step ? p->cap_step * 2 : 64;
        tp__step *bigger = (tp__step *)tp_arena_alloc(&p->arena, (size_t)cap * sizeof *bigger);
        if (!bigger) return NULL;
        if (p->n_step) memcpy(bigger, p->step, (size_t)p->n_step * sizeof *bigger);
        p->step = bigger;
        p->cap_step = cap;
    }
    tp__step *s = &p->step[p->n_step];
    memset(s, 0, sizeof *s);
    const int n = n_in + n_out + n_var;
    s->row = row;
    s->name = name;
    s->operand = (tp_operand *)tp_arena_alloc(&p->arena, (size_t)(n + 1) * sizeof *s->operand);
    s->buffer = (int *)tp_arena_alloc(&p->arena, (size_t)(n + 1) * sizeof *s->buffer);
    if (!s->operand || !s->buffer) return NULL;
    for (int i = 0; i < n; i++) s->buffer[i] = -1;
    s->scratch = -1;
    s->device = device;
    s->from = -1;
    s->call.device = p->device[device];
    s->call.op = row;
    s->call.name = name;
    s->call.n_in = n_in;
    s->call.n_out = n_out;
    s->call.n_var = n_var;
    s->call.in = s->operand;
    s->call.out = s->operand + n_in;
    s->call.var = s->operand + n_in + n_out;
    s->call.precision = c->exec->session->config.precision;
    s->call.step = c->exec->device_state[device].step_word;
    s->call.fault = (int64_t *)(void *)(c->exec->device_state[device].step_word + 1);
    p->n_step++;
    return s;
}

static void tp__do_nothing(const tp_call *k) { (void)k; }

/* Whether all outputs of this step have 0 elements. Such a step has nothing to do, although other dimensions may be long. */
static bool tp__has_empty_outputs(const tp__step *s)
{
    if (s->call.n_out < 1 || s->row->flags & (TP_OP_WRITES_VAR | TP_OP_COLLECTIVE | TP_OP_HOST)) return false;
    for (int i = 0; i < s->call.n_out; i++)
        if (tp_shape_size(&s->call.out[i].shape) != 0) return false;
    return true;
}

/* Finds the kernel that runs a step on its device. */
static tp_status tp__step_kernel(tp__step *s)
{
    tp_device *d = s->call.device;
    s->fn = tp__do_nothing;
    if (tp__has_empty_outputs(s)) return TP_OK;
    s->fn = d->find_kernel(d, s->row->name);
    if (s->fn) return TP_OK;
    if (!d->host && (s->row->flags & TP_OP_ANY_DEVICE)) {
        s->fn = s->row->naive_f32;
        return TP_OK;
    }
    if (!d->host)
        return tp_fail(TP_ERR_UNSUPPORTED, "device %s has no kernel for '%s' (node '%s')", d->name, s->row->name,
                       s->name);
    tp_dtype dtype = TP_F32;
    bool f64 = false, half_precision = false;
    for (int i = 0; i < s->call.n_in + s->call.n_out + s->call.n_var; i++) {
        f64 = f64 || s->operand[i].dtype == TP_F64;
        half_precision = half_precision || s->operand[i].dtype == TP_F16 || s->operand[i].dtype == TP_BF16;
    }
    if (s->row->flags & TP_OP_ANY_DTYPE) {
        s->fn = s->row->fast && (d->isa || !s->row->naive_f32) ? s->row->fast : s->row->naive_f32;
    } else {
        dtype = f64 ? TP_F64 : TP_F32;
        s->convert = TP__HAS_F64 && half_precision && s->row != &tp__op_cast;
        if (dtype == TP_F64) s->fn = s->row->naive_f64;
        else s->fn = d->isa && s->row->fast ? s->row->fast : s->row->naive_f32;
        s->needs_epilogue = TP__HAS_FUSION && s->fn == s->row->naive_f32 && (s->call.fused.bias || s->call.fused.act);
    }
    if (!s->fn)
        return tp_fail(TP_ERR_UNSUPPORTED, "'%s' cannot run on %s (node '%s'): its row has no %s; tp_cast the inputs",
                       s->row->name, tp_dtype_name(dtype), s->name, dtype == TP_F64 ? "naive_f64" : "naive_f32");
    return TP_OK;
}

/* Returns the scratch bytes that the kernel needs on this device. The row's rule is for CPU kernels. */
static size_t tp__step_scratch(const tp__step *s)
{
    tp_device *d = s->call.device;
    if (d->scratch) return d->scratch(d, &s->call);
    if (!s->row->scratch) return 0;
    tp_operand op[64];
    tp_call k = s->call;
    const int n = k.n_in + k.n_out + k.n_var;
    if (!TP__HAS_F64 || !s->convert || n > 64) return s->row->scratch(&k);
    for (int i = 0; i < n; i++) { /* the operands, half precision converted to float, as the float kernel gets them */
        op[i] = s->operand[i];
        if (op[i].dtype == TP_F16 || op[i].dtype == TP_BF16) op[i].dtype = TP_F32;
    }
    k.in = op;
    k.out = op + k.n_in;
    k.var = op + k.n_in + k.n_out;
    return s->row->scratch(&k);
}

static size_t tp__align64(size_t n) { return (n + 63) & ~(size_t)63; }
static size_t tp__operand_bytes(const tp_operand *o)
{
    return (size_t)tp_shape_size(&o->shape) * tp_dtype_size(o->dtype);
}

/* Completes a step whose operands are known: adds its kernel and scratch. */
static tp_status tp__step_finish(tp__compiler *c, tp__step *s)
{
    tp__plan *p = c->plan;
    const tp_status st = tp__step_kernel(s);
    if (st != TP_OK) return st;
    const int n = s->call.n_in + s->call.n_out + s->call.n_var;
    if (s->convert && n > 64) return tp_fail(TP_ERR_UNSUPPORTED, "'%s' has too many half-precision operands", s->name);
    tp_dtype stored[64];
    size_t converted_bytes = 0;
    for (int i = 0; i < n && s->convert; i++) { /* half-precision operands are converted, and the kernel gets float32 */
        stored[i] = s->operand[i].dtype;
        if (stored[i] != TP_F16 && stored[i] != TP_BF16) continue;
        s->operand[i].dtype = TP_F32;
        converted_bytes += tp__align64((size_t)tp_shape_size(&s->operand[i].shape) * 4);
    }
    s->call.scratch_bytes = tp__step_scratch(s);
    const uint64_t most = SIZE_MAX / 2 < TP__VALUE_MAX ? SIZE_MAX / 2 : TP__VALUE_MAX;
    if (s->call.scratch_bytes > most)
        return tp_fail(TP_ERR_ARG,
                       "'%s' asks for %llu bytes of scratch memory, which no memory has: see scratch of its row",
                       s->name, (unsigned long long)s->call.scratch_bytes);
    for (int i = 0; i < n && s->convert; i++) s->operand[i].dtype = stored[i];
    const size_t scratch = s->convert ? tp__align64(s->call.scratch_bytes) + converted_bytes : s->call.scratch_bytes;
    if (scratch) {
        s->scratch = tp__new_buffer(c, TP__IN_ARENA, (int64_t)scratch, s->device);
        if (s->scratch < 0) return tp__nomem_plan();
        tp__extend_lifetime(p, s->scratch, p->n_step - 1);
    }
    return TP_OK;
}

/* Applies bias and activation to the result of a naive loop. The channels are its last dimension. */
static void tp__finish_naive(const tp_call *k)
{
    const tp_operand *y = &k->out[0];
    const float *bias = k->fused.bias ? (const float *)k->in[k->fused.bias].data : NULL;
    const int64_t n = tp_shape_size(&y->shape), C = y->shape.dim[y->shape.ndim - 1];
    float *e = (float *)y->data;
    for (int64_t i = 0; i < n && e; i++) {
        if (bias) e[i] += bias[i % C];
        if (k->fused.act == TP_EPILOGUE_RELU && 0 > e[i]) e[i] = 0;
    }
}

/* Runs the float kernel of a step with half-precision operands: converts inputs before it and results after it. */
static void tp__run_converted(const tp__step *s)
{
    tp_operand op[64];
    char *converted = s->call.scratch ? (char *)s->call.scratch + tp__align64(s->call.scratch_bytes) : NULL;
    const int n_in = s->call.n_in, n = n_in + s->call.n_out + s->call.n_var;
    for (int i = 0; i < n && i < 64; i++) {
        op[i] = s->operand[i];
        if (!op[i].data || (op[i].dtype != TP_F16 && op[i].dtype != TP_BF16)) continue;
        const int64_t size = tp_shape_size(&op[i].shape);
        op[i].data = converted;
        op[i].dtype = TP_F32;
        if (size > 0) converted += tp__align64((size_t)size * 4);
        if (i < n_in || i >= n_in + s->call.n_out)
            tp_convert(op[i].data, TP_F32, s->operand[i].data, s->operand[i].dtype, size);
    }
    tp_call k = s->call;
    k.in = op;
    k.out = op + n_in;
    k.var = op + n_in + s->call.n_out;
    s->fn(&k);
    if (s->needs_epilogue) tp__finish_naive(&k);
    for (int i = n_in; i < n && i < 64; i++)
        if (op[i].data != s->operand[i].data)
            tp_convert(s->operand[i].data, s->operand[i].dtype, op[i].data, TP_F32, tp_shape_size(&op[i].shape));
}

static void tp__run_step(const tp__step *s)
{
    if (TP__HAS_F64 && s->convert) {
        tp__run_converted(s);
        return;
    }
    s->fn(&s->call);
    if (TP__HAS_FUSION && s->needs_epilogue) tp__finish_naive(&s->call);
}

/* -- 7. emit: replicas of values on other devices and in other precisions ------------------------------ */

/* The kernel of a copy step, for values that would be overwritten before they are read. */
static void tp__copy_kernel(const tp_call *k)
{
    const size_t bytes = (size_t)tp_shape_size(&k->out[0].shape) * tp_dtype_size(k->out[0].dtype);
    if (bytes) tp__copy_bytes(k->out[0].data, k->in[0].data, bytes);
}

static const tp_op tp__op_copy =
    TP__ROW("copy", "Copy", TP_OP_PURE | TP_OP_ANY_DTYPE, TP__IO(1, 1), TP__NO_ATTRS, tp__infer_same, NULL,
            TP__KERNELS(tp__copy_kernel, tp__copy_kernel, NULL), TP__FLOPS(NULL), TP__NO_ONNX);

/* Returns the buffer that holds value v on a device; -1: no op needs v, or it was not copied to that device. */
static int tp__buffer_on(const tp__compiler *c, int v, int device)
{
    const int root = tp__alias_root(c, v), home = c->value[root].buffer;
    if (!TP__HAS_DEVICES || home < 0 || c->plan->buffer[home].device == device) return home;
    for (const tp__replica *a = c->replicas[root]; a; a = a->next)
        if (a->device == device && !a->dtype) return a->buffer;
    return -1;
}

/* Returns the buffer that holds value v on a device in precision dtype; -1: none. */
static int tp__buffer_as(const tp__compiler *c, int v, int device, tp_dtype dtype)
{
    const int root = tp__alias_root(c, v);
    if (!TP__HAS_F64 || c->value[root].type.dtype == dtype) return tp__buffer_on(c, v, device);
    for (const tp__replica *a = c->replicas[root]; a; a = a->next)
        if (a->device == device && a->dtype == dtype) return a->buffer;
    return -1;
}

/* Adds a buffer for a replica of a value; -1: out of memory. */
static int tp__add_replica(tp__compiler *c, int root, tp__place place, int64_t bytes, int device, tp_dtype dtype)
{
    const int b = tp__new_buffer(c, place, bytes, device);
    tp__replica *a = b >= 0 ? (tp__replica *)tp_arena_alloc(&c->arena, sizeof *a) : NULL;
    if (!a) return -1;
    a->device = device;
    a->buffer = b;
    a->dtype = dtype;
    a->next = c->replicas[root];
    c->replicas[root] = a;
    return b;
}

/* Makes value v readable on a device for the next step. It gets one replica per device: a constant is stored there, a fed
 * value is uploaded there too, and for any other value a copy step is added. */
static tp_status tp__replicate_on(tp__compiler *c, int v, int device, const char *name)
{
    tp__plan *p = c->plan;
    const int root = tp__alias_root(c, v), home = c->value[root].buffer;
    if (!TP__HAS_DEVICES || home < 0 || tp__buffer_on(c, root, device) >= 0) return TP_OK;
    const bool constant = p->buffer[home].place == TP__IN_CONST;
    const tp__place place = constant ? TP__IN_CONST : TP__IN_ARENA;
    const int b = tp__add_replica(c, root, place, p->buffer[home].bytes, device, TP_DTYPE_UNSET);
    if (b < 0) return tp__nomem_plan();
    if (constant) return tp__constant_data(c, b, p->buffer[home].host_data);
    if (c->fed[root] >= 0) {
        p->buffer[b].first = p->buffer[b].last = -1;
        return tp__add_upload(c, c->fed[root], b);
    }
    tp__step *s = tp__add_step(c, &tp__op_copy, name, 1, 1, 0, device);
    if (!s) return tp__nomem_plan();
    s->from = p->buffer[home].device;
    s->operand[0] = s->operand[1] = tp__operand(&c->value[root].type);
    s->buffer[0] = home;
    s->buffer[1] = b;
    tp__extend_lifetime(p, home, p->n_step - 1);
    tp__extend_lifetime(p, b, p->n_step - 1);
    p->info.n_copies++;
    const bool via_host = !p->device[device]->host && !p->device[s->from]->host && !p->device[device]->copy_from;
    if (via_host && (size_t)p->buffer[b].bytes > p->room_bytes) p->room_bytes = (size_t)p->buffer[b].bytes;
    return TP_OK;
}

static tp_status tp__node_on_device(tp__compiler *c, const tp_node *n, int device)
{
    return tp__replicate_on(c, tp__value_of(c, n), device, n->op->name);
}

/* Makes node n readable on a device in precision dtype. It gets one replica per device and precision, by a step that
 * converts it. */
static tp_status tp__node_as_dtype(tp__compiler *c, const tp_node *n, int device, tp_dtype dtype)
{
    tp__plan *p = c->plan;
    const int v = tp__value_of(c, n), root = tp__alias_root(c, v);
    const tp_status st = tp__node_on_device(c, n, device);
    if (!TP__HAS_F64) return st;
    const int from = tp__buffer_on(c, v, device);
    if (st != TP_OK || from < 0 || c->value[root].type.dtype == dtype || tp__buffer_as(c, v, device, dtype) >= 0)
        return st;
    tp_type t = c->value[root].type;
    tp__cast_attrs *attrs = (tp__cast_attrs *)tp_arena_alloc(&p->arena, sizeof *attrs);
    if (!attrs) return tp__nomem_plan();
    attrs->from = t.dtype;
    attrs->to = t.dtype = dtype;
    const int b = tp__add_replica(c, root, TP__IN_ARENA, tp__bytes_of(&t), device, dtype);
    tp__step *s = b >= 0 ? tp__add_step(c, &tp__op_cast, n->op->name, 1, 1, 0, device) : NULL;
    if (!s) return tp__nomem_plan();
    s->call.attrs = attrs;
    s->operand[0] = tp__operand(&c->value[root].type);
    s->operand[1] = tp__operand(&t);
    s->buffer[0] = from;
    s->buffer[1] = b;
    tp__extend_lifetime(p, from, p->n_step - 1);
    tp__extend_lifetime(p, b, p->n_step - 1);
    return tp__step_kernel(s);
}

/* Adds a step that copies value v from buffer `from` to a new buffer. Later steps read v there. */
static tp_status tp__copy_out(tp__compiler *c, int v, int from, const char *name, int device)
{
    tp__plan *p = c->plan;
    tp__step *s = tp__add_step(c, &tp__op_copy, name, 1, 1, 0, device);
    const int b = s ? tp__new_buffer(c, TP__IN_ARENA, tp__bytes_of(&c->value[v].type), device) : -1;
    if (b < 0) return tp__nomem_plan();
    s->operand[0] = s->operand[1] = tp__operand(&c->value[v].type);
    s->buffer[0] = from;
    s->buffer[1] = c->value[v].buffer = b;
    tp__extend_lifetime(p, from, p->n_step - 1);
    tp__extend_lifetime(p, b, p->n_step - 1);
    return tp__step_kernel(s);
}

/* -- 7. emit: a group of element-wise ops as one step -------------------------------------------------- */

typedef struct tp__chain_builder {
    const tp__group *group;
    tp__program *prog;
    int device;
    /* values of the plan that are the chain's operands and results */
    int external_value[TP__MAX_EXTERNAL], out_value[TP__MAX_EXTERNAL];
    /* for each op of the chain, the last op of the chain that reads its result; -1: none */
    int last_use[TP__MAX_INSTR];
    int reg_of[TP__MAX_INSTR]; /* for each op of the chain, the register of its result */
    /* one register is always free: see tp__chain_fits */
    bool reg_busy[TP__MAX_REG];
} tp__chain_builder;

static tp_block_fn tp__block_of(const tp_op *row, tp_dtype dtype)
{
    switch (dtype) {
    case TP_F32: return row->block_f32;
    case TP_F64: return row->block_f64;
    case TP_I32: return row->block_i32;
    case TP_I64: return row->block_i64;
    default: return row->block_f32; /* rows that work on bytes have their byte function in block_f32 */
    }
}

/* Collapses the dimensions of an operand whose strides are known: see tp__external. */
static void tp__external_collapse(const tp_shape *full, tp__external *e)
{
    int n = 0; /* from the last dimension to the first, then turned round */
    for (int d = full->ndim - 1; d >= 0; d--) {
        if (full->dim[d] == 1) continue;
        if (n && e->stride[d] == e->step[n - 1] * e->dim[n - 1]) {
            e->dim[n - 1] *= full->dim[d];
        } else {
            e->dim[n] = full->dim[d];
            e->step[n++] = e->stride[d];
        }
    }
    for (; n < 2; n++) e->dim[n] = 1, e->step[n] = 0;
    e->n_dim = n;
    for (int i = 0; i < n / 2; i++) {
        const int64_t dim = e->dim[i], step = e->step[i];
        e->dim[i] = e->dim[n - 1 - i], e->step[i] = e->step[n - 1 - i];
        e->dim[n - 1 - i] = dim, e->step[n - 1 - i] = step;
    }
    /* the last dimension repeats one value; or the dimension before it repeats a row of the last one */
    if (e->step[n - 1] == 0) e->tile = 1, e->repeats = e->dim[n - 1];
    else if (e->step[n - 2] == 0) e->tile = e->dim[n - 1], e->repeats = e->dim[n - 1] * e->dim[n - 2];
    else e->tile = 0;
}

/* Finds how an operand of shape `s` is broadcast to the result shape. */
static void tp__external_layout(const tp_shape *full, const tp_shape *s, tp__external *e)
{
    int64_t stride = 1, dims[TP_MAX_DIMS];
    const int lead = full->ndim - s->ndim;
    for (int d = full->ndim - 1; d >= 0; d--) {
        dims[d] = d < lead ? 1 : s->dim[d - lead];
        e->stride[d] = dims[d] == 1 ? 0 : stride;
        stride *= dims[d];
    }
    tp__external_collapse(full, e);
    if (stride == tp_shape_size(full)) {
        e->access = TP__DIRECT;
        return;
    }
    if (stride == 1) {
        e->access = TP__SPLAT;
        return;
    }
    /* whether the operand has the full dimensions in one range [a, b), and dimensions of 1 outside of it */
    int a = 0, b = full->ndim;
    while (a < b && (dims[a] == 1)) a++;
    while (b > a && (dims[b - 1] == 1)) b--;
    bool contiguous = true;
    for (int d = a; d < b; d++) contiguous = contiguous && dims[d] == full->dim[d];
    if (!contiguous) {
        e->access = TP__STRIDED;
        return;
    }
    e->inner = 1;
    for (int d = b; d < full->ndim; d++) e->inner *= full->dim[d];
    e->period = stride;
    e->access = e->inner == 1 ? TP__INNER : TP__OUTER;
}

/* Chooses the length of a chain's blocks: a multiple of as many tiles of broadcast operands as possible, so that these are filled once for
 * many blocks. */
static void tp__chain_blocks(tp__program *p)
{
    int64_t periods = 1; /* the block is a multiple of it */
    for (int e = 0; e < p->n_external; e++) {
        int64_t a = periods, b = p->external[e].tile; /* a becomes their greatest common divisor */
        if (b == 0 || p->external[e].repeats < 2 * TP__FUSE_BLOCK) continue;
        while (b) {
            const int64_t rest = a % b;
            a = b, b = rest;
        }
        if (periods / a <= TP__FUSE_BLOCK / p->external[e].tile) periods = periods / a * p->external[e].tile;
    }
    p->block = TP__FUSE_BLOCK / periods * periods;
}

/* Sets operand i of op m of a chain: the result of an earlier op of the chain, or an operand of the whole chain. */
static tp_status tp__chain_operand(tp__compiler *c, tp__chain_builder *ch, const tp_operation *o, int m, int i)
{
    tp__program *prog = ch->prog;
    tp__instr *ins = &prog->instr[m];
    const int v = tp__value_of(c, o->in[i]), root = tp__alias_root(c, v);
    int member = -1, e = 0;
    for (int k = 0; k < m; k++)
        if (c->first_value[ch->group->op[k]] == root) member = k;
    if (member >= 0 && tp_shape_equal(&c->value[v].type.shape, &prog->shape)) {
        ins->from[i] = TP__FROM_REG; /* the index of an op in the chain; tp__chain_result replaces it by a register */
        ins->in[i] = member;
        ch->last_use[member] = m;
        return TP_OK;
    }
    while (e < prog->n_external && ch->external_value[e] != v) e++;
    if (e == prog->n_external) {
        const tp_status st = tp__node_on_device(c, o->in[i], ch->device);
        if (st != TP_OK) return st;
        ch->external_value[e] = v;
        tp__external_layout(&prog->shape, &c->value[v].type.shape, &prog->external[e]);
        prog->external[e].size = (int)tp_dtype_size(c->value[v].type.dtype);
        prog->external[e].reg = -1;
        prog->n_external++;
    }
    ins->from[i] = TP__FROM_EXTERNAL;
    ins->in[i] = e;
    return TP_OK;
}

/* Adds op m of a group to the program of its chain: its functions and its operands. */
static tp_status tp__chain_member(tp__compiler *c, tp__chain_builder *ch, int m)
{
    const tp_operation *o = c->op[ch->group->op[m]];
    tp_device *d = c->plan->device[ch->device];
    tp__instr *ins = &ch->prog->instr[m];
    ins->row = o->row;
    ins->attrs = o->attrs;
    ins->n_in = o->n_in;
    const tp_dtype dtype = c->value[tp__value_of(c, o->in[o->n_in - 1])].type.dtype;
    ins->block = tp__block_of(o->row, dtype);
    bool all_f32 = dtype == TP_F32;
    for (int i = 0; i < o->n_in; i++) all_f32 = all_f32 && c->value[tp__value_of(c, o->in[i])].type.dtype == TP_F32;
    ins->vec = all_f32 && o->row->vec && d->host ? o->row->vec(d) : NULL;
    if (!ins->block && !ins->vec)
        return tp_fail(TP_ERR_DTYPE,
                       "'%s' (%s) does not work on %s: an element-wise row needs a block function for it (block_f32, "
                       "block_f64, block_i32, block_i64)",
                       o->name, o->row->name, tp_dtype_name(dtype));
    ins->dtype = dtype;
    ins->out_dtype = c->value[c->first_value[o->id]].type.dtype;
    ins->out_size = (int)tp_dtype_size(ins->out_dtype);
    tp_status st = TP_OK;
    for (int i = 0; i < o->n_in && st == TP_OK; i++) st = tp__chain_operand(c, ch, o, m, i);
    return st;
}

/* Whether value v, or a view of v, is fetched, read by an op outside the chain, or read in another shape. */
static bool tp__is_read_outside(const tp__compiler *c, const tp__chain_builder *ch, int v)
{
    int stack[64], n = 0;
    if (c->fetched[v]) return true;
    stack[n++] = v;
    while (n > 0) {
        const int x = stack[--n];
        for (int u = c->use_head[x]; u >= 0; u = c->use_next[u]) {
            const int user = c->use_op[u], out = c->first_value[user];
            if (c->alias[out] == x && n < 64) {
                if (c->fetched[out]) return true;
                stack[n++] = out;
            } else if (!tp__is_member(ch->group, user) || !tp_shape_equal(&c->value[x].type.shape, &ch->prog->shape))
                return true;
        }
    }
    return false;
}

/* Chooses where the result of op m of a chain is stored: in memory if an op outside the chain reads it, else in a
 * register. */
static void tp__chain_result(const tp__compiler *c, tp__chain_builder *ch, int m)
{
    tp__program *prog = ch->prog;
    tp__instr *ins = &prog->instr[m];
    const int v = c->first_value[ch->group->op[m]];
    for (int i = 0; i < ins->n_in; i++)
        if (ins->from[i] ==
            TP__FROM_REG) { /* in[i] is the index of an op in the chain: replace it by that op's register or output */
            const tp__instr *from = &prog->instr[ins->in[i]];
            const int k = ins->in[i];
            ins->from[i] = from->to;
            ins->in[i] = from->to == TP__FROM_REG ? ch->reg_of[k] : from->out;
        }
    if (ch->last_use[m] < 0 || (!c->repeated[ch->group->op[m]] && tp__is_read_outside(c, ch, v))) {
        ins->to = TP__FROM_OUT;
        ins->out = prog->n_out;
        prog->out_size[prog->n_out] = ins->out_size;
        ch->out_value[prog->n_out++] = v;
    } else {
        int r = 0;
        while (ch->reg_busy[r]) r++;
        ch->reg_busy[r] = true;
        ch->reg_of[m] = r;
        ins->to = TP__FROM_REG;
        ins->out = r;
        if (r >= prog->n_reg) prog->n_reg = r + 1;
    }
    for (int k = 0; k < m; k++) /* free the registers that m reads last; m's own result is in another one */
        if (ch->last_use[k] == m && prog->instr[k].to == TP__FROM_REG) ch->reg_busy[ch->reg_of[k]] = false;
    prog->n_instr++;
}

static tp_status tp__emit_group(tp__compiler *c, const tp__group *group)
{
    tp__plan *p = c->plan;
    tp__chain_builder ch;
    tp_status st = TP_OK;
    memset(&ch, 0, sizeof ch);
    ch.group = group;
    ch.device = tp__device_of(c, c->op[group->op[0]]);
    tp__program *prog = ch.prog = (tp__program *)tp_arena_alloc(&p->arena, sizeof *prog);
    if (!prog) return tp__nomem_plan();
    prog->instr = (tp__instr *)tp_arena_alloc(&p->arena, (size_t)group->n * sizeof *prog->instr);
    size_t n_operand = 0; /* each may be an external one */
    for (int m = 0; m < group->n; m++) n_operand += (size_t)c->op[group->op[m]]->n_in;
    prog->external = (tp__external *)tp_arena_alloc(
        &p->arena, (n_operand < TP__MAX_EXTERNAL ? n_operand : TP__MAX_EXTERNAL) * sizeof *prog->external);
    prog->out_size = (int *)tp_arena_alloc(&p->arena, (size_t)group->n * sizeof *prog->out_size);
    if (!prog->instr || !prog->external || !prog->out_size) return tp__nomem_plan();
    prog->shape = c->value[c->first_value[group->op[0]]].type.shape;
    prog->n = tp_shape_size(&prog->shape);
    for (int m = 0; m < group->n; m++) ch.last_use[m] = -1;
    for (int m = 0; m < group->n && st == TP_OK; m++) st = tp__chain_member(c, &ch, m);
    if (st != TP_OK) return st;
    for (int e = 0; e < prog->n_external; e++)
        if (prog->external[e].access != TP__DIRECT) {
            ch.reg_busy[prog->n_reg] = true;
            prog->external[e].reg = prog->n_reg++;
        }
    for (int m = 0; m < group->n; m++) tp__chain_result(c, &ch, m);
    tp__chain_blocks(prog);
    const char *name = c->op[group->op[group->n - 1]]->name;
    tp__step *s = tp__add_step(c, &tp__op_fused, name, prog->n_external, prog->n_out, 0, ch.device);
    if (!s) return tp__nomem_plan();
    const int at = p->n_step - 1;
    s->call.attrs = prog;
    for (int e = 0; e < prog->n_external; e++) {
        s->operand[e] = tp__operand(&c->value[ch.external_value[e]].type);
        s->buffer[e] = tp__buffer_on(c, ch.external_value[e], ch.device);
        tp__extend_lifetime(p, s->buffer[e], at);
    }
    for (int k = 0; k < prog->n_out; k++) {
        const int v = ch.out_value[k],
                  buffer = tp__new_buffer(c, TP__IN_ARENA, tp__bytes_of(&c->value[v].type), ch.device);
        if (buffer < 0) return tp__nomem_plan();
        s->operand[prog->n_external + k] = tp__operand(&c->value[v].type);
        s->buffer[prog->n_external + k] = c->value[v].buffer = buffer;
        tp__extend_lifetime(p, buffer, at);
    }
    for (int m = 0; m < group->n; m++) /* a repeated op counts once */
        p->info.n_fused += c->folded[group->op[m]] || &c->groups[c->group[group->op[m]]] == group;
    return tp__step_kernel(s);
}

/* -- 7. emit: an all-reduce ---------------------------------------------------------------------------- */

/* Whether the vendor's library (NCCL) computes this sum. Each value must be on a device of its own. */
static tp_status tp__sum_by_vendor(const tp__compiler *c, const tp_operation *o, bool *by_vendor)
{
    const tp__plan *p = c->plan;
    *by_vendor = false;
    if (!c->exec->session->config.nccl_all_reduce || o->n_in < 2) return TP_OK;
    for (int i = 0; i < o->n_in; i++) {
        if (p->device[tp__node_on(c, o->in[i])]->host) return TP_OK;
        for (int k = 0; k < i; k++)
            if (tp__node_on(c, o->in[k]) == tp__node_on(c, o->in[i])) return TP_OK;
    }
    for (int i = 0; i < o->n_in; i++) {
        const tp_device *d = p->device[tp__node_on(c, o->in[i])];
        if (!d->all_reduce)
            return tp_fail(TP_ERR_UNSUPPORTED,
                           "'%s' is to be summed by NCCL, as .nccl_all_reduce says, but %s was built "
                           "without it",
                           o->name, d->name);
    }
    *by_vendor = true;
    return TP_OK;
}

/* Emits one all-reduce. If all devices are the host's, one step computes all sums, because these devices share memory.
 * Otherwise each device adds up copies of all values, in the same order and so with the same bits. With nccl_all_reduce
 * all devices run one joint step, which gives each device a result, even if no op reads it. */
static tp_status tp__emit_all_reduce(tp__compiler *c, const tp_operation *o)
{
    tp__plan *p = c->plan;
    const int n = o->n_in, v0 = c->first_value[o->id];
    bool host = true, by_vendor = false;
    tp_status st = tp__sum_by_vendor(c, o, &by_vendor);
    if (st != TP_OK) return st;
    for (int i = 0; i < n; i++) host = host && p->device[tp__node_on(c, o->in[i])]->host;
    /* one step computes all sums, and each of its inputs is read on its own device */
    const bool single_step = host || by_vendor;
    for (int first = 0; first < n; first++) {
        const int device = tp__node_on(c, o->in[first]);
        bool done = single_step && first > 0, is_used = false;
        for (int i = 0; i < n; i++) {
            const bool on_device = single_step || tp__node_on(c, o->in[i]) == device;
            done = done || (on_device && i < first);
            is_used = is_used || (on_device && c->fed[v0 + i] < 0 && (c->fetched[v0 + i] || c->use_head[v0 + i] >= 0));
        }
        if (done || !is_used) continue;
        for (int i = 0; i < n && st == TP_OK; i++)
            st = tp__node_as_dtype(c, o->in[i], single_step ? tp__node_on(c, o->in[i]) : device, o->in[i]->dtype);
        if (st != TP_OK) return st;
        tp__step *s = tp__add_step(c, o->row, o->name, n, n, 0, device);
        if (!s) return tp__nomem_plan();
        s->call.attrs = o->attrs;
        s->is_collective = by_vendor;
        for (int i = 0; i < n; i++) {
            const int in = tp__value_of(c, o->in[i]), on = tp__node_on(c, o->in[i]);
            s->operand[i] = tp__operand(&c->value[in].type);
            s->operand[i].dtype = o->in[i]->dtype;
            s->buffer[i] = tp__buffer_as(c, in, single_step ? on : device, o->in[i]->dtype);
            tp__extend_lifetime(p, s->buffer[i], p->n_step - 1);
            const tp_type *sum_type = tp__made_type(c, v0 + i);
            s->operand[n + i] = tp__operand(sum_type);
            const bool fed = c->fed[v0 + i] >= 0, dead = fed || (!c->fetched[v0 + i] && c->use_head[v0 + i] < 0);
            if (!by_vendor && (dead || (!host && on != device))) continue;
            s->buffer[n + i] = tp__new_buffer(c, TP__IN_ARENA, tp__bytes_of(sum_type), on);
            if (s->buffer[n + i] < 0) return tp__nomem_plan();
            if (!fed) c->value[v0 + i].buffer = s->buffer[n + i];
            tp__extend_lifetime(p, s->buffer[n + i], p->n_step - 1);
        }
        if ((st = tp__step_finish(c, s)) != TP_OK) return st;
    }
    return TP_OK;
}

/* -- 7. emit: any other op, with what is fused into it ------------------------------------------------- */

/* Returns the plan's value for output i of o's step; -1: no op reads it. */
static int tp__step_value(const tp__compiler *c, const tp_operation *o, int i)
{
    const tp__fusion *f = &c->fusion[o->id];
    if (i == o->n_out) return f->extra_op ? c->first_value[f->extra_op->id] : -1;
    return i == 0 && f->result ? c->first_value[f->result->id] : c->first_value[o->id] + i;
}

/* Sets the inputs of step s of op o. They are on the step's device already. */
static void tp__bind_inputs(tp__compiler *c, tp__step *s, const tp_operation *o, tp_node *const *in)
{
    for (int i = 0; i < s->call.n_in; i++) {
        const int v = tp__value_of(c, in[i]);
        const tp_type *t = &c->value[v].type;
        s->operand[i] = tp__operand(t);
        s->operand[i].dtype = tp__operand_precision(c, o, in[i], i);
        if (i < o->n_in && tp__shape_only(o->row, i)) continue;
        if (i > 0 && i == s->call.fused.norm) {
            const tp_shape norm_shape = {2, {3, t->shape.dim[t->shape.ndim - 1]}};
            s->operand[i].shape = norm_shape;
        }
        s->buffer[i] = tp__buffer_as(c, v, s->device, s->operand[i].dtype);
        tp__extend_lifetime(c->plan, s->buffer[i], c->plan->n_step - 1);
    }
}

/* Sets the outputs of a step. A view that is written is the variable's own memory: see tp__bind_variables. */
static tp_status tp__bind_outputs(tp__compiler *c, tp__step *s, const tp_operation *o)
{
    const bool in_var = tp__is_writer(o) && (o->row->flags & TP_OP_VIEW);
    for (int i = 0; i < s->call.n_out; i++) {
        const int v = tp__step_value(c, o, i);
        if (v < 0) continue;
        const tp_type *out_type = tp__made_type(c, v);
        s->operand[s->call.n_in + i] = tp__operand(out_type);
        if (i == 0 && in_var) continue;
        const bool unused = c->fed[v] >= 0 || (!c->fetched[v] && c->use_head[v] < 0);
        if ((i > 0 || c->fusion[o->id].has_extra_output) && unused) continue;
        const int64_t bytes = i == 0 && s->call.fused.elided ? 3 * 4 * out_type->shape.dim[3] : tp__bytes_of(out_type);
        const int b = tp__new_buffer(c, TP__IN_ARENA, bytes, s->device);
        if (b < 0) return tp__nomem_plan();
        if (c->fed[v] < 0) c->value[v].buffer = b;
        s->buffer[s->call.n_in + i] = b;
        tp__extend_lifetime(c->plan, b, c->plan->n_step - 1);
    }
    return TP_OK;
}

/* Sets the variables that a step updates. */
static tp_status tp__bind_variables(tp__compiler *c, tp__step *s, const tp_operation *o, tp_variable *const *var)
{
    const bool in_var = tp__is_writer(o) && (o->row->flags & TP_OP_VIEW);
    const int first = s->call.n_in + s->call.n_out;
    for (int i = 0; i < s->call.n_var; i++) {
        const tp_type t = {var[i]->dtype, var[i]->shape};
        const int b = tp__new_buffer(c, TP__IN_VAR, tp__bytes_of(&t), s->device);
        if (b < 0) return tp__nomem_plan();
        c->plan->buffer[b].var = var[i];
        s->operand[first + i] = tp__operand(&t);
        s->buffer[first + i] = b;
        tp__extend_lifetime(c->plan, b, c->plan->n_step - 1);
        if (i == 0 && in_var) c->value[c->first_value[o->id]].buffer = s->buffer[s->call.n_in] = b;
    }
    return TP_OK;
}

/* Emits one op, with what is fused into it, as a step. */
static tp_status tp__emit_op(tp__compiler *c, const tp_operation *o)
{
    tp__plan *p = c->plan;
    const tp__fusion *f = &c->fusion[o->id];
    const tp_op *row = f->row ? f->row : o->row;
    tp_node *const *in = f->in ? f->in : o->in;
    tp_variable *const *var = f->var ? f->var : o->var;
    const int device = tp__device_of(c, o), n_in = f->in ? f->n_in : o->n_in, n_var = f->var ? f->n_var : o->n_var;
    const int n_out = f->row ? row->n_out : o->n_out + f->has_extra_output;
    tp_status st = TP_OK;
    for (int i = 0; i < n_in && st == TP_OK; i++) {
        if (i < o->n_in && tp__shape_only(o->row, i)) continue;
        const tp_variable *memory = n_var > 1 ? tp__memory_of(c, in[i]) : NULL;
        for (int k = 0; k < n_var && memory; k++) /* copy an input that the step overwrites before reading it */
            if (memory == var[k]) {
                const int root = tp__alias_root(c, tp__value_of(c, in[i])), from = c->value[root].buffer;
                if (p->buffer[from].place == TP__IN_VAR) st = tp__copy_out(c, root, from, o->name, device);
                break;
            }
        if (st == TP_OK) st = tp__node_as_dtype(c, in[i], device, tp__operand_precision(c, o, in[i], i));
    }
    if (st != TP_OK) return st;
    tp__step *s = tp__add_step(c, row, o->name, n_in, n_out, n_var, device);
    if (!s) return tp__nomem_plan();
    s->call.attrs = f->attrs ? f->attrs : o->attrs;
    s->call.user = o->user;
    s->call.key = tp_random_key(c->g->seed, o->stream);
    s->call.fault_id = (f->fault_op ? f->fault_op->id : o->id) + 1;
    s->call.fused = f->fused;
    s->n_rule = f->n_rule;
    for (int i = 0; i < f->n_rule; i++) s->rule[i] = f->rule[i];
    p->info.n_fused += f->n_absorbed;
    tp__bind_inputs(c, s, o, in);
    if ((st = tp__bind_outputs(c, s, o)) != TP_OK || (st = tp__bind_variables(c, s, o, var)) != TP_OK) return st;
    return tp__step_finish(c, s);
}

/* -- 7. emit: the whole order -------------------------------------------------------------------------- */

static tp_status tp__run_fault(const tp_graph *g, int64_t id, int64_t value, const tp_feed *feeds, int n_feeds);

/* 5. Folds an op: runs the last step now and turns its results into constants. Its operands are constants already. */
static tp_status tp__fold_step(tp__compiler *c)
{
    tp__plan *p = c->plan;
    tp__step *s = &p->step[p->n_step - 1];
    tp_device *d = s->call.device;
    for (int i = 0; i < s->call.n_in; i++) s->operand[i].data = s->buffer[i] >= 0 ? p->buffer[s->buffer[i]].data : NULL;
    for (int i = 0; i < s->call.n_out; i++) {
        const int b = s->buffer[s->call.n_in + i];
        if (b < 0) continue;
        void *data = tp__constant_memory(p, s->device, (size_t)p->buffer[b].bytes);
        if (!data) return tp__nomem_plan();
        p->buffer[b].place = TP__IN_CONST;
        p->buffer[b].data = data;
        p->buffer[b].host_data = data; /* only steps on devices of the host are folded */
        s->operand[s->call.n_in + i].data = data;
    }
    void *scratch = NULL;
    if (s->scratch >= 0) {
        scratch = d->alloc(d, (size_t)p->buffer[s->scratch].bytes);
        if (!scratch) return tp__nomem_plan();
        p->buffer[s->scratch].place = TP__IN_NOTHING;
    }
    s->call.scratch = scratch;
    int64_t fault[2] = {0, 0};
    tp__step step = *s;
    step.call.fault = fault;
    const unsigned mode = tp__float_mode_enter();
    tp__run_step(&step);
    tp__float_mode_leave(mode);
    if (scratch) d->free(d, scratch);
    p->n_step--;
    p->info.n_folded++;
    return fault[0] ? tp__run_fault(c->g, fault[0], fault[1], NULL, 0) : TP_OK;
}

static tp_status tp__emit_folded(tp__compiler *c, const tp_operation *o)
{
    tp_status st;
    if (TP__HAS_FUSION && tp__fusable(c, o)) {
        tp__group group;
        memset(&group, 0, sizeof group);
        group.op[0] = o->id;
        group.n = 1;
        st = tp__emit_group(c, &group);
        c->plan->info.n_fused -= 1;
    } else {
        st = tp__emit_op(c, o);
    }
    return st == TP_OK ? tp__fold_step(c) : st;
}

/* Copies the value of op o, which is in the memory of a variable, if it is fetched and the variable is written later. */
static tp_status tp__copy_fetched_variable(tp__compiler *c, const tp_operation *o, int at)
{
    const int v = c->first_value[o->id];
    if (!c->fetched[v] || !tp__written_between(c, o->var[0], at, c->n_order)) return TP_OK;
    return tp__copy_out(c, v, c->value[v].buffer, o->name, tp__device_of(c, o));
}

/* The value of a read_after is the variable's memory itself. */
static tp_status tp__emit_read_after(tp__compiler *c, const tp_operation *o, int at)
{
    const int v = c->first_value[o->id];
    const int b = tp__new_buffer(c, TP__IN_VAR, tp__bytes_of(&c->value[v].type), tp__device_of(c, o));
    if (b < 0) return tp__nomem_plan();
    c->plan->buffer[b].var = o->var[0];
    c->value[v].buffer = b;
    return tp__copy_fetched_variable(c, o, at);
}

/* Emits a view that is no alias: its operand is on another device, or will be overwritten. */
static tp_status tp__emit_view(tp__compiler *c, const tp_operation *o)
{
    const int v = c->first_value[o->id], device = tp__device_of(c, o), from = tp__value_of(c, o->in[0]);
    if (tp__node_on(c, o->in[0]) == device)
        return tp__copy_out(c, v, c->value[tp__alias_root(c, from)].buffer, o->name, device);
    const tp_status st = tp__node_on_device(c, o->in[0], device); /* a replica never uses the memory of a variable */
    c->value[v].buffer = tp__buffer_on(c, from, device);
    return st;
}

/* 7. Emits op o, whose step runs at place k of the order. A group runs at the place of its last member. */
static tp_status tp__emit(tp__compiler *c, const tp_operation *o, int k)
{
    const int v = c->first_value[o->id];
    if ((o->row->flags & TP_OP_SOURCE) || (c->fed[v] >= 0 && o->n_out == 1) || c->alias[v] >= 0) return TP_OK;
    if (o->row == &tp__op_read_after) return tp__emit_read_after(c, o, k);
    if (c->folded[o->id]) return tp__emit_folded(c, o);
    if (TP__HAS_FUSION && c->group[o->id] >= 0) {
        const tp__group *g = &c->groups[c->group[o->id]];
        return g->op[g->n - 1] == o->id ? tp__emit_group(c, g) : TP_OK;
    }
    if (o->row == &tp__op_group) return TP_OK; /* this op only orders other ops, so it has no step */
    if (TP__HAS_DEVICES && o->row == &tp__op_all_reduce) return tp__emit_all_reduce(c, o);
    if (!o->row->naive_f32 && (o->row->flags & TP_OP_VIEW)) return tp__emit_view(c, o);
    const tp_status st = tp__emit_op(c, o);
    if (st == TP_OK && tp__is_writer(o) && (o->row->flags & TP_OP_VIEW)) return tp__copy_fetched_variable(c, o, k);
    return st;
}

static tp_status tp__plan_emit(tp__compiler *c)
{
    tp_status st = TP_OK;
    for (int k = 0; k < c->n_order; k++)
        for (int id = c->first_at_place[c->order[k]]; id >= 0 && st == TP_OK; id = c->next_at_place[id])
            st = tp__emit(c, c->op[id], k);
    return st;
}

/* Chooses the buffers of the fetched values, which stay until the end of the run. Variables that this plan writes are
 * copied at its start; half precision is converted to float32. */
static tp_status tp__plan_fetches(tp__compiler *c)
{
    tp__plan *p = c->plan;
    tp_status st = TP_OK;
    for (int i = 0; i < p->n_fetch && st == TP_OK; i++) {
        const int b = c->value[tp__alias_root(c, tp__value_of(c, p->fetch[i]))].buffer;
        if (b >= 0 && tp__is_stored_half(c, p->fetch[i]))
            st = tp__node_as_dtype(c, p->fetch[i], p->buffer[b].device, TP_F32);
    }
    const int n_before = p->n_step;
    for (int i = 0; i < p->n_fetch && st == TP_OK; i++) {
        const int v = tp__value_of(c, p->fetch[i]);
        const tp_variable *var = c->fed[v] >= 0 ? NULL : tp_node_variable(p->fetch[i]);
        int b = c->value[tp__alias_root(c, v)].buffer;
        if (var && c->writes[var->id] && p->buffer[b].place == TP__IN_VAR) {
            st = tp__copy_out(c, v, b, p->fetch[i]->op->name, p->buffer[b].device);
            if (st != TP_OK) return st;
            b = c->value[v].buffer;
            p->buffer[b].first = -1;
        }
        p->fetch_type[i] = c->value[v].type;
        if (b >= 0 && tp__is_stored_half(c, p->fetch[i])) {
            b = tp__buffer_as(c, v, p->buffer[b].device, TP_F32);
            p->fetch_type[i].dtype = TP_F32;
        }
        p->fetch_buffer[i] = b;
        if (b >= 0) {
            int root = b;
            while (p->buffer[root].merged >= 0) root = p->buffer[root].merged;
            p->buffer[root].last = INT_MAX;
            if (p->buffer[root].first == INT_MAX) p->buffer[root].first = -1;
        }
    }
    const int n_copy = p->n_step - n_before;
    if (st != TP_OK || n_copy == 0) return st;
    /* move the copy steps to the front of the plan, and renumber the lifetimes of buffers */
    tp__step *copies = (tp__step *)tp_arena_alloc(&c->arena, (size_t)n_copy * sizeof *copies);
    if (!copies) return tp__nomem_plan();
    memcpy(copies, p->step + n_before, (size_t)n_copy * sizeof *copies);
    memmove(p->step + n_copy, p->step, (size_t)n_before * sizeof *copies);
    memcpy(p->step, copies, (size_t)n_copy * sizeof *copies);
    for (int b = 0; b < p->n_buffer; b++) {
        if (p->buffer[b].first >= 0 && p->buffer[b].first != INT_MAX) p->buffer[b].first += n_copy;
        if (p->buffer[b].last >= 0 && p->buffer[b].last != INT_MAX) p->buffer[b].last += n_copy;
    }
    return TP_OK;
}

/* -- 8. place: results over operands that are read for the last time, buffers in an arena by lifetime -- */

/* Puts result `ob` of step i into the memory of operand q. Possible only if step i is the last to read that memory, and
 * reads it only as operand q. */
static bool tp__write_over_operand(tp__plan *p, int i, int ob, int q)
{
    const tp__step *s = &p->step[i];
    int root = s->buffer[q], uses = 0;
    if (root < 0 || ob < 0 || p->buffer[ob].merged >= 0 || p->buffer[ob].place != TP__IN_ARENA || s->convert)
        return false;
    while (p->buffer[root].merged >= 0) root = p->buffer[root].merged;
    tp__buffer *in = &p->buffer[root];
    if (in->place != TP__IN_ARENA || in->last != i || in->first >= i || in->bytes != p->buffer[ob].bytes) return false;
    for (int k = 0; k < s->call.n_in; k++) {
        int operand_buffer = s->buffer[k];
        while (operand_buffer >= 0 && p->buffer[operand_buffer].merged >= 0)
            operand_buffer = p->buffer[operand_buffer].merged;
        uses += operand_buffer == root;
    }
    if (uses != 1) return false;
    /* that memory already holds another result of this step, which no later step reads */
    for (int k = 0; k < s->call.n_out; k++) {
        const int result = s->buffer[s->call.n_in + k];
        if (result >= 0 && p->buffer[result].merged == root) return false;
    }
    p->buffer[ob].merged = root;
    if (p->buffer[ob].last > in->last) in->last = p->buffer[ob].last;
    return true;
}

/* Lets the operands of step i, a TP_OP_PACKS op, be computed in its output, so that they need not be copied. An operand that a later
 * step reads stays where it is. */
static void tp__pack_operands(tp__plan *p, int i)
{
    const tp__step *s = &p->step[i];
    const int out = s->buffer[s->call.n_in];
    size_t offset = 0, bytes = 0;
    for (int q = 0; q < s->call.n_in; q++) bytes += tp__align64(tp__operand_bytes(&s->operand[q]));
    if (out < 0 || s->convert || p->buffer[out].place != TP__IN_ARENA || (size_t)p->buffer[out].bytes != bytes) return;
    for (int q = 0; q < s->call.n_in; q++) {
        const size_t n = tp__operand_bytes(&s->operand[q]);
        int root = s->buffer[q];
        while (root >= 0 && p->buffer[root].merged >= 0) root = p->buffer[root].merged;
        tp__buffer *in = root >= 0 ? &p->buffer[root] : NULL, *to = &p->buffer[out];
        if (in && root != out && in->place == TP__IN_ARENA && in->device == to->device && in->last == i &&
            in->first < i && (size_t)in->bytes == n) {
            in->merged = out;
            in->offset = offset;
            if (in->first < to->first) to->first = in->first;
        }
        offset += tp__align64(n);
    }
}

/* Decides which results overwrite an operand, and which are computed in the buffer into which they would be copied. All lifetimes
 * must be known. */
static void tp__plan_in_place(tp__compiler *c)
{
    tp__plan *p = c->plan;
    for (int i = 0; i < p->n_step; i++) {
        tp__step *s = &p->step[i];
        if (s->row->flags & TP_OP_PACKS) tp__pack_operands(p, i);
        if (s->fn == s->row->fast && s->row->in_place) {
            for (int q = 0; q < s->call.n_in; q++)
                if ((q < 32 && (s->row->in_place >> q & 1u)) || (q > 0 && q == s->call.fused.add))
                    if (tp__write_over_operand(p, i, s->buffer[s->call.n_in], q)) break;
            continue;
        }
        if (!TP__HAS_FUSION || s->row != &tp__op_fused) continue;
        const tp__program *prog = (const tp__program *)s->call.attrs;
        for (int k = 0; k < prog->n_out; k++) {
            const int ob = s->buffer[prog->n_external + k];
            if (p->buffer[ob].merged >= 0 || p->buffer[ob].place != TP__IN_ARENA) continue;
            int writes = -1;
            for (int j = 0; j < prog->n_instr; j++)
                if (prog->instr[j].to == TP__FROM_OUT && prog->instr[j].out == k) writes = j;
            for (int e = 0; e < prog->n_external; e++) {
                const int ib = s->buffer[e];
                if (ib < 0 || prog->external[e].access != TP__DIRECT || prog->external[e].size != prog->out_size[k])
                    continue;
                bool safe = true; /* no member reads the operand after the result was written */
                for (int j = writes + 1; j < prog->n_instr; j++)
                    for (int a = 0; a < prog->instr[j].n_in; a++)
                        if (prog->instr[j].from[a] == TP__FROM_EXTERNAL && prog->instr[j].in[a] == e) safe = false;
                if (safe && tp__write_over_operand(p, i, ob, e)) break;
            }
        }
    }
}

/* The place of a buffer in the arena, and its first and last step. */
typedef struct tp__interval {
    size_t offset, end;
    int first, last;
} tp__interval;

/* Small buffers of a device whose recorded steps run beside each other keep their memory for some steps more: reused memory would put
 * the steps in order. Steps on larger ones fill the device by themselves. */
#define TP__LINGER_STEPS 24
#define TP__LINGER_BYTES ((int64_t)16 << 20)

/* 8. Chooses the offsets in a device's arena: large buffers first, each at the lowest offset that is free during its
 * lifetime. */
static tp_status tp__plan_place(tp__compiler *c, int device)
{
    tp__plan *p = c->plan;
    int n = 0;
    bool ok = true;
    int *by_size = tp__alloc_ints(c, p->n_buffer + 1, -1, &ok);
    tp__interval *placed =
        (tp__interval *)tp__check_memory(tp_arena_alloc(&c->arena, ((size_t)p->n_buffer + 1) * sizeof *placed), &ok);
    if (!ok) return tp__nomem_plan();
    for (int i = 0; i < p->n_buffer; i++)
        if (p->buffer[i].place == TP__IN_ARENA && p->buffer[i].device == device && p->buffer[i].merged < 0 &&
            p->buffer[i].first != INT_MAX)
            by_size[n++] = i;
    for (int gap = n / 2; gap > 0; gap /= 2) /* shell sort of the buffers: by size, largest first, then by age */
        for (int i = gap; i < n; i++) {
            const int x = by_size[i];
            int j = i;
            while (j >= gap) {
                const int y = by_size[j - gap];
                if (p->buffer[y].bytes > p->buffer[x].bytes || (p->buffer[y].bytes == p->buffer[x].bytes && y < x))
                    break;
                by_size[j] = y;
                j -= gap;
            }
            by_size[j] = x;
        }
    size_t top = 0;
    const bool lingers = p->device[device]->record_step != NULL;
    for (int i = 0; i < n; i++) { /* placed[0..i) are the buffers that have their place, sorted by offset */
        tp__buffer *b = &p->buffer[by_size[i]];
        const size_t bytes = tp__align64((size_t)b->bytes);
        const int kept =
            lingers && b->bytes <= TP__LINGER_BYTES && b->last < INT_MAX - TP__LINGER_STEPS ? TP__LINGER_STEPS : 0;
        tp__interval x = {0, 0, b->first, b->last + kept};
        int at = 0;
        for (int j = 0; j < i; j++) {
            const tp__interval *o = &placed[j];
            /* buffers whose lifetimes do not overlap may share memory */
            if (o->last >= x.first && x.last >= o->first) {
                if (o->offset >= x.offset + bytes) break;
                if (o->end > x.offset) x.offset = o->end;
            }
            if (o->offset <= x.offset) at = j + 1;
        }
        memmove(placed + at + 1, placed + at, (size_t)(i - at) * sizeof *placed);
        b->offset = x.offset;
        x.end = x.offset + bytes;
        placed[at] = x;
        if (x.end > top) top = x.end;
    }
    p->arena_bytes[device] = top;
    return TP_OK;
}

/* Returns the address of a buffer, once the arenas have been allocated; NULL: none. */
static void *tp__buffer_data(const tp__plan *p, const tp_exec *e, int b)
{
    if (b < 0) return NULL;
    const tp__buffer *x = &p->buffer[b];
    size_t offset = 0; /* in the buffer whose memory it shares */
    for (; x->merged >= 0; x = &p->buffer[x->merged]) offset += x->offset;
    switch (x->place) {
    case TP__IN_ARENA:
        return e->device_state[x->device].arena ? e->device_state[x->device].arena + x->offset + offset : NULL;
    case TP__IN_VAR: return e->session->var_data[x->var->id];
    case TP__IN_CONST: return x->data;
    default: return NULL;
    }
}

static void tp__plan_bind(tp__plan *p, tp_exec *e)
{
    tp__forget_recording(p);
    for (int i = 0; i < p->n_step; i++) {
        tp__step *s = &p->step[i];
        for (int k = 0; k < s->call.n_in + s->call.n_out + s->call.n_var; k++)
            s->operand[k].data = tp__buffer_data(p, e, s->buffer[k]);
        s->call.scratch = tp__buffer_data(p, e, s->scratch);
    }
    p->arena_version = e->arena_version;
}

/* -- all steps, and facts about a plan for its runs ---------------------------------------------------- */

/* Whether the step must run on the host in each run, because it has an effect there (prints, communicates); a recording
 * of a GPU cannot contain it. An op whose only effect is that it may report bad data does this through the device's
 * memory, and can be recorded. */
static bool tp__on_host(const tp__step *s) { return (s->row->flags & TP_OP_HOST) && !s->row->fault; }

/* Chooses the device that records the plan; -1: none. It must be able to record; all other devices must be able to take
 * part, and no copy may need the host. */
static int tp__plan_record_on(tp__plan *p)
{
    int first = -1;
    for (int i = 0; i < p->n_step; i++) {
        const tp__step *s = &p->step[i];
        for (int k = 0; k < s->call.n_in && s->is_collective; k++) p->takes_part[p->buffer[s->buffer[k]].device] = true;
        p->takes_part[s->device] = true;
        if (first < 0 && !tp__on_host(s)) first = s->device;
        if (s->from < 0) continue;
        p->takes_part[s->from] = true;
        if (!p->device[s->device]->copy_from || p->device[s->from]->host) return -1;
    }
    if (first < 0) return -1;
    const tp_device *d = p->device[first];
    p->takes_part[first] = false;
    for (int i = 0; i < p->n_device; i++)
        if (p->takes_part[i] && (!d->after || p->device[i]->after != d->after)) return -1;
    return d->record_begin && d->record_end && d->replay && d->record_free ? first : -1;
}

/* Splits the plan into pieces: steps that are recorded, and host ops between them. */
static tp_status tp__plan_pieces(tp__plan *p)
{
    int n = 0;
    p->record_on = tp__plan_record_on(p);
    if (p->record_on < 0) return TP_OK;
    for (int i = 0; i < p->n_step; i++) n += i == 0 || tp__on_host(&p->step[i]) != tp__on_host(&p->step[i - 1]);
    p->piece = (tp__plan_piece *)tp_arena_alloc(&p->arena, (size_t)n * sizeof *p->piece);
    if (!p->piece) return tp__nomem_plan();
    for (int i = 0; i < p->n_step; i++) {
        if (i == 0 || tp__on_host(&p->step[i]) != tp__on_host(&p->step[i - 1])) p->piece[p->n_piece++].from = i;
        p->piece[p->n_piece - 1].to = i + 1;
    }
    return TP_OK;
}

/* Counts the bytes that a step reads and writes. */
static double tp__step_bytes(const tp__step *s)
{
    double bytes = 0;
    for (int q = 0; q < s->call.n_in + s->call.n_out + s->call.n_var; q++)
        if (s->buffer[q] >= 0)
            bytes += (double)tp_shape_size(&s->operand[q].shape) * (double)tp_dtype_size(s->operand[q].dtype);
    return bytes;
}

static double tp__step_flops(const tp__step *s)
{
    const tp_call *k = &s->call;
    if (k->op == &tp__op_copy) return 0;
    if (k->op == &tp__op_fused)
        return (double)((const tp__program *)k->attrs)->n * ((const tp__program *)k->attrs)->n_instr;
    if (k->op->flops) return k->op->flops(k);
    return k->n_out ? (double)tp_shape_size(&k->out[0].shape) : 0;
}

/* Whether the step writes a variable. */
static bool tp__step_writes(const tp__plan *p, const tp__step *s)
{
    const int n_in = s->call.n_in;
    bool writes = s->call.n_var > 0 && (s->row->flags & TP_OP_WRITES_VAR);
    for (int q = n_in; q < n_in + s->call.n_out && !writes; q++) {
        int b = s->buffer[q];
        while (b >= 0 && p->buffer[b].merged >= 0) b = p->buffer[b].merged;
        writes = b >= 0 && p->buffer[b].place == TP__IN_VAR;
    }
    return writes;
}

/* Some kernels pack their weights in the plan's first run and use the packed weights in later runs. This gives them the memory. The
 * plan must write no variable; the weights are a variable or a constant, and the kernel reads them without conversion. Each size
 * of the batch has a plan of its own, with a copy of the packed weights: TP__MAX_KEEPING plans at most keep one. */
static tp_status tp__plan_kept(const tp__compiler *c)
{
    tp__plan *p = c->plan;
    int n_keeping = 0;
    for (const tp__plan *q = c->exec->plans; q; q = q->next) n_keeping += q->keeps;
    if (p->first_write < p->n_step || n_keeping >= TP__MAX_KEEPING) return TP_OK;
    for (int i = 0; i < p->n_step; i++) {
        tp__step *s = &p->step[i];
        if (s->from >= 0 || s->is_collective || s->convert || s->fn != s->row->fast || s->call.n_in < 2) continue;
        const int b = s->buffer[1];
        const tp__place place = b >= 0 ? p->buffer[b].place : TP__IN_NOTHING;
        const size_t bytes =
            place == TP__IN_VAR || place == TP__IN_CONST ? TP__IF_FAST(tp__kept_bytes(&s->call), 0) : 0;
        if (!bytes) continue;
        s->call.kept = tp__constant_memory(p, s->device, bytes);
        if (!s->call.kept) return tp__nomem_plan();
        p->keeps = true;
    }
    return TP_OK;
}

/* Computes the figures for tp_exec_plan_info. */
static void tp__plan_count(tp__plan *p)
{
    for (int i = 0; i < p->n_step && TP__HAS_TRACE; i++) {
        p->info.bytes += tp__step_bytes(&p->step[i]);
        p->info.flops += tp__step_flops(&p->step[i]);
    }
    p->info.n_steps = p->n_step;
    p->info.constant_bytes = p->constant_bytes;
}

/* Runs the steps 1 to 8 of planning. */
static tp_status tp__plan_steps(tp__compiler *c)
{
    tp__plan *p = c->plan;
    tp_status st;
    if ((st = tp__plan_mark_needed(c)) != TP_OK || (st = tp__plan_devices(c)) != TP_OK ||
        (st = tp__plan_infer(c)) != TP_OK || (st = tp__plan_rewrite(c)) != TP_OK)
        return st;
    tp__plan_uses(c);
    if ((st = tp__plan_order(c)) != TP_OK) return st;
    tp__plan_precision(c);
    tp__plan_alias(c);
    if ((st = tp__plan_sources(c)) != TP_OK) return st;
    tp__plan_fold(c);
    if (!c->exec->session->config.no_fusion && (st = tp__plan_fuse(c)) != TP_OK) return st;
    if (TP__HAS_FUSION && (st = tp__plan_groups(c)) != TP_OK) return st;
    if (TP__REPEATS && (st = tp__repeat_cheap(c)) != TP_OK) return st;
    p->cap_step = c->n_order + p->n_fetch + 1;
    p->step = (tp__step *)tp_arena_alloc(&p->arena, (size_t)p->cap_step * sizeof *p->step);
    if (!p->step) return tp__nomem_plan();
    if ((st = tp__plan_emit(c)) != TP_OK || (st = tp__plan_fetches(c)) != TP_OK) return st;
    for (int i = 0; i < p->n_feed; i++) { /* skip the upload to the node's own device if only other devices read it */
        tp__buffer *b = &p->buffer[p->feed_buffer[i]];
        if (b->last < 0 && c->replicas[tp__value_of(c, p->feed[i])]) b->first = INT_MAX;
        else if ((st = tp__add_upload(c, i, p->feed_buffer[i])) != TP_OK) return st;
    }
    tp__plan_in_place(c);
    for (int i = 0; i < p->n_device; i++) {
        if ((st = tp__plan_place(c, i)) != TP_OK) return st;
        p->info.arena_bytes += p->arena_bytes[i];
    }
    for (int i = 0; i < p->n_upload; i++) p->used[p->buffer[p->upload[i].buffer].device] = true;
    for (int i = 0; i < p->n_fetch; i++)
        if (p->fetch_buffer[i] >= 0) p->used[p->buffer[p->fetch_buffer[i]].device] = true;
    for (int i = 0; i < p->n_step; i++) {
        const tp__step *s = &p->step[i];
        p->used[s->device] = true;
        for (int k = 0; k < s->call.n_in && s->is_collective; k++) p->used[p->buffer[s->buffer[k]].device] = true;
    }
    if (TP__HAS_DEVICES && (st = tp__plan_pieces(p)) != TP_OK) return st;
    while (p->first_write < p->n_step && !tp__step_writes(p, &p->step[p->first_write])) p->first_write++;
    if (TP__FAST && (st = tp__plan_kept(c)) != TP_OK) return st;
    if (p->room_bytes && !(p->host_buffer = tp_arena_alloc(&p->arena, p->room_bytes))) return tp__nomem_plan();
    p->value = (tp_tensor *)tp_arena_alloc(&p->arena, (size_t)(p->n_fetch + 1) * sizeof *p->value);
    if (!p->value) return tp__nomem_plan();
    for (int i = 0; i < p->n_fetch; i++)
        if ((st = tp_tensor_resize(&p->value[i], p->fetch_type[i].dtype, p->fetch_type[i].shape)) != TP_OK) return st;
    tp__plan_count(p);
    return TP_OK;
}

static tp_status tp__compile(tp_exec *e, tp__plan *p)
{
    tp__compiler c;
    tp_status st = tp__compiler_init(&c, e, p);
    if (st == TP_OK) st = tp__plan_steps(&c);
    tp_arena_free(&c.arena);
    return st;
}

/* -- copies between devices, in a run ------------------------------------------------------------------ */

/* Copies between two devices. host_buffer: host memory for the copy, if neither device is the host and they cannot reach each
 * other. */
static tp_status tp__copy_between(tp_device *to, void *dst, tp_device *from, const void *src, size_t bytes,
                                  void *host_buffer)
{
    /* the host's kernels have finished when they return, so no wait is needed */
    if (from->host) return to->upload(to, dst, src, bytes);
    if (!to->host && to->copy_from) return to->copy_from(to, dst, from, src, bytes);
    tp_status st = from->download(from, to->host ? dst : host_buffer, src, bytes);
    if (st == TP_OK) st = from->wait(from);
    return st == TP_OK && !to->host ? to->upload(to, dst, host_buffer, bytes) : st;
}

static tp_status tp__run_copy(const tp__plan *p, const tp__step *s)
{
    const size_t bytes = (size_t)tp_shape_size(&s->operand[0].shape) * tp_dtype_size(s->operand[0].dtype);
    if (bytes == 0) return TP_OK;
    return tp__copy_between(p->device[s->device], s->operand[1].data, p->device[s->from], s->operand[0].data, bytes,
                            p->host_buffer);
}

/* Copies a fed value that is on a device to the device `to`. */
static tp_status tp__run_feed_device(tp_device *to, void *dst, const tp_tensor *value)
{
    const size_t bytes = tp_tensor_bytes(value);
    tp_device *from = value->device;
    if (from == to) return to->copy(to, dst, value->data, bytes);
    void *host_buffer = NULL;
    if (!to->host && !from->host && !to->copy_from && !(host_buffer = tp_malloc(bytes))) return TP_ERR_NOMEM;
    const tp_status st = tp__copy_between(to, dst, from, value->data, bytes, host_buffer);
    tp_free(host_buffer);
    return st;
}

/* Sums values on different devices by the library of the devices' vendor. */
static tp_status tp__run_together(const tp__plan *p, const tp__step *s)
{
    tp_device *on[TP_MAX_OUTPUTS];
    const void *in[TP_MAX_OUTPUTS];
    void *out[TP_MAX_OUTPUTS];
    const tp_call *k = &s->call;
    for (int i = 0; i < k->n_in; i++) {
        on[i] = p->device[p->buffer[s->buffer[i]].device];
        in[i] = k->in[i].data;
        out[i] = k->out[i].data;
    }
    return k->device->all_reduce(on, k->n_in, in, out, tp_shape_size(&k->in[0].shape), k->in[0].dtype,
                                 ((const tp__all_reduce_attrs *)k->attrs)->mean);
}

/* ==== >>run =========================================================================================== */

TP_DEF tp_session_config tp_get_default_sess_config(float mem_fraction)
{
    tp_session_config c;
    memset(&c, 0, sizeof c);
    c.memory_fraction = mem_fraction != 0 ? mem_fraction : 0.99f;
    return c;
}
TP_DEF tp_session_config tp_default_session_config(void) { return tp_get_default_sess_config(0); }

/* Returns what the error sentence about a full device says of memory_fraction, if this session limits the memory. */
static const char *tp__memory_limit(const tp_session *s, const tp_device *d, char *text, size_t size)
{
    const double fraction = (double)tp__float_option(s->config.memory_fraction, 0.99f);
    char number[TP_NUMBER_TEXT];
    text[0] = 0;
    if (!d->limit_memory || fraction >= 0.99) return text;
    tp_format_float(number, (float)fraction);
    tp__format(text, size, ", or raise memory_fraction, which is %s", number);
    return text;
}

static tp_status tp__session_limits(tp_session *s)
{
    if ((int)s->config.precision < TP_PRECISION_F32 || s->config.precision > TP_PRECISION_F16)
        return tp_fail(TP_ERR_ARG, "a session's precision is %d: it must be one of the TP_PRECISION_ values",
                       (int)s->config.precision);
    if (s->config.n_devices > 0 && !s->config.devices)
        return tp_fail(TP_ERR_ARG,
                       "a session's n_devices is %d, but its devices are NULL: n_cpu_devices makes devices of the CPU",
                       s->config.n_devices);
    const float fraction = tp__float_option(s->config.memory_fraction, 0.99f);
    if (!(fraction >= 0 && fraction <= 1))
        return tp_fail(TP_ERR_ARG, "a session's memory_fraction is %g: it must be a part of a GPU's memory, at most 1",
                       (double)fraction);
    tp_status st = TP_OK;
    for (int i = 0; i < s->n_device && st == TP_OK; i++)
        if (TP__HAS_DEVICES && s->device[i]->limit_memory)
            st = s->device[i]->limit_memory(s->device[i], (double)fraction);
    return st;
}

/* Gives memory and initial values to variables that were added to the graph after the session was made. */
static tp_status tp__session_grow(tp_session *s)
{
    while (s->n_var < s->graph->var.n) {
        if (s->n_var == s->var_cap) {
            const int cap = s->var_cap ? s->var_cap * 2 : 64;
            void **data = (void **)tp_realloc((void *)s->var_data, (size_t)cap * sizeof *data);
            if (!data) return tp_fail(TP_ERR_NOMEM, "out of memory for the variables");
            s->var_data = data;
            s->var_cap = cap;
        }
        const tp_variable *v = (const tp_variable *)s->graph->var.item[s->n_var];
        if (v->device >= s->n_device)
            return tp_fail(TP_ERR_ARG,
                           "variable '%s' is to live on device %d, but the session has %d device%s, numbered from 0",
                           v->name, v->device, s->n_device, s->n_device == 1 ? "" : "s");
        tp_device *d = s->device[v->device];
        char hint[80];
        tp_tensor t; /* fill the values: in the variable's own memory if the host can write there */
        memset(&t, 0, sizeof t);
        t.dtype = v->dtype;
        t.shape = v->shape;
        size_t bytes = 0;
        tp_status st = tp__type_bytes(v->dtype, &v->shape, &bytes);
        if (st != TP_OK) return st;
        void *data = d->alloc(d, bytes ? bytes : 1);
        if (!data)
            st = tp_fail(
                TP_ERR_NOMEM,
                "out of memory on %s for variable '%s' (%zu bytes): make the model smaller, or its device freer%s",
                d->name, v->name, bytes, tp__memory_limit(s, d, hint, sizeof hint));
        else if (d->host) t.data = data;
        else st = tp_tensor_resize(&t, v->dtype, v->shape);
        if (st == TP_OK) st = tp__init_fill(d->host ? d : NULL, &v->init, s->graph->seed, v->name, &t);
        if (st == TP_OK && !d->host) st = d->upload(d, data, t.data, bytes);
        tp_tensor_free(&t);
        if (st != TP_OK) {
            if (data) d->free(d, data);
            return st;
        }
        s->var_data[s->n_var++] = data;
    }
    return TP_OK;
}

/* The devices of a session: first those that the caller gave, then its own CPU devices. */
static tp_status tp__session_devices(tp_session *s)
{
    const int given = s->config.devices && s->config.n_devices > 0 ? s->config.n_devices : 0;
    const int n_cpu = s->config.n_cpu_devices || given ? s->config.n_cpu_devices : 1;
    if (!TP__HAS_DEVICES && (given || n_cpu != 1))
        return tp_fail(TP_ERR_UNSUPPORTED,
                       "this program was built with TP_NO_DEVICES: a session has one CPU device, not %d devices",
                       given + n_cpu);
    if (n_cpu < 0) return tp_fail(TP_ERR_ARG, "a session cannot have %d CPU devices", n_cpu);
    s->device = (tp_device **)tp_calloc((size_t)given + (size_t)n_cpu, sizeof *s->device);
    if (!s->device) return TP_ERR_NOMEM;
    for (int i = 0; i < given; i++) {
        tp_device *d = s->config.devices[i];
        if (!d || d->abi != TP_ABI || d->closed_)
            return tp_fail(TP_ERR_ARG,
                           "device %d of the session is missing, was closed, or was built with another version of tp",
                           i);
        s->device[i] = d;
        tp__device_use(d, 1);
        s->n_given = s->n_device = i + 1;
    }
    const tp_status st = n_cpu ? tp_cpu_devices_new(n_cpu, s->config.threads, s->config.isa, s->device + given) : TP_OK;
    if (st == TP_OK) s->n_device = given + n_cpu;
    return st;
}

/* A block that is left by return stays open: what is built later gets its names and options. */
static void tp__session_open_blocks(const tp_graph *g)
{
    const bool in_scope = g->n_name_scope > 1 || g->n_var_scope > 1;
    if (g->in_tower || in_scope || g->n_argscope > 0)
        tp_log(
            TP_LOG_WARN,
            "session: a %s of its graph is still open (name scope '%s', variable scope '%s'), and counts for all that "
            "is built from now on. Leave such a block at its end, not by return or break",
            g->in_tower ? "tower"
            : in_scope  ? "scope"
                        : "TP_ARGSCOPE",
            tp_name_scope(g), tp_variable_scope(g));
}

/* Says that variables may have other values than before: what runs made of them is made again. Any thread. */
static void tp__variables_changed(tp_session *s) { TP__WIDE_ADD(&s->var_version, 1); }

static tp_session *tp__session_make(tp_graph *g, const tp_session_config *c)
{
    if (!g) return tp_fail(TP_ERR_ARG, "a session needs a graph"), (tp_session *)NULL;
    if (g->status != TP_OK) {
        char text[TP__ERROR_TEXT];
        tp__format(text, sizeof text, "%s", g->error);
        return (void)(tp_fail)(g->status, "%s", text), (tp_session *)NULL;
    }
    tp_session *s = (tp_session *)tp_calloc(1, sizeof *s);
    if (!s) return NULL;
    s->graph = g;
    s->var_version = 1;
    tp__graph_sessions(g, 1);
    s->config = c ? *c : tp_default_session_config();
    if (tp__session_devices(s) != TP_OK || tp__session_limits(s) != TP_OK || tp__session_grow(s) != TP_OK) {
        tp_session_free(s);
        return NULL;
    }
    for (int i = 0; i < s->n_device; i++)
        if (s->device[i]->host) tp__log_if_slow();
    return s;
}
TP_DEF tp_session *tp_session_new(tp_graph *g, const tp_session_config *c)
{
    tp_session *s = tp__session_make(g, c);
    if (s) tp__session_open_blocks(g);
    return s;
}

static void tp__session_destroy(tp_session *s)
{
    for (int i = 0; i < s->n_var; i++) {
        tp_device *d = s->device[((const tp_variable *)s->graph->var.item[i])->device];
        d->free(d, s->var_data[i]);
    }
    tp_free((void *)s->var_data);
    for (int i = 0; i < s->n_device; i++)
        if (i < s->n_given) tp__device_use(s->device[i], -1);
        else s->device[i]->close(s->device[i]);
    tp_free((void *)s->device);
    tp_dict_free(&s->state);
    tp__graph_sessions(s->graph, -1);
    tp_free(s);
}

static void tp__exec_delete(tp_exec *e);
static void tp__session_delete(tp_session *s)
{
    if (!s) return;
    if (s->freed) {
        tp_fail(TP_ERR_STATE, "tp_session_free: this session was freed already; it stays until what runs in it is");
        return;
    }
    tp__exec_delete(s->exec);
    s->exec = NULL;
    tp_mutex_lock(s->graph->lock);
    const bool is_last_user = s->n_exec == 0;
    s->freed = true;
    tp_mutex_unlock(s->graph->lock);
    if (is_last_user) tp__session_destroy(s);
}
TP_DEF void tp_session_free(tp_session *s)
{
    if (s && tp__may_free(&s->owner_, __func__, "the session")) tp__session_delete(s);
}

TP_DEF tp_graph *tp_session_graph(const tp_session *s)
{
    TP__REQUIRE(s, NULL)
    return s->graph;
}
TP_DEF tp_device *tp_session_device(const tp_session *s, int i)
{
    TP__REQUIRE(s && i >= 0 && i < s->n_device, NULL)

    return s->device[i];
}
TP_DEF tp_dict *tp_session_state(tp_session *s)
{
    TP__REQUIRE(s, NULL)
    return &s->state;
}

TP_DEF tp_exec *tp_exec_new(tp_session *s)
{
    TP__REQUIRE(s, NULL)

    tp_exec *e = (tp_exec *)tp_calloc(1, sizeof *e);
    if (!e) return NULL;
    e->session = s;
    tp_mutex_lock(s->graph->lock);
    s->n_exec++;
    tp_mutex_unlock(s->graph->lock);
    e->n_device = s->n_device;
    e->arena_version = 1;
    e->device = (tp_device **)tp_calloc((size_t)s->n_device, sizeof *e->device);
    e->device_state = (tp__exec_device *)tp_calloc((size_t)s->n_device, sizeof *e->device_state);
    bool ok = e->device && e->device_state;
    for (int i = 0; i < s->n_device && ok; i++) {
        e->device[i] = s->device[i];
        e->device_state[i].step_word = (uint64_t *)s->device[i]->alloc(s->device[i], 3 * sizeof(uint64_t));
        ok = e->device_state[i].step_word != NULL;
    }
    if (!ok) {
        tp_exec_free(e);
        tp_fail(TP_ERR_NOMEM, "out of memory for an exec");
        return NULL;
    }
    return e;
}

static void tp__exec_delete(tp_exec *e)
{
    if (!e) return;
    while (e->plans) {
        tp__plan *p = e->plans;
        e->plans = p->next;
        tp__plan_free(p);
    }
    for (int i = 0; i < e->n_device && e->device && e->device_state; i++) {
        tp_device *d = e->session->device[i];
        if (e->device_state[i].arena) d->free(d, e->device_state[i].arena);
        if (e->device_state[i].step_word) d->free(d, e->device_state[i].step_word);
    }
    tp_free((void *)e->device);
    tp_free(e->device_state);
    tp_session *s = e->session;
    tp_free(e);
    tp_mutex_lock(s->graph->lock);
    const bool is_last_user = --s->n_exec == 0 && s->freed;
    tp_mutex_unlock(s->graph->lock);
    if (is_last_user) tp__session_destroy(s);
}
TP_DEF void tp_exec_free(tp_exec *e)
{
    if (e && tp__may_free(&e->owner_, __func__, "the exec")) tp__exec_delete(e);
}
/* An exec that its maker frees. */
static tp_exec *tp__exec_owned(tp_session *s, const char *owner)
{
    tp_exec *e = tp_exec_new(s);
    if (e) e->owner_.who = owner;
    return e;
}

TP_DEF tp_exec *tp_session_exec(tp_session *s)
{
    TP__REQUIRE(s, NULL)

    if (!s->exec) s->exec = tp__exec_owned(s, "the session");
    return s->exec;
}

TP_DEF uint64_t tp_exec_random_step(const tp_exec *e)
{
    TP__REQUIRE(e, 0)
    return e->random_step;
}
TP_DEF void tp_exec_set_random_step(tp_exec *e, uint64_t step)
{
    TP__REQUIRE(e, )
    e->random_step = step;
}
TP_DEF void tp_exec_set_timing(tp_exec *e, bool on)
{
    TP__REQUIRE(e, )
    e->timing = on;
}

static uint64_t tp__mix(uint64_t h, uint64_t x)
{
    h ^= x + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    return h * 0xff51afd7ed558ccdu;
}

/* Makes a plan for these fetches and feeds that is not yet compiled; NULL: out of memory. */
static tp__plan *tp__plan_new(const tp_exec *e, const tp_feed *feeds, int n_feeds, tp_node *const *fetches,
                              int n_fetches)
{
    tp_arena arena;
    memset(&arena, 0, sizeof arena);
    tp__plan *p = (tp__plan *)tp_arena_alloc(&arena, sizeof *p);
    if (!p) return NULL;
    p->arena = arena;
    p->record_on = -1;
    p->n_device = e->n_device;
    p->device = (tp_device **)tp_arena_alloc(&p->arena, (size_t)e->n_device * sizeof *p->device);
    p->used = (bool *)tp_arena_alloc(&p->arena, (size_t)e->n_device * sizeof *p->used);
    p->takes_part = (bool *)tp_arena_alloc(&p->arena, (size_t)e->n_device * sizeof *p->takes_part);
    p->arena_bytes = (size_t *)tp_arena_alloc(&p->arena, (size_t)e->n_device * sizeof *p->arena_bytes);
    p->fetch = (tp_node **)tp_arena_alloc(&p->arena, (size_t)(n_fetches + 1) * sizeof *p->fetch);
    p->fetch_buffer = (int *)tp_arena_alloc(&p->arena, (size_t)(n_fetches + 1) * sizeof(int));
    p->fetch_type = (tp_type *)tp_arena_alloc(&p->arena, (size_t)(n_fetches + 1) * sizeof(tp_type));
    p->feed = (tp_node **)tp_arena_alloc(&p->arena, (size_t)(n_feeds + 1) * sizeof *p->feed);
    p->feed_type = (tp_type *)tp_arena_alloc(&p->arena, (size_t)(n_feeds + 1) * sizeof(tp_type));
    p->feed_buffer = (int *)tp_arena_alloc(&p->arena, (size_t)(n_feeds + 1) * sizeof(int));
    if (!p->fetch || !p->fetch_buffer || !p->fetch_type || !p->feed || !p->feed_type || !p->feed_buffer || !p->device ||
        !p->used || !p->takes_part || !p->arena_bytes) {
        tp__plan_free(p);
        return NULL;
    }
    p->n_fetch = n_fetches;
    p->n_feed = n_feeds;
    for (int i = 0; i < e->n_device; i++) p->device[i] = e->device[i];
    for (int i = 0; i < n_fetches; i++) p->fetch[i] = fetches[i];
    for (int i = 0; i < n_feeds; i++) {
        p->feed[i] = feeds[i].node;
        p->feed_type[i].dtype = feeds[i].value.dtype;
        p->feed_type[i].shape = feeds[i].value.shape;
    }
    return p;
}
/* Makes the arenas of the exec large enough for a plan. */
static tp_status tp__grow_arenas(tp_exec *e, const tp__plan *p)
{
    for (int i = 0; i < e->n_device; i++) {
        tp_device *d = e->device[i];
        tp__exec_device *on = &e->device_state[i];
        if (p->arena_bytes[i] <= on->arena_bytes) continue;
        char *bigger = (char *)d->alloc(d, p->arena_bytes[i]);
        if (!bigger)
            return tp_fail(TP_ERR_NOMEM,
                           "out of memory on %s: this run needs %.1f MB for its values; a smaller batch needs less",
                           d->name, (double)p->arena_bytes[i] / 1048576.0);
        if (on->arena) d->free(d, on->arena);
        on->arena = bigger;
        on->arena_bytes = p->arena_bytes[i];
        e->arena_version++;
    }
    return TP_OK;
}

/* Finds the plan for these fetches and feeds: one that was compiled before, or a new one. */
static tp__plan *tp__find_plan(tp_exec *e, const tp_feed *feeds, int n_feeds, tp_node *const *fetches, int n_fetches,
                               tp_status *status)
{
    uint64_t h = tp__mix((uint64_t)n_feeds, (uint64_t)n_fetches);
    for (int i = 0; i < n_fetches; i++) h = tp__mix(h, (uint64_t)(uintptr_t)fetches[i]);
    for (int i = 0; i < n_feeds; i++) {
        h = tp__mix(h, (uint64_t)(uintptr_t)feeds[i].node);
        for (int d = 0; d < feeds[i].value.shape.ndim; d++) h = tp__mix(h, (uint64_t)feeds[i].value.shape.dim[d]);
    }
    for (tp__plan *p = e->plans; p; p = p->next) {
        if (p->hash != h || p->n_feed != n_feeds || p->n_fetch != n_fetches) continue;
        bool matches = true;
        for (int i = 0; i < n_fetches; i++) matches = matches && p->fetch[i] == fetches[i];
        for (int i = 0; i < n_feeds && matches; i++)
            matches = p->feed[i] == feeds[i].node && p->feed_type[i].dtype == feeds[i].value.dtype &&
                      tp_shape_equal(&p->feed_type[i].shape, &feeds[i].value.shape);
        if (matches) return p;
    }
    /* if there are too many plans, the new one replaces the least recently used one */
    int n = 0;
    for (tp__plan *p = e->plans; p; p = p->next) n++;
    if (n >= TP__MAX_PLANS) {
        tp__plan **old = &e->plans;
        for (tp__plan **q = &e->plans; *q; q = &(*q)->next)
            if ((*q)->used_at < (*old)->used_at) old = q;
        tp__plan *evicted = *old;
        *old = evicted->next;
        tp__plan_free(evicted);
    }
    tp__plan *p = tp__plan_new(e, feeds, n_feeds, fetches, n_fetches);
    if (!p) {
        *status = tp__nomem_plan();
        return NULL;
    }
    p->hash = h;
    tp_status st = tp__compile(e, p);
    if (st == TP_OK) st = tp__grow_arenas(e, p);
    if (st != TP_OK) {
        *status = st;
        tp__plan_free(p);
        return NULL;
    }
    p->next = e->plans;
    e->plans = p;
    return p;
}

/* Whether shape x equals shape y without the batch dimension in front. */
TP__UNUSED static bool tp__lacks_batch(const tp_shape *y, const tp_shape *x)
{
    tp_shape sample_shape = *y;
    if (y->ndim != x->ndim + 1) return false;
    sample_shape.ndim--;
    for (int d = 0; d < sample_shape.ndim; d++) sample_shape.dim[d] = y->dim[d + 1];
    return tp_shape_compatible(&sample_shape, x);
}

static tp_status tp__check_run(const tp_session *s, const tp_feed *feeds, int n_feeds, tp_node *const *fetches,
                               int n_fetches)
{
    const tp_graph *g = s->graph;
    if (g->status != TP_OK) {
        char text[2048];
        tp__format(text, sizeof text, "%s", g->error);
        return tp_fail(g->status, "%s", text);
    }
    for (int i = 0; i < n_fetches; i++) {
        if (!fetches[i]) {
            char reason[TP__MISSING_TEXT];
            tp__node_missing(g, reason);
            return tp_fail(TP_ERR_ARG, "fetch %d is NULL%s", i,
                           *reason ? reason : ": no node of that name, or no gradient");
        }
        if (tp_is_poison(fetches[i]))
            return tp_fail(TP_ERR_ARG, "fetch %d is poisoned: the call that made it has failed: %s", i,
                           tp__poison_reason(fetches[i]));
        if (fetches[i]->op->graph != g)
            return tp_fail(TP_ERR_ARG, "fetch %d ('%s') is not a node of this session's graph", i,
                           fetches[i]->op->name);
    }
    for (int i = 0; i < n_feeds; i++) {
        const tp_node *n = feeds[i].node;
        const tp_tensor *value = &feeds[i].value;
        if (!n) {
            char reason[TP__MISSING_TEXT];
            return tp_fail(TP_ERR_ARG, "feed %d has no node: it is NULL%s", i, tp__node_missing(g, reason));
        }
        if (n->op->graph != g || tp_is_poison(n))
            return tp_fail(TP_ERR_ARG, "feed %d is not a node of this session's graph", i);
        if (value->dtype == TP_DTYPE_UNSET)
            return tp_fail(
                TP_ERR_DTYPE,
                "'%s' is fed a tensor of zeros, with neither type nor shape nor data: tp_tensor_view makes one "
                "of an array, tp_tensor_resize one with memory of its own",
                n->op->name);
        if (value->dtype != n->dtype)
            return tp_fail(TP_ERR_DTYPE, "'%s' is %s but is fed %s: convert it with tp_convert", n->op->name,
                           tp_dtype_name(n->dtype), tp_dtype_name(feeds[i].value.dtype));
        if (!tp_shape_compatible(&n->shape, &feeds[i].value.shape) || !tp_shape_known(&feeds[i].value.shape)) {
            char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
            return tp_fail(
                TP_ERR_SHAPE, "'%s' has shape %s but is fed %s%s", n->op->name, tp_shape_text(&n->shape, a),
                tp_shape_text(&value->shape, b),
                tp__lacks_batch(&n->shape, &value->shape) ? ": one sample? A batch of one has the shape (1,...)" : "");
        }
        const tp_device *d = feeds[i].value.device;
        bool in_session = d == NULL;
        for (int k = 0; k < s->n_device && !in_session; k++) in_session = s->device[k] == d;
        if (!in_session)
            return tp_fail(TP_ERR_ARG,
                           "'%s' is fed a tensor that lies on a device (%s) which is none of this session's",
                           n->op->name, d->name);
        if (d && feeds[i].value.staged_)
            return tp_fail(TP_ERR_STATE,
                           "'%s' is fed a tensor that was staged and not taken: tp_tensor_unstage comes first",
                           n->op->name);
        if (!value->data && tp_shape_size(&value->shape) > 0)
            return tp_fail(TP_ERR_ARG, "'%s' is fed data at NULL", n->op->name);
        for (int j = 0; j < i; j++)
            if (feeds[j].node == n) return tp_fail(TP_ERR_ARG, "'%s' is fed twice", n->op->name);
    }
    return TP_OK;
}

/* -- traces */

/* Stores each text of a trace once, in an open-addressed table. Returns "" if memory runs out. */
static const char *tp__trace_text(tp_trace *t, const char *text)
{
    if (!text || !*text) return "";
    if (t->n_name_ * 2 >= t->cap_name_) {
        const int64_t cap = t->cap_name_ ? t->cap_name_ * 2 : 256;
        const char **bigger = (const char **)tp_calloc((size_t)cap, sizeof *bigger);
        if (!bigger) return "";
        for (int64_t i = 0; i < t->cap_name_; i++) {
            if (!t->name_[i]) continue;
            uint64_t h = tp_hash_name(t->name_[i]) % (uint64_t)cap;
            while (bigger[h]) h = (h + 1) % (uint64_t)cap;
            bigger[h] = t->name_[i];
        }
        tp_free((void *)t->name_);
        t->name_ = bigger;
        t->cap_name_ = cap;
    }
    uint64_t h = tp_hash_name(text) % (uint64_t)t->cap_name_;
    for (; t->name_[h]; h = (h + 1) % (uint64_t)t->cap_name_)
        if (strcmp(t->name_[h], text) == 0) return t->name_[h];
    const char *copy = tp_arena_strdup(&t->mem_, text);
    if (!copy) return "";
    t->n_name_++;
    return t->name_[h] = copy;
}

/* Adds a record to a trace; NULL: out of memory. */
static tp_trace_record *tp__trace_add(tp_trace *t, tp_trace_kind kind, int thread, int64_t start, int64_t end)
{
    if (t->n == t->cap) {
        const int64_t cap = t->cap ? t->cap * 2 : 256;
        tp_trace_record *bigger = (tp_trace_record *)tp_realloc(t->record, (size_t)cap * sizeof *bigger);
        if (!bigger) {
            t->lost++;
            return NULL;
        }
        t->record = bigger;
        t->cap = cap;
    }
    static const char *const name[] = {"", "hooks", "plan", "feed", "kernel", "copy", "fetch", "work", "idle"};
    tp_trace_record *r = &t->record[t->n++];
    memset(r, 0, sizeof *r);
    r->kind = kind;
    r->thread = thread;
    r->run = t->n_run;
    r->name = name[kind];
    r->node = r->device = "";
    r->start = start;
    r->end = end;
    return r;
}

/* One run, from its first hook to its end. */
typedef struct tp__running {
    tp_session *session;
    uint32_t cancels; /* number of the session's cancellations when the run began */
    bool stopped;     /* ended by a cancellation or by the timeout */
    int64_t timeout_ms;
    double deadline;                /* time at which the run must end, in seconds of tp_time; 0: no deadline */
    tp_trace *trace;                /* NULL: the run is not traced */
    int64_t first;                  /* index of the run's first record */
    int64_t begun, last_record_end; /* nanoseconds: when the run began; when the last record of thread 0 ended */
    tp__watch *watch;               /* records the work of its devices' thread pools */
} tp__running;

static void tp__running_begin(tp__running *r, tp_session *s, int64_t timeout_ms)
{
    memset(r, 0, sizeof *r);
    r->session = s;
    r->cancels = (uint32_t)(TP__WIDE_ADD(&s->runs, 1) >> 32);
    r->timeout_ms = timeout_ms;
    if (timeout_ms > 0) r->deadline = tp_time() + 1e-3 * (double)timeout_ms;
}

/* Whether the run may continue. activity: what the run did until now, for the error sentence. */
static tp_status tp__running_stopped(tp__running *r, const char *activity, const char *name)
{
    const char *q = name ? "'" : "";
    r->stopped = true;
    if (!name) name = "";
    if (r->cancels != (uint32_t)(TP__WIDE_LOAD(&r->session->runs) >> 32))
        return tp_fail(TP_ERR_CANCELLED, "the run was cancelled and has changed no variable: %s%s%s%s%s", activity,
                       *q ? " " : "", q, name, q);
    return tp_fail(TP_ERR_TIMEOUT, "the run was not over after its %lld ms and has changed no variable: %s%s%s%s%s",
                   (long long)r->timeout_ms, activity, *q ? " " : "", q, name, q);
}
static tp_status tp__running_check(tp__running *r, const char *activity, const char *name)
{
    if (r->cancels == (uint32_t)(TP__WIDE_LOAD(&r->session->runs) >> 32) &&
        (r->deadline == 0 || tp_time() < r->deadline))
        return TP_OK;
    return tp__running_stopped(r, activity, name);
}

static void tp__running_trace(tp__running *r, tp_trace *t, int64_t begun)
{
    r->trace = t;
    r->first = t->n;
    r->begun = r->last_record_end = begun;
}

/* Adds a record of what thread 0 has done since its last record. */
static void tp__running_add_record(tp__running *r, tp_trace_kind kind, double bytes)
{
    if (!TP__HAS_TRACE || !r->trace) return;
    const int64_t now = tp__clock_ns();
    tp_trace_record *x = tp__trace_add(r->trace, kind, 0, r->last_record_end, now);
    if (x) x->bytes = bytes;
    r->last_record_end = now;
}
static void tp__running_add_step_record(tp__running *r, const tp__step *s)
{
    const int64_t now = tp__clock_ns();
    tp_trace_record *x =
        tp__trace_add(r->trace, s->from >= 0 ? TP_TRACE_COPY : TP_TRACE_KERNEL, 0, r->last_record_end, now);
    r->last_record_end = now;
    if (!x) return;
    /* the texts of these records may belong to the program: all are copied at the end of the run */
    x->name = s->row->name;
    x->node = s->name;
    x->device = s->call.device->name;
    x->bytes = tp__step_bytes(s);
    x->flops = tp__step_flops(s);
}

/* Records the other threads of a run's devices. Those for which there is no memory are not recorded. */
static void tp__running_watch(tp__running *r, const tp__plan *p)
{
    for (int i = 0; i < p->n_device; i++) {
        const tp_pool *pool = p->used[i] ? p->device[i]->pool : NULL;
        const int n = tp_pool_threads(pool) - 1;
        bool known = !pool || n < 1;
        for (const tp__watch *w = r->watch; w && !known; w = w->next) known = w->pool == pool;
        tp__watch *w = known ? NULL : (tp__watch *)tp_calloc(1, sizeof *w);
        if (w) w->worker = (tp__spans *)tp_calloc((size_t)n, sizeof *w->worker);
        if (!w || !w->worker) {
            if (!known) r->trace->lost += n;
            tp_free(w);
            continue;
        }
        w->pool = pool;
        w->n_worker = n;
        tp__watch **end = &r->watch;
        while (*end) end = &(*end)->next;
        *end = w;
    }
}

/* Adds records of a worker: its work, each part with the kernel of the run that it belongs to, and the idle time between. */
static void tp__running_worker(const tp__running *r, int64_t n, const tp__spans *s, int thread)
{
    tp_trace *t = r->trace;
    int64_t at = r->begun, k = r->first;
    for (int64_t i = 0; i < s->n; i++) {
        while (k + 1 < n && t->record[k].end <= s->item[i].start) k++;
        if (s->item[i].start > at) tp__trace_add(t, TP_TRACE_IDLE, thread, at, s->item[i].start);
        tp_trace_record *x = tp__trace_add(t, TP_TRACE_WORK, thread, s->item[i].start, s->item[i].end);
        if (x && k < n) {
            x->name = t->record[k].name;
            x->node = t->record[k].node;
            x->device = t->record[k].device;
        }
        at = s->item[i].end;
    }
    if (r->last_record_end > at) tp__trace_add(t, TP_TRACE_IDLE, thread, at, r->last_record_end);
    t->lost += s->lost;
}

/* Ends the run and completes its trace. */
static void tp__running_end(tp__running *r)
{
    tp_trace *t = r->trace;
    (void)TP__WIDE_ADD(&r->session->runs, (uint64_t)0 - 1);
    if (!TP__HAS_TRACE || !t) return;
    const int64_t n = t->n;
    for (int64_t i = r->first; i < n; i++) {
        t->record[i].name = tp__trace_text(t, t->record[i].name);
        t->record[i].node = tp__trace_text(t, t->record[i].node);
        t->record[i].device = tp__trace_text(t, t->record[i].device);
    }
    int thread = 1;
    while (r->watch) {
        tp__watch *w = r->watch;
        for (int i = 0; i < w->n_worker; i++) {
            tp__running_worker(r, n, &w->worker[i], thread++);
            tp_free(w->worker[i].item);
        }
        r->watch = w->next;
        tp_free(w->worker);
        tp_free(w);
    }
    t->n_run++;
    r->trace = NULL;
}

TP_DEF void tp_trace_free(tp_trace *t)
{
    if (!t) return;
    tp_free(t->record);
    tp_free((void *)t->name_);
    tp_arena_free(&t->mem_);
    memset(t, 0, sizeof *t);
}

static void tp__json_string(tp_buf *b, const char *s)
{
    tp_buf_printf(b, "\"");
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') tp_buf_printf(b, "\\%c", c);
        else if (c < 32) tp_buf_printf(b, "\\u%04x", (unsigned)c);
        else tp_buf_put(b, s, 1);
    }
    tp_buf_printf(b, "\"");
}

/* Returns the process number of a device in the trace: 0 for records without a device, then in order of appearance. */
static int tp__trace_process(const char **device, int *n, int cap, const char *name)
{
    int i = 0;
    while (i < *n && strcmp(device[i], name) != 0) i++;
    if (i < *n || *n == cap) return i < *n ? i : 0;
    device[(*n)++] = name;
    return i;
}

static void tp__trace_event(tp_buf *b, const tp_trace_record *r, int process, int64_t zero)
{
    char number[TP_NUMBER_TEXT];
    const int64_t ts = r->start - zero, dur = r->end - r->start;
    tp_buf_printf(b, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%lld.%03d,\"dur\":%lld.%03d,\"name\":", process,
                  r->thread, (long long)(ts / 1000), (int)(ts % 1000), (long long)(dur / 1000), (int)(dur % 1000));
    tp__json_string(b, r->name);
    tp_buf_printf(b, ",\"cat\":\"%s\",\"args\":{\"run\":%lld,\"node\":",
                  r->kind == TP_TRACE_WORK     ? "work"
                  : r->kind == TP_TRACE_KERNEL ? "kernel"
                  : r->kind == TP_TRACE_COPY   ? "copy"
                                               : "host",
                  (long long)r->run);
    tp__json_string(b, r->node);
    tp_format_double(number, r->bytes);
    tp_buf_printf(b, ",\"bytes\":%s", number);
    tp_format_double(number, r->flops);
    tp_buf_printf(b, ",\"flops\":%s}}", number);
}

TP_DEF tp_status tp_trace_save(const tp_trace *t, const char *path)
{
    TP__REQUIRE(t && path && (t->record || t->n == 0) && t->n >= 0, TP_ERR_ARG)

    enum { MOST = 256 };
    const char *device[MOST] = {""};
    int n_device = 1;
    tp_writer *w = NULL;
    tp_buf b;
    memset(&b, 0, sizeof b);
    tp_status st = tp_writer_open(&w, path);
    if (st != TP_OK) return st;
    int64_t zero = t->n > 0 ? t->record[0].start : 0;
    for (int64_t i = 0; i < t->n; i++) {
        tp__trace_process(device, &n_device, MOST, t->record[i].device);
        if (t->record[i].start < zero) zero = t->record[i].start;
    }
    tp_buf_printf(&b, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    for (int i = 0; i < n_device; i++) {
        tp_buf_printf(&b, "%s\n{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":", i ? "," : "",
                      i);
        tp__json_string(&b, i ? device[i] : "run");
        tp_buf_printf(&b, "}}");
    }
    for (int64_t i = 0; i < t->n && st == TP_OK && !b.failed; i++) {
        const tp_trace_record *r = &t->record[i];
        if (r->kind != TP_TRACE_IDLE)
            tp__trace_event(&b, r, tp__trace_process(device, &n_device, MOST, r->device), zero);
        if (b.len < 65536) continue;
        st = tp_writer_put(w, b.data, b.len);
        b.len = 0;
    }
    tp_buf_printf(&b, "\n]}\n");
    if (b.failed) st = tp_fail(TP_ERR_NOMEM, "out of memory while the trace %s was written", path);
    else if (st == TP_OK) st = tp_writer_put(w, b.data, b.len);
    tp_buf_free(&b);
    if (st == TP_OK) return tp_writer_commit(w);
    tp_writer_abort(w);
    return st;
}

/* -- a run */

/* Holds the session's devices for this thread, or releases them. All threads hold them in the order of their addresses, and before they
 * lock the graph. */
static void tp__session_hold(const tp_session *s, bool on)
{
#if defined(TP_NO_DEVICES) || defined(TP_NO_THREADS)
    (void)s, (void)on;
#else
    for (const tp_device *last = NULL;;) {
        tp_device *next = NULL;
        for (int i = 0; i < s->n_device; i++)
            if (s->device[i]->hold && s->device[i] > last && (!next || s->device[i] < next)) next = s->device[i];
        if (!next) return;
        next->hold(next, on);
        last = next;
    }
#endif
}
/* Runs an op of the host. What it waits for, such as a queue, another thread may make with the same devices. */
static void tp__run_on_host(tp__step *s, const tp__running *r)
{
    if (r) tp__session_hold(r->session, false);
    tp__run_step(s);
    if (r) tp__session_hold(r->session, true);
}

/* Runs steps in order. With timing, waits for each one and measures it. r is NULL while the steps are recorded. */
static tp_status tp__run_steps(tp__plan *p, tp__running *r, bool timing, int from, int to)
{
    timing = TP__HAS_TRACE && timing;
    tp_status st = TP_OK;
    const bool traced = TP__HAS_TRACE && r && r->trace;
    for (int i = from; i < to && st == TP_OK; i++) {
        tp__step *s = &p->step[i];
        if (r && i <= p->first_write && (st = tp__running_check(r, "it stood before", s->name)) != TP_OK) break;
        const double t0 = timing ? tp_time() : 0;
        tp_device *d = s->call.device;
        if (d->make_current && (i == from || p->step[i - 1].device != s->device || p->step[i - 1].from >= 0 ||
                                tp__on_host(&p->step[i - 1])))
            d->make_current(d);
        if (TP__HAS_DEVICES && s->from >= 0) st = tp__run_copy(p, s);
        else if (TP__HAS_DEVICES && s->is_collective) st = tp__run_together(p, s);
        else if (tp__on_host(s)) tp__run_on_host(s, r);
        else tp__run_step(s);
        if (!(timing || traced) || st != TP_OK) continue;
        st = s->call.device->wait(s->call.device);
        if (traced) tp__running_add_step_record(r, s);
        if (!timing) continue;
        s->seconds += tp_time() - t0;
        s->runs++;
    }
    return st;
}

/* Makes the plan's other devices wait for the device that records and replays the plan or, with `back`, makes that device wait
 * for the others. */
static tp_status tp__plan_sync_devices(const tp__plan *p, bool back)
{
    tp_device *d = p->device[p->record_on];
    tp_status st = TP_OK;
    for (int i = 0; i < p->n_device; i++) {
        if (!p->takes_part[i]) continue;
        const tp_status joined = back ? d->after(d, p->device[i]) : d->after(p->device[i], d);
        if (st == TP_OK) st = joined;
    }
    return st;
}

/* -- the steps of a recording that may run beside each other */

/* The memory of operand i of a step, or, past the last operand, its scratch; *writes: the step may write it. */
static const char *tp__step_memory(const tp__step *s, int i, size_t *bytes, bool *writes)
{
    const tp_call *k = &s->call;
    const int n = k->n_in + k->n_out + k->n_var;
    *writes = i >= k->n_in;
    *bytes = i < n ? tp__operand_bytes(&s->operand[i]) : k->scratch_bytes;
    return (const char *)(i < n ? s->operand[i].data : k->scratch);
}
/* Whether two steps must keep their order: one of them writes memory that the other reads or writes. */
static bool tp__steps_meet(const tp__step *a, const tp__step *b)
{
    const int n_a = a->call.n_in + a->call.n_out + a->call.n_var, n_b = b->call.n_in + b->call.n_out + b->call.n_var;
    for (int i = 0; i <= n_a; i++) {
        size_t bytes_a, bytes_b;
        bool writes_a, writes_b;
        const char *p = tp__step_memory(a, i, &bytes_a, &writes_a);
        if (!p || !bytes_a) continue;
        for (int j = 0; j <= n_b; j++) {
            const char *q = tp__step_memory(b, j, &bytes_b, &writes_b);
            if (q && bytes_b && (writes_a || writes_b) && p < q + bytes_b && q < p + bytes_a) return true;
        }
    }
    return false;
}
/* Records steps so that each follows only those whose memory it shares: a filter's gradient runs beside the next input gradient. Steps
 * are compared within groups of TP__BESIDE; a group follows all of the group before it. */
#define TP__BESIDE 256
static tp_status tp__record_steps(tp__plan *p, tp_device *d, int from, int to)
{
    static const int words = TP__BESIDE / 32;
    uint32_t earlier[TP__BESIDE][TP__BESIDE / 32]; /* bit j of earlier[i]: step i of the group follows its step j */
    uint32_t followed[TP__BESIDE / 32] = {0};      /* the group's steps that another one follows */
    int after[TP__BESIDE], n_before = 0, first_before = 0; /* n_before: steps of the group before */
    tp_status st = TP_OK;
    for (int first = from; first < to && st == TP_OK; first += TP__BESIDE) {
        const int n = to - first < TP__BESIDE ? to - first : TP__BESIDE;
        uint32_t ends[TP__BESIDE / 32];
        for (int w = 0; w < words; w++) ends[w] = ~followed[w], followed[w] = 0;
        for (int i = 0; i < n && st == TP_OK; i++) {
            int n_after = 0;
            memset(earlier[i], 0, sizeof earlier[i]);
            for (int j = i - 1; j >= 0; j--) {
                if ((earlier[i][j / 32] >> j % 32 & 1u) || !tp__steps_meet(&p->step[first + i], &p->step[first + j]))
                    continue;
                for (int w = 0; w < words; w++) earlier[i][w] |= earlier[j][w];
                earlier[i][j / 32] |= 1u << j % 32;
                followed[j / 32] |= 1u << j % 32;
                after[n_after++] = first - from + j;
            }
            if (i == 0) /* the steps of the group before that none of it follows */
                for (int j = 0; j < n_before; j++)
                    if (ends[j / 32] >> j % 32 & 1u) after[n_after++] = first_before + j;
            if (i > 0 && n_after == 0 && n_before > 0) {
                followed[0] |= 1u;
                after[n_after++] = first - from;
            }
            st = d->record_step(d, after, n_after);
            if (st == TP_OK) tp__run_step(&p->step[first + i]);
        }
        n_before = n;
        first_before = first - from;
    }
    return st;
}
/* Whether all steps of a piece are kernels of d. */
static bool tp__can_record_steps(const tp__plan *p, const tp_device *d, const tp__plan_piece *piece)
{
    bool alone = d->record_step != NULL;
    for (int i = piece->from; i < piece->to && alone; i++)
        alone = p->step[i].call.device == d && p->step[i].from < 0 && !p->step[i].is_collective;
    return alone;
}

/* Records one piece, if the device can. */
static tp_status tp__record_piece(tp__plan *p, tp__plan_piece *piece)
{
    tp_device *d = p->device[p->record_on];
    tp_status st = d->record_begin(d);
    if (st != TP_OK) return st;
    tp_status run_status = tp__plan_sync_devices(p, false);
    if (d->make_current) d->make_current(d);
    if (run_status == TP_OK)
        run_status = tp__can_record_steps(p, d, piece) ? tp__record_steps(p, d, piece->from, piece->to)
                                                       : tp__run_steps(p, NULL, false, piece->from, piece->to);
    const tp_status back = tp__plan_sync_devices(p, true);
    st = d->record_end(d, &piece->recording);
    if (back != TP_OK) st = back;
    if (run_status != TP_OK) st = run_status;
    return st == TP_OK && !piece->recording ? tp_fail(TP_ERR, "it gave no recording") : st;
}

/* Records the pieces of a plan. If one cannot be recorded, the plan runs kernel by kernel from now on. */
static void tp__record(tp__plan *p)
{
    tp_status st = TP_OK;
    for (int i = 0; i < p->n_piece && st == TP_OK; i++)
        if (!tp__on_host(&p->step[p->piece[i].from])) st = tp__record_piece(p, &p->piece[i]);
    p->recorded = st == TP_OK;
    if (p->recorded) return;
    const char *name = p->device[p->record_on]->name;
    tp_log_once(TP_LOG_WARN, "%s cannot record a plan, which runs kernel by kernel: %s", name, tp_last_error());
    tp__forget_recording(p);
    p->record_on = -1;
}

static tp_status tp__replay(tp__plan *p, const tp__plan_piece *piece, tp__running *r)
{
    tp_device *d = p->device[p->record_on];
    tp_status st = TP_OK;
    if (piece->from <= p->first_write) st = tp__running_check(r, "it stood before its recorded step on", d->name);
    if (st == TP_OK) st = tp__plan_sync_devices(p, true); /* replay after uploads to other devices and after host ops */
    if (st == TP_OK) st = d->replay(d, piece->recording);
    return st == TP_OK ? tp__plan_sync_devices(p, false) : st;
}

/* Runs the plan in the fastest possible way. The first run after the plan's pointers were resolved calls the kernels one by one;
 * the second run records the plan; later runs replay the recording, in pieces if host ops are between them. */
static tp_status tp__plan_run(tp__plan *p, tp__running *r, bool timing)
{
    const bool one_by_one = timing || r->trace; /* when timing or tracing, each kernel is measured by itself */
    if (TP__HAS_DEVICES && !one_by_one && p->record_on >= 0 && p->has_run > 0 && !p->recorded) tp__record(p);
    p->has_run = 1;
    if (!TP__HAS_DEVICES || one_by_one || !p->recorded) return tp__run_steps(p, r, timing, 0, p->n_step);
    tp_status st = TP_OK;
    for (int i = 0; i < p->n_piece && st == TP_OK; i++) {
        const tp__plan_piece *piece = &p->piece[i];
        st = piece->recording ? tp__replay(p, piece, r) : tp__run_steps(p, r, false, piece->from, piece->to);
    }
    return st;
}

/* bytes from which a value is staged: for a smaller one staging takes longer than a plain upload */
#define TP__STAGE_LEAST 16384

/* Copies the fed values to their fixed places in the arena, where a recording reads them. A large value is staged: its
 * upload overlaps with work that the device still does, and is then copied to its place in the order of that work. With a
 * StagingInput it was staged earlier, by tp_device.stage during the last step, and only the second loop remains. */
static tp_status tp__run_feeds(tp__plan *p, tp_exec *e, const tp_feed *feeds, double *moved)
{
    tp_status st = TP_OK;
    for (int i = 0; i < p->n_upload; i++) {
        tp__upload *u = &p->upload[i];
        tp_device *d = p->device[p->buffer[u->buffer].device];
        const size_t bytes = tp_tensor_bytes(&feeds[u->feed].value);
        if (TP__HAS_TRACE) *moved += (double)bytes;
        u->staged = -1;
        if (TP__HAS_DEVICES && st == TP_OK && !feeds[u->feed].value.device && d->stage && d->unstage &&
            bytes >= TP__STAGE_LEAST)
            st = d->stage(d, feeds[u->feed].value.data, bytes, &u->staged);
    }
    for (int i = 0; i < p->n_upload; i++) {
        const tp__upload *u = &p->upload[i];
        tp_device *d = p->device[p->buffer[u->buffer].device];
        void *place = tp__buffer_data(p, e, u->buffer);
        const size_t bytes = tp_tensor_bytes(&feeds[u->feed].value);
        if (TP__HAS_DEVICES && u->staged >= 0) {
            const tp_status taken = d->unstage(d, u->staged, st == TP_OK ? place : NULL);
            if (st == TP_OK) st = taken;
        } else if (TP__HAS_DEVICES && st == TP_OK && bytes && feeds[u->feed].value.device)
            st = tp__run_feed_device(d, place, &feeds[u->feed].value);
        else if (st == TP_OK && bytes) st = d->upload(d, place, feeds[u->feed].value.data, bytes);
    }
    return st;
}

#ifndef TP_NO_SENTENCES
static void tp__index_of(int64_t i, const tp_shape *s, int64_t *index);
/* Finds the bad number `value` in input x of an op. If x is a fed integer tensor, perhaps behind casts and reshapes, writes the place
 * for the error sentence: "; 'label' has it at element (37)". Returns how many elements have the value; -1: x is no such tensor. */
static int64_t tp__fault_place(const tp_node *x, const tp_feed *feeds, int n_feeds, int64_t value, char *text,
                               size_t size)
{
    while (x->op->row == &tp__op_cast || x->op->row == &tp__op_identity ||
           ((x->op->row->flags & TP_OP_VIEW) && !tp__is_writer(x->op)))
        x = x->op->in[0];
    char element[TP_SHAPE_TEXT];
    if (x->dtype != TP_I32 && x->dtype != TP_I64 && x->dtype != TP_U8) return -1;
    int64_t found = -1;
    for (int i = 0; i < n_feeds; i++) {
        if (feeds[i].node != x || feeds[i].value.device) continue;
        const int64_t n = tp_tensor_size(&feeds[i].value);
        found = 0;
        for (int64_t k = 0; k < n; k++)
            if (tp_tensor_get(&feeds[i].value, k) == (double)value && found++ == 0) {
                tp_shape at = feeds[i].value.shape;
                tp__index_of(k, &feeds[i].value.shape, at.dim);
                tp__format(text, size, "; '%.200s' has it at element %s", x->op->name, tp_shape_text(&at, element));
            }
    }
    return found;
}

#endif
/* Reports that a kernel met bad data: the sentence of its row, the shapes of its inputs, and where in a feed the data is. */
static tp_status tp__run_fault(const tp_graph *g, int64_t id, int64_t value, const tp_feed *feeds, int n_feeds)
{
    const tp_operation *o = (const tp_operation *)g->op.item[id - 1];
#ifdef TP_NO_SENTENCES
    (void)value, (void)feeds, (void)n_feeds;
    return (tp__plan_fail)(o, TP_ERR_NUMERIC, NULL);
#else
    char text[1024], place[TP__PLACE_TEXT], shape[TP_SHAPE_TEXT];
    int n = tp__format(text, sizeof text, o->row->fault ? o->row->fault : "bad data (%lld)", (long long)value);
    for (int i = 0; i < o->n_in && n >= 0 && n < (int)sizeof text; i++)
        n += tp__format(text + n, sizeof text - (size_t)n, "%s'%.200s' %s", i ? ", " : "; the inputs are ",
                        o->in[i]->op->name, tp_shape_text(&o->in[i]->shape, shape));
    /* of several integer inputs, such as labels and their lengths, the place is told only if one element alone has the value */
    int64_t n_places = 0;
    int integer_inputs = 0;
    char where[440] = "";
    for (int i = 0; i < o->n_in; i++) {
        const int64_t found = tp__fault_place(o->in[i], feeds, n_feeds, value, where, sizeof where);
        integer_inputs += found >= 0;
        n_places += found > 0 ? found : 0;
    }
    if (n_places > 0 && (integer_inputs == 1 || n_places == 1) && n >= 0 && n < (int)sizeof text)
        tp__format(text + n, sizeof text - (size_t)n, "%s", where);
    tp__place_text(&o->at, place);
    const char *message = o->row == &tp__op_check_numerics ? ((const tp__message_attrs *)o->attrs)->message : NULL;
    return message && *message ? tp_fail(TP_ERR_NUMERIC, "%s%s: '%s': %s", place, message, o->name, text)
                               : tp_fail(TP_ERR_NUMERIC, "%s'%s': %s", place, o->name, text);
#endif
}

/* Waits for the work that a failed run has queued, so that it cannot overwrite what the next run reads. Keeps the error
 * sentence. */
static tp_status tp__run_failed(const tp__plan *p, tp_status st)
{
    char sentence[TP__ERROR_TEXT];
    tp__format(sentence, sizeof sentence, "%s", tp_last_error());
    for (int i = 0; i < p->n_device; i++)
        if (p->used[i]) (void)p->device[i]->wait(p->device[i]);
    return (tp_fail)(st, "%s", sentence);
}

/* Copies the fetched values, and the fault words of each device, to the host. */
static tp_status tp__run_fetches(tp__plan *p, tp_exec *e, const tp_tensor **values, double *moved)
{
    tp_status st = TP_OK;
    for (int i = 0; i < p->n_device; i++) { /* queue the downloads of all devices first, then wait once */
        tp_device *d = p->device[i];
        if (p->used[i] && st == TP_OK)
            st =
                d->download(d, e->device_state[i].words, e->device_state[i].step_word, sizeof e->device_state[i].words);
    }
    for (int i = 0; i < p->n_fetch; i++) {
        const size_t bytes = tp_tensor_bytes(&p->value[i]);
        const void *src = tp__buffer_data(p, e, p->fetch_buffer[i]);
        if (bytes && src) {
            tp_device *d = p->device[p->buffer[p->fetch_buffer[i]].device];
            if (st == TP_OK) st = d->download(d, p->value[i].data, src, bytes);
            if (TP__HAS_TRACE) *moved += (double)bytes;
        }
        if (values) values[i] = &p->value[i];
    }
    for (int i = 0; i < p->n_device; i++) {
        const tp_status waited = p->used[i] ? p->device[i]->wait(p->device[i]) : TP_OK;
        if (st == TP_OK) st = waited;
    }
    return st;
}

/* Marks an exec or a predictor as running or idle by its flag `mark`; fails if it runs already. */
static tp_status tp__mark_running(bool *mark, bool running)
{
#ifdef TP_NO_THREADS
    const bool before = *mark;
    *mark = running;
#else
    const bool before = __atomic_exchange_n(mark, running, __ATOMIC_ACQ_REL);
#endif
    return !running || !before
               ? TP_OK
               : tp_fail(TP_ERR_STATE,
                         "two runs at a time of one exec: one thread may use an exec, and a predictor, at a time: "
                         "give each thread its own (tp_multi_tower_predictor, tp_exec_new)");
}

/* What steps kept in the plan's last run is ready if no variable has changed since. */
static void tp__plan_use_kept(tp__plan *p, uint64_t version)
{
    for (int i = 0; i < p->n_step; i++)
        p->step[i].call.kept_is_ready = p->step[i].call.kept && p->kept_version == version;
}

static tp_status tp__exec_run_alone(tp_exec *e, tp__running *r, const tp_feed *feeds, int n_feeds,
                                    tp_node *const *fetches, int n_fetches, const tp_tensor **values)
{
    tp_session *s = e->session;
    tp_status st = tp__check_run(s, feeds, n_feeds, fetches, n_fetches);
    if (st != TP_OK) return st;
    tp__plan *p = NULL;
    tp_mutex_lock(s->graph->lock); /* lock, because execs of other threads use the same graph and session */
    if (s->n_var < s->graph->var.n) st = tp__session_grow(s);
    if (st == TP_OK) p = tp__find_plan(e, feeds, n_feeds, fetches, n_fetches, &st);
    tp_mutex_unlock(s->graph->lock);
    if (!p) return st;
    p->used_at = ++e->clock;
    if (p->arena_version != e->arena_version) tp__plan_bind(p, e);
    tp__running_add_record(r, TP_TRACE_PLAN, 0);
    uint64_t words[3];
    words[0] = e->random_step++;
    words[1] = words[2] = 0;
    double moved = 0;
    for (int i = 0; i < p->n_device; i++) {
        tp_device *d = p->device[i];
        if (p->used[i] && st == TP_OK) st = d->upload(d, e->device_state[i].step_word, words, sizeof words);
    }
    if (st == TP_OK) st = tp__run_feeds(p, e, feeds, &moved);
    if (st != TP_OK) return tp__run_failed(p, st);
    if (TP__HAS_TRACE && r->trace) tp__running_watch(r, p);
    tp__running_add_record(r, TP_TRACE_FEED, moved);
    /* in every kernel denormals are zero, whatever the caller's floating-point mode */
    const unsigned mode = tp__float_mode_enter();
    tp__watch *const before = tp__watching; /* not NULL if this run was called by a host op of another run */
    if (r->watch) tp__watching = r->watch;
    const uint64_t version = TP__WIDE_LOAD(&s->var_version);
    tp__plan_use_kept(p, version);
    st = tp__plan_run(p, r, e->timing);
    p->kept_version = st == TP_OK ? version : 0;
    if (p->first_write < p->n_step) tp__variables_changed(s);
    tp__watching = before;
    tp__float_mode_leave(mode);
    if (r->stopped) e->random_step = words[0];
    if (st != TP_OK) return tp__run_failed(p, st);
    moved = 0;
    st = tp__run_fetches(p, e, values, &moved);
    tp__running_add_record(r, TP_TRACE_FETCH, moved);
    if (st != TP_OK) return tp__run_failed(p, st);
    for (int i = 0; i < p->n_device && st == TP_OK; i++)
        if (p->used[i] && e->device_state[i].words[1] != 0)
            st = tp__run_fault(s->graph, (int64_t)e->device_state[i].words[1], (int64_t)e->device_state[i].words[2],
                               feeds, n_feeds);
    return st;
}

static tp_status tp__exec_run(tp_exec *e, tp__running *r, const tp_feed *feeds, int n_feeds, tp_node *const *fetches,
                              int n_fetches, const tp_tensor **values)
{
    tp_status st = tp__mark_running(&e->running, true);
    if (st != TP_OK) return st;
    tp__session_hold(e->session, true);
    st = tp__exec_run_alone(e, r, feeds, n_feeds, fetches, n_fetches, values);
    tp__session_hold(e->session, false);
    tp__mark_running(&e->running, false);
    return st;
}

TP_DEF tp_status tp_exec_run_ex(tp_exec *e, const tp_run_options *o, const tp_feed *feeds, int n_feeds,
                                tp_node *const *fetches, int n_fetches, const tp_tensor **values)
{
    TP__REQUIRE(e && (feeds || n_feeds == 0) && n_feeds >= 0 && (fetches || n_fetches == 0) && n_fetches >= 0,
                TP_ERR_ARG)

    tp__running r;
    if (o && o->timeout_ms < 0)
        return tp_fail(TP_ERR_ARG, "a run's time limit of %lld ms makes no sense: 0 is none", (long long)o->timeout_ms);
    if (!TP__HAS_CLOCK && o && o->timeout_ms > 0)
        return tp_fail(TP_ERR_UNSUPPORTED,
                       "this program was built with TP_NO_STDIO for a processor without an operating system: "
                       "there is no clock for a time limit");
    if (!TP__HAS_TRACE && o && o->trace)
        return tp_fail(TP_ERR_UNSUPPORTED, "this program was built with TP_NO_TRACE: a run cannot be traced");
    tp__running_begin(&r, e->session, o ? o->timeout_ms : 0);
    if (TP__HAS_TRACE && o && o->trace) tp__running_trace(&r, o->trace, tp__clock_ns());
    const tp_status st = tp__exec_run(e, &r, feeds, n_feeds, fetches, n_fetches, values);
    tp__running_end(&r);
    return st;
}
TP_DEF tp_status tp_exec_run(tp_exec *e, const tp_feed *feeds, int n_feeds, tp_node *const *fetches, int n_fetches,
                             const tp_tensor **values)
{
    return tp_exec_run_ex(e, NULL, feeds, n_feeds, fetches, n_fetches, values);
}

TP_DEF int tp_session_cancel(tp_session *s)
{
    TP__REQUIRE(s, 0)
    return (int)(uint32_t)TP__WIDE_ADD(
        /* one more cancellation in the upper half; the lower half counts the runs in progress */
        &s->runs, (uint64_t)1 << 32);
}

TP_DEF tp_status tp_session_run_ex(tp_session *s, const tp_run_options *o, const tp_feed *feeds, int n_feeds,
                                   tp_node *const *fetches, int n_fetches, const tp_tensor **values)
{
    TP__REQUIRE(s, TP_ERR_ARG)

    tp_exec *e = tp_session_exec(s);
    if (!e) return TP_ERR_NOMEM;
    return tp_exec_run_ex(e, o, feeds, n_feeds, fetches, n_fetches, values);
}
TP_DEF tp_feed tp_make_feed(tp_node *node, tp_dtype dtype, tp_shape shape, const void *data)
{
    tp_feed feed = TP_EMPTY;
    feed.node = node;
    tp_tensor_view(&feed.value, dtype, shape, data);
    return feed;
}

TP_DEF tp_status tp_session_run(tp_session *s, const tp_feed *feeds, int n_feeds, tp_node *const *fetches,
                                int n_fetches, const tp_tensor **values)
{
    return tp_session_run_ex(s, NULL, feeds, n_feeds, fetches, n_fetches, values);
}

TP_DEF tp_status tp_session_eval(tp_session *s, tp_node *fetch, tp_tensor *value)
{
    char reason[TP__MISSING_TEXT];
    if (s && !fetch)
        return tp_fail(TP_ERR_ARG, "tp_session_eval: the fetch is NULL%s",
                       tp__node_missing(tp_session_graph(s), reason));
    if (!s)
        return tp_fail(TP_ERR_ARG, "tp_session_eval: the session is NULL (in a callback train->session is there from "
                                   "before_train on)");
    TP__REQUIRE(value, TP_ERR_ARG)

    const tp_tensor *v = NULL;
    const tp_status st = tp_session_run(s, NULL, 0, &fetch, 1, &v);
    return st == TP_OK ? tp_tensor_copy(value, v) : st;
}

/* One test of gradients: its nodes, feeds that it may change, and what it found. */
typedef struct tp__gradient_test {
    tp_node *cost, **x, **dx; /* n of x: the nodes of the floating feeds; dx NULL: y does not depend on it */
    int *feed_of;             /* index of the feed of x[i] */
    int n, n_feed;
    tp_feed *feed;
    tp_tensor *gradient;
    tp_session *session;
    double
        worst; /* the largest difference, of element `element` of x[at]: `said` by the gradient, `found` by differences */
    int at;
    int64_t element;
    double said, found;
} tp__gradient_test;

static tp_status tp__gradient_test_run(const tp__gradient_test *t, tp_node *const *fetches, int n, const tp_tensor **v)
{
    tp_exec *e = tp_session_exec(t->session);
    if (!e) return TP_ERR_NOMEM;
    tp_exec_set_random_step(e, 0);
    return tp_exec_run(e, t->feed, t->n_feed, fetches, n, v);
}

/* Compares the gradient of x[i], element by element. */
static tp_status tp__gradient_test_one(tp__gradient_test *t, int i)
{
    tp_tensor *x = &t->feed[t->feed_of[i]].value;
    const double step = x->dtype == TP_F64 ? 1e-5 : 1e-2;
    for (int64_t k = 0; k < tp_tensor_size(x); k++) {
        const double at = tp_tensor_get(x, k), h = step * fmax(1, fabs(at));
        double cost[2], moved[2];
        for (int side = 0; side < 2; side++) {
            const tp_tensor *v = NULL;
            tp_tensor_set(x, k, side ? at + h : at - h);
            moved[side] = tp_tensor_get(x, k); /* as it was rounded */
            const tp_status st = tp__gradient_test_run(t, &t->cost, 1, &v);
            if (st != TP_OK) return st;
            cost[side] = tp_tensor_get(v, 0);
        }
        tp_tensor_set(x, k, at);
        const double found = (cost[1] - cost[0]) / (moved[1] - moved[0]);
        const double said = t->dx[i] ? tp_tensor_get(&t->gradient[i], k) : 0;
        const double off = fabs(found - said) / fmax(1, fmax(fabs(found), fabs(said)));
        if (off <= t->worst) continue;
        t->worst = off, t->at = i, t->element = k, t->said = said, t->found = found;
        if (!(off <= DBL_MAX)) return TP_OK; /* NaN: nothing is worse */
    }
    return TP_OK;
}

/* Adds the nodes, and makes the session and the tensors that the test changes. */
static tp_status tp__gradient_test_begin(tp__gradient_test *t, tp_node *y, const tp_feed *feeds)
{
    tp_graph *g = tp_node_graph(y);
    tp_node *flat = tp_flatten(y), *number = tp_cumsum(tp_ones_like(flat), 0, false, false);
    t->cost = tp_sum(tp_mul(flat, tp_sin(tp_affine(number, 1.7f, 0)))); /* a plain sum would hide what cancels in it */
    t->feed = (tp_feed *)tp_graph_alloc(g, ((size_t)t->n_feed + 1) * sizeof *t->feed);
    t->x = (tp_node **)tp_graph_alloc(g, ((size_t)t->n_feed + 1) * sizeof *t->x);
    t->dx = (tp_node **)tp_graph_alloc(g, ((size_t)t->n_feed + 1) * sizeof *t->dx);
    t->feed_of = (int *)tp_graph_alloc(g, ((size_t)t->n_feed + 1) * sizeof *t->feed_of);
    t->gradient = (tp_tensor *)tp_graph_alloc(g, ((size_t)t->n_feed + 1) * sizeof *t->gradient);
    if (!t->feed || !t->x || !t->dx || !t->feed_of || !t->gradient) return TP_ERR_NOMEM;
    for (int i = 0; i < t->n_feed; i++) {
        t->feed[i].node = feeds[i].node;
        const tp_status st = tp_tensor_copy(&t->feed[i].value, &feeds[i].value);
        if (st != TP_OK) return st;
        if (!feeds[i].node || !tp_dtype_is_float(feeds[i].node->dtype)) continue;
        t->feed_of[t->n] = i;
        t->x[t->n++] = feeds[i].node;
    }
    if (t->n == 0) tp_graph_fail(g, NULL, TP_ERR_ARG, "no floating value is fed: there is no gradient to test");
    tp_gradients(t->cost, t->x, t->n, t->dx);
    if (tp__is_broken(g)) return tp_fail(g->status, "%s", g->error);
    tp_session_config c;
    memset(&c, 0, sizeof c);
    c.threads = 1;
    t->session = tp__session_make(g, &c);
    return t->session ? TP_OK : TP_ERR_NOMEM;
}

static tp_status tp__gradient_test_all(tp__gradient_test *t, tp_node *y, const tp_feed *feeds, double tolerance)
{
    tp_status st = tp__gradient_test_begin(t, y, feeds);
    const tp_tensor *v = NULL;
    bool single = false;
    for (int i = 0; i < t->n && st == TP_OK; i++) {
        single = single || t->x[i]->dtype != TP_F64;
        if (!t->dx[i]) continue;
        st = tp__gradient_test_run(t, &t->dx[i], 1, &v);
        if (st == TP_OK) st = tp_tensor_copy(&t->gradient[i], v);
        if (st == TP_OK && !tp_shape_equal(&v->shape, &t->feed[t->feed_of[i]].value.shape)) {
            char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
            st = tp_fail(TP_ERR_SHAPE, "the gradient of '%s' by '%s' has shape %s, but '%s' has shape %s", y->op->name,
                         t->x[i]->op->name, tp_shape_text(&v->shape, a), t->x[i]->op->name,
                         tp_shape_text(&t->feed[t->feed_of[i]].value.shape, b));
        }
    }
    for (int i = 0; i < t->n && st == TP_OK; i++) st = tp__gradient_test_one(t, i);
    if (tolerance <= 0) tolerance = single ? 0.02 : 1e-6;
    if (st != TP_OK || t->worst <= tolerance) return st;
    char place[TP__PLACE_TEXT];
    const bool finite = tp__finite(t->said) && tp__finite(t->found);
    return tp_fail(
        TP_ERR_NUMERIC,
        "%sthe gradient of '%s' by element %lld of '%s' is %g, by finite differences %g (relative difference %.2g, "
        "tolerance %.2g): %s%s",
        tp__place_text(&y->op->at, place), y->op->name, (long long)t->element, t->x[t->at]->op->name, t->said, t->found,
        t->worst, tolerance,
        finite ? "look at the grad function of your op, and whether the function has a kink there"
               : "the values that are fed lie outside of where the function has a derivative",
        t->dx[t->at] ? "" : "; it sets no gradient of this input");
}

TP_DEF tp_status tp_check_gradients(tp_node *y, const tp_feed *feeds, int n_feeds, double tolerance, double *worst)
{
    tp_graph *g = tp_node_graph(y);
    tp__gradient_test t;
    memset(&t, 0, sizeof t);
    if (worst) *worst = (double)NAN;
    TP__REQUIRE(y && feeds && n_feeds > 0, TP_ERR_ARG)
    if (tp__is_broken(g)) return tp_fail(g ? g->status : TP_ERR_ARG, "%s", g ? g->error : tp__no_node_sentence);
    if (!tp_dtype_is_float(y->dtype))
        return tp_fail(TP_ERR_DTYPE, "'%s' is %s: only a floating value has a gradient", y->op->name,
                       tp_dtype_name(y->dtype));
    t.n_feed = n_feeds;
    const tp_status st = tp__gradient_test_all(&t, y, feeds, tolerance);
    if (worst && (st == TP_OK || st == TP_ERR_NUMERIC)) *worst = t.worst;
    for (int i = 0; i < n_feeds; i++) {
        if (t.feed) tp_tensor_free(&t.feed[i].value);
        if (t.gradient) tp_tensor_free(&t.gradient[i]);
    }
    tp_session_free(t.session);
    return st;
}

TP_DEF tp_status tp_eval_now(tp_node *x, const tp_feed *feeds, int n_feeds, tp_tensor *value)
{
    tp_graph *g = tp_node_graph(x);
    TP__REQUIRE(x && (feeds || n_feeds == 0) && n_feeds >= 0, TP_ERR_ARG)
    if (tp__is_broken(g)) return tp_fail(g ? g->status : TP_ERR_ARG, "%s", g ? g->error : tp__no_node_sentence);
    tp_session_config c;
    memset(&c, 0, sizeof c);
    c.threads = 1;
    tp_session *s = tp__session_make(g, &c);
    const tp_tensor *v = NULL;
    tp_status st = s ? tp_session_run(s, feeds, n_feeds, &x, 1, &v) : TP_ERR_NOMEM;
    if (st == TP_OK && value) st = tp_tensor_copy(value, v);
    if (st == TP_OK && !value) {
        char shape[TP_SHAPE_TEXT];
        tp_buf text;
        memset(&text, 0, sizeof text);
        for (int64_t i = 0; i < tp_tensor_size(v) && i < 20; i++) tp_buf_printf(&text, " %.6g", tp_tensor_get(v, i));
        tp_log(TP_LOG_INFO, "%s %s %s:%s%s", x->op->name, tp_dtype_name(v->dtype), tp_shape_text(&v->shape, shape),
               text.data ? text.data : "", tp_tensor_size(v) > 20 ? " ..." : "");
        tp_buf_free(&text);
    }
    tp_session_free(s);
    return st;
}

static tp_status tp__no_variable(const tp_graph *g)
{
    char reason[TP__MISSING_TEXT];
    return tp_fail(TP_ERR_ARG, "there is no variable: it is NULL%s", tp__missing(g, true, reason));
}

TP_DEF tp_status tp_session_read(tp_session *s, const tp_variable *v, tp_tensor *value)
{
    if (s && !v) return tp__no_variable(s->graph);
    TP__REQUIRE(s && v && value, TP_ERR_ARG)

    tp_status st = tp__session_grow(s);
    if (st == TP_OK) st = tp_tensor_resize(value, v->dtype, v->shape);
    if (st != TP_OK || !tp_tensor_bytes(value)) return st;
    tp_device *d = s->device[v->device];
    st = d->download(d, value->data, s->var_data[v->id], tp_tensor_bytes(value));
    return st == TP_OK ? d->wait(d) : st; /* wait, because the caller may read the value at once */
}

/* Whether a value can be loaded into a variable. */
static tp_status tp__may_load(const tp_variable *v, const tp_tensor *value)
{
    if (!tp_shape_equal(&v->shape, &value->shape)) {
        char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
        return tp_fail(TP_ERR_SHAPE, "variable '%s' has shape %s, the value to load has %s", v->name,
                       tp_shape_text(&v->shape, a), tp_shape_text(&value->shape, b));
    }
    if (v->dtype != value->dtype && !(tp_dtype_is_float(v->dtype) && tp_dtype_is_float(value->dtype)))
        return tp_fail(TP_ERR_DTYPE, "variable '%s' is %s, the value to load is %s", v->name, tp_dtype_name(v->dtype),
                       tp_dtype_name(value->dtype));
    if (value->device && !value->device->host)
        return tp_fail(TP_ERR_ARG,
                       "the value to load into variable '%s' lies on %s: bring it to the host, by tp_tensor_copy",
                       v->name, value->device->name);
    return TP_OK;
}

TP_DEF tp_status tp_session_load(tp_session *s, const tp_variable *v, const tp_tensor *value)
{
    if (s && !v) return tp__no_variable(s->graph);
    TP__REQUIRE(s && v && value, TP_ERR_ARG)

    tp_status st = tp__session_grow(s);
    if (st != TP_OK) return st;
    if ((st = tp__may_load(v, value)) != TP_OK) return st;
    if (v->id < s->n_loaded) s->loaded[v->id] = true;
    tp_device *d = s->device[v->device];
    if (v->dtype == value->dtype) {
        const size_t bytes = tp_tensor_bytes(value);
        st = bytes ? d->upload(d, s->var_data[v->id], value->data, bytes) : TP_OK;
        tp__variables_changed(s);
        return st;
    }
    tp_tensor t;
    memset(&t, 0, sizeof t);
    if ((st = tp_tensor_resize(&t, v->dtype, v->shape)) != TP_OK) return st;
    if (tp_tensor_bytes(&t)) {
        tp_convert(t.data, v->dtype, value->data, value->dtype, tp_tensor_size(&t));
        st = d->upload(d, s->var_data[v->id], t.data, tp_tensor_bytes(&t));
        tp__variables_changed(s);
    }
    tp_tensor_free(&t);
    return st;
}

TP_DEF int64_t tp_get_global_step_value(tp_session *s)
{
    TP__REQUIRE(s, 0)

    const tp_variable *v = tp__variable_named(s->graph, "global_step");
    tp_tensor t;
    memset(&t, 0, sizeof t);
    int64_t step = 0;
    if (v && tp_session_read(s, v, &t) == TP_OK && tp_tensor_size(&t) > 0)
        tp_convert(&step, TP_I64, t.data, t.dtype, 1);
    tp_tensor_free(&t);
    return step;
}

/* -- listings of a plan */

/* The plan of these fetches that ran last; fetches NULL: of all plans. */
static tp__plan *tp__latest_plan(tp_exec *e, tp_node *const *fetches, int n_fetches)
{
    tp__plan *best = NULL;
    for (tp__plan *p = e->plans; p; p = p->next) {
        bool matches = !fetches || p->n_fetch == n_fetches;
        for (int i = 0; i < n_fetches && matches; i++) matches = p->fetch[i] == fetches[i];
        if (matches && (!best || p->used_at > best->used_at)) best = p;
    }
    if (!best)
        tp_fail(TP_ERR_STATE, "%s",
                fetches
                    ? "these fetches were not run yet, so there is no plan of them: a step of a trainer also fetches "
                      "what its callbacks ask for; fetches NULL: the plan of the last run"
                    : "nothing was run yet, so there is no plan");
    return best;
}

TP_DEF tp_status tp_exec_plan_info(tp_exec *e, tp_node *const *fetches, int n_fetches, tp_plan_info *info)
{
    TP__REQUIRE(e && info && (fetches || n_fetches == 0) && n_fetches >= 0, TP_ERR_ARG)

    const tp__plan *p = tp__latest_plan(e, fetches, n_fetches);
    if (!p) return TP_ERR_STATE;
    *info = p->info;
    info->recorded = p->recorded;
    return TP_OK;
}

TP_DEF tp_status tp_exec_print_plan(tp_exec *e, tp_node *const *fetches, int n_fetches, tp_buf *out)
{
    TP__REQUIRE(e && out && (fetches || n_fetches == 0) && n_fetches >= 0, TP_ERR_ARG)

    const tp__plan *p = tp__latest_plan(e, fetches, n_fetches);
    if (!p) return TP_ERR_STATE;
    char t[TP_SHAPE_TEXT], kernel[256];
    tp_buf_printf(out, "%4s  %-28s %-20s %12s %12s %10s  %s\n", "step", "kernel", "output", "KiB moved", "MFLOP", "ms",
                  "node");
    for (int i = 0; i < p->n_step; i++) {
        const tp__step *s = &p->step[i];
        const tp_call *k = &s->call;
        if (s->from >= 0) /* a copy names both devices; for other steps the node tells the device */
            tp__format(kernel, sizeof kernel, "copy %s to %s", p->device[s->from]->name, k->device->name);
        else tp__format(kernel, sizeof kernel, "%s", k->op->name);
        if (k->op == &tp__op_fused) {
            const tp__program *prog = (const tp__program *)k->attrs;
            size_t at = 0;
            for (int j = 0; j < prog->n_instr && at + 24 < sizeof kernel; j++)
                at += (size_t)tp__format(kernel + at, sizeof kernel - at, "%s%.16s", j ? "+" : "",
                                         prog->instr[j].row->name);
        }
        tp_buf_printf(out, "%4d  %-28s %-20s %12.1f %12.3f ", i, kernel,
                      k->n_out ? tp_shape_text(&k->out[0].shape, t) : "", tp__step_bytes(s) / 1024.0,
                      tp__step_flops(s) / 1e6);
        if (s->runs) tp_buf_printf(out, "%10.4f", s->seconds * 1e3 / (double)s->runs);
        else tp_buf_printf(out, "%10s", "-");
        tp_buf_printf(out, "  %s", s->name);
        if (p->n_device > 1 && s->from < 0) tp_buf_printf(out, " on %s", k->device->name);
        for (int r = 0; r < s->n_rule; r++) tp_buf_printf(out, "%s%s", r ? "; " : " [", s->rule[r]->name);
        tp_buf_printf(out, s->n_rule ? "]\n" : "\n");
    }
    tp_buf_printf(
        out,
        "%d kernels, %d ops fused, %d folded; arena %.1f KiB, constants %.1f KiB; %.3f MFLOP, %.1f KiB moved a run\n",
        p->info.n_steps, p->info.n_fused, p->info.n_folded, (double)p->info.arena_bytes / 1024.0,
        (double)p->info.constant_bytes / 1024.0, p->info.flops / 1e6, p->info.bytes / 1024.0);
    return out->failed ? tp_fail(TP_ERR_NOMEM, "out of memory while a plan was printed") : TP_OK;
}

/* ==== >>hooked runs =================================================================================== */

struct tp_run_request {
    tp_node **fetch;
    int n_fetch, cap_fetch;
    tp_feed *feed;
    int n_feed, cap_feed;
    int first, first_feed; /* indices of the first fetch and the first feed of the hook that is being called */
    tp__running run;
    int64_t begun; /* start of the run, in nanoseconds */
    int n_datapoints;
    tp_graph *graph;
    tp_exec *exec;
    tp_status status;
    /* hooks wait for data also after Ctrl-C: a training needs this run to finish what it has begun */
    bool ignores_interrupt;
};

struct tp_hooked_session {
    tp_owner owner_; /* the trainer that made it, and frees it */
    bool in_run;     /* tp_hooked_run is under way: a hook must not start another one */
    tp_session *session;
    tp_exec *exec;
    tp_hook **hook;
    int n_hook;
    int *first, *count; /* for each hook: index of its first fetch, and number of its fetches */
    tp_run_request request;
    const tp_tensor **value;
    int cap_value;
    bool stop;
    int64_t timeout_ms;
    int n_datapoints;
};

TP_DEF int tp_request_fetch(tp_run_request *r, tp_node *n)
{
    TP__REQUIRE(r, -1)

    if (!n) {
        char missing[TP__MISSING_TEXT];
        r->status =
            tp_fail(TP_ERR_ARG, "a hook asks for a node that does not exist%s", tp__node_missing(r->graph, missing));
        return -1;
    }
    if (r->n_fetch == r->cap_fetch) {
        const int cap = r->cap_fetch ? r->cap_fetch * 2 : 32;
        tp_node **f = (tp_node **)tp_realloc((void *)r->fetch, (size_t)cap * sizeof *f);
        if (!f) {
            r->status = TP_ERR_NOMEM;
            return -1;
        }
        r->fetch = f;
        r->cap_fetch = cap;
    }
    r->fetch[r->n_fetch++] = n;
    return r->n_fetch - 1 - r->first;
}

TP_DEF tp_status tp_request_feed(tp_run_request *r, tp_node *n, const tp_tensor *value)
{
    TP__REQUIRE(r, TP_ERR_ARG)

    if (!n) {
        char missing[TP__MISSING_TEXT];
        return r->status = tp_fail(TP_ERR_ARG, "a hook feeds a node that does not exist%s",
                                   tp__node_missing(r->graph, missing));
    }
    if (!value) return r->status = tp_fail(TP_ERR_ARG, "a hook feeds '%s' a value that is NULL", n->op->name);
    for (int i = 0; i < r->n_feed; i++)
        if (r->feed[i].node == n)
            return r->status = tp_fail(TP_ERR_ARG,
                                       i < r->first_feed ? "two hooks feed '%s' in one run"
                                                         : "a hook feeds '%s' twice in one run",
                                       n->op->name);
    if (r->n_feed == r->cap_feed) {
        const int cap = r->cap_feed ? r->cap_feed * 2 : 8;
        tp_feed *f = (tp_feed *)tp_realloc(r->feed, (size_t)cap * sizeof *f);
        if (!f) return r->status = TP_ERR_NOMEM;
        r->feed = f;
        r->cap_feed = cap;
    }
    r->feed[r->n_feed].node = n;
    memset(&r->feed[r->n_feed].value, 0, sizeof r->feed[r->n_feed].value);
    tp_tensor_view(&r->feed[r->n_feed].value, value->dtype, value->shape, value->data);
    r->feed[r->n_feed].value.device = value->device;
    r->feed[r->n_feed].value.staged_ = value->staged_;
    r->n_feed++;
    return TP_OK;
}

TP_DEF tp_status tp_request_trace(tp_run_request *r, tp_trace *trace)
{
    TP__REQUIRE(r && trace, TP_ERR_ARG)

    if (r->run.trace && r->run.trace != trace)
        return r->status = tp_fail(TP_ERR_ARG, "two hooks trace one run, each for itself: share one trace");
    if (!r->run.trace) tp__running_trace(&r->run, trace, r->begun);
    return TP_OK;
}

TP_DEF int tp_request_datapoints(const tp_run_request *r)
{
    TP__REQUIRE(r, 0)
    return r->n_datapoints;
}

#define TP__WAIT_SLICE 0.01 /* seconds between checks for cancellation while a run waits */

TP_DEF tp_status tp_request_wait(tp_run_request *r, tp_cond *c, tp_mutex *m, const char *what)
{
    TP__REQUIRE(r && c && m && what, TP_ERR_ARG)

    const tp_status st = tp__running_check(&r->run, what, NULL);
    if (st != TP_OK) return st;
    const double left = r->run.deadline > 0 ? r->run.deadline - tp_time() : TP__WAIT_SLICE;
    tp_cond_wait_for(c, m, left < TP__WAIT_SLICE ? left : TP__WAIT_SLICE);
    return TP_OK;
}

static void tp__hooked_session_delete(tp_hooked_session *h);
TP_DEF tp_hooked_session *tp_hooked_session_new(tp_session *s, tp_hook *const *hooks, int n_hooks)
{
    TP__REQUIRE(s && (hooks || n_hooks == 0) && n_hooks >= 0, NULL)

    tp_hooked_session *h = (tp_hooked_session *)tp_calloc(1, sizeof *h);
    if (!h) return NULL;
    h->session = s;
    h->n_hook = n_hooks;
    h->exec = tp__exec_owned(s, "the hooked session");
    h->hook = (tp_hook **)tp_calloc((size_t)n_hooks + 1, sizeof *h->hook);
    h->first = (int *)tp_calloc((size_t)n_hooks + 1, sizeof(int));
    h->count = (int *)tp_calloc((size_t)n_hooks + 1, sizeof(int));
    if (!h->exec || !h->hook || !h->first || !h->count) {
        tp__hooked_session_delete(h);
        return NULL;
    }
    for (int i = 0; i < n_hooks; i++) h->hook[i] = hooks[i];
    return h;
}

static void tp__hooked_session_delete(tp_hooked_session *h)
{
    if (!h) return;
    tp__exec_delete(h->exec);
    tp_free((void *)h->hook);
    tp_free(h->first);
    tp_free(h->count);
    tp_free((void *)h->request.fetch);
    tp_free(h->request.feed);
    tp_free((void *)h->value);
    tp_free(h);
}
TP_DEF void tp_hooked_session_free(tp_hooked_session *h)
{
    if (h && tp__may_free(&h->owner_, __func__, "the hooked session")) tp__hooked_session_delete(h);
}

TP_DEF tp_exec *tp_hooked_session_exec(tp_hooked_session *h)
{
    TP__REQUIRE(h, NULL)
    return h->exec;
}
TP_DEF void tp_hooked_session_set_timeout(tp_hooked_session *h, int64_t timeout_ms)
{
    TP__REQUIRE(h && timeout_ms >= 0, )
    h->timeout_ms = timeout_ms;
}
TP_DEF void tp_hooked_session_set_datapoints(tp_hooked_session *h, int n)
{
    TP__REQUIRE(h && n >= 0, )
    h->n_datapoints = n;
}
TP_DEF void tp_hooked_session_request_stop(tp_hooked_session *h)
{
    TP__REQUIRE(h, )
    h->stop = true;
}
TP_DEF bool tp_hooked_session_should_stop(const tp_hooked_session *h)
{
    TP__REQUIRE(h, false)
    return h->stop;
}

/* Collects the fetches and feeds of the caller and of the hooks for a run. */
static tp_status tp__hooked_before(tp_hooked_session *h, tp_node *const *fetches, int n_fetches)
{
    tp_run_request *r = &h->request;
    for (int i = 0; i < n_fetches; i++) {
        if (!fetches[i]) {
            char reason[TP__MISSING_TEXT];
            tp__node_missing(r->graph, reason);
            return tp_fail(TP_ERR_ARG, "tp_hooked_run: fetch %d is NULL%s", i,
                           *reason ? reason : ": no node of that name, or no gradient");
        }
        if (tp_request_fetch(r, fetches[i]) < 0) return r->status;
    }
    for (int i = 0; i < h->n_hook; i++) {
        h->first[i] = r->first = r->n_fetch;
        r->first_feed = r->n_feed;
        tp_status st = h->hook[i]->before_run ? h->hook[i]->before_run(h->hook[i], r) : TP_OK;
        if (st == TP_OK) st = r->status;
        if (st != TP_OK) return st;
        h->count[i] = r->n_fetch - h->first[i];
    }
    if (r->n_fetch >= h->cap_value) { /* allocated even without fetches, so that h->value is never NULL */
        const int cap = r->n_fetch * 2 + 1;
        const tp_tensor **v = (const tp_tensor **)tp_realloc((void *)h->value, (size_t)cap * sizeof *v);
        if (!v) return TP_ERR_NOMEM;
        h->value = v;
        h->cap_value = cap;
    }
    return TP_OK;
}

static tp_status tp__hooked_run(tp_hooked_session *h, tp_node *const *fetches, int n_fetches, const tp_tensor **values)
{
    tp_run_request *r = &h->request;
    r->n_fetch = r->n_feed = 0;
    r->graph = h->session->graph;
    r->exec = h->exec;
    r->status = TP_OK;
    r->first = 0;
    tp__running_begin(&r->run, h->session, h->timeout_ms);
    r->begun = tp__clock_ns();
    r->n_datapoints = h->n_datapoints;
    tp_status st = tp__hooked_before(h, fetches, n_fetches);
    tp__running_add_record(&r->run, TP_TRACE_HOOKS, 0);
    if (st == TP_OK) st = tp__exec_run(h->exec, &r->run, r->feed, r->n_feed, r->fetch, r->n_fetch, h->value);
    tp__running_end(&r->run);
    if (st != TP_OK) return st;
    for (int i = 0; i < n_fetches && values; i++) values[i] = h->value[i];
    for (int i = 0; i < h->n_hook; i++) {
        if (!h->hook[i]->after_run) continue;
        tp_run_values v;
        v.value = h->value + h->first[i];
        v.n = h->count[i];
        if ((st = h->hook[i]->after_run(h->hook[i], &v)) != TP_OK) return st;
    }
    return TP_OK;
}

TP_DEF tp_status tp_hooked_run(tp_hooked_session *h, tp_node *const *fetches, int n_fetches, const tp_tensor **values)
{
    TP__REQUIRE(h && (fetches || n_fetches == 0) && n_fetches >= 0, TP_ERR_ARG)

    if (h->in_run)
        return tp_fail(TP_ERR_STATE,
                       "tp_hooked_run: a hook of this run (before_run or after_run of a callback) starts another one: "
                       "tp_request_fetch fetches in the same run, tp_session_run of the session runs other nodes");
    h->in_run = true;
    const tp_status st = tp__hooked_run(h, fetches, n_fetches, values);
    h->in_run = false;
    return st;
}

static tp_session *tp__create_new(tp_session_creator *c, tp_graph *g) { return tp_session_new(g, &c->config); }
static tp_session *tp__create_reuse(tp_session_creator *c, tp_graph *g)
{
    tp_session *s = (tp_session *)c->user;
    if (!s || s->graph != g)
        return tp_fail(TP_ERR_ARG, "the session to reuse is %s", s ? "of another graph" : "NULL"), (tp_session *)NULL;
    return s;
}

TP_DEF tp_session_creator tp_new_session_creator(const tp_session_config *config)
{
    tp_session_creator c;
    memset(&c, 0, sizeof c);
    c.create = tp__create_new;
    c.config = config ? *config : tp_default_session_config();
    return c;
}

static tp_session *tp__create_adapted(tp_session_creator *c, tp_graph *g)
{
    tp_session_adapter *a = (tp_session_adapter *)c->user;
    TP__REQUIRE(a && a->inner.create && a->fn, NULL)
    tp_session *s = a->inner.create(&a->inner, g);
    return s ? a->fn(s, a->user) : NULL;
}

TP_DEF tp_session_creator tp_session_creator_adapter(tp_session_adapter *a)
{
    tp_session_creator c;
    memset(&c, 0, sizeof c);
    c.create = tp__create_adapted;
    c.user = a;
    TP__REQUIRE(a, c)
    c.config = a->inner.config;
    c.borrowed = a->inner.borrowed;
    return c;
}

TP_DEF tp_session_creator tp_reuse_session_creator(tp_session *s)
{
    tp_session_creator c;
    memset(&c, 0, sizeof c);
    c.create = tp__create_reuse;
    c.user = s;
    c.borrowed = true;
    return c;
}

/* ==== >>saver ========================================================================================= */
/* A checkpoint is a set of named variables. Its "tp:" entries hold the other state that a bit-identical resume needs. A
 * file is written completely or not at all. */

#define TP__STATE_PREFIX "tp:"

/* Names under which tensorpack's tools store values that only training uses: no warning if the graph or the file lacks
 * them. */
static bool tp__is_training_name(const char *name)
{
    static const char *const suffixes[] = {"/Adam",    "/Adam_1",    "/Momentum", "/Adadelta", "/Adadelta_1",
                                           "/RMSProp", "/RMSProp_1", "/Adagrad",  "/AccumGrad"};
    const size_t n = strlen(name);
    for (int i = 0; i < TP_COUNT(suffixes); i++) {
        const size_t m = strlen(suffixes[i]);
        if (n >= m && strcmp(name + n - m, suffixes[i]) == 0) return true;
    }
    return strncmp(name, "EMA/", 4) == 0 || strstr(name, "/EMA/") || strncmp(name, "AccumGrad", 9) == 0 ||
           strncmp(name, "apply_gradients", 15) == 0;
}

/* Suffixes of the checkpoint formats. A TensorFlow checkpoint is recognised by its index file. */
static const char *const tp__checkpoint_ends[] = {".npz", ".index", ".safetensors"};

static tp_status tp__checkpoint_write(const char *path, const tp_dict *d, bool compress, tp__fetch_fn fetch, void *user)
{
    if (tp__ends_with(path, ".safetensors")) return tp__safetensors_write(path, d, fetch, user);
    if (tp__tf_suffix(path)) return tp__tf_write(path, d, fetch, user);
    return tp__npz_write(path, d, compress, fetch, user);
}

/* The items of a checkpoint that is written: the dict has their types, n variables first. Values of variables are read
 * one at a time. */
typedef struct tp__save {
    tp_session *session;
    const tp_variable **variable;
    int n;
    tp_dict d;
} tp__save;

static tp_status tp__save_fetch(void *user, int i, tp_tensor *view)
{
    const tp__save *a = (const tp__save *)user;
    if (i < a->n) return tp_session_read(a->session, a->variable[i], view);
    const tp_tensor *t = &a->d.item[i].value;
    tp_tensor_view(view, t->dtype, t->shape, t->data);
    return TP_OK;
}

/* Adds an item with its type. The data, which may be NULL, is borrowed. */
static tp_status tp__save_add(tp__save *a, const char *name, const char *suffix, tp_dtype dtype, tp_shape shape,
                              const void *data)
{
    const size_t n = strlen(name), m = strlen(suffix);
    char *full = (char *)tp_malloc(n + m + 1);
    if (full) {
        memcpy(full, name, n);
        memcpy(full + n, suffix, m + 1);
    }
    tp_tensor *t = full ? tp__dict_append(&a->d, full) : NULL;
    if (!t) return TP_ERR_NOMEM;
    tp_tensor_view(t, dtype, shape, data);
    return TP_OK;
}

/* Adds a variable to the list to save. The caller has allocated the list. */
static tp_status tp__save_variable(tp__save *a, const tp_variable *v, const char *suffix)
{
    const tp_status st = tp__save_add(a, v->name, suffix, v->dtype, v->shape, NULL);
    if (st == TP_OK) a->variable[a->n++] = v;
    return st;
}

static tp_status tp__save_begin(tp__save *a, tp_session *s, int max_variables)
{
    memset(a, 0, sizeof *a);
    a->session = s;
    a->variable = (const tp_variable **)tp_calloc((size_t)max_variables + 1, sizeof *a->variable);
    return a->variable ? TP_OK : TP_ERR_NOMEM;
}

static tp_status tp__save_end(tp__save *a, tp_status st, const char *path, bool compress)
{
    if (st == TP_OK) st = tp__checkpoint_write(path, &a->d, compress, tp__save_fetch, a);
    tp_dict_free(&a->d);
    tp_free((void *)a->variable);
    return st;
}

TP_DEF tp_status tp_save_checkpoint(tp_session *s, const char *path, tp_variable *const *variables, int n)
{
    TP__REQUIRE(s && path && (!variables || n >= 0), TP_ERR_ARG)
    if (!variables && n > 0)
        return tp_fail(TP_ERR_ARG, "tp_save_checkpoint: n is %d, but variables is NULL, which with n = 0 means all", n);

    tp__save a;
    int n_all = 0;
    tp_node *const *all = tp_collection(s->graph, TP_KEY_GLOBAL_VARIABLES, &n_all);
    if (!variables) n = n_all;
    tp_status st = tp__save_begin(&a, s, n);
    for (int i = 0; st == TP_OK && i < n; i++) {
        const tp_variable *v = variables ? variables[i] : tp_node_variable(all[i]);
        if (v) st = tp__save_variable(&a, v, "");
    }
    /* the same bits are promised on one instruction set only, so its name is stored */
    const char *isa = tp_device_isa(s->device[0]);
    tp_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.ndim = 1;
    shape.dim[0] = (int64_t)strlen(isa);
    if (st == TP_OK) st = tp__save_add(&a, TP__STATE_PREFIX "isa", "", TP_U8, shape, isa);
    for (int i = 0; st == TP_OK && i < s->state.n; i++) {
        const tp_tensor *t = &s->state.item[i].value;
        if (strcmp(s->state.item[i].name, TP__STATE_PREFIX "isa") != 0)
            st = tp__save_add(&a, s->state.item[i].name, "", t->dtype, t->shape, t->data);
    }
    return tp__save_end(&a, st, path, false);
}

/* The file that `path` means when variables are saved: as with tensorpack's tools a name ending in .npz gives an npz
 * file, other names a checkpoint. The suffixes .safetensors and .index are accepted too. */
static tp_status tp__vars_path(const char *path, char full[TP__PATH], bool *plain)
{
    if (tp__ends_with(path, ".npy"))
        return tp_fail(TP_ERR_ARG,
                       "%s: several variables do not fit an npy: name it .npz, or without an ending for a checkpoint",
                       path);
    *plain = !tp__ends_with(path, ".npz") && !tp__ends_with(path, ".safetensors") && !tp__ends_with(path, ".index");
    return tp__path(full, *plain ? "%s.index" : "%s", path);
}

TP_DEF tp_status tp_dump_session_params(tp_session *s, const char *path)
{
    TP__REQUIRE(s && path, TP_ERR_ARG)

    static const char *const keys[] = {TP_KEY_TRAINABLE_VARIABLES, TP_KEY_MODEL_VARIABLES};
    tp__save a;
    char full[TP__PATH];
    bool plain = false;
    int n[2];
    tp_node *const *vars[2];
    for (int k = 0; k < 2; k++) vars[k] = tp_collection(s->graph, keys[k], &n[k]);
    tp_status st = tp__vars_path(path, full, &plain);
    if (st == TP_OK) st = tp__save_begin(&a, s, n[0] + n[1]);
    else return st;
    for (int k = 0; k < 2; k++)
        for (int i = 0; st == TP_OK && i < n[k]; i++) {
            const tp_variable *v = tp_node_variable(vars[k][i]);
            if (v && !v->local) st = tp__save_variable(&a, v, plain ? "" : ":0");
        }
    return tp__save_end(&a, st, full, true);
}

/* Returns the time when a file was last changed, in nanoseconds; negative: no such file. */
static int64_t tp__file_time(const char *path)
{
    tp__os_info is;
    if (tp__os_stat(path, true, &is) != 0 || is.kind == TP__OS_DIR) return -1;
    return is.time > 0 ? is.time : 0;
}

/* Copies a checkpoint: `from` has the suffix of its format, `to` has none. An existing checkpoint of that name is
 * replaced completely or not at all. */
static TP__UNUSED tp_status tp__copy_checkpoint(const char *from, const char *to)
{
    if (tp__tf_suffix(from)) return tp__tf_copy(from, to);
    const char *suffix = tp__ends_with(from, ".safetensors") ? ".safetensors" : ".npz";
    const size_t n = strlen(to) + strlen(suffix) + 1;
    char *path = (char *)tp_malloc(n);
    if (!path) return TP_ERR_NOMEM;
    tp__format(path, n, "%s%s", to, suffix);
    const tp_status st = tp__copy_file(from, path);
    tp_free(path);
    return st;
}

/* Deletes all files of a checkpoint, the one that identifies it first. `path` has the suffix of its format. No error if
 * it does not exist. */
static TP__UNUSED tp_status tp__delete_checkpoint(const char *path)
{
    if (tp__os_remove(path) != 0 && errno != ENOENT)
        return tp_fail(TP_ERR_IO, "%s cannot be removed: %s", path, tp__os_error());
    const size_t n = tp__tf_suffix(path);
    if (!n) return TP_OK;
    char *data = (char *)tp_malloc(n + 32), *dir = tp__folder_of(path);
    if (data) tp__format(data, n + 32, "%.*s", (int)n, path);
    const tp_status st = data && dir ? tp__tf_remove_data(dir, data, n, 0) : TP_ERR_NOMEM;
    tp_free(data);
    tp_free(dir);
    return st;
}

/* The file for a checkpoint path: "dir/checkpoint" and a folder give their latest checkpoint; "model-10" gives
 * "model-10.npz". `out` has TP__PATH bytes. */
static tp_status tp__checkpoint_path(const char *path, char *out)
{
    const char *base = tp__os_last_separator(path);
    base = base ? base + 1 : path;
    char with[TP__PATH], dir[TP__PATH];
    tp__os_info is;
    const bool folder = tp__os_stat(path, true, &is) == 0 && is.kind == TP__OS_DIR;
    if (folder || strcmp(base, "checkpoint") == 0) {
        tp_status st = folder         ? tp__path(dir, "%s", path)
                       : base == path ? tp__path(dir, ".")
                                      : tp__path(dir, "%.*s", (int)(base - path - 1), path);
        if (st == TP_OK) st = tp_checkpoint_state_latest(*dir ? dir : "/", with, sizeof with);
        if (st != TP_OK) return st;
        base = tp__os_last_separator(with);
        base = base ? base + 1 : with;
        if (strcmp(base, "checkpoint") == 0 || (tp__os_stat(with, true, &is) == 0 && is.kind == TP__OS_DIR))
            return tp_fail(TP_ERR_FORMAT, "the file 'checkpoint' in '%s' names '%s', which is no checkpoint", dir,
                           with);
        path = with;
    }
    int found = -1;
    int64_t newest = -1;
    for (int i = -1; i < TP_COUNT(tp__checkpoint_ends) && (i < 0 || newest < 0 || found >= 0); i++) {
        const tp_status st = tp__path(out, "%s%s", path, i < 0 ? "" : tp__checkpoint_ends[i]);
        if (st != TP_OK) return st;
        const int64_t time = tp__file_time(out);
        if (time <= newest) continue;
        newest = time;
        found = i;
    }
    bool has_end = false;
    for (int i = 0; i < TP_COUNT(tp__checkpoint_ends); i++) has_end |= tp__ends_with(path, tp__checkpoint_ends[i]);
    if (newest < 0)
        return tp_fail(TP_ERR_NAME, "there is no checkpoint '%s'%s", path,
                       has_end ? "" : ", also not with .npz, .index or .safetensors at its end");
    return tp__path(out, "%s%s", path, found < 0 ? "" : tp__checkpoint_ends[found]);
}

TP_DEF tp_status tp_load_checkpoint_vars(const char *path, tp_dict *d)
{
    TP__REQUIRE(path && d, TP_ERR_ARG)

    char file[TP__PATH];
    tp_status st = tp__checkpoint_path(path, file);
    if (st != TP_OK) return st;
    if (tp__ends_with(file, ".safetensors")) st = tp_safetensors_load(file, d);
    else if (tp__tf_suffix(file)) st = tp_tf_checkpoint_load(file, d);
    else st = tp_npz_load(file, d);
    if (st != TP_OK) return st;
    for (int i = 0; i < d->n; i++) {
        char *s = d->item[i].name;
        const size_t n = strlen(s);
        if (n > 2 && strcmp(s + n - 2, ":0") == 0) s[n - 2] = 0;
    }
    return TP_OK;
}

TP_DEF tp_status tp_save_checkpoint_vars(const tp_dict *d, const char *path)
{
    TP__REQUIRE(d && path, TP_ERR_ARG)

    char full[TP__PATH];
    bool plain;
    const tp_status st = tp__vars_path(path, full, &plain);
    return st == TP_OK ? tp__checkpoint_write(full, d, true, NULL, NULL) : st;
}

/* -- the text file `checkpoint` */

TP_DEF tp_status tp_checkpoint_state_write(const char *dir, const char *const *names, int n)
{
    TP__REQUIRE(dir && (names || n == 0) && n >= 0, TP_ERR_ARG)

    char path[TP__PATH];
    tp_buf text;
    tp_writer *w = NULL;
    memset(&text, 0, sizeof text);
    if (n <= 0) return tp_fail(TP_ERR_ARG, "the checkpoint list of '%s' would be empty", dir);
    tp_status st = tp__path(path, "%s/checkpoint", dir);
    if (st != TP_OK) return st;
    for (int i = -1; i < n; i++) {
        tp_buf_printf(&text, "%s: \"", i < 0 ? "model_checkpoint_path" : "all_model_checkpoint_paths");
        for (const char *p = names[i < 0 ? n - 1 : i]; *p; p++)
            tp_buf_printf(&text, *p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
        tp_buf_printf(&text, "\"\n");
    }
    st = text.failed ? tp_fail(TP_ERR_NOMEM, "out of memory while '%s' was written", path) : tp_writer_open(&w, path);
    if (st == TP_OK) {
        st = tp_writer_put(w, text.data, text.len);
        if (st == TP_OK) st = tp_writer_commit(w);
        else tp_writer_abort(w);
    }
    tp_buf_free(&text);
    return st;
}

TP_DEF tp_status tp_checkpoint_state_latest(const char *dir, char *path, size_t size)
{
    TP__REQUIRE(dir && path && size > 0, TP_ERR_ARG)

    char file[TP__PATH], name[TP__PATH];
    char *text = NULL;
    size_t n = 0, m = 0;
    tp_status st = tp__path(file, "%s/checkpoint", dir);
    if (st != TP_OK) return st;
    if (!tp_file_exists(file))
        return tp_fail(
            TP_ERR_NAME,
            "there is no file '%s', which names the latest checkpoint: no checkpoint was saved there, or this "
            "file was not copied with it (then give the checkpoint's own name)",
            file);
    st = tp_file_read(file, false, 1 << 20, &text, &n);
    if (st != TP_OK) return st;
    const char *key = "model_checkpoint_path:";
    const char *p = strncmp(text, key, strlen(key)) == 0 ? text + strlen(key) : NULL;
    while (p && (*p == ' ' || *p == '\t')) p++;
    st = TP_ERR_FORMAT;
    if (p && *p == '"')
        for (p++; *p && *p != '\n' && m + 1 < sizeof name; p++) {
            if (*p == '"') {
                st = m ? TP_OK : TP_ERR_FORMAT;
                break;
            }
            char c = *p;
            const bool escaped = c == '\\' && p[1];
            if (escaped) c = *++p;
            if (escaped && c >= '0' && c <= '7') { /* TensorFlow writes a byte beyond ASCII in octal, as \303 */
                int octal = c - '0';
                for (int k = 0; k < 2 && p[1] >= '0' && p[1] <= '7'; k++) octal = 8 * octal + (*++p - '0');
                c = (char)(octal & 255);
                if (c == 0) break;
            }
            name[m++] = c;
        }
    name[m < sizeof name ? m : sizeof name - 1] = 0;
    tp_free(text);
    if (st != TP_OK) return tp_fail(TP_ERR_FORMAT, "'%s' does not begin with model_checkpoint_path: \"<name>\"", file);
    const int len =
        tp__os_is_absolute(name) ? tp__format(path, size, "%s", name) : tp__format(path, size, "%s/%s", dir, name);
    if (len < 0 || (size_t)len >= size) return tp_fail(TP_ERR_ARG, "the checkpoint path in '%s' is too long", file);
    return TP_OK;
}

static int tp__by_step(const void *a, const void *b)
{
    const int64_t x = ((const tp_checkpoint_entry *)a)->step, y = ((const tp_checkpoint_entry *)b)->step;
    if (x != y) return x < y ? -1 : 1;
    return strcmp(((const tp_checkpoint_entry *)a)->path, ((const tp_checkpoint_entry *)b)->path);
}

typedef struct tp__checkpoint_search {
    const char *dir, *prefix;
    tp_buf entries, paths; /* until the search ends, an entry's path is an offset in `paths` */
    int n;
} tp__checkpoint_search;

static bool tp__checkpoint_search_name(void *user, const char *name)
{
    tp__checkpoint_search *f = (tp__checkpoint_search *)user;
    const size_t plen = strlen(f->prefix);
    char *end;
    if (strncmp(name, f->prefix, plen) != 0 || name[plen] != '-') return false;
    const char *digits = name + plen + 1;
    if (*digits < '0' || *digits > '9') return false;
    const long long step = strtoll(digits, &end, 10);
    int format = 0;
    while (format < TP_COUNT(tp__checkpoint_ends) && strcmp(end, tp__checkpoint_ends[format]) != 0) format++;
    if (format == TP_COUNT(tp__checkpoint_ends)) return false;
    tp_checkpoint_entry x;
    memset(&x, 0, sizeof x);
    x.step = step;
    x.path = (const char *)f->paths.len;
    tp_buf_put(&f->entries, &x, sizeof x);
    tp_buf_printf(&f->paths, "%s/%s", f->dir, name);
    tp_buf_put(&f->paths, "", 1);
    f->n++;
    return f->entries.failed || f->paths.failed;
}

TP_DEF tp_status tp_get_all_checkpoints(const char *dir, const char *prefix, tp_checkpoint_entry **entries, int *n)
{
    TP__REQUIRE(entries && n, TP_ERR_ARG)
    if (!dir) dir = ".";
    if (!prefix) prefix = "model";
    tp__checkpoint_search f;
    memset(&f, 0, sizeof f);
    f.dir = dir;
    f.prefix = prefix;
    *entries = NULL;
    *n = 0;
    if (tp__os_list(dir, tp__checkpoint_search_name, &f) != 0) {
        const tp_status st = tp_fail(TP_ERR_IO, "cannot list '%s': %s", dir, tp__os_error());
        tp_buf_free(&f.entries);
        tp_buf_free(&f.paths);
        return st;
    }
    const size_t size = (size_t)f.n * sizeof **entries;
    tp_checkpoint_entry *all = f.n ? (tp_checkpoint_entry *)tp_malloc(size + f.paths.len) : NULL;
    const bool failed = f.entries.failed || f.paths.failed || (f.n && !all);
    if (all && !failed) {
        memcpy(all, f.entries.data, size);
        memcpy((char *)all + size, f.paths.data, f.paths.len);
        for (int i = 0; i < f.n; i++) all[i].path = (const char *)all + size + (size_t)all[i].path;
        qsort(all, (size_t)f.n, sizeof *all, tp__by_step);
        *entries = all;
        *n = f.n;
    } else tp_free(all);
    tp_buf_free(&f.entries);
    tp_buf_free(&f.paths);
    return failed ? tp_fail(TP_ERR_NOMEM, "out of memory while '%s' was listed", dir) : TP_OK;
}

/* Loads the newest readable checkpoint <prefix>-<smaller step> in the folder of <prefix>-<step>; its variables go to d.
 * TP_ERR_NAME: there is none; TP_ERR_FORMAT or TP_ERR_IO: none of those that are there can be read. */
static tp_status tp__older_checkpoint(const char *path, char *older, tp_dict *d)
{
    char dir[TP__PATH], prefix[512];
    tp_checkpoint_entry *entry = NULL;
    int n = 0;
    const char *slash = tp__os_last_separator(path), *base = slash ? slash + 1 : path, *dash = strrchr(base, '-');
    if (strncmp(base, "interrupted", 11) == 0)
        dash = NULL, base = "model"; /* this file, which a ModelSaver wrote after Ctrl-C, is the newest */
    else if (!dash || dash[1] < '0' || dash[1] > '9' || dash - base >= (int)sizeof prefix)
        return tp_fail(TP_ERR_NAME, "'%s' has no step in its name", path);
    const int64_t step = dash ? strtoll(dash + 1, NULL, 10) : INT64_MAX;
    tp__format(prefix, sizeof prefix, "%.*s", dash ? (int)(dash - base) : 5, base);
    tp_status st = tp__path(dir, "%.*s", slash == path ? 1 : slash ? (int)(slash - path) : 1, slash ? path : ".");
    if (st == TP_OK) st = tp_get_all_checkpoints(dir, prefix, &entry, &n);
    if (st != TP_OK) return st;
    st = tp_fail(TP_ERR_NAME, "there is no older checkpoint in '%s'", dir);
    for (int i = n - 1; i >= 0 && st != TP_OK && st != TP_ERR_NOMEM; i--) {
        if (entry[i].step >= step) continue;
        st = tp__path(older, "%s", entry[i].path);
        if (st == TP_OK) st = tp_load_checkpoint_vars(older, d);
        if (st != TP_OK && st != TP_ERR_NOMEM)
            st = tp_fail(st == TP_ERR_IO ? TP_ERR_IO : TP_ERR_FORMAT,
                         "no older checkpoint in '%s' can be read (the last one tried: %s)", dir, tp_last_error());
    }
    tp_free(entry);
    return st;
}

/* Loads a checkpoint that the user named. If it cannot be read, this fails; the sentence names an older checkpoint that
 * can be read. */
static tp_status tp__load_named_checkpoint(const char *path, tp_dict *d)
{
    char older[TP__PATH], sentence[TP__ERROR_TEXT];
    const tp_status st = tp_load_checkpoint_vars(path, d);
    if (st != TP_ERR_FORMAT && st != TP_ERR_IO && st != TP_ERR_NAME) return st;
    tp__format(sentence, sizeof sentence, "%s", tp_last_error());
    const bool found = tp__older_checkpoint(path, older, d) == TP_OK;
    tp_dict_free(d);
    return tp_fail(st, found ? "%s. An older checkpoint can be read: '%s'" : "%s", sentence, older);
}

/* -- session initialisers */

/* The two halves of an initialiser: one runs before the session is made, one after it. */
static tp_status tp__session_init_setup(tp_session_init *i, tp_graph *g)
{
    const tp_status st = i && i->setup_graph ? i->setup_graph(i, g) : TP_OK;
    return st != TP_OK || tp_graph_status(g) == TP_OK ? st : tp_fail(tp_graph_status(g), "%s", tp_graph_error(g));
}
static tp_status tp__session_init_load(tp_session_init *i, tp_session *s) { return i && i->run ? i->run(i, s) : TP_OK; }

TP_DEF tp_status tp_session_init_run(tp_session_init *i, tp_session *s)
{
    TP__REQUIRE(s, TP_ERR_ARG)
    const tp_status st = tp__session_init_setup(i, s->graph);
    return st == TP_OK ? tp__session_init_load(i, s) : st;
}

static void tp__session_init_delete(tp_session_init *i)
{
    if (i && i->free) i->free(i);
}

TP_DEF void tp_session_init_free(tp_session_init *i)
{
    if (i && tp__may_free(&i->owner_, __func__, "a session_init")) tp__session_init_delete(i);
}

/* Whether b has the dimensions of a in another order, and more than one is not 1: then an array of PyTorch was not transposed. */
static bool tp__other_order(const tp_shape *a, const tp_shape *b)
{
    int64_t left[TP_MAX_DIMS];
    int more = 0;
    if (a->ndim != b->ndim) return false;
    for (int i = 0; i < a->ndim; i++) {
        left[i] = b->dim[i];
        more += a->dim[i] != 1;
    }
    for (int i = 0; i < a->ndim; i++) {
        int k = 0;
        while (k < a->ndim && left[k] != a->dim[i]) k++;
        if (k == a->ndim) return false;
        left[k] = -1;
    }
    return more > 1;
}
/* Whether a value can be loaded into a variable by the relaxed rule: if the counts are equal it is reshaped, floats are cast,
 * integers are widened. *fits is false for a value that ignore_mismatch skips. */
static tp_status tp__may_load_relaxed(const tp_variable *v, const tp_tensor *value, bool ignore_mismatch, bool *fits)
{
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    *fits = tp_shape_size(&v->shape) == tp_shape_size(&value->shape);
    if (!*fits) {
        if (!ignore_mismatch)
            return tp_fail(TP_ERR_SHAPE, "Trying to load an array of shape %s into variable '%s' whose shape is %s.",
                           tp_shape_text(&value->shape, a), v->name, tp_shape_text(&v->shape, b));
        tp_log(TP_LOG_WARN, "Cannot load an array of shape %s into variable '%s' whose shape is %s: it is skipped.",
               tp_shape_text(&value->shape, a), v->name, tp_shape_text(&v->shape, b));
        return TP_OK;
    }
    if (!tp_shape_equal(&v->shape, &value->shape))
        tp_log(TP_LOG_WARN, "The array of shape %s is reshaped to load it into variable '%s' whose shape is %s.%s",
               tp_shape_text(&value->shape, a), v->name, tp_shape_text(&v->shape, b),
               tp__other_order(&value->shape, &v->shape) ? " Should its dimensions be transposed instead?" : "");
    if (v->dtype == value->dtype) return TP_OK;
    const bool floats = tp_dtype_is_float(v->dtype) && tp_dtype_is_float(value->dtype);
    const bool widen = (v->dtype == TP_I64 && (value->dtype == TP_I32 || value->dtype == TP_U8)) ||
                       (v->dtype == TP_I32 && value->dtype == TP_U8);
    if (!floats && !widen)
        return tp_fail(TP_ERR_DTYPE, "Cannot load a %s array into variable '%s', which is %s",
                       tp_dtype_name(value->dtype), v->name, tp_dtype_name(v->dtype));
    if (floats)
        tp_log(TP_LOG_WARN, "Variable '%s' (%s) is loaded from %s after casting.", v->name, tp_dtype_name(v->dtype),
               tp_dtype_name(value->dtype));
    return TP_OK;
}
/* Loads a value that tp__may_load_relaxed found to fit. */
static tp_status tp__load_relaxed(tp_session *s, const tp_variable *v, const tp_tensor *value)
{
    tp_tensor view, widened;
    memset(&view, 0, sizeof view);
    memset(&widened, 0, sizeof widened);
    tp_tensor_view(&view, value->dtype, v->shape, value->data);
    if (v->dtype == value->dtype || tp_dtype_is_float(v->dtype)) return tp_session_load(s, v, &view);
    tp_status st = tp_tensor_resize(&widened, v->dtype, v->shape);
    if (st == TP_OK && tp_tensor_bytes(&widened))
        tp_convert(widened.data, widened.dtype, view.data, view.dtype, tp_tensor_size(&widened));
    if (st == TP_OK) st = tp_session_load(s, v, &widened);
    tp_tensor_free(&widened);
    return st;
}

typedef struct tp__restore {
    tp_session_init init;
    char *path, *prefix;
    char **ignore;
    int n_ignore;
    bool relaxed, strict, from_dict;
    bool resumes;      /* for .auto_resume: only the sentences differ */
    bool dict_is_file; /* the dict was read from a file */
    char mistake[96];  /* wrong options: `run` fails with this sentence */
    tp_dict dict;
} tp__restore;

static void tp__restore_free(tp_session_init *i)
{
    tp__restore *r = (tp__restore *)(void *)i;
    for (int k = 0; k < r->n_ignore; k++) tp_free(r->ignore[k]);
    tp_free((void *)r->ignore);
    tp_free(r->path);
    tp_free(r->prefix);
    tp_dict_free(&r->dict);
    tp_free(r);
}

/* Warns about names that only the graph or only the file has; with .strict, refuses them. A list is NULL if there are no such
 * names. */
static tp_status tp__restore_differences(const tp__restore *r, const char *graph_only, const char *file_only)
{
    const char *file = r->from_dict ? "dict" : "checkpoint";
    if (r->strict && (graph_only || file_only))
        return tp_fail(TP_ERR_NAME, "SaverRestore: .strict: %s%s%s%s%s%s%s",
                       graph_only ? "in the graph, but not in the " : "", graph_only ? file : "",
                       graph_only ? ": " : "", graph_only ? graph_only : "", graph_only && file_only ? "; " : "",
                       file_only ? "not in the graph, but in it: " : "", file_only ? file_only : "");
    if (graph_only)
        tp_log(TP_LOG_WARN,
               "The following variables are in the graph, but not found in the %s: %s. They keep their values", file,
               graph_only);
    if (file_only)
        tp_log(TP_LOG_WARN, "The following variables are in the %s, but not found in the graph: %s", file, file_only);
    return TP_OK;
}

/* Whether item k is used in training alone. Such an item is a slot of a variable in d (fc/W/Ftrl_1) or a scalar (learning_rate,
 * beta1_power, loss_scale/good_steps). Predictors and graphs without a global step skip these items without a warning. */
static bool tp__is_training_only(const tp_dict *d, int k)
{
    const char *name = d->item[k].name;
    if (tp_tensor_size(&d->item[k].value) == 1 && d->item[k].value.shape.ndim == 0) return true;
    for (int i = 0; i < d->n; i++) {
        const size_t n = strlen(d->item[i].name);
        if (strncmp(name, d->item[i].name, n) == 0 && name[n] == '/') return true;
    }
    return false;
}

/* Keeps a value of the trainer's state in the session, under its full name. The name of the instruction set is not kept,
 * but compared with this session's. */
static tp_status tp__restore_state(tp_session *s, const char *name, const tp_tensor *value)
{
    if (strcmp(name, TP__STATE_PREFIX "isa") != 0) {
        tp_tensor *t = tp_dict_add(&s->state, name);
        return t ? tp_tensor_copy(t, value) : TP_ERR_NOMEM;
    }
    const char *isa = tp_device_isa(s->device[0]);
    if ((size_t)tp_tensor_size(value) != strlen(isa) || memcmp(value->data, isa, strlen(isa)) != 0)
        tp_log(TP_LOG_WARN,
               "The checkpoint was written with the instruction set '%.*s', this run uses '%s': results "
               "agree closely but not bit for bit. "
               "TP_ISA=%.*s pins the old one.",
               (int)tp_tensor_size(value), (const char *)value->data, isa, (int)tp_tensor_size(value),
               (const char *)value->data);
    return TP_OK;
}
/* Restores the state of the checkpoint that is in no variable. */
static tp_status tp__restore_states(tp_session *s, const tp_dict *d)
{
    tp_status st = TP_OK;
    for (int k = 0; k < d->n && st == TP_OK; k++)
        if (strncmp(d->item[k].name, TP__STATE_PREFIX, strlen(TP__STATE_PREFIX)) == 0)
            st = tp__restore_state(s, d->item[k].name, &d->item[k].value);
    return st;
}
/* Lists the items that no variable uses. A graph without a global step, like a predictor, does without what training left in the
 * checkpoint. */
static void tp__list_unused(const tp__restore *r, const tp_session *s, const tp_dict *d, const char *used,
                            tp_buf *file_only)
{
    const bool trains = !s->for_predictor &&
                        (r->strict || tp__variable_named(s->graph, "global_step") || !tp__dict_get(d, "global_step"));
    for (int k = 0; k < d->n; k++) {
        const char *name = d->item[k].name;
        if (strncmp(name, TP__STATE_PREFIX, strlen(TP__STATE_PREFIX)) != 0 && !used[k] && !tp__is_training_name(name) &&
            (trains || !tp__is_training_only(d, k)))
            tp_buf_printf(file_only, "%s%s", file_only->len ? ", " : "", name);
    }
}
/* The name of a variable as .ignore and the checkpoint spell it: without .prefix and the '/' that follows it. */
static const char *tp__name_in_checkpoint(const tp__restore *r, const char *name)
{
    const size_t prefix = r->prefix ? strlen(r->prefix) : 0;
    return prefix && strncmp(name, r->prefix, prefix) == 0 && name[prefix] == '/' ? name + prefix + 1 : name;
}

/* Warns about a .prefix that no variable has, and about names in .ignore that neither a variable nor the checkpoint d has: they may
 * be misspelt. */
static void tp__warn_unused_options(const tp__restore *r, const tp_dict *d, tp_node *const *vars, int n)
{
    int with_prefix = 0;
    for (int k = 0; r->prefix && k < n; k++) {
        const tp_variable *v = tp_node_variable(vars[k]);
        with_prefix += v && tp__name_in_checkpoint(r, v->name) != v->name;
    }
    if (r->prefix && r->prefix[0] && with_prefix == 0)
        tp_log(TP_LOG_WARN, "SaverRestore: .prefix is '%s', but no variable's name begins with '%s/'", r->prefix,
               r->prefix);
    for (int q = 0; q < r->n_ignore; q++) {
        bool found = tp__dict_get(d, r->ignore[q]) != NULL;
        for (int k = 0; k < n && !found; k++) {
            const tp_variable *v = tp_node_variable(vars[k]);
            found = v && strcmp(tp__name_in_checkpoint(r, v->name), r->ignore[q]) == 0;
        }
        const bool usual = strcmp(r->ignore[q], "global_step") == 0 || strcmp(r->ignore[q], "learning_rate") == 0;
        if (!found && !usual)
            tp_log(TP_LOG_WARN, "SaverRestore: .ignore has '%s', which neither the graph nor the checkpoint has",
                   r->ignore[q]);
    }
}

/* The file has variables, but none of the model's weights that fits: it is another model's. .relaxed is warned, as tensorpack's
 * ignore_mismatch makes no mismatch an error. Programs' own dicts and predictors, which have a sentence of their own, are left alone. */
static tp_status tp__restore_nothing(const tp__restore *r, const tp_session *s)
{
    if (r->resumes)
        return tp_fail(TP_ERR_NAME,
                       "auto_resume: %s is of another model, it has none of this one's weights: train in another "
                       "folder (tp_logger_set_dir), or remove the checkpoints there",
                       r->path);
    const char *file = r->path ? r->path : r->dict_is_file ? "the file" : "the dict";
    if (r->relaxed && !s->for_predictor)
        tp_log(TP_LOG_WARN, "%s has none of the model's weights, or none that fits: they all keep their values", file);
    if ((r->from_dict && !r->dict_is_file) || r->relaxed || s->for_predictor) return TP_OK;
    return tp_fail(TP_ERR_NAME,
                   "%s is of another model, it has none of this one's weights: are layers named as they were "
                   "when it was trained? (.relaxed of tp_saver_restore_ex takes it)",
                   file);
}

/* What a restore does: it is all found and checked before the first variable is loaded, so that a restore that is refused leaves
 * the session as it was. */
typedef struct tp__restore_plan {
    const tp_dict *d;
    const tp_tensor **value; /* of each variable of the graph; NULL: nothing is loaded into it */
    char *used;              /* whether a variable takes the item of the dict, or .ignore names it */
    tp_buf graph_only;       /* names of variables that the checkpoint does not have */
    int weights, found;      /* numbers of the model's weights, and of those that the checkpoint has and that fit */
    int skipped;             /* number of weights whose value does not fit, with .relaxed */
} tp__restore_plan;

/* Tells how many values of the training begin anew, and how many of the checkpoint are not used, because the optimizer or layers
 * have changed. */
static void tp__tell_slots(const tp_session *s, const tp__restore_plan *p, tp_node *const *vars, int n)
{
    int anew = 0, left = 0, kept = 0;
    for (int k = 0; k < n; k++) {
        const tp_variable *v = tp_node_variable(vars[k]);
        const bool slot = v && tp__is_training_name(v->name);
        anew += slot && !p->value[k];
        kept += slot && p->value[k];
    }
    for (int k = 0; k < p->d->n; k++) { /* "tp:local/..": what callbacks restore themselves */
        const tp_dict_item *item = &p->d->item[k];
        int taker = 0;
        if (!tp__is_training_name(item->name) || strncmp(item->name, "tp:", 3) == 0) continue;
        while (taker < n && p->value[taker] != &item->value) taker++;
        left += taker == n;
    }
    if (!s->for_predictor && anew + kept > 0 && (anew > 0 || left > 0))
        tp_log(TP_LOG_INFO,
               "Values that only the training uses (slots of the optimizer, averages): %d are restored, %d begin anew, "
               "%d of the checkpoint are not used.",
               kept, anew, left);
}

/* The variable that x reads, also through a cast; NULL if x is computed. */
static const tp_variable *tp__variable_behind(const tp_node *x)
{
    while (!tp_node_variable(x) && x->op->n_in == 1) x = x->op->in[0];
    return tp_node_variable(x);
}
/* Leaves out the averages and powers of beta of `update`, one of Adam or LAMB, if one of them is not restored. Returns how many values
 * of the checkpoint it leaves out. */
static int tp__leave_out_adam(tp__restore_plan *p, const tp_operation *update, tp_node *const *vars, int n)
{
    const int updated = ((const tp__apply_attrs *)update->attrs)->n;
    int left_out = 0;
    bool anew = false;
    for (int pass = 0; pass < 2; pass++)
        for (int i = updated; i < update->n_var + 2 && (pass == 0 || anew); i++) {
            const int power = i - update->n_var; /* 0 or 1 after the averages */
            const tp_variable *v =
                power < 0 ? update->var[i] : tp__variable_behind(update->in[updated + TP__BETA1_POWER + power]);
            int k = 0;
            while (k < n && tp_node_variable(vars[k]) != v) k++;
            if (!v || k == n) continue; /* computed, or local: in no checkpoint */
            anew = anew || !p->value[k];
            if (pass == 0 || !p->value[k]) continue;
            p->value[k] = NULL;
            left_out++;
        }
    return left_out;
}
/* If an average of Adam or LAMB begins anew, as that of a new layer does, all averages and powers of beta of that optimizer do. The powers
 * correct averages that began at zero: those of late steps would let new averages make steps several times too large. */
static void tp__restore_adam(const tp_graph *g, tp__restore_plan *p, tp_node *const *vars, int n)
{
    int left_out = 0;
    for (int turn = 0; turn < 2; turn++) /* the second: updates of other types, which share the powers */
        for (int i = 0; i < g->op.n; i++) {
            const tp_operation *o = (const tp_operation *)g->op.item[i];
            if (strcmp(o->row->name, "apply_adam") == 0 || strcmp(o->row->name, "apply_lamb") == 0)
                left_out += tp__leave_out_adam(p, o, vars, n);
        }
    if (left_out > 0)
        tp_log(TP_LOG_INFO,
               "%d values of the checkpoint for Adam or LAMB are not restored: another average or power of beta of the "
               "same optimizer is not in it, so that all of them begin anew.",
               left_out);
}

/* Refuses a value of the checkpoint that variable k and one before it would both take. */
static tp_status tp__restore_conflict(const tp__restore *r, tp_node *const *vars, int k)
{
    const char *name = tp_node_variable(vars[k])->name, *wanted = tp__name_in_checkpoint(r, name), *other = name;
    for (int i = k - 1; i >= 0; i--) {
        const tp_variable *v = tp_node_variable(vars[i]);
        if (v && strcmp(tp__name_in_checkpoint(r, v->name), wanted) == 0) other = v->name;
    }
    return tp_fail(
        TP_ERR_NAME,
        "Restore conflict: '%s' of the checkpoint is for two variables of the graph, '%s' and '%s', since .prefix "
        "is '%s': give the one that is not to be restored a scope of its own",
        wanted, other, name, r->prefix ? r->prefix : "");
}

/* Finds and checks the values of the graph's variables. */
static tp_status tp__restore_find(const tp__restore *r, tp__restore_plan *p, tp_node *const *vars, int n)
{
    tp_status st = TP_OK;
    for (int k = 0; k < n && st == TP_OK; k++) {
        const tp_variable *v = tp_node_variable(vars[k]);
        if (!v) continue;
        const char *name = tp__name_in_checkpoint(r, v->name);
        const tp_tensor *value = tp__dict_get(p->d, name);
        bool ignored = false, fits = true;
        const bool of_model =
            v->trainable || (v->shape.ndim > 0 && !tp__is_training_name(v->name)); /* frozen ones too */
        p->weights += of_model;
        p->found += of_model && value;
        for (int q = 0; q < r->n_ignore; q++) ignored = ignored || strcmp(r->ignore[q], name) == 0;
        if (!value) {
            if (!tp__is_training_name(v->name))
                tp_buf_printf(&p->graph_only, "%s%s", p->graph_only.len ? ", " : "", v->name);
            continue;
        }
        const ptrdiff_t at =
            (const tp_dict_item *)(const void *)((const char *)value - offsetof(tp_dict_item, value)) - p->d->item;
        if (ignored) {
            tp_log(TP_LOG_INFO, "Variable '%s' in the graph will not be loaded from the checkpoint!", v->name);
            p->used[at] = 1;
            continue;
        }
        if (p->used[at]) st = tp__restore_conflict(r, vars, k);
        p->used[at] = 1;
        if (st == TP_OK && !r->from_dict && !r->relaxed) st = tp__may_load(v, value);
        else if (st == TP_OK) st = tp__may_load_relaxed(v, value, r->relaxed, &fits);
        p->value[k] = fits ? value : NULL;
        if (of_model && !fits) p->found--, p->skipped++;
    }
    if ((st == TP_ERR_SHAPE || st == TP_ERR_DTYPE) && !r->from_dict)
        tp_fail(st, "%s: %s. %s", r->path, tp_last_error(),
                r->resumes ? "Was the model changed? Train it in another folder (tp_logger_set_dir), or remove the "
                             "checkpoints there"
                           : "tp_saver_restore_ex goes on without it (.ignore, .relaxed)");
    return st;
}

/* Restores from the dict d. */
static tp_status tp__restore_from(const tp__restore *r, tp_session *s, const tp_dict *d)
{
    int n = 0;
    tp_buf file_only;
    tp__restore_plan p;
    tp_node *const *vars = tp_collection(s->graph, TP_KEY_GLOBAL_VARIABLES, &n);
    memset(&file_only, 0, sizeof file_only);
    memset(&p, 0, sizeof p);
    p.d = d;
    p.used = (char *)tp_calloc((size_t)d->n + 1, 1);
    p.value = (const tp_tensor **)tp_calloc((size_t)n + 1, sizeof *p.value);
    tp_status st = p.used && p.value ? TP_OK : TP_ERR_NOMEM;
    if (st == TP_OK) {
        tp__warn_unused_options(r, d, vars, n);
        st = tp__restore_find(r, &p, vars, n);
    }
    if (st == TP_OK) tp__restore_adam(s->graph, &p, vars, n);
    if (st == TP_OK) tp__list_unused(r, s, d, p.used, &file_only);
    if (st == TP_OK && p.weights > 0 && p.found == 0 && (file_only.len > 0 || p.skipped > 0))
        st = tp__restore_nothing(r, s);
    if (st == TP_OK) st = tp__restore_differences(r, p.graph_only.data, file_only.data);
    for (int k = 0; k < n && st == TP_OK; k++)
        if (p.value[k]) st = tp__load_relaxed(s, tp_node_variable(vars[k]), p.value[k]);
    if (st == TP_OK) st = tp__restore_states(s, d);
    if (st == TP_OK) tp__tell_slots(s, &p, vars, n);
    tp_buf_free(&p.graph_only);
    tp_buf_free(&file_only);
    tp_free(p.used);
    tp_free((void *)p.value);
    return st;
}

static tp_status tp__restore_run(tp_session_init *i, tp_session *s)
{
    const tp__restore *r = (const tp__restore *)(void *)i;
    char path[TP__PATH];
    tp_dict loaded;
    if (r->mistake[0]) return tp_fail(TP_ERR_ARG, "%s", r->mistake);
    if (r->strict && r->relaxed)
        return tp_fail(TP_ERR_ARG, "SaverRestore: .strict and .relaxed exclude each other: give one of them");
    if (r->from_dict) return tp__restore_from(r, s, &r->dict);
    memset(&loaded, 0, sizeof loaded);
    tp_status st = tp__checkpoint_path(r->path, path);
    if (st != TP_OK) return st;
    tp_log(TP_LOG_INFO, "Restoring checkpoint from %s ...", path);
    st = tp__load_named_checkpoint(path, &loaded);
    if (st == TP_OK) st = tp__restore_from(r, s, &loaded);
    tp_dict_free(&loaded);
    return st;
}

/* Whether .ignore and .n_ignore do not belong together. A list of no names is not wrong. */
static bool tp__ignore_is_wrong(const tp_saver_restore_desc *d)
{
    bool wrong = d->n_ignore < 0 || (d->n_ignore > 0 && !d->ignore);
    for (int i = 0; !wrong && i < d->n_ignore; i++) wrong = !d->ignore[i];
    return wrong;
}

TP_DEF tp_session_init *tp_saver_restore_ex(const tp_saver_restore_desc *d)
{
    TP__REQUIRE(d, NULL)
    tp__restore *r = (tp__restore *)tp_calloc(1, sizeof *r);
    if (!r) return NULL;
    r->init.run = tp__restore_run;
    r->init.free = tp__restore_free;
    if (tp__ignore_is_wrong(d)) { /* not NULL, which a trainer would take for "restore nothing" */
        tp__format(r->mistake, sizeof r->mistake, "%s",
                   "SaverRestore: .ignore is a list of .n_ignore names: give both");
        return &r->init;
    }
    if (!d->path) {
        tp__format(r->mistake, sizeof r->mistake, "%s",
                   "SaverRestore: .path is NULL: give a checkpoint or its folder (tp_smart_init takes NULL)");
        return &r->init;
    }
    r->relaxed = d->relaxed;
    r->strict = d->strict;
    bool ok = (r->path = tp_strdup(d->path)) != NULL;
    if (d->prefix) ok = (r->prefix = tp_strdup(d->prefix)) != NULL && ok;
    if (d->n_ignore) {
        r->ignore = (char **)tp_calloc((size_t)d->n_ignore, sizeof *r->ignore);
        for (int i = 0; r->ignore && i < d->n_ignore; i++) {
            int index;
            r->ignore[i] = tp_strdup(d->ignore[i]);
            if (r->ignore[i]) r->ignore[i][tp__split_name(d->ignore[i], &index)] = 0;
            ok = ok && r->ignore[i];
            r->n_ignore++;
        }
        ok = ok && r->ignore;
    }
    if (!ok) {
        tp__restore_free(&r->init);
        return NULL;
    }
    return &r->init;
}

TP_DEF tp_session_init *tp_saver_restore(const char *path)
{
    tp_saver_restore_desc d;
    memset(&d, 0, sizeof d);
    d.path = path;
    return tp_saver_restore_ex(&d);
}

TP_DEF tp_status tp_restore_checkpoint(tp_session *s, const char *path)
{
    TP__REQUIRE(s && path, TP_ERR_ARG)
    tp_session_init *init = tp_saver_restore(path);
    const tp_status st = init ? tp_session_init_run(init, s) : TP_ERR_NOMEM;
    tp__session_init_delete(init);
    return st;
}

TP_DEF tp_session_init *tp_dict_restore(tp_dict *dict, bool ignore_mismatch)
{
    TP__REQUIRE(dict, NULL)
    tp__restore *r = (tp__restore *)tp_calloc(1, sizeof *r);
    if (!r) return NULL;
    r->init.run = tp__restore_run;
    r->init.free = tp__restore_free;
    r->from_dict = true;
    r->relaxed = ignore_mismatch;
    r->dict = *dict;
    memset(dict, 0, sizeof *dict);
    for (int i = 0; i < r->dict.n; i++) {
        char *s = r->dict.item[i].name;
        const size_t n = strlen(s);
        if (n > 2 && strcmp(s + n - 2, ":0") == 0) s[n - 2] = 0;
    }
    return &r->init;
}

typedef struct tp__chain {
    tp_session_init init;
    tp_session_init **item;
    int n;
    char mistake[256];
} tp__chain;

static tp_status tp__chain_setup(tp_session_init *i, tp_graph *g)
{
    const tp__chain *c = (const tp__chain *)(void *)i;
    if (c->mistake[0]) return tp_fail(TP_ERR_ARG, "%s", c->mistake);
    for (int k = 0; k < c->n; k++)
        if (c->item[k] && c->item[k]->setup_graph) {
            const tp_status st = c->item[k]->setup_graph(c->item[k], g);
            if (st != TP_OK) return st;
        }
    return TP_OK;
}

static tp_status tp__chain_run(tp_session_init *i, tp_session *s)
{
    const tp__chain *c = (const tp__chain *)(void *)i;
    for (int k = 0; k < c->n; k++)
        if (c->item[k] && c->item[k]->run) {
            const tp_status st = c->item[k]->run(c->item[k], s);
            if (st != TP_OK) return st;
        }
    return TP_OK;
}

static void tp__chain_free(tp_session_init *i)
{
    tp__chain *c = (tp__chain *)(void *)i;
    for (int k = 0; k < c->n; k++) tp__session_init_delete(c->item[k]);
    tp_free((void *)c->item);
    tp_free(c);
}

TP_DEF tp_session_init *tp_chain_init(tp_session_init *const *inits, int n)
{
    TP__REQUIRE((inits || n == 0) && n >= 0, NULL)

    tp__chain *c = (tp__chain *)tp_calloc(1, sizeof *c);
    tp_session_init **item = (tp_session_init **)tp_calloc((size_t)n + 1, sizeof *item);
    if (!c || !item) {
        /* frees the list's initialisers except those that have an owner, and each only once */
        for (int i = 0; i < n; i++)
            if (inits[i] && !inits[i]->owner_.who && !tp__listed_before((const void *const *)(const void *)inits, i))
                tp__session_init_delete(inits[i]);
        tp_free(c);
        tp_free((void *)item);
        return NULL;
    }
    for (int i = 0; i < n; i++) { /* an init that has another owner is not taken; the chain then fails when it runs */
        if (inits[i] && !tp__set_owner(&inits[i]->owner_, "a session_init", "tp_chain_init", NULL))
            tp__format(c->mistake, sizeof c->mistake, "%.255s", tp_last_error());
        else item[i] = inits[i];
    }
    c->item = item;
    c->n = n;
    c->init.setup_graph = tp__chain_setup;
    c->init.run = tp__chain_run;
    c->init.free = tp__chain_free;
    return &c->init;
}

TP_DEF tp_session_init *tp_just_current_session(void) { return tp_chain_init(NULL, 0); }

/* The initialiser for a named file, .npz or .safetensors. It reads the file when it runs. */
typedef struct tp__file_init {
    tp_session_init init;
    char *path;
    bool ignore_mismatch;
} tp__file_init;

static tp_status tp__file_init_run(tp_session_init *i, tp_session *s)
{
    const tp__file_init *z = (const tp__file_init *)(void *)i;
    tp_dict d;
    memset(&d, 0, sizeof d);
    tp_status st = tp__load_named_checkpoint(z->path, &d);
    tp_session_init *r = st == TP_OK ? tp_dict_restore(&d, z->ignore_mismatch) : NULL;
    if (r) {
        ((tp__restore *)(void *)r)->dict_is_file = true;
        ((tp__restore *)(void *)r)->path = tp_strdup(z->path);
    }
    if (st == TP_OK) st = r ? tp_session_init_run(r, s) : TP_ERR_NOMEM;
    if (st == TP_ERR_SHAPE)
        tp_fail(st, "%s: %s Is it of another model? tp_smart_init(file, true) leaves out what does not fit", z->path,
                tp_last_error());
    if (st == TP_ERR_DTYPE) tp_fail(st, "%s: %s. Write it with that type, or leave it out", z->path, tp_last_error());
    tp__session_init_delete(r);
    tp_dict_free(&d);
    return st;
}

static void tp__file_init_free(tp_session_init *i)
{
    tp_free(((tp__file_init *)(void *)i)->path);
    tp_free(i);
}

/* `path` with the user's home folder for a leading "~" or "~/"; other paths are copied. The caller frees it with tp_free.
 * NULL: out of memory. */
static char *tp__expand_user(const char *path)
{
    const char *home = path[0] == '~' && (!path[1] || path[1] == '/') ? getenv("HOME") : NULL;
    if (!home || !*home) return tp_strdup(path);
    size_t n = strlen(home);
    while (n > 1 && path[1] && home[n - 1] == '/') n--;
    if (n == 1 && home[0] == '/' && path[1]) n = 0; /* `path` is the home folder "/" */
    char *full = (char *)tp_malloc(n + strlen(path));
    if (!full) return NULL;
    memcpy(full, home, n);
    memcpy(full + n, path + 1, strlen(path));
    return full;
}

static tp_session_init *tp__smart_init(const char *path, bool ignore_mismatch)
{
    if (tp__ends_with(path, ".npz") || tp__ends_with(path, ".safetensors")) {
        tp__file_init *z = (tp__file_init *)tp_calloc(1, sizeof *z);
        if (!z || !(z->path = tp_strdup(path))) {
            tp_free(z);
            return NULL;
        }
        z->ignore_mismatch = ignore_mismatch;
        z->init.run = tp__file_init_run;
        z->init.free = tp__file_init_free;
        return &z->init;
    }
    tp_saver_restore_desc d;
    memset(&d, 0, sizeof d);
    d.path = path;
    d.relaxed = ignore_mismatch;
    return tp_saver_restore_ex(&d);
}

TP_DEF tp_session_init *tp_smart_init(const char *path, bool ignore_mismatch)
{
    if (!path || !*path) return tp_just_current_session();
    char *full = tp__expand_user(path);
    tp_session_init *i = full ? tp__smart_init(full, ignore_mismatch) : NULL;
    tp_free(full);
    return i;
}

/* Frees the dicts in a list of sources that a caller gave away. */
static void tp__smart_drop(const tp_smart_source *list, int n)
{
    for (int i = 0; i < n; i++) {
        if (list[i].dict) tp_dict_free(list[i].dict);
        if (list[i].list) tp__smart_drop(list[i].list, list[i].n);
    }
}

/* Returns an initialiser that fails when it runs: NULL would mean that there is nothing to load. */
static tp_session_init *tp__smart_mistake(int number)
{
    tp_session_init *i = tp_just_current_session();
    if (!i) return NULL;
    tp__chain *c = (tp__chain *)(void *)i;
    tp__format(c->mistake, sizeof c->mistake,
               "tp_smart_init_list: number %d is to be one of these: a path, a dict, a list of .n", number);
    return i;
}

TP_DEF tp_session_init *tp_smart_init_list(const tp_smart_source *list, int n, bool ignore_mismatch)
{
    TP__REQUIRE((list || n == 0) && n >= 0, NULL)

    tp_session_init **item = (tp_session_init **)tp_calloc((size_t)n + 1, sizeof *item);
    bool ok = item != NULL;
    int done = 0;
    for (; ok && done < n; done++) {
        const tp_smart_source *s = &list[done];
        const int set = (s->path != NULL) + (s->dict != NULL) + (s->list != NULL);
        if (set > 1 || (s->list ? s->n < 0 : s->n != 0)) {
            tp__smart_drop(s, 1);
            item[done] = tp__smart_mistake(done);
        } else if (s->dict) {
            item[done] = tp_dict_restore(s->dict, ignore_mismatch);
        } else {
            item[done] =
                s->list ? tp_smart_init_list(s->list, s->n, ignore_mismatch) : tp_smart_init(s->path, ignore_mismatch);
        }
        ok = item[done] != NULL;
    }
    tp_session_init *chain = ok ? tp_chain_init(item, n) : NULL; /* the list owns the items, even if it fails */
    for (int i = 0; i < done && !ok; i++) tp__session_init_delete(item[i]);
    if (!ok) tp__smart_drop(list, n); /* items of the caller's list that were taken are empty now */
    tp_free((void *)item);
    return chain;
}

/* ==== >>predict ======================================================================================= */

struct tp_predictor {
    tp_owner owner_;       /* the trainer, or the predictor of several towers, that made it, and frees it */
    tp_graph *graph;       /* the predictor's own graph, or NULL */
    tp_session_init *init; /* the initialiser, owned; kept, so that passing it twice is detected */
    tp_session *session;
    bool owns_session;
    tp_exec *exec;
    tp_node **in, **out;
    tp_feed *feed;
    int n_in, n_out;
    int n_given; /* number of inputs that the caller gives; the others are carried over from the call before */
    /* for each input: 1 + the output whose last value it gets; 0: the caller gives it. NULL: the caller gives all */
    int *carried_output;
    tp_tensor *state;               /* values of the carried inputs; dtype 0: they are zeros */
    bool running;                   /* atomic: a call is in progress */
    tp_predictor **tower_predictor; /* the predictors of the other towers */
    int n_tower_predictor;
    tp_predictor *next; /* next predictor in the list of the trainer that made this one */
};

TP_DEF int tp_predictor_n_inputs(const tp_predictor *p)
{
    TP__REQUIRE(p, 0)
    return p->n_given;
}
TP_DEF int tp_predictor_n_outputs(const tp_predictor *p)
{
    TP__REQUIRE(p, 0)
    return p->n_out;
}
TP_DEF tp_session *tp_predictor_session(tp_predictor *p)
{
    TP__REQUIRE(p, NULL)
    return p->session;
}

TP__UNUSED static void tp__predictor_delete(tp_predictor *p)
{
    if (!p) return;
    for (int i = 0; i < p->n_tower_predictor; i++) tp__predictor_delete(p->tower_predictor[i]);
    tp_exec_free(p->exec);
    for (int i = 0; p->state && i < p->n_in; i++) tp_tensor_free(&p->state[i]);
    tp_free(p->state);
    tp_free(p->carried_output);
    if (p->owns_session) tp__session_delete(p->session);
    tp__session_init_delete(p->init);
    tp__graph_delete(p->graph); /* NULL if the caller owns the graph */
    tp_free((void *)p->tower_predictor);
    tp_free((void *)p->in);
    tp_free((void *)p->out);
    tp_free(p->feed);
    tp_free(p);
}
TP_DEF void tp_predictor_free(tp_predictor *p)
{
    if (p && tp__may_free(&p->owner_, __func__, "the predictor")) tp__predictor_delete(p);
}

/* A predictor without a session: it cannot be called until it gets one. */
static tp_predictor *tp__predictor_new(const tp_graph *g, tp_node *const *inputs, int n_inputs, tp_node *const *outputs,
                                       int n_outputs)
{
    for (int i = 0; i < n_inputs + n_outputs; i++) {
        const tp_node *n = i < n_inputs ? inputs[i] : outputs[i - n_inputs];
        const char *role = i < n_inputs ? "input" : "output";
        const int k = i < n_inputs ? i : i - n_inputs;
        if (!n || tp_is_poison(n)) {
            const tp_status failed = n ? tp_graph_status(g) : TP_OK; /* that it is poison has a reason */
            if (failed != TP_OK) tp_fail(failed, "predictor: %s %d: %s", role, k, tp_graph_error(g));
            else tp_fail(TP_ERR_ARG, "predictor: %s %d is no node", role, k);
            return NULL;
        }
        if (n->op->graph != g) {
            tp_fail(TP_ERR_ARG, "predictor: %s %d, '%s', is of another graph than the session", role, k, n->op->name);
            return NULL;
        }
    }
    tp_predictor *p = (tp_predictor *)tp_calloc(1, sizeof *p);
    if (!p) return NULL;
    p->n_in = p->n_given = n_inputs;
    p->n_out = n_outputs;
    p->in = (tp_node **)tp_calloc((size_t)n_inputs + 1, sizeof *p->in);
    p->out = (tp_node **)tp_calloc((size_t)n_outputs, sizeof *p->out);
    p->feed = (tp_feed *)tp_calloc((size_t)n_inputs + 1, sizeof *p->feed);
    if (!p->in || !p->out || !p->feed) {
        tp_predictor_free(p);
        return NULL;
    }
    for (int i = 0; i < n_inputs; i++) p->in[i] = inputs[i];
    for (int i = 0; i < n_outputs; i++) p->out[i] = outputs[i];
    return p;
}

static tp_status tp__predictor_attach(tp_predictor *p, tp_session *s)
{
    p->session = s;
    p->exec = tp_exec_new(s);
    return p->exec ? TP_OK : TP_ERR_NOMEM;
}

TP_DEF tp_predictor *tp_online_predictor(tp_session *s, tp_node *const *inputs, int n_inputs, tp_node *const *outputs,
                                         int n_outputs)
{
    if (!s || n_inputs < 0 || (n_inputs > 0 && !inputs) || n_outputs < 1 || !outputs) {
        tp_fail(TP_ERR_ARG, "a predictor needs a session and at least one output");
        return NULL;
    }
    tp_predictor *p = tp__predictor_new(s->graph, inputs, n_inputs, outputs, n_outputs);
    if (!p || tp__predictor_attach(p, s) == TP_OK) return p;
    tp_predictor_free(p);
    return NULL;
}

TP_DEF tp_status tp_predictor_carry(tp_predictor *p, int output, int input)
{
    TP__REQUIRE(p, TP_ERR_ARG)
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    if (input < 0 || input >= p->n_in || output < 0 || output >= p->n_out)
        return tp_fail(TP_ERR_ARG,
                       "tp_predictor_carry: output %d to input %d: the predictor has %d outputs and %d inputs", output,
                       input, p->n_out, p->n_in);
    const tp_node *x = p->in[input], *y = p->out[output];
    if (x->dtype != y->dtype || !tp_shape_compatible(&x->shape, &y->shape))
        return tp_fail(TP_ERR_SHAPE, "tp_predictor_carry: '%s' is %s %s, which the input '%s', %s %s, cannot be",
                       y->op->name, tp_dtype_name(y->dtype), tp_shape_text(&y->shape, a), x->op->name,
                       tp_dtype_name(x->dtype), tp_shape_text(&x->shape, b));
    if (x == y)
        return tp_fail(TP_ERR_ARG,
                       "tp_predictor_carry: output %d is the input '%s' itself: give the new state a name of its own, "
                       "and list that as output",
                       output, x->op->name);
    for (int d = 1; d < x->shape.ndim; d++)
        if (x->shape.dim[d] < 0)
            return tp_fail(TP_ERR_SHAPE,
                           "tp_predictor_carry: the input '%s' has shape %s: only its first dimension may "
                           "be unknown",
                           x->op->name, tp_shape_text(&x->shape, a));
    if (!p->carried_output) p->carried_output = (int *)tp_calloc((size_t)p->n_in + 1, sizeof *p->carried_output);
    if (!p->state) p->state = (tp_tensor *)tp_calloc((size_t)p->n_in + 1, sizeof *p->state);
    if (!p->carried_output || !p->state) return TP_ERR_NOMEM;
    if (p->carried_output[input])
        return tp_fail(TP_ERR_STATE, "tp_predictor_carry: the input '%s' is carried already", x->op->name);
    const unsigned n_errors = tp__n_errors;
    const bool read = tp_depends_on(p->out, p->n_out, x->op);
    if (tp__n_errors != n_errors) return TP_ERR_NOMEM;
    if (!read)
        tp_log(TP_LOG_WARN, "tp_predictor_carry: no output reads the input '%s', so carrying it changes nothing",
               x->op->name);
    p->carried_output[input] = output + 1;
    p->n_given--;
    return TP_OK;
}

TP_DEF void tp_predictor_reset(tp_predictor *p)
{
    TP__REQUIRE(p, )
    for (int i = 0; p->state && i < p->n_in; i++) tp_tensor_free(&p->state[i]);
}

/* Prepares the value of the carried input i. `first` is the first given input, which tells the batch size, or NULL. */
static tp_status tp__predict_state(tp_predictor *p, int i, const tp_tensor *first)
{
    tp_tensor *t = &p->state[i];
    tp_shape shape = p->in[i]->shape;
    const int64_t batch = first && first->shape.ndim ? first->shape.dim[0] : 1;
    if (shape.ndim && shape.dim[0] < 0) shape.dim[0] = batch;
    if (t->dtype == TP_DTYPE_UNSET) {
        const tp_status st = tp_tensor_resize(t, p->in[i]->dtype, shape);
        if (st != TP_OK) return st;
        if (tp_tensor_bytes(t)) memset(t->data, 0, tp_tensor_bytes(t));
    } else if (!tp_shape_equal(&t->shape, &shape)) {
        char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
        return tp_fail(TP_ERR_SHAPE, "the state '%s' is %s, now %s is needed: tp_predictor_reset begins anew",
                       p->in[i]->op->name, tp_shape_text(&t->shape, a), tp_shape_text(&shape, b));
    }
    p->feed[i].value = *t;
    return TP_OK;
}

TP_DEF tp_status tp_predict(tp_predictor *p, const tp_tensor *input, const tp_tensor **output)
{
    TP__REQUIRE(p && input && output, TP_ERR_ARG)
    if (p->n_given == 1 && p->n_out == 1) return tp_predict_n(p, input, 1, output, 1);
    return tp_fail(
        TP_ERR_ARG,
        "tp_predict: the predictor has %d inputs and %d outputs: .input_names and .output_names of its config choose "
        "one of each; tp_predict_n takes arrays and their lengths",
        p->n_given, p->n_out);
}

TP_DEF tp_status tp_predict_n(tp_predictor *p, const tp_tensor *inputs, int n_inputs, const tp_tensor **outputs,
                              int n_outputs)
{
    TP__REQUIRE(p && (inputs || n_inputs == 0) && outputs, TP_ERR_ARG)
    if (n_inputs != p->n_given || n_outputs != p->n_out)
        return tp_fail(TP_ERR_ARG,
                       "tp_predict_n: the predictor has %d inputs and %d outputs, the arrays have %d and %d entries",
                       p->n_given, p->n_out, n_inputs, n_outputs);
    if (!p->exec)
        return tp_fail(TP_ERR_STATE, "tp_predict_n: the predictor's trainer has no session yet: call it after "
                                     "tp_trainer_initialize");
    tp_status st = tp__mark_running(&p->running, true); /* before p->feed changes, which the other call may read */
    if (st != TP_OK) return st;
    for (int i = 0, given = 0; i < p->n_in && st == TP_OK; i++) {
        p->feed[i].node = p->in[i];
        if (p->carried_output && p->carried_output[i]) st = tp__predict_state(p, i, n_inputs ? &inputs[0] : NULL);
        else p->feed[i].value = inputs[given++];
    }
    if (st == TP_OK) st = tp_exec_run(p->exec, p->feed, p->n_in, p->out, p->n_out, outputs);
    for (int i = 0; p->carried_output && i < p->n_in && st == TP_OK; i++)
        if (p->carried_output[i]) st = tp_tensor_copy(&p->state[i], outputs[p->carried_output[i] - 1]);
    tp__mark_running(&p->running, false);
    return st;
}

/* Finds a node of the tower: by the handle's rules for names, else by its name in the graph. */
static tp_node *tp__predict_find(const tp_predict_config *c, const tp_tower_handle *h, const char *name,
                                 const char *role)
{
    tp_node *n = name ? tp__tower_node(h, name) : NULL;
    if (!n && name) n = tp__node_named(h->ctx.graph, name);
    if (n) return n;
    tp_buf names;
    memset(&names, 0, sizeof names);
    for (int i = 0; i < c->n_inputs; i++) tp_buf_printf(&names, "%s%s", i ? ", " : "", c->inputs[i].name);
    char near[TP__NEAREST_TEXT];
    tp_fail(TP_ERR_NAME, "predictor: there is no tensor '%s' for an %s; the inputs are %s%s", name ? name : "NULL",
            role, names.data ? names.data : "none", name ? tp__node_near(h->ctx.graph, name, near) : "");
    tp_buf_free(&names);
    return NULL;
}

/* Builds one tower: its placeholders and the tower function. Sets the nodes that are fed (in) and fetched (out). */
static tp_status tp__predict_tower(const tp_predict_config *c, tp_graph *g, tp_tower_func *f, const char *name,
                                   int reuse, tp_node **in, int n_in, tp_node **out)
{
    tp_variable_scope_desc vs;
    tp_tower_desc d;
    tp_node **x = (tp_node **)tp_graph_alloc(g, (size_t)(c->n_inputs + 1) * sizeof *x);
    if (!x) return TP_ERR_NOMEM;
    memset(&vs, 0, sizeof vs);
    memset(&d, 0, sizeof d);
    if (*name) tp_name_scope_push(g, name);
    for (int i = 0; i < c->n_inputs; i++)
        x[i] = tp_placeholder(g, c->inputs[i].name, c->inputs[i].dtype, c->inputs[i].shape);
    if (*name) tp_name_scope_pop(g);
    vs.reuse = reuse;
    tp_variable_scope_push(g, &vs);
    d.name = name;
    char why[512] = "";
    if (tp_tower_enter(g, &d)) {
        const unsigned n_errors = tp__n_errors;
        if (!tp_tower_func_call(f, x) && tp__n_errors != n_errors)
            tp__format(why, sizeof why, ". build_graph returned NULL: %.450s", tp_last_error());
        tp_tower_leave(g);
    }
    tp_variable_scope_pop(g);
    if (tp_graph_status(g) != TP_OK) return tp_fail(tp_graph_status(g), "%s", tp_graph_error(g));
    const tp_tower_handle *h = tp_tower_func_tower(f, tp_tower_func_n_towers(f) - 1);
    for (int i = 0; i < n_in; i++) {
        const char *wanted = c->input_names ? c->input_names[i] : c->inputs[i].name;
        if (!(in[i] = tp__predict_find(c, h, wanted, "input")))
            return tp_fail(TP_ERR_NAME, "%s%s", tp_last_error(), why);
    }
    for (int i = 0; i < c->n_output_names; i++)
        if (!(out[i] = tp__predict_find(c, h, c->output_names[i], "output")))
            return tp_fail(TP_ERR_NAME, "%s%s", tp_last_error(), why);
    return TP_OK;
}

/* Whether the initialiser loads all its values from checkpoints. This is not known of an initialiser that the program
 * wrote. */
static bool tp__is_restore(const tp_session_init *i)
{
    if (!i) return false;
    if (i->run == tp__restore_run || i->run == tp__file_init_run) return true;
    if (i->run != tp__chain_run) return false;
    const tp__chain *c = (const tp__chain *)(const void *)i;
    for (int k = 0; k < c->n; k++)
        if (c->item[k] && c->item[k]->run && !tp__is_restore(c->item[k])) return false;
    return true;
}

static tp_status tp__predict_load_all(const tp_predict_config *c, tp_session *s)
{
    s->for_predictor = true;
    const tp_status st = tp__session_init_load(c->session_init, s);
    s->for_predictor = false;
    return st;
}

/* Runs session_init. Fails if a variable that the outputs need gets no value: it would be random. */
static tp_status tp__predict_load(const tp_predict_config *c, tp_session *s, tp_node *const *out, int n_out)
{
    int n = 0, missing = 0;
    tp_node *const *vars = tp_collection(s->graph, TP_KEY_GLOBAL_VARIABLES, &n);
    const bool fresh = !c->session_creator || c->session_creator->create == tp__create_new;
    if (!fresh || c->allow_missing_variables || !tp__is_restore(c->session_init)) return tp__predict_load_all(c, s);
    tp_buf names;
    memset(&names, 0, sizeof names);
    s->n_loaded = tp__session_grow(s) == TP_OK ? s->n_var : 0;
    s->loaded = (bool *)tp_calloc((size_t)s->n_loaded + 1, sizeof *s->loaded);
    tp_status st = s->loaded ? tp__predict_load_all(c, s) : TP_ERR_NOMEM;
    for (int i = 0; i < n && st == TP_OK; i++) {
        const tp_variable *v = tp_node_variable(vars[i]);
        if (!v || v->id >= s->n_loaded || s->loaded[v->id] || !tp_depends_on(out, n_out, v->node->op)) continue;
        if (missing++ < 10) tp_buf_printf(&names, "%s%s", names.len ? ", " : "", v->name);
    }
    if (missing > 10) tp_buf_printf(&names, ", and %d more", missing - 10);
    if (missing)
        st = tp_fail(
            TP_ERR_NAME,
            "predictor: session_init has no values for %d variable%s that the outputs need: %s. Is it of another "
            "model? .allow_missing_variables = true leaves them as they are initialised",
            missing, missing > 1 ? "s" : "", names.data ? names.data : "");
    tp_buf_free(&names);
    tp_free(s->loaded);
    s->loaded = NULL;
    s->n_loaded = 0;
    return st;
}

/* Returns the number of devices of a creator's session, if it is known. */
static int tp__creator_devices(const tp_session_creator *c)
{
    if (c->create == tp__create_reuse && c->user) return ((const tp_session *)c->user)->n_device;
    const int given = c->config.devices && c->config.n_devices > 0 ? c->config.n_devices : 0;
    const int n = given + (c->config.n_cpu_devices > 0 ? c->config.n_cpu_devices : 0);
    return n > 0 ? n : 1;
}

/* Makes the predictor. On failure the caller must free the arguments that its own caller passed. */
static tp_predictor *tp__predict_make(const tp_predict_config *c, tp_graph *g, int towers)
{
    const int n_in = c->input_names ? c->n_input_names : c->n_inputs, n_out = c->n_output_names;
    const int each = n_in + n_out;
    g->quiet_layers = g->quiet_layers || c->log_layers == TP_NO;
    tp_tower_func *f = tp_tower_func_new(g, c->build_graph, c->user, c->inputs, c->n_inputs);
    tp_node **node = (tp_node **)tp_graph_alloc(g, (size_t)(towers * each + 1) * sizeof *node);
    if (!f || !node) {
        if (tp_graph_status(g) != TP_OK) tp_fail(tp_graph_status(g), "%s", tp_graph_error(g));
        return NULL;
    }
    tp_session_creator standard = tp_new_session_creator(NULL),
                       *creator = c->session_creator ? c->session_creator : &standard;
    const int devices = tp__creator_devices(creator);
    if (n_in == 0) tp_log(TP_LOG_WARN, "PredictConfig: there are no inputs");
    for (int i = 0; i < towers; i++) {
        char name[32] = "";
        const int reuse = i > 0 ? TP_REUSE_YES : c->graph ? TP_REUSE_AUTO : TP_REUSE_INHERIT;
        if (towers > 1) tp__format(name, sizeof name, "tower%d", i);
        tp_device_enter(g, i % devices);
        /* the graph has other towers: these need other names, or lookups would find the wrong nodes */
        for (int k = 0; c->graph && (k == 0 || tp__map_get(&g->used, name)); k++)
            tp__format(name, sizeof name, "tower-pred-%d", i + k);
        const tp_status st = tp__predict_tower(c, g, f, name, reuse, node + i * each, n_in, node + i * each + n_in);
        tp_device_leave(g);
        if (st != TP_OK) return NULL;
    }
    if (tp__session_init_setup(c->session_init, g) != TP_OK) return NULL;
    tp_session *s = creator->create(creator, g);
    if (!s) return NULL;
    tp_predictor *p = NULL;
    if (tp__predict_load(c, s, node + n_in, n_out) == TP_OK) p = tp_online_predictor(s, node, n_in, node + n_in, n_out);
    if (!p) {
        if (!creator->borrowed) tp_session_free(s);
        return NULL;
    }
    p->owns_session = !creator->borrowed;
    if (p->owns_session) s->owner_.who = "a predictor";
    if (towers == 1) return p;
    p->tower_predictor = (tp_predictor **)tp_calloc((size_t)towers - 1, sizeof *p->tower_predictor);
    for (int i = 1; p->tower_predictor && i < towers; i++, p->n_tower_predictor++) {
        p->tower_predictor[i - 1] = tp_online_predictor(s, node + i * each, n_in, node + i * each + n_in, n_out);
        if (!p->tower_predictor[i - 1]) break;
        p->tower_predictor[i - 1]->owner_.who = "the predictor of several towers";
    }
    if (p->n_tower_predictor == towers - 1) return p;
    tp_predictor_free(p);
    return NULL;
}

TP_DEF tp_predictor *tp_multi_tower_predictor(const tp_predict_config *c, int n)
{
    TP__REQUIRE(c, NULL)

    tp_predictor *p = NULL;
    tp_graph *g = c->graph;
    tp_predict_config with = *c;
    tp_session_init *const init =
        c->checkpoint && !c->session_init ? tp_smart_init(c->checkpoint, false) : c->session_init;
    if (c->checkpoint && (c->session_init || !init)) {
        if (init) tp_fail(TP_ERR_ARG, "PredictConfig: give .session_init or .checkpoint, not both");
        if (init && !init->owner_.who) tp__session_init_delete(init);
        return NULL;
    }
    with.session_init = init;
    c = &with;
    if (init && !tp__set_owner(&init->owner_, "a session_init", "a predictor", NULL)) return NULL;
    if (!c->build_graph) tp_fail(TP_ERR_ARG, "PredictConfig: build_graph is NULL");
    else if (c->n_output_names < 1 || !c->output_names)
        tp_fail(TP_ERR_ARG, "PredictConfig: output_names must name at least one tensor");
    else if (c->n_input_names < 0 || (c->n_input_names > 0 && !c->input_names))
        tp_fail(TP_ERR_ARG,
                "PredictConfig: .n_input_names is %d%s: give the list in .input_names and its length in "
                ".n_input_names",
                c->n_input_names, c->n_input_names > 0 ? ", but there is no .input_names" : "");
    else if (n < 1) tp_fail(TP_ERR_ARG, "predictor: %d towers make no sense", n);
    else {
        if (!g) g = tp_graph_new(NULL);
        if (g) p = tp__predict_make(c, g, n);
        if (p && !c->graph) p->graph = g, g->owner_.who = "a predictor";
        if (!p && !c->graph) tp_graph_free(g);
    }
    if (p) p->init = init;
    else tp__session_init_delete(init);
    if (p && !init && !c->session_creator && tp_graph_n_variables(tp_session_graph(tp_predictor_session(p))) > 0)
        tp_log(TP_LOG_WARN,
               "predictor: neither .checkpoint nor .session_init: the variables have their initial values");
    /* the predictor keeps the initialiser, so that passing it twice is detected; its values are in the session already
     * and are freed */
    if (p && init && init->run == tp__restore_run) tp_dict_free(&((tp__restore *)(void *)init)->dict);
    return p;
}

TP_DEF tp_predictor *tp_offline_predictor(const tp_predict_config *c)
{
    TP__REQUIRE(c, NULL)
    return tp_multi_tower_predictor(c, 1);
}

TP_DEF tp_predictor *tp_predictor_tower(tp_predictor *p, int i)
{
    TP__REQUIRE(p && i >= 0, NULL)

    const int towers = p->n_tower_predictor + 1;
    if (i >= towers)
        tp_log(TP_LOG_WARN, "predictor %d was asked for, there are %d towers: it is number %d again", i, towers,
               i % towers);
    i %= towers;
    return i <= 0 ? p : p->tower_predictor[i - 1];
}

TP__COLD_END
TP__EXACT_END
#undef TP__PLACED
#define TP__PLACED TP__PLACE
#endif

#else /* TP__F: the op pages, included once for each element type */

/* ==== >>ops: element-wise, reductions, shapes ========================================================== */
/* This file is included four times, once for each type that a naive loop is written for: TP__NUM is int32_t,
 * int64_t, float, double, and TP__F(name) is name_i32, name_i64, name_f32, name_f64. The code between
 * #ifdef TP__FIRST_PASS and #endif is shared by all four and is read once, the first time; the code between
 * #ifdef TP__ROWS and #endif is the rest of a page (shape rule, gradient, row, builder) and is read once, the
 * last time.
 *
 * The loop that computes a value:
 *   element-wise rows   the block of the dtype of the LAST input; uint8 and bool use the block of float32, and a row
 *                       that takes them has its byte function there (logical_and, select_bytes)
 *   other rows          naive_f64 if an operand is float64, else naive_f32, which tests the dtype itself
 *                       where integers are allowed; in rows that only move elements naive_f32 for every type
 *   half precision      is converted by the executor, so that float16 and bfloat16 are float32 here;
 *                       cast and the rows that only move elements get them unconverted
 *   float32 on a CPU    with an instruction set: the row's fast kernel, tp__<op>_fast in tp_fast.h (>>fast_ops), if there
 *                       is one (rows that only move elements: for every type); without that file TP__IF_FAST puts NULL
 *                       in its place */

#ifndef TP__MATH_SEEN
#define TP__MATH_SEEN
#define TP__FIRST_PASS 1
#endif

/* -- the loop of an element-wise op: y = expression of x (one operand) or of a and b (two); t is the
 * attributes */

#define TP__MAP1(name_, type_, expr_)                                                               \
    static void TP__F(tp__##name_)(int64_t n, void *y_, const void *const *in_, const void *attrs_) \
    {                                                                                               \
        const type_ *t = (const type_ *)attrs_;                                                     \
        const TP__NUM *px = (const TP__NUM *)in_[0];                                                \
        TP__NUM *py = (TP__NUM *)y_;                                                                \
        (void)t;                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                           \
            const TP__NUM x = px[i];                                                                \
            py[i] = (TP__NUM)(expr_);                                                               \
        }                                                                                           \
    }

#define TP__MAP2(name_, type_, out_, expr_)                                                         \
    static void TP__F(tp__##name_)(int64_t n, void *y_, const void *const *in_, const void *attrs_) \
    {                                                                                               \
        const type_ *t = (const type_ *)attrs_;                                                     \
        const TP__NUM *pa = (const TP__NUM *)in_[0], *pb = (const TP__NUM *)in_[1];                 \
        out_ *py = (out_ *)y_;                                                                      \
        (void)t;                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                           \
            const TP__NUM a = pa[i], b = pb[i];                                                     \
            py[i] = (out_)(expr_);                                                                  \
        }                                                                                           \
    }

/* Integers wrap around, as on the machine. The C standard promises this for unsigned integers only. TP__TOTAL is the type in
 * which a sum or a product of many elements is kept. */
#ifdef TP__PASS_INT
#define TP__ADD(a_, b_)  ((TP__NUM)((uint64_t)(a_) + (uint64_t)(b_)))
#define TP__SUB(a_, b_)  ((TP__NUM)((uint64_t)(a_) - (uint64_t)(b_)))
#define TP__MUL(a_, b_)  ((TP__NUM)((uint64_t)(a_) * (uint64_t)(b_)))
#define TP__IS_NAN(x_)   false
#define TP__TOTAL        TP__NUM
#define TP__TOTAL_OF(n_) ((TP__NUM)(n_))
#else
#define TP__ADD(a_, b_) ((a_) + (b_))
#define TP__SUB(a_, b_) ((a_) - (b_))
#define TP__MUL(a_, b_) ((a_) * (b_))
#define TP__IS_NAN(x_)  ((x_) != (x_))
#ifdef TP__REAL_IS_FLOAT
#define TP__TOTAL        tp__wide
#define TP__TOTAL_OF(n_) tp__wide_of(n_)
#else
#define TP__TOTAL        double
#define TP__TOTAL_OF(n_) ((double)(n_))
#endif
#endif

/* A product that is rounded before anything is added to it. Otherwise compilers may fuse product and sum. */
#ifndef TP__PASS_INT
#ifdef TP__PRODUCT
#define TP__ROUNDED(x_) TP__PRODUCT(x_)
#else
static real TP__F(tp__rounded)(real x)
{
    volatile real kept = x;
    return kept;
}
#define TP__ROUNDED(x_) TP__F(tp__rounded)(x_)
#endif
#endif

/* Functions of reals: built-in ones for float, so that the bits do not depend on a libm; libm's for double. TP__R(floor)
 * is floorf or floor: these are exact. */
#ifdef TP__REAL_IS_FLOAT
#define TP__R(fn_)      fn_##f
#define TP__EXP(x_)     tp_expf(x_)
#define TP__EXPM1(x_)   tp__expm1f(x_)
#define TP__LOG(x_)     tp_logf(x_)
#define TP__LOG1P(x_)   tp__log1pf(x_)
#define TP__ERF(x_)     tp_erff(x_)
#define TP__TANH(x_)    tp_tanhf(x_)
#define TP__SIN(x_)     tp__sine(x_)
#define TP__COS(x_)     tp__cosine(x_)
#define TP__POW(a_, b_) tp__powf(a_, b_)
#define TP__ASIN(x_)    tp__asinf(x_)
#define TP__ACOS(x_)    tp__acosf(x_)
#define TP__ATAN(x_)    tp__atanf(x_)
#elif !defined(TP__PASS_INT)
#define TP__R(fn_)      fn_
#define TP__EXP(x_)     exp(x_)
#define TP__EXPM1(x_)   expm1(x_)
#define TP__LOG(x_)     log(x_)
#define TP__LOG1P(x_)   log1p(x_)
#define TP__ERF(x_)     erf(x_)
#define TP__TANH(x_)    tanh(x_)
#define TP__SIN(x_)     sin(x_)
#define TP__COS(x_)     cos(x_)
#define TP__POW(a_, b_) pow(a_, b_)
#define TP__ASIN(x_)    asin(x_)
#define TP__ACOS(x_)    acos(x_)
#define TP__ATAN(x_)    atan(x_)
#endif

#ifdef TP__FIRST_PASS
/* -- functions that several op pages use */

typedef void (*tp__range_fn)(const tp_call *k, int64_t from, int64_t to);
typedef struct tp__range {
    const tp_call *k;
    int64_t n, grain;
    tp__range_fn fn;
} tp__range;

static void tp__range_chunk(void *user, int64_t chunk)
{
    const tp__range *r = (const tp__range *)user;
    const int64_t from = chunk * r->grain;
    r->fn(r->k, from, r->n - from < r->grain ? r->n : from + r->grain);
}

/* Calls fn over [0, n) in pieces of `grain`, on all threads. The pieces must not write the same memory. */
static void tp__each_range(const tp_call *k, int64_t n, int64_t grain, tp__range_fn fn)
{
    tp__range r;
    r.k = k;
    r.n = n;
    r.grain = grain > 0 ? grain : 1;
    r.fn = fn;
    if (n <= r.grain) {
        if (n > 0) fn(k, 0, n);
        return;
    }
    tp_device_parallel(k->device, (n + r.grain - 1) / r.grain, tp__range_chunk, &r);
}

/* Returns the number of rows that is enough work for a thread. */
static int64_t tp__grain(int64_t row_size)
{
    const int64_t n = 16384 / (row_size > 0 ? row_size : 1);
    return n > 0 ? n : 1;
}

static int64_t tp__size(const tp_operand *x) { return tp_shape_size(&x->shape); }

static int64_t tp__product(const tp_shape *s, int from, int to)
{
    int64_t n = 1;
    for (int d = from; d < to; d++) n *= s->dim[d];
    return n;
}

/* Returns the product of the dimensions [from, to) of s; TP_ANY if one of them is unknown. */
static int64_t tp__known_product(const tp_shape *s, int from, int to)
{
    for (int d = from; d < to; d++)
        if (s->dim[d] < 0) return TP_ANY;
    return tp__product(s, from, to);
}

/* Defines fn_any: the loop of fn for the type of input 0, float32 or an integer type. */
#define TP__ANY_NUMBER(fn_)                              \
    static void fn_##_any(const tp_call *k)              \
    {                                                    \
        switch (TP__HAS_F64 ? k->in[0].dtype : TP_F32) { \
        case TP_I32: fn_##_i32(k); break;                \
        case TP_I64: fn_##_i64(k); break;                \
        default: fn_##_f32(k); break;                    \
        }                                                \
    }

static double tp__flops_of_input(const tp_call *k) { return (double)tp__size(&k->in[0]); }
static double tp__flops_none(const tp_call *k)
{
    (void)k;
    return 0;
}

/* Element-wise rows outside a fused chain: each operand is broadcast, a block at a time, into a contiguous buffer for the
 * row's block function. */
#ifdef TP__NO_SYSTEM
#define TP__MAP_BLOCK 8 /* a microcontroller has a small stack */
#else
#define TP__MAP_BLOCK 64
#endif
#define TP__MAP_IN 16

static tp_block_fn tp__map_block(const tp_op *row, tp_dtype last)
{
    switch (last) {
    case TP_F64: return row->block_f64;
    case TP_I32: return row->block_i32;
    case TP_I64: return row->block_i64;
    default: return row->block_f32;
    }
}

static void tp__map_range(const tp_call *k, int64_t from, int64_t to)
{
    const tp_operand *y = &k->out[0];
    const tp_block_fn block = tp__map_block(k->op, k->in[k->n_in - 1].dtype);
    const size_t y_size = tp_dtype_size(y->dtype);
    const int64_t n = tp__size(y);
    double blocks[TP__MAP_IN][TP__MAP_BLOCK]; /* doubles, because any element type fits into eight bytes */
    const void *in[TP__MAP_IN];
    int64_t dim[TP_MAX_DIMS];
    TP_ASSERT(k->n_in <= TP__MAP_IN);
    for (int64_t i0 = from; i0 < to; i0 += TP__MAP_BLOCK) {
        const int64_t m = to - i0 < TP__MAP_BLOCK ? to - i0 : TP__MAP_BLOCK;
        for (int a = 0; a < k->n_in; a++) {
            const tp_operand *x = &k->in[a];
            const size_t size = tp_dtype_size(x->dtype);
            if (tp__size(x) == n) {
                in[a] = (const char *)x->data + (size_t)i0 * size;
                continue;
            }
            in[a] = blocks[a];
            /* index in the smaller operand x of the element that element i of y reads */
            for (int64_t i = 0; i < m; i++) {
                int64_t index_left = i0 + i, at = 0, stride = 1;
                for (int d = y->shape.ndim - 1; d >= 0; d--) {
                    dim[d] = index_left % y->shape.dim[d];
                    index_left /= y->shape.dim[d];
                }
                for (int d = x->shape.ndim - 1; d >= 0; d--) {
                    if (x->shape.dim[d] != 1) at += stride * dim[d + y->shape.ndim - x->shape.ndim];
                    stride *= x->shape.dim[d];
                }
                memcpy((char *)blocks[a] + (size_t)i * size, (const char *)x->data + (size_t)at * size, size);
            }
        }
        block(m, (char *)y->data + (size_t)i0 * y_size, in, k->attrs);
    }
}

static void tp__map_kernel(const tp_call *k) { tp__each_range(k, tp__size(&k->out[0]), 16384, tp__map_range); }

/* All operands must have one element type, for which the row has a block function. */
static tp_status tp__infer_map(tp_infer *s)
{
    const tp_dtype d = s->in[s->n_in - 1].dtype;
    if (d == TP_U8 || d == TP_BOOL || !tp__map_block(s->op, d))
        return tp_infer_fail(s, TP_ERR_DTYPE, "%s does not work on %s; tp_cast it first", s->op->name,
                             tp_dtype_name(d));
    return tp__infer_broadcast_same(s);
}

static tp_status tp__infer_compare(tp_infer *s)
{
    const tp_status st = tp__infer_map(s);
    s->out[0].dtype = TP_BOOL;
    return st;
}

static tp_status tp__infer_logical(tp_infer *s)
{
    for (int i = 0; i < s->n_in; i++)
        if (s->in[i].dtype != TP_BOOL)
            return tp_infer_fail(s, TP_ERR_DTYPE, "%s takes bool, input %d is %s; compare it with something first",
                                 s->op->name, i, tp_dtype_name(s->in[i].dtype));
    return tp__infer_broadcast_same(s);
}

/* Checks that input 0 has a number type. */
static tp_status tp__infer_number(tp_infer *s)
{
    const tp_dtype d = s->in[0].dtype;
    if (d == TP_U8 || d == TP_BOOL)
        return tp_infer_fail(s, TP_ERR_DTYPE, "%s does not work on %s; tp_cast it first", s->op->name,
                             tp_dtype_name(d));
    return TP_OK;
}

/* The shape rule of ops that only need a real input. */
static tp_status tp__infer_real(tp_infer *s)
{
    for (int i = 0; i < s->n_in; i++)
        if (!tp_dtype_is_float(s->in[i].dtype))
            return tp_infer_fail(s, TP_ERR_DTYPE, "%s does not work on %s; tp_cast it first", s->op->name,
                                 tp_dtype_name(s->in[i].dtype));
    return TP_OK;
}

/* All inputs must have the same floating type. */
static tp_status tp__infer_one_real(tp_infer *s)
{
    const tp_status st = tp__infer_real(s);
    for (int i = 1; i < s->n_in && st == TP_OK; i++)
        if (s->in[i].dtype != s->in[0].dtype)
            return tp_infer_fail(s, TP_ERR_DTYPE, "%s: element types %s and %s differ; tp_cast one of them",
                                 s->op->name, tp_dtype_name(s->in[0].dtype), tp_dtype_name(s->in[i].dtype));
    return st;
}

/* The shape rule of ops that need a real input, and whose output is a scalar of the type of input 0. */
static tp_status tp__infer_real_scalar(tp_infer *s)
{
    s->out[0].dtype = s->in[0].dtype;
    s->out[0].shape.ndim = 0;
    return tp__infer_real(s);
}
#endif

#ifdef TP__ROWS
/* Returns c * x, also for a constant c that a float32 attribute cannot hold exactly. */
static tp_node *tp__scaled(tp_node *x, double c)
{
    if ((double)(float)c == c) return tp_affine(x, (float)c, 0.0f);
    return tp_mul(x, tp_const_as(tp_node_graph(x), x->dtype, c));
}

static tp_node *tp__zero_of(tp_node *x) { return tp_const_as(tp_node_graph(x), x->dtype, 0.0); }

/* Returns x where the mask is true, else 0. */
static tp_node *tp__where(tp_node *mask, tp_node *x) { return tp_select(mask, x, tp__zero_of(x)); }

/* Returns the gradient of an op that only changes the shape. */
static void tp__view_gradient(tp_grad *g) { g->din[0] = tp_reshape_like(g->dout[0], g->in[0]); }
static void tp__identity_gradient(tp_grad *g) { g->din[0] = g->dout[0]; }

/* Returns x on a device: x itself, or a copy on that device. */
static tp_node *tp__on_device(tp_node *x, int device)
{
    if (tp_is_poison(x) || tp_node_device(x) == device) return x;
    tp_graph *g = tp_node_graph(x);
    tp_device_enter(g, device);
    tp_node *y = tp_identity(x);
    tp_device_leave(g);
    return y;
}
#endif

/* ==== element-wise: arithmetic ========================================================================= */

/* -- add: y = a + b ------------------------------------------------------------------------- >>op add */
TP__MAP2(add, char, TP__NUM, TP__ADD(a, b))
#ifdef TP__ROWS
static void tp__add_gradient(tp_grad *g)
{
    g->din[0] = tp__unbroadcast(g->dout[0], g->in[0]);
    g->din[1] = tp__unbroadcast(g->dout[0], g->in[1]);
}
static const tp_op tp__op_add =
    TP__MAP_ROW("add", "Add", 2, tp__add_gradient, TP__MAPS(tp__add), tp_vec_find_add, "Add");
TP_DEF tp_node *tp_add(tp_node *a, tp_node *b) { return tp__op2(&tp__op_add, a, b, NULL); }
#endif

/* -- sub: y = a - b ------------------------------------------------------------------------- >>op sub */
TP__MAP2(sub, char, TP__NUM, TP__SUB(a, b))
#ifdef TP__ROWS
static void tp__sub_gradient(tp_grad *g)
{
    g->din[0] = tp__unbroadcast(g->dout[0], g->in[0]);
    g->din[1] = tp__unbroadcast(tp_neg(g->dout[0]), g->in[1]);
}
static const tp_op tp__op_sub =
    TP__MAP_ROW("sub", "Sub", 2, tp__sub_gradient, TP__MAPS(tp__sub), tp_vec_find_sub, "Sub");
/* Warns if a difference of (B,1) and (B), whose B is not known yet, will be (B,B): mostly a prediction and a truth whose shapes differ
 * by mistake. */
static void tp__warn_pairs(const char *what, const tp_node *a, const tp_node *b)
{
    const bool a_has_more = a && b && a->shape.ndim > b->shape.ndim;
    const tp_node *more = a_has_more ? a : b, *less = a_has_more ? b : a;
    char x[TP_SHAPE_TEXT], y[TP_SHAPE_TEXT];
    if (!a || !b || tp_is_poison(a) || tp_is_poison(b) || more->shape.ndim != 2 || less->shape.ndim != 1) return;
    if (more->shape.dim[0] != TP_ANY || more->shape.dim[1] != 1 || less->shape.dim[0] != TP_ANY) return;
    char place[TP__PLACE_TEXT];
    tp_log_once(
        TP_LOG_WARN,
        "%s%s of %s and %s compares each row with each, (?,?). If that is not meant, tp_squeeze(x, 1) the first; "
        "if it is, tp_expand_dims(y, 0) the second.",
        tp__place_text(&more->op->at, place), what, tp_shape_text(&more->shape, x), tp_shape_text(&less->shape, y));
}

TP_DEF tp_node *tp_sub(tp_node *a, tp_node *b)
{
    tp__warn_pairs("tp_sub", a, b);
    return tp__op2(&tp__op_sub, a, b, NULL);
}
#endif

/* -- mul: y = a b --------------------------------------------------------------------------- >>op mul */
TP__MAP2(mul, char, TP__NUM, TP__MUL(a, b))
#ifdef TP__ROWS
static void tp__mul_gradient(tp_grad *g)
{
    g->din[0] = tp__unbroadcast(tp_mul(g->dout[0], g->in[1]), g->in[0]);
    g->din[1] = tp__unbroadcast(tp_mul(g->dout[0], g->in[0]), g->in[1]);
}
static const tp_op tp__op_mul =
    TP__MAP_ROW("mul", "Mul", 2, tp__mul_gradient, TP__MAPS(tp__mul), tp_vec_find_mul, "Mul");
TP_DEF tp_node *tp_mul(tp_node *a, tp_node *b) { return tp__op2(&tp__op_mul, a, b, NULL); }
#endif

/* -- div: y = a / b ------------------------------------------------------------------------- >>op div
 *   da = dy / b,  db = -dy y / b.  Integers have floordiv instead. */
#ifndef TP__PASS_INT
TP__MAP2(div, char, real, a / b)
#endif
#ifdef TP__ROWS
static void tp__div_gradient(tp_grad *g)
{
    tp_node *d = tp_div(g->dout[0], g->in[1]);
    g->din[0] = tp__unbroadcast(d, g->in[0]);
    g->din[1] = tp__unbroadcast(tp_neg(tp_mul(d, &g->out[0])), g->in[1]);
}
static const tp_op tp__op_div =
    TP__MAP_ROW("div", "RealDiv", 2, tp__div_gradient, TP__REAL_MAPS(tp__div), tp_vec_find_div, "Div");
TP_DEF tp_node *tp_div(tp_node *a, tp_node *b) { return tp__op2(&tp__op_div, a, b, NULL); }
#endif

/* -- maximum, minimum: y = max(a, b), min(a, b) --------------------------------- >>op maximum, minimum
 *   da = dy where a >= b, else 0; db = dy elsewhere: if a = b, a gets dy. If a or b is NaN, y is NaN. */
TP__MAP2(maximum, char, TP__NUM, TP__IS_NAN(a) || a > b ? a : b)
TP__MAP2(minimum, char, TP__NUM, TP__IS_NAN(a) || a < b ? a : b)
#ifdef TP__ROWS
static void tp__extremum_gradient(tp_grad *g, tp_node *first_wins)
{
    tp_node *zero = tp__zero_of(g->dout[0]);
    g->din[0] = tp__unbroadcast(tp_select(first_wins, g->dout[0], zero), g->in[0]);
    g->din[1] = tp__unbroadcast(tp_select(first_wins, zero, g->dout[0]), g->in[1]);
}
static void tp__maximum_gradient(tp_grad *g) { tp__extremum_gradient(g, tp_greater_equal(g->in[0], g->in[1])); }
static void tp__minimum_gradient(tp_grad *g) { tp__extremum_gradient(g, tp_less_equal(g->in[0], g->in[1])); }
static const tp_op tp__op_maximum =
    TP__MAP_ROW("maximum", "Maximum", 2, tp__maximum_gradient, TP__MAPS(tp__maximum), tp_vec_find_max, "Max");
static const tp_op tp__op_minimum =
    TP__MAP_ROW("minimum", "Minimum", 2, tp__minimum_gradient, TP__MAPS(tp__minimum), tp_vec_find_min, "Min");
TP_DEF tp_node *tp_maximum(tp_node *a, tp_node *b) { return tp__op2(&tp__op_maximum, a, b, NULL); }
TP_DEF tp_node *tp_minimum(tp_node *a, tp_node *b) { return tp__op2(&tp__op_minimum, a, b, NULL); }
#endif

/* -- squared_difference: y = (a - b)^2 ------------------------------------------ >>op squared_difference */
TP__MAP2(squared_difference, char, TP__NUM, TP__MUL(TP__SUB(a, b), TP__SUB(a, b)))
#ifdef TP__ROWS
static void tp__squared_difference_gradient(tp_grad *g)
{
    tp_node *difference = tp__op2(&tp__op_sub, g->in[0], g->in[1], NULL);
    tp_node *d = tp_mul(tp__scaled(g->dout[0], 2.0), difference);
    g->din[0] = tp__unbroadcast(d, g->in[0]);
    g->din[1] = tp__unbroadcast(tp_neg(d), g->in[1]);
}
static const tp_op tp__op_squared_difference =
    TP__MAP_ROW("squared_difference", "SquaredDifference", 2, tp__squared_difference_gradient,
                TP__MAPS(tp__squared_difference), NULL, NULL);
TP_DEF tp_node *tp_squared_difference(tp_node *a, tp_node *b)
{
    tp__warn_pairs("tp_squared_difference", a, b);
    return tp__op2(&tp__op_squared_difference, a, b, NULL);
}
#endif

/* -- floordiv, mod: a = floor(a / b) b + mod(a, b); mod has the sign of b, as in Python -- >>op floordiv, mod
 *   Integers: x / 0 and x mod 0 are 0. Gradient of mod: da = dy, db = -dy floor(a / b); floordiv has none. */
#ifdef TP__PASS_INT
static TP__NUM TP__F(tp__floor_quotient)(TP__NUM a, TP__NUM b)
{
    if (b == 0) return 0;
    if (b == -1) return TP__SUB(0, a); /* the least integer has no negative: the result wraps around */
    const TP__NUM q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
static TP__NUM TP__F(tp__floor_remainder)(TP__NUM a, TP__NUM b)
{
    if (b == 0 || b == -1) return 0;
    const TP__NUM r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
#else
static real TP__F(tp__floor_quotient)(real a, real b) { return TP__R(floor)(a / b); }
static real TP__F(tp__floor_remainder)(real a, real b)
{
    const real r = TP__R(fmod)(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
#endif
TP__MAP2(floordiv, char, TP__NUM, TP__F(tp__floor_quotient)(a, b))
TP__MAP2(mod, char, TP__NUM, TP__F(tp__floor_remainder)(a, b))
#ifdef TP__ROWS
static void tp__mod_gradient(tp_grad *g)
{
    tp_node *q = tp_floordiv(g->in[0], g->in[1]);
    g->din[0] = tp__unbroadcast(g->dout[0], g->in[0]);
    g->din[1] = tp__unbroadcast(tp_neg(tp_mul(g->dout[0], q)), g->in[1]);
}
static const tp_op tp__op_floordiv = TP__MAP_ROW("floordiv", "FloorDiv", 2, NULL, TP__MAPS(tp__floordiv), NULL, NULL);
static const tp_op tp__op_mod = TP__MAP_ROW("mod", "FloorMod", 2, tp__mod_gradient, TP__MAPS(tp__mod), NULL, NULL);
TP_DEF tp_node *tp_floordiv(tp_node *a, tp_node *b) { return tp__op2(&tp__op_floordiv, a, b, NULL); }
TP_DEF tp_node *tp_mod(tp_node *a, tp_node *b) { return tp__op2(&tp__op_mod, a, b, NULL); }
#endif

/* -- neg, abs, sign, square: y = -x, |x|, -1 0 or 1, x^2 ----------------- >>op neg, abs, sign, square */
#ifdef TP__PASS_INT
TP__MAP1(neg, char, TP__SUB(0, x))
TP__MAP1(abs, char, x < 0 ? TP__SUB(0, x) : x)
#else
TP__MAP1(neg, char, -x)
TP__MAP1(abs, char, TP__R(fabs)(x))
#endif
TP__MAP1(sign, char, x > 0 ? 1 : x < 0 ? -1 : x)
TP__MAP1(square, char, TP__MUL(x, x))
#ifdef TP__ROWS
static void tp__neg_gradient(tp_grad *g) { g->din[0] = tp_neg(g->dout[0]); }
static void tp__abs_gradient(tp_grad *g) { g->din[0] = tp_mul(g->dout[0], tp_sign(g->in[0])); }
static void tp__square_gradient(tp_grad *g) { g->din[0] = tp_mul(g->dout[0], tp__scaled(g->in[0], 2.0)); }
static const tp_op tp__op_neg =
    TP__MAP_ROW("neg", "Neg", 1, tp__neg_gradient, TP__MAPS(tp__neg), tp_vec_find_neg, "Neg");
static const tp_op tp__op_abs =
    TP__MAP_ROW("abs", "Abs", 1, tp__abs_gradient, TP__MAPS(tp__abs), tp_vec_find_abs, "Abs");
static const tp_op tp__op_sign = TP__MAP_ROW("sign", "Sign", 1, NULL, TP__MAPS(tp__sign), tp_vec_find_sign, "Sign");
static const tp_op tp__op_square =
    TP__MAP_ROW("square", "Square", 1, tp__square_gradient, TP__MAPS(tp__square), tp_vec_find_square, NULL);
TP_DEF tp_node *tp_neg(tp_node *x) { return tp__op1(&tp__op_neg, x, NULL); }
TP_DEF tp_node *tp_abs(tp_node *x) { return tp__op1(&tp__op_abs, x, NULL); }
TP_DEF tp_node *tp_sign(tp_node *x) { return tp__op1(&tp__op_sign, x, NULL); }
TP_DEF tp_node *tp_square(tp_node *x) { return tp__op1(&tp__op_square, x, NULL); }
#endif

/* -- affine: y = scale x + offset ---------------------------------------------------------- >>op affine
 *   On integers both must be whole numbers. */
#ifdef TP__PASS_INT
TP__MAP1(affine, tp__affine_attrs, TP__ADD(TP__MUL(x, (int64_t)t->scale), (int64_t)t->offset))
#else
TP__MAP1(affine, tp__affine_attrs, TP__ROUNDED((real)t->scale *x) + (real)t->offset)
#endif
#ifdef TP__ROWS
static const tp_attr tp__affine_schema[] = {TP__ATTR(tp__affine_attrs, FLOAT, scale),
                                            TP__ATTR(tp__affine_attrs, FLOAT, offset), TP__ATTRS_END};
static bool tp__is_whole(float x) { return x > -2147483648.0f && x < 2147483648.0f && floorf(x) == x; }
static tp_status tp__affine_infer(tp_infer *s)
{
    const tp__affine_attrs *t = (const tp__affine_attrs *)s->attrs;
    if (!tp_dtype_is_float(s->in[0].dtype) && (!tp__is_whole(t->scale) || !tp__is_whole(t->offset)))
        return tp_infer_fail(s, TP_ERR_ARG, "x is %s, so scale %g and offset %g must be whole numbers",
                             tp_dtype_name(s->in[0].dtype), (double)t->scale, (double)t->offset);
    return tp__infer_map(s);
}
static void tp__affine_gradient(tp_grad *g)
{
    g->din[0] = tp_affine(g->dout[0], ((const tp__affine_attrs *)g->op->attrs)->scale, 0.0f);
}
static const tp_op tp__op_affine = TP__MAP_ROW_OF(TP__ATTRS(affine), tp__affine_infer, "affine", "Affine", 1,
                                                  tp__affine_gradient, TP__MAPS(tp__affine), tp_vec_find_affine, NULL);
TP_DEF tp_node *tp_affine(tp_node *x, float scale, float offset)
{
    tp__affine_attrs t;
    memset(&t, 0, sizeof t);
    t.scale = scale;
    t.offset = offset;
    return tp__op1(&tp__op_affine, x, &t);
}
#endif

/* -- clip: y = min(max(x, low), high) ------------------------------------------------- >>op clip, clip_grad
 *   dx = dy where low <= x <= high, else 0; with `flat` where low < x < high. NaN stays NaN. */
#ifdef TP__PASS_INT
static void TP__F(tp__clip)(int64_t n, void *y_, const void *const *in, const void *attrs)
{
    const tp__clip_attrs *t = (const tp__clip_attrs *)attrs;
    const TP__NUM *x = (const TP__NUM *)in[0];
    TP__NUM *y = (TP__NUM *)y_;
    const int64_t minimum = sizeof(TP__NUM) == 8 ? INT64_MIN : INT32_MIN,
                  maximum = sizeof(TP__NUM) == 8 ? INT64_MAX : INT32_MAX;
    /* for integers the bounds of clip are rounded inwards */
    const TP__NUM low = (TP__NUM)tp__float_to_int((tp__wide)ceil((double)t->low), minimum, maximum);
    const TP__NUM high = (TP__NUM)tp__float_to_int((tp__wide)floor((double)t->high), minimum, maximum);
    for (int64_t i = 0; i < n; i++) y[i] = x[i] < low ? low : x[i] > high ? high : x[i];
}
#else
TP__MAP1(clip, tp__clip_attrs, x<(real)t->low ? (real)t->low : x>(real) t->high ? (real)t->high : x)
TP__MAP2(clip_grad, tp__clip_attrs, real, b >= (real)t->low && b <= (real)t->high ? a : 0)
#endif
#ifdef TP__ROWS
/* Without `flat`: it is read where a gradient is built, and changes no value. */
static const tp_attr tp__clip_schema[] = {TP__ATTR(tp__clip_attrs, FLOAT, low), TP__ATTR(tp__clip_attrs, FLOAT, high),
                                          TP__ATTRS_END};
static tp_status tp__clip_infer(tp_infer *s)
{
    const tp__clip_attrs *t = (const tp__clip_attrs *)s->attrs;
    if (!(t->low <= t->high))
        return tp_infer_fail(s, TP_ERR_ARG, "low %g is above high %g", (double)t->low, (double)t->high);
    return tp__infer_map(s);
}
static void tp__clip_gradient(tp_grad *g); /* Adds the gradient of clip, or of clip_grad, from dy and x. */
static const tp_op tp__op_clip_grad =
    TP__MAP_ROW_OF(TP__ATTRS(clip), tp__clip_infer, "clip_grad", "ClipByValueGrad", 2, tp__clip_gradient,
                   TP__REAL_MAPS(tp__clip_grad), tp_vec_find_clip_grad, NULL);
static void tp__clip_gradient(tp_grad *g)
{
    tp__clip_attrs t = *(const tp__clip_attrs *)g->op->attrs;
    tp_node *x = g->in[g->op->n_in - 1], *dy = g->dout[0];
    if (t.flat && x->dtype == TP_F64) { /* its next numbers are no floats */
        tp_node *low = tp_const_as(g->graph, TP_F64, (double)t.low),
                *high = tp_const_as(g->graph, TP_F64, (double)t.high);
        tp_node *above = tp_greater(x, low), *below = tp_less(x, high);
        g->din[0] = tp_select(tp_logical_and(above, below), dy, tp__zero_of(dy));
        return;
    }
    if (t.flat) { /* the next floats inwards; beside 0 the first normal one, as kernels count smaller ones as 0 */
        t.low = t.low == 0.0f ? FLT_MIN : nextafterf(t.low, FLT_MAX);
        t.high = t.high == 0.0f ? -FLT_MIN : nextafterf(t.high, -FLT_MAX);
        t.flat = false;
    }
    g->din[0] = tp__op2(&tp__op_clip_grad, dy, x, &t);
}
static const tp_op tp__op_clip =
    TP__ROW("clip", "ClipByValue", TP_OP_ELEMENTWISE | TP__OP_CLIP, TP__IO(1, 1), TP__ATTRS(clip), tp__clip_infer,
            tp__clip_gradient, TP__MAPS(tp__clip), tp_vec_find_clip, NULL, NULL, 0, "Clip", NULL);
static tp_node *tp__clip_node(tp_node *x, float low, float high, bool flat)
{
    tp__clip_attrs t;
    memset(&t, 0, sizeof t);
    t.low = low;
    t.high = high;
    t.flat = flat;
    return tp__op1(&tp__op_clip, x, &t);
}
TP_DEF tp_node *tp_clip(tp_node *x, float low, float high) { return tp__clip_node(x, low, high, false); }
/* For other headers: tp_clip with a derivative of 0 at both bounds, as relu6 has. */
TP__UNUSED static tp_node *tp__clip_flat(tp_node *x, float low, float high)
{
    return tp__clip_node(x, low, high, true);
}
#endif

/* ==== element-wise: comparisons ======================================================================== */

/* -- greater, greater_equal, less, less_equal, equal, not_equal: bool from two numbers ------ >>op greater
 *   A NaN is unequal to all, itself included. */
#ifdef TP__REAL_IS_FLOAT
#define TP__COMPARE(name_, expr_) TP__HOT TP__MAP2(name_, char, uint8_t, expr_)
#else
#define TP__COMPARE(name_, expr_) TP__MAP2(name_, char, uint8_t, expr_)
#endif
TP__COMPARE(greater, a > b)
TP__COMPARE(greater_equal, a >= b)
TP__COMPARE(less, a < b)
TP__COMPARE(less_equal, a <= b)
TP__COMPARE(equal, a == b)
TP__COMPARE(not_equal, a != b)
#undef TP__COMPARE
#ifdef TP__ROWS
#define TP__COMPARE_ROW(name_, label_, fn_, onnx_) \
    TP__MAP_ROW_OF(TP__NO_ATTRS, tp__infer_compare, name_, label_, 2, NULL, TP__MAPS(fn_), NULL, onnx_)
static const tp_op tp__op_greater = TP__COMPARE_ROW("greater", "Greater", tp__greater, "Greater");
static const tp_op tp__op_greater_equal =
    TP__COMPARE_ROW("greater_equal", "GreaterEqual", tp__greater_equal, "GreaterOrEqual");
static const tp_op tp__op_less = TP__COMPARE_ROW("less", "Less", tp__less, "Less");
static const tp_op tp__op_less_equal = TP__COMPARE_ROW("less_equal", "LessEqual", tp__less_equal, "LessOrEqual");
static const tp_op tp__op_equal = TP__COMPARE_ROW("equal", "Equal", tp__equal, "Equal");
static const tp_op tp__op_not_equal = TP__COMPARE_ROW("not_equal", "NotEqual", tp__not_equal, NULL);
TP_DEF tp_node *tp_greater(tp_node *a, tp_node *b) { return tp__op2(&tp__op_greater, a, b, NULL); }
TP_DEF tp_node *tp_greater_equal(tp_node *a, tp_node *b) { return tp__op2(&tp__op_greater_equal, a, b, NULL); }
TP_DEF tp_node *tp_less(tp_node *a, tp_node *b) { return tp__op2(&tp__op_less, a, b, NULL); }
TP_DEF tp_node *tp_less_equal(tp_node *a, tp_node *b) { return tp__op2(&tp__op_less_equal, a, b, NULL); }
TP_DEF tp_node *tp_equal(tp_node *a, tp_node *b) { return tp__op2(&tp__op_equal, a, b, NULL); }
TP_DEF tp_node *tp_not_equal(tp_node *a, tp_node *b) { return tp__op2(&tp__op_not_equal, a, b, NULL); }
#endif

/* -- logical_and, logical_or, logical_not: of bools, whose loops work on bytes --------- >>op logical_and */
#ifdef TP__ROWS
static void tp__logical_and_bytes(int64_t n, void *y_, const void *const *in, const void *attrs)
{
    const uint8_t *a = (const uint8_t *)in[0], *b = (const uint8_t *)in[1];
    uint8_t *y = (uint8_t *)y_;
    (void)attrs;
    for (int64_t i = 0; i < n; i++) y[i] = a[i] && b[i];
}
static void tp__logical_or_bytes(int64_t n, void *y_, const void *const *in, const void *attrs)
{
    const uint8_t *a = (const uint8_t *)in[0], *b = (const uint8_t *)in[1];
    uint8_t *y = (uint8_t *)y_;
    (void)attrs;
    for (int64_t i = 0; i < n; i++) y[i] = a[i] || b[i];
}
static void tp__logical_not_bytes(int64_t n, void *y_, const void *const *in, const void *attrs)
{
    const uint8_t *a = (const uint8_t *)in[0];
    uint8_t *y = (uint8_t *)y_;
    (void)attrs;
    for (int64_t i = 0; i < n; i++) y[i] = !a[i];
}
static const tp_op tp__op_logical_and = TP__MAP_ROW_OF(TP__NO_ATTRS, tp__infer_logical, "logical_and", "LogicalAnd", 2,
                                                       NULL, TP__BYTE_MAP(tp__logical_and_bytes), NULL, "And");
static const tp_op tp__op_logical_or = TP__MAP_ROW_OF(TP__NO_ATTRS, tp__infer_logical, "logical_or", "LogicalOr", 2,
                                                      NULL, TP__BYTE_MAP(tp__logical_or_bytes), NULL, "Or");
static const tp_op tp__op_logical_not = TP__MAP_ROW_OF(TP__NO_ATTRS, tp__infer_logical, "logical_not", "LogicalNot", 1,
                                                       NULL, TP__BYTE_MAP(tp__logical_not_bytes), NULL, "Not");
TP_DEF tp_node *tp_logical_and(tp_node *a, tp_node *b) { return tp__op2(&tp__op_logical_and, a, b, NULL); }
TP_DEF tp_node *tp_logical_or(tp_node *a, tp_node *b) { return tp__op2(&tp__op_logical_or, a, b, NULL); }
TP_DEF tp_node *tp_logical_not(tp_node *a) { return tp__op1(&tp__op_logical_not, a, NULL); }
#endif

/* -- select: y = cond ? a : b; cond is bool ------------------------------------- >>op select, select_bytes
 *   da = cond ? dy : 0,  db = cond ? 0 : dy.  uint8 and bool operands have a row of their own. */
static void TP__F(tp__select)(int64_t n, void *y_, const void *const *in, const void *attrs)
{
    const uint8_t *cond = (const uint8_t *)in[0];
    const TP__NUM *a = (const TP__NUM *)in[1], *b = (const TP__NUM *)in[2];
    TP__NUM *y = (TP__NUM *)y_;
    (void)attrs;
    for (int64_t i = 0; i < n; i++) y[i] = cond[i] ? a[i] : b[i];
}
#ifdef TP__ROWS
static void tp__select_byte(int64_t n, void *y_, const void *const *in, const void *attrs)
{
    const uint8_t *cond = (const uint8_t *)in[0], *a = (const uint8_t *)in[1], *b = (const uint8_t *)in[2];
    uint8_t *y = (uint8_t *)y_;
    (void)attrs;
    for (int64_t i = 0; i < n; i++) y[i] = cond[i] ? a[i] : b[i];
}
static tp_status tp__select_infer(tp_infer *s)
{
    const bool bytes = s->in[1].dtype == TP_U8 || s->in[1].dtype == TP_BOOL;
    if (s->in[0].dtype != TP_BOOL)
        return tp_infer_fail(s, TP_ERR_DTYPE, "the condition is %s, not bool; compare it with something first",
                             tp_dtype_name(s->in[0].dtype));
    if (s->in[1].dtype != s->in[2].dtype)
        return tp_infer_fail(s, TP_ERR_DTYPE, "element types %s and %s differ; tp_cast one of them",
                             tp_dtype_name(s->in[1].dtype), tp_dtype_name(s->in[2].dtype));
    if (bytes == (s->op->block_f64 != NULL))
        return tp_infer_fail(s, TP_ERR_DTYPE, "%s does not work on %s; tp_select takes the row that does", s->op->name,
                             tp_dtype_name(s->in[1].dtype));
    s->out[0].dtype = s->in[1].dtype;
    return tp__infer_broadcast(s, 0, 3, &s->out[0].shape);
}
static void tp__select_gradient(tp_grad *g)
{
    tp_node *zero = tp__zero_of(g->dout[0]);
    g->din[1] = tp__unbroadcast(tp_select(g->in[0], g->dout[0], zero), g->in[1]);
    g->din[2] = tp__unbroadcast(tp_select(g->in[0], zero, g->dout[0]), g->in[2]);
}
static const tp_op tp__op_select = TP__MAP_ROW_OF(TP__NO_ATTRS, tp__select_infer, "select", "Select", 3,
                                                  tp__select_gradient, TP__MAPS(tp__select), NULL, "Where");
static const tp_op tp__op_select_bytes = TP__MAP_ROW_OF(TP__NO_ATTRS, tp__select_infer, "select_bytes", "Select", 3,
                                                        NULL, TP__BYTE_MAP(tp__select_byte), NULL, "Where");
TP_DEF tp_node *tp_select(tp_node *cond, tp_node *a, tp_node *b)
{
    tp_node *in[3];
    in[0] = cond;
    in[1] = a;
    in[2] = b;
    const bool bytes = a && (a->dtype == TP_U8 || a->dtype == TP_BOOL);
    return tp__opn(bytes ? &tp__op_select_bytes : &tp__op_select, in, 3, NULL);
}
#endif

/* ==== element-wise: functions of reals ================================================================= */

#ifndef TP__PASS_INT

/* -- pow: y = a^b --------------------------------------------------------------------------- >>op pow
 *   da = dy b a^(b-1),  db = dy y ln a where a > 0, else 0. */
TP__MAP2(pow, char, real, TP__POW(a, b))
#ifdef TP__ROWS
static void tp__pow_gradient(tp_grad *g)
{
    tp_node *a = g->in[0], *b = g->in[1], *one = tp_const_as(g->graph, a->dtype, 1.0);
    tp_node *positive = tp_greater(a, tp__zero_of(a));
    tp_node *ln_a = tp__where(positive, tp_ln(tp_select(positive, a, one)));
    tp_node *power = tp_pow(a, tp_sub(b, one));
    g->din[0] = tp__unbroadcast(tp_mul(tp_mul(g->dout[0], b), power), a);
    g->din[1] = tp__unbroadcast(tp_mul(tp_mul(g->dout[0], &g->out[0]), ln_a), b);
}
static const tp_op tp__op_pow =
    TP__MAP_ROW("pow", "Pow", 2, tp__pow_gradient, TP__REAL_MAPS(tp__pow), tp_vec_find_pow, "Pow");
TP_DEF tp_node *tp_pow(tp_node *a, tp_node *b) { return tp__op2(&tp__op_pow, a, b, NULL); }
#endif

/* -- sqrt, rsqrt, reciprocal: y = x^(1/2), x^(-1/2), 1/x ------------------ >>op sqrt, rsqrt, reciprocal
 *   dx = dy / (2y);  dx = -dy y^3 / 2;  dx = -dy y^2 */
TP__MAP1(sqrt, char, TP__R(sqrt)(x))
TP__MAP1(rsqrt, char, 1 / TP__R(sqrt)(x))
TP__MAP1(reciprocal, char, 1 / x)
#ifdef TP__ROWS
static void tp__sqrt_gradient(tp_grad *g) { g->din[0] = tp_div(tp__scaled(g->dout[0], 0.5), &g->out[0]); }
static void tp__rsqrt_gradient(tp_grad *g)
{
    tp_node *y = &g->out[0], *cube = tp_mul(y, tp_square(y));
    g->din[0] = tp_mul(tp__scaled(g->dout[0], -0.5), cube);
}
static void tp__reciprocal_gradient(tp_grad *g) { g->din[0] = tp_neg(tp_mul(g->dout[0], tp_square(&g->out[0]))); }
static const tp_op tp__op_sqrt =
    TP__MAP_ROW("sqrt", "Sqrt", 1, tp__sqrt_gradient, TP__REAL_MAPS(tp__sqrt), tp_vec_find_sqrt, "Sqrt");
static const tp_op tp__op_rsqrt =
    TP__MAP_ROW("rsqrt", "Rsqrt", 1, tp__rsqrt_gradient, TP__REAL_MAPS(tp__rsqrt), tp_vec_find_rsqrt, NULL);
static const tp_op tp__op_reciprocal = TP__MAP_ROW("reciprocal", "Reciprocal", 1, tp__reciprocal_gradient,
                                                   TP__REAL_MAPS(tp__reciprocal), tp_vec_find_reciprocal, "Reciprocal");
TP_DEF tp_node *tp_sqrt(tp_node *x) { return tp__op1(&tp__op_sqrt, x, NULL); }
TP_DEF tp_node *tp_rsqrt(tp_node *x) { return tp__op1(&tp__op_rsqrt, x, NULL); }
TP_DEF tp_node *tp_reciprocal(tp_node *x) { return tp__op1(&tp__op_reciprocal, x, NULL); }
#endif

/* -- exp, ln: y = e^x, natural logarithm ------------------------------------------------ >>op exp, ln
 *   dx = dy y;  dx = dy / x */
TP__MAP1(exp, char, TP__EXP(x))
TP__MAP1(ln, char, TP__LOG(x))
#ifdef TP__ROWS
static void tp__exp_gradient(tp_grad *g) { g->din[0] = tp_mul(g->dout[0], &g->out[0]); }
static void tp__ln_gradient(tp_grad *g) { g->din[0] = tp_div(g->dout[0], g->in[0]); }
static const tp_op tp__op_exp =
    TP__MAP_ROW("exp", "Exp", 1, tp__exp_gradient, TP__REAL_MAPS(tp__exp), tp_vec_find_exp, "Exp");
static const tp_op tp__op_ln =
    TP__MAP_ROW("ln", "Log", 1, tp__ln_gradient, TP__REAL_MAPS(tp__ln), tp_vec_find_log, "Log");
TP_DEF tp_node *tp_exp(tp_node *x) { return tp__op1(&tp__op_exp, x, NULL); }
TP_DEF tp_node *tp_ln(tp_node *x) { return tp__op1(&tp__op_ln, x, NULL); }
#endif

/* -- sin, cos ---------------------------------------------------------------------------- >>op sin, cos */
TP__MAP1(sin, char, TP__SIN(x))
TP__MAP1(cos, char, TP__COS(x))
#ifdef TP__ROWS
static void tp__sin_gradient(tp_grad *g) { g->din[0] = tp_mul(g->dout[0], tp_cos(g->in[0])); }
static void tp__cos_gradient(tp_grad *g) { g->din[0] = tp_neg(tp_mul(g->dout[0], tp_sin(g->in[0]))); }
static const tp_op tp__op_sin =
    TP__MAP_ROW("sin", "Sin", 1, tp__sin_gradient, TP__REAL_MAPS(tp__sin), tp_vec_find_sin, "Sin");
static const tp_op tp__op_cos =
    TP__MAP_ROW("cos", "Cos", 1, tp__cos_gradient, TP__REAL_MAPS(tp__cos), tp_vec_find_cos, "Cos");
TP_DEF tp_node *tp_sin(tp_node *x) { return tp__op1(&tp__op_sin, x, NULL); }
TP_DEF tp_node *tp_cos(tp_node *x) { return tp__op1(&tp__op_cos, x, NULL); }
#endif

/* -- asin, acos, atan ------------------------------------------------------------ >>op asin, acos, atan
 *   dx = dy / sqrt(1 - x^2), -dy / sqrt(1 - x^2), dy / (1 + x^2); NaN outside of [-1, 1] */
TP__MAP1(asin, char, TP__ASIN(x))
TP__MAP1(acos, char, TP__ACOS(x))
TP__MAP1(atan, char, TP__ATAN(x))
#ifdef TP__ROWS
static void tp__asin_gradient(tp_grad *g)
{
    g->din[0] = tp_mul(g->dout[0], tp_rsqrt(tp_affine(tp_square(g->in[0]), -1, 1)));
}
static void tp__acos_gradient(tp_grad *g)
{
    tp__asin_gradient(g);
    g->din[0] = tp_neg(g->din[0]);
}
static void tp__atan_gradient(tp_grad *g) { g->din[0] = tp_div(g->dout[0], tp_affine(tp_square(g->in[0]), 1, 1)); }
static const tp_op tp__op_asin =
    TP__MAP_ROW("asin", "Asin", 1, tp__asin_gradient, TP__REAL_MAPS(tp__asin), tp_vec_find_asin, "Asin");
static const tp_op tp__op_acos =
    TP__MAP_ROW("acos", "Acos", 1, tp__acos_gradient, TP__REAL_MAPS(tp__acos), tp_vec_find_acos, "Acos");
static const tp_op tp__op_atan =
    TP__MAP_ROW("atan", "Atan", 1, tp__atan_gradient, TP__REAL_MAPS(tp__atan), tp_vec_find_atan, "Atan");
TP_DEF tp_node *tp_asin(tp_node *x) { return tp__op1(&tp__op_asin, x, NULL); }
TP_DEF tp_node *tp_acos(tp_node *x) { return tp__op1(&tp__op_acos, x, NULL); }
TP_DEF tp_node *tp_atan(tp_node *x) { return tp__op1(&tp__op_atan, x, NULL); }
#endif

/* -- erf: y = 2/sqrt(pi) integral from 0 to x of exp(-t^2) ---------------------------------- >>op erf
 *   dx = dy 2/sqrt(pi) exp(-x^2) */
TP__MAP1(erf, char, TP__ERF(x))
#ifdef TP__ROWS
static void tp__erf_gradient(tp_grad *g)
{
    tp_node *e = tp_exp(tp_neg(tp_square(g->in[0])));
    g->din[0] = tp_mul(tp__scaled(g->dout[0], 1.12837916709551257390), e);
}
static const tp_op tp__op_erf =
    TP__MAP_ROW("erf", "Erf", 1, tp__erf_gradient, TP__REAL_MAPS(tp__erf), tp_vec_find_erf, "Erf");
TP_DEF tp_node *tp_erf(tp_node *x) { return tp__op1(&tp__op_erf, x, NULL); }
/* gelu is made of plain nodes, so that gradients of any order exist; the planner fuses the nodes into one pass. */
TP_DEF tp_node *tp_gelu(tp_node *x)
{
    tp_node *factor = tp_affine(tp_erf(tp_affine(x, 0.70710678118654752f, 0)), 1, 1);
    return tp_mul(tp_affine(x, 0.5f, 0), factor);
}
TP_DEF tp_node *tp_gelu_tanh(tp_node *x)
{
    tp_node *bent = tp_affine(tp_square(x), 0.044715f, 1);
    tp_node *factor = tp_affine(tp_tanh(tp_mul(tp_affine(x, 0.79788456080286536f, 0), bent)), 1, 1);
    return tp_mul(tp_affine(x, 0.5f, 0), factor);
}
TP_DEF tp_node *tp_silu(tp_node *x) { return tp_mul(x, tp_sigmoid(x)); }
#endif

/* -- tanh, sigmoid: y = tanh x, 1/(1 + e^-x) ----------------------------------------- >>op tanh, sigmoid
 *   dx = dy (1 - y^2);  dx = dy y (1 - y) */
TP__MAP1(tanh, char, TP__TANH(x))
TP__MAP1(sigmoid, char, 1 / (1 + TP__EXP(-x)))
#ifdef TP__ROWS
static void tp__tanh_gradient(tp_grad *g)
{
    g->din[0] = tp_mul(g->dout[0], tp_affine(tp_square(&g->out[0]), -1.0f, 1.0f));
}
static void tp__sigmoid_gradient(tp_grad *g)
{
    tp_node *rest = tp_affine(&g->out[0], -1.0f, 1.0f);
    g->din[0] = tp_mul(tp_mul(g->dout[0], &g->out[0]), rest);
}
static const tp_op tp__op_tanh =
    TP__MAP_ROW("tanh", "Tanh", 1, tp__tanh_gradient, TP__REAL_MAPS(tp__tanh), tp_vec_find_tanh, "Tanh");
static const tp_op tp__op_sigmoid = TP__MAP_ROW("sigmoid", "Sigmoid", 1, tp__sigmoid_gradient,
                                                TP__REAL_MAPS(tp__sigmoid), tp_vec_find_sigmoid, "Sigmoid");
TP_DEF tp_node *tp_tanh(tp_node *x) { return tp__op1(&tp__op_tanh, x, NULL); }
TP_DEF tp_node *tp_sigmoid(tp_node *x) { return tp__op1(&tp__op_sigmoid, x, NULL); }
#endif

/* -- softplus: y = ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|) ------------------------------ >>op softplus
 *   dx = dy sigmoid(x) */
TP__MAP1(softplus, char, (x > 0 ? x : 0) + TP__LOG1P(TP__EXP(-TP__R(fabs)(x))))
#ifdef TP__ROWS
static void tp__softplus_gradient(tp_grad *g) { g->din[0] = tp_mul(g->dout[0], tp_sigmoid(g->in[0])); }
static const tp_op tp__op_softplus = TP__MAP_ROW("softplus", "Softplus", 1, tp__softplus_gradient,
                                                 TP__REAL_MAPS(tp__softplus), tp_vec_find_softplus, "Softplus");
TP_DEF tp_node *tp_softplus(tp_node *x) { return tp__op1(&tp__op_softplus, x, NULL); }
#endif

/* -- relu: y = max(x, 0) --------------------------------------------------------- >>op relu, relu_grad
 *   dx = y > 0 ? dy : 0, so that it is 0 at x = 0. It uses y, so that x's buffer can be freed. */
TP__MAP1(relu, char, 0 > x ? 0 : x)
TP__MAP2(relu_grad, char, real, b > 0 ? a : 0)
#ifdef TP__ROWS
static void tp__relu_gradient(tp_grad *g);
static const tp_op tp__op_relu_grad = TP__MAP_ROW("relu_grad", "ReluGrad", 2, tp__relu_gradient,
                                                  TP__REAL_MAPS(tp__relu_grad), tp_vec_find_relu_grad, NULL);
static void tp__relu_gradient(tp_grad *g) /* gradient of relu, and of relu_grad for its operand dy */
{
    g->din[0] = tp__op2(&tp__op_relu_grad, g->dout[0], g->op->n_in == 2 ? g->in[1] : &g->out[0], NULL);
}
static const tp_op tp__op_relu =
    TP__MAP_ROW("relu", "Relu", 1, tp__relu_gradient, TP__REAL_MAPS(tp__relu), tp_vec_find_relu, "Relu");
TP_DEF tp_node *tp_relu(tp_node *x) { return tp__op1(&tp__op_relu, x, NULL); }
#endif

/* -- leaky_relu: y = x > 0 ? x : alpha x -------------------------------- >>op leaky_relu, leaky_relu_grad
 *   dx = x > 0 ? dy : alpha dy */
TP__MAP1(leaky_relu, tp__leaky_attrs, x > 0 ? x : (real)t->alpha * x)
TP__MAP2(leaky_relu_grad, tp__leaky_attrs, real, b > 0 ? a : (real)t->alpha * a)
#ifdef TP__ROWS
static const tp_attr tp__leaky_schema[] = {TP__ATTR(tp__leaky_attrs, FLOAT, alpha), TP__ATTRS_END};
static void tp__leaky_relu_gradient(tp_grad *g);
static const tp_op tp__op_leaky_relu_grad =
    TP__MAP_ROW_OF(TP__ATTRS(leaky), tp__infer_map, "leaky_relu_grad", "LeakyReluGrad", 2, tp__leaky_relu_gradient,
                   TP__REAL_MAPS(tp__leaky_relu_grad), tp_vec_find_leaky_relu_grad, NULL);
static void tp__leaky_relu_gradient(tp_grad *g)
{
    g->din[0] = tp__op2(&tp__op_leaky_relu_grad, g->dout[0], g->in[g->op->n_in - 1], g->op->attrs);
}
static const tp_op tp__op_leaky_relu =
    TP__MAP_ROW_OF(TP__ATTRS(leaky), tp__infer_map, "leaky_relu", "LeakyRelu", 1, tp__leaky_relu_gradient,
                   TP__REAL_MAPS(tp__leaky_relu), tp_vec_find_leaky_relu, "LeakyRelu");
TP_DEF tp_node *tp_leaky_relu(tp_node *x, float alpha)
{
    tp__leaky_attrs t;
    t.alpha = alpha;
    return tp__op1(&tp__op_leaky_relu, x, &t);
}
#endif

/* -- elu: y = x > 0 ? x : e^x - 1 ---------------------------------------------------- >>op elu, elu_grad
 *   dx = y > 0 ? dy : dy (y + 1) */
TP__MAP1(elu, char, x > 0 ? x : TP__EXPM1(x))
TP__MAP2(elu_grad, char, real, b > 0 ? a : a * (b + 1))
#ifdef TP__ROWS
static void tp__elu_grad_gradient(tp_grad *g);
static const tp_op tp__op_elu_grad = TP__MAP_ROW("elu_grad", "EluGrad", 2, tp__elu_grad_gradient,
                                                 TP__REAL_MAPS(tp__elu_grad), tp_vec_find_elu_grad, NULL);
static void tp__elu_grad_gradient(tp_grad *g)
{
    tp_node *negative = tp_less_equal(g->in[1], tp__zero_of(g->in[1]));
    g->din[0] = tp__op2(&tp__op_elu_grad, g->dout[0], g->in[1], NULL);
    g->din[1] = tp__where(negative, tp_mul(g->dout[0], g->in[0]));
}
static void tp__elu_gradient(tp_grad *g) { g->din[0] = tp__op2(&tp__op_elu_grad, g->dout[0], &g->out[0], NULL); }
static const tp_op tp__op_elu =
    TP__MAP_ROW("elu", "Elu", 1, tp__elu_gradient, TP__REAL_MAPS(tp__elu), tp_vec_find_elu, "Elu");
TP_DEF tp_node *tp_elu(tp_node *x) { return tp__op1(&tp__op_elu, x, NULL); }
/* selu(x) = scale (alpha elu(x) + (1 - alpha) relu(x)), with alpha = 1.6732632 and scale = 1.0507010 */
TP_DEF tp_node *tp_selu(tp_node *x)
{
    tp_node *relu = tp_affine(tp_relu(x), -0.70739836f, 0);
    return tp_add(tp_affine(tp_elu(x), 1.75809934f, 0), relu);
}
#endif

/* -- floor, ceil, round: to whole numbers; round takes halves to even; no gradient ---------- >>op floor */
TP__MAP1(floor, char, TP__R(floor)(x))
TP__MAP1(ceil, char, TP__R(ceil)(x))
TP__MAP1(round, char, TP__R(rint)(x))
#ifdef TP__ROWS
static const tp_op tp__op_floor = TP__MAP_ROW("floor", "Floor", 1, NULL, TP__REAL_MAPS(tp__floor), NULL, "Floor");
static const tp_op tp__op_ceil = TP__MAP_ROW("ceil", "Ceil", 1, NULL, TP__REAL_MAPS(tp__ceil), NULL, "Ceil");
static const tp_op tp__op_round = TP__MAP_ROW("round", "Round", 1, NULL, TP__REAL_MAPS(tp__round), NULL, "Round");
TP_DEF tp_node *tp_floor(tp_node *x) { return tp__op1(&tp__op_floor, x, NULL); }
TP_DEF tp_node *tp_ceil(tp_node *x) { return tp__op1(&tp__op_ceil, x, NULL); }
TP_DEF tp_node *tp_round(tp_node *x) { return tp__op1(&tp__op_round, x, NULL); }
#endif

/* -- is_finite: bool, neither infinite nor NaN ---------------------------------------- >>op is_finite */
static void TP__F(tp__is_finite)(int64_t n, void *y_, const void *const *in, const void *attrs)
{
    const real *x = (const real *)in[0];
    uint8_t *y = (uint8_t *)y_;
    (void)attrs;
    for (int64_t i = 0; i < n; i++) y[i] = tp__finite((double)x[i]);
}
#ifdef TP__ROWS
static const tp_op tp__op_is_finite = TP__MAP_ROW_OF(TP__NO_ATTRS, tp__infer_compare, "is_finite", "IsFinite", 1, NULL,
                                                     TP__REAL_MAPS(tp__is_finite), NULL, NULL);
TP_DEF tp_node *tp_is_finite(tp_node *x) { return tp__op1(&tp__op_is_finite, x, NULL); }
#endif

#endif /* functions of reals */

/* -- cast: y = x in another element type ------------------------------------------------------ >>op cast
 *   dx = dy cast back, if both are floating. float -> integer truncates, x -> bool is x != 0. The executor
 *   does not convert half-precision operands for this op. */
#ifdef TP__ROWS
static const tp_attr tp__cast_schema[] = {TP__ATTR(tp__cast_attrs, DTYPE, from), TP__ATTR(tp__cast_attrs, DTYPE, to),
                                          TP__ATTRS_END};
static void tp__cast_block(int64_t n, void *y, const void *const *in, const void *attrs)
{
    const tp__cast_attrs *t = (const tp__cast_attrs *)attrs;
    tp_convert(y, t->to, in[0], t->from, n);
}
static tp_status tp__cast_infer(tp_infer *s)
{
    const tp__cast_attrs *t = (const tp__cast_attrs *)s->attrs;
    if (t->from != s->in[0].dtype)
        return tp_infer_fail(s, TP_ERR_DTYPE, "the input is %s, the attribute `from` says %s",
                             tp_dtype_name(s->in[0].dtype), tp_dtype_name(t->from));
    if (tp_dtype_size(t->to) == 0) return tp_infer_fail(s, TP_ERR_DTYPE, "cast to no element type");
    if (tp__is_left_out(t->from) || tp__is_left_out(t->to))
        return tp_infer_fail(s, TP_ERR_UNSUPPORTED, "this program was built with TP_ONLY_F32: no cast from %s to %s",
                             tp_dtype_name(t->from), tp_dtype_name(t->to));
    s->out[0].dtype = t->to;
    s->out[0].shape = s->in[0].shape;
    return TP_OK;
}
static void tp__cast_gradient(tp_grad *g)
{
    const tp__cast_attrs *t = (const tp__cast_attrs *)g->op->attrs;
    if (tp_dtype_is_float(t->from) && tp_dtype_is_float(t->to)) g->din[0] = tp_cast(g->dout[0], t->from);
}
static const tp_op tp__op_cast = TP__MAP_ROW_OF(TP__ATTRS(cast), tp__cast_infer, "cast", "Cast", 1, tp__cast_gradient,
                                                TP__ANY_MAP(tp__cast_block), NULL, "Cast");
TP_DEF tp_node *tp_cast(tp_node *x, tp_dtype dtype)
{
    tp__cast_attrs t;
    TP__GRAPH_REQUIRE(tp_node_graph(x), x && tp_dtype_size(dtype) > 0, tp_poison(tp_node_graph(x)))
    if (x->dtype == dtype) return x;
    memset(&t, 0, sizeof t);
    t.from = x->dtype;
    t.to = dtype;
    return tp__op1(&tp__op_cast, x, &t);
}
#endif

/* ==== reductions ======================================================================================= */
/* A reduction loops over the kept dimensions outside and the reduced ones inside; adjacent dimensions of one kind are
 * merged. Output o is computed from n_run runs of `run` elements that are `step` apart. Sums are kept in double here; the
 * fast kernels (tp_fast.h) add floats in another order, which depends on the shapes alone. */

#ifdef TP__FIRST_PASS

typedef struct tp__reduction {
    int64_t n_out, n_run, run, step, n_sum; /* n_sum: elements of x that are summed for one output */
    /* numbers of kept and reduced dimensions after merging; lists begin with the innermost one */
    int n_keep, n_reduce;
    int64_t keep_dim[TP_MAX_DIMS], keep_stride[TP_MAX_DIMS], reduce_dim[TP_MAX_DIMS], reduce_stride[TP_MAX_DIMS];
} tp__reduction;

/* Sets which dimensions of x are reduced; false if an axis does not exist or is given twice. */
static bool tp__reduced_dims(const tp__reduce_attrs *t, int ndim, bool *reduced)
{
    for (int d = 0; d < ndim; d++) reduced[d] = t->n_axes == 0;
    for (int i = 0; i < t->n_axes; i++) {
        const int d = tp__axis(t->axes[i], ndim);
        if (d < 0 || reduced[d]) return false;
        reduced[d] = true;
    }
    return true;
}

static void tp__reduction_of_dims(tp__reduction *r, const tp_shape *x, const bool *reduced)
{
    int64_t stride = 1;
    int previous_kind = -1; /* whether the dimension before, the next inner one, is reduced; -1: none */
    memset(r, 0, sizeof *r);
    r->n_out = r->n_sum = 1;
    for (int d = x->ndim - 1; d >= 0; d--) {
        const int64_t n = x->dim[d];
        const int kind = reduced[d] ? 1 : 0;
        if (kind) r->n_sum *= n;
        else r->n_out *= n;
        if (n == 1) continue;
        int64_t *dim = kind ? r->reduce_dim : r->keep_dim, *at = kind ? r->reduce_stride : r->keep_stride;
        int *count = kind ? &r->n_reduce : &r->n_keep;
        if (kind == previous_kind) {
            dim[*count - 1] *= n;
        } else {
            dim[*count] = n;
            at[(*count)++] = stride;
        }
        previous_kind = kind;
        stride *= n;
    }
    r->run = r->n_reduce ? r->reduce_dim[0] : 1;
    r->step = r->n_reduce ? r->reduce_stride[0] : 1;
    r->n_run = r->run > 0 ? r->n_sum / r->run : 0;
}

static void tp__reduction_of(tp__reduction *r, const tp_call *k)
{
    bool reduced[TP_MAX_DIMS];
    tp__reduced_dims((const tp__reduce_attrs *)k->attrs, k->in[0].shape.ndim, reduced);
    tp__reduction_of_dims(r, &k->in[0].shape, reduced);
}

static int64_t tp__offset(int64_t i, int n, const int64_t *dim, const int64_t *stride)
{
    int64_t at = 0;
    for (int d = 0; d < n; d++) {
        at += i % dim[d] * stride[d];
        i /= dim[d];
    }
    return at;
}

/* tp__out_begin: the offset in x of the first element from which output o is computed. tp__run_begin: the offset from
 * that element to the first one of the j-th run of equally spaced elements. */
static int64_t tp__out_begin(const tp__reduction *r, int64_t o)
{
    return tp__offset(o, r->n_keep, r->keep_dim, r->keep_stride);
}
static int64_t tp__run_begin(const tp__reduction *r, int64_t j)
{
    return r->n_reduce > 1 ? tp__offset(j, r->n_reduce - 1, r->reduce_dim + 1, r->reduce_stride + 1) : 0;
}

/* Returns the offset in x of the i-th of the n_sum elements from which output o is computed. */
static int64_t tp__element(const tp__reduction *r, int64_t o, int64_t i)
{
    return tp__out_begin(r, o) + tp__run_begin(r, i / r->run) + i % r->run * r->step;
}

/* A loop over each output o and each of its elements v, in order, that runs body_. */
#define TP__REDUCE(begin_, body_, end_)                      \
    for (int64_t o = 0; o < r.n_out; o++) {                  \
        const TP__NUM *first = x + tp__out_begin(&r, o);     \
        begin_;                                              \
        for (int64_t j = 0; j < r.n_run; j++) {              \
            const TP__NUM *p = first + tp__run_begin(&r, j); \
            for (int64_t i = 0; i < r.run; i++) {            \
                const TP__NUM v = p[i * r.step];             \
                body_;                                       \
            }                                                \
        }                                                    \
        end_;                                                \
    }

static tp_status tp__infer_reduce(tp_infer *s)
{
    const tp__reduce_attrs *t = (const tp__reduce_attrs *)s->attrs;
    const tp_shape *x = &s->in[0].shape;
    bool reduced[TP_MAX_DIMS];
    char text[TP_SHAPE_TEXT];
    if (t->n_axes < 0 || t->n_axes > TP_MAX_DIMS)
        return tp_infer_fail(s, TP_ERR_ARG, "%d axes to reduce; a shape has at most %d", t->n_axes, TP_MAX_DIMS);
    for (int i = 0; i < t->n_axes; i++)
        if (tp__axis(t->axes[i], x->ndim) < 0)
            return tp_infer_fail(s, TP_ERR_ARG, "axis %d does not exist in shape %s", t->axes[i],
                                 tp_shape_text(x, text));
    if (!tp__reduced_dims(t, x->ndim, reduced))
        return tp_infer_fail(s, TP_ERR_ARG, "an axis is given twice for shape %s", tp_shape_text(x, text));
    s->out[0].dtype = s->in[0].dtype;
    s->out[0].shape.ndim = 0;
    for (int d = 0; d < x->ndim; d++)
        if (!reduced[d]) s->out[0].shape.dim[s->out[0].shape.ndim++] = x->dim[d];
        else if (t->keep_dims) s->out[0].shape.dim[s->out[0].shape.ndim++] = 1;
    return TP_OK;
}

static tp_status tp__infer_reduce_number(tp_infer *s)
{
    const tp_status st = tp__infer_number(s);
    return st == TP_OK ? tp__infer_reduce(s) : st;
}

static tp_status tp__infer_reduce_real(tp_infer *s)
{
    const tp_status st = tp__infer_real(s);
    return st == TP_OK ? tp__infer_reduce(s) : st;
}
#endif

/* The naive loop of sum, mean and sum_to_like. */
static void TP__F(tp__sum_loop)(const tp_call *k, const tp__reduction *plan, bool mean)
{
    const TP__NUM *x = (const TP__NUM *)k->in[0].data;
    TP__NUM *y = (TP__NUM *)k->out[0].data;
    const tp__reduction r = *plan;
    TP__REDUCE(TP__TOTAL sum = 0, sum = TP__ADD(sum, (TP__TOTAL)v),
               y[o] = (TP__NUM)(mean ? sum / TP__TOTAL_OF(r.n_sum) : sum))
}

#ifdef TP__ROWS
static const tp_attr tp__reduce_schema[] = {TP__ATTR(tp__reduce_attrs, INTS8, axes),
                                            TP__ATTR(tp__reduce_attrs, INT, n_axes),
                                            TP__ATTR(tp__reduce_attrs, BOOL, keep_dims), TP__ATTRS_END};

static tp_node *tp__reduce(const tp_op *row, tp_node *x, const int *axes, int n_axes, bool keep_dims)
{
    tp__reduce_attrs t;
    TP__GRAPH_REQUIRE(tp_node_graph(x), n_axes >= 0 && n_axes <= TP_MAX_DIMS && (axes || n_axes == 0),
                      tp_poison(tp_node_graph(x)))
    memset(&t, 0, sizeof t);
    t.n_axes = n_axes;
    t.keep_dims = keep_dims;
    for (int i = 0; i < n_axes && i < TP_MAX_DIMS; i++) t.axes[i] = axes[i];
    return tp__op1(row, x, &t);
}

/* Reshapes y or dy of a reduction so that the reduced dimensions are 1, and it can be broadcast over x. */
static tp_node *tp__with_dims(tp_grad *g, tp_node *y)
{
    const tp__reduce_attrs *t = (const tp__reduce_attrs *)g->op->attrs;
    bool reduced[TP_MAX_DIMS];
    const int ndim = g->in[0]->shape.ndim;
    if (t->keep_dims || !tp__reduced_dims(t, ndim, reduced)) return y;
    for (int d = 0; d < ndim; d++)
        if (reduced[d]) y = tp_expand_dims(y, d);
    return y;
}
#endif

/* -- reduce_sum: y = sum of x over axes ------------------------------------------------- >>op reduce_sum
 *   dx = dy, broadcast */
static void TP__F(tp__reduce_sum)(const tp_call *k)
{
    tp__reduction r;
    tp__reduction_of(&r, k);
    TP__F(tp__sum_loop)(k, &r, false);
}
#ifdef TP__ROWS
TP__ANY_NUMBER(tp__reduce_sum)
static void tp__reduce_sum_gradient(tp_grad *g)
{
    g->din[0] = tp_broadcast_like(tp__with_dims(g, g->dout[0]), g->in[0]);
}
static const tp_op tp__op_reduce_sum =
    TP__REDUCE_ROW("reduce_sum", "Sum", tp__infer_reduce_number, tp__reduce_sum_gradient,
                   TP__NUMBERS_FAST(tp__reduce_sum), tp__reduce_scratch, "ReduceSum");
TP_DEF tp_node *tp_reduce_sum(tp_node *x, const int *axes, int n_axes, bool keep_dims)
{
    return tp__reduce(&tp__op_reduce_sum, x, axes, n_axes, keep_dims);
}
TP_DEF tp_node *tp_sum(tp_node *x) { return tp_reduce_sum(x, NULL, 0, false); }
#endif

/* -- size_ratio: scalar y = elements of x / elements of z, from their shapes alone ------ >>op size_ratio
 *   The gradient of a mean needs it if its size is not known when the graph is built. */
#ifndef TP__PASS_INT
static void TP__F(tp__size_ratio)(const tp_call *k)
{
    const int64_t n = tp__size(&k->in[1]);
    *(real *)k->out[0].data = n > 0 ? (real)tp__wide_of(tp__size(&k->in[0]) / n) : 0;
}
#endif
#ifdef TP__ROWS
static tp_status tp__size_ratio_infer(tp_infer *s)
{
    const tp_status st = tp__infer_real_scalar(s);
    return st == TP_OK ? tp__infer_one_real(s) : st;
}
static const tp_op tp__op_size_ratio =
    TP__ROW("size_ratio", "SizeRatio", TP_OP_PURE, TP__IO(2, 1), TP__NO_ATTRS, tp__size_ratio_infer, NULL,
            TP__NAIVE(tp__size_ratio), TP__FLOPS(tp__flops_none), TP__SHAPE_ONLY(3u));
/* Returns a scalar of x's dtype: the number of elements of x per element of z. */
static tp_node *tp__size_ratio(tp_node *x, tp_node *z)
{
    const int64_t nx = tp_shape_size(&x->shape), nz = tp_shape_size(&z->shape);
    if (nx > 0 && nz > 0 && nx != INT64_MAX) return tp__const_as(tp_node_graph(x), x->dtype, tp__wide_of(nx / nz));
    return tp__op2(&tp__op_size_ratio, x, z, NULL);
}
#endif

/* -- reduce_mean: y = sum of x over axes / their size ---------------------------------- >>op reduce_mean
 *   dx = dy / size, broadcast */
#ifndef TP__PASS_INT
static void TP__F(tp__reduce_mean)(const tp_call *k)
{
    tp__reduction r;
    tp__reduction_of(&r, k);
    TP__F(tp__sum_loop)(k, &r, true);
}
#endif
#ifdef TP__ROWS
static void tp__reduce_mean_gradient(tp_grad *g)
{
    tp_node *ratio = tp__size_ratio(g->in[0], &g->out[0]), *d = tp_div(tp__with_dims(g, g->dout[0]), ratio);
    g->din[0] = tp_broadcast_like(d, g->in[0]);
}
static const tp_op tp__op_reduce_mean =
    TP__REDUCE_ROW("reduce_mean", "Mean", tp__infer_reduce_real, tp__reduce_mean_gradient,
                   TP__NAIVE_FAST(tp__reduce_mean), tp__reduce_scratch, "ReduceMean");
TP_DEF tp_node *tp_reduce_mean(tp_node *x, const int *axes, int n_axes, bool keep_dims)
{
    return tp__reduce(&tp__op_reduce_mean, x, axes, n_axes, keep_dims);
}
TP_DEF tp_node *tp_mean(tp_node *x) { return tp_reduce_mean(x, NULL, 0, false); }
#endif

/* -- reduce_max, reduce_min: the largest, the smallest over axes; NaN wins ---- >>op reduce_max, reduce_min
 *   dx = dy / (number of ties) where x = y, else 0 */
#ifdef TP__PASS_INT
#define TP__LOWEST  (sizeof(TP__NUM) == 8 ? (TP__NUM)INT64_MIN : (TP__NUM)INT32_MIN)
#define TP__HIGHEST (sizeof(TP__NUM) == 8 ? (TP__NUM)INT64_MAX : (TP__NUM)INT32_MAX)
#else
#define TP__LOWEST  (-(real)INFINITY)
#define TP__HIGHEST ((real)INFINITY)
#endif
static void TP__F(tp__reduce_max)(const tp_call *k)
{
    const TP__NUM *x = (const TP__NUM *)k->in[0].data;
    TP__NUM *y = (TP__NUM *)k->out[0].data;
    tp__reduction r;
    tp__reduction_of(&r, k);
    TP__REDUCE(TP__NUM best = TP__LOWEST, if (TP__IS_NAN(v) || v > best) best = v, y[o] = best)
}
static void TP__F(tp__reduce_min)(const tp_call *k)
{
    const TP__NUM *x = (const TP__NUM *)k->in[0].data;
    TP__NUM *y = (TP__NUM *)k->out[0].data;
    tp__reduction r;
    tp__reduction_of(&r, k);
    TP__REDUCE(TP__NUM best = TP__HIGHEST, if (TP__IS_NAN(v) || v < best) best = v, y[o] = best)
}
#ifdef TP__ROWS
TP__ANY_NUMBER(tp__reduce_max)
TP__ANY_NUMBER(tp__reduce_min)
static void tp__reduce_extremum_gradient(tp_grad *g)
{
    const tp__reduce_attrs *t = (const tp__reduce_attrs *)g->op->attrs;
    tp_node *x = g->in[0], *ties = tp_cast(tp_equal(x, tp__with_dims(g, &g->out[0])), x->dtype);
    tp_node *count = tp_reduce_sum(ties, t->axes, t->n_axes, true);
    g->din[0] = tp_mul(ties, tp_div(tp__with_dims(g, g->dout[0]), count));
}
static const tp_op tp__op_reduce_max =
    TP__REDUCE_ROW("reduce_max", "Max", tp__infer_reduce_number, tp__reduce_extremum_gradient,
                   TP__NUMBERS_FAST(tp__reduce_max), tp__reduce_scratch, "ReduceMax");
static const tp_op tp__op_reduce_min =
    TP__REDUCE_ROW("reduce_min", "Min", tp__infer_reduce_number, tp__reduce_extremum_gradient,
                   TP__NUMBERS(tp__reduce_min), NULL, "ReduceMin");
TP_DEF tp_node *tp_reduce_max(tp_node *x, const int *axes, int n_axes, bool keep_dims)
{
    return tp__reduce(&tp__op_reduce_max, x, axes, n_axes, keep_dims);
}
TP_DEF tp_node *tp_reduce_min(tp_node *x, const int *axes, int n_axes, bool keep_dims)
{
    return tp__reduce(&tp__op_reduce_min, x, axes, n_axes, keep_dims);
}
#endif

/* -- reduce_prod: y = product of x over axes ---------------------------------------- >>op reduce_prod
 *   dx = reduce_prod_grad(x, dy) */
static void TP__F(tp__reduce_prod)(const tp_call *k)
{
    const TP__NUM *x = (const TP__NUM *)k->in[0].data;
    TP__NUM *y = (TP__NUM *)k->out[0].data;
    tp__reduction r;
    tp__reduction_of(&r, k);
    TP__REDUCE(TP__TOTAL product = 1, product = TP__MUL(product, (TP__TOTAL)v), y[o] = (TP__NUM)product)
}
#ifdef TP__ROWS
TP__ANY_NUMBER(tp__reduce_prod)
static tp_node *tp__reduce_prod_grad(tp_node *x, tp_node *dy, const void *attrs);
static void tp__reduce_prod_gradient(tp_grad *g)
{
    g->din[0] = tp__reduce_prod_grad(g->in[0], g->dout[0], g->op->attrs);
}
static const tp_op tp__op_reduce_prod =
    TP__REDUCE_ROW("reduce_prod", "Prod", tp__infer_reduce_number, tp__reduce_prod_gradient,
                   TP__NUMBERS(tp__reduce_prod), NULL, "ReduceProd");
TP_DEF tp_node *tp_reduce_prod(tp_node *x, const int *axes, int n_axes, bool keep_dims)
{
    return tp__reduce(&tp__op_reduce_prod, x, axes, n_axes, keep_dims);
}
#endif

/* -- reduce_prod_grad: dx_i = dy (product of the other x) ------------------------ >>op reduce_prod_grad
 *   Computed as the product of those before x_i times the product of those after it, which is exact for zeros too. Its own
 *   gradient divides by x: it needs x without zeros. Inputs: x, dy. */
#ifndef TP__PASS_INT
static void TP__F(tp__reduce_prod_grad)(const tp_call *k)
{
    const real *x = (const real *)k->in[0].data, *dy = (const real *)k->in[1].data;
    real *dx = (real *)k->out[0].data;
    tp__reduction r;
    tp__reduction_of(&r, k);
    for (int64_t o = 0; o < r.n_out; o++) {
        double before = (double)dy[o], after = 1;
        for (int64_t i = 0; i < r.n_sum; i++) {
            const int64_t at = tp__element(&r, o, i);
            dx[at] = (real)before;
            before *= (double)x[at];
        }
        for (int64_t i = r.n_sum - 1; i >= 0; i--) {
            const int64_t at = tp__element(&r, o, i);
            dx[at] = (real)((double)dx[at] * after);
            after *= (double)x[at];
        }
    }
}
#endif
#ifdef TP__ROWS
static tp_status tp__reduce_prod_grad_infer(tp_infer *s)
{
    const tp_status st = tp__infer_reduce_real(s);
    if (st != TP_OK) return st;
    if (s->in[1].dtype != s->in[0].dtype || !tp_shape_compatible(&s->in[1].shape, &s->out[0].shape)) {
        char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
        return tp_infer_fail(s, TP_ERR_SHAPE, "dy is %s %s, it should be %s %s", tp_dtype_name(s->in[1].dtype),
                             tp_shape_text(&s->in[1].shape, a), tp_dtype_name(s->in[0].dtype),
                             tp_shape_text(&s->out[0].shape, b));
    }
    s->out[0] = s->in[0];
    return TP_OK;
}
static void tp__reduce_prod_grad_gradient(tp_grad *g)
{
    const tp__reduce_attrs *t = (const tp__reduce_attrs *)g->op->attrs;
    tp_node *x = g->in[0], *v = g->dout[0], *vg = tp_mul(v, &g->out[0]);
    g->din[0] = tp_div(tp_sub(tp_reduce_sum(vg, t->axes, t->n_axes, true), vg), x);
    tp_node *others = tp_div(tp_reduce_prod(x, t->axes, t->n_axes, true), x);
    g->din[1] = tp_reshape_like(tp_reduce_sum(tp_mul(v, others), t->axes, t->n_axes, t->keep_dims), g->in[1]);
}
static const tp_op tp__op_reduce_prod_grad =
    TP__ROW("reduce_prod_grad", "ProdGrad", TP_OP_PURE, TP__IO(2, 1), TP__ATTRS(reduce), tp__reduce_prod_grad_infer,
            tp__reduce_prod_grad_gradient, TP__NAIVE(tp__reduce_prod_grad), TP__FLOPS(tp__flops_of_input), TP__NO_ONNX);
static tp_node *tp__reduce_prod_grad(tp_node *x, tp_node *dy, const void *attrs)
{
    return tp__op2(&tp__op_reduce_prod_grad, x, dy, attrs);
}
#endif

/* -- reduce_all, reduce_any: of bools -------------------------------------- >>op reduce_all, reduce_any */
#ifdef TP__ROWS
static void tp__reduce_bools(const tp_call *k, bool is_all)
{
    const uint8_t *x = (const uint8_t *)k->in[0].data;
    uint8_t *y = (uint8_t *)k->out[0].data;
    tp__reduction r;
    tp__reduction_of(&r, k);
    for (int64_t o = 0; o < r.n_out; o++) {
        bool found = false; /* reduce_all stops at the first false element, reduce_any at the first true one */
        for (int64_t i = 0; i < r.n_sum && !found; i++) found = (x[tp__element(&r, o, i)] != 0) != is_all;
        y[o] = found != is_all;
    }
}
static void tp__reduce_all_bytes(const tp_call *k) { tp__reduce_bools(k, true); }
static void tp__reduce_any_bytes(const tp_call *k) { tp__reduce_bools(k, false); }
static tp_status tp__infer_reduce_bool(tp_infer *s)
{
    if (s->in[0].dtype != TP_BOOL)
        return tp_infer_fail(s, TP_ERR_DTYPE, "%s takes bool, not %s; compare it with something first", s->op->name,
                             tp_dtype_name(s->in[0].dtype));
    return tp__infer_reduce(s);
}
static const tp_op tp__op_reduce_all = TP__REDUCE_ROW("reduce_all", "All", tp__infer_reduce_bool, NULL,
                                                      TP__KERNELS(tp__reduce_all_bytes, NULL, NULL), NULL, NULL);
static const tp_op tp__op_reduce_any = TP__REDUCE_ROW("reduce_any", "Any", tp__infer_reduce_bool, NULL,
                                                      TP__KERNELS(tp__reduce_any_bytes, NULL, NULL), NULL, NULL);
TP_DEF tp_node *tp_reduce_all(tp_node *x, const int *axes, int n_axes, bool keep_dims)
{
    return tp__reduce(&tp__op_reduce_all, x, axes, n_axes, keep_dims);
}
TP_DEF tp_node *tp_reduce_any(tp_node *x, const int *axes, int n_axes, bool keep_dims)
{
    return tp__reduce(&tp__op_reduce_any, x, axes, n_axes, keep_dims);
}
#endif

/* -- sum_to_like: y = x summed over the axes along which `ref` was broadcast ------------ >>op sum_to_like
 *   The gradient of broadcasting. ref is read for its shape alone.  dx = broadcast_like(dy, x) */
#ifdef TP__FIRST_PASS
static void tp__reduction_to(tp__reduction *r, const tp_shape *x, const tp_shape *y)
{
    bool reduced[TP_MAX_DIMS];
    for (int d = 0; d < x->ndim; d++)
        reduced[d] = d < x->ndim - y->ndim || (y->dim[d - (x->ndim - y->ndim)] == 1 && x->dim[d] != 1);
    tp__reduction_of_dims(r, x, reduced);
}
#endif
#ifndef TP__PASS_INT
static void TP__F(tp__sum_to_like)(const tp_call *k)
{
    tp__reduction r;
    tp__reduction_to(&r, &k->in[0].shape, &k->out[0].shape);
    TP__F(tp__sum_loop)(k, &r, false);
}
#endif
#ifdef TP__ROWS
/* Whether `small` can be broadcast to `large`. Unknown dimensions count as fitting. */
static bool tp__broadcasts_to(const tp_shape *small, const tp_shape *large)
{
    const int lead = large->ndim - small->ndim;
    if (lead < 0) return false;
    for (int d = 0; d < small->ndim; d++) {
        const int64_t a = small->dim[d], b = large->dim[d + lead];
        if (a != b && a != 1 && a >= 0 && b >= 0) return false;
    }
    return true;
}
static tp_status tp__sum_to_like_infer(tp_infer *s)
{
    const tp_status st = tp__infer_one_real(s);
    if (st != TP_OK) return st;
    if (!tp__broadcasts_to(&s->in[1].shape, &s->in[0].shape)) {
        char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
        return tp_infer_fail(s, TP_ERR_SHAPE, "shape %s cannot be summed to %s, which does not broadcast to it",
                             tp_shape_text(&s->in[0].shape, a), tp_shape_text(&s->in[1].shape, b));
    }
    s->out[0].dtype = s->in[0].dtype;
    s->out[0].shape = s->in[1].shape;
    return TP_OK;
}
static void tp__sum_to_like_gradient(tp_grad *g) { g->din[0] = tp_broadcast_like(g->dout[0], g->in[0]); }
static const tp_op tp__op_sum_to_like =
    TP__ROW("sum_to_like", "SumToLike", TP_OP_PURE, TP__IO(2, 1), TP__NO_ATTRS, tp__sum_to_like_infer,
            tp__sum_to_like_gradient, TP__NAIVE_FAST(tp__sum_to_like),
            TP__FLOPS_SCRATCH(tp__flops_of_input, TP__IF_FAST(tp__sum_to_like_scratch, NULL)), TP__SHAPE_ONLY(2u));
TP_DEF tp_node *tp_sum_to_like(tp_node *dy, tp_node *ref) { return tp__op2(&tp__op_sum_to_like, dy, ref, NULL); }
#endif

/* -- add_n: y = x_0 + x_1 + ..., left to right ---------------------------------------------- >>op add_n */
static void TP__F(tp__add_n)(const tp_call *k)
{
    const int64_t n = tp__size(&k->out[0]);
    TP__NUM *y = (TP__NUM *)k->out[0].data;
    for (int64_t i = 0; i < n; i++) {
        TP__NUM sum = ((const TP__NUM *)k->in[0].data)[i];
        for (int a = 1; a < k->n_in; a++) sum = TP__ADD(sum, ((const TP__NUM *)k->in[a].data)[i]);
        y[i] = sum;
    }
}
#ifdef TP__ROWS
TP__ANY_NUMBER(tp__add_n)
static tp_status tp__add_n_infer(tp_infer *s)
{
    s->out[0] = s->in[0];
    for (int i = 1; i < s->n_in; i++) {
        char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
        if (s->in[i].dtype != s->in[0].dtype || !tp_shape_compatible(&s->in[i].shape, &s->out[0].shape))
            return tp_infer_fail(s, TP_ERR_SHAPE, "input 0 is %s %s, input %d is %s %s; %s does not broadcast",
                                 tp_dtype_name(s->in[0].dtype), tp_shape_text(&s->out[0].shape, a), i,
                                 tp_dtype_name(s->in[i].dtype), tp_shape_text(&s->in[i].shape, b), s->op->name);
        for (int d = 0; d < s->out[0].shape.ndim; d++)
            if (s->out[0].shape.dim[d] < 0) s->out[0].shape.dim[d] = s->in[i].shape.dim[d];
    }
    return tp__infer_number(s);
}
static void tp__add_n_gradient(tp_grad *g)
{
    for (int i = 0; i < g->op->n_in; i++) g->din[i] = g->dout[0];
}
static double tp__add_n_flops(const tp_call *k) { return (double)tp__size(&k->out[0]) * (k->n_in - 1); }
static const tp_op tp__op_add_n =
    TP__ROW("add_n", "AddN", TP_OP_PURE, TP__IO_RANGE(1, -1, 1), TP__NO_ATTRS, tp__add_n_infer, tp__add_n_gradient,
            TP__NUMBERS_FAST(tp__add_n), TP__FLOPS(tp__add_n_flops), TP__ONNX("Sum"));
TP_DEF tp_node *tp_add_n(tp_node *const *xs, int n)
{
    if (n == 2 && xs && xs[0] && xs[1] && tp_shape_equal(&xs[0]->shape, &xs[1]->shape))
        return tp_add(xs[0], xs[1]); /* two terms become an add, which the planner can fuse, unlike add_n */
    return tp__opn(&tp__op_add_n, xs, n, NULL);
}
#endif

/* -- all_reduce: y_i = x_0 + x_1 + ..., for every i; mean: divided by their number ---------------- >>op all_reduce
 *   dx_i = dy_0 + dy_1 + ..., the same op again
 * One input per tower; each tower gets the same sum, added in the order of the inputs. Output i is on the device of input i. */
static void TP__F(tp__all_reduce)(const tp_call *k)
{
    const int64_t n = tp__size(&k->out[0]);
    /* only floats have a mean: the shape rule refuses integers */
    const bool mean = ((const tp__all_reduce_attrs *)k->attrs)->mean;
    const TP__NUM scale = mean ? (TP__NUM)1 / (TP__NUM)k->n_in : 1;
    for (int64_t i = 0; i < n; i++) {
        TP__NUM sum = ((const TP__NUM *)k->in[0].data)[i];
        for (int a = 1; a < k->n_in; a++) sum = TP__ADD(sum, ((const TP__NUM *)k->in[a].data)[i]);
        for (int a = 0; a < k->n_out; a++)
            if (k->out[a].data) ((TP__NUM *)k->out[a].data)[i] = TP__MUL(sum, scale);
    }
}
#ifdef TP__ROWS
TP__ANY_NUMBER(tp__all_reduce)
static const tp_attr tp__all_reduce_schema[] = {TP__ATTR(tp__all_reduce_attrs, BOOL, mean), TP__ATTRS_END};
static tp_status tp__all_reduce_infer(tp_infer *s)
{
    if (((const tp__all_reduce_attrs *)s->attrs)->mean && !tp_dtype_is_float(s->in[0].dtype))
        return tp_infer_fail(s, TP_ERR_DTYPE, "all_reduce: there is no mean of %s; tp_cast it first",
                             tp_dtype_name(s->in[0].dtype));
    const tp_status st = tp__add_n_infer(s); /* all outputs have the type of the sum */
    s->n_out = s->n_in;
    for (int i = 1; i < s->n_in && st == TP_OK; i++) s->out[i] = s->out[0];
    return st;
}
static void tp__all_reduce_gradient(tp_grad *g)
{
    tp_node **d = (tp_node **)tp_graph_alloc(g->graph, (size_t)g->op->n_in * sizeof *d);
    /* an output without a gradient counts as zeros; each gradient is on the device of its input */
    for (int i = 0; i < g->op->n_in && d; i++) {
        const int device = tp_node_device(g->in[i]);
        tp_device_enter(g->graph, device);
        d[i] = g->dout[i] ? tp__on_device(g->dout[i], device) : tp_zeros_like(g->in[i]);
        tp_device_leave(g->graph);
    }
    if (d) tp__all_reduce_as(d, g->op->n_in, ((const tp__all_reduce_attrs *)g->op->attrs)->mean, NULL, g->din);
}
static double tp__all_reduce_flops(const tp_call *k) { return (double)tp__size(&k->out[0]) * k->n_in; }
static const tp_op tp__op_all_reduce =
    TP__ROW("all_reduce", "AllReduce", TP_OP_COLLECTIVE, TP__IO_RANGE(1, TP_MAX_OUTPUTS, -1), TP__ATTRS(all_reduce),
            tp__all_reduce_infer, tp__all_reduce_gradient, TP__NUMBERS_FAST(tp__all_reduce),
            TP__FLOPS(tp__all_reduce_flops), TP__NO_ONNX);
static void tp__all_reduce_as(tp_node *const *xs, int n, bool mean, const char *name, tp_node **ys)
{
    const tp__all_reduce_attrs t = {mean};
    tp_graph *g = tp_node_graph(xs[0]);
    tp_device_enter(g, tp_is_poison(xs[0]) ? 0 : tp_node_device(xs[0]));
    tp_node *y = tp__op_named(&tp__op_all_reduce, xs, n, &t, name);
    tp_device_leave(g);
    for (int i = 0; i < n; i++) ys[i] = tp_is_poison(y) ? y : &y->op->out[i];
}
TP_DEF tp_node *tp_all_reduce(tp_node *const *xs, int n, bool mean, tp_node **ys)
{
    TP__GRAPH_REQUIRE(tp__list_graph(xs, n), xs && n > 0 && ys, tp_poison(tp__list_graph(xs, n)))
    tp__all_reduce_as(xs, n, mean, NULL, ys);
    return ys[0];
}
#endif

/* -- the device of a node: of each output of an all_reduce the device of its input */
#ifdef TP__ROWS
TP_DEF int tp_node_device(const tp_node *n)
{
    TP__REQUIRE(n, 0)

    while (TP__HAS_DEVICES && n->op->row == &tp__op_all_reduce) n = n->op->in[n->index];
    return n->op->device;
}
#endif

/* -- shared by l2_loss and global_norm: the sum of squares */
#ifndef TP__PASS_INT
static double TP__F(tp__sum_of_squares)(const tp_operand *x)
{
    const real *p = (const real *)x->data;
    const int64_t n = tp__size(x);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum = tp__mul_add((double)p[i], (double)p[i], sum);
    return sum;
}
#endif
#ifdef TP__ROWS
static double tp__flops_of_squares(const tp_call *k)
{
    double n = 0;
    for (int i = 0; i < k->n_in; i++) n += 2.0 * (double)tp__size(&k->in[i]);
    return n;
}
#endif

/* -- l2_loss: y = sum of x^2 / 2 ------------------------------------------------------------- >>op l2_loss
 *   dx = dy x */
#ifndef TP__PASS_INT
static void TP__F(tp__l2_loss)(const tp_call *k)
{
    *(real *)k->out[0].data = (real)(0.5 * TP__F(tp__sum_of_squares)(&k->in[0]));
}
#endif
#ifdef TP__ROWS
static void tp__l2_loss_gradient(tp_grad *g) { g->din[0] = tp_mul(g->dout[0], g->in[0]); }
static const tp_op tp__op_l2_loss =
    TP__ROW("l2_loss", "L2Loss", TP_OP_PURE, TP__IO(1, 1), TP__NO_ATTRS, tp__infer_real_scalar, tp__l2_loss_gradient,
            TP__NAIVE_FAST(tp__l2_loss), TP__FLOPS(tp__flops_of_squares), TP__NO_ONNX);
TP_DEF tp_node *tp_l2_loss(tp_node *x) { return tp__op1(&tp__op_l2_loss, x, NULL); }
#endif

/* -- global_norm: y = sqrt(sum of x^2 over all elements of all inputs) ---------------- >>op global_norm
 *   dx = dy x / y, and 0 where all is 0.  y is float64 if all inputs are float64, else float32. */
#ifndef TP__PASS_INT
static void TP__F(tp__global_norm)(const tp_call *k)
{
    double sum = 0;
    for (int i = 0; i < k->n_in; i++) sum += TP__F(tp__sum_of_squares)(&k->in[i]);
    *(real *)k->out[0].data = (real)sqrt(sum);
}
#endif
#ifdef TP__ROWS
static tp_status tp__global_norm_infer(tp_infer *s)
{
    const tp_status st = tp__infer_real_scalar(s);
    if (st != TP_OK) return st;
    for (int i = 1; i < s->n_in; i++)
        if ((s->in[i].dtype == TP_F64) != (s->in[0].dtype == TP_F64))
            return tp_infer_fail(s, TP_ERR_DTYPE, "input 0 is %s, input %d is %s; tp_cast one of them",
                                 tp_dtype_name(s->in[0].dtype), i, tp_dtype_name(s->in[i].dtype));
    s->out[0].dtype = s->in[0].dtype == TP_F64 ? TP_F64 : TP_F32;
    return TP_OK;
}
/* Computes 1 where x is 0, else 0. Added to what a gradient divides by, it makes 0/0 a 0 and changes nothing else. */
static tp_node *tp__one_at_zero(tp_node *x) { return tp_cast(tp_equal(x, tp__zero_of(x)), x->dtype); }
/* Computes x^(1/p) of a sum of powers p, with a gradient of 0 where the sum is 0: there the root has no derivative. */
TP__UNUSED static tp_node *tp__root_of_powers(tp_node *x, float p)
{
    tp_node *one = tp__one_at_zero(x), *y = tp_add(x, one);
    y = p == 2.0f ? tp_sqrt(y) : tp_pow(y, tp_const_as(tp_node_graph(x), x->dtype, 1.0 / (double)p));
    return tp_sub(y, one);
}
static void tp__global_norm_gradient(tp_grad *g)
{
    tp_node *d = tp_div(g->dout[0], tp_add(&g->out[0], tp__one_at_zero(&g->out[0])));
    for (int i = 0; i < g->op->n_in; i++) g->din[i] = tp_mul(tp_cast(d, g->in[i]->dtype), g->in[i]);
}
static const tp_op tp__op_global_norm =
    TP__ROW("global_norm", "GlobalNorm", TP_OP_PURE, TP__IO_RANGE(1, -1, 1), TP__NO_ATTRS, tp__global_norm_infer,
            tp__global_norm_gradient, TP__NAIVE_FAST(tp__global_norm), TP__FLOPS(tp__flops_of_squares), TP__NO_ONNX);
TP_DEF tp_node *tp_global_norm(tp_node *const *xs, int n) { return tp__opn(&tp__op_global_norm, xs, n, NULL); }
#endif

/* -- zero_fraction: y = (exact zeros of x) / (elements of x) ---------------------- >>op zero_fraction */
#ifndef TP__PASS_INT
static void TP__F(tp__zero_fraction)(const tp_call *k)
{
    const real *x = (const real *)k->in[0].data;
    const int64_t n = tp__size(&k->in[0]);
    int64_t zeros = 0;
    for (int64_t i = 0; i < n; i++) zeros += x[i] == 0;
    *(real *)k->out[0].data = (real)((double)zeros / (double)n);
}
#endif
#ifdef TP__ROWS
static const tp_op tp__op_zero_fraction =
    TP__ROW("zero_fraction", "ZeroFraction", TP_OP_PURE, TP__IO(1, 1), TP__NO_ATTRS, tp__infer_real_scalar, NULL,
            TP__NAIVE(tp__zero_fraction), TP__FLOPS(tp__flops_of_input), TP__NO_ONNX);
TP_DEF tp_node *tp_zero_fraction(tp_node *x) { return tp__op1(&tp__op_zero_fraction, x, NULL); }
#endif

/* -- shared by ops along one axis: argmax, cumsum, expand_dims, squeeze, concat, split, stack, unstack */
#ifdef TP__ROWS
static const tp_attr tp__axis_schema[] = {TP__ATTR(tp__axis_attrs, INT, axis), TP__ATTRS_END};

/* Converts `axis`, which may count from the end, to an index of x's dimensions. Returns -1, and reports the error, if x
 * has no such axis. */
static int tp__infer_axis(tp_infer *s, int axis, const tp_shape *x)
{
    const int d = tp__axis(axis, x->ndim);
    char text[TP_SHAPE_TEXT];
    if (d < 0) tp_infer_fail(s, TP_ERR_ARG, "axis %d does not exist in shape %s", axis, tp_shape_text(x, text));
    return d;
}

/* tp__remove_dim removes dimension d of the shape. tp__infer_insert_dim adds a dimension of n at place `axis`, which may count
 * from the end. */
static void tp__remove_dim(tp_shape *s, int d)
{
    for (s->ndim--; d < s->ndim; d++) s->dim[d] = s->dim[d + 1];
}
static tp_status tp__infer_insert_dim(tp_infer *s, tp_shape *y, int axis, int64_t n)
{
    const int at = tp__axis(axis, y->ndim + 1);
    char text[TP_SHAPE_TEXT];
    if (at < 0)
        return tp_infer_fail(s, TP_ERR_ARG, "there is no place %d for a new dimension in shape %s", axis,
                             tp_shape_text(y, text));
    if (y->ndim == TP_MAX_DIMS)
        return tp_infer_fail(s, TP_ERR_SHAPE, "shape %s has %d dimensions, which is the most", tp_shape_text(y, text),
                             TP_MAX_DIMS);
    for (int d = y->ndim++; d > at; d--) y->dim[d] = y->dim[d - 1];
    y->dim[at] = n;
    return TP_OK;
}
#endif

/* -- argmax: index (int64) of the largest along an axis, the first of ties; a NaN is largest - >>op argmax */
static void TP__F(tp__argmax)(const tp_call *k)
{
    const tp_shape *s = &k->in[0].shape;
    const int axis = tp__axis(((const tp__axis_attrs *)k->attrs)->axis, s->ndim);
    const int64_t A = tp__product(s, 0, axis), n = s->dim[axis], B = tp__product(s, axis + 1, s->ndim);
    const TP__NUM *x = (const TP__NUM *)k->in[0].data;
    int64_t *y = (int64_t *)k->out[0].data;
    for (int64_t a = 0; a < A; a++)
        for (int64_t b = 0; b < B; b++) {
            const TP__NUM *p = x + a * n * B + b;
            int64_t best = 0;
            for (int64_t i = 1; i < n; i++) {
                const TP__NUM v = p[i * B], m = p[best * B];
                if (!TP__IS_NAN(m) && (v > m || TP__IS_NAN(v))) best = i;
            }
            y[a * B + b] = best;
        }
}
#ifdef TP__ROWS
TP__ANY_NUMBER(tp__argmax)
static tp_status tp__argmax_infer(tp_infer *s)
{
    const tp_status st = tp__infer_number(s);
    if (st != TP_OK) return st;
    const int d = tp__infer_axis(s, ((const tp__axis_attrs *)s->attrs)->axis, &s->in[0].shape);
    if (d < 0) return TP_ERR_ARG;
    if (s->in[0].shape.dim[d] == 0) return tp_infer_fail(s, TP_ERR_SHAPE, "axis %d is empty, so it has no largest", d);
    s->out[0].dtype = TP_I64;
    s->out[0].shape = s->in[0].shape;
    tp__remove_dim(&s->out[0].shape, d);
    return TP_OK;
}
static const tp_op tp__op_argmax =
    TP__ROW("argmax", "ArgMax", TP_OP_PURE, TP__IO(1, 1), TP__ATTRS(axis), tp__argmax_infer, NULL,
            TP__NUMBERS(tp__argmax), TP__FLOPS(tp__flops_of_input), TP__ONNX("ArgMax"));
TP_DEF tp_node *tp_argmax(tp_node *x, int axis)
{
    tp__axis_attrs t;
    t.axis = axis;
    return tp__op1(&tp__op_argmax, x, &t);
}
#endif

/* -- cumsum: y[i] = sum of x[j], j <= i, along an axis; exclusive: j < i; reverse: j >= i, j > i ---- >>op cumsum
 *   dx = cumsum of dy from the other end. Sums of reals are kept in double. */
static void TP__F(tp__cumsum_lines)(const tp_call *k, int64_t from, int64_t to)
{
    const tp__cumsum_attrs *t = (const tp__cumsum_attrs *)k->attrs;
    const tp_shape *s = &k->in[0].shape;
    const int axis = tp__axis(t->axis, s->ndim);
    const int64_t n = s->dim[axis], B = tp__product(s, axis + 1, s->ndim);
    for (int64_t line = from; line < to; line++) {
        const int64_t at = line / B * n * B + line % B;
        const TP__NUM *x = (const TP__NUM *)k->in[0].data + at;
        TP__NUM *y = (TP__NUM *)k->out[0].data + at;
        TP__TOTAL sum = 0;
        for (int64_t q = 0; q < n; q++) {
            const int64_t i = (t->reverse ? n - 1 - q : q) * B;
            const TP__NUM v = x[i];
            if (t->exclusive) y[i] = (TP__NUM)sum;
            sum = TP__ADD(sum, (TP__TOTAL)v);
            if (!t->exclusive) y[i] = (TP__NUM)sum;
        }
    }
}
static void TP__F(tp__cumsum)(const tp_call *k)
{
    const tp_shape *s = &k->in[0].shape;
    const int64_t n = s->dim[tp__axis(((const tp__cumsum_attrs *)k->attrs)->axis, s->ndim)];
    if (n > 0) tp__each_range(k, tp__size(&k->in[0]) / n, tp__grain(n), TP__F(tp__cumsum_lines));
}
#ifdef TP__ROWS
TP__ANY_NUMBER(tp__cumsum)
static const tp_attr tp__cumsum_schema[] = {TP__ATTR(tp__cumsum_attrs, INT, axis),
                                            TP__ATTR(tp__cumsum_attrs, BOOL, exclusive),
                                            TP__ATTR(tp__cumsum_attrs, BOOL, reverse), TP__ATTRS_END};
static tp_status tp__cumsum_infer(tp_infer *s)
{
    const tp_status st = tp__infer_number(s);
    if (st != TP_OK) return st;
    if (tp__infer_axis(s, ((const tp__cumsum_attrs *)s->attrs)->axis, &s->in[0].shape) < 0) return TP_ERR_ARG;
    return tp__infer_same(s);
}
static void tp__cumsum_gradient(tp_grad *g)
{
    const tp__cumsum_attrs *t = (const tp__cumsum_attrs *)g->op->attrs;
    g->din[0] = tp_cumsum(g->dout[0], t->axis, t->exclusive, !t->reverse);
}
static const tp_op tp__op_cumsum =
    TP__ROW("cumsum", "Cumsum", TP_OP_PURE, TP__IO(1, 1), TP__ATTRS(cumsum), tp__cumsum_infer, tp__cumsum_gradient,
            TP__NUMBERS(tp__cumsum), TP__FLOPS(NULL), TP__NO_ONNX);
TP_DEF tp_node *tp_cumsum(tp_node *x, int axis, bool exclusive, bool reverse)
{
    tp__cumsum_attrs t;
    memset(&t, 0, sizeof t);
    t.axis = axis;
    t.exclusive = exclusive;
    t.reverse = reverse;
    return tp__op1(&tp__op_cumsum, x, &t);
}
#endif

/* -- top_k: the k largest of the last axis, descending, and their indices (int32) ------------ >>op top_k
 *   Of ties the lower index comes first; NaNs come before all. dx: dy at the places of the chosen elements, else 0. */
#ifndef TP__PASS_INT
/* Whether element i ranks before element j. */
static bool TP__F(tp__ranks_before)(const real *x, int64_t i, int64_t j)
{
    const bool ni = x[i] != x[i], nj = x[j] != x[j];
    if (ni != nj) return ni;
    if (!ni && x[i] != x[j]) return x[i] > x[j];
    return i < j;
}
static void TP__F(tp__top_k)(const tp_call *k)
{
    const tp_shape *s = &k->in[0].shape;
    const int64_t n = s->dim[s->ndim - 1], rows = tp__product(s, 0, s->ndim - 1);
    const int64_t K = ((const tp__top_k_attrs *)k->attrs)->k;
    real *y = (real *)k->out[0].data;
    int32_t *index = (int32_t *)k->out[1].data;
    for (int64_t r = 0; r < rows; r++) {
        const real *x = (const real *)k->in[0].data + r * n;
        int64_t last = -1;
        for (int64_t j = 0; j < K; j++) { /* find the best element of those that rank after the last one found */
            int64_t best = -1;
            for (int64_t i = 0; i < n; i++)
                if ((last < 0 || TP__F(tp__ranks_before)(x, last, i)) &&
                    (best < 0 || TP__F(tp__ranks_before)(x, i, best)))
                    best = i;
            if (y) y[r * K + j] = x[best];
            if (index) index[r * K + j] = (int32_t)best;
            last = best;
        }
    }
}
#endif
#ifdef TP__ROWS
static const tp_attr tp__top_k_schema[] = {TP__ATTR(tp__top_k_attrs, INT, k), TP__ATTRS_END};
static tp_status tp__top_k_infer(tp_infer *s)
{
    const int k = ((const tp__top_k_attrs *)s->attrs)->k, last = s->in[0].shape.ndim - 1;
    char text[TP_SHAPE_TEXT];
    if (last < 0 || k < 1 || (s->in[0].shape.dim[last] >= 0 && k > s->in[0].shape.dim[last]))
        return tp_infer_fail(s, TP_ERR_ARG,
                             "the %d largest of the last axis of shape %s do not exist: k is 1 to its size", k,
                             tp_shape_text(&s->in[0].shape, text));
    s->out[0] = s->out[1] = s->in[0];
    s->out[0].shape.dim[last] = s->out[1].shape.dim[last] = k;
    s->out[1].dtype = TP_I32;
    return tp__infer_real(s);
}
static tp_node *tp__put_last(tp_node *dy, tp_node *index, tp_node *ref);
static void tp__top_k_gradient(tp_grad *g)
{
    if (g->dout[0]) g->din[0] = tp__put_last(g->dout[0], &g->out[1], g->in[0]);
}
static double tp__top_k_flops(const tp_call *k)
{
    return (double)tp__size(&k->in[0]) * (double)((const tp__top_k_attrs *)k->attrs)->k;
}
static const tp_op tp__op_top_k = TP__ROW(
    "top_k", "TopKV2", TP_OP_PURE, TP__IO(1, 2), TP__ATTRS(top_k), tp__top_k_infer, tp__top_k_gradient,
    TP__NAIVE_FAST(tp__top_k), TP__FLOPS_SCRATCH(tp__top_k_flops, TP__IF_FAST(tp__top_k_heaps, NULL)), TP__NO_ONNX);
TP_DEF tp_node *tp_top_k(tp_node *x, int k, tp_node **indices)
{
    tp__top_k_attrs t;
    t.k = k;
    tp_node *y = tp__op1(&tp__op_top_k, x, &t);
    if (indices) *indices = tp_is_poison(y) ? y : &y->op->out[1];
    return y;
}
#endif

/* -- shared by take_last and put_last: indices into the last axis. An index out of range fails the run. */
#ifdef TP__FIRST_PASS
static bool tp__one_of_last(const tp_call *k, int64_t index, int64_t n)
{
    const bool is = index >= 0 && index < n;
    if (!is) tp_kernel_fault(k, index);
    return is;
}
/* Checks that x (..,n) and index (..,m) have the same shape, except for the last dimension; with a third input, ref (..,k), that x and
 * index have the same shape and ref differs in the last dimension only. The output has the shape of the last input. */
static tp_status tp__infer_last(tp_infer *s)
{
    tp_shape a = s->in[0].shape, b = s->in[1].shape;
    char ta[TP_SHAPE_TEXT], tb[TP_SHAPE_TEXT];
    if (!tp_dtype_is_float(s->in[0].dtype) || s->in[1].dtype != TP_I32)
        return tp_infer_fail(s, TP_ERR_DTYPE, "x is %s and index %s; they should be floating and int32",
                             tp_dtype_name(s->in[0].dtype), tp_dtype_name(s->in[1].dtype));
    if (s->n_in == 3 && s->in[2].dtype != s->in[0].dtype)
        return tp_infer_fail(s, TP_ERR_DTYPE, "x is %s and ref %s; they should have the same element type",
                             tp_dtype_name(s->in[0].dtype), tp_dtype_name(s->in[2].dtype));
    if (a.ndim > 0) a.ndim--;
    if (b.ndim > 0) b.ndim--;
    if (s->in[0].shape.ndim < 1 || s->in[1].shape.ndim < 1 || !tp_shape_compatible(&a, &b))
        return tp_infer_fail(s, TP_ERR_SHAPE, "x is %s and index %s; they may differ in the last dimension only",
                             tp_shape_text(&s->in[0].shape, ta), tp_shape_text(&s->in[1].shape, tb));
    if (s->n_in == 3) {
        b = s->in[2].shape;
        if (b.ndim > 0) b.ndim--;
        if (!tp_shape_compatible(&s->in[0].shape, &s->in[1].shape))
            return tp_infer_fail(s, TP_ERR_SHAPE, "x is %s and index %s; they should have the same shape",
                                 tp_shape_text(&s->in[0].shape, ta), tp_shape_text(&s->in[1].shape, tb));
        if (s->in[2].shape.ndim < 1 || !tp_shape_compatible(&a, &b))
            return tp_infer_fail(s, TP_ERR_SHAPE, "x is %s and ref %s; they may differ in the last dimension only",
                                 tp_shape_text(&s->in[0].shape, ta), tp_shape_text(&s->in[2].shape, tb));
    }
    s->out[0].dtype = s->in[0].dtype;
    s->out[0].shape = s->in[s->n_in - 1].shape;
    return TP_OK;
}
#endif

/* -- take_last: y[..,j] = x[..,i[..,j]] ---------------------------------------------------- >>op take_last
 *   dx = put_last(dy, i, x).  Inputs: x, i. */
#ifndef TP__PASS_INT
static void TP__F(tp__take_last)(const tp_call *k)
{
    const tp_shape *s = &k->in[0].shape, *o = &k->out[0].shape;
    const int64_t n = s->dim[s->ndim - 1], m = o->dim[o->ndim - 1], rows = tp__product(s, 0, s->ndim - 1);
    const int32_t *index = (const int32_t *)k->in[1].data;
    const real *x = (const real *)k->in[0].data;
    real *y = (real *)k->out[0].data;
    for (int64_t i = 0; i < rows * m; i++) y[i] = tp__one_of_last(k, index[i], n) ? x[i / m * n + index[i]] : 0;
}
#endif
#ifdef TP__ROWS
static void tp__take_last_gradient(tp_grad *g) { g->din[0] = tp__put_last(g->dout[0], g->in[1], g->in[0]); }
static const tp_op tp__op_take_last =
    TP__ROW("take_last", "TakeLast", TP_OP_PURE, TP__IO(2, 1), TP__NO_ATTRS, tp__infer_last, tp__take_last_gradient,
            TP__NAIVE(tp__take_last), TP__FLOPS(tp__flops_none), TP__FAULT("index %lld is outside the last axis"));
#endif

/* -- put_last: y = 0 but y[..,i[..,j]] = sum of x[..,j], in the shape of ref ---------------- >>op put_last
 *   The transpose of take_last: dx = take_last(dy, i).  Inputs: x, i, ref (only its shape is read). */
#ifndef TP__PASS_INT
static void TP__F(tp__put_last)(const tp_call *k)
{
    const tp_shape *s = &k->in[0].shape, *o = &k->out[0].shape;
    const int64_t m = s->dim[s->ndim - 1], n = o->dim[o->ndim - 1], rows = tp__product(s, 0, s->ndim - 1);
    const int32_t *index = (const int32_t *)k->in[1].data;
    const real *x = (const real *)k->in[0].data;
    real *y = (real *)k->out[0].data;
    for (int64_t i = 0; i < rows * n; i++) y[i] = 0;
    for (int64_t i = 0; i < rows * m; i++)
        if (tp__one_of_last(k, index[i], n)) y[i / m * n + index[i]] += x[i];
}
#endif
#ifdef TP__ROWS
static void tp__put_last_gradient(tp_grad *g) { g->din[0] = tp__op2(&tp__op_take_last, g->dout[0], g->in[1], NULL); }
static const tp_op tp__op_put_last = TP__ROW(
    "put_last", "PutLast", TP_OP_PURE, TP__IO(3, 1), TP__NO_ATTRS, tp__infer_last, tp__put_last_gradient,
    TP__NAIVE(tp__put_last), TP__FLOPS(tp__flops_of_input), TP__REST(4u, NULL, "index %lld is outside the last axis"));
static tp_node *tp__put_last(tp_node *dy, tp_node *index, tp_node *ref)
{
    return tp__op3(&tp__op_put_last, dy, index, ref, NULL);
}
#endif

/* -- in_top_k: bool (B): is logits[b, labels[b]] among the k largest of its row? ------------ >>op in_top_k
 *   True if the logit is finite and fewer than k are strictly larger; false for a label out of range. */
#ifndef TP__PASS_INT
static void TP__F(tp__in_top_k)(const tp_call *k)
{
    const int64_t B = k->in[0].shape.dim[0], C = k->in[0].shape.dim[1];
    const int K = ((const tp__top_k_attrs *)k->attrs)->k;
    for (int64_t b = 0; b < B; b++) {
        const real *x = (const real *)k->in[0].data + b * C;
        const int64_t label =
            k->in[1].dtype == TP_I64 ? ((const int64_t *)k->in[1].data)[b] : ((const int32_t *)k->in[1].data)[b];
        bool in_top_k = label >= 0 && label < C && tp__finite((double)x[label]);
        int64_t larger = 0;
        for (int64_t c = 0; c < C && in_top_k; c++) larger += x[c] > x[label];
        ((uint8_t *)k->out[0].data)[b] = in_top_k && larger < K;
    }
}
#endif
#ifdef TP__ROWS
static tp_status tp__in_top_k_infer(tp_infer *s)
{
    const tp_shape *x = &s->in[0].shape, *l = &s->in[1].shape;
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    if (!tp_dtype_is_float(s->in[0].dtype) || (s->in[1].dtype != TP_I32 && s->in[1].dtype != TP_I64))
        return tp_infer_fail(s, TP_ERR_DTYPE,
                             "logits are %s and labels %s; they should be floating and int32 or int64: change the "
                             "input's TP_SPEC, or tp_cast it",
                             tp_dtype_name(s->in[0].dtype), tp_dtype_name(s->in[1].dtype));
    if (x->ndim != 2 || l->ndim != 1 || (x->dim[0] >= 0 && l->dim[0] >= 0 && x->dim[0] != l->dim[0]))
        return tp_infer_fail(s, TP_ERR_SHAPE, "logits are %s and labels %s; they should be (B,C) and (B)",
                             tp_shape_text(x, a), tp_shape_text(l, b));
    s->out[0].dtype = TP_BOOL;
    s->out[0].shape = *l;
    if (l->dim[0] < 0) s->out[0].shape.dim[0] = x->dim[0];
    return TP_OK;
}
static const tp_op tp__op_in_top_k =
    TP__ROW("in_top_k", "InTopK", TP_OP_PURE, TP__IO(2, 1), TP__ATTRS(top_k), tp__in_top_k_infer, NULL,
            TP__NAIVE(tp__in_top_k), TP__FLOPS(tp__flops_of_input), TP__NO_ONNX);
TP_DEF tp_node *tp_in_top_k(tp_node *logits, tp_node *labels, int k)
{
    tp__top_k_attrs t;
    t.k = k;
    if (logits && logits->shape.ndim == 2 && logits->shape.dim[1] >= 0 && k >= logits->shape.dim[1])
        tp_log(TP_LOG_WARN, "in_top_k: k is %d and '%s' has %lld classes: each label is among the first k", k,
               tp_node_name(logits), (long long)logits->shape.dim[1]);
    return tp__op2(&tp__op_in_top_k, logits, labels, &t);
}
#endif

/* ==== shapes =========================================================================================== */
/* These rows move elements without reading their values: one kernel serves all element types of a size. Most rows are one
 * strided copy. */

#ifdef TP__FIRST_PASS
#define TP__MOVE_DIMS (2 * TP_MAX_DIMS)

/* A strided copy: dst[sum over d of i_d dst_stride[d]] = src[sum over d of i_d src_stride[d]] for all indices with i_d
 * < dim[d]; strides count elements. */
typedef struct tp__move {
    int ndim;
    int64_t dim[TP__MOVE_DIMS], dst_stride[TP__MOVE_DIMS], src_stride[TP__MOVE_DIMS];
    char *dst;
    const char *src;
    size_t size; /* bytes of an element */
} tp__move;

static void tp__move_add(tp__move *m, int64_t dim, int64_t ds, int64_t ss)
{
    m->dim[m->ndim] = dim;
    m->dst_stride[m->ndim] = ds;
    m->src_stride[m->ndim++] = ss;
}

#if TP__FAST
static void tp__move_fast(const tp_call *k, const tp__move *m);
#endif
static void tp__move_do(const tp_call *k, const tp__move *m)
{
#if TP__FAST
    if (k->device->isa) {
        tp__move_fast(k, m);
        return;
    }
#else
    (void)k;
#endif
    int64_t n = 1;
    for (int d = 0; d < m->ndim; d++) n *= m->dim[d];
    for (int64_t i = 0; i < n; i++) {
        int64_t index_left = i, to = 0, from = 0;
        for (int d = m->ndim - 1; d >= 0; d--) {
            to += index_left % m->dim[d] * m->dst_stride[d];
            from += index_left % m->dim[d] * m->src_stride[d];
            index_left /= m->dim[d];
        }
        memcpy(m->dst + to * (int64_t)m->size, m->src + from * (int64_t)m->size, m->size);
    }
}

static void tp__strides(const tp_shape *s, int64_t *stride)
{
    int64_t n = 1;
    for (int d = s->ndim - 1; d >= 0; d--) {
        stride[d] = n;
        n *= s->dim[d];
    }
}

static void tp__move_begin(tp__move *m, void *dst, const void *src, size_t size)
{
    memset(m, 0, sizeof *m);
    m->dst = (char *)dst;
    m->src = (const char *)src;
    m->size = size;
}

/* Copies a box of shape `box` between two arrays, whose strides follow from the shapes `to` and `from`. */
static void tp__move_box(const tp_call *k, const tp_shape *box, void *dst, const tp_shape *to, const void *src,
                         const tp_shape *from, size_t size)
{
    tp__move m;
    int64_t ds[TP_MAX_DIMS], ss[TP_MAX_DIMS];
    tp__strides(to, ds);
    tp__strides(from, ss);
    tp__move_begin(&m, dst, src, size);
    for (int d = 0; d < box->ndim; d++) tp__move_add(&m, box->dim[d], ds[d], ss[d]);
    tp__move_do(k, &m);
}

/* Copies elements of input 0 (x) in a strided order to output 0: y[i_0, i_1, ...] = x[first + sum over d of i_d
 * stride[d]]. */
static void tp__move_strided(const tp_call *k, int64_t first, const int64_t *stride)
{
    const tp_shape *y = &k->out[0].shape;
    const size_t size = tp_dtype_size(k->in[0].dtype);
    tp__move m;
    int64_t ds[TP_MAX_DIMS];
    if (tp__size(&k->out[0]) == 0) return;
    tp__strides(y, ds);
    tp__move_begin(&m, k->out[0].data, (const char *)k->in[0].data + first * (int64_t)size, size);
    for (int d = 0; d < y->ndim; d++) tp__move_add(&m, y->dim[d], ds[d], stride[d]);
    tp__move_do(k, &m);
}

/* tp__index_of: index[d] = the index of element i of an array in dimension d. tp__element_at: the number of the element at this
 * index. */
static void tp__index_of(int64_t i, const tp_shape *s, int64_t *index)
{
    for (int d = s->ndim - 1; d >= 0; d--) {
        index[d] = i % s->dim[d];
        i /= s->dim[d];
    }
}
static int64_t tp__element_at(const int64_t *index, const tp_shape *s)
{
    int64_t i = 0;
    for (int d = 0; d < s->ndim; d++) i = i * s->dim[d] + index[d];
    return i;
}

/* Writes n copies of one element. */
static void tp__fill(void *dst, const void *element, size_t size, int64_t n)
{
    char *p = (char *)dst;
    size_t done = size;
    const size_t bytes = (size_t)n * size;
    if (n <= 0) return;
    memcpy(p, element, size);
    while (done < bytes) { /* copy the filled part, which doubles it */
        const size_t m = bytes - done < done ? bytes - done : done;
        memcpy(p + done, p, m);
        done += m;
    }
}

static void tp__fill_value(void *dst, tp_dtype dtype, tp__wide value, int64_t n)
{
    int64_t converted = 0; /* has room for an element of any type */
    if (n <= 0) return;
    uint64_t bits = 0; /* of the value: -0 is not 0 */
    memcpy(&bits, &value, sizeof value);
    if (bits == 0) { /* zero has only zero bytes in every type */
        memset(dst, 0, (size_t)n * tp_dtype_size(dtype));
        return;
    }
    tp_convert(&converted, dtype, &value, TP__WIDE_DTYPE, 1);
    tp__fill(dst, &converted, tp_dtype_size(dtype), n);
}

/* The shape rule of a gradient op whose last input is x: dx has the shape of x, and input i, which is dy, must have the
 * shape y. `is`: the words of the error sentence before that shape, for example "the slice is". */
static tp_status tp__infer_dx(tp_infer *s, int i, const tp_shape *y, const char *is)
{
    const tp_type *dy = &s->in[i], *x = &s->in[s->n_in - 1];
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    if (!tp_shape_compatible(y, &dy->shape))
        return tp_infer_fail(s, TP_ERR_SHAPE, "%s: dy is %s, %s %s", s->op->name, tp_shape_text(&dy->shape, a), is,
                             tp_shape_text(y, b));
    s->out[0].dtype = dy->dtype;
    s->out[0].shape = x->shape;
    return TP_OK;
}

/* Refuses input i if it has not the element type and shape of `want`. Unknown dimensions match. */
static tp_status tp__infer_like(tp_infer *s, int i, const tp_type *want)
{
    const tp_type *x = &s->in[i];
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    if (x->dtype == want->dtype && tp_shape_compatible(&x->shape, &want->shape)) return TP_OK;
    return tp_infer_fail(s, TP_ERR_SHAPE, "%s: input %d is %s %s, it should be %s %s", s->op->name, i,
                         tp_dtype_name(x->dtype), tp_shape_text(&x->shape, a), tp_dtype_name(want->dtype),
                         tp_shape_text(&want->shape, b));
}

/* For a gradient that takes inputs and outputs of its op: checks these n inputs by the op's shape rule, and sets `out`, with room for
 * n_out types, to the outputs that the other inputs must be like. */
static tp_status tp__infer_outputs(tp_infer *s, tp_status (*rule)(tp_infer *s), const tp_type *in, int n, tp_type *out,
                                   int n_out)
{
    tp_infer f = *s;
    f.in = in, f.n_in = n;
    f.out = out, f.n_out = n_out;
    memset(out, 0, (size_t)n_out * sizeof *out);
    return rule(&f);
}
#endif

/* -- reshape: y = x under another shape, of which one dimension may follow from the rest --- >>op reshape */
#ifdef TP__ROWS
static const tp_attr tp__reshape_schema[] = {TP__ATTR(tp__reshape_attrs, SHAPE, shape), TP__ATTRS_END};
static tp_status tp__reshape_infer(tp_infer *s)
{
    const tp_shape *x = &s->in[0].shape, *want = &((const tp__reshape_attrs *)s->attrs)->shape;
    tp_shape *y = &s->out[0].shape;
    const int64_t n = tp_shape_size(x);
    int64_t known_product = 1;
    int open = -1;
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    if (want->ndim < 0 || want->ndim > TP_MAX_DIMS)
        return tp_infer_fail(s, TP_ERR_SHAPE, "the new shape has more than %d dimensions", TP_MAX_DIMS);
    for (int d = 0; d < want->ndim; d++) {
        if (want->dim[d] < 0 && open >= 0)
            return tp_infer_fail(s, TP_ERR_SHAPE,
                                 "the new shape %s has two unknown dimensions; one at most can follow "
                                 "from the rest",
                                 tp_shape_text(want, b));
        if (want->dim[d] < 0) open = d;
        else if (want->dim[d] > 0 && known_product > INT64_MAX / want->dim[d])
            return tp_infer_fail(s, TP_ERR_SHAPE, "the new shape %s is too large", tp_shape_text(want, b));
        else known_product *= want->dim[d];
    }
    s->out[0].dtype = s->in[0].dtype;
    *y = *want;
    if (n < 0) return TP_OK;
    if (open >= 0 && known_product > 0 && n % known_product == 0) y->dim[open] = n / known_product;
    else if (open >= 0 || n != known_product)
        return tp_infer_fail(s, TP_ERR_SHAPE, "shape %s has %lld elements, which do not make %s", tp_shape_text(x, a),
                             (long long)n, tp_shape_text(want, b));
    return TP_OK;
}
static const tp_op tp__op_reshape = TP__VIEW_ROW("reshape", "Reshape", 1, TP__ATTRS(reshape), tp__reshape_infer,
                                                 tp__view_gradient, TP__ONNX("Reshape"));
TP_DEF tp_node *tp_reshape_to(tp_node *x, tp_shape shape)
{
    tp__reshape_attrs t;
    memset(&t, 0, sizeof t);
    t.shape = shape;
    return tp__op1(&tp__op_reshape, x, &t);
}
TP_DEF tp_node *tp_flatten(tp_node *x)
{
    const int64_t any = TP_ANY;
    return tp_reshape_to(x, tp_make_shape_n(1, &any));
}
#endif

/* -- reshape_like: y = x under the shape of ref, whose values are not read ------------- >>op reshape_like */
#ifdef TP__ROWS
static tp_status tp__reshape_like_infer(tp_infer *s)
{
    const int64_t n = tp_shape_size(&s->in[0].shape), m = tp_shape_size(&s->in[1].shape);
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    if (n >= 0 && m >= 0 && n != m)
        return tp_infer_fail(s, TP_ERR_SHAPE, "shape %s has %lld elements, %s has %lld",
                             tp_shape_text(&s->in[0].shape, a), (long long)n, tp_shape_text(&s->in[1].shape, b),
                             (long long)m);
    s->out[0].dtype = s->in[0].dtype;
    s->out[0].shape = s->in[1].shape;
    return TP_OK;
}
static const tp_op tp__op_reshape_like = TP__VIEW_ROW("reshape_like", "Reshape", 2, TP__NO_ATTRS,
                                                      tp__reshape_like_infer, tp__view_gradient, TP__SHAPE_ONLY(2u));
TP_DEF tp_node *tp_reshape_like(tp_node *x, tp_node *ref)
{
    if (x && ref && tp_shape_known(&x->shape) && tp_shape_equal(&x->shape, &ref->shape)) return x;
    return tp__op2(&tp__op_reshape_like, x, ref, NULL);
}
#endif

/* -- batch_flatten: (B,...) -> (B,product of the rest) ---------------------------- >>op batch_flatten */
#ifdef TP__ROWS
static tp_status tp__batch_flatten_infer(tp_infer *s)
{
    const tp_shape *x = &s->in[0].shape;
    if (x->ndim < 1) return tp_infer_fail(s, TP_ERR_SHAPE, "a scalar has no batch dimension");
    s->out[0].dtype = s->in[0].dtype;
    s->out[0].shape.ndim = 2;
    s->out[0].shape.dim[0] = x->dim[0];
    s->out[0].shape.dim[1] = tp__known_product(x, 1, x->ndim);
    return TP_OK;
}
static const tp_op tp__op_batch_flatten = TP__VIEW_ROW("batch_flatten", "Reshape", 1, TP__NO_ATTRS,
                                                       tp__batch_flatten_infer, tp__view_gradient, TP__ONNX("Flatten"));
TP_DEF tp_node *tp_batch_flatten(tp_node *x) { return tp__op1(&tp__op_batch_flatten, x, NULL); }
#endif

/* -- expand_dims: a new dimension of 1 before `axis`; squeeze takes one away -- >>op expand_dims, squeeze */
#ifdef TP__ROWS
static tp_status tp__expand_dims_infer(tp_infer *s)
{
    s->out[0] = s->in[0];
    return tp__infer_insert_dim(s, &s->out[0].shape, ((const tp__axis_attrs *)s->attrs)->axis, 1);
}
static tp_status tp__squeeze_infer(tp_infer *s)
{
    const int d = tp__infer_axis(s, ((const tp__axis_attrs *)s->attrs)->axis, &s->in[0].shape);
    char text[TP_SHAPE_TEXT];
    if (d < 0) return TP_ERR_ARG;
    if (s->in[0].shape.dim[d] != 1 && s->in[0].shape.dim[d] >= 0)
        return tp_infer_fail(s, TP_ERR_SHAPE, "dimension %d of shape %s is not 1, so it cannot be taken away", d,
                             tp_shape_text(&s->in[0].shape, text));
    s->out[0] = s->in[0];
    tp__remove_dim(&s->out[0].shape, d);
    return TP_OK;
}
static const tp_op tp__op_expand_dims = TP__VIEW_ROW("expand_dims", "ExpandDims", 1, TP__ATTRS(axis),
                                                     tp__expand_dims_infer, tp__view_gradient, TP__ONNX("Unsqueeze"));
static const tp_op tp__op_squeeze =
    TP__VIEW_ROW("squeeze", "Squeeze", 1, TP__ATTRS(axis), tp__squeeze_infer, tp__view_gradient, TP__ONNX("Squeeze"));
TP_DEF tp_node *tp_expand_dims(tp_node *x, int axis)
{
    tp__axis_attrs t;
    t.axis = axis;
    return tp__op1(&tp__op_expand_dims, x, &t);
}
TP_DEF tp_node *tp_squeeze(tp_node *x, int axis)
{
    tp__axis_attrs t;
    t.axis = axis;
    return tp__op1(&tp__op_squeeze, x, &t);
}
#endif

/* -- identity, stop_gradient: y = x; the second passes no gradient to x ----- >>op identity, stop_gradient */
#ifdef TP__ROWS
static const tp_op tp__op_identity =
    TP__VIEW_ROW("identity", "Identity", 1, TP__NO_ATTRS, tp__infer_same, tp__identity_gradient, TP__ONNX("Identity"));
static const tp_op tp__op_stop_gradient =
    TP__VIEW_ROW("stop_gradient", "StopGradient", 1, TP__NO_ATTRS, tp__infer_same, NULL, TP__ONNX("Identity"));
/* Returns the node that x is another name for: follows identities back to their input. */
static tp_node *tp__skip_identities(tp_node *x)
{
    while (x->op->row == &tp__op_identity) x = x->op->in[0];
    return x;
}

TP_DEF tp_node *tp_identity(tp_node *x) { return tp__op1(&tp__op_identity, x, NULL); }
TP_DEF tp_node *tp_stop_gradient(tp_node *x) { return tp__op1(&tp__op_stop_gradient, x, NULL); }
/* Lets y run after the nodes, of which NULL ones are skipped. Returns y, or the poison node if one of them was not made. */
static tp_node *tp__run_after(tp_node *y, tp_node *const *nodes, int n)
{
    for (int i = 0; i < n && !tp_is_poison(y); i++) {
        if (!nodes[i]) continue;
        tp_node *bad = tp__bad_input(y->op->graph, y->op->row->name, i, nodes[i]);
        if (bad) return bad;
        tp__add_control(y->op, nodes[i]->op);
    }
    return y;
}
TP_DEF tp_node *tp_with_dependencies(tp_node *x, tp_node *const *after, int n)
{
    TP__GRAPH_REQUIRE(tp_node_graph(x), (after || n == 0) && n >= 0, tp_poison(tp_node_graph(x)))
    return tp__run_after(tp_identity(x), after, n);
}
#endif

/* -- group: computes nothing; runs after its control inputs ----------------------------------- >>op group */
#ifdef TP__ROWS
static void tp__group_kernel(const tp_call *k) { (void)k; }
static tp_status tp__group_infer(tp_infer *s)
{
    s->out[0].dtype = TP_BOOL;
    s->out[0].shape.ndim = 1;
    s->out[0].shape.dim[0] = 0;
    return TP_OK;
}
static const tp_op tp__op_group =
    TP__ROW("group", "group_deps", TP_OP_HOST | TP_OP_ANY_DTYPE, TP__IO(0, 1), TP__NO_ATTRS, tp__group_infer, NULL,
            TP__KERNELS(tp__group_kernel, NULL, NULL), TP__FLOPS(tp__flops_none), TP__NO_ONNX);
TP_DEF tp_node *tp_group(tp_graph *g, tp_node *const *nodes, int n, const char *name)
{
    TP__GRAPH_REQUIRE(g, g && (nodes || n == 0) && n >= 0, tp_poison(g))

    tp_apply_desc d;
    memset(&d, 0, sizeof d);
    d.row = &tp__op_group;
    d.name = name;
    return tp__run_after(tp_apply_ex(g, &d), nodes, n);
}
#endif

/* -- fill_like: y = value, in x's shape and dtype; x is read for its shape alone ------ >>op fill_like */
#ifdef TP__ROWS
static const tp_attr tp__fill_schema[] = {TP__ATTR(tp__fill_attrs, FLOAT, value), TP__ATTRS_END};
static void tp__fill_like_naive(const tp_call *k)
{
    tp__fill_value(k->out[0].data, k->out[0].dtype, (tp__wide)((const tp__fill_attrs *)k->attrs)->value,
                   tp__size(&k->out[0]));
}
static const tp_op tp__op_fill_like = TP__MOVE_ROW("fill_like", "Fill", TP__IO(1, 1), TP__ATTRS(fill), tp__infer_same,
                                                   NULL, tp__fill_like_naive, TP__SHAPE_ONLY(1u));
TP_DEF tp_node *tp_fill_like(tp_node *x, float value)
{
    tp__fill_attrs t;
    t.value = value;
    return tp__op1(&tp__op_fill_like, x, &t);
}
TP_DEF tp_node *tp_zeros_like(tp_node *x) { return tp_fill_like(x, 0.0f); }
TP_DEF tp_node *tp_ones_like(tp_node *x) { return tp_fill_like(x, 1.0f); }
#endif

/* -- broadcast_like: y = x repeated to the shape of ref; ref's data is not read ----- >>op broadcast_like
 *   dx = sum_to_like(dy, x) */
#ifdef TP__ROWS
static void tp__broadcast_like_naive(const tp_call *k)
{
    const tp_shape *x = &k->in[0].shape, *y = &k->out[0].shape;
    const int lead = y->ndim - x->ndim;
    int64_t of_x[TP_MAX_DIMS], stride[TP_MAX_DIMS];
    tp__strides(x, of_x);
    for (int d = 0; d < y->ndim; d++) stride[d] = d < lead || x->dim[d - lead] == 1 ? 0 : of_x[d - lead];
    tp__move_strided(k, 0, stride);
}
static tp_status tp__broadcast_like_infer(tp_infer *s)
{
    if (!tp__broadcasts_to(&s->in[0].shape, &s->in[1].shape)) {
        char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
        return tp_infer_fail(s, TP_ERR_SHAPE, "shape %s does not broadcast to %s", tp_shape_text(&s->in[0].shape, a),
                             tp_shape_text(&s->in[1].shape, b));
    }
    s->out[0].dtype = s->in[0].dtype;
    s->out[0].shape = s->in[1].shape;
    return TP_OK;
}
static void tp__broadcast_like_gradient(tp_grad *g) { g->din[0] = tp_sum_to_like(g->dout[0], g->in[0]); }
static const tp_op tp__op_broadcast_like =
    TP__MOVE_ROW("broadcast_like", "BroadcastTo", TP__IO(2, 1), TP__NO_ATTRS, tp__broadcast_like_infer,
                 tp__broadcast_like_gradient, tp__broadcast_like_naive, TP__SHAPE_ONLY(2u));
TP_DEF tp_node *tp_broadcast_like(tp_node *x, tp_node *ref) { return tp__op2(&tp__op_broadcast_like, x, ref, NULL); }
#endif

/* -- transpose: dimension d of y is dimension perm[d] of x ------------------------------- >>op transpose
 *   dx = dy transposed by the inverse of perm */
#ifdef TP__ROWS
static const tp_attr tp__transpose_schema[] = {TP__ATTR(tp__transpose_attrs, INTS8, perm),
                                               TP__ATTR(tp__transpose_attrs, INT, n), TP__ATTRS_END};
/* perm = the attribute, or the axes in reverse order if it is empty; false if it is no permutation of the axes. */
static bool tp__permutation(const tp__transpose_attrs *t, int ndim, int *perm)
{
    unsigned seen = 0;
    for (int d = 0; d < ndim; d++) {
        perm[d] = t->n == 0 ? ndim - 1 - d : tp__axis(t->perm[d], ndim);
        if (perm[d] < 0 || (seen >> perm[d] & 1u)) return false;
        seen |= 1u << perm[d];
    }
    return t->n == 0 || t->n == ndim;
}
static void tp__transpose_naive(const tp_call *k)
{
    const tp_shape *x = &k->in[0].shape;
    int64_t of_x[TP_MAX_DIMS], stride[TP_MAX_DIMS];
    int perm[TP_MAX_DIMS];
    tp__permutation((const tp__transpose_attrs *)k->attrs, x->ndim, perm);
    tp__strides(x, of_x);
    for (int d = 0; d < x->ndim; d++) stride[d] = of_x[perm[d]];
    tp__move_strided(k, 0, stride);
}
static tp_status tp__transpose_infer(tp_infer *s)
{
    const tp_shape *x = &s->in[0].shape;
    int perm[TP_MAX_DIMS];
    char text[TP_SHAPE_TEXT];
    if (!tp__permutation((const tp__transpose_attrs *)s->attrs, x->ndim, perm))
        return tp_infer_fail(s, TP_ERR_ARG, "perm is no permutation of the %d axes of shape %s", x->ndim,
                             tp_shape_text(x, text));
    s->out[0] = s->in[0];
    for (int d = 0; d < x->ndim; d++) s->out[0].shape.dim[d] = x->dim[perm[d]];
    return TP_OK;
}
static void tp__transpose_gradient(tp_grad *g)
{
    int perm[TP_MAX_DIMS], inverse[TP_MAX_DIMS] = {0};
    const int n = g->in[0]->shape.ndim;
    if (!tp__permutation((const tp__transpose_attrs *)g->op->attrs, n, perm)) return;
    for (int d = 0; d < n; d++) inverse[perm[d]] = d;
    g->din[0] = tp_transpose(g->dout[0], inverse, n);
}
static const tp_op tp__op_transpose =
    TP__MOVE_ROW("transpose", "Transpose", TP__IO(1, 1), TP__ATTRS(transpose), tp__transpose_infer,
                 tp__transpose_gradient, tp__transpose_naive, TP__ONNX("Transpose"));
TP_DEF tp_node *tp_transpose(tp_node *x, const int *perm, int n)
{
    tp__transpose_attrs t;
    TP__GRAPH_REQUIRE(tp_node_graph(x), n >= 0 && n <= TP_MAX_DIMS && (perm || n == 0), tp_poison(tp_node_graph(x)))
    memset(&t, 0, sizeof t);
    t.n = n;
    for (int d = 0; d < n; d++) t.perm[d] = perm[d];
    return tp__op1(&tp__op_transpose, x, &t);
}
#endif

/* -- reverse: x with the last element first along axes; dx = dy reversed ------------------------- >>op reverse */
#ifdef TP__ROWS
static void tp__reverse_naive(const tp_call *k)
{
    const tp_shape *s = &k->in[0].shape;
    int64_t stride[TP_MAX_DIMS], first = 0;
    bool is_reversed[TP_MAX_DIMS];
    tp__reduced_dims((const tp__reduce_attrs *)k->attrs, s->ndim, is_reversed);
    tp__strides(s, stride);
    for (int d = 0; d < s->ndim; d++) {
        if (!is_reversed[d]) continue;
        first += (s->dim[d] - 1) * stride[d];
        stride[d] = -stride[d];
    }
    tp__move_strided(k, first, stride);
}
static tp_status tp__reverse_infer(tp_infer *s)
{
    const tp_status st = tp__infer_reduce(s); /* checks the axes; the shape that it computes is not used */
    s->out[0] = s->in[0];
    return st;
}
static void tp__reverse_gradient(tp_grad *g)
{
    const tp__reduce_attrs *t = (const tp__reduce_attrs *)g->op->attrs;
    g->din[0] = tp_reverse(g->dout[0], t->axes, t->n_axes);
}
static const tp_op tp__op_reverse =
    TP__MOVE_ROW("reverse", "ReverseV2", TP__IO(1, 1), TP__ATTRS(reduce), tp__reverse_infer, tp__reverse_gradient,
                 tp__reverse_naive, TP__NO_ONNX);
TP_DEF tp_node *tp_reverse(tp_node *x, const int *axes, int n_axes)
{
    return tp__reduce(&tp__op_reverse, x, axes, n_axes, false);
}
#endif

/* -- shared by concat, concat_grad, split, stack and unstack: a value and its parts, which lie side by side along an axis */
#ifdef TP__ROWS
/* Copies the n parts into the whole, or the whole into its parts. A part that nobody reads has no data. A part may lack the axis,
 * if it is 1 there. */
static void tp__move_parts(const tp_call *k, const tp_operand *whole, const tp_operand *part, int n, int axis,
                           bool join)
{
    const int64_t rows = tp__product(&whole->shape, 0, axis);
    const int64_t width = tp__product(&whole->shape, axis, whole->shape.ndim);
    const size_t size = tp_dtype_size(whole->dtype);
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        const int64_t part_width = tp__product(&part[i].shape, axis, part[i].shape.ndim);
        char *place = (char *)whole->data + at * (int64_t)size;
        tp__move m;
        at += part_width;
        if (!part[i].data) continue;
        if (join) tp__move_begin(&m, place, part[i].data, size);
        else tp__move_begin(&m, part[i].data, place, size);
        tp__move_add(&m, rows, join ? width : part_width, join ? part_width : width);
        tp__move_add(&m, part_width, 1, 1);
        tp__move_do(k, &m);
    }
}

/* Refuses input i if its element type differs, for an op whose inputs must all have the same. */
static tp_status tp__infer_same_dtype(tp_infer *s, int i)
{
    if (s->in[i].dtype == s->in[0].dtype) return TP_OK;
    return tp_infer_fail(s, TP_ERR_DTYPE, "input 0 is %s, input %d is %s; tp_cast one of them",
                         tp_dtype_name(s->in[0].dtype), i, tp_dtype_name(s->in[i].dtype));
}

/* Returns the gradients of all outputs of an op: zeros for an output without a gradient. */
static tp_node **tp__all_douts(tp_grad *g)
{
    const int n = g->op->n_out;
    tp_node **d = (tp_node **)tp_graph_alloc(g->graph, (size_t)n * sizeof *d);
    for (int i = 0; d && i < n; i++) d[i] = g->dout[i] ? g->dout[i] : tp_zeros_like(&g->out[i]);
    return d;
}

/* The attributes of split and unstack; n: the number of outputs. */
static const tp_attr tp__parts_schema[] = {TP__ATTR(tp__parts_attrs, INT, axis), TP__ATTR(tp__parts_attrs, INT, n),
                                           TP__ATTRS_END};
static tp_node *tp__parts(const tp_op *row, tp_node *x, int n, int axis, tp_node **out)
{
    if (!out || n < 1)
        return tp_graph_fail(tp_node_graph(x), NULL, TP_ERR_ARG,
                             "%s: %d parts%s: give 1 or more, and an array for them", row->name, n,
                             out ? "" : " at NULL");
    tp__parts_attrs t;
    t.axis = axis;
    t.n = n;
    tp_node *y = tp__op1(row, x, &t);
    for (int i = 0; i < n; i++) out[i] = tp_is_poison(y) ? y : &y->op->out[i];
    return out[0];
}
#endif

/* -- shared by concat, stack, split, unstack: an op has TP_MAX_OUTPUTS outputs at most; more nodes are treated in groups of as many */
#ifdef TP__ROWS
/* The number of nodes in group k of n nodes. */
static int tp__group_size(int n, int k)
{
    const int left = n - k * TP_MAX_OUTPUTS;
    return left < TP_MAX_OUTPUTS ? left : TP_MAX_OUTPUTS;
}
/* Applies an op to each group of TP_MAX_OUTPUTS nodes; the last group may have fewer. Returns the results; NULL: out of memory. */
static tp_node **tp__of_groups(const tp_op *row, tp_node *const *xs, int n, const void *attrs, int *n_groups)
{
    *n_groups = (n - 1) / TP_MAX_OUTPUTS + 1;
    tp_node **y = (tp_node **)tp_graph_alloc(tp_node_graph(xs[0]), (size_t)*n_groups * sizeof *y);
    for (int k = 0; k < *n_groups && y; k++) y[k] = tp__opn(row, xs + k * TP_MAX_OUTPUTS, tp__group_size(n, k), attrs);
    return y;
}
/* Whether a split or unstack has more parts than an op has outputs; then it also reports that. */
static bool tp__too_many_parts(tp_infer *s, int n)
{
    if (n <= TP_MAX_OUTPUTS) return false;
    tp_infer_fail(s, TP_ERR_SHAPE,
                  "%d parts are more than the %d of one %s: cut its input into fewer with tp_slice first", n,
                  TP_MAX_OUTPUTS, s->op->name);
    return true;
}
#endif

/* -- concat: inputs joined along axis -------------------------------------------------------- >>op concat
 *   dx_0, dx_1, .. = concat_grad(dy, x_0, x_1, ..) */
#ifdef TP__ROWS
static void tp__concat_naive(const tp_call *k)
{
    const int axis = tp__axis(((const tp__axis_attrs *)k->attrs)->axis, k->out[0].shape.ndim);
    tp__move_parts(k, &k->out[0], k->in, k->n_in, axis, true);
}
static tp_status tp__concat_infer(tp_infer *s)
{
    const int axis = tp__infer_axis(s, ((const tp__axis_attrs *)s->attrs)->axis, &s->in[0].shape);
    if (axis < 0) return TP_ERR_ARG;
    tp_shape *y = &s->out[0].shape;
    s->out[0] = s->in[0];
    for (int i = 1; i < s->n_in; i++) {
        const tp_shape *x = &s->in[i].shape;
        tp_shape a = *y, b = *x;
        char ta[TP_SHAPE_TEXT], tb[TP_SHAPE_TEXT];
        if (b.ndim == a.ndim) a.dim[axis] = b.dim[axis] = 0;
        if (tp__infer_same_dtype(s, i) != TP_OK) return TP_ERR_DTYPE;
        if (!tp_shape_compatible(&a, &b))
            return tp_infer_fail(s, TP_ERR_SHAPE, "input 0 is %s, input %d is %s; they may differ along axis %d only",
                                 tp_shape_text(&s->in[0].shape, ta), i, tp_shape_text(x, tb), axis);
        for (int d = 0; d < y->ndim; d++)
            if (d == axis) y->dim[d] = y->dim[d] < 0 || x->dim[d] < 0 ? TP_ANY : y->dim[d] + x->dim[d];
            else if (y->dim[d] < 0) y->dim[d] = x->dim[d];
    }
    return TP_OK;
}
static void tp__concat_grad(tp_node *dy, tp_node *const *xs, int n, const void *attrs, tp_node **dxs);
static void tp__concat_gradient(tp_grad *g) { tp__concat_grad(g->dout[0], g->in, g->op->n_in, g->op->attrs, g->din); }
static const tp_op tp__op_concat =
    TP__MOVE_ROW("concat", "Concat", TP__IO_RANGE(1, -1, 1), TP__ATTRS(axis), tp__concat_infer, tp__concat_gradient,
                 tp__concat_naive, TP__ONNX("Concat"));
TP_DEF tp_node *tp_concat(tp_node *const *xs, int n, int axis)
{
    tp__axis_attrs t;
    t.axis = axis;
    return tp__opn(&tp__op_concat, xs, n, &t);
}
#endif

/* -- concat_grad: dy of a concat, cut into the gradients of its inputs --------------------- >>op concat_grad
 *   Inputs: dy, and the inputs of the concat (only their shapes are read). */
#ifdef TP__ROWS
static void tp__concat_grad_naive(const tp_call *k)
{
    const int axis = tp__axis(((const tp__axis_attrs *)k->attrs)->axis, k->in[0].shape.ndim);
    tp__move_parts(k, &k->in[0], k->out, k->n_out, axis, false);
}
static tp_status tp__concat_grad_infer(tp_infer *s)
{
    const tp_shape *y = &s->in[0].shape;
    const int axis = tp__infer_axis(s, ((const tp__axis_attrs *)s->attrs)->axis, y);
    int64_t sum = 0;
    char text[TP_SHAPE_TEXT], part[TP_SHAPE_TEXT];
    if (axis < 0) return TP_ERR_ARG;
    if (s->n_in - 1 > TP_MAX_OUTPUTS)
        return tp_infer_fail(s, TP_ERR_ARG, "%d parts are more than the %d outputs of one op", s->n_in - 1,
                             TP_MAX_OUTPUTS);
    s->n_out = s->n_in - 1;
    for (int i = 0; i < s->n_out; i++) {
        if (s->in[i + 1].shape.ndim != y->ndim)
            return tp_infer_fail(s, TP_ERR_SHAPE, "part %d of %s has %d dimensions", i, tp_shape_text(y, text),
                                 s->in[i + 1].shape.ndim);
        s->out[i].dtype = s->in[0].dtype;
        s->out[i].shape = s->in[i + 1].shape;
        for (int d = 0; d < y->ndim; d++)
            if (d != axis && s->out[i].shape.dim[d] < 0) s->out[i].shape.dim[d] = y->dim[d];
            else if (d != axis && y->dim[d] >= 0 && s->out[i].shape.dim[d] != y->dim[d])
                return tp_infer_fail(s, TP_ERR_SHAPE, "dy is %s, part %d is %s; they may differ along axis %d only",
                                     tp_shape_text(y, text), i, tp_shape_text(&s->in[i + 1].shape, part), axis);
        sum = sum < 0 || s->out[i].shape.dim[axis] < 0 ? -1 : sum + s->out[i].shape.dim[axis];
    }
    if (sum >= 0 && y->dim[axis] >= 0 && sum != y->dim[axis])
        return tp_infer_fail(s, TP_ERR_SHAPE, "the parts make %lld along axis %d of shape %s", (long long)sum, axis,
                             tp_shape_text(y, text));
    return TP_OK;
}
static void tp__concat_grad_gradient(tp_grad *g)
{
    tp_node **d = tp__all_douts(g);
    if (d) g->din[0] = tp_concat(d, g->op->n_out, ((const tp__axis_attrs *)g->op->attrs)->axis);
}
static const tp_op tp__op_concat_grad =
    TP__MOVE_ROW("concat_grad", "ConcatGrad", TP__IO_RANGE(2, -1, -1), TP__ATTRS(axis), tp__concat_grad_infer,
                 tp__concat_grad_gradient, tp__concat_grad_naive, TP__SHAPE_ONLY(0xfffffffeu));
static void tp__concat_grad(tp_node *dy, tp_node *const *xs, int n, const void *attrs, tp_node **dxs)
{
    if (n > TP_MAX_OUTPUTS) { /* dy is cut into groups first; the groups' inputs are joined for their shapes only */
        int n_groups;
        tp_node **group = tp__of_groups(&tp__op_concat, xs, n, attrs, &n_groups);
        tp_node **d = (tp_node **)tp_graph_alloc(tp_node_graph(dy), (size_t)n_groups * sizeof *d);
        if (!group || !d) return;
        tp__concat_grad(dy, group, n_groups, attrs, d);
        for (int k = 0, at = 0; k < n_groups; k++, at += TP_MAX_OUTPUTS)
            tp__concat_grad(d[k], xs + at, tp__group_size(n, k), attrs, dxs + at);
        return;
    }
    tp_node **in = (tp_node **)tp_graph_alloc(tp_node_graph(dy), (size_t)(n + 1) * sizeof *in);
    if (!in) return;
    in[0] = dy;
    for (int i = 0; i < n; i++) in[i + 1] = xs[i];
    tp_node *d = tp__opn(&tp__op_concat_grad, in, n + 1, attrs);
    for (int i = 0; i < n; i++) dxs[i] = tp_is_poison(d) ? d : &d->op->out[i];
}
#endif

/* -- split: n equal parts along axis ------------------------------------------------------------ >>op split
 *   dx = the parts' gradients, concatenated */
#ifdef TP__ROWS
static void tp__split_naive(const tp_call *k)
{
    const int axis = tp__axis(((const tp__parts_attrs *)k->attrs)->axis, k->in[0].shape.ndim);
    tp__move_parts(k, &k->in[0], k->out, k->n_out, axis, false);
}
static tp_status tp__split_infer(tp_infer *s)
{
    const tp__parts_attrs *t = (const tp__parts_attrs *)s->attrs;
    const tp_shape *x = &s->in[0].shape;
    const int axis = tp__infer_axis(s, t->axis, x);
    char text[TP_SHAPE_TEXT];
    if (axis < 0) return TP_ERR_ARG;
    if (tp__too_many_parts(s, t->n)) return TP_ERR_SHAPE;
    if (t->n < 1 || (x->dim[axis] >= 0 && x->dim[axis] % t->n != 0))
        return tp_infer_fail(s, TP_ERR_SHAPE, "axis %d of shape %s cannot be split into %d equal parts (%d at most)",
                             axis, tp_shape_text(x, text), t->n, TP_MAX_OUTPUTS);
    s->n_out = t->n;
    for (int i = 0; i < t->n; i++) {
        s->out[i] = s->in[0];
        if (x->dim[axis] >= 0) s->out[i].shape.dim[axis] = x->dim[axis] / t->n;
    }
    return TP_OK;
}
static void tp__split_gradient(tp_grad *g)
{
    tp_node **d = tp__all_douts(g);
    if (d) g->din[0] = tp_concat(d, g->op->n_out, ((const tp__parts_attrs *)g->op->attrs)->axis);
}
static const tp_op tp__op_split = TP__MOVE_ROW("split", "Split", TP__IO(1, -1), TP__ATTRS(parts), tp__split_infer,
                                               tp__split_gradient, tp__split_naive, TP__ONNX("Split"));
TP_DEF tp_node *tp_split(tp_node *x, int n, int axis, tp_node **out)
{
    return tp__parts(&tp__op_split, x, n, axis, out);
}
#endif

/* -- stack: inputs of one shape along a new axis ------------------------------------------------ >>op stack
 *   dx_0, dx_1, .. = unstack(dy) */
#ifdef TP__ROWS
static void tp__stack_naive(const tp_call *k)
{
    const int axis = tp__axis(((const tp__axis_attrs *)k->attrs)->axis, k->out[0].shape.ndim);
    tp__move_parts(k, &k->out[0], k->in, k->n_in, axis, true);
}
static tp_status tp__stack_infer(tp_infer *s)
{
    tp_shape *y = &s->out[0].shape;
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    s->out[0] = s->in[0];
    for (int i = 1; i < s->n_in; i++) {
        if (s->in[i].dtype != s->in[0].dtype || !tp_shape_compatible(&s->in[i].shape, y))
            return tp_infer_fail(s, TP_ERR_SHAPE, "input 0 is %s %s, input %d is %s %s; they should be alike",
                                 tp_dtype_name(s->in[0].dtype), tp_shape_text(y, a), i, tp_dtype_name(s->in[i].dtype),
                                 tp_shape_text(&s->in[i].shape, b));
        for (int d = 0; d < y->ndim; d++)
            if (y->dim[d] < 0) y->dim[d] = s->in[i].shape.dim[d];
    }
    return tp__infer_insert_dim(s, y, ((const tp__axis_attrs *)s->attrs)->axis, s->n_in);
}
static void tp__stack_gradient(tp_grad *g)
{
    tp_unstack(g->dout[0], ((const tp__axis_attrs *)g->op->attrs)->axis, g->op->n_in, g->din);
}
static const tp_op tp__op_stack = TP__MOVE_ROW("stack", "Stack", TP__IO_RANGE(1, TP_MAX_OUTPUTS, 1), TP__ATTRS(axis),
                                               tp__stack_infer, tp__stack_gradient, tp__stack_naive, TP__NO_ONNX);
TP_DEF tp_node *tp_stack(tp_node *const *xs, int n, int axis)
{
    tp__axis_attrs t;
    t.axis = axis;
    if (n > TP_MAX_OUTPUTS && xs && xs[0]) {
        int n_groups;
        tp_node **y = tp__of_groups(&tp__op_stack, xs, n, &t, &n_groups);
        return y ? tp_concat(y, n_groups, axis) : tp_poison(tp_node_graph(xs[0]));
    }
    return tp__opn(&tp__op_stack, xs, n, &t);
}
#endif

/* -- unstack: x cut along an axis of n, which is taken away, into n values; the inverse of stack --- >>op unstack
 *   dx = stack(dy_0, dy_1, ..) */
#ifdef TP__ROWS
static void tp__unstack_naive(const tp_call *k)
{
    const int axis = tp__axis(((const tp__parts_attrs *)k->attrs)->axis, k->in[0].shape.ndim);
    tp__move_parts(k, &k->in[0], k->out, k->n_out, axis, false);
}
static tp_status tp__unstack_infer(tp_infer *s)
{
    const tp__parts_attrs *t = (const tp__parts_attrs *)s->attrs;
    const tp_shape *x = &s->in[0].shape;
    const int axis = tp__infer_axis(s, t->axis, x);
    char text[TP_SHAPE_TEXT];
    if (axis < 0) return TP_ERR_ARG;
    if (tp__too_many_parts(s, t->n)) return TP_ERR_SHAPE;
    if (t->n < 1 || (x->dim[axis] >= 0 && x->dim[axis] != t->n))
        return tp_infer_fail(s, TP_ERR_SHAPE, "axis %d of shape %s is not %d long (%d at most)", axis,
                             tp_shape_text(x, text), t->n, TP_MAX_OUTPUTS);
    s->n_out = t->n;
    for (int i = 0; i < t->n; i++) {
        s->out[i] = s->in[0];
        tp__remove_dim(&s->out[i].shape, axis);
    }
    return TP_OK;
}
static void tp__unstack_gradient(tp_grad *g)
{
    tp_node **d = tp__all_douts(g);
    if (d) g->din[0] = tp_stack(d, g->op->n_out, ((const tp__parts_attrs *)g->op->attrs)->axis);
}
static const tp_op tp__op_unstack =
    TP__MOVE_ROW("unstack", "Unstack", TP__IO(1, -1), TP__ATTRS(parts), tp__unstack_infer, tp__unstack_gradient,
                 tp__unstack_naive, TP__NO_ONNX);
TP_DEF tp_node *tp_unstack(tp_node *x, int axis, int n, tp_node **out)
{
    return tp__parts(&tp__op_unstack, x, n, axis, out);
}
#endif

/* -- shared by slice and slice_grad: the box and its place in x */
#ifdef TP__ROWS
static const tp_attr tp__slice_schema[] = {TP__ATTR(tp__slice_attrs, I64S8, begin),
                                           TP__ATTR(tp__slice_attrs, I64S8, size), TP__ATTRS_END};
static tp_status tp__slice_shape(tp_infer *s, const tp_shape *x, tp_shape *y)
{
    const tp__slice_attrs *t = (const tp__slice_attrs *)s->attrs;
    char text[TP_SHAPE_TEXT];
    *y = *x;
    for (int d = 0; d < x->ndim; d++) {
        const int64_t b = t->begin[d], n = t->size[d], most = x->dim[d] < 0 ? INT64_MAX : x->dim[d];
        const int64_t behind = n < 0 ? -1 - n : 0; /* how many are left out at the end */
        if (b < 0 || b > most || (n < 0 ? behind : n) > most - b)
            return tp_infer_fail(s, TP_ERR_ARG, "the slice from %lld of size %lld leaves dimension %d of shape %s",
                                 (long long)b, (long long)n, d, tp_shape_text(x, text));
        y->dim[d] = n >= 0 ? n : x->dim[d] < 0 ? TP_ANY : x->dim[d] - b - behind;
    }
    return TP_OK;
}
#endif

/* -- slice: y = the box of `size` elements that begins at `begin`; size -1 - k: all but the last k ---------- >>op slice
 *   dx = slice_grad(dy, x) */
#ifdef TP__ROWS
static void tp__slice_naive(const tp_call *k)
{
    const tp_shape *x = &k->in[0].shape;
    int64_t stride[TP_MAX_DIMS];
    tp__strides(x, stride);
    tp__move_strided(k, tp__element_at(((const tp__slice_attrs *)k->attrs)->begin, x), stride);
}
static tp_status tp__slice_infer(tp_infer *s)
{
    s->out[0].dtype = s->in[0].dtype;
    return tp__slice_shape(s, &s->in[0].shape, &s->out[0].shape);
}
static tp_node *tp__slice_grad(tp_node *dy, tp_node *x, const void *attrs);
static void tp__slice_gradient(tp_grad *g) { g->din[0] = tp__slice_grad(g->dout[0], g->in[0], g->op->attrs); }
static const tp_op tp__op_slice = TP__MOVE_ROW("slice", "Slice", TP__IO(1, 1), TP__ATTRS(slice), tp__slice_infer,
                                               tp__slice_gradient, tp__slice_naive, TP__ONNX("Slice"));
TP_DEF tp_node *tp_slice(tp_node *x, const int64_t *begin, const int64_t *size)
{
    tp__slice_attrs t;
    TP__GRAPH_REQUIRE(tp_node_graph(x), x && begin && size, tp_poison(tp_node_graph(x)))
    memset(&t, 0, sizeof t);
    for (int d = 0; d < x->shape.ndim; d++) {
        t.begin[d] = begin[d];
        t.size[d] = size[d];
    }
    return tp__op1(&tp__op_slice, x, &t);
}
#endif

/* -- slice_grad: dy in a box of zeros of x's shape -------------------------------------------- >>op slice_grad
 *   Inputs: dy, x (only its shape is read). */
#ifdef TP__ROWS
static void tp__slice_grad_naive(const tp_call *k)
{
    const tp_shape *y = &k->in[0].shape, *x = &k->out[0].shape;
    const int64_t *begin = ((const tp__slice_attrs *)k->attrs)->begin;
    const size_t size = tp_dtype_size(k->in[0].dtype);
    if (tp__size(&k->out[0]) == 0) return;
    memset(k->out[0].data, 0, (size_t)tp__size(&k->out[0]) * size);
    tp__move_box(k, y, (char *)k->out[0].data + tp__element_at(begin, x) * (int64_t)size, x, k->in[0].data, y, size);
}
static tp_status tp__slice_grad_infer(tp_infer *s)
{
    tp_shape y;
    const tp_status st = tp__slice_shape(s, &s->in[1].shape, &y);
    return st == TP_OK ? tp__infer_dx(s, 0, &y, "the slice is") : st;
}
static void tp__slice_grad_gradient(tp_grad *g)
{
    const tp__slice_attrs *t = (const tp__slice_attrs *)g->op->attrs;
    g->din[0] = tp_slice(g->dout[0], t->begin, t->size);
}
static const tp_op tp__op_slice_grad =
    TP__MOVE_ROW("slice_grad", "SliceGrad", TP__IO(2, 1), TP__ATTRS(slice), tp__slice_grad_infer,
                 tp__slice_grad_gradient, tp__slice_grad_naive, TP__SHAPE_ONLY(2u));
static tp_node *tp__slice_grad(tp_node *dy, tp_node *x, const void *attrs)
{
    return tp__op2(&tp__op_slice_grad, dy, x, attrs);
}
#endif

/* -- shared by pad and pad_grad: which element of x stands where in y, and the shape of y */
#ifdef TP__FIRST_PASS
/* For pad, along one dimension: returns the index in x (n long) of the element that is copied to index i of y; -1: the
 * border's constant. */
static int64_t tp__pad_source(int64_t i, int64_t before, int64_t n, int mode)
{
    const int64_t at = i - before;
    if (at >= 0 && at < n) return at;
    if (mode == TP_PAD_REFLECT) return at < 0 ? -at : 2 * (n - 1) - at;
    if (mode == TP_PAD_SYMMETRIC) return at < 0 ? -at - 1 : 2 * n - 1 - at;
    return -1;
}
/* For pad: returns the number of the element of x that is copied to element i of y; -1: the border's constant. */
static int64_t tp__pad_element(int64_t i, const tp_shape *x, const tp_shape *y, const tp__pad_attrs *t)
{
    int64_t index[TP_MAX_DIMS];
    tp__index_of(i, y, index);
    for (int d = 0; d < y->ndim; d++) {
        index[d] = tp__pad_source(index[d], t->before[d], x->dim[d], t->mode);
        if (index[d] < 0) return -1;
    }
    return tp__element_at(index, x);
}
#endif
#ifdef TP__ROWS
static const tp_attr tp__pad_schema[] = {TP__ATTR(tp__pad_attrs, I64S8, before), TP__ATTR(tp__pad_attrs, I64S8, after),
                                         TP__ATTR(tp__pad_attrs, INT, mode), TP__ATTR(tp__pad_attrs, FLOAT, value),
                                         TP__ATTRS_END};
static tp_status tp__pad_shape(tp_infer *s, const tp_shape *x, tp_shape *y)
{
    const tp__pad_attrs *t = (const tp__pad_attrs *)s->attrs;
    char text[TP_SHAPE_TEXT];
    if (t->mode < TP_PAD_CONSTANT || t->mode > TP_PAD_SYMMETRIC)
        return tp_infer_fail(s, TP_ERR_ARG, "padding mode %d is no tp_pad_mode", t->mode);
    *y = *x;
    for (int d = 0; d < x->ndim; d++) {
        const int64_t a = t->before[d], b = t->after[d], limit = TP__VALUE_MAX;
        if (a < 0 || b < 0 || a > limit || b > limit)
            return tp_infer_fail(s, TP_ERR_ARG, "padding of %lld and %lld along dimension %d makes no sense",
                                 (long long)a, (long long)b, d);
        if (x->dim[d] < 0) continue;
        const int64_t max_pad = t->mode == TP_PAD_REFLECT ? x->dim[d] - 1 : x->dim[d];
        if (t->mode != TP_PAD_CONSTANT && (a > 0 || b > 0) && (a > max_pad || b > max_pad))
            return tp_infer_fail(s, TP_ERR_SHAPE,
                                 "dimension %d of shape %s has not enough elements to mirror %lld and %lld", d,
                                 tp_shape_text(x, text), (long long)a, (long long)b);
        y->dim[d] += a + b;
    }
    return TP_OK;
}
#endif

/* -- pad: x with a border: of `value`, or mirrored (reflect: without the edge; symmetric: with it) - >>op pad
 *   dx = pad_grad(dy, x); a slice of dy, if the border is constant */
#ifdef TP__FIRST_PASS
static void tp__pad_naive(const tp_call *k)
{
    const tp__pad_attrs *t = (const tp__pad_attrs *)k->attrs;
    const tp_shape *x = &k->in[0].shape, *y = &k->out[0].shape;
    const size_t size = tp_dtype_size(k->in[0].dtype);
    const int64_t n = tp__size(&k->out[0]);
    double border = 0; /* eight bytes, memory for one element of any type */
    tp__fill_value(&border, k->out[0].dtype, (tp__wide)t->value, 1);
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = tp__pad_element(i, x, y, t);
        const void *from = at < 0 ? (const char *)&border : (const char *)k->in[0].data + (size_t)at * size;
        memcpy((char *)k->out[0].data + (size_t)i * size, from, size);
    }
}
#endif
#ifdef TP__ROWS
static tp_status tp__pad_infer(tp_infer *s)
{
    s->out[0].dtype = s->in[0].dtype;
    return tp__pad_shape(s, &s->in[0].shape, &s->out[0].shape);
}
static tp_node *tp__pad_grad(tp_node *dy, tp_node *x, const void *attrs);
static void tp__pad_gradient(tp_grad *g)
{
    const tp__pad_attrs *t = (const tp__pad_attrs *)g->op->attrs;
    if (t->mode == TP_PAD_CONSTANT && tp_shape_known(&g->in[0]->shape))
        g->din[0] = tp_slice(g->dout[0], t->before, g->in[0]->shape.dim);
    else g->din[0] = tp__pad_grad(g->dout[0], g->in[0], t);
}
static const tp_op tp__op_pad =
    TP__ROW("pad", "Pad", TP_OP_ANY_DTYPE | TP__OP_PAD, TP__IO(1, 1), TP__ATTRS(pad), tp__pad_infer, tp__pad_gradient,
            TP__KERNELS(tp__pad_naive, NULL, tp__pad_fast), TP__FLOPS(tp__flops_none), TP__ONNX("Pad"));
TP_DEF tp_node *tp_pad(tp_node *x, const int64_t *before, const int64_t *after, int mode, float value)
{
    tp__pad_attrs t;
    TP__GRAPH_REQUIRE(tp_node_graph(x), x && before && after, tp_poison(tp_node_graph(x)))
    memset(&t, 0, sizeof t);
    for (int d = 0; d < x->shape.ndim; d++) {
        t.before[d] = before[d];
        t.after[d] = after[d];
    }
    t.mode = mode;
    t.value = value;
    return tp__op1(&tp__op_pad, x, &t);
}
#endif

/* -- pad_grad: dx = sum of dy over the places that hold a copy of x ----------------------- >>op pad_grad
 *   Inputs: dy, x (only its shape is read). */
#ifndef TP__PASS_INT
static void TP__F(tp__pad_grad)(const tp_call *k)
{
    const tp_shape *x = &k->out[0].shape, *y = &k->in[0].shape;
    const int64_t n = tp__size(&k->out[0]), m = tp__size(&k->in[0]);
    const real *dy = (const real *)k->in[0].data;
    real *dx = (real *)k->out[0].data;
    for (int64_t i = 0; i < n; i++) dx[i] = 0;
    for (int64_t i = 0; i < m; i++) {
        const int64_t at = tp__pad_element(i, x, y, (const tp__pad_attrs *)k->attrs);
        if (at >= 0) dx[at] += dy[i];
    }
}
#endif
#ifdef TP__ROWS
static tp_status tp__pad_grad_infer(tp_infer *s)
{
    tp_shape y;
    tp_status st = tp__infer_one_real(s);
    if (st == TP_OK) st = tp__pad_shape(s, &s->in[1].shape, &y);
    return st == TP_OK ? tp__infer_dx(s, 0, &y, "the padded shape is") : st;
}
static void tp__pad_grad_gradient(tp_grad *g)
{
    const tp__pad_attrs *t = (const tp__pad_attrs *)g->op->attrs;
    g->din[0] = tp_pad(g->dout[0], t->before, t->after, t->mode, 0.0f);
}
static const tp_op tp__op_pad_grad =
    TP__ROW("pad_grad", "PadGrad", TP_OP_PURE, TP__IO(2, 1), TP__ATTRS(pad), tp__pad_grad_infer, tp__pad_grad_gradient,
            TP__NAIVE_FAST(tp__pad_grad), TP__FLOPS(tp__flops_of_input), TP__SHAPE_ONLY(2u));
static tp_node *tp__pad_grad(tp_node *dy, tp_node *x, const void *attrs)
{
    return tp__op2(&tp__op_pad_grad, dy, x, attrs);
}
#endif

/* -- tile: x repeated multiples[d] times along each dimension --------------------------------- >>op tile
 *   dx = tile_grad(dy, x) */
#ifdef TP__ROWS
static const tp_attr tp__tile_schema[] = {TP__ATTR(tp__tile_attrs, I64S8, multiples), TP__ATTRS_END};
static void tp__tile_naive(const tp_call *k)
{
    const tp__tile_attrs *t = (const tp__tile_attrs *)k->attrs;
    const tp_shape *x = &k->in[0].shape, *y = &k->out[0].shape;
    int64_t ds[TP_MAX_DIMS], ss[TP_MAX_DIMS];
    tp__move m;
    tp__strides(y, ds);
    tp__strides(x, ss);
    tp__move_begin(&m, k->out[0].data, k->in[0].data, tp_dtype_size(k->in[0].dtype));
    for (int d = 0; d < x->ndim; d++) {
        tp__move_add(&m, t->multiples[d], ds[d] * x->dim[d], 0);
        tp__move_add(&m, x->dim[d], ds[d], ss[d]);
    }
    tp__move_do(k, &m);
}
static tp_status tp__tile_shape(tp_infer *s, const tp_shape *x, tp_shape *y)
{
    const tp__tile_attrs *t = (const tp__tile_attrs *)s->attrs;
    char text[TP_SHAPE_TEXT];
    *y = *x;
    for (int d = 0; d < x->ndim; d++) {
        if (t->multiples[d] < 0 || (x->dim[d] > 0 && t->multiples[d] > TP__VALUE_MAX / x->dim[d]))
            return tp_infer_fail(s, TP_ERR_ARG, "shape %s cannot be repeated %lld times along dimension %d",
                                 tp_shape_text(x, text), (long long)t->multiples[d], d);
        if (x->dim[d] >= 0) y->dim[d] *= t->multiples[d];
    }
    return TP_OK;
}
static tp_status tp__tile_infer(tp_infer *s)
{
    s->out[0].dtype = s->in[0].dtype;
    return tp__tile_shape(s, &s->in[0].shape, &s->out[0].shape);
}
static tp_node *tp__tile_grad(tp_node *dy, tp_node *x, const void *attrs);
static void tp__tile_gradient(tp_grad *g) { g->din[0] = tp__tile_grad(g->dout[0], g->in[0], g->op->attrs); }
static const tp_op tp__op_tile = TP__MOVE_ROW("tile", "Tile", TP__IO(1, 1), TP__ATTRS(tile), tp__tile_infer,
                                              tp__tile_gradient, tp__tile_naive, TP__ONNX("Tile"));
TP_DEF tp_node *tp_tile(tp_node *x, const int64_t *multiples)
{
    tp__tile_attrs t;
    TP__GRAPH_REQUIRE(tp_node_graph(x), x && multiples, tp_poison(tp_node_graph(x)))
    memset(&t, 0, sizeof t);
    for (int d = 0; d < x->shape.ndim; d++) t.multiples[d] = multiples[d];
    return tp__op1(&tp__op_tile, x, &t);
}
#endif

/* -- tile_grad: dx = sum of dy over the copies -------------------------------------------- >>op tile_grad
 *   Inputs: dy, x (only its shape is read). */
#ifndef TP__PASS_INT
static void TP__F(tp__tile_grad)(const tp_call *k)
{
    const tp_shape *x = &k->out[0].shape, *y = &k->in[0].shape;
    const int64_t n = tp__size(&k->out[0]), m = tp__size(&k->in[0]);
    const real *dy = (const real *)k->in[0].data;
    real *dx = (real *)k->out[0].data;
    for (int64_t i = 0; i < n; i++) dx[i] = 0;
    for (int64_t i = 0; i < m; i++) {
        int64_t index[TP_MAX_DIMS];
        tp__index_of(i, y, index);
        for (int d = 0; d < y->ndim; d++) index[d] %= x->dim[d];
        dx[tp__element_at(index, x)] += dy[i];
    }
}
#endif
#ifdef TP__ROWS
static tp_status tp__tile_grad_infer(tp_infer *s)
{
    tp_shape y;
    tp_status st = tp__infer_one_real(s);
    if (st == TP_OK) st = tp__tile_shape(s, &s->in[1].shape, &y);
    return st == TP_OK ? tp__infer_dx(s, 0, &y, "the tiled shape is") : st;
}
static void tp__tile_grad_gradient(tp_grad *g)
{
    g->din[0] = tp_tile(g->dout[0], ((const tp__tile_attrs *)g->op->attrs)->multiples);
}
static const tp_op tp__op_tile_grad =
    TP__ROW("tile_grad", "TileGrad", TP_OP_PURE, TP__IO(2, 1), TP__ATTRS(tile), tp__tile_grad_infer,
            tp__tile_grad_gradient, TP__NAIVE(tp__tile_grad), TP__FLOPS(tp__flops_of_input), TP__SHAPE_ONLY(2u));
static tp_node *tp__tile_grad(tp_node *dy, tp_node *x, const void *attrs)
{
    return tp__op2(&tp__op_tile_grad, dy, x, attrs);
}
#endif

/* -- shared by gather, gather_grad, one_hot and losses: indices, which are int32 or int64 */
#ifdef TP__FIRST_PASS
static int64_t tp__index_at(const tp_operand *x, int64_t i)
{
    return x->dtype == TP_I64 ? ((const int64_t *)x->data)[i] : ((const int32_t *)x->data)[i];
}
static void tp__check_indices(const tp_call *k, const tp_operand *indices, int64_t rows)
{
    const int64_t n = tp__size(indices);
    for (int64_t i = 0; i < n; i++) { /* indices are checked in order, so that every run reports the same bad index */
        const int64_t r = tp__index_at(indices, i);
        if (r >= 0 && r < rows) continue;
        tp_kernel_fault(k, r);
        break;
    }
}
static tp_status tp__infer_indices(tp_infer *s, const tp_type *indices)
{
    if (indices->dtype == TP_I32 || indices->dtype == TP_I64) return TP_OK;
    return tp_infer_fail(s, TP_ERR_DTYPE, "indices are %s; they should be int32 or int64",
                         tp_dtype_name(indices->dtype));
}
/* Sets y to the shape of the rows that gather returns. */
static tp_status tp__infer_rows(tp_infer *s, const tp_type *params, const tp_type *indices, tp_shape *y)
{
    char text[TP_SHAPE_TEXT];
    const tp_status st = tp__infer_indices(s, indices);
    if (st != TP_OK) return st;
    if (params->shape.ndim < 1) return tp_infer_fail(s, TP_ERR_SHAPE, "a scalar has no rows to gather");
    if (indices->shape.ndim + params->shape.ndim - 1 > TP_MAX_DIMS)
        return tp_infer_fail(s, TP_ERR_SHAPE, "indices of shape %s make more than %d dimensions",
                             tp_shape_text(&indices->shape, text), TP_MAX_DIMS);
    *y = indices->shape;
    for (int d = 1; d < params->shape.ndim; d++) y->dim[y->ndim++] = params->shape.dim[d];
    return TP_OK;
}
#endif

/* -- gather: y[i.., :] = params[indices[i..], :], rows of axis 0 ---------------------------- >>op gather
 *   An index out of range fails the run.  dparams = gather_grad(dy, indices, params) */
#ifdef TP__ROWS
static void tp__gather_range(const tp_call *k, int64_t from, int64_t to)
{
    const tp_shape *p = &k->in[0].shape;
    const size_t bytes = (size_t)tp__product(p, 1, p->ndim) * tp_dtype_size(k->in[0].dtype);
    for (int64_t i = from; i < to; i++) {
        const int64_t r = tp__index_at(&k->in[1], i);
        char *y = (char *)k->out[0].data + (size_t)i * bytes;
        if (bytes == 0) continue;
        if (r >= 0 && r < p->dim[0]) tp__copy_bytes(y, (const char *)k->in[0].data + (size_t)r * bytes, bytes);
        else memset(y, 0, bytes);
    }
}
static void tp__gather_naive(const tp_call *k)
{
    const tp_shape *p = &k->in[0].shape;
    tp__check_indices(k, &k->in[1], p->dim[0]);
    tp__each_range(k, tp__size(&k->in[1]), tp__grain(tp__product(p, 1, p->ndim)), tp__gather_range);
}
static tp_status tp__gather_infer(tp_infer *s)
{
    s->out[0].dtype = s->in[0].dtype;
    return tp__infer_rows(s, &s->in[0], &s->in[1], &s->out[0].shape);
}
static tp_node *tp__gather_grad(tp_node *dy, tp_node *indices, tp_node *params);
static void tp__gather_gradient(tp_grad *g) { g->din[0] = tp__gather_grad(g->dout[0], g->in[1], g->in[0]); }
static const tp_op tp__op_gather =
    TP__ROW("gather", "Gather", TP_OP_ANY_DTYPE | TP__OP_GATHER, TP__IO(2, 1), TP__NO_ATTRS, tp__gather_infer,
            tp__gather_gradient, TP__KERNELS(tp__gather_naive, NULL, NULL), TP__FLOPS(tp__flops_none),
            TP__REST(0, "Gather", "index %lld is outside the rows of what is gathered"));
TP_DEF tp_node *tp_gather(tp_node *params, tp_node *indices) { return tp__op2(&tp__op_gather, params, indices, NULL); }
#endif

/* -- gather_grad: dparams[r, :] = sum of dy[i.., :] over indices[i..] = r, in order -------- >>op gather_grad
 *   The result is dense, unlike TensorFlow's.  Inputs: dy, indices, params (only its shape is read). */
#ifndef TP__PASS_INT
static void TP__F(tp__gather_grad)(const tp_call *k)
{
    const tp_shape *p = &k->out[0].shape;
    const int64_t rows = p->dim[0], width = tp__product(p, 1, p->ndim), n = tp__size(&k->in[1]);
    const real *dy = (const real *)k->in[0].data;
    real *dp = (real *)k->out[0].data;
    for (int64_t i = 0; i < rows * width; i++) dp[i] = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t r = tp__index_at(&k->in[1], i);
        if (r < 0 || r >= rows) continue; /* an index outside of the table is skipped, because gather has reported it */
        for (int64_t j = 0; j < width; j++) dp[r * width + j] += dy[i * width + j];
    }
}
#endif
#ifdef TP__ROWS
static tp_status tp__gather_grad_infer(tp_infer *s)
{
    tp_shape y;
    const tp_status st = tp__infer_rows(s, &s->in[2], &s->in[1], &y);
    if (st != TP_OK) return st;
    if (!tp_dtype_is_float(s->in[0].dtype))
        return tp_infer_fail(s, TP_ERR_DTYPE, "dy is %s; it should be floating", tp_dtype_name(s->in[0].dtype));
    if (tp__infer_same_dtype(s, 2) != TP_OK) return TP_ERR_DTYPE;
    return tp__infer_dx(s, 0, &y, "gathered rows are");
}
static void tp__gather_grad_gradient(tp_grad *g) { g->din[0] = tp_gather(g->dout[0], g->in[1]); }
static const tp_op tp__op_gather_grad = TP__ROW(
    "gather_grad", "GatherGrad", TP_OP_PURE | TP__OP_GATHER_GRAD, TP__IO(3, 1), TP__NO_ATTRS, tp__gather_grad_infer,
    tp__gather_grad_gradient, TP__NAIVE_FAST(tp__gather_grad), TP__FLOPS(tp__flops_of_input), TP__SHAPE_ONLY(4u));
static tp_node *tp__gather_grad(tp_node *dy, tp_node *indices, tp_node *params)
{
    return tp__op3(&tp__op_gather_grad, dy, indices, params, NULL);
}
#endif

/* -- one_hot: float32 y[i.., j] = on where j = indices[i..], else off ---------------------- >>op one_hot
 *   An index out of range gives a row of `off`. */
#ifdef TP__ROWS
static const tp_attr tp__one_hot_schema[] = {TP__ATTR(tp__one_hot_attrs, INT, depth),
                                             TP__ATTR(tp__one_hot_attrs, FLOAT, on),
                                             TP__ATTR(tp__one_hot_attrs, FLOAT, off), TP__ATTRS_END};
static void tp__one_hot_naive(const tp_call *k)
{
    const tp__one_hot_attrs *t = (const tp__one_hot_attrs *)k->attrs;
    const int64_t n = tp__size(&k->in[0]);
    float *y = (float *)k->out[0].data;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = tp__index_at(&k->in[0], i);
        for (int64_t j = 0; j < t->depth; j++) y[i * t->depth + j] = j == at ? t->on : t->off;
    }
}
static tp_status tp__one_hot_infer(tp_infer *s)
{
    const int depth = ((const tp__one_hot_attrs *)s->attrs)->depth;
    tp_shape *y = &s->out[0].shape;
    const tp_status st = tp__infer_indices(s, &s->in[0]);
    if (st != TP_OK) return st;
    if (depth < 1 || s->in[0].shape.ndim == TP_MAX_DIMS)
        return tp_infer_fail(s, TP_ERR_ARG, "depth %d behind %d dimensions makes no shape", depth, s->in[0].shape.ndim);
    s->out[0].dtype = TP_F32;
    *y = s->in[0].shape;
    y->dim[y->ndim++] = depth;
    return TP_OK;
}
static const tp_op tp__op_one_hot =
    TP__ROW("one_hot", "OneHot", TP_OP_PURE, TP__IO(1, 1), TP__ATTRS(one_hot), tp__one_hot_infer, NULL,
            TP__KERNELS(tp__one_hot_naive, NULL, NULL), TP__FLOPS(tp__flops_none), TP__NO_ONNX);
TP_DEF tp_node *tp_one_hot(tp_node *indices, int64_t depth, float on, float off)
{
    tp__one_hot_attrs t;
    memset(&t, 0, sizeof t);
    if (depth < 1 || depth > INT32_MAX)
        return tp_graph_fail(tp_node_graph(indices), NULL, TP_ERR_ARG, "one_hot: depth %lld makes no shape",
                             (long long)depth);
    t.depth = (int)depth;
    t.on = on;
    t.off = off;
    return tp__op1(&tp__op_one_hot, indices, &t);
}
#endif

/* ==== printing and checking values ===================================================================== */

/* -- print: y = x, and a log line with shape, mean, root mean square and the first elements -- >>op print */
#ifdef TP__ROWS
static const tp_attr tp__message_schema[] = {TP__ATTR(tp__message_attrs, STRING, message), TP__ATTRS_END};
static const char *tp__message_of(const tp_call *k)
{
    const char *m = ((const tp__message_attrs *)k->attrs)->message;
    return m && *m ? m : k->name ? k->name : k->op->name;
}
static void tp__print(const tp_call *k)
{
    const tp_operand *x = &k->in[0];
    const int64_t n = tp__size(x);
    const size_t bytes = (size_t)n * tp_dtype_size(x->dtype);
    char shape[TP_SHAPE_TEXT];
    tp__print_numbers g;
    tp_buf b;
    memset(&g, 0, sizeof g);
    memset(&b, 0, sizeof b);
    if (k->scratch) g = *(const tp__print_numbers *)k->scratch;
    else {
        tp_tensor t;
        memset(&t, 0, sizeof t);
        if (bytes) memcpy(k->out[0].data, x->data, bytes);
        tp_tensor_view(&t, x->dtype, x->shape, x->data);
        for (int64_t i = 0; i < n; i++) {
            const double v = tp_tensor_get(&t, i);
            if (i < TP__GLANCE) g.first[i] = v;
            g.sum += v;
            g.squares += v * v;
        }
    }
    tp_buf_printf(&b, "%s: shape %s", tp__message_of(k), tp_shape_text(&x->shape, shape));
    if (tp_dtype_is_float(x->dtype) && n > 0)
        tp_buf_printf(&b, ", mean %.6g, rms %.6g", g.sum / (double)n, sqrt(g.squares / (double)n));
    tp_buf_printf(&b, ", [");
    for (int64_t i = 0; i < n && i < TP__GLANCE; i++) tp_buf_printf(&b, "%s%.6g", i ? " " : "", g.first[i]);
    tp_buf_printf(&b, n > TP__GLANCE ? " ...]" : "]");
    if (b.data && !b.failed) tp_log(TP_LOG_INFO, "%s", b.data);
    tp_buf_free(&b);
}
static const tp_op tp__op_print =
    TP__ROW("print", "Print", TP_OP_HOST | TP_OP_ANY_DTYPE, TP__IO(1, 1), TP__ATTRS(message), tp__infer_same,
            tp__identity_gradient, TP__KERNELS(tp__print, NULL, NULL), TP__FLOPS(tp__flops_of_input), TP__NO_ONNX);
static tp_node *tp__with_message(const tp_op *row, tp_node *x, const char *message)
{
    tp__message_attrs t;
    t.message = message;
    return tp__op1(row, x, &t);
}
TP_DEF tp_node *tp_print(tp_node *x, const char *message) { return tp__with_message(&tp__op_print, x, message); }
#endif

/* -- check_numerics: y = x; a NaN or infinity fails the run ---------------------- >>op check_numerics */
#ifndef TP__PASS_INT
static void TP__F(tp__check_numerics)(const tp_call *k)
{
    const real *x = (const real *)k->in[0].data;
    real *y = (real *)k->out[0].data;
    const int64_t n = tp__size(&k->in[0]);
    int64_t not_finite = -1;
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i];
        if (not_finite < 0 && !tp__finite((double)x[i])) not_finite = i;
    }
    if (not_finite >= 0) tp_kernel_fault(k, not_finite);
}
#endif
#ifdef TP__ROWS
static tp_status tp__check_numerics_infer(tp_infer *s)
{
    s->out[0] = s->in[0];
    return tp__infer_real(s);
}
static const tp_op tp__op_check_numerics =
    TP__ROW("check_numerics", "CheckNumerics", TP_OP_HOST, TP__IO(1, 1), TP__ATTRS(message), tp__check_numerics_infer,
            tp__identity_gradient, TP__NAIVE(tp__check_numerics), TP__FLOPS(NULL),
            TP__FAULT("element %lld is NaN or infinite"));
TP_DEF tp_node *tp_check_numerics(tp_node *x, const char *message)
{
    return tp__with_message(&tp__op_check_numerics, x, message);
}

/* -- the table of these op pages */
/* clang-format off */
static const tp_op *const tp__math_rows[] = {
    &tp__op_add, &tp__op_sub, &tp__op_mul, &tp__op_div, &tp__op_pow, &tp__op_maximum, &tp__op_minimum,
    &tp__op_squared_difference, &tp__op_floordiv, &tp__op_mod, &tp__op_greater, &tp__op_greater_equal,
    &tp__op_less, &tp__op_less_equal, &tp__op_equal, &tp__op_not_equal, &tp__op_logical_and,
    &tp__op_logical_or, &tp__op_logical_not, &tp__op_select, &tp__op_select_bytes, &tp__op_neg, &tp__op_abs,
    &tp__op_sign, &tp__op_square, &tp__op_sqrt, &tp__op_rsqrt, &tp__op_reciprocal, &tp__op_exp, &tp__op_ln,
    &tp__op_sin, &tp__op_cos, &tp__op_asin, &tp__op_acos, &tp__op_atan, &tp__op_erf, &tp__op_tanh, &tp__op_sigmoid, &tp__op_softplus, &tp__op_relu,
    &tp__op_relu_grad, &tp__op_leaky_relu, &tp__op_leaky_relu_grad, &tp__op_elu, &tp__op_elu_grad,
    &tp__op_floor, &tp__op_ceil, &tp__op_round, &tp__op_is_finite, &tp__op_clip, &tp__op_clip_grad,
    &tp__op_affine, &tp__op_cast, &tp__op_add_n, &tp__op_all_reduce, &tp__op_reduce_sum, &tp__op_reduce_mean,
    &tp__op_reduce_max, &tp__op_reduce_min, &tp__op_reduce_prod, &tp__op_reduce_prod_grad,
    &tp__op_reduce_all, &tp__op_reduce_any, &tp__op_size_ratio, &tp__op_sum_to_like, &tp__op_broadcast_like,
    &tp__op_l2_loss, &tp__op_global_norm, &tp__op_zero_fraction, &tp__op_argmax, &tp__op_cumsum, &tp__op_top_k,
    &tp__op_take_last, &tp__op_put_last, &tp__op_in_top_k, &tp__op_reshape, &tp__op_reshape_like,
    &tp__op_batch_flatten, &tp__op_expand_dims, &tp__op_squeeze, &tp__op_identity, &tp__op_stop_gradient,
    &tp__op_group, &tp__op_fill_like, &tp__op_transpose, &tp__op_reverse, &tp__op_concat, &tp__op_concat_grad, &tp__op_split,
    &tp__op_stack, &tp__op_unstack, &tp__op_slice, &tp__op_slice_grad, &tp__op_pad, &tp__op_pad_grad,
    &tp__op_tile, &tp__op_tile_grad, &tp__op_gather, &tp__op_gather_grad, &tp__op_one_hot, &tp__op_print,
    &tp__op_check_numerics};
/* clang-format on */
#endif

#undef TP__LOWEST
#undef TP__HIGHEST
#undef TP__ADD
#undef TP__SUB
#undef TP__MUL
#undef TP__IS_NAN
#undef TP__TOTAL
#undef TP__TOTAL_OF
#undef TP__R
#undef TP__EXP
#undef TP__LOG
#undef TP__ERF
#undef TP__TANH
#undef TP__EXPM1
#undef TP__LOG1P
#undef TP__SIN
#undef TP__COS
#undef TP__POW
#undef TP__ASIN
#undef TP__ACOS
#undef TP__ATAN
#undef TP__MAP1
#undef TP__MAP2
#ifdef TP__ROWS
#undef TP__REDUCE
#endif
#ifdef TP__FIRST_PASS
#undef TP__FIRST_PASS
#endif

#ifdef real
/* ==== >>ops: matmul, neural networks, random numbers, state ============================================ */
/* This part of the file is included twice: `real` is float, then double. The code between #ifdef TP__ROWS and #endif is read the
 * second time only. */
#ifdef TP__REAL_IS_FLOAT
#define TP__REXP(x_)  tp_expf(x_)
#define TP__RLOG(x_)  tp_logf(x_)
#define TP__RTANH(x_) tp_tanhf(x_)
#define TP__RSQRT(x_) sqrtf(x_)
#define TP__FLOOR(x_) floorf(x_)
#else
#define TP__REXP(x_)  exp(x_)
#define TP__RLOG(x_)  log(x_)
#define TP__RTANH(x_) tanh(x_)
#define TP__RSQRT(x_) sqrt(x_)
#define TP__FLOOR(x_) floor(x_)
#endif

/* -- shared by the pages below: operands, shape rules, gradients ----------------------------------------- */
#ifdef TP__REAL_IS_FLOAT
/* Input i and output i of call k as arrays of the type that the naive loop is compiled for; NULL for an output that nothing reads. */
#define TP__IN(i_)  ((const real *)k->in[i_].data)
#define TP__OUT(i_) ((real *)k->out[i_].data)

/* Sets an output to zeros, if anything reads it. */
static void tp__clear(const tp_operand *y)
{
    if (y->data) memset(y->data, 0, (size_t)tp__size(y) * tp_dtype_size(y->dtype));
}
#endif
#ifdef TP__ROWS
/* x must be images; data_format and padding must exist. */
static tp_status tp__infer_image(tp_infer *s, const tp_shape *x, int data_format, int padding)
{
    char t[TP_SHAPE_TEXT];
    if (data_format < 0 || data_format > TP_NCHW)
        return tp_infer_fail(s, TP_ERR_ARG, "%s: unknown data_format %d", s->op->name, data_format);
    if (padding < 0 || padding > TP_VALID)
        return tp_infer_fail(s, TP_ERR_ARG, "%s: unknown padding %d", s->op->name, padding);
    if (x->ndim != 4)
        return tp_infer_fail(s, TP_ERR_SHAPE, "%s: input is %s, needs 4 dimensions %s", s->op->name,
                             tp_shape_text(x, t), data_format == TP_NCHW ? "(B,C,H,W)" : "(B,H,W,C)");
    return TP_OK;
}

/* Sets the gradients of the first n inputs to the first n outputs of d's op. */
static void tp__give_outputs(tp_grad *g, tp_node *d, int n)
{
    for (int i = 0; i < n && !tp_is_poison(d); i++) g->din[i] = &d->op->out[i];
}

/* Whether somebody needs the gradient of input i. A gradient that nobody needs costs nodes, but no time in a run. */
static bool tp__grad_is_needed(const tp_grad *g, int i) { return g->below[g->in[i]->op->id] != 0; }
#endif

/* -- shared by matmul here, in tp_fast.h and in tp_export.h: sizes ------------------------------------------ */
#ifdef TP__REAL_IS_FLOAT
typedef struct tp__matmul_dims {
    int64_t M, N, K, batch;
    int64_t a_m, a_k, b_k, b_n; /* distances in memory: in a along m and k, in b along k and n */
} tp__matmul_dims;

static tp__matmul_dims tp__matmul_sizes(const tp_call *k)
{
    const tp__matmul_attrs *t = (const tp__matmul_attrs *)k->attrs;
    const tp_shape *a = &k->in[0].shape, *c = &k->out[0].shape;
    tp__matmul_dims d;
    d.M = c->dim[c->ndim - 2];
    d.N = c->dim[c->ndim - 1];
    d.K = a->dim[a->ndim - (t->transpose_a ? 2 : 1)];
    d.batch = tp__product(c, 0, c->ndim - 2);
    d.a_m = t->transpose_a ? 1 : d.K, d.a_k = t->transpose_a ? d.M : 1;
    d.b_k = t->transpose_b ? 1 : d.N, d.b_n = t->transpose_b ? d.K : 1;
    return d;
}
/* Returns the index of the matrix of x (a or b) that matrix i of c is computed from: leading dimensions are broadcast. */
static int64_t tp__matmul_matrix(const tp_shape *c, const tp_shape *x, int64_t i)
{
    int64_t at = 0, stride = 1;
    for (int d = 3; d <= x->ndim; d++) { /* from the last of the leading dimensions to the first */
        const int64_t index = i % c->dim[c->ndim - d];
        i /= c->dim[c->ndim - d];
        if (x->dim[x->ndim - d] != 1) at += index * stride;
        stride *= x->dim[x->ndim - d];
    }
    return at;
}
#endif

/* -- matmul: c[m,n] = sum_k a[m,k] b[k,n] ---------------------------------------------------- >>op matmul
 * a (..,M,K), or (..,K,M) if transpose_a; b (..,K,N), or (..,N,K) if transpose_b; leading dimensions broadcast.
 * d a = dc b^T, d b = a^T dc, and so on for the transposed cases. */
/* Returns sum_k a[k] b[k]; the steps are the distances between elements. */
static real TP__F(tp__dot)(int64_t K, const real *a, int64_t a_step, const real *b, int64_t b_step)
{
    real sum = 0;
    for (int64_t q = 0; q < K; q++) sum += a[q * a_step] * b[q * b_step];
    return sum;
}
static void TP__F(tp__matmul)(const tp_call *k)
{
    const tp__matmul_dims d = tp__matmul_sizes(k);
    const tp_shape *sa = &k->in[0].shape, *sb = &k->in[1].shape, *sc = &k->out[0].shape;
    for (int64_t i = 0; i < d.batch; i++) {
        const real *a = TP__IN(0) + tp__matmul_matrix(sc, sa, i) * d.M * d.K;
        const real *b = TP__IN(1) + tp__matmul_matrix(sc, sb, i) * d.K * d.N;
        real *c = TP__OUT(0) + i * d.M * d.N;
        for (int64_t m = 0; m < d.M; m++)
            for (int64_t n = 0; n < d.N; n++)
                c[m * d.N + n] = TP__F(tp__dot)(d.K, a + m * d.a_m, d.a_k, b + n * d.b_n, d.b_k);
    }
}
#ifdef TP__ROWS
static const tp_attr tp__matmul_schema[] = {TP__ATTR(tp__matmul_attrs, BOOL, transpose_a),
                                            TP__ATTR(tp__matmul_attrs, BOOL, transpose_b), TP__ATTRS_END};
static double tp__matmul_flops(const tp_call *k)
{
    const tp__matmul_dims d = tp__matmul_sizes(k);
    return 2.0 * (double)d.M * (double)d.N * (double)d.K * (double)d.batch;
}
static tp_status tp__matmul_infer(tp_infer *s)
{
    const tp__matmul_attrs *t = (const tp__matmul_attrs *)s->attrs;
    const tp_shape *a = &s->in[0].shape, *b = &s->in[1].shape;
    char ta[TP_SHAPE_TEXT], tb[TP_SHAPE_TEXT];
    tp_shape *c = &s->out[0].shape;
    const tp_status st = tp__infer_one_real(s);
    if (st != TP_OK) return st;
    if (a->ndim < 2 || b->ndim < 2)
        return tp_infer_fail(s, TP_ERR_SHAPE, "matmul: shapes %s and %s, both need at least 2 dimensions",
                             tp_shape_text(a, ta), tp_shape_text(b, tb));
    const int64_t M = a->dim[a->ndim - (t->transpose_a ? 1 : 2)], Ka = a->dim[a->ndim - (t->transpose_a ? 2 : 1)];
    const int64_t N = b->dim[b->ndim - (t->transpose_b ? 2 : 1)], Kb = b->dim[b->ndim - (t->transpose_b ? 1 : 2)];
    if (Ka >= 0 && Kb >= 0 && Ka != Kb)
        return tp_infer_fail(s, TP_ERR_SHAPE, "matmul: shapes %s and %s do not fit: %lld columns meet %lld rows",
                             tp_shape_text(a, ta), tp_shape_text(b, tb), (long long)Ka, (long long)Kb);
    c->ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    for (int d = 3; d <= c->ndim; d++) { /* the leading dimensions, from the last to the first */
        const int64_t x = d <= a->ndim ? a->dim[a->ndim - d] : 1, y = d <= b->ndim ? b->dim[b->ndim - d] : 1;
        if (x != y && x != 1 && y != 1 && x >= 0 && y >= 0)
            return tp_infer_fail(s, TP_ERR_SHAPE, "matmul: leading dimensions of %s and %s do not broadcast",
                                 tp_shape_text(a, ta), tp_shape_text(b, tb));
        c->dim[c->ndim - d] = x == 1 ? y : y == 1 ? x : x < 0 ? y : x;
    }
    c->dim[c->ndim - 2] = M;
    c->dim[c->ndim - 1] = N;
    s->out[0].dtype = s->in[0].dtype;
    return TP_OK;
}
static void tp__matmul_gradient(tp_grad *g)
{
    const tp__matmul_attrs *t = (const tp__matmul_attrs *)g->op->attrs;
    tp_node *a = g->in[0], *b = g->in[1], *dc = g->dout[0], *da, *db;
    if (!dc) return;
    if (!t->transpose_a && !t->transpose_b)
        da = tp_matmul_ex(dc, b, false, true), db = tp_matmul_ex(a, dc, true, false);
    else if (!t->transpose_a) da = tp_matmul_ex(dc, b, false, false), db = tp_matmul_ex(dc, a, true, false);
    else if (!t->transpose_b) da = tp_matmul_ex(b, dc, false, true), db = tp_matmul_ex(a, dc, false, false);
    else da = tp_matmul_ex(b, dc, true, true), db = tp_matmul_ex(dc, a, true, true);
    g->din[0] = a->shape.ndim == 2 && b->shape.ndim == 2 ? da : tp__unbroadcast(da, a);
    g->din[1] = a->shape.ndim == 2 && b->shape.ndim == 2 ? db : tp__unbroadcast(db, b);
}
static const tp_op tp__op_matmul = TP__FUSING_ROW(
    TP_FUSES_BIAS | TP_FUSES_ACT | TP_FUSES_MOST, 0, "matmul", "MatMul", TP_OP_HALF, TP__IO_RANGE(2, 3, 1),
    TP__ATTRS(matmul), tp__matmul_infer, tp__matmul_gradient, TP__NAIVE_FAST(tp__matmul),
    TP__FLOPS_SCRATCH(tp__matmul_flops, TP__IF_FAST(tp__matmul_scratch, NULL)), TP__ONNX("MatMul"));

TP_DEF tp_node *tp_matmul_ex(tp_node *a, tp_node *b, bool transpose_a, bool transpose_b)
{
    tp__matmul_attrs t;
    memset(&t, 0, sizeof t);
    t.transpose_a = transpose_a;
    t.transpose_b = transpose_b;
    return tp__op2(&tp__op_matmul, a, b, &t);
}
TP_DEF tp_node *tp_matmul(tp_node *a, tp_node *b) { return tp_matmul_ex(a, b, false, false); }
#endif

/* -- shared by conv2d, conv2d_input_grad and conv2d_filter_grad: attributes, shapes, FLOPs ------------------
 * Their geometry is a tp__conv (tp_tensor.h, >>conv geometry), computed by tp__conv_geometry (>>kernels). */
#ifdef TP__ROWS
static const tp_attr tp__conv_schema[] = {
    TP__ATTR(tp_conv2d_attrs, INT, stride_h),   TP__ATTR(tp_conv2d_attrs, INT, stride_w),
    TP__ATTR(tp_conv2d_attrs, INT, dilation_h), TP__ATTR(tp_conv2d_attrs, INT, dilation_w),
    TP__ATTR(tp_conv2d_attrs, INT, padding),    TP__ATTR(tp_conv2d_attrs, INT, data_format),
    TP__ATTR(tp_conv2d_attrs, INT, groups),     TP__ATTRS_END};

/* Checks the shapes x and w of a convolution and computes y's shape. */
static tp_status tp__conv_check(tp_infer *s, const tp_shape *x, const tp_shape *w, tp_shape *y)
{
    const tp_conv2d_attrs *a = (const tp_conv2d_attrs *)s->attrs;
    char tx[TP_SHAPE_TEXT], tw[TP_SHAPE_TEXT];
    const char *name = s->op->name;
    tp_status st = tp__infer_one_real(s);
    if (st == TP_OK) st = tp__infer_image(s, x, a->data_format, a->padding);
    if (st != TP_OK) return st;
    if (w->ndim != 4)
        return tp_infer_fail(s, TP_ERR_SHAPE, "%s: filter is %s, needs 4 dimensions (KH,KW,C/groups,O)", name,
                             tp_shape_text(w, tw));
    if (a->stride_h < 0 || a->stride_w < 0 || a->dilation_h < 0 || a->dilation_w < 0 || a->groups < 0)
        return tp_infer_fail(s, TP_ERR_ARG, "%s: strides, dilations and groups must be positive", name);
    const tp__conv g = tp__conv_geometry(a, x, w);
    if (g.KH == 0 || g.KW == 0)
        return tp_infer_fail(s, TP_ERR_SHAPE, "%s: filter is %s, it is empty", name, tp_shape_text(w, tw));
    if ((g.O >= 0 && g.O % g.groups) ||
        (g.C >= 0 && (g.C % g.groups || (w->dim[2] >= 0 && g.C / g.groups != w->dim[2]))))
        return tp_infer_fail(s, TP_ERR_SHAPE,
                             "%s: input %s, filter %s and %lld groups do not fit: the filter needs (KH,KW,C/groups,O)",
                             name, tp_shape_text(x, tx), tp_shape_text(w, tw), (long long)g.groups);
    if (a->padding == TP_VALID && (g.OH == 0 || g.OW == 0))
        return tp_infer_fail(s, TP_ERR_SHAPE, "%s: the kernel %s is larger than the input %s", name,
                             tp_shape_text(w, tw), tp_shape_text(x, tx));
    y->ndim = 4;
    y->dim[0] = g.B;
    y->dim[g.nchw ? 1 : 3] = g.O;
    y->dim[g.nchw ? 2 : 1] = g.OH;
    y->dim[g.nchw ? 3 : 2] = g.OW;
    return TP_OK;
}
/* The shape rule of the gradients. x, w, dy: the indices of these inputs. The result has the shape of input 2. */
static tp_status tp__conv_grad_check(tp_infer *s, int x, int w, int dy)
{
    tp_shape y;
    memset(&y, 0, sizeof y);
    const tp_status st = tp__conv_check(s, &s->in[x].shape, &s->in[w].shape, &y);
    return st == TP_OK ? tp__infer_dx(s, dy, &y, "the convolution's output is") : st;
}

static double tp__conv_flops(const tp_call *k, const tp_shape *x, const tp_shape *w)
{
    const tp__conv g = tp__conv_geometry_padded((const tp_conv2d_attrs *)k->attrs, k->fused.pad, x, w);
    return 2.0 * (double)(g.B * g.OH * g.OW) * (double)(g.KH * g.KW) * (double)(g.C / g.groups) * (double)g.O;
}
static tp_node *tp__conv_node(const tp_op *row, tp_node *a, tp_node *b, tp_node *like, const tp_conv2d_attrs *attrs)
{
    tp_node *in[3];
    TP__GRAPH_REQUIRE(tp_node_graph(a ? a : b), attrs, tp_poison(tp_node_graph(a ? a : b)))
    tp_conv2d_attrs t = *attrs;
    if (t.padding == TP_PADDING_DEFAULT) t.padding = TP_SAME;
    in[0] = a, in[1] = b, in[2] = like;
    return tp__opn(row, in, row->min_in, &t);
}
#endif

/* -- conv2d: y[b,i,j,o] = sum_{p,q,c} x[b, i sh + p dh - top, j sw + q dw - left, c] w[p,q,c,o] ---- >>op conv2d
 * x (B,H,W,C) or NCHW; w (KH,KW,C/groups,O) in both; y (B,OH,OW,O). x is 0 outside. SAME: OH = ceil(H/sh); half of the
 * padding is before x and half after, an odd pixel after. VALID: OH = ceil((H - (KH-1) dh) / sh). Group g reads channels
 * [g C/groups, ..) and computes channels [g O/groups, ..).
 * It is linear in both operands, so conv2d, conv2d_input_grad and conv2d_filter_grad are each other's gradients. */
/* One loop nest serves the three convolutions. It visits all (x, w, y) that belong together and adds the product of two
 * of them to the third, the output, which is zero at the start. */
static void TP__F(tp__conv_naive)(const tp__conv *g, tp__conv_pass what, real *x, real *w, real *y)
{
    const int64_t cg = g->C / g->groups, og = g->O / g->groups;
    for (int64_t b = 0; b < g->B; b++)
        for (int64_t i = 0; i < g->OH; i++)
            for (int64_t j = 0; j < g->OW; j++)
                for (int64_t o = 0; o < g->O; o++)
                    for (int64_t p = 0; p < g->KH; p++)
                        for (int64_t q = 0; q < g->KW; q++) {
                            const int64_t h = i * g->stride_h + p * g->dilation_h - g->top,
                                          v = j * g->stride_w + q * g->dilation_w - g->left;
                            if (h < 0 || h >= g->H || v < 0 || v >= g->W) continue;
                            real *ye =
                                y + b * g->y_stride_b + i * g->y_stride_h + j * g->y_stride_w + o * g->y_stride_c;
                            real *xe = x + b * g->x_stride_b + h * g->x_stride_h + v * g->x_stride_w +
                                       o / og * cg * g->x_stride_c;
                            real *we = w + (p * g->KW + q) * cg * g->O + o;
                            for (int64_t c = 0; c < cg; c++, xe += g->x_stride_c, we += g->O)
                                if (what == TP__CONV_FORWARD) *ye += *xe * *we;
                                else if (what == TP__CONV_INPUT_GRAD) *xe += *ye * *we;
                                else *we += *xe * *ye;
                        }
}
static void TP__F(tp__conv2d)(const tp_call *k)
{
    const tp__conv g = tp__conv_geometry((const tp_conv2d_attrs *)k->attrs, &k->in[0].shape, &k->in[1].shape);
    tp__clear(&k->out[0]);
    TP__F(tp__conv_naive)(&g, TP__CONV_FORWARD, (real *)k->in[0].data, (real *)k->in[1].data, TP__OUT(0));
}
#ifdef TP__ROWS
static tp_status tp__conv2d_infer(tp_infer *s)
{
    s->out[0].dtype = s->in[0].dtype;
    return tp__conv_check(s, &s->in[0].shape, &s->in[1].shape, &s->out[0].shape);
}
static void tp__conv2d_gradient(tp_grad *g)
{
    const tp_conv2d_attrs *a = (const tp_conv2d_attrs *)g->op->attrs;
    g->din[0] = tp_nn_conv2d_input_grad(g->dout[0], g->in[1], g->in[0], a);
    g->din[1] = tp_nn_conv2d_filter_grad(g->in[0], g->dout[0], g->in[1], a);
}
static double tp__conv2d_flops(const tp_call *k) { return tp__conv_flops(k, &k->in[0].shape, &k->in[1].shape); }
static const tp_op tp__op_conv2d = TP__FUSING_ROW(
    TP_FUSES_BIAS | TP_FUSES_ACT | TP_FUSES_ADD | TP_FUSES_NORM | TP_FUSES_NORM_AFTER | TP_FUSES_PAD | TP_FUSES_MOST |
        TP_FUSES_CHANNELS_LAST,
    0, "conv2d", "Conv2D", TP_OP_HALF | TP__OP_CONV2D, TP__IO_RANGE(2, 3, 1), TP__ATTRS_OF(conv, tp_conv2d_attrs),
    tp__conv2d_infer, tp__conv2d_gradient, TP__NAIVE_FAST(tp__conv2d),
    TP__FLOPS_SCRATCH(tp__conv2d_flops, TP__IF_FAST(tp__conv2d_scratch, NULL)), TP__ONNX("Conv"));
TP_DEF tp_node *tp_nn_conv2d(tp_node *x, tp_node *w, const tp_conv2d_attrs *a)
{
    return tp__conv_node(&tp__op_conv2d, x, w, NULL, a);
}
#endif

/* -- conv2d_input_grad: dx[.., c] = sum of dy[b,i,j,o] w[p,q,c,o] over the (i,j,p,q,o) that read that x ----------- >>op conv2d_input_grad
 * Inputs dy, w, and x for its shape. Also called a transposed convolution. */
static void TP__F(tp__conv2d_input_grad)(const tp_call *k)
{
    const tp__conv g = tp__conv_geometry((const tp_conv2d_attrs *)k->attrs, &k->in[2].shape, &k->in[1].shape);
    tp__clear(&k->out[0]);
    TP__F(tp__conv_naive)(&g, TP__CONV_INPUT_GRAD, TP__OUT(0), (real *)k->in[1].data, (real *)k->in[0].data);
}
#ifdef TP__ROWS
static tp_status tp__conv2d_input_grad_infer(tp_infer *s) { return tp__conv_grad_check(s, 2, 1, 0); }
static void tp__conv2d_input_grad_gradient(tp_grad *g)
{
    const tp_conv2d_attrs *a = (const tp_conv2d_attrs *)g->op->attrs;
    g->din[0] = tp_nn_conv2d(g->dout[0], g->in[1], a);
    g->din[1] = tp_nn_conv2d_filter_grad(g->dout[0], g->in[0], g->in[1], a);
}
static double tp__conv2d_input_grad_flops(const tp_call *k)
{
    return tp__conv_flops(k, &k->in[2].shape, &k->in[1].shape);
}
static const tp_op tp__op_conv2d_input_grad = TP__FUSING_ROW(
    TP_FUSES_BIAS | TP_FUSES_ACT | TP_FUSES_ADD | TP_FUSES_MOST | TP_FUSES_CHANNELS_LAST, 0, "conv2d_input_grad",
    "Conv2DBackpropInput", TP_OP_HALF | TP__OP_CONV2D_INPUT_GRAD, TP__IO(3, 1), TP__ATTRS_OF(conv, tp_conv2d_attrs),
    tp__conv2d_input_grad_infer, tp__conv2d_input_grad_gradient, TP__NAIVE_FAST(tp__conv2d_input_grad),
    TP__FLOPS_SCRATCH(tp__conv2d_input_grad_flops, TP__IF_FAST(tp__conv2d_input_grad_scratch, NULL)),
    TP__REST(1u << 2, "ConvTranspose", NULL));
TP_DEF tp_node *tp_nn_conv2d_input_grad(tp_node *dy, tp_node *w, tp_node *x_like, const tp_conv2d_attrs *a)
{
    return tp__conv_node(&tp__op_conv2d_input_grad, dy, w, x_like, a);
}
#endif

/* -- conv2d_filter_grad: dw[p,q,c,o] = sum_{b,i,j} x[..] dy[b,i,j,o] ------------------------------------- >>op conv2d_filter_grad
 * Inputs x, dy, and w for its shape. */
static void TP__F(tp__conv2d_filter_grad)(const tp_call *k)
{
    const tp__conv g = tp__conv_geometry((const tp_conv2d_attrs *)k->attrs, &k->in[0].shape, &k->in[2].shape);
    tp__clear(&k->out[0]);
    TP__F(tp__conv_naive)(&g, TP__CONV_FILTER_GRAD, (real *)k->in[0].data, TP__OUT(0), (real *)k->in[1].data);
}
#ifdef TP__ROWS
static tp_status tp__conv2d_filter_grad_infer(tp_infer *s) { return tp__conv_grad_check(s, 0, 2, 1); }
static void tp__conv2d_filter_grad_gradient(tp_grad *g)
{
    const tp_conv2d_attrs *a = (const tp_conv2d_attrs *)g->op->attrs;
    g->din[0] = tp_nn_conv2d_input_grad(g->in[1], g->dout[0], g->in[0], a);
    g->din[1] = tp_nn_conv2d(g->in[0], g->dout[0], a);
}
static double tp__conv2d_filter_grad_flops(const tp_call *k)
{
    return tp__conv_flops(k, &k->in[0].shape, &k->in[2].shape);
}
static const tp_op tp__op_conv2d_filter_grad = TP__FUSING_ROW(
    TP_FUSES_NORM | TP_FUSES_CHANNELS_LAST, 0, "conv2d_filter_grad", "Conv2DBackpropFilter",
    TP_OP_HALF | TP__OP_CONV2D_FILTER_GRAD, TP__IO(3, 1), TP__ATTRS_OF(conv, tp_conv2d_attrs),
    tp__conv2d_filter_grad_infer, tp__conv2d_filter_grad_gradient, TP__NAIVE_FAST(tp__conv2d_filter_grad),
    TP__FLOPS_SCRATCH(tp__conv2d_filter_grad_flops, TP__IF_FAST(tp__conv2d_filter_grad_scratch, NULL)),
    TP__SHAPE_ONLY(1u << 2));
TP_DEF tp_node *tp_nn_conv2d_filter_grad(tp_node *x, tp_node *dy, tp_node *w_like, const tp_conv2d_attrs *a)
{
    return tp__conv_node(&tp__op_conv2d_filter_grad, x, dy, w_like, a);
}
#endif

/* -- bias_add: y = x + b[channel] ------------------------------------------------------------ >>op bias_add
 * x of any rank >= 2, b (C); the channel is the last axis, or axis 1 for NCHW. db = dy summed over all other axes. */
static void TP__F(tp__bias_add)(const tp_call *k)
{
    const tp_shape *s = &k->in[0].shape;
    const int axis = ((const tp__bias_attrs *)k->attrs)->data_format == TP_NCHW ? 1 : s->ndim - 1;
    const int64_t C = s->dim[axis], inner = tp__product(s, axis + 1, s->ndim), n = tp__size(&k->out[0]);
    const real *x = TP__IN(0), *b = TP__IN(1);
    real *y = TP__OUT(0);
    for (int64_t i = 0; i < n; i++) y[i] = x[i] + b[i / inner % C];
}
#ifdef TP__ROWS
static const tp_attr tp__bias_schema[] = {TP__ATTR(tp__bias_attrs, INT, data_format), TP__ATTRS_END};
static tp_status tp__bias_add_infer(tp_infer *s)
{
    const tp__bias_attrs *t = (const tp__bias_attrs *)s->attrs;
    const tp_shape *x = &s->in[0].shape, *b = &s->in[1].shape;
    char tx[TP_SHAPE_TEXT], tb[TP_SHAPE_TEXT];
    const tp_status st = tp__infer_one_real(s);
    if (st != TP_OK) return st;
    if (x->ndim < 2 || b->ndim != 1)
        return tp_infer_fail(s, TP_ERR_SHAPE, "bias_add: input is %s and bias %s: needs (B,..,C) and (C)",
                             tp_shape_text(x, tx), tp_shape_text(b, tb));
    const int64_t C = x->dim[t->data_format == TP_NCHW ? 1 : x->ndim - 1];
    if (C >= 0 && b->dim[0] >= 0 && C != b->dim[0])
        return tp_infer_fail(s, TP_ERR_SHAPE, "bias_add: input is %s, a bias of %s does not fit its channels",
                             tp_shape_text(x, tx), tp_shape_text(b, tb));
    s->out[0] = s->in[0];
    return TP_OK;
}
static void tp__bias_add_gradient(tp_grad *g)
{
    const int nchw = ((const tp__bias_attrs *)g->op->attrs)->data_format == TP_NCHW;
    int axes[TP_MAX_DIMS], n = 0;
    for (int d = 0; d < g->in[0]->shape.ndim; d++)
        if (d != (nchw ? 1 : g->in[0]->shape.ndim - 1)) axes[n++] = d;
    g->din[0] = g->dout[0];
    g->din[1] = tp_reduce_sum(g->dout[0], axes, n, false);
}
static const tp_op tp__op_bias_add =
    TP__ROW("bias_add", "BiasAdd", TP_OP_FOLLOWS, TP__IO(2, 1), TP__ATTRS(bias), tp__bias_add_infer,
            tp__bias_add_gradient, TP__NAIVE_FAST(tp__bias_add), TP__FLOPS(NULL), TP__ONNX("Add"));
TP_DEF tp_node *tp_nn_bias_add(tp_node *x, tp_node *b, int data_format)
{
    tp__bias_attrs t;
    t.data_format = data_format;
    return tp__op2(&tp__op_bias_add, x, b, &t);
}
#endif

/* -- shared by the pools: geometry, attributes, shapes, FLOPs ---------------------------------------------- */
#ifdef TP__REAL_IS_FLOAT
/* Element (b,h,w,c) of x is number b x_stride_b + h x_stride_h + w x_stride_w + c x_stride_c; y is (b,i,j,c). */
typedef struct tp__pool {
    int64_t B, H, W, C, OH, OW, window_h, window_w, stride_h, stride_w, top, left;
    int64_t x_stride_b, x_stride_h, x_stride_w, x_stride_c, y_stride_b, y_stride_h, y_stride_w, y_stride_c;
    bool nchw;
} tp__pool;

static tp__pool tp__pool_geometry(const tp_pool_attrs *a, const tp_shape *x)
{
    const int padding = a->padding == TP_SAME ? TP_SAME : TP_VALID;
    tp__pool g;
    memset(&g, 0, sizeof g);
    g.nchw = a->data_format == TP_NCHW;
    g.window_h = a->size_h;
    g.window_w = a->size_w;
    g.stride_h = a->stride_h ? a->stride_h : g.window_h;
    g.stride_w = a->stride_w ? a->stride_w : g.window_w;
    g.B = x->dim[0];
    g.C = x->dim[g.nchw ? 1 : 3];
    g.H = x->dim[g.nchw ? 2 : 1];
    g.W = x->dim[g.nchw ? 3 : 2];
    tp__same_or_valid(padding, g.H, g.window_h, g.stride_h, 1, &g.OH, &g.top);
    tp__same_or_valid(padding, g.W, g.window_w, g.stride_w, 1, &g.OW, &g.left);
    g.x_stride_w = g.y_stride_w = g.nchw ? 1 : g.C;
    g.x_stride_h = g.W * g.x_stride_w, g.y_stride_h = g.OW * g.y_stride_w;
    g.x_stride_c = g.nchw ? g.H * g.x_stride_h : 1, g.y_stride_c = g.nchw ? g.OH * g.y_stride_h : 1;
    g.x_stride_b = g.C * g.H * g.W, g.y_stride_b = g.C * g.OH * g.OW;
    return g;
}
/* The same for an input that is read with a border (tp_fused.pad), channels last. */
TP__UNUSED static tp__pool tp__pool_geometry_padded(const tp_pool_attrs *a, const uint8_t pad[4], const tp_shape *x)
{
    tp_shape with = *x;
    with.dim[1] += pad[0] + pad[1];
    with.dim[2] += pad[2] + pad[3];
    if (a->data_format == TP_NCHW) return tp__pool_geometry(a, x);
    tp__pool g = tp__pool_geometry(a, &with);
    g.H = x->dim[1], g.W = x->dim[2];
    g.top += pad[0], g.left += pad[2];
    g.x_stride_h = g.W * g.C, g.x_stride_b = g.H * g.W * g.C;
    return g;
}
/* Returns the index in the window of the element that max_pool chose for output i. */
static int64_t tp__chosen(const tp_operand *argmax, int64_t i)
{
    return argmax->dtype == TP_U8 ? (int64_t)((const uint8_t *)argmax->data)[i]
                                  : (int64_t)((const int32_t *)argmax->data)[i];
}
/* Returns the offset in x of element w of the pooling window of output (b,i,j,c). */
static int64_t tp__pool_offset(const tp__pool *g, int64_t b, int64_t i, int64_t j, int64_t c, int64_t w)
{
    return b * g->x_stride_b + (i * g->stride_h + w / g->window_w - g->top) * g->x_stride_h +
           (j * g->stride_w + w % g->window_w - g->left) * g->x_stride_w + c * g->x_stride_c;
}
/* Whether the window of output (i,j) has an element w, and it lies inside of the image. */
static bool tp__pool_inside(const tp__pool *g, int64_t i, int64_t j, int64_t w)
{
    const int64_t h = i * g->stride_h + w / g->window_w - g->top, v = j * g->stride_w + w % g->window_w - g->left;
    return w >= 0 && w < g->window_h * g->window_w && h >= 0 && h < g->H && v >= 0 && v < g->W;
}
/* Loops over all outputs (b,i,j,c); Y is the offset in y. */
#define TP__POOL_LOOP(g)                                                                                 \
    for (int64_t b = 0; b < g.B; b++)                                                                    \
        for (int64_t i = 0; i < g.OH; i++)                                                               \
            for (int64_t j = 0; j < g.OW; j++)                                                           \
                for (int64_t c = 0, Y = b * g.y_stride_b + i * g.y_stride_h + j * g.y_stride_w; c < g.C; \
                     c++, Y += g.y_stride_c)
#endif
#ifdef TP__ROWS
static const tp_attr tp__pool_schema[] = {TP__ATTR(tp_pool_attrs, INT, size_h),
                                          TP__ATTR(tp_pool_attrs, INT, size_w),
                                          TP__ATTR(tp_pool_attrs, INT, stride_h),
                                          TP__ATTR(tp_pool_attrs, INT, stride_w),
                                          TP__ATTR(tp_pool_attrs, INT, padding),
                                          TP__ATTR(tp_pool_attrs, INT, data_format),
                                          TP__ATTRS_END};
static tp_status tp__pool_check(tp_infer *s, const tp_shape *x, tp_shape *y)
{
    const tp_pool_attrs *a = (const tp_pool_attrs *)s->attrs;
    char t[TP_SHAPE_TEXT];
    if (!tp_dtype_is_float(s->in[0].dtype))
        return tp_infer_fail(s, TP_ERR_DTYPE, "%s does not work on %s", s->op->name, tp_dtype_name(s->in[0].dtype));
    const tp_status st = tp__infer_image(s, x, a->data_format, a->padding);
    if (st != TP_OK) return st;
    if (a->size_h < 1 || a->size_w < 1 || a->stride_h < 0 || a->stride_w < 0)
        return tp_infer_fail(s, TP_ERR_ARG, "%s: a window of %d x %d with strides %d, %d makes no sense", s->op->name,
                             a->size_h, a->size_w, a->stride_h, a->stride_w);
    if (a->size_h > INT_MAX / a->size_w)
        return tp_infer_fail(s, TP_ERR_ARG, "%s: a window of %d x %d is too large", s->op->name, a->size_h, a->size_w);
    const tp__pool g = tp__pool_geometry(a, x);
    if ((g.H >= 0 && g.OH < 1) || (g.W >= 0 && g.OW < 1))
        return tp_infer_fail(s, TP_ERR_SHAPE, "%s: the window %d x %d is larger than the input %s", s->op->name,
                             a->size_h, a->size_w, tp_shape_text(x, t));
    y->ndim = 4;
    y->dim[0] = g.B;
    y->dim[g.nchw ? 1 : 3] = g.C;
    y->dim[g.nchw ? 2 : 1] = g.OH;
    y->dim[g.nchw ? 3 : 2] = g.OW;
    return TP_OK;
}
/* The shape rule of ops whose output is x pooled. */
static tp_status tp__pool_infer(tp_infer *s)
{
    s->out[0].dtype = s->in[0].dtype;
    return tp__pool_check(s, &s->in[0].shape, &s->out[0].shape);
}
/* max_pool's second output for an output of this shape: which element of its window each is. */
static tp_type tp__argmax_type(const tp_infer *s, const tp_shape *y)
{
    const tp_pool_attrs *a = (const tp_pool_attrs *)s->attrs;
    tp_type t;
    t.dtype = a->size_h * a->size_w > 256 ? TP_I32 : TP_U8;
    t.shape = *y;
    return t;
}
/* The shape rule of the pooling gradients, whose first input is dy and whose last input is x; max_pool_grad has argmax between. */
static tp_status tp__pool_grad_infer(tp_infer *s)
{
    tp_shape y;
    memset(&y, 0, sizeof y);
    tp_status st = tp__pool_check(s, &s->in[s->n_in - 1].shape, &y);
    if (st == TP_OK) st = tp__infer_same_dtype(s, s->n_in - 1);
    if (st == TP_OK) st = tp__infer_dx(s, 0, &y, "the pooled shape is");
    if (st != TP_OK || s->n_in < 3) return st;
    const tp_type argmax = tp__argmax_type(s, &y);
    return tp__infer_like(s, 1, &argmax);
}
static double tp__pool_flops(const tp_call *k)
{
    const tp_pool_attrs *a = (const tp_pool_attrs *)k->attrs;
    return (double)tp__size(&k->out[0]) * a->size_h * a->size_w;
}
#endif

/* -- max_pool: y = max over a window, argmax = which of the window (row by row) ------------- >>op max_pool
 * Padding is never chosen; of ties the first is; a NaN is chosen. x (B,H,W,C) or NCHW. argmax is uint8, int32 where the window
 * has more than 256 elements. */
static void TP__F(tp__max_pool)(const tp_call *k)
{
    const tp__pool g = tp__pool_geometry((const tp_pool_attrs *)k->attrs, &k->in[0].shape);
    const real *x = TP__IN(0);
    real *y = TP__OUT(0);
    uint8_t *small = k->out[1].dtype == TP_U8 ? (uint8_t *)k->out[1].data : NULL;
    int32_t *large = k->out[1].dtype == TP_I32 ? (int32_t *)k->out[1].data : NULL;
    TP__POOL_LOOP(g)
    {
        int64_t best = -1;
        real most = 0;
        for (int64_t w = 0; w < g.window_h * g.window_w; w++) {
            if (!tp__pool_inside(&g, i, j, w)) continue;
            const real e = x[tp__pool_offset(&g, b, i, j, c, w)];
            if (best < 0 || e > most || (e != e && most == most)) best = w, most = e;
        }
        if (y) y[Y] = most;
        if (small) small[Y] = (uint8_t)best;
        if (large) large[Y] = (int32_t)best;
    }
}
#ifdef TP__ROWS
static tp_status tp__max_pool_infer(tp_infer *s)
{
    const tp_status st = tp__pool_infer(s);
    if (st == TP_OK) s->out[1] = tp__argmax_type(s, &s->out[0].shape);
    return st;
}
static void tp__max_pool_gradient(tp_grad *g); /* the gradient of max_pool is the op max_pool_grad */
static const tp_op tp__op_max_pool =
    TP__FUSING_ROW(TP_FUSES_PAD | TP_FUSES_CHANNELS_LAST, 0, "max_pool", "MaxPool", TP_OP_FOLLOWS | TP__OP_MAX_POOL,
                   TP__IO(1, 2), TP__ATTRS_OF(pool, tp_pool_attrs), tp__max_pool_infer, tp__max_pool_gradient,
                   TP__NAIVE_FAST(tp__max_pool), TP__FLOPS(tp__pool_flops), TP__ONNX("MaxPool"));
TP_DEF tp_node *tp_nn_max_pool(tp_node *x, const tp_pool_attrs *a) { return tp__op1(&tp__op_max_pool, x, a); }
#endif

/* -- max_pool_grad: dx = dy at the elements that max_pool chose, added up, else 0 ----------------- >>op max_pool_grad
 * Inputs dy, argmax, and x for its shape. Where argmax is outside of its window or of the image, dy is not added.
 * Its own gradient by dy is max_pool_take. */
static void TP__F(tp__max_pool_grad)(const tp_call *k)
{
    const tp__pool g = tp__pool_geometry((const tp_pool_attrs *)k->attrs, &k->in[2].shape);
    const real *dy = TP__IN(0);
    real *dx = TP__OUT(0);
    tp__clear(&k->out[0]);
    TP__POOL_LOOP(g)
    {
        const int64_t w = tp__chosen(&k->in[1], Y);
        if (tp__pool_inside(&g, i, j, w)) dx[tp__pool_offset(&g, b, i, j, c, w)] += dy[Y];
    }
}
#ifdef TP__ROWS
static void tp__max_pool_grad_gradient(tp_grad *g); /* the gradient of max_pool_grad is the op max_pool_take */
static const tp_op tp__op_max_pool_grad =
    TP__ROW("max_pool_grad", "MaxPoolGrad", TP_OP_FOLLOWS | TP__OP_MAX_POOL_GRAD, TP__IO(3, 1),
            TP__ATTRS_OF(pool, tp_pool_attrs), tp__pool_grad_infer, tp__max_pool_grad_gradient,
            TP__NAIVE_FAST(tp__max_pool_grad), TP__FLOPS(NULL), TP__SHAPE_ONLY(1u << 2));
static void tp__max_pool_gradient(tp_grad *g)
{
    if (g->dout[0]) g->din[0] = tp__op3(&tp__op_max_pool_grad, g->dout[0], &g->out[1], g->in[0], g->op->attrs);
}
#endif

/* -- max_pool_take: y = the elements of x that argmax names ---------------------------------------- >>op max_pool_take
 * Inputs x and the argmax of a max_pool; y is 0 where argmax is outside of its window or of the image. It is the transpose of
 * max_pool_grad, and so its gradient. */
static void TP__F(tp__max_pool_take)(const tp_call *k)
{
    const tp__pool g = tp__pool_geometry((const tp_pool_attrs *)k->attrs, &k->in[0].shape);
    const real *x = TP__IN(0);
    real *y = TP__OUT(0);
    TP__POOL_LOOP(g)
    {
        const int64_t w = tp__chosen(&k->in[1], Y);
        y[Y] = tp__pool_inside(&g, i, j, w) ? x[tp__pool_offset(&g, b, i, j, c, w)] : 0;
    }
}
#ifdef TP__ROWS
static tp_status tp__max_pool_take_infer(tp_infer *s)
{
    const tp_status st = tp__pool_infer(s);
    if (st != TP_OK) return st;
    const tp_type argmax = tp__argmax_type(s, &s->out[0].shape);
    return tp__infer_like(s, 1, &argmax);
}
static void tp__max_pool_take_gradient(tp_grad *g)
{
    g->din[0] = tp__op3(&tp__op_max_pool_grad, g->dout[0], g->in[1], g->in[0], g->op->attrs);
}
static const tp_op tp__op_max_pool_take = TP__ROW(
    "max_pool_take", "MaxPoolTake", TP_OP_FOLLOWS, TP__IO(2, 1), TP__ATTRS_OF(pool, tp_pool_attrs),
    tp__max_pool_take_infer, tp__max_pool_take_gradient, TP__NAIVE(tp__max_pool_take), TP__FLOPS(NULL), TP__NO_ONNX);
static void tp__max_pool_grad_gradient(tp_grad *g)
{
    g->din[0] = tp__op2(&tp__op_max_pool_take, g->dout[0], g->in[1], g->op->attrs);
}
#endif

/* -- avg_pool: y = mean over the part of the window that is inside of x --------------------- >>op avg_pool */
static void TP__F(tp__avg_pool)(const tp_call *k)
{
    const tp__pool g = tp__pool_geometry((const tp_pool_attrs *)k->attrs, &k->in[0].shape);
    const real *x = TP__IN(0);
    real *y = TP__OUT(0);
    TP__POOL_LOOP(g)
    {
        real s = 0, n = 0;
        for (int64_t w = 0; w < g.window_h * g.window_w; w++)
            if (tp__pool_inside(&g, i, j, w)) s += x[tp__pool_offset(&g, b, i, j, c, w)], n += 1;
        y[Y] = s / n;
    }
}
#ifdef TP__ROWS
static void tp__avg_pool_gradient(tp_grad *g); /* the gradient of avg_pool is the op avg_pool_grad */
static const tp_op tp__op_avg_pool =
    TP__ROW("avg_pool", "AvgPool", TP_OP_FOLLOWS, TP__IO(1, 1), TP__ATTRS_OF(pool, tp_pool_attrs), tp__pool_infer,
            tp__avg_pool_gradient, TP__NAIVE_FAST(tp__avg_pool), TP__FLOPS(tp__pool_flops), TP__ONNX("AveragePool"));
TP_DEF tp_node *tp_nn_avg_pool(tp_node *x, const tp_pool_attrs *a) { return tp__op1(&tp__op_avg_pool, x, a); }
#endif

/* -- avg_pool_grad: dx = sum of dy / n over the windows that contain it; n: elements of a window inside of x -- >>op avg_pool_grad
 * Inputs dy, and x for its shape. It is the transpose of avg_pool, and so each is the other's gradient. */
static void TP__F(tp__avg_pool_grad)(const tp_call *k)
{
    const tp__pool g = tp__pool_geometry((const tp_pool_attrs *)k->attrs, &k->in[1].shape);
    const real *dy = TP__IN(0);
    real *dx = TP__OUT(0);
    tp__clear(&k->out[0]);
    TP__POOL_LOOP(g)
    {
        int64_t h0 = i * g.stride_h - g.top, v0 = j * g.stride_w - g.left, h1 = h0 + g.window_h, v1 = v0 + g.window_w;
        if (h0 < 0) h0 = 0;
        if (v0 < 0) v0 = 0;
        if (h1 > g.H) h1 = g.H;
        if (v1 > g.W) v1 = g.W;
        const real d = dy[Y] / (real)((h1 - h0) * (v1 - v0));
        for (int64_t h = h0; h < h1; h++)
            for (int64_t v = v0; v < v1; v++)
                dx[b * g.x_stride_b + h * g.x_stride_h + v * g.x_stride_w + c * g.x_stride_c] += d;
    }
}
#ifdef TP__ROWS
static void tp__avg_pool_grad_gradient(tp_grad *g)
{
    g->din[0] = tp_nn_avg_pool(g->dout[0], (const tp_pool_attrs *)g->op->attrs);
}
static const tp_op tp__op_avg_pool_grad = TP__ROW(
    "avg_pool_grad", "AvgPoolGrad", TP_OP_FOLLOWS, TP__IO(2, 1), TP__ATTRS_OF(pool, tp_pool_attrs), tp__pool_grad_infer,
    tp__avg_pool_grad_gradient, TP__NAIVE_FAST(tp__avg_pool_grad), TP__FLOPS(NULL), TP__SHAPE_ONLY(1u << 1));
static void tp__avg_pool_gradient(tp_grad *g)
{
    g->din[0] = tp__op2(&tp__op_avg_pool_grad, g->dout[0], g->in[0], g->op->attrs);
}
#undef TP__POOL_LOOP
#endif

/* -- shared by resize and resize_grad: places, attributes, shapes ------------------------------------------ */
#ifdef TP__REAL_IS_FLOAT
typedef struct tp__blend { /* how a result is interpolated: y = (1 - part) x[low] + part x[high] */
    int64_t low, high;
    double part;
} tp__blend;
/* Returns which of n_in source pixels are blended for result i of n_out, along one dimension. */
static tp__blend tp__resize_blend(const tp_resize_attrs *a, int64_t i, int64_t n_in, int64_t n_out)
{
    tp__blend t;
    int64_t num = i * n_in, den = n_out; /* the position in the source is the fraction num / den */
    if (a->align_corners && n_out > 1) num = i * (n_in - 1), den = n_out - 1;
    if (a->half_pixel_centers) num = (2 * i + 1) * n_in - (a->nearest ? 0 : n_out), den = 2 * n_out;
    if (a->nearest && a->align_corners) num = 2 * num + den, den *= 2;
    if (num < 0) num = 0;
    t.low = num / den;
    t.part = a->nearest ? 0 : (double)(num % den) / (double)den;
    if (t.low >= n_in - 1) t.low = n_in - 1, t.part = 0;
    t.high = t.part > 0 ? t.low + 1 : t.low;
    return t;
}
typedef struct tp__resized {
    int64_t B, H, W, C, OH, OW;
    const tp__blend *column; /* source positions of the output columns, in the scratch memory */
} tp__resized;
/* Images in NCHW are treated as B C images of one channel. */
static tp__resized tp__resize_geometry(const tp_call *k, const tp_shape *x)
{
    const tp_resize_attrs *a = (const tp_resize_attrs *)k->attrs;
    const bool nchw = a->data_format == TP_NCHW;
    tp__resized g;
    g.B = nchw ? x->dim[0] * x->dim[1] : x->dim[0];
    g.H = x->dim[nchw ? 2 : 1];
    g.W = x->dim[nchw ? 3 : 2];
    g.C = nchw ? 1 : x->dim[3];
    g.OH = a->out_h;
    g.OW = a->out_w;
    g.column = (const tp__blend *)k->scratch;
    return g;
}
static void tp__resize_columns(const tp_call *k, int64_t W)
{
    const tp_resize_attrs *a = (const tp_resize_attrs *)k->attrs;
    for (int64_t j = 0; j < a->out_w; j++) ((tp__blend *)k->scratch)[j] = tp__resize_blend(a, j, W, a->out_w);
}
#endif
#ifdef TP__ROWS
static size_t tp__resize_scratch(const tp_call *k)
{
    return (size_t)((const tp_resize_attrs *)k->attrs)->out_w * sizeof(tp__blend);
}
static const tp_attr tp__resize_schema[] = {TP__ATTR(tp_resize_attrs, INT, out_h),
                                            TP__ATTR(tp_resize_attrs, INT, out_w),
                                            TP__ATTR(tp_resize_attrs, BOOL, align_corners),
                                            TP__ATTR(tp_resize_attrs, BOOL, half_pixel_centers),
                                            TP__ATTR(tp_resize_attrs, BOOL, nearest),
                                            TP__ATTR(tp_resize_attrs, INT, data_format),
                                            TP__ATTRS_END};
/* Computes y, the shape of x after resizing. */
static tp_status tp__resize_check(tp_infer *s, const tp_shape *x, tp_shape *y)
{
    const tp_resize_attrs *a = (const tp_resize_attrs *)s->attrs;
    const int h = a->data_format == TP_NCHW ? 2 : 1;
    char text[TP_SHAPE_TEXT];
    tp_status st = tp__infer_one_real(s);
    if (st == TP_OK) st = tp__infer_image(s, x, a->data_format, TP_VALID);
    if (st != TP_OK) return st;
    if (x->dim[h] == 0 || x->dim[h + 1] == 0)
        return tp_infer_fail(s, TP_ERR_SHAPE, "%s: input is %s, its images are empty", s->op->name,
                             tp_shape_text(x, text));
    if (a->out_h < 1 || a->out_w < 1)
        return tp_infer_fail(s, TP_ERR_ARG, "%s: there are no images of %d x %d", s->op->name, a->out_h, a->out_w);
    if (a->align_corners && a->half_pixel_centers)
        return tp_infer_fail(s, TP_ERR_ARG, "%s: align_corners and half_pixel_centers exclude each other", s->op->name);
    *y = *x;
    y->dim[h] = a->out_h;
    y->dim[h + 1] = a->out_w;
    return TP_OK;
}
#endif

/* -- resize: y = weighted mean of up to four pixels of x around a place ---------------------------- >>op resize
 * Places are fractions of integers, so that the result does not depend on how a scale is rounded. x (B,H,W,C) or NCHW. */
static void TP__F(tp__resize_rows)(const tp_call *k, int64_t from, int64_t to)
{
    const tp__resized g = tp__resize_geometry(k, &k->in[0].shape);
    for (int64_t r = from; r < to; r++) {
        const tp__blend v = tp__resize_blend((const tp_resize_attrs *)k->attrs, r % g.OH, g.H, g.OH);
        const real *image = TP__IN(0) + r / g.OH * g.H * g.W * g.C, p = (real)v.part;
        const real *above = image + v.low * g.W * g.C, *below = image + v.high * g.W * g.C;
        real *y = TP__OUT(0) + r * g.OW * g.C;
        for (int64_t j = 0; j < g.OW; j++, y += g.C) {
            const int64_t a = g.column[j].low * g.C, b = g.column[j].high * g.C;
            const real q = (real)g.column[j].part;
            if (!(q > 0) && !(p > 0)) { /* skip weights of 0, so that an infinite neighbour does not make y NaN */
                for (int64_t c = 0; c < g.C; c++) y[c] = above[a + c];
                continue;
            }
            for (int64_t c = 0; c < g.C; c++) {
                const real top = above[a + c] + (above[b + c] - above[a + c]) * q;
                y[c] = p > 0 ? top + (below[a + c] + (below[b + c] - below[a + c]) * q - top) * p : top;
            }
        }
    }
}
static void TP__F(tp__resize)(const tp_call *k)
{
    const tp__resized g = tp__resize_geometry(k, &k->in[0].shape);
    tp__resize_columns(k, g.W);
    tp__each_range(k, g.B * g.OH, tp__grain(g.OW * g.C * 4), TP__F(tp__resize_rows));
}
#ifdef TP__ROWS
static tp_status tp__resize_infer(tp_infer *s)
{
    s->out[0].dtype = s->in[0].dtype;
    return tp__resize_check(s, &s->in[0].shape, &s->out[0].shape);
}
static void tp__resize_gradient(tp_grad *g); /* the gradient of resize is the op resize_grad */
static const tp_op tp__op_resize =
    TP__ROW("resize", "Resize", TP_OP_PURE, TP__IO(1, 1), TP__ATTRS_OF(resize, tp_resize_attrs), tp__resize_infer,
            tp__resize_gradient, TP__NAIVE_FAST(tp__resize), TP__FLOPS_SCRATCH(NULL, tp__resize_scratch), TP__NO_ONNX);
static tp_node *tp__resize_node(tp_node *x, const tp_resize_attrs *a, bool nearest)
{
    tp_resize_attrs t = *a;
    t.nearest = nearest;
    return tp__op1(&tp__op_resize, x, &t);
}
TP_DEF tp_node *tp_resize_bilinear(tp_node *x, const tp_resize_attrs *a)
{
    TP__GRAPH_REQUIRE(tp_node_graph(x), a, tp_poison(tp_node_graph(x)))
    return tp__resize_node(x, a, false);
}
TP_DEF tp_node *tp_resize_nearest(tp_node *x, const tp_resize_attrs *a)
{
    TP__GRAPH_REQUIRE(tp_node_graph(x), a, tp_poison(tp_node_graph(x)))
    return tp__resize_node(x, a, true);
}
#endif

/* -- resize_grad: dx = sum of dy over the places that read a pixel, with the weights of resize --------- >>op resize_grad
 * Inputs dy, and x for its shape. It is the transpose of resize, and so each is the other's gradient. */
static void TP__F(tp__resize_grad_images)(const tp_call *k, int64_t from, int64_t to)
{
    const tp__resized g = tp__resize_geometry(k, &k->in[1].shape);
    for (int64_t b = from; b < to; b++) {
        real *image = TP__OUT(0) + b * g.H * g.W * g.C;
        const real *dy = TP__IN(0) + b * g.OH * g.OW * g.C;
        for (int64_t i = 0; i < g.H * g.W * g.C; i++) image[i] = 0;
        for (int64_t i = 0; i < g.OH; i++) {
            const tp__blend v = tp__resize_blend((const tp_resize_attrs *)k->attrs, i, g.H, g.OH);
            real *row[2];
            row[0] = image + v.low * g.W * g.C, row[1] = image + v.high * g.W * g.C;
            for (int64_t j = 0; j < g.OW; j++, dy += g.C)
                for (int s = 0; s < (v.part > 0 ? 4 : 2); s++) {
                    const tp__blend h = g.column[j];
                    const real w = (real)((s & 2 ? v.part : 1 - v.part) * (s & 1 ? h.part : 1 - h.part));
                    real *dx = row[s >> 1] + (s & 1 ? h.high : h.low) * g.C;
                    for (int64_t c = 0; c < g.C && w > 0; c++) dx[c] += w * dy[c];
                }
        }
    }
}
static void TP__F(tp__resize_grad)(const tp_call *k)
{
    const tp__resized g = tp__resize_geometry(k, &k->in[1].shape);
    tp__resize_columns(k, g.W);
    tp__each_range(k, g.B, tp__grain(g.OH * g.OW * g.C * 4), TP__F(tp__resize_grad_images));
}
#ifdef TP__ROWS
static tp_status tp__resize_grad_infer(tp_infer *s)
{
    tp_shape y;
    const tp_status st = tp__resize_check(s, &s->in[1].shape, &y);
    return st == TP_OK ? tp__infer_dx(s, 0, &y, "the resized shape is") : st;
}
static void tp__resize_grad_gradient(tp_grad *g) { g->din[0] = tp__op1(&tp__op_resize, g->dout[0], g->op->attrs); }
static const tp_op tp__op_resize_grad =
    TP__ROW("resize_grad", "ResizeGrad", TP_OP_PURE, TP__IO(2, 1), TP__ATTRS_OF(resize, tp_resize_attrs),
            tp__resize_grad_infer, tp__resize_grad_gradient, TP__NAIVE(tp__resize_grad),
            TP__FLOPS_SCRATCH(tp__flops_of_input, tp__resize_scratch), TP__SHAPE_ONLY(1u << 1));
static void tp__resize_gradient(tp_grad *g)
{
    g->din[0] = tp__op2(&tp__op_resize_grad, g->dout[0], g->in[0], g->op->attrs);
}
#endif

/* -- shared by bilinear_sampler and bilinear_sampler_grad -------------------------------------------------- */
/* Finds the two pixels for one coordinate v, and the weight f of the second: c = max(v, 0), l = floor(c), f = c - l; pixels l and
 * l + 1, each clamped to the image. Returns false in a constant border: v < 0 or v > size - 1. */
static bool TP__F(tp__sampler_pixels)(real v, int64_t size, int border, int64_t *at, real *f)
{
    const real c = v > 0 ? v : 0, l = v == v ? TP__FLOOR(c) : 0, last = (real)(size - 1);
    *f = v == v ? c - l : v;
    at[0] = l < last ? (int64_t)l : size - 1;
    at[1] = at[0] + 1 < size ? at[0] + 1 : size - 1;
    return border == TP_BORDER_REPEAT || !(v < 0 || v > last);
}
/* tp__sampler_pixels for both coordinates of an output: two rows h, two columns w, the weights f of the second ones. */
static bool TP__F(tp__sampler_place)(const tp_call *k, const real *coords, const tp_shape *image, int64_t *h,
                                     int64_t *w, real *f)
{
    const int border = ((const tp__sampler_attrs *)k->attrs)->border;
    const bool inside = TP__F(tp__sampler_pixels)(coords[0], image->dim[1], border, h, &f[0]);
    return TP__F(tp__sampler_pixels)(coords[1], image->dim[2], border, w, &f[1]) && inside;
}
#ifdef TP__ROWS
static const tp_attr tp__sampler_schema[] = {TP__ATTR(tp__sampler_attrs, INT, border), TP__ATTRS_END};
static double tp__sampler_flops(const tp_call *k) { return 8.0 * (double)tp__size(&k->out[0]); }
#endif

/* -- bilinear_sampler: y = sum of four pixels, weights (1-f) and f a coordinate ----------- >>op bilinear_sampler
 * image (B,H,W,C), coords (B,H2,W2,2): a row and a column of the image for each pixel of y (B,H2,W2,C). */
static void TP__F(tp__sampler_rows)(const tp_call *k, int64_t from, int64_t to)
{
    const int64_t *x = k->in[0].shape.dim, *y = k->out[0].shape.dim, W = x[2], C = x[3];
    for (int64_t i = from * y[2]; i < to * y[2]; i++) {
        const real *image = TP__IN(0) + i / (y[1] * y[2]) * x[1] * W * C;
        real *out = TP__OUT(0) + i * C, f[2];
        int64_t h[2], w[2];
        const bool inside = TP__F(tp__sampler_place)(k, TP__IN(1) + i * 2, &k->in[0].shape, h, w, f);
        for (int64_t c = 0; c < C; c++) {
            const real a = image[(h[0] * W + w[0]) * C + c] * (1 - f[1]) + image[(h[0] * W + w[1]) * C + c] * f[1];
            const real b = image[(h[1] * W + w[0]) * C + c] * (1 - f[1]) + image[(h[1] * W + w[1]) * C + c] * f[1];
            out[c] = inside ? a * (1 - f[0]) + b * f[0] : 0;
        }
    }
}
static void TP__F(tp__sampler)(const tp_call *k)
{
    const int64_t *y = k->out[0].shape.dim;
    tp__each_range(k, y[0] * y[1], tp__grain(y[2] * y[3] * 8), TP__F(tp__sampler_rows));
}
#ifdef TP__ROWS
static tp_status tp__sampler_infer(tp_infer *s)
{
    const tp_shape *x = &s->in[0].shape, *c = &s->in[1].shape;
    const int border = ((const tp__sampler_attrs *)s->attrs)->border;
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    const tp_status st = tp__infer_real(s);
    if (st != TP_OK) return st;
    if (x->ndim != 4 || c->ndim != 4 || (c->dim[3] >= 0 && c->dim[3] != 2) || x->dim[1] == 0 || x->dim[2] == 0 ||
        (x->dim[0] >= 0 && c->dim[0] >= 0 && x->dim[0] != c->dim[0]) || s->in[0].dtype != s->in[1].dtype)
        return tp_infer_fail(s, TP_ERR_SHAPE,
                             "the image is %s and coords %s: needs (B,H,W,C), with pixels, and (B,H2,W2,2) of one "
                             "element type",
                             tp_shape_text(x, a), tp_shape_text(c, b));
    if (border < TP_BORDER_REPEAT || border > TP_BORDER_CONSTANT)
        return tp_infer_fail(s, TP_ERR_ARG, "border %d is no tp_border", border);
    s->out[0].dtype = s->in[0].dtype;
    s->out[0].shape = *c;
    if (c->dim[0] < 0) s->out[0].shape.dim[0] = x->dim[0];
    s->out[0].shape.dim[3] = x->dim[3];
    return TP_OK;
}
static void tp__sampler_gradient(tp_grad *g); /* the gradient of bilinear_sampler is the op bilinear_sampler_grad */
static const tp_op tp__op_bilinear_sampler =
    TP__ROW("bilinear_sampler", "BilinearSampler", TP_OP_PURE, TP__IO(2, 1), TP__ATTRS(sampler), tp__sampler_infer,
            tp__sampler_gradient, TP__NAIVE(tp__sampler), TP__FLOPS(tp__sampler_flops), TP__NO_ONNX);
TP_DEF tp_node *tp_bilinear_sampler(tp_node *image, tp_node *coords, int border)
{
    tp__sampler_attrs t;
    t.border = border;
    return tp__op2(&tp__op_bilinear_sampler, image, coords, &t);
}
#endif

/* -- bilinear_sampler_grad: derivatives by the image and by the coordinates ------------------ >>op bilinear_sampler_grad
 * Inputs dy, image, coords. The gradient of a pixel of the image is dy times its weight; that of a
 * coordinate is dy times the difference of the neighbours, and 0 where the coordinate is negative. */
static void TP__F(tp__sampler_grad_images)(const tp_call *k, int64_t from, int64_t to)
{
    const int64_t *x = k->in[1].shape.dim, W = x[2], C = x[3], size = x[1] * W * C;
    const int64_t n = k->in[2].shape.dim[1] * k->in[2].shape.dim[2];
    for (int64_t b = from; b < to; b++) {
        const real *image = TP__IN(1) + b * size;
        real *dx = TP__OUT(0) ? TP__OUT(0) + b * size : NULL, *dcoords = TP__OUT(1);
        for (int64_t i = 0; dx && i < size; i++) dx[i] = 0;
        for (int64_t i = b * n; i < (b + 1) * n; i++) {
            const real *at = TP__IN(2) + i * 2, *dy = TP__IN(0) + i * C;
            real f[2], d[2] = {0, 0};
            int64_t h[2], w[2];
            const bool inside = TP__F(tp__sampler_place)(k, at, &k->in[1].shape, h, w, f);
            for (int p = 0; p < 4 && inside; p++) {
                const int64_t pixel = (h[p >> 1] * W + w[p & 1]) * C;
                const real wh = p >> 1 ? f[0] : 1 - f[0], ww = p & 1 ? f[1] : 1 - f[1];
                real sum = 0;
                for (int64_t c = 0; c < C; c++) sum += dy[c] * image[pixel + c];
                for (int64_t c = 0; dx && c < C; c++) dx[pixel + c] += dy[c] * wh * ww;
                d[0] += p >> 1 ? sum * ww : -sum * ww;
                d[1] += p & 1 ? sum * wh : -sum * wh;
            }
            for (int q = 0; q < 2 && dcoords; q++) dcoords[i * 2 + q] = at[q] >= 0 ? d[q] : 0;
        }
    }
}
static void TP__F(tp__sampler_grad)(const tp_call *k)
{
    const int64_t *y = k->in[0].shape.dim;
    tp__each_range(k, y[0], tp__grain(y[1] * y[2] * y[3] * 16), TP__F(tp__sampler_grad_images));
}
#ifdef TP__ROWS
static tp_status tp__sampler_grad_infer(tp_infer *s)
{
    tp_type y;
    const tp_status st = tp__infer_outputs(s, tp__sampler_infer, &s->in[1], 2, &y, 1);
    s->out[0] = s->in[1];
    s->out[1] = s->in[2];
    return st == TP_OK ? tp__infer_like(s, 0, &y) : st;
}
static void tp__sampler_grad_gradient(tp_grad *g);
static const tp_op tp__op_bilinear_sampler_grad =
    TP__ROW("bilinear_sampler_grad", "BilinearSamplerGrad", TP_OP_PURE, TP__IO(3, 2), TP__ATTRS(sampler),
            tp__sampler_grad_infer, tp__sampler_grad_gradient, TP__NAIVE(tp__sampler_grad),
            TP__FLOPS(tp__sampler_flops), TP__NO_ONNX);
static void tp__sampler_gradient(tp_grad *g)
{
    tp__give_outputs(g, tp__op3(&tp__op_bilinear_sampler_grad, g->dout[0], g->in[0], g->in[1], g->op->attrs), 2);
}
/* Returns element q of the last axis of v, (B,H2,W2,2). */
static tp_node *tp__sampler_part(tp_node *v, int q)
{
    const int64_t begin[4] = {0, 0, 0, q}, size[4] = {-1, -1, -1, 1};
    return tp_slice(v, begin, size);
}
/* The gradient of the second output, dcoords, is v. Coordinate q of dcoords is the sum over the channels of dy (S1 - S0). S0 and S1
 * are samples of the image, whose coordinate q is moved to the pixels before (S0) and after it (S1), and is not differentiated by;
 * the other coordinate remains. So the derivatives are those of bilinear_sampler. */
static void tp__sampler_coords_gradient(tp_grad *g, tp_node *v)
{
    tp_node *dy = g->in[0], *image = g->in[1], *coords = g->in[2], *inside = NULL, *dx[3] = {NULL, NULL, NULL}, *dc[2];
    const tp__sampler_attrs *t = (const tp__sampler_attrs *)g->op->attrs, repeat = {TP_BORDER_REPEAT};
    if (t->border == TP_BORDER_CONSTANT) /* 1 where the weights count, and 0 outside of the image */
        inside = tp_stop_gradient(tp__op2(&tp__op_bilinear_sampler, tp_ones_like(image), coords, t));
    tp_node *zeros = tp_zeros_like(v);
    v = tp_select(tp_greater_equal(coords, tp_zeros_like(coords)), v, zeros);
    for (int q = 0; q < 2; q++) {
        tp_node *part[2], *y[2], *d[2];
        tp_node *vq = inside ? tp_mul(inside, tp__sampler_part(v, q)) : tp__sampler_part(v, q), *dyv = tp_mul(dy, vq);
        for (int side = 0; side < 2; side++) {
            part[q] = tp_affine(tp_floor(tp_relu(tp__sampler_part(coords, q))), 1, (float)side);
            part[1 - q] = tp__sampler_part(coords, 1 - q);
            tp_node *moved = tp_concat(part, 2, 3);
            y[side] = tp__op2(&tp__op_bilinear_sampler, image, moved, &repeat);
            d[side] = tp__op3(&tp__op_bilinear_sampler_grad, dyv, image, moved, &repeat);
        }
        if (tp_is_poison(d[0]) || tp_is_poison(d[1])) return;
        tp_node *ddy = tp_mul(vq, tp_sub(y[1], y[0])), *dimage = tp_sub(d[1], d[0]);
        dx[0] = q ? tp_add(dx[0], ddy) : ddy;
        dx[1] = q ? tp_add(dx[1], dimage) : dimage;
        dc[1 - q] = tp__sampler_part(tp_sub(&d[1]->op->out[1], &d[0]->op->out[1]), 1 - q);
    }
    dx[2] = tp_concat(dc, 2, 3);
    for (int i = 0; i < 3; i++) g->din[i] = g->din[i] ? tp_add(g->din[i], dx[i]) : dx[i];
}
static void tp__sampler_grad_gradient(tp_grad *g)
{
    tp_node *u = g->dout[0];
    if (u) { /* the first output is linear in dy, and the transpose of that is bilinear_sampler */
        tp_node *d = tp__op3(&tp__op_bilinear_sampler_grad, g->in[0], u, g->in[2], g->op->attrs);
        g->din[0] = tp__op2(&tp__op_bilinear_sampler, u, g->in[2], g->op->attrs);
        if (!tp_is_poison(d)) g->din[2] = &d->op->out[1];
    }
    if (g->dout[1]) tp__sampler_coords_gradient(g, g->dout[1]);
}
#endif

/* -- shared by batch_norm, layer_norm and group_norm: gradients of their gradients ------------------------- */
#ifdef TP__ROWS
/* Which elements of x are normalised together. */
typedef enum { TP__NORM_CHANNEL, TP__NORM_ROW, TP__NORM_GROUP } tp__norm_kind;
typedef struct tp__norm_set {
    tp__norm_kind kind;
    int axis, groups;                            /* the axis of the channels; the number of groups of a sample */
    int64_t C;                                   /* the number of channels; of group_norm only */
    int other[TP_MAX_DIMS], within[TP_MAX_DIMS]; /* all axes but `axis`; of these, all but the first */
    int n_other, n_within;
} tp__norm_set;
static tp__norm_set tp__norm_set_of(tp__norm_kind kind, const tp_node *x, int axis, int groups)
{
    tp__norm_set s;
    memset(&s, 0, sizeof s);
    s.kind = kind;
    s.axis = axis;
    s.groups = groups;
    for (int d = 0; d < x->shape.ndim; d++) {
        if (d != axis) s.other[s.n_other++] = d;
        if (d != axis && d > 0) s.within[s.n_within++] = d;
    }
    return s;
}
/* Reshapes a vector of C channels to (1,..,C,..,1), so that it broadcasts over x. */
static tp_node *tp__norm_channels(tp_node *v, const tp_node *x, int axis)
{
    tp_shape s;
    memset(&s, 0, sizeof s);
    s.ndim = x->shape.ndim;
    for (int d = 0; d < s.ndim; d++) s.dim[d] = d == axis ? v->shape.dim[0] : 1;
    return tp_reshape_to(v, s);
}
/* The shape rule of the gradients of batch_norm, layer_norm and group_norm: of dy, x, gamma, mean, inv. rule: that of the op itself;
 * mean, inv: which outputs of the op are the mean and the inverse standard deviation. */
static tp_status tp__norm_grad_infer(tp_infer *s, tp_status (*rule)(tp_infer *s), int mean, int inv)
{
    tp_type in[3], out[4];
    in[0] = s->in[1], in[1] = in[2] = s->in[2]; /* beta is like gamma */
    tp_status st = tp__infer_outputs(s, rule, in, 3, out, 4);
    if (st == TP_OK) st = tp__infer_like(s, 0, &out[0]);
    if (st == TP_OK) st = tp__infer_like(s, 3, &out[mean]);
    if (st == TP_OK) st = tp__infer_like(s, 4, &out[inv]);
    s->out[0] = s->in[1];
    s->out[1] = s->out[2] = s->in[2];
    return st;
}
/* Reshapes statistics, one for each set: (C), one per row, or (B,groups), so that they broadcast over x. */
static tp_node *tp__norm_spread(tp_node *v, const tp_node *x, const tp__norm_set *s)
{
    if (s->kind == TP__NORM_ROW) return tp_expand_dims(v, -1);
    if (s->kind == TP__NORM_CHANNEL) return tp__norm_channels(v, x, s->axis);
    const int64_t per_group = s->C / s->groups, times[3] = {1, 1, per_group};
    tp_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.ndim = x->shape.ndim;
    for (int d = 0; d < shape.ndim; d++) shape.dim[d] = 1;
    shape.dim[0] = TP_ANY;
    shape.dim[s->axis] = s->C;
    v = tp_expand_dims(v, -1);
    return tp_reshape_to(per_group > 1 ? tp_tile(v, times) : v, shape);
}
/* The sum of v over each set, in the shape of the statistics. */
static tp_node *tp__norm_sum(tp_node *v, const tp__norm_set *s)
{
    if (s->kind == TP__NORM_ROW) return tp_reduce_sum(v, &s->axis, 1, false);
    if (s->kind == TP__NORM_CHANNEL) return tp_reduce_sum(v, s->other, s->n_other, false);
    const int64_t group_shape[3] = {TP_ANY, s->groups, s->C / s->groups};
    const int last = 2;
    v = tp_reduce_sum(v, s->within, s->n_within, false);
    return tp_reduce_sum(tp_reshape_to(v, tp_make_shape_n(3, group_shape)), &last, 1, false);
}
/* The mean of v over each set, in a shape that broadcasts over v. */
static tp_node *tp__norm_mean(tp_node *v, const tp__norm_set *s)
{
    if (s->kind == TP__NORM_ROW) return tp_reduce_mean(v, &s->axis, 1, true);
    if (s->kind == TP__NORM_CHANNEL) return tp_reduce_mean(v, s->other, s->n_other, true);
    tp_node *sum = tp__norm_sum(v, s);
    return tp__norm_spread(tp_div(sum, tp__size_ratio(v, sum)), v, s);
}
static tp_node *tp__add_or_null(tp_node *a, tp_node *b) { return a && b ? tp_add(a, b) : a ? a : b; }

/* The gradient of batch_norm_grad, layer_norm_grad or group_norm_grad with respect to dy, x, gamma, mean, inv. h = xhat, g = dy gamma;
 * u, p, q are the gradients of the outputs dx, dgamma, dbeta; m() and S() are the mean and the sum over the elements that are
 * normalised together, s() is the sum over the elements that share a gamma:
 *   r = inv (u - m(u) - h m(u h)),       t = p dy - inv (u m(g h) + g m(u h))
 *   to dy: gamma r + p h + q,            to x: inv t,       to gamma: s(dy r),
 *   to mean: -S(inv t),                  to inv: S(t (x - mean)) + S(u (g - m(g) - h m(g h))) */
static void tp__norm_grad_gradient(tp_grad *g, const tp__norm_set *s)
{
    tp_node *dy = g->in[0], *x = g->in[1], *u = g->dout[0], *t = NULL, *grad_dy = NULL, *grad_inv = NULL;
    tp_node *gamma = tp__norm_channels(g->in[2], x, s->axis), *inv = tp__norm_spread(g->in[4], x, s);
    tp_node *centred = tp_sub(x, tp__norm_spread(g->in[3], x, s)), *h = tp_mul(centred, inv);
    if (u) {
        tp_node *scaled = tp_mul(dy, gamma), *mean_uh = tp__norm_mean(tp_mul(u, h), s);
        tp_node *mean_gh = tp__norm_mean(tp_mul(scaled, h), s);
        tp_node *along_h = tp_mul(h, mean_uh), *r = tp_sub(tp_sub(u, tp__norm_mean(u, s)), along_h);
        along_h = tp_mul(h, mean_gh);
        tp_node *e = tp_sub(tp_sub(scaled, tp__norm_mean(scaled, s)), along_h);
        r = tp_mul(r, inv);
        t = tp_mul(scaled, mean_uh);
        t = tp_neg(tp_mul(inv, tp_add(tp_mul(u, mean_gh), t)));
        grad_dy = tp_mul(gamma, r);
        grad_inv = tp__norm_sum(tp_mul(u, e), s);
        g->din[2] = tp_mul(dy, r);
        if (s->n_other > 0) g->din[2] = tp_reduce_sum(g->din[2], s->other, s->n_other, false);
    }
    if (g->dout[1]) {
        tp_node *p = tp__norm_channels(g->dout[1], x, s->axis);
        t = tp__add_or_null(t, tp_mul(p, dy));
        grad_dy = tp__add_or_null(grad_dy, tp_mul(p, h));
    }
    if (g->dout[2])
        grad_dy = tp__add_or_null(grad_dy, tp_broadcast_like(tp__norm_channels(g->dout[2], x, s->axis), dy));
    g->din[0] = grad_dy;
    if (!t) return;
    g->din[1] = tp_mul(inv, t);
    g->din[3] = tp_neg(tp__norm_sum(g->din[1], s));
    g->din[4] = tp__add_or_null(tp__norm_sum(tp_mul(t, centred), s), grad_inv);
}

/* The gradient of x through its mean, variance and inv = 1/sqrt(var + epsilon), each computed from N elements;
 * NULL if dmean, dvar and dinv are all NULL:
 *   (dmean + (x - mean) (2 dvar - dinv inv^3)) / N */
static tp_node *tp__norm_stats_gradient(tp_node *x, tp_node *mean, tp_node *inv, tp_node *dmean, tp_node *dvar,
                                        tp_node *dinv, const tp__norm_set *s)
{
    tp_node *dx_scale = dvar ? tp_affine(dvar, 2, 0) : NULL, *dx = NULL;
    if (dinv) dx_scale = tp__add_or_null(dx_scale, tp_neg(tp_mul(dinv, tp_mul(inv, tp_square(inv)))));
    if (dx_scale) dx_scale = tp__norm_spread(dx_scale, x, s);
    if (dx_scale) dx = tp_mul(tp_sub(x, tp__norm_spread(mean, x, s)), dx_scale);
    if (dmean) dx = tp__add_or_null(dx, tp_broadcast_like(tp__norm_spread(dmean, x, s), x));
    return dx ? tp_div(dx, tp__size_ratio(x, mean)) : NULL;
}

/* The gradient of batch_norm, layer_norm or group_norm. row: the op that computes the derivatives by x, gamma and beta for constant mean and
 * inv; dx: the gradient of x through mean and inv, or NULL. */
static void tp__norm_gradient(tp_grad *g, const tp_op *row, tp_node *mean, tp_node *inv, tp_node *dx)
{
    tp_node *in[5];
    g->din[0] = dx;
    if (!g->dout[0]) return;
    in[0] = g->dout[0], in[1] = g->in[0], in[2] = g->in[1], in[3] = mean, in[4] = inv;
    tp_node *d = tp__opn(row, in, 5, g->op->attrs);
    tp__give_outputs(g, d, 3);
    if (dx && !tp_is_poison(d)) g->din[0] = tp_add(g->din[0], dx);
}
#endif

/* -- shared by batch_norm, batch_norm_grad and batch_norm_infer --------------------------------------------
 * x is seen as (outer, C, inner), C being its channels. */
#ifdef TP__REAL_IS_FLOAT
static void tp__bn_split(const tp_call *k, const tp_operand *x, int64_t *outer, int64_t *C, int64_t *inner)
{
    const int axis = tp__axis(((const tp__bn_attrs *)k->attrs)->axis, x->shape.ndim);
    *outer = tp__product(&x->shape, 0, axis);
    *C = x->shape.dim[axis];
    *inner = tp__product(&x->shape, axis + 1, x->shape.ndim);
}
/* Loops over the elements of channel c; `at` is the offset. */
#define TP__BN_LOOP                     \
    for (int64_t o = 0; o < outer; o++) \
        for (int64_t at = (o * C + c) * inner, end = at + inner; at < end; at++)
#endif
#ifdef TP__ROWS
static const tp_attr tp__bn_schema[] = {TP__ATTR(tp__bn_attrs, INT, axis), TP__ATTR(tp__bn_attrs, FLOAT, epsilon),
                                        TP__ATTR(tp__bn_attrs, BOOL, unbiased), TP__ATTRS_END};
/* Checks that the inputs from `first` on are vectors (C), one element for each channel of input x. */
static tp_status tp__bn_check(tp_infer *s, int x, int first)
{
    char t[TP_SHAPE_TEXT];
    const tp_shape *xs = &s->in[x].shape;
    const int axis = tp__axis(((const tp__bn_attrs *)s->attrs)->axis, xs->ndim);
    if (xs->ndim < 2 || axis < 0)
        return tp_infer_fail(s, TP_ERR_SHAPE, "%s: input is %s, which has no channel axis %d", s->op->name,
                             tp_shape_text(xs, t), ((const tp__bn_attrs *)s->attrs)->axis);
    const tp_status st = tp__infer_real(s);
    if (st != TP_OK) return st;
    for (int i = first; i < s->n_in; i++)
        if (s->in[i].shape.ndim != 1 ||
            (xs->dim[axis] >= 0 && s->in[i].shape.dim[0] >= 0 && s->in[i].shape.dim[0] != xs->dim[axis]) ||
            s->in[i].dtype != s->in[x].dtype)
            return tp_infer_fail(s, TP_ERR_SHAPE, "%s: input %d is %s, needs one %s for each of %lld channels",
                                 s->op->name, i, tp_shape_text(&s->in[i].shape, t), tp_dtype_name(s->in[x].dtype),
                                 (long long)xs->dim[axis]);
    return TP_OK;
}
static double tp__bn_flops(const tp_call *k) { return 8.0 * (double)tp__size(&k->out[0]); }
#endif

/* -- batch_norm: y = gamma xhat + beta, xhat = (x - mean) inv, inv = 1/sqrt(var + epsilon) ----- >>op batch_norm
 * Statistics over every axis but `axis`, N elements per channel; var is the biased one. Outputs y, mean, var for running
 * averages (times N/(N-1) if `unbiased`), inv. gamma, beta (C). */
static void TP__F(tp__batch_norm)(const tp_call *k)
{
    const tp__bn_attrs *t = (const tp__bn_attrs *)k->attrs;
    const real *x = TP__IN(0), *gamma = TP__IN(1), *beta = TP__IN(2);
    real *y = TP__OUT(0), *out_mean = TP__OUT(1), *out_var = TP__OUT(2), *out_inv = TP__OUT(3);
    int64_t outer, C, inner;
    tp__bn_split(k, &k->in[0], &outer, &C, &inner);
    const double n = (double)(outer * inner);
    for (int64_t c = 0; c < C; c++) {
        double sum = 0, squares = 0;
        TP__BN_LOOP sum += (double)x[at];
        const double mean = sum / n;
        TP__BN_LOOP squares += ((double)x[at] - mean) * ((double)x[at] - mean);
        const double var = squares / n;
        const real inv = (real)(1.0 / sqrt(var + (double)t->epsilon));
        if (out_mean) out_mean[c] = (real)mean;
        if (out_var) out_var[c] = (real)(t->unbiased && n > 1 ? var * (n / (n - 1)) : var);
        if (out_inv) out_inv[c] = inv;
        if (y) TP__BN_LOOP y[at] = (x[at] - (real)mean) * inv * gamma[c] + beta[c];
    }
}
#ifdef TP__ROWS
static tp_status tp__batch_norm_shape(tp_infer *s)
{
    const tp_status st = tp__bn_check(s, 0, 1);
    s->out[0] = s->in[0];
    s->out[1] = s->out[2] = s->out[3] = s->in[1];
    return st;
}
static void tp__batch_norm_gradient(tp_grad *g); /* the gradient of batch_norm is the op batch_norm_grad */
static const tp_op tp__op_batch_norm =
    TP__FUSING_ROW(TP_FUSES_ACT | TP_FUSES_ELIDE | TP_FUSES_CHANNELS_LAST, 0, "batch_norm", "FusedBatchNorm",
                   TP_OP_FOLLOWS | TP__OP_BATCH_NORM, TP__IO(3, 4), TP__ATTRS(bn), tp__batch_norm_shape,
                   tp__batch_norm_gradient, TP__NAIVE_FAST(tp__batch_norm),
                   TP__FLOPS_SCRATCH(tp__bn_flops, TP__IF_FAST(tp__bn_scratch, NULL)), TP__ONNX("BatchNormalization"));
TP_DEF tp_node *tp_nn_batch_norm_train(tp_node *x, tp_node *gamma, tp_node *beta, int axis, float epsilon,
                                       bool unbiased, tp_node **out_mean, tp_node **out_var)
{
    tp__bn_attrs t;
    memset(&t, 0, sizeof t);
    t.axis = axis;
    t.epsilon = epsilon;
    t.unbiased = unbiased;
    tp_node *y = tp__op3(&tp__op_batch_norm, x, gamma, beta, &t);
    if (out_mean) *out_mean = tp_is_poison(y) ? y : &y->op->out[1];
    if (out_var) *out_var = tp_is_poison(y) ? y : &y->op->out[2];
    return y;
}
#endif

/* -- batch_norm_grad: dx = gamma inv (dy - dbeta/N - xhat dgamma/N),  dgamma = sum dy xhat,  dbeta = sum dy ---- >>op batch_norm_grad
 * Inputs dy, x, gamma, mean, inv; outputs dx, dgamma, dbeta. Its own gradient, and that of x through mean, var and inv, are made
 * of plain nodes, which layer_norm shares. */
static void TP__F(tp__batch_norm_grad)(const tp_call *k)
{
    const real *dy = TP__IN(0), *x = TP__IN(1), *gamma = TP__IN(2), *mean = TP__IN(3), *inv = TP__IN(4);
    real *dx = TP__OUT(0), *out_dgamma = TP__OUT(1), *out_dbeta = TP__OUT(2);
    int64_t outer, C, inner;
    tp__bn_split(k, &k->in[1], &outer, &C, &inner);
    const double n = (double)(outer * inner);
    for (int64_t c = 0; c < C; c++) {
        double dbeta = 0, dgamma = 0;
        TP__BN_LOOP
        {
            dbeta += (double)dy[at];
            dgamma += (double)dy[at] * (double)((x[at] - mean[c]) * inv[c]);
        }
        if (out_dgamma) out_dgamma[c] = (real)dgamma;
        if (out_dbeta) out_dbeta[c] = (real)dbeta;
        const real mean_dy = (real)(dbeta / n), mean_dy_xhat = (real)(dgamma / n);
        if (dx) TP__BN_LOOP dx[at] = gamma[c] * inv[c] * (dy[at] - mean_dy - (x[at] - mean[c]) * inv[c] * mean_dy_xhat);
    }
}
#ifdef TP__ROWS
static tp_status tp__batch_norm_grad_infer(tp_infer *s)
{
    const tp_status st = tp__bn_check(s, 1, 2);
    return st == TP_OK ? tp__norm_grad_infer(s, tp__batch_norm_shape, 1, 3) : st;
}
static void tp__batch_norm_grad_gradient(tp_grad *g)
{
    const int axis = tp__axis(((const tp__bn_attrs *)g->op->attrs)->axis, g->in[1]->shape.ndim);
    const tp__norm_set s = tp__norm_set_of(TP__NORM_CHANNEL, g->in[1], axis, 0);
    tp__norm_grad_gradient(g, &s);
}
static const tp_op tp__op_batch_norm_grad =
    TP__FUSING_ROW(TP_FUSES_MASK | TP_FUSES_ADD | TP_FUSES_CHANNELS_LAST, 1u, "batch_norm_grad", "FusedBatchNormGrad",
                   TP_OP_FOLLOWS | TP__OP_BATCH_NORM_GRAD, TP__IO_RANGE(5, 6, 3), TP__ATTRS(bn),
                   tp__batch_norm_grad_infer, tp__batch_norm_grad_gradient, TP__NAIVE_FAST(tp__batch_norm_grad),
                   TP__FLOPS_SCRATCH(tp__bn_flops, TP__IF_FAST(tp__bn_scratch, NULL)), TP__NO_ONNX);
static void tp__batch_norm_gradient(tp_grad *g)
{
    const tp__bn_attrs *t = (const tp__bn_attrs *)g->op->attrs;
    tp_node *x = g->in[0], *mean = &g->out[1], *inv = &g->out[3], *dvar = g->dout[2];
    const tp__norm_set s = tp__norm_set_of(TP__NORM_CHANNEL, x, tp__axis(t->axis, x->shape.ndim), 0);
    if (dvar && t->unbiased) { /* dvar times N/(N-1), or times N if N = 1 */
        tp_node *n = tp__size_ratio(x, mean), *one = tp_const_as(g->graph, x->dtype, 1);
        dvar = tp_mul(dvar, tp_div(n, tp_maximum(tp_affine(n, 1, -1), one)));
    }
    tp_node *dx = tp__norm_stats_gradient(x, mean, inv, g->dout[1], dvar, g->dout[3], &s);
    tp__norm_gradient(g, &tp__op_batch_norm_grad, mean, inv, dx);
}
#endif

/* -- batch_norm_infer: y = gamma (x - mean) / sqrt(var + epsilon) + beta, of given mean and var ------- >>op batch_norm_infer
 * Inputs x of any rank >= 2; gamma, beta, mean, var (C).
 *   dx = dy gamma inv,  dgamma = sum dy (x - mean) inv,  dbeta = sum dy,  inv = 1/sqrt(var + epsilon)
 *   dmean = -gamma inv dbeta,  dvar = -gamma inv^2 dgamma / 2 */
static void TP__F(tp__batch_norm_infer_loop)(const tp_call *k)
{
    const real epsilon = (real)((const tp__bn_attrs *)k->attrs)->epsilon;
    const real *x = TP__IN(0), *gamma = TP__IN(1), *beta = TP__IN(2), *mean = TP__IN(3), *var = TP__IN(4);
    real *y = TP__OUT(0);
    int64_t outer, C, inner;
    tp__bn_split(k, &k->in[0], &outer, &C, &inner);
    for (int64_t c = 0; c < C; c++) {
        const real scale = gamma[c] / TP__RSQRT(var[c] + epsilon);
        TP__BN_LOOP y[at] = (x[at] - mean[c]) * scale + beta[c];
    }
}
#ifdef TP__ROWS
static tp_status tp__batch_norm_infer_infer(tp_infer *s)
{
    const tp_status st = tp__bn_check(s, 0, 1);
    s->out[0] = s->in[0];
    return st;
}
static void tp__batch_norm_infer_gradient(tp_grad *g)
{
    const tp__bn_attrs *t = (const tp__bn_attrs *)g->op->attrs;
    tp_node *x = g->in[0], *dy = g->dout[0];
    const int axis = tp__axis(t->axis, x->shape.ndim);
    int axes[TP_MAX_DIMS], n = 0;
    for (int d = 0; d < x->shape.ndim; d++)
        if (d != axis) axes[n++] = d;
    tp_node *inv = tp_rsqrt(tp_add(g->in[4], tp_const_as(g->graph, x->dtype, (double)t->epsilon)));
    tp_node *centred = tp_sub(x, tp__norm_channels(g->in[3], x, axis));
    tp_node *scale = tp_mul(g->in[1], inv);
    g->din[0] = tp_mul(dy, tp__norm_channels(scale, x, axis));
    g->din[1] = tp_reduce_sum(tp_mul(dy, tp_mul(centred, tp__norm_channels(inv, x, axis))), axes, n, false);
    g->din[2] = tp_reduce_sum(dy, axes, n, false);
    /* in most networks mean and var are variables that are not trained */
    if (tp__grad_is_needed(g, 3)) g->din[3] = tp_neg(tp_mul(scale, g->din[2]));
    if (tp__grad_is_needed(g, 4)) g->din[4] = tp_affine(tp_mul(tp_mul(scale, inv), g->din[1]), -0.5f, 0);
}
static const tp_op tp__op_batch_norm_infer =
    TP__FUSING_ROW(TP_FUSES_ACT | TP_FUSES_CHANNELS_LAST, 0, "batch_norm_infer", "BatchNormInference",
                   TP_OP_FOLLOWS | TP__OP_BATCH_NORM_INFER, TP__IO(5, 1), TP__ATTRS(bn), tp__batch_norm_infer_infer,
                   tp__batch_norm_infer_gradient,
                   TP__KERNELS(tp__batch_norm_infer_loop_f32, tp__batch_norm_infer_loop_f64, tp__batch_norm_infer_fast),
                   TP__FLOPS_SCRATCH(NULL, TP__IF_FAST(tp__bn_scratch, NULL)), TP__ONNX("BatchNormalization"));
TP_DEF tp_node *tp_nn_batch_norm_infer(tp_node *x, tp_node *gamma, tp_node *beta, tp_node *mean, tp_node *var, int axis,
                                       float epsilon)
{
    tp__bn_attrs t;
    tp_node *in[5];
    memset(&t, 0, sizeof t);
    t.axis = axis;
    t.epsilon = epsilon;
    in[0] = x, in[1] = gamma, in[2] = beta, in[3] = mean, in[4] = var;
    return tp__opn(&tp__op_batch_norm_infer, in, 5, &t);
}
#undef TP__BN_LOOP
#endif

/* -- layer_norm: y = gamma xhat + beta, xhat = (x - mean) inv, inv = 1/sqrt(var + epsilon), of each row ------- >>op layer_norm
 * Rows are the last axis, C long; mean and biased var are the row's own. gamma, beta (C). Outputs y, and mean and inv (one per
 * row) for the gradient. */
static void TP__F(tp__layer_norm)(const tp_call *k)
{
    const real epsilon = (real)((const tp__ln_attrs *)k->attrs)->epsilon;
    const int64_t C = k->in[1].shape.dim[0], rows = C ? tp__size(&k->in[0]) / C : 0;
    const real *x = TP__IN(0), *gamma = TP__IN(1), *beta = TP__IN(2);
    real *y = TP__OUT(0), *out_mean = TP__OUT(1), *out_inv = TP__OUT(2);
    for (int64_t r = 0; r < rows; r++, x += C) {
        real mean = 0, var = 0;
        for (int64_t c = 0; c < C; c++) mean += x[c];
        mean /= (real)C;
        for (int64_t c = 0; c < C; c++) var += (x[c] - mean) * (x[c] - mean);
        const real inv = 1 / TP__RSQRT(var / (real)C + epsilon);
        for (int64_t c = 0; c < C && y; c++) y[r * C + c] = (x[c] - mean) * inv * gamma[c] + beta[c];
        if (out_mean) out_mean[r] = mean;
        if (out_inv) out_inv[r] = inv;
    }
}
#ifdef TP__ROWS
static const tp_attr tp__ln_schema[] = {TP__ATTR(tp__ln_attrs, FLOAT, epsilon), TP__ATTRS_END};
static tp_status tp__layer_norm_infer(tp_infer *s)
{
    const tp_shape *x = &s->in[0].shape;
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    const tp_status st = tp__infer_one_real(s);
    if (st != TP_OK) return st;
    if (x->ndim < 1 || x->dim[x->ndim - 1] == 0)
        return tp_infer_fail(s, TP_ERR_SHAPE, "%s: input is %s, its last axis has nothing to normalise", s->op->name,
                             tp_shape_text(x, a));
    for (int i = 1; i < 3; i++)
        if (s->in[i].shape.ndim != 1 ||
            (s->in[i].shape.dim[0] >= 0 && x->dim[x->ndim - 1] >= 0 && s->in[i].shape.dim[0] != x->dim[x->ndim - 1]))
            return tp_infer_fail(s, TP_ERR_SHAPE,
                                 "%s: %s is %s, needs one value for each element of the last axis of %s", s->op->name,
                                 i == 1 ? "gamma" : "beta", tp_shape_text(&s->in[i].shape, a), tp_shape_text(x, b));
    s->out[0] = s->in[0];
    s->out[1].dtype = s->out[2].dtype = s->in[0].dtype;
    s->out[1].shape = *x;
    s->out[1].shape.ndim--;
    s->out[2].shape = s->out[1].shape;
    return TP_OK;
}
static void tp__layer_norm_gradient(tp_grad *g); /* the gradient of layer_norm is the op layer_norm_grad */
static const tp_op tp__op_layer_norm = TP__ROW(
    "layer_norm", "LayerNorm", TP_OP_PURE, TP__IO(3, 3), TP__ATTRS(ln), tp__layer_norm_infer, tp__layer_norm_gradient,
    TP__NAIVE_FAST(tp__layer_norm), TP__FLOPS(tp__bn_flops), TP__ONNX("LayerNormalization"));
TP_DEF tp_node *tp_nn_layer_norm(tp_node *x, tp_node *gamma, tp_node *beta, float epsilon)
{
    tp__ln_attrs t;
    t.epsilon = epsilon;
    return tp__op3(&tp__op_layer_norm, x, gamma, beta, &t);
}
#endif

/* -- layer_norm_grad: dx = inv (g - mean(g) - xhat mean(g xhat)),  g = dy gamma, means over the row ------------ >>op layer_norm_grad
 * Inputs dy, x, gamma, mean, inv; outputs dx, dgamma = sum dy xhat, dbeta = sum dy. Its own gradient is made of plain nodes. */
static void TP__F(tp__layer_norm_grad)(const tp_call *k)
{
    const int64_t C = k->in[2].shape.dim[0], rows = C ? tp__size(&k->in[1]) / C : 0;
    const real *dy = TP__IN(0), *x = TP__IN(1), *gamma = TP__IN(2);
    real *dx = TP__OUT(0), *dgamma = TP__OUT(1), *dbeta = TP__OUT(2);
    tp__clear(&k->out[1]);
    tp__clear(&k->out[2]);
    for (int64_t r = 0; r < rows; r++, dy += C, x += C) {
        const real mean = TP__IN(3)[r], inv = TP__IN(4)[r];
        real a = 0, b = 0;
        for (int64_t c = 0; c < C; c++) {
            const real xhat = (x[c] - mean) * inv;
            a += dy[c] * gamma[c];
            b += dy[c] * gamma[c] * xhat;
            if (dgamma) dgamma[c] += dy[c] * xhat;
            if (dbeta) dbeta[c] += dy[c];
        }
        for (int64_t c = 0; c < C && dx; c++)
            dx[r * C + c] = inv * (dy[c] * gamma[c] - a / (real)C - (x[c] - mean) * inv * (b / (real)C));
    }
}
#ifdef TP__ROWS
static tp_status tp__layer_norm_grad_infer(tp_infer *s) { return tp__norm_grad_infer(s, tp__layer_norm_infer, 1, 2); }
static void tp__layer_norm_grad_gradient(tp_grad *g)
{
    const tp__norm_set s = tp__norm_set_of(TP__NORM_ROW, g->in[1], g->in[1]->shape.ndim - 1, 0);
    tp__norm_grad_gradient(g, &s);
}
static const tp_op tp__op_layer_norm_grad =
    TP__ROW("layer_norm_grad", "LayerNormGrad", TP_OP_PURE, TP__IO(5, 3), TP__ATTRS(ln), tp__layer_norm_grad_infer,
            tp__layer_norm_grad_gradient, TP__NAIVE_FAST(tp__layer_norm_grad),
            TP__FLOPS_SCRATCH(tp__bn_flops, TP__IF_FAST(tp__ln_scratch, NULL)), TP__NO_ONNX);
static void tp__layer_norm_gradient(tp_grad *g)
{
    tp_node *x = g->in[0], *mean = &g->out[1], *inv = &g->out[2];
    const tp__norm_set s = tp__norm_set_of(TP__NORM_ROW, x, x->shape.ndim - 1, 0);
    tp_node *dx = tp__norm_stats_gradient(x, mean, inv, g->dout[1], NULL, g->dout[2], &s);
    tp__norm_gradient(g, &tp__op_layer_norm_grad, mean, inv, dx);
}
#endif

/* -- group_norm: y = gamma xhat + beta, xhat = (x - mean) inv, inv = 1/sqrt(var + epsilon) --------------------- >>op group_norm
 * mean and biased var of each sample and group of adjacent channels. x is seen as (B, rows, C, inner), C being its channels
 * (tp__gn_shape); a group has N = rows C/groups inner elements. gamma, beta (C). Outputs y, and mean and inv (B, groups) for the gradient. */
#ifdef TP__REAL_IS_FLOAT
/* Loops over the elements of group g of sample b; c is the channel, `at` the offset. */
#define TP__GN_LOOP                                                       \
    for (int64_t r = 0; r < s.rows; r++)                                  \
        for (int64_t c = g * s.per_group; c < (g + 1) * s.per_group; c++) \
            for (int64_t at = ((b * s.rows + r) * s.C + c) * s.inner, end = at + s.inner; at < end; at++)
#endif
static void TP__F(tp__group_norm)(const tp_call *k)
{
    const tp__gn_shape s = tp__gn_shape_of(k, &k->in[0]);
    const double epsilon = (double)((const tp__gn_attrs *)k->attrs)->epsilon;
    const double n = (double)(s.rows * s.per_group * s.inner);
    const real *x = TP__IN(0), *gamma = TP__IN(1), *beta = TP__IN(2);
    real *y = TP__OUT(0), *out_mean = TP__OUT(1), *out_inv = TP__OUT(2);
    for (int64_t b = 0; b < s.B; b++)
        for (int64_t g = 0; g < s.groups; g++) {
            double sum = 0, squares = 0;
            TP__GN_LOOP sum += (double)x[at];
            const double mean = sum / n;
            TP__GN_LOOP squares += ((double)x[at] - mean) * ((double)x[at] - mean);
            const real inv = (real)(1.0 / sqrt(squares / n + epsilon));
            if (out_mean) out_mean[b * s.groups + g] = (real)mean;
            if (out_inv) out_inv[b * s.groups + g] = inv;
            if (y) TP__GN_LOOP y[at] = (x[at] - (real)mean) * inv * gamma[c] + beta[c];
        }
}
#ifdef TP__ROWS
static const tp_attr tp__gn_schema[] = {TP__ATTR(tp__gn_attrs, INT, axis), TP__ATTR(tp__gn_attrs, INT, groups),
                                        TP__ATTR(tp__gn_attrs, FLOAT, epsilon), TP__ATTRS_END};
static tp_status tp__group_norm_infer(tp_infer *s)
{
    const tp_shape *x = &s->in[0].shape;
    const tp__gn_attrs *t = (const tp__gn_attrs *)s->attrs;
    const int axis = tp__axis(t->axis, x->ndim);
    char text[TP_SHAPE_TEXT], text_x[TP_SHAPE_TEXT];
    const tp_status st = tp__infer_real(s);
    if (st != TP_OK) return st;
    if (x->ndim < 3 || axis < 1)
        return tp_infer_fail(s, TP_ERR_SHAPE, "%s: input is %s; it needs samples, a channel axis (%d) and another axis",
                             s->op->name, tp_shape_text(x, text), t->axis);
    const int64_t C = x->dim[axis];
    if (t->groups < 1 || (C >= 0 && (C % t->groups != 0 || C == 0)))
        return tp_infer_fail(s, TP_ERR_ARG, "%s: %d groups do not divide %lld channels into equal parts", s->op->name,
                             t->groups, (long long)C);
    for (int i = 1; i < 3; i++)
        if (s->in[i].shape.ndim != 1 || (s->in[i].shape.dim[0] >= 0 && C >= 0 && s->in[i].shape.dim[0] != C) ||
            s->in[i].dtype != s->in[0].dtype)
            return tp_infer_fail(s, TP_ERR_SHAPE, "%s: %s is %s %s, needs one %s for each channel of %s", s->op->name,
                                 i == 1 ? "gamma" : "beta", tp_dtype_name(s->in[i].dtype),
                                 tp_shape_text(&s->in[i].shape, text), tp_dtype_name(s->in[0].dtype),
                                 tp_shape_text(x, text_x));
    s->out[0] = s->in[0];
    s->out[1].dtype = s->in[0].dtype;
    s->out[1].shape.ndim = 2;
    s->out[1].shape.dim[0] = x->dim[0];
    s->out[1].shape.dim[1] = t->groups;
    s->out[2] = s->out[1];
    return TP_OK;
}
static void tp__group_norm_gradient(tp_grad *g); /* the gradient of group_norm is the op group_norm_grad */
static const tp_op tp__op_group_norm =
    TP__FUSING_ROW(TP_FUSES_ACT, 0, "group_norm", "GroupNorm", TP_OP_FOLLOWS | TP__OP_GROUP_NORM, TP__IO(3, 3),
                   TP__ATTRS(gn), tp__group_norm_infer, tp__group_norm_gradient, TP__NAIVE_FAST(tp__group_norm),
                   TP__FLOPS_SCRATCH(tp__bn_flops, TP__IF_FAST(tp__gn_scratch, NULL)), TP__ONNX("GroupNormalization"));
TP_DEF tp_node *tp_nn_group_norm(tp_node *x, tp_node *gamma, tp_node *beta, int axis, int groups, float epsilon)
{
    tp__gn_attrs t;
    memset(&t, 0, sizeof t);
    t.axis = axis;
    t.groups = groups;
    t.epsilon = epsilon;
    return tp__op3(&tp__op_group_norm, x, gamma, beta, &t);
}
#endif

/* -- group_norm_grad: dx = inv (g - mean(g) - xhat mean(g xhat)),  g = dy gamma, means over the group ---------- >>op group_norm_grad
 * Inputs dy, x, gamma, mean, inv; outputs dx, dgamma = sum dy xhat, dbeta = sum dy. Its own gradient is made of plain nodes. */
static void TP__F(tp__group_norm_grad)(const tp_call *k)
{
    const tp__gn_shape s = tp__gn_shape_of(k, &k->in[1]);
    const double n = (double)(s.rows * s.per_group * s.inner);
    const real *dy = TP__IN(0), *x = TP__IN(1), *gamma = TP__IN(2);
    real *dx = TP__OUT(0), *dgamma = TP__OUT(1), *dbeta = TP__OUT(2);
    tp__clear(&k->out[1]);
    tp__clear(&k->out[2]);
    for (int64_t b = 0; b < s.B; b++)
        for (int64_t g = 0; g < s.groups; g++) {
            const real mean = TP__IN(3)[b * s.groups + g], inv = TP__IN(4)[b * s.groups + g];
            double sum = 0, products = 0;
            TP__GN_LOOP
            {
                const real xhat = (x[at] - mean) * inv;
                sum += (double)(dy[at] * gamma[c]);
                products += (double)(dy[at] * gamma[c]) * (double)xhat;
                if (dgamma) dgamma[c] += dy[at] * xhat;
                if (dbeta) dbeta[c] += dy[at];
            }
            const real mean_g = (real)(sum / n), mean_g_xhat = (real)(products / n);
            if (dx) TP__GN_LOOP dx[at] = inv * (dy[at] * gamma[c] - mean_g - (x[at] - mean) * inv * mean_g_xhat);
        }
}
#ifdef TP__ROWS
static tp_status tp__group_norm_grad_infer(tp_infer *s) { return tp__norm_grad_infer(s, tp__group_norm_infer, 1, 2); }
/* Returns the sets of group_norm; with C = 0, after an error, if the number of channels is not known. */
static tp__norm_set tp__gn_set(tp_grad *g, const tp_node *x, const tp_node *gamma)
{
    const tp__gn_attrs *t = (const tp__gn_attrs *)g->op->attrs;
    tp__norm_set s = tp__norm_set_of(TP__NORM_GROUP, x, tp__axis(t->axis, x->shape.ndim), t->groups);
    s.C = x->shape.dim[s.axis] > 0 ? x->shape.dim[s.axis] : gamma->shape.dim[0];
    if (s.C > 0) return s;
    s.C = 0;
    tp_graph_fail(g->graph, NULL, TP_ERR_SHAPE, "the gradient of %s needs to know the number of channels",
                  g->op->row->name);
    return s;
}
static void tp__group_norm_grad_gradient(tp_grad *g)
{
    const tp__norm_set s = tp__gn_set(g, g->in[1], g->in[2]);
    if (s.C) tp__norm_grad_gradient(g, &s);
}
static const tp_op tp__op_group_norm_grad =
    TP__FUSING_ROW(TP_FUSES_MASK, 1u, "group_norm_grad", "GroupNormGrad", TP_OP_FOLLOWS | TP__OP_GROUP_NORM_GRAD,
                   TP__IO_RANGE(5, 6, 3), TP__ATTRS(gn), tp__group_norm_grad_infer, tp__group_norm_grad_gradient,
                   TP__NAIVE_FAST(tp__group_norm_grad),
                   TP__FLOPS_SCRATCH(tp__bn_flops, TP__IF_FAST(tp__gn_scratch, NULL)), TP__NO_ONNX);
static void tp__group_norm_gradient(tp_grad *g)
{
    tp_node *x = g->in[0], *mean = &g->out[1], *inv = &g->out[2];
    tp_node *dx = NULL;
    if (g->dout[1] || g->dout[2]) {
        const tp__norm_set s = tp__gn_set(g, x, g->in[1]);
        if (!s.C) return;
        dx = tp__norm_stats_gradient(x, mean, inv, g->dout[1], NULL, g->dout[2], &s);
    }
    tp__norm_gradient(g, &tp__op_group_norm_grad, mean, inv, dx);
}
#undef TP__GN_LOOP
#endif

/* -- shared by softmax, sparse_softmax_cross_entropy and ctc_loss ------------------------------------------ */
/* Returns sum_c e^(x_c - m), where m = max x; sets e_c = e^(x_c - m), unless e is NULL. */
static real TP__F(tp__exp_sum)(const real *x, int64_t C, real *m, real *e)
{
    real z = 0;
    *m = x[0];
    for (int64_t c = 1; c < C; c++) *m = x[c] > *m ? x[c] : *m;
    for (int64_t c = 0; c < C; c++) {
        const real power = TP__REXP(x[c] - *m);
        z += power;
        if (e) e[c] = power;
    }
    return z;
}
#ifdef TP__ROWS
/* Input 0, the logits, must be floating; the other inputs, labels or lengths, must be integers. */
static tp_status tp__infer_labels(tp_infer *s)
{
    if (!tp_dtype_is_float(s->in[0].dtype))
        return tp_infer_fail(s, TP_ERR_DTYPE, "%s: logits are %s; tp_cast them first", s->op->name,
                             tp_dtype_name(s->in[0].dtype));
    for (int i = 1; i < s->n_in; i++)
        if (s->in[i].dtype != TP_I32 && s->in[i].dtype != TP_I64)
            return tp_infer_fail(s, TP_ERR_DTYPE, "%s: %s are %s, int32 or int64 are needed: %s", s->op->name,
                                 i == 1 ? "labels" : "lengths", tp_dtype_name(s->in[i].dtype),
                                 i == 1 && s->in[1].shape.ndim == s->in[0].shape.ndim
                                     ? "tp_softmax_cross_entropy takes a probability for each class"
                                     : "change the input's TP_SPEC, or tp_cast it");
    return TP_OK;
}
#endif

/* -- softmax: y_c = e^(x_c - m) / sum_k e^(x_k - m), m = max x; log_softmax: y_c = x_c - m - ln sum --- >>op softmax
 * Over the last axis. softmax: dx = y (dy - sum dy y). log_softmax: dx = dy - softmax(x) sum dy. Both are made of plain nodes. */
static void TP__F(tp__softmax_row)(const real *x, real *y, int64_t C, bool logarithm)
{
    real m;
    const real z = TP__F(tp__exp_sum)(x, C, &m, logarithm ? NULL : y), l = logarithm ? TP__RLOG(z) : 0;
    for (int64_t c = 0; c < C; c++) y[c] = logarithm ? x[c] - m - l : y[c] / z;
}
static void TP__F(tp__softmax)(const tp_call *k)
{
    const int64_t C = k->in[0].shape.dim[k->in[0].shape.ndim - 1], n = tp__size(&k->in[0]);
    for (int64_t r = 0; r < n; r += C) TP__F(tp__softmax_row)(TP__IN(0) + r, TP__OUT(0) + r, C, false);
}
static void TP__F(tp__log_softmax)(const tp_call *k)
{
    const int64_t C = k->in[0].shape.dim[k->in[0].shape.ndim - 1], n = tp__size(&k->in[0]);
    for (int64_t r = 0; r < n; r += C) TP__F(tp__softmax_row)(TP__IN(0) + r, TP__OUT(0) + r, C, true);
}
#ifdef TP__ROWS
static tp_status tp__softmax_infer(tp_infer *s)
{
    const tp_status st = tp__infer_real(s);
    if (st != TP_OK) return st;
    if (s->in[0].shape.ndim < 1)
        return tp_infer_fail(s, TP_ERR_SHAPE, "%s of a scalar: it needs at least 1 dimension", s->op->name);
    s->out[0] = s->in[0];
    return TP_OK;
}
static tp_node *tp__softmax_dx(tp_node *dy, tp_node *y)
{
    const int last_axis = -1;
    return tp_mul(y, tp_sub(dy, tp_reduce_sum(tp_mul(dy, y), &last_axis, 1, true)));
}
static void tp__softmax_gradient(tp_grad *g) { g->din[0] = tp__softmax_dx(g->dout[0], &g->out[0]); }
static void tp__log_softmax_gradient(tp_grad *g)
{
    const int last_axis = -1;
    tp_node *sum = tp_reduce_sum(g->dout[0], &last_axis, 1, true);
    g->din[0] = tp_sub(g->dout[0], tp_mul(tp_exp(&g->out[0]), sum));
}
static double tp__softmax_flops(const tp_call *k) { return 5.0 * (double)tp__size(&k->in[0]); }
static const tp_op tp__op_softmax = TP__FUSING_ROW(
    TP_FUSES_SCALE, 0, "softmax", "Softmax", TP_OP_PURE, TP__IO(1, 1), TP__NO_ATTRS, tp__softmax_infer,
    tp__softmax_gradient, TP__NAIVE_FAST(tp__softmax), TP__FLOPS(tp__softmax_flops), TP__ONNX("Softmax"));
static const tp_op tp__op_log_softmax =
    TP__ROW("log_softmax", "LogSoftmax", TP_OP_PURE, TP__IO(1, 1), TP__NO_ATTRS, tp__softmax_infer,
            tp__log_softmax_gradient, TP__KERNELS(tp__log_softmax_f32, tp__log_softmax_f64, tp__softmax_fast),
            TP__FLOPS(tp__softmax_flops), TP__ONNX("LogSoftmax"));
TP_DEF tp_node *tp_softmax(tp_node *x) { return tp__op1(&tp__op_softmax, x, NULL); }
TP_DEF tp_node *tp_log_softmax(tp_node *x) { return tp__op1(&tp__op_log_softmax, x, NULL); }
#endif

/* -- sparse_softmax_cross_entropy: y_b = -log softmax(x_b)[label_b] -------------- >>op sparse_softmax_cross_entropy
 * x (B,C), label (B) of integers; y (B), and softmax(x) (B,C) for the gradient: dx = dy_b (softmax(x) - onehot(label)). */
static void TP__F(tp__xent_rows)(const tp_call *k, int64_t from, int64_t to)
{
    const int64_t C = k->in[0].shape.dim[1];
    real *y = TP__OUT(0);
    for (int64_t b = from; b < to; b++) {
        const real *x = TP__IN(0) + b * C;
        real *soft = TP__OUT(1) ? TP__OUT(1) + b * C : NULL;
        const int64_t label = tp__index_at(&k->in[1], b);
        if (label < 0 || label >= C) {
            tp_kernel_fault(k, label);
            continue;
        }
        real m;
        const real z = TP__F(tp__exp_sum)(x, C, &m, soft);
        for (int64_t c = 0; c < C && soft; c++) soft[c] /= z;
        if (y) y[b] = TP__RLOG(z) - (x[label] - m);
    }
}
static void TP__F(tp__xent)(const tp_call *k) { TP__F(tp__xent_rows)(k, 0, k->in[0].shape.dim[0]); }
#ifdef TP__ROWS
static tp_status tp__xent_infer(tp_infer *s)
{
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    const tp_shape *x = &s->in[0].shape, *l = &s->in[1].shape;
    const tp_status st = tp__infer_labels(s);
    if (st != TP_OK) return st;
    if (x->ndim != 2 || l->ndim != 1 || (x->dim[0] >= 0 && l->dim[0] >= 0 && x->dim[0] != l->dim[0]))
        return tp_infer_fail(s, TP_ERR_SHAPE, "%s: logits are %s and labels %s: needs (B,..,C) and (B,..)%s",
                             s->op->name, tp_shape_text(x, a), tp_shape_text(l, b),
                             l->ndim > 1 && l->ndim == x->ndim && l->dim[l->ndim - 1] == x->dim[x->ndim - 1]
                                 ? "; tp_softmax_cross_entropy takes a probability for each class"
                             : x->ndim == 2 && l->ndim > 1 ? "; tp_flatten makes one row of the labels"
                                                           : "");
    s->out[0].dtype = s->in[0].dtype;
    s->out[0].shape.ndim = 1;
    s->out[0].shape.dim[0] = x->dim[0] >= 0 ? x->dim[0] : l->dim[0];
    s->out[1] = s->in[0];
    return TP_OK;
}
/* One hot labels for a number of classes that is known only when the op runs, as in a batch whose samples are the classes. */
static tp_node *tp__one_hot_like(tp_node *softmax, tp_node *label)
{
    tp_node *number = tp_cumsum(tp_ones_like(softmax), 1, true, false);
    return tp_cast(tp_equal(number, tp_expand_dims(tp_cast(label, softmax->dtype), 1)), softmax->dtype);
}
static void tp__xent_gradient(tp_grad *g)
{
    tp_node *softmax = &g->out[1], *dx = NULL;
    if (g->dout[0]) {
        tp_node *one_hot = g->in[0]->shape.dim[1] != TP_ANY ? tp_one_hot(g->in[1], g->in[0]->shape.dim[1], 1.0f, 0.0f)
                                                            : tp__one_hot_like(softmax, g->in[1]);
        if (one_hot->dtype != softmax->dtype) one_hot = tp_cast(one_hot, softmax->dtype);
        dx = tp_expand_dims(g->dout[0], 1);
        dx = tp_mul(tp_sub(softmax, one_hot), dx);
    }
    g->din[0] = g->dout[1] ? tp__add_or_null(dx, tp__softmax_dx(g->dout[1], softmax)) : dx;
}
static const tp_op tp__op_sparse_softmax_cross_entropy =
    TP__ROW("sparse_softmax_cross_entropy", "SparseSoftmaxCrossEntropyWithLogits", TP_OP_PURE, TP__IO(2, 2),
            TP__NO_ATTRS, tp__xent_infer, tp__xent_gradient, TP__NAIVE_FAST(tp__xent), TP__FLOPS(tp__softmax_flops),
            TP__REST(0, "SoftmaxCrossEntropyLoss", "label %lld is outside the classes"));

/* -- losses made of other ops ------------------------------------------------------------------------------- */

/* Warns if the logits of a loss are probabilities already: the loss computes softmax (sigmoid) itself, and a second one makes the
 * gradients small, so that little is learnt. */
static void tp__warn_probabilities(const char *loss, const tp_node *logits, const char *function)
{
    char place[TP__PLACE_TEXT];
    while (logits && !tp_is_poison(logits) && strcmp(logits->op->row->name, "identity") == 0)
        logits = logits->op->in[0];
    if (!logits || tp_is_poison(logits) || strcmp(logits->op->row->name, function) != 0) return;
    tp_log_once(TP_LOG_WARN, "%sthe logits of %s come from tp_%s: give its input instead, the loss computes %s itself.",
                tp__place_text(&logits->op->at, place), loss, function, function);
}

/* Logits (B,..,C) are rows (B*..,C) for the op. */
TP_DEF tp_node *tp_sparse_softmax_cross_entropy(tp_node *logits, tp_node *labels)
{
    tp__warn_probabilities("sparse_softmax_cross_entropy", logits, "softmax");
    if (labels && labels->dtype == TP_U8) labels = tp_cast(labels, TP_I32);
    const int last = logits && labels ? logits->shape.ndim - 1 : 0;
    bool rows = last > 1 && labels->shape.ndim == last && logits->shape.dim[last] != TP_ANY;
    for (int d = 0; rows && d < last; d++)
        rows = logits->shape.dim[d] == labels->shape.dim[d] || logits->shape.dim[d] == TP_ANY ||
               labels->shape.dim[d] == TP_ANY;
    if (!rows) return tp__op2(&tp__op_sparse_softmax_cross_entropy, logits, labels, NULL);
    const int64_t row[2] = {TP_ANY, logits->shape.dim[last]};
    tp_node *x = tp_reshape_to(logits, tp_make_shape_n(2, row));
    return tp_reshape_like(tp__op2(&tp__op_sparse_softmax_cross_entropy, x, tp_flatten(labels), NULL), labels);
}

/* A loss of predictions (B,1) and truths (B), or the reverse, would broadcast to (B,B) and compare each with each; one of (B,1) and
 * (B,10) would compare one with ten: a mistake, for which the poison node is returned; else NULL. */
static tp_node *tp__refuse_pairs(const char *loss, const char *what_x, tp_node *x, const char *what_y, tp_node *y)
{
    const bool x_has_more = x && y && x->shape.ndim > y->shape.ndim;
    const tp_node *more = x_has_more ? x : y, *less = x_has_more ? y : x;
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    if (tp_is_poison(x) || tp_is_poison(y)) return NULL;
    const int extra = more->shape.ndim - less->shape.ndim;
    for (int d = 0; extra == 0 && d < x->shape.ndim; d++)
        if ((x->shape.dim[d] == 1 && y->shape.dim[d] > 1) || (y->shape.dim[d] == 1 && x->shape.dim[d] > 1))
            return tp_graph_fail(tp_node_graph(x), NULL, TP_ERR_SHAPE,
                                 "%s: %s are %s and %s %s: give both the same shape; tp_broadcast_like repeats one",
                                 loss, what_x, tp_shape_text(&x->shape, a), what_y, tp_shape_text(&y->shape, b));
    for (int d = 0; extra > 0 && d < less->shape.ndim; d++)
        if (more->shape.dim[d + extra] == 1 && less->shape.dim[d] != 1)
            return tp_graph_fail(tp_node_graph(x), NULL, TP_ERR_SHAPE,
                                 "%s: %s are %s and %s %s: each would be compared with each; give both the same shape, "
                                 "tp_squeeze(x, %d) takes a dimension of 1 away",
                                 loss, what_x, tp_shape_text(&x->shape, a), what_y, tp_shape_text(&y->shape, b),
                                 d + extra);
    return NULL;
}

/* As tp__refuse_pairs, for losses of distributions (..,C): a row has one of its own to be compared with, and none is repeated. */
static tp_node *tp__refuse_rows(const char *loss, const char *what_x, tp_node *x, const char *what_y, tp_node *y)
{
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    if (tp_is_poison(x) || tp_is_poison(y)) return NULL;
    bool fit = x->shape.ndim == y->shape.ndim;
    for (int d = 0; fit && d < x->shape.ndim; d++)
        fit = x->shape.dim[d] < 0 || y->shape.dim[d] < 0 || x->shape.dim[d] == y->shape.dim[d];
    if (fit) return NULL;
    return tp_graph_fail(tp_node_graph(x), NULL, TP_ERR_SHAPE,
                         "%s: %s are %s and %s %s: each row needs a row of its own; give both the same shape, "
                         "tp_broadcast_like repeats one",
                         loss, what_x, tp_shape_text(&x->shape, a), what_y, tp_shape_text(&y->shape, b));
}

/* The size of the last dimension, where it is known; else -1. */
static int64_t tp__last_size(const tp_node *x)
{
    return !tp_is_poison(x) && x->shape.ndim > 0 ? x->shape.dim[x->shape.ndim - 1] : -1;
}

/* The loss y_b = -sum_c label_c log softmax(x_b)_c */
TP_DEF tp_node *tp_softmax_cross_entropy(tp_node *logits, tp_node *labels)
{
    const int last_axis = -1;
    if (logits && labels && tp_dtype_is_float(logits->dtype) && (labels->dtype == TP_I32 || labels->dtype == TP_I64))
        return tp_graph_fail(tp_node_graph(logits), NULL, TP_ERR_DTYPE,
                             "softmax_cross_entropy: the labels are %s, but have to be probabilities of the classes; "
                             "tp_sparse_softmax_cross_entropy takes the numbers of classes",
                             tp_dtype_name(labels->dtype));
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    const int64_t classes = tp__last_size(logits), columns = tp__last_size(labels);
    if (classes >= 0 && columns >= 0 && classes != columns)
        return tp_graph_fail(tp_node_graph(logits), NULL, TP_ERR_SHAPE,
                             "softmax_cross_entropy: the logits %s are of %lld classes, the labels %s of %lld",
                             tp_shape_text(&logits->shape, a), (long long)classes, tp_shape_text(&labels->shape, b),
                             (long long)columns);
    tp_node *poison = tp__refuse_rows("softmax_cross_entropy", "the logits", logits, "the labels", labels);
    if (poison) return poison;
    tp__warn_probabilities("softmax_cross_entropy", logits, "softmax");
    return tp_neg(tp_reduce_sum(tp_mul(labels, tp_log_softmax(logits)), &last_axis, 1, false));
}
/* The loss for a label z: -z log s(x) - (1-z) log(1-s(x)) = softplus(x) - x z, which never overflows; s is the sigmoid. */
TP_DEF tp_node *tp_sigmoid_cross_entropy(tp_node *logits, tp_node *labels)
{
    tp_node *poison = tp__refuse_pairs("sigmoid_cross_entropy", "the logits", logits, "the labels", labels);
    if (poison) return poison;
    if (!tp_is_poison(logits) && !tp_is_poison(labels) && logits->dtype != labels->dtype)
        return tp_graph_fail(tp_node_graph(logits), NULL, TP_ERR_DTYPE,
                             "sigmoid_cross_entropy: the logits are %s, the labels %s: tp_cast the labels",
                             tp_dtype_name(logits->dtype), tp_dtype_name(labels->dtype));
    tp__warn_probabilities("sigmoid_cross_entropy", logits, "sigmoid");
    tp_node *product = tp_mul(logits, labels);
    return tp_sub(tp_softplus(logits), product);
}
#endif

/* -- ctc_loss: y_b = -log of the sum, over all paths that spell the labels, of the product of p_t ------------ >>op ctc_loss
 * p = softmax of the logits. l_0..l_2L are the labels with blanks between and around them. A path is at one place s in each
 * step; then it stays, or moves on by one, or by two from a label to a different one.
 * In logarithms, t counting from 0 and a(-1) = b(T) as given:
 *   a_t(s) = log p_t(l_s) + log sum e^a_(t-1) over s, s-1 (s-2),   b_t(s) the same from the end without p_t
 *   y = -log sum of e^a_(T-1) over the last two,                   dx_t(c) = p_t(c) - sum of e^(a_t(s) + b_t(s) + y), l_s = c
 * The second output is dx for dy = 1; its own gradient is missing, and a warning says so. Labels that no path spells cost
 * infinity (zero_infinity: 0), and their dx is 0. Sums are kept in double; the sequences of a batch are independent. */
#define TP__NONE (-(double)INFINITY) /* stands for the logarithm of 0 */
/* Returns log(e^a + e^b + e^c). */
static double TP__F(tp__ctc_add)(double a, double b, double c)
{
    const double ab = a > b ? a : b, largest = ab > c ? ab : c;
    if (largest == TP__NONE) return largest;
    const real sum = TP__REXP((real)(a - largest)) + TP__REXP((real)(b - largest)) + TP__REXP((real)(c - largest));
    return largest + (double)TP__RLOG(sum);
}
#ifdef TP__REAL_IS_FLOAT
/* What ctc_loss knows of one sequence of the batch. */
typedef struct tp__ctc {
    const tp_call *k;
    /* index of the sequence; number of classes; length of the longest label list; steps of the longest sequence */
    int64_t b, C, L, steps;
    int64_t row, step; /* offset of the sequence in the logits, and distance between its steps */
    int64_t T, S;      /* number of steps of this sequence; length of its list of labels and blanks, 2L + 1 */
    int64_t blank;
    /* for each step: log of the softmax's sum; a_t(s), the log of the forward sums over paths; and two rows of S values
     * for the backward sums */
    double *norm, *a, *two_rows;
} tp__ctc;
/* Returns the number of doubles of scratch memory for a sequence. */
static int64_t tp__ctc_doubles(const tp_call *k)
{
    const int64_t T = k->in[0].shape.dim[((const tp_ctc_attrs *)k->attrs)->batch_major ? 1 : 0];
    const int64_t S = 2 * k->in[1].shape.dim[1] + 1;
    return T + T * S + 2 * S;
}
/* Describes sequence b. Returns false, and lets the run fail, if its length or one of its labels is out of range. */
static bool tp__ctc_sequence(tp__ctc *g, const tp_call *k, int64_t b)
{
    const tp_ctc_attrs *t = (const tp_ctc_attrs *)k->attrs;
    const int64_t *x = k->in[0].shape.dim, n = tp__index_at(&k->in[2], b);
    g->k = k, g->b = b, g->C = x[2], g->L = k->in[1].shape.dim[1];
    g->steps = x[t->batch_major ? 1 : 0];
    g->row = b * (t->batch_major ? g->steps * g->C : g->C);
    g->step = t->batch_major ? g->C : x[1] * g->C;
    g->T = tp__index_at(&k->in[3], b);
    g->blank = t->blank < 0 ? g->C - 1 : t->blank;
    g->norm = (double *)k->scratch + b * tp__ctc_doubles(k);
    g->a = g->norm + g->steps;
    g->two_rows = g->a + g->steps * (2 * g->L + 1);
    if (n < 0 || n > g->L || g->T < 0 || g->T > g->steps) {
        tp_kernel_fault(k, n < 0 || n > g->L ? n : g->T);
        return false;
    }
    g->S = 2 * n + 1;
    for (int64_t i = 0; i < n; i++) {
        const int64_t label = tp__index_at(&k->in[1], b * g->L + i);
        if (label >= 0 && label < g->C && label != g->blank) continue;
        tp_kernel_fault(k, label);
        return false;
    }
    return true;
}
/* CTC puts a blank before, between and after the labels. tp__ctc_class: the class at place s of that list.
 * tp__ctc_skips: whether a path may go from place s - 2 to s directly. */
static int64_t tp__ctc_class(const tp__ctc *g, int64_t s)
{
    return s & 1 ? tp__index_at(&g->k->in[1], g->b * g->L + s / 2) : g->blank;
}
static bool tp__ctc_skips(const tp__ctc *g, int64_t s)
{
    return (s & 1) && s > 1 && tp__ctc_class(g, s) != tp__ctc_class(g, s - 2);
}
#endif
/* Computes CTC's forward sums over paths, the logarithms a_t(s), for all steps. Returns the logarithm of the sum over
 * all paths. */
static double TP__F(tp__ctc_forward)(const tp__ctc *g, const real *x)
{
    const int64_t S = g->S;
    for (int64_t t = 0; t < g->T; t++, x += g->step) {
        const double *previous = t > 0 ? g->a + (t - 1) * S : NULL;
        real most;
        const real z = TP__F(tp__exp_sum)(x, g->C, &most, NULL);
        g->norm[t] = (double)most + (double)TP__RLOG(z);
        for (int64_t s = 0; s < S; s++) {
            double v = s < 2 ? 0 : TP__NONE;
            if (previous)
                v = TP__F(tp__ctc_add)(previous[s], s > 0 ? previous[s - 1] : TP__NONE,
                                       tp__ctc_skips(g, s) ? previous[s - 2] : TP__NONE);
            g->a[t * S + s] = v + (double)x[tp__ctc_class(g, s)] - g->norm[t];
        }
    }
    const double *previous = g->a + g->T * S;
    if (g->T > 0) return TP__F(tp__ctc_add)(previous[-1], S > 1 ? previous[-2] : TP__NONE, TP__NONE);
    return S == 1 ? 0 : TP__NONE;
}
/* Computes ctc_loss's dx from the forward sums a_t and, going back step by step, the backward sums b_t. all: the result
 * of tp__ctc_forward. */
static void TP__F(tp__ctc_backward)(const tp__ctc *g, const real *x, real *dx, double all)
{
    const int64_t S = g->S;
    double *later = g->two_rows, *now = later + S;
    for (int64_t t = g->T - 1; t >= 0; t--) {
        const real *xt = x + t * g->step;
        real *dxt = dx + t * g->step;
        double *swap = later;
        for (int64_t c = 0; c < g->C; c++) dxt[c] = TP__REXP((real)((double)xt[c] - g->norm[t]));
        for (int64_t s = 0; s < S; s++) {
            const int64_t c = tp__ctc_class(g, s);
            double v = s >= S - 2 ? 0 : TP__NONE;
            if (t < g->T - 1)
                v = TP__F(tp__ctc_add)(later[s], s + 1 < S ? later[s + 1] : TP__NONE,
                                       s + 2 < S && tp__ctc_skips(g, s + 2) ? later[s + 2] : TP__NONE);
            if (v + g->a[t * S + s] > TP__NONE) dxt[c] -= TP__REXP((real)(v + g->a[t * S + s] - all));
            now[s] = v + (double)xt[c] - g->norm[t];
        }
        later = now, now = swap;
    }
}
static void TP__F(tp__ctc_rows)(const tp_call *k, int64_t from, int64_t to)
{
    const bool zero = ((const tp_ctc_attrs *)k->attrs)->zero_infinity;
    for (int64_t b = from; b < to; b++) {
        tp__ctc g;
        const bool feasible = tp__ctc_sequence(&g, k, b);
        const real *x = TP__IN(0) + g.row;
        real *y = TP__OUT(0), *dx = TP__OUT(1) ? TP__OUT(1) + g.row : NULL;
        const double log_total = feasible ? TP__F(tp__ctc_forward)(&g, x) : 0;
        if (y) y[b] = (real)(zero && log_total == TP__NONE ? 0 : 0 - log_total);
        for (int64_t t = 0; dx && t < g.steps; t++)
            for (int64_t c = 0; c < g.C; c++) dx[t * g.step + c] = 0;
        if (dx && feasible && log_total != TP__NONE) TP__F(tp__ctc_backward)(&g, x, dx, log_total);
    }
}
static void TP__F(tp__ctc)(const tp_call *k)
{
    const int64_t B = k->in[1].shape.dim[0], L = k->in[1].shape.dim[1], C = k->in[0].shape.dim[2];
    const int64_t steps = B && C ? tp__size(&k->in[0]) / B / C : 0;
    tp__each_range(k, B, tp__grain(steps * (C * 8 + L * 64)), TP__F(tp__ctc_rows));
}
#ifdef TP__ROWS
static const tp_attr tp__ctc_schema[] = {TP__ATTR(tp_ctc_attrs, INT, blank), TP__ATTR(tp_ctc_attrs, BOOL, batch_major),
                                         TP__ATTR(tp_ctc_attrs, BOOL, zero_infinity), TP__ATTRS_END};
static tp_status tp__ctc_infer(tp_infer *s)
{
    const tp_ctc_attrs *t = (const tp_ctc_attrs *)s->attrs;
    const tp_shape *x = &s->in[0].shape, *l = &s->in[1].shape;
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT], c[TP_SHAPE_TEXT], d[TP_SHAPE_TEXT];
    const tp_status st = tp__infer_labels(s);
    if (st != TP_OK) return st;
    bool fits = x->ndim == 3 && l->ndim == 2 && s->in[2].shape.ndim == 1 && s->in[3].shape.ndim == 1;
    int64_t B = fits ? x->dim[t->batch_major ? 0 : 1] : 0;
    for (int i = 1; i < 4; i++) {
        if (fits && B >= 0 && s->in[i].shape.dim[0] >= 0 && B != s->in[i].shape.dim[0]) fits = false;
        if (fits && B < 0) B = s->in[i].shape.dim[0];
    }
    if (!fits)
        return tp_infer_fail(s, TP_ERR_SHAPE,
                             "ctc_loss: logits are %s, labels %s, their lengths %s, those of the logits %s: needs "
                             "(%s,C), (B,L), (B), (B)",
                             tp_shape_text(x, a), tp_shape_text(l, b), tp_shape_text(&s->in[2].shape, c),
                             tp_shape_text(&s->in[3].shape, d), t->batch_major ? "B,T" : "T,B");
    if (t->blank < -1 || (x->dim[2] >= 0 && t->blank >= x->dim[2]) || x->dim[2] == 0)
        return tp_infer_fail(s, TP_ERR_ARG, "ctc_loss: blank %d is none of the classes of %s", t->blank,
                             tp_shape_text(x, a));
    s->out[0].dtype = s->in[0].dtype;
    s->out[0].shape.ndim = 1;
    s->out[0].shape.dim[0] = B;
    s->out[1] = s->in[0];
    return TP_OK;
}
static size_t tp__ctc_scratch(const tp_call *k)
{
    return (size_t)(k->in[1].shape.dim[0] * tp__ctc_doubles(k)) * sizeof(double);
}
static double tp__ctc_flops(const tp_call *k)
{
    return (double)tp__size(&k->in[0]) * 6 + (double)k->in[0].shape.dim[0] * (double)tp__size(&k->in[1]) * 40;
}
static void tp__ctc_gradient(tp_grad *g)
{
    const bool batch_major = ((const tp_ctc_attrs *)g->op->attrs)->batch_major;
    if (g->dout[1])
        tp_log_once(TP_LOG_WARN,
                    "a gradient of a gradient meets '%s': that of ctc_loss has none, so nothing flows through it",
                    g->op->name);
    if (!g->dout[0]) return;
    tp_node *dy = tp_expand_dims(g->dout[0], -1);
    g->din[0] = tp_mul(&g->out[1], batch_major ? tp_expand_dims(dy, 1) : dy);
}
static const tp_op tp__op_ctc_loss = TP__ROW(
    "ctc_loss", "CTCLoss", TP_OP_PURE, TP__IO(4, 2), TP__ATTRS_OF(ctc, tp_ctc_attrs), tp__ctc_infer, tp__ctc_gradient,
    TP__NAIVE(tp__ctc), TP__FLOPS_SCRATCH(tp__ctc_flops, tp__ctc_scratch),
    TP__FAULT("ctc_loss: %lld is no label, which are 0 to the number of classes - 1 without the blank, or a length "
              "beyond what is there"));
TP_DEF tp_node *tp_ctc_loss(tp_node *logits, tp_node *labels, tp_node *label_lengths, tp_node *logit_lengths,
                            const tp_ctc_attrs *a)
{
    tp_ctc_attrs t;
    tp_node *in[4];
    memset(&t, 0, sizeof t);
    if (a) t = *a;
    in[0] = logits, in[1] = labels, in[2] = label_lengths, in[3] = logit_lengths;
    return tp__opn(&tp__op_ctc_loss, in, 4, &t);
}
#undef TP__NONE
#endif

/* -- shared by lstm, gru and their gradients: sizes, shape rules, scratch, FLOPs --------------------------- */
#ifdef TP__REAL_IS_FLOAT
typedef struct tp__rnn {
    int64_t T, B, D, H, step_stride, sample_stride; /* sample b of step t is in row t step_stride + b sample_stride */
} tp__rnn;
static tp__rnn tp__rnn_of(const tp_shape *x, const tp_shape *y, bool batch_major)
{
    tp__rnn r;
    r.T = y->dim[batch_major ? 1 : 0];
    r.B = y->dim[batch_major ? 0 : 1];
    r.D = x->dim[x->ndim - 1];
    r.H = y->dim[2];
    r.step_stride = batch_major ? 1 : r.B;
    r.sample_stride = batch_major ? r.T : 1;
    return r;
}
#endif
static real TP__F(tp__logistic)(real x) { return x < 0 ? TP__REXP(x) / (1 + TP__REXP(x)) : 1 / (1 + TP__REXP(-x)); }
/* Returns bias + [x, h] W for one sample and one column of W (D+H,n); w is the first element of that column. */
static real TP__F(tp__rnn_sum)(const tp__rnn *r, real bias, const real *x, const real *h, const real *w, int64_t n)
{
    real s = bias;
    for (int64_t i = 0; i < r->D; i++) s += x[i] * w[i * n];
    for (int64_t u = 0; u < r->H; u++) s += h[u] * w[(r->D + u) * n];
    return s;
}
/* Backward for one sample: dx += dg W^T and dW += x^T dg, for m values of x, n of dg, and W (m,n). dx or dw may be NULL. */
static void TP__F(tp__rnn_back)(int64_t m, int64_t n, const real *dg, const real *x, const real *w, real *dx, real *dw)
{
    for (int64_t i = 0; i < m; i++) {
        real s = dx ? dx[i] : 0;
        for (int64_t q = 0; q < n; q++) {
            s += dg[q] * w[i * n + q];
            if (dw) dw[i * n + q] += x[i] * dg[q];
        }
        if (dx) dx[i] = s;
    }
}
static void TP__F(tp__copy)(int64_t n, real *to, const real *from)
{
    for (int64_t i = 0; i < n && to; i++) to[i] = from[i];
}
#ifdef TP__ROWS
/* Computes the scratch size: the larger of `vectors` vectors of one sample, for the naive loop, and the bytes that the
 * fast kernel needs. */
static size_t tp__rnn_scratch(const tp_operand *h0, size_t vectors, size_t fast)
{
    const size_t naive = vectors * (size_t)h0->shape.dim[1] * sizeof(double);
    return fast > naive ? fast : naive;
}
/* Counts the FLOPs of a sequence op, or of its gradient, whose x is input number `x`. The forward op has x as input 0, the
 * gradient has not. */
static double tp__rnn_flops(const tp_call *k, int x, int gates)
{
    const tp_shape *y = x ? &k->in[0].shape : &k->out[0].shape, *s = &k->in[x].shape;
    const double H = (double)y->dim[2], rows = (double)(y->dim[0] * y->dim[1]);
    const double inputs = (double)s->dim[s->ndim - 1] * (s->ndim == 2 ? (double)s->dim[0] : rows);
    return (x ? 4 : 2) * gates * H * (inputs + H * rows);
}
/* Whether s is the shape of a matrix of this size. Unknown dimensions match. */
static bool tp__is_matrix(const tp_shape *s, int64_t rows, int64_t columns)
{
    return s->ndim == 2 && (s->dim[0] < 0 || rows < 0 || s->dim[0] == rows) &&
           (s->dim[1] < 0 || columns < 0 || s->dim[1] == columns);
}
/* The shape rule that lstm and gru have in common. Inputs: x is input 0; from input `state` on, states (batch,units), h0 first.
 * Outputs: y is output 0; then come the states after the last step; output `gates_output` has the gates for the gradient, `gates` values
 * per unit. */
static tp_status tp__rnn_infer(tp_infer *s, bool batch_major, int state, int gates, int gates_output)
{
    const tp_shape *x = &s->in[0].shape, *h0 = &s->in[state].shape;
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT], c[TP_SHAPE_TEXT];
    const tp_status st = tp__infer_one_real(s);
    if (st != TP_OK) return st;
    if (x->ndim != 3)
        return tp_infer_fail(s, TP_ERR_SHAPE, "%s: x is %s, needs 3 dimensions %s", s->op->name, tp_shape_text(x, a),
                             batch_major ? "(batch,time,features)" : "(time,batch,features)");
    const int64_t B = x->dim[batch_major ? 0 : 1];
    for (int i = state; i < s->n_in; i++)
        if (!tp__is_matrix(&s->in[i].shape, B, h0->ndim == 2 ? h0->dim[1] : TP_ANY) || h0->dim[1] == 0)
            return tp_infer_fail(s, TP_ERR_SHAPE, "%s: state %s is %s, needs (batch,units) for x %s%s%s", s->op->name,
                                 i == state ? "h0" : "c0", tp_shape_text(&s->in[i].shape, a), tp_shape_text(x, b),
                                 i == state ? "" : " and h0 ", i == state ? "" : tp_shape_text(h0, c));
    for (int i = 0; i < s->op->n_out; i++) s->out[i] = s->in[0];
    s->out[0].shape.dim[2] = h0->dim[1];
    for (int i = 1; i < gates_output; i++) {
        s->out[i].shape = *h0;
        if (h0->dim[0] < 0) s->out[i].shape.dim[0] = B;
    }
    s->out[gates_output].shape.dim[2] = h0->dim[1] < 0 ? TP_ANY : gates * h0->dim[1];
    return TP_OK;
}
/* Checks inputs w and w + 1, a kernel and its bias, for `gates` values per unit. `of` tells in the error sentence what they
 * belong to. */
static tp_status tp__rnn_check(tp_infer *s, int w, const char *of, const tp_shape *h0, int gates)
{
    const int64_t D = s->in[0].shape.dim[2], H = h0->dim[1];
    const int64_t rows = D < 0 || H < 0 ? TP_ANY : D + H, columns = H < 0 ? TP_ANY : gates * H;
    const tp_shape *kernel = &s->in[w].shape, *bias = &s->in[w + 1].shape;
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    if (!tp__is_matrix(kernel, rows, columns))
        return tp_infer_fail(s, TP_ERR_SHAPE, "%s: the %skernel is %s; %s inputs and %lld units need (%lld,%lld)",
                             s->op->name, of, tp_shape_text(kernel, a), tp_shape_text(&s->in[0].shape, b), (long long)H,
                             (long long)rows, (long long)columns);
    if (bias->ndim != 1 || (bias->dim[0] >= 0 && columns >= 0 && bias->dim[0] != columns))
        return tp_infer_fail(s, TP_ERR_SHAPE, "%s: the %sbias is %s, needs (%lld)", s->op->name, of,
                             tp_shape_text(bias, a), (long long)columns);
    return TP_OK;
}
/* The bias that belongs to a kernel, which the gradients of lstm and gru do not read. */
static tp_type tp__rnn_bias(const tp_type *kernel)
{
    tp_type t;
    memset(&t, 0, sizeof t);
    t.dtype = kernel->dtype;
    t.shape.ndim = 1;
    t.shape.dim[0] = kernel->shape.ndim == 2 ? kernel->shape.dim[1] : TP_ANY;
    return t;
}
/* Returns the gradient of output i: zeros if nothing depends on it. */
static tp_node *tp__rnn_dy(tp_grad *g, int i) { return g->dout[i] ? g->dout[i] : tp_zeros_like(&g->out[i]); }
#endif

/* -- lstm: i, j, f, o = [x_t, h_t-1] W + b;  c_t = sig(f + forget_bias) c_t-1 + sig(i) tanh(j);  h_t = sig(o) tanh(c_t) --- >>op lstm
 * x (T,B,D), or (B,T,D) if batch_major; W (D+H,4H), b (4H), h0, c0 (B,H). Outputs y = all h_t, the last h and c, and for the
 * gradient the gates after their functions (T B,4H) and the cells (T B,H), rows as in x. The planner may give the fast kernels
 * a table for x (tp_fast.h, >>fast lstm). */
static void TP__F(tp__lstm)(const tp_call *k)
{
    const tp__lstm_attrs *t = (const tp__lstm_attrs *)k->attrs;
    const tp__rnn r = tp__rnn_of(&k->in[0].shape, &k->out[0].shape, t->batch_major);
    const int64_t H = r.H, G = 4 * r.H;
    const real *x = TP__IN(0), *w = TP__IN(1), *bias = TP__IN(2), *h0 = TP__IN(3), *c0 = TP__IN(4);
    real *y = TP__OUT(0), *last_h = TP__OUT(1), *last_c = TP__OUT(2), *gates = TP__OUT(3), *cells = TP__OUT(4);
    real *h = (real *)k->scratch, *c = h + H, *g = c + H; /* scratch memory: vectors for one sample */
    for (int64_t b = 0; b < r.B; b++) {
        TP__F(tp__copy)(H, h, h0 + b * H);
        TP__F(tp__copy)(H, c, c0 + b * H);
        for (int64_t step = 0; step < r.T; step++) {
            const int64_t row = step * r.step_stride + b * r.sample_stride;
            for (int64_t q = 0; q < G; q++) {
                const real s = TP__F(tp__rnn_sum)(&r, bias[q], x + row * r.D, h, w + q, G);
                const int64_t kind = q / H;
                g[q] = kind == 1 ? TP__RTANH(s) : TP__F(tp__logistic)(kind == 2 ? s + (real)t->forget_bias : s);
            }
            for (int64_t u = 0; u < H; u++) {
                c[u] = g[2 * H + u] * c[u] + g[u] * g[H + u];
                h[u] = g[3 * H + u] * TP__RTANH(c[u]);
            }
            TP__F(tp__copy)(H, y ? y + row * H : NULL, h);
            TP__F(tp__copy)(H, cells ? cells + row * H : NULL, c);
            TP__F(tp__copy)(G, gates ? gates + row * G : NULL, g);
        }
        TP__F(tp__copy)(H, last_h ? last_h + b * H : NULL, h);
        TP__F(tp__copy)(H, last_c ? last_c + b * H : NULL, c);
    }
}
#ifdef TP__ROWS
static size_t tp__lstm_scratch(const tp_call *k)
{
    return tp__rnn_scratch(&k->in[3], 6, TP__IF_FAST(tp__lstm_fast_scratch(k, false), 0));
}
static double tp__lstm_flops(const tp_call *k) { return tp__rnn_flops(k, k->op->sequence, 4); }
static const tp_attr tp__lstm_schema[] = {TP__ATTR(tp__lstm_attrs, FLOAT, forget_bias),
                                          TP__ATTR(tp__lstm_attrs, BOOL, batch_major), TP__ATTRS_END};
static tp_status tp__lstm_infer(tp_infer *s)
{
    const tp_status st = tp__rnn_infer(s, ((const tp__lstm_attrs *)s->attrs)->batch_major, 3, 4, 3);
    s->out[4] = s->out[0]; /* output 4 has the cell states */
    return st == TP_OK ? tp__rnn_check(s, 1, "", &s->in[3].shape, 4) : st;
}
static void tp__lstm_gradient(tp_grad *g); /* the gradient of lstm is the op lstm_grad */
static const tp_op tp__op_lstm = TP__SEQUENCE_ROW(
    0, 0x1cu, 0x6u, "lstm", "LSTM", TP_OP_HALF | TP__OP_SEQUENCE, TP__IO(5, 5), TP__ATTRS(lstm), tp__lstm_infer,
    tp__lstm_gradient, TP__NAIVE_FAST(tp__lstm), TP__FLOPS_SCRATCH(tp__lstm_flops, tp__lstm_scratch), TP__ONNX("LSTM"));
TP_DEF tp_node *tp_nn_lstm(tp_node *x, tp_node *kernel, tp_node *bias, tp_node *h0, tp_node *c0, float forget_bias,
                           bool batch_major, tp_node **last_h, tp_node **last_c)
{
    tp__lstm_attrs t;
    tp_node *in[5];
    memset(&t, 0, sizeof t);
    t.forget_bias = forget_bias;
    t.batch_major = batch_major;
    in[0] = x, in[1] = kernel, in[2] = bias, in[3] = h0, in[4] = c0;
    tp_node *y = tp__opn(&tp__op_lstm, in, 5, &t);
    if (last_h) *last_h = tp_is_poison(y) ? y : &y->op->out[1];
    if (last_c) *last_c = tp_is_poison(y) ? y : &y->op->out[2];
    return y;
}
#endif

/* -- lstm_grad: the gradients of all inputs of lstm ------------------------------------------------------------ >>op lstm_grad
 * Inputs dy, dh_T, dc_T, x, W, h0, c0, y, gates, cells; outputs dx, dW, db, dh0, dc0. For each step, beginning with the last:
 *   d = dy_t + dh,  dc += d o (1 - tanh(c_t)^2),  dgates from dc and d,  dh = dgates Wh^T,  dc = dc f
 *   dx = dgates Wx^T,  dW = [x, h_t-1]^T dgates,  db = sum dgates
 * It has no gradient itself. */
static void TP__F(tp__lstm_grad)(const tp_call *k)
{
    const tp__lstm_attrs *t = (const tp__lstm_attrs *)k->attrs;
    const tp__rnn r = tp__rnn_of(&k->in[3].shape, &k->in[7].shape, t->batch_major);
    const int64_t H = r.H, G = 4 * r.H, D = r.D;
    const real *dy = TP__IN(0), *last_dh = TP__IN(1), *last_dc = TP__IN(2), *x = TP__IN(3), *w = TP__IN(4);
    const real *first_h = TP__IN(5), *first_c = TP__IN(6), *y = TP__IN(7), *gates = TP__IN(8), *cells = TP__IN(9);
    real *dx = TP__OUT(0), *dw = TP__OUT(1), *db = TP__OUT(2), *dh0 = TP__OUT(3), *dc0 = TP__OUT(4);
    real *dh = (real *)k->scratch, *dc = dh + H, *dg = dc + H;
    for (int o = 0; o < 3; o++) tp__clear(&k->out[o]);
    for (int64_t b = 0; b < r.B; b++) {
        TP__F(tp__copy)(H, dh, last_dh + b * H);
        TP__F(tp__copy)(H, dc, last_dc + b * H);
        for (int64_t step = r.T - 1; step >= 0; step--) {
            const int64_t row = step * r.step_stride + b * r.sample_stride;
            const real *g = gates + row * G, *c = cells + row * H;
            const real *h0 = step ? y + (row - r.step_stride) * H : first_h + b * H;
            const real *c0 = step ? cells + (row - r.step_stride) * H : first_c + b * H;
            for (int64_t u = 0; u < H; u++) {
                const real i = g[u], j = g[H + u], f = g[2 * H + u], o = g[3 * H + u], tc = TP__RTANH(c[u]);
                const real d = dy[row * H + u] + dh[u], dcell = dc[u] + d * o * (1 - tc * tc);
                dg[u] = dcell * j * i * (1 - i);
                dg[H + u] = dcell * i * (1 - j * j);
                dg[2 * H + u] = dcell * c0[u] * f * (1 - f);
                dg[3 * H + u] = d * tc * o * (1 - o);
                dc[u] = dcell * f;
                dh[u] = 0;
            }
            TP__F(tp__rnn_back)(D, G, dg, x + row * D, w, dx ? dx + row * D : NULL, dw);
            TP__F(tp__rnn_back)(H, G, dg, h0, w + D * G, dh, dw ? dw + D * G : NULL);
            for (int64_t q = 0; db && q < G; q++) db[q] += dg[q];
        }
        TP__F(tp__copy)(H, dh0 ? dh0 + b * H : NULL, dh);
        TP__F(tp__copy)(H, dc0 ? dc0 + b * H : NULL, dc);
    }
}
#ifdef TP__ROWS
static size_t tp__lstm_grad_scratch(const tp_call *k)
{
    return tp__rnn_scratch(&k->in[5], 6, TP__IF_FAST(tp__lstm_fast_scratch(k, true), 0));
}
static tp_status tp__lstm_grad_infer(tp_infer *s)
{
    static const int of_output[] = {0, 1, 2, -1, -1, -1, -1, 0, 3, 4}; /* dy, dh_T, dc_T and y, gates, cells */
    tp_type out[5];
    s->out[0] = s->in[3]; /* the outputs are as the inputs of lstm */
    s->out[1] = s->in[4];
    s->out[2] = tp__rnn_bias(&s->in[4]);
    s->out[3] = s->in[5];
    s->out[4] = s->in[6];
    tp_status st = tp__infer_outputs(s, tp__lstm_infer, s->out, 5, out, 5);
    for (int i = 0; i < 10 && st == TP_OK; i++)
        if (of_output[i] >= 0) st = tp__infer_like(s, i, &out[of_output[i]]);
    s->out[4] = s->out[3];
    return st;
}
static const tp_op tp__op_lstm_grad =
    TP__SEQUENCE_ROW(3, 0x66u, 0x1eu, "lstm_grad", "LSTMGrad", TP_OP_HALF | TP__OP_SEQUENCE_GRAD, TP__IO(10, 5),
                     TP__ATTRS(lstm), tp__lstm_grad_infer, NULL, TP__NAIVE_FAST(tp__lstm_grad),
                     TP__FLOPS_SCRATCH(tp__lstm_flops, tp__lstm_grad_scratch), TP__NO_ONNX);
static void tp__lstm_gradient(tp_grad *g)
{
    tp_node *in[10];
    for (int i = 0; i < 3; i++) in[i] = tp__rnn_dy(g, i);
    in[3] = g->in[0], in[4] = g->in[1], in[5] = g->in[3], in[6] = g->in[4];
    in[7] = &g->out[0], in[8] = &g->out[3], in[9] = &g->out[4];
    tp__give_outputs(g, tp__opn(&tp__op_lstm_grad, in, 10, g->op->attrs), 5);
}
#endif

/* -- gru: r, u = sig([x_t, h_t-1] Wg + bg),  c = tanh([x_t, r h_t-1] Wc + bc),  h_t = u h_t-1 + (1 - u) c ----- >>op gru
 * x as for lstm; Wg (D+H,2H), bg (2H), Wc (D+H,H), bc (H), h0 (B,H). Outputs y = all h_t, the last h, and for the gradient
 * r, u, c (T B,3H). */
static void TP__F(tp__gru)(const tp_call *k)
{
    const tp__rnn r = tp__rnn_of(&k->in[0].shape, &k->out[0].shape, ((const tp__gru_attrs *)k->attrs)->batch_major);
    const int64_t H = r.H, D = r.D;
    const real *x = TP__IN(0), *wg = TP__IN(1), *bg = TP__IN(2), *wc = TP__IN(3), *bc = TP__IN(4), *h0 = TP__IN(5);
    real *y = TP__OUT(0), *last = TP__OUT(1), *gates = TP__OUT(2);
    /* scratch memory: vectors for one sample */
    real *h = (real *)k->scratch, *g = h + H, *c = g + 2 * H, *rh = c + H;
    for (int64_t b = 0; b < r.B; b++) {
        TP__F(tp__copy)(H, h, h0 + b * H);
        for (int64_t step = 0; step < r.T; step++) {
            const int64_t row = step * r.step_stride + b * r.sample_stride;
            for (int64_t q = 0; q < 2 * H; q++)
                g[q] = TP__F(tp__logistic)(TP__F(tp__rnn_sum)(&r, bg[q], x + row * D, h, wg + q, 2 * H));
            for (int64_t u = 0; u < H; u++) rh[u] = g[u] * h[u];
            for (int64_t q = 0; q < H; q++) c[q] = TP__RTANH(TP__F(tp__rnn_sum)(&r, bc[q], x + row * D, rh, wc + q, H));
            for (int64_t u = 0; u < H; u++) h[u] = g[H + u] * h[u] + (1 - g[H + u]) * c[u];
            TP__F(tp__copy)(H, y ? y + row * H : NULL, h);
            /* the vector c follows r and u (g) in memory: one copy writes all three */
            TP__F(tp__copy)(3 * H, gates ? gates + row * 3 * H : NULL, g);
        }
        TP__F(tp__copy)(H, last ? last + b * H : NULL, h);
    }
}
#ifdef TP__ROWS
static size_t tp__gru_scratch(const tp_call *k)
{
    return tp__rnn_scratch(&k->in[5], 5, TP__IF_FAST(tp__gru_fast_scratch(k, false), 0));
}
static double tp__gru_flops(const tp_call *k) { return tp__rnn_flops(k, k->op->sequence, 3); }
static const tp_attr tp__gru_schema[] = {TP__ATTR(tp__gru_attrs, BOOL, batch_major), TP__ATTRS_END};
static tp_status tp__gru_infer(tp_infer *s)
{
    tp_status st = tp__rnn_infer(s, ((const tp__gru_attrs *)s->attrs)->batch_major, 5, 3, 2);
    if (st == TP_OK) st = tp__rnn_check(s, 1, "gates' ", &s->in[5].shape, 2);
    return st == TP_OK ? tp__rnn_check(s, 3, "candidate's ", &s->in[5].shape, 1) : st;
}
static void tp__gru_gradient(tp_grad *g); /* the gradient of gru is the op gru_grad */
static const tp_op tp__op_gru = TP__SEQUENCE_ROW(
    0, 0x34u, 0x2u, "gru", "GRU", TP_OP_HALF | TP__OP_SEQUENCE, TP__IO(6, 3), TP__ATTRS(gru), tp__gru_infer,
    tp__gru_gradient, TP__NAIVE_FAST(tp__gru), TP__FLOPS_SCRATCH(tp__gru_flops, tp__gru_scratch), TP__ONNX("GRU"));
TP_DEF tp_node *tp_nn_gru(tp_node *x, tp_node *gates, tp_node *gates_bias, tp_node *candidate, tp_node *candidate_bias,
                          tp_node *h0, bool batch_major, tp_node **last_h)
{
    tp__gru_attrs t;
    tp_node *in[6];
    memset(&t, 0, sizeof t);
    t.batch_major = batch_major;
    in[0] = x, in[1] = gates, in[2] = gates_bias, in[3] = candidate, in[4] = candidate_bias, in[5] = h0;
    tp_node *y = tp__opn(&tp__op_gru, in, 6, &t);
    if (last_h) *last_h = tp_is_poison(y) ? y : &y->op->out[1];
    return y;
}
#endif

/* -- gru_grad: the gradients of all inputs of gru ----------------------------------------------------------------- >>op gru_grad
 * Inputs dy, dh_T, x, Wg, Wc, h0, y, gates; outputs dx, dWg, dbg, dWc, dbc, dh0. For each step, beginning with the last,
 * with d = dy_t + dh and gradients before the functions:
 *   du' = d (h_t-1 - c) u (1 - u),  dc' = d (1 - u)(1 - c^2),  d_reset_h = dc' Wch^T,  dr' = d_reset_h h_t-1 r (1 - r)
 *   dh = d u + d_reset_h r + [dr', du'] Wgh^T,  dx = [dr', du'] Wgx^T + dc' Wcx^T
 *   dWg = [x, h_t-1]^T [dr', du'],  dWc = [x, r h_t-1]^T dc',  dbg, dbc = their sums
 * It has no gradient itself. */
static void TP__F(tp__gru_grad)(const tp_call *k)
{
    const tp__rnn r = tp__rnn_of(&k->in[2].shape, &k->in[6].shape, ((const tp__gru_attrs *)k->attrs)->batch_major);
    const int64_t H = r.H, D = r.D;
    const real *dy = TP__IN(0), *last_dh = TP__IN(1), *x = TP__IN(2), *wg = TP__IN(3), *wc = TP__IN(4);
    const real *first_h = TP__IN(5), *y = TP__IN(6), *gates = TP__IN(7);
    real *dx = TP__OUT(0), *dwg = TP__OUT(1), *dbg = TP__OUT(2), *dwc = TP__OUT(3), *dbc = TP__OUT(4),
         *dh0 = TP__OUT(5);
    real *dh = (real *)k->scratch, *dg = dh + H, *rh = dg + 3 * H, *d_reset_h = rh + H;
    for (int o = 0; o < 5; o++) tp__clear(&k->out[o]);
    for (int64_t b = 0; b < r.B; b++) {
        TP__F(tp__copy)(H, dh, last_dh + b * H);
        for (int64_t step = r.T - 1; step >= 0; step--) {
            const int64_t row = step * r.step_stride + b * r.sample_stride;
            const real *g = gates + row * 3 * H, *h0 = step ? y + (row - r.step_stride) * H : first_h + b * H,
                       *xt = x + row * D;
            for (int64_t u = 0; u < H; u++) {
                const real d = dy[row * H + u] + dh[u], z = g[H + u], c = g[2 * H + u];
                dg[H + u] = d * (h0[u] - c) * z * (1 - z);
                dg[2 * H + u] = d * (1 - z) * (1 - c * c);
                dh[u] = d * z;
                rh[u] = g[u] * h0[u], d_reset_h[u] = 0;
            }
            TP__F(tp__rnn_back)(H, H, dg + 2 * H, rh, wc + D * H, d_reset_h, dwc ? dwc + D * H : NULL);
            for (int64_t u = 0; u < H; u++) {
                dg[u] = d_reset_h[u] * h0[u] * g[u] * (1 - g[u]);
                dh[u] += d_reset_h[u] * g[u];
            }
            TP__F(tp__rnn_back)(H, 2 * H, dg, h0, wg + D * 2 * H, dh, dwg ? dwg + D * 2 * H : NULL);
            TP__F(tp__rnn_back)(D, 2 * H, dg, xt, wg, dx ? dx + row * D : NULL, dwg);
            TP__F(tp__rnn_back)(D, H, dg + 2 * H, xt, wc, dx ? dx + row * D : NULL, dwc);
            for (int64_t q = 0; q < 2 * H && dbg; q++) dbg[q] += dg[q];
            for (int64_t q = 0; q < H && dbc; q++) dbc[q] += dg[2 * H + q];
        }
        TP__F(tp__copy)(H, dh0 ? dh0 + b * H : NULL, dh);
    }
}
#ifdef TP__ROWS
static size_t tp__gru_grad_scratch(const tp_call *k)
{
    return tp__rnn_scratch(&k->in[5], 6, TP__IF_FAST(tp__gru_fast_scratch(k, true), 0));
}
static tp_status tp__gru_grad_infer(tp_infer *s)
{
    static const int of_output[] = {0, 1, -1, -1, -1, -1, 0, 2}; /* dy, dh_T and y, gates */
    tp_type out[6];
    s->out[0] = s->in[2]; /* the outputs are as the inputs of gru */
    for (int i = 0; i < 2; i++) {
        s->out[1 + 2 * i] = s->in[3 + i];
        s->out[2 + 2 * i] = tp__rnn_bias(&s->in[3 + i]);
    }
    s->out[5] = s->in[5];
    tp_status st = tp__infer_outputs(s, tp__gru_infer, s->out, 6, out, 6);
    for (int i = 0; i < 8 && st == TP_OK; i++)
        if (of_output[i] >= 0) st = tp__infer_like(s, i, &out[of_output[i]]);
    return st;
}
static const tp_op tp__op_gru_grad =
    TP__SEQUENCE_ROW(2, 0x22u, 0x3eu, "gru_grad", "GRUGrad", TP_OP_HALF | TP__OP_SEQUENCE_GRAD, TP__IO(8, 6),
                     TP__ATTRS(gru), tp__gru_grad_infer, NULL, TP__NAIVE_FAST(tp__gru_grad),
                     TP__FLOPS_SCRATCH(tp__gru_flops, tp__gru_grad_scratch), TP__NO_ONNX);
static void tp__gru_gradient(tp_grad *g)
{
    tp_node *in[8];
    for (int i = 0; i < 2; i++) in[i] = tp__rnn_dy(g, i);
    in[2] = g->in[0], in[3] = g->in[1], in[4] = g->in[3], in[5] = g->in[5];
    in[6] = &g->out[0], in[7] = &g->out[2];
    tp__give_outputs(g, tp__opn(&tp__op_gru_grad, in, 8, g->op->attrs), 6);
}
#endif

/* -- shared by attention and attention_grad: sizes, attributes, FLOPs -------------------------------------- */
#ifdef TP__REAL_IS_FLOAT
typedef struct tp__heads {
    int64_t B, Tq, Tk, C, D, heads,
        keys_of_first_query; /* query i attends to keys j < min(i + keys_of_first_query, Tk) */
} tp__heads;
static tp__heads tp__heads_of(const tp_call *k, const tp_shape *q, const tp_shape *keys)
{
    const tp__attention_attrs *t = (const tp__attention_attrs *)k->attrs;
    tp__heads h;
    h.B = q->dim[0], h.Tq = q->dim[1], h.C = q->dim[2], h.Tk = keys->dim[1];
    h.heads = t->heads;
    h.D = h.C / h.heads;
    h.keys_of_first_query = t->causal ? h.Tk - h.Tq + 1 : h.Tk;
    return h;
}
static int64_t tp__keys_seen(const tp__heads *h, int64_t i)
{
    return i + h->keys_of_first_query < h->Tk ? i + h->keys_of_first_query : h->Tk;
}
#endif
#ifdef TP__ROWS
static const tp_attr tp__attention_schema[] = {TP__ATTR(tp__attention_attrs, INT, heads),
                                               TP__ATTR(tp__attention_attrs, BOOL, causal), TP__ATTRS_END};
static double tp__attention_flops(const tp_call *k)
{
    const int back = k->n_in == 6; /* for attention_grad, whose inputs begin with dy, then q */
    const tp_shape *q = &k->in[back].shape, *keys = &k->in[1 + back].shape;
    return (back ? 10.0 : 4.0) * (double)q->dim[0] * (double)q->dim[1] * (double)keys->dim[1] * (double)q->dim[2];
}
#endif

/* -- attention: y_i = sum_j p_ij v_j,  p_i = softmax_j(s_ij),  s_ij = scale q_i k_j,  scale = 1/sqrt(D) ----- >>op attention
 * For each sample and head, whose D = C/heads elements lie side by side in the last axis: q (B,Tq,C), k, v (B,Tk,C), y (B,Tq,C).
 * causal: j <= i + Tk - Tq. The second output, lse = ln sum_j e^s_ij (B,heads,Tq), is all that the gradient needs to
 * compute p again. */
static void TP__F(tp__attention)(const tp_call *k)
{
    const tp__heads h = tp__heads_of(k, &k->in[0].shape, &k->in[1].shape);
    const real scale = 1 / TP__RSQRT((real)h.D);
    real *lse = TP__OUT(1);
    for (int64_t at = 0; at < h.B * h.heads * h.Tq; at++) {
        const int64_t b = at / (h.heads * h.Tq), head = at / h.Tq % h.heads, i = at % h.Tq, n = tp__keys_seen(&h, i);
        const int64_t row = (b * h.Tq + i) * h.C + head * h.D, col = b * h.Tk * h.C + head * h.D;
        const real *q = TP__IN(0) + row, *keys = TP__IN(1) + col, *v = TP__IN(2) + col;
        real *y = TP__OUT(0) ? TP__OUT(0) + row : NULL, most = 0, z = 0;
        /* three passes over the keys: find the largest score, the sum, the mean of v */
        for (int pass = 0; pass < 3; pass++) {
            for (int64_t d = 0; pass == 2 && y && d < h.D; d++) y[d] = 0;
            for (int64_t j = 0; j < n; j++) {
                const real s = TP__F(tp__dot)(h.D, q, 1, keys + j * h.C, 1) * scale;
                if (pass == 0) most = j == 0 || s > most ? s : most;
                else if (pass == 1) z += TP__REXP(s - most);
                else
                    for (int64_t d = 0; y && d < h.D; d++) y[d] += TP__REXP(s - most) / z * v[j * h.C + d];
            }
        }
        if (lse) lse[at] = most + TP__RLOG(z);
    }
}
#ifdef TP__ROWS
static tp_status tp__attention_infer(tp_infer *s)
{
    const tp__attention_attrs *t = (const tp__attention_attrs *)s->attrs;
    const tp_shape *q = &s->in[0].shape, *keys = &s->in[1].shape;
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT], c[TP_SHAPE_TEXT];
    const tp_status st = tp__infer_one_real(s);
    if (st != TP_OK) return st;
    bool fits = q->ndim == 3 && keys->ndim == 3 && tp_shape_compatible(keys, &s->in[2].shape);
    for (int d = 0; fits && d < 3; d += 2) fits = q->dim[d] < 0 || keys->dim[d] < 0 || q->dim[d] == keys->dim[d];
    if (!fits)
        return tp_infer_fail(s, TP_ERR_SHAPE, "%s: q is %s, k %s, v %s; needs (B,Tq,C), (B,Tk,C), (B,Tk,C)",
                             s->op->name, tp_shape_text(q, a), tp_shape_text(keys, b),
                             tp_shape_text(&s->in[2].shape, c));
    if (t->heads < 1 || (q->dim[2] >= 0 && (q->dim[2] == 0 || q->dim[2] % t->heads)))
        return tp_infer_fail(s, TP_ERR_ARG, "%s: %d heads do not divide the %lld elements of %s", s->op->name, t->heads,
                             (long long)q->dim[2], tp_shape_text(q, a));
    if (keys->dim[1] == 0 || (t->causal && q->dim[1] >= 0 && keys->dim[1] >= 0 && keys->dim[1] < q->dim[1]))
        return tp_infer_fail(s, TP_ERR_SHAPE, "%s: %lld queries and %lld keys leave a query without a key", s->op->name,
                             (long long)q->dim[1], (long long)keys->dim[1]);
    s->out[0] = s->in[0];
    s->out[1].dtype = s->in[0].dtype;
    s->out[1].shape.ndim = 3;
    s->out[1].shape.dim[0] = q->dim[0], s->out[1].shape.dim[1] = t->heads, s->out[1].shape.dim[2] = q->dim[1];
    return TP_OK;
}
static void tp__attention_gradient(tp_grad *g); /* the gradient of attention is the op attention_grad */
static const tp_op tp__op_attention =
    TP__HALF_ROW(0, 0x2u, "attention", "Attention", TP_OP_HALF, TP__IO(3, 2), TP__ATTRS(attention), tp__attention_infer,
                 tp__attention_gradient, TP__NAIVE_FAST(tp__attention),
                 TP__FLOPS_SCRATCH(tp__attention_flops, TP__IF_FAST(tp__attention_scratch, NULL)), TP__NO_ONNX);
TP_DEF tp_node *tp_nn_attention(tp_node *q, tp_node *k, tp_node *v, int heads, bool causal)
{
    tp__attention_attrs t;
    memset(&t, 0, sizeof t);
    t.heads = heads;
    t.causal = causal;
    return tp__op3(&tp__op_attention, q, k, v, &t);
}
#endif

/* -- attention_grad: ds_ij = p_ij (dy_i v_j - dy_i y_i) scale,  p = e^(s - lse) -------------------------- >>op attention_grad
 * Inputs dy, q, k, v, y, lse; outputs dq_i = sum_j ds_ij k_j,  dk_j = sum_i ds_ij q_i,  dv_j = sum_i p_ij dy_i. It has no gradient
 * itself. */
static void TP__F(tp__attention_grad)(const tp_call *k)
{
    const tp__heads h = tp__heads_of(k, &k->in[1].shape, &k->in[2].shape);
    const real scale = 1 / TP__RSQRT((real)h.D), *keys = TP__IN(2), *v = TP__IN(3), *lse = TP__IN(5);
    real *dq = TP__OUT(0), *dk = TP__OUT(1), *dv = TP__OUT(2);
    for (int o = 0; o < 3; o++) tp__clear(&k->out[o]);
    for (int64_t at = 0; at < h.B * h.heads * h.Tq; at++) {
        const int64_t b = at / (h.heads * h.Tq), head = at / h.Tq % h.heads, i = at % h.Tq, n = tp__keys_seen(&h, i);
        const int64_t row = (b * h.Tq + i) * h.C + head * h.D;
        const real *dy = TP__IN(0) + row, *q = TP__IN(1) + row, *y = TP__IN(4) + row;
        const real dy_y = TP__F(tp__dot)(h.D, dy, 1, y, 1);
        for (int64_t j = 0; j < n; j++) {
            const int64_t col = (b * h.Tk + j) * h.C + head * h.D;
            const real s = TP__F(tp__dot)(h.D, q, 1, keys + col, 1), dp = TP__F(tp__dot)(h.D, dy, 1, v + col, 1);
            const real p = TP__REXP(s * scale - lse[at]), ds = p * (dp - dy_y) * scale;
            for (int64_t d = 0; d < h.D; d++) {
                if (dq) dq[row + d] += ds * keys[col + d];
                if (dk) dk[col + d] += ds * q[d];
                if (dv) dv[col + d] += p * dy[d];
            }
        }
    }
}
#ifdef TP__ROWS
static tp_status tp__attention_grad_infer(tp_infer *s)
{
    tp_type out[2];
    tp_status st = tp__infer_outputs(s, tp__attention_infer, &s->in[1], 3, out, 2);
    if (st == TP_OK) st = tp__infer_like(s, 0, &out[0]);
    if (st == TP_OK) st = tp__infer_like(s, 4, &out[0]);
    if (st == TP_OK) st = tp__infer_like(s, 5, &out[1]);
    for (int i = 0; i < 3; i++) s->out[i] = s->in[1 + i];
    return st;
}
static const tp_op tp__op_attention_grad =
    TP__HALF_ROW(0x20u, 0, "attention_grad", "AttentionGrad", TP_OP_HALF, TP__IO(6, 3), TP__ATTRS(attention),
                 tp__attention_grad_infer, NULL, TP__NAIVE_FAST(tp__attention_grad),
                 TP__FLOPS_SCRATCH(tp__attention_flops, TP__IF_FAST(tp__attention_scratch, NULL)), TP__NO_ONNX);
static void tp__attention_gradient(tp_grad *g)
{
    tp_node *in[6];
    if (!g->dout[0]) return;
    in[0] = g->dout[0], in[1] = g->in[0], in[2] = g->in[1], in[3] = g->in[2], in[4] = &g->out[0], in[5] = &g->out[1];
    tp__give_outputs(g, tp__opn(&tp__op_attention_grad, in, 6, g->op->attrs), 3);
}
#endif

/* -- dropout: y_i = u_i >= rate ? x_i / (1 - rate) : 0, u_i uniform --------------------------- >>op dropout
 * u_i = uniform(key, step, i): a function of the op's stream, so the gradient is this op on dy with the same stream, and
 * no mask is stored. */
static void TP__F(tp__dropout_range)(const tp_call *k, int64_t from, int64_t to)
{
    const float rate = ((const tp__dropout_attrs *)k->attrs)->rate;
    const real scale = (real)1 / ((real)1 - (real)rate);
    const uint64_t step = *k->step;
    const real *x = (const real *)k->in[0].data;
    real *y = (real *)k->out[0].data;
    uint32_t u[4] = {0, 0, 0, 0};
    for (int64_t i = from; i < to; i++) {
        if (i == from || i % 4 == 0) tp_philox(k->key, (uint64_t)i / 4, step, u);
        y[i] = (float)(u[i % 4] >> 8) * 5.9604644775390625e-8f >= rate ? x[i] * scale : 0;
    }
}
static void TP__F(tp__dropout)(const tp_call *k) { TP__F(tp__dropout_range)(k, 0, tp__size(&k->in[0])); }
#ifdef TP__ROWS
static const tp_attr tp__dropout_schema[] = {TP__ATTR(tp__dropout_attrs, FLOAT, rate), TP__ATTRS_END};
static tp_status tp__dropout_infer(tp_infer *s)
{
    const float rate = ((const tp__dropout_attrs *)s->attrs)->rate;
    const tp_status st = tp__infer_real(s);
    if (st != TP_OK) return st;
    if (!(rate >= 0.0f && rate < 1.0f))
        return tp_infer_fail(s, TP_ERR_ARG, "dropout: rate is %g, it must be in [0,1)", (double)rate);
    s->out[0] = s->in[0];
    return TP_OK;
}
static tp_node *tp__dropout_node(tp_node *x, float rate, uint64_t stream);
static void tp__dropout_gradient(tp_grad *g)
{
    g->din[0] = tp__dropout_node(g->dout[0], ((const tp__dropout_attrs *)g->op->attrs)->rate, g->op->stream);
}
static const tp_op tp__op_dropout =
    TP__ROW("dropout", "Dropout", TP_OP_RANDOM | TP_OP_FOLLOWS, TP__IO(1, 1), TP__ATTRS(dropout), tp__dropout_infer,
            tp__dropout_gradient, TP__NAIVE_FAST(tp__dropout), TP__FLOPS(NULL), TP__ONNX("Dropout"));
static tp_node *tp__dropout_node(tp_node *x, float rate, uint64_t stream)
{
    tp_apply_desc d;
    tp__dropout_attrs t;
    memset(&d, 0, sizeof d);
    t.rate = rate;
    d.row = &tp__op_dropout;
    d.in = &x;
    d.n_in = 1;
    d.attrs = &t;
    d.stream = stream;
    return tp_apply_ex(tp_node_graph(x), &d);
}
TP_DEF tp_node *tp_nn_dropout(tp_node *x, float rate) { return tp__dropout_node(x, rate, 0); }

/* -- random_uniform, random_normal, random_truncated_normal: fresh numbers each run ------ >>op random_uniform
 * Element i is a function of (key of the op, random step, i). An input gives the shape. Truncated: a value beyond two
 * deviations is drawn again; attempt k uses the step word step + k 2^40. */
static const tp_attr tp__random_schema[] = {TP__ATTR(tp__random_attrs, SHAPE, shape),
                                            TP__ATTR(tp__random_attrs, FLOAT, a), TP__ATTR(tp__random_attrs, FLOAT, b),
                                            TP__ATTR(tp__random_attrs, INT, kind), TP__ATTRS_END};
static void tp__random_range(const tp_call *k, int64_t from, int64_t to) /* `from` must be a multiple of 4 */
{
    const tp__random_attrs *t = (const tp__random_attrs *)k->attrs;
    const tp_dtype dtype = k->out[0].dtype;
    tp__random_values(k->device->isa, (tp__distribution)t->kind, (tp__wide)t->a, (tp__wide)t->b, k->key, *k->step,
                      (uint64_t)1 << 40, from, to - from, dtype,
                      (char *)k->out[0].data + (size_t)from * tp_dtype_size(dtype));
}
static void tp__random_naive(const tp_call *k) { tp__each_range(k, tp__size(&k->out[0]), 4096, tp__random_range); }
static tp_status tp__random_infer(tp_infer *s)
{
    s->out[0].dtype = s->n_in ? s->in[0].dtype : TP_F32;
    s->out[0].shape = s->n_in ? s->in[0].shape : ((const tp__random_attrs *)s->attrs)->shape;
    return tp__infer_real(s);
}
static const tp_op tp__op_random = TP__ROW(
    "random", "Random", TP_OP_RANDOM, TP__IO_RANGE(0, 1, 1), TP__ATTRS(random), tp__random_infer, NULL,
    TP__KERNELS(tp__random_naive, tp__random_naive, NULL), TP__FLOPS(NULL), TP__REST(1u, "RandomUniform", NULL));
static tp_node *tp__random_node(tp_graph *g, tp_node *like, const tp_shape *shape, int kind, float a, float b,
                                const char *name)
{
    tp_apply_desc d;
    tp__random_attrs t;
    memset(&d, 0, sizeof d);
    memset(&t, 0, sizeof t);
    if (shape) t.shape = *shape;
    t.kind = kind, t.a = a, t.b = b;
    d.row = &tp__op_random, d.attrs = &t, d.name = name;
    d.in = &like, d.n_in = like ? 1 : 0;
    return tp_apply_ex(g, &d);
}
TP_DEF tp_node *tp_rand_uniform(tp_graph *g, tp_shape shape, float low, float high)
{
    return tp__random_node(g, NULL, &shape, 0, low, high, "random_uniform");
}
TP_DEF tp_node *tp_rand_normal(tp_graph *g, tp_shape shape, float mean, float stddev)
{
    return tp__random_node(g, NULL, &shape, 1, mean, stddev, "random_normal");
}
TP_DEF tp_node *tp_rand_truncated_normal(tp_graph *g, tp_shape shape, float mean, float stddev)
{
    return tp__random_node(g, NULL, &shape, 2, mean, stddev, "truncated_normal");
}
TP_DEF tp_node *tp_rand_uniform_like(tp_node *x, float low, float high)
{
    return tp__random_node(tp_node_graph(x), x, NULL, 0, low, high, "random_uniform");
}
TP_DEF tp_node *tp_rand_normal_like(tp_node *x, float mean, float stddev)
{
    return tp__random_node(tp_node_graph(x), x, NULL, 1, mean, stddev, "random_normal");
}
#endif

/* -- shared by the ops that write a variable: the predicate, shape rule, builder ---------------------------
 * They write in place if `pred` (a last, optional input) is absent or true. The output is the variable's new value. */
#ifdef TP__REAL_IS_FLOAT
static bool tp__pred(const tp_call *k, int at) { return k->n_in <= at || *(const uint8_t *)k->in[at].data != 0; }
#endif
#ifdef TP__ROWS
/* Checks input `at`, if there is one: it is the predicate, and must be a scalar bool. */
static tp_status tp__pred_check(tp_infer *s, int at)
{
    if (s->n_in > at && (s->in[at].dtype != TP_BOOL || s->in[at].shape.ndim != 0)) {
        char t[TP_SHAPE_TEXT];
        return tp_infer_fail(s, TP_ERR_DTYPE, "%s: the predicate is %s %s, it must be a scalar bool", s->op->name,
                             tp_dtype_name(s->in[at].dtype), tp_shape_text(&s->in[at].shape, t));
    }
    return TP_OK;
}
static tp_status tp__assign_infer(tp_infer *s)
{
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    if (s->n_var != 1) return tp_infer_fail(s, TP_ERR_ARG, "%s writes one variable, not %d", s->op->name, s->n_var);
    if (s->in[0].dtype != s->var[0].dtype || !tp_shape_compatible(&s->in[0].shape, &s->var[0].shape))
        return tp_infer_fail(s, TP_ERR_SHAPE, "%s: a value of %s %s does not fit the variable, which is %s %s",
                             s->op->name, tp_dtype_name(s->in[0].dtype), tp_shape_text(&s->in[0].shape, a),
                             tp_dtype_name(s->var[0].dtype), tp_shape_text(&s->var[0].shape, b));
    if (s->op->attr && !tp_dtype_is_float(s->var[0].dtype))
        return tp_infer_fail(s, TP_ERR_DTYPE, "%s: the variable is %s", s->op->name, tp_dtype_name(s->var[0].dtype));
    s->out[0] = s->var[0];
    return tp__pred_check(s, 1);
}
static const tp_attr tp__decay_schema[] = {TP__ATTR(tp__assign_attrs, FLOAT, decay), TP__ATTRS_END};
#define TP__ASSIGN_FLAGS (TP_OP_WRITES_VAR | TP_OP_VIEW)
static tp_node *tp__write(const tp_op *row, tp_node *var, tp_node *value, tp_node *pred, const void *attrs)
{
    tp_apply_desc d;
    tp_node *in[2];
    memset(&d, 0, sizeof d);
    in[0] = value, in[1] = pred;
    d.row = row;
    d.in = in;
    d.n_in = pred ? 2 : 1;
    d.attrs = attrs;
    d.vars = &var;
    d.n_var = 1;
    tp_graph *g = tp_node_graph(var); /* a value that is NULL or was not made is a mistake of the variable's graph */
    return tp_apply_ex(g ? g : tp_node_graph(value), &d);
}

/* -- assign: var = x, of any type ------------------------------------------------------------------- >>op assign */
static void tp__assign_naive(const tp_call *k)
{
    const size_t bytes = (size_t)tp__size(&k->var[0]) * tp_dtype_size(k->var[0].dtype);
    if (tp__pred(k, 1) && bytes && k->var[0].data != k->in[0].data)
        tp__copy_bytes(k->var[0].data, k->in[0].data, bytes);
}
static const tp_op tp__op_assign = TP__ROW(
    "assign", "Assign", TP__ASSIGN_FLAGS | TP_OP_ANY_DTYPE, TP__IO_RANGE(1, 2, 1), TP__NO_ATTRS, tp__assign_infer, NULL,
    TP__KERNELS(tp__assign_naive, tp__assign_naive, NULL), TP__FLOPS(NULL), TP__NO_ONNX);
TP_DEF tp_node *tp_assign(tp_node *var, tp_node *value, tp_node *pred)
{
    return tp__write(&tp__op_assign, var, value, pred, NULL);
}

/* -- assign_add, assign_sub: var = var + x, var - x; integers wrap around ---------------------- >>op assign_add, assign_sub */
static void tp__assign_sum(const tp_call *k, int sign)
{
    const int64_t n = tp__pred(k, 1) ? tp__size(&k->var[0]) : 0;
    void *v = k->var[0].data;
    const void *x = k->in[0].data;
#define TP__ASSIGN_SUM(type_, sum_type_) \
    for (int64_t i = 0; i < n; i++)      \
    ((type_ *)v)[i] = (type_)((sum_type_)((type_ *)v)[i] + (sum_type_)sign * (sum_type_)((const type_ *)x)[i])
    switch (k->var[0].dtype) {
    case TP_F32: TP__ASSIGN_SUM(float, float); break;
    case TP_F64: TP__ASSIGN_SUM(double, double); break;
    case TP_I32: TP__ASSIGN_SUM(int32_t, uint32_t); break;
    default: TP__ASSIGN_SUM(int64_t, uint64_t); break;
    }
#undef TP__ASSIGN_SUM
}
static void tp__assign_add_naive(const tp_call *k) { tp__assign_sum(k, 1); }
static void tp__assign_sub_naive(const tp_call *k) { tp__assign_sum(k, -1); }
static const tp_op tp__op_assign_add =
    TP__ROW("assign_add", "AssignAdd", TP__ASSIGN_FLAGS, TP__IO_RANGE(1, 2, 1), TP__NO_ATTRS, tp__assign_infer, NULL,
            TP__KERNELS(tp__assign_add_naive, tp__assign_add_naive, tp__assign_add_fast), TP__FLOPS(NULL), TP__NO_ONNX);
static const tp_op tp__op_assign_sub =
    TP__ROW("assign_sub", "AssignSub", TP__ASSIGN_FLAGS, TP__IO_RANGE(1, 2, 1), TP__NO_ATTRS, tp__assign_infer, NULL,
            TP__KERNELS(tp__assign_sub_naive, tp__assign_sub_naive, tp__assign_sub_fast), TP__FLOPS(NULL), TP__NO_ONNX);
TP_DEF tp_node *tp_assign_add(tp_node *var, tp_node *value, tp_node *pred)
{
    return tp__write(&tp__op_assign_add, var, value, pred, NULL);
}
TP_DEF tp_node *tp_assign_sub(tp_node *var, tp_node *value, tp_node *pred)
{
    return tp__write(&tp__op_assign_sub, var, value, pred, NULL);
}
#endif

/* -- assign_moving_average: var = var - (1-decay)(var - x) -------------------------------- >>op assign_moving_average */
static void TP__F(tp__assign_moving_average)(const tp_call *k)
{
    const real rest = (real)1 - (real)((const tp__assign_attrs *)k->attrs)->decay, *x = TP__IN(0);
    real *v = (real *)k->var[0].data;
    const int64_t n = tp__pred(k, 1) ? tp__size(&k->var[0]) : 0;
    for (int64_t i = 0; i < n; i++) v[i] -= rest * (v[i] - x[i]);
}
#ifdef TP__ROWS
static const tp_op tp__op_assign_moving_average =
    TP__ROW("assign_moving_average", "AssignMovingAvg", TP__ASSIGN_FLAGS, TP__IO_RANGE(1, 2, 1),
            TP__ATTRS_OF(decay, tp__assign_attrs), tp__assign_infer, NULL, TP__NAIVE_FAST(tp__assign_moving_average),
            TP__FLOPS(NULL), TP__NO_ONNX);
TP_DEF tp_node *tp_assign_moving_average(tp_node *var, tp_node *value, float decay, tp_node *pred)
{
    tp__assign_attrs t;
    if (!(decay >= 0.0f && decay <= 1.0f))
        return tp_graph_fail(tp_node_graph(var), NULL, TP_ERR_ARG,
                             "assign_moving_average: decay is %g: it must be from 0 to 1", (double)decay);
    t.decay = decay;
    return tp__write(&tp__op_assign_moving_average, var, value, pred, &t);
}

/* -- read_after: the variable's value once `after` has run: an alias of its memory, without a copy ----- >>op read_after */
static tp_status tp__read_after_infer(tp_infer *s)
{
    if (s->n_var != 1) return tp_infer_fail(s, TP_ERR_ARG, "read_after reads one variable, not %d", s->n_var);
    s->out[0] = s->var[0];
    return TP_OK;
}
static const tp_op tp__op_read_after =
    TP__ROW("read_after", "ReadAfter", TP_OP_READS_VAR, TP__IO(1, 1), TP__NO_ATTRS, tp__read_after_infer, NULL,
            TP__NO_KERNEL, TP__FLOPS(NULL), TP__SHAPE_ONLY(1u));
TP_DEF tp_node *tp_read_after(tp_node *var, tp_node *after)
{
    return tp__write(&tp__op_read_after, var, after, NULL, NULL);
}

/* -- ema_debias: biased = decay biased + (1-decay) x; n += 1; y = biased / (1 - decay^n) ---------- >>op ema_debias
 * Variables biased and n, float32 scalars; x a float32 scalar. The first value is x itself. */
static void tp__ema_debias_naive(const tp_call *k)
{
    const double decay = (double)((const tp__assign_attrs *)k->attrs)->decay;
    float *biased = (float *)k->var[0].data, *n = (float *)k->var[1].data;
    double power = 1, square = decay; /* Computes decay^n by repeated squaring. */
    *n += 1.0f;
    *biased = (float)((double)*biased - ((double)*biased - (double)*(const float *)k->in[0].data) * (1.0 - decay));
    for (uint32_t left = *n > 0 ? *n < 1e9f ? (uint32_t)*n : 1000000000u : 0; left; left >>= 1, square *= square)
        if (left & 1) power *= square;
    *(float *)k->out[0].data = (float)((double)*biased / (1.0 - power));
}
static tp_status tp__ema_debias_infer(tp_infer *s)
{
    bool fits = s->n_var == 2 && s->in[0].dtype == TP_F32 && s->in[0].shape.ndim == 0;
    for (int i = 0; i < s->n_var; i++) fits = fits && s->var[i].dtype == TP_F32 && s->var[i].shape.ndim == 0;
    if (!fits)
        return tp_infer_fail(s, TP_ERR_SHAPE,
                             "ema_debias takes a float32 scalar and two variables, which are such too");
    s->out[0] = s->in[0];
    return TP_OK;
}
static const tp_op tp__op_ema_debias = TP__ROW(
    "ema_debias", "EMA", TP_OP_WRITES_VAR, TP__IO(1, 1), TP__ATTRS_OF(decay, tp__assign_attrs), tp__ema_debias_infer,
    NULL, TP__KERNELS(tp__ema_debias_naive, tp__ema_debias_naive, NULL), TP__FLOPS(NULL), TP__NO_ONNX);

/* -- summary: its input, marked with a tag and a kind for the monitors -------------------------- >>op summary */
static const tp_attr tp__summary_schema[] = {TP__ATTR(tp_summary_attrs, STRING, tag),
                                             TP__ATTR(tp_summary_attrs, INT, kind), TP__ATTRS_END};
static const tp_op tp__op_summary =
    TP__ROW("summary", "Summary", TP_OP_VIEW | TP_OP_ANY_DTYPE, TP__IO(1, 1), TP__ATTRS_OF(summary, tp_summary_attrs),
            tp__infer_same, NULL, TP__NO_KERNEL, TP__FLOPS(NULL), TP__ONNX("Identity"));
#endif

/* -- optimizers: one op updates n variables --------------------------------------------------- >>op optimizers
 * An optimizer is a struct of attributes that begins with n (tp__apply_attrs), a loop that updates a piece of a variable, a row
 * (TP__OPTIMIZER) and a builder. Inputs: n gradients, then scalars (tp__apply_scalars), then an optional predicate. Variables:
 * n weights, then n of each slot. */
#ifdef TP__REAL_IS_FLOAT
static int tp__apply_n(const tp_call *k) { return ((const tp__apply_attrs *)k->attrs)->n; }
/* Returns the number of optimizer slots of each variable. */
static int tp__apply_slots(const tp_call *k) { return k->n_var / tp__apply_n(k) - 1; }
/* Whether the step is taken: there is no predicate, or it is true. */
static bool tp__apply_runs(const tp_call *k) { return tp__pred(k, tp__apply_n(k) + k->op->update->scalars); }
#endif
static real TP__F(tp__apply_scalar)(const tp_call *k, int which)
{
    return *(const real *)k->in[tp__apply_n(k) + which].data;
}
static const real *TP__F(tp__apply_gradient)(const tp_call *k, int i) { return (const real *)k->in[i].data; }
static real *TP__F(tp__apply_weight)(const tp_call *k, int i) { return (real *)k->var[i].data; }
static real *TP__F(tp__apply_slot)(const tp_call *k, int i, int slot) /* slot number `slot`, from 0, of variable i */
{
    return (real *)k->var[(slot + 1) * tp__apply_n(k) + i].data;
}
static void TP__F(tp__apply)(const tp_call *k)
{
    const tp__piece_fn piece = k->op->update->TP__F(piece);
    for (int i = 0; i < tp__apply_n(k) && tp__apply_runs(k); i++) piece(k, i, 0, tp__size(&k->var[i]));
}
#ifdef TP__ROWS
static double tp__apply_flops(const tp_call *k)
{
    const tp__update *u = k->op->update;
    double n = 0;
    for (int i = 0; i < tp__apply_n(k); i++) n += (double)tp__size(&k->var[i]);
    return n * (u->flops + 4.0 * (tp__apply_slots(k) - u->min_slots));
}
#define TP__ATTR_N          \
    {                       \
        "n", TP_ATTR_INT, 0 \
    } /* the attribute n, which each optimizer has first */
/* A row of an optimizer. attrs_: TP__ATTRS(name), its attributes. */
#define TP__APPLY_ROW(name_, label_, attrs_, update_, scratch_, ...)                                            \
    {                                                                                                           \
        name_, label_, TP_OP_WRITES_VAR, TP__IO_RANGE(2, -1, 1), attrs_, tp__apply_infer, NULL,                 \
            TP__KERNELS(__VA_ARGS__), TP__FLOPS_SCRATCH(tp__apply_flops, scratch_), TP__NO_ONNX, 0, 0, 0, 0, 0, \
            &(update_)                                                                                          \
    }
/* The row of the optimizer "apply_<name_>" and its tp__update. fast_: its fast loop, or NULL. */
#define TP__OPTIMIZER(name_, label_, min_slots_, max_slots_, scalars_, flops_, fast_)                           \
    static const tp__update tp__update_##name_ = {min_slots_,                                                   \
                                                  max_slots_,                                                   \
                                                  scalars_,                                                     \
                                                  flops_,                                                       \
                                                  tp__##name_##_piece_f32,                                      \
                                                  (TP__HAS_F64 ? tp__##name_##_piece_f64 : (tp__piece_fn)NULL), \
                                                  fast_};                                                       \
    static const tp_op tp__op_apply_##name_ =                                                                   \
        TP__APPLY_ROW("apply_" #name_, label_, TP__ATTRS(name_), tp__update_##name_, NULL, tp__apply_f32,       \
                      tp__apply_f64, tp__apply_fast);

/* -- optimizers: the shape rule and the builder ------------------------------------------------- >>op optimizers */
static tp_status tp__apply_infer(tp_infer *s)
{
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    const tp__update *u = s->op->update;
    const int n = ((const tp__apply_attrs *)s->attrs)->n, scalars = u->scalars, slots = n > 0 ? s->n_var / n - 1 : 0;
    if (n < 1 || s->n_var != n * (1 + slots) || slots < u->min_slots || slots > u->max_slots || s->n_in < n + scalars ||
        s->n_in > n + scalars + 1)
        return tp_infer_fail(s, TP_ERR_ARG, "%s: %d gradients, %d inputs and %d variables do not fit together",
                             s->op->name, n, s->n_in, s->n_var);
    for (int i = 0; i < s->n_var; i++) {
        if (!tp_dtype_is_float(s->var[i].dtype))
            return tp_infer_fail(s, TP_ERR_DTYPE, "%s: variable %d is %s", s->op->name, i,
                                 tp_dtype_name(s->var[i].dtype));
        if (s->var[i].dtype != s->in[i % n].dtype || !tp_shape_compatible(&s->var[i].shape, &s->in[i % n].shape))
            return tp_infer_fail(s, TP_ERR_SHAPE, "%s: gradient %d is %s %s, its variable is %s %s", s->op->name, i % n,
                                 tp_dtype_name(s->in[i % n].dtype), tp_shape_text(&s->in[i % n].shape, a),
                                 tp_dtype_name(s->var[i].dtype), tp_shape_text(&s->var[i].shape, b));
    }
    for (int i = n; i < n + scalars; i++)
        if (s->in[i].shape.ndim != 0 || s->in[i].dtype != s->var[0].dtype)
            return tp_infer_fail(
                s, TP_ERR_SHAPE, "%s: the learning rate and powers must be %s scalars, input %d is %s %s", s->op->name,
                tp_dtype_name(s->var[0].dtype), i, tp_dtype_name(s->in[i].dtype), tp_shape_text(&s->in[i].shape, a));
    s->out[0].dtype = TP_BOOL;
    s->out[0].shape.ndim = 1;
    s->out[0].shape.dim[0] = 0;
    return tp__pred_check(s, n + scalars);
}
/* attrs: those of the row. slots: lists of n variables each; optional ones at the end may be NULL. */
static tp_node *tp__apply_node(const tp_op *row, const void *attrs, tp_node *const *vars, tp_node *const *const *slots,
                               tp_node *const *grads, tp_node *const *scalars, tp_node *pred)
{
    const int n = ((const tp__apply_attrs *)attrs)->n, n_scalars = row->update->scalars;
    int n_slots = row->update->min_slots;
    while (n_slots < row->update->max_slots && slots[n_slots]) n_slots++;
    tp_graph *g = tp__list_graph(vars, n);
    bool complete = vars && grads && n > 0;
    for (int k = 0; k < n_slots; k++) complete = complete && slots[k];
    if (!complete)
        return tp_graph_fail(g, NULL, TP_ERR_ARG, "%s: a list of variables or gradients is NULL or empty", row->name);
    tp_node **in = (tp_node **)tp_graph_alloc(g, (size_t)(n + n_scalars + 1) * sizeof *in),
            **v = (tp_node **)tp_graph_alloc(g, (size_t)n * (size_t)(1 + n_slots) * sizeof *v);
    tp_apply_desc d;
    if (!in || !v) return tp_poison(g);
    for (int i = 0; i < n; i++) {
        in[i] = grads[i];
        v[i] = vars[i];
        for (int k = 0; k < n_slots; k++) v[(k + 1) * n + i] = slots[k][i];
    }
    for (int i = 0; i < n_scalars; i++) in[n + i] = scalars[i];
    in[n + n_scalars] = pred;
    memset(&d, 0, sizeof d);
    d.row = row;
    d.in = in;
    d.n_in = n + n_scalars + (pred ? 1 : 0);
    d.attrs = attrs;
    d.vars = v;
    d.n_var = n * (1 + n_slots);
    return tp_apply_ex(g, &d);
}
TP_DEF tp_node *tp__apply_optimizer(const char *op, const void *attrs, tp_node *const *vars,
                                    tp_node *const *const *slots, tp_node *const *grads, tp_node *const *scalars,
                                    tp_node *pred)
{
    return tp__apply_node(tp_op_find(op), attrs, vars, slots, grads, scalars, pred);
}
#endif

/* -- apply_gradient_descent: w -= lr g ------------------------------------------------- >>op apply_gradient_descent */
TP__HOT static void TP__F(tp__gradient_descent_piece)(const tp_call *k, int i, int64_t from, int64_t to)
{
    const real lr = TP__F(tp__apply_scalar)(k, TP__LEARNING_RATE), *g = TP__F(tp__apply_gradient)(k, i);
    real *w = TP__F(tp__apply_weight)(k, i);
    for (int64_t e = from; e < to; e++) w[e] -= TP__ROUNDED(lr * g[e]);
}
#ifdef TP__ROWS
static const tp_attr tp__gradient_descent_schema[] = {TP__ATTR_N, TP__ATTRS_END};
TP__OPTIMIZER(gradient_descent, "ApplyGradientDescent", 0, 0, 1, 2, NULL)

TP_DEF tp_node *tp_apply_gradient_descent(tp_node *const *vars, tp_node *const *grads, int n, tp_node *lr,
                                          tp_node *pred)
{
    const tp__gradient_descent_attrs t = {n};
    return tp__apply_node(&tp__op_apply_gradient_descent, &t, vars, NULL, grads, &lr, pred);
}
#endif

/* -- apply_momentum: a = mu a + g, w -= lr a; Nesterov: w -= lr (g + mu a) --------------------- >>op apply_momentum */
TP__HOT static void TP__F(tp__momentum_piece)(const tp_call *k, int i, int64_t from, int64_t to)
{
    const tp__momentum_attrs *t = (const tp__momentum_attrs *)k->attrs;
    const bool nesterov = t->nesterov;
    const real lr = TP__F(tp__apply_scalar)(k, TP__LEARNING_RATE), mu = (real)t->momentum;
    const real *g = TP__F(tp__apply_gradient)(k, i);
    real *w = TP__F(tp__apply_weight)(k, i), *a = TP__F(tp__apply_slot)(k, i, 0);
    for (int64_t e = from; e < to; e++) {
        a[e] = mu * a[e] + g[e];
        w[e] -= nesterov ? lr * (g[e] + mu * a[e]) : lr * a[e];
    }
}
#ifdef TP__ROWS
static const tp_attr tp__momentum_schema[] = {TP__ATTR_N, TP__ATTR(tp__momentum_attrs, FLOAT, momentum),
                                              TP__ATTR(tp__momentum_attrs, BOOL, nesterov), TP__ATTRS_END};
TP__OPTIMIZER(momentum, "ApplyMomentum", 1, 1, 1, 4, NULL)

TP_DEF tp_node *tp_apply_momentum(tp_node *const *vars, tp_node *const *accums, tp_node *const *grads, int n,
                                  tp_node *lr, float momentum, bool nesterov, tp_node *pred)
{
    const tp__momentum_attrs t = {{n}, momentum, nesterov};
    return tp__apply_node(&tp__op_apply_momentum, &t, vars, &accums, grads, &lr, pred);
}
#endif

/* -- apply_adam: m, v averages of g, g^2; w -= lr' m / (sqrt(v) + epsilon) ------------------------- >>op apply_adam
 * lr' = lr sqrt(1 - beta2^t) / (1 - beta1^t); with a decay (AdamW), first w -= lr decay w. */
TP__HOT static void TP__F(tp__adam_piece)(const tp_call *k, int i, int64_t from, int64_t to)
{
    const tp__adam_attrs *t = (const tp__adam_attrs *)k->attrs;
    const real lr = TP__F(tp__apply_scalar)(k, TP__LEARNING_RATE), one = 1;
    const real correction1 = one - TP__F(tp__apply_scalar)(k, TP__BETA1_POWER),
               correction2 = one - TP__F(tp__apply_scalar)(k, TP__BETA2_POWER),
               lr_t = lr * TP__RSQRT(correction2) / correction1;
    const real beta1 = (real)t->beta1, beta2 = (real)t->beta2, eps = (real)t->epsilon, keep = one - lr * (real)t->decay;
    const real *g = TP__F(tp__apply_gradient)(k, i);
    real *w = TP__F(tp__apply_weight)(k, i), *m = TP__F(tp__apply_slot)(k, i, 0), *v = TP__F(tp__apply_slot)(k, i, 1);
    for (int64_t e = from; e < to; e++) {
        if (t->decay != 0) w[e] *= keep;
        m[e] += (g[e] - m[e]) * (one - beta1);
        v[e] += (g[e] * g[e] - v[e]) * (one - beta2);
        w[e] -= lr_t * m[e] / (TP__RSQRT(v[e]) + eps);
    }
}
#ifdef TP__ROWS
static const tp_attr tp__adam_schema[] = {TP__ATTR_N,
                                          TP__ATTR(tp__adam_attrs, FLOAT, beta1),
                                          TP__ATTR(tp__adam_attrs, FLOAT, beta2),
                                          TP__ATTR(tp__adam_attrs, FLOAT, epsilon),
                                          TP__ATTR(tp__adam_attrs, FLOAT, decay),
                                          TP__ATTRS_END};
TP__OPTIMIZER(adam, "ApplyAdam", 2, 2, 3, 10, TP__IF_FAST(tp__adam_fast, NULL))

static tp_node *tp__adam_node(const tp_op *row, const tp__adam_attrs *t, tp_node *const *vars, tp_node *const *ms,
                              tp_node *const *vs, tp_node *const *grads, tp_node *lr, tp_node *beta1_power,
                              tp_node *beta2_power, tp_node *pred)
{
    tp_node *const *slots[2];
    tp_node *scalars[3];
    slots[0] = ms, slots[1] = vs;
    scalars[TP__LEARNING_RATE] = lr;
    scalars[TP__BETA1_POWER] = beta1_power, scalars[TP__BETA2_POWER] = beta2_power;
    return tp__apply_node(row, t, vars, slots, grads, scalars, pred);
}
TP_DEF tp_node *tp_apply_adam(tp_node *const *vars, tp_node *const *ms, tp_node *const *vs, tp_node *const *grads,
                              int n, tp_node *lr, tp_node *beta1_power, tp_node *beta2_power, float beta1, float beta2,
                              float epsilon, tp_node *pred)
{
    return tp_apply_adamw(vars, ms, vs, grads, n, lr, beta1_power, beta2_power, beta1, beta2, epsilon, 0, pred);
}
TP_DEF tp_node *tp_apply_adamw(tp_node *const *vars, tp_node *const *ms, tp_node *const *vs, tp_node *const *grads,
                               int n, tp_node *lr, tp_node *beta1_power, tp_node *beta2_power, float beta1, float beta2,
                               float epsilon, float decay, tp_node *pred)
{
    const tp__adam_attrs t = {{n}, beta1, beta2, epsilon, decay};
    return tp__adam_node(&tp__op_apply_adam, &t, vars, ms, vs, grads, lr, beta1_power, beta2_power, pred);
}
#endif

/* -- apply_rmsprop: ms average of g^2, mom = mu mom + lr g / sqrt(ms + epsilon), w -= mom ------- >>op apply_rmsprop
 * With a third slot (centered), mg is the average of g, and ms - mg^2 replaces ms under the root. */
TP__HOT static void TP__F(tp__rmsprop_piece)(const tp_call *k, int i, int64_t from, int64_t to)
{
    const tp__rmsprop_attrs *t = (const tp__rmsprop_attrs *)k->attrs;
    const real lr = TP__F(tp__apply_scalar)(k, TP__LEARNING_RATE), one = 1;
    const real decay = (real)t->decay, mu = (real)t->momentum, eps = (real)t->epsilon;
    const real *g = TP__F(tp__apply_gradient)(k, i);
    real *w = TP__F(tp__apply_weight)(k, i), *ms = TP__F(tp__apply_slot)(k, i, 0),
         *mom = TP__F(tp__apply_slot)(k, i, 1), *mg = tp__apply_slots(k) == 3 ? TP__F(tp__apply_slot)(k, i, 2) : NULL;
    for (int64_t e = from; e < to; e++) {
        real less = 0;
        ms[e] += (g[e] * g[e] - ms[e]) * (one - decay);
        if (mg) {
            mg[e] += (g[e] - mg[e]) * (one - decay);
            less = mg[e] * mg[e];
        }
        mom[e] = mu * mom[e] + lr * g[e] / TP__RSQRT(ms[e] - less + eps);
        w[e] -= mom[e];
    }
}
#ifdef TP__ROWS
static const tp_attr tp__rmsprop_schema[] = {TP__ATTR_N, TP__ATTR(tp__rmsprop_attrs, FLOAT, decay),
                                             TP__ATTR(tp__rmsprop_attrs, FLOAT, momentum),
                                             TP__ATTR(tp__rmsprop_attrs, FLOAT, epsilon), TP__ATTRS_END};
TP__OPTIMIZER(rmsprop, "ApplyRMSProp", 2, 3, 1, 8, NULL)

TP_DEF tp_node *tp_apply_rmsprop(tp_node *const *vars, tp_node *const *ms, tp_node *const *moms, tp_node *const *mgs,
                                 tp_node *const *grads, int n, tp_node *lr, float decay, float momentum, float epsilon,
                                 tp_node *pred)
{
    const tp__rmsprop_attrs t = {{n}, decay, momentum, epsilon};
    tp_node *const *slots[3];
    slots[0] = ms, slots[1] = moms, slots[2] = mgs;
    return tp__apply_node(&tp__op_apply_rmsprop, &t, vars, slots, grads, &lr, pred);
}
#endif

/* -- apply_adagrad: a += g^2, w -= lr g / sqrt(a) ----------------------------------------------- >>op apply_adagrad */
TP__HOT static void TP__F(tp__adagrad_piece)(const tp_call *k, int i, int64_t from, int64_t to)
{
    const real lr = TP__F(tp__apply_scalar)(k, TP__LEARNING_RATE), *g = TP__F(tp__apply_gradient)(k, i);
    real *w = TP__F(tp__apply_weight)(k, i), *a = TP__F(tp__apply_slot)(k, i, 0);
    for (int64_t e = from; e < to; e++) {
        a[e] += g[e] * g[e];
        w[e] -= lr * g[e] / TP__RSQRT(a[e]);
    }
}
#ifdef TP__ROWS
static const tp_attr tp__adagrad_schema[] = {TP__ATTR_N, TP__ATTRS_END};
TP__OPTIMIZER(adagrad, "ApplyAdagrad", 1, 1, 1, 4, NULL)

TP_DEF tp_node *tp_apply_adagrad(tp_node *const *vars, tp_node *const *accums, tp_node *const *grads, int n,
                                 tp_node *lr, tp_node *pred)
{
    const tp__adagrad_attrs t = {n};
    return tp__apply_node(&tp__op_apply_adagrad, &t, vars, &accums, grads, &lr, pred);
}
#endif

/* -- apply_adadelta: d = g sqrt(u + epsilon) / sqrt(a + epsilon), w -= lr d -------------------- >>op apply_adadelta
 * a is the average of g^2, u that of d^2. */
TP__HOT static void TP__F(tp__adadelta_piece)(const tp_call *k, int i, int64_t from, int64_t to)
{
    const tp__adadelta_attrs *t = (const tp__adadelta_attrs *)k->attrs;
    const real lr = TP__F(tp__apply_scalar)(k, TP__LEARNING_RATE), one = 1;
    const real rho = (real)t->rho, eps = (real)t->epsilon, *g = TP__F(tp__apply_gradient)(k, i);
    real *w = TP__F(tp__apply_weight)(k, i), *a = TP__F(tp__apply_slot)(k, i, 0), *u = TP__F(tp__apply_slot)(k, i, 1);
    for (int64_t e = from; e < to; e++) {
        a[e] += (g[e] * g[e] - a[e]) * (one - rho);
        const real d = g[e] * TP__RSQRT(u[e] + eps) / TP__RSQRT(a[e] + eps);
        u[e] += (d * d - u[e]) * (one - rho);
        w[e] -= lr * d;
    }
}
#ifdef TP__ROWS
static const tp_attr tp__adadelta_schema[] = {TP__ATTR_N, TP__ATTR(tp__adadelta_attrs, FLOAT, rho),
                                              TP__ATTR(tp__adadelta_attrs, FLOAT, epsilon), TP__ATTRS_END};
TP__OPTIMIZER(adadelta, "ApplyAdadelta", 2, 2, 1, 12, NULL)

TP_DEF tp_node *tp_apply_adadelta(tp_node *const *vars, tp_node *const *accums, tp_node *const *updates,
                                  tp_node *const *grads, int n, tp_node *lr, float rho, float epsilon, tp_node *pred)
{
    const tp__adadelta_attrs t = {{n}, rho, epsilon};
    tp_node *const *slots[2];
    slots[0] = accums, slots[1] = updates;
    return tp__apply_node(&tp__op_apply_adadelta, &t, vars, slots, grads, &lr, pred);
}
#endif

/* -- apply_ftrl: follow the regularized leader ----------------------------------------------------- >>op apply_ftrl
 * With p(x) = x^-lr_power: l += g + 2 shrinkage w - (p(a + g^2) - p(a)) / lr w, a += g^2;
 * w = |l| > l1 ? (l1 sign(l) - l) / (p(a) / lr + 2 l2) : 0. */
TP__HOT static void TP__F(tp__ftrl_piece)(const tp_call *k, int i, int64_t from, int64_t to)
{
    const tp__ftrl_attrs *t = (const tp__ftrl_attrs *)k->attrs;
    const real p = -(real)t->lr_power, l1 = (real)t->l1, l2 = (real)t->l2, shrinkage = (real)t->shrinkage;
    const real lr = TP__F(tp__apply_scalar)(k, TP__LEARNING_RATE), *g = TP__F(tp__apply_gradient)(k, i);
    real *w = TP__F(tp__apply_weight)(k, i), *a = TP__F(tp__apply_slot)(k, i, 0), *l = TP__F(tp__apply_slot)(k, i, 1);
    for (int64_t e = from; e < to; e++) {
        const real sum = a[e] + g[e] * g[e];
        const real before = p == (real)0.5 ? TP__RSQRT(a[e]) : TP__REXP(p * TP__RLOG(a[e]));
        const real after = p == (real)0.5 ? TP__RSQRT(sum) : TP__REXP(p * TP__RLOG(sum));
        l[e] += g[e] + 2 * shrinkage * w[e] - (after - before) / lr * w[e];
        a[e] = sum;
        const real le = l[e], size = le < 0 ? -le : le;
        w[e] = size > l1 ? ((le < 0 ? -l1 : l1) - le) / (after / lr + 2 * l2) : 0;
    }
}
#ifdef TP__ROWS
static const tp_attr tp__ftrl_schema[] = {TP__ATTR_N,
                                          TP__ATTR(tp__ftrl_attrs, FLOAT, lr_power),
                                          TP__ATTR(tp__ftrl_attrs, FLOAT, l1),
                                          TP__ATTR(tp__ftrl_attrs, FLOAT, l2),
                                          TP__ATTR(tp__ftrl_attrs, FLOAT, shrinkage),
                                          TP__ATTRS_END};
TP__OPTIMIZER(ftrl, "ApplyFtrl", 2, 2, 1, 14, NULL)

TP_DEF tp_node *tp_apply_ftrl(tp_node *const *vars, tp_node *const *accums, tp_node *const *linears,
                              tp_node *const *grads, int n, tp_node *lr, float lr_power, float l1, float l2,
                              float shrinkage, tp_node *pred)
{
    const tp__ftrl_attrs t = {{n}, lr_power, l1, l2, shrinkage};
    tp_node *const *slots[2];
    slots[0] = accums, slots[1] = linears;
    return tp__apply_node(&tp__op_apply_ftrl, &t, vars, slots, grads, &lr, pred);
}
#endif

/* -- apply_lion: w -= lr (sign(beta1 m + (1-beta1) g) + decay w), m = beta2 m + (1-beta2) g --------- >>op apply_lion
 * The sign of 0 is 0, that of a NaN is NaN. Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms". */
TP__HOT static void TP__F(tp__lion_piece)(const tp_call *k, int i, int64_t from, int64_t to)
{
    const tp__lion_attrs *t = (const tp__lion_attrs *)k->attrs;
    const real lr = TP__F(tp__apply_scalar)(k, TP__LEARNING_RATE), one = 1;
    const real beta1 = (real)t->beta1, beta2 = (real)t->beta2, decay = (real)t->decay;
    const real *g = TP__F(tp__apply_gradient)(k, i);
    real *w = TP__F(tp__apply_weight)(k, i), *m = TP__F(tp__apply_slot)(k, i, 0);
    for (int64_t e = from; e < to; e++) {
        const real c = beta1 * m[e] + (one - beta1) * g[e], sign = c > 0 ? one : c < 0 ? -one : c;
        w[e] -= lr * (sign + decay * w[e]);
        m[e] = beta2 * m[e] + (one - beta2) * g[e];
    }
}
#ifdef TP__ROWS
static const tp_attr tp__lion_schema[] = {TP__ATTR_N, TP__ATTR(tp__lion_attrs, FLOAT, beta1),
                                          TP__ATTR(tp__lion_attrs, FLOAT, beta2),
                                          TP__ATTR(tp__lion_attrs, FLOAT, decay), TP__ATTRS_END};
TP__OPTIMIZER(lion, "ApplyLion", 1, 1, 1, 9, TP__IF_FAST(tp__lion_fast, NULL))
#endif

/* -- apply_lamb: Adam with a step size per variable, scaled by the variable's norm ----------------- >>op apply_lamb
 * r = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon) + decay w, w -= lr |w| / |r| r. Two passes: the first computes
 * the averages and both squared norms of a piece, the second takes the step. r is computed twice instead of stored. */
static real TP__F(tp__lamb_r)(const tp_call *k, real w, real m, real v)
{
    const tp__adam_attrs *t = (const tp__adam_attrs *)k->attrs;
    const real correction1 = 1 - TP__F(tp__apply_scalar)(k, TP__BETA1_POWER),
               correction2 = 1 - TP__F(tp__apply_scalar)(k, TP__BETA2_POWER);
    return m / correction1 / (TP__RSQRT(v / correction2) + (real)t->epsilon) + (real)t->decay * w;
}
static void TP__F(tp__lamb_piece)(const tp_call *k, int i, int64_t from, int64_t to, double *squares)
{
    const tp__adam_attrs *t = (const tp__adam_attrs *)k->attrs;
    const real *g = TP__F(tp__apply_gradient)(k, i), *w = TP__F(tp__apply_weight)(k, i);
    real *m = TP__F(tp__apply_slot)(k, i, 0), *v = TP__F(tp__apply_slot)(k, i, 1);
    squares[0] = squares[1] = 0;
    for (int64_t e = from; e < to; e++) {
        m[e] += (g[e] - m[e]) * (1 - (real)t->beta1);
        v[e] += (g[e] * g[e] - v[e]) * (1 - (real)t->beta2);
        const real r = TP__F(tp__lamb_r)(k, w[e], m[e], v[e]);
        squares[0] += (double)w[e] * (double)w[e];
        squares[1] += (double)r * (double)r;
    }
}
static void TP__F(tp__lamb_step)(const tp_call *k, int i, int64_t from, int64_t to, const double *squares)
{
    const real ratio = squares[0] > 0 && squares[1] > 0 ? (real)sqrt(squares[0] / squares[1]) : (real)1;
    const real step = TP__F(tp__apply_scalar)(k, TP__LEARNING_RATE) * ratio;
    const real *m = TP__F(tp__apply_slot)(k, i, 0), *v = TP__F(tp__apply_slot)(k, i, 1);
    real *w = TP__F(tp__apply_weight)(k, i);
    for (int64_t e = from; e < to; e++) w[e] -= step * TP__F(tp__lamb_r)(k, w[e], m[e], v[e]);
}
static void TP__F(tp__lamb)(const tp_call *k)
{
    for (int i = 0; i < tp__apply_n(k) && tp__apply_runs(k); i++) {
        double squares[2];
        TP__F(tp__lamb_piece)(k, i, 0, tp__size(&k->var[i]), squares);
        TP__F(tp__lamb_step)(k, i, 0, tp__size(&k->var[i]), squares);
    }
}
#ifdef TP__ROWS
/* LAMB has no function for a piece of a variable, because it needs two passes: it has kernels of its own */
static const tp__update tp__update_lamb = {2, 2, 3, 26, NULL, NULL, NULL};
static const tp_op tp__op_apply_lamb =
    TP__APPLY_ROW("apply_lamb", "ApplyLAMB", TP__ATTRS(adam), tp__update_lamb, TP__IF_FAST(tp__lamb_scratch, NULL),
                  tp__lamb_f32, tp__lamb_f64, tp__lamb_fast);

TP_DEF tp_node *tp_apply_lamb(tp_node *const *vars, tp_node *const *ms, tp_node *const *vs, tp_node *const *grads,
                              int n, tp_node *lr, tp_node *beta1_power, tp_node *beta2_power, float beta1, float beta2,
                              float epsilon, float decay, tp_node *pred)
{
    const tp__adam_attrs t = {{n}, beta1, beta2, epsilon, decay};
    return tp__adam_node(&tp__op_apply_lamb, &t, vars, ms, vs, grads, lr, beta1_power, beta2_power, pred);
}
#undef TP__OPTIMIZER
#undef TP__APPLY_ROW
#undef TP__ATTR_N

/* -- descend: w -= lr a^T b, where a^T b is a gradient that no other op reads ----------------------- >>op descend
 * An op that only the planner makes, from a gradient descent and a product. Inputs: a (K,M), b (K,N), lr. */
static void tp__descend_naive(const tp_call *k)
{
    const int64_t K = k->in[0].shape.dim[0], M = k->in[0].shape.dim[1], N = k->in[1].shape.dim[1];
    const float *a = (const float *)k->in[0].data, *b = (const float *)k->in[1].data,
                lr = *(const float *)k->in[2].data;
    float *w = (float *)k->var[0].data;
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++)
            w[i * N + j] = tp__descend_value(w[i * N + j], lr, tp__dot_f32(K, a + i, M, b + j, N));
}
static double tp__descend_flops(const tp_call *k)
{
    return 2.0 * (double)tp__size(&k->in[0]) * (double)k->in[1].shape.dim[1] + 2.0 * (double)tp__size(&k->var[0]);
}
static const tp_op tp__op_descend =
    TP__ROW("descend", "Descend", TP_OP_WRITES_VAR, TP__IO(3, 0), TP__NO_ATTRS, NULL, NULL,
            TP__KERNELS(tp__descend_naive, NULL, tp__descend_fast),
            TP__FLOPS_SCRATCH(tp__descend_flops, TP__IF_FAST(tp__descend_scratch, NULL)), TP__NO_ONNX);

/* clang-format off */
static const tp_op *const tp__nn_rows[] = {
    &tp__op_matmul, &tp__op_conv2d, &tp__op_conv2d_input_grad, &tp__op_conv2d_filter_grad, &tp__op_bias_add, &tp__op_max_pool, &tp__op_max_pool_grad,
    &tp__op_max_pool_take, &tp__op_avg_pool, &tp__op_avg_pool_grad, &tp__op_batch_norm, &tp__op_batch_norm_grad, &tp__op_batch_norm_infer, &tp__op_softmax,
    &tp__op_log_softmax, &tp__op_sparse_softmax_cross_entropy, &tp__op_dropout, &tp__op_random, &tp__op_assign, &tp__op_assign_add, &tp__op_assign_sub,
    &tp__op_assign_moving_average, &tp__op_read_after, &tp__op_ema_debias, &tp__op_summary, &tp__op_apply_gradient_descent, &tp__op_apply_momentum,
    &tp__op_apply_adam, &tp__op_apply_rmsprop, &tp__op_apply_adagrad, &tp__op_apply_adadelta, &tp__op_apply_ftrl, &tp__op_apply_lamb, &tp__op_apply_lion, &tp__op_lstm, &tp__op_lstm_grad,
    &tp__op_resize, &tp__op_resize_grad, &tp__op_bilinear_sampler, &tp__op_bilinear_sampler_grad, &tp__op_ctc_loss, &tp__op_layer_norm, &tp__op_layer_norm_grad, &tp__op_group_norm, &tp__op_group_norm_grad, &tp__op_attention, &tp__op_attention_grad, &tp__op_gru,
    &tp__op_gru_grad};
/* clang-format on */
#endif
#undef TP__ROUNDED
#undef TP__REXP
#undef TP__RLOG
#undef TP__RTANH
#undef TP__RSQRT
#undef TP__FLOOR
#endif /* real */

#endif /* TP__F */
