#!/bin/sh
# hf_roundtrip.sh -- ctest's door to scripts/check_hf_roundtrip.py: with the Python that has PyTorch
# and transformers ($LATHE_PYTHON), or SKIP.
#
#     hf_roundtrip.sh WRITE_STEPS_PROGRAM
#
# SPDX-License-Identifier: MIT
set -eu
if [ ! -x "${LATHE_PYTHON:-}" ]; then
    echo "SKIP: no Python with transformers; scripts/test.sh --all installs it"
    exit 77
fi
exec "$LATHE_PYTHON" "$LATHE_SOURCE_DIR/scripts/check_hf_roundtrip.py" --writer="$1"
