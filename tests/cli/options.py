#!/usr/bin/env python3
"""options.py -- an option that is accepted has its effect, on the first start and on every later one;
one that the chosen work cannot use is refused.

SPDX-License-Identifier: MIT
"""
import os
import shutil
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import (char_data, check, finish, main, metrics, ok, read, run, start, state_sha,
                       step_dirs, tiny, wait_for_step, words_text, write)


def data_of(folder):
    return char_data(folder, words_text(6600), val_fraction=0.2)


def model_of(folder, data, **changes):
    """A step folder of a small model with a context of 16."""
    ok("train", data=data, run=os.path.join(folder, "base"), **tiny(max_steps=2, save_interval=2, **changes))
    return step_dirs(os.path.join(folder, "base"))[2]


# What a fine-tuned run is made of comes from the folder, not from the options' defaults.
TUNE = dict(batch_size=2, learning_rate=1e-3, eval_interval=0, device="cpu", threads=2, save_interval=4)


def tokens_a_step(run_dir):
    return {m["step"]: m["tokens"] for m in metrics(run_dir) if m.get("kind") == "step"}


def test_a_resumed_fine_tuning_keeps_its_step(folder):
    data = data_of(folder)
    init = model_of(folder, data)
    whole, parts = os.path.join(folder, "whole"), os.path.join(folder, "parts")
    ok("train", data=data, run=whole, init_from=init, max_steps=8, decay_steps=8, **TUNE)
    ok("train", data=data, run=parts, init_from=init, max_steps=4, decay_steps=8, **TUNE)
    ok("train", data=data, run=parts, max_steps=8)
    check(tokens_a_step(parts) == tokens_a_step(whole), f"{tokens_a_step(parts)}, {tokens_a_step(whole)}")
    check(state_sha(parts, 8) == state_sha(whole, 8), "weights differ")
    more = os.path.join(folder, "more")
    ok("train", data=data, run=more, init_from=init, max_steps=1, batch_tokens=64, **TUNE)
    check(tokens_a_step(more) == {1: 64}, f"two micro-batches: {tokens_a_step(more)}")


def test_a_fine_tuning_stopped_before_its_first_save_starts_again(folder):
    data = data_of(folder)
    init = model_of(folder, data, dropout=0.2)
    whole, parts = os.path.join(folder, "whole"), os.path.join(folder, "parts")
    options = dict(init_from=init, max_steps=4, **TUNE)
    ok("train", data=data, run=whole, **options)
    ok("train", data=data, run=parts, **options)
    shutil.rmtree(os.path.join(parts, "checkpoints"))
    ok("train", data=data, run=parts, **options)
    check(state_sha(parts, 4) == state_sha(whole, 4), "weights differ")


def test_the_config_of_a_fine_tuning_names_its_model(folder):
    data = data_of(folder)
    init = model_of(folder, data, bias="false")
    tuned = os.path.join(folder, "tuned")
    ok("train", data=data, run=tuned, init_from=init, max_steps=1, **TUNE)
    lines = {line.split("=")[0].strip(): line.split("=")[1].split("#")[0].strip()
             for line in read(os.path.join(tuned, "config.ini")).decode().splitlines() if "=" in line}
    want = dict(n_layer="2", n_head="2", n_embd="32", block_size="16", bias="false")
    check(all(lines[k] == v for k, v in want.items()), f"{ {k: lines[k] for k in want} }, want {want}")


def test_resume_takes_a_step_of_this_run_only(folder):
    data = data_of(folder)
    init = model_of(folder, data)
    other = os.path.join(folder, "other")
    r = run("train", data=data, run=other, resume=init, **tiny())
    check(r.code == 2 and "init_from" in r.err and not os.path.exists(os.path.join(other, "config.ini")),
          "a step of another run", r)


def test_data_of_another_tokenizer_is_refused_on_resume(folder):
    data = data_of(folder)
    run_dir = os.path.join(folder, "run")
    ok("train", data=data, run=run_dir, **tiny(max_steps=2, save_interval=2))
    shutil.rmtree(data)
    text = words_text(6600).replace("e", "E")  # as many characters, but not the same
    os.rename(char_data(folder, text, name="second", val_fraction=0.2), data)
    r = run("train", data=data, run=run_dir, max_steps=4)
    check(r.code == 2 and "tokenizer" in r.err, "the ids mean something else now", r)


