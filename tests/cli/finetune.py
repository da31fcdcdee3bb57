#!/usr/bin/env python3
"""finetune.py -- fine-tuning a BERT from outside: each task is learnt, train, eval and predict agree, a run goes
on with the same bits, labels travel in config.json, and what is wrong is told.

The model is a tiny one with hardly any training; the tasks are such that words alone decide.

SPDX-License-Identifier: MIT
"""
import json
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import (WORDS, char_data, check, main, metrics, ok, read, run, state_sha, step_dirs, tiny, words_text,
                       write)

NAMES = ["lord", "king", "duke"]
PLACES = ["sea", "hill"]
FAST = dict(device="cpu", threads=2, batch_size=16, learning_rate=3e-3, log_interval=0, save_interval=0, dropout=0)
BASE = {}


def bert(folder):
    """A BERT of 2 layers that was shown a little text; made once for all tests."""
    if BASE:
        return BASE["dir"]
    top = os.path.dirname(folder)
    text = words_text(6000, seed=3) + " ".join(NAMES + PLACES + ["good", "bad"]) * 40 + " .\n"
    source, tokenizer, data = (os.path.join(top, n) for n in ("base.txt", "base-tok", "base-data"))
    write(source, "\n\n".join(text[i:i + 400] for i in range(0, len(text), 400)))
    ok("tokenizer", "train", input=source, type="wordpiece", vocab_size=300, out=tokenizer)
    ok("data", input=source, tokenizer=tokenizer, out=data, format="bert", sentences="line", max_seq_length=32)
    BASE["dir"] = os.path.join(top, "base")
    ok("train", architecture="bert", n_layer=2, n_head=2, n_embd=32, n_positions=40, block_size=32, batch_size=8,
       max_steps=2, data=data, run=BASE["dir"], eval_interval=0, device="cpu", threads=2)
    return BASE["dir"]


def filler(rng, n):
    return [rng.choice(WORDS[:30]) for _ in range(n)]


def classes(n, seed):
    rng, out = random.Random(seed), []
    for _ in range(n):
        label = rng.choice(["good", "bad"])
        words = filler(rng, rng.randint(2, 9))
        words.insert(rng.randrange(len(words)), label)
        out.append((" ".join(words), label))
    return out


def tsv(path, rows):
    return write(path, "text\tlabel\n" + "".join(f"{t}\t{label}\n" for t, label in rows))


def tagged(n, seed):
    rng, out = random.Random(seed), []
    for _ in range(n):
        words = filler(rng, rng.randint(2, 7)) + [rng.choice(NAMES + PLACES)]
        rng.shuffle(words)
        out.append((words, ["B-PER" if w in NAMES else "B-LOC" if w in PLACES else "O" for w in words]))
    return out


def questions(n, seed):
    rng, out = random.Random(seed), []
    for _ in range(n):
        words = filler(rng, rng.randint(2, 6))
        answer = rng.choice(NAMES)
        words.insert(rng.randrange(len(words)), answer)
        context = " ".join(words)
        # A name may be part of no other word here, so the first place is the place.
        out.append({"question": "who was it?", "context": context,
                    "answers": {"text": [answer], "answer_start": [context.index(answer)]}})
    return out


def jsonl(path, objects):
    return write(path, "".join(json.dumps(o) + "\n" for o in objects))


def fine(folder, name, task, data, val, **changes):
    run_dir = os.path.join(folder, name)
    r = ok("train", task=task, init_from=bert(folder), data__train=data, data__val=val, run=run_dir,
           **{**FAST, **dict(save_interval=1000, max_steps=60, eval_interval=20), **changes})
    return run_dir, r


def scores(run_dir):
    return [m for m in metrics(run_dir) if m["kind"] == "eval"]


def best_of(run_dir):
    """The evaluation that `--which=best` is of."""
    return [m for m in scores(run_dir) if m.get("best")][-1]


