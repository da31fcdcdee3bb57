#!/usr/bin/env python3
"""environment_names.py -- names that files may have: any bytes, any length the system takes, links,
and a working folder that is gone.

SPDX-License-Identifier: MIT
"""
import os
import shutil
import subprocess
import sys

from environment_lib import all_tests, check, data_of, expect_same, small, whole_run
from lathe_run import BIN, main, metrics, ok, read, run, step_dirs, words_text, write

ODD = {
    "spaces": " two  spaces ",
    "quotes": "it's \"quoted\" `x` $HOME",
    "newline": "first\nsecond\ttab\rreturn",
    "utf8": "\u043c\u043e\u0434\u0435\u043b\u044c \u6a21\u578b \U0001f40b e\u0301",
    "no utf8": b"bytes \xff\xfe\x80",
    "escape": "\x1b[31mred\x07",
    "percent": "%s%n%d",
    "comment": "# a = b ; [c]",
    "backslash": "back\\slash\\",
    "dash": "-dash --run=x",
    "star": "*?[a]{b}",
}


def text_of(name):
    return os.fsdecode(name) if isinstance(name, bytes) else name


def pipeline(folder, base):
    """Every command with every path below `base`; returns the run."""
    os.makedirs(base, exist_ok=True)
    path = {n: os.path.join(base, n) for n in ("text.txt", "tok", "data", "run", "conv")}
    write(path["text.txt"], words_text(6600))
    ok("tokenizer", "train", input=path["text.txt"], type="char", out=path["tok"])
    ok("data", input=path["text.txt"], tokenizer=path["tok"], out=path["data"], val_fraction=0.1)
    ok("train", data=path["data"], run=path["run"], **small(max_steps=8))
    ok("train", run=path["run"], max_steps=12)  # the data's name comes out of config.ini
    ok("eval", model=path["run"], data=path["data"])
    ok("eval", model=path["run"], text=path["text.txt"])
    ok("generate", model=path["run"], prompt="the", max_new_tokens=4)
    ok("inspect", path["run"], "--verify")
    ok("inspect", path["data"], "--verify")
    ok("convert", **{"from": path["run"], "to": path["conv"], "dtype": "bf16"})
    ok("train", data=path["data"], run=path["run"] + "2", init_from=path["conv"], max_steps=2,
       batch_size=2, device="cpu")
    step = os.path.join(path["run"], "checkpoints", "step-00000008")
    ok("train", run=path["run"], resume=step, max_steps=12)
    return path["run"]


def test_names_of_any_bytes(folder):
    plain = pipeline(folder, os.path.join(folder, "plain"))
    for what, name in ODD.items():
        base = os.path.join(folder, text_of(name))
        made = pipeline(folder, base)
        check(read(os.path.join(step_dirs(plain)[12], "model.safetensors")) ==
              read(os.path.join(step_dirs(made)[12], "model.safetensors")), f"{what}: other weights")
        shutil.rmtree(base)


def test_an_error_names_an_odd_path(folder):
    for name in ODD.values():
        base = os.path.join(folder, text_of(name))
        r = run("train", data=base, run=os.path.join(folder, "run"), device="cpu")
        check(r.code in (1, 2) and len(r.err) > len(base), "an error with the path", r)
        check(not [c for c in r.err_raw if c < 32 and c != 10 or c == 127], f"{name!r}: controls", r)
        check("no such" in r.err.lower(), "and the reason", r)
        check(not os.path.exists(os.path.join(folder, "run")), "nothing made", r)


def test_a_relative_name_that_begins_with_a_dash(folder):
    plain = data_of(folder)
    os.rename(plain, os.path.join(folder, "--data"))
    r = run("train", data="--data", run="-run", cwd=folder, **small(max_steps=4))
    check(r.code == 0 and os.path.exists(os.path.join(folder, "-run", "config.ini")), "trained", r)


def test_long_names(folder):
    """A component of 255 bytes, and a path of far more than 255."""
    one = os.path.join(folder, "n" * 255)
    pipeline(folder, one)
    shutil.rmtree(one)
    deep = os.path.join(folder, *["d" * 200] * 8)
    pipeline(folder, deep)
    shutil.rmtree(os.path.join(folder, "d" * 200))


def test_folders_whose_own_name_has_255_bytes(folder):
    """Files and folders lathe makes under names it is given."""
    text = write(os.path.join(folder, "t" * 251 + ".txt"), words_text(6600))
    tok, data, runs, conv = (os.path.join(folder, c * 255) for c in "kdrc")
    ok("tokenizer", "train", input=text, type="char", out=tok)
    ok("data", input=text, tokenizer=tok, out=data, val_fraction=0.1)
    ok("train", data=data, run=runs, **small(max_steps=4))
    # Made under a longer name at first: that one is too long.
    r = run("convert", **{"from": runs, "to": conv, "dtype": "bf16"})
    check(r.code == 1 and "name too long" in r.err, "told", r)
    ok("convert", **{"from": runs, "to": conv[:-8], "dtype": "bf16"})
    ok("eval", model=conv[:-8], data=data)


