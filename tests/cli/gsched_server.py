# SPDX-License-Identifier: Apache-2.0
"""Runs gsched_server and talks REST to it: answers, refusals, limits, metrics, a reload and drains.

usage: gsched_server.py BIN DATA
"""

import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

from network_program import BIN, DATA, Server, Unix, ask, expect, finish, refused, write

os.chdir(tempfile.mkdtemp())
lenet = {"name": "input", "datatype": "FP32", "shape": [1, 784]}
zeros = dict(lenet, data=[0.5] * 784)
configuration = {
    "profiles": [DATA + "/profiles"],
    "grpc": "none",
    "http": "unix:h.sock",
    "limits": {"requests": 40, "request_bytes": 1 << 20, "http_threads": 24, "drain_s": 20},
    "tenants": {"small": {"requests": 1, "real_time": False}, "slow": {"rate": 0.001, "burst": 1, "weight": 2}},
    "models": {
        "lenet_b1": {},
        "big": {"profile": "vgg16_b32", "instances": 2, "inputs": [], "outputs": [{"name": "y", "datatype": "FP16", "shape": [3]}]},
        "typed": {"profile": "lenet_b1",
                  "inputs": [{"name": "a", "datatype": "INT8", "shape": [2, 2]}, {"name": "b", "datatype": "BOOL", "shape": [3]}],
                  "outputs": [{"name": "x", "datatype": "INT64", "shape": [2]}, {"name": "y", "datatype": "BOOL", "shape": [1]}]},
    },
}
write("c.json", configuration)
expect("--check", subprocess.run([BIN, "--config", "c.json", "--check"], capture_output=True, text=True).stdout
       == "3 models, 3 tenants: as they should be\n")
s = Server("--config", "c.json")
expect("what it says first", s.line.startswith("serving 3 models on sim:h200, srpt+deficit: http=unix:h.sock"), s.line)
get = lambda url: ask("h.sock", "GET", url)
post = lambda url, body, headers={}: ask("h.sock", "POST", url, body, headers)

# What there is.
for url, key in (("/v2", "extensions"), ("/v2/health/live", "live"), ("/v2/health/ready", "ready"), ("/v2/models/big", "platform"),
                 ("/v2/models/big/ready", "ready"), ("/v2/models/big/versions/1", "inputs")):
    status, body, _ = get(url)
    expect(url, status == 200 and key in json.loads(body), body)
expect("platform", json.loads(get("/v2/models/lenet_b1")[1])["platform"] == "gsched_simulated_profile")
status, body, _ = post("/v2/repository/index", {"ready": True})
expect("index", [m["name"] for m in json.loads(body)] == ["big", "lenet_b1", "typed"], body)

# Inference, in JSON and in binary.
infer = lambda body, headers={}, model="lenet_b1": post(f"/v2/models/{model}/infer", body, headers)
status, body, _ = infer({"id": "7", "inputs": [zeros]})
answer = json.loads(body)
expect("JSON", status == 200 and answer["id"] == "7" and answer["outputs"][0]["data"] == [0.0] * 10 and
       answer["parameters"]["latency_us"] > 20, body)
typed = [{"name": "b", "datatype": "BOOL", "shape": [3], "data": [True, 0, 1]},
         {"name": "a", "datatype": "INT8", "shape": [2, 2], "data": [[1, -128], [127, 0]]}]
status, body, _ = infer({"inputs": typed, "outputs": [{"name": "y"}, {"name": "x"}]}, model="typed")
expect("types", status == 200 and [o["data"] for o in json.loads(body)["outputs"]] == [[False], [0, 0]], body)
head = json.dumps({"inputs": [dict(lenet, parameters={"binary_data_size": 3136})], "parameters": {"binary_data_output": True}}).encode()
raw = struct.pack("<784f", *range(784))
status, body, headers = infer(head + raw, {"Inference-Header-Content-Length": str(len(head))})
n = int(headers.get("Inference-Header-Content-Length", 0))
expect("binary", status == 200 and json.loads(body[:n])["outputs"][0]["parameters"] == {"binary_data_size": 40} and
       body[n:] == bytes(40), (status, body[:200]))
