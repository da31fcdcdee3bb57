#!/bin/sh
# golden_124m.sh -- the shape of GPT-2 124M against PyTorch and transformers (label oracle).
#
#   tests/model/golden_124m.sh build/tests/model/test_golden
#
# Makes the golden values in a temporary folder (3 GB), compares logits, every gradient and ten AdamW
# steps with them, then loads checkpoints both ways. Exit code 77: no Python with PyTorch.
#
# SPDX-License-Identifier: MIT
set -eu
root=${LATHE_SOURCE_DIR:?}
python=${LATHE_PYTHON:-none}
if ! "$python" -c 'import torch, transformers' 2> /dev/null; then
    echo "SKIP: no Python with torch and transformers (scripts/test.sh --all makes one)"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" "$root/scripts/golden_gpt2.py" --shape=124m --out="$work"
LATHE_GOLDEN=$work "$1"
gpt2=${LATHE_SHARED:-$root/../shared}/data/gpt2
text=${LATHE_SHARED:-$root/../shared}/data/text/moby-dick.txt
if [ -f "$gpt2/vocab.bpe" ] && [ -f "$text" ]; then
    "$python" "$root/scripts/acceptance/hf_oracle.py" "$work" --lathe="$LATHE_BIN" --gpt2="$gpt2" \
        --text="$text"
else
    echo "SKIP: checkpoints both ways need GPT-2's vocabulary and a text in ../shared/data"
fi
