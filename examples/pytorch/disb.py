#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DISB, the benchmark of the REEF paper, with real networks: real-time and best-effort clients, up to
five of each, in every way of sharing a GPU.

The clients, their classes and arrivals are those of tools/data/workloads/disb_*.json. The model follows
from the client's name: rnet is ResNet-152, vgg VGG-19, bert BERT-base and gpt2 GPT-2, with batch 1;
GoogLeNet with batch 8 replaces the paper's YOLO. Inputs are on the GPU, and times are those of the
dispatcher, from the arrival of a request to the end of its last operation. A load is a fraction of
the rate of the model alone, one request after another.

  rt_only           the real-time clients alone, a stream for each
  seq               whole requests one after the other, real-time ones first
  streams           whole graphs, a stream for each client
  streams_priority  the same, with a high priority for the real-time clients' streams
  preempt           real-time requests preempt best-effort graphs between two of their kernels

One process serves all ways, in turn. `slower` and `p99 ratio` are over rt_only, the mean of the
real-time clients; `work` is the sum over finished requests of their time alone, for each second: of
best-effort clients, and of all.

Source   Han et al., ACM TOCS 44(1), 2025, table 2, doi:10.1145/3768622.
"""

import argparse
import faulthandler
import json
import pathlib
import random
import sys
import threading
import time

import checkout # the package of this checkout
import gsched
import models
import workload

ROOT = pathlib.Path(__file__).resolve().parents[2] / "tools/data/workloads"
WORKLOADS = ("disb_a", "disb_b", "disb_c", "disb_d", "disb_e")
WAYS = ("rt_only", "seq", "streams", "streams_priority", "preempt")
SHORTEST_S = 1e-4  # lower bound of a network's time when rates are computed from it
NETWORKS = {"rnet": "resnet152", "vgg": "vgg19", "yolo": "googlenet_b8", "bert": "bert_base",
            "gpt2": "gpt2"}


class Client:
    """One of a workload's clients: its class, network and arrivals."""

    def __init__(self, report):
        self.name = report["name"]
        self.network = NETWORKS[self.name.split("_")[1]]
        self.real_time = report["class"] == "real_time"
        self.law, self.load = report["arrivals"]["law"], report["arrivals"].get("load")


def read(name):
    """The clients of a workload."""
    report = json.loads((ROOT / f"{name}.json").read_text(encoding="utf-8"))
    return report["about"], [Client(c) for c in report["clients"]]


def due_times(client, solo_s, seconds, draw):
    """Arrival times, in seconds from the start of a turn; None for a closed loop."""
    if client.law == "closed":
        return None
    gap, at, due = max(solo_s, SHORTEST_S) / client.load, 0.0, []
    while True:
        if client.law == "poisson":
            at += draw.expovariate(1.0) * gap
        else:
            at += gap if due else draw.random() * gap  # a phase, then one a period
        if at >= seconds:
            return due
        due.append(at)


def server_of(a, way, clients):
    """The server of a way."""
    real_time = sum(c.real_time for c in clients)
    one_lane = {"lanes": 1, "segments_per_job": 1, "quantum": 100.0, "most_quantum": 100.0,
                "low_mark": 1e-6, "high_mark": 1e-6}
    policy, more = {
        "rt_only": ("direct", {"lanes": real_time}),
        "seq": ("fifo", one_lane),
        "streams": ("direct", {"lanes": len(clients)}),
        "streams_priority": ("direct", {"lanes": len(clients) - real_time, "real_time_lanes": real_time,
                                        "yields": 0}),
        # Best-effort work stops between kernels, so its segments may be long.
        "preempt": ("fifo", {"lanes": 1, "real_time_lanes": real_time, "quantum": 2e-3})}[way]
    return gsched.Server(policy=policy, gpu=a.gpu, watchdog=a.watchdog / 1e3, **more)


