# SPDX-License-Identifier: Apache-2.0
# bench/figures/scenario_figures on few scenarios: what it counts, what it misses, and its usage.
program=plan
. "${GSCHED_SOURCE_DIR:?}/tests/cli/expect.sh"
figures=$GSCHED_SOURCE_DIR/bench/figures/scenario_figures
export PYTHONDONTWRITEBYTECODE=1

few() { # few STATUS ARGS...
  local want=$1
  shift
  checks=$((checks + 1))
  python3 "$figures" --bin "$GSCHED_BIN_DIR" --levels 0,600 --scales 15 "$@" >out 2>err
  rc=$?
  [ $rc -eq "$want" ] || fail "expected $want, got $rc: scenario_figures $*"
}
few 0 --strict --planners sbp,elastic+int,best+int,ideal+int --json few.json
expect "31 scenarios of each" test "$(grep -c '"scenarios": 31' few.json)" -eq 4
expect "a target that is met" grep -q '^met *best+int loses at most 3 to ideal+int: 0 at scale 15' out
# The status of each scenario says what the totals count.
expect "each scenario's status" python3 - <<'PY'
import json
[scale] = json.load(open("few.json"))["scales"]
for t in scale["totals"]:
    status = scale["status"][t["planner"]]
    assert len(status) == 31 and set(status) <= set("piln-"), status
    assert (status.count("p"), status.count("i")) == (t["schedulable"], t["impossible"]), t
assert "-" not in scale["status"]["ideal+int"] and "-" in scale["status"]["sbp"], scale["status"]
PY
few 0 --planners gpulet,gpulet_cuts,ideal
expect "gpulet's losses to its own ideal" grep -qE '^(met|MISSED) *gpulet loses at most 18 to gpulet_cuts: ' out
few 1 --planners nobody
expect "one line of it" test "$(wc -l <err)" -eq 1
few 2 --from few.json
# What is worse is told, and by the status.
sed 's/("best+int", "ideal+int", 3)/("sbp", "ideal+int", 3)/' "$figures" >worse
PYTHONPATH=$GSCHED_SOURCE_DIR/bench/figures python3 worse --bin "$GSCHED_BIN_DIR" --levels 0,600 --scales 15 --planners sbp,ideal+int --strict >out 2>err
rc=$?
expect "a target that is missed" test "$rc" -eq 1
expect "... and told, with by how much" grep -qE '^MISSED *sbp loses at most 3 to ideal.int: [0-9]+ at scale 15, [0-9]+ too many' out
finish
