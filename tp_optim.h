/* tp_optim.h - v0.1 - optimizers and gradient processors, as graph construction
 *
 * Do this:
 *     #define TP_IMPLEMENTATION        // in ONE .c file, before any other include
 *     #include "tp_optim.h"            // pulls in tp_graph.h and tp_tensor.h
 *
 * WHAT THIS IS       the optimizer protocol, SGD, Momentum, Nesterov and Adam with TensorFlow's formulas and slot names,
 *                    and processors that change gradients before they are applied. Everything adds nodes to the graph.
 * WHAT THIS IS NOT   the loop that runs them (tp_train.h), the kernels (one op each in tp_graph.h).
 *
 * A COMPLETE PROGRAM
 *     #define TP_IMPLEMENTATION
 *     #include "tp_optim.h"
 *     int main(void)
 *     {
 *         tp_graph *g = tp_graph_new(NULL);
 *         tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(2), tp_init_ones());
 *         tp_optimizer *opt = tp_adam(tp_const(g, 0.1f), .epsilon = 1e-3f);
 *         tp_grad_var gv;
 *         tp_compute_gradients(tp_sum(tp_square(w)), &w, 1, &gv);
 *         tp_node *train = tp_apply_gradients(opt, &gv, 1);
 *         tp_session *s = tp_session_new(g, NULL);
 *         for (int i = 0; s && i < 100; i++)
 *             if (tp_session_run(s, NULL, 0, &train, 1, NULL) != TP_OK) puts(tp_last_error());
 *         tp_session_free(s);
 *         tp_graph_free(g);
 *         return 0;
 *     }
 *
 * CONTENTS   >>optimizer >>gradient processors
 *
 * OWNERSHIP  everything lives in the graph's memory and dies with it; nothing is freed by hand.
 * ERRORS     mistakes stick to the graph; tp_apply_gradients then returns the poison node.
 */
#ifndef TP_OPTIM_H
#define TP_OPTIM_H

#include "tp_graph.h"
#if TP_VERSION_MAJOR != 0 || TP_VERSION_MINOR != 1
#error "tp_optim.h 0.1 needs tp_graph.h 0.1: copy all tp headers from the same version"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ==== >>optimizer ===================================================================================== */

typedef struct tp_grad_var {
    tp_node *grad, *var; /* grad NULL: the cost does not depend on var */
} tp_grad_var;

/* The protocol: one function that adds the update of all variables and returns an effect-only node. Write your own with
 * tp_optimizer_new. [tfutils: optimizer] */
typedef struct tp_optimizer tp_optimizer;
struct tp_optimizer {
    tp_graph *graph;
    const char *name;
    tp_node *learning_rate;
    tp_node *(*apply)(tp_optimizer *o, const tp_grad_var *gv, int n);
    const char *slot[4]; /* names of the slots it makes: "<var>/<slot>" */
    float a, b, epsilon;
    bool nesterov;
    tp_optimizer *inner; /* of wrappers */
    void *user;
};
TP_DEF tp_optimizer *tp_optimizer_new(tp_graph *g, const char *name); /* zeroed; NULL: out of memory, which sticks to g */
/* gv[i] = {d cost / d vars[i] or NULL, vars[i]}. */
TP_DEF void tp_compute_gradients(tp_node *cost, tp_node *const *vars, int n, tp_grad_var *gv);
/* Variables are updated after everything that reads their old values. Every grad must be there (tp_gradproc_filter_none). */
TP_DEF tp_node *tp_apply_gradients(tp_optimizer *o, const tp_grad_var *gv, int n);
/* A slot variable "<var>/<slot>" of the variable's shape: not trained, saved unless the variable is local. */
TP_DEF tp_node *tp_optimizer_slot(tp_node *var, const char *slot, float init);

/* tp_adam(lr, .epsilon = 1e-3f): the learning rate comes first, a node, often tp_get_scalar_variable(g, "learning_rate", 0.1f) so that callbacks can set
 * it. Zero options mean the default; TP_ZERO is an explicit 0. */
