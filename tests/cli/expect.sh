# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of the programs: what a run of serve_mix, or $program, must do.

set -u
program=${program:-serve_mix} # who is tested
bin=${GSCHED_BIN_DIR:?}/$program
data=${GSCHED_SOURCE_DIR:?}/tools/data
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
checks=0
failures=0

fail() { # fail WHAT: says it with the last run's output
  failures=$((failures + 1))
  printf 'FAILED: %s\n' "$1"
  sed 's/^/  stdout: /' out | head -n 5
  sed 's/^/  stderr: /' err | head -n 5
}

run() { # run ARGS...: the program with a time limit; sets rc, leaves out and err
  checks=$((checks + 1))
  timeout 120 "$bin" "$@" >out 2>err </dev/null
  rc=$?
}

one_line() { # one_line TEXT: stderr is one whole line that holds TEXT and what was expected
  local said
  IFS= read -rd '' said <err
  [[ $said == "$program: "*$'\n' && ${said%$'\n'} != *$'\n'* && $said == *"$1"* && $said == *', expected '* ]]
}

refuses() { # refuses TEXT ARGS...: exit code 2, one line, no output
  local text=$1
  shift
  run "$@"
  [ "$rc" -eq 2 ] && [ ! -s out ] && one_line "$text" ||
    fail "expected 2 and one line with '$text', got $rc: $program $*"
}

serves() { # serves ARGS...: exit code 0, nothing on stderr
  run "$@"
  [ "$rc" -eq 0 ] && [ ! -s err ] || fail "expected success, got $rc: $program $*"
}

expect() { # expect WHAT COMMAND...: the command succeeds
  local what=$1
  shift
  checks=$((checks + 1))
  "$@" || fail "$what"
}

finish() {
  printf '%d checks, %d failures\n' "$checks" "$failures"
  [ "$failures" -eq 0 ] && [ "$checks" -gt 0 ]
}
