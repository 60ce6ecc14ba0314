#!/usr/bin/env bash
# A busy neighbour: two threads of ours while a loop keeps one processor busy, against one thread left alone.
#   tests/bench/neighbour.sh [workload]     prints a JSON line; ratio = one thread alone / two threads with the neighbour
set -eu
cd "$(dirname "$0")/../.."
w=${1:-mnistcnn.b128}
mkdir -p build
gcc -std=c11 -O2 -I. tests/bench/bench.c -o build/bench -lm -lpthread
ms() { build/bench "$w" "$1" "${SECONDS_EACH:-2}" | sed -E 's/.*"ours_ms": ([0-9.]+).*/\1/'; }
ratios=""
for _ in 1 2 3; do
    alone=$(ms 1)
    (while :; do :; done) & loop=$!
    trap 'kill $loop 2>/dev/null' EXIT
    busy=$(ms 2)
    kill $loop; wait $loop 2>/dev/null || true
    ratios="$ratios $alone $busy"
done
echo "$ratios" | awk -v w="$w" '{ for (i = 1; i <= NF; i += 2) { r[++n] = $i / $(i + 1); a[n] = $i; b[n] = $(i + 1) }
    for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (r[j] < r[i]) { t = r[i]; r[i] = r[j]; r[j] = t; t = a[i]; a[i] = a[j]; a[j] = t; t = b[i]; b[i] = b[j]; b[j] = t }
    m = int((n + 1) / 2); printf "{\"workload\": \"neighbour.%s\", \"one_thread_alone_ms\": %s, \"two_with_neighbour_ms\": %s, \"ratio\": %.3f}\n", w, a[m], b[m], r[m] }'
