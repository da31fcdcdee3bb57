"""emitter.py -- functions and variables of a module as C++ text.

Every PTX register becomes a local variable, every label a C++ label, every branch a goto. A
kernel becomes `void NAME(void *params)`, a function with arguments gets pointers to them, as PTX
passes them in memory. #line directives carry the lines of the .cu file into the debug
information.

SPDX-License-Identifier: MIT
"""
import re
import struct

import handlers
import opcodes
from flow import is_copy, registers, registers_read, tagged_registers
from ptx_parser import (SINK, Buffer, Imm, Instr, Label, Mem, Not, PtxError, Reg, Sym, c_name)
from ptx_types import TYPES, bits_type, unsigned_of, wide_of

SMEM_START = 1024  # where a block's shared memory begins (host.h)

SPECIAL = {
    "%laneid": "cur->lane", "%warpid": "cur->warp", "WARP_SZ": "32u",
    "%nwarpid": "((cur->bdim.x * cur->bdim.y * cur->bdim.z + 31) / 32)",
    "%smid": "(cur->bid.x % 132)", "%nsmid": "132u", "%gridid": "1u",
    "%lanemask_eq": "(1u << cur->lane)", "%lanemask_lt": "((1u << cur->lane) - 1)",
    "%lanemask_le": "((2u << cur->lane) - 1)", "%lanemask_gt": "(~0u << cur->lane << 1)",
    "%lanemask_ge": "(~0u << cur->lane)",
    "%cluster_ctarank": "cur->crank", "%cluster_nctarank": "cur->csize",
    "%dynamic_smem_size": "cur->dyn_smem", "%total_smem_size": "cur->total_smem",
    "%aggr_smem_size": "cur->total_smem", "%is_explicit_cluster": "(cur->csize > 1)",
    "%clock": "(uint32_t)clock_ticks()", "%clock64": "clock_ticks()",
    "%globaltimer": "clock_ticks()",
    "%globaltimer_lo": "(uint32_t)clock_ticks()", "%globaltimer_hi": "0u",
}
SPECIAL_3D = {"%tid": "tid", "%ntid": "bdim", "%ctaid": "bid", "%nctaid": "gdim",
              "%cluster_ctaid": "cid", "%cluster_nctaid": "cdim"}
CLUSTER_3D = {"%clusterid": "(cur->bid.{0} / cur->cdim.{0})",
              "%nclusterid": "(cur->gdim.{0} / cur->cdim.{0})"}


