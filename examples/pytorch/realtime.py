#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real-time model beside a best-effort one, both unmodified, in every way of sharing a GPU.

The real-time client submits a request, waits for its end, pauses for an exponential time and submits the
next. The best-effort client always has pending requests. One process serves all ways, in turn, so that
conditions are equal; times are those of the dispatcher, from the request to the end of its last
operation, without copies of inputs and outputs.

  rt_only           the real-time client alone
  be_only           the best-effort client alone, whole graphs, two queued
  seq               whole requests one after the other, real-time ones first
  streams           whole graphs, a stream for each client
  streams_priority  the same, with a high priority for the real-time client's stream
  preempt           real-time requests preempt best-effort graphs between two of their kernels
  preempt_pad       the same, and some SMs for best-effort work beside real-time requests, if measurements
                    show a gain
  reserve_0         preempt, and at most one long best-effort kernel is queued
  reserve_N         the same, and best-effort models with long kernels always leave N SMs free
  reserve           the same, and the number of free SMs is learned from those of --reserve

left_over is the share of the time without a real-time request, computed from rt_only's mean; be_share
is the number of best-effort requests over be_only's rate and that time. later is the real-time
latency's p50 and p99 minus rt_only's p50. For the real-time model one_kernel, which has one small
kernel, it is the delay of the kernel's start compared with an idle GPU:

  realtime.py --pairs one_kernel+vit_base_b32,one_kernel+resnet50_b8
