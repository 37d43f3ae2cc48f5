#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# two_gpu_tenants: help, usage errors, and one line where there is no GPU; with one, a short run.
set -u
program=${GSCHED_BIN_DIR:?}/two_gpu_tenants
if [[ ! -x $program ]]; then
  echo "no CUDA compiler: not built, not tested"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0

fail() {
  failed=$((failed + 1))
  printf 'FAILED: %s\n' "$1"
  sed 's/^/  /' stdout stderr | head -n 12
}

run() {
  timeout 120 "$program" "$@" >stdout 2>stderr </dev/null
  rc=$?
}

# refuses STATUS TEXT ARGUMENT...: exit status, nothing on stdout, one line on stderr with TEXT.
refuses() {
  local status=$1 text=$2
  shift 2
  run "$@"
  if [[ $rc -ne $status || -s stdout || $(wc -l <stderr) -ne 1 ]] ||
    ! grep -q '^two_gpu_tenants: ' stderr || ! grep -qF -- "$text" stderr; then
    fail "two_gpu_tenants $*: status $rc, expected $status and one line with '$text'"
  fi
}

run --help
[[ $rc -eq 0 && ! -s stderr ]] || fail "--help: status $rc"
refuses 2 '--keys' --keys x
refuses 2 '--requests' --requests 0
refuses 2 '--gap-us' --gap-us -1
refuses 2 '--in-flight' --in-flight 65
refuses 2 'no-such' --no-such
refuses 2 "'no/out.json' cannot be written" --json no/out.json

run --requests 200 --keys 65536 --samples 65536 --limit-s 60 --json out.json
if [[ $rc -eq 0 ]]; then
  python3 - out.json <<'PY' || fail "out.json"
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
assert [(r["tenant"], r["mode"]) for r in rows] == [
    (t, m) for t in ("filter", "sorter") for m in ("unscheduled", "scheduled")], rows
assert all(r["jobs"] > 0 and r["wrong"] == 0 for r in rows), rows
PY
else
  refuses 1 'expected' --requests 200
  grep -qE 'driver|GPU' stderr || fail "no GPU: not said"
fi
exit $((failed > 0))
