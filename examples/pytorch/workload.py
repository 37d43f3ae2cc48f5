# SPDX-License-Identifier: Apache-2.0
"""Arrivals and results in the format of serve_mix, and helpers for the command line.

The arrivals are those of serve_mix: for the same mix, rate, law, number of clients and seed, both make
the same list of requests, so the simulated and the real GPU can be compared request by request.
"""

import argparse
import bisect
import json
import math
import os
import re
import sys

import models

STATES = ("finished", "rejected", "cancelled", "failed")


class Parser(argparse.ArgumentParser):
    """Usage errors are one line, and exit code 2."""

    def error(self, message):
        self.exit(2, f"{self.prog.removesuffix('.py')}: {message}\n")


class Mersenne:
    """The 64-bit Mersenne twister of the C++ standard.

    Source   Nishimura, ACM TOMACS 10(4), 2000, doi:10.1145/369534.369540.
    """

    _ALL = (1 << 64) - 1

    def __init__(self, seed=5489):
        state = [seed & self._ALL]
        for i in range(1, 312):
            last = state[-1]
            state.append((6364136223846793005 * (last ^ (last >> 62)) + i) & self._ALL)
        self._state, self._next = state, 312

    def __call__(self):
        if self._next == 312:
            self._twist()
        x = self._state[self._next]
        self._next += 1
        x ^= (x >> 29) & 0x5555555555555555
        x ^= (x << 17) & 0x71D67FFFEDA60000
        x ^= (x << 37) & 0xFFF7EEE000000000
        return x ^ (x >> 43)

    def _twist(self):
        s = self._state
        for i in range(312):
            x = (s[i] & 0xFFFFFFFF80000000) | (s[(i + 1) % 312] & 0x7FFFFFFF)
            s[i] = s[(i + 156) % 312] ^ (x >> 1) ^ (0xB5026F5AA96619E9 if x & 1 else 0)
        self._next = 0

    def uniform(self):
        return (self() >> 11) * 2.0**-53

    def exponential(self):
        return -math.log1p(-self.uniform())

    def lognormal(self, sigma):
        radius = math.sqrt(2 * self.exponential())
        normal = radius * math.cos(2 * math.pi * self.uniform())
        return math.exp(sigma * normal - sigma * sigma / 2)


def arrivals(law, rate, weights, clients, seed, count):
    """`count` requests as (nanoseconds from the start, model, client), at `rate` a second."""
    random, sigma = Mersenne(seed), law_of(law)
    until, total = [], 0.0
    for w in weights:
        total += w
        until.append(total)
    last = bisect.bisect_left(until, total)
    mean_ns, now, carry, asked = 1e9 / rate, 0, 0.0, []
    for i in range(count):
        gap = (random.exponential() if sigma is None else random.lognormal(sigma)) * mean_ns + carry
        now, carry = now + int(min(gap, 1e18)), math.fmod(gap, 1.0)
        model = 0
        if len(until) > 1:
            model = min(bisect.bisect_right(until, random.uniform() * total), last)
        asked.append((now, model, i % clients))
    return asked


def law_of(text):
    """The sigma of a lognormal law, None for poisson; a ValueError in one line."""
    if text == "poisson":
        return None
    found = re.fullmatch(r"lognormal:([0-9.]+)", text)
    try:
        sigma = float(found.group(1)) if found else -1.0
    except ValueError:
        sigma = -1.0
    if not 0 <= sigma <= 10:
        raise ValueError(f'--arrivals: "{text}", expected poisson or lognormal:SIGMA, '
                         "SIGMA from 0 to 10")
    return sigma


def mix_of(text):
    """{model: weight}; "uniform" is table 2, each as often. A ValueError in one line."""
    if text == "uniform":
        return {name: 1.0 for name in models.TABLE_2}
    if text == "all":
        return {name: 1.0 for name in models.NAMES}
    mix = {}
    for part in text.split(","):
        name, _, weight = part.partition("=")
        try:
            name, share = models.known(name.strip()), float(weight) if weight else 1.0
        except ValueError as e:
            what = str(e) if str(e).startswith("model") else f'weight "{weight}", expected a number'
            raise ValueError(f"--mix: {what}") from None
        if name in mix:
            raise ValueError(f'--mix: "{name}" twice, expected each model once')
        if not (share > 0 and math.isfinite(share)):
            raise ValueError(f'--mix: weight {weight} of "{name}", expected a number above 0')
        mix[name] = share
    return mix


def save_trace(path, asked, names):
    """The requests in the form that serve_mix --arrivals trace:FILE reads."""
    with open(path, "w", encoding="utf-8") as out:
        out.write("time_us,model,client\n")
        for at, model, client in asked:
            out.write(f"{at / 1e3:.3f},{names[model]},{client}\n")


# Results --------------------------------------------------------------------------------

