"""hostile_cases.py -- the tables of hostile.py: what is damaged, the command, and what must be said.

A row is (name, right exit codes, words of stderr, prepare); `prepare` damages a copy of something in
the World and returns (arguments, options) of the command.

SPDX-License-Identifier: MIT
"""
import json
import os
import shutil
import struct

from lathe_run import (char_data, check, fix_manifest, ok, read, safe_join, safe_split, step_dirs, tiny,
                       words_text, write)

MAGIC = struct.pack("<i", 20240520)  # of a token shard


class World:
    """What the cases damage copies of: a text, a tokenizer, data, a run of three steps, a model."""

    def __init__(self, folder):
        self.dir = folder
        self.text = os.path.join(folder, "data.txt")
        self.data = char_data(folder, words_text(6600))
        self.tok = self.data + "-tok"
        self.run = os.path.join(folder, "run")
        self.options = tiny(max_steps=3, save_interval=1, keep=0)
        ok("train", data=self.data, run=self.run, **self.options)
        self.step = step_dirs(self.run)[3]
        self.hf = os.path.join(folder, "hf")  # the same model without MANIFEST: a foreign folder
        shutil.copytree(self.step, self.hf)
        for name in ("MANIFEST", "trainer.safetensors", "trainer.json"):
            os.remove(os.path.join(self.hf, name))
        self.n = 0

    def new(self, name="x"):
        self.n += 1
        return os.path.join(self.dir, f"{name}-{self.n}")

    def copy(self, source):
        target = self.new("copy")
        shutil.copytree(source, target)
        return target

    def edit(self, source, name, change):
        """Copy a folder and change one file: bytes -> bytes."""
        target = self.copy(source)
        path = os.path.join(target, name)
        write(path, change(read(path)))
        return target

    def shard(self, folder):
        """A training shard: the largest file that starts with the magic number."""
        found = [os.path.join(b, f) for b, _, fs in os.walk(folder) for f in fs
                 if read(os.path.join(b, f))[:4] == MAGIC]
        check(found, f"no shard in {folder}: {os.listdir(folder)}")
        return max(found, key=os.path.getsize)

    def bad_data(self, change):
        target = self.copy(self.data)
        path = self.shard(target)
        write(path, change(read(path)))
        return target

    def model(self, change):
        """The model folder with another safetensors file: (header, body) -> bytes."""
        return self.edit(self.hf, "model.safetensors", lambda b: change(*safe_split(b)))

    def config(self, **changes):
        def change(b):
            return json.dumps({**json.loads(b), **changes}).encode()
        return self.edit(self.hf, "config.json", change)

    # Commands.
    def train(self, *args, **changes):
        return (("train",) + args, {**dict(data=self.data, run=self.new("run")), **self.options, **changes})

    def generate(self, model, **changes):
        return (("generate",), dict(model=model, prompt="the ", max_new_tokens=3, **changes))


def rename_key(header, old, new):
    return {(new if k == old else k): v for k, v in header.items()}


def first_tensor(header):
    return next(k for k in header if k != "__metadata__")


def with_entry(header, name, **changes):
    return {k: ({**v, **changes} if k == name else v) for k, v in header.items()}


def without(header, body, name):
    """The file without one tensor, whole in itself."""
    begin, end = header[name]["data_offsets"]
    out = {}
    for k, v in header.items():
        if k == name:
            continue
        if k != "__metadata__" and v["data_offsets"][0] >= end:
            v = {**v, "data_offsets": [o - (end - begin) for o in v["data_offsets"]]}
        out[k] = v
    return safe_join(out, body[:begin] + body[end:])


def flip(data, at):
    out = bytearray(data)
    out[at] ^= 0x40
    return bytes(out)


def put(data, at, value):
    return data[:at] + value + data[at + len(value):]


def shards_index(w, drop):
    """A model of two shards and an index, the second one absent."""
    target = w.copy(w.hf)
    header, body = safe_split(read(os.path.join(target, "model.safetensors")))
    os.rename(os.path.join(target, "model.safetensors"), os.path.join(target, "model-00001-of-00002.safetensors"))
    names = [k for k in header if k != "__metadata__"]
    index = {"metadata": {}, "weight_map": {n: "model-00001-of-00002.safetensors" for n in names}}
    index["weight_map"][names[-1]] = drop
    write(os.path.join(target, "model.safetensors.index.json"), json.dumps(index))
    return target


