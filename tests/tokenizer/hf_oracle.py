#!/usr/bin/env python3
"""What `lathe tokenizer` trains and writes, against Hugging Face tokenizers: merges and ids.

Run by ctest under the label oracle, with a Python that has `tokenizers`; without: SKIP.

SPDX-License-Identifier: MIT
"""
import json
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import SHARED, check, main, run  # noqa: E402

try:
    from tokenizers import ByteLevelBPETokenizer, Tokenizer
except ImportError:
    print("SKIP: no Python package tokenizers; scripts/test.sh --all installs it")
    sys.exit(77)


def write(path, text):
    with open(path, "wb") as f:
        f.write(text.encode())


def sample_text(seed, words):
    """Words, numbers, punctuation, odd white space and many scripts."""
    rng = random.Random(seed)
    stems = ["the", "whale", "sea", "ing", "ed", "\u00e9t\u00e9", "\u043c\u0438\u0440", "\u4e16\u754c", "1851",
             "don't", "WE'RE", "\u0661\u0662", "\U0001f600", "==", "...", "a", "I", "\u017f", "x_y", "e\u0301"]
    gaps = [" "] * 12 + ["\n", "\n\n", "  ", "\t", " \n ", "\u00a0", "\u3000", ", ", ". ", "'", "", "\r\n"]
    return "".join(rng.choice(stems) + rng.choice(gaps) for _ in range(words))


def ids_of(tokenizer, path, *flags):
    r = run("tokenizer", "encode", "--tokenizer=" + tokenizer, *flags, path)
    check(r.code == 0, "encode", r)
    return [int(w) for w in r.out.split()]


def train(dir, text, *flags):
    write(dir + "/train.txt", text)
    r = run("tokenizer", "train", "--input=" + dir + "/train.txt", "--out=" + dir + "/tok", *flags)
    check(r.code == 0, "train", r)
    return dir + "/tok"


def test_bpe_merges_and_ids(dir):
    text = sample_text(1, 60000)
    tok = train(dir, text, "--type=bpe", "--vocab_size=1200")
    theirs = ByteLevelBPETokenizer()
    theirs.train_from_iterator([text], vocab_size=1199, special_tokens=[], show_progress=False)
    theirs.save_model(dir)
    with open(dir + "/merges.txt") as a, open(tok + "/merges.txt") as b:
        check(a.read() == b.read(), "the merges differ from Hugging Face's trainer")
    loaded = Tokenizer.from_file(tok + "/tokenizer.json")
    other = sample_text(2, 20000) + "<|endoftext|>x"
    write(dir + "/other.txt", other)
    check(loaded.encode(other).ids == ids_of(tok, dir + "/other.txt", "--allow_special"), "ids differ")
    check(loaded.decode(loaded.encode(text).ids, skip_special_tokens=False) == text, "decode differs")


def test_cl100k_pattern(dir):
    text = sample_text(3, 40000)
    tok = train(dir, text, "--type=bpe", "--vocab_size=900", "--pattern=cl100k")
    loaded = Tokenizer.from_file(tok + "/tokenizer.json")
    for seed in range(4, 16):
        other = sample_text(seed, 200)
        write(dir + "/other.txt", other)
        check(loaded.encode(other).ids == ids_of(tok, dir + "/other.txt"), f"ids differ: {other!r}")


def test_characters(dir):
    text = sample_text(5, 5000) + "\"\\\x01\x7f"
    tok = train(dir, text, "--type=char")
    loaded = Tokenizer.from_file(tok + "/tokenizer.json")
    want = [sorted(set(text)).index(c) for c in text]
    check(ids_of(tok, dir + "/train.txt") == want, "ids are not those of sorted(set(text))")
    check(loaded.encode(text).ids == want, "Hugging Face's ids differ")
    check(loaded.decode(want) == text, "decode differs")


def test_published_vocabularies(dir):
    """tokenizer.json made by `lathe data` from the published files: the same ids in Hugging Face."""
    files = [SHARED + "/data/gpt2", SHARED + "/data/tokenizer-vectors/cl100k_base.tiktoken"]
    if not all(map(os.path.exists, files)):
        return
    for i, tokenizer in enumerate(files):
        text = sample_text(6, 20000)
        write(dir + "/text.txt", text)
        out = f"{dir}/data{i}"
        r = run("data", "--input=" + dir + "/text.txt", "--tokenizer=" + tokenizer, "--out=" + out)
        check(r.code == 0, "data", r)
        loaded = Tokenizer.from_file(out + "/tokenizer.json")
        check(loaded.encode(text).ids == ids_of(tokenizer, dir + "/text.txt"), tokenizer)
        with open(out + "/tokenizer.json") as f:
            check(json.load(f)["model"]["type"] == "BPE", "model type")


if __name__ == "__main__":
    sys.exit(main([test_bpe_merges_and_ids, test_cl100k_pattern, test_characters,
                   test_published_vocabularies]))
