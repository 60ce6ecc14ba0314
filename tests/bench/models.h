/* models.h - the networks that bench.c measures, with the cost, the gradients and the optimizer of a training step. The same
 * ones are in PyTorch's peers; tests/bench/torch_nets.py has those of ddp.py and torch_gpu.py. */
#ifndef MODELS_H
#define MODELS_H

typedef struct model {
    tp_graph *g;
    tp_node *x, *label;   /* placeholders; with `resident` variables */
    tp_node *fetch[2];    /* training: the step and its cost; inference: the logits */
    tp_node *update[160]; /* what a step does */
    int n_fetch, n_update;
    tp_shape x_shape;
    int x_classes;   /* x is int32 below this; 0: float32 in [0,1), or bytes if x is uint8 */
    int64_t n_label; /* 0: one an element of x's first dimension */
    double flops;    /* of the multiplications and additions of one step, counted by layer */
} model;
#define MAX_VARS 200

/* All updates as one node, as a trainer runs them, and the cost. */
static void train_step(model *m, tp_node *cost)
{
    m->fetch[m->n_fetch++] = tp_group(m->g, m->update, m->n_update, "train_op");
    m->fetch[m->n_fetch++] = cost;
}

static tp_node *dense(tp_node *x, const char *name, int64_t in, int64_t out, bool relu, tp_node **w_out)
{
    tp_graph *g = tp_node_graph(x);
    tp_variable_scope_desc d;
    memset(&d, 0, sizeof d);
    d.name = name;
    tp_variable_scope_push(g, &d);
    tp_node *w = tp_get_variable_as(g, "W", TP_F32, tp_make_shape(in, out),
                                    tp_init_variance_scaling(2, TP_FAN_IN, TP_DIST_NORMAL));
    tp_node *b = tp_get_variable_as(g, "b", TP_F32, tp_make_shape(out), tp_init_zeros());
    tp_node *y = tp_nn_bias_add(tp_matmul(x, w), b, 0);
    if (relu) y = tp_relu(y);
    tp_variable_scope_pop(g);
    if (w_out) *w_out = w;
    return y;
}

static tp_node *conv(tp_node *x, const char *name, int64_t in, int64_t out)
{
    tp_graph *g = tp_node_graph(x);
    tp_variable_scope_desc d;
    tp_conv2d_attrs a;
    memset(&d, 0, sizeof d);
    memset(&a, 0, sizeof a);
    d.name = name;
    tp_variable_scope_push(g, &d);
    tp_node *w = tp_get_variable_as(g, "W", TP_F32, tp_make_shape(3, 3, in, out),
                                    tp_init_variance_scaling(2, TP_FAN_IN, TP_DIST_NORMAL));
    tp_node *b = tp_get_variable_as(g, "b", TP_F32, tp_make_shape(out), tp_init_zeros());
    tp_node *y = tp_relu(tp_nn_bias_add(tp_nn_conv2d(x, w, &a), b, 0));
    tp_variable_scope_pop(g);
    return y;
}

static int trainable(tp_graph *g, tp_node **vars, int cap)
{
    int n = 0;
    tp_node *const *v = tp_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n);
    if (n > cap) n = cap;
    for (int i = 0; i < n; i++) vars[i] = v[i];
    return n;
}

static tp_node *mlp_layers(model *m)
{
    tp_node *h = dense(m->x, "fc0", 784, 256, true, NULL);
    return dense(dense(h, "fc1", 256, 128, true, NULL), "fc2", 128, 10, false, NULL);
}

static model mlp(int64_t batch, bool training)
{
    model m;
    memset(&m, 0, sizeof m);
    m.g = tp_graph_new(NULL);
    m.x_shape = tp_make_shape(batch, 784);
    m.x = tp_placeholder(m.g, "x", TP_F32, tp_make_shape(TP_ANY, 784));
    m.label = tp_placeholder(m.g, "label", TP_I32, tp_make_shape(TP_ANY));
    tp_node *logits = mlp_layers(&m);
    if (!training) {
        m.fetch[m.n_fetch++] = logits;
        m.flops = 2.0 * (double)batch * (784 * 256 + 256 * 128 + 128 * 10);
        return m;
    }
    tp_node *cost = tp_mean(tp_sparse_softmax_cross_entropy(logits, m.label));
    tp_node *vars[16], *grads[16];
    const int n = trainable(m.g, vars, 16);
    tp_gradients(cost, vars, n, grads);
    m.update[m.n_update++] = tp_apply_gradient_descent(vars, grads, n, tp_const(m.g, 0.01f), NULL);
    train_step(&m, cost);
    m.flops = 2.0 * (double)batch * (784 * 256 * 2 + 256 * 128 * 3 + 128 * 10 * 3);
    return m;
}