class Emitter:
    """Translates one function; handlers call back for operands and addresses."""

    def __init__(self, module, function, functions):
        self.m = module
        self.f = function
        self.functions = functions  # PTX name -> C++ name
        self.ins = None
        self.read = registers_read(function)
        self.tagged = tagged_registers(function)
        self.used_labels = set()
        self.shared, self.static_smem = self.layout_shared()
        self.dynamic = {b.name for b in module.dynamic}
        self.variables = {v.name: v for v in module.variables}
        self.params = {p.name: p for p in function.params}

    def fail(self, what):
        place = self.ins.place if self.ins else self.f.name
        raise PtxError(f"{place}: {what} (in {self.f.name})")

    def layout_shared(self):
        """Addresses of the .shared variables of this kernel; its callees see the module's."""
        at, where = 0, {}
        for b in self.m.shared + self.f.shared:
            at = (at + b.align - 1) // b.align * b.align
            where[b.name] = SMEM_START + at
            at += b.bytes
        align = self.dynamic_align()
        return where, (at + align - 1) // align * align

    def dynamic_align(self):
        return max([b.align for b in self.m.dynamic], default=1)

    def uses_dynamic(self):
        return bool(self.m.dynamic)

    # ---- operands ----
    def value(self, a, t):
        """Operand `a` read as type `t`: a C++ expression of type t.ctype."""
        if isinstance(a, Reg):
            return self.register_value(a, t)
        if isinstance(a, Imm):
            return self.immediate(a.text, t)
        if isinstance(a, Not):
            return "!" + self.value(a.reg, t)
        if isinstance(a, Sym) and (a.name in SPECIAL or a.name.split(".")[0] in
                                   {**SPECIAL_3D, **CLUSTER_3D}):
            return self.special(a.name)
        if isinstance(a, (Sym, Buffer)):
            return f"({t.ctype}){self.symbol(a)}"
        return self.fail(f"operand {a} of '{self.ins.op}'")

    def register_value(self, r, t):
        if t.kind == "pred" or r.type.kind == "pred":
            if t.kind != r.type.kind:
                self.fail(f"'{self.ins.op}' mixes predicates and numbers")
            return r.name
        name = r.name
        if r in self.tagged:  # a copy made after the wait must not follow the next wgmma
            name = f"wgmma_{'result' if is_copy(self.ins) else 'use'}({name})"
        if t.is_float:
            if r.type.bits != t.bits:
                self.fail(f"a {r.type.bits}-bit register as {t.name} in '{self.ins.op}'")
            return f"ptx::as<{t.ctype}>({name})"
        if t.bits == r.type.bits and not t.is_signed:
            return name
        return f"({t.ctype}){name}"

    def immediate(self, text, t):
        m = re.fullmatch(r"(-?)0([fFdD])([0-9a-fA-F]+)", text)
        if m:
            suffix = "u" if m[2] in "fF" else "ull"
            bits = int(m[3], 16) ^ ((1 << (len(m[3]) * 4 - 1)) if m[1] else 0)
            if t.is_float:
                whole = f"ptx::as<{'float' if m[2] in 'fF' else 'double'}>(0x{bits:x}{suffix})"
                return whole if (m[2] in "fF") == (t.bits == 32) else \
                    f"({t.ctype}){whole}"
            return f"0x{bits:x}{suffix}"
        if t.is_float:
            return f"({t.ctype}){float(text)!r}"
        if "." in text:
            return "0x" + struct.pack(">f" if t.bits == 32 else ">d", float(text)).hex() + "ull"
        try:
            number = int(text.rstrip("U"), 0)
        except ValueError:
            self.fail(f"the constant '{text}' in '{self.ins.op}'")
        if t.kind == "pred":
            return "true" if number else "false"
        number &= (1 << t.bits) - 1
        literal = f"{number}" if number < 10 else f"0x{number:x}"
        literal += "ull" if t.bits == 64 else "u"
        return literal if t.bits >= 32 and not t.is_signed else f"({t.ctype}){literal}"

    def special(self, name):
        if name in SPECIAL:
            return SPECIAL[name]
        first, _, axis = name.partition(".")
        if first in SPECIAL_3D:
            return f"cur->{SPECIAL_3D[first]}.{axis}"
        return CLUSTER_3D[first].format(axis)

    def symbol(self, a):
        """The address that a name stands for, as an unsigned integer expression."""
        name = a.name
        if isinstance(a, Buffer) and a.cname.startswith(("local", "param")):
            return f"(uintptr_t){a.cname}"
        if name in self.shared:
            return f"{self.shared[name]}u"
        if name in self.dynamic:
            return f"({SMEM_START}u + dynamic_at())" if not self.f.is_entry else \
                f"{SMEM_START + self.static_smem}u"
        if name in self.variables:
            return f"(uintptr_t){variable_name(name)}"
        if name in self.params or self.f.result and name == self.f.result.name:
            return f"(uintptr_t){self.parameter(name)}"
        return self.fail(f"unknown name '{name}'")

    def parameter(self, name):
        if self.f.result and name == self.f.result.name:
            return "result"
        if self.f.is_entry:
            offset = self.params[name].offset
            return f"(params + {offset})" if offset else "params"
        return f"arg{[p.name for p in self.f.params].index(name)}"

    def buffer(self, a):
        """A .param variable of a call, or of this function: a char pointer."""
        if isinstance(a, Buffer):
            return a.cname
        return self.parameter(a.name)

    def word(self, buffer, ctype):
        return f"({ctype})*(const mem64 *){buffer}"

    def zero(self, buffer):
        return f"*(mem32 *){self.buffer(buffer)} = 0;" if buffer else ""

    # ---- results ----
    def set(self, dst, expr, t):
        """Statement: the value `expr` of type t.ctype goes to register dst."""
        if dst is SINK or dst not in self.read and isinstance(dst, Reg):
            return f"(void)({expr});"
        if not isinstance(dst, Reg):
            self.fail(f"the destination of '{self.ins.op}' is no register")
        if t.is_float:
            return f"{dst.name} = ptx::as<{dst.type.storage}>({expr});"
        if t.bits == dst.type.bits or t.kind == "pred":
            return f"{dst.name} = {expr};"
        return f"{dst.name} = ({t.ctype})({expr});"  # extends the sign, or cuts

    def set_bits(self, dst, expr, t):
        return self.set(dst, expr, t if t.kind == "pred" else bits_type(t.bits))

    def set_together(self, pairs):
        """Several predicates at once: none is written before all are computed."""
        out = [f"const bool {n} = {expr};" for n, (_, expr) in zip("xyz", pairs)]
        out += [self.set(r, n, TYPES["pred"]) for n, (r, _) in zip("xyz", pairs)]
        return " ".join(out)

    # ---- addresses ----
    def address(self, mem):
        """A 64-bit address operand."""
        base = self.value(mem.base, TYPES["u64"])
        return f"{base} + {mem.offset & (1 << 64) - 1:#x}ull" if mem.offset else base

    def const_pointer(self, mem):
        return f"(const void *)({self.address(mem)})"

    def shared_address(self, mem, space):
        """A 32-bit address of the shared window; a generic one is converted."""
        if space != "shared":
            return f"smem_addr({self.const_pointer(mem)})"
        base = self.value(mem.base, TYPES["u32"])
        return f"{base} + {mem.offset & 0xffffffff:#x}u" if mem.offset else base

    def pointer(self, name, mem, space, size, what):
        """Declares the host pointer of a memory operand."""
        if space == "shared":
            at = self.shared_address(mem, "shared")
            return f"char *const {name} = (char *)smem_ptr({at}, {size}, \"{what}\");"
        if space == "param":
            base = self.buffer(mem.base) if not isinstance(mem.base, Reg) else \
                f"(char *){mem.base.name}"
            return f"char *const {name} = {base}{f' + {mem.offset}' if mem.offset else ''};"
        return f"char *const {name} = (char *)({self.address(mem)});"

    def label(self, a):
        if not isinstance(a, Label):
            self.fail(f"a jump to '{getattr(a, 'name', a)}', which is no label here")
        self.used_labels.add(a.name)
        return "L_" + a.name

    # ---- statements ----
    def instruction(self, ins):
        self.ins = ins
        parts = ins.parts
        found = opcodes.find(parts)
        if found:
            return self.expression(ins, *found)
        handler = opcodes.HANDLERS.get(parts[0])
        if handler is None:
            self.fail(f"no translation of '{ins.op}'")
        return handler(self, ins)

    def expression(self, ins, row, t):
        mods = ins.parts[1:-1]
        ftz = "ftz" in mods and t.name == "f32"
        types = {"T": t}
        if t.kind in ("bits", "unsigned", "signed"):
            types["U"] = unsigned_of(t)
            if t.bits < 64 and t.kind != "bits":
                types["W"] = wide_of(t)
                types["WU"] = unsigned_of(types["W"])
        types["B"] = t if t.kind == "pred" else bits_type(t.bits)
        if len(ins.args) != 1 + len(row.srcs):
            self.fail(f"{len(ins.args)} operands in '{ins.op}'")
        names = {k: v.ctype for k, v in types.items()}
        for letter, kind, a in zip("abcd", row.srcs, ins.args[1:]):
            kind = types.get(kind) or TYPES[kind]
            v = self.value(a, kind)
            names[letter] = f"ptx::ftz({v})" if ftz and kind.is_float else v
        names["r"] = "ptx::" + next((handlers.ROUND[m] for m in mods if m in handlers.ROUND), "RN")
        names["mod"] = handlers.half_mods(mods)
        names["F"] = handlers.HALVES.get(t.name.replace("x2", ""), "")
        names["L"] = "uint16_t" if t.name == "u16x2" else "int16_t"
        expr = row.expr.format(**names)
        dst = types.get(row.dst) or TYPES[row.dst]
        if "sat" in mods and t.is_float:
            expr = f"ptx::sat({expr})"
        if ftz and dst.is_float:
            expr = f"ptx::ftz({expr})"
        return self.set(ins.args[0], expr, dst)

    def statement(self, ins):
        code = self.instruction(ins)
        if ins.pred is not None:
            negated = isinstance(ins.pred, Not)
            name = ins.pred.reg.name if negated else ins.pred.name
            return f"if ({'!' if negated else ''}{name}) {{ {code} }}" if code else ""
        return f"{{ {code} }}" if "; " in code and not code.startswith("goto") else code

    def signature(self):
        name = self.functions[self.f.name]
        if self.f.is_entry:
            return f"void {name}(void *kernel_params)"
        args = ["result"] + [f"arg{i}" for i in range(len(self.f.params))]
        return f"void {name}({', '.join('[[maybe_unused]] char *' + a for a in args)})"

    def declarations(self):
        by_type = {}
        for r in self.f.regs:
            if r in self.read:
                by_type.setdefault(r.type.storage, []).append(f"{r.name} = 0")
        out = []
        for ctype, names in by_type.items():
            names = [n.replace(" = 0", " = false") for n in names] if ctype == "bool" else names
            for i in range(0, len(names), 12):
                out.append(f"    {ctype} {', '.join(names[i:i + 12])};")
        if any(".cc" in s.op or s.op.startswith(("addc", "subc", "madc")) for s in self.f.body
               if isinstance(s, Instr)):
            out.append("    bool carry = false;")
        for b in self.f.locals:
            out.append(f"    alignas({max(b.align, 16)}) char {b.cname}[{b.bytes}];")
            out.append(f"    memset({b.cname}, 0xff, sizeof {b.cname});")
        for b in self.f.call_params:
            out.append(f"    alignas({max(b.align, 16)}) char {b.cname}[{max(b.bytes, 8)}] = {{}};")
        return out

    def function(self):
        lines = []
        place = None
        for s in self.f.body:
            if isinstance(s, Label):
                lines.append(s)
                continue
            code = self.statement(s)
            if not code:
                continue
            if s.place.line:  # before every statement: the compiler counts lines from here
                same_file = place is not None and s.place.file == place.file
                lines.append(f"#line {s.place.line}" + ("" if same_file else f' "{s.place.file}"'))
                place = s.place
            lines.append("    " + code)
        head = [self.signature(), "{"]
        if self.f.is_entry:
            head.append("    char *const params = (char *)kernel_params;")
            head.append("    (void)params;")
        text = [f"L_{x.name}:;" if isinstance(x, Label) else x for x in lines
                if not isinstance(x, Label) or x.name in self.used_labels]
        return head + self.declarations() + text + ["}", ""]


