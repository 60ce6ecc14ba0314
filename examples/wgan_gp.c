/* wgan_gp.c - a Wasserstein GAN with gradient penalty: the cost contains a gradient, which is differentiated again
 *
 *   gcc -std=c11 -O2 -I.. wgan_gp.c -lm -lpthread -o wgan_gp && ./wgan_gp --data mnist
 *
 * After 1,200 steps of MNIST the digits are ragged, and about half of them can be read; after 6,000 (12 epochs, 10 minutes
 * of one core) most can. It needs more steps than dcgan.c. tensorpack's examples/GAN/Improved-WGAN.py, on digits. Without --data it trains on digits that the library
 * draws.
 * New here, compared with dcgan.c: a critic that gives a score instead of a probability, whose difference between real and
 * drawn pictures falls as these get better; its slope is kept near 1 by a penalty on its gradient (tp_gradients within the
 * cost); a step function of one's own: two updates of the critic, then one of the generator.
 *   --data folder of MNIST's IDX files   --epochs n (20)   --steps n (of an epoch; 500) */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"
#include "options.h"

#define BATCH   64
#define Z       64
#define PENALTY 10.0f

static const tp_spec inputs[] = {TP_SPEC("image", TP_F32, TP_ANY, 28, 28), TP_SPEC("label", TP_I32, TP_ANY)};

typedef struct gan {
    tp_node *g_loss, *d_loss, *g_op, *d_op;
} gan;

/* 1. The networks. The critic has no batch norm: the penalty is about the gradient of each picture by itself. */
static tp_node *leaky(tp_node *x) { return tp_leaky_relu(x, 0.2f); }

static tp_node *generator(tp_graph *g, tp_node *z)
{
    tp_node *l = NULL;
    TP_VARIABLE_SCOPE(g, "gen")
    {
        l = tp_fully_connected(z, "fc", .units = 7 * 7 * 64, .activation = tp_bn_relu);
        l = tp_reshape(l, TP_ANY, 7, 7, 64);
        l = tp_conv2d_transpose(l, "deconv1", .filters = 32, .kernel_size = 4, .strides = 2, .activation = tp_bn_relu);
        l = tp_conv2d_transpose(l, "deconv2", .filters = 1, .kernel_size = 4, .strides = 2, .activation = tp_tanh);
    }
    return l;
}

static tp_node *critic(tp_graph *g, tp_node *image)
{
    tp_node *l = NULL;
    TP_VARIABLE_SCOPE(g, "critic", .reuse = TP_REUSE_AUTO)
    {
        l = tp_conv2d(image, "conv0", .filters = 32, .kernel_size = 4, .strides = 2, .activation = leaky);
        l = tp_conv2d(l, "conv1", .filters = 64, .kernel_size = 4, .strides = 2, .activation = leaky);
        l = tp_fully_connected(l, "score", .units = 1);
    }
    return l;
}

/* 64 pictures (64,28,28,1) as one of 8 rows and 8 columns, (1,224,224,1), values 0 to 255 */
static tp_node *sheet(tp_node *images)
{
    tp_node *rows = tp_permute(tp_reshape(images, 8, 8, 28, 28), 0, 2, 1, 3); /* row, y, column, x */
    return tp_affine(tp_reshape(rows, 1, 8 * 28, 8 * 28, 1), 127.5f, 127.5f);
}

/* 2. The costs. The critic's score of real pictures minus that of drawn ones is, if the slope of the critic is at most 1, a lower
 * bound of the distance between the two distributions. */
