#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A language model's decode steps beside prefills of other sequences, all captured.

The model is that of llm.py: 16 of Llama's layers, 2,048 wide, bf16, a static cache for each sequence.
Two experiments:

  beside  Decode steps are real-time requests with pauses between them, prefills are best-effort
          requests that are always pending, as in realtime.py: preempted by gsched, with stream
          priorities, on two streams, one at a time, and each alone. left_over and be_share are as there.
  floor   Decode steps follow one another without a pause, so prefills get only the share of the time
          that `floor` guarantees. For comparison: prefill in chunks of --chunk tokens, replayed by torch
          on one stream, each followed by some decode steps. The results are the time between tokens and
          the time of a prefill.

One process serves all ways, in turn; the program prints medians over turns, with minimum and maximum.
"""

import argparse
import faulthandler
import random
import sys
import threading
import time

import checkout # the package of this checkout
import gsched
import realtime
import workload

WAYS = ("rt_only", "be_only", "preempt", "streams_priority", "streams", "seq")
PARTS = ("beside", "floor")


def options():
    p = workload.Parser(description=__doc__,
                        formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--parts", default=",".join(PARTS), help="default: %(default)s")
    p.add_argument("--prefill", default="512,4096", metavar="TOKENS,...",
                   help="default: %(default)s")
    p.add_argument("--position", type=workload.COUNT, default=1023,
                   help="of the token that is decoded; default: %(default)s")
    p.add_argument("--cached", type=workload.COUNT, default=2048,
                   help="tokens that the decoding sequence's cache holds; default: %(default)s")
    p.add_argument("--layers", type=workload.COUNT, default=16, help="default: %(default)s")
    p.add_argument("--ways", default=",".join(WAYS), help="of the first part; default: all")
    p.add_argument("--think", type=workload.SOME, default=4.0, metavar="MS",
                   help="mean pause between decode steps in the first part; default: %(default)s")
    p.add_argument("--floors", default="0.1,0.2,0.3,0.4,0.5", help="default: %(default)s")
    p.add_argument("--chunk", type=workload.COUNT, default=512, help="tokens; default: %(default)s")
    p.add_argument("--steps", default="1,2,4,8", metavar="N,...",
                   help="decode steps behind each chunk; default: %(default)s")
    p.add_argument("--seconds", type=workload.SOME, default=1.5, help="a turn; default: %(default)s")
    p.add_argument("--turns", type=workload.COUNT, default=3, help="of each way; default: %(default)s")
    p.add_argument("--watchdog", type=workload.COUNT, default=5000, metavar="MS",
                   help="work that stands for so long has hung; default: %(default)s")
    p.add_argument("--seed", type=workload.FROM_0, default=1)
    p.add_argument("--gpu", type=workload.FROM_0, default=0)
    p.add_argument("--time-limit", type=workload.SOME, default=300.0, metavar="S",
                   help="turns that do not fit in are left out; default: %(default)s")
    p.add_argument("--json", metavar="FILE", type=workload.writable)
    a = p.parse_args()
    try:
        a.parts = some_of(a.parts, PARTS, "--parts")
        a.ways = some_of(a.ways, WAYS, "--ways")
        a.prefill = numbers(a.prefill, int, 1, 1 << 17, "--prefill")
        a.floors = numbers(a.floors, float, 0.0, 0.95, "--floors")
        a.steps = numbers(a.steps, int, 1, 10000, "--steps")
        if a.position >= a.cached:
            raise ValueError(f"--position: {a.position}, expected less than --cached {a.cached}")
    except ValueError as e:
        p.error(str(e))
    a.floor, a.side = 0.0, [0]
    return a


def some_of(text, known, option):
    names = text.split(",")
    unknown = [n for n in names if n not in known]
    if unknown:
        raise ValueError(f'{option}: "{unknown[0]}", expected some of {", ".join(known)}')
    return names


def numbers(text, kind, least, most, option):
    try:
        values = [kind(n) for n in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(least <= v <= most for v in values):
        raise ValueError(f'{option}: "{text}", expected numbers from {least} to {most}')
    return values


class Subjects:
    """The captured graphs: a decode step, prefills of each length, and the same in chunks."""

    def __init__(self, a):
        import torch

        import llm

        self._torch, self._llm, self._a = torch, llm, a
        self._random = torch.Generator().manual_seed(a.seed)
        self._llama = llm.Llama(a.seed, a.gpu, a.layers)
        cache = llm.Cache(self._llama, a.cached, a.seed)
        self.decode = self._captured("decode", llm.Decode(self._llama, cache),
                                     llm.decode_inputs(a.position, self._random))
        self.prefills = {n: self._prefill(f"prefill {n}", n, 0, self._cache(n)) for n in a.prefill}

    def chunks(self, tokens):
        """Graphs of the parts of a prefill, in order, on one cache."""
        cache, firsts = self._cache(tokens), range(0, tokens, self._a.chunk)
        return [self._prefill(f"chunk {i}", min(self._a.chunk, tokens - first), first, cache)
                for i, first in enumerate(firsts)]

    def _cache(self, tokens):
        return self._llm.Cache(self._llama, tokens, self._a.seed + tokens)

    def _prefill(self, name, count, first, cache):
        return self._captured(name, self._llm.Prefill(self._llama, cache, count, first),
                              self._llm.prefill_inputs(count, self._random))

    def _captured(self, name, module, example):
        return gsched.capture(module, example, instances=1, name=name, gpu=self._a.gpu)


def spread(values):
    """Median, minimum and maximum of one figure over turns."""
    s = sorted(values)
    return {"median": s[len(s) // 2], "least": s[0], "most": s[-1], "turns": len(s)}


def spreads(turns):
    """The spread of each figure, over the turns that have it: on a busy host no request may end in one."""
    return {key: spread([t[key] for t in turns if key in t]) for key in dict.fromkeys(k for t in turns for k in t)}


# Beside --------------------------------------------------------------------------------------------

def beside(a, decode, prefill, until):
    """{way: facts} of realtime.py, with the figures of each turn."""
    ways = [realtime.Way(a, name, decode, prefill) for name in a.ways]
    for way in ways:
        way.warm_up()
    per_turn = {way.name: [] for way in ways}
    for turn in range(a.turns):
        if time.monotonic() > until and turn > 0:
            break
        for way in ways if turn % 2 else ways[::-1]:
            before = len(way.latencies)
            way.turn(a.seconds, a.think, random.Random(a.seed * 1000 + turn))
            new = way.latencies[before:]
            per_turn[way.name].append({"be_per_s": way.done[-1] / way.spans[-1],
                                       **({"mean": sum(new) / len(new), "p99": workload.percentile(new, 99)}
                                          if new else {})})
    facts = realtime.with_ratios({way.name: way.facts() for way in ways})
    for way in ways:
        way.server.close()
        facts[way.name]["turns"] = spreads(per_turn[way.name])
    return facts


# Floor ---------------------------------------------------------------------------------------------

class Floored:
    """Decode steps back to back beside prefills, by gsched with a floor for these."""

    def __init__(self, a, floor, decode, prefill):
        self.name, self._a = f"floor {floor:g}", a
        self._server = gsched.Server(policy="fifo", gpu=a.gpu, watchdog=a.watchdog / 1e3, lanes=1,
                                     real_time_lanes=1, floor=floor, quantum=2e-3)
        self._clients = [self._server.add_client() for _ in range(2)]
        self._decode = self._server.add_model(decode)
        self._prefill = self._server.add_model(prefill)

    def turn(self, seconds):
        """(times between tokens, times of prefills), in us."""
        end, failures, prefills = time.monotonic() + seconds, [], []

        def work():
            try:
                while time.monotonic() < end:
                    future = self._server.submit(self._prefill, None, self._clients[1], outputs=())
                    future.result(60)
                    prefills.append(future.latency * 1e6)
            except Exception as e: # raised by the thread that joins this one
                failures.append(e)

        other, ends = threading.Thread(target=work), []
        other.start()
        while time.monotonic() < end and not failures:
            future = self._server.submit(self._decode, None, self._clients[0], outputs=(),
                                         real_time=True)
            future.result(60)
            ends.append(future.report["end"])
        other.join()
        if failures:
            raise failures[0]
        return [(b - a) * 1e6 for a, b in zip(ends, ends[1:])], prefills

    def close(self):
        self._server.close()


class Chunked:
    """Chunks of a prefill and decode steps in turn, by torch on one stream."""

    def __init__(self, torch, gpu, steps, decode, chunks):
        self.name, self._torch, self._steps = f"chunked {steps}", torch, steps
        self._stream = torch.cuda.Stream(gpu)
        self._decode = decode.instances[0].graph
        self._chunks = [c.instances[0].graph for c in chunks]
        for graph in self._chunks + [self._decode]:
            graph.instantiate()

    def turn(self, seconds):
        end, between, prefills, last = time.monotonic() + seconds, [], [], None
        with self._torch.cuda.stream(self._stream):
            while time.monotonic() < end:
                began = time.monotonic_ns()
                for chunk in self._chunks:
                    chunk.replay()
                    for _ in range(self._steps):
                        self._decode.replay()
                        self._stream.synchronize() # a token is there
                        now = time.monotonic_ns()
                        if last is not None:
                            between.append((now - last) / 1e3)
                        last = now
                prefills.append((last - began) / 1e3)
        return between, prefills

    def close(self):
        pass


def floors(a, torch, subjects, tokens, until):
    """{way: figures}: the time between tokens and that of a prefill."""
    ways = [Floored(a, f, subjects.decode, subjects.prefills[tokens]) for f in a.floors]
    chunks = subjects.chunks(tokens)
    ways += [Chunked(torch, a.gpu, n, subjects.decode, chunks) for n in a.steps]
    for way in ways:
        way.turn(0.05)
    seen = {way.name: [] for way in ways}
    for turn in range(a.turns):
        if time.monotonic() > until and turn > 0:
            break
        for way in ways if turn % 2 else ways[::-1]:
            between, prefills = way.turn(a.seconds)
            seen[way.name].append({
                "between_p50": workload.percentile(between, 50), "between_p99": workload.percentile(between, 99),
                "between_max": workload.percentile(between, 100), "tokens_per_s": len(between) / a.seconds,
                "prefill_p50": workload.percentile(prefills, 50), "prefills": len(prefills)})
    for way in ways:
        way.close()
    return {name: {key: spread([t[key] for t in turns]) for key in turns[0]}
            for name, turns in seen.items()}


# Report --------------------------------------------------------------------------------------------

def print_beside(tokens, facts):
    print(f"\ndecode beside prefills of {tokens} tokens")
    print(f"{'way':17} steps    mean us      p99   over alone     p99 over   prefills/s   of what is "
          "left", flush=True)
    for name, f in facts.items():
        row = f"{name:17}"
        if "rt" in f:
            rt = f["rt"]
            row += (f" {rt['requests']:5} {rt['mean']:10.1f} {rt['p99']:8.1f}"
                    f" {rt.get('slowdown', 0):12.3f} {rt.get('p99_ratio', 0):12.3f}")
        else:
            row += " " * 51
        row += f" {f['be_per_s']:12.1f}"
        print(row + (f" {f['be_share']:17.3f}" if "be_share" in f else ""), flush=True)


def print_floors(tokens, figures):
    print(f"\ndecode back to back beside prefills of {tokens} tokens: medians (least to most)")
    print(f"{'way':12} tokens/s   between p50 us          p99                     prefill ms",
          flush=True)
    for name, f in figures.items():
        p99, prefill = f["between_p99"], f["prefill_p50"]
        print(f"{name:12} {f['tokens_per_s']['median']:8.0f} {f['between_p50']['median']:16.1f}"
              f" {p99['median']:12.1f} ({p99['least']:.0f}-{p99['most']:.0f})"
              f" {prefill['median'] / 1e3:14.2f} ({prefill['least'] / 1e3:.2f}-"
              f"{prefill['most'] / 1e3:.2f})", flush=True)


def main():
    a = options()
    faulthandler.dump_traceback_later(a.time_limit + 180, exit=True)
    until = time.monotonic() + a.time_limit
    torch = workload.import_torch("prefill_decode")
    results = {"beside": {}, "floor": {}}
    try:
        gsched.load_library()
        if not torch.cuda.is_available():
            raise gsched.GschedError("torch sees no GPU, expected one")
        torch.cuda.init()
        subjects = Subjects(a)
        results.update(device=torch.cuda.get_device_name(a.gpu), torch=torch.__version__,
                    layers=a.layers, position=a.position, cached=a.cached, think_ms=a.think,
                    seconds=a.seconds, chunk=a.chunk, seed=a.seed)
        for part in a.parts:
            for tokens in a.prefill:
                if time.monotonic() > until:
                    print(f"{part} {tokens}: left out, --time-limit {a.time_limit:g} is over")
                    continue
                if part == "beside":
                    results[part][tokens] = beside(a, subjects.decode, subjects.prefills[tokens], until)
                    print_beside(tokens, results[part][tokens])
                else:
                    results[part][tokens] = floors(a, torch, subjects, tokens, until)
                    print_floors(tokens, results[part][tokens])
                if a.json and not workload.save(a.json, results):
                    return 1
    except (gsched.GschedError, RuntimeError, AssertionError) as e:
        print(f"prefill_decode: {str(e).splitlines()[0]}", file=sys.stderr)
        return 1
    return 0 if all(len(results[part]) == len(a.prefill) for part in a.parts) else 1


if __name__ == "__main__":
    sys.exit(main())
