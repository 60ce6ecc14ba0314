#!/usr/bin/env bash
# tp_cuda.cu by nvcc, and the programs with it, without a warning; for one architecture and hardly optimised, or, with
# CUDA_ALL=1, as `make CUDA=1` builds it: minutes more. Status 77 and a sentence where there is no nvcc.
set -u
cd "$(dirname "$0")/.."
if [ -z "${CUDA_HOME:-}" ] && ! command -v nvcc >/dev/null; then
    echo "no nvcc: tp_cuda.cu was not compiled by it"
    exit 77
fi
log=build/test/check_cuda.make
mkdir -p build/test
if [ -n "${CUDA_ALL:-}" ]; then arch=() dir=build/test/cuda-all; else arch=(ARCH=90 "NVOPT=-O1 -Xcicc -O0 -Xptxas -O0") dir=build/test/cuda; fi
programs=("$dir/share_towers" "$dir/mnist_convnet" "$dir/test_cuda" "$dir/bench")
[ -z "${CUDA_ALL:-}" ] || programs=(all)
make -B CUDA=1 B="$dir" ${arch[@]+"${arch[@]}"} CFLAGS="-O0 -Werror" NVWARN="-Werror all-warnings" "${programs[@]}" >"$log" 2>&1 ||
    { tail -n 40 "$log"; exit 1; }
if grep -i warning "$log" | grep -v 'all-warnings'; then exit 1; fi
# Without a GPU a program says so; with one it runs.
"$dir/share_towers" --gpu 0 >"$log" 2>/dev/null && exit 0
grep -q 'GPU' "$log" || { tail -n 5 "$log"; exit 1; }
