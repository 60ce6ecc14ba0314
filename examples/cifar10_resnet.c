/* cifar10_resnet.c - tensorpack's cifar10-resnet: ResNet-20 on JPEG files, the whole program
 *
 *   gcc -std=c11 -O2 -I.. cifar10_resnet.c -lm -lpthread -o cifar10_resnet && ./cifar10_resnet --data cifar10
 *
 * --data names a folder with train/<class>/... and test/<class>/..., images of 32x32 as JPEG or PNG; stb_image (Debian: libstb-dev)
 * decodes them. Without --data it trains on coloured digits that the library draws. New here, compared with mnist_convnet.c: image folders, augmentation, residual blocks, a schedule.
 * On CIFAR-10 (as JPEG files): 13.8% wrong after 30 epochs, in 87 minutes on two busy cores.
 *   --epochs n (30)   --steps n (of an epoch; 0: a pass over the data)   --n blocks of each width (3: ResNet-20, 5: ResNet-32, 18: ResNet-110)   --resume   --seed n   --threads n
 *   --gpu n (the n-th GPU, from 0: make CUDA=1, or by hand with -DTP_CUDA and what the README, On a GPU, links) */
#define TP_IMPLEMENTATION
#define TP_STATIC /* all is in this file: what is not used falls away */
#include "tp_train.h"
#include "tp_layers.h"
#include "options.h"

#define BATCH 128

static const tp_spec inputs[] = {
    TP_SPEC("input", TP_U8, TP_ANY, 32, 32, 3),
    TP_SPEC("label", TP_I32, TP_ANY),
};

/* Two 3x3 convolutions beside a shortcut, each behind its BNReLU (pre-activation). A block that widens halves height and width;
 * its shortcut is pooled, and padded with channels of zeros. first: the input went through a BNReLU already. */
static tp_node *residual(tp_graph *g, tp_node *x, const char *name, bool first, bool widens)
{
    const int in = (int)x->shape.dim[3], out = widens ? 2 * in : in;
    tp_node *y = x;
    TP_VARIABLE_SCOPE(g, name)
    {
        if (!first) y = tp_bn_relu(y, "bnrelu");
        y = tp_conv2d(y, "conv1", .filters = out, .strides = widens ? 2 : 1, .activation = tp_bn_relu);
        y = tp_conv2d(y, "conv2", .filters = out);
        if (widens) {
            const int64_t channels[] = {0, 0, 0, in / 2};
            x = tp_avg_pooling(x, "pool", .pool_size = 2);
            x = tp_pad(x, channels, channels, TP_PAD_CONSTANT, 0);
        }
        y = tp_add(x, y);
    }
    return y;
}

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    const int n = *(const int *)user;
    tp_node *label = in[1], *logits = NULL;
    tp_node *l = tp_affine(tp_cast(in[0], TP_F32), 1 / 64.0f, -2.0f); /* 0 to 255: -2 to 2 */
    TP_ARGSCOPE(g, conv2d, .kernel_size = 3, .use_bias = TP_NO,
                .kernel_initializer = tp_init_variance_scaling(2.0f, TP_FAN_OUT, TP_DIST_NORMAL))
    {
        char name[32];
        l = tp_conv2d(l, "conv0", .filters = 16, .activation = tp_bn_relu);
        for (int stage = 1; stage <= 3; stage++) /* 32x32x16, 16x16x32, 8x8x64 */
            for (int k = 0; k < n; k++) {
                snprintf(name, sizeof name, "res%d.%d", stage, k);
                l = residual(g, l, name, stage == 1 && k == 0, stage > 1 && k == 0);
            }
        l = tp_global_avg_pooling(tp_bn_relu(l, "bnlast"), "gap");
        logits = tp_fully_connected(l, "linear", .units = 10);
    }
    tp_node *cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, label)), "cross_entropy_loss");
    tp_node *wrong = tp_sym_prediction_incorrect(logits, label, 1, "incorrect_vector");
    tp_add_moving_summary(cost, tp_named(tp_mean(wrong), "train_error"));
    return tp_named(tp_add(cost, tp_regularize_cost(g, ".*/W", tp_l2_regularizer(2e-4f), "regularize_loss")), "cost");
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_momentum(tp_get_scalar_variable(g, "learning_rate", 0.1f), .momentum = 0.9f);
}

