/* tp_optim.h - v0.1 - optimizers, gradient processors, learning-rate schedules; all of these build a graph
 *
 * Do this:
 *     #define TP_IMPLEMENTATION        // in ONE .c file, before any other include
 *     #include "tp_optim.h"            // pulls in tp_graph.h
 *
 * WHAT THIS IS       (gradient, variable) pairs of a cost, functions that rewrite these pairs, and optimizers that turn them
 *                    into one node which updates the variables when it runs. Slots (conv0/W/Momentum) have the names that
 *                    TensorFlow gives them and are saved in checkpoints.
 * WHAT THIS IS NOT   a training loop (tp_train.h), or kernels: the fused updates are ops of tp_graph.h.
 *
 * A COMPLETE PROGRAM
 *     #define TP_IMPLEMENTATION
 *     #include "tp_optim.h"
 *     int main(void)
 *     {
 *         tp_graph *g = tp_graph_new(NULL);
 *         tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(2), tp_init_ones());
 *         tp_node *cost = tp_sum(tp_square(tp_affine(w, 1.0f, -3.0f)));
 *         tp_grad_var gv;
 *         tp_compute_gradients(cost, &w, 1, &gv);
 *         tp_optimizer *opt = tp_adam(tp_get_scalar_variable(g, "learning_rate", 0.1f), .epsilon = 1e-3f);
 *         opt = tp_apply_grad_processors(opt, TP_GRADPROCS(tp_gradproc_global_norm_clip(5)));
 *         tp_node *fetch[] = {tp_apply_gradients(opt, &gv, 1), cost};
 *         tp_session *s = tp_session_new(g, NULL);
 *         const tp_tensor *out[2];
 *         tp_status st = s ? TP_OK : TP_ERR;
 *         for (int i = 0; st == TP_OK && i < 200; i++) {
 *             st = tp_session_run(s, NULL, 0, fetch, 2, out);
 *             if (st == TP_OK && i % 50 == 0) printf("step %d: cost %g\n", i, tp_tensor_get(out[1], 0));
 *         }
 *         if (st != TP_OK) puts(tp_last_error());
 *         tp_session_free(s);
 *         tp_graph_free(g);
 *         return st == TP_OK ? 0 : 1;
 *     }
 *
 * CONTENTS   >>gradients >>optimizer >>optimizers >>wrappers >>gradproc >>schedule
 *
 * OWNERSHIP  the graph's arena holds everything. Descriptors and processors are copied.
 * THREADS    as for the graph: only one thread at a time builds a graph.
 * ERRORS     the graph keeps the first error (tp_graph_error); functions that return a node then return the poison node.
 * NOTATION   g gradient, w variable, lr learning rate, t the number of the update, from 1.
 */
#ifndef TP_OPTIM_H
#define TP_OPTIM_H

#include "tp_graph.h"
/* clang-format off */
#if TP_VERSION_MAJOR != 0 || TP_VERSION_MINOR != 1
#error "tp_optim.h 0.1 needs tp_tensor.h 0.1: copy all tp headers from the same version"
#endif
/* clang-format on */

