#!/usr/bin/env python3
"""bench_gemm.py -- our matrix products against torch.mm (MKL, oneDNN), in turn on this machine.

    PYTHON scripts/bench_gemm.py [--lathe=build/lathe] [--rounds=3] [--threads=N] [--shape=NAME] [--json=FILE]

PYTHON has PyTorch. A round is, for each shape, `lathe bench matmul --json` and then the same products
in torch.mm: every product of a training step, forward, dX and dW, f32 and bf16. Ours have their bias,
GELU and GELU' in the product, torch.mm is the product alone into a tensor that exists; our dW is f32,
torch's bf16 in bf16. Both time calls on the same tensors for 0.1 s. A figure is the median of a round,
then the median of the rounds; the last lines are whole steps, every product as often as a step has it.

SPDX-License-Identifier: MIT
"""
import argparse
import json
import os
import statistics
import subprocess
import time

import torch

SHAPES = ("124m-4x64", "124m-2x1024", "char-12x256", "char-cpu-12x64")


def torch_seconds(row):
    """torch.mm of the product of a row: operands laid out as ours are."""
    m, n, k = row["m"], row["n"], row["k"]
    dtype = torch.float32 if row["dtype"] == "f32" else torch.bfloat16
    words = row["case"].split()
    if "dw" in words:  # dy^T x
        a, b = torch.randn(k, m).to(dtype).t(), torch.randn(k, n).to(dtype)
    elif "dx" in words:  # dy W
        a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    else:  # x W^T
        a, b = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype).t()
    out = torch.mm(a, b)  # allocated once, as ours is
    times, now = [], time.perf_counter()
    end = now + 0.1
    while len(times) < 5 or now < end:
        began = now
        torch.mm(a, b, out=out)
        now = time.perf_counter()
        times.append(now - began)
    return statistics.median(times)


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    p = argparse.ArgumentParser()
    p.add_argument("--lathe", default=os.path.join(root, "build", "lathe"))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--shape", choices=SHAPES, help="only this one")
    p.add_argument("--json")
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    ours, theirs, rows, isa = {}, {}, {}, ""
    for _ in range(args.rounds):
        for shape in [args.shape] if args.shape else SHAPES:
            out = subprocess.run([args.lathe, "bench", "matmul", "--json", f"--shape={shape}",
                                  f"--threads={args.threads}"], stdout=subprocess.PIPE, check=True).stdout
            said = json.loads(out)
            isa = said["isa"]
            for row in said["rows"]:
                key = shape, row["case"], row["dtype"]
                rows[key] = row
                ours.setdefault(key, []).append(row["seconds"])
                theirs.setdefault(key, []).append(torch_seconds(row))
    print(f"{isa}, {args.threads} threads, torch {torch.__version__}\n")
    print(f"{'shape':15} {'case':15} {'type':5} {'GFLOP/s':>8} {'torch':>8} {'ratio':>6}")
    result, sums = [], {}

    def put(shape, case, dtype, a, b, flops):
        print(f"{shape:15} {case:15} {dtype:5} {1e-9 * flops / a:8.0f} {1e-9 * flops / b:8.0f} {b / a:6.2f}")
        result.append({"shape": shape, "case": case, "dtype": dtype, "seconds": a, "torch_seconds": b})

    for key, row in rows.items():
        shape, case, dtype = key
        a, b = statistics.median(ours[key]), statistics.median(theirs[key])
        flops = 2.0 * row["m"] * row["n"] * row["k"]
        put(shape, case, dtype, a, b, flops)
        total = sums.setdefault((shape, dtype), [0, 0, 0])
        for i, v in enumerate((a, b, flops)):
            total[i] += row["calls_per_step"] * v
    for (shape, dtype), (a, b, flops) in sums.items():
        put(shape, "a step", dtype, a, b, flops)
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"isa": isa, "threads": args.threads, "torch": torch.__version__, "rows": result}, f, indent=1)


if __name__ == "__main__":
    main()
