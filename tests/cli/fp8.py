#!/usr/bin/env python3
"""fp8.py -- `--precision=fp8` from outside: what is said, what is saved, what goes on from it.

SPDX-License-Identifier: MIT
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import (char_data, check, evaluations, fix_manifest, losses, main, metrics, ok, read, run,
                       safe_split, state_sha, step_dirs, tiny, words_text, write)


def settings(**changes):
    return tiny(**{**dict(precision="fp8", max_steps=12, save_interval=12, save_async="false", keep=0), **changes})


def data_of(folder):
    return char_data(folder, words_text(4400))


def train(folder, name, data, **changes):
    run_dir = os.path.join(folder, name)
    return run_dir, ok("train", data=data, run=run_dir, **settings(**changes))


def fp8_lines(run_dir):
    return [m for m in metrics(run_dir) if m["kind"] == "fp8"]


def test_resume(folder):
    """With a history that is longer than the run, one that is shorter, and current scales; saved
    beside training, too."""
    data = data_of(folder)
    for name, options in (("long", dict(fp8__history=100)), ("short", dict(fp8__history=3, save_async="true")),
                          ("current", dict(fp8__recipe="current")),
                          ("recent", dict(fp8__amax="most_recent", recompute="true", fp8__bf16_first=1))):
        whole, _ = train(folder, name, data, **options)
        parts, _ = train(folder, name + "-parts", data, max_steps=1, save_interval=1, decay_steps=12, **options)
        for end in (5, 12):
            ok("train", data=data, run=parts, **settings(max_steps=end, decay_steps=12, **options))
        check(state_sha(whole, 12) == state_sha(parts, 12), f"{name}: weights, optimizer or scales differ")
        check(losses(whole) == losses(parts), f"{name}: losses differ")


def test_what_is_saved(folder):
    data = data_of(folder)
    run_dir, _ = train(folder, "run", data, max_steps=5, save_interval=5, fp8__history=3)
    step = step_dirs(run_dir)[5]
    state = json.loads(read(os.path.join(step, "trainer.json")))["fp8"]
    check(state == {"version": 1, "slots": 24, "history": 3, "started": True}, f"{state}")
    header, _ = safe_split(read(os.path.join(step, "trainer.safetensors")))
    shapes = {k: (v["dtype"], v["shape"]) for k, v in header.items() if k.startswith("fp8")}
    check(shapes == {"fp8.scale": ("F32", [24, 4]), "fp8.history": ("F32", [24, 3]), "fp8.at": ("I32", [24])},
          f"{shapes}")
    r = run("train", data=data, run=run_dir, **settings(fp8__history=4))
    check(r.code == 2 and "fp8.history" in r.err, "another history is refused on resume", r)


def test_from_and_to_other_precisions(folder):
    """A model goes from any policy to any other by init_from; evaluation and generation of an FP8
    run are bf16's."""
    data = data_of(folder)
    runs = {p: train(folder, p, data, precision=p, max_steps=40, save_interval=40)[0] for p in ("fp32", "bf16", "fp8")}
    for a in runs:
        for b in runs:
            if "fp8" not in (a, b):
                continue
            onward, _ = train(folder, f"{a}-to-{b}", data, precision=b, init_from=runs[a], max_steps=5,
                              save_interval=0)
            first, last = losses(onward)[1], losses(runs[a])[40]
            check(abs(first - last) < 0.3, f"{a} to {b}: begins at {first}, the run ended at {last}")
    got = [ok("eval", model=runs["fp8"], data=data, json="true", eval_batches=2, batch_size=8, threads=2, device="cpu",
              **more).out for more in ({}, dict(precision="bf16"), dict(precision="fp8"))]
    values = [json.loads(t)["loss"] for t in got]
    check(values[0] == values[1] == values[2], f"evaluations differ: {values}")
    text = [ok("generate", model=runs["fp8"], prompt="a", max_new_tokens=20, seed=1, device="cpu", **more).out
            for more in ({}, dict(precision="fp8"))]
    check(text[0] == text[1] and len(text[0]) > 20, f"{text}")


