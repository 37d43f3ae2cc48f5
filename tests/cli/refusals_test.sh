# SPDX-License-Identifier: Apache-2.0
# What all programs have in common: results that standard output does not take are a failure, and
# options that would be taken and ignored, empty values, values named twice and runs without bound
# are refused in one line.
. "${GSCHED_SOURCE_DIR:?}/tests/cli/expect.sh"
bins=${GSCHED_BIN_DIR:?}

of() { # of PROGRAM: what follows is about it
  program=$1 bin=$bins/$1
}

fails() { # fails STATUS TEXT ARGS...: exit status and one line, whatever was printed before it
  local status=$1 text=$2
  shift 2
  run "$@"
  [ "$rc" -eq "$status" ] && one_line "$text" ||
    fail "expected $status and one line with '$text', got $rc: $program $*"
}

# A stream that is full or closed, for results and for help; a file is not opened in its place.
lost() { # lost ARGS...
  local how
  for how in '>/dev/full' '>&-'; do
    checks=$((checks + 1))
    : >out
    eval "timeout 120 \"$bin\" \"\$@\" $how 2>err </dev/null"
    rc=$?
    [ "$rc" -eq 1 ] && one_line "standard output" || fail "expected 1, got $rc: $program $* $how"
  done
}
small=$data/profiles/lenet_b1.json
for program in serve_mix realtime plan serve_partitions head_of_line padding interference idempotence \
  sim_accuracy calibrate profile gsched_server; do
  of $program
  [ -x "$bin" ] || continue
  lost --help
done
of serve_mix && lost --requests 5
of realtime && lost --seconds 0.01 --mode preempt
of plan && lost --rates lenet=10
of serve_partitions && lost --rates lenet=10 --seconds 1
of head_of_line && lost --jobs 2
of padding && lost potential --real-time lenet_b1 --best-effort lenet_b1 --starts 1
awk -F, 'NR == 1 || ($1 == "lenet" && $4 == "lenet")' "$data/corun_pairs.csv" >few.csv # all of them take seconds
[ ! -x "$bins/interference" ] || { of interference && lost evaluate --coefficients "$data/interference/h200.json" --corun few.csv --laws disjoint_means; }
of idempotence && lost --trace "$data/traces/block.json"
of sim_accuracy && lost graph --profiles "$small"
of serve_mix
checks=$((checks + 1))
"$bin" --requests 5 --json results.json 2>err >&- </dev/null
python3 -c 'import json; json.load(open("results.json"))' ||
  fail "a table in the file that has standard output's number"
checks=$((checks + 1))
"$bin" --requests 5 -q --json results.json 2>err >&- </dev/null || fail "nothing was to be printed"

of embedded_server
refuses "an argument" --anything

of plan_server
refuses "an argument" --anything

of two_tenants
for how in '>/dev/full' '>&-'; do
  checks=$((checks + 1))
  eval "\"$bin\" $how 2>err"
  [ $? -eq 1 ] && [ -s err ] || fail "two_tenants $how"
done
refuses "an argument" --anything

# Options that say nothing where others are given.
of plan
refuses "--solo: given where no interference is asked for" --rates lenet=5 --solo /nonexistent
refuses "--models: given without --scenarios" --rates lenet=5 --models lenet
refuses "--levels: given without --scenarios" --rates lenet=5 --levels 3
refuses "--plot: given beside --max-scale" --rates lenet=5 --max-scale --plot x.svg
printf 'model,rate\nlenet,1\n' >lenet.csv
for program in plan serve_partitions; do
  of $program
  refuses "--slo: vgg16 has no rate" --rates lenet=5 --slo vgg16=30
  refuses "--slo: game has no rate" --rates lenet=5 --slo lenet=5,game=30
  refuses "--slo: vgg16 has no rate" --app game=5 --slo vgg16=30
  refuses "--slo-factor: given where --slo names every model" --rates lenet=5 --slo lenet=5 --slo-factor 3
  refuses "--slo-factor: given where --slo names every model" --app game=5 --slo game=50 --slo-factor 3
