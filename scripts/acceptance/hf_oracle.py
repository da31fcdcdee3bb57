#!/usr/bin/env python3
"""hf_oracle.py -- checkpoints both ways between lathe and transformers, at the shape of GPT-2 124M.

    python scripts/acceptance/hf_oracle.py WORKDIR [--lathe=build/lathe] [--gpt2=FOLDER] [--text=FILE]

WORKDIR gets (or has) what `golden_gpt2.py --shape=124m --out=WORKDIR` makes. FOLDER has GPT-2's
encoder.json and vocab.bpe. Checks
  1  theirs in ours: `lathe eval --text` of the random model gives the loss that transformers gives,
     and greedy `lathe generate` (with its key-value cache) the tokens that model.generate gives;
  2  ours in theirs: `lathe train --init_from=MODEL` with learning rate 0 saves the very same tensors,
     and with a real one a step folder that from_pretrained loads, whose loss both sides agree on;
  3  the same step folder in bf16.
Needs torch, transformers; about 4 GB of disk and 5 minutes on two cores.

SPDX-License-Identifier: MIT
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from transformers import GPT2LMHeadModel

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
BLOCK, WINDOWS = 64, 4
problems = []


def expect(good, text):
    print(("PASS " if good else "FAIL ") + text, flush=True)
    if not good:
        problems.append(text)


def lathe(*args):
    p = subprocess.run([OPTIONS.lathe, *args], capture_output=True)
    if p.returncode != 0:
        print(p.stdout.decode(), p.stderr.decode())
        raise SystemExit(f"lathe {args[0]} failed with {p.returncode}")
    return p.stdout.decode()


def their_loss(folder, ids, dtype=torch.float32):
    model = GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager").eval().to(dtype)
    windows = [ids[i * BLOCK:(i + 1) * BLOCK + 1] for i in range(WINDOWS)]
    with torch.no_grad():
        t = torch.tensor(windows)
        logits = model(input_ids=t[:, :-1]).logits.float()
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), t[:, 1:].reshape(-1)).item()
    return model, loss


def our_loss(folder, text, precision="fp32"):
    out = lathe("eval", f"--model={folder}", f"--text={text}", f"--block_size={BLOCK}", "--device=cpu",
                f"--tokenizer={OPTIONS.gpt2}", f"--precision={precision}")
    return float(re.search(r"^loss (\S+)", out, re.M).group(1))


def main():
    work = OPTIONS.work
    model_dir = os.path.join(work, "model")
    if not os.path.exists(os.path.join(work, "golden.safetensors")):
        subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "golden_gpt2.py"), "--shape=124m",
                        f"--out={work}", "--no_yardstick"], check=True)

    # A text of exactly WINDOWS x BLOCK + 1 tokens.
    ids = [int(i) for i in lathe("tokenizer", "encode", f"--tokenizer={OPTIONS.gpt2}", OPTIONS.text).split()]
    ids = ids[1000:1000 + WINDOWS * BLOCK + 1]
    idfile, text = os.path.join(work, "text.ids"), os.path.join(work, "text.txt")
    with open(idfile, "w") as f:
        f.write(" ".join(map(str, ids)) + "\n")
    decoded = subprocess.run([OPTIONS.lathe, "tokenizer", "decode", f"--tokenizer={OPTIONS.gpt2}", idfile],
                             capture_output=True, check=True).stdout
    with open(text, "wb") as f:
        f.write(decoded)
    again = [int(i) for i in lathe("tokenizer", "encode", f"--tokenizer={OPTIONS.gpt2}", text).split()]
    expect(again == ids, f"{len(ids)} ids of the text survive decode and encode")

    model, theirs = their_loss(model_dir, ids)
    ours = our_loss(model_dir, text)
    expect(abs(ours - theirs) < 1e-4, f"their model in lathe: loss {ours:.6f}, transformers {theirs:.6f}")

    prompt = ids[:20]
    with torch.no_grad():
        out = model.generate(torch.tensor([prompt]), max_new_tokens=40, do_sample=False, pad_token_id=50256)
    want = out[0].tolist()
    with open(idfile, "w") as f:
        f.write(" ".join(map(str, prompt)) + "\n")
    with open(text + ".prompt", "wb") as f:
        f.write(subprocess.run([OPTIONS.lathe, "tokenizer", "decode", f"--tokenizer={OPTIONS.gpt2}", idfile],
                               capture_output=True, check=True).stdout)
    with open(idfile, "w") as f:
        f.write(" ".join(map(str, want)) + "\n")
    want_text = subprocess.run([OPTIONS.lathe, "tokenizer", "decode", f"--tokenizer={OPTIONS.gpt2}", idfile],
                               capture_output=True, check=True).stdout.decode("utf-8", "replace")
    got = lathe("generate", f"--model={model_dir}", f"--prompt_file={text}.prompt", "--max_new_tokens=40",
                "--temperature=0", "--precision=fp32", "--device=cpu", f"--tokenizer={OPTIONS.gpt2}")
    expect(want_text.strip() in got.strip() or got.strip() in want_text.strip(),
           f"40 greedy tokens are those of transformers: {got.strip()[-60:]!r}")

    data = os.path.join(work, "data")
    if not os.path.isdir(data):
        lathe("data", f"--input={OPTIONS.text}", f"--tokenizer={OPTIONS.gpt2}", f"--out={data}")
    for name, options in (("same", ["--learning_rate=0", "--min_lr=0"]), ("moved", ["--learning_rate=1e-4"]),
                          ("moved-bf16", ["--learning_rate=1e-4", "--precision=bf16"])):
        run = os.path.join(work, "run-" + name)
        shutil.rmtree(run, ignore_errors=True)
        lathe("train", f"--data={data}", f"--run={run}", f"--init_from={model_dir}", "--max_steps=2", "--save_interval=2",
              f"--block_size={BLOCK}", "--batch_size=2", "--eval_interval=0", "--device=cpu", *options)
        step = os.path.join(run, "checkpoints", "step-00000002")
        a = load_file(os.path.join(model_dir, "model.safetensors"))
        b = load_file(os.path.join(step, "model.safetensors"))
        expect(set(a) == set(b), f"{name}: the same tensor names")
        if name == "same":
            expect(all(torch.equal(a[k], b[k]) for k in a), "learning rate 0: every tensor is the same, bit for bit")
        _, theirs = their_loss(step, ids, torch.bfloat16 if "bf16" in name else torch.float32)
        ours = our_loss(step, text, "bf16" if "bf16" in name else "fp32")
        limit = 2e-2 if "bf16" in name else 1e-4
        expect(abs(ours - theirs) < limit, f"{name}: step folder in transformers {theirs:.6f}, in lathe {ours:.6f}")
        shutil.rmtree(run, ignore_errors=True)
    return 1 if problems else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    shared = os.environ.get("LATHE_SHARED", os.path.join(ROOT, "..", "shared"))
    parser.add_argument("work")
    parser.add_argument("--lathe", default=os.path.join(ROOT, "build", "lathe"))
    parser.add_argument("--gpt2", default=os.path.join(shared, "data", "gpt2"))
    parser.add_argument("--text", default=os.path.join(shared, "data", "text", "moby-dick.txt"))
    OPTIONS = parser.parse_args()
    os.makedirs(OPTIONS.work, exist_ok=True)
    sys.exit(main())
