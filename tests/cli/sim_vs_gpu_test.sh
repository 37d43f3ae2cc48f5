#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The comparison of simulator and GPU: with a simulated device in the GPU's place, equal sides agree
# to the bit and unequal ones are marked; what serve_models.py writes is run again the same.
. "${GSCHED_SOURCE_DIR:?}/tests/cli/script_checks.sh"
script=$bench/sim_vs_gpu.py

# shellcheck disable=SC2054
small=(--bin "$bin" --requests 100 --repeat 2 --loads 0.5,1.5 --policy srpt,direct
  --mix resnet18_b1=2,lenet_b1=1)

check "equal sides" python3 "$script" stand-ins --device sim:h200 --preset "$preset" --contended \
  "${small[@]}" --lanes 4 --strict --json equal.json
check "equal sides, row by row" python3 - <<'PY'
import json
said = json.load(open("equal.json"))
rows = said["rows"]
assert len(rows) == 2 * 2 * 3, len(rows)
assert all(r["mean_ratio"] == 1 and r["p99_ratio"] == 1 and r["lost"] == 0 for r in rows), rows
assert {r["model"] for r in rows} == {"all", "resnet18_b1", "lenet_b1"}
assert said["summary"]["all/p99"] == {"rows": 12, "outside": 0, "median_off": 0, "worst_ratio": 1}
PY

# A GPU whose segments are seen half a millisecond later: every row is off, and marked.
python3 - "$preset" <<'PY'
import json, sys
p = json.load(open(sys.argv[1]))
p["host"]["segment_notice_us"] += 500
json.dump(p, open("slow.json", "w"))
PY
checks=$((checks + 1))
python3 "$script" stand-ins --device slow.json --contended "${small[@]}" --strict --json slow_rows.json \
  >out 2>err
[[ $? -eq 1 && $(grep -c '!' out) -ge 12 ]] || { failed=$((failed + 1)) && echo "FAILED: not marked"; }
if command -v gnuplot >/dev/null; then
  check "a plot" python3 "$script" stand-ins --device slow.json "${small[@]}" --plot plot.svg
  check "a plot's file" grep -q '</svg>' plot.svg
else
  refuses 2 "no gnuplot" sim_vs_gpu.py stand-ins --device slow.json "${small[@]}" --plot plot.svg
fi

# The results of PyTorch models, as one document and as a sweep: here serve_mix stands in.
"$bin/serve_mix" --mix resnet18_b1=2,lenet_b8=1 --policy srpt,single --load 0.9 --requests 100 --seed 3 \
  --lanes 5 --quiet --no-progress --json m.json
"$bin/serve_mix" --mix resnet18_b1=2,lenet_b8=1 --policy srpt --load 0.9 --requests 100 --seed 4 \
  --lanes 5 --quiet --no-progress --json m2.json
python3 - <<'PY'
import json
def plain(run, repeat):
    run["per_model"] = {k.removesuffix("_b1"): v for k, v in run["per_model"].items()}
    return dict(run, way=run["policy"], repeat=repeat)
d = json.load(open("m.json"))
again = json.load(open("m2.json"))
d["workload"]["mix"] = {k.removesuffix("_b1"): v for k, v in d["workload"]["mix"].items()}
d["runs"] = [plain(r, 0) for r in d["runs"]] + [plain(r, 1) for r in again["runs"]]
d["runs"].append(dict(d["runs"][0], policy="eager-streams"))
json.dump(d, open("torch.json", "w"))
json.dump({"device": d["device"], "seed": 3, "sweep": [d, d]}, open("sweep.json", "w"))
PY
for file in torch sweep; do
  check "$file.json" python3 "$script" models --gpu-json $file.json --bin "$bin" --strict --json rows.json
  check "$file.json, row by row" python3 - $file <<'PY'
import json, sys
rows = json.load(open("rows.json"))["rows"]
assert len(rows) == 6 * (2 if sys.argv[1] == "sweep" else 1), len(rows)
assert all(abs(r[f"{f}_ratio"] - 1) < 1e-3 for r in rows for f in ("mean", "p99")), rows
assert {r["policy"] for r in rows} == {"srpt", "single"}
PY
done

# The client's part counts to both sides.
python3 - <<'PY'
import json
d = json.load(open("torch.json"))
for r in d["runs"]:
    r |= {"late_us": {"mean": 50}, "submit_us": {"mean": 100}}
    for part in (r, *r["per_model"].values()):
        part["latency_us"] = {k: v + 150 for k, v in part["latency_us"].items()}
json.dump(d, open("client.json", "w"))
PY
check "the client's part" python3 "$script" models --gpu-json client.json --bin "$bin" --json rows.json
check "the client's part, row by row" python3 - <<'PY'
import json
rows = json.load(open("rows.json"))["rows"]
assert len(rows) == 6 and all(abs(r[f"{f}_ratio"] - 1) < 1e-3 for r in rows for f in ("mean", "p99")), rows
PY

# The law of a file takes the place of the preset's.
python3 - "$GSCHED_SOURCE_DIR/tools/data/interference/h200.json" <<'PY'
import json, sys
law = json.load(open(sys.argv[1]))
json.dump(law, open("same_law.json", "w"))
law["replay"]["start_us"] = 50
json.dump(law, open("other_law.json", "w"))
PY
for law in same other; do
  check "$law law" python3 "$script" models --gpu-json torch.json --law ${law}_law.json --bin "$bin" --json $law.json
done
check "the law of a file" python3 - <<'PY'
import json
same, other = ([r["mean_ratio"] for r in json.load(open(f))["rows"]] for f in ("same.json", "other.json"))
assert all(abs(x - 1) < 1e-3 for x in same), same
assert max(other) > 1.01, other
PY
echo '{}' >no_law.json
refuses 2 "no_law.json: no 'contention'" sim_vs_gpu.py models --gpu-json torch.json --law no_law.json --bin "$bin"

refuses 2 "expected" sim_vs_gpu.py stand-ins --loads x
refuses 2 "expected" sim_vs_gpu.py stand-ins --arrivals weibull
refuses 2 "expected" sim_vs_gpu.py nothing
refuses 2 "none.json" sim_vs_gpu.py models --gpu-json none.json --bin "$bin"
refuses 2 "no such folder" sim_vs_gpu.py stand-ins --json none/rows.json
refuses 1 "not found" sim_vs_gpu.py stand-ins --device sim:h200 --bin "$work"
refuses 1 "resnet1800" sim_vs_gpu.py stand-ins --device sim:h200 --mix resnet1800 --bin "$bin"
echo '{"runs": 1}' >broken.json
refuses 2 "broken.json" sim_vs_gpu.py models --gpu-json broken.json --bin "$bin"
echo '{' >broken.json
refuses 2 "expected JSON" sim_vs_gpu.py models --gpu-json broken.json --bin "$bin"

printf '%d checks, %d failures\n' "$checks" "$failed"
[[ $failed -eq 0 ]]
