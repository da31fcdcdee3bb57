"""opcode_table.py -- the table of the opcode tests: PTX text, operands, what must come out.

A case is one short piece of PTX that reads %a, %b, %c, %d and writes %q, the types of these
registers, a list of operands, and a Python function of the operands' bits. Results are compared
bit by bit; NaNs as NaNs where the case says so; approximations within some units of the last place.

SPDX-License-Identifier: MIT
"""
import itertools
import random
from dataclasses import dataclass

import float_model as fm

RNG = random.Random(20240607)
F = fm.FORMATS


@dataclass
class Case:
    name: str
    code: str       # with %q, %a, ...
    out: str        # b16, b32, b64, pred
    ins: tuple      # of the same
    operands: list  # of tuples of bits
    ref: object     # bits, ... -> bits
    any_nan: str = ""  # format in which any NaN will do
    ulps: int = 0


CASES = []


def mask(bits):
    return (1 << bits) - 1


def sx(u, bits):
    return u - (1 << bits) if u >> (bits - 1) & 1 else u


def width(t):
    return 1 if t == "pred" else int("".join(c for c in t if c.isdigit())[:2])


def reg(t):
    """The register type for a PTX type name."""
    if t == "pred" or t[0] == "b" and t != "bf16" and t != "bf16x2":
        return t
    return {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32", "u16x2": "b32",
            "s16x2": "b32", "tf32": "b32"}.get(t) or f"b{width(t)}"


# ---- operands ----
def int_values(bits, extra=()):
    m = mask(bits)
    edge = [0, 1, 2, 3, 7, 8, m, m - 1, m >> 1, (m >> 1) + 1, (m >> 1) + 2, 0x55555555 & m,
            0x80 & m, 0xff & m, 0x7fff & m, 0x8000 & m]
    return edge + [RNG.getrandbits(bits) for _ in range(6)] + [x & m for x in extra]


FLOATS = {
    "f32": [0, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00001, 0x7f800001,
            1, 0x80000001, 0x007fffff, 0x00800000, 0x80800000, 0x7f7fffff, 0xff7fffff, 0x3f000000,
            0x3fc00000, 0x40200000, 0xbf000000, 0x3effffff, 0x4b7fffff, 0x4b800001, 0x477fefff,
            0x477ff000, 0x33000000, 0x33000001, 0x387fe000, 0x4f000000, 0xcf000001, 0x5f800000,
            0x437f0001, 0x43e80000, 0x46fffe00],
    "f64": [0, 1 << 63, 0x3ff0000000000000, 0xbff0000000000000, 0x7ff0000000000000,
            0xfff0000000000000, 0x7ff8000000000001, 1, 0x000fffffffffffff, 0x0010000000000000,
            0x7fefffffffffffff, 0x3fe0000000000000, 0x4004000000000000, 0x36a0000000000000,
            0x36a0000000000001, 0x47efffffe0000000, 0x47effffff0000000, 0x380fffffffffffff,
            0x41dfffffffc00000, 0xc1e0000000000000, 0x43e0000000000000, 0x3ff0000010000000],
    "f16": [0, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e01, 1, 0x8001, 0x03ff, 0x0400, 0x7bff,
            0xfbff, 0x3800, 0x3e00, 0x4100, 0x0200, 0x3555, 0x6400],
    "bf16": [0, 0x8000, 0x3f80, 0xbf80, 0x7f80, 0xff80, 0x7fc1, 1, 0x8001, 0x007f, 0x0080, 0x7f7f,
             0xff7f, 0x3f00, 0x3fc0, 0x4020, 0x0040, 0x3eab, 0x4380],
}


def float_values(t):
    f = F[t]
    out = list(FLOATS[t])
    for _ in range(4):  # of ordinary size
        out.append(RNG.getrandbits(1) << f.bits - 1 | (f.bias + RNG.randint(-4, 4)) << f.p - 1
                   | RNG.getrandbits(f.p - 1))
    return out


def values(t):
    if t == "pred":
        return [0, 1]
    if t in F:
        return float_values(t)
    return int_values(width(t))


def operands(ins, limit=400):
    lists = [values(t) if isinstance(t, str) else t for t in ins]
    total = 1
    for x in lists:
        total *= len(x)
    if total <= 2 * limit:
        return list(itertools.product(*lists))
    return [tuple(RNG.choice(x) for x in lists) for _ in range(limit)]


