#!/usr/bin/env bash
# MNIST is learnt, where its IDX files are: TP_TEST_MNIST names their folder.
[ -n "${TP_TEST_MNIST:-}" ] || { echo "TP_TEST_MNIST, the folder of MNIST's IDX files, is not set"; exit 77; }
exec bash "$(dirname "$0")/check_learns.sh" mnist
