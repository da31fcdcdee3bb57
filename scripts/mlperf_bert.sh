#!/bin/sh
# mlperf_bert.sh -- MLPerf training's BERT-large on a DGX H100: data, checkpoint, run, log.
#
#   scripts/mlperf_bert.sh data    TEXT WORK     texts of the benchmark to WORK/data
#   scripts/mlperf_bert.sh start   HF WORK       the first checkpoint: is its accuracy the right one?
#   scripts/mlperf_bert.sh run     HF WORK       the timed run, log in WORK/result_SEED.txt
#   scripts/mlperf_bert.sh plan                  memory and FLOPs of the run, on any machine
#
# THIS HAS NOT RUN. It was written from the rules and from published logs; its pieces run in the tests
# on small models and small texts. What is known to differ from a submission of the closed division:
#
#   - lathe trains on one GPU. The batch is the whole node's (384 rows of 512, two sequences in a row
#     on average: 768), in 8 micro-batches. Eight GPUs are to take one each; the best published single
#     node (8 x H100) needs 5.47 minutes, one GPU alone at the same speed about 44.
#   - tokens are masked when they are loaded, anew in each epoch, not once in ten copies of the data.
#     That is why the log says division open.
#   - the evaluation sees its first rows in order, about 10,000 sequences, not the rules' 10,000.
#   - the log says status research; submissions say onprem, cloud or preview.
#
# What it needs
#   TEXT  a folder with the benchmark's texts (Wikipedia of 2020-01-01, a sentence a line, a blank line
#         between articles): results4/part-00000-of-00500 ..., eval.txt, vocab.txt. MLCommons hosts
#         them; its training reference (language_model/tensorflow/bert) has the links and checksums.
#   HF    the benchmark's first checkpoint (model.ckpt-28252 of the same place) as a Hugging Face folder:
#         transformers' convert_bert_original_tf_checkpoint_to_pytorch.py, then save_pretrained.
#   WORK  about 80 GB for the data (80 billion tokens in ten copies; 8 GB a copy), more while it is made.
#
# Environment: LATHE (build/lathe), SEED (the time), DEVICE (cuda), PRECISION (bf16), MICRO (48 rows in
# a micro-batch), DUPE (10), ORG and PLATFORM (for the log).
#
# SPDX-License-Identifier: MIT
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
lathe=${LATHE:-$root/build/lathe}
micro=${MICRO:-48}

usage() {
    sed -n '2,8s/^# \{0,1\}//p' "$0"
    exit 2
}

# Rows are packs of up to three sequences. Masked tokens: 15 % of a row and one for each sequence.
model="--preset=bert-large --block_size=512 --data.pack=3 --precision=${PRECISION:-bf16}
    --batch_size=$micro --batch_tokens=$((384 * 512)) --head_rows=4096"

# Of the published runs of 8 H100: LAMB, no warm-up, a straight line down to 0 in 3,680 steps.
recipe="--optimizer=lamb --learning_rate=9.6e-4 --min_lr=0 --warmup_steps=0 --schedule=poly --poly_power=1
    --max_steps=3680 --beta1=0.60466 --beta2=0.85437 --eps=1e-6 --weight_decay=0.1 --grad_clip=1
    --dropout=0.1"

# Pairs of at most 512 tokens; a tenth of them aims shorter; seed 12345; each copy is paired anew.
pairs() { # TEXT VOCABULARY OUT COPIES
    "$lathe" data --format=bert --sentences=line --input="$1" --tokenizer="$2" --pattern=uncased --out="$3" \
        --max_seq_length=512 --short_seq_prob=0.1 --dupe_factor="$4" --data.seed=12345 --val_fraction=0
}

