/* export_model.c - train a model, write it as ONNX and as C, compile the C and run it
 *
 *   gcc -std=c11 -O2 -I.. export_model.c -lm -lpthread -o export_model && ./export_model
 *
 * A model leaves the program in three ways: as a checkpoint (char_rnn.c loads one), as an ONNX file for other programs, and as
 * one C function without malloc that needs nothing but libm, for a microcontroller or for a program that should not know tp.
 * This program trains a small convolutional network, writes all three to train_log/export_model, has `cc` compile the C with a
 * main() that classifies one image, and compares its output with that of the model here. New here, compared with mnist_convnet.c:
 * tp_export.h. Original: tensorpack's examples/basics/export-model.py.
 *   --data folder of MNIST's IDX files (default: digits that the library draws)   --epochs n (2)   --steps n (of an epoch)
 * After a second 4.15% of the validation images are wrong. The C file has 25,032 bytes of constants and needs 18,816 bytes of RAM;
 * its probabilities differ from the model's by 1.2e-07. */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_export.h"
#include "options.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIR "train_log/export_model"

static const tp_spec inputs[] = {TP_SPEC("image", TP_F32, TP_ANY, 28, 28), TP_SPEC("label", TP_I32, TP_ANY)};

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *logits = NULL;
    (void)user;
    TP_ARGSCOPE(g, conv2d, .filters = 8, .kernel_size = 3, .strides = 2, .activation = tp_bn_relu, .use_bias = false)
    {
        logits = tp_linear(tp_expand_dims(in[0], 3), TP_CONV2D("conv0"), TP_CONV2D("conv1", .filters = 16),
                           TP_CONV2D("conv2", .filters = 16), TP_FULLY_CONNECTED("fc", .units = 10));
    }
    tp_named(tp_softmax(logits), "prob");
    tp_sym_prediction_incorrect(logits, in[1], 1, "wrong");
    return tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1])), "cost");
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_adam(tp_get_scalar_variable(g, "learning_rate", 3e-3f));
}

/* The C file is a function of one image. This main() reads its pixels and prints what it makes of them. */
static bool run_exported(const tp_tensor *image, double *prob)
{
    FILE *f = fopen(DIR "/main.c", "w");
    if (!f) return false;
    fprintf(f, "#include \"digits.h\"\n#include <stdio.h>\nstatic const float image[784] = {");
    for (int i = 0; i < 784; i++) fprintf(f, "%.9g%s", tp_tensor_get(image, i), i % 8 == 7 ? ",\n" : ", ");
    fprintf(f, "};\nint main(void)\n{\n    float prob[10];\n    digits(image, prob);\n"
               "    for (int i = 0; i < 10; i++) printf(\"%%.9g\\n\", (double)prob[i]);\n    return 0;\n}\n");
    fclose(f);
    if (system("cc -std=c99 -O2 " DIR "/main.c " DIR "/digits.c -lm -o " DIR "/digits") != 0) return false;
    if (system(DIR "/digits > " DIR "/prob.txt") != 0 || !(f = fopen(DIR "/prob.txt", "r"))) return false;
    int n = 0;
    while (n < 10 && fscanf(f, "%lf", &prob[n]) == 1) n++;
    fclose(f);
    return n == 10;
}

