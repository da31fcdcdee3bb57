#!/usr/bin/env python3
"""Write the character tables of tokenizer/.

    gen_unicode_tables.py class > tokenizer/unicode_class.c
        letter, number and white space of Unicode 16.0.
        Needs `pip install unicodedata2==16.0.0` (Python's own unicodedata may be of another version).
    gen_unicode_tables.py bert > tokenizer/bert_chars.c
        what BERT's normaliser and pre-tokeniser make of each character. Found out by asking
        Hugging Face tokenizers about every code point: it mixes the data of several Unicode
        versions (tokenizer/bert_chars.h), and no single one gives the same ids.
        Needs `pip install tokenizers==0.23.3`.

SPDX-License-Identifier: MIT
"""
import sys

BLOCK = 256
SCALARS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def rows(values, per_line, fmt, indent="    "):
    for i in range(0, len(values), per_line):
        print(indent + ", ".join(fmt % v for v in values[i:i + per_line]) + ",")


def two_levels(pack):
    """Blocks of 256 code points, each kind once, and which of them serves which code points."""
    blocks, index = [], []
    for first in range(0, 0x110000, BLOCK):
        packed = pack(first)
        if packed not in blocks:
            blocks.append(packed)
        index.append(blocks.index(packed))
    assert len(blocks) < 256
    return blocks, index


def head(name, what):
    print("""// %s.c -- see %s.h. %s
// Written by scripts/gen_unicode_tables.py; do not edit.
//
// SPDX-License-Identifier: MIT
#include "tokenizer/%s.h"
""" % (name, name, what, name))


def write_blocks(name, blocks, index, type_of, per_line, fmt, note):
    print("// Which block serves code points 256 * i ...")
    print("const uint8_t %s_index[0x1100] = {" % name)
    rows(index, 20, "%d")
    print("};\n\n// %s" % note)
    print("const %s %s_block[%d][%d] = {" % (type_of, name, len(blocks), len(blocks[0])))
    for b in blocks:
        print("    {")
        rows(b, per_line, fmt, "        ")
        print("    },")
    print("};")


# Letter, number, white space ---------------------------------------------------------------------

# White_Space=yes of PropList.txt; unicodedata has no such property. Stable since Unicode 6.3.
SPACE = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029,
         0x202F, 0x205F, 0x3000}


def write_class():
    import unicodedata2
    assert unicodedata2.unidata_version == "16.0.0", unicodedata2.unidata_version

    def char_class(cp):
        if cp in SPACE:
            return 3
        return {"L": 1, "N": 2}.get(unicodedata2.category(chr(cp))[0], 0)

    blocks, index = two_levels(lambda first: bytes(
        sum(char_class(first + i + k) << (2 * k) for k in range(4)) for i in range(0, BLOCK, 4)))
    head("unicode_class", "Unicode 16.0 classes, two bits a code point.")
    write_blocks("unicode_class", blocks, index, "uint8_t", 16, "%d",
                 "Four code points a byte, lowest bits first.")


# BERT --------------------------------------------------------------------------------------------

OTHER, SPACE_, PUNCT, MARK, MARK_STARTER, NONSTARTER, DROP, DROP_SPACE = range(8)
MAPPED = 8


def hangul(c):
    return 0xAC00 <= c <= 0xD7A3


def probe():
    """What the package does with each code point, alone."""
    from tokenizers.normalizers import NFD, BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    def changes(**on):
        off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
        n = BertNormalizer(**{**off, **on})
        return {c: out for c in SCALARS if (out := n.normalize_str(chr(c))) != chr(c)}

    nfd = NFD().normalize_str
    clean, cjk = changes(clean_text=True), changes(handle_chinese_chars=True)
    strip, lower = changes(strip_accents=True), changes(lowercase=True)
    assert set(clean.values()) == {"", " "}
    assert all(out == " " + chr(c) + " " for c, out in cjk.items())
    drop = {c for c, out in clean.items() if out == ""}
    space, punct = set(), set()
    cut = BertPreTokenizer().pre_tokenize_str
    for c in SCALARS:
        words = [w for w, _ in cut("a" + chr(c) + "b")]
        if words == ["a", "b"]:
            space.add(c)
        elif words == ["a", chr(c), "b"]:
            punct.add(c)
        else:
            assert words == ["a" + chr(c) + "b"]
    assert {c for c, out in clean.items() if out == " "} | {0x20} == space - drop

    # Combining classes: c is no starter if a mark of the highest or the lowest class passes it.
    last, first = "\u0345", "\u0334"
    non = {c for c in SCALARS if nfd(last + chr(c)) == chr(c) + last or nfd(chr(c) + first) == first + chr(c)}
    non |= {ord(last), ord(first)}
    kept = sorted(c for c in non if strip.get(c) != "")
    rank = {c: 1 + sum(nfd(chr(c) + chr(k)) == chr(k) + chr(c) for k in kept) for c in kept}
    assert not non & (space | punct | drop | set(cjk)) and not set(kept) & set(strip)

    klass = dict.fromkeys(SCALARS, OTHER)
    for c in SCALARS:
        if c in drop:
            klass[c] = DROP_SPACE if c in space else DROP
        elif c in space:
            klass[c] = SPACE_
        elif c in punct:
            klass[c] = PUNCT
        elif strip.get(c) == "":
            klass[c] = MARK if ord(nfd(chr(c))[0]) in non else MARK_STARTER
        elif c in rank:
            klass[c] = NONSTARTER
    strip = {c: out for c, out in strip.items() if out and not hangul(c)}
    for c in {*strip, *lower}:
        klass[c] |= MAPPED
    return klass, strip, lower, rank, sorted(cjk)


