#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The figures of the Paella paper can be redone: a small run writes results and plots and is honest
# about its input.
set -euo pipefail
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
figures=$GSCHED_SOURCE_DIR/bench/figures/paella_figures

"$figures" --quick --bin "$GSCHED_BIN_DIR" --results "$out" --figures "$out" >"$out/log"
ls "$out"/*.json >/dev/null
for n in 9 11 12 13; do
  grep -q '</svg>' "$out/paella_figure_$n.svg" || { echo "figure $n was not drawn"; exit 1; }
done
"$figures" --quick --only 9 --bin "$GSCHED_BIN_DIR" --results "$out/one" --figures "$out/one" >"$out/log"
[ "$(cd "$out/one" && echo *.svg)" = paella_figure_9.svg ] || { echo "--only drew other figures"; exit 1; }
if "$figures" --quick --only 10 2>"$out/err"; then
  echo "--only took a figure that does not exist"
  exit 1
fi
if "$figures" --quick --bin "$out/nowhere" --results "$out" --figures "$out" 2>"$out/err"; then
  echo "a missing program went unnoticed"
  exit 1
fi
[ "$(wc -l <"$out/err")" = 1 ] || { cat "$out/err"; echo "expected one line"; exit 1; }
