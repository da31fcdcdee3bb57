#!/usr/bin/env python3
"""environment_signals.py -- signals, closed streams, a terminal that changes its size, a clock that
jumps.

A stop at any moment saves, or leaves what was saved; a stream that is closed hurts no file.

SPDX-License-Identifier: MIT
"""
import array
import fcntl
import json
import os
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys
import termios
import time

from environment_lib import (Live, all_tests, check, complete_steps, data_of, endless, expect_intact, expect_same,
                             leftovers, shim, small, whole_run)
from lathe_run import (BIN, Skipped, command, losses, main, metrics, ok, read, run, step_dirs,
                       words_text, write)


def saving(run_dir):
    base = os.path.join(run_dir, "checkpoints")
    return os.path.isdir(base) and any(n.startswith(".tmp-step") for n in os.listdir(base))


def expect_saved(run_dir, r):
    """It stopped with 5, and what was done last is saved."""
    check(r.code == 5, "exit code 5", r)
    check(max(complete_steps(run_dir), default=-1) == max(losses(run_dir)), "the last step is saved", r)
    check(not leftovers(run_dir), "no leftovers", r)
    expect_intact(run_dir, r)


def expect_goes_on(folder, data, run_dir, **changes):
    """Finished from here, it ends as the run that was left alone."""
    end = max(complete_steps(run_dir)) + 20
    options = endless(decay_steps=1000, **changes)
    ok("train", data=data, run=run_dir, **{**options, "max_steps": end})
    whole = os.path.join(folder, f"whole-{end}")
    ok("train", data=data, run=whole, **{**options, "max_steps": end})
    expect_same(whole, run_dir, end)


# ---- signals -----------------------------------------------------------------------------------

def in_a_save(folder, data, run_dir, **options):
    """A run whose disk is slow, in the middle of a save that is not its first."""
    p = Live("train", data=data, run=run_dir, folder=folder, env=shim(fsync_ms=100), **options)
    p.wait_saved(run_dir)
    p.wait_until(lambda: saving(run_dir), "a save")
    return p


def test_sigterm_in_a_save_finishes_it_and_saves_the_last_step(folder):
    data = data_of(folder)
    for i, save_async in enumerate(("true", "false")):
        path = os.path.join(folder, f"run-{i}")
        p = in_a_save(folder, data, path, **endless(save_async=save_async))
        r = p.stop(signal.SIGTERM)
        expect_saved(path, r)
        check("SIGTERM" in r.out, "it says why", r)
    expect_goes_on(folder, data, path)


def test_sigterm_twice_in_a_save_is_as_good_as_once(folder):
    data, path = data_of(folder), os.path.join(folder, "run")
    p = in_a_save(folder, data, path, **endless())
    for pause in (0, 0.01, 0.7):
        time.sleep(pause)
        p.p.send_signal(signal.SIGTERM)
    expect_saved(path, p.result())
    expect_goes_on(folder, data, path)


def test_ctrl_c_twice_at_once_saves_and_once_more_later_ends_at_once(folder):
    data, path = data_of(folder), os.path.join(folder, "run")
    p = in_a_save(folder, data, path, **endless())
    p.p.send_signal(signal.SIGINT)
    r = p.stop(signal.SIGINT)  # a key press may reach a program twice
    expect_saved(path, r)
    newest = max(complete_steps(path))
    p = Live("train", data=data, run=path, folder=folder, env=shim(fsync_ms=400), **endless())
    p.wait_until(lambda: saving(path), "a save")
    p.p.send_signal(signal.SIGINT)
    p.wait_says("SIGINT")
    time.sleep(0.7)
    r = p.stop(signal.SIGINT)
    check(r.code == -signal.SIGINT, "ended by the second one", r)
    check(newest in complete_steps(path), "what was saved is there", r)
    expect_intact(path, r)
    expect_goes_on(folder, data, path)


