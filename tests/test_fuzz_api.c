/* test_fuzz_api.c - random sequences of calls, sensible and not: no crash, no hang, nothing left, whatever is called in
 * whatever order.
 *
 *     ./test_fuzz_api                       the sequences of the tests
 *     ./test_fuzz_api 100000 [first]        so many, from this seed on
 *     ./test_fuzz_api for 1800 [first]      for so many seconds
 *
 * A sequence is a function of its seed: it builds graphs, runs sessions and predictors, makes dataflows, trains, saves and
 * loads, with NULL, other graphs' nodes, wrong types and sizes among the arguments (in every other sequence), gives things
 * away twice, frees in any order that is allowed; in every fourth one an allocation fails. At its end everything is freed and no block of the allocator is left. What
 * is freed is not used any more: that cannot be seen, and is no part of the rule of misuse. */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_export.h"
#include "tp_import.h"
#include "tp_test.h"

#include <unistd.h>

enum { GRAPHS = 3, NODES = 96, SESSIONS = 4, PREDICTORS = 4, FLOWS = 6, STEPS = 60, MOST = 4096 };

static struct {
    uint64_t seed;
    int draws;
    bool wild; /* bad arguments too */
    tp_graph *g[GRAPHS];
    tp_node *node[GRAPHS][NODES];
    int n[GRAPHS], scopes[GRAPHS];
    tp_session *s[SESSIONS];
    int of[SESSIONS]; /* its graph; -1: whose handle was given back */
    tp_predictor *p[PREDICTORS];
    tp_dataflow *df[FLOWS];
} w;
static const char *dir;
static uint64_t now_at;
static int step_at;

static int draw(int n) { return (int)(tp_test_mix(w.seed * 1000003u + (uint64_t)++w.draws) % (uint64_t)n); }
static bool chance(int percent) { return draw(100) < percent; }
static bool bad(void) { return w.wild && chance(4); }

static const char *path(const char *name) { return tp_test_path(dir, name); }
static tp_shape shape(void)
{
    static const int64_t sizes[6] = {1, 2, 3, 4, 2, 0};
    tp_shape s;
    memset(&s, 0, sizeof s);
    s.ndim = draw(4);
    for (int i = 0; i < s.ndim; i++) s.dim[i] = sizes[draw(chance(10) ? 6 : 5)];
    if (bad()) s.ndim = draw(20) - 4;
    if (bad()) s.dim[0] = chance(50) ? -5 : INT64_MAX / 2;
    return s;
}
static tp_dtype dtype(void) { return bad() ? (tp_dtype)(draw(20) - 5) : chance(85) ? TP_F32 : (tp_dtype)(1 + draw(8)); }
static const char *name(void)
{
    static const char *const good[6] = {"a", "b", "conv", "x/y", "fc_1", "W"}, *const strange[4] = {"", ":/", "\xff",
                                                                                                    NULL};
    return bad() ? strange[draw(4)] : good[draw(6)];
}

static int graph(void)
{
    const int i = draw(GRAPHS);
    if (!w.g[i]) {
        w.g[i] = tp_graph_new(NULL);
        w.n[i] = w.scopes[i] = 0;
    }
    return i;
}
static void keep(int g, tp_node *n)
{
    if (!n || tp_is_poison(n) || w.n[g] == NODES || tp_node_graph(n) != w.g[g]) return;
    if (tp_shape_size(&n->shape) > MOST) return;
    w.node[g][w.n[g]++] = n;
}
static tp_node *pick(int g)
{
    if (bad()) {
        const int other = draw(GRAPHS);
        switch (draw(3)) {
        case 0: return NULL;
        case 1: return tp_relu(NULL);
        default: return w.g[other] && w.n[other] ? w.node[other][draw(w.n[other])] : NULL;
        }
    }
    if (w.n[g] == 0) keep(g, tp_const(w.g[g], 0.5f));
    return w.n[g] ? w.node[g][draw(w.n[g])] : tp_poison(w.g[g]);
}
static tp_tensor random_tensor(const tp_node *like)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    tp_shape s = like && chance(80) ? like->shape : shape();
    for (int i = 0; i < s.ndim && i < TP_MAX_DIMS; i++)
        if (s.dim[i] < 0) s.dim[i] = 2;
    if (tp_tensor_resize(&t, like && chance(90) ? like->dtype : dtype(), s) == TP_OK && tp_tensor_size(&t) <= MOST * 4)
        for (int64_t i = 0; i < tp_tensor_size(&t); i++) tp_tensor_set(&t, i, (double)(draw(7) - 3));
    return t;
}

