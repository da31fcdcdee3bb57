"""opcode_table_float.py -- the floating-point, conversion and memory cases of the opcode tests.

SPDX-License-Identifier: MIT
"""
import itertools
import math
import struct

import float_model as fm
from opcode_table import F, case, float_values, mask, op, saturate, signed_or_not, sx, values, width

MODES = ("rn", "rz", "rm", "rp")
ONE = {"f32": 0x3f800000, "f64": 0x3ff0000000000000, "f16": 0x3c00, "bf16": 0x3f80}


def clamp01(f, u):
    v = f.decode(u)
    if v == fm.NAN or v[1]:
        return 0
    return ONE[f.name] if v[0] == "inf" or v[2] > 1 else u


def arithmetic(t, fn, mode="rn", ftz=False, sat=False, relu=False):
    """The reference of an operation: decode, compute exactly, round."""
    f = F[t]

    def ref(*u):
        if ftz:
            u = [fm.flush(f, x) for x in u]
        out = f.encode(fn(*(f.decode(x) for x in u), mode), mode)
        if relu and out & f.sign_bit and f.decode(out) != fm.NAN:
            out = 0
        if sat:
            out = clamp01(f, out)
        return fm.flush(f, out) if ftz else out
    return ref


BINARY = {"add": fm.add, "sub": lambda a, b, m: fm.add(a, fm.neg(b), m),
          "mul": lambda a, b, m: fm.mul(a, b)}

# ---- f32 and f64 ----
for NAME, FN in BINARY.items():
    op(f"{NAME}.f64", "f64", ("f64", "f64"), arithmetic("f64", FN), any_nan="f64")
    op(f"{NAME}.f32", "f32", ("f32", "f32"), arithmetic("f32", FN), any_nan="f32")
    op(f"{NAME}.ftz.sat.f32", "f32", ("f32", "f32"),
       arithmetic("f32", FN, ftz=True, sat=True), any_nan="f32")
    for MODE in MODES:
        op(f"{NAME}.{MODE}.f32", "f32", ("f32", "f32"), arithmetic("f32", FN, MODE),
           any_nan="f32")
        op(f"{NAME}.{MODE}.ftz.f32", "f32", ("f32", "f32"),
           arithmetic("f32", FN, MODE, ftz=True), any_nan="f32")
for MODE in MODES:
    op(f"fma.{MODE}.f32", "f32", ("f32",) * 3, arithmetic("f32", fm.fma, MODE), any_nan="f32")
    op(f"fma.{MODE}.ftz.f32", "f32", ("f32",) * 3, arithmetic("f32", fm.fma, MODE, ftz=True),
       any_nan="f32")
    op(f"div.{MODE}.f32", "f32", ("f32",) * 2,
       arithmetic("f32", lambda a, b, m: fm.div(a, b), MODE), any_nan="f32")
    op(f"rcp.{MODE}.f32", "f32", ("f32",),
       arithmetic("f32", lambda a, m: fm.div(F["f32"].decode(ONE["f32"]), a), MODE), any_nan="f32")
    op(f"sqrt.{MODE}.f32", "f32", ("f32",), arithmetic("f32", lambda a, m: fm.sqrt(a), MODE),
       any_nan="f32")
    op(f"sqrt.{MODE}.ftz.f32", "f32", ("f32",),
       arithmetic("f32", lambda a, m: fm.sqrt(a), MODE, ftz=True), any_nan="f32")
op("fma.rn.sat.f32", "f32", ("f32",) * 3, arithmetic("f32", fm.fma, sat=True))
op("fma.rn.f64", "f64", ("f64",) * 3, arithmetic("f64", fm.fma), any_nan="f64")
op("div.rn.f64", "f64", ("f64",) * 2, arithmetic("f64", lambda a, b, m: fm.div(a, b)),
   any_nan="f64")
