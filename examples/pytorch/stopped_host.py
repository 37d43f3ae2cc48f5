#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long GPU work waits when a process is stopped (SIGSTOP) while its best-effort work is preempted.

A child serves real-time requests in bursts beside best-effort work. The best-effort graph copies a
counter to a file in shared memory, which shows the parent whether it advances. While it does not, the
parent stops the child and measures two times from then:

  own     until the child's best-effort work resumes, although the child's host is stopped
  other   until a chain of kernels of the parent runs as fast as before the child was started

Afterwards the parent continues the child, which must work again as well.
"""

import argparse
import faulthandler
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

import checkout # the package of this checkout
import workload

FILE_BYTES = 4096
IN_A_ROW, SLACK = 5, 1.25  # so many replays in a row, within this factor of the time alone, count as the usual speed


def options():
    p = workload.Parser(description=__doc__,
                        formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--repeat", type=workload.COUNT, default=10, help="stops; default: %(default)s")
    p.add_argument("--limit", type=workload.SOME, default=2.0, metavar="S",
                   help="of a stop; what has not gone on by then does not; default: %(default)s")
    p.add_argument("--still", type=workload.SOME, default=12.0, metavar="MS",
                   help="the counter has stood for so long: the work is held; default: %(default)s")
    p.add_argument("--burst", type=workload.SOME, default=300.0, metavar="MS",
                   help="of real-time requests; default: %(default)s")
    p.add_argument("--pause", type=workload.SOME, default=200.0, metavar="MS",
                   help="between bursts; default: %(default)s")
    p.add_argument("--gpu", type=workload.FROM_0, default=0)
    p.add_argument("--time-limit", type=workload.SOME, default=120.0, metavar="S")
    p.add_argument("--json", metavar="FILE", type=workload.writable)
    p.add_argument("--worker", metavar="FILE", help=argparse.SUPPRESS)
    return p.parse_args()


# The child: it is stopped -----------------------------------------------------------------------

def serve(a):
    faulthandler.dump_traceback_later(a.time_limit, exit=True)
    import torch

    import gsched

    with open(a.worker, "r+b") as file:
        shared = mmap.mmap(file.fileno(), FILE_BYTES)
    progress = torch.frombuffer(shared, dtype=torch.int64)[:1]
    answer = torch.cuda.cudart().cudaHostRegister(progress.data_ptr(), FILE_BYTES, 0)
    if int(answer) != 0:
        raise RuntimeError(f"cudaHostRegister of shared memory: code {int(answer)}, expected 0")
    counter = torch.zeros(1, dtype=torch.int64, device=torch.device("cuda", a.gpu))

    def patient(x):
        for _ in range(40):
            for _ in range(4):
                x.add_(1.0)
            counter.add_(1)
            progress.copy_(counter, non_blocking=True)
        return x[:1]

    def urgent(x):
        for _ in range(1000):
            x.add_(1.0)
        return x

    torch.cuda.set_device(a.gpu)
    best_effort = gsched.capture(patient, torch.zeros(1 << 24), instances=1, name="best-effort",
                                 gpu=a.gpu)
    real_time = gsched.capture(urgent, torch.zeros(32), instances=2, name="real-time", gpu=a.gpu)
    server = gsched.Server(policy="fifo", gpu=a.gpu, lanes=1, real_time_lanes=1, quantum=2e-3)
    models = [server.add_model(c) for c in (best_effort, real_time)]
    clients = [server.add_client() for _ in models]
    stop = threading.Event()

    def keep_busy():
        while not stop.is_set():
            server.submit(models[0], None, clients[0], outputs=()).result(60)

    def bursts():
        ask = lambda: server.submit(models[1], None, clients[1], outputs=(), real_time=True)
        while not stop.is_set():
            end, waiting = time.monotonic() + a.burst / 1e3, [ask()]
            while time.monotonic() < end and not stop.is_set():
                waiting.append(ask()) # one is always in flight, so that the other work stays preempted
                waiting.pop(0).result(60)
            waiting.pop().result(60)
            time.sleep(a.pause / 1e3)

    failures = []

    def guarded(work):
        try:
            work()
        except Exception as e: # reported at the end
            failures.append(f"{type(e).__name__}: {str(e).splitlines()[0]}")
            stop.set()

    threads = [threading.Thread(target=guarded, args=(w,), daemon=True) for w in (keep_busy, bursts)]
    for t in threads:
        t.start()
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline() # until it is closed
    stop.set()
    for t in threads:
        t.join(10)
    statistics = workload.with_units(server.statistics())
    print(json.dumps({"failures": failures, "statistics": statistics}), flush=True)
    os._exit(1 if failures else 0)


# The parent --------------------------------------------------------------------------

class Chain:
    """A graph of small kernels, replayed one after the other in a thread of its own."""

    def __init__(self, torch, gpu):
        import gsched

        def many(x):
            for _ in range(500):
                x.add_(1.0)
            return x

        self._torch, self._stream = torch, torch.cuda.Stream(gpu)
        self._graph = gsched.capture(many, torch.zeros(32), instances=1, name="chain",
                                     gpu=gpu).instances[0].graph
        self._graph.instantiate()
        self.runs, self._stop, self._thread = [], False, None
        self.alone_us = sorted(self._replay() for _ in range(300))[150]

    def _replay(self):
        with self._torch.cuda.stream(self._stream):
            began = time.monotonic_ns()
            self._graph.replay()
            self._stream.synchronize()
            end = time.monotonic_ns()
        self.runs.append((began, end))
        return (end - began) / 1e3

    def _work(self):
        while not self._stop:
            self._replay()

    def start(self):
        self.runs, self._stop, self._thread = [], False, threading.Thread(target=self._work)
        self._thread.start()

    def stop(self):
        self._stop = True
        self._thread.join()


def usual_from(runs, since_ns, usual_us):
    """When the first of IN_A_ROW replays at the usual speed began, after a time; None if none did."""
    in_a_row = 0
    for i, (began, end) in enumerate(runs):
        if end <= since_ns:
            continue
        in_a_row = in_a_row + 1 if (end - began) / 1e3 <= SLACK * usual_us else 0
        if in_a_row == IN_A_ROW:
            return max(runs[i - IN_A_ROW + 1][0], since_ns)
    return None


class Counter:
    """The child's counter, as the GPU left it in the file."""

    def __init__(self, path):
        with open(path, "r+b") as file:
            self._shared = mmap.mmap(file.fileno(), FILE_BYTES)

    def value(self):
        return struct.unpack_from("<q", self._shared)[0]

    def wait_for_change(self, since, seconds):
        """When it was seen to differ; None if it does not."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.value() != since:
                return time.monotonic_ns()
            time.sleep(1e-4)
        return None

    def wait_for_stand(self, still_ms, seconds):
        """Its value if it has not changed for that long; None otherwise."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.value()
            if value > 0 and self.wait_for_change(value, still_ms / 1e3) is None:
                return value
        return None


