#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# c_plan_server: refuses arguments, and says in one line where there is no GPU; with one, every request
# has its own answer. It leaves no table behind.
set -u
program=${GSCHED_BIN_DIR:?}/c_plan_server
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

# refused STATUS TEXT: exit status, nothing on stdout, one line on stderr with TEXT.
refused() {
  if [[ $rc -ne $1 || -s stdout || $(wc -l <stderr) -ne 1 ]] ||
    ! grep -q '^c_plan_server: ' stderr || ! grep -qF -- "$2" stderr; then
    fail "c_plan_server: status $rc, expected $1 and one line with '$2'"
  fi
}

run() {
  timeout 120 "$program" "$@" >stdout 2>stderr </dev/null
  rc=$?
}

run --help
refused 2 'expected none'

ls /tmp | grep '^c_plan_server' | sort >before
run
if [[ $rc -eq 0 ]]; then
  grep -qxE '64 requests answered in [0-9]+ batches on [1-4] partitions of [0-9]+ SMs, 0 numbers wrong' \
    stdout && [[ ! -s stderr ]] || fail "expected 64 answers"
else
  refused 1 'expected a GPU and its driver: '
fi
ls /tmp | grep '^c_plan_server' | sort | diff before - || fail "a table was left behind"
exit $((failed > 0))