typedef struct tp_optimizer_desc {
    tp_at at_;
    tp_node *learning_rate; /* float32 scalar; required */
    float momentum; /* tp_momentum, tp_nesterov: 0 = 0.9 */
    int use_nesterov; /* tp_tri, tp_momentum: unset = TP_NO */
    float beta1, beta2, epsilon; /* tp_adam: 0 = 0.9, 0.999, 1e-8 */
} tp_optimizer_desc;
TP_DEF tp_optimizer *tp_sgd_(const tp_optimizer_desc *d);      /* w -= lr g */
TP_DEF tp_optimizer *tp_momentum_(const tp_optimizer_desc *d); /* a = mu a + g; w -= lr a. Slot Momentum */
TP_DEF tp_optimizer *tp_nesterov_(const tp_optimizer_desc *d); /* a = mu a + g; w -= lr (g + mu a) */
/* m, v averages of g, g^2 (slots Adam, Adam_1; beta1_power, beta2_power);
 * w -= lr sqrt(1 - beta2^t)/(1 - beta1^t) m / (sqrt(v) + epsilon) */
TP_DEF tp_optimizer *tp_adam_(const tp_optimizer_desc *d);
#ifndef __cplusplus
#define tp_sgd(...)      tp_sgd_(&(const tp_optimizer_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_momentum(...) tp_momentum_(&(const tp_optimizer_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_nesterov(...) tp_nesterov_(&(const tp_optimizer_desc){.at_ = TP_AT, __VA_ARGS__})
#define tp_adam(...)     tp_adam_(&(const tp_optimizer_desc){.at_ = TP_AT, __VA_ARGS__})
#endif

/* lr rate^(step/decay_steps), the exponent rounded down if staircase; step is an integer scalar. [exponential_decay] */
TP_DEF tp_node *tp_exponential_decay(float learning_rate, tp_node *step, double decay_steps, double decay_rate, bool staircase);

/* ==== >>gradient processors =========================================================================== */

/* Changes a list of gradients: returns how many of gv[0..n) are left (entries may be replaced and dropped, not added).
 * User-written ones are equal. [tfutils: gradproc.GradientProcessor] */
typedef struct tp_gradproc {
    const char *name; /* also the name scope of its nodes */
    int (*process)(const struct tp_gradproc *p, tp_graph *g, tp_grad_var *gv, int n);
    void *user;
    float value;
    const char *regex;
    tp_node *(*map)(tp_node *grad, tp_node *var, void *user);
    struct { const char *regex; float multiplier; } scale[16];
    bool quiet;
} tp_gradproc;
TP_DEF tp_gradproc tp_gradproc_filter_none(void); /* drops variables without a gradient, with one warning */
TP_DEF tp_gradproc tp_gradproc_global_norm_clip(float global_norm); /* n = L2 norm of all gradients together; g *= c/n if n > c */
/* map(grad, var) for variables whose name matches (from the start, `$` appended); NULL drops one. regex NULL = ".*" */
TP_DEF tp_gradproc tp_gradproc_map(tp_node *(*map)(tp_node *grad, tp_node *var, void *user), const char *regex, void *user);
/* Multiplies gradients of matching variables; more pairs with tp_gradproc_scale_also. The first match counts; 0 drops the
 * variable, so that it is frozen. */
TP_DEF tp_gradproc tp_gradproc_scale(const char *regex, float multiplier);
TP_DEF tp_gradproc tp_gradproc_scale_also(tp_gradproc p, const char *regex, float multiplier);
/* An optimizer that runs the processors in order, then inner. [apply_grad_processors] */
TP_DEF tp_optimizer *tp_apply_grad_processors(tp_optimizer *inner, const tp_gradproc *procs, int n);
TP_DEF tp_optimizer *tp_optimizer_proxy(tp_optimizer *inner, size_t user_size); /* passes all on; override apply [ProxyOptimizer] */

#ifdef __cplusplus
}
#endif
#endif /* TP_OPTIM_H */

