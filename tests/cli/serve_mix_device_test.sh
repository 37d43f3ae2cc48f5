# SPDX-License-Identifier: Apache-2.0
# Devices other than the default: a preset's file, and a GPU that is not there.
. "${GSCHED_SOURCE_DIR:?}/tests/cli/expect.sh"

few=(--requests 100 --policy srpt,direct)
preset=$data/presets/h200.json

# The preset that ships is the default device, but for the name that results carry.
serves "${few[@]}" --json default.json
serves "${few[@]}" --device "$preset" --json preset.json
expect "the preset's GPU is not named" grep -q '"device_name": "NVIDIA H200"' preset.json
expect "the default device has a name" bash -c '! grep -q device_name default.json'
expect "other results from the preset of the same GPU" \
  cmp -s <(grep -v '"wall_s"\|"device' default.json) <(grep -v '"wall_s"\|"device' preset.json)

# Another GPU, other results; --queues goes over the file.
sed -E 's/"sms": 132/"sms": 16/' "$preset" >small.json
expect "the edit changes nothing" bash -c "! cmp -s small.json '$preset'"
serves "${few[@]}" --device small.json --json small_out.json
serves "${few[@]}" --json big_out.json
expect "the same results on fewer SMs" \
  bash -c '! cmp -s <(grep -A5 latency_us small_out.json) <(grep -A5 latency_us big_out.json)'

# Presets that cannot be read.
: >empty.json
refuses "empty.json" --device empty.json
sed 's/"sms": 132/"sms": "many"/' "$preset" >wrong.json
refuses "wrong.json: " --device wrong.json
mkdir directory.json
run --device directory.json
[ "$rc" -eq 2 ] && one_line "is a directory" || fail "expected 2 for a directory, got $rc"

# No GPU: one line and 1, in a build with CUDA and in one without.
export CUDA_VISIBLE_DEVICES=
for device in cuda cuda:0 cuda:7; do
  run --device $device
  [ "$rc" -eq 1 ] && [ ! -s out ] && one_line "CUDA" || fail "expected 1 for $device, got $rc"
done

finish
