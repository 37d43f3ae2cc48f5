#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what gates cost and how soon they hold, as gsched.gpu.gates measured it."""

import argparse
import json
import pathlib

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402


def bars(axes, names, series, label):
    width = 0.8 / len(series)
    for k, (called, values) in enumerate(series):
        at = [i + (k - (len(series) - 1) / 2) * width for i in range(len(names))]
        axes.bar(at, values, width, label=called)
    axes.set_ylabel(label)
    axes.set_xticks(range(len(names)), names, rotation=20, ha="right", fontsize=7)
    axes.grid(axis="y", linewidth=0.3)
    axes.legend(fontsize=7)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("results", type=pathlib.Path, help="JSON of gsched.gpu.gates")
    p.add_argument("svg", type=pathlib.Path)
    a = p.parse_args()
    if not a.results.is_file():
        p.error(f"{a.results}: no such file")
    said = json.loads(a.results.read_text())
    names = [c["program"] for c in said["cost"]]
    every = [v["every"] for v in said["cost"][0]["variants"] if v["every"] > 0]
    figure, rows = plt.subplots(3, 1, figsize=(10, 10), layout="constrained")

    def of(part, what, n):
        return [next(what(v) for v in c["variants"] if v["every"] == n) for c in said[part]]

    bars(rows[0], names,
         [(f"every {n}", of("cost", lambda v: v["us_per_kernel"], n)) for n in every],
         "open gates: µs a kernel")
    bars(rows[1], names,
         [(f"every {n}: {q}", of("latency", lambda v, q=q: v["yielded_us"][q], n))
          for n in every for q in ("p50", "p99")],
         "yield to standing: µs")
    modes = [m["mode"] for m in said["beside"][0]["modes"]]
    bars(rows[2], names,
         [(f"{m}: {q}", [next(x["us"][q] for x in c["modes"] if x["mode"] == m)
                         for c in said["beside"]]) for m in modes for q in ("p50", "p99")],
         "real-time graph: µs")
    rows[0].set_title(f"gates on {said['gpu']}")
    figure.savefig(a.svg)


if __name__ == "__main__":
    main()
