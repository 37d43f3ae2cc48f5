#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the simulator with a GPU for real-time and best-effort work: runs what realtime_figures or
realtime --json measured on a GPU again on the simulator, workload by workload and mode by mode.

Stand-ins on a GPU only occupy SMs and do not slow each other; the simulator is configured the same,
unless --contended is given. Prints real-time mean and p99, slowdown, throughput and the median time
until best-effort work has left, each on both, and the simulator's over the GPU's. A row that is more
than 20% off is marked.

That time contains the host's: while it submits a real-time graph it polls nothing. sim:h200 has the
submission cost of graphs of captured networks (segments.csv), 0.2 us more for each operation; graphs of
stand-ins have a cost that does not depend on their length. So use the preset that calibrate wrote on that GPU:

  realtime_sim_vs_gpu.py --preset PRESET.json bench/results/gpu/realtime_figures.*.json
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BAND = 0.2
VALUES = {"mean": lambda r: r["rt"]["latency_us"]["mean"],
          "p99": lambda r: r["rt"]["latency_us"]["p99"],
          "slowdown": lambda r: r["rt"]["slowdown_vs_rt_only"],
          "throughput": lambda r: r["throughput"]["normalised"],
          "gone": lambda r: r["preemptions"]["latency_us"]["p50"]}
# Options of realtime by the names of its JSON.
SETTINGS = {"lanes": "--lanes", "real_time_lanes": "--rt-lanes", "quantum_us": "--quantum",
            "most_quantum_us": "--most-quantum", "overshoot": "--overshoot", "floor": "--floor",
            "queues": "--queues"}
# Segments of kernels that leave are at most that long. Runs from before realtime refused longer ones
# name the time asked for, and had shortened it to this.
LONGEST_LEAVING_US = 50


def fail(why, code=1):
    print(f"realtime_sim_vs_gpu: {why}", file=sys.stderr)
    sys.exit(code)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        fail(f"{message}, expected what --help lists", 2)


def read_json(path):
    try:
        return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except OSError as e:
        fail(f"{path}: {e.strerror}, expected a JSON file", 2)
    except ValueError as e:
        fail(f"{path}: {e}, expected JSON", 2)


def write_json(path, value):
    try:
        pathlib.Path(path).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    except OSError as e:
        fail(f"{path}: {e.strerror}, expected a writable path")


# Runs ---------------------------------------------------------------------------------------------

def documents_of(path):
    """The documents of realtime on a GPU in its own file, or in one of realtime_figures."""
    report = read_json(path)
    try:
        found = [c["said"] for c in report["calls"] if "said" in c] if "calls" in report else [report]
        return [d for d in found if not d["device"].startswith("sim:")]
    except (KeyError, TypeError, AttributeError):
        fail(f"{path}: no runs, expected what realtime or realtime_figures wrote", 2)


def preset_of(a, scratch):
    path = ROOT / "tools/data/presets/h200.json" if a.preset == "sim:h200" else a.preset
    report = read_json(path)
    if not isinstance(report, dict) or not isinstance(report.get("laws"), dict):
        fail(f"{path}: no laws, expected a simulator's preset", 2)
    report["laws"]["contended"] = a.contended
    changed = scratch / "preset.json"
    write_json(changed, report)
    return changed


def simulate(a, document, preset, scratch):
    work, scheduling = document["workload"], document["scheduling"]
    # A workload names its traces relative to its file, so use the shipped file of the same name.
    file = next((f for f in sorted((ROOT / "tools/data/workloads").glob("*.json"))
                 if read_json(f)["name"] == work["name"]), None)
    if file is None:
        file = scratch / "workload.json"
        write_json(file, {"gsched_workload": 1, "name": work["name"], "clients": work["clients"]})
    runs = []
    for leaves in dict.fromkeys(scheduling["leaves"].values()):
        modes = [r["mode"] for r in document["runs"]
                 if scheduling["leaves"].get(r["mode"], leaves) == leaves]
        out = scratch / "run.json"
        command = [str(a.bin / "realtime"), "--workload", str(file), "--device", str(preset),
                   "--mode", ",".join(modes), "--seed", str(document["seed"]), "--quiet", "--no-progress",
                   "--json", str(out)]
        # realtime refuses options that none of the modes uses.
        if "preempt_pad" in modes:
            command += ["--side", ",".join(map(str, scheduling["side_sms"])) or "none", "--tolerance",
                        f"{100 * scheduling['tolerance']:g}"]
        preempts = "preempt" in modes or "preempt_pad" in modes
        if preempts:
            command += ["--leaves", leaves]
        unused = set() if preempts else {"lanes", "floor"}
        if not preempts and "rt_only" not in modes:
            unused |= {"real_time_lanes", "quantum_us", "most_quantum_us", "overshoot"}
        for name, option in SETTINGS.items():
            if scheduling.get(name) is not None and name not in unused:
                value = scheduling[name]
                if preempts and leaves != "never" and name in ("quantum_us", "most_quantum_us"):
                    value = min(value, LONGEST_LEAVING_US)
                command += [option, f"{value:g}"]
        for name in ("seconds", "requests"):
            if work.get(name) is not None:
                command += [f"--{name}", f"{work[name]:g}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False,
                                  timeout=a.time_limit)
        except FileNotFoundError:
            fail(f"{command[0]}: not found, expected realtime (--bin)")
        except subprocess.TimeoutExpired:
            fail(f"{' '.join(command)}: not done after {a.time_limit:g} s, expected it to end")
        if done.returncode != 0:
            fail(done.stderr.strip() or f"{' '.join(command)}: status {done.returncode}")
        runs += read_json(out)["runs"]
    return runs


