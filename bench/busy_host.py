#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What serve_partitions learns on a host that is busy with something else: the same run with the host to
itself, and beside busy loops on every core. Batches take 1.6 times as long as the plans know. What the
server's thread adds, as it does not get its core, is not the GPU's.

  bench/busy_host.py                                     five models on a GPU
  bench/busy_host.py --serve build/release/bin/serve_partitions --serve OTHER  two builds beside each other
"""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODELS = ["lenet", "googlenet", "resnet50", "ssdlite_mobilenet", "vgg16"]


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--serve", action="append", metavar="PROGRAM",
                   help="serve_partitions of a build; may be given again; default: that of build/release")
    p.add_argument("--device", default="cuda", choices=["cuda", "sim"])
    p.add_argument("--rate", type=float, default=150, help="of each model, requests/s (default: %(default)s)")
    p.add_argument("--seconds", type=float, default=50, help="of a run (default: %(default)s)")
    p.add_argument("--loops", type=int, default=2, help="busy loops for each core (default: %(default)s)")
    p.add_argument("--rounds", type=int, default=1, help="of all runs, interleaved (default: %(default)s)")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the figures")
    a = p.parse_args()
    a.serve = a.serve or [str(ROOT / "build/release/bin/serve_partitions")]
    for program in a.serve:
        if not os.access(program, os.X_OK):
            p.error(f"--serve: no program {program}")
    for name in ("rate", "seconds", "loops", "rounds"):
        if getattr(a, name) <= 0:
            p.error(f"--{name}: {getattr(a, name)}, expected above 0")
    return a


def run(a, program, report):
    command = [program, "--device", a.device, "--rates", ",".join(f"{m}={a.rate:g}" for m in MODELS), "--slo",
               "lenet=5", "--period", "10", "--seconds", f"{a.seconds:g}", "--true-slowdown", "1.6",
               "--table", str(ROOT / "tools/data/latency_batch_partition.csv"), "--json", str(report)]
    command += ["--join-last"] if a.device == "cuda" else ["--gpus", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=a.seconds + 120,
                           env={**os.environ, "CUDA_DEVICE_MAX_CONNECTIONS": "32"})
    if ended.returncode != 0:
        sys.exit(f"busy_host: {(ended.stderr.strip() or ended.stdout.strip()).splitlines()[-1]}")
    return json.loads(report.read_text())


def row_of(program, busy, said):
    last = said["periods"][-1].get("corrections", {})
    return {"serve": os.path.relpath(program, ROOT) if pathlib.Path(program).is_relative_to(ROOT) else program,
            "busy": busy, "arrived": said["all"]["arrived"],
            "violations": said["all"]["violations"],
            "by_period": [round(p["violated"] / max(p["ended"], 1), 4) for p in said["periods"]],
            "corrections": last,
            "host_part": {m["model"]: round(m["batch_host_us"] / m["batch_took_us"], 4)
                          for m in said["models"] if "batch_host_us" in m and m["batch_took_us"] > 0}}


def main():
    a = options()
    rows = []
    with tempfile.TemporaryDirectory() as work:
        for _ in range(a.rounds):
            for busy in (False, True):
                loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"])
                         for _ in range(a.loops * os.cpu_count() if busy else 0)]
                try:
                    for program in a.serve:
                        rows.append(row_of(program, busy, run(a, program, pathlib.Path(work) / "run.json")))
                        print_row(rows[-1])
                finally:
                    for loop in loops:
                        loop.kill()
                        loop.wait()
    if a.json:
        a.json.write_text(json.dumps({"what": "busy_host", "date": datetime.date.today().isoformat(),
                                      "device": gpu_of(a), "cores": os.cpu_count(), "loops": a.loops,
                                      "rows": rows}, indent=1) + "\n")


def gpu_of(a):
    if a.device == "sim":
        return "sim"
    told = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                          capture_output=True, text=True)
    return told.stdout.strip().splitlines()[0] if told.returncode == 0 and told.stdout.strip() else "unknown"


def print_row(r):
    host = max(r["host_part"].values(), default=None)
    print(f"{r['serve']}, {'busy' if r['busy'] else 'quiet'} host: {100 * r['violations']:.2f}% late or dropped; "
          f"corrections {', '.join(f'{m} {c:.2f}' for m, c in r['corrections'].items()) or 'none'}"
          + (f"; host up to {100 * host:.0f}% of batch times" if host is not None else ""), flush=True)


if __name__ == "__main__":
    main()