/* What an optimizer keeps for a variable, zero at first. */
static tp_node *slot(tp_node *var, const char *suffix)
{
    char name[300];
    tp_variable_desc d;
    memset(&d, 0, sizeof d);
    snprintf(name, sizeof name, "%s/%s", tp_node_name(var), suffix);
    d.name = name;
    d.shape = var->shape;
    d.init = tp_init_zeros();
    d.trainable = TP_NO;
    return tp_get_variable(tp_node_graph(var), &d);
}

/* Adam over all trainable variables; its gradients are clipped to a global norm, unless that is 0; decay as in AdamW. */
static void train_by_adam(model *m, tp_node *cost, float lr, float clip, float decay)
{
    tp_node *vars[MAX_VARS], *grads[MAX_VARS], *ms[MAX_VARS], *vs[MAX_VARS];
    const int n = trainable(m->g, vars, MAX_VARS);
    tp_gradients(cost, vars, n, grads);
    if (clip > 0) {
        tp_node *limit = tp_const(m->g, clip), *scale = tp_div(limit, tp_maximum(tp_global_norm(grads, n), limit));
        for (int i = 0; i < n; i++) grads[i] = tp_mul(grads[i], scale);
    }
    for (int i = 0; i < n; i++) {
        ms[i] = slot(vars[i], "Adam");
        vs[i] = slot(vars[i], "Adam_1");
    }
    tp_node *b1 = tp_get_scalar_variable(m->g, "beta1_power", 0.9f);
    tp_node *b2 = tp_get_scalar_variable(m->g, "beta2_power", 0.999f);
    m->update[m->n_update++] =
        tp_apply_adamw(vars, ms, vs, grads, n, tp_const(m->g, lr), b1, b2, 0.9f, 0.999f, 1e-8f, decay, NULL);
    m->update[m->n_update++] = tp_assign(b1, tp_affine(b1, 0.9f, 0), NULL);
    m->update[m->n_update++] = tp_assign(b2, tp_affine(b2, 0.999f, 0), NULL);
    train_step(m, cost);
}

/* Momentum 0.9 over all trainable variables, each of which decays. */
static void train_by_momentum(model *m, tp_node *cost, float lr, float decay)
{
    tp_node *vars[MAX_VARS], *grads[MAX_VARS], *accums[MAX_VARS];
    const int n = trainable(m->g, vars, MAX_VARS);
    tp_gradients(cost, vars, n, grads);
    for (int i = 0; i < n; i++) {
        accums[i] = slot(vars[i], "Momentum");
        grads[i] = tp_add(grads[i], tp_affine(vars[i], decay, 0));
    }
    m->update[m->n_update++] = tp_apply_momentum(vars, accums, grads, n, tp_const(m->g, lr), 0.9f, false, NULL);
    train_step(m, cost);
}

/* Returns the logits; decay[0] and [1]: the matrices that decay. */
static tp_node *mnistcnn_layers(model *m, bool training, tp_node *decay[2])
{
    tp_pool_attrs p;
    memset(&p, 0, sizeof p);
    p.size_h = p.size_w = 2;
    tp_node *h = conv(tp_affine(m->x, 2, -1), "conv0", 1, 32);
    h = tp_nn_max_pool(h, &p);
    h = conv(h, "conv1", 32, 32);
    h = conv(h, "conv2", 32, 32);
    h = tp_nn_max_pool(h, &p);
    h = conv(h, "conv3", 32, 32);
    h = dense(tp_batch_flatten(h), "fc0", 1568, 512, true, &decay[0]);
    return dense(training ? tp_nn_dropout(h, 0.5f) : h, "fc1", 512, 10, false, &decay[1]);
}
static tp_node *mnistcnn_cost(model *m, tp_node *logits, tp_node *const decay[2])
{
    tp_node *cost = tp_mean(tp_sparse_softmax_cross_entropy(logits, m->label));
    return tp_add(cost, tp_affine(tp_add(tp_l2_loss(decay[0]), tp_l2_loss(decay[1])), 1e-5f, 0));
}

