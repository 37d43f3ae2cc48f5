#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Serving by plan beside what users have without it, with the same requests at the same times.

In one process (serve_partitions):
  whole         one batch at a time on the whole GPU
  streams       a stream for each model
  priorities    that, and the model with the shortest SLO has the most urgent stream
  plan          partitions by the planner `best`
A process for each model, with a stream on each GPU:
  time_slicing  nothing else: the driver lets processes take turns
  mps           under NVIDIA's MPS
  mps_shares    ... where each process has a share of the SMs (CUDA_MPS_ACTIVE_THREAD_PERCENTAGE):
                the least that serves its model by the latency table, and its part of the rest
  mps_priority  ... where all but the model with the shortest SLO have the lower client priority

The processes of a way are set up before any of them serves, and start at the same moment. Batches
are stand-ins that take the time of the latency table, or with --pytorch captured PyTorch models.

    serving_rivals.py --rates lenet=1000,resnet50=500,vgg16=500 --slo lenet=5,resnet50=95,vgg16=130

A way that this machine does not offer is reported as not available; then and otherwise, no process
outlives the program.
"""

import argparse
import contextlib
import csv
import json
import math
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time

import mps
import processes
import workload
from processes import Failed

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ONE_PROCESS = {"whole": ["--planner", "whole"], "streams": ["--planner", "streams"],
               "priorities": ["--planner", "priorities"],
               "plan": ["--planner", "best", "--once"]}
PROCESSES = ("time_slicing", "mps", "mps_shares", "mps_priority")
WAYS = ("whole", "streams", "priorities", *PROCESSES, "plan")
GROUP = 8 # SMs: shares are multiples of it


def numbers(text):
    """{name: number} of NAME=X,..."""
    of = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        of[name] = workload.SOME(value)
    return of


def options():
    p = workload.Parser(description=__doc__,
                        formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rates", type=numbers, required=True, metavar="MODEL=R,...",
                   help="requests a second")
    p.add_argument("--slo", type=numbers, required=True, metavar="MODEL=MS,...", help="of each model")
    p.add_argument("--loads", default="1", metavar="X,...", help="times the rates; default: 1")
    p.add_argument("--ways", default=",".join(WAYS), help="default: all")
    p.add_argument("--seconds", type=workload.SOME, default=10.0, help="of each; default: %(default)s")
    p.add_argument("--seed", type=workload.FROM_0, default=1)
    p.add_argument("--pytorch", action="store_true", help="PyTorch models, not stand-ins")
    p.add_argument("--batches", default="1,2,4,8,16,32", help="default: %(default)s")
    p.add_argument("--instances", type=workload.COUNT, default=3,
                   help="of each PyTorch graph for the plan; default: %(default)s")
    p.add_argument("--gpus", type=workload.COUNT, default=1,
                   help="each way uses all of them; default: %(default)s")
    p.add_argument("--sms", type=workload.COUNT,
                   help="of each GPU, that the plan uses; default: all")
    p.add_argument("--plan-interference", default="h200", metavar="F",
                   help="that the plan predicts: none, h200 or a file; default: %(default)s")
    p.add_argument("--solo", metavar="FILE",
                   help="metrics of each model alone, of the table's GPU, for that; default: those "
                        "that ship")
    p.add_argument("--shares", type=numbers, metavar="MODEL=SMS,...",
                   help="of mps_shares, in place of those by the table")
    p.add_argument("--table", default=str(ROOT / "tools/data/latency_batch_partition.csv"),
                   metavar="FILE")
    p.add_argument("--program", default=str(ROOT / "build/release/bin/serve_partitions"),
                   metavar="FILE", help="serve_partitions")
    p.add_argument("--device", default="cuda", help="of serve_partitions; default: %(default)s")
    p.add_argument("--set-up", type=workload.SOME, default=120.0, metavar="S",
                   help="limit for a process's set-up; default: %(default)s")
    p.add_argument("--json", metavar="FILE", type=workload.writable)
    a = p.parse_args()
    try:
        a.loads = [workload.SOME(x) for x in a.loads.split(",")]
        a.batches = [workload.COUNT(b) for b in a.batches.split(",")]
        a.ways = a.ways.split(",")
        unknown = [w for w in a.ways if w not in WAYS]
        if unknown:
            raise ValueError(f'--ways: "{unknown[0]}", expected some of {", ".join(WAYS)}')
        without = [m for m in a.rates if m not in a.slo]
        if without:
            raise ValueError(f"--slo: none of {without[0]}, expected one of each model of --rates")
        a.times = times_of(a.table, a.rates)
        if a.shares and set(a.shares) != set(a.rates):
            raise ValueError("--shares: expected those models that --rates names")
    except (ValueError, OSError, KeyError, argparse.ArgumentTypeError) as e:
        p.error(str(e))
    return a


# Shares of the SMs ---------------------------------------------------------------------------------

def times_of(table, models):
    """{model: {batch: {sms: seconds}}}."""
    times = {m: {} for m in models}
    with open(table, newline="") as f:
        for r in csv.DictReader(f):
            if r["model"] in times:
                times[r["model"]].setdefault(int(r["batch"]), {})[int(r["sms"])] = (
                    1e-6 * float(r["latency_us"]))
    for m, of in times.items():
        if not of:
            raise ValueError(f"--rates: no rows of {m} in {table}, expected a model of the table")
    return times


def latency(by_sms, sms):
    """Linear between the measured sizes."""
    sizes = sorted(by_sms)
    if sms <= sizes[0]:
        return by_sms[sizes[0]] * sizes[0] / sms
    for low, high in zip(sizes, sizes[1:]):
        if sms <= high:
            return by_sms[low] + (by_sms[high] - by_sms[low]) * (sms - low) / (high - low)
    return by_sms[sizes[-1]]


def shares_of(times, rates, slos_ms, batches, headroom=1.2):
    """{model: SMs}, whole groups: the least that serves `headroom` times the rate in batches that
    leave half of the SLO for waiting; then each gets its part of what is left, or of what is short."""
    whole = max(sms for of in times.values() for by in of.values() for sms in by)
    groups = whole // GROUP
    needed = {}
    for m, rate in rates.items():
        fits = [n for n in range(1, groups + 1) for b in batches if b in times[m]
                and 2e3 * latency(times[m][b], n * GROUP) <= slos_ms[m]
                and b >= headroom * rate * latency(times[m][b], n * GROUP)]
        needed[m] = min(fits, default=groups)
    scale = groups / sum(needed.values())
    given = {m: max(1, math.floor(n * scale)) for m, n in needed.items()}
    for m in sorted(needed, key=lambda m: given[m] - needed[m] * scale):
        if sum(given.values()) < groups:
            given[m] += 1
    return {m: n * GROUP for m, n in given.items()}, whole


# Processes -----------------------------------------------------------------------------------------

class Child:
    def __init__(self, name, words, environment, folder):
        self.name = name
        self.said = folder / f"{name}.said"
        with open(self.said, "wb") as to:
            self.process = processes.start(words, environment, stdin=subprocess.DEVNULL, stdout=to,
                                           stderr=to)

    def has_ended(self):
        """Raises Failed if it did not end well."""
        code = self.process.poll()
        if code is None:
            return False
        if code != 0:
            why = processes.why_ended(code, self.said.read_text(errors="replace"))
            raise Failed(f"{self.name}: {why}")
        return True

    def stop(self):
        processes.stop(self.process)


def wait_for(is_there, children, limit, what):
    """Until is_there(); raises Failed if a process fails, all have ended, or the time is over."""
    until = time.monotonic() + limit
    while True:
        ended = [c.has_ended() for c in children]
        if is_there():
            return
        if all(ended):
            raise Failed(f"the processes have ended, expected {what}")
        if time.monotonic() > until:
            raise Failed(f"not {what} after {limit:g} s")
        time.sleep(0.02)


def named(values, scale=1):
    return ",".join(f"{m}={x * scale:.6g}" for m, x in values.items())


def run_words(a, load, more, file):
    """Options of one run of serve_partitions."""
    return ["--rates", named(a.rates, load), "--slo", named(a.slo), "--seconds", f"{a.seconds:g}",
            "--seed", str(a.seed), *more, "--no-progress", "--json", str(file)]


def program_words(a, runs, models, instances):
    """The command of a process that does these runs: with stand-ins there is one."""
    if not a.pytorch:
        return [a.program, "--device", a.device, "--gpus", str(a.gpus), "--table", a.table, "--batches",
                ",".join(map(str, a.batches)), *runs[0]]
    gpu = a.device.partition(":")[2] or "0"
    words = [sys.executable, str(HERE / "serve_partitions.py"), "--models", ",".join(models),
             "--batches", ",".join(map(str, a.batches)), "--instances", str(instances), "--table",
             a.table, "--gpu", gpu, "--gpus", str(a.gpus), "--seed", str(a.seed)]
    for run in runs:
        words += ["--run", shlex.join(run)]
    return words


def plan_words(a):
    """Options of serve_partitions: what the plan predicts, and the SMs that it uses."""
    return ["--plan-interference", a.plan_interference, *(["--solo", a.solo] if a.solo else []),
            *(["--sms", str(a.sms)] if a.sms else [])]


def limit_of(a, loads):
    """Seconds that runs may take: late requests are answered after the last one has come."""
    return (2 * a.seconds + 30) * len(loads)


def read(file):
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):
        raise Failed(f"{file.name}: no result") from None


def in_one_process(a, runs, folder):
    """[report] of each of the runs, which are (way, load); Failed in place of those that failed."""
    files = [folder / f"{i}.json" for i in range(len(runs))]
    more = {way: words + (plan_words(a) if way == "plan" else [])
            for way, words in ONE_PROCESS.items()}
    words = [run_words(a, load, more[way], f) for (way, load), f in zip(runs, files)]
    instances = a.instances if any(way == "plan" for way, _ in runs) else 1
    child = Child("all", program_words(a, words, a.rates, instances), {}, folder)
    try:
        wait_for(lambda: child.process.poll() is not None, [child], a.set_up + limit_of(a, runs),
                 "ended")
        return [read(f) for f in files]
    except Failed as e:
        return [read(f) if f.is_file() else e for f in files]
    finally:
        child.stop()


def in_processes(a, way, loads, folder, environment):
    """[joined reports] of each load, by a process for each model."""
    first = min(a.rates, key=lambda m: a.slo[m])
    of_each_gpu = {m: r * max(loads) / a.gpus for m, r in a.rates.items()}
    shares, whole = shares_of(a.times, of_each_gpu, a.slo, a.batches)
    shares = {m: int(x) for m, x in a.shares.items()} if a.shares else shares
    starts = [folder / f"start{i}" for i in range(len(loads))]
    for s in starts:
        s.mkdir()
    children, files = [], {m: [folder / f"{m}.{i}.json" for i in range(len(loads))] for m in a.rates}
    try:
        for m in a.rates:
            # The driver's usual number, or fewer: a process has one stream of work, and MPS shares the
            # queues. With 32 a fifth process under MPS ends with "out of memory".
            queues = os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS", "8")
            here = {"CUDA_DEVICE_MAX_CONNECTIONS": str(min(8, int(queues))) if queues.isdigit() else "8",
                    **environment}
            more = []
            if way == "mps_shares":
                here["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(math.ceil(100 * shares[m] / whole))
                more = ["--sms", str(shares[m])]
            if way == "mps_priority" and m != first:
                here["CUDA_MPS_CLIENT_PRIORITY"] = "1"
            runs = [run_words(a, x, ["--planner", "streams" if a.device.startswith("cuda") else "whole",
                                     "--only", m, "--start-with", str(s), *more], f)
                    for x, s, f in zip(loads, starts, files[m])]
            children.append(Child(m, program_words(a, runs, [m], 1), here, folder))
            if not a.pytorch: # stand-ins are measured first, which others would disturb
                wait_for((starts[0] / f"ready.{m}").exists, children, a.set_up, f"ready: {m}")
        for i, start in enumerate(starts):
            wait_for(lambda: all((start / f"ready.{m}").exists() for m in a.rates), children,
                     a.set_up if i == 0 else limit_of(a, loads[:1]), "ready")
            whole_file = start / "go.new"
            whole_file.write_text(str(time.monotonic_ns() + 200_000_000))
            whole_file.rename(start / "go")
        wait_for(lambda: all(c.process.poll() is not None for c in children), children,
                 limit_of(a, loads[:1]), "ended")
        reports = [joined([read(files[m][i]) for m in a.rates]) for i in range(len(loads))]
        if way == "mps_shares":
            for r in reports:
                r["shares"] = shares
        return reports
    finally:
        for c in children:
            c.stop()


def joined(reports):
    """One report of those of the models."""
    all_of = {k: sum(r["all"][k] for r in reports) for k in
              ("arrived", "in_time", "late", "dropped", "in_time_per_s")}
    all_of["violations"] = (all_of["late"] + all_of["dropped"]) / max(1, all_of["arrived"])
    apps = [app for r in reports for app in r["apps"]]
    return {"all": all_of, "apps": apps, "batches": sum(r["batches"] for r in reports)}


def serve(a, runs):
    """[report] of runs of one way, or of ways in one process."""
    with tempfile.TemporaryDirectory(prefix="rivals", ignore_cleanup_errors=True) as folder:
        folder, way = pathlib.Path(folder), runs[0][0]
        if way in ONE_PROCESS:
            return in_one_process(a, runs, folder)
        with contextlib.ExitStack() as stack:
            environment = {}
            if way != "time_slicing":
                environment = stack.enter_context(mps.control_daemon())
            return in_processes(a, way, [load for _, load in runs], folder, environment)


def together(a):
    """Lists of runs: PyTorch graphs are captured once for all that can use them."""
    runs = [(way, load) for way in a.ways for load in a.loads]
    if not a.pytorch:
        return [[r] for r in runs]
    groups = {}
    for way, load in runs:
        groups.setdefault("one process" if way in ONE_PROCESS else way, []).append((way, load))
    return list(groups.values())


def results(a):
    """Rows, one for each way and load."""
    for runs in together(a):
        try:
            found = [{"failed": str(r)} if isinstance(r, Failed) else
                     {k: r[k] for k in ("all", "apps", "batches", "shares", "real") if k in r}
                     for r in serve(a, runs)]
        except (Failed, OSError) as e:
            found = [{"failed": str(e)}] * len(runs)
        except mps.NotAvailable as e:
            found = [{"not_available": str(e)}] * len(runs)
        for (way, load), facts in zip(runs, found):
            yield {"way": way, "load": load, **facts}


def tell(row):
    start = f"{row['way']:<14}{row['load']:>6g}"
    for key, words in (("failed", "failed"), ("not_available", "not available")):
        if key in row:
            print(f"{start}  {words}: {row[key]}", flush=True)
            return
    for app in row["apps"]:
        us = app["latency_us"]
        print(f"{start}  {app['name']:<20}{app['arrived']:>9}{100 * app['violations']:>12.3f}%"
              f"{us['mean'] / 1e3:>10.2f}{us['p99'] / 1e3:>10.2f}{app['slo_us'] / 1e3:>9.2f}")
    every = row["all"]
    print(f"{start}  {'all':<20}{every['arrived']:>9}{100 * every['violations']:>12.3f}%"
          f"   {every['in_time_per_s']:.1f} in time a second", flush=True)


def main():
    a = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)) # so that processes are ended
    if not a.device.startswith("cuda"):
        print("serving_rivals: simulated processes have a GPU each", file=sys.stderr)
    print(f"{'way':<14}{'load':>6}  {'model':<20}{'arrived':>9}{'violations':>13}{'mean, ms':>10}"
          f"{'p99, ms':>10}{'SLO, ms':>9}", flush=True)
    rows = []
    for row in results(a):
        rows.append(row)
        tell(row)
        if a.json and not workload.save(a.json, {
                "rates": a.rates, "slo_ms": a.slo, "seconds": a.seconds, "seed": a.seed,
                "device": a.device, "graphs": "pytorch" if a.pytorch else "stand-ins", "batches": a.batches,
                "rows": rows}):
            return 1
    return 1 if any("failed" in r for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
