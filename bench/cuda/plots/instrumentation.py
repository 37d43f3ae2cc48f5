#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what instrumentation costs on a GPU, as gsched.gpu.instrumentation measured it.

Above, as figure 15 of the Paella paper (SOSP 2023, doi:10.1145/3600006.3613163): distributions of
the time from launching an empty kernel to having waited for it. Below: kernels back to back.
"""

import argparse
import json
import pathlib

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

COLOURS = {"plain": "#8A8F98", "off": "#C2A36B", "every block": "#D55E00",
           "groups of 16": "#0B3D91"}
RIVALS = ["#E69F00", "#56B4E9", "#CC79A7", "#009E73", "#7A1FA2", "#4A4F58"]


def style(name, seen={}):
    """Colour and dash: the rivals' are dashed, and coloured in the order in which they come."""
    if name in COLOURS:
        return {"color": COLOURS[name], "linewidth": 1.8}
    number = seen.setdefault(name, len(seen))
    return {"color": RIVALS[number % len(RIVALS)], "linewidth": 1, "linestyle": "--"}


def distributions(axes, rows, blocks, rivals):
    plain = next(r for r in rows if r["variant"] == "plain")
    for r in rows:
        if r["rival"] and not rivals:
            continue
        q = r["quantiles_us"]
        over = f" (p90 {r['over_plain_p90_us']:+.2f}" if r is not plain else ""
        if parts := r.get("over_plain_p90_of_parts_us") if over else None:
            over += f", {parts[0]:+.2f} to {parts[-1]:+.2f}"
        over += ")" if over else ""
        axes.plot(q, [i / (len(q) - 1) for i in range(len(q))], label=r["variant"] + over,
                  **style(r["variant"]))
    last = max(r["p99_us"] for r in rows)
    axes.set_xlim(min(r["p10_us"] for r in rows) - 0.5, last + 0.5)
    axes.set_title(f"{blocks} blocks of {rows[0]['threads']}", fontsize=9)
    axes.set_xlabel("launch to synchronised, µs")
    axes.grid(linewidth=0.3)
    axes.legend(fontsize=7, loc="lower right")


def bars(axes, rows, title, rivals):
    names = list(dict.fromkeys(r["variant"] for r in rows if rivals or not r["rival"]))
    blocks = list(dict.fromkeys(r["blocks"] for r in rows))
    width = 0.8 / len(names)
    for k, name in enumerate(names):
        for i, b in enumerate(blocks):
            r = next(r for r in rows if r["variant"] == name and r["blocks"] == b)
            axes.bar(i + (k - (len(names) - 1) / 2) * width, r["p50_us"], width,
                     yerr=[[r["p50_us"] - r["p10_us"]], [r["p90_us"] - r["p50_us"]]],
                     color=style(name)["color"], label=name if i == 0 else None,
                     error_kw={"linewidth": 0.7})
    axes.set_xticks(range(len(blocks)), [f"{b} blocks" for b in blocks])
    axes.set_ylabel("µs a kernel")
    axes.set_title(title, fontsize=9)
    axes.grid(axis="y", linewidth=0.3)
    axes.legend(fontsize=7, loc="lower right", framealpha=0.9)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("results", type=pathlib.Path, help="JSON of gsched.gpu.instrumentation")
    p.add_argument("svg", type=pathlib.Path)
    p.add_argument("--threads", type=int, help="of a block; default: the first in the file")
    p.add_argument("--rivals", action="store_true", help="the other ways, too")
    a = p.parse_args()
    if not a.results.is_file():
        p.error(f"{a.results}: no such file")
    said = json.loads(a.results.read_text())
    threads = a.threads or said["latency"][0]["threads"]
    rows = {key: [r for r in said[key] if r["threads"] == threads]
            for key in ("latency", "back_to_back", "graph")}
    if not rows["latency"]:
        p.error(f"{a.results}: nothing of {threads} threads")
    blocks = list(dict.fromkeys(r["blocks"] for r in rows["latency"]))
    figure = plt.figure(figsize=(4.2 * len(blocks), 7), layout="constrained")
    grid = figure.add_gridspec(2, 2 * len(blocks))
    for i, b in enumerate(blocks):
        distributions(figure.add_subplot(grid[0, 2 * i:2 * i + 2]),
                      [r for r in rows["latency"] if r["blocks"] == b], b, a.rivals)
    for i, (key, title) in enumerate((("back_to_back", "each launched by itself"),
                                      ("graph", "in one graph"))):
        if rows[key]:
            bars(figure.add_subplot(grid[1, i * len(blocks):(i + 1) * len(blocks)]), rows[key],
                 f"{said['launches']} kernels of {said['kernel_us']:g} µs back to back, {title}",
                 a.rivals)
    figure.suptitle(f"Instrumentation on {said['gpu']}: {rows['latency'][0]['n']} launches of each "
                    "variant in turn", fontsize=10)
    figure.savefig(a.svg)


if __name__ == "__main__":
    main()
