# SPDX-License-Identifier: Apache-2.0
"""Ways of serving the same requests, each in a process that serve_models.py starts.

The process reads requests as lines of JSON on stdin and writes replies on stdout. A way returns the end
of each request, counted from its arrival: with every way inputs start in pinned host memory and outputs
end there.

The way torch-direct submits from one thread for all streams, as threads of one interpreter would only
wait for each other. It takes the ends from CUDA events, so its times do not contain the notification
of the host, which favours it.
"""

import contextlib
import faulthandler
import gc
import json
import os
import re
import sys
import threading
import time

import checkout # the package of this checkout
import gsched
import models
import workload

SCHEDULED = ("srpt+deficit", "srpt", "sjf", "fifo", "rr", "edf", "deficit", "boost", "direct",
             "single")
EAGER = ("eager-single", "eager-streams")
ALL = SCHEDULED + EAGER + ("torch-direct",)
BOOST_BY = re.compile(r"boost:[0-9]+(\.[0-9]+)?")  # the library checks their factor
INPUTS, OUTPUTS = 4, 16  # buffers of each model, used in rotation


def is_way(name):
    return name in ALL or is_scheduled(name)


def is_scheduled(name):
    return name in SCHEDULED or BOOST_BY.fullmatch(name) is not None


def wait_until(due_ns, spin_ns=1_000_000):
    while True:
        left = due_ns - time.monotonic_ns()
        if left <= 0:
            return
        if left > spin_ns:
            time.sleep((left - spin_ns) / 1e9)