#ifdef __cplusplus
extern "C" {
#endif

/* ==== >>gradients ===================================================================================== */

typedef struct tp_grad_var {
    tp_node *grad; /* the gradient; NULL if the cost does not depend on the variable */
    tp_node *var;  /* the variable's node */
} tp_grad_var;

/* Fills gvs[i] = {d cost / d vars[i], vars[i]}. cost is a floating scalar. Returns the node that was differentiated, or poison
 * after an error. */
TP_DEF tp_node *tp_compute_gradients(tp_node *cost, tp_node *const *vars, int n, tp_grad_var *gvs);

/* ==== >>optimizer ===================================================================================== */
/* The interface of optimizers. An optimizer creates the node that updates variables from their gradients; it may wrap another
 * optimizer. Your own optimizers work like the built-in ones: create one with tp_optimizer_new or tp_optimizer_proxy and a
 * function. */

typedef struct tp_optimizer tp_optimizer;
typedef tp_node *(*tp_apply_fn)(tp_optimizer *o, const tp_grad_var *gvs, int n);
struct tp_optimizer {
    tp_graph *graph;
    const char *name; /* "Adam": name scope of the update, and last part of the slots' names */
    /* Returns the node that does one update. All gradients that it gets are non-NULL and all variables differ. */
    tp_apply_fn apply_gradients;
    tp_node *learning_rate;        /* learning rate, a scalar node, or NULL */
    const char *const *slot_names; /* names of the slots: "m", "v"; an array of n_slots names */
    int n_slots;
    /* loss scale, a scalar: the gradients are expected to be multiplied by it; NULL: there is none */
    tp_node *loss_scale;
    tp_optimizer *inner; /* the optimizer that a proxy wraps, else NULL */
    tp_node *pred;       /* during apply_gradients: a scalar bool; the update happens only where it is true; NULL:
                          * always */
    /* after apply_gradients: a scalar bool, true in runs that update the variables; NULL: all runs do */
    tp_node *updates;
    /* during apply_gradients: an earlier update of the same variables in the same run; NULL: none. Optimizers that apply_gradients
     * calls get this and the next field of the caller */
    tp_node *after;
    /* during apply_gradients: true if another update of the same variables follows in the same run. State that belongs to no
     * variable (Adam's powers) advances once per run, in the last update: the others leave it unchanged */
    bool more;
    void *user;
    tp_optimizer *caller_;  /* during apply_gradients: the optimizer that called this one, or NULL */
    int n_called_;          /* number of optimizers that apply_gradients has called so far */
    bool scales_costs_;     /* tp_optimizer_compute_gradients has multiplied a cost by loss_scale */
    struct tp__slot *slots; /* list of the scalars that tp_optimizer_scalar created */
};

/* apply_gradients NULL: set the field later, before the optimizer is used; until then updates fail with a sentence. */
TP_DEF tp_optimizer *tp_optimizer_new(tp_graph *g, const char *name, tp_apply_fn apply_gradients, void *user);
/* Forwards everything to `inner`, except that apply_gradients calls the function, if it is not NULL. [optimizer:
 * ProxyOptimizer] */
TP_DEF tp_optimizer *tp_optimizer_proxy(tp_optimizer *inner, const char *name, tp_apply_fn apply_gradients, void *user);

/* Calls tp_compute_gradients for the cost, multiplied by the optimizer's loss scale if it has one. */
TP_DEF tp_node *tp_optimizer_compute_gradients(tp_optimizer *o, tp_node *cost, tp_node *const *vars, int n,
                                               tp_grad_var *gvs);
/* One node without a value that updates every variable of the list. Pairs without a gradient are skipped. */
TP_DEF tp_node *tp_apply_gradients(tp_optimizer *o, const tp_grad_var *gvs, int n);
/* Gradients and update in one call, for the trainable variables whose name matches the regex (>>regex of tp_graph.h) from its
 * start, such as "gen/.*"; NULL: all. It is an error if no variable matches, or if the cost depends on none: nothing would be
 * trained. A warning names the others that get no gradient, but not frozen ones. The node does not count steps: a loop of your own
 * that has a schedule runs tp_increment_global_step too. */
TP_DEF tp_node *tp_minimize(tp_optimizer *o, tp_node *cost, const char *regex);
/* tp_apply_gradients that updates only if `pred` (scalar bool, or NULL: always) is true at run time: for optimizers that wrap
 * others. */
TP_DEF tp_node *tp_apply_gradients_if(tp_optimizer *o, const tp_grad_var *gvs, int n, tp_node *pred);

/* The slot of a variable, created at first use: same shape and dtype, not trained, saved if the variable is. It is named
 * <var>/<suffix>; _1, _2, ... are appended if the name is taken. suffix NULL = the optimizer's name. */
TP_DEF tp_node *tp_optimizer_slot(tp_optimizer *o, tp_node *var, const char *slot, const char *suffix, tp_init init);
/* Like tp_optimizer_slot, for a scalar float32 that belongs to no variable: named `name`, outside any scope. */
TP_DEF tp_node *tp_optimizer_scalar(tp_optimizer *o, const char *name, float init);
/* The value of a slot or scalar when this update begins: its value at the start of the run, or after the update `after`. */
TP_DEF tp_node *tp_optimizer_read(const tp_optimizer *o, tp_node *slot);
/* The slot of var, or NULL if there is none. */
TP_DEF tp_node *tp_get_slot(const tp_optimizer *o, const tp_node *var, const char *slot);
TP_DEF const char *const *tp_get_slot_names(const tp_optimizer *o, int *n);

/* ==== >>optimizers ==================================================================================== */
/* opt = tp_adam(lr, .epsilon = 1e-3f): lr is a scalar node, usually tp_get_scalar_variable(g, "learning_rate", 1e-3f), which
 * callbacks can set and checkpoints save, or a schedule. In tp_adam_(lr, &d), d may be NULL. */

/* gradient descent: w -= lr*g */
typedef struct tp_sgd_desc {
    tp_at at_;
} tp_sgd_desc;
TP_DEF tp_optimizer *tp_sgd_(tp_node *lr, const tp_sgd_desc *d);

/* Momentum: a = momentum*a + g; w -= lr*a, or with nesterov w -= lr*(g + momentum*a). Slot "momentum": <var>/Momentum. */
typedef struct tp_momentum_desc {
    tp_at at_;
    float momentum;      /* decay of the accumulated gradient; default 0.9; write TP_ZERO for 0 */
    tp_tri use_nesterov; /* whether Nesterov's formula is used; default TP_NO; for tp_nesterov: TP_YES */
} tp_momentum_desc;
typedef tp_momentum_desc tp_nesterov_desc;
TP_DEF tp_optimizer *tp_momentum_(tp_node *lr, const tp_momentum_desc *d);
TP_DEF tp_optimizer *tp_nesterov_(tp_node *lr, const tp_nesterov_desc *d);

/* Adam: m += (1-beta1)*(g - m); v += (1-beta2)*(g*g - v); w -= lr*sqrt(1-beta2^t)/(1-beta1^t) * m/(sqrt(v)+epsilon):
 * epsilon is added to the root before the bias of v is corrected, as in TensorFlow. PyTorch corrects v first. So the same
 * epsilon acts here 1/sqrt(1-beta2^t) times as strongly: 32 times in the first update, alike after some thousands. Slots "m":
 * <var>/Adam, "v": <var>/Adam_1; the scalars beta1_power and beta2_power hold beta^t of the next update. */
typedef struct tp_adam_desc {
    tp_at at_;
    float beta1;   /* decay of the average of gradients; default 0.9; write TP_ZERO for 0 */
    float beta2;   /* decay of the average of squared gradients; default 0.999; write TP_ZERO for 0 */
    float epsilon; /* added to avoid a division by 0; default 1e-8; write TP_ZERO for 0 */
} tp_adam_desc;
TP_DEF tp_optimizer *tp_adam_(tp_node *lr, const tp_adam_desc *d);

/* AdamW: first w -= lr*decay*w, then Adam; so the decay is not part of the averages. Slots as in Adam. */
typedef struct tp_adamw_desc {
    tp_at at_;
    float beta1;        /* decay of the average of gradients; default 0.9; write TP_ZERO for 0 */
    float beta2;        /* decay of the average of squared gradients; default 0.999; write TP_ZERO for 0 */
    float epsilon;      /* added to avoid a division by 0; default 1e-8; write TP_ZERO for 0 */
    float weight_decay; /* rate of the weight decay; default 0.01; write TP_ZERO for 0 */
} tp_adamw_desc;
TP_DEF tp_optimizer *tp_adamw_(tp_node *lr, const tp_adamw_desc *d);

/* RMSProp: ms = decay*ms + (1-decay)*g*g, where ms starts at 1; mom = momentum*mom + lr*g/sqrt(ms+epsilon); w -= mom. Centered:
 * ms minus the square of the averaged gradient mg replaces ms under the root. Slots "rms": <var>/RMSProp, "momentum":
 * <var>/RMSProp_1; centered: "rms": <var>/RMSProp, "mg": <var>/RMSProp_1, "momentum": <var>/RMSProp_2. */
typedef struct tp_rmsprop_desc {
    tp_at at_;
    float decay;     /* decay of the average of squared gradients; default 0.9; write TP_ZERO for 0 */
    float momentum;  /* 0 */
    float epsilon;   /* added to avoid a division by 0; default 1e-10; write TP_ZERO for 0 */
    tp_tri centered; /* whether the square of the averaged gradient is subtracted; default TP_NO */
} tp_rmsprop_desc;
TP_DEF tp_optimizer *tp_rmsprop_(tp_node *lr, const tp_rmsprop_desc *d);

/* Adagrad: a += g*g, where a starts at initial_accumulator_value; w -= lr*g/sqrt(a). Slot "accumulator": <var>/Adagrad. */
typedef struct tp_adagrad_desc {
    tp_at at_;
    float initial_accumulator_value; /* initial value of the slot a; default 0.1 */
} tp_adagrad_desc;
TP_DEF tp_optimizer *tp_adagrad_(tp_node *lr, const tp_adagrad_desc *d);

/* Adadelta: a = rho*a + (1-rho)*g*g; d = g*sqrt(u+epsilon)/sqrt(a+epsilon); u = rho*u + (1-rho)*d*d; w -= lr*d. Slots
 * "accum": <var>/Adadelta, "accum_update": <var>/Adadelta_1. */
typedef struct tp_adadelta_desc {
    tp_at at_;
    float rho;     /* decay of both averages; default 0.95; write TP_ZERO for 0 */
    float epsilon; /* added to avoid a division by 0; default 1e-8 */
} tp_adadelta_desc;
TP_DEF tp_optimizer *tp_adadelta_(tp_node *lr, const tp_adadelta_desc *d);

/* Follow the regularized leader: tp_apply_ftrl has the formula. l1 sets small weights to exactly 0. Slots "accum": <var>/Ftrl,
 * which starts at initial_accumulator_value, "linear": <var>/Ftrl_1. */
typedef struct tp_ftrl_desc {
    tp_at at_;
    /* exponent of the accumulated squares; default -0.5; write TP_ZERO for 0; never positive */
    float learning_rate_power;
    float initial_accumulator_value; /* initial value of the slot accum; default 0.1 */
    float l1, l2, l2_shrinkage;      /* 0 */
} tp_ftrl_desc;
TP_DEF tp_optimizer *tp_ftrl_(tp_node *lr, const tp_ftrl_desc *d);

/* Layer-wise adaptive Adam for large batches: tp_apply_lamb has the formula. Slots "m": <var>/LAMB, "v": <var>/LAMB_1. */
typedef struct tp_lamb_desc {
    tp_at at_;
    float beta1;        /* decay of the average of gradients; default 0.9; write TP_ZERO for 0 */
    float beta2;        /* decay of the average of squared gradients; default 0.999; write TP_ZERO for 0 */
    float epsilon;      /* added to avoid a division by 0; default 1e-6; write TP_ZERO for 0 */
    float weight_decay; /* 0 */
} tp_lamb_desc;
TP_DEF tp_optimizer *tp_lamb_(tp_node *lr, const tp_lamb_desc *d);

/* Lion: w -= lr*(sign(beta1*m + (1-beta1)*g) + weight_decay*w), then m = beta2*m + (1-beta2)*g. Each weight moves by lr in each
 * step, so lr is smaller than Adam's by a factor of 3 to 10, and weight_decay is larger by the same factor. Slot "m":
 * <var>/Lion. */
typedef struct tp_lion_desc {
    tp_at at_;
    float beta1;        /* weight of m in the update; default 0.9; TP_ZERO for 0 */
    float beta2;        /* decay of the average of gradients; default 0.99; TP_ZERO for 0 */
    float weight_decay; /* rate of the weight decay; default 0 */
} tp_lion_desc;
TP_DEF tp_optimizer *tp_lion_(tp_node *lr, const tp_lion_desc *d);

TP_DEF const tp__zero_option *tp__optim_zeros(void);
/* clang-format off */
#ifndef __cplusplus
#define TP__OPTIMIZER(fn_, text_, lr_, ...) fn_##_((lr_), TP__NAMED(optim, fn_##_desc, text_, __VA_ARGS__))
#define tp_sgd(...)      TP__OPTIMIZER(tp_sgd, #__VA_ARGS__, __VA_ARGS__, .at_ = TP_AT)
#define tp_momentum(...) TP__OPTIMIZER(tp_momentum, #__VA_ARGS__, __VA_ARGS__, .at_ = TP_AT)
#define tp_nesterov(...) TP__OPTIMIZER(tp_nesterov, #__VA_ARGS__, __VA_ARGS__, .at_ = TP_AT)
#define tp_adam(...)     TP__OPTIMIZER(tp_adam, #__VA_ARGS__, __VA_ARGS__, .at_ = TP_AT)
#define tp_adamw(...)    TP__OPTIMIZER(tp_adamw, #__VA_ARGS__, __VA_ARGS__, .at_ = TP_AT)
#define tp_rmsprop(...)  TP__OPTIMIZER(tp_rmsprop, #__VA_ARGS__, __VA_ARGS__, .at_ = TP_AT)
#define tp_adagrad(...)  TP__OPTIMIZER(tp_adagrad, #__VA_ARGS__, __VA_ARGS__, .at_ = TP_AT)
#define tp_adadelta(...) TP__OPTIMIZER(tp_adadelta, #__VA_ARGS__, __VA_ARGS__, .at_ = TP_AT)
#define tp_ftrl(...)     TP__OPTIMIZER(tp_ftrl, #__VA_ARGS__, __VA_ARGS__, .at_ = TP_AT)
#define tp_lamb(...)     TP__OPTIMIZER(tp_lamb, #__VA_ARGS__, __VA_ARGS__, .at_ = TP_AT)
#define tp_lion(...)     TP__OPTIMIZER(tp_lion, #__VA_ARGS__, __VA_ARGS__, .at_ = TP_AT)
#elif __cplusplus >= 202002L
#define tp_sgd(lr_, ...)      TP__CALL_X(optim, tp_sgd, lr_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_momentum(lr_, ...) TP__CALL_X(optim, tp_momentum, lr_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_nesterov(lr_, ...) TP__CALL_X(optim, tp_nesterov, lr_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_adam(lr_, ...)     TP__CALL_X(optim, tp_adam, lr_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_adamw(lr_, ...)    TP__CALL_X(optim, tp_adamw, lr_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_rmsprop(lr_, ...)  TP__CALL_X(optim, tp_rmsprop, lr_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_adagrad(lr_, ...)  TP__CALL_X(optim, tp_adagrad, lr_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_adadelta(lr_, ...) TP__CALL_X(optim, tp_adadelta, lr_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_ftrl(lr_, ...)     TP__CALL_X(optim, tp_ftrl, lr_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_lamb(lr_, ...)     TP__CALL_X(optim, tp_lamb, lr_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_lion(lr_, ...)     TP__CALL_X(optim, tp_lion, lr_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#endif
/* clang-format on */

/* ==== >>wrappers ====================================================================================== */
/* Optimizers that wrap other optimizers. Their order matters: tp_accum_grad(tp_apply_grad_processors(opt, ..)) processes the
 * accumulated gradient, tp_apply_grad_processors(tp_accum_grad(opt, ..), ..) processes each gradient before it is added.
 * tp_post_process and tp_variable_assignment act in runs that update the variables, inside tp_accum_grad and tp_loss_scale as well as
 * around them (in tensorpack, around AccumGradOptimizer, they act in each run). */

/* After the whole update, calls op = fn(var, updated, pred, user) for each updated variable, where `updated` is the variable's
 * new value and `pred`, if not NULL, a scalar bool that is true if the update happens in this run. fn returns a node that is
 * run for its effect, or NULL. tp_async_multi_gpu_trainer makes one update for each device, and each calls fn: open the scope of
 * variables that fn makes with .reuse = TP_REUSE_AUTO. [optimizer: PostProcessOptimizer] */
typedef tp_node *(*tp_post_process_fn)(tp_node *var, tp_node *updated, tp_node *pred, void *user);
TP_DEF tp_optimizer *tp_post_process(tp_optimizer *opt, tp_post_process_fn fn, void *user);
/* After the whole update, var = fn(updated, var, user); the variable is not changed if fn returns NULL.
 * [VariableAssignmentOptimizer] */
typedef tp_node *(*tp_assignment_fn)(tp_node *updated, tp_node *var, void *user);
TP_DEF tp_optimizer *tp_variable_assignment(tp_optimizer *opt, tp_assignment_fn fn, void *user);
/* Optimizers for parts of the model: each variable is updated by the first part whose regex matches its name, by the rules of
 * >>gradproc. It is an error if a variable has no part, or if an optimizer has two.
 *     tp_optimizer_part part[] = {{"conv.*", tp_sgd(lr)}, {".*", tp_adam(lr)}};
 *     opt = tp_multi_optimizer(part, 2);
 * Wrappers around it, such as a clip by the norm of all gradients, get the gradients of all parts; tp_post_process around it acts in
 * runs in which one of the parts updates. tp_get_slot takes the optimizer of the part. The list is copied. Servers of tp_train.h refuse
 * it. */
typedef struct tp_optimizer_part {
    const char *regex; /* NULL: all names */
    tp_optimizer *opt;
} tp_optimizer_part;
TP_DEF tp_optimizer *tp_multi_optimizer(const tp_optimizer_part *parts, int n);
/* Adds up gradients in slots <var>/AccumGrad and gives `opt` their sum (not their mean) at every niter-th call; in between
 * `opt` changes neither variables nor its own slots. The variable AccumGrad/counter counts the calls. global_step, and schedules
 * that follow it, count each call, too. [AccumGradOptimizer] */
TP_DEF tp_optimizer *tp_accum_grad(tp_optimizer *opt, int niter);
/* For float16, whose small gradients vanish: the cost is multiplied by a scale (tp_optimizer_compute_gradients does it) and the
 * gradients are divided by it before `opt` uses them. If one of them is not finite, the update is skipped and the scale halved;
 * after `interval` finite updates in a row it is doubled, up to 2^126. Wrap it around all other wrappers: what is around it gets
 * gradients multiplied by the scale. Variables should be float32 (as with .precision of a session): the gradient of a float16
 * variable is divided in float32, but is float16 again after that, and may vanish there. Variables loss_scale and
 * loss_scale/good_steps, not trained, saved. */
typedef struct tp_loss_scale_desc {
    tp_at at_;
    float initial; /* initial scale of the cost; default 65536 */
    int interval;  /* finite updates in a row after which the scale is doubled; default 2000 */
    float minimum; /* lower bound of the scale, at most initial; default 1, or initial if that is less */
} tp_loss_scale_desc;
TP_DEF tp_optimizer *tp_loss_scale_(tp_optimizer *opt, const tp_loss_scale_desc *d);
#ifndef __cplusplus
#define tp_loss_scale(...) TP__OPTIMIZER(tp_loss_scale, #__VA_ARGS__, __VA_ARGS__, .at_ = TP_AT)
#elif __cplusplus >= 202002L
#define tp_loss_scale(opt_, ...) TP__CALL_X(optim, tp_loss_scale, opt_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#endif

/* ==== >>gradproc ====================================================================================== */
/* A gradient processor maps a list of pairs to a list of pairs. [gradproc: GradientProcessor] Rules that name variables
 * are regular expressions (>>regex of tp_graph.h) matched from the start of the name, with `$` appended: in a|b the `$` belongs
 * to b only. A regex that matches no variable gives a warning. If each tower has variables of its own, the processors run once
 * for each tower, with that tower's pairs, after the all-reduce: each processes one copy of each gradient. The rules use the
 * names of the first tower (tp_variable.copy_of); gradients are summarised and printed for that tower only. */

typedef struct tp_grad_rule {
    const char *regex;
    float multiplier; /* factor of the gradient; exactly 0: the pair is dropped, which freezes the variable */
} tp_grad_rule;

typedef struct tp_gradproc tp_gradproc;
struct tp_gradproc {
    const char *name; /* name scope of the processor */
    /* Rewrites gvs in place and returns the number of remaining pairs (at most n). Gradients may be NULL. */
    int (*process)(const tp_gradproc *p, tp_graph *g, tp_grad_var *gvs, int n);
    void *user;
    /* fields that the built-in processors use */
    float value;
    const char *regex;
    const tp_grad_rule *rules;
    int n_rules;
    tp_node *(*map)(tp_node *grad, tp_node *var, void *user);
    bool quiet;
    const char *const *collections; /* for SummaryGradient: names of collections; ends with NULL */
    tp_at at_;                      /* the place of the call that created it; file may be NULL */
};

/* Drops pairs without a gradient, with one warning that names their variables; frozen ones (TP_FREEZE_VARIABLES) are not named.
 * [FilterNoneGrad] */
TP_DEF tp_gradproc tp_gradproc_filter_none(void);
/* If n = sqrt(the sum of squares over ALL gradients) exceeds norm, multiplies each by norm/n. A norm that is not finite makes
 * every gradient NaN. It is float64 if one of the gradients is, else float32. [GlobalNormClip] */
TP_DEF tp_gradproc tp_gradproc_global_norm_clip(float norm);
/* Multiplies the gradients of matching variables; if several rules match, the first one is used. [ScaleGradient] */
TP_DEF tp_gradproc tp_gradproc_scale(const char *regex, float multiplier);
TP_DEF tp_gradproc tp_gradproc_scale_rules(const tp_grad_rule *rules, int n);
/* grad = fn(grad, var, user) for matching variables (regex NULL: all); the pair is dropped if fn returns NULL. [MapGradient] */
TP_DEF tp_gradproc tp_gradproc_map(tp_node *(*fn)(tp_node *grad, tp_node *var, void *user), void *user,
                                   const char *regex);

/* Adds a histogram <var>-grad and a moving summary <var>/rms of the gradients of matching variables (regex NULL: all), once per
 * variable. tp_gradproc_summary_to adds the histograms to `collections` (ends with NULL) instead of TP_KEY_SUMMARIES; the list is
 * copied by tp_apply_grad_processors. [SummaryGradient] */
TP_DEF tp_gradproc tp_gradproc_summary(const char *regex);
TP_DEF tp_gradproc tp_gradproc_summary_to(const char *regex, const char *const *collections);
/* Logs shape, mean, rms and the first elements of each gradient when it is used, once per variable. [PrintGradient] */
TP_DEF tp_gradproc tp_gradproc_print(const char *regex);
/* A run fails if a gradient contains a NaN or an infinity; the error names the variable. [CheckGradient] */
TP_DEF tp_gradproc tp_gradproc_check(void);

/* Sets the place that errors of this processor report. */
TP_DEF tp_gradproc tp_gradproc_at(tp_gradproc p, tp_at at);
#ifdef TP_KEYWORDS
/* A literal among the arguments has commas that a macro takes for its own: ... takes them all. */
#define tp_gradproc_scale(regex_, factor_)  tp_gradproc_at((tp_gradproc_scale)(regex_, factor_), TP_HERE)
#define tp_gradproc_scale_rules(...)        tp_gradproc_at((tp_gradproc_scale_rules)(__VA_ARGS__), TP_HERE)
#define tp_gradproc_map(...)                tp_gradproc_at((tp_gradproc_map)(__VA_ARGS__), TP_HERE)
#define tp_gradproc_summary(regex_)         tp_gradproc_at((tp_gradproc_summary)(regex_), TP_HERE)
#define tp_gradproc_summary_to(regex_, ...) tp_gradproc_at((tp_gradproc_summary_to)(regex_, __VA_ARGS__), TP_HERE)
#define tp_gradproc_print(regex_)           tp_gradproc_at((tp_gradproc_print)(regex_), TP_HERE)
#endif

/* Runs one processor in its name scope; returns the number of remaining pairs. */
TP_DEF int tp_gradproc_run(const tp_gradproc *p, tp_graph *g, tp_grad_var *gvs, int n);
/* An optimizer that runs the processors in order and then `opt`. */
TP_DEF tp_optimizer *tp_apply_grad_processors(tp_optimizer *opt, const tp_gradproc *procs, int n);
/* clang-format off */
#ifndef __cplusplus
/* opt = tp_apply_grad_processors(opt, TP_GRADPROCS(tp_gradproc_filter_none(), tp_gradproc_global_norm_clip(5))) */
#define TP_GRADPROCS(...) \
    (const tp_gradproc[]){__VA_ARGS__}, (int)(sizeof((const tp_gradproc[]){__VA_ARGS__}) / sizeof(tp_gradproc))
#elif __cplusplus >= 202002L
#define TP_GRADPROCS(...) TP__LIST(tp_gradproc, __VA_ARGS__)
#endif
/* clang-format on */

/* ==== >>schedule ====================================================================================== */
/* Schedules: float32 scalars computed from a step, which is an integer scalar node, or NULL for the global step. A trainer adds 1 to
 * the global step in each step. In a loop of your own nothing does: a schedule stands still, and a warm-up from 0 trains nothing,
 * unless each step also runs tp_increment_global_step. */

/* A node that adds 1 to the global step; its value is the new step. Nodes of the same run that read the global step, such as
 * schedules, read the value of before. For loops of your own: a trainer counts by itself. The graph has the error.
 * [tf.train.global_step of a hand-written loop] */
TP_DEF tp_node *tp_increment_global_step(tp_graph *g);

/* exponential decay: lr * rate^(step/decay_steps); with staircase the exponent is rounded down */
TP_DEF tp_node *tp_exponential_decay(tp_graph *g, float lr, tp_node *step, int64_t decay_steps, float rate,
                                     bool staircase);
/* cosine decay from lr to alpha*lr, then constant: lr * (alpha + (1-alpha) (1 + cos(pi min(step,
 * decay_steps)/decay_steps)) / 2) */
TP_DEF tp_node *tp_cosine_decay(tp_graph *g, float lr, tp_node *step, int64_t decay_steps, float alpha);
/* A learning rate that rises along a straight line in the first `steps` steps, from lr * start to lr:
 * lr * (start + (1-start) * step/steps). After these steps it is lr. lr is any floating scalar node, such as the result
 * of tp_cosine_decay. */
TP_DEF tp_node *tp_warm_up(tp_node *lr, tp_node *step, int64_t steps, float start);
/* A piecewise constant rate: values[0] while step <= boundaries[0], values[1] while step <= boundaries[1], ...
 * values[n] after the last boundary. The n boundaries must increase. */
TP_DEF tp_node *tp_piecewise_constant(tp_graph *g, tp_node *step, const int64_t *boundaries, const float *values,
                                      int n);

/* The macros record the place of each call: see >>places of tp_graph.h. */
/* clang-format off */
#define tp_compute_gradients(...) TP__PLACED(tp__node_at, tp_compute_gradients(__VA_ARGS__))
#define tp_optimizer_compute_gradients(...) TP__PLACED(tp__node_at, tp_optimizer_compute_gradients(__VA_ARGS__))
#define tp_apply_gradients(...)    TP__PLACED(tp__node_at, tp_apply_gradients(__VA_ARGS__))
#define tp_minimize(...)           TP__PLACED(tp__node_at, tp_minimize(__VA_ARGS__))
#define tp_cosine_decay(...)       TP__PLACED(tp__node_at, tp_cosine_decay(__VA_ARGS__))
#define tp_warm_up(...)            TP__PLACED(tp__node_at, tp_warm_up(__VA_ARGS__))
#define tp_apply_gradients_if(...) TP__PLACED(tp__node_at, tp_apply_gradients_if(__VA_ARGS__))
#define tp_optimizer_slot(...)     TP__PLACED(tp__node_at, tp_optimizer_slot(__VA_ARGS__))
#define tp_optimizer_scalar(...)   TP__PLACED(tp__node_at, tp_optimizer_scalar(__VA_ARGS__))
#define tp_increment_global_step(...) TP__PLACED(tp__node_at, tp_increment_global_step(__VA_ARGS__))
#define tp_exponential_decay(...)  TP__PLACED(tp__node_at, tp_exponential_decay(__VA_ARGS__))
#define tp_piecewise_constant(...) TP__PLACED(tp__node_at, tp_piecewise_constant(__VA_ARGS__))
/* clang-format on */

#ifdef __cplusplus
}
#endif
#endif /* TP_OPTIM_H */

