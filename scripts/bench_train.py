#!/usr/bin/env python3
"""bench_train.py -- `lathe train` against PyTorch on this machine, in one run.

    scripts/bench_train.sh [--python=PYTHON] [--lathe=build/lathe] [--shape=NAME] [--dtype=fp32|bf16]
                           [--threads=N] [--rounds=3] [--out=bench_train.json] [--max_seconds=S] [--table]

Four shapes: GPT-2 124M with 4 x 64 and 2 x 1024 tokens a step, nanoGPT's character model (6 layers,
12 x 256) and its small one for CPUs (4 layers, 12 x 64); float32 and bf16 (autocast in PyTorch).
Random tokens, random weights, AdamW, clipping. Both read the same numbers of tokens.

PyTorch is measured as installed and with the best of its settings. Which is best is tried once for
each shape and type: fused AdamW; the same with threads bound and a malloc that keeps its pages; the
same with torch.compile. Then come the rounds: lathe, PyTorch's best, PyTorch as installed, one after
the other and never two at a time. A ratio is the median of the rounds' ratios, with the smallest and
largest behind it. A round's figure is the median over its steps.

Without --python only lathe is measured. Every result goes to the file --out at once, and a call does
what the file lacks: with --max_seconds it stops before a measurement that would take longer, and is
called again. --table prints what there is and measures nothing.

SPDX-License-Identifier: MIT
"""
import argparse
import array
import datetime
import json
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

# name: (bench_torch.py's shape, vocabulary, batch, tokens, steps to warm up, steps, lathe's options)
CHAR = ["--bias=true", "--dropout=0", "--vocab_size=65", "--beta2=0.95"]
SHAPES = {
    "124m-4x64": ("124m", 50257, 4, 64, 2, 8, ["--preset=gpt2"]),
    "124m-2x1024": ("124m", 50257, 2, 1024, 1, 3, ["--preset=gpt2"]),
    "char-12x256": ("char", 65, 12, 256, 2, 8, ["--preset=shakespeare-char"] + CHAR),
    "char-cpu-12x64": ("char-cpu", 65, 12, 64, 20, 150, ["--preset=shakespeare-char-cpu"] + CHAR),
}
DTYPES = ("fp32", "bf16")

BIND = {"OMP_PROC_BIND": "true",
        "GLIBC_TUNABLES": "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=8589934592:"
                          "glibc.malloc.top_pad=268435456"}
SETTINGS = {  # of PyTorch: flags of bench_torch.py, environment
    "installed": ([], {}),
    "fused": (["--fused"], {}),
    "fused+bind+malloc": (["--fused"], BIND),
    "fused+bind+malloc+compile": (["--fused", "--compile"], BIND),
}


def fail(text):
    sys.exit(f"bench_train: {text}")


def cpu_model():
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


