#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The figures in docs/figures can be drawn again from the results in bench/results, all in one style, with no
# text outside of the picture or on other text; the table of colours and names is one that both languages read.
. "${GSCHED_SOURCE_DIR:?}/tests/cli/script_checks.sh"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$bench/figures

check "the table of styles" python3 - "$GSCHED_SOURCE_DIR/tools/common/plot_styles.def" <<'PY'
import sys
import plotting
lines = [l for l in open(sys.argv[1], encoding="utf-8") if l.startswith("PLOT_")]
assert len(lines) == len(plotting.STYLES) + len(plotting.TONES) > 40, "a line that Python does not read"
looks = [(s.colour, s.point) for s in plotting.STYLES.values()]
for key in ("fifo", "rr", "sjf", "srpt", "edf", "deficit", "srpt+deficit", "boost", "direct", "single", "torch-direct"):
    own = plotting.style(key)
    assert sum(s.colour == own.colour for k, s in plotting.STYLES.items() if k in (
        "fifo", "rr", "sjf", "srpt", "edf", "deficit", "srpt+deficit", "boost", "direct", "single")) <= 1, key
assert plotting.style("boost:0.2").name == "boost:0.2" and plotting.style("boost:0.2").colour == plotting.style("boost").colour
try:
    plotting.style("unheard-of")
    raise AssertionError("a style for a key that is not in the table")
except KeyError:
    pass
PY

cat >texts.py <<'PY'
"""Fails where a text of a picture is not inside, or covers another one."""
import re
import sys
import plotting

def boxes(svg):
    for x, y, turn, size, anchor, text in re.findall(
            r'<g transform="translate\(([-\d.]+),([-\d.]+)\)(?: rotate\(([-\d.]+)\))?"[^>]*font-size="([\d.]+)"\s*'
            r'text-anchor="(\w+)">\s*<text>(.*?)</text>', svg, re.S):
        text = text.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">").strip()
        if not text:
            continue
        x, y, size = float(x), float(y), float(size)
        width = 0.93 * plotting.text_width(text, size)
        left = x - {"start": 0, "middle": 0.5, "end": 1}[anchor] * width
        box = (left, y - 0.75 * size, left + width, y)
        if turn == "270":
            box = (x - 0.75 * size, y - width / 2, x, y + width / 2)
        yield text, box, turn not in ("", "270")

for path in sys.argv[1:]:
    svg = open(path, encoding="utf-8").read()
    width, height = map(float, re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups())
    found = list(boxes(svg))
    assert len(found) > 8, f"{path}: {len(found)} texts"
    for i, (text, (l, t, r, b), slanted) in enumerate(found):
        if slanted:
            continue
        assert l >= -1 and t >= 0 and r <= width + 1 and b <= height, f"{path}: '{text}' is not inside: {l, t, r, b}"
        for other, (l2, t2, r2, b2), also in found[:i]:
            if not also and min(r, r2) - max(l, l2) > 2 and min(b, b2) - max(t, t2) > 2:
                raise AssertionError(f"{path}: '{text}' covers '{other}'")
PY

if command -v gnuplot >/dev/null; then
  check "the figures" "$bench/figures/redraw" --out first
  check "again" "$bench/figures/redraw" --out second paella gpu_gates
  check "there are as many as in docs, but serve_mix.svg" test "$(ls first | wc -l)" -ge "$(($(ls "$GSCHED_SOURCE_DIR/docs/figures" | wc -l) - 1))"
  for f in second/*; do check "equal data, other bytes: $f" cmp "$f" "first/${f#*/}"; done
  check "texts" python3 texts.py first/*.svg
else
  echo "no gnuplot: drawing: not tested"
fi

printf '%d checks, %d failures\n' "$checks" "$failed"
[[ $failed -eq 0 ]]
