/* The C export: what is written compiles alone as C99 without a warning, for this machine and, where there are a cross
 * compiler and an emulator, for 32-bit Arm, and computes what the session computes. */
#define TP_IMPLEMENTATION
#include "tp_export.h"
#include "tp_layers.h"
#include "tp_test.h"

#include "export_nets.h"
#include "op_cases.h"

#include "op_build.h"

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
            char why[100];
            snprintf(why, sizeof why, "%s%s%s is missing", first, *runners[k] ? " or " : "", runners[k]);
            tp_test_left_out(why);
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
                worst = tp_test_worse(worst, e);
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
        if (strstr(line, "g++") && !run_command("command -v g++ >/dev/null")) {
            tp_test_left_out("g++ is missing");
            continue;
        }
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

/* As a network that segments images ends: transposed convolutions, the second without padding. */
TEST(transposed_convolutions)
{
    tp_graph *g = inference_tower();
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 4, 5, 3));
    tp_node *y = tp_conv2d_transpose(x, "up0", .filters = 4, .kernel_size = 3, .strides = 2, .activation = tp_relu);
    y = tp_conv2d_transpose(y, "up1", .filters = 2, .kernel_size = 4, .kernel_size_w = 2, .strides = 3,
                            .padding = TP_VALID);
    finish("transposed", g, x, y, 2);
}

/* Products with a bias and a clip, which a session fuses: the written program must clip, too. */
TEST(clipped_products)
{
    tp_graph *g = inference_tower();
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 4, 5, 3));
    tp_node *y = tp_conv2d(tp_affine(x, 20, 3), "conv", .filters = 6, .kernel_size = 3, .activation = tp_relu6);
    y = tp_conv2d_transpose(tp_affine(y, 5, 1), "up", .filters = 4, .kernel_size = 3, .strides = 2,
                            .activation = tp_relu6);
    y = tp_fully_connected(y, "fc", .units = 8);
    finish("clipped", g, x, tp_clip(tp_affine(y, 1, 0), 0, 0.5f), 2);
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

/* Parts of values, one of them unread, and other orders of their elements. */
TEST(parts_and_orders)
{
    tp_graph *g = inference_tower();
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 4, 6)), *part[3], *row[4];
    const int axes[2] = {0, -1};
    const int64_t begin[3] = {0, 1, 0}, size[3] = {-1, 2, -1};
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(6), tp_init_normal(0, 1));
    tp_split(tp_mul(tp_tanh(x), w), 3, 2, part); /* (B,4,2), of which the second is not read */
    tp_node *y = tp_stack((tp_node *[]){part[0], tp_neg(part[2]), tp_reverse(part[0], axes, 2)}, 3, 1); /* (B,3,4,2) */
    y = tp_cumsum(tp_cumsum(y, 2, false, true), -1, true, false);
    tp_unstack(y, 2, 4, row); /* (B,3,2) */
    y = tp_add_n((tp_node *[]){row[0], row[3], tp_relu(row[1]), row[3]}, 4);
    y = tp_slice(tp_transpose(y, (const int[]){0, 2, 1}, 3), begin, (const int64_t[]){-1, 1, -1});
    y = tp_add_n((tp_node *[]){tp_broadcast_like(tp_reduce_sum(y, NULL, 0, false), part[0]), part[0], part[2]}, 3);
    finish("parts", g, x, tp_concat((tp_node *[]){y, tp_slice(part[2], begin, size)}, 2, 1), 3);
}

/* -- every row that has a C form, in every case of its reference: all in one program */

typedef struct program {
    tp_buf text, calls; /* the models; what main() does with them */
    tp_dict want;       /* what each gives, in order */
    tp_buf in;          /* floats */
    int64_t n_out;
    int n_model, n_row, n_refused;
} program;

