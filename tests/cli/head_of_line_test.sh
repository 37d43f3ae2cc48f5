#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# head_of_line: the figures measured on one H200, and one line for each kind of bad input.
set -u
program=$GSCHED_BIN_DIR/head_of_line
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

"$program" --json "$work/a.json" > "$work/a" && "$program" --json "$work/b.json" > "$work/b" || failed=1
cmp "$work/a" "$work/b" && cmp "$work/a.json" "$work/b.json" || failed=1
python3 - "$work/a.json" <<'PY' || failed=1
import json, sys
measured = {8: (9, 50), 32: (33, 51), 128: (33, 59)}
runs = json.load(open(sys.argv[1]))["runs"]
assert [r["queues"] for r in runs] == list(measured), runs
for r in runs:
    for name, expected in zip(("job_by_job", "interleaved"), measured[r["queues"]]):
        off = r[name] / expected - 1
        print(f"{r['queues']} queues, {name}: {r[name]:.1f}, measured {expected}, {off:+.1%}")
        assert abs(off) <= 0.25
PY

# refuses TEXT ARGUMENT...: exit status 2, one line on stderr that says TEXT.
refuses() {
  local text=$1
  shift
  "$program" "$@" > /dev/null 2> "$work/stderr"
  local got=$?
  if [[ $got -ne 2 || $(wc -l < "$work/stderr") -ne 1 ]] || ! grep -qF -- "$text" "$work/stderr"; then
    echo "head_of_line $*: status $got, expected 2 and '$text'; it said:"
    cat "$work/stderr"
    failed=1
  fi
}

refuses '--queues' --queues 0
refuses '--queues' --queues 8,x
refuses '--jobs' --jobs 0
refuses '--kernel-us' --kernel-us -1
refuses '--threads' --threads 1025
refuses 'no-such' --no-such
refuses 'cannot be written' --jobs 1 --json "$work/no/out.json"

exit $failed
