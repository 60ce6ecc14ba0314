#!/usr/bin/env bash
# The instruction set "amx" is compiled with the compilers' own intrinsics, without a warning, into the instructions that
# are meant (tests/test_amx.c runs it, emulated); TP_NO_AMX leaves it out; what is missing is said.
set -eu
cd "$(dirname "$0")/.."
[ "$(uname -sm)" = "Linux x86_64" ] || { echo "not Linux on an x86-64"; exit 77; }
dir=build/test/amx
rm -rf "$dir"; mkdir -p "$dir"
cat >"$dir/isa.c" <<'END'
#define TP_IMPLEMENTATION
#define TP_STATIC /* what the program does not need is not compiled */
#include "tp_tensor.h"
int main(int argc, char **argv)
{
    tp_device *d = tp_cpu_device_new(1, "amx");
    puts(d ? tp_device_isa(d) : tp_last_error());
    if (argc > 1) { /* never: so that the products are part of the program */
        tp__gemm(d, (const tp__gemm_args *)(const void *)argv, NULL);
        tp__convolve(d, (const tp__conv_args *)(const void *)argv, TP__CONV_FORWARD, NULL);
    }
    if (d) d->close(d);
    return 0;
}
END
code() { objdump -d --no-show-raw-insn "$1" | grep -cE "\b($2)\b" || true; }
for cc in "gcc -std=c11" "clang -std=c99" "g++ -x c++ -std=c++17"; do
    $cc -O2 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -I. "$dir/isa.c" -o "$dir/isa" -lm -lpthread
    [ "$(code "$dir/isa" tdpbf16ps)" -ge 4 ] || { echo "$cc: no tdpbf16ps"; exit 1; }
    [ "$(code "$dir/isa" 'ldtilecfg|tilerelease')" = 2 ] || { echo "$cc: not one configuration and one release"; exit 1; }
    said=$("$dir/isa")
    case "$said" in amx | "instruction set 'amx': "*) echo "$said" ;; *) echo "$cc: said '$said'"; exit 1 ;; esac
done
gcc -std=c11 -O2 -DTP_NO_AMX -I. "$dir/isa.c" -o "$dir/none" -lm -lpthread
[ "$(code "$dir/none" 'tdpbf16ps|ldtilecfg|tilerelease')" = 0 ] || { echo "TP_NO_AMX leaves tiles"; exit 1; }
"$dir/none" | grep -q "this build is without it"
echo ok
