/* test_golden_plans.c - the plans of random graphs on one to three CPU devices: every step, fusion, buffer and offset, or the
 * sentence why there is none; regular expressions on random texts; names in checkpoints that are restored in part. As digests
 * of digests_plans.txt.
 *
 *     TP_TEST_WRITE=1 build/test/gcc-c11-test_golden_plans   writes them anew, after a change that was meant
 *     TP_TEST_PRINT=plans:12 ...                              prints the plans of digest 12 of section plans */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_layers.h"
#include "tp_optim.h"
#include "tp_test.h"
#include "golden.h"
#include "golden_graph.h"

static bool printing;
static bool printed(const char *section, int i)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%s:%d", section, i);
    return getenv("TP_TEST_PRINT") && strcmp(getenv("TP_TEST_PRINT"), wanted) == 0;
}

/* -- random graphs */

enum { MAX_POOL = 96, MAX_FEEDS = 8 };

static tp_graph *g;
static tp_node *pool[MAX_POOL], *var[MAX_POOL], *effect[MAX_POOL], *fed[MAX_FEEDS];
static tp_shape fed_shape[MAX_FEEDS];
static int n_pool, n_var, n_effect, n_fed, n_devices;

static tp_shape dims(int n, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t dim[4] = {a, b, c, d};
    return tp_make_shape_n(n, dim);
}

/* A value for later: what a mistake made is none. */
static tp_node *put(tp_node *n)
{
    if (n && !tp_is_poison(n) && n->dtype == TP_F32 && n_pool < MAX_POOL) pool[n_pool++] = n;
    return n;
}
static tp_node *pick(int rank)
{
    tp_node *found = NULL;
    const int from = draw(n_pool);
    for (int i = 0; i < n_pool && !found; i++) {
        tp_node *n = pool[(from + i) % n_pool];
        if (rank < 0 || n->shape.ndim == rank) found = n;
    }
    return found;
}

static tp_node *variable(tp_shape s)
{
    char name[16];
    snprintf(name, sizeof name, "v%d", n_var);
    for (int i = 0; i < s.ndim; i++)
        if (s.dim[i] < 0) s.dim[i] = 1;
    if (n_var == MAX_POOL) return var[0];
    return var[n_var++] = (tp_get_variable_as)(g, name, TP_F32, s, tp_init_ones());
}

static tp_node *placeholder(tp_dtype dtype, tp_shape s, bool unknown)
{
    char name[16];
    snprintf(name, sizeof name, "x%d", n_fed);
    fed_shape[n_fed] = s;
    if (unknown) s.dim[0] = TP_ANY;
    return fed[n_fed++] = (tp_placeholder)(g, name, dtype, s);
}

static tp_node *unary(tp_node *x)
{
    const int which = draw(24);
    switch (which) {
    case 0: return tp_tanh(x);
    case 1: return tp_sigmoid(x);
    case 2: return tp_leaky_relu(x, 0.1f);
    case 3: return tp_elu(x);
    case 4: return tp_gelu(x);
    case 5: return tp_silu(x);
    case 6: return tp_clip(x, -0.5f, 0.5f);
    case 7: return tp_affine(x, 0.5f, 0.25f);
    case 8: return tp_abs(x);
    case 9: return tp_square(x);
    case 10: return tp_sqrt(x);
    case 11: return tp_neg(x);
    case 12: return tp_identity(x);
    case 13: return tp_stop_gradient(x);
    case 14: return tp_nn_dropout(x, 0.25f);
    case 15: return tp_cast(tp_cast(x, TP_F16), TP_F32);
    case 16: return tp_exp(x);
    case 17: return tp_check_numerics(x, "a message");
    case 18: return tp_fill_like(x, 2);
    default: return tp_relu(x);
    }
}

static tp_node *binary(tp_node *a, tp_node *b)
{
    const int which = draw(14);
    switch (which) {
    case 0: return tp_sub(a, b);
    case 1: return tp_mul(a, b);
    case 2: return tp_maximum(a, b);
    case 3: return tp_div(a, b);
    case 4: return tp_squared_difference(b, a);
    case 5: return tp_select(tp_greater(a, b), a, b);
    case 6: return tp_mul(a, a);
    default: return tp_add(a, b);
    }
}

/* Something that may be added to x. */
static tp_node *partner(tp_node *x)
{
    tp_shape s = x->shape;
    const int which = draw(8), from = draw(n_pool);
    if (which == 0) return tp_const(g, 0.5f);
    if (which == 1 && s.ndim) return variable(dims(1, s.dim[s.ndim - 1], 0, 0, 0));
    if (which == 2 && s.ndim > 1) {
        s.dim[draw(s.ndim)] = 1;
        return variable(s);
    }
    for (int i = 0; i < n_pool && which < 7; i++) {
        tp_node *n = pool[(from + i) % n_pool];
        if (n != x && tp_shape_equal(&n->shape, &s)) return n;
    }
    return variable(s);
}

static tp_node *image(void)
{
    tp_node *x = pick(4);
    return x ? x : tp_reshape_to(fed[0], dims(4, TP_ANY, 1, 1, 4));
}

