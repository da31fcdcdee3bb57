#!/usr/bin/env python3
"""finetune_books.py -- which of two books is this sentence from? A real BERT learns to tell.

    scripts/acceptance/finetune_books.py --model=DIR [--bin=build/lathe] [--each=3000] [--out=DIR]
                                         BOOK.txt BOOK.txt [--name=value ...]

Cuts each book into sentences, keeps those of 40 to 200 characters, drops the ones that occur twice
and lines that only name a speaker ("ROMEO:"), and holds the last tenth of each book out: no passage
is on both sides. Then it fine-tunes the model in DIR (a Hugging Face folder of a BERT), asks
`lathe eval` how it does on the held-out sentences and `lathe predict` for each of them, and counts
again by itself. Exit code 1 when fewer than 90 % are right. Further options are lathe train's.

Python 3 standard library only.

SPDX-License-Identifier: MIT
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile

LEAST = 0.90


def sentences(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        lines = [line for line in f if not re.fullmatch(r"[A-Z][A-Za-z' ]*:\s*", line)]
    text = re.sub(r"\s+", " ", "".join(lines))
    return list(dict.fromkeys(s.strip() for s in re.split(r"(?<=[.!?])\s+", text) if 40 <= len(s.strip()) <= 200))


def write_tsv(path, examples):
    with open(path, "w", encoding="utf-8") as f:
        f.write("text\tlabel\n")
        f.writelines(f"{text}\t{label}\n" for text, label in examples)


def lathe(program, *args):
    print("+ lathe", *args, flush=True)
    return subprocess.run([program, *args], check=True, stdout=subprocess.PIPE, text=True).stdout


def main():
    p = argparse.ArgumentParser()
    p.add_argument("books", nargs=2)
    p.add_argument("--model", required=True)
    p.add_argument("--bin", default="build/lathe")
    p.add_argument("--each", type=int, default=3000, help="training sentences of each book")
    p.add_argument("--out", default=None)
    a, more = p.parse_known_args()
    out = a.out or tempfile.mkdtemp(prefix="lathe-books-")
    os.makedirs(out, exist_ok=True)
    rng, train, held = random.Random(1), [], []
    for book in a.books:
        name = os.path.splitext(os.path.basename(book))[0]
        all_of_it = sentences(book)
        cut = len(all_of_it) * 9 // 10
        train += [(s, name) for s in rng.sample(all_of_it[:cut], min(a.each, cut))]
        held += [(s, name) for s in rng.sample(all_of_it[cut:], min(200, len(all_of_it) - cut))]
    train_tsv, held_tsv = os.path.join(out, "train.tsv"), os.path.join(out, "held.tsv")
    write_tsv(train_tsv, train)
    write_tsv(held_tsv, held)
    texts = os.path.join(out, "texts.txt")
    with open(texts, "w", encoding="utf-8") as f:
        f.writelines(s + "\n" for s, _ in held)
    run = os.path.join(out, "run")
    if not any(m.startswith("--learning_rate=") for m in more):
        more.append("--learning_rate=1e-4")  # of a small model
    said = lathe(a.bin, "train", "--task=classify", f"--init_from={a.model}", f"--data.train={train_tsv}",
                 f"--data.val={held_tsv}", f"--run={run}", *more)
    print("\n".join(line for line in said.splitlines() if re.match(r"eval|done|  (data|labels)", line)))
    score = json.loads(lathe(a.bin, "eval", f"--model={run}", "--which=best", f"--data.val={held_tsv}", "--json"))
    rows = [line.split("\t") for line in lathe(a.bin, "predict", f"--model={run}", "--which=best", texts).splitlines()]
    right = sum(row[0] == label for row, (_, label) in zip(rows, held))
    share = right / len(held)
    print(f"{len(train)} sentences learnt, {len(held)} held out: {100 * share:.2f} % right; lathe eval: {score}")
    if len(rows) != len(held) or abs(share - score["accuracy"]) > 1e-6:
        sys.exit("predict and eval do not agree")
    sys.exit(share < LEAST)


if __name__ == "__main__":
    main()
