#!/usr/bin/env python3
"""hostile.py -- bad input through the command line: one clear message, the right exit code, nothing
lost and nothing half made.

The tables are in hostile_cases.py. After each case
  - the exit code is one of those that are right, and the program was not killed by a signal,
  - stderr has the words, names `lathe`, is short, and holds no sign of a crash,
  - every file that was there before is as it was, and no checkpoint or output has appeared.

SPDX-License-Identifier: MIT
"""
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from hostile_cases import CONFIG, DATA, FILES, RUNS, SAFETENSORS, USAGE, World
from lathe_run import (BIN, Failed, Skipped, char_data, check, finish, kill9, main, ok, read, run,
                       snapshot, start, step_dirs, tiny, wait_for_step, words_text, write)

BAD_SIGNS = ("assert", "sanitizer", "runtime error", "segmentation", "core dumped", "traceback", "(null)",
             "while while")


def judge(w, name, codes, words, r, before, outputs):
    check(r.code >= 0, f"{name}: killed by signal {-r.code}", r)
    check(r.code in codes, f"{name}: exit code {r.code}, right are {codes}", r)
    said = r.err.lower()
    if r.code != 0:
        check("lathe" in said, f"{name}: stderr must start with what speaks: lathe", r)
        check(len(r.err) < 4000, f"{name}: {len(r.err)} characters are not one clear message", r)
    for word in words:
        check(word.lower() in said, f"{name}: stderr says nothing of {word!r}", r)
    for sign in BAD_SIGNS:
        check(sign not in said, f"{name}: {sign!r} in stderr", r)
    after = snapshot(w.dir)
    lost = sorted(k for k in before if before[k] != after.get(k) and not k.endswith((".lock", "lock", "metrics.jsonl")))
    check(not lost, f"{name}: changed or lost: {lost[:5]}", r)
    made = sorted(k for k in after if k not in before and not k.endswith("/lock"))
    half = [k for k in made if ".tmp" in k or k.endswith((".safetensors", ".bin")) or "/checkpoints/" in k]
    check(r.code == 0 or not half, f"{name}: left behind: {half[:5]}", r)
    if r.code == 2:
        check(not made, f"{name}: a usage error made files: {made[:5]}", r)
    for path in outputs:
        check(r.code == 0 or not os.path.exists(path) or not os.path.isdir(path) or not complete_output(path),
              f"{name}: {path} looks like a result", r)


def complete_output(path):
    return any(f.endswith((".bin", "tokenizer.json")) for _, _, fs in os.walk(path) for f in fs)


def table(folder, rows):
    w, problems = World(folder), []
    for name, codes, words, prepare in rows:
        args, options = prepare(w)
        before = snapshot(w.dir)
        outputs = [options["out"]] if "out" in options else []
        try:
            judge(w, name, codes, words, run(*args, timeout=60, **options), before, outputs)
        except (Failed, subprocess.TimeoutExpired) as e:
            problems.append(str(e))
    print(f"# {len(rows)} cases")
    check(not problems, "\n\n".join([f"{len(problems)} of {len(rows)} cases:"] + problems))


def test_usage(folder):
    table(folder, USAGE)


def test_files_and_folders(folder):
    table(folder, FILES)


def test_safetensors(folder):
    rows = [(name, (3,), words, lambda w, c=change: w.generate(w.model(c))) for name, words, change in SAFETENSORS]
    table(folder, rows)


def test_config_and_shards(folder):
    codes = {"another architecture": (2, 3), "activation unknown": (2, 3), "absent shard": (1, 3)}
    rows = [(name, codes.get(name, (3,)), words, lambda w, p=prepare: w.generate(p(w)))
            for name, words, prepare in CONFIG]
    table(folder, rows)


def test_fine_tuning_refuses_what_generate_refuses(folder):
    rows = [(name, (3,), words, lambda w, c=change: (("train",), dict(
        data=w.data, run=w.new("run"), init_from=w.model(c), max_steps=2, device="cpu")))
        for name, words, change in SAFETENSORS[3:6] + SAFETENSORS[11:12] + SAFETENSORS[20:24]]
    table(folder, rows)


def test_data(folder):
    table(folder, DATA)


def test_runs(folder):
    table(folder, RUNS)


def test_random_damage_never_crashes(folder):
    """Random bytes flipped and files cut at random in every kind of file that is read."""
    w, rng, problems = World(folder), random.Random(11), []
    for source, command in ((w.hf, lambda d: w.generate(d)), (w.data, lambda d: w.train(data=d)),
                            (w.run, lambda d: w.train(run=d, max_steps=4))):
        files = sorted(os.path.relpath(os.path.join(b, f), source) for b, _, fs in os.walk(source) for f in fs)
        files = [f for f in files if os.path.getsize(os.path.join(source, f)) > 0]
        for _ in range(20):
            target = w.copy(source)
            name = rng.choice(files)
            content = bytearray(read(os.path.join(target, name)))
            if rng.random() < 0.4:
                content = content[:rng.randrange(len(content))]
            else:
                for _ in range(rng.choice((1, 1, 8))):
                    content[rng.randrange(min(len(content), rng.choice((64, 4096, 10**9))))] = rng.randrange(256)
            write(os.path.join(target, name), bytes(content))
            args, options = command(target)
            r = run(*args, timeout=60, **options)
            if r.code not in (0, 1, 2, 3) or any(s in r.err.lower() for s in BAD_SIGNS):
                problems.append(f"{name} damaged\n{r}")
            shutil.rmtree(target)
    check(not problems, "\n\n".join(problems[:5]))