op("sqrt.rn.f64", "f64", ("f64",), arithmetic("f64", lambda a, m: fm.sqrt(a)), any_nan="f64")


def sign_op(t, fn, ftz=False):
    f = F[t]
    return lambda a: fn(fm.flush(f, a) if ftz else a, f.sign_bit)


for T in ("f32", "f64", "f16", "bf16"):
    op(f"neg.{T}", T, (T,), sign_op(T, lambda a, s: a ^ s), any_nan=T)
    op(f"abs.{T}", T, (T,), sign_op(T, lambda a, s: a & ~s), any_nan=T)
op("neg.ftz.f32", "f32", ("f32",), sign_op("f32", lambda a, s: a ^ s, True), any_nan="f32")
for T in ("f32", "f64"):
    op(f"copysign.{T}", T, (T, T),
       lambda a, b, s=F[T].sign_bit: a & s | b & ~s)


def min_max(t, name, nan_wins=False, xorsign=False, ftz=False):
    f = F[t]
    pick = min if name == "min" else max

    def ref(a, b):
        if ftz:
            a, b = fm.flush(f, a), fm.flush(f, b)
        sign = (a ^ b) & f.sign_bit
        nans = [f.decode(x) == fm.NAN for x in (a, b)]
        if all(nans) or nan_wins and any(nans):
            return f.nan
        if xorsign:
            a, b = a & ~f.sign_bit, b & ~f.sign_bit
        out = b if nans[0] else a if nans[1] else pick(a, b, key=lambda u: fm.order(f, u))
        return out & ~f.sign_bit | sign if xorsign else out
    return ref


for NAME, T in itertools.product(("min", "max"), ("f32", "f64", "f16", "bf16")):
    op(f"{NAME}.{T}", T, (T, T), min_max(T, NAME))
    if T != "f64":
        op(f"{NAME}.NaN.{T}", T, (T, T), min_max(T, NAME, True))
        op(f"{NAME}.xorsign.abs.{T}", T, (T, T), min_max(T, NAME, xorsign=True), any_nan=T)
op("max.ftz.f32", "f32", ("f32", "f32"), min_max("f32", "max", ftz=True))
op("max.ftz.NaN.f32", "f32", ("f32", "f32"), min_max("f32", "max", True, ftz=True))
for NAME, TEST in (("finite", lambda f, v, u: v[0] == "num"),
                   ("infinite", lambda f, v, u: v[0] == "inf"),
                   ("number", lambda f, v, u: v != fm.NAN),
                   ("notanumber", lambda f, v, u: v == fm.NAN),
                   ("normal", lambda f, v, u: v[0] == "num" and u & f.inf != 0),
                   ("subnormal", lambda f, v, u: v[0] == "num" and u & f.inf == 0 and v[2] != 0)):
    for T in ("f32", "f64"):
        op(f"testp.{NAME}.{T}", "pred", (T,),
           lambda a, f=F[T], test=TEST: int(test(f, f.decode(a), a)))


# ---- approximations: libm's value, two units of the last place allowed ----
def approximate(fn, t="f32", ftz=False):
    f = F[t]

    def ref(a):
        a = fm.flush(f, a) if ftz else a
        v = f.decode(a)
        x = math.nan if v == fm.NAN else math.inf * (1 - 2 * v[1]) if v[0] == "inf" else \
            math.copysign(float(v[2]), -1 if v[1] else 1)
        try:
            y = fn(x)
        except OverflowError:
            y = math.inf
        except (ValueError, ZeroDivisionError):
            y = math.nan
        out = f.encode(F["f64"].decode(struct.unpack("<Q", struct.pack("<d", y))[0]))
        return fm.flush(f, out) if ftz else out
    return ref


def log2(x):
    return -math.inf if x == 0 else math.log2(x)


def rsqrt(x):
    return math.copysign(math.inf, x) if x == 0 else 1 / math.sqrt(x)