/* One model more: what the session computes, and the text of it. False: it has no C form. */
static bool add_model(program *p, const char *what, tp_session *s, const tp_feed *feed, int n_in, tp_node *const *out,
                      int n_out)
{
    tp_node *in[MAX_VALUES];
    const tp_tensor *value[MAX_VALUES];
    tp_export_c_desc d;
    tp_buf text;
    char name[32];
    memset(&d, 0, sizeof d);
    memset(&text, 0, sizeof text);
    snprintf(name, sizeof name, "m%d", p->n_model);
    d.name = name;
    for (int i = 0; i < n_in; i++) in[i] = feed[i].node;
    const tp_status st = tp_export_c_text(s, in, n_in, out, n_out, &text, &d, NULL);
    if (st != TP_OK) {
        CHECK_MSG(st == TP_ERR_UNSUPPORTED && (strstr(tp_last_error(), "which has no C form") ||
                                               strstr(tp_last_error(), "only float32 is exported")),
                  "%s: %s", what, tp_last_error());
        tp_buf_free(&text);
        p->n_refused++;
        return false;
    }
    if (CHECK_MSG(tp_session_run(s, feed, n_in, out, n_out, value) == TP_OK, "%s: %s", what, tp_last_error())) {
        p->n_model++;
        tp_buf_put(&p->text, text.data, text.len);
        tp_buf_printf(&p->calls, "    %s(", name);
        for (int i = 0; i < n_in; i++) {
            tp_buf_printf(&p->calls, "%sin + %lld", i ? ", " : "", (long long)(p->in.len / sizeof(float)));
            tp_buf_put(&p->in, feed[i].value.data, tp_tensor_bytes(&feed[i].value));
        }
        for (int i = 0; i < n_out; i++) {
            tp_buf_printf(&p->calls, "%sout + %lld", n_in + i ? ", " : "", (long long)p->n_out);
            p->n_out += tp_tensor_size(value[i]);
            char key[300];
            snprintf(key, sizeof key, "%d %d %s", p->n_model, i, what);
            tp_tensor *t = tp_dict_add(&p->want, key);
            CHECK(t && tp_tensor_copy(t, value[i]) == TP_OK);
        }
        tp_buf_printf(&p->calls, ");\n");
    }
    tp_buf_free(&text);
    return true;
}

/* All models compiled and run; their outputs against the session's. */
static void run_program(program *p)
{
    char folder[300], path[400];
    tp_buf text;
    memset(&text, 0, sizeof text);
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    tp_buf_printf(&text, "#include <stdio.h>\n");
    tp_buf_put(&text, p->text.data, p->text.len);
    tp_buf_printf(&text,
                  "static float in[%lld], out[%lld];\nint main(void)\n{\n    FILE *f = fopen(\"in.bin\", \"rb\");\n",
                  (long long)(p->in.len / sizeof(float) + 1), (long long)p->n_out + 1);
    tp_buf_printf(&text, "    if (!f || fread(in, sizeof in - sizeof *in, 1, f) != 1) return 1;\n    fclose(f);\n");
    tp_buf_put(&text, p->calls.data, p->calls.len);
    tp_buf_printf(&text, "    f = fopen(\"out.bin\", \"wb\");\n");
    tp_buf_printf(&text, "    if (!f || fwrite(out, sizeof out, 1, f) != 1) return 1;\n    return fclose(f);\n}\n");
    snprintf(path, sizeof path, "%s/all.c", folder);
    CHECK(!text.failed && tp_test_write(path, text.data, text.len));
    snprintf(path, sizeof path, "%s/in.bin", folder);
    CHECK(tp_test_write(path, p->in.data, p->in.len));
    tp_buf_free(&text);
    char *out = NULL;
    size_t size = 0;
    if (CHECK(run_command("cd %s && gcc -std=c99 -O0 -Wall -Wextra -Wpedantic -Werror all.c -o all -lm && ./all",
                          folder))) {
        snprintf(path, sizeof path, "%s/out.bin", folder);
        CHECK_OK(tp_file_read(path, false, 0, &out, &size));
    }
    if (!CHECK(size == ((size_t)p->n_out + 1) * sizeof(float))) p->want.n = 0;
    size_t at = 0;
    for (int i = 0; i < p->want.n; i++) {
        const tp_tensor *w = &p->want.item[i].value;
        double scale = 0;
        for (int64_t k = 0; k < tp_tensor_size(w); k++) {
            const double v = fabs(tp_tensor_get(w, k));
            if (isfinite(v) && v > scale) scale = v;
        }
        for (int64_t k = 0; k < tp_tensor_size(w); k++, at++) {
            float got;
            const double v = tp_tensor_get(w, k);
            memcpy(&got, out + at * sizeof got, sizeof got);
            if ((double)got == v || (isnan(got) && isnan(v))) continue;
            if (!CHECK_MSG(!isinf(v) && fabs((double)got - v) <= 1e-5 * (fabs(v) + 0.1 * scale),
                           "%s: element %lld is %.9g, not %.9g", p->want.item[i].name, (long long)k, (double)got, v)) {
                at += (size_t)(tp_tensor_size(w) - k);
                break;
            }
        }
    }
    tp_free(out);
}

