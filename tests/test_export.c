/* The C export: what is written compiles alone as C99 without a warning, for this machine and, where there are a cross
 * compiler and an emulator, for 32-bit Arm, and computes what the session computes. */
#define TP_IMPLEMENTATION
#include "tp_export.h"
#include "tp_layers.h"
#include "tp_test.h"

#include "export_nets.h"

static bool run_command(const char *fmt, ...)
{
    char line[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    return system(line) == 0;
}

static bool write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!f) return false;
    const bool ok = fputs(text, f) >= 0;
    return fclose(f) == 0 && ok;
}

/* main() of the test: floats from in.bin, through model(), to out.bin */
static const char driver[] = "#include <stdio.h>\n"
                             "void model(const float *x, float *y);\n"
                             "static float in[N_IN], out[N_OUT];\n"
                             "int main(int argc, char **argv)\n"
                             "{\n"
                             "    FILE *f = argc > 2 ? fopen(argv[1], \"rb\") : NULL;\n"
                             "    if (!f || fread(in, sizeof(float), N_IN, f) != N_IN) return 1;\n"
                             "    fclose(f);\n"
                             "    model(in, out);\n"
                             "    model(in, out); /* twice: nothing of the first call may matter */\n"
                             "    f = fopen(argv[2], \"wb\");\n"
                             "    if (!f || fwrite(out, sizeof(float), N_OUT, f) != N_OUT) return 1;\n"
                             "    return fclose(f);\n"
                             "}\n";

/* Export y of x, compile, run, compare with the session. */
static void same_as_exported(const char *what, tp_session *s, tp_node *x, tp_node *y, int64_t batch)
{
    char folder[300], path[400];
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    snprintf(path, sizeof path, "%s/model.c", folder);
    tp_export_c_desc d;
    tp_export_c_info info;
    tp_buf text;
    memset(&d, 0, sizeof d);
    memset(&text, 0, sizeof text);
    d.batch = batch;
    if (!CHECK_OK(tp_export_c_text(s, &x, 1, &y, 1, &text, &d, &info))) return;
    CHECK(text.data && info.flash > 0 && info.ram > 0 && info.kernels > 0);
    tp_buf_free(&text);
    if (!CHECK_OK(tp_export_c(s, &x, 1, &y, 1, path, &d))) return;

    tp_tensor in;
    memset(&in, 0, sizeof in);
    tp_shape shape = x->shape;
    for (int k = 0; k < shape.ndim; k++)
        if (shape.dim[k] < 0) shape.dim[k] = batch;
    CHECK_OK(tp_tensor_resize(&in, TP_F32, shape));
    for (int64_t i = 0; i < tp_tensor_size(&in); i++)
        tp_tensor_set(&in, i, (double)tp_random_uniform(7, 0, (uint64_t)i) * 2 - 0.7);
    tp_feed feed;
    const tp_tensor *want = NULL;
    memset(&feed, 0, sizeof feed);
    feed.node = x;
    feed.value = in;
    if (!CHECK_OK(tp_session_run(s, &feed, 1, &y, 1, &want)) || !want) return;
    const int64_t n_in = tp_tensor_size(&in), n_out = tp_tensor_size(want);
    snprintf(path, sizeof path, "%s/in.bin", folder);
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(in.data, sizeof(float), (size_t)n_in, f) == (size_t)n_in);
    if (f) fclose(f);
    snprintf(path, sizeof path, "%s/main.c", folder);
    CHECK(write_text(path, driver));

    static const char *const compilers[] = {"gcc -std=c99", "clang -std=c99",
                                            "arm-linux-gnueabihf-gcc -std=c99 -static"};
    static const char *const runners[] = {"", "", "qemu-arm"};
    for (int k = 0; k < 3; k++) {
        char first[64];
        snprintf(first, sizeof first, "%.*s", (int)strcspn(compilers[k], " "), compilers[k]);
        if (!run_command("command -v %s >/dev/null", first) ||
            (*runners[k] && !run_command("command -v %s >/dev/null", runners[k]))) {
            printf("     %s: no %s here\n", what, first);
            continue;
        }
        if (!CHECK_MSG(run_command("cd %s && %s -O1 -Wall -Wextra -Wpedantic -Werror -ffp-contract=off -c model.c && "
                                   "%s -O1 -DN_IN=%lld -DN_OUT=%lld main.c model.o -o program -lm",
                                   folder, compilers[k], compilers[k], (long long)n_in, (long long)n_out),
                       "%s: %s does not compile it", what, compilers[k]))
            continue;
        CHECK(run_command("cd %s && rm -f out.bin && %s ./program in.bin out.bin", folder, runners[k]));
        float *got = (float *)malloc((size_t)n_out * sizeof *got);
        snprintf(path, sizeof path, "%s/out.bin", folder);
        f = fopen(path, "rb");
        double worst = 0, size = 0;
        if (CHECK(f && got && fread(got, sizeof *got, (size_t)n_out, f) == (size_t)n_out))
            for (int64_t i = 0; i < n_out; i++) {
                const double e = fabs((double)got[i] - tp_tensor_get(want, i));
                if (!(e <= worst)) worst = e;
                if (fabs((double)got[i]) > size) size = fabs((double)got[i]);
            }
        if (f) fclose(f);
        free(got);
        CHECK_MSG(worst <= 1e-5 * (size > 1 ? size : 1), "%s, %s: error %g of %g", what, compilers[k], worst, size);
        CHECK(size > 0);
    }
    printf("     %s: RAM %d KiB, constants %d KiB, %d kernels\n", what, (int)(info.ram / 1024),
           (int)(info.flash / 1024), info.kernels);
    tp_tensor_free(&in);
}

