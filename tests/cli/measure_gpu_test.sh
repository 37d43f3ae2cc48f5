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
        low, middle, high = (float(r[f"solo_{side}_{of}us"]) for of in ("p10_", "", "p90_"))
        assert 0 < low <= middle <= high, r
    assert 0 < float(r["overlap"]) <= 1, r
    shared = int(r["sms_a"]) == int(r["sms_b"]) == machine["sms"]
    assert shared or int(r["sms_a"]) + int(r["sms_b"]) <= machine["sms"], r
PY
misses() { # misses TEXT ARGS...: exit code 4, and a line that counts what is missing
  local text=$1
  shift
  run "$@"
  [ "$rc" -eq 4 ] && one_line "incomplete: $text" || fail "expected 4 and '$text', got $rc: $program $*"
}
keeps() { # keeps TEXT ARGS...: what is refused leaves the folder as it was
  refuses "$@" --models sort --out made --anew --busy
  expect "a folder that is kept" diff -r made before
}
keeps "--sms: 100000 SMs" latency --sms 100000
keeps '--beside: no graph "fft"' pairs --beside fft
keeps "--split: 99999 SMs" probes --split 99999
keeps "lenet_b1.json" latency --adaptor "$data/profiles/lenet_b1.json:net"
misses "3 steps left by --minutes" latency --models "saxpy,sort,$data/profiles/lenet_b1.json" --out short --minutes 1e-9 \
  --busy --quiet
parts=$(python3 -c 'import json; print(2 if len(json.load(open("made/machine.json"))["sm_groups"]) > 1 else 1)')
# Two probes that are chosen, and one whose memory no GPU has: its rows are left out.
misses "$((2 * parts)) rows or graphs left out by errors" probes --models saxpy,sort \
  --probes fp32:2,copy:64:4,l1:4096:1000000 --out made --minutes 1 --busy --quiet \
  --json probes.json
serves probes --models saxpy --probes fp32:2 --split shared --out split --minutes 1 --busy --quiet
serves probes --models saxpy,sort --probes sleep --out waits --minutes 1 --busy --quiet
[ "$parts" -eq 1 ] || serves probes --models saxpy --probes fp32:2 --split 40 --out parts --minutes 1 --busy --quiet
misses "2 rows or graphs left out by errors" kernels --models saxpy,sort --probes copy:64:4,l1:4096:1000000 --out made --minutes 1 --busy --quiet \
  --json kernels.json
expect "graphs and kernels beside probes" python3 - <<'PY'
import csv, json
def rows(name):
    return list(csv.DictReader(open(f"{name}.csv")))
machine = json.load(open("made/machine.json"))
parts = len(machine["sm_groups"]) > 1
probes = rows("made/probes")
both = {"probe_fp32_2", "probe_copy_64_blocks4"}
assert {r["probe"] for r in probes} == both and {r["victim"] for r in probes} == {"saxpy", "sort"}, probes
assert len(probes) == 2 * 2 * (2 if parts else 1), probes
for r in probes:
    of = int(r["probe_sms"])
    assert int(r["probe_sms_seen"]) == min(of, 4 if "_blocks4" in r["probe"] else of), r
    assert r["held_up"] == "1" or 0 < float(r["alone_us"]) < 1.2 * float(r["beside_us"]), r
for name, left_out in {"probes": 2 * (2 if parts else 1), "kernels": 2}.items():
    said = [p for p in json.load(open(f"{name}.json"))["parts"] if p["part"] == name]
    notes = [n for n in said[0]["notes"] if "left out: " in n]
    assert len(notes) == left_out and all("out of memory" in n for n in notes), said
[row] = rows("split/probes")
assert int(row["victim_sms"]) == int(row["probe_sms"]) == machine["sms"], row
for row in rows("parts/probes") if parts else []:
    own, rest = int(row["victim_sms"]), int(row["probe_sms"])
    assert 40 <= own < 40 + max(machine["sm_groups"]) and own + rest == machine["sms"], row
kernels = rows("made/kernels")
waits = rows("waits/held_up")
assert {r["model"] for r in waits} == {"saxpy", "sort"}, waits
for r in waits:
    assert (r["predicted"] != "") == (r["measured"] == "1"), r
    assert 0 < float(r["alone_us"]) and 0 < float(r["beside_us"]), r
assert {"", "warps", "blocks"} <= {r["predicted"] for r in waits}, waits
assert {r["probe"] for r in kernels} == {"probe_copy_64_blocks4"}, kernels
assert {r["model"] for r in kernels} == {"saxpy", "sort"} and all(r["blocks"] == "4" for r in kernels), kernels
for r in probes + kernels + waits:
    assert 0 < float(r["alone_p10_us"]) <= float(r["alone_us"]) <= float(r["alone_p90_us"]), r
    assert 0 < float(r["beside_p10_us"]) <= float(r["beside_us"]) <= float(r["beside_p90_us"]), r
