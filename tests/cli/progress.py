#!/usr/bin/env python3
"""progress.py -- long work on a terminal: one line in place, gone at the end; elsewhere nothing.

Each command runs with a pseudo-terminal as stderr and --progress_after=0, so that nothing depends
on how fast the machine is.

SPDX-License-Identifier: MIT
"""
import fcntl
import os
import re
import struct
import sys
import termios
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import (TINY, char_data, check, command, finish, main, ok, run, start,  # noqa: E402
                       step_dirs, words_text, write)
import subprocess  # noqa: E402

CLEAR = "\r\x1b[K"


def on_terminal(args, options, columns=100, stdout_too=False):
    """Exit code, stdout, and what the terminal got. stdout_too: both on the terminal."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    got = []

    def read():
        try:
            while True:
                got.append(os.read(ours, 65536))
        except OSError:  # the other side is closed
            pass

    reader = threading.Thread(target=read)
    p = subprocess.Popen(command(args, options), stdin=subprocess.DEVNULL,
                         stdout=theirs if stdout_too else subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    reader.start()
    out = b"" if stdout_too else p.stdout.read()
    code = p.wait(timeout=300)
    reader.join()
    os.close(ours)
    return code, out.decode(), b"".join(got).decode()


def check_line(name, args, options, begins, unit):
    """On a terminal the line, without a newline, rate and rest in it, gone at the end; in a pipe nothing."""
    code, _, screen = on_terminal(args, {**options, "progress_after": 0})
    check(code == 0, f"{name}: exit code {code}: {screen}")
    lines = screen.split(CLEAR)
    check(lines[0] == "" and lines[-1] == "", f"{name}: the line is not cleared: {screen!r}")
    shown = lines[1:-1]
    check(shown and all(line.startswith(begins) for line in shown), f"{name}: {screen!r}")
    check("\n" not in "".join(shown), f"{name}: the line is not written over in place: {screen!r}")
    check(re.search(rf"\d+% \| [\d.]+k?M? ?[KMG]?i?B?{unit}/s \| [\d:]+ left", shown[-1]),
          f"{name}: no rate and time left: {shown[-1]!r}")


def check_silent(name, args, options):
    r = run(*args, **options, progress_after=0)
    check(r.code == 0 and r.err == "", f"{name}: something on a stderr that is no terminal", r)


def narrow(args, options):
    _, _, screen = on_terminal(args, {**options, "progress_after": 0}, columns=20)
    shown = screen.split(CLEAR)[1:-1]
    check(shown and all(len(line) <= 19 for line in shown), f"a line of 20 columns wraps: {screen!r}")


def lines_of_text(dir, n):
    lines = words_text(n, seed=3).replace("\n", "\n\n")
    return write(os.path.join(dir, "many.txt"), lines)


def model(dir):
    data = char_data(dir, words_text(20000))
    run_dir = os.path.join(dir, "run")
    ok("train", data=data, run=run_dir, **{**TINY, "max_steps": 2, "save_interval": 1, "keep": 0})
    return data, run_dir


def test_data(dir):
    char_data(dir, words_text(3000))  # for its tokenizer
    text = lines_of_text(dir, 200000)
    options = dict(input=text, tokenizer=os.path.join(dir, "data-tok"), data__document_separator="\\n\\n")
    check_line("data", ["data"], {**options, "out": os.path.join(dir, "a")}, "data ", "")
    check_silent("data", ["data"], {**options, "out": os.path.join(dir, "b")})
    code, _, screen = on_terminal(["data"], {**options, "out": os.path.join(dir, "c"), "progress_after": 1e6})
    check(code == 0 and screen == "", f"work shorter than progress_after shows a line: {screen!r}")
    code, _, screen = on_terminal(["data"], {**options, "out": os.path.join(dir, "d"), "progress_after": 0},
                                  stdout_too=True)
    rest = screen.split(CLEAR)[-1]
    check(code == 0 and rest.startswith("train: ") and "\n" in rest,
          f"the result does not take the line's place: {screen!r}")


def test_eval(dir):
    data, run_dir = model(dir)
    options = dict(model=run_dir, data=data, batch_size=1)
    check_line("eval", ["eval"], options, "evaluating ", " tok")
    check_silent("eval", ["eval"], options)
    narrow(["eval"], options)
    text = write(os.path.join(dir, "short.txt"), words_text(2000))
    check_line("eval --text", ["eval"], dict(model=run_dir, text=text, batch_size=1), "evaluating ", " tok")
    asked = write(os.path.join(dir, "q.jsonl"), '{"text": "the of and to in that"}\n' * 20)
    check_line("eval --lastword", ["eval"], dict(model=run_dir, lastword=asked), "evaluating ", "")
    code, _, screen = on_terminal(["eval"], {**options, "progress_after": 0}, stdout_too=True)
    check(code == 0 and re.fullmatch(r"loss [\d.]+ ppl [\d.]+ bpb [\d.]+\r\n", screen.split(CLEAR)[-1]),
          f"the result does not take the line's place: {screen!r}")


def test_generate(dir):
    _, run_dir = model(dir)
    options = dict(model=run_dir, prompt="the ", max_new_tokens=100)
    check_line("generate", ["generate"], options, "writing ", " tok")
    check_silent("generate", ["generate"], options)
    code, _, screen = on_terminal(["generate"], {**options, "progress_after": 0}, stdout_too=True)
    check(code == 0 and CLEAR not in screen, f"a line in the text that is being written: {screen!r}")


def test_inspect_and_convert(dir):
    data, run_dir = model(dir)
    step = step_dirs(run_dir)[2]
    for name, path in (("run", run_dir), ("step", step), ("data", data)):
        check_line(f"inspect {name}", ["inspect", path, "--verify"], {}, "checking ", "")
        check_silent(f"inspect {name}", ["inspect", path, "--verify"], {})
        _, _, screen = on_terminal(["inspect", path], {"progress_after": 0})
        check(screen == "", f"inspect {name} checks nothing and shows a line: {screen!r}")
    check_line("convert", ["convert"], {"from": run_dir, "to": os.path.join(dir, "bf16"), "dtype": "bf16"},
               "writing ", "")


def test_train_in_a_file(dir):
    """Training writes plain lines at its log interval when it is not on a terminal."""
    data = char_data(dir, words_text(20000))
    p = start("train", data=data, run=os.path.join(dir, "r"), **{**TINY, "max_steps": 20, "log_interval": 5})
    r = finish(p)
    lines = re.findall(r"^step (\d+)/20 ", r.out, re.M)
    check(r.code == 0 and lines == ["1", "5", "10", "15", "20"] and "\x1b" not in r.out,
          f"plain lines at the log interval: {lines}", r)


if __name__ == "__main__":
    sys.exit(main([test_data, test_eval, test_generate, test_inspect_and_convert, test_train_in_a_file]))
