#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the simulator with a GPU: the same requests at the same times, under each policy.

  stand-ins  runs serve_mix on the GPU, where models are kernels with the grids and durations of the
             profiles, and on the simulator
  models     reads what serve_models.py measured with PyTorch models, and runs serve_mix on the
             simulator with the same arrivals and settings; what the client took in the mean until a
             request was submitted, where it was measured, is added to simulated latencies
  draw       draws earlier results

Prints for each load, policy and model the mean and p99 latency on both, and the simulator's over the
GPU's. A row that is more than 20% off is marked.
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench/figures"))
import plotting  # noqa: E402

POLICIES = "fifo,rr,sjf,srpt,edf,deficit,srpt+deficit,single,direct"  # as serve_mix knows them
MIX = "resnet18_b1=4,mobilenet_v2_b1=2,resnet50_b1=2,inception_v3_b1=1"
BAND = 0.2
# Options of serve_mix by the names of its JSON.
SETTINGS = {"quantum_us": "--quantum", "most_quantum_us": "--most-quantum", "lanes": "--lanes",
            "overshoot": "--overshoot", "threshold_us": "--threshold", "queues": "--queues"}


def fail(why, code=1):
    print(f"sim_vs_gpu: {why}", file=sys.stderr)
    sys.exit(code)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        fail(f"{message}, expected what --help lists", 2)


def read_json(path):
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
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

class Server:
    """Calls serve_mix."""

    def __init__(self, program, profiles, scratch, seconds):
        self.program, self.profiles = str(program), profiles
        self.scratch, self.seconds = scratch, seconds

    def call(self, device, *options):
        out = self.scratch / "run.json"
        command = [self.program, "--device", str(device), "--quiet", "--no-progress", "--json",
                   str(out), *options]
        if self.profiles:
            command += ["--profiles", *self.profiles]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False,
                                  timeout=self.seconds)
        except FileNotFoundError:
            fail(f"{self.program}: not found, expected serve_mix (--bin)")
        except subprocess.TimeoutExpired:
            fail(f"{' '.join(command)}: not done after {self.seconds:g} s (--time-limit), "
                 "expected it to end")
        if done.returncode != 0:
            fail(done.stderr.strip() or f"{' '.join(command)}: status {done.returncode}")
        return read_json(out)

    def version_of(self, preset, **changes):
        """A copy of a preset with some values of its laws changed, and its content."""
        path = preset if preset != "sim:h200" else ROOT / "tools/data/presets/h200.json"
        report = read_json(path)
        if not isinstance(report, dict) or not isinstance(report.get("laws"), dict):
            fail(f"{path}: no laws, expected a simulator's preset", 2)
        report["laws"].update(changes)
        changed = self.scratch / "preset.json"
        write_json(changed, report)
        return changed, report


def write_trace(path, rate, sigma, mix, clients, requests, seed):
    """Poisson, or lognormal where sigma is given: one file for both sides."""
    r, now = random.Random(seed), 0.0
    names, weights = list(mix), list(mix.values())
    with open(path, "w", encoding="ascii") as out:
        out.write("time_us,model,client\n")
        for i in range(requests):
            gap = r.expovariate(1) if sigma is None else r.lognormvariate(-sigma * sigma / 2, sigma)
            now += gap * 1e6 / rate
            out.write(f"{now:.3f},{r.choices(names, weights)[0]},{i % clients}\n")


def settings_for(policies, settings):
    """Options of serve_mix, without those that none of the policies uses, as it refuses them."""
    names = policies.split(",")
    unused = set() if "srpt+deficit" in names else {"threshold_us"}
    if all(n in ("direct", "single") for n in names):
        unused |= {"quantum_us", "most_quantum_us", "lanes", "overshoot"}
    return [x for name, value in settings.items() if name in SETTINGS and value is not None and name not in unused
            for x in (SETTINGS[name], str(value))]


