#!/usr/bin/env python3
"""golden_bert.py -- golden values for BERT: random Hugging Face models, and what PyTorch says of them.

    python scripts/golden_bert.py                          tests/model/golden/ (committed, small)
    python scripts/golden_bert.py --shape=base --out=DIR   the shape of BERT base, about 1 GB

Needs torch and transformers. Writes OUT/bert.safetensors: one trunk under five heads, for each head
a batch, its logits, its loss and every gradient; OUT/README.md of the committed folder has the
names. Parameters have the engine's names and layout (q, k and v as one). All values are computed in
float64, with the padded batch and the attention mask that Hugging Face wants, and stored as float32.
The weights are exact in bfloat16.

SPDX-License-Identifier: MIT
"""
import argparse
import os
import sys

import torch
from safetensors.torch import save_file
from transformers import (BertConfig, BertForMaskedLM, BertForPreTraining, BertForQuestionAnswering,
                          BertForSequenceClassification, BertForTokenClassification)

IGNORE = -100
# The token of padding is one that occurs nowhere, for PyTorch keeps the gradient of its row at 0.
SHAPES = {  # config, lengths of the sequences, T
    "tiny": (dict(num_hidden_layers=2, num_attention_heads=2, hidden_size=16, intermediate_size=48,
                  max_position_embeddings=24, vocab_size=67, pad_token_id=66), [20, 13, 8], 20),
    "base": (dict(pad_token_id=30521), [96, 128, 61], 128),
}
HEADS = {
    "pretrain": BertForPreTraining,
    "mlm": BertForMaskedLM,
    "classify": BertForSequenceClassification,
    "tag": BertForTokenClassification,
    "qa": BertForQuestionAnswering,
}
N_LABELS = 5


def engine_names(model, values):
    """{engine name: tensor} of {Hugging Face name: tensor}."""
    out = {}
    fused = {}
    outside = {
        "bert.embeddings.word_embeddings.weight": "embed.token.weight",
        "bert.embeddings.position_embeddings.weight": "embed.position.weight",
        "bert.embeddings.token_type_embeddings.weight": "embed.type.weight",
        "bert.embeddings.LayerNorm.": "embed.norm.",
        "bert.pooler.dense.": "pooler.",
        "cls.predictions.transform.dense.": "mlm.dense.",
        "cls.predictions.transform.LayerNorm.": "mlm.norm.",
        "cls.predictions.bias": "mlm.bias",
        "cls.seq_relationship.": "nsp.",
        "classifier.": "classify.",
        "qa_outputs.": "qa.",
    }
    inside = {
        "attention.output.dense.": "attn.proj.",
        "attention.output.LayerNorm.": "norm1.",
        "intermediate.dense.": "mlp.fc.",
        "output.dense.": "mlp.proj.",
        "output.LayerNorm.": "norm2.",
    }
    for name, t in values.items():
        if name.startswith("bert.encoder.layer."):
            layer, rest = name[len("bert.encoder.layer."):].split(".", 1)
            if rest.startswith("attention.self."):
                which, kind = rest[len("attention.self."):].split(".")
                fused.setdefault(f"block.{layer}.attn.qkv.{kind}", {})[which] = t
                continue
            old = [k for k in inside if rest.startswith(k)]
            assert len(old) == 1, name
            out[f"block.{layer}.{inside[old[0]]}{rest[len(old[0]):]}"] = t
        else:
            old = [k for k in outside if name.startswith(k)]
            assert len(old) == 1, name
            out[outside[old[0]] + name[len(old[0]):]] = t
    for name, parts in fused.items():
        out[name] = torch.cat([parts["query"], parts["key"], parts["value"]])
    return out


def make_model(kind, config_args, trunk):
    """Weights as BERT starts, biases and norms moved off 0 and 1, rounded to bf16."""
    torch.manual_seed(7 + list(HEADS).index(kind))
    config = BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                        num_labels=2 if kind == "qa" else N_LABELS, **config_args)
    config._attn_implementation = "eager"
    model = HEADS[kind](config).eval()
    small = config.hidden_size < 256
    with torch.no_grad():
        for name, p in model.named_parameters():
            if small and p.ndim >= 2:
                p.mul_(6.0)  # attention, GELU and tanh must leave their linear ranges
            if p.ndim == 1:
                p.add_(torch.randn_like(p) * 0.1)
            p.copy_(p.to(torch.bfloat16).float())
        if trunk:
            own = dict(model.named_parameters())
            for name, t in trunk.items():
                if name in own:
                    own[name].copy_(t)
    return model