static model mnistcnn(int64_t batch, bool training)
{
    model m;
    memset(&m, 0, sizeof m);
    m.g = tp_graph_new(NULL);
    m.x_shape = tp_make_shape(batch, 28, 28, 1);
    m.x = tp_placeholder(m.g, "x", TP_F32, tp_make_shape(TP_ANY, 28, 28, 1));
    m.label = tp_placeholder(m.g, "label", TP_I32, tp_make_shape(TP_ANY));
    tp_node *decay[2], *logits = mnistcnn_layers(&m, training, decay);
    const double conv0 = 28.0 * 28 * 9 * 32, conv12 = 14.0 * 14 * 288 * 32, conv3 = 7.0 * 7 * 288 * 32,
                 fc = 1568.0 * 512 + 5120;
    if (!training) {
        m.fetch[m.n_fetch++] = logits;
        m.flops = 2.0 * (double)batch * (conv0 + conv12 * 2 + conv3 + fc);
        return m;
    }
    train_by_adam(&m, mnistcnn_cost(&m, logits, decay), 1e-3f, 0, 0);
    m.flops = 2.0 * (double)batch * (conv0 * 2 + conv12 * 6 + conv3 * 3 + fc * 3);
    return m;
}

/* A convolution without bias; *flops grows by forward, filter gradient and, unless first, input gradient. */
static tp_node *res_conv(tp_node *x, const char *name, int64_t out, int stride, bool first, double *flops)
{
    tp_graph *g = tp_node_graph(x);
    tp_conv2d_attrs a;
    char full[64];
    memset(&a, 0, sizeof a);
    a.stride_h = a.stride_w = stride;
    const int64_t in = x->shape.dim[3];
    snprintf(full, sizeof full, "%s/W", name);
    tp_node *w = tp_get_variable_as(g, full, TP_F32, tp_make_shape(3, 3, in, out),
                                    tp_init_variance_scaling(2, TP_FAN_OUT, TP_DIST_NORMAL));
    tp_node *y = tp_nn_conv2d(x, w, &a);
    *flops += 2.0 * (double)(y->shape.dim[1] * y->shape.dim[2] * 9 * in * out) * (first ? 2 : 3);
    return y;
}

/* Batch norm and ReLU; when training, the running averages follow. */
static tp_node *bn_relu(model *m, tp_node *x, const char *name, bool training)
{
    tp_graph *g = tp_node_graph(x);
    const tp_shape c = tp_make_shape(x->shape.dim[3]);
    static const char *const parts[] = {"gamma", "beta", "mean/EMA", "variance/EMA"};
    tp_node *v[4];
    for (int i = 0; i < 4; i++) {
        char full[64];
        tp_variable_desc d;
        memset(&d, 0, sizeof d);
        snprintf(full, sizeof full, "%s/%s", name, parts[i]);
        d.name = full;
        d.shape = c;
        d.init = i % 3 == 0 ? tp_init_ones() : tp_init_zeros();
        d.trainable = i < 2 ? TP_YES : TP_NO;
        v[i] = tp_get_variable(g, &d);
    }
    if (!training) return tp_relu(tp_nn_batch_norm_infer(x, v[0], v[1], v[2], v[3], -1, 1e-5f));
    tp_node *mean, *var, *y = tp_relu(tp_nn_batch_norm_train(x, v[0], v[1], -1, 1e-5f, true, &mean, &var));
    m->update[m->n_update++] = tp_assign_moving_average(v[2], mean, 0.9f, NULL);
    m->update[m->n_update++] = tp_assign_moving_average(v[3], var, 0.9f, NULL);
    return y;
}

/* tensorpack's cifar10-resnet with n = 3: pre-activation blocks of 16, 32 and 64 channels. */
static tp_node *resnet20_layers(model *m, bool training)
{
    tp_pool_attrs p;
    memset(&p, 0, sizeof p);
    p.size_h = p.size_w = 2;
    double *flops = &m->flops; /* of an image */
    tp_node *l = bn_relu(m, res_conv(tp_affine(m->x, 1 / 128.0f, 0), "conv0", 16, 1, true, flops), "bn0", training);
    for (int stage = 0; stage < 3; stage++)
        for (int k = 0; k < 3; k++) {
            char name[32];
            const bool wider = stage > 0 && k == 0;
            const int64_t in = l->shape.dim[3], out = (int64_t)16 << stage;
            snprintf(name, sizeof name, "res%d.%d/bn0", stage, k);
            tp_node *c = stage == 0 && k == 0 ? l : bn_relu(m, l, name, training);
            snprintf(name, sizeof name, "res%d.%d/conv1", stage, k);
            c = res_conv(c, name, out, wider ? 2 : 1, false, flops);
            snprintf(name, sizeof name, "res%d.%d/bn1", stage, k);
            c = bn_relu(m, c, name, training);
            snprintf(name, sizeof name, "res%d.%d/conv2", stage, k);
            c = res_conv(c, name, out, 1, false, flops);
            if (wider) {
                const int64_t pad[4] = {0, 0, 0, in / 2};
                l = tp_pad(tp_nn_avg_pool(l, &p), pad, pad, TP_PAD_CONSTANT, 0);
            }
            l = tp_add(c, l);
        }
    const int axes[2] = {1, 2};
    l = tp_reduce_mean(bn_relu(m, l, "bnlast", training), axes, 2, false);
    return dense(l, "fc", 64, 10, false, NULL);
}