status, body, headers = infer({"inputs": []}, model="big")
expect("FP16 is binary", status == 200 and body[int(headers["Inference-Header-Content-Length"]):] == bytes(6), body)
c = Unix("h.sock")
for i in range(3):  # on one connection
    c.request("POST", "/v2/models/lenet_b1/infer", json.dumps({"inputs": [zeros]}), {"gsched-tenant": "nobody", "gsched-priority": "real_time"})
    r = c.getresponse()
    expect("kept alive", r.status == 200 and r.read())
c.close()

# Bad requests: a status, and one line that says what is wrong.
bad = [
    (404, "unknown", "nosuch", {"inputs": [zeros]}, {}), (404, "version '2'", "lenet_b1/versions/2", {"inputs": [zeros]}, {}),
    (400, "byte 1 is not JSON", "lenet_b1", "x", {}), (400, "empty", "lenet_b1", "", {}), (400, "a array", "lenet_b1", "[]", {}),
    (400, "missing", "lenet_b1", {}, {}), (400, "unknown, expected input", "lenet_b1", {"inputs": [dict(zeros, name="x")]}, {}),
    (400, "there twice", "lenet_b1", {"inputs": [zeros, zeros]}, {}), (400, "expected FP32", "lenet_b1", {"inputs": [dict(zeros, datatype="INT8")]}, {}),
    (400, "shape [784]", "lenet_b1", {"inputs": [dict(zeros, shape=[784])]}, {}), (400, "shape: not of whole", "lenet_b1", {"inputs": [dict(zeros, shape=[-1, 784])]}, {}),
    (400, "3132 bytes", "lenet_b1", {"inputs": [dict(zeros, data=[0] * 783)]}, {}), (400, "more than 784", "lenet_b1", {"inputs": [dict(zeros, data=[0] * 785)]}, {}),
    (400, "0 bytes", "lenet_b1", {"inputs": [dict(zeros, data=[])]}, {}), (400, "element 1 is 128", "typed", {"inputs": [dict(typed[1], data=[1, 128, 0, 0]), typed[0]]}, {}),
    (400, "element 0 is null", "lenet_b1", {"inputs": [dict(zeros, data=[None] * 784)]}, {}), (400, "element 0 is 1e+39", "lenet_b1", {"inputs": [dict(zeros, data=[1e39] * 784)]}, {}),
    (400, "nested deeper", "lenet_b1", "[" * 9000, {}), (400, "of JSON, expected at most", "lenet_b1", " " * 200000, {}), (400, "too large", "lenet_b1", '{"a":1e999}', {}),
    (400, "bytes are left", "lenet_b1", {"inputs": [dict(lenet, parameters={"binary_data_size": 9})]}, {"Inference-Header-Content-Length": "109"}),
    (400, "expected a whole number", "lenet_b1", {}, {"Inference-Header-Content-Length": "x"}), (400, "expected at most", "lenet_b1", "{}", {"Inference-Header-Content-Length": "3"}),
    (400, "after the last input", "lenet_b1", json.dumps({"inputs": [zeros]}) + "xy", {"Inference-Header-Content-Length": str(len(json.dumps({"inputs": [zeros]})))}),
    (400, "output 'z'", "lenet_b1", {"inputs": [zeros], "outputs": [{"name": "z"}]}, {}),
    (400, "priority", "lenet_b1", {"inputs": [zeros], "parameters": {"priority": 1}}, {}), (400, "deadline_ms: 0", "lenet_b1", {"inputs": [zeros], "parameters": {"deadline_ms": 0}}, {}),
    (400, "deadline_ms: 'x'", "lenet_b1", {"inputs": [zeros]}, {"gsched-deadline-ms": "x"}), (400, "real_time: 'yes'", "lenet_b1", {"inputs": [zeros]}, {"gsched-real-time": "yes"}),
    (504, "expected at least", "big", {"inputs": [], "parameters": {"deadline_ms": 0.5}}, {}),
    (403, "tenant 'small'", "lenet_b1", {"inputs": [zeros], "parameters": {"tenant": "small", "real_time": True}}, {}),
    (415, "Content-Encoding", "lenet_b1", "{}", {"Content-Encoding": "gzip"}), (413, "too large", "lenet_b1", " " * ((1 << 20) + 1), {}),
]
for status, text, model, body, headers in bad:
    got, answer, more = post(f"/v2/models/{model}/infer", body, headers)
    try:
        line = json.loads(answer)["error"]
    except ValueError:
        line = "no JSON"
    expect(f"{status} with '{text}'", got == status and text in line and "\n" not in line, (got, answer))
