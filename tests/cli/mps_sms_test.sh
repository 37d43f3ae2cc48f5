#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench/cuda/mps_sms.py without a GPU: with a program that gets known SMs, its counts and ratios are
# right, an earlier result is printed the same, whatever fails is one line, and no process is left.
# gsched.gpu.mps_sms itself, where it is built: help and bad input.
set -u
script=$GSCHED_SOURCE_DIR/bench/cuda/mps_sms.py
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1 TMPDIR=$work WORK=$work
failed=0
fail() { echo "FAILED: $1"; cat "$work/out" "$work/err"; failed=1; }
# shellcheck source=played_mps.sh
. "$(dirname "${BASH_SOURCE[0]}")/played_mps.sh"

sms() { # sms CODE ARGS...
  local expected=$1 rc
  shift
  timeout 100 python3 "$script" --hold-ms 1 --replay-ms 1 "$@" >"$work/out" 2>"$work/err"
  rc=$?
  [ $rc -eq "$expected" ] || fail "$*: exit code $rc, expected $expected"
}
says() { grep -qE -- "$1" "$work/out" "$work/err" || fail "expected '$1'"; }
refuses() { # refuses TEXT ARGS...: status 2 and one line
  local text=$1
  shift
  sms 2 "$@"
  [ "$(wc -l <"$work/err")" -eq 1 ] && grep -qF -- "$text" "$work/err" || fail "$*: expected one line with '$text'"
}

# A GPU of 100 SMs. Of processes with limits, each gets the first SMs when it is alone, and beside
# another one from SM 30 on: it sees the other one's blocks in a file.
cat >"$work/program" <<'PY'
#!/usr/bin/env python3
import json, os, pathlib, sys, time
work, words = pathlib.Path(os.environ["WORK"]), sys.argv[1:]
me = f"part{len(list(work.glob('part*.number')))}"
(work / f"{me}.number").write_text(str(os.getpid()))
does = os.environ.get("DOES", "") if me == "part1" else ""
mps = (pathlib.Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"]) / "nvidia-cuda-mps-control.pid").exists()
if does == "refuse":
    sys.exit("gsched.gpu.mps_sms: context: CUDA_ERROR_MPS_SERVER_NOT_READY")
if does == "hang":
    time.sleep(300)
if "--shares" in words:
    ends = [0]
    for p in words[words.index("--shares") + 1].split(","):
        ends.append(ends[-1] + int(p))
    parts = [list(range(a, b)) for a, b in zip(ends, ends[1:])]
else:
    limit = int(os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "100"))
    parts = [list(range(limit if mps else 100))] * (2 if "--parts" in words else 1)
say = lambda answer: print(json.dumps(answer), flush=True)
say({"gpu": "A GPU", "driver": 1, "runtime": 2, "sms": 100, "parts": [{"sms": p} for p in parts]})
held = {}
for line in sys.stdin:
    what, part, *amount = line.split()
    if does == "die":
        os._exit(7)
    if does == "babble":
        print("no JSON", flush=True)
    beside = any(p.name != f"{me}.{part}.held" for p in work.glob("*.held"))
    mine = parts[int(part)]
    mine = [min(s + 30, 130) for s in mine] if mps and len(mine) < 100 and beside else mine
    mark = work / f"{me}.{part}.held"
    if what == "hold":
        mark.touch()
        held[part] = mine
        say({"holds": int(part)})
    elif what == "release":
        mark.unlink()
        say({"sms": held.pop(part), "seconds": 1, "released": does != "late"})
    else:
        us = 300 if beside else 100
        say({"count": 3, "us": {"mean": us, "median": us * 0.9 if beside else us, "p90": us}, "sms": mine})
PY
chmod +x "$work/program"
fake=(--program "$work/program" --turns 2)

