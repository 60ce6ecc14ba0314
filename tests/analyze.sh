#!/usr/bin/env bash
# Static analysis of all headers as one implementation: gcc -fanalyzer, clang-tidy (bugprone-*, clang-analyzer-*) and cppcheck, those that
# are installed. Fails on a finding. `make analyze`; not part of `make test`: it takes many minutes.
#   tests/analyze.sh [gcc|tidy|cppcheck ...]
# What is not reported, and why, stands in one place for each: .clang-tidy and tests/cppcheck.txt.
set -u
cd "$(dirname "$0")/.."
out=build/analyze
mkdir -p "$out"
{ echo '#define TP_IMPLEMENTATION'; printf '#include "%s"\n' tp_*.h; } >"$out/all.c"
failed="" ran=0

analyze_gcc() {
    gcc -std=gnu11 -O0 -I. -fanalyzer -c "$out/all.c" -o /dev/null >"$out/gcc.log" 2>&1
    ! grep 'warning:' "$out/gcc.log"
}
analyze_tidy() { # without the last option clang's analyzer looks at no function of a header
    clang-tidy --quiet --header-filter='.*/tp_[a-z]*\.h$' "$out/all.c" -- -std=c11 -I. -Xclang -analyzer-opt-analyze-headers \
        >"$out/tidy.log" 2>"$out/tidy.err"
    ! grep -E '(warning|error):' "$out/tidy.log"
}
analyze_cppcheck() { # one configuration: Linux, 64 bits, the plain loops
    cppcheck --quiet --std=c11 --language=c --platform=unix64 --enable=warning,portability --suppressions-list=tests/cppcheck.txt \
        --max-configs=1 -D__GNUC__=12 -D__x86_64__ -D__linux__ -DTP_NAIVE -I. --error-exitcode=1 "$out/all.c" 2>"$out/cppcheck.log" && return 0
    cat "$out/cppcheck.log"
    return 1
}
for tool in ${*:-gcc tidy cppcheck}; do
    case $tool in gcc) program=gcc ;; tidy) program=clang-tidy ;; *) program=$tool ;; esac
    if ! command -v $program >/dev/null; then echo "     $tool: $program is not installed"; continue; fi
    began=$(date +%s)
    if analyze_$tool; then echo "ok   $tool; $(($(date +%s) - began)) s"; else echo "FAIL $tool; $(($(date +%s) - began)) s"; failed="$failed $tool"; fi
    ran=$((ran + 1))
done
[ $ran != 0 ] && [ -z "$failed" ]
