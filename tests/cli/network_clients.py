# SPDX-License-Identifier: Apache-2.0
"""Runs gsched_server and has clients talk to it that are not gsched's.

usage: network_clients.py curl|promtool|grpc_js|grpcio BIN SOURCE WORK
"""

import filecmp
import json
import os
import shutil
import struct
import subprocess
import sys

from served import Server, expect, new_folder, report

CLIENT, BIN, SOURCE, WORK = sys.argv[1], *map(os.path.abspath, sys.argv[2:5])
configuration = {
    "profiles": [SOURCE + "/tools/data/profiles"],
    "grpc": "none", "http": "none", "limits": {"requests": 256, "request_bytes": 1 << 20},
    "tenants": {"alice": {"weight": 2}, "small": {"requests": 1, "real_time": False}},
    "models": {
        "lenet_b1": {},
        "big": {"profile": "vgg16_b32", "instances": 1, "inputs": []},
        "typed": {"profile": "lenet_b1",
                  "inputs": [{"name": "a", "datatype": "INT8", "shape": [2, 2]}, {"name": "b", "datatype": "BOOL", "shape": [3]}],
                  "outputs": [{"name": "x", "datatype": "INT64", "shape": [2]}, {"name": "y", "datatype": "BOOL", "shape": [1]}]},
    },
}


def pass_over(why):
    print(f"network_{CLIENT}: {why}: passed over")
    sys.exit(0)


def need(*programs):
    for each in programs:
        if shutil.which(each) is None:
            pass_over(f"no {each} here")


def start(folder, *options):
    with open(folder + "/c.json", "w") as f:
        json.dump(configuration, f)
    return Server(BIN, "--config", folder + "/c.json", *options)


def end(server):
    rc, out, err = server.end()
    expect("the server's end", rc == 0 and err == "", (rc, out, err))


def curl(at, *arguments, headers=False):
    r = subprocess.run(["curl", "-sS", "--max-time", "20", "--unix-socket", at, "-w", "\n%{http_code}", *(["-i"] if headers else []),
                        *arguments], capture_output=True, stdin=subprocess.DEVNULL, timeout=30)
    body, _, status = r.stdout.rpartition(b"\n")
    return int(status) if r.returncode == 0 else r.stderr, body


def of_curl():
    need("curl")
    folder = new_folder()
    os.chdir(folder)
    at = folder + "/h.sock"
    s = start(folder, "--http", "unix:" + at)
    url = "http://localhost/v2"
    for path, key, value in (("/health/live", "live", True), ("/health/ready", "ready", True), ("", "name", "gsched_server"),
                             ("/models/typed", "platform", "gsched_simulated_profile"), ("/models/typed/ready", "ready", True)):
        status, body = curl(at, url + path)
        expect(path or "/v2", status == 200 and json.loads(body)[key] == value, (status, body))
    infer = url + "/models/lenet_b1/infer"
    zeros = {"name": "input", "datatype": "FP32", "shape": [1, 784], "data": [0.5] * 784}
    with open("json", "w") as f:
        json.dump({"id": "7", "inputs": [zeros]}, f)
    status, body = curl(at, infer, "-d", "@json", "-H", "gsched-tenant: alice")
    answer = json.loads(body)
    expect("JSON", status == 200 and answer["id"] == "7" and answer["outputs"][0]["shape"] == [1, 10] and
           answer["outputs"][0]["data"] == [0.0] * 10, (status, body))
    head = json.dumps({"inputs": [dict({k: zeros[k] for k in ("name", "datatype", "shape")}, parameters={"binary_data_size": 3136})],
                       "parameters": {"binary_data_output": True}}).encode()
    with open("binary", "wb") as f:
        f.write(head + struct.pack("<784f", *range(784)))
    status, body = curl(at, infer, "--data-binary", "@binary", "-H", f"Inference-Header-Content-Length: {len(head)}",
                        "-H", "Content-Type: application/octet-stream", headers=True)
    headers, _, body = body.partition(b"\r\n\r\n")
    if headers.startswith(b"HTTP/1.1 100"):
        headers, _, body = body.partition(b"\r\n\r\n")
    sizes = [int(line.split(b":")[1]) for line in headers.split(b"\r\n") if line.lower().startswith(b"inference-header-content-length")]
    expect("binary tensors", status == 200 and len(sizes) == 1 and body[sizes[0]:] == bytes(40) and
           json.loads(body[:sizes[0]])["outputs"][0]["parameters"]["binary_data_size"] == 40, (status, headers, body))
    for expected, text, *request in (
            (404, "nosuch", url + "/models/nosuch"), (404, "no such resource", url + "/nothing"), (400, "not JSON", infer, "-d", "x"),
            (400, "missing", infer, "-d", "{}"), (405, "method", infer, "-X", "PUT"), (413, "too large", infer, "-d", " " * (1 << 20) + " "),
            (403, "small", infer, "-d", "@json", "-H", "gsched-tenant: small", "-H", "gsched-priority: real_time"),
            (504, "expected at least", url + "/models/big/infer", "-d", '{"inputs":[]}', "-H", "gsched-deadline-ms: 0.5")):
        if expected == 413:
            with open("large", "w") as f:
                f.write(request[2])
            request[2] = "@large"
        status, body = curl(at, *request)
        line = json.loads(body)["error"] if body[:1] == b"{" else ""
        expect(f"{expected} with '{text}'", status == expected and text in line and "\n" not in line, (status, body))
    status, body = curl(at, "--http1.0", url + "/health/live")
    expect("HTTP/1.0", status == 200, (status, body))
    status, body = curl(at, "-I", url)
    expect("HEAD", status == 200, (status, body))
    end(s)


