# SPDX-License-Identifier: Apache-2.0
# What a run writes: the keys, counts that add up, the same bytes from the same seed.
. "${GSCHED_SOURCE_DIR:?}/tests/cli/expect.sh"

all=fifo,rr,sjf,srpt,edf,deficit,srpt+deficit,boost,direct,single
few=(--mix lenet_b1=2,squeezenet1_1_b1=1 --requests 200)
same() { cmp -s <(grep -v '"wall_s"' "$1") <(grep -v '"wall_s"' "$2"); }

# In every run the four end states add up to what was submitted, and that is what was asked for.
adds_up() { # adds_up FILE REQUESTS RUNS
  awk -v want="$2" -v runs="$3" '
    /^      "policy":/ { ++n; left = 0 }
    /^      "submitted":/ { left = $2 + 0; if (left != want) bad = 1 }
    /^      "(finished|rejected|cancelled|failed)":/ { left -= $2 + 0 }
    /^      "failed":/ { if (left != 0) bad = 1 }
    END { exit bad || n != runs }' "$1"
}

serves "${few[@]}" --policy $all --json a.json --trace a.trace
for key in device seed workload runs policy submitted finished rejected cancelled failed \
  throughput_per_s latency_us mean p50 p90 p99 max per_model per_client gpu_busy_fraction \
  operations decisions wall_s lenet_b1 squeezenet1_1_b1; do
  expect "the JSON lacks $key" grep -q "\"$key\":" a.json
