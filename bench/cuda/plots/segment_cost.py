#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what segments cost over whole graphs, as gsched.gpu.segment_cost measured it."""

import argparse
import json
import pathlib

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("results", type=pathlib.Path, help="JSON of gsched.gpu.segment_cost")
    p.add_argument("svg", type=pathlib.Path)
    a = p.parse_args()
    if not a.results.is_file():
        p.error(f"{a.results}: no such file")
    said = json.loads(a.results.read_text())
    models = said["models"]
    variants = sorted({(v["in_flight"] or 99, v["in_flight"]) for m in models
                       for v in m["variants"] if v["target_us"] > 0})
    targets = sorted({v["target_us"] for m in models for v in m["variants"] if v["target_us"] > 0})
    figure, rows = plt.subplots(len(targets), 1, figsize=(10, 2.4 * len(targets)), sharex=True,
                                squeeze=False, layout="constrained")
    width = 0.8 / len(variants)
    for axes, target in zip((r[0] for r in rows), targets):
        for k, (_, n) in enumerate(variants):
            over = [next((100 * (v["median_us"] / m["whole_us"] - 1) for v in m["variants"]
                          if v["target_us"] == target and v["in_flight"] == n), 0) for m in models]
            axes.bar([i + (k - (len(variants) - 1) / 2) * width for i in range(len(models))], over,
                     width, label=f"{n} in flight" if n else "dispatcher, 2 in flight")
        axes.axhline(0, color="black", linewidth=0.6)
        axes.set_ylabel(f"{target:g} µs: %")
        axes.grid(axis="y", linewidth=0.3)
    rows[0][0].legend(fontsize=7, ncols=len(variants))
    rows[0][0].set_title("host time over one whole-graph replay with a final notification")
    rows[-1][0].set_xticks(range(len(models)), [m["model"] for m in models], rotation=30,
                           ha="right", fontsize=8)
    figure.savefig(a.svg)


if __name__ == "__main__":
    main()
