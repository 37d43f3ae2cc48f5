#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the README shows is what the programs print: its example, that one's output, the demo's table.
set -euo pipefail
readme=$GSCHED_SOURCE_DIR/README.md

same() { # same WHAT: the two files handed over as descriptors 3 and 4
  diff -u --label README.md --label "$1" /dev/fd/3 /dev/fd/4 || { echo "README.md: $1 differs"; exit 1; }
  echo "README.md: $1 is as shown"
}

block() { # block TEXT [FILE]: the fenced block that holds TEXT
  awk -v text="$1" '/^```/ { if (open) { if (hit) { printf "%s", body; exit } open = 0 } else { open = 1; body = ""; hit = 0 } next }
                    open { body = body $0 "\n"; if (index($0, text)) hit = 1 }' "${2:-$readme}"
}

same examples/two_tenants.cpp 3< <(block '#include <gsched/gsched.hpp>') \
  4< <(tail -n +2 "$GSCHED_SOURCE_DIR/examples/two_tenants.cpp")
same 'output of two_tenants' 3< <(block ' us: infer') 4< <("$GSCHED_BIN_DIR/two_tenants")
same 'table of ./dev demo' 3< <(block 'sim:h200: 2000 requests') \
  4< <("$GSCHED_BIN_DIR/serve_mix" | sed 's/ *$//' | sed '/^$/q' | sed '/^$/d')
same examples/embedded_server.cpp 3< <(block 'int main' "$GSCHED_SOURCE_DIR/docs/guide/server.md") \
  4< <(tail -n +4 "$GSCHED_SOURCE_DIR/examples/embedded_server.cpp")
"$GSCHED_BIN_DIR/embedded_server" >"${TMPDIR:-/tmp}/embedded_server.$$"
trap 'rm -f "${TMPDIR:-/tmp}/embedded_server.$$"' EXIT
grep -qxE '21 requests, 2[01] finished' "${TMPDIR:-/tmp}/embedded_server.$$" &&
  [ "$(grep -cE '^infer finished after [0-9.]+ ms$' "${TMPDIR:-/tmp}/embedded_server.$$")" = 20 ] ||
  { echo "embedded_server: 20 requests of 4 threads have not finished"; exit 1; }
echo "embedded_server: 20 requests of 4 threads have finished"
"$GSCHED_BIN_DIR/plan_server" >"${TMPDIR:-/tmp}/embedded_server.$$"
grep -qxE '48 requests answered in [0-9]+ batches on [1-4] partitions' \
  "${TMPDIR:-/tmp}/embedded_server.$$" && [ "$(wc -l <"${TMPDIR:-/tmp}/embedded_server.$$")" = 1 ] ||
  { echo "plan_server: 48 requests of 3 threads have not the right answers"; exit 1; }
echo "plan_server: 48 requests of 3 threads have the right answers"
