#!/usr/bin/env bash
# examples/keyword_net.c on an emulated Cortex-M4, without an operating system: compiled with the command at its top, it trains,
# recognises at least 9 of 10 words, and its memory, with the stack, is at most 256 KiB.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in arm-none-eabi-gcc qemu-system-arm; do
    command -v $program >/dev/null ||
        { echo "$program is missing (Debian: gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm)"; exit 77; }
done
dir=$PWD/build/test/keyword
mkdir -p "$dir"
commands=$(sed -n 's/^ \*   //p' examples/keyword_net.c)
build=$(awk '/^arm-none-eabi-gcc/ {on = 1} on {sub(/\\$/, ""); printf "%s", $0; if (/-o keyword_net.elf/) exit}' <<<"$commands")
run=$(grep '^qemu-system-arm' <<<"$commands")
rm -f "$dir"/*.su
(cd examples && eval "${build/-o keyword_net.elf/-o $dir/keyword_net.elf} -fstack-usage -dumpdir $dir/ -Wall -Wextra -Wno-type-limits -Werror")
# A large frame would reach over the end of the stack without touching it, into the static array.
cat "$dir"/*.su | awk -F '\t' '$2 > 10240 {print $1 " needs " $2 " bytes of stack"; bad = 1} END {exit bad || !NR}' || exit 1
(cd "$dir" && timeout 300 $run) </dev/null | tee "$dir/out"
awk '/new words recognised; the library used/ {right = $1; of = $3}
     /^flash/ {flash = $2; ram = $5}
     END {if (right < 0.9 * of || flash > 160 * 1024 || ram > 256 * 1024 || !of || !ram) {print "not as promised"; exit 1}}' "$dir/out"
echo ok
