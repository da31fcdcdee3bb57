#!/usr/bin/env python3
"""make_corpus.py -- writes the seeds of the fuzz targets: tests/fuzz/corpus/TARGET/seed-NAME.

    make_corpus.py [FOLDER]

A seed is a small file that is right, or wrong in one place that a parser must notice. The other
files of a corpus were found by fuzzing and are kept for what they reach. Standard library only.

SPDX-License-Identifier: MIT
"""
import base64
import gzip
import json
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SEPARATOR = b"\n%%%%\n"


def dumps(value):
    return json.dumps(value, separators=(",", ":")).encode()


def parts(*files):
    return SEPARATOR.join(files)


# Tensor files and model folders.

def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else dumps(header)
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors_seeds():
    two = {"__metadata__": {"format": "pt"}, "wte.weight": entry("F32", [2, 3], 0, 24),
           "ln_f.bias": entry("BF16", [3], 24, 30)}
    types = {}
    at = 0
    for name, size in (("C64", 8), ("I64", 8), ("F64", 8), ("F32", 4), ("I32", 4), ("U32", 4), ("F16", 2),
                       ("U16", 2), ("I16", 2), ("F8_E4M3", 1), ("F8_E5M2", 1), ("F8_E8M0", 1), ("U8", 1),
                       ("I8", 1), ("BOOL", 1)):
        types["t." + name] = entry(name, [1], at, at + size)
        at += size
    known = {k: v for k, v in types.items() if k[2:] in ("I64", "F32", "F16", "U8")}
    at = 0
    for k, v in known.items():
        size = v["data_offsets"][1] - v["data_offsets"][0]
        v = known[k] = entry(k[2:], [1], at, at + size)
        at += size
    total = sum(v["data_offsets"][1] - v["data_offsets"][0] for v in types.values())
    yield "two", safetensors(two, bytes(range(30)))
    yield "types", safetensors(types, bytes(total))
    yield "known", safetensors(known, bytes(range(at)))
    yield "empty", safetensors({})
    yield "zero-dim", safetensors({"a": entry("F32", [0, 1 << 62, 1 << 62], 0, 0), "b": entry("U8", [], 0, 1)}, b"x")
    yield "huge-shape", safetensors({"a": entry("F32", [1 << 62, 1 << 62], 0, 4)}, b"abcd")
    yield "overlap", safetensors({"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 2, 6)}, bytes(6))
    yield "gap", safetensors({"a": entry("U8", [2], 0, 2), "b": entry("U8", [2], 4, 6)}, bytes(6))
    yield "tail", safetensors({"a": entry("U8", [2], 0, 2)}, bytes(6))
    yield "long-header", struct.pack("<Q", 1 << 63) + b"{}"
    yield "names", safetensors({"a\n\u001b[31m": entry("U8", [1], 0, 1), "\u00e9\u4e2d": entry("U8", [1], 1, 2)}, b"xy")
    yield "rank", safetensors({"a": entry("U8", [1] * 8, 0, 1), "b": entry("U8", [1] * 9, 1, 2)}, b"xy")
    yield "deep", safetensors(b"[" * 3000 + b"]" * 3000)
    yield "many", safetensors({str(i): entry("U8", [], i, i + 1) for i in range(60)}, bytes(60))


def index_seeds():
    right = {"a": "1.safetensors", "b": "1.safetensors", "c": "2.safetensors"}
    yield "right", dumps({"metadata": {"total_size": 12}, "weight_map": right})
    yield "one", dumps({"weight_map": {k: v for k, v in right.items() if k != "c"}})
    yield "wrong-shard", dumps({"weight_map": {**right, "a": "2.safetensors"}})
    yield "absent-shard", dumps({"weight_map": {**right, "d": "3.safetensors"}})
    yield "above", dumps({"weight_map": {"a": "../1.safetensors"}})
    yield "escapes", b'{"weight_map":{"\\u0061":"\\u0031.safetensors","b":"1.safetensors"}}'
    yield "not-text", dumps({"weight_map": {"a": 1}})
    yield "empty", dumps({"weight_map": {}})
    yield "prefix", dumps({"weight_map": {"transformer.a": "1.safetensors", "b": "1.safetensors"}})


CONFIG = {
    "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 8,
    "n_inner": None, "n_positions": 16, "n_ctx": 16, "vocab_size": 20, "layer_norm_epsilon": 1e-5,
    "initializer_range": 0.02, "embd_pdrop": 0.1, "attn_pdrop": 0.1, "resid_pdrop": 0.1,
    "activation_function": "gelu_new", "tie_word_embeddings": True, "scale_attn_weights": True,
    "bos_token_id": 19, "eos_token_id": 19, "torch_dtype": "float32", "use_cache": True}


BERT = {
    "architectures": ["BertForPreTraining"], "model_type": "bert", "num_hidden_layers": 1, "num_attention_heads": 1,
    "hidden_size": 2, "intermediate_size": 3, "max_position_embeddings": 2, "type_vocab_size": 2, "vocab_size": 3,
    "layer_norm_eps": 1e-12, "initializer_range": 0.02, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
    "classifier_dropout": None, "hidden_act": "gelu", "pad_token_id": 0, "tie_word_embeddings": True,
    "position_embedding_type": "absolute", "dtype": "float32", "is_decoder": False, "use_cache": True}
LABELS = {"id2label": {"0": "yes", "1": "n\u00e9", "2": "\"?\""}, "label2id": {"yes": 0, "n\u00e9": 1, "\"?\"": 2}}


def bert_config(name, **changes):
    return {**BERT, "architectures": [name], **changes}


def config_seeds():
    yield "gpt2", dumps(CONFIG)
    yield "bert", dumps(BERT)
    yield "bert-small", dumps({k: BERT[k] for k in ("model_type", "num_hidden_layers", "num_attention_heads", "hidden_size",
                                                    "intermediate_size", "vocab_size")})
    for name in ("BertModel", "BertForMaskedLM", "BertForQuestionAnswering"):
        yield name.lower(), dumps(bert_config(name, pad_token_id=None, tie_word_embeddings=False))
    for name in ("BertForSequenceClassification", "BertForTokenClassification"):
        yield name.lower(), dumps(bert_config(name, **LABELS, classifier_dropout=0.25))
    yield "bert-num-labels", dumps(bert_config("BertForTokenClassification", num_labels=256))
    yield "bert-most-layers", dumps({**BERT, "num_hidden_layers": 4095})
    for key, value in (("position_embedding_type", "relative_key"), ("hidden_act", "silu\u001b[2J"), ("pad_token_id", -2),
                       ("type_vocab_size", 0), ("is_decoder", True), ("classifier_dropout", 2)):
        yield f"bert-bad-{key}", dumps({**BERT, key: value})
    for name, labels in (("hole", {"0": "a", "2": "b"}), ("same", {"0": "a", "1": "a"}), ("long", {"0": "a" * 64}),
                         ("key", {"0x0": "a"}), ("many", {str(i): str(i) for i in range(257)}), ("control", {"0": "\u001b"})):
        yield f"bert-labels-{name}", dumps(bert_config("BertForTokenClassification", id2label=labels))
    yield "small", dumps({k: CONFIG[k] for k in ("model_type", "n_layer", "n_head", "n_embd", "vocab_size")})
    yield "other-names", dumps({"model_type": "gpt2", "num_hidden_layers": 1, "num_attention_heads": 1, "hidden_size": 4,
                                "vocab_size": 5, "max_position_embeddings": 7, "dtype": "bfloat16", "bias": False})
    yield "most-layers", dumps({**CONFIG, "n_layer": 4095})
    for key, value in (("n_layer", 1 << 40), ("n_head", 3), ("n_embd", -8), ("vocab_size", 1 << 62), ("layer_norm_epsilon", 0),
                       ("embd_pdrop", 1.5), ("activation_function", "silu\u001b[2J"), ("model_type", "llama"),
                       ("architectures", []), ("torch_dtype", "float16" * 9), ("n_layer", 2.5), ("bias", "no"),
                       ("add_cross_attention", True), ("initializer_range", 1e300)):
        yield f"bad-{key}-{str(value)[:5].strip('[]') or 'empty'}", dumps({**CONFIG, key: value})
    yield "twice", b'{"model_type":"gpt2","n_layer":1,"n_layer":2}'
    yield "array", b"[1,2]"


def model_folder(dtype="F32", size=4, prefix="transformer.", config=None, head=False, drop=(), value=1):
    """One layer, width 2, three tokens, two positions."""
    whole = {**CONFIG, "n_layer": 1, "n_head": 1, "n_embd": 2, "n_positions": 2, "n_ctx": 2, "vocab_size": 3,
             "bos_token_id": 2, "eos_token_id": 2, **(config or {})}
    shapes = {"wte.weight": [3, 2], "wpe.weight": [2, 2]}
    for name, shape in (("ln_1", [2]), ("attn.c_attn", [2, 6]), ("attn.c_proj", [2, 2]), ("ln_2", [2]),
                        ("mlp.c_fc", [2, 8]), ("mlp.c_proj", [8, 2])):
        shapes[f"h.0.{name}.weight"], shapes[f"h.0.{name}.bias"] = shape, shape[-1:]
    shapes["ln_f.weight"], shapes["ln_f.bias"] = [2], [2]
    header, at = {}, 0
    for name, shape in {**{prefix + k: v for k, v in shapes.items()}, **({"lm_head.weight": [3, 2]} if head else {})}.items():
        if any(d in name for d in drop):
            continue
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = entry(dtype, shape, at, at + size * count)
        at += size * count
    return parts(dumps(whole), safetensors(header, bytes(value * i % 63 for i in range(at))))


BERT_BLOCK = {"attention.self.query": [2, 2], "attention.self.key": [2, 2], "attention.self.value": [2, 2],
              "attention.output.dense": [2, 2], "attention.output.LayerNorm": [2], "intermediate.dense": [3, 2],
              "output.dense": [2, 3], "output.LayerNorm": [2]}
BERT_HEADS = {"pooler.dense": [2, 2], "cls.predictions.transform.dense": [2, 2], "cls.predictions.transform.LayerNorm": [2],
              "cls.seq_relationship": [2, 2], "classifier": [3, 2], "qa_outputs": [2, 2]}


def bert_folder(name, heads, dtype="F32", size=4, old=False, extra=(), prefix="bert.", value=1, **changes):
    """One layer, width 2, three tokens, two positions; the heads that begin so, and extra tensors."""
    shapes = {"embeddings.word_embeddings.weight": [3, 2], "embeddings.position_embeddings.weight": [2, 2],
              "embeddings.token_type_embeddings.weight": [2, 2]}
    parts_of = {"embeddings.LayerNorm": [2], **{f"encoder.layer.0.{k}": v for k, v in BERT_BLOCK.items()},
                **{k: v for k, v in BERT_HEADS.items() if k.startswith(heads)}}
    for part, shape in parts_of.items():
        norm = "LayerNorm" in part and old
        shapes[f"{part}.{'gamma' if norm else 'weight'}"], shapes[f"{part}.{'beta' if norm else 'bias'}"] = shape, shape[:1]
    if any("cls.predictions".startswith(h) for h in heads):
        shapes["cls.predictions.bias"] = [3]
    header, at = {}, 0
    for key, shape in {**shapes, **dict(extra)}.items():
        body = key.split(".")[0] in ("embeddings", "encoder", "pooler")
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[(prefix if body else "") + key] = entry(dtype, shape, at, at + size * count)
        at += size * count
    return parts(dumps(bert_config(name, **changes)), safetensors(header, bytes(value * i % 63 for i in range(at))))


def bert_folder_seeds():
    every = ("pooler", "cls")
    decoder = {"cls.predictions.decoder.weight": [3, 2], "cls.predictions.decoder.bias": [3]}
    yield "bert", bert_folder("BertForPreTraining", every)
    yield "bert-untied", bert_folder("BertForPreTraining", every, extra=decoder, tie_word_embeddings=False)
    yield "bert-old", bert_folder("BertForMaskedLM", every, old=True, extra={"embeddings.position_ids": [1, 2], **decoder},
                                  value=0)
    yield "bert-other-decoder", bert_folder("BertForMaskedLM", ("cls",), extra=decoder)
    yield "bert-bf16", bert_folder("BertForMaskedLM", ("cls.predictions",), "BF16", 2, prefix="")
    yield "bert-model", bert_folder("BertModel", ("pooler",), prefix="")
    yield "bert-no-pooler", bert_folder("BertModel", ("qa",), prefix="module.bert.")
    yield "bert-classify", bert_folder("BertForSequenceClassification", ("pooler", "classifier"), **LABELS)
    yield "bert-tag", bert_folder("BertForTokenClassification", ("classifier",), **LABELS)
    yield "bert-qa", bert_folder("BertForQuestionAnswering", ("qa",), "F16", 2)
    yield "bert-half-head", bert_folder("BertForQuestionAnswering", ("qa",), extra={"pooler.dense.weight": [2, 2]})
    yield "bert-other-labels", bert_folder("BertForTokenClassification", ("classifier",), num_labels=4)


def model_folder_seeds():
    yield from bert_folder_seeds()
    yield "f32", model_folder()
    yield "bf16", model_folder("BF16", 2)
    yield "f16-bare", model_folder("F16", 2, prefix="")
    yield "untied", model_folder(config={"tie_word_embeddings": False}, head=True)
    yield "tied-other-head", model_folder(head=True)
    yield "tied-same-head", model_folder(head=True, value=0)
    yield "no-bias", model_folder(config={"bias": False}, drop=("c_attn.bias", "c_proj.bias", "c_fc.bias", "ln_1.bias",
                                                               "ln_2.bias", "ln_f.bias"))
    yield "missing", model_folder(drop=("ln_f.weight",))
    yield "more-layers", model_folder(config={"n_layer": 2})
    yield "other-width", model_folder(config={"n_embd": 4})
    yield "integers", model_folder("I32", 4)


# Tokenizers.

def byte_chars():
    """GPT-2's visible characters of the 256 bytes, in its order."""
    own = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    rest = [b for b in range(256) if b not in own]
    return [chr(b) for b in own] + [chr(256 + i) for i in range(len(rest))], own + rest


CHARS, ORDER = byte_chars()
SPACE = CHARS[ORDER.index(32)]
MERGES = [("t", "h"), ("th", "e"), (SPACE, "the"), ("a", "a"), ("aa", "aa")]


def vocab(merges=(), extra=()):
    words = CHARS + ["".join(m) for m in merges] + list(extra)
    return {w: i for i, w in enumerate(words)}


def tokenizer(merges=MERGES, pairs=False, **changes):
    words = vocab(merges)
    end = {"id": len(words), "content": "<|endoftext|>", "single_word": False, "lstrip": False, "rstrip": False,
           "normalized": False, "special": True}
    out = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
           "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
           "post_processor": None, "decoder": {"type": "ByteLevel"},
           "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                     "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                     "vocab": words, "merges": [list(m) if pairs else " ".join(m) for m in merges]}}
    for key, value in changes.items():
        (out if key in out else out["model"])[key] = value
    return json.dumps(out, separators=(",", ":"), ensure_ascii=False).encode()


CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def added(*tokens):
    base = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return [{**base, "id": i, "content": text, "special": special} for i, text, special in tokens]


def char_tokenizer(words, **changes):
    out = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "decoder": {"type": "Fuse"},
           "model": {"type": "BPE", "vocab": {w: i for i, w in enumerate(words)}, "merges": []}}
    return dumps({**out, **changes})


def tokenizer_seeds():
    n = 256 + len(MERGES)
    yield "bpe", tokenizer()
    yield "pairs", tokenizer(pairs=True)
    yield "no-merges", tokenizer(merges=[])
    yield "whole-first", tokenizer(ignore_merges=True)
    split = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": CL100K}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}
    yield "split", tokenizer(pre_tokenizer=split)
    yield "added", tokenizer(added_tokens=added((n, "<|endoftext|>", True), (n + 1, "the", False), (n + 2, "<s>", True)))
    around = added((n, "<mask>", True), (n + 1, "<|im_start|>", True), (n + 2, "\n\n", False), (n + 3, "xyz \u4e2d", False))
    around[0]["lstrip"] = True
    yield "added-around", tokenizer(added_tokens=around)
    yield "added-in-vocab", tokenizer(added_tokens=added((256, "th", False), (257, "the", True)))
    yield "added-as-bytes", tokenizer(added_tokens=added((258, SPACE + "the", True)))
    yield "id-far", tokenizer(added_tokens=added((1 << 20, "<s>", True)))
    yield "ids-farther", tokenizer(added_tokens=added(
        (1 << 20, "<1>", True), (1 << 22, "<2>", True), (1 << 24, "<3>", True), (1 << 26, "<4>", True)))
    yield "id-largest", tokenizer(added_tokens=added(((1 << 28) - 1, "<s>", True)))
    yield "merge-twice", tokenizer(merges=MERGES + [("t", "h")])
    yield "merge-unknown", tokenizer(merges=[("t", "h")], vocab=vocab())
    yield "hole", tokenizer(vocab={**vocab(MERGES), "zz": 400})
    yield "not-bytes", tokenizer(vocab={**vocab(MERGES), "\u4e2d": n, "\u4e2d\u4e2d": n + 1}, merges=["\u4e2d \u4e2d"])
    yield "control", tokenizer(added_tokens=added((n, "\u001b[31m\u0007", True)))
    yield "chars", char_tokenizer(["\n", " ", "a", "b", "t", "\u00e9", "\u4e2d", "\U0001f600", "<0x00>", "<0xFF>"])
    yield "chars-twice", char_tokenizer(["a", "<0x80>", "\u0001"])
    yield "words", char_tokenizer(["a", "bc"])
    yield "unigram", dumps({"model": {"type": "Unigram", "vocab": [["a", 0.5]]}})
    yield "normalizer", tokenizer(normalizer={"type": "NFC"})
    yield from wordpiece_seeds()