/* ==== >>building ====================================================================================== */

static void build_unary(int g)
{
    static tp_node *(*const fn[])(tp_node *) = {
        tp_relu,    tp_neg,        tp_square,        tp_exp,         tp_tanh,          tp_sigmoid,
        tp_softmax, tp_mean,       tp_sum,           tp_abs,         tp_batch_flatten, tp_flatten,
        tp_sqrt,    tp_l2_loss,    tp_floor,         tp_selu,        tp_identity,      tp_log_softmax,
        tp_gelu,    tp_zeros_like, tp_stop_gradient, tp_logical_not, tp_bn_relu};
    keep(g, fn[draw(TP_COUNT(fn))](pick(g)));
}
static void build_binary(int g)
{
    static tp_node *(*const fn[])(tp_node *, tp_node *) = {
        tp_add,     tp_sub,     tp_mul,   tp_div,         tp_maximum,
        tp_matmul,  tp_greater, tp_equal, tp_gather,      tp_reshape_like,
        tp_minimum, tp_pow,     tp_mod,   tp_sum_to_like, tp_sigmoid_cross_entropy};
    keep(g, fn[draw(TP_COUNT(fn))](pick(g), pick(g)));
}
static void build_shaped(int g)
{
    int axes[8];
    int64_t sizes[8];
    for (int i = 0; i < 8; i++) axes[i] = draw(5) - 2, sizes[i] = draw(4) - 1;
    tp_node *list[3] = {pick(g), pick(g), pick(g)}, *out[8] = {NULL};
    const int n = bad() ? -draw(3) : 1 + draw(3);
    switch (draw(16)) {
    case 0: keep(g, tp_reduce_sum(pick(g), axes, bad() ? draw(12) - 3 : draw(3), chance(50))); break;
    case 1: keep(g, tp_concat(bad() ? NULL : list, n, draw(4) - 1)); break;
    case 2: keep(g, tp_stack(list, n, draw(4) - 1)); break;
    case 3: keep(g, tp_add_n(list, n)); break;
    case 4: tp_split(pick(g), bad() ? draw(9) - 4 : 2, draw(3), bad() ? NULL : out); break;
    case 5: keep(g, tp_transpose(pick(g), bad() ? NULL : axes, draw(4))); break;
    case 6: keep(g, tp_expand_dims(pick(g), draw(5) - 2)); break;
    case 7: keep(g, tp_squeeze(pick(g), draw(5) - 2)); break;
    case 8: keep(g, tp_slice(pick(g), sizes, bad() ? NULL : sizes)); break;
    case 9: keep(g, tp_pad(pick(g), sizes, sizes, draw(4), 0.5f)); break;
    case 10: keep(g, tp_reshape_to(pick(g), shape())); break;
    case 11: keep(g, tp_cast(pick(g), dtype())); break;
    case 12: keep(g, tp_select(pick(g), pick(g), pick(g))); break;
    case 13: keep(g, tp_argmax(pick(g), draw(4) - 1)); break;
    case 14: keep(g, tp_top_k(pick(g), bad() ? -1 : 1 + draw(2), NULL)); break;
    default: keep(g, tp_one_hot(pick(g), bad() ? -3 : 3, 1, 0)); break;
    }
    for (int i = 0; i < 2; i++) keep(g, out[i]);
}
static void build_source(int g)
{
    switch (draw(6)) {
    case 0: keep(g, tp_placeholder(w.g[g], name(), dtype(), shape())); break;
    case 1: keep(g, tp_get_variable_as(w.g[g], name(), dtype(), shape(), tp_init_ones())); break;
    case 2: keep(g, tp_const_as(w.g[g], dtype(), 1.5)); break;
    case 3: keep(g, tp_rand_uniform(w.g[g], shape(), 0, 1)); break;
    case 4: keep(g, tp_get_scalar_variable(w.g[g], name(), 0.1f)); break;
    default: {
        tp_tensor t = random_tensor(NULL);
        if (tp_tensor_bytes(&t) <= MOST * 8) keep(g, tp_constant(w.g[g], bad() ? NULL : &t));
        tp_tensor_free(&t);
    }
    }
}
static void build_layer(int g)
{
    tp_variable_scope_desc reuse;
    memset(&reuse, 0, sizeof reuse);
    reuse.reuse = TP_REUSE_AUTO;
    tp_variable_scope_push(w.g[g], &reuse);
    switch (draw(6)) {
    case 0: keep(g, tp_fully_connected(pick(g), name(), .units = draw(4))); break;
    case 1: keep(g, tp_conv2d(pick(g), name(), .filters = 2, .kernel_size = draw(4))); break;
    case 2: keep(g, tp_max_pooling(pick(g), name(), .pool_size = draw(3))); break;
    case 3: keep(g, tp_batch_norm(pick(g), name(), .training = TP_YES)); break;
    case 4: keep(g, tp_dropout(pick(g), name(), .training = TP_YES)); break;
    default: keep(g, tp_layer_norm(pick(g), name())); break;
    }
    tp_variable_scope_pop(w.g[g]);
}
static void build_training(int g)
{
    int n = 0;
    tp_node *const *found = tp_collection(w.g[g], TP_KEY_TRAINABLE_VARIABLES, &n);
    tp_node *vars[4] = {NULL};
    tp_grad_var gvs[4];
    if (n > 4) n = 4;
    for (int i = 0; i < n; i++) vars[i] = found[i];
    tp_node *cost = chance(70) ? tp_mean(tp_square(pick(g))) : pick(g), *lr = tp_const(w.g[g], 0.1f);
    if (bad()) n = -1;
    tp_compute_gradients(cost, vars, n, gvs);
    tp_optimizer *o = chance(50) ? tp_sgd(bad() ? NULL : lr) : tp_adam(lr);
    if (chance(30)) o = tp_accum_grad(o, bad() ? 0 : 2);
    keep(g, tp_apply_gradients(bad() ? NULL : o, gvs, n));
    tp_node *dxs[2] = {NULL}, *xs[2] = {pick(g), pick(g)};
    tp_gradients(pick(g), xs, 2, dxs);
    keep(g, dxs[0]);
}
static tp_node *tower(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    if (!in) return tp_const(g, 0.5f); /* a signature without inputs */
    tp_node *y = chance(50) ? tp_fully_connected(in[0], "tower_fc", .units = 2) : tp_batch_norm(in[0], "tower_bn");
    return bad() ? NULL : chance(20) ? tp_add(y, in[1]) : y;
}
static tp_node *replica(const tp_tower_context *t, void *user)
{
    tp_node *xs[1] = {tp_get_scalar_variable(t->graph, "replica", 0.5f)}, *ys[1] = {NULL};
    tp_tower_all_reduce(t->graph, xs, bad() ? -1 : 1, chance(50), user ? (const char *)user : "replica", ys);
    return bad() ? xs[0] : ys[0];
}
static void build_towers(int g)
{
    tp_tower_desc d;
    memset(&d, 0, sizeof d);
    d.name = chance(50) ? "tower0" : name(), d.vs_name = bad() ? name() : NULL;
    d.is_training = chance(50);
    d.total = bad() ? -2 : 1;
    d.index = bad() ? 3 : 0;
    if (chance(30)) {
        tp_towers_desc side;
        memset(&side, 0, sizeof side);
        side.n = bad() ? draw(9) - 4 : 1 + draw(2);
        const int devices[5] = {0, bad() ? 7 : 0, 0, 0, -1};
        side.devices = bad() ? NULL : devices;
        side.own_variables = chance(30);
        tp_node *out[5] = {NULL};
        tp_build_on_towers(w.g[g], bad() ? NULL : &side, bad() ? NULL : replica, NULL, out);
        keep(g, out[0]);
        return;
    }
    tp_spec specs[2];
    memset(specs, 0, sizeof specs);
    for (int i = 0; i < 2; i++) {
        specs[i].name = bad() ? name() : i ? "second" : "first";
        specs[i].shape.ndim = 2;
        specs[i].shape.dim[0] = TP_ANY, specs[i].shape.dim[1] = 2;
    }
    tp_node *in[2] = {pick(g), pick(g)};
    tp_tower_func *f =
        tp_tower_func_new(w.g[g], bad() ? NULL : tower, NULL, bad() ? NULL : specs, bad() ? draw(5) - 2 : 2);
    for (int i = draw(3); i >= 0; i--) {
        if (!bad()) tp_tower_enter(w.g[g], bad() ? NULL : &d);
        keep(g, tp_tower_func_call(f, bad() ? NULL : in));
        int n = 0;
        tp_tower_collection(w.g[g], bad() ? NULL : TP_KEY_TRAINABLE_VARIABLES, bad() ? NULL : &n);
        if (!bad()) tp_tower_leave(w.g[g]);
    }
    const tp_tower_handles h = tp_tower_func_towers(f, bad() ? (tp_towers)9 : (tp_towers)draw(3));
    const tp_tower_handle *t = tp_tower_handles_at(h, draw(4) - 1);
    keep(g, tp_tower_handle_get(t, chance(50) ? "first" : name()));
    tp_tower_handles_find(h, name());
    tp_tower_func_find(f, bad() ? NULL : "tower0");
    tp_tower_func_signature(f, NULL);
    tp_tower_func_tower(f, draw(5) - 2);
}
static void build_scope(int g)
{
    if (w.scopes[g] && chance(50)) {
        tp_name_scope_pop(w.g[g]);
        w.scopes[g]--;
    } else if (w.scopes[g] < 4) {
        tp_name_scope_push(w.g[g], name());
        w.scopes[g]++;
    }
    tp_graph_find(w.g[g], bad() ? NULL : "nope");
    if (bad()) tp_variable_scope_pop(w.g[g]);
}

