# SPDX-License-Identifier: Apache-2.0
# Prometheus's own checker reads the metrics of the network server, where both are there.
set -u
bin=${GSCHED_BIN_DIR:?}/gsched_server
if [ ! -x "$bin" ]; then
  echo "gsched_server: not built, not tested"
  exit 0
fi
if ! command -v promtool >/dev/null; then
  echo "promtool: passed over"
  exit 0
fi
python3 -B - "$bin" "${GSCHED_SOURCE_DIR:?}" <<'PY'
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, sys.argv[2] + "/tests/cli")
from network_program import Server, ask, expect, finish, write

folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)
write("c.json", {"profiles": [sys.argv[2] + "/tools/data/profiles"], "device": ["sim:h200", "sim:h200"], "grpc": "none", "http": "unix:h.sock",
                 "socket": "c.sock", "log": "log", "models": {'a"\\b': {"profile": "lenet_b1", "inputs": []}}})
s = Server("--config", "c.json")
for _ in range(3):
    status, body, _ = ask("h.sock", "POST", "/v2/models/a%22%5Cb/infer", {"inputs": []})
    expect("a request", status == 200, body)
metrics = ask("h.sock", "GET", "/metrics")[1]
r = subprocess.run(["promtool", "check", "metrics"], input=metrics, capture_output=True)
expect("promtool check metrics", r.returncode == 0 and r.stdout == r.stderr == b"", r)
expect("its end", s.end()[0] == 0)
finish()
PY