static void finish(const char *what, tp_graph *g, tp_node *x, tp_node *y, int64_t batch)
{
    tp_tower_leave(g);
    tp_session *s = NULL;
    if (CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g))) s = tp_session_new(g, NULL);
    if (CHECK(s != NULL)) same_as_exported(what, s, x, y, batch);
    tp_session_free(s);
    tp_graph_free(g);
}

/* Two models in one file and in one program, in C and in C++: their names do not meet. */
TEST(two_models_in_one_program)
{
    static const char *const name[2] = {"first", "second"};
    static const char *const build[] = {
        "gcc -std=c99 %s -o program both.c -lm", "g++ -std=c++11 %s -x c++ -o program both.c -lm",
        "gcc -std=c99 %s -c first.c second.c && g++ %s -c -x c++ main.c && g++ -o program first.o second.o main.o -lm",
        "g++ %s -c -x c++ first.c second.c && gcc -std=c99 %s -c main.c && g++ -o program first.o second.o main.o -lm"};
    static const char body[] = "#include <stdio.h>\n"
                               "int main(void)\n"
                               "{\n"
                               "    float x[first_n_x], y[first_n_first_ram_ + second_n_y];\n"
                               "    int i;\n"
                               "    for (i = 0; i < first_n_x; i++) x[i] = (float)i / 8 - 2;\n"
                               "    first(x, y);\n"
                               "    second(x, y + first_n_first_ram_);\n"
                               "    for (i = 0; i < first_n_first_ram_ + second_n_y; i++) printf(\"%.9g\\n\", y[i]);\n"
                               "    return 0;\n"
                               "}\n";
    const int axis = 1;
    char folder[300], path[400], text[2000], line[1000];
    double want[64];
    int n = 0;
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    for (int i = 0; i < 2; i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 4, 4, 2)), *y = NULL;
        tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(32, 5), tp_init_normal(0, 1));
        tp_node *flat = tp_matmul(tp_batch_flatten(x), w);
        if (i == 0)
            y = tp_named(tp_softmax(tp_relu(flat)), "first_ram"); /* a name that the file has for something else */
        else y = tp_named(tp_concat((tp_node *[]){flat, tp_reduce_sum(flat, &axis, 1, true)}, 2, 1), "y");
        tp_session *s =
            CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g)) ? tp_session_new(g, NULL) : NULL;
        float in[32];
        tp_feed f;
        const tp_tensor *out = NULL;
        tp_export_c_desc d;
        memset(&f, 0, sizeof f);
        memset(&d, 0, sizeof d);
        for (int k = 0; k < 32; k++) in[k] = (float)k / 8 - 2;
        f.node = x;
        tp_tensor_view(&f.value, TP_F32, tp_make_shape(1, 4, 4, 2), in);
        d.name = name[i];
        snprintf(path, sizeof path, "%s/%s.c", folder, name[i]);
        if (s && CHECK_OK(tp_session_run(s, &f, 1, &y, 1, &out)))
            for (int64_t k = 0; k < tp_tensor_size(out); k++) want[n++] = tp_tensor_get(out, k);
        if (s) CHECK_OK(tp_export_c(s, &x, 1, &y, 1, path, &d));
        tp_session_free(s);
        tp_graph_free(g);
    }
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, i ? "main.c" : "both.c");
        snprintf(text, sizeof text,
                 i ? "#include \"first.h\"\n#include \"second.h\"\n#include \"first.h\"\n%s"
                   : "#include \"first.c\"\n#include \"second.c\"\n#include \"first.h\"\n#include \"second.h\"\n%s",
                 body);
        CHECK(write_text(path, text));
    }
    for (int i = 0; i < TP_COUNT(build) && n == 11; i++) {
        const char *const warn = "-O1 -Wall -Wextra -Wpedantic -Werror";
        snprintf(line, sizeof line, build[i], warn, warn);
        if (strstr(line, "g++") && !run_command("command -v g++ >/dev/null")) continue;
        if (!CHECK_MSG(run_command("cd %s && rm -f program out && %s && ./program >out", folder, line), "%s", line))
            continue;
        snprintf(path, sizeof path, "%s/out", folder);
        FILE *out = fopen(path, "r");
        char word[64];
        for (int k = 0; k < n && CHECK(out && fscanf(out, "%63s", word) == 1); k++) {
            const double v = tp_parse_double(word, NULL);
            CHECK_MSG(fabs(v - want[k]) <= 1e-5 * (1 + fabs(want[k])), "%s: number %d is %g, not %g", line, k, v,
                      want[k]);
        }
        if (out) fclose(out);
    }
    CHECK(n == 11);
}