/* ==== >>running ======================================================================================= */

static void run_session(void)
{
    const int i = draw(SESSIONS);
    tp_session_config c;
    memset(&c, 0, sizeof c);
    c.threads = 1;
    c.no_fusion = chance(20);
    if (!w.s[i]) {
        const int g = graph();
        w.s[i] = tp_session_new(w.g[g], &c);
        w.of[i] = g;
        return;
    }
    const int g = w.of[i];
    if (g < 0) { /* its nodes are not at hand any more */
        tp_save_checkpoint(w.s[i], path("old.npz"), NULL, 0);
        return;
    }
    tp_feed feeds[4];
    tp_node *fetches[3];
    const tp_tensor *values[3];
    int n_feeds = 0;
    for (int k = 0; k < w.n[g] && n_feeds < 4; k++) {
        tp_node *n = w.node[g][k];
        if (strcmp(n->op->row->name, "placeholder") != 0 && !bad()) continue;
        feeds[n_feeds].node = n;
        feeds[n_feeds++].value = random_tensor(n);
    }
    for (int k = 0; k < 3; k++) fetches[k] = pick(g);
    const int n = bad() ? -1 : draw(4);
    const tp_status st = tp_session_run(w.s[i], bad() ? NULL : feeds, n_feeds, bad() ? NULL : fetches, n, values);
    for (int k = 0; k < n && st == TP_OK; k++)
        if (tp_tensor_size(values[k]) > 0) tp_tensor_get(values[k], 0);
    for (int k = 0; k < n_feeds; k++) tp_tensor_free(&feeds[k].value);
}
static void run_values(void)
{
    const int i = draw(SESSIONS);
    if (!w.s[i] || w.of[i] < 0) return;
    const tp_graph *g = w.g[w.of[i]];
    const int n = tp_graph_n_variables(g);
    const tp_variable *v = n ? tp_graph_variable(g, draw(n)) : NULL;
    tp_tensor t = random_tensor(v ? v->node : NULL);
    tp_session_load(w.s[i], v, bad() ? NULL : &t);
    tp_session_read(w.s[i], v, &t);
    tp_tensor_free(&t);
    if (chance(50)) tp_save_checkpoint(w.s[i], bad() ? NULL : path("model.npz"), NULL, 0);
    tp_session_init *init =
        chance(50) ? tp_smart_init(path("model.npz"), chance(50)) : tp_saver_restore(path("model.npz"));
    if (chance(30)) { /* the same twice: the second place is told, and it is freed once */
        tp_session_init *inits[2];
        inits[0] = init, inits[1] = w.wild ? init : NULL;
        init = tp_chain_init(inits, 2);
    }
    tp_session_init_run(init, w.s[i]);
    tp_session_init_free(init);
}
static void run_predictor(void)
{
    const int i = draw(PREDICTORS), k = draw(SESSIONS);
    if (w.p[i]) {
        tp_tensor in[2] = {random_tensor(NULL), random_tensor(NULL)};
        const tp_tensor *out[2];
        if (tp_predictor_n_inputs(w.p[i]) <= 2)
            tp_predict_n(bad() ? NULL : w.p[i], bad() ? NULL : in, tp_predictor_n_inputs(w.p[i]) + bad(),
                         bad() ? NULL : out, tp_predictor_n_outputs(w.p[i]) - bad());
        tp_tensor_free(&in[0]);
        tp_tensor_free(&in[1]);
    } else if (w.s[k] && w.of[k] >= 0) {
        tp_node *in[2] = {pick(w.of[k]), pick(w.of[k])}, *out[2] = {pick(w.of[k]), pick(w.of[k])};
        w.p[i] = tp_online_predictor(w.s[k], bad() ? NULL : in, draw(3), out, bad() ? 0 : 1 + draw(2));
    }
}
static void run_export(void)
{
    const int i = draw(SESSIONS);
    if (!w.s[i] || w.of[i] < 0) return;
    tp_buf text;
    memset(&text, 0, sizeof text);
    tp_node *in[1] = {pick(w.of[i])}, *out[1] = {pick(w.of[i])};
    const int n_in = draw(2);
    if (chance(50)) tp_export_c_text(w.s[i], in, n_in, out, bad() ? 0 : 1, &text, NULL, NULL);
    else if (tp_export_onnx_buf(w.s[i], in, n_in, out, 1, &text, NULL) == TP_OK && text.len) {
        tp_graph *g = tp_graph_new(NULL);
        tp_onnx_model m;
        if (w.wild && chance(50)) text.data[draw((int)text.len)] ^= (char)(1 << draw(8));
        tp_import_onnx_parse(g, text.data, text.len, "fuzz", NULL, &m);
        tp_graph_free(g);
    }
    tp_buf_free(&text);
}