def case(name, code, out, ins, ref, **more):
    """`ins`: PTX types that say both register and operands, or (type, values)."""
    types = tuple(reg(t if isinstance(t, str) else t[0]) for t in ins)
    lists = [t if isinstance(t, str) else t[1] for t in ins]
    CASES.append(Case(name, code, reg(out), types, operands(lists), ref, **more))


def op(text, out, ins, ref, **more):
    args = ", ".join(["%q"] + ["%" + c for c in "abcd"[:len(ins)]])
    case(text, f"{text} {args};", out, ins, ref, **more)


# ---- integers ----
def signed_or_not(t):
    bits = width(t)
    return (lambda u: sx(u, bits)) if t[0] == "s" else (lambda u: u)


def integer(name, t, fn, count=2, out=None):
    val, m = signed_or_not(t), mask(width(out or t))
    op(f"{name}.{t}", out or t, (t,) * count, lambda *u: fn(*(val(x) for x in u)) & m)


def trunc_div(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


ALL_INTS = ("u16", "u32", "u64", "s16", "s32", "s64")
for T in ALL_INTS:
    W = width(T)
    integer("add", T, lambda a, b: a + b)
    integer("sub", T, lambda a, b: a - b)
    integer("mul.lo", T, lambda a, b: a * b)
    integer("mul.hi", T, lambda a, b, w=W: (a * b) >> w)
    integer("mad.lo", T, lambda a, b, c: a * b + c, 3)
    integer("mad.hi", T, lambda a, b, c, w=W: ((a * b) >> w) + c, 3)
    integer("min", T, min)
    integer("max", T, max)
    integer("sad", T, lambda a, b, c: abs(a - b) + c, 3)
    NONZERO = [x for x in int_values(W) if x]
    for NAME, FN in (("div", trunc_div), ("rem", lambda a, b: a - trunc_div(a, b) * b)):
        VAL = signed_or_not(T)
        op(f"{NAME}.{T}", T, (T, (T, NONZERO)),
           lambda a, b, fn=FN, val=VAL, w=W: fn(val(a), val(b)) & mask(w))
    if W < 64:
        WIDE = T[0] + str(2 * W)
        integer("mul.wide", T, lambda a, b: a * b, out=WIDE)
        VAL, WVAL = signed_or_not(T), signed_or_not(WIDE)
        op(f"mad.wide.{T}", WIDE, (T, T, WIDE),
           lambda a, b, c, v=VAL, w=2 * W: (v(a) * v(b) + c) & mask(w))
    if T[0] == "s":
        integer("abs", T, abs, 1)
        integer("neg", T, lambda a: -a, 1)
for T in ("u32", "s32"):
    VAL = signed_or_not(T)

    def low24(x, t=T):
        x &= 0xffffff
        return sx(x, 24) if t[0] == "s" else x
    op(f"mul24.lo.{T}", T, (T, T), lambda a, b, f=low24: f(a) * f(b) & mask(32))
    op(f"mul24.hi.{T}", T, (T, T), lambda a, b, f=low24: f(a) * f(b) >> 16 & mask(32))
    op(f"mad24.lo.{T}", T, (T, T, T), lambda a, b, c, f=low24: f(a) * f(b) + c & mask(32))


def saturate(x, bits=32, is_signed=True):
    lo, hi = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, mask(bits))
    return max(lo, min(hi, x)) & mask(bits)


op("add.sat.s32", "s32", ("s32", "s32"), lambda a, b: saturate(sx(a, 32) + sx(b, 32)))
op("sub.sat.s32", "s32", ("s32", "s32"), lambda a, b: saturate(sx(a, 32) - sx(b, 32)))
op("min.relu.s32", "s32", ("s32", "s32"), lambda a, b: max(0, min(sx(a, 32), sx(b, 32))))
op("max.relu.s32", "s32", ("s32", "s32"), lambda a, b: max(0, max(sx(a, 32), sx(b, 32))))
HALVES = "mov.b64 {%lo, %hi}, %a; mov.b64 {%lo2, %hi2}, %b; "
case("add.cc and addc", HALVES + "add.cc.u32 %lo, %lo, %lo2; addc.u32 %hi, %hi, %hi2; "
     "mov.b64 %q, {%lo, %hi};", "b64", ("b64", "b64"), lambda a, b: (a + b) & mask(64))
