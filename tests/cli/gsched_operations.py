# SPDX-License-Identifier: Apache-2.0
"""Runs gsched_server as its operator does: HAProxy's agent checks, an announced end.

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
    for _ in range(400):
        seen.append(look())
        if enough(seen[-1]):
            break
        time.sleep(0.005)
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

finish()
