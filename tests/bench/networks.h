/* networks.h - random networks, drawn from a seed; for sweep.c, which measures them, and test_choices.c, which plans them
 *
 * A seed draws one of three kinds of network: pictures (plain, odd, grouped, depthwise, dilated and transposed convolutions, norms,
 * activations, residual blocks, concatenation), dense layers from 4 to 1024 wide, sequences (embedding, LSTM, GRU, attention). With
 * training it draws SGD, Momentum or Adam too. Set `seed`, then call draw(). Needs tp_layers.h and tp_optim.h. */
#ifndef NETWORKS_H
#define NETWORKS_H
#include <stdarg.h>
#include <stdlib.h>

#define MAX_VARS 200

static uint64_t seed, drawn;
static int named; /* number of names given to layers */
static int pick(int n) { return (int)(tp_random_u32(seed, 0, drawn++) % (uint32_t)n); }
#define ONE_OF(...) one_of((const int[]){__VA_ARGS__}, (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))
static int one_of(const int *from, int n) { return from[pick(n)]; }

static char net[8000]; /* the network in Python */
TP_PRINTF(1, 2) static void python(const char *format, ...)
{
    const size_t at = strlen(net);
    va_list args;
    va_start(args, format);
    if (at) snprintf(net + at, sizeof net - at, "; ");
    vsnprintf(net + strlen(net), sizeof net - strlen(net), format, args);
    va_end(args);
}
/* A name for the next layer. */
static const char *name(const char *kind)
{
    static char buf[64];
    snprintf(buf, sizeof buf, "%s%d", kind, named++);
    return buf;
}

static tp_node *leaky(tp_node *x) { return tp_leaky_relu(x, 0.1f); }
static tp_node *mish(tp_node *x) { return tp_mul(x, tp_tanh(tp_softplus(x))); }
static const struct {
    const char *python;
    tp_node *(*make)(tp_node *x);
} activations[] = {{"relu", tp_relu},       {"leaky", leaky},
                   {"elu", tp_elu},         {"gelu", tp_gelu},
                   {"silu", tp_silu},       {"tanh", tp_tanh},
                   {"sigmoid", tp_sigmoid}, {"softplus", tp_softplus},
                   {"selu", tp_selu},       {"gelu_tanh", tp_gelu_tanh},
                   {"relu6", tp_relu6},     {"hard_swish", tp_hard_swish},
                   {"mish", mish}};
