#!/bin/sh
# golden_bert_base.sh -- the shape of BERT base against PyTorch and transformers (label oracle).
#
#   tests/model/golden_bert_base.sh build/tests/model/test_bert
#
# Makes the golden values in a temporary folder (1 GB), then compares logits, the loss and every
# gradient of pretraining with them. Exit code 77: no Python with PyTorch.
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
"$python" "$root/scripts/golden_bert.py" --shape=base --out="$work"
LATHE_GOLDEN_BERT=$work "$1"
