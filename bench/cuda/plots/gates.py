#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what gates cost and how soon they hold a lane, from results of gsched.gpu.gates."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "figures"))
import plotting  # noqa: E402


def ranges(panel, names, rows):
    """rows: [(style, [{p50, p99}] by name)]; bars from the median to the 99th percentile."""
    places, _ = panel.group(names, len(rows), turned=True)
    for at, (how, values) in zip(places, rows):
        panel.ranges_of([(x, v["p50"], v["p99"]) for x, v in zip(at, values)], how)


def main():
    a = plotting.script_arguments(__doc__)
    report = a.report[0]
    names = [c["program"].replace(" blocks", "").replace(" us", " µs") for c in report["cost"]]
    every = sorted(v["every"] for v in report["cost"][0]["variants"] if v["every"] > 0)
    gate = {n: plotting.series(i, f"a gate every {n} kernels" if n > 1 else "a gate at each kernel")
            for i, n in enumerate(every)}

    def of(part, n):
        return [next(v for v in c["variants"] if v["every"] == n) for c in report[part]]

    cost = plotting.Panel("open gates: added time of each kernel", y="µs", own_legend=True)
    places, width = cost.group(names, len(every), turned=True)
    for at, n in zip(places, every):
        cost.bars(at, [v["us_per_kernel"] for v in of("cost", n)], width, gate[n])
    latency = plotting.Panel("closing a gate until the lane stands, p50 to p99", y="µs", y_range=(0, None), own_legend=True)
    ranges(latency, names, [(gate[n], [v["yielded_us"] for v in of("latency", n)]) for n in every])
    beside = plotting.Panel("real-time graph beside best-effort work, p50 to p99", y="µs", log="y", own_legend=True)
    ways = {"alone": plotting.style("rt_only"), "priorities alone": plotting.style("streams_priority"),
            "yields": plotting.style("preempt", name="gates")}
    ranges(beside, names, [(how, [next(m["us"] for m in c["modes"] if m["mode"] == mode) for c in report["beside"]])
                           for mode, how in ways.items()])
    plotting.draw(a.picture, f"Gates on {report['gpu']}", [cost, latency, beside], columns=3, size=(340, 240),
                  note="programs: kernels x blocks x time of a kernel, or a model's stand-in")


if __name__ == "__main__":
    main()
