#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# plan: its plans hold by a check of our own from the JSON, and one line for each kind of bad input.
set -u
program=$GSCHED_BIN_DIR/plan
table=$GSCHED_SOURCE_DIR/examples/data/latency_batch_partition.csv
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# refuses TEXT ARGUMENT...: exit status 2, one line on stderr that says TEXT, nothing on stdout.
refuses() {
  local text=$1
  shift
  "$program" "$@" > "$work/stdout" 2> "$work/stderr"
  local got=$?
  if [[ $got -ne 2 || $(wc -l < "$work/stderr") -ne 1 || -s $work/stdout ]] ||
    ! grep -qF -- "$text" "$work/stderr"; then
    echo "plan $*: status $got, expected 2 and '$text'; it said:"
    cat "$work/stdout" "$work/stderr"
    failed=1
  fi
}

"$program" --rates lenet=2000,vgg16=300 --slo lenet=2,vgg16=20 --gpus 1 --json "$work/one.json" \
  > "$work/one.txt" || failed=1
grep -q 'vgg16 300.0/s' "$work/one.txt" || { echo "no plan told"; failed=1; }
"$program" --scenarios all --models lenet,resnet50,vgg16 --levels 0,3000,9000 --gpus 2 \
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
assert len(one["runs"]) == 5 and all(r["schedulable"] for r in one["runs"])
assert [t["scenarios"] for t in every["totals"]] == [26] * 5 and len(every["runs"]) == 130
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
assert by["ideal"] >= by["best"] >= by["elastic"] >= by["sbp"] > 0, by
ideal = next(t for t in every["totals"] if t["planner"] == "ideal")
assert ideal["schedulable"] + ideal["impossible"] == 26, ideal
for r in every["runs"]:
    assert r["verdict"] in ("plan", "impossible", "none found") and (r["verdict"] == "plan") == r["schedulable"], r
    assert (r["bound"] is not None) == (r["planner"] == "ideal"), r
    assert r["bound"] is None or not r["schedulable"] or r["bound"] > 0.9999, r
PY

"$program" --rates resnet50=100,vgg16=100 --gpus 2 --max-scale --json "$work/scale.json" > /dev/null || failed=1
python3 - "$work/scale.json" <<'PY' || failed=1
import json, sys
scales = {r["planner"]: r["max_scale"] for r in json.load(open(sys.argv[1]))["runs"]}
assert scales["elastic"] > scales["sbp"] > 1, scales
assert scales["ideal"] >= scales["best"] * 0.999 >= scales["elastic"] * 0.998, scales
PY
# Just that much has a plan, and a little more has none.
scale=$(python3 -c 'import json,sys; print(next(r["max_scale"] for r in json.load(open(sys.argv[1]))["runs"] if r["planner"] == "sbp"))' "$work/scale.json")
"$program" --rates resnet50=100,vgg16=100 --gpus 2 --planner sbp --rate-scale "$scale" | grep -q 'GPU 0' || failed=1
"$program" --rates resnet50=100,vgg16=100 --gpus 2 --planner sbp \
  --rate-scale "$(python3 -c "print($scale * 1.002)")" | grep -q 'no plan' || failed=1
"$program" --rates vgg16=1 --gpus 0 | grep -q 'no plan: expected at most 0.000 times' || failed=1
"$program" --rates resnet50=1e6 --planner sbp | grep -qE 'no plan: expected at most 0\.[0-9]*[1-9]' || failed=1
"$program" --help | grep -q 'shares no code with the planners' || failed=1

refuses "nor --scenarios" --gpus 1
refuses "given beside --rates" --rates vgg16=1 --scenarios all
refuses "no rows of 'vgg61'" --rates vgg61=1
refuses "vgg16 twice" --rates vgg16=1,vgg16=2
refuses "MODEL=NUMBER" --rates vgg16
refuses "--rates: '-1'" --rates vgg16=-1
refuses "vgg16: SLO of 1.000000 us, expected at least" --rates vgg16=1 --slo vgg16=0.001
refuses "unknown planner 'best-of-all'" --rates vgg16=1 --planner best-of-all
refuses "sbp twice" --rates vgg16=1 --planner sbp,sbp
refuses "--gpus" --rates vgg16=1 --gpus -1
refuses "combinations" --scenarios all --levels 0,1,2,3,4,5,6,7,8,9,10
refuses "no rate above 0" --scenarios all --levels 0
refuses "--table" --rates vgg16=1 --table nowhere.csv
printf 'model,batch,sms,latency_us\na,1,8,10\na,2,16,10\n' > "$work/hole.csv"
refuses "a, batch 1 on 16 SMs: no row" --rates a=1 --table "$work/hole.csv"
printf 'model,batch,sms,latency_us\na,1,8,-10\n' > "$work/negative.csv"
refuses "negative.csv:2: '-10', expected microseconds above 0" --rates a=1 --table "$work/negative.csv"
printf 'model,batch,sms,latency_us\na,1,8,10\na,1,16,20\n' > "$work/doubtful.csv"
"$program" --rates a=1 --table "$work/doubtful.csv" 2>&1 > /dev/null |
  grep -q 'a: batch 1 on 8 SMs is 100% faster' || { echo "a doubtful table passed in silence"; failed=1; }

exit $failed
