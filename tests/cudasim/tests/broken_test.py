#!/usr/bin/env python3
"""broken_test.py -- every kernel of broken.cu is caught, and the report names the wrong line.

    broken_test.py PLAIN_PROGRAM RACE_PROGRAM BROKEN.CU

SPDX-License-Identifier: MIT
"""
import re
import subprocess
import sys

plain, race, source = sys.argv[1:]
failed = 0
for number, line in enumerate(open(source, encoding="ascii"), 1):
    mark = re.search(r"// wrong: (\w+) (\d+)", line)
    if not mark:
        continue
    name, code = mark[1], int(mark[2])
    programs = [race] if name.startswith("race_") else [plain, race]
    for program in programs:
        run = subprocess.run([program, name], capture_output=True, text=True, timeout=60)
        # A statement of several lines may be named by another of them.
        lines = [f"broken.cu:{n}" for n in range(number - 3, number + 1)]
        ok = run.returncode == code and any(x in run.stderr for x in lines)
        print(f"{name:20} {'ok' if ok else 'FAILED'}")
        if not ok:
            print(f"exit code {run.returncode}, expected {code} and line {number}\n{run.stderr}")
            failed += 1
    if name.startswith("race_"):
        run = subprocess.run([plain, name], capture_output=True, text=True, timeout=60)
        if run.returncode != 0:
            print(f"{name}: the plain build says {run.returncode}\n{run.stderr}")
            failed += 1
sys.exit(1 if failed else 0)