def rcp(x):
    return math.copysign(math.inf, x) if x == 0 else 1 / x


for NAME, FN in (("ex2", lambda x: 2.0 ** x), ("lg2", log2), ("rsqrt", rsqrt), ("rcp", rcp),
                 ("sqrt", math.sqrt), ("sin", math.sin), ("cos", math.cos)):
    for FTZ in (False, True):
        op(f"{NAME}.approx{'.ftz' if FTZ else ''}.f32", "f32", ("f32",),
           approximate(FN, ftz=FTZ), any_nan="f32", ulps=2)
op("tanh.approx.f32", "f32", ("f32",), approximate(math.tanh), any_nan="f32", ulps=2)
for T in ("f16", "bf16"):
    op(f"tanh.approx.{T}", T, (T,), approximate(math.tanh, T), any_nan=T, ulps=1)
op("ex2.approx.f16", "f16", ("f16",), approximate(lambda x: 2.0 ** x, "f16"), any_nan="f16", ulps=1)
op("ex2.approx.ftz.bf16", "bf16", ("bf16",), approximate(lambda x: 2.0 ** x, "bf16", True),
   any_nan="bf16", ulps=1)
op("rsqrt.approx.f64", "f64", ("f64",), approximate(rsqrt, "f64"), any_nan="f64", ulps=2)
for NAME in ("div.approx.f32", "div.full.f32"):
    op(NAME, "f32", ("f32", "f32"), arithmetic("f32", lambda a, b, m: fm.div(a, b)),
       any_nan="f32", ulps=2)

# ---- halves and pairs of halves ----
for T in ("f16", "bf16"):
    PAIRS = ("b32", [x | y << 16 for x, y in zip(values(T), reversed(values(T)))])
    SETS = [("", {}), (".relu", {"relu": True})] if T == "bf16" else \
        [("", {}), (".ftz", {"ftz": True}), (".sat", {"sat": True}), (".relu", {"relu": True})]
    for NAME, FN, COUNT in [(n, f, 2) for n, f in BINARY.items()] + [("fma.rn", fm.fma, 3)]:
        for MODS, FLAGS in SETS:
            if "relu" in FLAGS and NAME != "fma.rn":
                continue
            REF = arithmetic(T, FN, **FLAGS)
            op(f"{NAME}{MODS}.{T}", T, (T,) * COUNT, REF, any_nan=T)
            op(f"{NAME}{MODS}.{T}x2", "b32", (PAIRS,) * COUNT,
               lambda *u, r=REF: r(*(x & 0xffff for x in u)) | r(*(x >> 16 for x in u)) << 16,
               any_nan=T + "x2")
    for NAME in ("min", "max", "min.NaN", "max.NaN"):
        REF = min_max(T, NAME[:3], "NaN" in NAME)
        op(f"{NAME}.{T}x2", "b32", (PAIRS,) * 2,
           lambda a, b, r=REF: r(a & 0xffff, b & 0xffff) | r(a >> 16, b >> 16) << 16)
    op(f"neg.{T}x2", "b32", (PAIRS,), lambda a: a ^ 0x80008000)
    op(f"abs.{T}x2", "b32", (PAIRS,), lambda a: a & 0x7fff7fff)

# ---- conversions ----
INTS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")


def reg_values(t):
    """Operands for an integer source; 8 bits lie in a 16-bit register."""
    return ("b16", values("u8")) if t in ("u8", "s8") else t


