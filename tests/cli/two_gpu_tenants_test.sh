#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# two_gpu_tenants: refuses arguments, and says in one line where there is no GPU; with one, it
# prints both tenants under both policies, every result right.
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

# refused STATUS TEXT: exit status, nothing on stdout, one line on stderr with TEXT.
refused() {
  if [[ $rc -ne $1 || -s stdout || $(wc -l <stderr) -ne 1 ]] ||
    ! grep -q '^two_gpu_tenants: ' stderr || ! grep -qF -- "$2" stderr; then
    fail "two_gpu_tenants: status $rc, expected $1 and one line with '$2'"
  fi
}

run --help
refused 2 'expected none'

run
if [[ $rc -eq 0 ]]; then
  [[ $(wc -l <stdout) -eq 4 && $(grep -c ', wrong 0$' stdout) -eq 4 && ! -s stderr ]] ||
    fail "expected four rows without a wrong result"
  for row in 'fifo +filter' 'fifo +sorter' 'srpt\+deficit +filter' 'srpt\+deficit +sorter'; do
    grep -qE "^$row +[1-9][0-9]* jobs," stdout || fail "no row of $row"
  done
else
  refused 1 'expected'
  grep -qE 'driver|GPU' stderr || fail "no GPU: not said"
fi
exit $((failed > 0))
