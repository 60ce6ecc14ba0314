/* bench.c - one workload, one JSON line: the median time of a training step (or of a batch-1 inference)
 *
 *   gcc -std=c11 -O2 -I. tests/bench/bench.c -o bench -lm -lpthread && ./bench mlp.b128 1 3.0
 *
 * arguments: workload, threads, seconds. Workloads as in PyTorch's peer: mlp.b128 mlp.b16 mlp.b1 (784-256-128-10, SGD),
 * mnistcnn.b128 (tensorpack's mnist-convnet, Adam, weight decay, dropout), resnet20.b128 (tensorpack's cifar10-resnet,
 * n = 3, momentum, weight decay), lstm128.b128 lstm256.b128 (embedding, two layers, 50 steps, Adam, clipped),
 * gpt.tiny (4 blocks of 256, AdamW), infer.mlp infer.mnistcnn infer.resnet20 (batch 1). With --plan the plan is printed, timed. */
#define TP_IMPLEMENTATION
#include "tp_graph.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

typedef struct model {
    tp_graph *g;
    tp_node *x, *label, *fetch[64];
    int n_fetch;
    tp_shape x_shape;
    int x_classes;   /* x is int32 below this; 0: x is float32 in [0,1) */
    int64_t n_label; /* 0: one an element of x's first dimension */
    double flops;    /* of the multiplications and additions of one step, counted by layer */
} model;

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

static model mlp(int64_t batch, bool training)
{
    model m;
    memset(&m, 0, sizeof m);
    m.g = tp_graph_new(NULL);
    m.x_shape = tp_make_shape(batch, 784);
    m.x = tp_placeholder(m.g, "x", TP_F32, tp_make_shape(TP_ANY, 784));
    m.label = tp_placeholder(m.g, "label", TP_I32, tp_make_shape(TP_ANY));
    tp_node *h = dense(m.x, "fc0", 784, 256, true, NULL);
    h = dense(h, "fc1", 256, 128, true, NULL);
    tp_node *logits = dense(h, "fc2", 128, 10, false, NULL);
    if (!training) {
        m.fetch[m.n_fetch++] = logits;
        m.flops = 2.0 * (double)batch * (784 * 256 + 256 * 128 + 128 * 10);
        return m;
    }
    tp_node *cost = tp_mean(tp_sparse_softmax_cross_entropy(logits, m.label));
    tp_node *vars[16], *grads[16];
    const int n = trainable(m.g, vars, 16);
    tp_gradients(cost, vars, n, grads);
    m.fetch[m.n_fetch++] = tp_apply_gradient_descent(vars, grads, n, tp_const(m.g, 0.01f), NULL);
    m.fetch[m.n_fetch++] = cost;
    m.flops = 2.0 * (double)batch * (784 * 256 * 2 + 256 * 128 * 3 + 128 * 10 * 3);
    return m;
}

/* Adam over all trainable variables; its gradients are clipped to a global norm, unless that is 0; decay as in AdamW. */
static void train_by_adam(model *m, tp_node *cost, float lr, float clip, float decay)
{
    tp_node *vars[80], *grads[80], *ms[80], *vs[80];
    const int n = trainable(m->g, vars, 80);
    tp_gradients(cost, vars, n, grads);
    if (clip > 0) {
        tp_node *limit = tp_const(m->g, clip), *scale = tp_div(limit, tp_maximum(tp_global_norm(grads, n), limit));
        for (int i = 0; i < n; i++) grads[i] = tp_mul(grads[i], scale);
    }
    for (int i = 0; i < n; i++) {
        char name[300];
        tp_variable_desc d;
        memset(&d, 0, sizeof d);
        d.name = name;
        d.shape = vars[i]->shape;
        d.init = tp_init_zeros();
        d.trainable = TP_NO;
        snprintf(name, sizeof name, "%s/Adam", tp_node_name(vars[i]));
        ms[i] = tp_get_variable(m->g, &d);
        snprintf(name, sizeof name, "%s/Adam_1", tp_node_name(vars[i]));
        vs[i] = tp_get_variable(m->g, &d);
    }
    tp_node *b1 = tp_get_scalar_variable(m->g, "beta1_power", 0.9f);
    tp_node *b2 = tp_get_scalar_variable(m->g, "beta2_power", 0.999f);
    m->fetch[m->n_fetch++] =
        tp_apply_adamw(vars, ms, vs, grads, n, tp_const(m->g, lr), b1, b2, 0.9f, 0.999f, 1e-8f, decay, NULL);
    m->fetch[m->n_fetch++] = tp_assign(b1, tp_affine(b1, 0.9f, 0), NULL);
    m->fetch[m->n_fetch++] = tp_assign(b2, tp_affine(b2, 0.999f, 0), NULL);
    m->fetch[m->n_fetch++] = cost;
}

