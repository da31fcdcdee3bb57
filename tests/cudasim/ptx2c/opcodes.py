"""opcodes.py -- the one table of PTX opcodes.

A row says: the opcode with the modifiers that select the row, the types it is for, the types of
destination and sources, the C++ expression, and the modifiers that may stand there besides. In the
expression {a} {b} {c} {d} are the sources as C++ values of their types, {T} {U} {W} the C++ types of
the instruction, of its unsigned and of its double-width variant, {r} the rounding, {mod} the
modifiers of the half formats, {F} the half format. Types: T U W as before, B bits of T, or a name.

What is no expression of its operands (memory, control flow, other threads) has a row with a
function of handlers.py in place of the expression; such a function checks its own modifiers.

The first row that fits is taken; an instruction that fits none is an error.

SPDX-License-Identifier: MIT
"""
from dataclasses import dataclass

import handlers as h
from ptx_types import TYPES


@dataclass(frozen=True)
class Row:
    name: str
    required: frozenset
    types: frozenset
    dst: str
    srcs: tuple
    expr: str
    allowed: frozenset


TABLE = {}     # first part of the opcode -> rows
HANDLERS = {}  # first part of the opcode -> function


def row(op, types, dst, srcs, expr, mods=""):
    first, *required = op.split(".")
    r = Row(first, frozenset(required), frozenset(types.split()), dst, tuple(srcs.split()), expr,
            frozenset(mods.split()))
    TABLE.setdefault(first, []).append(r)


def find(parts):
    """The row for an opcode split at its dots, and its type; None when there is none."""
    kind = parts[-1]
    mods = set(parts[1:-1])
    for r in TABLE.get(parts[0], ()):
        if kind in r.types and r.required <= mods and mods - r.required <= r.allowed:
            return r, TYPES[kind]
    return None


INT = "u16 u32 u64 s16 s32 s64"
INT32 = "u32 s32"
INT3264 = "u32 u64 s32 s64"
SIGNED = "s16 s32 s64"
BITS = "b16 b32 b64"
F = "f32 f64"
DIRECTED = "rz rm rp ftz sat"

# ---- integers ----
row("add", INT, "U", "U U", "{a} + {b}")
row("add.sat", "s32", "T", "T T", "ptx::sat_to<{T}>((__int128){a} + {b})")
row("add.cc", INT3264, "U", "U U", "ptx::add_carry<{U}>({a}, {b}, false, &carry)")
row("addc.cc", INT3264, "U", "U U", "ptx::add_carry<{U}>({a}, {b}, carry, &carry)")
row("addc", INT3264, "U", "U U", "{a} + {b} + carry")
row("add", "u16x2 s16x2", "b32", "b32 b32",
    "ptx::lanes16<{L}>({a}, {b}, [](int x, int y) {{ return x + y; }})")
row("sub", INT, "U", "U U", "{a} - {b}")
row("sub.sat", "s32", "T", "T T", "ptx::sat_to<{T}>((__int128){a} - {b})")
row("sub.cc", INT3264, "U", "U U", "ptx::sub_borrow<{U}>({a}, {b}, false, &carry)")
row("subc.cc", INT3264, "U", "U U", "ptx::sub_borrow<{U}>({a}, {b}, carry, &carry)")
row("subc", INT3264, "U", "U U", "{a} - {b} - carry")
row("mul.lo", INT, "U", "U U", "(uint64_t){a} * {b}")
row("mul.hi", INT, "T", "T T", "ptx::mul_hi<{T}>({a}, {b})")
row("mul.wide", "u16 u32 s16 s32", "W", "T T", "({W}){a} * ({W}){b}")
row("mad.lo", INT, "U", "U U U", "(uint64_t){a} * {b} + {c}")
row("mad.hi", INT, "U", "T T U", "static_cast<{U}>(ptx::mul_hi<{T}>({a}, {b})) + {c}")
row("mad.hi.sat", "s32", "T", "T T T",
    "ptx::sat_to<{T}>(static_cast<__int128>(ptx::mul_hi<{T}>({a}, {b})) + {c})")
row("mad.wide", "u16 u32 s16 s32", "WU", "T T WU",
    "static_cast<{WU}>(({W}){a} * ({W}){b}) + {c}")
