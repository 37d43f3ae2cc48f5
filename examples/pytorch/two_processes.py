#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pairs of realtime.py without gsched: a process for each model, the usual way to share a GPU.

Each process replays its model's whole graph by torch. The real-time one pauses for an exponential time,
replays, and waits; the best-effort one keeps two replays queued. Each is measured alone and beside the
other, in turn, under every setting:

  time_slicing   two processes, nothing else
  mps            both under NVIDIA's MPS
  mps_50         the best-effort process with half of the threads
  mps_25         ... with a quarter
  mps_priority   the best-effort process with the lower client priority

Ratios are over the same process alone with the whole GPU: without MPS if that is one of the settings,
otherwise under the same setting. The program starts MPS for these runs in a directory of its own and
stops it afterwards; it does not touch a control daemon that runs already.
"""

import argparse
import collections
import contextlib
import faulthandler
import json
import os
import random
import subprocess
import sys
import time

import checkout # the package of this checkout
import models
import mps
import workload

SETTINGS = {"time_slicing": (False, {}), "mps": (True, {}),
            "mps_50": (True, {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}),
            "mps_25": (True, {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25"}),
            "mps_priority": (True, {"CUDA_MPS_CLIENT_PRIORITY": "1"})}


def options():
    p = workload.Parser(description=__doc__,
                        formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pairs", default="resnet152+vgg19,resnet18+resnet50_b8",
                   help="real-time+best-effort, ...; default: %(default)s")
    p.add_argument("--settings", default=",".join(SETTINGS), help="default: all")
    p.add_argument("--think", type=workload.SOME, default=4.0, metavar="MS",
                   help="mean think time; default: %(default)s")
    p.add_argument("--seconds", type=workload.SOME, default=1.2, help="a turn; default: %(default)s")
    p.add_argument("--turns", type=workload.COUNT, default=2, help="default: %(default)s")
    p.add_argument("--seed", type=workload.FROM_0, default=1)
    p.add_argument("--gpu", type=workload.FROM_0, default=0)
    p.add_argument("--json", metavar="FILE", type=workload.writable)
    p.add_argument("--worker", help=argparse.SUPPRESS)
    a = p.parse_args()
    try:
        a.pairs = [models.pair(text) for text in a.pairs.split(",")]
        a.settings = a.settings.split(",")
        unknown = [s for s in a.settings if s not in SETTINGS]
        if unknown:
            raise ValueError(f'--settings: "{unknown[0]}", expected some of {", ".join(SETTINGS)}')
    except ValueError as e:
        p.error(str(e))
    return a


# One of the two processes --------------------------------------------------------------------------

def serve(a):
    """Answers lines of JSON: {"pair", "seconds", "seed", "start"} with what was measured."""
    faulthandler.dump_traceback_later(600, exit=True)
    import torch

    import gsched

    real_time = a.worker == "rt"
    torch.cuda.set_device(a.gpu)
    graphs = [gsched.capture(*models.make(pair[0 if real_time else 1], a.seed), instances=1,
                             gpu=a.gpu).instances[0].graph for pair in a.pairs]
    stream = torch.cuda.Stream(a.gpu)

    def real_time_turn(graph, until, draw):
        took = []
        while time.monotonic() < until:
            time.sleep(draw.expovariate(1.0) * a.think / 1e3)
            began = time.monotonic_ns()
            graph.replay()
            stream.synchronize()
            took.append((time.monotonic_ns() - began) / 1e3)
        return {"latencies_us": took}

    def best_effort_turn(graph, until):
        done, queued = 0, collections.deque()
        while time.monotonic() < until:
            while len(queued) < 2:
                graph.replay()
                queued.append(torch.cuda.Event())
                queued[-1].record(stream)
            queued.popleft().synchronize()
            done += time.monotonic() < until
        stream.synchronize()
        return {"done": done}

    with torch.cuda.stream(stream):
        for graph in graphs:
            graph.replay()
        stream.synchronize()
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            ask = json.loads(line)
            while time.monotonic() < ask["start"]:
                pass
            until = ask["start"] + ask["seconds"]
            graph = graphs[ask["pair"]]
            report = (real_time_turn(graph, until, random.Random(ask["seed"])) if real_time
                    else best_effort_turn(graph, until))
            print(json.dumps(report), flush=True)
    return 0


# Both of them --------------------------------------------------------------------------------------

class Worker:
    def __init__(self, a, role, environment):
        pairs = ",".join("+".join(pair) for pair in a.pairs)
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--worker", role, "--pairs", pairs,
             "--think", str(a.think), "--seed", str(a.seed), "--gpu", str(a.gpu)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **environment})

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            report = self.process.stderr.read().strip().splitlines()
            raise RuntimeError(f"a process ended early: {report[-1] if report else 'without a word'}")
        return json.loads(line)

    def ask(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def measure(a, environment, best_effort_only, whole):
    """{pair: facts} of one setting; `whole`: those with the whole GPU, if they are known."""
    workers = {"rt": Worker(a, "rt", environment),
               "be": Worker(a, "be", {**environment, **best_effort_only})}
    try:
        for w in workers.values():
            w.answer()
        facts = {}
        for i, pair in enumerate(a.pairs):
            seen = {k: [] for k in ("rt alone", "rt beside", "be alone", "be beside")}
            for turn in range(a.turns):
                for roles in (("rt",), ("be",), ("rt", "be")):
                    start = time.monotonic() + 0.05
                    for r in roles:
                        workers[r].ask(pair=i, seconds=a.seconds, start=start,
                                       seed=a.seed * 1000 + turn)
                    for r in roles:
                        report = workers[r].answer()
                        key = f"{r} {'beside' if len(roles) == 2 else 'alone'}"
                        seen[key] += report.get("latencies_us", [report.get("done")])
            name = "+".join(pair)
            facts[name] = summed_up(a, seen, whole.get(name))
        return facts
    finally:
        for w in workers.values():
            w.close()


def summed_up(a, seen, whole):
    def of(values):
        s = sorted(values)
        return {"requests": len(s), "mean": sum(s) / len(s),
                **{f"p{p}": s[(len(s) * p + 99) // 100 - 1] for p in (50, 90, 99)}}

    alone, beside, span = of(seen["rt alone"]), of(seen["rt beside"]), a.seconds * a.turns
    rate, kept = sum(seen["be alone"]) / span, sum(seen["be beside"]) / span
    facts = {"rt_alone": alone, "rt": beside, "be_alone_per_s": rate, "be_per_s": kept}
    base = whole or facts
    left_over = 1 - beside["requests"] * base["rt_alone"]["mean"] / 1e6 / span
    return {**facts, "slowdown": beside["mean"] / base["rt_alone"]["mean"],
            "p99_ratio": beside["p99"] / base["rt_alone"]["p99"], "left_over": left_over,
            "be_kept": kept / base["be_alone_per_s"],
            "be_share": kept / base["be_alone_per_s"] / max(left_over, 1e-9)}


def main():
    a = options()
    if a.worker:
        return serve(a)
    faulthandler.dump_traceback_later(560, exit=True)
    results = {}
    print(f"{'setting':14} {'pair':28} rt alone us   beside     p99   slower   p99 ratio   "
          "be alone/s   beside   be share", flush=True)
    try:
        for setting in a.settings:
            shared, best_effort_only = SETTINGS[setting]
            with mps.control_daemon() if shared else contextlib.nullcontext({}) as environment:
                results[setting] = measure(a, environment, best_effort_only,
                                           results.get("time_slicing", {}))
            for pair, f in results[setting].items():
                print(f"{setting:14} {pair:28} {f['rt_alone']['mean']:11.1f} {f['rt']['mean']:8.1f}"
                      f" {f['rt']['p99']:7.1f} {f['slowdown']:8.3f} {f['p99_ratio']:11.3f}"
                      f" {f['be_alone_per_s']:12.1f} {f['be_per_s']:8.1f} {f['be_share']:10.3f}",
                      flush=True)
            if a.json and not workload.save(a.json, {
                    "think_ms": a.think, "seconds": a.seconds, "turns": a.turns, "seed": a.seed,
                    "settings": results}):
                return 1
    except (RuntimeError, OSError, subprocess.SubprocessError) as e:
        print(f"two_processes: {str(e).splitlines()[0]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
