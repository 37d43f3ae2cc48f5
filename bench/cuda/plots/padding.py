#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what padding costs real-time kernels and gains, as gsched.gpu.padding measured it."""

import argparse
import json
import pathlib

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

SELECTIONS = [("rules 1, 2", "paper", False), ("rules 1, 2 + bandwidth", "paper", True),
              ("needed level", "needed", False), ("needed level + bandwidth", "needed", True),
              ("idle SMs", "apart", False), ("idle SMs + bandwidth", "apart", True)]


def slowdowns(pairs, by, third):
    return sorted(100 * (p["part_padded_us"] / p["part_plain_us"] - 1) for p in pairs
                  if p[by] and (p["bandwidth"] or not third))


def draw_pairs(axes, pairs):
    for name, by, third in SELECTIONS:
        values = slowdowns(pairs, by, third)
        if values:
            axes.plot(values, [(i + 1) / len(values) for i in range(len(values))],
                      label=f"{name} ({len(values)})", linestyle="--" if third else "-")
    axes.set_xlim(-5, 50)
    axes.set_xlabel("slowdown of the real-time kernel, %")
    axes.set_ylabel("share of pairs")
    axes.legend(fontsize=7)
    axes.grid(linewidth=0.3)


def draw_overhead(axes, rows):
    at = range(len(rows))
    for k, form in enumerate(("proxy", "pointer")):
        over = [100 * (r[form]["part_us"] / r["plain"]["part_us"] - 1) for r in rows]
        axes.bar([i + 0.4 * (k - 0.5) for i in at], over, 0.4, label=form)
    axes.set_xticks(list(at), [r["function"] for r in rows], rotation=30, ha="right", fontsize=6)
    axes.set_ylabel("over a plain kernel, %")
    axes.axhline(0, color="black", linewidth=0.6)
    axes.legend(fontsize=7)
    axes.grid(axis="y", linewidth=0.3)


def draw_fused(axes, rows):
    ways = ("two branches", "padded", "by rules", "quiet")
    for k, way in enumerate(ways):
        axes.bar([i + 0.2 * (k - 1.5) for i in range(len(rows))],
                 [r["us"]["in turn"] / r["us"][way] for r in rows], 0.2, label=way)
    axes.set_xticks(range(len(rows)), [f'{r["real_time"]} + {r["guest"]}' for r in rows],
                    rotation=60, ha="right", fontsize=5)
    axes.axhline(1, color="black", linewidth=0.6)
    axes.set_ylabel("one after the other / this")
    axes.legend(fontsize=7, ncols=4)
    axes.grid(axis="y", linewidth=0.3)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("results", type=pathlib.Path, help="JSON of gsched.gpu.padding")
    p.add_argument("svg", type=pathlib.Path)
    a = p.parse_args()
    if not a.results.is_file():
        p.error(f"{a.results}: no such file")
    said = json.loads(a.results.read_text())
    drawn = [(draw, said[key]) for draw, key in ((draw_overhead, "overhead"),
                                                 (draw_pairs, "pairs"), (draw_fused, "fused"))
             if said.get(key)]
    if not drawn:
        p.error(f"{a.results}: neither overhead, pairs nor fused in it, expected one")
    figure, rows = plt.subplots(len(drawn), 1, figsize=(10, 4 * len(drawn)), squeeze=False,
                                layout="constrained")
    for row, (draw, values) in zip(rows, drawn):
        draw(row[0], values)
    figure.savefig(a.svg)


if __name__ == "__main__":
    main()
