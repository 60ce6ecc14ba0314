/* depthwise.c - speed of convolutions and their two gradients, depthwise, in groups, of few and of many channels: one thread, NHWC
 *
 *   make build/depthwise && build/depthwise [part of a name] [instruction set]
 *
 * Prints one line of JSON for each shape: GFLOP/s, two for each multiplication, of the forward pass ("y"), the gradient by the input
 * ("dx") and that by the filter ("dw"): the best of many runs. x, w and dy are variables, drawn from a normal distribution. */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_graph.h"
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int batch, size, channels, filters, kernel, stride, dilation, groups;
} shapes[] = {{"dw 56x56x64", 8, 56, 64, 64, 3, 1, 1, 64},
              {"dw 56x56x64 stride 2", 8, 56, 64, 64, 3, 2, 1, 64},
              {"dw 28x28x128", 8, 28, 128, 128, 3, 1, 1, 128},
              {"dw 28x28x128 stride 2", 8, 28, 128, 128, 3, 2, 1, 128},
              {"dw 14x14x256", 8, 14, 256, 256, 3, 1, 1, 256},
              {"dw 14x14x256 stride 2", 8, 14, 256, 256, 3, 2, 1, 256},
              {"dw 7x7x512", 8, 7, 512, 512, 3, 1, 1, 512},
              {"dw 28x28x72", 8, 28, 72, 72, 3, 1, 1, 72},
              {"dw 28x28x24", 8, 28, 24, 24, 3, 1, 1, 24},
              {"dw 14x14x240 5x5", 8, 14, 240, 240, 5, 1, 1, 240},
              {"dw 28x28x128 dilation 2", 8, 28, 128, 128, 3, 1, 2, 128},
              {"dw 28x28x128 times 2", 8, 28, 128, 256, 3, 1, 1, 128},
              {"dw 56x56x64 times 2 stride 2", 8, 56, 64, 128, 3, 2, 1, 64},
              {"28x28x128 groups 1", 8, 28, 128, 128, 3, 1, 1, 1},
              {"28x28x128 groups 4", 8, 28, 128, 128, 3, 1, 1, 4},
              {"28x28x128 groups 8", 8, 28, 128, 128, 3, 1, 1, 8},
              {"28x28x128 groups 32", 8, 28, 128, 128, 3, 1, 1, 32},
              {"28x28x128 groups 4 stride 2", 8, 28, 128, 128, 3, 2, 1, 4},
              {"28x28x128 groups 4 1x1", 8, 28, 128, 128, 1, 1, 1, 4},
              {"28x28x32 groups 4", 8, 28, 32, 32, 3, 1, 1, 4},
              {"28x28x40 groups 4", 8, 28, 40, 40, 3, 1, 1, 4},
              {"8x8x48 groups 4", 32, 8, 48, 48, 3, 1, 1, 4},
              {"14x14x16 groups 4", 8, 14, 16, 16, 3, 1, 1, 4},
              {"8x8x24 groups 4", 16, 8, 24, 24, 3, 1, 1, 4},
              {"8x8x32 to 24 groups 4 5x5", 8, 8, 32, 24, 5, 1, 1, 4},
              {"28x28x64 groups 16", 8, 28, 64, 64, 3, 1, 1, 16},
              {"14x14x96 groups 32", 8, 14, 96, 96, 3, 1, 1, 32},
              {"14x14x64 groups 32", 8, 14, 64, 64, 3, 1, 1, 32},
              {"14x14x256 groups 32", 8, 14, 256, 256, 3, 1, 1, 32},
              {"28x28x72 to 32 groups 4 7x7", 8, 28, 72, 32, 7, 1, 1, 4},
              {"28x28x48 to 64 groups 4 7x7", 8, 28, 48, 64, 7, 1, 1, 4},
              {"28x28x64 groups 4", 8, 28, 64, 64, 3, 1, 1, 4},
              {"28x28x64 groups 4 5x5", 8, 28, 64, 64, 5, 1, 1, 4},
              {"28x28x64 groups 4 7x7", 8, 28, 64, 64, 7, 1, 1, 4},
              {"28x28x72 to 96 groups 4", 8, 28, 72, 96, 3, 1, 1, 4},
              {"28x28x72 to 96 groups 4 5x5", 8, 28, 72, 96, 5, 1, 1, 4},
              {"28x28x72 to 96 groups 4 7x7", 8, 28, 72, 96, 7, 1, 1, 4},
              {"28x28x64 5x5 stride 2", 8, 28, 64, 64, 5, 2, 1, 1},
              {"28x28x64 7x7 stride 2", 8, 28, 64, 64, 7, 2, 1, 1},
              {"28x28x32 5x5", 8, 28, 32, 32, 5, 1, 1, 1},
              {"14x14x64 5x5", 8, 14, 64, 64, 5, 1, 1, 1},
              {"28x28x104 to 128 5x5", 16, 28, 104, 128, 5, 1, 1, 1},
              {"14x14x128 to 72 5x5", 64, 14, 128, 72, 5, 1, 1, 1},
              {"56x56x128 to 16 7x7", 4, 56, 128, 16, 7, 1, 1, 1},
              {"28x28x64 7x7", 8, 28, 64, 64, 7, 1, 1, 1},
              {"28x28x32 dilation 2", 8, 28, 32, 32, 3, 1, 2, 1},
              {"14x14x40", 8, 14, 40, 40, 3, 1, 1, 1},
              {"few 24x24 64 to 3 5x5", 8, 24, 64, 3, 5, 1, 1, 1},
              {"few 28x28 32 to 1", 8, 28, 32, 1, 3, 1, 1, 1},
              {"few 28x28 3 to 64 5x5 stride 2", 16, 28, 3, 64, 5, 2, 1, 1},
              {"few 28x28 64 to 4 dilation 2", 8, 28, 64, 4, 3, 1, 2, 1},
              {"few 32x32 48 to 2 7x7", 8, 32, 48, 2, 7, 1, 1, 1},
              {"few 28x28 64 to 16 groups 4", 8, 28, 64, 16, 3, 1, 1, 4},
              {"few 28x28 16 to 3", 8, 28, 16, 3, 3, 1, 1, 1},
              {"many 2x2x512", 2, 2, 512, 512, 3, 1, 1, 1},
              {"many 4x4x256", 2, 4, 256, 256, 3, 1, 1, 1},
              {"many 7x7x512", 2, 7, 512, 512, 3, 1, 1, 1},
              {"many 7x7x512 batch 8", 8, 7, 512, 512, 3, 1, 1, 1},
              {"many 14x14x256 batch 8", 8, 14, 256, 256, 3, 1, 1, 1},
              {"many 28x28x512", 1, 28, 512, 512, 3, 1, 1, 1}};