/* Values of no elements: nothing is divided by their size, neither here nor in what is written. */
TEST(values_without_elements)
{
    for (int i = 0; i < 6; i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2, 0)), *y = NULL;
        const int axis = 1;
        char folder[300], path[400];
        switch (i) {
        case 0: y = tp_softmax(x); break;
        case 1: y = tp_log_softmax(tp_transpose(x, NULL, 0)); break;
        case 2: y = tp_reduce_sum(x, &axis, 1, false); break;
        case 3: y = tp_matmul(x, tp_get_variable_as(g, "w", TP_F32, tp_make_shape(0, 3), tp_init_ones())); break;
        case 4: y = tp_concat((tp_node *[]){x, tp_placeholder(g, "z", TP_F32, tp_make_shape(2, 3))}, 2, 1); break;
        default: y = tp_relu(tp_add(x, tp_const(g, 1.0f))); break;
        }
        tp_session *s =
            CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g)) ? tp_session_new(g, NULL) : NULL;
        tp_node *in[2] = {x, tp_graph_find(g, "z")};
        snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
        snprintf(path, sizeof path, "%s/model.c", folder);
        if (s && CHECK_OK(tp_export_c(s, in, i == 4 ? 2 : 1, &y, 1, path, NULL)))
            CHECK(run_command("cd %s && gcc -std=c99 -O1 -Wall -Wextra -Wpedantic -Werror -c model.c", folder));
        tp_session_free(s);
        tp_graph_free(g);
    }
}

