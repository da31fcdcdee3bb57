#!/usr/bin/env python3
"""kill9_loop.py -- kill -9 at random moments of a run that saves all the time.

    kill9_loop.py KILLS [SEED]

After every kill each step folder that can be seen must be whole by its MANIFEST, none that was
complete before may be gone but by retention, and weights and optimizer state of what was saved since
the kill before must be those of a run that nobody killed: so each resume is held against it, not only
the last. Half of the kills aim at a save in progress. A run that reaches its end is followed by
another with other settings.

SPDX-License-Identifier: MIT
"""
import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import (char_data, check, kill9, main, manifest_problem, ok, run, start, state_sha,
                       step_dirs, tiny, words_text)

KILLS = int(sys.argv[1]) if len(sys.argv) > 1 else 8
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 1
sys.argv = sys.argv[:1]
STEPS = 100


def saving(run_dir):
    base = os.path.join(run_dir, "checkpoints")
    return os.path.isdir(base) and any(n.startswith(".tmp-") for n in os.listdir(base))


def kill_somewhere(p, run_dir, rng):
    """At a random moment, or at a random moment of a save."""
    end = time.monotonic() + rng.uniform(0.0, 0.4)
    while time.monotonic() < end and p.poll() is None:
        time.sleep(0.001)
    if rng.random() < 0.5:
        end = time.monotonic() + 2
        while time.monotonic() < end and p.poll() is None and not saving(run_dir):
            pass
        time.sleep(rng.uniform(0.0, 0.01))
    return kill9(p)


class Reference:
    """Runs that nobody killed: every step of them, by precision. Intervals, retention and the way of
    saving do not matter to weights."""

    def __init__(self, folder, data):
        self.folder, self.data, self.state = folder, data, {}

    def of(self, precision, step):
        if precision not in self.state:
            path = self.path(precision)
            ok("train", data=self.data, run=path,
               **settings(precision=precision, save_interval=1, keep=0, save_async="true"))
            self.state[precision] = {n: state_sha(path, n) for n in step_dirs(path)}
        return self.state[precision][step]

    def isa(self, precision):
        """What it computed with: another run might choose otherwise, and have other bits."""
        self.of(precision, STEPS)
        with open(os.path.join(self.path(precision), "config.ini"), encoding="utf-8") as f:
            return next(x.split("=")[1].split("#")[0].strip() for x in f if x.startswith("cpu.isa"))

    def path(self, precision):
        return os.path.join(self.folder, "whole-" + precision)


def settings(**changes):
    return tiny(dropout=0.1, max_steps=STEPS, eval_interval=7, eval_batches=1, **changes)


def expect_kept(run_dir, newest):
    """Whole steps, and the newest not older than before. Returns them."""
    steps = step_dirs(run_dir)
    for step, path in steps.items():
        problem = manifest_problem(path)
        check(problem is None, f"{run_dir}: step {step} is visible but not whole: {problem}")
    check(max(steps, default=-1) >= newest, f"step {newest} was complete and is gone: {sorted(steps)}")
    return steps


def test_kill9_loop(folder):
    rng = random.Random(SEED)
    data = char_data(folder, words_text(6600))
    whole = Reference(folder, data)
    killed, number, in_save, compared = 0, 0, 0, 0
    while killed < KILLS:
        number += 1
        precision = ("fp32", "bf16")[number % 2]
        options = settings(precision=precision, cpu__isa=whole.isa(precision), keep=(3, 2, 0)[number % 3],
                           save_interval=1 + number % 3,
                           save_async=("true", "false")[number // 2 % 2])
        run_dir = os.path.join(folder, f"run-{number}")
        newest, ended = -1, False
        while not ended and killed < KILLS:
            p = start("train", data=data, run=run_dir, **options)
            r = kill_somewhere(p, run_dir, rng)
            ended = r.code == 0
            check(r.code in (0, -9), "a resumed run failed", r)
            killed += r.code == -9
            in_save += r.code == -9 and saving(run_dir)
            for step in sorted(n for n in expect_kept(run_dir, newest) if n > newest):
                check(state_sha(run_dir, step) == whole.of(precision, step),
                      f"run {number}: step {step} differs from the run that was not killed", r)
                compared += 1
                newest = step
        r = ok("train", data=data, run=run_dir, **options)
        check(not saving(run_dir), "leftovers of interrupted saves")
        check(state_sha(run_dir, STEPS) == whole.of(precision, STEPS),
              f"run {number}: the last weights differ from the run that was not killed", r)
        v = run("inspect", step_dirs(run_dir)[STEPS], "--verify")
        check(v.code == 0, "inspect --verify", v)
    print(f"# {killed} kills over {number} runs, {in_save} of them inside a save; {compared} saved steps "
          "are bit for bit those of the run that was not killed")


if __name__ == "__main__":
    sys.exit(main([test_kill9_loop]))