# The texts of the evaluation become the validation split of the folder: engine/data/FORMAT.md.
join() { # TRAINING EVALUATION
    python3 - "$1" "$2" <<'PYTHON'
import json, os, shutil, sys
train, val = sys.argv[1:]
meta, other = (json.load(open(os.path.join(d, "meta.json"))) for d in (train, val))
if meta["tokenizer"] != other["tokenizer"]:
    sys.exit("the two folders have different tokenizers")
def renamed(entry):
    if isinstance(entry, dict):
        return {k: renamed(v) for k, v in entry.items()}
    if isinstance(entry, list):
        return [renamed(v) for v in entry]
    if isinstance(entry, str) and entry.startswith("train"):
        shutil.copyfile(os.path.join(val, entry), os.path.join(train, "val" + entry[5:]))
        return "val" + entry[5:]
    return entry
meta["val"] = renamed(other["train"])
with open(os.path.join(train, "meta.json.new"), "w") as f:
    json.dump(meta, f, indent=2)
os.replace(os.path.join(train, "meta.json.new"), os.path.join(train, "meta.json"))
PYTHON
}

make_data() { # TEXT WORK
    mkdir -p "$2/text" # the parts have no ending that says what they are
    from=$(cd "$1/results4" && pwd)
    for part in "$from"/part-*; do
        ln -sf "$part" "$2/text/$(basename "$part").txt"
    done
    pairs "$2/text" "$1/vocab.txt" "$2/data" "${DUPE:-10}"
    pairs "$1/eval.txt" "$1/vocab.txt" "$2/eval" 1
    join "$2/data" "$2/eval"
    "$lathe" inspect "$2/data"
}

# Two sequences in a row on average: 10,000 sequences are about 5,000 rows.
eval_batches=$(((5000 + micro - 1) / micro))

# The rules: before training the accuracy is close to 0.34085. Anything else is a wrong checkpoint,
# vocabulary or text.
check_start() { # HF WORK
    "$lathe" eval --model="$1" --data="$2/data" --block_size=512 --data.pack=3 --batch_size="$micro" \
        --eval_batches="$eval_batches" --device="${DEVICE:-cuda}" | tee "$2/start.txt"
    awk '{ for (i = 1; i < NF; i++) if ($i == "accuracy" && !seen++) a = $(i + 1) }
         END { ok = a > 0.33 && a < 0.35
               printf "accuracy %s, expected about 0.34085: %s\n", a, ok ? "PASS" : "FAIL"; exit !ok }' "$2/start.txt"
}

clear_caches() { # LOG
    sync
    if echo 3 | sudo -n tee /proc/sys/vm/drop_caches > /dev/null 2>&1; then
        printf ':::MLLOG {"namespace": "", "time_ms": %s, "event_type": "POINT_IN_TIME", "key": "cache_clear", "value": true, "metadata": {}}\n' \
            "$(date +%s%3N)" >> "$1"
    else
        echo "the system's caches could not be cleared (no sudo): the log will say so" >&2
    fi
}

timed_run() { # HF WORK
    seed=${SEED:-$(date +%s)}
    log=$2/result_$seed.txt
    clear_caches "$log"
    # Saving is off: the clock never rests. Evaluations are where the rules want them (-1).
    # shellcheck disable=SC2086
    "$lathe" train $model $recipe --data="$2/data" --init_from="$1" --run="$2/run_$seed" --seed="$seed" \
        --device="${DEVICE:-cuda}" --eval_samples=-1 --eval_batches="$eval_batches" --target_accuracy=0.720 \
        --save_interval=0 --log_interval=100 --mllog="$log" --mllog.org="${ORG:-reference}" \
        --mllog.platform="${PLATFORM:-1xH100-SXM}" --mllog.division=open
    echo "log: $log"
    awk -F'"time_ms": ' '/"run_start"/ { split($2, a, ","); t = a[1] } /"run_stop"/ { split($2, a, ",")
        printf "%.2f minutes\n", (a[1] - t) / 60000 }' "$log"
}

case "${1:-}" in
data) [ $# -eq 3 ] || usage && make_data "$2" "$3" ;;
start) [ $# -eq 3 ] || usage && check_start "$2" "$3" ;;
run) [ $# -eq 3 ] || usage && timed_run "$2" "$3" ;;
plan)
    # shellcheck disable=SC2086
    "$lathe" plan $model --vocab_size=30522
    ;;
*) usage ;;
esac
