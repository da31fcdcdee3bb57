"""handlers.py -- instructions that are more than an expression of their operands.

One function an opcode: it gets the Emitter (emitter.py) and the instruction, and returns C++
statements. Modifiers that only help the hardware (cache hints, .aligned, .uni) are dropped; one
that is not known is an error, so that nothing is mistranslated in silence.

Everything that touches other threads, shared memory or an engine becomes a call of
tests/cudasim/src/device.h, written out in place: a report takes the line of the .cu file from the
call's return address.

SPDX-License-Identifier: MIT
"""
import re

from ptx_parser import SINK, Imm, Mem, Not, Pair, Reg, Vec
from ptx_types import TYPES, bits_type

U16, U32, U64, S32 = TYPES["u16"], TYPES["u32"], TYPES["u64"], TYPES["s32"]
B16, B32, B64, F32, F64, PRED = (TYPES[n] for n in ("b16", "b32", "b64", "f32", "f64", "pred"))
SPACES = ("param", "shared", "global", "local", "const")
CACHE = {"ca", "cg", "cs", "cv", "lu", "wb", "wt", "nc", "aligned", "uni", "sync",
         "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last",
         "L1::no_allocate", "L2::cache_hint", "L2::64B", "L2::128B", "L2::256B",
         "L2::evict_first", "L2::evict_last", "L2::evict_normal"}
SCOPES = {"cta": "CTA", "cluster": "CLUSTER", "gpu": "GPU", "sys": "SYS"}
SEMS = {"weak": "WEAK", "relaxed": "RELAXED", "acquire": "ACQUIRE", "release": "RELEASE",
        "acq_rel": "ACQ_REL", "volatile": "RELAXED", "mmio": "RELAXED"}
ROUND = {"rn": "RN", "rz": "RZ", "rm": "RM", "rp": "RP", "rna": "RNA", "rni": "RN", "rzi": "RZ",
         "rmi": "RM", "rpi": "RP"}


def only(e, ins, mods, *allowed):
    """Complains about a modifier that no set of `allowed` has."""
    for m in mods:
        if not any(m in a for a in allowed):
            e.fail(f"no translation of '.{m}' in '{ins.op}'")


def space_of(mods):
    for m in mods:
        if m.split("::")[0] in SPACES:
            return m.split("::")[0]
    return "generic"


def nothing(e, ins):
    return ""


# ---- memory ----
def vector_of(mods):
    return next((int(m[1:]) for m in mods if re.fullmatch(r"v[248]", m)), 1)


def ordering(mods):
    sem = next((SEMS[m] for m in mods if m in SEMS), "WEAK")
    scope = next((SCOPES[m] for m in mods if m in SCOPES), "SYS" if "volatile" in mods else "GPU")
    return sem, scope


def check_align(size, is_store):
    return (f"if ((uintptr_t)q % {size} != 0) misaligned(q, {size}, {str(is_store).lower()});"
            if size > 1 else "")


def memory_access(e, ins, is_store):
    """Common part of ld and st: registers, element type and the pointer `q`."""
    mods = ins.parts[1:-1]
    kind = TYPES.get(ins.parts[-1]) or e.fail(f"unknown type in '{ins.op}'")
    space, count = space_of(mods), vector_of(mods)
    only(e, ins, mods, SEMS, SCOPES, CACHE, {f"v{count}"}, SPACES,
         {"shared::cta", "shared::cluster", "param::entry", "param::func"})
    mem, regs = (ins.args[0], ins.args[1]) if is_store else (ins.args[1], ins.args[0])
    regs = regs.items if isinstance(regs, Vec) else [regs]
    size = kind.bytes * count
    out = [e.pointer("q", mem, space, size, ins.parts[0])]
    if space != "param":
        out.append(check_align(size, is_store))
    return out, kind, space, regs, ordering(mods)


def load(e, ins):
    out, kind, space, regs, (sem, scope) = memory_access(e, ins, False)
    plain = sem == "WEAK" or space in ("param", "local", "const")
    for i, r in enumerate(regs):
        at = f"q + {i * kind.bytes}" if i else "q"
        if plain:
            value = f"*(const mem{kind.bits} *)({at})" if i else f"*(const mem{kind.bits} *)q"
        else:
            value = f"strong_load({at}, {kind.bytes}, Sem::{sem}, Scope::{scope})"
        out.append(e.set(r, value, kind if kind.is_signed else bits_type(kind.bits)))
    return " ".join(out)


