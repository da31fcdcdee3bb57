#!/usr/bin/env python3
"""environment_disk.py -- full, read-only and vanishing disks and folders under a run; two processes
on one run.

What holds in all of them: a step folder that can be seen is whole, nothing that was complete is
lost, the message names the path, and where the trouble ends the run goes on bit for bit.

SPDX-License-Identifier: MIT
"""
import json
import os
import resource
import shutil
import signal
import sys

from environment_lib import (Disk, Live, all_tests, as_nobody, check, complete_steps, data_of, endless,
                             expect_intact, expect_same, give, leftovers, small, whole_run)
from lathe_run import Skipped, losses, main, metrics, ok, read, run, snapshot, step_dirs, write

LOST = "a checkpoint could not be saved"


def limit_files(size):
    """preexec: no file may grow beyond `size` bytes."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def fill(path):
    """All that is left of a disk goes into a file."""
    try:
        with open(path, "ab", buffering=0) as f:
            while True:
                f.write(b"x" * 4096)
    except OSError:
        pass


def steps_logged(run_dir):
    return [m["step"] for m in metrics(run_dir) if m["kind"] == "step"]


# ---- full disks -------------------------------------------------------------------------------

def test_a_disk_that_is_full_at_the_end_loses_no_earlier_step(folder):
    data, options = data_of(folder), small(keep=0)
    whole = whole_run(folder, data, **options)
    with Disk(os.path.join(folder, "disk"), "1800k") as disk:
        path = os.path.join(disk.path, "run")
        r = run("train", data=data, run=path, **options)
        check(r.code == 1 and LOST in r.err and "No space left" in r.err, "told and failed", r)
        check("hint:" in r.err, "what can be done is said", r)
        check(len(complete_steps(path)) >= 2 and not leftovers(path), f"{os.listdir(path)}", r)
        expect_intact(path, r)
        disk.resize("64m")
        r = ok("train", data=data, run=path, **options)
        check("resumed" in r.out, "it goes on", r)
        expect_same(whole, path, 40)
        check(steps_logged(path) == list(range(1, 41)), f"metrics: {steps_logged(path)}")


def test_training_goes_on_over_a_full_disk_and_saves_when_there_is_room(folder):
    data, options = data_of(folder), endless(keep=2)
    with Disk(os.path.join(folder, "disk"), "2m") as disk:
        path = os.path.join(disk.path, "run")
        p = Live("train", data=data, run=path, folder=folder, **options)
        newest = p.wait_saved(path)
        while LOST not in p.said():
            fill(os.path.join(disk.path, "ballast"))
        expect_intact(path)
        check(max(complete_steps(path)) >= newest, "the newest step went away")
        newest = max(complete_steps(path))
        os.remove(os.path.join(disk.path, "ballast"))
        p.wait_saved(path, newest)
        r = p.stop()
        check(r.code == 5, "stopped after a save", r)
        last = max(complete_steps(path))
        logged = steps_logged(path)
        check(logged == list(range(1, last + 1)), f"metrics.jsonl has gaps: {len(logged)} of {last}", r)


def test_a_limit_on_file_size_is_an_error_of_the_save_not_the_death_of_the_run(folder):
    data, options = data_of(folder), small()
    whole = whole_run(folder, data, **options)
    path = os.path.join(folder, "run")
    r = run("train", data=data, run=path, preexec=limit_files(64 << 10), **options)
    check(r.code == 1 and "File too large" in r.err and LOST in r.err, "a message, not SIGXFSZ", r)
    check(max(losses(path)) == 40, "it trained to the end", r)
    check(not complete_steps(path) and not leftovers(path), "nothing half", r)
    ok("train", data=data, run=path, **options)
    expect_same(whole, path, 40)


def test_metrics_wait_in_memory_until_the_disk_has_room(folder):
    data = data_of(folder)
    with Disk(os.path.join(folder, "disk"), "4k") as disk:  # one page
        path = os.path.join(folder, "run")
        os.makedirs(path)
        os.symlink(os.path.join(disk.path, "metrics.jsonl"), os.path.join(path, "metrics.jsonl"))
        p = Live("train", data=data, run=path, folder=folder, **endless(save_interval=50))
        p.wait_says("metrics.jsonl")
        newest = p.wait_saved(path)
        disk.resize("8m")
        p.wait_saved(path, newest + 100)
        r = p.stop()
        check(r.code == 5 and "No space left" in r.out, "a warning, and training goes on", r)
        check(r.out.count("No space left") == 1, "said once", r)
        logged = steps_logged(path)
        check(logged == list(range(1, max(logged) + 1)), f"lines are missing: {len(logged)}", r)
        check(max(logged) == max(complete_steps(path)), "the last lines are there", r)


def test_a_run_whose_metrics_never_find_room_is_trained_and_saved(folder):
    data = data_of(folder)
    path = os.path.join(folder, "run")
    r = run("train", data=data, run=path, preexec=limit_files(8000), **small(save_interval=0, log_interval=1))
    check(r.code == 0 and "metrics.jsonl" in r.err and "File too large" in r.err, "trains on", r)
    check("could not be written" in r.err, "what is missing is said at the end", r)
    ok("train", data=data, run=path, **small(save_interval=4))
    check(steps_logged(path) == list(range(1, 41)), "a later start has whole lines")


# ---- folders that cannot be written ------------------------------------------------------------

def test_a_read_only_folder_is_refused_before_the_first_step(folder):
    data = data_of(folder)
    for name in ("empty", "has a run"):
        path = os.path.join(folder, name)
        os.makedirs(path)
        if name == "has a run":
            ok("train", data=data, run=path, **small(max_steps=4))
        os.chmod(path, 0o555)
        before = snapshot(path)
        r = run("train", data=data, run=path, preexec=as_nobody, **small())
        check(r.code == 1 and path in r.err and "ermission denied" in r.err, name, r)
        check("step 1/" not in r.out and snapshot(path) == before, "nothing was done", r)
        os.chmod(path, 0o755)


def test_a_checkpoints_folder_that_cannot_be_written_is_refused_before_the_first_step(folder):
    data, path = data_of(folder), os.path.join(folder, "run")
    ok("train", data=data, run=path, **small(max_steps=4))
    give(path)
    base = os.path.join(path, "checkpoints")
    os.chmod(base, 0o555)
    r = run("train", data=data, run=path, preexec=as_nobody, **small())
    check(r.code == 1 and base in r.err and "ermission denied" in r.err, "refused", r)
    check("step 5/" not in r.out, "before a step", r)
    os.chmod(base, 0o755)
    ok("train", data=data, run=path, preexec=as_nobody, **small())


def test_a_folder_that_turns_read_only_fails_saves_until_it_can_be_written_again(folder):
    data, path = data_of(folder), os.path.join(folder, "run")
    os.makedirs(path)
    give(path)
    p = Live("train", data=data, run=path, folder=folder, preexec=as_nobody, **endless())
    p.wait_saved(path)
    base = os.path.join(path, "checkpoints")
    os.chmod(base, 0o555)
    p.wait_says(LOST)
    newest = max(complete_steps(path))
    os.chmod(base, 0o755)
    p.wait_saved(path, newest)
    r = p.stop()
    check(r.code == 5 and "ermission denied" in r.out, "told", r)
    expect_intact(path, r)
    named = os.path.join(path, "checkpoints", "best")  # absent: the only best one so far was lost
    best = int(read(named).decode().split("-")[1]) if os.path.exists(named) else -1
    state = json.loads(read(os.path.join(step_dirs(path)[max(step_dirs(path))], "trainer.json")))
    check(best in complete_steps(path) + [-1] and state["best_step"] == best,
          f"best is {best}, the state says {state['best_step']}, saved are {complete_steps(path)}", r)


# ---- folders that go away ----------------------------------------------------------------------

def test_a_run_folder_that_was_removed_is_made_again_at_the_next_save(folder):
    data, path = data_of(folder), os.path.join(folder, "run")
    p = Live("train", data=data, run=path, folder=folder, **endless())
    p.wait_saved(path)
    os.rename(path, path + " away")
    p.wait_saved(path)
    r = p.stop()
    check(r.code == 5 and "made again" in r.out and path in r.out, "said and saved", r)
    expect_intact(path, r)
    last = max(complete_steps(path))
    check(max(steps_logged(path)) == last, "metrics.jsonl goes on", r)
    r = ok("train", run=path, max_steps=last + 4)
    check(f"step {last}" in r.out, "the same run goes on from there", r)


def test_a_run_folder_made_again_without_room_for_metrics_fails_saves_until_there_is(folder):
    data, path = data_of(folder), os.path.join(folder, "run")
    p = Live("train", data=data, run=path, folder=folder, **endless())
    p.wait_saved(path)
    p.p.send_signal(signal.SIGSTOP)  # or it may make its folder again at once
    os.rename(path, path + " away")
    in_the_way = os.path.join(path, "metrics.jsonl")
    os.makedirs(in_the_way)
    p.p.send_signal(signal.SIGCONT)
    p.wait_says("metrics.jsonl", times=2)  # it trains on, and tries again
    os.rmdir(in_the_way)
    p.wait_saved(path)
    r = p.stop()
    check(r.code == 5 and steps_logged(path), "training went on", r)
    expect_intact(path, r)


def test_a_run_folder_that_cannot_be_made_again_ends_the_run_with_its_reason(folder):
    data, path = data_of(folder), os.path.join(folder, "parent", "run")
    p = Live("train", data=data, run=path, folder=folder, **endless())
    p.wait_saved(path)
    parent, taken = os.path.join(folder, "parent"), 0
    while not os.path.isfile(parent):  # it may make the folder again before we take the name
        os.rename(parent, f"{parent} away {taken}")
        taken += 1
        try:
            with open(parent, "x", encoding="utf-8") as f:
                f.write("in the way")
        except FileExistsError:
            pass
    p.wait_says(LOST)
    r = p.stop()
    check(r.code == 1 and path in r.out and "ot a directory" in r.out, "the path and the reason", r)
    check(read(parent) == b"in the way", "what took its place stays", r)


def test_a_run_folder_that_another_run_took_is_left_to_it(folder):
    data, options = data_of(folder), small(seed=7)
    whole = whole_run(folder, data, **options)
    path = os.path.join(folder, "run")
    p = Live("train", data=data, run=path, folder=folder, **endless(keep=0, eval_interval=0))
    p.wait_saved(path)
    p.p.send_signal(signal.SIGSTOP)  # or it may make its folder again at once
    os.rename(path, path + " away")
    q = Live("train", data=data, run=path, folder=folder, **endless(seed=7))
    q.wait_saved(path)
    p.p.send_signal(signal.SIGCONT)
    p.wait_says(LOST)
    r = p.stop()
    check(r.code == 1 and str(q.p.pid) in r.out, "names the process that has it", r)
    s = q.stop()
    check(s.code == 5, "the second one was not disturbed", s)
    shutil.rmtree(path)
    # Also when the other has ended: its folder is not ours.
    p = Live("train", data=data, run=path, folder=folder, **endless(keep=0, eval_interval=0))
    p.wait_saved(path)
    p.p.send_signal(signal.SIGSTOP)
    os.rename(path, path + " away too")
    ok("train", data=data, run=path, **options)
    before = {**snapshot(path), "lock": ""}  # for a moment we held it
    p.p.send_signal(signal.SIGCONT)
    p.wait_says(LOST)
    r = p.stop()
    check(r.code == 1 and "another run" in r.out, "said", r)
    check({**snapshot(path), "lock": ""} == before, "nothing of it was touched", r)
    expect_same(whole, path, 40)


def test_a_file_in_place_of_the_checkpoints_folder(folder):
    data, path = data_of(folder), os.path.join(folder, "run")
    base = os.path.join(path, "checkpoints")
    write(base, "a file")
    r = run("train", data=data, run=path, **small())
    check(r.code == 1 and base in r.err and "step 1/" not in r.out, "refused before the first step", r)
    check(read(base) == b"a file", "left alone", r)
    os.remove(base)
    p = Live("train", data=data, run=path, folder=folder, **endless())
    p.wait_saved(path)
    os.rename(base, base + " away")
    write(base, "a file")
    p.wait_says(LOST)
    check(read(base) == b"a file", "left alone")
    os.remove(base)
    p.wait_saved(path)
    r = p.stop()
    check(r.code == 5, "saved", r)
    expect_intact(path, r)


# ---- going on again and again ------------------------------------------------------------------

def test_an_evaluation_that_a_stop_put_off_is_logged_once(folder):
    data, path = data_of(folder), os.path.join(folder, "run")
    options = endless(eval_interval=1, save_interval=10 ** 6)
    p = Live("train", data=data, run=path, folder=folder, **options)
    p.wait_until(lambda: len(steps_logged(path)) > 3, "a few steps")
    r = p.stop()
    at = max(complete_steps(path))
    for _ in range(3):  # the same save, and each time the evaluation that was due there
        p = Live("train", data=data, run=path, folder=folder, **options)
        p.wait_until(lambda: max(steps_logged(path)) > at + 3, "steps beyond it")
        p.stop(signal.SIGKILL)
    at = max(complete_steps(path))  # a new best may have been saved
    ok("train", data=data, run=path, **{**options, "max_steps": at + 2})
    steps = [m["step"] for m in metrics(path) if m["kind"] == "eval"]
    check(steps == list(range(1, at + 3)), f"evaluations: {steps}", r)


def test_going_back_takes_best_along_and_bounds_what_is_given_up(folder):
    data, path = data_of(folder), os.path.join(folder, "run")
    base = os.path.join(path, "checkpoints")
    options = small(eval_interval=4, keep=3, keep_every=4, decay_steps=40)
    ok("train", data=data, run=path, **options)
    best = {m["step"] for m in metrics(path) if m.get("best")}
    for back in (20, 12):
        older = max(s for s in best if s <= back)
        ok("train", run=path, resume=f"step-{back:08d}", max_steps=back)
        check(read(os.path.join(base, "best")) == f"step-{older:08d}\n".encode(),
              f"back at {back}, best is {read(os.path.join(base, 'best'))}, expected {older}")
        aside = sorted(n for n in os.listdir(base) if n.startswith("aside-"))
        check(1 <= len(aside) <= 4, f"given up: {aside}")
    check(all(int(n.split("-")[2]) <= 20 for n in aside), f"of an earlier time: {aside}")


# ---- one run, one process ------------------------------------------------------------------------

def test_the_second_process_on_a_run_is_refused_by_any_name_of_it(folder):
    data, path = data_of(folder), os.path.join(folder, "run")
    p = Live("train", data=data, run=path, folder=folder, **endless())
    p.wait_saved(path)
    os.symlink("run", os.path.join(folder, "link"))
    for name in (path, os.path.join(folder, "link"), path + "/"):
        r = run("train", data=data, run=name, **endless())
        check(r.code == 2 and f"process {p.p.pid}" in r.err and "lock" in r.err, name, r)
    for command in ("inspect", "eval"):  # reading is free
        r = run(command, path) if command == "inspect" else run(command, model=path, data=data)
        check(r.code == 0, command, r)
    r = p.stop()
    check(r.code == 5, "the first one was not disturbed", r)
    expect_intact(path, r)


def test_a_lock_without_its_process_is_taken_over(folder):
    data, path = data_of(folder), os.path.join(folder, "run")
    whole = whole_run(folder, data, **small())
    p = Live("train", data=data, run=path, folder=folder, **small(save_interval=1, keep=2))
    p.wait_saved(path)
    pid = p.p.pid
    p.stop(signal.SIGKILL)
    check(read(os.path.join(path, "lock")).strip() == str(pid).encode(), "the dead one's lock is there")
    for text in (None, "", "1\n", "no number", "x" * 100000):
        if text is not None:
            write(os.path.join(path, "lock"), text)
        ok("train", data=data, run=path, **small(save_interval=1, keep=2))
    expect_same(whole, path, 40)


def test_of_many_that_start_one_run_at_once_one_makes_it(folder):
    data, path, options = data_of(folder), os.path.join(folder, "run"), small()
    whole = whole_run(folder, data, **options)
    for _ in range(3):
        many = [Live("train", data=data, run=path, folder=folder, **options) for _ in range(5)]
        ends = [p.result() for p in many]
        check(any(r.code == 0 for r in ends), "one has done it", ends[0])
        for r in ends:
            check(r.code == 0 or (r.code == 2 and ("held by process" in r.out or "another process" in r.out)),
                  "the others were refused, or found it done", r)
        expect_same(whole, path, 40)
        check(steps_logged(path) == list(range(1, 41)), "metrics of one run")
        shutil.rmtree(path)


if __name__ == "__main__":
    sys.exit(main(all_tests(dict(globals()))))
