#!/usr/bin/env python3
"""bert.py -- pretraining a BERT from outside: losses, accuracies, resume, batch splits, packs, when it evaluates
and ends, what is refused.

SPDX-License-Identifier: MIT
"""
import json
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import (check, evaluations, kill9, losses, main, metrics, ok, run, start, state_sha,
                       wait_for_step, words_text, write)

BERT = dict(architecture="bert", n_layer=2, n_head=2, n_embd=32, block_size=48, batch_size=8, max_steps=12,
            optimizer="adamw", learning_rate=1e-3, activation="gelu_erf", dropout=0.1, eval_interval=0,
            save_interval=0, eval_batches=0, device="cpu", threads=2)


def bert(**changes):
    return {**BERT, **changes}


def pairs(folder, documents=40, name="pairs", text=None, **options):
    """A WordPiece tokenizer and pairs of segments; returns the data folder."""
    rng = random.Random(5)
    if text is None:
        chapters = [words_text(rng.randint(150, 600), seed=i + 1).splitlines() for i in range(documents)]
        text = "\n\n".join("\n".join(lines) for lines in chapters) + "\n"
    source = write(os.path.join(folder, name + ".txt"), text)
    tokenizer, data = os.path.join(folder, name + "-tok"), os.path.join(folder, name)
    ok("tokenizer", "train", input=source, type="wordpiece", vocab_size=400, out=tokenizer)
    ok("data", input=source, tokenizer=tokenizer, out=data,
       **{**dict(format="bert", sentences="line", max_seq_length=48, val_fraction=0.2), **options})
    return data


def train(folder, name, data, **changes):
    run_dir = os.path.join(folder, name)
    return run_dir, ok("train", data=data, run=run_dir, **bert(**changes))


def test_both_losses_and_accuracies_are_told(folder):
    run_dir, r = train(folder, "run", pairs(folder), eval_interval=6, log_interval=1)
    check("(mlm " in r.out and "nsp " in r.out and "| mlm loss" in r.out, "no parts of the loss", r)
    check("ln V + ln 2" in r.out, "the first loss is not expected to be of both", r)
    steps = [m for m in metrics(run_dir) if m["kind"] == "step"]
    evals = [m for m in metrics(run_dir) if m["kind"] == "eval"]
    check(len(steps) == 12 and len(evals) == 2, f"{len(steps)} steps, {len(evals)} evaluations")
    for m in steps:
        check(abs(m["loss"] - m["loss_mlm"] - m["loss_nsp"]) < 1e-5, f"not the sum: {m}")
        check(m["sequences"] == 8 and 0 < m["targets"] <= m["tokens"] < 8 * 48, f"counts: {m}")
    for m in evals:
        check(0 <= m["accuracy_mlm"] <= 1 and 0 <= m["accuracy_nsp"] <= 1, f"{m}")
        check(abs(m["loss"] - m["loss_mlm"] - m["loss_nsp"]) < 1e-12, f"not the sum: {m}")
        check(m["sequences"] == 8 * m["step"], f"sequences of an evaluation: {m}")


def test_eval_says_what_the_run_said(folder):
    data = pairs(folder)
    run_dir, _ = train(folder, "run", data, eval_interval=12, save_interval=12)
    said = [m for m in metrics(run_dir) if m["kind"] == "eval"][-1]
    for batch in (8, 3):
        got = json.loads(ok("eval", model=run_dir, data=data, batch_size=batch, device="cpu", json="true").out)
        for key in ("loss", "loss_mlm", "loss_nsp", "accuracy_mlm", "accuracy_nsp"):
            check(abs(got[key] - said[key]) < 1e-5, f"{key}: {got[key]} by eval, {said[key]} by train")
    line = ok("eval", model=run_dir, data=data, device="cpu").out
    check(line.startswith("loss ") and "mlm loss" in line and "nsp loss" in line, line)