def in_us(times_ns):
    times = sorted(times_ns)
    return {"mean": sum(times) / len(times) / 1e3, "p50": times[len(times) // 2] / 1e3,
            "p99": times[len(times) * 99 // 100] / 1e3}


class Results:
    """The end of each request. Requests that were never submitted count as cancelled."""

    def __init__(self, asked, limit_s, lead_s=0.02):
        self.asked = asked
        self.start = time.monotonic_ns() + int(lead_s * 1e9)
        self.give_up = self.start + int(limit_s * 1e9)
        self.late = [0] * len(asked)
        self.calls = [] # of submit, in ns
        self.ends, self.states = [None] * len(asked), ["cancelled"] * len(asked)

    def due(self, i):
        return self.start + self.asked[i][0]

    def ended(self, i, end_ns, state="finished"):
        self.states[i] = state
        if state == "finished":
            self.ends[i] = end_ns

    def outcome(self, **more):
        ends = [e for e in self.ends if e is not None]
        if self.calls:
            more["submit_us"] = in_us(self.calls)
        return {"states": self.states,
                "latencies_ns": [e if e is None else e - self.due(i)
                                 for i, e in enumerate(self.ends)],
                "span_ns": max(ends) - self.due(0) if ends else 0,
                "late_us": in_us(self.late), **more}


class Buffers:
    """Inputs and outputs of a model on the host, pinned."""

    def __init__(self, torch, name, seed, outputs):
        random = torch.Generator().manual_seed(seed)
        self.inputs = [models.draw(name, random).pin_memory() for _ in range(INPUTS)]
        self.outputs = [[torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, pin_memory=True)
                         for x in outputs] for _ in range(OUTPUTS)]


class Scheduled:
    """Served by gsched; its policies "direct" and "single" do not schedule."""

    def __init__(self, host, policy):
        more = dict(host.options)
        if policy == "direct":
            more["lanes"] = max(host.clients, more.get("lanes", 8))
        if policy in ("direct", "single"):
            more.pop("spare_lanes", None)
        self.server = gsched.Server(policy=policy, gpu=host.gpu, **more)
        self.host = host
        self.models = [self.server.add_model(host.captured[n]) for n in host.names]
        self.clients = [self.server.add_client() for _ in range(host.clients)]

    def facts(self):
        return {m.name: workload.with_units(m.facts()) for m in self.models}

    def warm(self):
        futures = [self.server.submit(m, self.host.buffers[m.name].inputs[0], client)
                   for m in self.models for client in self.clients]
        for f in futures:
            f.result(60)

    def run(self, asked, limit_s):
        before, results, futures = self.server.statistics(), Results(asked, limit_s), []
        submit, buffers = self.server.submit, [self.host.buffers[m.name] for m in self.models]
        for i, (_, m, c) in enumerate(asked):
            due = results.due(i)
            wait_until(due)
            now = time.monotonic_ns()
            if now > results.give_up:
                break
            results.late[i] = now - due
            futures.append(submit(self.models[m], buffers[m].inputs[i % INPUTS], self.clients[c],
                                  outputs=buffers[m].outputs[i % OUTPUTS], arrival=due / 1e9))
            results.calls.append(time.monotonic_ns() - now)
        for f in futures:
            if not f.wait(max(0.0, (results.give_up - time.monotonic_ns()) / 1e9)):
                f.cancel()
        error = None
        for i, f in enumerate(futures):
            if not f.wait(60):
                raise gsched.GschedError(f"request {i} did not end within 60 s of its cancellation")
            results.ended(i, round(f.report["end"] * 1e9), f.state)
            error = error or f.report["error"] or None
        after = self.server.statistics()
        spent = {k: after[k] - before[k] for k in after if k != "active"}
        more = {"operations": spent["operations"], "decisions": spent["decisions"],
                "statistics": workload.with_units(spent)}
        return results.outcome(**more, **({"error": error} if error else {}))

    def close(self):
        self.server.close(cancel=True, timeout=10)


class Eager:
    """Modules run eagerly: by one thread, or by a thread and a stream for each client."""

    def __init__(self, host, way):
        torch = host.torch
        self.host, device = host, torch.device("cuda", host.gpu)
        single = way == "eager-single"
        self.workers = 1 if single else host.clients
        self.streams = [torch.cuda.default_stream(host.gpu) if single
                        else torch.cuda.Stream(host.gpu) for _ in range(self.workers)]
        self.modules = [host.modules[n].to(device) for n in host.names]
        self.serve_us = self._measure()

    def _one(self, m, i):
        buffers = self.host.buffers[self.host.names[m]]
        x = buffers.inputs[i % INPUTS].to(self.host.torch.device("cuda", self.host.gpu),
                                          non_blocking=True)
        for got, y in zip(buffers.outputs[i % OUTPUTS], gsched.tensors_of(self.modules[m](x))):
            got.copy_(y, non_blocking=True)
        self.host.torch.cuda.current_stream(self.host.gpu).synchronize()

    def _measure(self):
        times = []
        with self.host.torch.inference_mode():
            for m in range(len(self.modules)):
                took = []
                for i in range(7):
                    start = time.monotonic_ns()
                    self._one(m, i)
                    took.append((time.monotonic_ns() - start) / 1e3)
                times.append(workload.median(took[2:]))
        return dict(zip(self.host.names, times))

    def facts(self):
        return {}

    def warm(self):
        self.run([(0, m, c) for m in range(len(self.modules)) for c in range(self.workers)], 60)

    def run(self, asked, limit_s):
        results, failures = Results(asked, limit_s), []

        def work(worker):
            torch, stream = self.host.torch, self.streams[worker]
            try:
                with torch.cuda.device(self.host.gpu), torch.cuda.stream(stream), \
                        torch.inference_mode():
                    for i, (_, m, c) in enumerate(asked):
                        if c % self.workers != worker:
                            continue
                        wait_until(results.due(i), spin_ns=0)
                        now = time.monotonic_ns()
                        if now > results.give_up:
                            return
                        results.late[i] = now - results.due(i)
                        self._one(m, i)
                        results.ended(i, time.monotonic_ns())
            except Exception as e: # reported below, by the thread that serves
                failures.append(e)

        threads = [threading.Thread(target=work, args=(w,)) for w in range(self.workers)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if failures:
            raise failures[0]
        return results.outcome()

    def close(self):
        pass


class TorchDirect:
    """Whole graphs replayed by torch on a stream for each client."""

    def __init__(self, host, way):
        torch = host.torch
        self.host = host
        self.streams = [torch.cuda.Stream(host.gpu) for _ in range(host.clients)]
        self.graphs = [host.captured[n].instances for n in host.names]
        if any(len(g) < host.clients for g in self.graphs):
            raise gsched.GschedError(f"{way}: fewer instances than clients, expected one for each")
        for graphs in self.graphs:
            for one in graphs:
                one.graph.instantiate()

    def facts(self):
        return {}

    def warm(self):
        self.run([(0, m, c) for m in range(len(self.graphs)) for c in range(len(self.streams))], 60)

    def _clock(self, base):
        """The offset in ns from the GPU's time since `base` to the host's."""
        torch, offsets = self.host.torch, []
        for _ in range(30):
            e = torch.cuda.Event(enable_timing=True)
            e.record()
            e.synchronize()
            now = time.monotonic_ns()
            offsets.append(now - int(base.elapsed_time(e) * 1e6))
        return min(offsets)

    def run(self, asked, limit_s):
        torch, names = self.host.torch, self.host.names
        buffers = [self.host.buffers[n] for n in names]
        ends = [torch.cuda.Event(enable_timing=True) for _ in asked]
        base = torch.cuda.Event(enable_timing=True)
        base.record()
        base.synchronize()
        before, since = self._clock(base), time.monotonic_ns()
        results, sent = Results(asked, limit_s), 0
        with torch.inference_mode():
            for i, (_, m, c) in enumerate(asked):
                due = results.due(i)
                wait_until(due)
                now = time.monotonic_ns()
                if now > results.give_up:
                    break
                results.late[i] = now - due
                one, stream = self.graphs[m][c], self.streams[c]
                with torch.cuda.stream(stream):
                    one.inputs[0].copy_(buffers[m].inputs[i % INPUTS], non_blocking=True)
                    one.graph.replay()
                    for got, y in zip(buffers[m].outputs[i % OUTPUTS], one.outputs):
                        got.copy_(y, non_blocking=True)
                    ends[i].record(stream)
                sent = i + 1
        torch.cuda.synchronize(self.host.gpu)
        after, until = self._clock(base), time.monotonic_ns()
        for i in range(sent):
            on_gpu = int(base.elapsed_time(ends[i]) * 1e6)
            gone = min(1.0, max(0.0, (before + on_gpu - since) / max(1, until - since)))
            results.ended(i, on_gpu + before + int(gone * (after - before)))
        return results.outcome()

    def close(self):
        pass


class Reference:
    """A fixed graph of many small kernels, whose time shows whether launches on several streams
    have made the process's graphs slower."""

    def __init__(self, torch, gpu):
        def many(x):
            for _ in range(500):
                x.add_(1.0)
            return x

        self.torch, self.gpu = torch, gpu
        self.captured = gsched.capture(many, torch.zeros(32), instances=1, name="reference",
                                       gpu=gpu, warm_up=1)

    def us(self, captured=None, times=30):
        """Median device time of a replay, alone on the default stream."""
        torch, took = self.torch, []
        graph = (captured or self.captured).instances[0].graph
        with torch.cuda.stream(torch.cuda.default_stream(self.gpu)):
            for i in range(times + 10):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                graph.replay()
                end.record()
                end.synchronize()
                if i >= 10:
                    took.append(start.elapsed_time(end) * 1e3)
        return workload.median(took)


class Host:
    """The state that the ways of one process share. Its construction does not use the GPU, so that several
    processes can start at once; during set_up() and run() nothing else may run on the GPU."""

    def __init__(self, asked):
        import torch

        if not torch.cuda.is_available():
            raise gsched.GschedError("torch sees no GPU, expected one")
        self.torch, self.asked, self.gpu = torch, asked, asked["gpu"]
        self.names, self.clients, self.options = asked["names"], asked["clients"], asked["options"]
        self.made = {name: models.make(name, asked["seed"]) for name in self.names}
        self.modules = {name: module for name, (module, _) in self.made.items()}

    def set_up(self):
        began, torch, asked = time.monotonic(), self.torch, self.asked
        torch.cuda.set_device(self.gpu)
        self.reference = Reference(torch, self.gpu)
        start_us, instances = self.reference.us(), asked["instances"]
        if not {"direct", "torch-direct"}.isdisjoint(asked["ways"]): # no preemption
            instances = max(instances, self.clients)
        if all(w in EAGER for w in asked["ways"]):
            instances = 1
        self.captured, self.buffers, self.solo_us = {}, {}, {}
        for k, name in enumerate(self.names):
            self.captured[name] = gsched.capture(*self.made[name], instances, name, self.gpu)
            self.buffers[name] = Buffers(torch, name, asked["seed"] + k,
                                         self.captured[name].instances[0].outputs)
            self.solo_us[name] = self.reference.us(self.captured[name], 20)
        captured_us = self.reference.us()
        self.ways, self.after_us = {}, {}
        for way in asked["ways"]:
            kind = Scheduled if is_scheduled(way) else Eager if way in EAGER else TorchDirect
            self.ways[way] = kind(self, way)
        return {
            "device": torch.cuda.get_device_name(self.gpu), "torch": torch.__version__,
            "cuda": torch.version.cuda, "solo_us": self.solo_us,
            "serve_us": {w: getattr(o, "serve_us", self.solo_us) for w, o in self.ways.items()},
            "models": {w: o.facts() for w, o in self.ways.items()},
            "reference_us": {"start": start_us, "captured": captured_us,
                             "ready": self.reference.us()},
            "setup_s": round(time.monotonic() - began, 3)}

    def run(self, asked):
        way = self.ways[asked["way"]]
        if asked["warm"]:
            way.warm()
        before = self.reference.us()
        gc.collect()
        gc.disable()
        try:
            outcome = way.run(asked["asked"], asked["limit_s"])
        finally:
            gc.enable()
        outcome["reference_us"] = {"before": before, "after": self.reference.us()}
        return outcome

    def close(self):
        for way in getattr(self, "ways", {}).values():
            way.close()


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1) # output of libraries must not mix with replies
    sys.stdout = sys.stderr

    def answer(**fields):
        answers.write(json.dumps(fields) + "\n")
        answers.flush()

    host = None
    try:
        for line in sys.stdin:
            asked = json.loads(line)
            # A hang ends the process and prints a stack trace.
            faulthandler.dump_traceback_later(asked["within_s"], exit=True)
            if host is None:
                host = Host(asked)
                answer(made=True)
            elif "set_up" in asked:
                answer(ready=host.set_up())
            else:
                answer(outcome=host.run(asked))
            faulthandler.cancel_dump_traceback_later()
    except Exception as e: # the caller gets one line for any error
        answer(error=f"{type(e).__name__}: {str(e).strip().splitlines()[0] if str(e) else ''}")
        sys.exit(1)
    faulthandler.dump_traceback_later(30, exit=True)
    if host is not None:
        with contextlib.suppress(gsched.GschedError):
            host.close()


if __name__ == "__main__":
    main()
