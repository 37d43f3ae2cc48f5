#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# serve_partitions: what it says adds up, comes again, follows rates; and one line for bad input.
program=serve_partitions
# shellcheck source=expect.sh
. "$(dirname "${BASH_SOURCE[0]}")/expect.sh"
failed=0
serve() {
  local name=$1
  shift
  "$bin" "$@" --json "$work/$name.json" > "$work/$name.txt" || { echo "$name failed"; failed=1; }
}

rates=lenet=2000,resnet50=500,vgg16=200
serve calm --rates $rates --seconds 20 --interference h200 --rate-error 0.2 --period 5
serve again --rates $rates --seconds 20 --interference h200 --rate-error 0.2 --period 5
cmp "$work/calm.json" "$work/again.json" || failed=1
serve seed --rates $rates --seconds 20 --interference h200 --rate-error 0.2 --period 5 --seed 2
cmp -s "$work/calm.json" "$work/seed.json" && { echo "the seed changes nothing"; failed=1; }
serve full --rates $rates --gpus 1 --seconds 20 --headroom 1 --clusters 0 --once --rate-error fixed:0.4 --leave-idle
serve apps --app game=2000,traffic=1000 --seconds 10 --batch-log "$work/batches.csv"
printf 'time_s,model,rate\n0,game,2000\n0,traffic,1000\n' > "$work/apps.csv"
serve apps_traced --rate-trace "$work/apps.csv" --seconds 10
cmp "$work/apps.json" "$work/apps_traced.json" || failed=1
serve hasty --app game=500 --slo game=5 --seconds 5
# What is promised of the defaults, at the most that is planned for. Long runs are for builds that are
# quick: under a sanitizer they take minutes and run the same code again.
planners="best elastic"
[[ -z ${GSCHED_SANITIZED:-} ]] || planners=
for planner in $planners; do
  i=0
  for asked in "--app game=50" "--app traffic=50" "--rates resnet50=100,ssdlite_mobilenet=100,vgg16=100"; do
    i=$((i + 1))
    # shellcheck disable=SC2086
    serve "promise_${planner}_$i" $asked --max-rates --planner $planner --rate-error 0.2 --period 5 --seconds 15
  done
done
# Batches that take longer than the plans assume: they learn it, and switch once. Beside neighbours that are idle now and
# then a batch takes less than planned, and less is learned.
five=lenet=1000,googlenet=1000,resnet50=1000,ssdlite_mobilenet=1000,vgg16=1000
serve slow --rates $five --gpus 2 --seconds 50 --period 10 --true-slowdown 1.6 --interference none
serve slow_beside --rates $five --gpus 2 --seconds 50 --period 10 --true-slowdown 1.6
serve slow_unlearned --rates $five --gpus 2 --seconds 20 --period 10 --true-slowdown 1.6 --fixed-times --allowed 1
serve slow_one --rates $rates --gpus 2 --seconds 30 --period 10 --true-slowdown vgg16=1.5
grep -qF 'as learned: lenet 1.6, googlenet 1.6, resnet50 1.6' "$work/slow.txt" || { echo "what was learned is not told"; failed=1; }
# At low rates all SMs are used, or it is told why not; and batches do not wait for more.
low=(--rates lenet=270,googlenet=270,resnet50=270 --slo lenet=5,googlenet=44,resnet50=95 --gpus 1 --seconds 10)
serve low "${low[@]}" --interference none
# Where one larger partition alone would slow another beyond its goal, two grow at once.
serve tight --rates lenet=150,googlenet=150,resnet50=150,ssdlite_mobilenet=150,vgg16=150 --slo lenet=5 --gpus 1 --seconds 5
grep -q '132.0 of 132 SMs planned' "$work/tight.txt" || { echo "a tight plan leaves SMs idle"; failed=1; }
serve low_before "${low[@]}" --start due --leave-idle --interference none
grep -qE '[0-9]+ SMs idle on GPUs in use: --leave-idle' "$work/low_before.txt" || { echo "idle SMs are not told"; failed=1; }
# So are GPUs, one for each model. A model too slow for every partition is named.
many=(--rates lenet=100,vgg16=100 --slo lenet=5,vgg16=130 --gpus 4 --seconds 5)
serve many "${many[@]}"
grep -qF '2 GPUs idle: there are fewer models than GPUs' "$work/many.txt" || { echo "idle GPUs are not told"; failed=1; }
serve many_before "${many[@]}" --leave-idle
grep -qF '3 GPUs idle: --leave-idle' "$work/many_before.txt" || { echo "GPUs left idle are not told"; failed=1; }
serve too_slow --rates lenet=1000,resnet50=100 --gpus 2 --seconds 20 --period 5 --true-slowdown lenet=10
grep -qF 'lenet: batches take 10 times as planned, and no partition keeps the SLO' "$work/too_slow.txt" ||
  { echo "a model that is too slow is not told"; failed=1; }
