#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the outputs of scheduled models, bit for bit, with those of their captured graphs.

Each model is captured, and each instance's graph is replayed whole on random inputs, one at a time,
with nothing else on the GPU. These are the expected outputs. Then all models are served at once, cut
into segments, by --clients clients, with inputs in pinned and pageable memory and on the GPU, and every
output is compared with the expected one of its instance. At the end some graphs are replayed whole
again, to check that the expected outputs are reproducible.
"""

import argparse
import collections
import faulthandler
import random
import sys
import time

import checkout # the package of this checkout
import gsched
import models
import workload


def options():
    p = workload.Parser(description=__doc__,
                        formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", default=",".join(models.NAMES), help="default: all ten")
    p.add_argument("--inferences", type=workload.COUNT, default=1000,
                   help="of each; default: %(default)s")
    p.add_argument("--inputs", type=workload.COUNT, default=50, help="different ones of each model")
    p.add_argument("--instances", type=workload.COUNT, default=2)
    p.add_argument("--clients", type=workload.COUNT, default=8)
    p.add_argument("--in-flight", type=workload.COUNT, default=32)
    p.add_argument("--policy", default="srpt+deficit")
    p.add_argument("--seed", type=workload.FROM_0, default=1)
    p.add_argument("--gpu", type=workload.FROM_0, default=0)
    p.add_argument("--time-limit", type=workload.SOME, default=300.0, metavar="S")
    p.add_argument("--json", metavar="FILE", type=workload.writable)
    a = p.parse_args()
    try:
        a.models = [models.known(m) for m in a.models.split(",")]
    except ValueError as e:
        p.error(str(e))
    return a


def bits(tree):
    """The bytes of the tensors of an output, on the host."""
    import torch

    return [x.detach().to("cpu").contiguous().view(-1).view(torch.uint8)
            for x in gsched.tensors_of(tree)]


def same(a, b):
    import torch

    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b))


class Subject:
    """A model, its inputs and the expected outputs."""

    def __init__(self, torch, name, a):
        self.name = name
        module, example = models.make(name, a.seed)
        self.captured = gsched.capture(module, example, a.instances, name, a.gpu)
        generator = torch.Generator().manual_seed(a.seed)
        self.pageable = [models.draw(name, generator) for _ in range(a.inputs)]
        self.pinned = [x.pin_memory() for x in self.pageable]
        self.expected, finite = [], True
        for i in range(a.instances):
            answers = [self.captured.replay(x, i) for x in self.pinned]
            finite = finite and all(bool(torch.isfinite(y).all())
                                    for tree in answers for y in gsched.tensors_of(tree))
            self.expected.append([bits(tree) for tree in answers])
        self.facts = {
            "inferences": 0, "mismatches": 0, "segments": 0, "finite": finite,
            "answers": len({b"".join(bytes(x.numpy()) for x in e) for e in self.expected[0]}),
            "instances_agree": all(same(e, f) for other in self.expected[1:]
                                   for e, f in zip(self.expected[0], other))}

    def sent(self, kind, k):
        """The input, and the argument `outputs` of submit()."""
        if kind == 2:
            return self.pinned[k].to(f"cuda:{self.captured.gpu}"), "cuda"
        return (self.pageable if kind == 1 else self.pinned)[k], None

    def check(self, k, future):
        answer = bits(future.result(60))
        report = future.report
        self.facts["inferences"] += 1
        self.facts["segments"] += report["segments"]
        if not same(answer, self.expected[report["instance"]][k]):
            self.facts["mismatches"] += 1

    def replayed_again(self):
        """How many of some replays differ from the expected outputs."""
        return sum(not same(bits(self.captured.replay(self.pinned[k], i)), self.expected[i][k])
                   for i in range(len(self.expected)) for k in range(min(5, len(self.pinned))))


def main():
    a = options()
    faulthandler.dump_traceback_later(a.time_limit + 120, exit=True)
    began = time.monotonic()
    torch = workload.import_torch("bit_equal")
    try:
        gsched.load_library()
        subjects = []
        for name in a.models:
            subjects.append(Subject(torch, name, a))
            f = subjects[-1].facts
            print(f"{name}: captured {a.instances} times, {a.inputs} inputs, {f['answers']} "
                  f"different answers, {'' if f['finite'] else 'not '}all finite, instances "
                  f"{'agree' if f['instances_agree'] else 'differ'}", flush=True)
        order = [s for s in subjects for _ in range(a.inferences)]
        draw = random.Random(a.seed)
        draw.shuffle(order)
        late = False
        with gsched.Server(policy=a.policy, gpu=a.gpu) as server:
            added = {s.name: server.add_model(s.captured) for s in subjects}
            clients = [server.add_client() for _ in range(a.clients)]
            print(f"serving {len(order)} requests, {a.in_flight} at once, {a.policy}; set up in "
                  f"{time.monotonic() - began:.0f} s", flush=True)
            began_serving, flying = time.monotonic(), collections.deque()
            for n, s in enumerate(order):
                if time.monotonic() - began > a.time_limit:
                    late = True
                    break
                k = draw.randrange(a.inputs)
                x, outputs = s.sent(draw.randrange(3), k)
                flying.append((s, k, server.submit(added[s.name], x, clients[n % a.clients],
                                                   outputs=outputs)))
                while len(flying) >= a.in_flight:
                    s, k, future = flying.popleft()
                    s.check(k, future)
            while flying:
                s, k, future = flying.popleft()
                s.check(k, future)
            took = time.monotonic() - began_serving
            statistics = workload.with_units(server.statistics())
        again = {s.name: s.replayed_again() for s in subjects}
    except gsched.GschedError as e:
        print(f"bit_equal: {e}", file=sys.stderr)
        return 1

    print(f"served in {took:.1f} s, {statistics['built_late']} graphs built late\n"
          f"{'model':14} inferences  mismatches  segments each")
    for s in subjects:
        f = s.facts
        f["replays_that_changed"] = again[s.name]
        print(f"{s.name:14} {f['inferences']:10}  {f['mismatches']:10}  "
              f"{f['segments'] / max(1, f['inferences']):13.1f}", flush=True)
    faults = [f"{s.name}: {what}" for s in subjects for what, there in (
        (f"{s.facts['mismatches']} outputs differ", s.facts["mismatches"] > 0),
        (f"{again[s.name]} whole replays changed", again[s.name] > 0),
        ("all inputs have one answer, so nothing was shown",
         s.facts["answers"] < min(2, a.inputs)),
        ("answers that are not finite", not s.facts["finite"])) if there]
    if late:
        faults.append(f"stopped by --time-limit {a.time_limit:g}")
    for line in faults:
        print(line, flush=True)
    if a.json:
        saved = workload.save(a.json, {
            "device": torch.cuda.get_device_name(a.gpu), "torch": torch.__version__,
            "policy": a.policy, "in_flight": a.in_flight, "serving_s": took,
            "statistics": statistics, "faults": faults,
            "models": {s.name: s.facts for s in subjects}})
        faults += [] if saved else ["results were not written"]
    print("bit-equal" if not faults else "NOT bit-equal, or not shown", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
