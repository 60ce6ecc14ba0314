/* tp_layers.h - v0.1 - tensorpack's symbolic layers, argscope, LinearWrap, weight decay
 *
 * Do this:
 *     #define TP_IMPLEMENTATION        // in ONE .c file, before any other include
 *     #include "tp_layers.h"           // pulls in tp_graph.h
 *
 * WHAT THIS IS       functions that add a layer to a graph: its variables (conv0/W, conv0/b), its ops, its output node
 *                    (conv0/output), all with the names that tensorpack gives them; scopes of default options; chains.
 * WHAT THIS IS NOT   anything that runs or trains. Layers only add nodes: they can be mixed with every op of tp_graph.h.
 *
 * A COMPLETE PROGRAM
 *     #define TP_IMPLEMENTATION
 *     #include "tp_layers.h"
 *     static tp_node *half(tp_node *x, void *user)
 *     {
 *         (void)user;
 *         return tp_affine(x, 0.5f, 0.0f);
 *     }
 *     int main(void)
 *     {
 *         tp_graph *g = tp_graph_new(NULL);
 *         tp_node *image = tp_placeholder(g, "image", TP_F32, tp_make_shape(TP_ANY, 28, 28, 1)), *l = image;
 *         tp_tower_desc tower = {.is_training = true};
 *         tp_tower_enter(g, &tower);
 *         TP_ARGSCOPE(g, conv2d, .filters = 32, .kernel_size = 3, .activation = tp_relu) {
 *             l = tp_conv2d(l, "conv0");
 *             l = tp_linear(l,
 *                 TP_MAX_POOLING("pool0", .pool_size = 2),
 *                 TP_CONV2D("conv1", .kernel_size = 5),
 *                 TP_FULLY_CONNECTED("fc0", .units = 512, .activation = tp_relu),
 *                 TP_DROPOUT("dropout", .rate = 0.5f),
 *                 TP_APPLY(half, NULL),
 *                 TP_FULLY_CONNECTED("fc1", .units = 10));
 *         }
 *         tp_node *decay = tp_regularize_cost(g, "fc.+/W", tp_l2_regularizer(1e-5f), NULL);
 *         tp_tower_leave(g);
 *         if (tp_graph_status(g) != TP_OK) puts(tp_graph_error(g));
 *         else printf("%s and %s\n", tp_node_name(l), tp_node_name(decay));
 *         tp_graph_free(g);
 *         return 0;
 *     }
 *
 * CONTENTS   >>calls >>layers >>argscope >>linear >>registry >>regularize >>symbolic
 *
 * CALLS      y = tp_conv2d(x, "conv0", .filters = 32, .kernel_size = 3): the input, the name, then options by name. An option
 *            that is not given takes the enclosing argscope's value, else the default in its comment. One that is given means
 *            what it says, also .use_bias = false and .momentum = 0. In a descriptor that you fill in by hand, 0 means "not
 *            given"; write TP_NO or TP_ZERO there (OPTIONS in tp_tensor.h). C++20 takes the same calls, with the options in the
 *            order of the struct's fields; before C++20 fill a descriptor and call tp_conv2d_(x, &d).
 * OWNERSHIP  the graph owns everything. Descriptors are read during the call and never kept.
 * THREADS    as for the graph: only one thread at a time builds a graph.
 * ERRORS     a layer that is used wrongly returns a poison node; the graph keeps the error sentence, with the file and line of
 *            the call and the layer's name.
 * NOTATION   B batch, H W height and width, C input channels, O filters, K kernel; NHWC unless data_format says NCHW.
 */
#ifndef TP_LAYERS_H
#define TP_LAYERS_H

#include "tp_graph.h"
/* clang-format off */
#if TP_VERSION_MAJOR != 0 || TP_VERSION_MINOR != 1
#error "tp_layers.h 0.1 needs tp_tensor.h 0.1: copy all tp headers from the same version"
#endif
/* clang-format on */

