#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws results of realtime.py and two_processes.py: best-effort throughput by real-time slowdown, a
panel for each pair of models.

x is the mean real-time latency over that alone; the bar goes from the median to the 99th percentile,
over the same mean. y is the best-effort rate over that alone. "time left over" is the share of time
without a real-time request: a way that uses all of it and slows no request is on that mark.
"""

import argparse
import json
import pathlib
import sys

import workload

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench/figures"))
import plotting  # noqa: E402

WAYS = ("seq", "streams", "streams_priority", "preempt", "preempt_pad", "time_slicing", "mps", "mps_50", "mps_25",
        "mps_priority")
SIZES = {"preempt": 1.7, "preempt_pad": 0.8}  # these two are often in one place
LEFT_OVER = "left over"


def options():
    p = workload.Parser(description=__doc__,
                        formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("results", help="JSON of realtime.py")
    p.add_argument("processes", nargs="?", help="JSON of two_processes.py")
    p.add_argument("--plot", metavar="FILE", type=workload.writable, help=".svg or .png")
    p.add_argument("--pairs", help="only these, between commas")
    a = p.parse_args()
    a.points, a.device = {}, ""
    for name, of, what in ((a.results, of_ways, "realtime.py, with rt_only and be_only"),
                           (a.processes, of_settings, "two_processes.py")):
        if name is None:
            continue
        try:
            with open(name, encoding="utf-8") as f:
                report = json.load(f)
            for pair, points in of(report).items():
                a.points.setdefault(pair, {}).update(points)
            a.device = a.device or report["device"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
            p.error(f"{name}: {str(e).splitlines()[0]}, expected results of {what}")
    if a.pairs:
        unknown = [x for x in a.pairs.split(",") if x not in a.points]
        if unknown:
            p.error(f'--pairs: "{unknown[0]}", expected some of {", ".join(a.points)}')
        a.points = {x: a.points[x] for x in a.pairs.split(",")}
    return a


def point(rt, alone, kept):
    """(mean, p50 and p99 over the mean alone, best-effort rate over that alone)."""
    return (*(rt[k] / alone for k in ("mean", "p50", "p99")), kept)


def of_ways(report):
    """{pair: {way: point}} of realtime.py."""
    pairs = {}
    for pair, facts in report["pairs"].items():
        alone, rate = facts["rt_only"]["rt"]["mean"], facts["be_only"]["be_per_s"]
        pairs[pair] = {way: point(f["rt"], alone, f["be_per_s"] / rate)
                       for way, f in facts.items() if way in WAYS}
        pairs[pair][LEFT_OVER] = (1, 1, 1, facts["rt_only"]["left_over"])
    return pairs


def of_settings(report):
    """{pair: {setting: point}} of two_processes.py."""
    pairs = {}
    for setting, facts in report["settings"].items():
        for pair, f in facts.items():
            alone = f["rt"]["mean"] / f["slowdown"]
            pairs.setdefault(pair, {})[setting] = point(f["rt"], alone, f["be_kept"])
    return pairs


def print_rows(points):
    for pair, ways in points.items():
        print(f"{pair}\n  {'way':17} slower     p50     p99   best effort kept")
        for way, (mean, p50, p99, kept) in ways.items():
            print(f"  {way:17} {mean:6.3f} {p50:7.3f} {p99:7.3f} {kept:18.3f}")


def draw(a):
    panels = []
    for pair, of in a.points.items():
        panel = plotting.Panel(pair.replace("+", " beside "), "real-time slowdown: mean, and p50 to p99",
                               "best-effort rate over that alone", log="x", y_range=(0, None))
        for way in WAYS:
            if way in of:
                mean, p50, p99, kept = of[way]
                panel.spans([(mean, kept, p50, p99)], plotting.style(way), SIZES.get(way, 1))
        if LEFT_OVER in of:
            panel.points([(of[LEFT_OVER][0], of[LEFT_OVER][3])], plotting.Style("time left over", plotting.TONES["mark"], 1), 1.4)
        panels.append(panel)
    plotting.draw(a.plot, f"Real-time requests beside best-effort work, {a.device}", panels, size=(400, 270))


def main():
    a = options()
    print_rows(a.points)
    if a.plot:
        try:
            draw(a)
        except RuntimeError as e:
            print(f"plot_realtime: {e}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
