/* conditional_gan.c - a GAN that draws the digit that you ask for
 *
 *   gcc -std=c11 -O2 -I.. conditional_gan.c -lm -lpthread -o conditional_gan && ./conditional_gan --data mnist
 *
 * After 1,600 steps of MNIST (2 minutes of one core) 81% of the drawings are read as the digit that was asked for; one can read
 * most of them, though strokes are broken. tensorpack's examples/GAN/ConditionalGAN-mnist.py. Without --data it trains on
 * digits that the library draws.
 * New here, compared with dcgan.c: both networks are told the digit; a third one, which learns to read real digits beside them,
 * reads what was drawn: `as_asked` is the part of the drawn digits that it reads as the digit that was asked for. Row i of a
 * sheet of samples (train_log/conditional_gan/samples-ep001.png, and report.html) was asked to show digit i.
 *   --data folder of MNIST's IDX files   --epochs n (20)   --steps n (of an epoch; 200) */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"
#include "options.h"
#include <string.h>

#define BATCH 100 /* ten drawings of each digit */
#define Z     64

static const tp_spec inputs[] = {TP_SPEC("image", TP_F32, TP_ANY, 28, 28), TP_SPEC("label", TP_I32, TP_ANY)};

typedef struct gan {
    tp_node *g_loss, *d_loss, *judge_loss;
} gan;

/* 1. The networks. The digit is (B,10), 1 at its place: the generator gets it beside its random numbers; the discriminator as a
 * second channel of the picture, a pattern of 28x28 that it learns for each digit. */
static tp_node *leaky(tp_node *x) { return tp_leaky_relu(x, 0.2f); }
static tp_node *bn_leaky(tp_node *x) { return leaky(tp_batch_norm(x, "bn")); }

static tp_node *generator(tp_graph *g, tp_node *z, tp_node *digit)
{
    tp_node *l = NULL;
    TP_VARIABLE_SCOPE(g, "gen")
    {
        l = tp_fully_connected(tp_concat_along(1, z, digit), "fc", .units = 7 * 7 * 64, .activation = tp_bn_relu);
        l = tp_reshape(l, TP_ANY, 7, 7, 64);
        l = tp_conv2d_transpose(l, "deconv1", .filters = 32, .kernel_size = 4, .strides = 2, .activation = tp_bn_relu);
        l = tp_conv2d_transpose(l, "deconv2", .filters = 1, .kernel_size = 4, .strides = 2, .activation = tp_tanh);
    }
    return l;
}

static tp_node *discriminator(tp_graph *g, tp_node *image, tp_node *digit)
{
    tp_node *l = NULL;
    TP_VARIABLE_SCOPE(g, "discrim", .reuse = TP_REUSE_AUTO)
    {
        tp_node *pattern = tp_reshape(tp_fully_connected(digit, "pattern", .units = 28 * 28), TP_ANY, 28, 28, 1);
        l = tp_concat_along(3, image, pattern);
        l = tp_conv2d(l, "conv0", .filters = 32, .kernel_size = 4, .strides = 2, .activation = leaky);
        l = tp_conv2d(l, "conv1", .filters = 64, .kernel_size = 4, .strides = 2, .activation = bn_leaky);
        l = tp_fully_connected(l, "fct", .units = 1);
    }
    return l;
}

static tp_node *judge(tp_graph *g, tp_node *image)
{
    tp_node *l = NULL;
    TP_VARIABLE_SCOPE(g, "judge", .reuse = TP_REUSE_AUTO)
    {
        l = tp_conv2d(image, "conv0", .filters = 16, .kernel_size = 5, .strides = 2, .activation = tp_relu);
        l = tp_max_pooling(l, "pool0", .pool_size = 2);
        l = tp_fully_connected(l, "fc0", .units = 64, .activation = tp_relu);
        l = tp_fully_connected(l, "fc1", .units = 10);
    }
    return l;
}

/* 100 pictures (100,28,28,1) as one of 10 rows and 10 columns, (1,280,280,1), values 0 to 255 */
static tp_node *sheet(tp_node *images)
{
    tp_node *rows = tp_permute(tp_reshape(images, 10, 10, 28, 28), 0, 2, 1, 3); /* row, y, column, x */
    return tp_affine(tp_reshape(rows, 1, 10 * 28, 10 * 28, 1), 127.5f, 127.5f);
}

/* 2. The costs. */
static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    gan *n = (gan *)user;
    int32_t digits[BATCH];
    for (int i = 0; i < BATCH; i++) digits[i] = i / (BATCH / 10);
    tp_tensor t;
    memset(&t, 0, sizeof t);
    tp_tensor_view(&t, TP_I32, tp_make_shape(BATCH), digits);
    tp_node *asked = tp_constant(g, &t);

    tp_node *real = tp_affine(tp_expand_dims(in[0], 3), 2, -1);
    tp_node *real_digit = tp_one_hot(in[1], 10, 1, 0), *asked_digit = tp_one_hot(asked, 10, 1, 0);
    tp_node *fake = generator(g, tp_rand_uniform(g, tp_make_shape(BATCH, Z), -1, 1), asked_digit);
    tp_node *real_score = discriminator(g, real, real_digit), *fake_score = discriminator(g, fake, asked_digit);
    tp_node *ones = tp_ones_like(fake_score), *zeros = tp_zeros_like(fake_score);
    n->d_loss = tp_named(tp_add(tp_mean(tp_sigmoid_cross_entropy(real_score, tp_ones_like(real_score))),
                                tp_mean(tp_sigmoid_cross_entropy(fake_score, zeros))),
                         "d_loss");
    n->g_loss = tp_named(tp_mean(tp_sigmoid_cross_entropy(fake_score, ones)), "g_loss");
    n->judge_loss = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(judge(g, real), in[1])), "judge_loss");
    tp_node *as_asked = tp_sym_accuracy(judge(g, fake), asked, 1, "as_asked");
    tp_node *means = tp_sub(tp_mean_over(fake, 0), tp_mean_over(real, 0));
    tp_node *distance = tp_named(tp_mean(tp_abs(means)), "mean_distance"); /* of the mean pictures, as in dcgan.c */
    tp_add_moving_summary(n->g_loss, n->d_loss, n->judge_loss, as_asked, distance);
    tp_named(sheet(fake), "samples"); /* a callback finds it by its name, and makes files and a summary of it */
    return n->g_loss;
}

/* 3. The training graph: each network learns by its own cost. Nobody learns to please the judge. */
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
    tp_node *all[] = {tp_minimize(tp_adam(d_rate, .beta1 = 0.5f), n->d_loss, "discrim/.*"),
                      tp_minimize(tp_adam(g_rate, .beta1 = 0.5f), n->g_loss, "gen/.*"),
                      tp_minimize(tp_adam(g_rate), n->judge_loss, "judge/.*")};
    t->train_op = tp_group(t->graph, all, 3, "train_op");
    t->cost = n->d_loss; /* a NaN ends the training */
    return tp_graph_status(t->graph);
}

int main(int argc, char **argv)
{
    const char *data = NULL;
    int epochs = 20, steps = 200;
    const option list[] = {option_text("--data folder", &data), option_int("--epochs n", &epochs, 1),
                           option_int("--steps n", &steps, 1)};
    read_options(argc, argv, list, TP_COUNT(list));

    gan n = {NULL, NULL, NULL};
    tp_dataflow *train = data ? tp_df_mnist("train", .dir = data) : tp_df_digits("train");
    if (tp_df_status(train) != TP_OK || tp_logger_set_dir("train_log/conditional_gan", 'd') != TP_OK)
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