#ifdef __cplusplus
extern "C" {
#endif

/* ==== >>calls ========================================================================================= */

/* Every layer's options begin with these two: the place of the call (filled in by the macros) and the layer's name. */
typedef struct tp_layer_head {
    tp_at at_;
    const char *name;
} tp_layer_head;

/* Any function from a node to a node. It is called inside the layer's variable scope, so `.activation = tp_bn_relu` creates
 * conv0/bn/gamma. tp_identity means no activation and overrides an inherited one. */
typedef tp_node *(*tp_activation)(tp_node *x);

/* Fields x and x_w are a pair (height, width): x_w = 0 means the value of x. They are given and inherited together. Default
 * initialisers: weights normal with standard deviation sqrt(2/fan_in), not truncated; biases zero. A regularizer adds one scalar
 * to REGULARIZATION_LOSSES when the variable is created; activity_regularizer is applied to the layer's output. */

/* ==== >>layers ======================================================================================== */

/* -- Conv2D: (B,H,W,C) -> (B,H',W',O); conv, bias, activation. Variables W (KH,KW,C/split,O), in both data formats,
 *    and b (O). SAME: H' = ceil(H/stride), an odd row of padding is added at the bottom; VALID: ceil((H-K+1)/stride).
 *    Along a sequence (B,T,C): tp_conv2d(tp_expand_dims(x, 1), "conv", .filters = 32, .kernel_size = 1, .kernel_size_w = 3)
 *    returns (B,1,T,32). */
typedef struct tp_conv2d_desc {
    tp_at at_;
    const char *name;
    int filters;                        /* number of output channels; required */
    int kernel_size, kernel_size_w;     /* height and width of the filter; required */
    int strides, strides_w;             /* distance between two windows; default 1 */
    tp_padding padding;                 /* padding of the image; default TP_SAME */
    tp_data_format data_format;         /* order of the dimensions; default TP_NHWC */
    int dilation_rate, dilation_rate_w; /* distance between two elements of the filter; default 1 */
    int split;                          /* groups: each group of output channels reads only its own group of input
                                         * channels; default 1 */
    tp_activation activation;           /* function that is applied last; default none */
    tp_tri use_bias;                    /* whether a bias is added; default TP_YES */
    tp_init kernel_initializer, bias_initializer;
    tp_regularizer kernel_regularizer, bias_regularizer, activity_regularizer;
} tp_conv2d_desc;
TP_DEF tp_node *tp_conv2d_(tp_node *x, const tp_conv2d_desc *d);

/* -- FullyConnected: (B,...) -> (B,units). All dimensions after the batch are flattened in memory order, so the weights for
 *    NHWC and NCHW inputs differ. A sequence (B,T,C) is flattened, too: to (B,T*C). For the same weights (C,units) at each of the T
 *    steps make rows of them: tp_fully_connected(tp_reshape(x, TP_ANY, C), ..), then tp_reshape(y, TP_ANY, T, units).
 *    Variables W (in,units), b (units). */
typedef struct tp_fully_connected_desc {
    tp_at at_;
    const char *name;
    int units;                /* number of outputs; required */
    tp_activation activation; /* function that is applied last; default none */
    tp_tri use_bias;          /* whether a bias is added; default TP_YES */
    tp_init kernel_initializer, bias_initializer;
    tp_regularizer kernel_regularizer, bias_regularizer, activity_regularizer;
} tp_fully_connected_desc;
TP_DEF tp_node *tp_fully_connected_(tp_node *x, const tp_fully_connected_desc *d);

/* -- MaxPooling, AvgPooling: (B,H,W,C) -> (B,H',W',C). The maximum ignores padding; the mean does not count it. */
typedef struct tp_pooling_desc {
    tp_at at_;
    const char *name;
    int pool_size, pool_size_w; /* height and width of the window; required */
    int strides, strides_w;     /* distance between two windows; default: pool_size */
    tp_padding padding;         /* padding of the image; default TP_VALID, unlike Conv2D */
    tp_data_format data_format; /* order of the dimensions; default TP_NHWC */
} tp_pooling_desc;
typedef tp_pooling_desc tp_max_pooling_desc;
typedef tp_pooling_desc tp_avg_pooling_desc;
TP_DEF tp_node *tp_max_pooling_(tp_node *x, const tp_max_pooling_desc *d);
TP_DEF tp_node *tp_avg_pooling_(tp_node *x, const tp_avg_pooling_desc *d);

/* -- GlobalAvgPooling: (B,H,W,C) -> (B,C) */
typedef struct tp_global_avg_pooling_desc {
    tp_at at_;
    const char *name;
    tp_data_format data_format; /* order of the dimensions; default TP_NHWC */
} tp_global_avg_pooling_desc;
TP_DEF tp_node *tp_global_avg_pooling_(tp_node *x, const tp_global_avg_pooling_desc *d);

/* -- BatchNorm of (B,C) or of four dimensions: y = gamma*(x-mean)/sqrt(var+epsilon) + beta, where gamma, beta, mean and var
 *    have shape (C).
 *    training: uses mean and biased variance of the batch and updates ema = ema - (1-momentum)*(ema - batch); momentum is the
 *    fraction of ema that is KEPT. Otherwise: uses mean/EMA and variance/EMA (in a training tower: a frozen BatchNorm). With
 *    four dimensions the running variance is updated with the unbiased variance (times N/(N-1)) and epsilon is at least
 *    1.001e-5; with two dimensions, with the biased variance, and epsilon is as given. Variables gamma, beta, mean/EMA,
 *    variance/EMA. Needs a tower.
 *    virtual_batch_size V: in training each group of V samples is normalised separately; the batch must be a multiple of V. The
 *    running mean and variance are updated with the first V samples' mean and biased variance, as with TP_EMA_INTERNAL.
 *    sync_statistics TP_SYNC_TOWERS: in training the mean and the mean of squares are averaged over all towers, whose batches
 *    should have equal size; their gradients are all-reduced too. The result equals that of one tower with all batches, running
 *    statistics included (in tensorpack these are updated with the biased variance). tp_build_on_towers creates the towers. If
 *    there is only one tower, the layer warns and is an ordinary BatchNorm. Cannot be combined with virtual_batch_size.
 *    TP_SYNC_RANKS: the same, over the towers of this process and over all ranks of a HorovodTrainer, as with TP_EMA_INTERNAL. In
 *    one process the layer warns and averages over the towers. Other trainers, those with parameter servers too, refuse it
 *    in a job of several ranks. Each layer costs two messages in a step, which all ranks wait for; inference sends none. */
typedef enum tp_ema_update {
    TP_EMA_DEFAULT = 0, /* the default, TP_EMA_COLLECTION */
    /* adds two update ops to the collection TP_KEY_UPDATE_OPS, but not in training towers other than the main one; the caller or a
     * callback must run them in each step */
    TP_EMA_COLLECTION,
    TP_EMA_INTERNAL, /* the running statistics are updated whenever the output is computed */
    TP_EMA_SKIP      /* the running statistics are never updated */
} tp_ema_update;
typedef enum tp_sync_statistics {
    TP_SYNC_DEFAULT = 0, /* the default, TP_SYNC_NONE */
    TP_SYNC_NONE,        /* each tower normalises by its own batch */
    TP_SYNC_TOWERS,      /* each tower normalises by the statistics of all towers of its process ["nccl"] */
    TP_SYNC_RANKS        /* by the statistics of all towers of all ranks ["horovod"] */
} tp_sync_statistics;
typedef struct tp_batch_norm_desc {
    tp_at at_;
    const char *name;
    int axis; /* the channel axis: 1 or 3; default: as data_format says, 1 for two dimensions */
    /* whether the layer works as in training; default: whether the tower is a training tower */
    tp_tri training;
    float momentum;             /* decay of the running averages; default 0.9; write TP_ZERO for 0 */
    float epsilon;              /* added to avoid a division by 0; default 1e-5; write TP_ZERO for 0 */
    tp_tri center, scale;       /* create beta, gamma; default TP_YES */
    tp_init beta_initializer;   /* initial value of beta; default zeros */
    tp_init gamma_initializer;  /* initial value of gamma; default ones */
    tp_data_format data_format; /* order of the dimensions; default TP_NHWC */
    tp_ema_update ema_update;
    int virtual_batch_size; /* number of samples that are normalised together; default: the whole batch */
    tp_sync_statistics sync_statistics;
} tp_batch_norm_desc;
TP_DEF tp_node *tp_batch_norm_(tp_node *x, const tp_batch_norm_desc *d);

/* -- Dropout: in training each element is kept with probability 1-rate and divided by 1-rate, or set to 0; otherwise the
 *    identity. The name may be omitted. Without .training it needs a tower. A rate that changes, such as a scalar variable that a
 *    HyperParamSetter sets, is made of ops: tp_div(tp_mul(x, kept), tp_sub(one, rate)), one being tp_const(g, 1) and kept
 *    tp_cast(tp_greater_equal(tp_rand_uniform_like(x, 0, 1), rate), TP_F32). */
typedef struct tp_dropout_desc {
    tp_at at_;
    const char *name;
    float rate;      /* probability that an element becomes 0; default 0.5; write TP_ZERO for 0 */
    float keep_prob; /* 1-rate; give rate or keep_prob, not both */
    tp_tri training; /* whether the layer works as in training; default: whether the tower is a training tower */
    int end_;        /* tp_dropout ends its list with it: C wants something in place of each "..." */
} tp_dropout_desc;
TP_DEF tp_node *tp_dropout_(tp_node *x, const tp_dropout_desc *d);

/* -- BNReLU: BatchNorm "bn", then relu. tp_bn_relu(x) works in the current scope (use it as an activation), tp_bn_relu(x,
 *    "name") in a scope of its own. The output is named Relu. Its options come from the argscope of batch_norm. */
typedef struct tp_bn_relu_desc {
    tp_at at_;
    const char *name;
} tp_bn_relu_desc;
TP_DEF tp_node *tp_bn_relu_(tp_node *x, const tp_bn_relu_desc *d);
TP_DEF tp_node *tp_bn_relu(tp_node *x);

/* -- Conv2DTranspose, also called Deconv2D: (B,H,W,C) -> (B,H',W',O); the gradient of a convolution from O to C channels,
 *    then bias, activation. SAME: H' = H*stride; VALID: H*stride + max(K-stride, 0). Variables W (KH,KW,O,C), whose fan_in
 *    is KH*KW*O, and b (O). */
typedef struct tp_conv2d_transpose_desc {
    tp_at at_;
    const char *name;
    int filters;                    /* number of output channels; required */
    int kernel_size, kernel_size_w; /* height and width of the filter; required */
    int strides, strides_w;         /* distance between two windows; default 1 */
    tp_padding padding;             /* padding of the image; default TP_SAME */
    tp_data_format data_format;     /* order of the dimensions; default TP_NHWC */
    tp_activation activation;       /* function that is applied last; default none */
    tp_tri use_bias;                /* whether a bias is added; default TP_YES */
    tp_init kernel_initializer, bias_initializer;
    tp_regularizer kernel_regularizer, bias_regularizer, activity_regularizer;
} tp_conv2d_transpose_desc;
typedef tp_conv2d_transpose_desc tp_deconv2d_desc;
TP_DEF tp_node *tp_conv2d_transpose_(tp_node *x, const tp_conv2d_transpose_desc *d);

/* -- DepthwiseConv2D: (B,H,W,C) -> (B,H',W',C*M): the M filters of channel c produce the channels c*M..c*M+M-1. Variables W
 *    (KH,KW,C,M) and, with .use_bias, b (C*M). */
typedef struct tp_depthwise_conv2d_desc {
    tp_at at_;
    const char *name;
    int depth_multiplier;               /* M, filters per input channel; default 1 */
    int kernel_size, kernel_size_w;     /* height and width of the filter; required */
    int strides, strides_w;             /* distance between two windows; default 1 */
    tp_padding padding;                 /* padding of the image; default TP_SAME */
    tp_data_format data_format;         /* order of the dimensions; default TP_NHWC */
    int dilation_rate, dilation_rate_w; /* distance between two elements of the filter; default 1 */
    tp_activation activation;           /* function that is applied last; default none */
    tp_tri use_bias;                    /* whether a bias is added; default TP_NO, unlike Conv2D */
    tp_init kernel_initializer, bias_initializer;
    tp_regularizer kernel_regularizer, bias_regularizer, activity_regularizer;
} tp_depthwise_conv2d_desc;
TP_DEF tp_node *tp_depthwise_conv2d_(tp_node *x, const tp_depthwise_conv2d_desc *d);

/* -- FixedUnPooling: (B,H,W,C) -> (B,H*SH,W*SW,C): each element is multiplied by a matrix (SH,SW), by default 1 at the top left
 *    and 0 elsewhere. The matrix may be any node and gets a gradient. No variables; the output keeps the name of its op. */
typedef struct tp_fixed_unpooling_desc {
    tp_at at_;
    const char *name;
    int shape, shape_w; /* SH, SW: factors of height and width; required */
    tp_node *unpool_mat;
    tp_data_format data_format; /* order of the dimensions; default TP_NHWC */
} tp_fixed_unpooling_desc;
TP_DEF tp_node *tp_fixed_unpooling_(tp_node *x, const tp_fixed_unpooling_desc *d);

/* -- CaffeBilinearUpSample: (B,H,W,C) -> (B,H*S,W*S,C), each channel is convolved with the fixed kernel of Caffe's "bilinear"
 *    filler. */
typedef struct tp_caffe_bilinear_upsample_desc {
    tp_at at_;
    const char *name;
    int shape;                  /* factor of height and width; required */
    tp_data_format data_format; /* order of the dimensions; default TP_NHWC */
} tp_caffe_bilinear_upsample_desc;
TP_DEF tp_node *tp_caffe_bilinear_upsample_(tp_node *x, const tp_caffe_bilinear_upsample_desc *d);

/* -- LayerNorm, InstanceNorm, GroupNorm: y = gamma*(x-mean)/sqrt(var+epsilon) + beta with mean and biased variance of each
 *    sample: over all its elements (LayerNorm), per channel (InstanceNorm), or per group of C/groups adjacent channels
 *    (GroupNorm). x is (B,H,W,C); LayerNorm also takes (B,C). gamma and beta are (C), one value per channel. Training and
 *    inference compute the same. To normalise each step of a sequence (B,T,C), make rows: tp_layer_norm(tp_reshape(x, TP_ANY, C),
 *    ..), then tp_reshape(y, TP_ANY, T, C); or use the op tp_nn_layer_norm. */
typedef struct tp_layer_norm_desc {
    tp_at at_;
    const char *name;
    float epsilon;              /* added to avoid a division by 0; default 1e-5; write TP_ZERO for 0 */
    tp_tri center, scale;       /* create beta, gamma; default TP_YES */
    tp_init gamma_initializer;  /* initial value of gamma; default ones */
    tp_data_format data_format; /* order of the dimensions; default TP_NHWC */
} tp_layer_norm_desc;
typedef tp_layer_norm_desc tp_instance_norm_desc;
typedef struct tp_group_norm_desc {
    tp_at at_;
    const char *name;
    float epsilon;              /* added to avoid a division by 0; default 1e-5; write TP_ZERO for 0 */
    tp_tri center, scale;       /* create beta, gamma; default TP_YES */
    tp_init gamma_initializer;  /* initial value of gamma; default ones */
    tp_data_format data_format; /* order of the dimensions; default TP_NHWC */
    int groups;                 /* number of groups of channels; default 32 */
} tp_group_norm_desc;
TP_DEF tp_node *tp_layer_norm_(tp_node *x, const tp_layer_norm_desc *d);
TP_DEF tp_node *tp_instance_norm_(tp_node *x, const tp_instance_norm_desc *d);
TP_DEF tp_node *tp_group_norm_(tp_node *x, const tp_group_norm_desc *d);

/* -- BatchRenorm of (B,C) or of four dimensions. In training, with s = sqrt(var+epsilon) of the batch and M, S the running mean
 *    and standard deviation: y = gamma*((x-mean)/s*r + d) + beta; r = s/S within [1/rmax, rmax], d = (mean-M)/S within [-dmax,
 *    dmax], r and d have no gradient. In inference it computes what BatchNorm computes. Variables gamma, beta, moving_mean,
 *    moving_variance, renorm_mean, renorm_mean_weight, renorm_stddev, renorm_stddev_weight; two ops in TP_KEY_UPDATE_OPS. Needs a
 *    tower. */
typedef struct tp_batch_renorm_desc {
    tp_at at_;
    const char *name;
    float rmax; /* upper bound of the correction r; required, 1 or more */
    float dmax; /* required, TP_ZERO for 0; rmax_node and dmax_node can be given instead of rmax and dmax */
    tp_node *rmax_node, *dmax_node;
    float momentum;             /* decay of the running averages; default 0.9; write TP_ZERO for 0 */
    float epsilon;              /* added to avoid a division by 0; default 1e-5; write TP_ZERO for 0 */
    tp_tri center, scale;       /* create beta, gamma; default TP_YES */
    tp_init gamma_initializer;  /* initial value of gamma; default ones */
    tp_data_format data_format; /* order of the dimensions; default TP_NHWC */
} tp_batch_renorm_desc;
TP_DEF tp_node *tp_batch_renorm_(tp_node *x, const tp_batch_renorm_desc *d);

/* -- PReLU: x > 0: x; else alpha*x. Variable alpha, one scalar. */
typedef struct tp_prelu_desc {
    tp_at at_;
    const char *name;
    float init; /* initial value of alpha; default 0.001; write TP_ZERO for 0 */
} tp_prelu_desc;
TP_DEF tp_node *tp_prelu_(tp_node *x, const tp_prelu_desc *d);

/* -- Maxout: (B,..,C) -> (B,..,C/num_unit), the largest of every num_unit adjacent channels. The name may be omitted. */
typedef struct tp_maxout_desc {
    tp_at at_;
    const char *name;
    int num_unit; /* number of channels of which the largest is taken; required */
} tp_maxout_desc;
TP_DEF tp_node *tp_maxout_(tp_node *x, const tp_maxout_desc *d);

/* -- ConcatWith: concatenates x and one or more other tensors along an axis. The name may be omitted. */
typedef struct tp_concat_with_desc {
    tp_at at_;
    const char *name;
    tp_node *tensor;         /* one tensor: give either `tensor` or `tensors` */
    tp_node *const *tensors; /* a list of n_tensors tensors */
    int n_tensors;
    int dim; /* axis of the concatenation; required: 1, 2, ..; or -1 for the last axis, -2, .. */
} tp_concat_with_desc;
TP_DEF tp_node *tp_concat_with_(tp_node *x, const tp_concat_with_desc *d);

/* -- GridSample (ImageSample): samples the image (B,H,W,C) at the positions .coords (B,H2,W2,2), given as (row, column), by
 *    bilinear interpolation: (B,H2,W2,C). Image and coordinates get gradients, as in a spatial transformer. See
 *    tp_bilinear_sampler. The name may be omitted. */
typedef struct tp_grid_sample_desc {
    tp_at at_;
    const char *name;
    tp_node *coords; /* the positions (B,H2,W2,2); required */
    int border_mode; /* tp_border: a position outside reads: 0 = TP_BORDER_REPEAT, the nearest pixel;
                      * TP_BORDER_CONSTANT, zeros */
} tp_grid_sample_desc;
TP_DEF tp_node *tp_grid_sample_(tp_node *x, const tp_grid_sample_desc *d);

/* -- SoftMax over the last axis; with use_temperature, the softmax of x*invtemp, where the scalar variable invtemp starts at
 *    1/temperature_init. */
typedef struct tp_softmax_layer_desc {
    tp_at at_;
    const char *name;
    tp_tri use_temperature; /* whether the softmax has a temperature; default TP_NO */
    float temperature_init; /* initial temperature; default 1 */
} tp_softmax_layer_desc;
TP_DEF tp_node *tp_softmax_layer_(tp_node *x, const tp_softmax_layer_desc *d);

/* with TP_NO_SEQUENCE_LAYERS, which leaves these layers out, a program compiles faster and is smaller */
#ifndef TP_NO_SEQUENCE_LAYERS
/* -- Embedding: whole numbers (..) -> (..,units), rows of the variable W (vocab,units). The run fails if an index is out of
 *    range. On the CPU a step of tp_sgd takes time for the rows that were read. Other optimizers, clipping and regularizers need the
 *    gradient of all rows, and take time for the whole table; Momentum and Adam also move rows that no index named. */
typedef struct tp_embedding_desc {
    tp_at at_;
    const char *name;
    int vocab, units;           /* size of the vocabulary, length of a row; required */
    tp_init kernel_initializer; /* initial value of the weights; default glorot uniform */
    tp_regularizer kernel_regularizer;
} tp_embedding_desc;
TP_DEF tp_node *tp_embedding_(tp_node *x, const tp_embedding_desc *d);

/* -- LSTM, GRU: (B,T,C) -> (B,T,units), over all time steps. BasicLSTMCell, GRUCell: one time step, (B,C) -> (B,units); calls
 *    with the same name share their variables, so a loop over the time steps unrolls the cell. Formulas: tp_nn_lstm, tp_nn_gru.
 *    Without a state sequences have one step at least. Lengths are not taken: the state at the end is behind the padding (README:
 *    the last real step of padded sequences).
 *    Variables: LSTM kernel (C+units,4*units), bias; GRU gates/kernel (C+units,2*units), gates/bias, which starts at 1,
 *    candidate/kernel (C+units,units), candidate/bias. Kernels are initialised glorot uniform. */
typedef struct tp_rnn_state { /* states of shape (B,units); NULL = zeros. Only LSTMs have a cell state c */
    tp_node *h, *c;
} tp_rnn_state;
typedef struct tp_rnn_desc {
    tp_at at_;
    const char *name;
    int units;         /* size of the state; required */
    float forget_bias; /* LSTM only, in a GRU an error: default 1; write TP_ZERO for 0 */
    /* TP_YES, in a cell an error: input and output are (T,B,..), time first; default TP_NO: (B,T,..) */
    tp_tri time_major;
    /* on entry the initial state, on return the final state. NULL: starts from zeros, the final state is not
     * returned */
    tp_rnn_state *state;
    tp_init kernel_initializer; /* initial value of the weights; default glorot uniform */
    tp_init bias_initializer;   /* initial value of the biases; default zeros, ones for the GRU's gates */
} tp_rnn_desc;
typedef tp_rnn_desc tp_lstm_desc;
typedef tp_rnn_desc tp_gru_desc;
typedef tp_rnn_desc tp_basic_lstm_cell_desc;
typedef tp_rnn_desc tp_gru_cell_desc;
TP_DEF tp_node *tp_lstm_(tp_node *x, const tp_lstm_desc *d);
TP_DEF tp_node *tp_gru_(tp_node *x, const tp_gru_desc *d);
TP_DEF tp_node *tp_basic_lstm_cell_(tp_node *x, const tp_basic_lstm_cell_desc *d);
TP_DEF tp_node *tp_gru_cell_(tp_node *x, const tp_gru_cell_desc *d);

/* -- MultiHeadAttention: (B,T,C) -> (B,T,units): queries from x, keys and values from x or from another sequence
 *    (B,S,D), attention with `heads` heads (tp_nn_attention), then a linear projection.
 *    Sequences of different lengths are padded to one length, and .mask hides the padding: it is 1 for a key that is attended to, 0
 *    for padding, of any type, and has the shape (B,S), or (B,T,S) if it differs between queries. A query whose keys are all hidden
 *    gets the mean of all values. With a mask the scores (B,heads,T,S) are computed by ops and stored, without one they are not.
 *    Variables Wq (C,units), Wk, Wv (D,units), Wo (units,units), bq, bk, bv, bo (units). */
typedef struct tp_multi_head_attention_desc {
    tp_at at_;
    const char *name;
    int heads;                  /* number of heads, which divides units; required */
    int units;                  /* size of queries, keys and values; default: C */
    tp_tri causal;              /* causal: a query does not attend to later keys; default TP_NO */
    tp_node *key, *value;       /* key: default the layer's input; value: default key */
    tp_node *mask;              /* 1: the key is attended to, 0: it is hidden; default: no key is hidden */
    tp_tri use_bias;            /* whether a bias is added; default TP_YES */
    tp_init kernel_initializer; /* initial value of the weights; default glorot uniform */
    tp_init bias_initializer;   /* initial value of the biases; default zeros */
    tp_regularizer kernel_regularizer;
} tp_multi_head_attention_desc;
TP_DEF tp_node *tp_multi_head_attention_(tp_node *x, const tp_multi_head_attention_desc *d);
#endif

TP_DEF const tp__zero_option *tp__layers_zeros(void);
/* clang-format off */
#ifndef __cplusplus
#define tp_conv2d(x, ...) TP__CALL_X(layers, tp_conv2d, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_fully_connected(x, ...) TP__CALL_X(layers, tp_fully_connected, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_max_pooling(x, ...) TP__CALL_X(layers, tp_max_pooling, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_avg_pooling(x, ...) TP__CALL_X(layers, tp_avg_pooling, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_global_avg_pooling(x, ...) TP__CALL_X(layers, tp_global_avg_pooling, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_batch_norm(x, ...) TP__CALL_X(layers, tp_batch_norm, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_dropout(...)                 TP__DROPOUT(__VA_ARGS__, .end_ = 0)
#define TP__DROPOUT(x, ...)             TP__CALL_X(layers, tp_dropout, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_conv2d_transpose(x, ...) TP__CALL_X(layers, tp_conv2d_transpose, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_deconv2d(x, ...)             tp_conv2d_transpose_((x), TP__OPTIONS(layers, tp_deconv2d_desc, #__VA_ARGS__, __VA_ARGS__))
#define tp_depthwise_conv2d(x, ...) TP__CALL_X(layers, tp_depthwise_conv2d, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_fixed_unpooling(x, ...) TP__CALL_X(layers, tp_fixed_unpooling, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_caffe_bilinear_upsample(x, ...) TP__CALL_X(layers, tp_caffe_bilinear_upsample, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_layer_norm(x, ...) TP__CALL_X(layers, tp_layer_norm, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_instance_norm(x, ...) TP__CALL_X(layers, tp_instance_norm, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_group_norm(x, ...) TP__CALL_X(layers, tp_group_norm, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_batch_renorm(x, ...) TP__CALL_X(layers, tp_batch_renorm, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_prelu(x, ...) TP__CALL_X(layers, tp_prelu, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_maxout(x, ...) TP__CALL_X(layers, tp_maxout, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_concat_with(x, ...) TP__CALL_X(layers, tp_concat_with, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_grid_sample(x, ...) TP__CALL_X(layers, tp_grid_sample, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_softmax_layer(x, ...) TP__CALL_X(layers, tp_softmax_layer, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_embedding(x, ...) TP__CALL_X(layers, tp_embedding, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_lstm(x, ...) TP__CALL_X(layers, tp_lstm, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_gru(x, ...) TP__CALL_X(layers, tp_gru, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_basic_lstm_cell(x, ...) TP__CALL_X(layers, tp_basic_lstm_cell, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_gru_cell(x, ...) TP__CALL_X(layers, tp_gru_cell, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_multi_head_attention(x, ...) TP__CALL_X(layers, tp_multi_head_attention, x, #__VA_ARGS__, __VA_ARGS__)
#define tp_bn_relu(...)                 TP__BN_RELU(__VA_ARGS__, NULL, 0)
#define TP__BN_RELU(x, name_, ...)      tp_bn_relu_((x), TP__OPTIONS(layers, tp_bn_relu_desc, "", (name_)))
#elif __cplusplus >= 202002L
#define TP__CXX_LAYER(T, name_, text_, ...) TP__CXX(layers, T, 1, TP__WITH(T, name, name_), #name_ ", " text_ __VA_OPT__(, ) __VA_ARGS__)
#define tp_conv2d(x, name_, ...) TP__CALL_X1(layers, tp_conv2d, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_fully_connected(x, name_, ...) TP__CALL_X1(layers, tp_fully_connected, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_max_pooling(x, name_, ...) TP__CALL_X1(layers, tp_max_pooling, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_avg_pooling(x, name_, ...) TP__CALL_X1(layers, tp_avg_pooling, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_global_avg_pooling(x, name_, ...) TP__CALL_X1(layers, tp_global_avg_pooling, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_batch_norm(x, name_, ...) TP__CALL_X1(layers, tp_batch_norm, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_dropout(x, ...)              TP__CAT(TP__DROPOUT, __VA_OPT__(_NAMED))(x __VA_OPT__(, ) __VA_ARGS__)
#define TP__DROPOUT(x)                  TP__CALL_X(layers, tp_dropout, x, "")
#define TP__DROPOUT_NAMED(x, name_, ...) TP__CALL_X1(layers, tp_dropout, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_conv2d_transpose(x, name_, ...) TP__CALL_X1(layers, tp_conv2d_transpose, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_deconv2d(x, name_, ...) tp_conv2d_transpose_((x), TP__CXX_LAYER(tp_deconv2d_desc, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__))
#define tp_depthwise_conv2d(x, name_, ...) TP__CALL_X1(layers, tp_depthwise_conv2d, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_fixed_unpooling(x, name_, ...) TP__CALL_X1(layers, tp_fixed_unpooling, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_caffe_bilinear_upsample(x, name_, ...) TP__CALL_X1(layers, tp_caffe_bilinear_upsample, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_layer_norm(x, name_, ...) TP__CALL_X1(layers, tp_layer_norm, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_instance_norm(x, name_, ...) TP__CALL_X1(layers, tp_instance_norm, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_group_norm(x, name_, ...) TP__CALL_X1(layers, tp_group_norm, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_batch_renorm(x, name_, ...) TP__CALL_X1(layers, tp_batch_renorm, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_prelu(x, name_, ...) TP__CALL_X1(layers, tp_prelu, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_maxout(x, name_, ...) TP__CALL_X1(layers, tp_maxout, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_concat_with(x, name_, ...) TP__CALL_X1(layers, tp_concat_with, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_grid_sample(x, name_, ...) TP__CALL_X1(layers, tp_grid_sample, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_softmax_layer(x, name_, ...) TP__CALL_X1(layers, tp_softmax_layer, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_embedding(x, name_, ...) TP__CALL_X1(layers, tp_embedding, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_lstm(x, name_, ...) TP__CALL_X1(layers, tp_lstm, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_gru(x, name_, ...) TP__CALL_X1(layers, tp_gru, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_basic_lstm_cell(x, name_, ...) TP__CALL_X1(layers, tp_basic_lstm_cell, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_gru_cell(x, name_, ...) TP__CALL_X1(layers, tp_gru_cell, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_multi_head_attention(x, name_, ...) TP__CALL_X1(layers, tp_multi_head_attention, x, name, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_bn_relu(x, ...) tp_bn_relu_((x), TP__CXX(layers, tp_bn_relu_desc, 0, __VA_OPT__(TP__WITH(tp_bn_relu_desc, name, __VA_ARGS__)), ""))
#endif
/* clang-format on */

/* ==== >>argscope ====================================================================================== */
/* Default options for the layers of a block:
 *
 *     TP_ARGSCOPE(g, conv2d, .filters = 32, .activation = tp_relu) { ... }
 *     TP_ARGSCOPE(g, (conv2d, max_pooling, batch_norm), .data_format = TP_NCHW) { ... }
 *
 * The second argument is one layer, or up to twelve in parentheses; the compiler checks that each has the given options. Scopes
 * nest field by field: an option of a call overrides the inner scope's, which overrides the outer scope's; options that are not
 * given are inherited. Scopes also apply to layers inside layers: the scope of batch_norm applies to tp_bn_relu. Leave the
 * block at its end only (no break, return or goto out of it). The expressions of option values are evaluated once for each
 * layer, so they should have no side effects. */
TP_DEF void tp_argscope_begin(tp_graph *g, const tp_at *at); /* at: the caller's line; may be NULL */
struct tp_layer_type;                                        /* defined in >>registry */
/* Sets the defaults of a layer ("Conv2D" or "conv2d") until the end of the scope; desc is the layer's descriptor, without a
 * name. */
TP_DEF void tp_argscope_set(tp_graph *g, const char *layer, const void *desc);
TP_DEF void tp__argscope_set(tp_graph *g, const struct tp_layer_type *type, const char *layer, const void *desc);
TP_DEF void tp_argscope_end(tp_graph *g);
/* The defaults of a layer in the current scope, as the layer's descriptor; all zero if there are none. Example:
 * TP_GET_ARGSCOPE(g, conv2d)->strides.
 * [argscope: get_arg_scope] */
TP_DEF const void *tp_get_argscope(tp_graph *g, const char *layer);
TP_DEF const void *tp__get_argscope(tp_graph *g, const struct tp_layer_type *type, const char *layer);
/* clang-format off */
#ifdef TP_KEYWORDS
#ifdef __cplusplus
#define TP__ARGSCOPE_AT std::initializer_list<tp_at>{TP_AT}.begin()
#else
#define TP__ARGSCOPE_AT &(const tp_at)TP_AT
#endif
#define TP_GET_ARGSCOPE(g, L) ((const tp_##L##_desc *)tp__get_argscope((g), TP__TYPE(L), #L))
#define TP_ARGSCOPE(g, layers_, ...)                                                                            \
    for (int TP__U(tp__a) = (tp_argscope_begin((g), TP__ARGSCOPE_AT), TP__SET_ALL((g), layers_, __VA_ARGS__), 1); \
         TP__U(tp__a); TP__U(tp__a) = (tp_argscope_end(g), 0))
/* TP__IS_LIST tells whether an argument of TP_ARGSCOPE is one layer (0) or a list of layers in parentheses (1): only with a list
 * TP__IF_LIST becomes a macro call, whose result has a 1 as second argument. */
#define TP__IF_LIST(...)            x_, 1
#define TP__SECOND(a, b, ...)       b
#define TP__IS_LIST(...)            TP__SECOND(__VA_ARGS__, 0, x_)
#define TP__SET_ALL(g, l, ...)      TP__CAT(TP__SET_, TP__IS_LIST(TP__IF_LIST l))(g, l, __VA_ARGS__)
#define TP__SET_0(g, l, ...)        TP__SET1(g, l, __VA_ARGS__)
#define TP__SET_1(g, l, ...)        TP__EXPAND(TP__CAT(TP__SET, TP__HOW_MANY l), g, TP__BARE l, __VA_ARGS__)
#define TP__EXPAND(m, ...)          m(__VA_ARGS__)
#define TP__BARE(...)               __VA_ARGS__
#define TP__HOW_MANY(...)           TP__THIRTEENTH(__VA_ARGS__, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, x_)
#define TP__THIRTEENTH(a, b, c, d, e, f, g, h, i, j, k, l, n, ...) n
#define TP__SET1(g, L, ...)         tp__argscope_set(g, TP__TYPE(L), #L, TP__OPTIONS(layers, tp_##L##_desc, #__VA_ARGS__, __VA_ARGS__))
#define TP__SET2(g, L, M, ...) TP__SET1(g, L, __VA_ARGS__), TP__SET1(g, M, __VA_ARGS__)
#define TP__SET3(g, L, M, N, ...) TP__SET1(g, L, __VA_ARGS__), TP__SET2(g, M, N, __VA_ARGS__)
#define TP__SET4(g, L, M, N, O, ...) TP__SET1(g, L, __VA_ARGS__), TP__SET3(g, M, N, O, __VA_ARGS__)
#define TP__SET5(g, L, M, N, O, P, ...) TP__SET1(g, L, __VA_ARGS__), TP__SET4(g, M, N, O, P, __VA_ARGS__)
#define TP__SET6(g, L, M, N, O, P, Q, ...) TP__SET1(g, L, __VA_ARGS__), TP__SET5(g, M, N, O, P, Q, __VA_ARGS__)
#define TP__SET7(g, L, M, N, O, P, Q, R, ...) TP__SET1(g, L, __VA_ARGS__), TP__SET6(g, M, N, O, P, Q, R, __VA_ARGS__)
#define TP__SET8(g, L, M, N, O, P, Q, R, S, ...) TP__SET1(g, L, __VA_ARGS__), TP__SET7(g, M, N, O, P, Q, R, S, __VA_ARGS__)
#define TP__SET9(g, L, M, N, O, P, Q, R, S, T, ...) TP__SET1(g, L, __VA_ARGS__), TP__SET8(g, M, N, O, P, Q, R, S, T, __VA_ARGS__)
#define TP__SET10(g, L, M, N, O, P, Q, R, S, T, U, ...) TP__SET1(g, L, __VA_ARGS__), TP__SET9(g, M, N, O, P, Q, R, S, T, U, __VA_ARGS__)
#define TP__SET11(g, L, M, N, O, P, Q, R, S, T, U, V, ...) TP__SET1(g, L, __VA_ARGS__), TP__SET10(g, M, N, O, P, Q, R, S, T, U, V, __VA_ARGS__)
#define TP__SET12(g, L, M, N, O, P, Q, R, S, T, U, V, W, ...) TP__SET1(g, L, __VA_ARGS__), TP__SET11(g, M, N, O, P, Q, R, S, T, U, V, W, __VA_ARGS__)
#endif
/* clang-format on */

/* ==== >>linear ======================================================================================== */
/* [LinearWrap] A chain is an array of layer values, which are applied in order:
 *
 *     y = tp_linear(x, TP_CONV2D("conv0", .filters = 32, .kernel_size = 3), TP_OP(tp_relu), TP_APPLY(fn, user));
 */
typedef struct tp_layer {
    tp_at at;
    const char *layer; /* a layer's name ("Conv2D"), whose descriptor is `desc`; or NULL: `apply` or `op` is set */
    const void *desc;
    tp_node *(*apply)(tp_node *x, void *user);
    void *user; /* the argument of `apply`; if `layer` is set: its tp_layer_type, which the macros below fill in */
    tp_node *(*op)(tp_node *x);
} tp_layer;
/* applies an array of layer values, which you may fill in by hand */
TP_DEF tp_node *tp_linear_n(tp_node *x, const tp_layer *layers, int n);
TP_DEF tp_node *tp__linear(tp_node *x, const tp_layer *layers, int n); /* called by the macros below */
/* Logs shape, mean, rms and first elements when the chain runs; user is the message. TP_PRINT uses it. */
TP_DEF tp_node *tp_linear_print(tp_node *x, void *user);
/* clang-format off */
#ifdef TP_KEYWORDS
#ifdef __cplusplus
#define tp_linear(x, ...) tp__linear((x), std::initializer_list<tp_layer>{__VA_ARGS__}.begin(), (int)std::initializer_list<tp_layer>{__VA_ARGS__}.size())
#else
#define tp_linear(x, ...)                             \
    tp__linear((x), (const tp_layer[]){__VA_ARGS__}, \
                (int)(sizeof((const tp_layer[]){__VA_ARGS__}) / sizeof(tp_layer)))
#endif
/* A layer value of any layer, also your own: the layer's C name, then the arguments of its call. To call your
 * own layer by itself, give tp_linear this one layer: y = tp_linear(x, TP_LAYER(squeeze_excite, "se0", .reduction = 2)). */
#ifdef __cplusplus
#define TP_LAYER(L, name_, ...) tp_layer{ TP_AT, #L, TP__CXX_LAYER(tp_##L##_desc, name_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__), NULL, (void *)TP__TYPE(L), NULL }
#else
#define TP_LAYER(L, ...)          { TP_AT, #L, TP__OPTIONS(layers, tp_##L##_desc, #__VA_ARGS__, __VA_ARGS__), NULL, (void *)TP__TYPE(L), NULL }
#endif
#define TP_CONV2D(...)             TP_LAYER(conv2d, __VA_ARGS__)
#define TP_FULLY_CONNECTED(...)    TP_LAYER(fully_connected, __VA_ARGS__)
#define TP_MAX_POOLING(...)        TP_LAYER(max_pooling, __VA_ARGS__)
#define TP_AVG_POOLING(...)        TP_LAYER(avg_pooling, __VA_ARGS__)
#define TP_GLOBAL_AVG_POOLING(...) TP_LAYER(global_avg_pooling, __VA_ARGS__)
#define TP_BATCH_NORM(...)         TP_LAYER(batch_norm, __VA_ARGS__)
#define TP_DROPOUT(...)            TP_LAYER(dropout, __VA_ARGS__)
#define TP_BN_RELU(...)            TP_LAYER(bn_relu, __VA_ARGS__)
#define TP_CONV2D_TRANSPOSE(...)   TP_LAYER(conv2d_transpose, __VA_ARGS__)
#define TP_DECONV2D(...)           TP_LAYER(deconv2d, __VA_ARGS__)
#define TP_DEPTHWISE_CONV2D(...)   TP_LAYER(depthwise_conv2d, __VA_ARGS__)
#define TP_FIXED_UNPOOLING(...)    TP_LAYER(fixed_unpooling, __VA_ARGS__)
#define TP_CAFFE_BILINEAR_UPSAMPLE(...) TP_LAYER(caffe_bilinear_upsample, __VA_ARGS__)
#define TP_LAYER_NORM(...)         TP_LAYER(layer_norm, __VA_ARGS__)
#define TP_INSTANCE_NORM(...)      TP_LAYER(instance_norm, __VA_ARGS__)
#define TP_GROUP_NORM(...)         TP_LAYER(group_norm, __VA_ARGS__)
#define TP_BATCH_RENORM(...)       TP_LAYER(batch_renorm, __VA_ARGS__)
#define TP_PRELU(...)              TP_LAYER(prelu, __VA_ARGS__)
#define TP_MAXOUT(...)             TP_LAYER(maxout, __VA_ARGS__)
#define TP_CONCAT_WITH(...)        TP_LAYER(concat_with, __VA_ARGS__)
#define TP_GRID_SAMPLE(...)        TP_LAYER(grid_sample, __VA_ARGS__)
#define TP_SOFTMAX(...)            TP_LAYER(softmax_layer, __VA_ARGS__)
#define TP_EMBEDDING(...)          TP_LAYER(embedding, __VA_ARGS__)
#define TP_LSTM(...)               TP_LAYER(lstm, __VA_ARGS__)
#define TP_GRU(...)                TP_LAYER(gru, __VA_ARGS__)
#define TP_BASIC_LSTM_CELL(...)    TP_LAYER(basic_lstm_cell, __VA_ARGS__)
#define TP_GRU_CELL(...)           TP_LAYER(gru_cell, __VA_ARGS__)
#define TP_MULTI_HEAD_ATTENTION(...) TP_LAYER(multi_head_attention, __VA_ARGS__)
/* calls fn(x, user) */
#define TP_APPLY(fn_, user_)       TP__BRACES(tp_layer) { TP_AT, NULL, NULL, (fn_), (user_), NULL }
/* calls fn(x), where fn is tp_relu, tp_flatten, ... */
#define TP_OP(fn_)                 TP__BRACES(tp_layer) { TP_AT, NULL, NULL, NULL, NULL, (fn_) }
#define TP_PRINT(message_)         TP__BRACES(tp_layer) { TP_AT, NULL, NULL, tp_linear_print, (void *)(message_), NULL }
#endif
/* clang-format on */

/* ==== >>registry ====================================================================================== */
/* A layer type is one struct: a name, the fields of the layer's descriptor, a function that builds the layer. Register your own
 * types in a graph: argscope, chains, shape logging and the places in errors then work as for the built-in ones. */

/* One option of a layer: its offset and size in the descriptor, and `probe`, the number of its first bytes that are all zero if
 * the option is not given. */
typedef struct tp_layer_field {
    const char *name;
    size_t offset, size, probe;
    int one_of; /* fields with the same number exclude each other: a call gives at most one, and then inherits none of
                 * the others */
} tp_layer_field;
/* clang-format off */
#define TP_LAYER_FIELD(T, f)  {#f, offsetof(T, f), sizeof(((T *)0)->f), sizeof(((T *)0)->f), 0}
#define TP_LAYER_ONE_OF(T, f, number) {#f, offsetof(T, f), sizeof(((T *)0)->f), sizeof(((T *)0)->f), number}
#define TP_LAYER_PAIR(T, f)   {#f, offsetof(T, f), 2 * sizeof(int), sizeof(int), 0} /* an option that is a pair of int fields, f (height) and f_w (width) */
#define TP_LAYER_INIT(T, f)   {#f, offsetof(T, f), sizeof(tp_init), sizeof(int), 0}
#define TP_LAYER_REGULARIZER(T, f) {#f, offsetof(T, f), sizeof(tp_regularizer), sizeof(((T *)0)->f.fn), 0}
/* clang-format on */

#define TP_LAYER_MAX_DESC 512 /* size of a descriptor in bytes */
typedef struct tp_layer_type {
    const char *name; /* name: "Conv2D"; c_name: "conv2d" */
    const char *c_name;
    size_t desc_size; /* size of the descriptor, a struct that begins like tp_layer_head */
    const tp_layer_field *fields;
    int n_fields;
    /* Runs in the layer's variable scope; desc is complete (call, then argscope). Report errors with tp_graph_fail(g, NULL,
     * ...). A scope that it opens it also closes; one left open is an error. */
    tp_node *(*build)(tp_node *x, const void *desc);
    bool log_shape;     /* log `'conv0': [?, 28, 28, 1] --> [?, 28, 28, 32]` once per scope name */
    bool name_optional; /* a call without a name opens no variable scope */
    bool own_output;    /* keep the name of the result; otherwise it is renamed to `output` */
    bool plain;         /* a function rather than a layer: it opens no variable scope; its name, if given, is only
                         * logged */
} tp_layer_type;
/* The entries of the built-in layers. A program that names its layers in its source (calls, TP_ARGSCOPE, tp_linear) refers only
 * to the entries of these layers, so that with TP_STATIC the compiler removes all others; a look-up by name needs all
 * entries. */
#ifdef TP_STATIC
#define TP__LAYER_ENTRY static
#else
#define TP__LAYER_ENTRY extern
#endif
#if !defined(TP_STATIC) || !defined(__cplusplus) /* C++ does not allow a second declaration of a static variable */
TP__LAYER_ENTRY const tp_layer_type tp__conv2d_type, tp__fully_connected_type, tp__max_pooling_type,
    tp__avg_pooling_type, tp__global_avg_pooling_type, tp__batch_norm_type, tp__dropout_type, tp__bn_relu_type,
    tp__conv2d_transpose_type, tp__depthwise_conv2d_type, tp__fixed_unpooling_type, tp__caffe_bilinear_upsample_type,
    tp__layer_norm_type, tp__instance_norm_type, tp__group_norm_type, tp__batch_renorm_type, tp__prelu_type,
    tp__maxout_type, tp__concat_with_type, tp__grid_sample_type, tp__softmax_layer_type;
#ifndef TP_NO_SEQUENCE_LAYERS
TP__LAYER_ENTRY const tp_layer_type tp__embedding_type, tp__lstm_type, tp__gru_type, tp__basic_lstm_cell_type,
    tp__gru_cell_type, tp__multi_head_attention_type;
#endif
#endif
#undef TP__LAYER_ENTRY
/* clang-format off */
#ifdef TP_KEYWORDS
/* TP__TYPE(conv2d) is &tp__conv2d_type; for the name of a layer of your own it is NULL. */
#define TP__TYPE(L)         TP__TYPE2(TP__TYPE_##L, NULL, x_)
#define TP__TYPE2(...)      TP__SECOND(__VA_ARGS__)
#define TP__TYPE_conv2d x_, &tp__conv2d_type
#define TP__TYPE_fully_connected x_, &tp__fully_connected_type
#define TP__TYPE_max_pooling x_, &tp__max_pooling_type
#define TP__TYPE_avg_pooling x_, &tp__avg_pooling_type
#define TP__TYPE_global_avg_pooling x_, &tp__global_avg_pooling_type
#define TP__TYPE_batch_norm x_, &tp__batch_norm_type
#define TP__TYPE_dropout x_, &tp__dropout_type
#define TP__TYPE_bn_relu x_, &tp__bn_relu_type
#define TP__TYPE_conv2d_transpose x_, &tp__conv2d_transpose_type
#define TP__TYPE_deconv2d x_, &tp__conv2d_transpose_type
#define TP__TYPE_depthwise_conv2d x_, &tp__depthwise_conv2d_type
#define TP__TYPE_fixed_unpooling x_, &tp__fixed_unpooling_type
#define TP__TYPE_caffe_bilinear_upsample x_, &tp__caffe_bilinear_upsample_type
#define TP__TYPE_layer_norm x_, &tp__layer_norm_type
#define TP__TYPE_instance_norm x_, &tp__instance_norm_type
#define TP__TYPE_group_norm x_, &tp__group_norm_type
#define TP__TYPE_batch_renorm x_, &tp__batch_renorm_type
#define TP__TYPE_prelu x_, &tp__prelu_type
#define TP__TYPE_maxout x_, &tp__maxout_type
#define TP__TYPE_concat_with x_, &tp__concat_with_type
#define TP__TYPE_grid_sample x_, &tp__grid_sample_type
#define TP__TYPE_softmax_layer x_, &tp__softmax_layer_type
#define TP__TYPE_embedding x_, &tp__embedding_type
#define TP__TYPE_lstm x_, &tp__lstm_type
#define TP__TYPE_gru x_, &tp__gru_type
#define TP__TYPE_basic_lstm_cell x_, &tp__basic_lstm_cell_type
#define TP__TYPE_gru_cell x_, &tp__gru_cell_type
#define TP__TYPE_multi_head_attention x_, &tp__multi_head_attention_type
#endif
/* clang-format on */

/* [layer_register] Copies the type; the data it points to must outlive the graph. A name that is already registered is an
 * error. */
TP_DEF void tp_layer_register(tp_graph *g, const tp_layer_type *type);
/* Registers an ordinary function that creates nodes: argscope then fills in the options that a call omits, chains accept it,
 * and its shapes are logged once under its name unless log_shape (tp_tri, 0 = TP_YES; it overrides the type's) is TP_NO. No
 * node is renamed and no variable scope is opened. The second function registers a table of types.
 * [argscope: enable_argscope_for_function, enable_argscope_for_module] */
TP_DEF void tp_enable_argscope_for_function(tp_graph *g, const tp_layer_type *type, int log_shape);
TP_DEF void tp_enable_argscope_for_module(tp_graph *g, const tp_layer_type *types, int n, int log_shape);
/* Finds a type by either of its names; NULL if there is none. */
TP_DEF const tp_layer_type *tp_get_registered_layer(tp_graph *g, const char *name);
/* The common part of all layer functions: merge the options, open the scope, build, name the output, log. */
TP_DEF tp_node *tp_layer_apply(tp_node *x, const char *layer, const void *desc);
/* Called inside build: stores the node that tp_layer_variable returns for this key. */
TP_DEF void tp_layer_hold(tp_graph *g, const char *key, tp_node *n);
/* A variable of the layer whose output is y: "W", "b"; BatchNorm has gamma, beta, mean, variance, and moving_mean,
 * moving_variance as other names of the last two. A key that the layer does not have is an error. tp_find_variable finds
 * variables by name. */
TP_DEF tp_node *tp_layer_variable(tp_node *y, const char *key);
TP_DEF void tp_disable_layer_logging(
    tp_graph *g); /* turns off the log line of each layer; in a tp_train_config use .log_layers = TP_NO */

/* ==== >>regularize ==================================================================================== */

/* scale: finite, not below 0; where another one is used, the graph fails with TP_ERR_ARG. The result is float32 for w of half
 * precision, else of w's type. */
TP_DEF tp_regularizer tp_l2_regularizer(float scale); /* a regularizer that returns scale * sum(w^2) / 2 */
TP_DEF tp_regularizer tp_l1_regularizer(float scale); /* a regularizer that returns scale * sum(|w|) */
/* The sum of r over all trainable variables whose name contains a match of the regex: "fc.+/W" finds aux/fc1/W and fc1/Wp. In a
 * tower with variables of its own, only these count. Tower 0 has those that are made in it: what is made before tp_tower_enter does not
 * count (nor does a trainer train it), and a warning names it. A regex (>>regex of tp_graph.h) without a match gives a warning. The
 * result is a float32 scalar that you add to the cost (tp_cast it for one of float64); name NULL = "regularize_cost". Only the variables
 * created before the call count, so call it at the end. Not in training, or without a match: 0, named empty_<name>. */
TP_DEF tp_node *tp_regularize_cost(tp_graph *g, const char *regex, tp_regularizer r, const char *name);
TP_DEF tp_node *tp_regularize_cost_(tp_graph *g, const char *regex, tp_regularizer r, const char *name, tp_at at);
#ifdef TP_KEYWORDS
#define tp_regularize_cost(...) tp_regularize_cost_(__VA_ARGS__, TP_HERE) /* ... takes also the commas of a literal */
#endif
/* The sum of REGULARIZATION_LOSSES, which the .kernel_regularizer options fill. Of a tower with variables of its own only its losses count,
 * as above. */
TP_DEF tp_node *tp_regularize_cost_from_collection(tp_graph *g, const char *name);

/* ==== >>symbolic ====================================================================================== */
/* A loss has the type of its values. Of half precision they are squared and summed in float32, and the loss is rounded once;
 * tp_sym_huber_loss, which has a value for each element, computes in its input's type. */

/* logits (B,C), labels int (B); topk 0 = 1, below 0 is an error. Ties count as correct. A scalar; name NULL = "accuracy". */
TP_DEF tp_node *tp_sym_accuracy(tp_node *logits, tp_node *labels, int topk, const char *name);
/* 1 where the prediction is wrong, (B) floats; topk as above; NULL = "incorrect_vector" */
TP_DEF tp_node *tp_sym_prediction_incorrect(tp_node *logits, tp_node *labels, int topk, const char *name);
TP_DEF tp_node *tp_sym_rms(tp_node *x, const char *name); /* sqrt(mean(x^2)); its gradient is 0 at 0; NULL = "rms" */
/* Huber loss of each element: x^2/2 where |x| < delta, else delta*|x| - delta^2/2; delta 0 = 1; name NULL = "huber_loss" */
TP_DEF tp_node *tp_sym_huber_loss(tp_node *x, float delta, const char *name);
/* 10*log10(maxp^2/mean((prediction-truth)^2)); maxp: the largest possible value of a pixel, 0 = 1; NULL = "psnr" */
TP_DEF tp_node *tp_sym_psnr(tp_node *prediction, tp_node *truth, float maxp, const char *name);
/* mean((prediction-truth)^2), of any shape; NULL = "mse" */
TP_DEF tp_node *tp_sym_mse(tp_node *prediction, tp_node *truth, const char *name);
/* The divergence of two distributions, for each row, given as logits (..,C) of one shape: sum over C of p (log p - log q), where p =
 * softmax(p_logits) and q = softmax(q_logits). Result (..). NULL = "kl_divergence" */
TP_DEF tp_node *tp_sym_kl_divergence(tp_node *p_logits, tp_node *q_logits, const char *name);
/* Turns labels int (B) into distributions (B,classes) for tp_softmax_cross_entropy: 1 - epsilon + epsilon/classes for the
 * label, epsilon/classes for the others. The run fails if a label is out of range. They are float32: tp_cast them for
 * logits of another type. NULL = "smooth_labels" */
TP_DEF tp_node *tp_sym_smooth_labels(tp_node *labels, int64_t classes, float epsilon, const char *name);
/* The mean of losses (B) weighted by class: sum of weights[labels] losses / sum of weights[labels]; labels int (B); weights has
 * one value per class and is copied. The run fails if a label is out of range. NULL = "weighted_loss" */
TP_DEF tp_node *tp_sym_weighted_loss(tp_node *losses, tp_node *labels, const float *weights, int classes,
                                     const char *name);
/* The identity; each run logs shape, mean, rms and first elements. message NULL = the node's name. */
TP_DEF tp_node *tp_sym_print_stat(tp_node *x, const char *message);
/* Losses of embeddings (B,N), as scalars; similar (B) holds 1 for pairs of one class and 0 for others. d is the Euclidean
 * distance of two rows.
 * contrastive: mean of (similar*d^2 + (1-similar)*max(0, margin-d)^2)/2
 * cosine: sum of (2*similar - 1 - cos(left, right))^2 / (2 B)
 * triplet: mean of max(0, margin + d^2(anchor, positive) - d^2(anchor, negative))
 * soft_triplet: mean of -ln(e^n/(e^p + e^n)), p and n the distances of anchor to positive and to negative */
TP_DEF tp_node *tp_sym_contrastive_loss(tp_node *left, tp_node *right, tp_node *similar, float margin,
                                        const char *name);
TP_DEF tp_node *tp_sym_siamese_cosine_loss(tp_node *left, tp_node *right, tp_node *similar, const char *name);
TP_DEF tp_node *tp_sym_triplet_loss(tp_node *anchor, tp_node *positive, tp_node *negative, float margin,
                                    const char *name);
TP_DEF tp_node *tp_sym_soft_triplet_loss(tp_node *anchor, tp_node *positive, tp_node *negative, const char *name);
/* Cross entropy of sigmoid(logits) with labels 0 and 1, where each class is weighted by the frequency of the other: mean of
 * beta*label*-ln(p) + (1-beta)*(1-label)*-ln(1-p), where p = sigmoid(logits) and beta is the fraction of labels that are 0; 0
 * where no label is 1. NULL = "cross_entropy_loss" */
TP_DEF tp_node *tp_sym_class_balanced_sigmoid_cross_entropy(tp_node *logits, tp_node *labels, const char *name);

/* More activations (tp_relu, tp_elu, tp_leaky_relu, tp_gelu, tp_silu, tp_softplus are ops). */
TP_DEF tp_node *tp_relu6(tp_node *x);      /* ReLU6: min(max(x, 0), 6); its derivative is 0 at 0 and at 6 */
TP_DEF tp_node *tp_hard_swish(tp_node *x); /* hard swish: x min(max(x+3, 0), 6)/6 */
/* Pixel shuffle: (B,H,W,n*n*C) -> (B,H*n,W*n,C), channel (i*n + j)*C + c goes to pixel (i, j) of its n x n block;
 * tp_space_to_depth is the inverse. Only the channels must be known; in NCHW they are in the same order. */
TP_DEF tp_node *tp_depth_to_space(tp_node *x, int n, tp_data_format format);
TP_DEF tp_node *tp_space_to_depth(tp_node *x, int n, tp_data_format format);

/* The macros record the place of each call: see >>places of tp_graph.h. */
/* clang-format off */
#define tp_linear_n(...)                                 TP__PLACED(tp__node_at, tp_linear_n(__VA_ARGS__))
#define tp_layer_apply(...)                              TP__PLACED(tp__node_at, tp_layer_apply(__VA_ARGS__))
#define tp_layer_variable(...)                           TP__PLACED(tp__node_at, tp_layer_variable(__VA_ARGS__))
#define tp_regularize_cost_from_collection(...)          TP__PLACED(tp__node_at, tp_regularize_cost_from_collection(__VA_ARGS__))
#define tp_sym_accuracy(...)                             TP__PLACED(tp__node_at, tp_sym_accuracy(__VA_ARGS__))
#define tp_sym_prediction_incorrect(...)                 TP__PLACED(tp__node_at, tp_sym_prediction_incorrect(__VA_ARGS__))
#define tp_sym_rms(...)                                  TP__PLACED(tp__node_at, tp_sym_rms(__VA_ARGS__))
#define tp_sym_huber_loss(...)                           TP__PLACED(tp__node_at, tp_sym_huber_loss(__VA_ARGS__))
#define tp_sym_psnr(...)                                 TP__PLACED(tp__node_at, tp_sym_psnr(__VA_ARGS__))
#define tp_sym_mse(...)                                  TP__PLACED(tp__node_at, tp_sym_mse(__VA_ARGS__))
#define tp_sym_kl_divergence(...)                        TP__PLACED(tp__node_at, tp_sym_kl_divergence(__VA_ARGS__))
#define tp_sym_smooth_labels(...)                        TP__PLACED(tp__node_at, tp_sym_smooth_labels(__VA_ARGS__))
#define tp_sym_weighted_loss(...)                        TP__PLACED(tp__node_at, tp_sym_weighted_loss(__VA_ARGS__))
#define tp_sym_print_stat(...)                           TP__PLACED(tp__node_at, tp_sym_print_stat(__VA_ARGS__))
#define tp_sym_contrastive_loss(...)                     TP__PLACED(tp__node_at, tp_sym_contrastive_loss(__VA_ARGS__))
#define tp_sym_siamese_cosine_loss(...)                  TP__PLACED(tp__node_at, tp_sym_siamese_cosine_loss(__VA_ARGS__))
#define tp_sym_triplet_loss(...)                         TP__PLACED(tp__node_at, tp_sym_triplet_loss(__VA_ARGS__))
#define tp_sym_soft_triplet_loss(...)                    TP__PLACED(tp__node_at, tp_sym_soft_triplet_loss(__VA_ARGS__))
#define tp_sym_class_balanced_sigmoid_cross_entropy(...) TP__PLACED(tp__node_at, tp_sym_class_balanced_sigmoid_cross_entropy(__VA_ARGS__))
#define tp_relu6(...)                                    TP__PLACED(tp__node_at, tp_relu6(__VA_ARGS__))
#define tp_hard_swish(...)                               TP__PLACED(tp__node_at, tp_hard_swish(__VA_ARGS__))
#define tp_depth_to_space(...)                           TP__PLACED(tp__node_at, tp_depth_to_space(__VA_ARGS__))
#define tp_space_to_depth(...)                           TP__PLACED(tp__node_at, tp_space_to_depth(__VA_ARGS__))
/* for calls with a descriptor filled in by hand, which does not contain the place of the call */
#define tp_conv2d_(...)                  TP__PLACED(tp__node_at, tp_conv2d_(__VA_ARGS__))
#define tp_fully_connected_(...)         TP__PLACED(tp__node_at, tp_fully_connected_(__VA_ARGS__))
#define tp_max_pooling_(...)             TP__PLACED(tp__node_at, tp_max_pooling_(__VA_ARGS__))
#define tp_avg_pooling_(...)             TP__PLACED(tp__node_at, tp_avg_pooling_(__VA_ARGS__))
#define tp_global_avg_pooling_(...)      TP__PLACED(tp__node_at, tp_global_avg_pooling_(__VA_ARGS__))
#define tp_batch_norm_(...)              TP__PLACED(tp__node_at, tp_batch_norm_(__VA_ARGS__))
#define tp_dropout_(...)                 TP__PLACED(tp__node_at, tp_dropout_(__VA_ARGS__))
#define tp_bn_relu_(...)                 TP__PLACED(tp__node_at, tp_bn_relu_(__VA_ARGS__))
#define tp_conv2d_transpose_(...)        TP__PLACED(tp__node_at, tp_conv2d_transpose_(__VA_ARGS__))
#define tp_depthwise_conv2d_(...)        TP__PLACED(tp__node_at, tp_depthwise_conv2d_(__VA_ARGS__))
#define tp_fixed_unpooling_(...)         TP__PLACED(tp__node_at, tp_fixed_unpooling_(__VA_ARGS__))
#define tp_caffe_bilinear_upsample_(...) TP__PLACED(tp__node_at, tp_caffe_bilinear_upsample_(__VA_ARGS__))
#define tp_layer_norm_(...)              TP__PLACED(tp__node_at, tp_layer_norm_(__VA_ARGS__))
#define tp_instance_norm_(...)           TP__PLACED(tp__node_at, tp_instance_norm_(__VA_ARGS__))
#define tp_group_norm_(...)              TP__PLACED(tp__node_at, tp_group_norm_(__VA_ARGS__))
#define tp_batch_renorm_(...)            TP__PLACED(tp__node_at, tp_batch_renorm_(__VA_ARGS__))
#define tp_prelu_(...)                   TP__PLACED(tp__node_at, tp_prelu_(__VA_ARGS__))
#define tp_maxout_(...)                  TP__PLACED(tp__node_at, tp_maxout_(__VA_ARGS__))
#define tp_concat_with_(...)             TP__PLACED(tp__node_at, tp_concat_with_(__VA_ARGS__))
#define tp_grid_sample_(...)             TP__PLACED(tp__node_at, tp_grid_sample_(__VA_ARGS__))
#define tp_softmax_layer_(...)           TP__PLACED(tp__node_at, tp_softmax_layer_(__VA_ARGS__))
#define tp_embedding_(...)               TP__PLACED(tp__node_at, tp_embedding_(__VA_ARGS__))
#define tp_lstm_(...)                    TP__PLACED(tp__node_at, tp_lstm_(__VA_ARGS__))
#define tp_gru_(...)                     TP__PLACED(tp__node_at, tp_gru_(__VA_ARGS__))
#define tp_basic_lstm_cell_(...)         TP__PLACED(tp__node_at, tp_basic_lstm_cell_(__VA_ARGS__))
#define tp_gru_cell_(...)                TP__PLACED(tp__node_at, tp_gru_cell_(__VA_ARGS__))
#define tp_multi_head_attention_(...)    TP__PLACED(tp__node_at, tp_multi_head_attention_(__VA_ARGS__))
#ifndef TP_KEYWORDS
#define tp_bn_relu(...)         TP__PLACED(tp__node_at, tp_bn_relu(__VA_ARGS__))
#define tp_regularize_cost(...) TP__PLACED(tp__node_at, tp_regularize_cost(__VA_ARGS__))
#endif
/* clang-format on */

#ifdef __cplusplus
}
#endif
#endif /* TP_LAYERS_H */