done
serves --rates lenet=5,vgg16=5 --slo lenet=5 --slo-factor 3 --seconds 1
serves --app game=5 --slo lenet=5,game=50 --slo-factor 3 --seconds 1
of plan
refuses "--slo: vgg16 has no rate" --rates-file lenet.csv --slo vgg16=30
refuses "--slo: vgg16 has no rate" --scenarios all --models lenet --slo vgg16=30
refuses "--slo-factor: given where --slo names" --scenarios all --models lenet --slo lenet=5 --slo-factor 3
serves --scenarios all --models lenet,vgg16 --levels 1 --slo lenet=5 --slo-factor 3 --planner sbp
of serve_partitions
whole="--rates lenet=5 --planner whole"
for option in "--headroom 2" "--clusters 2" "--tolerance 0.2" "--fall 0.2" "--prepare 1" "--switch-us 5" \
  "--group 4" "--interference none" "--plan-interference none" "--solo none.csv"; do
  # shellcheck disable=SC2086
  refuses "${option% *}: given beside --planner whole" $whole $option
done
# shellcheck disable=SC2086
serves $whole --seconds 90 --period 5 --rate-error 0.9 --json whole.json
expect "whole GPUs change their plan" python3 -c '
import json
d = json.load(open("whole.json"))
assert d["switches"] == 0 and not d["replans"] and d["headroom"] == 1 and d["clusters"] == 0, d
assert not d["interference"] and not d["planned_interference"], d'
refuses "--rate-scale: given beside --max-rates" --rates lenet=5 --max-rates --rate-scale 2
refuses "--fall: given beside --once" --rates lenet=5 --once --fall 0.1
refuses "--solo: given where no interference" --rates lenet=5 --interference none --solo none.csv
of idempotence
refuses "--limit: given without a GPU" --trace "$data/traces/block.json" --limit 3
of realtime
refuses "--reserve-tail: given without --reserve" --reserve-tail 3
refuses "--reserve-share: given without --reserve" --reserve-fixed 8 --reserve-share 3
refuses "--pad-places: given beside --pad none" --pad none --pad-places 3
refuses "--tolerance: given beside --pad none and --side none" --pad none --side none --tolerance 3
refuses "--long-operation: given without --reserve" --long-operation 50
refuses "--long-operation: given without --reserve" --reserve none --long-operation 50
refuses "--quantum: given without a mode that schedules" --mode seq,streams --quantum 50
refuses "--lanes: given without a mode that preempts" --mode rt_only,seq --lanes 4
refuses "--leaves: given without a mode that preempts" --mode rt_only --leaves never
refuses "--reserve: given without a mode that preempts" --mode streams --reserve 8
refuses "--side: given without the mode preempt_pad" --mode rt_only,preempt --side 8
refuses "--quantum: 60 us with kernels that leave" --mode preempt --leaves at_checkpoints --quantum 60
refuses "--most-quantum: 60 us with kernels that leave" --leaves at_checkpoints --quantum 20 --most-quantum 60
serves --seconds 0.01 --mode seq,preempt --quantum 50 --lanes 3
of serve_mix
refuses "--slice: given without the policy rr" --policy fifo --slice 50
refuses "--threshold: given without the policy srpt+deficit" --policy rr,deficit --threshold 50
refuses "--weights: given without a policy that shares by weight" --policy srpt --weights 1,2
refuses "--evict: given without a policy that preempts" --policy fifo,deficit --evict yes
refuses "--quantum: given with direct and single alone" --policy direct,single --quantum 50
refuses "--lanes: given with direct and single alone" --policy direct --lanes 4
serves --requests 5 --policy direct,rr,srpt+deficit --slice 50 --threshold 50 --lanes 4
serves --requests 5 --policy boost:1 --evict yes
printf 'time_us,model,client\n0,lenet_b1,0\n' >one.csv
trace="--mix lenet_b1 --arrivals trace:one.csv --policy fifo"
for option in "--seed 5" "--load 0.5" "--rate 5"; do
  # shellcheck disable=SC2086
  refuses "${option% *}: given" $trace $option