/* Another program would call it from a callback. */
static tp_status ask(tp_hook *h, tp_run_request *r)
{
    tp_node *n = (tp_node *)h->user;
    tp_request_fetch(r, bad() ? NULL : n);
    return bad() ? tp_fail(TP_ERR, "as asked for") : TP_OK;
}
static tp_status answered(tp_hook *h, const tp_run_values *v)
{
    (void)h;
    if (v->n) tp_tensor_size(v->value[0]);
    return bad() ? tp_fail(TP_ERR, "as asked for") : TP_OK;
}
static void run_hooked(void)
{
    const int i = draw(SESSIONS);
    if (!w.s[i] || w.of[i] < 0) return;
    const int g = w.of[i];
    tp_hook hook[2], *list[3] = {&hook[0], &hook[1], NULL};
    memset(hook, 0, sizeof hook);
    for (int k = 0; k < 2; k++)
        hook[k].name = "fuzz", hook[k].user = pick(g), hook[k].before_run = ask, hook[k].after_run = answered;
    tp_hooked_session *h = tp_hooked_session_new(bad() ? NULL : w.s[i], list, bad() ? draw(6) - 3 : draw(3));
    for (int k = draw(4); k > 0; k--) {
        tp_node *fetches[2] = {pick(g), pick(g)};
        const tp_tensor *values[2];
        tp_hooked_run(h, bad() ? NULL : fetches, bad() ? -1 : draw(3), bad() ? NULL : values);
        if (chance(10)) tp_hooked_session_request_stop(h);
        tp_hooked_session_should_stop(h);
    }
    tp_plan_info info;
    tp_node *one = pick(g);
    tp_exec_plan_info(tp_hooked_session_exec(h), &one, 1, bad() ? NULL : &info);
    tp_hooked_session_free(h);
}

