#!/usr/bin/env bash
# The README's trainer carries no op that it does not use, and learns: after its four epochs of drawn digits less than 4% of the
# test's are wrong, the cost has fallen, no error stands in the log. With TP_TEST_MNIST, the folder of MNIST's IDX files,
# examples/mnist_convnet gets below 1.2% in two epochs of them.
set -eu
cd "$(dirname "$0")/.."
root=$PWD dir=$PWD/build/test/learns${1:-}
rm -rf "$dir"
mkdir -p "$dir"
# of each epoch, one a line: <name> <stats.json>
values() { tr '{},' '\n\n\n' <"$2" | sed -n "s/^ *\"$1\": *//p"; }
below() { awk -v v="$1" -v most="$2" 'BEGIN {exit !(v != "" && v + 0 < most && v + 0 >= 0)}'; }
# trained <log> <stats.json> <epochs> <most wrong of the last>
trained() {
    if grep -E '(^|[^A-Za-z])ERR ' "$1"; then echo "an error stands in the log"; exit 1; fi
    [ "$(values validation_error "$2" | wc -l)" = "$3" ] || { echo "not $3 epochs in $2"; exit 1; }
    last=$(values validation_error "$2" | tail -n 1)
    below "$last" "$4" || { echo "validation_error is $last after $3 epochs, not below $4"; exit 1; }
    echo "validation_error $last after $3 epochs"
}
if [ "${1:-}" = mnist ]; then
    gcc -std=c11 -O2 -I. examples/mnist_convnet.c -o "$dir/mnist_convnet" -lm -lpthread
    case "$TP_TEST_MNIST" in /*) data=$TP_TEST_MNIST ;; *) data=$root/$TP_TEST_MNIST ;; esac
    (cd "$dir" && ./mnist_convnet --data "$data" --epochs 2 >log 2>&1) || { tail "$dir/log"; exit 1; }
    trained "$dir/log" "$dir/train_log/mnist_convnet/stats.json" 2 0.012
    exit 0
fi
awk '/^```c$/ {on = 1; next} /^```$/ {if (on) exit} on' README.md >"$dir/trainer.c"
gcc -std=c11 -O2 -I. "$dir/trainer.c" -o "$dir/trainer" -lm -lpthread
! nm "$dir/trainer" | grep -q tp__attention || { echo "the trainer carries ops that it does not use: something refers to the op table"; exit 1; }
(cd "$dir" && ./trainer >log 2>&1) || { tail "$dir/log"; exit 1; }
stats=$dir/train_log/digits/stats.json
trained "$dir/log" "$stats" 4 0.04
first=$(values cost "$stats" | head -n 1)
below "$(values cost "$stats" | tail -n 1)" "$(awk -v c="$first" 'BEGIN {print c / 2}')" || { echo "the cost does not fall: $first to $(values cost "$stats" | tail -n 1)"; exit 1; }
