/* mnist_convnet.c - tensorpack's mnist-convnet, the whole program
 *
 *   gcc -std=c11 -O2 -I.. mnist_convnet.c -lm -lpthread -o mnist_convnet && ./mnist_convnet
 *
 * Without arguments it trains on digits that the library draws; --data <folder> takes the IDX files of MNIST (plain or
 * .gz) and reaches 0.6% error within 30 epochs. Read it top to bottom: what goes in, what comes out, how to train it.
 *   --epochs n   --steps n (of an epoch)   --resume (go on from train_log/mnist_convnet)   --seed n   --threads n
 *   --gpu n (the n-th GPU, from 0: make CUDA=1, or by hand with -DTP_CUDA and what the README, On a GPU, links) */
#define TP_IMPLEMENTATION
#define TP_STATIC /* all is in this file: what is not used falls away */
#include "tp_train.h"
#include "tp_layers.h"
#include "options.h"

#define BATCH 128

/* 1. What goes in. TP_ANY is the batch. */
static const tp_spec inputs[] = {
    TP_SPEC("input", TP_F32, TP_ANY, 28, 28),
    TP_SPEC("label", TP_I32, TP_ANY),
};

/* 2. What comes out: one tower. Called once for training and once more for inference. */
static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *image = tp_affine(tp_expand_dims(in[0], 3), 2.0f, -1.0f); /* (B,28,28) -> (B,28,28,1), centred at zero */
    tp_node *label = in[1], *logits = NULL;
    (void)user;

    /* Every Conv2D inside this block has these options unless it says otherwise. */
    TP_ARGSCOPE(g, conv2d, .filters = 32, .kernel_size = 3, .activation = tp_relu)
    {
        logits = tp_linear(image, TP_CONV2D("conv0"), TP_MAX_POOLING("pool0", .pool_size = 2), TP_CONV2D("conv1"),
                           TP_CONV2D("conv2"), TP_MAX_POOLING("pool1", .pool_size = 2), TP_CONV2D("conv3"),
                           TP_FULLY_CONNECTED("fc0", .units = 512, .activation = tp_relu),
                           TP_DROPOUT("dropout", .rate = 0.5f), /* the identity at inference */
                           TP_FULLY_CONNECTED("fc1", .units = 10));
    }

    tp_node *cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, label)), "cross_entropy_loss");
    tp_node *wrong = tp_sym_prediction_incorrect(logits, label, 1, "incorrect_vector");
    tp_node *accuracy = tp_sym_accuracy(logits, label, 1, "accuracy");
    tp_node *train_error = tp_named(tp_mean(wrong), "train_error");
    tp_node *decay = tp_regularize_cost(g, "fc.*/W", tp_l2_regularizer(1e-5f), "regularize_loss");
    tp_node *total = tp_named(tp_add(cost, decay), "total_cost");
    tp_add_moving_summary(train_error, accuracy, cost, decay, total); /* printed, in stats.json and in TensorBoard */
    return total;
}

/* 3. How to train it: Adam, its learning rate times 0.3 every ten epochs. */
static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    const int steps_per_epoch = *(const int *)user;
    tp_node *lr = tp_named(tp_exponential_decay(g, 1e-3f, NULL, steps_per_epoch * 10, 0.3f, true), "learning_rate");
    tp_add_tensor_summary(lr, TP_SUMMARY_SCALAR, "lr", NULL);
    return tp_adam(lr);
}

int main(int argc, char **argv)
{
    const char *data = NULL;
    int epochs = 5, steps = 0, resume = 0, gpu = -1;
    uint64_t seed = 9; /* of weights, dropout and the order of the data */
    tp_session_config session = tp_default_session_config();
    const option list[] = {option_text("--data folder", &data),
                           option_int("--epochs n", &epochs, 1),
                           option_int("--steps n", &steps, 0),
                           option_seed("--seed n", &seed),
                           option_int("--threads n", &session.threads, 0),
                           option_int("--gpu n", &gpu, 0),
                           option_flag("--resume", &resume)};
    read_options(argc, argv, list, TP_COUNT(list));
    tp_device *device = NULL; /* the session's own: the CPU */
    if (gpu >= 0) {
#ifdef TP_CUDA
        device = tp_cuda_open(gpu);
#else
        tp_fail(TP_ERR_UNSUPPORTED, "this program was built without CUDA: make CUDA=1");
#endif
        if (!device) {
            fprintf(stderr, "%s\n", tp_last_error());
            return 1;
        }
        session.devices = &device;
        session.n_devices = 1;
    }
    tp_dataflow *train = data ? tp_df_mnist("train", .dir = data) : tp_df_digits("train");
    tp_dataflow *test =
        data ? tp_df_mnist("test", .dir = data, .shuffle = false) : tp_df_digits("test", .shuffle = false);
    train = tp_df_batch(train, BATCH);
    test = tp_df_batch(test, 2 * BATCH, .remainder = true);
    if (steps == 0) steps = (int)tp_df_size(train);

    if (tp_df_status(train) != TP_OK || tp_df_status(test) != TP_OK ||
        tp_logger_set_dir("train_log/mnist_convnet", resume ? 'k' : 'd') != TP_OK)
        return fprintf(stderr, "%s\n", tp_last_error()), 1; /* without data the files of an earlier run stay */
    tp_status st = tp_launch_train_with_config(
        TP_OPTIONS(
            tp_train_config,
            .model = {.inputs = inputs,
                      .n_inputs = TP_COUNT(inputs),
                      .build_graph = build_graph,
                      .optimizer = optimizer,
                      .user = &steps},
            .dataflow = train,
            TP_CALLBACKS(tp_cb_model_saver(),
                         tp_cb_inference_runner(
                             test, .inferencers = {tp_inf_scalar_stats(TP_NAMES("cross_entropy_loss", "accuracy")),
                                                   tp_inf_classification_error(.wrong_tensor_name = "incorrect_vector",
                                                                               .summary_name = "validation_error")}),
                         tp_cb_max_saver("validation_accuracy"), /* savers may stand anywhere */
                         tp_cb_estimated_time_left()),
            .session_config = &session, .steps_per_epoch = steps, .max_epoch = epochs, .auto_resume = resume,
            .seed = seed),
        tp_simple_trainer());
    if (device) device->close(device);
    return st == TP_OK ? 0 : 1;
}
