"""scenarios.py -- the commands that walk.py disturbs, and what must be true after a fault in each.

A scenario prepares a template once and keeps what the undisturbed command makes of it. For each fault
`fresh` copies the template into the folder `w`, the command works there, and `after` looks at what is
left and lets the command run once more, undisturbed.

SPDX-License-Identifier: MIT
"""
import gzip
import json
import os
import shutil

import lathe_run as lathe
from lathe_run import ok, read, run, write


class Finding(Exception):
    def __init__(self, kind, text):
        super().__init__(text)
        self.kind, self.text = kind, text


def say(kind, text, r):
    raise Finding(kind, text + (f"\n{r}" if r is not None else ""))


def crash(text, r=None):
    say("crash", text, r)


def loss(text, r=None):
    say("loss", text, r)


def word(text, r=None):
    say("word", text, r)


def entries(folder):
    """Every file below `folder` by its content, every folder by its name."""
    names = (os.path.relpath(os.path.join(base, d), folder) for base, dirs, _ in os.walk(folder) for d in dirs)
    return {**dict.fromkeys(names), **lathe.snapshot(folder)}


TEXT = lathe.words_text(1500)
MODEL = dict(n_layer=1, n_head=1, n_embd=8, block_size=8, batch_size=2, learning_rate=1e-2, warmup_steps=0,
             device="cpu", threads=1)
SAVING = dict(max_steps=6, decay_steps=8, eval_interval=3, eval_batches=1, save_interval=2, keep=0,
              log_interval=2)


class Scenario:
    """`lathe WORDS --OPTIONS`; in both, W/ stands for the folder the command works in and G/ for what
    all scenarios share (see `give`), which no command changes."""

    def __init__(self, name, words, stdin=b"", **options):
        self.name, self.words, self.stdin, self.options = name, words, stdin, options

    def open(self, root, given):
        self.w, self.template, self.given = os.path.join(root, "w"), os.path.join(root, "template"), given
        os.makedirs(self.template)
        self.prepare()
        self.args = [a.replace("W/", self.w + "/").replace("G/", given + "/")
                     for a in lathe.command(self.words, self.options)[1:]]
        self.fresh()
        self.whole = self.again()
        self.files = lathe.snapshot(self.w)
        self.learn()

    def prepare(self):
        """Fill self.template, which is copied for each run."""

    def learn(self):
        """Keep what else there is to know of the undisturbed command."""

    def fresh(self):
        if not self.untouched():
            shutil.rmtree(self.w, ignore_errors=True)
            shutil.copytree(self.template, self.w)

    def untouched(self):
        """The folder is as before the command: what it would do now is known."""
        return os.path.isdir(self.w) and entries(self.w) == entries(self.template)

    def again(self):
        """The same command, undisturbed."""
        r = run(*self.args, stdin=self.stdin)
        if r.code != 0:
            loss("the command does not succeed afterwards", r)
        return r

    def same_files(self, r, may_miss=(), may_have=()):
        """Everything the undisturbed command leaves, and nothing else."""
        now = lathe.snapshot(self.w)
        for name in sorted(self.files.keys() | now.keys()):
            if name not in now and not name.startswith(may_miss):
                loss(f"{name} is missing", r)
            if name not in self.files and not name.startswith(may_have):
                loss(f"{name} is left", r)
            if name in now and name in self.files and not self.same_file(name, now[name]):
                loss(f"{name} has another content", r)

    def same_file(self, name, sha):
        return sha == self.files[name]


class Says(Scenario):
    """Its result is what it writes on standard output."""

    def after(self, r):
        fell_back = "is skipped" in r.err  # to an older checkpoint, with a warning
        if r.code == 0 and r.raw != self.whole.raw and not fell_back:
            loss("exit code 0 with another output", r)
        self.same_files(r)


class Makes(Scenario):
    """Its result is the folder W/out, which it makes."""

    def after(self, r):
        fell_back = "is skipped" in r.err  # to an older checkpoint, with a warning
        if r.code == 0 and fell_back and lathe.snapshot(self.w).keys() == self.files.keys():
            return
        out = os.path.join(self.w, "out")
        if r.code != 0 and os.path.exists(out):
            whole = self.files.items() <= lathe.snapshot(self.w).items()
            if not whole and run("inspect", out).code == 0:
                loss("half a folder is taken as a whole one", r)
            if not whole and "are left" not in r.err and "could not be removed" not in r.err:
                word("leaves a folder behind and does not say so", r)
            shutil.rmtree(out)
        if r.code != 0:
            self.again()
        self.same_files(r)


