# SPDX-License-Identifier: Apache-2.0
# bench/figures/serving_figures without a GPU: its usage, what it plans to run, and a plot of kept results.
program=serve_partitions
. "${GSCHED_SOURCE_DIR:?}/tests/cli/expect.sh"
figures=$GSCHED_SOURCE_DIR/bench/figures/serving_figures
export PYTHONDONTWRITEBYTECODE=1

refuses_figures() { # refuses_figures TEXT ARGS...
  local text=$1
  shift
  checks=$((checks + 1))
  python3 "$figures" "$@" >out 2>err
  rc=$?
  [ $rc -eq 2 ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF -- "$text" err ||
    fail "expected 2 and one line with '$text', got $rc"
}
refuses_figures '--slos: "nobody", expected' --slos nobody
refuses_figures '--mix: "game", expected' --mix game
refuses_figures 'expected --plot' --from x.json
expect "--help" python3 "$figures" --help >out

# What it would run: partitions have a plan for the most, and the same loads come to all ways.
cat >plans.py <<'PY'
import importlib.machinery, importlib.util, sys, types
loader = importlib.machinery.SourceFileLoader("figures", sys.argv[1])
f = importlib.util.module_from_spec(importlib.util.spec_from_loader("figures", loader))
loader.exec_module(f)
o = types.SimpleNamespace(serve=sys.argv[2], rates=f.rates_of("equal"), seed=1, sms=None,
                          short=5, seconds=60)
for name in ("twice", "lenet", "paper"):
    most, runs = f.runs_of(o, f.slos_of(name))
    assert most["best"] > 1, most
    assert (most["sbp"] is None) == (name == "twice"), most
    ways = [facts["way"] for facts, _ in runs if facts["load"] == 1]
    assert ways == [w for w in f.WAYS if w != "sbp" or most["sbp"]], ways
    for facts, words in runs:
        if facts["way"] == "whole":
            assert float(words[1]) == facts["load"] * most["best"]
        elif facts["load"] != "its most":
            error = float(words[2].removeprefix("fixed:"))
            assert abs((1 + error) * most[facts["way"]] - facts["load"] * most["best"]) < 1e-3
PY
expect "what it runs" python3 plans.py "$figures" "$bin"
finish