def test_a_batch_can_be_split(folder):
    data, curves = pairs(folder), {}
    for batch in (8, 4, 2):
        run_dir, _ = train(folder, f"batch-{batch}", data, batch_size=batch, batch_tokens=8 * 48)
        curves[batch] = losses(run_dir)
    for batch in (4, 2):
        worst = max(abs(curves[8][s] - curves[batch][s]) for s in curves[8])
        check(worst < 3e-5, f"8 and {batch} sequences in a micro-batch differ by {worst}")


def test_masks_differ_by_epoch_and_seed(folder):
    """Nothing is learnt at rate 0: what changes from epoch to epoch is the masks, and the order alone."""
    data = pairs(folder, documents=20)
    run_dir, r = train(folder, "run", data, learning_rate=0, dropout=0, batch_size=4, max_steps=60)
    seen = [m for m in metrics(run_dir) if m["kind"] == "step"]
    check(len({m["loss_mlm"] for m in seen}) == len(seen), "the same batch of masks came twice")
    other, _ = train(folder, "other", data, learning_rate=0, dropout=0, batch_size=4, max_steps=5, seed=7)
    check(losses(other)[1] != losses(run_dir)[1], "another seed makes the same masks")


def interrupted_is_uninterrupted(folder, **changes):
    data = pairs(folder)
    whole, _ = train(folder, "whole", data, eval_interval=7, save_interval=5, max_steps=15, **changes)
    cut = os.path.join(folder, "cut")
    options = dict(data=data, run=cut, **bert(eval_interval=7, save_interval=5, max_steps=15, **changes))
    p = start("train", **options)
    wait_for_step(p, cut, 7)
    kill9(p)
    ok("train", **options)
    check(state_sha(whole, 15) == state_sha(cut, 15), "not the same bits after a resume")
    check(losses(whole) == losses(cut) and evaluations(whole) == evaluations(cut), "not the same losses")
    for key in ("sequences", "tokens", "targets"):
        a, b = ([m.get(key) for m in metrics(d)] for d in (whole, cut))
        check(a == b, f"{key}: {a} and {b}")


def test_interrupted_is_uninterrupted_fp32(folder):
    interrupted_is_uninterrupted(folder)


def test_interrupted_is_uninterrupted_bf16(folder):
    interrupted_is_uninterrupted(folder, precision="bf16", recompute="true")


def test_interrupted_is_uninterrupted_fp16(folder):
    interrupted_is_uninterrupted(folder, precision="fp16")


def test_interrupted_is_uninterrupted_fp8(folder):
    interrupted_is_uninterrupted(folder, precision="fp8")


def test_packs_learn_from_all_sequences(folder):
    data = pairs(folder)
    run_dir, r = train(folder, "run", data, data__pack=3, block_size=96, batch_size=3, eval_interval=12)
    steps = [m for m in metrics(run_dir) if m["kind"] == "step"]
    check(sum(m["sequences"] for m in steps) > 1.5 * 3 * len(steps), f"{[m['sequences'] for m in steps]}")
    check(sum(m["tokens"] for m in steps) > 0.7 * 3 * 96 * len(steps), f"{[m['tokens'] for m in steps]}")
    run_dir, r = train(folder, "long", data, data__pack=9, block_size=192, n_positions=48, batch_size=2)
    steps = [m for m in metrics(run_dir) if m["kind"] == "step"]
    check(sum(m["tokens"] for m in steps) > 0.8 * 2 * 192 * len(steps), f"rows longer than positions: {steps[0]}")
    padded, _ = train(folder, "padded", data, eval_interval=12, learning_rate=0, max_steps=1)
    packed, _ = train(folder, "packed", data, data__pack=3, block_size=96, n_positions=48, batch_size=3,
                      eval_interval=12, learning_rate=0, max_steps=1)
    a, b = ([m for m in metrics(d) if m["kind"] == "eval"][0] for d in (padded, packed))
    for key in ("loss_mlm", "loss_nsp", "targets"):
        check(abs(a[key] - b[key]) < 1e-5, f"{key}: {a[key]} padded, {b[key]} packed")