static void program_free(program *p)
{
    tp_buf_free(&p->text), tp_buf_free(&p->calls), tp_buf_free(&p->in);
    tp_dict_free(&p->want);
}

/* Exports a model for each of n outputs, runs them all on v and compares. part: what their text must contain; NULL: anything. Frees g. */
static void check_outputs(const char *name, tp_graph *g, tp_node *x, const float *v, tp_node *const *out, int n,
                          const char *part)
{
    program p;
    tp_session *s = tp_session_new(g, NULL);
    tp_feed feed;
    memset(&p, 0, sizeof p);
    memset(&feed, 0, sizeof feed);
    feed.node = x;
    tp_tensor_view(&feed.value, TP_F32, x->shape, v);
    if (CHECK_MSG(s != NULL, "%s", tp_last_error()))
        for (int i = 0; i < n; i++)
            CHECK_MSG(add_model(&p, name, s, &feed, 1, &out[i], 1), "%d: %s", i, tp_last_error());
    CHECK(!part || (p.text.data && strstr(p.text.data, part)));
    run_program(&p);
    program_free(&p);
    tp_session_free(s);
    tp_graph_free(g);
}

/* Comparisons: NaN is passed on wherever it stands, as by the session. */
TEST(nan_wins)
{
    const float nan = (float)NAN, v[12] = {1, nan, -3, 2, nan, 7, 0, -1, 3, (float)INFINITY, -8, nan};
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(1, 3, 4, 1)), *half = tp_const(g, 0.5f);
    const int rows = 1, columns = 2;
    tp_pool_attrs a;
    memset(&a, 0, sizeof a);
    a.size_h = a.size_w = 2, a.stride_h = a.stride_w = 1, a.padding = TP_SAME;
    tp_node *out[] = {tp_maximum(x, half),
                      tp_maximum(half, x),
                      tp_minimum(x, half),
                      tp_minimum(half, x),
                      tp_reduce_max(x, &rows, 1, false),
                      tp_reduce_max(x, &columns, 1, false),
                      tp_reduce_max(x, NULL, 0, false),
                      tp_nn_max_pool(x, &a),
                      tp_relu(tp_maximum(x, half)),
                      tp_clip(x, -1, 1),
                      tp_reduce_min(x, &rows, 1, false),
                      tp_reduce_min(x, &columns, 1, false),
                      tp_reduce_min(x, NULL, 0, false),
                      tp_select(tp_not_equal(x, x), half, x),
                      tp_cast(tp_is_finite(x), TP_F32)};
    check_outputs("not a number", g, x, v, out, TP_COUNT(out), NULL);
}

