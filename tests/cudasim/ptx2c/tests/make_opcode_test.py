#!/usr/bin/env python3
"""make_opcode_test.py -- the opcode tests as one PTX file and a file of operands and results.

    make_opcode_test.py OUT.ptx OUT.bin

Every case is a kernel; opcode_test.cpp runs them and compares. The PTX is plain text that ptxas
accepts, too, so the table cannot test instructions that do not exist.

SPDX-License-Identifier: MIT
"""
import struct
import sys

sys.dont_write_bytecode = True
import opcode_table
import opcode_table_float  # fills opcode_table.CASES
from opcode_table import width

HEAD = """.version 9.0
.target sm_90a
.address_size 64

.file 1 "opcodes.cu"
.const .align 4 .u32 const_table[4] = {3, 0xffffffff, 1065353216, 7};
.global .align 4 .f32 table[3] = {0f00000000, 0f40000000, 0f3F800000};
.global .align 8 .u64 pointer_to_table = generic(table);

.func (.param .b64 sum) add_wide(.param .b32 x, .param .b64 y)
{
.reg .b32 %r;
.reg .b64 %d, %e;
ld.param.b32 %r, [x];
ld.param.b64 %d, [y];
cvt.u64.u32 %e, %r;
add.u64 %d, %d, %e;
st.param.b64 [sum], %d;
ret;
}
"""

KERNEL = """
.visible .entry k{number}(.param .u64 operands, .param .u64 results, .param .u32 count)
.maxntid 128
{{
.reg .pred %p1, %p2, %real;
.reg .b16 %h0, %h1;
.reg .b32 %lo, %hi, %lo2, %hi2, %at, %index, %n, %place;
.reg .b64 %wide, %from, %to, %step;
{declare}
.shared .align 16 .b8 shared_bytes[1040];
.local .align 16 .b8 local_bytes[16];
.loc 1 {line} 0
ld.param.u64 %from, [operands];
ld.param.u64 %to, [results];
ld.param.u32 %n, [count];
mov.u32 %place, %ctaid.x;
mov.u32 %lo, %ntid.x;
mov.u32 %index, %tid.x;
mad.lo.u32 %place, %place, %lo, %index;
setp.lt.u32 %real, %place, %n;
rem.u32 %index, %place, %n;
mul.wide.u32 %step, %index, 32;
add.u64 %from, %from, %step;
mul.wide.u32 %step, %place, 8;
add.u64 %to, %to, %step;
{load}
{code}
{store}
ret;
}}
"""


def load(reg, kind, offset):
    if kind == "pred":
        return f"ld.global.u32 %lo, [%from+{offset}]; setp.ne.u32 {reg}, %lo, 0;"
    return f"ld.global.b{width(kind)} {reg}, [%from+{offset}];"


def store(kind):
    if kind == "pred":
        return "selp.u32 %lo, 1, 0, %q;\n@%real st.global.u32 [%to], %lo;"
    return f"@%real st.global.b{width(kind)} [%to], %q;"


def kernel(number, c):
    regs = list(zip(("%a", "%b", "%c", "%d"), c.ins))
    declare = "\n".join(f".reg .{kind} {r};" for r, kind in regs + [("%q", c.out)])
    loads = "\n".join(load(r, kind, 8 * i) for i, (r, kind) in enumerate(regs))
    return KERNEL.format(number=number, declare=declare, line=number + 1, load=loads, code=c.code,
                         store=store(c.out))


def record(c):
    name = c.name.encode()
    nan = c.any_nan.encode()
    expected = [c.ref(*u) for u in c.operands]
    out = struct.pack("<IIII", len(name), len(nan), c.ulps, len(c.operands)) + name + nan
    for u in c.operands:
        out += struct.pack("<4Q", *(tuple(u) + (0,) * (4 - len(u))))
    return out + struct.pack(f"<{len(expected)}Q", *expected)


def main():
    cases = opcode_table.CASES
    with open(sys.argv[1], "w", encoding="ascii") as f:
        f.write(HEAD)
        for i, c in enumerate(cases):
            f.write(kernel(i, c))
    with open(sys.argv[2], "wb") as f:
        f.write(struct.pack("<I", len(cases)))
        for c in cases:
            f.write(record(c))


if __name__ == "__main__":
    main()
