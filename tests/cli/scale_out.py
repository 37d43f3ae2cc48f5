# SPDX-License-Identifier: Apache-2.0
"""HAProxy before two and four gsched_servers, by the configuration of examples/scale_out: under load one is killed,
one ends and comes back, and each request is counted by its id.

usage: scale_out.py HAPROXY BIN SOURCE
"""

import json
import os
import socket
import subprocess
import sys
import time

HAPROXY, BIN, SOURCE = map(os.path.abspath, sys.argv[1:4])
sys.path.insert(0, SOURCE + "/examples/scale_out")
import grpc_wire  # noqa: E402
import load  # noqa: E402
from served import Server, ask, expect, new_folder, report, sample, wait_until  # noqa: E402


THREADS = 3  # of each load, each with one request under way


class GrpcLoad(load.Load):
    """As Load, over gRPC. The id is in the answer, and the server's name in its headers."""

    def connect(self):
        return grpc_wire.Connection(self.address)

    def ask(self, connection, id):
        r = connection.infer(load.MODEL, [("input", "FP32", [1, 784], bytes(3136))], id=id)
        if r.code != "OK":
            return r.code or f"HTTP {r.headers.get(':status')}, reset {r.reset}"
        fields = grpc_wire.fields(r.messages[0])
        if fields[3] != [id.encode()] or fields[6] != [bytes(40)]:
            return "another request's answer"
        return r.headers["x-gsched-server"]


class Fleet:
    """Servers and the proxy, in a folder."""

    def __init__(self, n):
        self.folder = new_folder()
        self.names = [f"s{i}" for i in range(1, n + 1)]
        with open(SOURCE + "/examples/scale_out/server.json") as f:
            configuration = json.load(f)
        configuration["limits"]["notice_s"] = 1.5
        configuration["models"]["heavy"] = {"profile": "vgg16_b32", "instances": 1, "inputs": []}
        configuration["profiles"] = [SOURCE + "/tools/data/profiles"]
        with open(self.folder + "/server.json", "w") as f:
            json.dump(configuration, f)
        environment = dict(os.environ, GSCHED_FOLDER=self.folder, GSCHED_REST=f"unix@{self.folder}/rest", GSCHED_GRPC=f"unix@{self.folder}/grpc")
        self.servers, self.agents = {}, {}
        for name in self.names:
            self.start(name)
            environment[f"GSCHED_AGENT_{name[1:]}"] = str(self.agents[name])
            environment[f"GSCHED_HTTP_{name[1:]}"] = f"unix@{self.folder}/{name}.http"
            environment[f"GSCHED_GRPC_{name[1:]}"] = f"unix@{self.folder}/{name}.grpc"
        self.log = open(self.folder + "/log", "w+")
        self.proxy = subprocess.Popen([HAPROXY, "-db", "-f", SOURCE + "/examples/scale_out/haproxy.cfg"], env=environment,
                                      stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        expect(f"HAProxy finds all {n} servers", wait_until(lambda: all(self.state(name) == ("UP", "UP") for name in self.names)), self.stat())

    def start(self, name):
        self.servers[name] = Server(BIN, "--config", self.folder + "/server.json", "--http", f"unix:{self.folder}/{name}.http",
                                    "--grpc", f"unix:{self.folder}/{name}.grpc", "--agent", f"127.0.0.1:{self.agents.get(name, 0)}")
        self.agents[name] = self.servers[name].port("agent")[1]

    def command(self, text):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10)
            s.connect(self.folder + "/haproxy.sock")
            s.sendall(text.encode() + b"\n")
            got = b""
            while more := s.recv(65536):
                got += more
        return got.decode()

    def stat(self):
        """Rows of HAProxy's statistics by (backend, server)."""
        try:
            lines = self.command("show stat").lstrip("# ").splitlines()
        except OSError:
            return {}
        keys = lines[0].split(",")
        rows = [dict(zip(keys, line.split(","))) for line in lines[1:] if line]
        return {(row["pxname"], row["svname"]): row for row in rows}

    def state(self, name):
        rows = self.stat()
        return tuple(rows.get((backend, name), {}).get("status", "").split(" ")[0] for backend in ("rest", "grpc"))

    def weight(self, name):
        rows = self.stat()
        return tuple(int(rows[backend, name]["weight"]) for backend in ("rest", "grpc"))

    def served(self, name):
        """How many requests that ended well the server has counted; None if it does not run."""
        if self.servers[name].p.poll() is not None:
            return None
        metrics = ask(f"{self.folder}/{name}.http", "GET", "/metrics")[1].decode()
        return sum(sample(line, "gsched_requests_total{") for line in metrics.splitlines() if 'end="ok"' in line)

    def loads(self, what):
        return [load.Load(self.folder + "/rest", THREADS, name=what + "-rest-"), GrpcLoad(self.folder + "/grpc", THREADS, name=what + "-grpc-")]

    def end(self):
        self.proxy.terminate()
        try:
            rc = self.proxy.wait(20)
        except subprocess.TimeoutExpired:
            self.proxy.kill()
            rc = "killed"
        for name, server in self.servers.items():
            if server.p.poll() is None:
                status, out, err = server.end()
                expect(f"the end of {name}", status == 0 and err == "", (status, out, err))
        self.log.seek(0)
        expect("HAProxy's end", rc in (0, 143, -15), (rc, self.log.read()[-500:]))
        self.log.close()