/* ==== >>data and training ============================================================================= */

static tp_status point(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user, (void)pass;
    if (index >= 6) return TP_END;
    tp_shape s;
    memset(&s, 0, sizeof s);
    s.ndim = 2;
    s.dim[0] = 3, s.dim[1] = 2;
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, s);
    for (int i = 0; i < 6 && st == TP_OK; i++) ((float *)dp->c[0].data)[i] = (float)(index + i) / 8;
    return st;
}
static tp_dataflow *flow(void)
{
    return tp_df_from_generator(point, .size = 6, .indexed = chance(50) ? TP_YES : TP_NO);
}
static void run_flow(void)
{
    const int i = draw(FLOWS), k = draw(FLOWS);
    if (!w.df[i]) {
        w.df[i] = flow();
        return;
    }
    const int indices[2] = {0, bad() ? -1 : 0};
    tp_dataflow *df = w.df[i], *list[2] = {df, w.df[k]};
    const int what = draw(8);
    if (what == 4 && !list[1]) list[1] = flow();
    switch (what) {
    case 0: w.df[i] = tp_df_batch(df, bad() ? -1 : 2, .remainder = TP_YES); break;
    case 1: w.df[i] = tp_df_repeated(df, 1 + draw(2)); break;
    case 2: w.df[i] = tp_df_select(df, bad() ? NULL : indices, 2); break;
    case 3: w.df[i] = tp_df_cast(df, bad() ? -2 : 0, dtype(), 2); break;
    case 4:
        w.df[i] = chance(50) ? tp_df_concat(list, 2) : tp_df_join(list, 2);
        if (k != i) w.df[k] = NULL;
        return;
    case 5: w.df[i] = tp_df_locally_shuffle(df, 3); break;
    default: {
        tp_datapoint dp;
        memset(&dp, 0, sizeof dp);
        for (int n = 0; n < 4; n++) tp_df_next(df, bad() ? NULL : &dp);
        if (chance(30)) tp_df_restart(df, draw(3));
        if (chance(30)) tp_df_seek(df, draw(5), NULL);
        tp_datapoint_free(&dp);
    }
    }
    if (w.wild && w.df[i] && tp_df_status(w.df[i]) == TP_OK && w.df[i] != df &&
        chance(20)) { /* it has an owner: to be told, no more */
        tp_df_free(tp_df_batch(df, 2));
    }
}

