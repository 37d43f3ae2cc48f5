#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench/figures/gpulet_figures: a small run writes its results, the same data are drawn again, and its usage.
. "${GSCHED_SOURCE_DIR:?}/tests/cli/script_checks.sh"
export PYTHONDONTWRITEBYTECODE=1

# The programs, of which interference fits one in eight of the pairs that it is given: all of them take a minute.
mkdir bin
ln -s "$bin"/{plan,serve_partitions} bin
cat >bin/interference <<SH
#!/usr/bin/env bash
[ "\$1 \$2 \$3" = "evaluate --once --corun" ] || exit 9
awk 'NR % 8 == 1' "\$4" >"\$4.few"
exec "$bin/interference" "\${@:1:3}" "\$4.few" "\${@:5}"
SH
chmod +x bin/interference
check "a small run" python3 "$bench/figures/gpulet_figures" --bin bin --levels 0,600 --scales 15 --rates 1500 \
  --seconds 0.5 --json small.json
mv out first
check "what it wrote" python3 - <<'PY'
import json
said = json.load(open("small.json"))
assert len(said["latency"]) > 200 and all(r["us"] > 0 for r in said["latency"])
whole, halves = (r["schedulable"] for r in said["scenarios"])
assert 31 >= halves > whole > 0, said["scenarios"]
assert [r["of"] for r in said["scenarios"]] == [31, 31]
of = {(r["goal"], r["what"]): r["violations"]["lenet"] for r in said["sharing"]}
turns, at_once, parts, *_ = of.values() # of the shorter goals
assert len(of) == 6 and turns > 0.2 > at_once > 0.01 > parts, of
assert len(said["overhead"]) > 700 and 0 < sorted(said["overhead"])[350] < 0.3
assert said["errors"] and all(len(v) > 150 and 0 <= min(v) and sorted(v)[len(v) // 2] < 0.1 for v in said["errors"].values())
PY
check "the same again" python3 "$bench/figures/gpulet_figures" --from small.json
mv out again
check "the same lines" diff first again
if command -v gnuplot >/dev/null; then
  check "drawn" python3 "$bench/figures/gpulet_figures" --from small.json --figures drawn
  check "a figure each" test "$(find drawn -name 'gpulet_figure_*.svg' | wc -l)" -eq 5
  check "it says what is simulated" grep -q simulated drawn/gpulet_figure_5.svg
fi
refuses 1 "nowhere/plan" figures/gpulet_figures --only 4 --bin nowhere
refuses 2 "'7', expected some of 3,4,5,6,9" figures/gpulet_figures --only 7
refuses 2 "numbers above 0" figures/gpulet_figures --rates 0
refuses 2 "numbers between commas" figures/gpulet_figures --scales 3,x
echo '[' >broken.json
refuses 2 "broken.json" figures/gpulet_figures --from broken.json

printf '%d checks, %d failures\n' "$checks" "$failed"
[[ $failed -eq 0 ]]
