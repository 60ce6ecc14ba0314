#!/usr/bin/env bash
# Each option of each descriptor says how an explicit zero is written, or why that is not needed (tests/zero_options.tsv), and
# tests/test_zero.c shows each spelling.
set -eu
cd "$(dirname "$0")/.."
command -v python3 >/dev/null || { echo "there is no python3"; exit 77; }
python3 tests/gen_zero.py --check
