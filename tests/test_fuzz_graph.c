/* Random graphs through the planner: what a plan fuses, leaves out, lays over or orders anew changes no bit.
 *
 *     cc -O2 -I. -Itests tests/test_fuzz_graph.c -lm -lpthread -o build/fuzz_graph
 *     build/fuzz_graph                    the fixed seeds of the tests
 *     build/fuzz_graph 10000 [first] [alloc]   so many graphs; a failing one is shrunk and printed
 *     clang -g -O1 -DFUZZ_LIBFUZZER -fsanitize=fuzzer,address,undefined -I. -Itests tests/test_fuzz_graph.c -lm -lpthread
 *
 * A graph grows from genes: each says what to add and, by hashing, to which of the values that are there, so that a gene may
 * be dropped and the others still mean the same. (Which graph a seed means depends on the compiler, whose is the order in
 * which arguments draw.) It runs several times, that variables carry on, and is compared:
 *   - with itself op by op: each op alone in a graph of its own, fed with what the others gave, in creation order
 *   - fused, op by op (no_fusion), on three threads, fetching everything and fetching little
 *   - each op with its naive loop in double, as far as its inputs determine the result
 *   - with an allocation failing: a sentence, nothing leaked, and the next run as if nothing had been */
#define TP_IMPLEMENTATION
#include "tp_graph.h"
#include "tp_test.h"

enum { MAX_GENES = 64, MAX_POOL = 512, MAX_VARS = 96, MAX_OPS = 420, MAX_IN = 64, RUNS = 3, MOST = 30000 };

typedef struct gene {
    int kind;
    uint32_t seed;
} gene;
typedef struct genome {
    uint32_t head; /* of what is not a gene's: sizes, fetches, feeds, instructions */
    int n;
    gene gene[MAX_GENES];
} genome;

/* ==== >>growing ======================================================================================= */

typedef struct garden {
    tp_graph *g;
    uint32_t head;
    tp_node *pool[MAX_POOL]; /* float32 values that genes may use */
    uint64_t tag[MAX_POOL];
    int n_pool;
    tp_node *var[MAX_VARS]; /* float32 variables */
    int n_var;
    tp_node *effect[64];
    int n_effect;
    tp_node *feed[8]; /* placeholders */
    int n_feed;
    tp_node *tokens, *labels, *pred, *token_var;
    int64_t B, T, classes;
    uint64_t seed; /* of the gene at work */
    int draws;
    bool tables;          /* a sequence over a table: other bits than op by op */
    int n_device, device; /* of the session, and where the gene's ops go */
    tp_precision precision;
} garden;

static uint32_t draw(garden *f, uint32_t n)
{
    return (uint32_t)(tp_test_mix(f->seed + (uint64_t)++f->draws * 0x1234567u) % n);
}
static bool chance(garden *f, uint32_t percent) { return draw(f, 100) < percent; }

static bool grown(const tp_node *n) { return n && !tp_is_poison(n); }
static void put(garden *f, tp_node *n)
{
    if (!grown(n) || n->dtype != TP_F32 || f->n_pool == MAX_POOL || tp_shape_size(&n->shape) > MOST) return;
    f->pool[f->n_pool] = n;
    f->tag[f->n_pool++] = tp_test_mix(f->seed + (uint64_t)++f->draws * 77u);
}
static tp_node *maybe_put(garden *f, tp_node *n)
{
    if (chance(f, 35)) put(f, n);
    return n;
}

/* A value of the pool, of this rank (-1: any) and shape (NULL: any). Which one changes little when others go. */
static tp_node *pick(garden *f, int rank, const tp_shape *shape)
{
    const bool late = chance(f, 60);
    const uint64_t key = tp_test_mix(f->seed + (uint64_t)++f->draws * 99991u);
    tp_node *best = NULL;
    uint64_t most = 0;
    int seen = 0;
    for (int i = f->n_pool - 1; i >= 0; i--) {
        tp_node *n = f->pool[i];
        if (rank >= 0 && n->shape.ndim != rank) continue;
        if (shape && !tp_shape_equal(shape, &n->shape)) continue;
        if (late && ++seen > 4) break;
        const uint64_t h = tp_test_mix(key ^ f->tag[i]);
        if (!best || h > most) best = n, most = h;
    }
    return best;
}

static tp_shape dims(int n, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t dim[4] = {a, b, c, d};
    return tp_make_shape_n(n, dim);
}

static tp_node *variable(garden *f, tp_shape shape, float low, float high)
{
    char name[48];
    snprintf(name, sizeof name, "v%llx", (unsigned long long)tp_test_mix(f->seed + (uint64_t)++f->draws));
    tp_node *v =
        tp_get_variable_as(f->g, name, TP_F32, shape, low == high ? tp_init_constant(low) : tp_init_uniform(low, high));
    if (grown(v) && f->n_var < MAX_VARS) f->var[f->n_var++] = v;
    return v;
}
static tp_node *weights(garden *f, tp_shape shape, int64_t fan)
{
    const float r = 1.5f / sqrtf((float)(fan > 0 ? fan : 1));
    for (int i = 0; i < f->n_var && chance(f, 10); i++) { /* shared ones */
        tp_node *v = f->var[draw(f, (uint32_t)f->n_var)];
        if (tp_shape_equal(&v->shape, &shape)) return v;
    }
    return variable(f, shape, -r, r);
}

/* The same value, under a name or in another form, that stands between two ops. */
static tp_node *between(garden *f, tp_node *x)
{
    switch (draw(f, 15)) {
    case 0: x = tp_identity(x); break;
    case 1: x = tp_reshape_to(x, x->shape); break;
    case 2: x = tp_stop_gradient(x); break;
    case 3: x = tp_identity(tp_identity(x)); break;
    case 4:
        if (f->n_effect) x = tp_with_dependencies(x, &f->effect[draw(f, (uint32_t)f->n_effect)], 1);
        break;
    case 5: {
        tp_node *y = pick(f, -1, NULL);
        x = tp_with_dependencies(x, &y, 1);
        break;
    }
    case 6: put(f, tp_relu(x)); break;
    case 7: put(f, tp_reduce_sum(x, NULL, 0, false)); break;
    case 8: { /* another form */
        const int64_t n = tp_shape_size(&x->shape);
        put(f, tp_relu(tp_reshape_to(x, dims(1, n, 0, 0, 0))));
        break;
    }
    default: break;
    }
    return maybe_put(f, x);
}

static tp_node *activation(garden *f, tp_node *x)
{
    switch (draw(f, 20)) {
    case 0: return tp_tanh(x);
    case 1: return tp_sigmoid(x);
    case 2: return tp_leaky_relu(x, 0.1f);
    case 3: return tp_elu(x);
    case 4: return tp_softplus(x);
    case 5: return tp_gelu(x);
    case 6: return tp_silu(x);
    case 7: return tp_clip(x, -0.5f, 0.75f);
    case 8: return tp_affine(x, 0.5f, 0.25f);
    case 9: return tp_abs(x);
    case 10: return tp_neg(x);
    case 11: return tp_square(tp_tanh(x));
    case 12: return tp_sqrt(tp_affine(tp_abs(x), 1, 0.1f));
    case 13: return tp_selu(x);
    case 14: return tp_sin(x);
    default: return tp_relu(x);
    }
}

static tp_node *conv(garden *f, tp_node *x, bool simple)
{
    static const int outs[] = {16, 32, 16, 8, 5, 3, 1, 24};
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    int64_t C = x->shape.dim[3], O = outs[draw(f, TP_COUNT(outs))], K = 3;
    int groups = 1;
    if (simple && chance(f, 40)) O = C;
    if (!simple) {
        static const int kernels[] = {1, 1, 2, 3, 5};
        K = kernels[draw(f, TP_COUNT(kernels))];
        a.stride_h = 1 + (int)draw(f, 2);
        a.stride_w = chance(f, 80) ? a.stride_h : 3 - a.stride_h;
        if (a.stride_h == 1 && a.stride_w == 1 && chance(f, 20)) a.dilation_h = a.dilation_w = 2;
        if (chance(f, 30) && x->shape.dim[1] >= 2 * K && x->shape.dim[2] >= 2 * K) a.padding = TP_VALID;
        if (chance(f, 20) && C > 0) groups = (int)C;
        else if (chance(f, 15) && C % 2 == 0) groups = 2;
        if (groups > 1) O = groups * (1 + (int64_t)draw(f, 2));
    }
    if (O > 48) O = groups = 1;
    a.groups = groups;
    if (chance(f, 8)) { /* channels first */
        const int to[4] = {0, 3, 1, 2};
        x = tp_transpose(x, to, 4);
        a.data_format = TP_NCHW;
    }
    tp_node *w = weights(f, dims(4, K, K, C / groups, O), K * K * C / groups), *y;
    if (chance(f, 4)) w = tp_affine(w, 0.5f, 0);
    y = tp_nn_conv2d(x, w, &a);
    if (chance(f, 15) && a.data_format == TP_NCHW) y = tp_nn_bias_add(y, weights(f, dims(1, O, 0, 0, 0), O), TP_NCHW);
    if (a.data_format == TP_NCHW && grown(y)) {
        const int back[4] = {0, 2, 3, 1};
        y = tp_transpose(y, back, 4);
    }
    return y;
}