for D, S in itertools.product(INTS, INTS):
    SRC_BITS, DST_BITS = width(S), width(D)
    VAL = signed_or_not(S)
    OUT = "b16" if DST_BITS == 8 else D
    OUT_BITS = max(DST_BITS, 16)

    def plain(a, d=D, val=VAL, sb=SRC_BITS, db=DST_BITS, ob=OUT_BITS):
        v = val(a & mask(sb)) & mask(db)
        return (sx(v, db) if d[0] == "s" else v) & mask(ob)

    def clipped(a, d=D, val=VAL, sb=SRC_BITS, db=DST_BITS, ob=OUT_BITS):
        v = saturate(val(a & mask(sb)), db, d[0] == "s")
        return (sx(v, db) if d[0] == "s" else v) & mask(ob)
    op(f"cvt.{D}.{S}", OUT, (reg_values(S),), plain)
    if DST_BITS < SRC_BITS or DST_BITS == SRC_BITS and D != S or D[0] == "u" and S[0] == "s":
        op(f"cvt.sat.{D}.{S}", OUT, (reg_values(S),), clipped)
for D, S, MODE in itertools.product(INTS[2:], ("f32", "f64", "f16"), ("rni", "rzi", "rmi", "rpi")):
    op(f"cvt.{MODE}.{D}.{S}", D, (S,),
       lambda a, d=D, s=S, m=MODE: fm.to_int(F[s].decode(a), width(d), d[0] == "s", m,
                                             s == "f64" or width(d) == 64))
op("cvt.rzi.ftz.s32.f32", "s32", ("f32",),
   lambda a: fm.to_int(F["f32"].decode(fm.flush(F["f32"], a)), 32, True, "rzi", False))
for D, S in itertools.product(("f32", "f64", "f16"), INTS):
    VAL = signed_or_not(S)
    for MODE in (MODES if D == "f32" or D == "f16" else ("rn",)):
        op(f"cvt.{MODE}.{D}.{S}", D, (reg_values(S),),
           lambda a, d=D, val=VAL, s=S, m=MODE: F[d].encode(
               fm.make(fm.Fraction(val(a & mask(width(s))))), m))
for MODE in ("rni", "rzi", "rmi", "rpi"):
    for T in ("f32", "f64", "f16"):
        def whole(a, t=T, m=MODE):
            v = F[t].decode(a)
            if v[0] != "num":
                return F[t].encode(v)
            return F[t].encode(fm.make(fm.Fraction(fm.integral(fm.signed(v), m)), v[1]))
        op(f"cvt.{MODE}.{T}.{T}", T, (T,), whole, any_nan=T)
op("cvt.sat.f32.f32", "f32", ("f32",), lambda a: clamp01(F["f32"], a))
op("cvt.f64.f32", "f64", ("f32",), lambda a: F["f64"].encode(F["f32"].decode(a)), any_nan="f64")
for S in ("f16", "bf16"):
    op(f"cvt.f32.{S}", "f32", (S,), lambda a, s=S: F["f32"].encode(F[s].decode(a)), any_nan="f32")
op("cvt.f64.f16", "f64", ("f16",), lambda a: F["f64"].encode(F["f16"].decode(a)), any_nan="f64")
for MODE in MODES:
    for D, S in (("f32", "f64"), ("f16", "f32"), ("f16", "f64")):
        op(f"cvt.{MODE}.{D}.{S}", D, (S,),
           lambda a, d=D, s=S, m=MODE: F[d].encode(F[s].decode(a), m), any_nan=D)


def to_half(t, mode, relu):
    def ref(a):
        v = F["f32"].decode(a)
        if relu and v != fm.NAN and v[1]:
            return 0
        return F[t].encode(v, mode)
    return ref


for T, MODE, RELU in itertools.product(("f16", "bf16"), ("rn", "rz"), ("", ".relu")):
    REF = to_half(T, MODE, RELU != "")
    if T == "bf16" or MODE == "rn" and RELU:
        op(f"cvt.{MODE}{RELU}.{T}.f32", T, ("f32",), REF)
    op(f"cvt.{MODE}{RELU}.{T}x2.f32", "b32", ("f32", "f32"),
       lambda a, b, r=REF: r(a) << 16 | r(b))
op("cvt.rna.tf32.f32", "b32", ("f32",),
   lambda a: fm.Format("tf32", 19, 11, 0).encode(F["f32"].decode(a), "rna") << 13
   if F["f32"].decode(a) != fm.NAN else 0x7fffffff)