def store(e, ins):
    out, kind, space, regs, (sem, scope) = memory_access(e, ins, True)
    for i, r in enumerate(regs):
        at = f"q + {i * kind.bytes}" if i else "q"
        value = e.value(r, bits_type(kind.bits))
        if sem == "WEAK" or space in ("param", "local"):
            out.append(f"*(mem{kind.bits} *)({at}) = {value};")
        else:
            out.append(f"strong_store({at}, {kind.bytes}, {value}, Sem::{sem}, Scope::{scope});")
    return " ".join(out)


ATOMS = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")


def atom(e, ins):
    is_red = ins.parts[0] == "red"
    mods = ins.parts[1:-1]
    kind = TYPES.get(ins.parts[-1]) or e.fail(f"unknown type in '{ins.op}'")
    op = next((m for m in mods if m in ATOMS), None) or e.fail(f"no translation of '{ins.op}'")
    space, count = space_of(mods), vector_of(mods)
    only(e, ins, mods, SEMS, SCOPES, CACHE, ATOMS, SPACES,
         {"noftz", "shared::cta", "shared::cluster", f"v{count}"})
    sem, scope = ordering(mods)
    sem = "RELAXED" if sem == "WEAK" else sem
    args = ins.args if is_red else ins.args[1:]
    mem, operand = args[0], args[1]
    size = kind.bytes * count
    out = [e.pointer("q", mem, space, size, ins.parts[0]),
           check_align(size, True)]
    values = operand.items if isinstance(operand, Vec) else [operand]
    dst = [] if is_red else (ins.args[0].items if isinstance(ins.args[0], Vec) else [ins.args[0]])
    cmp = "0"
    if op == "cas":
        cmp, values = e.value(args[1], bits_type(kind.bits)), [args[2]]
    for i, v in enumerate(values):
        at = f"q + {i * kind.bytes}" if i else "q"
        call = (f"atomic({at}, Atom::{op.upper()}, Ty::{kind.name.upper()}, "
                f"{e.value(v, bits_type(kind.bits))}, {cmp}, Sem::{sem}, Scope::{scope})")
        out.append(e.set_bits(dst[i], call, kind) if dst else call + ";")
    return " ".join(out)


def cvta(e, ins):
    mods = ins.parts[1:-1]
    space = space_of(mods)
    value = e.value(ins.args[1], U64)
    if isinstance(ins.args[1], Mem):
        e.fail("an address with an offset in cvta")
    if space == "shared":
        value = f"{'smem_of_generic' if 'to' in mods else 'smem_generic'}(" + \
            (value if "to" in mods else f"(uint32_t)({value})") + ")"
    return e.set(ins.args[0], value, TYPES[ins.parts[-1]])


def isspacep(e, ins):
    space = ins.parts[1].split("::")[0]
    shared = f"is_shared((const void *){e.value(ins.args[1], U64)})"
    if space not in ("shared", "global"):
        e.fail(f"no translation of '{ins.op}'")
    return e.set(ins.args[0], shared if space == "shared" else "!" + shared, PRED)


def mapa(e, ins):
    mods = ins.parts[1:-1]
    kind, rank = TYPES[ins.parts[-1]], e.value(ins.args[2], U32)
    if "shared::cluster" in mods:
        call = f"cluster_addr((uint32_t)({e.value(ins.args[1], kind)}), {rank})"
    else:
        call = f"cluster_generic({e.value(ins.args[1], U64)}, {rank})"
    return e.set(ins.args[0], call, kind)


def getctarank(e, ins):
    kind = TYPES[ins.parts[-1]]
    addr = e.value(ins.args[1], kind)
    if "shared::cluster" not in ins.parts:
        addr = f"smem_of_generic({addr})"
    return e.set(ins.args[0], f"cluster_rank((uint32_t)({addr}))", U32)


def createpolicy(e, ins):
    return e.set(ins.args[0], "0", U64)


# ---- moving and converting ----
def mov(e, ins):
    kind = TYPES.get(ins.parts[-1]) or e.fail(f"unknown type in '{ins.op}'")
    dst, src = ins.args
    if isinstance(dst, Vec):
        width = kind.bits // len(dst.items)
        out = [f"const {kind.storage} v = {e.value(src, bits_type(kind.bits))};"]
        out += [e.set(r, f"(uint{width}_t)(v >> {i * width})", bits_type(width))
                for i, r in enumerate(dst.items)]
        return " ".join(out)
    if isinstance(src, Vec):
        width = kind.bits // len(src.items)
        lanes = [f"({kind.storage}){e.value(r, bits_type(width))} << {i * width}"
                 for i, r in enumerate(src.items)]
        return e.set_bits(dst, " | ".join(lanes), kind)
    return e.set_bits(dst, e.value(src, kind if kind.kind == "pred" else bits_type(kind.bits)),
                      kind)


