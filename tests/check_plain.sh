#!/usr/bin/env bash
# Without tp_fast.h, which is optional: the headers compile without a warning with every front end; one line of the log says what
# is missing, and none does under TP_NAIVE or with the file there; a smaller form of the README's trainer learns.
set -eu
cd "$(dirname "$0")/.."
root=$PWD dir=$PWD/build/test/plain-check
rm -rf "$dir"
mkdir -p "$dir/headers"
cp tp_[!f]*.h "$dir/headers"
cd "$dir"
warn="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"
{ echo '#define TP_IMPLEMENTATION'; (cd headers && printf '#include "%s"\n' tp_*.h); echo 'int main(void) { return 0; }'; } >all.c
for cc in "gcc -x c -std=c11" "clang -x c -std=c99 -DTP_NAIVE" "g++ -x c++ -std=c++17"; do
    $cc $warn -fsyntax-only -Iheaders all.c || { echo "$cc"; exit 1; }
done
# the line in the log: once, however many sessions
cat >two.c <<'C'
#define TP_IMPLEMENTATION
#include "tp_graph.h"
int main(void)
{
    tp_graph *g = tp_graph_new(NULL);
    for (int i = 0; i < 2; i++) tp_session_free(tp_session_new(g, NULL));
    tp_graph_free(g);
    return 0;
}
C
# lines <how many> <flags...>
lines() {
    local want=$1
    shift
    gcc -std=c11 -O0 "$@" two.c -o two -lm -lpthread
    ./two >log 2>&1
    [ "$(grep -c 'tp_fast.h' log)" = "$want" ] || { echo "$*: not $want lines about tp_fast.h"; cat log; exit 1; }
}
lines 1 -Iheaders
grep -q 'copy it beside tp_tensor.h and compile again' log
lines 0 -Iheaders -DTP_NAIVE
lines 0 "-I$root"
# a quarter of the filters and one epoch: the plain loops run some seconds
awk '/^```c$/ {on = 1; next} /^```$/ {if (on) exit} on' "$root/README.md" |
    sed 's/\.filters = 16/.filters = 4/; s/\.max_epoch = 4/.max_epoch = 1/' >trainer.c
grep -q 'filters = 4,' trainer.c && grep -q 'max_epoch = 1' trainer.c
gcc -std=c11 -O2 -Iheaders trainer.c -o trainer -lm -lpthread
./trainer >log 2>&1 || { tail log; exit 1; }
wrong=$(tr '{},' '\n\n\n' <train_log/digits/stats.json | sed -n 's/^ *"validation_error": *//p')
awk -v v="$wrong" 'BEGIN {exit !(v != "" && v + 0 < 0.3)}' || { echo "validation_error is '$wrong', not below 0.3"; exit 1; }
echo "validation_error $wrong"
