#!/usr/bin/env python3
"""names.py -- names of input files and folders: spaces, quotes, line ends, UTF-8, bytes that are no
UTF-8, long ones, links. What lies under such a name is the same text, tokenizer or model.

Run folders are the matter of other scripts; here: inputs of `tokenizer`, `data`, `generate`, `eval`,
`inspect`, `convert`.

SPDX-License-Identifier: MIT
"""
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from lathe_run import (check, main, ok, read, run, sha, step_dirs, tiny, words_text, write)

NAMES = {
    "space": "a b", "edges": " a ", "quotes": "it's \"so\"", "newline": "two\nlines", "tab": "a\tb",
    "utf8": "\u00e9\u4e2d\U0001f600", "not utf8": b"\xff\xc3(".decode("utf-8", "surrogateescape"),
    "hash": "a #b", "equals": "n_layer=3", "format": "%s%n%d", "backslash": "a\\nb", "dash": "-x",
    "colon": "a:0.5", "comma": "a,b", "glob": "[*]?", "long": "n" * 240, "gz inside": "a.gz.b",
}


class Base:
    """One text, its tokenizer and data, and a model of one step."""

    def __init__(self, folder):
        self.text = write(os.path.join(folder, "base", "text.txt"), words_text(6600))
        self.tok = os.path.join(folder, "base", "tok")
        self.data = os.path.join(folder, "base", "data")
        ok("tokenizer", "train", input=self.text, type="char", out=self.tok)
        ok("data", input=self.text, tokenizer=self.tok, out=self.data)
        run_dir = os.path.join(folder, "base", "run")
        ok("train", data=self.data, run=run_dir, **tiny(max_steps=1, save_interval=1))
        self.model = os.path.join(folder, "base", "model")
        shutil.copytree(step_dirs(run_dir)[1], self.model)
        for name in ("MANIFEST", "trainer.json", "trainer.safetensors"):
            os.remove(os.path.join(self.model, name))
        self.sample = ok("generate", model=self.model, prompt="the", max_new_tokens=4, seed=1).out
        self.loss = ok("eval", model=self.model, text=self.text).out


def quiet(r, what):
    """No byte of a name may steer the terminal, whatever is said about it."""
    for stream in (r.raw, r.err_raw):
        check(not any((c < 32 and c not in (9, 10)) or c == 127 for c in stream), f"{what}: control characters", r)
    return r


def each_name(check_one):
    problems = []
    for what, name in NAMES.items():
        try:
            check_one(what, name)
        except Exception as e:  # every name is tried, and all are told
            problems.append(f"{what}: {e}")
    check(not problems, "\n\n".join(problems))


def test_text_and_tokenizer(folder):
    b = Base(folder)

    def one(what, name):
        home = os.path.join(folder, "t", name)
        text = write(os.path.join(home, name + ".txt"), read(b.text))
        tok, data = os.path.join(home, "tok" + name[:200]), os.path.join(home, "data" + name[:200])
        quiet(ok("tokenizer", "train", input=text, type="char", out=tok), what)
        check(sha(os.path.join(tok, "tokenizer.json")) == sha(os.path.join(b.tok, "tokenizer.json")), "tokenizer differs")
        for source in (text, home):
            shutil.rmtree(data, ignore_errors=True)
            quiet(ok("data", input=source, tokenizer=os.path.join(tok, "tokenizer.json"), out=data), what)
            check(sha(os.path.join(data, "train-00000.bin")) == sha(os.path.join(b.data, "train-00000.bin")), "data differs")
        ids = quiet(ok("tokenizer", "encode", text, tokenizer=tok), what).out
        back = quiet(ok("tokenizer", "decode", write(os.path.join(home, "ids"), ids), tokenizer=tok), what)
        check(back.raw == read(b.text), "decoded text differs")
        quiet(ok("inspect", data), what)

    each_name(one)


def test_models(folder):
    b = Base(folder)

    def one(what, name):
        home = os.path.join(folder, "m", name)
        shutil.copytree(b.model, home)
        check(quiet(ok("generate", model=home, prompt="the", max_new_tokens=4, seed=1), what).out == b.sample, "sample differs")
        text = write(os.path.join(folder, "m", "t" + name[:200]), read(b.text))
        check(quiet(ok("eval", model=home, text=text), what).out == b.loss, "loss differs")
        quiet(ok("inspect", home), what)
        quiet(ok("inspect", os.path.join(home, "model.safetensors")), what)
        to = os.path.join(folder, "m", "to" + name[:200])
        quiet(ok("convert", **{"from": home, "to": to}), what)
        check(sha(os.path.join(to, "model.safetensors")) == sha(os.path.join(b.model, "model.safetensors")), "weights differ")

    each_name(one)


