#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the kernels of a PyTorch graph lose beside another graph on the same SMs: how much longer each one
runs, and how long it waits for a place. CUPTI records both graphs, replayed without a pause.

    kernels_beside.py --models examples/pytorch/models.py --pairs lenet_b8:vgg16_b8 --json F
    kernels_beside.py --read F                # the table, of earlier runs; also .gz
    kernels_beside.py --read F --profiles DIR # and when kernels of several waves let others in

Models are what make(NAME) of the file returns, a module and its input. A kernel starts when its first
block does. Recording makes the kernels of both graphs start later, alone and side by side, so the times
of replays are those without it. With profiles, of the second graphs: how long before the end of a kernel
of several waves one that had waited for more than 3 us starts, over the mean time of a block; that is the
kernel's time over its waves, rounded up.
"""
import argparse
import bisect
import collections
import datetime
import gzip
import importlib.util
import json
import math
import pathlib
import statistics
import sys
import tempfile
import threading
import time

WAITED_US = 3
INSIDE_US = 2  # a kernel that starts sooner after another one did not wait for its blocks
LEAST_TAILS = 8  # of a kernel, for the table


class Failed(Exception):
    """With one line."""


class Graph:
    """A captured module, and the stream that replays it."""

    def __init__(self, torch, make, name):
        try:
            module, example = make(name)
        except (ValueError, TypeError, KeyError) as e:
            raise Failed(str(e)) from None
        self.torch, self.name, self.stream = torch, name, torch.cuda.Stream()
        self.module, self.example = module.eval().cuda(), example.cuda()  # the graph reads these
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.stream(self.stream):
            for _ in range(3):
                self.module(self.example)
            self.stream.synchronize()
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.output = self.module(self.example)

    def replay(self, stop, counts):
        """Until `stop` is set, three replays ahead of the GPU."""
        ended = [self.torch.cuda.Event() for _ in range(3)]
        n = 0
        with self.torch.cuda.stream(self.stream):
            while not stop.is_set():
                if n >= len(ended):
                    ended[n % len(ended)].synchronize()
                self.graph.replay()
                ended[n % len(ended)].record()
                n += 1
            self.stream.synchronize()
        counts[self] = n


def replay(graphs, seconds):
    """The mean time of a replay of each graph, in microseconds."""
    stop, counts = threading.Event(), {}
    threads = [threading.Thread(target=g.replay, args=(stop, counts)) for g in graphs]
    begin = time.perf_counter()
    for t in threads:
        t.start()
    time.sleep(seconds)
    stop.set()
    for t in threads:
        t.join()
    us = (time.perf_counter() - begin) * 1e6
    return [us / max(1, counts[g]) for g in graphs]


def record(torch, graphs, seconds):
    """The kernels of each graph by their starts: [start, time, name, grid, threads], in microseconds."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as recorded:
        replay(graphs, seconds)
    with tempfile.NamedTemporaryFile(suffix=".json") as f:
        recorded.export_chrome_trace(f.name)
        events = json.load(open(f.name, encoding="utf-8"))["traceEvents"]
    by_stream = collections.defaultdict(list)
    for e in events:
        if e.get("cat") == "kernel":
            by_stream[e["args"]["stream"]].append([e["ts"], e["dur"], e["name"][:60], e["args"]["grid"],
                                                   math.prod(e["args"]["block"])])
    kernels = [sorted(by_stream[s]) for s in sorted(by_stream)]
    if len(kernels) != len(graphs):
        raise Failed(f"kernels of {len(kernels)} streams were recorded, expected {len(graphs)}")
    return kernels


