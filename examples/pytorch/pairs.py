#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests preemption with many pairs of models: hangs, wrong outputs, and its cost.

Each pair runs in a child process, which the parent kills if it hangs. First both models serve requests
at once, and each output is compared, bit for bit, with that of the instance's own graph replayed alone.
A training step is compared by its weights, after the same number of replays from the same weights; with
--steps a training model makes exactly that many steps, preempted by real-time requests. Then the
real-time client submits, waits and pauses, beside a best-effort client that always has pending
requests, as in realtime.py: preempted, and each alone, in turn.

rt and p99 are the real-time model's mean latency and 99th percentile over those alone; later is its
median and 99th percentile minus the median alone; stop is the time from the decision to preempt until
no kernel of the best-effort model runs; be kept is the number of best-effort requests over that alone,
and be share the same over the time that real-time requests leave.
"""

import argparse
import collections
import contextlib
import faulthandler
import fnmatch
import importlib
import json
import os
import queue
import random
import subprocess
import sys
import threading
import time

import checkout # the package of this checkout
import models
import realtime
import workload

REAL_TIME = ("resnext50", "swin_t", "resnet18", "llama_decode")
BEST_EFFORT = ("vit_base_bf16_b8", "vit_base_bf16_b32", "vit_base_b32", "resnet50_train_b16",
               "attention_b16", "products_b4096", "r3d_18_b8", "swin_t_b8", "convnext_tiny_b8",
               "bert_base_b8", "gpt2_b8", "vgg16_b8")
MATRIX = tuple((rt, be) for be in BEST_EFFORT for rt in REAL_TIME)
SECONDS_A_STEP = 0.5  # at most, preempted, and made again to compare
TURNS = 3  # of each way, into which its time is divided


def options():
    p = workload.Parser(description=__doc__,
                        formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pairs", default="*", metavar="PATTERN,...",
                   help="real-time+best-effort; patterns such as 'resnext50+vit*' choose from those "
                        "of --list, other pairs are named in full; default: all")
    p.add_argument("--read", nargs="+", metavar="FILE",
                   help="print the table of files that --json made, and run nothing")
    p.add_argument("--list", action="store_true", help="print the pairs and run nothing")
    p.add_argument("--seconds", type=workload.SOME, default=30.0,
                   help="that each pair is preempted; default: %(default)s")
    p.add_argument("--alone", type=workload.SOME, default=3.0, metavar="S",
                   help="that each model is measured alone; default: %(default)s")
    p.add_argument("--check", type=workload.SOME, default=5.0, metavar="S",
                   help="that outputs are compared; default: %(default)s")
    p.add_argument("--steps", type=workload.FROM_0, default=0, metavar="N",
                   help="of a training model that are made and compared, however long they take; 0 is "
                        "as many as --check has time for; default: %(default)s")
    p.add_argument("--inputs", type=workload.COUNT, default=3,
                   help="different ones of each model, where outputs are compared")
    p.add_argument("--think", type=workload.SOME, default=4.0, metavar="MS",
                   help="mean think time; default: %(default)s")
    p.add_argument("--floor", type=float, default=0.0,
                   help="part of the time for best-effort work all the same; default: %(default)s")
    p.add_argument("--watchdog", type=workload.COUNT, default=5000, metavar="MS",
                   help="work that stands for so long has hung; default: %(default)s")
    p.add_argument("--seed", type=workload.FROM_0, default=1)
    p.add_argument("--gpus", type=workload.COUNT, default=1,
                   help="pairs run at once, each on a GPU of its own; default: %(default)s")
    p.add_argument("--set-up", type=workload.SOME, default=150.0, metavar="S",
                   help="that a process may take on top before it counts as hung; "
                        "default: %(default)s")
    p.add_argument("--time-limit", type=workload.SOME, default=3600.0, metavar="S",
                   help="pairs that do not fit in are left out; default: %(default)s")
    p.add_argument("--json", metavar="FILE", type=workload.writable,
                   help="a line for each pair, as it ends")
    p.add_argument("--worker", help=argparse.SUPPRESS)
    a = p.parse_args()
    try:
        a.read = rows_of(a.read or [])
        a.chosen = chosen(a.pairs)
        if a.steps and not a.worker and not any(trains(be) for _, be in a.chosen.values()):
            raise ValueError("--steps: no best-effort model of --pairs trains, expected one such as "
                             "resnet50_train_b16")
    except ValueError as e:
        p.error(str(e))
    a.gpu, a.side = 0, [0]
    return a


def trains(name):
    return models.parts(name)[0] in models.TRAINED


def chosen(text):
    """The pairs that patterns name; a ValueError in one line."""
    names = {"+".join(pair): pair for pair in MATRIX}
    found = {}
    for pattern in text.split(","):
        of_it = [n for n in names if fnmatch.fnmatchcase(n, pattern)]
        if not of_it and any(c in pattern for c in "*?["):
            raise ValueError(f'--pairs: "{pattern}" is none of those of --list, expected some')
        for name in of_it or ["+".join(models.pair(pattern))]:
            found[name] = names.get(name) or models.pair(name)
    return found


# The child: one pair -----------------------------------------------------------------------------

def emit(**what):
    """Writes a line of JSON for the parent."""
    print(json.dumps(what), flush=True)


class Answers:
    """Inputs of a model, and the outputs of each instance's graph for them, replayed alone."""

    def __init__(self, torch, name, captured, a):
        import bit_equal
        import gsched

        self._bits, self._same = bit_equal.bits, bit_equal.same
        generator, self.wrong, self.seen = torch.Generator().manual_seed(a.seed), 0, 0
        drawn = [models.draw(name, generator) for _ in range(a.inputs)]
        self._inputs = [gsched.with_tensors(x, iter([t.pin_memory() for t in gsched.tensors_of(x)]))
                        for x in drawn]
        self._expected = [[self._bits(captured.replay(x, i)) for x in self._inputs]
                          for i in range(len(captured.instances))]

    def submit(self, submit, model, client, n, **how):
        return submit(model, self._inputs[n % len(self._inputs)], client, **how)

    def compare(self, n, future):
        answer = self._bits(future.result(60))
        expected = self._expected[future.report["instance"]][n % len(self._inputs)]
        self.seen += 1
        self.wrong += not self._same(answer, expected)

    def start(self):
        pass

    def conclude(self):
        pass


