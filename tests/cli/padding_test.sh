#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# padding: what it says of models and of pairs of kernels, and one line for each kind of bad input.
set -u
program=$GSCHED_BIN_DIR/padding
data=$GSCHED_SOURCE_DIR/tools/data
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# refuses STATUS TEXT ARGUMENT...: exit status, one line on stderr that says TEXT, nothing on stdout.
refuses() {
  local status=$1 text=$2
  shift 2
  "$program" "$@" > "$work/stdout" 2> "$work/stderr"
  local got=$?
  if [[ $got -ne $status || $(wc -l < "$work/stderr") -ne 1 || -s $work/stdout ]] ||
    ! grep -qF -- "$text" "$work/stderr"; then
    echo "padding $*: status $got, expected $status and '$text'; it said:"
    cat "$work/stdout" "$work/stderr"
    failed=1
  fi
}

"$program" potential --real-time resnet18_b1,bert_base_b1 --best-effort vgg16_b8,googlenet_b1 --predict 1 \
  --json "$work/a.json" > "$work/a.txt" || failed=1
"$program" potential --real-time resnet18_b1,bert_base_b1 --best-effort vgg16_b8,googlenet_b1 --predict 1 \
  --json "$work/b.json" > "$work/b.txt" || failed=1
cmp "$work/a.json" "$work/b.json" && cmp "$work/a.txt" "$work/b.txt" || failed=1
"$program" potential --real-time resnet18_b1 --best-effort googlenet_b1 --corunners 4 --json "$work/c.json" \
  > /dev/null || failed=1
python3 - "$work/a.json" "$work/c.json" <<'PY' || failed=1
import json, sys
a, c = (json.load(open(f))["pairs"] for f in sys.argv[1:])
assert len(a) == 8 and {p["rule_2"] for p in a} == {"own", "needed"}
by = {(p["real_time"], p["best_effort"], p["rule_2"]): p for p in a}
for p in a:
    assert 0 <= p["least_share"] <= p["share"] <= p["most_share"] < 1, p
    assert 0 < p["padded_kernels"] < 1 and 1 <= p["slowdown"] < 1.2, p
    assert 1 <= p["throughput"] < 2, p
one = by["resnet18_b1", "googlenet_b1", "needed"]
four = next(p for p in c if p["rule_2"] == "needed")
assert four["share"] > 1.5 * one["share"], (one, four)  # more co-runners, more that fits
assert sum(p["share"] * (1 if p["rule_2"] == "needed" else -1) for p in a) > 0
PY

cat > "$work/pairs.csv" <<'CSV'
rt_function,rt_shape,rt_bytes,rt_kernel_ns,rt_block_ns,rt_registers,rt_shared_bytes,rt_threads,rt_blocks,be_function,be_shape,be_bytes,be_kernel_ns,be_block_ns,be_registers,be_shared_bytes,be_threads,be_blocks,be_padded_blocks,level,rt_plain_us,rt_padded_us,whole_plain_us,whole_padded_us
gemm,1024,12000000,50000,49000,128,32768,256,128,copy,64M,134000000,40000,3000,32,0,256,2048,136,2,50,52,51,54
copy,64M,134000000,40000,3000,32,0,256,2048,gemm,1024,12000000,50000,49000,128,32768,256,128,4,2,40,41,41,52
CSV
"$program" pairs --facts "$work/pairs.csv" --json "$work/p.json" > "$work/p.txt" || failed=1
grep -q "padded kernels' times: median" "$work/p.txt" || { echo "no errors told"; failed=1; }
cut -d, -f1,3-10,12-18 "$work/pairs.csv" > "$work/facts.csv" # without times
"$program" pairs --facts "$work/facts.csv" --json "$work/f.json" > "$work/f.txt" || failed=1
grep -q 'not by the rules' "$work/f.txt" || { echo "a pair that breaks rule 1 passed"; failed=1; }
python3 - "$work/p.json" "$work/f.json" <<'PY' || failed=1
import json, sys
p, f = (json.load(open(name))["pairs"] for name in sys.argv[1:])
t = p[0]["predicted"]
assert max(t["alone_us"], 0) <= t["part_us"] <= t["whole_us"] < t["one_by_one_us"] and t["speed_up"] > 1, t
assert p[0]["measured"]["whole_padded_us"] == 54
assert f[0]["blocks"] > 0 and f[0]["real_time"] == "gemm" and "measured" not in f[0]
assert f[1]["blocks"] == 0 and "predicted" not in f[1]
PY

change() { # change COLUMN VALUE...: in the first row
  cp "$work/pairs.csv" "$work/bad.csv"
  while [[ $# -gt 0 ]]; do
    awk -F, -v OFS=, -v c="$1" -v v="$2" \
      'NR==1 {for (i = 1; i <= NF; ++i) if ($i == c) n = i} NR==2 {$n = v} 1' "$work/bad.csv" \
      > "$work/next.csv"
    mv "$work/next.csv" "$work/bad.csv"
    shift 2
  done
}
change rt_blocks 0
refuses 2 'expected a whole number from 1' pairs --facts "$work/bad.csv"
change be_kernel_ns -5
refuses 2 "'-5', expected a whole number" pairs --facts "$work/bad.csv"
change be_shared_bytes 300000
refuses 2 'expected one that fits on an SM' pairs --facts "$work/bad.csv"
change rt_threads 1024 rt_registers 64 be_threads 128 be_registers 250
refuses 2 'proxy kernel with 250 registers for each of 1024 threads' pairs --facts "$work/bad.csv"
change whole_plain_us none
refuses 2 "'none', expected microseconds" pairs --facts "$work/bad.csv"
cut -d, -f2- "$work/pairs.csv" > "$work/bad.csv"
refuses 2 'has no column rt_function' pairs --facts "$work/bad.csv"
refuses 2 '--facts' pairs
refuses 2 'none.csv' pairs --facts "$work/none.csv"
refuses 2 'no command, expected potential or pairs'
refuses 2 'expected own or needed' potential --rule other
refuses 2 '--parts' potential --parts 0
refuses 2 '--share' potential --share 1.5
refuses 2 '--corunners' potential --corunners -1
refuses 2 'unknown model' potential --real-time nonesuch
refuses 2 "--device: 'cuda' cannot be used here, expected sim:h200 or a preset's file (.json)" potential --device cuda
refuses 2 '--json' potential --json "$work/no/such/out.json"
exit $failed
