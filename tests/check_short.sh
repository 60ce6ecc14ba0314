#!/usr/bin/env bash
# The ten most usual tasks, examples/short: each program has at most 60 lines, compiles without a warning as C11 and C++20, and
# does what it says. What examples/README.md names is there: files, keys and functions.
set -eu
cd "$(dirname "$0")/.."
out=$PWD/build/test/short
mkdir -p "$out"
warn="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"
fresh() { [ -e "$1" ] && [ -e "$1.command" ] && [ -z "$(find tp_*.h -newer "$1")" ]; }
library=$PWD/build/test/gcc-c11-library.o # that of make test, if it is up to date; else our own
fresh "$library" || library=$PWD/build/test/examples/library.o
fresh "$library" || library=$out/library.o
if ! fresh "$library"; then
    { echo '#define TP_IMPLEMENTATION'; printf '#include "%s"\n' tp_[!f]*.h; } >"$out/library.c"
    gcc -std=c11 -O2 -I. -c "$out/library.c" -o "$library"
    touch "$library.command"
fi
declared="" # what makes a program's own TP_IMPLEMENTATION implement nothing
for h in tp_*.h; do h=${h#tp_} h=${h%.h}; declared="$declared -DTP__${h^^}_IMPLEMENTED"; done
compile() { # compiler and flags, program, more arguments
    { echo "#line 1 \"$PWD/examples/short/$2.c\""; sed -E 's/^#define TP_(STATIC|NO_[A-Z_]*)/#define SHORT_\1/' "examples/short/$2.c"; } |
        $1 $warn $declared -I. "${@:3}"
}
for source in examples/short/*.c; do
    name=$(basename "$source" .c)
    [ "$(wc -l <"$source")" -le 60 ] || { echo "$source has more than 60 lines"; exit 1; }
    compile "gcc -std=c11 -O1" "$name" -x c - -x none "$library" -o "$out/$name" -lm -lpthread
    compile "g++ -std=c++20" "$name" -fsyntax-only -x c++ -
    compile "clang -std=c11" "$name" -fsyntax-only -x c -
done

rm -rf "$out/run"
mkdir "$out/run" "$out/run/at_once"
cd "$out/run"
run() { "$out/$@" >"$1.log" 2>&1 || { echo "$*: status $?"; tail -n 15 "$1.log"; exit 1; }; }
below() { # program, value in its stats.json, limit for the last one
    tr '{},' '\n\n\n' <"train_log/$1/stats.json" | sed -n "s/^ *\"$2\": *//p" | tail -n 1 |
        awk -v l="$3" -v what="$1: $2" '{v = $1} END {if (!(v + 0 < l) || NR == 0) {print what " is " v ", not below " l; exit 1}}'
}
run classify && below classify validation_error 0.2
for odd in x 3x 0 -1 ''; do
    status=0
    "$out/resume" "$odd" >odd.log 2>&1 || status=$?
    [ $status = 2 ] && grep -q "wants a number of epochs of at least 1, not '$odd'" odd.log && [ ! -e train_log/resume ] ||
        { echo "resume '$odd': status $status"; cat odd.log; exit 1; }
done
run resume 1 && run resume 2
(cd at_once && run resume 2)
cmp train_log/resume/model-374.npz at_once/train_log/resume/model-374.npz # the same bits as without the interruption
run predict && [ "$(grep -c 'is taken for a' predict.log)" = 10 ]
run regression && below regression validation_cost 0.05
run own_data
run fine_tune && below fine_tune validation_error 0.3
run text
run export
gcc -std=c99 -Wall -Werror -c train_log/export/digits.c -o digits.o
[ -s train_log/export/digits.onnx ] && [ -s train_log/export/digits/config.pbtxt ]
run devices && below devices validation_error 0.2
run callback && grep -q 'Training was stopped: the cost is 0.1' callback.log

cd - >/dev/null
page=examples/README.md
grep -o '`>>[^`]*`' "$page" | tr -d '`' | sort -u | while IFS= read -r key; do
    grep -qF -- "$key" tp_*.h || { echo "$page names $key, which is in no header"; exit 1; }
done
grep -oE '`tp__?[a-z0-9_]+`' "$page" | tr -d '`' | sort -u | while IFS= read -r name; do
    grep -qE "\b$name\b" tp_*.h || { echo "$page names $name, which is in no header"; exit 1; }
done
grep -oE '`[a-z0-9_/]+\.c`' "$page" | tr -d '`' | sort -u | while IFS= read -r file; do
    [ -e "examples/$file" ] || { echo "$page names $file, which is not there"; exit 1; }
done
for file in examples/*.c; do # and each example is on the page
    grep -q "\`$(basename "$file")\`" "$page" || { echo "$page does not name $(basename "$file")"; missing=1; }
done
[ -z "${missing:-}" ]
echo ok
