#!/usr/bin/env bash
# Each example of the gallery trains: a short run of it ends with status 0, and its score moves as it should. All examples
# compile without a warning as C11 with gcc and clang, and as C++20. The library is compiled once and linked to them.
#   tests/check_examples.sh [example]
#
#   example | arguments of the short run | what must hold after it
#
# An example without a row is a fault; mpi_train is run by check_mpi.sh.
# What must hold, of the values that the run has put into stats.json:
#   error<0.3          in the last epoch
#   loss<0.8*first     in the last epoch, compared with the first one
# and of what it prints:
#   ~regex             one line matches (grep -E); blanks are written as .
# example:variant is the example after the sed script that `variant` gives.
table='
mnist_convnet      | --epochs 2 --steps 15           | validation_error<0.3 cross_entropy_loss<0.8*first
dcgan              | --epochs 3 --steps 30           | mean_distance<0.5*first
wgan_gp            | --epochs 3 --steps 30           | mean_distance<0.8*first
conditional_gan    | --epochs 3 --steps 20           | mean_distance<0.75*first judge_loss<0.75*first
mnist_visualizations | --epochs 2 --steps 20         | validation_error<0.5 cost<0.9*first
similarity_learning | --epochs 2 --steps 30          | loss<0.8*first nearest_mean_accuracy>0.4
dorefa             | --epochs 2 --steps 25           | validation_error<0.4 train_error<0.8*first
disturb_label      | --epochs 2 --steps 20           | validation_error<0.4 train_error<0.8*first
saliency_map       | --epochs 2 --steps 50           | validation_error<0.7 on_digit>1.5
auto_encoder       | --epochs 2 --steps 25           | validation_psnr>11 validation_cost<0.9*first
info_gan           | --epochs 3 --steps 20           | mean_distance<0.85*first kind_found>0.25
svhn_digits        | --epochs 2 --steps 20           | cross_entropy_loss<0.97*first validation_error<0.8
spatial_transformer | --turn 0 --epochs 2 --steps 60 | cost<0.95*first validation_error<0.87
cifar10_convnet    | --epochs 2 --steps 15           | train_error<0.95*first validation_error<0.85
cifar10_resnet     | --n 1 --epochs 2 --steps 16         | train_error<0.95*first validation_error<0.8
cifar10_fast       | --width 8 --batch 128 --epochs 2 --steps 12 --rate 0.2 | train_error<0.95*first validation_error<0.85
cifar10_fast       | --width 4 --batch 16 --epochs 1 --steps 1 | cross_entropy_loss<9
cifar10_fast       | --width 4 --batch 16 --epochs 2 --steps 1 | cross_entropy_loss<9
imagenet_resnet50  | --batch 8 --side 32 --classes 10 --rate 6 --epochs 2 --steps 4 | xentropy_loss<0.9*first
averaged_weights   | --epochs 3 --steps 60           | averaged_error<0.5 cost<0.7*first
averaged_weights:norm | --epochs 3 --steps 60        | averaged_error<0.5 cost<0.7*first
averaged_weights:deep | --epochs 1 --steps 4         | averaged_error>0.5
layers_only        |                                 | ~same.probabilities ~finite.differences.0\.0000
training_loop      | --epochs 1 --steps 100          | ~loaded.from.*%.right
custom_callback    |                                 | cost<0.8*first
custom_op          | --steps 300                     | ~squared.error.0\.00.*with.snake
custom_layer       | --epochs 1 --steps 60           | validation_error<0.5
char_rnn           | --epochs 2 --steps 30 --units 48 | validation_cost<0.95*first
char_gpt           | --epochs 2 --steps 12 --layers 1 | validation_cost<0.95*first
padded_sequences   | --epochs 2 --steps 30           | validation_cost<0.9*first validation_steps_wrong<0.3
ptb_lstm           | --epochs 3 --steps 60 --units 32 | validation_perplexity<0.6*first
dqn                | --epochs 5                      | mean_score>0.3
export_model       | --epochs 1 --steps 60           | validation_error<0.6 ~largest.difference
keyword_net        |                                 | ~^39[0-9].of.400.new.words
micro_mlp          |                                 | ~^39[0-9].of.400.new.digits
multi_tower        | --epochs 1 --steps 60           | ~2.towers
augment            | sheet.png                       | ~row.4,.column.7:.RandomChooseAug
share_towers       |                                 | ~0\.9.*by.the.inference.tower
'
set -eu
cd "$(dirname "$0")/.."
out=$PWD/build/test/examples
mkdir -p "$out"
warn="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"