def fp8_bits(v, precision):
    """By search: the nearest of all finite numbers of the format, ties to even, saturating."""
    if v == fm.NAN:
        return 0x7f
    table = FP8[precision]
    x = table[-1] if v[0] == "inf" else v[2]
    best = min(range(len(table)), key=lambda i: (abs(table[i] - x), i & 1))
    return v[1] << 7 | best


FP8 = {4: [F["f16"].decode((u & 0x7f) << 7)[2] * 256 for u in range(0x7f)],
       3: [F["f16"].decode(u << 8)[2] for u in range(0x7c)]}
FP8_FLOATS = ("f32", float_values("f32") + [0x43f00000, 0x43e00001, 0x43e80001, 0x3b000000,
                                            0x3a800000, 0x3ac00000, 0x3c7fffff, 0x4788000f])
for T, P in (("e4m3x2", 4), ("e5m2x2", 3)):
    op(f"cvt.rn.satfinite.{T}.f32", "b16", (FP8_FLOATS, FP8_FLOATS),
       lambda a, b, p=P: fp8_bits(F["f32"].decode(a), p) << 8 | fp8_bits(F["f32"].decode(b), p))
    op(f"cvt.rn.satfinite.relu.{T}.f32", "b16", (FP8_FLOATS, FP8_FLOATS),
       lambda a, b, p=P: sum((0 if v != fm.NAN and v[1] else fp8_bits(v, p)) << s
                             for v, s in ((F["f32"].decode(a), 8), (F["f32"].decode(b), 0))))
    HALF_PAIRS = ("b32", [x | y << 16 for x, y in zip(values("f16"), reversed(values("f16")))])
    op(f"cvt.rn.satfinite.{T}.f16x2", "b16", (HALF_PAIRS,),
       lambda a, p=P: fp8_bits(F["f16"].decode(a >> 16), p) << 8
       | fp8_bits(F["f16"].decode(a & 0xffff), p))

    def to_f16(u, p=P):
        if u & 0x7f >= len(FP8[p]):
            return (u & 0x80) << 8 | 0x7c00 if p == 3 and u & 0x7f == 0x7c else 0x7fff
        return F["f16"].encode(("num", u >> 7, FP8[p][u & 0x7f]))
    op(f"cvt.rn.f16x2.{T}", "b32", (("b16", [x | (x * 7 + 3 & 255) << 8 for x in range(256)]),),
       lambda a, f=to_f16: f(a & 255) | f(a >> 8) << 16, any_nan="f16x2")

# ---- moving ----
case("mov.b64 {lo, hi}", "mov.b64 {%lo, %hi}, %a; xor.b32 %lo, %lo, %hi; mov.b64 %q, {%hi, %lo};",
     "b64", ("b64",), lambda a: (a >> 32) | ((a ^ a >> 32) & mask(32)) << 32)
case("mov.b32 {h, h}", "mov.b32 {%h0, %h1}, %a; mov.b32 %q, {%h1, %h0};", "b32", ("b32",),
     lambda a: a >> 16 | (a & 0xffff) << 16)
case("mov.b32 {_, h}", "mov.b32 {_, %h1}, %a; cvt.u32.u16 %q, %h1;", "b32", ("b32",),
     lambda a: a >> 16)
case("mov.b32 immediates", "mov.b32 %lo, 0f40490FDB; mov.f32 %hi, -0.5; add.s32 %lo, %lo, -7; "
     "mov.b64 %q, {%lo, %hi};", "b64", (), lambda: 0xbf000000_40490fd4)
case("mov.f64 immediate", "mov.f64 %q, 0d400921FB54442D18;", "b64", (), lambda: 0x400921fb54442d18)

