# SPDX-License-Identifier: Apache-2.0
"""What gsched_server cannot use: each is refused in one line, nothing hangs, and others are served meanwhile.

usage: gsched_server_bad_input.py BIN DATA
"""

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time

import grpc_wire
from served import Rest, Server, ask, expect, new_folder, report, sample, wait_until

BIN, DATA = map(os.path.abspath, sys.argv[1:3])
os.chdir(new_folder())
MIB = 1 << 20
configuration = {
    "profiles": [DATA + "/profiles"], "grpc": "unix:g.sock", "http": "unix:h.sock",
    "limits": {"requests": 1024, "request_bytes": MIB, "memory_bytes": 32 * MIB, "http_threads": 64, "drain_s": 20},
    "models": {"lenet_b1": {},
               "big": {"profile": "vgg16_b32", "instances": 1, "inputs": [], "outputs": [{"name": "y", "datatype": "FP32", "shape": [1]}]}},
}
with open("c.json", "w") as f:
    json.dump(configuration, f)
lenet = ("input", "FP32", [1, 784], bytes(3136))
lenet_json = {"name": "input", "datatype": "FP32", "shape": [1, 784], "data": [0.5] * 784}
infer_url = "/v2/models/lenet_b1/infer"
infer_path = "/inference.GRPCInferenceService/ModelInfer"


def one_line(text):
    return bool(text) and "\n" not in text


class Steady:
    """Two clients that are served all the time, each on a connection of its own."""

    def __init__(self):
        self.rest, self.grpc = Rest("h.sock"), grpc_wire.Connection("g.sock")

    def served(self):
        status = self.rest.ask("POST", infer_url, {"inputs": [lenet_json]})[0]
        code = self.grpc.infer("lenet_b1", [lenet]).code
        return expect("others are served meanwhile", status == 200 and code == "OK", (status, code))

    def close(self):
        self.rest.close()
        self.grpc.close()