def test_other_data_under_the_same_name_is_refused_on_resume(folder):
    data = data_of(folder)
    run_dir = os.path.join(folder, "run")
    ok("train", data=data, run=run_dir, **tiny(max_steps=2, save_interval=2))
    shutil.rmtree(data)
    ok("data", input=os.path.join(folder, "data.txt"), tokenizer=os.path.join(folder, "data-tok"), out=data,
       val_fraction=0.5)
    r = run("train", data=data, run=run_dir, max_steps=4)
    check(r.code == 2 and "5280" in r.err and "3300" in r.err, "the samples are others now", r)


def test_a_folder_may_be_named_in_another_way_on_resume(folder):
    data = data_of(folder)
    run_dir = os.path.join(folder, "run")
    ok("train", data=data, run=run_dir, **tiny(max_steps=2, save_interval=2))
    ok("train", data="data/", run="./run", max_steps=3, cwd=folder)
    ok("train", data=os.path.join(folder, "data-tok", "..", "data"), run=run_dir, max_steps=4, cwd=folder)


def test_a_missing_validation_shard_is_an_error(folder):
    data = data_of(folder)
    os.remove(os.path.join(data, "val-00000.bin"))
    r = run("train", data=data, run=os.path.join(folder, "run"), **tiny(eval_interval=5))
    check(r.code == 1 and "val-00000.bin" in r.err, "a file is gone", r)


def test_ops_are_forced_everywhere(folder):
    data = data_of(folder)
    model = model_of(folder, data)
    for args, options in ((("eval",), dict(model=model, data=data)),
                          (("generate",), dict(model=model, prompt="the", max_new_tokens=2))):
        r = run(*args, ops__matmul="nothing_of_that_name", **options)
        check(r.code == 2 and "nothing_of_that_name" in r.err, f"{args[0]} passes over --ops", r)
        ok(*args, ops__matmul="ref", **options)


def test_options_without_a_use_are_refused(folder):
    data = data_of(folder)
    model = model_of(folder, data)
    tok, text = os.path.join(folder, "data-tok"), os.path.join(folder, "data.txt")
    for word, args, options in (
            ("eval_batches", ("eval",), dict(model=model, text=text, eval_batches=1)),
            ("split", ("eval",), dict(model=model, text=text, split="train")),
            ("data.document_mask", ("eval",), dict(model=model, text=text, data__document_mask="true")),
            ("loss.mask", ("eval",), dict(model=model, text=text, loss__mask="completion")),
            ("tokenizer", ("eval",), dict(model=model, data=data, tokenizer=tok)),
            ("one of", ("eval",), dict(model=model, data=data, text=text)),
            ("block_size", ("eval",), dict(model=model, data=data, block_size=17)),
            ("input", ("tokenizer", "encode"), dict(tokenizer=tok, input=text)),
            ("vocab_size", ("tokenizer", "decode"), dict(tokenizer=tok, vocab_size=300)),
            ("tokenizer", ("tokenizer", "train"), dict(input=text, out=os.path.join(folder, "t"), tokenizer=tok)),
            ("residual_dtype", ("plan",), dict(precision="fp32", residual_dtype="bf16")),
            ("fp8.margin", ("plan",), dict(precision="bf16", fp8__margin=1)),
            ("fp8.history", ("plan",), dict(precision="fp8", fp8__recipe="current", fp8__history=16)),
            ("positional", ("tokenizer", "train", "x"), dict(input=text, out=os.path.join(folder, "t")))):
        r = run(*args, **options)
        check(r.code == 2 and (word in r.err or word == "positional"), f"{' '.join(args)} {word}", r)


def test_a_tokenizer_that_exists_is_not_replaced(folder):
    data_of(folder)
    out = os.path.join(folder, "data-tok")
    before = read(os.path.join(out, "tokenizer.json"))
    r = run("tokenizer", "train", input=write(os.path.join(folder, "t.txt"), "xyz"), type="char", out=out)
    check(r.code == 2 and "tokenizer already" in r.err and "--out" in r.err, "the folder is in use", r)
    check(read(os.path.join(out, "tokenizer.json")) == before, "it was replaced", r)


