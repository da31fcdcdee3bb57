#!/usr/bin/env python3
"""isa.py -- every instruction set of this CPU trains the same model, with any number of threads.

    isa.py [--all] [filter ...]

Each --cpu.isa that this machine has is forced in turn (the others print SKIP): its losses are those
of the baseline within rounding, in every precision, and 1 and 2 threads give the same bits: losses,
weights and optimizer state. With dropout and a document mask at once, and with sizes that no tile
fits. --all: more steps, 3 threads, each of these alone, and the bits of fp16 and fp8, too.

SPDX-License-Identifier: MIT
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import (Skipped, char_data, check, losses, main, ok, state_sha, tiny,  # noqa: E402
                       words_text)

FULL = "--all" in sys.argv
if FULL:
    sys.argv.remove("--all")

ALL = ("baseline", "neon", "avx2", "avx512", "avx512_bf16", "amx")
STEPS = 8 if FULL else 3
THREADS = (2, 3) if FULL else (2,)  # compared with one
TOLERANCE = {"fp32": 2e-4, "bf16": 3e-2, "fp16": 1e-2, "fp8": 6e-2}
BITS = tuple(TOLERANCE) if FULL else ("fp32", "bf16")

WHOLE = dict(n_layer=2, n_head=2, n_embd=64, block_size=64, batch_size=4)     # tiles fit everywhere
ODD = dict(n_layer=1, n_head=3, n_embd=51, block_size=37, batch_size=3)       # they fit nowhere
DROPOUT = {**WHOLE, "dropout": 0.2}
MASKED = {**WHOLE, "block_size": 61, "data__document_mask": "true"}
SHAPES = {"odd sizes": ODD, "dropout and document mask": {**MASKED, "n_layer": 1, "dropout": 0.2}}
if FULL:
    SHAPES = {"whole tiles": WHOLE, "odd sizes": ODD, "dropout": DROPOUT, "document mask": MASKED}


def here():
    text = ok("--version").out
    return text.split("instruction sets:", 1)[1].split()


def data_of(dir):
    """Text in documents of many lengths, with an end token between them."""
    source = os.path.join(dir, "text.txt")
    with open(source, "w") as f:
        f.write(words_text(12000 if FULL else 4000, seed=5, line=9).replace("\n", "\n\n"))
    tokenizer, data = os.path.join(dir, "tok"), os.path.join(dir, "data")
    ok("tokenizer", "train", input=source, type="bpe", vocab_size=300, out=tokenizer)
    ok("data", input=source, tokenizer=tokenizer, out=data, data__document_separator="\\n\\n")
    return data


def train(dir, data, isa, threads, precision, shape):
    name = f"{isa}-{threads}-{precision}-{shape}".replace(" ", "-")
    run_dir = os.path.join(dir, name)
    ok("train", data=data, run=run_dir, cpu__isa=isa, precision=precision,
       **tiny(**{**SHAPES[shape], "max_steps": STEPS, "save_interval": STEPS, "threads": threads}))
    return run_dir


def same_losses(dir, precision):
    have, data = here(), data_of(dir)
    for isa in ALL:
        if isa not in have:
            print(f"# SKIP {isa}: not on this CPU")
    for shape in SHAPES:
        want = losses(train(dir, data, "baseline", 2, precision, shape))
        check(len(want) == STEPS and want[1] > 0, f"{shape}: {want}")
        for isa in (i for i in have if i != "baseline"):
            got = losses(train(dir, data, isa, 2, precision, shape))
            check(len(got) == STEPS, f"{isa}, {shape}: {len(got)} steps")
            worst = max(want, key=lambda s: abs(want[s] - got[s]))
            check(abs(want[worst] - got[worst]) <= TOLERANCE[precision],
                  f"{isa}, {precision}, {shape}, step {worst}: {got[worst]}, baseline {want[worst]}")


def test_same_losses_fp32(dir):
    same_losses(dir, "fp32")


def test_same_losses_bf16(dir):
    same_losses(dir, "bf16")


def test_same_losses_fp16(dir):
    same_losses(dir, "fp16")


def test_same_losses_fp8(dir):
    same_losses(dir, "fp8")


def same_bits(dir, isa):
    if isa not in here():
        raise Skipped(f"{isa} is not on this CPU")
    data = data_of(dir)
    for precision in BITS:
        for shape in (s for s in SHAPES if s != "whole tiles"):  # which dropout has, too
            one = train(dir, data, isa, 1, precision, shape)
            for threads in THREADS:
                more = train(dir, data, isa, threads, precision, shape)
                check(losses(one) == losses(more) and state_sha(one, STEPS) == state_sha(more, STEPS),
                      f"{isa}, {precision}, {shape}: 1 and {threads} threads differ")


def bits_test(isa):
    def test(dir):
        same_bits(dir, isa)
    test.__name__ = f"test_threads_change_no_bit_{isa}"
    return test


if __name__ == "__main__":
    sys.exit(main([test_same_losses_fp32, test_same_losses_bf16, test_same_losses_fp16,
                   test_same_losses_fp8] + [bits_test(isa) for isa in ALL]))
