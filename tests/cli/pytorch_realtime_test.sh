#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# realtime.py, disb.py, two_processes.py and the plot of both: help, one line for each kind of bad input,
# ratios of known numbers, and runs with a library and a torch that only play their parts.
set -euo pipefail
source "$GSCHED_SOURCE_DIR/tests/cli/pytorch_played.sh"
example=$GSCHED_SOURCE_DIR/examples/pytorch
cd "$work"

for program in realtime two_processes plot_realtime; do
  python3 "$example/$program.py" --help >out 2>&1 && grep -q -- --pairs out ||
    { echo "$program --help failed"; cat out; exit 1; }
done

says() { # says STATUS TEXT PROGRAM ARGS...: that exit status, and TEXT on the one line of its stderr
  local status=$1 text=$2 program=$3 rc=0
  shift 3
  timeout 100 python3 "$example/$program.py" "$@" >out 2>err || rc=$?
  [ $rc -eq "$status" ] && [ "$(wc -l <err)" -eq 1 ] && grep -q "^$program: " err &&
    grep -qF -- "$text" err ||
    { echo "$program $*: status $rc, expected $status and one line with '$text'"; cat err; exit 1; }
}
for program in realtime two_processes; do
  says 2 'no-such' $program --no-such
  says 2 'model "resnet99", expected' $program --pairs resnet18+resnet99
  says 2 'expected pairs like resnet18+resnet50_b8' $program --pairs resnet18
  says 2 '--think' $program --think 0
  says 2 '--seconds' $program --seconds nan
  says 2 '--turns' $program --turns 0
  says 2 'expected a file in a folder' $program --json no/out.json
done
python3 "$example/disb.py" --help >out 2>&1 && grep -q -- --workloads out || { cat out; exit 1; }
says 2 '--ways: "be_only", expected some of rt_only' disb --ways be_only
says 2 '--workloads: "disb_f", expected some of disb_a' disb --workloads disb_a,disb_f
says 2 '--workloads: one of them twice' disb --workloads disb_a,disb_a
says 2 '--turns' disb --turns 0
says 2 'expected a file in a folder' disb --json no/out.json
says 2 '--ways: "fifo", expected some of rt_only' realtime --ways seq,fifo
says 2 '--side: expected one to four numbers of SMs' realtime --side 8,0
says 2 '--reserve: expected one to four numbers of SMs' realtime --reserve 8,16,24,32,40
says 2 '--settings: "mps_99", expected some of time_slicing' two_processes --settings mps,mps_99
says 2 'none.json' plot_realtime none.json
echo '{"pairs": {"a+b": {"seq": {}}}}' >lacks.json
says 2 'expected results of realtime.py, with rt_only and be_only' plot_realtime lacks.json

python3 - <<'PY'
import contextlib, io, types
import plot_realtime, realtime, two_processes

# Ratios of realtime.py.
rt = lambda n, mean, p99: {"requests": n, "mean": mean, "p50": mean, "p90": mean, "p99": p99}
facts = realtime.with_ratios({
    "rt_only": {"seconds": 2.0, "be_per_s": 0.0, "rt": rt(200, 1000.0, 2000.0)},
    "be_only": {"seconds": 2.0, "be_per_s": 100.0},
    "preempt": {"seconds": 2.0, "be_per_s": 60.0, "rt": rt(400, 1100.0, 3000.0)}})
near = lambda x, y: abs(x - y) < 1e-9
assert near(facts["preempt"]["rt"]["slowdown"], 1.1) and near(facts["preempt"]["rt"]["p99_ratio"], 1.5)
assert near(facts["rt_only"]["left_over"], 0.9) # 200 requests of 1 ms in 2 s
assert near(facts["preempt"]["left_over"], 0.8) and near(facts["preempt"]["be_share"], 0.75)
assert "left_over" not in facts["be_only"]
later = lambda way: tuple(facts[way]["rt"][f"later_{p}_us"] for p in ("p50", "p99"))
assert later("rt_only") == (0.0, 1000.0) and later("preempt") == (100.0, 2000.0)
alone = realtime.with_ratios({"preempt": {"seconds": 2.0, "be_per_s": 60.0, "rt": rt(4, 1.0, 1.0)}})
assert "be_share" not in alone["preempt"] and "slowdown" not in alone["preempt"]["rt"]
assert "later_p99_us" not in alone["preempt"]["rt"]
of_one = lambda: {"seconds": 2.0, "be_per_s": 100.0, "preemptions": {"preemptions": 0}}
out = io.StringIO()
with contextlib.redirect_stdout(out):
    realtime.print_rows(("a", "b"), realtime.with_ratios({
        "rt_only": {**of_one(), "rt": rt(200, 1000.0, 2000.0)}, "be_only": of_one(),
        "preempt": {**of_one(), "rt": rt(400, 1100.0, 3000.0)}}))
