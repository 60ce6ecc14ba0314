#!/usr/bin/env bash
# What proves the GPU, on a machine that has one: build, op table, steps, training, sanitizers, benchmarks against PyTorch.
#   tests/gpu/run.sh [folder for logs]      status 0: every part passed; 1: some failed; 77: no GPU or no nvcc here
# environment
#   BUDGET=900     seconds for all of it; parts for which no time is left are skipped, and named
#   PARTS="build suite ..."  only these; names as in the table that it ends with
#   DATA=folder    MNIST's IDX files; without them digits that the library draws
#   PYTHON=python3 one that has PyTorch
#   BIN=folder     programs built before, in place of the build
set -u
cd "$(dirname "$0")/../.."
started=$(date +%s)
budget=${BUDGET:-900}
logs=${1:-build/gpu}
mkdir -p "$logs" && logs=$(cd "$logs" && pwd) || exit 1
export logs
table=$logs/table.txt
: >"$table"
failed=0

if [ -z "${BIN:-}" ]; then
    if [ -z "${CUDA_HOME:-}" ] && ! command -v nvcc >/dev/null; then
        echo "no nvcc: put the CUDA toolkit's bin on PATH or set CUDA_HOME to its folder; nothing was run"
        exit 77
    fi
    if ! nvidia-smi -L >/dev/null 2>&1 && [ ! -e /dev/nvidia0 ]; then
        echo "no NVIDIA GPU on this machine (no nvidia-smi that finds one, no /dev/nvidia0): nothing was run"
        exit 77
    fi
fi

left() { echo $((budget - $(date +%s) + started)); }
row() { printf '%-26s %-8s %5s s  %s\n' "$@" | tee -a "$table"; }
# part <name> <seconds at most> <seconds it needs at least> <command...>: its log's last line are its figures
part() {
    local name=$1 most=$2 least=$3 now rc result time; shift 3
    case " ${PARTS:-$name} " in *" $name "*) ;; *) return 0 ;; esac
    time=$(left)
    if [ "$time" -lt "$least" ]; then row "$name" skipped 0 "$time s are left, it needs $least"; return 0; fi
    [ "$time" -lt "$most" ] && most=$time
    now=$(date +%s)
    timeout -k 5 "$most" bash -c '"$@"' part "$@" >"$logs/$name.log" 2>&1 </dev/null
    rc=$?
    case $rc in
    0) result=ok ;;
    77) result=skipped ;;
    124 | 137) result=TIMEOUT ;;
    *) result=FAILED ;;
    esac
    case $rc in 0 | 77) ;; *) failed=$((failed + 1)); grep -vE '^ok |^FAIL ' "$logs/$name.log" | head -n 5 | cut -c1-200 ;; esac
    row "$name" "$result" $(($(date +%s) - now)) "$(tail -n 1 "$logs/$name.log" | cut -c1-260)"
}

# ---- PyTorch compiles while ours is built and tested: its caches are warm when both are measured ----
python=${PYTHON:-}
for p in $python build/venv/bin/python python3; do
    command -v "$p" >/dev/null && timeout 60 "$p" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null && { python=$p; break; }
    python=""
done
modes=eager,eager-nchw,compile,reduce-overhead
export TORCHINDUCTOR_CACHE_DIR=$logs/inductor TORCHINDUCTOR_FX_GRAPH_CACHE=1 TRITON_CACHE_DIR=$logs/triton
# workload, precision, seconds that it needs at least
benches="mnistcnn.b128/tf32/25 resnet20.b128/tf32/30 lstm256.b128/tf32/30 resnet50.b256/bf16/45 resnet50.b256/bf16/45/resident gpt.tiny/tf32/25"
warm_caches() {
    local b w p mode
    for b in $benches; do
        IFS=/ read -r w p _ <<<"$b"
        for mode in compile reduce-overhead; do
            timeout 150 nice "$python" tests/bench/torch_gpu.py --workload "$w" --precision "$p" --mode $mode --seconds 0
        done
    done >"$logs/warm.log" 2>&1
}
export -f warm_caches
export benches python
warming=""
case " ${PARTS:-gpt.tiny} " in *.b[1-9]* | *gpt.*)
    [ -n "$python" ] && { setsid bash -c warm_caches </dev/null & warming=$!; }
    trap '[ -n "$warming" ] && kill -- -"$warming" 2>/dev/null' EXIT ;;
esac

# ---- the parts: each a function whose last line are its figures ----
arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d ' .')
case $arch in '' | *[!0-9]*) arch=native ;; esac
export arch logs python bin=${BIN:-$PWD/build/cuda-$arch} DATA=${DATA:-}
bin=$(mkdir -p "$bin" && cd "$bin" && pwd)

build() {
    if [ -z "${CUDNN_HOME:-}" ] && [ -n "$python" ]; then # where the toolkit comes without cuDNN, PyTorch brings one
        CUDNN_HOME=$("$python" -c 'import importlib.util as u; print(u.find_spec("nvidia.cudnn").submodule_search_locations[0])' 2>/dev/null)
        [ -d "${CUDNN_HOME:-}" ] && export CUDNN_HOME
    fi
    make -j CUDA=1 ARCH="$arch" || return 1
    echo "for $arch; $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1)"
}
suite() { "$bin/test_cuda"; }

