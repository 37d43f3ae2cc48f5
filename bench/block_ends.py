#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far apart the blocks of PyTorch's kernels end: when each SM of a GPU is done with a kernel. Behind
the kernel waits another one with a block for each SM, and each of its blocks needs a whole SM.

    block_ends.py --models net.py:small,large --batches 1,8 --json ends.json
    block_ends.py --read ends.json        # the table, of earlier runs
    block_ends.py --read ends.json --profiles DIR # beside what counters say

Models are named as for gsched.measure. Of each kernel the JSON has its blocks, how many of them an SM
holds, its time, and when each SM was done with it, in microseconds since the kernel could start; all are
medians. "known" are kernels of 50 us whose blocks take up to 10 us more, evenly, as a check. The table
leaves out kernels of less than 4 us and SMs without a block; the mean SM is that of all kernels,
weighted by their time. With profiles it is of kernels of one wave with counters: by these the SMs have no
warps for a part of the kernel's time under the profiler, of which BEFORE_US are before the first block.
"""
import argparse
import ctypes
import datetime
import gzip
import json
import math
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "build" / "release" / "bench" / "libgsched.gpu.block_ends.so"
SHORTEST_US = 4
BEFORE_US = 0.85  # as ends_early in include/gsched/interference/demand.hpp
WAVES = (0, 0.25, 0.999, 1, 2, 4, 8, 16, float("inf"))


class Failed(Exception):
    """With one line."""


class Row(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * 96), ("blocks", ctypes.c_uint64), ("threads", ctypes.c_uint32),
                ("per_sm", ctypes.c_uint32), ("operation", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
                ("alone_us", ctypes.c_double), ("ends_us", ctypes.POINTER(ctypes.c_double))]


def rows_of(call, sms, most=4096):
    """What `call` writes to rows, as dictionaries."""
    times = [(ctypes.c_double * sms)() for _ in range(most)]
    rows = (Row * most)()
    for row, ends in zip(rows, times):
        row.ends_us = ctypes.cast(ends, ctypes.POINTER(ctypes.c_double))
    n = call(rows, most)
    if n < 0:
        raise Failed("no ends were measured, expected those of all kernels")
    return [{"operation": r.operation, "name": r.name.decode(), "blocks": r.blocks, "threads": r.threads,
             "per_sm": r.per_sm, "alone_us": round(r.alone_us, 3), "ends_us": [round(x, 3) for x in ends]}
            for r, ends in zip(rows[:n], times)]


def measure(o):
    try:
        import torch
        from gsched import measure as modules_of
    except ImportError as e:
        raise Failed(f"{e.name} is not installed, expected it") from None
    try:
        ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
        library = ctypes.CDLL(o.library)
    except OSError as e:
        raise Failed(f"{e}, expected a GPU's driver and the target gsched.gpu.block_ends, built") from None
    for f in (library.block_ends, library.block_ends_known):
        f.restype = ctypes.c_int64
    gpu = torch.cuda.get_device_properties(0)
    sms = gpu.multi_processor_count
    result = {"experiment": "block_ends", "gpu": gpu.name, "sms": sms,
              "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "repeats": o.repeats, "graphs": []}

    def add(name, call):
        rows = rows_of(lambda rows, most: call(rows, ctypes.c_uint64(most), ctypes.c_uint32(sms)), sms)
        result["graphs"].append({"graph": name, "kernels": rows})
        with open(o.json, "w", encoding="utf-8") as f:
            json.dump(result, f)

    repeats = ctypes.c_uint32(o.repeats)
    add("known", lambda *rest: library.block_ends_known(repeats, *rest))
    _, modules = modules_of.models_of(o.models, modules_of.counts_of("--batches", o.batches))
    for path, name, batch in modules:
        made, _ = modules_of.capture_all([(path, name, batch)], 1, 0)
        for one in modules_of.as_structs(made):
            graph = ctypes.c_void_p(one.graph)
            add(f"{name}_b{batch}", lambda *rest, g=graph: library.block_ends(g, repeats, *rest))
    return [result]


def read(file):
    opened = gzip.open if file.endswith(".gz") else open
    try:
        with opened(file, "rt", encoding="utf-8") as f:
            result = json.load(f)
        if result["experiment"] != "block_ends":
            raise KeyError
        return result
    except (OSError, ValueError, KeyError, TypeError):
        raise Failed(f"{file}: expected what block_ends.py --json wrote") from None


def early(kernel, sms):
    """(time, how much earlier than the last the SMs with a block are done, in the mean), microseconds."""
    # An SM without a block is done before those with one.
    ends = sorted(kernel["ends_us"])[sms - min(sms, kernel["blocks"]):]
    free = min(kernel["ends_us"]) if kernel["blocks"] < sms else 0
    return ends[-1] - free, ends[-1] - sum(ends) / len(ends)


def table(results):
    print(f"{'waves':>12}  kernels  done before the end: of its time  of a wave")
    for above, most in (*zip(WAVES, WAVES[1:]), (0, 1), (1, float("inf"))):
        all_us = early_us = wave_us = 0.0
        n = 0
        for result in results:
            for graph in result["graphs"]:
                for k in graph["kernels"] if graph["graph"] != "known" else ():
                    waves = k["blocks"] / (result["sms"] * max(1, k["per_sm"]))
                    if not above < waves <= most or k["alone_us"] < SHORTEST_US:
                        continue
                    us, before = early(k, result["sms"])
                    n, all_us, early_us = n + 1, all_us + us, early_us + before
                    wave_us += us / max(1, waves)
        if n:
            name = f"{above:g} to {most:g}" if most < float("inf") else f"above {above:g}"
            print(f"{name:>12}  {n:7}  {100 * early_us / all_us:30.1f}%  {early_us / wave_us:9.2f}")


def counters_of(folders):
    """Of each graph's operations: the blocks and counters, or None."""
    found = {}
    for path in (path for folder in folders for path in sorted(pathlib.Path(folder).glob("*.json"))):
        try:
            profile = json.loads(path.read_text(encoding="utf-8"))
            found[f"{profile['model']}_b{profile['batch']}"] = [
                (math.prod(x["grid"]), x["counters"]) if "counters" in x else None for x in profile["operations"]]
        except (OSError, ValueError, KeyError, TypeError):
            raise Failed(f"{path}: expected a profile") from None
    if not found:
        raise Failed(f"{' '.join(folders)}: no profile, expected folders of them")
    return found