TEST(the_mnist_convnet)
{
    tp_graph *g = inference_tower();
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 28, 28, 1)), *y = NULL;
    TP_ARGSCOPE(g, conv2d, .filters = 32, .kernel_size = 3, .activation = tp_relu)
    {
        y = tp_linear(tp_affine(x, 2, -1), TP_CONV2D("conv0"), TP_MAX_POOLING("pool0", .pool_size = 2),
                      TP_CONV2D("conv1"), TP_CONV2D("conv2"), TP_MAX_POOLING("pool1", .pool_size = 2),
                      TP_CONV2D("conv3"), TP_FULLY_CONNECTED("fc0", .units = 64, .activation = tp_relu),
                      TP_DROPOUT("dropout", .rate = 0.5f), TP_FULLY_CONNECTED("fc1", .units = 10));
    }
    finish("MNIST convnet", g, x, tp_named(tp_softmax(y), "prob"), 1);
}

TEST(a_residual_block)
{
    tp_graph *g = inference_tower();
    tp_node *x, *y = residual_block(g, &x);
    finish("residual block", g, x, y, 2);
}

/* What the two networks do not have: grouped and dilated convolutions, channels first, transposes, joins, broadcasts of
 * every kind, and each element-wise function. */
TEST(every_other_form)
{
    tp_graph *g = inference_tower();
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 4, 6, 5));
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    a.groups = 2, a.dilation_h = 2, a.data_format = TP_NCHW, a.padding = TP_SAME;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(3, 2, 2, 6), tp_init_normal(0, 0.5f));
    tp_node *y = tp_nn_conv2d(x, w, &a); /* (B,6,6,5) */
    const int perm[4] = {0, 2, 3, 1};
    y = tp_transpose(y, perm, 4); /* (B,6,5,6) */
    tp_node *parts[2] = {y, tp_neg(y)};
    y = tp_concat(parts, 2, 3); /* (B,6,5,12) */
    tp_node *row = tp_get_variable_as(g, "row", TP_F32, tp_make_shape(12), tp_init_normal(0, 1));
    tp_node *column = tp_get_variable_as(g, "column", TP_F32, tp_make_shape(6, 1, 1), tp_init_normal(0, 1));
    tp_node *cross = tp_get_variable_as(g, "cross", TP_F32, tp_make_shape(1, 5, 1), tp_init_normal(0, 1));
    y = tp_add(tp_mul(tp_sub(y, row), column), cross);
    y = tp_add(tp_tanh(y), tp_sigmoid(tp_abs(y)));
    y = tp_add(tp_sqrt(tp_affine(tp_square(y), 1, 0.1f)), tp_exp(tp_minimum(y, tp_const(g, 0.5f))));
    y = tp_maximum(tp_ln(tp_affine(tp_abs(y), 1, 1)), tp_div(tp_sin(y), tp_affine(tp_cos(y), 0.5f, 2)));
    y = tp_add(y, tp_affine(tp_add(tp_floor(y), tp_add(tp_ceil(y), tp_round(y))), 0.01f, 0));
    y = tp_add(tp_softplus(y), tp_add(tp_leaky_relu(tp_affine(y, 1, -2), 0.1f), tp_elu(tp_affine(y, 1, -1.5f))));
    const int last = -1, middle = 1;
    tp_node *most = tp_reduce_max(y, &last, 1, true), *sum = tp_reduce_sum(y, &middle, 1, true);
    y = tp_log_softmax(tp_sub(tp_sub(y, most), tp_affine(sum, 0.1f, 0)));
    finish("other forms", g, x, y, 3);
}