# Epochs of MNIST with the same seed on both: the GPU's error is the CPU's, but for the luck of some digits.
digits() { # <folder> <epochs> <arguments...>
    local dir=$logs/$1 epochs=$2; shift 2
    rm -rf "$dir" && mkdir -p "$dir" && cd "$dir" || return 1
    "$bin/mnist_convnet" ${DATA:+--data "$DATA"} --seed 9 --epochs "$epochs" "$@" >out.log 2>&1 || { tail -n 3 out.log; return 1; }
}
errors() { # of every epoch
    grep -o '"validation_error": [0-9.e-]*' "$logs/$1/train_log/mnist_convnet/stats.json" | cut -d' ' -f2
}
mnist() {
    digits mnist-cpu 3 & local cpu=$! began
    began=$(date +%s)
    (digits mnist-gpu 3 --gpu 0) || return 1
    local seconds=$(($(date +%s) - began))
    wait $cpu || return 1
    local ours theirs
    ours=$(errors mnist-gpu | sort -g | head -n 1) theirs=$(errors mnist-cpu | sort -g | head -n 1)
    echo "validation error $ours on the GPU, $theirs on the CPU, best of 3 epochs; the GPU's took $seconds s"
    awk -v a="$ours" -v b="$theirs" 'BEGIN { exit !(a != "" && b != "" && a <= b + 0.002) }'
}
repeats() {
    (digits repeat-1 2 --gpu 0) && (digits repeat-2 2 --gpu 0) || return 1
    local last
    last=$(ls -t "$logs"/repeat-1/train_log/mnist_convnet/model-*.npz | head -n 1)
    cmp "$last" "$logs/repeat-2/train_log/mnist_convnet/${last##*/}" && echo "two trainings, the same $(stat -c %s "$last") bytes in ${last##*/}"
}

# A few cases of each kind of kernel, and steps; the tools slow a program ten to a hundred times.
sanitize() { # <tool>
    command -v compute-sanitizer >/dev/null || { echo "no compute-sanitizer here"; return 77; }
    export TP_CUDA_OPS="add matmul conv2d conv2d_input_grad conv2d_filter_grad max_pool max_pool_grad reduce_sum softmax batch_norm batch_norm_grad layer_norm gather transpose lstm attention apply_adam"
    local test tests="a_step_is the_op_table_on_float32"
    [ "$1" != racecheck ] || tests="few_channels_by_tensor_cores batch_norms_across_blocks" # of whole steps it takes minutes
    for test in $tests; do
        compute-sanitizer --tool "$1" --error-exitcode 9 --print-limit 5 "$bin/test_cuda" $test >"$logs/sanitize-$1-$test.log" 2>&1
        local rc=$?
        if grep -qiE 'device not supported|not supported on this|unable to (attach|find)|internal error|debugger is not' "$logs/sanitize-$1-$test.log"; then
            echo "compute-sanitizer refuses this card: $(grep -iE 'not supported|unable|internal error|debugger' "$logs/sanitize-$1-$test.log" | head -n 1)"
            return 77
        fi
        if [ $rc != 0 ]; then
            tail -n 30 "$logs/sanitize-$1-$test.log"
            echo "$test: status $rc, $(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$logs/sanitize-$1-$test.log" | tail -n 1)"
            return 1
        fi
    done
    echo "$tests: $(grep -hE 'SUMMARY' "$logs/sanitize-$1-$test.log" | tail -n 1)"
}

bench() { # <workload> <precision> [resident]: status 0 also where a goal is missed; the ratio stands in the table
    local modes=$modes
    [ -n "$python" ] || modes=
    case $1 in lstm* | gpt*) modes=${modes/eager-nchw,/} ;; esac
    "${python:-python3}" tests/gpu/pair_gpu.py "$1" "$2" "$bin/bench" --modes "$modes" --rounds 3 --seconds 0.7 --limit 90 ${3:+--resident}
}
ours_alone() { # no Python at all
    "$bin/bench" "$1" 1 2 --precision "$2" --gpu 0 ${3:+--resident}
}
export modes
export -f build suite digits errors mnist repeats sanitize bench ours_alone

# ---- in order ----
[ -n "${BIN:-}" ] || part build 270 20 build
part suite 240 20 suite
part mnist 90 15 mnist
part repeats 60 10 repeats
for t in memcheck racecheck initcheck; do part "$t" 45 15 sanitize $t; done
if [ -n "$warming" ]; then # no longer than leaves time to measure
    while kill -0 "$warming" 2>/dev/null && [ "$(left)" -gt 210 ]; do sleep 1; done
    kill -- -"$warming" 2>/dev/null
    wait "$warming" 2>/dev/null
fi
[ -n "$python" ] || echo "no Python whose PyTorch sees the GPU (set PYTHON): ours alone"
command -v python3 >/dev/null && how=bench || how=ours_alone
for b in $benches; do
    IFS=/ read -r w p least resident <<<"$b"
    part "$w.$p${resident:+.resident}" 150 "$least" $how "$w" "$p" ${resident:-}
done

echo
echo "== $(date -u +%F) $(git rev-parse --short HEAD 2>/dev/null), $(($(date +%s) - started)) s, logs in $logs"
cat "$table"
echo "goals, PyTorch's best time / ours: mnistcnn 3, resnet20 2, lstm256 1.5, resnet50 1 with no more memory"
[ $failed = 0 ] || echo "$failed parts failed"
[ $failed = 0 ]
