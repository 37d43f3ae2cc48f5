# SPDX-License-Identifier: Apache-2.0
"""Runs gsched_server as its operator does: HAProxy's agent checks, an announced end, load reports, metrics, logs,
events for displays, traces.

usage: gsched_operations.py BIN DATA
"""

import json
import os
import re
import signal
import socket
import tempfile
import threading
import time

import load_report
from network_program import BIN, DATA, Server, Unix, ask, expect, finish, refused, write

folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)
lenet = {"name": "input", "datatype": "FP32", "shape": [1, 784]}
zeros = dict(lenet, data=[0.5] * 784)
configuration = {
    "profiles": [DATA + "/profiles"],
    "grpc": "none",
    "http": "unix:h.sock",
    "agent": "unix:a.sock",
    "policy": "fifo",  # under others a request can wait for long
    "limits": {"requests": 20, "http_threads": 40, "notice_s": 0.8},
    "tenants": {"alice": {"weight": 2}, "small": {"requests": 1}},
    "models": {"lenet_b1": {}, "big": {"profile": "vgg16_b32", "instances": 1, "inputs": []}},
}
write("c.json", configuration)


def get(url, headers={}):
    return ask("h.sock", "GET", url, None, headers)


def infer(model="lenet_b1", headers={}, body=None):
    inputs = [] if model == "big" else [zeros]
    return ask("h.sock", "POST", f"/v2/models/{model}/infer", body or {"inputs": inputs}, headers)


def line_of(address, sends=b""):
    """What the agent at a path or a port says, to its end."""
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as s:
        s.settimeout(20)
        s.connect(address if isinstance(address, str) else ("127.0.0.1", address))
        if sends:
            s.sendall(sends)
        got = b""
        while part := s.recv(100):
            got += part
        return got.decode()


def under_load(model, threads, look, enough):
    """Looks while so many threads ask for a model, until it has seen enough."""
    stop = threading.Event()

    def load():
        while not stop.is_set():
            infer(model)

    all = [threading.Thread(target=load) for _ in range(threads)]
    [t.start() for t in all]
    seen = []
    try:
        for _ in range(400):
            seen.append(look())
            if enough(seen[-1]):
                break
            time.sleep(0.005)
    finally:
        stop.set()
        [t.join() for t in all]
    return seen


# HAProxy's agent checks.
s = Server("--config", "c.json")
expect("the agent's address", " agent=unix:a.sock" in s.line, s.line)
expect("an idle server", line_of("a.sock") == "up ready 100%\n", line_of("a.sock"))
expect("agent-send", line_of("a.sock", b"backend/server" * 100) == "up ready 100%\n")
seen = under_load("big", 16, lambda: line_of("a.sock"), lambda line: re.fullmatch(r"up ready [1-5]?\d%\n", line))
expect("the weight follows load", re.fullmatch(r"up ready [1-5]?\d%\n", seen[-1]), seen[-5:])
for _ in range(400):
    line = line_of("a.sock")
    if line == "up ready 100%\n":
        break
    time.sleep(0.01)
expect("the weight rises again", line == "up ready 100%\n", line)

# SIGTERM: for a while it only says that it ends.
s.p.send_signal(signal.SIGTERM)
for _ in range(100):
    line = line_of("a.sock")
    if line == "drain\n":
        break
    time.sleep(0.005)
served, ready = infer()[0], get("/v2/health/ready")[0]
expect("a notice of the end", (line, served, ready) == ("drain\n", 200, 503), (line, served, ready))
rc, out, err = s.end(signals=0)
expect("the end", rc == 0 and err == "" and out.endswith("drained: every request was served\n"), (rc, out, err))
expect("its sockets are gone", not os.path.exists("a.sock") and not os.path.exists("h.sock"))

s = Server("--config", "c.json", "--agent", "127.0.0.1:0")
port = int(re.search(r"agent=127.0.0.1:(\d+)", s.line)[1])
expect("TCP", line_of(port) == "up ready 100%\n")
refused("a port in use", f"127.0.0.1:{port}", "--config", "c.json", "--http", "unix:other.sock", "--agent", f"127.0.0.1:{port}", status=1)
begin = time.monotonic()
rc, out, err = s.end(signals=2)
expect("a second signal ends the notice", rc == 0 and time.monotonic() - begin < 10, (rc, out, err))
refused("an address", "--agent: 'x'", "--agent", "x")
refused("one address twice", "--agent: unix:a is that of --http, too", "--http", "unix:a", "--agent", "unix:a")
refused("a configuration", "/agent: '7'", "--config", write("bad.json", {"agent": "7"}) or "bad.json")

