"""mllog_rules.py -- the rules that a log of MLPerf training 3.0's BERT, closed division, must keep.

Written from the rule list (common, closed, bert): which keys exactly once, which at least once, what
a value and its metadata must be, what must come before what. Stricter where the list is silent and a
reader of logs is not: the form of a line, event types, times that never go back, pairs that close.

    problems(text) -> ["line 12: ...", ...]      empty: the log is accepted

SPDX-License-Identifier: MIT
"""
import json
import re

LINE = re.compile(r':::MLLOG \{"namespace": "[^"]*", "time_ms": \d+, "event_type": "[A-Z_]+", "key": "[a-z0-9_]+", '
                  r'"value": .+, "metadata": \{.*\}\}$')
FIELDS = ["namespace", "time_ms", "event_type", "key", "value", "metadata"]
INIT_MINUTES = 30  # of the closed division
TARGET = 0.720


def is_int(v):
    return isinstance(v, int) and not isinstance(v, bool)


def is_number(v):
    return is_int(v) or isinstance(v, float)


def text_of(*allowed):
    return lambda v: isinstance(v, str) and v != "" and (not allowed or v in allowed)


# key: what its value must be. These stand exactly once.
EXACTLY_ONE = {
    "submission_org": text_of(),
    "submission_platform": text_of(),
    "submission_division": text_of("closed", "open"),
    "submission_status": text_of("cloud", "onprem", "preview", "research"),
    "submission_benchmark": text_of("bert"),
    "init_stop": lambda v: v is None,
    "run_start": lambda v: v is None,
    "run_stop": lambda v: v is None,
    "train_samples": lambda v: is_int(v) and v > 0,
    "eval_samples": lambda v: is_int(v) and v > 0,
    "global_batch_size": lambda v: is_int(v) and v > 0,
    "gradient_accumulation_steps": lambda v: is_int(v) and v > 0,
    "seed": lambda v: is_int(v) and v >= 0,
    "opt_base_learning_rate": lambda v: is_number(v) and v > 0,
    "opt_lamb_epsilon": lambda v: is_number(v) and v > 0,
    "opt_learning_rate_training_steps": lambda v: is_int(v) and v > 0,
    "opt_learning_rate_warmup_steps": lambda v: is_int(v) and v >= 0,
    "num_warmup_steps": lambda v: is_int(v) and v >= 0,
    "start_warmup_step": lambda v: is_int(v) and v >= 0,
    "opt_lamb_beta_1": lambda v: is_number(v) and 0 <= v < 1,
    "opt_lamb_beta_2": lambda v: is_number(v) and 0 <= v < 1,
    "opt_lamb_weight_decay_rate": lambda v: is_number(v) and v >= 0,
}
AT_LEAST_ONE = ["cache_clear", "init_start", "eval_accuracy"]
ONE_OF = [("block_start", "epoch_start"), ("block_stop", "epoch_stop"), ("eval_start", "block_start"),
          ("eval_stop", "block_stop")]
METADATA = {  # key: what its metadata must name
    "run_stop": ["status"],
    "block_start": ["epoch_count", "first_epoch_num"],
    "block_stop": ["first_epoch_num"],
    "epoch_start": ["epoch_num"],
    "epoch_stop": ["epoch_num"],
    "eval_start": ["epoch_num"],
    "eval_stop": ["epoch_num"],
    "eval_accuracy": ["epoch_num"],
}


def parse(text):
    """Lines as objects, each with its number; and what is wrong with the form of any."""
    lines, bad = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if ":::MLL" not in line:
            continue
        try:
            o = json.loads(line[len(":::MLLOG "):]) if LINE.match(line) else None
        except ValueError:
            o = None
        if o is None or list(o) != FIELDS or not isinstance(o["metadata"], dict):
            bad.append(f"line {number}: not of the form of a line: {line[:120]}")
        else:
            lines.append(dict(o, line=number))
    return lines, bad


def event_type_of(key):
    return ("INTERVAL_START" if key.endswith("_start") else
            "INTERVAL_END" if key.endswith("_stop") else "POINT_IN_TIME")


def check_line(o, before, seen):
    """before: the line in front, or None; seen: key -> first line with it, of the lines in front."""
    key, value, metadata = o["key"], o["value"], o["metadata"]
    if o["event_type"] != event_type_of(key):
        yield f"{key} is of type {o['event_type']}"
    if before and o["time_ms"] < before["time_ms"]:
        yield "the time goes back"
    if key in EXACTLY_ONE and not EXACTLY_ONE[key](value):
        yield f"{key} is {value!r}"
    for name in METADATA.get(key, []):
        if name not in metadata:
            yield f"{key} has no {name}"
    for name in ("epoch_num", "first_epoch_num"):
        if name in metadata and not (is_int(metadata[name]) and metadata[name] >= 0):
            yield f"{name} is {metadata[name]!r}"
    if key == "block_start" and not (is_int(metadata.get("epoch_count")) and metadata["epoch_count"] > 0):
        yield f"epoch_count is {metadata.get('epoch_count')!r}"
    if key == "eval_accuracy" and not (is_number(value) and 0 <= value <= 1):
        yield f"eval_accuracy is {value!r}"
    if key == "run_stop" and metadata.get("status") not in ("success", "aborted"):
        yield f"status is {metadata.get('status')!r}"
    needs = {"init_stop": "init_start", "run_start": "init_stop", "run_stop": "run_start", "block_start": "run_start",
             "eval_start": "run_start", "eval_accuracy": "run_start"}
    if key in needs and needs[key] not in seen:
        yield f"{key} before {needs[key]}"
    if key == "init_start" and ("init_stop" in seen or "run_start" in seen):
        yield "init_start after the initialisation"
    if "run_stop" in seen and key not in ("train_samples", "eval_samples"):
        yield f"{key} after run_stop"
    if key == "init_stop" and "init_start" in seen:
        if o["time_ms"] - seen["init_start"]["time_ms"] >= INIT_MINUTES * 60000:
            yield f"the initialisation took {INIT_MINUTES} minutes or more"


def check_pairs(lines, name):
    is_open = None
    for o in lines:
        if o["key"] == name + "_start":
            if is_open:
                yield f"line {o['line']}: {name}_start within another"
            is_open = o
        elif o["key"] == name + "_stop":
            if not is_open:
                yield f"line {o['line']}: {name}_stop without its start"
            is_open = None
    if is_open:
        yield f"line {is_open['line']}: {name}_start without its stop"


def problems(text, target=TARGET):
    lines, out = parse(text)
    seen, count, before = {}, {}, None
    if not lines:
        return out + ["there is no line"]
    for o in lines:
        out += [f"line {o['line']}: {p}" for p in check_line(o, before, seen)]
        seen.setdefault(o["key"], o)
        count[o["key"]] = count.get(o["key"], 0) + 1
        before = o
    out += [f"{k} stands {count.get(k, 0)} times, must once" for k in EXACTLY_ONE if count.get(k, 0) != 1]
    out += [f"{k} is missing" for k in AT_LEAST_ONE if k not in count]
    out += [f"neither {a} nor {b}" for a, b in ONE_OF if a not in count and b not in count]
    for name in ("block", "epoch", "eval"):
        out += check_pairs(lines, name)
    reached = [o for o in lines if o["key"] == "eval_accuracy" and is_number(o["value"])
               and target <= o["value"] < 1.0]
    if not reached:
        out.append(f"no eval_accuracy from {target} on and below 1")
    return out
