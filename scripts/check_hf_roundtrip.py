#!/usr/bin/env python3
"""check_hf_roundtrip.py -- does transformers load what lathe wrote, with equal weights?

    python scripts/check_hf_roundtrip.py STEPDIR [STEPDIR ...]     step folders, or converted ones
    python scripts/check_hf_roundtrip.py --writer=PROGRAM          folders made by write_steps (tests)

For each folder: GPT2LMHeadModel.from_pretrained(STEPDIR) with no missing, unexpected or mismatched
keys; every weight equal, bit for bit, to what safetensors reads from the file; the dtype that
config.json names; finite logits; and save_pretrained of the loaded model gives the same tensors.
With --writer the weights are compared with the engine's own, names and orientation included.
Exit code 77 (skip) when torch, transformers or safetensors is not installed.

SPDX-License-Identifier: MIT
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
try:
    import torch
    from safetensors import safe_open
    from safetensors.torch import load_file
    from transformers import GPT2LMHeadModel
except ImportError as e:
    print(f"SKIP: {e}; needs: pip install torch transformers safetensors")
    sys.exit(77)

NAMES = {"embed.token.weight": "transformer.wte.weight",
         "embed.position.weight": "transformer.wpe.weight",
         "final.norm.weight": "transformer.ln_f.weight", "final.norm.bias": "transformer.ln_f.bias",
         "head.weight": "lm_head.weight"}
PARTS = {"norm1": "ln_1", "attn.qkv": "attn.c_attn", "attn.proj": "attn.c_proj", "norm2": "ln_2",
         "mlp.fc": "mlp.c_fc", "mlp.proj": "mlp.c_proj"}


def hf_name(engine):
    if engine in NAMES:
        return NAMES[engine]
    _, n, rest = engine.split(".", 2)
    part, kind = rest.rsplit(".", 1)
    return f"transformer.h.{n}.{PARTS[part]}.{kind}"


def tensors_of(folder):
    index = os.path.join(folder, "model.safetensors.index.json")
    files = ["model.safetensors"]
    if os.path.exists(index):
        files = sorted(set(json.load(open(index))["weight_map"].values()))
    found = {}
    for name in files:
        path = os.path.join(folder, name)
        with safe_open(path, "pt") as f:
            assert f.metadata() == {"format": "pt"}, f"{path}: metadata {f.metadata()}"
        found.update(load_file(path))
    return found


def check(folder):
    model, info = GPT2LMHeadModel.from_pretrained(folder, dtype="auto", output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        assert not info.get(kind), f"{folder}: {kind}: {info[kind]}"
    config = json.load(open(os.path.join(folder, "config.json")))
    assert config["dtype"] == config["torch_dtype"]
    assert model.dtype == getattr(torch, config["dtype"]), f"{folder}: dtype {model.dtype}"
    state, file = model.state_dict(), tensors_of(folder)
    for name, x in file.items():
        assert torch.equal(state[name], x), f"{folder}: {name} differs"
    tied = config["tie_word_embeddings"]
    assert ("lm_head.weight" in file) == (not tied)
    assert (model.lm_head.weight is model.transformer.wte.weight) == tied
    ids = torch.arange(min(8, config["n_positions"])).remainder(config["vocab_size"])[None]
    with torch.no_grad():
        assert torch.isfinite(model.eval()(ids).logits.float()).all(), f"{folder}: logits"
    with tempfile.TemporaryDirectory() as again:
        model.save_pretrained(again)
        theirs = tensors_of(again)
    assert theirs.keys() == file.keys(), f"{folder}: {theirs.keys() ^ file.keys()}"
    assert all(torch.equal(theirs[k], file[k]) for k in file)
    print(f"{folder}: {len(file)} tensors, {config['dtype']}, equal in transformers")
    return state, config


def check_against_engine(folder, expected):
    state, config = check(folder)
    dtype = getattr(torch, config["dtype"])
    seen = set()
    for engine, x in load_file(expected).items():
        name = hf_name(engine)
        if x.ndim == 2 and ".c_" in name:
            x = x.t()
        assert torch.equal(state[name], x.to(dtype)), f"{folder}: {engine} differs from {name}"
        seen.add(name)
    for name in state.keys() - seen - {"lm_head.weight"}:
        assert name.endswith(".bias") and config.get("bias") is False, f"{folder}: {name}?"
        assert not state[name].any(), f"{folder}: {name} is not zero"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--writer")
    p.add_argument("folders", nargs="*")
    args = p.parse_args()
    for folder in args.folders:
        check(folder)
    if args.writer:
        with tempfile.TemporaryDirectory() as d:
            subprocess.run([args.writer, d], check=True)
            names = sorted(os.listdir(d))
            assert len(names) == 5, names
            for n in names:
                check_against_engine(os.path.join(d, n, "checkpoints", "step-00000001"),
                                     os.path.join(d, n, "expected.safetensors"))
    if not args.folders and not args.writer:
        p.error("name a step folder")


if __name__ == "__main__":
    main()