/* ===== STOP HERE if you only want to use the library. Everything below is implementation. ===== */
#if defined(TP_IMPLEMENTATION) && !defined(TP__OPTIM_IMPLEMENTED)
#define TP__OPTIM_IMPLEMENTED
TP__COLD_BEGIN

/* ==== >>optimizer ===================================================================================== */

TP_DEF tp_optimizer *tp_optimizer_new(tp_graph *g, const char *name)
{
    tp_optimizer *o = (tp_optimizer *)tp_graph_alloc(g, sizeof *o);
    if (!o) return NULL;
    o->graph = g;
    o->name = name;
    return o;
}

TP_DEF void tp_compute_gradients(tp_node *cost, tp_node *const *vars, int n, tp_grad_var *gv)
{
    for (int i = 0; i < n; i++) {
        gv[i].var = vars[i];
        gv[i].grad = NULL;
    }
    if (tp_is_poison(cost) || n == 0) return;
    tp_node **d = (tp_node **)tp_graph_alloc(tp_node_graph(cost), (size_t)n * sizeof *d);
    if (!d) return;
    tp_gradients(cost, vars, n, d);
    for (int i = 0; i < n; i++) gv[i].grad = d[i];
}

TP_DEF tp_node *tp_apply_gradients(tp_optimizer *o, const tp_grad_var *gv, int n)
{
    tp_graph *g = o->graph;
    for (int i = 0; i < n && !o->inner; i++) {
        if (!gv[i].grad) return tp_graph_fail(g, NULL, TP_ERR_ARG, "%s: variable '%s' has no gradient: filter it out first", o->name, tp_node_name(gv[i].var));
        if (!tp_node_variable(gv[i].var) && !tp_is_poison(gv[i].var))
            return tp_graph_fail(g, NULL, TP_ERR_ARG, "%s: '%s' is not a variable", o->name, tp_node_name(gv[i].var));
    }
    if (tp_graph_status(g) != TP_OK) return tp_poison(g);
    if (n == 0) return tp_graph_fail(g, NULL, TP_ERR_ARG, "%s: there are no gradients to apply", o->name);
    tp_name_scope_push(g, "");
    tp_name_scope_push(g, "apply_gradients");
    tp_node *op = o->apply(o, gv, n);
    tp_name_scope_pop(g);
    tp_name_scope_pop(g);
    return op;
}

TP_DEF tp_node *tp_optimizer_slot(tp_node *var, const char *slot, float init)
{
    const tp_variable *v = tp_node_variable(var);
    if (!v) return var;
    tp_graph *g = tp_node_graph(var);
    const size_t size = strlen(v->name) + strlen(slot) + 2;
    char *name = (char *)tp_graph_alloc(g, size);
    if (!name) return tp_poison(g);
    snprintf(name, size, "%s/%s", v->name, slot);
    tp_variable_desc d;
    memset(&d, 0, sizeof d);
    d.name = name;
    d.dtype = v->dtype;
    d.shape = v->shape;
    d.init = tp_init_constant(init);
    d.trainable = TP_NO;
    d.local = v->local;
    const tp_variable *old = tp_find_variable(g, name);
    return old ? old->node : tp__new_variable(g, &d, name);
}

/* The gradients split in columns that the apply ops take. */
typedef struct tp__columns {
    tp_node **var, **grad, **slot1, **slot2;
} tp__columns;

static bool tp__columns_make(tp_optimizer *o, const tp_grad_var *gv, int n, tp__columns *c)
{
    memset(c, 0, sizeof *c);
    tp_node **room = (tp_node **)tp_graph_alloc(o->graph, (size_t)n * 4 * sizeof *room);
    if (!room) return false;
    c->var = room;
    c->grad = room + n;
    c->slot1 = room + 2 * n;
    c->slot2 = room + 3 * n;
    for (int i = 0; i < n; i++) {
        c->var[i] = gv[i].var;
        c->grad[i] = gv[i].grad;
        if (o->slot[0]) c->slot1[i] = tp_optimizer_slot(gv[i].var, o->slot[0], 0.0f);
        if (o->slot[1]) c->slot2[i] = tp_optimizer_slot(gv[i].var, o->slot[1], 0.0f);
    }
    return tp_graph_status(o->graph) == TP_OK;
}

