#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which SMs two parts of a GPU get, and what a compute-bound kernel of one loses beside the other.

A part is a process, a stream or a partition (gsched.gpu.mps_sms). A way is one of
  streams                   streams of one process
  partitions:P,P,...        partitions of one process (green contexts) with P percent of the SMs each
  time_slicing              a process each: the driver lets them take turns
  mps                       ... under NVIDIA's MPS
  mps:P,P,...               ... each with CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=P
Each part holds blocks on all SMs that it gets, alone and with the others at once; a column says on how
many SMs blocks of two parts ran. Then each part's fp32 kernel of one wave, 0.2 ms long, is replayed
beside the held blocks of the others and alone, in turn: "slower" is the ratio of the mean times,
"median" that of the medians.

Source   Elvinger et al., SoCC 2025, section 4: limits of MPS do not exclude SMs,
         doi:10.1145/3772052.3772270.

A way that this machine does not offer is reported as not available; then and otherwise, no process
outlives the program.

    mps_sms.py --json mps_sms.json
    mps_sms.py --ways mps:50,50 mps:25,75 partitions:50,50
    mps_sms.py --read mps_sms.json        # the same table, from the results of an earlier run
"""

import argparse
import contextlib
import json
import os
import pathlib
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples/pytorch"))
import mps  # noqa: E402
import processes  # noqa: E402
import workload  # noqa: E402
from processes import Failed  # noqa: E402

WAYS = ("streams", "partitions:50,50", "partitions:25,75", "time_slicing", "mps", "mps:50,50",
        "mps:25,75", "mps:75,75")
KNOWN = "streams, time_slicing, mps, mps:P,P,... or partitions:P,P,..."
HELD = 5.0 # seconds after which blocks end by themselves
STEP = 60.0 # limit for an answer


def percents(way):
    """The percentages of its parts; ValueError for an unknown way."""
    name, colon, shares = way.partition(":")
    if not colon and name in ("streams", "time_slicing", "mps"):
        return [None, None]
    if not colon or name not in ("mps", "partitions"):
        raise ValueError(f'--ways: "{way}", expected {KNOWN}')
    of = [int(p) if p.isdecimal() else 0 for p in shares.split(",")]
    if not 2 <= len(of) <= 16 or not all(1 <= p <= 100 for p in of):
        raise ValueError(f'--ways: "{way}", expected 2 to 16 percentages from 1 to 100')
    if name == "partitions" and sum(of) > 100:
        raise ValueError(f'--ways: "{way}" has {sum(of)} percent, expected 100 at most')
    return of


def options():
    p = workload.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ways", nargs="+", default=list(WAYS), metavar="WAY",
                   help=f"default: {' '.join(WAYS)}")
    p.add_argument("--turns", type=workload.COUNT, default=5, help="default: %(default)s")
    p.add_argument("--hold-ms", type=workload.SOME, default=50.0,
                   help="that blocks of all parts stay at once; default: %(default)s")
    p.add_argument("--replay-ms", type=workload.SOME, default=50.0,
                   help="of replays alone and beside in each turn; default: %(default)s")
    p.add_argument("--gpu", type=workload.FROM_0, default=0, help="default: %(default)s")
    p.add_argument("--program", default=str(ROOT / "build/release/bench/gsched.gpu.mps_sms"),
                   metavar="FILE", help="gsched.gpu.mps_sms")
    p.add_argument("--json", metavar="FILE", type=workload.writable)
    p.add_argument("--read", metavar="FILE", help="print the table of these results")
    a = p.parse_args()
    try:
        for way in a.ways:
            percents(way)
        if a.hold_ms > 1e3 * HELD / 2:
            raise ValueError(f"--hold-ms: {a.hold_ms:g}, expected {500 * HELD:g} at most")
        if a.read and a.json:
            raise ValueError("--json: nothing is measured with --read, expected one of both")
        if not a.read and not os.access(a.program, os.X_OK):
            raise ValueError(f"--program: {a.program} is no program, expected gsched.gpu.mps_sms "
                             "(cmake --build --preset release --target gsched.gpu.mps_sms)")
    except ValueError as e:
        p.error(str(e))
    return a


# Processes -----------------------------------------------------------------------------------------

class Client:
    """A gsched.gpu.mps_sms that does as it is asked."""

    def __init__(self, name, words, environment, folder):
        self.name, self.said, self.read = name, pathlib.Path(folder) / f"{name}.said", b""
        with open(self.said, "wb") as to:
            self.process = processes.start(words, environment, stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE, stderr=to)
        try:
            self.facts = self.answer("its start")
        except BaseException as e:
            self.end()
            if isinstance(e, Failed) and "CUDA_ERROR_MPS" in str(e): # no server, or no room in it
                raise mps.NotAvailable(str(e)) from None
            raise

    def answer(self, what):
        until = time.monotonic() + STEP
        out = self.process.stdout.fileno()
        while b"\n" not in self.read:
            ready, _, _ = select.select([out], [], [], max(0, until - time.monotonic()))
            if not ready:
                raise Failed(f"{self.name}: no answer to {what} within {STEP:g} s")
            got = os.read(out, 1 << 16)
            if not got:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(5)
                code = self.process.poll()
                why = "it has closed its output" if code is None else processes.why_ended(
                    code, self.said.read_text(errors="replace"))
                raise Failed(f"{self.name}: {why}")
            self.read += got
        line, _, self.read = self.read.partition(b"\n")
        try:
            return json.loads(line)
        except ValueError:
            raise Failed(f"{self.name}: {line[:80]!r} answers {what}, expected JSON") from None

    def ask(self, line):
        with contextlib.suppress(BrokenPipeError): # why it has ended is found by answer()
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()
        return self.answer(line)

    def end(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        processes.stop(self.process)
        self.process.stdout.close()


class Part:
    """A process, or one stream or partition of a process."""

    def __init__(self, client, index, percent):
        self.client, self.index, self.percent = client, index, percent
        self.sms_alone = client.facts["parts"][index]["sms"]
        self.turns = []

    def hold(self):
        self.client.ask(f"hold {self.index} {HELD:g}")

    def release(self):
        return self.client.ask(f"release {self.index}")

    def replay(self, ms):
        return self.client.ask(f"replay {self.index} {ms:g}")


@contextlib.contextmanager
def parts_of(a, way):
    """The parts of a way, set up one after another, as each counts its SMs while nothing else runs."""
    shares, name = percents(way), way.partition(":")[0]
    words = [a.program, "--commands", "--gpu", str(a.gpu)]
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mps_sms",
                                                                 ignore_cleanup_errors=True))

        def client(called, more, environment):
            made = Client(called, [*words, *more], environment, folder)
            stack.callback(made.end)
            return made

        # A folder without a daemon: nothing but this program decides whether there is MPS.
        none = {"CUDA_MPS_PIPE_DIRECTORY": folder}
        if name in ("streams", "partitions"):
            more = ["--parts", "2"] if name == "streams" else ["--shares", way.partition(":")[2]]
            one = client("process", more, {**none, "CUDA_DEVICE_MAX_CONNECTIONS": "32"})
            yield [Part(one, i, p) for i, p in enumerate(shares)]
            return
        around = stack.enter_context(mps.control_daemon()) if name == "mps" else none
        limits = [{} if p is None else {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(p)} for p in shares]
        yield [Part(client(f"process{i}", [], {**around, **limit}), 0, p)
               for i, (p, limit) in enumerate(zip(shares, limits))]


# Measurement ---------------------------------------------------------------------------------------

def also_of(mine, others):
    """How many of these SMs others have, too."""
    return len(set(mine) & {s for sms in others for s in sms})


def named(sms):
    """{"count": 4, "sms": "0-2,5"}, which is short in files."""
    words, first = [], None
    for s in sorted(sms):
        first = s if first is None else first
        if s + 1 not in sms:
            words.append(str(s) if s == first else f"{first}-{s}")
            first = None
    return {"count": len(sms), "sms": ",".join(words)}


def held_at_once(parts, first, seconds):
    """What each part held; the part `first` begins."""
    for p in parts[first:] + parts[:first]:
        p.hold()
    time.sleep(seconds)
    return [p.release() for p in parts]


def beside_the_others(a, parts, i):
    """Replays of a part beside what the others hold."""
    others = [p for p in parts if p is not parts[i]]
    for p in others:
        p.hold()
    said = parts[i].replay(a.replay_ms)
    held = [p.release() for p in others]
    return {"us": said["us"], **named(said["sms"]),
            "of_both": also_of(said["sms"], [h["sms"] for h in held]),
            "held_up": not all(h["released"] for h in held)}


def measure(a, parts):
    for p in parts: # graphs are built and uploaded while nothing else runs
        p.hold()
        p.release()
        p.replay(1)
    for turn in range(a.turns):
        held = held_at_once(parts, turn % len(parts), 1e-3 * a.hold_ms)
        for i, p in enumerate(parts):
            others = [h["sms"] for k, h in enumerate(held) if k != i]
            p.turns.append({**named(held[i]["sms"]), "of_both": also_of(held[i]["sms"], others),
                            "beside": beside_the_others(a, parts, i),
                            "alone": {"us": p.replay(a.replay_ms)["us"]}})
    alone = [p.sms_alone for p in parts]
    return [{"percent": p.percent, "driver_says": p.client.facts["sms"],
             "alone": {**named(p.sms_alone), "of_both": also_of(p.sms_alone, alone[:i] + alone[i + 1:])},
             "turns": p.turns}
            for i, p in enumerate(parts)]


def results(a):
    """(row, facts of the GPU), one for each way."""
    for way in a.ways:
        row, facts = {"way": way}, {}
        try:
            with parts_of(a, way) as parts:
                facts = {k: parts[0].client.facts[k] for k in ("gpu", "driver", "runtime")}
                row["parts"] = measure(a, parts)
        except (Failed, OSError, KeyError, TypeError) as e:
            row = {"way": way, "failed": str(e)}
        except mps.NotAvailable as e:
            row = {"way": way, "not_available": str(e)}
        yield row, facts


# Report --------------------------------------------------------------------------------------------

def spread(counts):
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low}-{high}"


def slower(turns, which):
    return (statistics.fmean(t["beside"]["us"][which] for t in turns)
            / statistics.fmean(t["alone"]["us"][which] for t in turns))


HEAD = (f"{'way':<18}{'part':>5}{'percent':>9}{'SMs alone':>11}{'of both':>9}{'at once':>9}{'of both':>9}"
        f"{'slower':>9}{'median':>9}")


def lines_of(row):
    for key, words in (("failed", "failed"), ("not_available", "not available")):
        if key in row:
            yield f"{row['way']:<18} {words}: {row[key]}"
            return
    for i, p in enumerate(row["parts"]):
        turns = p["turns"]
        percent = "" if p["percent"] is None else p["percent"]
        held_up = " held up" if any(t["beside"]["held_up"] for t in turns) else ""
        yield (f"{row['way']:<18}{i:>5}{percent:>9}{p['alone']['count']:>11}"
               f"{p['alone']['of_both']:>9}"
               f"{spread([t['count'] for t in turns]):>9}{spread([t['of_both'] for t in turns]):>9}"
               f"{slower(turns, 'mean'):>9.2f}{slower(turns, 'median'):>9.2f}{held_up}")


def print_earlier(file):
    try:
        report = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))
        lines = [line for row in report["rows"] for line in lines_of(row)]
        head = f"{report['gpu']}, driver {report['driver']}, {report['commit']}, {report['date']}"
    except OSError as e:
        print(f"mps_sms: {file}: {e.strerror}, expected results of mps_sms.py", file=sys.stderr)
        return 2
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError):
        print(f"mps_sms: {file}: expected results of mps_sms.py --json", file=sys.stderr)
        return 2
    print("\n".join([head, HEAD, *lines]))
    return 0


def commit():
    done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short=10", "HEAD"],
                          capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unversioned"


def main():
    a = options()
    if a.read:
        return print_earlier(a.read)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)) # so that processes are ended
    report = {"what": "mps_sms", "commit": commit(), "gpu": None, "driver": None,
              "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "turns": a.turns,
              "hold_ms": a.hold_ms, "replay_ms": a.replay_ms, "rows": []}
    print(HEAD, flush=True)
    for row, facts in results(a):
        report.update(facts)
        report["rows"].append(row)
        print("\n".join(lines_of(row)), flush=True)
        if a.json and not workload.save(a.json, report):
            return 1
    return 1 if any("failed" in r for r in report["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
