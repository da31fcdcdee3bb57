#!/usr/bin/env python3
"""mllog.py -- the log of a benchmark run keeps MLPerf's rules, and the check of the rules sees what does not.

SPDX-License-Identifier: MIT
"""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import check, main, ok, read, run, words_text, write
from mllog_rules import parse, problems


def line(time_ms, key, value="null", metadata=""):
    kind = ("INTERVAL_START" if key.endswith("_start") else
            "INTERVAL_END" if key.endswith("_stop") else "POINT_IN_TIME")
    return (f':::MLLOG {{"namespace": "", "time_ms": {time_ms}, "event_type": "{kind}", "key": "{key}", '
            f'"value": {value}, "metadata": {{{metadata}}}}}')


# A log that is accepted.
GOOD = [line(1000 + 10 * i, *event) for i, event in enumerate([
    ("submission_benchmark", '"bert"'), ("submission_org", '"reference"'), ("submission_platform", '"a machine"'),
    ("submission_division", '"closed"'), ("submission_status", '"research"'), ("cache_clear", "true"),
    ("init_start",), ("seed", "1"), ("global_batch_size", "768"), ("gradient_accumulation_steps", "1"),
    ("opt_base_learning_rate", "0.00096"), ("opt_lamb_epsilon", "1e-06"), ("opt_lamb_beta_1", "0.9"),
    ("opt_lamb_beta_2", "0.999"), ("opt_lamb_weight_decay_rate", "0.01"), ("opt_learning_rate_warmup_steps", "0"),
    ("opt_learning_rate_training_steps", "3680"), ("num_warmup_steps", "0"), ("start_warmup_step", "0"),
    ("init_stop",), ("run_start",), ("train_samples", "1000000"), ("eval_samples", "10000"),
    ("block_start", "null", '"first_epoch_num": 0, "epoch_count": 150000'),
    ("block_stop", "null", '"first_epoch_num": 0'), ("eval_start", "null", '"epoch_num": 150000'),
    ("eval_accuracy", "0.4", '"epoch_num": 150000'), ("eval_stop", "null", '"epoch_num": 150000'),
    ("block_start", "null", '"first_epoch_num": 150000, "epoch_count": 150000'),
    ("block_stop", "null", '"first_epoch_num": 150000'), ("eval_start", "null", '"epoch_num": 300000'),
    ("eval_accuracy", "0.7201", '"epoch_num": 300000'), ("eval_stop", "null", '"epoch_num": 300000'),
    ("run_stop", "null", '"status": "success"')])]


def at(key, nth=0):
    return [i for i, text in enumerate(GOOD) if f'"key": "{key}"' in text][nth]


def without(key):
    return [text for text in GOOD if f'"key": "{key}"' not in text]


def twice(key):
    i = at(key)
    return GOOD[:i + 1] + GOOD[i:]


def changed(key, old, new, nth=0):
    i = at(key, nth)
    check(old in GOOD[i], f"{old!r} is not in {GOOD[i]}")
    return GOOD[:i] + [GOOD[i].replace(old, new)] + GOOD[i + 1:]


def moved(key, behind):
    """The line of `key` where it does not belong, at the right time."""
    rest = without(key)
    i = [k for k, text in enumerate(rest) if f'"key": "{behind}"' in text][0]
    time = rest[i].split('"time_ms": ')[1].split(",")[0]
    own = GOOD[at(key)]
    return rest[:i + 1] + [own.replace(own.split('"time_ms": ')[1].split(",")[0], time)] + rest[i + 1:]


KEYS_ONCE = ["submission_org", "submission_platform", "submission_division", "submission_status",
             "submission_benchmark", "init_stop", "run_start", "run_stop", "train_samples", "eval_samples",
             "global_batch_size", "gradient_accumulation_steps", "seed", "opt_base_learning_rate", "opt_lamb_epsilon",
             "opt_learning_rate_training_steps", "opt_learning_rate_warmup_steps", "num_warmup_steps",
             "start_warmup_step", "opt_lamb_beta_1", "opt_lamb_beta_2", "opt_lamb_weight_decay_rate"]