static tp_node *tp__sgd_apply(tp_optimizer *o, const tp_grad_var *gv, int n)
{
    tp__columns c;
    return tp__columns_make(o, gv, n, &c) ? tp_apply_gradient_descent(c.var, c.grad, n, o->learning_rate, NULL) : tp_poison(o->graph);
}

static tp_node *tp__momentum_apply(tp_optimizer *o, const tp_grad_var *gv, int n)
{
    tp__columns c;
    return tp__columns_make(o, gv, n, &c) ? tp_apply_momentum(c.var, c.slot1, c.grad, n, o->learning_rate, o->a, o->nesterov, NULL) : tp_poison(o->graph);
}

static tp_node *tp__adam_apply(tp_optimizer *o, const tp_grad_var *gv, int n)
{
    tp__columns c;
    tp_node *all[3];
    if (!tp__columns_make(o, gv, n, &c)) return tp_poison(o->graph);
    tp_node *b1 = tp_get_scalar_variable(o->graph, "beta1_power", o->a), *b2 = tp_get_scalar_variable(o->graph, "beta2_power", o->b);
    all[0] = tp_apply_adam(c.var, c.slot1, c.slot2, c.grad, n, o->learning_rate, b1, b2, o->a, o->b, o->epsilon, NULL);
    all[1] = tp_assign(b1, tp_affine(b1, o->a, 0.0f), NULL); /* the update reads the old powers: the planner sees to the order */
    all[2] = tp_assign(b2, tp_affine(b2, o->b, 0.0f), NULL);
    return tp_group(o->graph, all, 3, "Adam");
}

static tp_optimizer *tp__optimizer_make(tp_node *lr, const char *name, tp_node *(*apply)(tp_optimizer *, const tp_grad_var *, int), const tp_at *at)
{
    tp_graph *g = tp_node_graph(lr);
    tp_optimizer *o = tp_optimizer_new(g, name);
    if (!o) return NULL;
    if (!tp_is_poison(lr) && (lr->shape.ndim != 0 || lr->dtype != TP_F32)) {
        char t[TP_SHAPE_TEXT];
        tp_graph_fail(g, at, TP_ERR_SHAPE, "%s: the learning rate must be a float32 scalar, '%s' is %s %s", name, tp_node_name(lr), tp_dtype_name(lr->dtype), tp_shape_text(&lr->shape, t));
    }
    o->learning_rate = lr;
    o->apply = apply;
    return o;
}

static float tp__option(float value, float preset) { return value == 0.0f ? preset : value == TP_ZERO ? 0.0f : value; }

TP_DEF tp_optimizer *tp_sgd_(const tp_optimizer_desc *d) { return tp__optimizer_make(d->learning_rate, "GradientDescent", tp__sgd_apply, &d->at_); }

TP_DEF tp_optimizer *tp_momentum_(const tp_optimizer_desc *d)
{
    tp_optimizer *o = tp__optimizer_make(d->learning_rate, "Momentum", tp__momentum_apply, &d->at_);
    if (!o) return NULL;
    o->slot[0] = "Momentum";
    o->a = tp__option(d->momentum, 0.9f);
    o->nesterov = d->use_nesterov == TP_YES;
    return o;
}

TP_DEF tp_optimizer *tp_nesterov_(const tp_optimizer_desc *d)
{
    tp_optimizer *o = tp_momentum_(d);
    if (o) o->nesterov = true;
    return o;
}

TP_DEF tp_optimizer *tp_adam_(const tp_optimizer_desc *d)
{
    tp_optimizer *o = tp__optimizer_make(d->learning_rate, "Adam", tp__adam_apply, &d->at_);
    if (!o) return NULL;
    o->slot[0] = "Adam";
    o->slot[1] = "Adam_1";
    o->a = tp__option(d->beta1, 0.9f);
    o->b = tp__option(d->beta2, 0.999f);
    o->epsilon = tp__option(d->epsilon, 1e-8f);
    return o;
}

