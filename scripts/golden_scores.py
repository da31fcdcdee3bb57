#!/usr/bin/env python3
"""golden_scores.py -- what scikit-learn, seqeval and SQuAD's own evaluation say of some predictions.

    python3 -m venv V && V/bin/pip install scikit-learn seqeval
    V/bin/python scripts/golden_scores.py > tests/report/golden_scores.h

Random predictions of classes and of tags, and answers chosen for what SQuAD's normal form does to
them. tests/report/test_scores.c compares engine/report/scores.c with it.

SPDX-License-Identifier: MIT
"""
import collections
import random
import re
import string
import warnings

from seqeval.metrics import accuracy_score as tag_accuracy, f1_score as entity_f1
from sklearn.metrics import accuracy_score, f1_score

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "E-LOC", "S-PER", "I-A-B"]


# The evaluation of SQuAD (Rajpurkar et al. 2018), as its authors define it.
def normal(s):
    s = "".join(c for c in s.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", s).split())


def answer_f1(right, said):
    right, said = normal(right).split(), normal(said).split()
    if not right or not said:
        return float(right == said)
    both = sum((collections.Counter(right) & collections.Counter(said)).values())
    return 2 * both / (len(right) + len(said))


ANSWERS = [
    ("the Cat", ["cat"]), ("The cat.", ["a cat", "dog"]), ("cat cat", ["cat"]),
    ("cat dog cat", ["dog cat bird cat"]), ("", []), ("", ["a the"]), ("x", []), ("", ["x"]),
    ("The", ["an"]), ("1,000 men", ["1000 men!"]), ("U.S.", ["us"]), ("theory", ["the ory"]),
    ("  many \t blanks\n here ", ["many blanks here"]), ("caf\u00e9 au lait", ["caf\u00e9"]),
    ("no\u00a0break", ["no break"]), ("Saint-Denis", ["saint denis", "denis saint"]),
    ("one two three four", ["three four five", "two three four five six"]),
]


def c_text(s):
    return '"' + "".join(c if 32 <= ord(c) < 127 and c not in '"\\' else
                         "".join(f"\\{b:03o}" for b in c.encode()) for c in s) + '"'


def main():
    warnings.simplefilter("ignore")
    rng = random.Random(7)
    print("// golden_scores.h -- made by scripts/golden_scores.py: predictions and their scores.")
    print("//\n// SPDX-License-Identifier: MIT\n#pragma once\n")
    print("enum { GOLDEN_N = 24, GOLDEN_RIGHT = 2 };\n")
    print("static const struct {\n    int classes;\n    int is[GOLDEN_N], said[GOLDEN_N];\n"
          "    double accuracy, macro_f1;\n} golden_classes[] = {")
    for classes in (1, 2, 3, 5, 9, 30):
        a = [rng.randrange(classes) for _ in range(24)]
        b = [x if rng.random() < 0.6 else rng.randrange(classes) for x in a]
        print(f"    {{{classes},\n     {{{', '.join(map(str, a))}}},\n     {{{', '.join(map(str, b))}}},\n"
              f"     {accuracy_score(a, b)!r}, {f1_score(a, b, average='macro')!r}}},")
    print("};\n\nstatic const char golden_tags[][64] = {" + ", ".join(c_text(t) for t in TAGS) + "};\n")
    print("// Two sentences of half the words each.\nstatic const struct {\n"
          "    int is[GOLDEN_N], said[GOLDEN_N];\n    double accuracy, f1;\n} golden_tagged[] = {")
    for use in (1, 3, 5, 6, 7, 8, 8, 8):
        a = [rng.choice([0, 0] + list(range(use))) for _ in range(24)]
        b = [x if rng.random() < 0.8 else rng.randrange(use) for x in a]
        cut = lambda x: [[TAGS[t] for t in x[:12]], [TAGS[t] for t in x[12:]]]
        print(f"    {{{{{', '.join(map(str, a))}}},\n     {{{', '.join(map(str, b))}}},\n"
              f"     {tag_accuracy(cut(a), cut(b))!r}, {float(entity_f1(cut(a), cut(b)))!r}}},")
    print("};\n\nstatic const struct {\n    const char *said, *right[GOLDEN_RIGHT];\n"
          "    double exact, f1;\n} golden_answers[] = {")
    for said, right in ANSWERS:
        golds = [r for r in right if normal(r)] or [""]
        exact = max(normal(g) == normal(said) for g in golds)
        f1 = max(answer_f1(g, said) for g in golds)
        texts = ", ".join(c_text(r) for r in right) or "0"
        print(f"    {{{c_text(said)}, {{{texts}}}, {float(exact)!r}, {f1!r}}},")
    print("};")


if __name__ == "__main__":
    main()
