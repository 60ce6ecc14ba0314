#!/usr/bin/env bash
# Formatted as .clang-format says. Versions of clang-format differ, so only 14 is asked (tests/setup.sh installs it on
# Debian 12); status 77 where it is missing.
set -eu
cd "$(dirname "$0")/.."
clang-format --version 2>/dev/null | grep -q 'version 14\.' || { echo "no clang-format 14"; exit 77; }
clang-format --dry-run -Werror tp_*.h examples/*.[ch] tests/*.[ch] tests/gpu/*.c tests/bench/*.[ch]