"""

import argparse
import collections
import faulthandler
import random
import re
import sys
import threading
import time

import checkout # the package of this checkout
import gsched
import models
import workload

WAYS = ("rt_only", "be_only", "seq", "streams", "streams_priority", "preempt", "preempt_pad")
FIXED = re.compile(r"reserve_(\d{1,3})")
PAIRS = ("resnet152+vgg19,resnet18+resnet50_b8,bert_base+vgg16_b8,resnet50+bert_base_b8")


def options():
    p = workload.Parser(description=__doc__,
                        formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pairs", default=PAIRS, help="real-time+best-effort, ...; default: %(default)s")
    p.add_argument("--ways", default=",".join(WAYS),
                   help=f"some of {', '.join(WAYS)}, reserve, reserve_N; default: %(default)s")
    p.add_argument("--think", type=workload.SOME, default=4.0, metavar="MS",
                   help="mean think time; default: %(default)s")
    p.add_argument("--seconds", type=workload.SOME, default=1.2, help="a turn; default: %(default)s")
    p.add_argument("--turns", type=workload.COUNT, default=3, help="of each way; default: %(default)s")
    p.add_argument("--side", default="8,16", help="SMs for preempt_pad to try; default: %(default)s")
    p.add_argument("--reserve", default="16,32,40,48",
                   help="SMs for reserve to try; default: %(default)s")
    p.add_argument("--long", type=workload.SOME, default=100.0, metavar="US",
                   help="from which a kernel counts as long; default: %(default)s")
    p.add_argument("--slow-down", type=float, default=0.10,
                   help="of real-time requests, for reserve to reach; default: %(default)s")
    p.add_argument("--settle", type=float, default=4.0, metavar="S",
                   help="that reserve serves both models before anything counts, as it learns from "
                        "what it serves; default: %(default)s")
    p.add_argument("--floor", type=float, default=0.0,
                   help="part of the time for best-effort work all the same; default: %(default)s")
    p.add_argument("--watchdog", type=workload.COUNT, default=5000, metavar="MS",
                   help="work that stands for so long has hung; default: %(default)s")
    p.add_argument("--seed", type=workload.FROM_0, default=1)
    p.add_argument("--gpu", type=workload.FROM_0, default=0)
    p.add_argument("--time-limit", type=workload.SOME, default=300.0, metavar="S",
                   help="pairs that do not fit in are left out; default: %(default)s")
    p.add_argument("--json", metavar="FILE", type=workload.writable)
    a = p.parse_args()
    try:
        a.pairs = [models.pair(text) for text in a.pairs.split(",")]
        a.ways = a.ways.split(",")
        unknown = [w for w in a.ways if w not in WAYS + ("reserve",) and not FIXED.fullmatch(w)]
        if unknown:
            raise ValueError(f'--ways: "{unknown[0]}", expected some of {", ".join(WAYS)}, '
                             f"reserve, reserve_N")
        a.side, a.reserve = numbers("--side", a.side), numbers("--reserve", a.reserve)
    except ValueError as e:
        p.error(str(e))
    return a


def numbers(name, text):
    """One to four numbers of SMs, as an option of a server takes them."""
    all = [int(n) for n in text.split(",")]
    if not 1 <= len(all) <= 4 or any(n < 1 for n in all):
        raise ValueError(f"{name}: expected one to four numbers of SMs")
    return all + [0] * (4 - len(all))


def server_of(a, way):
    """The server of a way, and its number of clients."""
    one_lane = {"lanes": 1, "segments_per_job": 1, "quantum": 100.0, "most_quantum": 100.0,
                "low_mark": 1e-6, "high_mark": 1e-6}
    # Best-effort work stops between kernels, so its segments may be long.
    apart = {"lanes": 1, "real_time_lanes": 1, "floor": a.floor, "quantum": 2e-3}
    how = {"rt_only": ("direct", {}), "be_only": ("direct", {}),
           "seq": ("fifo", one_lane), "streams": ("direct", {"lanes": 2}),
           "streams_priority": ("direct", {"lanes": 1, "real_time_lanes": 1, "yields": 0}),
           "preempt": ("fifo", apart),
           "preempt_pad": ("fifo", {**apart, "side_sms": a.side})}
    if way == "reserve":
        how[way] = "fifo", {**apart, "reserve_sms": a.reserve, "long_kernel": a.long / 1e6,
                            "reserve_slow_down": a.slow_down}
    elif fixed := FIXED.fullmatch(way):
        sms = int(fixed[1])
        how[way] = "fifo", {**apart, "one_long": 1, "long_kernel": a.long / 1e6,
                            "reserve_sms": [sms, 0, 0, 0], "reserve_fixed": 1}
    policy, more = how[way]
    return gsched.Server(policy=policy, gpu=a.gpu, watchdog=a.watchdog / 1e3, **more)


class Way:
    """A server with both models, and its measurements."""

    def __init__(self, a, name, real_time, best_effort):
        self.name, self.server = name, server_of(a, name)
        # Two streams need two clients.
        self.clients = [self.server.add_client() for _ in range(2)]
        self.real_time = None if name == "be_only" else self.server.add_model(real_time)
        self.best_effort = None if name == "rt_only" else self.server.add_model(best_effort)
        self.latencies, self.done, self.spans = [], [], []

    def warm_up(self, seconds=0.05, think_ms=1.0):
        """Uploads its graphs and lets it learn; its measurements are dropped."""
        self.turn(seconds, think_ms, random.Random(0))
        self.latencies, self.done, self.spans = [], [], []

    def turn(self, seconds, think_ms, draw):
        """Runs both clients for that long."""
        end = time.monotonic() + seconds
        done, failures = 0, []

        def work():
            nonlocal done
            waiting = collections.deque()
            try:
                while time.monotonic() < end:
                    while len(waiting) < 2:
                        waiting.append(self.server.submit(self.best_effort, None, self.clients[1],
                                                          outputs=()))
                    waiting.popleft().result(60)
                    done += time.monotonic() < end
                for one in waiting:
                    one.result(60)
            except Exception as e: # raised by the thread that joins this one
                failures.append(e)

        other = threading.Thread(target=work)
        began = time.monotonic()
        if self.best_effort is not None:
            other.start()
        while self.real_time is not None and time.monotonic() < end and not failures:
            time.sleep(draw.expovariate(1.0) * think_ms / 1e3)
            future = self.server.submit(self.real_time, None, self.clients[0], outputs=(),
                                        real_time=True)
            future.result(60)
            self.latencies.append(future.latency * 1e6)
        if self.best_effort is not None:
            other.join()
        if failures:
            raise failures[0]
        self.done.append(done)
        self.spans.append(min(time.monotonic(), end) - began)

    def facts(self):
        """Its results, over all turns."""
        span = sum(self.spans)
        report = {"seconds": span, "be_finished": sum(self.done), "be_per_s": sum(self.done) / span,
                "be_per_s_turns": [d / s for d, s in zip(self.done, self.spans)]}
        if self.latencies:
            s = sorted(self.latencies)
            report["rt"] = {"requests": len(s), "mean": sum(s) / len(s), "max": s[-1],
                          **{f"p{p}": s[(len(s) * p + 99) // 100 - 1] for p in (50, 90, 99)}}
        statistics = workload.with_units(self.server.statistics())
        report["preemptions"] = {k: statistics[k] for k in (
            "preemptions", "restores", "preempt_p50_us", "preempt_p99_us", "restore_p50_us",
            "restore_p99_us", "expired_leases", "opened", "reserved_segments") if k in statistics}
        report["lost"] = statistics["submitted"] - sum(
            statistics[k] for k in ("finished", "failed", "rejected", "cancelled"))
        return report


def captured_pair(a, pair):
    """Captures both models, the best-effort one with two instances if it allows that."""
    return [gsched.capture(*models.make(name, a.seed), name=name, gpu=a.gpu,
                           instances=1 if models.keeps_state(name) else n)
            for name, n in zip(pair, (1, 2))]


def compare(a, captured):
    """All ways of one pair of captured models in turn; {way: facts}."""
    ways = [Way(a, name, *captured) for name in a.ways]
    for way in ways:
        if way.name == "reserve" and a.settle > 0.05:
            way.warm_up(a.settle, a.think)
        else:
            way.warm_up()
    for turn in range(a.turns):
        for way in ways if turn % 2 else ways[::-1]:
            try:
                way.turn(a.seconds, a.think, random.Random(a.seed * 1000 + turn))
            except gsched.GschedError as e:
                raise gsched.GschedError(f"{way.name}: {e}") from None
    facts = {way.name: way.facts() for way in ways}
    for way in ways:
        way.server.close()
    return with_ratios(facts)


def with_ratios(facts):
    """Adds the ratios to rt_only and be_only, and the differences, where these were measured."""
    alone, rate = facts.get("rt_only", {}).get("rt"), facts.get("be_only", {}).get("be_per_s")
    for f in facts.values():
        if alone and "rt" in f:
            f["rt"]["slowdown"] = f["rt"]["mean"] / alone["mean"]
            f["rt"]["p99_ratio"] = f["rt"]["p99"] / alone["p99"]
            for p in ("p50", "p99"):
                f["rt"][f"later_{p}_us"] = f["rt"][p] - alone["p50"]
            f["left_over"] = 1 - f["rt"]["requests"] * alone["mean"] / 1e6 / f["seconds"]
        if rate and "rt" in f and alone:
            f["be_share"] = f["be_per_s"] / rate / max(f["left_over"], 1e-9)
    return facts


def print_rows(pair, facts):
    print(f"\n{pair[0]} in real time beside {pair[1]}")
    print(f"{'way':17} requests    mean us     p50     p99   slower   p99 ratio  "
          "later p50/p99 us   be/s   be share   preempt p50/p99 us   restore p50", flush=True)
    for name, f in facts.items():
        row = f"{name:17}"
        if "rt" in f:
            r = f["rt"]
            row += (f" {r['requests']:8} {r['mean']:10.1f} {r['p50']:7.1f} {r['p99']:7.1f}"
                    f" {r.get('slowdown', 0):8.3f} {r.get('p99_ratio', 0):11.3f}"
                    f" {r.get('later_p50_us', 0):8.1f}/{r.get('later_p99_us', 0):8.1f}")
        else:
            row += " " * 73
        row += f" {f['be_per_s']:6.1f}"
        if "be_share" in f:
            row += f" {f['be_share']:10.3f}"
        p = f["preemptions"]
        if p["preemptions"]:
            row += (f"   {p['preempt_p50_us']:8.1f} /{p['preempt_p99_us']:8.1f}"
                    f" {p['restore_p50_us']:13.1f}")
        print(row, flush=True)


def main():
    a = options()
    faulthandler.dump_traceback_later(a.time_limit + 120, exit=True)
    began = time.monotonic()
    torch = workload.import_torch("realtime")
    results = {}
    try:
        gsched.load_library()
        torch.cuda.init()
        for pair in a.pairs:
            name = "+".join(pair)
            if time.monotonic() - began > a.time_limit:
                print(f"{name}: left out, --time-limit {a.time_limit:g} is over", flush=True)
                continue
            results[name] = compare(a, captured_pair(a, pair))
            print_rows(pair, results[name])
            if a.json and not workload.save(a.json, {
                    "device": torch.cuda.get_device_name(a.gpu), "torch": torch.__version__,
                    "think_ms": a.think, "seconds": a.seconds, "turns": a.turns, "seed": a.seed,
                    "pairs": results}):
                return 1
    except (gsched.GschedError, RuntimeError, AssertionError) as e:
        print(f"realtime: {str(e).splitlines()[0]}", file=sys.stderr)
        return 1
    return 0 if len(results) == len(a.pairs) else 1


if __name__ == "__main__":
    sys.exit(main())
