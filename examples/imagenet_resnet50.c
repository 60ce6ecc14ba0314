/* imagenet_resnet50.c - ResNet-50 as it is trained on ImageNet: image folders, augmentation, schedule, top-1 and top-5 errors
 *
 *   gcc -std=c11 -O2 -I.. imagenet_resnet50.c -lm -lpthread -o imagenet_resnet50 && ./imagenet_resnet50 --data imagenet
 *
 * tensorpack's examples/ResNet/imagenet-resnet.py. --data names a folder with train/<class>/... and val/<class>/..., images as
 * JPEG or PNG of any size (stb_image, Debian: libstb-dev, decodes them). Without --data each batch is the same invented one, to
 * measure the speed, and to see that a network of this size trains: it learns that batch by heart.
 * New here, compared with cifar10_resnet.c: bottleneck blocks; images loaded, decoded and augmented on threads by one flow
 * (tp_df_load_image); a learning rate that is in proportion to the batch, and warms up; two errors in one validation. This is
 * work for a GPU.
 *   --batch n (64)   --side n pixels (224)   --classes n (1000; as many as there are folders in train/)
 *   --epochs n (105)   --steps n (of an epoch; 0: a pass over the data)   --rate r (0.1: of a batch of 256)
 *   --threads n, for images (4) */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"
#include "options.h"
#include <string.h>

typedef struct options {
    const char *data;
    int batch, side, classes, epochs, steps, threads;
    double rate;
} options;

/* 1. The data: images uint8 (side,side,3), red, green, blue. */
static tp_dataflow *pictures(const options *o, bool training)
{
    char dir[1024];
    if (!o->data) {
        const tp_spec image = {"image", TP_U8, tp_make_shape(o->side, o->side, 3)}, label = {"label", TP_I32, {0, {0}}};
        tp_dataflow *both[] = {tp_df_fake(&image, 1, .size = o->batch, .high = 256),
                               tp_df_fake(&label, 1, .size = o->batch, .high = (float)o->classes)};
        return tp_df_batch(tp_df_cache(tp_df_join(both, 2)), o->batch);
    }
    snprintf(dir, sizeof dir, "%s/%s", o->data, training ? "train" : "val");
    tp_augmentor *aug = training
                            ? tp_aug_list(TP_AUGS(tp_aug_google_net_random_crop_and_resize(.target_shape = o->side),
                                                  tp_aug_flip(.horiz = true)))
                            : tp_aug_list(TP_AUGS(tp_aug_resize_shortest_edge(.size = o->side * 256 / 224),
                                                  tp_aug_center_crop(o->side, o->side)));
    tp_dataflow *df = tp_df_image_folder(dir, .decode = false, .shuffle = training);
    return tp_df_batch(tp_df_load_image(df, aug, .num_thread = o->threads), o->batch, .remainder = !training);
}

/* 2. The network. A block: 1x1, 3x3 and 1x1 convolutions beside a shortcut, which is a 1x1 convolution where the shape changes. The last
 * batch norm of a block begins at 0, so that the block begins as its shortcut. */
static tp_node *bn(tp_node *x) { return tp_batch_norm(x, "bn"); }
static tp_node *bn_from_zero(tp_node *x) { return tp_batch_norm(x, "bn", .gamma_initializer = tp_init_zeros()); }

