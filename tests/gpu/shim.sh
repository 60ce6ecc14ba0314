#!/usr/bin/env bash
# A test of the GPU's code without a GPU: tp_cuda.cu compiled by g++ against the shim of CUDA in tests/gpu/shim, with
# sanitizers. Ends with "N passed, N failed".
#   tests/gpu/shim.sh [test_cuda|test_shim] [part of a test's name]      environment: SANITIZE=address,undefined
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.."
name=${1:-test_cuda} part=${2:-}
sanitize=${SANITIZE:-address,undefined}
out=build/shim/$name
mkdir -p "$out"
# Of tp_cuda.cu and the CPU's side of its test only memory is checked unless SANITIZE is given: checks of arithmetic double the time
# that gcc needs for them.
memory=${SANITIZE:-address}
flags="-O1 -g1 -fno-sanitize-recover=undefined -fno-omit-frame-pointer -DTP_CUDA_SHIM -Itests/gpu/shim -I."
warn="-Wall -Wextra -Wno-unknown-pragmas -Werror"
cxx="g++ -x c++ -std=c++17 $flags $warn"

pids=()
compile() { # <object> <command...>: in the background
    local object=$1; shift
    "$@" -c -o "$out/$object" & pids+=($!)
}
rm -f "$out"/*.o "$out/$name"
if [ "$name" = test_cuda ]; then
    compile tp_cuda.o $cxx -fsanitize="$memory" --param asan-instrumentation-with-call-threshold=50 tp_cuda.cu
    compile nothing $cxx -fsyntax-only -DTP_NO_NCCL tp_cuda.cu
    compile test.o gcc -std=gnu11 $flags -fsanitize="$memory" -DTP_NAIVE $warn tests/gpu/test_cuda.c
else
    compile test.o $cxx -fsanitize="$sanitize" "tests/gpu/$name.cpp"
fi
# the stand-in's scheduler, which test_shim checks with sanitizers, takes half of test_cuda's time with them
if [ "$name" = test_cuda ] && [ -z "${SANITIZE:-}" ]; then compile shim.o $cxx -O2 -DTP_SHIM_ASAN=1 tests/gpu/shim/shim.cpp
else compile shim.o $cxx -fsanitize="$sanitize" tests/gpu/shim/shim.cpp; fi
compile libraries.o $cxx -fsanitize="$sanitize" tests/gpu/shim/libraries.cpp
for p in "${pids[@]}"; do wait "$p" || { echo "the shim's $name does not compile"; exit 1; }; done
static="" # each change of a lane asks the address sanitizer for variables of its thread, which are found sooner in the program
case $sanitize in *address*) static=-static-libasan ;; esac
g++ -fsanitize="$sanitize" $static "$out"/*.o -o "$out/$name" -lm -lpthread || exit 1
[ "$name/$part" = test_cuda/ ] || exec "$out/$name" $part

# The whole test_cuda tells which block and dynamic shared memory each kernel gets: $out/launches.tsv. tests/check_ptxas.sh needs those
# with dynamic shared memory, without this run: they are kept in tests/gpu/shared.tsv.
TP_SHIM_LAUNCHES=$out/launches "$out/$name" >"$out/log" 2>&1
rc=$?
if [ $rc != 0 ]; then cat "$out/log"; exit $rc; fi
head -n -1 "$out/log"
nm "$out/$name" | awk '{sub(/^_ZL/, "_Z", $3); print $1, $3}' | sort >"$out/symbols"
here=$((16#$(awk '$2 == "tp_shim_launches" {print $1}' "$out/symbols")))
while read -r at threads shared; do printf '%016x %d %d\n' $((here + at)) "$threads" "$shared"; done <"$out/launches" | sort |
    join "$out/symbols" - | awk -v OFS='\t' '{print $2, $3, $4}' | sort >"$out/launches.tsv"
if ! awk '$3 > 0' "$out/launches.tsv" | diff tests/gpu/shared.tsv - >"$out/shared.diff"; then
    cat "$out/shared.diff"
    echo "FAIL tests/gpu/shared.tsv is not what is launched: awk '\$3 > 0' $out/launches.tsv >tests/gpu/shared.tsv"
    rc=1
fi
tail -n 1 "$out/log"
exit $rc