done
for policy in ${all//,/ }; do
  expect "the JSON lacks $policy" grep -qF "\"policy\": \"$policy\"" a.json
  expect "the table lacks $policy" grep -q "^$policy " out
done
expect "counts that do not add up" adds_up a.json 200 10
expect "a negative number" bash -c '! grep -q ": -" a.json'
expect "a trace that breaks the rules" python3 "$GSCHED_SOURCE_DIR/tests/cli/trace_rules.py" a.trace 200 ${all//,/ }

# The same seed and arguments: the same bytes. Another seed: others.
serves "${few[@]}" --policy $all --json b.json --trace b.trace
expect "another JSON from the same seed" same a.json b.json
expect "another trace from the same seed" cmp -s a.trace b.trace
# Nor do they depend on the threads: a.json was made on one, as --trace has it.
for threads in 1 3 16; do
  serves "${few[@]}" --policy $all --threads $threads --json b.json
  expect "another JSON with $threads threads" same a.json b.json
done
serves "${few[@]}" --policy $all --seed 2 --json c.json
expect "the same JSON from another seed" bash -c '! cmp -s <(grep latency -A6 a.json) <(grep latency -A6 c.json)'

# The threshold is of srpt+deficit alone, and the slice of rr.
rr() { serves "${few[@]}" --policy rr,srpt+deficit --json "$@"; }
result() { # result POLICY FILE
  python3 -c 'import json, sys
print(next(r for r in json.load(open(sys.argv[2]))["runs"] if r.pop("wall_s") and r["policy"] == sys.argv[1]))' "$@"
}
rr base.json && rr owed.json --threshold 0 && rr sliced.json --slice 5000
expect "rr changes with --threshold" cmp -s <(result rr base.json) <(result rr owed.json)
expect "srpt+deficit does not change with --threshold" bash -c '! cmp -s "$@"' _ <(result srpt+deficit base.json) <(result srpt+deficit owed.json)
expect "rr does not change with --slice" bash -c '! cmp -s "$@"' _ <(result rr base.json) <(result rr sliced.json)
expect "srpt+deficit changes with --slice" cmp -s <(result srpt+deficit base.json) <(result srpt+deficit sliced.json)

# Clients' weights are of deficit alone: with three at a time under way of each, one lane and
# segments far below a request.
weighed() {
  serves --mix resnet18_b1 --clients 3 --arrivals closed:9 --requests 600 --lanes 1 --quantum 50 \
    --policy deficit,srpt --json "$@"
}
weighed equal.json && weighed weights.json --weights 1,2,4
expect "deficit does not follow --weights" bash -c '! cmp -s "$@"' _ <(result deficit equal.json) <(result deficit weights.json)
expect "srpt follows --weights" cmp -s <(result srpt equal.json) <(result srpt weights.json)
expect "shares are not as the weights" python3 -c '
import json
runs = {r["policy"]: [c["finished"] for c in r["per_client"]] for r in json.load(open("weights.json"))["runs"]}
a, b, c = runs["deficit"]
assert abs(a / 600 - 1 / 7) < 0.03 and abs(b / 600 - 2 / 7) < 0.03, runs'
serves "${few[@]}" --clients 3 --weights 1,2,2 --policy deficit

# Deadlines as multiples of the models' time alone: edf refuses, and what it admits is in time.
for load in 0.5 0.9 1.2; do
  for seed in 1 2 3; do
    serves --mix resnet18_b1=2,inception_v3_b1=1 --policy edf,fifo --slo 2x:5x --load $load --seed $seed --json d_${load}_$seed.json
  done
done
expect "edf: over 1% late" python3 - d_*.json <<'PY'
import json, sys
assert len(sys.argv) == 10
for file in sys.argv[1:]:
    d = json.load(open(file))
    assert d["workload"]["slo"] == "2x:5x" and d["workload"]["slo_ms"] is None, file
    assert set(d["workload"]["solo_us"]) == {"resnet18_b1", "inception_v3_b1"}, file
    edf, fifo = d["runs"]
    late = edf["finished"] - edf["deadlines_met"]
    assert edf["finished"] + edf["rejected"] == 2000 and late <= 0.01 * edf["finished"], (file, edf)
    assert edf["deadlines_met"] > 0.6 * 2000 and fifo["finished"] == 2000, file
PY
expect "the table does not say of what the deadlines are" grep -q ', deadlines 2x:5x of the time alone, seed' out
# Nearly idle, all are in time from a little above 1x on, and none below; drawn in between, a part.
in_time() { # in_time SLO LEAST MOST: of 300 requests
  serves --policy fifo --slo "$1" --load 0.001 --requests 300 --json d.json
  expect "--slo $1" python3 -c '
import json, sys
met = json.load(open("d.json"))["runs"][0]["deadlines_met"]
assert int(sys.argv[1]) <= met <= int(sys.argv[2]), met' "$2" "$3"
}
in_time 1.2x 295 300
in_time 0.9x 0 0
in_time 0.5x:1.7x 120 240
serves "${few[@]}" --slo 2x --policy direct --json d.json && serves "${few[@]}" --slo 2x:2x --policy direct --json e.json
expect "2x is not 2x:2x" cmp -s <(grep -v -e wall_s -e '"slo"' d.json) <(grep -v -e wall_s -e '"slo"' e.json)

# Every arrival law and both ways to submit, each policy's result its own business.
for law in poisson lognormal:2 closed:6; do
  serves "${few[@]}" --policy srpt,direct --arrivals $law --json l.json
  expect "counts that do not add up, $law" adds_up l.json 200 2
done
serves "${few[@]}" --policy srpt --submission launches --json l.json
expect "counts that do not add up, launches" adds_up l.json 200 1

# More than the device can do: it ends, late.
serves "${few[@]}" --policy $all --load 5 --json o.json
expect "counts that do not add up, load 5" adds_up o.json 200 10
serves "${few[@]}" --policy fifo --rate 1000000 --json o.json
expect "counts that do not add up, 10^6/s" adds_up o.json 200 1

# The largest grids that CUDA allows, and every operation of no time: it ends all the same.
for grid in '[2147483647,1,1]' '[2147483647,65535,65535]'; do
  for us in 2.5 0; do
    cat >grid.json <<JSON
{"model": "grid", "batch": 1, "dtype": "float32", "device": "any", "sm_count": 132, "input_bytes": 0,
 "output_bytes": 0, "operations": [{"after": [], "kind": "kernel", "symbol": "k", "name": "k",
 "grid": $grid, "block": [32, 1, 1], "registers_per_thread": 16, "static_shared_bytes": 0,
 "dynamic_shared_bytes": 0, "local_bytes": 0, "cluster_blocks": 1, "max_blocks_per_sm": 32,
 "duration_us": $us}]}
JSON
    run --profiles grid.json --mix grid --requests 20 --rate 1000 --policy srpt,direct --json g.json
    expect "no end with grid $grid of $us us: exit code $rc" test "$rc" -eq 0
    expect "counts that do not add up, grid $grid" adds_up g.json 20 2
  done
done

# A client with nothing to do, a single request, no deadline.
serves --mix lenet_b1 --requests 1 --clients 5 --policy $all --slo none --json s.json
expect "counts that do not add up, one request" adds_up s.json 1 10

# Output that fails while it is written is a failure of the run.
run "${few[@]}" --policy fifo --json /dev/full
[ "$rc" -eq 1 ] && one_line "/dev/full" || fail "expected 1 for a full disk, got $rc"

# A plot, where there is a gnuplot.
if command -v gnuplot >/dev/null; then
  serves "${few[@]}" --policy fifo,srpt --plot p.svg
  expect "no picture" grep -q '</svg>' p.svg
fi

# Quiet is quiet.
serves "${few[@]}" --policy fifo --quiet --json q.json
expect "output in spite of --quiet" test ! -s out

# Models kept apart: a second run of each policy that schedules, and what it cost.
kept=(--mix lenet_b32=4,vgg16_b32=1 --requests 200 --policy fifo,direct --slow-down-limit)
apart() { # apart EXPRESSION: of the document d, and the runs with and without the rule
  python3 -c 'import json, sys
d = json.load(open("apart.json")); w = d["workload"]
found = w["slow_downs"]; by = found[0]["by"]
without, kept, direct = d["runs"]
sys.exit(not eval(sys.argv[1]))' "$1"
}
serves "${kept[@]}" 1.1 --json apart.json
expect "counts that do not add up" adds_up apart.json 200 3
expect "no rule, or for direct" apart '"apart" in kept and not "apart" in without and not "apart" in direct'
expect "slow-downs that are not of all pairs, or below 1" \
  apart 'len(found) == 1 and found[0]["from"] == "predicted" and len(by) == 2 and all(len(p) == 2 and all(s >= 1 for s in p.values()) for p in by.values())'
expect "the table names no source" grep -q "^slow-downs side by side (predicted from the kernels' counters)" out
expect "nothing refused" apart 'kept["apart"]["refused"] > 0 and kept["apart"]["longest_wait_us"] > 0'
expect "no table" grep -q "^Kept apart over not" out
serves "${kept[@]}" 1000 --json apart.json
expect "refused below the limit" apart 'kept["apart"]["refused"] == 0'
expect "other results below the limit" apart 'kept["latency_us"] == without["latency_us"]'
serves "${kept[@]}" 1.1 --slow-downs "$data/corun_pairs.csv" --json apart.json
expect "other slow-downs than the file's" apart 'by["lenet_b32"]["vgg16_b32"] > 1 and found[0]["from"].endswith("corun_pairs.csv")'
python3 -c 'import json, sys
law = json.load(open(sys.argv[1])); law["seen"]["dram"] = 0.1
json.dump(law, open("law.json", "w"))' "$data/interference/h200.json"
serves "${kept[@]}" 1.1 --slow-downs law.json --json apart.json
expect "no word on demands beyond the fit" grep -q "extrapolated: more dram than the fit has seen" out
expect "nothing beyond the fit" apart 'found[0]["beyond_the_fit"]["vgg16_b32"]["vgg16_b32"] == "dram"'

# Predictions decide as measurements on the device, and gain as much for the short model.
all=googlenet_b1,googlenet_b32,lenet_b1,resnet50_b1,resnet50_b8,resnet50_b32,ssdlite_mobilenet_b1,vgg16_b1,vgg16_b32
serves --mix $all --requests 10 --policy fifo --slow-down-limit 1.2 --slow-downs predicted,measured --json apart.json
expect "predictions that decide other than measurements" python3 -c 'import json
predicted, measured = json.load(open("apart.json"))["workload"]["slow_downs"]
models = list(predicted["by"])
pairs = [(a, b) for i, a in enumerate(models) for b in models[i:]]
def alike(limit):
    def apart(found, a, b): return max(found["by"][a][b], found["by"][b][a]) > limit
    return sum(apart(predicted, a, b) == apart(measured, a, b) for a, b in pairs)
assert measured["pairs"] == 45 == len(pairs) and measured["alike"] == alike(1.2), measured
for limit in 1.1, 1.2, 1.5, 2:
    assert alike(limit) >= 37, (limit, alike(limit))'
mixed=(--mix resnet50_b1=9,vgg16_b32=1 --load 0.5 --policy srpt --slow-down-limit 1.5)
for from in predicted measured; do serves "${mixed[@]}" --slow-downs $from --json $from.json; done
expect "a p99 that predictions do not reduce as measurements do" python3 -c 'import json
def over(file):
    without, kept = [r["per_model"]["resnet50_b1"]["latency_us"]["p99"] for r in json.load(open(file))["runs"]]
    return kept / without
a, b = over("predicted.json"), over("measured.json")
assert a < 0.6 and abs(a - b) < 0.1, (a, b)'

finish