static tp_node *activation(tp_node *x)
{
    const int k = pick(TP_COUNT(activations) + 3);
    const int64_t C = x->shape.dim[x->shape.ndim - 1];
    if (k < TP_COUNT(activations)) return python("x = %s(x)", activations[k].python), activations[k].make(x);
    if (k == TP_COUNT(activations)) {
        const char *id = name("prelu");
        return python("x = prelu(x, '%s')", id), tp_prelu(x, id, .init = 0.25f);
    }
    if (k == TP_COUNT(activations) + 1 && C % 2 == 0 && C >= 8)
        return python("x = maxout(x, 2)"), tp_maxout(x, name("maxout"), .num_unit = 2);
    return x;
}
static tp_node *norm(tp_node *x)
{
    const int k = pick(6);
    const char *id = name("norm");
    if (k == 0) return python("x = instance_norm(x, '%s')", id), tp_instance_norm(x, id);
    if (k == 1) return python("x = group_norm(x, '%s', 1)", id), tp_layer_norm(x, id);
    if (k == 2 && x->shape.dim[3] % 4 == 0)
        return python("x = group_norm(x, '%s', 4)", id), tp_group_norm(x, id, .groups = 4);
    if (k == 3) return x;
    return python("x = batch_norm(x, '%s')", id), tp_batch_norm(x, id);
}
static tp_node *convolution(tp_node *x)
{
    const int in = (int)x->shape.dim[3], out = ONE_OF(8, 16, 24, 32, 40, 64, 72, 96, 128), k = ONE_OF(1, 3, 3, 3, 5, 7);
    const int stride = x->shape.dim[1] > 8 && pick(3) == 0 ? 2 : 1;
    const char *id = name("conv");
    switch (pick(6)) {
    case 0:
        python("x = depthwise(x, '%s', stride=%d)", id, stride);
        x = activation(norm(tp_depthwise_conv2d(x, id, .kernel_size = k, .strides = stride)));
        id = name("conv");
        python("x = conv2d(x, '%s')", id);
        return tp_conv2d(x, id, .filters = out, .kernel_size = 1);
    case 1:
        if (in % 4 == 0) {
            python("x = conv2d(x, '%s', stride=%d, groups=4)", id, stride);
            return tp_conv2d(x, id, .filters = out, .kernel_size = k, .strides = stride, .split = 4);
        } /* fall through */
    case 2:
        if (k > 1) {
            python("x = conv2d(x, '%s', dilation=2)", id);
            return tp_conv2d(x, id, .filters = out, .kernel_size = k, .dilation_rate = 2);
        } /* fall through */
    case 3:
        if (x->shape.dim[1] <= 16) {
            python("x = transposed(x, '%s')", id);
            return tp_conv2d_transpose(x, id, .filters = out, .kernel_size = 3, .strides = 2);
        } /* fall through */
    default:
        python("x = conv2d(x, '%s', stride=%d)", id, stride);
        return tp_conv2d(x, id, .filters = out, .kernel_size = k, .strides = stride);
    }
}
static tp_node *output(tp_node *x, int units)
{
    return python("x = dense(x, 'out')"), tp_fully_connected(x, "out", .units = units);
}
static tp_node *pictures(tp_graph *g, int batch, tp_node **in)
{
    const int side = ONE_OF(16, 24, 28, 32, 56), depth = 2 + pick(5);
    while (batch > 1 && batch * side * side > 1 << 16) batch /= 2;
    tp_node *x = *in = tp_placeholder(g, "x", TP_F32, tp_make_shape(batch, side, side, ONE_OF(1, 3, 3, 16)));
    for (int i = 0; i < depth; i++) {
        tp_node *before = x;
        python("before = x");
        x = activation(norm(convolution(x)));
        if (tp_shape_equal(&x->shape, &before->shape)) python("x = x + before"), x = tp_add(x, before);
        else if (x->shape.dim[1] == before->shape.dim[1] && pick(2) == 0)
            python("x = concat(x, before)"), x = tp_concat_along(3, x, before);
        if (x->shape.dim[1] >= 8 && pick(4) == 0) {
            if (pick(2)) python("x = max_pool(x, 2)"), x = tp_max_pooling(x, name("max"), .pool_size = 2);
            else python("x = avg_pool(x, 2)"), x = tp_avg_pooling(x, name("avg"), .pool_size = 2);
        }
    }
    python("x = global_avg_pool(x)");
    return output(tp_global_avg_pooling(x, "gap"), 10);
}
static tp_node *dense(tp_graph *g, int batch, tp_node **in)
{
    const int depth = 1 + pick(6);
    tp_node *x = *in = tp_placeholder(g, "x", TP_F32, tp_make_shape(batch, ONE_OF(4, 13, 64, 100, 784)));
    for (int i = 0; i < depth; i++) {
        const int units = ONE_OF(4, 10, 32, 50, 100, 128, 256, 300, 512, 1024);
        const char *id = name("fc");
        python("x = dense(x, '%s')", id);
        x = activation(tp_fully_connected(x, id, .units = units));
    }
    return output(x, ONE_OF(1, 3, 10));
}
static tp_node *sequence(tp_graph *g, int batch, tp_node **in)
{
    const int T = ONE_OF(8, 16, 35, 64), C = ONE_OF(16, 32, 64, 128), depth = 1 + pick(2);
    tp_node *x;
    if (pick(2)) {
        x = *in = tp_placeholder(g, "x", TP_I32, tp_make_shape(batch, T));
        python("x = embedding(x, 'embedding')");
        x = tp_embedding(x, "embedding", .vocab = 1000, .units = C);
    } else x = *in = tp_placeholder(g, "x", TP_F32, tp_make_shape(batch, T, C));
    for (int i = 0; i < depth; i++) {
        const int units = ONE_OF(16, 32, 64, 100, 128, 256), kind = pick(3);
        const char *id = name("sequence");
        python("x = %s(x, '%s')", kind == 0 ? "lstm" : kind == 1 ? "gru" : "attention", id);
        if (kind == 0) x = tp_lstm(x, id, .units = units);
        else if (kind == 1) x = tp_gru(x, id, .units = units);
        else x = tp_multi_head_attention(x, id, .heads = 4, .units = (int)x->shape.dim[2] / 4 * 4);
    }
    return output(x, 10);
}

