#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch models on partitions of a GPU, with plans that follow the rates.

Each model is captured for each batch size, with several instances, so that several partitions can run
it at the same time. Then the models are served as by the program serve_partitions: --run has its
options, and several --run follow one another with the same graphs. Before that each graph is replayed
on the whole GPU, and its time is printed beside that of the latency table, which plans use; not where
runs start together with other processes (--start-with).

    serve_partitions.py --run "--rates resnet50=300,vgg16=200 --seconds 20" \\
        --run "--rates resnet50=300,vgg16=200 --seconds 20 --planner sbp"

Models of other files are named as for gsched.measure, which makes their tables:

    serve_partitions.py --models net.py:small,large --batches 1 --table mine/latency_batch_partition.csv \\
        --run "--rates small=300,large=20 --solo mine/solo_metrics.csv --learn-interference"

The library is the file that SERVE_PARTITIONS_LIBRARY names, or libserve_partitions_graphs.so beside
this file, or in build/release/bin of the checkout that this file is in.
"""

import argparse
import contextlib
import csv
import ctypes
import faulthandler
import json
import os
import pathlib
import shlex
import sys
import time

import checkout # the package of this checkout
import gsched
import gsched.measure
import models
import workload

# Partitions whose streams share a hardware queue block each other; the driver reads this once.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE.parents[1] / "tools" / "data" / "latency_batch_partition.csv"
NAME = "libserve_partitions_graphs.so"


class Buffer(ctypes.Structure):
    _fields_ = [("device", ctypes.c_void_p), ("bytes", ctypes.c_uint64)]


class Graph(ctypes.Structure):
    _fields_ = [("model", ctypes.c_char_p), ("graph", ctypes.c_void_p), ("gpu", ctypes.c_uint32),
                ("batch", ctypes.c_uint32), ("inputs", ctypes.POINTER(Buffer)),
                ("outputs", ctypes.POINTER(Buffer)), ("inputs_count", ctypes.c_uint32),
                ("outputs_count", ctypes.c_uint32)]


def buffers(tensors):
    """Memory of a graph, for --data."""
    return (Buffer * len(tensors))(*[Buffer(x.data_ptr(), x.numel() * x.element_size()) for x in tensors])


def graph_of(one, name, gpu, batch):
    """An instance of a captured model, for the library."""
    inputs, outputs = buffers(one.inputs), buffers(one.outputs)
    return Graph(name.encode(), one.graph.raw_cuda_graph(), gpu, batch, inputs, outputs, len(inputs),
                 len(outputs))


def library():
    named = os.environ.get("SERVE_PARTITIONS_LIBRARY")
    files = [pathlib.Path(named)] if named else [
        HERE / NAME, HERE.parents[1] / "build" / "release" / "bin" / NAME]
    for file in files:
        if file.is_file():
            return ctypes.CDLL(str(file))
    raise gsched.GschedError(f"{NAME}: not found, expected beside {pathlib.Path(__file__).name}, in "
                             "build/release/bin, or where SERVE_PARTITIONS_LIBRARY says")


def options():
    p = workload.Parser(description=__doc__,
                        formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--run", action="append", required=True, metavar="OPTIONS",
                   help="of serve_partitions, without --device, --batches and --table; it plans "
                        "with the interference law that ships, unless it says otherwise")
    p.add_argument("--models", default="lenet,googlenet,resnet50,ssdlite_mobilenet,vgg16",
                   help="to capture, or FILE.py:NAME,NAME,...; default: %(default)s")
    p.add_argument("--batches", default="1,2,4,8,16,32",
                   help="of which each model is captured; default: %(default)s")
    p.add_argument("--instances", type=workload.COUNT, default=3,
                   help="of each graph; a plan needs as many as it has partitions of a model, and "
                        "twice that to go over to another; default: %(default)s")
    p.add_argument("--table", default=str(TABLE), metavar="FILE")
    p.add_argument("--gpu", type=workload.FROM_0, default=0, help="the first; default: 0")
    p.add_argument("--gpus", type=workload.COUNT, default=1, help="default: 1")
    p.add_argument("--seed", type=workload.FROM_0, default=1)
    p.add_argument("--time-limit", type=workload.SOME, default=600.0, metavar="S",
                   help="runs that would begin later are left out; default: %(default)s")
    p.add_argument("--json", metavar="FILE", type=workload.writable)
    a = p.parse_args()
    try:
        a.batches = [int(b) for b in a.batches.split(",")]
        a.modules = modules_of(a)
        if a.batches != sorted(set(a.batches)) or a.batches[0] < 1:
            raise ValueError(f"batches {a.batches}, expected some that rise from 1 or more")
        with open(a.table, newline="") as f:
            rows = list(csv.DictReader(f))
        a.rows = {(r["model"], int(r["batch"]), int(r["sms"])): float(r["latency_us"])
                  for r in rows}
    except (ValueError, OSError, KeyError, gsched.measure.UsageError) as e:
        p.error(str(e))
    return a


def modules_of(a):
    """[(file, name, batch)] of what is captured; the file is None for those of models.py."""
    if ".py:" not in a.models:
        return [(None, models.known(m), b) for m in a.models.split(",") for b in a.batches]
    _, modules = gsched.measure.models_of(a.models, a.batches)
    return modules


def replay_us(torch, captured, gpu, times=15):
    """The median of one graph's replays, alone on the whole GPU."""
    with torch.cuda.device(gpu):
        took = []
        for _ in range(times):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            begin.record()
            captured.instances[0].graph.replay()
            end.record()
            torch.cuda.synchronize()
            took.append(begin.elapsed_time(end) * 1e3)
        return sorted(took)[len(took) // 2]


def capture_all(torch, a):
    """[(captured, model, gpu, batch)]."""
    made = []
    for gpu in range(a.gpu, a.gpu + a.gpus):
        module, last, files = None, None, {}
        for file, name, batch in a.modules:
            if file is not None:
                module, example = gsched.measure.make(files, file, name, batch)
            else:
                if name != last: # all batches have the same weights
                    module, last = models.make(name, a.seed)[0], name
                example = models.draw(f"{name}_b{batch}", torch.Generator().manual_seed(a.seed))
            with gsched.measure.in_one_line(f"{file or 'models.py'}: {name}({batch})",
                                            "a module that can be captured"):
                captured = gsched.capture(module, example, instances=a.instances, name=name, gpu=gpu)
            made.append((captured, name, gpu - a.gpu, batch))
    return made


@contextlib.contextmanager
def stage(what):
    began = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)