static tp_node *batch_norm(garden *f, tp_node *x)
{
    const int axis = chance(f, 88) ? x->shape.ndim - 1 : 1;
    const int64_t C = x->shape.dim[axis];
    tp_node *gamma = variable(f, dims(1, C, 0, 0, 0), 0.5f, 1.5f),
            *beta = variable(f, dims(1, C, 0, 0, 0), -0.5f, 0.5f);
    tp_node *mean = variable(f, dims(1, C, 0, 0, 0), -0.1f, 0.1f), *var = variable(f, dims(1, C, 0, 0, 0), 0.5f, 1);
    if (chance(f, 25)) return tp_nn_batch_norm_infer(x, gamma, beta, mean, var, axis, 1e-3f);
    tp_node *m = NULL, *v = NULL;
    const bool stats = chance(f, 50);
    if (chance(f, 6)) beta = tp_identity(beta);
    if (chance(f, 6)) beta = tp_affine(beta, 2, 0);
    tp_node *y =
        tp_nn_batch_norm_train(x, gamma, beta, axis, 1e-3f, chance(f, 50), stats ? &m : NULL, stats ? &v : NULL);
    if (stats && f->n_effect + 2 < (int)TP_COUNT(f->effect)) {
        f->effect[f->n_effect++] = tp_assign_moving_average(mean, m, 0.9f, NULL);
        f->effect[f->n_effect++] = tp_assign_moving_average(var, v, 0.9f, NULL);
        maybe_put(f, m);
    }
    return y;
}

/* Image-like: (B,H,W,C), whatever is at hand made so. */
static tp_node *image(garden *f)
{
    tp_node *x = pick(f, 4, NULL);
    return x ? x : f->feed[0];
}
static tp_node *matrix(garden *f)
{
    tp_node *x = pick(f, chance(f, 70) ? 2 : -1, NULL);
    if (!x) x = pick(f, -1, NULL);
    if (x->shape.ndim < 2) x = tp_reshape_to(x, dims(2, 1, tp_shape_size(&x->shape), 0, 0));
    return tp_batch_flatten(x);
}

/* What a value may be added to: one of its shape, else a channel vector, a scalar, or with dimensions of 1. */
static tp_node *partner(garden *f, tp_node *x)
{
    tp_node *y = pick(f, -1, &x->shape);
    tp_shape s = x->shape;
    switch (draw(f, 10)) {
    case 0: return tp_const(f->g, 0.5f);
    case 1:
        if (s.ndim > 0) return weights(f, dims(1, s.dim[s.ndim - 1], 0, 0, 0), 1);
        break;
    case 2:
        for (int d = 0; d < s.ndim; d++)
            if (chance(f, 50)) s.dim[d] = 1;
        return weights(f, s, 1);
    case 3: return weights(f, s, 1);
    case 4: {
        tp_node *z = pick(f, 0, NULL);
        if (z) return z;
        break;
    }
    case 5: return tp_ones_like(x);
    case 6: return tp_reduce_mean(x, NULL, 0, true);
    default: break;
    }
    return y && y != x ? y : weights(f, x->shape, 1);
}
static tp_node *binary(garden *f, tp_node *x, tp_node *y)
{
    switch (draw(f, 12)) {
    case 0: return tp_sub(x, y);
    case 1: return tp_mul(x, y);
    case 2: return tp_maximum(x, y);
    case 3: return tp_minimum(y, x);
    case 4: return tp_squared_difference(x, y);
    case 5: return tp_div(x, tp_affine(tp_abs(y), 1, 0.5f));
    case 6: return tp_select(tp_greater(x, y), x, tp_affine(y, 1, 0));
    case 7: return tp_add(y, x);
    default: return tp_add(x, y);
    }
}

static void grow_conv_block(garden *f)
{
    tp_node *x = image(f), *skip = chance(f, 30) ? activation(f, x) : NULL, *y = between(f, x);
    const bool pre = chance(f, 40); /* norm, activation, convolution; else the other way round */
    if (pre) {
        if (chance(f, 85)) y = between(f, batch_norm(f, y));
        if (chance(f, 80)) y = between(f, tp_relu(y));
    }
    y = between(f, conv(f, y, chance(f, 65)));
    if (chance(f, 40)) y = between(f, tp_nn_bias_add(y, weights(f, dims(1, y->shape.dim[3], 0, 0, 0), 1), TP_NHWC));
    if (!pre) {
        if (chance(f, 60)) y = between(f, batch_norm(f, y));
        if (chance(f, 60)) y = between(f, chance(f, 80) ? tp_relu(y) : activation(f, y));
    }
    if (chance(f, 50)) {
        tp_node *z = tp_shape_equal(&x->shape, &y->shape) ? x : pick(f, 4, &y->shape);
        if (skip && z == x) {
            z = skip;
            put(f, activation(f, z)); /* ends a chain that began before the convolution */
        }
        if (z && z != y) y = chance(f, 50) ? tp_add(y, z) : tp_add(z, y);
        if (chance(f, 50)) y = tp_relu(y);
    }
    put(f, y);
}

static void grow_bn_twice(garden *f) /* norm, ReLU, two convolutions of it, their sum */
{
    tp_node *x = image(f), *y = between(f, batch_norm(f, x)), *a, *b;
    if (chance(f, 80)) y = between(f, tp_relu(y));
    a = conv(f, y, true);
    b = conv(f, y, chance(f, 50));
    maybe_put(f, a);
    if (chance(f, 50)) b = between(f, b);
    if (tp_shape_equal(&a->shape, &b->shape)) a = tp_add(a, b);
    else put(f, b);
    if (chance(f, 50) && tp_shape_equal(&a->shape, &x->shape)) a = tp_add(x, a);
    put(f, a);
}

static void grow_shape(garden *f)
{
    tp_node *x = pick(f, -1, NULL), *part[8];
    const int n = x->shape.ndim;
    const int axis = n ? (int)draw(f, (uint32_t)n) : 0;
    int64_t a[TP_MAX_DIMS] = {0}, b[TP_MAX_DIMS] = {0};
    switch (draw(f, 14)) {
    case 0: put(f, tp_reshape_to(x, dims(1, tp_shape_size(&x->shape), 0, 0, 0))); break;
    case 1:
        if (n >= 2) put(f, tp_batch_flatten(x));
        break;
    case 2: put(f, n < 4 ? tp_expand_dims(x, axis) : tp_identity(x)); break;
    case 3: {
        int perm[4] = {0, 1, 2, 3};
        for (int i = n - 1; i > 0; i--) {
            const int j = (int)draw(f, (uint32_t)i + 1), t = perm[i];
            perm[i] = perm[j];
            perm[j] = t;
        }
        if (n > 0) put(f, tp_transpose(x, perm, n));
        break;
    }
    case 4: {
        tp_node *xs[3];
        xs[0] = x, xs[1] = pick(f, -1, &x->shape), xs[2] = tp_relu(x);
        if (n > 0) put(f, tp_concat(xs, 2 + (int)draw(f, 2), axis));
        break;
    }
    case 5:
        for (int k = 2; k <= 4 && n > 0; k++)
            if (x->shape.dim[axis] % k == 0 && x->shape.dim[axis] > 0) {
                tp_split(x, k, axis, part);
                for (int i = 0; i < k; i++)
                    if (i == 0 || chance(f, 60)) put(f, part[i]);
                break;
            }
        break;
    case 6:
    case 7:
        for (int d = 0; d < n; d++) {
            a[d] = draw(f, (uint32_t)(x->shape.dim[d] > 0 ? x->shape.dim[d] : 1));
            b[d] = x->shape.dim[d] - a[d];
            if (b[d] > 1 && chance(f, 40)) b[d]--;
            if (chance(f, 50)) a[d] = 0, b[d] = -1;
            if (chance(f, 2)) b[d] = 0; /* nothing is left */
        }
        if (n > 0) put(f, tp_slice(x, a, b));
        break;
    case 8:
        for (int d = 0; d < n; d++) a[d] = draw(f, 2), b[d] = draw(f, 3);
        if (n > 0 && tp_shape_size(&x->shape) < MOST / 16)
            put(f, tp_pad(x, a, b, TP_PAD_CONSTANT, chance(f, 50) ? 0 : 0.5f));
        break;
    case 9:
        for (int d = 0; d < n; d++) a[d] = 1 + draw(f, 2);
        if (n > 0 && tp_shape_size(&x->shape) < MOST / 16) put(f, tp_tile(x, a));
        break;
    case 10: {
        tp_node *xs[2];
        xs[0] = x, xs[1] = pick(f, -1, &x->shape);
        if (n < 4) put(f, tp_stack(xs, 2, axis));
        break;
    }
    case 11:
        if (n > 1 && x->shape.dim[axis] > 0 && x->shape.dim[axis] <= 8) {
            tp_unstack(x, axis, (int)x->shape.dim[axis], part);
            for (int i = 0; i < (int)x->shape.dim[axis]; i++)
                if (i < 2) put(f, part[i]);
        }
        break;
    case 12:
        if (n > 0) put(f, tp_reverse(x, &axis, 1));
        break;
    default:
        if (n > 0) put(f, tp_cumsum(x, axis, chance(f, 50), chance(f, 50)));
        break;
    }
}

static void grow_reduce(garden *f)
{
    tp_node *x = pick(f, -1, NULL);
    const int n = x->shape.ndim;
    int axes[2], k = n ? (int)draw(f, (uint32_t)(n < 2 ? n : 2) + 1) : 0;
    if (n) axes[0] = (int)draw(f, (uint32_t)n), axes[1] = (axes[0] + 1) % n;
    if (tp_shape_size(&x->shape) == 0) return;
    const bool keep = chance(f, 50);
    switch (draw(f, 9)) {
    case 0: put(f, tp_reduce_sum(x, axes, k, keep)); break;
    case 1: put(f, tp_reduce_max(x, axes, k, keep)); break;
    case 2: put(f, tp_l2_loss(x)); break;
    case 3:
        if (n) put(f, tp_softmax(x));
        break;
    case 4:
        if (n) put(f, tp_log_softmax(x));
        break;
    case 5:
        if (n > 1) {
            const int axis = n > 2 && chance(f, 50) ? 1 + (int)draw(f, (uint32_t)n - 1) : 0; /* 0: a layer norm */
            const int64_t C = x->shape.dim[axis ? axis : n - 1];
            int groups = 1 + (int)draw(f, (uint32_t)C);
            while (C % groups) groups--;
            if (axis)
                put(f, tp_nn_group_norm(x, variable(f, dims(1, C, 0, 0, 0), 0.5f, 1.5f),
                                        variable(f, dims(1, C, 0, 0, 0), -0.5f, 0.5f), axis, groups, 1e-3f));
            else
                put(f, tp_nn_layer_norm(x, variable(f, dims(1, C, 0, 0, 0), 0.5f, 1.5f),
                                        variable(f, dims(1, C, 0, 0, 0), -0.5f, 0.5f), 1e-3f));
        }
        break;
    case 6: {
        tp_node *xs[3];
        xs[0] = x, xs[1] = pick(f, -1, &x->shape), xs[2] = tp_affine(x, 0.5f, 0);
        put(f, tp_add_n(xs, 2 + (int)draw(f, 2)));
        break;
    }
    default: put(f, tp_reduce_mean(x, axes, k, keep)); break;
    }
}