done
# shellcheck disable=SC2086
serves $trace --slo 2x:5x --seed 5 # drawn
# shellcheck disable=SC2086
refuses "--seed: given" $trace --slo 2x --seed 5
# shellcheck disable=SC2086
serves $trace --json one.json
expect "more is told of a trace than it has" bash -c 'head -1 out | grep -q ": 1 requests of 8 clients, trace:one.csv arrivals, deadline 10 ms$"'
expect "a seed of what is not drawn" python3 -c 'import json; assert json.load(open("one.json"))["seed"] is None'
of plan
refuses "--no-suggest: given beside --max-scale" --rates lenet=5 --max-scale --no-suggest
refuses "--no-suggest: given beside --max-scale or for several" --scenarios all --models lenet --no-suggest
of serve_partitions
refuses "--prepare: given beside --once" --rates lenet=5 --once --prepare 1
refuses "--switch-us: given beside --once" --rates lenet=5 --once --switch-us 1
if [ -x "$bins/interference" ]; then
  of interference
  refuses "--out: './a.json' is also that of --json" fit --json a.json --out ./a.json
fi

# --device is spelled and checked alike in all programs, and each says what it can be there.
for line in "serve_mix --requests 3" "realtime --seconds 0.001 --mode seq" "serve_partitions --rates lenet=5 --seconds 1" \
  "head_of_line --jobs 2" "padding potential --real-time lenet_b1 --best-effort lenet_b1 --starts 1" \
  "sim_accuracy graph --profiles $small"; do
  # shellcheck disable=SC2086
  set -- $line
  of "$1"
  shift
  refuses "--device: unknown device 'sim:a100', expected sim:h200" "$@" --device sim:a100
  refuses "--device: 'host' cannot be used here, expected sim:h200" "$@" --device host
  serves "$@" --device sim
  cp out sim.txt
  serves "$@" --device sim:h200
  expect "$line: sim is not sim:h200" cmp -s out sim.txt
  serves "$@" --quiet
  expect "$line: --quiet prints" test ! -s out
done
for line in "head_of_line" "padding potential" "sim_accuracy graph"; do
  # shellcheck disable=SC2086
  set -- $line
  of "$1"
  shift
  refuses "--device: 'cuda' cannot be used here, expected sim:h200 or a preset's file (.json)" "$@" --device cuda
done
of serve_partitions
refuses "--device: 'x.json' cannot be used here, expected sim:h200, cuda or cuda:N" --rates lenet=5 --device x.json
of idempotence
refuses "--device: 'sim' cannot be used here, expected host, cuda or cuda:N" --device sim
serves --trace "$data/traces/block.json" --quiet
expect "idempotence: --quiet prints" test ! -s out
of plan
serves --rates lenet=5 --planner sbp --quiet
expect "plan: --quiet prints" test ! -s out
of head_of_line
sed -E 's/"sms": 132/"sms": 16/' "$data/presets/h200.json" >small_device.json
serves --jobs 256 --kernels 2 --queues 128 --device small_device.json --json small.json
serves --jobs 256 --kernels 2 --queues 128 --json large.json
expect "head_of_line does not use its device" bash -c '! cmp -s <(grep job_by_job small.json) <(grep job_by_job large.json)'
of sim_accuracy
refuses "--ignore-scaling" graph --ignore-scaling

# Empty values.
of serve_mix
for option in --mix --slo --policy --profiles --device --queues --seed --rate --json; do
  refuses "$option: '' is empty" $option ''
done
of realtime
for option in --workload --mode --side --pad --before --reserve --reserve-fixed --requests --leaves; do
  refuses "$option: '' is empty" $option ''
done
of plan
for option in --table --slo --app --planner --interference --solo --json --plot; do
  refuses "$option: '' is empty" --rates lenet=5 $option ''