static tp_node *convolution(tp_node *x)
{
    static const int outs[] = {1, 3, 4, 8, 16, 32}, kernels[] = {1, 3, 3, 3, 5, 2};
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    const int64_t C = x->shape.dim[3], K = DRAW_OF(kernels);
    int64_t O = draw(2) ? C : DRAW_OF(outs);
    a.stride_h = a.stride_w = 1 + draw(4) / 3;
    a.groups = draw(6) ? 1 : (int)C;
    a.padding = draw(5) ? TP_SAME : TP_VALID;
    if (draw(8) == 0) a.dilation_h = a.dilation_w = 2;
    if (a.groups > 1) O = C * (1 + draw(2));
    return tp_nn_conv2d(x, variable(dims(4, K, K, C / a.groups, O)), &a);
}

static tp_node *norm(tp_node *x)
{
    const int axis = x->shape.ndim - 1, which = draw(8);
    const tp_shape s = dims(1, x->shape.dim[axis], 0, 0, 0);
    tp_node *gamma = variable(s), *beta = variable(s), *m = NULL, *v = NULL;
    if (which == 0) return tp_nn_layer_norm(x, gamma, beta, 1e-3f);
    if (which == 1 && axis > 1) return tp_nn_group_norm(x, gamma, beta, axis, 1, 1e-3f);
    if (which == 2) {
        tp_node *mean = variable(s);
        return tp_nn_batch_norm_infer(x, gamma, beta, mean, variable(s), axis, 1e-3f);
    }
    x = tp_nn_batch_norm_train(x, gamma, beta, axis, 1e-3f, which & 1, &m, &v);
    if (which < 6) effect[n_effect++ % MAX_POOL] = tp_assign_moving_average(variable(s), m, 0.9f, NULL);
    return x;
}

static void grow_block(void)
{
    tp_node *x = image(), *y = x;
    const int order = draw(3);
    if (order == 0) {
        y = norm(y);
        if (draw(4)) y = tp_relu(y);
        if (draw(6) == 0) put(y);
    }
    if (tp_is_poison(y)) return;
    y = convolution(y);
    if (tp_is_poison(y)) return;
    if (draw(2)) y = tp_nn_bias_add(y, variable(dims(1, y->shape.dim[3], 0, 0, 0)), TP_NHWC);
    if (draw(8) == 0) put(y);
    if (order == 1) y = norm(y);
    if (draw(3)) y = unary(y);
    if (draw(2)) y = tp_add(y, tp_shape_equal(&x->shape, &y->shape) ? x : partner(y));
    if (draw(3) == 0) y = tp_relu(y);
    put(y);
}

static void grow_dense(void)
{
    static const int outs[] = {1, 4, 10, 16, 64};
    tp_node *x = pick(-1);
    if (x->shape.ndim != 2) x = x->shape.ndim < 2 ? tp_reshape_to(x, dims(2, 1, TP_ANY, 0, 0)) : tp_batch_flatten(x);
    const int64_t in = x->shape.dim[1], out = DRAW_OF(outs);
    if (in < 0) return;
    const bool turned = draw(4) == 0;
    tp_node *w = variable(turned ? dims(2, out, in, 0, 0) : dims(2, in, out, 0, 0));
    tp_node *y = turned ? tp_matmul_ex(x, w, false, true) : tp_matmul(x, w);
    if (draw(4)) y = tp_nn_bias_add(y, variable(dims(1, out, 0, 0, 0)), TP_NHWC);
    if (draw(3)) y = unary(y);
    if (draw(6) == 0) y = norm(y);
    put(y);
}

static void grow_shape(void)
{
    tp_node *x = pick(-1), *parts[4];
    const int n = x->shape.ndim, axis = n ? draw(n) : 0, which = draw(14);
    int64_t a[TP_MAX_DIMS] = {0}, b[TP_MAX_DIMS];
    for (int i = 0; i < TP_MAX_DIMS; i++) b[i] = -1;
    if (n == 0) return;
    switch (which) {
    case 0: put(tp_flatten(x)); break;
    case 1: put(tp_expand_dims(x, axis)); break;
    case 2: put(tp_transpose(x, NULL, 0)); break;
    case 3:
        parts[0] = x, parts[1] = unary(x), parts[2] = x;
        put(tp_concat(parts, 2 + (axis & 1), axis));
        break;
    case 4:
        if (x->shape.dim[axis] % 2 == 0 && x->shape.dim[axis] > 0) {
            tp_split(x, 2, axis, parts);
            put(parts[0]), put(parts[1]);
        }
        break;
    case 5:
        a[axis] = x->shape.dim[axis] > 1;
        put(tp_slice(x, a, b));
        break;
    case 6:
        b[axis] = 2;
        for (int i = 0; i < n; i++) b[i] = i == axis;
        put(tp_pad(x, a, b, TP_PAD_CONSTANT, 0));
        break;
    case 7:
        for (int i = 0; i < n; i++) b[i] = 1 + (i == axis);
        if (tp_shape_known(&x->shape) && tp_shape_size(&x->shape) < 20000) put(tp_tile(x, b));
        break;
    case 8: put(tp_reverse(x, &axis, 1)); break;
    case 9: put(tp_softmax(x)); break;
    case 10: put(tp_cumsum(x, axis, true, false)); break;
    case 11: put(tp_broadcast_like(tp_reduce_max(x, &axis, 1, true), x)); break;
    case 12: put(tp_cast(tp_argmax(x, axis), TP_F32)); break;
    default: put(tp_reshape_to(x, x->shape)); break;
    }
}

