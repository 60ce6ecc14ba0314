/* export_nets.h - what the tests of both exporters build */
static tp_graph *inference_tower(void)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_desc d;
    memset(&d, 0, sizeof d);
    tp_disable_layer_logging(g);
    tp_tower_enter(g, &d);
    return g;
}

/* A block of a residual network: strided convolutions, batch norm, a shortcut that is pooled and padded with channels.
 * image (B,9,9,6) -> features (B,12). */
static tp_node *residual_block(tp_graph *g, tp_node **x)
{
    tp_node *in = tp_placeholder(g, "image", TP_F32, tp_make_shape(TP_ANY, 9, 9, 6)), *c = NULL;
    TP_ARGSCOPE(g, conv2d, .kernel_size = 3, .use_bias = TP_NO)
    {
        c = tp_linear(in, TP_BN_RELU("bn0"), TP_CONV2D("conv1", .filters = 12, .strides = 2), TP_BN_RELU("bn1"),
                      TP_CONV2D("conv2", .filters = 12));
    }
    tp_pool_attrs p;
    memset(&p, 0, sizeof p);
    p.size_h = p.size_w = 2, p.padding = TP_SAME;
    const int64_t before[4] = {0, 0, 0, 3};
    tp_node *shortcut = tp_pad(tp_nn_avg_pool(in, &p), before, before, TP_PAD_CONSTANT, 0);
    const int axes[2] = {1, 2};
    *x = in;
    return tp_named(tp_reduce_mean(tp_relu(tp_add(c, shortcut)), axes, 2, false), "features");
}