HALVES = {"f16": "ptx::F16", "bf16": "ptx::BF16"}
FP8 = {"e4m3x2": "ptx::E4M3", "e5m2x2": "ptx::E5M2"}


def cvt(e, ins):
    mods, d, s = ins.parts[1:-2], ins.parts[-2], ins.parts[-1]
    if ins.parts[1] == "pack":
        e.fail("no translation of 'cvt.pack'")
    only(e, ins, mods, ROUND, {"sat", "satfinite", "relu", "ftz"})
    mode = "ptx::" + next((ROUND[m] for m in mods if m in ROUND), "RN")
    relu = "true" if "relu" in mods else "false"
    src = ins.args[1:]
    if d in FP8:
        if s == "f32":
            hi, lo = e.value(src[0], F32), e.value(src[1], F32)
        elif s == "f16x2":
            v = e.value(src[0], B32)
            hi, lo = (f"ptx::up<ptx::F16>((uint16_t)({v} >> {n}))" for n in (16, 0))
        else:
            e.fail(f"no translation of '{ins.op}'")
        return e.set_bits(ins.args[0], f"ptx::fp8x2_of<{FP8[d]}>({hi}, {lo}, {relu})", B16)
    if s in FP8 and d == "f16x2":
        call = f"ptx::f16x2_of_fp8x2<{FP8[s]}>({e.value(src[0], B16)}, {relu})"
        return e.set_bits(ins.args[0], call, B32)
    if d in ("f16x2", "bf16x2") and s == "f32":
        call = (f"ptx::cvt16x2<{HALVES[d[:-2]]}>({e.value(src[0], F32)}, {e.value(src[1], F32)}, "
                f"{mode}, {half_mods(mods)})")
        return e.set_bits(ins.args[0], call, B32)
    if d == "tf32" and s == "f32":
        return e.set_bits(ins.args[0], f"ptx::tf32_of({e.value(src[0], F32)}, {mode}, {relu})",
                          B32)
    if d not in TYPES or s not in TYPES or TYPES[d].kind == "packed" or TYPES[s].kind == "packed":
        e.fail(f"no translation of '{ins.op}'")
    return cvt_scalar(e, ins, mods, TYPES[d], TYPES[s], mode)


def half_mods(mods):
    flags = [f"ptx::{m.upper()}" for m in ("sat", "relu", "ftz") if m in mods]
    return " | ".join(flags) or "ptx::PLAIN"


def cvt_scalar(e, ins, mods, d, s, mode):
    x = e.value(ins.args[1], s)
    ftz = "ftz" in mods
    integral = any(m in ("rni", "rzi", "rmi", "rpi") for m in mods)
    if s.is_float and ftz and s.bits == 32:
        x = f"ptx::ftz({x})"
    s_half, d_half = HALVES.get(s.name), HALVES.get(d.name)
    s_int, d_int = s.kind in ("signed", "unsigned", "bits"), d.kind in ("signed", "unsigned", "bits")
    if s_half:
        x = f"(float)ptx::up<{s_half}>({x})"  # exact
    if d_int:
        if s_int:
            if "sat" in mods:
                x = f"ptx::sat_to<{d.ctype}>({x})"
            return e.set(ins.args[0], x, d)
        return e.set(ins.args[0], f"ptx::to_int<{d.ctype}>({x}, {mode})", d)
    if s_int:
        wide = "int64_t" if s.is_signed else "uint64_t"
        odd = f"ptx::of_int_odd(({wide}){x})"
        if not d_half and mode == "ptx::RN":
            x = f"({d.ctype}){x}"
        elif d.bits == 64:
            e.fail(f"no translation of '{ins.op}'")
        else:
            x = odd if d_half else f"ptx::round_f32({odd}, {mode})"
    elif integral:
        x = f"ptx::to_integral({x}, {mode})"
    elif d.name == "f32" and s.name == "f64":
        x = f"ptx::f32_of_f64({x}, {mode})"
    if d_half:
        call = "cvt16" if s.name == "f32" and not integral else "out16"
        order = f"{mode}, {half_mods(mods)}" if call == "cvt16" else f"{half_mods(mods)}, {mode}"
        return e.set_bits(ins.args[0], f"ptx::{call}<{d_half}>({x}, {order})", d)
    if d.bits == 64:
        x = f"(double){x}"
    if "sat" in mods:
        x = f"ptx::sat({x})"
    if "relu" in mods:
        e.fail(f"no translation of '{ins.op}'")
    if ftz and d.bits == 32:
        x = f"ptx::ftz({x})"
    return e.set(ins.args[0], x, d)


COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<",
           "ls": "<=", "hi": ">", "hs": ">="}
