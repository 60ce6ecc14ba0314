#!/usr/bin/env bash
# Static analysis of all headers: gcc -fanalyzer, clang's analyzer (clang --analyze), clang-tidy (bugprone-*) and cppcheck, those that are
# installed. Fails on a finding. `make analyze`; not part of `make test`: it takes about two hours.
#   tests/analyze.sh [gcc|clang|tidy|cppcheck ...]      HEADERS="optim layers" tests/analyze.sh gcc
# What is not reported, and why, stands in one place for each: tests/analyze_known.txt (gcc, clang), .clang-tidy and tests/cppcheck.txt.
set -u
cd "$(dirname "$0")/.."
out=build/analyze
mkdir -p "$out"
{ echo '#define TP_IMPLEMENTATION'; printf '#include "%s"\n' tp_*.h; } >"$out/all.c"
failed="" ran=0
headers=${HEADERS:-tensor graph layers optim input callbacks train export import fast}

# part <header> <folder> <n> <lines>: <folder>/all.c, an implementation of all headers in which only this header's functions of part n have
# bodies, in their lines; parts are cut every so many lines. One-line functions and inline ones keep theirs. False behind the last part.
part() {
    local h
    mkdir -p "$2"
    for h in tp_*.h; do
        awk -v want="$([ "$h" = "tp_$1.h" ] && echo "$3" || echo -1)" -v size="$4" '
             skip { lines++; if ($0 ~ /^}/) skip = 0; print ""; next }
             $0 == "{" && last ~ /\)$/ && !keep {
                 if (lines >= size) { part++; lines = 0 }
                 if (part != want) { print ";"; skip = 1; last = ""; next }
                 inside = 1; found = 1
             }
             inside { lines++; if ($0 ~ /^}/) inside = 0 }
             /^[A-Za-z]/ { keep = ($0 ~ /inline|TP__INLINE/) }
             { print; last = $0 }
             END { exit want >= 0 && !found }' "$h" >"$2/$h" || return 1
    done
    { echo '#define TP_IMPLEMENTATION'; printf '#include "%s"\n' tp_*.h; } >"$2/all.c"
}
# known <tool> <log>: prints the findings of the log with their line of code, but for those of tests/analyze_known.txt; true if there are none
known() {
    awk -F '\t' -v tool="$1" '
        FNR == NR { if ($0 !~ /^#/ && $1 == tool) reason[$2 "\t" $3] = $4; next }
        { split($0, at, ":"); code = ""
          if (at[1] ~ /^tp_/ && at[2] > 0) {
              for (i = 1; i <= at[2] && (getline code < at[1]) > 0; i++) ;
              close(at[1]); gsub(/^[ \t]+/, "", code); gsub(/\t/, " ", code)
          }
          if (reason[at[1] "\t" code] == "") { print $0 "  in: " code; bad = 1 } }
        END { exit bad }' tests/analyze_known.txt "$2"
}
# in_parts <tool> <lines> <command...>: the command on each part of each header, PART standing for the part's folder. What it warns of
# goes to build/analyze/<tool>.log, its complete output to <tool>/<header>.<part>.log.
in_parts() {
    local tool=$1 lines=$2 h n log plain
    shift 2
    mkdir -p "$out/$tool"
    : >"$out/$tool.log"
    for h in $headers; do
        plain=-DTP_NAIVE
        [ "$h" != fast ] || plain=-UTP_NAIVE
        for ((n = 0; ; n++)); do
            part "$h" "$out/$tool/part" "$n" "$lines" || break
            log=$out/$tool/$h.$n.log
            timeout 600 "${@//PART/$out/$tool/part}" $plain >"$log" 2>&1 || echo "tp_$h.h: error: part $n: $tool did not end (status $?)" >>"$log"
            # what stands in the compiler's own header of intrinsics (clang 14: cetintrin.h) is not ours
            grep -hE 'error:|warning:.*(\[-Wanalyzer|\[[a-z]+\.)' "$log" | grep -v '/cetintrin\.h:' | sed "s|^$out/$tool/part/||" >>"$out/$tool.log"
        done
        [ "$n" != 0 ] || echo "tp_$h.h: error: no function" >>"$out/$tool.log"
    done
    known "$tool" "$out/$tool.log"
}
# gcc gives up where a part has too many paths, which -Wanalyzer-too-complex would tell: parts are small for this reason
analyze_gcc() {
    (ulimit -v 12000000; in_parts gcc 400 gcc -std=gnu11 -O0 -IPART -fanalyzer -Wno-unused-function -c PART/all.c -o /dev/null)
}
analyze_clang() { # without the option -analyzer-opt-analyze-headers it looks at no function of a header
    in_parts clang 1000 clang --analyze -std=gnu11 -IPART -Wno-undefined-internal -Xclang -analyzer-opt-analyze-headers \
        -Xclang -analyzer-checker=core,unix,deadcode,security -Xclang -analyzer-output=text \
        -Xclang -analyzer-disable-checker=security.insecureAPI PART/all.c
}
analyze_tidy() {
    clang-tidy --quiet --header-filter='.*/tp_[a-z]*\.h$' "$out/all.c" -- -std=c11 -I. >"$out/tidy.log" 2>"$out/tidy.err"
    ! grep -E '(warning|error):' "$out/tidy.log"
}
# Header by header, within 10 minutes each; preprocessed by gcc, because cppcheck does not expand all macros. It loses count of the lines
# then: a finding comes with its line of code. One configuration: Linux, 64 bits, the plain loops (tp_fast.h: its own).
analyze_cppcheck() {
    local h plain bad=0
    : >"$out/cppcheck.log"
    for h in $headers; do
        part "$h" "$out/$h" 0 99999 || return 1
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
for tool in ${*:-gcc clang tidy cppcheck}; do
    case $tool in gcc) program=gcc ;; tidy) program=clang-tidy ;; *) program=$tool ;; esac
    if ! command -v $program >/dev/null; then echo "     $tool: $program is not installed"; continue; fi
    began=$(date +%s)
    if analyze_$tool; then echo "ok   $tool; $(($(date +%s) - began)) s"; else echo "FAIL $tool; $(($(date +%s) - began)) s"; failed="$failed $tool"; fi
    ran=$((ran + 1))
done
[ $ran != 0 ] && [ -z "$failed" ]
