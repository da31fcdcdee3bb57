#!/usr/bin/env python3
"""Write tokenizer/unicode_class.c: letter, number and white space classes of Unicode 16.0.

Needs `pip install unicodedata2==16.0.0` (Python's own unicodedata may be of another version).
Usage: gen_unicode_tables.py > tokenizer/unicode_class.c

SPDX-License-Identifier: MIT
"""
import unicodedata2

assert unicodedata2.unidata_version == "16.0.0", unicodedata2.unidata_version

# White_Space=yes of PropList.txt; unicodedata has no such property. Stable since Unicode 6.3.
SPACE = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029,
         0x202F, 0x205F, 0x3000}
BLOCK = 256


def char_class(cp):
    if cp in SPACE:
        return 3
    return {"L": 1, "N": 2}.get(unicodedata2.category(chr(cp))[0], 0)


def rows(values, per_line, fmt):
    for i in range(0, len(values), per_line):
        print("    " + ", ".join(fmt % v for v in values[i:i + per_line]) + ",")


blocks, index = [], []
for first in range(0, 0x110000, BLOCK):
    packed = bytes(sum(char_class(first + i + k) << (2 * k) for k in range(4))
                   for i in range(0, BLOCK, 4))
    if packed not in blocks:
        blocks.append(packed)
    index.append(blocks.index(packed))
last = max(i for i, b in enumerate(index) if b != index[-1])
assert len(blocks) < 256

print("""// unicode_class.c -- see unicode_class.h. Unicode 16.0 classes, two bits a code point.
// Written by scripts/gen_unicode_tables.py; do not edit.
//
// SPDX-License-Identifier: MIT
#include "tokenizer/unicode_class.h"

// Which block serves code points 256 * i ...""")
print("const uint8_t unicode_class_index[0x1100] = {")
rows(index, 20, "%d")
print("};\n\n// Four code points a byte, lowest bits first.")
print("const uint8_t unicode_class_block[%d][64] = {" % len(blocks))
for b in blocks:
    print("    {")
    for i in range(0, 64, 16):
        print("        " + ", ".join("%d" % v for v in b[i:i + 16]) + ",")
    print("    },")
print("};")
