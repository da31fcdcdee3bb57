"""sass_read.py -- kernels out of cubins, objects, executables or SASS text, for sass_profile.py.

A kernel is a list of instructions with addresses, the addresses of its labels, and what the
compiler says that it needs (registers, stack, shared memory, threads). Objects are read by
NVIDIA's disassembler: `cuobjdump`, which calls `nvdisasm`. Where the CUDA toolkit lacks them:

    python3 -m venv .venv
    .venv/bin/pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm

They are looked for on PATH, beside nvcc, and in .venv/ of the project.

SPDX-License-Identifier: MIT
"""
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENABLE = ("python3 -m venv .venv && "
          ".venv/bin/pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm")

# The first match decides: opcode, class in the report, the pipe it keeps busy.
CLASSES = [(re.compile(pattern), cls, pipe) for pattern, cls, pipe in [
    (r"[HQI]GMMA", "mma", None),
    (r"MUFU", "mufu", "mufu"),
    (r"F(FMA|MUL|ADD).*", "ffma", "fma"),
    (r"F(MNMX|SEL|SETP|SET|CHK).*", "fminmax", "alu"),
    (r"H(FMA|ADD|MUL|MNMX|SETP|SET)2", "half2", "fma"),
    (r"F2FP?|F2I|I2F|I2FP|FRND|F2IP", "cvt", "alu"),
    (r"STL|LDL", "loop_spills", None),
    (r"LDSM|LDS", "lds", "smem"),
    (r"STSM|STS|ATOMS", "sts", "smem"),
    (r"SHFL", "shfl", "smem"),
    (r"BAR|UCGABAR.*|MEMBAR|FENCE", "bar", None),
    (r"SYNCS", "mbarrier", None),
    (r"WARPGROUP.*", "wgsync", None),
    (r"UTMA.*|UBLK.*", "tma", None),
    (r"LDG|STG|LD|ST|RED|ATOMG?|LDGSTS|U?LDCU?|CCTL", "mem", None),
    (r"IMAD|IMUL|IDP", "imad", "imad"),
    (r"BRA|EXIT|BSSY|BSYNC|CALL|RET|NOP|NANOSLEEP|WARPSYNC|YIELD|DEPBAR", "flow", None),
    (r"U[A-Z].*|R2UR|S2UR|VOTEU", "uniform", None),
    (r".*", "int", "alu")]]

INSN = re.compile(
    r"/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][A-Z0-9_]*)((?:\.\w+)*)\s*([^;]*);")
LABEL = re.compile(r"\s*(\.L_\w+):")
HEADER = re.compile(r"Function\s*:\s*(\S+)|^\.text\.(\S+):")
ARCH = re.compile(r"^arch = (\S+)|^\s*\.target\s+(\S+)")


class ToolMissing(Exception):
    """No disassembler; the text says how to get one."""


class Insn:
    """One instruction. `cls` and `pipe` as in CLASSES; a wgmma has `shape` and `tensor` cycles."""

    def __init__(self, addr, pred, op, mods, args):
        self.addr, self.pred, self.op, self.mods, self.args = addr, pred, op, mods, args.strip()
        self.cls, self.pipe = next((c, p) for r, c, p in CLASSES if r.fullmatch(op))
        self.bytes = 0  # to and from shared memory, of the four warps of a warpgroup
        self.drain = None  # WARPGROUP.DEPBAR: groups that may stay in flight
        if op == "WARPGROUP" and "DEPBAR" in mods:
            self.drain = int(self.args[-1], 16)
        if self.cls == "mma":
            self.read_mma()
        elif self.pipe == "smem":
            self.read_shared()

    def read_mma(self):
        size = re.match(r"\.\d+x(\d+)x(\d+)", self.mods)
        n, k = int(size[1]), size[2]
        shared = self.args.split(",")[1].strip().startswith("gdesc")
        self.shape = f"n{n}k{k}{'SS' if shared else 'RS'}"
        self.tensor = n // 2
        self.commits = "gsb0" in self.args  # the last of a committed group
        self.bytes = 32 * n + (2048 if shared else 0)  # B, and A unless it is in registers

    def read_shared(self):
        if self.op in ("LDSM", "STSM"):
            self.bytes = 4 * 128 * int((re.findall(r"\.(\d)\b", self.mods) or "1")[-1])
            return
        sizes = {".128": 16, ".64": 8, ".U16": 2, ".S16": 2, ".U8": 1, ".S8": 1}
        self.bytes = 4 * 32 * next((b for t, b in sizes.items() if t in self.mods), 4)

    def target(self, labels):
        """The address it jumps to, or None."""
        to = re.search(r"\((\.L_\w+)\)|0x([0-9a-f]+)$", self.args)
        if not to:
            return None
        return labels.get(to[1]) if to[1] else int(to[2], 16)

    def conditional(self):
        return (self.pred or "PT") not in ("PT", "UPT") or self.args.startswith(("P", "U", "!"))


class Kernel:
    """`symbol` is the mangled name; `name` is what the source calls it, with template arguments."""

    def __init__(self, path, arch, symbol):
        self.path, self.arch, self.symbol, self.name = path, arch, symbol, symbol
        self.insns, self.labels = [], {}
        self.regs = self.stack = self.static_smem = self.threads = None

    def count(self, *ops):
        return sum(x.op in ops for x in self.insns)