/* ===== STOP HERE if you only want to use the library. Everything below is implementation. ===== */
#if defined(TP_IMPLEMENTATION) && !defined(TP__OPTIM_IMPLEMENTED)
#define TP__OPTIM_IMPLEMENTED
#undef TP__PLACED
#define TP__PLACED TP__UNPLACED
TP__EXACT_BEGIN
TP__COLD_BEGIN

/* Returns the list of the options whose default is not 0: see OPTIONS in tp_tensor.h. */
TP_DEF const tp__zero_option *tp__optim_zeros(void)
{
    /* clang-format off */
    static const tp__zero_option options[] = {
        TP__ZERO_OPTION(tp_momentum_desc, momentum, ZERO),
        TP__ZERO_OPTION(tp_momentum_desc, use_nesterov, NO),
        TP__ZERO_OPTION(tp_nesterov_desc, momentum, ZERO),
        TP__ZERO_OPTION(tp_nesterov_desc, use_nesterov, NO),
        TP__ZERO_OPTION(tp_adam_desc, beta1, ZERO),
        TP__ZERO_OPTION(tp_adam_desc, beta2, ZERO),
        TP__ZERO_OPTION(tp_adam_desc, epsilon, ZERO),
        TP__ZERO_OPTION(tp_adamw_desc, beta1, ZERO),
        TP__ZERO_OPTION(tp_adamw_desc, beta2, ZERO),
        TP__ZERO_OPTION(tp_adamw_desc, epsilon, ZERO),
        TP__ZERO_OPTION(tp_adamw_desc, weight_decay, ZERO),
        TP__ZERO_OPTION(tp_rmsprop_desc, decay, ZERO),
        TP__ZERO_OPTION(tp_rmsprop_desc, epsilon, ZERO),
        TP__ZERO_OPTION(tp_adadelta_desc, rho, ZERO),
        TP__ZERO_OPTION(tp_ftrl_desc, learning_rate_power, ZERO),
        TP__ZERO_OPTION(tp_lamb_desc, beta1, ZERO),
        TP__ZERO_OPTION(tp_lamb_desc, beta2, ZERO),
        TP__ZERO_OPTION(tp_lamb_desc, epsilon, ZERO),
        TP__ZERO_OPTION(tp_lion_desc, beta1, ZERO),
        TP__ZERO_OPTION(tp_lion_desc, beta2, ZERO),
        {NULL, NULL, 0, 0, TP__ZERO_NO},
    };
    /* clang-format on */
    return options;
}

/* ==== >>gradients ===================================================================================== */

static void tp__compute_gradients(tp_node *cost, tp_node *const *vars, int n, tp_grad_var *gvs)
{
    for (int i = 0; i < n; i++) {
        gvs[i].grad = NULL;
        gvs[i].var = vars[i];
    }
    TP__GRAPH_REQUIRE(tp__list_graph(vars, n), cost, )
    if (tp_is_poison(cost) || n == 0) return;
    tp_graph *g = tp_node_graph(cost);
    char t[TP_SHAPE_TEXT];
    if (cost->shape.ndim != 0) {
        tp_graph_fail(g, NULL, TP_ERR_SHAPE, "the cost '%s' has shape %s: it must be a scalar, take its mean",
                      tp_node_name(cost), tp_shape_text(&cost->shape, t));
        return;
    }
    tp_node **grad = (tp_node **)tp_graph_alloc(g, (size_t)n * sizeof *grad);
    tp_node **var = (tp_node **)tp_graph_alloc(g, (size_t)n * sizeof *var);
    if (!grad || !var) return;
    for (int i = 0; i < n; i++) var[i] = vars[i]; /* copied, as the array of a collection may be reallocated */
    tp_gradients(cost, var, n, grad);
    for (int i = 0; i < n; i++) gvs[i].grad = grad[i];
}

TP_DEF tp_node *tp_compute_gradients(tp_node *cost, tp_node *const *vars, int n, tp_grad_var *gvs)
{
    tp_graph *g = cost ? tp_node_graph(cost) : vars && n > 0 ? tp__list_graph(vars, n) : NULL;
    TP__REQUIRE(gvs && (vars || n == 0) && n >= 0, tp_poison(g))
    tp__compute_gradients(cost, vars, n, gvs);
    return g && cost && tp_graph_status(g) == TP_OK ? cost : tp_poison(g);
}

TP_DEF tp_node *tp_optimizer_compute_gradients(tp_optimizer *o, tp_node *cost, tp_node *const *vars, int n,
                                               tp_grad_var *gvs)
{
    TP__REQUIRE(gvs && (vars || n == 0) && n >= 0, tp_poison(tp_node_graph(cost)))

    tp_node *scale = o ? o->loss_scale : NULL;
    if (scale) o->scales_costs_ = true;
    return tp_compute_gradients(scale && !tp_is_poison(cost) ? tp_mul(cost, tp__as_dtype(scale, cost->dtype)) : cost,
                                vars, n, gvs);
}

/* ==== >>optimizer ===================================================================================== */

struct tp__slot {
    const tp_optimizer *owner; /* a variable's list has the slots of all optimizers */
    const tp_node *var;        /* the slot's variable; NULL: the slot is a scalar that belongs to the optimizer */
    const char *name;
    tp_node *node;
    struct tp__slot *next;
};

/* Reports an optimizer that is NULL, with the sentence of the error before, as that tells why no optimizer was made. */
static tp_optimizer *tp__no_optimizer(tp_graph *g, const char *function)
{
    char before[TP__ERROR_TEXT];
    tp__format(before, sizeof before, "%s", tp_last_error());
    tp_graph_fail(g, NULL, TP_ERR_ARG, "%s: there is no optimizer: it is NULL%s%s", function,
                  *before ? "; the error before this one: " : "", before);
    return NULL;
}

TP_DEF tp_optimizer *tp_optimizer_new(tp_graph *g, const char *name, tp_apply_fn apply_gradients, void *user)
{
    TP__REQUIRE(g && name, NULL)

    tp_optimizer *o = (tp_optimizer *)tp_graph_alloc(g, sizeof *o);
    if (!o) return NULL;
    o->graph = g;
    o->name = tp_graph_strdup(g, name);
    o->apply_gradients = apply_gradients;
    o->user = user;
    return o->name ? o : NULL;
}

static tp_node *tp__proxy_apply(tp_optimizer *o, const tp_grad_var *gvs, int n)
{
    return tp_apply_gradients_if(o->inner, gvs, n, o->pred);
}

TP_DEF tp_optimizer *tp_optimizer_proxy(tp_optimizer *inner, const char *name, tp_apply_fn apply_gradients, void *user)
{
    if (!inner) return tp__no_optimizer(NULL, "tp_optimizer_proxy");

    tp_optimizer *o = tp_optimizer_new(inner->graph, name, apply_gradients ? apply_gradients : tp__proxy_apply, user);
    if (!o) return NULL;
    o->inner = inner;
    o->learning_rate = inner->learning_rate;
    o->loss_scale = inner->loss_scale;
    return o;
}

/* Whether an operation from number `first` on writes one of the variables. */
static bool tp__updates_a_variable(const tp_graph *g, int first, const tp_grad_var *gvs, int n)
{
    for (int id = first; id < tp_graph_n_operations(g); id++) {
        const tp_operation *op = tp_graph_operation(g, id);
        for (int i = 0; i < op->n_var; i++)
            for (int j = 0; j < n; j++)
                if (op->var[i] == tp_node_variable(gvs[j].var)) return true;
    }
    return false;
}

/* Calls apply_gradients. Optimizers that it calls in turn add to o->updates. */
static tp_node *tp__call_optimizer(tp_optimizer *o, const tp_grad_var *gvs, int n, tp_node *pred)
{
    tp_optimizer *caller = o->graph->optimizer;
    tp_node *outer = o->pred;
    if (caller) o->after = caller->after, o->more = caller->more;
    o->pred = pred;
    o->n_called_ = 0;
    o->caller_ = caller;
    o->graph->optimizer = o;
    tp_node *op = o->apply_gradients(o, gvs, n);
    o->graph->optimizer = caller;
    o->pred = outer;
    if (o->n_called_ == 0) o->updates = pred;
    if (!caller) return op;
    o->after = NULL, o->more = false;
    if (caller->n_called_++ == 0) caller->updates = o->updates;
    else caller->updates = caller->updates && o->updates ? tp_logical_or(caller->updates, o->updates) : NULL;
    return op;
}

TP_DEF tp_node *tp_apply_gradients_if(tp_optimizer *o, const tp_grad_var *gvs, int n, tp_node *pred)
{
    TP__GRAPH_REQUIRE(o ? o->graph : NULL, (gvs || n == 0) && n >= 0, tp_poison(o ? o->graph : NULL))

    tp_graph *g = o ? o->graph : n > 0 ? tp_node_graph(gvs[0].var) : NULL;
    if (!o) return tp__no_optimizer(g, "tp_apply_gradients"), tp_poison(g);
    if (tp_graph_status(g) != TP_OK) return tp_poison(g);
    if (!o->apply_gradients)
        return tp_graph_fail(g, NULL, TP_ERR_ARG, "%s: its apply_gradients is NULL: give tp_optimizer_new a function",
                             o->name);
    tp_grad_var *with_gradient = (tp_grad_var *)tp_graph_alloc(g, (size_t)n * sizeof *with_gradient);
    if (!with_gradient) return tp_poison(g);
    int kept = 0;
    for (int i = 0; i < n; i++) {
        const tp_variable *v = gvs[i].var ? tp_node_variable(gvs[i].var) : NULL;
        if (!v)
            return tp_graph_fail(g, NULL, TP_ERR_ARG, "%s: '%s' is not a variable, so it cannot be trained", o->name,
                                 gvs[i].var ? tp_node_name(gvs[i].var) : "NULL");
        if (tp_node_graph(gvs[i].var) != g)
            return tp_graph_fail(
                tp_node_graph(gvs[i].var), NULL, TP_ERR_ARG,
                "%s: variable '%s' belongs to another graph than the optimizer, whose graph is that of "
                "its learning rate",
                o->name, v->name);
        for (int j = 0; j < kept; j++)
            if (with_gradient[j].var == gvs[i].var)
                return tp_graph_fail(g, NULL, TP_ERR_ARG, "%s: variable '%s' has two gradients", o->name, v->name);
        if (gvs[i].grad) with_gradient[kept++] = gvs[i];
    }
    if (kept == 0)
        return tp_graph_fail(
            g, NULL, TP_ERR_ARG,
            "%s: no gradients were given for any variable: the cost depends on none of them, or the gradient "
            "processors left none",
            o->name);
    const int first = tp_graph_n_operations(g);
    tp_node *op = tp__call_optimizer(o, with_gradient, kept, pred);
    if (!op) return tp_graph_fail(g, NULL, TP_ERR, "%s: its apply_gradients gave no node", o->name);
    if (tp_graph_status(g) == TP_OK && !o->inner && !tp__updates_a_variable(g, first, with_gradient, kept))
        tp_log(TP_LOG_WARN, "%s: its update writes none of the %d variables: tp_assign_sub(var, ..) writes one",
               o->name, kept);
    return op;
}

TP_DEF tp_node *tp_apply_gradients(tp_optimizer *o, const tp_grad_var *gvs, int n)
{
    TP__GRAPH_REQUIRE(o ? o->graph : NULL, (gvs || n == 0) && n >= 0, tp_poison(o ? o->graph : NULL))

    return tp_apply_gradients_if(o, gvs, n, NULL);
}

/* Returns the op at which the gradient of the cost ends on the way to its trainable variables; NULL: the cost depends on none, or
 * there is no memory. */
static const tp_operation *tp__gradient_ends_at(tp_graph *g, const tp_node *cost)
{
    enum { LEARNS = 1, REACHED = 2 }; /* depends on a trainable variable; is reached by the gradient */
    const int n = cost->op->id + 1;   /* inputs have smaller numbers */
    char *mark = (char *)tp_graph_alloc(g, (size_t)n);
    for (int i = 0; i < n && mark; i++) {
        const tp_operation *op = tp_graph_operation(g, i);
        const tp_variable *v = op->n_out ? tp_node_variable(&op->out[0]) : NULL;
        bool learns = v && v->trainable;
        for (int k = 0; k < op->n_in; k++) learns = learns || (mark[op->in[k]->op->id] & LEARNS);
        mark[i] = learns ? LEARNS : 0;
    }
    if (mark) mark[n - 1] |= REACHED;
    for (int i = n - 1; i >= 0 && mark; i--) {
        const tp_operation *op = tp_graph_operation(g, i);
        if (mark[i] != (LEARNS | REACHED)) continue;
        if (!op->row->grad && op->n_in) return op;
        for (int k = 0; k < op->n_in; k++) mark[op->in[k]->op->id] |= REACHED;
    }
    return NULL;
}

