#!/usr/bin/env python3
"""bench_gemm.py -- our matrix products against torch.mm (MKL, oneDNN), in turn on this machine.

    PYTHON scripts/bench_gemm.py [--lathe=build/lathe] [--rounds=3] [--threads=N] [--json=FILE]

PYTHON has PyTorch. A round is `lathe bench matmul --json` and then the same products in torch.mm: all
of a GPT-2 124M step (256 and 2048 rows) and of a small character model, forward, dX and dW, f32 and
bf16. Ours have their bias, GELU and GELU' in the product, torch.mm is the product alone; our dW is
f32, torch's bf16 in bf16. A figure is the best time of a round, then the median of the rounds; the
last lines are whole steps, every product as often as a step has it.

SPDX-License-Identifier: MIT
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import torch

# name in `lathe bench`: rows of a product, width, logits, layers
MODELS = {"124M 4x64": (256, 768, 50304, 12), "124M 2x1024": (2048, 768, 50304, 12), "char 12x64": (768, 128, 128, 4)}
HEAD_ROWS = 256


def products(case):
    """(M, N, K, times a step) of the forward product, and its kind, from a case's name."""
    for name, (rows, width, vocab, layers) in MODELS.items():
        if case.startswith(name + " "):
            words = case[len(name) + 1:].split()
            out, inner = {"qkv": (3 * width, width), "proj": (width, width), "fc": (4 * width, width),
                          "fc2": (width, 4 * width), "head": (vocab, width)}[words[0]]
            many = layers if words[0] != "head" else max(1, rows // HEAD_ROWS)
            kind = "dx" if "dx" in words else "dw" if "dw" in words else "fwd"
            return name, (min(rows, HEAD_ROWS) if words[0] == "head" else rows, out, inner), kind, many
    sys.exit(f"bench_gemm: unknown case {case}")


def torch_seconds(shape, kind, dtype):
    m, n, k = shape
    x, w, y = (torch.randn(a, b).to(dtype) for a, b in ((m, k), (n, k), (m, n)))
    a, b = {"fwd": (x, w.t()), "dx": (y, w), "dw": (y.t(), x)}[kind]
    out = torch.mm(a, b)  # allocated once, as ours is

    def call():
        torch.mm(a, b, out=out)

    best, end, runs = 1e9, time.perf_counter() + 0.08, 0
    while runs < 3 or time.perf_counter() < end:
        began = time.perf_counter()
        call()
        best, runs = min(best, time.perf_counter() - began), runs + 1
    return best


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    p = argparse.ArgumentParser()
    p.add_argument("--lathe", default=os.path.join(root, "build", "lathe"))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--json")
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    ours, theirs, isa = {}, {}, ""
    for _ in range(args.rounds):
        out = subprocess.run([args.lathe, "bench", "matmul", "--json", f"--threads={args.threads}"],
                             stdout=subprocess.PIPE, check=True).stdout
        said = json.loads(out)
        isa = said["isa"]
        for row in said["rows"]:
            key = row["case"], row["dtype"]
            ours.setdefault(key, []).append(row["seconds"])
            _, shape, kind, _ = products(row["case"])
            dtype = torch.float32 if row["dtype"] == "f32" else torch.bfloat16
            theirs.setdefault(key, []).append(torch_seconds(shape, kind, dtype))
    print(f"{isa}, {args.threads} threads, torch {torch.__version__}\n")
    print(f"{'case':30} {'type':5} {'GFLOP/s':>8} {'torch':>8} {'ratio':>6}")
    rows, sums = [], {}
    for (case, dtype), seconds in ours.items():
        name, (m, n, k), _, many = products(case)
        a, b = statistics.median(seconds), statistics.median(theirs[case, dtype])
        total = sums.setdefault((name, dtype), [0, 0, 0])
        for i, v in enumerate((a, b, 2e-9 * m * n * k)):
            total[i] += many * v
        rows.append({"case": case, "dtype": dtype, "seconds": a, "torch_seconds": b})
        print(f"{case:30} {dtype:5} {2e-9 * m * n * k / a:8.0f} {2e-9 * m * n * k / b:8.0f} {b / a:6.2f}")
    for (name, dtype), (a, b, flops) in sums.items():
        print(f"{name + ', a step':30} {dtype:5} {flops / a:8.0f} {flops / b:8.0f} {b / a:6.2f}")
        rows.append({"case": name + ", a step", "dtype": dtype, "seconds": a, "torch_seconds": b})
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"isa": isa, "threads": args.threads, "torch": torch.__version__, "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()
