#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pairs.py, prefill_decode.py, adding_models.py and stopped_host.py: help, one line for each kind of bad
# input, what they make of known figures, and runs with a library and a torch that only play their
# parts.
set -euo pipefail
source "$GSCHED_SOURCE_DIR/tests/cli/pytorch_played.sh"
example=$GSCHED_SOURCE_DIR/examples/pytorch
cd "$work"

for program in pairs prefill_decode adding_models stopped_host; do
  python3 "$example/$program.py" --help >out 2>&1 && grep -q -- --json out &&
    grep -q -- --time-limit out || { echo "$program --help failed"; cat out; exit 1; }
done

says() { # says STATUS TEXT PROGRAM ARGS...: that exit status, and TEXT on the one line of its stderr
  local status=$1 text=$2 program=$3 rc=0
  shift 3
  timeout 100 python3 "$example/$program.py" "$@" >out 2>err || rc=$?
  [ $rc -eq "$status" ] && [ "$(wc -l <err)" -eq 1 ] && grep -q "^$program: " err &&
    grep -qF -- "$text" err ||
    { echo "$program $*: status $rc, expected $status and one line with '$text'"; cat err; exit 1; }
}
for program in pairs prefill_decode adding_models stopped_host; do
  says 2 'no-such' $program --no-such
  says 2 'expected a file in a folder' $program --json no/out.json
  says 2 '--time-limit' $program --time-limit 0
done
says 2 'model "resnet99", expected' pairs --pairs resnet18+resnet99
says 2 'expected pairs like resnet18+resnet50_b8' pairs --pairs resnet18
says 2 'none of those of --list' pairs --pairs 'resnet18+no*'
says 2 '--gpus' pairs --gpus 0
says 2 '--check' pairs --check 0
says 2 '--steps' pairs --steps=-1
says 2 '--steps: no best-effort model of --pairs trains' pairs --steps 200 --pairs resnet18+resnet50
says 2 '--parts: "none", expected some of beside, floor' prefill_decode --parts none
says 2 '--ways: "fifo", expected some of rt_only' prefill_decode --ways fifo
says 2 '--floors: "0.1,2", expected numbers from 0.0 to 0.95' prefill_decode --floors 0.1,2
says 2 '--steps' prefill_decode --steps 0
says 2 '--prefill' prefill_decode --prefill many
says 2 '--position: 9, expected less than --cached 8' prefill_decode --position 9 --cached 8
says 2 'model "resnet99", expected' adding_models --model resnet99
says 2 '--nodes' adding_models --nodes 0
says 2 '--repeat' stopped_host --repeat x

# The matrix: twelve best-effort models beside four real-time ones, all of which models.py knows.
python3 "$example/pairs.py" --list >list
[ "$(sort -u list | wc -l)" -eq 48 ] || { cat list; exit 1; }
[ "$(cut -d+ -f2 list | sort -u | wc -l)" -eq 12 ]
python3 "$example/pairs.py" --list --pairs 'resnext50+vit*,resnet18+resnet50' >list
[ "$(wc -l <list)" -eq 4 ] && grep -qx resnet18+resnet50 list
python3 - <<'PY'
import models, pairs
for rt, be in pairs.MATRIX:
    assert (models.known(rt), models.known(be)) == (rt, be)
assert models.parts("vit_base_bf16_b8") == ("vit_base_bf16", 8)
assert models.parts("vit_base_b32") == ("vit_base", 32)
assert models.parts("resnet50_train_b16") == ("resnet50_train", 16)
assert models.keeps_state("llama_decode") and models.keeps_state("resnet50_train_b16")
assert not models.keeps_state("vit_base_bf16_b8")
PY

# Outputs are compared, and those that differ, hangs and failures are reported.
timeout 100 python3 "$example/pairs.py" --pairs resnet18+resnet50,resnet50+resnet18 --seconds 0.6 \
  --alone 0.3 --check 0.3 --gpus 2 --json pairs.jsonl >out || { cat out; exit 1; }
