#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Latency of requests while a model is added to their server.

One client submits requests for a small model, one after another. Intervals with that client alone
alternate with additions of a model to the server: a chain of many small kernels, captured before. The
program compares the latencies of requests in flight during an addition with those of the intervals.
"""

import argparse
import faulthandler
import sys
import threading
import time

import checkout # the package of this checkout
import gsched
import models
import workload


def options():
    p = workload.Parser(description=__doc__,
                        formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default="resnet18", help="that is served; default: %(default)s")
    p.add_argument("--nodes", type=workload.COUNT, default=5000,
                   help="kernels of the model that is added; default: %(default)s")
    p.add_argument("--instances", type=workload.COUNT, default=1,
                   help="of the model that is added; default: %(default)s")
    p.add_argument("--repeat", type=workload.COUNT, default=5,
                   help="times that it is added; default: %(default)s")
    p.add_argument("--unmeasured", action="store_true",
                   help="its operations are not measured, which keeps the GPU to itself for a while")
    p.add_argument("--alone", type=workload.SOME, default=2.0, metavar="S",
                   help="of an interval; default: %(default)s")
    p.add_argument("--policy", default="fifo", help="default: %(default)s")
    p.add_argument("--real-time-lanes", type=workload.FROM_0, default=0, metavar="N",
                   help="the served model's requests are real-time ones on so many lanes; models then "
                        "have graphs with gates as well; default: %(default)s")
    p.add_argument("--seed", type=workload.FROM_0, default=1)
    p.add_argument("--gpu", type=workload.FROM_0, default=0)
    p.add_argument("--time-limit", type=workload.SOME, default=180.0, metavar="S",
                   help="turns that do not fit in are left out; default: %(default)s")
    p.add_argument("--json", metavar="FILE", type=workload.writable)
    a = p.parse_args()
    try:
        a.model = models.known(a.model)
    except ValueError as e:
        p.error(str(e))
    return a


class Client:
    """Submits one request after another, in a thread of its own, and keeps their times."""

    def __init__(self, server, model, real_time):
        self._server, self._model, self._client = server, model, server.add_client()
        self._real_time = real_time
        self.seen, self._stop, self._failed = [], False, None
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self):
        try:
            while not self._stop:
                future = self._server.submit(self._model, None, self._client, outputs=(),
                                             real_time=self._real_time)
                future.result(120)
                report = future.report
                self.seen.append((report["arrival"], report["end"]))
        except Exception as e: # raised by check()
            self._failed = e

    def during(self, start, end):
        """Latencies in us of the requests in flight between two times."""
        return [(e - s) * 1e6 for s, e in list(self.seen) if s <= end and e >= start]

    def check(self):
        if self._failed:
            raise self._failed

    def close(self):
        self._stop = True
        self._thread.join()
        self.check()


def summary(us):
    s = sorted(us)
    if not s:
        return {"requests": 0}
    return {"requests": len(s), "mean": sum(s) / len(s), "max": s[-1],
            **{f"p{p}": workload.percentile(s, p) for p in (50, 99)}}


def captured_chain(a, torch):
    def chain(x):
        for _ in range(a.nodes):
            x.add_(1.0)
        return x

    return gsched.capture(chain, torch.zeros(32), instances=a.instances, name=f"chain {a.nodes}",
                          gpu=a.gpu, warm_up=1)


def measure(a, torch):
    """A row for each time that the model was added."""
    served = gsched.capture(*models.make(a.model, a.seed), instances=1, name=a.model, gpu=a.gpu)
    chain, rows = captured_chain(a, torch), []
    began = time.monotonic()
    more = {"lanes": 1, "real_time_lanes": a.real_time_lanes} if a.real_time_lanes else {}
    with gsched.Server(policy=a.policy, gpu=a.gpu, **more) as server:
        client = Client(server, server.add_model(served), a.real_time_lanes > 0)
        try:
            time.sleep(0.2)
            for turn in range(a.repeat):
                if rows and time.monotonic() - began > a.time_limit:
                    break
                start = time.monotonic()
                time.sleep(a.alone)
                alone = client.during(start, time.monotonic())
                start = time.monotonic()
                added = server.add_model(chain, name=f"chain {turn}", unmeasured=a.unmeasured)
                end = time.monotonic()
                time.sleep(0.05) # until the last of these requests has ended
                client.check()
                rows.append({"alone": summary(alone), "adding": summary(client.during(start, end)),
                             "add_ms": (end - start) * 1e3,
                             "facts": workload.with_units(added.facts())})
                added.remove() # so that memory does not grow
                print_row(turn, rows[-1])
        finally:
            client.close()
    return rows


def print_row(turn, row):
    alone, adding = row["alone"], row["adding"]
    p99 = adding.get("p99", 0.0) - alone.get("p99", 0.0)
    print(f"{turn:4} {row['add_ms']:9.1f} {adding['requests']:9}"
          + "".join(f" {alone.get(k, 0):8.1f} {adding.get(k, 0):9.1f}" for k in ("p50", "p99", "max"))
          + f" {p99:+10.1f}", flush=True)


def main():
    a = options()
    faulthandler.dump_traceback_later(a.time_limit + 120, exit=True)
    torch = workload.import_torch("adding_models")
    print(f"{a.model} served while a chain of {a.nodes} kernels is added, latency in us\n"
          f"turn    add ms  requests alone p50    adding alone p99    adding alone max    adding   "
          f"p99 more", flush=True)
    try:
        gsched.load_library()
        if not torch.cuda.is_available():
            raise gsched.GschedError("torch sees no GPU, expected one")
        torch.cuda.init()
        rows = measure(a, torch)
    except (gsched.GschedError, RuntimeError, AssertionError) as e:
        print(f"adding_models: {str(e).splitlines()[0]}", file=sys.stderr)
        return 1
    whole = [r for r in rows if r["adding"]["requests"] > 0 and r["alone"]["requests"] > 0]
    if not whole:
        print("adding_models: no request was under way while the model was added, expected some",
              file=sys.stderr)
        return 1
    more = [r["adding"]["p99"] - r["alone"]["p99"] for r in whole]
    results = {"model": a.model, "nodes": a.nodes, "instances": a.instances, "measured":
            not a.unmeasured, "real_time_lanes": a.real_time_lanes, "device": torch.cuda.get_device_name(a.gpu),
            "torch": torch.__version__, "turns": rows,
            "p99_more_us": {"median": workload.median(more), "least": min(more), "most": max(more)}}
    print(f"p99 of others grows by {workload.median(more):+.1f} us in the median ({min(more):+.1f} to "
          f"{max(more):+.1f}); adding takes {workload.median([r['add_ms'] for r in whole]):.1f} ms", flush=True)
    if a.json and not workload.save(a.json, results):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
