#!/usr/bin/env python3
"""WordPiece against Hugging Face's BertTokenizerFast: ids, decoding, files, trained vocabularies.

    scripts/check_wordpiece.py [--strings=50000] [--seed=1] [--only=PART]

Parts: book; decode; training; steps-0 to steps-15, the normaliser's choices (15: uncased, 3: cased).

Needs a Python with transformers and tokenizers (else SKIP, exit code 77), the program in LATHE_BIN,
and in LATHE_SHARED/data the files bert-base-uncased/vocab.txt and text/*.txt. The ctest entry
tokenizer_wordpiece_hf (label oracle) runs all of it. `strings()` makes the random strings;
scripts/golden_wordpiece.py takes its own from here.

SPDX-License-Identifier: MIT
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LATHE = os.environ.get("LATHE_BIN", str(HERE.parent / "build" / "lathe"))
DATA = Path(os.environ.get("LATHE_SHARED", str(HERE.parent.parent / "shared"))) / "data"
SCALARS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
FILES_A_CALL = 2000

# Ranges that mean something to the normaliser: where most of a string's characters come from.
POOLS = {
    "ascii": [(0x20, 0x7E)],
    "latin": [(0xA0, 0x24F), (0x1E00, 0x1EFF)],
    "greek, cyrillic": [(0x370, 0x52F), (0x1F00, 0x1FFF)],
    "marks": [(0x300, 0x36F), (0x483, 0x489), (0x591, 0x5C7), (0x610, 0x61A), (0x64B, 0x65F),
              (0x8D3, 0x8FF), (0x1AB0, 0x1ACE), (0x1DC0, 0x1DFF), (0x20D0, 0x20F0), (0x302A, 0x302F),
              (0x1D165, 0x1D172), (0x1E000, 0x1E02A), (0x1E944, 0x1E94A), (0x34F, 0x34F)],
    "indic": [(0x900, 0xDFF), (0x1B00, 0x1BFF), (0x11000, 0x116FF)],
    "hangul": [(0x1100, 0x11FF), (0xAC00, 0xD7A3), (0x3130, 0x318F)],
    "cjk": [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F), (0x2CEA0, 0x2CEB0),
            (0x20000, 0x20010), (0x2B810, 0x2B930), (0x3000, 0x30FF)],
    "control": [(0x00, 0x1F), (0x7F, 0xA0), (0xAD, 0xAD), (0x200B, 0x200F), (0x2028, 0x202F),
                (0x2060, 0x206F), (0xFEFF, 0xFEFF), (0xFFF0, 0xFFFF), (0xE000, 0xE010), (0xE0000, 0xE007F)],
    "space": [(0x20, 0x20), (0x9, 0xD), (0x85, 0x85), (0x1680, 0x1680), (0x2000, 0x200A), (0x3000, 0x3000)],
    "punctuation": [(0x21, 0x2F), (0x2010, 0x2027), (0x2030, 0x205E), (0x3001, 0x3003), (0xFE10, 0xFE6B),
                    (0xFF01, 0xFF65)],
    "symbols": [(0x2100, 0x24FF), (0x1F300, 0x1FAFF), (0x1D400, 0x1D7FF)],
    "anything": [(0, 0xD7FF), (0xE000, 0x10FFFF)],
}
WORDS = ["the", "Unaffable", "tokenization", "[MASK]", "[CLS]", "[SEP]", "[UNK]", "[PAD]", "[mask]", "##ing",
         "don't", "3.14", "\u0130stanbul", "\u1e9e", "\u212b", "fi\ufb01", "e\u0301e\u0301", "O\u0308\u0323",
         "a" * 99, "a" * 100, "a" * 101, "\u00e9" * 100, "\u00e9" * 101, "\uac01" * 33, "\uac01" * 34,
         "\u4e2d\u6587", "x\u200by", "\r\n", "\t", "  "]


def strings(n, seed, vocab=()):
    """n random strings of any scalar values. The same for the same arguments."""
    rng = random.Random(seed)
    pools = list(POOLS.values())

    def char(pool):
        a, b = rng.choice(pool)
        return chr(rng.randint(a, b))

    for _ in range(n):
        mix = [rng.choice(pools) for _ in range(rng.randint(1, 4))]
        out = []
        for _ in range(rng.randint(0, 40)):
            kind = rng.random()
            if kind < 0.08:
                out.append(rng.choice(WORDS))
            elif kind < 0.2 and vocab:
                out.append(rng.choice(vocab).removeprefix("##"))
            elif kind < 0.35:
                out.append(" ")
            else:
                out.append(char(rng.choice(mix)))
        yield "".join(out)


def every_code_point(all_places):
    """Each scalar value within a word; and at its beginning, alone, before an accent."""
    for first in range(0, len(SCALARS), 4096):
        part = [chr(c) for c in SCALARS[first:first + 4096]]
        more = "b {0}a {0} {0}\u0301x" if all_places else "b"
        yield " ".join("a" + c + more.format(c) for c in part)


def run(*args):
    r = subprocess.run([LATHE, *args], capture_output=True)
    if r.returncode:
        sys.exit("lathe %s: %s" % (" ".join(args)[:200], r.stderr.decode()[-2000:]))
    return r.stdout


class Texts:
    """Strings as files, so that any of them can be encoded as it is."""

    def __init__(self, folder, texts):
        self.texts, self.paths = list(texts), []
        os.makedirs(folder)
        for i, text in enumerate(self.texts):
            self.paths.append(os.path.join(folder, str(i)))
            Path(self.paths[-1]).write_bytes(text.encode())

    def ids(self, tokenizer, *flags):
        out = []
        for i in range(0, len(self.paths), FILES_A_CALL):
            lines = run("tokenizer", "encode", "--tokenizer=" + str(tokenizer), *flags,
                        *self.paths[i:i + FILES_A_CALL]).decode().split("\n")[:-1]
            out += [[int(w) for w in line.split()] for line in lines]
        return out


def same(texts, ours, theirs, what):
    assert len(ours) == len(theirs) == len(texts.texts), what
    for text, a, b in zip(texts.texts, ours, theirs):
        if a != b:
            k = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            sys.exit("%s: ids differ at %d: ours %s, theirs %s; %d and %d ids of %a" % (
                what, k, a[k:k + 8], b[k:k + 8], len(a), len(b), text[:2000]))
    print("%-66s %6d texts, %9d ids: equal" % (what, len(ours), sum(map(len, ours))), flush=True)


def encode_all(backend, texts, special):
    backend.encode_special_tokens = not special
    return [e.ids for e in backend.encode_batch(texts, add_special_tokens=False)]


def check_book(dir, base):
    """The published vocabulary on a book: the counts are known."""
    book = Texts(dir + "/book", [(DATA / "text" / "moby-dick.txt").read_bytes().decode()])
    for flags, add, count in (((), False, 285661), (("--add_special",), True, 285663)):
        ours = book.ids(DATA / "bert-base-uncased", *flags)
        theirs = [base(book.texts[0], add_special_tokens=add)["input_ids"]]
        same(book, ours, theirs, "moby-dick.txt " + " ".join(flags))
        assert len(ours[0]) == count, len(ours[0])


def check_steps(dir, base, bits, n, seed):
    """Every code point and random strings, with one choice of the normaliser's steps."""
    from tokenizers.normalizers import BertNormalizer
    main = bits in (15, 3)  # uncased, cased: the others have shorter texts
    every = Texts(dir + "/every", every_code_point(main))
    some = Texts(dir + "/some", strings(n if main else max(n // 10, 1), seed + bits, sorted(base.get_vocab())))
    backend = base.backend_tokenizer
    on = [bool(bits >> k & 1) for k in range(4)]
    backend.normalizer = BertNormalizer(*on)
    backend.encode_special_tokens = False
    backend.save(dir + "/tokenizer.json")
    name = "clean=%d cjk=%d strip=%d lower=%d" % tuple(on)
    for texts, what in ((every, "every code point"), (some, "random strings")):
        for special in (False,) if texts is every else (False, True):
            ours = texts.ids(dir, *(["--allow_special"] if special else []))
            same(texts, ours, encode_all(backend, texts.texts, special),
                 "%s, %s%s" % (name, what, ", special tokens" if special else ""))


def check_decode(dir, base, n, seed):
    """Text from ids: what the decoder of the tokenizer.json gives, with special tokens."""
    rng = random.Random(seed)
    backend = base.backend_tokenizer
    size = backend.get_vocab_size()
    for i in range(max(n // 1000, 5)):
        ids = [rng.randrange(size) if i % 2 else rng.choice([1012, 1005, 1056, 1055, 1010, 2079, 2025, 1050, 1049,
                                                            2310, 2128, 101, 102, 7592, 2075])
               for _ in range(1000)]
        path = dir + "/ids"
        Path(path).write_text(" ".join(map(str, ids)))
        ours = run("tokenizer", "decode", "--tokenizer=" + str(DATA / "bert-base-uncased"), path).decode()
        theirs = backend.decode(ids, skip_special_tokens=False)
        assert ours == theirs, "decoding: %r, not %r" % (ours[:300], theirs[:300])
    print("decoding: equal")


def check_training(dir):
    """A vocabulary of ours: loaded by theirs with the same ids; beside one that theirs trains."""
    from tokenizers import BertWordPieceTokenizer, Tokenizer
    from transformers import AutoTokenizer
    books = sorted((DATA / "text").glob("*.txt"))
    strings_ = Texts(dir + "/train-strings", list(strings(3000, 7)) + [books[0].read_bytes().decode()[:300000]])
    for pattern in ("uncased", "cased", "lower"):
        tok = "%s/trained-%s" % (dir, pattern)
        run("tokenizer", "train", "--type=wordpiece", "--vocab_size=4096", "--pattern=" + pattern,
            "--input=" + str(DATA / "text"), "--out=" + tok)
        theirs = Tokenizer.from_file(tok + "/tokenizer.json")
        same(strings_, strings_.ids(tok), encode_all(theirs, strings_.texts, False), "trained, " + pattern)
        auto = AutoTokenizer.from_pretrained(tok)
        same(strings_, strings_.ids(tok, "--allow_special", "--add_special"),
             [auto(t)["input_ids"] for t in strings_.texts], "trained, %s, AutoTokenizer" % pattern)
        os.remove(tok + "/tokenizer.json")  # vocab.txt and tokenizer_config.json say the same
        same(strings_, strings_.ids(tok), encode_all(theirs, strings_.texts, False), "trained, %s, vocab.txt" % pattern)
    other = BertWordPieceTokenizer()
    other.train([str(b) for b in books], vocab_size=4096, min_frequency=2, show_progress=False)
    ours = set(Path(dir + "/trained-uncased/vocab.txt").read_bytes().decode().split("\n"))
    share = len(ours & set(other.get_vocab())) / 4096
    print("tokens that Hugging Face's trainer chooses, too: %.1f %%" % (100 * share))
    assert share > 0.98


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--strings", type=int, default=50000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", default="")
    a = p.parse_args()
    try:
        os.environ["TRANSFORMERS_VERBOSITY"] = "error"
        os.environ["HF_HUB_OFFLINE"] = "1"
        from transformers import BertTokenizerFast
    except ImportError:
        print("SKIP: no Python package transformers; scripts/test.sh --all installs it")
        sys.exit(77)
    if not (DATA / "bert-base-uncased" / "vocab.txt").exists():
        print("SKIP: no published vocabulary in", DATA)
        sys.exit(77)
    base = BertTokenizerFast.from_pretrained(str(DATA / "bert-base-uncased"))
    parts = {
        "book": lambda dir: check_book(dir, base),
        "decode": lambda dir: check_decode(dir, base, a.strings, a.seed),
        "training": check_training,
        **{"steps-%d" % bits: lambda dir, bits=bits: check_steps(dir, base, bits, a.strings, a.seed)
           for bits in reversed(range(16))},
    }
    if a.only and a.only not in parts:
        sys.exit("no part is called %s" % a.only)
    for name, part in parts.items():
        if not a.only or a.only == name:
            with tempfile.TemporaryDirectory() as dir:
                part(dir)
    print("passed")


if __name__ == "__main__":
    main()