WORDPIECE = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "un", "##aff", "##able", "a", "##a", "\u00e9",
             "\u4e2d", "\u1100", "##\u1161", ".", "mask", "##" + "y" * 30]


def wordpiece(**changes):
    out = {"version": "1.0", "added_tokens": added(*((i, w, True) for i, w in enumerate(WORDPIECE[:5]))),
           "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                          "strip_accents": None, "lowercase": True},
           "pre_tokenizer": {"type": "BertPreTokenizer"},
           "post_processor": {"type": "TemplateProcessing", "single": [
               {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "[SEP]", "type_id": 0}}], "special_tokens": {}},
           "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
           "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                     "max_input_chars_per_word": 100, "vocab": {w: i for i, w in enumerate(WORDPIECE)}}}
    for key, value in changes.items():
        (out if key in out else out["model"])[key] = value
    return json.dumps(out, separators=(",", ":"), ensure_ascii=False).encode()


def wordpiece_seeds():
    n = len(WORDPIECE)
    yield "wordpiece", wordpiece()
    yield "wordpiece-cased", wordpiece(normalizer={"type": "BertNormalizer", "lowercase": False}, unk_token="[PAD]")
    yield "wordpiece-plain", wordpiece(normalizer=None, post_processor=None, decoder=None, max_input_chars_per_word=3)
    yield "wordpiece-bert", wordpiece(post_processor={"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]})
    yield "wordpiece-added", wordpiece(added_tokens=added((n, "the end", False), (5, "the", False), (1, "[UNK]", True)))
    yield "wordpiece-normal", wordpiece(added_tokens=[{**a, "normalized": True} for a in added((n, "<x>", True))])
    yield "wordpiece-no-unknown", wordpiece(unk_token="[NONE]")
    yield "wordpiece-prefix", wordpiece(continuing_subword_prefix="")
    yield "wordpiece-long", wordpiece(max_input_chars_per_word=1 << 40)


def vocab_txt_seeds():
    def text(words, config=None, end="\n"):
        return parts("".join(w + end for w in words).encode(), b"" if config is None else dumps(config))
    yield "bert", text(WORDPIECE)
    yield "crlf", text(WORDPIECE, end="\r\n")
    yield "cased", text(WORDPIECE, {"do_lower_case": False, "tokenize_chinese_chars": False})
    yield "accents", text(WORDPIECE, {"strip_accents": False})
    yield "bad-config", text(WORDPIECE, [1])
    yield "no-unknown", text(["a", "##a"])
    yield "twice", text(WORDPIECE + ["the"])
    yield "empty-line", text(WORDPIECE + ["", "b"])
    yield "only-unknown", text(["[UNK]"])
    yield "hashes", text(["[UNK]", "##", "#", "###", "# #", "\u3000", "a b"])
    yield "not-utf8", parts(b"[UNK]\n\xff\n", b"")
    yield "nul", parts(b"[UNK]\na\0b\n", b"")


def merges_text(merges, version=True):
    return "".join(["#version: 0.2\n"] * version + [" ".join(m) + "\n" for m in merges]).encode()


def vocab_seeds():
    def text(words):
        return json.dumps(words, separators=(",", ":"), ensure_ascii=False).encode()
    yield "gpt2", parts(text(vocab(MERGES, ["<|endoftext|>"])), merges_text(MERGES))
    yield "no-version", parts(text(vocab(MERGES)), merges_text(MERGES, False))
    yield "crlf", parts(text(vocab(MERGES)), merges_text(MERGES).replace(b"\n", b"\r\n"))
    yield "no-merges", parts(text(vocab()), b"")
    yield "three-words", parts(text(vocab(MERGES)), b"t h e\n")
    yield "nul", parts(text(vocab(MERGES)), b"t\0 h\n")
    yield "unused", parts(text(vocab(MERGES, ["zz", "zzz"])), merges_text(MERGES))
    yield "far", parts(text({**vocab(), "x1": 1 << 20, "x2": 1 << 22, "x3": 1 << 24, "x4": 1 << 26}), b"")
    yield "not-object", parts(b"[]", b"")


def tiktoken_seeds():
    words = [bytes([b]) for b in ORDER] + [b"th", b"the", b" the", b"aa", b"aaaa", b"\xe4\xb8\xad"]

    def ranks(tokens, start=0):
        return b"".join(base64.b64encode(t) + b" %d\n" % i for i, t in enumerate(tokens, start))
    yield "ranks", ranks(words)
    yield "crlf", ranks(words).replace(b"\n", b"\r\n")
    yield "long", ranks(words[:256] + [b"ab" * n for n in range(1, 33)])
    yield "twice", ranks(words + [b"the"])
    yield "far", ranks(words) + b"".join(base64.b64encode(b"xy%d" % i) + b" %d\n" % (1 << (20 + 2 * i)) for i in range(4))
    yield "bad-base64", ranks(words) + b"a=== 300\n"
    yield "no-rank", ranks(words) + b"YWI=\n"
    yield "hole", ranks(words, 1)


# Data.

def shard(ids, wide=False, **header):
    words = [0] * 256
    words[:3] = [20240801, 7, len(ids)] if wide else [20240520, 1, len(ids)]
    for key, value in header.items():
        words[("magic", "version", "tokens").index(key)] = value
    return struct.pack("<256i", *words) + struct.pack(f"<{len(ids)}{'I' if wide else 'H'}", *ids)


def shard_seeds():
    yield "narrow", shard(list(range(40)))
    yield "wide", shard([0, 70000, 5, (1 << 31) - 2], wide=True)
    yield "wide-negative", shard([0, 1 << 31], wide=True)
    yield "none", shard([])
    yield "more", shard([1, 2], tokens=1 << 30)
    yield "negative", shard([1, 2], tokens=-1)
    yield "version", shard([1, 2], version=2)
    yield "short", shard([1, 2])[:600]
    yield "headerless", struct.pack("<20H", *range(20))
    yield "odd", b"\1\2\3"


def mmididx(lengths, documents, code=4, size=4, pointers=None, sequences=None, count=None):
    if pointers is None:
        pointers = [size * sum(lengths[:i]) for i in range(len(lengths))]
    return (b"MMIDIDX\0\0" + struct.pack("<QB", 1, code) + struct.pack(
        "<QQ", len(lengths) if sequences is None else sequences, len(documents) if count is None else count) +
        struct.pack(f"<{len(lengths)}i", *lengths) + struct.pack(f"<{len(pointers)}q", *pointers) +
        struct.pack(f"<{len(documents)}q", *documents))


def mmididx_seeds():
    yield "golden", mmididx([4, 1, 6, 2, 7], [0, 2, 3, 5])
    for code, size in ((1, 1), (2, 1), (3, 2), (5, 8), (8, 2)):
        yield f"type-{code}", mmididx([3, 2], [0, 1, 2], code, size)
    yield "type-float", mmididx([3, 2], [0, 1, 2], 6, 8)
    yield "empty-documents", mmididx([0, 3, 0, 2, 0], [0, 0, 1, 2, 3, 4, 5, 5])
    yield "nothing", mmididx([], [])
    yield "many", mmididx([1], [0, 1], sequences=(1 << 64) - 1)
    yield "documents", mmididx([1], [0, 1], count=1 << 62)
    yield "negative", mmididx([-1, 2], [0, 2])
    yield "pointer", mmididx([2, 2], [0, 2], pointers=[0, 4])
    yield "disorder", mmididx([2, 2], [0, 2, 1])
    yield "large", mmididx([(1 << 31) - 1] * 4, [0, 4], 5, 8)


def data_folder(tokens=40, begins=(0, 9, 10, 25), mask=True, meta=None, **split):
    index = b"LTHDOCS1" + struct.pack(f"<{len(begins)}Q", *begins)
    bits = b"LTHMASK1" + bytes([0x5A] * ((tokens + 7) // 8))
    train = {"tokens": tokens, "documents": len(begins), "text_bytes": 3 * tokens, "counted_tokens": tokens // 2,
             "shards": [{"file": "train-00000.bin", "tokens": tokens, "bytes": 1024 + 2 * tokens, "crc32": "00000000"}],
             "index": {"file": "train.documents", "tokens": 0, "bytes": len(index), "crc32": "00000000"}}
    if mask:
        train["mask"] = {"file": "train.mask", "tokens": 0, "bytes": len(bits), "crc32": "00000000"}
    empty = {"tokens": 0, "documents": 0, "text_bytes": 0, "counted_tokens": 0, "shards": []}
    whole = {"format": "lathe-data", "version": 1, "tokenizer": {"fingerprint": "0123456789abcdef", "kind": "bpe",
             "vocab_size": 300, "end_token": 256}, "token_bytes": 2, "empty_documents": 0,
             "train": {**train, **split}, "val": empty, **(meta or {})}
    return parts(dumps(whole), index, bits if mask else b"", shard([7 * i % 300 for i in range(tokens)]))


def data_folder_seeds():
    yield "whole", data_folder()
    yield "no-mask", data_folder(mask=False)
    yield "no-index", data_folder(index=None)
    yield "wrong-sum", data_folder(begins=(0,), shards=[])
    yield "documents-wrap", data_folder_wrap()
    yield "disorder", data_folder(begins=(0, 10, 9))
    yield "beyond", data_folder(begins=(0, 40))
    yield "above", data_folder(index={"file": "../x", "tokens": 0, "bytes": 8, "crc32": "00000000"})
    yield "numbers", data_folder(meta={"token_bytes": (1 << 32) + 2, "empty_documents": 1 << 62})
    yield "end-token", data_folder(meta={"tokenizer": {"fingerprint": "1", "kind": "bpe", "vocab_size": 300,
                                                       "end_token": 1 << 40}})


def data_folder_wrap():
    """8 times the number of documents is 2^64 and a little; the index ends where its page ends."""
    n = 511
    meta, index, mask, tokens = data_folder(n + 1, range(n), mask=False).split(SEPARATOR)
    return parts(meta.replace(b'"documents":%d' % n, b'"documents":%d' % ((1 << 61) + n)), index, mask, tokens)


def text_seeds():
    lines = (b'{"text":"one"}\n\n  \n{"text":"two\\u0000\\n","n":1}\r\n'
             b'{"prompt":"p","completion":"c"}\n{"text":""}\n{"text":"last"}')
    plain = "One text.\n\nAnother \u00e9\u4e2d\n\n\n\n\nlast\n".encode() + b"\xff\0"
    for kind in (b"j", b"J"):
        yield "jsonl-" + kind.decode().replace("J", "packed").replace("j", "plain"), kind + lines
    for kind in (b"t", b"T"):
        yield "text-" + kind.decode().replace("T", "packed").replace("t", "plain"), kind + plain
    whole = gzip.compress(lines, mtime=0)
    yield "gz", b"z" + whole
    yield "gz-members", b"z" + gzip.compress(lines + b"\n", mtime=0) + gzip.compress(lines, mtime=0)
    yield "gz-cut", b"z" + whole[:-5]
    yield "gz-tail", b"z" + whole + b"tail"
    yield "gz-zeros", b"z" + gzip.compress(b'{"text":"' + b"0" * 200000 + b'"}', mtime=0)
    yield "mark", b"J\xef\xbb\xbf" + lines
    yield "mark-text", b"T\xef\xbb\xbf" + plain
    yield "utf16", b"t\xff\xfea\0"
    yield "not-json", b"j{\"text\":\x1b[31m}\n"
    yield "no-text", b'j{"prompt":"p"}\n'
    yield "invalid-utf8", b'j{"text":"\xff"}\n'
    yield "empty", b"t"


def example_seeds():
    yield "pairs", b"ctext\tlabel\ttext_pair\na cat\tyes\tcats\n\n\tno\t\xc3\xa9\n"
    yield "bare", b"ca cat\tx\r\ncats\ty\n"
    yield "columns", b"ca\tb\tc\td\n"
    yield "one-label", b"ca\tx\nb\tx\n"
    yield "classify", b'c{"text":"a","label":1}\n{"text":"b\\u0000","text_pair":"a","label":true}\n'
    yield "long", b"c" + b"cats " * 40 + b"\tx\n" + b"a " * 30 + b"\ty\n"
    yield "texts", b"Ca cat\n\na\tb\n" + b"a " * 40 + b"\n"
    yield "conll", b"t-DOCSTART- O\n\na x B-X\ncats I-X\n\xff O\n\n\nb O"
    yield "tags", b't{"tokens":["a","","cats"],"tags":["O",3,false]}\n'
    yield "many-words", b"t" + b"cats O\n" * 30 + b"a B-X\n"
    yield "sentences", b"Ta cat .\n\n \t b\n"
    yield "tokens", b'T{"tokens":["a"]}\n{"text":"a  b"}\n'
    yield "squad", (b'q{"question":"a?","context":"\xc3\xa9 cats, 19 b","answers":{"text":["cats"],"answer_start":[2]}}\n'
                    b'{"question":"a","context":"","answers":[]}\n')
    yield "windows", (b'q{"question":"' + b"a " * 30 + b'","context":"' + b"b cat " * 30 +
                      b'","answers":[{"text":"cat","answer_start":62},{"text":"b","answer_start":0}]}\n')
    for n, start in enumerate((b"-1", b"9", b"9223372036854775807", b"1.5", b'"0"')):
        yield f"start-{n}", b'q{"question":"a","context":"a b","answers":{"text":"b","answer_start":' + start + b"}}\n"
    yield "questions", b'Q{"question":"a","context":"' + b"cat, " * 20 + b'"}\n'
    yield "gzip", b"c" + gzip.compress(b"a\tx\nb\ty\n", mtime=0)
    yield "wide", b"c\xff\xfea\0"


# Runs.

def options_seeds():
    names = [line.split(",")[1].strip() for line in open(os.path.join(HERE, "../../engine/config/options.def"))
             if line.startswith("OPTION(")]
    kinds = {line.split(",")[1].strip(): (line.split("(")[1].split(",")[0], line.split(",")[3].strip())
             for line in open(os.path.join(HERE, "../../engine/config/options.def")) if line.startswith("OPTION(")}

    def value(name):
        kind, default = kinds[name]
        if kind == "BOOL":
            return "true" if default == "1" else "false"
        return default
    taken = [n for n in names if not n.startswith(("preset", "run", "resume"))]
    yield "all", "".join(f"{n} = {value(n)}\n" for n in taken).encode()
    yield "preset", b"preset = gpt2\nbatch_size = 2\n"
    yield "flags", parts(b"# a comment\nn_layer = 2 # so is this\r\n", b"--n_head=2\n--n_embd=8\n--no-bias\n--ops.matmul=ref\n")
    yield "quotes", b'data = "a folder # \\"with\\" a\\\\hash\\n"\ninit_from= x y \n'
    yield "mark", b"\xef\xbb\xbfn_layer=3\n"
    yield "mixture", parts(b"data = A:0.7,B:0.3\n", b"--block_size=16\n--batch_tokens=192\n")
    yield "numbers", b"learning_rate = 6e-4\nmin_lr=1e-400\nmax_steps = 99999999999999999999\nseed=-1\ndropout=nan\n"
    yield "wrong", b"n_laver = 3\n[section]\nno equals\ndata = \"open\n= x\n"
    yield "control", b"n_layer = \x1b[31m\n\x07 = 1\n"
    yield "nul", b"n_layer = 1\0\n"
    yield "rules", b"n_embd = 10\nn_head = 3\nmin_lr = 1\nwarmup_steps = 1000000\n"
    yield "words", b"precision = bf16\ndevice = cuda:1\nschedule = linear\nactivation = relu\ncpu.isa = avx2\n"


def manifest_seeds():
    yield "right", b"lathe-manifest 1\n8f3a0b77 9 a\n00000000 12 model.safetensors\nend\n"
    yield "itself", b"lathe-manifest 1\n00000000 44 MANIFEST\nend\n"
    yield "empty", b"lathe-manifest 1\nend\n"
    yield "cut", b"lathe-manifest 1\n8f3a0b77 9 a\n"
    yield "behind", b"lathe-manifest 1\nend\nx"
    yield "nul", b"lathe-manifest 1\nend\n\0\n8f3a0b77 9 a\n"
    yield "above", b"lathe-manifest 1\n00000000 1 ../a\nend\n"
    yield "large", b"lathe-manifest 1\n00000000 9999999999999999999 a\nend\n"
    yield "many", b"lathe-manifest 1\n" + b"".join(b"00000000 1 f%d\n" % i for i in range(70)) + b"end\n"
    yield "step", b"step-00001000\n"
    yield "step-large", b"step-99999999999999999999\n"


def trainer_seeds():
    right = {"lathe_trainer": 1, "step": 100, "samples": 3200, "skipped": 1, "tokens": 51200, "last_eval": 100,
             "best_step": 50, "data_tokens": 100000, "best_loss": 1.5, "seconds": 12.25, "seed": 1337, "precision": "fp32"}
    yield "right", dumps(right)
    yield "start", dumps({**right, "step": 0, "samples": 0, "last_eval": -1, "best_step": -1, "best_loss": None})
    for key, value in (("step", (1 << 63) - 1), ("step", -1), ("samples", 1 << 62), ("tokens", -5), ("skipped", 1.5),
                       ("lathe_trainer", 2), ("precision", "bf16"), ("precision", "\u001b[31m"), ("best_loss", "x"),
                       ("best_loss", 1e308), ("seconds", -1e308)):
        yield f"{key}-{str(value)[:6]}".replace("\u001b", "esc"), dumps({**right, key: value})
    half = {**right, "precision": "fp16", "loss_scale": 65536, "loss_scale_good_steps": 17,
            "loss_scale_overflows_left": 1}
    yield "fp16", dumps(half)
    for key, value in (("loss_scale", 0), ("loss_scale", 1e39), ("loss_scale_good_steps", 1 << 40)):
        yield f"fp16-{key}-{str(value)[:6]}", dumps({**half, key: value})
    yield "twice", b'{"lathe_trainer":1,"lathe_trainer":1}'
    yield "array", b"[]"


TARGETS = {
    "safetensors": safetensors_seeds, "index_json": index_seeds, "config_json": config_seeds,
    "model_folder": model_folder_seeds,
    "tokenizer_json": tokenizer_seeds, "vocab_merges": vocab_seeds, "tiktoken": tiktoken_seeds, "vocab_txt": vocab_txt_seeds,
    "shard": shard_seeds, "mmididx": mmididx_seeds, "data_folder": data_folder_seeds, "text": text_seeds,
    "examples": example_seeds,
    "options": options_seeds, "manifest": manifest_seeds, "trainer_json": trainer_seeds}


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "corpus")
    for target, seeds in TARGETS.items():
        folder = os.path.join(root, target)
        os.makedirs(folder, exist_ok=True)
        for name in os.listdir(folder):
            if name.startswith("seed-"):
                os.remove(os.path.join(folder, name))
        for name, content in seeds():
            with open(os.path.join(folder, "seed-" + name), "wb") as f:
                f.write(content)


if __name__ == "__main__":
    main()
