"""inspect_convert.py -- lathe inspect and lathe convert from outside: what they say, exit codes, files.

    inspect_convert.py WRITE_STEPS_PROGRAM

SPDX-License-Identifier: MIT
"""
import os
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import SOURCE, char_data, check, main, ok, read, run, words_text, write  # noqa: E402

GOLDEN = os.path.join(SOURCE, "tests", "checkpoints", "golden")
WRITER = sys.argv.pop(1)


def golden(name):
    return os.path.join(GOLDEN, name)


def refused(code, says, *args, **options):
    """Exit code and text of a command that must fail, with one error line."""
    r = run(*args, **options)
    check(r.code == code, f"exit code {r.code}, expected {code}", r)
    check(says in r.err, f"stderr does not say: {says}", r)
    check(sum(line.startswith("lathe ") for line in r.err.splitlines()) == 1, "not one error", r)
    return r


def says(r, *texts):
    for t in texts:
        check(t in r.out, f"stdout does not say: {t}", r)
    return r


def test_model_folders(dir):
    says(ok("inspect", golden("single")), "model: GPT2LMHeadModel, n_layer 2", "vocab_size 20",
         "parameters: 2016; the tensors are those of config.json", "transformer.h.1.mlp.c_proj.bias",
         "[8, 24]", "metadata: format = pt", "none in this folder")
    says(ok("inspect", golden("sharded")), "model-00004-of-00004.safetensors: safetensors")
    says(ok("inspect", golden("bare")), "BOOL", "parameters: 2016")
    says(ok("inspect", os.path.join(golden("bf16"), "model.safetensors")), "BF16", "28 tensors")
    folder = os.path.join(dir, "m")
    shutil.copytree(golden("sharded"), folder)
    os.remove(os.path.join(folder, "model-00003-of-00004.safetensors"))
    refused(3, 'shard "model-00003-of-00004.safetensors" is missing', "inspect", folder)


def test_berts(dir):
    says(ok("inspect", golden("bert_pretrain")), "model: BertForPreTraining, n_layer 2",
         "float32, gelu, tied, with biases", "3 token types, with pooler, padding token 0",
         "parameters: 1694; the tensors are those of config.json")
    says(ok("inspect", golden("bert_untied")), "parameters: 1854;")
    says(ok("inspect", golden("bert_nopool")), "no output layer", "no pooler")
    says(ok("inspect", golden("bert_tag")), "labels: 3: O, B-PER, na", "padding token none")
    says(ok("inspect", golden("bert_old")), "LayerNorm.gamma", "position_ids",
         "ignored: cls.seq_relationship, pooler, which a BertForMaskedLM does not have")
    to = os.path.join(dir, "plain")
    says(ok("convert", **{"from": golden("bert_old"), "to": to, "dtype": "bf16", "pad_vocab": 16, "tie": "false"}),
         "left out: cls.seq_relationship, pooler, which a BertForMaskedLM does not have",
         "44 tensors", "bfloat16, untied, vocabulary 32")
    says(ok("inspect", to), "bert.embeddings.LayerNorm.weight", "[32, 8]", "cls.predictions.decoder.bias")
    refused(2, "a BertModel has no output layer to tie or untie", "convert",
            **{"from": golden("bert_model"), "to": os.path.join(dir, "no"), "tie": "true"})
    check(os.listdir(dir) == ["plain"], f"left behind: {os.listdir(dir)}")


def test_runs_and_steps(dir):
    subprocess.run([WRITER, dir], check=True)
    run_dir = os.path.join(dir, "tied")
    step = os.path.join(run_dir, "checkpoints", "step-00000001")
    says(ok("inspect", run_dir), "run folder", "step-00000001  complete", "not checked")
    says(ok("inspect", run_dir, "--verify"), "1 checkpoint, 0 damaged", "every file of every step")
    says(ok("inspect", step, "--verify"), "every file is as MANIFEST says", "trainer.safetensors")
    says(ok("inspect", run_dir, which="step-00000001"), "checkpoint, with trainer state")
    path = os.path.join(step, "model.safetensors")
    data = bytearray(read(path))
    data[-1] ^= 1
    write(path, bytes(data))
    ok("inspect", step)  # sizes are right; only a checksum tells
    r = refused(3, "model.safetensors has CRC-32", "inspect", step, "--verify")
    says(r, "DAMAGED")
    says(refused(3, "model.safetensors has CRC-32", "inspect", run_dir, "--verify"),
         "1 checkpoint, 1 damaged")
    write(path, bytes(data[:-1]))
    refused(3, "bytes, MANIFEST says", "inspect", step)
    os.remove(os.path.join(step, "MANIFEST"))
    refused(3, "MANIFEST is missing", "inspect", run_dir)
    refused(2, "neither best nor the name of a step", "inspect", run_dir, which="last")


