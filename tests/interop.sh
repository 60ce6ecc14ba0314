#!/usr/bin/env bash
# What tp writes, held against independent programs, and what they write, read by tp: numpy and safetensors for arrays and
# checkpoints, TensorBoard's own reader for event files, Python's json for stats.json, onnx's checker, its operator cases
# and ONNX Runtime for models. They are installed by pip into build/venv; without them this fails. Where
# TensorFlow is found too (TP_INTEROP_PYTHON may name a Python that has all of them), it reads and writes checkpoints.
# Augmentors are held against Pillow and numpy, and OpenCV where it is found or can be installed, on the photographs that
# TP_TEST_IMAGES names (a folder or a .tar.gz) or on generated ones. pyzmq is installed too, for tests/test_zmq.c.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build
venv=build/venv
py=${TP_INTEROP_PYTHON:-$venv/bin/python}
packages="numpy pillow safetensors tensorboard setuptools onnx onnxruntime"
if ! "$py" -c 'import numpy, PIL, safetensors, tensorboard, onnx, onnxruntime' 2>/dev/null; then
    py=$venv/bin/python
    python=python3
    command -v python3 >/dev/null || python=""
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! { [ -n "$python" ] && python3 -c 'import venv, ensurepip' 2>/dev/null; }; then
        (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3 python3-venv) >/dev/null 2>&1 || true
        python=python3
    fi
    # shellcheck disable=SC2086
    if [ -z "$python" ] || ! $python -m venv "$venv" 2>/dev/null || ! "$venv/bin/pip" install -q $packages >build/pip.log 2>&1; then
        echo "interop cannot run: $packages could not be installed into $venv (no network? build/pip.log says more)"
        exit 1
    fi
fi
if [ "$py" = "$venv/bin/python" ] && ! "$py" -c 'import cv2, zmq' 2>/dev/null; then
    timeout 300 "$venv/bin/pip" install -q opencv-python-headless pyzmq >>build/pip.log 2>&1 ||
        echo "OpenCV and pyzmq could not be installed: their checks are left out (build/pip.log)"
fi
command -v gcc >/dev/null || bash tests/setup.sh
dir=build/interop
rm -rf "$dir"; mkdir -p "$dir/onnx"
compilers=()
for source in tests/interop_write.c examples/mnist_convnet.c tests/test_export_onnx.c tests/onnx_cases.c; do
    gcc -std=c11 -O1 -I. -Itests "$source" -o "$dir/$(basename "$source" .c)" -lm -lpthread &
    compilers+=($!)
done
for c in "${compilers[@]}"; do wait "$c"; done
"$py" tests/interop.py writes "$dir"
"$dir/interop_write" "$dir"
(cd "$dir" && ./mnist_convnet --epochs 1 --steps 30 >train.log 2>&1) || { tail -n 20 "$dir/train.log"; exit 1; }
"$py" tests/interop.py check "$dir"
# exported models: one for each op and form, networks, folders of a model server
TP_ONNX_DIR=$dir/onnx "$dir/test_export_onnx" >"$dir/export_onnx.log" 2>&1 || { tail -n 20 "$dir/export_onnx.log"; exit 1; }
"$py" tests/onnx_judge.py exported "$dir/onnx"
# ... and read back by tp itself; then the ONNX project's own operator cases
"$py" tests/onnx_cases.py exported "$dir/onnx" "$dir/onnx_cases"
"$py" tests/onnx_cases.py operators "$dir/onnx_operators" "$dir/onnx_cases"
# augmentors on photographs
"$py" tests/interop_augment.py rows "$dir"
gcc -std=c11 -O1 -I. "-I$dir" tests/interop_augment.c -o "$dir/interop_augment" -lm -lpthread
"$dir/interop_augment" "$dir"
"$py" tests/interop_augment.py check "$dir"
