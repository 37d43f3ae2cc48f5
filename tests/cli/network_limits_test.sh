# SPDX-License-Identifier: Apache-2.0
# bench/slow_down_limits.py on a simulated GPU: each way is run, a limit keeps models apart, an earlier
# result is printed the same, and whatever is wrong is one line.
. "$(dirname "${BASH_SOURCE[0]}")/script_checks.sh"
if [ ! -x "$bin/gsched_server" ]; then
  echo "gsched_server: not built, not tested"
  exit 0
fi
limits() { python3 "$bench/slow_down_limits.py" --server "$bin/gsched_server" "$@"; }

# On a busy machine few requests end in a second, and perhaps none beside another.
check 'every way' limits --seconds 1 --requests 10 --repeats 1 --ways none 1.5 real_time --json limits.json
cp out table
check 'results' python3 - <<'PY'
import json
r = json.load(open("limits.json"))
apart = {run["way"]: run["apart"] for run in r["runs"]}
assert list(apart) == ["none", "1.5", "real_time"] and apart["none"] == apart["real_time"] == 0 < apart["1.5"], apart
for run in r["runs"]:
    for m in run["models"].values():
        assert 0 < m["p50_ms"] <= m["p99_ms"] and m["per_s"] > 0, run
assert r["gpu"] == "" and r["commit"] and r["device"] == "sim:h200", r
PY
check 'the table again' limits --read limits.json
cp out again
check 'the same' cmp again table
refuses 1 'expected none, real_time or a limit' slow_down_limits.py --ways 0.5
refuses 1 'expected results of slow_down_limits.py' slow_down_limits.py --read table
refuses 1 'nix.json' slow_down_limits.py --server "$bin/gsched_server" --short nix
refuses 1 'not there, expected gsched_server' slow_down_limits.py --server nix
refuses 1 'above 0' slow_down_limits.py --seconds 0
refuses 1 '--requests' slow_down_limits.py --requests 0
echo "$checks checks, $failed failures"
[ "$failed" = 0 ]
