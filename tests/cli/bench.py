#!/usr/bin/env python3
"""bench.py -- lathe bench: a row for every op of `lathe ops` in f32 and bf16, numbers that make sense,
and clear refusals.

SPDX-License-Identifier: MIT
"""
import json
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import check, main, ok, run  # noqa: E402

SMALL = dict(shape="char-cpu-12x64", threads=2)
LINEARS = ("qkv", "proj", "fc", "mlp", "head")
NUMBERS = ("seconds", "fastest_seconds", "times", "gb_per_s", "percent", "working_set_mb")


def positive(x):
    return isinstance(x, (int, float)) and math.isfinite(x) and x > 0


def ops():
    lines = ok("ops").out.split("\n\n", 1)[1].splitlines()[1:]
    return {line.split()[0] for line in lines}


def test_every_op_has_a_row_in_f32_and_bf16(folder):
    said = json.loads(ok("bench", json="true", **SMALL).out)
    once = {"fp8_update"}  # uses up its input, so that it cannot be timed
    want = {(op, dtype) for op in ops() - once for dtype in ("f32", "bf16")}
    have = {(row["op"], row["dtype"]) for row in said["rows"]}
    check(len(want) >= 26 and have == want, f"rows of {sorted(have ^ want)} differ from `lathe ops`")
    for row in said["rows"]:
        wrong = [k for k in NUMBERS if not positive(row[k])]
        check(not wrong, f"{wrong} of {row}")
        check(row["fastest_seconds"] <= row["seconds"] and row["impl"], f"{row}")
        check(row["where"] in ("in L2", "in L3", "memory"), f"{row}")
    for k in ("memory_gb_per_s", "read_gb_per_s", "memory_array_mb", "l2_mb", "llc_mb"):
        check(positive(said[k]), f"{k}: {said[k]}")
    check(said["isa"] in said["peak_gflops"] and all(map(positive, said["peak_gflops"].values())),
          f"{said['peak_gflops']}")
    check(said["memory_array_mb"] > 1.9 * said["llc_mb"], "the memory test fits the cache")


def test_a_matmul_row_counts_its_products(folder):
    said = json.loads(ok("bench", "matmul", json="true", **SMALL).out)
    names = {row["case"] for row in said["rows"]}
    for layer in LINEARS:
        kinds = [n.split()[1] if len(n.split()) > 1 else "" for n in names if n.split()[0] == layer]
        check(len(kinds) == 3 and {"dx", "dw"} < set(kinds), f"{layer}: {kinds}")
    for row in said["rows"]:
        flops = 2.0 * row["m"] * row["n"] * row["k"]
        check(abs(row["gflops"] * row["seconds"] * 1e9 / flops - 1) < 1e-3, f"{row}")
        peak = said["peak_gflops"].get(row["impl"])
        check(peak is None or abs(row["percent"] - 100 * row["gflops"] / peak) < 0.01 * row["percent"],
              f"{row}, peak {peak}")
        check(row["calls_per_step"] == (1 if row["case"].startswith("head") else 4), f"{row}")


def test_one_op_alone_on_another_implementation(folder):
    r = ok("bench", "layernorm_fwd", ops__layernorm_fwd="ref", **SMALL)
    rows = [line.split() for line in r.out.split("\n\n", 1)[1].splitlines()[1:]]
    check(len(rows) == 4 and all(w[0] == "layernorm_fwd" and "ref" in w for w in rows), "its rows only", r)


def test_what_bench_cannot_do_is_refused(folder):
    for args, options, word in ((("matmull",), {}, "nearest: matmul"), (("matmul", "adamw"), {}, "adamw"),
                                ((), dict(shape="gpt3"), "char-12x256"), ((), dict(max_steps=3), "max_steps"),
                                ((), dict(ops__matmul="none_of_it"), "none_of_it")):
        r = run("bench", *args, **options)
        check(r.code == 2 and word in r.err and not r.out, f"{args} {options}", r)


if __name__ == "__main__":
    sys.exit(main([test_every_op_has_a_row_in_f32_and_bf16, test_a_matmul_row_counts_its_products,
                   test_one_op_alone_on_another_implementation, test_what_bench_cannot_do_is_refused]))
