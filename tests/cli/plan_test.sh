#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# plan: its plans hold by a check of our own from the JSON, and one line for each kind of bad input.
program=plan
# shellcheck source=expect.sh
. "$(dirname "${BASH_SOURCE[0]}")/expect.sh"
table=$data/latency_batch_partition.csv
failed=0

"$bin" --rates lenet=2000,vgg16=300 --slo lenet=2,vgg16=20 --gpus 1 --json "$work/one.json" \
  > "$work/one.txt" || failed=1
grep -q 'vgg16 300.0/s' "$work/one.txt" || { echo "no plan told"; failed=1; }
"$bin" --scenarios all --models lenet,resnet50,vgg16 --levels 0,3000,9000 --gpus 2 \
  --json "$work/all.json" > /dev/null || failed=1
python3 - "$table" "$work/one.json" "$work/all.json" <<'PY' || failed=1
import csv, json, sys
took = {}  # measured, us; that it rises with the batch and falls with the SMs is all we ask of it
for r in csv.DictReader(open(sys.argv[1])):
    took[r["model"], int(r["batch"]), int(r["sms"])] = float(r["latency_us"])

def least_time(model, batch, sms):
    """Of the next smaller batch on the next larger size that was measured, less a little noise."""
    sizes = sorted(s for m, _, s in took if m == model)
    smaller = max(b for m, b, _ in took if m == model and b <= batch)
    larger = min((s for s in sizes if s >= sms), default=sizes[-1])
    return took[model, smaller, larger] * 0.97

one, every = (json.load(open(f)) for f in sys.argv[2:])
assert len(one["runs"]) == 9 and all(r["schedulable"] for r in one["runs"])
assert [t["scenarios"] for t in every["totals"]] == [26] * 9 and len(every["runs"]) == 234
some = 0
for said in (one, every):
    for r in said["runs"]:
        if not r["schedulable"]:
            assert r["plan"] == [] and r["worst_latency_over_slo"] is None
            some += 1
            continue
        served = {}
        used = {}
        for g in r["plan"]:
            used[g["gpu"]] = used.get(g["gpu"], 0) + g["sms"]
            busy = 0
            for p in g["portions"]:
                served[p["model"]] = served.get(p["model"], 0) + p["rate"]
                least = least_time(p["model"], p["batch"], g["sms"])
                busy += least
                assert p["rate"] * g["cycle_us"] / 1e6 <= p["batch"] * 1.000001, (r, p)
                assert g["cycle_us"] + least <= r["scenario"][p["model"]]["slo_us"], (r, p)
            assert busy <= g["cycle_us"], (r, g)
        assert all(n <= said["sms"] for n in used.values()) and len(used) <= said["gpus"], r
        assert sum(used.values()) == r["sms_used"] and 0 < r["worst_latency_over_slo"] <= 1, r
        for model, d in r["scenario"].items():
            assert served.get(model, 0) >= d["rate"] * 0.99999, (r, model)
assert some > 0
by = {t["planner"]: t["schedulable"] for t in every["totals"]}
assert by["ideal"] >= by["best"] >= by["elastic"] >= by["gpulet"] >= by["self_tuning"] > 0, by
assert by["elastic"] >= by["sbp"] and by["ideal"] >= by["sbp_ideal"] >= by["sbp"] > 0, by
assert by["ideal"] >= by["gpulet_ideal"] >= max(by["gpulet_cuts"], by["sbp_ideal"]), by
assert by["gpulet_cuts"] >= by["gpulet"], by
ideal = next(t for t in every["totals"] if t["planner"] == "ideal")
assert ideal["schedulable"] + ideal["impossible"] == 26, ideal
for r in every["runs"]:
    assert r["verdict"] in ("plan", "impossible", "none found") and (r["verdict"] == "plan") == r["schedulable"], r
    assert (r["bound"] is not None) == (r["planner"] in ("ideal", "gpulet_ideal")), r
    assert r["bound"] is None or not r["schedulable"] or r["bound"] > 0.9999, r
    assert r["holds_with_interference"] is None and r["holds_in_longer_cycles"] is None, r
PY

