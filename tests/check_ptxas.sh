#!/usr/bin/env bash
# Each kernel of tp_cuda.cu, as ptxas compiles it, against the launch that it gets: registers and shared memory of the largest block must be
# there on each generation of GPUs, or the launch would fail there. Spilled registers and large stacks are listed, and fail above a limit.
#
# The largest block is 256 threads: TP_KERNEL tells nvcc so, and the stand-in of CUDA (tests/gpu/shim) refuses more. Dynamic shared
# memory is that of tests/gpu/shared.tsv, which the stand-in compares with what test_cuda launches.
#
# TP_TEST_PTXAS=all: compute capability 7.5, 8.0, 8.9, 9.0 and 10.0; otherwise 8.9, which has the least shared memory of those with tensor
# cores that are used: a minute of processor time, unless check_cuda.sh has compiled it. What was compiled of the same source before is
# not compiled again. Status 77 where there is no nvcc.
set -eu
cd "$(dirname "$0")/.."
nvcc=${CUDA_HOME:-}/bin/nvcc
[ -x "$nvcc" ] || nvcc=$(command -v nvcc) || { echo "no nvcc: registers and shared memory of the kernels were not compared with their launches"; exit 77; }
out=build/test/ptxas
mkdir -p "$out"
exec 8>build/test/cuda.lock # check_cuda.sh, if it runs, compiles what is needed here
flock 8
if [ "${TP_TEST_PTXAS:-}" = all ]; then archs="75 80 89 90 100"; else archs="89"; fi
# shared memory of one block that may be asked for (cudaDevAttrMaxSharedMemoryPerBlockOptin; CUDA C Programming Guide, Technical Specifications)
most_shared() {
    case $1 in
        75) echo $((64 << 10)) ;;
        80 | 87) echo $((163 << 10)) ;;
        86 | 89 | 12?) echo $((99 << 10)) ;;
        90 | 10?) echo $((227 << 10)) ;;
    esac
}
key=$(cat tp_cuda.cu tp_graph.h tp_tensor.h | cksum)" $("$nvcc" --version | tail -n 1)"
inc=$(for r in ${CUDNN_HOME:-} ${NCCL_HOME:-}; do echo "-isystem $r/include"; done)
nccl=""
printf '#include <nccl.h>\n' | gcc -x c $inc -I"$(dirname "$(dirname "$(readlink -f "$nvcc")")")/include" -fsyntax-only - 2>/dev/null || nccl=-DTP_NO_NCCL
# tp_cuda.cu distinguishes 8.0 and 9.0 and later (__CUDA_ARCH__), so that three compilations to PTX serve all.
# ptx_of <75, 80 or 90>: $out/<it>.ptx, and $out/<it>.dynamic, the kernels that use dynamic shared memory
ptx_of() {
    [ "$(cat "$out/$1.ptx.key" 2>/dev/null)" != "$key" ] || return 0
    "$nvcc" -O2 -std=c++17 $nccl -I. $inc -arch="compute_$1" -ptx tp_cuda.cu -o "$out/$1.ptx" >"$out/$1.ptx.log" 2>&1 || { tail "$out/$1.ptx.log"; return 1; }
    list_dynamic "$out/$1.ptx" "$1"
}
list_dynamic() {
    awk '/\.entry/ {name = $0; sub(/.*\.entry */, "", name); sub(/\(.*/, "", name)} /tp__shared_memory/ && name {print name}' "$1" |
        sort -u >"$out/$2.dynamic"
    echo "$key" >"$out/$2.ptx.key"
}
# compiled <architecture>: $out/<it>.log, what ptxas says
compiled() {
    [ "$(cat "$out/$1.key" 2>/dev/null)" != "$key" ] || return 0
    local made=build/test/cuda/tp_cuda
    if [ "$1" = 89 ] && [ -e $made.o ] && [ -e $made.ptx ] && [ -z "$(find tp_*.h tp_cuda.cu -newer $made.o)" ]; then # by check_cuda.sh
        list_dynamic $made.ptx "$2"
        rm -f $made.ptx "$out/$2.ptx.key" # it is for 8.9 only: the other architectures need one of their own
        cp "$(dirname $made)/make.log" "$out/$1.log"
        echo "$key" >"$out/$1.key"
        return
    fi
    ptx_of "$2" || return 1
    "$nvcc" -arch="sm_$1" -cubin -Xptxas -v "$out/$2.ptx" -o "$out/$1.cubin" >"$out/$1.log" 2>&1 || { tail "$out/$1.log"; return 1; }
    rm -f "$out/$1.cubin"
    echo "$key" >"$out/$1.key"
}
bad=0
for a in $archs; do
    "$nvcc" --list-gpu-code | grep -qx "sm_$a" || { echo "sm_$a: this nvcc does not know it"; continue; }
    if [ "$a" = 75 ]; then from=75; elif [ "$a" -lt 90 ]; then from=80; else from=90; fi
    compiled "$a" $from
    awk -v arch="$a" -v most="$(most_shared "$a")" -v dynamic="$out/$from.dynamic" -v list="$out/$a.tsv" '
        BEGIN {
            THREADS = 256; REGISTERS = 65536; SPILL = 160; STACK = 1024 # 768 of them are the registers of an element-wise chain
            while ((getline line < dynamic) > 0) uses[line] = 1
            while ((getline line < "tests/gpu/shared.tsv") > 0) { split(line, f, "\t"); launched[f[1]] = f[3] }
        }
        function fail(what) { print "FAIL sm_" arch " " name ": " what; failed = 1 }
        function field(pattern,   s) { # the number before the words
            if (!match($0, "[0-9]+ " pattern)) return 0
            return substr($0, RSTART, RLENGTH) + 0
        }
        /Compiling entry function/ {split($0, q, "\047"); name = q[2]; stack = spill = 0; properties = ""}
        /Function properties for/ {properties = $NF}
        /bytes stack frame/ && properties == name {stack = field("bytes stack frame"); spill = field("bytes spill stores") + field("bytes spill loads")}
        / Used [0-9]+ registers/ {
            n++
            registers = field("registers"); shared = field("bytes smem"); deep = field("bytes cumulative stack size")
            if (deep > stack) stack = deep
            # registers are given to warps, 256 at a time
            block = int((registers * 32 + 255) / 256) * 256 * THREADS / 32
            if (registers > 255 || block > REGISTERS) fail(registers " registers, " block " for " THREADS " threads: " REGISTERS " are there")
            if (shared > 49152) fail(shared " bytes of static shared memory: 49152 are the most")
            more = 0
            # the products of tensor cores in attention are not launched before 8.0 (generation < 8 in tp__attention_by_tensor_cores)
            if (name in uses && arch >= 80) {
                if (!(name in launched)) fail("uses dynamic shared memory, but is not in tests/gpu/shared.tsv: no test launches it")
                more = launched[name]
                if (shared + more > most) fail(shared + more " bytes of shared memory: " most " are the most")
            }
            if (spill > SPILL) fail(spill " bytes of spilled registers, stored and loaded: " SPILL " are the limit")
            if (stack > STACK) fail(stack " bytes of stack: " STACK " are the limit")
            if (spill) { spilled++; print "     sm_" arch " spills " spill " bytes of " registers " registers: " name }
            if (registers > r) r = registers
            if (shared + more > s) s = shared + more
            if (stack > st) st = stack
            printf "%s\t%d\t%d\t%d\t%d\t%d\n", name, registers, shared, more, stack, spill > list
        }
        END {
            if (n < 500) { name = ""; fail("only " n " kernels in what ptxas says") }
            printf "sm_%s: %d kernels; at most %d registers, %d bytes of shared memory, %d of stack; %d spill\n", arch, n, r, s, st, spilled
            exit failed
        }' "$out/$a.log" || bad=1
done
exit $bad
