"""environment_lib.py -- what the environment tests share: small disks, other users, a shim.

SPDX-License-Identifier: MIT
"""
import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import (BIN, Failed, Result, Skipped, char_data, check, command, complete_steps,
                       manifest_problem, ok, run, state_sha, step_dirs, tiny, words_text)

HERE = os.path.dirname(os.path.abspath(__file__))
NOBODY = 65534


def small(**changes):
    """A run of 40 steps that saves and evaluates often."""
    return tiny(**{**dict(max_steps=40, save_interval=4, eval_interval=8, eval_batches=1, log_interval=10,
                          dropout=0.1), **changes})


def endless(**changes):
    return small(**{**dict(max_steps=10 ** 6, decay_steps=1000), **changes})


def data_of(folder):
    return char_data(folder, words_text(6600), val_fraction=0.1)


def whole_run(folder, data, **options):
    """The run that nothing happens to: what the others must end as."""
    path = os.path.join(folder, "whole")
    ok("train", data=data, run=path, **options)
    return path


def expect_intact(run_dir, result=None):
    """Every step folder that can be seen is whole."""
    for step, path in step_dirs(run_dir).items():
        problem = manifest_problem(path)
        check(problem is None, f"step {step} is visible but not whole: {problem}", result)


def leftovers(run_dir):
    base = os.path.join(run_dir, "checkpoints")
    return [n for n in os.listdir(base) if n.startswith(".tmp")] if os.path.isdir(base) else []


def expect_same(a, b, step):
    check(state_sha(a, step) == state_sha(b, step), f"weights or optimizer state of step {step} differ")


class Disk:
    """A tmpfs of a given size, mounted at `path`; only root can."""

    def __init__(self, path, size):
        self.path = path
        os.makedirs(path, exist_ok=True)
        if os.geteuid() != 0:
            raise Skipped("a small disk needs root")
        r = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", path], capture_output=True)
        if r.returncode:
            raise Skipped("no tmpfs can be mounted here")

    def resize(self, size):
        subprocess.run(["mount", "-o", f"remount,size={size}", self.path], check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.path], check=False)


def as_nobody():
    """preexec of a process that file modes hold for, even when the tests run as root."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def give(path):
    """To the user of as_nobody, with everything below."""
    if os.geteuid() == 0:
        for base, dirs, files in os.walk(path):
            for name in [base] + [os.path.join(base, f) for f in dirs + files]:
                os.chown(name, NOBODY, NOBODY, follow_symlinks=False)


class Live:
    """A lathe in the background whose output can be read while it runs. It ends with its test."""

    running = []

    def __init__(self, *args, folder, preexec=None, env=None, cwd=None, stdin=subprocess.DEVNULL,
                 stdout=None, **options):
        full = command(args, options)
        self.args = full[1:]
        self.log = os.path.join(folder, f"log-{time.monotonic_ns()}")
        with open(self.log, "wb") as f:
            self.p = subprocess.Popen(full, stdin=stdin, stdout=stdout if stdout is not None else f,
                                      stderr=f, preexec_fn=preexec, cwd=cwd, env={**os.environ, **(env or {})})
        Live.running.append(self.p)

    def said(self):
        with open(self.log, "rb") as f:
            return f.read().decode("utf-8", "replace")

    def wait_until(self, true, what, timeout=120):
        end = time.monotonic() + timeout
        while not true():
            if self.p.poll() is not None:
                raise Failed(f"ended before: {what}\n{self.result()}")
            if time.monotonic() > end:
                self.p.kill()
                raise Failed(f"not in {timeout} s: {what}\n{self.result()}")
            time.sleep(0.002)

    def wait_says(self, text, times=1):
        self.wait_until(lambda: self.said().count(text) >= times, f"says {text!r} {times} times")

    def wait_saved(self, run_dir, after=-1):
        """Until there is a complete step above `after`; returns the newest."""
        seen = []
        self.wait_until(lambda: seen.append(max(step_dirs(run_dir), default=-1)) or seen[-1] > after,
                        f"a step above {after}")
        return seen[-1]

    def result(self, timeout=300):
        code = self.p.wait(timeout=timeout)
        with open(self.log, "rb") as f:
            return Result(self.args, code, f.read(), b"")

    def stop(self, sig=15):
        self.p.send_signal(sig)
        return self.result()


def ends_its_runs(test):
    """The same test; what it started and left running is killed."""
    @functools.wraps(test)
    def run_it(folder):
        try:
            test(folder)
        finally:
            for p in Live.running:
                p.kill()
                p.wait()
            Live.running.clear()
    return run_it


def all_tests(names):
    return [ends_its_runs(t) for n, t in names.items() if n.startswith("test_")]


def shim(**settings):
    """Environment that puts environment_shim.c in front of the C library."""
    compiler = next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
    if not compiler:
        raise Skipped("needs a C compiler")
    # LD_PRELOAD is split at spaces, which the test's own folder has.
    place = tempfile.mkdtemp(prefix="lathe-shim-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    library = os.path.join(place, "shim.so")
    r = subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library,
                        os.path.join(HERE, "environment_shim.c"), "-ldl"], capture_output=True, text=True)
    check(r.returncode == 0, f"the shim does not compile:\n{r.stderr}")
    options = os.environ.get("ASAN_OPTIONS", "")
    return {"LD_PRELOAD": library, "ASAN_OPTIONS": options + ":verify_asan_link_order=0",
            **{f"SHIM_{k.upper()}": str(v) for k, v in settings.items()}}