static model mnistcnn(int64_t batch, bool training)
{
    model m;
    tp_pool_attrs p;
    memset(&m, 0, sizeof m);
    memset(&p, 0, sizeof p);
    p.size_h = p.size_w = 2;
    m.g = tp_graph_new(NULL);
    m.x_shape = tp_make_shape(batch, 28, 28, 1);
    m.x = tp_placeholder(m.g, "x", TP_F32, tp_make_shape(TP_ANY, 28, 28, 1));
    m.label = tp_placeholder(m.g, "label", TP_I32, tp_make_shape(TP_ANY));
    tp_node *w0, *w1, *h = conv(tp_affine(m.x, 2, -1), "conv0", 1, 32);
    h = tp_nn_max_pool(h, &p);
    h = conv(h, "conv1", 32, 32);
    h = conv(h, "conv2", 32, 32);
    h = tp_nn_max_pool(h, &p);
    h = conv(h, "conv3", 32, 32);
    h = dense(tp_batch_flatten(h), "fc0", 1568, 512, true, &w0);
    const double conv0 = 28.0 * 28 * 9 * 32, conv12 = 14.0 * 14 * 288 * 32, conv3 = 7.0 * 7 * 288 * 32,
                 fc = 1568.0 * 512 + 5120;
    tp_node *logits = dense(training ? tp_nn_dropout(h, 0.5f) : h, "fc1", 512, 10, false, &w1);
    if (!training) {
        m.fetch[m.n_fetch++] = logits;
        m.flops = 2.0 * (double)batch * (conv0 + conv12 * 2 + conv3 + fc);
        return m;
    }
    tp_node *cost = tp_mean(tp_sparse_softmax_cross_entropy(logits, m.label));
    cost = tp_add(cost, tp_affine(tp_add(tp_l2_loss(w0), tp_l2_loss(w1)), 1e-5f, 0));
    train_by_adam(&m, cost, 1e-3f, 0, 0);
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
    m->fetch[m->n_fetch++] = tp_assign_moving_average(v[2], mean, 0.9f, NULL);
    m->fetch[m->n_fetch++] = tp_assign_moving_average(v[3], var, 0.9f, NULL);
    return y;
}