# ---- memory, control flow ----
SLOT = "shl.b32 %at, %index, 3; and.b32 %at, %at, 1016; mov.u32 %lo, shared_bytes; " \
    "add.s32 %at, %at, %lo; "
for T, VAL in (("u8", lambda u: u & 255), ("s8", lambda u: sx(u & 255, 8) & mask(32)),
               ("u16", lambda u: u & 0xffff), ("s16", lambda u: sx(u & 0xffff, 16) & mask(32)),
               ("u32", lambda u: u), ("b32", lambda u: u)):
    case(f"st.shared and ld.shared.{T}", SLOT + f"st.shared.b32 [%at], %a; ld.shared.{T} %q, [%at];",
         "b32", ("b32",), VAL)
    case(f"ld.shared.{T} with an offset", SLOT + f"st.shared.b32 [%at+4], %a; "
         f"ld.shared.{T} %q, [%at+4];", "b32", ("b32",), VAL)
case("st.u8", SLOT + "st.shared.b32 [%at], %a; st.shared.u8 [%at+1], %b; ld.shared.b32 %q, [%at];",
     "b32", ("b32", "b32"), lambda a, b: a & ~0xff00 | (b & 255) << 8)
case("ld.shared.v2", SLOT + "st.shared.v2.b32 [%at], {%a, %b}; ld.shared.v2.u32 {%lo, %hi}, [%at]; "
     "mov.b64 %q, {%hi, %lo};", "b64", ("b32", "b32"), lambda a, b: a << 32 | b)
case("generic address of shared memory", SLOT + "cvt.u64.u32 %wide, %at; cvta.shared.u64 %wide, "
     "%wide; st.b32 [%wide], %a; cvta.to.shared.u64 %wide, %wide; cvt.u32.u64 %lo, %wide; "
     "ld.shared.b32 %q, [%lo];", "b32", ("b32",), lambda a: a)
case("local array", "mov.u64 %wide, local_bytes; cvta.local.u64 %wide, %wide; "
     "st.local.v4.b32 [local_bytes], {%a, %b, %a, %b}; ld.b32 %lo, [%wide+8]; "
     "ld.local.b32 %hi, [local_bytes+4]; mov.b64 %q, {%lo, %hi};", "b64", ("b32", "b32"),
     lambda a, b: b << 32 | a)
case("ld.const", "and.b32 %lo, %a, 3; mul.wide.u32 %wide, %lo, 4; mov.u64 %q, const_table; "
     "add.s64 %wide, %wide, %q; ld.const.u32 %lo, [%wide]; ld.const.u32 %hi, [const_table+4]; "
     "mov.b64 %q, {%lo, %hi};", "b64", ("b32",),
     lambda a: (3, 0xffffffff, 0x3f800000, 7)[a & 3] | 0xffffffff << 32)
case("ld.global of a pointer to a variable", "ld.global.u64 %wide, [pointer_to_table]; "
     "ld.u32 %q, [%wide+8];", "b32", (), lambda: 0x3f800000)