class Steps:
    """Steps of training, counted; what they write is compared in the end."""

    def __init__(self, torch, captured, written):
        self._torch, self._captured, self._written = torch, captured, written
        self.wrong, self.seen = 0, 0
        with torch.no_grad():
            self._start = [w.detach().clone() for w in written]

    def submit(self, submit, model, client, _, **how):
        return submit(model, None, client, outputs=(), **how)

    def compare(self, _, future):
        future.result(60)
        self.seen += 1

    def _put(self, values):
        with self._torch.no_grad():
            for w, x in zip(self._written, values):
                w.copy_(x)
        self._torch.cuda.synchronize()

    def start(self):
        """Earlier steps do not count."""
        self._put(self._start)

    def conclude(self):
        """Compares, while nothing else runs on the GPU."""
        torch = self._torch
        torch.cuda.synchronize()
        with torch.no_grad():
            served = [w.detach().clone() for w in self._written]
        self._put(self._start)
        graph = self._captured.instances[0].graph
        for _ in range(self.seen):
            graph.replay()
        torch.cuda.synchronize()
        same = lambda x, y: bool((x.contiguous().view(-1).view(torch.uint8)
                                  == y.contiguous().view(-1).view(torch.uint8)).all())
        self.wrong = sum(not same(w.detach(), x) for w, x in zip(self._written, served))
        self._put(self._start)


def captured_with_answers(torch, a, name, instances):
    """A captured model, and its expected outputs."""
    import gsched

    if not trains(name):
        instances = 1 if models.keeps_state(name) else instances
        captured = gsched.capture(*models.make(name, a.seed), instances=instances, name=name,
                                  gpu=a.gpu)
        return captured, Answers(torch, name, captured, a)
    step, example, written = models.training(name, a.seed, a.gpu)
    captured = gsched.capture(step, example, instances=1, name=name, gpu=a.gpu, training=True,
                              parameters=written)
    return captured, Steps(torch, captured, written)


