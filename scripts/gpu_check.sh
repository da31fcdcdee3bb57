#!/bin/sh
# gpu_check.sh -- does lathe work on this machine's GPU, and how fast: see gpu_check.py.
#
#   scripts/gpu_check.sh [OUT] [--sim] [--parts=build,ops,train,...] [--minutes=8]
#
# SPDX-License-Identifier: MIT
exec python3 -B "$(dirname "$0")/gpu_check.py" "$@"
