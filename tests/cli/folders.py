#!/usr/bin/env python3
"""folders.py -- what a user may name: a run alone to go on with, a run to start from, a step by its
name; and what a refusal leaves behind.

SPDX-License-Identifier: MIT
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import (char_data, check, main, metrics, ok, run, state_sha, step_dirs, tiny,
                       words_text, write)


def made(folder, **changes):
    data = char_data(folder, words_text(6600), val_fraction=0.2)
    base = os.path.join(folder, "base")
    ok("train", data=data, run=base, **tiny(max_steps=4, save_interval=2, **changes))
    return data, base


def test_a_run_goes_on_by_its_folder_alone(folder):
    data, base = made(folder, decay_steps=8)
    whole = os.path.join(folder, "whole")
    ok("train", data=data, run=whole, **tiny(max_steps=6, save_interval=2, decay_steps=8))
    ok("train", run=base, max_steps=6)
    check(state_sha(base, 6) == state_sha(whole, 6), "weights differ")
    r = run("train", run=os.path.join(folder, "absent"))
    check(r.code == 2 and "data" in r.err, "a new run needs data", r)


def test_a_run_gives_its_newest_weights(folder):
    data, base = made(folder)
    new = os.path.join(folder, "new")
    r = ok("train", data=data, run=new, init_from=base, max_steps=1, eval_interval=0, device="cpu",
           batch_size=2)
    check("step-00000004" in r.out, "it says from which step", r)
    first = [m for m in metrics(new) if m.get("kind") == "step"][0]["loss"]
    last = [m for m in metrics(base) if m.get("kind") == "step"][-1]["loss"]
    check(abs(first - last) < 1.0, f"loss {first} after {last}")


def test_a_step_may_be_named_without_its_path(folder):
    data, base = made(folder)
    ok("train", run=base, resume="step-00000002", max_steps=3)
    check(sorted(step_dirs(base)) == [2, 3], f"steps {sorted(step_dirs(base))}")


def test_the_past_is_not_the_end(folder):
    data, base = made(folder)
    config = open(os.path.join(base, "config.ini"), encoding="utf-8").read()
    r = run("train", run=base, max_steps=3)
    check(r.code == 2 and "step 4 already" in r.err, "max_steps lies in the past", r)
    check(config == open(os.path.join(base, "config.ini"), encoding="utf-8").read(), "config changed")


def test_a_refused_run_leaves_nothing(folder):
    data, base = made(folder)
    new = os.path.join(folder, "new")
    r = run("train", data=data, run=new, init_from=os.path.join(folder, "absent"), device="cpu")
    check(r.code != 0 and not os.path.exists(new), "no folder for a refused run", r)
    os.mkdir(new)
    write(os.path.join(new, "notes.txt"), "mine")
    run("train", data=data, run=new, init_from=os.path.join(folder, "absent"), device="cpu")
    check(os.path.exists(os.path.join(new, "notes.txt")), "a folder that was there stays")


def test_padded_rows_are_never_drawn(folder):
    data, base = made(folder)
    padded = os.path.join(folder, "padded")
    ok("convert", **{"from": base, "to": padded, "tie": "false", "pad_vocab": 64})
    for seed in range(4):
        ok("generate", model=padded, prompt="the ", max_new_tokens=60, temperature=3, seed=seed)


if __name__ == "__main__":
    sys.exit(main([t for n, t in sorted(globals().items()) if n.startswith("test_")]))