UNORDERED = {"equ": ("!=", True), "neu": ("==", True), "ltu": (">=", False), "leu": (">", False),
             "gtu": ("<=", False), "geu": ("<", False)}


def comparison(e, ins, op, x, y, is_float):
    if op in COMPARE:
        if op == "ne" and is_float:
            return f"({x} < {y} || {x} > {y})"
        return f"({x} {COMPARE[op]} {y})"
    if op == "equ":
        return f"!({x} < {y} || {x} > {y})"
    if op in UNORDERED and is_float:
        return f"!({x} {UNORDERED[op][0]} {y})"
    if op in ("num", "nan") and is_float:
        return f"({'!' if op == 'num' else ''}({x} != {x} || {y} != {y}))"
    return e.fail(f"no translation of '{ins.op}'")


BOOL = {"and": "&&", "or": "||", "xor": "!="}


def setp(e, ins):
    mods, kind = ins.parts[1:-1], TYPES[ins.parts[-1]]
    op = mods[0]
    only(e, ins, mods[1:], BOOL, {"ftz"})
    combine = next((BOOL[m] for m in mods[1:] if m in BOOL), None)
    other = f" {combine} {e.value(ins.args[3], PRED)}" if combine else ""
    if kind.name in ("f16x2", "bf16x2"):
        half = HALVES[kind.name[:-2]]
        a, b = (e.value(x, B32) for x in ins.args[1:3])
        out = []
        for r, shift in zip((ins.args[0].first, ins.args[0].second), (0, 16)):
            x, y = (f"ptx::up<{half}>((uint16_t)({v} >> {shift}))" for v in (a, b))
            out.append((r, comparison(e, ins, op, x, y, True) + other))
        return e.set_together(out)
    x, y, is_float = compared(e, ins, kind, "ftz" in mods)
    t = comparison(e, ins, op, x, y, is_float)
    if not isinstance(ins.args[0], Pair):
        return e.set(ins.args[0], t + other, PRED)
    return e.set_together([(ins.args[0].first, t + other),
                           (ins.args[0].second, f"(!{t})" + other)])


def compared(e, ins, kind, ftz):
    """The two operands of a comparison as C++ values; are they floating point?"""
    x, y = e.value(ins.args[1], kind), e.value(ins.args[2], kind)
    if kind.name in HALVES:
        half = HALVES[kind.name]
        return f"ptx::up<{half}>({x})", f"ptx::up<{half}>({y})", True
    if ftz and kind.name == "f32":
        return f"ptx::ftz({x})", f"ptx::ftz({y})", True
    return x, y, kind.is_float


def set_(e, ins):
    mods, d, kind = ins.parts[1:-2], TYPES[ins.parts[-2]], TYPES[ins.parts[-1]]
    only(e, ins, mods[1:], BOOL, {"ftz"})
    if kind.kind == "packed":
        return set_pair(e, ins, mods, d, kind)
    if d.bits != 32 and d.name not in HALVES:
        e.fail(f"no translation of '{ins.op}'")
    x, y, is_float = compared(e, ins, kind, "ftz" in mods)
    t = comparison(e, ins, mods[0], x, y, is_float)
    combine = next((BOOL[m] for m in mods[1:] if m in BOOL), None)
    if combine:
        t = f"({t} {combine} {e.value(ins.args[3], PRED)})"
    if d.name in HALVES:
        return e.set_bits(ins.args[0], f"{t} ? {HALF_ONE[d.name]} : 0", d)
    return e.set(ins.args[0], f"{t} ? 1.0f : 0.0f" if d.is_float else f"{t} ? ~0u : 0u", d)


HALF_ONE = {"f16": "0x3c00", "bf16": "0x3f80"}


def set_pair(e, ins, mods, d, kind):
    """set of two halves: 1.0 or 0 in each lane."""
    half = kind.name[:-2]
    if kind.name not in ("f16x2", "bf16x2") or d is not kind or len(ins.args) > 3:
        e.fail(f"no translation of '{ins.op}'")
    a, b = (e.value(x, B32) for x in ins.args[1:3])
    lanes = []
    for shift in (0, 16):
        x, y = (f"ptx::up<{HALVES[half]}>((uint16_t)({v} >> {shift}))" for v in (a, b))
        t = comparison(e, ins, mods[0], x, y, True)
        lanes.append(f"({t} ? {HALF_ONE[half]}u << {shift} : 0)")
    return e.set_bits(ins.args[0], " | ".join(lanes), kind)


def slct(e, ins):
    kind, sign = TYPES[ins.parts[-2]], TYPES[ins.parts[-1]]
    only(e, ins, ins.parts[1:-2], {"ftz"})
    a, b = (e.value(x, bits_type(kind.bits)) for x in ins.args[1:3])
    return e.set_bits(ins.args[0], f"{e.value(ins.args[3], sign)} >= 0 ? {a} : {b}", kind)


