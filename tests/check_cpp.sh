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
    const int64_t shape[4] = {TP_ANY, 8, 8, 1};
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(4, shape));
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
    return good ? 0 : 1;
}
CPP
for cxx in "g++ -x c++ -std=c++17" "clang++ -x c++ -std=c++17"; do
    $cxx -O0 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -I. "$dir/use.cpp" -o "$dir/use" -lm -lpthread
    "$dir/use"
done
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
# the two spellings of C++20 make the same layer; options are in the order of the fields, and the compiler says so
cat >"$dir/named.cpp" <<'CPP'
#include "tp_train.h"
#include "tp_layers.h"
tp_node *both(tp_node *x)
{
    x = tp_conv2d(x, "conv0", {.filters = 32, .kernel_size = 3});
    return tp_conv2d(x, "conv1", .filters = 32, .kernel_size = 3, .activation = tp_relu, .use_bias = false);
}
CPP
for cxx in "g++ -std=c++20" "clang++ -std=c++20"; do
    $cxx -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -I. "$dir/named.cpp"
done
echo ok
