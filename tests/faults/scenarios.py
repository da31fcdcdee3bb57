"""scenarios.py -- the commands that walk.py disturbs, and what must be true after a fault in each.

A scenario prepares a template once, undisturbed, and keeps what the command makes of it; for each
fault `fresh` copies the template into the folder `w`, in which the command then works.

SPDX-License-Identifier: MIT
"""
import gzip
import json
import os
import re
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


class Scenario:
    """One command in a folder: `lathe ARGS`, where W stands for the folder it works in."""

    def __init__(self, name, args, stdin=b"", **options):
        self.name, self.words, self.options, self.stdin = name, args, options, stdin

    def open(self, root):
        self.root = root
        self.w, self.template, self.given = (os.path.join(root, n) for n in ("w", "template", "given"))
        os.makedirs(self.template)
        os.makedirs(self.given)
        self.prepare()
        full = lathe.command(self.words, self.options)[1:]
        self.args = [a.replace("W/", self.w + "/").replace("G/", self.given + "/") for a in full]
        self.whole = self.again(self.fresh())
        self.files = lathe.snapshot(self.w)
        self.learn()

    def prepare(self):
        """Fill self.given (never changed by the command) and self.template (copied for each run)."""

    def learn(self):
        """Keep what else the undisturbed command made."""

    def fresh(self):
        shutil.rmtree(self.w, ignore_errors=True)
        shutil.copytree(self.template, self.w)
        return self.w

    def again(self, folder):
        """The same command, undisturbed."""
        del folder
        r = run(*self.args, stdin=self.stdin)
        if r.code != 0:
            loss("the command does not succeed afterwards", r)
        return r

    def same_files(self, r):
        """Everything the undisturbed command leaves, and nothing else."""
        now = lathe.snapshot(self.w)
        for name in sorted(self.files.keys() | now.keys()):
            if name not in now:
                loss(f"{name} is missing", r)
            if name not in self.files:
                loss(f"{name} is left", r)
            if not self.same_file(name, now[name]):
                loss(f"{name} has another content", r)

    def same_file(self, name, sha):
        return sha == self.files[name]


class Says(Scenario):
    """Writes its result on standard output, and no file."""

    def after(self, folder, r):
        if r.code == 0 and r.raw != self.whole.raw:
            loss("exit code 0 with another output", r)
        self.same_files(r)
        if self.again(folder).raw != self.whole.raw:
            loss("another output afterwards", r)


TEXT = lathe.words_text(1500)
MODEL = dict(n_layer=1, n_head=1, n_embd=8, block_size=8, batch_size=2, learning_rate=1e-2, warmup_steps=0,
             device="cpu", threads=1)
SAVING = dict(max_steps=6, decay_steps=8, eval_interval=3, eval_batches=1, save_interval=2, keep=0,
              log_interval=2)


def make_data(given, text=TEXT):
    return lathe.char_data(given, text)


class Train(Scenario):
    """Runs with checkpoints. Recovery is the same command once more."""

    first = None  # options of the run that is in the template

    def prepare(self):
        make_data(self.given)
        if self.first:
            ok("train", data=os.path.join(self.given, "data"), run=os.path.join(self.template, "run"),
               **self.first)
        self.change(os.path.join(self.template, "run"))

    def change(self, run_dir):
        """What else is done to the run in the template."""

    def learn(self):
        self.run_dir = os.path.join(self.w, "run")
        self.last = max(lathe.step_dirs(self.run_dir))
        self.losses = lathe.losses(self.run_dir)
        self.trainer = self.trainer_state()
        self.before = {n: self.step_files(os.path.join(self.template, "run"), n)
                       for n in lathe.complete_steps(os.path.join(self.template, "run"))}

    def trainer_state(self):
        path = os.path.join(lathe.step_dirs(self.run_dir)[self.last], "trainer.json")
        state = json.loads(read(path))
        del state["seconds"]
        return state

    @staticmethod
    def step_files(run_dir, step):
        return lathe.snapshot(lathe.step_dirs(run_dir)[step])

    def same_file(self, name, sha):
        # They hold the seconds that steps took; config.ini of an interrupted run may say less.
        base = os.path.basename(name)
        if base in ("trainer.json", "MANIFEST", "metrics.jsonl", "lock", "config.ini"):
            return True
        return sha == self.files[name]

    def kept_steps(self, folder, r):
        """Steps that were complete before are there, whole, where they were or set aside."""
        for step, files in self.before.items():
            name = f"step-{step:08d}"
            places = [os.path.join(self.run_dir, "checkpoints", p + name) for p in ("", "aside-")]
            if not any(lathe.snapshot(p) == files for p in places):
                loss(f"{name} was complete before and is gone", r)

    def after(self, folder, r):
        for step, path in lathe.step_dirs(self.run_dir).items():
            problem = lathe.manifest_problem(path)
            if problem and step not in self.damaged():
                loss(f"step {step} is visible but not whole: {problem}", r)
        if self.options.get("keep", 0) == 0:
            self.kept_steps(folder, r)
        newest = max(lathe.complete_steps(self.run_dir), default=None)
        if self.before and newest < max(self.before):
            loss(f"step {max(self.before)} was complete before and is gone", r)
        again = self.again(folder)
        if newest is not None and not self.starts_at(newest, again):
            loss(f"the run does not go on from step {newest}", again)
        self.ended_well(again)

    def damaged(self):
        return ()

    def starts_at(self, newest, again):
        return re.search(rf"resumed +from step-{newest:08d}", again.out)

    def ended_well(self, again):
        if lathe.losses(self.run_dir) != self.losses:
            loss("other losses in metrics.jsonl", again)
        if self.trainer_state() != self.trainer:
            loss("another trainer.json", again)
        self.same_files(again)


class TrainAgain(Train):
    """Goes on with the run of the template."""

    first = {**MODEL, **SAVING, "max_steps": 4}


class TrainLeftovers(TrainAgain):
    """The run was killed in a save, and its newest step is damaged."""

    def change(self, run_dir):
        steps = os.path.join(run_dir, "checkpoints")
        shutil.copytree(os.path.join(steps, "step-00000002"), os.path.join(steps, ".tmp-step-00000003"))
        write(os.path.join(steps, "best.tmp"), "step-0")
        path = os.path.join(steps, "step-00000004", "model.safetensors")
        content = bytearray(read(path))
        content[-9] ^= 1
        write(path, bytes(content))

    def damaged(self):
        return (4,)


class TrainOlder(TrainAgain):
    """--resume names an older step: the newer one is set aside."""

    def starts_at(self, newest, again):
        return True

    def again(self, folder):
        steps = os.path.join(self.w, "run", "checkpoints", "aside-step-00000004")
        del steps
        return super().again(folder)


RUN = dict(data="G/data", run="W/run")

SCENARIOS = [
    Train("train_async", ["train"], **RUN, **MODEL, **SAVING),
    Train("train_sync_bf16", ["train"], **RUN, **MODEL, **{**SAVING, "keep": 1}, save_async="false",
          precision="bf16"),
    TrainAgain("resume", ["train"], **RUN, **MODEL, **SAVING),
    TrainAgain("resume_keep_one", ["train"], **RUN, **MODEL, **{**SAVING, "keep": 1}),
    TrainLeftovers("resume_leftovers", ["train"], **RUN, **MODEL, **SAVING),
]
