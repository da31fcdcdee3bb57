#!/bin/sh
# bench_train.sh -- `lathe train` against PyTorch on this machine: 124M parameters, batch 4 x 64.
#
#   scripts/bench_train.sh [PYTHON with torch, or none] [build/lathe]
#
# Both train GPT-2's shape from random weights on random tokens, float32 and bf16, two threads, in
# turn and never at the same time: ROUNDS rounds (3), STEPS steps each (10) after three to warm up.
# A figure is the median over rounds of the median step; beside it the slowest and fastest round.
# Without PyTorch only lathe's own figures are printed. Environment: ROUNDS, STEPS, THREADS, BATCH,
# TOKENS, PRESET (gpt2), TORCH_SHAPE (124m), TORCH_FLAGS (such as --fused).
#
# SPDX-License-Identifier: MIT
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
python=${1:-none}
lathe=${2:-$root/build/lathe}
rounds=${ROUNDS:-3}
steps=${STEPS:-10}
threads=${THREADS:-2}
batch=${BATCH:-4}
tokens=${TOKENS:-64}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Headerless uint16 ids, as nanoGPT writes them.
mkdir "$work/data"
python3 - "$work/data" "${VOCAB:-50257}" <<'PY'
import array, random, sys
rng = random.Random(1)
for name, n in (("train", 200000), ("val", 5000)):
    with open(f"{sys.argv[1]}/{name}.bin", "wb") as f:
        array.array("H", [rng.randrange(int(sys.argv[2])) for _ in range(n)]).tofile(f)
PY

ours() { # PRECISION -> tokens per second, median step
    rm -rf "$work/run"
    "$lathe" train --preset="${PRESET:-gpt2}" --block_size="$tokens" --data="$work/data" --run="$work/run" \
        --batch_size="$batch" --max_steps=$((steps + 3)) --precision="$1" --threads="$threads" --device=cpu \
        --eval_interval=0 --save_interval=0 --log_interval=0 --warmup_steps=0 > "$work/log" 2>&1 ||
        { cat "$work/log" >&2; exit 1; }
    python3 - "$work/run/metrics.jsonl" $((batch * tokens)) <<'PY'
import json, statistics, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
times = [r["seconds"] for r in rows if r["kind"] == "step" and r["step"] > 3]
print(f"{int(sys.argv[2]) / statistics.median(times):.1f}")
PY
}

theirs() {
    "$python" "$root/scripts/bench_torch.py" --shape="${TORCH_SHAPE:-124m}" --batch="$batch" --tokens="$tokens" \
        --dtype="$1" --steps="$steps" --threads="$threads" ${TORCH_FLAGS:-} | tee -a "$work/torch" |
        sed -n 's/.*tok\/s \([0-9.]*\).*/\1/p'
}

: > "$work/rates"
round=1
while [ "$round" -le "$rounds" ]; do
    for precision in fp32 bf16; do
        a=$(ours "$precision")
        b=-
        [ "$python" = none ] || b=$(theirs "$precision")
        echo "round $round $precision: lathe $a tok/s, torch $b tok/s"
        echo "$precision $a $b" >> "$work/rates"
    done
    round=$((round + 1))
done
[ "$python" = none ] || cut -d' ' -f1,2 "$work/torch" | sort -u
python3 - "$work/rates" <<'PY'
import statistics, sys
rows = [line.split() for line in open(sys.argv[1])]
def show(values):
    return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"
for precision in ("fp32", "bf16"):
    ours = [float(r[1]) for r in rows if r[0] == precision]
    theirs = [float(r[2]) for r in rows if r[0] == precision and r[2] != "-"]
    text = f"{precision}: lathe {show(ours)} tok/s"
    if theirs:
        ratios = [a / b for a, b in zip(ours, theirs)]
        text += f", torch {show(theirs)} tok/s, ratio {statistics.median(ratios):.2f}"
        text += f" ({min(ratios):.2f} to {max(ratios):.2f})"
    print(text)
PY
