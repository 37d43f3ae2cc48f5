#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what padding costs real-time kernels and gains, from results of gsched.gpu.padding.

All panels show distributions: over kernels, or over pairs of a real-time and a best-effort kernel.
"bandwidth" are the pairs that the rule on memory bandwidth lets run together.
"""

import dataclasses
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "figures"))
import plotting  # noqa: E402

SELECTIONS = [("rules 1 and 2", "paper"), ("least occupancy", "needed"), ("idle SMs only", "apart")]


def slowdowns(pairs, by, bandwidth):
    return [100 * (p["part_padded_us"] / p["part_plain_us"] - 1) for p in pairs
            if p[by] and "part_padded_us" in p and (p["bandwidth"] or not bandwidth)]


def distinct(panel, rows):
    """Distributions of (name, values, style); those that are nearly equal become one line."""
    drawn = []
    for name, values, how in rows:
        values = sorted(values)
        same = next((d for d in drawn if len(d[1]) == len(values)
                     and all(abs(x - y) <= 0.01 * max(1, abs(x)) for x, y in zip(values, d[1]))), None)
        if same:
            same[0] += " = " + name
        elif values:
            drawn.append([name, values, how])
    for name, values, how in drawn:
        panel.steps(values, dataclasses.replace(how, name=f"{name} ({len(values)})"))


def main():
    a = plotting.script_arguments(__doc__)
    report, panels = a.report[0], []
    if report.get("overhead"):
        p = plotting.Panel(f"real-time kernel with nothing padded, {len(report['overhead'])} kernels",
                           "over the plain kernel, %", "share of kernels", own_legend=True)
        for form, how in (("proxy", plotting.style("gsched", name="proxy kernel")),
                          ("pointer", plotting.series(1, "function pointer"))):
            p.steps([100 * (r[form]["part_us"] / r["plain"]["part_us"] - 1) for r in report["overhead"]], how)
        p.upright(0, "axis")
        panels.append(p)
    if any("part_padded_us" in r for r in report.get("pairs", [])):
        p = plotting.Panel("real-time kernel, padded", "slowdown, % (up to 50)", "share of pairs", x_range=(-5, 50),
                           y_range=(0, 1.03), own_legend=True)
        distinct(p, [(name + more, slowdowns(report["pairs"], by, bandwidth), plotting.series(i, "", dash=1 + bandwidth))
                     for i, (name, by) in enumerate(SELECTIONS)
                     for bandwidth, more in ((False, ""), (True, ", bandwidth"))])
        panels.append(p)
    if report.get("fused"):
        p = plotting.Panel(f"both kernels, {len(report['fused'])} pairs", "time one after the other / time together",
                           "share of pairs", own_legend=True)
        ways = (("two branches", "two branches of a graph", plotting.series(1, "")), ("padded", "all that fit", plotting.series(2, "")),
                ("by rules", "rules 1 and 2", plotting.series(4, "")), ("quiet", "as gsched does", plotting.style("gsched")))
        distinct(p, [(name, [r["us"]["in turn"] / r["us"][way] for r in report["fused"]], how) for way, name, how in ways])
        p.upright(1, "axis")
        panels.append(p)
    if not panels:
        sys.exit(f"{a.results[0]}: neither overhead, pairs nor fused in it, expected one")
    plotting.draw(a.picture, f"Padding real-time kernels on {report['gpu']}", panels, columns=3, size=(340, 250))


if __name__ == "__main__":
    main()
