#!/usr/bin/env python3
"""sass_profile.py -- static profile of Hopper (sm_90a) kernels, read from their SASS. Needs no GPU.

    scripts/sass_profile.py FILE...              main loops of every kernel that uses wgmma
    scripts/sass_profile.py --timeline FILE      and the order of events in each loop: groups of
                                                 wgmma, waits, the arithmetic between them
    scripts/sass_profile.py --all FILE           every wgmma loop (not only the three heaviest),
                                                 and kernels without
    scripts/sass_profile.py --json FILE          for programs
    scripts/sass_profile.py --kernel=REGEX ...   only kernels whose name matches

FILE is a cubin, an object or a program with cubins in it, or SASS text from `cuobjdump -sass` or
`nvdisasm -c`. Limits for our kernels are checked by scripts/check_sass.

Figures of a loop are for ONE warp and ONE iteration. A warpgroup has a warp on each of the four
schedulers, so they are also the cycles it takes from each scheduler. All warpgroups of an SM use it
alike, so ratios hold for any number of them. Compare tiles of different sizes by *_per_tc: for a
tensor cycle.

  tensor   N/2 cycles for each m64nN (16 bits k16, fp8 k32, tf32 k8): 4096 dense bf16 FLOP a clock
  issue    instructions: one a cycle and scheduler. MUFU, ALU, FMA pipes: 32 / LANES cycles each
  smem     bytes that wgmma, LDS, STS, LDSM, STSM and SHFL move, over 128 bytes a clock
  best     100 * tensor / the largest of these: everything overlaps
  serial   100 * tensor / (max(tensor, smem) + max(issue, mufu, alu, fma)): arithmetic never
           overlaps wgmma. The one that predicts measured kernels best
  covered  % of the issue slots (mufu_covered: of the MUFUs) during which this warpgroup has a wgmma
           of its own in flight; what is left has to be hidden by another warpgroup
  commits  groups of wgmma (mma_per_commit near 1: ptxas serialised them); drains: waits for the
           last group; loop_spills: local loads and stores

Code that lies behind the loop's end (slow paths of barriers) is left out; all arms of an `if`
inside count, so with many branches the figures are upper bounds. TMA writes, bank conflicts,
latency, clocks and power are not modelled.

SPDX-License-Identifier: MIT
"""
import argparse
import json
import re
import sys
from collections import Counter, defaultdict

from sass_read import ToolMissing, read_kernels

LANES = {"fma": 32, "imad": 16, "alu": 16, "mufu": 4}  # results a clock and scheduler, sm_90
JUMPS, ENDS = ("BRA", "JMP"), ("BRA", "JMP", "EXIT", "RET", "BRX")
FIGURES = ("tensor issue mufu ffma fminmax cvt int imad uniform lds sts shfl mbarrier bar commits "
           "mma_per_commit drains loop_spills branches smem issue_per_tc mufu_per_tc smem_per_tc "
           "covered mufu_covered best serial limiter").split()


class Graph:
    """Basic blocks: [first, end) instruction indices, with their successors."""

    def __init__(self, insns, labels):
        self.insns = insns
        at = {x.addr: k for k, x in enumerate(insns)}
        jump = {k: at[x.target(labels)] for k, x in enumerate(insns)
                if x.op in JUMPS and x.target(labels) in at}
        after_end = {k + 1 for k, x in enumerate(insns[:-1]) if x.op in ENDS}
        first = sorted({0} | set(jump.values()) | after_end)
        index = {start: b for b, start in enumerate(first)}
        self.blocks = list(zip(first, first[1:] + [len(insns)]))
        self.successors = []
        for b, (_, end) in enumerate(self.blocks):
            last = insns[end - 1]
            to = [index[jump[end - 1]]] if end - 1 in jump else []
            if b + 1 < len(self.blocks) and (last.op not in ENDS or last.conditional()):
                to.append(b + 1)
            self.successors.append(to)

    def order(self):
        """Reachable blocks in reverse postorder of a depth-first search."""
        order, seen, stack = [], {0}, [(0, iter(self.successors[0]))]
        while stack:
            new = next((s for s in stack[-1][1] if s not in seen), None)
            if new is None:
                order.append(stack.pop()[0])
            else:
                seen.add(new)
                stack.append((new, iter(self.successors[new])))
        return order[::-1]