def test_a_closed_terminal_and_a_cpu_limit_save(folder):
    data, path = data_of(folder), os.path.join(folder, "run")
    for sig in (signal.SIGHUP, signal.SIGXCPU):
        p = Live("train", data=data, run=path, folder=folder, **endless())
        p.wait_saved(path, max(step_dirs(path), default=-1))
        r = p.stop(sig)
        expect_saved(path, r)
        check(sig.name in r.out, "it says why", r)


def test_signals_that_were_ignored_at_the_start_stay_ignored(folder):
    data, path = data_of(folder), os.path.join(folder, "run")

    def nohup():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    p = Live("train", data=data, run=path, folder=folder, preexec=nohup, **endless())
    newest = p.wait_saved(path)
    p.p.send_signal(signal.SIGHUP)
    p.p.send_signal(signal.SIGINT)
    p.wait_saved(path, newest + 20)
    expect_saved(path, p.stop(signal.SIGTERM))


def test_timeout_gets_its_save(folder):
    """timeout(1) signals the program and its group: two SIGTERM within microseconds."""
    if not shutil.which("timeout"):
        raise Skipped("no timeout(1)")
    data, path = data_of(folder), os.path.join(folder, "run")
    full = command(("train",), dict(data=data, run=path, **endless()))
    p = subprocess.run(["timeout", "2"] + full, capture_output=True, stdin=subprocess.DEVNULL,
                       start_new_session=True)
    check(p.returncode == 124, f"timeout ended it: {p.returncode}")
    check(max(complete_steps(path), default=-1) == max(losses(path)), f"saved: {p.stderr}")


def test_signals_that_stop_and_continue_change_nothing(folder):
    data, path, options = data_of(folder), os.path.join(folder, "run"), small(max_steps=60)
    whole = whole_run(folder, data, **options)
    p = Live("train", data=data, run=path, folder=folder, **options)
    for _ in range(3):
        if p.p.poll() is None:
            p.p.send_signal(signal.SIGSTOP)
            time.sleep(0.05)
            p.p.send_signal(signal.SIGCONT)
        time.sleep(0.05)
    check(p.result().code == 0, "done", p.result())
    expect_same(whole, path, 60)


# ---- streams -----------------------------------------------------------------------------------

def test_a_log_whose_reader_is_gone_ends_neither_run_nor_save(folder):
    """lathe train ... | head -1"""
    data, options = data_of(folder), small()
    whole = whole_run(folder, data, **options)
    path = os.path.join(folder, "run")
    read_end, write_end = os.pipe()
    p = Live("train", data=data, run=path, folder=folder, stdout=write_end, **options)
    os.close(write_end)
    os.read(read_end, 1)
    os.close(read_end)
    r = p.result()
    check(r.code == 0, "trained to the end", r)
    check(r.out.count("standard output") == 1, "told once", r)
    expect_same(whole, path, 40)
    # All of its streams, also when the errors go the same way.
    path = os.path.join(folder, "run-2")
    read_end, write_end = os.pipe()
    os.close(read_end)
    full = command(("train",), dict(data=data, run=path, **options))
    q = subprocess.run(full, stdin=subprocess.DEVNULL, stdout=write_end, stderr=write_end)
    os.close(write_end)
    check(q.returncode == 0, "the same without any reader")
    expect_same(whole, path, 40)


def closed(*numbers):
    def close():
        for fd in numbers:
            os.close(fd)
    return close


def test_closed_streams_hurt_no_file(folder):
    data, options = data_of(folder), small()
    whole = whole_run(folder, data, **options)
    for numbers in ((0,), (1,), (2,), (1, 2), (0, 1, 2)):
        path = os.path.join(folder, "run-" + "".join(map(str, numbers)))
        full = command(("train",), dict(data=data, run=path, **options))
        p = subprocess.run(full, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, preexec_fn=closed(*numbers))
        check(p.returncode == 0, f"streams {numbers} closed: {p.returncode}")
        expect_same(whole, path, 40)
        expect_intact(path)
        for line in read(os.path.join(path, "metrics.jsonl")).decode().splitlines():
            json.loads(line)
        check(read(os.path.join(path, "lock")).strip().isdigit(), "the lock file holds its number alone")
        check(b"step 1/" not in read(os.path.join(path, "config.ini")), "config.ini")
        ok("train", run=path, max_steps=44)


