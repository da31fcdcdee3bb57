#!/usr/bin/env python3
"""precision.py -- does a model learn as well in bf16, fp16 and fp8 as in fp32?

    scripts/acceptance/precision.py [--lathe=build/lathe] [--text=FILE] [--work=DIR]
                                    [--seeds=1,2,3] [--policies=fp32,bf16,fp16,fp8,fp8-current]

Trains small-10m (10.6 million parameters without the embeddings; characters of a real text, 8 x 64
tokens a step, 1,000 steps) once for each policy and seed, evaluates every checkpoint on the same
tokens (the whole validation split), and compares the means over the seeds with those of fp32:
bf16 and fp16 within 0.02, fp8 within 0.03. fp8 is the delayed recipe, fp8-current the current one.
Loss curves are in metrics.jsonl of every run.

A run that is finished in DIR is not made again, so the comparison can be made in pieces. About half
an hour on two cores with AMX.

SPDX-License-Identifier: MIT
"""
import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
STEPS = 1000
POLICIES = {  # options, and how far the mean may be from fp32's
    "fp32": (["--precision=fp32"], 0.0),
    "bf16": (["--precision=bf16"], 0.02),
    "fp16": (["--precision=fp16"], 0.02),
    "fp8": (["--precision=fp8"], 0.03),
    "fp8-current": (["--precision=fp8", "--fp8.recipe=current"], 0.03),
}
SHAPE = ["--preset=small-10m", "--block_size=64", "--batch_size=8", f"--max_steps={STEPS}",
         "--eval_interval=250", "--save_interval=500", "--keep=1", "--log_interval=100",
         "--device=cpu"]


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def prepare(lathe, text, work):
    if not (work / "data" / "meta.json").exists():
        run([lathe, "tokenizer", "train", f"--input={text}", "--type=char", f"--out={work}/tok"])
        run([lathe, "data", f"--input={text}", f"--tokenizer={work}/tok", f"--out={work}/data",
             "--val_fraction=0.02"])


def one(lathe, work, policy, seed):
    """(validation loss, seconds) of one training, from DIR when it is there."""
    mark = work / f"{policy}-{seed}.loss"
    if not mark.exists():
        began = time.monotonic()
        folder = work / f"{policy}-{seed}"
        run([lathe, "train", *SHAPE, *POLICIES[policy][0], f"--seed={seed}", f"--data={work}/data",
             f"--run={folder}"])
        took = time.monotonic() - began
        out = run([lathe, "eval", f"--model={folder}", f"--data={work}/data", "--eval_batches=0",
                   "--device=cpu"])
        mark.write_text(f"{out.split()[1]} {took:.0f}\n")
    loss, took = mark.read_text().split()
    print(f"{policy:12s} seed {seed}: loss {loss}, {took} s", flush=True)
    return float(loss), float(took)


def main():
    p = argparse.ArgumentParser()
    shared = os.environ.get("LATHE_SHARED", str(ROOT.parent / "shared"))
    p.add_argument("--lathe", default=str(ROOT / "build" / "lathe"))
    p.add_argument("--text", default=shared + "/data/text/moby-dick.txt")
    p.add_argument("--work", default=str(ROOT / "runs" / "precision"))
    p.add_argument("--seeds", default="1,2,3")
    p.add_argument("--policies", default=",".join(POLICIES))
    a = p.parse_args()
    if not Path(a.text).is_file():
        print("SKIP: no text; --text=FILE names one")
        return 77
    work = Path(a.work)
    work.mkdir(parents=True, exist_ok=True)
    prepare(a.lathe, a.text, work)
    seeds, policies = a.seeds.split(","), a.policies.split(",")
    got = {x: [one(a.lathe, work, x, s) for s in seeds] for x in policies}
    if "fp32" not in got:
        return 0
    base = statistics.mean(loss for loss, _ in got["fp32"])
    ok = True
    print(f"\n{'policy':12s} {'mean loss':>10s} {'minus fp32':>11s} {'allowed':>8s}   each seed")
    for x in policies:
        losses = [loss for loss, _ in got[x]]
        off = statistics.mean(losses) - base
        good = abs(off) <= POLICIES[x][1]
        ok &= good
        each = " ".join(f"{v:.4f}" for v in losses)
        print(f"{x:12s} {statistics.mean(losses):10.4f} {off:+11.4f} {POLICIES[x][1]:8.2f}   {each}"
              f"{'' if good else '   TOO FAR'}")
    print("PASS" if ok else "FAIL")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