serve stalls --rates resnet50=300,vgg16=300 --gpus 1 --seconds 5 --once --true-slowdown vgg16=9 --stalls 5
grep -qE '^[0-9]+ batches took more than 5 ms longer than expected: .* too long on the GPU' "$work/stalls.txt" ||
  { echo "stalls are not told"; failed=1; }
# On one whole GPU LeNet would be late behind any batch of VGG-16: they run at the same time.
short=(--rates lenet=500,vgg16=300 --slo lenet=0.4 --gpus 1 --group 132 --seconds 5)
serve turns "${short[@]}"
serve shared "${short[@]}" --share-sms
serve shared_error "${short[@]}" --share-sms --shared-error 1.2
serve streams --rates lenet=500,vgg16=300 --slo lenet=0.4 --gpus 1 --planner streams --seconds 5
serve one_by_one --rates lenet=500,vgg16=300 --slo lenet=0.4 --gpus 1 --planner whole --seconds 5
grep -qF '2 of 2 partitions run on the SMs of others' "$work/shared.txt" || { echo "no shared SMs"; failed=1; }
serve none --rates vgg16=10 --gpus 0 --seconds 2
cat > "$work/jump.csv" <<'CSV'
time_s,model,rate
0,resnet50,300
0,lenet,1000
20,resnet50,3000
40,resnet50,300
CSV
serve jump --rate-trace "$work/jump.csv" --gpus 1 --leave-idle --seconds 60 --period 5
grep -qE 'at 25.0 s: .*resnet50 rose from' "$work/jump.txt" || { echo "the jump is not told"; failed=1; }
if [[ -z ${GSCHED_SANITIZED:-} ]]; then
  sed 's/,3000$/,300000/' "$work/jump.csv" > "$work/flood.csv"
  serve flood --rate-trace "$work/flood.csv" --gpus 1 --seconds 60 --period 5
  grep -qE 'at 25.0 s: room for 0\.[0-9]+ times these rates' "$work/flood.txt" ||
    { echo "too little room is not told"; failed=1; }
  serve hour --rates lenet=100,resnet50=50 --seconds 3600
fi

# Batches slow each other otherwise than plans assume: what was learned of the models is told, and can be planned with.
python3 - "$data/solo_metrics.csv" "$work/true_solo.csv" <<'PY'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
with open(sys.argv[2], "w") as f:
    w = csv.DictWriter(f, [*rows[0], "sensitivity", "pressure"])
    w.writeheader()
    for r in rows:
        w.writerow({**r, "sensitivity": 2.5 if r["model"] == "resnet50" else 1, "pressure": 1})
PY
beside=(--rates lenet=4400,googlenet=1100,resnet50=1320,ssdlite_mobilenet=990,vgg16=550 --gpus 2 --period 10
  --true-solo "$work/true_solo.csv")
