#!/usr/bin/env python3
"""golden_checkpoints.py -- small folders as transformers writes them, for tests/checkpoints.

    python scripts/golden_checkpoints.py            writes tests/checkpoints/golden/ (committed)

Needs torch, transformers, safetensors. One random tiny GPT-2 (2 layers, width 8, 20 tokens) in every
dress a Hugging Face folder comes in:

    single   model.safetensors, tied, f32           sharded  the same in shards with an index
    bf16 f16 the same in half precision             untied   a head of its own
    headed   tied, but lm_head.weight is in the file as well
    bare     names without transformer. (GPT2Model), with the old attn.bias buffers (BOOL, F32)
    wrapped  module._orig_mod.transformer. in front of everything
    inner    n_inner 24, relu, scale_attn_weights off, epsilon 1e-6

and BERTs of that size, a folder for each architecture (bert_pretrain, bert_mlm, bert_model, bert_classify,
bert_tag, bert_qa), and

    bert_sharded bert_bf16   bert_pretrain in shards, in bfloat16
    bert_untied              a decoder of its own; cls.predictions.bias is stale, as transformers 5 leaves it
    bert_old                 bert-base-uncased's: called BertForMaskedLM, but with pooler and next sentence,
                             with gamma and beta, position_ids, and the tied decoder written out
    bert_bare bert_nopool    a BertForPreTraining without bert., with module.; a BertModel without pooler

values.h holds, for every folder and engine tensor, its shape and the sums sum(x[i]) and
sum(x[i] * (1 + i % 7)) over the engine's orientation, in float64.

SPDX-License-Identifier: MIT
"""
import json
import os
import shutil

