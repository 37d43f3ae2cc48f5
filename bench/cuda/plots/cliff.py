#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what gsched.gpu.cliff found: replays after direct launches, by streams and launches, and
every other experiment as one row. Input: its JSON lines."""

import argparse
import collections
import json
import pathlib
import re
import statistics
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

CROSSED, FRESH = "#c0392b", "#2c7fb8"
LIMIT = 1.05


def read(path):
    """Median ratio by experiment, in the order of the runs; and what followed, by label."""
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
        sys.exit(f"{path}: no figures in it")
    return ({n: statistics.median(r) for n, r in ratios.items()},
            {k: statistics.median(r) for k, r in cures.items()})


def draw_counts(axes, ratios):
    found = {}
    for name, ratio in ratios.items():
        if m := re.fullmatch(r"count\.s(\d+)\.l(\d+)", name):
            found[int(m[1]), int(m[2])] = ratio
    if not found:
        axes.set_visible(False)
        return
    every = collections.Counter(n for _, n in found)  # bisections tried others on few streams
    found = {k: r for k, r in found.items() if every[k[1]] > max(every.values()) / 2}
    streams, launches = (sorted({k[i] for k in found}) for i in (0, 1))
    table = [[found.get((s, n), float("nan")) for n in launches] for s in streams]
    image = axes.imshow(table, cmap="RdBu_r", vmin=0.85, vmax=1.15, aspect="auto", origin="lower")
    for y, s in enumerate(streams):
        for x, n in enumerate(launches):
            if (s, n) in found:
                axes.text(x, y, f"{found[s, n]:.2f}", ha="center", va="center", fontsize=6)
    axes.set_xticks(range(len(launches)), launches, fontsize=7)
    axes.set_yticks(range(len(streams)), streams, fontsize=7)
    axes.set_xlabel("direct launches on each stream")
    axes.set_ylabel("streams beyond the first")
    axes.set_title("replay of 700 kernels, after / before", fontsize=9)
    axes.figure.colorbar(image, ax=axes, shrink=0.8)


def draw_rows(axes, rows, title):
    axes.barh(range(len(rows)), [r - 1 for _, r in rows], left=1,
              color=[CROSSED if r > LIMIT else FRESH for _, r in rows])
    axes.set_yticks(range(len(rows)), [n for n, _ in rows], fontsize=6)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.axvline(1, color="black", linewidth=0.6)
    axes.axvline(LIMIT, color="black", linewidth=0.6, linestyle=":")
    axes.set_xlim(min(0.95, *(r for _, r in rows)) - 0.01, max(1.2, *(r for _, r in rows)) + 0.01)
    axes.set_xlabel("after / before")
    axes.set_title(title, fontsize=9)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("results", type=pathlib.Path, help="JSON lines of gsched.gpu.cliff")
    p.add_argument("svg", type=pathlib.Path)
    a = p.parse_args()
    if not a.results.is_file():
        p.error(f"{a.results}: no such file")
    ratios, cures = read(a.results)
    others = [(n, r) for n, r in ratios.items() if not re.match(r"(count|step)\.", n)]
    later = [(f"{n}: {label}", r) for (n, label), r in cures.items()]
    rows = max(len(others), len(later) + 30, 20)
    figure, axes = plt.subplot_mosaic([["others", "counts"], ["others", "later"]],
                                      figsize=(13, 0.12 * rows + 2), layout="constrained",
                                      width_ratios=[1, 1.4],
                                      height_ratios=[1, max(1.0, len(later) / 30)])
    draw_counts(axes["counts"], ratios)
    for name, what, title in (("others", others, "what was tried, each in a fresh process"),
                              ("later", later, "what followed in the same process")):
        if what:
            draw_rows(axes[name], what, title)
        else:
            axes[name].set_visible(False)
    figure.savefig(a.svg)


if __name__ == "__main__":
    main()
