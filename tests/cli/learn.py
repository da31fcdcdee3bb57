#!/usr/bin/env python3
"""learn.py -- does it learn, and do eval and generate say what was learnt?

A batch that is seen again and again must be learnt by heart; the first loss is about ln V; greedy
generation then recites the text; eval prints `loss X ppl Y bpb Z` with numbers that fit each other.

SPDX-License-Identifier: MIT
"""
import json
import math
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import (SHARED, Skipped, char_data, check, evaluations, losses, main, metrics, ok, run, step_dirs,
                       tiny, words_text, write)

BLOCK, SAMPLES = 32, 24


def by_heart(folder, **changes):
    """A model that knows the 24 windows of its training text; returns (text, data, run folder)."""
    text = words_text(int((BLOCK * SAMPLES + 1) / 0.8) + 2, seed=3)
    data = char_data(folder, text, val_fraction=0.2)
    run_dir = os.path.join(folder, "run")
    options = dict(n_embd=64, n_head=4, block_size=BLOCK, batch_size=SAMPLES, max_steps=300,
                   learning_rate=4e-3, min_lr=4e-4, warmup_steps=20, weight_decay=0, save_interval=300)
    ok("train", data=data, run=run_dir, **tiny(**{**options, **changes}))
    return text, data, run_dir


def expect_learnt(folder, **changes):
    text, data, run_dir = by_heart(folder, **changes)
    curve = losses(run_dir)
    uniform = math.log(len(set(text)))
    check(abs(curve[1] - uniform) < 0.15, f"first loss {curve[1]}, ln V = {uniform}")
    check(curve[max(curve)] < 0.2, f"not learnt by heart: last loss {curve[max(curve)]}")
    for start in (0, 5 * BLOCK, 11 * BLOCK):  # a window begins at each: positions are those of training
        prompt, want = text[start:start + 10], text[start + 10:start + BLOCK]
        r = ok("generate", model=run_dir, prompt=prompt, temperature=0, max_new_tokens=len(want))
        got = r.out[len(prompt):] if r.out.startswith(prompt) else r.out
        check(got.rstrip("\n") == want.rstrip("\n"), f"prompt {prompt!r}: got {got!r}, want {want!r}", r)
    return text, data, run_dir


def test_overfits_one_batch_fp32(folder):
    expect_learnt(folder)


def test_overfits_one_batch_bf16(folder):
    expect_learnt(folder, precision="bf16")


def test_eval_prints_loss_perplexity_and_bits(folder):
    text, data, run_dir = by_heart(folder, max_steps=60, save_interval=60, eval_interval=60, eval_batches=0)
    r = ok("eval", model=run_dir, data=data, eval_batches=0)
    m = re.search(r"^loss (\S+) ppl (\S+) bpb (\S+)", r.out, re.M)
    check(m, "eval must print `loss X ppl Y bpb Z`", r)
    loss, ppl, bpb = map(float, m.groups())
    check(abs(ppl / math.exp(loss) - 1) < 1e-2, f"ppl {ppl} is not exp({loss})", r)
    check(abs(bpb / (loss / math.log(2)) - 1) < 1e-2, f"bpb {bpb}: one byte a character", r)
    trained = evaluations(run_dir)[60]
    check(abs(trained - loss) < 2e-4, f"training saw {trained}, eval {loss}", r)
    train_loss = float(ok("eval", model=run_dir, data=data, split="train", eval_batches=0).out.split()[1])
    check(train_loss < loss, "the training split must be known better than the other")
    # A text file of exactly the training windows, cut without overlap.
    source = write(os.path.join(folder, "some.txt"), text[:4 * BLOCK + 1])
    r = ok("eval", model=run_dir, text=source)
    m = re.search(r"^loss (\S+) ppl (\S+) bpb (\S+)", r.out, re.M)
    check(m and float(m.group(1)) < loss, "eval --text", r)
    j = json.loads(ok("eval", model=run_dir, data=data, eval_batches=0, json="true").out)
    check(any(abs(v - loss) < 1e-3 for v in j.values() if isinstance(v, float)), f"--json: {j}")


def test_choices_and_last_words(folder):
    text, data, run_dir = by_heart(folder)
    right = text[0:8], text[8:24]
    items = [{"context": right[0], "endings": ["zzz" if "z" in text else "ttttt", right[1], "e e e e e"], "label": 1}]
    path = write(os.path.join(folder, "c.jsonl"), "".join(json.dumps(i) + "\n" for i in items))
    r = ok("eval", model=run_dir, choices=path)
    check(re.search(r"\b(1\.0*|100(\.0*)?\s*%)", r.out), "the ending known by heart must win", r)
    words = text[:30].rsplit(" ", 1)[0]
    path = write(os.path.join(folder, "l.jsonl"), json.dumps({"text": words}) + "\n")
    r = ok("eval", model=run_dir, lastword=path)
    check(re.search(r"\b(1\.0*|100(\.0*)?\s*%)", r.out), "the last word known by heart must be found", r)


