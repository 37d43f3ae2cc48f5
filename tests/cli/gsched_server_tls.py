# SPDX-License-Identifier: Apache-2.0
"""Runs gsched_server with TLS: REST by Python's own client, certificates of clients, and files that are wrong.

usage: gsched_server_tls.py BIN DATA
"""

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time

import network_program
from network_program import DATA, expect, finish, write


def make(name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}", "-addext",
                    "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)


def refused(what, text, *options):
    network_program.refused(what, text, "--profiles", DATA + "/profiles/lenet_b1.json", *options)


os.chdir(folder := tempfile.mkdtemp())
make("server"), make("client"), make("other")
TCP = ["--grpc", "none", "--http", "127.0.0.1:0"]
FILES = ["--tls-cert", "server.pem", "--tls-key", "server.key"]
write("models.json", {"models": {"lenet_b1": {}, "wide": {"profile": "lenet_b1", "inputs": [{"name": "a", "datatype": "UINT8", "shape": [3000000]}],
                                                        "outputs": [{"name": "y", "datatype": "UINT8", "shape": [5000000]}]}}})


class Server(network_program.Server):
    def __init__(self, *options):
        super().__init__("--profiles", DATA + "/profiles/lenet_b1.json", "--config", "models.json", *TCP, *FILES, *options)
        self.port = int(re.search(r"http=127.0.0.1:(\d+)", self.line)[1])

    def connect(self, trusted="server.pem", shows=None):
        how = ssl.create_default_context(cafile=trusted)
        if shows:
            how.load_cert_chain(f"{shows}.pem", f"{shows}.key")
        return http.client.HTTPSConnection("localhost", self.port, timeout=20, context=how)

    def ask(self, c, method="GET", url="/v2/health/ready", body=None):
        c.request(method, url, body)
        r = c.getresponse()
        return r.status, r.read()

    def fails(self, **how):
        c = self.connect(**how)
        try:
            self.ask(c)
        except (OSError, http.client.HTTPException):
            return True
        finally:
            c.close()
        return False


s = Server()
expect("it says so", "tls=server.pem" in s.line, s.line)
c = s.connect()
expect("REST", s.ask(c) == (200, b'{"ready":true}'))
request = {"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 784], "data": [0.5] * 784}]}
status, body = s.ask(c, "POST", "/v2/models/lenet_b1/infer", json.dumps(request))
expect("inference", status == 200 and json.loads(body)["outputs"][0]["data"] == [0.0] * 10, (status, body))
head = json.dumps({"inputs": [{"name": "a", "datatype": "UINT8", "shape": [3000000], "parameters": {"binary_data_size": 3000000}}],
                   "parameters": {"binary_data_output": True}}).encode()
for _ in range(2):  # more than a record, and than what a socket holds
    c.request("POST", "/v2/models/wide/infer", head + bytes(3000000), {"Inference-Header-Content-Length": str(len(head))})
    time.sleep(0.2)  # until the answer fills it
    r = c.getresponse()
    body = r.read()
    expect("a large request", r.status == 200 and body.endswith(bytes(5000000)) and len(body) == 5000000 + int(r.headers["Inference-Header-Content-Length"]), (r.status, body[:300]))
c.close()
expect("a client that trusts another one", s.fails(trusted="other.pem"))
with socket.create_connection(("127.0.0.1", s.port), timeout=20) as plain:  # no TLS
    plain.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
    try:
        got = plain.recv(1000)
    except OSError:
        got = b""
    expect("no answer without TLS", b"HTTP/1.1 200" not in got, got)
with socket.create_connection(("127.0.0.1", s.port), timeout=20):  # one that says nothing
    expect("it goes on", s.ask(s.connect())[0] == 200)
# A client that leaves cancels its request: only its end can say so. It must not end the server.
for _ in range(3):
    c = s.connect()
    c.request("POST", "/v2/models/lenet_b1/infer", json.dumps(request))
    c.close()
expect("after clients that have left", s.ask(s.connect())[0] == 200)
if curl := shutil.which("curl"):
    r = subprocess.run([curl, "-sS", "--cacert", "server.pem", f"https://localhost:{s.port}/v2/health/ready"], capture_output=True, text=True)
    expect("curl", r.stdout == '{"ready":true}', (r.stdout, r.stderr))
expect("its end", (end := s.end())[0] == 0 and end[2] == "")

s = Server("--tls-ca", "client.pem")
expect("a client with a certificate", s.ask(s.connect(shows="client"))[0] == 200)
expect("and again", s.ask(s.connect(shows="client"))[0] == 200)
expect("one without", s.fails())
expect("one with another", s.fails(shows="other"))
expect("its end", (end := s.end())[0] == 0 and end[2] == "")

write("junk.pem", "junk\n")
for what, text, *options in [
    ("no key", "--tls-key: not given", *TCP, "--tls-cert", "server.pem"),
    ("no certificate", "--tls-cert: not given", *TCP, "--tls-ca", "client.pem"),
    ("no TCP", "no TCP addresses", "--grpc", "unix:g", "--http", "unix:h", *FILES),
    ("no such file", "none.pem: ", *TCP, "--tls-cert", "none.pem", "--tls-key", "server.key"),
    ("junk", "junk.pem: ", *TCP, "--tls-cert", "junk.pem", "--tls-key", "server.key"),
    ("a junk key", "junk.pem: ", *TCP, "--tls-cert", "server.pem", "--tls-key", "junk.pem"),
    ("another key", "other.key: ", *TCP, "--tls-cert", "server.pem", "--tls-key", "other.key"),
    ("a junk authority", "junk.pem: ", *TCP, *FILES, "--tls-ca", "junk.pem"),
]:
    refused(what, text, *options)
    refused(what + ", --check", text, *options, "--check")
subprocess.run(["openssl", "ec", "-in", "server.key", "-aes256", "-passout", "pass:secret", "-out", "locked.key"], check=True, capture_output=True)
refused("a passphrase", "locked.key: ", *TCP, "--tls-cert", "server.pem", "--tls-key", "locked.key")
write("c.json", {"tls": {"cert": "server.pem", "key": "other.key"}})
refused("a configuration", "other.key: ", *TCP, "--config", "c.json")

os.chdir("/")
shutil.rmtree(folder)
finish()
