#!/usr/bin/env python3
"""fp8_bytes.py -- what making FP8 costs in memory traffic: the tables of kernels/README.md.

    scripts/fp8_bytes.py            print them
    scripts/fp8_bytes.py --check    exit code 1 when the README is stale
    scripts/fp8_bytes.py --write    bring it up to date

Counts bytes of the tensors that the four linear layers of a transformer block multiply, each byte
once for every op that reads or writes it; and of their weights, what an update moves. Times are these bytes at a bandwidth, products their FLOP
at a rate: computed, not measured.

SPDX-License-Identifier: MIT
"""
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "kernels" / "README.md"
BEGIN = "<!-- fp8 bytes: made by scripts/fp8_bytes.py -->\n"
END = "<!-- end of fp8 bytes -->\n"

# Operand, width in C (the MLP is 4 C wide), the op that makes it, and whether that op writes FP8
# itself. Activations first, then gradients, whose column sums are the gradient of a bias.
OPERANDS = [
    ("x of qkv", 1, "layernorm_fwd", True),
    ("x of proj", 1, "attention_fwd", False),
    ("x of fc", 1, "layernorm_fwd", True),
    ("x of mlp", 4, "matmul_fp8 of fc, GELU", True),
    ("dy of mlp", 1, "layernorm_bwd", False),
    ("dy of fc", 4, "matmul_fp8 of mlp, DGELU", True),
    ("dy of proj", 1, "layernorm_bwd", False),
    ("dy of qkv", 3, "attention_bwd", False),
]
MODELS = [("124M", 12, 768), ("7B", 32, 4096)]
KINDS = {
    "bf16": "bf16",
    "fused": "FP8 as it is built",
    "unfused": "FP8, each operand by a pass",
    "current": "FP8, recipe `current`",
}
TOKENS = 16384  # of the times
# Of a weight, once a step: AdamW reads gradient, w, m and v, writes w, m, v (28) and the bf16 copy.
UPDATE = 28 + 2
UPDATES = [
    ("bf16", UPDATE),
    ("FP8 as it is built: AdamW writes q and q^T", UPDATE + 1 + 1),
    ("FP8 by a pass: reads the copy, writes q and q^T", UPDATE + 2 + 1 + 1),
    ("FP8, recipe `current`: a pass that reads it twice", UPDATE + 2 + 2 + 1 + 1),
]
BANDWIDTH = 3.0e12  # bytes a second: 90 % of an H100's 3.35e12, what a copy reaches
BF16, FP8 = 700e12, 1100e12  # FLOP a second in products of this size


def element(kind, gradient, fused):
    """Bytes of one element: (its maker writes, a pass of its own moves, products read)."""
    if kind == "bf16":  # two products read it; of a gradient bias_bwd makes column sums
        return 2, 2 if gradient else 0, 4
    if kind == "fused" and fused:  # q and q^T, and each product reads one
        return 2, 0, 2
    # In bf16; fp8_quantize reads it and writes q and q^T. For a current scale it reads it twice.
    return 2, 6 if kind == "current" else 4, 2


def total(kind, column):
    """Bytes of a token and layer, in C. Column: 0 makers, 1 passes, 2 products; None: all."""
    sums = [0, 0, 0]
    for name, width, _, fused in OPERANDS:
        parts = element(kind, name.startswith("dy"), fused)
        sums = [s + width * p for s, p in zip(sums, parts)]
    return sum(sums) if column is None else sums[column]


def product_saving(c):
    """Seconds of a token and layer that FP8 saves in the twelve products: 72 C^2 FLOP."""
    return 72 * c * c * (1 / BF16 - 1 / FP8)


def table(head, model_heads, rows):
    heads = head + model_heads
    return [f"| {' | '.join(cells)} |" for cells in [heads, ["---"] * len(heads)] + rows] + [""]


def operand_table():
    rows = []
    for name, width, maker, fused in OPERANDS:
        size = f"{width} C" if width > 1 else "C"
        rows.append([f"{name}, {size}", maker, "yes" if fused else "no"]
                    + [f"{4 * width * c:,}" for _, _, c in MODELS])
    head = ["operand", "made by", "writes FP8 itself"]
    return table(head, [f"bytes a token that a pass moves, C = {c}" for _, _, c in MODELS], rows)


def total_table():
    rows = [[label] + [f"{total(kind, i)} C" for i in range(3)]
            + [f"{total(kind, None) * c:,}" for _, _, c in MODELS] for kind, label in KINDS.items()]
    head = ["bytes a token and layer", "makers", "passes", "products"]
    return table(head, [f"C = {c}" for _, _, c in MODELS], rows)


def time_table():
    def row(label, cell):
        return [label] + [cell(n, c) for _, n, c in MODELS]

    rows = [row("saved by the products",
                lambda n, c: f"{product_saving(c) * n * TOKENS * 1e3:.2f}")]
    for kind, label in KINDS.items():
        rows.append(row(f"passes: {label}",
                        lambda n, c, k=kind: f"{pass_time(k, c) * n * TOKENS * 1e3:.2f}"))
    for kind in ("fused", "unfused", "current"):
        rows.append(row(f"passes by saving: {KINDS[kind]}",
                        lambda n, c, k=kind: f"{pass_time(k, c) / product_saving(c):.0%}"))
    head = [f"ms for {TOKENS:,} tokens and all layers"]
    return table(head, [f"{name}: {n} x C = {c}" for name, n, c in MODELS], rows)


def update_table():
    rows = [[label, str(size)] + [f"{size * 12 * c * c * n / BANDWIDTH * 1e3:.2f}"
                                  for _, n, c in MODELS] for label, size in UPDATES]
    head = ["once a step: update and FP8 of the weights, 12 C^2 a layer", "bytes a weight"]
    return table(head, [f"ms, {name}" for name, _, _ in MODELS], rows)


def pass_time(kind, c):
    """Seconds of a token and layer."""
    return total(kind, 1) * c / BANDWIDTH


def break_even(kind):
    """The C at which the passes take all that the products save."""
    return round(pass_time(kind, 1) / product_saving(1))


def text():
    lines = operand_table() + total_table() + time_table() + update_table()
    lines += ["Computed from bytes and FLOP, not measured: "
              f"{BANDWIDTH / 1e12:.1f} TB/s; {BF16 / 1e12:.0f} TFLOP/s in bf16, "
              f"{FP8 / 1e12:,.0f} in FP8.",
              "The width at which passes take all that the products save: "
              f"{break_even('fused')} as it is built,",
              f"{break_even('unfused')} with each operand by a pass."]
    return "\n".join(lines) + "\n"


def main():
    if not sys.argv[1:]:
        print(text(), end="")
        return
    old = README.read_text()
    before, rest = old.split(BEGIN)
    fresh = before + BEGIN + text() + END + rest.split(END)[1]
    if sys.argv[1:] == ["--write"]:
        README.write_text(fresh)
    elif sys.argv[1:] != ["--check"]:
        sys.exit(__doc__)
    elif fresh != old:
        sys.exit("kernels/README.md: the bytes of FP8 are stale; run scripts/fp8_bytes.py --write")


main()
