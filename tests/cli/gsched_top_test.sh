# SPDX-License-Identifier: Apache-2.0
# gsched_top: one frame, JSON and errors, beside a gsched_server where that was built.
set -u
bin=${GSCHED_BIN_DIR:?}
failed=0
refuses() { # refuses STATUS TEXT ARGUMENT...
  local status=$1 text=$2 got said
  shift 2
  said=$("$bin/gsched_top" "$@" 2>&1 </dev/null)
  got=$?
  if [ $got != "$status" ] || [ "$(wc -l <<<"$said")" != 1 ] || ! grep -qF -- "$text" <<<"$said"; then
    echo "gsched_top $*: status $got, expected $status and '$text'; it said: $said"
    failed=1
  fi
}
refuses 2 "address: 'x'" x
refuses 2 "address: none" none
refuses 2 "--typo" --typo
refuses 1 "No such file" unix:/tmp/gsched_top_test.$$.none
refuses 1 "refused" 127.0.0.1:1
[ $failed = 0 ] || exit 1
if [ ! -x "$bin/gsched_server" ]; then
  echo "gsched_server: not built, not tested"
  exit 0
fi
exec python3 -B - "$bin/gsched_server" "${GSCHED_SOURCE_DIR:?}" "$bin/gsched_top" <<'PY'
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, sys.argv[2] + "/tests/cli")
from network_program import Server, ask, expect, finish, write

TOP = os.path.abspath(sys.argv[3])
folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)
write("c.json", {"profiles": [sys.argv[2] + "/tools/data/profiles"], "grpc": "none", "http": "unix:h.sock", "policy": "fifo",
                 "limits": {"http_threads": 16}, "tenants": {"alice": {}, "\u009b31m": {}},
                 "models": {"big": {"profile": "vgg16_b32", "inputs": []}}})
s = Server("--config", "c.json")


def top(*options):
    return subprocess.run([TOP, *options], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)


def infer(n, tenant):
    for _ in range(n):
        ask("h.sock", "POST", "/v2/models/big/infer", {"inputs": []}, {"gsched-tenant": tenant})


infer(1, "nobody")
load = threading.Thread(target=infer, args=(100, "alice"))
load.start()
time.sleep(0.2)
r = top("unix:h.sock", "--once")
load.join()
lines = r.stdout.splitlines()
expect("one frame", r.returncode == 0 and r.stderr == "" and lines[0].startswith("gsched_server ready, fifo, ") and "\x1b" not in r.stdout, r)
busy = re.search(r"^0 sim:h200 +([0-9.]+)% +([0-9.]+) of 132 +[0-9.]+ of \d+ ", r.stdout, re.M)
expect("how busy the device is", busy and float(busy[1]) > 10 and float(busy[2]) > 5, r.stdout)
expect("a model and a tenant", re.search(r"^big +alice +\d+ +0 +[0-9.]+ ms +[0-9.]+ ms ", r.stdout, re.M), r.stdout)
expect("a decision", re.search(r"^\d\d:\d\d:\d\d\.\d{3} (started|finished) +big +alice$", r.stdout, re.M), r.stdout)
r = top("unix:h.sock", "--once", "--json")
now = json.loads(r.stdout)
metrics = ask("h.sock", "GET", "/metrics")[1].decode()
expect("JSON", r.returncode == 0 and now["latency"][0]["ok"] == 100 and
       'gsched_requests_total{model="big",tenant="alice",end="ok"} 100\n' in metrics, r)

# Live, until the server ends.
live = subprocess.Popen([TOP, "unix:h.sock"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
first = [live.stdout.readline() for _ in range(12)]
expect("its end", s.end()[0] == 0)
out, err = live.communicate(timeout=20)
expect("live", live.returncode == 0 and err == "" and first[0].startswith("gsched_server ready"), (first, out[-300:], err))

# What is no such server: other programs, and names that talk to a terminal.
def serve(answer):
    with socket.socket(socket.AF_UNIX) as listens:
        listens.bind("other.sock")
        listens.listen()
        result = []
        t = threading.Thread(target=lambda: result.append(top("unix:other.sock", "--once")))
        t.start()
        c, _ = listens.accept()
        c.recv(1000)
        c.sendall(answer)
        c.close()
        t.join()
    os.remove("other.sock")
    return result[0]


for what, answer, text in (("no HTTP", b"SSH-2.0\n", "no HTTP"), ("an error", b"HTTP/1.1 503 x\r\n\r\n", "503: too many watch"),
                           ("no events", b"HTTP/1.1 200 OK\r\n\r\n", "has ended"), ("no snapshot", b"HTTP/1.1 200 OK\r\n\r\ndata: 1\n\ndata: 1\n\n", "expected a snapshot"),
                           ("another type", b'HTTP/1.1 200 OK\r\n\r\n' + 2 * b'data: {"requests": 7}\n\n', "expected a snapshot")):
    r = serve(answer)
    expect(what, r.returncode == 1 and r.stdout == "" and r.stderr.count("\n") == 1 and text in r.stderr, r)
now["latency"][0]["tenant"] = "\x1b[31m\u009b1m"
r = serve(b"HTTP/1.1 200 OK\r\n\r\n" + 2 * f"data: {json.dumps(now, ensure_ascii=False)}\n\n".encode())
expect("names that talk to a terminal", r.returncode == 0 and "?[31m??1m" in r.stdout and "\x1b" not in r.stdout and "\u009b" not in r.stdout, r)
with open("/dev/full", "w") as full:
    s = Server("--config", "c.json")
    r = subprocess.run([TOP, "unix:h.sock", "--once"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=30)
    expect("a full disk", r.returncode == 1 and "standard output" in r.stderr, r)
    s.end()
finish()
PY
