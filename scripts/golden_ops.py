#!/usr/bin/env python3
# golden_ops.py -- values of single ops from PyTorch, as the C header tests/kernels/golden_ops.h.
#
#   python3 scripts/golden_ops.py > tests/kernels/golden_ops.h        needs PyTorch
#
# Inputs are f32; PyTorch computes in float64 and the results are rounded to f32 once, except for
# AdamW, which runs in float64 throughout as torch.optim.AdamW does it on f64 parameters.
#
# SPDX-License-Identifier: MIT
import math

import torch
import torch.nn.functional as F

torch.manual_seed(20240607)


def f32(*shape, scale=1.0):
    """Random values that f32 holds exactly, as float64."""
    return (torch.randn(*shape) * scale).float().double()


def emit(name, tensor, kind="float"):
    flat = tensor.detach().reshape(-1).tolist()
    words = [str(int(v)) if kind == "int32_t" else "%.9gf" % v if "." in "%.9g" % v or "e" in "%.9g" % v
             else "%.9g.0f" % v for v in flat]
    print(f"static const {kind} golden_{name}[{len(flat)}] = {{")
    line = "   "
    for w in words:
        if len(line) + len(w) + 2 > 98:
            print(line)
            line = "   "
        line += " " + w + ","
    print(line)
    print("};")


def layernorm():
    x, w, b, dy = f32(3, 9, scale=2), f32(9), f32(9), f32(3, 9)
    for name, t in (("ln_x", x), ("ln_weight", w), ("ln_bias", b), ("ln_dy", dy)):
        emit(name, t)
    for t in (x, w, b):
        t.requires_grad_()
    y = F.layer_norm(x, (9,), w, b, eps=float(torch.tensor(1e-5).float()))
    y.backward(dy)
    for name, t in (("ln_out", y), ("ln_dx", x.grad), ("ln_dweight", w.grad), ("ln_dbias", b.grad)):
        emit(name, t)


def gelu():
    x = torch.linspace(-6, 6, 49).float().double()
    emit("gelu_x", x)
    for kind, name in (("tanh", "tanh"), ("none", "erf")):
        t = x.clone().requires_grad_()
        y = F.gelu(t, approximate=kind)
        y.backward(torch.ones_like(y))
        emit(f"gelu_{name}", y)
        emit(f"gelu_{name}_slope", t.grad)


def attention():
    q, k, v, dout = (f32(1, 5, 2, 4) for _ in range(4))  # [B,T,H,D]
    for name, t in (("att_q", q), ("att_k", k), ("att_v", v), ("att_dout", dout)):
        emit(name, t)
    for t in (q, k, v):
        t.requires_grad_()
    heads = [t.transpose(1, 2) for t in (q, k, v)]
    out = F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2)
    out.backward(dout)
    score = heads[0] @ heads[1].transpose(-1, -2) / math.sqrt(4)
    score = score.masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf)
    emit("att_out", out)
    emit("att_lse", torch.logsumexp(score, -1))
    for name, t in (("att_dq", q.grad), ("att_dk", k.grad), ("att_dv", v.grad)):
        emit(name, t)


def cross_entropy():
    x = f32(6, 11, scale=3)
    target = torch.tensor([3, -100, 0, 10, -100, 7])
    emit("ce_logits", x)
    emit("ce_target", target, "int32_t")
    x.requires_grad_()
    emit("ce_loss", F.cross_entropy(x, target, ignore_index=-100, reduction="none"))
    F.cross_entropy(x, target, ignore_index=-100).backward()  # mean over the 4 counted targets
    emit("ce_dlogits", x.grad)


def adamw():
    steps, n, clip = 3, 10, 1.0
    w, grads = f32(n), f32(steps, n)
    emit("adamw_w0", w)
    emit("adamw_grad", grads)
    p = torch.nn.Parameter(w.clone())
    opt = torch.optim.AdamW([p], lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    history = []
    for s in range(steps):
        p.grad = grads[s].clone()
        torch.nn.utils.clip_grad_norm_([p], clip)
        opt.step()
        history.append(p.detach().clone())
    emit("adamw_w", torch.stack(history))
    state = opt.state[p]
    emit("adamw_m", state["exp_avg"])
    emit("adamw_v", state["exp_avg_sq"])


print(f"""// golden_ops.h -- values of single ops from PyTorch {torch.__version__.split('+')[0]}; made by scripts/golden_ops.py.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
""")
for part in (layernorm, gelu, attention, cross_entropy, adamw):
    part()