TP_DEF tp_node *tp_exponential_decay(float learning_rate, tp_node *step, double decay_steps, double decay_rate, bool staircase)
{
    tp_graph *g = tp_node_graph(step);
    if (tp_is_poison(step)) return step;
    if (!(decay_steps > 0)) return tp_graph_fail(g, NULL, TP_ERR_ARG, "exponential_decay: decay_steps is %g, it must be positive", decay_steps);
    tp_node *p = tp_div(tp_cast(step, TP_F64), tp_const_as(g, TP_F64, decay_steps));
    if (staircase) p = tp_floor(p);
    return tp_cast(tp_mul(tp_const_as(g, TP_F64, (double)learning_rate), tp_pow(tp_const_as(g, TP_F64, decay_rate), p)), TP_F32);
}

/* ==== >>gradient processors =========================================================================== */

static int tp__filter_none(const tp_gradproc *p, tp_graph *g, tp_grad_var *gv, int n)
{
    int kept = 0;
    tp_buf names;
    (void)g;
    memset(&names, 0, sizeof names);
    for (int i = 0; i < n; i++) {
        if (gv[i].grad) gv[kept++] = gv[i];
        else tp_buf_printf(&names, "%s%s", names.len ? ", " : "", tp_node_name(gv[i].var));
    }
    if (names.len && !p->quiet) tp_log(TP_LOG_WARN, "No gradient w.r.t %d trainable variables: %s", n - kept, names.data);
    tp_buf_free(&names);
    return kept;
}

TP_DEF tp_gradproc tp_gradproc_filter_none(void)
{
    tp_gradproc p;
    memset(&p, 0, sizeof p);
    p.name = "FilterNoneGrad";
    p.process = tp__filter_none;
    return p;
}

static int tp__global_norm_clip(const tp_gradproc *p, tp_graph *g, tp_grad_var *gv, int n)
{
    tp_node **all = (tp_node **)tp_graph_alloc(g, (size_t)(n + 1) * sizeof *all);
    if (!all || n == 0) return n;
    for (int i = 0; i < n; i++) all[i] = gv[i].grad;
    tp_node *norm = tp_global_norm(all, n), *c = tp_const(g, p->value);
    tp_node *factor = tp_mul(c, tp_minimum(tp_reciprocal(norm), tp_reciprocal(c)));
    for (int i = 0; i < n; i++) gv[i].grad = tp_mul(gv[i].grad, gv[i].grad->dtype == TP_F32 ? factor : tp_cast(factor, gv[i].grad->dtype));
    return n;
}

TP_DEF tp_gradproc tp_gradproc_global_norm_clip(float global_norm)
{
    tp_gradproc p;
    memset(&p, 0, sizeof p);
    p.name = "GlobalNormClip";
    p.process = tp__global_norm_clip;
    p.value = global_norm;
    return p;
}

static int tp__map_gradient(const tp_gradproc *p, tp_graph *g, tp_grad_var *gv, int n)
{
    int kept = 0;
    bool matched = false;
    (void)g;
    for (int i = 0; i < n; i++) {
        tp_grad_var x = gv[i];
        if (tp_regex_match(p->regex, tp_node_name(x.var), true)) {
            matched = true;
            x.grad = p->map(x.grad, x.var, p->user);
            if (!x.grad) continue;
        }
        gv[kept++] = x;
    }
    if (!matched) tp_log(TP_LOG_WARN, "[MapGradient] No match was found for regex %s.", p->regex);
    return kept;
}

TP_DEF tp_gradproc tp_gradproc_map(tp_node *(*map)(tp_node *grad, tp_node *var, void *user), const char *regex, void *user)
{
    tp_gradproc p;
    memset(&p, 0, sizeof p);
    p.name = "MapGradient";
    p.process = tp__map_gradient;
    p.map = map;
    p.regex = regex ? regex : ".*";
    p.user = user;
    return p;
}