def test_evaluation_by_sequences(folder):
    data = pairs(folder)
    run_dir, r = train(folder, "run", data, eval_samples=20, max_steps=10)  # 8 sequences a step
    check(sorted(evaluations(run_dir)) == [3, 5, 8, 10], f"{evaluations(run_dir)}")
    check("evaluation   each 20 sequences" in r.out, "no line about it", r)
    _, r = train(folder, "mlperf", data, eval_samples=-1, max_steps=1)
    check("evaluation   each 150000 sequences" in r.out, "not MLPerf's rule", r)


def test_a_target_ends_the_run_and_stays_reached(folder):
    data = pairs(folder)
    options = dict(data=data, run=os.path.join(folder, "run"), **bert(
        eval_interval=2, save_interval=100, max_steps=100, target_accuracy=0.001, learning_rate=5e-3, dropout=0))
    r = ok("train", **options)
    check("reached: accuracy" in r.out, "no word of it", r)
    last = max(losses(options["run"]))
    check(last < 100, f"went on to step {last}", r)
    ok("train", **options)
    check(max(losses(options["run"])) == last, "a run that has reached its target went on")
    r = ok("train", **{**options, "target_accuracy": 0.999999, "max_steps": last + 2})
    check(max(losses(options["run"])) == last + 2 and "was not reached" in r.err, "it did not go on", r)


def test_masked_tokens_alone(folder):
    data = pairs(folder)
    run_dir, r = train(folder, "run", data, task="mlm", eval_interval=12, save_interval=12)
    m = [m for m in metrics(run_dir) if m["kind"] == "eval"][0]
    check("loss_nsp" not in m and m["loss"] == m["loss_mlm"], f"{m}")
    line = ok("eval", model=run_dir, data=data, device="cpu").out
    check("mlm loss" in line and "nsp" not in line, line)


def refused(word, **options):
    r = run(options.pop("command", "train"), **options)
    check(r.code == 2 and word in r.err, f"exit code 2 and '{word}' expected", r)
    return r


def test_what_has_no_meaning_is_refused(folder):
    data = pairs(folder)
    run_dir, _ = train(folder, "run", data, max_steps=1, save_interval=1)
    new, gpt = os.path.join(folder, "new"), os.path.join(folder, "gpt")
    ok("data", input=os.path.join(folder, "pairs.txt"), tokenizer=os.path.join(folder, "pairs-tok"), out=gpt)
    refused("never does", data=data, run=new, **bert(target_accuracy=0.5))
    for option in (dict(data__pack=2), dict(mask_prob=0.2), dict(max_predictions=3), dict(whole_word_mask="true"),
                   dict(target_accuracy=0.5), dict(eval_samples=100)):
        refused("pretraining of BERT", data=gpt, run=new, n_layer=1, n_embd=32, n_head=2, block_size=16, max_steps=1,
                device="cpu", **option)
    refused("a GPT reads a run of tokens", data=data, run=new, max_steps=1, device="cpu")
    refused("24 positions", data=data, run=new, **bert(n_positions=24))
    refused("type of activations", data=data, run=new, init_from=run_dir, residual_dtype="bf16", max_steps=1,
            device="cpu", block_size=48)
    refused("optimizer=lamb", data=data, run=new, **bert(mllog=os.path.join(folder, "log")))
    refused("cannot score one", command="eval", model=run_dir, text=os.path.join(folder, "pairs.txt"))
    r = run("generate", model=run_dir, prompt="the")
    check(r.code == 2 and "does not write texts" in r.err, "a BERT writes no text", r)


if __name__ == "__main__":
    sys.exit(main([v for k, v in list(globals().items()) if k.startswith("test_")]))
