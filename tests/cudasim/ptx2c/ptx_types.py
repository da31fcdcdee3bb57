"""ptx_types.py -- the types of PTX: what kind they are, how wide, and which C++ type holds them.

A register is kept as an unsigned integer of its width (a predicate as bool), whatever its declared
type: PTX lets any instruction read a register by any type of the same size, and bits that no
instruction has interpreted must stay as they are (a NaN's payload, for one).

SPDX-License-Identifier: MIT
"""
from dataclasses import dataclass


@dataclass(frozen=True)
class Type:
    name: str
    kind: str  # pred, bits, unsigned, signed, float, half, packed
    bits: int

    @property
    def bytes(self):
        return (self.bits + 7) // 8

    @property
    def is_float(self):
        return self.kind == "float"

    @property
    def is_signed(self):
        return self.kind == "signed"

    @property
    def ctype(self):
        """The C++ type of a value of this type while it is computed with."""
        if self.kind == "pred":
            return "bool"
        if self.kind == "float":
            return {32: "float", 64: "double"}[self.bits]
        return ("int" if self.kind == "signed" else "uint") + f"{self.bits}_t"

    @property
    def storage(self):
        """The C++ type of a register of this type."""
        return "bool" if self.kind == "pred" else f"uint{max(self.bits, 8)}_t"


def make_types():
    types = [Type("pred", "pred", 1)]
    for bits in (8, 16, 32, 64):
        types.append(Type(f"b{bits}", "bits", bits))
        types.append(Type(f"u{bits}", "unsigned", bits))
        types.append(Type(f"s{bits}", "signed", bits))
    types += [Type("f32", "float", 32), Type("f64", "float", 64)]
    types += [Type("f16", "half", 16), Type("bf16", "half", 16)]
    types += [Type("f16x2", "packed", 32), Type("bf16x2", "packed", 32)]
    types += [Type("u16x2", "packed", 32), Type("s16x2", "packed", 32)]
    types += [Type("e4m3x2", "packed", 16), Type("e5m2x2", "packed", 16), Type("tf32", "bits", 32)]
    return {t.name: t for t in types}


TYPES = make_types()


def bits_type(bits):
    return TYPES[f"b{bits}"]


def unsigned_of(t):
    return TYPES[f"u{t.bits}"]


def wide_of(t):
    return TYPES[t.name[0] + str(2 * t.bits)]