static int tp__scale_gradient(const tp_gradproc *p, tp_graph *g, tp_grad_var *gv, int n)
{
    int kept = 0;
    (void)g;
    for (int i = 0; i < n; i++) {
        tp_grad_var x = gv[i];
        for (int k = 0; k < 16 && p->scale[k].regex; k++) {
            if (!tp_regex_match(p->scale[k].regex, tp_node_name(x.var), true)) continue;
            if (!p->quiet) tp_log(TP_LOG_INFO, "Gradient of '%s' is multipled by %g", tp_node_name(x.var), (double)p->scale[k].multiplier);
            x.grad = p->scale[k].multiplier == 0.0f ? NULL : tp_affine(x.grad, p->scale[k].multiplier, 0.0f);
            break;
        }
        if (x.grad) gv[kept++] = x;
    }
    return kept;
}

TP_DEF tp_gradproc tp_gradproc_scale(const char *regex, float multiplier)
{
    tp_gradproc p;
    memset(&p, 0, sizeof p);
    p.name = "ScaleGradient";
    p.process = tp__scale_gradient;
    p.scale[0].regex = regex;
    p.scale[0].multiplier = multiplier;
    return p;
}

TP_DEF tp_gradproc tp_gradproc_scale_also(tp_gradproc p, const char *regex, float multiplier)
{
    int k = 0;
    while (k < 16 && p.scale[k].regex) k++;
    if (k < 16) {
        p.scale[k].regex = regex;
        p.scale[k].multiplier = multiplier;
    } else {
        tp_log(TP_LOG_WARN, "ScaleGradient takes 16 patterns: '%s' is left out", regex);
    }
    return p;
}

typedef struct tp__proc_list {
    tp_gradproc *proc;
    int n;
} tp__proc_list;

static tp_node *tp__processed_apply(tp_optimizer *o, const tp_grad_var *gv, int n)
{
    const tp__proc_list *l = (const tp__proc_list *)o->user;
    tp_grad_var *copy = (tp_grad_var *)tp_graph_alloc(o->graph, (size_t)(n + 1) * sizeof *copy);
    if (!copy) return tp_poison(o->graph);
    for (int i = 0; i < n; i++) copy[i] = gv[i];
    for (int k = 0; k < l->n; k++) {
        tp_cached_name_scope_push(o->graph, l->proc[k].name, true);
        n = l->proc[k].process(&l->proc[k], o->graph, copy, n);
        tp_name_scope_pop(o->graph);
    }
    return tp_apply_gradients(o->inner, copy, n);
}

static tp_node *tp__proxy_apply(tp_optimizer *o, const tp_grad_var *gv, int n) { return tp_apply_gradients(o->inner, gv, n); }

TP_DEF tp_optimizer *tp_optimizer_proxy(tp_optimizer *inner, size_t user_size)
{
    tp_optimizer *o = inner ? tp_optimizer_new(inner->graph, inner->name) : NULL;
    if (!o) return NULL;
    o->inner = inner;
    o->learning_rate = inner->learning_rate;
    o->apply = tp__proxy_apply;
    if (user_size && !(o->user = tp_graph_alloc(inner->graph, user_size))) return NULL;
    for (int i = 0; i < 4; i++) o->slot[i] = inner->slot[i];
    return o;
}

TP_DEF tp_optimizer *tp_apply_grad_processors(tp_optimizer *inner, const tp_gradproc *procs, int n)
{
    tp_optimizer *o = tp_optimizer_proxy(inner, sizeof(tp__proc_list));
    if (!o) return NULL;
    tp__proc_list *l = (tp__proc_list *)o->user;
    l->proc = (tp_gradproc *)tp_graph_alloc(inner->graph, (size_t)(n + 1) * sizeof *l->proc);
    if (!l->proc) return NULL;
    for (int i = 0; i < n; i++) l->proc[i] = procs[i];
    l->n = n;
    o->apply = tp__processed_apply;
    return o;
}

TP__COLD_END
#endif
