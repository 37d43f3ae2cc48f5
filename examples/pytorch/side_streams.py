#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of cutting graphs with branches into segments, compared with the whole graph.

Each model is captured with its branches on streams of their own, so that its graph forks and joins:

  branches          two branches of ten products
  googlenet         with the branches of each block on streams
  inception_v3      the same
  lstm              two layers, torch.nn.LSTM; cuDNN forks by itself
  lstm_directions   one layer in both directions, each on a stream
  lstm_layers       two layers on two streams: a step of the second layer follows that of the first

One captured graph runs in four ways, in turn, one request at a time and with nothing else on the GPU:

  torch     graph.replay() and a synchronisation of the stream, by the host's clock
  whole     gsched with policy "direct", the whole graph
  segments  gsched, segments of about --quantum, two in flight
  growing   gsched, segments that grow while no other request waits (the default)

The times of gsched are those of the dispatcher, from the first launch to the last notification,
without copies. Ratios are of medians, over whole. Before that the outputs of every way are compared, bit
for bit, with those of graph.replay(), and those with the outputs of the model without streams.
"""

import argparse
import faulthandler
import random
import sys
import time

import checkout # the package of this checkout
import gsched
import models
import workload

# Branches of torchvision's blocks, by the names of their modules; "a|b" is both, put together.
BLOCKS = {
    "Inception": ("branch1", "branch2", "branch3", "branch4"),
    "InceptionA": ("branch1x1", "branch5x5_1 branch5x5_2",
                   "branch3x3dbl_1 branch3x3dbl_2 branch3x3dbl_3", "average branch_pool"),
    "InceptionB": ("branch3x3", "branch3x3dbl_1 branch3x3dbl_2 branch3x3dbl_3", "maximum"),
    "InceptionC": ("branch1x1", "branch7x7_1 branch7x7_2 branch7x7_3",
                   "branch7x7dbl_1 branch7x7dbl_2 branch7x7dbl_3 branch7x7dbl_4 branch7x7dbl_5",
                   "average branch_pool"),
    "InceptionD": ("branch3x3_1 branch3x3_2",
                   "branch7x7x3_1 branch7x7x3_2 branch7x7x3_3 branch7x7x3_4", "maximum"),
    "InceptionE": ("branch1x1", "branch3x3_1 branch3x3_2a|branch3x3_2b",
                   "branch3x3dbl_1 branch3x3dbl_2 branch3x3dbl_3a|branch3x3dbl_3b",
                   "average branch_pool"),
}
STEPS, BATCH, WIDTH = 32, 8, 512  # of the LSTMs
WAYS = ("torch", "whole", "segments", "growing")
MOST = 1.03  # for --strict


# Models -------------------------------------------------------------------------------------------

_sides = {}


def side_streams(torch, gpu, count):
    """Streams for all forks: torch has 32, and the capture's stream must not be one of them."""
    made = _sides.setdefault(gpu, [])
    while len(made) < count:
        made.append(torch.cuda.Stream(gpu))
    return made[:count]


def forked(torch, gpu, branches, x):
    """The outputs of all branches for x. During a capture the first runs on the current stream and the
    others on streams of their own; otherwise they run one after another, as launches on several
    streams would slow the graphs of the process (docs/research/cliff.md)."""
    if not torch.cuda.is_current_stream_capturing():
        return [branch(x) for branch in branches]
    current, made = torch.cuda.current_stream(gpu), []
    sides = side_streams(torch, gpu, len(branches) - 1)
    for side in sides:
        side.wait_stream(current)
    for branch, stream in zip(branches, [current] + sides):
        with torch.cuda.stream(stream):
            made.append(branch(x))
    for side in sides:
        current.wait_stream(side)
    return made


def in_branches(torch, gpu, net):
    """The same network, with the branches of its blocks forked; a GschedError if it has none."""
    import torch.nn.functional as F

    pools = {"average": lambda x: F.avg_pool2d(x, 3, stride=1, padding=1),
             "maximum": lambda x: F.max_pool2d(x, 3, stride=2)}

    def branch_of(block, words):
        chain = [[pools.get(name) or getattr(block, name) for name in word.split("|")]
                 for word in words.split()]

        def branch(x):
            for parts in chain:
                made = [part(x) for part in parts]
                x = made[0] if len(made) == 1 else torch.cat(made, 1)
            return x
        return branch

    def forward_of(branches):
        return lambda x: torch.cat(forked(torch, gpu, branches, x), 1)

    blocks = [b for b in net.modules() if type(b).__name__ in BLOCKS]
    for block in blocks:
        block.forward = forward_of([branch_of(block, words) for words in BLOCKS[type(block).__name__]])
    if not blocks:
        raise gsched.GschedError("the network has no block with branches, expected torchvision's")
    return net


def vision(torch, name, seed, gpu, streams):
    net, example = models.make(name, seed)
    return (in_branches(torch, gpu, net) if streams else net), example


