#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what instrumentation costs on a GPU, from results of gsched.gpu.instrumentation.

Above, as figure 15 of the Paella paper (SOSP 2023, doi:10.1145/3600006.3613163): distributions of
the time from the launch of an empty kernel until the host has waited for it. Below: kernels back
to back, median, with bars from the 10th to the 90th percentile.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "figures"))
import plotting  # noqa: E402


def style_of(name, rivals):
    try:
        return plotting.style(name)
    except KeyError:
        rivals.setdefault(name, len(rivals))
        return plotting.series(rivals[name] + 1, name, dash=2, width=1)


def main():
    a = plotting.script_arguments(__doc__, lambda p: (
        p.add_argument("--threads", type=int, help="of a block; default: the first in the file"),
        p.add_argument("--rivals", action="store_true", help="draw the other ways, too")))
    report, others = a.report[0], {}
    threads = a.threads or report["latency"][0]["threads"]
    rows = {key: [r for r in report[key] if r["threads"] == threads and (a.rivals or not r["rival"])]
            for key in ("latency", "back_to_back", "graph")}
    if not rows["latency"]:
        sys.exit(f"{a.results[0]}: nothing of {threads} threads, expected some")
    blocks = list(dict.fromkeys(r["blocks"] for r in rows["latency"]))
    panels = []
    for b in blocks:
        of = [r for r in rows["latency"] if r["blocks"] == b]
        p = plotting.Panel(f"{b} blocks of {threads}", "launch until waited for, µs", "share", y_range=(0, 1.03),
                           x_range=(min(r["p10_us"] for r in of) - 0.5, max(r["p99_us"] for r in of) + 0.5))
        for r in of:
            plotting.quantile_steps(p, r, style_of(r["variant"], others))
        panels.append(p)
    for key, title in (("back_to_back", "each launched by itself"), ("graph", "in one graph")):
        if not rows[key]:
            continue
        p = plotting.Panel(f"{report['launches']} kernels of {report['kernel_us']:g} µs, {title}", y="µs for each kernel")
        names = list(dict.fromkeys(r["variant"] for r in rows[key]))
        places, width = p.group([f"{b} blocks" for b in blocks], len(names))
        for at, name in zip(places, names):
            of = [next(r for r in rows[key] if r["variant"] == name and r["blocks"] == b) for b in blocks]
            p.bars(at, [r["p50_us"] for r in of], width, style_of(name, others), form=".2f",
                   spread=[(r["p10_us"], r["p90_us"]) for r in of])
        panels.append(p)
    plotting.draw(a.picture, f"Instrumentation on {report['gpu']}: {rows['latency'][0]['n']} launches of each kernel",
                  panels, columns=2, size=(470, 230))


if __name__ == "__main__":
    main()