_, _, head, *rows = out.getvalue().splitlines()
assert "later p50/p99 us" in head and "   100.0/  2000.0  100.0" in rows[2], out.getvalue()
end = head.index(" be/s") + 5 # of the column, in every row
assert all(row[:end].endswith(" 100.0") for row in rows), out.getvalue()
points = plot_realtime.of_ways({"pairs": {"a+b": facts}})["a+b"]
assert points["preempt"] == (1.1, 1.1, 3.0, 0.6) and points["left over"][3] == 0.9
assert set(points) == {"preempt", "left over"}

# Ways that leave SMs.
seen, real = {}, realtime.gsched.Server
realtime.gsched.Server = lambda **options: seen.update(options)
a = types.SimpleNamespace(gpu=0, watchdog=1, floor=0.0, side=[8], reserve=[8, 16, 0, 0], long=150.0,
                          slow_down=0.2)
realtime.server_of(a, "reserve_32")
assert seen["reserve_sms"] == [32, 0, 0, 0] and seen["reserve_fixed"] == seen["one_long"] == 1
seen.clear()
realtime.server_of(a, "reserve")
assert seen["reserve_sms"] == [8, 16, 0, 0] and "reserve_fixed" not in seen
assert seen["long_kernel"] == 150e-6 and seen["reserve_slow_down"] == 0.2
realtime.gsched.Server = real

# Arrivals and ratios of disb.py.
import random
import disb
about, clients = disb.read("disb_e")
assert [c.real_time for c in clients] == [True] * 5 + [False] * 5 and about
assert {c.network for c in clients} == set(disb.NETWORKS.values())
every = disb.due_times(disb.read("disb_a")[1][0], 0.01, 10.0, random.Random(1)) # half its rate
assert len(every) == 500 and all(near(y - x, 0.02) for x, y in zip(every, every[1:]))
drawn = disb.due_times(clients[0], 0.001, 100.0, random.Random(1)) # a tenth of its rate, at random
assert 9500 < len(drawn) < 10500 and sorted(drawn) == drawn
assert disb.due_times(clients[5], 0.01, 10.0, random.Random(1)) is None
one = lambda mean, p99: {"real_time": True, "finished": 9, "latency_us": {"mean": mean, "p99": p99}}
both = disb.with_ratios({"rt_only": {"clients": {"a": one(100, 200), "b": one(10, 10)}},
                    "preempt": {"clients": {"a": one(110, 300), "b": one(13, 15)}}})
assert near(both["preempt"]["slower"], 1.2) and near(both["preempt"]["p99_ratio"], 1.5)
assert "slower" not in disb.with_ratios({"seq": {"clients": {"a": one(1, 1)}}})["seq"]

# Ratios of two_processes.py: percentiles by nearest rank, and the whole GPU as what all is measured by.
a = types.SimpleNamespace(seconds=1.0, turns=2)
seen = {"rt alone": [1000.0] * 99 + [3000.0], "rt beside": [2040.0] * 98 + [5000.0] * 2,
        "be alone": [50, 70], "be beside": [20, 25]}