def score_of(model, val, **options):
    return json.loads(ok("eval", model=model, data__val=val, json="true", device="cpu", **options).out)


def test_classes_are_learnt_and_everyone_agrees(folder):
    held = classes(60, 2)
    val = tsv(os.path.join(folder, "val.tsv"), held)
    run_dir, r = fine(folder, "run", "classify", tsv(os.path.join(folder, "train.tsv"), classes(320, 1)), val)
    best = best_of(run_dir)
    check(best["accuracy"] > 0.95 and "best accuracy" in r.out, "not learnt", r)
    check(best["accuracy"] == max(m["accuracy"] for m in scores(run_dir)), f"not the best: {scores(run_dir)}")
    check("labels       2: bad, good" in r.out and "new: classifier" in r.out, "labels or new layers not told", r)
    for batch in (1, 7, 64):
        s = score_of(run_dir, val, which="best", batch_size=batch)
        check(s["accuracy"] == best["accuracy"] and s["n"] == 60, f"eval says {s}, train {best}")
        check(abs(s["loss"] - best["loss"]) < 1e-4 and abs(s["f1"] - best["f1"]) < 1e-6, f"{s}, {best}")
    texts = write(os.path.join(folder, "texts.txt"), "".join(t + "\n" for t, _ in held))
    rows = [x.split("\t") for x in ok("predict", texts, model=run_dir, which="best", device="cpu").out.splitlines()]
    right = sum(row[0] == label for row, (_, label) in zip(rows, held))
    check(len(rows) == 60 and abs(right / 60 - best["accuracy"]) < 1e-9, f"predict has {right} right")
    check(all(0.5 <= float(row[1]) <= 1 for row in rows), f"probabilities: {rows[:3]}")
    objects = [{"text": t} for t, _ in held]
    out = ok("predict", jsonl(os.path.join(folder, "t.jsonl"), objects), model=run_dir, which="best", device="cpu")
    check([json.loads(x)["label"] for x in out.out.splitlines()] == [row[0] for row in rows], "jsonl differs", out)


def test_labels_travel_in_config_json(folder):
    data = tsv(os.path.join(folder, "a.tsv"), [(f"{w} x", str(i % 3 + 9)) for i, w in enumerate(WORDS[:30])])
    run_dir, _ = fine(folder, "run", "classify", data, "", max_steps=2, eval_interval=0)
    config = json.loads(read(os.path.join(step_dirs(run_dir)[2], "config.json")))
    check(config["id2label"] == {"0": "9", "1": "10", "2": "11"}, f"{config}")
    check(config["architectures"] == ["BertForSequenceClassification"], f"{config}")
    # The next fine-tuning keeps the map and its classifier, and knows no other label.
    more = tsv(os.path.join(folder, "b.tsv"), [("of x", "11"), ("it x", "11")])
    r = ok("train", task="classify", init_from=run_dir, data__train=more, run=os.path.join(folder, "next"),
           **{**FAST, "max_steps": 1, "eval_interval": 0})
    check("labels       3: 9, 10, 11" in r.out and "new:" not in r.out, "the map was not kept", r)
    wrong = tsv(os.path.join(folder, "c.tsv"), [("of x", "11"), ("it x", "12")])
    r = run("train", task="classify", init_from=run_dir, data__train=wrong, run=os.path.join(folder, "no"), **FAST)
    check(r.code == 2 and "c.tsv:3: the label \"12\" is none of the model's 3: 9, 10, 11" in r.err, "not told", r)
    check(not os.path.exists(os.path.join(folder, "no", "config.ini")), "a run was made")
    r = run("eval", model=run_dir, data__val=wrong, device="cpu")
    check(r.code == 2 and "c.tsv:3:" in r.err, "eval does not tell", r)