/* In place of files: a light digit on a background of one random dark colour, uint8 (32,32,3). */
static tp_status coloured(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    const float *digit = (const float *)in->c[0].data;
    const tp_status st = tp_tensor_resize(&out->c[0], TP_U8, tp_make_shape(32, 32, 3));
    if (st != TP_OK) return st;
    unsigned char *pixel = (unsigned char *)out->c[0].data;
    for (int i = 0; i < 32 * 32; i++) {
        const int y = i / 32 - 2, x = i % 32 - 2;
        const float ink = y >= 0 && y < 28 && x >= 0 && x < 28 ? digit[y * 28 + x] : 0;
        for (int c = 0; c < 3; c++) {
            const float dark = 120 * tp_random_uniform(call->key, (uint64_t)call->index, (uint64_t)c);
            pixel[i * 3 + c] = (unsigned char)(dark + ink * (250 - dark));
        }
    }
    return TP_OK;
}

/* Files in, batches out: decoded on all cores; a training image is moved by up to 4 pixels and flipped. Digits are not flipped. */
static tp_dataflow *images(const char *folder, const char *part, bool training, uint64_t seed)
{
    char dir[1024];
    tp_dataflow *df;
    if (folder) {
        snprintf(dir, sizeof dir, "%s/%s", folder, part);
        df = tp_df_image_folder(dir, .decode = TP_NO, .shuffle = training ? TP_YES : TP_NO, .seed = seed);
        df = tp_df_parallel_map(df, tp_map_image);
    } else
        df = tp_df_map(tp_df_digits(part, .size = training ? 4096 : 1000, .shuffle = training ? TP_YES : TP_NO),
                       coloured, .keeps_all = TP_YES);
    if (training)
        df = tp_df_augment_image(df,
                                 tp_aug_list(TP_AUGS(tp_aug_pad(.pad = 4), tp_aug_random_crop(32, 32),
                                                     folder ? tp_aug_flip(.horiz = TP_YES) : tp_aug_identity())),
                                 .seed = seed);
    return tp_df_batch(df, BATCH, .remainder = training ? TP_NO : TP_YES);
}

int main(int argc, char **argv)
{
    const char *data = NULL;
    int epochs = 30, steps = 0, n = 3, resume = 0, gpu = -1;
    uint64_t seed = 1;
    tp_device *device = NULL;
    tp_session_config session = tp_default_session_config();
    const option list[] = {option_text("--data folder", &data), option_int("--epochs n", &epochs, 1),
                           option_int("--steps n", &steps, 0),  option_int("--n blocks", &n, 1),
                           option_seed("--seed n", &seed),      option_int("--threads n", &session.threads, 0),
                           option_int("--gpu n", &gpu, 0),      option_flag("--resume", &resume)};
    read_options(argc, argv, list, TP_COUNT(list));
    if (gpu >= 0) {
#ifdef TP_CUDA
        device = tp_cuda_open(gpu);
#else
        tp_fail(TP_ERR_UNSUPPORTED, "this program was built without CUDA: make CUDA=1");
#endif
        if (!device) return fprintf(stderr, "%s\n", tp_last_error()), 1;
        session.devices = &device, session.n_devices = 1;
        session.precision = TP_PRECISION_TF32; /* of products and convolutions, which tensor cores compute */
    }
    tp_dataflow *train = images(data, "train", true, seed); /* made before the files of an earlier run are deleted */
    if (tp_df_status(train) != TP_OK || tp_logger_set_dir("train_log/cifar10_resnet", resume ? 'k' : 'd') != TP_OK) {
        fprintf(stderr, "%s\n", tp_last_error());
        return 1;
    }
    if (steps == 0) steps = (int)tp_df_size(train);
    /* Half of the epochs with 0.1, a quarter with 0.01, a quarter with 0.001. */
    const tp_schedule_point half = {epochs / 2, 0.01}, quarter = {epochs * 3 / 4 + 1, 0.001};
    tp_status st = tp_launch_train_with_config(
        TP_OPTIONS(tp_train_config,
                   .model = {.inputs = inputs,
                             .n_inputs = TP_COUNT(inputs),
                             .build_graph = build_graph,
                             .optimizer = optimizer,
                             .user = &n},
                   .dataflow = train,
                   TP_CALLBACKS(tp_cb_model_saver(),
                                tp_cb_inference_runner(
                                    images(data, "test", false, 0),
                                    .inferencers = {tp_inf_scalar_stats(TP_NAMES("cross_entropy_loss")),
                                                    tp_inf_classification_error(.wrong_tensor_name = "incorrect_vector",
                                                                                .summary_name = "validation_error")}),
                                tp_cb_min_saver("validation_error"),
                                tp_cb_scheduled_hyper_param_setter("learning_rate", .schedule = {half, quarter}),
                                tp_cb_estimated_time_left()),
                   .session_config = &session, .steps_per_epoch = steps, .max_epoch = epochs, .auto_resume = resume,
                   .seed = seed),
        tp_queue_input_trainer());
    if (device) device->close(device);
    return st == TP_OK ? 0 : 1;
}