"$bin" --rates resnet50=100,vgg16=100 --gpus 2 --max-scale --json "$work/scale.json" > /dev/null || failed=1
python3 - "$work/scale.json" <<'PY' || failed=1
import json, sys
scales = {r["planner"]: r["max_scale"] for r in json.load(open(sys.argv[1]))["runs"]}
assert scales["elastic"] > scales["sbp"] > 1, scales
assert scales["ideal"] >= scales["best"] * 0.999 >= scales["elastic"] * 0.998, scales
PY
# With interference: by the law written once more, a plan that is told of it has the time for its batches. Bounds of
# latencies and uses stand for what lies between two rows of the tables.
metrics=$data/solo_metrics.csv
law=$data/interference/h200.json
"$bin" --scenarios all --models lenet,resnet50,vgg16 --levels 0,3000,9000 --gpus 2 \
  --planner sbp,elastic,best,all+int --json "$work/int.json" > "$work/int.txt" || failed=1
grep -q 'holds  *or slower' "$work/int.txt" || { echo "no column of what holds"; failed=1; }
python3 - "$metrics" "$table" "$work/int.json" "$law" <<'PY' || failed=1
import csv, json, sys
took, moved = {}, {}
for r in csv.DictReader(open(sys.argv[2])):
    took[r["model"], int(r["batch"]), int(r["sms"])] = float(r["latency_us"])
for r in csv.DictReader(open(sys.argv[1])):  # of a replay: L2, DRAM, starts; and the part of a pause that costs time
    us = float(r["solo_us"])
    moved.setdefault(r["model"], []).append((int(r["batch"]), [
        float(r["l2_pct"]) / 100 * us, float(r["dram_pct"]) / 100 * us,
        float(r["starts"]), float(r["exposed_pct"]) / 100]))
said = json.load(open(sys.argv[3]))
law = json.load(open(sys.argv[4]))
assert said["interference"] == "h200", said["interference"]

def least_time(model, batch, sms):
    smaller = max(b for m, b, _ in took if m == model and b <= batch)
    larger = min((s for m, _, s in took if m == model and s >= sms), default=132)
    return took[model, smaller, larger] * 0.97

def least_use(model, batch, sms):
    larger = min(b for m, b, _ in took if m == model and b >= batch)
    smaller = max((s for m, _, s in took if m == model and s <= sms), default=8)
    us = took[model, larger, smaller] * 1.05
    rows = sorted(moved[model])
    low = max((r for r in rows if r[0] <= batch), default=rows[0])
    high = min((r for r in rows if r[0] >= batch), default=rows[-1])
    least = [min(a, b) for a, b in zip(low[1], high[1])]
    return [min(1, least[0] / us), min(1, least[1] / us), least[2] / us, least[3]]

def slowdown(own, others):
    c, starts = law["contention"], law["replay"]
    touched = lambda use: use / (use + 0.002)
    def kernel(latency):
        total = (1 + latency * touched(own[0])) ** 8
        for use, more, limit in ((own[0], others[0], c["l2"]), (own[1], others[1], c["dram"])):
            total += (((use + more) / limit) ** 8 - (use / limit) ** 8) * touched(use)
        return total ** 0.125
    full = kernel(c["l2_latency"] * 0.6 * others[0] + c["dram_latency"] * 0.7 * others[1])
    full += starts["gap_us"] * own[2] * others[0] + own[3] * starts["start_us"] * others[2]
    return max(kernel(0), (1 + (1 + 4 * max(0, full - 1)) ** 0.5) / 2)

def least_slowdown(plan, of, model, batch):
    others = [0, 0, 0, 0]
    beside = [g for g in plan if g["gpu"] == of["gpu"] and g is not of]
    for g in beside:
        uses = [least_use(p["model"], p["batch"], g["sms"]) for p in g["portions"]]
        others = [a + max(u[i] for u in uses) for i, a in enumerate(others)]
    return slowdown(least_use(model, batch, of["sms"]), others) if beside else 1

told = blind = failing = slow = 0
for r in said["runs"]:
    if not r["schedulable"]:
        assert r["holds_with_interference"] is None and r["worst_latency_over_slo_with_interference"] is None
        continue
    knows = r["planner"] == "sbp" or r["planner"].endswith("+int")
    told += knows
    blind += not knows
    worst, slowed = r["worst_latency_over_slo"], r["worst_latency_over_slo_with_interference"]
    if knows:
        assert r["holds_with_interference"] and r["holds_in_longer_cycles"] and worst == slowed <= 1, r
    else:
        assert slowed >= worst, r
        failing += not r["holds_with_interference"]
    assert r["holds_in_longer_cycles"] or not r["holds_with_interference"], r
    for g in r["plan"]:
        factors = [least_slowdown(r["plan"], g, p["model"], p["batch"]) for p in g["portions"]]
        busy = sum(least_time(p["model"], p["batch"], g["sms"]) * f for p, f in zip(g["portions"], factors))
        slow += max(factors) > 1.02
        if r["holds_with_interference"]:
            assert busy <= g["cycle_us"], (r, g, factors)
    if r["planner"] == "elastic" and all(sum(o["gpu"] == g["gpu"] for o in r["plan"]) == 1 for g in r["plan"]):
        assert r["holds_with_interference"], r  # each alone on its GPU
