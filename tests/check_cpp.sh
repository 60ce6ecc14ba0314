#!/usr/bin/env bash
# C++: before C++20 there are no keyword macros, but descriptors by name; C++20 has the macros, and examples are C++20 too.
set -eu
cd "$(dirname "$0")/.."
dir=build/test/cpp
mkdir -p "$dir"
cat >"$dir/use.cpp" <<'CPP'
#define TP_IMPLEMENTATION
#include "tp_layers.h"
#include "tp_optim.h"
#include "tp_export.h"
#include "tp_import.h"

static tp_node *half(tp_node *x, void *) { return tp_affine(x, 0.5f, 0.0f); }

int main()
{
    tp_graph *g = tp_graph_new(nullptr);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 8, 8, 1));
    if (tp_make_shape().ndim != 0 || tp_make_shape(5).dim[0] != 5) return 9;
    tp_tower_desc tower = {};
    tower.is_training = true;
    tp_tower_enter(g, &tower);
    tp_conv2d_desc scope = {};
    scope.filters = 4;
    scope.activation = tp_bn_relu;
    tp_argscope_begin(g, nullptr);
    tp_argscope_set(g, "Conv2D", &scope);
    tp_conv2d_desc c = {};
    c.name = "conv0";
    c.kernel_size = 3;
    c.kernel_initializer = tp_init_ones();
    tp_node *y = tp_conv2d_(x, &c);
    tp_argscope_end(g);
    tp_fully_connected_desc f = {};
    f.name = "fc";
    f.units = 2;
    const tp_layer chain[] = {{{__FILE__, __LINE__}, nullptr, nullptr, half, nullptr, nullptr},
                              {{__FILE__, __LINE__}, "FullyConnected", &f, nullptr, nullptr, nullptr}};
    y = tp_linear_n(y, chain, 2);
    tp_node *w = tp_layer_variable(y, "W");
    tp_node *cost = tp_add(tp_mean(tp_square(y)), tp_regularize_cost(g, ".*/W", tp_l2_regularizer(1e-4f), nullptr));
    tp_grad_var gv;
    tp_compute_gradients(cost, &w, 1, &gv);
    tp_adam_desc a = {};
    a.epsilon = 1e-3f;
    const tp_gradproc clip = tp_gradproc_global_norm_clip(5);
    tp_optimizer *opt = tp_apply_grad_processors(tp_adam_(tp_get_scalar_variable(g, "learning_rate", 1e-3f), &a), &clip, 1);
    tp_apply_gradients(opt, &gv, 1);
    tp_tower_leave(g);
    const bool good = tp_graph_status(g) == TP_OK && tp_find_variable(g, "conv0/bn/gamma") && tp_find_variable(g, "fc/W/Adam_1");
    if (!good) puts(tp_graph_error(g));
    tp_graph_free(g);
    if (!good) return 1;

    /* macros that take lists of arguments */
    g = tp_graph_new(nullptr);
    tp_node *in = tp_placeholder(g, "in", TP_F32, tp_make_shape(TP_ANY, 3));
    tp_node *scale = tp_placeholder(g, "scale", TP_F32, tp_make_shape());
    tp_node *wide = tp_mul(tp_concat_along(1, in, tp_add_all(in, in)), scale);
    tp_node *sum = tp_sum_over(tp_permute(tp_reshape(wide, TP_ANY, 2, 3), 1, 0, 2), 0, 2);
    const float numbers[6] = {1, 2, 3, 4, 5, 6}, two = 2;
    const tp_spec specs[] = {TP_SPEC("in", TP_F32, TP_ANY, 3), TP_SPEC("scale", TP_F32)};
    if (specs[0].shape.ndim != 2 || specs[0].shape.dim[1] != 3 || specs[1].shape.ndim != 0) return 8;
    const tp_feed feeds[] = {TP_FEED(in, TP_F32, numbers, 2, 3), TP_FEED(scale, TP_F32, &two)};
    tp_session *s = tp_session_new(g, nullptr);
    const tp_tensor *v;
    const bool right = tp_session_run(s, feeds, 2, &sum, 1, &v) == TP_OK && tp_tensor_get(v, 0) == 36 && tp_tensor_get(v, 1) == 90;
    if (!right) puts(tp_last_error());
    tp_session_free(s);
    tp_graph_free(g);
    return right ? 0 : 1;
}
CPP
for cxx in "g++ -x c++ -std=c++17" "clang++ -x c++ -std=c++17"; do
    $cxx -O0 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -I. "$dir/use.cpp" -o "$dir/use" -lm -lpthread
    "$dir/use"
