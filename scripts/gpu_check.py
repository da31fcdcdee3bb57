#!/usr/bin/env python3
"""gpu_check.py -- does lathe work on this machine's GPU, and how fast? In under 8 minutes.

    scripts/gpu_check.sh [OUT] [--sim] [--parts=build,ops,...] [--minutes=8] [--build=DIR]

Needs nvcc, CMake, a C compiler, python3 (standard library) and an NVIDIA GPU. What a missing library
makes impossible is left out with a line that says so: without jansson and zlib there is no `lathe`,
so only the ops are checked. (A folder with a library's files does: PKG_CONFIG_PATH,
CMAKE_PREFIX_PATH.) All data are generated. Parts, in this order:

    device     the GPU and its limits, read from it
    build      for sm_80, sm_90, sm_90a
    ops        every op of every GPU implementation against its reference
    train      200 steps on the CPU and on the GPU: fp32 and bf16 curves agree, the GPU's twice the
               same bits
    bench      `lathe bench`: every op of a training step against what the device can do
    sanitizer  compute-sanitizer on some ops, as far as the time goes: memcheck, racecheck,
               synccheck, initcheck

OUT (default build/gpu-check) gets at most 8 files: summary.txt and summary.json (everything), and
build.log, ops.txt, train.txt, sanitizer.txt, bench.txt, bench.json. Exit code 0: all parts passed;
1: one failed; 3: no GPU, everything before it passed.

--sim runs each part against the simulator of tests/cudasim in place of a GPU: smaller sizes, a few
steps, its race checker in place of compute-sanitizer, a benchmark whose times mean nothing. It shows
that the parts work. --build: the build folder (default: build-gpu-check, build-gpu-check-sim);
without the part build, what is in it is used.

SPDX-License-Identifier: MIT
"""
import argparse
import ctypes
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("device", "build", "ops", "train", "bench", "sanitizer")
PASSED, FAILED, SKIPPED, NO_GPU = "passed", "FAILED", "SKIPPED", "NO GPU"


class Skip(Exception):
    """A part cannot run; the text says why."""


class NoGpu(Exception):
    """There is no GPU that could run anything."""


class Fail(Exception):
    """A part found something wrong."""


# ---- commands ----

class Session:
    """The options, the clock, the results."""

    def __init__(self, options):
        self.sim, self.out = options.sim, Path(options.out).resolve()
        own = ROOT / ("build-gpu-check-sim" if self.sim else "build-gpu-check")
        self.build = Path(options.build).resolve() if options.build else own
        self.until = time.monotonic() + 60 * options.minutes
        self.results, self.lathe, self.op_check = {}, None, None

    def left(self, most):
        """Seconds that a command may take: `most`, or what is left of the whole time."""
        return max(1.0, min(most, self.until - time.monotonic()))

    def run(self, command, log, most, env=None, mode="a"):
        """-> (exit code or None when it ran out of time, output); the output goes to `log`, too."""
        path = self.out / log
        with open(path, mode) as f:
            f.write("$ " + " ".join(map(str, command)) + "\n")
            f.flush()
            start = f.tell()
            p = subprocess.Popen(list(map(str, command)), stdout=f, stderr=subprocess.STDOUT,
                                 cwd=ROOT, env={**os.environ, **(env or {})},
                                 start_new_session=True)
            try:
                code = p.wait(self.left(most))
            except subprocess.TimeoutExpired:
                os.killpg(p.pid, signal.SIGKILL)
                p.wait()
                code = None
        with open(path, errors="replace") as f:
            f.seek(start)
            return code, f.read()

    def must(self, command, log, most, what, env=None):
        code, text = self.run(command, log, most, env)
        if code is None:
            raise Fail(f"{what}: stopped after {most:.0f} s, or when the time was over ({log})")
        if code != 0:
            last = [line for line in text.splitlines() if line.strip()][-1:] or ["no output"]
            raise Fail(f"{what}: exit code {code}: {last[0][:300]} ({log})")
        return text


# ---- device ----

