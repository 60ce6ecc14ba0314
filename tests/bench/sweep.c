/* sweep.c - one random network: how long a prediction takes, and the network as an ONNX file for sweep.py, which runs it elsewhere
 *
 *   gcc -std=c11 -O2 -I. tests/bench/sweep.c -o build/sweep -lm -lpthread
 *   build/sweep <seed> <batch> <threads> <seconds> <folder>
 *
 * Seeds draw one of three kinds of network: pictures (plain, odd, grouped, depthwise, dilated and transposed convolutions, norms,
 * activations, residual blocks, concatenation), dense layers from 4 to 1024 wide, sequences (embedding, LSTM, GRU, attention).
 * Writes net.onnx, x.npy and y.npy (what was computed) into the folder; prints a JSON line. */
#define TP_IMPLEMENTATION
#include "tp_export.h"
#include "tp_layers.h"
#include <stdlib.h>

static uint64_t seed, drawn;
static int pick(int n) { return (int)(tp_random_u32(seed, 0, drawn++) % (uint32_t)n); }
#define ONE_OF(...) one_of((const int[]){__VA_ARGS__}, (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))
static int one_of(const int *from, int n) { return from[pick(n)]; }

static char text[600]; /* what was drawn */
static void say(const char *what, int a, int b)
{
    const size_t at = strlen(text);
    snprintf(text + at, sizeof text - at, b ? "%s%s %d/%d" : a ? "%s%s %d" : "%s%s", at ? ", " : "", what, a, b);
}
static const char *name(const char *kind)
{
    static char buf[64];
    static int n;
    snprintf(buf, sizeof buf, "%s%d", kind, n++);
    return buf;
}

static tp_node *activation(tp_node *x)
{
    static const char *const names[] = {"relu", "leaky", "elu", "gelu", "silu", "tanh", "sigmoid", "softplus", "none"};
    const int k = pick(TP_COUNT(names));
    say(names[k], 0, 0);
    switch (k) {
    case 0: return tp_relu(x);
    case 1: return tp_leaky_relu(x, 0.1f);
    case 2: return tp_elu(x);
    case 3: return tp_gelu(x);
    case 4: return tp_silu(x);
    case 5: return tp_tanh(x);
    case 6: return tp_sigmoid(x);
    case 7: return tp_softplus(x);
    default: return x;
    }
}
static tp_node *norm(tp_node *x)
{
    const int C = (int)x->shape.dim[3];
    switch (pick(6)) {
    case 0: return say("instance norm", 0, 0), tp_instance_norm(x, name("in"));
    case 1: return say("layer norm", 0, 0), tp_layer_norm(x, name("ln"));
    case 2: return C % 4 == 0 ? (say("group norm", 0, 0), tp_group_norm(x, name("gn"), .groups = 4)) : x;
    case 3: return x;
    default: return say("batch norm", 0, 0), tp_batch_norm(x, name("bn"));
    }
}
static tp_node *convolution(tp_node *x)
{
    const int in = (int)x->shape.dim[3], out = ONE_OF(8, 16, 24, 32, 40, 64, 72, 96, 128), k = ONE_OF(1, 3, 3, 3, 5, 7);
    const int stride = x->shape.dim[1] > 8 && pick(3) == 0 ? 2 : 1;
    switch (pick(6)) {
    case 0:
        say("depthwise, 1x1", k, out);
        x = tp_depthwise_conv2d(x, name("dw"), .kernel_size = k, .strides = stride);
        return tp_conv2d(activation(norm(x)), name("pw"), .filters = out, .kernel_size = 1);
    case 1:
        if (in % 4 == 0) {
            say("grouped", k, out);
            return tp_conv2d(x, name("grouped"), .filters = out, .kernel_size = k, .strides = stride, .split = 4);
        } /* fall through */
    case 2:
        if (k > 1) {
            say("dilated", k, out);
            return tp_conv2d(x, name("dilated"), .filters = out, .kernel_size = k, .dilation_rate = 2);
        } /* fall through */
    case 3:
        if (x->shape.dim[1] <= 16) {
            say("transposed", 3, out);
            return tp_conv2d_transpose(x, name("transposed"), .filters = out, .kernel_size = 3, .strides = 2);
        } /* fall through */
    default:
        say("conv", k, out);
        return tp_conv2d(x, name("conv"), .filters = out, .kernel_size = k, .strides = stride);
    }
}
static tp_node *pictures(tp_graph *g, int batch, tp_node **in)
{
    const int side = ONE_OF(16, 24, 28, 32, 56), depth = 2 + pick(5);
    say("pictures", side, depth);
    tp_node *x = *in = tp_placeholder(g, "x", TP_F32, tp_make_shape(batch, side, side, ONE_OF(1, 3, 3, 16)));
    for (int i = 0; i < depth; i++) {
        tp_node *before = x;
        x = activation(norm(convolution(x)));
        if (tp_shape_equal(&x->shape, &before->shape)) say("residual", 0, 0), x = tp_add(x, before);
        else if (x->shape.dim[1] == before->shape.dim[1] && pick(2) == 0) {
            tp_node *both[2] = {x, before};
            say("concat", 0, 0), x = tp_concat(both, 2, 3);
        }
        if (x->shape.dim[1] >= 8 && pick(4) == 0)
            say("pool", 0, 0), x = pick(2) ? tp_max_pooling(x, name("max"), .pool_size = 2)
                                           : tp_avg_pooling(x, name("avg"), .pool_size = 2);
    }
    return tp_fully_connected(tp_global_avg_pooling(x, "gap"), "out", .units = 10);
}
static tp_node *dense(tp_graph *g, int batch, tp_node **in)
{
    const int depth = 1 + pick(6);
    tp_node *x = *in = tp_placeholder(g, "x", TP_F32, tp_make_shape(batch, ONE_OF(4, 13, 64, 100, 784)));
    say("dense", (int)x->shape.dim[1], depth);
    for (int i = 0; i < depth; i++) {
        const int units = ONE_OF(4, 10, 32, 50, 100, 128, 256, 300, 512, 1024);
        say("fc", units, 0);
        x = activation(tp_fully_connected(x, name("fc"), .units = units));
    }
    return tp_fully_connected(x, "out", .units = ONE_OF(1, 3, 10));
}
static tp_node *sequence(tp_graph *g, int batch, tp_node **in)
{
    const int T = ONE_OF(8, 16, 35, 64), C = ONE_OF(16, 32, 64, 128), depth = 1 + pick(2);
    say("sequence", T, C);
    tp_node *x = *in = tp_placeholder(g, "x", TP_F32, tp_make_shape(batch, T, C));
    for (int i = 0; i < depth; i++) {
        const int units = ONE_OF(16, 32, 64, 100, 128, 256), kind = pick(3);
        say(kind == 0 ? "lstm" : kind == 1 ? "gru" : "attention", units, 0);
        if (kind == 0) x = tp_lstm(x, name("lstm"), .units = units);
        else if (kind == 1) x = tp_gru(x, name("gru"), .units = units);
        else x = tp_multi_head_attention(x, name("attention"), .heads = 4, .units = (int)x->shape.dim[2] / 4 * 4);
    }
    return tp_fully_connected(x, "out", .units = 10);
}

