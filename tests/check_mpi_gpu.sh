#!/usr/bin/env bash
# Several processes with a GPU each, the CUDA stand-in's: tests/test_mpi.c on 2 and 3 ranks, whose gradients travel by the stand-in's NCCL
# (through files), and a rank that is killed.
set -u
cd "$(dirname "$0")/.."
. tests/mpi.sh
command -v g++ >/dev/null || { echo "g++ is missing (Debian: g++)"; exit 77; }
dir=build/test/mpi_gpu
rm -rf "$dir"
mkdir -p "$dir/nccl"
failed=0
fail() { echo "FAIL $*"; failed=1; }
export TP_SHIM_NCCL=$PWD/$dir/nccl

implemented=""
for h in tp_*.h; do h=${h#tp_} h=${h%.h}; implemented="$implemented -DTP__${h^^}_IMPLEMENTED"; done
{ echo '#define TP_IMPLEMENTATION'; printf '#include "%s"\n' tp_train.h tp_layers.h; } >"$dir/library.c"
shim="-g1 -DTP_CUDA_SHIM -Itests/gpu/shim -I."
library=build/test/mpi/library.o # of check_mpi.sh, which runs before
if [ -e "$library" ] && [ -z "$(find tp_*.h -newer "$library")" ] && [ -z "${SANITIZE:-}" ]; then cp "$library" "$dir/library.o"
else $mpicc -std=c11 -O0 -DTP_MPI -I. -c "$dir/library.c" -o "$dir/library.o" || exit 1; fi
for f in tp_cuda.cu tests/gpu/shim/shim.cpp tests/gpu/shim/libraries.cpp; do
    g++ -x c++ -std=c++17 -O0 $shim -Wno-unknown-pragmas -c "$f" -o "$dir/$(basename "$f").o" || exit 1
done
for t in test_mpi mpi_job; do
    $mpicc -std=gnu11 -O0 $shim -Wall -Wextra -Werror -DTP_MPI $implemented -Itests "tests/$t.c" "$dir"/*.o -o "$dir/$t" \
        -lstdc++ -lm -lpthread || exit 1
done

for n in 2 3; do
    timeout 120 $start -np $n "$dir/test_mpi" >"$dir/log" 2>&1 </dev/null || fail "test_mpi on $n ranks"
    [ "$(grep -o ' 0 failed' "$dir/log" | wc -l)" = $n ] || { fail "test_mpi on $n ranks"; grep -v '^ok ' "$dir/log" | head -n 20; }
done

# A rank is lost in mid-epoch: the others do not wait for its sums for ever.
rm -f "$dir/job.killed"
timeout 60 $start -np 3 sh -c "$dir/mpi_job horovod kill $dir/job 1 1.5; sleep 60" >"$dir/log" 2>&1 </dev/null && fail "a killed job was a success"
t=$(since_kill "$dir/job")
at_most "$t" 20 || fail "a rank was killed: the others stopped ${t:-?} s later" # 10 where the processors are free
grep -q "by NCCL" "$dir/log" || fail "NCCL was not used"
grep -q "rank 0: TP_ERR_IO.*rank 1 of 3 has given no sign of life" "$dir/log" || { fail "a rank was killed: no sentence"; tail -n 10 "$dir/log"; }
exit $failed
