#!/usr/bin/env python3
"""bert_data.py -- lathe data --format=bert from outside.

Every word of the text is another token, so that a pair says where in the text it was cut.

SPDX-License-Identifier: MIT
"""
import json
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import check, main, ok, read, run, write

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "."]
CLS, SEP = 2, 3


def make(folder, documents=60, seed=1):
    """Text with a sentence a line, and its vocabulary; returns the documents as lists of ids."""
    rng, n, texts, ids = random.Random(seed), 0, [], []
    for _ in range(documents):
        lines, one = [], []
        for _ in range(rng.choice([1, 2, 5, 30])):
            words = rng.randint(1, 20)
            lines.append(" ".join(f"w{n + i}" for i in range(words)))
            one += range(len(SPECIAL) + n, len(SPECIAL) + n + words)
            n += words
        texts.append("\n".join(lines))
        ids.append(one)
    write(os.path.join(folder, "vocab.txt"), "".join(w + "\n" for w in SPECIAL + [f"w{i}" for i in range(n)]))
    write(os.path.join(folder, "in.txt"), "\n\n".join(texts) + "\n")
    return ids


def data(folder, out, **how):
    options = {"format": "bert", "sentences": "line", "max_seq_length": 64, **how}
    return run("data", input=os.path.join(folder, "in.txt"), out=os.path.join(folder, out),
               tokenizer=os.path.join(folder, "vocab.txt"), **options)


def pairs(folder, name, split):
    """(A, B, random) of each document."""
    base = os.path.join(folder, name)
    with open(os.path.join(base, "meta.json"), encoding="utf-8") as f:
        meta = json.load(f)
    form = "<%dH" if meta["token_bytes"] == 2 else "<%dI"
    tokens = []
    for shard in meta[split]["shards"]:
        raw = read(os.path.join(base, shard["file"]))[1024:]
        tokens += struct.unpack(form % (len(raw) // meta["token_bytes"]), raw)
    index = read(os.path.join(base, split + ".documents"))[8:]
    begin = list(struct.unpack(f"<{len(index) // 8}Q", index)) + [len(tokens)]
    bits = read(os.path.join(base, split + ".next"))
    check(bits[:8] == b"LTHNEXT1", "magic of train.next")
    out = []
    for i in range(len(begin) - 1):
        ids = tokens[begin[i]:begin[i + 1]]
        check(ids[0] == CLS and ids[-1] == SEP and ids.count(SEP) == 2 and len(ids) <= 64, f"pair {i}: {ids}")
        k = ids.index(SEP)
        out.append((ids[1:k], ids[k + 1:-1], bits[8 + i // 8] >> (i % 8) & 1))
    return out


def test_pairs_are_cut_from_the_text(folder):
    documents = make(folder)
    owner = {t: d for d, ids in enumerate(documents) for t in ids}
    r = data(folder, "a", val_fraction=0.2)
    check(r.code == 0, "data", r)
    parts = {split: pairs(folder, "a", split) for split in ("train", "val")}
    homes = {split: {owner[t] for a, b, _ in p for t in a + b} for split, p in parts.items()}
    check(not homes["train"] & homes["val"], "a document is in both splits")
    check(homes["train"] | homes["val"] == set(range(60)), "a document is in none")
    for split, p in parts.items():
        for a, b, random_next in p:
            check(a and b, "an empty segment")
            for s in (a, b):
                check(s == list(range(s[0], s[0] + len(s))) and owner[s[0]] == owner[s[-1]], f"not of one piece: {s}")
            if random_next:
                check(owner[a[0]] != owner[b[0]], "a random segment of the same document")
            else:
                check(owner[a[0]] == owner[b[0]] and b[0] > a[-1], "B does not follow A")
    share = sum(x[2] for x in parts["train"]) / len(parts["train"])
    check(0.4 < share < 0.8, f"{share} of the pairs are random")
    whole = [x for x in parts["train"] if not x[2] and len(x[0]) + len(x[1]) < 61]
    check(all(x[1][0] == x[0][-1] + 1 for x in whole), "B does not follow A at once, though nothing was cut off")


def test_the_same_whatever_the_threads(folder):
    make(folder)
    for name, how in (("a", {"threads": 1}), ("b", {"threads": 3}), ("c", {"data__seed": 5})):
        r = data(folder, name, **how)
        check(r.code == 0, "data", r)
    for file in ("train-00000.bin", "train.documents", "train.next", "val-00000.bin", "meta.json"):
        a, b = (read(os.path.join(folder, x, file)) for x in "ab")
        check(a == b, f"{file} depends on the number of threads")
    check(pairs(folder, "a", "train") != pairs(folder, "c", "train"), "data.seed changes nothing")
    check(not [f for f in os.listdir(os.path.join(folder, "a")) if "staging" in f], "staged files are left")
    r = ok("inspect", os.path.join(folder, "a"), "--verify")
    check("with a random second segment" in r.out and "every file is as meta.json says" in r.out, "inspect", r)


def test_dupe_factor_and_empty_lines(folder):
    make(folder)
    one, two = data(folder, "a"), data(folder, "b", dupe_factor=2)
    check(one.code == two.code == 0, "data", two)
    p, q = pairs(folder, "a", "train"), pairs(folder, "b", "train")
    check(q[:len(p)] == p and q[len(p):] != p, "the second pass is not another one")
    check(pairs(folder, "a", "val") == pairs(folder, "b", "val"), "validation is made once")
    text = read(os.path.join(folder, "in.txt"))
    write(os.path.join(folder, "in.txt"), b"\r\n \r\n" + text.replace(b"\n", b"\r\n") + b"\r\n\r\n")
    r = data(folder, "c")
    check(r.code == 0 and pairs(folder, "c", "train") == p, "line ends and empty lines make a difference", r)


def test_what_makes_no_pairs_is_told(folder):
    make(folder)
    path = os.path.join(folder, "in.txt")
    for i, (text, how, code, said) in enumerate((
            ("\n \n", {}, 2, "no text in it"),
            ("w1 w2\n", {}, 2, "one sentence alone"),
            ("w1 w2\nw3\n", {}, 0, "of one document"),
            ("w1 w2\n\nw3\n", {"val_fraction": 0}, 0, "2 pairs of 2 documents"),
            ("w1\n", {"allow_special": "true"}, 2, "--allow_special has no meaning for format=bert"),
            ("w1\n", {"max_seq_length": 4}, 2, "max_seq_length"))):
        write(path, text)
        r = data(folder, f"x{i}", **how)
        check(r.code == code and said in r.err + r.out, f"case {i}: exit {code}, {said!r}", r)
        check(code == 0 or not os.path.exists(os.path.join(folder, f"x{i}")), "something is left", r)
    write(os.path.join(folder, "vocab.txt"), "[PAD]\n[UNK]\n[CLS]\n[SEP]\nw1\n")
    r = data(folder, "y")
    check(r.code == 2 and "no [MASK]" in r.err, "a vocabulary without [MASK]", r)
    r = data(folder, "y", format="gpt")
    check(r.code == 2 and "--max_seq_length has no meaning for format=gpt" in r.err, "options of bert", r)


main([test_pairs_are_cut_from_the_text, test_the_same_whatever_the_threads, test_dupe_factor_and_empty_lines,
      test_what_makes_no_pairs_is_told])