row("mad.lo.cc", INT3264, "U", "U U U", "ptx::add_carry<{U}>({a} * {b}, {c}, false, &carry)")
row("mad.hi.cc", INT3264, "U", "T T U",
    "ptx::add_carry<{U}>(static_cast<{U}>(ptx::mul_hi<{T}>({a}, {b})), {c}, false, &carry)")
row("madc.lo.cc", INT3264, "U", "U U U", "ptx::add_carry<{U}>({a} * {b}, {c}, carry, &carry)")
row("madc.hi.cc", INT3264, "U", "T T U",
    "ptx::add_carry<{U}>(static_cast<{U}>(ptx::mul_hi<{T}>({a}, {b})), {c}, carry, &carry)")
row("madc.lo", INT3264, "U", "U U U", "{a} * {b} + {c} + carry")
row("madc.hi", INT3264, "U", "T T U",
    "static_cast<{U}>(ptx::mul_hi<{T}>({a}, {b})) + {c} + carry")
row("mul24.lo", INT32, "T", "T T", "ptx::mul24_lo<{T}>({a}, {b})")
row("mul24.hi", INT32, "T", "T T", "ptx::mul24_hi<{T}>({a}, {b})")
row("mad24.lo", INT32, "U", "T T U", "static_cast<{U}>(ptx::mul24_lo<{T}>({a}, {b})) + {c}")
row("mad24.hi", INT32, "U", "T T U", "static_cast<{U}>(ptx::mul24_hi<{T}>({a}, {b})) + {c}")
row("sad", INT, "U", "T T U", "ptx::sad<{T}>({a}, {b}, {c})")
row("div", INT, "T", "T T", "ptx::div<{T}>({a}, {b})")
row("rem", INT, "T", "T T", "ptx::rem<{T}>({a}, {b})")
row("abs", SIGNED, "T", "T", "ptx::abs<{T}>({a})")
row("neg", SIGNED, "T", "T", "ptx::neg<{T}>({a})")
row("min", INT, "T", "T T", "ptx::min<{T}>({a}, {b})")
row("max", INT, "T", "T T", "ptx::max<{T}>({a}, {b})")
row("min.relu", "s32", "T", "T T", "ptx::relu(ptx::min<{T}>({a}, {b}))")
row("max.relu", "s32", "T", "T T", "ptx::relu(ptx::max<{T}>({a}, {b}))")
row("min", "u16x2 s16x2", "b32", "b32 b32", "ptx::lanes16<{L}>({a}, {b}, ptx::min<{L}>)")
row("max", "u16x2 s16x2", "b32", "b32 b32", "ptx::lanes16<{L}>({a}, {b}, ptx::max<{L}>)")
row("popc", "b32 b64", "u32", "U", "ptx::popc({a})")
row("clz", "b32 b64", "u32", "U", "ptx::clz({a})")
row("bfind", INT3264, "u32", "T", "ptx::bfind<{T}>({a})")
row("bfind.shiftamt", INT3264, "u32", "T", "ptx::bfind_shift<{T}>({a})")
row("brev", "b32 b64", "U", "U", "ptx::brev<{U}>({a})")
row("bfe", INT3264, "T", "T u32 u32", "ptx::bfe<{T}>({a}, {b}, {c})")
row("bfi", "b32 b64", "U", "U U u32 u32", "ptx::bfi<{U}>({a}, {b}, {c}, {d})")
row("szext.clamp", INT32, "T", "T u32", "ptx::szext<{T}>({a}, {b}, false)")
row("szext.wrap", INT32, "T", "T u32", "ptx::szext<{T}>({a}, {b}, true)")
row("bmsk.clamp", "b32", "u32", "u32 u32", "ptx::bmsk({a}, {b}, false)")
row("bmsk.wrap", "b32", "u32", "u32 u32", "ptx::bmsk({a}, {b}, true)")
row("dp4a.u32", "u32", "s32", "b32 b32 s32", "ptx::dp4a<uint8_t, uint8_t>({a}, {b}, {c})")
row("dp4a.u32", "s32", "s32", "b32 b32 s32", "ptx::dp4a<uint8_t, int8_t>({a}, {b}, {c})")
row("dp4a.s32", "u32", "s32", "b32 b32 s32", "ptx::dp4a<int8_t, uint8_t>({a}, {b}, {c})")
row("dp4a.s32", "s32", "s32", "b32 b32 s32", "ptx::dp4a<int8_t, int8_t>({a}, {b}, {c})")
for half, hi in (("lo", "false"), ("hi", "true")):
    for x, cx in (("u32", "uint"), ("s32", "int")):
        for y, cy in (("u32", "uint"), ("s32", "int")):
            row(f"dp2a.{half}.{x}", y, "s32", "b32 b32 s32",
                f"ptx::dp2a<{cx}16_t, {cy}8_t>({{a}}, {{b}}, {{c}}, {hi})")

