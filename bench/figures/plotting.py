# SPDX-License-Identifier: Apache-2.0
"""Draws every figure with gnuplot: panels side by side, one legend above them, nothing clipped.

Colours and names come from tools/common/plot_styles.def, which the C++ programs use too, so that a
policy looks the same everywhere. Equal data give equal files.
"""
import argparse
import dataclasses
import json
import math
import pathlib
import re
import shutil
import subprocess

TABLE = pathlib.Path(__file__).resolve().parents[2] / "tools/common/plot_styles.def"


@dataclasses.dataclass(frozen=True)
class Style:
    """How one series looks. dash is gnuplot's: 1 solid, 2 dashed, 3 dotted."""
    name: str
    colour: str
    point: int = 7
    dash: int = 1
    width: float = 1.8


def _read_table():
    text = TABLE.read_text(encoding="utf-8")
    styles = {key: Style(name, colour, int(point)) for key, name, colour, point in re.findall(
        r'^PLOT_STYLE\("([^"]*)", "([^"]*)", "(#[0-9A-F]{6})", (\d+)\)$', text, re.M)}
    return styles, dict(re.findall(r'^PLOT_TONE\("([^"]*)", "(#[0-9A-F]{6})"\)$', text, re.M))


STYLES, TONES = _read_table()


def style(key, **changes):
    """The style of a policy, way, mode or planner. A key that is not in the table looks like the part
    before its first ":", "," or "+", with what follows in its name."""
    found = STYLES.get(key)
    if found is None:
        base = re.split("[:,+]", key, maxsplit=1)[0]
        if base not in STYLES:
            raise KeyError(f"{key}: no style, expected one in {TABLE.name}")
        found = dataclasses.replace(STYLES[base], name=STYLES[base].name + key[len(base):])
    return dataclasses.replace(found, **changes)


def tint(how, share=0.5, **changes):
    """The style with a colour between its own (0) and white (1)."""
    parts = (int(how.colour[i:i + 2], 16) for i in (1, 3, 5))
    return dataclasses.replace(how, colour="#" + "".join(f"{round(c + (255 - c) * share):02X}" for c in parts), **changes)


def series(place, name, **changes):
    """A style for a model, size or statistic, by its place in the figure."""
    point = (7, 5, 9, 13, 11, 15, 6, 4)[place % 8]
    return Style(name, TONES[f"series {place % 8}"], **{"point": point, **changes})


def _ink(how):
    """The colour. Those of dashed lines differ by a trace: gnuplot's SVG goes on with the dashes of the
    line before where the colour does not change."""
    return f"#{int(how.colour[1:], 16) ^ (how.dash - 1):06X}"


# Text ---------------------------------------------------------------------------------------------

FONT, SMALL, LARGE = 12, 11, 14  # pixels


def text_width(text, size=FONT):
    """Pixels of the longest line in Helvetica or Arial, with a little to spare."""
    def of(c):
        return (0.28 if c in "iljtfr.,:;'|!()[] -" else 0.86 if c in "mwMW@%µσ" else
                0.72 if c.isupper() or c in "+=<>_" else 0.56)
    return 1.05 * size * max(sum(map(of, line)) for line in text.split("\n"))


def quoted(text):
    """A string of gnuplot."""
    return "'" + text.replace("'", "''").replace("\n", "'.\"\\n\".'") + "'"


def in_data(text):
    """A string in a data block."""
    return '"' + text.replace('"', "'") + '"'