def test_data_shards_and_tokenizers(dir):
    data = char_data(dir, words_text(20000))
    says(ok("inspect", data), "data folder", "train:", "val:", "train-00000.bin", "fingerprint")
    says(ok("inspect", data, "--verify"), "every file is as meta.json says")
    shard = os.path.join(data, "train-00000.bin")
    mmid = os.path.join(SOURCE, "tests", "data", "golden", "mmididx.bin")
    says(ok("inspect", mmid), "without a meta.json", "train: ", "documents")
    bare = os.path.join(dir, "bare")
    write(os.path.join(bare, "train.bin"), b"\x05\0\x09\0\x02\0")
    says(ok("inspect", bare), "train: 3 tokens, largest id 9, 1 file")
    refused(3, "no whole number", "inspect", os.path.dirname(write(os.path.join(dir, "odd", "train.bin"), b"abc")))
    says(ok("inspect", shard), "token shard, magic 20240520, version 1", "of 16 bits")
    says(ok("inspect", os.path.join(data, "tokenizer.json")), "tokenizer, char")
    says(ok("inspect", os.path.join(dir, "data-tok")), "tokenizer, char", "end token:   none")
    good = bytearray(read(shard))
    good[-1] ^= 4
    write(shard, bytes(good))
    ok("inspect", data)
    says(refused(3, "train-00000.bin has CRC-32", "inspect", data, "--verify"), "DAMAGED")
    write(shard, bytes(good[:-2]))
    refused(3, "train-00000.bin has", "inspect", data)
    refused(3, "the header says", "inspect", shard)
    wide = os.path.join(dir, "wide.bin")
    write(wide, struct.pack("<256i", 20240801, 7, 3, *[0] * 253) + struct.pack("<3I", 5, 70000, 1))
    says(ok("inspect", wide), "3 of 32 bits", "largest id: 70000")
    write(wide, struct.pack("<256i", 20240801, 1, 3, *[0] * 253) + bytes(12))
    refused(3, "version 1, expected 7", "inspect", wide)
    write(wide, struct.pack("<256i", 20240520, 1, -1, *[0] * 253))
    refused(3, "the header says -1 tokens", "inspect", wide)


def test_inspect_of_other_things(dir):
    refused(2, "PATH", "inspect")
    refused(2, "expected one PATH, got 2", "inspect", dir, dir)
    refused(1, "no such file or folder", "inspect", os.path.join(dir, "absent"))
    refused(2, "not a run, checkpoint, model, data or tokenizer folder", "inspect", dir)
    refused(2, "not a safetensors file", "inspect", write(os.path.join(dir, "x.txt"), "hello"))
    refused(3, "at least 8", "inspect", write(os.path.join(dir, "x.safetensors"), ""))


def test_convert(dir):
    to = os.path.join(dir, "bf16")
    says(ok("convert", **{"from": golden("single"), "to": to, "dtype": "bf16"}),
         "28 tensors, 2016 parameters, bfloat16, tied, vocabulary 20")
    says(ok("inspect", to), "BF16", "parameters: 2016")
    back = os.path.join(dir, "padded")
    says(ok("convert", **{"from": to, "to": back, "pad_vocab": 64, "tie": "false"}),
         "29 tensors", "untied, vocabulary 64")
    says(ok("inspect", back), "[64, 8]", "lm_head.weight")
    refused(2, "the folder is not empty", "convert", **{"from": to, "to": back})
    refused(2, "--to is missing", "convert", **{"from": to})
    refused(3, "cannot be tied", "convert",
            **{"from": golden("untied"), "to": os.path.join(dir, "no"), "tie": "true"})
    refused(1, "no such folder", "convert",
            **{"from": os.path.join(dir, "absent"), "to": os.path.join(dir, "no")})
    check(sorted(os.listdir(dir)) == ["bf16", "padded"], f"left behind: {os.listdir(dir)}")


def test_convert_of_a_run_strips_to_the_tokenizer(dir):
    subprocess.run([WRITER, dir], check=True)
    folder = os.path.join(dir, "m")
    ok("convert", **{"from": os.path.join(dir, "tied"), "to": folder})
    check(sorted(os.listdir(folder)) == ["config.json", "model.safetensors"], str(os.listdir(folder)))
    text = write(os.path.join(dir, "t.txt"), "abcdefghij" * 20)
    ok("tokenizer", "train", input=text, type="char", out=os.path.join(dir, "tok"))
    shutil.copy(os.path.join(dir, "tok", "tokenizer.json"), folder)
    to = os.path.join(dir, "stripped")
    says(ok("convert", **{"from": folder, "to": to, "pad_vocab": 1}), "vocabulary 10,")
    check(os.path.exists(os.path.join(to, "tokenizer.json")), "the tokenizer did not travel")


if __name__ == "__main__":
    sys.exit(main([v for k, v in list(globals().items()) if k.startswith("test_")]))