def percentile(values, percent):
    """By nearest rank; 0.0 of no values."""
    s = sorted(values)
    return s[(len(s) * percent + 99) // 100 - 1] if s else 0.0


def median(values):
    """The upper one of two."""
    return sorted(values)[len(values) // 2]


def summary(latencies_ns):
    """Statistics in microseconds of latencies in nanoseconds; percentiles by nearest rank."""
    s = sorted(latencies_ns)
    if not s:
        return dict.fromkeys(("mean", "p50", "p90", "p99", "max"), 0.0)
    return {"mean": (sum(s) + len(s) // 2) // len(s) / 1e3,
            **{f"p{p}": percentile(s, p) / 1e3 for p in (50, 90, 99)}, "max": s[-1] / 1e3}


def run_json(way, repeat, asked, names, clients, outcome):
    """One run in the format of serve_mix. `outcome` is the result of a way."""
    states, latencies = outcome["states"], outcome["latencies_ns"]
    done = [i for i, s in enumerate(states) if s == "finished"]

    def of(field, value):
        return {"submitted": sum(1 for a in asked if a[field] == value),
                "finished": sum(1 for i in done if asked[i][field] == value),
                "latency_us": summary([latencies[i] for i in done if asked[i][field] == value])}

    span = outcome["span_ns"] / 1e9
    run = {"policy": way, "submitted": len(asked)}
    run.update({s: states.count(s) for s in STATES})
    run.update({
        "throughput_per_s": round(len(done) / span, 6) if span > 0 else 0.0,
        "latency_us": summary([latencies[i] for i in done]),
        "per_model": {name: of(1, m) for m, name in enumerate(names)},
        "per_client": [of(2, c) for c in range(clients)],
        "gpu_busy_fraction": outcome.get("gpu_busy_fraction"),
        "operations": outcome.get("operations"), "decisions": outcome.get("decisions"),
        "wall_s": span, "way": way, "repeat": repeat})
    run.update({k: outcome[k] for k in ("late_us", "submit_us", "reference_us", "error") if k in outcome})
    return run


# Names and units of times in results, by their names in gsched, which has seconds.
_WITH_UNITS = {"measure": ("measure_ms", 1e3), "build": ("build_ms", 1e3),
               "expected": ("expected_us", 1e6), "graph_replay": ("graph_replay_us", 1e6),
               "host": ("host_ns", 1e9), "driver": ("driver_ns", 1e9),
               **{f"{what}_{p}": (f"{what}_{p}_us", 1e6) for what in ("preempt", "restore")
                  for p in ("p50", "p99")}}


def with_units(facts):
    """Model.facts() or Server.statistics() with the names and units of results."""
    report = {}
    for name, value in facts.items():
        name, per_second = _WITH_UNITS.get(name, (name, None))
        if per_second is not None:
            value = round(value * per_second, 3)
        report[name] = int(value) if name.endswith("_ns") else value
    return report


def import_torch(program):
    """torch; ends the program, with a line on stderr, if it is not installed."""
    try:
        import torch
    except ImportError:
        print(f"{program}: torch is not installed, expected PyTorch 2.11 or newer", file=sys.stderr)
        sys.exit(1)
    return torch


def writable(path):
    """A path that results can be written to; for argparse."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder) or os.path.isdir(path) or not os.access(folder, os.W_OK):
        raise argparse.ArgumentTypeError(f'"{path}", expected a file in a folder that exists')
    return path


def number(kind, least, what):
    """Reads a number that is not below `least`; for argparse."""
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not least <= value < 1e12:
            raise argparse.ArgumentTypeError(f'"{text}", expected {what}')
        return value
    return parse


COUNT, SOME = number(int, 1, "a whole number above 0"), number(float, 1e-9, "a number above 0")
FROM_0 = number(int, 0, "a whole number from 0")


def save(path, report):
    """Writes JSON; False, and a line on stderr, if that fails."""
    try:
        with open(path, "w", encoding="utf-8") as out:
            json.dump(report, out, indent=2)
            out.write("\n")
    except OSError as e:
        print(f"{path}: {e.strerror}, expected a file that can be written", file=sys.stderr)
        return False
    return True


def table(title, runs):
    """Lines that compare runs, with medians of repeated runs."""
    rows = [["way", "finished", "req/s", "mean ms", "p50", "p90", "p99", "max", "reference us"]]
    for way in dict.fromkeys(r["way"] for r in runs):
        same = [r for r in runs if r["way"] == way]
        lost = any(r["finished"] != r["submitted"] for r in same)
        after = [r["reference_us"]["after"] for r in same if "reference_us" in r]
        rows.append([way, f"{sum(r['finished'] for r in same)}{'!' if lost else ''}",
                     f"{median([r['throughput_per_s'] for r in same]):.1f}"]
                    + [f"{median([r['latency_us'][k] for r in same]) / 1e3:.3f}"
                       for k in ("mean", "p50", "p90", "p99", "max")]
                    + [f"{median(after):.1f}" if after else "-"])
    wide = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [title]
    for row in rows:
        cells = [row[0].ljust(wide[0])] + [c.rjust(w) for c, w in zip(row[1:], wide[1:])]
        lines.append("  ".join(cells).rstrip())
    if any(r["finished"] != r["submitted"] for r in runs):
        lines.append("! not every request was served")
    return lines
