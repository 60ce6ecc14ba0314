/* report_demo.c - a small training whose report has something of everything: for tests/check_report.sh, and to look at
 *
 *     gcc -std=c11 -O1 -I. -Itests tests/report_demo.c -lm -lpthread -o build/report_demo && build/report_demo build/report_demo.log
 *
 * Two runs of a convnet on drawn digits: <folder>/first, and <folder>/second with a lower learning rate, whose report shows both and is
 * copied to <folder>/running.html in its last epoch but one. Curves with NaN, histograms of weights, images, nested scopes. */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_train.h"
#include "tp_layers.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 32, STEPS = 40, EPOCHS = 12 };

static const tp_spec inputs[] = {TP_SPEC("image", TP_F32, TP_ANY, 28, 28), TP_SPEC("label", TP_I32, TP_ANY)};

static tp_node *block(tp_node *x, const char *name, int filters)
{
    tp_graph *g = x->op->graph;
    tp_node *y = NULL;
    TP_VARIABLE_SCOPE(g, name)
    {
        y = tp_conv2d(x, "conv1", .filters = filters, .kernel_size = 3, .activation = tp_bn_relu, .use_bias = TP_NO);
        y = tp_conv2d(y, "conv2", .filters = filters, .kernel_size = 3, .use_bias = TP_NO);
        y = tp_relu(tp_add(y, tp_conv2d(x, "shortcut", .filters = filters, .kernel_size = 1)));
    }
    return tp_max_pooling(y, "pool", .pool_size = 2);
}

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *x = tp_expand_dims(in[0], 3), *y = NULL;
    (void)user;
    TP_VARIABLE_SCOPE(g, "body")
    {
        y = block(x, "block0", 8);
        y = block(y, "block1", 16);
    }
    y = tp_dropout(tp_fully_connected(y, "fc0", .units = 64, .activation = tp_relu), .rate = 0.3f);
    tp_node *logits = tp_fully_connected(y, "fc1", .units = 10);
    tp_node *cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1])), "cost");
    tp_node *error = tp_named(tp_mean(tp_sym_prediction_incorrect(logits, in[1], 1, "wrong")), "train_error");
    tp_add_moving_summary(cost, error);
    tp_add_tensor_summary(tp_affine(x, 255.0f, 0.0f), TP_SUMMARY_IMAGE, "digits", NULL);
    tp_add_param_summary(g, "(fc.|conv1)/W", TP_SUMMARY_HISTOGRAM | TP_SUMMARY_RMS);
    return cost;
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    return tp_adam(tp_get_scalar_variable(g, "learning_rate", *(const float *)user));
}

static const char *copy_to; /* NULL: no copy */

/* The page as it is while the training runs. */
static void copy_page(void)
{
    char path[4096], *text = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "%s/report.html", tp_logger_dir());
    FILE *f = tp_file_read(path, false, 0, &text, &size) == TP_OK ? fopen(copy_to, "wb") : NULL;
    if (f) {
        fwrite(text, 1, size, f);
        fclose(f);
    }
    tp_free(text);
}

static tp_status each_step(tp_callback *cb)
{
    const double s = (double)cb->train->global_step;
    tp_status st = tp_monitors_put_scalar(cb->train->monitors, "noise/falling",
                                          exp(-s / 150) * (2 + sin(s * 12.9) * cos(s * 78.2)));
    if (st == TP_OK)
        st = tp_monitors_put_scalar(cb->train->monitors, "noise/with a NaN",
                                    cb->train->global_step % 60 == 33 ? (double)NAN : sin(s / 25));
    if (copy_to && cb->train->epoch_num == EPOCHS - 1 && cb->train->local_step == STEPS / 2) copy_page();
    return st;
}

static tp_status run(const char *dir, const char *other, float rate)
{
    tp_callback *watch = tp_callback_new("Noise", 0);
    if (!watch || tp_logger_set_dir(dir, 'd') != TP_OK) return TP_ERR;
    watch->trigger_step = each_step;
    tp_dataflow *data = tp_df_batch(tp_df_digits("train", .size = 4000), BATCH);
    tp_dataflow *test = tp_df_batch(tp_df_digits("test", .size = 500), 100);
    return tp_launch_train_with_config(
        TP_OPTIONS(
            tp_train_config,
            .model =
                {.inputs = inputs, .n_inputs = 2, .build_graph = build_graph, .optimizer = optimizer, .user = &rate},
            .dataflow = data,
            TP_CALLBACKS(
                watch,
                tp_cb_inference_runner(test, .inferencers = {tp_inf_classification_error("wrong", "validation/error"),
                                                             tp_inf_scalar_stats(TP_NAMES("cost"))}),
                tp_cb_throughput_tracker(.samples_per_step = BATCH)),
            TP_MONITORS(tp_monitor_json_writer(), tp_monitor_scalar_printer(),
                        tp_monitor_report(.runs = {other}, .every_secs = 0.2)),
            .steps_per_epoch = STEPS, .max_epoch = EPOCHS),
        tp_simple_trainer());
}

int main(int argc, char **argv)
{
    char first[2048], second[2048], copy[2048];
    if (argc != 2) return fprintf(stderr, "usage: %s folder\n", argv[0]), 2;
    snprintf(first, sizeof first, "%s/first", argv[1]);
    snprintf(second, sizeof second, "%s/second", argv[1]);
    snprintf(copy, sizeof copy, "%s/running.html", argv[1]);
    tp_status st = run(first, NULL, 3e-3f);
    copy_to = copy;
    if (st == TP_OK) st = run(second, first, 1e-3f);
    return st == TP_OK ? 0 : 1;
}