/* What is computed by comparisons: each of them, in one chain and, where a bool is read by several, through memory. */
TEST(comparisons_choose)
{
    const float v[12] = {1, -3, 2, 0.5f, 7, 0, -1, 3, 0.5f, (float)INFINITY, -8, -0.0f};
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(3, 4)), *half = tp_const(g, 0.5f),
            *three = tp_const(g, 3);
    const int rows = 0;
    tp_node *row = tp_reduce_min(x, &rows, 1, true), *is_more = tp_greater(x, half), *is_row = tp_equal(x, row);
    tp_node *both = tp_logical_and(is_more, tp_less(x, three)), *any = tp_logical_or(is_row, tp_logical_not(both));
    tp_node *sums = tp_reduce_sum(tp_select(any, x, half), &rows, 1, true);
    tp_node *out[] = {tp_cast(is_more, TP_F32),
                      tp_cast(tp_greater_equal(x, half), TP_F32),
                      tp_cast(tp_less(x, half), TP_F32),
                      tp_cast(tp_less_equal(x, half), TP_F32),
                      tp_cast(tp_equal(x, half), TP_F32),
                      tp_cast(tp_not_equal(x, half), TP_F32),
                      tp_cast(tp_cast(x, TP_BOOL), TP_F32),
                      tp_cast(tp_select(both, is_row, tp_is_finite(x)), TP_F32),
                      tp_add(tp_select(any, sums, x), tp_cast(any, TP_F32)), /* two steps read `any` */
                      tp_mod(x, three),
                      tp_mod(x, tp_neg(three)),
                      tp_floordiv(x, three),
                      tp_floordiv(tp_neg(x), half)};
    check_outputs("comparison", g, x, v, out, TP_COUNT(out), "((unsigned char *)");
}

/* What the compiler or the session folds into y: nothing, a ReLU, a bias, both. */
static tp_node *with_epilogue(tp_graph *g, tp_node *y, const op_case *c, int way)
{
    const bool conv = strcmp(c->op, "conv2d") == 0, product = conv || strcmp(c->op, "matmul") == 0;
    bool nchw = false;
    for (int i = 0; i < c->n_attr && conv; i++) nchw = nchw || strcmp(c->attr[i], "data_format 1") == 0;
    if (product && (way & 2) && y->shape.ndim > 1) {
        const int64_t channels = y->shape.dim[nchw ? 1 : y->shape.ndim - 1];
        float bias[64];
        for (int i = 0; i < 64; i++) bias[i] = (float)i * 0.25f - 1;
        if (channels <= 64)
            y = tp_nn_bias_add(
                y, tp_get_variable_as(g, "bias", TP_F32, tp_make_shape(channels), tp_init_values(bias, channels)),
                nchw ? TP_NCHW : TP_NHWC);
    }
    const bool norm = strcmp(c->op, "batch_norm_infer") == 0 || strcmp(c->op, "group_norm") == 0;
    return (way & 1) && (product || norm) ? tp_relu(y) : y;
}

/* Values that lie in the memory of another one: of an input, which is not the first in memory. */
static void add_reshaped(program *p)
{
    for (int n = 1; n < 5; n++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2, 3)), *r = x, *out[2];
        tp_node *column = tp_get_variable_as(g, "column", TP_F32, tp_make_shape(32, 1, 1), tp_init_normal(0, 1));
        const int axis = 0;
        const int64_t shapes[4][3] = {{6, 1, 1}, {3, 2, 1}, {1, 3, 2}, {1, 2, 3}};
        for (int i = 0; i < n; i++) r = tp_reshape_to(r, tp_make_shape_n(3, shapes[i]));
        tp_node *big = tp_add(tp_reshape_to(x, tp_make_shape(1, 2, 3)), column);
        out[0] = tp_reduce_sum(tp_reduce_max(big, &axis, 1, false), NULL, 0, false);
        out[1] = tp_transpose(r, (const int[]){2, 1, 0}, 3);
        tp_session *s = tp_session_new(g, NULL);
        tp_feed feed;
        const float v[6] = {1, 2, 3, 4, 5, 6};
        memset(&feed, 0, sizeof feed);
        feed.node = x;
        tp_tensor_view(&feed.value, TP_F32, x->shape, v);
        if (CHECK_MSG(s != NULL, "%s", tp_last_error())) CHECK(add_model(p, "reshaped", s, &feed, 1, out, 2));
        tp_session_free(s);
        tp_graph_free(g);
    }
}