/* The end of a sentence about a gradient that ends at this op, or NULL. */
static const char *tp__ask_about_freezing(const tp_operation *end)
{
    const bool stopped = end && strcmp(end->row->name, "stop_gradient") == 0;
    return stopped ? ". Does TP_FREEZE_VARIABLES freeze all variables?" : "";
}

TP_DEF tp_node *tp_minimize(tp_optimizer *o, tp_node *cost, const char *regex)
{
    tp_graph *g = o ? o->graph : tp_node_graph(cost);
    if (!o) return tp__no_optimizer(g, "tp_minimize"), tp_poison(g);
    TP__GRAPH_REQUIRE(g, cost, tp_poison(g))
    if (tp_is_poison(cost))
        return tp_graph_fail(g, NULL, TP_ERR_ARG, "minimize: the cost was not made: %s", tp__poison_reason(cost));
    if (tp_node_graph(cost) != g)
        return tp_graph_fail(tp_node_graph(cost), NULL, TP_ERR_ARG,
                             "minimize: the cost '%s' belongs to another graph than %s, whose graph is that of its "
                             "learning rate",
                             tp_node_name(cost), o->name);
    int n = 0, m = 0, reached = 0;
    tp_node *const *trainable = tp_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n);
    tp_node **vars = (tp_node **)tp_graph_alloc(g, (size_t)n * sizeof *vars);
    tp_grad_var *gvs = (tp_grad_var *)tp_graph_alloc(g, (size_t)n * sizeof *gvs);
    tp__filter f;
    if (!vars || !gvs || !tp__filter_open(&f, g, NULL, "minimize", regex, false)) return tp_poison(g);
    for (int i = 0; i < n; i++)
        if (tp__filter_matches(&f, tp_node_name(trainable[i]))) vars[m++] = trainable[i];
    char near[TP__NEAREST_TEXT];
    tp__nearest_text(&f.near, near);
    f.n_matched = 1; /* the warning about no matching variable is not needed, because here that is an error */
    tp__filter_close(&f);
    if (m == 0)
        return n == 0 ? tp_graph_fail(g, NULL, TP_ERR_NAME, "minimize: the graph has no trainable variables")
                      : tp_graph_fail(
                            g, NULL, TP_ERR_NAME,
                            "minimize: there is no trainable variable '%s'%s The graph has %d, the first is '%s'",
                            regex ? regex : ".*", *near ? near : ".", n, tp_node_name(trainable[0]));
    tp_optimizer_compute_gradients(o, cost, vars, m, gvs);
    for (int i = 0; i < m; i++) reached += gvs[i].grad != NULL;
    if (reached == 0 && tp_graph_status(g) == TP_OK)
        return tp_graph_fail(
            g, NULL, TP_ERR_ARG,
            "minimize: no gradient of '%s' comes to any of the %d variables '%s': it depends on none of them, or an op "
            "between has no gradient%s",
            tp_node_name(cost), m, regex ? regex : ".*", tp__ask_about_freezing(tp__gradient_ends_at(g, cost)));
#ifndef TP__NO_SYSTEM /* a microcontroller has no room for the code of this warning */
    const tp_gradproc filter = tp_gradproc_filter_none(); /* warns of variables without a gradient, as a trainer does */
    m = tp_gradproc_run(&filter, g, gvs, m);
#endif
    return tp_apply_gradients(o, gvs, m);
}

static const struct tp__slot *tp__find_slot(const tp_optimizer *o, const tp_node *var, const char *slot)
{
    const tp_variable *v = tp_node_variable(var);
    for (const struct tp__slot *s = v ? v->slots : o->slots; s; s = s->next)
        if (s->owner == o && s->var == var && strcmp(s->name, slot) == 0) return s;
    return NULL;
}

/* Slots are created outside any scope; if a name is taken, a number is appended. */
static tp_node *tp__make_slot(tp_optimizer *o, const tp_node *var, const char *slot, const char *wanted,
                              tp_variable_desc *d)
{
    tp_graph *g = o->graph;
    const struct tp__slot *old = tp__find_slot(o, var, slot);
    if (old) return old->node;
    if (tp_graph_status(g) != TP_OK) return tp_poison(g);
    char full[1024];
    int len = tp__format(full, sizeof full, "%s", wanted);
    for (int i = 1; len >= 0 && (size_t)len < sizeof full && tp__variable_named(g, full); i++)
        len = tp__format(full, sizeof full, "%s_%d", wanted, i);
    if (len < 0 || (size_t)len >= sizeof full)
        return tp_graph_fail(g, NULL, TP_ERR_NAME, "%s: the name of a slot is too long: '%s'", o->name, wanted);
    struct tp__slot *s = (struct tp__slot *)tp_graph_alloc(g, sizeof *s);
    if (!s || !(s->name = tp_graph_strdup(g, slot))) return tp_poison(g);
    d->name = full;
    d->trainable = TP_NO;
    tp_device_enter(g, var ? tp_node_device(var) : 0);
    s->node = tp__new_variable(g, d, full);
    tp_device_leave(g);
    d->name = NULL; /* full ends with this call */
    struct tp__slot **list = var ? &tp_node_variable(var)->slots : &o->slots;
    s->owner = o;
    s->var = var;
    s->next = *list;
    if (!tp_is_poison(s->node)) *list = s;
    return s->node;
}

TP_DEF tp_node *tp_optimizer_slot(tp_optimizer *o, tp_node *var, const char *slot, const char *suffix, tp_init init)
{
    TP__GRAPH_REQUIRE(o ? o->graph : NULL, o && var && slot, tp_poison(o ? o->graph : NULL))

    tp_variable_desc d;
    char name[960];
    if (tp_is_poison(var)) return var;
    tp_variable *v = tp_node_variable(var);
    if (!v || tp_node_graph(var) != o->graph)
        return tp_graph_fail(o->graph, NULL, TP_ERR_ARG, "%s: '%s' %s, so it has no slot '%s'", o->name,
                             tp_node_name(var), v ? "belongs to another graph" : "is not a variable", slot);
    const int len = tp__format(name, sizeof name, "%s/%s", tp_node_name(var), suffix ? suffix : o->name);
    if (len < 0 || (size_t)len >= sizeof name)
        return tp_graph_fail(o->graph, NULL, TP_ERR_NAME, "%s: the name of a slot of '%s' is too long", o->name,
                             tp_node_name(var));
    memset(&d, 0, sizeof d);
    d.dtype = var->dtype;
    d.shape = var->shape;
    d.init = init;
    d.local = v->local;
    tp_node *n = tp__make_slot(o, var, slot, name, &d);
    tp_variable *slot_variable = tp_node_variable(n);
    const struct tp__slot *first = v->copy_of ? tp__find_slot(o, v->copy_of->node, slot) : NULL;
    if (slot_variable) slot_variable->slot_of = v;
    if (slot_variable && first) slot_variable->copy_of = tp_node_variable(first->node);
    return n;
}

TP_DEF tp_node *tp_optimizer_read(const tp_optimizer *o, tp_node *slot)
{
    TP__GRAPH_REQUIRE(o ? o->graph : NULL, o && slot, tp_poison(o ? o->graph : NULL))
    return o->after ? tp_read_after(slot, o->after) : slot;
}

TP_DEF tp_node *tp_optimizer_scalar(tp_optimizer *o, const char *name, float init)
{
    TP__GRAPH_REQUIRE(o ? o->graph : NULL, o && name, tp_poison(o ? o->graph : NULL))

    tp_variable_desc d;
    memset(&d, 0, sizeof d);
    d.init = tp_init_constant(init);
    return tp__make_slot(o, NULL, name, name, &d);
}

TP_DEF tp_node *tp_get_slot(const tp_optimizer *o, const tp_node *var, const char *slot)
{
    TP__REQUIRE(o && slot, NULL)

    for (; o; o = o->inner) {
        const struct tp__slot *s = tp__find_slot(o, var, slot);
        if (s) return s->node;
    }
    return NULL;
}

TP_DEF const char *const *tp_get_slot_names(const tp_optimizer *o, int *n)
{
    if (n) *n = 0;
    TP__REQUIRE(o && n, NULL)

    while (o->inner && o->n_slots == 0) o = o->inner;
    *n = o->n_slots;
    return o->slot_names;
}

/* ==== >>optimizers ==================================================================================== */

/* One fused update handles a group of variables of one dtype and device. The operands of a group's update: */
typedef struct tp__apply_group {
    tp_node **var, **grad, **slot[3];
    int n;
    tp_node *lr; /* the learning rate, as tp__as_rate_of makes it */
} tp__apply_group;

typedef tp_node *(*tp__group_fn)(tp_optimizer *o, const tp__apply_group *group);

/* A learning rate or a power of beta for the update of variables of this dtype: in float32 for those in half precision, where
 * 1 - 0.999 would be 0. */
static tp_node *tp__as_rate_of(tp_node *x, tp_dtype dtype) { return tp__as_dtype(x, tp__wide_dtype(dtype)); }

/* Creates the update of all pairs with this dtype whose variables are on this device. */
static tp_node *tp__apply_one_group(tp_optimizer *o, const tp_grad_var *gvs, int n, tp_dtype dtype, int device,
                                    tp__group_fn fn, const float *initial)
{
    tp_graph *g = o->graph;
    tp__apply_group group;
    memset(&group, 0, sizeof group);
    tp_node **nodes = (tp_node **)tp_graph_alloc(g, (size_t)n * 5 * sizeof *nodes);
    if (!nodes) return tp_poison(g);
    group.var = nodes;
    group.grad = nodes + n;
    for (int q = 0; q < 3; q++) group.slot[q] = nodes + (2 + q) * n;
    tp_device_enter(g, device);
    for (int i = 0; i < n; i++) {
        tp_node *v = gvs[i].var;
        if (v->dtype != dtype || tp_node_device(v) != device) continue;
        group.var[group.n] = v;
        group.grad[group.n] = tp__as_dtype(gvs[i].grad, dtype);
        for (int q = 0; q < o->n_slots; q++)
            group.slot[q][group.n] =
                tp_optimizer_slot(o, v, o->slot_names[q], NULL, tp_init_constant(initial ? initial[q] : 0.0f));
        group.n++;
    }
    group.lr = tp__as_rate_of(o->learning_rate, dtype);
    tp_node *op = tp_graph_status(g) == TP_OK ? fn(o, &group) : tp_poison(g);
    tp_device_leave(g);
    return op;
}

/* Sorts the pairs into groups by dtype, in the order in which the dtypes appear, and creates each group's update. The
 * optimizer's slots start at `initial` (NULL: zeros). ops receives one node per dtype (room for TP_DTYPE_COUNT). Returns the
 * number of nodes. */
static int tp__apply_by_group(tp_optimizer *o, const tp_grad_var *gvs, int n, tp__group_fn fn, const float *initial,
                              tp_node **ops)
{
    tp_graph *g = o->graph;
    int n_ops = 0;
    bool done[TP_DTYPE_COUNT] = {false};
    tp_node **group_ops = (tp_node **)tp_graph_alloc(g, ((size_t)n + 1) * sizeof *group_ops);
    if (!group_ops) return 0;
    for (int first = 0; first < n && tp_graph_status(g) == TP_OK; first++) {
        const tp_dtype dtype = gvs[first].var->dtype;
        if (done[dtype]) continue;
        done[dtype] = true;
        int n_part = 0;
        for (int i = first; i < n && tp_graph_status(g) == TP_OK; i++) {
            bool is_done = gvs[i].var->dtype != dtype;
            for (int k = first; k < i && !is_done; k++)
                is_done = gvs[k].var->dtype == dtype && tp_node_device(gvs[k].var) == tp_node_device(gvs[i].var);
            if (!is_done)
                group_ops[n_part++] = tp__apply_one_group(o, gvs, n, dtype, tp_node_device(gvs[i].var), fn, initial);
        }
        if (tp_graph_status(g) == TP_OK)
            ops[n_ops++] = n_part == 1 ? group_ops[0] : tp_group(g, group_ops, n_part, "devices");
    }
    return n_ops;
}

/* Leaves the optimizer's name scope and groups the ops into one node. */
static tp_node *tp__apply_end(tp_optimizer *o, tp_node **ops, int n)
{
    tp_graph *g = o->graph;
    tp_node *op = tp_graph_status(g) != TP_OK ? tp_poison(g) : n == 1 ? ops[0] : tp_group(g, ops, n, "update");
    tp_name_scope_pop(g);
    return op;
}

static tp_optimizer *tp__optimizer_make(tp_node *lr, const char *name, tp_at at, tp_apply_fn fn, const void *desc,
                                        size_t size)
{
    char t[TP_SHAPE_TEXT];
    if (!lr) {
        tp_fail(TP_ERR_ARG,
                "%s: the learning rate is NULL: give a scalar node, tp_get_scalar_variable(g, "
                "\"learning_rate\", 0.1f) say",
                name);
        return NULL;
    }
    tp_graph *g = tp_node_graph(lr);
    if (!g) return NULL; /* a poison node without a graph, whose sentence stays */
    void *copy = tp_graph_alloc(g, size);
    tp_optimizer *o = tp_optimizer_new(g, name, fn, copy);
    if (!o || !copy) return NULL;
    memcpy(copy, desc, size);
    o->learning_rate = lr;
    if (!tp_is_poison(lr) && (lr->shape.ndim != 0 || !tp_dtype_is_float(lr->dtype)))
        tp_graph_fail(g, &at, TP_ERR_SHAPE, "%s: the learning rate '%s' is %s %s: it must be a floating scalar", name,
                      tp_node_name(lr), tp_dtype_name(lr->dtype), tp_shape_text(&lr->shape, t));
    return o;
}

/* Checks the rate of a moving average: 0 <= v < 1 */
static void tp__optim_check_rate(tp_optimizer *o, tp_at at, const char *option, float v)
{
    if (!(v >= 0.0f && v < 1.0f))
        tp_graph_fail(o->graph, &at, TP_ERR_ARG, "%s has .%s %g: it must be at least 0 and less than 1", o->name,
                      option, (double)v);
}

/* -- gradient descent -------------------------------------------------------------------- >>optimizer sgd */

static tp_node *tp__sgd_group(tp_optimizer *o, const tp__apply_group *p)
{
    return tp_apply_gradient_descent(p->var, p->grad, p->n, p->lr, o->pred);
}