class Way:
    """A server with a workload's models, and its measurements."""

    def __init__(self, a, name, clients, captured):
        self.name = name
        self.clients = [c for c in clients if c.real_time or name != "rt_only"]
        self.server = server_of(a, name, clients)
        self.models = {n: self.server.add_model(captured[n])
                       for n in dict.fromkeys(c.network for c in self.clients)}
        self.owners = {c.name: self.server.add_client() for c in self.clients}
        self.latencies = {c.name: [] for c in self.clients}
        self.spans = []

    def submit(self, client, arrival=None):
        return self.server.submit(self.models[client.network], None, self.owners[client.name],
                                  outputs=(), real_time=client.real_time, arrival=arrival)

    def serve(self, client, due, start, end, failures):
        """One client's turn, on a thread of its own. Requests that end after `end` do not count."""
        seen, waiting = self.latencies[client.name], []
        try:
            if due is None:
                while time.monotonic() < end:
                    future = self.submit(client)
                    future.result(60)
                    if time.monotonic() < end:
                        seen.append(future.latency)
                return
            for at in due:
                time.sleep(max(0.0, start + at - time.monotonic()))
                waiting.append(self.submit(client, start + at))
            for future in waiting:
                future.result(60)
                seen.append(future.latency)
        except Exception as e:  # raised by the thread that joins this one
            failures.append(e)

    def turn(self, seconds, solo_s, seed):
        start, failures = time.monotonic() + 0.01, []
        threads = [threading.Thread(target=self.serve, args=(
            c, due_times(c, solo_s[c.network], seconds, random.Random(f"{seed} {c.name}")), start,
            start + seconds, failures)) for c in self.clients]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if failures:
            raise failures[0]
        self.spans.append(seconds)

    def warm_up(self):
        """Uploads its graphs; its measurements are dropped."""
        for client in self.clients:
            for _ in range(3):
                self.submit(client).result(60)

    def facts(self, solo_s):
        span, out = sum(self.spans), {"clients": {}}
        for c in self.clients:
            s = workload.summary([int(t * 1e9) for t in self.latencies[c.name]])
            out["clients"][c.name] = {"network": c.network, "real_time": c.real_time,
                                      "finished": len(self.latencies[c.name]), "latency_us": s}
        work = lambda some: sum(len(self.latencies[c.name]) * solo_s[c.network] for c in some) / span
        out["work"], out["be_work"] = work(self.clients), work(c for c in self.clients
                                                               if not c.real_time)
        s = self.server.statistics()
        out["preemptions"], out["expired_leases"] = s["preemptions"], s["expired_leases"]
        out["lost"] = s["submitted"] - sum(s[k] for k in ("finished", "failed", "rejected",
                                                          "cancelled"))
        return out


def with_ratios(ways):
    """Adds the ratios to rt_only: the means over the real-time clients."""
    alone = ways.get("rt_only")
    for f in ways.values():
        real_time = [n for n, c in f["clients"].items() if c["real_time"] and c["finished"]]
        if alone is None or not real_time:
            continue
        over = lambda key: sum(f["clients"][n]["latency_us"][key]
                               / max(1e-9, alone["clients"][n]["latency_us"][key])
                               for n in real_time) / len(real_time)
        f["slower"], f["p99_ratio"] = over("mean"), over("p99")
    return ways


def solo_times(a, captured):
    """Seconds that a request of each network takes, one after another on an idle GPU: medians."""
    solo = {}
    for name, one in captured.items():
        server = gsched.Server(policy="direct", gpu=a.gpu, lanes=1, watchdog=a.watchdog / 1e3)
        model, took = server.add_model(one), []
        for _ in range(24):
            future = server.submit(model, None, outputs=())
            future.result(60)
            took.append(future.latency)
        solo[name] = sorted(took[4:])[10]
        server.close()
    return solo


def compare(a, clients, captured, solo_s):
    ways = [Way(a, name, clients, captured) for name in a.ways]
    for way in ways:
        way.warm_up()
        way.turn(0.1, solo_s, "warm-up")
        way.latencies, way.spans = {n: [] for n in way.latencies}, []
    for turn in range(a.turns):
        for way in ways if turn % 2 else ways[::-1]:
            try:
                way.turn(a.seconds, solo_s, f"{a.seed} {turn}")
            except gsched.GschedError as e:
                raise gsched.GschedError(f"{way.name}: {e}") from None
    facts = {way.name: way.facts(solo_s) for way in ways}
    for way in ways:
        way.server.close()
    return with_ratios(facts)


