#!/bin/sh
# shakespeare.sh -- nanoGPT's CPU setting on tinyshakespeare: is the validation loss <= 1.90?
#
#   scripts/acceptance/shakespeare.sh [build/lathe] [tinyshakespeare.txt] [fp32|bf16]
#
# 4 layers, 4 heads, 128 wide, block 64, batch 12, 2,000 steps, no dropout, characters, the last tenth
# for validation (preset shakespeare-char-cpu). One seed says little here (a run is within +-0.009 of
# the mean), so it is the mean over SEEDS (1 2 3) that is compared. Prints the loss over the whole
# validation split and the seconds of each training: about a minute each on two cores.
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
sum=0
n=0
for seed in ${SEEDS:-1 2 3}; do
    began=$(date +%s.%N)
    "$lathe" train --preset=shakespeare-char-cpu --data="$work/data" --run="$work/run$seed" --device=cpu \
        --precision="$precision" --seed="$seed" --log_interval=500 --eval_interval=500 \
        --threads="${THREADS:-2}"
    ended=$(date +%s.%N)
    loss=$("$lathe" eval --model="$work/run$seed" --data="$work/data" --eval_batches=0 | awk '{ print $2 }')
    echo "seed $seed: loss $loss over the whole validation split, $(awk "BEGIN { printf \"%.1f\", $ended - $began }") s"
    sum=$(awk "BEGIN { printf \"%.6f\", $sum + $loss }")
    n=$((n + 1))
done
"$lathe" generate --model="$work/run$seed" --prompt="ROMEO:" --max_new_tokens=200 --seed=1
awk -v s="$sum" -v n="$n" -v p="$precision" 'BEGIN {
    ok = s / n <= 1.90
    printf "shakespeare-char-cpu %s: mean loss %.4f over %d seeds (at most 1.90): %s\n", p, s / n, n, ok ? "PASS" : "FAIL"
    exit !ok }'