# The implementation: the one that make test has compiled for its configuration gcc-c11, if it is up to date; else our own.
fresh() { [ -e "$1" ] && [ -e "$1.command" ] && [ -z "$(find tp_*.h -newer "$1")" ]; }
library=$PWD/build/test/gcc-c11-library.o
fresh "$library" || library=$out/library.o
if ! fresh "$library"; then
    { echo '#define TP_IMPLEMENTATION'; printf '#include "%s"\n' tp_[!f]*.h; } >"$out/library.c"
    gcc -std=c11 -O2 -I. -c "$out/library.c" -o "$library"
    touch "$library.command"
fi
declared="" # what makes an example's own TP_IMPLEMENTATION implement nothing
for h in tp_*.h; do h=${h#tp_} h=${h%.h}; declared="$declared -DTP__${h^^}_IMPLEMENTED"; done
# an example without the macros that would change what the headers declare
stripped() { echo "#line 1 \"$1\""; sed -E 's/^#define TP_(STATIC|TINY|NO_[A-Z_]*)/#define EXAMPLE_\1/' "$1"; }
variant() {
    case "$1" in
    *:norm) echo 's/tp_relu/tp_bn_relu/' ;; # with variables that are not trained
    *:deep) # 20 variables that do not change: the averages judge as badly as they do (averages left at 0 give ties, which count as right)
        echo 's/0\.02f, NULL/0, NULL/; s/0\.8f, pred/1, pred/'
        for i in 1 2 3 4 5 6 7 8; do echo 's/TP_FULLY_CONNECTED\("fc0"(.*\),)$/TP_FULLY_CONNECTED("more'$i'"\1 &/'; done
        ;;
    esac
}
compile() { stripped "examples/${2%:*}.c" | sed -E "$(variant "$2")" | $1 $warn $declared -I. -Iexamples "${@:3}"; }

last() { values "$1" | tail -n 1; }
first() { values "$1" | head -n 1; }
values() { tr '{},' '\n\n\n' <"$stats" | sed -n "s/^ *\"$1\": *//p"; }
# holds <condition>: says why not
holds() {
    case "$1" in
    ~*) grep -qE -- "${1#\~}" "$log" || { echo "$example: no line matches ${1#\~}"; return 1; } ;;
    *)
        local name=${1%%[<>]*} limit=${1#*[<>]} sign value from=1
        sign=${1#"$name"} sign=${sign:0:1}
        value=$(last "$name")
        case "$limit" in *'*first') limit=${limit%'*first'} from=$(first "$name") ;; esac
        awk -v v="$value" -v l="$limit" -v f="$from" -v s="$sign" \
            'BEGIN {exit !(v ~ /^[-0-9.e+]+$/ && f ~ /^[-0-9.e+]+$/ && (s == "<" ? v + 0 < l * f : v + 0 > l * f))}' ||
            { echo "$example: $1 does not hold: $name went from $(first "$name") to $value"; return 1; }
        ;;
    esac
}

only=${1:-}
failed=0
for source in examples/*.c; do
    example=$(basename "$source" .c)
    [ "$example" = mpi_train ] || grep -qE "^$example +\|" <<<"$table" || { echo "$example has no row in $0"; failed=1; }
done
while IFS='|' read -r example arguments conditions; do
    example=${example// /}
    case "${example%:*}" in '' | "${1:-${example%:*}}") ;; *) continue ;; esac
    [ -n "$example" ] || continue
    compile "gcc -std=c11 -O1" "$example" -x c - -x none "$library" -o "$out/$example" -lm -lpthread || { failed=1; continue; }
    rm -rf "$out/run-$example"
    mkdir "$out/run-$example"
    log=$out/$example.log stats=$out/run-$example/train_log/${example%:*}/stats.json
    began=$(date +%s%N)
    (cd "$out/run-$example" && eval "../$example $arguments") >"$log" 2>&1 ||
        { echo "$example $arguments: status $?"; tail -n 15 "$log"; failed=1; continue; }
    ! grep -E '(^|[^A-Za-z])ERR ' "$log" || failed=1
    set -f
    for condition in $conditions; do holds "$condition" || failed=1; done
    set +f
    echo "$example: $((($(date +%s%N) - began) / 10000000))0 ms"
done <<<"$table"
# The command line: --help prints the usage; what is not known, and what is no number, is refused. Neither begins anything.
# refuses <status> <regex> <program> <arguments>
refuses() {
    local room=$out/run-options got=0
    rm -rf "$room"
    mkdir "$room"
    (cd "$room" && timeout 60 "${@:3}") >"$out/options.log" 2>&1 || got=$?
    if [ "$got" != "$1" ] || [ "$(grep -cE -- "$2" "$out/options.log")" != 1 ] || [ -n "$(ls -A "$room")" ]; then
        echo "${3##*/} ${*:4}: status $got, expected $1 and the line '$2' and no file:"
        cat "$out/options.log"
        ls -A "$room"
        failed=1
    fi
}
for source in examples/*.c; do
    example=$(basename "$source" .c)
    [ "${1:-$example}" = "$example" ] || continue
    { [ "$out/$example" -nt "examples/$example.c" ] && [ "$out/$example" -nt "$library" ]; } || compile "gcc -std=c11 -O1" "$example" -x c - -x none "$library" -o "$out/$example" -lm -lpthread || failed=1
    refuses 0 "^usage: $example" "$out/$example" --help
    refuses 2 "unknown option '--no-such'" "$out/$example" --no-such 1
    for name in $("$out/$example" --help | grep -oE -- '--[a-z-]+ [nrt]\]' | sed 's/ .*//'); do
        refuses 2 "$name wants .*number of at least .*, not '1x'" "$out/$example" "$name" 1x
        refuses 2 "$name wants .*, not '-1'" "$out/$example" "$name" -1
        refuses 2 "$name wants .*, not nothing" "$out/$example" "$name"
    done