PRMT_MODES = ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")


def prmt(e, ins):
    mode = ins.parts[-1]
    if mode not in PRMT_MODES:
        e.fail(f"no translation of '{ins.op}'")
    a, b, c = (e.value(x, U32) for x in ins.args[1:4])
    return e.set(ins.args[0], f"ptx::prmt({a}, {b}, ptx::prmt_selector(ptx::{mode.upper()}, {c}))",
                 U32)


# ---- control flow ----
def bra(e, ins):
    return f"goto {e.label(ins.args[0])};"


def brx(e, ins):
    targets = e.f.branch_targets.get(ins.args[1].name)
    if targets is None:
        e.fail("brx.idx without a list of targets")
    cases = " ".join(f"case {i}: goto {e.label(t)};" for i, t in enumerate(targets))
    return f"switch ({e.value(ins.args[0], U32)}) {{ {cases} default: device_trap(); }}"


def call(e, ins):
    args = list(ins.args)
    result = args.pop(0).items[0] if hasattr(args[0], "items") else None
    name = args.pop(0).name
    given = [e.buffer(a) for a in (args.pop(0).items if args else [])]
    if name == "vprintf":
        return (f"device_printf({e.word(given[0], 'const char *')}, "
                f"{e.word(given[1], 'const char *')}); {e.zero(result)}")
    if name == "__assertfail":
        words = [e.word(g, "const char *") for g in given[:2]]
        return (f"device_assert({words[0]}, {words[1]}, *(const mem32 *){given[2]}, "
                f"{e.word(given[3], 'const char *')});")
    if name not in e.functions:
        e.fail(f"a call of '{name}', which is not in this file")
    return f"{e.functions[name]}({', '.join([e.buffer(result) if result else 'nullptr'] + given)});"


def ret(e, ins):
    return "return;"


def exit_(e, ins):
    if not e.f.is_entry:
        e.fail("exit in a function that is called")
    return "return;"


def trap(e, ins):
    return "device_trap();"


# ---- barriers and fences ----
def bar(e, ins):
    mods = [m for m in ins.parts[1:] if m not in ("aligned", "cta")]
    args = ins.args
    if mods[0] == "cluster":
        if mods[1] == "arrive":
            return f"cluster_arrive({'false' if 'relaxed' in mods else 'true'});"
        return "cluster_wait();"
    if mods[0] == "warp":
        return f"syncwarp({e.value(args[0], U32)});"
    number = lambda a: e.value(a, U32)
    if mods[0] == "red":
        dst, first, *rest, pred = args
        threads = number(rest[0]) if rest else "0"
        kind = TYPES[mods[-1]]
        call_ = f"bar_red(BarRed::{mods[1].upper()}, {number(first)}, {threads}, {e.value(pred, PRED)})"
        return e.set(dst, call_ + (" != 0" if kind is PRED else ""), kind)
    if mods[0] not in ("sync", "arrive"):
        e.fail(f"no translation of '{ins.op}'")
    return f"bar_{mods[0]}({number(args[0])}, {number(args[1]) if len(args) > 1 else '0'});"


def fence(e, ins):
    mods = ins.parts[1:]
    if ins.parts[0] == "membar":
        scope = {"cta": "CTA", "gl": "GPU", "sys": "SYS"}.get(mods[0])
        if scope:
            return f"fence(Scope::{scope});"
    if mods[0] == "proxy":
        if mods[1] == "async":
            shared_only = len(mods) > 2 and mods[2].startswith("shared")
            return f"fence_proxy_async({'false' if shared_only else 'true'});"
        if mods[1] == "alias":
            return ""
        e.fail(f"no translation of '{ins.op}'")
    if mods[0] == "mbarrier_init":
        return "fence_mbarrier_init();"
    scope = next((SCOPES[m] for m in mods if m in SCOPES), None) or e.fail(f"no translation of '{ins.op}'")
    return f"fence(Scope::{scope});"


def nanosleep(e, ins):
    return "yield();"


# ---- a warp ----
def shfl(e, ins):
    mode = ins.parts[2].upper()
    value, lane, clamp, mask = (e.value(a, U32) for a in ins.args[1:5])
    dst, ok = (ins.args[0].first, ins.args[0].second) if isinstance(ins.args[0], Pair) else \
        (ins.args[0], SINK)
    out = (f"bool ok; const uint32_t got = shfl(Shfl::{mode}, {value}, {lane}, {clamp}, {mask}, "
           "&ok);")
    return out + " " + e.set(dst, "got", U32) + " " + e.set(ok, "ok", PRED)