assert told > 20 and blind > 20 and failing > 10 and slow > 20, (told, blind, failing, slow)
for t in said["totals"]:
    mine = [r for r in said["runs"] if r["planner"] == t["planner"]]
    assert t["schedulable"] == sum(r["schedulable"] for r in mine), t
    assert t["holds_with_interference"] == sum(r["holds_with_interference"] is True for r in mine), t
    assert t["holds_in_longer_cycles"] == sum(r["holds_in_longer_cycles"] is True for r in mine), t
by = {t["planner"]: t["schedulable"] for t in said["totals"]}
assert by["best"] >= by["ideal+int"] >= by["best+int"] >= by["elastic+int"] > 0, by
common = [r for r in said["runs"] if all(o["schedulable"] for o in said["runs"] if o["scenario"] == r["scenario"])]
assert len(common) == said["scenarios_where_all_have_a_plan"] * len(said["totals"]) > 0
for t in said["totals"]:
    mine = [r["sms_used"] for r in common if r["planner"] == t["planner"]]
    assert abs(t["sms_used_mean_where_all_have_a_plan"] - sum(mine) / len(mine)) < 1e-3, t
PY
# With interference low rates have a plan as well as high ones.
"$bin" --rates resnet50=100,ssdlite_mobilenet=100,vgg16=100 --gpus 1 --planner elastic+int |
  grep -q 'GPU 0' || { echo "no plan for low rates"; failed=1; }
"$bin" --rates resnet50=100,ssdlite_mobilenet=100,vgg16=100 --gpus 1 --planner elastic+int --max-scale |
  grep -qE '^elastic\+int +1[0-9]\.' || { echo "no larger multiple than the first that has none"; failed=1; }
# The shipped law, by name, as a file and by default, is one law; without it elastic has a fault.
ask=(--rates lenet=90000,resnet50=5000,vgg16=3000 --planner elastic)
"$bin" "${ask[@]}" --interference h200 > "$work/named.txt" || failed=1
"$bin" "${ask[@]}" --interference "$law" --solo "$metrics" > "$work/file.txt" || failed=1
"$bin" "${ask[@]}",elastic+int > "$work/default.txt" || failed=1
grep -q 'does not hold beside others: GPU 0' "$work/named.txt" || { echo "no fault told"; failed=1; }
diff <(grep GPU "$work/named.txt") <(grep GPU "$work/file.txt") || failed=1
[[ $(sed -n '/^elastic$/,/^elastic+int/p' "$work/default.txt" | grep GPU) == "$(grep GPU "$work/named.txt")" ]] ||
  { echo "another law by default"; failed=1; }
"$bin" "${ask[@]}" | grep -qE 'does not hold|holds' && { echo "interference unasked"; failed=1; }

# What no fit has seen is told: more partitions of a GPU, and batches that were not measured alone.
ask=(--rates lenet=3000,resnet50=1000,vgg16=500 --gpus 1 --planner elastic+int)
"$bin" "${ask[@]}" --json "$work/beyond.json" > "$work/beyond.txt" || failed=1
grep -qx '  extrapolated: beyond what the fit and --solo have seen in graphs' "$work/beyond.txt" ||
  { echo "three partitions as two"; failed=1; }
sed 's/"graphs": 2/"graphs": 3/' "$law" > "$work/three.json"
"$bin" "${ask[@]}" --interference "$work/three.json" --json "$work/within.json" | grep -q extrapolated &&
  { echo "seen, and called extrapolated"; failed=1; }
sed 's/"dram": 0.857/"dram": 0.01/; s/"graphs": 2/"graphs": 3/' "$law" > "$work/low.json"
awk -F, '!/^vgg16/ || $2 == 1' "$metrics" > "$work/small.csv"
"$bin" "${ask[@]}" --interference "$work/low.json" --solo "$work/small.csv" > "$work/low.txt" || failed=1
grep -qxE '  extrapolated: .* in dram, vgg16 in [2-9]' "$work/low.txt" || { echo "not what it exceeds"; failed=1; }
"$bin" "${ask[@]/+int/}" --json "$work/unasked.json" > "$work/low.txt" || failed=1
python3 - "$work" <<'PY' || failed=1
import json, sys
said = [json.load(open(f"{sys.argv[1]}/{f}.json"))["runs"][0]["beyond_the_fit"] for f in ("beyond", "within", "unasked")]
assert said == ["graphs", "", None], said
PY

