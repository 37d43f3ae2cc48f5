#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sim_accuracy: the figures that the README promises, and one line for each kind of bad input.
set -u
program=$GSCHED_BIN_DIR/sim_accuracy
data=$GSCHED_SOURCE_DIR/tools/data
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# runs WHAT [OPTION...]: leaves its summary for within.
runs() {
  "$program" "$@" --json "$work/out.json" > /dev/null || failed=1
}
# within KIND FIELD LIMIT ...: figures of the last run's summary are at most the limits.
within() {
  python3 - "$work/out.json" "$@" <<'PY' || failed=1
import json, sys
path, *asked = sys.argv[1:]
kinds = {k["kind"]: k for k in json.load(open(path))["kinds"]}
over = not asked
for kind, field, limit in zip(asked[::3], asked[1::3], asked[2::3], strict=True):
    value = abs(kinds[kind][field])
    print(f"{kinds[kind]['rows']} rows, {kind}: {field} {value:.3f}, at most {limit}")
    over |= value > float(limit)
sys.exit(over)
PY
  rm -f "$work/out.json"
}

# refuses STATUS TEXT ARGUMENT...: exit status, one line on stderr that says TEXT, nothing on stdout.
refuses() {
  local status=$1 text=$2
  shift 2
  "$program" "$@" > "$work/stdout" 2> "$work/stderr"
  local got=$? said
  IFS= read -rd '' said < "$work/stderr"
  if [[ $got -ne $status || $said != *$'\n' || ${said%$'\n'} == *$'\n'* || $said != *"$text"* || -s $work/stdout ]]; then
    echo "sim_accuracy $*: status $got, expected $status and '$text'; it said:"
    cat "$work/stdout" "$work/stderr"
    failed=1
  fi
}

# What was measured, and the laws that take its place.
runs graph && within all worst_error 0.001
runs partition && within all p90_error 0.01 all worst_error 0.10
runs graph --ignore-replays && within all worst_error 0.10
runs partition --ignore-replays && within all median_error 0.04 all p90_error 0.10
runs partition --ignore-scaling && within all median_error 0.15 all p90_error 0.35
runs corun && within disjoint p90_error 0.07 shared p90_error 0.20
# Graphs that no law was fitted on; one of them has branches.
for set in blind mixed; do
  of=$data/measured/$set
  runs corun --profiles "$of/profiles" --table "$of/corun_pairs.csv" &&
    within disjoint p90_error 0.10 shared p90_error 0.30
done

# The preset that ships is the default device; another one has other times.
sed -E 's/"sms": 132/"sms": 66/' "$data/presets/h200.json" > "$work/half.json"
for device in sim:h200 "$data/presets/h200.json" "$work/half.json"; do
  "$program" graph --profiles "$data/profiles/vgg16_b8.json" --device "$device" > "$work/$(basename "$device").txt" ||
    failed=1
done
cmp "$work/sim:h200.txt" "$work/h200.json.txt" || { echo 'the preset that ships differs'; failed=1; }
cmp -s "$work/sim:h200.txt" "$work/half.json.txt" && { echo '--device FILE is not used'; failed=1; }
refuses 2 "--device: 'cuda' cannot be used here, expected sim:h200 or a preset's file (.json)" graph --device cuda
refuses 2 "--device: unknown device 'sim:a100'" graph --device sim:a100

refuses 2 'no command, expected graph, partition or corun'
refuses 2 'no-such' graph --no-such
refuses 2 'cannot be opened' graph --profiles "$work/none.json"
mkdir "$work/empty"
refuses 2 'no *.json' graph --profiles "$work/empty"
: > "$work/broken.json"
refuses 2 'broken.json' graph --profiles "$work/broken.json"
cp "$data/profiles/lenet_b1.json" "$work/empty/a.json"
cp "$data/profiles/lenet_b1.json" "$work/empty/b.json"
refuses 2 'read already' graph --profiles "$work/empty"
refuses 2 'cannot be opened' partition --table "$work/none.csv"
refuses 2 'is a directory' partition --table "$work"
: > "$work/t.csv"
refuses 2 'is empty' partition --table "$work/t.csv"
echo 'model,batch,sms' > "$work/t.csv"
refuses 2 'no column latency_us' partition --table "$work/t.csv"
printf 'model,batch,sms,latency_us\nlenet,1,8\n' > "$work/t.csv"
refuses 2 't.csv:2: 3 fields' partition --table "$work/t.csv"
for bad in x 0 -1 1.5 99999999999 ''; do
  printf 'model,batch,sms,latency_us\nlenet,1,%s,30\n' "$bad" > "$work/t.csv"
  refuses 2 't.csv:2:' partition --table "$work/t.csv"
done
for bad in x 0 -1 nan inf ''; do
  printf 'model,batch,sms,latency_us\nlenet,1,8,%s\n' "$bad" > "$work/t.csv"
  refuses 2 't.csv:2:' partition --table "$work/t.csv"
done
header='model_a,batch_a,sms_a,model_b,batch_b,sms_b,solo_a_us,solo_b_us,corun_a_us,corun_b_us'
printf '%s\nlenet,1,100,lenet,1,100,30,30,30,30\n' "$header" > "$work/t.csv"
refuses 2 'expected at most what is left' corun --table "$work/t.csv"
refuses 2 'cannot be written' graph --profiles "$data/profiles/lenet_b1.json" --json "$work/no/out.json"

exit $failed