static tp_node *tp__sgd_apply(tp_optimizer *o, const tp_grad_var *gvs, int n)
{
    tp_node *ops[TP_DTYPE_COUNT];
    tp_name_scope_push(o->graph, o->name);
    const int n_ops = tp__apply_by_group(o, gvs, n, tp__sgd_group, NULL, ops);
    return tp__apply_end(o, ops, n_ops);
}

TP_DEF tp_optimizer *tp_sgd_(tp_node *lr, const tp_sgd_desc *d)
{
    tp_sgd_desc r;
    memset(&r, 0, sizeof r);
    if (d) r = *d;
    return tp__optimizer_make(lr, "GradientDescent", r.at_, tp__sgd_apply, &r, sizeof r);
}

/* -- momentum ----------------------------------------------------------------------- >>optimizer momentum */

static const char *const tp__momentum_slots[] = {"momentum"};

static tp_node *tp__momentum_group(tp_optimizer *o, const tp__apply_group *p)
{
    const tp_momentum_desc *d = (const tp_momentum_desc *)o->user;
    return tp_apply_momentum(p->var, p->slot[0], p->grad, p->n, p->lr, d->momentum, d->use_nesterov == TP_YES, o->pred);
}

static tp_node *tp__momentum_apply(tp_optimizer *o, const tp_grad_var *gvs, int n)
{
    tp_node *ops[TP_DTYPE_COUNT];
    tp_name_scope_push(o->graph, o->name);
    const int n_ops = tp__apply_by_group(o, gvs, n, tp__momentum_group, NULL, ops);
    return tp__apply_end(o, ops, n_ops);
}

TP_DEF tp_optimizer *tp_momentum_(tp_node *lr, const tp_momentum_desc *d)
{
    tp_momentum_desc r;
    memset(&r, 0, sizeof r);
    if (d) r = *d;
    r.momentum = tp__float_option(r.momentum, 0.9f);
    tp_optimizer *o = tp__optimizer_make(lr, "Momentum", r.at_, tp__momentum_apply, &r, sizeof r);
    if (!o) return NULL;
    o->slot_names = tp__momentum_slots;
    o->n_slots = 1;
    tp__optim_check_rate(o, r.at_, "momentum", r.momentum);
    return o;
}

TP_DEF tp_optimizer *tp_nesterov_(tp_node *lr, const tp_nesterov_desc *d)
{
    tp_nesterov_desc r;
    memset(&r, 0, sizeof r);
    if (d) r = *d;
    if (r.use_nesterov != TP_NO) r.use_nesterov = TP_YES;
    return tp_momentum_(lr, &r);
}

/* -- adam, adamw, lamb -------------------------------------------------------------- >>optimizer adam */

static const char *const tp__adam_slots[] = {"m", "v"};
/* The type of tp_apply_adamw and tp_apply_lamb. */
typedef tp_node *(*tp__adam_fn)(tp_node *const *vars, tp_node *const *ms, tp_node *const *vs, tp_node *const *grads,
                                int n, tp_node *lr, tp_node *power1, tp_node *power2, float beta1, float beta2,
                                float epsilon, float decay, tp_node *pred);
typedef struct tp__adam_rule {
    float beta1, beta2, epsilon, decay;
    tp__adam_fn apply;
    /* happens: one of the updates of this run so far has no condition; otherwise `due` is a scalar bool, true if one of them happens */
    bool happens;
    tp_node *due;
} tp__adam_rule;

static tp_node *tp__adam_group(tp_optimizer *o, const tp__apply_group *p)
{
    const tp__adam_rule *d = (const tp__adam_rule *)o->user;
    const tp_dtype dtype = p->var[0]->dtype;
    tp_node *power1 = tp__as_rate_of(tp_optimizer_scalar(o, "beta1_power", d->beta1), dtype),
            *power2 = tp__as_rate_of(tp_optimizer_scalar(o, "beta2_power", d->beta2), dtype);
    return d->apply(p->var, p->slot[0], p->slot[1], p->grad, p->n, p->lr, power1, power2, d->beta1, d->beta2,
                    d->epsilon, d->decay, o->pred);
}

static tp_node *tp__adam_apply(tp_optimizer *o, const tp_grad_var *gvs, int n)
{
    tp__adam_rule *d = (tp__adam_rule *)o->user;
    tp_node *ops[TP_DTYPE_COUNT + 2];
    tp_name_scope_push(o->graph, o->name);
    tp_node *power1 = tp_optimizer_scalar(o, "beta1_power", d->beta1),
            *power2 = tp_optimizer_scalar(o, "beta2_power", d->beta2);
    int n_ops = tp__apply_by_group(o, gvs, n, tp__adam_group, NULL, ops);
    if (!o->after) d->happens = false, d->due = NULL;
    if (!o->pred) d->happens = true;
    else d->due = d->due ? tp_logical_or(d->due, o->pred) : o->pred;
    if (tp_graph_status(o->graph) == TP_OK && !o->more) { /* beta1_power and beta2_power advance once per run */
        ops[n_ops++] = tp_assign(power1, tp_affine(power1, d->beta1, 0.0f), d->happens ? NULL : d->due);
        ops[n_ops++] = tp_assign(power2, tp_affine(power2, d->beta2, 0.0f), d->happens ? NULL : d->due);
    }
    return tp__apply_end(o, ops, n_ops);
}

static void tp__optim_not_negative(tp_optimizer *o, tp_at at, const char *option, float v)
{
    if (!(v >= 0.0f))
        tp_graph_fail(o->graph, &at, TP_ERR_ARG, "%s has .%s %g: it must not be negative", o->name, option, (double)v);
}

/* Makes an Adam optimizer; beta1 and beta2 of 0 mean the defaults. */
static tp_optimizer *tp__adam_make(tp_node *lr, const char *name, tp_at at, float beta1, float beta2, float epsilon,
                                   float decay, tp__adam_fn apply)
{
    tp__adam_rule r;
    memset(&r, 0, sizeof r);
    r.beta1 = tp__float_option(beta1, 0.9f);
    r.beta2 = tp__float_option(beta2, 0.999f);
    r.epsilon = epsilon;
    r.decay = decay;
    r.apply = apply;
    tp_optimizer *o = tp__optimizer_make(lr, name, at, tp__adam_apply, &r, sizeof r);
    if (!o) return NULL;
    o->slot_names = tp__adam_slots;
    o->n_slots = 2;
    tp__optim_check_rate(o, at, "beta1", r.beta1);
    tp__optim_check_rate(o, at, "beta2", r.beta2);
    tp__optim_not_negative(o, at, "epsilon", r.epsilon);
    tp__optim_not_negative(o, at, "weight_decay", r.decay);
    return o;
}

TP_DEF tp_optimizer *tp_adam_(tp_node *lr, const tp_adam_desc *d)
{
    tp_adam_desc r;
    memset(&r, 0, sizeof r);
    if (d) r = *d;
    return tp__adam_make(lr, "Adam", r.at_, r.beta1, r.beta2, tp__float_option(r.epsilon, 1e-8f), 0, tp_apply_adamw);
}

TP_DEF tp_optimizer *tp_adamw_(tp_node *lr, const tp_adamw_desc *d)
{
    tp_adamw_desc r;
    memset(&r, 0, sizeof r);
    if (d) r = *d;
    return tp__adam_make(lr, "Adam", r.at_, r.beta1, r.beta2, tp__float_option(r.epsilon, 1e-8f),
                         tp__float_option(r.weight_decay, 0.01f), tp_apply_adamw);
}

TP_DEF tp_optimizer *tp_lamb_(tp_node *lr, const tp_lamb_desc *d)
{
    tp_lamb_desc r;
    memset(&r, 0, sizeof r);
    if (d) r = *d;
    return tp__adam_make(lr, "LAMB", r.at_, r.beta1, r.beta2, tp__float_option(r.epsilon, 1e-6f),
                         tp__float_option(r.weight_decay, 0), tp_apply_lamb);
}

/* -- rmsprop, adagrad, adadelta, ftrl ------------------------------------------------ >>optimizer rmsprop */

/* The parameters of the update function `fn`, and the initial values of its slots. */
typedef struct tp__slot_rule {
    float decay, momentum, epsilon;                  /* attributes of RMSProp and, without momentum, of Adadelta */
    float learning_rate_power, l1, l2, l2_shrinkage; /* attributes of FTRL */
    float beta1, beta2, weight_decay;                /* attributes of Lion */
    float initial[3];
    tp__group_fn fn;
} tp__slot_rule;

static tp_node *tp__slot_rule_apply(tp_optimizer *o, const tp_grad_var *gvs, int n)
{
    const tp__slot_rule *r = (const tp__slot_rule *)o->user;
    tp_node *ops[TP_DTYPE_COUNT];
    tp_name_scope_push(o->graph, o->name);
    const int n_ops = tp__apply_by_group(o, gvs, n, r->fn, r->initial, ops);
    return tp__apply_end(o, ops, n_ops);
}

static tp_optimizer *tp__slot_rule_make(tp_node *lr, const char *name, tp_at at, const tp__slot_rule *r,
                                        const char *const *slot_names, int n_slots)
{
    tp_optimizer *o = tp__optimizer_make(lr, name, at, tp__slot_rule_apply, r, sizeof *r);
    if (!o) return NULL;
    o->slot_names = slot_names;
    o->n_slots = n_slots;
    return o;
}

static const char *const tp__rmsprop_slots[] = {"rms", "momentum"};
static const char *const tp__rmsprop_centered_slots[] = {"rms", "mg", "momentum"};

static tp_node *tp__rmsprop_group(tp_optimizer *o, const tp__apply_group *p)
{
    const tp__slot_rule *r = (const tp__slot_rule *)o->user;
    const bool centered = o->n_slots == 3;
    return tp_apply_rmsprop(p->var, p->slot[0], p->slot[centered ? 2 : 1], centered ? p->slot[1] : NULL, p->grad, p->n,
                            p->lr, r->decay, r->momentum, r->epsilon, o->pred);
}

TP_DEF tp_optimizer *tp_rmsprop_(tp_node *lr, const tp_rmsprop_desc *d)
{
    tp_rmsprop_desc q;
    tp__slot_rule r;
    memset(&q, 0, sizeof q);
    memset(&r, 0, sizeof r);
    if (d) q = *d;
    r.decay = tp__float_option(q.decay, 0.9f);
    r.momentum = tp__float_option(q.momentum, 0.0f);
    r.epsilon = tp__float_option(q.epsilon, 1e-10f);
    r.initial[0] = 1.0f;
    r.fn = tp__rmsprop_group;
    const bool centered = q.centered == TP_YES;
    tp_optimizer *o = tp__slot_rule_make(lr, "RMSProp", q.at_, &r,
                                         centered ? tp__rmsprop_centered_slots : tp__rmsprop_slots, centered ? 3 : 2);
    if (!o) return NULL;
    tp__optim_check_rate(o, q.at_, "decay", r.decay);
    tp__optim_check_rate(o, q.at_, "momentum", r.momentum);
    tp__optim_not_negative(o, q.at_, "epsilon", r.epsilon);
    return o;
}

static const char *const tp__adagrad_slots[] = {"accumulator"};

static tp_node *tp__adagrad_group(tp_optimizer *o, const tp__apply_group *p)
{
    return tp_apply_adagrad(p->var, p->slot[0], p->grad, p->n, p->lr, o->pred);
}

static void tp__optim_positive(tp_optimizer *o, tp_at at, const char *option, float v)
{
    if (!(v > 0.0f))
        tp_graph_fail(o->graph, &at, TP_ERR_ARG, "%s has .%s %g: it must be positive", o->name, option, (double)v);
}

TP_DEF tp_optimizer *tp_adagrad_(tp_node *lr, const tp_adagrad_desc *d)
{
    tp_adagrad_desc q;
    tp__slot_rule r;
    memset(&q, 0, sizeof q);
    memset(&r, 0, sizeof r);
    if (d) q = *d;
    r.initial[0] = tp__float_option(q.initial_accumulator_value, 0.1f);
    r.fn = tp__adagrad_group;
    tp_optimizer *o = tp__slot_rule_make(lr, "Adagrad", q.at_, &r, tp__adagrad_slots, 1);
    if (o) tp__optim_positive(o, q.at_, "initial_accumulator_value", r.initial[0]);
    return o;
}

static const char *const tp__adadelta_slots[] = {"accum", "accum_update"};

static tp_node *tp__adadelta_group(tp_optimizer *o, const tp__apply_group *p)
{
    const tp__slot_rule *r = (const tp__slot_rule *)o->user;
    return tp_apply_adadelta(p->var, p->slot[0], p->slot[1], p->grad, p->n, p->lr, r->decay, r->epsilon, o->pred);
}

TP_DEF tp_optimizer *tp_adadelta_(tp_node *lr, const tp_adadelta_desc *d)
{
    tp_adadelta_desc q;
    tp__slot_rule r;
    memset(&q, 0, sizeof q);
    memset(&r, 0, sizeof r);
    if (d) q = *d;
    r.decay = tp__float_option(q.rho, 0.95f);
    r.epsilon = tp__float_option(q.epsilon, 1e-8f);
    r.fn = tp__adadelta_group;
    tp_optimizer *o = tp__slot_rule_make(lr, "Adadelta", q.at_, &r, tp__adadelta_slots, 2);
    if (!o) return NULL;
    tp__optim_check_rate(o, q.at_, "rho", r.decay);
    tp__optim_positive(o, q.at_, "epsilon", r.epsilon);
    return o;
}

static const char *const tp__ftrl_slots[] = {"accum", "linear"};

static tp_node *tp__ftrl_group(tp_optimizer *o, const tp__apply_group *p)
{
    const tp__slot_rule *r = (const tp__slot_rule *)o->user;
    return tp_apply_ftrl(p->var, p->slot[0], p->slot[1], p->grad, p->n, p->lr, r->learning_rate_power, r->l1, r->l2,
                         r->l2_shrinkage, o->pred);
}

TP_DEF tp_optimizer *tp_ftrl_(tp_node *lr, const tp_ftrl_desc *d)
{
    tp_ftrl_desc q;
    tp__slot_rule r;
    memset(&q, 0, sizeof q);
    memset(&r, 0, sizeof r);
    if (d) q = *d;
    r.learning_rate_power = tp__float_option(q.learning_rate_power, -0.5f);
    r.l1 = tp__float_option(q.l1, 0);
    r.l2 = tp__float_option(q.l2, 0);
    r.l2_shrinkage = tp__float_option(q.l2_shrinkage, 0);
    r.initial[0] = tp__float_option(q.initial_accumulator_value, 0.1f);
    r.fn = tp__ftrl_group;
    tp_optimizer *o = tp__slot_rule_make(lr, "Ftrl", q.at_, &r, tp__ftrl_slots, 2);
    if (!o) return NULL;
    if (!(r.learning_rate_power <= 0.0f))
        tp_graph_fail(o->graph, &q.at_, TP_ERR_ARG, "Ftrl has .learning_rate_power %g: it must not be positive",
                      (double)r.learning_rate_power);
    tp__optim_positive(o, q.at_, "initial_accumulator_value", r.initial[0]);
    tp__optim_not_negative(o, q.at_, "l1", r.l1);
    tp__optim_not_negative(o, q.at_, "l2", r.l2);
    tp__optim_not_negative(o, q.at_, "l2_shrinkage", r.l2_shrinkage);
    return o;
}

