#!/bin/sh
# bench_train.sh -- `lathe train` against PyTorch, in turn on this machine: see bench_train.py.
#
#   scripts/bench_train.sh [--python=PYTHON with torch] [--shape=NAME] [--dtype=fp32|bf16] ...
#
# SPDX-License-Identifier: MIT
exec python3 -B "$(dirname "$0")/bench_train.py" "$@"