def stand_ins(a, server):
    """(facts of the runs, rows)."""
    preset, laws = a.preset, {}
    if not a.contended:
        # Stand-ins only occupy SMs: they do not slow each other.
        preset, laws = server.version_of(a.preset, contended=False)
    settings = settings_for(a.policy, a.settings)
    delay = ["--decision-delay", str(a.sim_delay)]
    sides = {"gpu": a.device, "sim": preset}
    solo = {side: server.call(device, "--mix", a.mix, "--policy", "single", "--rate", "10",
                              "--requests", "10")["workload"]
            for side, device in sides.items()}
    alone = {side: w["mean_solo_us"] for side, w in solo.items()}
    print(f"alone on the device, the mix takes {alone['gpu']:.1f} us on the GPU, "
          f"{alone['sim']:.1f} in the simulator ({alone['sim'] / alone['gpu']:.3f})", flush=True)
    rows = []
    for load in a.loads:
        runs = {"gpu": [], "sim": []}
        for repeat in range(a.repeat):
            trace = server.scratch / "arrivals.csv"
            write_trace(trace, load * 1e6 / alone["gpu"], a.sigma, solo["gpu"]["mix"], a.clients,
                        a.requests, a.seed + repeat)
            for side, device in sides.items():
                report = server.call(device, "--mix", a.mix, "--policy", a.policy, "--arrivals",
                                   f"trace:{trace}", "--clients", str(a.clients), "--requests",
                                   str(a.requests), *settings, *(delay if side == "sim" else []))
                runs[side] += report["runs"]
        rows += compare(f"{load:g}", runs["gpu"], runs["sim"])
        show(rows, f"{load:g}")
    return {"alone_us": alone, "loads": a.loads, "laws_changed": laws.get("laws")}, rows


def models(a, server):
    preset = a.preset
    if a.law:
        law = read_json(a.law)
        try:
            preset, _ = server.version_of(preset, contention=law["contention"], replay=law["replay"])
        except (KeyError, TypeError) as e:
            fail(f"{a.law}: no {e}, expected what interference fit writes", 2)
    report = read_json(a.gpu_json)
    documents = report.get("sweep", [report]) if isinstance(report, dict) else []
    rows = []
    for document in documents:
        try:
            rows += same_on_simulator(a, server, preset, document, first=not rows)
        except (KeyError, TypeError, AttributeError) as e:
            fail(f"{a.gpu_json}: no {e}, expected what serve_models.py --json writes", 2)
    if not rows:
        fail(f"{a.gpu_json}: no runs that the simulator can repeat, expected some of {POLICIES}", 2)
    return {"gpu_json": str(a.gpu_json)}, rows


def same_on_simulator(a, server, preset, document, first):
    work, scheduling = document["workload"], document["scheduling"]
    known = [r for r in document["runs"] if r["policy"] in POLICIES.split(",")]
    if not known:
        return []
    whole = re.compile(rf"_b\d+$|{re.escape(a.suffix)}$")
    names = {name: name if whole.search(name) else name + a.suffix for name in work["mix"]}
    policies = ",".join(dict.fromkeys(r["policy"] for r in known))
    options = ["--mix", ",".join(f"{names[n]}={w:g}" for n, w in work["mix"].items()), "--policy", policies,
               "--clients", str(work["clients"]), "--requests", str(work["requests"]),
               "--decision-delay", str(a.sim_delay)]
    options += settings_for(policies, scheduling | a.settings)
    simulated = []
    known = [{"repeat": 0} | r for r in known]
    for repeat in sorted({r["repeat"] for r in known}):
        # serve_models draws its requests as serve_mix does: the same rate and seed give the same ones.
        arrivals = ["--rate", str(work["rate_per_s"]), "--arrivals", work["arrivals"],
                    "--seed", str(document["seed"] + repeat)]
        if a.trace and first and repeat == 0:
            renamed = server.scratch / "arrivals.csv"
            rename_models(a.trace, renamed, names)
            arrivals = ["--arrivals", f"trace:{renamed}"]
        runs = server.call(preset, *options, *arrivals)["runs"]
        simulated += [dict(r, repeat=repeat) for r in runs]
    for r in simulated:
        r["per_model"] = {n: r["per_model"][names[n]] for n in names}
        add_client(r, next((k for k in known if (k["policy"], k["repeat"]) == (r["policy"], r["repeat"])), {}))
    label = f"{work['load']:.2f}"
    rows = compare(label, known, simulated)
    show(rows, label)
    return rows


def add_client(simulated, measured):
    """Adds what the client takes until the server has a request, which is not simulated."""
    us = sum(measured.get(k, {}).get("mean", 0) for k in ("late_us", "submit_us"))
    for part in (simulated, *simulated["per_model"].values()):
        part["latency_us"] = {k: v + us for k, v in part["latency_us"].items()}


def rename_models(trace, into, names):
    try:
        with open(trace, encoding="utf-8") as f, open(into, "w", encoding="utf-8") as out:
            for line in f:
                fields = line.rstrip("\r\n").split(",")
                if len(fields) > 1:
                    fields[1] = names.get(fields[1], fields[1])
                out.write(",".join(fields) + "\n")
    except OSError as e:
        fail(f"{trace}: {e.strerror}, expected the arrivals of serve_models.py", 2)


# Rows ---------------------------------------------------------------------------------------------