def vote(e, ins):
    kind = ins.parts[2]
    votes = f"ballot({e.value(ins.args[2], U32)}, {e.value(ins.args[1], PRED)})"
    if kind == "ballot":
        return e.set(ins.args[0], votes, U32)
    mask = e.value(ins.args[2], U32)
    expr = {"any": "votes != 0", "all": f"votes == {mask}",
            "uni": f"votes == 0 || votes == {mask}"}.get(kind) or e.fail(f"no translation of '{ins.op}'")
    return f"const uint32_t votes = {votes}; " + e.set(ins.args[0], expr, PRED)


def match(e, ins):
    kind = TYPES[ins.parts[-1]]
    value, mask = e.value(ins.args[1], unsigned(kind)), e.value(ins.args[2], U32)
    if ins.parts[1] == "any":
        return e.set(ins.args[0], f"match_any({mask}, {value})", U32)
    dst = ins.args[0]
    first, second = (dst.first, dst.second) if isinstance(dst, Pair) else (dst, SINK)
    out = f"bool all; const uint32_t got = match_all({mask}, {value}, &all);"
    return out + " " + e.set(first, "got", U32) + " " + e.set(second, "all", PRED)


def unsigned(kind):
    return TYPES[f"u{kind.bits}"]


def redux(e, ins):
    op, kind = ins.parts[2], TYPES[ins.parts[-1]]
    if kind.is_float:
        e.fail(f"no translation of '{ins.op}'")
    call_ = (f"redux({e.value(ins.args[2], U32)}, Redux::{op.upper()}, "
             f"{str(kind.is_signed).lower()}, {e.value(ins.args[1], U32)})")
    return e.set(ins.args[0], call_, U32)


def elect(e, ins):
    lane, leader = ins.args[0].first, ins.args[0].second
    out = f"bool leader; const uint32_t first = elect({e.value(ins.args[1], U32)}, &leader);"
    return out + " " + e.set(lane, "first", U32) + " " + e.set(leader, "leader", PRED)


def activemask(e, ins):
    return e.set(ins.args[0], "activemask()", U32)


def setmaxnreg(e, ins):
    return f"setmaxnreg({'true' if 'inc' in ins.parts else 'false'}, {ins.args[0].text});"


# ---- mbarriers ----
def mbarrier(e, ins):
    what, mods, args = ins.parts[1], ins.parts[2:-1], ins.args
    number = lambda a: e.value(a, U32)
    only(e, ins, mods, SEMS, SCOPES, {"shared", "shared::cta", "shared::cluster", "parity",
                                      "expect_tx", "noComplete"})
    place = lambda a: e.shared_address(a, space_of(mods))
    if what == "init":
        return f"mbar_init({place(args[0])}, {number(args[1])});"
    if what == "inval":
        return f"mbar_inval({place(args[0])});"
    if what in ("expect_tx", "complete_tx"):
        return f"mbar_{what}({place(args[0])}, {number(args[1])});"
    if what == "pending_count":
        return e.set(args[0], f"{e.value(args[1], U64)} >> 42 & 0xfffff", U32)
    if what == "arrive":
        has_state = not isinstance(args[0], Mem)
        rest = args[1:] if has_state else args
        if "expect_tx" in mods:
            call_ = f"mbar_arrive_expect_tx({place(rest[0])}, {number(rest[1])})"
        else:
            call_ = f"mbar_arrive({place(rest[0])}, {number(rest[1]) if len(rest) > 1 else '1'})"
        return e.set(args[0], call_, U64) if has_state else call_ + ";"
    if what in ("test_wait", "try_wait"):
        if "parity" in mods:
            return e.set(args[0], f"mbar_{what}({place(args[1])}, {number(args[2])})", PRED)
        return e.set(args[0], f"mbar_{what}_state({place(args[1])}, {e.value(args[2], U64)})", PRED)
    return e.fail(f"no translation of '{ins.op}'")


# ---- asynchronous copies ----
HINTS = {"L2::cache_hint", "tile", "async", "bulk", "tensor", "mbarrier::complete_tx::bytes",
         "bulk_group", "shared::cluster", "shared::cta", "global", "multicast::cluster", "reduce",
         "noftz", "L2::64B", "L2::128B", "L2::256B", "shared", "ca", "cg"}
REDUCE = {"add": "ADD", "min": "MIN", "max": "MAX", "inc": "INC", "dec": "DEC", "and": "AND",
          "or": "OR", "xor": "XOR"}