static model resnet20(int64_t batch, bool training)
{
    model m;
    memset(&m, 0, sizeof m);
    m.g = tp_graph_new(NULL);
    m.x_shape = tp_make_shape(batch, 32, 32, 3);
    m.x = tp_placeholder(m.g, "x", TP_F32, tp_make_shape(TP_ANY, 32, 32, 3));
    m.label = tp_placeholder(m.g, "label", TP_I32, tp_make_shape(TP_ANY));
    tp_node *logits = resnet20_layers(&m, training);
    m.flops *= (double)batch;
    if (!training) {
        m.flops /= 3;
        m.fetch[m.n_fetch++] = logits;
        return m;
    }
    train_by_momentum(&m, tp_mean(tp_sparse_softmax_cross_entropy(logits, m.label)), 0.01f, 2e-4f);
    return m;
}

/* -- ResNet-50 v1.5, of layers */

static tp_node *counted(tp_node *x, tp_node *y, int kernel, double *flops)
{
    *flops +=
        2.0 * 3 * (double)(y->shape.dim[1] * y->shape.dim[2] * y->shape.dim[3] * x->shape.dim[3] * kernel * kernel);
    return y;
}
static tp_node *batch_norm(tp_node *x) { return tp_batch_norm(x, "bn"); }

/* 1x1, 3x3 and 1x1, of which the one in the middle strides, beside a shortcut. */
static tp_node *bottleneck(tp_node *x, const char *name, int width, int stride, double *flops)
{
    tp_graph *g = tp_node_graph(x);
    tp_variable_scope_desc scope;
    memset(&scope, 0, sizeof scope);
    scope.name = name;
    tp_variable_scope_push(g, &scope);
    tp_node *shortcut = x, *l = counted(x, tp_conv2d(x, "conv1", .filters = width, .kernel_size = 1), 1, flops);
    l = counted(l, tp_conv2d(l, "conv2", .filters = width, .kernel_size = 3, .strides = stride), 3, flops);
    l = counted(l, tp_conv2d(l, "conv3", .filters = 4 * width, .kernel_size = 1, .activation = batch_norm), 1, flops);
    if (x->shape.dim[3] != 4 * width)
        shortcut = counted(x,
                           tp_conv2d(x, "convshortcut", .filters = 4 * width, .kernel_size = 1, .strides = stride,
                                     .activation = batch_norm),
                           1, flops);
    l = tp_relu(tp_add(l, shortcut));
    tp_variable_scope_pop(g);
    return l;
}

/* 224x224 and 1000 classes, momentum, weight decay. Images come as bytes, as from a JPEG reader. resident: they, and the
 * labels, are floats that lie on the device, as in synthetic benchmarks. */