static void grow_reduction(void)
{
    tp_node *x = pick(-1);
    const int n = x->shape.ndim, axis = n ? draw(n) : 0, which = draw(6);
    const bool keep = draw(2), all = n == 0 || draw(3) == 0;
    const int *axes = all ? NULL : &axis;
    switch (which) {
    case 0: put(tp_reduce_sum(x, axes, !all, keep)); break;
    case 1: put(tp_reduce_max(x, axes, !all, keep)); break;
    case 2: put(tp_sub(x, tp_reduce_mean(x, axes, !all, true))); break;
    case 3: put(tp_l2_loss(x)); break;
    case 4: put(tp_global_norm(&x, 1)); break;
    default: put(tp_reduce_mean(x, axes, !all, keep)); break;
    }
}

static void grow_pool(void)
{
    tp_pool_attrs a;
    tp_resize_attrs r;
    memset(&a, 0, sizeof a);
    memset(&r, 0, sizeof r);
    tp_node *x = image();
    const int which = draw(3);
    a.size_h = a.size_w = 2 + draw(2);
    a.stride_h = a.stride_w = draw(3);
    a.padding = draw(3);
    r.out_h = 3, r.out_w = 8;
    if (which == 2) put(draw(2) ? tp_resize_bilinear(x, &r) : tp_resize_nearest(x, &r));
    else if (x->shape.dim[1] > 3 && x->shape.dim[2] > 3) put(which ? tp_nn_max_pool(x, &a) : tp_nn_avg_pool(x, &a));
}

static void grow_sequence(void)
{
    static const int units[] = {4, 8, 16};
    tp_node *x = pick(3);
    if (!x) x = tp_reshape_to(fed[0], dims(3, TP_ANY, 2, 2, 0));
    const int64_t B = x->shape.dim[1], C = x->shape.dim[2], H = DRAW_OF(units);
    const int which = draw(3);
    if (B < 1 || C < 1) return;
    tp_node *h = tp_const(g, 0);
    h = tp_broadcast_like(h, variable(dims(2, B, H, 0, 0)));
    if (which == 0) {
        tp_node *kernel = variable(dims(2, C + H, 4 * H, 0, 0)), *bias = variable(dims(1, 4 * H, 0, 0, 0));
        put(tp_nn_lstm(x, kernel, bias, h, h, 1, false, NULL, NULL));
    } else if (which == 1) {
        tp_node *gates = variable(dims(2, C + H, 2 * H, 0, 0)), *bias = variable(dims(1, 2 * H, 0, 0, 0));
        tp_node *candidate = variable(dims(2, C + H, H, 0, 0)), *other = variable(dims(1, H, 0, 0, 0));
        tp_node *last = NULL;
        put(tp_nn_gru(x, gates, bias, candidate, other, h, false, &last));
        put(last);
    } else if (C % 2 == 0) put(tp_nn_attention(x, x, unary(x), 2, which));
}

static void grow_state(void)
{
    tp_node *x = pick(-1), *v = variable(x->shape), *y = NULL;
    const int which = draw(7), e = n_effect ? draw(n_effect < MAX_POOL ? n_effect : MAX_POOL) : 0;
    if (!tp_shape_equal(&v->shape, &x->shape)) return;
    switch (which) {
    case 0: y = tp_assign(v, x, NULL); break;
    case 1: y = tp_assign_add(v, x, draw(2) ? tp_const_as(g, TP_BOOL, 1) : NULL); break;
    case 2: y = tp_assign_sub(v, tp_neg(x), NULL); break;
    case 3: y = put(tp_read_after(v, tp_assign(v, x, NULL))); break;
    case 4:
        if (n_effect) put(tp_with_dependencies(x, &effect[e], 1));
        break;
    case 5: y = tp_group(g, pool, n_pool < 3 ? n_pool : 3, NULL); break;
    default: put(tp_add(x, v)); break;
    }
    if (y) effect[n_effect++ % MAX_POOL] = y;
}

static void grow_devices(void)
{
    tp_node *xs[3], *ys[3] = {NULL, NULL, NULL}, *x = pick(-1);
    if (n_devices < 2) return;
    for (int i = 0; i < n_devices; i++) {
        tp_device_enter(g, i);
        xs[i] = unary(i ? tp_add(x, variable(x->shape)) : x);
        tp_device_leave(g);
        if (!tp_shape_equal(&xs[i]->shape, &xs[0]->shape)) return;
    }
    tp_all_reduce(xs, n_devices, draw(2), ys);
    for (int i = 0; i < n_devices; i++) put(ys[i]);
}