static void grow_dense(garden *f)
{
    tp_node *x = between(f, matrix(f)), *y;
    const int64_t K = x->shape.dim[1], N = 1 + draw(f, chance(f, 20) ? 130 : 20);
    const int64_t from[2] = {0, 0}, size[2] = {-1, 64};
    if (K > 700) x = tp_slice(x, from, size);
    const int64_t in = K > 700 ? 64 : K;
    if (chance(f, 15)) y = tp_matmul_ex(x, weights(f, dims(2, N, in, 0, 0), in), false, true);
    else y = tp_matmul(x, weights(f, dims(2, in, N, 0, 0), in));
    y = between(f, y);
    if (chance(f, 60)) y = between(f, tp_nn_bias_add(y, weights(f, dims(1, N, 0, 0, 0), N), TP_NHWC));
    if (chance(f, 20)) y = between(f, batch_norm(f, y));
    if (chance(f, 60)) y = between(f, tp_relu(y));
    if (chance(f, 15)) { /* a product of two values */
        tp_node *z = pick(f, 2, NULL);
        if (z && z->shape.dim[0] == y->shape.dim[0]) put(f, tp_matmul_ex(z, y, true, false));
    }
    put(f, y);
}

static void grow_pool(garden *f)
{
    tp_node *x = image(f);
    tp_pool_attrs a;
    memset(&a, 0, sizeof a);
    a.size_h = 1 + (int)draw(f, 3), a.size_w = chance(f, 80) ? a.size_h : 1;
    if (chance(f, 30)) a.stride_h = a.stride_w = 1 + (int)draw(f, 2);
    if (chance(f, 40) || x->shape.dim[1] < a.size_h || x->shape.dim[2] < a.size_w) a.padding = TP_SAME;
    const int axes[2] = {1, 2};
    switch (draw(f, 5)) {
    case 0: put(f, tp_nn_avg_pool(x, &a)); break;
    case 1: put(f, tp_reduce_mean(x, axes, 2, false)); break;
    case 2: {
        tp_resize_attrs r;
        memset(&r, 0, sizeof r);
        r.out_h = 1 + (int)draw(f, 10), r.out_w = 1 + (int)draw(f, 10);
        r.half_pixel_centers = chance(f, 50);
        if (tp_shape_size(&x->shape) > 0) put(f, chance(f, 50) ? tp_resize_bilinear(x, &r) : tp_resize_nearest(x, &r));
        break;
    }
    default: put(f, tp_nn_max_pool(x, &a)); break;
    }
}

/* A convolution the other way round, as transposed ones are made; sometimes added to what is there. */
static void grow_transposed(garden *f)
{
    tp_node *dy = image(f), *like = pick(f, 4, NULL), *w, *y;
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    if (!like || like->shape.dim[3] > 32 || dy->shape.dim[3] > 32 || like->shape.dim[0] != dy->shape.dim[0]) return;
    a.stride_h = (int)((like->shape.dim[1] + dy->shape.dim[1] - 1) / (dy->shape.dim[1] ? dy->shape.dim[1] : 1));
    a.stride_w = (int)((like->shape.dim[2] + dy->shape.dim[2] - 1) / (dy->shape.dim[2] ? dy->shape.dim[2] : 1));
    if (a.stride_h < 1 || a.stride_w < 1 || !tp_shape_size(&dy->shape) || !tp_shape_size(&like->shape)) return;
    if ((like->shape.dim[1] + a.stride_h - 1) / a.stride_h != dy->shape.dim[1]) return;
    if ((like->shape.dim[2] + a.stride_w - 1) / a.stride_w != dy->shape.dim[2]) return;
    const int64_t K = chance(f, 60) ? 3 : 1;
    w = weights(f, dims(4, K, K, like->shape.dim[3], dy->shape.dim[3]), K * K * dy->shape.dim[3]);
    y = between(f, tp_nn_conv2d_input_grad(dy, w, like, &a));
    if (chance(f, 60)) y = chance(f, 50) ? tp_add(y, like) : tp_add(tp_relu(like), y);
    put(f, y);
}

static void grow_sequence(garden *f)
{
    static const int rows[] = {2, 5, 9, 40};
    const int64_t V = rows[draw(f, 4)], E = 1 + draw(f, 12), H = 1 + draw(f, 12);
    tp_node *table = weights(f, dims(2, V, E, 0, 0), 2), *ids = chance(f, 80) ? f->tokens : f->token_var, *x = NULL;
    const bool major = chance(f, 50);
    tp_node *h = NULL, *c = NULL, *y, *state = NULL;
    tp_node *third = chance(f, 70) ? pick(f, 3, NULL) : NULL;
    if (V < 5) ids = tp_cast(tp_affine(tp_cast(ids, TP_F32), 0.25f, 0), TP_I32);
    if (chance(f, 20)) third = NULL;
    if (third && third->shape.dim[0] && third->shape.dim[1] && third->shape.dim[2]) x = third;
    else {
        if (!major) ids = tp_transpose(ids, NULL, 0);
        if (chance(f, 15)) table = tp_affine(table, 1.5f, 0);
        if (chance(f, 15))
            x = tp_reshape_to(tp_gather(table, tp_flatten(ids)), dims(3, ids->shape.dim[0], ids->shape.dim[1], E, 0));
        else x = tp_gather(table, ids);
        x = between(f, x);
        f->tables = true;
    }
    const int64_t I = x->shape.dim[2], B = x->shape.dim[major ? 0 : 1];
    if (I > 64) return;
    state = variable(f, dims(2, B, H, 0, 0), -0.2f, 0.2f);
    tp_node *zero = chance(f, 50) ? tp_zeros_like(state) : tp_affine(state, 0.5f, 0);
    if (chance(f, 60)) {
        y = tp_nn_lstm(x, weights(f, dims(2, I + H, 4 * H, 0, 0), I + H),
                       variable(f, dims(1, 4 * H, 0, 0, 0), -0.1f, 0.1f), chance(f, 50) ? state : zero, zero, 1, major,
                       &h, &c);
        maybe_put(f, c);
    } else
        y = tp_nn_gru(x, weights(f, dims(2, I + H, 2 * H, 0, 0), I + H),
                      variable(f, dims(1, 2 * H, 0, 0, 0), -0.1f, 0.1f), weights(f, dims(2, I + H, H, 0, 0), I + H),
                      variable(f, dims(1, H, 0, 0, 0), -0.1f, 0.1f), chance(f, 50) ? state : zero, major, &h);
    if (chance(f, 80)) put(f, y);
    if (chance(f, 50)) put(f, h);
    if (chance(f, 40) && f->n_effect < (int)TP_COUNT(f->effect)) f->effect[f->n_effect++] = tp_assign(state, h, NULL);
}

static void grow_attention(garden *f)
{
    tp_node *x = pick(f, 3, NULL);
    if (!x || !tp_shape_size(&x->shape) || x->shape.dim[2] > 64) return;
    tp_node *q = tp_affine(x, 0.5f, 0), *k = x, *v = chance(f, 50) ? x : pick(f, 3, &x->shape);
    if (v) put(f, tp_nn_attention(q, k, v, x->shape.dim[2] % 2 ? 1 : 2, chance(f, 50)));
}

static void effect(garden *f, tp_node *n)
{
    if (grown(n) && f->n_effect < (int)TP_COUNT(f->effect)) f->effect[f->n_effect++] = n;
}

static void grow_state(garden *f)
{
    tp_node *x = pick(f, -1, NULL), *v, *y = NULL;
    tp_node *pred = chance(f, 25) ? f->pred : NULL;
    if (chance(f, 50) || !f->n_var) v = weights(f, x->shape, 4);
    else v = f->var[draw(f, (uint32_t)f->n_var)];
    if (!tp_shape_equal(&v->shape, &x->shape)) {
        x = pick(f, -1, &v->shape);
        if (!x) x = chance(f, 50) ? tp_affine(v, 0.9f, 0.01f) : tp_identity(v);
    }
    if (chance(f, 5)) x = v;
    switch (draw(f, 9)) {
    case 0: y = tp_assign_add(v, x, pred); break;
    case 1: y = tp_assign_sub(v, tp_affine(x, 0.1f, 0), pred); break;
    case 2: y = tp_assign_moving_average(v, x, 0.75f, pred); break;
    case 3: put(f, v); return;
    case 4: put(f, between(f, tp_identity(v))); return;
    case 5: put(f, tp_transpose(v, NULL, 0)); return;
    case 6:
        effect(f, tp_assign(f->token_var, chance(f, 50) ? f->tokens : tp_reverse(f->tokens, NULL, 0), pred));
        return;
    default: y = tp_assign(v, x, pred); break;
    }
    if (chance(f, 80)) effect(f, y);
    if (chance(f, 35)) put(f, y);
    else if (chance(f, 40)) put(f, tp_read_after(v, y));
    else if (chance(f, 30)) put(f, between(f, tp_with_dependencies(pick(f, -1, NULL), &y, 1)));
}

