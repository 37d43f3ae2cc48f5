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
few 1 --planners nobody
expect "one line of it" test "$(wc -l <err)" -eq 1
few 2 --from few.json
# What is worse is told, and by the status.
sed 's/("best+int", "ideal+int", 3)/("sbp", "ideal+int", 3)/' "$figures" >worse
PYTHONPATH=$GSCHED_SOURCE_DIR/bench/figures python3 worse --bin "$GSCHED_BIN_DIR" --levels 0,600 --scales 15 --planners sbp,ideal+int --strict >out 2>err
rc=$?
expect "a target that is missed" test "$rc" -eq 1
expect "... and told" grep -q '^MISSED *sbp loses' out
finish
