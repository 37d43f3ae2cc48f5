#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a slow-down limit costs and gains on gsched_server: two models, short requests beside long ones.

Clients of the short model wait a while between two requests, those of the long model do not. A way is
one of
  none          both run side by side
  LIMIT         gsched_server --slow-down-limit LIMIT: models that slow each other more are kept apart
  real_time     both run side by side, and the short requests are real-time
Each way is run several times, in turn, each time with a server of its own. Latencies are those that
the server reports, from when it has the request until the result; a figure is the median of the runs,
with the least and the most.

    slow_down_limits.py --device cuda:0 --json limits.json
    slow_down_limits.py --ways none 1.2 1.5 2 --policy fifo
    slow_down_limits.py --read limits.json       # the same table, from an earlier run
"""

import argparse
import datetime
import http.client
import json
import math
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
FIGURES = ("p50_ms", "p99_ms", "per_s")


class Failed(Exception):
    """With one line."""


class Connection(http.client.HTTPConnection):
    """To the Unix socket of a server."""

    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)

    def ask(self, method, url, body=None, headers={}):
        self.request(method, url, body, headers)
        r = self.getresponse()
        body = r.read()
        if r.status != 200:
            raise Failed(f"{url}: status {r.status}, {body[:200].decode(errors='replace')}")
        return body, r.headers


class Client(threading.Thread):
    """Sends requests for a model until an event, with a pause after each."""

    def __init__(self, path, model, pause, stop, headers):
        super().__init__()
        self.path, self.model, self.pause, self.stop, self.headers = path, model, pause, stop, headers
        self.took, self.failure = [], None

    def run(self):
        try:
            self.send_all(Connection(self.path))
        except (Failed, OSError, http.client.HTTPException, ValueError) as e:
            self.failure = str(e)

    def send_all(self, to):
        tensors = json.loads(to.ask("GET", f"/v2/models/{self.model}")[0])["inputs"]
        size = {"FP32": 4, "UINT8": 1}
        bytes_of = [math.prod(t["shape"]) * size[t["datatype"]] for t in tensors]
        head = json.dumps({"inputs": [dict(t, parameters={"binary_data_size": n}) for t, n in zip(tensors, bytes_of)],
                           "parameters": {"binary_data_output": True}}).encode()
        headers = {"Inference-Header-Content-Length": str(len(head)), **self.headers}
        while not self.stop.is_set():
            body, said = to.ask("POST", f"/v2/models/{self.model}/infer", head + bytes(sum(bytes_of)), headers)
            answer = json.loads(body[:int(said["Inference-Header-Content-Length"])])
            self.took.append(answer["parameters"]["latency_us"] / 1000)
            time.sleep(self.pause)


def run(o, way, folder):
    """Latencies of both models, and how often the limit kept a request waiting."""
    path = folder / "http.sock"
    words = [o.server, "--device", o.device, "--policy", o.policy, "--grpc", "none", "--http", f"unix:{path}",
             "--profiles", f"{o.profiles}/{o.short}.json,{o.profiles}/{o.long}.json"]
    if way not in ("none", "real_time"):
        words += ["--slow-down-limit", way]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        if not server.stdout.readline():
            raise Failed(server.stderr.read().strip() or "gsched_server ended")
        stop = threading.Event()
        real_time = {"gsched-priority": "real_time"} if way == "real_time" else {}
        clients = [Client(path, o.short, o.pause, stop, real_time) for _ in range(o.clients)]
        clients += [Client(path, o.long, 0, stop, {}) for _ in range(o.clients)]
        begin = time.monotonic()
        for c in clients:
            c.start()
        while time.monotonic() < begin + o.seconds or any(c.is_alive() and len(c.took) < o.requests for c in clients):
            time.sleep(0.005)
        lasted = time.monotonic() - begin
        stop.set()
        for c in clients:
            c.join()
            if c.failure:
                raise Failed(c.failure)
        metrics = Connection(path).ask("GET", "/metrics")[0].decode()
    finally:
        server.terminate()
        try:
            server.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.communicate()
    took = {m: sorted(t for c in clients if c.model == m for t in c.took) for m in (o.short, o.long)}
    apart = [line.rpartition(" ")[2] for line in metrics.splitlines() if line.startswith("gsched_apart_total{")]
    return {"way": way, "apart": sum(map(float, apart)),
            "models": {m: {"p50_ms": v[len(v) // 2], "p99_ms": v[min(len(v) - 1, math.ceil(0.99 * len(v)) - 1)],
                           "per_s": len(v) / lasted} for m, v in took.items()}}


def table(result):
    """A line for each way and model: median, least and most of the runs."""
    lines = [f"{result['device']}, {result['policy']}, {result['clients']} clients a model, "
             f"{result['seconds']:g} s a run, {result['repeats']} runs",
             f"{'way':<10} {'model':<20}" + "".join(f"{f:>28}" for f in FIGURES)]
    for way in result["ways"]:
        runs = [r for r in result["runs"] if r["way"] == way]
        for model in (result["short"], result["long"]):
            cells = []
            for figure in FIGURES:
                of = [r["models"][model][figure] for r in runs]
                cells.append(f"{statistics.median(of):.1f} ({min(of):.1f} to {max(of):.1f})")
            lines.append(f"{way:<10} {model:<20}" + "".join(f"{c:>28}" for c in cells))
    return "\n".join(lines)


def commit():
    done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unversioned"


def gpu_of(device):
    """Its name; empty for a simulated one."""
    if not device.startswith("cuda"):
        return ""
    number = device.partition(":")[2] or "0"
    done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader", "-i", number],
                          capture_output=True, text=True, check=False)
    return done.stdout.strip()


def is_way(text):
    try:
        return text in ("none", "real_time") or float(text) >= 1
    except ValueError:
        return False


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", default="sim:h200", help="as that of gsched_server (sim:h200)")
    p.add_argument("--short", default="resnet50_b1", metavar="MODEL", help="profile of the short requests (resnet50_b1)")
    p.add_argument("--long", default="vgg16_b32", metavar="MODEL", help="of the long ones (vgg16_b32)")
    p.add_argument("--profiles", default=str(ROOT / "tools/data/profiles"), metavar="DIR", help="where they are")
    p.add_argument("--ways", nargs="+", default=["none", "1.5", "real_time"], metavar="WAY",
                   help="none, real_time or a limit (none 1.5 real_time)")
    p.add_argument("--policy", default="srpt+deficit", help="of gsched_server (srpt+deficit)")
    p.add_argument("--clients", type=int, default=2, help="of each model (2)")
    p.add_argument("--pause", type=float, default=0.01, help="between short requests, in seconds (0.01)")
    p.add_argument("--seconds", type=float, default=6, help="of a run (6)")
    p.add_argument("--requests", type=int, default=1, help="of each client in a run at least, even if it takes longer (1)")
    p.add_argument("--repeats", type=int, default=5, help="runs of each way (5)")
    p.add_argument("--server", default=str(ROOT / "build/release/bin/gsched_server"), metavar="FILE")
    p.add_argument("--json", metavar="FILE", help="write the results there")
    p.add_argument("--read", metavar="FILE", help="print the table of these results")
    o = p.parse_args()
    for way in o.ways:
        if not is_way(way):
            raise Failed(f'--ways: "{way}", expected none, real_time or a limit of at least 1')
    if o.clients < 1 or o.repeats < 1 or o.requests < 1 or not o.seconds > 0 or not o.pause >= 0:
        raise Failed("--clients, --repeats, --requests, --seconds, --pause: expected 1, 1, 1, above 0 and 0 at least")
    return o


def measure(o):
    result = {"what": "slow_down_limits", "commit": commit(), "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "gpu": gpu_of(o.device), "runs": []}
    result |= {k: getattr(o, k) for k in ("device", "policy", "clients", "pause", "seconds", "requests", "repeats", "short", "long", "ways")}
    with tempfile.TemporaryDirectory(prefix="gsched.") as folder:
        for turn in range(o.repeats):
            for way in o.ways:
                if sys.stderr.isatty():
                    print(f"\rrun {turn + 1} of {o.repeats}: {way:<10}", end="", file=sys.stderr)
                result["runs"].append(run(o, way, pathlib.Path(folder)))
    if sys.stderr.isatty():
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(result, indent=1) + "\n")
    return result


def main():
    o = options()
    if not o.read:
        if not os.access(o.server, os.X_OK):
            raise Failed(f"{o.server}: not there, expected gsched_server (cmake --build --preset release --target gsched_server)")
        print(table(measure(o)))
        return
    try:
        result = json.loads(pathlib.Path(o.read).read_text())
    except ValueError:
        result = None
    if not isinstance(result, dict) or result.get("what") != "slow_down_limits":
        raise Failed(f"{o.read}: expected results of slow_down_limits.py")
    print(table(result))


if __name__ == "__main__":
    try:
        main()
    except (Failed, OSError) as e:
        sys.exit(f"slow_down_limits: {' '.join(str(e).splitlines())}")
