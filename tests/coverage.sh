#!/usr/bin/env bash
# Lines and branches of each header that the tests run through: one configuration, built with gcc --coverage; needs gcov and
# python3.
#   tests/coverage.sh [test...]      what is not run is listed in build/coverage/<header>.missing
# All tests count into the one object that holds the implementation. Tests that look inside (TP_STATIC, TP_NAIVE) have an
# implementation of their own, and so have the ranks of test_mpi; tests/coverage.py adds what they ran.
set -eu
cd "$(dirname "$0")/.."
command -v gcov >/dev/null || { echo "gcov (Debian package gcc) is missing"; exit 77; }
dir=$PWD/build/coverage
rm -rf "$dir"
mkdir -p "$dir"
{ echo '#define TP_IMPLEMENTATION'; printf '#include "%s"\n' tp_*.h; } >"$dir/all.c"
implemented="" # makes a test's own TP_IMPLEMENTATION implement nothing
for h in tp_*.h; do h=${h#tp_} h=${h%.h}; implemented="$implemented -DTP__${h^^}_IMPLEMENTED"; done
# -O1: kernels that are unrolled by constants are counted as they are left, not with the branches that no constant takes
flags="-std=gnu11 -O1 -fno-inline -g1 -w --coverage -fprofile-update=atomic -DTP_TEST_COVERAGE -I. -Itests"
gcc $flags -c "$dir/all.c" -o "$dir/all.o"
tests=("$@")
[ ${#tests[@]} != 0 ] || for t in tests/test_*.c; do tests+=("$(basename "$t" .c)"); done
export TP_TEST_QUICK=1
[ -n "${TP_TEST_PYTHON:-}" ] || { [ -x build/venv/bin/python ] && export TP_TEST_PYTHON=$PWD/build/venv/bin/python; }
for t in "${tests[@]}"; do
    extra=$(sed -n 's|^/\* needs: \(.*\) \*/$|\1|p' "tests/$t.c") # as in run.sh: a header, then flags
    [ -e "/usr/include/${extra%% *}" ] && extra=${extra#* } || extra=""
    if grep -qE '^#define (TP_STATIC|TP_NAIVE)' "tests/$t.c"; then
        gcc $flags $extra -c "tests/$t.c" -o "$dir/$t.o"
        gcc "$dir/$t.o" --coverage -o "$dir/$t" $extra -lm -lpthread
    else
        gcc -std=gnu11 -O0 -w $implemented -DTP_TEST_COVERAGE -I. -Itests "tests/$t.c" "$dir/all.o" --coverage -o "$dir/$t" -lm -lpthread
    fi
    timeout -k 10 "${TP_TEST_LIMIT:-600}" "$dir/$t" >"$dir/$t.log" 2>&1 </dev/null || echo "$t: $(tail -n 1 "$dir/$t.log")"
done
if [ $# = 0 ] && mpicc=$(bash -c '. tests/mpi.sh && echo "$mpicc"'); then # what only several ranks run, in an implementation of its own
    . tests/mpi.sh
    $mpicc $flags -DTP_MPI tests/test_mpi.c -o "$dir/test_mpi_ranks" -lm -lpthread
    for n in 2 4; do
        timeout 300 $start -np $n "$dir/test_mpi_ranks" >"$dir/test_mpi_ranks.log" 2>&1 </dev/null || echo "test_mpi on $n ranks failed"
    done
fi
python3 tests/coverage.py "$dir"
