#!/usr/bin/env python3
"""bench_tokenizer.py -- speed and memory of the tokenizer, beside tiktoken's.

BUILD is a build folder (`cmake --build BUILD --target lathe tokenizer_bench` is done here). DATA
has gpt2/, tokenizer-vectors/cl100k_base.tiktoken and text/*.txt. Parts:

  speed    one core, MB/s: the texts of DATA, a large text with few repeats (source code and
           documentation found on this machine), random code points; with a --python that has
           tiktoken in turn with it, ids compared
  worst    one core, seconds: one word, spaces, one letter, emoji, at 1, 2, 4 and 10 MB; encoding
           with both vocabularies, and training
  train    `lathe tokenizer train` on 100 MB to 32,768 ids: seconds, peak memory
  threads  `lathe tokenizer encode` and `lathe data` of the large text with 1 thread and with more

Times of one core are the processor's, of more the clock's; each is the median of --rounds rounds,
and the spread is (largest - smallest) / median. MB are 10^6 bytes.

SPDX-License-Identifier: MIT
"""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

VOCABULARIES = {"gpt2": "gpt2", "cl100k": "tokenizer-vectors/cl100k_base.tiktoken"}
ROOTS = ["/usr/include", "/usr/share/doc", "/usr/share/perl", "/usr/lib/python3",
         "/usr/lib/python3.11"]

THEIRS = r'''
import array, inspect, re, sys, time, zlib
import tiktoken, tiktoken_ext.openai_public as public
from tiktoken.load import data_gym_to_mergeable_bpe_ranks, load_tiktoken_bpe
name, path, data, repeat = sys.argv[1:]
if name == "gpt2":
    pattern = public.r50k_pat_str
    ranks = data_gym_to_mergeable_bpe_ranks(data + "/gpt2/vocab.bpe", data + "/gpt2/encoder.json")
else:
    pattern = re.search(r'r"""(.*?)"""', inspect.getsource(public.cl100k_base)).group(1)
    ranks = load_tiktoken_bpe(data + "/tokenizer-vectors/cl100k_base.tiktoken")
encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
text = open(path, "rb").read().decode()
best = 1e30
for _ in range(int(repeat)):
    start = time.process_time()
    ids = encoding.encode_ordinary(text)
    best = min(best, time.process_time() - start)
crc = zlib.crc32(array.array("i", ids).tobytes())
print('{"seconds": %.6f, "ids": %d, "crc": %d}' % (best, len(ids), crc))
'''


def fail(text):
    sys.exit("bench_tokenizer: " + text)


def pinned(command, core):
    return ["taskset", "-c", str(core)] + command if shutil.which("taskset") else command


def run_json(command):
    r = subprocess.run(command, capture_output=True, text=True)
    if r.returncode != 0:
        fail(" ".join(command) + ": " + r.stderr.strip())
    return json.loads(r.stdout)


def run_timed(command):
    """Seconds by the clock, seconds of the processor, peak memory in MB."""
    start = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak, pid = 0, 0
    while pid == 0:  # what wait4 says of memory would include ours, from before the exec
        try:
            with open(f"/proc/{child.pid}/status") as f:
                peak = max([peak] + [int(l.split()[1]) for l in f if l.startswith("VmHWM")])
        except OSError:
            pass
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        time.sleep(0.002)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        fail(" ".join(command) + " failed")
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime, peak * 1024 / 1e6


def spread(values):
    return (max(values) - min(values)) / statistics.median(values)


def sources(roots):
    """Every different text file below `roots`, in a fixed order."""
    seen = set()
    for root in roots:
        for folder, folders, names in os.walk(root):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(folder, name)
                if os.path.islink(path) or not os.path.isfile(path):
                    continue
                try:
                    with open(path, "rb") as f:
                        text = f.read()
                    text.decode()
                except (OSError, UnicodeDecodeError):
                    continue
                if b"\0" not in text and text not in seen:
                    seen.add(text)
                    yield text