class Bench:
    def __init__(self, args):
        self.args, self.began, self.measured = args, time.monotonic(), False
        self.data = {"rows": []}
        if os.path.exists(args.out):
            with open(args.out) as f:
                self.data = json.load(f)
        self.data.setdefault("cpu", cpu_model())
        self.data.setdefault("threads", args.threads)
        if self.data["threads"] != args.threads or self.data["cpu"] != cpu_model():
            fail(f"{args.out} is of another machine or number of threads")

    def keep(self, **row):
        self.data["rows"].append(row)
        self.data["date"] = datetime.date.today().isoformat()
        with open(self.args.out + ".tmp", "w") as f:
            json.dump(self.data, f, indent=1)
            f.write("\n")
        os.replace(self.args.out + ".tmp", self.args.out)
        print(f"{row['shape']} {row['dtype']} {row['phase']} {row['who']}: {row['tok_s']:.0f} tok/s",
              flush=True)

    def rows(self, **want):
        return [r for r in self.data["rows"] if all(r[k] == v for k, v in want.items())]

    def time_for(self, seconds):
        """Is there time for a measurement that takes so long?"""
        limit = self.args.max_seconds  # the first of a call is always taken, or no call would get on
        return not limit or not self.measured or time.monotonic() - self.began + seconds < limit

    def ours(self, shape, dtype):
        _, vocab, batch, tokens, warm, steps, options = SHAPES[shape]
        with tempfile.TemporaryDirectory() as work:
            rng = random.Random(1)
            for name, n in (("train", 200000), ("val", 5000)):  # headerless ids, as nanoGPT writes them
                with open(f"{work}/{name}.bin", "wb") as f:
                    array.array("H", [rng.randrange(vocab) for _ in range(n)]).tofile(f)
            p = subprocess.run(
                [self.args.lathe, "train", f"--data={work}", f"--run={work}/run", *options,
                 f"--block_size={tokens}", f"--batch_size={batch}", f"--max_steps={warm + steps}",
                 f"--precision={dtype}", f"--threads={self.args.threads}", "--device=cpu",
                 "--eval_interval=0", "--save_interval=0", "--log_interval=0", "--warmup_steps=0"],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if p.returncode:
                fail(p.stdout)
            found = re.search(r"kernels +(.*)", p.stdout)
            self.data.setdefault("lathe_kernels", {})[dtype] = found.group(1) if found else "?"
            with open(f"{work}/run/metrics.jsonl") as f:
                rows = [json.loads(line) for line in f]
        times = [r["seconds"] for r in rows if r["kind"] == "step" and r["step"] > warm]
        return batch * tokens / statistics.median(times)

    def theirs(self, shape, dtype, setting):
        name, _, batch, tokens, warm, steps, _ = SHAPES[shape]
        flags, environment = SETTINGS[setting]
        p = subprocess.run(
            [self.args.python, os.path.join(ROOT, "scripts", "bench_torch.py"), f"--shape={name}",
             f"--batch={batch}", f"--tokens={tokens}", f"--dtype={dtype}", f"--steps={steps}",
             f"--warmup={warm}", f"--threads={self.args.threads}", *flags],
            env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        found = re.search(r"^torch (\S+) .* tok/s ([0-9.]+)", p.stdout, re.M)
        if p.returncode or not found:
            fail(p.stdout)
        self.data["torch"] = found.group(1)
        return float(found.group(2))

    def measure(self, who, shape, dtype, phase):
        began, self.measured = time.monotonic(), True
        rate = self.ours(shape, dtype) if who == "lathe" else self.theirs(shape, dtype, who)
        self.keep(shape=shape, dtype=dtype, phase=phase, who=who, tok_s=rate, took=time.monotonic() - began)

    def best(self, shape, dtype):
        return max(self.rows(shape=shape, dtype=dtype, phase="try"), key=lambda r: r["tok_s"])["who"]

    def run(self, shape, dtype):
        """False: no time for all of it."""
        for setting in SETTINGS if self.args.python else []:
            if self.rows(shape=shape, dtype=dtype, phase="try", who=setting):
                continue
            tried = self.rows(shape=shape, dtype=dtype, phase="try")
            if tried and not self.time_for(1.2 * max(r["took"] for r in tried)):
                return False
            self.measure(setting, shape, dtype, "try")
        who = ["lathe"]
        if self.args.python:
            who += [self.best(shape, dtype)] + ["installed"] * (self.best(shape, dtype) != "installed")
        for k in range(1, self.args.rounds + 1):
            have = {r["who"] for r in self.rows(shape=shape, dtype=dtype, phase=k)}
            if have >= set(who):
                continue
            took = {w: [r["took"] for r in self.rows(shape=shape, dtype=dtype, who=w)] for w in who}
            guess = sum(max(seconds or [20]) for seconds in took.values())
            if not self.time_for(guess):
                return False
            self.data["rows"] = [r for r in self.data["rows"]  # a round that was cut off begins again
                                 if (r["shape"], r["dtype"], r["phase"]) != (shape, dtype, k)]
            for w in who:
                self.measure(w, shape, dtype, k)
        return True

    def of_round(self, shape, dtype, who):
        return {r["phase"]: r["tok_s"] for r in self.rows(shape=shape, dtype=dtype, who=who)
                if r["phase"] != "try"}

    def table(self):
        def ratio(a, b):
            both = [a[k] / b[k] for k in a if k in b]
            return f"{statistics.median(both):.2f} ({min(both):.2f}-{max(both):.2f})" if both else "-"

        def rate(a):
            return f"{statistics.median(a.values()):.0f}" if a else "-"

        d = self.data
        print(f"\n{d['cpu']}, {d['threads']} threads, {d.get('date', '')}; {version(self.args.lathe)}; "
              f"torch {d.get('torch', '-')}")
        for dtype, kernels in d.get("lathe_kernels", {}).items():
            print(f"lathe {dtype}: {kernels}")
        print("\n| shape | type | lathe tok/s | PyTorch, best of its settings | as installed "
              "| ratio to the best | ratio to installed |")
        print("|---|---|---|---|---|---|---|")
        for shape in SHAPES:
            for dtype in DTYPES:
                own = self.of_round(shape, dtype, "lathe")
                if not own:
                    continue
                tried = self.rows(shape=shape, dtype=dtype, phase="try")
                name = self.best(shape, dtype) if tried else "-"
                best, stock = (self.of_round(shape, dtype, w) for w in (name, "installed"))
                print(f"| {shape} | {dtype} | {rate(own)} | {rate(best)} ({name}) | {rate(stock)} | "
                      f"{ratio(own, best)} | {ratio(own, stock)} |")


def version(lathe):
    said = subprocess.run([lathe, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return ", ".join(said.splitlines()[:2])


def main():
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return
    p = argparse.ArgumentParser(add_help=False)
    p.add_argument("--python", default="")
    p.add_argument("--lathe", default=os.path.join(ROOT, "build", "lathe"))
    p.add_argument("--shape", choices=sorted(SHAPES))
    p.add_argument("--dtype", choices=DTYPES)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--out", default="bench_train.json")
    p.add_argument("--max_seconds", type=float, default=0)
    p.add_argument("--table", action="store_true")
    args = p.parse_args()
    bench = Bench(args)
    if not args.table:
        for shape in [args.shape] if args.shape else SHAPES:
            for dtype in [args.dtype] if args.dtype else DTYPES:
                if not bench.run(shape, dtype):
                    print("stopped at max_seconds; call again for the rest")
                    sys.exit(3)
    bench.table()


if __name__ == "__main__":
    main()