def test_tags_are_learnt(folder):
    as_jsonl = lambda rows: [{"tokens": w, "tags": t} for w, t in rows]
    train, held = tagged(320, 1), tagged(50, 2)
    data = write(os.path.join(folder, "train.conll"),
                 "\n\n".join("\n".join(f"{w} x {t}" for w, t in zip(*row)) for row in train))
    val = jsonl(os.path.join(folder, "val.jsonl"), as_jsonl(held))
    run_dir, r = fine(folder, "run", "tag", data, val)
    best = best_of(run_dir)
    check(best["f1"] > 0.95 and best["accuracy"] > 0.95, "not learnt", r)
    s = score_of(run_dir, val, which="best", batch_size=5)
    check(abs(s["f1"] - best["f1"]) < 1e-6 and abs(s["loss"] - best["loss"]) < 1e-4, f"{s}, {best}")
    said = [json.loads(x) for x in ok("predict", val, model=run_dir, which="best", device="cpu").out.splitlines()]
    check([o["tokens"] for o in said] == [w for w, _ in held], "other words than were given")
    right = sum(a == b for o, (_, t) in zip(said, held) for a, b in zip(o["tags"], t))
    check(abs(right / sum(len(t) for _, t in held) - s["accuracy"]) < 1e-6, "predict and eval do not agree")
    plain = write(os.path.join(folder, "plain.txt"), "the lord\n\nof the sea\n")
    lines = ok("predict", plain, model=run_dir, which="best", device="cpu").out.split("\n")
    check([x.split("\t")[0] for x in lines] == ["the", "lord", "", "", "of", "the", "sea", "", ""], f"{lines}")


def test_answers_are_learnt(folder):
    held = questions(40, 2)
    held.append({"question": "who was it?", "context": "of the to " * 30 + "king of " + "the to of " * 20,
                 "answers": [{"text": "king", "answer_start": 300}]})  # several windows
    data, val = (jsonl(os.path.join(folder, n), x) for n, x in (("train.jsonl", questions(320, 1)),
                                                                 ("val.jsonl", held)))
    run_dir, r = fine(folder, "run", "qa", data, val, max_steps=120, eval_interval=40)
    best = best_of(run_dir)
    check(best["exact_match"] > 0.9 and best["f1"] >= best["exact_match"], "not learnt", r)
    s = score_of(run_dir, val, which="best", batch_size=3)
    check(abs(s["exact_match"] - best["exact_match"]) < 1e-6, f"{s}, {best}")
    said = [json.loads(x) for x in ok("predict", val, model=run_dir, which="best", device="cpu").out.splitlines()]
    right = sum(o["answer"] == q["answers"]["text"][0] for o, q in zip(said, held[:-1]))
    check(len(said) == 41 and right >= 36 and all(0 <= o["p"] <= 1 for o in said), f"{said[:3]}")


def test_a_run_goes_on_with_the_same_bits(folder):
    data = tsv(os.path.join(folder, "train.tsv"), classes(70, 1))
    how = dict(max_steps=12, eval_interval=6, schedule="constant", warmup_steps=0, save_interval=6, dropout=0.1)
    whole, _ = fine(folder, "whole", "classify", data, "", **how)
    parts = os.path.join(folder, "parts")
    fine(folder, "parts", "classify", data, "", **{**how, "max_steps": 6})
    ok("train", run=parts, max_steps=12, **{k: v for k, v in FAST.items() if k in ("device", "threads")})
    check(state_sha(whole, 12) == state_sha(parts, 12), "other bits after a resume")
    strip = lambda rows: [{k: v for k, v in m.items() if k != "seconds"} for m in rows]
    check(strip(scores(whole)) == strip(scores(parts)), f"{scores(whole)}, {scores(parts)}")
    tsv(data, classes(71, 1))
    r = run("train", run=parts, max_steps=13, device="cpu")
    check(r.code == 2 and "train.tsv has" in r.err, "other data were taken", r)


