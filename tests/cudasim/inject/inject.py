#!/usr/bin/env python3
"""inject.py -- plants one bug at a time in our CUDA kernels; the tests must see each of them.

    inject.py BUILD [NAME...]    plant and run
    inject.py --list [NAME...]   what there is
    inject.py --check            does each bug still fit its file? Builds nothing

BUILD is a build folder made with Ninja, in which the programs of bugs.py are built. NAME: only bugs
whose kernel or name contains it. A bug is a piece of text that occurs exactly once in a source file
and what takes its place (bugs.py). For each one the changed file goes into a temporary folder, is
compiled by the very commands of the build, linked into a copy of the kernel's test program, and run
as the bug says:

    plain    fixed order         lazy   every asynchronous operation as late as is legal
    seeds    random schedules    race   the program with the race checker, fixed order and one seed

until a run fails: then the bug is caught. Before that, the sources as they are must pass the same
runs. Exit code 0 when every bug was caught, 1 when one got through or a program failed unchanged, 77
when the build has no such program. Nothing in BUILD or in the sources is changed.

SPDX-License-Identifier: MIT
"""
import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from bugs import KERNELS  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
SEEDS = (1, 2, 3, 4, 5, 6)
RUNS = {"plain": [{}], "lazy": [{"CUDASIM_LAZY": "1"}],
        "seeds": [{"CUDASIM_SEED": str(seed)} for seed in SEEDS],
        "race": [{}, {"CUDASIM_SEED": "1"}]}


class Stop(Exception):
    """Something is wrong with the bug or the build, not with the kernel."""


class Commands:
    """The commands by which Ninja makes a program, to be given again with other files."""

    def __init__(self, build, target):
        self.build, self.target, lines = build, target, []
        if shutil.which("ninja"):
            run = subprocess.run(["ninja", "-C", build, "-t", "commands", target],
                                 capture_output=True, text=True)
            lines = run.stdout.splitlines() if run.returncode == 0 else []
        words = [shlex.split(part) for line in lines for part in line.split(" && ")]
        self.all = [w for w in words if output_of(w)]
        self.archives = [w for w in words if any(x.endswith(".a") for x in w) and not output_of(w)]

    def exists(self):
        return bool(self.all)

    def link(self):
        return next(w for w in reversed(self.all) if Path(output_of(w)).name == self.target)

    def takes(self, output):
        """Is it no object, or one that the program links, alone or from an archive?"""
        link = {self.path(w) for w in self.link()}
        inside = [w for w in self.archives if link & {self.path(x) for x in w if x.endswith(".a")}]
        return not output.endswith(".o") or self.path(output) in link or any(
            self.path(output) in {self.path(x) for x in w} for w in inside)

    def path(self, word):
        return os.path.join(self.build, word)

    def of_kernel(self, source):
        """The commands that lead from a .cu file to its objects."""
        found, files = [], {str(source)}
        for words in self.all:
            if files & set(words) and Path(output_of(words)).name != self.target:
                found.append(words)
                files.add(output_of(words))
        return [words for words in found if self.takes(output_of(words))]


def output_of(words):
    return words[words.index("-o") + 1] if "-o" in words[:-1] else None


# ---- a changed copy ----

def overlay(bug, kernel, folder):
    """The folders of the kernel's files, copied to `folder` as they lie in the project, one changed.

    Whole folders, because an include in quotes is looked for beside the file that has it.
    """
    for parent in sorted({Path(name).parent for name in kernel.sources + [bug.file]}):
        (folder / parent).mkdir(parents=True)
        for path in (ROOT / parent).iterdir():
            if path.suffix in (".cu", ".cuh", ".h", ".def"):
                shutil.copy(path, folder / parent)
    path = folder / bug.file
    text = path.read_text()
    if text.count(bug.old) != 1:
        raise Stop(f"its text occurs {text.count(bug.old)} times in {bug.file}, not once")
    path.write_text(text.replace(bug.old, bug.new))