def compare(load, gpu, sim):
    """Rows; the medians of several repeats."""
    rows = []
    for policy in dict.fromkeys(r["policy"] for r in gpu):
        measured = [r for r in gpu if r["policy"] == policy]
        repeats = [r.get("repeat") for r in measured]  # one may be missing: compare like with like
        simulated = [r for r in sim if r["policy"] == policy and r.get("repeat") in repeats]
        for model in ["all", *measured[0]["per_model"]]:
            def value(runs, field, of=model):
                parts = [r if of == "all" else r["per_model"][of] for r in runs]
                return statistics.median(p["latency_us"][field] for p in parts)
            row = {"load": load, "policy": policy, "model": model}
            for field in ("mean", "p99"):
                on_gpu, in_sim = value(measured, field), value(simulated, field)
                row |= {f"gpu_{field}_us": on_gpu, f"sim_{field}_us": in_sim,
                        f"{field}_ratio": in_sim / on_gpu if on_gpu > 0 else math.inf}
            row["lost"] = sum(r["submitted"] - r["finished"] for r in measured + simulated)
            rows.append(row)
    return rows


def outside(ratio):
    return not 1 - BAND <= ratio <= 1 + BAND


def show(rows, load):
    print(f"\nload {load}, times in ms\n{'policy':<14}{'model':<18}{'mean GPU':>10}{'sim':>10}"
          f"{'ratio':>8} {'p99 GPU':>10}{'sim':>10}{'ratio':>8}")
    for r in (r for r in rows if r["load"] == load):
        cells = f"{r['policy']:<14}{r['model']:<18}"
        for field in ("mean", "p99"):
            ratio = r[f"{field}_ratio"]
            cells += (f"{r[f'gpu_{field}_us'] / 1e3:>10.3f}{r[f'sim_{field}_us'] / 1e3:>10.3f}"
                      f"{ratio:>8.3f}{'!' if outside(ratio) else ' '}")
        print(cells + ("  requests lost" if r["lost"] else ""), flush=True)


def summary(rows):
    """The error over the rows of all models together, and over all rows."""
    report = {}
    for name, some in (("policies", [r for r in rows if r["model"] == "all"]), ("all", rows)):
        for field in ("mean", "p99"):
            ratios = [r[f"{field}_ratio"] for r in some]
            report[f"{name}/{field}"] = {
                "rows": len(ratios), "outside": sum(map(outside, ratios)),
                "median_off": statistics.median(abs(x - 1) for x in ratios),
                "worst_ratio": max(ratios, key=lambda x: abs(math.log(max(x, 1e-9))))}
    print(f"\n! more than {BAND:.0%} off")
    for name, s in report.items():
        print(f"{name:<14}{s['rows']:>4} rows, {s['outside']:>3} outside; off by "
              f"{s['median_off']:.1%} in the median, at the worst {s['worst_ratio']:.3f}")
    return report


def plot(rows, path, title):
    panels = []
    for field in ("mean", "p99"):
        panel = plotting.Panel(field, f"{field} on the GPU, ms", f"{field} in the simulator, ms", log="xy")
        points = [(r[f"gpu_{field}_us"] / 1e3, r[f"sim_{field}_us"] / 1e3) for r in rows]
        ends = [0.8 * min(map(min, points)), 1.25 * max(map(max, points))]
        panel.ranges = {"x": tuple(ends), "y": tuple(ends)}
        panel.band([(x, (1 - BAND) * x, (1 + BAND) * x) for x in ends], plotting.TONES["grid"], f"within {BAND:.0%}")
        for policy in dict.fromkeys(r["policy"] for r in rows):
            panel.points([p for p, r in zip(points, rows) if r["policy"] == policy], plotting.style(policy), 0.7)
        panels.append(panel)
    plotting.draw(path, title, panels, size=(380, 380), fail=fail)


# Command line -------------------------------------------------------------------------------------

def positive(text):
    value = float(text)
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def count(text):
    value = int(text)
    if not 0 < value <= 10**8:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def check_outputs(*paths):
    """Checks the paths before minutes are spent."""
    for path in paths:
        if path and not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            fail(f"{path}: no such folder, expected a writable path", 2)
    if paths[-1] and plotting.is_missing():
        fail(f"--plot: {plotting.MISSING}", 2)