# ---- bits ----
for name, sign in (("and", "&"), ("or", "|"), ("xor", "^")):
    row(name, BITS, "U", "U U", "{a} " + sign + " {b}")
    row(name, "pred", "T", "T T", "{a} " + sign + " {b}")
row("not", BITS, "U", "U", "~{a}")
row("not", "pred", "T", "T", "!{a}")
row("cnot", BITS, "U", "U", "{a} == 0 ? 1 : 0")
row("shl", BITS, "U", "U u32", "ptx::shl<{U}>({a}, {b})")
row("shr", BITS + " " + INT, "T", "T u32", "ptx::shr<{T}>({a}, {b})")
row("shf.l.clamp", "b32", "u32", "u32 u32 u32", "ptx::shf_l({a}, {b}, {c}, false)")
row("shf.l.wrap", "b32", "u32", "u32 u32 u32", "ptx::shf_l({a}, {b}, {c}, true)")
row("shf.r.clamp", "b32", "u32", "u32 u32 u32", "ptx::shf_r({a}, {b}, {c}, false)")
row("shf.r.wrap", "b32", "u32", "u32 u32 u32", "ptx::shf_r({a}, {b}, {c}, true)")
row("lop3", "b32", "u32", "u32 u32 u32 u32", "ptx::lop3({a}, {b}, {c}, {d})")
row("prmt", "b32", "u32", "u32 u32 u32", "ptx::prmt({a}, {b}, {c})")
HANDLERS["prmt"] = h.prmt  # the modes: the type comes before them

# ---- f32 and f64 ----
row("add", F, "T", "T T", "{a} + {b}", "rn ftz sat")
row("add", "f32", "T", "T T", "ptx::add({a}, {b}, {r})", DIRECTED)
row("sub", F, "T", "T T", "{a} - {b}", "rn ftz sat")
row("sub", "f32", "T", "T T", "ptx::add({a}, ptx::neg({b}), {r})", DIRECTED)
row("mul", F, "T", "T T", "{a} * {b}", "rn ftz sat")
row("mul", "f32", "T", "T T", "ptx::mul({a}, {b}, {r})", DIRECTED)
row("fma", F, "T", "T T T", "std::fma({a}, {b}, {c})", "rn ftz sat")
row("fma", "f32", "T", "T T T", "ptx::fma({a}, {b}, {c}, {r})", DIRECTED)
row("mad", F, "T", "T T T", "std::fma({a}, {b}, {c})", "rn ftz sat")
row("mad", "f32", "T", "T T T", "ptx::fma({a}, {b}, {c}, {r})", DIRECTED)
row("div", F, "T", "T T", "{a} / {b}", "rn approx full ftz")
row("div", "f32", "T", "T T", "ptx::div({a}, {b}, {r})", DIRECTED)
row("rcp", F, "T", "T", "1 / {a}", "rn approx ftz")
row("rcp", "f32", "T", "T", "ptx::div(1.0f, {a}, {r})", DIRECTED)
row("sqrt", F, "T", "T", "std::sqrt({a})", "rn approx ftz")
row("sqrt", "f32", "T", "T", "ptx::sqrt({a}, {r})", DIRECTED)
row("rsqrt", F, "T", "T", "ptx::rsqrt({a})", "approx ftz")
row("sin", "f32", "T", "T", "std::sin({a})", "approx ftz")
row("cos", "f32", "T", "T", "std::cos({a})", "approx ftz")
row("lg2", "f32", "T", "T", "std::log2({a})", "approx ftz")
row("ex2", "f32", "T", "T", "std::exp2({a})", "approx ftz")
row("tanh", "f32", "T", "T", "std::tanh({a})", "approx")
row("abs", F, "T", "T", "ptx::abs({a})", "ftz")
row("neg", F, "T", "T", "ptx::neg({a})", "ftz")
row("min", F, "T", "T T", "ptx::fmin({a}, {b})", "ftz")
row("max", F, "T", "T T", "ptx::fmax({a}, {b})", "ftz")
row("min.NaN", "f32", "T", "T T", "ptx::fmin_nan({a}, {b})", "ftz")
row("max.NaN", "f32", "T", "T T", "ptx::fmax_nan({a}, {b})", "ftz")
for name in ("min", "max"):
    for nan in ("", ".NaN"):
        row(f"{name}{nan}.xorsign.abs", "f32", "T", "T T",
            f"ptx::xorsign(ptx::f{name}{nan.replace('.NaN', '_nan')}(ptx::abs({{a}}), "
            "ptx::abs({b})), {a}, {b})", "ftz")