static void grow(void)
{
    const int which = draw(16), device = draw(4) ? 0 : draw(n_devices);
    if (device) tp_device_enter(g, device);
    if (which < 4) grow_block();
    else if (which < 6) grow_dense();
    else if (which < 8) grow_shape();
    else if (which == 8) grow_reduction();
    else if (which == 9) grow_pool();
    else if (which == 10) grow_sequence();
    else if (which == 11) grow_state();
    else if (which == 12) grow_devices();
    else if (which == 13) {
        tp_node *x = pick(-1);
        put(binary(x, partner(x)));
    } else {
        tp_node *x = put(unary(pick(-1)));
        if (x) put(unary(x));
    }
    if (device) tp_device_leave(g);
}

static void train(void)
{
    static const float rates[] = {0.1f, 1};
    tp_node *vars[MAX_POOL], *dvars[MAX_POOL], *y = pool[n_pool - 1];
    tp_grad_var gvs[MAX_POOL];
    int n = 0;
    memset(vars, 0, sizeof vars);
    for (int i = 0; i < n_var && n < 24; i++)
        if (draw(8)) vars[n++] = var[i];
    tp_node *cost = tp_mean(y);
    if (draw(4) == 0) cost = tp_add(cost, tp_mean(pick(-1)));
    tp_gradients(cost, vars, n, dvars);
    if (draw(6) == 0 && n && dvars[0]) { /* a penalty of the gradient */
        cost = tp_add(cost, tp_sum(tp_square(dvars[0])));
        tp_gradients(cost, vars, n, dvars);
    }
    if (tp_graph_status(g) != TP_OK) return;
    int left = 0;
    for (int i = 0; i < n; i++)
        if (dvars[i]) {
            put(draw(4) ? NULL : dvars[i]);
            gvs[left].grad = dvars[i], gvs[left++].var = vars[i];
        }
    tp_node *lr = tp_const(g, DRAW_OF(rates));
    const int which = draw(5);
    tp_optimizer *opt = which == 0   ? tp_sgd(lr)
                        : which == 1 ? tp_adam(lr)
                        : which == 2 ? tp_rmsprop(lr)
                        : which == 3 ? tp_lamb(lr)
                                     : tp_momentum(lr);
    if (draw(3) == 0) {
        const tp_gradproc p = tp_gradproc_global_norm_clip(1);
        opt = tp_apply_grad_processors(opt, &p, 1);
    }
    if (left) effect[n_effect++ % MAX_POOL] = tp_apply_gradients(opt, gvs, left);
}

static void draw_graph(void)
{
    static const int64_t batches[] = {1, 2, 4, 8, 16, 64}, sides[] = {4, 6, 8, 14}, channels[] = {1, 3, 4, 8, 16, 32};
    const int size = draw(8) ? 2 + draw(14) : 20 + draw(20);
    const int64_t B = DRAW_OF(batches), S = DRAW_OF(sides), C = DRAW_OF(channels);
    n_pool = n_var = n_effect = n_fed = 0;
    n_devices = draw(3) ? 1 : 2 + draw(2);
    put(placeholder(TP_F32, dims(2, B, 16, 0, 0), draw(2)));
    put(placeholder(TP_F32, dims(4, B, S, S, C), draw(2)));
    if (draw(3) == 0) put(placeholder(TP_F32, dims(3, 5, B, 8, 0), draw(2)));
    for (int i = 0; i < size && tp_graph_status(g) == TP_OK; i++) grow();
    if (draw(2) && tp_graph_status(g) == TP_OK) train();
}

/* -- digests of plans */

static uint64_t hash_program(uint64_t h, const tp__program *p)
{
    h = hash_shape(h, &p->shape);
    h = hash_number(hash_number(hash_number(h, p->n), p->block), p->n_reg);
    for (int i = 0; i < p->n_instr; i++) {
        const tp__instr *o = &p->instr[i];
        h = hash_attrs(golden_hash(h, o->row->name), o->row, o->attrs);
        for (int k = 0; k < o->n_in; k++) h = hash_number(hash_number(h, o->from[k]), o->in[k]);
        h = hash_number(hash_number(hash_number(h, o->to), o->out), (int64_t)o->out_dtype);
    }
    for (int i = 0; i < p->n_external; i++) {
        const tp__external *x = &p->external[i];
        h = hash_number(hash_number(hash_number(h, x->access), x->n_dim), x->reg);
        h = hash_number(hash_number(hash_number(hash_number(h, x->tile), x->repeats), x->inner), x->period);
        for (int d = 0; d < x->n_dim; d++) h = hash_number(hash_number(h, x->dim[d]), x->step[d]);
    }
    return h;
}

static uint64_t hash_step(uint64_t h, const tp__step *s)
{
    const tp_call *k = &s->call;
    const tp_fused *f = &k->fused;
    h = golden_hash(golden_hash(h, s->row ? s->row->name : NULL), s->name);
    h = hash_number(hash_number(hash_number(h, s->device), s->from), s->scratch);
    h = hash_number(h, s->convert + 2 * s->needs_epilogue + 4 * s->is_collective);
    for (int i = 0; i < k->n_in + k->n_out + k->n_var; i++) {
        h = hash_shape(hash_number(h, (int64_t)s->operand[i].dtype), &s->operand[i].shape);
        h = hash_number(h, s->buffer[i]);
    }
    h = hash_number(hash_number(hash_number(hash_number(h, f->bias), f->act), f->add), f->norm);
    h = hash_number(hash_number(h, f->norm_relu + 2 * f->elided), f->mask);
    h = hash_float(hash_number(h, f->table), (double)f->scale);
    for (int i = 0; i < s->n_rule; i++) h = golden_hash(h, s->rule[i]->name);
    if (k->op == &tp__op_fused) h = hash_program(h, (const tp__program *)k->attrs);
    else if (s->row && s->from < 0) h = hash_attrs(h, s->row, k->attrs);
    return h;
}