class Train(Scenario):
    """A run with checkpoints. The same command once more goes on with it."""

    first = None  # options of the run in the template

    def prepare(self):
        self.run_dir = os.path.join(self.template, "run")
        if self.first:
            ok("train", data=os.path.join(self.given, "data"), run=self.run_dir, **self.first)
        self.change()
        self.before = {n: lathe.snapshot(lathe.step_dirs(self.run_dir)[n])
                       for n in lathe.complete_steps(self.run_dir)}
        self.damaged = set(lathe.step_dirs(self.run_dir)) - set(self.before)
        self.run_dir = os.path.join(self.w, "run")

    def change(self):
        """What else is done to the run in the template."""

    def learn(self):
        self.last = max(lathe.step_dirs(self.run_dir))
        self.losses = lathe.losses(self.run_dir)
        self.state = self.trainer_state()

    def trainer_state(self, r=None):
        state = json.loads(read(os.path.join(lathe.step_dirs(self.run_dir)[self.last], "trainer.json")))
        # The best step is one that is saved: it may be another one after a save was lost.
        for key in ("seconds", "best_step", "best_loss") if r and self.told(r) else ("seconds",):
            state.pop(key, None)
        return state

    def same_file(self, name, sha):
        # These hold seconds, a process id, or (config.ini) where an option came from.
        other = ("trainer.json", "MANIFEST", "metrics.jsonl", "lock", "config.ini")
        return os.path.basename(name) in other or sha == self.files[name]

    def after(self, r):
        for step, path in lathe.step_dirs(self.run_dir).items():
            problem = lathe.manifest_problem(path)
            if problem and step not in self.damaged:
                loss(f"step {step} is visible but not whole: {problem}", r)
        self.nothing_lost(r)
        newest = max(lathe.complete_steps(self.run_dir), default=None)
        again = self.again()
        if newest is not None and f"from step-{newest:08d}," not in again.out:
            loss(f"the run does not go on from step {newest}", again)
        self.ended_well(r, again)

    def nothing_lost(self, r):
        """Steps that were complete before are there, where they were or set aside."""
        steps = os.path.join(self.run_dir, "checkpoints")
        for step, files in self.before.items():
            newer = [n for n in lathe.complete_steps(self.run_dir) if n > step]
            if self.options["keep"] and len(newer) >= self.options["keep"]:
                continue
            places = [os.path.join(steps, f"{p}step-{step:08d}") for p in ("", "aside-")]
            if not any(lathe.snapshot(p) == files for p in places):
                loss(f"step {step} was complete before and is gone", r)

    def ended_well(self, r, again):
        if lathe.losses(self.run_dir) != self.losses:
            loss("other losses in metrics.jsonl", again)
        if self.trainer_state(r).items() - self.state.items():
            loss("another trainer.json", again)
        self.same_files(again, self.may_miss(r), self.may_have(r))

    def may_have(self, r):
        """Steps that a warning said are skipped are set aside; one that should have gone may still be
        there after a save that was not done to its end."""
        steps = os.path.join("run", "checkpoints", "")
        aside = (steps + "aside-",) if "is skipped" in r.err else ()
        old = range(self.last) if self.options["keep"] else self.before if self.told(r) else ()
        return aside + tuple(f"{steps}step-{n:08d}" for n in old)

    @staticmethod
    def told(r):
        return r.code != 0 or "could not be saved" in r.err

    def may_miss(self, r):
        """A save that was lost and told is not made up for; the last one is always there."""
        if not self.told(r):
            return ()
        last = os.path.join("run", "checkpoints", f"step-{self.last:08d}")
        return tuple(n for n in self.files if "checkpoints" in n and not n.startswith(last))


class TrainAgain(Train):
    """Goes on with the run of the template."""

    first = {**MODEL, **SAVING, "max_steps": 4}


class TrainLeftovers(TrainAgain):
    """The run was killed in a save, and its newest step is damaged."""

    def change(self):
        steps = os.path.join(self.run_dir, "checkpoints")
        shutil.copytree(os.path.join(steps, "step-00000002"), os.path.join(steps, ".tmp-step-00000003"))
        write(os.path.join(steps, "best.tmp"), "step-0")
        path = os.path.join(steps, "step-00000004", "model.safetensors")
        content = bytearray(read(path))
        content[-9] ^= 1
        write(path, bytes(content))


class TrainOlder(TrainAgain):
    """--resume names an older step: the newer one is set aside."""

    def again(self):
        if hasattr(self, "whole"):  # afterwards: without naming a step
            self.args = [a for a in self.args if not a.startswith("--resume=")]
        return super().again()

    def after(self, r):
        args = self.args
        try:
            super().after(r)
        finally:
            self.args = args

    def may_miss(self, r):
        return super().may_miss(r) + tuple(n for n in self.files if "/aside-" in n)


