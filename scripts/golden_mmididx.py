#!/usr/bin/env python3
"""Write tests/data/golden/mmididx.{idx,bin}: a small Megatron dataset (MMIDIDX version 1).

Five sequences in three documents of int32 tokens; token i of the whole is 70000 - 3 * i, so that
the ids need more than 16 bits. Python's struct module only.

SPDX-License-Identifier: MIT
"""
import os
import struct

LENGTHS = [4, 1, 6, 2, 7]
DOCUMENTS = [0, 2, 3, 5]  # first sequence of each document, and the end
INT32 = 4

here = os.path.dirname(os.path.abspath(__file__))
base = os.path.join(here, "..", "tests", "data", "golden", "mmididx")
tokens = [70000 - 3 * i for i in range(sum(LENGTHS))]
pointers = [4 * sum(LENGTHS[:i]) for i in range(len(LENGTHS))]
with open(base + ".bin", "wb") as f:
    f.write(struct.pack(f"<{len(tokens)}i", *tokens))
with open(base + ".idx", "wb") as f:
    f.write(b"MMIDIDX\x00\x00")
    f.write(struct.pack("<QBQQ", 1, INT32, len(LENGTHS), len(DOCUMENTS)))
    f.write(struct.pack(f"<{len(LENGTHS)}i", *LENGTHS))
    f.write(struct.pack(f"<{len(pointers)}q", *pointers))
    f.write(struct.pack(f"<{len(DOCUMENTS)}q", *DOCUMENTS))