def account(what, loads, names, before, fleet, allowed=lambda end: False):
    """Each request that was sent has one end: it was served, by a server that has counted it, or it was refused."""
    served = dict.fromkeys(names, 0)
    for each in loads:
        each.stop()
        ids = [id for id, _ in each.ends]
        expect(f"{what}: every request has one end", sorted(ids) == sorted(each.sent) and len(set(ids)) == len(ids), (len(ids), len(each.sent)))
        expect(f"{what}: some were sent", len(ids) > 20, len(ids))
        wrong = {end: n for end, n in each.counts().items() if end not in names and not allowed(end)}
        expect(f"{what}: none is lost or fails", not wrong, wrong)
        for name in names:
            served[name] += each.counts()[name]
    for name in names:
        now = fleet.served(name)
        if now is not None:  # it lives
            expect(f"{what}: {name} has counted what its clients have", now - before[name] == served[name], (now, before[name], served))
    print(f"{what}: {served}, others {[{e: n for e, n in each.counts().items() if e not in names} for each in loads]}", flush=True)
    return served


def is_error_of_a_death(end):
    """What HAProxy says of a server that dies: an error; or it closes the client's connection, where it was reset
    after the request was sent to the server and this was not the connection's first, or half of the answer was there.
    A client that is still writing its request then finds a broken pipe."""
    return end in (502, 503, 504, "UNAVAILABLE", "CANCELLED", "INTERNAL", "RemoteDisconnected", "ConnectionResetError", "BrokenPipeError",
                   "IncompleteRead", "Broken") or str(end).startswith("HTTP ")


def counts(fleet):
    return {name: fleet.served(name) for name in fleet.names}


def busy(loads, n):
    """Waits until each has so many more ends."""
    at = [len(each.ends) for each in loads]
    expect("the load goes on", wait_until(lambda: all(len(each.ends) >= a + n for each, a in zip(loads, at))), [len(e.ends) for e in loads])


for n in (2, 4):
    fleet = Fleet(n)
    what = f"{n} servers"
    before = counts(fleet)
    loads = fleet.loads("all")
    busy(loads, 60)
    served = account(what, loads, fleet.names, before, fleet)
    expect(f"{what}: all of them serve", all(served.values()), served)

    if n == 2:  # one has work of others, too
        with grpc_wire.Connection(f"{fleet.folder}/s1.grpc") as direct:
            for _ in range(2):
                stream = direct.open("/inference.GRPCInferenceService/ModelStreamInfer")
                message = grpc_wire.infer_request("heavy")
                direct.send(stream, 64 * (b"\0" + len(message).to_bytes(4, "big") + message), end=False)
            expect("the weight of a busy server falls", wait_until(lambda: max(fleet.weight("s1")) <= 90 and min(fleet.weight("s2")) > 90),
                   [fleet.weight(name) for name in fleet.names])
            before = counts(fleet)
            loads = fleet.loads("weights")
            busy(loads, 60)
            shares = [sum(each.counts()[name] for each in loads) for name in fleet.names]
            expect("the busy server gets less", shares[0] < shares[1], shares)
            for each in loads:
                each.stop()
        expect("the weight comes back", wait_until(lambda: min(fleet.weight("s1")) > 90), fleet.weight("s1"))

    # Killed in mid-load. What it had is retried, or refused with an error, and its clients learn which.
    what = f"one of {n} is killed"
    before = counts(fleet)
    loads = fleet.loads("killed")
    busy(loads, 30)
    fleet.servers["s1"].kill()
    busy(loads, 30)
    expect(f"{what}: HAProxy sees it", wait_until(lambda: fleet.state("s1") == ("DOWN", "DOWN")), fleet.stat())
    busy(loads, 20)
    account(what, loads, fleet.names, before, fleet, is_error_of_a_death)
    errors = [sum(n for end, n in each.counts().items() if is_error_of_a_death(end)) for each in loads]
    expect(f"{what}: only what was under way ends with an error", max(errors) <= THREADS, errors)

    # It comes back, at addresses that a dead server has left.
    fleet.start("s1")
    expect(f"{what}: it comes back", wait_until(lambda: fleet.state("s1") == ("UP", "UP")), fleet.stat())

    # One ends under load: it is not ready for a while, gets no more requests, and has served all that it got.
    what = f"one of {n} ends"
    before = counts(fleet)
    loads = fleet.loads("drained")
    busy(loads, 30)
    fleet.servers["s2"].signal()
    rc, out, err = fleet.servers["s2"].wait()
    expect(f"{what}: it drains", rc == 0 and err == "" and out.endswith("drained: every request was served\n"), (rc, out, err))
    busy(loads, 20)
    account(what, loads, fleet.names, before, fleet)
    fleet.end()
report()
