#!/usr/bin/env python3
"""golden_checkpoints.py -- small GPT-2 folders as transformers writes them, for tests/checkpoints.

    python scripts/golden_checkpoints.py            writes tests/checkpoints/golden/ (committed)

Needs torch, transformers, safetensors. One random tiny model (2 layers, width 8, 20 tokens) in every
dress a Hugging Face folder comes in:

    single   model.safetensors, tied, f32           sharded  the same in shards with an index
    bf16 f16 the same in half precision             untied   a head of its own
    headed   tied, but lm_head.weight is in the file as well
    bare     names without transformer. (GPT2Model), with the old attn.bias buffers (BOOL, F32)
    wrapped  module._orig_mod.transformer. in front of everything
    inner    n_inner 24, relu, scale_attn_weights off, epsilon 1e-6

values.h holds, for every folder and engine tensor, its shape and the sums sum(x[i]) and
sum(x[i] * (1 + i % 7)) over the engine's orientation, in float64.

SPDX-License-Identifier: MIT
"""
import json
import os
import shutil

import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel, GPT2Model

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "checkpoints", "golden")
BASE = dict(n_layer=2, n_head=2, n_embd=8, n_positions=12, vocab_size=20, bos_token_id=None,
            eos_token_id=19, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)


def model(cls=GPT2LMHeadModel, **more):
    torch.manual_seed(7)
    m = cls(GPT2Config(**{**BASE, **more}))
    with torch.no_grad():
        for p in m.parameters():
            if p.ndim == 1:
                p.add_(torch.randn_like(p) * 0.1)
    return m


def rewrite(folder, change):
    path = os.path.join(folder, "model.safetensors")
    save_file(change(load_file(path)), path, metadata={"format": "pt"})


def make(name, m, **how):
    folder = os.path.join(OUT, name)
    shutil.rmtree(folder, ignore_errors=True)
    m.save_pretrained(folder, **how)
    extra = os.path.join(folder, "generation_config.json")
    if os.path.exists(extra):
        os.remove(extra)
    return folder


def strip(name):
    again = True
    while again:
        again = False
        for p in ("transformer.", "module.", "_orig_mod."):
            if name.startswith(p):
                name, again = name[len(p):], True
    return name


def engine_name(name):
    if name in TOP:
        return TOP[name]
    _, n, rest = name.split(".", 2)
    return f"block.{n}." + BLOCK[rest]


TOP = {"wte.weight": "embed.token.weight", "wpe.weight": "embed.position.weight",
       "ln_f.weight": "final.norm.weight", "ln_f.bias": "final.norm.bias",
       "lm_head.weight": "head.weight"}
BLOCK = {f"{a}.{k}": f"{b}.{k}" for a, b in (
    ("ln_1", "norm1"), ("attn.c_attn", "attn.qkv"), ("attn.c_proj", "attn.proj"),
    ("ln_2", "norm2"), ("mlp.c_fc", "mlp.fc"), ("mlp.c_proj", "mlp.proj")) for k in ("weight", "bias")}


def values(folder):
    tensors = {}
    for f in sorted(os.listdir(folder)):
        if f.endswith(".safetensors"):
            tensors.update(load_file(os.path.join(folder, f)))
    tied = json.load(open(os.path.join(folder, "config.json"))).get("tie_word_embeddings", True)
    rows = []
    for name, x in sorted(tensors.items()):
        name = strip(name)
        if name.endswith((".attn.bias", ".attn.masked_bias")) or (tied and name == "lm_head.weight"):
            continue
        x = x.double()
        if x.ndim == 2 and name.split(".")[-2].startswith("c_"):
            x = x.t()
        flat = x.reshape(-1)
        weight = 1 + torch.arange(flat.numel()) % 7
        shape = list(x.shape) + [0] * (2 - x.ndim)
        rows.append((engine_name(name), x.ndim, shape, flat.sum().item(), (flat * weight).sum().item()))
    return rows


def main():
    os.makedirs(OUT, exist_ok=True)
    made = [make("single", model())]
    made.append(make("sharded", model(), max_shard_size="3KB"))
    made.append(make("bf16", model().to(torch.bfloat16)))
    made.append(make("f16", model().to(torch.float16)))
    made.append(make("untied", model(tie_word_embeddings=False)))
    made.append(make("headed", model()))
    rewrite(made[-1], lambda t: {**t, "lm_head.weight": t["transformer.wte.weight"].clone()})
    made.append(make("bare", model(GPT2Model)))
    mask = torch.ones(12, 12, dtype=torch.bool).tril().view(1, 1, 12, 12)
    rewrite(made[-1], lambda t: {**t, **{f"h.{i}.attn.bias": mask.clone() for i in range(2)},
                                 **{f"h.{i}.attn.masked_bias": torch.tensor(-1e4) for i in range(2)}})
    made.append(make("wrapped", model()))
    rewrite(made[-1], lambda t: {"module._orig_mod." + k: v for k, v in t.items()})
    made.append(make("inner", model(n_inner=24, activation_function="relu", scale_attn_weights=False,
                                    layer_norm_epsilon=1e-6)))
    with open(os.path.join(OUT, "values.h"), "w") as f:
        f.write("// values.h -- written by scripts/golden_checkpoints.py: what each golden folder holds.\n"
                "//\n// SPDX-License-Identifier: MIT\n")
        f.write("static const GoldenTensor golden_tensors[] = {\n")
        for folder in made:
            for name, rank, shape, s, w in values(folder):
                f.write(f'    {{"{os.path.basename(folder)}", "{name}", {rank}, {{{shape[0]}, {shape[1]}}},'
                        f" {s!r}, {w!r}}},\n")
        f.write("};\n")


if __name__ == "__main__":
    main()
