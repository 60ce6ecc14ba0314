#!/usr/bin/env bash
# tests/features.tsv: every file it names exists and uses the C name as a whole word outside of comments, and no feature stands there
# twice. A feature of several parts has a C name for each, with blanks between them; TP_KEY_ stands for all keys.
set -eu
cd "$(dirname "$0")/.."
dir=build/test/features
rm -rf "$dir"
mkdir -p "$dir"
bad=0
while IFS=$'\t' read -r area name cname files; do
    case "$area" in '#'*) continue ;; esac
    [ -n "$files" ] || { echo "features.tsv: '$name' has no file"; bad=1; }
    for n in $cname; do # each name is used by one of the files at least, where there are several
        # tp_cb_x_, the function behind the keyword macro tp_cb_x, is a use of tp_cb_x
        case "$n" in TP_KEY_) end="" ;; *_) end='([^A-Za-z0-9_]|$)' ;; *) end='_?([^A-Za-z0-9_]|$)' ;; esac
        used=""
        for f in $files; do
            code=$dir/${f//\//-} # without comments
            if [ -f "$f" ] && [ ! -f "$code" ]; then
                case "$f" in *.c | *.h) gcc -fpreprocessed -dD -E -P -w "$f" >"$code" ;; *) cp "$f" "$code" ;; esac
            fi
            if [ ! -f "$f" ]; then echo "features.tsv: '$name': there is no $f"; bad=1
            elif grep -qE "(^|[^A-Za-z0-9_])$n$end" "$code"; then used=1
            elif [ "$n" = "$cname" ]; then echo "features.tsv: '$name': $f does not use $n"; bad=1; fi
        done
        [ -n "$used" ] || { echo "features.tsv: '$name': nobody uses $n"; bad=1; }
    done
done <tests/features.tsv
twice=$(cut -f1,2 tests/features.tsv | sort | uniq -d)
[ -z "$twice" ] || { echo "twice: $twice"; bad=1; }
[ "$(wc -l <tests/features.tsv)" -gt 1 ] || { echo "features.tsv is empty"; bad=1; }
exit $bad