f = two_processes.summed_up(a, seen, None)
assert near(f["rt_alone"]["mean"], 1020.0) and f["rt_alone"]["p99"] == 1000.0 == f["rt_alone"]["p50"]
assert near(f["rt"]["mean"], 2099.2) and f["rt"]["p90"] == 2040.0 and f["rt"]["p99"] == 5000.0
assert near(f["slowdown"], 2099.2 / 1020) and near(f["p99_ratio"], 5.0)
assert f["be_alone_per_s"] == 60.0 and f["be_per_s"] == 22.5 and near(f["be_kept"], 0.375)
assert near(f["left_over"], 1 - 0.051) and near(f["be_share"], 0.375 / 0.949)
half = two_processes.summed_up(a, {**seen, "be alone": [30, 30]}, f)
assert near(half["be_kept"], 0.375) and half["be_alone_per_s"] == 30.0, "of the whole GPU"
point = plot_realtime.of_settings({"settings": {"mps": {"a+b": f}}})["a+b"]["mps"]
assert all(near(x, y) for x, y in zip(point, (f["slowdown"], 2.0, 5000 / 1020, 0.375)))
PY

# From end to end.
timeout 100 python3 "$example/realtime.py" --pairs resnet18+resnet50,resnet50+resnet18 --seconds 0.1 \
  --turns 2 --think 1 --json rt.json >out || { cat out; exit 1; }
timeout 100 python3 "$example/realtime.py" --pairs resnet18+resnet50 --seconds 0.1 --turns 1 --settle 0.2 \
  --think 1 --ways rt_only,be_only,reserve_0,reserve_16,reserve >out || { cat out; exit 1; }
[ "$(grep -c ^reserve out)" -eq 3 ] || { cat out; exit 1; }
# With networks that the played torchvision has.
cat >played_disb.py <<'PY'
import sys
import disb
disb.NETWORKS = {name: f"resnet{18 + 32 * (k % 2)}" for k, name in enumerate(disb.NETWORKS)}
sys.exit(disb.main())
PY
timeout 100 python3 played_disb.py --workloads disb_a,disb_d --seconds 0.1 --turns 2 --json disb.json \
  >out || { cat out; exit 1; }
timeout 100 python3 "$example/two_processes.py" --pairs resnet18+resnet50 --settings time_slicing \
  --seconds 0.1 --turns 2 --think 1 --json two.json >out || { cat out; exit 1; }
python3 - <<'PY'
import json
import realtime
rt, two = (json.load(open(f"{n}.json")) for n in ("rt", "two"))
assert list(rt["pairs"]) == ["resnet18+resnet50", "resnet50+resnet18"]
for facts in rt["pairs"].values():
    assert list(facts) == list(realtime.WAYS)
    for way, f in facts.items():
        assert (f["be_finished"] > 0) == (way != "rt_only") and ("rt" in f) == (way != "be_only"), way
        assert "rt" not in f or f["rt"]["requests"] > 5 and f["rt"]["slowdown"] > 0, (way, f["rt"])
disb = json.load(open("disb.json"))["workloads"]
assert list(disb) == ["disb_a", "disb_d"]
for ways in disb.values():
    assert list(ways) == ["rt_only", "seq", "streams", "streams_priority", "preempt"]
    for way, f in ways.items():
        assert f["slower"] > 0 and (f["be_work"] > 0) == (way != "rt_only"), way
        assert way == "rt_only" or f["work"] > f["be_work"] > 0, way
f = two["settings"]["time_slicing"]["resnet18+resnet50"]
assert f["rt"]["requests"] > 5 and f["be_per_s"] > 0 and f["slowdown"] > 0
PY
python3 "$example/plot_realtime.py" rt.json >out && [ "$(grep -c preempt_pad out)" -eq 2 ]
python3 "$example/plot_realtime.py" rt.json two.json --pairs resnet18+resnet50 --plot both.svg >out
grep -q time_slicing out && grep -q '</svg>' both.svg && grep -q '>preempt<' both.svg
says 2 '--pairs: "a+b", expected some of resnet18+resnet50' plot_realtime rt.json --pairs a+b

# What goes wrong.
export NO_GPU=1
says 1 'torch sees no GPU, expected one' realtime --pairs resnet18+resnet50
says 1 'torch sees no GPU, expected one' disb --workloads disb_a
says 1 'a process ended early' two_processes --pairs resnet18+resnet50 --settings time_slicing
says 1 'nvidia-cuda-mps-control' two_processes --pairs resnet18+resnet50 --settings mps
echo 'realtime.py, disb.py and two_processes.py do as they should'
