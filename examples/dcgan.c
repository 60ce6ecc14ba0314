/* dcgan.c - DCGAN: a network that draws digits, trained against one that tells drawn digits from real ones
 *
 *   gcc -std=c11 -O2 -I.. dcgan.c -lm -lpthread -o dcgan && ./dcgan --data mnist
 *
 * After 1,600 steps of MNIST (75 s of one core) most samples are digits that one can read, some with broken strokes.
 * tensorpack's examples/GAN/DCGAN.py, on digits. Without --data it trains on digits that the library draws.
 * New here, compared with mnist_convnet.c: two networks with a cost and an optimizer each, so the program itself says how the
 * training graph is built (build_gan); random inputs; a tensor as a picture. After each epoch 64 samples are in
 * train_log/dcgan/samples-ep001.png and so on, in report.html (Images) and in TensorBoard.
 *   --data folder of MNIST's IDX files   --epochs n (20)   --steps n (of an epoch; 300) */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"
#include "options.h"

#define BATCH 64
#define Z     64 /* random numbers that a picture is made of */

static const tp_spec inputs[] = {TP_SPEC("image", TP_F32, TP_ANY, 28, 28), TP_SPEC("label", TP_I32, TP_ANY)};

typedef struct gan {
    tp_node *g_loss, *d_loss;
} gan;

/* 1. The two networks: from 64 numbers to a picture with values of -1 to 1, and from a picture to one number, which is above 0 for
 * "real". Calls with .reuse = TP_REUSE_AUTO share their variables: gen/... and discrim/... */
static tp_node *leaky(tp_node *x) { return tp_leaky_relu(x, 0.2f); }
static tp_node *bn_leaky(tp_node *x) { return leaky(tp_batch_norm(x, "bn")); }

static tp_node *generator(tp_graph *g, tp_node *z)
{
    tp_node *l = NULL;
    TP_VARIABLE_SCOPE(g, "gen", .reuse = TP_REUSE_AUTO)
    {
        l = tp_fully_connected(z, "fc", .units = 7 * 7 * 64, .activation = tp_bn_relu);
        l = tp_reshape(l, TP_ANY, 7, 7, 64);
        l = tp_conv2d_transpose(l, "deconv1", .filters = 32, .kernel_size = 4, .strides = 2, .activation = tp_bn_relu);
        l = tp_conv2d_transpose(l, "deconv2", .filters = 1, .kernel_size = 4, .strides = 2, .activation = tp_tanh);
    }
    return l;
}

static tp_node *discriminator(tp_graph *g, tp_node *image)
{
    tp_node *l = NULL;
    TP_VARIABLE_SCOPE(g, "discrim", .reuse = TP_REUSE_AUTO)
    {
        l = tp_conv2d(image, "conv0", .filters = 32, .kernel_size = 4, .strides = 2, .activation = leaky);
        l = tp_conv2d(l, "conv1", .filters = 64, .kernel_size = 4, .strides = 2, .activation = bn_leaky);
        l = tp_fully_connected(l, "fct", .units = 1);
    }
    return l;
}

/* 64 pictures (64,28,28,1) as one of 8 rows and 8 columns, (1,224,224,1), values 0 to 255 */
static tp_node *sheet(tp_node *images)
{
    tp_node *rows = tp_permute(tp_reshape(images, 8, 8, 28, 28), 0, 2, 1, 3); /* row, y, column, x */
    return tp_affine(tp_reshape(rows, 1, 8 * 28, 8 * 28, 1), 127.5f, 127.5f);
}