/* ===== STOP HERE if you only want to use the library. Everything below is implementation. ===== */
#if defined(TP_IMPLEMENTATION) && !defined(TP__LAYERS_IMPLEMENTED)
#define TP__LAYERS_IMPLEMENTED
#undef TP__PLACED
#define TP__PLACED TP__UNPLACED
TP__EXACT_BEGIN
TP__COLD_BEGIN

/* Returns the list of the options for which 0 is not what unset does, which may be to take an argscope's value: see OPTIONS in
 * tp_tensor.h. */
TP_DEF const tp__zero_option *tp__layers_zeros(void)
{
    /* clang-format off */
    static const tp__zero_option options[] = {
        TP__ZERO_OPTION(tp_conv2d_desc, use_bias, NO),
        TP__ZERO_OPTION(tp_fully_connected_desc, use_bias, NO),
        TP__ZERO_OPTION(tp_batch_norm_desc, training, NO),
        TP__ZERO_OPTION(tp_batch_norm_desc, momentum, ZERO),
        TP__ZERO_OPTION(tp_batch_norm_desc, epsilon, ZERO),
        TP__ZERO_OPTION(tp_batch_norm_desc, center, NO),
        TP__ZERO_OPTION(tp_batch_norm_desc, scale, NO),
        TP__ZERO_OPTION(tp_dropout_desc, rate, ZERO),
        TP__ZERO_OPTION(tp_dropout_desc, training, NO),
        TP__ZERO_OPTION(tp_conv2d_transpose_desc, use_bias, NO),
        TP__ZERO_OPTION(tp_deconv2d_desc, use_bias, NO),
        TP__ZERO_OPTION(tp_depthwise_conv2d_desc, use_bias, NO),
        TP__ZERO_OPTION(tp_layer_norm_desc, epsilon, ZERO),
        TP__ZERO_OPTION(tp_layer_norm_desc, center, NO),
        TP__ZERO_OPTION(tp_layer_norm_desc, scale, NO),
        TP__ZERO_OPTION(tp_instance_norm_desc, epsilon, ZERO),
        TP__ZERO_OPTION(tp_instance_norm_desc, center, NO),
        TP__ZERO_OPTION(tp_instance_norm_desc, scale, NO),
        TP__ZERO_OPTION(tp_group_norm_desc, epsilon, ZERO),
        TP__ZERO_OPTION(tp_group_norm_desc, center, NO),
        TP__ZERO_OPTION(tp_group_norm_desc, scale, NO),
        TP__ZERO_OPTION(tp_batch_renorm_desc, dmax, ZERO),
        TP__ZERO_OPTION(tp_batch_renorm_desc, momentum, ZERO),
        TP__ZERO_OPTION(tp_batch_renorm_desc, epsilon, ZERO),
        TP__ZERO_OPTION(tp_batch_renorm_desc, center, NO),
        TP__ZERO_OPTION(tp_batch_renorm_desc, scale, NO),
        TP__ZERO_OPTION(tp_prelu_desc, init, ZERO),
        TP__ZERO_OPTION(tp_softmax_layer_desc, use_temperature, NO),
#ifndef TP_NO_SEQUENCE_LAYERS
        TP__ZERO_OPTION(tp_rnn_desc, forget_bias, ZERO),
        TP__ZERO_OPTION(tp_lstm_desc, forget_bias, ZERO),
        TP__ZERO_OPTION(tp_gru_desc, forget_bias, ZERO),
        TP__ZERO_OPTION(tp_basic_lstm_cell_desc, forget_bias, ZERO),
        TP__ZERO_OPTION(tp_gru_cell_desc, forget_bias, ZERO),
        TP__ZERO_OPTION(tp_rnn_desc, time_major, NO),
        TP__ZERO_OPTION(tp_lstm_desc, time_major, NO),
        TP__ZERO_OPTION(tp_gru_desc, time_major, NO),
        TP__ZERO_OPTION(tp_basic_lstm_cell_desc, time_major, NO),
        TP__ZERO_OPTION(tp_gru_cell_desc, time_major, NO),
        TP__ZERO_OPTION(tp_multi_head_attention_desc, use_bias, NO),
        TP__ZERO_OPTION(tp_multi_head_attention_desc, causal, NO),
#endif
        {NULL, NULL, 0, 0, TP__ZERO_NO},
    };
    /* clang-format on */
    return options;
}

/* ==== >>argscope, >>registry: state =================================================================== */
/* What the layers store in a graph: lists in the graph's arena, newest entry first. */

typedef struct tp__argscope_entry {
    const tp_layer_type *type;
    void *desc; /* options, merged with those of the enclosing argscopes: a look-up needs only the nearest entry */
    struct tp__argscope_entry *next;
} tp__argscope_entry;

typedef struct tp__argscope {
    tp__argscope_entry *entry;
    struct tp__argscope *outer;
} tp__argscope;

typedef struct tp__layer_held {
    const char *key;
    tp_node *node;
    struct tp__layer_held *next;
} tp__layer_held;

/* A layer that was called: an entry of the graph's list. */
typedef struct tp__layer_call {
    const char *scope;      /* the layer's name, "conv0" */
    const tp_operation *op; /* the operation of the layer's output */
    tp__layer_held *held;
    struct tp__layer_call *outer; /* the enclosing layer, while this one is being built */
    struct tp__layer_call *next;
    const tp_node *input;
    int depth;          /* number of enclosing layers that are logged */
    bool logged, begun; /* logged: this layer logs its shapes; begun: its input line is already logged */
} tp__layer_call;

typedef struct tp__layer_name {
    const char *name;
    struct tp__layer_name *next;
} tp__layer_name;

typedef struct tp__layer_own_type {
    tp_layer_type type;
    struct tp__layer_own_type *next;
} tp__layer_own_type;

typedef struct tp__layers {
    void *scope, *current; /* the tower's innermost open argscope; the layer that is being built */
    tp__layer_call *calls;
    tp__layer_name *logged; /* names of the scopes whose shapes were logged */
    tp__layer_own_type *own_types;
} tp__layers;

static tp__layers *tp__layers_of(tp_graph *g)
{
    void **slot = tp__graph_slot(g, "layers");
    if (slot && !*slot && (*slot = tp_graph_alloc(g, sizeof(tp__layers))) != NULL) {
        tp__graph_keep(g, &((tp__layers *)*slot)->scope);
        tp__graph_keep(g, &((tp__layers *)*slot)->current);
    }
    return slot ? (tp__layers *)*slot : NULL;
}

static tp__argscope *tp__scope_now(const tp__layers *s) { return (tp__argscope *)s->scope; }
static tp__layer_call *tp__layer_now(const tp__layers *s) { return (tp__layer_call *)s->current; }

/* Reports an error in the layer that is being built: "tower0/conv1: <sentence>", at the line of its call. */
static tp_node *tp__layer_fail(tp_graph *g, tp_status status, const char *fmt, ...) TP_PRINTF(3, 4);
#ifdef TP_NO_SENTENCES
#define tp__layer_fail(g_, status_, ...) (TP__NOT_SAID(__VA_ARGS__), (tp__layer_fail)((g_), (status_), NULL))
#endif
static tp_node *(tp__layer_fail)(tp_graph *g, tp_status status, const char *fmt, ...)
{
    if (!fmt) return (tp_graph_fail)(g, NULL, status, NULL);
    char text[640];
    va_list ap;
    va_start(ap, fmt);
    tp__vformat(text, sizeof text, fmt, ap);
    va_end(ap);
    const char *scope = tp_name_scope(g);
    return tp_graph_fail(g, NULL, status, "%s%s%s", scope, *scope ? ": " : "", text);
}

static bool tp__is_zero(const unsigned char *p, size_t n)
{
    while (n > 0 && *p == 0) p++, n--;
    return n == 0;
}

/* Options that are not given in `into` are copied from `from`. */
static void tp__layer_merge(const tp_layer_type *t, unsigned char *into, const unsigned char *from)
{
    unsigned groups_set = 0;
    for (int i = 0; i < t->n_fields; i++) {
        const tp_layer_field *f = &t->fields[i];
        if (f->one_of && !tp__is_zero(into + f->offset, f->probe)) groups_set |= 1u << (f->one_of & 31);
    }
    for (int i = 0; i < t->n_fields; i++) {
        const tp_layer_field *f = &t->fields[i];
        if (f->one_of && (groups_set >> (f->one_of & 31) & 1)) continue;
        if (tp__is_zero(into + f->offset, f->probe)) memcpy(into + f->offset, from + f->offset, f->size);
    }
}

/* Refuses a width without its height, which the merge of options would silently drop, and options that exclude each other. */
static bool tp__layer_is_consistent(tp_graph *g, const tp_layer_type *t, const unsigned char *desc)
{
    for (int i = 0; i < t->n_fields; i++) {
        const tp_layer_field *f = &t->fields[i];
        if (f->size != 2 * sizeof(int) || f->probe != sizeof(int) || !tp__is_zero(desc + f->offset, f->probe)) continue;
        if (tp__is_zero(desc + f->offset + sizeof(int), sizeof(int))) continue;
        tp__layer_fail(g, TP_ERR_ARG, "%s has .%s_w but no .%s: give the pair together", t->name, f->name, f->name);
        return false;
    }
    for (int i = 0; i < t->n_fields; i++)
        for (int k = 0; k < i; k++) {
            const tp_layer_field *a = &t->fields[k], *b = &t->fields[i];
            if (!a->one_of || a->one_of != b->one_of || tp__is_zero(desc + a->offset, a->probe) ||
                tp__is_zero(desc + b->offset, b->probe))
                continue;
            tp__layer_fail(g, TP_ERR_ARG, "%s has both .%s and .%s: give one of them", t->name, a->name, b->name);
            return false;
        }
    return true;
}

static tp_layer_head tp__layer_head_of(const void *desc)
{
    tp_layer_head h;
    memcpy(&h, desc, sizeof h);
    return h;
}

/* ==== >>argscope ====================================================================================== */

TP_DEF void tp_argscope_begin(tp_graph *g, const tp_at *at)
{
    TP__REQUIRE(g, )

    tp__layers *s = tp__layers_of(g);
    tp__argscope *scope = (tp__argscope *)tp_graph_alloc(g, sizeof *scope);
    if (!s || !scope) return;
    scope->outer = tp__scope_now(s);
    s->scope = scope;
    tp__argscopes_changed(g, 1, at);
}

TP_DEF void tp_argscope_end(tp_graph *g)
{
    TP__REQUIRE(g, )

    tp__layers *s = tp__layers_of(g);
    if (!s) return;
    if (!s->scope) {
        tp_graph_fail(g, NULL, TP_ERR_STATE, "an argscope is closed that was never opened");
        return;
    }
    s->scope = tp__scope_now(s)->outer;
    tp__argscopes_changed(g, -1, NULL);
}

static const void *tp__argscope_find(const tp__layers *s, const tp_layer_type *t)
{
    for (const tp__argscope *scope = tp__scope_now(s); scope; scope = scope->outer)
        for (const tp__argscope_entry *e = scope->entry; e; e = e->next)
            if (e->type == t) return e->desc;
    return NULL;
}

/* Finds a layer type that was registered in this graph. */
static const tp_layer_type *tp__own_layer(tp_graph *g, const char *name)
{
    const tp__layers *s = tp__layers_of(g);
    for (const tp__layer_own_type *o = s ? s->own_types : NULL; o; o = o->next)
        if (strcmp(o->type.name, name) == 0 || strcmp(o->type.c_name, name) == 0) return &o->type;
    return NULL;
}

TP_DEF void tp_argscope_set(tp_graph *g, const char *layer, const void *desc)
{
    TP__GRAPH_REQUIRE(g, g && layer && desc, )

    tp__argscope_set(g, tp_get_registered_layer(g, layer), layer, desc);
}

TP_DEF void tp__argscope_set(tp_graph *g, const tp_layer_type *t, const char *layer, const void *desc)
{
    TP__GRAPH_REQUIRE(g, g && desc, )
    tp__layers *s = tp__layers_of(g);
    if (!s || tp_graph_status(g) != TP_OK) return;
    const tp_layer_head head = tp__layer_head_of(desc);
    if (!t) t = tp__own_layer(g, layer);
    if (!t) {
        tp_graph_fail(g, &head.at_, TP_ERR_NAME, "argscope: there is no layer '%s'", layer);
        return;
    }
    if (!s->scope) {
        tp_graph_fail(g, &head.at_, TP_ERR_STATE,
                      "argscope: defaults for %s are set outside a scope: tp_argscope_begin first", t->name);
        return;
    }
    if (head.name) {
        tp_graph_fail(g, &head.at_, TP_ERR_ARG, "argscope of %s: defaults have no name, but '%s' was given", t->name,
                      head.name);
        return;
    }
    const tp_at at = g->at;
    if (head.at_.file) tp_graph_set_at(g, head.at_);
    const bool complete = tp__layer_is_consistent(g, t, (const unsigned char *)desc);
    tp_graph_set_at(g, at);
    tp__argscope_entry *e = (tp__argscope_entry *)tp_graph_alloc(g, sizeof *e);
    unsigned char *copy = (unsigned char *)tp_graph_alloc(g, t->desc_size);
    if (!complete || !e || !copy) return;
    const void *inherited = tp__argscope_find(s, t);
    memcpy(copy, desc, t->desc_size);
    if (inherited) tp__layer_merge(t, copy, (const unsigned char *)inherited);
    e->type = t;
    e->desc = copy;
    e->next = tp__scope_now(s)->entry;
    tp__scope_now(s)->entry = e;
}

TP_DEF const void *tp_get_argscope(tp_graph *g, const char *layer)
{
    TP__GRAPH_REQUIRE(g, g && layer, NULL)

    return tp__get_argscope(g, tp_get_registered_layer(g, layer), layer);
}

TP_DEF const void *tp__get_argscope(tp_graph *g, const tp_layer_type *t, const char *layer)
{
    static const union {
        unsigned char bytes[TP_LAYER_MAX_DESC];
        int64_t i;
        double d;
        void *p;
    } nothing = {{0}};
    tp__layers *s = tp__layers_of(g);
    if (!t) t = tp__own_layer(g, layer);
    if (!t) tp_graph_fail(g, NULL, TP_ERR_NAME, "argscope: there is no layer '%s'", layer);
    const void *desc = s && t ? tp__argscope_find(s, t) : NULL;
    return desc ? desc : nothing.bytes;
}

/* ==== >>registry: applying a layer ==================================================================== */

/* "[?, 28, 28, 1]" */
static const char *tp__shape_list(const tp_shape *s, char *buf, size_t size)
{
    size_t n = (size_t)tp__format(buf, size, "[");
    for (int i = 0; i < s->ndim && n < size; i++) {
        const char *comma = i ? ", " : "";
        n += (size_t)(s->dim[i] < 0 ? tp__format(buf + n, size - n, "%s?", comma)
                                    : tp__format(buf + n, size - n, "%s%lld", comma, (long long)s->dim[i]));
    }
    if (n < size) tp__format(buf + n, size - n, "]");
    return buf;
}

