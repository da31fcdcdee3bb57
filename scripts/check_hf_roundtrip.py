#!/usr/bin/env python3
"""check_hf_roundtrip.py -- does transformers load what lathe wrote, with equal weights?

    python scripts/check_hf_roundtrip.py STEPDIR [STEPDIR ...]     step folders, or converted ones
    python scripts/check_hf_roundtrip.py --writer=PROGRAM          folders made by write_steps (tests)

For each folder, with the class that its config.json names (GPT-2 or BERT): from_pretrained(STEPDIR)
with no missing, unexpected or mismatched keys; every weight equal, bit for bit, to what safetensors
reads from the file; the dtype and labels of config.json; finite logits; and save_pretrained of the
loaded model gives the same tensors. With --writer the weights are compared with the engine's own, names
and orientation included.
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
    import transformers
except ImportError as e:
    print(f"SKIP: {e}; needs: pip install torch transformers safetensors")
    sys.exit(77)

NAMES = {"embed.token": "transformer.wte", "embed.position": "transformer.wpe", "final.norm": "transformer.ln_f",
         "head": "lm_head"}
PARTS = {"norm1": "ln_1", "attn.qkv": "attn.c_attn", "attn.proj": "attn.c_proj", "norm2": "ln_2",
         "mlp.fc": "mlp.c_fc", "mlp.proj": "mlp.c_proj"}
BERT_NAMES = {"embed.token": "bert.embeddings.word_embeddings", "embed.position": "bert.embeddings.position_embeddings",
              "embed.type": "bert.embeddings.token_type_embeddings", "embed.norm": "bert.embeddings.LayerNorm",
              "pooler": "bert.pooler.dense", "mlm.dense": "cls.predictions.transform.dense",
              "mlm.norm": "cls.predictions.transform.LayerNorm", "mlm": "cls.predictions",
              "head": "cls.predictions.decoder", "nsp": "cls.seq_relationship", "classify": "classifier",
              "qa": "qa_outputs"}
BERT_PARTS = {"attn.proj": "attention.output.dense", "norm1": "attention.output.LayerNorm",
              "mlp.fc": "intermediate.dense", "mlp.proj": "output.dense", "norm2": "output.LayerNorm"}


def in_file(engine, x, architecture):
    """The tensors of the file that one of the engine's is: names and values."""
    part, kind = engine.rsplit(".", 1)
    block = part.split(".")[1] if part.startswith("block.") else None
    rest = part.split(".", 2)[2] if block else part
    if not architecture.startswith("Bert"):
        name = f"transformer.h.{block}.{PARTS[rest]}" if block else NAMES[rest]
        yield f"{name}.{kind}", x.t() if x.ndim == 2 and ".c_" in name else x
        return
    layer = f"bert.encoder.layer.{block}."
    if rest == "attn.qkv":
        found = [(f"{layer}attention.self.{p}.{kind}", y) for p, y in zip(("query", "key", "value"), x.chunk(3))]
    else:
        found = [(f"{layer + BERT_PARTS[rest] if block else BERT_NAMES[rest]}.{kind}", x)]
    for name, y in found:
        yield name.removeprefix("bert.") if architecture == "BertModel" else name, y


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


def outputs(model, ids):
    """What a model computes, one tensor after the other."""
    with torch.no_grad():
        return [x for x in model.eval()(ids).to_tuple() if torch.is_tensor(x)]


def check(folder):
    config = json.load(open(os.path.join(folder, "config.json")))
    architecture = config["architectures"][0]
    file = tensors_of(folder)
    more = {}
    if architecture == "BertModel":
        more["add_pooling_layer"] = "pooler.dense.weight" in file
    model, info = getattr(transformers, architecture).from_pretrained(folder, dtype="auto", output_loading_info=True,
                                                                      **more)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        assert not info.get(kind), f"{folder}: {kind}: {info[kind]}"
    assert config["dtype"] == config["torch_dtype"]
    assert model.dtype == getattr(torch, config["dtype"]), f"{folder}: dtype {model.dtype}"
    state = model.state_dict()
    for name, x in file.items():
        assert torch.equal(state[name], x), f"{folder}: {name} differs"
    output = model.get_output_embeddings()
    if output is not None:
        name = next(k for k in ("lm_head.weight", "cls.predictions.decoder.weight") if k in state)
        tied = config["tie_word_embeddings"]
        assert (name in file) == (not tied)
        assert (output.weight is model.get_input_embeddings().weight) == tied
    if "id2label" in config:
        assert model.config.id2label == {int(k): v for k, v in config["id2label"].items()}
        assert model.config.label2id == {v: k for k, v in model.config.id2label.items()}
        assert model.num_labels == len(model.classifier.bias)
    length = config.get("n_positions", config.get("max_position_embeddings"))
    ids = torch.arange(min(8, length)).remainder(config["vocab_size"])[None]
    for x in outputs(model, ids):
        assert torch.isfinite(x.float()).all(), f"{folder}: logits"
    with tempfile.TemporaryDirectory() as again:
        model.save_pretrained(again)
        theirs = tensors_of(again)
    assert theirs.keys() == file.keys(), f"{folder}: {theirs.keys() ^ file.keys()}"
    assert all(torch.equal(theirs[k], file[k]) for k in file)
    print(f"{folder}: {architecture}, {len(file)} tensors, {config['dtype']}, equal in transformers")
    return state, config


def check_against_engine(folder, expected):
    state, config = check(folder)
    dtype = getattr(torch, config["dtype"])
    seen = set()
    for engine, x in load_file(expected).items():
        for name, y in in_file(engine, x, config["architectures"][0]):
            assert torch.equal(state[name], y.to(dtype)), f"{folder}: {engine} differs from {name}"
            seen.add(name)
    if "cls.predictions.decoder.bias" in state: # transformers 5 reads this one of an untied model
        assert torch.equal(state["cls.predictions.decoder.bias"], state["cls.predictions.bias"])
    twins = {"lm_head.weight", "cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    for name in state.keys() - seen - twins:
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
            assert len(names) == 13, names
            for n in names:
                check_against_engine(os.path.join(d, n, "checkpoints", "step-00000001"),
                                     os.path.join(d, n, "expected.safetensors"))
    if not args.folders and not args.writer:
        p.error("name a step folder")


if __name__ == "__main__":
    main()
