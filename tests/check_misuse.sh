#!/usr/bin/env bash
# tests/misuse_calls.h calls every function that the headers declare now; after a change of declarations it is written anew.
set -eu
cd "$(dirname "$0")/.."
command -v python3 >/dev/null || { echo "there is no python3"; exit 77; }
python3 tests/gen_misuse.py --check
