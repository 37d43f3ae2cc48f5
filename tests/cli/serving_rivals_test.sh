#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# serving_rivals.py without a GPU: one process a model gets the requests that it gets in one process,
# processes that fail or hang become one line, and neither they nor an MPS daemon outlive it.
set -u
example=$GSCHED_SOURCE_DIR/examples/pytorch
serve=$GSCHED_BIN_DIR/serve_partitions
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1 TMPDIR=$work WORK=$work
failed=0
fail() { echo "FAILED: $1"; cat "$work/out" "$work/err"; failed=1; }

rivals() { # rivals CODE ARGS...
  local expected=$1
  shift
  timeout 100 python3 "$example/serving_rivals.py" --rates lenet=300,vgg16=100 --slo lenet=5,vgg16=130 \
    --seconds 0.5 "$@" >"$work/out" 2>"$work/err"
  local rc=$?
  [ $rc -eq "$expected" ] || fail "$*: exit code $rc, expected $expected"
}
says() { grep -qE -- "$1" "$work/out" "$work/err" || fail "expected '$1'"; }
# shellcheck source=played_mps.sh
. "$(dirname "${BASH_SOURCE[0]}")/played_mps.sh"

# The real program on simulated GPUs: the same requests.
rivals 0 --device sim --ways whole,time_slicing --program "$serve" --loads 0.5,1 --json "$work/real.json"
python3 - "$work/real.json" <<'PY' || fail "one process a model has other requests"
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
assert [(r["way"], r["load"]) for r in rows] == [(w, x) for w in ("whole", "time_slicing") for x in (0.5, 1)]
for one, many in zip(rows[:2], rows[2:]):
    came = [{a["name"]: a["arrived"] for a in r["apps"]} for r in (one, many)]
    assert came[0] == came[1] and min(came[0].values()) > 0, came
    assert many["all"]["arrived"] == sum(came[1].values()) == many["all"]["in_time"], many
PY

# Two GPUs serve what one cannot.
for gpus in 1 2; do
  rivals 0 --device sim --gpus $gpus --rates lenet=300,vgg16=8000 --ways streams --program "$serve" --json "$work/gpus$gpus.json"
done
python3 - "$work" <<'PY' || fail "two GPUs serve no more than one"
import json, sys
late = [json.load(open(f"{sys.argv[1]}/gpus{n}.json"))["rows"][0]["all"]["violations"] for n in (1, 2)]
assert late[0] > 0.2 and late[1] < 0.01, late
PY

# The barrier of the program.
mkdir "$work/start"
for bad in never 99999999999999999; do
  echo "$bad" >"$work/start/go"
  timeout 20 "$serve" --rates lenet=10 --seconds 1 --start-with "$work/start" >"$work/out" 2>"$work/err"
  [ $? -eq 1 ] && grep -q 'go: expected a time' "$work/err" || fail "a start at '$bad'"
done
rm "$work/start/go"
timeout 20 "$serve" --rates lenet=10 --seconds 1 --only lenet --start-with "$work/start" >"$work/out" 2>"$work/err" &
for _ in $(seq 100); do [ -e "$work/start/ready.lenet" ] && break; sleep 0.1; done
rm -r "$work/start"
wait $!
[ $? -eq 1 ] && grep -q 'the folder is gone' "$work/err" || fail "a folder that is gone"

# A program and an MPS that do as they are told.
cat >"$work/program" <<'PY'
#!/usr/bin/env python3
import json, os, pathlib, signal, sys, time
words = sys.argv[1:]
of = lambda name: words[words.index(name) + 1]
me = of("--only") if "--only" in words else "all"
work = pathlib.Path(os.environ["WORK"])
before = work / f"{me}.number" # of a way before
if before.exists() and pathlib.Path(f"/proc/{before.read_text()}/exe").exists():
    (work / "overlap").touch()
(work / f"{me}.number").write_text(str(os.getpid()))
(work / f"{me}.environment").write_text(" ".join(
    f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("CUDA_MPS")) + " " + " ".join(words))
does = os.environ.get("DOES", "") if me == "vgg16" else ""
if does == "hang":
    time.sleep(300)
if does == "say":
    sys.exit("serve_partitions: no room, expected some")
start = pathlib.Path(of("--start-with"))
(start / f"ready.{me}").touch()
while not (start / "go").exists():
    time.sleep(0.01)
assert 0 < int((start / "go").read_text()) - time.monotonic_ns() < 10**9
if does == "die":
    os.kill(os.getpid(), signal.SIGKILL)
if does == "sleep":
    time.sleep(300)
counts = {"arrived": 10, "in_time": 7, "late": 1, "dropped": 2, "violations": 0.3}
json.dump({"all": {**counts, "in_time_per_s": 3.5}, "batches": 4, "apps": [
    {"name": me, **counts, "slo_us": 5000, "latency_us": {"mean": 1000, "p99": 2000}}]}, open(of("--json"), "w"))
PY
chmod +x "$work/program"
fake=(--program "$work/program")
rivals 0 "${fake[@]}" --ways time_slicing
says '^time_slicing +1  all +20 +30\.000% +7\.0 in time'
ended
PATH=/usr/bin:/bin rivals 0 "${fake[@]}" --ways mps
says 'not available: nvidia-cuda-mps-control is not on the path'
play_mps
rivals 0 "${fake[@]}" --ways mps_shares --shares lenet=32,vgg16=96
says '^mps_shares +1  all +20'
ended
grep -q 'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25 .*CUDA_MPS_PIPE_DIRECTORY=/.*--sms 32' "$work/lenet.environment" ||
  fail "the share of lenet: $(cat "$work/lenet.environment")"