def cp(e, ins):
    parts = ins.parts[1:]
    if parts[:3] == ["async", "bulk", "prefetch"]:
        return ""
    if parts[:3] == ["async", "bulk", "commit_group"]:
        return "bulk_commit();"
    if parts[:3] == ["async", "bulk", "wait_group"]:
        return f"bulk_wait({ins.args[0].text}, {'true' if 'read' in parts else 'false'});"
    if "tensor" in parts:
        return cp_tensor(e, ins, parts)
    if "bulk" in parts:
        return cp_bulk(e, ins, parts)
    return cp_async(e, ins, parts)


def cp_async(e, ins, parts):
    if parts[1] == "commit_group":
        return "cp_async_commit();"
    if parts[1] == "wait_group":
        return f"cp_async_wait({ins.args[0].text});"
    if parts[1] == "wait_all":
        return "cp_async_wait_all();"
    if parts[1] == "mbarrier":
        place = e.shared_address(ins.args[0], space_of(parts))
        return f"cp_async_mbar_arrive({place}, {'true' if 'noinc' in parts else 'false'});"
    only(e, ins, parts, HINTS)
    dst, src, size, *more = ins.args
    given = ins.args[3] if more and not ("L2::cache_hint" in parts and len(more) == 1) else None
    have = size.text
    if given is not None:
        is_pred = isinstance(given, Not) or isinstance(given, Reg) and given.type is PRED
        have = f"{e.value(given, PRED)} ? 0 : {size.text}" if is_pred else \
            f"(int){e.value(given, U32)}"
    return (f"cp_async({e.shared_address(dst, 'shared')}, {e.const_pointer(src)}, {size.text}, "
            f"{have});")


def cp_bulk(e, ins, parts):
    reduce = next((REDUCE[p] for p in parts if p in REDUCE), None)
    only(e, ins, [p for p in parts if p not in TYPES], HINTS, REDUCE)
    spaces = [p for p in parts if p.split("::")[0] in ("shared", "global")]
    dst, src, size, *more = ins.args
    bytes_ = e.value(size, U32)
    if spaces[0] == "global":
        at = f"(void *)({e.address(dst)})"
        source = e.shared_address(src, "shared")
        if reduce:
            kind = parts[-1].upper()
            return f"bulk_reduce({at}, {source}, {bytes_}, Reduce::{reduce}, Ty::{kind});"
        return f"bulk_store({at}, {source}, {bytes_});"
    if reduce:
        e.fail(f"no translation of '{ins.op}'")
    to, bar_ = e.shared_address(dst, "shared"), e.shared_address(more[0], "shared")
    if spaces[1] != "global":
        return f"bulk_copy_cluster({to}, {e.shared_address(src, 'shared')}, {bytes_}, {bar_});"
    mask = e.value(more[1], U16) if "multicast::cluster" in parts else "0"
    return f"bulk_load({to}, {e.const_pointer(src)}, {bytes_}, {bar_}, {mask});"


def cp_tensor(e, ins, parts):
    reduce = next((REDUCE[p] for p in parts if p in REDUCE), "NONE")
    rank = next(int(p[0]) for p in parts if re.fullmatch(r"[1-5]d", p))
    only(e, ins, parts, HINTS, REDUCE, {f"{rank}d"})
    is_load = isinstance(ins.args[1], Mem) and ins.args[1].coords is not None
    map_ = ins.args[1] if is_load else ins.args[0]
    if len(map_.coords) != rank:
        e.fail(f"{len(map_.coords)} coordinates in '{ins.op}'")
    coords = ", ".join(e.value(c, S32) for c in map_.coords)
    at = e.const_pointer(Mem(map_.base, map_.offset))
    out = f"const int c[] = {{{coords}}}; "
    if not is_load:
        source = e.shared_address(ins.args[1], "shared")
        return out + f"tma_store({at}, {source}, c, {rank}, Reduce::{reduce});"
    mask = e.value(ins.args[3], U16) if "multicast::cluster" in parts else "0"
    return out + (f"tma_load({e.shared_address(ins.args[0], 'shared')}, {at}, "
                  f"{e.shared_address(ins.args[2], 'shared')}, c, {rank}, {mask});")


# ---- matrices ----
def items(a):
    return a.items if isinstance(a, Vec) else [a]


def words(e, regs):
    return "{" + ", ".join(e.value(r, B32) for r in regs) + "}"


def ldmatrix(e, ins):
    check_matrix(e, ins)
    regs = items(ins.args[0])
    place = e.shared_address(ins.args[1], space_of(ins.parts))
    out = [f"uint32_t m[{len(regs)}]; ldmatrix(m, {len(regs)}, {place}, {transposed(ins)});"]
    out += [e.set(r, f"m[{i}]", U32) for i, r in enumerate(regs)]
    return " ".join(out)


