# SPDX-License-Identifier: Apache-2.0
# realtime: what its command line and its files must be like, and what a run writes.
program=realtime
. "${GSCHED_SOURCE_DIR:?}/tests/cli/expect.sh"

modes=rt_only,seq,streams,streams_priority,preempt,preempt_pad
few=(--seconds 0.05)
same() { cmp -s <(grep -v '"wall_s"' "$1") <(grep -v '"wall_s"' "$2"); }

# Help teaches.
serves --help
for word in ${modes//,/ } --workload --profiles --seconds --requests --seed --mode --floor --side \
  --pad --pad-places --pad-slow-down --before --tolerance --reserve --reserve-fixed --long-operation --reserve-slow-down --reserve-tail \
  --reserve-share --leaves --lanes --rt-lanes --device --json --trace --plot Examples disb_a pair_ long_; do
  expect "--help lacks $word" grep -qF -- "$word" out
done

# The command line.
refuses "--workload: unknown workload 'disb_z'" --workload disb_z
refuses "--workload: 'none.json' does not exist" --workload none.json
refuses "--mode: unknown mode 'magic'" --mode seq,magic
refuses "'seq' is named twice" --mode seq,preempt,seq
refuses "empty item" --mode seq,
refuses "--leaves: unknown value 'now', expected never" --leaves now
refuses "--side: 5 sizes" --side 8,16,24,32,40
refuses "--pad: unknown value 'much', expected none, own or needed" --pad much
refuses "--pad-places: " --pad-places 1
refuses "--pad-slow-down: '-1' is out of range" --pad-slow-down -1
refuses "--pad-slow-down" --pad-slow-down 5 --pad none
refuses "--pad-slow-down" --pad-slow-down 5 --mode preempt
refuses "--pad-slow-down: no counters of the kernels of 'bert_base_b8'" \
  --pad-slow-down 5 --workload pair_resnet50_bert --mode preempt_pad
refuses "--device: unknown device 'gpu'" --device gpu
refuses "--frobnicate" --frobnicate
for bad in 0 -1 nan inf abc ''; do
  refuses "--seconds: " --seconds "$bad"
  refuses "--side: " --side "$bad"
  refuses "--requests: " --requests "$bad"
  refuses "--rt-lanes: " --rt-lanes "$bad"
done
for bad in -1 1 nan x; do refuses "--floor: " --floor "$bad"; done
refuses "--tolerance: " --tolerance -5
for bad in 8,0 x '' -1; do refuses "--reserve: " --reserve "$bad"; done
refuses "--reserve: 5 sizes" --reserve 8,16,24,32,40
refuses "--reserve: '16,8' does not rise" --reserve 16,8
refuses "--reserve-fixed: --reserve is given too" --reserve 8 --reserve-fixed 8
refuses "--reserve-fixed: " --reserve-fixed x
refuses "--long-operation: " --long-operation 0
refuses "--reserve-slow-down: " --reserve-slow-down -1
refuses "--reserve-tail: " --reserve-tail nan
refuses "--reserve-share: " --reserve-share 101
refuses "--side: " --side 8,0
refuses "is also that of --json" --json same.svg --plot same.svg
refuses "--trace: '' is empty" --trace ''
refuses "--plot: 'picture.gif' has an unknown type" --plot picture.gif
mkdir empty
refuses "--profiles: no .json file in 'empty'" --profiles empty
refuses "clients/0/model: unknown model 'vgg16_b1'" --profiles "$data/profiles/lenet_b1.json"

# Workloads: bad TEXT CLIENT...: refused with the file's name and TEXT.
client='{"name": "r", "class": "real_time", "model": "lenet_b1", "arrivals": {"law": "uniform", "load": 0.5}}'
bad() {
  local text=$1
  shift
  printf '{"gsched_workload": 1, "name": "w", "clients": [%s]}\n' "$*" >w.json
  refuses "w.json: $text" --workload w.json
}
changed() { # changed TEXT SCRIPT: the client, edited by sed
  local edited
  edited=$(sed -E "$2" <<<"$client")
  checks=$((checks + 1))
  [ "$edited" != "$client" ] || fail "'$2' changes nothing"
  bad "$1" "$edited"
}
bad "/clients has 0 elements"
bad "/clients/1/name is also that of clients/0" "$client, $client"
bad "no real-time client" "${client/real_time/best_effort}"
bad "/clients/0 is 7" 7
changed "/clients/0/name is missing" 's/"name": "r", //'
changed "/clients/0/name is \"\"" 's/"r"/""/'
changed "/clients/0/name has a comma" 's/"r"/"r,s"/'
changed "/clients/0/class is \"batch\"" 's/real_time/batch/'
changed "/clients/0/arrivals/law is \"burst\"" 's/uniform/burst/'
changed "/clients/0/arrivals has no load" 's/, "load": 0.5//'
changed "/clients/0/arrivals has load and rate_per_s" 's/0.5/0.5, "rate_per_s": 3/'
changed "/clients/0/arrivals/load is 0" 's/0.5/0/'
changed "/clients/0/arrivals/load is -1" 's/0.5/-1/'
changed "/clients/0/arrivals has the unknown key \"think_us\"" 's/0.5/0.5, "think_us": 3/'
changed "/clients/0/arrivals has the unknown key \"load\"" 's/uniform/closed/'
changed "/clients/0/arrivals/file is missing" 's/"uniform", "load": 0.5/"trace"/'
changed "the document has the key \"law\" twice" 's/"law"/"law": "closed", "law"/'
changed "/clients/0 has the unknown key \"Model\"" 's/"model"/"Model": 1, "model"/'
: >empty.json
refuses "empty.json: empty" --workload empty.json
echo '{"gsched_workload": 2, "name": "w", "clients": []}' >two.json
refuses "two.json: /gsched_workload is 2" --workload two.json
run --workload empty/../. # a directory has no such ending
[ "$rc" -eq 2 ] && one_line "unknown workload" || fail "a directory as a workload"

# A trace of one's own.
traced() { # traced ARRIVALS
  printf '{"gsched_workload": 1, "name": "t", "clients": [{"name": "r", "class": "real_time", "model":
    "lenet_b1", "arrivals": {"law": "trace", "file": "t.csv"%s}}]}\n' "$1" >t.json
}
printf '0,r\n500,r\n1000.5,r\n' >t.csv
traced ''
serves "${few[@]}" --workload t.json --mode rt_only --json t_out.json
expect "not the trace's three requests" grep -q '"requests": 3' t_out.json
traced ', "repeat_us": 2000, "speedup": 2'
serves --workload t.json --mode rt_only --requests 10 --json t_out.json
expect "not ten requests of a trace that repeats" grep -q '"requests": 10' t_out.json
traced ', "repeat_us": 900'
refuses "repeat_us is before the trace's end" "${few[@]}" --workload t.json --mode rt_only
printf '0,r\n500,q\n' >t.csv
refuses 't.csv:2: model "q"' "${few[@]}" --workload t.json
printf '5,r\n1,r\n' >t.csv
refuses 't.csv:2: time' "${few[@]}" --workload t.json
: >t.csv
refuses "t.csv: no request of r" "${few[@]}" --workload t.json
rm t.csv
refuses "t.csv: cannot be opened" "${few[@]}" --workload t.json