/* Whether the shape of this scope has been logged, in any tower. Marks it as logged. */
static bool tp__layer_logged(tp_graph *g, tp__layers *s, const char *scope)
{
    if (strncmp(scope, "tower", 5) == 0) { /* removes the tower's name: towerN/conv0 becomes conv0 */
        const char *p = scope + 5;
        while (*p >= '0' && *p <= '9') p++;
        if (p > scope + 5 && *p == '/') scope = p + 1;
    }
    for (const tp__layer_name *l = s->logged; l; l = l->next)
        if (strcmp(l->name, scope) == 0) return true;
    tp__layer_name *l = (tp__layer_name *)tp_graph_alloc(g, sizeof *l);
    if (!l) return true;
    l->name = scope;
    l->next = s->logged;
    s->logged = l;
    return false;
}

/* Logs the input line of a layer; the enclosing layer's input line must come before it. */
static void tp__layer_log_begin(tp__layer_call *u)
{
    char in[TP_SHAPE_TEXT * 2];
    for (tp__layer_call *o = u->outer; o; o = o->outer) {
        if (!o->logged) continue;
        u->depth = o->depth + 1;
        if (!o->begun)
            tp_log(TP_LOG_INFO, "%*s'%s' input: %s", 2 * o->depth, "", o->scope,
                   tp__shape_list(&o->input->shape, in, sizeof in));
        o->begun = true;
        break;
    }
}

static void tp__layer_log_end(const tp__layer_call *u, const tp_node *y)
{
    char in[TP_SHAPE_TEXT * 2], out[TP_SHAPE_TEXT * 2];
    tp__shape_list(&u->input->shape, in, sizeof in);
    tp__shape_list(&y->shape, out, sizeof out);
    if (u->begun) tp_log(TP_LOG_INFO, "%*s'%s' output: %s", 2 * u->depth, "", u->scope, out);
    else tp_log(TP_LOG_INFO, "%*s'%s': %s --> %s", 2 * u->depth, "", u->scope, in, out);
}

/* Returns a poison node without a graph, for a layer whose input is NULL. */
static tp_node *tp__no_input(const tp_layer_head *head, const char *layer)
{
    const char *name = head->name ? head->name : "";
    char missing[TP__MISSING_TEXT];
    return tp_graph_fail(NULL, &head->at_, TP_ERR_ARG, "%s%s%s: the input is NULL%s", name, *name ? ": " : "", layer,
                         tp__missing(NULL, false, missing));
}

/* How many scopes of each kind are open, and the innermost argscope. */
typedef struct tp__open_scopes {
    int name, variable, device, arg;
    void *argscope;
} tp__open_scopes;

static tp__open_scopes tp__open_scopes_of(const tp_graph *g, const tp__layers *s)
{
    const tp__open_scopes o = {g->n_name_scope, g->n_var_scope, g->n_device, g->n_argscope, s->scope};
    return o;
}

/* Refuses a build function that leaves a scope open or closes one that it has not opened: the names of all that follows would be
 * wrong. The scopes are then again those of before. */
static void tp__layer_check_scopes(tp_graph *g, tp__layers *s, const tp_layer_type *t, const tp_at *at,
                                   const tp__open_scopes *before)
{
    const tp__open_scopes now = tp__open_scopes_of(g, s);
    /* a variable scope opens a name scope too, so it is looked at first */
    const int change[4] = {now.variable - before->variable, now.name - before->name, now.device - before->device,
                           now.arg - before->arg};
    static const char *const kind[4] = {"a variable scope", "a name scope", "a device scope", "an argscope"};
    int k = 0;
    while (k < 4 && change[k] == 0) k++;
    if (k == 4) return;
    const char *left = k == 0 ? tp_variable_scope(g) : k == 1 ? tp_name_scope(g) : "";
    g->n_name_scope = before->name, g->n_var_scope = before->variable;
    g->n_device = before->device, g->n_argscope = before->arg;
    s->scope = before->argscope;
    const char *scope = tp_name_scope(g);
    if (change[k] > 0)
        tp_graph_fail(g, at, TP_ERR_STATE, "%s%s%s leaves %s open%s%s%s: its build function must close what it opens",
                      scope, *scope ? ": " : "", t->name, kind[k], *left ? ", '" : "", left, *left ? "'" : "");
    else
        tp_graph_fail(g, at, TP_ERR_STATE, "%s%s%s closes %s that its build function has not opened", scope,
                      *scope ? ": " : "", t->name, kind[k]);
}

static tp_node *tp__layer_apply(tp_node *x, const tp_layer_type *t, const void *desc)
{
    tp_graph *g = tp_node_graph(x);
    TP__GRAPH_REQUIRE(g, desc, tp_poison(g))
    union {
        unsigned char bytes[TP_LAYER_MAX_DESC];
        int64_t i;
        double d;
        void *p;
    } merged;
    const tp_layer_head head = tp__layer_head_of(desc);
    if (!x) return tp__no_input(&head, t->name);
    if (tp_is_poison(x)) return x;
    const tp_at at = g->at;
    tp__layers *s = tp__layers_of(g);
    if (!s) return tp_poison(g);
    if (!t->name_optional && (!head.name || !*head.name))
        return tp_graph_fail(g, &head.at_, TP_ERR_NAME, "%s needs a name: tp_%s(x, \"name\", ...)", t->name, t->c_name);

    /* 1. open the scope: names of variables and ops begin with the layer's name; errors give the place of the layer's
     * call */
    if (head.at_.file) tp_graph_set_at(g, head.at_);
    tp_variable_scope_desc scope;
    memset(&scope, 0, sizeof scope);
    scope.name = head.name;
    const bool scoped = head.name && !t->plain;
    if (scoped) tp_variable_scope_push(g, &scope);

    /* 2. merge the options: those of the call, then those of the argscope */
    memcpy(merged.bytes, desc, t->desc_size);
    const void *inherited = tp__argscope_find(s, t);
    const bool complete = tp__layer_is_consistent(g, t, merged.bytes);
    if (inherited) tp__layer_merge(t, merged.bytes, (const unsigned char *)inherited);

    /* 3. build the layer */
    tp_node *y = tp_poison(g);
    tp__layer_call *u = (tp__layer_call *)tp_graph_alloc(g, sizeof *u);
    if (u && complete && tp_graph_status(g) == TP_OK) {
        u->scope = tp_variable_scope(g);
        if (t->plain) { /* the log shows a function (plain) under the name of its call */
            const char *scope_name = head.name ? head.name : t->c_name;
            u->scope = *u->scope ? tp_arena_printf(&g->arena, "%s/%s", u->scope, scope_name) : scope_name;
            if (!u->scope) u->scope = "";
        }
        u->input = x;
        u->outer = tp__layer_now(s);
        u->logged = t->log_shape && (head.name || t->plain) && !g->quiet_layers && !tp__layer_logged(g, s, u->scope);
        if (u->logged) tp__layer_log_begin(u);
        s->current = u;
        const tp__open_scopes before = tp__open_scopes_of(g, s);
        y = t->build(x, merged.bytes);
        if (tp_graph_status(g) == TP_OK) tp__layer_check_scopes(g, s, t, head.at_.file ? &head.at_ : NULL, &before);
        s->current = u->outer;
        if (!y) y = tp__layer_fail(g, TP_ERR, "%s gave no node", t->name);
        if (!t->own_output && head.name && !tp_is_poison(y)) y = tp_named(y, "output");
        if (!tp_is_poison(y)) {
            u->op = y->op;
            u->next = s->calls;
            s->calls = u;
            if (u->logged) tp__layer_log_end(u, y);
        }
    }
    if (scoped) tp_variable_scope_pop(g);
    tp_graph_set_at(g, at);
    return tp_graph_status(g) == TP_OK ? y : tp_poison(g);
}

TP_DEF tp_node *tp_layer_apply(tp_node *x, const char *layer, const void *desc)
{
    TP__GRAPH_REQUIRE(tp_node_graph(x), layer && desc, tp_poison(tp_node_graph(x)))

    const tp_layer_head head = tp__layer_head_of(desc);
    if (!x) return tp__no_input(&head, layer);
    if (tp_is_poison(x)) return x;
    const tp_layer_type *t = tp_get_registered_layer(tp_node_graph(x), layer);
    return t ? tp__layer_apply(x, t, desc)
             : tp_graph_fail(tp_node_graph(x), &head.at_, TP_ERR_NAME, "there is no layer '%s'", layer);
}

TP_DEF void tp_enable_argscope_for_function(tp_graph *g, const tp_layer_type *type, int log_shape)
{
    TP__GRAPH_REQUIRE(g, g && type && type->name && type->c_name, )

    tp_layer_type t = *type;
    t.plain = t.name_optional = t.own_output = true;
    t.log_shape = log_shape != TP_NO;
    tp_layer_register(g, &t);
}
TP_DEF void tp_enable_argscope_for_module(tp_graph *g, const tp_layer_type *types, int n, int log_shape)
{
    TP__GRAPH_REQUIRE(g, g && (types || n == 0) && n >= 0, )
    for (int i = 0; i < n; i++) tp_enable_argscope_for_function(g, &types[i], log_shape);
}

TP_DEF void tp_layer_hold(tp_graph *g, const char *key, tp_node *n)
{
    TP__GRAPH_REQUIRE(g, g && key && n, )

    tp__layers *s = tp__layers_of(g);
    tp__layer_held *h = (tp__layer_held *)tp_graph_alloc(g, sizeof *h);
    if (!s || !h || !s->current || tp_is_poison(n)) return;
    for (const tp__layer_held *o = tp__layer_now(s)->held; o; o = o->next)
        if (strcmp(o->key, key) == 0) {
            tp__layer_fail(g, TP_ERR_NAME, "the layer holds two variables named '%s'", key);
            return;
        }
    h->key = tp_graph_strdup(g, key);
    h->node = n;
    h->next = tp__layer_now(s)->held;
    if (h->key) tp__layer_now(s)->held = h;
}

TP_DEF tp_node *tp_layer_variable(tp_node *y, const char *key)
{
    TP__GRAPH_REQUIRE(tp_node_graph(y), key, tp_poison(tp_node_graph(y)))

    tp_graph *g = tp_node_graph(y);
    TP__GRAPH_REQUIRE(g, y, tp_poison(g))
    if (tp_is_poison(y)) return y;
    const tp__layers *s = tp__layers_of(g);
    for (const tp__layer_call *u = s ? s->calls : NULL; u; u = u->next) {
        if (u->op != y->op) continue;
        for (const tp__layer_held *h = u->held; h; h = h->next)
            if (strcmp(h->key, key) == 0) return h->node;
        tp__nearest near;
        char text[TP__NEAREST_TEXT];
        memset(&near, 0, sizeof near);
        near.wanted = key;
        for (const tp__layer_held *h = u->held; h; h = h->next) tp__nearest_try(&near, h->key);
        return tp_graph_fail(g, NULL, TP_ERR_NAME, "layer '%s' has no variable '%s'%s", u->scope, key,
                             tp__nearest_text(&near, text));
    }
    return tp_graph_fail(g, NULL, TP_ERR_NAME, "'%s' is not the output of a layer, so it has no variable '%s'",
                         tp_node_name(y), key);
}

TP_DEF void tp_disable_layer_logging(tp_graph *g)
{
    TP__REQUIRE(g, )
    g->quiet_layers = true;
}

/* ==== >>layers ======================================================================================== */

static bool tp__tri_option(tp_tri v, bool otherwise) { return v == TP_YES || (v != TP_NO && otherwise); }

/* He's initialisation, not truncated: the default of tensorpack's Conv2D and FullyConnected. */
static tp_init tp__kernel_init(tp_init i)
{
    return i.kind == TP_INIT_UNSET ? tp_init_variance_scaling(2.0f, TP_FAN_IN, TP_DIST_NORMAL) : i;
}

/* Creates a variable of the layer that tp_layer_variable finds as `key`. Its element type is the input's. */
static tp_node *tp__layer_weight(const tp_node *x, const char *key, const char *name, tp_shape shape, tp_init init,
                                 tp_regularizer r)
{
    tp_graph *g = tp_node_graph(x);
    tp_variable_desc d;
    memset(&d, 0, sizeof d);
    d.name = name;
    d.dtype = x->dtype;
    d.shape = shape;
    d.init = init;
    d.regularizer = r;
    tp_node *w = tp_get_variable(g, &d);
    tp_layer_hold(g, key, w);
    return w;
}

static tp_node *tp__layer_bias(const tp_node *x, int64_t n, tp_init init, tp_regularizer r)
{
    return tp__layer_weight(x, "b", "b", tp_make_shape_n(1, &n), init.kind == TP_INIT_UNSET ? tp_init_zeros() : init,
                            r);
}

/* The last part of Conv2D and FullyConnected: activation and activity regularizer. */
static tp_node *tp__layer_finish(tp_node *y, tp_activation activation, tp_regularizer activity)
{
    tp_graph *g = tp_node_graph(y);
    if (activation && activation != tp_identity) {
        y = activation(y);
        if (!y) return tp__layer_fail(g, TP_ERR, "the activation gave no node");
    }
    if (activity.fn && activity.scale != 0.0f && !tp_is_poison(y)) {
        tp_node *loss = activity.fn(y, activity.scale);
        if (!tp__is_regularizer_loss(g, NULL, tp_node_name(y), loss)) return tp_poison(g);
        tp_collection_add(g, TP_KEY_REGULARIZATION_LOSSES, loss);
    }
    return y;
}

static bool tp__layer_float_input(const char *layer, const tp_node *x)
{
    if (tp_dtype_is_float(x->dtype)) return true;
    tp__layer_fail(tp_node_graph(x), TP_ERR_DTYPE,
                   "input is %s, %s needs floating values: tp_cast(x, TP_F32) before it", tp_dtype_name(x->dtype),
                   layer);
    return false;
}

/* Checks that x has four dimensions and the data format is valid. */
static bool tp__layer_image_input(const char *layer, const tp_node *x, tp_data_format format)
{
    char t[TP_SHAPE_TEXT];
    tp_graph *g = tp_node_graph(x);
    if (format != TP_FORMAT_DEFAULT && format != TP_NHWC && format != TP_NCHW) {
        tp__layer_fail(g, TP_ERR_ARG, "%s has .data_format %d: it must be TP_NHWC or TP_NCHW", layer, (int)format);
        return false;
    }
    if (x->shape.ndim != 4) {
        tp__layer_fail(
            g, TP_ERR_SHAPE, "input is %s, %s needs 4 dimensions %s%s", tp_shape_text(&x->shape, t), layer,
            format == TP_NCHW ? "(B,C,H,W)" : "(B,H,W,C)",
            x->shape.ndim != 3 ? ""
            : format == TP_NCHW
                ? ": tp_expand_dims(x, 1) adds the channel of grey images"
                : ": tp_expand_dims(x, 3) adds the channel of grey images (B,H,W), tp_expand_dims(x, 1) makes "
                  "images of height 1 of sequences (B,T,C)");
        return false;
    }
    return tp__layer_float_input(layer, x);
}

/* Defines the entry of a built-in layer, next to the layer's code. */
#ifdef TP_STATIC
#define TP__LAYER_ENTRY static
#else
#define TP__LAYER_ENTRY
#endif
/* clang-format off */
#define TP__LAYER_TYPE(name_, c_, fields_, log_shape_, name_optional_, own_output_)                                   \
    TP__LAYER_ENTRY const tp_layer_type tp__##c_##_type = {                                                           \
        name_, #c_, sizeof(tp_##c_##_desc), fields_, TP_COUNT(fields_), tp__##c_##_build, log_shape_, name_optional_, \
        own_output_, false}
/* clang-format on */

/* -- Conv2D -------------------------------------------------------------------------- >>layer conv2d */

/* The checks that all convolutions need: kernel, strides and dilation (or NULL) point to pairs, which are checked and copied to
 * a. */
static bool tp__conv_attrs(const char *layer, const tp_node *x, tp_data_format format, tp_padding padding,
                           const int *kernel, const int *strides, const int *dilation, tp_conv2d_attrs *a)
{
    tp_graph *g = tp_node_graph(x);
    char t[TP_SHAPE_TEXT];
    memset(a, 0, sizeof *a);
    if (!tp__layer_image_input(layer, x, format)) return false;
    if (kernel[0] <= 0 || kernel[1] < 0) tp__layer_fail(g, TP_ERR_ARG, "%s needs a .kernel_size of 1 or more", layer);
    if (strides[0] < 0 || strides[1] < 0)
        tp__layer_fail(g, TP_ERR_ARG, "%s has .strides %d: they must be 1 or more", layer,
                       strides[0] < 0 ? strides[0] : strides[1]);
    if (dilation && (dilation[0] < 0 || dilation[1] < 0))
        tp__layer_fail(g, TP_ERR_ARG, "%s has a negative .dilation_rate", layer);
    if (padding != TP_PADDING_DEFAULT && padding != TP_SAME && padding != TP_VALID)
        tp__layer_fail(g, TP_ERR_ARG, "%s has .padding %d: it must be TP_SAME or TP_VALID", layer, (int)padding);
    if (x->shape.dim[format == TP_NCHW ? 1 : 3] <= 0)
        tp__layer_fail(g, TP_ERR_SHAPE, "input is %s, %s needs to know its channels: tp_reshape it",
                       tp_shape_text(&x->shape, t), layer);
    a->stride_h = strides[0] ? strides[0] : 1;
    a->stride_w = strides[1] ? strides[1] : a->stride_h;
    a->dilation_h = dilation && dilation[0] ? dilation[0] : 1;
    a->dilation_w = dilation && dilation[1] ? dilation[1] : a->dilation_h;
    a->padding = padding == TP_VALID ? TP_VALID : TP_SAME;
    a->data_format = format == TP_NCHW ? TP_NCHW : TP_NHWC;
    return tp_graph_status(g) == TP_OK;
}

/* Without padding, the kernel must fit into the input; dimensions that are unknown are not checked. */
static bool tp__kernel_fits(const char *layer, const char *option, const tp_node *x, const int *kernel, int dilation_h,
                            int dilation_w, int padding, int data_format)
{
    char t[TP_SHAPE_TEXT];
    const int64_t *in = x->shape.dim + (data_format == TP_NCHW ? 2 : 1);
    const int kw = kernel[1] ? kernel[1] : kernel[0];
    if (padding != TP_VALID) return true;
    if ((in[0] < 0 || (int64_t)(kernel[0] - 1) * dilation_h < in[0]) &&
        (in[1] < 0 || (int64_t)(kw - 1) * dilation_w < in[1]))
        return true;
    tp__layer_fail(tp_node_graph(x), TP_ERR_SHAPE,
                   "input is %s, %s has .%s (%d,%d), which is larger: pad the input, or TP_SAME",
                   tp_shape_text(&x->shape, t), layer, option, kernel[0], kw);
    return false;
}

static const tp_layer_field tp__conv2d_fields[] = {TP_LAYER_FIELD(tp_conv2d_desc, filters),
                                                   TP_LAYER_PAIR(tp_conv2d_desc, kernel_size),
                                                   TP_LAYER_PAIR(tp_conv2d_desc, strides),
                                                   TP_LAYER_FIELD(tp_conv2d_desc, padding),
                                                   TP_LAYER_FIELD(tp_conv2d_desc, data_format),
                                                   TP_LAYER_PAIR(tp_conv2d_desc, dilation_rate),
                                                   TP_LAYER_FIELD(tp_conv2d_desc, split),
                                                   TP_LAYER_FIELD(tp_conv2d_desc, activation),
                                                   TP_LAYER_FIELD(tp_conv2d_desc, use_bias),
                                                   TP_LAYER_INIT(tp_conv2d_desc, kernel_initializer),
                                                   TP_LAYER_INIT(tp_conv2d_desc, bias_initializer),
                                                   TP_LAYER_REGULARIZER(tp_conv2d_desc, kernel_regularizer),
                                                   TP_LAYER_REGULARIZER(tp_conv2d_desc, bias_regularizer),
                                                   TP_LAYER_REGULARIZER(tp_conv2d_desc, activity_regularizer)};

static tp_node *tp__conv2d_build(tp_node *x, const void *desc)
{
    const tp_conv2d_desc *d = (const tp_conv2d_desc *)desc;
    tp_graph *g = tp_node_graph(x);
    if (d->filters <= 0) return tp__layer_fail(g, TP_ERR_ARG, "Conv2D needs .filters, the number of output channels");
    tp_conv2d_attrs a;
    if (!tp__conv_attrs("Conv2D", x, d->data_format, d->padding, &d->kernel_size, &d->strides, &d->dilation_rate, &a))
        return tp_poison(g);
    if (!tp__kernel_fits("Conv2D", "kernel_size", x, &d->kernel_size, a.dilation_h, a.dilation_w, a.padding,
                         a.data_format))
        return tp_poison(g);
    const int64_t channels = x->shape.dim[d->data_format == TP_NCHW ? 1 : 3];
    const int split = d->split ? d->split : 1;
    if (split < 1 || channels % split != 0 || d->filters % split != 0)
        return tp__layer_fail(g, TP_ERR_ARG,
                              "Conv2D has .split %d, which does not divide its %lld input channels and %d filters",
                              split, (long long)channels, d->filters);

    a.groups = split;
    const int64_t kernel[4] = {d->kernel_size, d->kernel_size_w ? d->kernel_size_w : d->kernel_size, channels / split,
                               d->filters};
    tp_node *w = tp__layer_weight(x, "W", "W", tp_make_shape_n(4, kernel), tp__kernel_init(d->kernel_initializer),
                                  d->kernel_regularizer);
    tp_node *y = tp_nn_conv2d(x, w, &a);
    if (tp__tri_option(d->use_bias, true))
        y = tp_nn_bias_add(y, tp__layer_bias(x, d->filters, d->bias_initializer, d->bias_regularizer), a.data_format);
    return tp__layer_finish(y, d->activation, d->activity_regularizer);
}

TP__LAYER_TYPE("Conv2D", conv2d, tp__conv2d_fields, true, false, false);
TP_DEF tp_node *tp_conv2d_(tp_node *x, const tp_conv2d_desc *d) { return tp__layer_apply(x, &tp__conv2d_type, d); }

/* -- FullyConnected --------------------------------------------------------- >>layer fully_connected */

static const tp_layer_field tp__fully_connected_fields[] = {
    TP_LAYER_FIELD(tp_fully_connected_desc, units),
    TP_LAYER_FIELD(tp_fully_connected_desc, activation),
    TP_LAYER_FIELD(tp_fully_connected_desc, use_bias),
    TP_LAYER_INIT(tp_fully_connected_desc, kernel_initializer),
    TP_LAYER_INIT(tp_fully_connected_desc, bias_initializer),
    TP_LAYER_REGULARIZER(tp_fully_connected_desc, kernel_regularizer),
    TP_LAYER_REGULARIZER(tp_fully_connected_desc, bias_regularizer),
    TP_LAYER_REGULARIZER(tp_fully_connected_desc, activity_regularizer)};

static tp_node *tp__fully_connected_build(tp_node *x, const void *desc)
{
    const tp_fully_connected_desc *d = (const tp_fully_connected_desc *)desc;
    tp_graph *g = tp_node_graph(x);
    char t[TP_SHAPE_TEXT];
    if (!tp__layer_float_input("FullyConnected", x)) return tp_poison(g);
    if (d->units <= 0) return tp__layer_fail(g, TP_ERR_ARG, "FullyConnected needs .units, the number of outputs");
    if (x->shape.ndim < 1) return tp__layer_fail(g, TP_ERR_SHAPE, "input is a scalar, FullyConnected needs (B,...)");
    tp_node *flat = x->shape.ndim == 2 ? x : tp_batch_flatten(x);
    if (tp_is_poison(flat)) return flat;
    if (flat->shape.dim[1] <= 0)
        return tp__layer_fail(g, TP_ERR_SHAPE,
                              "input is %s, FullyConnected needs to know every dimension but the batch%s",
                              tp_shape_text(&x->shape, t),
                              x->shape.ndim == 3 && x->shape.dim[2] > 0
                                  ? ", because it flattens them; for each step of a sequence (B,T,C) apply it to "
                                    "tp_reshape(x, TP_ANY, C)"
                                  : "");
    const int64_t shape[2] = {flat->shape.dim[1], d->units};
    tp_node *w = tp__layer_weight(x, "W", "W", tp_make_shape_n(2, shape), tp__kernel_init(d->kernel_initializer),
                                  d->kernel_regularizer);
    tp_node *y = tp_matmul(flat, w);
    if (tp__tri_option(d->use_bias, true))
        y = tp_nn_bias_add(y, tp__layer_bias(x, d->units, d->bias_initializer, d->bias_regularizer), TP_NHWC);
    return tp__layer_finish(y, d->activation, d->activity_regularizer);
}

TP__LAYER_TYPE("FullyConnected", fully_connected, tp__fully_connected_fields, true, false, false);
TP_DEF tp_node *tp_fully_connected_(tp_node *x, const tp_fully_connected_desc *d)
{
    return tp__layer_apply(x, &tp__fully_connected_type, d);
}

/* -- MaxPooling, AvgPooling -------------------------------------- >>layer max_pooling avg_pooling */

static const tp_layer_field tp__pooling_fields[] = {
    TP_LAYER_PAIR(tp_pooling_desc, pool_size), TP_LAYER_PAIR(tp_pooling_desc, strides),
    TP_LAYER_FIELD(tp_pooling_desc, padding), TP_LAYER_FIELD(tp_pooling_desc, data_format)};

static bool tp__pooling_attrs(const char *layer, const tp_node *x, const tp_pooling_desc *d, tp_pool_attrs *a)
{
    tp_graph *g = tp_node_graph(x);
    memset(a, 0, sizeof *a);
    if (!tp__layer_image_input(layer, x, d->data_format)) return false;
    if (d->pool_size <= 0 || d->pool_size_w < 0)
        tp__layer_fail(g, TP_ERR_ARG, "%s needs a .pool_size of 1 or more", layer);
    if (d->strides < 0 || d->strides_w < 0) tp__layer_fail(g, TP_ERR_ARG, "%s has negative .strides", layer);
    if (d->padding != TP_PADDING_DEFAULT && d->padding != TP_SAME && d->padding != TP_VALID)
        tp__layer_fail(g, TP_ERR_ARG, "%s has .padding %d: it must be TP_SAME or TP_VALID", layer, (int)d->padding);
    a->size_h = d->pool_size;
    a->size_w = d->pool_size_w ? d->pool_size_w : d->pool_size;
    a->stride_h = d->strides ? d->strides : a->size_h;
    a->stride_w = d->strides_w ? d->strides_w : d->strides ? d->strides : a->size_w;
    a->padding = d->padding == TP_SAME ? TP_SAME : TP_VALID;
    a->data_format = d->data_format == TP_NCHW ? TP_NCHW : TP_NHWC;
    if (tp_graph_status(g) != TP_OK) return false;
    return tp__kernel_fits(layer, "pool_size", x, &d->pool_size, 1, 1, a->padding, a->data_format);
}

static tp_node *tp__max_pooling_build(tp_node *x, const void *desc)
{
    tp_pool_attrs a;
    if (!tp__pooling_attrs("MaxPooling", x, (const tp_pooling_desc *)desc, &a)) return tp_poison(tp_node_graph(x));
    return tp_nn_max_pool(x, &a);
}

static tp_node *tp__avg_pooling_build(tp_node *x, const void *desc)
{
    tp_pool_attrs a;
    if (!tp__pooling_attrs("AvgPooling", x, (const tp_pooling_desc *)desc, &a)) return tp_poison(tp_node_graph(x));
    return tp_nn_avg_pool(x, &a);
}