static void grow_gradient(garden *f)
{
    tp_node *y = pick(f, -1, NULL), *xs[8], *dx[8], *dy = NULL, *w[8], *dw[8];
    int n = 0, k = 0;
    if (tp_graph_n_operations(f->g) > MAX_OPS / 2) return;
    if (chance(f, 70)) y = tp_mean(chance(f, 50) ? tp_square(y) : y);
    else if (chance(f, 40)) {
        dy = pick(f, -1, &y->shape);
        if (chance(f, 50)) dy = weights(f, y->shape, 1);
    }
    for (int i = 0; i < 5; i++) {
        tp_node *x = f->n_var && chance(f, 75)
                         ? f->var[f->n_var - 1 - (int)draw(f, (uint32_t)(f->n_var < 8 ? f->n_var : 8))]
                         : pick(f, -1, NULL);
        bool twice = false;
        for (int j = 0; j < n; j++) twice = twice || xs[j] == x;
        if (!twice) xs[n++] = x;
    }
    tp_gradients_from(y, dy, xs, n, dx);
    tp_node *last[4];
    memset((void *)last, 0, sizeof last);
    for (int i = 0; i < n; i++) {
        if (!grown(dx[i])) continue;
        if (tp_node_variable(xs[i]) && tp_node_variable(xs[i])->device == f->device) {
            if (chance(f, 30)) dx[i] = tp_affine(dx[i], 0.5f, 0);
            if (chance(f, 30)) dx[i] = tp_add(dx[i], tp_affine(xs[i], 1e-2f, 0)); /* a regularizer's */
            w[k] = xs[i], dw[k++] = between(f, dx[i]);
            if (chance(f, 25)) put(f, dx[i]);
        } else put(f, dx[i]);
    }
    if (chance(f, 40)) put(f, y);
    if (k == 0 || chance(f, 10)) return;
    if (k == 1 && chance(f, 10) && f->n_var > 0) { /* the gradient is another variable */
        tp_node *v = f->var[draw(f, (uint32_t)f->n_var)];
        for (int i = 0; i < f->n_var && k < 2; i++)
            if (f->var[i] != w[0] && f->var[i] != v && tp_node_variable(f->var[i])->device == f->device &&
                tp_shape_equal(&f->var[i]->shape, &v->shape))
                w[k] = f->var[i], dw[k++] = v;
    }
    tp_node *pred = chance(f, 15) ? f->pred : NULL,
            *lr = chance(f, 50) ? tp_const(f->g, 0.02f) : variable(f, dims(0, 0, 0, 0, 0), 0.02f, 0.02f);
    tp_node *slot[3][8];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < k; j++) slot[i][j] = NULL;
    const int how = (int)draw(f, 12);
    const int slots = how < 4 ? 0 : how < 6 ? 1 : how < 8 ? 2 : how == 8 ? 3 : how == 9 ? 1 : 2;
    for (int i = 0; i < slots; i++)
        for (int j = 0; j < k; j++)
            slot[i][j] =
                variable(f, w[j]->shape, how == 9 || how == 11 ? 0.1f : 0.0f, how == 9 || how == 11 ? 0.1f : 0.0f);
    tp_node *b1 = NULL, *b2 = NULL;
    if (how == 6 || how == 7 || how == 10)
        b1 = variable(f, dims(0, 0, 0, 0, 0), 0.9f, 0.9f), b2 = variable(f, dims(0, 0, 0, 0, 0), 0.99f, 0.99f);
    switch (how) {
    case 4: effect(f, tp_apply_momentum(w, slot[0], dw, k, lr, 0.9f, false, pred)); break;
    case 5: effect(f, tp_apply_momentum(w, slot[0], dw, k, lr, 0.9f, true, pred)); break;
    case 6: effect(f, tp_apply_adam(w, slot[0], slot[1], dw, k, lr, b1, b2, 0.9f, 0.99f, 1e-3f, pred)); break;
    case 7: effect(f, tp_apply_adamw(w, slot[0], slot[1], dw, k, lr, b1, b2, 0.9f, 0.99f, 1e-3f, 0.01f, pred)); break;
    case 8:
        effect(f, tp_apply_rmsprop(w, slot[0], slot[1], chance(f, 50) ? slot[2] : NULL, dw, k, lr, 0.9f, 0.5f, 1e-3f,
                                   pred));
        break;
    case 9: effect(f, tp_apply_adagrad(w, slot[0], dw, k, lr, pred)); break;
    case 10: effect(f, tp_apply_lamb(w, slot[0], slot[1], dw, k, lr, b1, b2, 0.9f, 0.99f, 1e-3f, 0.01f, pred)); break;
    case 11: effect(f, tp_apply_ftrl(w, slot[0], slot[1], dw, k, lr, -0.5f, 0.001f, 0.01f, 0, pred)); break;
    default: effect(f, tp_apply_gradient_descent(w, dw, k, lr, pred)); break;
    }
    if (b1 && grown(b1) && f->n_effect > 0 && chance(f, 60)) {
        tp_node *done = f->effect[f->n_effect - 1];
        tp_node *next = tp_with_dependencies(tp_affine(b1, 0.9f, 0), &done, 1);
        if (chance(f, 90)) next = tp_affine(b1, 0.9f, 0);
        effect(f, tp_assign(b1, next, NULL));
    }
}

static void grow_odd(garden *f)
{
    tp_node *x = pick(f, -1, NULL), *y, *after[2];
    const int n = x->shape.ndim;
    switch (draw(f, 13)) {
    case 0: put(f, tp_nn_dropout(x, 0.4f)); break;
    case 1: put(f, tp_add(x, tp_rand_uniform_like(x, -0.1f, 0.1f))); break;
    case 2: put(f, tp_cast(tp_greater(x, tp_const(f->g, 0.1f)), TP_F32)); break;
    case 3:
        if (n > 0 && x->shape.dim[n - 1] >= 2) put(f, tp_top_k(x, 2, NULL));
        break;
    case 4:
        after[0] = pick(f, -1, NULL), after[1] = f->n_effect ? f->effect[draw(f, (uint32_t)f->n_effect)] : NULL;
        put(f, tp_with_dependencies(x, after, 2));
        break;
    case 5: put(f, tp_mul(tp_ones_like(x), tp_const(f->g, 0.25f))); break;
    case 6: { /* of constants alone */
        tp_tensor t;
        float values[12];
        for (int i = 0; i < 12; i++) values[i] = (float)i * 0.1f - 0.4f;
        tp_tensor_view(&t, TP_F32, dims(2, 3, 4, 0, 0), values);
        y = tp_constant(f->g, &t);
        put(f, y);
        put(f, tp_relu(y));
        put(f, tp_softmax(y));
        break;
    }
    case 7: {
        y = pick(f, -1, &x->shape);
        tp_node *sum = tp_add(x, y);
        put(f, tp_sub(sum, tp_sum_to_like(tp_broadcast_like(sum, x), y)));
        break;
    }
    case 8: { /* other types */
        y = tp_cast(tp_tanh(tp_cast(x, TP_F64)), TP_F32);
        put(f, chance(f, 50)
                   ? y
                   : tp_cast(tp_add(tp_cast(tp_affine(y, 9, 0), TP_I32), tp_const_as(f->g, TP_I32, 2)), TP_F32));
        break;
    }
    case 9:
        if (n > 0 && x->shape.dim[n - 1] > 0 && x->shape.dim[n - 1] < 20 && n < 4)
            put(f, tp_one_hot(tp_argmax(x, n - 1), x->shape.dim[n - 1], 0.5f, 0.1f));
        break;
    case 10: {
        tp_node *both[2], *sum[2];
        both[0] = x, both[1] = pick(f, -1, &x->shape);
        if (f->n_device > 1) tp_device_enter(f->g, 1);
        both[1] = tp_affine(both[1], 0.5f, 0.125f);
        if (f->n_device > 1) tp_device_leave(f->g);
        tp_all_reduce(both, 2, chance(f, 50), sum);
        put(f, sum[0]);
        if (chance(f, 60)) put(f, sum[1]);
        break;
    }
    default: {
        tp_node *m = matrix(f);
        tp_node *labels = m->shape.dim[0] == f->B ? f->labels : NULL;
        if (labels && m->shape.dim[1] >= f->classes) put(f, tp_sparse_softmax_cross_entropy(m, labels));
        else put(f, tp_sigmoid_cross_entropy(m, tp_sigmoid(tp_stop_gradient(m))));
    }
    }
}

static void grow_elementwise(garden *f)
{
    tp_node *x = pick(f, -1, NULL);
    for (int i = 0, n = 1 + (int)draw(f, 5); i < n; i++) {
        x = chance(f, 50) ? activation(f, x) : binary(f, x, partner(f, x));
        if (chance(f, 25)) put(f, x);
        if (chance(f, 15)) x = between(f, x);
    }
    put(f, x);
}

enum { N_KINDS = 26 };
static void grow(garden *f, const gene *q)
{
    f->seed = tp_test_mix(((uint64_t)q->seed << 8) + (uint64_t)q->kind);
    f->draws = 0;
    const bool second = f->n_device > 1 && chance(f, 40);
    f->device = second;
    if (second) tp_device_enter(f->g, 1);
    switch (q->kind % N_KINDS) {
    case 0:
    case 1:
    case 2:
    case 3: grow_conv_block(f); break;
    case 4: grow_bn_twice(f); break;
    case 5: put(f, conv(f, image(f), false)); break;
    case 6:
    case 7:
    case 8: grow_elementwise(f); break;
    case 9:
    case 10: grow_shape(f); break;
    case 11: grow_reduce(f); break;
    case 12:
    case 13: grow_dense(f); break;
    case 14: grow_pool(f); break;
    case 15: grow_sequence(f); break;
    case 16: grow_attention(f); break;
    case 17:
    case 18: grow_state(f); break;
    case 19: grow_odd(f); break;
    case 20: put(f, between(f, batch_norm(f, image(f)))); break;
    case 21: grow_transposed(f); break;
    default: grow_gradient(f); break;
    }
    if (second) tp_device_leave(f->g);
}