# Addresses that cannot be had.
def refused(what, text, *options):
    r = subprocess.run([BIN, "--config", "c.json", *options], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
    expect(f"{what}: one line with '{text}'", r.returncode == 1 and r.stdout == "" and r.stderr.count("\n") == 1 and text in r.stderr and
           ", expected " in r.stderr, (r.returncode, r.stdout, r.stderr))


os.mkdir("a_folder")
with open("a_file", "w") as f:
    f.write("precious")
for option in ("--grpc", "--http"):
    for path in ("a_file", "a_folder"):
        refused(f"{option} on {path}", "a file", option, "unix:" + path)
for path in ("a_file", "a_folder"):
    refused(f"--socket on {path}", "no socket", "--socket", path)
with open("a_file") as f:
    expect("a file is left as it is", f.read() == "precious")
with socket.socket(socket.AF_UNIX) as taken:
    taken.bind("taken.sock")
    taken.listen()
    for option, address in (("--grpc", "unix:taken.sock"), ("--http", "unix:taken.sock"), ("--socket", "taken.sock")):
        refused(f"{option} in use", "in use", option, address)
os.unlink("taken.sock")

s = Server(BIN, "--config", "c.json")
steady = Steady()
steady.served()

# Models and tensors, by both.
shapes = ([784, 1], [784], [1, 784, 1], [], [0], [1, 0], [1 << 62, 4], [1 << 32, 1 << 32], [(1 << 63) - 1, (1 << 63) - 1], [2, 392])
for shape in shapes:
    r = steady.grpc.infer("lenet_b1", [("input", "FP32", shape, bytes(3136))])
    expect(f"gRPC: shape {shape}", r.code == "INVALID_ARGUMENT" and one_line(r.line) and "expected [1,784]" in r.line, r)
    status, body, _ = steady.rest.ask("POST", infer_url, {"inputs": [dict(lenet_json, shape=shape)]})
    line = json.loads(body)["error"]
    expect(f"REST: shape {shape}", status == 400 and one_line(line) and "shape" in line, body)
for size in (0, 1, 3135, 3137, 6272):
    r = steady.grpc.infer("lenet_b1", [("input", "FP32", [1, 784], bytes(size))])
    expect(f"gRPC: {size} bytes", r.code == "INVALID_ARGUMENT" and r.line == f"input 'input': {size} bytes, expected 3136", r)
for size in (0, 3135, 3137, -1, 1 << 31, 1 << 63, 1 << 64):
    head = json.dumps({"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 784], "parameters": {"binary_data_size": size}}]})
    status, body, _ = steady.rest.ask("POST", infer_url, head.encode() + bytes(3136), {"Inference-Header-Content-Length": str(len(head))})
    expect(f"REST: binary_data_size {size}", status == 400 and one_line(json.loads(body)["error"]), (status, body))
r = steady.grpc.infer("nosuch", [lenet])
expect("gRPC: an unknown model", r.code == "NOT_FOUND" and one_line(r.line) and "'nosuch'" in r.line, r)
status, body, _ = steady.rest.ask("POST", "/v2/models/nosuch/infer", {"inputs": [lenet_json]})
expect("REST: an unknown model", status == 404 and one_line(json.loads(body)["error"]), body)
steady.served()


# Frames of gRPC that no client sends. Each on a connection of its own, so that none depends on another.
def frame_of(flag, size, data):
    return bytes([flag]) + struct.pack(">I", size) + data


def broken(what, codes, data, end=True):
    with grpc_wire.Connection("g.sock", timeout=10) as c:
        try:
            stream = c.open(infer_path)
            c.send(stream, data, end)
            r = c.finish(stream)
            expect(f"gRPC: {what}", r.code in codes and (one_line(r.line) or r.code == "CANCELLED") or r.reset is not None and None in codes, r)
        except OSError as e:  # a timeout is one, too
            expect(f"gRPC: {what}: an answer in time", False, repr(e))


good = grpc_wire.infer_request("lenet_b1", [lenet])
broken("a message of 0 bytes", ["NOT_FOUND"], frame_of(0, 0, b""))
broken("no message", ["INVALID_ARGUMENT"], b"")
broken("a message that ends too early", ["INVALID_ARGUMENT"], frame_of(0, len(good), good[:-1]))
broken("a prefix that ends too early", ["INVALID_ARGUMENT"], frame_of(0, len(good), b"")[:3])
broken("bytes that are no message", ["INVALID_ARGUMENT"], frame_of(0, 100, b"\xff" * 100))
broken("a tensor that ends too early", ["INVALID_ARGUMENT"], frame_of(0, len(good) - 1, good[:-1]))
broken("an unknown flag", ["INVALID_ARGUMENT", "NOT_FOUND"], frame_of(7, len(good), good))
broken("a message larger than the limit", ["RESOURCE_EXHAUSTED"], frame_of(0, 3 * MIB, bytes(3 * MIB)))
steady.served()
with grpc_wire.Connection("g.sock", timeout=10) as c:
    r = c.call("/inference.GRPCInferenceService/Nothing", b"")
    expect("gRPC: an unknown method", r.code == "UNIMPLEMENTED" and one_line(r.line), r)

# In a stream, each has a response, and those behind it are served.
with grpc_wire.Connection("g.sock", timeout=10) as c:
    stream = c.open("/inference.GRPCInferenceService/ModelStreamInfer")
    c.send(stream, frame_of(0, 100, b"\xff" * 100) + frame_of(0, 0, b"") + frame_of(0, len(good), good))
    r = c.finish(stream)
    lines = [grpc_wire.fields(m).get(1, [b""])[0].decode() for m in r.messages]
    expect("gRPC: a stream of bytes that are no message", r.code == "OK" and len(lines) == 3 and "" in lines and
           sum("no message of the protocol" in line for line in lines) == 1 and sum("not_found" in line for line in lines) == 1, (lines, r))

# One that says that 2 GiB follow, and sends as much as it is allowed to. gRPC looks at a message's size when it is
# there, so that the limit of its memory ends the call, and connections without a call.
def memory():
    with open(f"/proc/{s.p.pid}/statm") as f:
        return int(f.read().split()[1]) * 4096


before = memory()
with grpc_wire.Connection("g.sock", timeout=10) as c:
    stream, sent, end = c.open(infer_path), 0, None
    try:
        c.send(stream, frame_of(0, (1 << 31) - 1, b""), end=False)
        while sent < 512 * MIB and c.send(stream, bytes(MIB), end=False):
            sent += MIB
        end = c.finish(stream)
    except (OSError, grpc_wire.Broken) as e:
        end = e
    expect("gRPC: 2 GiB are not taken", getattr(end, "reset", 0) or isinstance(end, (ConnectionError, grpc_wire.Broken)), end)
    kept = 0 if os.environ.get("GSCHED_SANITIZED") else memory() - before  # a sanitizer keeps what was freed
    expect("gRPC: nor much of it", sent < 256 * MIB and kept < 256 * MIB, (sent, kept, end))
steady.close()
steady = Steady()
steady.served()
for junk in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 1000, grpc_wire.PREFACE + b"\xff" * 9 + b"x" * 100):
    with socket.socket(socket.AF_UNIX) as c:
        c.settimeout(10)
        c.connect("g.sock")
        c.sendall(junk)
        try:
            while c.recv(65536):
                pass
            ended = True
        except ConnectionResetError:
            ended = True
        except OSError as e:
            ended = repr(e)
        expect(f"gRPC: a connection that begins with {junk[:20]} is ended", ended is True, ended)
steady.served()


# Bodies whose length is another one than the headers say.
def raw(data, half_close=False, most=10):
    """All that the server sends until it closes."""
    got = b""
    with socket.socket(socket.AF_UNIX) as c:
        c.settimeout(most)
        c.connect("h.sock")
        try:
            c.sendall(data)
            if half_close:
                c.shutdown(socket.SHUT_WR)
            while more := c.recv(65536):
                got += more
        except ConnectionError:
            pass
        except OSError as e:
            return got + repr(e).encode()
    return got


def post(length, body, more=b""):
    return b"POST " + infer_url.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Length: " + length + b"\r\n" + more + b"\r\n" + body


body = json.dumps({"inputs": [lenet_json]}).encode()
whole = str(len(body)).encode()
closes = b"Connection: close\r\n"
expect("REST: as it should be", raw(post(whole, body, closes)).startswith(b"HTTP/1.1 200"))
for length in (b"2147483648", b"4294967296", b"9223372036854775807", b"18446744073709551615"):
    got = raw(post(length, b""))
    expect(f"REST: Content-Length {length.decode()}", got.startswith(b"HTTP/1.1 413") and got.count(b'"error"') == 1, got)
for length in (b"-1", b"x", b"18446744073709551616", b"0x10", b"1 2"):
    got = raw(post(length, body, closes), half_close=True)
    expect(f"REST: Content-Length '{length.decode()}'", re.match(rb"HTTP/1.1 4(00|13) ", got) and got.count(b'"error"') == 1, got)
got = raw(post(str(len(body) + 10).encode(), body), half_close=True)
expect("REST: a body that ends too early", b" 200 " not in got and b"timed out" not in got, got)
got = raw(post(b"10", body), half_close=True)
expect("REST: a body that goes on behind its length", got.startswith(b"HTTP/1.1 400") and b" 200 " not in got, got)
got = raw(post(b"0", b"", closes))
expect("REST: a body of 0 bytes", got.startswith(b"HTTP/1.1 400") and b"empty" in got, got)
got = raw(post(whole, body, b"Content-Length: 5\r\n" + closes), half_close=True)
expect("REST: two lengths", b"timed out" not in got and got.count(b"HTTP/1.1") <= 2, got)
got = raw(b"GET /v2 HTTP/1.1\r\nHost: " + b"x" * MIB + b"\r\n\r\n", half_close=True)
expect("REST: a header without end", b" 200 " not in got and b"timed out" not in got, got[:200])
got = raw(b"GET /v2 HTTP/1.1\r\nHo", half_close=True)
expect("REST: half of a header", b" 200 " not in got and b"timed out" not in got, got)
waiting = []  # which say that more comes, and send nothing
for n in range(16):
    c = socket.socket(socket.AF_UNIX)
    c.connect("h.sock")
    c.sendall(post(b"100000", b"{"))
    waiting.append(c)
steady.served()
for c in waiting:
    c.close()

# A model that is not ready, as the server drains.
busy = grpc_wire.Connection("g.sock")
for _ in range(8):  # streams, each with as many requests in service as it may have
    stream = busy.open("/inference.GRPCInferenceService/ModelStreamInfer")
    message = grpc_wire.infer_request("big")
    busy.send(stream, 64 * frame_of(0, len(message), message), end=False)
wait_until(lambda: sample(ask("h.sock", "GET", "/metrics")[1], "gsched_requests_active") >= 300)
s.signal()
wait_until(lambda: steady.rest.ask("GET", "/v2/health/ready")[0] == 503)
r = steady.grpc.infer("lenet_b1", [lenet])
expect("gRPC: not ready", r.code == "UNAVAILABLE" and one_line(r.line), r)
status, body, headers = steady.rest.ask("POST", infer_url, {"inputs": [lenet_json]})
expect("REST: not ready", status == 503 and one_line(json.loads(body)["error"]) and int(headers["Retry-After"]) >= 1, (status, body))
expect("REST: a model that is not ready", steady.rest.ask("GET", "/v2/models/lenet_b1/ready")[0] == 503)
busy.close()
steady.close()
rc, out, err = s.wait()
expect("its end", rc == 0 and err == "", (rc, out, err))

# No file descriptors left.
s = Server(BIN, "--config", "c.json", "--socket", "c.sock", files=90)
steady = Steady()
steady.served()
crowd = []
def press(path, n):
    for _ in range(n):
        c = socket.socket(socket.AF_UNIX)
        c.settimeout(5)
        try:
            c.connect(path)
        except OSError:
            c.close()
            return
        crowd.append(c)


press("h.sock", 60)
press("g.sock", 60)
time.sleep(0.2)
steady.served()
def line_of_refusal(ask_for):
    try:
        return ask_for()
    except (OSError, grpc_wire.Broken) as e:
        return repr(e)


status = line_of_refusal(lambda: Rest("h.sock", timeout=5).ask("GET", "/v2/health/live"))
expect("REST: without a descriptor: one line", status[0] == 503 and "no file descriptors left" in json.loads(status[1])["error"], status)
end = line_of_refusal(lambda: grpc_wire.Connection("g.sock", timeout=5).infer("lenet_b1", [lenet]))
expect("gRPC: without a descriptor: one line", "no file descriptors left" in str(end), end)
steady.served()
for c in crowd:
    c.close()
def serves_new():
    try:
        with grpc_wire.Connection("g.sock", timeout=2) as c:
            code = c.infer("lenet_b1", [lenet]).code
        return code == "OK" and ask("h.sock", "POST", infer_url, {"inputs": [lenet_json]})[0] == 200
    except (OSError, grpc_wire.Broken):
        return False


expect("new clients are served when there are descriptors again", wait_until(serves_new))
steady.served()
steady.close()
rc, out, err = s.end()
expect("its end", rc == 0 and err == "", (rc, out, err))
report()
