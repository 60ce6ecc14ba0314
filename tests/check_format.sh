#!/usr/bin/env bash
# Formatted as .clang-format says. Versions of clang-format differ, so only 14 is asked; where it is missing, nothing is.
set -eu
cd "$(dirname "$0")/.."
clang-format --version 2>/dev/null | grep -q 'version 14\.' || { echo "no clang-format 14: not checked"; exit 0; }
clang-format --dry-run -Werror tp_*.h examples/*.c tests/*.[ch] tests/gpu/*.c tests/bench/*.[ch]