def test_generate_takes_prompts_and_seeds(folder):
    text, data, run_dir = by_heart(folder, max_steps=30, save_interval=30)
    prompt = text[:12]
    file = write(os.path.join(folder, "prompt.txt"), prompt)
    common = dict(model=run_dir, max_new_tokens=40, seed=7)
    by_flag = ok("generate", prompt=prompt, **common)
    by_file = ok("generate", prompt_file=file, **common)
    by_stdin = ok("generate", prompt_file="-", stdin=prompt.encode(), **common)
    check(by_flag.raw == by_file.raw == by_stdin.raw, "flag, file and stdin differ",
          f"{by_flag}\n{by_file}\n{by_stdin}")
    check(ok("generate", prompt=prompt, **common).raw == by_flag.raw, "the same seed must repeat")
    other = ok("generate", prompt=prompt, **{**common, "seed": 8})
    check(other.raw != by_flag.raw, "another seed must differ", other)
    several = ok("generate", prompt=prompt, num_samples=3, **common)
    check(len(several.out) > 2 * len(by_flag.out), "num_samples=3", several)
    k1 = ok("generate", prompt=prompt, top_k=1, **common)
    greedy = ok("generate", prompt=prompt, temperature=0, **common)
    check(k1.raw == greedy.raw, "top_k=1 is greedy")
    p0 = ok("generate", prompt=prompt, top_p=0, **common)
    check(p0.raw == greedy.raw, "top_p=0 is greedy")
    zero = ok("generate", prompt=prompt, **{**common, "max_new_tokens": 0})
    check(zero.out.strip() in ("", prompt.strip()), "max_new_tokens=0", zero)
    long = ok("generate", prompt=prompt, **{**common, "max_new_tokens": 5 * BLOCK})
    check(len(long.out) >= 5 * BLOCK, "must go on past block_size", long)
    # A finished run, its step folder, and the best step are models, too.
    step = step_dirs(run_dir)[30]
    check(ok("generate", prompt=prompt, **{**common, "model": step}).raw == by_flag.raw, "step folder differs")


def test_first_lines_say_what_will_happen(folder):
    text = words_text(3000)
    data = char_data(folder, text)
    r = ok("train", data=data, run=os.path.join(folder, "r"), **tiny(max_steps=3, log_interval=1))
    said = r.out + r.err
    for word in ("parameters", "tokens", "memory", "FLOP", "ln V"):
        check(word.lower() in said.lower(), f"no word of {word!r} at the start", r)
    check(f"{math.log(len(set(text))):.4f}"[:4] in said, "expected initial loss", r)
    check(len(re.findall(r"^step +\d+/3\b", said, re.M)) == 3, "one plain line per interval", r)
    check("\r" not in said and "\x1b" not in said, "no terminal control in a file", r)


def test_shakespeare_smoke(folder):
    source = os.path.join(SHARED, "data", "text", "tinyshakespeare.txt")
    if not os.path.exists(source):
        raise Skipped("tinyshakespeare.txt is not there")
    tokenizer, data = os.path.join(folder, "tok"), os.path.join(folder, "data")
    ok("tokenizer", "train", input=source, type="char", out=tokenizer)
    ok("data", input=source, tokenizer=tokenizer, out=data, val_fraction=0.1)
    run_dir = os.path.join(folder, "run")
    ok("train", data=data, run=run_dir, preset="shakespeare-char-cpu", max_steps=150, decay_steps=2000, warmup_steps=50,
       eval_interval=0, save_interval=150, device="cpu", threads=2)
    curve = losses(run_dir)
    check(abs(curve[1] - math.log(65)) < 0.15, f"first loss {curve[1]}, ln 65 = 4.174")
    last = sum(curve[s] for s in range(141, 151)) / 10
    check(last < 2.75, f"loss after 150 steps: {last}")
    r = ok("generate", model=run_dir, prompt="ROMEO:", max_new_tokens=60)
    check(len(r.out) >= 60, "a sample", r)


def test_stops_when_it_diverges(folder):
    data = char_data(folder, words_text(3000))
    run_dir = os.path.join(folder, "r")
    # Weights grow a thousandfold each step: numbers end within some twenty steps.
    r = run("train", data=data, run=run_dir, **tiny(learning_rate=100, weight_decay=10, grad_clip=0, max_steps=200,
                                                     schedule="constant", max_bad_steps=3, save_interval=1, keep=0))
    check(r.code == 4, "a diverged run must end with exit code 4", r)
    check(re.search(r"gradient: (embed|block|final|head)\.", r.err), "the first bad tensor must be named", r)
    v = run("inspect", run_dir, "--verify")
    check(v.code == 0, "the last good checkpoint must be whole", v)
    skipped = [m for m in metrics(run_dir) if m.get("kind") == "step" and m.get("skip")]
    check(len(skipped) >= 3, f"{len(skipped)} skipped steps in metrics.jsonl", r)


if __name__ == "__main__":
    sys.exit(main([v for k, v in list(globals().items()) if k.startswith("test_")]))
