# SPDX-License-Identifier: Apache-2.0
# serve_mix on the GPU here, if there is one: every policy serves every request, in real time.
. "${GSCHED_SOURCE_DIR:?}/tests/cli/expect.sh"

few=(--device cuda --mix lenet_b1=2,squeezenet1_1_b1=1)
run "${few[@]}" --policy fifo --requests 1
if [ "$rc" -eq 1 ] && one_line "CUDA"; then
  echo "no GPU here: passed over"
  exit 0
fi

# All requests finish, but for those that edf turns away.
adds_up() { # adds_up FILE REQUESTS RUNS
  awk -v want="$2" -v runs="$3" '
    /^      "policy":/ { ++n; edf = /"edf"/; left = 0 }
    /^      "submitted":/ { left = $2 + 0; if (left != want) bad = 1 }
    /^      "(finished|rejected|cancelled|failed)":/ { left -= $2 + 0 }
    /^      "(cancelled|failed)":/ { if ($2 + 0 != 0) bad = 1 }
    /^      "rejected":/ { if ($2 + 0 != 0 && !edf) bad = 1 }
    /^      "failed":/ { if (left != 0) bad = 1 }
    END { exit bad || n != runs }' "$1"
}

serves "${few[@]}" --policy all --requests 200 --json all.json --trace all.trace
expect "counts that do not add up" adds_up all.json 200 10
expect "the GPU is not named" grep -q '"device_name": "NVIDIA' all.json
expect "a trace without segments" grep -q '"lane ' all.trace
for law in lognormal:1.5 closed:16; do
  serves "${few[@]}" --policy srpt,direct,single --requests 200 --arrivals $law --json law.json
  expect "counts that do not add up, $law" adds_up law.json 200 3
done
serves "${few[@]}" --policy srpt+deficit,direct --requests 200 --load 2 --queues 32 --json over.json
expect "counts that do not add up, load 2" adds_up over.json 200 2
serves "${few[@]}" --policy srpt --requests 50 --submission launches --json launches.json
expect "counts that do not add up, launches" adds_up launches.json 50 1

# Alone, a model takes about as long as its profile says, and the simulated GPU too.
alone() { # alone DEVICE: mean_solo_us of a model
  run --device "$1" --mix resnet50_b8 --policy single --arrivals closed:1 --requests 20 --json alone.json
  sed -n 's/.*"mean_solo_us": \([0-9.]*\).*/\1/p' alone.json
}
expect "a solo time that is not within 10% of the simulated one" \
  awk -v a="$(alone cuda)" -v b="$(alone sim:h200)" 'BEGIN { exit !(a > 0.9 * b && a < 1.1 * b) }'

finish