# What stands in the way of writing.

def test_full_device_for_standard_output(folder):
    w = World(folder)
    with open("/dev/full", "wb") as full:
        for args, options in ((("tokenizer", "encode", w.text), dict(tokenizer=w.tok)), w.generate(w.hf),
                              (("plan",), {}), (("inspect", w.step), {}), (("train", "--help"), {})):
            r = run(*args, stdout=full, **options)
            check(r.code == 1 and re.search("no space|standard output", r.err, re.I), "output to a full device", r)


def limited(size):
    def apply():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return apply


def test_file_size_limit_stops_a_save_but_loses_nothing(folder):
    w = World(folder)
    before = snapshot(os.path.join(w.run, "checkpoints"))
    r = run("train", data=w.data, run=w.run, preexec=limited(50000), **{**w.options, "max_steps": 6})
    check(r.code == 1 and "safetensors" in r.err, "a save that cannot be written must end the run with 1", r)
    after = snapshot(os.path.join(w.run, "checkpoints"))
    check(all(after.get(k) == v for k, v in before.items()), "something complete was lost", r)
    check(sorted(step_dirs(w.run)) == [1, 2, 3], f"half a step is visible: {sorted(step_dirs(w.run))}", r)
    ok("train", data=w.data, run=w.run, **{**w.options, "max_steps": 6})
    for args, options in ((("data",), dict(input=w.text, tokenizer=w.tok, out=w.new("out"))),
                          (("tokenizer", "train"), dict(input=w.text, type="char", out=w.new("out")))):
        r = run(*args, preexec=limited(100), **options)
        check(r.code == 1, "a file that cannot be written", r)
        check(not complete_output(options["out"]), "half a result was left", r)


def test_full_disk(folder):
    if os.geteuid() != 0:
        raise Skipped("needs a small file system of its own: root")
    small = os.path.join(folder, "small")
    os.makedirs(small)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=500k", "tmpfs", small], capture_output=True).returncode:
        raise Skipped("mount is not allowed here")
    try:
        data = char_data(folder, words_text(6600))
        options = tiny(max_steps=10, save_interval=1, keep=0)
        r = run("train", data=data, run=os.path.join(small, "run"), **options)
        check(r.code == 1 and "no space" in r.err.lower(), "a full disk must end the run with 1", r)
        steps = step_dirs(os.path.join(small, "run"))
        check(steps, "the steps before it must be there", r)
        for path in steps.values():
            v = run("inspect", path, "--verify")
            check(v.code == 0, "a step that is visible must be whole", v)
    finally:
        subprocess.run(["umount", small], check=True)


def as_nobody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def test_read_only_folder(folder):
    data = char_data(folder, words_text(6600))
    closed = os.path.join(folder, "closed")
    os.makedirs(closed)
    os.chmod(closed, 0o555)
    preexec = as_nobody if os.geteuid() == 0 else None
    try:
        probe = run("--version", preexec=preexec)
    except (OSError, subprocess.SubprocessError):
        probe = None
    if probe is None or probe.code != 0:
        raise Skipped(f"another user cannot run {BIN}")
    for args, options in ((("train",), {**tiny(), "data": data, "run": closed + "/run"}),
                          (("data",), dict(input=folder + "/data.txt", tokenizer=data + "-tok", out=closed + "/d")),
                          (("tokenizer", "train"), dict(input=folder + "/data.txt", type="char", out=closed + "/t"))):
        r = run(*args, preexec=preexec, **options)
        check(r.code == 1 and "closed" in r.err and "denied" in r.err.lower(), "a read-only folder", r)
        check(os.listdir(closed) == [], "something was made", r)


def test_two_processes_on_one_run(folder):
    data = char_data(folder, words_text(6600))
    run_dir = os.path.join(folder, "run")
    options = tiny(max_steps=1000000, schedule="constant", save_interval=100)
    p = start("train", data=data, run=run_dir, **options)
    check(wait_for_step(p, run_dir, 5), "the first process did not run")
    r = run("train", data=data, run=run_dir, **options)
    p.send_signal(signal.SIGTERM)
    first = finish(p)
    check(r.code == 2 and f"process {p.pid}" in r.err, "the second must be refused", r)
    check(first.code == 5, "the first must not notice", first)
    p = start("train", data=data, run=run_dir, **options)
    wait_for_step(p, run_dir, first_step_after(run_dir))
    kill9(p)
    ok("train", data=data, run=run_dir, **{**options, "max_steps": max(step_dirs(run_dir)) + 1})


def first_step_after(run_dir):
    return max(step_dirs(run_dir)) + 1


if __name__ == "__main__":
    sys.exit(main([v for k, v in list(globals().items()) if k.startswith("test_")]))
