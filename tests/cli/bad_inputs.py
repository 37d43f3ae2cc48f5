# SPDX-License-Identifier: Apache-2.0
"""Random bad inputs for the programs: each must be refused, in one line, with the status it should.

Each case is a command line that would serve, or would with files that it makes, and one fault in
it: a value that is none, an option that does not exist or is there twice, a file that breaks its
format, an output that cannot be written, a stream that is closed. The same seed makes the same cases.

usage: bad_inputs.py --bin DIR --data DIR [--count N] [--seed S] [--only PROGRAM] [--list]
"""

import argparse
import concurrent.futures
import copy
import csv
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT_S = 60  # for one case: nothing that is refused takes long


# Values that are none, by kind of option. A kind makes one bad word.

def number(least, most, above=False):
    def bad(r):
        words = ["nan", "inf", "-inf", "1e999", "abc", "1 ", " 1", "1,5", "0x10", "1e", "--", "1..2", "٣",
                 "", "9" * 300, "-" + "9" * 300, f"{most * r.uniform(1.01, 50):.17g}", "1\t", "1\n2", "1e+",
                 f"{least - r.uniform(1e-6, 1e6):.17g}"]
        if above:
            words += [str(least), f"{least:.3f}"]
        return r.choice(words)
    return bad


def count(least, most):
    def bad(r):
        words = ["1.5", "-1", "abc", "", "0x10", "1e3", "9" * 23, "9" * 300, " 1", "1 ", "+1", "²", "1_0",
                 str(most + r.randint(1, 10**6))]
        if least > 0:
            words.append(str(r.randint(0, least - 1)))
        return r.choice(words)
    return bad


def name(*known):
    def bad(r):
        word = r.choice(known)
        cut = r.randrange(len(word))
        words = ["", "nosuch", word + "x", word.upper() if word.upper() not in known else "?", " " + word,
                 word[:cut] + "_" + word[cut:], "x" * 5000, "a\nb", "\x1b[31m", word + " "]
        return r.choice([w for w in words if w not in known])
    return bad


def names(*known, all_word=None):
    one = name(*known)

    def bad(r):
        word = r.choice(known)
        how = r.randrange(4)
        if how == 0:
            return f"{word},{word}"
        if how == 1:
            return r.choice([f"{word},", f",{word}", ",", f"{word},,{r.choice(known)}"])
        bad_one = one(r)
        if "," in bad_one:
            bad_one = "nosuch"
        others = [k for k in known if k != word]
        return bad_one if how == 2 or not others else f"{r.choice(others)},{bad_one}"
    return bad


def counts(least, most):
    one = count(least, most)

    def bad(r):
        n = r.randint(max(least, 1), min(most, 900))
        return r.choice([f"{n},{n}", f"{n},0{n}", f"{n},", f",{n}", one(r), f"{n},{one(r)}" if n != 1 else "1,x"])
    return bad


def numbers_of(value, *known):
    """NAME=NUMBER,..."""
    def bad(r):
        k = r.choice(known)
        word = value(r).replace(",", ";")
        return r.choice([f"{k}={word}", f"nosuch=1", f"{k}=1,{k}=2", f"{k}=", f"=1", f"{k}=1,", f",{k}=1"])
    return bad


def path_in(r):
    return r.choice(["", "none/such.json", ".", "/nonexistent", "no such file"])


def path_out(r):
    return r.choice(["", "none/x.json", ".", "/proc/nothing/x", "/dev/null/x"])


def picture(r):
    return r.choice(["", "none/x.svg", ".", "x.gif", "x", "x.svg.txt"])


MODELS = ("lenet", "googlenet", "resnet50", "ssdlite_mobilenet", "vgg16")
PROFILES = ("lenet_b1", "resnet18_b1", "inception_v3_b1", "bert_base_b32")
SCHEDULING = ("fifo", "rr", "sjf", "srpt", "edf", "deficit", "srpt+deficit", "boost")
POLICIES = ("fifo", "rr", "sjf", "srpt", "edf", "deficit", "srpt+deficit", "boost", "direct", "single")
MODES = ("rt_only", "seq", "streams", "streams_priority", "preempt", "preempt_pad")
PLANNERS = ("sbp", "sbp_ideal", "self_tuning", "gpulet", "gpulet_cuts", "gpulet_ideal", "elastic", "best", "ideal")


class Program:
    """What a program takes: a line that serves, its options by kind, and lines that contradict themselves.

    `selector`: the option that selects what runs, and all that it selects from. `used`: options that some of that
    uses alone: with what, a value that is right, and the selector where it is another."""

    def __init__(self, base, options, wrong=(), flags=(), files=(), prefix=(), selector=None, used=None):
        self.base, self.options, self.wrong, self.flags = base, options, wrong, flags
        self.files, self.prefix, self.selector, self.used = files, prefix, selector, used or {}


def arrivals(r):
    return r.choice(["", "weibull", "poisson:3", "lognormal", "closed", "trace", "trace:", "trace:none.csv",
                     "trace:.", "lognormal:" + number(0, 10, True)(r), "closed:" + count(1, 10**6)(r), "POISSON"])


def deadlines(r):
    n = r.randint(1, 9)
    return r.choice([number(0, 1e6, True)(r), number(0, 1e6, True)(r) + "x", "x", f"{n + 1}x:{n}x", f"{n}x:", f":{n}x",
                     f"{n}:{n}x", f"{n}x:{n + 1}", f"{n}x:{n}x:{n}x", f"{n}X", f"x{n}", "None", f"1x:{number(0, 1e6, True)(r)}x"])


def device(r):
    return r.choice(["", "sim:a100", "cuda:x", "cuda:", "cuda:-1", "none.json", "SIM:H200", "cuda:99999", "x" * 300])


# FILES makes a file that is right, and break_FORMAT breaks it.

