#!/usr/bin/env bash
# What tp writes, held against independent programs: numpy for arrays and checkpoints, TensorBoard's own reader for
# event files, Python's json for stats.json, onnx's checker and ONNX Runtime for exported models. They are installed by pip into build/venv; without a network this is skipped.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build
venv=build/venv
if ! "$venv/bin/python" -c 'import numpy, tensorboard, onnx, onnxruntime' 2>/dev/null; then
    python=python3
    command -v python3 >/dev/null || python=""
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! { [ -n "$python" ] && python3 -c 'import venv, ensurepip' 2>/dev/null; }; then
        (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3 python3-venv) >/dev/null 2>&1 || true
        python=python3
    fi
    if [ -z "$python" ] || ! $python -m venv "$venv" 2>/dev/null || ! "$venv/bin/pip" install -q numpy tensorboard setuptools onnx onnxruntime >build/pip.log 2>&1; then
        echo "interop was skipped: numpy, tensorboard, onnx and onnxruntime could not be installed (no network?)"
        exit 0
    fi
fi
command -v gcc >/dev/null || bash tests/setup.sh
dir=build/interop
rm -rf "$dir"; mkdir -p "$dir"
gcc -std=c11 -O2 -I. -Itests tests/interop_write.c -o "$dir/interop_write" -lm -lpthread
gcc -std=c11 -O2 -I. examples/mnist_convnet.c -o "$dir/mnist_convnet" -lm -lpthread
"$venv/bin/python" tests/interop.py numpy-writes "$dir"
"$dir/interop_write" "$dir"
(cd "$dir" && ./mnist_convnet --epochs 1 --steps 30 >train.log 2>&1) || { tail -n 20 "$dir/train.log"; exit 1; }
"$venv/bin/python" tests/interop.py check "$dir"
# exported models: one for each op and form, networks, folders of a model server
mkdir -p "$dir/onnx"
gcc -std=c11 -O2 -I. -Itests tests/test_export_onnx.c -o "$dir/test_export_onnx" -lm -lpthread
TP_ONNX_DIR=$dir/onnx "$dir/test_export_onnx" >"$dir/export_onnx.log" 2>&1 || { tail -n 20 "$dir/export_onnx.log"; exit 1; }
"$venv/bin/python" tests/onnx_judge.py exported "$dir/onnx"
# ... and read back by tp itself; then the ONNX project's own operator cases
gcc -std=c11 -O2 -I. tests/onnx_cases.c -o "$dir/onnx_cases" -lm -lpthread
"$venv/bin/python" tests/onnx_cases.py exported "$dir/onnx" "$dir/onnx_cases"
"$venv/bin/python" tests/onnx_cases.py operators "$dir/onnx_cases.d" "$dir/onnx_cases"
