#!/usr/bin/env python3
"""Write tests/tokenizer/golden/wordpiece.txt: ids of Hugging Face's BERT tokenizer, to compare with.

    scripts/golden_wordpiece.py DATA

Needs `pip install tokenizers`, and in DATA the files bert-base-uncased/vocab.txt, text/*.txt. Writes

    small-vocab.txt    a vocabulary of some hundred tokens
    wordpiece.txt      lines  string ENCODING HEX ID ID ...
                              text ENCODING NAME COUNT CRC   (as in golden.txt)
                              normal STEPS WORDS CRC         (CRC-32 of the words, a space between two)
                       ENCODING: small-uncased, small-cased, small-lower, bert-base-uncased
                       STEPS: bits, 1 clean, 2 cjk, 4 strip, 8 lower; the text is every scalar value c
                       as "aCb ", and behind it every mark that has an order, in threes

SPDX-License-Identifier: MIT
"""
import struct
import sys
import zlib
from pathlib import Path

import tokenizers
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

sys.path.insert(0, str(Path(__file__).resolve().parent))
from check_wordpiece import SCALARS, WORDS, strings  # noqa: E402

OUT = Path(__file__).resolve().parent.parent / "tests" / "tokenizer" / "golden"
NORMAL = {"uncased": 15, "cased": 3, "lower": 11}
# Marks that stay when accents are stripped, of different combining classes, and one that goes.
MARKS = [0x8D4, 0x1B44, 0x302E, 0x1D165, 0x1D16D, 0x11446, 0x1E94A, 0x301, 0x34F]

STRINGS = [
    "", " ", "a", "Hello, World!", "unaffable", "the theology", "don't", "a.b,c;d", "e\u0301", "\u00c9t\u00e9",
    "\u0130\u0131I", "\u4e2d\u6587 a\u4e2db", "\uac01", "a\u200bb", "a\x00b\x0bc", "a\u00a0b\u3000c", "\ufffd",
    "[CLS] [MASK] [unk]", "#hash ##ing #", "\u00bf\u00a1a\u2014b\u2026", "\U0001f600", "\u1e9e\u212b\u03a3",
    "x" * 100, "x" * 101, "\u00e9" * 100, "\u00e9" * 101, "th" * 50, "\t\r\n", "\u0301", "a\u0301\u0323\u0344b",
]


def small_vocab():
    letters = "abcdefghijklmnopqrstuvwxyzABCDEHIT0123456789.,;:!?'#-[]()$\u00e9\u00e0\u00e4\u00c9\u0131\u03c3\u03b1" \
              "\u4e2d\u6587\u1100\u1161\u11a8\u0430\u0431\u0432\u05d0\u0628\u0915\u2014\U0001f600\u0307\u0301\u1d2a"
    words = ["the", "then", "hello", "world", "un", "don", "theo", "whale", "mask", "cls", "unk", "Hello"]
    parts = ["aff", "able", "ing", "s", "ed", "logy", "olog", "y", "hh", "er", "xxxxxxxxxxxxxxxxxxxxxxxxxxx"]
    out = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + c for c in letters), *words]
    return list(dict.fromkeys(out + ["##" + p for p in parts]))


def tokenizer(vocab, steps):
    t = tokenizers.Tokenizer(WordPiece({v: i for i, v in enumerate(vocab)}, unk_token="[UNK]",
                                       max_input_chars_per_word=100))
    t.normalizer = BertNormalizer(*(bool(steps >> k & 1) for k in range(4)))
    t.pre_tokenizer = BertPreTokenizer()
    return t


def every_code_point():
    return "".join("a" + chr(c) + "b " for c in SCALARS) + " ".join(
        "a" + chr(x) + chr(y) + chr(z) for x in MARKS for y in MARKS for z in MARKS)


def main(data):
    vocab = small_vocab()
    (OUT / "small-vocab.txt").write_bytes("".join(v + "\n" for v in vocab).encode())
    published = (data / "bert-base-uncased" / "vocab.txt").read_bytes().decode().split("\n")[:-1]
    texts = [(p.name, p.read_bytes().decode()) for p in sorted((data / "text").glob("*.txt"))]
    texts += [("every-code-point", "".join(map(chr, SCALARS))),
              ("every-code-point-behind-x", "".join("x" + chr(c) for c in SCALARS))]
    every = every_code_point()
    with open(OUT / "wordpiece.txt", "w") as out:
        print("# Written by scripts/golden_wordpiece.py with tokenizers", tokenizers.__version__, file=out)
        for name, steps in NORMAL.items():
            t = tokenizer(vocab, steps)
            for s in STRINGS + WORDS + list(strings(50, steps, vocab)):
                if s:
                    print("string small-" + name, s.encode().hex(), *t.encode(s).ids, file=out)
        t = tokenizer(published, NORMAL["uncased"])
        for name, text in texts:
            ids = t.encode_batch_fast([text])[0].ids
            crc = zlib.crc32(struct.pack("<%di" % len(ids), *ids))
            print("text bert-base-uncased", name, len(ids), "%08x" % crc, file=out)
        for steps in (0, 3, 4, 8, 12, 15):
            t = tokenizer(vocab, steps)
            words = [w for w, _ in t.pre_tokenizer.pre_tokenize_str(t.normalizer.normalize_str(every))]
            print("normal", steps, len(words), "%08x" % zlib.crc32(" ".join(words).encode()), file=out)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