def beside_table(torch, a, made):
    """Times of the graphs on the whole GPU, over those of the table."""
    most = max(sms for _, _, sms in a.rows)
    report = []
    for captured, name, gpu, batch in made:
        if gpu > 0 or (name, batch, most) not in a.rows:
            continue
        us = replay_us(torch, captured, a.gpu)
        report.append({"model": name, "batch": batch, "us": us, "table_us": a.rows[name, batch, most],
                     "ratio": us / a.rows[name, batch, most]})
    worst = max(report, key=lambda s: abs(s["ratio"] - 1), default=None)
    if worst:
        print(f"{len(report)} graphs on all SMs beside the table: at most {worst['ratio']:.2f} times "
              f"it, {worst['model']} in batches of {worst['batch']}\n")
    return report


def without_plans(words):
    """Whether a run's planner makes no partitions, so that options of plans are refused."""
    named = [w.removeprefix("--planner=") for w in words if w.startswith("--planner=")]
    named += [after for w, after in zip(words, words[1:]) if w == "--planner"]
    return bool(named) and named[-1] in ("whole", "streams", "priorities")


def serve(a, entry, graphs, run):
    words = ["serve_partitions", *shlex.split(run), "--device", f"cuda:{a.gpu}", "--batches",
             ",".join(map(str, a.batches)), "--table", a.table]
    if "--gpus" not in words:
        words += ["--gpus", str(a.gpus)]
    if "--plan-interference" not in words and not without_plans(words):
        words += ["--plan-interference", "h200"]
    print(f"serve_partitions {run}", flush=True)
    argv = (ctypes.c_char_p * len(words))(*(w.encode() for w in words))
    code = entry(len(words), argv, graphs, len(graphs))
    print(flush=True)
    return code


def main():
    a = options()
    faulthandler.dump_traceback_later(a.time_limit + 120, exit=True)
    began = time.monotonic()
    torch = workload.import_torch("serve_partitions")
    try:
        entry = library().serve_partitions_graphs
        entry.restype = ctypes.c_int
        with stage("capture"):
            made = capture_all(torch, a)
        is_alone = not any("--start-with" in run for run in a.run)
        report = beside_table(torch, a, made) if is_alone else []
        for gpu in range(a.gpu, a.gpu + a.gpus):
            gsched.leave_slow_side(gpu)
    except (gsched.GschedError, RuntimeError, ValueError, OSError) as e:
        print(f"serve_partitions: {str(e).splitlines()[0]}", file=sys.stderr)
        return 1
    all_of_them = [graph_of(one, name, gpu, batch)
                   for captured, name, gpu, batch in made for one in captured.instances]
    graphs = (Graph * len(all_of_them))(*all_of_them)
    codes = []
    for run in a.run:
        if time.monotonic() - began > a.time_limit:
            print(f"left out, as the time is over: {run}", file=sys.stderr)
            codes.append(1)
            continue
        codes.append(serve(a, entry, graphs, run))
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"gpu": torch.cuda.get_device_name(a.gpu), "torch": torch.__version__,
                       "batches": a.batches, "instances": a.instances, "beside_table": report,
                       "runs": [{"options": r, "exit": c} for r, c in zip(a.run, codes)]}, f,
                      indent=1)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
