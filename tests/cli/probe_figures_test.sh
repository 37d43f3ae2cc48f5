#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench/figures/probe_figures: what it makes of kernels beside probes, of whole graphs and of pairs of
# probes that are made up; and the results that ship.
program=probe_figures
. "${GSCHED_SOURCE_DIR:?}/tests/cli/expect.sh"
figures=$GSCHED_SOURCE_DIR/bench/figures/probe_figures
export PYTHONDONTWRITEBYTECODE=1

cat >made.py <<'PY'
import contextlib, importlib.machinery, importlib.util, io, sys
loader = importlib.machinery.SourceFileLoader("figures", sys.argv[1])
f = importlib.util.module_from_spec(importlib.util.spec_from_loader("figures", loader))
loader.exec_module(f)

def said(of, *arguments):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        made = of(*arguments)
    return made, [[c.strip() for c in line.strip("|").split("|")] for line in out.getvalue().splitlines()
                  if line.startswith("|")]

def kernel(symbol, ipc, us=20):
    return {"kind": "kernel", "symbol": symbol, "grid": [1, 1, 1], "block": [32, 1, 1], "duration_us": us,
            "counters": {"ipc": ipc, "l2": 0.25, "dram": 0.5}}

# Equal kernels count once; brief ones, copies and those that wait are left out, as are other probes.
profiles = {("probe_fp32_2", "1"): [kernel("p", 2)], ("probe_fp32_4", "1"): [kernel("p", 3.5)],
            ("m", "1"): [kernel("a", 1.5), kernel("a", 1.5), kernel("b", 3), kernel("c", 1, f.LEAST_US - 1),
                         {"kind": "memcpy"}, kernel("d", 1)]}
rows = [{"model": "m", "batch": "1", "operation": str(i), "probe": f"probe_fp32_{c}", "alone_us": "10",
         "measured": str(int(i == 5)), "beside_us": str(us)}
        for c, times in ((2, (11, 13, 15, 99, 99, 99)), (4, (30, 30, 70, 99, 99, 99)), (3, (99,)))
        for i, us in enumerate(times)]
points, table = said(f.figure_5, rows + rows, profiles)
assert {c: sorted((x, round(y, 9)) for x, y in p) for c, p in points.items()} == {
    2: [(-1, 1.5), (0.5, 1.2)], 4: [(-2.5, 7), (-1, 3)]}, points
assert table[2:] == [["2", "-1 to -0.5", "1", "1.50", "1.50 to 1.50", "1.50"],
                     ["2", "0.5 to 1", "1", "1.20", "1.20 to 1.20", "1.00"],
                     ["4", "-4 to -2", "1", "7.00", "7.00 to 7.00", "6.00"],
                     ["4", "-1 to -0.5", "1", "3.00", "3.00 to 3.00", "3.00"]], table

# Whole graphs: those that wait, have SMs of their own or too few levels are left out.
graphs = [{"victim": v, "batch": "1", "kind": "fp32", "level": str(n), "victim_sms": s, "probe_sms": "132",
           "held_up": h, "alone_us": "10", "beside_us": str(10 + n)}
          for v, s, h, levels in (("whole", "132", "0", (1, 3, 4)), ("part", "64", "0", (1, 2, 3, 4)),
                                  ("waits", "132", "1", (1, 2, 3, 4)), ("few", "132", "0", (3, 4)))
          for n in levels]
points, table = said(f.table_2, graphs)
assert points == {"whole_b1": [(1, 1.1), (3, 1.3), (4, 1.4)]}, points
assert table[2] == ["whole_b1", "1.10", "", "1.30", "1.40"] and len(table) == 5, table

# Rows are slowed by columns.
pairs = [{"victim": f"probe_{v}_1", "probe": f"probe_{p}_1", "slowdown": by, "probe_rate_alone": 6,
          "probe_rate_beside": rate} for v, p, by, rate in (
              ("x", "x", 1, 6), ("x", "y", 2, 3), ("y", "x", 30, 2), ("y", "y", 4, 6))]
_, table = said(f.matrix, pairs)
assert table[:1] + table[2:4] == [["", "x", "y"], ["x", "1.00", "2.00"], ["y", "30", "4.00"]], table
assert table[6:] == [["x", "1.00", "2.00"], ["y", "3.00", "1.00"]], table

# The copy's use is that of its own number of blocks.
copies = [{"victim": "m", "kind": "copy", "level": "4096", "blocks": str(b), "victim_sms": "64",
           "probe_sms": "68", "alone_us": "1000", "beside_us": "1100", "beside_p90_us": "1200"} for b in (16, 68)]
_, table = said(f.table_1, copies, {("probe_copy_4096_blocks16", "1"): [kernel("copy", 1)]}, 132)
assert table[2:4] == [["16", "25%", "50%", "1.10"], ["68", "", "", "1.10"]], table
assert table[6:] == [["0", "1.00"], ["16", "1.10, 1.20"], ["68", "1.10, 1.20"]], table
PY
checks=$((checks + 1))
python3 made.py "$figures" >out 2>err || fail "tables of what is made up"

checks=$((checks + 1))
python3 "$figures" --suites no.json --figure3 no.json --matrix no.json --probes . --held no.csv >out 2>err
rc=$?
[ $rc -eq 1 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q 'no.json.*expected a result' err ||
  fail "expected 1 and one line, got $rc"

# All tables of docs/research/probes.md that are the program's stand there as it prints them.
gpu=$GSCHED_SOURCE_DIR/bench/results/gpu measured=$GSCHED_SOURCE_DIR/tools/data/measured
checks=$((checks + 1))
python3 "$figures" --suites "$gpu"/interference_suites.1bc6e48.* --figure3 "$gpu"/interference_figure3.5618b46.* \
  --matrix "$gpu"/interference_matrix.1bc6e48.* --probes "$measured"/{paper,five,others} \
  --held "$gpu"/held_up_{paper,five,others}.273892f0.* >out 2>err &&
  grep '^| [-0-9a-z]' out | grep -v '^| paper\|_b1 | probe_' | grep -vxFf "$GSCHED_SOURCE_DIR/docs/research/probes.md" >missing
[ ! -s missing ] && [ "$(wc -l <out)" -gt 100 ] || { cat missing; fail "docs/research/probes.md has all rows"; }
finish