TEST(every_case_of_every_row)
{
    static const char *const written[] = {
        "conv2d",    "matmul",      "max_pool",         "avg_pool",   "softmax",        "pad",        "bias_add",
        "concat",    "log_softmax", "batch_norm_infer", "copy",       "reduce_sum",     "reduce_max", "reduce_mean",
        "transpose", "reduce_min",  "layer_norm",       "group_norm", "add_n",          "stack",      "unstack",
        "split",     "reverse",     "cumsum",           "slice",      "broadcast_like", "fill_like"};
    program p;
    const tp_op *row;
    case_list l = all_cases();
    memset(&p, 0, sizeof p);
    for (int r = 0; (row = tp_op_registry(r)) != NULL; r++) {
        int taken = 0, refused = 0, most_taken = 2; /* of a row that is part of a loop over elements */
        for (int i = 0; i < TP_COUNT(written); i++)
            if (strcmp(written[i], row->name) == 0) most_taken = 16;
        for (int k = 0; k < l.n; k++) {
            const op_case *c = &l.item[k];
            built b;
            char what[200];
            bool fits =
                strcmp(c->op, row->name) == 0 && c->n_in > 0 && c->n_var == 0 && taken < most_taken && refused < 3;
            int64_t most = 0;
            for (int i = 0; i < c->n_in && fits; i++) {
                fits = c->in[i].dtype == TP_F32;
                most += tp_tensor_size(&c->in[i]);
            }
            if (!fits || most > 3000) continue;
            if (build(c, row, false, false, &b) && b.op) {
                tp_node *y[MAX_VALUES];
                /* these have more outputs than one: mean and inv, or parts */
                static const char *const many[] = {"layer_norm", "group_norm", "split", "unstack"};
                int n = 1;
                for (int i = 0; i < TP_COUNT(many); i++)
                    if (strcmp(c->op, many[i]) == 0 && CHECK(b.op->n_out <= MAX_VALUES)) n = b.op->n_out;
                for (int i = 1; i < n; i++) y[i] = &b.op->out[i];
                y[0] = with_epilogue(b.g, &b.op->out[0], c, taken);
                tp_session *s = tp_session_new(b.g, NULL);
                snprintf(what, sizeof what, "%s:%d: %s", c->file, c->line, c->op);
                const bool first = taken == 0;
                if (CHECK(s != NULL)) {
                    const bool added = add_model(&p, what, s, b.feed, b.n_feed, y, n);
                    taken += added, refused += !added;
                }
                p.n_row += first && taken;
                tp_session_free(s);
            }
            built_free(&b);
        }
    }
    free_cases(&l);
    add_reshaped(&p);
    run_program(&p);
    printf("     %d models of %d rows, %d refused\n", p.n_model, p.n_row, p.n_refused);
    CHECK(p.n_model > 100 && p.n_row > 50);
    program_free(&p);
}

