#!/usr/bin/env bash
# tests/features.tsv: every file it names exists and uses the C name as a whole word, and no feature stands there twice.
set -eu
cd "$(dirname "$0")/.."
bad=0
while IFS=$'\t' read -r area name cname files; do
    case "$area" in '#'*) continue ;; esac
    [ -n "$files" ] || { echo "features.tsv: '$name' has no file"; bad=1; }
    for f in $files; do
        # a name with a prefix (TP_KEY_) or a function with its keyword macro (tp_cb_x, tp_cb_x_) counts as use
        case "$cname" in *_) end="" ;; *) end='_?([^A-Za-z0-9_]|$)' ;; esac
        if [ ! -f "$f" ] || ! grep -qE "(^|[^A-Za-z0-9_])$cname$end" "$f"; then
            echo "features.tsv: '$name': $f does not use $cname"; bad=1
        fi
    done
done <tests/features.tsv
twice=$(cut -f1,2 tests/features.tsv | sort | uniq -d)
[ -z "$twice" ] || { echo "twice: $twice"; bad=1; }
[ "$(wc -l <tests/features.tsv)" -gt 1 ] || { echo "features.tsv is empty"; bad=1; }
exit $bad
