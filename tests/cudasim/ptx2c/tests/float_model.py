"""float_model.py -- floating point by exact rational numbers: what the opcode tests compare with.

A value is ("nan",), ("inf", sign) or ("num", sign, magnitude) with a Fraction; a result is computed
exactly and rounded once. Nothing here is shared with the translator or its C++ headers.

SPDX-License-Identifier: MIT
"""
from fractions import Fraction
from math import isqrt

NAN = ("nan",)


class Format:
    def __init__(self, name, bits, precision, nan):
        self.name, self.bits, self.p, self.nan = name, bits, precision, nan
        self.exp_bits = bits - precision
        self.bias = (1 << (self.exp_bits - 1)) - 1
        self.emin = 1 - self.bias
        self.sign_bit = 1 << (bits - 1)
        self.inf = ((1 << self.exp_bits) - 1) << (precision - 1)
        self.max = self.inf - 1

    def decode(self, u):
        sign, e, m = u >> (self.bits - 1), (u & self.inf) >> (self.p - 1), u & ((1 << (self.p - 1)) - 1)
        if e == (1 << self.exp_bits) - 1:
            return NAN if m else ("inf", sign)
        if e == 0:
            return ("num", sign, Fraction(m) * power(self.emin - self.p + 1))
        return ("num", sign, Fraction(m + (1 << (self.p - 1))) * power(e - self.bias - self.p + 1))

    def encode(self, v, mode="rn"):
        if v == NAN:
            return self.nan
        sign = v[1] << (self.bits - 1)
        if v[0] == "inf":
            return sign | self.inf
        u = self.magnitude(v[2], v[1], mode)
        if u >= self.inf:  # to the largest number where the direction does not lead to infinity
            up = mode in ("rn", "rna") or mode == "rm" and v[1] or mode == "rp" and not v[1]
            u = self.inf if up else self.max
        return sign | u

    def magnitude(self, x, negative, mode):
        """Bits of |x|, with the exponent running past the largest number."""
        if x == 0:
            return 0
        e = max(exponent(x), self.emin)
        scaled = x / power(e - self.p + 1)
        whole = scaled.numerator // scaled.denominator
        rest = scaled - whole
        half = Fraction(1, 2)
        up = {"rn": rest > half or rest == half and whole & 1, "rna": rest >= half, "rz": False,
              "rm": negative and rest > 0, "rp": not negative and rest > 0}[mode]
        whole += bool(up)
        if whole < 1 << (self.p - 1):
            return whole  # subnormal
        return whole + ((e - self.emin) << (self.p - 1))


def power(e):
    return Fraction(1 << e) if e >= 0 else Fraction(1, 1 << -e)


def exponent(x):
    """floor(log2(x))"""
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if power(e) <= x else e - 1


F16 = Format("f16", 16, 11, 0x7fff)
BF16 = Format("bf16", 16, 8, 0x7fff)
F32 = Format("f32", 32, 24, 0x7fffffff)
F64 = Format("f64", 64, 53, 0x7fffffffffffffff)
FORMATS = {f.name: f for f in (F16, BF16, F32, F64)}


def make(x, sign=0):
    """A value from a signed rational; `sign` is that of zero."""
    return ("num", 1, -x) if x < 0 else ("num", 0, x) if x > 0 else ("num", sign, Fraction(0))


def signed(v):
    return -v[2] if v[1] else v[2]


def neg(v):
    return v if v == NAN else (v[0], 1 - v[1], *v[2:])


def add(a, b, mode="rn"):
    if NAN in (a, b) or a[0] == b[0] == "inf" and a[1] != b[1]:
        return NAN
    if a[0] == "inf" or b[0] == "inf":
        return a if a[0] == "inf" else b
    total = signed(a) + signed(b)
    if total == 0:
        same = a[2] == b[2] == 0 and a[1] == b[1]
        return ("num", a[1] if same else int(mode == "rm"), Fraction(0))
    return make(total)


def mul(a, b):
    if NAN in (a, b):
        return NAN
    sign = a[1] ^ b[1]
    if "inf" in (a[0], b[0]):
        return NAN if is_zero(a) or is_zero(b) else ("inf", sign)
    return ("num", sign, a[2] * b[2])


def fma(a, b, c, mode="rn"):
    return add(mul(a, b), c, mode)


def div(a, b):
    if NAN in (a, b) or a[0] == b[0] == "inf" or is_zero(a) and is_zero(b):
        return NAN
    sign = a[1] ^ b[1]
    if a[0] == "inf" or is_zero(b):
        return ("inf", sign)
    return ("num", sign, Fraction(0) if b[0] == "inf" else a[2] / b[2])


def sqrt(a):
    if a == NAN or a[1] and not is_zero(a):
        return NAN
    if a[0] == "inf" or is_zero(a):
        return a
    # 120 bits of the root; a half of the last one more when it is not exact.
    shift = 2 * 600
    n = a[2].numerator * (1 << shift) // a[2].denominator
    root = isqrt(n)
    exact = root * root == n and n * a[2].denominator == a[2].numerator << shift
    return ("num", 0, (Fraction(root) + (0 if exact else Fraction(1, 2))) / (1 << shift // 2))


def is_zero(v):
    return v[0] == "num" and v[2] == 0


def flush(f, u):
    """Subnormal bits become a zero of their sign."""
    return u & f.sign_bit if u & f.inf == 0 else u


def order(f, u):
    """A key that orders the numbers of a format, -0 below +0."""
    return -(u & ~f.sign_bit) - 1 if u & f.sign_bit else u


def to_int(v, bits, is_signed, mode, wide_nan):
    """Saturating conversion; `wide_nan`: one of the two types has 64 bits."""
    lo, hi = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    if v == NAN:
        return 1 << bits - 1 if wide_nan else 0
    if v[0] == "inf":
        return (lo if v[1] else hi) & ((1 << bits) - 1)
    return max(lo, min(hi, integral(signed(v), mode))) & ((1 << bits) - 1)


def integral(x, mode):
    floor = x.numerator // x.denominator
    rest = x - floor
    if mode == "rzi":
        return floor + (x < 0 and rest > 0)
    if mode == "rmi":
        return floor
    if mode == "rpi":
        return floor + (rest > 0)
    half = Fraction(1, 2)
    return floor + (rest > half or rest == half and floor & 1)