/* What the comment, the header and the description say of a model, against what is known of it. */
TEST(the_text_of_a_file)
{
    static const char *const node_name[] = {"x", "2nd/in", "while", "x_ram", "net", "net_a", "a.b", "a-b", "a_b", ""};
    static const char *const c_name[] = {"x",      "_2nd_in", "while_", "x_ram", "net_",
                                         "net_a_", "a_b",     "a_b_2",  "a_b_3", ""};
    tp_graph *g = tp_graph_new(NULL);
    tp_node *in[10], *sum = NULL;
    char want[600], folder[300], path[400], *data = NULL;
    size_t size = 0, at = 0;
    int n = 0;
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    for (; *node_name[n]; n++) {
        in[n] = tp_placeholder(g, node_name[n], TP_F32, n ? tp_make_shape(TP_ANY, 3) : tp_make_shape(2, 3));
        sum = sum ? tp_add(sum, in[n]) : in[n];
    }
    const float c[3] = {0.5f, -2, 1e30f};
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(3), tp_init_values(c, 3));
    tp_node *y = tp_named(tp_matmul(tp_mul(sum, w), tp_reshape_to(w, tp_make_shape(3, 1))), "y");
    tp_session *s = tp_session_new(g, NULL);
    tp_export_c_desc d;
    tp_export_c_info info;
    tp_buf text;
    memset(&d, 0, sizeof d);
    memset(&text, 0, sizeof text);
    d.name = "net", d.batch = 2;
    if (CHECK_MSG(s != NULL, "%s", tp_last_error()) && CHECK_OK(tp_export_c_text(s, in, n, &y, 1, &text, &d, &info))) {
        at = (size_t)snprintf(want, sizeof want, "void net(");
        for (int i = 0; i < n; i++) at += (size_t)snprintf(want + at, sizeof want - at, "const float *%s, ", c_name[i]);
        at += (size_t)snprintf(want + at, sizeof want - at, "float *y)");
        CHECK_HAS(text.data, want);
        for (int i = 0; i < n; i++) {
            snprintf(want, sizeof want, " * input  %s: float(2,3)\n", c_name[i]);
            CHECK_HAS(text.data, want);
            snprintf(want, sizeof want, ", %s, 6 * sizeof(float));\n", c_name[i]);
            CHECK_HAS(text.data, want);
        }
        CHECK_HAS(text.data, " * output y: float(2,1)\n");
        snprintf(want, sizeof want, " * RAM %d bytes, constants %d bytes, %d kernels */\n", (int)info.ram,
                 (int)info.flash, info.kernels);
        CHECK_HAS(text.data, want);
        snprintf(want, sizeof want, "static float net_ram[%d];", (int)(info.ram / 4));
        CHECK_HAS(text.data, want);
        CHECK(info.flash == 12 && info.kernels == 2 && info.ram >= (size_t)(9 * 6 + 6 + 2) * 4 && info.ram % 4 == 0);
        CHECK_HAS(text.data, "/* w */\nstatic const float net_c0[3] = {\n    0.5f, -2.0f, 1e+30f};\n");
        CHECK_HAS(text.data, "net_matmul(");
        CHECK(!strstr(text.data, "net_conv2d") && !strstr(text.data, "net_reduce") && !strstr(text.data, "net_c1"));
        snprintf(path, sizeof path, "%s/net.c", folder);
        CHECK_OK(tp_export_c(s, in, n, &y, 1, path, &d));
        if (CHECK_OK(tp_file_read(path, false, 0, &data, &size)))
            CHECK(size == text.len && memcmp(data, text.data, size) == 0);
        tp_free(data), data = NULL;
        snprintf(path, sizeof path, "%s/net.h", folder);
        if (CHECK_OK(tp_file_read(path, false, 0, &data, &size))) {
            tp_buf header;
            memset(&header, 0, sizeof header);
            tp_buf_put(&header, data, size);
            tp_buf_put(&header, "", 1);
            CHECK_HAS(header.data,
                      "#ifndef net_INCLUDED\n#define net_INCLUDED\n\nenum {\n    net_n_x = 6,\n    net_n__2nd_in = 6,");
            CHECK_HAS(header.data, ",\n    net_n_y = 2\n};\n");
            CHECK_HAS(header.data, " * input  a_b_3: float(2,3)\n * output y: float(2,1)\n");
            CHECK_HAS(header.data, "\nextern \"C\" {\n#endif\nvoid net(const float *x, ");
            tp_buf_free(&header);
        }
        tp_free(data);
        /* no header beside a header, nor beside a file without an ending; a point in a folder is none */
        snprintf(path, sizeof path, "%s/a.b", folder);
        CHECK_OK(tp_make_dirs(path));
        snprintf(path, sizeof path, "%s/a.b/model", folder);
        CHECK_OK(tp_export_c(s, in, n, &y, 1, path, &d));
        snprintf(path, sizeof path, "%s/a.h", folder);
        CHECK(!tp_file_exists(path));
        CHECK_OK(tp_export_c(s, in, n, &y, 1, path, &d));
        CHECK(tp_file_exists(path));
    }
    tp_buf_free(&text);
    tp_session_free(s);
    tp_graph_free(g);
}

