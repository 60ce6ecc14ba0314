#!/usr/bin/env bash
# `make install` puts the headers where pkg-config and CMake let a program find them, and `make uninstall` leaves nothing of them; all
# headers as one, `make single`, train the README's network as C11 in two units, and one as C++17 in one. The networks are small and
# compiled without optimization: this is about what programs include and link.
set -eu
cd "$(dirname "$0")/.."
root=$PWD dir=$PWD/build/test/install
rm -rf "$dir"
mkdir -p "$dir/cmake" "$dir/single"
unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR PREFIX
quiet() { "$@" >"$dir/log" 2>&1 || { echo "$*"; tail -n 20 "$dir/log"; exit 1; }; }
warn="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"
version=$(sed -n 's/^#define TP_VERSION_[A-Z]* *//p' tp_tensor.h | paste -sd.)

# ---- what is installed, and removed again
quiet make install PREFIX=/opt/a DESTDIR="$dir/stage"
quiet make install PREFIX="$dir/prefix"
(cd "$dir/stage/opt/a" && find . -type f | sort) >"$dir/staged"
{
    printf './include/tp/%s\n' tp_*.h tp_cuda.cu
    printf './share/%s\n' cmake/tp/tp-config-version.cmake cmake/tp/tp-config.cmake pkgconfig/tp.pc
} | sort | diff - "$dir/staged"
grep -rl "$dir" "$dir/stage" && { echo "DESTDIR stands in an installed file"; exit 1; }
touch "$dir/stage/opt/a/include/other.h"
quiet make uninstall PREFIX=/opt/a DESTDIR="$dir/stage"
[ "$(find "$dir/stage" -type f)" = "$dir/stage/opt/a/include/other.h" ] || { echo "uninstall leaves"; find "$dir/stage" -type f; exit 1; }
[ ! -e "$dir/stage/opt/a/include/tp" ] && [ ! -e "$dir/stage/opt/a/share/cmake/tp" ]

# the README's trainer, two steps of a network with few filters, without its defines: the implementation is compiled apart
awk '/^```c$/ {on = 1; next} /^```$/ {if (on) exit} on' README.md |
    sed '/^#define TP_/d; s/\.filters = 16/.filters = 2/; s/\.max_epoch = 4/.max_epoch = 1, .steps_per_epoch = 2/
         s/tp_df_digits("test")/tp_df_digits("test", .size = 256)/' >"$dir/cmake/trainer.c"
grep -q 'filters = 2,' "$dir/cmake/trainer.c" && grep -q 'steps_per_epoch = 2' "$dir/cmake/trainer.c" && grep -q 'size = 256' "$dir/cmake/trainer.c"
# trained <log directory>: it reported and saved
trained() { grep -q "$1" "$2/stats.json" && [ -s "$2/model-2.npz" ]; }