def branches(torch, _, seed, gpu, streams):
    class Branches(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.sides = torch.nn.ModuleList(
                torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(10)))
                for _ in range(2))

        def forward(self, x):
            parts = list(self.sides)
            return sum(forked(torch, gpu, parts, x) if streams else [part(x) for part in parts])

    return Branches(), torch.randn(256, 1024)


def lstm(torch, *_):
    class Lstm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = torch.nn.LSTM(WIDTH, WIDTH, num_layers=2)

        def forward(self, x):
            return self.lstm(x)[0]

    return Lstm(), torch.randn(STEPS, BATCH, WIDTH)


def lstm_directions(torch, _, seed, gpu, streams):
    class Directions(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cells = torch.nn.ModuleList(torch.nn.LSTMCell(WIDTH, WIDTH) for _ in range(2))

        def forward(self, x):
            def over(cell, places):
                def run(x):
                    state, outputs = None, {}
                    for i in places:
                        state = cell(x[i], state)
                        outputs[i] = state[0]
                    return torch.stack([outputs[i] for i in range(STEPS)])
                return run

            both = [over(cell, places) for cell, places in
                    zip(self.cells, (range(STEPS), range(STEPS - 1, -1, -1)))]
            return torch.cat(forked(torch, gpu, both, x) if streams else [run(x) for run in both], 2)

    return Directions(), torch.randn(STEPS, BATCH, WIDTH)


def lstm_layers(torch, _, seed, gpu, streams):
    class Layers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = (torch.nn.LSTMCell(WIDTH, WIDTH) for _ in range(2))

        def forward(self, x):
            current = torch.cuda.current_stream(gpu)
            apart = streams and torch.cuda.is_current_stream_capturing()
            side = side_streams(torch, gpu, 1)[0] if apart else current
            first = second = None
            kept, outputs = [], [] # kept, so that memory which the side stream reads is not reused
            for step in x:
                first = self.first(step, first)
                kept.append(first)
                if apart:
                    side.wait_stream(current)
                with torch.cuda.stream(side):
                    second = self.second(first[0], second)
                    outputs.append(second[0])
            if apart:
                current.wait_stream(side)
            return torch.stack(outputs)

    return Layers(), torch.randn(STEPS, BATCH, WIDTH)


MAKERS = {"branches": branches, "googlenet": vision, "inception_v3": vision, "lstm": lstm,
          "lstm_directions": lstm_directions, "lstm_layers": lstm_layers}


def make(torch, name, a, streams):
    """(module, example), with the same weights with and without streams."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(a.seed)
        return MAKERS[name](torch, name, a.seed, a.gpu, streams)


# Measuring ----------------------------------------------------------------------------------------

def options():
    p = workload.Parser(description=__doc__,
                        formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", default=",".join(MAKERS), help="default: all of them")
    p.add_argument("--repetitions", type=workload.COUNT, default=300, help="default: %(default)s")
    p.add_argument("--check", type=workload.COUNT, default=10, metavar="N",
                   help="inputs whose outputs are compared; default: %(default)s")
    p.add_argument("--quantum", type=workload.SOME, default=100.0, metavar="US")
    p.add_argument("--in-flight", type=workload.COUNT, default=2,
                   help="segments; default: %(default)s")
    p.add_argument("--seed", type=workload.FROM_0, default=1)
    p.add_argument("--gpu", type=workload.FROM_0, default=0)
    p.add_argument("--time-limit", type=workload.SOME, default=300.0, metavar="S",
                   help="models that do not fit in are left out; default: %(default)s")
    p.add_argument("--strict", action="store_true",
                   help=f"exit with 1 if a ratio of segments or growing is above {MOST}")
    p.add_argument("--json", metavar="FILE", type=workload.writable)
    a = p.parse_args()
    a.models = a.models.split(",")
    for name in a.models:
        if name not in MAKERS:
            p.error(f'--models: "{name}", expected some of {", ".join(MAKERS)}')
    return a


def servers(a):
    """{way: server} of those that gsched serves."""
    cut = {"quantum": a.quantum / 1e6, "segments_per_job": a.in_flight}
    return {"whole": gsched.Server(policy="direct", gpu=a.gpu),
            "segments": gsched.Server(policy="fifo", gpu=a.gpu, most_quantum=a.quantum / 1e6, **cut),
            "growing": gsched.Server(policy="fifo", gpu=a.gpu, **cut)}


def capture(torch, a, name):
    """The model captured with its branches on streams; a GschedError if they change its outputs."""
    captured = gsched.capture(*make(torch, name, a, True), instances=1, name=name, gpu=a.gpu)
    plain = gsched.capture(*make(torch, name, a, False), instances=1, name=name, gpu=a.gpu)
    for x, y in zip(*(gsched.tensors_of(one.replay(one.example)) for one in (captured, plain))):
        if not torch.allclose(x, y, rtol=1e-3, atol=1e-4):
            raise gsched.GschedError(f"{name}: other outputs with streams than without, expected the "
                                     "same")
    return captured


def wrong_outputs(torch, a, captured, served):
    """How many outputs of each way differ from those of the whole graph, replayed by torch."""
    import bit_equal

    generator = torch.Generator().manual_seed(a.seed)
    wrong = dict.fromkeys(served, 0)
    for _ in range(a.check):
        leaves = [torch.randn(x.shape, generator=generator).pin_memory()
                  for x in gsched.tensors_of(captured.example)]
        x = gsched.with_tensors(captured.example, iter(leaves))
        expected = bit_equal.bits(captured.replay(x))
        for way, (server, model) in served.items():
            answer = server.submit(model, x).result(60)
            wrong[way] += not bit_equal.same(bit_equal.bits(answer), expected)
    return wrong


def run(torch, a, captured, way, served):
    """(microseconds, segments) of one request."""
    if way == "torch":
        stream = torch.cuda.default_stream(a.gpu)
        with torch.cuda.stream(stream):
            began = time.monotonic_ns()
            captured.instances[0].graph.replay()
            stream.synchronize()
            return (time.monotonic_ns() - began) / 1e3, 0
    server, model = served[way]
    future = server.submit(model, None, outputs=())
    future.result(60)
    report = future.report
    return (report["end"] - report["start"]) * 1e6, report["segments"]


def compare(torch, a, captured, by_way):
    """The figures of one model."""
    served = {way: (server, server.add_model(captured)) for way, server in by_way.items()}
    wrong = wrong_outputs(torch, a, captured, served)
    took, segments, order = {way: [] for way in WAYS}, dict.fromkeys(WAYS, 0), random.Random(a.seed)
    for i in range(a.repetitions + 10):
        for way in order.sample(WAYS, len(WAYS)):
            us, count = run(torch, a, captured, way, served)
            if i >= 10:
                took[way].append(us)
                segments[way] = max(segments[way], count)
    facts = served["segments"][1].facts()
    for _, model in served.values():
        model.remove()
    return {"operations": facts["operations"], "wrong": wrong,
            "ways": summed_up(took, segments)}


def summed_up(took, segments):
    """Percentiles of each way, and the ratio of its median to that of whole."""
    figures = {way: {"n": len(us), "segments": segments[way],
                     **{f"p{p}": workload.percentile(us, p) for p in (10, 50, 90)}} for way, us in took.items()}
    for f in figures.values():
        f["ratio"] = f["p50"] / figures["whole"]["p50"]
    return figures


def print_row(name, found):
    for way, f in found["ways"].items():
        wrong = found["wrong"].get(way)
        print(f"{name if way == WAYS[0] else '':16} {found['operations'] if way == WAYS[0] else '':10} "
              f"{way:9} {f['segments'] or '':8} {f['p50']:9.1f} {f['p10']:9.1f} {f['p90']:9.1f} "
              f"{f['ratio']:8.4f} {'' if wrong is None else wrong:6}", flush=True)


def measure(torch, a, began):
    """{model: figures} of those that fit into the time."""
    captured = {name: capture(torch, a, name) for name in a.models}
    gsched.leave_slow_side(a.gpu) # cuDNN's warm-up has launched on streams of its own
    by_way, results = servers(a), {}
    print(f"{'model':16} {'operations':>10} {'way':9} {'segments':>8} {'p50 us':>9} {'p10':>9} {'p90':>9} "
          f"{'ratio':>8} {'wrong':>6}", flush=True)
    for name in a.models:
        if time.monotonic() - began > a.time_limit:
            print(f"{name}: left out, --time-limit {a.time_limit:g} is over", flush=True)
            continue
        results[name] = compare(torch, a, captured.pop(name), by_way)
        print_row(name, results[name])
    for server in by_way.values():
        server.close()
    return results


def main():
    a = options()
    faulthandler.dump_traceback_later(a.time_limit + 120, exit=True)
    began = time.monotonic()
    torch = workload.import_torch("side_streams")
    try:
        gsched.load_library()
        if not torch.cuda.is_available():
            raise gsched.GschedError("torch sees no GPU, expected one")
        torch.cuda.init()
        results = measure(torch, a, began)
    except (gsched.GschedError, RuntimeError, AssertionError) as e:
        print(f"side_streams: {str(e).splitlines()[0]}", file=sys.stderr)
        return 1
    if not results:
        return 1
    worst = {way: max((r["ways"][way]["ratio"], name) for name, r in results.items())
             for way in ("segments", "growing")}
    wrong = sum(sum(r["wrong"].values()) for r in results.values())
    print("worst ratio to whole: " + ", ".join(f"{way} {ratio:.4f} ({name})"
                                               for way, (ratio, name) in worst.items())
          + f"; {wrong} wrong outputs", flush=True)
    complete = len(results) == len(a.models)
    if a.json:
        complete = workload.save(a.json, {
            "device": torch.cuda.get_device_name(a.gpu), "torch": torch.__version__,
            "quantum_us": a.quantum, "in_flight": a.in_flight, "models": results,
            "worst_ratio": {way: ratio for way, (ratio, _) in worst.items()}}) and complete
    over = a.strict and max(ratio for ratio, _ in worst.values()) > MOST
    return 1 if not complete or wrong or over else 0


if __name__ == "__main__":
    sys.exit(main())