/* -- lion -------------------------------------------------------------------------- >>optimizer lion */

static const char *const tp__lion_slots[] = {"m"};

static tp_node *tp__lion_group(tp_optimizer *o, const tp__apply_group *p)
{
    const tp__slot_rule *r = (const tp__slot_rule *)o->user;
    const tp__lion_attrs t = {{p->n}, r->beta1, r->beta2, r->weight_decay};
    tp_node *const *m = p->slot[0];
    return tp__apply_optimizer("apply_lion", &t, p->var, &m, p->grad, &p->lr, o->pred);
}

TP_DEF tp_optimizer *tp_lion_(tp_node *lr, const tp_lion_desc *d)
{
    tp_lion_desc q;
    tp__slot_rule r;
    memset(&q, 0, sizeof q);
    memset(&r, 0, sizeof r);
    if (d) q = *d;
    r.beta1 = tp__float_option(q.beta1, 0.9f);
    r.beta2 = tp__float_option(q.beta2, 0.99f);
    r.weight_decay = tp__float_option(q.weight_decay, 0);
    r.fn = tp__lion_group;
    tp_optimizer *o = tp__slot_rule_make(lr, "Lion", q.at_, &r, tp__lion_slots, 1);
    if (!o) return NULL;
    tp__optim_check_rate(o, q.at_, "beta1", r.beta1);
    tp__optim_check_rate(o, q.at_, "beta2", r.beta2);
    tp__optim_not_negative(o, q.at_, "weight_decay", r.weight_decay);
    return o;
}

/* ==== >>wrappers ====================================================================================== */

typedef struct tp__post_rule {
    tp_post_process_fn fn;
    tp_assignment_fn assign;
    void *user;
} tp__post_rule;

/* The getter while fn runs for a copy of a variable: variables whose names have its tower ("tower1/", user) are copies, too. */
static tp_node *tp__post_getter(tp_getter_call *call, tp_variable_desc *d, void *user)
{
    const char *tower = (const char *)user, *at = strstr(d->name, tower);
    char first[960]; /* the name of the first tower's */
    if (at) d->local = true;
    tp_node *n = tp_getter_next(call, d);
    tp_variable *v = tp_node_variable(n);
    if (!at || !v || v->copy_of || !(at = strstr(v->name, tower))) return n;
    const int length = tp__format(first, sizeof first, "%.*s%s", (int)(at - v->name), v->name, at + strlen(tower));
    if (length > 0 && (size_t)length < sizeof first)
        v->copy_of = (tp_variable *)tp__map_get(&v->graph->var_by_name, first);
    return n;
}

static tp_node *tp__post_call(const tp__post_rule *r, tp_node *var, tp_node *updated, tp_node *pred)
{
    tp_graph *g = tp_node_graph(var);
    const tp_variable *v = tp_node_variable(var);
    const size_t length = v->copy_of ? strlen(v->name) - strlen(v->copy_of->name) : 0; /* of "tower1/" */
    char tower[32];
    tp_variable_scope_desc scope;
    memset(&scope, 0, sizeof scope);
    scope.no_name_scope = true;
    if (length > 0 && length < sizeof tower) {
        tp__format(tower, sizeof tower, "%.*s", (int)length, v->name);
        scope.getter = tp__post_getter, scope.getter_user = tower;
    }
    tp_variable_scope_push(g, &scope);
    tp_node *op = r->fn(var, updated, pred, r->user);
    tp_variable_scope_pop(g);
    return op;
}

static tp_node *tp__post_apply(tp_optimizer *o, const tp_grad_var *gvs, int n)
{
    const tp__post_rule *r = (const tp__post_rule *)o->user;
    tp_graph *g = o->graph;
    tp_node **ops = (tp_node **)tp_graph_alloc(g, (size_t)(n + 1) * sizeof *ops);
    if (!ops) return tp_poison(g);
    ops[0] = tp_apply_gradients_if(o->inner, gvs, n, o->pred);
    tp_name_scope_push(g, o->name);
    for (int i = 0; i < n && tp_graph_status(g) == TP_OK; i++) {
        tp_node *updated = tp_read_after(gvs[i].var, ops[0]);
        if (r->fn) ops[i + 1] = tp__post_call(r, gvs[i].var, updated, o->inner->updates);
        else {
            tp_node *value = r->assign(updated, gvs[i].var, r->user);
            ops[i + 1] = value ? tp_assign(gvs[i].var, value, o->inner->updates) : NULL;
        }
    }
    tp_name_scope_pop(g);
    return tp_graph_status(g) == TP_OK ? tp_group(g, ops, n + 1, "update_and_post_process") : tp_poison(g);
}

static tp_optimizer *tp__post_make(tp_optimizer *opt, const char *name, tp_post_process_fn fn, tp_assignment_fn assign,
                                   void *user)
{
    tp__post_rule *r = (tp__post_rule *)tp_graph_alloc(opt->graph, sizeof *r);
    if (!r) return NULL;
    if (!fn && !assign) {
        tp_graph_fail(opt->graph, NULL, TP_ERR_ARG, "%s: the function is NULL", name);
        return opt;
    }
    r->fn = fn;
    r->assign = assign;
    r->user = user;
    return tp_optimizer_proxy(opt, name, tp__post_apply, r);
}

TP_DEF tp_optimizer *tp_post_process(tp_optimizer *opt, tp_post_process_fn fn, void *user)
{
    if (!opt) return tp__no_optimizer(NULL, "tp_post_process");

    return tp__post_make(opt, "PostProcess", fn, NULL, user);
}

TP_DEF tp_optimizer *tp_variable_assignment(tp_optimizer *opt, tp_assignment_fn fn, void *user)
{
    if (!opt) return tp__no_optimizer(NULL, "tp_variable_assignment");

    return tp__post_make(opt, "VariableAssignment", NULL, fn, user);
}

static tp_node *tp__accum_apply(tp_optimizer *o, const tp_grad_var *gvs, int n)
{
    tp_graph *g = o->graph;
    tp_variable_desc d;
    tp_node **ops = (tp_node **)tp_graph_alloc(g, (size_t)(n + 2) * sizeof *ops);
    tp_grad_var *sums = (tp_grad_var *)tp_graph_alloc(g, (size_t)n * sizeof *sums);
    if (!ops || !sums) return tp_poison(g);
    memset(&d, 0, sizeof d);
    d.dtype = TP_I64;
    d.init = tp_init_zeros();
    d.shape = tp_make_shape_n(0, NULL);
    tp_name_scope_push(g, o->name);
    tp_node *counter = tp__make_slot(o, NULL, "counter", "AccumGrad/counter", &d);
    tp_node *count = tp_add(counter, tp_const_as(g, TP_I64, 1));
    tp_node *zero = tp_const_as(g, TP_I64, 0);
    tp_node *due = tp_equal(tp_mod(count, tp_const_as(g, TP_I64, (double)*(const int *)o->user)), zero);
    if (o->pred) due = tp_logical_and(due, o->pred);
    /* the nodes made in this loop read the values from before the update */
    for (int i = 0; i < n && tp_graph_status(g) == TP_OK; i++) {
        tp_node *slot = tp_optimizer_slot(o, gvs[i].var, "grad", "AccumGrad", tp_init_zeros());
        sums[i].var = gvs[i].var;
        sums[i].grad = tp__as_dtype(gvs[i].grad, slot->dtype);
        sums[i].grad = tp_add(tp_optimizer_read(o, slot), sums[i].grad);
        ops[i] = tp_assign(slot, tp_select(due, tp_zeros_like(slot), sums[i].grad), o->pred);
    }
    ops[n] = tp_assign(counter, count, o->pred);
    tp_name_scope_pop(g);
    if (tp_graph_status(g) != TP_OK) return tp_poison(g);
    ops[n + 1] = tp_apply_gradients_if(o->inner, sums, n, due);
    return tp_graph_status(g) == TP_OK ? tp_group(g, ops, n + 2, "accumulate") : tp_poison(g);
}

TP_DEF tp_optimizer *tp_accum_grad(tp_optimizer *opt, int niter)
{
    if (!opt) return tp__no_optimizer(NULL, "tp_accum_grad");

    int *n = (int *)tp_graph_alloc(opt->graph, sizeof *n);
    if (!n) return NULL;
    *n = niter;
    if (niter < 1) tp_graph_fail(opt->graph, NULL, TP_ERR_ARG, "AccumGrad: niter is %d: it must be 1 or more", niter);
    if (opt->loss_scale) /* a single infinite gradient would spoil the sum */
        tp_graph_fail(opt->graph, NULL, TP_ERR_ARG, "AccumGrad: put tp_loss_scale around it, not inside");
    return tp_optimizer_proxy(opt, "AccumGrad", tp__accum_apply, n);
}

/* Returns a gradient times a scalar factor, in the gradient's type. Both are multiplied as float32 at least: in float16 a factor below
 * 3e-8 is 0, one below 6e-5 has few digits, and small products are 0. */
static tp_node *tp__gradient_times(tp_node *grad, tp_node *factor)
{
    if (tp_is_poison(grad)) return grad;
    tp_node *wide = tp__widened(grad);
    tp_node *product = tp__stays_float32(tp_mul(wide, tp__as_dtype(factor, wide->dtype)));
    return tp__as_dtype(product, grad->dtype);
}

/* The gradients must be multiplied by the loss scale, also where other optimizers call this one. */
static void tp__check_loss_scale(const tp_optimizer *o)
{
    const tp_optimizer *outer = o;
    while (outer->caller_ && outer->caller_->loss_scale == o->loss_scale) outer = outer->caller_;
    if (outer->caller_)
        tp_graph_fail(o->graph, NULL, TP_ERR_ARG,
                      "%s: '%s' calls it with gradients that are not multiplied by its loss scale: put tp_loss_scale "
                      "around '%s', not inside",
                      o->name, outer->caller_->name, outer->caller_->name);
    else if (!outer->scales_costs_)
        tp_log_once(TP_LOG_WARN,
                    "%s divides the gradients by its loss scale: are they multiplied by it? tp_minimize and "
                    "tp_optimizer_compute_gradients do it, tp_compute_gradients does not.",
                    outer->name);
}

/* 2^126: the gradients are multiplied by its reciprocal, the smallest normal number. */
#define TP__LARGEST_LOSS_SCALE 8.507059173023462e37f
static tp_node *tp__loss_scale_apply(tp_optimizer *o, const tp_grad_var *gvs, int n)
{
    const tp_loss_scale_desc *q = (const tp_loss_scale_desc *)o->user;
    tp_graph *g = o->graph;
    tp__check_loss_scale(o);
    if (tp_graph_status(g) != TP_OK) return tp_poison(g);
    tp_grad_var *plain = (tp_grad_var *)tp_graph_alloc(g, (size_t)n * sizeof *plain);
    if (!plain) return tp_poison(g);
    tp_name_scope_push(g, o->name);
    tp_node *scale = o->loss_scale, *inverse = tp_reciprocal(scale), *finite = NULL;
    tp_node *good_steps = tp_optimizer_scalar(o, "loss_scale/good_steps", 0.0f);
    for (int i = 0; i < n && tp_graph_status(g) == TP_OK; i++) {
        tp_node *all_finite = tp_reduce_all(tp_is_finite(gvs[i].grad), NULL, 0, false);
        finite = finite ? tp_logical_and(finite, all_finite) : all_finite;
        plain[i].var = gvs[i].var;
        plain[i].grad = tp__gradient_times(gvs[i].grad, inverse);
    }
    if (tp_graph_status(g) != TP_OK) {
        tp_name_scope_pop(g);
        return tp_poison(g);
    }
    tp_node *now = tp_optimizer_read(o, scale),
            *finite_updates = tp_affine(tp_optimizer_read(o, good_steps), 1.0f, 1.0f),
            *due = tp_greater_equal(finite_updates, tp_const_as(g, TP_F32, q->interval));
    tp_node *largest = tp_const_as(g, TP_F32, (double)TP__LARGEST_LOSS_SCALE);
    tp_node *doubled = tp_minimum(tp_affine(now, 2.0f, 0.0f), largest);
    tp_node *new_scale = tp_select(due, doubled, now);
    tp_node *least = tp_const_as(g, TP_F32, (double)q->minimum);
    tp_node *halved = tp_maximum(tp_affine(now, 0.5f, 0.0f), least);
    tp_node *zero = tp_zeros_like(good_steps);
    tp_node *ops[3];
    ops[0] = tp_assign(scale, tp_select(finite, new_scale, halved), o->pred);
    ops[1] = tp_assign(good_steps, tp_select(finite, tp_select(due, zero, finite_updates), zero), o->pred);
    tp_name_scope_pop(g);
    ops[2] = tp_apply_gradients_if(o->inner, plain, n, o->pred ? tp_logical_and(finite, o->pred) : finite);
    return tp_graph_status(g) == TP_OK ? tp_group(g, ops, 3, "update_and_scale") : tp_poison(g);
}

TP_DEF tp_optimizer *tp_loss_scale_(tp_optimizer *opt, const tp_loss_scale_desc *d)
{
    if (!opt) return tp__no_optimizer(NULL, "tp_loss_scale");
    tp_loss_scale_desc *q = (tp_loss_scale_desc *)tp_graph_alloc(opt->graph, sizeof *q);
    if (!q) return NULL;
    if (d) *q = *d;
    q->initial = tp__float_option(q->initial, 65536.0f);
    q->minimum = tp__float_option(q->minimum, q->initial < 1.0f ? q->initial : 1.0f);
    if (q->interval == 0) q->interval = 2000;
    tp_optimizer *o = tp_optimizer_proxy(opt, "LossScale", tp__loss_scale_apply, q);
    if (!o) return NULL;
    tp__optim_positive(o, q->at_, "initial", q->initial);
    tp__optim_positive(o, q->at_, "minimum", q->minimum);
    if (q->initial > TP__LARGEST_LOSS_SCALE || q->minimum > TP__LARGEST_LOSS_SCALE)
        tp_graph_fail(o->graph, &q->at_, TP_ERR_ARG, "LossScale: initial is %g and minimum %g: at most 2^126 (8.5e37)",
                      (double)q->initial, (double)q->minimum);
    if (q->interval < 1)
        tp_graph_fail(o->graph, &q->at_, TP_ERR_ARG, "LossScale: interval is %d: it must be 1 or more", q->interval);
    if (opt->loss_scale)
        tp_graph_fail(o->graph, &q->at_, TP_ERR_ARG, "LossScale: the optimizer has a loss scale already");
    if (q->minimum > q->initial)
        tp_graph_fail(o->graph, &q->at_, TP_ERR_ARG,
                      "LossScale: minimum is %g: it must be at most initial, which is %g", (double)q->minimum,
                      (double)q->initial);
    o->loss_scale = tp_optimizer_scalar(o, "loss_scale", q->initial);
    return o;
}

