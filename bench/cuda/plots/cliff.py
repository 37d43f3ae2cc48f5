#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws results of gsched.gpu.cliff, or writes them as Markdown tables.

The picture has five experiments, and the replays after direct launches by streams and launches; the
tables have every experiment. Input: JSON lines.
"""

import argparse
import collections
import json
import pathlib
import re
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "figures"))
import plotting  # noqa: E402

SLOW = plotting.Style("slower", plotting.TONES["limit"], 7)
FAST = plotting.Style("as before", plotting.TONES["main"], 6)
LIMIT = 1.05  # of a ratio of times: above, the process is on the slow side


def read(path):
    """Median ratio by experiment, in the order of the runs; and those of later replays, by label."""
    ratios, cures = collections.OrderedDict(), {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            row = json.loads(line)
        except ValueError:
            sys.exit(f"{path}:{number}: no JSON, expected the lines of gsched.gpu.cliff --json")
        if "ratio" not in row:
            continue
        name = row["experiment"]
        ratios.setdefault(name, []).append(row["ratio"])
        for mark in row["marks"][2 if row["marks"][0]["label"] == "before" else 1:]:
            if row["before_us"] > 0:
                cures.setdefault((name, mark["label"]), []).append(
                    mark["graph700_us"] / row["before_us"])
    if not ratios:
        sys.exit(f"{path}: no ratios in it, expected the lines of gsched.gpu.cliff --json")
    return ({n: statistics.median(r) for n, r in ratios.items()},
            {k: statistics.median(r) for k, r in cures.items()})


BARS = [  # what the five bars show: text, experiment, label of a later replay in it
    ("nothing in between", "control.nothing", None),
    ("4000 direct launches on one stream", "sequence.4000A", None),
    ("graphs on 64 streams", "graph.ten_kernels.s64.l20", None),
    ("8 direct launches on each of 2 streams", "sequence.8AB", None),
    ("the same, then another process\nmakes a context", "cure.other_process_context", -1),
]


def draw(picture, ratios, cures):
    bars = plotting.Panel("replay of 700 small kernels", "time after / before")
    found = []
    for text, name, later in BARS:
        ratio = ratios.get(name) if later is None else next(
            (r for (n, _), r in reversed(cures.items()) if n == name), None)
        if ratio is not None:
            found.append((text, ratio, SLOW if ratio > LIMIT else FAST))
    bars.rows(found, form=".3f")

    tried = {(int(m[1]), int(m[2])): ratio for name, ratio in ratios.items()
             if (m := re.fullmatch(r"count\.s(\d+)\.l(\d+)", name))}
    counts = plotting.Panel("direct launches on several streams in turn", "launches on each stream",
                            "streams beyond the first", log="xy")
    for how, slow in ((FAST, False), (SLOW, True)):
        counts.points([(n, s) for (s, n), r in tried.items() if (r > LIMIT) == slow], how)
    plotting.draw(picture, "Direct launches make later graph replays slower, NVIDIA H200", [bars, counts])


BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
GROUPS = [  # what a table's rows begin with, and its heading
    (("control", "first_stream", "streams_unused"), "Controls"),
    (("sequence",), "Sequences of operations"),
    (("stream", "order", "green", "context"), "Streams, order, contexts"),
    (("kernel",), "Kernels"),
    (("graph", "avoid"), "Graphs"),
    (("other",), "Other operations, 50 on each of 12 streams"),
    (("process",), "Other processes on the GPU"),
    (("flags", "env"), "Flags and environment"),
    (("cure",), "Cures"),
    (("speed", "direct"), "What becomes slower"),
    (("base",), "The same graph in other processes and contexts, uncrossed"),
]


class Row:
    """All runs of one experiment."""

    def __init__(self):
        self.before, self.after, self.ratio = [], [], []
        self.later, self.extras = {}, {}

    def add(self, row):
        self.before.append(row["before_us"])
        self.after.append(row["after_us"])
        self.ratio.append(row["ratio"])
        marks = row["marks"]
        for mark in marks[2 if marks[0]["label"] == "before" else 1:]:
            self.later.setdefault(mark["label"], []).append(mark["graph700_us"])
        for label, value in row.get("extras", {}).items():
            self.extras.setdefault(label, []).append(value)

    def markdown(self, name):
        ratio = statistics.median(self.ratio)
        # Where the repeats of an experiment differ: how many of them are slower.
        crossed = sum(r > LIMIT for r in self.ratio)
        word = "yes" if crossed == len(self.ratio) else "no" if crossed == 0 else (
            f"{crossed} of {len(self.ratio)}")
        then = [f"{k} {statistics.median(v):.1f}" for k, v in self.later.items()]
        then += [f"{k} {statistics.median(v):.3g}" for k, v in self.extras.items()]
        return (f"| `{name}` | {statistics.median(self.before):.1f} "
                f"| {statistics.median(self.after):.1f} | {ratio:.3f} | {word} "
                f"| {', '.join(then)} |")


def rows_of(path):
    rows, failed = collections.OrderedDict(), []
    for line in path.read_text().splitlines():
        row = json.loads(line)
        if "ratio" in row:
            rows.setdefault(row["experiment"], Row()).add(row)
        else:
            failed.append(row["experiment"])
    return rows, failed


def count_table(rows):
    found = {(int(m[1]), int(m[2])): row for name, row in rows.items()
             if (m := re.fullmatch(r"count\.s(\d+)\.l(\d+)", name))}
    if not found:
        return []
    out = ["### Streams in turn: direct launches in all", "",
           "| streams | most that did not cross | fewest that did | one at a time: crossed at |",
           "|---:|---:|---:|---:|"]
    for streams in sorted({s for s, _ in found}):
        mine = {n * streams: statistics.median(r.ratio) > LIMIT
                for (s, n), r in found.items() if s == streams}
        kept = max((n for n, yes in mine.items() if not yes), default="-")
        gone = min((n for n, yes in mine.items() if yes), default="never")
        step = rows.get(f"step.s{streams}")
        at = "-" if step is None else (
            f"{statistics.median(step.extras['crossed_at_launch']):.0f}"
            if "crossed_at_launch" in step.extras else "never (240)")
        out.append(f"| {streams} | {kept} | {gone} | {at} |")
    return out + [""]


def table(path):
    rows, failed = rows_of(path)
    out = count_table(rows)
    for starts, heading in GROUPS:
        mine = [(n, r) for n, r in rows.items() if n.split(".")[0] in starts]
        if not mine:
            continue
        out += [f"### {heading}", "",
                "| experiment | before | after | ratio | crossed | later |",
                "|---|---:|---:|---:|---|---|"]
        out += [r.markdown(n) for n, r in mine] + [""]
    normal = [b for n, r in rows.items() if not n.startswith(("env", "flags", "speed")) for b in
              r.before if b > 0]
    if normal:
        out.append(f"A replay before anything, over {len(normal)} processes with no environment of "
                   f"their own: {min(normal):.1f} to {max(normal):.1f} us, median "
                   f"{statistics.median(normal):.1f} us.")
    if failed:
        out += ["", "Failed: " + ", ".join(f"`{n}`" for n in failed) + "."]
    return "\n".join(out).rstrip() + "\n"


def update(document, text):
    whole = document.read_text()
    if whole.count(BEGIN) != 1 or whole.count(END) != 1 or whole.index(BEGIN) > whole.index(END):
        sys.exit(f"{document}: expected one line {BEGIN} and one line {END} after it")
    head, rest = whole.split(BEGIN)
    document.write_text(f"{head}{BEGIN}\n\n{text}\n{END}{rest.split(END)[1]}")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("results", type=pathlib.Path, help="JSON lines of gsched.gpu.cliff")
    p.add_argument("svg", type=pathlib.Path, nargs="?", help="draws to this file")
    p.add_argument("--table", action="store_true", help="prints Markdown tables")
    p.add_argument("--update", type=pathlib.Path, metavar="DOCUMENT",
                   help="replaces the tables between this document's two marks")
    a = p.parse_args()
    if not a.results.is_file():
        p.error(f"{a.results}: no such file")
    if not (a.svg or a.table or a.update):
        p.error("nothing to write, expected a file to draw to, --table or --update")
    ratios, cures = read(a.results)
    if a.table:
        print(table(a.results), end="")
    if a.update:
        if not a.update.is_file():
            p.error(f"{a.update}: no such file")
        update(a.update, table(a.results))
    if a.svg:
        draw(a.svg, ratios, cures)


if __name__ == "__main__":
    main()