TP__LAYER_TYPE("MaxPooling", max_pooling, tp__pooling_fields, true, false, false);
TP_DEF tp_node *tp_max_pooling_(tp_node *x, const tp_max_pooling_desc *d)
{
    return tp__layer_apply(x, &tp__max_pooling_type, d);
}
TP__LAYER_TYPE("AvgPooling", avg_pooling, tp__pooling_fields, true, false, false);
TP_DEF tp_node *tp_avg_pooling_(tp_node *x, const tp_avg_pooling_desc *d)
{
    return tp__layer_apply(x, &tp__avg_pooling_type, d);
}

/* -- GlobalAvgPooling --------------------------------------------------- >>layer global_avg_pooling */

static const tp_layer_field tp__global_avg_pooling_fields[] = {TP_LAYER_FIELD(tp_global_avg_pooling_desc, data_format)};

static tp_node *tp__global_avg_pooling_build(tp_node *x, const void *desc)
{
    const tp_global_avg_pooling_desc *d = (const tp_global_avg_pooling_desc *)desc;
    if (!tp__layer_image_input("GlobalAvgPooling", x, d->data_format)) return tp_poison(tp_node_graph(x));
    const int first = d->data_format == TP_NCHW ? 2 : 1;
    const int axes[2] = {first, first + 1};
    return tp_reduce_mean(x, axes, 2, false);
}

TP__LAYER_TYPE("GlobalAvgPooling", global_avg_pooling, tp__global_avg_pooling_fields, true, false, false);
TP_DEF tp_node *tp_global_avg_pooling_(tp_node *x, const tp_global_avg_pooling_desc *d)
{
    return tp__layer_apply(x, &tp__global_avg_pooling_type, d);
}

/* -- BatchNorm ------------------------------------------------------------------ >>layer batch_norm */

static const tp_layer_field tp__batch_norm_fields[] = {TP_LAYER_FIELD(tp_batch_norm_desc, axis),
                                                       TP_LAYER_FIELD(tp_batch_norm_desc, training),
                                                       TP_LAYER_FIELD(tp_batch_norm_desc, momentum),
                                                       TP_LAYER_FIELD(tp_batch_norm_desc, epsilon),
                                                       TP_LAYER_FIELD(tp_batch_norm_desc, center),
                                                       TP_LAYER_FIELD(tp_batch_norm_desc, scale),
                                                       TP_LAYER_INIT(tp_batch_norm_desc, beta_initializer),
                                                       TP_LAYER_INIT(tp_batch_norm_desc, gamma_initializer),
                                                       TP_LAYER_FIELD(tp_batch_norm_desc, data_format),
                                                       TP_LAYER_FIELD(tp_batch_norm_desc, ema_update),
                                                       TP_LAYER_FIELD(tp_batch_norm_desc, virtual_batch_size),
                                                       TP_LAYER_FIELD(tp_batch_norm_desc, sync_statistics)};

/* Creates one of batch norm's four variables (C). They are float32 for float16 inputs. Running statistics are not
 * trained; they belong to the model if the main training tower or a tower for inference creates them. */
static tp_node *tp__batch_norm_variable(const tp_node *x, const char *name, int64_t channels, tp_init init,
                                        bool trainable)
{
    tp_graph *g = tp_node_graph(x);
    tp_variable_desc d;
    memset(&d, 0, sizeof d);
    d.name = name;
    d.dtype = x->dtype == TP_F64 ? TP_F64 : TP_F32;
    d.shape = tp_make_shape_n(1, &channels);
    d.init = init;
    if (!trainable) {
        d.trainable = TP_NO;
        const tp_tower_context *tower = tp_current_tower_context(g);
        if (tower->is_main_training_tower || !tower->is_training) d.collection = TP_KEY_MODEL_VARIABLES;
    }
    return tp_get_variable(g, &d);
}

/* Returns the constant that replaces a gamma or beta that the layer does not have. */
static tp_node *tp__batch_norm_fixed(const tp_node *x, int64_t channels, float value)
{
    tp_graph *g = tp_node_graph(x);
    const tp_dtype dtype = x->dtype == TP_F64 ? TP_F64 : TP_F32;
    tp_tensor t;
    memset(&t, 0, sizeof t);
    if (tp_tensor_resize(&t, dtype, tp_make_shape_n(1, &channels)) != TP_OK)
        return tp__layer_fail(g, TP_ERR_NOMEM, "out of memory");
    for (int64_t i = 0; i < channels; i++) tp_tensor_set(&t, i, (double)value);
    tp_node *n = tp_constant(g, &t);
    tp_tensor_free(&t);
    return n;
}

/* Reshapes a vector (C) so that it broadcasts against x. */
static tp_node *tp__per_channel(tp_node *v, const tp_node *x, int axis)
{
    int64_t shape[3] = {v->shape.dim[0], 1, 1};
    return axis == x->shape.ndim - 1 ? v : tp_reshape_to(v, tp_make_shape_n(3, shape));
}
/* y scale + shift, with a scale and a shift for each channel of x */
static tp_node *tp__scale_and_shift(tp_node *y, tp_node *scale, tp_node *shift, const tp_node *x, int axis)
{
    shift = tp__per_channel(shift, x, axis);
    return tp_add(tp_mul(y, tp__per_channel(scale, x, axis)), shift);
}

/* Reshapes x of B samples to (B/V, V, ...) and normalises each of the B/V groups by its own moments; returns the first group's
 * moments. */
static tp_node *tp__batch_norm_ghost(tp_node *x, tp_node *gamma, tp_node *beta, int axis, float epsilon, int v,
                                     tp_node **mean, tp_node **var)
{
    tp_graph *g = tp_node_graph(x);
    char t[TP_SHAPE_TEXT];
    tp_shape shape = x->shape, c = gamma->shape;
    int axes[4], n = 0;
    for (int i = x->shape.ndim - 1; i > 0; i--) {
        if (shape.dim[i] < 0)
            return tp__layer_fail(g, TP_ERR_SHAPE,
                                  "input is %s, BatchNorm with .virtual_batch_size needs to know every dimension but "
                                  "the batch",
                                  tp_shape_text(&x->shape, t));
        shape.dim[i + 1] = shape.dim[i];
        if (i != axis) axes[n++] = i + 1;
    }
    axes[n++] = 1;
    shape.ndim++;
    shape.dim[0] = TP_ANY;
    shape.dim[1] = v;
    tp_node *group = tp_reshape_to(x, shape);
    tp_node *m = tp_reduce_mean(group, axes, n, true);
    tp_node *off = tp_sub(group, m), *s2 = tp_reduce_mean(tp__stays_float32(tp_square(off)), axes, n, true);
    tp_node *y = tp_mul(off, tp_rsqrt(tp_affine(s2, 1.0f, epsilon)));
    y = tp__scale_and_shift(tp_reshape_like(y, x), gamma, beta, x, axis);
    int64_t begin[TP_MAX_DIMS] = {0}, size[TP_MAX_DIMS];
    for (int i = 0; i < TP_MAX_DIMS; i++) size[i] = i ? -1 : 1;
    *mean = tp_reshape_to(tp_slice(m, begin, size), c);
    *var = tp_reshape_to(tp_slice(s2, begin, size), c);
    return y;
}

/* Computes mean m and mean of squares q over all towers, and over n_rank ranks if there are several; y = (x - m) /
 * sqrt(s2 + epsilon) gamma + beta, s2 = max(q - m^2, 0). *var is the value for the running variance: if `unbiased`, it is s2
 * multiplied by N / (N - 1), for N elements per channel in all of them. */
static tp_node *tp__batch_norm_sync(tp_node *x, tp_node *gamma, tp_node *beta, int axis, float epsilon, bool unbiased,
                                    int n_rank, tp_node **mean, tp_node **var)
{
    tp_graph *g = tp_node_graph(x);
    const float total = (float)tp_current_tower_context(g)->total * (float)n_rank;
    int axes[4], n = 0;
    tp_node *tower_means[2], *means[2];
    for (int i = 0; i < x->shape.ndim; i++)
        if (i != axis) axes[n++] = i;
    tower_means[0] = tp_reduce_mean(x, axes, n, false);
    tower_means[1] = tp_reduce_mean(tp__stays_float32(tp_square(x)), axes, n, false);
    tp_tower_all_reduce(g, tower_means, 2, true, "BatchNorm", means);
    if (n_rank > 1) g->over_ranks.mean(g->over_ranks.user, means, 2, means);
    tp_node *s2 = tp_sub(means[1], tp_square(means[0]));
    s2 = tp_maximum(s2, tp__zero_of(s2)); /* a small variance of large values may come out below 0 */
    tp_node *scale = tp_mul(gamma, tp_rsqrt(tp_affine(s2, 1.0f, epsilon)));
    tp_node *y = tp_sub(x, tp__per_channel(means[0], x, axis));
    y = tp__scale_and_shift(y, scale, beta, x, axis);
    *mean = means[0];
    *var = s2;
    if (unbiased) {
        tp_node *count = tp_affine(tp__size_ratio(x, tower_means[0]), total, 0.0f);
        tp_node *one = tp_const_as(g, count->dtype, 1);
        tp_node *ratio = tp_div(count, tp_maximum(tp_affine(count, 1.0f, -1.0f), one));
        *var = tp_mul(s2, tp__as_dtype(ratio, s2->dtype));
    }
    return y;
}

static int tp__batch_norm_axis(const tp_node *x, const tp_batch_norm_desc *d)
{
    return x->shape.ndim == 2 ? 1 : d->axis ? d->axis : d->data_format == TP_NCHW ? 1 : 3;
}
static bool tp__batch_norm_is_ghost(const tp_batch_norm_desc *d, const tp_tower_context *tower)
{
    return d->virtual_batch_size != 0 && tp__tri_option(d->training, tower->is_training);
}
/* Returns the number of ranks that the layer's statistics are averaged over. Inference, which some ranks do alone, has no others. */
static int tp__batch_norm_ranks(const tp_batch_norm_desc *d, const tp_tower_context *tower)
{
    const int n = tower->graph->over_ranks.n_rank;
    const bool joins = d->sync_statistics == TP_SYNC_RANKS && tower->is_training && d->training != TP_NO;
    return joins && n > 1 ? n : 1;
}

/* Checks .sync_statistics; false after an error. */
static bool tp__batch_norm_check_sync(tp_graph *g, const tp_batch_norm_desc *d, const tp_tower_context *tower)
{
    const bool known = d->sync_statistics >= TP_SYNC_DEFAULT && d->sync_statistics <= TP_SYNC_RANKS;
    const char *refusal = known && tp__batch_norm_ranks(d, tower) > 1 ? g->over_ranks.refusal : NULL;
    if (!known)
        tp__layer_fail(g, TP_ERR_ARG,
                       "BatchNorm has .sync_statistics %d: it must be TP_SYNC_NONE, TP_SYNC_TOWERS or TP_SYNC_RANKS",
                       (int)d->sync_statistics);
    else if (d->sync_statistics > TP_SYNC_NONE && d->virtual_batch_size != 0)
        tp__layer_fail(g, TP_ERR_ARG,
                       "BatchNorm has both .sync_statistics and .virtual_batch_size: statistics are either of "
                       "more than a batch or of less");
    else if (refusal)
        tp__layer_fail(g, TP_ERR_UNSUPPORTED,
                       "BatchNorm has .sync_statistics TP_SYNC_RANKS, but %s: train with tp_horovod_trainer, or give "
                       "TP_SYNC_TOWERS or TP_SYNC_NONE",
                       refusal);
    return tp_graph_status(g) == TP_OK;
}

/* Warns of .sync_statistics in a layer that has nothing but its own batch, or its own process, to average over. */
static void tp__batch_norm_warn_alone(const tp_batch_norm_desc *d, const tp_tower_context *tower)
{
    if (d->sync_statistics == TP_SYNC_TOWERS && tower->total == 1)
        tp_log_once(TP_LOG_WARN,
                    "Some BatchNorm layer has .sync_statistics, but there is one tower only: statistics are averaged "
                    "over the devices of one process, not over the ranks of a job.");
    if (d->sync_statistics == TP_SYNC_RANKS && tp__batch_norm_ranks(d, tower) == 1)
        tp_log_once(TP_LOG_WARN, "Some BatchNorm layer has .sync_statistics TP_SYNC_RANKS, but %s.",
                    tower->is_training
                        ? "there is one rank only: statistics are averaged over the towers of this process"
                        : "it is in a tower for inference, where each rank uses the statistics of its own batch");
}

/* Checks batch norm's input and options; false after an error. */
static bool tp__batch_norm_check(const tp_node *x, const tp_batch_norm_desc *d, const tp_tower_context *tower)
{
    tp_graph *g = tp_node_graph(x);
    const int ndim = x->shape.ndim;
    char t[TP_SHAPE_TEXT];
    if (!tower) {
        tp__layer_fail(g, TP_ERR_STATE,
                       "BatchNorm is used outside a tower, so it cannot know whether this is "
                       "training, nor whether its running averages are updated here: tp_tower_enter first, also "
                       "with .training");
        return false;
    }
    if (ndim != 2 && ndim != 4) {
        tp__layer_fail(g, TP_ERR_SHAPE, "input is %s, BatchNorm needs 2 dimensions (B,C) or 4%s",
                       tp_shape_text(&x->shape, t),
                       ndim == 3 ? ": tp_expand_dims(x, 1) makes images of height 1 of sequences (B,T,C)" : "");
        return false;
    }
    if (ndim == 4 && !tp__layer_image_input("BatchNorm", x, d->data_format)) return false;
    if (!tp__layer_float_input("BatchNorm", x)) return false;
    if (d->axis != 0 && d->axis != 1 && (d->axis != 3 || ndim != 4)) {
        tp__layer_fail(g, TP_ERR_ARG, "BatchNorm has .axis %d: it must be 1, or 3 with four dimensions", d->axis);
        return false;
    }
    if (d->ema_update > TP_EMA_SKIP || d->ema_update < TP_EMA_DEFAULT) {
        tp__layer_fail(g, TP_ERR_ARG,
                       "BatchNorm has .ema_update %d: it must be TP_EMA_COLLECTION, TP_EMA_INTERNAL or TP_EMA_SKIP",
                       (int)d->ema_update);
        return false;
    }
    if (!tp__batch_norm_check_sync(g, d, tower)) return false;
    if (x->shape.dim[tp__batch_norm_axis(x, d)] <= 0) {
        tp__layer_fail(g, TP_ERR_SHAPE, "input is %s, BatchNorm needs to know its channels",
                       tp_shape_text(&x->shape, t));
        return false;
    }
    if (d->virtual_batch_size < 0 ||
        (tp__batch_norm_is_ghost(d, tower) && x->shape.dim[0] > 0 && x->shape.dim[0] % d->virtual_batch_size != 0)) {
        tp__layer_fail(g, TP_ERR_ARG, "input is %s, BatchNorm has .virtual_batch_size %d, which must divide the batch",
                       tp_shape_text(&x->shape, t), d->virtual_batch_size);
        return false;
    }
    return true;
}

/* Creates gamma v[0], beta v[1] and the running statistics mean v[2], variance v[3]. */
static void tp__batch_norm_variables(const tp_node *x, const tp_batch_norm_desc *d, int64_t channels, tp_node *v[4])
{
    tp_graph *g = tp_node_graph(x);
    if (tp__tri_option(d->scale, true)) {
        v[0] = tp__batch_norm_variable(x, "gamma", channels,
                                       d->gamma_initializer.kind ? d->gamma_initializer : tp_init_ones(), true);
        tp_layer_hold(g, "gamma", v[0]);
    } else {
        v[0] = tp__batch_norm_fixed(x, channels, 1.0f);
    }
    if (tp__tri_option(d->center, true)) {
        v[1] = tp__batch_norm_variable(x, "beta", channels,
                                       d->beta_initializer.kind ? d->beta_initializer : tp_init_zeros(), true);
        tp_layer_hold(g, "beta", v[1]);
    } else {
        v[1] = tp__batch_norm_fixed(x, channels, 0.0f);
    }
    v[2] = tp__batch_norm_variable(x, "mean/EMA", channels, tp_init_zeros(), false);
    v[3] = tp__batch_norm_variable(x, "variance/EMA", channels, tp_init_ones(), false);
    tp_layer_hold(g, "mean", v[2]);
    tp_layer_hold(g, "variance", v[3]);
    tp_layer_hold(g, "moving_mean", v[2]);
    tp_layer_hold(g, "moving_variance", v[3]);
}

/* Refuses a momentum outside 0 to 1, with which the running averages would grow without bound, and a negative epsilon, with which
 * sqrt(variance + epsilon) may not exist. */
static bool tp__norm_numbers(tp_graph *g, const char *layer, float momentum, float epsilon)
{
    const bool good = tp__float_option(momentum, 0.9f) >= 0 && tp__float_option(momentum, 0.9f) <= 1 && epsilon >= 0;
    if (!good)
        tp__layer_fail(g, TP_ERR_ARG,
                       "%s has .momentum %g and .epsilon %g: momentum must be from 0 to 1, epsilon not negative", layer,
                       (double)momentum, (double)epsilon);
    return good;
}

/* The same for layers without running averages. */
static bool tp__norm_epsilon(tp_graph *g, const char *layer, float epsilon)
{
    if (epsilon >= 0) return true;
    tp__layer_fail(g, TP_ERR_ARG, "%s has .epsilon %g: it must not be negative", layer, (double)epsilon);
    return false;
}

static tp_node *tp__batch_norm_build(tp_node *x, const void *desc)
{
    const tp_batch_norm_desc *d = (const tp_batch_norm_desc *)desc;
    tp_graph *g = tp_node_graph(x);
    const tp_tower_context *tower = tp_current_tower_context(g);
    if (!tp__batch_norm_check(x, d, tower)) return tp_poison(g);
    if (!tp__norm_numbers(g, "BatchNorm", d->momentum, d->epsilon)) return tp_poison(g);
    const int ndim = x->shape.ndim, axis = tp__batch_norm_axis(x, d);
    const float momentum = tp__float_option(d->momentum, 0.9f);
    float epsilon = tp__float_option(d->epsilon, 1e-5f);
    const bool ghost = tp__batch_norm_is_ghost(d, tower);
    /* the smallest epsilon that the fused kernels accept */
    if (ndim == 4 && !ghost && epsilon < 1.001e-5f) epsilon = 1.001e-5f;
    const bool training = tp__tri_option(d->training, tower->is_training);
    tp_node *v[4], *y;
    tp__batch_norm_variables(x, d, x->shape.dim[axis], v);
    if (tp_graph_status(g) != TP_OK) return tp_poison(g);
    tp_node *gamma = v[0], *beta = v[1], *ema_mean = v[2], *ema_var = v[3];
    const tp_dtype dtype = x->dtype;
    x = tp_cast(x, gamma->dtype); /* for half-precision inputs the statistics are float32 */

    if (!training) {
        if (tower->is_training)
            tp_log_once(TP_LOG_WARN, "Some BatchNorm layer uses its running mean and variance in training.");
        return tp_cast(tp_nn_batch_norm_infer(x, gamma, beta, ema_mean, ema_var, axis, epsilon), dtype);
    }
    tp_node *mean = NULL, *var = NULL;
    const int n_rank = tp__batch_norm_ranks(d, tower);
    const bool sync = n_rank > 1 || (d->sync_statistics > TP_SYNC_NONE && tower->total > 1);
    tp__batch_norm_warn_alone(d, tower);
    if (ghost) y = tp__batch_norm_ghost(x, gamma, beta, axis, epsilon, d->virtual_batch_size, &mean, &var);
    else if (sync) y = tp__batch_norm_sync(x, gamma, beta, axis, epsilon, ndim == 4, n_rank, &mean, &var);
    else y = tp_nn_batch_norm_train(x, gamma, beta, axis, epsilon, ndim == 4, &mean, &var);
    const bool update = (tower->is_main_training_tower || !tower->is_training) && d->ema_update != TP_EMA_SKIP;
    y = tp_cast(y, dtype);
    if (!update || tp_is_poison(y)) return y;
    tp_node *ops[2];
    ops[0] = tp_assign_moving_average(ema_mean, mean, momentum, NULL);
    ops[1] = tp_assign_moving_average(ema_var, var, momentum, NULL);
    if (ghost || d->ema_update == TP_EMA_INTERNAL || d->sync_statistics == TP_SYNC_RANKS)
        return tp_with_dependencies(y, ops, 2);
    tp_collection_add(g, TP_KEY_UPDATE_OPS, ops[0]);
    tp_collection_add(g, TP_KEY_UPDATE_OPS, ops[1]);
    return y;
}

TP__LAYER_TYPE("BatchNorm", batch_norm, tp__batch_norm_fields, false, false, false);
TP_DEF tp_node *tp_batch_norm_(tp_node *x, const tp_batch_norm_desc *d)
{
    return tp__layer_apply(x, &tp__batch_norm_type, d);
}

/* -- Dropout ------------------------------------------------------------------------ >>layer dropout */

static const tp_layer_field tp__dropout_fields[] = {TP_LAYER_ONE_OF(tp_dropout_desc, rate, 1),
                                                    TP_LAYER_ONE_OF(tp_dropout_desc, keep_prob, 1),
                                                    TP_LAYER_FIELD(tp_dropout_desc, training)};

static tp_node *tp__dropout_build(tp_node *x, const void *desc)
{
    const tp_dropout_desc *d = (const tp_dropout_desc *)desc;
    tp_graph *g = tp_node_graph(x);
    const tp_tower_context *tower = tp_current_tower_context(g);
    const float rate = d->keep_prob != 0.0f ? 1.0f - d->keep_prob : tp__float_option(d->rate, 0.5f);
    if (!(rate >= 0.0f && rate < 1.0f))
        return tp__layer_fail(g, TP_ERR_ARG, "Dropout drops a fraction %g: .rate is at least 0 and less than 1",
                              (double)rate);
    if (!tower && d->training != TP_YES && d->training != TP_NO)
        return tp__layer_fail(g, TP_ERR_STATE,
                              "Dropout is used outside a tower, so it cannot know whether this is training: "
                              "tp_tower_enter first, or give .training");
    if (!tp__layer_float_input("Dropout", x)) return tp_poison(g);
    return tp__tri_option(d->training, tower && tower->is_training) && rate > 0.0f ? tp_nn_dropout(x, rate)
                                                                                   : tp_identity(x);
}

TP__LAYER_TYPE("Dropout", dropout, tp__dropout_fields, false, true, true);
TP_DEF tp_node *tp_dropout_(tp_node *x, const tp_dropout_desc *d) { return tp__layer_apply(x, &tp__dropout_type, d); }

/* -- BNReLU ------------------------------------------------------------------------- >>layer bn_relu */

static tp_node *tp__bn_relu_build(tp_node *x, const void *desc)
{
    tp_batch_norm_desc bn;
    (void)desc;
    memset(&bn, 0, sizeof bn);
    bn.name = "bn";
    return tp_relu(tp_batch_norm_(x, &bn));
}

TP__LAYER_ENTRY const tp_layer_type tp__bn_relu_type = {
    "BNReLU", "bn_relu", sizeof(tp_bn_relu_desc), NULL, 0, tp__bn_relu_build, false, true, true, false};
TP_DEF tp_node *tp_bn_relu_(tp_node *x, const tp_bn_relu_desc *d) { return tp__layer_apply(x, &tp__bn_relu_type, d); }

TP_DEF tp_node *(tp_bn_relu)(tp_node *x)
{
    tp_bn_relu_desc d;
    memset(&d, 0, sizeof d);
    return tp_bn_relu_(x, &d);
}

/* -- Conv2DTranspose ----------------------------------------------------- >>layer conv2d_transpose */

static const tp_layer_field tp__conv2d_transpose_fields[] = {
    TP_LAYER_FIELD(tp_conv2d_transpose_desc, filters),
    TP_LAYER_PAIR(tp_conv2d_transpose_desc, kernel_size),
    TP_LAYER_PAIR(tp_conv2d_transpose_desc, strides),
    TP_LAYER_FIELD(tp_conv2d_transpose_desc, padding),
    TP_LAYER_FIELD(tp_conv2d_transpose_desc, data_format),
    TP_LAYER_FIELD(tp_conv2d_transpose_desc, activation),
    TP_LAYER_FIELD(tp_conv2d_transpose_desc, use_bias),
    TP_LAYER_INIT(tp_conv2d_transpose_desc, kernel_initializer),
    TP_LAYER_INIT(tp_conv2d_transpose_desc, bias_initializer),
    TP_LAYER_REGULARIZER(tp_conv2d_transpose_desc, kernel_regularizer),
    TP_LAYER_REGULARIZER(tp_conv2d_transpose_desc, bias_regularizer),
    TP_LAYER_REGULARIZER(tp_conv2d_transpose_desc, activity_regularizer)};

/* Slices x along one axis: elements begin to begin+size-1 (size -1: to the end). */
static tp_node *tp__slice_axis(tp_node *x, int axis, int64_t begin, int64_t size)
{
    int64_t from[TP_MAX_DIMS] = {0}, n[TP_MAX_DIMS];
    for (int i = 0; i < TP_MAX_DIMS; i++) n[i] = -1;
    from[axis] = begin;
    n[axis] = size;
    return tp_slice(x, from, n);
}

/* A node with x's batch size, sh and sw times its height and width, and `channels` channels. It is never computed: only its
 * shape is used, where sizes are not known before the run. */
static tp_node *tp__image_like(tp_node *x, bool nchw, int sh, int sw, int64_t channels)
{
    int64_t times[4] = {1, 1, 1, 1};
    const int c = nchw ? 1 : 3, h = nchw ? 2 : 1;
    if (channels != x->shape.dim[c]) {
        x = tp__slice_axis(x, c, 0, 1);
        times[c] = channels;
    }
    times[h] = sh;
    times[h + 1] = sw;
    return tp_tile(x, times);
}

/* Computes the transposed convolution of x with w (KH,KW,O/groups,C); a holds the attributes of the convolution that is
 * transposed. */
static tp_node *tp__conv_transpose(tp_node *x, tp_node *w, int64_t channels, const tp_conv2d_attrs *a)
{
    const bool nchw = a->data_format == TP_NCHW;
    int64_t before[4] = {0}, after[4] = {0};
    if (tp_is_poison(w)) return w;
    tp_node *like = tp__image_like(x, nchw, a->stride_h, a->stride_w, channels);
    const int64_t extra_h = w->shape.dim[0] - a->stride_h, extra_w = w->shape.dim[1] - a->stride_w;
    if (a->padding == TP_VALID && (extra_h > 0 || extra_w > 0) && !tp_is_poison(like)) {
        after[nchw ? 2 : 1] = extra_h > 0 ? extra_h : 0;
        after[nchw ? 3 : 2] = extra_w > 0 ? extra_w : 0;
        like = tp_pad(like, before, after, TP_PAD_CONSTANT, 0.0f);
    }
    return tp_nn_conv2d_input_grad(x, w, like, a);
}

static tp_node *tp__conv2d_transpose_build(tp_node *x, const void *desc)
{
    const tp_conv2d_transpose_desc *d = (const tp_conv2d_transpose_desc *)desc;
    tp_graph *g = tp_node_graph(x);
    tp_conv2d_attrs a;
    if (d->filters <= 0)
        return tp__layer_fail(g, TP_ERR_ARG, "Conv2DTranspose needs .filters, the number of output channels");
    if (!tp__conv_attrs("Conv2DTranspose", x, d->data_format, d->padding, &d->kernel_size, &d->strides, NULL, &a))
        return tp_poison(g);
    const int64_t kernel[4] = {d->kernel_size, d->kernel_size_w ? d->kernel_size_w : d->kernel_size, d->filters,
                               x->shape.dim[a.data_format == TP_NCHW ? 1 : 3]};
    tp_node *w = tp__layer_weight(x, "W", "W", tp_make_shape_n(4, kernel), tp__kernel_init(d->kernel_initializer),
                                  d->kernel_regularizer);
    tp_node *y = tp__conv_transpose(x, w, d->filters, &a);
    if (tp__tri_option(d->use_bias, true))
        y = tp_nn_bias_add(y, tp__layer_bias(x, d->filters, d->bias_initializer, d->bias_regularizer), a.data_format);
    return tp__layer_finish(y, d->activation, d->activity_regularizer);
}

