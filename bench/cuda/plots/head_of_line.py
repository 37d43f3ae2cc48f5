#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws jobs at once and the 99th percentile against load, from results of gsched.gpu.head_of_line.

Of several results, each way is taken from the last that has it.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "figures"))
import plotting  # noqa: E402

WAYS = [  # key of the style, ways in the results, the first one found is drawn; name
    ("launches", ("launches.default",), "kernel by kernel"),
    ("launches.32", ("launches.32",), "kernel by kernel, 32 connections"),
    ("interleaved", ("interleaved.default",), "kernels interleaved by software"),
    ("graphs", ("graphs.default",), "a CUDA graph for each job"),
    ("gsched", ("gsched.default.l8.s120.job", "gsched.default.l128.job"), "gsched"),
]


def main():
    a = plotting.script_arguments(__doc__)
    at_once = {c["way"]: c["jobs_at_once"] for report in a.report for c in report["capacities"]}
    sweeps = {s["way"]: s["points"] for report in a.report for s in report["sweeps"]}
    report = next(s for s in a.report if s["sweeps"])
    alone = report["kernels"] * report["kernel_us"] / 1e3
    bars = plotting.Panel("jobs that run at once, of a backlog", "jobs")
    found = [(name, at_once[way], plotting.style(key)) for key, ways, name in WAYS
             if (way := next((w for w in ways if w in at_once), None))]
    bars.rows(found, form=".1f")
    lines = plotting.Panel("99th percentile of the latency by load", "arrival rate x time of a job alone",
                           "ms", y_range=(0, 8 * alone))
    for key, ways, name in WAYS:
        way = next((w for w in ways if w in sweeps), None)
        if way is None:
            continue
        points = [(q["offered"], q["p99_us"] / 1e3) for q in sweeps[way] if not q["gave_up"]]
        if over := next((i for i, (_, y) in enumerate(points) if y > 8 * alone), None):  # leaves the panel there
            (x0, y0), (x1, y1) = points[over - 1:over + 1]
            points = points[:over] + [(x0 + (x1 - x0) * (8 * alone - y0) / (y1 - y0), 8 * alone)]
        lines.line(points, plotting.style(key, name=name))
    lines.across(2 * alone, "axis", dash=3)
    lines.text(45, 2 * alone, "twice the time alone")
    gpu = report["capacities"][0]["gpu"]
    plotting.draw(a.picture, f"Head-of-line blocking on {gpu}", [bars, lines], size=(400, 240),
                  note=f"jobs of {report['kernels']} kernels of one block, {report['kernel_us']:g} µs each")


if __name__ == "__main__":
    main()