def rebuild(commands, kernel, folder):
    """Compiles the files under folder/source, links a program. Returns its path."""
    source, objects, renamed = folder / "source", [], {}
    for name in kernel.sources:
        steps = commands.of_kernel(ROOT / name)
        if not steps:
            raise Stop(f"{commands.target} is not made of {name}")
        renamed[str(ROOT / name)] = str(source / name)
        # Whatever a step writes has the stem of the source in its name: objects, PTX, logs.
        mark = Path(name).stem + "."
        for words in steps:
            where, _, base = output_of(words).rpartition("/")
            prefix = base[:base.index(mark) + len(mark)]
            renamed.setdefault(f"{where}/{prefix}", f"{folder}/{len(renamed)}-{prefix}")
        for words in steps:
            changed = rename(words, renamed)
            changed.insert(first_option(changed), f"-I{source}")
            if "ptx2c.py" in " ".join(words):
                changed.remove(f"-I{source}")
            changed = [w for w in changed if not w.startswith("-Werror")]
            execute(changed, commands.build)
            if output_of(words).endswith(".o"):
                objects.append(output_of(words))
    # A program takes an object by its path, as Ninja or as CMake writes it, or from an archive: then
    # one in front of the archive is taken instead.
    made = {commands.path(o): rename([o], renamed)[0] for o in objects}
    words = [made.pop(commands.path(w), w) for w in commands.link()]
    words[words.index("-o") + 1] = str(folder / commands.target)
    words[1:1] = made.values()
    execute(words, commands.build)
    return str(folder / commands.target)


def rename(words, renamed):
    """Each word with the longest prefix that has another name replaced."""
    out = []
    for word in words:
        old = max((o for o in renamed if word.startswith(o)), key=len, default=None)
        out.append(renamed[old] + word[len(old):] if old else word)
    return out


def first_option(words):
    return next((i for i, w in enumerate(words) if w.startswith("-")), len(words))


def execute(words, folder):
    run = subprocess.run(words, capture_output=True, text=True, cwd=folder)
    if run.returncode != 0:
        raise Stop(f"{' '.join(words[:3])} ...: {(run.stderr or run.stdout).strip()[:1500]}")


# ---- runs ----

def one_run(program, arguments, env, seconds):
    """-> (failed?, the line that says how)"""
    p = subprocess.Popen([program] + arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True, errors="replace", env={**os.environ, **env},
                         start_new_session=True)
    try:
        out, _ = p.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        p.communicate()
        return True, f"no end within {seconds} s"
    return p.returncode != 0, what_it_said(out, p.returncode)


def what_it_said(out, code):
    """The most telling line: the simulator's, else what a test printed before it failed."""
    for pattern in (r"cudasim.*", r".*variant \d+.*", r".*(?:WRONG|off by|differ).*",
                    r"(?<=ERROR   \] --- ).+", r".*(?:FAIL|failed).*"):
        lines = [line.strip() for line in re.findall(pattern, out)
                 if not re.search(r"\b0 failed", line)]
        if lines:
            return lines[0]
    return f"exit code {code}"


def label(kind, env):
    return f"{kind} {env['CUDASIM_SEED']}" if "CUDASIM_SEED" in env else kind


def first_failure(programs, kernel, kinds):
    """Runs in order until one fails: (its label, what it said), or None. Programs: kind: path."""
    for kind in kinds:
        for env in RUNS[kind]:
            bad, said = one_run(programs(kind), arguments_of(kernel, kind), env, kernel.seconds)
            if "has no translated code" in said:
                raise Stop(f"the halves of the program do not fit: {said}")
            if bad:
                return label(kind, env), said
    return None


def arguments_of(kernel, kind):
    return kernel.arguments.get(kind, kernel.arguments.get(None, []))


def program_name(kernel, kind):
    return kernel.race_program if kind == "race" else kernel.program


def unchanged(build, kernel, kinds):
    def program(kind):
        found = [p for p in Path(build).rglob(program_name(kernel, kind)) if p.is_file()]
        if not found:
            raise Stop(f"{program_name(kernel, kind)} is not built")
        return str(found[0])
    return first_failure(program, kernel, kinds)