static uint64_t hash_plan(uint64_t h, const tp__plan *p)
{
    for (int i = 0; i < p->n_step; i++) h = hash_step(h, &p->step[i]);
    for (int i = 0; i < p->n_buffer; i++) {
        const tp__buffer *b = &p->buffer[i];
        h = hash_number(hash_number(hash_number(h, (int64_t)b->place), b->device), b->bytes);
        h = hash_number(hash_number(hash_number(h, b->first), b->last), b->merged);
        h = golden_hash(hash_number(h, (int64_t)b->offset), b->var ? b->var->name : NULL);
    }
    for (int i = 0; i < p->n_fetch; i++) h = hash_shape(hash_number(h, p->fetch_buffer[i]), &p->fetch_type[i].shape);
    for (int i = 0; i < p->n_feed; i++) h = hash_number(h, p->feed_buffer[i]);
    for (int i = 0; i < p->n_upload; i++) h = hash_number(hash_number(h, p->upload[i].feed), p->upload[i].buffer);
    for (int i = 0; i < p->n_device; i++) h = hash_number(hash_number(h, p->used[i]), (int64_t)p->arena_bytes[i]);
    return hash_number(hash_number(h, p->first_write), (int64_t)p->constant_bytes);
}

static uint64_t hash_printed(uint64_t h, tp_exec *e)
{
    tp_plan_info info;
    tp_buf text;
    memset(&text, 0, sizeof text);
    if (CHECK_OK(tp_exec_print_plan(e, NULL, 0, &text)) && CHECK_OK(tp_exec_plan_info(e, NULL, 0, &info))) {
        h = golden_hash(h, text.data);
        h = hash_number(hash_number(hash_number(h, info.n_steps), info.n_fused), info.n_folded);
        h = hash_number(hash_number(h, info.n_copies), (int64_t)info.arena_bytes);
        h = hash_float(hash_float(h, info.flops), info.bytes);
        if (printing) puts(text.data);
    }
    tp_buf_free(&text);
    return h;
}

/* -- feeds and fetches */

static float zeros[1 << 20];

static int draw_feeds(tp_feed *feed, bool odd)
{
    int n = 0;
    for (int i = 0; i < n_fed; i++) feed[n++] = tp_make_feed(fed[i], fed[i]->dtype, fed_shape[i], zeros);
    if (draw(6) == 0) { /* a value in the middle */
        tp_node *x = pick(-1);
        if (tp_shape_known(&x->shape) && tp_shape_size(&x->shape) <= TP_COUNT(zeros))
            feed[n++] = tp_make_feed(x, TP_F32, x->shape, zeros);
    }
    if (!odd) return n;
    const int which = draw(7), i = draw(n), d = draw(4);
    tp_tensor *t = &feed[i].value;
    tp_shape s = t->shape;
    if (which == 0) feed[i] = feed[--n];
    if (which == 1) feed[n++] = feed[i];
    if (which == 2 && s.ndim) s.dim[d % s.ndim]++;
    if (which == 3 && s.ndim) s.ndim--;
    if (which == 4) feed[i].node = NULL;
    if (which == 5 && s.ndim) s.dim[d % s.ndim] = 0;
    tp_tensor_view(t, which == 6 ? TP_I32 : t->dtype, s, zeros);
    return n;
}

static int draw_fetches(tp_node **fetch)
{
    int n = 0;
    const int wanted = 1 + draw(4);
    fetch[n++] = pool[n_pool - 1];
    while (n < wanted) fetch[n++] = pick(-1);
    for (int i = 0; i < n_effect && i < MAX_POOL && n < 30; i++)
        if (draw(3)) fetch[n++] = effect[i];
    if (draw(40) == 0) fetch[n++] = NULL;
    return n;
}

static uint64_t hash_plans(uint64_t h, const tp_session_config *c)
{
    tp_feed feed[MAX_FEEDS + 4];
    tp_node *fetch[40];
    tp_session *s = tp_session_new(g, c);
    if (!s) return golden_hash(h, TP_TEST_SAID(tp_last_error()));
    tp_exec *e = tp_session_exec(s);
    const int plans = 1 + draw(2);
    for (int i = 0; i < plans && CHECK(e != NULL); i++) {
        tp_status st = TP_OK;
        const bool odd = draw(5) == 0;
        const int feeds = draw_feeds(feed, odd), fetches = draw_fetches(fetch);
        st = tp__check_run(s, feed, feeds, fetch, fetches);
        tp__plan *p = st == TP_OK ? tp__find_plan(e, feed, feeds, fetch, fetches, &st) : NULL;
        h = hash_number(h, (int64_t)st);
        if (!p) h = golden_hash(h, TP_TEST_SAID(tp_last_error()));
        if (!p && printing) printf("no plan: %s\n", tp_last_error());
        if (!p) continue;
        p->used_at = ++e->clock;
        h = hash_printed(hash_plan(h, p), e);
    }
    tp_session_free(s);
    return h;
}