/* 2. The costs. */
static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    gan *n = (gan *)user;
    tp_node *real = tp_affine(tp_expand_dims(in[0], 3), 2, -1); /* 0 to 1: -1 to 1 */
    tp_node *z = tp_rand_uniform(g, tp_make_shape(BATCH, Z), -1, 1), *fake = NULL;
    TP_ARGSCOPE(g, (conv2d, conv2d_transpose, fully_connected),
                .kernel_initializer = tp_init_truncated_normal(0, 0.02f))
    {
        fake = generator(g, z);
        tp_node *real_score = discriminator(g, real), *fake_score = discriminator(g, fake);
        tp_node *ones = tp_ones_like(fake_score), *zeros = tp_zeros_like(fake_score);
        n->d_loss = tp_named(tp_affine(tp_add(tp_mean(tp_sigmoid_cross_entropy(real_score, tp_ones_like(real_score))),
                                              tp_mean(tp_sigmoid_cross_entropy(fake_score, zeros))),
                                       0.5f, 0),
                             "d_loss");
        n->g_loss = tp_named(tp_mean(tp_sigmoid_cross_entropy(fake_score, ones)), "g_loss");
        tp_node *d_accuracy = tp_named(tp_mean(tp_cast(tp_less(fake_score, zeros), TP_F32)), "fakes_found");
        tp_add_moving_summary(n->g_loss, n->d_loss, d_accuracy);
    }
    /* The costs do not say whether the pictures are good: the networks only measure each other. This number does, a little: how
     * far the mean of the drawn pictures is from the mean of the real ones. */
    tp_node *distance = tp_sub(tp_mean_over(fake, 0), tp_mean_over(real, 0));
    tp_add_moving_summary(tp_named(tp_mean(tp_abs(distance)), "mean_distance"));
    tp_named(sheet(fake), "samples"); /* a callback finds it by its name, and makes files and a summary of it */
    return n->g_loss;
}

/* 3. The training graph, instead of the trainer's own: both networks learn in each step, each by its own cost. */
static tp_status build_gan(tp_trainer *t, const tp_model *m)
{
    const gan *n = (const gan *)m->user;
    const tp_tower_desc tower = {NULL, NULL, true, 0, 0};
    tp_node *in[TP_COUNT(inputs)];
    tp_tower_enter(t->graph, &tower);
    if (tp_input_get_tensors(t->state.input, in) == TP_OK) tp_tower_func_call(t->state.tower_func, in);
    tp_tower_leave(t->graph);

    tp_node *g_rate = tp_get_scalar_variable(t->graph, "g_rate", 1e-3f);
    tp_node *d_rate = tp_get_scalar_variable(t->graph, "d_rate", 2e-4f);
    tp_node *both[] = {tp_minimize(tp_adam(d_rate, .beta1 = 0.5f), n->d_loss, "discrim/.*"),
                       tp_minimize(tp_adam(g_rate, .beta1 = 0.5f), n->g_loss, "gen/.*")};
    t->train_op = tp_group(t->graph, both, 2, "train_op");
    t->cost = n->d_loss; /* a NaN ends the training */
    return tp_graph_status(t->graph);
}

int main(int argc, char **argv)
{
    const char *data = NULL;
    int epochs = 20, steps = 300;
    const option list[] = {option_text("--data folder", &data), option_int("--epochs n", &epochs, 1),
                           option_int("--steps n", &steps, 1)};
    read_options(argc, argv, list, TP_COUNT(list));

    gan n = {NULL, NULL};
    tp_dataflow *train = data ? tp_df_mnist("train", .dir = data) : tp_df_digits("train");
    if (tp_df_status(train) != TP_OK || tp_logger_set_dir("train_log/dcgan", 'd') != TP_OK)
        return fprintf(stderr, "%s\n", tp_last_error()), 1; /* without data the files of an earlier run stay */
    tp_trainer *trainer = tp_queue_input_trainer();
    if (!trainer) return 1;
    trainer->build = build_gan;
    return tp_launch_train_with_config(
               TP_OPTIONS(tp_train_config,
                          .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build_graph, .user = &n},
                          .dataflow = tp_df_batch(train, BATCH),
                          TP_CALLBACKS(tp_cb_model_saver(), tp_cb_dump_tensor_as_image("samples", .scale = 1)),
                          .steps_per_epoch = steps, .max_epoch = epochs),
               trainer) != TP_OK;
}