static void plant(garden *f, const genome *e, int n)
{
    static const int sides[] = {4, 6, 8, 5, 1, 9, 12, 16}; /* Winograd's loops begin at 256 pixels */
    static const int channels[] = {16, 16, 3, 8, 1, 32, 5};
    memset(f, 0, sizeof *f);
    f->head = e->head;
    f->seed = tp_test_mix(e->head);
    f->g = tp_graph_new(NULL);
    if (!f->g) return;
    f->n_device = chance(f, 15) ? 2 : 1;
    if (chance(f, 15)) f->precision = chance(f, 50) ? TP_PRECISION_BF16 : TP_PRECISION_F16;
    static const int batches[] = {17, 64, 130};
    const bool many = chance(f, 8); /* long sums, several chunks */
    f->B = many ? batches[draw(f, 3)] : 1 + (int64_t)draw(f, 3);
    f->T = 1 + draw(f, 6);
    f->classes = 5;
    const int64_t H = many ? 1 + (int64_t)draw(f, 4) : sides[draw(f, 8)];
    const int64_t W = many || chance(f, 70) ? H : sides[draw(f, 8)];
    const int64_t C = many ? 1 + (int64_t)draw(f, 6) : channels[draw(f, 7)];
    f->feed[0] = tp_placeholder(f->g, "image", TP_F32, dims(4, f->B, H, W, C));
    f->feed[1] = f->tokens = tp_placeholder(f->g, "tokens", TP_I32, dims(2, f->B, f->T, 0, 0));
    f->feed[2] = f->labels = tp_placeholder(f->g, "labels", TP_I32, dims(1, f->B, 0, 0, 0));
    f->feed[3] = f->pred = tp_placeholder(f->g, "pred", TP_BOOL, dims(0, 0, 0, 0, 0));
    f->feed[4] = tp_placeholder(f->g, "dense", TP_F32, dims(2, f->B, 1 + draw(f, 30), 0, 0));
    f->n_feed = 5;
    f->token_var = tp_get_variable_as(f->g, "token_var", TP_I32, dims(2, f->B, f->T, 0, 0), tp_init_zeros());
    put(f, f->feed[4]);
    put(f, f->feed[0]);
    for (int i = 0; i < n && tp_graph_n_operations(f->g) < MAX_OPS && tp_graph_status(f->g) == TP_OK; i++)
        grow(f, &e->gene[i]);
}

/* ==== >>running ======================================================================================= */

static char finding[4096]; /* the first difference, "" if none */
static bool find(const char *fmt, ...) TP_PRINTF(1, 2);
static bool find(const char *fmt, ...)
{
    va_list a;
    if (finding[0]) return false;
    va_start(a, fmt);
    vsnprintf(finding, sizeof finding, fmt, a);
    va_end(a);
    return false;
}

/* Two devices of so many threads. */
static tp_device **cpu(const char *isa, int threads)
{
    static struct {
        const char *isa;
        int threads;
        tp_device *d[2];
    } all[16];
    for (int i = 0; i < 16; i++) {
        if (all[i].d[0] && (strcmp(all[i].isa, isa) != 0 || all[i].threads != threads)) continue;
        for (int k = 0; k < 2 && !all[i].d[k]; k++) {
            all[i].isa = isa;
            all[i].threads = threads;
            all[i].d[k] = tp_cpu_device_new(threads, isa[0] ? isa : NULL);
        }
        return all[i].d[0] ? all[i].d : NULL;
    }
    return NULL;
}

/* What a run is fed with. */
static void fill(tp_tensor *t, const garden *f, uint64_t seed)
{
    const int64_t n = tp_tensor_size(t);
    const bool odd = tp_test_mix(f->head + 3u) % 12 == 0; /* a NaN and an infinity here and there */
    for (int64_t i = 0; i < n; i++) {
        const uint64_t h = tp_test_mix(seed * 1000003u + (uint64_t)i);
        const double x = (double)(h >> 11) / 9007199254740992.0;
        switch (t->dtype) {
        case TP_F32:
            ((float *)t->data)[i] = h % 16 == 0 ? 0.0f : (float)(2 * x - 1);
            if (odd && h % 61 == 1) ((float *)t->data)[i] = h % 3 ? NAN : -INFINITY;
            break;
        case TP_I32: ((int32_t *)t->data)[i] = (int32_t)(h % (uint64_t)f->classes); break;
        default: ((uint8_t *)t->data)[i] = h % 3 != 0; break;
        }
    }
}

/* What all ways of running a graph share: what is fed, and what is asked for. */
typedef struct order_form {
    tp_node *fed[12], *fetch[MAX_POOL + 128];
    int n_fed, n_fetch, n_effect; /* the effects come last */
    tp_tensor value[RUNS][12];
} order_form;

static void form_free(order_form *o)
{
    for (int r = 0; r < RUNS; r++)
        for (int i = 0; i < o->n_fed; i++) tp_tensor_free(&o->value[r][i]);
    free(o);
}
static int fed_at(const order_form *o, const tp_node *n)
{
    for (int i = 0; i < o->n_fed; i++)
        if (o->fed[i] == n) return i;
    return -1;
}
/* Which operations the fetches need: op id -> 1. What is fed does not run, unless for another output's sake. */
static void reach(const garden *f, const order_form *o, char *need)
{
    for (int i = 0; i < o->n_fetch + o->n_effect; i++)
        if (fed_at(o, o->fetch[i]) < 0) need[o->fetch[i]->op->id] = 1;
    for (int id = tp_graph_n_operations(f->g) - 1; id >= 0; id--) {
        const tp_operation *p = tp_graph_operation(f->g, id);
        if (!need[id]) continue;
        for (int i = 0; i < p->n_in; i++) {
            const bool shape = i < 32 && ((p->row->shape_only >> i) & 1u) && strcmp(p->row->name, "read_after") != 0;
            if (fed_at(o, p->in[i]) < 0 && !shape) need[p->in[i]->op->id] = 1;
        }
        for (int i = 0; i < p->n_ctrl; i++)
            if (p->ctrl[i]->n_out > 1 || fed_at(o, &p->ctrl[i]->out[0]) < 0) need[p->ctrl[i]->id] = 1;
    }
}
static order_form *form_new(garden *f)
{
    order_form *o = (order_form *)calloc(1, sizeof *o);
    if (!o) return NULL;
    f->seed = tp_test_mix(f->head + 17u);
    f->draws = 0;
    for (int i = 0; i < f->n_feed; i++) o->fed[o->n_fed++] = f->feed[i];
    if (chance(f, 25)) /* and values on the way */
        for (int i = 0; i < 2; i++) {
            tp_node *n = f->pool[draw(f, (uint32_t)f->n_pool)];
            if (chance(f, 40)) {
                tp_operation *p = tp_graph_operation(f->g, (int)draw(f, (uint32_t)tp_graph_n_operations(f->g)));
                n = &p->out[draw(f, (uint32_t)p->n_out)];
            }
            bool ok = !(n->op->row->flags & TP_OP_WRITES_VAR) && n->dtype == TP_F32 && tp_shape_known(&n->shape);
            for (int k = 0; k < o->n_fed; k++) ok = ok && o->fed[k] != n;
            if (ok) o->fed[o->n_fed++] = n;
        }
    for (int r = 0; r < RUNS; r++)
        for (int i = 0; i < o->n_fed; i++) {
            if (tp_tensor_resize(&o->value[r][i], o->fed[i]->dtype, o->fed[i]->shape) != TP_OK) break;
            fill(&o->value[r][i], f, tp_test_mix(f->head + (uint64_t)(r * 16 + i)));
        }
    const uint32_t share[] = {100, 50, 20, 6}, percent = share[draw(f, 4)];
    for (int i = 0; i < f->n_pool; i++)
        if (chance(f, percent) || i == f->n_pool - 1) o->fetch[o->n_fetch++] = f->pool[i];
    for (int i = 0; i < 3 && chance(f, 30); i++) { /* and from within */
        tp_operation *p = tp_graph_operation(f->g, (int)draw(f, (uint32_t)tp_graph_n_operations(f->g)));
        tp_node *n = &p->out[draw(f, (uint32_t)p->n_out)];
        if (!(p->row->flags & TP_OP_WRITES_VAR))
            o->fetch[o->n_fetch] = o->fetch[o->n_fetch - 1], o->fetch[o->n_fetch++ - 1] = n;
    }
    for (int i = 0; i < f->n_effect; i++) o->fetch[o->n_fetch + o->n_effect++] = f->effect[i];
    const int n = tp_graph_n_operations(f->g); /* who fetches little still wants whatever is written */
    char *need = (char *)calloc((size_t)n + 1, 1);
    if (!need) abort();
    reach(f, o, need);
    for (int id = 0; id < n; id++) {
        tp_operation *p = tp_graph_operation(f->g, id);
        bool there = !need[id] || !(p->row->flags & TP_OP_WRITES_VAR);
        for (int i = 0; i < o->n_effect; i++) there = there || o->fetch[o->n_fetch + i]->op == p;
        if (!there) o->fetch[o->n_fetch + o->n_effect++] = &p->out[0];
    }
    free(need);
    return o;
}

/* All values and variables of all runs. */
typedef struct harvest {
    tp_status status;
    tp_tensor value[RUNS][MAX_POOL + 128];
    tp_tensor var[MAX_VARS * 4];
    int n_value, n_var;
} harvest;
static void harvest_free(harvest *h)
{
    for (int r = 0; r < RUNS; r++)
        for (int i = 0; i < h->n_value; i++) tp_tensor_free(&h->value[r][i]);
    for (int i = 0; i < h->n_var; i++) tp_tensor_free(&h->var[i]);
    memset(h, 0, sizeof *h);
}