PY
# What sets memory runs as a kernel, and counts as one when rows are looked for.
waits() { serves probes --models "$data/profiles/lenet_b32.json" --probes sleep --split shared --out sets --minutes 1 --busy --quiet --json sets.json; }
waits
waits
expect "kernels beside sleeping blocks measured again" python3 - <<'PY'
import json
held_up, = [p for p in json.load(open("sets.json"))["parts"] if p["part"] == "held up"]
assert held_up["rows"] == 0 and held_up["kept"] > 0, held_up
PY
begins() { serves starts --models saxpy,sort --out begun --minutes 1 --busy --quiet --json begun.json; }
begins
expect "graphs beside one that only starts kernels" python3 - <<'PY'
import csv, json
machine = json.load(open("begun/machine.json"))
rows = list(csv.DictReader(open("begun/start_pairs.csv")))
assert len(rows) == (2 * 3 if len(machine["sm_groups"]) >= 4 else len(rows)), rows
assert {r["model_a"] for r in rows} == {"ticks"} and {r["model_b"] for r in rows} == {"saxpy", "sort"}, rows
for r in rows:
    assert int(r["sms_a"]) + int(r["sms_b"]) <= machine["sms"], r
    assert float(r["corun_b_us"]) > 0.8 * float(r["solo_b_us"]) > 0, r
PY
cp -r begun begun_before
begins
expect "starts measured again" diff -r begun begun_before
run counters --models saxpy --probes fp32:2,upload:4 --out counted --minutes 1 --busy --quiet
if [ "$rc" -eq 1 ] && grep -qE '^measure: (counters|CUPTI): ' err && [ "$(wc -l <err)" -eq 1 ]; then
  echo "no counters here: $(cat err)"
else
  [ "$rc" -eq 0 ] && [ ! -s err ] || fail "counters: got $rc"
  expect "profiles with counters" python3 - <<'PY'
import csv, json
solo = {r["model"]: r for r in csv.DictReader(open("counted/solo_metrics.csv"))}
assert set(solo) == {"saxpy", "probe_fp32_2"}, solo
for name in solo:
    for o in json.load(open(f"counted/profiles/{name}_b1.json"))["operations"]:
        if o["kind"] == "kernel":
            assert o["counters"]["ipc"] > 0 and o["counters"]["us"] > 0, o
            assert o["counters_spread"]["ipc"] >= 0 and o["counters_spread"]["us"] == 0, o
assert float(solo["probe_fp32_2"]["sm_pct"]) > 10, solo
PY
  serves counters --models saxpy,sort --probes fp32:2 --out begun --minutes 1 --busy --quiet
  serves counters --models saxpy,sort,ticks --probes fp32:2 --out begun --minutes 1 --busy --quiet --json again.json
  expect "counters of what only starts kernels, once" python3 - <<'PY'
import csv, json
solo = [r["model"] for r in csv.DictReader(open("begun/solo_metrics.csv"))]
assert sorted(solo) == ["probe_fp32_2", "saxpy", "sort", "ticks"], solo
said, = json.load(open("again.json"))["parts"]
assert said["rows"] == 0 and said["kept"] == 4, said
PY
  program=interference bin=$GSCHED_BIN_DIR/interference
  serves calibrate --starts begun/start_pairs.csv --solo begun/solo_metrics.csv --profiles begun/profiles --out begun/lost.csv
  expect "start losses" grep -q start_loss_us begun/lost.csv
  program=measure bin=$GSCHED_BIN_DIR/measure
  run latency --models saxpy --out counted --minutes 0.5 --busy --quiet
  [ "$rc" -eq 0 ] || fail "latency beside profiles: got $rc"
  expect "a profile with the times on fewer SMs" python3 - <<'PY'
import csv, json
profile = json.load(open("counted/profiles/saxpy_b1.json"))
rows = csv.DictReader(open("counted/latency_batch_partition.csv"))
measured = {r["sms"]: float(r["latency_us"]) for r in rows if int(r["sms"]) < profile["sm_count"]}
assert len(measured) > 3 and profile["graph_replay_us_by_sms"] == measured, profile["graph_replay_us_by_sms"]
PY
  mkdir -p full/profiles
  ln -s /dev/full full/profiles/saxpy_b1.json
  run all --models saxpy --probes fp32:2 --groups 0 --out full --minutes 0.5 --busy --quiet
  [ "$rc" -eq 1 ] && one_line "saxpy_b1.json: " || fail "a full disk: got $rc"
fi
mkdir lost
ln -s none/kernels.csv lost/kernels.csv
run kernels --models saxpy --probes copy:64:4 --out lost --minutes 1 --busy --quiet
[ "$rc" -eq 1 ] && one_line "kernels.csv: writing failed" || fail "rows without a place: got $rc"
sed 's/"gpu": "[^"]*"/"gpu": "another"/' before/machine.json >made/machine.json
run latency --models sort --out made
[ "$rc" -eq 2 ] && one_line "measured with another" || fail "tables of another GPU: got $rc"
cp before/machine.json made/machine.json
# Another process has the GPU for many seconds.
timeout 60 "$GSCHED_BIN_DIR/measure" probes --models saxpy,sort --out other --minutes 1 --busy --quiet >/dev/null 2>other.txt &
other=$!
sleep 5
if kill -0 $other 2>/dev/null; then
  run latency --models saxpy --out busy
  [ "$rc" -eq 1 ] && one_line "is the GPU in use? --busy measures all the same" || fail "a GPU in use: got $rc"
  program=profile bin=$GSCHED_BIN_DIR/profile
  run --graph saxpy --no-cupti
  [ "$rc" -eq 1 ] && one_line "is the GPU in use? --busy measures all the same" || fail "profile of a GPU in use: got $rc"
else
  fail "the other process ended too soon to be found: $(cat other.txt)"
fi
kill $other 2>/dev/null
wait $other 2>/dev/null
program=plan bin=$GSCHED_BIN_DIR/plan
serves --table made/latency_batch_partition.csv --rates sort=100 --planner sbp
finish
