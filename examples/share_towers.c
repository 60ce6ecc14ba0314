/* share_towers.c - layers without a trainer: one network, built for training and for inference, sharing its variables
 *
 *   gcc -std=c11 -O2 -I.. share_towers.c -lm -lpthread -o share_towers && ./share_towers
 *
 * BatchNorm and Dropout do one thing in training and another at inference; which one is decided when they are built, by the
 * tower that is open. So the network is built twice, the second time in a scope with reuse, where the same names mean the
 * same variables. What a trainer would do is spelled out: the update, the running averages, the loop.
 * The network learns to tell rings from discs, 8x8 noisy pixels each. With --gpu n, on the n-th GPU: make CUDA=1, or by hand
 * with -DTP_CUDA and what the README, On a GPU, links. */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_layers.h"
#include "tp_optim.h"
#include "options.h"

#define BATCH 64

/* The network. It does not know which tower it is in. */
static tp_node *network(tp_node *image)
{
    tp_node *logits = NULL;
    TP_ARGSCOPE(tp_node_graph(image), conv2d, .filters = 8, .kernel_size = 3, .activation = tp_bn_relu,
                .use_bias = false)
    {
        logits = tp_linear(image, TP_CONV2D("conv0"), TP_MAX_POOLING("pool0", .pool_size = 2), TP_CONV2D("conv1"),
                           TP_FULLY_CONNECTED("fc0", .units = 16, .activation = tp_relu),
                           TP_DROPOUT("dropout", .rate = 0.5f), TP_FULLY_CONNECTED("fc1", .units = 2));
    }
    return logits;
}

/* Rings (label 1) and discs (label 0) somewhere in noise; a function of *seed, which moves on. */
static float uniform(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / 16777216.0f;
}

static void draw(uint32_t *seed, float *pixels, int32_t *labels)
{
    for (int b = 0; b < BATCH; b++) {
        const float y = 3 + 2 * uniform(seed), x = 3 + 2 * uniform(seed);
        labels[b] = uniform(seed) < 0.5f;
        for (int i = 0; i < 64; i++) {
            const float dy = (float)(i / 8) - y, dx = (float)(i % 8) - x, d2 = dy * dy + dx * dx;
            const bool inside = d2 < 8 && !(labels[b] && d2 < 2);
            pixels[b * 64 + i] = (inside ? 1.0f : 0.0f) + 0.6f * (uniform(seed) - 0.5f);
        }
    }
}

int main(int argc, char **argv)
{
    static float pixels[BATCH * 64];
    static int32_t labels[BATCH];
    uint32_t seed = 1;
    int n = 0, n_updates = 0, right[2] = {0, 0}, n_gpu = -1;
    const option list[] = {option_int("--gpu n", &n_gpu, 0)};
    read_options(argc, argv, list, TP_COUNT(list));
    tp_graph *g = tp_graph_new(NULL);
    if (!g) return 1;
    tp_node *image = tp_placeholder(g, "image", TP_F32, tp_make_shape(TP_ANY, 8, 8, 1));
    tp_node *label = tp_placeholder(g, "label", TP_I32, tp_make_shape(TP_ANY));

    /* 1. For training: the cost, its gradients, the step. */
    const tp_tower_desc training = {.is_training = true};
    tp_tower_enter(g, &training);
    tp_node *logits = network(image);
    tp_node *cost = tp_mean(tp_sparse_softmax_cross_entropy(logits, label));
    tp_node *const *vars = tp_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n);
    tp_grad_var gv[16];
    if (n > 16) return 1;
    tp_compute_gradients(cost, vars, n, gv);
    tp_node *step = tp_apply_gradients(tp_adam(tp_const(g, 1e-2f)), gv, n);
    tp_node *train_accuracy = tp_sym_accuracy(logits, label, 1, NULL);
    tp_tower_leave(g);
    /* BatchNorm leaves its running averages to whoever runs the steps. */
    tp_node *const *updates = tp_collection(g, TP_KEY_UPDATE_OPS, &n_updates);
    tp_node *all[32] = {step, cost, train_accuracy};
    for (int i = 0; i < n_updates && i < 29; i++) all[3 + i] = updates[i];

    /* 2. For inference: the same function again, where names that exist are reused. Nodes are called inference/... */
    const tp_variable_scope_desc reuse = {.reuse = TP_REUSE_YES};
    const tp_tower_desc inference = {.name = "inference", .is_training = false};
    const int n_variables = tp_graph_n_variables(g);
    tp_variable_scope_push(g, &reuse);
    tp_tower_enter(g, &inference);
    tp_node *accuracy = tp_sym_accuracy(network(image), label, 1, NULL);
    tp_tower_leave(g);
    tp_variable_scope_pop(g);
    if (tp_graph_status(g) != TP_OK) {
        printf("%s\n", tp_graph_error(g));
        return 1;
    }
    printf("%d variables for training, %d with inference\n", n_variables, tp_graph_n_variables(g));

    /* 3. One session has the variables; each run says what is wanted. */
    tp_session_config config = tp_default_session_config();
    tp_device *gpu = NULL;
    if (n_gpu >= 0) {
#ifdef TP_CUDA
        gpu = tp_cuda_open(n_gpu);
#else
        tp_fail(TP_ERR_UNSUPPORTED, "this program was built without CUDA: make CUDA=1");
#endif
        if (!gpu) {
            printf("%s\n", tp_last_error());
            tp_graph_free(g);
            return 1;
        }
        config.devices = &gpu;
        config.n_devices = 1;
    }
    tp_session *s = tp_session_new(g, &config);
    const tp_feed feed[2] = {TP_FEED(image, TP_F32, pixels, BATCH, 8, 8, 1), TP_FEED(label, TP_I32, labels, BATCH)};
    bool good = s != NULL;
    for (int i = 0; good && i < 300; i++) {
        const tp_tensor *out[32];
        draw(&seed, pixels, labels);
        good = tp_session_run(s, feed, 2, all, 3 + (n_updates < 29 ? n_updates : 29), out) == TP_OK;
        if (good && i % 100 == 99)
            printf("step %d: cost %.3f, accuracy %.3f with dropout\n", i + 1, tp_tensor_get(out[1], 0),
                   tp_tensor_get(out[2], 0));
    }
    for (int i = 0; good && i < 20; i++) {
        const tp_tensor *out[1];
        draw(&seed, pixels, labels);
        for (int k = 0; k < 2 && good; k++) {
            tp_node *const which = k ? accuracy : train_accuracy;
            good = tp_session_run(s, feed, 2, &which, 1, out) == TP_OK;
            if (good) right[k] += (int)(tp_tensor_get(out[0], 0) * BATCH + 0.5);
        }
    }
    if (!good) printf("%s\n", tp_last_error());
    printf("%d new images: %.3f right by the training tower, %.3f by the inference tower\n", 20 * BATCH,
           right[0] / (20.0 * BATCH), right[1] / (20.0 * BATCH));
    good = good && n_variables == tp_graph_n_variables(g) && right[1] > 0.9 * 20 * BATCH;
    tp_session_free(s);
    tp_graph_free(g);
    if (gpu) gpu->close(gpu);
    return good ? 0 : 1;
}