[[ -n ${GSCHED_SANITIZED:-} ]] || {
  serve learning "${beside[@]}" --seconds 60 --learn-interference --learned "$work/learned.csv"
  serve learned "${beside[@]}" --seconds 10 --solo "$work/learned.csv"
  grep -qE '^resnet50 +[2-3]\.[0-9]+ ' "$work/learning.txt" || { echo "what was learned is not told"; failed=1; }
  python3 - "$data/solo_metrics.csv" "$work/learned.csv" <<'PY' || failed=1
import csv, sys
before, after = (list(csv.DictReader(open(f))) for f in sys.argv[1:])
assert [{k: r[k] for k in before[0]} for r in after] == before
for r in after:
    s, p = float(r["sensitivity"]), float(r["pressure"])
    assert 1.7 < s < 3.2 if r["model"] == "resnet50" else 0.7 < s < 1.4, r
    assert 0.7 < p < 1.4, r
PY
}
refuses "--learn-interference: without predicted interference, expected --plan-interference, which learned factors correct" \
  --rates vgg16=1 --learn-interference --plan-interference none
refuses "--learned: given without --learn-interference, expected it beside that" --rates vgg16=1 --learned "$work/x.csv"
refuses "--learned: 'no/where.csv' cannot be written" --rates vgg16=1 --learn-interference --learned no/where.csv
refuses "--batch-log: 'no/where.csv' cannot be written" --rates vgg16=1 --batch-log no/where.csv
refuses "--learn-interference: given beside --once, which plans for good, expected one of both" --rates vgg16=1 --learn-interference --once
refuses "--true-solo: given without --interference, expected a law that simulated batches follow" \
  --rates vgg16=1 --interference none --true-solo "$work/true_solo.csv"

# A picture, where there is gnuplot: what was asked for, each switch, and the share that was late.
if command -v gnuplot > /dev/null; then
  serve drawn --rate-trace "$work/jump.csv" --gpus 1 --leave-idle --seconds 60 --period 5 --plot "$work/jump.svg"
  cmp "$work/jump.json" "$work/drawn.json" || failed=1
  switches=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["switches"])' "$work/jump.json")
  for text in resnet50 lenet "of 132 by best; $switches switches" 'late or dropped'; do
    grep -qF "$text" "$work/jump.svg" || { echo "jump.svg has no '$text'"; failed=1; }
  done
  for picture in none.png none.pdf; do
    "$bin" --rates vgg16=10 --gpus 0 --seconds 2 --plot "$work/$picture" > /dev/null || failed=1
    [[ -s $work/$picture ]] || { echo "$picture is empty"; failed=1; }
  done
  refuses "--plot: '$work/plan.doc' has an unknown type, expected .svg, .png or .pdf" --rates vgg16=1 --plot "$work/plan.doc"
  refuses "--plot: 'no/where.svg' cannot be written" --rates vgg16=1 --plot no/where.svg
  refuses "--plot: '$work/one' is also that of --json" --rates vgg16=1 --json "$work/one" --plot "$work/one"
fi

python3 - "$work" <<'PY' || failed=1
import collections, csv, json, os, pathlib, sys
long = not os.environ.get("GSCHED_SANITIZED")
said = {p.stem: json.loads(p.read_text()) for p in pathlib.Path(sys.argv[1]).glob("*.json")}
for name, r in said.items():
    for row in [r["all"], *r["apps"], *r["models"]]:
        assert row["arrived"] == row["in_time"] + row["late"] + row["dropped"], (name, row)
    came = {m["model"]: m["arrived"] for m in r["models"]}
    for model, n in came.items():
        assert sum(p["came"][model] for p in r["periods"]) == n, (name, model)
    assert sum(p["ended"] for p in r["periods"]) == r["all"]["arrived"], name
    assert sum(p["violated"] for p in r["periods"]) == r["all"]["late"] + r["all"]["dropped"], name
    for m in r["models"]:
        assert m["late"] > 0 or m["latency_us"]["max"] <= m["slo_us"], (name, m)