def break_text(r, text):
    """What no format takes."""
    how = r.randrange(4)
    if how == 0:
        return ""
    if how == 1:
        return "\x00\x01\xff garbage" + "".join(chr(r.randrange(1, 127)) for _ in range(r.randrange(50)))
    if how == 2:
        return text.encode()[: r.randrange(1, max(2, len(text) // 2))].decode(errors="replace").rstrip("\n") + '\x01"'
    return "[1, 2" + text


class Csv:
    def __init__(self, rows, bad, unique=False, empty_is_wrong=True):
        self.rows, self.bad, self.unique, self.empty_is_wrong = rows, bad, unique, empty_is_wrong

    def right(self):
        return "".join(",".join(row) + "\n" for row in self.rows)

    def broken(self, r):
        rows = copy.deepcopy(self.rows)
        hows = ["drop", "twice", "value", "value", "value", "value", "fewer", "more", "text", "header"]
        if self.unique:
            hows.append("again")
        if self.empty_is_wrong:
            hows.append("none")
        how = r.choice(hows)
        column = r.choice(sorted(self.bad))
        at = rows[0].index(column)
        line = r.randrange(1, len(rows))
        if how == "drop":
            rows = [row[:at] + row[at + 1:] for row in rows]
        elif how == "twice":
            rows = [row + [row[at]] for row in rows]
        elif how == "value":
            rows[line][at] = self.bad[column](r)
        elif how == "fewer":
            rows[line].pop()
        elif how == "more":
            rows[line].append("1")
        elif how == "again":
            rows.append(rows[line])
        elif how == "none":
            rows = rows[:1]
        elif how == "header":
            rows = rows[1:]
        text = "".join(",".join(row) + "\n" for row in rows)
        return break_text(r, text) if how == "text" else text


def csv_number(least=0, most=1e12, above=True):
    def bad(r):
        words = ["", "x", "nan", "inf", "-1", "1e999", "1 ", " 1", "0x1", "9" * 320, "1;2", "1e"]
        if above:
            words += ["0", "0.0"]
        return r.choice(words)
    return bad


def csv_count(r):
    return r.choice(["", "x", "0", "-1", "1.5", "9" * 30, " 1", "1e2", "nan"])


def csv_name(r):
    return r.choice(["", "nosuch", "a\x1b[0m"])


def csv_label(r):
    return r.choice(["", "a\x1b[0m"])


def leaves(node, path=()):
    if isinstance(node, dict):
        for key, value in node.items():
            yield from leaves(value, path + (key,))
    elif isinstance(node, list):
        for i, value in enumerate(node[:4]):
            yield from leaves(value, path + (i,))
    else:
        yield path


class Json:
    """`kept`: keys that the format skips without a look; `required`: paths without which it is wrong."""

    def __init__(self, document, required, kept=(), bad=(), strict=False):
        self.document, self.required, self.kept = document, required, kept
        self.bad, self.strict = bad, strict

    def right(self):
        return json.dumps(self.document)

    def broken(self, r):
        d = copy.deepcopy(self.document)
        hows = ["remove", "type", "type", "text", "cut", "behind", "twice", "top"]
        if self.bad:
            hows += ["value"] * 4
        if self.strict:
            hows.append("unknown")
        how = r.choice(hows)
        if how == "remove":
            path = r.choice(self.required)
            node = d
            for k in path[:-1]:
                node = node[k]
            del node[path[-1]]
        elif how == "type":
            path = r.choice([p for p in leaves(d) if not any(k in self.kept for k in p)])
            node = d
            for k in path[:-1]:
                node = node[k]
            old = node[path[-1]]
            if isinstance(old, str):
                node[path[-1]] = r.choice([7, None, [], {}, True])
            else:
                node[path[-1]] = r.choice(["x", None, {}, "1", -1e300, ["a"]])
        elif how == "value":
            path, values = r.choice(self.bad)
            node = d
            for k in path[:-1]:
                node = node[k]
            node[path[-1]] = r.choice(values)
        elif how == "unknown":
            d["nosuch"] = 1
        elif how == "top":
            return r.choice(["[]", "1", "null", '"x"', "[" * 100])
        text = json.dumps(d)
        if how == "text":
            return break_text(r, text)
        if how == "cut":
            return text[: r.randrange(1, len(text) - 1)]
        if how == "behind":
            return text + r.choice(["x", "{}", ",", "]"])
        if how == "twice":
            key = r.choice([p[0] for p in self.required])
            return text[:-1] + f", {json.dumps(key)}: {json.dumps(d[key])}}}"
        return text


def make_formats(data):
    profile = json.loads((data / "profiles/lenet_b1.json").read_text())
    profile["operations"] = profile["operations"][:4]
    for i, op in enumerate(profile["operations"]):
        op["after"] = [i - 1] if i else []
    op0 = ("operations", 0)
    far = [-1, "x", 0.5, 1e300, None, 2**64]
    formats = {}
    formats["profile"] = Json(
        profile, [("model",), ("batch",), ("operations",), op0 + ("kind",), op0 + ("grid",), op0 + ("block",),
                  op0 + ("duration_us",)],
        kept=("dtype", "device", "local_bytes", "max_blocks_per_sm", "sm_count", "durations_measured", "symbol",
              "name"),
        bad=[(op0 + ("kind",), ["sort", "", "KERNEL"]), (op0 + ("grid",), [[0, 1, 1], [1, 1], [1, 1, 1, 1], [-1, 1, 1], 3, [2**40, 1, 1]]),
             (op0 + ("block",), [[0, 1, 1], [1, 1], [4096, 1, 1], [-1, 1, 1]]),
             (op0 + ("duration_us",), [-1, "x", 1e300, None]), (("batch",), far + [0]), (("operations",), [[], {}, 3]),
             (op0 + ("registers_per_thread",), [-1, "x", 100000, 0.5]),
             (op0 + ("dynamic_shared_bytes",), [-1, "x", 10**9]),
             (op0 + ("duration_us_by_sms",), [{"x": 1}, {"8": -1}, {"0": 1}, [], 3]),
             (("graph_replay_us_by_sms",), [{"x": 1}, {"8": -1}, {"0": 1}, [], 3])])
    # Whether a kernel fits is known on a GPU alone.
    formats["profile_text"] = Json(formats["profile"].document, formats["profile"].required, formats["profile"].kept,
                                   [b for b in formats["profile"].bad
                                    if b[0][-1] not in ("block", "registers_per_thread", "dynamic_shared_bytes")])
    workload = json.loads((data / "workloads/disb_a.json").read_text())
    c0 = ("clients", 0)
    formats["workload"] = Json(
        workload, [("gsched_workload",), ("name",), ("clients",), c0 + ("name",), c0 + ("class",), c0 + ("model",),
                   c0 + ("arrivals",), c0 + ("arrivals", "law"), c0 + ("arrivals", "load")], strict=True,
        bad=[(("gsched_workload",), [0, 2, "1"]), (("clients",), [[], {}, 3]), (c0 + ("class",), ["rt", "", 3]),
             (c0 + ("model",), ["nosuch", "", 3]), (c0 + ("name",), ["", "a,b", "a\nb", "be_rnet", 4]),
             (c0 + ("arrivals",), [{"law": "weibull"}, {"law": "uniform"}, {"law": "uniform", "load": 0},
                                   {"law": "uniform", "load": -1}, {"law": "uniform", "load": 1, "rate_per_s": 1},
                                   {"law": "closed", "under_way": 0}, {"law": "closed", "think_us": -1},
                                   {"law": "closed", "think": "often"}, {"law": "trace", "file": "none.csv"},
                                   {"law": "trace"}, {"law": "poisson", "rate_per_s": 1e300}, []])])
    trace = {"model": "m", "operations": [
        {"kind": "memcpy", "name": "in", "reads": [[0, 64]], "writes": [[128, 64]]},
        {"kind": "kernel", "name": "k", "reads": [[128, 64]], "writes": [[256, 64]]},
        {"kind": "memset", "name": "s", "writes": [[512, 4]]}]}
    k1 = ("operations", 1)
    formats["access"] = Json(
        trace, [("model",), ("operations",), k1 + ("kind",), k1 + ("reads",), k1 + ("writes",),
                ("operations", 2, "writes"), ("operations", 0, "reads")],
        bad=[(k1 + ("reads",), [[[1]], [[1, 0]], [[-1, 2]], 3, [[2**64 - 1, 2]], [["a", 1]], [[0.5, 1]], {}]),
             (k1 + ("kind",), ["sort", "", 3]), (k1 + ("declared",), ["maybe", 3]), (k1 + ("assumed",), [1, "yes"]),
             (("operations",), [[], {}, 3, [1]])])
    preset = json.loads((data / "presets/h200.json").read_text())
    formats["preset"] = Json(
        preset, [("gsched_preset",), ("name",), ("sms",), ("host",), ("gaps",), ("copies",)], strict=True,
        kept=("measured",),
        bad=[(("sms",), far + [0]), (("gsched_preset",), [0, 99, "1"]), (("host", "start_us"), [-1, "x", 1e300]),
             (("copies", "to_device_bytes_per_ns"), [0, -1, "x"]), (("compute_capability",), ["0.0", "x", 9, "9"])])
    app = json.loads((data / "apps/game.json").read_text())
    s0 = ("stages", 0)
    formats["app"] = Json(
        app, [("gsched_app",), ("name",), ("stages",), s0 + ("name",), s0 + ("model",)], strict=True,
        bad=[(s0 + ("model",), ["nosuch", "", 3]), (s0 + ("requests",), [0, -1, 1.5, "x"]), (("stages",), [[], {}, 3]),
             (s0 + ("after",), [["digits"], ["nosuch"], 3]), (s0 + ("name",), ["image", "", 3])])
    coefficients = json.loads((data / "interference/h200.json").read_text())
    formats["coefficients"] = Json(
        coefficients, [("gsched_interference",), ("contention",), ("replay",), ("contention", "l2_latency")], strict=True)

    def rows(file, n, keep=None):
        with open(data / file, newline="") as f:
            all_rows = list(csv.reader(f))
        return all_rows[:1] + ([row for row in all_rows[1:] if keep(row)] if keep else all_rows[1:])[:n]

    us = csv_number()
    formats["latency"] = Csv(rows("latency_batch_partition.csv", 400, lambda row: row[0] == "lenet"),
                             {"model": csv_label, "batch": csv_count, "sms": csv_count, "latency_us": us}, unique=True)
    formats["partition_rows"] = Csv(rows("latency_batch_partition.csv", 3),
                                    {"model": csv_label, "batch": csv_count, "sms": csv_count, "latency_us": us})
    formats["rates"] = Csv([["scenario", "model", "rate"], ["a", "lenet", "10"], ["a", "vgg16", "20"], ["b", "lenet", "5"]],
                           {"model": csv_name, "rate": csv_number(0, 1e9, False)}, unique=True)
    formats["rate_trace"] = Csv([["time_s", "model", "rate"], ["0", "lenet", "10"], ["5", "lenet", "20"], ["7", "lenet", "5"]],
                                {"model": csv_name, "rate": csv_number(0, 1e9, False), "time_s": csv_number(0, 1e6, False)})
    formats["solo"] = Csv(rows("solo_metrics.csv", 30), {"model": csv_label, "batch": csv_count, "solo_us": us,
                                                         "l2_pct": csv_number(0, 100, False),
                                                         "dram_pct": csv_number(0, 100, False)}, unique=True)
    formats["corun"] = Csv(rows("corun_pairs.csv", 40), {c: us for c in ("solo_a_us", "solo_b_us", "corun_a_us", "corun_b_us")}
                           | {c: csv_count for c in ("batch_a", "batch_b", "sms_a", "sms_b")}
                           | {c: csv_name for c in ("model_a", "model_b")})
    formats["few_corun_rows"] = Csv(formats["corun"].rows[:4], {}) # all of them take a sanitized build minutes
    # A model without a profile is left out there, and that is said.
    formats["corun_rows"] = Csv(formats["corun"].rows, formats["corun"].bad | {c: csv_label for c in ("model_a", "model_b")})
    kernel = {"function": "f", "kernel_ns": "20000", "block_ns": "5000", "registers": "32", "shared_bytes": "0",
              "threads": "256", "blocks": "528"}
    head = [p + k for p in ("rt_", "be_") for k in kernel]
    line = list(kernel.values()) * 2
    formats["facts"] = Csv([head, line, list(line)],
                           {h: csv_label if h.endswith("function") else (lambda r: r.choice(["", "x", "-1", "1.5", "9" * 30, " 1", "nan"]))
                            for h in head})
    formats["arrivals"] = Csv([["time_us", "model", "client"], ["0", "lenet_b1", "0"], ["50", "lenet_b1", "1"]],
                              {"time_us": lambda r: r.choice(["", "x", "nan", "-1", "inf", "9" * 320]),
                               "model": csv_name, "client": lambda r: r.choice(["", "x", "-1", "99", "1.5"])})
    formats["arrivals"].broken = lambda r, f=formats["arrivals"]: broken_arrivals(r, f)
    return formats


def broken_arrivals(r, f):
    """Its header may be missing, so only fields and lines can be wrong."""
    rows = copy.deepcopy(f.rows)
    column = r.choice(sorted(f.bad))
    line = r.randrange(1, len(rows))
    how = r.randrange(5)
    if how < 2:
        rows[line][rows[0].index(column)] = f.bad[column](r)
    elif how == 2:
        rows[line].append("1")
    elif how == 3:
        rows[1][0] = "100"  # times fall
    else:
        return r.choice(["", "time_us,model\n", "\n\n", "x" * 3000])
    return "".join(",".join(row) + "\n" for row in rows)


def make_programs(data):
    positive = number(0, 1e9, True)
    rate = numbers_of(number(0, 1e9), *MODELS)
    slo = numbers_of(number(0, 1e6, True), *MODELS)
    common = {"--json": path_out}
    rated = ("--rates", tuple(f"{m}=10" for m in MODELS))
    slo_used = {"--slo": (("vgg16=10",), "vgg16=30", rated)}
    programs = {}
    programs["serve_mix"] = Program(
        ["--requests", "3", "--policy", "fifo"],
        common | {
            "--trace": path_out, "--plot": picture, "--profiles": path_in, "--mix": numbers_of(number(0, 1e6, True), *PROFILES),
            "--clients": count(1, 10**6), "--requests": count(1, 10**8), "--arrivals": arrivals,
            "--load": number(0, 1000, True), "--rate": positive, "--slo": deadlines,
            "--seed": count(0, 2**64 - 1), "--policy": names(*POLICIES), "--quantum": positive,
            "--most-quantum": number(0, 1e9), "--overshoot": number(0, 1e6), "--lanes": count(1, 1024), "--spare-lanes": count(0, 1024),
            "--threshold": number(0, 1e9), "--slice": positive, "--evict": name("yes", "no"),
            "--weights": lambda r: r.choice(["", "0", "1,", "x", "-1", "nan", "1,1,1,1,1,1,1,1,1", "9" * 300]), "--submission": name("graph", "launches"),
            "--decision-delay": number(0, 1e6), "--device": device, "--queues": count(1, 1024),
            "--slow-down-limit": number(1, 1000), "--slow-downs": path_in, "--most-wait": number(0, 1e9)},
        wrong=[["--rate", "5", "--load", "0.5"], ["--arrivals", "closed:2", "--load", "0.5"],
               ["--most-wait", "5"], ["--slow-downs", "corun.csv"], ["--slow-down-limit", "1.2", "--slow-downs", "measured,measured"],
               ["--slow-down-limit", "1.2", "--mix", "resnet18_b1", "--slow-downs", "corun.csv"],
               ["--arrivals", "closed:2", "--rate", "5"], ["--quantum", "500", "--most-quantum", "400"],
               ["--json", "a.svg", "--plot", "./a.svg"], ["--json", "a", "--trace", "a"], ["--rate", "1e-300"],
               ["--device", "cuda", "--policy", "lifo"],
               ["--mix", "lenet_b1", "--arrivals", "trace:times.csv", "--seed", "5"],
               ["--mix", "lenet_b1", "--arrivals", "trace:times.csv", "--load", "0.5"],
               ["--policy", "boost,boost:0.3"], ["--policy", "boost:1,boost:1.0"], ["--policy", "boost:2,fifo,boost:2e0"]],
        selector=("--policy", POLICIES),
        used={o: (SCHEDULING, v) for o, v in (("--quantum", "50"), ("--most-quantum", "900"), ("--overshoot", "2"), ("--lanes", "4"), ("--spare-lanes", "4"), ("--slow-down-limit", "1.2"))}
        | {"--weights": (("deficit", "srpt+deficit"), "1,2"), "--threshold": (("srpt+deficit",), "50"), "--slice": (("rr",), "50"), "--evict": (("srpt", "edf", "srpt+deficit", "boost"), "yes")},
        flags=("--quiet", "--no-progress"),
        files=[("profile", ["--profiles", "{}"]), ("arrivals", ["--mix", "lenet_b1", "--clients", "2", "--arrivals", "trace:{}"]),
               ("corun", ["--mix", "lenet_b1", "--slow-down-limit", "1.2", "--slow-downs", "{}"]),
               ("preset", ["--device", "{}"])])
    programs["realtime"] = Program(
        ["--seconds", "0.001", "--mode", "seq"],
        common | {
            "--trace": path_out, "--plot": picture, "--profiles": path_in, "--workload": name("disb_a", "disb_b"),
            "--mode": names(*MODES), "--seconds": number(0, 1e5, True), "--requests": count(1, 10**8),
            "--seed": count(0, 2**64 - 1), "--lanes": count(1, 1024), "--rt-lanes": count(1, 1024),
            "--quantum": positive, "--most-quantum": number(0, 1e9), "--overshoot": number(0, 1e6),
            "--floor": number(0, 0.99), "--side": counts(1, 1024), "--pad": name("own", "needed", "none"),
            "--pad-places": count(2, 4096), "--pad-slow-down": number(0, 1000), "--tolerance": number(0, 1000), "--reserve": counts(1, 1024),
            "--reserve-fixed": count(0, 1024), "--long-operation": positive, "--reserve-slow-down": number(0, 1000),
            "--reserve-tail": number(0, 10000), "--reserve-share": number(0, 100),
            "--leaves": name("never", "between_blocks", "at_checkpoints"), "--device": device, "--queues": count(1, 1024)},
        wrong=[["--quantum", "500", "--most-quantum", "400"], ["--reserve", "8", "--reserve-fixed", "8"],
               ["--reserve", "16,8"], ["--reserve-tail", "3"], ["--side", "8,16,24,32,40"], ["--json", "a", "--trace", "./a"],
               ["--pad", "none", "--pad-places", "4"], ["--pad", "none", "--pad-slow-down", "4"], ["--mode", "preempt", "--long-operation", "50"],
               ["--mode", "preempt_pad", "--pad", "none", "--side", "none", "--tolerance", "3"],
               ["--mode", "preempt", "--leaves", "at_checkpoints", "--quantum", "60"]],
        selector=("--mode", MODES),
        used={o: (("rt_only", "preempt", "preempt_pad"), v)
              for o, v in (("--quantum", "50"), ("--most-quantum", "900"), ("--overshoot", "2"), ("--rt-lanes", "2"))}
        | {o: (("preempt", "preempt_pad"), v)
           for o, v in (("--lanes", "3"), ("--floor", "0.1"), ("--leaves", "between_blocks"), ("--reserve", "8"), ("--reserve-fixed", "8"),
                        ("--long-operation", "50"), ("--reserve-tail", "5"), ("--reserve-share", "5"), ("--reserve-slow-down", "5"))}
        | {o: (("preempt_pad",), v)
           for o, v in (("--side", "8"), ("--pad", "own"), ("--pad-places", "4"), ("--pad-slow-down", "4"), ("--tolerance", "3"))},
        flags=("--quiet", "--no-progress"),
        files=[("workload", ["--workload", "{}"]), ("preset", ["--device", "{}"])])
    programs["plan"] = Program(
        ["--rates", "lenet=10", "--planner", "sbp", "--no-suggest"],
        common | {
            "--plot": picture, "--table": path_in, "--rates": rate, "--app": numbers_of(number(0, 1e9), "game", "traffic"),
            "--rate-scale": number(0, 1e9, True), "--slo": slo, "--slo-factor": number(0, 1e6, True),
            "--gpus": count(0, 10000), "--sms": count(1, 100000), "--group": count(1, 100000), "--planner": names(*PLANNERS),
            "--interference": name("none", "h200")},
        wrong=[["--profiles", "lenet"], ["--planner", "best+share", "--profiles", "/nonexistent"], ["--planner", "sbp+share"],
               ["--solo", "/nonexistent"], ["--models", "lenet"], ["--levels", "1,2"], ["--rates-file", "x.csv"],
               ["--scenarios", "all"], ["--group", "140"], ["--max-scale", "--plot", "x.svg"], ["--max-scale"],
               ["--sms", "4", "--group", "4"], ["--interference", "h200", "--solo", "none.csv"],
               ["--slo", "lenet=5", "--slo-factor", "3"]],
        selector=rated, used=slo_used,
        flags=("--max-scale", "--no-progress", "--join-last"),
        files=[("latency", ["--table", "{}"]), ("app", ["--app", "{}=5"]), ("coefficients", ["--interference", "{}"]),
               ("solo", ["--interference", "h200", "--solo", "{}"])])
    programs["plan_file"] = Program(
        ["--planner", "sbp", "--rates-file", "rates.csv"], {"--rates-file": path_in, "--planner": names(*PLANNERS)},
        wrong=[["--rates", "lenet=1"], ["--app", "game=3"], ["--scenarios", "all"]],
        files=[("rates", ["--rates-file", "{}"])])
    programs["plan_scenarios"] = Program(
        ["--scenarios", "all", "--models", "lenet", "--levels", "1,2", "--planner", "sbp"],
        {"--scenarios": name("all"), "--models": names(*MODELS), "--levels": lambda r: r.choice(["", "1,1", "1,1.0", "1,", ",1", "x", "1,-1", "nan", "0", "1e10", "1;2", "9" * 300])},
        wrong=[["--rates", "lenet=1"], ["--app", "game=3"], ["--rates-file", "x.csv"]])
    programs["serve_partitions"] = Program(
        ["--rates", "lenet=10", "--seconds", "0.1", "--planner", "sbp"],
        common | {
            "--plot": picture, "--table": path_in, "--rates": rate, "--app": numbers_of(number(0, 1e9), "game", "traffic"),
            "--rate-trace": path_in, "--rate-scale": number(0, 1e9, True), "--rate-error": number(0, 0.99), "--slo": slo,
            "--slo-factor": number(0, 1e6, True), "--device": device, "--gpus": count(0, 10000),
            "--batches": counts(1, 100000), "--added-us": number(0, 1e9), "--sms": count(1, 100000), "--group": count(1, 100000),
            "--planner": name(*PLANNERS, "whole"), "--headroom": number(0, 1000, True), "--clusters": number(0, 1000),
            "--tolerance": number(0, 1000), "--fall": number(0, 1), "--interference": name("none", "h200"),
            "--plan-interference": name("none", "h200", "same"), "--solo": path_in, "--start": name("due", "at_once"),
            "--seconds": number(0, 1e6, True), "--period": number(1e-3, 1e6), "--prepare": number(0, 1e6),
            "--switch-us": number(0, 1e9), "--seed": count(0, 2**63),
            "--true-slowdown": numbers_of(number(0.01, 100), *MODELS), "--allowed": number(0, 1), "--stalls": number(0, 1e6)},
        wrong=[["--shared-error", "2"], ["--profiles", "lenet"], ["--share-sms", "--interference", "none"], ["--share-sms"],
               ["--max-rates", "--rate-scale", "2"], ["--once", "--fall", "0.1"], ["--once", "--fixed-times"], ["--once", "--allowed", "0.1"], ["--once", "--tolerance", "0.1"],
               ["--interference", "none", "--solo", "x.csv"], ["--group", "140"], ["--rates", "lenet=1e9", "--seconds", "60"],
               ["--once", "--prepare", "1"], ["--once", "--switch-us", "5"],
               ["--json", "a.svg", "--plot", "./a.svg"], ["--rate-error", "fixed:x"], ["--device", "cuda", "--prepare", "1"], ["--device", "preset.json"],
               ["--slo", "lenet=5", "--slo-factor", "3"], ["--max-rates", "--planner", "whole"]],
        selector=("--planner", (*PLANNERS, "whole")),
        used={o: (PLANNERS, v)
              for o, v in (("--headroom", "2"), ("--clusters", "2"), ("--tolerance", "0.2"), ("--fall", "0.2"), ("--prepare", "1"),
                           ("--allowed", "0.1"), ("--switch-us", "5"), ("--group", "4"), ("--interference", "none"), ("--plan-interference", "none"))}
        | slo_used,
        flags=("--once", "--max-rates", "--join-last"),
        files=[("latency", ["--table", "{}", "--interference", "none"]), ("rate_trace", ["--rates", "vgg16=5", "--rate-trace", "{}"]),
               ("coefficients", ["--interference", "{}"]), ("solo", ["--solo", "{}"]), ("app", ["--app", "{}=5"])])
    programs["head_of_line"] = Program(
        ["--jobs", "2", "--kernels", "2"],
        common | {"--queues": counts(1, 1024), "--jobs": count(1, 65536), "--kernels": count(1, 10000),
                  "--threads": count(1, 1024), "--kernel-us": number(0.1, 1e6), "--device": device},
        wrong=[["--jobs", "65536", "--kernels", "10000"], ["--device", "cuda"]], files=[("preset", ["--device", "{}"])])
    rule = name("own", "needed")
    programs["padding"] = Program(
        ["--real-time", "lenet_b1", "--best-effort", "lenet_b1", "--starts", "1"],
        common | {"--profiles": path_in, "--real-time": names(*PROFILES), "--best-effort": names(*PROFILES),
                  "--corunners": count(1, 1000), "--starts": count(1, 1000), "--predict": count(0, 1000), "--rule": rule,
                  "--parts": count(1, 8), "--share": number(0, 1, True), "--device": device},
        wrong=[["--device", "cuda"], ["--facts", "x.csv"]], prefix=["potential"],
        files=[("profile", ["--profiles", "{}"]), ("preset", ["--device", "{}"])])
    programs["padding_pairs"] = Program(
        ["--facts", "facts.csv"],
        common | {"--facts": path_in, "--rule": rule, "--parts": count(1, 8), "--share": number(0, 1, True), "--device": device},
        wrong=[["--corunners", "3"], ["--device", "cuda"]], prefix=["pairs"],
        files=[("facts", ["--facts", "{}"])])
    laws = names("disjoint", "disjoint_means", "shared_kernels")
    programs["interference"] = Program(
        ["--coefficients", str(data / "interference/h200.json"), "--laws", "disjoint_means"],
        common | {"--corun": path_in, "--solo": path_in, "--test-corun": path_in, "--profiles": path_in,
                  "--sms": count(1, 100000), "--laws": laws, "--coefficients": path_in},
        wrong=[["--test-solo", "x.csv"], ["--neutral-start"], ["--out", "x.json"], ["--once"]], prefix=["evaluate"], flags=("--no-progress",),
        files=[("corun", ["--corun", "{}"]), ("solo", ["--solo", "{}"])])
    programs["idempotence"] = Program(
        ["--trace", "access.json"],
        common | {"--trace": path_in,
                  "--declare": lambda r: r.choice(["", "3", "3=maybe", "=saves", "x=saves", "1=saves,1=saves", "1=saves,", "99=saves", "-1=saves", "1=", "1=saves,01=saves"])},
        wrong=[["--device", "cuda"], ["--device", "sim"], ["--check"], ["--reuse"], ["--save-trace", "x.json"], ["--limit", "3"]],
        files=[("access", ["--trace", "{}"])])
    programs["sim_accuracy"] = Program(
        [], common | {"--device": device, "--profiles": path_in}, wrong=[["--table", "x.csv"], ["--ignore-scaling"]], prefix=["graph"], flags=("--ignore-replays",),
        files=[("profile", ["--profiles", "{}"]), ("preset", ["--device", "{}"])])
    programs["sim_accuracy_partition"] = Program(
        [], common | {"--device": device, "--table": path_in}, prefix=["partition"],
        flags=("--ignore-scaling", "--ignore-replays"),
        files=[("partition_rows", ["--table", "{}"])])
    programs["sim_accuracy_corun"] = Program(
        ["--table", "corun.csv"], common | {"--table": path_in}, prefix=["corun"], files=[("corun_rows", ["--table", "{}"])])
    programs["two_tenants"] = Program([], {}, wrong=[["x"], ["--json", "x"], [""]])
    address = lambda r: r.choice(["", "x", "unix:", "unix:" + "x" * 200, "localhost", "localhost:", ":1", "1:2:3", "[::1", "h:65536", "h:-1", "h:1 ", "a b:1", "none "])
    programs["gsched_server"] = Program(
        ["--check"],
        {"--device": device, "--profiles": path_in, "--policy": name(*SCHEDULING), "--grpc": address, "--http": address,
         "--agent": address, "--config": path_in},
        wrong=[["--grpc", "none", "--http", "none"], ["--log", ""], ["--agent", "unix:a", "--http", "unix:a"], ["--grpc", "unix:a", "--http", "unix:a"], ["--grpc", "unix:a", "--socket", "a"],
               ["--device", "cuda"], ["--policy", "direct"]],
        files=[("profile", ["--profiles", "{}"]), ("preset", ["--device", "{}"])])
    programs["calibrate"] = Program(
        ["--device", "preset.json"],
        {"--out": path_out, "--json": path_out, "--device": device},
        wrong=[["--check", "preset.json"], ["--device", "cuda:x"], ["--seconds", "3"], ["--quick"], ["--out", "a", "--json", "./a"],
               ["--name", "x"], ["--json", "x", "--name", "x"], ["--date", "1.1."]],
        flags=("--compare",), files=[("preset", ["--device", "{}"])])
    programs["calibrate_check"] = Program(
        ["--check", "preset.json"], {"--check": path_in, "--device": device},
        wrong=[["--out", "x"], ["--compare"], ["--quick"], ["--json", "x"]], files=[("preset", ["--check", "{}"])])
    programs["profile"] = Program(
        ["--replay", "profile.json"],
        {"--replay": path_in, "--out": path_out, "--limit": number(1, 86400), "--replays": count(1, 1000),
         "--partitions": counts(1, 4096), "--batch": count(1, 1 << 20)},
        wrong=[["--graph", "sort"], ["--elements", "5"], ["--no-cupti", "--partitions", "8"]],
        files=[("profile_text", ["--replay", "{}"])])
    programs["measure"] = Program(
        ["--models", "sort", "--out", "made"],
        {"--models": names("saxpy", "sort"), "--json": path_out, "--sms": counts(1, 100000),
         "--groups": count(0, 10000), "--minutes": number(0, 10000, True), "--window": number(1, 10000),
         "--seed": count(0, 2**64 - 2)},
        wrong=[["--adaptor", "none.so"], ["--library", "torch"], ["--device", "sim:h200"], ["--out", "profile.json"]],
        prefix=["all"], flags=("--anew", "--busy", "--no-progress"), files=[("profile_text", ["--models", "{}"])])
    return programs


STREAMS = ("full", "closed")
GPU = ("calibrate_check", "profile", "measure")  # that serve only with one


class Case:
    def __init__(self, program, argv, files, status, why, stream=None):
        self.program, self.argv, self.files = program, argv, files
        self.status, self.why, self.stream = status, why, stream

    def __str__(self):
        text = " ".join([self.program] + [a if re.fullmatch(r"[\w./=,:+-]+", a) else repr(a)[:80] for a in self.argv])
        return f"{text}  ({self.why})"


def make_case(r, programs, formats, only):
    key = r.choice([p for p in programs if only is None or p.startswith(only)])
    p = programs[key]
    executable = key if key in ("plan", "two_tenants", "serve_mix", "serve_partitions",
                                "head_of_line", "sim_accuracy") else {
        "plan_file": "plan", "plan_scenarios": "plan", "padding_pairs": "padding", "sim_accuracy_partition": "sim_accuracy",
        "sim_accuracy_corun": "sim_accuracy", "calibrate_check": "calibrate"}.get(key, key)
    hows = ["value"] * 6 + ["typo", "twice", "missing", "stray"] if p.options else ["wrong"]
    if p.wrong:
        hows += ["wrong"] * 2
    if p.flags:
        hows.append("flag")
    if p.files:
        hows += ["file"] * 6
    if p.used:
        hows += ["unused"] * 3
    writes = sorted(o for o in p.options if p.options[o] is path_out and not (key == "idempotence" and o == "--trace"))
    if p.files and writes:
        hows += ["over"] * 2
    if key not in GPU:
        hows.append("stream")
    how = r.choice(hows)
    files = {}
    line = list(p.base)
    argv = None

    def with_option(option, value):
        """The line with that option, once."""
        rest = list(line)
        if option in rest:
            del rest[rest.index(option):rest.index(option) + 2]
        # Joined by "=" an empty value would be one that is missing.
        return rest + ([f"{option}={value}"] if value.startswith("-") else [option, value])

    why = how
    def used_of(option):
        return (*p.used[option], p.selector)[:3]

    if how == "value":
        option = r.choice(sorted(p.options))
        value = p.options[option](r)
        if option in p.used:
            users, _, (selects, _) = used_of(option)
            line = with_option(selects, r.choice(users))
        argv = with_option(option, value)
        why = f"{option} {value[:40]!r}"
    elif how == "unused":
        option = r.choice(sorted(p.used))
        users, value, (selects, all_of_them) = used_of(option)
        others = [one for one in all_of_them if one not in users]
        line = with_option(selects, ",".join(r.sample(others, r.randint(1, len(others)))))
        argv = with_option(option, value)
        why = f"{option} is not used"
    elif how == "typo":
        option = r.choice(sorted(p.options))
        at = r.randrange(2, len(option))
        typo = option[:at] + option[at + 1:] if r.random() < 0.5 else option[:at] + r.choice("qzx_") + option[at:]
        known = set(p.options) | set(p.flags) | {"--help"}
        if typo in known or len(typo) < 4 or typo == "--device"[:0]:
            typo = "--no-such-option"
        argv = line + [typo, "1"]
    elif how == "twice":
        option = r.choice([o for o in sorted(p.options) if o not in ("--profiles", "--partitions")])
        argv = with_option(option, "1") + [option, "1"]
    elif how == "missing":
        option = r.choice(sorted(p.options))
        argv = [a for a in line if a != option] if option not in line else line[:line.index(option)] + line[line.index(option) + 2:]
        argv = argv + [option]
    elif how == "stray":
        argv = [r.choice(["stray", "a b", "-", "x=1"])] + line
    elif how == "flag":
        argv = line + [r.choice(p.flags) + "=" + r.choice(["maybe", "7x", "x"])]
    elif how == "wrong":
        more = r.choice(p.wrong)
        argv = list(line)
        for option in [m for m in more if m.startswith("--") and m in argv and m != "--laws"]:
            del argv[argv.index(option):argv.index(option) + 2]
        argv += more
    elif how == "file":
        form, more = r.choice(p.files)
        suffix = ".csv" if isinstance(formats[form], Csv) else ".json"
        files["bad" + suffix] = formats[form].broken(r)
        more = [m.replace("{}", "bad" + suffix) for m in more]
        argv = list(line)
        for option in [m for m in more if m.startswith("--") and m in argv]:
            del argv[argv.index(option):argv.index(option) + 2]
        argv += more
        why = f"{form} file"
    elif how == "over": # an output that is the input
        form, more = r.choice(p.files)
        file = "same" + (".csv" if isinstance(formats[form], Csv) else ".json")
        files[file] = formats[form].right()
        more = [m.replace("{}", file) for m in more]
        for option in [m for m in more if m.startswith("--") and m in line]:
            del line[line.index(option):line.index(option) + 2]
        option = r.choice(writes)
        argv = line + more + [option, r.choice(["", "./", ".//", "././"]) + file]
        why = f"{option} is the {form} file"
    stream = None
    status = 2
    if how == "stream":
        argv, status, stream = line, 1, r.choice(STREAMS)
        why = f"standard output {stream}"
    for form, file in (("rates", "rates.csv"), ("facts", "facts.csv"), ("access", "access.json"),
                       ("few_corun_rows", "corun.csv"), ("arrivals", "times.csv"),
                       ("preset", "preset.json"), ("profile", "profile.json")):
        if any(file in a for a in argv):
            files[file] = formats[form].right()
    return Case(executable, p.prefix + argv if not isinstance(p.prefix, tuple) else list(p.prefix) + argv, files,
                status, why, stream)


def run(case, bin_dir, root, number_of):
    work = Path(root) / str(number_of)
    work.mkdir()
    try:
        for file, text in case.files.items():
            (work / file).write_bytes(text.encode(errors="replace"))
        before = {f.name for f in work.iterdir()}
        command = [str(bin_dir / case.program)] + [a.replace("\x00", "?") for a in case.argv]
        out = open(os.devnull if case.stream == "closed" else "/dev/full" if case.stream else work / ".out", "wb")
        environment = dict(os.environ, CUDA_VISIBLE_DEVICES="")
        with out, open(work / ".err", "wb") as err:
            try:
                status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=work,
                                        timeout=LIMIT_S, env=environment,
                                        preexec_fn=(lambda: os.close(1)) if case.stream == "closed" else None).returncode
            except subprocess.TimeoutExpired:
                return "hang", f"no answer within {LIMIT_S} s"
        said = (work / ".err").read_bytes()
        printed = b"" if case.stream else (work / ".out").read_bytes()
        text = said.decode(errors="replace")
        if status == 0:
            return "silent", f"status 0, {len(printed)} bytes printed"
        if status < 0 or status > 2:
            return "crash", f"status {status}: {text[:200]!r}"
        if status != case.status:
            return "status", f"status {status}, expected {case.status}: {text[:300]!r}"
        if text.count("\n") != 1 or not text.endswith("\n") or not text.startswith(case.program + ": "):
            if case.program != "two_tenants":
                return "line", f"not one line: {text[:300]!r}"
        if ", expected " not in text and case.program != "two_tenants":
            return "line", f"says nothing expected: {text[:300]!r}"
        if any(ord(c) < 0x20 or ord(c) == 0x7f for c in text[:-1]):
            return "line", f"control characters: {text[:300]!r}"
        if re.search(r"\d{210}", text):
            return "line", f"a number of over 210 digits: {text[:300]!r}"
        if printed and case.status == 2:
            return "printed", f"{printed[:100]!r} before {text[:200]!r}"
        left = {f.name for f in work.iterdir()} - before - {".out", ".err"}
        if left and case.status == 2:
            return "files", f"left {sorted(left)}"
        for file, text in case.files.items():
            if case.status == 2 and (work / file).read_bytes() != text.encode(errors="replace"):
                return "files", f"{file} was written to"
        return None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", type=Path, required=True)
    p.add_argument("--data", type=Path, required=True)
    p.add_argument("--count", type=int, default=200)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", help="programs that begin so")
    p.add_argument("--list", action="store_true", help="the cases, without running them")
    a = p.parse_args()
    formats = make_formats(a.data)
    programs = {k: v for k, v in make_programs(a.data.resolve()).items()
                if (a.bin / k.replace("_file", "").replace("_scenarios", "").replace("_pairs", "")
                    .replace("_corun", "").replace("_check", "")
                    .replace("sim_accuracy_partition", "sim_accuracy")).exists()}
    r = random.Random(a.seed)
    cases = [make_case(r, programs, formats, a.only) for _ in range(a.count)]
    if a.list:
        print("\n".join(map(str, cases)))
        return 0
    bad = {}
    with tempfile.TemporaryDirectory() as root, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda k: run(cases[k], a.bin.absolute(), root, k), range(len(cases)))
        for k, (case, result) in enumerate(zip(cases, results)):
            if result is None:
                continue
            kind, what = result
            bad.setdefault(kind, []).append(k)
            print(f"FAILED {kind}: case {k}: {case}\n  {what}")
            for file, text in case.files.items():
                if file.startswith("bad"):
                    print(f"  {file}: {text[:400]!r}")
    n = sum(map(len, bad.values()))
    print(f"{len(cases)} bad inputs of {len(programs)} command lines, seed {a.seed}: "
          f"{len(bad.get('silent', []))} silent, {n} not refused as they should be "
          f"({', '.join(f'{k} {len(v)}' for k, v in sorted(bad.items())) or 'none'})")
    return 1 if n else 0


if __name__ == "__main__":
    sys.exit(main())