case("sub.cc and subc", HALVES + "sub.cc.u32 %lo, %lo, %lo2; subc.u32 %hi, %hi, %hi2; "
     "mov.b64 %q, {%lo, %hi};", "b64", ("b64", "b64"), lambda a, b: (a - b) & mask(64))
case("addc.cc", "add.cc.u32 %lo, %a, %b; addc.cc.u32 %lo, %a, %b; addc.u32 %hi, 0, 0; "
     "mov.b64 %q, {%lo, %hi};", "b64", ("b32", "b32"),
     lambda a, b: a + b + (a + b >> 32))
case("mad.lo.cc and madc.hi", "mad.lo.cc.u32 %lo, %a, %b, %c; madc.hi.u32 %hi, %a, %b, 0; "
     "mov.b64 %q, {%lo, %hi};", "b64", ("u32", "u32", "u32"), lambda a, b, c: a * b + c)


def lanes(fn, t):
    val = (lambda u: sx(u, 16)) if t[0] == "s" else (lambda u: u)

    def both(a, b):
        lo = fn(val(a & 0xffff), val(b & 0xffff)) & 0xffff
        return lo | (fn(val(a >> 16), val(b >> 16)) & 0xffff) << 16
    return both


for T in ("u16x2", "s16x2"):
    op(f"add.{T}", T, ("b32", "b32"), lanes(lambda a, b: a + b, T))
    op(f"min.{T}", T, ("b32", "b32"), lanes(min, T))
    op(f"max.{T}", T, ("b32", "b32"), lanes(max, T))

# ---- bits ----
for T in ("b16", "b32", "b64"):
    M = mask(width(T))
    op(f"and.{T}", T, (T, T), lambda a, b: a & b)
    op(f"or.{T}", T, (T, T), lambda a, b: a | b)
    op(f"xor.{T}", T, (T, T), lambda a, b: a ^ b)
    op(f"not.{T}", T, (T,), lambda a, m=M: a ^ m)
    op(f"cnot.{T}", T, (T,), lambda a: int(a == 0))
    SHIFTS = ("u32", [0, 1, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 0xffffffff])
    op(f"shl.{T}", T, (T, SHIFTS), lambda a, n, m=M: 0 if n > 64 else a << n & m)
    op(f"shr.u{width(T)}", T, (T, SHIFTS), lambda a, n: 0 if n > 64 else a >> n)
    op(f"shr.s{width(T)}", T, (T, SHIFTS),
       lambda a, n, w=width(T): sx(a, w) >> min(n, 64) & mask(w))
for NAME, FN in (("and", lambda a, b: a & b), ("or", lambda a, b: a | b),
                 ("xor", lambda a, b: a ^ b)):
    op(f"{NAME}.pred", "pred", ("pred", "pred"), FN)
op("not.pred", "pred", ("pred",), lambda a: 1 - a)
for T in ("b32", "b64"):
    W = width(T)
    op(f"popc.{T}", "u32", (T,), lambda a: bin(a).count("1"))
    op(f"clz.{T}", "u32", (T,), lambda a, w=W: w - a.bit_length())
    op(f"brev.{T}", T, (T,), lambda a, w=W: int(f"{a:0{w}b}"[::-1], 2))
POSITIONS = ("u32", [0, 1, 5, 15, 16, 31, 32, 33, 63, 64, 200, 255, 256, 300])
for T in ("u32", "s32", "u64", "s64"):
    W = width(T)

    def bfind(a, t=T, w=W):
        v = ~a & mask(w) if t[0] == "s" and a >> w - 1 else a
        return (v.bit_length() - 1) & mask(32)

    def bfe(a, pos, n, t=T, w=W):
        pos, n = pos & 255, n & 255
        sign = a >> min(pos + n - 1, w - 1) & 1 if t[0] == "s" and n else 0
        bits = [(a >> pos + i & 1) if i < n and pos + i < w else sign for i in range(w)]
        return sum(b << i for i, b in enumerate(bits))
    op(f"bfind.{T}", "u32", (T,), bfind)
    op(f"bfind.shiftamt.{T}", "u32", (T,),
       lambda a, f=bfind, w=W: f(a) if f(a) == mask(32) else w - 1 - f(a))
    op(f"bfe.{T}", T, (T, POSITIONS, POSITIONS), bfe)