static model resnet50(int64_t batch, bool resident)
{
    static const int blocks[4] = {3, 4, 6, 3};
    model m;
    memset(&m, 0, sizeof m);
    double flops = 0;
    m.g = tp_graph_new(NULL);
    m.x_shape = tp_make_shape(batch, 224, 224, 3);
    tp_node *x = NULL;
    if (resident) {
        tp_variable_desc d;
        memset(&d, 0, sizeof d);
        d.name = "x";
        d.shape = m.x_shape;
        d.init = tp_init_uniform(-1, 1);
        d.trainable = TP_NO;
        x = m.x = tp_get_variable(m.g, &d);
        d.name = "label";
        d.dtype = TP_I32;
        d.shape = tp_make_shape(batch);
        d.init = tp_init_zeros();
        m.label = tp_get_variable(m.g, &d);
    } else {
        m.x = tp_placeholder(m.g, "x", TP_U8, tp_make_shape(TP_ANY, 224, 224, 3));
        m.label = tp_placeholder(m.g, "label", TP_I32, tp_make_shape(TP_ANY));
        x = tp_affine(tp_cast(m.x, TP_F32), 1 / 127.5f, -1);
    }
    tp_tower_desc tower;
    memset(&tower, 0, sizeof tower);
    tower.is_training = true;
    tp_tower_enter(m.g, &tower);
    TP_ARGSCOPE(m.g, conv2d, .use_bias = TP_NO, .activation = tp_bn_relu,
                .kernel_initializer = tp_init_variance_scaling(2, TP_FAN_OUT, TP_DIST_NORMAL))
    {
        tp_node *l = counted(x, tp_conv2d(x, "conv0", .filters = 64, .kernel_size = 7, .strides = 2), 7, &flops);
        flops *= 2.0 / 3; /* the images have no gradient */
        l = tp_max_pooling(l, "pool0", .pool_size = 3, .strides = 2, .padding = TP_SAME);
        for (int group = 0; group < 4; group++)
            for (int i = 0; i < blocks[group]; i++) {
                char name[32];
                snprintf(name, sizeof name, "group%d/block%d", group, i);
                l = bottleneck(l, name, 64 << group, group > 0 && i == 0 ? 2 : 1, &flops);
            }
        tp_node *logits = tp_fully_connected(tp_global_avg_pooling(l, "gap"), "linear", .units = 1000,
                                             .kernel_initializer = tp_init_normal(0, 0.01f));
        tp_node *const *ema = tp_collection(m.g, TP_KEY_UPDATE_OPS, &m.n_update);
        for (int i = 0; i < m.n_update; i++) m.update[i] = ema[i];
        train_by_momentum(&m, tp_mean(tp_sparse_softmax_cross_entropy(logits, m.label)), 0.1f, 1e-4f);
    }
    tp_tower_leave(m.g);
    m.flops = (double)batch * (flops + 2.0 * 3 * 2048 * 1000);
    return m;
}

/* A character model: embedding, two LSTM layers over 50 steps, a class of 100 for each step. */
static model char_lstm(int64_t units, int64_t batch)
{
    enum { T = 50, CLASSES = 100 };
    model m;
    memset(&m, 0, sizeof m);
    m.g = tp_graph_new(NULL);
    m.x_shape = tp_make_shape(batch, T);
    m.x_classes = CLASSES;
    m.n_label = batch * T;
    m.x = tp_placeholder(m.g, "x", TP_I32, m.x_shape);
    m.label = tp_placeholder(m.g, "label", TP_I32, tp_make_shape(TP_ANY));
    tp_node *h = tp_gather(
        tp_get_variable_as(m.g, "embedding", TP_F32, tp_make_shape(CLASSES, units), tp_init_normal(0, 1)), m.x);
    tp_tensor zero;
    memset(&zero, 0, sizeof zero);
    if (tp_tensor_resize(&zero, TP_F32, tp_make_shape(batch, units)) != TP_OK) return m;
    memset(zero.data, 0, tp_tensor_bytes(&zero));
    tp_node *state = tp_constant(m.g, &zero);
    tp_tensor_free(&zero);
    for (int layer = 0; layer < 2; layer++) {
        char name[32];
        snprintf(name, sizeof name, "lstm%d/kernel", layer);
        tp_node *w =
            tp_get_variable_as(m.g, name, TP_F32, tp_make_shape(2 * units, 4 * units), tp_init_glorot_uniform());
        snprintf(name, sizeof name, "lstm%d/bias", layer);
        tp_node *b = tp_get_variable_as(m.g, name, TP_F32, tp_make_shape(4 * units), tp_init_zeros());
        h = tp_nn_lstm(h, w, b, state, state, 1.0f, true, NULL, NULL);
    }
    tp_node *logits = dense(tp_reshape(h, TP_ANY, units), "fc", units, CLASSES, false, NULL);
    train_by_adam(&m, tp_mean(tp_sparse_softmax_cross_entropy(logits, m.label)), 2e-3f, 5, 0);
    /* per layer and step: [x,h] W forward, and both gradients; the fully connected layer likewise */
    m.flops = 2.0 * (double)(batch * T) * 3 * (double)(2 * 2 * units * 4 * units + units * CLASSES);
    return m;
}