with open(f"{sys.argv[1]}/batches.csv", newline="") as f:
    batches = list(csv.DictReader(f))
assert len(batches) == said["apps"]["batches"]
took, until = collections.Counter(), collections.Counter()
for b in batches:
    begin, end = float(b["begin_us"]), float(b["end_us"])
    assert begin >= until[b["partition"]], b # one at a time
    until[b["partition"]] = end
    took[b["model"]] += end - begin
    assert abs(float(b["least_us"]) - (end - begin)) < 0.01 and float(b["host_us"]) == 0, b
for m in said["apps"]["models"]:
    assert abs(took[m["model"]] - m["batch_took_us"]) < 1, (m, took)
    assert m["batch_host_us"] == 0, m
if long:
    learning = {m["model"]: m for m in said["learning"]["learned"]}
    assert learning["resnet50"]["error"] < 0.7 * learning["resnet50"]["error_at_first"], learning
    assert "interference" in [p["reason"] for p in said["learning"]["periods"]]
    # The first plan of the next run knows it: what is late in the first period without, is in time.
    late = [said[name]["periods"][0]["violated"] for name in ("learning", "learned")]
    assert late[1] < late[0] / 4, late
assert said["calm"]["all"]["violations"] <= 0.01 < said["full"]["all"]["violations"], said["full"]["all"]
# What no fit has seen is told of the plan at the end, and of each period's.
beyond = {name: [p["beyond_the_fit"] for p in r["periods"]] for name, r in said.items()}
for name, r in said.items():
    told = (pathlib.Path(sys.argv[1]) / (name + ".txt")).read_text()
    assert ("plans are extrapolated: " in told) == bool(beyond[name][-1]), (name, beyond[name])
    assert r["planned_interference"] or not any(beyond[name]), (name, beyond[name])
assert any("graphs" in b for b in beyond["slow_beside"]) and not any(beyond["shared"]), beyond
promises = [r for name, r in said.items() if name.startswith("promise")]
assert len(promises) == (6 if long else 0)
for r in promises:
    assert all(a["violations"] <= 0.01 for a in r["apps"]), r["apps"]
    assert r["periods"][0]["factor"] >= 1.19 and r["interference"] and r["planned_interference"], r["periods"][0]
assert said["turns"]["all"]["violations"] == 1 and said["turns"]["periods"][0]["on_shared_sms"] == 0
for r in (said["shared"], said["shared_error"]):
    assert r["all"]["violations"] <= 0.01 and r["share_sms"], r["all"]
    assert r["periods"][0]["on_shared_sms"] == 2 and r["periods"][0]["gpu_sms"] == [132], r["periods"][0]
# Each model's stream on all SMs: LeNet does not wait for VGG-16, and both are slowed.
streams, one_by_one = (said[name]["models"] for name in ("streams", "one_by_one"))
assert streams[0]["latency_us"]["p50"] < one_by_one[0]["latency_us"]["p99"] / 2, (streams, one_by_one)
assert said["streams"]["all"]["violations"] < said["one_by_one"]["all"]["violations"] / 2, streams
assert said["streams"]["periods"][0]["on_shared_sms"] == 2, said["streams"]["periods"][0]
short, longer = (said[name]["models"][0]["latency_us"]["p99"] for name in ("shared", "shared_error"))
assert 20 < short < longer < 400, (short, longer)
assert said["none"]["all"]["violations"] == 1 and said["none"]["periods"][0]["no_plan"]
for low, before in zip(said["low"]["models"], said["low_before"]["models"]):
    assert low["latency_us"]["p99"] < 0.5 * before["latency_us"]["p99"], (low, before)