def measure(o):
    try:
        import torch
    except ImportError as e:
        raise Failed(f"{e.name} is not installed, expected it") from None
    if not torch.cuda.is_available():
        raise Failed("no GPU that torch can use, expected one")
    sys.path.insert(0, str(pathlib.Path(o.models).resolve().parent))  # for what it imports
    spec = importlib.util.spec_from_file_location("models", o.models)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        make = module.make
    except (OSError, ImportError, AttributeError) as e:
        raise Failed(f"{o.models}: {e}, expected a file with make(NAME)") from None
    gpu = torch.cuda.get_device_properties(0)
    result = {"experiment": "kernels_beside", "gpu": gpu.name, "sms": gpu.multi_processor_count,
              "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "torch": torch.__version__, "cuda": torch.version.cuda, "pairs": []}
    for names in o.pairs.split(","):
        a, b = (Graph(torch, make, name) for name in names.split(":"))
        replay([a], 0.2)
        result["pairs"].append({
            "graphs": [a.name, b.name], "alone_us": replay([a], 0.3) + replay([b], 0.3),
            "beside_us": replay([a, b], 0.6), "alone": record(torch, [a], o.seconds)[0],
            "beside": record(torch, [a, b], o.seconds)})
        with gzip.open(o.json, "wt", encoding="utf-8") if o.json.endswith(".gz") else \
                open(o.json, "w", encoding="utf-8") as f:
            json.dump(result, f)
    return [result]


def read(file):
    opened = gzip.open if file.endswith(".gz") else open
    try:
        with opened(file, "rt", encoding="utf-8") as f:
            result = json.load(f)
        if result["experiment"] != "kernels_beside":
            raise KeyError
        return result
    except (OSError, ValueError, KeyError, TypeError):
        raise Failed(f"{file}: expected what kernels_beside.py --json wrote") from None


def waits(kernels):
    """Of each kernel but the first: since the one before it ended."""
    return [k[0] - before[0] - before[1] for before, k in zip(kernels, kernels[1:])]


def table(results):
    print(f"{'':>40}  {'a replay, us':>16}  {'a kernel, us':>11}  {'its wait, us':>12}")
    for result in results:
        for pair in result["pairs"]:
            alone, both = pair["alone"], pair["beside"][0]
            usual = collections.defaultdict(list)  # by kernel
            for k in alone:
                usual[k[2], tuple(k[3])].append(k[1])
            longer = sorted(k[1] / statistics.median(usual[k[2], tuple(k[3])])
                            for k in both if (k[2], tuple(k[3])) in usual)
            if not longer:
                raise Failed(f"{' beside '.join(pair['graphs'])}: no kernel was recorded alone and beside another graph")
            print(f"{' beside '.join(pair['graphs']):>40}  {pair['alone_us'][0]:7.1f} {pair['beside_us'][0]:8.1f}"
                  f"  {statistics.mean(k[1] for k in alone):5.2f} {statistics.mean(k[1] for k in both):5.2f}"
                  f"  {statistics.mean(waits(alone)):5.2f} {statistics.mean(waits(both)):6.2f}"
                  f"  p50 {longer[len(longer) // 2]:.2f}, p90 {longer[len(longer) * 9 // 10]:.2f} times as long")


def tails(results, folders):
    known = {}
    for path in (path for folder in folders for path in sorted(pathlib.Path(folder).glob("*.json"))):
        try:
            for x in json.loads(path.read_text(encoding="utf-8"))["operations"]:
                if x.get("max_blocks_per_sm") and "name" in x:
                    known[x["name"][:60], math.prod(x["block"])] = x["max_blocks_per_sm"]
        except (OSError, ValueError, KeyError, TypeError):
            raise Failed(f"{path}: expected a profile") from None
    if not known:
        raise Failed(f"{' '.join(folders)}: no profile, expected folders of them")
    rows = []  # (blocks a microsecond, waves, tail over a block's time)
    for result in results:
        for pair in result["pairs"]:
            a, b = pair["beside"]
            starts = [k[0] for k in b]
            found = collections.defaultdict(list)
            for wait, k in zip(waits(a), a[1:]):
                i = bisect.bisect(starts, k[0]) - 1
                if wait < WAITED_US or i < 0 or not b[i][0] + INSIDE_US < k[0] < b[i][0] + b[i][1]:
                    continue
                found[b[i][2], tuple(b[i][3]), b[i][4]].append((b[i][0] + b[i][1] - k[0], b[i][1]))
            for (name, grid, threads), seen in found.items():
                waves = math.prod(grid) / (result["sms"] * known.get((name, threads), math.inf))
                if len(seen) < LEAST_TAILS or not waves > 1:
                    continue
                us = statistics.median(x[1] for x in seen)
                rows.append((math.prod(grid) / us, waves, statistics.median(x[0] for x in seen) / us * math.ceil(waves)))
    print("\n   waves of blocks    kernels  others start before the end by, of a block's time: p10  p50  p90")
    for name, part in [("1 to 3", [r[2] for r in rows if r[1] <= 3 and r[0] < 1000]),
                       ("more", [r[2] for r in rows if r[1] > 3 and r[0] < 1000]),
                       ("of 1000 blocks a us", [r[2] for r in rows if r[0] >= 1000])]:
        part.sort()
        if part:
            p10, p50, p90 = (part[min(len(part) - 1, len(part) * p // 100)] for p in (10, 50, 90))
            print(f"{name:>19} {len(part):8}  {p10:54.2f} {p50:4.2f} {p90:4.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help="FILE.py with make(NAME)")
    parser.add_argument("--pairs", default="", help="NAME:NAME,...")
    parser.add_argument("--seconds", type=float, default=0.06, help="of each record (default 0.06)")
    parser.add_argument("--json", help="file to write, again after each pair; also .gz")
    parser.add_argument("--read", nargs="+", metavar="FILE", help="print the table of these, also .gz")
    parser.add_argument("--profiles", nargs="+", metavar="DIR", help="of profiles, beside --read")
    o = parser.parse_args()
    if o.read is None and not (o.json and o.models and o.pairs):
        parser.error("expected --read, or --models, --pairs and --json")
    if any(len(names.split(":")) != 2 or not all(names.split(":")) for names in o.pairs.split(",") if o.read is None):
        parser.error("--pairs: expected NAME:NAME,...")
    if not 0 < o.seconds <= 10:
        parser.error("--seconds: expected up to 10")
    try:
        results = [read(file) for file in o.read] if o.read else measure(o)
        table(results)
        if o.profiles:
            tails(results, o.profiles)
    except Failed as e:
        print(f"kernels_beside: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