def test_a_result_that_nobody_can_read_is_a_failure(folder):
    data, path = data_of(folder), os.path.join(folder, "run")
    ok("train", data=data, run=path, **small(max_steps=4))
    for args, options in ((("inspect", path), {}), (("eval",), dict(model=path, data=data)),
                          (("generate",), dict(model=path, prompt="the", max_new_tokens=4))):
        r = run(*args, preexec=closed(1), **options)
        check(r.code == 1 and "standard output" in r.err, "closed", r)
        if os.path.exists("/dev/full"):
            with open("/dev/full", "wb") as full:
                r = run(*args, stdout=full, **options)
            check(r.code == 1 and "No space left" in r.err, "full", r)


def test_closed_standard_input_is_an_error_only_where_it_is_read(folder):
    data, path = data_of(folder), os.path.join(folder, "run")
    ok("train", data=data, run=path, preexec=closed(0), **small(max_steps=4))
    tokenizer = os.path.join(folder, "data-tok")
    for args, options in ((("data",), dict(input="-", tokenizer=tokenizer, out=os.path.join(folder, "d2"))),
                          (("tokenizer", "encode"), dict(tokenizer=tokenizer)),
                          (("generate",), dict(model=path))):
        r = run(*args, preexec=closed(0), **options)
        check(r.code == 1 and "standard input" in r.err, "told", r)
    check(not os.path.exists(os.path.join(folder, "d2")), "nothing made")