/* Exports the checkpoint, and compares the exported C with the model for one image. */
static tp_status export_and_compare(tp_dataflow *test, double *largest)
{
    static const char *const input[] = {"image"}, *const output[] = {"prob"};
    tp_predict_config c = {.inputs = inputs,
                           .n_inputs = 2,
                           .build_graph = build_graph,
                           .input_names = input,
                           .n_input_names = 1,
                           .output_names = output,
                           .n_output_names = 1,
                           .checkpoint = DIR "/checkpoint",
                           .log_layers = TP_NO};
    tp_model_exporter *e = tp_model_exporter_new(&c);
    tp_status st = e ? tp_export_compact(e, DIR "/digits.onnx", NULL) : TP_ERR;
    tp_session *s = e ? tp_model_exporter_session(e) : NULL;
    tp_graph *g = e ? tp_session_graph(s) : NULL;
    tp_node *image = e ? tp_graph_find(g, "image") : NULL, *prob = e ? tp_graph_find(g, "prob") : NULL;
    tp_export_c_desc d = {.name = "digits"};
    tp_export_c_info info = {0, 0, 0};
    tp_buf text;
    memset(&text, 0, sizeof text);
    if (st == TP_OK) st = tp_export_c(s, &image, 1, &prob, 1, DIR "/digits.c", &d);
    if (st == TP_OK) st = tp_export_c_text(s, &image, 1, &prob, 1, &text, &d, &info);
    tp_buf_free(&text);
    if (st == TP_OK)
        printf("digits.c: %zu bytes of constants, %zu bytes of RAM, %d kernels\n", info.flash, info.ram, info.kernels);

    tp_datapoint dp = {0, NULL, 0};
    const tp_tensor *want = NULL;
    tp_predictor *p = st == TP_OK ? tp_offline_predictor(&c) : NULL;
    if (st == TP_OK) st = p ? tp_df_next(test, &dp) : TP_ERR;
    if (st == TP_OK) st = tp_predict(p, &dp.c[0], &want);
    double got[10];
    if (st == TP_OK && !run_exported(&dp.c[0], got))
        st = tp_fail(TP_ERR, "the exported C did not compile or run: is there a cc?");
    *largest = 0;
    for (int i = 0; i < 10 && st == TP_OK; i++) {
        *largest = fmax(*largest, fabs(got[i] - tp_tensor_get(want, i)));
        printf("digit %d: %.6f here, %.6f from the exported C\n", i, tp_tensor_get(want, i), got[i]);
    }
    tp_datapoint_free(&dp);
    tp_predictor_free(p);
    tp_model_exporter_free(e);
    return st;
}

int main(int argc, char **argv)
{
    const char *data = NULL;
    int epochs = 2, steps = 0;
    const option list[] = {option_text("--data folder", &data), option_int("--epochs n", &epochs, 1),
                           option_int("--steps n", &steps, 0)};
    read_options(argc, argv, list, TP_COUNT(list));
    tp_dataflow *train = tp_df_batch(data ? tp_df_mnist("train", .dir = data) : tp_df_digits("train"), 64);
    tp_dataflow *test =
        tp_df_batch(data ? tp_df_mnist("test", .dir = data) : tp_df_digits("test"), 256, .remainder = true);
    tp_dataflow *one = tp_df_batch(data ? tp_df_mnist("test", .dir = data) : tp_df_digits("test"), 1);
    if (tp_df_status(train) != TP_OK || tp_df_status(test) != TP_OK || tp_logger_set_dir(DIR, 'd') != TP_OK)
        return fprintf(stderr, "%s\n", tp_last_error()), 1; /* without data the files of an earlier run stay */
    tp_status st = tp_launch_train_with_config(
        TP_OPTIONS(tp_train_config,
                   .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build_graph, .optimizer = optimizer},
                   .dataflow = train,
                   TP_CALLBACKS(tp_cb_model_saver(),
                                tp_cb_inference_runner(
                                    test, .inferencers = {tp_inf_classification_error(.wrong_tensor_name = "wrong")})),
                   .steps_per_epoch = steps ? steps : (int)tp_df_size(train), .max_epoch = epochs),
        tp_simple_trainer());
    double largest = 1;
    if (st == TP_OK) st = export_and_compare(one, &largest);
    if (st != TP_OK) fprintf(stderr, "%s\n", tp_last_error());
    else printf("largest difference %.1e; digits.onnx is for other programs\n", largest);
    tp_df_free(one);
    return st == TP_OK && largest < 1e-5 ? 0 : 1;
}
