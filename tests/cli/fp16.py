#!/usr/bin/env python3
"""fp16.py -- --precision=fp16 and its loss scale: learning, overflow, resuming, folders of f16 weights.

SPDX-License-Identifier: MIT
"""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import (char_data, check, evaluations, losses, main, metrics, ok, run, state_sha, tiny,
                       words_text)

HIGH = 2.0 ** 40  # far beyond what f16 gradients of these models bear


def options(folder, **changes):
    data = char_data(folder, words_text(3000), val_fraction=0.1)
    sizes = dict(n_layer=1, n_head=2, n_embd=32, block_size=16, batch_size=4, max_steps=30, decay_steps=30,
                 precision="fp16", eval_interval=10, eval_batches=2, save_interval=10, keep=0, log_interval=1)
    return {"data": data, **tiny(**{**sizes, **changes})}


def without(o, *names):
    return {k: v for k, v in o.items() if k not in names}


def steps(where):
    return [row for row in metrics(where) if row["kind"] == "step"]


def state(where, step):
    with open(os.path.join(where, "checkpoints", f"step-{step:08d}", "trainer.json")) as f:
        return json.load(f)


def test_it_follows_fp32(folder):
    o = options(folder)
    half, full = os.path.join(folder, "half"), os.path.join(folder, "full")
    r = ok("train", run=half, **o)
    ok("train", run=full, **{**o, "precision": "fp32"})
    a, b = losses(half), losses(full)
    check(sorted(a) == sorted(b), "steps")
    worst = max(abs(a[s] - b[s]) for s in a)
    check(worst < 0.01 and a[30] < a[1] - 0.1, f"worst difference {worst}, {a[1]} to {a[30]}")
    check("loss scale   65536 at first" in r.out and "| scale 65536 |" in r.out, "the scale is told", r)
    check(all(row["loss_scale"] == 65536 for row in steps(half)), "the scale is in metrics.jsonl")
    check("loss_scale" not in json.dumps(steps(full)), "fp32 has none")


def test_from_far_too_high_the_scale_comes_down_and_no_update_is_lost(folder):
    o = options(folder, max_bad_steps=2, loss_scale__init=HIGH)
    where = os.path.join(folder, "run")
    r = ok("train", run=where, **o)
    rows = steps(where)
    skipped = [row for row in rows if row.get("skip")]
    check(len(skipped) > 10, f"{len(skipped)} steps skipped", r)
    check(all(abs(row["loss_scale"] * 2 ** i / HIGH - 1) < 1e-8 for i, row in enumerate(skipped)),
          "each skipped step halves the scale", r)
    check("overflows with loss scale" in r.out + r.err and f"skipped {len(skipped)}" in r.out, "it is told", r)
    done = [row for row in rows if not row.get("skip")]
    check([row["step"] for row in done] == list(range(1, 31)), "no step of the schedule is lost", r)
    saved = state(where, 30)
    check(saved["samples"] == 4 * (30 + len(skipped)) and saved["skipped"] == len(skipped), f"{saved}")
    plain = os.path.join(folder, "plain")
    ok("train", run=plain, **{**without(o, "loss_scale__init"), "precision": "fp32"})
    check([row["lr"] for row in done] == [row["lr"] for row in steps(plain)], "the schedule waits", r)


def test_without_a_way_down_a_bad_run_ends(folder):
    # A learning rate that blows up: the loss itself is not finite, whatever its scale.
    o = options(folder, learning_rate=100, max_bad_steps=3, schedule="constant", grad_clip=0, max_steps=400,
                eval_interval=0)
    r = run("train", run=os.path.join(folder, "run"), **without(o, "decay_steps"))
    check(r.code == 4 and "in a row were not finite" in r.err, "it must end with 4", r)