# Attributes of cuDeviceGetAttribute.
ATTRIBUTES = {"sm_count": 16, "clock_khz": 13, "memory_clock_khz": 36, "memory_bus_bits": 37,
              "l2_bytes": 38, "cc_major": 75, "cc_minor": 76, "smem_per_block_optin": 97}


def devices():
    """What the driver tells of each GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise NoGpu("no NVIDIA driver: libcuda.so.1 is not here") from None
    if driver.cuInit(0) != 0:
        raise NoGpu("the driver finds no GPU (cuInit fails)")
    version, count, value = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    driver.cuDeviceGetCount(ctypes.byref(count))
    found = []
    for i in range(count.value):
        name, size = ctypes.create_string_buffer(100), ctypes.c_size_t()
        driver.cuDeviceGetName(name, 100, i)
        driver.cuDeviceTotalMem_v2(ctypes.byref(size), i)
        facts = {"name": name.value.decode(), "memory_bytes": size.value,
                 "driver": version.value}
        for key, number in ATTRIBUTES.items():
            driver.cuDeviceGetAttribute(ctypes.byref(value), number, i)
            facts[key] = value.value
        # Two transfers a clock.
        facts["memory_gb_per_s"] = facts["memory_clock_khz"] * 2e3 * facts["memory_bus_bits"] / 8e9
        found.append(facts)
    if not found:
        raise NoGpu("the driver finds no GPU")
    return found


def part_device(s):
    if s.sim:
        return "simulator", {"gpus": []}
    found = devices()
    if found[0]["cc_major"] < 8:
        raise NoGpu(f"{found[0]['name']} is of compute capability {found[0]['cc_major']}."
                    f"{found[0]['cc_minor']}; 8.0 is the least")
    gpu = found[0]
    return (f"{gpu['name']}, {gpu['sm_count']} SMs, {gpu['clock_khz'] / 1e6:.2f} GHz, "
            f"{gpu['memory_gb_per_s']:.0f} GB/s, {gpu['memory_bytes'] / 1e9:.0f} GB"), \
        {"gpus": found}


# ---- build ----

def part_build(s):
    if not (shutil.which("nvcc") or Path("/usr/local/cuda/bin/nvcc").exists()):
        raise Skip("no nvcc")
    if not shutil.which("cmake"):
        raise Skip("no cmake")
    configure = ["cmake", "-S", ROOT, "-B", s.build, "-DCMAKE_BUILD_TYPE=Release",
                 "-DLATHE_CUDA=on", "-DLATHE_OP_CHECK=ON",
                 f"-DLATHE_TESTS={'ON' if s.sim else 'OFF'}"]
    if shutil.which("ninja"):
        configure += ["-G", "Ninja"]
    missing = ""
    code, text = s.run(configure + ["-DLATHE_KERNELS_ONLY=OFF"], "build.log", 60, mode="w")
    if code != 0:
        names = sorted(set(re.findall(r"Could NOT find (\w+)|No package '(\w+)'", text)))
        missing = ", ".join(a or b for a, b in names if (a or b) != "PkgConfig") or "a library"
        if s.sim:
            raise Fail(f"the build with tests needs {missing} (build.log)")
        s.must(configure + ["-DLATHE_KERNELS_ONLY=ON"], "build.log", 60, "cmake")
    end = "_sim" if s.sim else ""
    targets = ["op_check" + end] + ([] if missing else ["lathe" + end])
    if s.sim:
        targets.append("op_check_race")
    jobs = os.cpu_count() or 2
    s.must(["cmake", "--build", s.build, "-j", jobs, "--target"] + targets, "build.log", 420,
           "build")
    s.op_check = find_program(s, "op_check" + end)
    s.lathe = None if missing else find_program(s, "lathe" + end)
    said = f"{missing} missing: no lathe, so no training and no benchmark" if missing else "all"
    return said, {"missing": missing, "targets": targets}


def use_last_build(s):
    end = "_sim" if s.sim else ""
    try:
        s.op_check = find_program(s, "op_check" + end)
        s.lathe = find_program(s, "lathe" + end)
    except Fail:
        pass  # the parts that need it say so


def find_program(s, name):
    found = [p for p in s.build.rglob(name) if p.is_file() and os.access(p, os.X_OK)]
    if not found:
        raise Fail(f"the build made no {name}")
    return found[0]


# ---- ops ----

ROW = re.compile(r"^(\S+)\s+(\S+)\s+(\S+)\s+(\d+) cases, (\d+) failed", re.M)


def rows_of(text):
    return [dict(backend=b, op=op, impl=impl, cases=int(n), failed=int(bad))
            for b, op, impl, n, bad in ROW.findall(text)]


def small_cases(program):
    """In the simulator small shapes of all ops are enough to show that a part works: commands."""
    return [[program, "--once", f"--most={most}", "all", impl]
            for impl, most in (("cuda", "3e4"), ("cuda-hopper", "1e6"))]


def part_ops(s):
    if not s.op_check:
        raise Skip("not built")
    rows, failed = [], []
    for command in small_cases(s.op_check) if s.sim else [[s.op_check]]:
        code, text = s.run(command, "ops.txt", 240)
        rows += rows_of(text)
        if code is None:
            failed.append("out of time")
        elif code != 0:
            failed.append(f"exit code {code}")
    bad = [f"{r['op']} ({r['impl']}): {r['failed']} of {r['cases']}" for r in rows if r["failed"]]
    result = {"rows": rows}
    s.results["ops_rows"] = rows
    if bad or failed:
        raise Fail("; ".join(bad or failed) + " (ops.txt)")
    if not rows:
        raise Fail("no op has a GPU implementation (ops.txt)")
    return f"{len(rows)} implementations, {sum(r['cases'] for r in rows)} cases", result


# ---- training ----

WORDS = ("the of and to in that was his he it with as for had at by on not from her were so all be "
         "this have which or one you they who an when out no said what up there would").split()


def make_text(path, chars):
    """Words in an order that can be learnt: each one leads to one of four."""
    rng, word, parts, size = random.Random(1), 0, [], 0
    follow = [[rng.randrange(len(WORDS)) for _ in range(4)] for _ in WORDS]
    while size < chars:
        word = rng.choice(follow[word])
        parts.append(WORDS[word] + (".\n" if rng.random() < 0.1 else " "))
        size += len(parts[-1])
    path.write_text("".join(parts))


def losses(run):
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [row["loss"] for row in rows if row.get("kind") == "step"]


def compare(name, cpu, gpu, early, late):
    """First ten steps within `early`, the mean of the last tenth within `late`."""
    tail = max(1, len(cpu) // 10)
    first = max(abs(a - b) for a, b in zip(cpu[:10], gpu[:10]))
    mean = abs(sum(cpu[-tail:]) - sum(gpu[-tail:])) / tail
    facts = {"steps": len(cpu), "cpu_first": cpu[0], "cpu_last": cpu[-1], "gpu_last": gpu[-1],
             "worst_of_first_ten": first, "difference_of_the_end": mean}
    if len(cpu) != len(gpu) or not first <= early or not mean <= late:
        raise Fail(f"{name}: the curves differ: {facts}")
    if not gpu[-1] < gpu[0]:
        raise Fail(f"{name}: nothing was learnt: {facts}")
    return facts


def part_train(s):
    if not s.lathe:
        raise Skip("no lathe")
    small = dict(n_layer=2, n_head=2, n_embd=64, block_size=64, batch_size=2, max_steps=6)
    large = dict(n_layer=4, n_head=4, n_embd=256, block_size=256, batch_size=8, max_steps=200)
    shape = dict(small if s.sim else large, dropout=0.1, eval_interval=0, save_interval=0,
                 learning_rate=1e-3)
    runs = [("cpu", "cpu", []), ("gpu", "cuda", []), ("again", "cuda", [])]
    if not s.sim:  # which has no graphs
        runs.append(("graph", "cuda", ["--cuda.graph=on"]))
    facts = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        make_text(folder / "text.txt", 200_000)
        s.must([s.lathe, "tokenizer", "train", f"--input={folder}/text.txt", "--type=char",
                f"--out={folder}/tok"], "train.txt", 30, "tokenizer")
        s.must([s.lathe, "data", f"--input={folder}/text.txt", f"--tokenizer={folder}/tok",
                f"--out={folder}/data"], "train.txt", 30, "data")
        for precision, early, late in (("fp32", 1e-4, 2e-2), ("bf16", 3e-2, 5e-2)):
            curves, seconds = {}, {}
            for name, device, more in runs:
                start = time.monotonic()
                run = folder / f"{precision}-{name}"
                s.must([s.lathe, "train", f"--data={folder}/data", f"--run={run}",
                        f"--device={device}", f"--precision={precision}"] +
                       more + [f"--{k}={v}" for k, v in shape.items()], "train.txt", 120,
                       f"training on {device} in {precision}")
                curves[name], seconds[name] = losses(run), time.monotonic() - start
            facts[precision] = compare(precision, curves["cpu"], curves["gpu"], early, late)
            facts[precision].update({f"seconds_{k}": round(v, 2) for k, v in seconds.items()},
                                    cpu=curves["cpu"], gpu=curves["gpu"])
            if curves["gpu"] != curves["again"]:
                raise Fail(f"{precision}: two runs on the GPU differ")
            if curves.get("graph", curves["gpu"]) != curves["gpu"]:
                raise Fail(f"{precision}: a step replayed as a CUDA graph is not the step")
    said = ", ".join(f"{p}: {f['gpu_last']:.4f} (CPU {f['cpu_last']:.4f})" for p, f in facts.items())
    return f"{facts['fp32']['steps']} steps, twice the same bits; last loss {said}", facts


# ---- bench ----

def part_bench(s):
    if not s.lathe:
        raise Skip("no lathe")
    command = [s.lathe, "bench", "--device=cuda", "--json"]
    if s.sim:
        command += ["cast", "--shape=char-cpu-12x64"]
    with open(s.out / "bench.json", "w") as f, open(s.out / "bench.txt", "w") as errors:
        try:
            code = subprocess.run(list(map(str, command)), stdout=f, stderr=errors, cwd=ROOT,
                                  timeout=s.left(150)).returncode
        except subprocess.TimeoutExpired:
            raise Fail("lathe bench: out of time") from None
    if code != 0:
        raise Fail(f"lathe bench: exit code {code} (bench.txt)")
    table = json.loads((s.out / "bench.json").read_text())
    with open(s.out / "bench.txt", "a") as f:
        for key, value in table.items():
            if key != "rows":
                f.write(f"{key}: {value}\n")
        f.write(f"\n{'op':14}{'case':18}{'dtype':7}{'impl':14}{'ms':>10}{'TFLOP/s':>10}"
                f"{'GB/s':>9}{'%':>6} of\n")
        for r in table["rows"]:
            f.write(f"{r['op']:14}{r['case']:18}{r['dtype']:7}{r['impl']:14}"
                    f"{r['seconds'] * 1e3:10.4f}{r['gflops'] / 1e3:10.2f}{r['gb_per_s']:9.0f}"
                    f"{r['percent']:6.1f} {r['bound']}\n")
    return f"{len(table['rows'])} rows (bench.txt)", table


# ---- compute-sanitizer ----

def part_sanitizer(s):
    if not s.op_check:
        raise Skip("not built")
    ops = ["layernorm_fwd", "matmul", "matmul_fp8", "attention_fwd", "attention_bwd"]
    if s.sim:
        runs = [("races", command, 120) for command in small_cases(find_program(s, "op_check_race"))]
    else:
        tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        if not Path(tool).exists():
            raise Skip("no compute-sanitizer")
        runs = [(check, [tool, "--tool", check, "--error-exitcode", "9", s.op_check, "--once", op],
                 20)
                for check in ("memcheck", "racecheck", "synccheck", "initcheck") for op in ops]
    said, bad, late = {}, [], 0
    for check, command, seconds in runs:
        if time.monotonic() > s.until - 10:
            late += 1
            continue
        code, text = s.run(command, "sanitizer.txt", seconds)
        if "Device not supported" in text:
            raise Skip("compute-sanitizer does not support this device (sanitizer.txt)")
        what = f"{check} {command[-1]}"
        errors = re.findall(r"(?:ERROR SUMMARY|RACECHECK SUMMARY): (\d+)", text)
        said[what] = "out of time, no error so far" if code is None else f"exit code {code}"
        if (code is not None and code != 0) or any(int(n) for n in errors):
            bad.append(what)
    if bad:
        raise Fail(", ".join(bad) + " (sanitizer.txt)")
    whole = sum("exit code 0" == text for text in said.values())
    return f"{whole} of {len(runs)} runs to their end, no error" + \
        (f"; {late} left out for time" if late else ""), said


# ---- all ----

RUN = {"device": part_device, "build": part_build, "ops": part_ops, "train": part_train,
       "bench": part_bench, "sanitizer": part_sanitizer}


def run_part(s, name, no_gpu):
    start, facts = time.monotonic(), None
    try:
        if no_gpu and name not in ("device", "build"):
            state, said = NO_GPU, "not run"
        else:
            said, facts = RUN[name](s)
            state = PASSED
    except Skip as why:
        state, said = SKIPPED, str(why)
    except NoGpu as why:
        state, said = NO_GPU, str(why)
    except Fail as why:
        state, said = FAILED, str(why)
    seconds = time.monotonic() - start
    print(f"{name:10} {state:8} {seconds:5.0f} s  {said}", flush=True)
    s.results[name] = {"state": state, "seconds": round(seconds, 1), "said": said, "facts": facts}
    return state


def commit():
    if not shutil.which("git"):
        return "unknown"
    run = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"],
                         capture_output=True, text=True)
    return run.stdout.strip() or "unknown"


def write_summary(s, took):
    lines = [f"lathe {commit()}, {'simulator' if s.sim else 'GPU'}, {took:.0f} s"]
    for name in PARTS:
        r = s.results.get(name)
        if r:
            lines.append(f"{name:10} {r['state']:8} {r['seconds']:5.0f} s  {r['said']}")
    for row in s.results.get("ops_rows", []):
        lines.append("    {backend:12} {op:14} {impl:12} {cases:3} cases, {failed} failed"
                     .format(**row))
    (s.out / "summary.txt").write_text("\n".join(lines) + "\n")
    (s.out / "summary.json").write_text(json.dumps(
        {"commit": commit(), "sim": s.sim, "seconds": round(took, 1), **s.results}, indent=1) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, prog="gpu_check.sh",
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", nargs="?", default=str(ROOT / "build" / "gpu-check"), metavar="OUT")
    p.add_argument("--sim", action="store_true")
    p.add_argument("--parts", default=",".join(PARTS))
    p.add_argument("--minutes", type=float, default=8)
    p.add_argument("--build", metavar="DIR")
    a = p.parse_args()
    parts = a.parts.split(",")
    for name in set(parts) - set(PARTS):
        p.error(f"no part {name}; there are {', '.join(PARTS)}")
    s, start = Session(a), time.monotonic()
    s.out.mkdir(parents=True, exist_ok=True)
    for old in ("ops.txt", "train.txt", "sanitizer.txt", "bench.txt", "bench.json"):
        (s.out / old).unlink(missing_ok=True)
    no_gpu, states = False, []
    for name in PARTS:
        if name in parts or name == "device":
            states.append(run_part(s, name, no_gpu))
            no_gpu = no_gpu or (name == "device" and states[-1] == NO_GPU)
        elif name == "build":
            use_last_build(s)
    write_summary(s, time.monotonic() - start)
    print(f"results: {s.out}")
    return 1 if FAILED in states else 3 if NO_GPU in states else 0


if __name__ == "__main__":
    sys.exit(main())
