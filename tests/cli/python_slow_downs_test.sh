#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# load_slow_downs of the Python package: the table of measured pairs, which a server takes as it is, and one
# line for a file that is wrong. The library only plays its part.
set -euo pipefail
source "$GSCHED_SOURCE_DIR/tests/cli/pytorch_played.sh"

cat >"$work/slow_downs.py" <<'PY'
import csv, ctypes, os, pathlib
import gsched

os.chdir(os.path.dirname(__file__))
HEAD = "model_a,batch_a,sms_a,model_b,batch_b,sms_b,solo_a_us,solo_b_us,corun_a_us,corun_b_us,more\n"
def write(*rows, head=HEAD):
    pathlib.Path("pairs.csv").write_text(head + "".join(row + "\n" for row in rows))
    pathlib.Path("machine.json").write_text('{"gpu": "G", "sms": 132}')
    return "pairs.csv"
def refuses(text, path):
    try:
        gsched.load_slow_downs(path)
    except gsched.GschedError as e:
        assert text in str(e) and ", expected " in str(e) and "\n" not in str(e), repr(e)
        return
    raise AssertionError(f"nothing that says {text!r}")

# Pairs on all SMs count, in both directions; beside itself a model has the larger slow-down of both.
write("a,8,132,b,1,132,100,50,150,60,x", "a,8,64,b,1,68,100,50,900,900,x", "", "a,8,132,a,8,132,100,100,110,130,x",
      "a,1,132,b,1,132,10,50,10,100,x", "b,1,132,a,8,132,50,100,55,170,x\r")
table = gsched.load_slow_downs(pathlib.Path("pairs.csv"))
assert table == {("a_b8", "b_b1"): 1.7, ("b_b1", "a_b8"): 1.2, ("a_b8", "a_b8"): 1.3, ("a_b1", "b_b1"): 1.0,
                 ("b_b1", "a_b1"): 2.0}, table
gsched.Server("fifo", slow_downs=dict(list(table.items())[:3]), slow_down_limit=1.2).close()
played = ctypes.CDLL(os.environ["GSCHED_C_LIBRARY"])
assert (ctypes.c_char * 64).in_dll(played, "opened_slow_downs").value == b"a_b8 b_b1 1.7, b_b1 a_b8 1.2, a_b8 a_b8 1.3, "

# That of the tables that ship.
file = pathlib.Path(os.environ["GSCHED_SOURCE_DIR"], "tools/data/corun_pairs.csv")
rows = [r for r in csv.DictReader(file.open()) if r["sms_a"] == r["sms_b"] == "132"]
table, graphs = gsched.load_slow_downs(file), {(r["model_a"], r["batch_a"]) for r in rows}
assert len(table) == len(graphs) ** 2 == 225 and all(0.9 < by < 10 for by in table.values())
for r in rows:
    if (r["model_a"], r["batch_a"]) != (r["model_b"], r["batch_b"]):
        names = [f"{r['model_' + s]}_b{r['batch_' + s]}" for s in "ab"]
        assert table[tuple(names)] == float(r["corun_a_us"]) / float(r["solo_a_us"])
        assert table[tuple(names[::-1])] == float(r["corun_b_us"]) / float(r["solo_b_us"])

good = "a,1,132,b,1,132,10,10,10,10,x"
for row, text in (("a,1,132,b,1,132,10,10,-1,10,x", "pairs.csv:2: '-1', expected a number from 0.001"),
                  ("a,1,132,b,1,132,10,10,nan,10,x", "pairs.csv:2: 'nan', "),
                  ("a,1,132,b,1,132,0,10,10,10,x", "'0', expected a number"),
                  ("a,1,132,b,1,132,10,10,inf,10,x", "'inf', "), ("a,1,132,b,1,132,10,10,,10,x", "'', "),
                  ("a,x,132,b,1,132,10,10,10,10,x", "'x', expected a whole number from 1"),
                  ("a,1,132,b,1,0,10,10,10,10,x", "'0', expected a whole"),
                  (",1,132,b,1,132,10,10,10,10,x", "'', expected a name"),
                  ("a\0x,1,132,b,1,132,10,10,10,10,x", "'a\\x00x', expected a name"),
                  ("a,1,132,b,1,132", "pairs.csv:2: 6 fields, expected 11"),
                  ("a,1,100,b,1,100,10,10,10,10,x", "100 and 100 SMs, expected all 132 for both, or parts of them"),
                  ("a,1,264,b,1,264,10,10,10,10,x", "264 and 264 SMs, expected all 132")):
    refuses(text, write(row, good))
refuses("pairs.csv:3: a_b1 beside b_b1 is there twice, expected each pair", write(good, good))
refuses("pairs.csv: no pair on all 132 SMs, expected at least one", write())
refuses("pairs.csv: no pair on all 132 SMs", write("a,1,64,b,1,68,10,10,10,10,x"))
refuses("pairs.csv:1: 0 columns model_a, expected model_a,batch_a", write(head=""))
refuses("pairs.csv:1: 0 columns sms_a, expected model_a", write(good, head=HEAD.replace("sms_a", "sms")))
refuses("pairs.csv:1: 2 columns sms_a, expected model_a", write(good, head=HEAD.replace("more", "sms_a")))
write(good)
pathlib.Path("pairs.csv").write_bytes(b"\xff\xfe")
refuses("pairs.csv: no text in UTF-8, expected a CSV file", "pairs.csv")
refuses("none.csv: No such file", "none.csv")
os.makedirs("of/machine.json")
refuses("of/machine.json: Is a directory, expected the file", "of/pairs.csv")
for text in ("", "[]", "{}", '{"sms": "132"}', '{"sms": 0}'):
    pathlib.Path("machine.json").write_text(text)
    refuses("machine.json: no number of SMs in it, expected the file that gsched.measure writes", "pairs.csv")
os.remove("machine.json")
refuses("machine.json: No such file or directory, expected the file that gsched.measure writes", "pairs.csv")
print("measured slow-downs are read, and what is wrong is refused")
PY
python3 "$work/slow_downs.py"
