#!/usr/bin/env python3
"""wordpiece.py -- BERT's tokenizer from outside: train, encode, decode, inspect, data, a model on it.

SPDX-License-Identifier: MIT
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import check, main, ok, run, tiny, words_text, write

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "un", "##aff", "##able", "e", ".", "The"]


def vocab_txt(folder):
    return write(os.path.join(folder, "vocab.txt"), "".join(w + "\n" for w in VOCAB))


def trained(folder, **how):
    text = write(os.path.join(folder, "text.txt"), words_text(3000, seed=4) + "Caf\u00e9, CAF\u00c9.\n")
    out = os.path.join(folder, "tok")
    ok("tokenizer", "train", input=text, type="wordpiece", out=out, **{"vocab_size": 200, **how})
    return text, out


def ids(text_file, **how):
    return [int(w) for w in ok("tokenizer", "encode", text_file, **how).out.split()]


def test_a_bare_vocab_txt(folder):
    tok = vocab_txt(folder)
    text = write(os.path.join(folder, "t.txt"), "The UNAFFABLE\t\u00c9 whale.[MASK]")
    check(ids(text, tokenizer=tok) == [5, 6, 7, 8, 9, 1, 10, 1, 1, 1], "ids of a bare vocab.txt")
    check(ids(text, tokenizer=tok, pattern="cased")[0] == 11, "cased")
    check(ids(text, tokenizer=folder, allow_special="true")[-1] == 4, "[MASK] allowed")
    check(ids(text, tokenizer=tok, add_special="true") == [2, 5, 6, 7, 8, 9, 1, 10, 1, 1, 1, 3], "--add_special")
    empty = write(os.path.join(folder, "e.txt"), "")
    r = ok("tokenizer", "encode", empty, text, tokenizer=tok, add_special="true")
    check(r.out.split("\n")[0] == "2 3" and len(r.out.split("\n")) == 3, "an empty text", r)
    r = ok("tokenizer", "decode", write(os.path.join(folder, "i"), "2 5 6 7 8 10 3"), tokenizer=tok)
    check(r.out == "[CLS] the unaffable. [SEP]", "decoded text", r)
    r = ok("inspect", tok)
    for word in ("tokenizer, wordpiece", "pattern:     uncased", "ids:         12", "end token:   3"):
        check(word in r.out, f"inspect does not say {word!r}", r)


def test_training_writes_what_others_read(folder):
    text, tok = trained(folder)
    with open(os.path.join(tok, "tokenizer.json"), encoding="utf-8") as f:
        model = json.load(f)
    check(model["model"]["type"] == "WordPiece" and model["normalizer"]["lowercase"], "tokenizer.json")
    with open(os.path.join(tok, "vocab.txt"), encoding="utf-8") as f:
        lines = f.read().split("\n")[:-1]
    check(lines[:5] == VOCAB[:5], "the special tokens come first")
    check(model["model"]["vocab"] == {w: i for i, w in enumerate(lines)}, "vocab.txt is the same vocabulary")
    with open(os.path.join(tok, "tokenizer_config.json"), encoding="utf-8") as f:
        check(json.load(f)["do_lower_case"] is True, "tokenizer_config.json")
    want = ids(text, tokenizer=tok)
    check(1 not in want, "a word of the text is unknown")
    check(ids(text, tokenizer=os.path.join(tok, "vocab.txt")) == want, "ids by vocab.txt")
    os.remove(os.path.join(tok, "tokenizer.json"))
    check(ids(text, tokenizer=tok) == want, "ids by the folder without tokenizer.json")


def test_a_cased_vocabulary_stays_cased(folder):
    text, tok = trained(folder, pattern="cased")
    os.remove(os.path.join(tok, "tokenizer.json"))
    r = ok("tokenizer", "decode", write(os.path.join(folder, "i"), ok("tokenizer", "encode", text, tokenizer=tok).out),
           tokenizer=tok)
    check(r.out.endswith("Caf\u00e9, CAF\u00c9."), "capitals and accents", r)


def test_data_and_a_model(folder):
    text, tok = trained(folder)
    data, model = os.path.join(folder, "data"), os.path.join(folder, "run")
    ok("data", input=text, tokenizer=tok, out=data, val_fraction=0.1)
    with open(os.path.join(data, "meta.json"), encoding="utf-8") as f:
        meta = json.load(f)["tokenizer"]
    check(meta["kind"] == "wordpiece" and meta["end_token"] == 3, f"meta.json: {meta}")
    ok("train", data=data, run=model, **tiny(max_steps=2, save_interval=2))
    r = ok("generate", model=model, prompt="the of", max_new_tokens=5, seed=1)
    check("the of" in r.out, "generated text", r)
    r = ok("eval", model=model, data=data)
    check("bpb" in r.out, "eval", r)


def test_a_document_that_is_cut_shares_its_bytes(folder):
    # White space that no token has, and characters that have none between them.
    texts = {"wide": ("the of \n\n\n and   " * 500).encode(), "dense": ("\u4e2d\u6587" * 2000).encode()}
    for name, text in texts.items():
        tok, data = os.path.join(folder, name + "-tok"), os.path.join(folder, name)
        path = write(os.path.join(folder, name + ".txt"), text)
        ok("tokenizer", "train", input=path, type="wordpiece", vocab_size=40, out=tok)
        ok("data", input=path, tokenizer=tok, out=data, val_fraction=0.1)
        ok("inspect", data)
        with open(os.path.join(data, "meta.json"), encoding="utf-8") as f:
            meta = json.load(f)
        train, val = meta["train"]["text_bytes"], meta["val"]["text_bytes"]
        check(train + val == len(text), f"{train} and {val} bytes of {len(text)}")
        check(abs(val / len(text) - 0.1) < 0.01, f"{val} of {len(text)} bytes validate")


def refused(words, code, *args, **options):
    r = run(*args, **options)
    check(r.code == code, f"exit code {r.code}, not {code}", r)
    for word in words:
        check(word in r.err, f"the message lacks {word!r}", r)


def test_what_is_refused(folder):
    text = write(os.path.join(folder, "t.txt"), "the of the of and")
    out = os.path.join(folder, "out")
    tok = vocab_txt(folder)
    how = dict(input=text, out=out, type="wordpiece")
    refused(["vocab_size 5", "not between 6"], 2, "tokenizer", "train", vocab_size=5, **how)
    refused(["gpt2", "uncased, cased and lower"], 2, "tokenizer", "train", pattern="gpt2", **how)
    refused(["cased", "gpt2 and cl100k"], 2, "tokenizer", "train", pattern="cased", **{**how, "type": "bpe"})
    refused(["add_special"], 2, "tokenizer", "train", add_special="true", **how)
    check(not os.path.exists(out), "a refused training left a folder")
    ok("tokenizer", "train", input=text, type="char", out=out)
    refused(["char", "no special tokens"], 2, "tokenizer", "encode", text, tokenizer=out, add_special="true")
    refused(["gpt2", "vocab.txt"], 2, "tokenizer", "encode", text, tokenizer=tok, pattern="gpt2")
    write(tok, "[PAD]\nthe\n")
    refused(["unknown words", "vocab.txt"], 3, "tokenizer", "encode", text, tokenizer=tok)
    refused(["not in the vocabulary"], 3, "tokenizer", "decode", write(os.path.join(folder, "i"), "99999"),
            tokenizer=vocab_txt(folder))


if __name__ == "__main__":
    sys.exit(main([v for k, v in list(globals().items()) if k.startswith("test_")]))
