#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Serves PyTorch models in several ways, with the same arrivals for all of them, and compares.

Each way has a process of its own. All start at once; then the runs follow one another on the GPU, way
after way for each load, so that no two run together and conditions are equal.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import queue
import subprocess
import sys
import threading
import time

import checkout # the package of this checkout
import gsched
import ways
import workload

HERE = pathlib.Path(__file__).resolve().parent
EPILOG = """ways
  srpt+deficit srpt sjf fifo rr edf deficit   scheduled by gsched, segment by segment
  boost, boost:F      the same, between srpt's mean (F near 0) and the tail of fifo (F of 1); 0.3
  direct, single      whole graphs, on a stream per client or all on one, by gsched's host code
  eager-single        modules as they are: one thread, one stream
  eager-streams       modules as they are: a thread and a stream per client
  torch-direct        whole graphs, replayed by torch on a stream per client

Load 1 is one request per mean time of a whole graph, alone on the GPU; small models fit beside one
another, so more than 1 can be served. Latencies count from when a request was due. `reference us`
is a fixed graph of small kernels replayed after the run: it rises by some 10%, and stays there, in a
process that has launched kernels on several streams.
In the JSON, `late_us` is how long after it was due a request came to submit, and `submit_us` how long
that call took. Both count to latencies.

Exit code: 0; 1 if a way failed or lost a request; 2 for a usage error, with one line.
"""


def options():
    p = workload.Parser(description=__doc__, epilog=EPILOG,
                        formatter_class=argparse.RawDescriptionHelpFormatter)
    count, some, from_0 = workload.COUNT, workload.SOME, workload.FROM_0
    p.add_argument("--ways", default="srpt+deficit,direct,single", help="see below; default: "
                   "%(default)s")
    p.add_argument("--mix", default="uniform", help="NAME=WEIGHT,..., uniform (table 2 of the "
                   "Paella paper) or all (those, BERT and GPT-2); default: %(default)s")
    p.add_argument("--arrivals", default="poisson", metavar="LAW",
                   help="poisson or lognormal:SIGMA; default: %(default)s")
    p.add_argument("--load", help="see below; default: 0.9")
    p.add_argument("--loads", help="several, between commas")
    p.add_argument("--rate", type=some, help="requests a second, in place of a load")
    p.add_argument("--requests", type=count, default=1000, help="of each run; default: %(default)s")
    p.add_argument("--clients", type=count, default=8)
    p.add_argument("--instances", type=count, default=4,
                   help="of each model: so many requests of it run at once; direct and "
                   "torch-direct have one for each client at least; default: %(default)s")
    p.add_argument("--repeat", type=count, default=1, help="runs of each way and load")
    p.add_argument("--seed", type=from_0, default=1)
    p.add_argument("--gpu", type=from_0, default=0)
    p.add_argument("--quantum", type=some, metavar="US", help="of a segment")
    p.add_argument("--most-quantum", type=some, metavar="US")
    p.add_argument("--lanes", type=count)
    p.add_argument("--spare-lanes", type=from_0,
                   help="more lanes, used only while what runs leaves a part of the GPU empty; "
                   "default: 120 with 8 lanes, otherwise none")
    p.add_argument("--overshoot", type=some)
    p.add_argument("--threshold", type=some, metavar="US")
    p.add_argument("--slice", type=some, metavar="US", help="of rr")
    p.add_argument("--spin", type=some, metavar="US",
                   help="the server's thread looks for work for so long before it sleeps; default: 50")
    p.add_argument("--no-isolate", action="store_true", help="one process for all ways; those that "
                   "launch on several streams run last")
    p.add_argument("--no-warmup", action="store_true", help="no requests before those that count")
    p.add_argument("--time-limit", type=some, default=300.0, metavar="S",
                   help="for everything: fewer requests are sent to keep it; default: %(default)s")
    p.add_argument("--json", metavar="FILE", type=workload.writable,
                   help="all results, as serve_mix writes them")
    p.add_argument("--save-arrivals", metavar="FILE", type=workload.writable,
                   help="those of the first run, for serve_mix --arrivals trace:FILE")
    a = p.parse_args()
    a.ways = [w.strip() for w in a.ways.split(",")]
    for w in a.ways:
        if not ways.is_way(w):
            p.error(f'--ways: "{w}", expected some of {", ".join(ways.ALL)}, boost:FACTOR')
    if len(set(a.ways)) != len(a.ways):
        p.error("--ways: one of them twice, expected each once")
    if a.threshold is not None and "srpt+deficit" not in a.ways:
        p.error("--threshold: given without the way srpt+deficit, expected it in --ways")
    if a.slice is not None and "rr" not in a.ways:
        p.error("--slice: given without the way rr, expected it in --ways")
    if sum(x is not None for x in (a.load, a.loads, a.rate)) > 1:
        p.error("--load, --loads, --rate: more than one of them, expected one")
    try:
        texts = (a.loads or a.load or "0.9").split(",")
        a.load_list = [None] if a.rate else [workload.SOME(t) for t in texts]
    except argparse.ArgumentTypeError as e:
        p.error(f"--loads: {e}")
    try:
        a.weights = workload.mix_of(a.mix)
        workload.law_of(a.arrivals)
    except ValueError as e:
        p.error(str(e))
    return a


