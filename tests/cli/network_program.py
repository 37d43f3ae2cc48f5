# SPDX-License-Identifier: Apache-2.0
"""What tests of the program gsched_server share: the program, HTTP on Unix sockets, and checks that are counted.

The script that imports it is called with BIN DATA.
"""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time

BIN, DATA = map(os.path.abspath, sys.argv[1:3])
checks = failures = 0


def expect(what, good, shown=""):
    global checks, failures
    checks += 1
    if not good:
        failures += 1
        print(f"FAILED: {what}: {str(shown)[:400]}")


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(self.path)


def ask(path, method, url, body=None, headers={}):
    c = Unix(path)
    try:
        c.request(method, url, body if isinstance(body, (bytes, str, type(None))) else json.dumps(body), headers)
        r = c.getresponse()
        return r.status, r.read(), r.headers
    finally:
        c.close()


class Server:
    """The program, until its end."""

    def __init__(self, *options):
        self.p = subprocess.Popen([BIN, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.line = self.p.stdout.readline()

    def end(self, signals=1):
        for _ in range(signals):
            self.p.send_signal(signal.SIGTERM)
            time.sleep(0.05)
        try:
            out, err = self.p.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.p.kill()
            out, err = self.p.communicate()
            err += "killed"
        return self.p.returncode, self.line + out, err


def write(path, value):
    with open(path, "w") as f:
        f.write(value if isinstance(value, str) else json.dumps(value))


def refused(what, text, *options, status=2):
    r = subprocess.run([BIN, *options], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
    good = r.returncode == status and r.stdout == "" and r.stderr.count("\n") == 1 and r.stderr.startswith("gsched_server: ")
    expect(f"{what}: status {status} and one line with '{text}'", good and text in r.stderr and ", expected " in r.stderr,
           (r.returncode, r.stdout, r.stderr))


def finish():
    print(f"{checks} checks, {failures} failures")
    sys.exit(failures > 0)
