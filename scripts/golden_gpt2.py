#!/usr/bin/env python3
"""golden_gpt2.py -- golden values for GPT-2: a random Hugging Face model, and what PyTorch says of it.

    python scripts/golden_gpt2.py                          tests/model/golden/ (committed, small)
    python scripts/golden_gpt2.py --shape=124m --out=DIR   the shape of GPT-2 124M, about 1.5 GB

Needs torch and transformers. Writes OUT/tiny/ (or OUT/model/), a folder that
GPT2LMHeadModel.from_pretrained reads, and OUT/golden.safetensors; OUT/README.md of the committed
folder has the names and the recipe. All values are computed in float64 and stored as float32, so
that the file is the truth for every precision. The weights are exact in bfloat16: a bf16 run starts
from the very same numbers. The same is then run in float32 and with bfloat16 tensors, and the
distances are printed: what another implementation may be asked for.

SPDX-License-Identifier: MIT
"""
import argparse
import os
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

IGNORE = -100
BETAS, EPS, DECAY, CLIP = (0.9, 0.95), 1e-8, 0.1, 1.0

# The large one takes smaller steps: at 1e-3 it magnifies rounding so much that PyTorch in float32 is
# 4e-4 away from itself in float64 after ten of them.
SHAPES = {  # config, B, T, learning rate
    "tiny": (dict(n_layer=2, n_head=4, n_embd=32, n_positions=32, vocab_size=67,
                  bos_token_id=None, eos_token_id=None), 3, 24, 1e-3),
    "124m": (dict(), 2, 64, 1e-4),
}


def make_model(config_args, seed):
    """Random weights as GPT-2 starts, with biases and norms moved off 0 and 1, rounded to bf16."""
    torch.manual_seed(seed)
    config = GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **config_args)
    config._attn_implementation = "eager"
    model = GPT2LMHeadModel(config).eval()
    small = config.n_embd < 256
    with torch.no_grad():
        for name, p in model.named_parameters():
            if small and p.ndim >= 2:
                p.mul_(3.0)  # attention and GELU must leave their linear ranges
            if p.ndim == 1:
                p.add_(torch.randn_like(p) * 0.1)
            p.copy_(p.to(torch.bfloat16).float())
    return model


def make_batch(config, batch, tokens, generator, ignored):
    ids = torch.randint(0, config.vocab_size, (batch, tokens + 1), generator=generator)
    x, y = ids[:, :-1].clone(), ids[:, 1:].clone()
    # Half of the targets follow a rule, so that there is something to learn.
    learn = torch.rand(y.shape, generator=generator) < 0.5
    y = torch.where(learn, (x * 3 + 1) % config.vocab_size, y)
    if ignored:
        drop = torch.rand(y.shape, generator=generator) < 0.2
        drop[0, :5] = True
        drop[-1, -1] = True
        y = torch.where(drop, torch.full_like(y, IGNORE), y)
    return x, y


def loss_of(model, x, y):
    logits = model(input_ids=x).logits
    flat = logits.reshape(-1, logits.shape[-1])
    flat = flat if flat.dtype == torch.float64 else flat.float()
    return logits, F.cross_entropy(flat, y.reshape(-1), ignore_index=IGNORE, reduction="mean")


def named_weights(model):
    return [(n, p) for n, p in model.named_parameters() if n != "lm_head.weight"]


def gradients(model, batch):
    """Logits, loss and every gradient of one batch."""
    model.zero_grad(set_to_none=True)
    logits, loss = loss_of(model, *batch)
    loss.backward()
    out = {n: p.grad.detach().clone() for n, p in named_weights(model)}
    return logits.detach(), loss.detach(), out