static uint64_t hash_case(uint64_t h)
{
    tp_buf text;
    tp_session_config c = tp_default_session_config();
    g = tp_graph_new(NULL);
    if (!CHECK(g != NULL)) return h;
    begin_log();
    draw_graph();
    c.threads = 1 + draw(2);
    c.isa = "sse2";
    c.n_cpu_devices = n_devices > 1 ? n_devices : 1;
    c.precision = (tp_precision)(draw(2) ? 0 : draw(4));
    c.no_fusion = draw(8) == 0;
    h = hash_plans(h, &c);
    if (draw(6) == 0) {
        memset(&text, 0, sizeof text);
        tp_graph_to_dot(g, pool, draw(3), &text);
        h = golden_hash(h, text.data);
        tp_buf_free(&text);
    }
    if (printing && tp_graph_status(g) != TP_OK) printf("mistake: %s\n", tp_graph_error(g));
    h = hash_log(hash_graph(h, g));
    tp_graph_free(g);
    return h;
}

static void digest_plans(const char *section, int n)
{
    tp_device *d = tp_cpu_device_new(1, "sse2");
    if (!d) TEST_SKIP("needs an instruction set of x86");
    d->close(d);
    tp_test_keep_log();
    for (int i = 0; i < n; i++) {
        uint64_t h = 1;
        printing = printed(section, i);
        for (int k = 0; k < 2; k++) {
            seed(tp_hash_name(section) + (uint64_t)(i * 2 + k));
            h = hash_case(h);
        }
        golden_digest(h);
    }
    tp_set_log(NULL, NULL);
    golden_compare("digests_plans.txt", section);
}

TEST(random_graphs_have_the_plans_that_they_had) { digest_plans("plans", 700); }
TEST(more_random_graphs_have_the_plans_that_they_had) { digest_plans("more plans", 700); }

/* -- towers */

static tp_node *tower(const tp_tower_context *t, void *user)
{
    const int64_t *d = (const int64_t *)user;
    tp_node *x = (tp_placeholder)(g, "x", TP_F32, dims(4, 4, 6, 6, 3)), *y = x;
    tp_conv2d_desc conv;
    tp_batch_norm_desc bn;
    tp_fully_connected_desc fc;
    memset(&conv, 0, sizeof conv), memset(&bn, 0, sizeof bn), memset(&fc, 0, sizeof fc);
    conv.name = "conv", conv.filters = (int)d[0], conv.kernel_size = 3,
    conv.kernel_regularizer = tp_l2_regularizer(0.5f);
    bn.name = "bn", bn.sync_statistics = (tp_sync_statistics)d[1], bn.ema_update = (tp_ema_update)d[2];
    fc.name = "fc", fc.units = 5;
    y = (tp_conv2d_)(y, &conv);
    if (d[3]) y = (tp_batch_norm_)(y, &bn);
    y = (tp_fully_connected_)((tp_relu)(y), &fc);
    if (d[4]) (tp_add_tensor_summary)((tp_mean)(y), TP_SUMMARY_SCALAR, "cost", NULL);
    if (d[5] && t->index == (int)d[6]) return NULL;
    fed[n_fed] = x;
    fed_shape[n_fed++] = x->shape;
    return (tp_mean)((tp_square)(y));
}

static uint64_t hash_towers(uint64_t h)
{
    tp_node *out[4] = {NULL, NULL, NULL, NULL}, *grads[4][8], *vars[8];
    int64_t how[7];
    int devices[4];
    tp_session_config c = tp_default_session_config();
    tp_towers_desc d;
    memset(&d, 0, sizeof d);
    g = tp_graph_new(NULL);
    begin_log();
    n_pool = n_var = n_effect = n_fed = 0;
    how[0] = 1 + draw(4), how[1] = draw(3), how[2] = draw(4), how[3] = draw(4);
    how[4] = draw(2), how[5] = draw(12) == 0, how[6] = draw(3);
    for (int i = 0; i < 4; i++) devices[i] = draw(12) ? i % 2 : draw(5) - 1;
    d.n = draw(20) ? 1 + draw(4) : draw(2) - 1;
    d.devices = draw(2) ? devices : NULL;
    d.own_variables = draw(4) == 0;
    n_devices = 1 + draw(4);
    h = hash_number(h, (int64_t)tp_build_on_towers(g, &d, tower, how, out));
    for (int i = 0; i < d.n && tp_graph_status(g) == TP_OK; i++) {
        int n = 0;
        for (int k = 0; k < tp_graph_n_variables(g) && n < 8; k++)
            if (tp_graph_variable(g, k)->trainable) vars[n++] = tp_graph_variable(g, k)->node;
        tp_device_enter(g, tp_node_device(out[i]));
        h = hash_node(h, tp_gradients(out[i], vars, n, grads[i]));
        tp_device_leave(g);
        put(out[i]);
        if (n) put(grads[i][draw(n)]);
    }
    int n = 0;
    tp_node *const *updates = tp_collection(g, TP_KEY_UPDATE_OPS, &n);
    for (int i = 0; i < n; i++) effect[n_effect++] = updates[i];
    c.threads = 2, c.isa = "sse2", c.n_cpu_devices = n_devices;
    if (n_pool) h = hash_plans(h, &c);
    h = hash_log(hash_graph(h, g));
    if (printing) printf("%s\n%s", tp_graph_error(g), tp_test_logged);
    tp_graph_free(g);
    return h;
}

