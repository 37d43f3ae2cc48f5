#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what serve_models.py --loads found: latency against throughput, a curve for each way.

Several results, such as those of other arrivals, become rows of one plot. Prints beside it how two
of the ways compare: the most they serve, and latencies where the other one saturates, which is the
least load at which it serves 97% of the most it ever does. --over compares all ways with one. Of
repeated runs the medians count.
"""

import json
import statistics
import subprocess
import sys

import ways
import workload

COLOURS = {"srpt+deficit": "#C02020", "srpt": "#E08020", "direct": "#2050B0", "single": "#20A0C0",
           "torch-direct": "#7030A0", "eager-streams": "#208040", "eager-single": "#90B020",
           "fifo": "#606060", "rr": "#A06040", "edf": "#D060A0", "sjf": "#B0A000",
           "deficit": "#303030", "boost": "#00A070"}


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
                said = json.load(f)
            a.sweeps.append(said.get("sweep") or [said])
            mix = a.sweeps[-1][0]["workload"]["mix"]
            if a.model and a.model not in mix:
                p.error(f'{name}: no model "{a.model}", expected one of {", ".join(mix)}')
        except (OSError, ValueError, KeyError, AttributeError) as e:
            p.error(f"{name}: {str(e).splitlines()[0]}, expected results of serve_models.py")
    return a


def chosen(a, sweep):
    """Those of its ways that were asked for; of all, in the order of ways.ALL."""
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
    """Lines that say how ours does beside the other."""
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
    rows, blocks, plots = len(a.sweeps), "", []
    for i, sweep in enumerate(a.sweeps):
        present = chosen(a, sweep)
        for w in present:
            points = "\n".join(" ".join(f"{v:.6g}" for v in row)
                               for row in curve(sweep, w, a.model))
            blocks += f"$d{i}_{present.index(w)} << END\n{points}\nEND\n"
        for column, what in ((3, "mean"), (4, "p99")):
            law = f"{what} latency, {sweep[0]['workload']['arrivals']}"
            plots.append(f"set title '{law}'\nset ylabel '{what}, ms'\nplot " + ", ".join(
                f"$d{i}_{k} using 2:{column} with linespoints pt 7 ps 0.5 "
                f"lw {3 if w == a.ours else 1.6} lc rgb '{COLOURS[w.split(':')[0]]}' "
                + (f"title '{w}'" if len(plots) == 0 else "notitle")
                for k, w in enumerate(present)))
    kind = ("pngcairo font 'Sans,11'" if a.plot.endswith(".png") else
            "svg font 'Helvetica,Arial,sans-serif,13' background 'white'")
    about = f"{a.sweeps[0][0]['device']}: {a.model or 'all requests'}, latency against throughput"
    script = (f"set encoding utf8\nset terminal {kind} size 1100,{60 + 380 * rows} noenhanced\n"
              f"set output '{a.plot}'\nset logscale y\nset format y '%g'\nset grid\n"
              "set xlabel 'requests served a second'\nset xrange [0:*]\n" + blocks +
              f"set multiplot layout {rows},2 title '{about}' margins screen 0.07,0.84,"
              f"{0.16 / rows:.3f},{1 - 0.2 / rows:.3f} spacing screen 0.08,{0.3 / rows:.3f}\n"
              "set key at screen 0.85,0.9 left top Left reverse samplen 2\n"
              + "\n".join(plots) + "\nunset multiplot\n")
    done = subprocess.run(["gnuplot"], input=script, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0 or "error" in done.stderr:
        print(f"plot_sweep: gnuplot: {done.stderr.strip()}", file=sys.stderr)
        return False
    return True


def main():
    a = options()
    for sweep in a.sweeps:
        print("\n".join(compare(a, sweep) + (ratios(a, sweep) if a.over else [])))
    try:
        return 0 if not a.plot or draw(a) else 1
    except FileNotFoundError:
        print("plot_sweep: gnuplot is not installed, expected it for --plot", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