/* A model that reads its variable several times, as it is or after another node, in any order, has one array for it. */
TEST(a_variable_is_one_array)
{
    for (int order = 0; order < 8; order++) { /* bit k: product k reads the variable after another node */
        const float c[4] = {1, 2, 3, 4};
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2, 2)), *y = x;
        tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(2, 2), tp_init_values(c, 4));
        for (int k = 0; k < 3; k++) y = tp_matmul(y, order >> k & 1 ? tp_read_after(w, y) : w);
        tp_session *s = tp_session_new(g, NULL);
        tp_export_c_desc d;
        tp_export_c_info info;
        tp_buf text;
        int arrays = 0, reads = 0;
        memset(&d, 0, sizeof d);
        memset(&text, 0, sizeof text);
        d.name = "net";
        if (CHECK_MSG(s != NULL, "%s", tp_last_error()) &&
            CHECK_OK(tp_export_c_text(s, &x, 1, &y, 1, &text, &d, &info))) {
            for (const char *p = text.data; (p = strstr(p, "static const float ")) != NULL; p++) arrays++;
            for (const char *p = text.data; (p = strstr(p, "net_c0")) != NULL; p++) reads++;
            CHECK_MSG(arrays == 1 && reads == 4 && info.flash == 16, "order %d: %d arrays, %d reads, %d bytes", order,
                      arrays, reads, (int)info.flash);
        }
        tp_buf_free(&text);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* Inputs that no output depends on, beside outputs that are constants: the memory of the inputs is declared. */
TEST(inputs_that_nothing_reads)
{
    const float c[2] = {0.5f, -2};
    char path[400];
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2));
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(2), tp_init_values(c, 2));
    tp_session *s = tp_session_new(g, NULL);
    snprintf(path, sizeof path, "%s/unread.c", tp_test_tmpdir());
    if (CHECK_MSG(s != NULL, "%s", tp_last_error()) && CHECK_OK(tp_export_c(s, &x, 1, &w, 1, path, NULL)))
        CHECK(run_command("${CC:-cc} -std=c99 -Wall -Wextra -Werror -c '%s' -o '%s.o'", path, path));
    tp_session_free(s);
    tp_graph_free(g);
}

/* Names that the file cannot give its function, because it has to compile as C and as C++; arguments get another name. */
TEST(names_of_both_languages)
{
    static const char *const keyword[] = {"export",
                                          "friend",
                                          "catch",
                                          "explicit",
                                          "mutable",
                                          "and",
                                          "or",
                                          "not",
                                          "xor",
                                          "true",
                                          "false",
                                          "protected",
                                          "typename",
                                          "asm",
                                          "decltype",
                                          "constexpr",
                                          "wchar_t",
                                          "char16_t",
                                          "char32_t",
                                          "and_eq",
                                          "const_cast",
                                          "static_assert",
                                          "co_return",
                                          "thread_local",
                                          "typeof",
                                          "HUGE_VALF",
                                          "reinterpret_cast",
                                          "M_PI",
                                          "FP_NAN",
                                          "linux"};
    static const char *const had[] = {"index",      "rindex",      "ffs",          "bzero",    "bcmp",   "bcopy",
                                      "strcasecmp", "stpcpy",      "finite",       "drem",     "y0f",    "gammal",
                                      "sinf32",     "significand", "isnan",        "signbit",  "abs",    "exit",
                                      "malloc",     "random",      "random_r",     "strtof64", "size_t", "strcasecmp_l",
                                      "std",        "exp10f",      "fmaximum_numf"};
    static const char *const free_names[] = {"net_r", "net_l", "export_", "indexes", "index_r", "gamma2", "M", "absf"};
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2)), *y = tp_relu(x);
    tp_session *s = tp_session_new(g, NULL);
    tp_export_c_desc d;
    tp_buf text;
    memset(&d, 0, sizeof d);
    for (int i = 0; i < TP_COUNT(keyword) + TP_COUNT(had) + TP_COUNT(free_names); i++) {
        const int k = i - TP_COUNT(keyword), j = k - TP_COUNT(had);
        memset(&text, 0, sizeof text);
        d.name = k < 0 ? keyword[i] : j < 0 ? had[k] : free_names[j];
        const tp_status st = tp_export_c_text(s, &x, 1, &y, 1, &text, &d, NULL);
        CHECK_MSG(j < 0 ? st == TP_ERR_NAME : st == TP_OK, "%s: status %d", d.name, (int)st);
        tp_buf_free(&text);
    }
    for (int i = 0; i < TP_COUNT(keyword); i++) {
        char want[64];
        tp_node *out = tp_named(tp_relu(x), keyword[i]);
        memset(&text, 0, sizeof text);
        d.name = "mine";
        snprintf(want, sizeof want, ", float *%s_)", keyword[i]);
        if (CHECK_OK(tp_export_c_text(s, &x, 1, &out, 1, &text, &d, NULL))) CHECK_HAS(text.data, want);
        tp_buf_free(&text);
    }
    tp_session_free(s);
    tp_graph_free(g);
}