/* tensorpack's cifar10-resnet with n = 3: pre-activation blocks of 16, 32 and 64 channels. */
static model resnet20(int64_t batch, bool training)
{
    model m;
    tp_pool_attrs p;
    memset(&m, 0, sizeof m);
    memset(&p, 0, sizeof p);
    p.size_h = p.size_w = 2;
    double flops = 0;
    m.g = tp_graph_new(NULL);
    m.x_shape = tp_make_shape(batch, 32, 32, 3);
    m.x = tp_placeholder(m.g, "x", TP_F32, tp_make_shape(TP_ANY, 32, 32, 3));
    m.label = tp_placeholder(m.g, "label", TP_I32, tp_make_shape(TP_ANY));
    tp_node *l = bn_relu(&m, res_conv(tp_affine(m.x, 1 / 128.0f, 0), "conv0", 16, 1, true, &flops), "bn0", training);
    for (int stage = 0; stage < 3; stage++)
        for (int k = 0; k < 3; k++) {
            char name[32];
            const bool wider = stage > 0 && k == 0;
            const int64_t in = l->shape.dim[3], out = (int64_t)16 << stage;
            snprintf(name, sizeof name, "res%d.%d/bn0", stage, k);
            tp_node *c = stage == 0 && k == 0 ? l : bn_relu(&m, l, name, training);
            snprintf(name, sizeof name, "res%d.%d/conv1", stage, k);
            c = res_conv(c, name, out, wider ? 2 : 1, false, &flops);
            snprintf(name, sizeof name, "res%d.%d/bn1", stage, k);
            c = bn_relu(&m, c, name, training);
            snprintf(name, sizeof name, "res%d.%d/conv2", stage, k);
            c = res_conv(c, name, out, 1, false, &flops);
            if (wider) {
                const int64_t pad[4] = {0, 0, 0, in / 2};
                l = tp_pad(tp_nn_avg_pool(l, &p), pad, pad, TP_PAD_CONSTANT, 0);
            }
            l = tp_add(c, l);
        }
    const int axes[2] = {1, 2};
    l = tp_reduce_mean(bn_relu(&m, l, "bnlast", training), axes, 2, false);
    tp_node *logits = dense(l, "fc", 64, 10, false, NULL);
    m.flops = (double)batch * flops;
    if (!training) {
        m.flops /= 3;
        m.fetch[m.n_fetch++] = logits;
        return m;
    }
    tp_node *cost = tp_mean(tp_sparse_softmax_cross_entropy(logits, m.label));
    tp_node *vars[80], *grads[80], *accums[80];
    const int n = trainable(m.g, vars, 80);
    tp_gradients(cost, vars, n, grads);
    for (int i = 0; i < n; i++) {
        char name[300];
        tp_variable_desc d;
        memset(&d, 0, sizeof d);
        d.name = name;
        d.shape = vars[i]->shape;
        d.init = tp_init_zeros();
        d.trainable = TP_NO;
        snprintf(name, sizeof name, "%s/Momentum", tp_node_name(vars[i]));
        accums[i] = tp_get_variable(m.g, &d);
        grads[i] = tp_add(grads[i], tp_affine(vars[i], 2e-4f, 0));
    }
    m.fetch[m.n_fetch++] = tp_apply_momentum(vars, accums, grads, n, tp_const(m.g, 0.01f), 0.9f, false, NULL);
    m.fetch[m.n_fetch++] = cost;
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

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* -- the machine's FP32 multiply-add peak on `threads` threads, GFLOP/s: independent chains in registers */
#if defined(__x86_64__)
#include <immintrin.h>
__attribute__((target("avx512f"))) static double peak_avx512(void)
{
    __m512 a[16], x = _mm512_set1_ps(1.0f - 1e-7f), y = _mm512_set1_ps(1e-7f);
    for (int i = 0; i < 16; i++) a[i] = x;
    for (int k = 0; k < 2000000; k++) {
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) a[i] = _mm512_fmadd_ps(a[i], x, y);
    }
    float s = 0;
    for (int i = 0; i < 16; i++) s += _mm512_cvtss_f32(a[i]);
    return s > 1e30f ? 0 : 2000000.0 * 16 * 32;
}
__attribute__((target("avx2,fma"))) static double peak_avx2(void)
{
    __m256 a[12], x = _mm256_set1_ps(1.0f - 1e-7f), y = _mm256_set1_ps(1e-7f);
    for (int i = 0; i < 12; i++) a[i] = x;
    for (int k = 0; k < 2000000; k++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) a[i] = _mm256_fmadd_ps(a[i], x, y);
    }
    float s = 0;
    for (int i = 0; i < 12; i++) s += _mm256_cvtss_f32(a[i]);
    return s > 1e30f ? 0 : 2000000.0 * 12 * 16;
}
static void peak_chunk(void *user, int64_t chunk)
{
    ((double *)user)[chunk] = __builtin_cpu_supports("avx512f") ? peak_avx512()
                              : __builtin_cpu_supports("avx2")  ? peak_avx2()
                                                                : 0;
}
#else
static void peak_chunk(void *user, int64_t chunk) { ((double *)user)[chunk] = 0; }
#endif

static double peak_gflops(int threads)
{
    double flops[64], best = 0;
    tp_pool *pool = tp_pool_new(threads);
    if (threads > 64) threads = 64;
    for (int round = 0; round < 3 && pool; round++) {
        const double t0 = tp_time();
        tp_pool_run(pool, threads, peak_chunk, flops);
        double sum = 0, seconds = tp_time() - t0;
        for (int i = 0; i < threads; i++) sum += flops[i];
        if (sum / seconds > best) best = sum / seconds;
    }
    tp_pool_free(pool);
    return best / 1e9;
}

