#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The PyTorch programs without PyTorch: help, one line for each kind of bad input, arrivals that are
# serve_mix's own, and results in serve_mix's words.
set -u
example=$GSCHED_SOURCE_DIR/examples/pytorch
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONPATH=$example PYTHONDONTWRITEBYTECODE=1
failed=0

for program in serve_models bit_equal segments serve_partitions plan_server decode_loop side_streams; do
  python3 "$example/$program.py" --help >"$work/out" 2>&1 && grep -q -- --time-limit "$work/out" ||
    { echo "$program --help failed"; cat "$work/out"; failed=1; }
done

refuses() { # refuses TEXT PROGRAM ARGS...: exit code 2, nothing on stdout, TEXT on the last line
  local text=$1 program=$2
  shift 2
  timeout 60 python3 "$example/$program.py" "$@" >"$work/out" 2>"$work/err"
  local rc=$?
  [ $rc -eq 2 ] && [ ! -s "$work/out" ] && tail -n 1 "$work/err" | grep -qF -- "$text" ||
    { echo "$program $*: status $rc, expected 2 and '$text'"; cat "$work/err"; failed=1; }
  [ "$(wc -l <"$work/err")" -eq 1 ] ||
    { echo "$program $*: expected one line"; cat "$work/err"; failed=1; }
}
refuses '--ways: "no-such", expected' serve_models --ways fifo,no-such
refuses '--ways: "boost:x", expected' serve_models --ways boost:x
refuses '--ways: one of them twice' serve_models --ways fifo,fifo
refuses '--threshold: given without the way srpt+deficit' serve_models --ways fifo,deficit --threshold 50
refuses '--slice: given without the way rr' serve_models --ways fifo --slice 50
refuses 'model "resnet99", expected' serve_models --mix resnet99
refuses 'weight "x", expected' serve_models --mix resnet18=x
refuses 'weight 0' serve_models --mix resnet18=0
refuses '"resnet18" twice' serve_models --mix resnet18,resnet18=2
refuses '--arrivals: "lognormal:", expected' serve_models --arrivals lognormal:
refuses '"nan", expected' serve_models --loads 0.5,nan
refuses '--requests' serve_models --requests 0
refuses 'more than one' serve_models --load 1 --rate 2
refuses 'expected a file in a folder' serve_models --json "$work/no/out.json"
refuses '--no-such' serve_models --no-such
refuses 'model "resnet99"' bit_equal --models resnet99
refuses '--repetitions' bit_equal --repetitions 5
refuses '--time-limit' bit_equal --time-limit x
refuses '--in-flight' segments --in-flight 0
refuses '--run' serve_partitions
refuses 'model "resnet99"' serve_partitions --run x --models resnet99
refuses 'batches [4, 2], expected' serve_partitions --run x --batches 4,2
refuses 'no-such' serve_partitions --run x --table "$work/no-such"
refuses 'model "resnet99"' plan_server --rates resnet99=5
refuses '--rates: expected numbers above 0' plan_server --rates lenet=0
refuses '--instances' plan_server --instances 0
refuses '--width: 100, expected a multiple of 64' decode_loop --width 100
refuses '--tokens' decode_loop --tokens 0
refuses '--model' decode_loop --model gpt
refuses '--vocabulary: 1, expected at least 2' decode_loop --vocabulary 1
refuses 'expected a file in a folder' decode_loop --json "$work/no/out.json"
refuses '--instances' serve_partitions --run x --instances 0
refuses '--models: "gpt", expected' side_streams --models gpt
refuses 'model "gpt", expected' segments --models gpt

python3 - <<'PY' || { echo "the SMs of plan_server"; failed=1; }
import sys
import plan_server
def sms(*words):
    sys.argv = ["plan_server", *words]
    return plan_server.options().sms
assert (sms(), sms("--sms", "64")) == (0, 64)
PY

python3 - "$work/trace" <<'PY' || failed=1
import sys
import workload
twister = workload.Mersenne()
for _ in range(9999):
    twister()
assert twister() == 9981545732273789042 # the C++ standard says so, [rand.predef]
asked = workload.arrivals("lognormal:2", 1200.0, [2.0, 1.0], 8, 1, 300)
assert len(asked) == 300 and asked == sorted(asked) and {m for _, m, _ in asked} == {0, 1}
workload.save_trace(sys.argv[1], asked, ["resnet18_b1", "inception_v3_b1"])
PY
"$GSCHED_BIN_DIR/serve_mix" --mix resnet18_b1=2,inception_v3_b1=1 --policy srpt --rate 1200 --arrivals lognormal:2 --requests 300 \
  --quiet --no-progress --json "$work/law.json" || failed=1
"$GSCHED_BIN_DIR/serve_mix" --mix resnet18_b1=2,inception_v3_b1=1 --policy srpt --arrivals "trace:$work/trace" --requests 300 \
  --quiet --no-progress --json "$work/trace.json" || failed=1
python3 - "$work/law.json" "$work/trace.json" <<'PY' || failed=1
import json, sys
import serve_models, workload
law, trace = (json.load(open(f)) for f in sys.argv[1:])
theirs = law["runs"][0]
assert theirs["latency_us"] == trace["runs"][0]["latency_us"], "the arrivals differ"

names = list(law["workload"]["mix"])
asked = workload.arrivals("lognormal:2", 1200.0, [2.0, 1.0], 8, 1, 300)
ours = workload.run_json("srpt", 0, asked, names, 8, {
    "states": ["finished"] * 299 + ["cancelled"], "latencies_ns": list(range(1000, 300000, 1000))
    + [None], "span_ns": 10**9, "operations": 5, "decisions": 4})
assert (ours["finished"], ours["cancelled"], ours["throughput_per_s"]) == (299, 1, 299.0), ours
assert ours["latency_us"] == {"mean": 150.0, "p50": 150.0, "p90": 270.0, "p99": 297.0,
                              "max": 299.0}, ours["latency_us"]
assert set(theirs) - set(ours) <= {"deadlines_met", "over_limit"}, (list(theirs), list(ours))
assert [k for k in theirs if k in ours] == [k for k in ours if k in theirs], list(ours)
for part in ("per_model", "per_client"):
    first = lambda run: (list(run[part].values()) if part == "per_model" else run[part])[0]
    assert list(first(ours)) == list(first(theirs))
    assert list(first(ours)["latency_us"]) == list(first(theirs)["latency_us"])

class a: # what the command line says
    seed, clients, arrivals, weights = 1, 8, "lognormal:2", law["workload"]["mix"]
    quantum = most_quantum = overshoot = lanes = spare_lanes = threshold = slice = spin = None
    instances, no_isolate = 4, False
document = serve_models.document(a, {"device": "d", "torch": "t", "cuda": "c"},
                                 {"resnet18_b1": 600.0}, 900.0, 1200.0, 300, [ours])
for part in ("workload", "scheduling"):
    assert list(document[part]) == list(law[part]), (part, list(document[part]), list(law[part]))
assert set(document) >= set(law)
assert any("srpt" in line and "299!" in line for line in workload.table("title", [ours]))
PY
exit $failed
