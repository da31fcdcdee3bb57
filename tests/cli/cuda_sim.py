#!/usr/bin/env python3
"""cuda_sim.py -- the program on a simulated GPU: devices, errors, and training by the CUDA kernels.

LATHE_BIN is lathe_sim here: the same program, linked with the simulator of tests/cudasim in place
of CUDA's runtime. A toy GPT must follow the CPU's curve, repeat its own bits, go on with a run, and
be evaluated and sampled; and what can be wrong with a GPU must be told in words.

SPDX-License-Identifier: MIT
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import char_data, check, losses, main, metrics, ok, run, state_sha, tiny, words_text

# What the simulator lacks, what a user is told, and whether --device=auto warns of it.
NO_GPU = [
    ({"CUDASIM_DRIVER": "none"}, "no NVIDIA driver", False),
    ({"CUDASIM_DEVICES": "0"}, "no GPU that CUDA can see", False),
    ({"CUDASIM_DRIVER": "old"}, "driver is too old.* 12.2.* needs 1[3-9]", True),
    ({"CUDASIM_CC": "75"}, "compute capability 7.5.* need 8.0", True),
]


class environment:
    """Variables that the programs started inside it see."""

    def __init__(self, **values):
        self.values = values

    def __enter__(self):
        os.environ.update(self.values)

    def __exit__(self, *_):
        for name in self.values:
            del os.environ[name]


def toy(folder, **changes):
    """Two layers, heads of 64, 128 tokens a sample: the smallest that every Hopper kernel serves."""
    data = char_data(folder, words_text(4000, seed=5), val_fraction=0.1)
    options = tiny(n_layer=2, n_head=2, n_embd=128, block_size=128, batch_size=1, max_steps=10,
                   learning_rate=2e-3, min_lr=1e-4, warmup_steps=2, log_interval=1)
    return {**options, "data": data, **changes}


def small(folder, **changes):
    """One layer of small sizes, for what is not about numbers."""
    sizes = dict(n_layer=1, n_head=1, n_embd=32, block_size=32, batch_size=2, max_steps=2)
    return toy(folder, **{**sizes, **changes})


# ---- devices and errors ----

def test_version_and_ops_list_the_gpu(folder):
    r = ok("--version")
    check(re.search(r"devices: cpu .*cuda:0 \(Simulated H100, compute capability 9.0", r.out), "no GPU", r)
    r = ok("ops", device="cuda")
    check("cuda:0 (Simulated H100" in r.out, "ops must name the device", r)
    check(re.search(r"^matmul +cuda", r.out, re.M), "ops must name the kernels", r)
    check(not re.search(r"^\w+ .* none ", r.out, re.M), "an op without a kernel", r)
    r = ok("ops", "attention_fwd", device="cuda")
    check(re.search(r"^ *cuda-hopper +fp16 +refuses: bf16 only$", r.out, re.M), "no reason", r)
    check(re.search(r"^ *cuda +fp16 +serves, is used$", r.out, re.M), "fp16 has the plain kernel", r)


def test_without_a_gpu_auto_takes_the_cpu_and_cuda_is_an_error(folder):
    for missing, words, warns in NO_GPU:
        with environment(**missing):
            r = ok("ops", "cast", device="auto")
            check(("running on the CPU" in r.err) == warns, f"{missing}: a warning?", r)
            check(not warns or re.search(words, r.err), f"{missing}: the warning must say {words}", r)
            for device in ("cuda", "cuda:0"):
                r = run("ops", device=device)
                check(r.code == 1 and re.search(words, r.err), f"{missing}: {device} must say {words}", r)
                check("hint:" in r.err, "no hint", r)
            r = ok("--version")
            check(re.search(words, r.out), f"{missing}: --version must say {words}", r)


def test_training_says_why_it_runs_on_the_cpu(folder):
    options = small(folder, device="auto")
    with environment(CUDASIM_DRIVER="none"):
        r = ok("train", run=os.path.join(folder, "run"), **options)
        check("no GPU: there is no NVIDIA driver" in r.out, "no reason", r)
        check("cuda" not in r.err, "a machine without a GPU is nothing to warn of", r)


def test_a_device_that_is_not_there_is_a_usage_error(folder):
    for device in ("cuda:1", "cuda:x", "cuda:", "gpu"):
        r = run("ops", device=device)
        check(r.code == 2 and device in r.err, f"{device} must be refused", r)


def test_too_little_memory_is_told_with_its_size(folder):
    options = toy(folder, device="cuda")
    with environment(CUDASIM_MEMORY_MB="1"):
        r = run("train", run=os.path.join(folder, "run"), **options)
    check(r.code == 1 and re.search(r"no memory for .* MB .* are free", r.err), "memory", r)
    check("lathe plan" in r.err, "the hint names what needs less", r)


def test_a_late_error_names_the_ops_and_sync_names_the_one(folder):
    options = small(folder, device="cuda")
    with environment(CUDASIM_FAULT="60"):
        r = run("train", run=os.path.join(folder, "late"), **options)
        check(r.code == 1 and "illegal memory access" in r.err, "the fault must be told", r)
        check(re.search(r"one of the ops: .*matmul \(cuda.*\)", r.err), "no names of ops", r)
        check("LATHE_SYNC=1" in r.err, "no hint", r)
        with environment(LATHE_SYNC="1"):
            r = run("train", run=os.path.join(folder, "sync"), **options)
        # Of several kernels of an op the next one may find out.
        which = r"(the op:|while starting) \w+ \(cuda[\w-]*\)$"
        check(r.code == 1 and re.search(which, r.err, re.M), "which op?", r)


def test_a_graph_is_refused_where_there_are_none(folder):
    options = small(folder, cuda__graph="on", max_steps=3)
    r = run("train", run=os.path.join(folder, "cpu"), **options)
    check(r.code == 2 and "cuda.graph = on needs a GPU" in r.err, "the CPU has no graphs", r)
    r = run("train", run=os.path.join(folder, "sim"), **{**options, "device": "cuda"})
    check(r.code == 1 and re.search("not supported.* while recording a step", r.err), "nor the simulator", r)
    check("hint: without --cuda.graph=on" in r.err, "the way out", r)


# ---- training ----

def follow(folder, precision, tolerance):
    options = toy(folder, precision=precision, save_interval=10)
    cpu, gpu, again = (os.path.join(folder, name) for name in ("cpu", "gpu", "again"))
    ok("train", run=cpu, **options)
    ok("train", run=gpu, **{**options, "device": "cuda"})
    a, b = losses(cpu), losses(gpu)
    check(sorted(a) == sorted(b) and len(a) == 10, f"steps {sorted(a)} and {sorted(b)}")
    worst = max(abs(a[step] - b[step]) for step in a)
    print(f"  {precision}: losses {a[1]:.4f} to {a[10]:.4f}, largest difference {worst:.2g}")
    check(a[10] < a[1] - 0.1, "it must learn something, else following is easy")
    check(worst <= tolerance, f"losses differ by {worst}: {a} {b}")
    ok("train", run=again, **{**options, "device": "cuda"})
    check(state_sha(gpu, 10) == state_sha(again, 10), "the same run twice must have the same bits")
    return options, gpu


def test_training_in_f32_follows_the_cpu(folder):
    options, gpu = follow(folder, "fp32", 1e-4)
    text = [ok("eval", model=gpu, data=options["data"], device=device, eval_batches=2).out for device in
            ("cpu", "cuda")]
    cpu, cuda = (float(re.search(r"loss (\S+)", t).group(1)) for t in text)
    check(abs(cpu - cuda) < 1e-4, f"eval: {text}")
    text = [ok("generate", model=gpu, prompt="the ", temperature=0, max_new_tokens=12, device=device).out
            for device in ("cpu", "cuda")]
    check(text[0] == text[1], f"greedy texts differ: {text}")


def test_training_in_bf16_follows_the_cpu(folder):
    follow(folder, "bf16", 0.02)


def test_training_in_fp8_follows_the_cpu(folder):
    follow(folder, "fp8", 0.02)


def test_fp16_skips_on_the_gpu_what_it_skips_on_the_cpu(folder):
    options = small(folder, precision="fp16", loss_scale__init=2.0 ** 40, max_steps=4, decay_steps=4,
                    max_bad_steps=2)
    rows = []
    for device in ("cpu", "cuda"):
        where = os.path.join(folder, device)
        ok("train", run=where, **{**options, "device": device})
        rows.append([m for m in metrics(where) if m["kind"] == "step"])
    for name in ("step", "lr", "loss_scale", "skipped"):
        a, b = ([row[name] for row in r] for r in rows)
        check(a == b, f"{name}: {a} and {b}")
    worst = max(abs(a["loss"] - b["loss"]) for a, b in zip(*rows))
    check(worst < 0.01 and rows[0][-1]["skipped"] > 5, f"losses differ by {worst}: {rows}")


def test_a_run_goes_on_with_the_same_bits(folder):
    options = small(folder, device="cuda", max_steps=4, decay_steps=4, save_interval=2, dropout=0.1,
                    batch_tokens=128)
    whole, parts = os.path.join(folder, "whole"), os.path.join(folder, "parts")
    ok("train", run=whole, **options)
    ok("train", run=parts, **{**options, "max_steps": 2})
    r = ok("train", run=parts, **options)
    check("going on" in r.out, "it must go on", r)
    check(state_sha(whole, 4) == state_sha(parts, 4), "interrupted and uninterrupted differ")


def test_a_run_of_the_cpu_goes_on_on_the_gpu(folder):
    options = small(folder, max_steps=4, save_interval=2)
    where = os.path.join(folder, "run")
    ok("train", run=where, **{**options, "max_steps": 2})
    r = ok("train", run=where, **{**options, "device": "cuda"})
    check("going on" in r.out and "cuda:0" in r.out, "it must go on on the GPU", r)


if __name__ == "__main__":
    sys.exit(main([v for k, v in list(globals().items()) if k.startswith("test_")]))
