"""flow.py -- which registers of a function are read, and which may hold a wgmma's tag.

wgmma leaves tags in its accumulators (device.h): moves keep them while the wgmma is in flight and
take the value once it has been waited for (wgmma_result); every other instruction reads such a
register through wgmma_use(). May hold a tag: it is an accumulator of a wgmma, or was moved from
one.

SPDX-License-Identifier: MIT
"""
from ptx_parser import Instr, List, Mem, Not, Pair, Reg, Vec

# Instructions whose first operand is not a result.
NO_RESULT = {"st", "red", "bar", "barrier", "bra", "brx", "call", "ret", "exit", "trap", "cp",
             "stmatrix", "membar", "fence", "setmaxnreg", "nanosleep", "prefetch", "prefetchu",
             "wgmma", "discard", "applypriority", "griddepcontrol", "pmevent", "brkpt"}
COPIES = {"mov", "selp"}


def registers(a):
    """All registers in an operand."""
    if isinstance(a, Reg):
        yield a
    elif isinstance(a, (Vec, List)):
        for x in a.items:
            yield from registers(x)
    elif isinstance(a, Mem):
        yield from registers(a.base)
        for x in a.coords or ():
            yield from registers(x)
    elif isinstance(a, Not):
        yield from registers(a.reg)
    elif isinstance(a, Pair):
        yield from registers(a.first)
        yield from registers(a.second)


def instructions(function):
    return [s for s in function.body if isinstance(s, Instr)]


def is_copy(ins):
    return ins.parts[0] in COPIES and isinstance(ins.args[0], Reg) and ins.args[0].type.bits == 32


def registers_read(function):
    read = set()
    for ins in instructions(function):
        has_result = ins.parts[0] not in NO_RESULT and not \
            (ins.op.startswith("bar") and "red" in ins.parts)
        for i, a in enumerate(ins.args + [ins.pred]):
            if i > 0 or not has_result or isinstance(a, Mem):
                read.update(registers(a))
    return read


def tagged_registers(function):
    """Registers that may hold a tag."""
    tagged = set()
    for ins in instructions(function):
        if ins.op.startswith("wgmma.mma_async"):
            tagged.update(registers(ins.args[0]))
    if not tagged:
        return tagged
    copies = [ins for ins in instructions(function) if is_copy(ins)]
    before = -1
    while before != len(tagged):
        before = len(tagged)
        for ins in copies:
            if any(r in tagged for a in ins.args[1:3] for r in registers(a)):
                tagged.add(ins.args[0])
    return tagged
