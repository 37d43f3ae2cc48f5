#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# calibrate: help, usage errors, and one line where there is no GPU to measure.
set -u
program=${GSCHED_BIN_DIR:?}/calibrate
if [[ ! -x $program ]]; then
  echo "no CUDA compiler: not built, not tested"
  exit 0
fi
preset=${GSCHED_SOURCE_DIR:?}/tools/data/presets/h200.json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
checks=0 failed=0

fail() {
  failed=$((failed + 1))
  printf 'FAILED: %s\n' "$1"
  sed 's/^/  /' stdout stderr | head -n 12
}

run() {
  checks=$((checks + 1))
  timeout 120 "$program" "$@" >stdout 2>stderr </dev/null
  rc=$?
}

# refuses STATUS TEXT ARGUMENT...: exit status, nothing on stdout, one line on stderr with TEXT.
refuses() {
  local status=$1 text=$2
  shift 2
  run "$@"
  if [[ $rc -ne $status || -s stdout || $(wc -l <stderr) -ne 1 ]] || ! grep -q '^calibrate: ' stderr ||
    ! grep -qF -- "$text" stderr || { [[ $status -eq 2 ]] && ! grep -qF ', expected ' stderr; }; then
    fail "calibrate $*: status $rc, expected $status and one line with '$text'"
  fi
}

run --help
[[ $rc -eq 0 && ! -s stderr ]] || fail "--help: status $rc"
for word in --device --out --json --check --compare --seconds --quick --date gates preemptible Examples 'Exit code'; do
  checks=$((checks + 1))
  grep -qF -- "$word" stdout || fail "--help lacks $word"
done

refuses 2 --frobnicate --frobnicate
refuses 2 stray stray
refuses 2 --device --device cuda:x
refuses 2 --device --device cuda:-1
refuses 2 --seconds --seconds 0
refuses 2 --seconds --seconds nan
refuses 2 none/p.json --out none/p.json
refuses 2 none/p.json --json none/p.json

# On the simulator it finds what the preset says: a preset that differs from the library's own.
python3 - "$preset" <<'PY'
import json, sys
p = json.load(open(sys.argv[1]))
p["host"].update(graph_us=3.1, graph_operation_us=0.3, start_us=2.4, start_operation_us=0.12,
                 segment_notice_us=4.4, block_notice_us=1.3)
p["gaps"].update(launches_us=1.7, segments_us=5.2)
p["yields"].update(gate_every=3, gate_us=0.4, hold_us=0.2, held_us=2.9, going_on_us=3.1, flag_us=1.3,
                   flagged_us=4.4, passing_us=1.9)
json.dump(p, open("other.json", "w"))
PY
run --device other.json --out found.json --json rows.json --name sim:found --date 2026-01-02
[[ $rc -eq 0 && ! -s stderr ]] || fail "--device other.json: status $rc"
checks=$((checks + 1))
python3 - <<'PY' >stdout 2>stderr || fail "--device other.json found something else"
import json
asked, found = json.load(open("other.json")), json.load(open("found.json"))
for group in ("host", "gaps", "yields"):
    for field, value in asked[group].items():
        kept = f"/{group}/{field}" in found["measured"]["kept"]
        assert kept or abs(found[group][field] - value) < 0.002, (field, found[group][field], value)
for field in ("host/graph_us", "host/start_us", "yields/held_us", "yields/flagged_us", "yields/passing_us"):
    assert f"/{field}" not in found["measured"]["kept"], field
assert found["name"] == "sim:found" and found["measured"]["date"] == "2026-01-02"
rows = json.load(open("rows.json"))["rows"]
assert {"/host/start_us", "/gaps/segments_us", "/yields/gate_us", "/yields/going_on_us"} <= {r["preset_field"] for r in rows}
PY
refuses 2 none.json --device none.json
refuses 2 none.json --check none.json
refuses 2 "given beside --check" --check "$preset" --out p.json
refuses 2 "given with a simulated --device" --device "$preset" --quick

# Without a GPU, or with none visible, each way of running says so and writes nothing.
export CUDA_VISIBLE_DEVICES=-1
for arguments in '' --quick "--out p.json --json t.json" --count-queues "--check $preset"; do
  # shellcheck disable=SC2086
  refuses 1 "CUDA" $arguments
done
checks=$((checks + 1))
[[ ! -e p.json && ! -e t.json ]] || fail "a file was written without a GPU"

printf '%d checks, %d failures\n' "$checks" "$failed"
[[ $failed -eq 0 ]]
