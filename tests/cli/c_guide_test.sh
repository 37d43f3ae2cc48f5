#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The C of docs/guide/c.md compiles against the headers, each fenced block as a function's body.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/guide.c" <<'C'
#include <gsched/gsched_c.h>
#include <gsched/gsched_measure.h>
#include <stdlib.h>
void* capture(uint32_t batch); /* what the guide leaves out */
extern const gsched_plan_graph graphs[16];
extern const float x[1024];
extern float y[1024];
C
awk '/^```c$/ { printf "void block%d(void);\nvoid block%d(void) {\n#line %d\n", ++n, n, NR + 1; open = 1; next }
     /^```/ && open { print "}"; open = 0 }
     open' "$GSCHED_SOURCE_DIR/docs/guide/c.md" >>"$work/guide.c"
blocks=$(grep -c '^void block[0-9]*(void);' "$work/guide.c")
[ "$blocks" -ge 2 ] || { echo "c.md: $blocks blocks of C, expected 2 or more"; exit 1; }
${CC:-cc} -std=c11 -pedantic -Wall -Wextra -Werror -fsyntax-only -I "$GSCHED_SOURCE_DIR/cuda/c/include" \
  -I "$GSCHED_SOURCE_DIR/tools/cuda/measure/library/include" "$work/guide.c"
echo "$blocks blocks compile"