done
# Data that cannot be read leave the files of an earlier run as they were.
for source in $(grep -l 'option_text("--data' examples/*.c); do
    example=$(basename "$source" .c)
    [ "${only:-$example}" = "$example" ] || continue
    rm -rf "$out/run-no-data"
    mkdir -p "$out/run-no-data/train_log/$example"
    for file in log.log model-1.npz; do echo kept >"$out/run-no-data/train_log/$example/$file"; done # log.log: the folder is that of a run
    if (cd "$out/run-no-data" && timeout 60 "$out/$example" --data no_such_folder) >"$out/options.log" 2>&1 ||
        ! grep -q no_such_folder "$out/options.log" || [ ! -e "$out/run-no-data/train_log/$example/model-1.npz" ]; then
        echo "$example --data no_such_folder: no sentence, or the earlier run is deleted"
        cat "$out/options.log"
        ls -A "$out/run-no-data/train_log/$example"
        failed=1
    fi
done
refuses_of() { [ "${only:-$1}" != "$1" ] || refuses 2 "$2" "$out/$1" "${@:3}"; } # <example> <regex> <arguments>
refuses_of disturb_label "--wrong wants a number of at least 0 and at most 1, not '1.5'" --wrong 1.5
refuses_of disturb_label "--wrong wants a number of at least 0 and at most 1, not 'nan'" --wrong nan
refuses_of char_rnn "there is no trained model in train_log/char_rnn: run .*/char_rnn without --sample first" --sample 5
refuses_of char_gpt "there is no trained model in train_log/char_gpt: run .*/char_gpt without --sample first" --sample 5
for example in char_rnn char_gpt; do # it is divided by
    refuses_of $example "--temperature wants a number of at least 0.001 and at most 1e\+30, not '0'" --temperature 0
done
refuses_of disturb_label "--data wants a value, not '--epochs'" --data --epochs 3
refuses_of dorefa "--weight-bits wants a whole number of at least 1 and at most 32, not '33'" --weight-bits 33
refuses_of dorefa "--activation-bits wants a whole number of at least 1 and at most 32, not '0'" --activation-bits 0
refuses_of dorefa "--epochs wants a whole number of at least 1 and at most 2147483647, not '9999999999'" --epochs 9999999999
# Without --steps an epoch is a pass over the data, which takes longer than two seconds; an epoch without steps ends at once.
for source in $(grep -l '0: a pass over the data' examples/*.c); do
    example=$(basename "$source" .c) got=0
    [ "${1:-$example}" = "$example" ] || continue
    rm -rf "$out/run-options"
    mkdir "$out/run-options"
    (cd "$out/run-options" && timeout 2 "$out/$example") >"$out/options.log" 2>&1 || got=$?
    [ $got = 124 ] || { echo "$example without options: status $got after less than two seconds"; tail -n 5 "$out/options.log"; failed=1; }
done
for source in examples/*.c; do
    example=$(basename "$source" .c)
    [ "${1:-$example}" = "$example" ] || continue
    compile "gcc -std=c11" "$example" -fsyntax-only -x c - || { echo "$example: gcc warns"; failed=1; }
    compile "g++ -std=c++20" "$example" -fsyntax-only -x c++ - || { echo "$example is no C++20"; failed=1; }
    compile "clang -std=c11" "$example" -fsyntax-only -x c - || { echo "$example: clang warns"; failed=1; }
done
exit $failed