# Every mode: the fields, nothing lost, the same bytes from the same seed.
serves "${few[@]}" --workload disb_e --mode all --json a.json --trace a.trace
serves "${few[@]}" --workload disb_e --mode $modes --json b.json --trace b.trace
expect "another JSON from the same seed" same a.json b.json
expect "another trace from the same seed" cmp -s a.trace b.trace
# Nor do they depend on the threads: a.json was made on one, as --trace has it.
for threads in 1 3 16; do
  serves "${few[@]}" --workload disb_e --mode all --threads $threads --json b.json
  expect "another JSON with $threads threads" same a.json b.json
done
refuses "--threads: more than one beside --trace, expected 1, or no --trace" --threads 2 --trace t.json
refuses "--threads: more than one beside --before, expected 1, or no --before" --threads 2 --before true
refuses "--threads" --threads 0
refuses "--threads" --threads ''
serves "${few[@]}" --workload disb_e --seed 2 --json c.json
expect "the same results from another seed" bash -c '! cmp -s <(grep -A5 latency_us a.json) <(grep -A5 latency_us c.json)'
for mode in ${modes//,/ }; do expect "the table lacks $mode" grep -q "^$mode " out; done
cat >check.py <<'PY'
import json, sys
said = json.load(open(sys.argv[1]))
runs = {r["mode"]: r for r in said["runs"]}
assert list(runs) == "rt_only seq streams streams_priority preempt preempt_pad".split(), list(runs)
for mode, r in runs.items():
    assert r["device"] == "sim:h200" and r["workload"] == "DISB E", r
    assert set(r["rt"]) == {"requests", "latency_us", "normalised_latency", "slowdown_vs_rt_only"}
    assert set(r["rt"]["latency_us"]) == {"mean", "p50", "p90", "p99", "max"}
    assert set(r["be"]) == {"finished", "per_s", "work_done_share"}
    assert set(r["throughput"]) == {"normalised", "real_time", "vs_seq"}
    for what in ("preemptions", "restores"):
        assert set(r[what]) == {"count", "latency_us"} and set(r[what]["latency_us"]) == {"p50", "p99"}
    assert r["lost"] == 0 and r["rerun_blocks"] == 0, r
    for c in r["clients"]:
        assert c["submitted"] == c["finished"] > 0, (mode, c)
        assert c["lost"] == c["rejected"] == c["cancelled"] == c["failed"] == 0, (mode, c)
    assert r["rt"]["requests"] == runs["rt_only"]["rt"]["requests"] > 10, mode
    assert (r["preemptions"]["count"] > 0) == mode.startswith("preempt"), mode
    assert (r["be"]["finished"] > 0) == (mode != "rt_only"), mode
assert len(runs["rt_only"]["clients"]) == 5 and len(runs["seq"]["clients"]) == 10
assert runs["rt_only"]["rt"]["slowdown_vs_rt_only"] == 1 and runs["seq"]["throughput"]["vs_seq"] == 1
assert runs["preempt"]["rt"]["slowdown_vs_rt_only"] < 1.1 < runs["seq"]["rt"]["slowdown_vs_rt_only"]
assert 0.9 < runs["seq"]["be"]["work_done_share"] < 1.1, runs["seq"]["be"]
PY
expect "results that are not as they must be" python3 check.py a.json
expect "a trace that breaks the rules" python3 "$GSCHED_SOURCE_DIR/tests/cli/trace_rules.py" a.trace 0 ${modes//,/ }
for word in '"preempt"' '"real-time requests"' '"lane ' ', preemption"' '"leaving"' '"preempted"' '"resuming"'; do
  expect "the trace lacks $word" grep -qF -- "$word" a.trace
done

# Each workload that ships, and each way to leave.
for file in "$data"/workloads/*.json; do
  name=$(basename "$file" .json)
  serves --seconds 0.02 --workload "$name" --mode rt_only,preempt --json w_out.json
  expect "$name: something was lost" grep -q '"lost": 0' w_out.json
done
for leaves in never between_blocks at_checkpoints; do
  serves "${few[@]}" --workload pair_bert_vgg16 --mode preempt,preempt_pad --leaves $leaves --json l.json
  expect "$leaves: a block ran twice" bash -c '[ "$(grep -c "\"rerun_blocks\": 0" l.json)" = 2 ]'
done

# SMs that long kernels leave: fixed, learned, and none for short kernels.
for file in off bound fixed learned short; do
  case $file in
    off) how=(--workload long_persistent) ;;
    bound) how=(--workload long_persistent --reserve-fixed 0) ;;
    fixed) how=(--workload long_persistent --reserve-fixed 16) ;;
    learned) how=(--workload long_attention --reserve 8,32) ;;
    short) how=(--reserve 8,32) ;;
  esac
  serves --seconds 1 --mode rt_only,preempt --lanes 1 --quantum 2000 "${how[@]}" --json r_$file.json
done
cat >reserve.py <<'PY'
import json
def of(name):
    said = json.load(open(f"r_{name}.json"))
    return next(r for r in said["runs"] if r["mode"] == "preempt"), said["scheduling"]
off, bound, fixed, learned, short = (of(n) for n in ("off", "bound", "fixed", "learned", "short"))
mean = lambda run: run[0]["rt"]["latency_us"]["mean"]
assert mean(bound) < 0.7 * mean(off), (mean(bound), mean(off))
assert mean(fixed) < 0.95 * mean(bound), (mean(fixed), mean(bound))
assert off[0]["reserve"] == bound[0]["reserve"] == {"segments": 0, "sms": [0, 0]}
assert fixed[0]["reserve"]["segments"] > 100 and fixed[0]["reserve"]["sms"] == [0, 16], fixed[0]["reserve"]
assert (fixed[1]["reserve_sms"], fixed[1]["reserve_fixed"]) == ([16], True)
assert learned[0]["reserve"]["segments"] > 100 and learned[1]["reserve_sms"] == [8, 32]
assert short[0]["reserve"]["segments"] == 0 and set(short[0]["reserve"]["sms"]) == {0}
assert all(run[0]["lost"] == 0 for run in (off, bound, fixed, learned, short))
PY
expect "long kernels that leave SMs" python3 reserve.py
expect "constructed profiles as they are written" python3 "$data/constructed/make_constructed.py" --check

# What runs beside real-time work costs next to nothing to look for where it does not gain.
cat >beside.py <<'PY'
import json, sys
assert len(sys.argv) == 13
for name in sys.argv[1:]:
    runs = {r["mode"]: r for r in json.load(open(name))["runs"]}
    held, beside = runs["preempt"], runs["preempt_pad"]
    assert beside["throughput"]["normalised"] >= 0.995 * held["throughput"]["normalised"], (name, held, beside)
    assert beside["rt"]["slowdown_vs_rt_only"] <= 1.05, (name, beside["rt"])
PY
for workload in disb_a disb_b disb_c disb_d disb_e driving; do
  for seed in 1 2; do
    serves --workload $workload --seed $seed --seconds 1 --mode rt_only,preempt,preempt_pad --json "p_$workload$seed.json"
  done
done
expect "worse than preempt" python3 beside.py p_*.json

# What is carried within real-time kernels, where requests wait for a lane.
cat >padded.py <<'PY'
import json
def padding(name):
    runs = {r["mode"]: r for r in json.load(open(name))["runs"]}
    assert runs["preempt"]["padding"]["programs"] == runs["preempt"]["padding"]["segments"] == 0
    return runs["preempt_pad"]["padding"]
some, none, few = padding("pad.json"), padding("pad_none.json"), padding("pad_few.json")
assert some["segments"] > 100 and some["operations"] > some["segments"] and some["carried_us"] > 0, some
assert none["programs"] == none["segments"] == none["operations"] == 0, none
assert 0 < few["programs"] < some["programs"], (few, some)
PY
for how in ":" "_none:--pad none" "_few:--pad-places 4"; do
  serves --workload disb_c --seconds 0.5 --mode preempt,preempt_pad ${how#*:} --json "pad${how%%:*}.json"
done
expect "padding that is not as it must be" python3 padded.py

# By predicted slow-downs no more is carried. The simulated GPU has the same law: of the padded programs that it finds
# worth their time, none is beyond the limits.
for percent in 0 5 1000; do
  run --workload disb_c --seconds 0.5 --mode preempt_pad --pad-slow-down $percent --json slow_$percent.json
  expect "no line for a model without counters" [ "$(cat err)" = \
    "realtime: --pad-slow-down: no counters of bert_base_b1, bert_base_b8, padded by the rule alone" ]
done
expect "limits that limit nothing, or what they allow" python3 -c 'import json
def padding(name):
    return json.load(open(name))["runs"][-1]["padding"]
rules, none, few, all = [padding(f) for f in ("pad.json", "slow_0.json", "slow_5.json", "slow_1000.json")]
assert none["carried_us"] <= few["carried_us"] <= all["carried_us"] == rules["carried_us"] > 0, (none, few, all, rules)
assert none["programs"] <= few["programs"] <= all["programs"] == rules["programs"] > 0, (none, few, all, rules)'

# A command before each mode.
serves "${few[@]}" --mode rt_only,seq --before "echo again >>before.txt"
expect "not a command before each mode" test "$(wc -l <before.txt)" = 2
run "${few[@]}" --mode seq --before "exit 3"
[ "$rc" -eq 1 ] && one_line "--before" || fail "expected 1 for a command that fails, got $rc"

# Requests in place of seconds, a share for best-effort work, a slice of the table, a plot.
serves --requests 20 --mode preempt --json r.json
expect "not 20 requests" grep -q '"requests": 20,' r.json
serves --requests 200 --workload disb_b --mode preempt --floor 0.2 --json f.json
expect "no best-effort request in spite of a floor" bash -c '! grep -q "\"finished\": 0" f.json'
if command -v gnuplot >/dev/null; then
  serves "${few[@]}" --mode rt_only,seq,preempt --plot p.svg
  expect "no picture" grep -q '</svg>' p.svg
fi
serves "${few[@]}" --mode seq --quiet
expect "output in spite of --quiet" test ! -s out
run "${few[@]}" --mode seq --json /dev/full
[ "$rc" -eq 1 ] && one_line "/dev/full" || fail "expected 1 for a full disk, got $rc"

finish