/* A header that cannot be written leaves the older model as it was: both files are complete before one of them is replaced. */
TEST(a_model_and_its_header_are_of_one_export)
{
    const char *dir = tp_test_tmpdir(), *path = tp_test_path(dir, "pair.c"), *header = tp_test_path(dir, "pair.h");
    char *data = NULL;
    size_t size = 0;
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2)), *y = tp_relu(x);
    tp_session *s = tp_session_new(g, NULL);
    CHECK(tp_test_write(path, "old", 3));
    CHECK(symlink("no/such/folder/pair.h", header) == 0);
    CHECK_ERR(tp_export_c(s, &x, 1, &y, 1, path, NULL), TP_ERR_IO, "pair.h");
    if (CHECK_OK(tp_file_read(path, false, 0, &data, &size))) CHECK(size == 3 && memcmp(data, "old", 3) == 0);
    tp_free(data);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(what_cannot_be_written_is_said)
{
    tp_graph *g = tp_graph_new(NULL);
    const int64_t dims[2] = {TP_ANY, 3};
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(2, dims));
    tp_node *i = tp_placeholder(g, "i", TP_I32, tp_make_shape(TP_ANY));
    tp_node *sampled = tp_named(tp_rand_uniform_like(x, 0, 1), "sampled"), *y = tp_named(tp_relu(x), "y");
    tp_node *hot = tp_named(tp_one_hot(i, 3, 1, 0), "hot"),
            *whole = tp_named(tp_cast(tp_cast(x, TP_I32), TP_F32), "whole");
    tp_session *s = tp_session_new(g, NULL);
    char path[400];
    snprintf(path, sizeof path, "%s/no.c", tp_test_tmpdir());
    tp_export_c_desc d;
    memset(&d, 0, sizeof d);
    if (CHECK_MSG(s != NULL, "%s", tp_last_error())) {
        CHECK(tp_export_c(s, &x, 1, &sampled, 1, path, NULL) < 0);
        CHECK_HAS(tp_last_error(), "which has no C form: leave the noise out where the tower is not training");
        CHECK(tp_export_c(s, &i, 1, &hot, 1, path, NULL) < 0);
        CHECK_HAS(tp_last_error(), "input 'i' is int32, only float32 is exported");
        CHECK(tp_export_c(s, &x, 1, &whole, 1, path, NULL) < 0);
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

/* A loop over more than 32767 floats needs an int of more than 16 bits: its file does not compile where int is shorter. */
TEST(a_large_model_asks_for_its_int)
{
    for (int i = 0; i < 2; i++) {
        const tp_export_c_desc d = {"large", 0};
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(i ? 32768 : 32767)), *y = tp_named(tp_exp(x), "y");
        tp_session *s = tp_session_new(g, NULL);
        tp_buf text;
        memset(&text, 0, sizeof text);
        CHECK_OK(tp_export_c_text(s, &x, 1, &y, 1, &text, &d, NULL));
        const bool asks =
            strstr(text.data, "typedef char large_needs_int_of_32_bits[sizeof(int) > 2 ? 1 : -1];") != NULL;
        CHECK(asks == (i == 1));
        tp_buf_free(&text);
        tp_session_free(s);
        tp_graph_free(g);
    }
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