for url in ("/v2/nothing", "/v2/models", "/v2/models/lenet_b1/x", "/v2/health", "/x" * 400):
    expect(f"no {url[:20]}", get(url)[0] == 404)
expect("a long path", get("/" + "x" * 4000)[0] == 414)
with socket.socket(socket.AF_UNIX) as junk:
    junk.connect("h.sock")
    junk.sendall(b"\x00\xffjunk\r\n\r\n")
    expect("junk", b"400" in junk.recv(1000))
with socket.socket(socket.AF_UNIX) as chunks:  # without a length
    chunks.settimeout(20)
    chunks.connect("h.sock")
    chunks.sendall(b"POST /v2/models/lenet_b1/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    try:
        for _ in range(64):
            chunks.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
        answer = chunks.recv(1000)
    except OSError:
        answer = b""
    expect("chunks without end", b" 200 " not in answer, answer)

# Limits: one request a tenant, a rate, all of them.
def burst(n, body, headers, model):
    got = []
    def one():
        got.append(infer(body, headers, model))
    threads = [threading.Thread(target=one) for _ in range(n)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    return got


for _ in range(10):  # on a loaded machine they may come one after another
    got = burst(6, {"inputs": []}, {"gsched-tenant": "small"}, "big")
    over = [(json.loads(body)["error"], headers["Retry-After"]) for status, body, headers in got if status == 429]
    if over:
        break
expect("a tenant's limit", any(g[0] == 200 for g in got) and over and all("'small'" in line and int(after) >= 1 for line, after in over), got)
got = [infer({"inputs": [zeros]}, {"gsched-tenant": "slow"}) for _ in range(2)]
expect("a rate", [g[0] for g in got] == [200, 429] and int(got[1][2]["Retry-After"]) > 100, got)

# A client that leaves: its request is cancelled.
for _ in range(10):
    with socket.socket(socket.AF_UNIX) as leaves:
        threads = [threading.Thread(target=infer, args=({"inputs": []}, {}, "big")) for _ in range(16)]
        [t.start() for t in threads]
        leaves.connect("h.sock")
        leaves.sendall(b'POST /v2/models/big/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n\r\n{"inputs":[]}')
        time.sleep(0.02)
    [t.join() for t in threads]
    time.sleep(0.1)
    cancelled = b'{model="big",tenant="default",end="cancelled"}' in get("/metrics")[1]
    if cancelled:
        break
expect("a client that leaves cancels", cancelled)

# Metrics by the rules of their format.
status, body, headers = get("/metrics")
metrics = body.decode()
expect("metrics", status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4"))
families = {}
for line in metrics.splitlines():
    m = re.fullmatch(r"# (HELP|TYPE) ([a-z_]+) (.+)", line)
    if m:
        families.setdefault(m[2], []).append(m[1])
        continue
    m = re.fullmatch(r'([a-z_]+?)(_bucket|_sum|_count)?(\{(?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)+\})? ([-+0-9.e]+)', line)
    name = m and (m[1] if m[1] in families else m[1] + (m[2] or ""))
    expect("a sample of a family", m and families.get(name) == ["HELP", "TYPE"], line)
def sample(text):
    found = re.search("^" + re.escape(text) + r" (\S+)$", metrics, re.M)
    return float(found[1]) if found else None


expect("a count", sample('gsched_requests_total{model="typed",tenant="default",end="ok"}') == 1)
expect("a count of refusals", sample('gsched_requests_total{model="lenet_b1",tenant="slow",end="exhausted"}') == 1)
expect("unknown models have no name", sample('gsched_requests_total{model="",tenant="",end="not_found"}') == 2)
expect("a histogram", sample('gsched_request_duration_seconds_bucket{model="typed",tenant="default",le="+Inf"}') == 1
       and sample('gsched_request_duration_seconds_count{model="typed",tenant="default"}') == 1)
expect("nothing is left", sample('gsched_requests_active{tenant="default"}') == 0, metrics[-1500:])

# A reload under load: no request is dropped.
wrong = []
stop = threading.Event()
def load():
    while not stop.is_set():
        status, body, _ = infer({"inputs": [zeros]})
        if status != 200:
            wrong.append((status, body))
threads = [threading.Thread(target=load) for _ in range(3)]
[t.start() for t in threads]
del configuration["models"]["typed"]
configuration["models"]["late"] = {"profile": "lenet_b8"}
configuration["limits"]["requests"] = 30
for i in range(4):
    configuration["models"]["lenet_b1"] = {"instances": 2 + i}  # another model of the same name
    write("c.json", configuration)
    s.p.send_signal(signal.SIGHUP)
    expect("a reload", s.p.stdout.readline() == "reloaded: 3 models, 3 tenants\n")
stop.set()
[t.join() for t in threads]
expect("no request was dropped by a reload", not wrong, wrong[:3])
expect("models of the new configuration", get("/v2/models/late")[0] == 200 and get("/v2/models/typed")[0] == 404)
expect("instances", json.loads(get("/v2/models/lenet_b1")[1])["properties"]["instances"] == "5")
refusals = []
for fault, text in (({"policy": "fifo"}, "policy"), ({"typo": 1}, "typo"), ({"models": {}}, "one model")):
    write("c.json", configuration | fault)
    s.p.send_signal(signal.SIGHUP)
    refusals.append((s.p.stderr.readline(), text))
expect("bad configurations change nothing", all(line.startswith("gsched_server: not reloaded: ") and text in line for line, text in refusals), refusals)
write("c.json", configuration)
refused("an address in use", "in use", "--config", "c.json", status=1)
refused("no folder", "none/h.sock", "--config", "c.json", "--http", "unix:none/h.sock", status=1)
refused("no folder", "none/g.sock", "--config", "c.json", "--grpc", "unix:none/g.sock", "--http", "none", status=1)
refused("another machine's address", "192.0.2.1:7", "--config", "c.json", "--http", "192.0.2.1:7", status=1)
refused("another machine's address", "192.0.2.1:7", "--config", "c.json", "--grpc", "192.0.2.1:7", "--http", "none", status=1)
write("a_file", "x")
refused("a file", "a file", "--config", "c.json", "--http", "unix:a_file", status=1)
with socket.socket() as taken:
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    port = f"127.0.0.1:{taken.getsockname()[1]}"
    refused("a port in use", port, "--config", "c.json", "--http", port, status=1)
    refused("a port in use", port, "--config", "c.json", "--grpc", port, "--http", "none", status=1)
with socket.socket(socket.AF_UNIX) as taken:
    taken.bind("taken.sock")
    taken.listen()
    refused("a channel in use", "in use", "--config", "c.json", "--http", "none", "--socket", "taken.sock", status=1)
    refused("a socket in use", "in use", "--config", "c.json", "--grpc", "unix:taken.sock", "--http", "none", status=1)
tcp = Server("--config", "c.json", "--http", "127.0.0.1:0", "--grpc", "unix:taken.sock")  # which nothing listens on now
port = int(re.search(r"http=127.0.0.1:(\d+)", tcp.line)[1])
c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
c.request("GET", "/v2/health/ready")
expect("TCP", c.getresponse().status == 200)
c.close()
expect("its end", tcp.end()[0] == 0)

# A drain under load: each request that was sent has an answer, and what was accepted was served.
answers, errors = [], []
stop = threading.Event()
def load(model):
    while not stop.is_set():
        try:
            answers.append(infer({"inputs": [] if model == "big" else [zeros]}, {}, model)[0])
        except (FileNotFoundError, ConnectionRefusedError):
            return  # it listens no more
        except OSError as e:
            errors.append(repr(e))
threads = [threading.Thread(target=load, args=(m,)) for m in ["big"] * 3 + ["lenet_b1"] * 3]
[t.start() for t in threads]
for _ in range(1000):
    time.sleep(0.01)
    if answers.count(200) > 50:
        break
rc, out, err = s.end()
stop.set()
[t.join() for t in threads]
expect("a drain loses nothing", not errors and set(answers) <= {200, 503} and answers.count(200) > 10, (errors[:3], set(answers), len(answers)))
expect("the end of a drain", rc == 0 and err == "" and out.endswith("drained: every request was served\n"), (rc, out, err))
expect("its socket is gone", not os.path.exists("h.sock"))

# Several devices: a server for each, and a socket of the channel.
placed = configuration | {"device": "sim,sim:h200", "socket": "ch.sock",
                          "models": {"lenet_b1": {}, "one": {"profile": "lenet_b1", "devices": [1]}}}
write("c.json", placed)
s = Server("--config", "c.json")
expect("two devices", s.line.startswith("serving 2 models on sim:h200,sim:h200, ") and "socket=ch.sock.0 socket=ch.sock.1" in s.line
       and os.path.exists("ch.sock.0") and os.path.exists("ch.sock.1") and not os.path.exists("ch.sock"), s.line)
expect("where a model is", [json.loads(get(f"/v2/models/{m}")[1])["properties"]["devices"] for m in ("lenet_b1", "one")] == ["0,1", "1"])
for _ in range(10):  # until two overlap
    got = burst(16, {"inputs": [zeros]}, {}, "lenet_b1")
    expect("both devices serve", all(g[0] == 200 for g in got), got)
    metrics = get("/metrics")[1].decode()
    if sample('gsched_device_requests_total{device="1"}'):
        break
expect("requests of both devices", all(sample(f'gsched_device_requests_total{{device="{d}"}}') > 0 and sample(f'gsched_device_ready{{device="{d}"}}') == 1 for d in (0, 1)), metrics)
was = sample('gsched_device_requests_total{device="1"}')
expect("a model of one device", infer({"inputs": [zeros]}, {}, "one")[0] == 200)
metrics = get("/metrics")[1].decode()
expect("it ran there", sample('gsched_device_requests_total{device="1"}') == was + 1 and sample('gsched_device_queued_seconds{device="1"}') == 0, metrics)
placed["models"]["one"]["devices"] = [0]
write("c.json", placed)
s.p.send_signal(signal.SIGHUP)
expect("a model moves", s.p.stdout.readline().startswith("reloaded: 2 models") and json.loads(get("/v2/models/one")[1])["properties"]["devices"] == "0")
write("c.json", placed | {"device": "sim"})
s.p.send_signal(signal.SIGHUP)
expect("devices stay", "device: differs" in s.p.stderr.readline())
expect("the end of two devices", s.end()[0] == 0 and not os.path.exists("ch.sock.1"))

# Models where a plan has them.
plan = [os.path.join(os.path.dirname(BIN), "plan"), "--gpus", "2", "--planner", "elastic"]
subprocess.run([*plan, "--rates", "vgg16=3000,resnet50=3000", "--json", "plan.json"], check=True, capture_output=True)
on = {}
for part in json.load(open("plan.json"))["runs"][0]["plan"]:
    for portion in part["portions"]:
        on.setdefault(portion["model"], set()).add(part["gpu"])
expect("a plan for two GPUs", set().union(*on.values()) == {0, 1}, on)
s = Server("--device", "sim,sim", "--plan", "plan.json", "--grpc", "none", "--http", "unix:h.sock")
served = [m["name"] for m in json.loads(ask("h.sock", "POST", "/v2/repository/index", {"ready": True})[1])]
expect("the plan's models", {m.rsplit("_b", 1)[0] for m in served} == set(on) and len(served) > 2, served)
for m in served:
    where = json.loads(get(f"/v2/models/{m}")[1])["properties"]["devices"]
    expect(f"{m} is where the plan has it", where == ",".join(map(str, sorted(on[m.rsplit("_b", 1)[0]]))), where)
expect("the end of a plan", s.end()[0] == 0)
r = subprocess.run([BIN, "--device", "sim,sim", "--plan", "plan.json", "--check"], capture_output=True, text=True, timeout=60)
expect("a plan whose partitions are not kept", r.returncode == 0 and r.stderr.count("\n") == 1 and " SMs, and models on a device share it in time" in r.stderr, r.stderr)
subprocess.run([*plan[:-1], "sbp", "--rates", "vgg16=3000", "--json", "whole.json"], check=True, capture_output=True)
r = subprocess.run([BIN, "--device", "sim,sim", "--plan", "whole.json", "--check"], capture_output=True, text=True, timeout=60)
expect("a plan of whole GPUs", r.returncode == 0 and r.stderr == "", r.stderr)
subprocess.run([*plan, "--rates", "vgg16=60", "--json", "small.json"], check=True, capture_output=True)
refused("a plan of more GPUs", "/runs/0/plan/", "--plan", "plan.json", "--check")
write("placed.json", {"plan": "small.json", "models": {"lenet_b1": {}}})
refused("a model without a place", "no model 'lenet_b1' in the plan", "--config", "placed.json", "--check")
write("placed.json", {"plan": "small.json", "models": {"vgg16_b32": {}, "lenet_b1": {"devices": [0]}}})
r = subprocess.run([BIN, "--config", "placed.json", "--check"], capture_output=True, text=True, timeout=60)
expect("a plan, and a model beside it", r.returncode == 0 and "2 models" in r.stdout, r.stderr)
for text, wrong in (("{}", "/runs is missing"), ('{"runs": []}', "has 0 plans"), ('{"runs": [{"plan": null}]}', "is no plan"),
                    ('{"runs": [{"plan": [{"gpu": -1, "portions": []}]}]}', "/gpu is -1"), ('{"runs": [{"plan": [{"gpu": 0}]}]}', "no portions"),
                    ('{"runs": [{"plan": [{"gpu": 0, "portions": [{}]}]}]}', "without a model"), ("[", "")):
    with open("wrong.json", "w") as f:
        f.write(text)
    refused(f"a plan {text}", wrong, "--plan", "wrong.json", "--check")
refused("no plan there", "none.json", "--plan", "none.json", "--check")
write("c.json", configuration)

# Adaptors: an example, if it was built.
if os.path.exists(library := os.path.join(os.path.dirname(BIN), "libvector_add.so")):
    s = Server("--http", "unix:h.sock", "--grpc", "none", "--adaptor", library, "--adaptor", library + ":twin")
    expect("two adaptors alone", s.line.startswith("serving 2 models on sim:h200"), s.line)
    expect("the platform of an adaptor", json.loads(get("/v2/models/vector_add")[1])["platform"] == "gsched_adaptor")
    vectors = [{"name": n, "datatype": "FP32", "shape": [4], "data": d} for n, d in (("a", [1, 2.5, -3, 1e30]), ("b", [0.25, 1, 3, 3e38]))]
    for model in ("vector_add", "twin"):
        status, body, _ = infer({"inputs": vectors}, model=model)
        expect("a sum over REST", status == 200 and json.loads(body)["outputs"][0]["data"] == [1.25, 3.5, 0, 3e38], body)
    vectors[0]["data"][3] = 3e38  # which has no sum
    expect("a sum without a number", json.loads(infer({"inputs": vectors}, model="twin")[1])["outputs"][0]["data"][3] is None)
    head = json.dumps({"inputs": [{"name": n, "datatype": "FP32", "shape": [4], "parameters": {"binary_data_size": 16}} for n in "ab"],
                       "parameters": {"binary_data_output": True}})
    head += " " * (len(head) % 2 == 0)  # then the bytes are at an odd address
    status, body, headers = post("/v2/models/twin/infer", head.encode() + struct.pack("<8f", *range(8)), {"Inference-Header-Content-Length": str(len(head))})
    expect("a sum in binary", status == 200 and struct.unpack("<4f", body[int(headers["Inference-Header-Content-Length"]):]) == (4, 6, 8, 10), body)
    expect("the end of adaptors", s.end()[0] == 0)
    refused("two models of a name", "two models are named 'vector_add'", "--adaptor", library, "--adaptor", library, "--check")
    refused("a model without a name", "--adaptor: ", "--adaptor", library + ":", "--check")
    write("bad.json", {"models": {"x": {"adaptor": library, "inputs": []}}})
    refused("tensors beside an adaptor", "beside its adaptor", "--config", "bad.json", "--check")
    write("bad.json", {"slow_down_limit": 1.5, "models": {"x": {"adaptor": library}, "resnet50_b1": {}}})
    refused("a limit beside an unknown model", "the slow-downs of 'x'", "--config", "bad.json", "--check")
    write("limited.json", {"slow_down_limit": 1.5, "models": {"x": {"adaptor": library, "profile": "vgg16_b32"}, "resnet50_b1": {}}})
    r = subprocess.run([BIN, "--config", "limited.json", "--check"], capture_output=True, text=True, timeout=60)
    expect("an adaptor with a profile of its kernels", r.stdout == "2 models, 1 tenants: as they should be\n", r.stderr)
write("bad.json", {"models": {"lenet_b1": {"parameters": "x"}}})
refused("parameters without an adaptor", "has parameters", "--config", "bad.json", "--check")
refused("no library", "none.so", "--adaptor", "none.so", "--check")
refused("not a library", "adaptor a_file: ", "--adaptor", "a_file", "--check")

# Predicted slow-downs beyond what the law was fitted to.
with open(DATA + "/interference/h200.json") as f:
    law = json.load(f)
law["seen"]["dram"] = 0.1
write("law.json", law)
write("beyond.json", {"slow_down_limit": 1.5, "slow_downs": "law.json", "models": {"vgg16_b32": {}, "lenet_b1": {}, "resnet50_b32": {}}})
r = subprocess.run([BIN, "--config", "beyond.json", "--check"], capture_output=True, text=True, timeout=60)
line = "gsched_server: slow-downs predicted beyond what the fit has seen: lenet_b1 beside resnet50_b32: more dram, and 4 pairs more\n"
expect("what is extrapolated", r.stdout.startswith("3 models") and r.stderr == line, r.stderr)

# Bad command lines and configurations.
refused("a device", "unknown device ''", "--device", "sim,")
refused("too many devices", "more than 64", "--device", ",".join(["sim"] * 65))
for options in (["--device", "sim,cuda:1000"], ["--config", "gpu.json"]):  # without CUDA, without a driver, or with fewer of them
    write("gpu.json", {"device": ["sim", "cuda:1000"]})
    r = subprocess.run([BIN, *options, "--check"], capture_output=True, text=True, timeout=60)
    expect("a GPU that is not here", r.returncode in (1, 2) and r.stdout == "" and r.stderr.count("\n") == 1 and "expected" in r.stderr
           and ("CUDA" in r.stderr or "GPU" in r.stderr), (r.returncode, r.stderr))
refused("a policy", "unknown policy 'direct'", "--policy", "direct")
refused("an address", "--grpc: 'x'", "--grpc", "x")
refused("a port", "--http: '65536'", "--http", "localhost:65536")
refused("no front end", "--grpc: none", "--grpc", "none", "--http", "none")
refused("one address twice", "--http: unix:a", "--grpc", "unix:a", "--http", "unix:a")
refused("no configuration", "--config: ", "--config", "none.json")
for fault, text in [("", "empty"), ("[]", "an object"), ("{", "ends too early"), ('{"grpc":1}', "/grpc is 1"), ('{"a":1}', "unknown key 'a'"),
                    ('{"models":{"lenet_b1":{"x":1}}}', "/models/lenet_b1 has the unknown key 'x'"), ('{"models":{"nosuch":{}}}', "unknown model 'nosuch'"),
                    ('{"models":{"lenet_b1":{"inputs":[{"name":"x","datatype":"BYTES","shape":[1]}]}}}', "datatype"),
                    ('{"models":{"lenet_b1":{"inputs":[{"name":"x","datatype":"INT8","shape":[-1]}]}}}', "/shape/0"),
                    ('{"models":{"lenet_b1":{"inputs":[{"name":"x","datatype":"INT8","shape":[1073741824,1073741824]}]}}}', "too many"),
                    ('{"models":{"lenet_b1":{"inputs":[{"name":"x","datatype":"FP64","shape":[1073741824]}]}}}', "inputs of 8589934592 bytes"),
                    ('{"models":{"lenet_b1":{"devices":[1]}}}', "on device 1"), ('{"device":["sim","sim"],"models":{"lenet_b1":{"devices":[1,1]}}}', "device 1 twice"),
                    ('{"device":[]}', "/device is"), ('{"models":{"lenet_b1":{"devices":[]}}}', "/devices is"),
                    ('{"models":{"lenet_b1":{"instances":0}}}', "/instances is 0"), ('{"tenants":{"a":{"weight":0}}}', "/tenants/a/weight is 0"),
                    ('{"limits":{"requests":1,"requests":2}}', "twice"), ('{"policy":"lifo"}', "/policy: unknown policy"), ('{"device":"cud"}', "unknown device 'cud'")]:
    write("bad.json", fault)
    refused(f"the configuration {fault[:40]}", text, "--config", "bad.json", "--check")

# Without options: sockets in a folder of this user's.
os.environ["XDG_RUNTIME_DIR"] = os.getcwd()
s = Server("--profiles", DATA + "/profiles/lenet_b1.json")
expect("the default addresses", os.stat("gsched").st_mode & 0o777 == 0o700 and ask("gsched/http.sock", "GET", "/v2/health/ready")[0] == 200
       and os.path.exists("gsched/grpc.sock") and os.stat("gsched/grpc.sock").st_mode & 0o077 == 0, s.line)
rc, out, err = s.end()
expect("a drain of nothing", rc == 0 and err == "" and not os.path.exists("gsched/grpc.sock"), (rc, err))

# A client that has sent half of a request does not keep it from ending.
s = Server("--config", "c.json")
with socket.socket(socket.AF_UNIX) as half:
    half.connect("h.sock")
    half.sendall(b"POST /v2/models/lenet_b1/infer HTTP/1.1\r\nContent-Length: 5\r\n")
    time.sleep(0.05)
    begin = time.monotonic()
    rc, out, err = s.end()
    expect("half of a request", rc == 0 and err == "" and time.monotonic() - begin < 10, (rc, err))

# A second SIGTERM cancels what is left.
write("c.json", dict(configuration, policy="fifo", models={"big": {"profile": "vgg16_b32", "instances": 1, "inputs": []}}))
s = Server("--config", "c.json")
got = []
def one():
    try:
        got.append(infer({"inputs": []}, {}, "big")[0])
    except (FileNotFoundError, ConnectionRefusedError):
        got.append(503)  # on a loaded machine: it came after the end
threads = [threading.Thread(target=one) for _ in range(20)]
[t.start() for t in threads]
time.sleep(0.05)
rc, out, err = s.end(signals=2)
[t.join() for t in threads]
expect("two signals", rc == 0 and set(got) <= {200, 503} and len(got) == 20, (rc, out, err, got))

finish()
