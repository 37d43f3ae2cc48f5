#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws how fast kernels leave a GPU and come back, as gsched.gpu.preemption measured it.

Above: distributions of the time from the decision to preempt until all blocks are gone, until an
urgent kernel runs, and from the decision to go on until a block runs again. Below: what preamble
and checkpoints cost kernels that nobody preempts.
"""

import argparse
import json
import pathlib

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

LINES = ["#0B3D91", "#D55E00", "#009E73", "#8A8F98", "#CC79A7"]
VARIANTS = {"not filled in": "#C2A36B", "preamble": "#56B4E9",
            "preamble of a resumed launch": "#CC79A7", "preamble, checkpoints": "#D55E00",
            "checkpoints decide": "#0B3D91"}


def distributions(axes, rows, title, reach=None):
    for colour, r in zip(LINES, rows):
        q = r["quantiles_us"]
        axes.plot(q, [i / (len(q) - 1) for i in range(len(q))], color=colour, linewidth=1.6,
                  label=f"{r['name']} (p50 {r['p50_us']:.1f}, p99 {r['p99_us']:.1f})")
    if reach:
        axes.axvline(reach, color="#4A4F58", linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set_xlabel("µs")
    axes.set_title(title, fontsize=9)
    axes.grid(linewidth=0.3, which="both")
    axes.legend(fontsize=6.5, loc="lower right")


def costs(axes, rows, key, label):
    names = list(dict.fromkeys((r["kernel"], r["blocks"]) for r in rows))
    width = 0.8 / len(VARIANTS)
    for k, (variant, colour) in enumerate(VARIANTS.items()):
        of = {(r["kernel"], r["blocks"]): r for r in rows if r["variant"] == variant}
        at = [i + (k - (len(VARIANTS) - 1) / 2) * width for i in range(len(names))]
        scale = 100 if key == "over_plain" else 1
        axes.bar(at, [scale * of[n][key] for n in names], width, color=colour, label=variant)
    axes.set_xticks(range(len(names)), [f"{n}\n{b}" for n, b in names], fontsize=5.5, rotation=60)
    axes.axhline(0, color="#4A4F58", linewidth=0.5)
    axes.set_ylabel(label)
    axes.grid(axis="y", linewidth=0.3)
    axes.legend(fontsize=6.5)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("results", type=pathlib.Path, help="JSON of gsched.gpu.preemption")
    p.add_argument("svg", type=pathlib.Path)
    a = p.parse_args()
    if not a.results.is_file():
        p.error(f"{a.results}: no such file")
    said = json.loads(a.results.read_text())
    figure, axes = plt.subplot_mosaic("abc;ddd;eee", figsize=(15, 13), layout="constrained")
    distributions(axes["a"], said["gone"], "decision to preempt → all blocks gone", 6)
    distributions(axes["b"], said["urgent"], "decision → urgent kernel running")
    distributions(axes["c"], [said["restore"], said["restore_by_flag"]],
                  f"decision to go on → a block runs; {said['restore']['rerun_blocks']} blocks run "
                  "again", 15)
    short = [r for r in said["costs"] if r["kernel"] in ("empty", "chain, 2 us")]
    rest = [r for r in said["costs"] if r not in short]
    costs(axes["d"], rest, "over_plain", "% of the plain kernel")
    costs(axes["e"], short, "over_plain_us", "µs more than the plain kernel")
    figure.suptitle(f"Kernels that leave, on {said['gpu']}: {said['gone'][0]['n']} preemptions",
                    fontsize=10)
    figure.savefig(a.svg)


if __name__ == "__main__":
    main()
