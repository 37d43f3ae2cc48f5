#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of cutting a model into segments, compared with one replay of its whole graph.

For each model two servers of one process have the same captured graph: one launches it whole, with a
notification at the end; the other submits segments of about --quantum with two in flight. Requests
alternate between them, one at a time and with nothing else on the GPU. The program compares the host
time from the first launch to the last notification, without copies of inputs and outputs.
"""

import argparse
import faulthandler
import sys
import time

import checkout # the package of this checkout
import gsched
import models
import ways
import workload

MEDIAN, WORST = 1.012, 1.025  # ratios, for --strict


def options():
    p = workload.Parser(description=__doc__,
                        formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", default=",".join(models.TWENTY),
                   help="default: the twenty of models.TWENTY")
    p.add_argument("--repetitions", type=workload.COUNT, default=300, help="default: %(default)s")
    p.add_argument("--quantum", type=workload.SOME, default=100.0, metavar="US")
    p.add_argument("--in-flight", type=workload.COUNT, default=2,
                   help="segments; default: %(default)s")
    p.add_argument("--seed", type=workload.FROM_0, default=1)
    p.add_argument("--gpu", type=workload.FROM_0, default=0)
    p.add_argument("--time-limit", type=workload.SOME, default=540.0, metavar="S",
                   help="models that do not fit in are left out; default: %(default)s")
    p.add_argument("--strict", action="store_true",
                   help=f"exit with 1 if the median is above {MEDIAN} or the worst above {WORST}")
    p.add_argument("--json", metavar="FILE", type=workload.writable)
    a = p.parse_args()
    try:
        a.models = [models.known(m) for m in a.models.split(",")]
    except ValueError as e:
        p.error(str(e))
    return a


def compare(a, whole, cut, name):
    """Interleaved requests to both servers, in alternating order."""
    captured = gsched.capture(*models.make(name, a.seed), instances=1, name=name, gpu=a.gpu)
    pair = [(server, server.add_model(captured), []) for server in (whole, cut)]
    segments = set()
    for i in range(a.repetitions + 10):
        for server, model, took in pair if i % 2 else pair[::-1]:
            future = server.submit(model, None, outputs=())
            future.result(60)
            report = future.report
            if i >= 10:
                took.append((report["end"] - report["start"]) * 1e6)
            if server is cut:
                segments.add(report["segments"])
    facts = workload.with_units(pair[1][1].facts())
    for _, model, _ in pair:
        model.remove() # frees its memory before the next model
    row = {"operations": facts["operations"], "segments": max(segments),
           "graph_replay_us": facts["graph_replay_us"], "expected_us": facts["expected_us"],
           "device_bytes": facts["device_bytes"], "build_ms": facts["build_ms"]}
    for key, (_, _, took) in zip(("whole_us", "segments_us"), pair):
        row[key] = {"p50": workload.percentile(took, 50), "p10": workload.percentile(took, 10),
                    "p90": workload.percentile(took, 90), "n": len(took)}
    row["ratio"] = row["segments_us"]["p50"] / row["whole_us"]["p50"]
    return row


def main():
    a = options()
    faulthandler.dump_traceback_later(a.time_limit + 120, exit=True)
    began = time.monotonic()
    torch = workload.import_torch("segments")
    try:
        gsched.load_library()
        torch.cuda.init()
        reference = ways.Reference(torch, a.gpu)
        before, results = reference.us(), {}
        with gsched.Server(policy="single", gpu=a.gpu) as whole, \
                gsched.Server(policy="fifo", gpu=a.gpu, quantum=a.quantum / 1e6,
                              most_quantum=a.quantum / 1e6, segments_per_job=a.in_flight) as cut:
            print(f"{'model':14} operations  segments  whole us  segments us   ratio", flush=True)
            for name in a.models:
                if time.monotonic() - began > a.time_limit:
                    print(f"{name}: left out, --time-limit {a.time_limit:g} is over", flush=True)
                    continue
                r = results[name] = compare(a, whole, cut, name)
                print(f"{name:14} {r['operations']:10}  {r['segments']:8}  "
                      f"{r['whole_us']['p50']:8.1f}  {r['segments_us']['p50']:11.1f}  "
                      f"{r['ratio']:6.4f}", flush=True)
            late = whole.statistics()["built_late"] + cut.statistics()["built_late"]
        after = reference.us()
    except (gsched.GschedError, RuntimeError, AssertionError) as e:
        print(f"segments: {str(e).splitlines()[0]}", file=sys.stderr)
        return 1
    ratios = sorted(r["ratio"] for r in results.values())
    if not ratios:
        return 1
    half = len(ratios) // 2
    median = ratios[half] if len(ratios) % 2 else (ratios[half - 1] + ratios[half]) / 2
    print(f"median {median:.4f}, worst {ratios[-1]:.4f}; reference graph {before:.1f} us before, "
          f"{after:.1f} after; {late} graphs built late", flush=True)
    complete = len(results) == len(a.models)
    if a.json:
        complete = workload.save(a.json, {
            "device": torch.cuda.get_device_name(a.gpu), "torch": torch.__version__,
            "quantum_us": a.quantum, "in_flight": a.in_flight, "median_ratio": median,
            "worst_ratio": ratios[-1], "built_late": late,
            "reference_us": {"before": before, "after": after},
            "models": results}) and complete
    return 1 if not complete or (a.strict and (median > MEDIAN or ratios[-1] > WORST)) else 0


if __name__ == "__main__":
    sys.exit(main())
