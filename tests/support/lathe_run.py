"""lathe_run.py -- what the command-line tests share: run the program, make data, look at files.

Python 3 standard library only. A test script is a list of functions that take a scratch folder:

    def test_x(dir): check(run("train", ...).code == 0, "...")
    main([test_x])

Each test gets an empty folder of its own. A failed check ends that test with the text and what the
program said; the script's exit code is 1 if any test failed, 77 (skip) if there is no program.
Environment: LATHE_BIN (default build/lathe), LATHE_SHARED (real texts, optional), LATHE_KEEP=1
(leave the scratch folders), LATHE_EMULATOR (a command put in front of the program, for a build for
another processor).

SPDX-License-Identifier: MIT
"""
import hashlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import zlib

SOURCE = os.path.normpath(os.environ.get("LATHE_SOURCE_DIR") or
                          os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BIN = os.path.abspath(os.environ.get("LATHE_BIN") or os.path.join(SOURCE, "build", "lathe"))
EMULATOR = os.environ.get("LATHE_EMULATOR", "").split()
SHARED = os.path.normpath(os.environ.get("LATHE_SHARED") or os.path.join(SOURCE, "..", "shared"))


# Threads that spin while they wait are many times slower on a machine that is busy with other tests.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


class Result:
    """What a finished command left: exit code (negative: killed by that signal), stdout, stderr."""

    def __init__(self, args, code, out, err):
        self.args, self.code, self.raw, self.err_raw = args, code, out, err
        self.out = out.decode("utf-8", "replace")
        self.err = err.decode("utf-8", "replace")

    def __str__(self):
        return (f"$ lathe {' '.join(self.args)}\nexit code {self.code}\n"
                f"--- stdout\n{self.out[-2000:]}\n--- stderr\n{self.err[-3000:]}")


def check(condition, text, result=None):
    if not condition:
        raise Failed(text + (f"\n{result}" if result is not None else ""))


def command(args, options):
    return EMULATOR + [BIN] + [str(a) for a in args] + [f"--{k.replace('__', '.')}={v}" for k, v in options.items()]


def run(*args, stdin=None, timeout=300, preexec=None, stdout=None, cwd=None, **options):
    """lathe ARGS --key=value ...; `__` in a key stands for a dot."""
    full = command(args, options)
    p = subprocess.run(full, input=stdin if stdin is not None else b"",
                       stdout=stdout if stdout is not None else subprocess.PIPE,
                       stderr=subprocess.PIPE, timeout=timeout, preexec_fn=preexec, cwd=cwd)
    return Result(full[1:], p.returncode, p.stdout or b"", p.stderr or b"")


def ok(*args, **options):
    r = run(*args, **options)
    check(r.code == 0, "a command that must succeed did not", r)
    return r


def start(*args, **options):
    """The same in the background; its output goes to a file beside the run (see finish)."""
    full = command(args, options)
    log = tempfile.TemporaryFile()
    p = subprocess.Popen(full, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    p.lathe_args, p.lathe_log = full[1:], log
    return p


def finish(p, timeout=300):
    code = p.wait(timeout=timeout)
    p.lathe_log.seek(0)
    said = p.lathe_log.read()
    p.lathe_log.close()
    return Result(p.lathe_args, code, said, b"")


# Text and data.

WORDS = ("the of and to in that is was he for it with as his on be at by had not are but from or have "
         "an they which one you were her all she there would their we him been has when who will more "
         "out so said what up its about into than them can only other new some could time these two may").split()


def words_text(chars, seed=1, line=12):
    """Plain ASCII text of random words: lower case, spaces, full stops, newlines."""
    rng = random.Random(seed)
    parts, size = [], 0
    while size < chars:
        sentence = " ".join(rng.choice(WORDS) for _ in range(rng.randint(3, line))) + ".\n"
        parts.append(sentence)
        size += len(sentence)
    return "".join(parts)[:chars]


def write(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(content.encode() if isinstance(content, str) else content)
    return path


def read(path):
    with open(path, "rb") as f:
        return f.read()


def char_data(folder, text, name="data", **options):
    """Character tokenizer and data folder of `text`; returns the data folder."""
    source = write(os.path.join(folder, name + ".txt"), text)
    tokenizer, data = os.path.join(folder, name + "-tok"), os.path.join(folder, name)
    ok("tokenizer", "train", input=source, type="char", out=tokenizer)
    ok("data", input=source, tokenizer=tokenizer, out=data, **options)
    return data


TINY = dict(n_layer=2, n_head=2, n_embd=32, block_size=16, batch_size=8, max_steps=20,
            learning_rate=1e-3, eval_interval=0, save_interval=0, device="cpu", threads=2)


def tiny(**changes):
    return {**TINY, **changes}


# Run folders.

def step_dirs(run_dir):
    """Step folders by number, whatever state they are in."""
    base = os.path.join(run_dir, "checkpoints")
    names = os.listdir(base) if os.path.isdir(base) else []
    return {int(n[5:]): os.path.join(base, n) for n in sorted(names)
            if n.startswith("step-") and n[5:].isdigit()}


def manifest_problem(step_dir):
    """None when every file has the size and CRC-32 of MANIFEST, else what is wrong."""
    path = os.path.join(step_dir, "MANIFEST")
    if not os.path.exists(path):
        return "no MANIFEST"
    lines = read(path).decode().splitlines()
    if not lines or lines[0] != "lathe-manifest 1" or lines[-1] != "end":
        return "MANIFEST is not whole"
    for line in lines[1:-1]:
        crc, size, name = line.split(" ", 2)
        file = os.path.join(step_dir, name)
        if not os.path.exists(file):
            return f"{name} is missing"
        data = read(file)
        if len(data) != int(size):
            return f"{name} has {len(data)} bytes, MANIFEST says {size}"
        if zlib.crc32(data) != int(crc, 16):
            return f"{name}: checksum"
    return None


def fix_manifest(step_dir, name):
    """MANIFEST fits the file as it is now."""
    path = os.path.join(step_dir, "MANIFEST")
    data = read(os.path.join(step_dir, name))
    lines = read(path).decode().splitlines()
    fixed = [f"{zlib.crc32(data):08x} {len(data)} {name}" if line.endswith(" " + name) else line for line in lines]
    write(path, "\n".join(fixed) + "\n")


def complete_steps(run_dir):
    return [n for n, d in step_dirs(run_dir).items() if manifest_problem(d) is None]


def sha(path):
    return hashlib.sha256(read(path)).hexdigest()


def weights_sha(run_dir, step):
    dirs = step_dirs(run_dir)
    check(step in dirs, f"{run_dir} has no step {step}, only {sorted(dirs)}")
    return sha(os.path.join(dirs[step], "model.safetensors"))


def state_sha(run_dir, step):
    """Weights and optimizer state."""
    return weights_sha(run_dir, step), sha(os.path.join(step_dirs(run_dir)[step], "trainer.safetensors"))


def metrics(run_dir):
    """Objects of metrics.jsonl; an unfinished last line (a killed run) is left out."""
    path = os.path.join(run_dir, "metrics.jsonl")
    out = []
    for line in (read(path).decode().splitlines() if os.path.exists(path) else []):
        try:
            out.append(json.loads(line))
        except ValueError:
            pass
    return out


def losses(run_dir):
    """Training loss by step, counted from 1; a step that was done again counts the last time."""
    return {m["step"]: m["loss"] for m in metrics(run_dir) if m.get("kind") == "step"}


def evaluations(run_dir):
    return {m["step"]: m["loss"] for m in metrics(run_dir) if m.get("kind") == "eval"}


def wait_for_step(p, run_dir, step, timeout=120):
    """Until metrics.jsonl shows `step` (False: the program ended before)."""
    path, end = os.path.join(run_dir, "metrics.jsonl"), time.monotonic() + timeout
    while time.monotonic() < end:
        if p.poll() is not None:
            return False
        if os.path.exists(path) and losses(run_dir) and max(losses(run_dir)) >= step:
            return True
        time.sleep(0.002)
    raise Failed(f"no step {step} in {path} after {timeout} s")


def snapshot(folder):
    """Every file below `folder` with size and checksum."""
    out = {}
    for base, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(base, name)
            if os.path.isfile(path):
                out[os.path.relpath(path, folder)] = sha(path)
    return out


# safetensors, enough to damage one.

def safe_split(data):
    n = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + n]), data[8 + n:]


def safe_join(header, body):
    text = json.dumps(header, separators=(",", ":")).encode() if isinstance(header, dict) else header
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


# Running the tests of a script.

def main(tests):
    if not os.access(BIN, os.X_OK):
        print(f"SKIP: no program at {BIN}")
        return 77
    chosen = [t for t in tests if len(sys.argv) < 2 or any(a in t.__name__ for a in sys.argv[1:])]
    failed = 0
    root = tempfile.mkdtemp(prefix="lathe test ")  # with a space, on purpose
    os.chmod(root, 0o755)
    print(f"1..{len(chosen)}")
    for i, test in enumerate(chosen):
        folder = os.path.join(root, test.__name__)
        os.makedirs(folder)
        began = time.monotonic()
        try:
            test(folder)
            print(f"ok {i + 1} - {test.__name__}  # {time.monotonic() - began:.1f} s", flush=True)
        except Skipped as e:
            print(f"ok {i + 1} - {test.__name__} # SKIP {e}", flush=True)
        except (Failed, OSError, ValueError, KeyError, subprocess.SubprocessError) as e:
            failed += 1
            print(f"not ok {i + 1} - {test.__name__}", flush=True)
            text = str(e) if isinstance(e, Failed) else traceback.format_exc()
            print("\n".join("    " + line for line in text.splitlines()), flush=True)
        if not os.environ.get("LATHE_KEEP"):
            shutil.rmtree(folder, ignore_errors=True)
    if os.environ.get("LATHE_KEEP"):
        print(f"# kept {root}")
    else:
        shutil.rmtree(root, ignore_errors=True)
    return 1 if failed else 0


def kill9(p):
    p.send_signal(signal.SIGKILL)
    return finish(p)