def test_head_ends_a_command_quietly(folder):
    data, path = data_of(folder), os.path.join(folder, "run")
    ok("train", data=data, run=path, **small(max_steps=4))
    text = write(os.path.join(folder, "long.txt"), words_text(400000))
    for args, options in ((("generate",), dict(model=path, prompt="the ", max_new_tokens=100000)),
                          (("tokenizer", "encode", text), dict(tokenizer=os.path.join(folder, "data-tok"))),
                          (("options",), {})):
        p = subprocess.Popen(command(args, options), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
        if args[0] != "options":
            check(len(p.stdout.read(1)) == 1, "it says something")
        p.stdout.close()
        said = p.stderr.read()
        code = p.wait(timeout=60)
        check(said == b"" and code == -signal.SIGPIPE, f"{args}: exit {code}, said {said!r}")


def test_ctrl_c_ends_commands_that_wait_for_input(folder):
    data, path = data_of(folder), os.path.join(folder, "run")
    ok("train", data=data, run=path, **small(max_steps=4))
    tokenizer, out = os.path.join(folder, "data-tok"), os.path.join(folder, "d2")
    for args, options, ends in ((("data",), dict(input="-", tokenizer=tokenizer, out=out), 5),
                                (("generate",), dict(model=path), -signal.SIGINT),
                                (("tokenizer", "encode"), dict(tokenizer=tokenizer), -signal.SIGINT)):
        for typed in (b"", b"some words\n"):
            read_end, write_end = os.pipe()
            os.write(write_end, typed)
            p = Live(*args, folder=folder, stdin=read_end, **options)
            os.close(read_end)
            # It waits when it has read what there is and sleeps.
            p.wait_until(lambda: waits(p.p.pid, write_end), "it waits for input")
            began = time.monotonic()
            r = p.stop(signal.SIGINT)
            os.close(write_end)
            check(r.code == ends, f"ended by one Ctrl-C, with {ends}", r)
            check(time.monotonic() - began < 5, "at once", r)
            check(not [n for n in os.listdir(folder) if n.startswith("d2")], "nothing is left", r)


def waits(pid, write_end):
    """The pipe is empty, and the process sleeps in a read or poll."""
    left = array.array("i", [0])
    fcntl.ioctl(write_end, termios.FIONREAD, left)
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        state = f.read().rsplit(")", 1)[1].split()[0]
    with open(f"/proc/{pid}/wchan", encoding="utf-8") as f:
        where = f.read()
    return left[0] == 0 and state == "S" and ("pipe" in where or "poll" in where or where in ("0", ""))


# ---- a terminal --------------------------------------------------------------------------------

def test_the_progress_line_follows_the_width_of_the_terminal(folder):
    data, path = data_of(folder), os.path.join(folder, "run")
    master, slave = pty.openpty()

    def resize(columns):
        fcntl.ioctl(slave, termios.TIOCSWINSZ, array.array("H", [24, columns, 0, 0]))

    def drain():
        got = b""
        while True:
            try:
                got += os.read(master, 65536)
            except BlockingIOError:
                return got

    os.set_blocking(master, False)
    resize(120)
    p = Live("train", data=data, run=path, folder=folder, stdout=slave,
             env=shim(fsync_ms=2), **endless(log_interval=10 ** 6, eval_interval=0))
    p.wait_saved(path)
    for columns in (120, 40, 10, 2, 1, 65000, 77):
        resize(columns)
        p.p.send_signal(signal.SIGWINCH)
        drain()
        # Two saves later: it was resized while training and while saving.
        newest = max(step_dirs(path))
        seen = b""
        while max(step_dirs(path)) <= newest + 8:
            seen += drain()
            check(p.p.poll() is None, "ended", p)
            time.sleep(0.001)
        lines = [x for x in re.split(rb"\r\x1b\[K|\r?\n", seen)[2:-1] if x.startswith(b"step"[:columns - 1])]
        check(lines, f"no progress at {columns} columns: {seen[:300]!r}")
        widest = max(len(x) for x in lines)
        check(widest <= columns - 1, f"{widest} characters on {columns} columns")
        if columns == 120:
            check(widest > 60, f"a whole line fits: {lines[0]!r}")
    resize(80)
    p.p.send_signal(signal.SIGTERM)
    while p.p.poll() is None:
        drain()
        time.sleep(0.01)
    os.close(slave)
    os.close(master)
    expect_saved(path, p.result())


# ---- clocks ------------------------------------------------------------------------------------

def test_a_wall_clock_that_jumps_changes_nothing(folder):
    data, options = data_of(folder), small(keep=2, max_steps=60)
    whole = whole_run(folder, data, **options)
    path, env = os.path.join(folder, "run"), shim(clock=1)
    check(subprocess.run(["date", "+%Y"], env={**os.environ, **env}, capture_output=True).stdout.strip() !=
          subprocess.run(["date", "+%Y"], capture_output=True).stdout.strip(), "the shim works")
    p = Live("train", data=data, run=path, folder=folder, env=env, **options)
    r = p.result()
    check(r.code == 0, "done", r)
    expect_same(whole, path, 60)
    check(sorted(step_dirs(path)) == sorted(step_dirs(whole)), "retention goes by number", r)
    for m in metrics(path):
        if m["kind"] == "step":
            check(0 < m["seconds"] < 100 and m["tokens_per_second"] > 0, f"{m}")
    etas = re.findall(r"eta (\S+)", r.out)
    check(etas and all(re.fullmatch(r"\d:\d\d", e) for e in etas), f"time left: {etas}", r)
    began = time.monotonic()
    p = Live("train", data=data, run=os.path.join(folder, "long"), folder=folder, env=env,
             **endless(max_seconds=1))
    r = p.result()
    check(r.code == 5 and "max_seconds" in r.out, "stopped by max_seconds", r)
    check(1 <= time.monotonic() - began < 60, "after a second of real time", r)


if __name__ == "__main__":
    sys.exit(main(all_tests(dict(globals()))))
