/* layers_only.c - layers and ops without a trainer: build a graph, run it by hand, look at what is in it
 *
 *   gcc -std=c11 -O2 -I.. layers_only.c -lm -lpthread -o layers_only && ./layers_only
 *
 * Nothing is trained here. A layer only adds nodes to a graph; a session runs the nodes that you ask for, with the values that you
 * feed. The program runs a small network, reads the output of a layer in its middle by its name, feeds that layer's output
 * instead of the image, and differentiates the network by the image, which it checks against finite differences. Start here if
 * you know tensorpack or TensorFlow 1 and want to see the parts before a trainer puts them together. The next one is
 * training_loop.c. tensorpack's documentation calls this "use layers without a trainer". */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_layers.h"
#include "options.h"
#include <math.h>

#define BATCH 2

static tp_node *network(tp_node *image)
{
    tp_node *logits = NULL;
    TP_ARGSCOPE(tp_node_graph(image), conv2d, .filters = 4, .kernel_size = 3, .activation = tp_tanh)
    {
        logits = tp_linear(image, TP_CONV2D("conv0"), TP_AVG_POOLING("pool0", .pool_size = 2), TP_CONV2D("conv1"),
                           TP_GLOBAL_AVG_POOLING("gap"), TP_FULLY_CONNECTED("fc", .units = 3));
    }
    return logits;
}

static void show(const char *what, const tp_tensor *t)
{
    char shape[TP_SHAPE_TEXT];
    printf("%-14s %-12s", what, tp_shape_text(&t->shape, shape));
    for (int i = 0; i < 6 && i < tp_tensor_size(t); i++) printf(" %7.4f", tp_tensor_get(t, i));
    printf("%s\n", tp_tensor_size(t) > 6 ? " ..." : "");
}

int main(int argc, char **argv)
{
    read_options(argc, argv, NULL, 0);

    /* 1. The graph. Some layers do different things in training and in inference, so they are built in a tower, which says
     * which of the two this is. */
    tp_graph *g = tp_graph_new(NULL);
    if (!g) return 1;
    const tp_tower_desc tower = {.is_training = false};
    tp_node *image =
        tp_placeholder(g, "image", TP_F32, tp_make_shape(TP_ANY, 8, 8, 1)); /* TP_ANY: any number of images */
    tp_tower_enter(g, &tower);
    tp_node *prob = tp_named(tp_softmax(network(image)), "prob");
    tp_tower_leave(g);

    /* 2. The derivative of the first class's probability, by the image: more nodes. */
    const int64_t begin[] = {0, 0}, size[] = {-1, 1};
    tp_node *first = tp_sum(tp_slice(prob, begin, size)), *d_image = NULL;
    tp_gradients(first, &image, 1, &d_image);

    /* Builders never fail one by one: the graph keeps the first mistake, with the line of this file. */
    if (tp_graph_status(g) != TP_OK) {
        printf("%s\n", tp_graph_error(g));
        tp_graph_free(g);
        return 1;
    }
    for (int i = 0; i < tp_graph_n_variables(g); i++) {
        const tp_variable *v = tp_graph_variable(g, i);
        char shape[TP_SHAPE_TEXT];
        printf("variable %-10s %s\n", v->name, tp_shape_text(&v->shape, shape));
    }

    /* 3. A session holds the values of the variables. Each run says what goes in and what is wanted. */
    static float pixels[BATCH * 64];
    for (int i = 0; i < BATCH * 64; i++) pixels[i] = tp_random_uniform(1, 0, (uint64_t)i);
    tp_session *s = tp_session_new(g, NULL);
    const tp_feed feed = TP_FEED(image, TP_F32, pixels, BATCH, 8, 8, 1);
    tp_node *middle = tp_graph_find(g, "pool0/output"); /* any node can be fetched, by its name too */
    tp_node *const fetch[] = {prob, middle, first, d_image};
    const tp_tensor *out[4];
    tp_tensor kept[3]; /* what a run returns is the session's, until the next run: copy what is needed longer */
    memset(kept, 0, sizeof kept);
    bool good = s && tp_session_run(s, &feed, 1, fetch, 4, out) == TP_OK;
    if (good) show("prob", out[0]), show("pool0/output", out[1]), show("d prob/d image", out[3]);
    if (good) tp_tensor_copy(&kept[0], out[0]), tp_tensor_copy(&kept[1], out[1]), tp_tensor_copy(&kept[2], out[3]);

    /* 4. Any node can be fed, too: with pool0's output given, neither the image nor conv0 is needed. */
    if (good) {
        const tp_feed inner = tp_make_feed(middle, TP_F32, kept[1].shape, kept[1].data);
        good = tp_session_run(s, &inner, 1, fetch, 1, out) == TP_OK;
        for (int i = 0; good && i < BATCH * 3; i++) good = tp_tensor_get(out[0], i) == tp_tensor_get(&kept[0], i);
        printf("from pool0's output on: %s\n", good ? "the same probabilities, bit for bit" : "other probabilities!");
    }

    /* 5. Is the derivative right? Move one pixel a little, both ways, and see how the value changes. */
    double worst = 0, largest = 0;
    for (int i = 0; good && i < BATCH * 64; i++) {
        const float h = 1e-2f, was = pixels[i];
        double value[2] = {0, 0};
        for (int side = 0; side < 2 && good; side++) {
            pixels[i] = side ? was - h : was + h;
            good = tp_session_run(s, &feed, 1, &first, 1, out) == TP_OK;
            if (good) value[side] = tp_tensor_get(out[0], 0);
        }
        pixels[i] = was;
        const double d = tp_tensor_get(&kept[2], i), numeric = (value[0] - value[1]) / (2 * (double)h);
        worst = fmax(worst, fabs(d - numeric));
        largest = fmax(largest, fabs(d));
    }
    if (good) printf("largest derivative %.5f, largest error against finite differences %.7f\n", largest, worst);
    else printf("%s\n", tp_last_error());
    good = good && worst < 0.01 * largest;

    for (int i = 0; i < 3; i++) tp_tensor_free(&kept[i]);
    tp_session_free(s);
    tp_graph_free(g);
    return good ? 0 : 1;
}