static tp_status fuzz_tensors(tp_graph *g, int tower, tp_node **in, int n, void *user)
{
    (void)tower, (void)user;
    if (bad()) return tp_fail(TP_ERR_ARG, "no tensors today");
    for (int i = 0; i < n; i++) in[i] = bad() ? NULL : tp_rand_uniform(g, tp_make_shape(3, 2), 0, 1);
    return TP_OK;
}
static tp_input_source *another_input(void)
{
    const tp_shape shape = tp_make_shape(3, 2);
    const tp_dtype types[] = {TP_F32, TP_I32};
    switch (draw(4)) {
    case 0: return tp_batch_queue_input(.df = bad() ? NULL : flow(), .batch_size = bad() ? -2 : 3, .capacity = draw(9));
    case 1: return tp_dataset_input(bad() ? tp_dataflow_to_dataset(flow(), types, draw(3)) : flow());
    case 2: return tp_dummy_constant_input(&shape, bad() ? 0 : 1);
    default: return tp_tensor_input(.fn = bad() ? NULL : fuzz_tensors, .size = bad() ? -1 : draw(3));
    }
}

/* An input source without a trainer. */
static void run_input(void)
{
    tp_input_source *src = chance(20) ? tp_placeholder_input()
                           : chance(50)
                               ? tp_feed_input(.df = bad() ? NULL : flow(), .infinite = chance(50) ? TP_NO : TP_NONE)
                               : tp_queue_input(.df = bad() ? NULL : flow(), .capacity = bad() ? -1 : draw(4),
                                                .infinite = chance(50) ? TP_NO : TP_YES);
    if (chance(40)) {
        tp_input_free(src);
        src = another_input();
    }
    for (int k = draw(3); k > 0; k--) {
        static const char *const names[] = {"first", "second"};
        if (chance(50)) src = tp_remap_input_source(src, bad() ? NULL : names, bad() ? draw(3) : 1);
        else src = tp_staging_input(.input = src, .nr_stage = bad() ? -1 : draw(4), .device = bad() ? draw(3) : 0);
    }
    tp_graph *g = tp_graph_new(NULL);
    tp_spec specs[2];
    memset(specs, 0, sizeof specs);
    for (int i = 0; i < 2; i++) {
        specs[i].name = i ? "second" : "first";
        specs[i].shape.ndim = 2;
        specs[i].shape.dim[0] = 3, specs[i].shape.dim[1] = bad() ? 7 : 2;
    }
    tp_node *in[2] = {NULL, NULL};
    int n = 0;
    const int order = draw(4);
    if (order == 0) tp_input_get_tensors(src, in); /* too early */
    tp_input_setup(bad() ? NULL : src, bad() ? NULL : g, bad() ? NULL : specs, bad() ? 2 : 1);
    if (chance(10)) tp_input_setup(src, g, specs, 1);
    tp_tower_desc d;
    memset(&d, 0, sizeof d);
    d.name = "tower0";
    tp_tower_enter(g, &d);
    tp_input_get_tensors(src, bad() ? NULL : in);
    tp_node *y = tp_sum(in[0]);
    tp_tower_leave(g);
    tp_hook *const *hooks = tp_input_hooks(src, bad() ? NULL : &n);
    if (tp_input_size(src) > 0 && chance(30)) tp_input_seek(src, bad() ? -3 : draw(9));
    tp_session *s = tp_session_new(g, NULL);
    tp_hooked_session *h = s ? tp_hooked_session_new(s, hooks, n) : NULL;
    if (!bad()) tp_input_reset_state(src);
    for (int k = draw(9); k > 0 && h; k--) {
        const tp_tensor *value;
        tp_hooked_run(h, &y, 1, &value);
        if (chance(10)) tp_input_reset_state(src);
        if (chance(5)) tp_input_seek(src, draw(9));
        if (chance(5)) tp_queue_input_refill_queue(src);
    }
    tp_input_failure(src, NULL);
    tp_queue_input_size_ema(src);
    if (chance(20)) tp_queue_input_refill_queue(src);
    src = tp_input_default_prefetch(src, draw(3));
    tp_hooked_session_free(h);
    if (chance(50)) tp_session_free(s), tp_input_free(src);
    else tp_input_free(src), tp_session_free(s);
    tp_graph_free(g);
}

