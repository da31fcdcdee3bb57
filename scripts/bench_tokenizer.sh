#!/bin/sh
# Tokenizer speed: encoding with the GPT-2 and cl100k vocabularies, and training.
#
#   scripts/bench_tokenizer.sh BUILD DATA [PYTHON]
#
# BUILD is a build folder (`cmake --build BUILD --target tokenizer_bench` is done here). DATA has
# gpt2/, tokenizer-vectors/cl100k_base.tiktoken and text/*.txt. With a PYTHON that has tiktoken, each
# measurement is followed by tiktoken's on one core, three rounds interleaved. Processor time.
#
# SPDX-License-Identifier: MIT
set -eu
[ $# -ge 2 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }
build=$1 data=$2 python=${3:-}
cmake --build "$build" --target tokenizer_bench > /dev/null
bench=$build/tests/tokenizer/tokenizer_bench
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cat > "$scratch/theirs.py" <<'PYTHON'
import inspect, re, sys, time
import tiktoken, tiktoken_ext.openai_public as public
from tiktoken.load import data_gym_to_mergeable_bpe_ranks, load_tiktoken_bpe
name, data, path = sys.argv[1:]
if name == "gpt2":
    pattern = public.r50k_pat_str
    ranks = data_gym_to_mergeable_bpe_ranks(data + "/gpt2/vocab.bpe", data + "/gpt2/encoder.json")
else:
    pattern = re.search(r'r"""(.*?)"""', inspect.getsource(public.cl100k_base)).group(1)
    ranks = load_tiktoken_bpe(data + "/tokenizer-vectors/cl100k_base.tiktoken")
enc = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
text = open(path, "rb").read().decode()
best = 1e30
for _ in range(9):
    start = time.process_time()
    ids = enc.encode_ordinary(text)
    best = min(best, time.process_time() - start)
print("%d bytes %d ids %.1f MB/s" % (len(text.encode()), len(ids), len(text.encode()) / best / 1e6))
PYTHON

# Random code points, the same on every machine.
python3 - > "$scratch/random-code-points.txt" <<'PYTHON'
import random, sys
random.seed(1)
points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
sys.stdout.buffer.write("".join(chr(random.choice(points)) for _ in range(300000)).encode())
PYTHON

for encoding in gpt2 cl100k; do
    tokenizer=$data/gpt2
    [ $encoding = gpt2 ] || tokenizer=$data/tokenizer-vectors/cl100k_base.tiktoken
    for text in "$data"/text/*.txt "$scratch/random-code-points.txt"; do
        for round in 1 2 3; do
            printf '%-7s %-24s lathe     ' $encoding "$(basename "$text")"
            "$bench" encode "$tokenizer" "$text"
            [ -n "$python" ] || break
            printf '%-7s %-24s tiktoken  ' $encoding "$(basename "$text")"
            "$python" "$scratch/theirs.py" $encoding "$data" "$text"
        done
    done
done

cat "$data"/text/*.txt "$data"/text/*.txt | head -c 4000000 > "$scratch/four.txt"
for threads in 1 2; do
    printf 'train, %d threads: ' $threads
    "$bench" train 4096 "$scratch/four.txt" $threads
done
