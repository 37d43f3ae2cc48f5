#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gsched.gpu.preemption_torture, gsched.gpu.forks, gsched.gpu.segment_ends, gsched.gpu.memory_nodes,
# gsched.gpu.block_order, gsched.gpu.block_starts and gsched.gpu.interference without a GPU: help, one line
# for each kind of bad input, and cases as text. The tables of bench/block_ends.py and bench/kernels_beside.py.
set -u
bench=${GSCHED_BIN_DIR:?}/../bench
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
# What SMs were measured to end early, by the rows of the results that ship, and bad files.
ends="python3 $GSCHED_SOURCE_DIR/bench/block_ends.py"
$ends --help >out && grep -q -- --models out || { echo "block_ends.py --help failed"; failed=1; }
$ends --read "$GSCHED_SOURCE_DIR"/bench/results/gpu/block_ends_*.gz >out &&
  [ "$(tail -n 2 out | tr -s ' ')" = " 0 to 1 2662 9.2% 0.09
 above 1 1424 3.9% 0.13" ] || { echo "block_ends.py --read: not the rows"; cat out; failed=1; }
measured="$GSCHED_SOURCE_DIR/tools/data/measured"
$ends --read "$GSCHED_SOURCE_DIR"/bench/results/gpu/block_ends_*.gz \
  --profiles "$measured/five/profiles" "$measured/others/profiles" >out &&
  [ "$(tail -n 1 out | tr -s ' ')" = " above 4 1542 8.6% 9.2% 0.70 0.98" ] ||
  { echo "block_ends.py --profiles: not the rows"; cat out; failed=1; }
$ends --read "$GSCHED_SOURCE_DIR"/bench/results/gpu/block_ends_decode.*.gz --profiles . 2>err && failed=1
[ "$(cat err)" = "block_ends: .: no profile, expected folders of them" ] || { cat err; failed=1; }
echo '{"experiment": "other"}' >other.json
for file in other.json none.json; do
  $ends --read $file >out 2>err && failed=1
  [ "$(wc -l <err)" -eq 1 ] && grep -q "^block_ends: $file: expected" err || { cat err; failed=1; }
done

# Kernels beside others: those of a small record by hand, and bad files.
beside="python3 $GSCHED_SOURCE_DIR/bench/kernels_beside.py"
$beside --help >out && grep -q -- --pairs out || { echo "kernels_beside.py --help failed"; failed=1; }
python3 - <<'EOF'
import json
import os
short = lambda at, us: [at, us, "small", [4, 1, 1], 128]
long_one = lambda at: [at, 40, "large", [2640, 1, 1], 64]  # 2.5 waves of 8 blocks an SM: of 13.3 us each
pair = {"graphs": ["a_b1", "b_b8"], "alone_us": [3, 41], "beside_us": [41, 42], "alone": [short(3 * i, 2) for i in range(9)],
        "beside": [[short(41 * i + 30, 4 if i % 3 else 6) for i in range(12)], [long_one(41 * i) for i in range(12)]]}
json.dump({"experiment": "kernels_beside", "sms": 132, "pairs": [pair]}, open("beside.json", "w"))
profile = {"operations": [{"name": "large", "block": [64, 1, 1], "max_blocks_per_sm": 8}]}
os.mkdir("profiles")
json.dump(profile, open("profiles/b.json", "w"))
EOF
$beside --read beside.json --profiles profiles >out &&
  [ "$(tr -s ' ' <out | sed -n '2p;$p')" = " a_b1 beside b_b8 3.0 41.0 2.00 4.67 1.00 36.27 p50 2.00, p90 3.00 times as long
 1 to 3 1 0.75 0.75 0.75" ] || { echo "kernels_beside.py --read: not the rows"; cat out; failed=1; }
$beside --read "$GSCHED_SOURCE_DIR"/bench/results/gpu/kernels_beside.*.gz \
  --profiles "$measured/five/profiles" "$measured/others/profiles" >out &&
  [ "$(tr -s ' ' <out | sed -n '2p;15p')" = " lenet_b8 beside vgg16_b8 35.5 99.1 2.49 4.55 1.08 3.82 p50 1.48, p90 2.66 times as long
 more 211 0.86 1.09 1.29" ] || { echo "kernels_beside.py --read: not the rows that ship"; cat out; failed=1; }
for file in other.json none.json; do
  $beside --read $file >out 2>err && failed=1
  [ "$(wc -l <err)" -eq 1 ] && grep -q "^kernels_beside: $file: expected" err || { cat err; failed=1; }
done
$beside --read beside.json --profiles . 2>err >out && failed=1
[ "$(cat err)" = "kernels_beside: beside.json: expected a profile" ] || { cat err; failed=1; }

if [ ! -x "$bench/gsched.gpu.forks" ]; then
  echo "the programs are not built, not tested"
  exit $failed
fi

says() { # says STATUS TEXT PROGRAM ARGS...: that status, and TEXT on the one line of stderr
  local status=$1 text=$2 program=$3 rc
  shift 3
  timeout 60 "$bench/gsched.gpu.$program" "$@" >out 2>err
  rc=$?
  [ $rc -eq "$status" ] && [ "$(wc -l <err)" -eq 1 ] && grep -q "^gsched.gpu.$program: " err &&
    grep -qF -- "$text" err ||
    { echo "$program $*: status $rc, expected $status and one line with '$text'"; cat err; failed=1; }
}
for program in preemption_torture forks; do
  timeout 60 "$bench/gsched.gpu.$program" --help >out 2>&1 && grep -q -- --json out &&
    grep -q -- --seconds out || { echo "$program --help failed"; cat out; failed=1; }
  says 2 no-such $program --no-such
  says 2 seconds $program --seconds 0
done
for program in segment_ends memory_nodes block_order block_starts interference; do
  timeout 60 "$bench/gsched.gpu.$program" --help >out 2>&1 && grep -q -- --json out ||
    { echo "$program --help failed"; cat out; failed=1; }
done
says 2 segments segment_ends --segments 1
says 2 neighbours memory_nodes --neighbours 0
says 2 rounds block_order --rounds 0
says 2 rounds block_starts --rounds 0
says 2 '"square", expected some of forks' preemption_torture --features square
says 2 '"square", expected some of forks' preemption_torture --without square
says 2 connections preemption_torture --connections 0
says 2 no-such preemption_torture --replay no-such
says 2 no-such preemption_torture --keep no-such
says 2 grain forks --grain 0
says 2 'probe "fft", expected one of sleep, copy, ' interference --victim fft --probe fp32
says 2 'probe "fft", expected one of sleep, copy, ' interference --victim fp32 --probe fft
says 2 'probe fp64: level 9, expected 1 to 4' interference --victim fp64:9 --probe fp32
says 2 'probe fp32: level 9, expected 1 to 4' interference --victim fp64 --probe fp32 --level 9
says 2 'suite "nothing", expected one of table3, ' interference --suite table3,nothing
says 2 'expected --victim and --probe' interference --victim fp64
says 2 no-such interference --no-such
says 1 '--graphs: "square", expected' forks --graphs square

# The case of a seed is the same each time, and has the chosen features alone.
torture() { timeout 60 "$bench/gsched.gpu.preemption_torture" --print "$@"; }
torture --seed 5 --max-nodes 40 >a && torture --seed 5 --max-nodes 40 >b && cmp a b || failed=1
grep -q '^case seed=5 ' a && [ "$(grep -c '^graph ' a)" -eq 2 ] || { cat a; failed=1; }
torture --seed 6 --max-nodes 200 --lanes 1 --features sets >a || failed=1
grep -q '^case seed=6 lanes=1 ' a && ! grep -vE '^(case|graph|[0-9]+ (kernel|set)) ' a ||
  { echo "a case of sets has more"; head a; failed=1; }

if ! nvidia-smi -L >smi 2>&1; then
  says 1 expected preemption_torture --cases 1
  says 1 expected forks
  says 1 expected segment_ends
  says 1 expected memory_nodes
  says 1 expected block_order
  says 1 expected interference --suite table3
fi
exit $failed