def stmatrix(e, ins):
    check_matrix(e, ins)
    regs = items(ins.args[1])
    place = e.shared_address(ins.args[0], space_of(ins.parts))
    return (f"const uint32_t m[] = {words(e, regs)}; "
            f"stmatrix({place}, m, {len(regs)}, {transposed(ins)});")


def check_matrix(e, ins):
    only(e, ins, ins.parts[1:], {"sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared",
                                 "shared::cta", "b16"})


def transposed(ins):
    return "true" if "trans" in ins.parts else "false"


def movmatrix(e, ins):
    # Row r of the result is column r: elements 2c and 2c+1 of it lie with lanes 8c + r/2 and
    # 8c + 4 + r/2, in half r%2.
    v = e.value(ins.args[1], B32)
    get = "shfl(Shfl::IDX, {}, 8 * (cur->lane & 3) + {} + cur->lane / 8, 31, ~0u, &ok)"
    out = (f"bool ok; const uint32_t x = {get.format(v, 0)}; const uint32_t y = {get.format(v, 4)};"
           " const unsigned s = cur->lane / 4 % 2 * 16; ")
    return out + e.set(ins.args[0], "(x >> s & 0xffff) | (y >> s) << 16", U32)


NUMS = {"bf16": "BF16", "f16": "F16", "tf32": "TF32", "e4m3": "E4M3", "e5m2": "E5M2"}


def mma(e, ins):
    m = re.fullmatch(r"mma\.sync\.aligned\.m16n8k(\d+)\.row\.col\.(f32|f16)\.(\w+)\.(\w+)\.(f32|f16)",
                     ins.op)
    if not m or m[3] not in NUMS or m[4] not in NUMS or m[2] != m[5]:
        e.fail(f"no translation of '{ins.op}'")
    d, a, b, c = (items(x) for x in ins.args)
    out = [f"const uint32_t a[] = {words(e, a)}, b[] = {words(e, b)};"]
    nums = f"{m[1]}, Num::{NUMS[m[3]]}, Num::{NUMS[m[4]]}"
    if m[2] == "f16":
        out.append(f"const uint32_t c[] = {words(e, c)}; uint32_t d[2];")
        out.append(f"mma_sync_f16(d, c, a, b, {nums});")
        out += [e.set(r, f"d[{i}]", U32) for i, r in enumerate(d)]
    else:
        out.append("const float c[] = {" + ", ".join(e.value(r, F32) for r in c) + "}; float d[4];")
        out.append(f"mma_sync(d, c, a, b, {nums});")
        out += [e.set(r, f"d[{i}]", F32) for i, r in enumerate(d)]
    return " ".join(out)


def wgmma(e, ins):
    if ins.parts[1] == "fence":
        return "wgmma_fence();"
    if ins.parts[1] == "commit_group":
        return "wgmma_commit();"
    if ins.parts[1] == "wait_group":
        return f"wgmma_wait({ins.args[0].text});"
    m = re.fullmatch(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(\d+)\.(f32|f16)\.(\w+)\.(\w+)",
                     ins.op)
    if not m or m[4] not in NUMS or m[5] not in NUMS:
        e.fail(f"no translation of '{ins.op}'")
    d, a, b, scale, *imm = ins.args
    regs = items(d)  # as they are: they keep their tags
    wanted = int(m[1]) // (2 if m[3] == "f32" else 4)
    if len(regs) != wanted:
        e.fail(f"{len(regs)} accumulators in '{ins.op}', {wanted} expected")
    from_regs = isinstance(a, Vec)
    neg_a, neg_b = ("true" if i.text == "-1" else "false" for i in imm[:2])
    trans = ["true" if i.text != "0" else "false" for i in imm[2:]]
    trans_a, trans_b = ("false", trans[0]) if len(trans) == 1 else trans or ("false", "false")
    desc = "0" if from_regs else e.value(a, U64)
    out = [f"const uint32_t a[] = {words(e, items(a))};" if from_regs else "",
           f"const Wgmma w = {{{m[1]}, Num::{NUMS[m[4]]}, Num::{NUMS[m[5]]}, "
           f"{e.value(scale, PRED)}, {neg_a}, {neg_b}, {trans_a}, {trans_b}, {desc}, "
           f"{e.value(b, U64)}, {'a' if from_regs else 'nullptr'}, "
           f"{'true' if m[3] == 'f16' else 'false'}}};",
           f"if (!wgmma_chained(w, {regs[0].name}, {regs[-1].name})) {{",
           "uint32_t d[] = {" + ", ".join(r.name for r in regs) + "}; wgmma(d, w);"]
    out += [f"{r.name} = d[{i}];" for i, r in enumerate(regs)]
    return " ".join(out) + " }"
