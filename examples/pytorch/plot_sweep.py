#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws results of serve_models.py --loads: latency by throughput, a curve for each way.

Several results, such as those of other arrivals, become rows of one plot. Also prints a comparison of
two ways: their largest throughput, and their latencies where the other one saturates, which is the
lowest load at which it serves 97% of its largest throughput. --over compares all ways with one. Repeated
runs count by their medians.
"""

import json
import pathlib
import statistics
import sys

import ways
import workload

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench/figures"))
import plotting  # noqa: E402

def options():
    p = workload.Parser(description=__doc__.splitlines()[0])
    p.add_argument("results", nargs="+", help="JSON of serve_models.py")
    p.add_argument("--plot", metavar="FILE", type=workload.writable, help=".svg or .png")
    p.add_argument("--model", help="its latencies in place of those of all requests")
    p.add_argument("--ways", help="only these, between commas")
    p.add_argument("--over", metavar="WAY",
                   help="print each way's mean and p99 over this way's, for each load")
    p.add_argument("--ours", default="srpt+deficit")
    p.add_argument("--other", default="direct")
    a = p.parse_args()
    a.only = a.ways.split(",") if a.ways else None
    a.sweeps = []
    for name in a.results:
        try:
            with open(name, encoding="utf-8") as f:
                report = json.load(f)
            a.sweeps.append(report.get("sweep") or [report])
            mix = a.sweeps[-1][0]["workload"]["mix"]
            if a.model and a.model not in mix:
                p.error(f'{name}: no model "{a.model}", expected one of {", ".join(mix)}')
        except (OSError, ValueError, KeyError, AttributeError) as e:
            p.error(f"{name}: {str(e).splitlines()[0]}, expected results of serve_models.py")
    return a


def chosen(a, sweep):
    """Its ways, or those of --ways; in the order of ways.ALL."""
    known = {r["way"]: None for d in sweep for r in d["runs"]}
    return [w for w in a.only if w in known] if a.only else sorted(
        known, key=lambda w: ways.ALL.index(w.split(":")[0]))


def curve(sweep, way, model=None):
    """[(load, requests/s, mean ms, p99 ms)], rising with load."""
    rows = []
    for d in sweep:
        runs = [r for r in d["runs"] if r["way"] == way]
        if runs:
            of = [(r["per_model"][model] if model else r)["latency_us"] for r in runs]
            rows.append((d["workload"]["load"],
                         statistics.median(r["throughput_per_s"] for r in runs),
                         *(statistics.median(x[k] for x in of) / 1e3 for k in ("mean", "p99"))))
    return sorted(rows)


def compare(a, sweep):
    """Lines that compare --ours with --other."""
    w = sweep[0]["workload"]
    ours, other = (curve(sweep, x, a.model) for x in (a.ours, a.other))
    both = [(x, y) for x in ours for y in other if x[0] == y[0]]
    lines = [f"{sweep[0]['device']}, {w['arrivals']}, {w['requests']} requests a run, "
             f"{len(w['mix'])} models, connections "
             f"{sweep[0]['environment']['CUDA_DEVICE_MAX_CONNECTIONS'] or 'default'}"
             + (f": {a.model}" if a.model else "")]
    if not both:
        return lines + [f"  {a.ours} and {a.other} are not both in it"]
    most = max(y[1] for y in other)
    full = next(y[0] for y in other if y[1] >= 0.97 * most)
    mine = max(x[1] for x in ours)
    lines.append(f"  most served: {a.ours} {mine:.0f}/s, {a.other} {most:.0f}/s, ratio "
                 f"{mine / most:.3f}")
    lines.append(f"  {a.other} saturates at load {full:.2f}; latency of {a.other} over {a.ours}'s:")
    for x, y in both:
        lines.append(f"    load {x[0]:5.2f}: mean {y[2]:9.3f} / {x[2]:9.3f} ms = "
                     f"{y[2] / x[2]:6.2f}, p99 {y[3]:9.3f} / {x[3]:9.3f} ms = {y[3] / x[3]:6.2f}"
                     + ("  <- saturation" if x[0] == full else ""))
    return lines


def ratios(a, sweep):
    """A table: for each load, each way's mean and p99 over those of a.over."""
    base = {row[0]: row for row in curve(sweep, a.over, a.model)}
    if not base:
        return [f"  {a.over} is not in it"]
    loads = sorted(base)
    lines = [f"  mean / p99 over {a.over}'s:",
             "    " + " " * 14 + "".join(f"{f'load {l:.2f}':>16}" for l in loads)]
    for way in chosen(a, sweep):
        of = {row[0]: row for row in curve(sweep, way, a.model)}
        lines.append(f"    {way:14}" + "".join(
            f"{f'{of[l][2] / base[l][2]:.2f} / {of[l][3] / base[l][3]:.2f}':>16}" if l in of
            else f"{'-':>16}" for l in loads))
    return lines


def draw(a):
    panels = []
    for sweep in a.sweeps:
        for k, what in ((2, "mean"), (3, "p99")):
            panel = plotting.Panel(f"{what} latency, {sweep[0]['workload']['arrivals']}", "requests served a second",
                                   f"{what}, ms", log="y")
            for way in chosen(a, sweep):
                panel.line([(row[1], row[k]) for row in curve(sweep, way, a.model)],
                           plotting.style(way, width=3 if way == a.ours else 1.8))
            panels.append(panel)
    plotting.draw(a.plot, f"{a.sweeps[0][0]['device']}: latency of {a.model or 'all requests'} by throughput", panels,
                  size=(430, 260))


def main():
    a = options()
    for sweep in a.sweeps:
        print("\n".join(compare(a, sweep) + (ratios(a, sweep) if a.over else [])))
    if a.plot:
        try:
            draw(a)
        except RuntimeError as e:
            print(f"plot_sweep: {e}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
