#!/usr/bin/env bash
# Every public function is called by a test: each name that a header declares with TP_DEF stands in what a test's source
# becomes after preprocessing (the tests of misuse and of random calls, which name all of them, do not count).
set -eu
cd "$(dirname "$0")/.."
dir=build/test/public
rm -rf "$dir"
mkdir -p "$dir"
cat tp_*.h | tr '\n' ' ' | grep -oE '\bTP_DEF [^();{}=]*\btp_[a-z0-9_]+\(' | sed -E 's/.*\b(tp_[a-z0-9_]+)\($/\1/' | sort -u >"$dir/declared"
[ "$(wc -l <"$dir/declared")" -gt 600 ] || { echo "few functions were found: the pattern is wrong"; exit 1; }
declared="" # the implementation names no function for a test
for h in tp_*.h; do h=${h#tp_} h=${h%.h}; declared="$declared -DTP__${h^^}_IMPLEMENTED"; done
for t in tests/test_*.c tests/gpu/test_*.c*; do
    case "$t" in *misuse* | *fuzz_api* | *test_api*) continue ;; esac # they call everything, and ask little
    case "$t" in *.c) cc="gcc -std=gnu11" ;; *) cc="g++ -std=c++17 -DTP_CUDA_SHIM -Itests/gpu/shim" ;; esac
    # what comes from tests/, not from the headers: by line markers
    $cc -E $declared -I. -Itests "$t" 2>/dev/null | awk '/^# [0-9]+ "/ { mine = $3 ~ /^"tests\// && $3 !~ /tests\/\.\.\/|shim\// ; next } mine' |
        grep -oE '\btp_[a-z0-9_]+\b'
done | sort -u >"$dir/named" || true
comm -23 "$dir/declared" "$dir/named" >"$dir/missing"
[ ! -s "$dir/missing" ] && exit 0
cat "$dir/missing"
echo "$(wc -l <"$dir/missing") of $(wc -l <"$dir/declared") public functions are called by no test"
exit 1