static tp_session_config config_of(const garden *f, tp_device **d, bool plain)
{
    tp_session_config c = tp_default_session_config();
    c.devices = d;
    c.n_devices = f ? f->n_device : 1;
    if (f) c.precision = f->precision;
    c.no_fusion = plain;
    return c;
}

/* The graph as a session runs it, asked for `n` of the fetches from `first` on; mixed: every other run for few of them. */
static void reap(garden *f, order_form *o, tp_device **d, bool plain, bool mixed, int first, int n, harvest *h)
{
    memset(h, 0, sizeof *h);
    tp_session_config c = config_of(f, d, plain);
    tp_session *s = tp_session_new(f->g, &c);
    h->status = s ? TP_OK : TP_ERR_STATE;
    const tp_tensor *got[MAX_POOL + 128];
    tp_feed feed[12];
    memset((void *)feed, 0, sizeof feed);
    h->n_value = n;
    for (int r = 0; r < RUNS && h->status == TP_OK; r++) {
        for (int i = 0; i < o->n_fed; i++) feed[i].node = o->fed[i], feed[i].value = o->value[r][i];
        const int skip = mixed && r % 2 == 0 ? o->n_fetch - 1 - first : 0;
        if (mixed) tp_exec_set_timing(tp_session_exec(s), r == 2);
        h->status = tp_session_run(s, feed, o->n_fed, o->fetch + first + skip, n - skip, got);
        for (int i = 0; i < n - skip && h->status == TP_OK; i++)
            h->status = tp_tensor_copy(&h->value[r][skip + i], got[i]);
    }
    h->n_var = tp_graph_n_variables(f->g);
    for (int i = 0; i < h->n_var && h->status == TP_OK; i++)
        h->status = tp_session_read(s, tp_graph_variable(f->g, i), &h->var[i]);
    tp_session_free(s);
}

/* -- op by op */

/* One op alone, its inputs fed; in double if its loop and types allow it. */
typedef struct alone {
    tp_graph *g;
    tp_session *s;
    tp_node *in[MAX_IN], *out;
    tp_variable *var[MAX_IN];
} alone;
static void alone_free(alone *a)
{
    tp_session_free(a->s);
    tp_graph_free(a->g);
    memset(a, 0, sizeof *a);
}
static bool alone_new(alone *a, const tp_operation *o, tp_device **d, uint64_t seed, bool f64)
{
    tp_graph_config gc;
    gc.seed = seed;
    a->g = tp_graph_new(&gc);
    if (!a->g) return false;
    char name[16];
    tp_node *vars[MAX_IN];
    for (int i = 0; i < o->n_in; i++) {
        snprintf(name, sizeof name, "x%d", i);
        const tp_dtype t = o->in[i]->dtype;
        a->in[i] = tp_placeholder(a->g, name, f64 && t == TP_F32 ? TP_F64 : t, o->in[i]->shape);
    }
    for (int i = 0; i < o->n_var; i++) {
        snprintf(name, sizeof name, "v%d", i);
        const tp_dtype t = o->var[i]->dtype;
        vars[i] = tp_get_variable_as(a->g, name, f64 && t == TP_F32 ? TP_F64 : t, o->var[i]->shape, tp_init_zeros());
        a->var[i] = tp_node_variable(vars[i]);
    }
    tp_apply_desc q;
    memset(&q, 0, sizeof q);
    q.row = o->row;
    q.in = a->in;
    q.n_in = o->n_in;
    q.attrs = o->attrs;
    q.vars = vars;
    q.n_var = o->n_var;
    q.stream = o->stream;
    a->out = tp_apply_ex(a->g, &q);
    if (tp_is_poison(a->out) || a->out->op->n_out != o->n_out) return false;
    tp_session_config c = config_of(NULL, d, true);
    a->s = tp_session_new(a->g, &c);
    return a->s != NULL;
}
/* Run it: in and var are float32 or as they are; out and var are overwritten. */
static tp_status alone_run(alone *a, const tp_operation *o, const tp_tensor *in, tp_tensor *out, tp_tensor *var,
                           int step)
{
    tp_feed feed[MAX_IN];
    tp_tensor wide[MAX_IN];
    tp_node *fetch[TP_MAX_OUTPUTS];
    const tp_tensor *got[TP_MAX_OUTPUTS];
    tp_status st = TP_OK;
    memset((void *)feed, 0, sizeof feed);
    memset((void *)wide, 0, sizeof wide);
    for (int i = 0; i < o->n_in && st == TP_OK; i++) {
        feed[i].node = a->in[i];
        feed[i].value = in[i];
        if (in[i].dtype == a->in[i]->dtype) continue;
        if ((st = tp_tensor_resize(&wide[i], a->in[i]->dtype, in[i].shape)) != TP_OK) break;
        tp_convert(wide[i].data, TP_F64, in[i].data, TP_F32, tp_tensor_size(&in[i]));
        feed[i].value = wide[i];
    }
    for (int i = 0; i < o->n_var && st == TP_OK; i++) st = tp_session_load(a->s, a->var[i], &var[i]);
    for (int i = 0; i < o->n_out; i++) fetch[i] = &a->out->op->out[i];
    if (st == TP_OK) {
        tp_exec_set_random_step(tp_session_exec(a->s), (uint64_t)step);
        st = tp_session_run(a->s, feed, o->n_in, fetch, o->n_out, got);
    }
    for (int i = 0; i < o->n_out && st == TP_OK; i++) st = tp_tensor_copy(&out[i], got[i]);
    for (int i = 0; i < o->n_var && st == TP_OK; i++) st = tp_session_read(a->s, a->var[i], &var[i]);
    for (int i = 0; i < o->n_in; i++) tp_tensor_free(&wide[i]);
    return st;
}

static double largest(const tp_tensor *t)
{
    double m = 0;
    for (int64_t i = 0, n = tp_tensor_size(t); i < n && tp_dtype_is_float(t->dtype); i++) {
        const double v = fabs(tp_tensor_get(t, i));
        if (isnan(v)) return INFINITY;
        if (v > m) m = v;
    }
    return m;
}

/* Is what an op gave in float near what its naive loop in double gives for the same inputs? How far inputs that are a little
 * off carry says how near that is. */
static void judge(const tp_operation *o, const tp_tensor *in, const tp_tensor *out, const tp_tensor *before,
                  const tp_tensor *after, int step)
{
    alone a;
    memset(&a, 0, sizeof a);
    tp_tensor exact[2][32], var[2][MAX_IN], off[MAX_IN];
    memset((void *)exact, 0, sizeof exact);
    memset((void *)var, 0, sizeof var);
    memset((void *)off, 0, sizeof off);
    bool ok = o->n_out <= 32 && alone_new(&a, o, cpu("naive", 1), 42, true);
    for (int i = 0; i < o->n_in; i++) ok = ok && largest(&in[i]) < 1e15;
    for (int k = 0; k < 2 && ok; k++) {
        for (int i = 0; i < o->n_var && ok; i++) {
            ok = tp_tensor_resize(&var[k][i], a.var[i]->dtype, before[i].shape) == TP_OK;
            if (!ok) break;
            if (before[i].dtype == a.var[i]->dtype) memcpy(var[k][i].data, before[i].data, tp_tensor_bytes(&before[i]));
            else tp_convert(var[k][i].data, TP_F64, before[i].data, TP_F32, tp_tensor_size(&before[i]));
        }
        for (int i = 0; i < o->n_in && ok && k; i++) {
            ok = tp_tensor_copy(&off[i], &in[i]) == TP_OK;
            for (int64_t j = 0, n = tp_tensor_size(&in[i]); j < n && ok && in[i].dtype == TP_F32; j++)
                ((float *)off[i].data)[j] *= tp_test_mix((uint64_t)j * 31u + (uint64_t)i) & 1 ? 1.000003f : 0.999997f;
        }
        for (int i = 0; i < o->n_var && ok && k; i++)
            for (int64_t j = 0, n = tp_tensor_size(&var[k][i]); j < n && var[k][i].dtype == TP_F64; j++)
                ((double *)var[k][i].data)[j] *= tp_test_mix((uint64_t)j * 37u + (uint64_t)i) & 1 ? 1.000003 : 0.999997;
        ok = ok && alone_run(&a, o, k ? off : in, exact[k], var[k], step) == TP_OK;
    }
    for (int i = 0; i < o->n_out + o->n_var && ok; i++) {
        const tp_tensor *y = i < o->n_out ? &out[i] : &after[i - o->n_out];
        const tp_tensor *x = i < o->n_out ? &exact[0][i] : &var[0][i - o->n_out],
                        *z = i < o->n_out ? &exact[1][i] : &var[1][i - o->n_out];
        if (x->dtype != TP_F64 || y->dtype != TP_F32) continue;
        double noise = 0;
        const int64_t n = tp_tensor_size(x);
        for (int64_t j = 0; j < n; j++) {
            const double d = fabs(tp_tensor_get(x, j) - tp_tensor_get(z, j));
            noise = tp_test_worse(noise, d);
        }
        const double most = largest(x), tol = 2e-5 * most + 200 * noise + 1e-30;
        for (int64_t j = 0; j < n && most < 1e30 && noise < 0.01 * most + 1e-6; j++)
            if (!isnan(tp_tensor_get(x, j)) && !(fabs(tp_tensor_get(x, j) - tp_tensor_get(y, j)) <= tol)) {
                char t[TP_SHAPE_TEXT];
                find("%s ('%s') %s %d %s [%lld] is %.9g, in double %.9g (largest %g, tolerance %g)", o->row->name,
                     o->name, i < o->n_out ? "output" : "variable", i < o->n_out ? i : i - o->n_out,
                     tp_shape_text(&x->shape, t), (long long)j, tp_tensor_get(y, j), tp_tensor_get(x, j), most, tol);
                break;
            }
    }
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 32; i++) tp_tensor_free(&exact[k][i]);
        for (int i = 0; i < MAX_IN; i++) tp_tensor_free(&var[k][i]);
    }
    for (int i = 0; i < MAX_IN; i++) tp_tensor_free(&off[i]);
    alone_free(&a);
}

