#!/usr/bin/env bash
# examples/micro_mlp.c on an emulated Cortex-M4 and on an emulated RISC-V of 32 bits, without an operating system: compiled with the
# commands at its top, it trains, recognises at least 9 of 10 digits, and needs at most 64 KiB of code and constants and, beside the
# library's memory, 8 KiB of RAM, stack included.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$PWD/build/test/micro
mkdir -p "$dir"
commands=$(sed -n 's/^ \*   //p' examples/micro_mlp.c)
ran=0
try() { # try <compiler> <emulator> <program>
    for program in "$1" "$2"; do
        command -v "$program" >/dev/null || { echo "skip $3: $program is missing; the commands at the top of micro_mlp.c name its package"; return 0; }
    done
    local build run
    build=$(awk -v begin="^$1" '$0 ~ begin {on = 1} on {more = /\\$/; sub(/\\$/, ""); printf "%s", $0; if (!more) exit}' <<<"$commands")
    run=$(grep "^$2" <<<"$commands")
    (cd examples && eval "${build/-o $3/-o $dir/$3} -Wall -Wextra -Wno-type-limits -Werror")
    (cd "$dir" && timeout 300 $run 2>&1) </dev/null | tee "$dir/out"
    awk '/new digits recognised; the library needs/ {right = $1; of = $3}
         /^flash/ {flash = $2; ram = $5}
         END {if (right < 0.9 * of || flash > 64 * 1024 || ram > 8 * 1024 || !of || !ram) {print "not as promised"; exit 1}}' "$dir/out"
    ran=$((ran + 1))
}
try arm-none-eabi-gcc qemu-system-arm micro_mlp.elf
try riscv64-unknown-elf-gcc qemu-system-riscv32 micro_mlp_rv32.elf
[ "$ran" -gt 0 ] || exit 77
echo ok