def one_stop(a, child, chain, counter):
    """A row: the times in ms, None for work that has not resumed."""
    chain.start()
    try:
        value = counter.wait_for_stand(a.still, 20)
        if value is None:
            raise RuntimeError(f"the best-effort work was not held for {a.still:g} ms in 20 s, "
                               "expected it to be while real-time requests are served")
        before = [(e - b) / 1e3 for b, e in chain.runs[-20:]]
        stopped = time.monotonic_ns()
        os.kill(child.pid, signal.SIGSTOP)
        own = counter.wait_for_change(value, a.limit)
        end = time.monotonic() + a.limit
        while usual_from(chain.runs, stopped, chain.alone_us) is None and time.monotonic() < end:
            time.sleep(0.005)
        other = usual_from(chain.runs, stopped, chain.alone_us)
    finally:
        os.kill(child.pid, signal.SIGCONT)
        chain.stop()
    goes_on = counter.wait_for_change(counter.value(), 5) is not None
    ms = lambda at: None if at is None else (at - stopped) / 1e6
    return {"own_ms": ms(own), "other_ms": ms(other), "goes_on": goes_on,
            "chain_beside_us": sorted(before)[len(before) // 2] if before else None}


def line_of(child, seconds):
    """The child's next line; an error in one line if there is none."""
    lines = []
    reader = threading.Thread(target=lambda: lines.append(child.stdout.readline()), daemon=True)
    reader.start()
    reader.join(seconds)
    if not lines or not lines[0]:
        child.kill()
        errors = child.stderr.read().strip().splitlines() if lines else []
        raise RuntimeError(f"the child: {errors[-1] if errors else 'no output'}")
    return json.loads(lines[0])


def measure(a, torch):
    chain, rows = Chain(torch, a.gpu), []
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        file.truncate(FILE_BYTES)
        counter = Counter(file.name)
        child = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--worker", file.name, "--gpu", str(a.gpu),
             "--burst", str(a.burst), "--pause", str(a.pause), "--time-limit",
             str(a.time_limit + 60)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            line_of(child, 90)
            began, missed, no_step_left = time.monotonic(), 0, 0
            for turn in range(a.repeat):
                if time.monotonic() - began > a.time_limit:
                    break
                rows.append(one_stop(a, child, chain, counter))
                # A burst may end between the check and the stop: then nothing was preempted. Or the work was
                # held behind the last step of its segment, and no other segment follows.
                for _ in range(3):
                    row = rows[-1]
                    if row["own_ms"] is not None or row["other_ms"] is None:
                        break
                    if row["other_ms"] <= a.still:
                        missed += 1
                    else:
                        no_step_left += 1
                    rows[-1] = one_stop(a, child, chain, counter)
                print_row(turn, rows[-1])
                time.sleep(0.3)
            child.stdin.close()
            results = line_of(child, 30)
        finally:
            child.kill()
            child.wait()
    return {"alone_us": chain.alone_us, "stops": rows, "missed": missed,
            "no_step_left": no_step_left, "child": results}


def print_row(turn, row):
    cell = lambda x, wide: f"{'never' if x is None else format(x, '.1f'):>{wide}}"
    print(f"{turn:4} {cell(row['own_ms'], 12)} {cell(row['other_ms'], 12)}"
          f" {cell(row['chain_beside_us'], 18)} {'yes' if row['goes_on'] else 'NO':>10}", flush=True)


def main():
    a = options()
    if a.worker:
        return serve(a)
    faulthandler.dump_traceback_later(a.time_limit + 240, exit=True)
    torch = workload.import_torch("stopped_host")
    print("stop       own ms     other ms   chain before us   continues", flush=True)
    try:
        if not torch.cuda.is_available():
            raise RuntimeError("torch sees no GPU, expected one")
        torch.cuda.init()
        results = measure(a, torch)
    except (RuntimeError, OSError, ValueError) as e:
        print(f"stopped_host: {str(e).splitlines()[0]}", file=sys.stderr)
        return 1
    good = not results["child"]["failures"]
    for line in results["child"]["failures"]:
        print(f"the child failed: {line}", flush=True)
    for key, what in (("own_ms", "its best-effort work goes on"),
                      ("other_ms", "another process is at its usual pace")):
        times = sorted(r[key] for r in results["stops"] if r[key] is not None)
        missing = len(results["stops"]) - len(times)
        good = good and missing == 0
        print(f"{what}: {len(times)} of {len(results['stops'])} times"
              + (f", {times[len(times) // 2]:.1f} ms in the median, {times[-1]:.1f} at most"
                 if times else ""), flush=True)
    good = good and all(r["goes_on"] for r in results["stops"])
    leases = results["child"]["statistics"].get("expired_leases")
    if results["missed"]:
        print(f"{results['missed']} more stops came when nothing was held, and do not count",
              flush=True)
    if results["no_step_left"]:
        print(f"{results['no_step_left']} more stops came behind a segment's last step, where own work "
              "cannot be seen to go on, and do not count", flush=True)
    print(f"the chain takes {results['alone_us']:.0f} us alone"
          + (f"; {leases} leases ran out" if leases is not None else ""), flush=True)
    if a.json and not workload.save(a.json, {
            "device": torch.cuda.get_device_name(a.gpu), "torch": torch.__version__, **results}):
        return 1
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
