# SPDX-License-Identifier: Apache-2.0
"""Looks at the status page of gsched_server in headless Chromium, by its debugging pipe, and compares it with /metrics.

usage: GSCHED_BROWSER=PROGRAM gsched_status_page.py BIN DATA
"""

import http.client
import json
import os
import re
import subprocess
import tempfile
import threading
import time

from network_program import BIN, DATA, Server, expect, finish, write


class Browser:
    """A page, until close()."""

    def __init__(self, url):
        here, there = os.pipe(), os.pipe()

        def pipes():  # the browser reads commands from 3 and writes to 4
            read, wrote = os.dup(here[0]), os.dup(there[1])
            os.dup2(read, 3)
            os.dup2(wrote, 4)

        self.p = subprocess.Popen(
            [os.environ["GSCHED_BROWSER"], "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--user-data-dir=" + os.path.abspath("browser"), "about:blank"],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(here[0])
        os.close(there[1])
        self.commands, self.answers = here[1], there[0]
        self.rest, self.number, self.session, self.said = b"", 0, None, []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.ask("Log.enable")
        self.ask("Runtime.enable")
        self.ask("Page.enable")
        self.ask("Page.navigate", url=url)

    def ask(self, method, **parameters):
        self.number += 1
        command = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.commands, json.dumps(command).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                part = os.read(self.answers, 1 << 16)
                if not part:
                    raise OSError("the browser has ended")
                self.rest += part
            line, self.rest = self.rest.split(b"\0", 1)
            m = json.loads(line)
            if m.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
                self.said.append(m["params"])
            if m.get("id") == self.number:
                return m["result"]

    def value(self, script):
        return self.ask("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def wait(self, script, seconds=20):
        until = time.monotonic() + seconds
        while not (v := self.value(script)) and time.monotonic() < until:
            time.sleep(0.05)
        return v

    def close(self):
        self.p.terminate()
        self.p.wait(10)


folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
os.chdir(folder.name)
evil = "</script><script>document.title='broken'</script>"
write("c.json", {"profiles": [DATA + "/profiles"], "grpc": "none", "http": "127.0.0.1:0", "policy": "fifo",
                 "tenants": {"alice": {}, evil.replace("/", "|"): {}, "<b>": {}},
                 "models": {"lenet_b1": {"inputs": []}, "big": {"profile": "vgg16_b32", "inputs": []}}})
s = Server("--config", "c.json")
port = int(re.search(r"http=127.0.0.1:(\d+)", s.line)[1])


def ask(url, body=None, headers={}):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        c.request("POST" if body else "GET", url, body, headers)
        r = c.getresponse()
        return r.status, r.read().decode()
    finally:
        c.close()


def infer(n, model, tenant):
    for _ in range(n):
        ask(f"/v2/models/{model}/infer", '{"inputs": []}', {"gsched-tenant": tenant})


infer(7, "lenet_b1", "alice")
infer(2, "big", "<b>")
ask("/v2/models/nosuch/infer", "{}")
b = Browser(f"http://127.0.0.1:{port}/")
expect("it is live", b.wait("document.getElementById('link').textContent === 'live'"), b.said)
before = int(b.value("document.body.dataset.serial"))
load = threading.Thread(target=infer, args=(120, "big", "alice"))
load.start()
expect("it shows how busy the device is", b.wait("parseFloat((document.body.textContent.match(/GPU busy ([0-9.]+)%/) || [])[1]) > 20"),
       b.value("document.getElementById('devices').textContent"))
expect("and its SMs", b.wait("parseFloat((document.body.textContent.match(/SMs in use ([0-9.]+) of 132/) || [])[1]) > 10"))
load.join()
expect("snapshots follow", b.wait(f"parseInt(document.body.dataset.serial) > {before + 1}"))
expect("what was decided", b.wait("document.getElementById('decisions').textContent.includes('startedbigalice')"),
       b.value("document.getElementById('decisions').textContent"))

# The last figures are those of /metrics.
metrics = ask("/metrics")[1]


def sample(text):
    found = re.search("^" + re.escape(text) + r" (\S+)$", metrics, re.M)
    return int(float(found[1])) if found else 0


rows = None
for _ in range(100):
    rows = b.value("[...document.querySelectorAll('#latency tr')].slice(1).map(r => [...r.children].map(c => c.textContent))")
    if any(r[:3] == ["big", "alice", "120"] for r in rows):
        break
    time.sleep(0.05)
shown = {(model, tenant): int(ok) for model, tenant, ok, *_ in rows}
expect("requests", {pair: n for pair, n in shown.items() if n} ==
       {pair: sample(f'gsched_requests_total{{model="{pair[0]}",tenant="{pair[1]}",end="ok"}}') for pair in
        [("lenet_b1", "alice"), ("big", "alice"), ("big", "<b>")]}, rows)
refusals = dict(b.value("[...document.querySelectorAll('#refusals tr')].slice(1).map(r => [...r.children].map(c => c.textContent))"))
expect("refusals", {k: int(v) for k, v in refusals.items()} ==
       {k: sample(f'gsched_refusals_total{{reason="{k}"}}') for k in refusals} and refusals["unknown_model"] == "1", refusals)
p50 = next(r for r in rows if r[:2] == ["big", "alice"])[5]
expect("latency", re.fullmatch(r"\d+\.\d\d ms", p50) and 5 < float(p50[:-3]) < 1000, rows)
expect("names are text", b.value("document.title") == "gsched_server" and b.value("document.querySelectorAll('#latency b').length") == 0)
expect("nothing was blocked or failed", b.said == [] or all("favicon" in json.dumps(m) for m in b.said), b.said)

# It says when the server has gone.
rc, out, err = s.end()
expect("the server's end beside a page", rc == 0 and err == "", (rc, err))
expect("no connection", b.wait("document.getElementById('link').textContent === 'no connection'"))
b.close()
finish()
