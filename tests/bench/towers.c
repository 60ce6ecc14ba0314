/* towers.c - MNIST by each trainer of several devices: does it come to the error of one device?
 *
 *   make build/towers && build/towers --data <folder> [--trainer simple|replicated|ps|async] [--towers n] [--epochs n] [--seed n]
 *                                     [--threads n] [--gpu]
 *   mpicc -O2 -DTP_MPI -I. tests/bench/towers.c -o towers -lm -lpthread && mpirun -np 3 ./towers --trainer horovod|server ...
 *
 * tensorpack's mnist-convnet, 128 samples a step, a share of them for each tower, or for each rank that trains (with server the last
 * rank keeps the variables, and updates are applied as they arrive); the learning rate falls to 0 in the last epoch. Prints one line of JSON: the validation error of the last epoch and seconds of a step. --gpu: a tower on each of
 * the first GPUs, else on CPU devices. Without --data: digits that the library draws. */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_train.h"
#include "tp_layers.h"
#include <stdlib.h>
#include <string.h>

enum { BATCH = 128, MOST = 16 };

static const tp_spec inputs[] = {TP_SPEC("input", TP_F32, TP_ANY, 28, 28), TP_SPEC("label", TP_I32, TP_ANY)};

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *image = tp_affine(tp_expand_dims(in[0], 3), 2.0f, -1.0f), *logits = NULL;
    (void)user;
    TP_ARGSCOPE(g, conv2d, .filters = 32, .kernel_size = 3, .activation = tp_relu)
    {
        logits = tp_linear(image, TP_CONV2D("conv0"), TP_MAX_POOLING("pool0", .pool_size = 2), TP_CONV2D("conv1"),
                           TP_CONV2D("conv2"), TP_MAX_POOLING("pool1", .pool_size = 2), TP_CONV2D("conv3"),
                           TP_FULLY_CONNECTED("fc0", .units = 512, .activation = tp_relu),
                           TP_DROPOUT("dropout", .rate = 0.5f), TP_FULLY_CONNECTED("fc1", .units = 10));
    }
    tp_node *cost = tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1]));
    tp_sym_prediction_incorrect(logits, in[1], 1, "incorrect_vector");
    return tp_named(tp_add(cost, tp_regularize_cost(g, "fc.*/W", tp_l2_regularizer(1e-5f), NULL)), "cost");
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    return tp_adam(tp_cosine_decay(g, 1e-3f, NULL, *(const int64_t *)user, 0.0f));
}

typedef struct figures {
    double error, seconds, began;
    int64_t steps;
} figures;
static figures last;
static tp_status note_begin(tp_callback *cb)
{
    (void)cb;
    last.began = tp_time();
    return TP_OK;
}
static tp_status note_end(tp_callback *cb)
{
    last.seconds += tp_time() - last.began;
    last.steps = cb->train->global_step;
    return TP_OK;
}
static tp_status note_error(tp_callback *cb)
{
    tp_stat s;
    memset(&s, 0, sizeof s);
    const tp_status st = tp_monitors_get_latest(cb->train->monitors, "validation_error", &s);
    last.error = s.value;
    return st;
}

static tp_trainer *trainer_of(const char *name, int n)
{
    if (strcmp(name, "replicated") == 0) return tp_sync_multi_gpu_trainer_replicated(.n_devices = n);
    if (strcmp(name, "ps") == 0) return tp_sync_multi_gpu_trainer_parameter_server(.n_devices = n);
    if (strcmp(name, "async") == 0) return tp_async_multi_gpu_trainer(.n_devices = n);
#ifdef TP_MPI
    if (strcmp(name, "horovod") == 0) return tp_horovod_trainer();
    if (strcmp(name, "server") == 0) return tp_distributed_trainer_parameter_server();
#endif
    return strcmp(name, "simple") == 0 ? tp_queue_input_trainer() : NULL;
}

int main(int argc, char **argv)
{
    const char *data = NULL, *name = "simple";
    int epochs = 5, towers = 1, gpu = 0;
    long seed = 9;
    tp_device *device[MOST];
    tp_session_config session = tp_default_session_config();
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--data") == 0) data = value, i++;
        else if (strcmp(argv[i], "--trainer") == 0) name = value, i++;
        else if (strcmp(argv[i], "--towers") == 0) towers = atoi(value), i++;
        else if (strcmp(argv[i], "--epochs") == 0) epochs = atoi(value), i++;
        else if (strcmp(argv[i], "--seed") == 0) seed = atol(value), i++;
        else if (strcmp(argv[i], "--threads") == 0) session.threads = atoi(value), i++;
        else if (strcmp(argv[i], "--gpu") == 0) gpu = 1;
        else return fprintf(stderr, "%s: what is %s?\n", argv[0], argv[i]), 2;
    }
    if (tp_size() > 1) towers = strcmp(name, "server") == 0 ? tp_size() - 1 : tp_size();
    tp_trainer *t = towers >= 1 && towers <= MOST ? trainer_of(name, towers) : NULL;
    if (!t)
        return fprintf(stderr,
                       "%s: the trainer is simple, replicated, ps or async, with 1 to 16 towers; with MPI horovod or "
                       "server\n",
                       argv[0]),
               2;
    for (int i = 0; i < towers && gpu; i++) {
#ifdef TP_CUDA
        device[i] = tp_cuda_open(i);
#else
        device[i] = NULL;
        tp_fail(TP_ERR_UNSUPPORTED, "this program was built without CUDA: make CUDA=1");
#endif
        if (!device[i]) return fprintf(stderr, "%s\n", tp_last_error()), 1;
        session.devices = device;
        session.n_devices = i + 1;
    }
    const uint64_t order = (uint64_t)tp_rank(); /* each rank has an order of its own */
    tp_dataflow *train = data ? tp_df_mnist("train", .dir = data, .seed = order) : tp_df_digits("train", .seed = order);
    tp_dataflow *test =
        data ? tp_df_mnist("test", .dir = data, .shuffle = false) : tp_df_digits("test", .shuffle = false);
    train = tp_df_batch(train, BATCH / towers);
    const int64_t steps = tp_df_size(train) / towers;
    int64_t all = steps * epochs;
    tp_callback *timer = tp_callback_new("Timer", 0);
    if (timer) timer->before_epoch = note_begin, timer->after_epoch = note_end, timer->trigger = note_error;
    tp_status st = tp_launch_train_with_config(
        TP_OPTIONS(
            tp_train_config,
            .model =
                {.inputs = inputs, .n_inputs = 2, .build_graph = build_graph, .optimizer = optimizer, .user = &all},
            .dataflow = train,
            TP_CALLBACKS(tp_cb_inference_runner(tp_df_batch(test, 256, .remainder = true),
                                                .inferencers = {tp_inf_classification_error()}),
                         timer),
            .n_extra_callbacks = TP_NONE, .n_monitors = TP_NONE, .session_config = &session, .steps_per_epoch = steps,
            .max_epoch = epochs, .seed = (uint64_t)seed, .log_layers = TP_NO),
        t);
    if (tp_rank() == 0)
        printf("{\"trainer\": \"%s\", \"towers\": %d, \"on\": \"%s\", \"seed\": %ld, \"epochs\": %d, \"error\": %.4f, "
               "\"ms_per_step\": %.3f}\n",
               name, towers, gpu ? "GPU" : "CPU", seed, epochs, last.error,
               last.steps ? 1e3 * last.seconds / (double)last.steps : 0);
    for (int i = 0; i < session.n_devices; i++) device[i]->close(device[i]);
    return st == TP_OK ? 0 : 1;
}