for T in ("b32", "b64"):
    def bfi(a, b, pos, n, w=width(T)):
        pos, n = pos & 255, n & 255
        for i in range(n):
            if pos + i < w:
                b = b & ~(1 << pos + i) | (a >> i & 1) << pos + i
        return b
    op(f"bfi.{T}", T, (T, T, POSITIONS, POSITIONS), bfi)
for MODE in ("clamp", "wrap"):
    def limit(n, mode=MODE):
        return n & 31 if mode == "wrap" else min(n, 32)
    op(f"bmsk.{MODE}.b32", "b32", (POSITIONS, POSITIONS),
       lambda a, b, f=limit: mask(f(b)) << f(a) & mask(32))
    op(f"szext.{MODE}.u32", "u32", ("u32", POSITIONS), lambda a, n, f=limit: a & mask(f(n)))
    op(f"szext.{MODE}.s32", "s32", ("s32", POSITIONS),
       lambda a, n, f=limit: sx(a & mask(f(n)), f(n)) & mask(32) if f(n) else 0)
    op(f"shf.l.{MODE}.b32", "b32", ("b32", "b32", POSITIONS),
       lambda a, b, n, f=limit: (b << 32 | a) << f(n) >> 32 & mask(32))
    op(f"shf.r.{MODE}.b32", "b32", ("b32", "b32", POSITIONS),
       lambda a, b, n, f=limit: (b << 32 | a) >> f(n) & mask(32))
for TABLE in (0x00, 0x80, 0xe8, 0x96, 0x3c, 0xca, 0xff, 0x1d):
    case(f"lop3.b32 {TABLE:#x}", f"lop3.b32 %q, %a, %b, %c, {TABLE:#x};", "b32",
         ("b32", "b32", "b32"),
         lambda a, b, c, t=TABLE: sum((t >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1))
                                       & 1) << i for i in range(32)))


def prmt(a, b, sel):
    out = 0
    for i in range(4):
        s = sel >> 4 * i & 15
        byte = (b << 32 | a) >> 8 * (s & 7) & 255
        out |= ((255 if byte & 128 else 0) if s & 8 else byte) << 8 * i
    return out


op("prmt.b32", "b32", ("b32", "b32", "b32"), prmt)
for MODE, ROWS in (("f4e", (0x3210, 0x4321, 0x5432, 0x6543)),
                   ("b4e", (0x5670, 0x6701, 0x7012, 0x0123)),
                   ("rc8", (0x0000, 0x1111, 0x2222, 0x3333)),
                   ("ecl", (0x3210, 0x3211, 0x3222, 0x3333)),
                   ("ecr", (0x0000, 0x1110, 0x2210, 0x3210)),
                   ("rc16", (0x1010, 0x3232, 0x1010, 0x3232))):
    op(f"prmt.b32.{MODE}", "b32", ("b32", "b32", "b32"),
       lambda a, b, c, rows=ROWS: prmt(a, b, rows[c & 3]))


def parts(u, count, bits, is_signed):
    each = [u >> bits * i & mask(bits) for i in range(count)]
    return [sx(x, bits) for x in each] if is_signed else each


for TA, TB in itertools.product("us", "us"):
    op(f"dp4a.{TA}32.{TB}32", "b32", ("b32", "b32", "b32"),
       lambda a, b, c, s=TA == "s", t=TB == "s":
       c + sum(x * y for x, y in zip(parts(a, 4, 8, s), parts(b, 4, 8, t))) & mask(32))
    for HALF, START in (("lo", 0), ("hi", 2)):
        op(f"dp2a.{HALF}.{TA}32.{TB}32", "b32", ("b32", "b32", "b32"),
           lambda a, b, c, s=TA == "s", t=TB == "s", n=START:
           c + sum(x * y for x, y in zip(parts(a, 2, 16, s), parts(b, 4, 8, t)[n:])) & mask(32))

# ---- comparing and selecting ----
INT_COMPARE = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
               "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}
for T in ALL_INTS + ("b16", "b32", "b64"):
    VAL = signed_or_not(T)
    for NAME, FN in INT_COMPARE.items():
        if T[0] != "b" or NAME in ("eq", "ne"):
            op(f"setp.{NAME}.{T}", "pred", (T, T),
               lambda a, b, fn=FN, val=VAL: int(fn(val(a), val(b))))
