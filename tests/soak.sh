#!/usr/bin/env bash
# Long runs: trainings of ten million steps, ten thousand cycles of each object, five hundred kills. `make soak`; not part of
# `make test`, which has their short forms. An hour and more of one processor; tests/RESULTS.md has the last results.
#   tests/soak.sh [steps|cycles|kills|ranks ...]
#   SOAK_STEPS=10000000 SOAK_CYCLES=10000 SOAK_KILLS=500 SOAK_RANK_KILLS=60    how much of each
#   TP_TEST_SEED=7    the seed of the kills, which is printed: it repeats a failure as far as the machine's time allows
set -u
cd "$(dirname "$0")/.."
out=build/soak
mkdir -p "$out"
export TP_TEST_SEED=${TP_TEST_SEED:-$(date +%s)}
[ -n "${TMPDIR:-}" ] || { [ -w /dev/shm ] && export TMPDIR=/dev/shm; } # where fsync takes no time

{ echo '#define TP_IMPLEMENTATION'; printf '#include "%s"\n' tp_[!f]*.h; } >"$out/library.c"
implemented=""
for h in tp_*.h; do h=${h#tp_} h=${h%.h}; implemented="$implemented -DTP__${h^^}_IMPLEMENTED"; done
build() { # the test of this name, with the headers at -O2
    [ -e "$out/library.o" ] && [ -z "$(find tp_*.h -newer "$out/library.o")" ] ||
        ${CC:-gcc} -std=c11 -O2 -g -I. -c "$out/library.c" -o "$out/library.o" || exit 1
    ${CC:-gcc} -std=c11 -O1 -g $implemented -I. -Itests "tests/$1.c" "$out/library.o" -o "$out/$1" -lm -lpthread || exit 1
}
soak_steps() { build test_soak && "$out/test_soak" steps "${SOAK_STEPS:-10000000}"; }
soak_cycles() { build test_misuse && "$out/test_misuse" cycles "${SOAK_CYCLES:-10000}" </dev/null; }
soak_kills() { build test_whole && TP_TEST_KILLS=${SOAK_KILLS:-500} "$out/test_whole" =several_trainers_are_killed; }
soak_ranks() { # kills of the ranks of MPI jobs
    command -v mpirun >/dev/null || { echo "skip: mpirun is not installed"; return 0; }
    TP_TEST_MPI_KILLS=${SOAK_RANK_KILLS:-60} bash tests/check_mpi.sh
}
failed=0
for part in ${*:-steps cycles kills ranks}; do
    began=$(date +%s)
    if soak_$part >"$out/$part.log" 2>&1; then result="ok  "; else result=FAIL failed=1; fi
    echo "$result $part; $(($(date +%s) - began)) s"
    # a line for each function is too much here
    quiet='cycles, [0-9.]* us|^tp> *$|^before step |^$'
    if [ "$result" = FAIL ]; then grep -vE "$quiet" "$out/$part.log" | tail -n 40; else grep -vE "$quiet" "$out/$part.log" | tail -n 8; fi
done
exit $failed