# A file of rates says what --rates says, scenario by scenario.
printf 'model,rate\nresnet50,100\nvgg16,100\n' > "$work/one.csv"
printf 'rate,scenario,model,why\r\n100,day,resnet50,x\r\n\r\n9,night,lenet,y\r\n100,day,vgg16,z\r\n' > "$work/two.csv"
"$bin" --rates resnet50=100,vgg16=100 --planner elastic,best --rate-scale 30 | grep GPU > "$work/as_rates.txt"
"$bin" --rates-file "$work/one.csv" --planner elastic,best --rate-scale 30 | grep GPU > "$work/as_file.txt"
[[ -s $work/as_rates.txt ]] && diff "$work/as_rates.txt" "$work/as_file.txt" || failed=1
"$bin" --rates-file "$work/two.csv" --planner elastic --json "$work/two.json" > /dev/null || failed=1
"$bin" --rates-file "$work/two.csv" --planner sbp --max-scale | grep -qE '^night +[0-9.]+  lenet 9.0/s' || failed=1
python3 - "$work/two.json" <<'PY' || failed=1
import json, sys
runs = json.load(open(sys.argv[1]))["runs"]
rates = {r["name"]: {m: d["rate"] for m, d in r["scenario"].items()} for r in runs}
assert list(rates.items()) == [("day", {"resnet50": 100, "vgg16": 100}), ("night", {"lenet": 9})], rates
PY
"$bin" --rates-file "$data/mixes.csv" --rate-scale 40 --planner elastic \
  | grep -q 'elastic *5 of *5' || { echo "the mixes that ship have no plan"; failed=1; }

# Apps ask each of their models; two at once add up, also with models; each has its own multiple.
"$bin" --app game=500 --planner elastic,best | grep GPU > "$work/as_app.txt"
"$bin" --rates lenet=3000,resnet50=500 --slo lenet=9.92826 --planner elastic,best | grep GPU > "$work/as_models.txt"
[[ -s $work/as_app.txt ]] && diff "$work/as_app.txt" "$work/as_models.txt" || failed=1
"$bin" --app game=50,traffic=20 --rates vgg16=5,lenet=7 --planner sbp --json "$work/both.json" > /dev/null || failed=1
"$bin" --rates-file "$data/mixes.csv" --planner sbp,elastic,best --max-scale --json "$work/mixes.json" |
  grep -qE '^traffic( +[1-9][0-9.]+){3}  traffic 50.0/s$' || { echo "no multiple of an app"; failed=1; }
printf '{"gsched_app":1,"name":"mine","stages":[{"name":"s","model":"vgg16","requests":2}]}' > "$work/mine.json"
printf 'scenario,model,rate\nx,mine,9\nx,game,1\n' > "$work/mine.csv"
"$bin" --rates-file "$work/mine.csv" --app "$work/mine.json" --planner sbp --slo mine=5,game=4 \
  --json "$work/mine_said.json" > /dev/null || failed=1
python3 - "$work" "$data" <<'PY' || failed=1
import json, pathlib, sys
def said(name):
    return json.loads((pathlib.Path(sys.argv[1]) / name).read_text())["runs"]
[both] = said("both.json")
rates = {m: d["rate"] for m, d in both["scenario"].items()}
assert rates == {"lenet": 307, "resnet50": 50, "ssdlite_mobilenet": 20, "googlenet": 20, "vgg16": 25}, rates
slo = {m: d["slo_us"] for m, d in both["scenario"].items()}
assert {a: d["rate"] for a, d in both["apps"].items()} == {"game": 50, "traffic": 20}, both["apps"]
assert both["apps"]["game"]["slo_us"] == slo["resnet50"]
# Twice the longest model's time, as in the paper, shared out over the two stages.
alone = {"ssdlite_mobilenet": 0.0, "googlenet": 0.0, "vgg16": 0.0}
for line in open(pathlib.Path(sys.argv[2]) / "latency_batch_partition.csv"):
    model, batch, sms, us = line.split(",")[:4]
    if model in alone and batch == "32" and sms == "132":
        alone[model] = float(us)