def train(model, batches, lr):
    """Ten steps of AdamW; the loss before and the gradient norm before clipping, for each."""
    weights = named_weights(model)
    groups = [
        {"params": [p for _, p in weights if p.ndim >= 2], "weight_decay": DECAY},
        {"params": [p for _, p in weights if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=lr, betas=BETAS, eps=EPS)
    losses, norms = [], []
    for batch in batches:
        optimizer.zero_grad(set_to_none=True)
        _, loss = loss_of(model, *batch)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_([p for _, p in weights], CLIP))
        optimizer.step()
        losses.append(loss.detach())
    return losses, norms


def worst(ours, truth, how):
    """The tensor with the largest relative distance: by maximum or by 2-norm."""
    best = (-1.0, "")
    for name, t in truth.items():
        a, b = ours[name].double(), t.double()
        if how == "max":
            d = ((a - b).abs().max() / b.abs().max()).item()
        else:
            d = ((a - b).norm() / b.norm()).item()
        best = max(best, (d, name))
    return f"{best[0]:.1e} ({best[1]})"


def without_key_bias(tensors, width):
    """The key third of c_attn.bias has no gradient but rounding noise: softmax cancels it."""
    out = {}
    for name, t in tensors.items():
        if name.endswith("c_attn.bias"):
            t = torch.cat([t[:width], t[2 * width:]])
        out[name] = t
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shape", choices=sorted(SHAPES), default="tiny")
    parser.add_argument("--out", default=os.path.join(os.path.dirname(__file__), "..", "tests",
                                                      "model", "golden"))
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no_yardstick", action="store_true", help="float64 only")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    config_args, batch_size, tokens, lr = SHAPES[args.shape]
    folder = os.path.join(args.out, "tiny" if args.shape == "tiny" else "model")
    os.makedirs(folder, exist_ok=True)

    model = make_model(config_args, seed=14)
    config = model.config
    model.save_pretrained(folder)
    extra = os.path.join(folder, "generation_config.json")
    if os.path.exists(extra):
        os.remove(extra)

    generator = torch.Generator().manual_seed(2)
    first = make_batch(config, batch_size, tokens, generator, ignored=True)
    batches = [make_batch(config, batch_size, tokens, generator, ignored=(i % 3 == 2))
               for i in range(args.steps)]

    start = {n: p.detach().clone() for n, p in named_weights(model)}
    model = model.double()
    logits, loss, grad = gradients(model, first)
    losses, norms = train(model, batches, lr)
    final = {n: p.detach().clone() for n, p in named_weights(model)}

    out = {"input_ids": first[0].int(), "target": first[1].int(), "logits": logits.float(),
           "loss": loss.float().reshape(1), "lr": torch.tensor([lr], dtype=torch.float32)}
    out.update({"grad." + n: g.float() for n, g in grad.items()})
    for i, (x, y) in enumerate(batches):
        step = f"step.{i + 1}."
        out[step + "input_ids"] = x.int()
        out[step + "target"] = y.int()
        out[step + "loss"] = losses[i].float().reshape(1)
        out[step + "norm"] = norms[i].float().reshape(1)
    out.update({"final." + n: p.float() for n, p in final.items()})
    path = os.path.join(os.path.normpath(args.out), "golden.safetensors")
    # One key: the library writes several in an order that changes from run to run.
    recipe = (f"lr={lr} beta1={BETAS[0]} beta2={BETAS[1]} eps={EPS} weight_decay={DECAY} "
              f"grad_clip={CLIP} steps={args.steps} torch={torch.__version__}")
    save_file({k: v.contiguous() for k, v in out.items()}, path, metadata={"recipe": recipe})
    print(f"{path}: {os.path.getsize(path)} bytes, {len(out)} tensors, loss {loss.item():.6f}")
    print("losses", " ".join(f"{v.item():.6f}" for v in losses))
    print("norms ", " ".join(f"{v.item():.4f}" for v in norms))
    if args.no_yardstick:
        return 0

    width = config.n_embd
    del model
    for label, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        model = GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager").eval().to(dtype)
        l2, s2, g2 = gradients(model, first)
        how = "max" if dtype == torch.float32 else "norm"
        print(f"{label} against float64, {how} of each tensor, worst:")
        print("  logits   ", worst({"logits": l2}, {"logits": logits}, how))
        print("  loss     ", f"{abs(s2.double().item() - loss.item()):.1e}")
        print("  gradients", worst(without_key_bias(g2, width), without_key_bias(grad, width), how))
        if dtype == torch.float32:
            losses2, _ = train(model, batches, lr)
            moved = {n: final[n] - start[n].double() for n in final}
            moved2 = {n: p.detach().double() - start[n].double() for n, p in named_weights(model)}
            print("  losses   ", f"{max(abs(a.item() - b.item()) for a, b in zip(losses, losses2)):.1e}")
            print("  updates  ", worst(moved2, moved, "max"), "all,",
                  worst(without_key_bias(moved2, width), without_key_bias(moved, width), "max"),
                  "without key biases; 2-norm",
                  worst(without_key_bias(moved2, width), without_key_bias(moved, width), "norm"))
        del model
    return 0


if __name__ == "__main__":
    sys.exit(main())