# Load reports over HTTP, in the formats that Envoy reads.
configuration["limits"] = {"requests": 20, "http_threads": 16}
write("c.json", configuration)
s = Server("--config", "c.json", "--log", "log")
asked = "endpoint-load-metrics-format"
said = "endpoint-load-metrics"
expect("no report unasked", infer()[2].get(said) is None)
expect("no report in another format", infer(headers={asked: "xml"})[2].get(said) is None)
text = infer(headers={asked: "TEXT"})[2][said]
values = {k: float(v) for k, v in (one.split("=") for one in text.removeprefix("TEXT ").split(","))}
names = {"cpu_utilization", "application_utilization", "rps_fractional", "eps", "utilization.gpu",
         "named_metrics.queued_device_seconds", "named_metrics.requests_in_service"}
expect("a report as text", text.startswith("TEXT ") and set(values) == names and values["rps_fractional"] > 0, text)
refusal = infer(headers={asked: "json"}, body="x")
report = json.loads(refusal[2][said].removeprefix("JSON "))
expect("a report as JSON, also of an error", refusal[0] == 400 and set(report["named_metrics"]) == {"queued_device_seconds", "requests_in_service"}
       and 0 <= report["utilization"]["gpu"] <= 1, refusal)
seen = under_load("big", 12, lambda: json.loads(infer(headers={asked: "json"})[2][said].removeprefix("JSON ")),
                  lambda r: r["utilization"]["gpu"] > 0.3 and r["named_metrics"]["requests_in_service"] > 3)
expect("a report under load", seen[-1]["utilization"]["gpu"] > 0.3 and seen[-1]["named_metrics"]["requests_in_service"] > 3, seen[-3:])


# And over gRPC, with each answer.
s.end()
s = Server("--config", "c.json", "--log", "log", "--grpc", "unix:g.sock")
infer("nosuch")
big = b"\x0a\x03big"  # ModelInferRequest: the model's name
report = load_report.report("g.sock", big)
expect("a report over gRPC", set(report) == names and report["rps_fractional"] > 0 and report["eps"] > 0, report)
seen = under_load("big", 12, lambda: load_report.report("g.sock", big),
                  lambda r: r["utilization.gpu"] > 0.3 and r["named_metrics.requests_in_service"] > 3)
expect("one under load", 0.3 < seen[-1]["utilization.gpu"] <= 1 and seen[-1]["utilization.gpu"] <= seen[-1]["application_utilization"] and
       0 < seen[-1]["cpu_utilization"] <= 1.5 and seen[-1]["eps"] < seen[-1]["rps_fractional"], seen[-1])
expect("one of an error", load_report.report("g.sock", b"\x0a\x06nosuch").keys() == names)


# Requests have ids, and a line of the log each.
def lines_of(path="log"):
    return [json.loads(line) for line in open(path).read().splitlines()]


def logged(path, want):
    """The lines of a log, once one of them is wanted."""
    for _ in range(400):
        lines = lines_of(path) if os.path.exists(path) else []
        if any(want(line) for line in lines):
            return lines
        time.sleep(0.01)
    return lines


def of(request):
    return lambda line: line.get("request") == request


