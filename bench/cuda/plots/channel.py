#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what clients in other processes cost, from results of gsched.bench.channel_round_trip and gsched.gpu.channel.

Above: the latency of a request of 1 ms and the client's CPU time, by how the client waits (figure 14 of the Paella paper),
and requests a second by the number of clients. Below: where the time of a request on a GPU goes (figure 10).
"""

import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "figures"))
import plotting  # noqa: E402

WAYS = ("polling", "hybrid", "waiting")
PARTS = (("there_and_back", "to the server and back"), ("scheduling", "scheduling"), ("device", "copies and graph"))


def rows_of(report, start):
    """Single runs of a benchmark, not their means."""
    return [b for b in report["benchmarks"] if b["name"].startswith(start) and b["run_type"] == "iteration"]


def waiting_panels(report):
    latency = plotting.Panel("a request of 1 ms", "the client waits by", "µs beyond 1 ms", own_legend=True)
    cpu = plotting.Panel("the client's CPU time", "the client waits by", "% of a core", own_legend=True)
    places, width = latency.group(WAYS, 2)
    cpu_places, cpu_width = cpu.group(WAYS, 1)
    of = {way: rows_of(report, f"of_1_ms/{way}/") for way in WAYS}
    for k, (key, name) in enumerate((("p50_us", "median"), ("p99_us", "99th percentile"))):
        values = [[b[key] - 1000 for b in of[way]] for way in WAYS]
        latency.bars(places[k], [statistics.median(v) for v in values], width, plotting.series(k, name), ".0f",
                     [(min(v), max(v)) for v in values])
    cpu.bars(cpu_places[0], [statistics.median(b["cpu_percent"] for b in of[way]) for way in WAYS], cpu_width,
             plotting.style("gsched", name="CPU time"), ".1f")
    return [latency, cpu]


def throughput_panel(report):
    panel = plotting.Panel("a device that takes no time", "clients", "million requests a second", own_legend=True)
    found = {}
    for b in rows_of(report, "throughput/"):
        facts = dict(part.split(":") for part in b["name"].split("/")[1:3])
        found.setdefault((int(facts["own_core"]), int(facts["clients"])), []).append(b["items_per_second"] / 1e6)
    clients = sorted({n for _, n in found})
    places, width = panel.group([str(n) for n in clients], 2)
    for own, name in ((1, "the dispatcher on its own core"), (0, "on any core")):
        values = [found[own, n] for n in clients]
        panel.bars(places[1 - own], [statistics.median(v) for v in values], width, plotting.series(2 + own, name), ".2f",
                   [(min(v), max(v)) for v in values])
    return panel


def breakdown_panel(report):
    ways = list(report["ways"])
    panel = plotting.Panel(f"a request on the GPU, {report['in_bytes'] // 1000} kB in, median", "", "µs", own_legend=True)
    places, width = panel.group([w.replace("channel, ", "channel,\n") for w in ways], 1)
    tops = [[sum(report["ways"][w][part]["p50_us"] for part, _ in PARTS[k:]) for w in ways] for k in range(len(PARTS))]
    for k, (_, name) in enumerate(PARTS): # the whole first: each part covers the rest
        panel.bars(places[0], tops[k], width, plotting.series(4 + k, name), ".1f" if k == 0 else None)
    return panel


def main():
    a = plotting.script_arguments(__doc__)
    host = next(r for r in a.report if "benchmarks" in r)
    gpu = next(r for r in a.report if "ways" in r)
    plotting.draw(a.picture, "Clients in other processes, on an H200 and its host", [
        *waiting_panels(host), throughput_panel(host), breakdown_panel(gpu)])


if __name__ == "__main__":
    main()