def check(a, way, real_time, best_effort):
    """Both models at once for a while, or for a number of steps, with all outputs compared."""
    real_time.start()
    best_effort.start()
    end, failures, draw = time.monotonic() + a.check, [], random.Random(a.seed)
    submit, steps = way.server.submit, a.steps if isinstance(best_effort, Steps) else 0
    before = way.server.statistics()["preemptions"]

    def more(n):
        return n < steps if steps else time.monotonic() < end

    def work():
        n, waiting = 0, collections.deque()
        try:
            while more(n) or waiting:
                while len(waiting) < 2 and more(n):
                    waiting.append((n, best_effort.submit(submit, way.best_effort, way.clients[1], n)))
                    n += 1
                if waiting:
                    best_effort.compare(*waiting.popleft())
        except Exception as e: # raised by the thread that joins this one
            failures.append(e)

    other, n = threading.Thread(target=work), 0
    other.start()
    while (other.is_alive() if steps else time.monotonic() < end) and not failures:
        time.sleep(draw.expovariate(1.0) * a.think / 1e3)
        real_time.compare(n, real_time.submit(submit, way.real_time, way.clients[0], n, real_time=True))
        n += 1
    other.join()
    if failures:
        raise failures[0]
    found = {}
    if steps:
        preemptions = way.server.statistics()["preemptions"] - before
        if not preemptions:
            raise RuntimeError(f"{steps} steps without a preemption, expected some")
        found["steps"] = {"steps": steps, "preemptions": preemptions}
    real_time.conclude()
    best_effort.conclude()
    return {**found, "checked": {"rt": real_time.seen, "be": best_effort.seen},
            "wrong": {"rt": real_time.wrong, "be": best_effort.wrong}}


def measure(a, pair):
    """The figures of one pair, as realtime.py has them, and the comparison of its outputs."""
    import torch

    torch.cuda.init()
    emit(phase="capture")
    (rt, real_time), (be, best_effort) = (captured_with_answers(torch, a, name, n)
                                   for name, n in zip(pair, (1, 2)))
    emit(phase="set-up")
    ways = {name: realtime.Way(a, name, rt, be) for name in ("rt_only", "be_only", "preempt")}
    for way in ways.values():
        way.warm_up()
    emit(phase="check")
    found = check(a, ways["preempt"], real_time, best_effort)
    emit(phase="preempted")
    for turn in range(TURNS):
        for name, way in ways.items():
            seconds = a.seconds if name == "preempt" else a.alone
            way.turn(seconds / TURNS, a.think, random.Random(a.seed * 1000 + turn))
    facts = realtime.with_ratios({name: way.facts() for name, way in ways.items()})
    emit(phase="close")
    for way in ways.values():
        way.server.close()
    return {**found, "device": torch.cuda.get_device_name(a.gpu), "torch": torch.__version__,
            "ways": facts}


def serve(a):
    # Imports libraries while the GPU serves the previous pair.
    for library in ("torch", "torchvision", "transformers"):
        with contextlib.suppress(ImportError): # reported if a model needs it
            importlib.import_module(library)
    if not sys.stdin.readline():
        return 0 # the parent has closed it
    faulthandler.dump_traceback_later(limit_s(a) - 5, exit=True)
    (pair,) = a.chosen.values()
    try:
        emit(result=measure(a, pair))
        return 0
    except Exception as e: # the parent gets one line for any error
        text = str(e).strip().splitlines()
        emit(error=f"{type(e).__name__}: {text[0] if text else ''}")
        os._exit(1) # do not wait for a GPU that hangs


# The parent --------------------------------------------------------------------------

def limit_s(a):
    """Seconds after which a pair's process counts as hung."""
    return a.set_up + 2 * (a.seconds + 2 * a.alone + 3 * a.check) + SECONDS_A_STEP * a.steps


def visible(index):
    """The GPU of that number, as a value of CUDA_VISIBLE_DEVICES."""
    listed = [g for g in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if g]
    return listed[index] if index < len(listed) else str(index)


def started(a, name, gpu):
    """A pair's process, which touches the GPU when it reads a line."""
    words = [sys.executable, os.path.abspath(__file__), "--worker", name, "--pairs", name]
    for option in ("seconds", "alone", "check", "inputs", "think", "floor", "watchdog", "seed",
                   "set_up", "steps"):
        words += [f"--{option.replace('_', '-')}", str(getattr(a, option))]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "CUDA_VISIBLE_DEVICES": visible(gpu)})


def run_pair(a, name, process):
    """Runs a pair in its process and returns its row."""
    began = time.monotonic()
    late = False
    try:
        out, err = process.communicate("go\n", timeout=limit_s(a))
    except subprocess.TimeoutExpired:
        late = True
        process.kill()
        try:
            out, err = process.communicate(timeout=30)
        except subprocess.TimeoutExpired: # the driver keeps it
            out, err = "", ""
    return row_of(name, out, err, late, process.returncode, time.monotonic() - began)