assert said["low"]["all"]["violations"] == 0 and sum(said["low"]["periods"][0]["gpu_sms"]) == said["low"]["periods"][0]["sms"]
stalls = said["stalls"]
assert min(stalls["stalled"], 1000) == len(stalls["stalls"]) > 0, stalls["stalled"]
assert all(s["model"] == "vgg16" and s["took_us"] > s["expected_us"] + 5000 and s["queued_us"] == 0 for s in stalls["stalls"])
slow = said["slow"]["periods"]
assert slow[0]["violated"] > 0.02 * slow[0]["ended"] and slow[0]["corrections"] == {}, slow[0]
assert all(p["violated"] <= 0.01 * p["ended"] for p in slow[2:]), slow
assert slow[1]["reason"] == "times" and slow[1]["sms"] > slow[0]["sms"] and said["slow"]["switches"] == 1, slow
assert all(abs(c - 1.6) < 1e-3 for p in slow[1:] for c in p["corrections"].values()), slow
beside = said["slow_beside"]["periods"]
assert beside[1]["reason"] == "times" and beside[1]["sms"] >= beside[0]["sms"], beside
assert all(p["violated"] <= 0.01 * p["ended"] for p in beside[2:]), beside
assert all(1.2 < c < 1.7 for c in beside[1]["corrections"].values()), beside
assert said["slow_unlearned"]["periods"][1]["violated"] > 0.02 * said["slow_unlearned"]["periods"][1]["ended"]
assert said["slow_one"]["periods"][-1]["corrections"].keys() == {"vgg16"}, said["slow_one"]["periods"][-1]
game, traffic = said["apps"]["apps"]
assert game["name"] == "game" and game["violations"] < 0.02 and traffic["violations"] < 0.02
hasty = said["hasty"]
assert hasty["apps"][0]["slo_us"] == 5000 and hasty["all"]["violations"] <= 0.01
assert {m["slo_us"] for m in hasty["models"]} == {5000}, hasty["models"]
models = {m["model"]: m["arrived"] for m in said["apps"]["models"]}
assert models["lenet"] == 6 * game["arrived"] and models["resnet50"] == game["arrived"]
assert models["ssdlite_mobilenet"] == traffic["arrived"] >= models["vgg16"]
by_time = {p["begin_s"]: p for p in said["jump"]["periods"]}
assert by_time[35]["sms"] > 2 * by_time[15]["sms"] and by_time[55]["sms"] < by_time[35]["sms"]
assert by_time[30]["violated"] <= 0.01 * by_time[30]["ended"]
assert said["jump"]["switches"] >= 2
assert by_time[55]["violated"] <= 0.01 * by_time[55]["ended"]
if long:
    flood = {p["begin_s"]: p for p in said["flood"]["periods"]}
    assert flood[30]["factor"] < 0.2 and flood[55]["factor"] >= 1
PY

"$bin" --help | grep -q 'A violation is a request that was late or dropped' || failed=1
"$bin" --rates vgg16=10 --gpus 0 --seconds 2 | grep -q "at 0.0 s: no plan for these rates, all is dropped" || failed=1
refuses "nor --app or --rate-trace" --gpus 1
refuses "no rows of 'vgg61'" --rates vgg61=1
refuses "--share-sms: without predicted interference" --rates vgg16=1 --share-sms --interference none
refuses "--share-sms: 'sbp' uses whole GPUs" --rates vgg16=1 --share-sms --planner sbp
refuses "--shared-error: given without --share-sms" --rates vgg16=1 --shared-error 1.2
refuses "vgg16 has rates twice" --rates vgg16=1 --rate-trace <(printf 'time_s,model,rate\n0,vgg16,1\n')
refuses "no rows of 'vgg61'" --rate-trace <(printf 'time_s,model,rate\n0,vgg61,1\n')
printf 'time_s,model,rate\n5,vgg16,1\n5,vgg16,2\n' > "$work/back.csv"
refuses "back.csv:3: time 5" --rate-trace "$work/back.csv"
printf 'time_s,model,rate\n5,vgg16,-1\n' > "$work/negative.csv"
refuses "negative.csv:2: '-1'" --rate-trace "$work/negative.csv"
refuses "vgg16: SLO of 1 us" --rates vgg16=1 --slo vgg16=0.001
refuses "lenet: SLO of 50 us, expected at least 66.12, of which lenet has twice its fastest latency" --rates lenet=1 --slo lenet=0.05
"$bin" --rates lenet=1 --slo lenet=0.05 --planner whole --seconds 1 > /dev/null ||
  { echo "a GPU without partitions needs no second batch"; failed=1; }