WTE, QKV = "transformer.wte.weight", "transformer.h.1.attn.c_attn.weight"

USAGE = [
    ("no subcommand", (2,), ["usage"], lambda w: ((), {})),
    ("unknown subcommand", (2,), ["trian", "train"], lambda w: (("trian",), {})),
    ("unknown flag, nearest name", (2,), ["n_layr", "n_layer"], lambda w: w.train(n_layr=2)),
    ("unknown key in a config file", (2,), ["learning_rat", "learning_rate", "2"],
     lambda w: w.train(write(w.new("c") + ".ini", "n_layer = 2\nlearning_rat = 1\n"))),
    ("NaN in a config file", (2,), ["dropout", "nan"],
     lambda w: (("train", write(w.new("c") + ".ini", "dropout = nan\n")), dict(data=w.data, run=w.new("run")))),
    ("NaN learning rate", (2,), ["learning_rate", "nan"], lambda w: w.train(learning_rate="nan")),
    ("infinite learning rate", (2,), ["learning_rate"], lambda w: w.train(learning_rate="inf")),
    ("out of range", (2,), ["dropout", "2"], lambda w: w.train(dropout=2)),
    ("negative size", (2,), ["n_layer", "-1"], lambda w: w.train(n_layer=-1)),
    ("no number", (2,), ["n_layer", "two"], lambda w: w.train(n_layer="two")),
    ("number with a tail", (2,), ["n_layer", "2x"], lambda w: w.train(n_layer="2x")),
    ("number too large for 64 bits", (2,), ["max_steps"], lambda w: w.train(max_steps="9" * 30)),
    ("unknown word", (2,), ["schedule", "cosin", "cosine"], lambda w: w.train(schedule="cosin")),
    ("several problems at once", (2,), ["n_layr", "dropout", "schedule"],
     lambda w: w.train(n_layr=1, dropout=7, schedule="x")),
    ("heads do not divide the width", (2,), ["n_embd", "n_head"], lambda w: w.train(n_head=3)),
    ("batch_tokens no multiple", (2,), ["batch_tokens"], lambda w: w.train(batch_tokens=100)),
    ("option of another subcommand", (2,), ["n_layer", "train"], lambda w: w.generate(w.hf, n_layer=3)),
    ("no data given", (2,), ["--data"], lambda w: (("train",), dict(run=w.new("run")))),
    ("nothing to evaluate on", (2,), ["--data", "--text"], lambda w: (("eval",), dict(model=w.hf))),
    ("unknown device", (2,), ["device"], lambda w: w.train(device="abacus")),
    ("unknown op", (2,), ["matmull"], lambda w: w.train(ops__matmull="ref")),
    ("plan of a model that overflows", (0, 2), [], lambda w: (("plan",), dict(
        n_layer=4095, n_embd=1048576, n_head=1024, vocab_size=1073741824, block_size=16777216))),
]

FILES = [
    ("data folder absent", (1,), ["nowhere"], lambda w: w.train(data=w.dir + "/nowhere")),
    ("model folder absent", (1,), ["nowhere"], lambda w: w.generate(w.dir + "/nowhere")),
    ("config file absent", (1, 2), ["nowhere.ini"], lambda w: w.train(w.dir + "/nowhere.ini")),
    ("input text absent", (1,), ["nowhere.txt"], lambda w: (("tokenizer", "train"), dict(
        input=w.dir + "/nowhere.txt", type="bpe", vocab_size=300, out=w.new("out")))),
    ("run folder is a file", (1, 2), ["data.txt"], lambda w: w.train(run=w.text)),
    ("output folder below a file", (1,), ["data.txt"], lambda w: (("data",), dict(
        input=w.text, tokenizer=w.tok, out=w.text + "/out"))),
    ("model is a text file", (1, 3), ["data.txt"], lambda w: w.generate(w.text)),
    ("folder without a model", (1, 3), ["data-tok"], lambda w: w.generate(w.tok)),
    ("inspect of nothing", (1,), ["nowhere"], lambda w: (("inspect", w.dir + "/nowhere"), {})),
    ("inspect of a text", (1, 2, 3), ["data.txt"], lambda w: (("inspect", w.text), {})),
    ("init_from absent", (1,), ["nowhere"], lambda w: w.train(init_from=w.dir + "/nowhere")),
]

