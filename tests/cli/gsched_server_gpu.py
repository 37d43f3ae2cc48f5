# SPDX-License-Identifier: Apache-2.0
"""Runs gsched_server on a GPU: stand-ins of profiles, an adaptor that computes there, clients of the channel, and models
that are kept apart.

usage: gsched_server_gpu.py BIN DATA
"""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time

from network_program import BIN, DATA, Server, ask, expect, finish, refused, write

WHERE = ["--profiles", DATA + "/profiles", "--grpc", "none", "--http", "unix:h.sock"]
os.chdir(folder := tempfile.mkdtemp())


def leave():
    os.chdir("/")
    shutil.rmtree(folder)


r = subprocess.run([BIN, *WHERE, "--device", "cuda:0", "--check"], capture_output=True, text=True, timeout=120)
if r.returncode != 0:
    line = r.stderr
    expect("one line without a GPU", line.count("\n") == 1 and r.stdout == "" and ("CUDA" in line or "GPU" in line), (r.returncode, line))
    leave()
    print("gsched_server_gpu, no GPU here: passed over")
    finish()
refused("a GPU that is not there", "GPU", "--device", "cuda:1000", "--check", *WHERE, status=1)


def infer(model, body, headers={}):
    return ask("h.sock", "POST", f"/v2/models/{model}/infer", body, headers)


def metric(name):
    text = ask("h.sock", "GET", "/metrics")[1].decode()
    found = re.search("^" + re.escape(name) + r" (\S+)$", text, re.M)
    return float(found[1]) if found else None


models = {"lenet_b1": {}, "big": {"profile": "resnet50_b8", "instances": 2}, "small": {"profile": "resnet18_b1", "instances": 4}}
library = os.path.join(os.path.dirname(BIN), "libsaxpy.so")
if os.path.exists(library):
    models["saxpy"] = {"adaptor": library, "instances": 3}
write("c.json", {"device": "cuda:0", "models": models, "socket": "ch.sock"})
s = Server("--config", "c.json", *WHERE)
expect("it serves on the GPU", s.line.startswith(f"serving {len(models)} models on cuda:0, "), s.line)
zeros = {"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 784], "data": [0.5] * 784}]}
status, body, _ = infer("lenet_b1", zeros)
expect("a stand-in", status == 200 and json.loads(body)["outputs"][0]["data"] == [0.0] * 10, body)

# An alone request of a stand-in takes about its profile's time.
inputs = {m: json.loads(ask("h.sock", "GET", f"/v2/models/{m}")[1]) for m in ("big", "small")}
alone = float(inputs["big"]["properties"]["alone_us"])


def binary(model):
    t = inputs[model]["inputs"][0]
    n = 4
    for d in t["shape"]:
        n *= d
    head = json.dumps({"inputs": [dict(t, parameters={"binary_data_size": n})], "outputs": []}).encode()
    return head + bytes(n), {"Inference-Header-Content-Length": str(len(head))}


for m in inputs:
    status, body, _ = infer(m, *binary(m))
    expect(f"{m} is served", status == 200, body[:300])
took = sorted(json.loads(infer("big", *binary("big"))[1].split(b"}]}")[0] + b"}]}")["parameters"]["latency_us"] for _ in range(5))
expect("the time of a model alone", 0.8 * alone < took[2] < 2 * alone + 2000, (took, alone))

# Many clients at once: each request is served, and the queued time ends at none.
answers = []


def send_all(model):
    for _ in range(25):
        answers.append(infer(model, *binary(model))[0])


begin = time.monotonic()
threads = [threading.Thread(target=send_all, args=(m,)) for m in ["big", "small"] * 4]
[t.start() for t in threads]
[t.join() for t in threads]
expect("all are served", answers.count(200) == 200, set(answers))
print(f"200 requests of 8 clients in {time.monotonic() - begin:.2f} s; big alone: {took[2]} us, by its profile {alone:.0f} us")
expect("nothing is left", metric('gsched_device_queued_seconds{device="0"}') == 0 and metric('gsched_device_ready{device="0"}') == 1)

# An adaptor whose graphs compute on the GPU.
if "saxpy" in models:
    n = 1 << 16
    head = json.dumps({"inputs": [{"name": t, "datatype": "FP32", "shape": [n], "parameters": {"binary_data_size": 4 * n}} for t in "xy"],
                       "parameters": {"binary_data_output": True}}).encode()
    wrong = []

    def compute(seed):
        x, y = [float(i % 1000 + seed) for i in range(n)], [float(seed * i % 77) for i in range(n)]
        want = struct.pack(f"<{n}f", *[2 * a + b for a, b in zip(x, y)])
        sent = head + struct.pack(f"<{n}f", *x) + struct.pack(f"<{n}f", *y)
        for _ in range(10):
            status, body, headers = infer("saxpy", sent, {"Inference-Header-Content-Length": str(len(head))})
            if status != 200 or body[int(headers["Inference-Header-Content-Length"]):] != want:
                wrong.append((status, body[:200]))

    threads = [threading.Thread(target=compute, args=(seed,)) for seed in range(6)]  # twice its instances
    [t.start() for t in threads]
    [t.join() for t in threads]
    expect("sums of the GPU", not wrong, wrong[:2])
    print("60 requests of 6 clients computed on the GPU, each result compared")

# A client of the channel, whose arena the GPU knows.
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
try:
    from gsched import Client, GschedError
except ImportError as e:
    GschedError = e.__class__
try:
    client = Client("ch.sock")
except (GschedError, NameError) as e:
    print(f"the channel, {e}: not tested")
else:
    with client:
        expect("the channel", client.submit("small", bytes(4 * 3 * 224 * 224)).result() is not None)
        if "saxpy" in models:
            sums = client.submit("saxpy", struct.pack(f"<{2 * n}f", *[3.0] * n, *[4.0] * n)).result()
            expect("sums through the channel", struct.unpack_from("<100f", sums) == (10.0,) * 100)
rc, out, err = s.end()
expect("its end", rc == 0 and err == "" and out.endswith("drained: every request was served\n"), (rc, out, err))

# Models that slow each other beyond a limit are kept apart.
write("c.json", {"device": "cuda:0", "models": {m: models[m] for m in ("big", "small")}, "slow_down_limit": 1.2})
s = Server("--config", "c.json", *WHERE)
del answers[:]
threads = [threading.Thread(target=send_all, args=(m,)) for m in ["big", "small"] * 4]
[t.start() for t in threads]
[t.join() for t in threads]
expect("all are served apart", answers.count(200) == 200, set(answers))
expect("they are kept apart", metric('gsched_apart_total{device="0"}') > 0 and metric('gsched_apart_seconds_total{device="0"}') > 0)
expect("its end", s.end()[0] == 0)

if "saxpy" in models:
    refused("an adaptor that needs a GPU", "expected a GPU", "--adaptor", library, *WHERE[2:])

# A GPU beside a simulated one.
write("two.json", {"device": ["cuda:0", "sim"], "models": {"lenet_b1": {}}})
s = Server("--config", "two.json", *WHERE)
expect("two kinds of devices", all(infer("lenet_b1", zeros)[0] == 200 for _ in range(20)), s.line)
expect("its end", s.end()[0] == 0)
leave()
finish()