def find_tool(name):
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    folders = os.environ.get("PATH", "").split(os.pathsep) + [os.path.dirname(nvcc)]
    folders += sorted(map(str, ROOT.glob(".venv/lib/python*/site-packages/nvidia/cu*/bin")))
    found = shutil.which(name, path=os.pathsep.join(folders))
    if not found:
        raise ToolMissing(f"{name} is not here; it is enabled by: {ENABLE}")
    return found


def cuobjdump(option, path):
    tool, disassembler = find_tool("cuobjdump"), find_tool("nvdisasm")
    folder = os.path.dirname(disassembler)
    env = dict(os.environ, PATH=folder + os.pathsep + os.environ.get("PATH", ""))
    run = subprocess.run([tool, option, str(path)], capture_output=True, text=True,
                         errors="replace", env=env)
    if run.returncode != 0:
        raise ValueError(f"cuobjdump {option} {path}: {run.stderr.strip()}")
    return run.stdout


def short_names(symbols):
    """{mangled: name<template arguments>}; without c++filt the mangled names stay."""
    symbols, tool = list(symbols), shutil.which("c++filt")
    if not tool or not symbols:
        return {s: s for s in symbols}
    text = subprocess.run([tool], input="\n".join(symbols), capture_output=True, text=True).stdout
    return {s: short_name(line) for s, line in zip(symbols, text.splitlines())}


def short_name(demangled):
    """'void (anonymous namespace)::f<(int)3, true>(float*)' -> 'f<3,true>', without namespaces."""
    name = demangled.replace("(anonymous namespace)::", "")
    name = re.sub(r"\b[A-Za-z_]\w*::", "", name)
    name = re.sub(r"\((?:int|long|unsigned int|unsigned|bool)\)(?=-?\w)", "", name)
    depth = 0
    for at, c in enumerate(name):  # up to the parameters
        depth += (c == "<") - (c == ">")
        if c == "(" and depth == 0:
            name = name[:at]
            break
    head, angle, rest = name.partition("<")
    return (head.split(" ")[-1] + angle + rest).replace(" ", "")


def read_text(text, path):
    """SASS text -> {(arch, symbol): Kernel}"""
    kernels, kernel, arch, waiting = {}, None, "", []
    for line in text.splitlines():
        target, header = ARCH.search(line), HEADER.search(line)
        if target:
            arch = target[1] or target[2]
        if header:
            symbol = header[1] or header[2]
            kernel = kernels.setdefault((arch, symbol), Kernel(path, arch, symbol))
        label, insn = LABEL.match(line), INSN.search(line)
        if label:
            waiting.append(label[1])
        if insn and kernel is not None:
            kernel.insns.append(Insn(int(insn[1], 16), *insn.groups()[1:]))
            kernel.labels.update((name, kernel.insns[-1].addr) for name in waiting)
            waiting = []
    return kernels


def kernel_of(kernels, arch, symbol):
    """By name alone where the tool does not say for which architecture: a file with one only."""
    if arch:
        return kernels.get((arch, symbol))
    return next((k for (_, name), k in kernels.items() if name == symbol), None)


def read_usage(kernels, path):
    arch = ""
    usage = re.compile(r"^arch = (\S+)|Function (\S+):\s*\n\s*REG:(\d+) STACK:(\d+) SHARED:(\d+)",
                       re.M)
    for m in usage.finditer(cuobjdump("-res-usage", path)):
        arch = m[1] or arch
        kernel = kernel_of(kernels, arch, m[2])
        if kernel:
            kernel.regs, kernel.stack, kernel.static_smem = int(m[3]), int(m[4]), int(m[5])


def read_threads(kernels, path):
    """Launch bounds: attributes of the cubin."""
    arch, symbol = "", None
    wanted = re.compile(r"EIATTR_(?:MAX_THREADS|REQNTID)")
    bounds = False
    for line in cuobjdump("-elf", path).splitlines():
        if line.startswith("arch = "):
            arch = line.split()[-1]
        section = re.match(r"\.nv\.info\.(\S+)$", line)
        if section:
            symbol = section[1]
        bounds = bool(wanted.search(line)) or (bounds and "Attribute" not in line)
        value = re.search(r"Value:\s*0x(\w+) 0x(\w+) 0x(\w+)", line)
        kernel = kernel_of(kernels, arch, symbol)
        if bounds and value and kernel:
            x, y, z = (int(v, 16) for v in value.groups())
            kernel.threads, bounds = x * y * z, False


def read_kernels(path):
    """All kernels of a file, in order; one for each architecture that it was compiled for."""
    with open(path, "rb") as f:
        binary = f.read(4) == b"\x7fELF"
    if binary:
        kernels = read_text(cuobjdump("-sass", path), str(path))
        read_usage(kernels, path)
        read_threads(kernels, path)
    else:
        kernels = read_text(Path(path).read_text(errors="replace"), str(path))
    found = [k for k in kernels.values() if k.insns]
    names = short_names({k.symbol for k in found})
    for k in found:
        k.name = names[k.symbol]
    return found