done
of serve_partitions
for option in --slo --app --gpus --batches --added-us --interference --rate-trace --json; do
  refuses "$option: '' is empty" --rates lenet=5 $option ''
done
of padding
for option in --rule --real-time --best-effort --json --device; do
  refuses "$option: '' is empty" potential $option ''
done
of idempotence
for option in --declare --json --device; do
  refuses "$option: '' is empty" --trace "$data/traces/block.json" $option ''
done
of sim_accuracy
for option in --json --profiles --device; do
  refuses "$option: '' is empty" graph $option ''
done
of head_of_line
refuses "--json: '' is empty" --json ''

# Values that are named twice.
of head_of_line && refuses "'8' is named twice" --queues 8,8
of realtime
refuses "--side: '8' is named twice" --side 8,8
refuses "--side: '08' is named twice" --side 8,08
of serve_mix
refuses "--policy: 'boost:0.3', that is boost, is named twice" --policy boost,boost:0.3
refuses "--policy: 'boost:1.0', that is boost:1, is named twice" --policy boost:1,fifo,boost:1.0
refuses "--policy: 'boost' is named twice" --policy boost,boost
serves --requests 5 --policy boost,boost:1,boost:0.5
of padding
refuses "--best-effort: 'lenet_b1' is named twice" potential --best-effort lenet_b1,lenet_b1
refuses "--real-time: 'lenet_b1' is named twice" potential --real-time lenet_b1,lenet_b1
of serve_partitions && refuses "--batches: '4' is named twice" --rates lenet=5 --batches 4,8,4
of plan
refuses "--levels: '1.0' is named twice" --scenarios all --models lenet --levels 1,1.0
printf 'model,rate,rate\nlenet,1,2\n' >twice.csv
refuses "twice.csv:1: has column rate twice" --rates-file twice.csv

# What contradicts itself.
of serve_mix
refuses "--quantum: 300 us is above --most-quantum, 200 us" --quantum 300 --most-quantum 200
serves --requests 5 --quantum 1000
of realtime
refuses "--quantum: 300 us is above --most-quantum, 200 us" --quantum 300 --most-quantum 200
of serve_mix && refuses "--trace: './x.json' is also that of --json" --json x.json --trace ./x.json

# An output that is also an input, by any name of it. The input stays as it is.
over() { # over INPUT_FILE OPTION ARGS...: the arguments, with the output's option last
  local input=$1
  shift
  cp "$input" before
  ln -sf "$(realpath "$input")" by_symlink.json
  ln -f "$input" by_link.json
  for name in "$input" "./$input" "$PWD/$input" by_symlink.json by_link.json; do
    refuses "'$name' is also the input of" "$@" "$name"
  done
  checks=$((checks + 1))
  cmp -s "$input" before || fail "$input was written to"
  rm -f by_symlink.json by_link.json
}
cp "$data/profiles/lenet_b1.json" "$data/workloads/disb_a.json" "$data/apps/game.json" \
  "$data/traces/block.json" .