SAFETENSORS = [
    ("empty", ["model.safetensors"], lambda h, b: b""),
    ("seven bytes", ["model.safetensors"], lambda h, b: b"\x10\0\0\0\0\0\0"),
    ("truncated header", ["model.safetensors"], lambda h, b: safe_join(h, b)[:60]),
    ("truncated data", ["model.safetensors"], lambda h, b: safe_join(h, b)[:-1]),
    ("data behind the last tensor", ["model.safetensors"], lambda h, b: safe_join(h, b + b"\0\0\0\0")),
    ("huge header length", ["model.safetensors", "header"], lambda h, b: b"\xff" * 7 + b"\x7f" + safe_join(h, b)[8:]),
    ("header length that overflows", ["model.safetensors", "header"], lambda h, b: b"\xff" * 8 + safe_join(h, b)[8:]),
    ("header longer than the file", ["model.safetensors", "header"],
     lambda h, b: struct.pack("<Q", len(safe_join(h, b))) + safe_join(h, b)[8:]),
    ("header is no JSON", ["model.safetensors"], lambda h, b: put(safe_join(h, b), 8, b"}{")),
    ("header is a list", ["model.safetensors"], lambda h, b: safe_join(b"[1, 2, 3]", b)),
    ("header nested deeply", ["model.safetensors"], lambda h, b: safe_join(b"[" * 200000, b)),
    ("negative shape", [WTE], lambda h, b: safe_join(with_entry(h, WTE, shape=[-1, 32]), b)),
    ("shape that overflows", [WTE], lambda h, b: safe_join(with_entry(h, WTE, shape=[2**33, 2**33]), b)),
    ("shape of fractions", [WTE], lambda h, b: safe_join(with_entry(h, WTE, shape=[1.5, 32]), b)),
    ("shape does not fit its bytes", [WTE], lambda h, b: safe_join(
        with_entry(h, WTE, shape=[h[WTE]["shape"][0] + 1, 32]), b)),
    ("offsets behind the data", [WTE], lambda h, b: safe_join(
        with_entry(h, WTE, data_offsets=[len(b), len(b) + h[WTE]["data_offsets"][1] - h[WTE]["data_offsets"][0]]), b)),
    ("offsets backwards", [WTE], lambda h, b: safe_join(
        with_entry(h, WTE, data_offsets=h[WTE]["data_offsets"][::-1]), b)),
    ("two tensors on one place", ["model.safetensors"], lambda h, b: safe_join(with_entry(
        h, "transformer.h.1.ln_2.bias", data_offsets=h["transformer.h.0.ln_2.bias"]["data_offsets"]), b)),
    ("unknown element type", [WTE, "F99"], lambda h, b: safe_join(with_entry(h, WTE, dtype="F99"), b)),
    ("integers for weights", [WTE], lambda h, b: safe_join(with_entry(h, WTE, dtype="I32"), b)),
    ("missing tensor", [QKV.split("transformer.")[1]], lambda h, b: without(h, b, QKV)),
    ("renamed tensor", [QKV.split("transformer.")[1]], lambda h, b: safe_join(
        rename_key(h, QKV, "transformer.h.1.attn.c_attn.wait"), b)),
    ("tensor of a layer too many", ["h.2.ln_1.bias"], lambda h, b: safe_join(
        {**h, "transformer.h.2.ln_1.bias": dict(dtype="F32", shape=[1], data_offsets=[len(b), len(b) + 4])}, b + b"\0" * 4)),
    ("transposed tensor", [QKV.split("transformer.")[1]], lambda h, b: safe_join(
        with_entry(h, QKV, shape=h[QKV]["shape"][::-1]), b)),
    ("flat tensor", [QKV.split("transformer.")[1]], lambda h, b: safe_join(
        with_entry(h, QKV, shape=[h[QKV]["shape"][0] * h[QKV]["shape"][1]]), b)),
]