def make_batch(config, lengths, width, generator):
    """A padded batch; about a seventh of the words are picked, and never the last id."""
    n = len(lengths)
    ids = torch.randint(0, config.vocab_size - 1, (n, width), generator=generator)
    real = torch.arange(width)[None, :] < torch.tensor(lengths)[:, None]
    cut = torch.tensor([length // 2 for length in lengths])[:, None]
    types = ((torch.arange(width)[None, :] >= cut) & real).long()
    labels = torch.randint(0, config.vocab_size, (n, width), generator=generator)
    picked = (torch.rand((n, width), generator=generator) < 0.2) & real
    picked[:, 1] = True
    return {"ids": ids, "types": types, "real": real,
            "mlm": torch.where(picked, labels, torch.full_like(labels, IGNORE))}


def run(kind, model, batch, generator):
    """Logits of the head, by name, its targets, and the loss."""
    inputs = dict(input_ids=batch["ids"], token_type_ids=batch["types"],
                  attention_mask=batch["real"].long())
    n, width = batch["ids"].shape
    if kind == "pretrain":
        target = torch.tensor([1, 0, IGNORE][:n])
        out = model(**inputs, labels=batch["mlm"], next_sentence_label=target)
        logits = {"rows": out.prediction_logits, "seqs": out.seq_relationship_logits}
        return logits, {"row_target": batch["mlm"], "seq_target": target}, out.loss
    if kind == "mlm":
        out = model(**inputs, labels=batch["mlm"])
        return {"rows": out.logits}, {"row_target": batch["mlm"]}, out.loss
    if kind == "classify":
        target = torch.tensor([2, 0, 4][:n])
        out = model(**inputs, labels=target)
        return {"seqs": out.logits}, {"seq_target": target}, out.loss
    if kind == "tag":
        tags = torch.randint(0, N_LABELS, (n, width), generator=generator)
        skip = torch.rand((n, width), generator=generator) < 0.3
        tags = torch.where(batch["real"] & ~skip, tags, torch.full_like(tags, IGNORE))
        out = model(**inputs, labels=tags)
        return {"rows": out.logits}, {"row_target": tags}, out.loss
    start, end = torch.tensor([3, 5, 0][:n]), torch.tensor([6, 5, 4][:n])
    out = model(**inputs, start_positions=start, end_positions=end)
    return ({"rows": torch.stack([out.start_logits, out.end_logits], -1)},
            {"span_target": torch.stack([start, end])}, out.loss)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shape", choices=sorted(SHAPES), default="tiny")
    parser.add_argument("--out", default=os.path.join(os.path.dirname(__file__), "..", "tests",
                                                      "model", "golden"))
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    config_args, lengths, width = SHAPES[args.shape]
    kinds = list(HEADS) if args.shape == "tiny" else ["pretrain"]
    out, trunk = {}, {}
    for kind in kinds:
        model = make_model(kind, config_args, trunk)
        if not trunk:
            trunk = {n: p.detach().clone() for n, p in model.named_parameters()}
            config = model.config
            generator = torch.Generator().manual_seed(3)
            batch = make_batch(config, lengths, width, generator)
        own = engine_names(model, {n: p.detach().clone() for n, p in model.named_parameters()})
        for name, t in own.items():
            if kind == kinds[0]:
                out["w." + name] = t
            elif "w." + name not in out:
                out[f"{kind}.w.{name}"] = t
        model = model.double()
        logits, targets, loss = run(kind, model, batch, generator)
        loss.backward()
        out.update({f"{kind}.logits.{n}": t.float() for n, t in logits.items()})
        out.update({f"{kind}.{n}": t.int() for n, t in targets.items()})
        out[f"{kind}.loss"] = loss.float().reshape(1)
        grads = engine_names(model, {n: p.grad for n, p in model.named_parameters()})
        out.update({f"{kind}.grad.{n}": g.float() for n, g in grads.items()})
        if kind == kinds[0]:
            trunk_out = model.bert(input_ids=batch["ids"], token_type_ids=batch["types"],
                                   attention_mask=batch["real"].long())
            out["trunk"] = trunk_out.last_hidden_state.float()
            out["pooled"] = trunk_out.pooler_output.float()
        print(f"{kind}: {sum(p.numel() for p in model.parameters())} parameters, "
              f"loss {loss.item():.6f}")
        del model
    out["config"] = torch.tensor([config.num_hidden_layers, config.num_attention_heads,
                                  config.hidden_size, config.intermediate_size,
                                  config.max_position_embeddings, config.vocab_size, N_LABELS],
                                 dtype=torch.int32)
    out["lengths"] = torch.tensor(lengths, dtype=torch.int32)
    out["input_ids"], out["types"] = batch["ids"].int(), batch["types"].int()
    path = os.path.join(os.path.normpath(args.out), "bert.safetensors")
    save_file({k: v.detach().contiguous() for k, v in out.items()}, path,
              metadata={"recipe": f"torch={torch.__version__}"})
    print(f"{path}: {os.path.getsize(path)} bytes, {len(out)} tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