def test_the_plan_says_what_runs_in_fp8(folder):
    r = ok("plan", preset="gpt2", precision="fp8", fp8__bf16_first=1, fp8__bf16_last=2)
    for part in ("layers 1-9: qkv, proj, fc, mlp, 108 products", "layer 0 in bf16: fp8.bf16_first = 1",
                 "layers 10-11 in bf16: fp8.bf16_last = 2", "largest of 1024 steps"):
        check(part in r.out, f"no '{part}'", r)
    r = ok("plan", n_layer=2, n_head=3, n_embd=36, vocab_size=99, precision="fp8")
    check("no layer: n_embd = 36 and n_inner = 144 are not both multiples of 16" in r.out, "the reason", r)
    plan = json.loads(ok("plan", preset="gpt2", precision="fp8", fp8__bf16_first=1, fp8__bf16_last=2,
                         json="true").out)["fp8"]
    check(plan["layers"] == list(range(1, 10)) and plan["products"] == 108 and len(plan["linear"]) == 4, f"{plan}")
    check([(b["layer"], b["why"]) for b in plan["bf16"]] ==
          [(0, "fp8.bf16_first = 1"), (10, "fp8.bf16_last = 2"), (11, "fp8.bf16_last = 2")], f"{plan}")
    check((plan["recipe"], plan["history"], plan["amax"], plan["margin"]) == ("delayed", 1024, "max", 0), f"{plan}")
    plan = json.loads(ok("plan", n_layer=2, n_head=3, n_embd=36, vocab_size=99, precision="fp8",
                         fp8__recipe="current", json="true").out)["fp8"]
    check(plan["layers"] == [] and plan["recipe"] == "current" and "history" not in plan, f"{plan}")
    check([b["why"] for b in plan["bf16"]] == ["n_embd = 36 and n_inner = 144 are not both multiples of 16"] * 2,
          f"{plan}")
    check("fp8" not in json.loads(ok("plan", preset="gpt2", precision="bf16", json="true").out), "nothing in bf16")
    plans = {p: json.loads(ok("plan", preset="gpt2", precision=p, batch_size=8, json="true").out)["memory"]
             for p in ("bf16", "fp8")}
    less = plans["bf16"]["activations"] - plans["fp8"]["activations"]
    check(less == 8 * 1024 * 12 * 5 * 768, f"activations are {less} bytes smaller")
    check(sum(plans["fp8"].values()) < sum(plans["bf16"].values()), "memory as a whole, too")
    check("FP8" not in ok("plan", preset="gpt2", precision="bf16").out, "nothing of it in bf16")


def test_report(folder):
    data = data_of(folder)
    run_dir, r = train(folder, "table", data, max_steps=10, log_interval=5, fp8__report="table", fp8__bf16_first=1)
    lines = fp8_lines(run_dir)
    check([m["step"] for m in lines] == [5, 10], f"{[m['step'] for m in lines]}")
    for m in lines:
        check(m["layers"] == [1] and len(m["tensors"]) == 12 and m["tensors"][5] == "proj.dy", f"{m}")
        for key in ("amax", "scale", "saturated", "flushed", "nonfinite"):
            check(len(m[key]) == 1 and len(m[key][0]) == 12, f"{key}: {m[key]}")
        check(all(a > 0 for a in m["amax"][0]) and not any(m["nonfinite"][0]), f"{m}")
    check(r.out.count(" 1 proj") == 2 and " 0 proj" not in r.out, "the table", r)
    quiet, r = train(folder, "off", data, max_steps=10, log_interval=5, fp8__report="off")
    check(not fp8_lines(quiet) and "proj |" not in r.out, "no report", r)


def test_damaged_state_is_refused(folder):
    data = data_of(folder)
    run_dir, _ = train(folder, "run", data, max_steps=4, save_interval=4, fp8__history=3)
    path = os.path.join(step_dirs(run_dir)[4], "trainer.json")
    text = read(path).decode()
    for was, now, said in (('"version": 1,', '"version": 9,', "version 9"), ('"slots": 24', '"slots": 36', "36"),
                           ('"history": 3', '"history": 4', "4 steps"), ('"slots": 24, ', "", "slots")):
        write(path, text.replace(was, now, 1))
        fix_manifest(os.path.dirname(path), "trainer.json")
        r = run("train", data=data, run=run_dir, **settings(max_steps=6, fp8__history=3))
        check(r.code not in (0, 2) and said in r.err, f"{now}: a wrong state", r)


def test_it_learns(folder):
    data = data_of(folder)
    runs = {p: train(folder, p, data, precision=p, n_embd=64, max_steps=60, save_interval=0, eval_interval=60)[0]
            for p in ("bf16", "fp8")}
    a, b = (evaluations(r)[60] for r in runs.values())
    check(abs(a - b) < 0.03, f"validation loss {a} in bf16, {b} in fp8")
    check(losses(runs["fp8"])[60] < losses(runs["fp8"])[1] - 0.5, "nothing was learnt")


if __name__ == "__main__":
    sys.exit(main([v for k, v in list(globals().items()) if k.startswith("test_")]))