asked = both["apps"]["traffic"]["slo_us"]
assert abs(asked - 2 * max(alone.values())) < 0.1, (asked, alone)
assert abs(asked - slo["ssdlite_mobilenet"] - slo["vgg16"]) < 0.01, (asked, slo)
most = {(r["name"], r["planner"]): r["max_scale"] for r in said("mixes.json")}
assert len(most) == 15 and min(most.values()) > 10, most
for app in ("game", "traffic"):
    assert most[app, "best"] >= most[app, "elastic"] * 0.998 >= most[app, "sbp"] * 0.99, most
[mine] = said("mine_said.json")
assert mine["scenario"]["vgg16"] == {"rate": 18, "slo_us": 5000}, mine
assert mine["apps"]["mine"] == {"rate": 9, "slo_us": 5000} and mine["apps"]["game"]["slo_us"] == 4000, mine
assert mine["scenario"]["resnet50"]["slo_us"] == mine["scenario"]["lenet"]["slo_us"] == 4000, mine
PY
"$bin" --help | grep -q 'Its SLO is the longest' || failed=1
refuses "--app: 'nowhere' does not exist" --app nowhere=1
refuses "--app: 'game' without a rate" --app game
refuses "--app: 'game' without a rate" --app game --rates-file "$work/one.csv"
refuses "--app: a rate given beside --rates-file" --app game=1 --rates-file "$work/one.csv"
refuses "--app: given beside --scenarios" --app game=1 --scenarios all
refuses "--app: game twice" --app game=1,game=2
refuses "--app: no rate above 0" --app game=0
refuses "--app: '-1' is out of range" --app game=-1
refuses "--slo: game twice" --app game=1 --slo game=3,game=4
refuses "game: SLO of 10 us, expected at least 1797.5" --app game=1 --slo game=0.01
"$bin" --app game=1 --slo game=1.79756 --planner best > /dev/null || { echo "the SLO told does not do"; failed=1; }
printf '{"gsched_app":1,"name":"a","stages":[{"name":"s","model":"vgg61"}]}' > "$work/lacks.json"
refuses 'lacks.json: /stages/0/model is "vgg61", expected a model of the table' --app "$work/lacks.json=1"
sed 's/mine/vgg16/' "$work/mine.json" > "$work/named.json"
refuses "--app: 'vgg16' is a model of the table" --app "$work/named.json=1"

# Pictures, where there is gnuplot: every partition is labelled, and no plan is said to be none.
if command -v gnuplot > /dev/null; then
  "$bin" --rates lenet=900,vgg16=3000 --planner elastic,best+int --plot "$work/plan.svg" > "$work/drawn.txt" || failed=1
  for text in 'elastic: ' 'best+int: ' 'GPU 3' vgg16; do
    grep -qF "$text" "$work/plan.svg" || { echo "plan.svg has no '$text'"; failed=1; }
  done
  batch=$(sed -n '/^elastic/,/^best/s/.*vgg16 .* in //p' "$work/drawn.txt" | head -n 1)
  grep -qE "vgg16(, batch)? $batch<" "$work/plan.svg" || { echo "vgg16's batch of $batch is not drawn"; failed=1; }
  "$bin" --rates vgg16=9e6 --planner ideal,best --plot "$work/none.svg" > /dev/null || failed=1
  grep -qF 'ideal: there is no plan' "$work/none.svg" && grep -qF 'best: no plan found' "$work/none.svg" || failed=1
  "$bin" --scenarios all --models lenet,vgg16 --planner sbp,best+int --plot "$work/all.svg" > /dev/null || failed=1
  grep -qF 'plans for 15 scenarios (dark: hold beside others)' "$work/all.svg" || failed=1
  "$bin" --rates vgg16=1 --gpus 0 --planner sbp --plot "$work/no_gpu.svg" > /dev/null || failed=1
  refuses "unknown type" --rates vgg16=1 --plot "$work/plan.doc"
fi

# Just that much has a plan, and a little more has none.
scale=$(python3 -c 'import json,sys; print(next(r["max_scale"] for r in json.load(open(sys.argv[1]))["runs"] if r["planner"] == "sbp"))' "$work/scale.json")
"$bin" --rates resnet50=100,vgg16=100 --gpus 2 --planner sbp --rate-scale "$scale" | grep -q 'GPU 0' || failed=1
"$bin" --rates resnet50=100,vgg16=100 --gpus 2 --planner sbp \
  --rate-scale "$(python3 -c "print($scale * 1.002)")" | grep -q 'no plan' || failed=1