row("copysign", F, "T", "T T", "ptx::copysign({a}, {b})")
for i, what in enumerate("finite infinite number notanumber normal subnormal".split()):
    row("testp." + what, F, "pred", "T", f"ptx::testp({{a}}, {i})")


# ---- f16, bf16 and pairs of them ----
def half_rows(op, sources, call, mods=""):
    """One row for a value, one for two lanes; `call` takes x, y, z."""
    names = "abc"[:sources]
    single = call
    for var, name in zip("xyz", names):
        single = single.replace(f"({var}", "({" + name + "}").replace(f" {var}", " {" + name + "}")
    row(op, "f16 bf16", "T", "T " * sources, "ptx::" + single, mods)
    args = ", ".join("{" + n + "}" for n in names) + ", 0u" * (3 - sources)
    taken = ", ".join("uint16_t " + v if v in "xyz"[:sources] else "uint16_t" for v in "xyz")
    row(op, "f16x2 bf16x2", "T", "T " * sources,
        f"ptx::pair({args}, []({taken}) {{{{ return ptx::{call}; }}}})", mods)


half_rows("add", 2, "add16<{F}>(x, y, {mod})", "rn ftz sat")
half_rows("sub", 2, "sub16<{F}>(x, y, {mod})", "rn ftz sat")
half_rows("mul", 2, "mul16<{F}>(x, y, {mod})", "rn ftz sat")
half_rows("fma", 3, "fma16<{F}>(x, y, z, {mod})", "rn ftz sat relu")
half_rows("neg", 1, "neg16(x)", "ftz")
half_rows("abs", 1, "abs16(x)", "ftz")
half_rows("ex2.approx", 1, "ex2_16<{F}>(x, {mod})", "ftz")
half_rows("tanh.approx", 1, "tanh_16<{F}>(x)")
for name, what in (("min", "ptx::MIN"), ("max", "ptx::MAX")):
    for nan in ("", ".NaN"):
        for xorsign in ("", ".xorsign.abs"):
            flags = what + (" | ptx::NAN_WINS" if nan else "") + \
                    (" | ptx::XORSIGN" if xorsign else "")
            half_rows(name + nan + xorsign, 2, f"minmax16<{{F}}>(x, y, {flags}, {{mod}})", "ftz")

# ---- selecting ----
row("selp", f"{BITS} {INT} {F}", "B", "B B pred", "{c} ? {a} : {b}")

# ---- the rest: functions ----
HANDLERS.update({
    "mov": h.mov, "ld": h.load, "ldu": h.load, "st": h.store, "cvt": h.cvt, "cvta": h.cvta,
    "setp": h.setp, "set": h.set_, "slct": h.slct, "isspacep": h.isspacep, "mapa": h.mapa,
    "getctarank": h.getctarank, "prefetch": h.nothing, "prefetchu": h.nothing,
    "discard": h.nothing, "applypriority": h.nothing, "createpolicy": h.createpolicy,
    "bra": h.bra, "brx": h.brx, "call": h.call, "ret": h.ret, "exit": h.exit_, "trap": h.trap,
    "brkpt": h.trap, "bar": h.bar, "barrier": h.bar, "membar": h.fence, "fence": h.fence,
    "griddepcontrol": h.nothing, "pmevent": h.nothing, "nanosleep": h.nanosleep,
    "shfl": h.shfl, "vote": h.vote, "match": h.match, "redux": h.redux, "elect": h.elect,
    "activemask": h.activemask, "atom": h.atom, "red": h.atom, "setmaxnreg": h.setmaxnreg,
    "mbarrier": h.mbarrier, "cp": h.cp, "ldmatrix": h.ldmatrix, "stmatrix": h.stmatrix,
    "movmatrix": h.movmatrix, "mma": h.mma, "wgmma": h.wgmma,
})