def arguments():
    p = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = p.add_subparsers(dest="mode", required=True, metavar="stand-ins|models|draw",
                             parser_class=Parser)
    both = argparse.ArgumentParser(add_help=False)
    both.add_argument("--preset", default="sim:h200",
                      help="the simulator's: sim:h200, or a file of calibrate; default: sim:h200")
    both.add_argument("--bin", default=str(ROOT / "build/release/bin"), metavar="DIR",
                      help="where serve_mix is; default: build/release/bin")
    both.add_argument("--profiles", nargs="+", default=[], metavar="DIR_OR_FILE",
                      help="of the models; default: those that ship with gsched")
    both.add_argument("--time-limit", type=positive, default=120.0, metavar="S",
                      help="of each call of serve_mix; default: 120")
    for name, option in SETTINGS.items():
        both.add_argument(option, type=count if name in ("lanes", "queues") else positive,
                          dest=name, help="as serve_mix has it; for both sides")
    both.add_argument("--sim-delay", type=float, default=0.0, metavar="US",
                      help="host time of the dispatcher for a segment, added in the simulator, which "
                      "has none; default: 0")
    both.add_argument("--json", metavar="FILE", help="write all rows")
    both.add_argument("--plot", metavar="FILE", help="draw them: .svg or .png (gnuplot)")
    both.add_argument("--strict", action="store_true",
                      help="exit code 1 if a row of all models together is outside")

    s = modes.add_parser("stand-ins", parents=[both], help="serve_mix on both sides")
    s.add_argument("--device", default="cuda", help="of serve_mix; default: cuda")
    s.add_argument("--mix", default=MIX)
    s.add_argument("--policy", default=POLICIES)
    s.add_argument("--loads", default="0.5,1.5,2.4", metavar="X,...",
                   help="of one model at a time, alone on the GPU; default: 0.5,1.5,2.4")
    s.add_argument("--arrivals", default="poisson", metavar="LAW", help="poisson or lognormal:SIGMA")
    s.add_argument("--requests", type=count, default=1000, help="of each run; default: 1000")
    s.add_argument("--clients", type=count, default=8)
    s.add_argument("--repeat", type=count, default=3, help="other arrivals each; default: 3")
    s.add_argument("--seed", type=int, default=1)
    s.add_argument("--contended", action="store_true",
                   help="let simulated kernels slow one another, which stand-ins do not")

    m = modes.add_parser("models", parents=[both], help="the results of serve_models.py")
    m.add_argument("--gpu-json", required=True, metavar="FILE", help="what serve_models.py wrote")
    m.add_argument("--trace", metavar="FILE",
                   help="what serve_models.py --save-arrivals wrote, for its first run; default: "
                   "drawn again by rate and seed")
    m.add_argument("--law", metavar="FILE", help="coefficients of `interference fit`, in place of those that were "
                   "copied into the preset as it was written")
    m.add_argument("--suffix", default="_b1", help="of the profile's name of a model that names no batch")
    d = modes.add_parser("draw", help="draws the rows that --json wrote, runs nothing")
    d.add_argument("results", metavar="FILE")
    d.add_argument("--plot", metavar="FILE", required=True, help=".svg or .png (gnuplot)")
    a = p.parse_args()
    if a.mode == "draw":
        check_outputs(a.plot)
        return a
    a.settings = {n: getattr(a, n) for n in SETTINGS if getattr(a, n) is not None}
    if a.mode == "stand-ins":
        try:
            a.loads = [positive(x) for x in a.loads.split(",")]
            law, _, sigma = a.arrivals.partition(":")
            if law not in ("poisson", "lognormal") or (law == "poisson") != (sigma == ""):
                raise ValueError
            a.sigma = positive(sigma) if sigma else None
        except (ValueError, argparse.ArgumentTypeError):
            p.error("--loads or --arrivals: cannot be read")
    check_outputs(a.json, a.plot)
    return a


def title_of(mode):
    return f"{mode}: the simulator against the GPU, every policy and model"


def main():
    a = arguments()
    if a.mode == "draw":
        report = read_json(a.results)
        try:
            plot(report["rows"], a.plot, title_of(report["options"]["mode"]))
        except (KeyError, TypeError) as e:
            fail(f"{a.results}: no {e}, expected what --json wrote", 2)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        server = Server(pathlib.Path(a.bin) / "serve_mix", a.profiles, pathlib.Path(scratch),
                        a.time_limit)
        facts, rows = stand_ins(a, server) if a.mode == "stand-ins" else models(a, server)
    report = summary(rows)
    if a.json:
        options = {k: v for k, v in vars(a).items() if k not in ("bin", "json", "plot")}
        write_json(a.json, {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(),
                            "options": options, **facts, "summary": report, "rows": rows})
    if a.plot:
        plot(rows, a.plot, title_of(a.mode))
    off = report["policies/mean"]["outside"] + report["policies/p99"]["outside"]
    return 1 if a.strict and off else 0


if __name__ == "__main__":
    sys.exit(main())