TEST(what_cannot_be_written_is_said)
{
    tp_graph *g = tp_graph_new(NULL);
    const int64_t dims[2] = {TP_ANY, 3};
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(2, dims));
    tp_node *i = tp_placeholder(g, "i", TP_I32, tp_make_shape(TP_ANY));
    tp_node *sampled = tp_named(tp_rand_uniform_like(x, 0, 1), "sampled"), *y = tp_named(tp_relu(x), "y");
    tp_node *hot = tp_named(tp_one_hot(i, 3, 1, 0), "hot"),
            *bigger = tp_named(tp_cast(tp_greater(x, y), TP_F32), "bigger");
    tp_session *s = tp_session_new(g, NULL);
    char path[400];
    snprintf(path, sizeof path, "%s/no.c", tp_test_tmpdir());
    tp_export_c_desc d;
    memset(&d, 0, sizeof d);
    if (CHECK_MSG(s != NULL, "%s", tp_last_error())) {
        CHECK(tp_export_c(s, &x, 1, &sampled, 1, path, NULL) < 0);
        CHECK_HAS(tp_last_error(), "which has no C form");
        CHECK(tp_export_c(s, &i, 1, &hot, 1, path, NULL) < 0);
        CHECK_HAS(tp_last_error(), "input 'i' is int32, only float32 is exported");
        CHECK(tp_export_c(s, &x, 1, &bigger, 1, path, NULL) < 0);
        CHECK_HAS(tp_last_error(), "C export: '");
        CHECK(tp_export_c(s, NULL, 0, &y, 1, path, NULL) < 0);
        CHECK_HAS(tp_last_error(), "must be fed");
        CHECK(tp_export_c(s, &x, 1, &y, 0, path, NULL) < 0);
        CHECK_HAS(tp_last_error(), "there are no outputs");
        d.name = "2model";
        CHECK(tp_export_c(s, &x, 1, &y, 1, path, &d) < 0);
        CHECK_HAS(tp_last_error(), "'2model' cannot be a function's name");
        CHECK(!tp_file_exists(path));
        d.name = "mine";
        CHECK(tp_export_c(s, &x, 1, &y, 1, "/nowhere/at/all.c", &d) < 0);
        CHECK_HAS(tp_last_error(), "/nowhere/at/all.c");
        /* one node as input and output, two outputs of one name */
        tp_node *out[2];
        out[0] = y, out[1] = y;
        tp_buf text;
        memset(&text, 0, sizeof text);
        CHECK_OK(tp_export_c_text(s, &x, 1, out, 2, &text, &d, NULL));
        CHECK_HAS(text.data, "void mine(const float *x, float *y, float *y_2)");
        tp_buf_free(&text);
        /* names that C or the file has already */
        out[0] = tp_named(y, "pool"), out[1] = tp_named(y, "float");
        memset(&text, 0, sizeof text);
        CHECK_OK(tp_export_c_text(s, &x, 1, out, 2, &text, &d, NULL));
        CHECK_HAS(text.data, "void mine(const float *x, float *pool, float *float_)");
        tp_buf_free(&text);
    }
    tp_session_free(s);
    tp_graph_free(g);
    CHECK(tp_test_live_blocks() == 0);
}

TEST(memory_may_run_out_anywhere)
{
    int failures = 0;
    for (long n = 1, failed = 1; failed && n < 5000; n++) {
        tp_test_fail_after(n);
        tp_graph *g = tp_graph_new(NULL);
        tp_session *s = NULL;
        tp_status st = TP_ERR_NOMEM;
        tp_buf text;
        memset(&text, 0, sizeof text);
        if (g) {
            tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 3));
            tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(3, 2), tp_init_ones());
            tp_node *y = tp_softmax(tp_relu(tp_matmul(x, w)));
            s = tp_session_new(g, NULL);
            if (s) st = tp_export_c_text(s, &x, 1, &y, 1, &text, NULL, NULL);
        }
        failed = tp_test_alloc_failed();
        CHECK(failed ? st == TP_ERR_NOMEM : st == TP_OK);
        failures += failed != 0;
        tp_buf_free(&text);
        tp_session_free(s);
        tp_graph_free(g);
        CHECK(tp_test_live_blocks() == 0);
    }
    tp_test_alloc_reset();
    CHECK(failures > 10);
}

TEST_MAIN()