def test_a_batch_can_be_split(folder):
    data, sums = tsv(os.path.join(folder, "train.tsv"), classes(64, 1)), {}
    for batch in (8, 2):
        run_dir, _ = fine(folder, f"b{batch}", "classify", data, "", max_steps=5, batch_size=batch, block_size=16,
                          batch_tokens=8 * 16, dropout=0.1, eval_interval=0)
        sums[batch] = [m["loss"] for m in metrics(run_dir) if m["kind"] == "step"]
    worst = max(abs(a - b) for a, b in zip(sums[8], sums[2]))
    check(worst < 3e-5, f"8 and 2 examples in a micro-batch differ by {worst}")


def test_texts_of_any_length_have_an_answer(folder):
    data = tsv(os.path.join(folder, "train.tsv"), classes(20, 1) + [("good " * 100, "good"), ("", "bad")])
    run_dir, r = fine(folder, "run", "classify", data, "", max_steps=2, eval_interval=2)
    check("1 of 22 examples are longer than 40 tokens, and cut" in r.err, "the cut is not told", r)
    r = ok("predict", model=run_dir, device="cpu", stdin=b"\n" + b"bad " * 500 + b"\na\tb\n\xff\xfe\n")
    check(len(r.out.splitlines()) == 4 and "1 text was longer" in r.err, "not a line for each text", r)
    r = ok("predict", model=run_dir, device="cpu", stdin=b"")
    check(r.out == "", "something of nothing", r)
    for how in ("mean", "cls"):
        r = ok("predict", model=bert(folder), embed=how, device="cpu", stdin=b"the king\n\n")
        check([len(x.split("\t")) for x in r.out.splitlines()] == [32, 32], "not a vector for each text", r)


def test_wrong_use_is_told(folder):
    base, data = bert(folder), tsv(os.path.join(folder, "a.tsv"), classes(8, 1))
    one = tsv(os.path.join(folder, "one.tsv"), [("a", "x"), ("b", "x")])
    empty = write(os.path.join(folder, "empty.tsv"), "")
    new = dict(run=os.path.join(folder, "run"), device="cpu")
    gpt = os.path.join(folder, "gpt")
    ok("train", data=char_data(folder, words_text(3000)), run=gpt, **tiny(max_steps=1, save_interval=1))
    cases = [
        (("train",), dict(task="classify", data__train=data, **new), "--init_from is missing"),
        (("train",), dict(task="tag", init_from=base, **new), "--data.train is missing"),
        (("train",), dict(data__train=data, data="x", **new), "no meaning for anything but task=classify"),
        (("train",), dict(task="qa", init_from=base, data__train=data, data="x", **new), "--data has no meaning"),
        (("train",), dict(task="classify", init_from=base, data__train=one, **new), "there is nothing to learn"),
        (("train",), dict(task="classify", init_from=base, data__train=empty, **new), "there is no example"),
        (("train",), dict(task="classify", init_from=base, data__train=data, block_size=41, **new), "8 to 40"),
        (("train",), dict(task="classify", init_from=gpt, data__train=data, **new), "fine-tunes BERTs"),
        (("train",), dict(task="mlm", data="x", **new), "task=mlm is not learnt by architecture=gpt"),
        (("plan",), dict(task="qa"), "plan is of learning text"),
        (("predict",), dict(model=base, device="cpu"), "neither labels nor answers"),
        (("predict",), dict(model=gpt, embed="mean", device="cpu"), "embed is of BERTs"),
        (("predict", "a", "b"), dict(model=base, embed="mean", device="cpu"), "one file"),
        (("eval",), dict(model=base, data__val=data, device="cpu"), "neither labels nor answers"),
        (("eval",), dict(model=base, data__val=data, text=data, device="cpu"), "give one of"),
    ]
    for args, options, says in cases:
        r = run(*args, **options)
        check(r.code == 2 and says in r.err, f"expected: {says}", r)
        check(not os.path.exists(os.path.join(new["run"], "config.ini")), "a run was made", r)


if __name__ == "__main__":
    sys.exit(main([v for k, v in list(globals().items()) if k.startswith("test_")]))