"$bin" --rates vgg16=1 --gpus 0 | grep -q 'no plan: expected at most 0 times' || failed=1
"$bin" --rates resnet50=1e6 --planner sbp | grep -qE 'no plan: expected at most 0\.[0-9]*[1-9]' || failed=1
"$bin" --help | grep -q 'none of their steps' || failed=1

# The SMs that are left over by groups: a partition of their own, or only with others.
left=(--gpus 1 --rates lenet=1502.5,googlenet=811.1,resnet50=730.3 --slo lenet=5,googlenet=44,resnet50=95 --planner best+int)
"$bin" "${left[@]}" | grep -qE 'GPU 0 +12 SMs' || { echo "no partition of the last group"; failed=1; }
"$bin" "${left[@]}" --join-last | grep -E 'GPU 0' > "$work/joined.txt" || failed=1
grep -qE 'GPU 0 +12 SMs' "$work/joined.txt" && { echo "the last group is alone"; failed=1; }
refuses "--join-last: no SMs left over by groups of 8" --rates vgg16=1 --join-last --sms 120

# A model whose goal is shorter than any batch of the other one: turns are too long, and the GPU is not cut.
short=(--gpus 1 --group 132 --rates lenet=500,vgg16=300 --slo lenet=0.4 --planner elastic+int,elastic+share)
"$bin" "${short[@]}" --json "$work/shared.json" > "$work/shared.txt" || failed=1
[[ $(grep -cE 'GPU 0 +132 SMs of region 1 every' "$work/shared.txt") == 2 ]] || { echo "no shared SMs"; failed=1; }
python3 - "$work/shared.json" <<'PY' || failed=1
import json, sys
j = json.load(open(sys.argv[1]))
alone, share = j["runs"]
assert not alone["schedulable"] and share["schedulable"] and share["sms_used"] == 132, j
assert [g["region"] for g in share["plan"]] == [1, 1] and share["holds_with_interference"], share
assert share["plan"][0]["cycle_us"] != share["plan"][1]["cycle_us"], share
assert [t["on_shared_sms"] for t in j["totals"]] == [0, 1], j["totals"]
PY
refuses "--profiles: given where no planner shares SMs" --rates vgg16=1 --planner best+int --profiles "$work"
refuses "--profiles: no profile of vgg16" --rates vgg16=1 --planner best+share --profiles "$(dirname "$table")/profiles/lenet_b1.json"
refuses "sbp+share uses whole GPUs, without interference" --rates vgg16=1 --planner sbp+share

refuses "nor --app, --rates-file or --scenarios" --gpus 1
refuses "given beside --rates" --rates vgg16=1 --scenarios all
refuses "given beside --rates" --rates vgg16=1 --rates-file "$work/one.csv"
refuses "--plot: given beside --max-scale" --rates vgg16=1 --max-scale --plot "$work/scale.svg"
refuses "sbp+int uses whole GPUs, without interference" --rates vgg16=1 --planner sbp+int
refuses "elastic+int beside --interference none" --rates vgg16=1 --planner elastic+int --interference none
refuses "unknown planner 'elastic+'" --rates vgg16=1 --planner elastic+
refuses "best+int twice" --rates vgg16=1 --planner best+int,all+int
refuses "--interference: 'h20' does not exist" --rates vgg16=1 --interference h20
refuses "resnet18: no solo metrics" --rates resnet18=1 --planner best+int
refuses "--solo: 'nowhere.csv' does not exist" --rates vgg16=1 --planner best+int --solo nowhere.csv
refuses "latency_batch_partition.csv:1: has no column solo_us" --rates vgg16=1 --planner best+int --solo "$table"
refuses "solo_metrics.csv" --rates vgg16=1 --interference "$metrics"
refuses "--rates-file: 'nowhere.csv' does not exist" --rates-file nowhere.csv