TP__LAYER_TYPE("Conv2DTranspose", conv2d_transpose, tp__conv2d_transpose_fields, true, false, false);
TP_DEF tp_node *tp_conv2d_transpose_(tp_node *x, const tp_conv2d_transpose_desc *d)
{
    return tp__layer_apply(x, &tp__conv2d_transpose_type, d);
}

/* -- DepthwiseConv2D ----------------------------------------------------- >>layer depthwise_conv2d */

static const tp_layer_field tp__depthwise_conv2d_fields[] = {
    TP_LAYER_FIELD(tp_depthwise_conv2d_desc, depth_multiplier),
    TP_LAYER_PAIR(tp_depthwise_conv2d_desc, kernel_size),
    TP_LAYER_PAIR(tp_depthwise_conv2d_desc, strides),
    TP_LAYER_FIELD(tp_depthwise_conv2d_desc, padding),
    TP_LAYER_FIELD(tp_depthwise_conv2d_desc, data_format),
    TP_LAYER_PAIR(tp_depthwise_conv2d_desc, dilation_rate),
    TP_LAYER_FIELD(tp_depthwise_conv2d_desc, activation),
    TP_LAYER_FIELD(tp_depthwise_conv2d_desc, use_bias),
    TP_LAYER_INIT(tp_depthwise_conv2d_desc, kernel_initializer),
    TP_LAYER_INIT(tp_depthwise_conv2d_desc, bias_initializer),
    TP_LAYER_REGULARIZER(tp_depthwise_conv2d_desc, kernel_regularizer),
    TP_LAYER_REGULARIZER(tp_depthwise_conv2d_desc, bias_regularizer),
    TP_LAYER_REGULARIZER(tp_depthwise_conv2d_desc, activity_regularizer)};

static tp_node *tp__depthwise_conv2d_build(tp_node *x, const void *desc)
{
    const tp_depthwise_conv2d_desc *d = (const tp_depthwise_conv2d_desc *)desc;
    tp_graph *g = tp_node_graph(x);
    tp_conv2d_attrs a;
    if (d->depth_multiplier < 0)
        return tp__layer_fail(g, TP_ERR_ARG, "DepthwiseConv2D has .depth_multiplier %d: it must be 1 or more",
                              d->depth_multiplier);
    if (!tp__conv_attrs("DepthwiseConv2D", x, d->data_format, d->padding, &d->kernel_size, &d->strides,
                        &d->dilation_rate, &a) ||
        !tp__kernel_fits("DepthwiseConv2D", "kernel_size", x, &d->kernel_size, a.dilation_h, a.dilation_w, a.padding,
                         a.data_format))
        return tp_poison(g);
    const int64_t c = x->shape.dim[a.data_format == TP_NCHW ? 1 : 3], m = d->depth_multiplier ? d->depth_multiplier : 1;
    int64_t kernel[4] = {d->kernel_size, d->kernel_size_w ? d->kernel_size_w : d->kernel_size, c, m};
    tp_node *w = tp__layer_weight(x, "W", "W", tp_make_shape_n(4, kernel), tp__kernel_init(d->kernel_initializer),
                                  d->kernel_regularizer);
    kernel[2] = 1; /* a depthwise convolution is one with C groups: the same weights in another shape */
    kernel[3] = c * m;
    a.groups = (int)c;
    tp_node *y = tp_nn_conv2d(x, tp_reshape_to(w, tp_make_shape_n(4, kernel)), &a);
    if (d->use_bias == TP_YES)
        y = tp_nn_bias_add(y, tp__layer_bias(x, c * m, d->bias_initializer, d->bias_regularizer), a.data_format);
    return tp__layer_finish(y, d->activation, d->activity_regularizer);
}

TP__LAYER_TYPE("DepthwiseConv2D", depthwise_conv2d, tp__depthwise_conv2d_fields, true, false, false);
TP_DEF tp_node *tp_depthwise_conv2d_(tp_node *x, const tp_depthwise_conv2d_desc *d)
{
    return tp__layer_apply(x, &tp__depthwise_conv2d_type, d);
}

/* -- FixedUnPooling, CaffeBilinearUpSample -------- >>layer fixed_unpooling caffe_bilinear_upsample */

static const tp_layer_field tp__fixed_unpooling_fields[] = {TP_LAYER_PAIR(tp_fixed_unpooling_desc, shape),
                                                            TP_LAYER_FIELD(tp_fixed_unpooling_desc, unpool_mat),
                                                            TP_LAYER_FIELD(tp_fixed_unpooling_desc, data_format)};

/* A constant matrix (h,w) of x's type whose elements value() computes. */
static tp_node *tp__layer_matrix(const tp_node *x, int h, int w, double (*value)(int i, int j, int h))
{
    tp_graph *g = tp_node_graph(x);
    const int64_t shape[2] = {h, w};
    tp_tensor t;
    memset(&t, 0, sizeof t);
    if (tp_tensor_resize(&t, x->dtype, tp_make_shape_n(2, shape)) != TP_OK)
        return tp__layer_fail(g, TP_ERR_NOMEM, "out of memory");
    for (int64_t i = 0; i < shape[0] * shape[1]; i++) tp_tensor_set(&t, i, value((int)(i / w), (int)(i % w), h));
    tp_node *n = tp_constant(g, &t);
    tp_tensor_free(&t);
    return n;
}

static double tp__top_left(int i, int j, int h)
{
    (void)h;
    return i == 0 && j == 0;
}

/* Computes the transposed convolution of each channel separately with the matrix. */
static tp_node *tp__upsample(tp_node *x, tp_node *mat, const tp_conv2d_attrs *attrs)
{
    tp_conv2d_attrs a = *attrs;
    if (tp_is_poison(mat)) return mat;
    const int64_t c = x->shape.dim[a.data_format == TP_NCHW ? 1 : 3];
    const int64_t shape[4] = {mat->shape.dim[0], mat->shape.dim[1], 1, 1}, times[4] = {1, 1, 1, c};
    a.groups = (int)c;
    return tp__conv_transpose(x, tp_tile(tp_reshape_to(mat, tp_make_shape_n(4, shape)), times), c, &a);
}

static tp_node *tp__fixed_unpooling_build(tp_node *x, const void *desc)
{
    const tp_fixed_unpooling_desc *d = (const tp_fixed_unpooling_desc *)desc;
    tp_graph *g = tp_node_graph(x);
    char t[TP_SHAPE_TEXT];
    tp_conv2d_attrs a;
    if (d->shape <= 0 || d->shape_w < 0)
        return tp__layer_fail(g, TP_ERR_ARG, "FixedUnPooling needs a .shape of 1 or more");
    if (!tp__conv_attrs("FixedUnPooling", x, d->data_format, TP_VALID, &d->shape, &d->shape, NULL, &a))
        return tp_poison(g);
    tp_node *mat = d->unpool_mat ? d->unpool_mat : tp__layer_matrix(x, a.stride_h, a.stride_w, tp__top_left);
    if (tp_is_poison(mat)) return mat;
    if (mat->shape.ndim != 2 || mat->shape.dim[0] != a.stride_h || mat->shape.dim[1] != a.stride_w)
        return tp__layer_fail(g, TP_ERR_SHAPE, "FixedUnPooling has .unpool_mat %s, its .shape is (%d,%d)",
                              tp_shape_text(&mat->shape, t), a.stride_h, a.stride_w);
    return tp__upsample(x, mat, &a);
}

TP__LAYER_TYPE("FixedUnPooling", fixed_unpooling, tp__fixed_unpooling_fields, true, false, true);
TP_DEF tp_node *tp_fixed_unpooling_(tp_node *x, const tp_fixed_unpooling_desc *d)
{
    return tp__layer_apply(x, &tp__fixed_unpooling_type, d);
}

static const tp_layer_field tp__caffe_bilinear_upsample_fields[] = {
    TP_LAYER_FIELD(tp_caffe_bilinear_upsample_desc, shape),
    TP_LAYER_FIELD(tp_caffe_bilinear_upsample_desc, data_format)};

static double tp__bilinear_filler(int i, int j, int s)
{
    const int f = (s + 1) / 2;
    const double c = (double)(2 * f - 1 - f % 2) / (2.0 * f);
    return (1 - fabs((double)i / f - c)) * (1 - fabs((double)j / f - c));
}

static tp_node *tp__caffe_bilinear_upsample_build(tp_node *x, const void *desc)
{
    const tp_caffe_bilinear_upsample_desc *d = (const tp_caffe_bilinear_upsample_desc *)desc;
    tp_graph *g = tp_node_graph(x);
    tp_conv2d_attrs a;
    int pair[2] = {1, 1};
    if (d->shape <= 0)
        return tp__layer_fail(g, TP_ERR_ARG, "CaffeBilinearUpSample needs a .shape, how many times larger it becomes");
    pair[0] = pair[1] = d->shape;
    if (!tp__conv_attrs("CaffeBilinearUpSample", x, d->data_format, TP_SAME, pair, pair, NULL, &a)) return tp_poison(g);
    const int h = a.data_format == TP_NCHW ? 2 : 1, s = d->shape;
    const int64_t edge = (int64_t)s * (s - 1), c = x->shape.dim[h == 2 ? 1 : 3];
    tp__pad_attrs border;
    int64_t pad[4] = {0}, size[4] = {-1, -1, -1, -1};
    pad[h] = pad[h + 1] = s - 1;
    tp_node *y = s > 1 ? tp_pad(x, pad, pad, TP_PAD_SYMMETRIC, 0.0f) : x;
    y = tp__upsample(y, tp__layer_matrix(x, 2 * s, 2 * s, tp__bilinear_filler), &a);
    if (tp_is_poison(y) || s == 1) return y;
    /* remove the border: slice if the size is known, otherwise use the gradient of padding, which crops */
    memset(&border, 0, sizeof border);
    for (int i = h; i < h + 2; i++) {
        border.before[i] = border.after[i] = edge;
        size[i] = x->shape.dim[i] * s;
    }
    if (x->shape.dim[h] >= 0 && x->shape.dim[h + 1] >= 0) return tp_slice(y, border.before, size);
    tp_node *in[2];
    in[0] = y;
    in[1] = tp__image_like(x, h == 2, s, s, c);
    return tp__opn(&tp__op_pad_grad, in, 2, &border);
}

TP__LAYER_TYPE("CaffeBilinearUpSample", caffe_bilinear_upsample, tp__caffe_bilinear_upsample_fields, true, false,
               false);
TP_DEF tp_node *tp_caffe_bilinear_upsample_(tp_node *x, const tp_caffe_bilinear_upsample_desc *d)
{
    return tp__layer_apply(x, &tp__caffe_bilinear_upsample_type, d);
}

/* -- LayerNorm, InstanceNorm, GroupNorm ----------------- >>layer layer_norm instance_norm group_norm */

#define TP__NORM_FIELDS(T)                                                           \
    TP_LAYER_FIELD(T, epsilon), TP_LAYER_FIELD(T, center), TP_LAYER_FIELD(T, scale), \
        TP_LAYER_INIT(T, gamma_initializer), TP_LAYER_FIELD(T, data_format)
static const tp_layer_field tp__layer_norm_fields[] = {TP__NORM_FIELDS(tp_layer_norm_desc)};
static const tp_layer_field tp__group_norm_fields[] = {TP__NORM_FIELDS(tp_group_norm_desc),
                                                       TP_LAYER_FIELD(tp_group_norm_desc, groups)};

/* Checks that x has four dimensions, or (B,C) if `allow_2d` allows it, and a known number of channels. Returns the channel axis, 0
 * after an error. */
static int tp__norm_axis(const char *layer, const tp_node *x, bool allow_2d, tp_data_format format)
{
    char t[TP_SHAPE_TEXT];
    if (allow_2d && x->shape.ndim == 3) {
        tp__layer_fail(
            tp_node_graph(x), TP_ERR_SHAPE,
            "input is %s, %s needs 4 dimensions (B,H,W,C) or 2 (B,C); for each step of a sequence (B,T,C) apply "
            "it to tp_reshape(x, TP_ANY, C)",
            tp_shape_text(&x->shape, t), layer);
        return 0;
    }
    if (allow_2d && x->shape.ndim == 2 ? !tp__layer_float_input(layer, x) : !tp__layer_image_input(layer, x, format))
        return 0;
    const int axis = x->shape.ndim == 2 || format == TP_NCHW ? 1 : 3;
    if (x->shape.dim[axis] > 0) return axis;
    tp__layer_fail(tp_node_graph(x), TP_ERR_SHAPE, "input is %s, %s needs to know its channels",
                   tp_shape_text(&x->shape, t), layer);
    return 0;
}

/* Returns gamma or beta of a layer, one value for each of the c channels of x: a variable if it is wanted, else the constant `otherwise`. */
static tp_node *tp__norm_weight(const tp_node *x, const char *name, int64_t c, tp_tri wanted, tp_init init,
                                float otherwise)
{
    tp_regularizer none;
    memset(&none, 0, sizeof none);
    if (tp__tri_option(wanted, true)) return tp__layer_weight(x, name, name, tp_make_shape_n(1, &c), init, none);
    return tp_cast(tp__batch_norm_fixed(x, c, otherwise), x->dtype);
}

/* `allow_2d`: inputs of two dimensions (B,C) are allowed too. */
static tp_node *tp__norm(const char *layer, tp_node *x, const tp_group_norm_desc *d, int64_t groups, bool allow_2d)
{
    tp_graph *g = tp_node_graph(x);
    const int axis = tp__norm_axis(layer, x, allow_2d, d->data_format);
    if (!axis) return tp_poison(g);
    if (groups < 0) groups = x->shape.dim[axis];
    if (x->shape.dim[axis] % groups != 0)
        return tp__layer_fail(g, TP_ERR_ARG, "%s has %lld groups, which do not divide its %lld channels", layer,
                              (long long)groups, (long long)x->shape.dim[axis]);
    if (!tp__norm_epsilon(g, layer, d->epsilon)) return tp_poison(g);
    const int64_t c = x->shape.dim[axis];
    const float epsilon = tp__float_option(d->epsilon, 1e-5f);
    tp_node *gamma =
        tp__norm_weight(x, "gamma", c, d->scale, d->gamma_initializer.kind ? d->gamma_initializer : tp_init_ones(), 1);
    tp_node *beta = tp__norm_weight(x, "beta", c, d->center, tp_init_zeros(), 0);
    if (x->shape.ndim == 2) return tp_nn_layer_norm(x, gamma, beta, epsilon);
    return tp_nn_group_norm(x, gamma, beta, axis, (int)groups, epsilon);
}

static tp_node *tp__group_norm_build(tp_node *x, const void *desc)
{
    const tp_group_norm_desc *d = (const tp_group_norm_desc *)desc;
    if (d->groups < 0)
        return tp__layer_fail(tp_node_graph(x), TP_ERR_ARG, "GroupNorm has .groups %d: it must be 1 or more",
                              d->groups);
    return tp__norm("GroupNorm", x, d, d->groups ? d->groups : 32, false);
}
static tp_node *tp__layer_norm_as(const char *layer, tp_node *x, const void *desc, int64_t groups)
{
    tp_group_norm_desc d;
    memset(&d, 0, sizeof d);
    /* this cast is valid because tp_group_norm_desc begins with the same fields */
    memcpy(&d, desc, sizeof(tp_layer_norm_desc));
    return tp__norm(layer, x, &d, groups, groups == 1);
}
static tp_node *tp__layer_norm_build(tp_node *x, const void *d) { return tp__layer_norm_as("LayerNorm", x, d, 1); }
static tp_node *tp__instance_norm_build(tp_node *x, const void *d)
{
    return tp__layer_norm_as("InstanceNorm", x, d, -1);
}

TP__LAYER_TYPE("LayerNorm", layer_norm, tp__layer_norm_fields, false, false, false);
TP_DEF tp_node *tp_layer_norm_(tp_node *x, const tp_layer_norm_desc *d)
{
    return tp__layer_apply(x, &tp__layer_norm_type, d);
}
TP__LAYER_TYPE("InstanceNorm", instance_norm, tp__layer_norm_fields, false, false, false);
TP_DEF tp_node *tp_instance_norm_(tp_node *x, const tp_instance_norm_desc *d)
{
    return tp__layer_apply(x, &tp__instance_norm_type, d);
}
TP__LAYER_TYPE("GroupNorm", group_norm, tp__group_norm_fields, false, false, false);
TP_DEF tp_node *tp_group_norm_(tp_node *x, const tp_group_norm_desc *d)
{
    return tp__layer_apply(x, &tp__group_norm_type, d);
}

/* -- BatchRenorm ------------------------------------------------------------ >>layer batch_renorm */

static const tp_layer_field tp__batch_renorm_fields[] = {
    TP_LAYER_ONE_OF(tp_batch_renorm_desc, rmax, 1),      TP_LAYER_ONE_OF(tp_batch_renorm_desc, dmax, 2),
    TP_LAYER_ONE_OF(tp_batch_renorm_desc, rmax_node, 1), TP_LAYER_ONE_OF(tp_batch_renorm_desc, dmax_node, 2),
    TP_LAYER_FIELD(tp_batch_renorm_desc, momentum),      TP__NORM_FIELDS(tp_batch_renorm_desc)};

/* Updates the running average of a renorm variable and of its weight, which converges to 1; variable / weight is the unbiased
 * average. */
static tp_node *tp__renorm_update(tp_node *var, tp_node *weight, tp_node *value)
{
    const float decay = 0.99f;
    weight = tp_assign_moving_average(weight, tp_ones_like(weight), decay, NULL);
    return tp_div(tp_assign_moving_average(var, value, decay, NULL), weight);
}

/* Computes y*gamma + beta, without gamma or beta if the layer does not have them. */
static tp_node *tp__norm_affine(tp_node *y, const tp_node *x, int axis, tp_tri scale, tp_tri center, tp_init gamma)
{
    const int64_t c = x->shape.dim[axis];
    const tp_init first = gamma.kind ? gamma : tp_init_ones();
    if (tp__tri_option(scale, true))
        y = tp_mul(y, tp__per_channel(tp__norm_weight(x, "gamma", c, scale, first, 1), x, axis));
    if (tp__tri_option(center, true))
        y = tp_add(y, tp__per_channel(tp__norm_weight(x, "beta", c, center, tp_init_zeros(), 0), x, axis));
    return y;
}

static tp_node *tp__batch_renorm_build(tp_node *x, const void *desc)
{
    static const char *const names[6] = {"moving_mean",        "moving_variance", "renorm_mean",
                                         "renorm_mean_weight", "renorm_stddev",   "renorm_stddev_weight"};
    const tp_batch_renorm_desc *d = (const tp_batch_renorm_desc *)desc;
    tp_graph *g = tp_node_graph(x);
    const tp_tower_context *tower = tp_current_tower_context(g);
    if (!tower)
        return tp__layer_fail(g, TP_ERR_STATE,
                              "BatchRenorm is used outside a tower, so it cannot know whether this is training: "
                              "tp_tower_enter first");
    const int axis = tp__norm_axis("BatchRenorm", x, true, d->data_format);
    if (!axis) return tp_poison(g);
    if ((!d->rmax_node && !(d->rmax >= 1.0f)) || (!d->dmax_node && !(tp__float_option(d->dmax, -1.0f) >= 0.0f)))
        return tp__layer_fail(g, TP_ERR_ARG, "BatchRenorm needs an .rmax of 1 or more and a .dmax (TP_ZERO for 0)");
    if (!tp__norm_numbers(g, "BatchRenorm", d->momentum, d->epsilon)) return tp_poison(g);
    const int64_t c = x->shape.dim[axis];
    const float epsilon = tp__float_option(d->epsilon, 1e-5f);
    const tp_dtype given = x->dtype;
    if (given != TP_F64) x = tp_cast(x, TP_F32); /* for half-precision inputs the statistics are float32 */
    tp_node *v[6], *one = tp__batch_norm_fixed(x, c, 1.0f), *zero = tp__batch_norm_fixed(x, c, 0.0f), *y, *ops[2];
    for (int i = 0; i < 6; i++) {
        tp_variable_desc of;
        memset(&of, 0, sizeof of);
        of.name = names[i];
        of.dtype = x->dtype == TP_F64 ? TP_F64 : TP_F32;
        if (i != 3 && i != 5) of.shape = tp_make_shape_n(1, &c); /* the averages' weights are scalars */
        of.init = i == 1 ? tp_init_ones() : tp_init_zeros();
        of.trainable = TP_NO;
        if (tower->is_main_training_tower || !tower->is_training) of.collection = TP_KEY_MODEL_VARIABLES;
        v[i] = tp_get_variable(g, &of);
        tp_layer_hold(g, names[i], v[i]);
    }
    if (tp_graph_status(g) != TP_OK) return tp_poison(g);
    if (!tower->is_training) {
        y = tp_nn_batch_norm_infer(x, one, zero, v[0], v[1], axis, epsilon);
        return tp_cast(tp__norm_affine(y, x, axis, d->scale, d->center, d->gamma_initializer), given);
    }
    tp_node *mean = NULL, *var = NULL;
    y = tp_nn_batch_norm_train(x, one, zero, axis, epsilon, false, &mean, &var);
    if (tp_is_poison(y)) return y;
    tp_node *s = tp_sqrt(tp_affine(var, 1.0f, epsilon));
    tp_node *mixed_mean = tp_add(v[2], tp_mul(tp_affine(v[3], -1.0f, 1.0f), mean));
    tp_node *mixed_s = tp_add(v[4], tp_mul(tp_affine(v[5], -1.0f, 1.0f), s));
    const tp_dtype dtype = v[0]->dtype;
    tp_node *rmax = d->rmax_node ? d->rmax_node : tp_const_as(g, dtype, (double)d->rmax);
    tp_node *dmax = d->dmax_node ? d->dmax_node : tp_const_as(g, dtype, (double)tp__float_option(d->dmax, 0.0f));
    tp_node *rmin = tp_reciprocal(rmax), *r = tp_maximum(tp_minimum(tp_div(s, mixed_s), rmax), rmin);
    tp_node *dmin = tp_neg(dmax);
    tp_node *off = tp_maximum(tp_minimum(tp_div(tp_sub(mean, mixed_mean), mixed_s), dmax), dmin);
    off = tp_stop_gradient(off);
    y = tp__scale_and_shift(y, tp_stop_gradient(r), off, x, axis);
    y = tp_cast(tp__norm_affine(y, x, axis, d->scale, d->center, d->gamma_initializer), given);
    if (!tower->is_main_training_tower) return y;
    const float momentum = tp__float_option(d->momentum, 0.9f);
    tp_node *new_s = tp__renorm_update(v[4], v[5], s);
    ops[0] = tp_assign_moving_average(v[0], tp__renorm_update(v[2], v[3], mean), momentum, NULL);
    ops[1] = tp_assign_moving_average(v[1], tp_affine(tp_square(new_s), 1.0f, -epsilon), momentum, NULL);
    tp_collection_add(g, TP_KEY_UPDATE_OPS, ops[0]);
    tp_collection_add(g, TP_KEY_UPDATE_OPS, ops[1]);
    return y;
}

TP__LAYER_TYPE("BatchRenorm", batch_renorm, tp__batch_renorm_fields, false, false, false);
TP_DEF tp_node *tp_batch_renorm_(tp_node *x, const tp_batch_renorm_desc *d)
{
    return tp__layer_apply(x, &tp__batch_renorm_type, d);
}

/* -- PReLU, Maxout, ConcatWith, SoftMax ----------- >>layer prelu maxout concat_with softmax_layer */

static const tp_layer_field tp__prelu_fields[] = {TP_LAYER_FIELD(tp_prelu_desc, init)};

static tp_node *tp__layer_scalar(const tp_node *x, const char *name, float value)
{
    tp_regularizer none;
    memset(&none, 0, sizeof none);
    return tp__layer_weight(x, name, name, tp_make_shape_n(0, NULL), tp_init_constant(value), none);
}

static tp_node *tp__prelu_build(tp_node *x, const void *desc)
{
    if (!tp__layer_float_input("PReLU", x)) return tp_poison(tp_node_graph(x));
    const float init = tp__float_option(((const tp_prelu_desc *)desc)->init, 0.001f);
    if (!tp__finite((double)init))
        return tp__layer_fail(tp_node_graph(x), TP_ERR_ARG, "PReLU has .init %g: it must be finite", (double)init);
    tp_node *a = tp__layer_scalar(x, "alpha", init);
    tp_node *below = tp_mul(a, x), *positive = tp_greater(x, tp__zero_of(x));
    return tp_select(positive, x, below);
}

TP__LAYER_TYPE("PReLU", prelu, tp__prelu_fields, false, false, false);
TP_DEF tp_node *tp_prelu_(tp_node *x, const tp_prelu_desc *d) { return tp__layer_apply(x, &tp__prelu_type, d); }

static const tp_layer_field tp__maxout_fields[] = {TP_LAYER_FIELD(tp_maxout_desc, num_unit)};

static tp_node *tp__maxout_build(tp_node *x, const void *desc)
{
    const int n = ((const tp_maxout_desc *)desc)->num_unit, last = 2;
    tp_graph *g = tp_node_graph(x);
    char t[TP_SHAPE_TEXT];
    if (!tp__layer_float_input("Maxout", x)) return tp_poison(g);
    if (x->shape.ndim != 2 && x->shape.ndim != 4)
        return tp__layer_fail(g, TP_ERR_SHAPE, "input is %s, Maxout needs (B,C) or (B,H,W,C)",
                              tp_shape_text(&x->shape, t));
    const int axis = x->shape.ndim - 1;
    const int64_t c = x->shape.dim[axis];
    if (n <= 0 || c <= 0 || c % n != 0)
        return tp__layer_fail(g, TP_ERR_ARG, "input is %s, Maxout has .num_unit %d, which must divide its channels",
                              tp_shape_text(&x->shape, t), n);
    const int64_t shape[3] = {TP_ANY, c / n, n};
    tp_node *y = tp_reduce_max(tp_reshape_to(x, tp_make_shape_n(3, shape)), &last, 1, false);
    return tp_reshape_like(y, tp__slice_axis(x, axis, 0, c / n));
}

TP__LAYER_TYPE("Maxout", maxout, tp__maxout_fields, false, true, false);
TP_DEF tp_node *tp_maxout_(tp_node *x, const tp_maxout_desc *d) { return tp__layer_apply(x, &tp__maxout_type, d); }

static const tp_layer_field tp__concat_with_fields[] = {
    TP_LAYER_ONE_OF(tp_concat_with_desc, tensor, 1), TP_LAYER_ONE_OF(tp_concat_with_desc, tensors, 1),
    TP_LAYER_FIELD(tp_concat_with_desc, n_tensors), TP_LAYER_FIELD(tp_concat_with_desc, dim)};

static tp_node *tp__concat_with_build(tp_node *x, const void *desc)
{
    const tp_concat_with_desc *d = (const tp_concat_with_desc *)desc;
    tp_graph *g = tp_node_graph(x);
    const int n = d->tensor ? 1 : d->n_tensors;
    if (d->dim == 0)
        return tp__layer_fail(g, TP_ERR_ARG, "ConcatWith needs .dim, the axis: 1, 2, .. or from the end -1, -2, ..");
    if ((d->tensor != NULL) == (d->tensors != NULL) || n <= 0)
        return tp__layer_fail(g, TP_ERR_ARG, "ConcatWith needs either .tensor or .tensors with .n_tensors");
    tp_node **operands = (tp_node **)tp_graph_alloc(g, (size_t)(n + 1) * sizeof *operands);
    if (!operands) return tp_poison(g);
    operands[0] = x;
    for (int i = 0; i < n; i++) operands[i + 1] = d->tensor ? d->tensor : d->tensors[i];
    return tp_concat(operands, n + 1, d->dim);
}