def print_rows(name, about, ways):
    print(f"\n{name}: {about}")
    print(f"{'way':17} {'slower':>7} {'p99 ratio':>9} {'be work':>8} {'work':>6}   real-time clients: "
          "mean / p99 us")
    for way, f in ways.items():
        real_time = {n: c["latency_us"] for n, c in f["clients"].items() if c["real_time"]}
        print(f"{way:17} {f.get('slower', 0):7.3f} {f.get('p99_ratio', 0):9.3f} {f['be_work']:8.3f} "
              f"{f['work']:6.3f}   "
              + ", ".join(f"{n} {s['mean']:.0f} / {s['p99']:.0f}" for n, s in real_time.items()),
              flush=True)


def options():
    p = workload.Parser(description=__doc__,
                        formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--workloads", default=",".join(WORKLOADS), help="default: %(default)s")
    p.add_argument("--ways", default=",".join(WAYS), help="default: %(default)s")
    p.add_argument("--seconds", type=workload.SOME, default=1.0, help="a turn; default: %(default)s")
    p.add_argument("--turns", type=workload.COUNT, default=3,
                   help="of each way; default: %(default)s")
    p.add_argument("--watchdog", type=workload.COUNT, default=5000, metavar="MS",
                   help="work that stands for so long has hung; default: %(default)s")
    p.add_argument("--seed", type=workload.FROM_0, default=1)
    p.add_argument("--gpu", type=workload.FROM_0, default=0)
    p.add_argument("--time-limit", type=workload.SOME, default=300.0, metavar="S",
                   help="workloads that do not fit in are left out; default: %(default)s")
    p.add_argument("--json", metavar="FILE", type=workload.writable)
    a = p.parse_args()
    for option, all in (("workloads", WORKLOADS), ("ways", WAYS)):
        names = getattr(a, option).split(",")
        setattr(a, option, names)
        for name in names:
            if name not in all:
                p.error(f'--{option}: "{name}", expected some of {", ".join(all)}')
        if len(set(names)) != len(names):
            p.error(f"--{option}: one of them twice")
    return a


def main():
    a = options()
    faulthandler.dump_traceback_later(a.time_limit + 120, exit=True)
    began = time.monotonic()
    torch = workload.import_torch("disb")
    results = {}
    try:
        gsched.load_library()
        if not torch.cuda.is_available():
            raise gsched.GschedError("torch sees no GPU, expected one")
        asked = {name: read(name) for name in a.workloads}
        uses = {}
        for _, clients in asked.values():
            for n in {c.network for c in clients}:
                uses[n] = max(uses.get(n, 0), sum(c.network == n for c in clients))
        captured = {n: gsched.capture(*models.make(n, a.seed), name=n, gpu=a.gpu, instances=k)
                    for n, k in uses.items()}
        solo_s = solo_times(a, captured)
        print("alone, us: " + ", ".join(f"{n} {s * 1e6:.0f}" for n, s in solo_s.items()), flush=True)
        for name, (about, clients) in asked.items():
            if time.monotonic() - began > a.time_limit:
                print(f"{name}: left out, --time-limit {a.time_limit:g} is over", flush=True)
                continue
            results[name] = compare(a, clients, captured, solo_s)
            print_rows(name, about, results[name])
            if a.json and not workload.save(a.json, {
                    "device": torch.cuda.get_device_name(a.gpu), "torch": torch.__version__,
                    "seconds": a.seconds, "turns": a.turns, "seed": a.seed,
                    "solo_us": {n: s * 1e6 for n, s in solo_s.items()}, "workloads": results}):
                return 1
    except (gsched.GschedError, RuntimeError, AssertionError) as e:
        print(f"disb: {str(e).splitlines()[0]}", file=sys.stderr)
        return 1
    return 0 if len(results) == len(a.workloads) else 1


if __name__ == "__main__":
    sys.exit(main())
