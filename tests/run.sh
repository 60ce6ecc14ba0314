#!/usr/bin/env bash
# Build and run every test in every configuration that `make test` promises; the last line is the sum.
#   tests/run.sh [part of a test's or configuration's name]
# As many at a time as there are processors, or TP_TEST_JOBS.
set -u
cd "$(dirname "$0")/.."
only=${1:-}
out=build/test
mkdir -p "$out"
passed=0 failed=0 skipped=0
run_with="" # what runs a test that the machine itself cannot run
warn="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"

jobs=${TP_TEST_JOBS:-$(nproc 2>/dev/null || echo 2)}
order=()

# start <name> <command...>: in the background, its report in <name>.report, which ends with "passed failed skipped"
start() {
    local name=$1; shift
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
    order+=("$name")
    rm -f "$out/$name.report"
    ("$@") >"$out/$name.report" 2>&1 </dev/null &
}

# what a test prints and counts: one_test <configuration> <test> <compiler and flags...>
one_test() {
    local config=$1 name=$2; shift 2
    local exe=$out/$config-${name##*/} log=$out/$config-${name##*/}.log src=tests/$name.c
    case "$name" in *.cpp) src=tests/$name ;; esac
    if ! "$@" -Itests -I. "$src" -o "$exe" -lm -lpthread >"$log" 2>&1; then
        echo "FAIL $config/$name (does not compile)"; head -n 20 "$log"; echo "0 1 0"; return
    fi
    $run_with "$exe" >"$log" 2>&1 </dev/null
    counted "$config/$name" "$log" $?
}
# the sum that a test printed last: counted <name> <log> <status>
counted() {
    local name=$1 log=$2 rc=$3 line
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
    if [ -z "$line" ]; then
        echo "FAIL $name (ended with status $rc)"; tail -n 15 "$log"; echo "0 1 0"; return
    fi
    local p f s
    p=$(echo "$line" | sed -E 's/^([0-9]+) passed.*/\1/')
    f=$(echo "$line" | sed -E 's/.* ([0-9]+) failed.*/\1/')
    s=$(echo "$line" | sed -nE 's/.* ([0-9]+) skipped.*/\1/p')
    echo "     $name: $line"
    if [ "$f" != 0 ] || [ "$rc" != 0 ]; then
        [ "$f" = 0 ] && f=1
        grep -vE '^ok ' "$log" | tail -n 40
    fi
    echo "$p $f ${s:-0}"
}
run_test() {
    case "$1/$2" in *"$only"*) start "$1-${2##*/}" one_test "$@" ;; esac
}

one_check() { # status 77: it cannot be made here, and says why
    local name log rc
    name=$(basename "$1" .sh)
    log=$out/$name.sh.log
    bash "$1" >"$log" 2>&1
    rc=$?
    if [ $rc = 0 ]; then echo "ok   $name"; echo "1 0 0"
    elif [ $rc = 77 ]; then echo "skip $name: $(tail -n 1 "$log")"; echo "0 0 1"
    else echo "FAIL $name"; tail -n 20 "$log"; echo "0 1 0"; fi
}

# the GPU's code on the CPU
one_shim() {
    local log=$out/shim-$1.log
    bash tests/gpu/shim.sh "$1" >"$log" 2>&1
    counted "shim/$1" "$log" $?
}

# with the environment that `make interop` makes, the tests that read and write with numpy run too
[ -n "${TP_TEST_PYTHON:-}" ] || { [ -x build/venv/bin/python ] && export TP_TEST_PYTHON=$PWD/build/venv/bin/python; }

tests=$(cd tests && ls test_*.c | sed 's/\.c$//')
for t in $tests; do run_test gcc-c11 "$t" gcc -std=c11 -O2 $warn; done
for t in $tests; do run_test clang-c99 "$t" clang -std=c99 -O2 $warn; done
for t in test_ops test_graph test_train test_amx; do run_test g++-17 "$t" g++ -x c++ -std=c++17 -O1 $warn; done
export TP_TEST_QUICK=1
for t in $tests; do
    run_test asan "$t" gcc -std=gnu11 -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer $warn
done
for t in test_tensor test_engine test_input test_train test_graph test_predict test_devices test_towers; do run_test tsan "$t" gcc -std=gnu11 -O1 -g -fsanitize=thread $warn; done
# NEON, run by an emulator where there is one
if command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null; then
    run_with="qemu-aarch64 -L /usr/aarch64-linux-gnu"
    for t in test_engine test_ops; do run_test neon "$t" aarch64-linux-gnu-gcc -std=c11 -O2 $warn; done
    run_with=""
else
    echo "     neon: not run (Debian packages gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user)"
fi
# CUDA on the CPU, which the GPU's code is tested with; the thread sanitizer sees races between the threads of a kernel
shim="-std=c++17 -g -DTP_CUDA_SHIM -Itests/gpu/shim tests/gpu/shim/shim.cpp tests/gpu/shim/libraries.cpp"
if command -v clang++ >/dev/null; then
    run_test shim-asan gpu/test_shim.cpp clang++ -O0 -fsanitize=address,undefined -fno-sanitize-recover=undefined $warn $shim
    run_test shim-tsan gpu/test_shim.cpp clang++ -O0 -fsanitize=thread $warn $shim
elif command -v g++ >/dev/null; then
    run_test shim gpu/test_shim.cpp g++ -O1 $warn $shim
else
    echo "     shim: not run (no C++ compiler)"
fi
run_test zip64 test_files gcc -std=c11 -O2 -DTP__ZIP64_FROM=200u $warn
run_test processor test_amx gcc -std=c11 -O2 -DAMX_REAL $warn # with its own instructions, where it has them
run_test naive test_ops gcc -std=c11 -O2 -DTP_NAIVE $warn
for t in test_train test_towers; do run_test no-threads "$t" gcc -std=c11 -O2 -DTP_NO_THREADS $warn; done

for t in test_cuda test_shim; do
    case "shim/$t" in *"$only"*) start "shim-$t" one_shim "$t" ;; esac
done

for s in tests/check_*.sh; do
    case "$s" in *"$only"*) start "$(basename "$s" .sh)" one_check "$s" ;; esac
done

wait
for name in ${order[@]+"${order[@]}"}; do
    head -n -1 "$out/$name.report"
    read -r p f s <<<"$(tail -n 1 "$out/$name.report")"
    case "$p/$f/$s" in *[!0-9/]* | //) echo "FAIL $name (no result)"; p=0 f=1 s=0 ;; esac
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
[ "$skipped" = 0 ] || echo "$skipped skipped (they say why in build/test/*.log)"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