sms 0 "${fake[@]}" --ways partitions:25,75 streams time_slicing --json "$work/one.json"
says '^partitions:25,75 +0 +25 +25 +0 +25 +0 +3\.00 +2\.70$'
says '^partitions:25,75 +1 +75 +75 +0 +75 +0 +3\.00 +2\.70$'
says '^streams +1 +100 +100 +100 +100 +3\.00'
says '^time_slicing +1 +100 +100 +100 +100 +3\.00'
ended
PATH=/usr/bin:/bin sms 0 "${fake[@]}" --ways mps:50,50
says '^mps:50,50 +not available: nvidia-cuda-mps-control is not on the path'
play_mps
# SMs 0 to 49 alone; at once the first of a turn gets those, and the second 30 to 79.
sms 0 "${fake[@]}" --ways mps:50,50 mps --json "$work/mps.json"
says '^mps:50,50 +0 +50 +50 +50 +50 +20 +3\.00'
says '^mps:50,50 +1 +50 +50 +50 +50 +20 +3\.00'
says '^mps +0 +100 +100 +100 +100 +3\.00'
ended
tail -n +2 "$work/out" >"$work/first"
sms 0 --read "$work/mps.json"
grep -q '^A GPU, driver 1, ' "$work/out" && tail -n +3 "$work/out" | cmp - "$work/first" || fail "an earlier result"
python3 - "$work/mps.json" <<'PY' || fail "the results"
import json, sys
r = json.load(open(sys.argv[1]))
assert r["what"] == "mps_sms" and r["gpu"] == "A GPU" and r["commit"] and r["date"].endswith("Z"), r
first, second = r["rows"][0]["parts"]
assert first["alone"] == second["alone"] == {"count": 50, "sms": "0-49", "of_both": 50}, first
assert [t["sms"] for t in first["turns"]] == ["0-49", "30-79"], first
assert [t["sms"] for t in second["turns"]] == ["30-79", "0-49"], second
assert all(t["beside"]["of_both"] == 20 and not t["beside"]["held_up"] for t in first["turns"]), first
PY

# Whatever fails is one line, and the next way runs.
DOES=refuse sms 0 "${fake[@]}" --ways mps
says 'not available: process1: gsched.gpu.mps_sms: context: CUDA_ERROR_MPS_SERVER_NOT_READY'
ended
MPS=refuses sms 0 "${fake[@]}" --ways mps
says 'not available: nvidia-cuda-mps-control: no permission for MPS'
ended
DOES=die sms 1 "${fake[@]}" --ways mps streams
says '^mps +failed: process1: exit code 7'
says '^streams +1 +100'
ended
DOES=babble sms 1 "${fake[@]}" --ways time_slicing
says "failed: process1: b'no JSON' answers hold 0 5, expected JSON"
ended
DOES=late sms 0 "${fake[@]}" --ways time_slicing
says '^time_slicing +0 .* held up$'
ended
DOES=hang timeout 100 python3 "$script" "${fake[@]}" --ways mps >"$work/out" 2>"$work/err" &
for _ in $(seq 100); do [ -e "$work/part1.number" ] && break; sleep 0.1; done
sleep 0.3
kill "$(pgrep -P $! python3)"
wait $!
ended
ls -d "$work"/mps*/ 2>/dev/null && fail "folders are left"
PYTHONPATH=$GSCHED_SOURCE_DIR/bench/cuda python3 -c '
import mps_sms
assert mps_sms.named([5, 1, 0, 2, 9, 8]) == {"count": 6, "sms": "0-2,5,8-9"} and mps_sms.named([])["sms"] == ""
' || fail "names of SMs"

# Bad input.
refuses '"threads", expected streams, time_slicing' --ways threads
refuses '"mps:50", expected 2 to 16 percentages' --ways mps:50
refuses '"mps:50,x", expected 2 to 16 percentages' --ways mps:50,x
refuses '"partitions", expected' --ways partitions
refuses '"partitions:60,60" has 120 percent' --ways partitions:60,60
refuses 'none is no program' --program none
refuses 'expected one of both' --read "$work/mps.json" --json "$work/b.json"
refuses 'none.json: No such file' --read none.json
echo '{"rows": [{"way": 1}]}' >"$work/bad.json"
refuses 'bad.json: expected results of mps_sms.py' --read "$work/bad.json"
refuses 'expected a file in a folder that exists' "${fake[@]}" --json "$work/none/a.json"

built=$GSCHED_BIN_DIR/../bench/gsched.gpu.mps_sms
if [ -x "$built" ]; then
  timeout 60 "$built" --help | grep -q -- --commands || fail "help"
  for bad in '--shares 60,50' '--shares 50,50 --parts 2' '--blocks 99' '--commands --json a.json'; do
    # shellcheck disable=SC2086
    timeout 60 "$built" $bad >"$work/out" 2>"$work/err"
    [ $? -eq 2 ] && [ "$(wc -l <"$work/err")" -eq 1 ] && grep -q '^gsched.gpu.mps_sms: .*expected\|not in range' "$work/err" ||
      fail "$bad"
  done
fi
exit $failed
