#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch models served by a plan, with data: batches of the requests of several threads, on partitions.

Each thread submits requests of a model at random times, with one of --inputs inputs each, and waits
for their answers. An answer is compared with that of the module alone: it must be as close as the answers
of batches of different sizes are to each other. The program says how many requests were answered in
time, late, or dropped, what their latencies were, and which plan served them.

    CUDA_DEVICE_MAX_CONNECTIONS=32 plan_server.py --rates resnet50=300,lenet=500 --seconds 10
"""

import argparse
import collections
import faulthandler
import gc
import math
import os
import pathlib
import sys
import threading
import time

import checkout # the package of this checkout
import gsched
import models
import workload

# Partitions whose streams share a hardware queue block each other; the driver reads this once.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")

DATA = pathlib.Path(__file__).resolve().parents[2] / "tools" / "data"
TABLE = str(DATA / "latency_batch_partition.csv")


def options():
    p = workload.Parser(description=__doc__,
                        formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rates", default="lenet=500,resnet50=300",
                   help="requests a second of each model; default: %(default)s")
    p.add_argument("--slo", type=workload.SOME, default=50.0, metavar="MS",
                   help="of each model; default: %(default)s")
    p.add_argument("--batches", default="1,2,4,8,16,32", help="default: %(default)s")
    p.add_argument("--instances", type=workload.COUNT, default=4,
                   help="graphs of each batch size; default: %(default)s")
    p.add_argument("--planner", default="best",
                   help="NAME, or NAME+share: models may share SMs; default: %(default)s")
    p.add_argument("--no-interference", action="store_true",
                   help="plan as if models did not slow each other, as is done with another --table; else "
                        "slow-downs are predicted by tools/data")
    p.add_argument("--learn-interference", action="store_true",
                   help="correct the predicted slow-downs by the batches served")
    p.add_argument("--period", type=workload.SOME, default=20.0, metavar="S",
                   help="between two decisions on a plan; default: %(default)s")
    p.add_argument("--table", default=TABLE, metavar="FILE")
    p.add_argument("--sms", type=workload.FROM_0, default=0,
                   help="of each GPU to plan with; default: 0, all")
    p.add_argument("--when-due", action="store_true",
                   help="batches wait for more requests as long as none is late")
    p.add_argument("--seconds", type=workload.SOME, default=10.0, help="default: %(default)s")
    p.add_argument("--threads", type=workload.COUNT, default=2,
                   help="that submit requests of each model; default: %(default)s")
    p.add_argument("--inputs", type=workload.COUNT, default=8, help="default: %(default)s")
    p.add_argument("--keep-results", action="store_true",
                   help="look at all results at the end: each request then has new pinned memory. "
                        "PYTORCH_CUDA_ALLOC_CONF=pinned_reserve_segment_size_mb:2048 has it made before")
    p.add_argument("--seed", type=workload.FROM_0, default=1)
    p.add_argument("--gpus", default="0", metavar="N,...", help="their numbers; default: %(default)s")
    p.add_argument("--time-limit", type=workload.SOME, default=300.0, metavar="S",
                   help="then the program is ended; default: %(default)s")
    p.add_argument("--json", metavar="FILE", type=workload.writable)
    a = p.parse_args()
    if a.no_interference and (a.learn_interference or a.planner.endswith("+share")):
        p.error("--no-interference: with --learn-interference or +share, expected one of them")
    try:
        a.rates = {models.known(name): float(rate) for name, _, rate in
                   (part.partition("=") for part in a.rates.split(","))}
        a.batches = [int(b) for b in a.batches.split(",")]
        a.gpus = [workload.FROM_0(gpu) for gpu in a.gpus.split(",")]
        if not all(rate > 0 for rate in a.rates.values()):
            raise ValueError("--rates: expected numbers above 0")
    except (ValueError, argparse.ArgumentTypeError) as e:
        p.error(str(e))
    return a


MOST_WAITING = 64 # requests whose answers a late client has not taken yet


class Client(threading.Thread):
    """Submits requests of a model at Poisson times, and compares each answer between two of them. It
    keeps none, but if told to: their pinned memory is used again. To make new memory for each takes up to
    milliseconds, and no batch can be launched meanwhile. A late client compares no answers, so that it
    catches up, and keeps MOST_WAITING of them at most."""

    def __init__(self, server, model, inputs, expected, rate, seconds, seed, keeps):
        super().__init__(daemon=True)
        self.keeps = keeps
        self.server, self.model, self.inputs, self.expected = server, model, inputs, expected
        self.rate, self.seconds, self.random = rate, seconds, workload.Mersenne(seed)
        self.waiting = collections.deque() # which input, due time, future
        self.behind, self.states, self.dropped_s, self.latencies = [], [], [], []
        self.worst, self.wrong, self.not_compared, self.error = 0.0, 0, 0, None

    def run(self):
        try:
            begun = due = time.monotonic()
            until = due + self.seconds
            sent = 0
            while (due := due + self.random.exponential() / self.rate) < until:
                while not self.keeps and self.waiting and self.waiting[0][2].done():
                    late = time.monotonic() > due - 1e-3
                    if late and len(self.waiting) <= MOST_WAITING:
                        break
                    self.take(compares=not late)
                time.sleep(max(0.0, due - time.monotonic()))
                which = sent % len(self.inputs)
                sent += 1
                self.behind.append(time.monotonic() - due)
                self.waiting.append((which, due - begun, self.server.submit(
                    self.model, self.inputs[which], arrival=due)))
            while self.waiting:
                self.waiting[0][2].wait()
                self.take()
        except gsched.GschedError as e:
            self.error = str(e)

    def take(self, compares=True):
        """The request that was sent first, which has ended."""
        which, due, future = self.waiting.popleft()
        self.states.append(future.state)
        if future.state == "finished":
            self.latencies.append(round(future.latency * 1e9))
            self.not_compared += not compares
            if not compares:
                return
            far = farthest(future.result(), self.expected[which])
            self.worst = max(self.worst, far)
            self.wrong += far > 1e-2 # TF32 and other orders of addition; another request's answer is far off
        elif future.state == "rejected":
            self.dropped_s.append(round(due, 3))


def pinned_blocks(torch):
    """How many blocks of memory torch has pinned so far; 0 where it does not tell."""
    stats = getattr(torch.cuda, "host_memory_stats", dict)()
    return stats.get("num_host_alloc", 0)


def farthest(got, wanted):
    """The largest difference of two answers, relative to the largest number of the second."""
    worst = 0.0
    for x, y in zip(gsched.tensors_of(got), gsched.tensors_of(wanted)):
        scale = max(float(y.abs().max()), 1e-30)
        worst = max(worst, float((x.float() - y.float()).abs().max()) / scale)
    return worst


def outcome_of(a, model, clients):
    all_of = lambda name: [x for c in clients for x in getattr(c, name)] # noqa: E731
    latencies, states = all_of("latencies"), all_of("states")
    report = model.report()
    return {"model": model.name, "requests": len(states), "answered": len(latencies),
            "in_time": sum(ns <= a.slo * 1e6 for ns in latencies),
            "dropped": states.count("rejected"), "failed": states.count("failed"),
            "dropped_s": sorted(all_of("dropped_s")),
            "behind_p99_ms": workload.percentile(all_of("behind"), 99) * 1e3,
            "wrong": sum(c.wrong for c in clients), "not_compared": sum(c.not_compared for c in clients),
            "farthest": max(c.worst for c in clients),
            "batches": report["batches"],
            **{k: report[k] for k in ("slow_down", "host_part", "sensitivity", "pressure",
                                      "learned_from", "sensitivity_error", "pressure_error")},
            "p50_ms": workload.percentile(latencies, 50) / 1e6,
            "p99_ms": workload.percentile(latencies, 99) / 1e6}


def main():
    a = options()
    faulthandler.dump_traceback_later(a.time_limit, exit=True)
    torch = workload.import_torch("plan_server")
    torch.set_num_threads(1) # of each client, to copy an input: with more they wait for each other
    try:
        asked, inputs, expected = [], {}, {}
        for name, rate in a.rates.items():
            module, _ = models.make(name, a.seed)
            inputs[name] = [models.draw(f"{name}_b1", torch.Generator().manual_seed(a.seed + i))
                            for i in range(a.inputs)]
            asked.append(gsched.PlanModel(module, inputs[name][0], slo=a.slo / 1e3, rate=rate,
                                          name=name, batches=a.batches, instances=a.instances))
        known = {}
        is_known = a.table == TABLE or a.learn_interference or a.planner.endswith("+share")
        if is_known and not a.no_interference:
            known = {"interference": DATA / "interference/h200.json", "solo": DATA / "solo_metrics.csv"}
        if a.planner.endswith("+share"):
            known["profiles"] = DATA / "profiles"
        server = gsched.PlanServer(asked, a.table, a.gpus, a.planner, **known, sms=a.sms, period=a.period,
                                   at_once=int(not a.when_due), learns=int(a.learn_interference))
        for gpu in a.gpus:
            gsched.leave_slow_side(gpu)
        with server:
            for model in server.models: # one by one: batches of 1
                expected[model.name] = [server.submit(model, x).result() for x in inputs[model.name]]
            clients = {model: [Client(server, model, inputs[model.name], expected[model.name],
                                      a.rates[model.name] / a.threads, a.seconds,
                                      1000 * a.seed + 10 * model.index + t, a.keep_results)
                               for t in range(a.threads)] for model in server.models}
            gc.collect()
            pinned = pinned_blocks(torch)
            gc.freeze() # a full collection visits all of PyTorch's objects: clients stand for 0.2 s
            for each in clients.values():
                for c in each:
                    c.start()
            for each in clients.values():
                for c in each:
                    c.join()
            pinned = pinned_blocks(torch) - pinned
            lines = [c.error for each in clients.values() for c in each if c.error]
            if lines:
                raise gsched.GschedError(lines[0])
            runs = [outcome_of(a, m, each) for m, each in clients.items()]
            plan = server.report()
    except (gsched.GschedError, RuntimeError, ValueError, OSError) as e:
        print(f"plan_server: {str(e).splitlines()[0]}", file=sys.stderr)
        return 1
    print(f"{plan['partitions']} partitions of {plan['sms']} SMs, {plan['switches']} switches")
    print(f"{'model':20} {'requests':>8} {'in time':>8} {'dropped':>8} {'wrong':>6} {'a batch':>8} "
          f"{'p50 ms':>8} {'p99 ms':>8}")
    for r in runs:
        print(f"{r['model']:20} {r['requests']:8} {r['in_time']:8} {r['dropped']:8} {r['wrong']:6} "
              f"{r['answered'] / max(r['batches'], 1):8.1f} {r['p50_ms']:8.2f} {r['p99_ms']:8.2f}")
    for r in runs if a.learn_interference else ():
        print(f"{r['model']}: {r['sensitivity']:.2f} times as sensitive to the others as expected, within a "
              f"factor of {math.exp(r['sensitivity_error']):.2f}; presses {r['pressure']:.2f} times as much, "
              f"within {math.exp(r['pressure_error']):.2f}; by {r['learned_from']} batches")
    if (host := max(r["host_part"] for r in runs)) > 0.1:
        print(f"up to {100 * host:.0f}% of a model's batch times may be the host's: the server's thread was busy "
              "with other batches, waited in the driver, or lost its core")
    if pinned:
        print(f"{pinned} blocks of memory were pinned meanwhile, each of which holds up launches")
    if skipped := sum(r["not_compared"] for r in runs):
        print(f"{skipped} answers were not compared: their clients were late")
    if (behind := max(r["behind_p99_ms"] for r in runs)) > 0.1 * a.slo:
        print(f"a hundredth of the requests were submitted {behind:.0f} ms late or more, which counts as "
              "latency: the clients are too slow for these rates")
    if a.json:
        workload.save(a.json, {"gpu": torch.cuda.get_device_name(a.gpus[0]), "gpus": len(a.gpus),
                               "torch": torch.__version__,
                               "slo_ms": a.slo, "plan": plan, "pinned": pinned, "runs": runs})
    return 1 if any(r["wrong"] or r["failed"] for r in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