def number(value):
    """Three significant digits, in full up to a million."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


# Panels -------------------------------------------------------------------------------------------

class Panel:
    """One diagram. Ranges that are not given hold all data, from zero unless an axis is logarithmic.

    log: the logarithmic axes, "", "x", "y" or "xy". ticks: [(position, text)] for an axis.
    notes: a legend of its own, below it, for series that other panels do not have.
    """

    def __init__(self, title="", x="", y="", log="", x_range=None, y_range=None, x_ticks=None,
                 y_ticks=None, own_legend=False):
        self.title, self.x, self.y, self.log = title, x, y, log
        self.ranges = {"x": x_range, "y": y_range}
        self.ticks = {"x": x_ticks, "y": y_ticks}
        self.own_legend = own_legend
        self.turned = False  # tick labels of the x axis
        self.grid = "xy"
        self.entries = []  # (style, "line" | "point" | "bar")
        self.blocks, self.plots, self.first = [], [], []
        self.seen = {"x": [], "y": []}

    def _block(self, rows):
        name = f"$d{len(self.blocks)}"
        self.blocks.append("\n".join(" ".join(
            f"{v:.6g}" if isinstance(v, float) else str(v) for v in row) for row in rows))
        return name

    def _see(self, xs=(), ys=()):
        self.seen["x"] += [x for x in xs if math.isfinite(x)]
        self.seen["y"] += [y for y in ys if math.isfinite(y)]

    def _legend(self, how, kind):
        if how.name and all(how.name != known.name for known, _ in self.entries):
            self.entries.append((how, kind))

    def line(self, points, how, marks=True, spread=None):
        """points: [(x, y)]. spread: [(x, least, most)], drawn as thin bars."""
        if not points:
            return
        if spread:
            self.plots.append(f"{self._block(spread)} using 1:2:(0):($3-$2) with vectors nohead lw 1 "
                              f"lc rgb '{how.colour}'")
            self._see(ys=[v for s in spread for v in s[1:]])
        self.plots.append(f"{self._block(points)} using 1:2 with {'linespoints' if marks else 'lines'} "
                          f"lw {how.width:g} dt {how.dash} lc rgb '{_ink(how)}'"
                          + (f" pt {how.point} ps 0.6" if marks else ""))
        self._see(*zip(*points))
        self._legend(how, "line" if marks else "plain")

    def steps(self, values, how):
        """The distribution of values: the share of them that is at most x."""
        values = sorted(values)
        self.line([(v, (i + 1) / len(values)) for i, v in enumerate(values)], how, marks=False)

    def points(self, points, how, size=1.0):
        if not points:
            return
        self.plots.append(f"{self._block(points)} using 1:2 with points pt {how.point} ps {size:g} "
                          f"lw 1.4 lc rgb '{how.colour}'")
        self._see(*zip(*points))
        self._legend(how, "point")

    def spans(self, rows, how, size=1.0):
        """rows: [(x, y, least x, most x)]: points with a horizontal bar."""
        if not rows:
            return
        block = self._block(rows)
        self.plots.append(f"{block} using 3:2:($4-$3):(0) with vectors nohead lw 1.6 lc rgb '{how.colour}'")
        self.plots.append(f"{block} using 1:2 with points pt {how.point} ps {size:g} lw 1.4 lc rgb "
                          f"'{how.colour}'")
        self._see([v for r in rows for v in (r[0], r[2], r[3])], [r[1] for r in rows])
        self._legend(how, "point")

    def bars(self, places, values, width, how, form=None, spread=None):
        """Upright bars. form: prints each value above its bar. spread: [(least, most)] each."""
        rows = [(x, v, width) for x, v in zip(places, values) if v is not None and math.isfinite(v)]
        if not rows:
            return
        self.plots.append(f"{self._block(rows)} using 1:2:3 with boxes fs solid noborder lc rgb '{how.colour}'")
        tops = [v for _, v, _ in rows]
        if spread:
            lines = [(x, low, high) for x, (low, high) in zip(places, spread)]
            self.plots.append(f"{self._block(lines)} using 1:2:(0):($3-$2) with vectors nohead lw 1 lc rgb "
                              f"'{TONES['mark']}'")
            tops = [max(high, v) for (_, _, high), v in zip(lines, tops)]
            self._see(ys=tops)
        if form:
            labels = [(x, top, in_data(format(v, form)))
                      for (x, v, _), top in zip(rows, tops)]
            self.plots.append(f"{self._block(labels)} using 1:2:3 with labels offset 0,0.6 font ',{SMALL - 1}' "
                              f"tc rgb '{TONES['text']}'")
            self._see(ys=[1.07 * max(tops)])
        if "y" not in self.log:
            self._see(ys=[0])
        self._see([x + side * width / 2 for x, _, _ in rows for side in (-1, 1)], [v for _, v, _ in rows])
        self._legend(how, "bar")

    def rows(self, values, form=".3g", more=()):
        """Horizontal bars from the top, with their values beside them: [(text, value, style)]. more: a
        text for each, behind its value."""
        block = self._block([(v, i, min(0, v), max(0, v), i - 0.34, i + 0.34, int(how.colour[1:], 16))
                             for i, (_, v, how) in enumerate(values)])
        self.plots.append(f"{block} using 1:2:3:4:5:6:7 with boxxyerror fs solid noborder lc rgb variable")
        labels = [(max(0, v), i, in_data(format(v, form) + (more[i] if more else "")))
                  for i, (_, v, _) in enumerate(values)]
        self.plots.append(f"{self._block(labels)} using 1:2:3 with labels left offset 0.7,0 font ',{SMALL}' "
                          f"tc rgb '{TONES['text']}'")
        self.ticks["y"] = [(i, text) for i, (text, _, _) in enumerate(values)]
        self.ranges["y"] = (len(values) - 0.5, -0.5)
        self.grid = "x"
        # Room for the text beside the longest bar, in a panel of some 400 pixels.
        room = 1 + 0.0036 * max(text_width(text.strip('"'), SMALL) + 8 for _, _, text in labels)
        self._see([0, *(room * v for _, v, _ in values)])

    def ranges_of(self, values, how):
        """Bars from the median to the 99th percentile: [(place, least, most)]."""
        self.plots.append(f"{self._block(values)} using 1:2:(0):($3-$2) with vectors nohead lw 9 lc rgb "
                          f"'{how.colour}'")
        self._see([v[0] for v in values], [v for r in values for v in r[1:]])
        self._legend(how, "bar")

    def band(self, points, colour, name=""):
        """Fills between [(x, low, high)], below all else."""
        self.plots.insert(0, f"{self._block(points)} using 1:2:3 with filledcurves fs solid noborder lc rgb '{colour}'")
        if name:
            self._legend(Style(name, colour), "bar")

    def across(self, y, tone="limit", dash=2):
        """A line at y through the whole panel."""
        self._arrow(f"graph 0,first {y:.6g} to graph 1,first {y:.6g}", Style("", TONES[tone], dash=dash))
        self._see(ys=[y])

    def upright(self, x, tone="limit", dash=2):
        """A line at x through the whole panel."""
        self._arrow(f"first {x:.6g},graph 0 to first {x:.6g},graph 1", Style("", TONES[tone], dash=dash))
        self._see([x])

    def _arrow(self, ends, how):
        self.first.append(f"set arrow from {ends} nohead back lw 1 dt {how.dash} lc rgb '{_ink(how)}'")

    def text(self, x, y, text, size=SMALL, shift=(0.6, 0.5)):
        self.first.append(f"set label {quoted(text)} at {x:.6g},{y:.6g} left front offset {shift[0]},{shift[1]} "
                          f"font ',{size}' tc rgb '{TONES['text']}'")

    def group(self, names, count, turned=False):
        """Names groups of `count` bars: the places of bar k of all groups, for each k, and their width."""
        self.ticks["x"] = list(enumerate(names))
        self.ranges["x"] = (-0.6, len(names) - 0.4)
        self.turned = turned
        width = 0.8 / count
        return [[i + (k - (count - 1) / 2) * width for i in range(len(names))] for k in range(count)], 0.94 * width

    # What the layout needs.

    def range_of(self, axis):
        given = self.ranges[axis] or (None, None)
        found = self._found_range(axis)
        return tuple(f if g is None else g for g, f in zip(given, found))

    def _found_range(self, axis):
        values = self.seen[axis]
        if axis in self.log:
            values = [v for v in values if v > 0] or [0.1, 1]
            return min(values) / 1.25, max(values) * 1.25
        low, high = min(values or [0]), max(values or [1])
        room = 0.05 * (high - min(low, 0) or 1)
        return (0 if low >= 0 else low - room), high + room

    def tick_texts(self, axis):
        if ticks := self.ticks[axis] or self._log_ticks(axis):
            return [text for _, text in ticks]
        high = self.range_of(axis)[1]
        return [number(high), number(high / 10)]

    def _log_ticks(self, axis):
        """Of a logarithmic axis: powers of ten; where these are few, also twice and five times those."""
        if axis not in self.log:
            return None
        low, high = sorted(self.range_of(axis))
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        parts = (1, 2, 5) if high / low < 150 else (1,)
        values = [m * 10.0**k for k in decades for m in parts]
        return [(v, f"{v:g}") for v in values if 0.999 * low <= v <= 1.001 * high]

    def left(self):
        return 16 + (32 if self.y else 0) + max(text_width(t, SMALL) for t in self.tick_texts("y"))

    def below(self):
        texts = self.tick_texts("x")
        if self.turned:
            height = 16 + 0.6 * max(text_width(t, SMALL) for t in texts)
        else:
            height = 8 + 15 * max(t.count("\n") + 1 for t in texts)
        return height + (26 if self.x else 4)

    def script(self):
        out = [f"{name} << END\n{rows}\nEND" for name, rows in
               ((f"$d{i}", b) for i, b in enumerate(self.blocks))]
        lines = " ".join(f"{axis}tics" if axis in self.grid else f"no{axis}tics" for axis in "xy")
        out += ["unset arrow", "unset label", *self.first, "unset logscale", "unset key",
                f"set grid {lines} lt 1 dt 1 lc rgb '{TONES['grid']}' lw 1"]
        for axis in "xy":
            low, high = self.range_of(axis)
            out.append(f"set {axis}range [{low:.6g}:{high:.6g}]")
        if self.log:
            out.append(f"set logscale {self.log}")
        for axis, label in (("x", self.x), ("y", self.y)):
            shift = " offset 0,0.5" if axis == "x" else ""
            out.append(f"set {axis}label {quoted(label)} font ',{FONT}' tc rgb '{TONES['text']}'{shift}" if label else f"unset {axis}label")
            turn = " rotate by 37 right" if axis == "x" and self.turned else " norotate"
            if ticks := self.ticks[axis] or self._log_ticks(axis):
                places = ",".join(f"{quoted(text)} {at:.6g}" for at, text in ticks)
                named = axis == "x" and self.ranges["x"] and ticks[0][0] == 0
                out.append(f"set {axis}tics{turn} nomirror ({places}) font ',{SMALL}'"
                           + (" scale 0" if named or self.ticks[axis] and axis == "y" else " scale 1"))
            else:
                out.append(f"set {axis}tics{turn} nomirror autofreq font ',{SMALL}' scale 1")
        out.append(f"set title {quoted(self.title)} font ',{FONT + 1}' tc rgb '{TONES['text']}' offset 0,-0.4" if self.title else "unset title")
        out.append("plot " + (", ".join(p + " notitle" for p in self.plots) or "NaN notitle"))
        return out


# Figures ------------------------------------------------------------------------------------------

LINE = 18  # pixels of one line of a legend


def _rows_of(entries, width):
    """Entries of a legend in lines that fit: [[(x, style, kind)]]."""
    lines, x = [[]], 0
    for how, kind in entries:
        need = 34 + text_width(how.name) + 16
        if lines[-1] and x + need > width:
            lines.append([])
            x = 0
        lines[-1].append((x, how, kind))
        x += need
    return lines if entries else []


class _Canvas:
    def __init__(self, width, height):
        self.width, self.height, self.out = width, height, []

    def at(self, x, y):
        return f"screen {x / self.width:.5f},{1 - y / self.height:.5f}"

    def text(self, x, y, text, size=FONT, where="left"):
        self.out.append(f"set label {quoted(text)} at {self.at(x, y)} {where} front font ',{size}' "
                        f"tc rgb '{TONES['text']}'")

    def legend(self, lines, left, top):
        for i, line in enumerate(lines):
            y = top + LINE * i + LINE / 2
            for x, how, kind in line:
                self.sample(left + x, y, how, kind)
                self.text(left + x + 34, y, how.name)

    def sample(self, x, y, how, kind):
        if kind == "bar":
            self.out.append(f"set object rectangle from {self.at(x + 12, y + 6)} to {self.at(x + 28, y - 5)} "
                            f"fc rgb '{how.colour}' fs solid noborder")
            return
        if kind in ("line", "plain"):
            self.out.append(f"set arrow from {self.at(x + 2, y)} to {self.at(x + 28, y)} nohead front "
                            f"lw {how.width:g} dt {how.dash} lc rgb '{_ink(how)}'")
        if kind != "plain":
            self.out.append(f"set label '' at {self.at(x + 15, y)} point pt {how.point} ps 0.7 lw 1.4 "
                            f"lc rgb '{how.colour}' front")


def draw(path, title, panels, columns=2, size=(400, 260), note="", fail=None):
    """Draws panels, of `size` pixels inside their axes, in rows of `columns`. A panel that is None
    leaves its place empty. note: a line below the title. fail: called with a message if gnuplot is
    missing or fails; by default RuntimeError."""
    path = pathlib.Path(path)
    columns = min(columns, len(panels))
    grid = [panels[i:i + columns] for i in range(0, len(panels), columns)]
    lefts = [max(r[c].left() for r in grid if c < len(r) and r[c]) for c in range(columns)]
    width = sum(lefts) + columns * (size[0] + 26) + 8
    shared = []
    for p in panels:
        if p and not p.own_legend:
            shared += [e for e in p.entries if all(e[0].name != known.name for known, _ in shared)]
    above = _rows_of(shared, width - 24) if len(shared) > 1 else []
    own = [[_rows_of(p.entries, size[0] + lefts[c] - 10) if p and p.own_legend else [] for c, p in enumerate(r)]
           for r in grid]
    width = max(width, *(24 + text_width(t, s) for t, s in ((title, LARGE), (note, FONT))))
    top = 10 + (24 * (title.count("\n") + 1) if title else 0) + (LINE if note else 0)
    legend_top = top
    top += LINE * len(above) + (6 if above else 0)
    heights = []
    for r, lines in zip(grid, own):
        head = 30 if any(p and p.title for p in r) else 14
        heights.append((head, max(p.below() for p in r if p), LINE * max(map(len, lines)) + (8 if any(lines) else 0)))
    height = top + sum(h + size[1] + b + l for h, b, l in heights) + 8

    canvas = _Canvas(round(width), round(height))
    if title:
        canvas.text(12, 10 + 12 * (title.count("\n") + 1), title, LARGE)
    if note:
        canvas.text(12, legend_top - LINE / 2, note)
    canvas.legend(above, 12, legend_top)
    script = []
    for r, lines, (head, below, extra) in zip(grid, own, heights):
        left, y = 4, top + head
        for c, p in enumerate(r):
            left += lefts[c]
            if p:
                script += [f"set lmargin at {canvas.at(left, 0).split(',')[0]}",
                           f"set rmargin at {canvas.at(left + size[0], 0).split(',')[0]}",
                           f"set tmargin at screen {1 - y / canvas.height:.5f}",
                           f"set bmargin at screen {1 - (y + size[1]) / canvas.height:.5f}", *p.script()]
                canvas.legend(lines[c], left - lefts[c] + 8, y + size[1] + below)
            left += size[0] + 26
        top += head + size[1] + below + extra

    # What belongs to the canvas is drawn with the last panel, so that it is drawn once.
    last = max(i for i, line in enumerate(script) if line.startswith("plot "))
    script[last:last] = canvas.out
    _run(path, canvas, script, fail)


def _run(path, canvas, script, fail):
    def stop(why):
        if fail is None:
            raise RuntimeError(why)
        fail(why)
    if not shutil.which("gnuplot"):
        stop(MISSING)
        return
    size = f"size {canvas.width},{canvas.height}"
    kinds = {".png": f"pngcairo {size} font 'Sans,{FONT - 2}'",
             ".pdf": f"pdfcairo size {canvas.width / 90:.2f}in,{canvas.height / 90:.2f}in font 'Sans,{FONT - 3}'"}
    kind = kinds.get(path.suffix, f"svg {size} font 'Helvetica,Arial,sans-serif,{FONT}' background 'white'")
    text = "\n".join([
        "set encoding utf8", f"set terminal {kind} noenhanced", f"set output {quoted(str(path))}",
        f"set border 3 lc rgb '{TONES['axis']}'", "set format '%g'",
        "set multiplot", *script, "unset multiplot", ""])
    path.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["gnuplot"], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0 or "error" in done.stderr or "line " in done.stderr:
        stop(f"{path}: gnuplot failed: {done.stderr.strip()}")


MISSING = "no gnuplot, expected it installed (package gnuplot-nox)"


def is_missing():
    """Whether gnuplot is: to be asked before minutes are spent."""
    return shutil.which("gnuplot") is None


# Scripts that draw one file ---------------------------------------------------------------------------

def script_arguments(doc, add=lambda parser: None):
    """The command line of a script that draws results: RESULTS... PICTURE. Reads the results."""
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("results", type=pathlib.Path, nargs="+", help="JSON of the experiment")
    p.add_argument("picture", type=pathlib.Path, help="an SVG, PNG or PDF file")
    add(p)
    a = p.parse_args()
    a.report = []
    for path in a.results:
        try:
            a.report.append(json.loads(path.read_text(encoding="utf-8")))
        except OSError as e:
            p.error(f"{path}: {e.strerror}, expected results")
        except ValueError as e:
            p.error(f"{path}: {e}, expected JSON")
    if is_missing():
        p.error(MISSING)
    return a


def quantile_steps(panel, row, how):
    """A distribution that was kept as quantiles at equal distances."""
    q = row["quantiles_us"]
    panel.line([(x, i / (len(q) - 1)) for i, x in enumerate(q)], how, marks=False)