def test_what_is_not_there_is_named(folder):
    b = Base(folder)

    def one(what, name):
        path = os.path.join(folder, "absent", name)
        for args, options in ((("data",), dict(input=path, tokenizer=b.tok, out=os.path.join(folder, "x"))),
                              (("data",), dict(input=b.text, tokenizer=path, out=os.path.join(folder, "x"))),
                              (("tokenizer", "encode", b.text), dict(tokenizer=path)),
                              (("tokenizer", "encode", path), dict(tokenizer=b.tok)),
                              (("generate",), dict(model=path, prompt="a")),
                              (("eval",), dict(model=b.model, text=path)), (("inspect", path), {}),
                              (("convert",), {"from": path, "to": os.path.join(folder, "x")})):
            r = quiet(run(*args, **options), what)
            check(r.code in (1, 2) and "absent" in r.err, "must be refused by its name", r)
        check(not os.path.exists(os.path.join(folder, "x")), "something was made")

    each_name(one)


def test_hostile_names_inside_files(folder):
    """A tensor, a token, a file of a folder with a name that would steer a terminal."""
    b = Base(folder)
    bad = "\x1b[31m\x07x"
    home = os.path.join(folder, "m")
    shutil.copytree(b.model, home)
    path = os.path.join(home, "model.safetensors")
    whole = read(path)
    write(path, whole.replace(b"ln_f.bias", b"\\u001b[1m", 1))
    for args, options in ((("inspect", home), {}), (("inspect", path), {}), (("generate",), dict(model=home, prompt="a"))):
        quiet(run(*args, **options), "tensor")
    source = os.path.join(folder, "s")
    write(os.path.join(source, bad + ".txt"), read(b.text))
    write(os.path.join(source, bad + ".dat"), b"x")
    quiet(ok("data", input=source, tokenizer=b.tok, out=os.path.join(folder, "d")), "skipped file")


def test_links(folder):
    b = Base(folder)
    links = os.path.join(folder, "links")
    os.makedirs(links)

    def link(to, name):
        path = os.path.join(links, name)
        os.symlink(to, path)
        return path

    text, tok = link(b.text, "text.txt"), link(b.tok, "tok")
    chain = link(link(link(b.model, "m1"), "m2"), "m3")
    relative = link(os.path.relpath(b.model, links), "relative")
    data = os.path.join(folder, "data")
    ok("data", input=text, tokenizer=tok, out=data)
    check(sha(os.path.join(data, "train-00000.bin")) == sha(os.path.join(b.data, "train-00000.bin")), "data differs")
    for model in (chain, relative):
        check(ok("generate", model=model, prompt="the", max_new_tokens=4, seed=1).out == b.sample, "sample differs")
        ok("inspect", model)
    # Files that are links: what they point to is copied, not the link.
    parts = os.path.join(folder, "parts")
    os.makedirs(parts)
    for name in os.listdir(b.model):
        os.symlink(os.path.join(b.model, name), os.path.join(parts, name))
    to = os.path.join(folder, "to")
    ok("convert", **{"from": parts, "to": to})
    check(not any(os.path.islink(os.path.join(to, n)) for n in os.listdir(to)), "a link was copied")
    for bad in (link("nowhere", "dangling"), link("loop", "loop")):
        for args, options in ((("data",), dict(input=bad, tokenizer=b.tok, out=os.path.join(folder, "x"))),
                              (("generate",), dict(model=bad, prompt="a")), (("inspect", bad), {}),
                              (("tokenizer", "encode", b.text), dict(tokenizer=bad)),
                              (("convert",), {"from": bad, "to": os.path.join(folder, "x")})):
            r = run(*args, **options)
            check(r.code in (1, 2) and os.path.basename(bad) in r.err, "must be refused by its name", r)
    circle = os.path.join(folder, "circle")
    os.makedirs(circle)
    os.symlink(circle, os.path.join(circle, "again"))
    r = run("data", input=circle, tokenizer=b.tok, out=os.path.join(folder, "x"))
    check(r.code == 2 and "link" in r.err, "a folder inside itself", r)


def test_paths_without_end(folder):
    b = Base(folder)
    for path in ("n" * 300, "/".join(["n" * 250] * 17), "n/" * 3000, "n" * 100000):
        for args, options in ((("data",), dict(input=path, tokenizer=b.tok, out=os.path.join(folder, "x"))),
                              (("data",), dict(input=b.text, tokenizer=path, out=os.path.join(folder, "x"))),
                              (("data",), dict(input=b.text, tokenizer=b.tok, out=path)),
                              (("tokenizer", "train"), dict(input=b.text, type="char", out=path)),
                              (("generate",), dict(model=path, prompt="a")), (("inspect", path), {}),
                              (("eval",), dict(model=b.model, text=path)),
                              (("convert",), {"from": path, "to": os.path.join(folder, "x")}),
                              (("convert",), {"from": b.model, "to": path})):
            r = run(*args, cwd=folder, **options)
            check(r.code in (1, 2), f"a path of {len(path)} bytes", r)
            check(len(r.err) < 6000, f"{len(r.err)} characters are not one clear message")


if __name__ == "__main__":
    sys.exit(main([v for k, v in list(globals().items()) if k.startswith("test_")]))