# ---- all headers as one. C++17: one unit
quiet make -B single
cp build/tp.h "$dir/single/"
cd "$dir/single"
cat >train.cpp <<'CPP'
#define TP_NAIVE
#define TP_STATIC
#define TP_IMPLEMENTATION
#include "tp.h"
#include "tp.h"
static tp_node *build_graph(tp_graph *, tp_node *const *in, void *)
{
    tp_fully_connected_desc d = {};
    d.name = "fc";
    d.units = 10;
    tp_node *cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(tp_fully_connected_(in[0], &d), in[1])), "cost");
    tp_add_moving_summary_n(&cost, 1, nullptr);
    return cost;
}
static tp_optimizer *optimizer(tp_graph *g, void *)
{
    return tp_adam_(tp_get_scalar_variable(g, "learning_rate", 1e-3f), nullptr);
}
int main()
{
    const int64_t shape[3] = {TP_ANY, 28, 28};
    const tp_spec inputs[2] = {{"image", TP_F32, tp_make_shape_n(3, shape)}, {"label", TP_I32, tp_make_shape_n(1, shape)}};
    tp_df_digits_desc digits = {};
    digits.which = "train";
    tp_df_batch_desc batch = {};
    batch.df = tp_df_digits_(&digits);
    batch.batch_size = 16;
    tp_cb_model_saver_desc saver = {};
    tp_callback *callbacks[1] = {tp_cb_model_saver_(&saver)};
    tp_train_config c = {};
    c.model.inputs = inputs, c.model.n_inputs = 2, c.model.build_graph = build_graph, c.model.optimizer = optimizer;
    c.dataflow = tp_df_batch_(&batch);
    c.callbacks = callbacks, c.n_callbacks = 1;
    c.max_epoch = 1, c.steps_per_epoch = 2;
    if (tp_logger_set_dir("train_log/cpp", 'd') != TP_OK) return 1;
    return tp_launch_train_with_config(&c, tp_simple_trainer()) == TP_OK ? 0 : 1;
}
CPP
one_unit() {
    g++ -std=c++17 -O0 $warn train.cpp -o one -lm -lpthread && ./one && trained '"cost"' train_log/cpp && return
    echo "the trainer of one unit, C++17, fails"
    return 1
}
one_unit >one.log 2>&1 &
one=$!
# C11, two units: one has the implementation, with the fast kernels, the other one only declarations, twice
printf '#define TP_IMPLEMENTATION\n#include "tp.h"\n' >tp.c
sed 's/"tp_train.h"/"tp.h"/; s/"tp_layers.h"/"tp.h"/' ../cmake/trainer.c >trainer.c
quiet gcc -std=c11 -O0 $warn -c tp.c
quiet gcc -std=c11 -O0 $warn trainer.c tp.o -o two -lm -lpthread
quiet ./two
trained '"validation_error"' train_log/digits || { echo "the trainer of two units trained nothing"; exit 1; }
wait $one || { cat one.log; exit 1; }
[ "$(nm two | grep -c 'tp__run_tile')" != 0 ] || { echo "tp.h has no fast kernels"; exit 1; }
[ "$(nm one | grep -c 'tp__run_tile')" = 0 ] || { echo "TP_NAIVE leaves fast kernels in tp.h"; exit 1; }
# a file of another name includes itself by this name; the GPU's code takes it in place of the headers
mkdir renamed
cp tp.h renamed/all_of_tp.h
printf '#define TP_FILE "all_of_tp.h"\n#define TP_IMPLEMENTATION\n#include "all_of_tp.h"\n' >renamed/use.c
gcc -std=c11 -E renamed/use.c >renamed/use.i
grep -q 'tp__run_tile' renamed/use.i && [ "$(grep -c '^# 1 .*all_of_tp.h" 1' renamed/use.i)" -ge 10 ]
cp "$root/tp_cuda.cu" .
g++ -x c++ -std=c++17 -DTP_CUDA_SHIM -I"$root/tests/gpu/shim" -E tp_cuda.cu >cuda.i
grep -q 'tp_session_new' cuda.i && grep -q 'tp__conv_geometry\|struct tp__conv ' cuda.i
cd "$root"

# ---- pkg-config: the second unit of above, with the installed headers
missing=""
if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH=$dir/prefix/share/pkgconfig
    [ "$(pkg-config --modversion tp)" = "$version" ]
    [ "$(pkg-config --variable=cuda_source tp)" = "$dir/prefix/include/tp/tp_cuda.cu" ]
    mkdir "$dir/pkg"
    quiet gcc -std=c11 -O0 $warn $(pkg-config --cflags tp) "$dir/cmake/trainer.c" "$dir/single/tp.o" -o "$dir/pkg/trainer" $(pkg-config --libs tp)
    (cd "$dir/pkg" && quiet ./trainer)
    trained '"validation_error"' "$dir/pkg/train_log/digits" || { echo "the trainer by pkg-config trained nothing"; exit 1; }
else missing="pkg-config"; fi

# ---- CMake: the same by the installed package, from a folder that was moved; other versions are refused
if command -v cmake >/dev/null; then
    mv "$dir/prefix" "$dir/moved"
    cd "$dir/cmake"
    cat >CMakeLists.txt <<'C'
cmake_minimum_required(VERSION 3.10)
project(digits C)
find_package(tp 0 QUIET CONFIG REQUIRED)
foreach(other 0.0 0.2 1.0 ${tp_VERSION}.1)
    set(tp_DIR)
    find_package(tp ${other} QUIET CONFIG)
    if(tp_FOUND)
        message(FATAL_ERROR "version ${tp_VERSION} is taken for ${other}")
    endif()
endforeach()
set(tp_DIR)
find_package(tp 0.1 CONFIG REQUIRED)
find_package(tp ${tp_VERSION} EXACT CONFIG REQUIRED)
if(NOT EXISTS ${tp_CUDA_SOURCE})
    message(FATAL_ERROR "tp_CUDA_SOURCE is '${tp_CUDA_SOURCE}'")
endif()
message("tp is ${tp_VERSION}")
add_executable(trainer trainer.c)
target_link_libraries(trainer PRIVATE ${IMPLEMENTATION} tp::tp)
C
    quiet cmake -S . -B out -DCMAKE_PREFIX_PATH="$dir/moved" -DCMAKE_C_COMPILER=gcc -DIMPLEMENTATION="$dir/single/tp.o" -DCMAKE_C_FLAGS="$warn"
    grep -q "^tp is $version\$" "$dir/log" || { cat "$dir/log"; exit 1; }
    quiet cmake --build out
    quiet ./out/trainer
    trained '"validation_error"' train_log/digits || { echo "the trainer by CMake trained nothing"; exit 1; }
    cd "$root"
    mv "$dir/moved" "$dir/prefix"
else missing="$missing cmake"; fi
quiet make uninstall PREFIX="$dir/prefix"
[ -z "$(find "$dir/prefix" -type f)" ]
if [ -n "$missing" ]; then
    echo "without${missing:+ }$missing: no program was compiled through it"
    exit 77
fi
