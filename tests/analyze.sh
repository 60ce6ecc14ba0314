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
# alone <header>: $out/<header>/all.c, an implementation of all headers in which only this one's functions have bodies, in their lines.
# One-line functions and inline ones keep theirs.
alone() {
    local h
    mkdir -p "$out/$1"
    for h in tp_*.h; do
        if [ "$h" = "tp_$1.h" ]; then cp "$h" "$out/$1/"; continue; fi
        awk 'skip { if ($0 ~ /^}/) skip = 0; print ""; next }
             $0 == "{" && last ~ /\)$/ && !keep { print ";"; skip = 1; last = ""; next }
             /^[A-Za-z]/ { keep = ($0 ~ /inline|TP__INLINE/) }
             { print; last = $0 }' "$h" >"$out/$1/$h"
    done
    { echo '#define TP_IMPLEMENTATION'; printf '#include "%s"\n' tp_*.h; } >"$out/$1/all.c"
}
# Header by header, within 10 minutes each; preprocessed by gcc, because cppcheck does not expand all macros. It loses count of the lines
# then: a finding comes with its line of code. One configuration: Linux, 64 bits, the plain loops (tp_fast.h: its own).
analyze_cppcheck() {
    local h plain bad=0
    : >"$out/cppcheck.log"
    for h in ${HEADERS:-tensor graph layers optim input callbacks train export import fast}; do
        alone "$h"
        plain=-DTP_NAIVE
        [ "$h" != fast ] || plain=
        gcc -std=gnu11 -E -P $plain -DTP_NO_STB_IMAGE "-I$out/$h" "$out/$h/all.c" -o "$out/$h/all.i" || return 1
        timeout 600 cppcheck --quiet --std=c11 --language=c --platform=unix64 --enable=warning,portability --inline-suppr \
            --suppressions-list=tests/cppcheck.txt --max-configs=1 "--template=tp_$h.h: {severity}: {message} [{id}] in: {code}" \
            "$out/$h/all.i" >"$out/$h/log" 2>&1 ||
            echo "tp_$h.h: error: cppcheck did not end (status $?)" >>"$out/$h/log"
        grep -E '^tp_.*(error|warning|portability):' "$out/$h/log" | cut -c1-400 >>"$out/cppcheck.log"
    done
    # __Y: of gcc's intrinsics (_mm_undefined_ps)
    grep -vE "'__[XY]'|: __[XY]" "$out/cppcheck.log" | grep -vF "$(sed -n 's/^# not: //p' tests/cppcheck.txt)" || return 0
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
