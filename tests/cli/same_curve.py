#!/usr/bin/env python3
"""same_curve.py -- what must not change a run: the batch split, recomputation, evaluation, threads.

8x1, 4x2 and 2x4 (sequences in a micro-batch x micro-batches in a step) are the same step, so their
losses agree to rounding, also when the micro-batches have unequal numbers of counted targets: a mean
of means would show there. What does the same arithmetic in the same order must agree bit for bit.

SPDX-License-Identifier: MIT
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import (char_data, check, evaluations, losses, main, ok, tiny, weights_sha, words_text,
                       write)

STEPS = 40


def train(folder, name, data, **changes):
    run_dir = os.path.join(folder, name)
    ok("train", data=data, run=run_dir, **tiny(**{**dict(max_steps=STEPS, save_interval=STEPS), **changes}))
    return run_dir


def expect_close(a, b, tolerance, what):
    check(len(a) == len(b) == STEPS, f"{what}: {len(a)} and {len(b)} steps of {STEPS}")
    worst = max(a, key=lambda s: abs(a[s] - b[s]))
    check(abs(a[worst] - b[worst]) <= tolerance,
          f"{what}: step {worst}: {a[worst]} against {b[worst]}")


def splits(folder, data, tolerance=3e-6, **changes):
    curves = {}
    for batch in (8, 4, 2):
        run_dir = train(folder, f"batch-{batch}", data, batch_size=batch, batch_tokens=8 * 16, **changes)
        curves[batch] = losses(run_dir)
    expect_close(curves[8], curves[4], tolerance, "8x1 and 4x2")
    expect_close(curves[8], curves[2], tolerance, "8x1 and 2x4")
    return curves[8]


def test_split_of_a_batch(folder):
    curve = splits(folder, char_data(folder, words_text(6600)))
    check(curve[STEPS] < curve[1] - 0.1, f"nothing was learnt: {curve[1]} to {curve[STEPS]}")


def test_split_with_dropout(folder):
    splits(folder, char_data(folder, words_text(6600)), dropout=0.2)


def test_split_bf16(folder):
    splits(folder, char_data(folder, words_text(6600)), tolerance=2e-2, precision="bf16")


def test_split_with_document_mask(folder):
    """Many short documents: the first token of each is no target, so micro-batches differ."""
    text = words_text(9000, line=4)
    documents = [{"text": line} for line in text.split("\n") if line]
    source = write(os.path.join(folder, "docs.jsonl"), "".join(json.dumps(d) + "\n" for d in documents))
    tokenizer, data = os.path.join(folder, "tok"), os.path.join(folder, "data")
    ok("tokenizer", "train", input=source, type="bpe", vocab_size=300, out=tokenizer)
    ok("data", input=source, tokenizer=tokenizer, out=data)
    splits(folder, data, data__document_mask="true")


def test_split_with_completion_mask(folder):
    """Prompts do not count and are of very different lengths: some windows have no target at all."""
    words = words_text(12000).split()
    lines, at = [], 0
    while at + 80 < len(words):
        n = 2 + (at * 7) % 60
        lines.append({"prompt": " ".join(words[at:at + n]) + " ", "completion": " ".join(words[at + n:at + n + 3])})
        at += n + 3
    source = write(os.path.join(folder, "pairs.jsonl"), "".join(json.dumps(d) + "\n" for d in lines))
    tokenizer, data = os.path.join(folder, "tok"), os.path.join(folder, "data")
    ok("tokenizer", "train", input=source, type="bpe", vocab_size=300, out=tokenizer)
    ok("data", input=source, tokenizer=tokenizer, out=data)
    masked = splits(folder, data, loss__mask="completion")
    plain = losses(train(folder, "plain", data))
    check(masked != plain, "loss.mask=completion changed nothing")


def expect_same_weights(folder, one, other, **common):
    data = char_data(folder, words_text(6600))
    a = train(folder, "one", data, **{**common, **one})
    b = train(folder, "other", data, **{**common, **other})
    check(losses(a) == losses(b), "losses differ")
    check(weights_sha(a, STEPS) == weights_sha(b, STEPS), "weights differ")
    return a, b


def test_recompute(folder):
    expect_same_weights(folder, dict(recompute="true"), dict(recompute="false"), dropout=0.1)


def test_recompute_bf16(folder):
    expect_same_weights(folder, dict(recompute="true"), dict(recompute="false"), dropout=0.1, precision="bf16")


def test_evaluation_every_step(folder):
    a, b = expect_same_weights(folder, dict(eval_interval=1, eval_batches=2), dict(eval_interval=0), dropout=0.1)
    check(len(evaluations(a)) >= STEPS, f"{len(evaluations(a))} evaluations")


def test_threads(folder):
    expect_same_weights(folder, dict(threads=1), dict(threads=3))


def test_saving_every_step(folder):
    expect_same_weights(folder, dict(save_interval=1), dict(save_interval=STEPS, save_async="false"))


def test_seed(folder):
    data = char_data(folder, words_text(6600))
    a = train(folder, "a", data, seed=5)
    b = train(folder, "b", data, seed=5)
    c = train(folder, "c", data, seed=6)
    check(weights_sha(a, STEPS) == weights_sha(b, STEPS), "same seed, other weights")
    check(weights_sha(a, STEPS) != weights_sha(c, STEPS), "another seed, same weights")


if __name__ == "__main__":
    sys.exit(main([v for k, v in list(globals().items()) if k.startswith("test_")]))
