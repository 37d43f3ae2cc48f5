#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# load_slow_downs and predict_slow_downs of the Python package: the table of measured pairs, which a server
# takes as it is, or of predicted ones, and one
# line for a file that is wrong. The server's library only plays its part.
set -euo pipefail
source "$GSCHED_SOURCE_DIR/tests/cli/pytorch_played.sh"
library=$(find "$GSCHED_BIN_DIR/.." -name libgsched_c.so -print -quit)
if [ -z "$library" ]; then
  echo "no libgsched_c.so was built, which needs a CUDA compiler: not built, not tested"
  exit 0
fi

cat >"$work/slow_downs.py" <<'PY'
import csv, json, os, pathlib, warnings
import gsched

os.chdir(os.path.dirname(__file__))
HEAD = "model_a,batch_a,sms_a,model_b,batch_b,sms_b,solo_a_us,solo_b_us,corun_a_us,corun_b_us,more\n"
MACHINE = '{"gpu": "G", "compute_capability": "9.0", "sms": 132, "sm_groups": [64, 68]}'
def write(*rows, head=HEAD):
    pathlib.Path("pairs.csv").write_text(head + "".join(row + "\n" for row in rows))
    pathlib.Path("machine.json").write_text(MACHINE)
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

# That of the tables that ship.
file = pathlib.Path(os.environ["GSCHED_SOURCE_DIR"], "tools/data/corun_pairs.csv")
rows = [r for r in csv.DictReader(file.open()) if r["sms_a"] == r["sms_b"] == "132"]
table, graphs = gsched.load_slow_downs(file), {(r["model_a"], r["batch_a"]) for r in rows}
assert len(table) == len(graphs) ** 2 == 225 and all(0.9 < by < 10 for by in table.values())
for r in rows:
    if (r["model_a"], r["batch_a"]) != (r["model_b"], r["batch_b"]):
        names = [f"{r['model_' + s]}_b{r['batch_' + s]}" for s in "ab"]
        for pair, side in ((names, "a"), (names[::-1], "b")):
            by = float(r[f"corun_{side}_us"]) / float(r[f"solo_{side}_us"])
            assert abs(table[tuple(pair)] - by) < 1e-3 * by, (pair, table[tuple(pair)], by)

good = "a,1,132,b,1,132,10,10,10,10,x"
for row, text in (("a,1,132,b,1,132,10,10,-1,10,x", "pairs.csv:2: '-1', expected a number from 0.001"),
                  ("a,x,132,b,1,132,10,10,10,10,x", "'x', expected a whole number from 1"),
                  (",1,132,b,1,132,10,10,10,10,x", "pairs.csv:2: an empty field, expected a name"),
                  ("a\0x,1,132,b,1,132,10,10,10,10,x", "expected a name one can print"),
                  ("a,1,132,b,1,132", "pairs.csv:2: 6 fields, expected 11"),
                  ("a,1,100,b,1,100,10,10,10,10,x", "100 and 100 SMs, expected all 132 for both, or parts of them")):
    refuses(text, write(row, good))
refuses("pairs.csv:3: a beside b is there twice, expected each pair", write(good, good))
refuses("pairs.csv: no pair on all 132 SMs, expected at least one", write())
refuses("pairs.csv: no pair on all 132 SMs", write("a,1,64,b,1,68,10,10,10,10,x"))
refuses("has no column sms_a, expected model_a", write(good, head=HEAD.replace("sms_a", "sms")))
write(good)
pathlib.Path("pairs.csv").write_bytes(HEAD.encode() + good.replace("a,1", "\xff,1").encode("latin-1"))
refuses("pairs.csv: a name is no text in UTF-8, expected one that is", "pairs.csv")
refuses("none.csv: cannot be opened, expected a CSV file", "none.csv")
refuses("a zero byte in its path", "a\0b")
refuses("pairs: no path, expected one", "")
pathlib.Path("machine.json").write_text('{"gpu": "G", "compute_capability": "9.0", "sms": 0, "sm_groups": []}')
refuses("machine.json: ", "pairs.csv")
os.remove("machine.json")
refuses("pairs.csv: no machine.json beside it, expected the one that measure writes", "pairs.csv")

# Predicted ones.
data = pathlib.Path(os.environ["GSCHED_SOURCE_DIR"], "tools/data")
law = data / "interference/h200.json"
table = gsched.predict_slow_downs(data / "profiles", law, ["lenet_b1", "vgg16_b8"])
assert set(table) == {(a, b) for a in ("lenet_b1", "vgg16_b8") for b in ("lenet_b1", "vgg16_b8")}, table
assert all(1 <= by < 20 for by in table.values()) and table["vgg16_b8", "vgg16_b8"] > 1.5, table
# Those that are extrapolations are told.
other = json.loads(law.read_text())
def warned(sums):
    other["seen"].update({key: sums for key in other["seen"] if key != "graphs"})
    pathlib.Path("other.json").write_text(json.dumps(other))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        gsched.predict_slow_downs(data / "profiles", "other.json", ["lenet_b1", "vgg16_b8"])
    return [str(w.message) for w in said]
assert warned(100) == [], warned(100)
assert len(warned(0)) == 1 and "lenet_b1 beside lenet_b1: more " in warned(0)[0], warned(0)
for arguments, text in (((data / "profiles", law, ["lenet"]), "lenet.json: cannot be opened"),
                        ((data / "profiles", law, []), "models: '', expected NAME_bBATCH"),
                        ((data / "profiles", law, "lenet_b1"), "models: 'lenet_b1', expected several names"),
                        ((data / "profiles", "none.json"), "none.json: cannot be opened"),
                        (("none", law), "none: "), (("a\0b", law), "a zero byte in its path")):
    try:
        gsched.predict_slow_downs(*arguments)
    except gsched.GschedError as e:
        assert text in str(e) and "\n" not in str(e), repr(e)
    else:
        raise AssertionError(f"nothing that says {text!r}")
print("slow-downs are read and predicted, and what is wrong is refused")
PY
GSCHED_C_LIBRARY=$library python3 "$work/slow_downs.py"

cat >"$work/serves.py" <<'PY'
import ctypes, os
import gsched

table = {("a_b8", "b_b1"): 1.7, ("b_b1", "a_b8"): 1.2, ("a_b8", "a_b8"): 1.3} # as load_slow_downs returns it
gsched.Server("fifo", slow_downs=table, slow_down_limit=1.2).close()
played = ctypes.CDLL(os.environ["GSCHED_C_LIBRARY"])
assert (ctypes.c_char * 64).in_dll(played, "opened_slow_downs").value == b"a_b8 b_b1 1.7, b_b1 a_b8 1.2, a_b8 a_b8 1.3, "
PY
python3 "$work/serves.py"