def of_promtool():
    need("curl", "promtool")
    folder = new_folder()
    at = folder + "/h.sock"
    s = start(folder, "--http", "unix:" + at)
    for body in ('{"inputs":[]}', "x"):
        curl(at, "http://localhost/v2/models/big/infer", "-d", body)
    status, metrics = curl(at, "http://localhost/metrics")
    expect("metrics", status == 200 and b"gsched_requests_total" in metrics, status)
    r = subprocess.run(["promtool", "check", "metrics"], input=metrics, capture_output=True, timeout=60)
    expect("promtool check metrics", r.returncode == 0 and r.stdout + r.stderr == b"", (r.returncode, r.stdout, r.stderr))
    end(s)


def of_grpc_js():
    need("node", "npm")
    here = SOURCE + "/tests/clients/grpc_js"
    os.makedirs(WORK, exist_ok=True)
    lock, old = here + "/package-lock.json", WORK + "/node_modules/.installed-lock.json"
    if not (os.path.exists(old) and filecmp.cmp(lock, old, shallow=False)):
        for each in ("package.json", "package-lock.json"):
            shutil.copy(os.path.join(here, each), WORK)
        try:
            r = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=1",
                                "--fetch-timeout=20000"], cwd=WORK, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            pass_over("npm does not answer")
        if r.returncode != 0:
            # What the lock file asks for and the registry has is a fault of ours; no network is not.
            if any(word in r.stderr for word in ("ENOTFOUND", "ECONN", "EAI_AGAIN", "ETIMEDOUT", "network", "E403", "E5")):
                pass_over("npm has no network")
            expect("npm ci", False, r.stderr)
            report()
        shutil.copy(lock, old)
    folder = new_folder()
    s = start(folder, "--grpc", f"unix:{folder}/g.sock")
    shutil.copy(here + "/client.js", WORK)
    r = subprocess.run(["node", WORK + "/client.js", f"unix:{folder}/g.sock", SOURCE + "/tools/gsched_server/network/open_inference.proto"],
                       capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    print(r.stdout, end="")
    expect("the client", r.returncode == 0 and "checks, 0 failures" in r.stdout, (r.returncode, r.stdout, r.stderr))
    end(s)


def of_grpcio():
    need("protoc")
    python = next((each for each in ("/usr/bin/python3", "python3") if shutil.which(each) and
                   subprocess.run([each, "-c", "import google.protobuf, grpc"], capture_output=True).returncode == 0), None)
    if python is None:
        pass_over("no grpcio here")
    folder = new_folder()
    subprocess.run(["protoc", "--proto_path=" + SOURCE + "/tools/gsched_server/network", "--python_out=" + folder, "open_inference.proto"],
                   check=True, timeout=60)
    s = start(folder, "--grpc", f"unix:{folder}/g.sock")
    r = subprocess.run([python, SOURCE + "/tests/clients/grpcio/client.py", f"unix:{folder}/g.sock"], capture_output=True, text=True,
                       timeout=120, stdin=subprocess.DEVNULL, env=dict(os.environ, PYTHONPATH=folder))
    print(r.stdout, end="")
    expect("the client", r.returncode == 0 and "checks, 0 failures" in r.stdout, (r.returncode, r.stdout, r.stderr))
    end(s)


{"curl": of_curl, "promtool": of_promtool, "grpc_js": of_grpc_js, "grpcio": of_grpcio}[CLIENT]()
report()
