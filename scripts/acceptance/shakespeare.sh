#!/bin/sh
# shakespeare.sh -- nanoGPT's CPU setting on tinyshakespeare: is the validation loss <= 1.90?
#
#   scripts/acceptance/shakespeare.sh [build/lathe] [tinyshakespeare.txt] [fp32|bf16]
#
# 4 layers, 4 heads, 128 wide, block 64, batch 12, 2,000 steps, no dropout, characters, the last tenth
# for validation (preset shakespeare-char-cpu). Prints the loss over the whole validation split and
# the seconds of training. About 1 to 3 minutes on two cores.
#
# SPDX-License-Identifier: MIT
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
lathe=${1:-$root/build/lathe}
text=${2:-${LATHE_SHARED:-$root/../shared}/data/text/tinyshakespeare.txt}
precision=${3:-fp32}
if [ ! -f "$text" ]; then
    echo "SKIP: no tinyshakespeare.txt; give its path as the second argument"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$lathe" tokenizer train --input="$text" --type=char --out="$work/tok" > "$work/log"
"$lathe" data --input="$text" --tokenizer="$work/tok" --out="$work/data" --val_fraction=0.1 >> "$work/log"
began=$(date +%s.%N)
"$lathe" train --preset=shakespeare-char-cpu --data="$work/data" --run="$work/run" --device=cpu \
    --precision="$precision" --log_interval=250 --eval_interval=500 --threads="${THREADS:-2}"
ended=$(date +%s.%N)
result=$("$lathe" eval --model="$work/run" --data="$work/data" --eval_batches=0)
echo "whole validation split: $result"
"$lathe" generate --model="$work/run" --prompt="ROMEO:" --max_new_tokens=200 --seed=1
echo "$result" | awk -v t="$(echo "$ended $began" | awk '{print $1 - $2}')" -v p="$precision" '
    { ok = $2 <= 1.90; printf "shakespeare-char-cpu %s: loss %s (at most 1.90), %.1f s: %s\n", p, $2, t, ok ? "PASS" : "FAIL"; exit !ok }'