MPS=stays rivals 0 "${fake[@]}" --ways mps_priority
ended
grep -q CLIENT_PRIORITY=1 "$work/vgg16.environment" && ! grep -q CLIENT_PRIORITY "$work/lenet.environment" ||
  fail "the priorities: $(cat "$work"/*.environment)"
MPS=refuses rivals 0 "${fake[@]}" --ways mps
says 'not available: nvidia-cuda-mps-control: no permission for MPS'
ended
DOES=die rivals 1 "${fake[@]}" --ways mps
says 'failed: vgg16: ended by signal 9'
ended
DOES=say rivals 1 "${fake[@]}" --ways time_slicing
says 'failed: vgg16: serve_partitions: no room, expected some'
ended
DOES=hang rivals 1 "${fake[@]}" --ways mps,time_slicing --set-up 1
says '^mps .*failed: not ready: vgg16 after 1 s'
says '^time_slicing .*failed: not ready: vgg16 after 1 s'
[ ! -e "$work/overlap" ] || fail "processes of one way run beside those of the next"
ended
DOES=sleep timeout 100 python3 "$example/serving_rivals.py" --rates lenet=300,vgg16=100 --slo lenet=5,vgg16=130 \
  "${fake[@]}" --ways mps >"$work/out" 2>"$work/err" &
for _ in $(seq 100); do [ -e "$work/vgg16.number" ] && break; sleep 0.1; done
sleep 0.3
kill "$(pgrep -P $! python3)"
wait $!
ended
ls -d "$work"/mps* "$work"/rivals* 2>/dev/null && fail "folders are left"

# PyTorch models are captured once for all loads, and for all ways of one process.
mkdir "$work/torch"
cp "$example"/{serving_rivals,mps,processes,workload,models}.py "$work/torch"
cat >"$work/torch/serve_partitions.py" <<'PY'
import os, shlex, subprocess, sys
words = sys.argv[1:]
runs = [shlex.split(b) for a, b in zip(words, words[1:]) if a == "--run"]
open(os.environ["WORK"] + "/captures", "a").write(words[words.index("--models") + 1] + f" {len(runs)}\n")
for run in runs:
    if "--only" in run:
        subprocess.run([os.environ["WORK"] + "/program", *run], check=True)
    else:
        subprocess.run([os.environ["WORK"] + "/serve", *run, "--device", "sim", "--gpus", "1"], check=True)
PY
ln -s "$serve" "$work/serve"
(example=$work/torch; rivals 0 --pytorch --ways whole,time_slicing,plan --loads 0.5,1 --json "$work/torch.json" \
  --table "$GSCHED_SOURCE_DIR/tools/data/latency_batch_partition.csv"; exit $failed) || failed=1
[ "$(sort "$work/captures" | tr '\n' ';')" = 'lenet 2;lenet,vgg16 4;vgg16 2;' ] || fail "captures: $(cat "$work/captures")"
[ "$(grep -c '^ *"way"' "$work/torch.json")" = 6 ] && ! grep -q failed "$work/torch.json" || fail "rows of PyTorch models"
ended
(cd "$example" && python3 - <<'PY') || fail "planners without plans"
import serve_partitions as s
assert s.without_plans(["--planner", "streams"]) and s.without_plans(["--planner=whole", "--once"])
assert not s.without_plans(["--planner", "best"]) and not s.without_plans(["--rates", "streams"])
PY

# The plan has all SMs, or as many as were asked for.
rivals 0 --device sim --ways plan --program "$serve" --json "$work/all_sms.json"
(cd "$example" && python3 - "$work/all_sms.json" <<'PY') || fail "all SMs for the plan"
import json, sys, types
import serving_rivals as s
words = lambda sms, solo=None: s.plan_words(types.SimpleNamespace(
    sms=sms, plan_interference="law", solo=solo))[2:]
assert words(None) == [] and words(64) == ["--sms", "64"]
assert words(64, "s.csv") == ["--solo", "s.csv", "--sms", "64"]
[row] = json.load(open(sys.argv[1]))["rows"]
assert row["way"] == "plan" and row["all"]["violations"] < 0.01, row
PY

# Bad input, and shares by hand.
rivals 2 --ways streams,threads
says '"threads", expected some of'
rivals 2 --shares lenet=8
says '--shares: expected those models'
rivals 2 --rates gpt=1 --slo gpt=5
says 'no rows of gpt'
(cd "$example" && python3 - <<'PY') || fail "shares"
import serving_rivals as s
times = {"a": {1: {8: 8e-3, 16: 4e-3, 64: 1e-3}, 4: {8: 20e-3, 16: 10e-3, 64: 2e-3}}, "b": {1: {8: 1e-3, 64: 1e-3}}}
# a: 240/s with headroom: one at a time takes 16 SMs and then 0.96 of the time; b needs 8.
given, whole = s.shares_of(times, {"a": 200, "b": 100}, {"a": 20, "b": 5}, [1, 4])
assert (given, whole) == ({"a": 40, "b": 24}, 64), given
given, _ = s.shares_of(times, {"a": 1e6, "b": 1e6}, {"a": 20, "b": 5}, [1, 4])
assert given == {"a": 32, "b": 32}, given
PY
exit $failed