/* ==== >>gradproc ====================================================================================== */

/* If several towers have a copy of a variable, the first tower's copy stands for all: its name is used in rules. */
static tp_node *tp__first_copy(tp_node *var)
{
    const tp_variable *v = tp_node_variable(var);
    return v && v->copy_of ? v->copy_of->node : var;
}
static const char *tp__rule_name(tp_node *var) { return tp_node_name(tp__first_copy(var)); }
/* Closes a filter of variables. A regex is not misspelt, thus gets no warning, if it matches a trainable variable that is not here:
 * one without a gradient, or one of another part of a tp_multi_optimizer. */
static void tp__rule_filter_close(tp__filter *filter)
{
    int n = 0;
    tp_node *const *all = tp_collection(filter->g, TP_KEY_TRAINABLE_VARIABLES, &n);
    for (int i = 0; i < n && !filter->n_matched; i++) tp__filter_matches(filter, tp__rule_name(all[i]));
    tp__filter_close(filter);
}

static tp_gradproc tp__gradproc_make(const char *name,
                                     int (*process)(const tp_gradproc *p, tp_graph *g, tp_grad_var *gvs, int n))
{
    tp_gradproc p;
    memset(&p, 0, sizeof p);
    p.name = name;
    p.process = process;
    return p;
}

/* Refuses a gradient that is not like its variable, at the processor that made it. */
static void tp__gradproc_alike(const tp_gradproc *p, tp_graph *g, const tp_grad_var *gv)
{
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    if (!gv->var || !gv->grad || tp_is_poison(gv->var) || tp_is_poison(gv->grad)) return;
    if (gv->grad->dtype == gv->var->dtype && tp_shape_compatible(&gv->grad->shape, &gv->var->shape)) return;
    tp_graph_fail(g, &gv->grad->op->at, TP_ERR_SHAPE,
                  "%s makes a gradient of %s %s for variable '%s', which is %s %s: they must be alike", p->name,
                  tp_dtype_name(gv->grad->dtype), tp_shape_text(&gv->grad->shape, a), tp_node_name(gv->var),
                  tp_dtype_name(gv->var->dtype), tp_shape_text(&gv->var->shape, b));
}

TP_DEF int tp_gradproc_run(const tp_gradproc *p, tp_graph *g, tp_grad_var *gvs, int n)
{
    TP__REQUIRE(p && p->process && g && (gvs || n == 0) && n >= 0, 0)

    if (tp_graph_status(g) != TP_OK) return n;
    tp_cached_name_scope_push(g, p->name, true);
    const int left = p->process(p, g, gvs, n);
    tp_name_scope_pop(g);
    for (int i = 0; i < left && left <= n; i++) tp__gradproc_alike(p, g, &gvs[i]);
    if (left >= 0 && left <= n) return left;
    tp_graph_fail(g, NULL, TP_ERR, "%s left %d of %d gradients: it may drop some, not add any", p->name, left, n);
    return n;
}

/* -- tp_multi_optimizer, whose rules are those of gradient processors */

typedef struct tp__multi_rule {
    const tp_optimizer_part *part;
    int n;
} tp__multi_rule;

/* Copies the pairs of part k to `mine` and marks them in `taken`; those that are marked belong to earlier parts. Returns their number. */
static int tp__multi_take(tp_optimizer *o, int k, const tp_grad_var *gvs, int n, bool *taken, tp_grad_var *mine)
{
    const tp_optimizer_part *part = &((const tp__multi_rule *)o->user)->part[k];
    tp__filter filter;
    int n_mine = 0;
    if (!tp__filter_open(&filter, o->graph, NULL, o->name, part->regex, false)) return 0;
    for (int i = 0; i < n; i++)
        if (tp__filter_matches(&filter, tp__rule_name(gvs[i].var)) && !taken[i])
            taken[i] = true, mine[n_mine++] = gvs[i];
    tp__rule_filter_close(&filter);
    return n_mine;
}

static tp_node *tp__multi_apply(tp_optimizer *o, const tp_grad_var *gvs, int n)
{
    const tp__multi_rule *r = (const tp__multi_rule *)o->user;
    tp_graph *g = o->graph;
    int n_ops = 0;
    tp_node **ops = (tp_node **)tp_graph_alloc(g, (size_t)r->n * sizeof *ops);
    tp_grad_var *mine = (tp_grad_var *)tp_graph_alloc(g, (size_t)n * sizeof *mine);
    bool *taken = (bool *)tp_graph_alloc(g, (size_t)n);
    if (!ops || !mine || !taken) return tp_poison(g);
    for (int k = 0; k < r->n && tp_graph_status(g) == TP_OK; k++) {
        const int n_mine = tp__multi_take(o, k, gvs, n, taken, mine);
        if (n_mine) ops[n_ops++] = tp_apply_gradients_if(r->part[k].opt, mine, n_mine, o->pred);
    }
    for (int i = 0; i < n; i++)
        if (!taken[i])
            return tp_graph_fail(g, NULL, TP_ERR_NAME,
                                 "%s: no part's regex matches the variable '%s': a last part {\".*\", optimizer} takes "
                                 "what is left",
                                 o->name, tp__rule_name(gvs[i].var));
    return tp_graph_status(g) == TP_OK ? tp_group(g, ops, n_ops, "update_parts") : tp_poison(g);
}

TP_DEF tp_optimizer *tp_multi_optimizer(const tp_optimizer_part *parts, int n)
{
    TP__REQUIRE(parts && n > 0, NULL)

    for (int k = 0; k < n; k++)
        if (!parts[k].opt) return tp__no_optimizer(NULL, "tp_multi_optimizer");
    tp_graph *g = parts[0].opt->graph;
    tp_optimizer *o = tp_optimizer_new(g, "MultiOptimizer", tp__multi_apply, NULL);
    tp__multi_rule *r = (tp__multi_rule *)tp_graph_alloc(g, sizeof *r);
    tp_optimizer_part *copy = (tp_optimizer_part *)tp_graph_alloc(g, (size_t)n * sizeof *copy);
    if (!o || !r || !copy) return NULL;
    for (int k = 0; k < n; k++) {
        copy[k].opt = parts[k].opt;
        copy[k].regex = tp_graph_strdup(g, parts[k].regex ? parts[k].regex : ".*");
        if (!copy[k].regex) return NULL;
        for (int j = 0; j < k; j++)
            if (parts[j].opt == parts[k].opt)
                tp_graph_fail(g, NULL, TP_ERR_ARG,
                              "%s: parts %d and %d have the same optimizer: make one part of them, \"%s|%s\"", o->name,
                              j, k, copy[j].regex, copy[k].regex);
    }
    r->part = copy;
    r->n = n;
    o->user = r;
    return o;
}

/* -- FilterNoneGrad ---------------------------------------------------------- >>gradproc filter_none */

static int tp__gradproc_filter_none(const tp_gradproc *p, tp_graph *g, tp_grad_var *gvs, int n)
{
    tp_buf names;
    int left = 0, missing = 0;
    (void)g;
    memset(&names, 0, sizeof names);
    for (int i = 0; i < n; i++) {
        const tp_variable *v = tp_node_variable(gvs[i].var);
        if (gvs[i].grad) gvs[left++] = gvs[i];
        else if (!v || !v->frozen)
            missing++, tp_buf_printf(&names, "%s%s", names.len ? ", " : "", tp_node_name(gvs[i].var));
    }
    if (missing && !p->quiet)
        tp_log(TP_LOG_WARN, "No gradient w.r.t. %d trainable variables: %s", missing, names.data ? names.data : "");
    tp_buf_free(&names);
    return left;
}

TP_DEF tp_gradproc tp_gradproc_filter_none(void)
{
    return tp__gradproc_make("FilterNoneGrad", tp__gradproc_filter_none);
}

/* -- GlobalNormClip ------------------------------------------------------ >>gradproc global_norm_clip
 * g *= min(c/n, 1), n = sqrt(sum of all squares). n - n is 0, or NaN if n is not finite. */

static int tp__gradproc_global_norm_clip(const tp_gradproc *p, tp_graph *g, tp_grad_var *gvs, int n)
{
    tp_node **grad = (tp_node **)tp_graph_alloc(g, (size_t)n * sizeof *grad);
    int n_grad = 0;
    bool any_f64 = false;
    if (!(p->value > 0.0f)) {
        tp_graph_fail(g, NULL, TP_ERR_ARG, "GlobalNormClip clips to a norm of %g: it must be positive",
                      (double)p->value);
        return n;
    }
    if (!grad) return n;
    for (int i = 0; i < n; i++)
        if (gvs[i].grad) {
            any_f64 = any_f64 || gvs[i].grad->dtype == TP_F64;
            grad[n_grad++] = gvs[i].grad;
        }
    if (n_grad == 0) return n;
    for (int i = 0; i < n_grad && any_f64; i++) grad[i] = tp__as_dtype(grad[i], TP_F64);
    tp_node *norm = tp_global_norm(grad, n_grad);
    const tp_dtype dtype = norm->dtype; /* float64 where one of the gradients is */
    tp_node *one = tp_const_as(g, dtype, 1.0), *most = tp_const_as(g, dtype, (double)p->value);
    tp_node *factor = tp_minimum(tp_div(most, norm), one);
    factor = tp_add(factor, tp_sub(norm, norm));
    for (int i = 0; i < n; i++)
        if (gvs[i].grad) gvs[i].grad = tp__gradient_times(gvs[i].grad, factor);
    return n;
}

TP_DEF tp_gradproc tp_gradproc_global_norm_clip(float norm)
{
    tp_gradproc p = tp__gradproc_make("GlobalNormClip", tp__gradproc_global_norm_clip);
    p.value = norm;
    return p;
}

/* -- ScaleGradient -------------------------------------------------------------------- >>gradproc scale */

static int tp__gradproc_scale(const tp_gradproc *p, tp_graph *g, tp_grad_var *gvs, int n)
{
    tp_grad_rule single_rule;
    single_rule.regex = p->regex; /* tp_gradproc_scale has a single rule, which is not in an array */
    single_rule.multiplier = p->value;
    const tp_grad_rule *rules = p->rules ? p->rules : &single_rule;
    const int n_rules = p->rules ? p->n_rules : 1;
    int left = 0, n_open = 0;
    if (n_rules < 0) {
        tp_graph_fail(g, &p->at_, TP_ERR_ARG, "ScaleGradient has %d rules", n_rules);
        return n;
    }
    tp__filter *filter = (tp__filter *)tp_graph_alloc(g, (size_t)n_rules * sizeof *filter);
    for (; filter && n_open < n_rules; n_open++) {
        const char *regex = rules[n_open].regex;
        if (!regex || !*regex)
            tp_graph_fail(g, &p->at_, TP_ERR_ARG, "ScaleGradient needs a regular expression for variable names");
        if (!tp__filter_open(&filter[n_open], g, &p->at_, p->name, regex, false)) break;
    }
    for (int i = 0; i < n && n_open == n_rules; i++) {
        const char *name = tp__rule_name(gvs[i].var);
        float multiplier = 1.0f;
        bool matched = false;
        for (int r = 0; r < n_rules; r++) /* also those after the first match: what they match is not misspelt */
            if (tp__filter_matches(&filter[r], name) && !matched) matched = true, multiplier = rules[r].multiplier;
        if (!tp__finite((double)multiplier)) {
            tp_graph_fail(g, &p->at_, TP_ERR_ARG,
                          "ScaleGradient multiplies the gradient of '%s' by %g: it must be finite", name,
                          (double)multiplier);
            matched = false, multiplier = 1.0f;
        }
        if (matched && !p->quiet && tp__first_copy(gvs[i].var) == gvs[i].var)
            tp_log(TP_LOG_INFO, "Gradient of '%s' is multiplied by %g", name, (double)multiplier);
        if (multiplier == 0.0f) continue;
        gvs[left] = gvs[i];
        if (matched && gvs[i].grad) gvs[left].grad = tp_affine(gvs[i].grad, multiplier, 0.0f);
        left++;
    }
    for (int r = 0; r < n_open; r++) tp__rule_filter_close(&filter[r]);
    return n_open == n_rules ? left : n;
}

TP_DEF tp_gradproc(tp_gradproc_scale)(const char *regex, float multiplier)
{
    tp_gradproc p = tp__gradproc_make("ScaleGradient", tp__gradproc_scale);
    p.regex = regex;
    p.value = multiplier;
    return p;
}

TP_DEF tp_gradproc(tp_gradproc_scale_rules)(const tp_grad_rule *rules, int n)
{
    tp_gradproc p = tp__gradproc_make("ScaleGradient", tp__gradproc_scale);
    p.rules = rules;
    p.n_rules = n;
    return p;
}

/* -- MapGradient ------------------------------------------------------------------------ >>gradproc map */

static int tp__gradproc_map(const tp_gradproc *p, tp_graph *g, tp_grad_var *gvs, int n)
{
    int left = 0;
    tp__filter filter;
    if (!p->map) tp_graph_fail(g, &p->at_, TP_ERR_ARG, "MapGradient: the function is NULL");
    if (!p->map || !tp__filter_open(&filter, g, &p->at_, p->name, p->regex, false)) return n;
    for (int i = 0; i < n; i++) {
        tp_grad_var gv = gvs[i];
        if (gv.grad && tp__filter_matches(&filter, tp__rule_name(gv.var))) {
            gv.grad = p->map(gv.grad, gv.var, p->user);
            if (!gv.grad) continue;
        }
        gvs[left++] = gv;
    }
    tp__rule_filter_close(&filter);
    return left;
}

TP_DEF tp_gradproc(tp_gradproc_map)(tp_node *(*fn)(tp_node *grad, tp_node *var, void *user), void *user,
                                    const char *regex)
{
    tp_gradproc p = tp__gradproc_make("MapGradient", tp__gradproc_map);
    p.map = fn;
    p.user = user;
    p.regex = regex;
    return p;
}

/* -- SummaryGradient, PrintGradient, CheckGradient --------------------------------------- >>gradproc summary */

/* Whether this is the first call for this variable and `key` in this graph. The collection named `key` records the
 * variables. */
static bool tp__gradproc_first(tp_graph *g, const char *key, tp_node *var)
{
    int n = 0;
    tp_node *const *seen = tp_collection(g, key, &n);
    var = tp__first_copy(var);
    for (int i = 0; i < n; i++)
        if (seen[i] == var) return false;
    tp_collection_add(g, key, var);
    return true;
}