def beside_counters(results, folders):
    profiles = counters_of(folders)
    rows = []  # (microseconds, done early as measured, without warps by the counters in microseconds, and their time)
    for result in results:
        for graph in result["graphs"]:
            known = profiles.get(graph["graph"], [])
            for k in graph["kernels"]:
                counted = known[k["operation"]] if k["operation"] < len(known) else None
                if counted is None or counted[0] != k["blocks"] or k["alone_us"] < SHORTEST_US or \
                        k["blocks"] > result["sms"] * max(1, k["per_sm"]):
                    continue
                us, before = early(k, result["sms"])
                c = counted[1]
                idle = 1 - c["sm_active"] / min(1, k["blocks"] / result["sms"])
                rows.append((k["alone_us"], before / us, idle * c["us"], c["us"]))
    print("          us  kernels  done early  by counters  correlation  without warps and not early, us")
    for least, most in ((4, 8), (8, 16), (16, 40), (40, math.inf), (4, math.inf)):
        part = [r for r in rows if least <= r[0] < most]
        if len(part) < 3:
            continue
        measured, counted = [r[1] for r in part], [(r[2] - BEFORE_US) / r[3] for r in part]
        rest = statistics.mean(r[2] - r[1] * r[3] for r in part)
        name = f"{least} to {most}" if most < math.inf else f"above {least}"
        same = len(set(measured)) == 1 or len(set(counted)) == 1
        correlation = "-" if same else f"{statistics.correlation(measured, counted):.2f}"
        print(f"{name:>12}  {len(part):7}  {100 * statistics.mean(measured):9.1f}%  {100 * statistics.mean(counted):10.1f}%"
              f"  {correlation:>11}  {rest:33.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="", help="FILE.py:NAME,NAME,...")
    parser.add_argument("--batches", default="1", help="of names without one (default 1)")
    parser.add_argument("--repeats", type=int, default=15, help="runs of each kernel (default 15)")
    parser.add_argument("--library", default=str(LIBRARY), help="of the target gsched.gpu.block_ends")
    parser.add_argument("--json", help="file to write, again after each graph")
    parser.add_argument("--profiles", nargs="+", metavar="DIR", help="of profiles with counters, beside --read")
    parser.add_argument("--read", nargs="+", metavar="FILE", help="print the table of these, also .gz")
    o = parser.parse_args()
    if o.read is None and not o.json:
        parser.error("expected --json or --read")
    if o.repeats < 1:
        parser.error("--repeats: expected 1 or more")
    try:
        results = [read(file) for file in o.read] if o.read else measure(o)
        if o.profiles:
            beside_counters(results, o.profiles)
        else:
            table(results)
    except Failed as e:
        print(f"block_ends: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
