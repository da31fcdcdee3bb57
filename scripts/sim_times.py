#!/usr/bin/env python3
"""sim_times.py -- where the time of the simulator's tests went: a table of the last `ctest -L sim`.

    scripts/sim_times.py [BUILD]     default: build

First the seconds of each kernel's tests: in order, by random schedules (three seeds), as late as is
legal, with the race checker; tests below a second together. Then the time inside of each kernel,
all its instances, in the runs in order: what is left is the test's own, mostly the reference. Exit
code 77 without a log of such tests.

SPDX-License-Identifier: MIT
"""
import re
import sys
from pathlib import Path

from sass_read import short_names

TEST = re.compile(r"^\d+/\d+ Testing: (\S+)\n(.*?)^Test time = +([\d.]+) sec", re.M | re.S)
KERNEL = re.compile(r"^cudasim: +([\d.]+) s +(\d+) launches  (.+)$", re.M)
RUNS = ["in order", "seeds", "late", "races"]


def run_of(test):
    """sim_OP_seed4 -> ("OP", "seeds")"""
    if test.startswith("core_"):
        return "instructions, one by one", "in order"
    found = re.match(r"sim_(.+?)_(seed\d+|late|race)$", test)
    if not found:
        return re.sub("^sim_", "", test), "in order"
    return found[1], {"late": "late", "race": "races"}.get(found[2], "seeds")


def read(log):
    """-> ({test: {run: seconds}}, {kernel: [seconds, launches]})"""
    tests, kernels = {}, {}
    for name, output, seconds in TEST.findall(log):
        if not name.startswith(("sim_", "core_")):
            continue
        whose, run = run_of(name)
        row = tests.setdefault(whose, dict.fromkeys(RUNS, 0.0))
        row[run] += float(seconds)
        rows = KERNEL.findall(output)
        names = short_names(symbol for _, _, symbol in rows)
        for spent, launches, symbol in rows:
            k = kernels.setdefault(names[symbol].partition("<")[0], [0.0, 0])
            k[0] += float(spent)
            k[1] += int(launches)
    return tests, kernels


def print_row(name, row):
    cells = [row[run] for run in RUNS] + [sum(row.values())]
    print(f"{name:28}" + "".join(f"{x:10.1f}" if x else f"{'-':>10}" for x in cells))


def print_tables(tests, kernels):
    print(f"{'tests, seconds':28}" + "".join(f"{title:>10}" for title in RUNS + ["sum"]))
    small = dict.fromkeys(RUNS, 0.0)
    for name, row in sorted(tests.items(), key=lambda r: -sum(r[1].values())):
        if sum(row.values()) >= 1:
            print_row(name, row)
        else:
            small = {run: small[run] + row[run] for run in RUNS}
    print_row("others", small)
    print_row("all", {run: sum(row[run] for row in tests.values()) for run in RUNS})
    print(f"\n{'kernel, in order':28}{'seconds':>10}{'launches':>10}")
    for name, (seconds, launches) in sorted(kernels.items(), key=lambda k: -k[1][0]):
        print(f"{name:28}{seconds:10.2f}{launches:10}")


def main():
    build = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "build")
    log = build / "Testing" / "Temporary" / "LastTest.log"
    tests, kernels = read(log.read_text(errors="replace")) if log.exists() else ({}, {})
    if not tests:
        print("SKIP: the last run of ctest had no tests of the simulator")
        return 77
    print_tables(tests, kernels)
    return 0


if __name__ == "__main__":
    sys.exit(main())
