#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The figures of the gpu-let paper can be redone: a small run writes results, finds what one would
# expect, and is honest about what is missed.
. "${GSCHED_SOURCE_DIR:?}/tests/cli/script_checks.sh"

small=(--bin "$bin" --seconds 3 --repeat 1 --gpus 1 --wave-seconds 200 --planners best --most sbp,elastic+int,best+int)
check "figures" python3 "$bench/figures/partition_figures" "${small[@]}" --mixes long-only,game --results results
check "what they found" python3 - <<'PY'
import glob, json
[path] = glob.glob("results/partition_figures.*.json")
said = json.load(open(path))
assert [(r["mix"], r["provision"]) for r in said["rows"]] == [
    (m, p) for m in ("long-only", "game") for p in ("headroom", "just", "blind")]
most = {(r["mix"], r["planner"]): r["most"] for r in said["most"]}
assert len(most) == 6 and all(most[m, "best+int"] >= most[m, "sbp"] > 1 for m in ("long-only", "game")), most
assert abs(most["game", "best+int"] / said["rows"][4]["scale"] - 1) < 0.02, "another plan is served"
for i in (0, 3):
    headroom, just, blind = said["rows"][i:i + 3]
    assert just["scale"] > headroom["scale"] > 0 and len(just["runs"]) == 6, just
    of = lambda r: r["runs"]["up to 20% off"]["violations"]
    assert of(headroom) < of(just), (headroom, just)
assert said["rows"][0]["runs"]["as planned"]["violations"] <= 0.01
assert all(r["worst"] >= r["violations"] for row in said["rows"] for r in row["runs"].values())
assert said["waves"]["sms_most"] >= said["waves"]["sms_least"]  # idle SMs serve too
assert said["waves"]["sms_least"] >= said["waves_on_planned_sms"]["sms_least"] > 0
assert said["waves_on_planned_sms"]["sms_most"] > said["waves_on_planned_sms"]["sms_least"]
assert "course" not in said["waves_on_planned_sms"]
assert said["waves_gpulet"]["requests"] == said["waves"]["requests"]
served = {(r["mix"], r["planner"]): r for r in said["promised"]}
assert set(served) == set(most), served
for key, r in served.items():
    assert r["most"] == most[key] and len(r["ways"]) == 2, r
    for way in r["ways"].values():
        assert way["up_to"] <= way["largest"] <= r["most"] + 0.01 and way["steps"][-1][0] == 1, way
        assert way["worst"] >= way["violations"] == way["steps"][-1][1], way
said["rows"][0]["runs"]["up to 20% off"]["violations"] = 0.5
json.dump(said, open("worse.json", "w"))
PY
check "old results again" python3 "$bench/figures/partition_figures" --again "$(ls results/*.json)"
if command -v gnuplot >/dev/null; then
  check "figures of them" python3 "$bench/figures/partition_figures" --again "$(ls results/*.json)" --figures drawn
  check "a picture each" test "$(find drawn -name 'partition_*.svg' | wc -l)" -eq 3
fi
checks=$((checks + 1))
python3 "$bench/figures/partition_figures" --again worse.json --strict >out 2>err
if [[ $? -ne 1 ]] || ! grep -q 'MISSED  at most 1% violations, up to 20% off' out || ! grep -q '50.000%' out ||
  ! grep -q 'as much more than whole GPUs as the paper' out; then
  failed=$((failed + 1))
  echo "FAILED: worse results pass"
fi
check "rates again, with what was served before" python3 "$bench/figures/partition_figures" --bin "$bin" --gpus 1 \
  --mixes game --most sbp,gpulet,gpulet_cuts --served-of "$(ls results/*.json)" --results kept
check "what they kept" python3 - <<'PY'
import glob, json
before, after = (json.load(open(glob.glob(f"{d}/*.json")[0])) for d in ("results", "kept"))
assert after["rows"] == before["rows"] and after["waves"] == before["waves"]
assert after["promised"] == before["promised"]
assert after["served_of"] == before["commit"] and [r["planner"] for r in after["most"]] == ["sbp", "gpulet", "gpulet_cuts"]
PY
echo '{"rows": 3}' > broken.json
refuses 2 "broken.json" figures/partition_figures --served-of broken.json
refuses 2 "broken.json" figures/partition_figures --again broken.json
refuses 2 "'midi'" figures/partition_figures --mixes midi
refuses 1 "unknown planner 'last'" figures/partition_figures --bin "$bin" --most last
refuses 2 "'ideal'" figures/partition_figures --promised sbp,ideal
refuses 2 "1 or more" figures/partition_figures --repeat 0
refuses 1 "not found" figures/partition_figures --bin "$work" --mixes equal
refuses 1 "unknown planner 'worst'" figures/partition_figures --bin "$bin" --most "" --planners worst --mixes equal

printf '%d checks, %d failures\n' "$checks" "$failed"
[[ $failed -eq 0 ]]