grep -q '2 pairs: 0 hangs, 0 without a result, 0 wrong outputs' out
python3 - <<'PY'
import json
rows = [json.loads(line) for line in open("pairs.jsonl")]
assert {r["pair"] for r in rows} == {"resnet18+resnet50", "resnet50+resnet18"}
for r in rows:
    assert min(r["checked"].values()) > 0 and r["wrong"] == {"rt": 0, "be": 0} and not r["hang"]
    assert list(r["ways"]) == ["rt_only", "be_only", "preempt"]
    f = r["ways"]["preempt"]
    assert f["rt"]["slowdown"] > 0 and f["rt"]["p99_ratio"] > 0 and f["be_share"] > 0
    assert 0.3 < f["seconds"] < 10
PY
python3 "$example/pairs.py" --read pairs.jsonl >again
diff out again || { echo 'pairs.py --read prints another table'; exit 1; }
echo '{"pair": "a+b"}' >bad.jsonl
for bad in bad.jsonl none.jsonl; do
  if python3 "$example/pairs.py" --read pairs.jsonl "$bad" >out 2>err; then exit 1; fi
  grep -q "error: --read: $bad: " err && [ ! -s out ]
done
short="--pairs resnet18+resnet50 --seconds 0.6 --alone 0.3 --check 0.3"
if ADDS=2 timeout 100 python3 "$example/pairs.py" $short >out; then
  echo 'wrong outputs went unnoticed'
  exit 1
fi
grep -q ' 0 hangs, 0 without a result, [1-9][0-9]* wrong outputs' out
if NO_GPU=1 timeout 100 python3 "$example/pairs.py" $short >out; then exit 1; fi
grep -q 'failed: capture: GschedError: torch sees no GPU, expected one' out
if HANG=1 timeout 100 python3 "$example/pairs.py" $short --set-up 7 >out; then exit 1; fi
grep -q 'HANG: capture: ' out && grep -q '1 pairs: 1 hangs, 1 without' out

python3 - <<'PY'
import json, types
import torch
import pairs

# How a pair's process ended.
line = lambda **what: json.dumps(what) + "\n"
row = pairs.row_of("a+b", line(phase="check") + "words\n" + line(result={"wrong": {"rt": 0, "be": 1}}),
                   "", False, 0, 2.0)
assert row["wrong"]["be"] == 1 and not row["hang"] and "error" not in row
late = pairs.row_of("a+b", line(phase="check"), "", True, -9, 200.0)
assert late["hang"] and late["error"] == "check: no end in 200 s", late
for text in ("GschedError: GPU 0: the launch timed out (cudaErrorLaunchTimeout)",
             "TimeoutError: resnet18: no answer in 60 s"):
    assert pairs.row_of("a+b", line(phase="check") + line(error=text), "", False, 1, 9.0)["hang"]
other = pairs.row_of("a+b", line(phase="capture") + line(error="RuntimeError: out of memory"), "", False,
                     1, 9.0)
assert not other["hang"] and other["error"] == "capture: RuntimeError: out of memory"
assert pairs.row_of("a+b", "", "one\nSegmentation fault\n", False, -11, 1.0)["error"].endswith("fault")

# Training: what is served is compared with as many replays from the same start.
class Bytes:
    def __init__(self, values): self.values = list(values)
    def detach(self): return self
    contiguous = detach
    def clone(self): return Bytes(self.values)
    def copy_(self, other): self.values[:] = other.values
    def view(self, *_): return self
    def __eq__(self, other): return types.SimpleNamespace(all=lambda: self.values == other.values)

torch.no_grad = torch.cuda.device
for by, wrong in ((1, 0), (2, 1)):
    weights = [Bytes([1.0, 2.0]), Bytes([7.0])]
    class Graph: # a step changes the first weight alone
        def replay(self): weights[0].values[:] = [2 * v for v in weights[0].values]
    captured = types.SimpleNamespace(instances=[types.SimpleNamespace(graph=Graph())])
    steps = pairs.Steps(torch, captured, weights)
    Graph().replay() # before it counts
    steps.start()
    assert weights[0].values == [1.0, 2.0]
    for n in range(3):
        for _ in range(by):
            Graph().replay()
        steps.compare(n, types.SimpleNamespace(result=lambda seconds: None))
    steps.conclude()
    assert (steps.seen, steps.wrong) == (3, wrong)
    assert weights[0].values == [1.0, 2.0], "as it was"