def dominators(order, predecessors):
    """Immediate dominators: Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm"."""
    rank = {b: k for k, b in enumerate(order)}
    idom, changed = {0: 0}, True
    while changed:
        changed = False
        for b in order[1:]:
            known = [p for p in predecessors[b] if p in idom]
            new = known[0]
            for p in known[1:]:
                while p != new:
                    if rank[p] > rank[new]:
                        p = idom[p]
                    else:
                        new = idom[new]
            changed |= idom.get(b) != new
            idom[b] = new
    return idom


def find_loops(graph):
    """Natural loops: ({header: set of blocks}, {header: last block that jumps back})"""
    order, predecessors = graph.order(), defaultdict(list)
    for b in order:
        for s in graph.successors[b]:
            predecessors[s].append(b)
    idom = dominators(order, predecessors)
    bodies, latch = defaultdict(set), {}
    for b in order:
        for header in graph.successors[b]:
            up = b
            while up not in (header, 0):
                up = idom[up]
            if up != header:
                continue  # no back edge
            work = [b] if b != header else []
            bodies[header] |= {header, b}
            while work:
                new = [p for p in predecessors[work.pop()] if p not in bodies[header]]
                bodies[header].update(new)
                work += new
            latch[header] = max(b, latch.get(header, b))
    return bodies, latch


def loop_code(graph):
    """{header: the instructions of its loop}, and which loop contains which."""
    bodies, latch = find_loops(graph)
    code = {h: [x for b in sorted(body) if h <= b <= latch[h]
                for x in graph.insns[slice(*graph.blocks[b])]] for h, body in bodies.items()}
    return code, bodies


def innermost(code, bodies, cls):
    """Loops that hold an instruction of this class and no smaller loop that does, too."""
    has = [h for h in code if any(x.cls == cls for x in code[h])]
    return [h for h in has if not any(bodies[g] < bodies[h] for g in has)]


def in_flight(body):
    """For each instruction: has this warp wgmma work in flight? (On the second trip round.)"""
    groups, open_group, marks = 0, False, []
    for x in body + body:
        if x.cls == "mma":
            groups, open_group = (groups + 1, False) if x.commits else (groups, True)
        elif x.drain is not None:
            groups = min(groups, x.drain)
        marks.append(groups > 0 or open_group)
    return marks[len(body):]