/* All of it op by op, in the order in which it was made: a variable is its value at the start of a run, writers write in turn. */
static void by_hand(garden *f, order_form *o, tp_device **d, bool strict, harvest *h)
{
    memset(h, 0, sizeof *h);
    const int n_op = tp_graph_n_operations(f->g), n_fetch = o->n_fetch + o->n_effect;
    char *need = (char *)calloc((size_t)n_op + 1, 1);
    alone *one = (alone *)calloc((size_t)n_op + 1, sizeof *one);
    tp_tensor **value = (tp_tensor **)calloc((size_t)n_op + 1, sizeof *value);
    h->n_value = n_fetch;
    h->n_var = tp_graph_n_variables(f->g);
    if (!need || !one || !value) abort();
    reach(f, o, need);
    int at;
    for (int id = 0; id < n_op; id++) {
        const tp_operation *p = tp_graph_operation(f->g, id);
        value[id] = (tp_tensor *)calloc((size_t)p->n_out, sizeof **value);
        if (!value[id]) abort();
    }
    {
        tp_session_config c = config_of(f, d, true);
        tp_session *s = tp_session_new(f->g, &c);
        h->status = s ? TP_OK : TP_ERR_STATE;
        for (int i = 0; i < h->n_var && s; i++) tp_session_read(s, tp_graph_variable(f->g, i), &h->var[i]);
        tp_session_free(s);
    }
    for (int r = 0; r < RUNS && h->status == TP_OK; r++) {
        for (int id = 0; id < n_op; id++) {
            const tp_operation *p = tp_graph_operation(f->g, id);
            for (int i = 0; i < p->n_out; i++) tp_tensor_resize(&value[id][i], p->out[i].dtype, p->out[i].shape);
            if (!strcmp(p->row->name, "variable")) tp_tensor_copy(&value[id][0], &h->var[p->var[0]->id]);
            if (!strcmp(p->row->name, "constant") && tp_tensor_bytes(&value[id][0]))
                memcpy(value[id][0].data, p->user, tp_tensor_bytes(&value[id][0]));
        }
        for (int id = 0; id < n_op && h->status == TP_OK; id++) {
            const tp_operation *p = tp_graph_operation(f->g, id);
            tp_tensor in[MAX_IN], var[MAX_IN], before[MAX_IN];
            memset((void *)before, 0, sizeof before);
            if (need[id] && !strcmp(p->row->name, "read_after")) tp_tensor_copy(&value[id][0], &h->var[p->var[0]->id]);
            else if (need[id] && !(p->row->flags & TP_OP_SOURCE) && strcmp(p->row->name, "group") != 0 &&
                     p->n_in + p->n_var < MAX_IN) {
                for (int i = 0; i < p->n_in; i++) in[i] = value[p->in[i]->op->id][p->in[i]->index];
                for (int i = 0; i < p->n_var; i++) {
                    var[i] = h->var[p->var[i]->id];
                    if (strict) tp_tensor_copy(&before[i], &var[i]);
                }
                if (!one[id].s && !alone_new(&one[id], p, d, tp_graph_seed(f->g), false)) {
                    find("%s alone: %s %s", p->name, one[id].g ? tp_graph_error(one[id].g) : "", tp_last_error());
                    h->status = TP_ERR_STATE;
                } else if ((h->status = alone_run(&one[id], p, in, value[id], var, r)) != TP_OK)
                    find("%s alone: %s", p->name, tp_last_error());
                for (int i = 0; i < p->n_var; i++) h->var[p->var[i]->id] = var[i];
                if (strict && h->status == TP_OK && r < 2) judge(p, in, value[id], before, var, r);
                for (int i = 0; i < p->n_var; i++) tp_tensor_free(&before[i]);
            }
            for (int i = 0; i < p->n_out; i++) {
                at = fed_at(o, &p->out[i]);
                if (at >= 0) tp_tensor_copy(&value[id][i], &o->value[r][at]);
            }
        }
        for (int i = 0; i < n_fetch; i++)
            tp_tensor_copy(&h->value[r][i], &value[o->fetch[i]->op->id][o->fetch[i]->index]);
    }
    for (int id = 0; id < n_op; id++) {
        for (int i = 0; i < tp_graph_operation(f->g, id)->n_out; i++) tp_tensor_free(&value[id][i]);
        free(value[id]);
        alone_free(&one[id]);
    }
    free(need);
    free(one);
    free((void *)value);
}

/* ==== >>comparing ===================================================================================== */

static int64_t difference(const tp_tensor *a, const tp_tensor *b, double loose)
{
    const int64_t n = tp_tensor_size(a);
    if (a->dtype != b->dtype || !tp_shape_equal(&a->shape, &b->shape)) return 0;
    if (!tp_tensor_bytes(a) || !memcmp(a->data, b->data, tp_tensor_bytes(a))) return -1;
    if (!tp_dtype_is_float(a->dtype)) return loose > 0 ? -1 : 0;
    const double most = loose * largest(b);
    for (int64_t i = 0; i < n; i++) {
        const double x = tp_tensor_get(a, i), y = tp_tensor_get(b, i);
        if (x == y && (signbit(x) != 0) == (signbit(y) != 0)) continue;
        if (isnan(x) && isnan(y)) continue;
        if (loose > 0 && (!(fabs(x) < 1e15) || !(fabs(y) < 1e15) || fabs(x - y) <= most + 1e-6)) continue;
        return i;
    }
    return -1;
}

static bool same(const garden *f, const order_form *o, const harvest *a, int first_a, const harvest *b, int first_b,
                 int n, double loose, const char *what)
{
    char t[TP_SHAPE_TEXT];
    if (a->status != b->status)
        return find("%s: one ends with %s, the other with %s (%s)", what, tp_status_name(a->status),
                    tp_status_name(b->status), tp_last_error());
    if (a->status != TP_OK) return true;
    for (int r = 0; r < RUNS; r++)
        for (int i = 0; i < n; i++) {
            const tp_tensor *x = &a->value[r][first_a + i], *y = &b->value[r][first_b + i];
            const tp_node *node = o->fetch[first_a + i];
            const int64_t at = y->dtype ? difference(x, y, loose) : -1;
            if (at >= 0)
                return find("%s: run %d, '%s:%d' (%s, id %d) %s [%lld]: %.9g and %.9g", what, r, node->op->name,
                            node->index, node->op->row->name, node->op->id, tp_shape_text(&x->shape, t), (long long)at,
                            tp_tensor_get(x, at), tp_tensor_get(y, at));
        }
    for (int i = 0; i < a->n_var; i++) {
        const int64_t at = difference(&a->var[i], &b->var[i], loose);
        if (at >= 0)
            return find("%s: variable '%s' %s [%lld]: %.9g and %.9g", what, tp_graph_variable(f->g, i)->name,
                        tp_shape_text(&a->var[i].shape, t), (long long)at, tp_tensor_get(&a->var[i], at),
                        tp_tensor_get(&b->var[i], at));
    }
    return true;
}

static long n_invalid, n_refused, n_compared, n_ops;
static bool with_allocs; /* let allocations fail, too */

static const char *isa_of(uint32_t head)
{
    static const char *const names[] = {"", "", "avx2", "sse2", "", "avx2", "", "naive"};
    const char *s = names[(head >> 4) % 8];
    return cpu(s, 1) ? s : "";
}

/* An allocation fails while the graph is made, or while it is planned and run: nothing is lost but that run. */
static void starve(const genome *e, int n_gene, const harvest *good)
{
    const char *isa = isa_of(e->head);
    tp_device **d = cpu(isa, 1);
    long total = 0;
    for (int round = 0; round < 7 && !finding[0]; round++) {
        const bool building = round == 1 || round == 2;
        const long k =
            round == 0 ? 0
                       : 1 + (long)(tp_test_mix(e->head + (uint64_t)round * 5u) % (uint64_t)(total > 0 ? total : 1));
        garden *f = (garden *)calloc(1, sizeof *f);
        if (!f) return;
        harvest h;
        memset(&h, 0, sizeof h);
        if (!building) plant(f, e, n_gene);
        order_form *o = building ? NULL : form_new(f);
        if (!building && !o) abort();
        tp_test_fail_after(building ? 1 + k / 4 : k);
        if (building) {
            plant(f, e, n_gene);
            if (f->g && tp_graph_status(f->g) != TP_OK && !tp_test_alloc_failed())
                find("a graph that fails: %s", tp_graph_error(f->g));
            if (f->g && tp_graph_status(f->g) != TP_OK && !tp_graph_error(f->g)[0])
                find("a graph that fails without a sentence");
            tp_graph_free(f->g);
        } else {
            tp_session_config c = config_of(f, d, false);
            tp_session *s = tp_session_new(f->g, &c);
            if (!s && !tp_test_alloc_failed()) find("no session: %s", tp_last_error());
            if (!s) s = tp_session_new(f->g, &c);
            const tp_tensor *got[MAX_POOL + 128];
            tp_feed feed[12];
            memset((void *)feed, 0, sizeof feed);
            h.n_value = o->n_fetch + o->n_effect;
            h.status = s ? TP_OK : TP_ERR_NOMEM;
            for (int r = 0; r < RUNS && h.status == TP_OK; r++) {
                for (int i = 0; i < o->n_fed; i++) feed[i].node = o->fed[i], feed[i].value = o->value[r][i];
                h.status = tp_session_run(s, feed, o->n_fed, o->fetch, h.n_value, got);
                if (h.status == TP_ERR_NOMEM && tp_test_alloc_failed()) {
                    if (!tp_last_error()[0]) find("out of memory without a sentence");
                    h.status = tp_session_run(s, feed, o->n_fed, o->fetch, h.n_value, got);
                }
                if (h.status != TP_OK)
                    find("after allocation %ld of %ld failed: %s: %s", k, total, tp_status_name(h.status),
                         tp_last_error());
                for (int i = 0; i < h.n_value && h.status == TP_OK; i++) {
                    const tp_status st = tp_tensor_copy(&h.value[r][i], got[i]);
                    if (st != TP_OK) h.status = tp_tensor_copy(&h.value[r][i], got[i]);
                }
            }
            h.n_var = tp_graph_n_variables(f->g);
            for (int i = 0; i < h.n_var && h.status == TP_OK; i++) {
                h.status = tp_session_read(s, tp_graph_variable(f->g, i), &h.var[i]);
                if (h.status != TP_OK) h.status = tp_session_read(s, tp_graph_variable(f->g, i), &h.var[i]);
            }
            if (round == 0) total = tp_test_alloc_count();
            else same(f, o, &h, 0, good, 0, h.n_value, 0, "after an allocation failed");
            tp_session_free(s);
            harvest_free(&h);
        }
        if (tp_test_live_blocks() != 0 && !finding[0])
            find("%ld blocks are left after allocation %ld of %ld failed (%s)", tp_test_live_blocks(), k, total,
                 building ? "building" : "running");
        tp_test_alloc_reset();
        if (!building) {
            form_free(o);
            tp_graph_free(f->g);
        }
        free(f);
    }
}

