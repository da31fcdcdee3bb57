#!/usr/bin/env python3
"""walk.py -- one fault at a time through everything lathe does with memory, files and threads.

    walk.py [--all | --every=K] [--seed=S] [--kind=KIND] [SCENARIO ...]

A scenario is one command on a prepared folder. It runs again and again, and each time the n-th call
of one kind (inject.c) fails, for each kind: once that call alone, once all after it as well.

    --all       n = 1, 2, 3 ... until a run is not hit any more
    (default)   the n that come from a new place, by a trace of the calls that lead to it
    --every=K   every K-th of these, from a start drawn by the seed

What must hold after every fault stands in README.md here; `judge` and the scenarios' `after` check
it. A finding is a crash (a signal, an assertion, a sanitizer's report, a hang), a loss (something
that was there is gone, or a result is wrong) or a word (exit code or message do not say what
happened). Each is printed once a place, with the command that shows it again.

SPDX-License-Identifier: MIT
"""
import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import lathe_run as lathe
from scenarios import SCENARIOS, Finding, crash, give, word

KINDS = ("alloc", "open", "read", "write", "sync", "close", "rename", "mkdir", "remove", "stat", "map",
         "lock", "thread")
TIMEOUT = 60
CAUSES = re.compile(r"no memory for|Cannot allocate memory|Too many open files|Input/output error|"
                    r"No space left on device|No locks available|Resource temporarily unavailable")
REPORTS = re.compile(r"assertion failed|Sanitizer|runtime error:")


def faulty(args, fault, stdin=b""):
    """Run with LATHE_FAULT=fault. The result's `hit` is the line about the fault, or None."""
    env = {**os.environ, "LATHE_FAULT": fault}
    try:
        p = subprocess.run([lathe.BIN] + args, input=stdin, capture_output=True, timeout=TIMEOUT, env=env)
    except subprocess.TimeoutExpired as e:
        raise Finding("crash", f"still running after {TIMEOUT} s") from e
    lines = p.stderr.decode("utf-8", "replace").splitlines(keepends=True)
    said = [line for line in lines if not line.startswith("fault: ")]
    trace = [line.split()[1:] for line in lines if line.startswith("fault: ")]
    r = lathe.Result(args, p.returncode, p.stdout, "".join(said).encode())
    r.trace, r.hit = trace, trace[0] if trace else None
    return r


def places_of(scenario):
    """By kind: the first n of each chain of calls."""
    scenario.fresh()
    known, out = set(), {}
    for line in faulty(scenario.args, "trace", scenario.stdin).trace:
        kind, n, _, *frames = line
        if (kind, *frames) not in known:
            known.add((kind, *frames))
            out.setdefault(kind, []).append(n)
    return out


def judge(r, kind, inspects):
    """What holds for any command: a proper end, and one message that names the cause. (Where stat fails
    and what it was asked for is then found to be no such thing, the message may say that.)"""
    if r.code < 0 or REPORTS.search(r.err) or REPORTS.search(r.out):
        crash("a crash", r)
    errors = [line for line in r.err.splitlines() if re.match(r"lathe(?!: warning:)", line)]
    if r.code == 0:
        return errors and word("exit code 0 with an error", r)
    damage = r.code == 3 and (inspects or "is intact" in r.err)  # on a disk that cannot be read
    if r.code != 1 and not damage and (kind != "stat" or r.code != 2):
        word(f"exit code {r.code}", r)
    if len(errors) != 1:
        word(f"{len(errors)} error messages", r)
    if kind != "stat" and not CAUSES.search(r.err):
        word("the message does not name the cause", r)
    return None


class Walk:
    def __init__(self, how):
        self.how = how
        self.rng = random.Random(how.seed)
        self.faults = self.harmless = 0
        self.found = {}  # (what, place): (count, text)
        self.count = {"crash": 0, "loss": 0, "word": 0}

    def note(self, scenario, fault, hit, finding):
        self.count[finding.kind] += 1
        key = (scenario.name, finding.kind, finding.text.split("\n")[0], tuple(hit[3:] if hit else ()))
        if key in self.found:
            self.found[key] += 1
            return
        self.found[key] = 1
        print(f"not ok: {finding.kind}: {scenario.name}, LATHE_FAULT={fault}\n  {finding.text}\n"
              f"  fault at {' '.join(hit[3:]) if hit else '?'}".replace("\n", "\n    "), flush=True)

    def one(self, scenario, fault):
        """One fault. False: it was not reached."""
        scenario.fresh()
        hit = None
        try:
            r = faulty(scenario.args, fault, scenario.stdin)
            hit = r.hit
            if not hit:
                return False
            self.faults += 1
            self.harmless += r.code == 0
            judge(r, hit[0], "inspect" in scenario.words)
            if r.code == 0 or not scenario.untouched():
                scenario.after(r)
        except Finding as finding:
            self.note(scenario, fault, hit, finding)
        except lathe.Failed as failed:
            self.note(scenario, fault, hit, Finding("loss", str(failed)))
        return True

    def kind(self, scenario, kind, on, places):
        if self.how.all:
            n = 1
            while self.one(scenario, f"{kind}:{n}{on}"):
                n += 1
            return
        for n in places[self.rng.randrange(self.how.every)::self.how.every]:
            self.one(scenario, f"{kind}:{n}{on}")

    def scenario(self, scenario, root, given):
        began, before = time.monotonic(), self.faults
        scenario.open(root, given)
        for fault in ("short", "interrupted"):  # legal: nothing may come of it
            scenario.fresh()
            try:
                r = faulty(scenario.args, fault, scenario.stdin)
                if r.code != 0:
                    word(f"exit code {r.code}", r)
                scenario.after(r)
            except Finding as finding:
                self.note(scenario, fault, None, finding)
        places = {} if self.how.all else places_of(scenario)
        for kind in [self.how.kind] if self.how.kind else KINDS:
            for on in ("", "+"):
                self.kind(scenario, kind, on, places.get(kind, []))
        print(f"# {scenario.name}: {self.faults - before} faults, {time.monotonic() - began:.1f} s",
              flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--all", action="store_true")
    p.add_argument("--every", type=int, default=1)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--kind", choices=KINDS)
    p.add_argument("scenario", nargs="*")
    how = p.parse_args()
    probe = subprocess.run([lathe.BIN, "--version"], capture_output=True,
                           env={**os.environ, "LATHE_FAULT": "count"}, check=False)
    if b"fault: count" not in probe.stderr:
        print(f"SKIP: {lathe.BIN} was not built with -DLATHE_FAULTS=ON")
        return 77
    walk = Walk(how)
    root = tempfile.mkdtemp(prefix="lathe faults ")
    given = os.path.join(root, "given")
    os.makedirs(given)
    try:
        give(given)
        for scenario in SCENARIOS:
            if not how.scenario or any(part in scenario.name for part in how.scenario):
                walk.scenario(scenario, os.path.join(root, scenario.name), given)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    c = walk.count
    print(f"{walk.faults} faults injected ({walk.harmless} harmless), {c['loss']} losses, "
          f"{c['crash']} crashes, {c['word']} wrong words")
    return 1 if any(c.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