# Rows ---------------------------------------------------------------------------------------------

def compare(document, simulated):
    rows = []
    for measured in document["runs"]:
        mode = measured["mode"]
        mine = next((r for r in simulated if r["mode"] == mode), None)
        if mine is None:
            continue
        row = {"workload": document["workload"]["name"], "mode": mode,
               "leaves": document["scheduling"]["leaves"].get(mode)}
        for name, value in VALUES.items():
            on_gpu, in_sim = value(measured), value(mine)
            if on_gpu and in_sim:
                row |= {f"gpu_{name}": on_gpu, f"sim_{name}": in_sim, f"{name}_ratio": in_sim / on_gpu}
        rows.append(row)
    return rows


def outside(ratio):
    return not 1 - BAND <= ratio <= 1 + BAND


def show(rows):
    print(f"\n{rows[0]['workload']}\n{'mode':<18}" +
          "".join(f"{n + ' GPU':>16}{'sim':>10}{'ratio':>8} " for n in VALUES))
    for r in rows:
        cells = f"{r['mode']:<18}"
        for name in VALUES:
            if f"{name}_ratio" not in r:
                cells += f"{'-':>16}{'-':>10}{'-':>8} "
                continue
            form = ".1f" if name in ("mean", "p99", "gone") else ".3f"
            ratio = r[f"{name}_ratio"]
            cells += (f"{format(r[f'gpu_{name}'], form):>16}{format(r[f'sim_{name}'], form):>10}"
                      f"{ratio:>8.3f}{'!' if outside(ratio) else ' '}")
        print(cells, flush=True)


def summary(rows):
    report = {}
    print(f"\n! more than {BAND:.0%} off")
    for name in VALUES:
        ratios = [r[f"{name}_ratio"] for r in rows if f"{name}_ratio" in r]
        if not ratios:
            continue
        report[name] = {"rows": len(ratios), "outside": sum(map(outside, ratios)),
                      "median_off": statistics.median(abs(x - 1) for x in ratios),
                      "worst_ratio": max(ratios, key=lambda x: abs(math.log(x)))}
        s = report[name]
        print(f"{name:<12}{s['rows']:>4} rows, {s['outside']:>3} outside; off by "
              f"{s['median_off']:.1%} in the median, at the worst {s['worst_ratio']:.3f}")
    return report


def main():
    a = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("files", nargs="+", type=pathlib.Path, help="of realtime_figures or realtime --json")
    a.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin",
                   help="where realtime is")
    a.add_argument("--preset", default="sim:h200", help="a simulated GPU's preset, FILE.json")
    a.add_argument("--contended", action="store_true", help="kernels slow one another in the simulator")
    a.add_argument("--time-limit", type=float, default=300, help="seconds, for each process")
    a.add_argument("--json", type=pathlib.Path, help="all rows")
    a.add_argument("--strict", action="store_true", help="status 1 if a row is outside")
    a = a.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        preset = preset_of(a, scratch)
        for file in a.files:
            for document in documents_of(file):
                try:
                    some = compare(document, simulate(a, document, preset, scratch))
                except (KeyError, TypeError, AttributeError) as e:
                    fail(f"{file}: no {e}, expected what realtime --json writes", 2)
                if some:
                    show(some)
                    rows += some
    if not rows:
        fail("no run on a GPU in these files, expected some of realtime --device cuda", 2)
    report = summary(rows)
    if a.json:
        write_json(a.json, {"what": "realtime_sim_vs_gpu", "contended": a.contended, "rows": rows,
                            "summary": report})
    sys.exit(1 if a.strict and any(outside(v) for r in rows for k, v in r.items()
                                   if k.endswith("_ratio")) else 0)


if __name__ == "__main__":
    main()