/* Everything about one graph; false and a finding after a difference. */
static bool examine(const genome *e, int n_gene)
{
    garden *f = (garden *)calloc(1, sizeof *f);
    harvest *h = (harvest *)calloc(3, sizeof *h);
    if (!f || !h) abort();
    finding[0] = 0;
    plant(f, e, n_gene);
    if (!f->g || tp_graph_status(f->g) != TP_OK) {
        n_invalid++;
        if (getenv("FUZZ_SHOW")) fprintf(stderr, "invalid: %s\n", f->g ? tp_graph_error(f->g) : "no graph");
    } else {
        order_form *o = form_new(f);
        const char *isa = isa_of(e->head);
        tp_device **d = cpu(isa, 1);
        const int n = o->n_fetch + o->n_effect;
        reap(f, o, d, false, false, 0, n, &h[0]);
        n_ops += tp_graph_n_operations(f->g);
        if (h[0].status == TP_ERR_STATE) {
            n_refused++;
            if (getenv("FUZZ_SHOW")) fprintf(stderr, "refused: %s\n", tp_last_error());
        } else if (h[0].status != TP_OK) find("the run ends with %s: %s", tp_status_name(h[0].status), tp_last_error());
        else {
            n_compared++;
            reap(f, o, d, true, false, 0, n, &h[1]);
            same(f, o, &h[0], 0, &h[1], 0, n, 0, "fused and op by op in a plan");
            harvest_free(&h[1]);
            if (!finding[0]) {
                reap(f, o, cpu(isa, 3), false, false, 0, n, &h[1]);
                same(f, o, &h[0], 0, &h[1], 0, n, 0, "one and three threads");
                harvest_free(&h[1]);
            }
            if (!finding[0]) {
                const int from = o->n_fetch - 1, k = o->n_effect + 1;
                reap(f, o, d, false, false, from, k, &h[1]);
                same(f, o, &h[0], from, &h[1], 0, k, 0, "everything fetched and little");
                harvest_free(&h[1]);
            }
            if (!finding[0] && e->head % 4 == 1) {
                reap(f, o, d, false, true, 0, n, &h[1]);
                same(f, o, &h[0], 0, &h[1], 0, n, 0, "everything fetched and now and then little");
                harvest_free(&h[1]);
            }
            if (!finding[0] && f->precision == TP_PRECISION_F32) {
                by_hand(f, o, d, e->head % 4 == 0, &h[1]);
                if (!finding[0]) same(f, o, &h[0], 0, &h[1], 0, n, f->tables ? 5e-3 : 0, "planned and by hand");
                harvest_free(&h[1]);
            }
            if (!finding[0] && with_allocs) starve(e, n_gene, &h[0]);
        }
        harvest_free(&h[0]);
        form_free(o);
    }
    tp_graph_free(f->g);
    free(f);
    free(h);
    return !finding[0];
}

/* What is left of a failing graph when no gene can go. */
static void shrink(genome *e)
{
    for (bool smaller = true; smaller;) {
        smaller = false;
        for (int i = e->n - 1; i >= 0; i--) {
            genome less = *e;
            memmove(&less.gene[i], &less.gene[i + 1], (size_t)(less.n - i - 1) * sizeof less.gene[0]);
            less.n--;
            if (examine(&less, less.n)) continue;
            *e = less;
            smaller = true;
        }
    }
    examine(e, e->n);
}

static void describe(const genome *e)
{
    garden *f = (garden *)calloc(1, sizeof *f);
    char t[TP_SHAPE_TEXT];
    if (!f) return;
    plant(f, e, e->n);
    order_form *o = form_new(f);
    printf("  %s%s%s; genes:", isa_of(e->head)[0] ? isa_of(e->head) : "best instructions",
           f->n_device > 1 ? ", two devices" : "",
           f->precision == TP_PRECISION_BF16  ? ", bf16"
           : f->precision == TP_PRECISION_F16 ? ", f16"
                                              : "");
    for (int i = 0; i < e->n; i++) printf(" %d:%u", e->gene[i].kind, e->gene[i].seed);
    printf("\n");
    for (int id = 0; id < tp_graph_n_operations(f->g); id++) {
        const tp_operation *p = tp_graph_operation(f->g, id);
        printf("  %3d %-22s(", id, p->row->name);
        for (int i = 0; i < p->n_in; i++)
            printf("%s%d%s%.0d", i ? ", " : "", p->in[i]->op->id, p->in[i]->index ? ":" : "", p->in[i]->index);
        printf(")%s", p->device ? " on 1" : "");
        for (int i = 0; i < p->n_ctrl; i++) printf(" after %d", p->ctrl[i]->id);
        for (int i = 0; i < p->n_var && !(p->row->flags & TP_OP_SOURCE); i++)
            printf(" var %d", p->var[i]->node->op->id);
        printf(" %s", tp_shape_text(&p->out[0].shape, t));
        for (int k = 0; k < p->n_out; k++) {
            for (int i = 0; i < o->n_fetch + o->n_effect; i++)
                if (o->fetch[i] == &p->out[k]) printf(" fetched:%d", k);
            for (int i = 0; i < o->n_fed; i++)
                if (o->fed[i] == &p->out[k]) printf(" fed:%d", k);
        }
        printf("\n");
    }
    form_free(o);
    tp_graph_free(f->g);
    free(f);
}

static genome genome_of_seed(uint64_t seed)
{
    genome e;
    memset(&e, 0, sizeof e);
    e.head = (uint32_t)tp_test_mix(seed);
    e.n = 1 + (int)(tp_test_mix(seed + 7) % 14);
    for (int i = 0; i < e.n; i++) {
        e.gene[i].kind = (int)(tp_test_mix(seed * 64 + (uint64_t)i) % N_KINDS);
        e.gene[i].seed = (uint32_t)tp_test_mix(seed * 64 + (uint64_t)i + 1000003u);
    }
    return e;
}

static bool try_seed(uint64_t seed)
{
    genome e = genome_of_seed(seed);
    if (examine(&e, e.n)) return true;
    printf("seed %llu: %s\n", (unsigned long long)seed, finding);
    fflush(stdout);
    if (getenv("FUZZ_UNSHRUNK")) return false;
    shrink(&e);
    printf("shrunk: %s\n", finding);
    describe(&e);
    fflush(stdout);
    return false;
}

#ifdef FUZZ_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    genome e;
    memset(&e, 0, sizeof e);
    tp_set_log(tp_test_drop_log, NULL);
    if (size < 4) return 0;
    memcpy(&e.head, data, 4);
    for (size_t i = 4; i + 3 <= size && e.n < 20; i += 3, e.n++) {
        e.gene[e.n].kind = data[i];
        e.gene[e.n].seed = (uint32_t)data[i + 1] << 8 | data[i + 2];
    }
    if (examine(&e, e.n)) return 0;
    fprintf(stderr, "%s\n", finding);
    describe(&e);
    abort();
}
#else
TEST(random_graphs_are_planned_without_changing_a_bit)
{
    const int n = getenv("TP_TEST_QUICK") ? 150 : 1000;
    tp_set_log(tp_test_drop_log, NULL);
    for (int seed = 1; seed <= n; seed++) {
        with_allocs = seed % 32 == 0;
        CHECK_MSG(try_seed((uint64_t)seed), "seed %d", seed);
    }
    static const uint64_t once_wrong[] = {306159}; /* two results of a step laid over one operand */
    for (int i = 0; i < TP_COUNT(once_wrong); i++)
        CHECK_MSG(try_seed(once_wrong[i]), "seed %llu", (unsigned long long)once_wrong[i]);
    CHECK_MSG(n_compared > n / 2, "only %ld of %d graphs were compared", n_compared, n);
    tp_set_log(NULL, NULL);
}

int main(int argc, char **argv)
{
    if (argc < 2 || argv[1][0] < '0' || argv[1][0] > '9') return tp_test__main(argc, argv);
    const uint64_t n = strtoull(argv[1], NULL, 10), first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    int bad = 0;
    with_allocs = argc > 3;
    setvbuf(stdout, NULL, _IOLBF, 0);
    tp_set_log(tp_test_drop_log, NULL);
    for (uint64_t s = first; s < first + n && bad < (getenv("FUZZ_UNSHRUNK") ? 1 : 12); s++) bad += !try_seed(s);
    printf("%ld graphs compared (%ld ops), %ld refused, %ld invalid, %d with findings\n", n_compared, n_ops, n_refused,
           n_invalid, bad);
    return bad != 0;
}
#endif
