#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws p99 latency against load, and jobs at once, as gsched.gpu.head_of_line measured them."""

import argparse
import json
import pathlib

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

STYLES = {"launches": "--", "graphs": ":", "interleaved": "-.", "gsched": "-"}


def style(name):
    return next((s for start, s in STYLES.items() if name.startswith(start)), "-")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("results", type=pathlib.Path, help="JSON of gsched.gpu.head_of_line")
    p.add_argument("svg", type=pathlib.Path)
    a = p.parse_args()
    if not a.results.is_file():
        p.error(f"{a.results}: no such file")
    said = json.loads(a.results.read_text())
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    alone = said["kernels"] * said["kernel_us"] / 1e3
    for i, sweep in enumerate(said["sweeps"]):
        points = [q for q in sweep["points"] if not q["gave_up"]]
        left.plot([q["offered"] for q in points], [q["p99_us"] / 1e3 for q in points],
                  style(sweep["way"]), marker=".", color=f"C{i}",
                  label=f"{sweep['way']} (doubled at {sweep['sustained']:.0f})")
        left.axvline(sweep["sustained"], color=f"C{i}", linewidth=0.4)
    left.axhline(2 * alone, color="black", linewidth=0.5)
    left.set_ylim(0, 8 * alone)
    left.set_xlim(left=0)
    left.set_xlabel("offered load: arrival rate × time of a job alone")
    left.set_ylabel("p99 latency, ms")
    left.set_title(f"jobs of {said['kernels']} kernels of one block, {said['kernel_us']:g} µs each")
    left.legend(fontsize=7)
    ways = [(c["way"], c["jobs_at_once"]) for c in said["capacities"]]
    right.barh(range(len(ways)), [n for _, n in ways],
               color=["C2" if w.startswith("gsched") else "C0" for w, _ in ways])
    right.set_yticks(range(len(ways)), [w for w, _ in ways], fontsize=6)
    right.invert_yaxis()
    right.set_xlabel("jobs at once, of a backlog")
    figure.savefig(a.svg)


if __name__ == "__main__":
    main()
