# SPDX-License-Identifier: Apache-2.0
# serve_partitions on the GPU here, if there is one: stand-ins on partitions, and plans that follow.
program=serve_partitions
. "${GSCHED_SOURCE_DIR:?}/tests/cli/expect.sh"

refuses '--interference' --device cuda --rates lenet=10 --interference h200
refuses '--prepare' --device cuda --rates lenet=10 --prepare 1
refuses '--data' --rates lenet=10 --data
refuses 'cuda or cuda:N' --device gpu --rates lenet=10
refuses '--device' --device cuda:x --rates lenet=10

run --device cuda --rates lenet=10 --seconds 0.1
if [ "$rc" -ne 0 ] && one_line "CUDA"; then
  echo "no GPU here: passed over"
  finish
  exit
fi
[ "$rc" -eq 0 ] || fail "expected success, got $rc"
refuses 'stand-ins have no inputs' --device cuda --rates lenet=10 --data
run --device cuda:9 --rates lenet=10
[ "$rc" -eq 1 ] && one_line 'GPU 9' || fail "a GPU that is not there: got $rc"

# FILE LEAST MOST: all requests have ended, at least so many in time, at most that part not.
adds_up() {
  python3 - "$@" <<'PY'
import json, sys
j = json.load(open(sys.argv[1]))
a = j["all"]
assert a["arrived"] == a["in_time"] + a["late"] + a["dropped"] >= float(sys.argv[2]), a
assert a["violations"] <= float(sys.argv[3]), a
assert j["real"]["partitions_made"] > 0 and "NVIDIA" in j["real"]["gpu"], j["real"]
PY
}
# Each file is compared with the GPU here, also where the table's own is not known.
mkdir -p alone/here other
cp "$data/latency_batch_partition.csv" alone/here/table.csv
cp "$data/solo_metrics.csv" alone/here/solo.csv
cp "$data/solo_metrics.csv" "$data/interference/h200.json" other
echo '{"gpu": "NVIDIA T4", "compute_capability": "7.5", "sms": 40, "sm_groups": [40]}' >other/machine.json
alone=(--device cuda --rates lenet=10 --seconds 0.1 --table alone/here/table.csv --sms 64 --group 16)
refuses '--solo other/solo_metrics.csv: measured on NVIDIA T4, not NVIDIA' "${alone[@]}" \
  --solo other/solo_metrics.csv --plan-interference other/h200.json
refuses '--plan-interference other/h200.json: measured on NVIDIA T4, not NVIDIA' "${alone[@]}" \
  --solo alone/here/solo.csv --plan-interference other/h200.json
run "${alone[@]}"
[ "$rc" -eq 0 ] && [ "$(cat err)" = 'serve_partitions: --table alone/here/table.csv: no machine.json beside it, so its GPU is unknown' ] ||
  fail "a table whose GPU is unknown: got $rc"

mix=lenet=1,googlenet=1,resnet50=1,ssdlite_mobilenet=1,vgg16=1
serves --device cuda --max-rates --rates $mix --slo lenet=5 --seconds 2 --once --json most.json
expect "counts of the most that is planned for" adds_up most.json 2000 0.1
printf 'time_s,model,rate\n0,resnet50,50\n1,resnet50,1500\n3,resnet50,100\n0,vgg16,20\n' >rates.csv
serves --device cuda --rate-trace rates.csv --period 0.5 --seconds 4 --json trace.json
expect "counts while rates jump" adds_up trace.json 2500 0.8
expect "no switch of plan" grep -q '"switches": [1-9]' trace.json
finish
