#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The PyTorch programs from end to end, with a library and a torch that only play their parts: every
# way serves every request, results are written, and what goes wrong is told in one line.
set -euo pipefail
source "$GSCHED_SOURCE_DIR/tests/cli/pytorch_played.sh"
example=$GSCHED_SOURCE_DIR/examples/pytorch
cd "$work"

all=srpt+deficit,direct,eager-single,eager-streams,torch-direct
timeout 100 python3 "$example/serve_models.py" --ways $all --mix resnet18=2,resnet50 --rate 400 \
  --requests 60 --clients 4 --repeat 2 --json one.json --save-arrivals trace.csv >out
[ "$(wc -l <trace.csv)" -eq 61 ]
timeout 100 python3 "$example/serve_models.py" --ways torch-direct,fifo,boost:0.5 --no-isolate --rate 400 \
  --mix resnet18 --requests 30 --spin 200 --json two.json >out
timeout 100 python3 "$example/serve_models.py" --ways fifo --loads 0.00001,0.00002 --requests 10 \
  --mix resnet18 --time-limit 20 --json sweep.json >out || true # too slow: fewer are sent
python3 - <<'PY'
import json
one, two, sweep = (json.load(open(f"{n}.json")) for n in ("one", "two", "sweep"))
assert [r["way"] for r in one["runs"]] == 2 * ["srpt+deficit", "direct", "eager-single",
                                               "eager-streams", "torch-direct"]
assert [r["repeat"] for r in one["runs"]] == [0] * 5 + [1] * 5
assert [r["way"] for r in two["runs"]] == ["fifo", "boost:0.5", "torch-direct"], "several streams come last"
for run in one["runs"] + two["runs"]:
    assert run["finished"] == run["submitted"] > 0 == run["failed"], run
    assert 0 < run["latency_us"]["p50"] <= run["latency_us"]["max"] < 1e6
    assert set(run["reference_us"]) == {"before", "after"}
    assert ("submit_us" in run) == (run["way"] in ("srpt+deficit", "direct", "fifo", "boost:0.5")), run
    for part in ("late_us", "submit_us"):
        assert 0 < run.get(part, {"mean": 1})["mean"] < run["latency_us"]["max"], run
assert one["workload"]["rate_per_s"] == 400 and set(one["processes"]) == {r["way"] for r in one["runs"]}
assert (one["spin_us"], two["spin_us"]) == (50, 200)
assert len(sweep["sweep"]) == 2 and all("workload" in d for d in sweep["sweep"])
PY

python3 "$example/plot_sweep.py" one.json --other single >out && grep -q 'not both in it' out
python3 "$example/plot_sweep.py" one.json --over direct >out
grep -q '^    direct  *1.00 / 1.00$' out && grep -q '^    srpt+deficit  *[0-9.]* / [0-9.]*$' out
python3 "$example/plot_sweep.py" one.json --over fifo | grep -q 'fifo is not in it'
python3 "$example/plot_sweep.py" one.json one.json --model resnet18 --plot one.svg >out
grep -q 'most served: srpt+deficit' out && grep -q '</svg>' one.svg

says() { # says STATUS TEXT COMMAND...: that exit status, and TEXT on one line of its stderr
  local status=$1 text=$2 rc=0
  shift 2
  timeout 100 "$@" >out 2>err || rc=$?
  [ $rc -eq "$status" ] && grep -qF -- "$text" err ||
    { echo "$*: status $rc, expected $status and '$text'"; tail -n 5 err; exit 1; }
}
says 1 'fifo: GschedError: torch sees no GPU, expected one' \
  env NO_GPU=1 python3 "$example/serve_models.py" --ways fifo
says 2 'no model "gpt2", expected one of resnet18, resnet50' \
  python3 "$example/plot_sweep.py" one.json --model gpt2
says 1 'no-such.so' env GSCHED_C_LIBRARY=no-such.so python3 "$example/serve_models.py" --ways fifo
says 1 'fifo: ' env HANG=1 python3 "$example/serve_models.py" --ways fifo --mix resnet18 \
  --time-limit 10
grep -q 'most recent call first' err || { echo 'a hang was not shown'; exit 1; }

# A user's model that raises, of the partitions.
echo 'int serve_partitions_graphs(void) { return 0; }' >partitions.c
${CC:-cc} -shared -fPIC -o partitions.so partitions.c
echo 'def made(batch): return {}["dtype"]' >net.py
echo 'def forward(batch): return (lambda x: {}[x]), __import__("torch").tensor([1.0])' >>net.py
for said in "made(2): KeyError: 'dtype', expected (module, example_input)" 'forward(2): '; do
  says 1 "serve_partitions: net.py: $said" env SERVE_PARTITIONS_LIBRARY="$work/partitions.so" \
    python3 "$example/serve_partitions.py" --run x --models "net.py:${said%%(*}" --batches 2
done

timeout 100 python3 "$example/bit_equal.py" --models resnet18,resnet50 --inferences 100 \
  --json equal.json >out || { cat out; exit 1; }
timeout 100 python3 "$example/segments.py" --models resnet18 --repetitions 20 --json cut.json >out
python3 - <<'PY'
import sys
import models, segments
assert len(set(models.TWENTY)) == 20 and all(models.known(m) == m for m in models.TWENTY)
sys.argv = ["segments.py"]
assert tuple(segments.options().models) == models.TWENTY

# --strict: the median of the models and the worst of them.
class Reference:
    def __init__(self, *_): pass
    def us(self): return 1.0
segments.ways.Reference = Reference
def judged(ratios):
    names, left = models.TWENTY[:len(ratios)], list(ratios)
    row = lambda ratio: {"operations": 1, "segments": 1, "whole_us": {"p50": 1.0},
                         "segments_us": {"p50": ratio}, "ratio": ratio}
    segments.compare = lambda *_: row(left.pop())
    sys.argv = ["segments.py", "--strict", "--models", ",".join(names)]
    return segments.main()
assert judged([1.0, 1.012, 1.025]) == 0 == judged([1.01, 1.014]) # half of both
assert judged([1.0, 1.0121, 1.02]) == 1 == judged([1.0, 1.0, 1.0251])
PY
if ADDS=2 timeout 100 python3 "$example/bit_equal.py" --models resnet18 --inferences 20 >out; then
  echo 'wrong outputs went unnoticed'
  exit 1
fi
grep -q '20 outputs differ' out
echo 'every way served every request'