TP__LAYER_TYPE("ConcatWith", concat_with, tp__concat_with_fields, false, true, false);
TP_DEF tp_node *tp_concat_with_(tp_node *x, const tp_concat_with_desc *d)
{
    return tp__layer_apply(x, &tp__concat_with_type, d);
}

/* -- GridSample --------------------------------------------------------- >>layer grid_sample */
static const tp_layer_field tp__grid_sample_fields[] = {TP_LAYER_FIELD(tp_grid_sample_desc, coords),
                                                        TP_LAYER_FIELD(tp_grid_sample_desc, border_mode)};
static tp_node *tp__grid_sample_build(tp_node *x, const void *desc)
{
    const tp_grid_sample_desc *d = (const tp_grid_sample_desc *)desc;
    tp_graph *g = tp_node_graph(x);
    if (!d->coords) return tp__layer_fail(g, TP_ERR_ARG, "GridSample needs .coords, the places to look at: (B,H,W,2)");
    if (x->shape.ndim != 4 || (!tp_is_poison(d->coords) && d->coords->shape.ndim != 4))
        return tp__layer_fail(
            g, TP_ERR_SHAPE,
            "GridSample needs an image (B,H,W,C) and .coords (B,H2,W2,2); they have %d and %d dimensions",
            x->shape.ndim, d->coords->shape.ndim);
    if (d->border_mode != TP_BORDER_REPEAT && d->border_mode != TP_BORDER_CONSTANT)
        return tp__layer_fail(g, TP_ERR_ARG,
                              "GridSample has .border_mode %d; it is TP_BORDER_REPEAT or TP_BORDER_CONSTANT",
                              d->border_mode);
    return tp_bilinear_sampler(x, d->coords, d->border_mode);
}
TP__LAYER_TYPE("GridSample", grid_sample, tp__grid_sample_fields, true, true, false);
TP_DEF tp_node *tp_grid_sample_(tp_node *x, const tp_grid_sample_desc *d)
{
    return tp__layer_apply(x, &tp__grid_sample_type, d);
}

static const tp_layer_field tp__softmax_layer_fields[] = {TP_LAYER_FIELD(tp_softmax_layer_desc, use_temperature),
                                                          TP_LAYER_FIELD(tp_softmax_layer_desc, temperature_init)};

static tp_node *tp__softmax_layer_build(tp_node *x, const void *desc)
{
    const tp_softmax_layer_desc *d = (const tp_softmax_layer_desc *)desc;
    tp_graph *g = tp_node_graph(x);
    const float temperature = d->temperature_init != 0.0f ? d->temperature_init : 1.0f;
    if (!tp__layer_float_input("SoftMax", x)) return tp_poison(g);
    if (!(temperature > 0.0f) || temperature == TP_ZERO)
        return tp__layer_fail(g, TP_ERR_ARG, "SoftMax has .temperature_init %g: it must be positive",
                              (double)temperature);
    return tp_softmax(d->use_temperature == TP_YES ? tp_mul(x, tp__layer_scalar(x, "invtemp", 1.0f / temperature)) : x);
}

TP__LAYER_TYPE("SoftMax", softmax_layer, tp__softmax_layer_fields, false, false, false);
TP_DEF tp_node *tp_softmax_layer_(tp_node *x, const tp_softmax_layer_desc *d)
{
    return tp__layer_apply(x, &tp__softmax_layer_type, d);
}

#ifndef TP_NO_SEQUENCE_LAYERS
/* -- Embedding ----------------------------------------------------------------- >>layer embedding */

static const tp_layer_field tp__embedding_fields[] = {
    TP_LAYER_FIELD(tp_embedding_desc, vocab), TP_LAYER_FIELD(tp_embedding_desc, units),
    TP_LAYER_INIT(tp_embedding_desc, kernel_initializer), TP_LAYER_REGULARIZER(tp_embedding_desc, kernel_regularizer)};

static tp_node *tp__embedding_build(tp_node *x, const void *desc)
{
    const tp_embedding_desc *d = (const tp_embedding_desc *)desc;
    tp_graph *g = tp_node_graph(x);
    if (d->vocab <= 0 || d->units <= 0)
        return tp__layer_fail(g, TP_ERR_ARG, "Embedding needs .vocab and .units, the rows and columns of its table");
    if (x->dtype != TP_I32 && x->dtype != TP_I64)
        return tp__layer_fail(g, TP_ERR_DTYPE,
                              "input is %s, Embedding needs int32 or int64: tp_cast(x, TP_I32) before it",
                              tp_dtype_name(x->dtype));
    tp_variable_desc v;
    memset(&v, 0, sizeof v);
    const int64_t shape[2] = {d->vocab, d->units};
    v.name = "W";
    v.shape = tp_make_shape_n(2, shape);
    v.init = d->kernel_initializer;
    v.regularizer = d->kernel_regularizer;
    tp_node *w = tp_get_variable(g, &v);
    tp_layer_hold(g, "W", w);
    return tp_gather(w, x);
}

TP__LAYER_TYPE("Embedding", embedding, tp__embedding_fields, true, false, false);
TP_DEF tp_node *tp_embedding_(tp_node *x, const tp_embedding_desc *d)
{
    return tp__layer_apply(x, &tp__embedding_type, d);
}

/* -- LSTM, GRU and their cells ---------------------- >>layer lstm gru basic_lstm_cell gru_cell */

static const tp_layer_field tp__rnn_fields[] = {TP_LAYER_FIELD(tp_rnn_desc, units),
                                                TP_LAYER_FIELD(tp_rnn_desc, forget_bias),
                                                TP_LAYER_FIELD(tp_rnn_desc, time_major),
                                                TP_LAYER_FIELD(tp_rnn_desc, state),
                                                TP_LAYER_INIT(tp_rnn_desc, kernel_initializer),
                                                TP_LAYER_INIT(tp_rnn_desc, bias_initializer)};

/* Returns zeros (B,units) for x (T,B,C) or (B,T,C); B may be unknown. */
static tp_node *tp__rnn_zeros(tp_node *x, bool batch_major, int units)
{
    const int64_t flat[2] = {TP_ANY, 1}, times[2] = {1, units};
    tp_node *one_step = tp__slice_axis(tp__slice_axis(x, batch_major ? 1 : 0, 0, 1), 2, 0, 1);
    return tp_zeros_like(tp_tile(tp_reshape_to(one_step, tp_make_shape_n(2, flat)), times));
}

/* Whether a given state is (B,units); else the graph has the sentence. */
static bool tp__rnn_state_fits(const char *layer, tp_graph *g, const tp_node *state, const char *name, int units)
{
    char t[TP_SHAPE_TEXT];
    if (!state || tp_is_poison(state)) return true;
    const tp_shape *s = &state->shape;
    if (s->ndim == 2 && (s->dim[1] == units || s->dim[1] == TP_ANY)) return true;
    tp__layer_fail(g, TP_ERR_SHAPE, "%s has .units %d, but its state %s is %s: it must be (B,%d)", layer, units, name,
                   tp_shape_text(s, t), units);
    return false;
}
static tp_node *tp__rnn_layer(const char *layer, tp_node *x, const tp_rnn_desc *d, bool lstm, bool cell)
{
    tp_graph *g = tp_node_graph(x);
    const int ndim = cell ? 2 : 3;
    char t[TP_SHAPE_TEXT];
    if (!tp__layer_float_input(layer, x)) return tp_poison(g);
    if (d->units <= 0) return tp__layer_fail(g, TP_ERR_ARG, "%s needs .units, the size of its state", layer);
    if (x->shape.ndim != ndim || x->shape.dim[ndim - 1] <= 0)
        return tp__layer_fail(g, TP_ERR_SHAPE, "input is %s, %s needs %s with a known C", tp_shape_text(&x->shape, t),
                              layer, cell ? "(B,C)" : "(B,T,C)");
    if (d->state && (!tp__rnn_state_fits(layer, g, d->state->h, "h", d->units) ||
                     !tp__rnn_state_fits(layer, g, lstm ? d->state->c : NULL, "c", d->units)))
        return tp_poison(g);
    if (!lstm && (d->forget_bias != 0.0f || (d->state && d->state->c)))
        return tp__layer_fail(g, TP_ERR_ARG, "%s has %s, which only an LSTM has: leave it out", layer,
                              d->forget_bias != 0.0f ? "a .forget_bias" : "a state c");
    if (cell && d->time_major == TP_YES)
        return tp__layer_fail(g, TP_ERR_ARG, "%s has .time_major, but it takes one step, (B,C): leave it out", layer);
    const bool batch_major = !cell && d->time_major != TP_YES;
    const bool has_state = d->state && d->state->h && (!lstm || d->state->c);
    if (!cell && !has_state && x->shape.dim[batch_major ? 1 : 0] == 0)
        return tp__layer_fail(g, TP_ERR_SHAPE,
                              "input is %s: the sequences have 0 steps, and %s without a .state needs one at least",
                              tp_shape_text(&x->shape, t), layer);
    const int64_t n = d->units, in = x->shape.dim[ndim - 1] + n;
    const int64_t gates[2] = {in, lstm ? 4 * n : 2 * n}, candidate[2] = {in, n};
    tp_init zeros = d->bias_initializer.kind ? d->bias_initializer : tp_init_zeros();
    tp_init ones = d->bias_initializer.kind ? d->bias_initializer : tp_init_ones();
    tp_regularizer none;
    memset(&none, 0, sizeof none);
    if (cell) x = tp_expand_dims(x, 0);
    tp_node *w = tp__layer_weight(x, lstm ? "kernel" : "gates/kernel", lstm ? "kernel" : "gates/kernel",
                                  tp_make_shape_n(2, gates), d->kernel_initializer, none);
    tp_node *b = tp__layer_weight(x, lstm ? "bias" : "gates/bias", lstm ? "bias" : "gates/bias",
                                  tp_make_shape_n(1, gates + 1), lstm ? zeros : ones, none);
    tp_node *h = d->state ? d->state->h : NULL, *c = d->state ? d->state->c : NULL, *y;
    if (!h) h = tp__rnn_zeros(x, batch_major, d->units);
    if (lstm) {
        if (!c) c = tp__rnn_zeros(x, batch_major, d->units);
        y = tp_nn_lstm(x, w, b, h, c, tp__float_option(d->forget_bias, 1.0f), batch_major, &h, &c);
    } else {
        tp_node *wc = tp__layer_weight(x, "candidate/kernel", "candidate/kernel", tp_make_shape_n(2, candidate),
                                       d->kernel_initializer, none);
        tp_node *bc =
            tp__layer_weight(x, "candidate/bias", "candidate/bias", tp_make_shape_n(1, candidate + 1), zeros, none);
        y = tp_nn_gru(x, w, b, wc, bc, h, batch_major, &h);
    }
    if (d->state && !tp_is_poison(y)) {
        d->state->h = h;
        if (lstm) d->state->c = c;
    }
    return cell ? h : y;
}

/* Calls of a cell with the same name share its variables, as the time steps of an unrolled loop need. */
static tp_node *tp__rnn_cell(const char *layer, tp_node *x, const void *desc, bool lstm)
{
    tp_graph *g = tp_node_graph(x);
    tp_variable_scope_desc scope;
    memset(&scope, 0, sizeof scope);
    if (tp_variable_scope_reuse(g) == TP_REUSE_NO) scope.reuse = TP_REUSE_AUTO;
    tp_variable_scope_push(g, &scope);
    tp_node *y = tp__rnn_layer(layer, x, (const tp_rnn_desc *)desc, lstm, true);
    tp_variable_scope_pop(g);
    return y;
}

static tp_node *tp__lstm_build(tp_node *x, const void *d)
{
    return tp__rnn_layer("LSTM", x, (const tp_rnn_desc *)d, true, false);
}
static tp_node *tp__gru_build(tp_node *x, const void *d)
{
    return tp__rnn_layer("GRU", x, (const tp_rnn_desc *)d, false, false);
}
static tp_node *tp__basic_lstm_cell_build(tp_node *x, const void *d)
{
    return tp__rnn_cell("BasicLSTMCell", x, d, true);
}
static tp_node *tp__gru_cell_build(tp_node *x, const void *d) { return tp__rnn_cell("GRUCell", x, d, false); }

TP__LAYER_TYPE("LSTM", lstm, tp__rnn_fields, true, false, false);
TP_DEF tp_node *tp_lstm_(tp_node *x, const tp_lstm_desc *d) { return tp__layer_apply(x, &tp__lstm_type, d); }
TP__LAYER_TYPE("GRU", gru, tp__rnn_fields, true, false, false);
TP_DEF tp_node *tp_gru_(tp_node *x, const tp_gru_desc *d) { return tp__layer_apply(x, &tp__gru_type, d); }
TP__LAYER_TYPE("BasicLSTMCell", basic_lstm_cell, tp__rnn_fields, true, false, false);
TP_DEF tp_node *tp_basic_lstm_cell_(tp_node *x, const tp_basic_lstm_cell_desc *d)
{
    return tp__layer_apply(x, &tp__basic_lstm_cell_type, d);
}
TP__LAYER_TYPE("GRUCell", gru_cell, tp__rnn_fields, true, false, false);
TP_DEF tp_node *tp_gru_cell_(tp_node *x, const tp_gru_cell_desc *d)
{
    return tp__layer_apply(x, &tp__gru_cell_type, d);
}

/* -- MultiHeadAttention ---------------------------------------------- >>layer multi_head_attention */

static const tp_layer_field tp__multi_head_attention_fields[] = {
    TP_LAYER_FIELD(tp_multi_head_attention_desc, heads),
    TP_LAYER_FIELD(tp_multi_head_attention_desc, units),
    TP_LAYER_FIELD(tp_multi_head_attention_desc, causal),
    TP_LAYER_FIELD(tp_multi_head_attention_desc, key),
    TP_LAYER_FIELD(tp_multi_head_attention_desc, value),
    TP_LAYER_FIELD(tp_multi_head_attention_desc, mask),
    TP_LAYER_FIELD(tp_multi_head_attention_desc, use_bias),
    TP_LAYER_INIT(tp_multi_head_attention_desc, kernel_initializer),
    TP_LAYER_INIT(tp_multi_head_attention_desc, bias_initializer),
    TP_LAYER_REGULARIZER(tp_multi_head_attention_desc, kernel_regularizer)};

static tp_node *tp__attention_projection(tp_node *x, const char *w, const char *b, int64_t units,
                                         const tp_multi_head_attention_desc *d)
{
    char t[TP_SHAPE_TEXT];
    tp_regularizer none;
    memset(&none, 0, sizeof none);
    if (tp_is_poison(x)) return x;
    const int64_t shape[2] = {x->shape.ndim == 3 ? x->shape.dim[2] : -1, units};
    if (shape[0] <= 0)
        return tp__layer_fail(tp_node_graph(x), TP_ERR_SHAPE,
                              "input is %s, MultiHeadAttention needs (B,T,C) with a known C",
                              tp_shape_text(&x->shape, t));
    tp_node *y = tp_matmul(
        x, tp__layer_weight(x, w, w, tp_make_shape_n(2, shape), d->kernel_initializer, d->kernel_regularizer));
    if (!tp__tri_option(d->use_bias, true)) return y;
    return tp_nn_bias_add(y,
                          tp__layer_weight(x, b, b, tp_make_shape_n(1, &units),
                                           d->bias_initializer.kind ? d->bias_initializer : tp_init_zeros(), none),
                          TP_NHWC);
}

/* (B,T,units) -> (B,heads,T,units/heads); neither B nor T need be known. */
static tp_node *tp__attention_heads(tp_node *x, int heads)
{
    tp_graph *g = tp_node_graph(x);
    tp_node **part = (tp_node **)tp_calloc((size_t)heads, sizeof *part), *y;
    if (!part) return tp__layer_fail(g, TP_ERR_NOMEM, "no memory for %d heads", heads);
    (void)tp_split(x, heads, 2, part);
    y = tp_stack(part, heads, 1);
    tp_free((void *)part);
    return y;
}
/* 0, -1, -2, .. along axis 1 of x, whose other axes keep their sizes: places counted from the end of a sequence. */
static tp_node *tp__places_from_end(tp_node *x) { return tp_cumsum(tp_fill_like(x, -1.0f), 1, true, true); }
/* What is added to the scores: 0 for a visible key, -1e30 for a hidden one. Its shape is (B,1,1 or T,S). */
static tp_node *tp__attention_bias(tp_node *mask, tp_node *q, tp_node *k, bool causal)
{
    const int64_t begin[3] = {0, 0, 0}, size[3] = {-1, -1, 1};
    tp_node *visible = tp_stop_gradient(tp_cast(mask, TP_F32));
    while (visible->shape.ndim < 4 && !tp_is_poison(visible)) visible = tp_expand_dims(visible, 1);
    if (causal) { /* both sequences end at the same time: key j is visible to query i if j - S <= i - T */
        tp_node *i = tp__places_from_end(tp_cast(tp_slice(q, begin, size), TP_F32));
        tp_node *j = tp__places_from_end(tp_cast(tp_slice(k, begin, size), TP_F32));
        i = tp_expand_dims(i, 1), j = tp_expand_dims(tp_expand_dims(tp_squeeze(j, 2), 1), 1);
        visible = tp_minimum(visible, tp_clip(tp_affine(tp_sub(i, j), 1.0f, 1.0f), 0.0f, 1.0f));
    }
    return tp__stays_float32(tp_affine(visible, 1e30f, -1e30f));
}
static bool tp__mask_fits(const tp_shape *mask, const tp_shape *q, const tp_shape *k)
{
    tp_shape whole = *q; /* (B,T,S), or (1,T,S) */
    whole.dim[2] = k->dim[1];
    if (mask->ndim == 2) whole.ndim = 2, whole.dim[1] = k->dim[1];
    if (mask->ndim > 0 && mask->dim[0] == 1) whole.dim[0] = 1;
    return (mask->ndim == 2 || mask->ndim == 3) && tp_shape_compatible(mask, &whole);
}
/* Attention by ops, in which a mask hides keys. */
static tp_node *tp__masked_attention(tp_node *q, tp_node *k, tp_node *v, int heads, bool causal, tp_node *mask)
{
    const float scale = 1.0f / sqrtf((float)(q->shape.dim[2] / heads));
    tp_node *bias = tp__attention_bias(mask, q, k, causal);
    k = tp__attention_heads(k, heads), v = tp__attention_heads(v, heads);
    tp_node *scores = tp_matmul_ex(tp_affine(tp__attention_heads(q, heads), scale, 0.0f), k, false, true);
    const tp_dtype wide = q->dtype == TP_F64 ? TP_F64 : TP_F32; /* float16 has no -1e30 */
    tp_node *p = tp_softmax(tp__stays_float32(tp_add(tp_cast(scores, wide), tp_cast(bias, wide))));
    tp_node *y = tp_matmul(tp_cast(p, v->dtype), v);
    tp_node **part = (tp_node **)tp_calloc((size_t)heads, sizeof *part);
    if (!part) return tp__layer_fail(tp_node_graph(q), TP_ERR_NOMEM, "no memory for %d heads", heads);
    (void)tp_unstack(y, 1, heads, part);
    y = tp_concat(part, heads, 2);
    tp_free((void *)part);
    return y;
}

static tp_node *tp__multi_head_attention_build(tp_node *x, const void *desc)
{
    const tp_multi_head_attention_desc *d = (const tp_multi_head_attention_desc *)desc;
    tp_graph *g = tp_node_graph(x);
    char t[TP_SHAPE_TEXT], of_q[TP_SHAPE_TEXT], of_k[TP_SHAPE_TEXT];
    if (!tp__layer_float_input("MultiHeadAttention", x)) return tp_poison(g);
    const int64_t units = d->units ? d->units : x->shape.ndim == 3 ? x->shape.dim[2] : 0;
    if (d->heads == 0)
        return tp__layer_fail(g, TP_ERR_ARG,
                              "MultiHeadAttention needs .heads, the number of its heads, which divides its %lld units",
                              (long long)units);
    if (d->heads < 0 || d->units < 0 || (units > 0 && units % d->heads != 0))
        return tp__layer_fail(g, TP_ERR_ARG, "MultiHeadAttention has .heads %d, which must divide its %lld units",
                              d->heads, (long long)units);
    tp_node *key = d->key ? d->key : x;
    tp_node *q = tp__attention_projection(x, "Wq", "bq", units, d);
    tp_node *k = tp__attention_projection(key, "Wk", "bk", units, d);
    tp_node *v = tp__attention_projection(d->value ? d->value : key, "Wv", "bv", units, d);
    if (tp_graph_status(g) != TP_OK) return tp_poison(g);
    const bool causal = d->causal == TP_YES;
    if (!d->mask) return tp__attention_projection(tp_nn_attention(q, k, v, d->heads, causal), "Wo", "bo", units, d);
    if (!tp__mask_fits(&d->mask->shape, &q->shape, &k->shape))
        return tp__layer_fail(g, TP_ERR_SHAPE,
                              "MultiHeadAttention has a .mask of shape %s, which must be (B,S) or (B,T,S): the "
                              "queries are (B,T,%lld), here %s, the keys (B,S,%lld), here %s",
                              tp_shape_text(&d->mask->shape, t), (long long)units, tp_shape_text(&q->shape, of_q),
                              (long long)units, tp_shape_text(&k->shape, of_k));
    return tp__attention_projection(tp__masked_attention(q, k, v, d->heads, causal, d->mask), "Wo", "bo", units, d);
}

TP__LAYER_TYPE("MultiHeadAttention", multi_head_attention, tp__multi_head_attention_fields, true, false, false);
TP_DEF tp_node *tp_multi_head_attention_(tp_node *x, const tp_multi_head_attention_desc *d)
{
    return tp__layer_apply(x, &tp__multi_head_attention_type, d);
}
#endif

/* ==== >>registry ====================================================================================== */

static const tp_layer_type *const tp__layer_types[] = {
    &tp__conv2d_type,
    &tp__fully_connected_type,
    &tp__max_pooling_type,
    &tp__avg_pooling_type,
    &tp__global_avg_pooling_type,
    &tp__batch_norm_type,
    &tp__dropout_type,
    &tp__bn_relu_type,
    &tp__conv2d_transpose_type,
    &tp__depthwise_conv2d_type,
    &tp__fixed_unpooling_type,
    &tp__caffe_bilinear_upsample_type,
    &tp__layer_norm_type,
    &tp__instance_norm_type,
    &tp__group_norm_type,
    &tp__batch_renorm_type,
    &tp__prelu_type,
    &tp__maxout_type,
    &tp__concat_with_type,
    &tp__grid_sample_type,
    &tp__softmax_layer_type,
#ifndef TP_NO_SEQUENCE_LAYERS
    &tp__embedding_type,
    &tp__lstm_type,
    &tp__gru_type,
    &tp__basic_lstm_cell_type,
    &tp__gru_cell_type,
    &tp__multi_head_attention_type,
#endif
};

TP_DEF const tp_layer_type *tp_get_registered_layer(tp_graph *g, const char *name)
{
    TP__REQUIRE(g && name, NULL)

    if (strcmp(name, "Deconv2D") == 0 || strcmp(name, "deconv2d") == 0) name = "Conv2DTranspose";
    for (int i = 0; i < TP_COUNT(tp__layer_types); i++)
        if (strcmp(tp__layer_types[i]->name, name) == 0 || strcmp(tp__layer_types[i]->c_name, name) == 0)
            return tp__layer_types[i];
    return tp__own_layer(g, name);
}

TP_DEF void tp_layer_register(tp_graph *g, const tp_layer_type *type)
{
    TP__GRAPH_REQUIRE(g, g && type, )

    tp__layers *s = tp__layers_of(g);
    if (!s) return;
    if (type->n_fields < 0 || (type->n_fields > 0 && !type->fields)) {
        tp_graph_fail(g, NULL, TP_ERR_ARG, "layer '%s' cannot be registered: it has .n_fields %d%s",
                      type->name ? type->name : "NULL", type->n_fields, type->fields ? "" : ", but .fields is NULL");
        return;
    }
    if (!type->name || !type->c_name || !type->build || type->desc_size < sizeof(tp_layer_head) ||
        type->desc_size > TP_LAYER_MAX_DESC) {
        tp_graph_fail(g, NULL, TP_ERR_ARG,
                      "layer '%s' cannot be registered: it needs two names, a build function and a "
                      "descriptor of %d to %d bytes",
                      type->name ? type->name : "NULL", (int)sizeof(tp_layer_head), TP_LAYER_MAX_DESC);
        return;
    }
    for (int i = 0; i < type->n_fields; i++) {
        const tp_layer_field *f = &type->fields[i];
        if (f->offset > type->desc_size || f->size > type->desc_size - f->offset || f->probe > f->size) {
            tp_graph_fail(g, NULL, TP_ERR_ARG, "layer '%s': its option '%s' lies outside its descriptor", type->name,
                          f->name);
            return;
        }
    }
    if (tp_get_registered_layer(g, type->name) || tp_get_registered_layer(g, type->c_name)) {
        tp_graph_fail(g, NULL, TP_ERR_NAME, "there is a layer '%s' (%s) already", type->name, type->c_name);
        return;
    }
    tp__layer_own_type *o = (tp__layer_own_type *)tp_graph_alloc(g, sizeof *o);
    if (!o) return;
    o->type = *type;
    o->next = s->own_types;
    s->own_types = o;
}

/* ==== >>linear ======================================================================================== */

/* Finds the layer type of a chain's step: the layer macros store the type of a built-in layer in .user; otherwise it is
 * found by name. */
static const tp_layer_type *tp__step_of_macro(tp_graph *g, const tp_layer *l)
{
    return l->user ? (const tp_layer_type *)l->user : tp__own_layer(g, l->layer);
}
static const tp_layer_type *tp__step_by_name(tp_graph *g, const tp_layer *l)
{
    return tp_get_registered_layer(g, l->layer);
}

static tp_node *tp__linear_by(tp_node *x, const tp_layer *layers, int n,
                              const tp_layer_type *(*find)(tp_graph *g, const tp_layer *l))
{
    for (int i = 0; i < n && !tp_is_poison(x); i++) {
        const tp_layer *l = &layers[i];
        tp_graph *g = tp_node_graph(x);
        if (l->layer) {
            const tp_layer_type *t = find(g, l);
            x = t ? tp__layer_apply(x, t, l->desc)
                  : tp_graph_fail(
                        g, &l->at, TP_ERR_NAME, "there is no layer '%s'%s", l->layer,
                        find == tp__step_of_macro
                            ? " of your own: tp_layer_register makes one. Built-in ones are TP_CONV2D(...) in "
                              "tp_linear; tp_linear_n finds them by their names"
                            : "");
            continue;
        }
        const tp_at at = g->at;
        if (l->at.file) tp_graph_set_at(g, l->at);
        tp_node *y = l->apply ? l->apply(x, l->user) : l->op ? l->op(x) : NULL;
        x = y ? y
              : tp_graph_fail(g, NULL, TP_ERR, "step %d of a chain %s", i,
                              l->apply || l->op ? "gave no node" : "has no function: it is NULL");
        tp_graph_set_at(g, at);
    }
    return x;
}

TP_DEF tp_node *tp__linear(tp_node *x, const tp_layer *layers, int n)
{
    tp_layer_head head;
    memset(&head, 0, sizeof head);
    if (n > 0) head.at_ = layers[0].at;
    if (!x) return tp__no_input(&head, "tp_linear");
    return tp__linear_by(x, layers, n, tp__step_of_macro);
}
TP_DEF tp_node *tp_linear_n(tp_node *x, const tp_layer *layers, int n)
{
    TP__GRAPH_REQUIRE(tp_node_graph(x), x && (layers || n == 0) && n >= 0, tp_poison(tp_node_graph(x)))

    return tp__linear_by(x, layers, n, tp__step_by_name);
}

TP_DEF tp_node *tp_linear_print(tp_node *x, void *user) { return tp_print(x, (const char *)user); }

/* ==== >>regularize ==================================================================================== */

