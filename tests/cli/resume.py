#!/usr/bin/env python3
"""resume.py -- a run that was interrupted and resumed ends with the very weights of one that was not.

Each case interrupts a run in its own way, resumes it until it is done, and compares weights,
optimizer state and the loss of every step with an uninterrupted run of the same settings.
The data has 24 steps an epoch, so that every case also crosses the end of an epoch.

SPDX-License-Identifier: MIT
"""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import (char_data, check, complete_steps, finish, losses, main, ok, run, start,
                       state_sha, step_dirs, tiny, wait_for_step, words_text)

STEPS = 240


def settings(precision, dropout=0.1, **changes):
    base = dict(n_embd=64, block_size=32, batch_size=8, max_steps=STEPS, decay_steps=STEPS, warmup_steps=10,
                dropout=dropout, precision=precision, eval_interval=50, eval_batches=2, save_interval=25,
                keep=0, log_interval=50)
    return tiny(**{**base, **changes})


def data_of(folder):
    return char_data(folder, words_text(6600), val_fraction=0.05)


def expect_same(reference, resumed):
    check(state_sha(reference, STEPS) == state_sha(resumed, STEPS),
          f"weights or optimizer state differ after {STEPS} steps")
    a, b = losses(reference), losses(resumed)
    check(sorted(b) == sorted(a), f"steps in metrics.jsonl: {len(b)} of {len(a)}")
    check(a == b, "losses differ, first at step "
          f"{min(s for s in a if a[s] != b[s]) if a != b else 0}")
    best = [open(os.path.join(r, "checkpoints", "best")).read() for r in (reference, resumed)]
    check(best[0] == best[1], f"best step differs: {best}")


def interrupt(data, run_dir, at, how, options):
    """Start or go on, and stop behind step `at` by a signal: at one that metrics.jsonl does not have yet,
    for lines of steps that were lost stay in it until the program is ready."""
    if os.path.exists(os.path.join(run_dir, "metrics.jsonl")):
        at = max(at, max(losses(run_dir), default=0) + 1)
    p = start("train", data=data, run=run_dir, **options)
    there = wait_for_step(p, run_dir, at)
    if there:
        p.send_signal(how)
    r = finish(p)
    check(there and r.code != 0, "the run ended before it could be interrupted, or failed", r)
    if how == signal.SIGKILL:
        check(r.code == -9, "kill -9 had no effect", r)
        return
    check(r.code == 5, "a signal must save and end with exit code 5", r)
    newest, last = max(complete_steps(run_dir), default=0), max(losses(run_dir))
    check(newest == last, f"saved step {newest}, but step {last} was done", r)


def case(folder, precision, stops, dropout=0.1, **changes):
    data = data_of(folder)
    options = settings(precision, dropout, **changes)
    reference, resumed = os.path.join(folder, "whole"), os.path.join(folder, "parts")
    ok("train", data=data, run=reference, **options)
    for at, how in stops:
        interrupt(data, resumed, at, how, options)
    r = ok("train", data=data, run=resumed, **options)
    if stops[0][0] >= options["save_interval"] or stops[0][1] != signal.SIGKILL:
        check("resum" in (r.out + r.err).lower(), "a resumed run must say so", r)
    expect_same(reference, resumed)


def test_sigterm_fp32(folder):
    case(folder, "fp32", [(90, signal.SIGTERM)])


def test_sigint_bf16(folder):
    case(folder, "bf16", [(90, signal.SIGINT)])


def test_kill9_fp32(folder):
    case(folder, "fp32", [(110, signal.SIGKILL)])


def test_kill9_bf16(folder):
    case(folder, "bf16", [(110, signal.SIGKILL)])


def test_before_first_evaluation_and_first_save(folder):
    case(folder, "fp32", [(3, signal.SIGTERM)])
    # Killed before anything was saved: starts again, same end.
    os.rename(os.path.join(folder, "parts"), os.path.join(folder, "parts-1"))
    os.rename(os.path.join(folder, "whole"), os.path.join(folder, "whole-1"))
    for name in ("data", "data-tok"):
        os.rename(os.path.join(folder, name), os.path.join(folder, name + "-1"))
    case(folder, "fp32", [(3, signal.SIGKILL)])


def test_twice_in_a_row(folder):
    case(folder, "fp32", [(40, signal.SIGTERM), (60, signal.SIGKILL), (61, signal.SIGTERM)])


def test_twice_in_a_row_bf16(folder):
    case(folder, "bf16", [(40, signal.SIGKILL), (90, signal.SIGTERM)], dropout=0.2)