TEST(random_towers_have_the_plans_that_they_had)
{
    tp_device *d = tp_cpu_device_new(1, "sse2");
    if (!d) TEST_SKIP("needs an instruction set of x86");
    d->close(d);
    tp_test_keep_log();
    for (int i = 0; i < 240; i++) {
        seed((uint64_t)(7000 + i));
        printing = printed("towers", i);
        golden_digest(hash_towers(1));
    }
    tp_set_log(NULL, NULL);
    golden_compare("digests_plans.txt", "towers");
}

/* -- regular expressions */

static void add(char *to, const char *what)
{
    if (strlen(to) + strlen(what) < 200) strcat(to, what);
}

/* A pattern whose parentheses close. */
static void grow_pattern(char *to, int depth)
{
    static const char *const atoms[] = {"a",     "b",        "c",     ".",       "[ab]",    "[^a]",   "[a-c]", "\\w",
                                        "\\d",   "\\s",      "\\W",   "\\b",     "\\B",     "^",      "$",     "\\A",
                                        "\\Z",   "\xc3\xa9", "\\x61", "A",       "[\\w-]",  "[^\\d]", "\\n",   "-",
                                        "(?#x)", "[]a]",     "\\.",   "[a\\-c]", "\\u00e9", "\\141",  "[\\b]"};
    static const char *const groups[] = {"(",    "(",    "(?:", "(?:",  "(?P<n>", "(?=",   "(?!",
                                         "(?<=", "(?<!", "(?>", "(?i:", "(?s-m:", "(?-i:", "(?m:"};
    static const char *const repeats[] = {"*",      "+",      "?",     "*?",    "+?",   "??",   "*+",
                                          "++",     "?+",     "{2}",   "{1,2}", "{,2}", "{2,}", "{0}",
                                          "{1,2}?", "{0,3}+", "{2,1}", "{1",    "{}",   "{,}"};
    const int n = 1 + draw(4);
    for (int i = 0; i < n; i++) {
        const int kind = depth ? draw(6) : 5;
        if (kind == 0) {
            add(to, DRAW_OF(groups));
            grow_pattern(to, depth - 1);
            add(to, ")");
        } else if (kind == 1) {
            add(to, "|");
            grow_pattern(to, depth - 1);
        } else add(to, DRAW_OF(atoms));
        if (draw(3) == 0) add(to, DRAW_OF(repeats));
    }
}

static void wild_pattern(char *to)
{
    static const char *const pieces[] = {"a",      "b",         "(",      ")",     "[",    "]",   "*",     "+",
                                         "?",      "{",         "}",      "2",     ",",    "|",   "\\",    "^",
                                         "-",      "(?",        "(?P<n>", "(?<=",  ":",    "i",   ")",     "\\1",
                                         "\\x6",   "\xc3",      "x",      "[^",    "(?i)", "\\N", "(?(1)", "\\u00",
                                         "(?P=n)", "[:alpha:]", "\\400",  "99999", "(?x)", " ",   "#",     "&&"};
    const int n = 1 + draw(8);
    for (int i = 0; i < n; i++) add(to, DRAW_OF(pieces));
}

static uint64_t hash_matches(uint64_t h, const tp_regex *re, const char *text)
{
    typedef tp_status (*matcher)(const tp_regex *re, const char *text, bool *found, tp_span *spans, int n_spans);
    static const matcher fn[] = {tp_regex_search, tp_regex_match, tp_regex_fullmatch};
    tp_span span[8];
    for (int i = 0; i < TP_COUNT(fn); i++) {
        bool found = false;
        memset(span, 0, sizeof span);
        const tp_status st = fn[i](re, text, &found, span, draw(8));
        h = hash_number(hash_number(h, (int64_t)st), found);
        if (st != TP_OK) h = golden_hash(h, tp_last_error());
        for (int k = 0; k < 8 && found; k++) h = hash_number(hash_number(h, span[k].begin), span[k].end);
    }
    return h;
}

