# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of scripts in bench/.

set -u
bench=${GSCHED_SOURCE_DIR:?}/bench
bin=${GSCHED_BIN_DIR:?}
preset=$GSCHED_SOURCE_DIR/tools/data/presets/h200.json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
checks=0 failed=0

check() { # check WHAT COMMAND...
  local what=$1
  shift
  checks=$((checks + 1))
  "$@" >out 2>err || {
    failed=$((failed + 1))
    printf 'FAILED: %s\n' "$what"
    tail -n 5 out err
  }
}

refuses() { # refuses STATUS TEXT SCRIPT ARGUMENT...: one line on stderr
  local status=$1 text=$2 script=$3 rc said
  shift 3
  checks=$((checks + 1))
  python3 "$bench/$script" "$@" >out 2>err
  rc=$?
  IFS= read -rd '' said <err
  if [[ $rc -ne $status || $said != *$'\n' || ${said%$'\n'} == *$'\n'* || $said != *"$text"* ]]; then
    failed=$((failed + 1))
    echo "FAILED: $script $*: status $rc, expected $status and one line with '$text'"
    cat err
  fi
}