static tp_node *model(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *y = tp_fully_connected(in[0], "fc", .units = 1 + draw(2), .activation = chance(50) ? tp_relu : NULL);
    tp_node *cost = tp_named(tp_mean(tp_square(y)), "cost");
    if (chance(30)) tp_add_moving_summary(cost);
    if (bad()) return NULL;
    return tp_add(cost, tp_get_scalar_variable(g, "offset", 0.5f));
}
static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return bad() ? NULL : tp_sgd(tp_get_scalar_variable(g, "learning_rate", 0.1f));
}
static tp_status nothing(tp_callback *cb) { return (void)cb, bad() ? tp_fail(TP_ERR, "as asked for") : TP_OK; }
static void run_training(void)
{
    tp_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.name = "x";
    spec.shape.ndim = 2;
    spec.shape.dim[0] = 3, spec.shape.dim[1] = bad() ? 5 : 2;
    tp_callback *cb[5];
    int n = 0;
    cb[n++] = tp_cb_lambda(.trigger = nothing);
    if (chance(30))
        cb[n++] = tp_cb_inference_runner(.df = bad() ? NULL : flow(),
                                         .inferencers = {tp_inf_scalar_stats(.names = {bad() ? name() : "cost"})});
    if (chance(50)) cb[n++] = tp_cb_periodic_trigger(tp_cb_lambda(.trigger = nothing), .every_k_steps = bad() ? -1 : 1);
    if (chance(50)) cb[n++] = tp_cb_model_saver(.checkpoint_dir = dir, .max_to_keep = 1);
    if (w.wild && chance(30)) {
        tp_callback *again = cb[draw(n)];
        cb[n++] = again;
    }
    tp_dataflow *df = flow();
    if (w.wild && chance(20)) df = tp_df_cast(df, 3, TP_F32, 1);
    tp_train_config c;
    memset(&c, 0, sizeof c);
    c.model.inputs = &spec;
    c.model.n_inputs = bad() ? 0 : 1;
    c.model.build_graph = bad() ? NULL : model;
    c.model.optimizer = optimizer;
    c.dataflow = bad() ? NULL : df;
    if (!c.dataflow) tp_df_free(df);
    c.callbacks = cb;
    c.n_callbacks = n;
    c.n_extra_callbacks = TP_NONE;
    c.n_monitors = TP_NONE;
    tp_session_config one;
    memset(&one, 0, sizeof one);
    one.threads = 1;
    c.session_config = &one;
    c.steps_per_epoch = bad() ? -7 : 2;
    c.max_epoch = 1 + draw(2);
    tp_launch_train_with_config(&c, bad() ? NULL : chance(50) ? tp_simple_trainer() : tp_queue_input_trainer());
}
static void run_files(void)
{
    tp_dict d;
    memset(&d, 0, sizeof d);
    tp_tensor t = random_tensor(NULL), *to = tp_dict_add(&d, bad() ? NULL : "a");
    if (to) tp_tensor_copy(to, &t);
    tp_npz_save(bad() ? NULL : path("d.npz"), &d, chance(50));
    tp_safetensors_save(path("d.safetensors"), bad() ? NULL : &d);
    tp_npy_save(path("d.npy"), &t);
    tp_npz_load(path("d.npz"), &d);
    tp_safetensors_load(path("d.safetensors"), &d);
    tp_npy_load(path("d.npy"), bad() ? NULL : &t);
    tp_dict_free(&d);
    tp_tensor_free(&t);
    static const char *const patterns[6] = {"fc.*/W", "(a+)+b", "[a-", "x{2,3}?", "(?P<n>\\w+)", "(?!a)b"};
    tp_regex *re = NULL;
    bool found;
    if (tp_regex_new(bad() ? NULL : patterns[draw(6)], &re) == TP_OK)
        tp_regex_search(re, "aaaaaab fc0/W", &found, NULL, 0);
    tp_regex_free(re);
}

/* ==== >>sequences ===================================================================================== */