def measure(body):
    count, pipe = Counter(x.cls for x in body), Counter()
    for x in body:
        if x.pipe in LANES:
            pipe["fma" if x.pipe == "imad" else x.pipe] += 32 // LANES[x.pipe]
    mma = [x for x in body if x.cls == "mma"]
    tensor, commits = sum(x.tensor for x in mma), sum(x.commits for x in mma)
    bound = {"tensor": tensor, "issue": len(body), "mufu": pipe["mufu"], "alu": pipe["alu"],
             "fma": pipe["fma"], "smem": sum(x.bytes for x in body) // 128}
    marks, shapes = in_flight(body), Counter(x.shape for x in mma)
    side = max(bound[k] for k in ("issue", "mufu", "alu", "fma"))
    mufu_marks = sum(m and x.cls == "mufu" for m, x in zip(marks, body))
    figures = {name: 0 for name in FIGURES}
    figures.update(count)
    figures.update({
        "shapes": "+".join(f"{n}x{shape}" for shape, n in shapes.items()), "bound": bound,
        "tensor": tensor, "issue": len(body), "smem": bound["smem"],
        "branches": sum(x.op == "BRA" for x in body) - 1, "commits": commits,
        "mma_per_commit": round(count["mma"] / max(commits, 1), 1),
        "drains": sum(x.drain == 0 for x in body), "limiter": max(bound, key=bound.get),
        "covered": 100 * sum(marks) // len(body),
        "mufu_covered": 100 * mufu_marks // max(count["mufu"], 1),
        "best": round(100 * tensor / max(bound.values()), 1),
        "serial": round(100 * tensor / (max(tensor, bound["smem"]) + side), 1)})
    figures.update({k + "_per_tc": round(v / tensor, 3) for k, v in bound.items()})
    return figures


class Timeline:
    """The events of a loop in order, with the arithmetic between them as [class count ...]."""

    def __init__(self):
        self.parts, self.group, self.math = [], Counter(), Counter()

    def event(self, what):
        if self.math:
            self.parts.append("[" + " ".join(f"{c} {n}" for c, n in self.math.most_common(6)) + "]")
            self.math.clear()
        if what and self.parts[-1:] != [what]:
            self.parts.append(what)

    def add(self, x):
        if x.cls == "mma":
            self.group[x.shape] += 1
            if x.commits:
                self.event("MMA " + "+".join(f"{n}x{s}" for s, n in self.group.items()))
                self.group.clear()
        elif x.drain is not None:
            self.event(f"wait<={x.drain}")
        elif x.cls == "mbarrier":
            self.event("mbar.arrive" if "ARRIVE" in x.mods else "mbar.wait")
        elif x.cls in ("bar", "tma"):
            self.event(x.op + ".".join(x.mods.split(".")[:2]))
        elif not self.group and x.cls != "wgsync":
            self.math[x.cls] += 1


def timeline(body):
    line = Timeline()
    for x in body:
        line.add(x)
    line.event(None)
    return " | ".join(line.parts)


def profile(kernel):
    """Everything the SASS of a kernel says, as a dict; `loops` has the heaviest wgmma loop first."""
    graph = Graph(kernel.insns, kernel.labels)
    code, bodies = loop_code(graph)
    loops = [{"address": code[h][0].addr, **measure(code[h]), "timeline": timeline(code[h])}
             for h in innermost(code, bodies, "mma")]
    loops.sort(key=lambda loop: (-loop["tensor"], loop["issue"]))
    in_loops = {x.addr for body in code.values() for x in body if x.cls == "loop_spills"}
    local = sum(x.cls == "loop_spills" for x in kernel.insns)
    tma = [sum(x.op in ("UTMALDG", "UBLKCP") for x in code[h])
           for h in innermost(code, bodies, "tma")]
    maxnreg = {int(x.args.split(",")[-1], 16) for x in kernel.insns if x.op == "USETMAXREG"}
    return {"file": kernel.path, "arch": kernel.arch, "kernel": kernel.name,
            "symbol": kernel.symbol, "regs": kernel.regs, "stack": kernel.stack,
            "static_smem": kernel.static_smem, "threads": kernel.threads,
            "setmaxnreg": sorted(maxnreg), "instructions": len(kernel.insns), "local": local,
            "local_in_loops": len(in_loops), "local_loads": kernel.count("LDL"),
            "hgmma": sum(x.cls == "mma" for x in kernel.insns),
            "qgmma": sum(x.op == "QGMMA" for x in kernel.insns),  # of FP8
            "mma_sync": sum(x.op in ("HMMA", "IMMA", "QMMA") for x in kernel.insns),
            "tma_loads_per_producer_loop": max(tma, default=0), "loops": loops}


def print_profile(p, all_loops, with_timeline):
    facts = ("arch regs stack static_smem threads setmaxnreg instructions local local_in_loops "
             "tma_loads_per_producer_loop").split()
    print(p["file"])
    print("  " + p["kernel"])
    print("    " + "  ".join(f"{k} {'?' if p[k] is None else p[k]}" for k in facts))
    for loop in p["loops"] if all_loops else p["loops"][:3]:
        print(f"  loop at 0x{loop['address']:x}: {loop['shapes']}")
        print("    " + "  ".join(f"{k} {loop[k]}" for k in FIGURES))
        if with_timeline:
            print("    " + loop["timeline"])


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("files", nargs="+", metavar="FILE")
    p.add_argument("--timeline", action="store_true")
    p.add_argument("--all", action="store_true")
    p.add_argument("--json", action="store_true")
    p.add_argument("--kernel", default="", metavar="REGEX")
    a = p.parse_args()
    try:
        kernels = [k for f in a.files for k in read_kernels(f) if re.search(a.kernel, k.name)]
    except ToolMissing as why:
        sys.exit(f"sass_profile.py: {why}")
    profiles = [q for q in map(profile, kernels) if q["loops"] or a.all]
    if a.json:
        print(json.dumps(profiles, indent=1))
    for q in profiles if not a.json else []:
        print_profile(q, a.all, a.timeline)


if __name__ == "__main__":
    main()