CONFIG = [
    ("config.json empty", ["config.json"], lambda w: w.edit(w.hf, "config.json", lambda b: b"")),
    ("config.json cut", ["config.json"], lambda w: w.edit(w.hf, "config.json", lambda b: b[:len(b) // 2])),
    ("config.json with NaN", ["config.json"], lambda w: w.edit(
        w.hf, "config.json", lambda b: b.replace(b'"layer_norm_epsilon": 1e-05', b'"layer_norm_epsilon": NaN')
        if b'1e-05' in b else b.replace(b'"n_embd"', b'"x": NaN, "n_embd"'))),
    ("no heads", ["n_head"], lambda w: w.config(n_head=0)),
    ("heads do not divide the width", ["n_head"], lambda w: w.config(n_head=5)),
    ("negative layers", ["n_layer"], lambda w: w.config(n_layer=-2)),
    ("layers as text", ["n_layer"], lambda w: w.config(n_layer="two")),
    ("huge width", [], lambda w: w.config(n_embd=2**62)),
    ("another architecture", [], lambda w: w.config(architectures=["LlamaForCausalLM"], model_type="llama")),
    ("activation unknown", ["swoosh"], lambda w: w.config(activation_function="swoosh")),
    ("absent shard", ["model-00002-of-00002"], lambda w: shards_index(w, "model-00002-of-00002.safetensors")),
    ("shard outside the folder", [], lambda w: shards_index(w, "../hf/model.safetensors")),
    ("tokenizer.json cut", ["tokenizer.json"], lambda w: w.edit(w.hf, "tokenizer.json", lambda b: b[:-20])),
]

DATA = [
    ("shard with another magic", (3,), ["magic"], lambda w: w.train(data=w.bad_data(lambda b: put(b, 0, b"LAME")))),
    ("shard of another version", (3,), ["version"], lambda w: w.train(
        data=w.bad_data(lambda b: put(b, 4, struct.pack("<i", 99))))),
    ("shard that claims more tokens", (3,), [], lambda w: w.train(
        data=w.bad_data(lambda b: put(b, 8, struct.pack("<i", 10**9))))),
    ("shard that claims fewer tokens", (3,), [], lambda w: w.train(
        data=w.bad_data(lambda b: put(b, 8, struct.pack("<i", 100))))),
    ("shard with a negative count", (3,), [], lambda w: w.train(
        data=w.bad_data(lambda b: put(b, 8, struct.pack("<i", -5))))),
    ("truncated shard", (3,), [], lambda w: w.train(data=w.bad_data(lambda b: b[:-101]))),
    ("shard of a header's half", (3,), [], lambda w: w.train(data=w.bad_data(lambda b: b[:500]))),
    ("ids outside the vocabulary", (3,), ["60000"], lambda w: w.train(
        data=w.bad_data(lambda b: b[:1024] + struct.pack("<H", 60000) * (len(b) // 2 - 512)))),
    ("data smaller than a block", (1, 2, 3), ["block"], lambda w: w.train(block_size=100000)),
    ("vocabulary smaller than the data's", (2, 3), ["vocab"], lambda w: w.train(vocab_size=3)),
    ("empty text to learn from", (1, 2, 3), ["no text"], lambda w: (("tokenizer", "train"), dict(
        input=write(w.new("e") + ".txt", ""), type="bpe", vocab_size=300, out=w.new("out")))),
    ("empty text for data", (1, 2, 3), [], lambda w: (("data",), dict(
        input=write(w.new("e") + ".txt", ""), tokenizer=w.tok, out=w.new("out")))),
    ("character unknown to the tokenizer", (3,), [], lambda w: (("data",), dict(
        input=write(w.new("e") + ".txt", "the \u00e9 of"), tokenizer=w.tok, out=w.new("out")))),
    ("line that is no JSON", (3,), ["2"], lambda w: (("data",), dict(
        input=write(w.new("j") + ".jsonl", '{"text": "the"}\n{"text": \n'), tokenizer=w.tok, out=w.new("out")))),
    ("line without text", (3,), ["text"], lambda w: (("data",), dict(
        input=write(w.new("j") + ".jsonl", '{"txt": "the"}\n'), tokenizer=w.tok, out=w.new("out")))),
    ("broken gzip", (1, 3), [".gz"], lambda w: (("data",), dict(
        input=write(w.new("z") + ".txt.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03garbage"), tokenizer=w.tok, out=w.new("out")))),
    ("tokenizer file cut", (3,), ["tokenizer.json"], lambda w: (("data",), dict(
        input=w.text, tokenizer=w.edit(w.tok, "tokenizer.json", lambda b: b[:-9]), out=w.new("out")))),
    ("vocabulary too small for bytes", (2,), ["vocab_size"], lambda w: (("tokenizer", "train"), dict(
        input=w.text, type="bpe", vocab_size=100, out=w.new("out")))),
    ("ids that are no numbers", (2, 3), [], lambda w: (
        ("tokenizer", "decode", write(w.new("i") + ".ids", "1 2 three\n")), dict(tokenizer=w.tok))),
    ("id to decode out of range", (2, 3), ["99999"], lambda w: (
        ("tokenizer", "decode", write(w.new("i") + ".ids", "1 99999\n")), dict(tokenizer=w.tok))),
    ("prompt with an unknown character", (2, 3), [], lambda w: (
        ("generate",), dict(model=w.hf, prompt="\u00e9", max_new_tokens=3))),
    ("data of another tokenizer", (2, 3), ["tokenizer"], lambda w: (("eval",), dict(
        model=w.run, data=char_data(w.new("other"), "ABCDE FGHIJ.\n" * 300)))),
]

def all_damaged(w):
    target = w.copy(w.run)
    for path in step_dirs(target).values():
        name = os.path.join(path, "model.safetensors")
        write(name, flip(read(name), -9))
    return target


def without_config(w):
    target = w.copy(w.run)
    os.remove(os.path.join(target, "config.ini"))
    return target


def nonsense(w):
    """Only one step, its trainer.json replaced and the MANIFEST made to fit."""
    target, content = w.copy(w.run), b'{"step": "many"}'
    for n, path in step_dirs(target).items():
        if n != 3:
            shutil.rmtree(path)
    path = step_dirs(target)[3]
    write(os.path.join(path, "trainer.json"), content)
    fix_manifest(path, "trainer.json")
    return target


RUNS = [
    ("resume=never on a run", (2,), ["resume", "never"], lambda w: w.train(run=w.run, resume="never")),
    ("another n_layer on resume", (2,), ["n_layer", "2", "4"], lambda w: w.train(run=w.run, n_layer=4)),
    ("other data on resume", (2,), ["data"], lambda w: w.train(run=w.run, data=w.copy(w.data))),
    ("another seed on resume", (2,), ["seed", "1337", "7"], lambda w: w.train(run=w.run, seed=7)),
    ("another batch_tokens on resume", (2,), ["batch_tokens"], lambda w: w.train(run=w.run, batch_tokens=256)),
    ("resume from nowhere", (1, 2), ["nowhere"], lambda w: w.train(run=w.run, resume=w.dir + "/nowhere")),
    ("flipped byte, verify", (3,), ["model.safetensors"], lambda w: (("inspect", w.edit(
        w.step, "model.safetensors", lambda b: flip(b, len(b) - 50)), "--verify"), {})),
    ("short trainer file, verify", (3,), ["trainer.safetensors"], lambda w: (("inspect", w.edit(
        w.step, "trainer.safetensors", lambda b: b[:-1]), "--verify"), {})),
    ("MANIFEST cut, verify", (3,), ["MANIFEST"], lambda w: (("inspect", w.edit(
        w.step, "MANIFEST", lambda b: b[:-5]), "--verify"), {})),
    ("every step damaged", (1, 3), ["model.safetensors"], lambda w: w.train(run=all_damaged(w), max_steps=5)),
    ("checkpoints without config.ini", (3,), ["config.ini"], lambda w: w.train(run=without_config(w))),
    ("trainer.json is nonsense", (3,), ["trainer.json"], lambda w: w.train(run=nonsense(w), max_steps=5)),
]
