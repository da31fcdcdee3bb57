#!/usr/bin/env python3
"""kill9_loop.py -- kill -9 at random moments of a run that saves all the time.

    kill9_loop.py ROUNDS [SEED]

After every kill each step folder must be whole by its MANIFEST, and none that was complete before
may be gone but by retention. At the end the run is finished and its weights must be those of a run
that nobody killed. Half of the kills aim at a save in progress.

SPDX-License-Identifier: MIT
"""
import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import (char_data, check, complete_steps, finish, kill9, main, manifest_problem, ok, run,
                       start, state_sha, step_dirs, tiny, words_text)

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 8
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 1
sys.argv = sys.argv[:1]
STEPS, KILLS_A_RUN = 150, 4


def saving(run_dir):
    base = os.path.join(run_dir, "checkpoints")
    return os.path.isdir(base) and any(n.startswith(".tmp-") for n in os.listdir(base))


def kill_somewhere(p, run_dir, rng):
    """At a random moment, or in the middle of a save."""
    end = time.monotonic() + rng.uniform(0.0, 0.4)
    while time.monotonic() < end and p.poll() is None:
        time.sleep(0.001)
    if rng.random() < 0.5:
        end = time.monotonic() + 2
        while time.monotonic() < end and p.poll() is None and not saving(run_dir):
            pass
    return kill9(p)


def test_kill9_loop(folder):
    rng = random.Random(SEED)
    data = char_data(folder, words_text(6600))
    killed, number, in_save = 0, 0, 0
    while killed < ROUNDS:
        number += 1
        options = tiny(precision=("fp32", "bf16")[number % 2], dropout=0.1, max_steps=STEPS,
                       eval_interval=7, eval_batches=1, save_interval=1 + number % 3,
                       keep=(3, 2, 0)[number % 3], save_async=("true", "false")[number // 2 % 2])
        whole, run_dir = os.path.join(folder, f"whole-{number}"), os.path.join(folder, f"run-{number}")
        ok("train", data=data, run=whole, **options)
        newest, ended, here = -1, False, killed
        while not ended and killed < ROUNDS and killed < here + KILLS_A_RUN:
            p = start("train", data=data, run=run_dir, **options)
            r = kill_somewhere(p, run_dir, rng)
            ended = r.code == 0
            check(r.code in (0, -9), "a resumed run failed", r)
            killed += r.code == -9
            in_save += r.code == -9 and saving(run_dir)
            for step, path in step_dirs(run_dir).items():
                problem = manifest_problem(path)
                check(problem is None, f"run {number}: step {step} is visible but not whole: {problem}")
            steps = complete_steps(run_dir)
            check(max(steps, default=-1) >= newest, f"step {newest} was complete and is gone: {steps}")
            newest = max(steps, default=-1)
        r = ok("train", data=data, run=run_dir, **options)
        check(not saving(run_dir), "leftovers of interrupted saves")
        check(state_sha(whole, STEPS) == state_sha(run_dir, STEPS),
              f"run {number}: weights differ from the run that was not killed", r)
        v = run("inspect", step_dirs(run_dir)[STEPS], "--verify")
        check(v.code == 0, "inspect --verify", v)
    print(f"# {killed} kills over {number} runs, {in_save} of them inside a save")


if __name__ == "__main__":
    sys.exit(main([test_kill9_loop]))