case("a loop and @!p", "mov.u32 %q, 0; and.b32 %lo, %a, 15;\nLOOP:\nsetp.eq.u32 %p1, %lo, 0;\n"
     "@!%p1 add.u32 %q, %q, %lo;\n@!%p1 sub.u32 %lo, %lo, 1;\n@!%p1 bra LOOP;", "b32", ("b32",),
     lambda a: (a & 15) * ((a & 15) + 1) // 2)
case("labels of inner scopes", "{\n.reg .b32 t;\nbra.uni OUT;\nmov.b32 %a, 0;\nOUT:\nmov.b32 t, 1;\n"
     "add.u32 %a, %a, t;\n}\n{\n.reg .b32 t;\nbra.uni OUT;\nmov.b32 %a, 0;\nOUT:\nmov.b32 t, 2;\n"
     "add.u32 %q, %a, t;\n}", "b32", ("b32",), lambda a: a + 3 & mask(32))
case("brx.idx", "and.b32 %lo, %a, 3;\nTARGETS: .branchtargets B0, B1, B2, B3;\n"
     "brx.idx %lo, TARGETS;\nB0: mov.u32 %q, 10; bra END;\nB1: mov.u32 %q, 11; bra END;\n"
     "B2: mov.u32 %q, 12; bra END;\nB3: mov.u32 %q, 13;\nEND:", "b32", ("b32",),
     lambda a: 10 + (a & 3))
case("call.uni", "{\n.param .b32 p0;\n.param .b64 p1;\n.param .b64 r0;\nst.param.b32 [p0], %a;\n"
     "st.param.b64 [p1], %b;\ncall.uni (r0), add_wide, (p0, p1);\nld.param.b64 %q, [r0];\n}",
     "b64", ("b32", "b64"), lambda a, b: a + b & mask(64))
for NAME, FN in (("add", lambda m, v: m + v), ("min", lambda m, v: min(m, v)),
                 ("max", lambda m, v: max(m, v)), ("inc", lambda m, v: 0 if m >= v else m + 1),
                 ("dec", lambda m, v: v if m == 0 or m > v else m - 1)):
    case(f"atom.shared.{NAME}.u32", SLOT + f"st.shared.b32 [%at], %a; "
         f"atom.shared.{NAME}.u32 %lo, [%at], %b; ld.shared.b32 %hi, [%at]; mov.b64 %q, {{%lo, %hi}};",
         "b64", ("u32", "u32"), lambda a, b, fn=FN: a | (fn(a, b) & mask(32)) << 32)
for NAME, FN in (("and", lambda m, v: m & v), ("or", lambda m, v: m | v),
                 ("xor", lambda m, v: m ^ v), ("exch", lambda m, v: v)):
    case(f"atom.shared.{NAME}.b32", SLOT + f"st.shared.b32 [%at], %a; "
         f"atom.shared.{NAME}.b32 %lo, [%at], %b; ld.shared.b32 %hi, [%at]; mov.b64 %q, {{%lo, %hi}};",
         "b64", ("u32", "u32"), lambda a, b, fn=FN: a | fn(a, b) << 32)
case("atom.shared.cas.b32", SLOT + "st.shared.b32 [%at], %a; atom.shared.cas.b32 %lo, [%at], %b, %c; "
     "ld.shared.b32 %hi, [%at]; mov.b64 %q, {%lo, %hi};", "b64",
     (("u32", [0, 1, 5]), ("u32", [0, 1, 5]), "u32"), lambda a, b, c: a | (c if a == b else a) << 32)
for T in ("s32", "f32"):
    case(f"red.shared.add.{T}", SLOT + f"st.shared.b32 [%at], %a; red.shared.add.{T} [%at], %b; "
         "ld.shared.b32 %q, [%at];", "b32", (T, T),
         (lambda a, b: a + b & mask(32)) if T == "s32" else arithmetic("f32", fm.add),
         any_nan="" if T == "s32" else "f32")
case("atom.shared.min.s32", SLOT + "st.shared.b32 [%at], %a; atom.shared.min.s32 %lo, [%at], %b; "
     "ld.shared.b32 %q, [%at];", "b32", ("s32", "s32"), lambda a, b: min((a, b), key=lambda u: sx(u, 32)))

# ---- a warp: all lanes are there, lane is index modulo 32 ----
case("special registers", "mov.u32 %lo, %laneid; mov.u32 %hi, %lanemask_lt; popc.b32 %hi, %hi; "
     "sub.u32 %q, %lo, %hi;", "b32", (), lambda: 0)
case("%ntid and %clock", "mov.u32 %q, %ntid.x; mov.u32 %lo, %clock; mov.u64 %wide, %clock64; "
     "mov.u32 %lo, %ntid.y; mul.lo.u32 %q, %q, %lo;", "b32", (), lambda: 128)