typedef struct drawing {
    tp_graph *g;
    tp_node *x, *y, *label; /* label is fed only where the cost needs it */
    tp_session *s;
    tp_feed feed[2];
    /* training */
    const char *optimizer;
    tp_node *rate, *fetch[2], *after[1 + MAX_VARS]; /* learning rate; step and cost; cost and gradients */
    tp_grad_var pair[MAX_VARS];
    int n_vars;
} drawing;

/* Draws the network of `seed`; batch 0: as drawn, 1 to 256. Returns its cost. */
static tp_node *draw(drawing *d, int batch, bool training)
{
    tp_tower_desc tower;
    memset(&tower, 0, sizeof tower);
    tower.is_training = training;
    net[0] = 0;
    drawn = 0, named = 0;
    d->g = tp_graph_new(NULL);
    tp_tower_enter(d->g, &tower);
    const int kind = pick(4), size = ONE_OF(1, 2, 4, 8, 16, 32, 64, 128, 256);
    if (batch == 0) batch = size;
    d->y = kind < 2    ? pictures(d->g, batch, &d->x)
           : kind == 2 ? dense(d->g, batch, &d->x)
                       : sequence(d->g, batch, &d->x);
    d->label = tp_placeholder(d->g, "label", TP_I32, tp_make_shape(d->x->shape.dim[0]));
    tp_node *cost = d->y->shape.dim[1] == 1 ? tp_mean(tp_square(tp_affine(d->y, 1, -1)))
                                            : tp_mean(tp_sparse_softmax_cross_entropy(d->y, d->label));
    tp_tower_leave(d->g);
    return cost;
}

/* The step: the update of the variables and of the running statistics; and the cost with all gradients. */
static void add_training(drawing *d, tp_node *cost)
{
    static const char *const names[] = {"SGD", "Momentum", "Adam"};
    const int k = pick(3);
    tp_node *vars[MAX_VARS], *step[1 + MAX_VARS];
    int n = 0, n_updates = 0;
    tp_node *const *all = tp_collection(d->g, TP_KEY_TRAINABLE_VARIABLES, &n);
    tp_node *const *updates = tp_collection(d->g, TP_KEY_UPDATE_OPS, &n_updates);
    if (n > MAX_VARS || n_updates > MAX_VARS) abort();
    d->n_vars = n;
    d->optimizer = names[k];
    d->rate = tp_get_scalar_variable(d->g, "learning_rate", k == 2 ? 1e-3f : 1e-2f);
    memcpy(vars, all, (size_t)n * sizeof *vars);
    if (n_updates) memcpy(step + 1, updates, (size_t)n_updates * sizeof *step);
    tp_optimizer *o = k == 0 ? tp_sgd(d->rate) : k == 1 ? tp_momentum(d->rate) : tp_adam(d->rate, .epsilon = 1e-15f);
    tp_optimizer_compute_gradients(o, cost, vars, n, d->pair);
    step[0] = tp_apply_gradients(o, d->pair, n);
    d->fetch[0] = tp_group(d->g, step, 1 + n_updates, "train_op");
    d->fetch[1] = d->after[0] = cost;
    for (int i = 0; i < n; i++) d->after[1 + i] = d->pair[i].grad;
}

static tp_status make_feeds(drawing *d)
{
    tp_tensor *x = &d->feed[0].value, *label = &d->feed[1].value;
    const int classes = (int)d->y->shape.dim[1];
    d->feed[0].node = d->x;
    d->feed[1].node = d->label;
    tp_status st = tp_tensor_resize(x, d->x->dtype, d->x->shape);
    if (st == TP_OK) st = tp_tensor_resize(label, TP_I32, d->label->shape);
    for (int64_t i = 0; st == TP_OK && i < tp_tensor_size(x); i++)
        tp_tensor_set(x, i,
                      x->dtype == TP_F32 ? (double)tp_random_normal(seed, 1, (uint64_t)i)
                                         : tp_random_u32(seed, 1, (uint64_t)i) % 1000);
    for (int64_t i = 0; st == TP_OK && i < tp_tensor_size(label); i++)
        tp_tensor_set(label, i, tp_random_u32(seed, 2, (uint64_t)i) % (uint32_t)classes);
    return st;
}
#endif
