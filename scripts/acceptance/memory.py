#!/usr/bin/env python3
"""memory.py -- does a run take the memory that `lathe plan` said, within 5 %?

    scripts/acceptance/memory.py [build/lathe]

Trains GPT-2's 124M shape for a few steps at batch 4 x 64, in float32 and bf16, saving beside
training, and reads RssAnon of the process from /proc while it runs. The mapped data and the program
itself are not anonymous memory. Linux; 4 GB of memory and of disk; about a minute.

SPDX-License-Identifier: MIT
"""
import array
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

LATHE = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "..", "build", "lathe")
SHAPE = ["--preset=gpt2", "--block_size=64", "--batch_size=4"]


def peak_of(pid, poll):
    peak = 0
    while poll() is None:
        try:
            with open(f"/proc/{pid}/status") as f:
                m = re.search(r"RssAnon:\s+(\d+) kB", f.read())
            peak = max(peak, int(m.group(1)) * 1024 if m else 0)
        except (FileNotFoundError, ProcessLookupError):
            break
        time.sleep(0.01)
    return peak


def main():
    rng, failed = random.Random(1), False
    with tempfile.TemporaryDirectory() as work:
        os.makedirs(work + "/data")
        for name, n in (("train", 100000), ("val", 2000)):
            with open(f"{work}/data/{name}.bin", "wb") as f:
                array.array("H", [rng.randrange(50257) for _ in range(n)]).tofile(f)
        for precision in ("fp32", "bf16"):
            for extra in ([], ["--recompute"]):
                options = SHAPE + [f"--precision={precision}"] + extra
                said = subprocess.run([LATHE, "plan", "--json"] + options, capture_output=True, check=True)
                planned = json.loads(said.stdout)["memory_bytes"]
                run = f"{work}/run-{precision}-{len(extra)}"
                p = subprocess.Popen([LATHE, "train", f"--data={work}/data", f"--run={run}", "--max_steps=4",
                                      "--save_interval=2", "--keep=1", "--eval_interval=2", "--eval_batches=2",
                                      "--warmup_steps=0", "--device=cpu", "--threads=2"] + options,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                peak = peak_of(p.pid, p.poll)
                text = p.communicate()[0].decode()
                if p.returncode != 0:
                    print(text)
                    return 1
                off = peak / planned - 1
                failed |= abs(off) > 0.05
                print(f"{precision}{' recompute' if extra else ''}: planned {planned / 1e6:.1f} MB, peak anonymous "
                      f"{peak / 1e6:.1f} MB, {off * 100:+.1f} %: {'FAIL' if abs(off) > 0.05 else 'PASS'}", flush=True)
                subprocess.run(["rm", "-rf", run], check=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
