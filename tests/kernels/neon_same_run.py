#!/usr/bin/env python3
"""neon_same_run.py -- a small training on emulated 64-bit Arm against the same one on this machine.

LATHE_BIN runs under LATHE_EMULATOR, LATHE_HOST_BIN as it is. Tokenizer, data and random numbers are
integers and must be equal; losses agree to rounding; what one wrote the other reads and goes on with.

SPDX-License-Identifier: MIT
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import lathe_run
from lathe_run import (Skipped, char_data, check, losses, main, manifest_problem, ok, snapshot,
                       step_dirs, tiny, words_text, write)

ARM = (lathe_run.BIN, lathe_run.EMULATOR)
HOST = (os.environ.get("LATHE_HOST_BIN", ""), [])
STEPS = 30


def on(machine):
    """Which program `ok` runs from here on."""
    if not os.access(machine[0], os.X_OK):
        raise Skipped(f"no program at {machine[0]} (cmake --preset release && cmake --build build)")
    lathe_run.BIN, lathe_run.EMULATOR = machine


def both(folder, make):
    """make(FOLDER) on each machine, in a folder of its own; the two folders."""
    out = {}
    for name, machine in (("host", HOST), ("arm", ARM)):
        out[name] = os.path.join(folder, name)
        os.makedirs(out[name])
        on(machine)
        make(out[name])
    return out["host"], out["arm"]


def same_losses(folder, tolerance, **changes):
    def train(where):
        data = char_data(where, words_text(6600))
        ok("train", data=data, run=os.path.join(where, "run"),
           **tiny(**{**dict(max_steps=STEPS, save_interval=STEPS, threads=1), **changes}))
    one, other = (losses(os.path.join(where, "run")) for where in both(folder, train))
    check(len(one) == len(other) == STEPS, f"{len(one)} and {len(other)} steps of {STEPS}")
    worst = max(one, key=lambda s: abs(one[s] - other[s]))
    print(f"    largest difference of the loss: {abs(one[worst] - other[worst]):.2g} at step {worst}")
    check(abs(one[worst] - other[worst]) <= tolerance,
          f"step {worst}: {one[worst]} here, {other[worst]} there")
    check(one[STEPS] < one[1] - 0.1, f"nothing was learnt: {one[1]} to {one[STEPS]}")


def test_losses_fp32(folder):
    same_losses(folder, 1e-5)


def test_losses_bf16(folder):
    same_losses(folder, 2e-2, precision="bf16")


def test_losses_with_dropout(folder):
    same_losses(folder, 1e-5, dropout=0.2)


def test_tokenizer_and_data_are_equal_bytes(folder):
    text = words_text(9000) + "Gr\u00fc\u00dfe, na\u00efve \u65e5\u672c\u8a9e \U0001f600\n" * 20

    def make(where):
        source = write(os.path.join(folder, "text.txt"), text)
        tokenizer = os.path.join(where, "tok")
        ok("tokenizer", "train", input=source, type="bpe", vocab_size=400, out=tokenizer)
        ok("data", input=source, tokenizer=tokenizer, out=os.path.join(where, "data"))
    here, there = both(folder, make)
    for part in ("tok", "data"):
        one, other = (snapshot(os.path.join(where, part)) for where in (here, there))
        check(one and one == other, f"{part} differs: {one} {other}")


def test_one_reads_what_the_other_wrote(folder):
    on(HOST)
    data, run_dir = char_data(folder, words_text(6600)), os.path.join(folder, "run")
    ok("train", data=data, run=run_dir, **tiny(max_steps=10, save_interval=10, threads=1))
    on(ARM)
    ok("train", data=data, run=run_dir, cpu__isa="neon",
       **tiny(max_steps=20, save_interval=10, threads=1))
    check(manifest_problem(step_dirs(run_dir)[20]) is None, "the second checkpoint is not whole")
    texts = []
    for machine in (HOST, ARM):
        on(machine)
        texts.append(ok("generate", model=run_dir, prompt="the ", max_new_tokens=40, temperature=0).raw)
    check(texts[0] == texts[1], f"{texts[0]} here, {texts[1]} there")


if __name__ == "__main__":
    sys.exit(main([v for k, v in list(globals().items()) if k.startswith("test_")]))
