#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The figures of the REEF paper can be redone: a small run writes results and is honest about what it
# finds; and the comparison of simulator and GPU, with a simulated device in the GPU's place.
. "${GSCHED_SOURCE_DIR:?}/tests/cli/script_checks.sh"

small=(--bin "$bin" --seconds 0.05 --workloads disb_a,pair_bert_vgg16)
check "figures" python3 "$bench/figures/realtime_figures" "${small[@]}" --results results
check "what they found" python3 - <<'PY'
import glob, json
[path] = glob.glob("results/realtime_figures.*.sim-h200.*.json")
said = json.load(open(path))
assert len(said["calls"]) == 4 and all("said" in c for c in said["calls"])
what = {c["what"] for c in said["checks"]}
assert any("1.14 of seq" in w for w in what) and any(w.startswith("pairs, preempt:") for w in what), what
assert all(c["met"] for c in said["checks"] if "lost" in c["what"] or "it ran" in c["what"])
# A run in which best-effort work got in the way and something was lost does not pass.
run = next(r for r in said["calls"][0]["said"]["runs"] if r["mode"] == "preempt")
run["rt"]["slowdown_vs_rt_only"], run["lost"] = 1.2, 3
json.dump(said, open("worse.json", "w"))
# Blocks that are not counted are not none.
run["slowdown_vs_rt_only"], run["lost"], run["rerun_blocks"] = 1, 0, None
json.dump(said, open("uncounted.json", "w"))
PY
check "old results again" python3 "$bench/figures/realtime_figures" --again "$(ls results/*.json)"
checks=$((checks + 1))
python3 "$bench/figures/realtime_figures" --again worse.json --strict >out 2>err
if [[ $? -ne 1 ]] || ! grep -q 'MISSED  preempt: real-time mean at most 5%' out ||
  ! grep -q '3 requests' out; then
  failed=$((failed + 1))
  echo "FAILED: worse results pass"
fi
checks=$((checks + 1))
python3 "$bench/figures/realtime_figures" --again uncounted.json >out 2>err
if ! grep -q 'no block that has ended runs again: 3 of 4' out || ! grep -q ': not counted$' out; then
  failed=$((failed + 1))
  echo "FAILED: blocks that are not counted pass as none"
fi
if command -v gnuplot >/dev/null; then
  check "a plot" python3 "$bench/figures/realtime_figures" --again "$(ls results/*.json)" --figures plots
  check "a plot's file" grep -q '</svg>' plots/realtime_sim-h200.svg
else
  refuses 2 "no gnuplot" figures/realtime_figures --again worse.json --figures plots
fi
check "repeats" python3 "$bench/figures/realtime_figures" --bin "$bin" --seconds 0.05 --workloads disb_a \
  --kernels held --repeat 3 --results repeats
check "their order, seeds and medians" python3 - <<'PY'
import glob, json, statistics
[path] = glob.glob("repeats/*.json")
said = json.load(open(path))
calls = [c["said"] for c in said["calls"]]
assert [c["seed"] for c in calls] == [1, 2, 3]
orders = [[r["mode"] for r in c["runs"]][2:4] for c in calls]
assert orders[0] == orders[2] == orders[1][::-1] == ["preempt", "preempt_pad"], orders
# One run of three that is bad is no median, two are.
for bad in (1, 2):
    for c in calls[:bad]:
        next(r for r in c["runs"] if r["mode"] == "preempt")["rt"]["slowdown_vs_rt_only"] = 1.2
    json.dump(said, open(f"bad{bad}.json", "w"))
PY
check "one that is bad" python3 "$bench/figures/realtime_figures" --again bad1.json
mv out told
check "is no median" grep -q 'met     preempt: real-time mean at most 5%' told
check "two that are bad" python3 "$bench/figures/realtime_figures" --again bad2.json
mv out told
check "are the median" grep -q 'disb_a, held: +20.0% (' told
refuses 2 "held, leaving" figures/realtime_figures --kernels x
refuses 2 "1 or more" figures/realtime_figures --repeat 0
check "a run that fails" python3 "$bench/figures/realtime_figures" "${small[@]}" --device none.json --results results
mv out failing
check "is said to fail" grep -q 'MISSED  it ran: 0 of 4' failing
refuses 1 "not found" figures/realtime_figures "${small[@]}" --bin nowhere --results results
refuses 2 "expected" figures/realtime_figures --frobnicate
echo '{"calls": 1}' >broken.json
refuses 2 "broken.json" figures/realtime_figures --again broken.json

# Equal sides agree to the bit; a device that hears later is marked.
cp "$preset" gpu.json
check "a run in the GPU's place" "$bin/realtime" --device gpu.json --seconds 0.05 --workload driving \
  --quiet --json same.json
check "equal sides" python3 "$bench/realtime_sim_vs_gpu.py" same.json --bin "$bin" --contended --strict --json rows.json
check "equal sides, row by row" python3 - <<'PY'
import json
said = json.load(open("rows.json"))
assert len(said["rows"]) == 6, said["rows"]
assert all(v == 1 for r in said["rows"] for k, v in r.items() if k.endswith("_ratio")), said["rows"]
assert said["summary"]["mean"] == {"rows": 6, "outside": 0, "median_off": 0, "worst_ratio": 1}
PY
# An old run of kernels that leave names longer segments than it had.
check "a run of kernels that leave" "$bin/realtime" --device gpu.json --seconds 0.05 --mode rt_only,preempt \
  --leaves at_checkpoints --quiet --json leaves.json
python3 - <<'PY'
import json
said = json.load(open("leaves.json"))
said["scheduling"] |= {"quantum_us": 200, "most_quantum_us": 3200}
json.dump(said, open("leaves.json", "w"))
PY
check "it is run again with what it had" python3 "$bench/realtime_sim_vs_gpu.py" leaves.json --bin "$bin" \
  --contended --strict --json leaves_rows.json
check "and is equal" python3 - <<'PY'
import json
ratios = [v for r in json.load(open("leaves_rows.json"))["rows"] for k, v in r.items() if k.endswith("_ratio")]
assert len(ratios) >= 8 and all(v == 1 for v in ratios), ratios
PY
python3 - "$preset" <<'PY'
import json, sys
p = json.load(open(sys.argv[1]))
p["host"]["segment_notice_us"] += 2000
json.dump(p, open("slow.json", "w"))
PY
check "a slow device's run" "$bin/realtime" --device slow.json --seconds 0.05 --quiet --json slow_run.json
checks=$((checks + 1))
python3 "$bench/realtime_sim_vs_gpu.py" slow_run.json --bin "$bin" --strict >out 2>err
[[ $? -eq 1 && $(grep -c '!' out) -ge 5 ]] || { failed=$((failed + 1)) && echo "FAILED: not marked"; }
refuses 2 "no run on a GPU" realtime_sim_vs_gpu.py "$(ls results/*sim-h200*.json | head -n 1)" --bin "$bin"
refuses 2 "none.json" realtime_sim_vs_gpu.py none.json --bin "$bin"
refuses 2 "broken.json" realtime_sim_vs_gpu.py broken.json --bin "$bin"
refuses 1 "not found" realtime_sim_vs_gpu.py same.json --bin "$work"

printf '%d checks, %d failures\n' "$checks" "$failed"
[[ $failed -eq 0 ]]