done
# a log sink may throw: its turn ends with the exception (C++), or when its thread logs again or is waited for no longer (C)
cat >"$dir/throw.cpp" <<'CPP'
#include "tp_tensor.h"
#include <pthread.h>
#include <string.h>
#include <unistd.h>
static int lines;
static void sink(void *, tp_log_level, const char *text)
{
    lines++;
    if (!strcmp(text, "throw")) throw 1;
}
static void log_line(void *text)
{
    volatile char room[4096];
    room[0] = 0;
    tp_log(TP_LOG_DEBUG, "%s", static_cast<const char *>(text));
}
static bool throws()
{
    try { tp_log(TP_LOG_DEBUG, "throw"); } catch (int) { return true; }
    return false;
}
static void *in_thread(void *) { return throws() ? &lines : nullptr; }
int main()
{
    alarm(20);
    tp_set_log(sink, nullptr);
    if (!throws() || lines != 1) return 1;
    log_line(const_cast<char *>("hello"));
    if (RELEASED && lines != 2) return 2; /* a deeper stack: in C this line goes to the default sink */
    tp_log(TP_LOG_DEBUG, "hello");
    if (lines < 2) return 3;
    pthread_t t;
    void *thrown;
    if (pthread_create(&t, nullptr, in_thread, nullptr) || pthread_join(t, &thrown) || !thrown) return 4;
    lines = 0;
    tp_log(TP_LOG_DEBUG, "hello");
    if (lines != 1 || !throws()) return 5;
    tp_set_log(nullptr, nullptr);
    return 0;
}
CPP
printf '#define TP_IMPLEMENTATION\n#include "tp_tensor.h"\n' >"$dir/throw.c"
cp "$dir/throw.c" "$dir/throw_library.cpp"
g++ -std=c++17 -O2 -DTP_NAIVE -I. "$dir/throw_library.cpp" -DRELEASED=1 "$dir/throw.cpp" -o "$dir/throw" -lpthread
"$dir/throw"
gcc -std=c11 -O2 -DTP_NAIVE -DTP_UNWIND -DTP__LOG_PATIENCE=0.3 -I. -c "$dir/throw.c" -o "$dir/throw.o"
g++ -std=c++17 -O2 -I. "$dir/throw.o" -DRELEASED=0 "$dir/throw.cpp" -o "$dir/throw" -lpthread
"$dir/throw"
# later standards deprecate more: no warning under them
{ echo '#define TP_IMPLEMENTATION'; printf '#include "%s"\n' tp_*.h; echo 'int main() { return 0; }'; } >"$dir/all.cpp"
for cxx in "g++ -std=c++20" "g++ -std=c++23" "clang++ -std=c++20"; do
    $cxx -fsyntax-only -Wall -Wextra -Wpedantic -Werror -I. "$dir/all.cpp"
done
for cxx in "g++ -std=c++20" "clang++ -std=c++20"; do
    for example in mnist_convnet cifar10_resnet custom_callback augment; do # the others: check_examples.sh
        $cxx -x c++ -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -I. "examples/$example.c"
    done
done
# C++20 takes options with names, in braces, or without names, and the arguments before them too; the functions below, in place of
# the library's, show what they get
cat >"$dir/named.cpp" <<'CPP'
#include "tp_train.h"
#include "tp_layers.h"
#include <string>
#include <string.h>