_, _, headers = infer(headers={"x-request-id": "from-a-header"})
expect("an id from a header", headers["x-request-id"] == "from-a-header", headers)
_, body, headers = infer(body={"id": "from-the-body", "inputs": [zeros]})
expect("an id from the body", headers["x-request-id"] == "from-the-body" and json.loads(body)["id"] == "from-the-body", headers)
made = [infer(headers=h)[2]["x-request-id"] for h in ({}, {}, {"x-request-id": "no spaces"}, {"x-request-id": "x" * 129})]
expect("ids that the server makes", len(set(made)) == 4 and all(re.fullmatch("[0-9a-f]{16}", i) for i in made), made)
status, _, headers = infer("nosuch", {"x-request-id": "lost"})
expect("an id of a refusal", status == 404 and headers["x-request-id"] == "lost")
infer(headers={"x-request-id": "whose", "gsched-tenant": "alice"})
infer(headers={"x-request-id": "last", "gsched-deadline-ms": "0.001"})
lines = {line["request"]: line for line in logged("log", of("last")) if "request" in line}
ok = lines.get("from-a-header", {})
expect("a line of the log", set(ok) == {"time", "level", "request", "model", "tenant", "end", "wait_us", "latency_us", "device"} and
       (ok["level"], ok["model"], ok["tenant"], ok["end"]) == ("info", "lenet_b1", "default", "ok") and 20 < ok["latency_us"] < 1e7 and
       re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", ok["time"]), ok)
late, lost = lines.get("last", {}), lines.get("lost", {})
expect("lines of refusals", late["end"] == "late" and late["reason"] == "deadline" and late["level"] == "warning" and
       "expected at least" in late["error"] and lost["end"] == "not_found" and "'nosuch'" in lost["error"], (late, lost))
expect("a tenant", lines.get("whose", {}).get("tenant") == "alice")
expect("all of them", set(made) <= set(lines))
expect("lines about the server", lines_of()[0]["message"].startswith("serving 2 models"), lines_of()[0])

# Rotation.
os.rename("log", "log.1")
s.p.send_signal(signal.SIGHUP)
expect("a reload", s.p.stdout.readline() == "reloaded: 2 models, 3 tenants\n")
for i in range(400):
    infer(headers={"x-request-id": f"rotated-{i}"})
    if os.path.exists("log") and "rotated" in open("log").read():
        break
    time.sleep(0.01)
expect("after a rename a new log is opened", any(of(f"rotated-{i}")(line) for line in logged("log", of(f"rotated-{i}"))))


# Metrics.
def sample(text, at=None):
    found = re.search("^" + re.escape(text) + r" (\S+)$", at or get("/metrics")[1].decode(), re.M)
    return float(found[1]) if found else None


device = '{device="0"}'
infer(body="x")
burst = [threading.Thread(target=infer, args=("big", {"gsched-tenant": "small"})) for _ in range(6)]
[t.start() for t in burst]
[t.join() for t in burst]
for _ in range(5):  # preempts the work of others
    background = [threading.Thread(target=infer, args=("big",)) for _ in range(3)]
    [t.start() for t in background]
    for _ in range(10):
        infer(headers={"gsched-priority": "real_time"})
    [t.join() for t in background]
    if sample("gsched_preemptions_total" + device):
        break
m = get("/metrics")[1].decode()
expect("preemptions", sample("gsched_preemptions_total" + device, m) > 0)
expect("times by model and tenant", sample('gsched_request_duration_seconds_count{model="lenet_b1",tenant="alice"}', m) == 1 and
       sample('gsched_request_wait_seconds_bucket{model="lenet_b1",tenant="alice",le="+Inf"}', m) == 1)
expect("reasons", sample('gsched_refusals_total{reason="deadline"}', m) == 1 and sample('gsched_refusals_total{reason="unknown_model"}', m) == 3 and
       sample('gsched_refusals_total{reason="protocol"}', m) == 1, m[:3000])
for _ in range(10):  # they may come one after another
    if sample('gsched_refusals_total{reason="tenant_requests"}'):
        break
    burst = [threading.Thread(target=infer, args=("big", {"gsched-tenant": "small"})) for _ in range(6)]
    [t.start() for t in burst]
    [t.join() for t in burst]
expect("a tenant's limit", sample('gsched_refusals_total{reason="tenant_requests"}') > 0)
up, busy, kernels, lanes, sms = (sample(f"gsched_{n}_seconds_total" + device, m) for n in ("device_up", "device_busy", "kernel", "lane_busy", "sm_busy"))
expect("how busy the device was", 0 < kernels < busy < up and busy <= lanes and kernels < sms <= 132.001 * kernels, (up, busy, kernels, lanes, sms))
expect("nothing is left", [sample(f"gsched_{n}" + device, m) for n in ("queue_requests", "queue_seconds", "lanes_in_use")] == [0, 0, 0])
seen = under_load("big", 12, lambda: get("/metrics")[1].decode(),
                  lambda m: sample("gsched_queue_requests" + device, m) > 0 and sample("gsched_queue_seconds" + device, m) > 0.01)
expect("a queue", sample("gsched_queue_requests" + device, seen[-1]) > 0 and sample("gsched_queue_seconds" + device, seen[-1]) > 0.01)


# Events for displays.
def watch(snapshots, path="h.sock"):
    """So many snapshots, and the lines around them."""
    c = Unix(path)
    try:
        c.request("GET", "/events")
        r = c.getresponse()
        if r.status != 200:
            return r.status, r.read()
        got = []
        while len(got) < snapshots:
            line = r.readline().decode()
            if line.startswith("data: "):
                got.append(json.loads(line[6:]))
        return r.headers["Content-Type"], got
    finally:
        c.close()


load = threading.Thread(target=lambda: [infer("big", {"gsched-tenant": "alice"}) for _ in range(60)])
load.start()
kind, snapshots = watch(3)
load.join()
for _ in range(3):  # once what was running has ended
    last = watch(1)[1][0]
    m = get("/metrics")[1].decode()
expect("events", kind == "text/event-stream" and [n["serial"] - snapshots[0]["serial"] for n in snapshots] == [0, 1, 2], snapshots)
expect("rates", snapshots[2]["requests"]["per_s"] > 0 and 0 < snapshots[2]["devices"][0]["busy"] <= 1.05 and
       0 < snapshots[2]["devices"][0]["sms_in_use"] < 132.2, snapshots[2])
time.sleep(0.5)
last, m = watch(1)[1][0], get("/metrics")[1].decode()
of_alice = next(row for row in last["latency"] if (row["model"], row["tenant"]) == ("big", "alice"))
expect("a display's figures are those of /metrics", of_alice["ok"] == 60 == sample('gsched_requests_total{model="big",tenant="alice",end="ok"}', m) and
       last["refusals"]["tenant_requests"] == sample('gsched_refusals_total{reason="tenant_requests"}', m) and
       last["devices"][0]["preemptions"] == sample("gsched_preemptions_total" + device, m), last)
expect("percentiles", 5000 < of_alice["p50_us"] <= of_alice["p99_us"] < 1e7, of_alice)
expect("decisions", {"started", "finished"} <= {d["what"] for d in last["decisions"]} and last["decisions"][0]["model"] == "big", last["decisions"])

# Displays that do not read keep nothing waiting, and there are few of them.
def wait_for_watchers(n):
    for _ in range(400):
        if sample("gsched_watchers") == n:
            break
        time.sleep(0.01)
wait_for_watchers(0) # one that has just left may still count
slow = []
for _ in range(4):
    c = socket.socket(socket.AF_UNIX)
    c.connect("h.sock")
    c.sendall(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
    slow.append(c)
wait_for_watchers(4)
status, line = watch(1)
expect("too many displays", status == 503 and b"as many watch" in line, (status, line))
begin = time.monotonic()
expect("requests beside slow displays", all(infer()[0] == 200 for _ in range(20)) and time.monotonic() - begin < 10)
[c.close() for c in slow]
wait_for_watchers(0)
expect("displays that have left", sample("gsched_watchers") == 0 and watch(1)[0] == "text/event-stream")

# The page, without a browser.
status, body, headers = get("/")
policy = headers["Content-Security-Policy"]
nonce = re.search("script-src 'nonce-([0-9a-f]{16})'", policy)[1]
page = body.decode()
expect("a page", status == 200 and headers["Content-Type"].startswith("text/html") and policy.startswith("default-src 'none'; ") and
       page.count(f'nonce="{nonce}"') == 3 and "@" not in re.sub(r"@media", "", page), policy)
expect("nothing from elsewhere", not re.search(r"(src|href)=|https?://(?!www.w3.org/2000/svg)|url\(", page), page[:200])
expect("another nonce each time", nonce not in get("/")[2]["Content-Security-Policy"])

# A trace of what was last.
infer("big")
status, body, headers = get("/trace?seconds=60")
events = json.loads(body)["traceEvents"]
by_phase = {}
for e in events:
    by_phase.setdefault(e["ph"], []).append(e)
expect("a trace", status == 200 and "attachment" in headers["Content-Disposition"] and set(by_phase) == {"M", "X", "b", "e"}, set(by_phase))
expect("spans begin and end", sorted(e["id"] for e in by_phase["b"]) == sorted(e["id"] for e in by_phase["e"]))
rows = {e["tid"]: e["args"]["name"] for e in by_phase["M"] if e["name"] == "thread_name"}
expect("rows", {"lane 0", "preemption", "requests of alice", "requests of default"} <= set(rows.values()), rows)
ends = {}
overlap = 0
for e in sorted(by_phase["X"], key=lambda e: e["ts"]):
    overlap += e["ts"] < ends.get(e["tid"], 0) - 0.0015  # microseconds of three decimals
    ends[e["tid"]] = max(ends.get(e["tid"], 0), e["ts"] + e["dur"])
expect("slices of a row do not overlap", overlap == 0 and len(by_phase["X"]) > 100, (overlap, len(by_phase["X"])))
short = json.loads(get("/trace?seconds=0.000001")[1])["traceEvents"]
expect("fewer seconds", len(short) < len(events), len(short))
for wrong in ("0", "x", "-1", "1e9", "nan", ""):
    expect(f"seconds={wrong}", get(f"/trace?seconds={wrong}")[0] == 400)
slow = socket.socket(socket.AF_UNIX)
slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
slow.connect("h.sock")
slow.sendall(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
reads = socket.socket(socket.AF_UNIX)
reads.connect("h.sock")
reads.sendall(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
time.sleep(0.2)
begin = time.monotonic()
rc, out, err = s.end()
slow.close()
got = b""
while part := reads.recv(65536):
    got += part
reads.close()
expect("events to the server's end, and nothing after them", got.count(b"HTTP/1.1") == 1 and got.count(b"\nid: ") >= 1 and got.endswith(b"}\n\n"), got[-300:])
expect("its end, in spite of a display that does not read", rc == 0 and err == "" and time.monotonic() - begin < 10, (rc, err))
expect("the last line of its log", lines_of()[-1]["message"] == "drained: every request was served")
configuration["limits"]["trace_events"] = 0
write("c.json", configuration)

# A log that cannot be written: a full disk, and a pipe that nothing reads.
s = Server("--config", "c.json", "--log", "/dev/full")
expect("requests without a log", all(infer()[0] == 200 for _ in range(20)))
for _ in range(400):
    lost = sample("gsched_log_lines_dropped_total")
    if lost >= 21:
        break
    time.sleep(0.01)
expect("lines that are lost are counted", lost == 21 and sample("gsched_log_lines_total") == 0, lost)
expect("no events are kept", get("/trace")[0] == 404 and watch(1)[1][0]["decisions"] == [])
rc, out, err = s.end()
expect("one line says so", rc == 0 and err == "gsched_server: --log: lines are dropped: No space left on device; serving goes on\n", (rc, err))

os.mkfifo("fifo")
reader = os.open("fifo", os.O_RDONLY | os.O_NONBLOCK)  # and reads nothing
s = Server("--config", "c.json", "--log", "fifo")
begin = time.monotonic()
for _ in range(10):
    c = Unix("h.sock")
    for _ in range(30):  # more than a pipe holds
        c.request("POST", "/v2/models/nosuch/infer", "{}", {"x-request-id": "x" * 128})
        c.getresponse().read()
    c.close()
expect("a pipe that nothing reads", infer()[0] == 200 and time.monotonic() - begin < 60)
rc, out, err = s.end()
expect("an end with a full pipe", rc == 0 and "every request was served" in out, (rc, out, err))
os.close(reader)

s = Server("--config", "c.json", "--log", "-")
infer(headers={"x-request-id": "shown"})
rc, out, err = s.end()
lines = [json.loads(line) for line in out.splitlines()]
expect("a log on standard output", [line.get("message", line.get("request"))[:7] for line in lines] == ["serving", "shown", "drained"], out)
refused("a log in no folder", "none/log", "--config", "c.json", "--log", "none/log", status=1)
refused("an empty log", "--log: ", "--config", "c.json", "--log", "")

finish()