/* Returns the GFLOP/s of the fastest of many runs that fetch `value`, one value of y; -1 after an error. A copy of the
 * whole y would take a quarter of the time. */
static double measure(tp_session *s, tp_node *value, double flops)
{
    double best = 1e9;
    const double end = tp_time() + 0.3;
    for (int i = 0; i < 5 || tp_time() < end; i++) {
        const tp_tensor *out = NULL;
        const double begin = tp_time();
        if (tp_session_run(s, NULL, 0, &value, 1, &out) != TP_OK) return puts(tp_last_error()), -1;
        const double t = tp_time() - begin;
        if (t < best) best = t;
    }
    return flops / best * 1e-9;
}

static tp_node *first_value(tp_node *y)
{
    const int64_t begin[4] = {0, 0, 0, 0}, size[4] = {1, 1, 1, 1};
    return tp_slice(y, begin, size);
}
static tp_node *variable(tp_graph *g, const char *name, tp_shape shape)
{
    return tp_get_variable_as(g, name, TP_F32, shape, tp_init_normal(0.0f, 1.0f));
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    tp_session_config config = tp_default_session_config();
    config.threads = 1;
    if (argc > 2) config.isa = argv[2];
    for (int i = 0; i < TP_COUNT(shapes); i++) {
        if (!strstr(shapes[i].name, only)) continue;
        const int B = shapes[i].batch, H = shapes[i].size, C = shapes[i].channels, O = shapes[i].filters,
                  K = shapes[i].kernel;
        const int groups = shapes[i].groups, OH = (H + shapes[i].stride - 1) / shapes[i].stride;
        tp_conv2d_attrs a;
        memset(&a, 0, sizeof a);
        a.stride_h = a.stride_w = shapes[i].stride;
        a.dilation_h = a.dilation_w = shapes[i].dilation;
        a.padding = TP_SAME;
        a.groups = groups;
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = variable(g, "x", tp_make_shape(B, H, H, C)),
                *w = variable(g, "w", tp_make_shape(K, K, C / groups, O));
        tp_node *dy = variable(g, "dy", tp_make_shape(B, OH, OH, O));
        tp_node *y = first_value(tp_nn_conv2d(x, w, &a)), *dx = first_value(tp_nn_conv2d_input_grad(dy, w, x, &a)),
                *dw = first_value(tp_nn_conv2d_filter_grad(x, dy, w, &a));
        const double flops = 2.0 * B * OH * OH * K * K * (C / groups) * O;
        tp_session *s = tp_session_new(g, &config);
        if (!s) return puts(tp_last_error()), 1;
        const double speed[3] = {measure(s, y, flops), measure(s, dx, flops), measure(s, dw, flops)};
        printf("{\"shape\": \"%s\", \"y\": %.1f, \"dx\": %.1f, \"dw\": %.1f}\n", shapes[i].name, speed[0], speed[1],
               speed[2]);
        fflush(stdout);
        tp_session_free(s);
        tp_graph_free(g);
        if (speed[0] < 0 || speed[1] < 0 || speed[2] < 0) return 1;
    }
    return 0;
}
