#!/usr/bin/env bash
# Every compiler that is installed, and the options that make test leaves out: the headers compile without a warning, and a few tests
# pass. `make compilers`; not part of make test, since each row takes a minute or two of a processor. Debian's packages: gcc-11 and newer,
# clang-14 and newer, musl-tools.
#   tests/compilers.sh [text of a row]
set -u
cd "$(dirname "$0")/.."
out=build/compilers
mkdir -p "$out"
only=${1:-}
tests="test_tensor test_ops test_graph test_layers test_train test_files"
warn="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"

rows=()
for v in 11 12 13 14 15 16; do command -v gcc-$v >/dev/null && rows+=("gcc-$v -std=c11 -O2"); done
for v in 14 15 16 17 18 19 20 21; do command -v clang-$v >/dev/null && rows+=("clang-$v -std=c11 -O2"); done
for v in 11 12 13 14 15 16; do command -v g++-$v >/dev/null && rows+=("g++-$v -std=c++17 -O1"); done
rows+=("gcc -std=c11 -Os" "gcc -std=c11 -O3" "gcc -std=c11 -O2 -flto" "gcc -std=c99 -O2 -march=native" "clang -std=c11 -Os" "clang -std=c11 -O3")
command -v musl-gcc >/dev/null && rows+=("musl-gcc -std=c11 -O2 -static")
options=(TP_NAIVE TP_NO_SEQUENCE_LAYERS TP_NO_AMX TP_NO_WINOGRAD TP_NO_SAFETENSORS TP_NO_TF_CHECKPOINT TP_NO_THREADS TP_NO_DLOPEN TP_NO_SIGNALS TP_UNWIND)
for o in "${options[@]}"; do rows+=("gcc -std=c11 -O0 -D$o"); done

{ echo '#define TP_IMPLEMENTATION'; printf '#include "%s"\n' tp_[!f]*.h; } >"$out/library.c"
implemented=""
for h in tp_*.h; do h=${h#tp_} h=${h%.h}; implemented="$implemented -DTP__${h^^}_IMPLEMENTED"; done
bad=0
for row in "${rows[@]}"; do
    case "$row" in *"$only"*) ;; *) continue ;; esac
    case "$row" in g++*) language="-x c++" ;; *) language="-x c" ;; esac
    log=$out/log
    if ! $row $warn -I. $language -c "$out/library.c" -o "$out/library.o" >"$log" 2>&1; then
        echo "FAIL $row: the headers"; head -n 10 "$log"; bad=1; continue
    fi
    sums=""
    case "$row" in
        *-DTP_NO_* | *-DTP_NAIVE) run="test_train test_graph" ;;
        g++*) run="test_ops test_graph test_places test_train" ;; # others name options, as C++17 cannot
        *) run=$tests ;;
    esac
    for t in $run; do
        files="$implemented $language tests/$t.c -x none $out/library.o"
        ! grep -qE '^#define (TP_STATIC|TP_NAIVE)' "tests/$t.c" || files="$language tests/$t.c -x none"
        if ! $row -I. -Itests $files -o "$out/test" -lm -lpthread >"$log" 2>&1; then
            sums="$sums; $t: does not compile"; head -n 10 "$log"; bad=1; continue
        fi
        TP_TEST_QUICK=1 timeout 600 "$out/test" >"$log" 2>&1 || { bad=1; grep -vE '^ok ' "$log" | tail -n 20; }
        sums="$sums; $t: $(tail -n 1 "$log")"
    done
    echo "$row$sums"
done
exit $bad
