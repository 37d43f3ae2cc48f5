#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what segments cost over whole graphs, from results of gsched.gpu.segment_cost."""

import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "figures"))
import plotting  # noqa: E402


def over(model, target, in_flight):
    """Per cent over one replay of the whole graph."""
    found = next((v for v in model["variants"] if v["target_us"] == target and v["in_flight"] == in_flight), None)
    return None if found is None else 100 * (found["median_us"] / model["whole_us"] - 1)


def main():
    a = plotting.script_arguments(__doc__)
    models = a.report[0]["models"]
    cut = [v for m in models for v in m["variants"] if v["target_us"] > 0]
    targets = sorted({v["target_us"] for v in cut})
    ways = sorted({v["in_flight"] for v in cut}, key=lambda n: n or 99)  # 0 is the dispatcher
    lines = plotting.Panel(f"median of {len(models)} models, bars: least to most", "length of a segment, µs",
                           "added time, %", x_ticks=[(i, f"{t:g}") for i, t in enumerate(targets)],
                           x_range=(-0.4, len(targets) - 0.6))
    for k, n in enumerate(ways):
        how = (plotting.series(k, f"{n} in flight") if n else
               plotting.style("gsched", name="the dispatcher, 2 in flight", width=3))
        shift = 0.06 * (k - (len(ways) - 1) / 2)
        values = [[x for m in models if (x := over(m, t, n)) is not None] for t in targets]
        lines.line([(i + shift, statistics.median(v)) for i, v in enumerate(values)], how,
                   spread=[(i + shift, min(v), max(v)) for i, v in enumerate(values)])
    target = 100 if 100 in targets else targets[-1]
    each = plotting.Panel(f"each model, segments of {target:g} µs under the dispatcher", "added time, %")
    each.rows([(m["model"].removesuffix("_b1"), x, plotting.style("gsched")) for m in models
               if (x := over(m, target, 0)) is not None], form="+.1f")
    plotting.draw(a.picture, f"Segments instead of whole graphs on {a.report[0]['gpu']} (stand-ins)", [lines, each])


if __name__ == "__main__":
    main()
