#!/usr/bin/env bash
# Without an operating system: arm-none-eabi compiles tensor, graph, layers and optimizers, for a Cortex-M7, and what they need
# of a C library is none of files, threads, signals, processes or clocks of POSIX.
set -eu
cd "$(dirname "$0")/.."
cc=arm-none-eabi-gcc
command -v $cc >/dev/null || { echo "$cc is missing (Debian: gcc-arm-none-eabi libnewlib-arm-none-eabi)"; exit 77; }
dir=build/test/bare
mkdir -p "$dir"
{ echo '#define TP_IMPLEMENTATION'; printf '#include "%s.h"\n' tp_tensor tp_graph tp_layers tp_optim; } >"$dir/all.c"
$cc -std=c11 -O0 -mcpu=cortex-m7 -mthumb -Wall -Wextra -Wno-type-limits -Werror -I. -c "$dir/all.c" -o "$dir/all.o"
arm-none-eabi-nm -u "$dir/all.o" | awk '{print $2}' >"$dir/names"
grep -xE '_?(open|read|write|close|fsync|rename|unlink|link|mkdir|rmdir|opendir|readdir|stat|fstat|lstat|getcwd|fopen|system|popen|kill|getpid|isatty|sigaction|signal|clock_gettime|pthread_.*|sem_.*|mmap|madvise|syscall|sysconf)' \
    "$dir/names" && { echo "the headers call a system"; exit 1; }
! grep -xE '__atomic_.*_8' "$dir/names" || { echo "the headers need 64-bit atomics, which the processor lacks"; exit 1; }
# the same switches on a system that has it all: the choice is the program's, too
printf '#define TP_IMPLEMENTATION\n#include "tp_train.h"\n#include "tp_layers.h"\nint main(void) { return 0; }\n' >"$dir/none.c"
gcc -std=c99 -DTP_NO_FILES -DTP_NO_THREADS -DTP_NO_SIGNALS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror \
    -fsyntax-only -I. "$dir/none.c"
# files that are not there are an error with a sentence
cat >"$dir/files.c" <<'C'
#define TP_NO_FILES
#define TP_IMPLEMENTATION
#include "tp_tensor.h"
#include <string.h>
int main(void)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    if (tp_tensor_resize(&t, TP_F32, tp_make_shape(2)) != TP_OK) return 1;
    if (tp_npy_save("t.npy", &t) != TP_ERR_IO || !strstr(tp_last_error(), "TP_NO_FILES")) return 2;
    if (tp_npy_load("t.npy", &t) != TP_ERR_IO || !strstr(tp_last_error(), "TP_NO_FILES")) return 3;
    if (tp_logger_set_dir("x", 'k') != TP_ERR_IO) return 4;
    tp_tensor_free(&t);
    return 0;
}
C
gcc -std=c99 -O0 -I. "$dir/files.c" -o "$dir/files" -lm -lpthread
"$dir/files"
echo ok