def test_resumed_in_the_middle_of_a_window_it_is_the_same_run(folder):
    o = options(folder, loss_scale__init=HIGH, loss_scale__growth_interval=7, loss_scale__hysteresis=2,
                dropout=0.1)
    whole, parts = os.path.join(folder, "whole"), os.path.join(folder, "parts")
    ok("train", run=whole, **o)
    for last in (4, 17, 30):
        r = ok("train", run=parts, **{**o, "max_steps": last})
        saved = state(parts, last)
        check(last == 30 or saved["loss_scale_good_steps"] > 0, f"in a window, {saved}", r)
    check(state_sha(whole, 30) == state_sha(parts, 30), "interrupted and uninterrupted differ")
    check(losses(whole) == losses(parts), "losses differ")
    scales = [[row["loss_scale"] for row in steps(w)] for w in (whole, parts)]
    check(scales[0] == scales[1] and max(scales[0][-12:]) > min(scales[0]), f"{scales}")
    a, b = state(whole, 30), state(parts, 30)
    for s in (a, b):
        s.pop("seconds")
    check(a == b, f"{a} {b}")


def test_a_folder_of_f16_weights_is_a_model_like_any_other(folder):
    o = options(folder)
    where = os.path.join(folder, "run")
    ok("train", run=where, **o)
    best = min(evaluations(where).values())
    for precision, tolerance in (("fp16", 1e-6), ("auto", 5e-3), ("bf16", 5e-2)):
        r = ok("eval", model=where, which="best", data=o["data"], eval_batches=2, batch_size=4,
               precision=precision)
        loss = float(re.search(r"loss (\S+)", r.out).group(1))
        check(abs(loss - best) < tolerance + 5e-5, f"{precision}: {loss}, trained to {best}", r)
    for precision in ("auto", "fp16"):
        r = ok("generate", model=where, prompt="the ", max_new_tokens=5, temperature=0, precision=precision)
        check(len(r.out) > 4, "no text", r)
    r = ok("inspect", where, verify="true")
    check("f16" in r.out.lower(), "inspect names the type", r)
    for dtype in ("f32", "f16"):
        ok("convert", **{"from": where, "to": os.path.join(folder, dtype), "dtype": dtype})
    for name in ("run", "f32", "f16"):
        again = os.path.join(folder, "again-" + name)
        ok("train", run=again, init_from=os.path.join(folder, name),
           **{**o, "max_steps": 2, "eval_interval": 0, "save_interval": 2})
    check(losses(os.path.join(folder, "again-f16")) == losses(os.path.join(folder, "again-f32")),
          "f16 to f32 is exact")
    r = ok("plan", precision="fp16", **{k: v for k, v in o.items() if k.startswith("n_")})
    check("precision    fp16" in r.out, "plan", r)


def test_what_has_no_meaning_is_refused(folder):
    o = options(folder, max_steps=2, eval_interval=0, save_interval=2)
    where = os.path.join(folder, "run")
    for changes, words in (({"precision": "bf16", "loss_scale__init": 8}, "loss_scale.init"),
                           ({"precision": "auto", "loss_scale__growth": 4}, "loss_scale.growth"),
                           ({"residual_dtype": "bf16"}, "residual_dtype"),
                           ({"loss_scale__backoff": 2}, "loss_scale.backoff"),
                           ({"loss_scale__init": 0.5}, "loss_scale.init")):
        r = run("train", run=os.path.join(folder, "no"), **{**o, **changes})
        check(r.code == 2 and words in r.err, f"{changes}: {words}", r)
    r = run("train", run=os.path.join(folder, "no"),
            **{**o, "precision": "bf16", "loss_scale__init": 8, "fp8__margin": 1})
    check(r.code == 2 and "--loss_scale.init has" in r.err and "--fp8.margin has" in r.err, "both", r)
    ok("train", run=where, **o)
    r = run("train", run=where, **{**o, "loss_scale__init": 8})
    check(r.code == 2 and "loss_scale.init" in r.err, "the start is over", r)
    r = ok("train", run=where, **{**o, "max_steps": 3, "loss_scale__growth_interval": 5})
    check("loss_scale.growth_interval: 2000 -> 5" in r.out, "a change is told", r)


if __name__ == "__main__":
    sys.exit(main([v for k, v in list(globals().items()) if k.startswith("test_")]))