refuses "SLO of 30 us, expected at least 33.06, of which lenet has its fastest latency, 33.06 us" --rates lenet=1 --slo lenet=0.03 --planner whole
refuses "googlenet_b1.json: measured on NVIDIA H100 80GB HBM3, not NVIDIA H200 as --table" --rates vgg16=1 --share-sms \
  --profiles "$data/measured/h100/profiles"
refuses "--group: 200 SMs, of a GPU of 132" --rates vgg16=1 --group 200
refuses "--sms: 4 SMs, without measurements of vgg16, expected 8 or more" --rates vgg16=1 --sms 4 --group 4
refuses "resnet18: no solo metrics, expected rows of it in --solo, or none" --rates resnet18=1
printf 'model,batch,sms,latency_us\na,1,8,10\na,2,16,10\n' > "$work/hole.csv"
refuses "a, batch 1 on 16 SMs: no row" --rates a=1 --table "$work/hole.csv"
printf 'model,batch,sms,latency_us\na,1,8,-10\n' > "$work/minus.csv"
refuses "minus.csv:2: '-10', expected microseconds above 0" --rates a=1 --table "$work/minus.csv"
printf 'model,batch,sms,latency_us\na,1,8,10\na,1,16,20\n' > "$work/doubtful.csv"
"$bin" --rates a=1 --table "$work/doubtful.csv" --interference none --seconds 1 2>&1 > /dev/null |
  grep -q 'a: batch 1 on 8 SMs is 100% faster' || { echo "a doubtful table passed in silence"; failed=1; }
# Between all of the headroom and none of it, it is told how much there is.
"$bin" --rates vgg16=3200 --gpus 1 --seconds 1 | grep -qE 'at 0.0 s: room for 1.[01][0-9]* times these rates, not for 1.2' ||
  { echo "a headroom that is cut is not told"; failed=1; }
