#!/usr/bin/env python3
"""ptx2c.py -- translate the PTX that nvcc emits to C++ for the simulator.

    ptx2c.py IN.ptx -o OUT.cpp

    ptx_parser.py   text -> functions, variables, instructions with their places in the .cu file
    ptx_types.py    the types
    opcodes.py      the table: opcode -> C++ expression or a function of handlers.py
    handlers.py     memory, control flow, barriers, copies, matrices
    flow.py         basic blocks; which registers a wgmma.wait_group completes
    emitter.py      functions and variables as C++ text

An instruction that the table does not know is an error that names the line of the .cu file.

SPDX-License-Identifier: MIT
"""
import argparse
import os
import sys

sys.dont_write_bytecode = True
import emitter
import ptx_parser


def main():
    args = argparse.ArgumentParser(description="PTX to C++ for the simulator")
    args.add_argument("ptx")
    args.add_argument("-o", "--output", required=True)
    args = args.parse_args()
    with open(args.ptx, encoding="ascii", errors="replace") as f:
        text = f.read()
    try:
        module = ptx_parser.parse(text)
        out = emitter.translate(module, os.path.basename(args.output), os.path.basename(args.ptx))
    except ptx_parser.PtxError as e:
        sys.exit(f"ptx2c.py: {e}")
    with open(args.output, "w", encoding="ascii") as f:
        f.write(out)


if __name__ == "__main__":
    main()
