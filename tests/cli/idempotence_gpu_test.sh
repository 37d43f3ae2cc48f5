# SPDX-License-Identifier: Apache-2.0
# idempotence on the GPU here, if there is one: traced there as on the host, less is known of the
# captured graph, and what runs twice changes memory exactly where the trace says that it clobbers.
set -u
bin=${GSCHED_BIN_DIR:?}/idempotence
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

timeout 120 "$bin" --device cuda --check --json gpu.json --save-trace gpu_trace.json >out 2>err
rc=$?
if [ $rc -eq 1 ] && grep -q CUDA err; then
  echo "no GPU here: passed over"
  exit 0
fi
if [ $rc -ne 0 ] || [ -s err ]; then
  echo "FAILED: idempotence --device cuda --check ended with $rc"
  head -n 20 out err
  exit 1
fi
"$bin" --device host --json host.json >/dev/null && "$bin" --trace gpu_trace.json --json file.json \
  >/dev/null && "$bin" --device cuda --reuse --json reuse.json >/dev/null || exit 1
python3 - <<'PY'
import json

def runs(name):
    return json.load(open(name))["runs"]

def facts(run):
    return [(o["kind"], o["name"], o["bytes_read"], o["bytes_written"], o["verdict"],
             o["restart_from"]) for o in run["operations"]]

traced, captured = runs("gpu.json")
host, = runs("host.json")
file, = runs("file.json")
assert facts(traced) == facts(host), (facts(traced), facts(host))
assert facts(traced) == facts(file)
for by_address, by_arguments in zip(traced["operations"], captured["operations"]):
    assert by_address["kind"] == by_arguments["kind"]
    if by_address["kind"] != "kernel":
        assert by_arguments["bytes_written"] == by_address["bytes_written"]
        continue
    assert by_arguments["assumed"] or by_arguments["verdict"] == "wait"
    assert by_arguments["bytes_read"] >= by_address["bytes_read"]
    assert by_arguments["bytes_written"] >= by_address["bytes_written"]
    changes = by_arguments["second_run_changes"]
    assert changes == (by_address["verdict"] != "alone"), by_arguments
assert runs("reuse.json")[0]["operations"][8]["restart_from"] == 1
PY
rc=$?
[ $rc -eq 0 ] || { echo "FAILED: what the GPU says"; cat out; exit 1; }
echo "6 checks, 0 failures"