refuses "--planner: 'priorities' on simulated GPUs, expected --device cuda" --rates vgg16=1 --planner priorities
refuses "--profiles: no profile of vgg16" --rates vgg16=1 --planner streams --profiles "$data/profiles/lenet_b1.json"
refuses "--headroom: given beside --planner priorities" --rates vgg16=1 --planner priorities --headroom 2
refuses "--true-slowdown: '0'" --rates vgg16=1 --true-slowdown 0
refuses "--true-slowdown: 'vgg61=2', expected a number, or MODEL=X" --rates vgg16=1 --true-slowdown vgg61=2
refuses "--true-slowdown: '1.5', expected a number, or MODEL=X" --rates vgg16=1 --true-slowdown vgg16=2,1.5
refuses "--allowed: '2' is out of range" --rates vgg16=1 --allowed 2
refuses "--fixed-times: given beside --once" --rates vgg16=1 --once --fixed-times
refuses "--fall: '2' is out of range" --rates vgg16=1 --fall 2
refuses "unknown planner 'none'" --rates vgg16=1 --planner none
refuses "--rate-error" --rates vgg16=1 --rate-error 1.5
refuses "--rate-error" --rates vgg16=1 --rate-error fixed:-1
refuses "--headroom" --rates vgg16=1 --headroom 0
refuses "--period" --rates vgg16=1 --period 0
refuses "--seconds" --rates vgg16=1 --seconds -1
refuses "--seconds: 1e+09 requests in all, expected at most 1e+08: lower rates or a shorter time" --rates lenet=1e9 --seconds 1
refuses "--start: unknown value 'soon', expected due or at_once" --rates vgg16=1 --start soon
refuses "nowhere" --rates vgg16=1 --interference nowhere
refuses "nowhere" --app nowhere=1
refuses "--app: 'game' without a rate, expected NAME=RATE" --app game
refuses "--rate-trace: game has rates twice" --app game=1 --rate-trace <(printf 'time_s,model,rate\n0,game,1\n')
refuses "game: SLO of 10 us, expected at least" --app game=1 --slo game=0.01
printf '{"gsched_app":1,"name":"a","stages":[{"name":"s","model":"vgg61"}]}' > "$work/a.json"
refuses "/stages/0/model is \"vgg61\"" --app "$work/a.json=1"
printf '{"gsched_app":1,"name":"a","stages":[{"name":"s","model":"vgg16","after":["t"]}]}' > "$work/a.json"
refuses "/stages/0/after" --app "$work/a.json=1"
printf '{"gsched_app":1,"name":"a","stages":[]}' > "$work/a.json"
refuses "/stages has 0 elements" --app "$work/a.json=1"
printf '{"gsched_app":1,"name":"a","stages":[{"name":"s","model":"vgg16","request":2}]}' > "$work/a.json"
refuses '/stages/0 has the unknown key "request"' --app "$work/a.json=1"
printf '{"gsched_app":1,"name":"a","stages":[3]}' > "$work/a.json"
refuses "/stages/0" --app "$work/a.json=1"
printf 'model,batch,solo_us,l2_pct,dram_pct,sm_active_pct\nlenet,1,30,1,1,1\n' > "$work/solo.csv"
refuses "vgg16: no solo metrics" --rates vgg16=1 --interference h200 --solo "$work/solo.csv"

# Measurements of two GPUs.
mkdir "$work/mine"
cp "$data/latency_batch_partition.csv" "$work/mine/table.csv"
echo '{"gpu": "NVIDIA_S", "compute_capability": "9.0", "sms": 64, "sm_groups": [16, 16, 32]}' > "$work/mine/machine.json"
refuses "solo_metrics.csv: measured on NVIDIA H200, not NVIDIA_S as --table $work/mine/table.csv" \
  --rates vgg16=1 --table "$work/mine/table.csv"
refuses "--plan-interference" --rates vgg16=1 --table "$work/mine/table.csv" --solo "$work/mine/solo.csv" \
  --plan-interference h201
serves --rates vgg16=10 --seconds 1 --table "$work/mine/table.csv" --interference none --json "$work/mine.json"
mkdir -p "$work/alone/here"
cp "$data/latency_batch_partition.csv" "$work/alone/here/table.csv"
alone=(--rates vgg16=10 --seconds 1 --table "$work/alone/here/table.csv")
run "${alone[@]}"
[ "$rc" -eq 0 ] && [ "$(cat err)" = "serve_partitions: $work/alone/here/table.csv: no machine.json beside it, so 132 SMs in \
groups of 8 are assumed, as of an H200; --sms and --group state others" ] ||
  { echo "it is not told what GPU is assumed"; cat err; failed=1; }
serves "${alone[@]}" --sms 132 --group 8
serves "${alone[@]}" --sms 132 --planner whole
expect "sizes that are not those of machine.json" grep -q '"sms": 64' "$work/mine.json"

# The same on a busy host, as far as a simulated GPU can show it.
"$(dirname "${BASH_SOURCE[0]}")/../../bench/busy_host.py" --serve "$bin" --device sim --seconds 2 --loops 1 --json "$work/busy.json" > "$work/busy.txt" || failed=1
expect "a row of each run" test "$(grep -c 'host: 0.00% late or dropped' "$work/busy.txt")" = 2
expect "rows in the file" grep -q '"busy": true' "$work/busy.json"

expect "something above has failed" test "$failed" = 0
finish