def test_a_path_that_is_too_long_is_an_error_in_one_line(folder):
    data = data_of(folder)
    for path in (os.path.join(folder, "x" * 256), "/tmp/" + "y/" * 2045, "/tmp/" + "z/" * 3000):
        for key in ("run", "data", "init_from"):
            options = {"data": data, "run": os.path.join(folder, "new"), "device": "cpu", **{key: path}}
            r = run("train", **options)
            check(r.code in (1, 2), "refused", r)
            check("too long" in r.err or "no such" in r.err.lower(), f"{key}: the reason", r)
            check(not os.path.exists(os.path.join(folder, "new")), "nothing made", r)
    # A run folder that is itself just short enough, but not its files.
    base = os.path.join(folder, "p")
    while len(base) + 240 < 4070:
        base = os.path.join(base, "p" * 230)
    base = os.path.join(base, "q" * (4070 - len(base)))
    r = run("train", data=data, run=base, **small())
    check(r.code in (1, 2) and "too long" in r.err, "refused before the first step", r)
    check("step 1/" not in r.out, "before the first step", r)


# ---- links -------------------------------------------------------------------------------------

def test_links_in_place_of_folders(folder):
    data, options = data_of(folder), small(decay_steps=40)
    whole = whole_run(folder, data, **options)
    real = os.path.join(folder, "elsewhere")
    for name in ("run", "checkpoints", "data"):
        os.makedirs(os.path.join(real, name))
    os.symlink(data, os.path.join(folder, "data link"))
    os.symlink(os.path.join(real, "run"), os.path.join(folder, "run link"))
    os.symlink("../checkpoints", os.path.join(real, "run", "checkpoints"))  # on a larger disk
    path = os.path.join(folder, "run link")
    ok("train", data=os.path.join(folder, "data link"), run=path, **{**options, "max_steps": 20})
    ok("train", run=path, max_steps=40)
    expect_same(whole, path, 40)
    check(os.path.islink(os.path.join(real, "run", "checkpoints")), "the link is a link still")
    check(sorted(os.listdir(os.path.join(real, "checkpoints"))) ==
          sorted(os.listdir(os.path.join(path, "checkpoints"))), "and leads there")
    # By the name of a step, seen through any of the links.
    for step in (os.path.join(path, "checkpoints", "step-00000036"),
                 os.path.join(real, "checkpoints", "step-00000036"), "step-00000036"):
        ok("train", run=path, resume=step, max_steps=40)
        expect_same(whole, path, 40)
    other = os.path.join(folder, "other")
    shutil.copytree(os.path.join(real, "checkpoints"), os.path.join(other, "checkpoints"))
    r = run("train", run=path, resume=os.path.join(other, "checkpoints", "step-00000036"))
    check(r.code == 2, "a step of the same name in another run is not this run's", r)
    ok("inspect", path, "--verify")
    ok("convert", **{"from": path, "to": os.path.join(folder, "conv")})
    ok("eval", model=path, data=os.path.join(folder, "data link"))


def test_links_that_lead_nowhere_or_in_a_circle_are_errors(folder):
    data = data_of(folder)
    os.symlink(os.path.join(folder, "absent"), os.path.join(folder, "nowhere"))
    os.symlink("circle", os.path.join(folder, "circle"))
    for name in ("nowhere", "circle"):
        path = os.path.join(folder, name)
        for options in (dict(data=data, run=path), dict(data=path, run=os.path.join(folder, "new")),
                        dict(data=data, run=os.path.join(folder, "new"), init_from=path)):
            r = run("train", device="cpu", **options)
            check(r.code in (1, 2) and path in r.err, name, r)
            check(os.path.islink(path) and not os.path.exists(os.path.join(folder, "new")), "left alone", r)
        os.makedirs(os.path.join(folder, "run-" + name))
        os.symlink(path, os.path.join(folder, "run-" + name, "checkpoints"))
        r = run("train", data=data, run=os.path.join(folder, "run-" + name), **small())
        check(r.code == 1 and "checkpoints" in r.err and "step 1/" not in r.out, "before a step", r)


# ---- the working folder ------------------------------------------------------------------------

def test_a_working_folder_that_is_gone(folder):
    data = data_of(folder)

    def gone(name):
        def leave():
            os.makedirs(os.path.join(folder, name))
            os.chdir(os.path.join(folder, name))
            os.rmdir(os.path.join(folder, name))
        return leave

    r = run("train", data=data, run=os.path.join(folder, "run"), preexec=gone("a"), **small(max_steps=4))
    check(r.code == 0, "paths from the root work", r)
    r = run("train", data=data, run="run", preexec=gone("b"), **small(max_steps=4))
    check(r.code == 1 and "o such file" in r.err and "run" in r.err, "relative ones are an error", r)
    check("step 1/" not in r.out, "before the first step", r)
    r = run("train", data="data", run=os.path.join(folder, "run2"), preexec=gone("c"), device="cpu")
    check(r.code != 0 and "data" in r.err and not os.path.exists(os.path.join(folder, "run2")), "data", r)


if __name__ == "__main__":
    sys.exit(main(all_tests(dict(globals()))))
