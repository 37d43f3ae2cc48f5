#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the README shows is what the programs print: its example, that one's output, the demo's table.
set -euo pipefail
readme=$GSCHED_SOURCE_DIR/README.md

same() { # same WHAT: the two files handed over as descriptors 3 and 4
  diff -u --label README.md --label "$1" /dev/fd/3 /dev/fd/4 || { echo "README.md: $1 differs"; exit 1; }
  echo "README.md: $1 is as shown"
}

block() { # block TEXT: the fenced block that holds TEXT
  awk -v text="$1" '/^```/ { if (open) { if (hit) { printf "%s", body; exit } open = 0 } else { open = 1; body = ""; hit = 0 } next }
                    open { body = body $0 "\n"; if (index($0, text)) hit = 1 }' "$readme"
}

same examples/two_tenants.cpp 3< <(block '#include <gsched/gsched.hpp>') \
  4< <(tail -n +2 "$GSCHED_SOURCE_DIR/examples/two_tenants.cpp")
same 'output of two_tenants' 3< <(block ' us: infer') 4< <("$GSCHED_BIN_DIR/two_tenants")
demo=$(sed -n 's/.*|| set -- //p' "$GSCHED_SOURCE_DIR/dev" | head -n 1)
same 'table of ./dev demo' 3< <(block 'sim:h200: 2000 requests') \
  4< <("$GSCHED_BIN_DIR/serve_mix" $demo | sed 's/ *$//' | sed '/^$/q' | sed '/^$/d')