int main(int argc, char **argv)
{
    const double start = tp_time();
    const char *w = argc > 1 ? argv[1] : "mlp.b128";
    const int threads = argc > 2 ? atoi(argv[2]) : 1;
    const double seconds = argc > 3 ? atof(argv[3]) : 3.0;
    const bool plan = argc > 4 && strcmp(argv[4], "--plan") == 0;
    const char *b = strstr(w, ".b");
    const int64_t batch = b ? atoll(b + 2) : 1;
    model m;
    if (strncmp(w, "mlp.", 4) == 0 && batch > 0) m = mlp(batch, true);
    else if (strncmp(w, "mnistcnn.", 9) == 0 && batch > 0) m = mnistcnn(batch, true);
    else if (strncmp(w, "resnet20.", 9) == 0 && batch > 0) m = resnet20(batch, true);
    else if (strcmp(w, "infer.resnet20") == 0) m = resnet20(1, false);
    else if (strcmp(w, "infer.mnistcnn") == 0) m = mnistcnn(1, false);
    else if (strcmp(w, "infer.mlp") == 0) m = mlp(1, false);
    else if (strcmp(w, "gpt.tiny") == 0) m = gpt();
    else if (strncmp(w, "lstm128.", 8) == 0 && batch > 0) m = char_lstm(128, batch);
    else if (strncmp(w, "lstm256.", 8) == 0 && batch > 0) m = char_lstm(256, batch);
    else {
        fprintf(
            stderr,
            "bench: no workload '%s'; there are mlp.b<batch>, mnistcnn.b<batch>, resnet20.b<batch>, lstm128.b<batch>, "
            "lstm256.b<batch>, gpt.tiny, infer.mlp, infer.mnistcnn and infer.resnet20\n",
            w);
        return 2;
    }
    tp_session_config c = tp_default_session_config();
    c.threads = threads;
    tp_session *s = tp_session_new(m.g, &c);
    if (!s) {
        fprintf(stderr, "bench: %s\n", tp_last_error());
        return 1;
    }
    tp_feed feed[2];
    tp_tensor x, label;
    memset(feed, 0, sizeof feed);
    memset(&x, 0, sizeof x);
    memset(&label, 0, sizeof label);
    const int64_t n_label = m.n_label ? m.n_label : m.x_shape.dim[0];
    if (tp_tensor_resize(&x, m.x_classes ? TP_I32 : TP_F32, m.x_shape) != TP_OK ||
        tp_tensor_resize(&label, TP_I32, tp_make_shape(n_label)) != TP_OK)
        return 1;
    for (int64_t i = 0; i < tp_tensor_size(&x); i++) {
        const double u = (double)tp_random_uniform(1, 0, (uint64_t)i);
        tp_tensor_set(&x, i, m.x_classes ? floor(u * m.x_classes) : u);
    }
    for (int64_t i = 0; i < n_label; i++) tp_tensor_set(&label, i, (double)(i % 10));
    feed[0].node = m.x;
    feed[0].value = x;
    feed[1].node = m.label;
    feed[1].value = label;
    static double ms[2000000];
    int n = 0;
    double first = 0, begin = 0;
    for (int warm = 0;; warm++) {
        const double t0 = tp_time();
        if (tp_session_run(s, feed, 2, m.fetch, m.n_fetch, NULL) != TP_OK) {
            fprintf(stderr, "bench: %s\n", tp_last_error());
            return 1;
        }
        const double t1 = tp_time();
        if (warm == 0) first = t1 - start;
        if (warm < 3 || t1 - start < 0.3) {
            begin = t1;
            if (plan) tp_exec_set_timing(tp_session_exec(s), true);
            continue;
        }
        ms[n++] = (t1 - t0) * 1e3;
        if ((n >= 5 && t1 - begin > seconds) || n == 2000000) break;
    }
    qsort(ms, (size_t)n, sizeof *ms, by_value);
    if (plan) {
        tp_buf text;
        memset(&text, 0, sizeof text);
        tp_exec_print_plan(tp_session_exec(s), m.fetch, m.n_fetch, &text);
        fputs(text.data, stderr);
        tp_buf_free(&text);
    }
    struct rusage ru;
    getrusage(RUSAGE_SELF, &ru);
    const double peak = peak_gflops(threads);
    printf("{\"workload\": \"%s\", \"threads\": %d, \"isa\": \"%s\", \"ours_ms\": %.5f, \"best_ms\": %.5f, \"n\": %d, "
           "\"mflop\": %.2f, "
           "\"peak_gflops\": %.1f, \"roofline_ms\": %.5f, \"rss_mb\": %.1f, \"first_step_s\": %.4f}\n",
           w, threads, tp_device_isa(tp_session_device(s, 0)), ms[n / 2], ms[0], n, m.flops / 1e6, peak,
           peak > 0 ? m.flops / peak / 1e6 : 0.0, (double)ru.ru_maxrss / 1024.0, first);
    tp_tensor_free(&x);
    tp_tensor_free(&label);
    tp_session_free(s);
    tp_graph_free(m.g);
    return 0;
}
