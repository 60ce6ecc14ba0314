#!/usr/bin/env bash
# Ours and PyTorch in turn on one workload: JSON lines, the best peer last.
#   tests/bench/run.sh jpeg <workers>           JPEG files through the input pipeline; CIFAR10_JPEG=<folder of class folders>
#   tests/bench/run.sh ddp.<workload> <ranks>   HorovodTrainer and PyTorch's DistributedDataParallel, a core each; mlp, mnistcnn, resnet20; see ddp.py
#   tests/bench/run.sh <workload> <threads>     environment: PYTHON (with torch), PEER (the peer's script), ROUNDS, SECONDS_EACH
set -eu
cd "$(dirname "$0")/../.."
w=$1 t=$2
mkdir -p build
case "$w" in gemm | gemm.*) # against OpenBLAS and oneDNN, where they are installed
    gcc -std=c11 -O2 -I. tests/bench/gemm.c -o build/gemm -lm -lpthread -ldl
    part=${w#gemm}
    build/gemm "$t" "${part#.}"
    exit 0 ;;
jpeg) # against the decoders alone, Pillow and numpy, torchvision
    [ -d "${CIFAR10_JPEG:-}" ] || { echo "set CIFAR10_JPEG to a folder of class folders with JPEG files" >&2; exit 2; }
    gcc -std=gnu11 -O2 tests/bench/jpeg_stb.c -o build/jpeg_stb -lm -lpthread
    gcc -std=c11 -O2 -I. tests/bench/jpeg.c -o build/jpeg -lm -lpthread
    rm -f build/jpeg_libjpeg build/jpeg_alone
    if [ -e /usr/include/jpeglib.h ]; then # libjpeg-turbo in place of stb_image
        gcc -std=gnu11 -O2 -DTP_JPEG tests/bench/jpeg_stb.c -o build/jpeg_alone -ljpeg -lm -lpthread
        gcc -std=c11 -O2 -DTP_JPEG -I. tests/bench/jpeg.c -o build/jpeg_libjpeg -ljpeg -lm -lpthread
    fi
    for p in ${PYTHON:-} build/venv/bin/python python3; do
        if command -v "$p" >/dev/null && "$p" -c 'import numpy, PIL' 2>/dev/null; then python=$p; break; fi
    done
    python3 tests/bench/jpeg_pair.py "${python:-python3}" "$CIFAR10_JPEG" "$t" "${ROUNDS:-5}" "${SECONDS_EACH:-2}"
    build/jpeg "$CIFAR10_JPEG" "$t" "${SECONDS_EACH:-2}" train 2>/dev/null
    exit 0 ;;
esac
python=${PYTHON:-}
for p in $python build/venv/bin/python python3; do
    if [ -n "$p" ] && command -v "$p" >/dev/null && "$p" -c 'import torch' 2>/dev/null; then python=$p; break; else python=""; fi
done
gcc -std=c11 -O2 -I. tests/bench/bench.c -o build/bench -lm -lpthread
case "$w" in ddp.*) # a job of ranks against DistributedDataParallel
    command -v mpicc >/dev/null || { echo "mpicc is missing (Debian: libopenmpi-dev openmpi-bin)" >&2; exit 2; }
    mpicc -O2 -DTP_MPI -I. tests/bench/ranks.c -o build/ranks -lm -lpthread
    if [ -z "$python" ]; then
        echo "no Python with PyTorch (set PYTHON): ours alone" >&2
        mpirun -np "$t" --bind-to core build/ranks "${w#ddp.}" "${SECONDS_EACH:-2}"
        exit 0
    fi
    "$python" tests/bench/ddp.py "$python" "${w#ddp.}" "$t" "${ROUNDS:-3}" "${SECONDS_EACH:-2}"
    exit 0 ;;
esac
peer=${PEER:-../shared/peers/torch_peer.py}
if [ -z "$python" ] || [ ! -f "$peer" ]; then
    echo "no Python with PyTorch (set PYTHON) or no peer script (set PEER): ours alone" >&2
    build/bench "$w" "$t" "${SECONDS_EACH:-3}"
    exit 0
fi
"$python" tests/bench/pair.py "$python" "$peer" "$w" "$t" "${ROUNDS:-3}" "${SECONDS_EACH:-2}"