# A number of steps: exactly so many are submitted, beside real-time requests, and compared.
import time
import gsched, models, realtime
rt = gsched.capture(*models.make("resnet18"), instances=1, name="rt")
be = gsched.capture(*models.make("resnet50"), instances=1, name="be")
a = types.SimpleNamespace(gpu=0, watchdog=1000, floor=0.0, side=[0], seed=1, inputs=2, think=1.0,
                          check=0.01, steps=30)
way, weights = realtime.Way(a, "preempt", rt, be), [Bytes([1.0])]
class Double:
    def replay(self): weights[0].values[:] = [2 * v for v in weights[0].values]
captured = types.SimpleNamespace(instances=[types.SimpleNamespace(graph=Double())])
class Server: # its steps do what the graph does; the 20th does it `by` times
    statistics = way.server.statistics
    def submit(self, model, *args, real_time=False, **named):
        if not real_time:
            time.sleep(0.002)
            self.steps += 1
            for _ in range(self.by if self.steps == 20 else 1):
                Double().replay()
        return way.server.submit(model, *args, real_time=real_time and self.preempts, **named)
for by, preempts in ((1, True), (2, True), (1, False)):
    server = Server()
    server.by, server.steps, server.preempts = by, 0, preempts
    answers, steps = pairs.Answers(torch, "resnet18", rt, a), pairs.Steps(torch, captured, weights)
    served = types.SimpleNamespace(server=server, real_time=way.real_time, best_effort=way.best_effort,
                                   clients=way.clients)
    try:
        found = pairs.check(a, served, answers, steps)
    except RuntimeError as e:
        assert not preempts and str(e) == "30 steps without a preemption, expected some"
        continue
    assert preempts and server.steps == 30 == found["checked"]["be"] == found["steps"]["steps"]
    assert found["steps"]["preemptions"] == found["checked"]["rt"] > 3
    assert found["wrong"] == {"rt": 0, "be": by - 1}, found
facts = {"rt": {"slowdown": 1.0, "p99_ratio": 1.0, "later_p50_us": 3, "later_p99_us": 9},
         "be_share": 1.0, "be_per_s": 1.0,
         "preemptions": {"preempt_p50_us": 1.0, "preempt_p99_us": 1.0, "preemptions": 9}}
row = {"pair": "a+b", "checked": {"be": 30}, "wrong": {"be": 0}, "ways": {"preempt": facts, "be_only": facts}}
assert pairs.cells(row).endswith("       30     0")
row["steps"] = {"steps": 30, "preemptions": 9}
assert pairs.cells(row).endswith("  30 steps, preempted 9 times")
PY

# Prefill and decode, with models that only add.
python3 - <<'PY'
import types
import gsched, models, prefill_decode, torch
graphs = [gsched.capture(*models.make("resnet18"), instances=1, name=str(i)) for i in range(4)]
a = types.SimpleNamespace(ways=list(prefill_decode.WAYS), turns=3, seconds=0.05, think=1.0, seed=1, gpu=0,
                          floor=0.0, watchdog=1000, side=[0], floors=[0.1, 0.5], steps=[1, 4], chunk=512)
facts = prefill_decode.beside(a, graphs[0], graphs[1], 1e18)
assert list(facts) == a.ways
for way, f in facts.items():
    assert ("slowdown" in f.get("rt", {})) == (way != "be_only")
    assert f["turns"]["be_per_s"]["turns"] == 3 and ("p99" in f["turns"]) == (way != "be_only")
prefill_decode.print_beside(512, facts)
some = prefill_decode.spreads([{"be_per_s": 3}, {"be_per_s": 1, "mean": 5}, {"be_per_s": 2, "mean": 4}])
assert some == {"be_per_s": {"median": 2, "least": 1, "most": 3, "turns": 3},
                "mean": {"median": 5, "least": 4, "most": 5, "turns": 2}}, some