static const char *tp__grad_name(tp_graph *g, tp_node *var, const char *suffix)
{
    const char *s = tp_arena_printf(&g->arena, "%s%s", tp_node_name(var), suffix);
    return s ? s : suffix;
}

/* Whether the name begins with "towerN/". */
static bool tp__in_numbered_tower(const char *name)
{
    const size_t digits = strncmp(name, "tower", 5) == 0 ? strspn(name + 5, "0123456789") : 0;
    return digits > 0 && name[5 + digits] == '/';
}

static int tp__gradproc_summary(const tp_gradproc *p, tp_graph *g, tp_grad_var *gvs, int n)
{
    tp__filter filter;
    const tp__collection_keys keys = tp__collection_keys_of(NULL, p->collections, TP_KEY_SUMMARIES);
    if (!tp__filter_open(&filter, g, &p->at_, p->name, p->regex, false)) return n;
    for (int i = 0; i < n && tp_graph_status(g) == TP_OK; i++) {
        tp_node *var = gvs[i].var, *grad = gvs[i].grad;
        if (!grad || !tp__filter_matches(&filter, tp__rule_name(var)) || tp__in_numbered_tower(tp_node_name(var)) ||
            !tp__summary_here(g) || !tp__gradproc_first(g, "tp/summarised_gradients", var))
            continue;
        tp__summary_node(grad, tp__grad_name(g, var, "-grad"), TP_SUMMARY_HISTOGRAM, &keys);
        tp_node *square = tp__stays_float32(tp_square(tp__widened(grad)));
        tp_node *rms = tp_named(tp_sqrt(tp_mean(square)), tp__grad_name(g, var, "/rms"));
        tp_add_moving_summary_n(&rms, 1, NULL);
    }
    tp__rule_filter_close(&filter);
    return n;
}

TP_DEF tp_gradproc(tp_gradproc_summary_to)(const char *regex, const char *const *collections)
{
    tp_gradproc p = tp__gradproc_make("SummaryGradient", tp__gradproc_summary);
    p.regex = regex;
    p.collections = collections;
    return p;
}
TP_DEF tp_gradproc(tp_gradproc_summary)(const char *regex) { return (tp_gradproc_summary_to)(regex, NULL); }

static int tp__gradproc_print(const tp_gradproc *p, tp_graph *g, tp_grad_var *gvs, int n)
{
    tp__filter filter;
    if (!tp__filter_open(&filter, g, &p->at_, p->name, p->regex, false)) return n;
    for (int i = 0; i < n && tp_graph_status(g) == TP_OK; i++)
        if (gvs[i].grad && tp__filter_matches(&filter, tp__rule_name(gvs[i].var)) &&
            tp__gradproc_first(g, "tp/printed_gradients", gvs[i].var))
            gvs[i].grad = tp_print(gvs[i].grad, tp__grad_name(g, gvs[i].var, "-grad"));
    tp__rule_filter_close(&filter);
    return n;
}

TP_DEF tp_gradproc(tp_gradproc_print)(const char *regex)
{
    tp_gradproc p = tp__gradproc_make("PrintGradient", tp__gradproc_print);
    p.regex = regex;
    return p;
}

static int tp__gradproc_check(const tp_gradproc *p, tp_graph *g, tp_grad_var *gvs, int n)
{
    (void)p;
    for (int i = 0; i < n && tp_graph_status(g) == TP_OK; i++)
        if (gvs[i].grad) {
            const char *message = tp_arena_printf(&g->arena, "CheckGradient/%s", tp_node_name(gvs[i].var));
            gvs[i].grad = tp_check_numerics(gvs[i].grad, message ? message : "CheckGradient");
        }
    return n;
}

TP_DEF tp_gradproc tp_gradproc_check(void) { return tp__gradproc_make("CheckGradient", tp__gradproc_check); }

TP_DEF tp_gradproc tp_gradproc_at(tp_gradproc p, tp_at at)
{
    p.at_ = at;
    return p;
}

/* -- the wrapper ------------------------------------------------------------------------------------- */

typedef struct tp__gradproc_list {
    tp_gradproc *proc;
    int n;
} tp__gradproc_list;

static tp_node *tp__gradproc_apply(tp_optimizer *o, const tp_grad_var *gvs, int n)
{
    const tp__gradproc_list *l = (const tp__gradproc_list *)o->user;
    tp_grad_var *work = (tp_grad_var *)tp_graph_alloc(o->graph, (size_t)n * sizeof *work);
    if (!work) return tp_poison(o->graph);
    for (int i = 0; i < n; i++) work[i] = gvs[i];
    for (int i = 0; i < l->n; i++) n = tp_gradproc_run(&l->proc[i], o->graph, work, n);
    return tp_apply_gradients_if(o->inner, work, n, o->pred);
}

/* Copies the processors into the graph, with their rules and patterns, because the caller owns the originals. */
static bool tp__gradproc_copy(tp_graph *g, tp_gradproc *p)
{
    if (p->name && !(p->name = tp_graph_strdup(g, p->name))) return false;
    if (p->regex && !(p->regex = tp_graph_strdup(g, p->regex))) return false;
    if (p->collections) {
        int n = 0;
        while (p->collections[n]) n++;
        const char **list = (const char **)tp_graph_alloc(g, ((size_t)n + 1) * sizeof *list);
        if (!list) return false;
        for (int i = 0; i < n; i++)
            if (!(list[i] = tp_graph_strdup(g, p->collections[i]))) return false;
        p->collections = list;
    }
    if (!p->rules || p->n_rules < 0) return true; /* tp__gradproc_scale refuses a negative number */
    tp_grad_rule *rules = (tp_grad_rule *)tp_graph_alloc(g, (size_t)p->n_rules * sizeof *rules);
    if (!rules) return false;
    for (int i = 0; i < p->n_rules; i++) {
        rules[i] = p->rules[i];
        if (rules[i].regex && !(rules[i].regex = tp_graph_strdup(g, rules[i].regex))) return false;
    }
    p->rules = rules;
    return true;
}

TP_DEF tp_optimizer *tp_apply_grad_processors(tp_optimizer *opt, const tp_gradproc *procs, int n)
{
    if (!opt) return tp__no_optimizer(NULL, "tp_apply_grad_processors");
    TP__GRAPH_REQUIRE(opt->graph, (procs || n == 0) && n >= 0, NULL)

    tp_graph *g = opt->graph;
    tp__gradproc_list *l = (tp__gradproc_list *)tp_graph_alloc(g, sizeof *l);
    tp_gradproc *copy = (tp_gradproc *)tp_graph_alloc(g, (size_t)n * sizeof *copy);
    if (!l || !copy) return NULL;
    l->proc = copy;
    l->n = n;
    for (int i = 0; i < n; i++) {
        copy[i] = procs[i];
        if (!copy[i].process || !copy[i].name) {
            tp_graph_fail(g, NULL, TP_ERR_ARG, "gradient processor %d has no %s", i,
                          copy[i].name ? "process function" : "name");
            return opt;
        }
        if (!tp__gradproc_copy(g, &copy[i])) return NULL;
    }
    if (opt->loss_scale)
        tp_log_once(
            TP_LOG_WARN,
            "tp_apply_grad_processors around tp_loss_scale: gradients multiplied by the loss scale are processed. "
            "Put tp_loss_scale around tp_apply_grad_processors.");
    return tp_optimizer_proxy(opt, opt->name, tp__gradproc_apply, l);
}

/* ==== >>schedule ====================================================================================== */

TP_DEF tp_node *tp_increment_global_step(tp_graph *g)
{
    TP__GRAPH_REQUIRE(g, g, tp_poison(g))

    tp_node *step = tp_get_global_step_var(g);
    tp_node *one = tp_const_as(g, TP_I64, 1);
    return tp_assign_add(step, one, NULL);
}

/* Refuses a number of a schedule that is not finite. */
static bool tp__schedule_finite(tp_graph *g, const char *schedule_name, const char *argument, float v)
{
    if (v - v == 0.0f) return true;
    tp_graph_fail(g, NULL, TP_ERR_ARG, "%s: %s is %g: it must be finite", schedule_name, argument, (double)v);
    return false;
}
/* The same for a number that would make the rate negative, or no number, if it were below 0. */
static bool tp__schedule_not_negative(tp_graph *g, const char *schedule_name, const char *argument, float v)
{
    if (!tp__schedule_finite(g, schedule_name, argument, v)) return false;
    if (v >= 0.0f) return true;
    tp_graph_fail(g, NULL, TP_ERR_ARG, "%s: %s is %g: it must be at least 0", schedule_name, argument, (double)v);
    return false;
}

/* Returns the step as an int64 scalar, or the poison node. */
static tp_node *tp__schedule_step(tp_graph *g, tp_node *step, const char *schedule_name)
{
    char t[TP_SHAPE_TEXT];
    if (!step) step = tp_get_global_step_var(g);
    if (tp_is_poison(step)) return step;
    if (step->shape.ndim != 0 || (step->dtype != TP_I64 && step->dtype != TP_I32))
        return tp_graph_fail(g, NULL, TP_ERR_SHAPE, "%s: the step '%s' is %s %s: it must be an integer scalar",
                             schedule_name, tp_node_name(step), tp_dtype_name(step->dtype),
                             tp_shape_text(&step->shape, t));
    return tp__as_dtype(step, TP_I64);
}

TP_DEF tp_node *tp_exponential_decay(tp_graph *g, float lr, tp_node *step, int64_t decay_steps, float rate,
                                     bool staircase)
{
    TP__GRAPH_REQUIRE(g, g, tp_poison(g))

    if (decay_steps < 1)
        return tp_graph_fail(g, NULL, TP_ERR_ARG, "exponential_decay: decay_steps is %lld: it must be 1 or more",
                             (long long)decay_steps);
    if (!tp__schedule_finite(g, "exponential_decay", "lr", lr) ||
        !tp__schedule_not_negative(g, "exponential_decay", "rate", rate))
        return tp_poison(g);
    tp_name_scope_push(g, "ExponentialDecay");
    tp_node *count = tp__schedule_step(g, step, "exponential_decay"), *y = tp_poison(g);
    if (!tp_is_poison(count)) {
        /* integer division, so that the rate changes exactly at multiples of decay_steps */
        tp_node *every = tp_const_as(g, TP_I64, (double)decay_steps);
        tp_node *power = staircase ? tp_cast(tp_floordiv(count, every), TP_F32)
                                   : tp_affine(tp_cast(count, TP_F32), (float)(1.0 / (double)decay_steps), 0.0f);
        y = tp_affine(tp_pow(tp_const(g, rate), power), lr, 0.0f);
    }
    tp_name_scope_pop(g);
    return y;
}

TP_DEF tp_node *tp_cosine_decay(tp_graph *g, float lr, tp_node *step, int64_t decay_steps, float alpha)
{
    TP__GRAPH_REQUIRE(g, g, tp_poison(g))

    if (decay_steps < 1)
        return tp_graph_fail(g, NULL, TP_ERR_ARG, "cosine_decay: decay_steps is %lld: it must be 1 or more",
                             (long long)decay_steps);
    if (!tp__schedule_finite(g, "cosine_decay", "lr", lr) ||
        !tp__schedule_not_negative(g, "cosine_decay", "alpha", alpha))
        return tp_poison(g);
    tp_name_scope_push(g, "CosineDecay");
    tp_node *count = tp__schedule_step(g, step, "cosine_decay"), *y = tp_poison(g);
    if (!tp_is_poison(count)) {
        count = tp_cast(tp_minimum(count, tp_const_as(g, TP_I64, (double)decay_steps)), TP_F32);
        tp_node *cosine = tp_cos(tp_affine(count, (float)(3.14159265358979323846 / (double)decay_steps), 0.0f));
        y = tp_affine(cosine, 0.5f * lr * (1.0f - alpha), lr * (alpha + 0.5f * (1.0f - alpha)));
    }
    tp_name_scope_pop(g);
    return y;
}

TP_DEF tp_node *tp_warm_up(tp_node *lr, tp_node *step, int64_t steps, float start)
{
    tp_graph *g = tp_node_graph(lr);
    TP__GRAPH_REQUIRE(g, lr, tp_poison(g))
    if (tp_is_poison(lr)) return lr;
    if (steps < 1)
        return tp_graph_fail(g, NULL, TP_ERR_ARG, "warm_up: steps is %lld: it must be 1 or more", (long long)steps);
    char t[TP_SHAPE_TEXT];
    if (lr->shape.ndim != 0 || !tp_dtype_is_float(lr->dtype))
        return tp_graph_fail(g, NULL, TP_ERR_SHAPE, "warm_up: lr, '%s', is %s %s: it must be a floating scalar",
                             tp_node_name(lr), tp_dtype_name(lr->dtype), tp_shape_text(&lr->shape, t));
    if (!tp__schedule_not_negative(g, "warm_up", "start", start)) return tp_poison(g);
    tp_name_scope_push(g, "WarmUp");
    tp_node *count = tp__schedule_step(g, step, "warm_up"), *y = tp_poison(g);
    if (!tp_is_poison(count)) {
        tp_node *done = tp_less(count, tp_const_as(g, TP_I64, (double)steps));
        tp_node *warm_rate = tp_affine(tp_cast(count, TP_F32), (float)((1.0 - (double)start) / (double)steps), start);
        y = tp_select(done, tp_mul(lr, tp__as_dtype(warm_rate, lr->dtype)), lr);
    }
    tp_name_scope_pop(g);
    return y;
}

TP_DEF tp_node *tp_piecewise_constant(tp_graph *g, tp_node *step, const int64_t *boundaries, const float *values, int n)
{
    TP__GRAPH_REQUIRE(g, g && n >= 0 && (boundaries || n == 0) && values, tp_poison(g))

    for (int i = 1; i < n; i++)
        if (boundaries[i] <= boundaries[i - 1])
            return tp_graph_fail(g, NULL, TP_ERR_ARG, "piecewise_constant: boundary %lld follows %lld: they must rise",
                                 (long long)boundaries[i], (long long)boundaries[i - 1]);
    for (int i = 0; i <= n; i++)
        if (!tp__schedule_finite(g, "piecewise_constant", "a value", values[i])) return tp_poison(g);
    tp_name_scope_push(g, "PiecewiseConstant");
    tp_node *count = tp__schedule_step(g, step, "piecewise_constant"), *y = tp_poison(g);
    if (!tp_is_poison(count)) {
        y = tp_const(g, values[n]);
        for (int i = n - 1; i >= 0; i--) {
            tp_node *value = tp_const(g, values[i]);
            y = tp_select(tp_less_equal(count, tp_const_as(g, TP_I64, (double)boundaries[i])), value, y);
        }
    }
    tp_name_scope_pop(g);
    return y;
}

TP__COLD_END
TP__EXACT_END
#undef TP__PLACED
#define TP__PLACED TP__PLACE
#endif
