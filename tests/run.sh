#!/usr/bin/env bash
# Build and run every test in every configuration that `make test` promises; the last line is the sum.
#   tests/run.sh [part of a test's or configuration's name]
set -u
cd "$(dirname "$0")/.."
only=${1:-}
out=build/test
mkdir -p "$out"
passed=0 failed=0 skipped=0
run_with="" # what runs a test that the machine itself cannot run
warn="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"

note() { # status name
    if [ "$1" = 0 ]; then passed=$((passed + 1)); echo "ok   $2"; else failed=$((failed + 1)); echo "FAIL $2"; fi
}

# run_test <configuration> <test> <compiler and flags...>
run_test() {
    local config=$1 name=$2; shift 2
    case "$config/$name" in *"$only"*) ;; *) return 0 ;; esac
    local exe=$out/$config-$name log=$out/$config-$name.log
    if ! "$@" -Itests -I. "tests/$name.c" -o "$exe" -lm -lpthread >"$log" 2>&1; then
        note 1 "$config/$name (does not compile)"; head -n 20 "$log"; return 0
    fi
    $run_with "$exe" >"$log" 2>&1 </dev/null
    local rc=$?
    local line
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
    if [ -z "$line" ]; then
        note 1 "$config/$name (ended with status $rc)"; tail -n 15 "$log"; return 0
    fi
    local p f s
    p=$(echo "$line" | sed -E 's/^([0-9]+) passed.*/\1/')
    f=$(echo "$line" | sed -E 's/.* ([0-9]+) failed.*/\1/')
    s=$(echo "$line" | sed -nE 's/.* ([0-9]+) skipped.*/\1/p')
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + ${s:-0}))
    echo "     $config/$name: $line"
    if [ "$f" != 0 ] || [ "$rc" != 0 ]; then
        [ "$f" = 0 ] && failed=$((failed + 1))
        grep -vE '^ok ' "$log" | tail -n 40
    fi
}

# with the environment that `make interop` makes, the tests that read and write with numpy run too
[ -n "${TP_TEST_PYTHON:-}" ] || { [ -x build/venv/bin/python ] && export TP_TEST_PYTHON=$PWD/build/venv/bin/python; }

tests=$(cd tests && ls test_*.c | sed 's/\.c$//')
for t in $tests; do run_test gcc-c11 "$t" gcc -std=c11 -O2 $warn; done
for t in $tests; do run_test clang-c99 "$t" clang -std=c99 -O2 $warn; done
for t in test_ops test_graph test_train; do run_test g++-17 "$t" g++ -x c++ -std=c++17 -O1 $warn; done
export TP_TEST_QUICK=1
for t in $tests; do
    run_test asan "$t" gcc -std=gnu11 -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer $warn
done
for t in test_tensor test_engine test_input test_train test_graph test_predict; do run_test tsan "$t" gcc -std=gnu11 -O1 -g -fsanitize=thread $warn; done
# NEON, run by an emulator where there is one
if command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null; then
    run_with="qemu-aarch64 -L /usr/aarch64-linux-gnu"
    for t in test_engine test_ops; do run_test neon "$t" aarch64-linux-gnu-gcc -std=c11 -O2 $warn; done
    run_with=""
else
    echo "     neon: not run (Debian packages gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user)"
fi
run_test zip64 test_files gcc -std=c11 -O2 -DTP__ZIP64_FROM=200u $warn
run_test naive test_ops gcc -std=c11 -O2 -DTP_NAIVE $warn
run_test no-threads test_train gcc -std=c11 -O2 -DTP_NO_THREADS $warn

for s in tests/check_*.sh; do
    [ -e "$s" ] || continue
    case "$s" in *"$only"*) ;; *) continue ;; esac
    bash "$s" >"$out/$(basename "$s").log" 2>&1
    rc=$?
    note $rc "$(basename "$s" .sh)"
    [ $rc = 0 ] || tail -n 20 "$out/$(basename "$s").log"
done

[ "$skipped" = 0 ] || echo "$skipped skipped (they say why in build/test/*.log)"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