import torch
from safetensors.torch import load_file, save_file
import transformers
from transformers import BertConfig, GPT2Config, GPT2LMHeadModel, GPT2Model

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "checkpoints", "golden")
BASE = dict(n_layer=2, n_head=2, n_embd=8, n_positions=12, vocab_size=20, bos_token_id=None,
            eos_token_id=19, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
BERT = dict(num_hidden_layers=2, num_attention_heads=2, hidden_size=8, intermediate_size=16,
            max_position_embeddings=12, vocab_size=20, type_vocab_size=3)


def model(cls=GPT2LMHeadModel, **more):
    return shaken(lambda: cls(GPT2Config(**{**BASE, **more})))


def bert(name, config=(), **how):
    return shaken(lambda: getattr(transformers, name)(BertConfig(**{**BERT, **dict(config)}), **how))


def shaken(make_model):
    torch.manual_seed(7)
    m = make_model()
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
        for p in ("transformer.", "bert.", "module.", "_orig_mod."):
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


BERT_TOP = {"embeddings.word_embeddings": "embed.token", "embeddings.position_embeddings": "embed.position",
            "embeddings.token_type_embeddings": "embed.type", "embeddings.LayerNorm": "embed.norm",
            "pooler.dense": "pooler", "cls.predictions.transform.dense": "mlm.dense",
            "cls.predictions.transform.LayerNorm": "mlm.norm", "cls.predictions": "mlm",
            "cls.predictions.decoder": "head", "cls.seq_relationship": "nsp", "classifier": "classify",
            "qa_outputs": "qa"}
BERT_BLOCK = {"attention.output.dense": "attn.proj", "attention.output.LayerNorm": "norm1",
              "intermediate.dense": "mlp.fc", "output.dense": "mlp.proj", "output.LayerNorm": "norm2"}


def bert_engine(tensors, heads):
    """The engine's names and tensors; only the trunk and these heads."""
    out = {}
    for name, x in tensors.items():
        if name.endswith("_ids") or name.split(".")[0] not in ("embeddings", "encoder", *heads):
            continue
        part, kind = name.rsplit(".", 1)
        kind = {"gamma": "weight", "beta": "bias"}.get(kind, kind)
        if part.startswith("encoder.layer."):
            _, _, n, rest = part.split(".", 3)
            if not rest.startswith("attention.self."):
                out[f"block.{n}.{BERT_BLOCK[rest]}.{kind}"] = x
            elif rest.endswith("query"):
                qkv = [tensors[name.replace("query", p)] for p in ("query", "key", "value")]
                out[f"block.{n}.attn.qkv.{kind}"] = torch.cat(qkv)
        else:
            out[f"{BERT_TOP[part]}.{kind}"] = x
    out["mlm.bias"] = out.pop("head.bias", out.get("mlm.bias"))
    return {k: v for k, v in out.items() if v is not None}


HEADS = {"BertForPreTraining": ("pooler", "cls"), "BertForMaskedLM": ("cls",), "BertModel": ("pooler",),
         "BertForSequenceClassification": ("pooler", "classifier"), "BertForTokenClassification": ("classifier",),
         "BertForQuestionAnswering": ("qa_outputs",)}


def bert_values(folder):
    tensors, config = {}, json.load(open(os.path.join(folder, "config.json")))
    for f in sorted(os.listdir(folder)):
        if f.endswith(".safetensors"):
            tensors.update({strip(k): v for k, v in load_file(os.path.join(folder, f)).items()})
    if config["architectures"] == ["BertForMaskedLM"]:
        tensors = {k: v for k, v in tensors.items() if "seq_relationship" not in k}
    engine = bert_engine(tensors, HEADS[config["architectures"][0]])
    if config["tie_word_embeddings"]:
        engine.pop("head.weight", None)
    return [row(k, v.double()) for k, v in sorted(engine.items())]


def row(name, x):
    flat = x.reshape(-1)
    weight = 1 + torch.arange(flat.numel()) % 7
    return name, x.ndim, list(x.shape) + [0] * (2 - x.ndim), flat.sum().item(), (flat * weight).sum().item()


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
        rows.append(row(engine_name(name), x))
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
    put_values("values.h", "golden_tensors", made, values)
    put_values("values_bert.h", "golden_bert_tensors", make_berts(), bert_values)


def make_berts():
    labels = {"id2label": {0: "O", 1: "B-PER", 2: "na\u00efve"}, "label2id": {"O": 0, "B-PER": 1, "na\u00efve": 2}}
    made = [make("bert_pretrain", bert("BertForPreTraining")), make("bert_mlm", bert("BertForMaskedLM")),
            make("bert_model", bert("BertModel")), make("bert_nopool", bert("BertModel", add_pooling_layer=False)),
            make("bert_classify", bert("BertForSequenceClassification", labels)),
            make("bert_tag", bert("BertForTokenClassification", {
                **labels, "hidden_act": "gelu_new", "pad_token_id": None, "classifier_dropout": 0.25})),
            make("bert_qa", bert("BertForQuestionAnswering", {"layer_norm_eps": 1e-6})),
            make("bert_sharded", bert("BertForPreTraining"), max_shard_size="2KB"),
            make("bert_bf16", bert("BertForPreTraining").to(torch.bfloat16)),
            make("bert_untied", bert("BertForPreTraining", {"tie_word_embeddings": False}))]
    ids = {"embeddings.position_ids": torch.arange(12)[None], "embeddings.token_type_ids": torch.zeros(1, 12).long()}
    rewrite(made[2], lambda t: {**t, **ids})
    made.append(make("bert_bare", bert("BertForPreTraining")))
    rewrite(made[-1], lambda t: {"module." + k.removeprefix("bert."): v for k, v in t.items()})
    made.append(make("bert_old", bert("BertForPreTraining")))
    rewrite(made[-1], lambda t: {
        **{k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v
           for k, v in t.items()},
        **{"bert." + k: v for k, v in ids.items()},
        "cls.predictions.decoder.weight": t["bert.embeddings.word_embeddings.weight"].clone(),
        "cls.predictions.decoder.bias": t["cls.predictions.bias"].clone()})
    path = os.path.join(made[-1], "config.json")
    config = {**json.load(open(path)), "architectures": ["BertForMaskedLM"], "torch_dtype": "float32"}
    with open(path, "w") as f:
        json.dump(config, f, indent=2)
    return made


def put_values(file, table, made, values_of):
    with open(os.path.join(OUT, file), "w") as f:
        f.write(f"// {file} -- written by scripts/golden_checkpoints.py: what each golden folder holds.\n"
                "//\n// SPDX-License-Identifier: MIT\n")
        f.write(f"static const GoldenTensor {table}[] = {{\n")
        for folder in made:
            for name, rank, shape, s, w in values_of(folder):
                f.write(f'    {{"{os.path.basename(folder)}", "{name}", {rank}, {{{shape[0]}, {shape[1]}}},'
                        f" {s!r}, {w!r}}},\n")
        f.write("};\n")


if __name__ == "__main__":
    main()