def make_large(roots, path, size):
    """`size` bytes: 64 KiB blocks of all sources at regular distances, cut at lines."""
    everything = b"".join(sources(roots))
    step = max(1, len(everything) // size)
    blocks, at, number, total = [], 0, 0, 0
    while at < len(everything) and total < size:
        to = everything.find(b"\n", at + 65536) + 1 or len(everything)
        if number % step == 0:
            blocks.append(everything[at:to])
            total += to - at
        at, number = to, number + 1
    with open(path, "wb") as f:
        f.write(b"".join(blocks))
    return total


def write(path, text):
    with open(path, "wb") as f:
        f.write(text.encode() if isinstance(text, str) else text)
    return path


def random_code_points(n):
    rng = random.Random(1)
    points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    return "".join(chr(rng.choice(points)) for _ in range(n))


def worst_text(kind, size):
    rng = random.Random(2)
    if kind == "one word":
        return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=size))
    if kind == "spaces":
        return " " * size
    if kind == "one letter":
        return "a" * size
    return "".join(chr(0x1F600 + rng.randrange(80)) for _ in range(size // 4))


class Bench:
    def __init__(self, o):
        self.o, self.result = o, {"speed": [], "worst": [], "train": [], "threads": []}
        self.bench = os.path.join(o.build, "tests/tokenizer/tokenizer_bench")
        self.lathe = os.path.join(o.build, "lathe")
        self.scratch = tempfile.mkdtemp(prefix="bench-tokenizer-")
        self.theirs = write(self.file("theirs.py"), THEIRS)

    def file(self, name):
        return os.path.join(self.scratch, name)

    def vocabulary(self, name):
        return os.path.join(self.o.data, VOCABULARIES[name])

    def large(self, size):
        path = self.file(f"large-{size}.txt")
        if not os.path.exists(path):
            make_large(self.o.roots.split(":"), path, size)
        return path

    def row(self, part, **values):
        self.result[part].append(values)
        if not self.o.json:
            print("  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{v}" if isinstance(v, str)
                            else f"{k} {v}" for k, v in values.items()), flush=True)

    def speed(self):
        texts = sorted(os.path.join(self.o.data, "text", n)
                       for n in os.listdir(os.path.join(self.o.data, "text")))
        texts.append(self.large(self.o.large_mb * 10**6))
        texts.append(write(self.file("random-code-points.txt"), random_code_points(300000)))
        for name in VOCABULARIES:
            for path in texts:
                size = os.path.getsize(path)
                repeat = str(max(1, min(9, 8 * 10**6 // size)))
                ours, theirs = [], []
                for _ in range(self.o.rounds):
                    ours.append(run_json(pinned([self.bench, "encode", self.vocabulary(name), path,
                                                 "1", repeat], self.o.core)))
                    if self.o.python:
                        theirs.append(run_json(pinned([self.o.python, self.theirs, name, path,
                                                       self.o.data, repeat], self.o.core)))
                a = [r["seconds"] for r in ours]
                row = {"text": f"{name:7}{os.path.basename(path):24}", "MB": size / 1e6,
                       "lathe_MB_s": size / 1e6 / statistics.median(a), "spread": spread(a)}
                if theirs:
                    b = [r["seconds"] for r in theirs]
                    row.update({"tiktoken_MB_s": size / 1e6 / statistics.median(b),
                                "its_spread": spread(b),
                                "ratio": statistics.median(b) / statistics.median(a),
                                "ids": "same ids" if ours[0]["crc"] == theirs[0]["crc"]
                                       else "OTHER IDS"})
                self.row("speed", **row)

    def worst(self):
        for kind in ["one word", "spaces", "one letter", "emoji"]:
            sizes = [1, 2, 4, 10]
            paths = [write(self.file(f"worst{mb}"), worst_text(kind, mb * 10**6)) for mb in sizes]
            for what in list(VOCABULARIES) + ["train"]:
                row = {"text": f"{kind:11}{'encode ' + what if what != 'train' else what:15}"}
                for mb, path in zip(sizes, paths):
                    command = ([self.bench, "train", "4096", path] if what == "train" else
                               [self.bench, "encode", self.vocabulary(what), path]) + ["1", "1"]
                    row[f"{mb}MB_s"] = run_json(pinned(command, self.o.core))["seconds"]
                row["10_over_1"] = row["10MB_s"] / max(row["1MB_s"], 1e-6)
                self.row("worst", **row)

    def train(self):
        path = self.large(self.o.train_mb * 10**6)
        for threads in sorted({1, self.o.threads}):
            runs = []
            for _ in range(self.o.rounds):
                shutil.rmtree(self.file("trained"), ignore_errors=True)
                command = [self.lathe, "tokenizer", "train", "--input=" + path,
                           "--vocab_size=32768", f"--threads={threads}",
                           "--out=" + self.file("trained")]
                runs.append(run_timed(pinned(command, self.o.core) if threads == 1 else command))
            self.row("train", text=f"{os.path.getsize(path) / 1e6:.1f} MB to 32768 ids",
                     threads=threads, seconds=statistics.median(r[0] for r in runs),
                     processor_seconds=statistics.median(r[1] for r in runs),
                     peak_MB=max(r[2] for r in runs))

    def threads(self):
        path = self.large(self.o.large_mb * 10**6)
        size = os.path.getsize(path) / 1e6
        lines = self.file("lines.jsonl")
        with open(path, "rb") as f, open(lines, "w") as out:
            text = f.read().decode()
            for at in range(0, len(text), 2000):
                out.write(json.dumps({"text": text[at:at + 2000]}) + "\n")
        for name in VOCABULARIES:
            for what, command in [
                    ("encode", [self.lathe, "tokenizer", "encode", path]),
                    ("data, one text", [self.lathe, "data", "--input=" + path]),
                    ("data, documents of 2 kB", [self.lathe, "data", "--input=" + lines])]:
                seconds = {1: [], self.o.threads: []}
                for _ in range(self.o.rounds):
                    for threads in seconds:
                        out = self.file("data")
                        shutil.rmtree(out, ignore_errors=True)
                        more = ["--tokenizer=" + self.vocabulary(name), f"--threads={threads}"]
                        more += ["--out=" + out] if command[1] == "data" else []
                        seconds[threads].append(run_timed(command + more)[0])
                one, many = (statistics.median(seconds[t]) for t in seconds)
                self.row("threads", text=f"{name:7}{what:24}", MB=size, one_s=one,
                         **{f"with_{self.o.threads}_s": many, "gain": one / many})


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("data")
    p.add_argument("--python", help="a Python with tiktoken")
    p.add_argument("--only", default="speed,worst,train,threads", help="parts, with commas")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=2, help="the larger number of threads")
    p.add_argument("--core", type=int, default=0, help="where one core is measured")
    p.add_argument("--roots", default=":".join(ROOTS), help="folders with text, with colons")
    p.add_argument("--large_mb", type=int, default=40, help="size of the large text")
    p.add_argument("--train_mb", type=int, default=100, help="size of the text to train on")
    p.add_argument("--json", action="store_true", help="one JSON object and no table")
    o = p.parse_args()
    subprocess.run(["cmake", "--build", o.build, "--target", "lathe", "tokenizer_bench"],
                   stdout=subprocess.DEVNULL, check=True)
    b = Bench(o)
    try:
        for part in o.only.split(","):
            if part not in b.result:
                fail(f"there is no part {part}")
            if not o.json:
                print("--", part)
            getattr(b, part)()
    finally:
        shutil.rmtree(b.scratch)
    if o.json:
        print(json.dumps(b.result, indent=1))
    if any(r.get("ids") == "OTHER IDS" for r in b.result["speed"]):
        fail("the ids are not tiktoken's")


if __name__ == "__main__":
    main()
