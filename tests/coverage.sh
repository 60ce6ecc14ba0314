#!/usr/bin/env bash
# Lines and branches of each header that the tests run through: one configuration, built with gcc --coverage; needs gcov.
#   tests/coverage.sh [test...]      what is not run is marked ##### in build/coverage/<header>.gcov
# A line counts as run where one of the tests ran it: all count into the one object that holds the implementation. Tests that
# look inside (TP_STATIC) have their own, and are left out, unless they are named.
set -eu
cd "$(dirname "$0")/.."
command -v gcov >/dev/null || { echo "gcov (Debian package gcc) is missing"; exit 77; }
dir=$PWD/build/coverage
rm -rf "$dir"
mkdir -p "$dir"
{ echo '#define TP_IMPLEMENTATION'; printf '#include "%s"\n' tp_*.h; } >"$dir/all.c"
implemented="" # makes a test's own TP_IMPLEMENTATION implement nothing
for h in tp_*.h; do h=${h#tp_} h=${h%.h}; implemented="$implemented -DTP__${h^^}_IMPLEMENTED"; done
flags="-std=gnu11 -O0 -g1 -w --coverage -fprofile-update=atomic -I."
gcc $flags -c "$dir/all.c" -o "$dir/all.o"
tests=("$@")
[ ${#tests[@]} != 0 ] || for t in tests/test_*.c; do
    grep -qE '^#define (TP_STATIC|TP_NAIVE)' "$t" || tests+=("$(basename "$t" .c)")
done
export TP_TEST_QUICK=1
[ -n "${TP_TEST_PYTHON:-}" ] || { [ -x build/venv/bin/python ] && export TP_TEST_PYTHON=$PWD/build/venv/bin/python; }
for t in "${tests[@]}"; do
    gcc -std=gnu11 -O0 -w $implemented -I. -Itests "tests/$t.c" "$dir/all.o" --coverage -o "$dir/$t" -lm -lpthread
    timeout -k 10 "${TP_TEST_LIMIT:-600}" "$dir/$t" >"$dir/$t.log" 2>&1 </dev/null || echo "$t: $(tail -n 1 "$dir/$t.log")"
done
cp tp_*.h "$dir"
(cd "$dir" && gcov -b all.gcda >gcov.log 2>&1)
# from gcov's summary of each file: "File 'tp_graph.h'", "Lines executed:91.00% of 100", "Taken at least once:80.00% of 50"
awk -F"[':% ]+" '
    /^File/ { n = split($2, part, "/"); file = part[n] }
    /^Lines executed/ && file ~ /^tp_.*h$/ { lines[file] = $3; of[file] = $5 }
    /^Taken at least once/ && file ~ /^tp_.*h$/ { taken[file] = $5; branches[file] = $7 }
    END {
        printf "%-18s %8s %8s   %8s %8s\n", "", "lines", "run %", "branches", "taken %"
        for (f in of) {
            printf "%-18s %8d %8.1f   %8d %8.1f\n", f, of[f], lines[f], branches[f], taken[f] | "sort"
            l += of[f]; lr += of[f] * lines[f] / 100; b += branches[f]; bt += branches[f] * taken[f] / 100
        }
        close("sort")
        printf "%-18s %8d %8.1f   %8d %8.1f\n", "all", l, 100 * lr / l, b, 100 * bt / b
    }' "$dir/gcov.log"