static tp_node *tp__scaled_loss(tp_node *w, tp_node *loss, float scale)
{
    if (!(scale >= 0.0f && scale <= FLT_MAX))
        return tp_graph_fail(
            tp_node_graph(w), NULL, TP_ERR_ARG,
            "a regularizer of '%s' has the scale %g: it must be a number of at least 0; below 0 it would "
            "reward large weights",
            tp_node_name(w), (double)scale);
    return tp_affine(loss, scale, 0.0f);
}
static tp_node *tp__l2(tp_node *w, float scale) { return tp__scaled_loss(w, tp_l2_loss(tp__widened(w)), scale); }
static tp_node *tp__l1(tp_node *w, float scale) { return tp__scaled_loss(w, tp_sum(tp_abs(tp__widened(w))), scale); }

TP_DEF tp_regularizer tp_l2_regularizer(float scale)
{
    const tp_regularizer r = {tp__l2, scale};
    return r;
}

TP_DEF tp_regularizer tp_l1_regularizer(float scale)
{
    const tp_regularizer r = {tp__l1, scale};
    return r;
}

/* The last part of both regularize functions: adds the `losses` under the given name, or makes a zero. */
static tp_node *tp__regularize_sum(tp_graph *g, tp_node **losses, int n, const char *name)
{
    char empty[256];
    if (n == 0) {
        tp__format(empty, sizeof empty, "empty_%s", name);
        return tp_named(tp_const(g, 0.0f), empty);
    }
    for (int i = 0; i < n; i++)
        if (!tp_is_poison(losses[i]) && losses[i]->dtype != TP_F32) losses[i] = tp_cast(losses[i], TP_F32);
    return tp_named(tp_add_n(losses, n), name);
}

/* Lists the items of a collection that this tower regularizes: its own, or all if the towers share their variables. */
static tp_node *const *tp__regularize_items(tp_graph *g, const char *key, int *n)
{
    return tp_current_tower_context(g)->has_own_variables ? tp_tower_collection(g, key, n) : tp_collection(g, key, n);
}

/* Warns of items that were made before the first tower, which do not count; `filter` selects them by name, NULL: all. A loss is named by
 * the variable that it is computed from. */
static void tp__regularize_outside(tp_graph *g, const char *key, const char *name, tp__filter *filter)
{
    const tp_tower_context *tower = tp_current_tower_context(g);
    tp_buf names;
    int n = 0;
    tp_node *const *all = tp_collection(g, key, &n);
    memset(&names, 0, sizeof names);
    if (!tower->has_own_variables || *tower->vs_name) return; /* all count, or the others are those of other towers */
    n = tp__tower_entry_count(g, key);
    for (int i = 0; i < n; i++) {
        const tp_node *of = all[i];
        while (!tp_node_variable(of) && of->op->n_in) of = of->op->in[0];
        const char *said = tp_node_name(tp_node_variable(of) ? of : all[i]);
        if (!filter || tp__filter_matches(filter, said)) tp_buf_printf(&names, "%s%s", names.len ? ", " : "", said);
    }
    if (names.data)
        tp_log(TP_LOG_WARN, "%s: made before tp_tower_enter, so they do not count: %s. Make them inside the tower",
               name, names.data);
    tp_buf_free(&names);
}

TP_DEF tp_node *tp_regularize_cost_(tp_graph *g, const char *regex, tp_regularizer r, const char *name, tp_at at)
{
    TP__GRAPH_REQUIRE(g, g, tp_poison(g)) /* regex may be NULL here; that error is reported below */

    const tp_tower_context *tower = tp_current_tower_context(g);
    if (!name) name = "regularize_cost";
    if (tp_graph_status(g) != TP_OK) return tp_poison(g);
    if (!tower)
        return tp_graph_fail(g, &at, TP_ERR_STATE,
                             "%s: tp_regularize_cost is called outside a tower: tp_tower_enter first", name);
    if (!regex || !*regex)
        return tp_graph_fail(g, &at, TP_ERR_ARG, "%s: tp_regularize_cost needs a regular expression for variable names",
                             name);
    if (!r.fn)
        return tp_graph_fail(g, &at, TP_ERR_ARG,
                             "%s: tp_regularize_cost needs a regularizer: tp_l2_regularizer(scale), say", name);
    if (!tower->is_training) return tp__regularize_sum(g, NULL, 0, name);

    int n_all = 0, n = 0;
    tp_node *const *all = tp__regularize_items(g, TP_KEY_TRAINABLE_VARIABLES, &n_all);
    tp_node **loss = (tp_node **)tp_graph_alloc(g, (size_t)n_all * sizeof *loss);
    tp_buf names;
    memset(&names, 0, sizeof names);
    if (!loss) return tp_poison(g);
    tp__filter filter;
    if (!tp__filter_open(&filter, g, &at, name, regex, true)) return tp_poison(g);
    char inside[256];
    tp__format(inside, sizeof inside, "%s_internals", name);
    tp_name_scope_push(g, inside);
    for (int i = 0; i < n_all; i++) {
        const char *var = tp_node_name(all[i]);
        if (!tp__filter_matches(&filter, var)) continue;
        tp_node *l = r.fn(all[i], r.scale);
        if (!tp__is_regularizer_loss(g, &at, var, l)) continue;
        loss[n++] = l;
        const size_t prefix = strlen(tower->vs_name);
        const bool in_tower = prefix && strncmp(var, tower->vs_name, prefix) == 0 && var[prefix] == '/';
        tp_buf_printf(&names, "%s%s", n > 1 ? ", " : "", in_tower ? var + prefix + 1 : var);
    }
    tp_name_scope_pop(g);
    tp__regularize_outside(g, TP_KEY_TRAINABLE_VARIABLES, name, &filter);
    tp__filter_close(&filter);
    tp_log(TP_LOG_INFO, "regularize_cost() found %d variables to regularize.", n);
    if (n > 0 && names.data) tp_log_once(TP_LOG_INFO, "The following tensors will be regularized: %s", names.data);
    tp_buf_free(&names);
    return tp_graph_status(g) == TP_OK ? tp__regularize_sum(g, loss, n, name) : tp_poison(g);
}

TP_DEF tp_node *(tp_regularize_cost)(tp_graph *g, const char *regex, tp_regularizer r, const char *name)
{
    tp_at at;
    memset(&at, 0, sizeof at);
    return tp_regularize_cost_(g, regex, r, name, at);
}

TP_DEF tp_node *tp_regularize_cost_from_collection(tp_graph *g, const char *name)
{
    TP__GRAPH_REQUIRE(g, g, tp_poison(g))

    const tp_tower_context *tower = tp_current_tower_context(g);
    if (!name) name = "regularize_cost";
    if (tp_graph_status(g) != TP_OK) return tp_poison(g);
    if (!tower)
        return tp_graph_fail(g, NULL, TP_ERR_STATE,
                             "%s: tp_regularize_cost_from_collection is called outside a tower: tp_tower_enter first",
                             name);
    if (!tower->is_training) return tp__regularize_sum(g, NULL, 0, name);
    int n = 0;
    tp__regularize_outside(g, TP_KEY_REGULARIZATION_LOSSES, name, NULL);
    tp_node *const *all = tp__regularize_items(g, TP_KEY_REGULARIZATION_LOSSES, &n);
    tp_node **loss = (tp_node **)tp_graph_alloc(g, (size_t)n * sizeof *loss);
    if (!loss) return tp_poison(g);
    for (int i = 0; i < n; i++) {
        char t[TP_SHAPE_TEXT];
        loss[i] = all[i];
        if (!tp_is_poison(loss[i]) && loss[i]->shape.ndim != 0)
            return tp_graph_fail(g, NULL, TP_ERR_SHAPE,
                                 "%s: '%s' of REGULARIZATION_LOSSES has shape %s: it must be a scalar, take its sum",
                                 name, tp_node_name(loss[i]), tp_shape_text(&loss[i]->shape, t));
    }
    if (n > 0)
        tp_log(TP_LOG_INFO, "regularize_cost_from_collection() found %d regularizers in REGULARIZATION_LOSSES.", n);
    return tp__regularize_sum(g, loss, n, name);
}

/* ==== >>symbolic ====================================================================================== */

/* Whether each label is among the first topk; topk 0 is 1. */
static tp_node *tp__label_found(tp_node *logits, tp_node *labels, int topk, const char *function)
{
    if (topk < 0)
        return tp_graph_fail(tp_node_graph(logits), NULL, TP_ERR_ARG,
                             "%s: topk is %d: it must be at least 1, or 0 for 1", function, topk);
    return tp_in_top_k(logits, labels, topk ? topk : 1);
}

TP_DEF tp_node *tp_sym_accuracy(tp_node *logits, tp_node *labels, int topk, const char *name)
{
    tp_node *correct = tp_cast(tp__label_found(logits, labels, topk, "accuracy"), TP_F32);
    return tp_named(tp_mean(correct), name ? name : "accuracy");
}

TP_DEF tp_node *tp_sym_prediction_incorrect(tp_node *logits, tp_node *labels, int topk, const char *name)
{
    tp_node *miss = tp_logical_not(tp__label_found(logits, labels, topk, "prediction_incorrect"));
    return tp_named(tp_cast(miss, TP_F32), name ? name : "incorrect_vector");
}

/* Losses of half precision are summed in float32, which is the type of y; the result has the type of x again. */
static tp_node *tp__narrowed(tp_node *y, const tp_node *x)
{
    return tp_is_poison(y) || y->dtype != tp__wide_dtype(x->dtype) ? y : tp__as_dtype(y, x->dtype);
}
/* For sums of what two nodes of one type give: half precision becomes float32. Nodes of two types are refused as they are. */
static void tp__widen_both(tp_node **a, tp_node **b)
{
    if (tp_is_poison(*a) || tp_is_poison(*b) || (*a)->dtype != (*b)->dtype) return;
    *a = tp__widened(*a);
    *b = tp__widened(*b);
}
/* Squares stay float32 for their sum, also in a session in half precision. */
static tp_node *tp__summed_square(tp_node *x) { return tp__stays_float32(tp_square(x)); }
static tp_node *tp__summed_difference(tp_node *a, tp_node *b) /* its square */
{
    tp__widen_both(&a, &b);
    return tp__stays_float32(tp_squared_difference(a, b));
}

TP_DEF tp_node *tp_sym_rms(tp_node *x, const char *name)
{
    tp_node *y = tp__root_of_powers(tp_mean(tp__summed_square(tp__widened(x))), 2.0f);
    return tp_named(tp__narrowed(y, x), name ? name : "rms");
}

/* Returns the poison node for a loss of values that are not floating, else NULL. */
static tp_node *tp__refuse_integers(const char *loss, const char *what, tp_node *x)
{
    if (tp_is_poison(x) || tp_dtype_is_float(x->dtype)) return NULL;
    return tp_graph_fail(tp_node_graph(x), NULL, TP_ERR_DTYPE, "%s: %s %s, floating values are needed: tp_cast first",
                         loss, what, tp_dtype_name(x->dtype));
}

TP_DEF tp_node *tp_sym_huber_loss(tp_node *x, float delta, const char *name)
{
    tp_node *poison = tp__refuse_integers("huber_loss", "x is", x);
    if (poison) return poison;
    if (!(delta >= 0.0f))
        return tp_graph_fail(tp_node_graph(x), NULL, TP_ERR_ARG,
                             "huber_loss: delta is %g: it must be a number above 0, or 0 for 1", (double)delta);
    tp_node *a = tp_abs(x), *m = tp_clip(a, 0.0f, delta == 0.0f ? 1.0f : delta);
    return tp_named(tp_mul(m, tp_sub(a, tp_affine(m, 0.5f, 0.0f))), name ? name : "huber_loss");
}

/* Returns the poison node for a number of a loss that is NaN, infinite or negative, else NULL. */
static tp_node *tp__refuse_number(tp_node *x, const char *loss, const char *what, float v)
{
    if (v >= 0.0f && v <= FLT_MAX) return NULL;
    return tp_graph_fail(tp_node_graph(x), NULL, TP_ERR_ARG, "%s: %s is %g: it must be a number of at least 0", loss,
                         what, (double)v);
}

/* mean((prediction-truth)^2), float32 for half precision; what cannot be compared is refused in the name of `loss`. */
static tp_node *tp__squared_error(const char *loss, tp_node *prediction, tp_node *truth)
{
    tp_node *poison = tp__refuse_integers(loss, "the predictions are", prediction);
    if (!poison) poison = tp__refuse_integers(loss, "the truth is", truth);
    if (!poison) poison = tp__refuse_pairs(loss, "the predictions", prediction, "the truth", truth);
    return poison ? poison : tp_mean(tp__summed_difference(prediction, truth));
}

TP_DEF tp_node *tp_sym_psnr(tp_node *prediction, tp_node *truth, float maxp, const char *name)
{
    tp_node *mse = tp__squared_error("psnr", prediction, truth), *poison = tp__refuse_number(mse, "psnr", "maxp", maxp);
    if (poison) return poison;
    const double peak = maxp == 0.0f ? 0.0 : 20.0 * log10((double)maxp);
    tp_node *y = tp__affine_of(tp_ln(mse), -4.34294481903251827651, peak);
    return tp_named(tp__narrowed(y, prediction), name ? name : "psnr");
}

TP_DEF tp_node *tp_sym_mse(tp_node *prediction, tp_node *truth, const char *name)
{
    tp_node *y = tp__squared_error("mse", prediction, truth);
    return tp_named(tp__narrowed(y, prediction), name ? name : "mse");
}

TP_DEF tp_node *tp_sym_kl_divergence(tp_node *p_logits, tp_node *q_logits, const char *name)
{
    const int last_axis = -1;
    const tp_node *const both[2] = {p_logits, q_logits};
    for (int i = 0; i < 2; i++)
        if (!tp_is_poison(both[i]) && !tp_dtype_is_float(both[i]->dtype))
            return tp_graph_fail(tp_node_graph(both[i]), NULL, TP_ERR_DTYPE,
                                 "kl_divergence: %s_logits are %s, but have to be logits of the classes; "
                                 "tp_sparse_softmax_cross_entropy takes the numbers of classes",
                                 i ? "q" : "p", tp_dtype_name(both[i]->dtype));
    tp_node *poison = tp__refuse_rows("kl_divergence", "p_logits", p_logits, "q_logits", q_logits);
    if (poison) return poison;
    tp_node *p = p_logits, *q = q_logits;
    tp__widen_both(&p, &q);
    p = tp_log_softmax(p);
    q = tp_log_softmax(q);
    q = tp_sub(p, q);
    tp_node *y = tp_reduce_sum(tp_mul(tp_exp(p), q), &last_axis, 1, false);
    return tp_named(tp__narrowed(y, p_logits), name ? name : "kl_divergence");
}

TP_DEF tp_node *tp_sym_smooth_labels(tp_node *labels, int64_t classes, float epsilon, const char *name)
{
    tp_graph *g = tp_node_graph(labels);
    TP__GRAPH_REQUIRE(g, labels && classes > 0, tp_poison(g))
    if (!(epsilon >= 0 && epsilon <= 1))
        return tp_graph_fail(g, NULL, TP_ERR_ARG, "smooth_labels: epsilon is %g: it must be a part of one",
                             (double)epsilon);
    const double others = (double)epsilon / (double)classes;
    /* a label that is no class would get `others` everywhere, which is no distribution; tp_gather fails the run */
    tp_node *y = tp_one_hot(labels, classes, (float)(1.0 - (double)epsilon + others), (float)others);
    tp_name_scope_push(g, "class_of_label");
    tp_node *row = tp_tile(tp_expand_dims(tp_const(g, 0.0f), 0), &classes);
    row = tp_gather(row, labels);
    tp_name_scope_pop(g);
    return tp_named(tp_with_dependencies(y, &row, 1), name ? name : "smooth_labels");
}

TP_DEF tp_node *tp_sym_weighted_loss(tp_node *losses, tp_node *labels, const float *weights, int classes,
                                     const char *name)
{
    tp_graph *g = losses ? tp_node_graph(losses) : tp_node_graph(labels);
    TP__GRAPH_REQUIRE(g, losses && labels && weights && classes > 0, tp_poison(g))
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    if (!tp_is_poison(losses) && !tp_is_poison(labels) && losses->shape.ndim != labels->shape.ndim)
        return tp_graph_fail(g, NULL, TP_ERR_SHAPE,
                             "weighted_loss: the losses are %s and the labels %s: it needs a loss for each label, and "
                             "takes the mean itself",
                             tp_shape_text(&losses->shape, a), tp_shape_text(&labels->shape, b));
    for (int i = 0; i < classes; i++) {
        char what[32];
        tp__format(what, sizeof what, "weights[%d]", i);
        tp_node *poison = tp__refuse_number(losses, "weighted_loss", what, weights[i]);
        if (poison) return poison;
    }
    const int64_t n = classes;
    tp_tensor table;
    memset(&table, 0, sizeof table);
    tp_tensor_view(&table, TP_F32, tp_make_shape_n(1, &n), weights);
    tp_node *w = tp_gather(tp_constant(g, &table), labels);
    tp_node *wide = tp__widened(losses);
    if (!tp_is_poison(w) && !tp_is_poison(losses)) w = tp_cast(w, wide->dtype);
    tp_node *sum = tp_sum(w), *y = tp_div(tp_sum(tp__stays_float32(tp_mul(wide, w))), sum);
    return tp_named(tp__narrowed(y, losses), name ? name : "weighted_loss");
}

TP_DEF tp_node *tp_sym_print_stat(tp_node *x, const char *message)
{
    return tp_print(x, message ? message : tp_node_name(x));
}

/* Computes the sum of each row. */
static tp_node *tp__row_sum(tp_node *x)
{
    const int axis = 1;
    return tp_reduce_sum(x, &axis, 1, false);
}
static tp_node *tp__row_distance2(tp_node *a, tp_node *b) { return tp__row_sum(tp__summed_difference(a, b)); }
/* Computes sqrt(square + epsilon); `epsilon` is added because the root has no derivative at 0. */
static tp_node *tp__row_root(tp_node *square, float epsilon) { return tp_sqrt(tp_affine(square, 1.0f, epsilon)); }

TP_DEF tp_node *tp_sym_contrastive_loss(tp_node *left, tp_node *right, tp_node *similar, float margin, const char *name)
{
    tp_node *d2 = tp__row_distance2(left, right), *y = tp_cast(similar, d2->dtype);
    tp_node *poison = tp__refuse_number(d2, "contrastive_loss", "margin", margin);
    if (poison) return poison;
    tp_node *hinge = tp_relu(tp_affine(tp__row_root(d2, 1e-10f), -1.0f, margin)), *squared = tp_square(hinge);
    tp_node *dissimilar = tp_mul(tp_affine(y, -1.0f, 1.0f), squared);
    tp_node *loss = tp_affine(tp_mean(tp_add(tp_mul(y, d2), dissimilar)), 0.5f, 0.0f);
    return tp_named(tp__narrowed(loss, left), name ? name : "contrastive_loss");
}

TP_DEF tp_node *tp_sym_siamese_cosine_loss(tp_node *left, tp_node *right, tp_node *similar, const char *name)
{
    tp_node *a = left, *b = right;
    tp__widen_both(&a, &b);
    tp_node *norms = tp__row_root(tp__row_sum(tp__summed_square(b)), 1e-12f);
    norms = tp_mul(tp__row_root(tp__row_sum(tp__summed_square(a)), 1e-12f), norms);
    norms = tp_affine(norms, 1.0f, 1e-10f);
    tp_node *cosine = tp_div(tp__row_sum(tp__stays_float32(tp_mul(a, b))), norms);
    tp_node *y = tp_affine(tp_cast(similar, cosine->dtype), 2.0f, -1.0f);
    tp_node *loss = tp_affine(tp_mean(tp_squared_difference(y, cosine)), 0.5f, 0.0f);
    return tp_named(tp__narrowed(loss, left), name ? name : "cosine_loss");
}

TP_DEF tp_node *tp_sym_triplet_loss(tp_node *anchor, tp_node *positive, tp_node *negative, float margin,
                                    const char *name)
{
    tp_node *d = tp__row_distance2(anchor, negative);
    d = tp_sub(tp__row_distance2(anchor, positive), d);
    tp_node *poison = tp__refuse_number(d, "triplet_loss", "margin", margin);
    if (poison) return poison;
    tp_node *loss = tp_mean(tp_relu(tp_affine(d, 1.0f, margin)));
    return tp_named(tp__narrowed(loss, anchor), name ? name : "triplet_loss");
}

TP_DEF tp_node *tp_sym_soft_triplet_loss(tp_node *anchor, tp_node *positive, tp_node *negative, const char *name)
{
    tp_node *p = tp__row_root(tp__row_distance2(anchor, positive), 1e-10f);
    tp_node *n = tp__row_root(tp__row_distance2(anchor, negative), 1e-10f);
    tp_node *loss = tp_mean(tp_softplus(tp_sub(p, n)));
    return tp_named(tp__narrowed(loss, anchor), name ? name : "soft_triplet_loss");
}

TP_DEF tp_node *tp_sym_class_balanced_sigmoid_cross_entropy(tp_node *logits, tp_node *labels, const char *name)
{
    TP__GRAPH_REQUIRE(tp_node_graph(logits ? logits : labels), logits && labels,
                      tp_poison(tp_node_graph(logits ? logits : labels)))
    tp_node *wide = tp__widened(logits);
    tp_node *y = tp_cast(labels, wide->dtype), *ones = tp_mean(y); /* the fraction of ones, which is 1 - beta */
    tp_node *weight = tp_mul(tp_affine(y, -1.0f, 1.0f), ones);
    weight = tp_add(tp_mul(y, tp_affine(ones, -1.0f, 1.0f)), weight);
    tp_node *loss = tp_mean(tp_mul(weight, tp_sigmoid_cross_entropy(wide, y)));
    return tp_named(tp__narrowed(loss, logits), name ? name : "cross_entropy_loss");
}

TP_DEF tp_node *tp_relu6(tp_node *x) { return tp__clip_flat(x, 0.0f, 6.0f); }
TP_DEF tp_node *tp_hard_swish(tp_node *x)
{
    return tp_mul(x, tp__clip_flat(tp__affine_of(x, 1.0 / 6.0, 0.5), 0.0f, 1.0f));
}

/* Repeats p along its dimensions. */
static tp_node *tp__tiled(tp_node *p, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e)
{
    const int64_t times[5] = {a, b, c, d, e};
    return tp_tile(p, times);
}
/* Depth to space and its inverse for images (B,H,W,C) whose size is known only when the graph runs. H and W are of the smaller
 * grid: depth to space goes B H W i (j C) -> B H i W (j C), the inverse B H i W (j C) -> B H W i (j C). Shapes come from tiles of
 * the nodes p; as only their shapes are read, none of them is computed. */
static tp_node *tp__pixel_shuffle_any_size(tp_node *x, int n, bool to_space)
{
    static const int swap[5] = {0, 1, 3, 2, 4};
    const int64_t begin[4] = {0, 0, 0, 0}, one_channel[4] = {-1, -1, -1, 1}, m = n, c = x->shape.dim[3];
    tp_node *p = tp_slice(x, begin, one_channel);
    if (!to_space) {
        tp_pool_attrs blocks;
        memset(&blocks, 0, sizeof blocks);
        blocks.size_h = blocks.size_w = n;
        blocks.padding = TP_VALID;
        blocks.data_format = TP_NHWC;
        p = tp_nn_max_pool(tp_cast(p, TP_F32), &blocks);
    }
    tp_node *split = to_space ? tp__tiled(tp_expand_dims(p, 3), 1, 1, 1, m, c / m)
                              : tp__tiled(tp_expand_dims(p, 2), 1, 1, m, 1, c * m);
    tp_node *y = tp_transpose(tp_reshape_like(x, split), swap, 5);
    p = to_space ? tp__tiled(p, 1, m, m, c / (m * m), 1) : tp__tiled(p, 1, 1, 1, c * m * m, 1);
    return tp_reshape_like(y, p);
}
/* Depth to space and its inverse for images of known size: reshape the image to six dimensions, permute the axes, reshape to four
 * dimensions. */
static tp_node *tp__pixel_shuffle_known(tp_node *x, int64_t m, bool nchw, bool to_space)
{
    /* Axes of depth to space. NHWC: B H W i j C -> B H i W j C; NCHW: B i j C H W -> B C H i W j; the inverse goes the
     * other way. */
    static const int perms[4][6] = {{0, 1, 3, 2, 4, 5}, {0, 3, 4, 1, 5, 2}, {0, 1, 3, 2, 4, 5}, {0, 3, 5, 1, 2, 4}};
    const int64_t *d = x->shape.dim, c = d[nchw ? 1 : 3], h = d[nchw ? 2 : 1], w = d[nchw ? 3 : 2];
    const int64_t cs = to_space ? c / (m * m) : c, hs = to_space ? h : h / m, ws = to_space ? w : w / m;
    const int64_t split[4][6] = {
        {TP_ANY, hs, ws, m, m, cs}, {TP_ANY, m, m, cs, hs, ws}, {TP_ANY, hs, m, ws, m, cs}, {TP_ANY, cs, hs, m, ws, m}};
    const int64_t out[4][4] = {{TP_ANY, hs * m, ws * m, cs},
                               {TP_ANY, cs, hs * m, ws * m},
                               {TP_ANY, hs, ws, m * m * cs},
                               {TP_ANY, m * m * cs, hs, ws}};
    const int variant = (to_space ? 0 : 2) + (nchw ? 1 : 0);
    tp_node *y = tp_transpose(tp_reshape_to(x, tp_make_shape_n(6, split[variant])), perms[variant], 6);
    return tp_reshape_to(y, tp_make_shape_n(4, out[variant]));
}
static tp_node *tp__pixel_shuffle(tp_node *x, int n, tp_data_format format, bool to_space)
{
    static const int to_nhwc[4] = {0, 2, 3, 1}, to_nchw[4] = {0, 3, 1, 2};
    const char *op_name = to_space ? "depth_to_space" : "space_to_depth";
    char t[TP_SHAPE_TEXT];
    if (tp_is_poison(x)) return x;
    tp_graph *g = tp_node_graph(x);
    if (format != TP_FORMAT_DEFAULT && format != TP_NHWC && format != TP_NCHW)
        return tp_graph_fail(g, NULL, TP_ERR_ARG, "%s: the data format is %d: it must be TP_NHWC or TP_NCHW", op_name,
                             (int)format);
    const bool nchw = format == TP_NCHW;
    const int64_t *d = x->shape.dim, c = d[nchw ? 1 : 3], h = d[nchw ? 2 : 1], w = d[nchw ? 3 : 2], m = n;
    if (x->shape.ndim != 4 || c <= 0)
        return tp_graph_fail(g, NULL, TP_ERR_SHAPE, "%s: input is %s, it needs 4 dimensions and known channels",
                             op_name, tp_shape_text(&x->shape, t));
    if (n <= 0 || (to_space ? c % (m * m) != 0 : (h > 0 && h % m) || (w > 0 && w % m)))
        return tp_graph_fail(g, NULL, TP_ERR_ARG, "%s: input is %s, whose %s are no multiple of the block, %d", op_name,
                             tp_shape_text(&x->shape, t), to_space ? "channels" : "height and width", n);
    if (h >= 0 && w >= 0) return tp__pixel_shuffle_known(x, m, nchw, to_space);
    tp_node *y = tp__pixel_shuffle_any_size(nchw ? tp_transpose(x, to_nhwc, 4) : x, n, to_space);
    return nchw ? tp_transpose(y, to_nchw, 4) : y;
}
TP_DEF tp_node *tp_depth_to_space(tp_node *x, int n, tp_data_format format)
{
    TP__GRAPH_REQUIRE(NULL, x, tp_poison(NULL))
    return tp__pixel_shuffle(x, n, format, true);
}
TP_DEF tp_node *tp_space_to_depth(tp_node *x, int n, tp_data_format format)
{
    TP__GRAPH_REQUIRE(NULL, x, tp_poison(NULL))
    return tp__pixel_shuffle(x, n, format, false);
}

TP__COLD_END
TP__EXACT_END
#undef TP__PLACED
#define TP__PLACED TP__PLACE
#endif
