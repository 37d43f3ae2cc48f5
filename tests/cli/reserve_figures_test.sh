#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench/figures/reserve_figures: a small run writes its results, what it misses is shown, and its usage.
. "${GSCHED_SOURCE_DIR:?}/tests/cli/script_checks.sh"
export PYTHONDONTWRITEBYTECODE=1

small=(--bin "$bin" --seconds 1 --workloads long_attention,long_r3d18 --sizes 16,32)
check "a small run" python3 "$bench/figures/reserve_figures" "${small[@]}" --json small.json
check "what it wrote" python3 - <<'PY'
import json
said = json.load(open("small.json"))
rows = said["rows"]
assert said["ways"] == ["off", "0", "16", "32", "learned"]
assert len(rows) == 10 and not any("error" in r for r in rows), rows
at = {(r["workload"], r["way"]): r for r in rows}
for w in ("long_attention", "long_r3d18"):
    assert at[w, "0"]["mean"] < at[w, "off"]["mean"] and at[w, "0"]["be_share"] > at[w, "32"]["be_share"]
    assert at[w, "0"]["segments"] == at[w, "off"]["segments"] == 0 < at[w, "16"]["segments"]
    assert at[w, "16"]["sms"] == 16 and at[w, "learned"]["sms"] in (0, 16, 32)
assert at["long_attention", "32"]["mean"] < at["long_attention", "0"]["mean"]
assert any("it ran" in c["what"] and c["met"] for c in said["checks"])
for r in rows:  # a run that loses requests, and one whose front has no good point
    r["lost"] = 2
    if r["workload"] == "long_r3d18":
        r["p99"] = 3
json.dump(said, open("worse.json", "w"))
PY
check "the same again" python3 "$bench/figures/reserve_figures" --from small.json
mv out told
check "its table" grep -q '^  learned  *[0-9.]* ' told
checks=$((checks + 1))
python3 "$bench/figures/reserve_figures" --from worse.json --strict >out 2>err
if [[ $? -ne 1 ]] || ! grep -q 'MISSED  nothing is lost: 0 of 2' out || ! grep -q 'sim:h200 long_r3d18: no way has it' out; then
  failed=$((failed + 1))
  echo "FAILED: worse results pass"
fi
if command -v gnuplot >/dev/null; then
  check "a plot" python3 "$bench/figures/reserve_figures" --from small.json --plot front.svg
  check "a plot's file" grep -q '</svg>' front.svg
else
  refuses 2 "no gnuplot" figures/reserve_figures --from small.json --plot front.svg
fi
check "repeats, in the other order" python3 "$bench/figures/reserve_figures" --bin "$bin" --seconds 0.1 --workloads long_r3d18 \
  --sizes 16 --repeat 2 --json repeats.json
check "their order" python3 - <<'PY'
import json
ways = [r["way"] for r in json.load(open("repeats.json"))["rows"]]
assert ways[:4] == ["off", "0", "16", "learned"] == ways[4:][::-1], ways
PY
check "a run that fails" python3 "$bench/figures/reserve_figures" "${small[@]}" --device none.json
mv out failing
check "is shown to fail" grep -q 'MISSED  it ran: 0 of 2' failing
refuses 1 "not found" figures/reserve_figures "${small[@]}" --bin nowhere
refuses 2 "numbers of SMs" figures/reserve_figures --sizes 8,x
refuses 2 "1 or more" figures/reserve_figures --repeat 0
refuses 2 "--help lists" figures/reserve_figures --frobnicate
echo '{"rows": 1}' >broken.json
refuses 2 "broken.json" figures/reserve_figures --from broken.json

printf '%d checks, %d failures\n' "$checks" "$failed"
[[ $failed -eq 0 ]]