# rates_file TEXT LINE...: a file of these lines is refused with its name, the line and TEXT.
rates_file() {
  local text=$1
  shift
  printf '%s\n' "$@" > "$work/rates.csv"
  refuses "rates.csv:$text" --rates-file "$work/rates.csv"
}
rates_file "1: has no column rate, expected model,rate" scenario,model
rates_file "2: no rows of 'vgg61', expected a model of the table, or an app" model,rate vgg61,1
rates_file "3: vgg16 twice in a, expected each model once" scenario,model,rate a,vgg16,1 a,vgg16,2
rates_file "3: vgg16 twice, expected each model once" model,rate vgg16,1 vgg16,2
rates_file "2: '-1', expected a number from 0 to" model,rate vgg16,-1
rates_file "2: 'nan', expected a number from 0 to" model,rate vgg16,nan
rates_file "3: 2 fields, expected 3" scenario,model,rate a,vgg16,1 a,vgg16
rates_file "2: an empty field, expected a name" scenario,model,rate ,vgg16,1
rates_file "1: no rates, expected a line" model,rate

refuses "no rows of 'vgg61'" --rates vgg61=1
refuses "--rates: no rate above 0" --rates vgg16=0,lenet=0
refuses "--slo: no rows of 'vgg61', expected a model of the table, or an app" --rates vgg16=1 --slo vgg61=1
refuses "vgg16 twice" --rates vgg16=1,vgg16=2
refuses "MODEL=NUMBER" --rates vgg16
refuses "--rates: '-1'" --rates vgg16=-1
refuses "vgg16: SLO of 1 us, expected at least" --rates vgg16=1 --slo vgg16=0.001
refuses "SLO of 50 us, expected at least 66.1" --rates lenet=100 --slo lenet=0.05
refuses "twice its fastest latency, 66.12 us: a request waits for one batch and takes another" --rates lenet=100 --slo lenet=0.05
"$bin" --rates lenet=100 --slo lenet=0.06612 --planner sbp --gpus 1 | grep -q 'GPU 0' || { echo "the SLO told has no plan"; failed=1; }
refuses "unknown planner 'best-of-all'" --rates vgg16=1 --planner best-of-all
refuses "'sbp' is named twice" --rates vgg16=1 --planner sbp,sbp
refuses "sbp twice" --rates vgg16=1 --planner all,sbp
refuses "--gpus" --rates vgg16=1 --gpus -1
refuses "--group: 200 SMs, of a GPU of 132, expected at most as many as --sms" --rates vgg16=1 --group 200
refuses "--group: '0' is out of range" --rates vgg16=1 --group 0
refuses "--sms: 4 SMs, without measurements of vgg16, expected 8 or more" --rates vgg16=1 --sms 4 --group 4
"$bin" --rates vgg16=1e9 --gpus 1 --planner best | grep -qE 'no plan: expected at most [0-9.]+e-06 times' ||
  { echo "the most of far too much is not told"; failed=1; }
refuses "combinations" --scenarios all --levels 0,1,2,3,4,5,6,7,8,9,10
refuses "no rate above 0" --scenarios all --levels 0
refuses "--table" --rates vgg16=1 --table nowhere.csv
printf 'model,batch,sms,latency_us\na,1,8,10\na,2,16,10\n' > "$work/hole.csv"
refuses "a, batch 1 on 16 SMs: no row" --rates a=1 --table "$work/hole.csv"
# table TEXT LINE...: a table of these lines is refused with its name and TEXT.
table() {
  local text=$1
  shift
  printf '%s\n' model,batch,sms,latency_us "$@" > "$work/bad.csv"
  refuses "bad.csv$text" --rates a=1 --table "$work/bad.csv"
}
table ":2: '-10', expected microseconds above 0" a,1,8,-10
table ":3: 'nan', expected microseconds above 0" a,1,8,10 a,1,16,nan
table ":2: '0', expected a whole number from 1" a,0,8,10
table ":2: '0', expected a whole number from 1" a,1,0,10
table ":2: 3 fields, expected 4" a,1,8
table ": a, batch 1 on 8 SMs: there twice, expected once" a,1,8,10 a,1,8,11
table ": no rows, expected one"
table ": a, batch 2 on 8 SMs: no row, expected one for each batch" a,1,8,10 a,1,16,9 a,2,16,12
printf 'model,batch,sms,latency_us\na,1,8,10\na,1,16,20\n' > "$work/doubtful.csv"
"$bin" --rates a=1 --table "$work/doubtful.csv" 2>&1 > /dev/null |
  grep -q 'a: batch 1 on 8 SMs is 100% faster' || { echo "a doubtful table passed in silence"; failed=1; }

# Threads: the same plans in the same order, but for the time that planning took.
for n in 1 3; do
  "$bin" --scenarios all --models lenet,vgg16 --levels 0,50,100 --planner all --gpus 2 --threads $n \
    --json "$work/threads$n.json" > /dev/null
  grep -v '"\(p50\|max\|planning_us\)"' "$work/threads$n.json" > "$work/threads$n.plans"