def lower_ranges(lower):
    """first, last, step, delta: every step-th of first ... last moves by delta."""
    out = []
    for c in sorted(lower):
        if c < 0x80 or len(lower[c]) > 1:
            continue
        delta = ord(lower[c]) - c
        if out and out[-1][3] == delta and c - out[-1][1] in (1, 2):
            first, last, step, _ = out[-1]
            if first == last or c - last == step:
                out[-1] = (first, c, c - last, delta)
                continue
        out.append((c, c, 1, delta))
    return out


def runs(values):
    out = []
    for c in values:
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def write_bert():
    import tokenizers
    klass, strip, lower, rank, cjk = probe()
    assert {c: out for c, out in lower.items() if len(out) > 1} == {0x130: "i\u0307"}
    assert all(lower.get(c) == chr(c + 32) for c in range(0x41, 0x5B))

    def pack(first):
        k = [klass.get(c, OTHER) for c in range(first, first + BLOCK)]
        return tuple(sum(k[i + j] << (4 * j) for j in range(8)) for i in range(0, BLOCK, 8))

    blocks, index = two_levels(pack)
    head("bert_chars", "As in Hugging Face tokenizers %s." % tokenizers.__version__)
    write_blocks("bert_class", blocks, index, "uint32_t", 8, "0x%08x",
                 "Eight code points a word, lowest bits first.")
    one = sorted((c, ord(out)) for c, out in strip.items() if len(out) == 1)
    more = sorted((c, *map(ord, out)) for c, out in strip.items() if len(out) > 1)
    ranges = lower_ranges(lower)
    print("\nconst BertPair bert_strip_one[BERT_STRIP_ONE] = {")
    rows(one, 5, "{0x%x, 0x%x}")
    print("};\n\nconst uint32_t bert_strip_more[BERT_STRIP_MORE][4] = {")
    rows([(*m, 0)[:4] for m in more], 2, "{0x%x, 0x%x, 0x%x, 0x%x}")
    print("};\n\nconst BertRange bert_lower_range[BERT_LOWER_RANGES] = {")
    rows(ranges, 3, "{0x%x, 0x%x, %d, %d}")
    print("};\n\nconst BertRange bert_order_range[BERT_ORDER_RANGES] = {")
    order = []
    for c in sorted(rank):
        if order and order[-1][1] == c - 1 and order[-1][3] == rank[c]:
            order[-1] = (order[-1][0], c, 1, rank[c])
        else:
            order.append((c, c, 1, rank[c]))
    rows(order, 3, "{0x%x, 0x%x, %d, %d}")
    print("};\n\nconst BertRange bert_cjk_range[BERT_CJK_RANGES] = {")
    rows([(a, b, 1, 0) for a, b in runs(cjk)], 3, "{0x%x, 0x%x, %d, %d}")
    print("};")
    print("BERT_STRIP_ONE = %d, BERT_STRIP_MORE = %d, BERT_LOWER_RANGES = %d, BERT_ORDER_RANGES = %d, "
          "BERT_CJK_RANGES = %d" % (len(one), len(more), len(ranges), len(order), len(runs(cjk))),
          file=sys.stderr)


if __name__ == "__main__":
    writers = {"class": write_class, "bert": write_bert}
    if len(sys.argv) != 2 or sys.argv[1] not in writers:
        sys.exit(__doc__)
    writers[sys.argv[1]]()