static tp_node *layer_norm(tp_node *x, const char *name)
{
    tp_graph *g = tp_node_graph(x);
    char full[64];
    const tp_shape c = tp_make_shape(x->shape.dim[x->shape.ndim - 1]);
    snprintf(full, sizeof full, "%s/gamma", name);
    tp_node *gamma = tp_get_variable_as(g, full, TP_F32, c, tp_init_ones());
    snprintf(full, sizeof full, "%s/beta", name);
    return tp_nn_layer_norm(x, gamma, tp_get_variable_as(g, full, TP_F32, c, tp_init_zeros()), 1e-5f);
}

/* A small GPT: 4 blocks of 256 with 4 heads, 128 positions, 1024 words, AdamW; the output shares the embedding. */
static model gpt(void)
{
    enum { B = 4, T = 128, C = 256, WORDS = 1024, BLOCKS = 4, HEADS = 4 };
    model m;
    memset(&m, 0, sizeof m);
    m.g = tp_graph_new(NULL);
    m.x_shape = tp_make_shape(B, T);
    m.x_classes = WORDS;
    m.n_label = B * T;
    m.x = tp_placeholder(m.g, "x", TP_I32, m.x_shape);
    m.label = tp_placeholder(m.g, "label", TP_I32, tp_make_shape(TP_ANY));
    tp_node *words = tp_get_variable_as(m.g, "words", TP_F32, tp_make_shape(WORDS, C), tp_init_normal(0, 1));
    tp_node *places = tp_get_variable_as(m.g, "places", TP_F32, tp_make_shape(T, C), tp_init_normal(0, 1));
    tp_node *x = tp_add(tp_gather(words, m.x), places), *qkv[3];
    for (int i = 0; i < BLOCKS; i++) {
        char name[32];
        snprintf(name, sizeof name, "block%d/norm1", i);
        tp_node *y = tp_reshape(layer_norm(x, name), TP_ANY, C);
        snprintf(name, sizeof name, "block%d/qkv", i);
        tp_split(tp_reshape(dense(y, name, C, 3 * C, false, NULL), B, T, 3 * C), 3, 2, qkv);
        y = tp_reshape(tp_nn_attention(qkv[0], qkv[1], qkv[2], HEADS, true), TP_ANY, C);
        snprintf(name, sizeof name, "block%d/projection", i);
        x = tp_add(x, tp_reshape(dense(y, name, C, C, false, NULL), B, T, C));
        snprintf(name, sizeof name, "block%d/norm2", i);
        y = tp_reshape(layer_norm(x, name), TP_ANY, C);
        snprintf(name, sizeof name, "block%d/up", i);
        y = tp_gelu(dense(y, name, C, 4 * C, false, NULL));
        snprintf(name, sizeof name, "block%d/down", i);
        x = tp_add(x, tp_reshape(dense(y, name, 4 * C, C, false, NULL), B, T, C));
    }
    tp_node *logits = tp_matmul_ex(tp_reshape(layer_norm(x, "norm"), TP_ANY, C), words, false, true);
    train_by_adam(&m, tp_mean(tp_sparse_softmax_cross_entropy(logits, m.label)), 1e-4f, 0, 0.01f);
    /* per word and block: 12 C^2 of weights and 2 T C of attention, half of which the mask leaves; forward and twice back */
    m.flops = 2.0 * 3 * B * T * (BLOCKS * (12.0 * C * C + T * C) + (double)WORDS * C);
    return m;
}

/* A workload's model by its name, of which `g` stays NULL if there is none. */
static inline model find_model(const char *workload, bool resident)
{
    const char *b = strstr(workload, ".b");
    const int64_t batch = b ? atoll(b + 2) : 1;
    model none;
    memset(&none, 0, sizeof none);
    if (strcmp(workload, "infer.resnet20") == 0) return resnet20(1, false);
    if (strcmp(workload, "infer.mnistcnn") == 0) return mnistcnn(1, false);
    if (strcmp(workload, "infer.mlp") == 0) return mlp(1, false);
    if (strcmp(workload, "gpt.tiny") == 0) return gpt();
    if (batch < 1) return none;
    if (strncmp(workload, "mlp.b", 5) == 0) return mlp(batch, true);
    if (strncmp(workload, "mnistcnn.b", 10) == 0) return mnistcnn(batch, true);
    if (strncmp(workload, "resnet20.b", 10) == 0) return resnet20(batch, true);
    if (strncmp(workload, "resnet50.b", 10) == 0) return resnet50(batch, resident);
    if (strncmp(workload, "lstm128.b", 9) == 0) return char_lstm(128, batch);
    if (strncmp(workload, "lstm256.b", 9) == 0) return char_lstm(256, batch);
    return none;
}

#endif
