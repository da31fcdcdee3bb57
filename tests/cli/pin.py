#!/usr/bin/env python3
"""pin.py -- which CPUs the threads of a running training may use (--cpu.pin).

As many threads as CPUs: each worker has one of its own and the main thread, whose CPUs the loader
and the writer inherit, has all. Fewer or more threads, or cpu.pin=off: nobody is bound.

SPDX-License-Identifier: MIT
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import (Skipped, char_data, check, kill9, main, start, tiny,  # noqa: E402
                       wait_for_step, words_text)

CPUS = os.sched_getaffinity(0)


def sets_of(dir, **options):
    """Main thread's CPUs, and those of every other thread, of a run at its third step."""
    if len(CPUS) < 2:
        raise Skipped("one CPU: there is nothing to choose")
    data, run_dir = char_data(dir, words_text(4000)), os.path.join(dir, "run")
    p = start("train", data=data, run=run_dir, **{**tiny(max_steps=1000000), **options})
    try:
        check(wait_for_step(p, run_dir, 3), "it ended before step 3")
        tasks = sorted(int(t) for t in os.listdir(f"/proc/{p.pid}/task"))
        sets = {t: os.sched_getaffinity(t) for t in tasks}
    finally:
        said = kill9(p)
    check(len(sets) >= options["threads"], f"{len(sets)} threads", said)
    return sets.pop(p.pid), list(sets.values())


def test_each_worker_has_a_cpu_of_its_own(dir):
    first, others = sets_of(dir, threads=len(CPUS))
    bound = [s for s in others if len(s) == 1]
    check(first == CPUS, f"the main thread may use {first} of {CPUS}")
    check(len(bound) == len(CPUS) - 1, f"{len(bound)} bound threads: {others}")
    check(len(set().union(*bound)) == len(bound), f"two share a CPU: {others}")
    check(all(s == CPUS for s in others if len(s) != 1), f"{others}")


def test_nobody_is_bound_when_told_so(dir):
    first, others = sets_of(dir, threads=len(CPUS), cpu__pin="off")
    check(first == CPUS and all(s == CPUS for s in others), f"{first} {others}")


def test_nobody_is_bound_with_more_threads_than_cpus(dir):
    first, others = sets_of(dir, threads=len(CPUS) + 1)
    check(first == CPUS and all(s == CPUS for s in others), f"{first} {others}")


if __name__ == "__main__":
    sys.exit(main([test_each_worker_has_a_cpu_of_its_own, test_nobody_is_bound_when_told_so,
                   test_nobody_is_bound_with_more_threads_than_cpus]))
