#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws how fast kernels leave a GPU and come back, from results of gsched.gpu.preemption.

Above: distributions of the time from the decision to preempt until all blocks are gone, until an
urgent kernel runs, and from the decision to resume until a block runs again. Below: what preamble
and checkpoints add to kernels that are not preempted.
"""

import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "figures"))
import plotting  # noqa: E402

VARIANTS = {"not filled in": "declared, not filled in", "preamble": "preamble",
            "preamble of a resumed launch": "preamble, resumed", "preamble, checkpoints": "preamble + checkpoints",
            "checkpoints decide": "checkpoints decide"}
SHORT = ("empty", "chain, 2 us")  # their cost is given in time


def name_of(row):
    for long, short in (("decision -> all 528 blocks gone", "gsched"), ("urgent launch -> running, ", ""),
                        ("restore -> first unfinished block running, ", ""), ("priority alone, blocks of 200 us",
                        "priority alone")):
        row = row.replace(long, short)
    return row.replace(" of the host", "")


def distributions(title, rows, limit=None):
    panel = plotting.Panel(title, "µs", "share", log="x", y_range=(0, 1.03), own_legend=True)
    for i, r in enumerate(rows):
        plotting.quantile_steps(panel, r, plotting.series(
            i, f"{name_of(r['name'])}: p50 {r['p50_us']:.1f}, p99 {r['p99_us']:.1f}"))
    if limit:
        panel.upright(limit, dash=3)
    return panel


def costs(title, x, rows, key, scale):
    panel = plotting.Panel(title, x)
    values, notes = [], []
    for variant, name in VARIANTS.items():
        of = [scale * r[key] for r in rows if r["variant"] == variant]
        if of:
            values.append((name, statistics.median(of), plotting.style("gsched")))
            notes.append(f"  ({min(of):.1f} to {max(of):.1f})")
    panel.rows(values, ".1f", notes)
    return panel


def main():
    a = plotting.script_arguments(__doc__)
    report = a.report[0]
    short = [r for r in report["costs"] if r["kernel"] in SHORT]
    rest = [r for r in report["costs"] if r["kernel"] not in SHORT]
    plotting.draw(a.picture, f"Kernels that leave at checkpoints, on {report['gpu']}: {report['gone'][0]['n']} preemptions", [
        distributions("decision to preempt until all blocks are gone", report["gone"], 6),
        distributions("launch of an urgent kernel until it runs", report["urgent"]),
        distributions("decision to resume until a block runs", [report["restore"], report["restore_by_flag"]], 15),
        costs("kernels of 10 µs and more: median (least to most)", "% of the plain kernel", rest, "over_plain", 100),
        costs("kernels of at most 2 µs: median (least to most)", "µs more than the plain kernel", short,
              "over_plain_us", 1)], columns=3, size=(380, 240), note="dotted: the goal")


if __name__ == "__main__":
    main()