class Process:
    """A process that serves in some of the ways."""

    def __init__(self, names):
        self.ways, self.failure = names, None
        self._process = subprocess.Popen([sys.executable, str(HERE / "ways.py")], text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._answers = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def ask(self, within_s, **report):
        try:
            self._process.stdin.write(json.dumps({**report, "within_s": within_s}) + "\n")
            self._process.stdin.flush()
        except OSError:
            pass # the reply has the reason

    def answer(self, within_s):
        """The reply to a request; None if there is none: then `failure` has the reason."""
        try:
            line = self._answers.get(timeout=within_s + 5)
        except queue.Empty:
            line = None
            self.failure = f"no answer within {within_s:.0f} s"
            self._process.kill()
        report = json.loads(line) if line else {}
        if "error" in report or line is None:
            self.failure = report.get("error") or self.failure or \
                f"ended with status {self._process.wait()}"
            return None
        return report

    def close(self):
        self._process.stdin.close()
        try:
            self._process.wait(35)
        except subprocess.TimeoutExpired:
            self._process.kill()


def start(a, deadline):
    """Processes that are ready. They load at the same time, then set up the GPU one after another, as
    the set-up measures the GPU."""
    several = ("eager-streams", "torch-direct") # streams: last, where all are in one process
    groups = [sorted(a.ways, key=several.__contains__)] if a.no_isolate else [[w] for w in a.ways]
    given = {"lanes": a.lanes, "spare_lanes": a.spare_lanes, "overshoot": a.overshoot,
             **{name: us and us / 1e6 for name, us in (
                 ("quantum", a.quantum), ("most_quantum", a.most_quantum),
                 ("threshold", a.threshold), ("slice", a.slice), ("spin", a.spin))}}
    within = max(10.0, deadline - time.monotonic())
    processes = [Process(g) for g in groups]
    for p in processes:
        p.ask(within, ways=p.ways, names=list(a.weights), clients=a.clients, gpu=a.gpu,
              instances=a.instances, seed=a.seed,
              options={k: v for k, v in given.items() if v is not None})
    for p in processes:
        report = p.answer(max(1.0, deadline - time.monotonic()))
        if report is not None:
            left = max(1.0, deadline - time.monotonic())
            p.ask(left, set_up=True)
            report = p.answer(left)
        if report is None:
            print(f"serve_models: {', '.join(p.ways)}: {p.failure}", file=sys.stderr, flush=True)
        else:
            p.ready = report["ready"]
    return processes


def seconds(a, process, way, rate, requests):
    """The time of a run: that of the arrivals, or of the service if it is slower."""
    serve = process.ready["serve_us"][way]
    mean = sum(a.weights[n] * serve[n] for n in a.weights) / sum(a.weights.values()) / 1e6
    return requests * max(1 / rate, mean) + 0.5


def plan(a, processes, rates, left):
    """The number of requests of each run with which all runs fit into the remaining time."""
    def total(requests):
        return a.repeat * sum(seconds(a, p, w, r, requests)
                              for p in processes for w in p.ways for r in rates)

    requests, least = a.requests, min(a.requests, 100)
    while requests > least and total(requests) > left:
        requests = max(least, int(requests * 0.9))
    runs = a.repeat * len(rates) * sum(len(p.ways) for p in processes)
    print(f"{runs} runs of {requests} requests: about {total(requests):.0f} s, {left:.0f} s left"
          + (f"; {a.requests} requests would take {total(a.requests):.0f} s"
             if requests < a.requests else ""), flush=True)
    return requests


def document(a, facts, solo_us, mean_us, rate, requests, runs):
    lanes = a.lanes or 8
    connections = os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS")
    return {
        "device": facts["device"], "seed": a.seed,
        "workload": {"mix": a.weights, "clients": a.clients, "weights": [1.0],
                     "requests": requests, "arrivals": a.arrivals, "mean_solo_us": round(mean_us, 3),
                     "rate_per_s": round(rate, 6), "load": round(rate * mean_us / 1e6, 6),
                     "slo": None, "slo_ms": None,
                     "solo_us": {n: round(us, 3) for n, us in solo_us.items()}},
        "scheduling": {"quantum_us": a.quantum or 100.0, "most_quantum_us": a.most_quantum or 800.0,
                       "overshoot": a.overshoot or 4.0, "lanes": lanes,
                       "spare_lanes": (120 if lanes == 8 else 0) if a.spare_lanes is None
                       else a.spare_lanes,
                       "threshold_us": a.threshold or 10000.0, "slice_us": a.slice or 100.0,
                       "decision_delay_us": 0.0, "submission": "graph",
                       "queues": int(connections) if (connections or "").isdigit() else None},
        "instances": a.instances, "spin_us": a.spin or 50.0, "isolated": not a.no_isolate,
        "environment": {"CUDA_DEVICE_MAX_CONNECTIONS": connections, "torch": facts["torch"],
                        "cuda": facts["cuda"]},
        "runs": runs}


def measure(a, deadline):
    """Documents in the format of serve_mix, one for each load, and whether all runs succeeded."""
    processes, began = start(a, deadline), time.monotonic()
    try:
        well = all(p.failure is None for p in processes)
        processes = [p for p in processes if p.failure is None]
        if not processes:
            return [], {}, False
        facts, names = processes[0].ready, list(a.weights)
        solo = {n: workload.median([p.ready["solo_us"][n] for p in processes]) for n in names}
        mean_us = sum(a.weights[n] * solo[n] for n in names) / sum(a.weights.values())
        rates = [a.rate if load is None else load * 1e6 / mean_us for load in a.load_list]
        print(f"{facts['device']}, torch {facts['torch']}: whole graphs take "
              + ", ".join(f"{n} {solo[n]:.0f}" for n in names) + f" us; the mix {mean_us:.0f} us",
              flush=True)
        requests = plan(a, processes, rates, deadline - time.monotonic() - 5)
        every = [(w, r, n) for w in range(sum(len(p.ways) for p in processes))
                 for r in range(len(rates)) for n in range(a.repeat)]
        if not a.no_isolate: # ways take turns
            every.sort(key=lambda run: (run[1], run[2], run[0]))
        homes = [(p, way) for p in processes for way in p.ways]
        runs, warm = [[] for _ in rates], set()
        for w, r, repeat in every:
            (p, way), rate = homes[w], rates[r]
            if p.failure is not None:
                continue
            asked = workload.arrivals(a.arrivals, rate, list(a.weights.values()), a.clients,
                                      a.seed + repeat, requests)
            if a.save_arrivals and (w, r, repeat) == every[0]:
                workload.save_trace(a.save_arrivals, asked, names)
            needs = seconds(a, p, way, rate, requests)
            left = deadline - time.monotonic() - 2
            if left < min(needs, 2.0):
                print(f"{way}, {rate:.0f} a second: skipped, no time left", flush=True)
                well = False
                continue
            limit = min(left, 2 * needs + 5)
            p.ask(limit + 70, way=way, asked=asked, limit_s=limit,
                  warm=not a.no_warmup and way not in warm)
            report = p.answer(limit + 70)
            if report is None:
                print(f"serve_models: {way}: {p.failure}", file=sys.stderr, flush=True)
                well = False
                continue
            warm.add(way)
            run = workload.run_json(way, repeat, asked, names, a.clients, report["outcome"])
            run["statistics"] = report["outcome"].get("statistics")
            runs[r].append(run)
            well = well and run["finished"] == run["submitted"]
            print(f"  load {rate * mean_us / 1e6:.2f} {way}: {run['finished']} of "
                  f"{run['submitted']}, {run['throughput_per_s']:.1f}/s, mean "
                  f"{run['latency_us']['mean'] / 1e3:.3f} ms, p99 "
                  f"{run['latency_us']['p99'] / 1e3:.3f} ms"
                  + (f"; {run['error']}" if "error" in run else ""), flush=True)
        documents = [document(a, facts, solo, mean_us, rate, requests, runs[r])
                     for r, rate in enumerate(rates)]
        report = {w: {k: p.ready[k] for k in ("solo_us", "serve_us", "reference_us", "setup_s")}
                | {"models": p.ready["models"].get(w)} for p in processes for w in p.ways}
        print(f"{time.monotonic() - began:.0f} s of runs", flush=True)
        return documents, report, well
    finally:
        for p in processes:
            p.close()


def main():
    a = options()
    try:
        if importlib.util.find_spec("torch") is None:
            raise gsched.GschedError("torch is not installed, expected PyTorch 2.11 or newer")
        if any(ways.is_scheduled(w) for w in a.ways):
            gsched.load_library()
        documents, processes, well = measure(a, time.monotonic() + a.time_limit)
    except gsched.GschedError as e:
        print(f"serve_models: {e}", file=sys.stderr)
        return 1
    for d in documents:
        w = d["workload"]
        print("\n".join(["", *workload.table(
            f"{d['device']}: {w['requests']} requests of {w['clients']} clients, {w['arrivals']} "
            f"arrivals, {w['rate_per_s']:.1f} a second, load {w['load']:.2f}, seed {d['seed']}",
            d["runs"])]), flush=True)
    if a.json and documents:
        report = documents[0] | {"processes": processes}
        if a.loads:
            report = {"device": report["device"], "seed": a.seed, "processes": processes,
                    "sweep": documents}
        well = workload.save(a.json, report) and well
    return 0 if well and documents else 1


if __name__ == "__main__":
    sys.exit(main())
