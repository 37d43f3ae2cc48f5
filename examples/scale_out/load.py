# SPDX-License-Identifier: Apache-2.0
"""Sends inference requests over REST from several threads, one at a time each, and counts how they end.

usage: load.py ADDRESS [SECONDS [THREADS]]      ADDRESS: HOST:PORT, or the path of a Unix socket
"""

import collections
import http.client
import json
import socket
import sys
import threading
import time

MODEL = "lenet_b1"
INPUT = {"name": "input", "datatype": "FP32", "shape": [1, 784], "data": [0.5] * 784}


class Connection(http.client.HTTPConnection):
    """To HOST:PORT, or to the path of a Unix socket."""

    def __init__(self, address, timeout=30):
        host, _, port = address.rpartition(":")
        super().__init__(host or "localhost", int(port) if host else None, timeout=timeout)
        self.path = None if host else address

    def connect(self):
        if self.path is None:
            return super().connect()
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Load:
    """Requests from so many threads, until stop(). `ends` has one entry for each request that was sent: its id,
    and how it ended: the server's name where it was served, otherwise the status or the exception."""

    def __init__(self, address, threads=4, pause=0.002, name=""):
        self.address, self.pause, self.name = address, pause, name
        self.sent, self.ends, self.seconds = [], [], []
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(n,)) for n in range(threads)]
        for t in self.threads:
            t.start()

    def run(self, thread):
        connection = self.connect()
        n = 0
        while not self.stopping.is_set():
            n += 1
            id = f"{self.name}{thread}-{n}"
            self.sent.append(id)
            begin = time.monotonic()
            try:
                end = self.ask(connection, id)
            except Exception as e:  # the connection has ended: the request's outcome is unknown
                end = type(e).__name__
                connection.close()
                connection = self.connect()
            self.ends.append((id, end))
            self.seconds.append(time.monotonic() - begin)
            time.sleep(self.pause)
        connection.close()

    def connect(self):
        return Connection(self.address)

    def ask(self, connection, id):
        connection.request("POST", f"/v2/models/{MODEL}/infer", json.dumps({"id": id, "inputs": [INPUT]}))
        r = connection.getresponse()
        body = r.read()
        if r.status != 200:
            return r.status
        if json.loads(body)["id"] != id:
            return "another request's answer"
        return r.getheader("x-gsched-server", "served")

    def stop(self):
        self.stopping.set()
        for t in self.threads:
            t.join()
        return self

    def counts(self):
        return collections.Counter(end for _, end in self.ends)


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    load = Load(sys.argv[1], int(sys.argv[3]) if len(sys.argv) > 3 else 4)
    time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 5)
    load.stop()
    for end, n in sorted(load.counts().items(), key=str):
        print(f"{n:8} {end}")
    times = sorted(load.seconds)
    print(f"p50 {times[len(times) // 2] * 1e3:.1f} ms, p99 {times[len(times) * 99 // 100] * 1e3:.1f} ms")