static void free_graph(int g)
{
    for (int i = 0; i < SESSIONS; i++)
        if (w.of[i] == g) w.of[i] = -1;
    tp_graph_free(w.g[g]);
    w.g[g] = NULL;
    w.n[g] = 0;
}
static void free_one(void)
{
    const int i = draw(GRAPHS + SESSIONS + PREDICTORS), s = i - GRAPHS, p = s - SESSIONS;
    if (i < GRAPHS) free_graph(i);
    else if (s < SESSIONS) tp_session_free(w.s[s]), w.s[s] = NULL;
    else tp_predictor_free(w.p[p]), w.p[p] = NULL;
}
static void free_flow(void)
{
    const int i = draw(FLOWS);
    tp_df_free(w.df[i]);
    w.df[i] = NULL;
}

static void step(void)
{
    const int what = draw(100);
    if (what < 55) {
        const int g = graph();
        switch (draw(10)) {
        case 0: build_source(g); break;
        case 1: build_layer(g); break;
        case 2: build_training(g); break;
        case 3: build_scope(g); break;
        case 4: build_shaped(g); break;
        case 5: build_binary(g); break;
        case 6: build_towers(g); break;
        default: build_unary(g); break;
        }
        if (tp_graph_status(w.g[g]) != TP_OK && chance(60)) free_graph(g); /* nothing more comes of it */
    } else if (what < 75) run_session();
    else if (what < 80) run_values();
    else if (what < 85) run_predictor();
    else if (what < 87) run_export();
    else if (what < 90) run_flow();
    else if (what < 91) run_training();
    else if (what < 92) run_input();
    else if (what < 94) run_hooked();
    else if (what < 95) run_files();
    else if (what < 97) free_flow();
    else free_one();
}

static bool sequence(uint64_t seed)
{
    memset(&w, 0, sizeof w);
    for (int i = 0; i < SESSIONS; i++) w.of[i] = -1;
    w.seed = now_at = seed;
    w.wild = seed % 2 == 1;
    tp_test_fail_after(w.seed % 4 == 2 ? 1 + draw(3000) : 0); /* in every fourth one, memory is refused once */
    for (step_at = 0; step_at < STEPS; step_at++) step();
    const int order = draw(6);
    for (int k = 0; k < 3; k++) {
        const int what = (k + order) % 3;
        for (int i = 0; i < GRAPHS && what == 0; i++) tp_graph_free(w.g[i]);
        for (int i = 0; i < SESSIONS && what == 1; i++) tp_session_free(w.s[i]);
        for (int i = 0; i < PREDICTORS && what == 2; i++) tp_predictor_free(w.p[i]);
    }
    for (int i = 0; i < FLOWS; i++) tp_df_free(w.df[i]);
    const bool clean = CHECK_MSG(tp_test_live_blocks() == 0, "sequence %llu leaves %ld blocks",
                                 (unsigned long long)seed, tp_test_live_blocks());
    tp_test_alloc_reset();
    return clean;
}

static long sequences(uint64_t from, long n, double seconds)
{
    long done = 0;
    const double start = tp_time();
    if (!dir) dir = tp_test_tmpdir();
    if (chdir(dir) != 0) return 0;
    tp_set_log(tp_test_drop_log, NULL);
    for (; done < n && (seconds <= 0 || tp_time() - start < seconds); done++) {
        if (getenv("TP_FUZZ_TRACE"))
            fprintf(stderr, "sequence %llu\n", (unsigned long long)from + (unsigned long long)done);
        sequence(from + (uint64_t)done);
    }
    tp_set_log(NULL, NULL);
    return done;
}

static uint64_t first = 1;
static long count;
static double limit;

TEST(random_calls_crash_nothing_and_leave_nothing)
{
    TEST_MAY_ERROR("");
    const long n = count ? count : getenv("TP_TEST_QUICK") ? 40 : 120, done = sequences(first, n, limit);
    CHECK(limit > 0 || done == n);
    if (count) printf("%ld sequences from %llu\n", done, (unsigned long long)first);
}

int main(int argc, char **argv)
{
    const bool timed = argc > 2 && strcmp(argv[1], "for") == 0;
    if (timed || (argc > 1 && argv[1][0] >= '0' && argv[1][0] <= '9')) {
        count = timed ? 1000000000L : strtol(argv[1], NULL, 10);
        limit = timed ? strtod(argv[2], NULL) : 0;
        if (argc > (timed ? 3 : 2)) first = strtoull(argv[timed ? 3 : 2], NULL, 10);
        argc = 1;
    }
    return tp_test__main(argc, argv);
}