def test_a_good_log_is_accepted(folder):
    check(problems("\n".join(GOOD) + "\n") == [], str(problems("\n".join(GOOD))))
    other = ["step 1 | loss 10.3"] + GOOD + ["done"]  # what else a program says does not matter
    check(problems("\n".join(other)) == [], str(problems("\n".join(other))))


def refused(lines, word):
    found = problems("\n".join(lines) + "\n")
    check(any(word in p for p in found), f"a broken log was accepted, expected '{word}': {found}")


def test_missing_and_doubled_keys_are_refused(folder):
    for key in KEYS_ONCE:
        refused(without(key), key)
        refused(twice(key), f"{key} stands 2 times")
    for key in ("cache_clear", "init_start", "eval_accuracy"):
        refused(without(key), f"{key} is missing")
    refused([text for text in GOOD if "block_" not in text], "neither block_start nor epoch_start")
    refused([], "no line")


def test_wrong_values_are_refused(folder):
    refused(changed("global_batch_size", "768", '"768"'), "global_batch_size is '768'")
    refused(changed("global_batch_size", "768", "768.0"), "global_batch_size is 768.0")
    refused(changed("seed", '"value": 1', '"value": true'), "seed is True")
    refused(changed("opt_base_learning_rate", "0.00096", "null"), "opt_base_learning_rate is None")
    refused(changed("opt_lamb_beta_1", "0.9", "1.5"), "opt_lamb_beta_1 is 1.5")
    refused(changed("submission_org", '"reference"', '""'), "submission_org is ''")
    refused(changed("submission_division", '"closed"', '"best"'), "submission_division is 'best'")
    refused(changed("submission_status", '"research"', '"idle"'), "submission_status is 'idle'")
    refused(changed("run_stop", '"status": "success"', ""), "run_stop has no status")
    refused(changed("eval_accuracy", '"epoch_num": 150000', ""), "eval_accuracy has no epoch_num")
    refused(changed("eval_accuracy", "150000", "1.5"), "epoch_num is 1.5")
    refused(changed("block_start", '"epoch_count": 150000', '"epoch_count": 0'), "epoch_count is 0")
    refused(changed("block_start", '"first_epoch_num": 0, ', ""), "block_start has no first_epoch_num")
    refused(changed("eval_accuracy", "0.7201", "0.7199", nth=1), "no eval_accuracy from 0.72")
    refused(changed("eval_accuracy", "0.7201", "1.0", nth=1), "no eval_accuracy from 0.72")


def test_wrong_order_is_refused(folder):
    refused(moved("init_stop", "run_start"), "run_start before init_stop")
    refused(moved("init_start", "init_stop"), "init_stop before init_start")
    refused(moved("run_stop", "init_stop"), "run_stop before run_start")
    refused(moved("cache_clear", "run_stop"), "cache_clear after run_stop")
    refused(GOOD[:at("block_stop")] + GOOD[at("block_stop") + 1:], "block_start within another")
    refused(changed("run_stop", str(1000 + 10 * (len(GOOD) - 1)), "7"), "the time goes back")
    late = [text.replace('"time_ms": 1', '"time_ms": 91') if i >= at("init_stop") else text
            for i, text in enumerate(GOOD)]
    late = [text.replace('"time_ms": 91', '"time_ms": 9991') for text in late]
    refused(late, "the initialisation took 30 minutes")


def test_wrong_form_is_refused(folder):
    for old, new in ((":::MLLOG", ":::MLL"), ('"namespace": "", ', ""), ('"time_ms": 1', '"time_ms": "1"'),
                     ('"value": 768', '"value": 7 8'), ("POINT_IN_TIME", "A_POINT"), ('"metadata": {}}', '"metadata": {}'),
                     ('"metadata": {}', '"metadata": []')):
        refused(changed("global_batch_size", old, new), "global_batch_size")


# A run.