static tp_node *bottleneck(tp_graph *g, tp_node *x, const char *name, int filters, int stride)
{
    tp_node *y = NULL;
    TP_VARIABLE_SCOPE(g, name)
    {
        y = tp_conv2d(x, "conv1", .filters = filters, .kernel_size = 1, .activation = tp_bn_relu);
        y = tp_conv2d(y, "conv2", .filters = filters, .kernel_size = 3, .strides = stride, .activation = tp_bn_relu);
        y = tp_conv2d(y, "conv3", .filters = 4 * filters, .kernel_size = 1, .activation = bn_from_zero);
        if (x->shape.dim[3] != 4 * filters)
            x = tp_conv2d(x, "convshortcut", .filters = 4 * filters, .kernel_size = 1, .strides = stride,
                          .activation = bn);
        y = tp_relu(tp_add(x, y));
    }
    return y;
}

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    static const float mean[] = {0.485f * 255, 0.456f * 255, 0.406f * 255},
                       inverse[] = {1 / 58.4f, 1 / 57.1f, 1 / 57.4f};
    static const int blocks[] = {3, 4, 6, 3};
    const options *o = (const options *)user;
    tp_tensor t;
    memset(&t, 0, sizeof t);
    tp_tensor_view(&t, TP_F32, tp_make_shape(3), mean);
    tp_node *x = tp_sub(tp_cast(in[0], TP_F32), tp_constant(g, &t)), *logits = NULL;
    tp_tensor_view(&t, TP_F32, tp_make_shape(3), inverse);
    x = tp_mul(x, tp_constant(g, &t));
    TP_ARGSCOPE(g, conv2d, .use_bias = false,
                .kernel_initializer = tp_init_variance_scaling(2.0f, TP_FAN_OUT, TP_DIST_NORMAL))
    {
        char name[32];
        x = tp_conv2d(x, "conv0", .filters = 64, .kernel_size = 7, .strides = 2, .activation = tp_bn_relu);
        x = tp_max_pooling(x, "pool0", .pool_size = 3, .strides = 2, .padding = TP_SAME);
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < blocks[k]; i++) {
                snprintf(name, sizeof name, "group%d/block%d", k, i);
                x = bottleneck(g, x, name, 64 << k, k > 0 && i == 0 ? 2 : 1);
            }
        x = tp_global_avg_pooling(x, "gap");
        logits = tp_fully_connected(x, "linear", .units = o->classes, .kernel_initializer = tp_init_normal(0, 0.01f));
    }
    tp_node *cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1])), "xentropy_loss");
    tp_node *top1 = tp_sym_prediction_incorrect(logits, in[1], 1, "wrong-top1");
    tp_node *top5 = tp_sym_prediction_incorrect(logits, in[1], 5, "wrong-top5");
    tp_add_moving_summary(cost, tp_named(tp_mean(top1), "train-error-top1"),
                          tp_named(tp_mean(top5), "train-error-top5"));
    return tp_named(tp_add(cost, tp_regularize_cost(g, ".*/W", tp_l2_regularizer(1e-4f), "l2_loss")), "cost");
}

/* The rate is that of a batch of 256; in proportion for others; from a tenth of it in the first 500 steps */
static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    const options *o = (const options *)user;
    tp_node *lr = tp_get_scalar_variable(g, "learning_rate", (float)o->rate * (float)o->batch / 256);
    return tp_momentum(tp_warm_up(lr, NULL, 500, 0.1f), .momentum = 0.9f, .use_nesterov = true);
}

int main(int argc, char **argv)
{
    options o = {NULL, 64, 224, 1000, 105, 0, 4, 0.1};
    const option list[] = {option_text("--data folder", &o.data),  option_int("--batch n", &o.batch, 1),
                           option_int("--side n", &o.side, 32),    option_int("--classes n", &o.classes, 6),
                           option_int("--epochs n", &o.epochs, 1), option_int("--steps n", &o.steps, 0),
                           option_double("--rate r", &o.rate, 0),  option_int("--threads n", &o.threads, 0)};
    read_options(argc, argv, list, TP_COUNT(list));

    const tp_spec inputs[] = {TP_SPEC("image", TP_U8, TP_ANY, TP_ANY, TP_ANY, 3), TP_SPEC("label", TP_I32, TP_ANY)};
    const double rate = o.rate * o.batch / 256;
    tp_dataflow *train = pictures(&o, true);
    if (tp_df_status(train) != TP_OK) { /* noticed before the files of an earlier run are deleted */
        fprintf(stderr, "%s\n", tp_last_error());
        tp_df_free(train);
        return 1;
    }
    if (o.steps == 0) o.steps = (int)tp_df_size(train);
    tp_logger_set_dir("train_log/imagenet_resnet50", 'd');
    return tp_launch_train_with_config(
               TP_OPTIONS(
                   tp_train_config,
                   .model = {.inputs = inputs,
                             .n_inputs = TP_COUNT(inputs),
                             .build_graph = build_graph,
                             .optimizer = optimizer,
                             .user = &o},
                   .dataflow = train,
                   TP_CALLBACKS(
                       tp_cb_model_saver(), tp_cb_throughput_tracker(.samples_per_step = (double)o.batch),
                       tp_cb_inference_runner(
                           pictures(&o, false),
                           .inferencers = {tp_inf_classification_error(.wrong_tensor_name = "wrong-top1",
                                                                       .summary_name = "val-error-top1"),
                                           tp_inf_classification_error(.wrong_tensor_name = "wrong-top5",
                                                                       .summary_name = "val-error-top5")}),
                       tp_cb_min_saver("val-error-top1"),
                       tp_cb_scheduled_hyper_param_setter(
                           "learning_rate", .schedule = {{30, rate * 1e-1}, {60, rate * 1e-2}, {90, rate * 1e-3}}),
                       tp_cb_estimated_time_left()),
                   .steps_per_epoch = o.steps, .max_epoch = o.epochs),
               tp_queue_input_trainer()) != TP_OK;
}
