# SPDX-License-Identifier: Apache-2.0
"""What tests of gsched_server share: the program, REST over a Unix socket or TCP, and checks that are counted."""

import http.client
import json
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time

checks = failures = 0


def expect(what, good, shown=""):
    global checks, failures
    checks += 1
    if not good:
        failures += 1
        print(f"FAILED: {what}: {str(shown)[:600]}", flush=True)
    return good


def report():
    print(f"{checks} checks, {failures} failures")
    sys.exit(failures > 0)


def wait_until(holds, most=20):
    end = time.monotonic() + most
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class Rest(http.client.HTTPConnection):
    """To a path of a Unix socket, or to (host, port)."""

    def __init__(self, to, timeout=20):
        super().__init__("localhost", timeout=timeout)
        self.to = to

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX if isinstance(self.to, str) else socket.AF_INET)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.to)

    def ask(self, method, url, body=None, headers={}):
        """Status, body and headers, on this connection."""
        self.request(method, url, body if isinstance(body, (bytes, str, type(None))) else json.dumps(body), headers)
        r = self.getresponse()
        return r.status, r.read(), r.headers


def ask(to, method, url, body=None, headers={}):
    c = Rest(to)
    try:
        return c.ask(method, url, body, headers)
    finally:
        c.close()


class Server:
    """The program, until its end. `files`: a limit of its file descriptors."""

    def __init__(self, *command, files=None):
        limit = None if files is None else lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        self.p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limit)
        self.line = self.p.stdout.readline()
        if not self.line:
            raise SystemExit("no server: " + self.p.communicate()[1])

    def port(self, of):
        """(host, port) of the first line's `of=HOST:PORT`."""
        found = re.search(of + r"=([0-9.]+):(\d+)", self.line)
        return found[1], int(found[2])

    def signal(self, which=signal.SIGTERM):
        self.p.send_signal(which)

    def wait(self, most=30):
        """Status, standard output and standard error, at its end."""
        try:
            out, err = self.p.communicate(timeout=most)
        except subprocess.TimeoutExpired:
            self.p.kill()
            out, err = self.p.communicate()
            err += "killed: it did not end"
        return self.p.returncode, self.line + out, err

    def end(self):
        self.signal()
        return self.wait()

    def kill(self):
        self.p.kill()
        return self.wait()


def sample(metrics, name):
    """The sum of a metric's samples whose text begins with `name`."""
    text = metrics.decode() if isinstance(metrics, bytes) else metrics
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


def new_folder():
    """A temporary one with a short path, for sockets; it is removed at the end."""
    import atexit
    import shutil
    folder = tempfile.mkdtemp(prefix="gsched.")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