static tp_conv2d_desc conv;
static tp_cb_run_op_desc run_op;
static tp_df_locally_shuffle_desc shuffle;
static tp_df_batch_desc batch;
static tp_inf_classification_error_desc wrong;
static tp_inf_scalar_stats_desc stats;
static tp_adam_desc adam;
static tp_tensor_summary_desc summary;
static tp_param_summary_desc params;
static std::string text; /* the options as they were written: zeros among them are found by it */
extern "C" {
void *tp__fill_named_zeros(void *d, const char *, const tp__zero_option *, const char *t) { return text = t, d; }
const tp__zero_option *tp__layers_zeros() { return NULL; }
const tp__zero_option *tp__callbacks_zeros() { return NULL; }
const tp__zero_option *tp__input_zeros() { return NULL; }
const tp__zero_option *tp__optim_zeros() { return NULL; }
const tp__zero_option *tp__graph_zeros() { return NULL; }
void tp_add_tensor_summary_(tp_node *, const tp_tensor_summary_desc *d) { summary = *d; }
void tp_add_param_summary_(tp_graph *, const tp_param_summary_desc *d) { params = *d; }
tp_feed tp_make_feed(tp_node *n, tp_dtype t, tp_shape s, const void *data) { return {n, {t, s, (void *)(uintptr_t)data, NULL, 0, NULL, NULL, 0}}; }
tp_shape tp_make_shape_n(int n, const int64_t *dim) { return {n, {dim[0], n > 1 ? dim[1] : 0}}; }
tp_node *(tp_conv2d_)(tp_node *x, const tp_conv2d_desc *d) { return conv = *d, x; }
tp_callback *tp_cb_run_op_(const tp_cb_run_op_desc *d) { return run_op = *d, nullptr; }
tp_dataflow *tp_df_locally_shuffle_(const tp_df_locally_shuffle_desc *d) { return shuffle = *d, nullptr; }
tp_dataflow *tp_df_batch_(const tp_df_batch_desc *d) { return batch = *d, nullptr; }
tp_inferencer *tp_inf_classification_error_(const tp_inf_classification_error_desc *d) { return wrong = *d, nullptr; }
tp_inferencer *tp_inf_scalar_stats_(const tp_inf_scalar_stats_desc *d) { return stats = *d, nullptr; }
tp_optimizer *tp_adam_(tp_node *, const tp_adam_desc *d) { return adam = *d, nullptr; }
tp_node *(tp_relu)(tp_node *x) { return x; }
tp_node *tp__node_at(tp_node *n, const char *, int) { return n; }
}
static tp_node *make_op(tp_graph *, void *) { return nullptr; }
#define CHECK(x_)                                               \
    if (!(x_)) {                                                \
        printf("named.cpp:%d: not so: %s\n", __LINE__, #x_); \
        return 1;                                               \
    }

int main()
{
    tp_node *x = nullptr, *op = (tp_node *)&conv;
    tp_dataflow *df = (tp_dataflow *)&shuffle;
    const size_t size = 7;
    tp_conv2d(x, "conv0", {.filters = 32, .kernel_size = 3});
    CHECK(!strcmp(conv.name, "conv0") && conv.filters == 32 && conv.kernel_size == 3);
    tp_conv2d(x, "conv1", .filters = 32, .activation = tp_relu, .use_bias = false);
    CHECK(!strcmp(conv.name, "conv1") && conv.filters == 32 && conv.activation == tp_relu && text.find("use_bias") < text.size());
    tp_conv2d(x, .name = "conv2", .filters = 16);
    CHECK(!strcmp(conv.name, "conv2") && conv.filters == 16);
    tp_conv2d(x, "conv3", 8, 5);
    CHECK(!strcmp(conv.name, "conv3") && conv.filters == 8 && conv.kernel_size == 5 && conv.at_.line == __LINE__ - 1);
    (void)tp_cb_run_op(op, .run_step = true);
    CHECK(run_op.op == op && !run_op.fn && run_op.run_step == TP_YES);
    (void)tp_cb_run_op(.fn = make_op);
    CHECK(!run_op.op && run_op.fn == make_op && run_op.at_.line == __LINE__ - 1);
    (void)tp_cb_run_op(.fn = make_op, .user = &conv, .run_before = false);
    CHECK(run_op.fn == make_op && run_op.user == &conv && text.find("run_before") < text.size());
    (void)tp_cb_run_op(.run_before = false);
    CHECK(!run_op.fn && text.find("run_before") < text.size());
    (void)tp_cb_run_op(nullptr, .fn = [](tp_graph *, void *) -> tp_node * { return nullptr; });
    CHECK(run_op.fn);
    (void)tp_df_locally_shuffle(df, 1000);
    CHECK(shuffle.df == df && shuffle.buffer_size == 1000);
    (void)tp_df_locally_shuffle(df, 1000, .num_reuse = 2);
    CHECK(shuffle.df == df && shuffle.buffer_size == 1000 && shuffle.num_reuse == 2);
    (void)tp_df_locally_shuffle(.df = df, .buffer_size = 1000, .num_reuse = 2);
    CHECK(shuffle.df == df && shuffle.buffer_size == 1000 && shuffle.num_reuse == 2);
    (void)tp_df_batch(df, size, .remainder = true);
    CHECK(batch.df == df && batch.batch_size == 7 && batch.remainder == TP_YES);
    (void)tp_inf_classification_error();
    CHECK(!wrong.wrong_tensor_name && !wrong.summary_name);
    (void)tp_inf_classification_error("wrong");
    CHECK(!strcmp(wrong.wrong_tensor_name, "wrong") && !wrong.summary_name && wrong.at_.line == __LINE__ - 1);
    (void)tp_inf_classification_error("wrong", "error");
    CHECK(!strcmp(wrong.wrong_tensor_name, "wrong") && !strcmp(wrong.summary_name, "error"));
    (void)tp_inf_classification_error(NULL, "error");
    CHECK(!wrong.wrong_tensor_name && !strcmp(wrong.summary_name, "error"));
    (void)tp_inf_scalar_stats(TP_NAMES("cost", "error"), .prefix = "val");
    CHECK(!strcmp(stats.names[1], "error") && !stats.names[2] && !strcmp(stats.prefix, "val"));
    (void)tp_inf_scalar_stats("cost");
    CHECK(!strcmp(stats.names[0], "cost") && !stats.names[1]);
    tp_add_tensor_summary(x, TP_SUMMARY_MEAN);
    CHECK(summary.types == TP_SUMMARY_MEAN && !summary.name);
    tp_add_tensor_summary(x, TP_SUMMARY_MEAN | TP_SUMMARY_RMS, "x");
    CHECK(summary.types == (TP_SUMMARY_MEAN | TP_SUMMARY_RMS) && !strcmp(summary.name, "x"));
    tp_add_tensor_summary(x, TP_SUMMARY_RMS, .name = "y", .main_tower_only = false);
    CHECK(summary.types == TP_SUMMARY_RMS && !strcmp(summary.name, "y") && text.find("main_tower_only") < text.size());
    tp_add_param_summary(nullptr, ".*/W", TP_SUMMARY_RMS);
    CHECK(!strcmp(params.regex, ".*/W") && params.types == TP_SUMMARY_RMS);
    tp_add_param_summary(nullptr, ".*/b", .types = TP_SUMMARY_MEAN, .collection = "mine");
    CHECK(!strcmp(params.regex, ".*/b") && params.types == TP_SUMMARY_MEAN && !strcmp(params.collection, "mine"));
    const float numbers[6] = {0};
    const tp_feed feed = TP_FEED(x, TP_F32, numbers, 2, 3);
    tp_tensor empty = TP_EMPTY;
    CHECK(feed.value.data == numbers && feed.value.shape.dim[1] == 3 && !empty.data);
    (void)tp_adam(x, 0.8f);
    CHECK(adam.beta1 > 0.7f && adam.beta1 < 0.9f && adam.at_.line == __LINE__ - 1);
    return 0;
}
CPP
for cxx in "g++ -std=c++20" "clang++ -std=c++20"; do
    $cxx -O0 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -I. "$dir/named.cpp" -o "$dir/named"
    "$dir/named"
done
echo ok