static int fail(const char *what) { return fprintf(stderr, "seed %d: %s: %s\n", (int)seed, what, tp_last_error()), 1; }

int main(int argc, char **argv)
{
    if (argc < 6) return fprintf(stderr, "usage: sweep <seed> <batch> <threads> <seconds> <folder>\n"), 2;
    seed = strtoull(argv[1], NULL, 10);
    const int batch = atoi(argv[2]);
    const double seconds = atof(argv[4]);
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_desc tower;
    memset(&tower, 0, sizeof tower);
    tp_tower_enter(g, &tower);
    tp_node *x = NULL, *y;
    const int kind = pick(4);
    y = kind < 2 ? pictures(g, batch, &x) : kind == 2 ? dense(g, batch, &x) : sequence(g, batch, &x);
    tp_tower_leave(g);
    tp_session_config config = tp_default_session_config();
    config.threads = atoi(argv[3]);
    tp_session *s = tp_session_new(g, &config);
    if (!s) return fail(text);
    tp_feed feed;
    memset(&feed, 0, sizeof feed);
    feed.node = x;
    if (tp_tensor_resize(&feed.value, TP_F32, x->shape) != TP_OK) return fail(text);
    for (int64_t i = 0; i < tp_tensor_size(&feed.value); i++)
        tp_tensor_set(&feed.value, i, (double)tp_random_normal(seed, 1, (uint64_t)i));
    const tp_tensor *out;
    if (tp_session_run(s, &feed, 1, &y, 1, &out) != TP_OK) return fail(text);
    char path[1024];
    snprintf(path, sizeof path, "%s/net.onnx", argv[5]);
    if (tp_export_onnx(s, &x, 1, &y, 1, path, NULL) != TP_OK) return fail(text);
    snprintf(path, sizeof path, "%s/x.npy", argv[5]);
    if (tp_npy_save(path, &feed.value) != TP_OK) return fail(text);
    snprintf(path, sizeof path, "%s/y.npy", argv[5]);
    if (tp_npy_save(path, out) != TP_OK) return fail(text);
    double best = 1e30;
    for (int round = 0; round < 5; round++) {
        const double t0 = tp_time();
        int n = 0;
        do {
            if (tp_session_run(s, &feed, 1, &y, 1, &out) != TP_OK) return fail(text);
            n++;
        } while (tp_time() - t0 < seconds / 5);
        const double t = (tp_time() - t0) / n;
        best = t < best ? t : best;
    }
    printf("{\"workload\": \"sweep.%d.b%d\", \"threads\": %s, \"ours_ms\": %.4f, \"net\": \"%s\"}\n", (int)seed, batch,
           argv[3], best * 1e3, text);
    tp_tensor_free(&feed.value);
    tp_session_free(s);
    tp_graph_free(g);
    return 0;
}