def row_of(name, out, err, late, status, seconds):
    """A pair's row: the result of its process, or how the process ended without one."""
    lines = {}
    for line in out.splitlines():
        try:
            lines.update(json.loads(line))
        except ValueError:
            continue # output of a library
    row = {"pair": name, "seconds": round(seconds, 1), "hang": False, **lines.get("result", {})}
    if "result" in lines:
        return row
    last = (err.strip().splitlines() or [f"ended with status {status}"])[-1]
    row["error"] = f"{lines.get('phase', 'start')}: {lines.get('error') or last}"
    hung = ("LaunchTimeout", "has hung", "no answer in", "the launch timed out", "Timeout (0:")
    row["hang"] = late or any(text in row["error"] + err for text in hung)
    if late:
        row["error"] = f"{lines.get('phase', 'start')}: no end in {seconds:.0f} s"
    return row


def cells(row):
    """A line of the table."""
    if "ways" not in row:
        return f"{row['pair']:34} {'HANG' if row['hang'] else 'failed'}: {row.get('error', '')}"
    f = row["ways"]["preempt"]
    p, rt, kept = f["preemptions"], f["rt"], f["be_per_s"] / row["ways"]["be_only"]["be_per_s"]
    return (f"{row['pair']:34} {rt['slowdown']:6.3f} {rt['p99_ratio']:6.3f} {rt['later_p50_us']:9.0f} "
            f"{rt['later_p99_us']:8.0f} {f['be_share']:8.3f} "
            f"{kept:8.3f} {p['preempt_p50_us']:8.1f} {p['preempt_p99_us']:8.1f} "
            f"{p['preemptions']:9} {p.get('expired_leases', 0):6} {p.get('opened', 0):6} "
            f"{sum(row['checked'].values()):8} {sum(row['wrong'].values()):5}"
            + (f"  {row['steps']['steps']} steps, preempted {row['steps']['preemptions']} times"
               if "steps" in row else ""))


HEAD = (f"{'real-time+best-effort':34} {'rt':>6} {'p99':>6} {'later p50':>9} {'p99 us':>8} {'be share':>8} {'be kept':>8} "
        f"{'stop p50':>8} {'p99 us':>8} {'preempted':>9} {'leases':>6} {'opened':>6} "
        f"{'compared':>8} {'wrong':>5}")


def main():
    a = options()
    if a.list:
        print("\n".join(a.chosen))
        return 0
    if a.worker:
        return serve(a)
    if a.read:
        print("\n".join([HEAD, *map(cells, a.read)]))
        return summed_up(a.read)
    began, waiting, rows, lock = time.monotonic(), queue.Queue(), [], threading.Lock()
    for name in a.chosen:
        waiting.put(name)
    out = open(a.json, "w", encoding="utf-8") if a.json else None
    print(HEAD, flush=True)

    def start_next(gpu):
        """A pair and its process; no process for a pair that is left out; None after the last."""
        try:
            name = waiting.get_nowait()
        except queue.Empty:
            return None
        late = time.monotonic() - began > a.time_limit
        return name, None if late else started(a, name, gpu)

    def work(gpu):
        following = start_next(gpu)
        while following is not None:
            (name, process), following = following, start_next(gpu)
            if process is not None and time.monotonic() - began > a.time_limit:
                process.communicate("") # ends without a line
                process = None
            if process is None:
                row = {"pair": name, "hang": False, "error": "left out, --time-limit is over"}
            else:
                row = run_pair(a, name, process)
            with lock:
                rows.append(row)
                print(cells(row), flush=True)
                if out:
                    out.write(json.dumps(row) + "\n")
                    out.flush()

    threads = [threading.Thread(target=work, args=(gpu,)) for gpu in range(a.gpus)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return summed_up(rows)


def rows_of(files):
    """The lines of all files that --json wrote."""
    rows = []
    for path in files:
        try:
            with open(path, encoding="utf-8") as lines:
                rows += [json.loads(line) for line in lines]
            list(map(cells, rows))
        except (OSError, UnicodeDecodeError, ValueError, TypeError, KeyError) as e:
            why = e.strerror if isinstance(e, OSError) else "expected a file that --json made"
            raise ValueError(f"--read: {path}: {why}") from None
    return rows


def summed_up(rows):
    """Prints the last line and returns the exit status."""
    hangs, failed = sum(r["hang"] for r in rows), sum("ways" not in r for r in rows)
    wrong = sum(sum(r.get("wrong", {}).values()) for r in rows)
    done = sorted(r["ways"]["preempt"]["rt"]["slowdown"] for r in rows if "ways" in r)
    print(f"{len(rows)} pairs: {hangs} hangs, {failed} without a result, {wrong} wrong outputs"
          + (f"; real-time mean over alone {done[len(done) // 2]:.3f} in the median, "
             f"{done[-1]:.3f} at worst" if done else ""), flush=True)
    return 1 if hangs or failed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