TEST(random_patterns_match_what_they_matched)
{
    static const char *const letters[] = {"a", "b",        "c", "A", "1", " ", "\n",
                                          "_", "\xc3\xa9", "-", ".", "a", "b", "\xc3"};
    for (int i = 0; i < 480; i++) {
        uint64_t h = 1;
        for (int k = 0; k < 16; k++) {
            char pattern[256] = "", text[64];
            tp_regex *re = NULL;
            seed((uint64_t)(9000 + i * 16 + k));
            if (draw(12) == 0) add(pattern, draw(2) ? "(?i)" : "(?mx)");
            if (draw(4)) grow_pattern(pattern, 3);
            else wild_pattern(pattern);
            const tp_status st = tp_regex_new(pattern, &re);
            h = hash_number(h, (int64_t)st);
            if (st != TP_OK) h = golden_hash(h, tp_last_error());
            if (st != TP_OK) continue;
            h = hash_number(hash_number(h, tp_regex_n_groups(re)), tp_regex_group(re, "n"));
            for (int t = 0; t < 4; t++) {
                text[0] = 0;
                for (int n = draw(9); n > 0; n--) strcat(text, DRAW_OF(letters));
                h = hash_matches(h, re, text);
            }
            tp_regex_free(re);
        }
        golden_digest(h);
    }
    golden_compare("digests_plans.txt", "patterns");
}

/* -- variables of checkpoints */

static void some_variables(tp_graph *of, int step)
{
    static const char *const names[] = {"a/W",   "a/b",          "b/W",         "c", "d/e/f",
                                        "opt/W", "a/W/Momentum", "global_step", "ab"};
    for (int i = 0; i < TP_COUNT(names); i++) {
        const int rank = draw(3), kind = draw(9), other = draw(6);
        if (draw(3) == 0) continue;
        tp_variable_desc d;
        memset(&d, 0, sizeof d);
        d.name = names[i];
        d.shape = dims(rank, 2, other ? 3 : 4, 1, 1);
        d.dtype = kind == 0 ? TP_F64 : kind == 1 ? TP_I64 : kind == 2 ? TP_F16 : TP_F32;
        d.init = tp_init_constant((float)(step + i));
        d.trainable = draw(4) ? TP_YES : TP_NO;
        d.local = draw(12) == 0;
        (tp_get_variable)(of, &d);
    }
}

static uint64_t hash_values(uint64_t h, tp_session *s)
{
    const tp_graph *of = tp_session_graph(s);
    tp_tensor t;
    memset(&t, 0, sizeof t);
    for (int i = 0; i < tp_graph_n_variables(of); i++) {
        h = hash_variable(h, tp_graph_variable(of, i));
        if (!CHECK_OK(tp_session_read(s, tp_graph_variable(of, i), &t))) continue;
        for (int64_t k = 0; k < tp_tensor_size(&t); k++) h = hash_float(h, tp_tensor_get(&t, k));
    }
    tp_tensor_free(&t);
    return h;
}

static uint64_t hash_restore(uint64_t h, const char *dir, int which)
{
    static const char *const ends[] = {"npz", "safetensors", "index"};
    static const char *const ignored[] = {"a/W", "global_step", "nothing"};
    static const char *const prefixes[] = {NULL, NULL, "a", "opt", "a/", "b"};
    char path[512], name[32];
    tp_graph *from = tp_graph_new(NULL), *to = tp_graph_new(NULL);
    some_variables(from, 100);
    some_variables(to, 1);
    tp_session_config c = tp_default_session_config();
    c.threads = 1;
    tp_session *a = tp_session_new(from, &c), *b = tp_session_new(to, &c);
    snprintf(name, sizeof name, "model-%d.%s", which, DRAW_OF(ends));
    snprintf(path, sizeof path, "%s/%s", dir, name);
    tp_saver_restore_desc d;
    memset(&d, 0, sizeof d);
    begin_log();
    if (CHECK(a && b) && draw(20)) {
        const int dump = draw(4);
        const tp_status st = dump ? tp_save_checkpoint(a, path, NULL, 0) : tp_dump_session_params(a, path);
        h = hash_number(h, (int64_t)st);
    }
    d.path = path;
    d.prefix = DRAW_OF(prefixes);
    d.ignore = ignored;
    d.n_ignore = draw(4);
    d.relaxed = draw(3) == 0;
    d.strict = draw(4) == 0;
    tp_session_init *init = draw(4) ? tp_saver_restore_ex(&d) : tp_smart_init(path, d.relaxed);
    const tp_status st = init && b ? tp_session_init_run(init, b) : TP_ERR;
    h = hash_number(h, (int64_t)st);
    if (st != TP_OK) h = golden_hash_without(h, TP_TEST_SAID(tp_last_error()), dir);
    tp_session_init_free(init);
    h = golden_hash_without(h, tp_test_logged, dir);
    if (printing) printf("%s\n%s\n", st == TP_OK ? "restored" : tp_last_error(), tp_test_logged);
    if (b) h = hash_values(h, b);
    tp_session_free(a);
    tp_session_free(b);
    tp_graph_free(from);
    tp_graph_free(to);
    return h;
}

TEST(variables_are_restored_as_they_were)
{
    const char *dir = tp_test_tmpdir();
    TEST_MAY_ERROR("");
    tp_test_keep_log();
    for (int i = 0; i < 160; i++) {
        seed((uint64_t)(20000 + i));
        printing = printed("restored", i);
        golden_digest(hash_restore(1, dir, i));
    }
    tp_set_log(NULL, NULL);
    golden_compare("digests_plans.txt", "restored");
}

TEST_MAIN()
