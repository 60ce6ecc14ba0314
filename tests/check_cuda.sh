#!/usr/bin/env bash
# tp_cuda.cu by nvcc, and the programs with it, without a warning; for one architecture, or, with CUDA_ALL=1, as `make CUDA=1` builds
# it: minutes more. The architecture is the one whose kernels check_ptxas.sh examines, which takes the PTX and the words of ptxas
# from here. Status 77 and a sentence where there is no nvcc.
set -u
cd "$(dirname "$0")/.."
if [ -z "${CUDA_HOME:-}" ] && ! command -v nvcc >/dev/null; then
    echo "no nvcc: tp_cuda.cu was not compiled by it"
    exit 77
fi
mkdir -p build/test
exec 8>build/test/cuda.lock # check_ptxas.sh waits for it
flock 8
if [ -n "${CUDA_ALL:-}" ]; then arch=() dir=build/test/cuda-all
else dir=build/test/cuda arch=(ARCH=89 "NVOPT=-O2 -Xptxas -v --keep --keep-dir build/test/cuda"); fi
log=$dir/make.log
rm -rf "$dir"
mkdir "$dir"
programs=("$dir/share_towers" "$dir/test_cuda")
[ -z "${CUDA_ALL:-}" ] || programs=(all)
make -B CUDA=1 B="$dir" ${arch[@]+"${arch[@]}"} CFLAGS="-O0 -Werror" NVWARN="-Werror all-warnings" "${programs[@]}" >"$log" 2>&1 ||
    { tail -n 40 "$log"; exit 1; }
if grep -i warning "$log" | grep -v 'all-warnings'; then exit 1; fi
rm -f "$dir"/tp_cuda.{cpp,cudafe,fatbin,module,sm_}* # of what --keep keeps, the PTX stays
# the other two that run on GPUs, without the implementation, which is compiled and linked by now
declared=""
for h in tp_*.h; do h=${h#tp_} h=${h%.h}; declared="$declared -DTP__${h^^}_IMPLEMENTED"; done
for source in examples/mnist_convnet.c tests/bench/bench.c; do
    sed '/^#define TP_STATIC/d' "$source" |
        gcc -std=c11 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -fsyntax-only -DTP_CUDA $declared -I. -Itests/bench -Iexamples -x c - || exit 1
done
log=$dir/run.log
# Without a GPU a program says so; with one, which the driver's own program finds, too, it runs.
"$dir/share_towers" --gpu 0 >"$log" 2>/dev/null && exit 0
if nvidia-smi -L 2>/dev/null | grep -q '^GPU ' || ! grep -q 'GPU' "$log"; then
    tail -n 5 "$log"
    exit 1
fi
