#!/usr/bin/env python3
# golden_lamb.py -- ten LAMB steps in float64, as the C header tests/train/golden_lamb.h.
#
#   python3 scripts/golden_lamb.py > tests/train/golden_lamb.h        needs numpy
#
# Written from MLPerf's rules for BERT, tensor by tensor, with the names that decide what is left out:
# bias-corrected moments, u = m / (sqrt(v) + eps) + decay * w, trust ratio |w| / |u| (1 when either
# is 0), clipping by the global norm, linear warm-up and polynomial decay. A BERT of one layer; its
# query, key and value are tensors of their own. Weights and gradients come from a formula that the
# test has, too, and are exact in f32.
#
# SPDX-License-Identifier: MIT
import numpy as np

STEPS, WARMUP, PEAK, END, POWER = 10, 2, 0.05, 0.005, 2.0
BETA1, BETA2, EPS, DECAY, CLIP = 0.9, 0.999, 1e-6, 0.01, 1.0
C, F, V, P, TYPES = 4, 16, 7, 5, 2

SHAPES = {
    "embed.token.weight": (V, C), "embed.position.weight": (P, C), "embed.type.weight": (TYPES, C),
    "embed.norm.weight": (C,), "embed.norm.bias": (C,),
    "block.0.attn.qkv.weight": (3 * C, C), "block.0.attn.qkv.bias": (3 * C,),
    "block.0.attn.proj.weight": (C, C), "block.0.attn.proj.bias": (C,),
    "block.0.norm1.weight": (C,), "block.0.norm1.bias": (C,),
    "block.0.mlp.fc.weight": (F, C), "block.0.mlp.fc.bias": (F,),
    "block.0.mlp.proj.weight": (C, F), "block.0.mlp.proj.bias": (C,),
    "block.0.norm2.weight": (C,), "block.0.norm2.bias": (C,),
    "pooler.weight": (C, C), "pooler.bias": (C,),
    "mlm.dense.weight": (C, C), "mlm.dense.bias": (C,),
    "mlm.norm.weight": (C,), "mlm.norm.bias": (C,), "mlm.bias": (V,),
    "nsp.weight": (2, C), "nsp.bias": (2,),
}
ZERO_WEIGHT = "embed.type.weight"        # its trust ratio is 1 in the first step
ZERO_GRADIENT = "embed.position.weight"  # its u is the decay alone


def values(name, step, shape):
    """Multiples of 1/1024 in (-1, 1), of the name, the step and the element's number."""
    h = 2166136261
    for c in name.encode():
        h = (h ^ c) * 16777619 % 2**32
    x = []
    for i in range(int(np.prod(shape))):
        y = (h + 7919 * step + i) * 2654435761 % 2**32
        y = (y ^ y >> 15) * 2246822519 % 2**32
        x.append(((y >> 8) % 2047 - 1023) / 1024)
    return np.array(x, dtype=np.float64).reshape(shape)


def weight(name):
    return values(name, 0, SHAPES[name]) * (name != ZERO_WEIGHT)


def gradient(name, step):
    """Every third step is short enough not to be clipped."""
    scale = 0 if name == ZERO_GRADIENT else 2.0**-6 if step % 3 == 0 else 0.25
    return values(name, step, SHAPES[name]) * scale


def tensors(make):
    """As the rules see them: q, k and v apart."""
    out = {}
    for name in SHAPES:
        x = make(name)
        if ".qkv." in name:
            for part, y in zip("qkv", np.split(x, 3)):
                out[name.replace("qkv", part)] = y.copy()
        else:
            out[name] = x
    return out


def rate(step):
    if step < WARMUP:
        return PEAK * (step + 1) / (WARMUP + 1)
    return END + (PEAK - END) * (1 - (step - WARMUP) / (STEPS - 1 - WARMUP)) ** POWER


def length(x):
    return np.sqrt((x * x).sum())


def train():
    w = tensors(weight)
    m = {name: np.zeros_like(x) for name, x in w.items()}
    v = {name: np.zeros_like(x) for name, x in w.items()}
    norms = []
    for t in range(1, STEPS + 1):
        g = tensors(lambda name: gradient(name, t))
        norms.append(np.sqrt(sum((x * x).sum() for x in g.values())))
        clip = min(1.0, CLIP / (norms[-1] + 1e-6))  # as torch.nn.utils.clip_grad_norm_ does it
        for name in w:
            m[name] = BETA1 * m[name] + (1 - BETA1) * g[name] * clip
            v[name] = BETA2 * v[name] + (1 - BETA2) * (g[name] * clip) ** 2
            u = m[name] / (1 - BETA1**t) / (np.sqrt(v[name] / (1 - BETA2**t)) + EPS)
            ratio = 1.0
            if "norm" not in name and "bias" not in name:
                u = u + DECAY * w[name]
                if length(w[name]) > 0 and length(u) > 0:
                    ratio = length(w[name]) / length(u)
            w[name] = w[name] - ratio * rate(t - 1) * u
    return w, m, v, norms


def joined(x, name):
    parts = [x[name.replace("qkv", p)] for p in "qkv"] if ".qkv." in name else [x[name]]
    return np.concatenate([p.reshape(-1) for p in parts])


def emit(name, kind, numbers):
    print(f"static const {kind} golden_lamb_{name}[{len(numbers)}] = {{")
    line = "   "
    for v in numbers:
        word = "%.9g" % v
        word = (word if "." in word or "e" in word else word + ".0") + ("f" if kind == "float" else "")
        if len(line) + len(word) + 2 > 98:
            print(line)
            line = "   "
        line += " " + word + ","
    print(line + "\n};")


def main():
    w, m, v, norms = train()
    assert any(n > CLIP for n in norms) and any(n < CLIP for n in norms)
    print("""// golden_lamb.h -- ten LAMB steps in float64; made by scripts/golden_lamb.py.
//
// SPDX-License-Identifier: MIT
#pragma once
""")
    names = list(SHAPES)
    print(f"static const char *const golden_lamb_name[{len(names)}] = {{")
    for name in names:
        print(f'    "{name}",')
    print("};")
    emit("norm", "double", norms)
    for kind, x in (("w", w), ("m", m), ("v", v)):
        emit(kind, "float", np.concatenate([joined(x, name) for name in names]).tolist())


main()
