#!/usr/bin/env python3
"""bench_torch.py -- a GPT-2 training step in PyTorch on the CPU, to compare `lathe train` with.

    bench_torch.py [--shape=124m] [--batch=4] [--tokens=64] [--dtype=fp32|bf16] [--steps=10]

The model is written as one would today: fused qkv, scaled_dot_product_attention, tied head, AdamW,
clipping. bf16 is autocast over float32 weights. Settings are those of a plain installation;
--fused and --compile switch on what PyTorch offers beyond. Random tokens, random weights.
Prints one line: `torch VERSION DTYPE ms MEDIAN tok/s RATE loss X`.

SPDX-License-Identifier: MIT
"""
import argparse
import contextlib
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SHAPES = {  # V, L, H, C, positions
    "124m": (50257, 12, 12, 768, 1024),
    "char-cpu": (65, 4, 4, 128, 64),
    "char": (65, 6, 6, 384, 256),
}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocab, layers, heads, width, positions):
        super().__init__()
        self.token, self.position = nn.Embedding(vocab, width), nn.Embedding(positions, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)
        self.head.weight = self.token.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0.0, 0.02)

    def forward(self, x, y):
        h = self.token(x) + self.position(torch.arange(x.shape[1]))
        for block in self.blocks:
            h = block(h)
        logits = self.head(self.norm(h))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", choices=sorted(SHAPES), default="124m")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    model = Gpt(*SHAPES[args.shape])
    vocab = SHAPES[args.shape][0]
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    extra = {"fused": True} if args.fused else {}
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1},
                                   {"params": vectors, "weight_decay": 0.0}],
                                  lr=6e-4, betas=(0.9, 0.95), **extra)
    forward = torch.compile(model) if args.compile else model
    times, loss = [], None
    for step in range(args.warmup + args.steps):
        x = torch.randint(0, vocab, (args.batch, args.tokens))
        y = torch.randint(0, vocab, (args.batch, args.tokens))
        began = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16) if args.dtype == "bf16" else contextlib.nullcontext():
            loss = forward(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step >= args.warmup:
            times.append(time.perf_counter() - began)
    median = statistics.median(times)
    print(f"torch {torch.__version__} {args.dtype} ms {median * 1e3:.1f} "
          f"tok/s {args.batch * args.tokens / median:.1f} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
