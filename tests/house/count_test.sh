#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev counts test cases, and those that need a GPU where there is none as skipped and not as passed.
set -u
cd "${GSCHED_SOURCE_DIR:?}" || exit 1
report=$(mktemp)
trap 'rm -f "$report"' EXIT
failed=0

counts() { # counts EXPECTED STATUS: what it says of the report, which comes on stdin
  local said rc
  cat >"$report"
  said=$(./dev count "$report")
  rc=$?
  [ "$said" = "$1" ] && [ $rc -eq "$2" ] && return
  echo "FAILED: '$said', status $rc, expected '$1', status $2"
  failed=1
}

counts "231 passed, 0 failed, 2 skipped" 0 <<'XML'
  <testcase name="gsched.test.cuda" classname="gsched.test.cuda" time="1" status="run">
tests/cuda/capture_test.cu:42: MESSAGE: no GPU here: passed over
tests/cuda/capture_test.cu:63: MESSAGE: no GPU here: passed over
[doctest] test cases:    233 |    233 passed | 0 failed | 16 skipped
  </testcase>
XML
counts "1 passed, 0 failed, 2 skipped" 0 <<'XML'
  <testcase name="a" status="run">
all is well
  <testcase name="b" status="run">
no CUDA compiler: not built, not tested
  <testcase name="c" status="run">
no GPU here: passed over
XML
counts "4 passed, 2 failed, 0 skipped" 1 <<'XML'
  <testcase name="a" status="fail">
[doctest] test cases:    5 |    4 passed | 1 failed | 0 skipped
  <testcase name="b" status="fail">
XML

# Of the cases that a machine without a GPU skips, each says so.
silent=$(grep -rn -A1 --include='*_test.c*' 'TEST_CASE' tests/cuda | grep -B1 'gpus_here() == 0) return' |
  grep 'TEST_CASE' | grep -v 'doctest::skip')
[ -z "$silent" ] || { echo "FAILED: cases that return without a word: $silent"; failed=1; }
[ $failed -eq 0 ] && echo "counts as it should"
exit $failed