done
cmp "$work/threads1.plans" "$work/threads3.plans" || { echo "threads change what is planned"; failed=1; }
refuses "--threads" --rates vgg16=1 --threads 0

# machine.json beside the files: sizes of partitions are its GPU's, files of two GPUs are refused, and
# other versions are told.
mkdir "$work/small" "$work/other"
for gpu in small other; do
  cp "$table" "$work/$gpu/table.csv"
  cp "$metrics" "$work/$gpu/solo.csv"
  cp "$data/interference/h200.json" "$work/$gpu/law.json"
done
machine() { # machine FOLDER GPU DRIVER
  echo "{\"gpu\": \"$2\", \"compute_capability\": \"9.0\", \"sms\": 64, \"sm_groups\": [16, 16, 16, 16], \"driver\": \"$3\"}" \
    > "$work/$1/machine.json"
}
machine small NVIDIA_S 580.1
machine other NVIDIA_S 590.1
mine=(--rates vgg16=1 --table "$work/small/table.csv")
"$bin" "${mine[@]}" --planner sbp --json "$work/small.json" > /dev/null
python3 -c 'import json, sys; p = json.load(open(sys.argv[1])); assert (p["sms"], p["group"]) == (64, 16), p' \
  "$work/small.json" || { echo "the sizes are not those of machine.json"; failed=1; }
"$bin" "${mine[@]}" --sms 132 --group 8 --planner sbp --json "$work/small.json" > /dev/null
grep -q '"sms": 132' "$work/small.json" || { echo "--sms is not used"; failed=1; }
refuses "h200.json: measured on NVIDIA H200, not NVIDIA_S as --table $work/small/table.csv, expected measurements of one GPU" \
  "${mine[@]}" --planner best+int --solo "$work/small/solo.csv"
refuses "--solo $metrics: measured on" "${mine[@]}" --interference "$work/small/law.json"
run "${mine[@]}" --planner best+int --solo "$work/other/solo.csv" --interference "$work/small/law.json"
[ "$rc" -eq 0 ] && [ "$(cat err)" = \
  "plan: --solo $work/other/solo.csv: measured with driver 590.1, not 580.1 as --table $work/small/table.csv" ] ||
  { echo "another driver is not told"; cat err; failed=1; }
five=$data/measured/five
shares=(--rates vgg16=1 --table "$five/latency_batch_partition.csv" --solo "$five/solo_metrics.csv" --planner elastic+share)
refuses "googlenet_b1.json: measured on NVIDIA H100 80GB HBM3, not NVIDIA H200 as --table" "${shares[@]}" \
  --profiles "$data/measured/h100/profiles"
mkdir "$work/moved"
sed 's/"NVIDIA H200"/"NVIDIA A100"/' "$data/profiles/vgg16_b8.json" > "$work/moved/vgg16_b8.json"
refuses "vgg16_b8: a profile of 'NVIDIA A100', expected one of 'NVIDIA H200'" "${shares[@]}" --profiles "$work/moved"
# Without machine.json it is told what is assumed, and how to state it, unless it is stated.
mkdir -p "$work/alone/here"
cp "$table" "$work/alone/here/table.csv"
alone=(--rates vgg16=1 --planner sbp --table "$work/alone/here/table.csv")
assumes() { # assumes LINE ARGS...: that line on stderr, or none
  local line=$1
  shift
  run "${alone[@]}" "$@"
  [ "$rc" -eq 0 ] && [ "$(cat err)" = "${line:+plan: $work/alone/here/table.csv: no machine.json beside it, so $line}" ] ||
    { echo "expected of the assumed GPU: '$line'"; cat err; failed=1; }
}
assumes "132 SMs in groups of 8 are assumed, as of an H200; --sms and --group state others"
assumes "groups of 8 SMs are assumed, as of an H200; --group states others" --sms 64
assumes "132 SMs are assumed, as of an H200; --sms states others" --group 16
assumes "" --sms 64 --group 16
echo '{"gpu": "NVIDIA_S", "compute_capability": "9.0", "sms": 64, "sm_groups": [16, 16, 16, 16]}' > "$work/alone/machine.json"
assumes ""
echo '{"gpu": "NVIDIA_S"}' > "$work/small/machine.json"
refuses "machine.json: /compute_capability is missing" "${mine[@]}"

expect "something above has failed" test "$failed" = 0
finish
