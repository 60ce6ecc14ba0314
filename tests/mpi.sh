# For the checks that start a job of several ranks, which source it from the project's folder: $mpicc, and $start, which is mpirun with
# what it needs here. Ends the check (77: left out) where there is no MPI.
mpicc=${MPICC:-mpicc} mpirun=${MPIRUN:-mpirun}
command -v "$mpirun" >/dev/null && command -v "$mpicc" >/dev/null ||
    { echo "mpicc or mpirun is missing (Debian: libopenmpi-dev openmpi-bin)"; exit 77; }
start="$mpirun ${TP_TEST_MPIRUN:-}"
if $mpirun --version 2>&1 | grep -qE 'Open MPI|OpenRTE|PRRTE'; then
    # Open MPI wants to be asked for more ranks than processors and for root, and binds two ranks to a processor each, with all threads.
    start="$start --oversubscribe --allow-run-as-root --bind-to none"
    # The ranks are on one machine: shared memory, without a look for networks, and without reading each other's memory, which a
    # container may forbid. A rank that waits inside MPI leaves the processor to the others.
    export OMPI_MCA_pml=ob1 OMPI_MCA_btl=^tcp,openib,uct,ofi,usnic OMPI_MCA_btl_vader_single_copy_mechanism=none
    export OMPI_MCA_mpi_yield_when_idle=1 PMIX_MCA_gds=hash
fi

# Seconds since the rank of mpi_job's "kill" in this folder killed itself; nothing where it did not come to that.
since_kill() { [ -e "$1.killed" ] && echo "$(date +%s%N) $(stat -c %.Y "$1.killed")" | awk '{ printf "%.1f", $1 / 1e9 - $2 }'; }
# at_most <seconds> <limit>
at_most() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a <= b) }'; }