def mostly_one_word(folder):
    """Pairs in which 85 of 100 words are the same one: an accuracy above the target, and below 1, at once."""
    rng = random.Random(3)
    others = sorted(set(words_text(2000).replace(".", "").split()) - {"the"})

    def sentence():
        return " ".join("the" if rng.random() < 0.85 else rng.choice(others) for _ in range(rng.randint(4, 9)))
    documents = ["\n".join(sentence() for _ in range(rng.randint(4, 8))) for _ in range(80)]
    source = write(os.path.join(folder, "text.txt"), "\n\n".join(documents) + "\n")
    tokenizer, data = os.path.join(folder, "tok"), os.path.join(folder, "data")
    ok("tokenizer", "train", input=source, type="wordpiece", vocab_size=300, out=tokenizer)
    ok("data", input=source, tokenizer=tokenizer, out=data, format="bert", sentences="line", max_seq_length=32,
       val_fraction=0.2)
    return data


RUN = dict(architecture="bert", n_layer=1, n_head=2, n_embd=32, block_size=32, batch_size=8, batch_tokens=16 * 32,
           optimizer="lamb", schedule="poly", learning_rate=2e-2, dropout=0, max_steps=300, save_interval=0,
           eval_batches=0, eval_samples=160, target_accuracy=0.72, device="cpu", threads=2, log_interval=0, seed=11)


def values(text, key):
    return [o["value"] for o in parse(text)[0] if o["key"] == key]


def test_the_log_of_a_run_is_accepted(folder):
    log = os.path.join(folder, "result_0.txt")
    r = ok("train", data=mostly_one_word(folder), run=os.path.join(folder, "run"), mllog=log,
           mllog__org='an "org"', mllog__platform="two cores", **RUN)
    text = read(log).decode()
    check(problems(text) == [], "\n".join(problems(text)) + "\n" + text, r)
    want = {"seed": 11, "global_batch_size": 16, "gradient_accumulation_steps": 2, "submission_org": 'an "org"',
            "submission_division": "closed", "opt_base_learning_rate": 0.02, "opt_lamb_epsilon": 1e-8,
            "opt_lamb_beta_1": 0.9, "opt_lamb_beta_2": 0.95, "opt_lamb_weight_decay_rate": 0.1, "num_warmup_steps": 0,
            "opt_learning_rate_training_steps": 300, "cache_clear": False, "max_sequence_length": 32}
    for key, value in want.items():
        check(values(text, key) == [value], f"{key} is {values(text, key)}, not {value}")
    lines = parse(text)[0]
    at = [o["metadata"]["epoch_num"] for o in lines if o["key"] == "eval_accuracy"]
    check(at == [160 * (i + 1) for i in range(len(at))], f"evaluations at {at} sequences")
    blocks = [(o["metadata"]["first_epoch_num"], o["metadata"]["epoch_count"]) for o in lines if o["key"] == "block_start"]
    check(blocks == [(160 * i, 160) for i in range(len(blocks))], f"blocks {blocks}")
    check([o["metadata"] for o in lines if o["key"] == "run_stop"] == [{"status": "success"}], "no success")
    r = run("train", data=os.path.join(folder, "data"), run=os.path.join(folder, "again"), mllog=log, **RUN)
    check(r.code == 2 and "holds the log of a run already" in r.err, "two runs in one log", r)


def test_a_run_that_misses_its_target_is_aborted(folder):
    data, log = mostly_one_word(folder), os.path.join(folder, "log.txt")
    few = {**RUN, "max_steps": 12, "learning_rate": 1e-9, "save_interval": 12}
    write(log, line(1, "cache_clear", "true") + "\n")
    ok("train", data=data, run=os.path.join(folder, "run"), mllog=log, **few)
    text = read(log).decode()
    check([p for p in problems(text)] == ["no eval_accuracy from 0.72 on and below 1"], str(problems(text)))
    check(values(text, "cache_clear") == [True] and '"aborted"' in text, text)
    r = run("train", data=data, run=os.path.join(folder, "run"), mllog=os.path.join(folder, "more.txt"),
            **{**few, "max_steps": 14})
    check(r.code == 2 and "goes on from step 12" in r.err, "the log of half a run", r)


if __name__ == "__main__":
    sys.exit(main([test_the_log_of_a_run_is_accepted, test_a_run_that_misses_its_target_is_aborted,
                   test_a_good_log_is_accepted, test_missing_and_doubled_keys_are_refused,
                   test_wrong_values_are_refused, test_wrong_order_is_refused, test_wrong_form_is_refused]))