def planted(build, kernel, bug):
    """(run that caught it, what it said), or None when it got through."""
    with tempfile.TemporaryDirectory(prefix="inject-") as folder:
        made = {}

        def program(kind):
            name = program_name(kernel, kind)
            if name not in made:
                part = Path(folder) / name
                (part / "source").mkdir(parents=True)
                overlay(bug, kernel, part / "source")
                made[name] = rebuild(Commands(build, name), kernel, part)
            return made[name]
        return first_failure(program, kernel, bug.runs)


# ---- the table ----

def wanted(kernel, names):
    return [b for b in kernel.bugs
            if not names or any(n in f"{kernel.name} {b.name}" for n in names)]


def list_bugs(names):
    for kernel in KERNELS:
        for bug in wanted(kernel, names):
            print(f"{kernel.name:24} {bug.name:34} {'/'.join(bug.runs):24} {bug.why}")
    return 0


def check_texts():
    """Every bug's text must occur once, and change something; names must differ."""
    wrong, bugs = 0, [(k, b) for k in KERNELS for b in k.bugs]
    for kernel, bug in bugs:
        count = (ROOT / bug.file).read_text().count(bug.old)
        same_name = sum(k.name == kernel.name and b.name == bug.name for k, b in bugs)
        if count != 1 or bug.old == bug.new or same_name != 1 or not set(bug.runs) <= set(RUNS):
            print(f"{kernel.name}, {bug.name}: its text occurs {count} times in {bug.file}")
            wrong += 1
    print(f"{len(bugs)} bugs, {wrong} do not fit")
    return 1 if wrong else 0


def check_kernel(build, kernel, names):
    """-> (bugs caught, bugs not caught, failures of the unchanged program)"""
    bugs = wanted(kernel, names)
    if not bugs:
        return 0, 0, 0
    kinds = [k for k in RUNS if any(k in b.runs for b in bugs)]
    print(f"\n{kernel.name}: {program_name(kernel, 'plain')} {' '.join(arguments_of(kernel, 'plain'))}")
    start = time.monotonic()
    try:
        bad = unchanged(build, kernel, kinds)
    except Stop as why:
        print(f"  NOT RUN: {why}; build the target sim first")
        return 0, len(bugs), 1
    took = time.monotonic() - start
    print(f"  {'unchanged':34} {'FAILED ' + bad[0] if bad else 'passes':12} {took:5.0f} s  "
          f"{bad[1] if bad else ', '.join(kinds)}", flush=True)
    caught = missed = 0
    for bug in bugs:
        start = time.monotonic()
        try:
            how = planted(build, kernel, bug)
        except Stop as why:
            how, error = None, str(why)
        else:
            error = "every run passed"
        caught, missed = caught + (how is not None), missed + (how is None)
        print(f"  {bug.name:34} {how[0] if how else 'NOT CAUGHT':12} "
              f"{time.monotonic() - start:5.0f} s  {(how[1] if how else error)[:200]}", flush=True)
    return caught, missed, int(bad is not None)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("words", nargs="*", metavar="BUILD NAME...")
    p.add_argument("--list", action="store_true")
    p.add_argument("--check", action="store_true")
    a = p.parse_args()
    if a.check:
        return check_texts()
    if a.list:
        return list_bugs(a.words)
    if not a.words:
        p.error("which BUILD?")
    build, names = os.path.abspath(a.words[0]), a.words[1:]  # as Ninja writes it
    kernels = [k for k in KERNELS if Commands(build, k.program).exists()]
    if not kernels:
        print("SKIP: the build has none of the programs; it needs nvcc, Ninja and LATHE_TESTS=ON")
        return 77
    results = [check_kernel(build, k, names) for k in kernels]
    caught, missed, bad = (sum(r[i] for r in results) for i in range(3))
    print(f"\n{caught + missed} bugs, {caught} caught, {missed} not; "
          f"{bad} programs failed unchanged")
    return 1 if missed or bad else 0


if __name__ == "__main__":
    sys.exit(main())