subjects = types.SimpleNamespace(decode=graphs[0], prefills={1024: graphs[1]},
                                 chunks=lambda tokens: graphs[2:])
figures = prefill_decode.floors(a, torch, subjects, 1024, 1e18)
assert list(figures) == ["floor 0.1", "floor 0.5", "chunked 1", "chunked 4"]
for f in figures.values():
    assert 0 <= f["between_p50"]["median"] <= f["between_p99"]["median"] and f["prefills"]["least"] > 0
    assert f["between_p99"]["least"] <= f["between_p99"]["median"] <= f["between_p99"]["most"]
prefill_decode.print_floors(1024, figures)
late = prefill_decode.floors(a, torch, subjects, 1024, 0.0)
assert late["floor 0.1"]["prefills"]["turns"] == 1, "what does not fit in is left out"
PY

# A model that is added while another one is served.
timeout 100 python3 - >out <<'PY' || { cat out; exit 1; }
import sys, time
import adding_models, gsched, json
add = gsched.Server.add_model
def slowly(self, *args, **named):
    time.sleep(0.05)
    return add(self, *args, **named)
gsched.Server.add_model = slowly
removed, remove = [], gsched.Model.remove
def noted(self, *args):
    removed.append(self.name)
    return remove(self, *args)
gsched.Model.remove = noted
for more in ([], ["--real-time-lanes", "1", "--unmeasured"]):
    sys.argv = ["adding_models.py", "--nodes", "20", "--repeat", "3", "--alone", "0.05", "--json",
                "adding.json"] + more
    assert adding_models.main() == 0
    results = json.load(open("adding.json"))
    assert len(results["turns"]) == 3 and results["nodes"] == 20 and results["measured"] == (not more)
    for turn in results["turns"]:
        assert turn["adding"]["requests"] > 0 < turn["alone"]["requests"] and turn["add_ms"] >= 50
    assert removed == ["chain 20"] * 3, removed
    removed.clear()
    grew = [t["adding"]["p99"] - t["alone"]["p99"] for t in results["turns"]]
    assert results["p99_more_us"] == {"median": sorted(grew)[1], "least": min(grew), "most": max(grew)}
PY
grep -q 'p99 of others grows by' out

# When a chain of kernels is at its usual pace, and when a counter stands and goes on.
python3 - <<'PY'
import os, struct, sys, threading, time
import stopped_host
us = lambda *times: [(sum(times[:i]) * 1000, sum(times[:i + 1]) * 1000) for i in range(len(times))]
runs = us(100, 100, 400, 100, 100, 500, 110, 90, 100, 120, 100, 100)
assert stopped_host.usual_from(runs, 0, 100) == 1300000, "the first of five in a row"
assert stopped_host.usual_from(runs, 1350000, 100) == 1350000, "not before it was stopped"
assert stopped_host.usual_from(runs[:10], 0, 100) is None
assert stopped_host.usual_from(runs, 1700000, 100) is None
with open("counter", "wb") as file:
    file.truncate(stopped_host.FILE_BYTES)
counter = stopped_host.Counter("counter")
assert counter.value() == 0 and counter.wait_for_stand(1, 0.05) is None, "nothing has run yet"
def count():
    with open("counter", "r+b") as file:
        for n in list(range(1, 60)) + [60]:
            if n == 60:
                time.sleep(0.2)
            file.seek(0)
            file.write(struct.pack("<q", n))
            file.flush()
            time.sleep(0.001)
thread = threading.Thread(target=count)
thread.start()
assert counter.wait_for_stand(50, 5) == 59
assert counter.wait_for_change(59, 5) is not None and counter.value() == 60
assert counter.wait_for_change(60, 0.05) is None
thread.join()
PY

# What goes wrong.
export NO_GPU=1
says 1 'torch sees no GPU, expected one' prefill_decode
says 1 'torch sees no GPU, expected one' adding_models
says 1 'torch sees no GPU, expected one' stopped_host
echo 'the measuring programs do as they should'
