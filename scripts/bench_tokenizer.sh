#!/bin/sh
# bench_tokenizer.sh -- the tokenizer's speed and memory, beside tiktoken's: bench_tokenizer.py.
#
#   scripts/bench_tokenizer.sh BUILD DATA [--python=PYTHON with tiktoken] [--only=PART,...] ...
#
# SPDX-License-Identifier: MIT
exec python3 -B "$(dirname "$0")/bench_tokenizer.py" "$@"
