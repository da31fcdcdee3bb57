#!/usr/bin/env python3
"""Write tests/tokenizer/golden/: token ids of tiktoken, to compare ours with.

    scripts/golden_tokenizer.py DATA

Needs `pip install tiktoken tokenizers`, and in DATA the files gpt2/encoder.json, gpt2/vocab.bpe,
tokenizer-vectors/cl100k_base.tiktoken, text/*.txt. Writes

    tiny.json       a byte-level BPE of 400 ids trained by Hugging Face tokenizers on the strings below
    tiny.tiktoken   the same as a rank file
    golden.txt      lines  string ENCODING HEX ID ID ...
                           text ENCODING NAME COUNT CRC       (CRC-32 of the ids as little-endian int32)
                    ENCODING: gpt2 and cl100k (the published vocabularies), tiny-gpt2 and tiny-cl100k
                    (the small one with either pattern), probe-gpt2 and probe-cl100k (see probe)

SPDX-License-Identifier: MIT
"""
import base64
import inspect
import re
import struct
import sys
import zlib
from pathlib import Path

import tiktoken
import tiktoken_ext.openai_public as public
from tiktoken.load import data_gym_to_mergeable_bpe_ranks, load_tiktoken_bpe
from tokenizers import ByteLevelBPETokenizer

OUT = Path(__file__).resolve().parent.parent / "tests" / "tokenizer" / "golden"
TINY_VOCAB = 400

PROSE = """Call me Ishmael. Some years ago - never mind how long precisely - having little or no money
in my purse, and nothing particular to interest me on shore, I thought I would sail about a little and
see the watery part of the world. It is a way I have of driving off the spleen, and regulating the
circulation. Whenever I find myself growing grim about the mouth; whenever it is a damp, drizzly
November in my soul; whenever I find myself involuntarily pausing before coffin warehouses, and
bringing up the rear of every funeral I meet; then, I account it high time to get to sea as soon as I
can. It's what we're after, they'll say; I've seen 1851 whales, and 20 ships, haven't I?\n"""

STRINGS = [
    "a", " ", "\n", "\0", "~", "hello world", "Hello, World!", " leading", "trailing ", "trailing\n",
    "two  spaces", "three   spaces", "tab\tword", "\t\tindented", "    four = 4;\n        eight = 8;\n",
    "line\n\nline", "line\r\nline\r\n", "a\n \n b", "a\n  ", "a \n", " \n\t ", "\n\n\n", "   ", "   x",
    "it's we're they'll I've I'm he'd don't", "IT'S WE'RE THEY'LL I'VE I'M HE'D DON'T", "'s 't 'd 'm",
    "'x ''s '", "x'", "'ll'll've", "'l", "'\u017f", "'\u017ft", "a'\u017fb", "0 1 12 123 1234 12345678",
    "3.14159", "1,000,000", "x1y22z333", "\u0661\u0662\u0663\u0664", "\u00bd\u00b2\u2168", "!?", "!?\n\n",
    "...", " ...\r\n", "a.b,c;d", "foo_bar(baz[1])", "#include <stdio.h>\n", "caf\u00e9 na\u00efve",
    "\u00c5ngstr\u00f6m", "\u043f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440",
    "\u4f60\u597d\u4e16\u754c", "\u3053\u3093\u306b\u3061\u306f", "\uc548\ub155", "\u0645\u0631\u062d\u0628\u0627",
    "\u0928\u092e\u0938\u094d\u0924\u0947", "e\u0301", "\u00a0x", "x\u00a0", "a\u3000b", "\u2028\u2029",
    "\u200b\u200d\ufeff", "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f1e9\U0001f1ea \U0001f600\U0001f600", "\ufffd\U0010ffff", "<|endoftext|>", "a<|endoftext|>b",
    "a" * 30, "a" * 100, " " * 30, " " * 100 + "x", "\n" * 100, "ab" * 60, "9" * 50, "=" * 80,
    "word" * 40, "\U0001f600" * 20, "\u00e9" * 60, "The quick brown fox jumps over the lazy dog.",
]


def texts():
    """Every scalar value, in settings that show its class: the test builds the same."""
    scalars = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    yield "every-code-point", "".join(scalars)
    yield "every-code-point-behind-x", "".join("x" + c for c in scalars)
    yield "every-code-point-behind-space", "".join(" " + c for c in scalars)
    yield "every-code-point-behind-1", "".join("1" + c for c in scalars)
    yield "every-code-point-behind-apostrophe", "".join("'" + c for c in scalars)


def write_tiny():
    tiny = ByteLevelBPETokenizer()
    tiny.train_from_iterator([PROSE] + STRINGS, vocab_size=TINY_VOCAB - 1, min_frequency=2,
                             special_tokens=[])
    tiny.add_special_tokens(["<|endoftext|>"])
    tiny._tokenizer.save(str(OUT / "tiny.json"))
    byte_of = {c: b for b, c in bytes_to_unicode().items()}
    ranks = {bytes(byte_of[c] for c in tok): i for tok, i in tiny.get_vocab().items()
             if tok != "<|endoftext|>"}
    lines = [base64.b64encode(b) + b" %d\n" % i for b, i in sorted(ranks.items(), key=lambda x: x[1])]
    (OUT / "tiny.tiktoken").write_bytes(b"".join(lines))
    return ranks


def probe():
    """Ranks that make every boundary between two characters visible in the ids: all bytes, and each
    end of a character with each beginning of a non-ASCII one. The test builds the same."""
    tokens = [bytes([b]) for b in range(256)]
    tokens += [bytes([a, b]) for a in [*b"x '1", *range(0x80, 0xC0)] for b in range(0xC2, 0xF5)]
    return {t: i for i, t in enumerate(tokens)}


def bytes_to_unicode():
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    return {**{b: chr(b) for b in shown}, **{b: chr(256 + i) for i, b in enumerate(hidden)}}


def main(data):
    OUT.mkdir(parents=True, exist_ok=True)
    cl100k_pattern = re.search(r'r"""(.*?)"""', inspect.getsource(public.cl100k_base)).group(1)
    tiny = write_tiny()
    encodings = {
        "tiny-gpt2": (public.r50k_pat_str, tiny),
        "tiny-cl100k": (cl100k_pattern, tiny),
        "probe-gpt2": (public.r50k_pat_str, probe()),
        "probe-cl100k": (cl100k_pattern, probe()),
        "gpt2": (public.r50k_pat_str, data_gym_to_mergeable_bpe_ranks(
            str(data / "gpt2/vocab.bpe"), str(data / "gpt2/encoder.json"))),
        "cl100k": (cl100k_pattern, load_tiktoken_bpe(
            str(data / "tokenizer-vectors/cl100k_base.tiktoken"))),
    }
    with open(OUT / "golden.txt", "w") as out:
        print("# Written by scripts/golden_tokenizer.py with tiktoken", tiktoken.__version__, file=out)
        for name, (pattern, ranks) in encodings.items():
            enc = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
            for s in [] if name.startswith("probe") else STRINGS:
                print("string", name, s.encode().hex(), *enc.encode_ordinary(s), file=out)
            if name.startswith("tiny"):
                continue
            files = [] if name.startswith("probe") else [
                (p.name, p.read_bytes().decode())
                for p in sorted((data / "text").glob("*.txt"))]
            for title, text in [*texts(), *files]:
                ids = enc.encode_ordinary(text)
                crc = zlib.crc32(struct.pack("<%di" % len(ids), *ids))
                print("text", name, title, len(ids), "%08x" % crc, file=out)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
