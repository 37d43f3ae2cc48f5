#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench/figures/boost_figures: a small run writes its results, what it misses is shown, and its usage.
. "${GSCHED_SOURCE_DIR:?}/tests/cli/script_checks.sh"
export PYTHONDONTWRITEBYTECODE=1

small=(--bin "$bin" --mixes two --arrivals poisson --loads 0.6 --seeds 1,2 --requests 300)
check "a small run" python3 "$bench/figures/boost_figures" "${small[@]}" --json small.json
mv out first
check "what it wrote" python3 - <<'PY'
import json
said = json.load(open("small.json"))
assert len(said["rows"]) == 2 and said["saturation_per_s"]["two"] > 1000
for r in said["rows"]:
    assert r["mean/srpt"] == r["mean_us"]["boost"] / r["mean_us"]["srpt"]
    assert r["p99_1"] == r["p99_us"]["boost:1"] / min(r["p99_us"]["fifo"], r["p99_us"]["direct"])
    assert 0.9 < r["mean/srpt"] < 2
    r["mean/srpt"] = 1.3
json.dump(said, open("worse.json", "w"))
PY
check "the same again" python3 "$bench/figures/boost_figures" --from small.json
mv out again
check "the same table" diff first again
check "worse results are shown" python3 "$bench/figures/boost_figures" --from worse.json
mv out told
check "a goal that is missed" grep -q 'MISSED  mean/srpt <= 1.25: 0 of 1 medians' told
refuses 1 "not found" figures/boost_figures "${small[@]}" --bin nowhere
refuses 2 "unknown" figures/boost_figures --mixes three
refuses 2 "expected fractions of saturation" figures/boost_figures --loads 0.5,x
refuses 2 "whole numbers" figures/boost_figures --seeds 1.5
refuses 2 "at least" figures/boost_figures --requests 1
refuses 2 "none.json" figures/boost_figures --from none.json
refuses 2 "--help lists" figures/boost_figures --frobnicate

printf '%d checks, %d failures\n' "$checks" "$failed"
[[ $failed -eq 0 ]]