def variable_name(name):
    return "var_" + c_name(name)


PRELUDE = '''// {name} -- Made by ptx2c.py from {source}: do not edit.
#include "tests/cudasim/ptx2c/prelude.h"

namespace
{{

using namespace cudasim;
'''


def emit_variable(v, module):
    name = variable_name(v.name)
    words = v.type.storage
    if any(isinstance(x, tuple) for x in v.init):
        values = ", ".join(f"reinterpret_cast<uint64_t>({variable_name(x[0])}) + {x[1]}"
                           if isinstance(x, tuple) else str(x) for x in v.init)
    else:
        suffix = "ull" if v.type.bits == 64 else "u"
        values = ", ".join(f"{x:#x}{suffix}" for x in v.init)
    out = [f"alignas({max(v.align, 1)}) {words} {name}[{max(v.count, 1)}] = {{{values}}};"]
    out.append(f'VariableEntry entry_{name}("{v.name}", {name}, sizeof {name}, '
               f"{'true' if v.space == 'const' else 'false'});")
    return out


def emit_kernel(e):
    f, name = e.f, e.functions[e.f.name]
    out = []
    table = ", ".join(f"{{{p.offset}, {p.bytes}}}" for p in f.params) or "{0, 0}"
    out.append(f"const KernelParam params_{name}[] = {{{table}}};")
    dims = [f.directives.get(k, (0, 0, 0)) for k in ("maxntid", "reqnctapercluster")]
    if "reqntid" in f.directives:
        dims[0] = f.directives["reqntid"]
    dims = ["{" + ", ".join(str(x) for x in (tuple(d) + (1, 1))[:3]) + "}" for d in dims]
    size = max([p.offset + p.bytes for p in f.params], default=0)
    align = e.dynamic_align() if e.uses_dynamic() else 1
    place = next((s.place for s in f.body if isinstance(s, Instr)), None)
    local = sum(b.bytes for b in f.locals)
    out.append(f'KernelEntry entry_{name}({{"{f.name}", {name}, params_{name}, {len(f.params)}, '
               f"{size}, {e.static_smem}, {align}, {local}, {dims[0]}, {dims[1]}, "
               f'"{place.file if place else ""}", {place.line if place else 0}, nullptr}});')
    return out + [""]


def translate(module, name, source):
    """The C++ text of a module."""
    functions = {}
    for i, f in enumerate(module.functions):
        functions[f.name] = f"{'kernel' if f.is_entry else 'function'}{i}_{short_name(f.name)}"
    out = [PRELUDE.format(name=name, source=source)]
    for v in module.variables:
        out += emit_variable(v, module)
    emitters = [Emitter(module, f, functions) for f in module.functions]
    out += [e.signature() + ";" for e in emitters if not e.f.is_entry] + [""]
    for e in emitters:
        out += e.function()
        if e.f.is_entry:
            out += emit_kernel(e)
    return "\n".join(out + ["} // namespace", ""])


def short_name(name):
    """What is readable of a mangled name; only a help for debuggers."""
    m = re.match(r"_Z(?:N\d+_GLOBAL__N__[0-9a-f]+_\d+_\w+?_cu_[0-9a-f]+_?\d*)?N?(\d+)(\w+)", name)
    if m and int(m[1]) <= len(m[2]):
        return m[2][:int(m[1])]
    return c_name(name)[:60]
