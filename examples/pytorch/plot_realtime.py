#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what realtime.py found, and two_processes.py beside it: what real-time requests lose
against what best-effort work keeps, a panel for each pair of models.

Right is slower, by the mean over that alone; the bar goes from the median to p99, over the same
mean. Up is more best-effort work, over its rate alone. "left over" is the time in which no
real-time request is there: a way that uses all of it and slows no request is on that mark.
"""

import argparse
import json
import subprocess
import sys

import workload

COLOURS = {"seq": "#606060", "streams": "#2050B0", "streams_priority": "#20A0C0",
           "preempt": "#C02020", "preempt_pad": "#E08020", "time_slicing": "#303030",
           "mps": "#7030A0", "mps_50": "#A060C0", "mps_25": "#D0A0E0", "mps_priority": "#208040"}
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
                said = json.load(f)
            for pair, points in of(said).items():
                a.points.setdefault(pair, {}).update(points)
            a.device = a.device or said["device"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
            p.error(f"{name}: {str(e).splitlines()[0]}, expected results of {what}")
    if a.pairs:
        unknown = [x for x in a.pairs.split(",") if x not in a.points]
        if unknown:
            p.error(f'--pairs: "{unknown[0]}", expected some of {", ".join(a.points)}')
        a.points = {x: a.points[x] for x in a.pairs.split(",")}
    return a


def point(rt, alone, kept):
    """(mean, p50 and p99 over what the mean is alone, part of the best-effort rate)."""
    return (*(rt[k] / alone for k in ("mean", "p50", "p99")), kept)


def of_ways(said):
    """{pair: {way: point}} of realtime.py."""
    pairs = {}
    for pair, facts in said["pairs"].items():
        alone, rate = facts["rt_only"]["rt"]["mean"], facts["be_only"]["be_per_s"]
        pairs[pair] = {way: point(f["rt"], alone, f["be_per_s"] / rate)
                       for way, f in facts.items() if way in COLOURS}
        pairs[pair][LEFT_OVER] = (1, 1, 1, facts["rt_only"]["left_over"])
    return pairs


def of_settings(said):
    """{pair: {setting: point}} of two_processes.py."""
    pairs = {}
    for setting, facts in said["settings"].items():
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
    panels = len(a.points)
    columns = min(panels, 2)
    rows = (panels + columns - 1) // columns
    ways = [w for w in COLOURS if any(w in of for of in a.points.values())]
    plots = []
    for pair, of in a.points.items():
        curves = ["'-' using 1:2 with points pt 2 ps 1.4 lw 1.5 lc rgb '#808080' "
                  f"title '{LEFT_OVER}'"]
        mark = of.get(LEFT_OVER)
        data = [f"{mark[0]} {mark[3]}" if mark else "NaN NaN"]
        for w in ways:
            curves.append(f"'-' using 1:4:2:3 with xerrorbars pt 7 ps 1.1 lw 1.6 lc rgb "
                          f"'{COLOURS[w]}' title '{w}'")
            data.append(" ".join(f"{v:.6g}" for v in of[w]) if w in of else "NaN NaN NaN NaN")
        key = ("unset key" if plots else
               "set key at screen 0.99,0.9 right top Left reverse samplen 1")
        plots.append(f"set title '{pair.replace('+', ' beside ')}'\n{key}\nplot "
                     + ", ".join(curves) + "\n" + "\n".join(d + "\ne" for d in data))
    kind = ("pngcairo font 'Sans,11'" if a.plot.endswith(".png") else
            "svg font 'Helvetica,Arial,sans-serif,13' background 'white'")
    width = 220 + 420 * columns
    script = (f"set encoding utf8\nset terminal {kind} size {width},{70 + 370 * rows} noenhanced\n"
              f"set output '{a.plot}'\nset grid\n"
              "set logscale x 2\nset format x '%g'\nset yrange [0:*]\n"
              "set xlabel 'real-time slowdown: mean, and p50 to p99'\n"
              "set ylabel 'best-effort rate over that alone'\n"
              f"set multiplot layout {rows},{columns} title '{a.device}' margins screen "
              f"0.08,{1 - 200 / width:.3f},{0.16 / rows:.3f},{1 - 0.2 / rows:.3f} "
              f"spacing screen 0.09,{0.34 / rows:.3f}\n" + "\n".join(plots) + "\nunset multiplot\n")
    done = subprocess.run(["gnuplot"], input=script, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0 or "error" in done.stderr:
        print(f"plot_realtime: gnuplot: {done.stderr.strip()}", file=sys.stderr)
        return False
    return True


def main():
    a = options()
    print_rows(a.points)
    try:
        return 0 if not a.plot or draw(a) else 1
    except FileNotFoundError:
        print("plot_realtime: gnuplot is not installed, expected it for --plot", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
