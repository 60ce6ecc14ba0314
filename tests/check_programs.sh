#!/usr/bin/env bash
# Programs that no test runs compile without a warning: benchmarks, fuzzers, what the tests against other programs
# are made of.
set -eu
cd "$(dirname "$0")/.."
warn="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"
for source in tests/bench/*.c tests/fuzz_*.c tests/interop_write.c tests/onnx_cases.c; do
    case "$source" in tests/fuzz_files.c | tests/fuzz_import.c) cc="clang -std=gnu11" ;; *) cc="gcc -std=c11" ;; esac
    $cc $warn -fsyntax-only -I. -Itests "$source" || { echo "$source"; exit 1; }
done