def test_a_limit_of_time_is_not_inherited(folder):
    data = data_of(folder)
    run_dir = os.path.join(folder, "run")
    options = tiny(max_steps=100000, n_layer=1, save_interval=100000, eval_interval=0)
    r = run("train", data=data, run=run_dir, max_seconds=0.2, **options)
    check(r.code == 5, "max_seconds ends with exit code 5", r)
    last = max(step_dirs(run_dir))
    check("max_seconds" not in read(os.path.join(run_dir, "config.ini")).decode(), "kept with the run")
    with open(os.path.join(run_dir, "config.ini"), "a", encoding="utf-8") as f:
        f.write("max_seconds = 0.001\n")  # as an older version did
    r = run("train", data=data, run=run_dir, max_steps=last + 5)
    check(r.code == 0, "the limit was of the first command only", r)


def test_the_fine_tuning_config_takes_any_checkpoint(folder):
    data = data_of(folder)
    config = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/configs/finetune-gpt2.ini")
    ok("train", config, data=data, run=os.path.join(folder, "tuned"), init_from=model_of(folder, data),
       max_steps=2, device="cpu", threads=2)


def test_ops_lists_what_one_op_has(folder):
    r = ok("ops", "matmul")
    check("ref" in r.out and "serves" in r.out, "the implementations of one op", r)
    check(all(p in r.out for p in ("fp32", "bf16", "fp16")), "a policy is missing", r)
    r = run("ops", "matmull")
    check(r.code == 2 and "matmul" in r.err, "nearest name", r)


def test_a_task_file_is_read_to_its_end_or_refused(folder):
    data = data_of(folder)
    model, path = model_of(folder, data), os.path.join(folder, "c.jsonl")
    line = '{"context": "the of", "endings": ["and to", "in that"], "label": 0}\n'
    write(path, line * 2)
    check(ok("eval", model=model, choices=path).out.endswith("n 2\n"), "two questions")
    write(path, line + "\0" + line)
    r = run("eval", model=model, choices=path)
    check(r.code == 3 and "zero byte" in r.err, "what follows a zero byte is not dropped", r)


def test_steps_without_targets_are_not_called_infinite(folder):
    lines = "".join('{"prompt": "%s", "completion": "x"}\n' % ("the " * 400) for _ in range(30))
    source, tok, data = (os.path.join(folder, n) for n in ("p.jsonl", "tok", "data"))
    write(source, lines)
    ok("tokenizer", "train", input=source, type="char", out=tok)
    ok("data", input=source, tokenizer=tok, out=data)
    r = run("train", data=data, run=os.path.join(folder, "run"), loss__mask="completion",
            **tiny(batch_size=1, max_bad_steps=3))
    check(r.code == 4 and "no target" in r.err and "not finite" not in r.err, "prompts only", r)


def test_a_stop_does_not_wait_for_the_evaluation(folder):
    data = char_data(folder, words_text(400000), val_fraction=0.9)
    run_dir = os.path.join(folder, "run")
    p = start("train", data=data, run=run_dir,
              **tiny(n_embd=128, batch_size=1, eval_interval=5, eval_batches=0, max_steps=6, save_interval=100))
    wait_for_step(p, run_dir, 5)
    began = time.monotonic()
    p.send_signal(signal.SIGTERM)
    r = finish(p)
    took = time.monotonic() - began
    check(r.code == 5 and sorted(step_dirs(run_dir)) == [5], "stopped while it evaluates, saved", r)
    check(not [m for m in metrics(run_dir) if m["kind"] == "eval"], "the evaluation was given up", r)
    check(took < 3, f"{took:.1f} s", r)


def test_sigterm_ends_what_has_nothing_to_save(folder):
    data = char_data(folder, words_text(400000), val_fraction=0.9)
    model = model_of(folder, data, n_embd=128)
    p = start("eval", model=model, data=data, batch_size=1)
    while p.poll() is None and len(os.listdir(f"/proc/{p.pid}/task")) < 2:
        time.sleep(0.002)  # until it computes
    p.send_signal(signal.SIGTERM)
    r = finish(p, timeout=5)
    check(r.code == -signal.SIGTERM, "eval goes on after SIGTERM", r)


if __name__ == "__main__":
    sys.exit(main([v for k, v in list(globals().items()) if k.startswith("test_")]))