static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    gan *n = (gan *)user;
    tp_node *real = tp_affine(tp_expand_dims(in[0], 3), 2, -1);
    tp_node *fake = generator(g, tp_rand_normal(g, tp_make_shape(BATCH, Z), 0, 1));
    tp_node *real_score = tp_mean(critic(g, real)), *fake_score = tp_mean(critic(g, fake));
    tp_node *distance = tp_named(tp_sub(real_score, fake_score), "distance");

    /* The slope at a random point between a real and a drawn picture: the norm of d score / d picture. */
    tp_node *between = tp_rand_uniform(g, tp_make_shape(BATCH, 1, 1, 1), 0, 1), *slope = NULL;
    tp_node *mixed = tp_add(real, tp_mul(between, tp_sub(fake, real)));
    tp_gradients(critic(g, mixed), &mixed, 1, &slope);
    tp_node *norm = tp_sqrt(tp_affine(tp_sum_over(tp_square(slope), 1, 2, 3), 1, 1e-12f));
    tp_node *penalty = tp_mean(tp_square(tp_affine(norm, 1, -1)));

    n->d_loss = tp_named(tp_sub(tp_affine(penalty, PENALTY, 0), distance), "d_loss");
    n->g_loss = tp_named(tp_neg(fake_score), "g_loss");
    tp_add_moving_summary(n->d_loss, n->g_loss, distance, tp_named(tp_mean(norm), "slope"));
    tp_node *means = tp_sub(tp_mean_over(fake, 0), tp_mean_over(real, 0));
    tp_add_moving_summary(tp_named(tp_mean(tp_abs(means)), "mean_distance")); /* of the mean pictures, as in dcgan.c */
    tp_named(sheet(fake), "samples"); /* a callback finds it by its name, and makes files and a summary of it */
    return n->d_loss;
}

/* 3. The training graph, with an op for each network, and a step, which runs one of them. */
static tp_status build_gan(tp_trainer *t, const tp_model *m)
{
    gan *n = (gan *)m->user;
    const tp_tower_desc tower = {NULL, NULL, true, 0, 0};
    tp_node *in[TP_COUNT(inputs)];
    tp_tower_enter(t->graph, &tower);
    if (tp_input_get_tensors(t->state.input, in) == TP_OK) tp_tower_func_call(t->state.tower_func, in);
    tp_tower_leave(t->graph);

    tp_node *lr = tp_get_scalar_variable(t->graph, "learning_rate", 1e-3f);
    n->d_op = tp_minimize(tp_adam(lr, .beta1 = 0.5f, .beta2 = 0.9f), n->d_loss, "critic/.*");
    n->g_op = tp_minimize(tp_adam(lr, .beta1 = 0.5f, .beta2 = 0.9f), n->g_loss, "gen/.*");
    t->user = n;
    return tp_graph_status(t->graph);
}

static tp_status one_step(tp_trainer *t)
{
    gan *n = (gan *)t->user;
    return tp_hooked_run(t->state.hooked_session, t->state.global_step % 3 == 2 ? &n->g_op : &n->d_op, 1, NULL);
}

int main(int argc, char **argv)
{
    const char *data = NULL;
    int epochs = 20, steps = 500;
    const option list[] = {option_text("--data folder", &data), option_int("--epochs n", &epochs, 1),
                           option_int("--steps n", &steps, 1)};
    read_options(argc, argv, list, TP_COUNT(list));

    gan n = {NULL, NULL, NULL, NULL};
    tp_dataflow *train = data ? tp_df_mnist("train", .dir = data) : tp_df_digits("train");
    if (tp_df_status(train) != TP_OK || tp_logger_set_dir("train_log/wgan_gp", 'd') != TP_OK)
        return fprintf(stderr, "%s\n", tp_last_error()), 1; /* without data the files of an earlier run stay */
    tp_trainer *trainer = tp_queue_input_trainer();
    if (!trainer) return 1;
    trainer->build = build_gan;
    trainer->run_step = one_step;
    return tp_launch_train_with_config(
               TP_OPTIONS(tp_train_config,
                          .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build_graph, .user = &n},
                          .dataflow = tp_df_batch(train, BATCH),
                          TP_CALLBACKS(tp_cb_model_saver(), tp_cb_dump_tensor_as_image("samples", .scale = 1)),
                          .steps_per_epoch = steps, .max_epoch = epochs),
               trainer) != TP_OK;
}