def give(given):
    """What the scenarios share."""
    lathe.char_data(given, TEXT)
    write(os.path.join(given, "lines.jsonl"), "".join(
        json.dumps({"prompt": lathe.words_text(20 + n, seed=n), "completion": lathe.words_text(30)}) + "\n"
        for n in range(24)))
    texts = os.path.join(given, "texts")
    write(os.path.join(texts, "a", "one.txt"), lathe.words_text(400, seed=2))
    write(os.path.join(texts, "two.txt"), lathe.words_text(300, seed=3) + "caf\u00e9 \U0001f642\n")
    write(os.path.join(texts, "three.jsonl.gz"), gzip.compress(
        b"".join(json.dumps({"text": lathe.words_text(90, seed=n)}).encode() + b"\n" for n in range(22))))
    ok("tokenizer", "train", input=os.path.join(texts, "two.txt"), type="bpe", vocab_size=280,
       out=os.path.join(given, "bpe"))
    ok("tokenizer", "train", input=os.path.join(texts, "two.txt"), type="wordpiece", vocab_size=60,
       out=os.path.join(given, "wordpiece"))
    ok("train", data=os.path.join(given, "data"), run=os.path.join(given, "run"),
       **{**MODEL, **SAVING, "max_steps": 4})
    shutil.copytree(os.path.join(lathe.SOURCE, "tests", "checkpoints", "golden", "bert_nopool"),
                    os.path.join(given, "bert"))
    write(os.path.join(given, "choices.jsonl"), json.dumps(
        {"ctx": "the of", "endings": ["and to", "in that"], "label": 0}) + "\n")
    os.makedirs(os.path.join(given, "config"))
    write(os.path.join(given, "config", "c.ini"), "# a comment\nmax_steps = 6\nlearning_rate = 0.01\n")


RUN = dict(data="G/data", run="W/run")
LOAD = dict(device="cpu", threads=1)

SCENARIOS = [
    Train("train_async", ["train"], **RUN, **MODEL, **SAVING),
    Train("train_sync_bf16", ["train"], **RUN, **MODEL, **{**SAVING, "keep": 1}, save_async="false",
          precision="bf16"),
    TrainAgain("resume", ["train"], **RUN, **MODEL, **SAVING),
    TrainAgain("resume_keep_one", ["train"], **RUN, **MODEL, **{**SAVING, "keep": 1}),
    TrainLeftovers("resume_leftovers", ["train"], **RUN, **MODEL, **SAVING),
    TrainOlder("resume_older", ["train"], **RUN, **MODEL, **SAVING, resume="step-00000002"),
    Train("fine_tune", ["train", "G/config/c.ini"], **RUN, init_from="G/run/checkpoints/step-00000004",
          block_size=8, batch_size=2, save_interval=3, keep=0, eval_interval=0, **LOAD),
    Makes("data_txt", ["data"], input="G/data.txt", tokenizer="G/data-tok", out="W/out"),
    Makes("data_folder", ["data"], input="G/texts", tokenizer="G/bpe", out="W/out", threads=2,
          val_fraction=0.1, shard_tokens=1024),
    Makes("data_pairs", ["data"], input="G/lines.jsonl", tokenizer="G/bpe", out="W/out", threads=1),
    Makes("tokenizer_train_bpe", ["tokenizer", "train"], input="G/texts", type="bpe", vocab_size=300,
          out="W/out"),
    Makes("tokenizer_train_wordpiece", ["tokenizer", "train"], input="G/texts", type="wordpiece", vocab_size=60,
          out="W/out"),
    Makes("tokenizer_train_char", ["tokenizer", "train"], input="G/data.txt", type="char", out="W/out"),
    Says("tokenizer_encode", ["tokenizer", "encode", "G/texts/two.txt"], tokenizer="G/bpe", threads=2),
    Says("tokenizer_encode_wordpiece", ["tokenizer", "encode", "G/texts/two.txt"], tokenizer="G/wordpiece/vocab.txt",
         add_special="true", threads=2),
    Says("tokenizer_decode_wordpiece", ["tokenizer", "decode"], tokenizer="G/wordpiece", stdin=b"2 5 6 7 3\n"),
    Says("tokenizer_decode", ["tokenizer", "decode"], tokenizer="G/bpe", stdin=b"80 81 270 82\n"),
    Says("generate", ["generate"], model="G/run", prompt="the ", max_new_tokens=12, seed=1, **LOAD),
    Says("eval_data", ["eval"], model="G/run", data="G/data", **LOAD),
    Says("eval_text", ["eval"], model="G/run", text="G/data.txt", **LOAD),
    Says("eval_choices", ["eval"], model="G/run", choices="G/choices.jsonl", **LOAD),
    Makes("convert", ["convert"], **{"from": "G/run"}, to="W/out", dtype="bf16"),
    Says("inspect_bert", ["inspect", "G/bert"]),
    Says("inspect_run", ["inspect", "G/run"]),
    Says("inspect_step", ["inspect", "G/run/checkpoints/step-00000004", "--verify"]),
    Says("inspect_data", ["inspect", "G/data", "--verify"]),
    Says("inspect_tokenizer", ["inspect", "G/bpe"]),
    Says("plan", ["plan", "G/config/c.ini"], data="G/data"),
    Says("ops", ["ops"]),
    Says("help", ["train", "--help"]),
]
