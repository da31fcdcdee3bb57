#!/usr/bin/env python3
"""plan.py -- `lathe plan`: parameters and memory of models nobody could allocate here, and that the
memory of a small run is what its plan said.

SPDX-License-Identifier: MIT
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import check, main, ok


def gpt_parameters(layers, width, vocab=50257, positions=1024):
    block = 12 * width * width + 13 * width
    return layers * block + (vocab + positions) * width + 2 * width


def plan(**options):
    return json.loads(ok("plan", json="true", **options).out)


def test_presets_have_the_parameters_of_gpt2(folder):
    for preset, layers, width, known in (("gpt2", 12, 768, 124439808), ("gpt2-medium", 24, 1024, 354823168),
                                         ("gpt2-large", 36, 1280, 774030080), ("gpt2-xl", 48, 1600, 1557611200)):
        got = plan(preset=preset)["parameters"]
        check(got == gpt_parameters(layers, width) == known, f"{preset}: {got}, known {known}")
    check("124439808" in ok("plan", preset="gpt2").out.replace(",", ""), "in the text, too")


def test_175b_does_not_overflow(folder):
    p = plan(n_layer=96, n_head=96, n_embd=12288, block_size=2048, batch_size=32, batch_tokens=32 * 2048 * 16)
    want = gpt_parameters(96, 12288, positions=2048)
    check(p["parameters"] == want, f"{p['parameters']}, want {want}")
    check(16 * want < p["memory_bytes"] < 2**50, f"memory {p['memory_bytes']}")
    check(6 * want < p["flops_a_token"] < 8 * want, f"FLOPs a token {p['flops_a_token']}")
    check(sum(p["memory"].values()) == p["memory_bytes"], "the parts are the whole")


def test_what_takes_memory(folder):
    base = plan(preset="gpt2", batch_size=4, block_size=64)
    for name, options, less in (("recompute", dict(recompute="true"), True),
                                ("no snapshot", dict(save_async="false"), True),
                                ("larger batch", dict(batch_size=8), False),
                                ("longer context", dict(block_size=128), False)):
        other = plan(**{**dict(preset="gpt2", batch_size=4, block_size=64), **options})
        check((other["memory_bytes"] < base["memory_bytes"]) == less,
              f"{name}: {other['memory_bytes']} against {base['memory_bytes']}")
    split = plan(preset="gpt2", batch_size=4, block_size=64, batch_tokens=4096)
    check(split["micro_batches"] == 16 and split["tokens_a_step"] == 4096, f"{split}")


def test_lamb_takes_a_table_and_two_sweeps_more(folder):
    adamw, lamb = (plan(preset="gpt2", batch_size=4, block_size=64, optimizer=o) for o in ("adamw", "lamb"))
    check((adamw["optimizer"], lamb["optimizer"]) == ("adamw", "lamb"), "which one")
    tensors = 2 + 12 * (12 + 4) + 2  # q, k and v are three, twice a layer
    check(lamb["memory"]["table of tensors"] >= 32 * tensors, f"{lamb['memory']}")
    check(0 < lamb["memory_bytes"] - adamw["memory_bytes"] < 2**20, "moments are AdamW's")
    check("LAMB" in ok("plan", preset="gpt2", optimizer="lamb").out, "in the text, too")


if __name__ == "__main__":
    sys.exit(main([v for k, v in list(globals().items()) if k.startswith("test_")]))
