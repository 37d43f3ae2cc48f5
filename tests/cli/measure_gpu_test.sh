# SPDX-License-Identifier: Apache-2.0
# measure on the GPU here, if there is one: tables that the other programs read, kept by a second run.
program=measure
. "${GSCHED_SOURCE_DIR:?}/tests/cli/expect.sh"
if [ ! -x "$bin" ]; then
  echo "built without CUDA: passed over"
  exit 0
fi
run latency --models sort --out none
if [ "$rc" -ne 0 ] && one_line "CUDA"; then
  echo "no GPU here: passed over"
  finish
  exit
fi
measures() { serves "$@" --models "saxpy,sort,$data/profiles/lenet_b1.json" --out made --minutes 1.5 --busy --quiet --json made.json; }
measures latency
measures pairs --groups 2
cp -r made before
measures latency
expect "rows measured again" diff -r made before
expect "what it says" python3 - <<'PY'
import csv, json
def rows(name):
    return list(csv.DictReader(open(f"made/{name}.csv")))
machine = json.load(open("made/machine.json"))
assert sum(machine["sm_groups"]) == machine["sms"], machine
part, = json.load(open("made.json"))["parts"]
groups = len(machine["sm_groups"])
assert part["rows"] == 0 and part["kept"] == 3 * groups and part["steps_left_out"] == 0, part
latency = rows("latency_batch_partition")
assert len(latency) == 3 * groups
for r in latency:
    assert 0 < float(r["p10_us"]) <= float(r["latency_us"]) <= float(r["p90_us"]), r
pairs = rows("corun_pairs")
assert len(pairs) >= 6 * 2
for r in pairs:
    for side in "ab":
        assert float(r[f"corun_{side}_us"]) > 0.8 * float(r[f"solo_{side}_us"]) > 0, r
    assert 0 < float(r["overlap"]) <= 1, r
    shared = int(r["sms_a"]) == int(r["sms_b"]) == machine["sms"]
    assert shared or int(r["sms_a"]) + int(r["sms_b"]) <= machine["sms"], r
PY
sed 's/"gpu": "[^"]*"/"gpu": "another"/' before/machine.json >made/machine.json
run latency --models sort --out made
[ "$rc" -eq 2 ] && one_line "measured with another" || fail "tables of another GPU: got $rc"
cp before/machine.json made/machine.json
program=plan bin=$GSCHED_BIN_DIR/plan
serves --table made/latency_batch_partition.csv --rates sort=100 --planner sbp
finish