for NAME, SAME in (("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge")):
    op(f"setp.{NAME}.u32", "pred", ("u32", "u32"),
       lambda a, b, fn=INT_COMPARE[SAME]: int(fn(a, b)))


def float_compare(name, t, ftz=False):
    f = F[t]
    base = name[:-1] if name[-1] == "u" and len(name) == 3 else name

    def ref(a, b):
        if ftz:
            a, b = fm.flush(f, a), fm.flush(f, b)
        x, y = f.decode(a), f.decode(b)
        unordered = fm.NAN in (x, y)
        if name in ("num", "nan"):
            return int(unordered == (name == "nan"))
        if unordered:
            return int(len(name) == 3)
        ka, kb = (0 if fm.is_zero(v) else fm.order(f, u) for v, u in ((x, a), (y, b)))
        return int(INT_COMPARE[base](ka, kb))
    return ref


FLOAT_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu",
                 "num", "nan")
for NAME in FLOAT_COMPARE:
    for T in ("f32", "f64", "f16", "bf16"):
        op(f"setp.{NAME}.{T}", "pred", (T, T), float_compare(NAME, T))
    op(f"setp.{NAME}.ftz.f32", "pred", ("f32", "f32"), float_compare(NAME, "f32", True))
for NAME, FN in (("and", lambda x, y: x & y), ("or", lambda x, y: x | y),
                 ("xor", lambda x, y: x ^ y)):
    case(f"setp.lt.{NAME}.s32", f"setp.lt.{NAME}.s32 %q, %a, %b, %c;", "pred",
         ("s32", "s32", "pred"), lambda a, b, c, fn=FN: fn(int(sx(a, 32) < sx(b, 32)), c))
    case(f"setp.lt.{NAME}.s32 p|q, !r",
         f"setp.lt.{NAME}.s32 %p1|%p2, %a, %b, !%c; selp.u32 %lo, 1, 0, %p1; "
         "selp.u32 %hi, 2, 0, %p2; or.b32 %q, %lo, %hi;", "b32", ("s32", "s32", "pred"),
         lambda a, b, c, fn=FN: fn(int(sx(a, 32) < sx(b, 32)), 1 - c)
         + 2 * fn(int(sx(a, 32) >= sx(b, 32)), 1 - c))
case("setp.lt.f16x2", "setp.lt.f16x2 %p1|%p2, %a, %b; selp.u32 %lo, 1, 0, %p1; "
     "selp.u32 %hi, 2, 0, %p2; or.b32 %q, %lo, %hi;", "b32",
     (("b32", [x | y << 16 for x, y in itertools.product(FLOATS["f16"][:9:2], repeat=2)]),) * 2,
     lambda a, b: float_compare("lt", "f16")(a & 0xffff, b & 0xffff)
     + 2 * float_compare("lt", "f16")(a >> 16, b >> 16))
for T in ("b16", "b32", "b64", "f32", "f64"):
    op(f"selp.{T}", T, (T, T, "pred"), lambda a, b, p: a if p else b)
op("slct.b32.s32", "b32", ("b32", "b32", "s32"), lambda a, b, c: b if c >> 31 else a)
op("slct.u64.s32", "u64", ("u64", "u64", "s32"), lambda a, b, c: b if c >> 31 else a)
op("slct.f32.f32", "f32", ("f32", "f32", "f32"),
   lambda a, b, c: a if float_compare("ge", "f32")(c, 0) else b)
op("set.lt.u32.s32", "u32", ("s32", "s32"),
   lambda a, b: mask(32) if sx(a, 32) < sx(b, 32) else 0)
op("set.gtu.f32.f32", "f32", ("f32", "f32"),
   lambda a, b: 0x3f800000 if float_compare("gtu", "f32")(a, b) else 0)
for T, BIT in (("f16", 0x3c00), ("bf16", 0x3f80)):
    REF = float_compare("gtu", T)
    op(f"set.gtu.{T}.{T}", T, (T, T), lambda a, b, r=REF, one=BIT: one * r(a, b))
    PAIRS = ("b32", [x | y << 16 for x, y in zip(FLOATS[T], reversed(FLOATS[T]))])
    op(f"set.gtu.{T}x2.{T}x2", "b32", (PAIRS, PAIRS),
       lambda a, b, r=REF, one=BIT: one * r(a & 0xffff, b & 0xffff)
       | one * r(a >> 16, b >> 16) << 16)