def test_without_dropout_and_synchronous_save(folder):
    case(folder, "fp32", [(70, signal.SIGTERM)], dropout=0, save_async="false")


def test_accumulation(folder):
    case(folder, "fp32", [(55, signal.SIGTERM)], batch_size=2, batch_tokens=256)


LAMB = dict(optimizer="lamb", schedule="poly", poly_power=2, beta2=0.999, eps=1e-6, weight_decay=0.01,
            learning_rate=2e-2)


def test_lamb_and_another_optimizer_is_refused(folder):
    case(folder, "fp32", [(90, signal.SIGTERM)], **LAMB)
    parts = os.path.join(folder, "parts")
    r = run("train", data=os.path.join(folder, "data"), run=parts, optimizer="adamw")
    check(r.code == 2 and "optimizer" in r.err, "another optimizer is refused on resume", r)
    first, last = losses(parts)[1], losses(parts)[STEPS]
    check(last < 0.7 * first, f"LAMB learns: loss {first} at first, {last} at the end")


def test_lamb_bf16_killed(folder):
    case(folder, "bf16", [(60, signal.SIGKILL)], **LAMB)


def test_lamb_fp16(folder):
    case(folder, "fp16", [(60, signal.SIGTERM)], **LAMB)


def test_lamb_fp8(folder):
    case(folder, "fp8", [(60, signal.SIGTERM)], **LAMB)


def test_at_the_last_step_of_an_epoch(folder):
    """Stopped exactly there, one before and one behind, by max_steps."""
    data = data_of(folder)
    options = settings("fp32")
    reference = os.path.join(folder, "whole")
    ok("train", data=data, run=reference, **options)
    per_epoch = epoch_steps(data, options)
    for at in (per_epoch - 1, per_epoch, per_epoch + 1):
        parts = os.path.join(folder, f"parts-{at}")
        ok("train", data=data, run=parts, **{**options, "max_steps": at})
        check(max(step_dirs(parts)) == at, f"the last step, {at}, was not saved")
        r = ok("train", data=data, run=parts, **options)
        check("max_steps" in r.out + r.err, "a changed max_steps must be told", r)
        expect_same(reference, parts)


def epoch_steps(data, options):
    tokens = 6600 * 0.95
    return int((tokens - 1) // options["block_size"] // options["batch_size"])


def test_max_seconds_saves_and_ends_with_5(folder):
    data = data_of(folder)
    options = settings("fp32", max_steps=1000000, decay_steps=1000000, save_interval=0, eval_interval=0)
    parts = os.path.join(folder, "parts")
    r = run("train", data=data, run=parts, max_seconds=1, **{**options, "save_interval": 100000})
    check(r.code == 5, "max_seconds must end with exit code 5", r)
    steps = complete_steps(parts)
    check(steps and max(steps) == max(losses(parts)), f"saved {steps}, did {max(losses(parts))}", r)


def test_finished_run_is_left_alone(folder):
    data = data_of(folder)
    options = settings("fp32", max_steps=30)
    done = os.path.join(folder, "done")
    ok("train", data=data, run=done, **options)
    before = state_sha(done, 30)
    ok("train", data=data, run=done, **options)
    check(state_sha(done, 30) == before, "a finished run changed")
    check(max(losses(done)) == 30, "a finished run went on")


def test_damaged_newest_step_falls_back(folder):
    data = data_of(folder)
    options = settings("fp32")
    reference, parts = os.path.join(folder, "whole"), os.path.join(folder, "parts")
    ok("train", data=data, run=reference, **options)
    for name, damage in (("model.safetensors", "flip"), ("trainer.safetensors", "cut"),
                         ("trainer.json", "remove"), ("MANIFEST", "remove")):
        ok("train", data=data, run=parts, **{**options, "max_steps": 60})
        victim = os.path.join(step_dirs(parts)[60], name)
        if damage == "remove":
            os.remove(victim)
        else:
            content = bytearray(open(victim, "rb").read())
            content[len(content) // 2] ^= 0x10
            open(victim, "wb").write(content if damage == "flip" else content[:-5])
        r = ok("train", data=data, run=parts, **options)
        said = r.out + r.err
        check(name in said and "warning" in said.lower(), f"damage of {name} must be told", r)
        expect_same(reference, parts)
        os.rename(parts, f"{parts}-{name}")


if __name__ == "__main__":
    sys.exit(main([v for k, v in list(globals().items()) if k.startswith("test_")]))