cp "$data/interference/h200.json" law.json
cp "$data/presets/h200.json" preset.json
cp "$data/latency_batch_partition.csv" latency.csv
printf 'time_us,model,client\n0,lenet_b1,0\n' >times.csv
printf 'model,rate\nlenet,1\n' >rates.csv
printf 'time_s,model,rate\n0,lenet,1\n' >curve.csv
mkdir -p many && cp lenet_b1.json many
of serve_mix
over lenet_b1.json --profiles lenet_b1.json --requests 3 --json
over many/lenet_b1.json --profiles many --mix lenet_b1 --requests 3 --trace
over preset.json --device preset.json --requests 3 --json
over times.csv --mix lenet_b1 --clients 1 --arrivals trace:times.csv --json
of realtime
over disb_a.json --workload disb_a.json --seconds 0.01 --json
over preset.json --workload disb_a --device preset.json --seconds 0.01 --trace
sed 's/"law": "uniform", "load": 0.5/"law": "trace", "file": "times.csv"/' disb_a.json >traced.json
over times.csv --workload traced.json --seconds 0.01 --json
of plan
over latency.csv --rates lenet=5 --table latency.csv --json
over rates.csv --rates-file rates.csv --json
over game.json --app game.json=5 --json
over law.json --rates lenet=5 --interference law.json --json
of serve_partitions
over latency.csv --rates lenet=5 --once --seconds 1 --table latency.csv --interference none --json
over curve.csv --rate-trace curve.csv --seconds 1 --json
over law.json --rates lenet=5 --once --seconds 1 --plan-interference law.json --json
of padding
over many/lenet_b1.json potential --profiles many --starts 1 --json
over many/lenet_b1.json potential --profiles many --real-time lenet_b1 --best-effort lenet_b1 --starts 1 --json
of idempotence && over block.json --trace block.json --json
of sim_accuracy
over many/lenet_b1.json graph --profiles many --json
over preset.json graph --device preset.json --profiles many --json
if [ -x "$bins/calibrate" ]; then
  of calibrate
  over preset.json --device preset.json --out
  over preset.json --device preset.json --json
  refuses "--name: given without --out" --device preset.json --json x.json --name mine
  refuses "--date: given without --out or --json" --device preset.json --date 1.1.
  of profile && over lenet_b1.json --replay lenet_b1.json --out
fi
if [ -x "$bins/interference" ]; then
  of interference
  over law.json evaluate --coefficients law.json --json
  over many/lenet_b1.json evaluate --coefficients law.json --profiles many --json
fi

# Input errors are told as such, in one line, wherever they are noticed.
of padding
refuses "none.json' does not exist" potential --profiles none.json
printf '{"model": 3' >broken.json
refuses "broken.json" potential --profiles broken.json
printf 'a,b\n1,2\n' >facts.csv
refuses "facts.csv:1: has no column" pairs --facts facts.csv
refuses "'none.csv' does not exist" pairs --facts none.csv
refuses "'.' is a directory" pairs --facts .
of realtime
fails 1 "--before 'no_such_command_here': status 127" --seconds 0.01 --mode seq --before no_such_command_here
fails 1 "--before 'echo one >&2; echo two >&2; false': status 1, 'one'" --seconds 0.01 --mode seq \
  --before 'echo one >&2; echo two >&2; false'
of sim_accuracy
printf 'model,batch,sms,latency_us\nresnet18,1,8,1%0300d\n' 0 >digits.csv
refuses "digits.csv:2: '1000" partition --table digits.csv

# No output is looked for only after a long run.
for line in "head_of_line" "sim_accuracy graph" "interference evaluate" "padding potential" \
  "plan --rates lenet=5" "serve_partitions --rates lenet=5"; do
  # shellcheck disable=SC2086
  set -- $line
  of "$1"
  [ -x "$bin" ] || continue
  shift
  checks=$((checks + 1))
  timeout 5 "$bin" "$@" --json none/x.json >out 2>err </dev/null
  [ $? -eq 2 ] && [ ! -s out ] && one_line "--json: 'none/x.json' cannot be written" ||
    fail "$line: a path that cannot be written"
done

# Runs without bound.
of serve_partitions && refuses "requests in all" --rates lenet=1e9
of head_of_line && refuses "655360000 kernels" --jobs 65536 --kernels 10000

# plan's search for a scale is timed, and off if so wished.
of plan
serves --rates vgg16=1e6 --gpus 1 --planner sbp --json none.json
expect "the search's time is not told" grep -qE 'at most .* \(searched for in [0-9.]+ s\)' out
expect "nor in JSON" grep -q '"suggesting_us"' none.json
serves --rates vgg16=1e6 --gpus 1 --planner sbp --no-suggest --json none.json
expect "--no-suggest" bash -c 'grep -q "no plan" out && ! grep -q "at most" out'
expect "--no-suggest in JSON" bash -c '! grep -q suggest none.json'

finish
