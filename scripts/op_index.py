#!/usr/bin/env python3
"""op_index.py -- the table of ops in kernels/README.md, made from kernels/ops.def and the contracts.

    scripts/op_index.py --check     exit code 1 when the README is stale
    scripts/op_index.py --write     bring it up to date

SPDX-License-Identifier: MIT
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "kernels" / "README.md"
BEGIN = "<!-- op index: made by scripts/op_index.py from ops.def and the contracts' Cost lines -->\n"
END = "<!-- end of op index -->\n"


def cost_of(name):
    head = (ROOT / "kernels" / "ops" / f"{name}.h").read_text().split("// SPDX")[0]
    text = " ".join(line[2:].strip() for line in head.splitlines())
    cost = re.search(r"Cost:\s+(.*?)(?: {2,}|$)", re.sub(r"\s*$", "", text))
    if not cost:
        sys.exit(f"kernels/ops/{name}.h has no Cost line")
    return cost.group(1).strip().rstrip(".").replace("|", "\\|")


def index():
    rows = re.findall(r'^OP\((\w+), \w+, "(.*)"\)$', (ROOT / "kernels" / "ops.def").read_text(), re.M)
    lines = ["| op | what it does | cost |", "|---|---|---|"]
    lines += [f"| [`{name}`](ops/{name}.h) | {what} | {cost_of(name)} |" for name, what in rows]
    return "\n".join(lines) + "\n"


def main():
    text = README.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    fresh = before + BEGIN + index() + END + after
    if sys.argv[1:] == ["--write"]:
        README.write_text(fresh)
    elif sys.argv[1:] != ["--check"]:
        sys.exit(__doc__)
    elif fresh != text:
        sys.exit("kernels/README.md: the op index is stale; run scripts/op_index.py --write")


main()
