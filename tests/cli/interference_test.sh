#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# interference: errors within what is promised, on rows and on models that no fit has seen, by a
# count of our own from the JSON; and one line for each kind of bad input.
program=interference
# shellcheck source=expect.sh
. "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

corun=$data/corun_pairs.csv
solo=$data/solo_metrics.csv

# Coefficients are given in most of this test: fits take long. Both of the fits below are small.
law=$data/interference/h200.json
awk -F, 'NR == 1 || NR % 3 == 0' "$corun" > third.csv
serves evaluate --coefficients "$law" --corun third.csv --quiet --json given.json
serves evaluate --coefficients h200 --corun third.csv --quiet --json by_name.json
expect "the same by their name" cmp given.json by_name.json
mkdir -p moved/profiles && cp "$law" moved/law.json && cp "$solo" moved/solo.csv && cp "$data/profiles/lenet_b1.json" moved/profiles/
unknown=(predict --graphs lenet:1,lenet:1 --coefficients moved/law.json --solo moved/solo.csv --profiles moved/profiles)
run "${unknown[@]}"
[ "$rc" -eq 0 ] || fail "a GPU that no file names: got $rc"
expect "what is assumed in one line" grep -qx "interference: moved/solo.csv: no machine.json beside it, so 132 SMs are assumed, .*" err
serves "${unknown[@]}" --sms 132
rm -r moved
expect "errors of the coefficients that ship" python3 - given.json "$law" third.csv <<'PY'
import csv, json, sys
j, law = (json.load(open(f)) for f in sys.argv[1:3])
pairs = [int(r["sms_a"]) + int(r["sms_b"]) for r in csv.DictReader(open(sys.argv[3]))]
own = sum(sms <= 132 for sms in pairs)
assert j["fitted"] is False and j["coefficients"] == law
e = {name: l["errors"]["seen"] for name, l in j["laws"].items()}
assert e["disjoint"]["predictions"] == e["disjoint_means"]["predictions"] == 2 * own, e
assert e["shared_kernels"]["predictions"] == 2 * (len(pairs) - own) and j["without_profile"] == [], e
for name, most in {"disjoint": 0.1, "disjoint_means": 0.1, "shared_kernels": 0.15}.items():
    assert e[name]["p90"] <= most, (name, e)
    assert list(j["laws"][name]["errors"]) == ["seen"]
rules = {r["rule"]: r for r in j["rules"]}
ours = rules["contention law"]
assert all(ours["false_safe"] <= r["false_safe"] for r in rules.values()), rules
assert all(ours["admitted"] == r["admitted"] for r in rules.values()), rules
PY

# A fit with rows and models left out, on a few pairs of each kind: halves and all SMs.
awk -F, 'NR == 1 || ($2 == 1 && $5 == 1 && $1 != "googlenet" && $4 != "googlenet" && ($3 == 64 || $3 == 132))' "$corun" > few.csv
serves fit --corun few.csv --json few.json --out fitted.json
expect "a fit is judged by what it has not seen" python3 - few.json fitted.json <<'PY'
import json, sys
j, fitted = (json.load(open(f)) for f in sys.argv[1:])
assert j["fitted"] is True and j["coefficients"] == fitted
for name, most in {"disjoint": 0.15, "disjoint_means": 0.15, "shared_kernels": 0.35}.items():
    e = j["laws"][name]["errors"]
    assert e["seen"]["predictions"] == e["rows_left_out"]["predictions"], e
    assert e["rows_left_out"]["p90"] <= most and e["models_left_out"]["p90"] <= most, (name, e)
    assert len(e["models_left_out"]["by_model"]) == 4, e
def numbers(x):
    return [n for v in x.values() for n in (numbers(v) if isinstance(v, dict) else [v])]
assert all(n >= 0 for n in numbers(fitted)), fitted
PY

# A model that no fit has seen, from files of its own, once with a profile and once without. What is
# said of it is counted again.
awk -F, 'NR == 1 || ($1 == "lenet" && $4 == "lenet")' few.csv > known.csv # given, but not what is judged
awk -F, 'NR == 1 || $1 == "vgg16" || $4 == "vgg16"' "$corun" > other.csv
awk 'NR == 1 || NR % 3 == 0' other.csv > fewer.csv
awk -F, '$1 != "vgg16"' "$solo" > known_solo.csv
awk -F, 'NR == 1 || $1 == "vgg16"' "$solo" > other_solo.csv
serves evaluate --coefficients "$law" --corun known.csv --solo known_solo.csv --test-corun fewer.csv \
  --test-solo other_solo.csv --json other.json
expect "nothing is said of profiles" bash -c '! grep -q "no profile" out'
mkdir profiles
cp "$data"/profiles/{lenet,googlenet,resnet50,ssdlite_mobilenet}_b*.json profiles
serves evaluate --coefficients "$law" --corun known.csv --solo known_solo.csv --test-corun fewer.csv \
  --test-solo other_solo.csv --profiles profiles --json unprofiled.json
expect "models without a profile are named" \
  grep -qF "fewer.csv: no profile, so estimated from solo metrics alone: vgg16_b1, vgg16_b8, vgg16_b32" out
expect "the model is predicted" python3 - other.json unprofiled.json <<'PY'
import json, sys
def p90(errors):
    errors = sorted(errors)
    at = 0.9 * (len(errors) - 1)
    low, part = int(at), at - int(at)
    return errors[low] + (errors[min(low + 1, len(errors) - 1)] - errors[low]) * part
limits = {"disjoint": (0.1, 0.1), "shared_kernels": (0.3, 0.6)}
for which, file in enumerate(sys.argv[1:]):
    j = json.load(open(file))
    assert "vgg16" not in j["models"]
    for law, limit in limits.items():
        said = j["laws"][law]
        errors = [abs(p["predicted"] - p["measured"]) / p["measured"] for p in said["test_predictions"]]
        assert all("vgg16" in (p["of"]["model"], p["beside"]["model"]) for p in said["test_predictions"])
        e = said["errors"]
        assert e["test"]["predictions"] == len(errors), e
        assert abs(p90(errors) - e["test"]["p90"]) < 1e-4, (law, p90(errors), e)
        assert p90(errors) <= limit[which], (law, file, p90(errors))
assert json.load(open(sys.argv[1]))["test_without_profile"] == []
assert len(json.load(open(sys.argv[2]))["test_without_profile"]) == 3
PY

# Graphs by name, three of them, with what is extrapolated; and what a paper has measured.
serves predict --graphs resnet50:8,vgg16:32,lenet:1 --json three.json
expect "three graphs are predicted" python3 - three.json <<'PY'
import json, sys
j = json.load(open(sys.argv[1]))
assert [g["model"] for g in j["graphs"]] == ["resnet50", "vgg16", "lenet"]
# VGG-16 was slowed 1.12 times beside ResNet-50 alone, 1.02 times beside LeNet.
assert all(g["slowdown"] > 1.05 and g["alone_us"] > 0 for g in j["graphs"]), j
assert "graphs" in j["beyond_the_fit"], j
PY
serves predict --graphs resnet50:8@64,vgg16:32@68 --json two.json
expect "SMs of their own" python3 - two.json <<'PY'
import json, sys
j = json.load(open(sys.argv[1]))
assert [g["sms"] for g in j["graphs"]] == [64, 68] and j["beyond_the_fit"] == "", j
assert all(1.02 < g["slowdown"] < 1.5 for g in j["graphs"]), j
PY
serves paper --json paper.json
expect "trends of the paper" python3 - paper.json <<'PY'
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
for place in {r["place"] for r in rows}:
    of = [r for r in rows if r["place"] == place]
    for a in of: # what was measured to be clearly slower is predicted to be
        for b in of:
            if b["measured"] > 1.25 * a["measured"]: assert b["predicted"] > a["predicted"], (a, b)
errors = sorted(abs(r["predicted"] / r["measured"] - 1) for r in rows if not r["gives_the_victims_demand"])
assert errors[int(0.8 * (len(errors) - 1))] <= 0.15, errors
PY

# What is particular about graphs, from pairs: those of slow-downs that are predicted with factors are
# found again, and errors fall. All but the columns of these stay.
models=(lenet googlenet resnet50 vgg16)
awk -F, -v OFS=, 'NR == 1 { print $0, "sensitivity", "pressure"; next }
  { print $0, ($1 == "resnet50" ? 2 : 1), ($1 == "vgg16" ? 2 : 1) }' "$solo" > factored.csv
head -n 1 "$corun" | cut -d, -f1-10 > pairs.csv
for a in "${models[@]}"; do
  for b in "${models[@]}"; do
    [ "$a" = resnet50 ] || [ "$b" = vgg16 ] || continue # two graphs, each beside all
    serves predict --graphs "$a:8@64,$b:8@68" --solo factored.csv --quiet --json pair.json
    python3 - pair.json >> pairs.csv <<'PY'
import json, sys
a, b = json.load(open(sys.argv[1]))["graphs"]
row = [x for g in (a, b) for x in (g["model"], g["batch"], g["sms"])]
print(*row, a["alone_us"], b["alone_us"], a["alone_us"] * a["slowdown"], b["alone_us"] * b["slowdown"], sep=",")
PY
  done
done
serves calibrate --corun pairs.csv --solo "$solo" --out calibrated.csv --json calibrated.json
expect "graphs are named with their factors" grep -qE '^resnet50_b8 +4 +[12]\.[0-9]{3}' out
expect "factors are found again" python3 - calibrated.json calibrated.csv "$solo" <<'PY'
import csv, json, sys
j = json.load(open(sys.argv[1]))
found = {g["model"]: (g["sensitivity"], g["pressure"]) for g in j["graphs"]}
assert all(g["batch"] == 8 for g in j["graphs"]) and len(found) == 4, j["graphs"]
assert 1.4 < found["resnet50"][0] < 2.6 and 1.3 < found["vgg16"][1] < 2.7, found
assert all(0.6 < found[m][0] < 1.5 for m in ("lenet", "googlenet", "vgg16")), found
for law in j["laws"].values():
    assert law["with_factors"]["p90"] < 0.6 * law["without_factors"]["p90"], j["laws"]
after, before = (list(csv.DictReader(open(f))) for f in sys.argv[2:])
assert len(after) == len(before)
for a, b in zip(after, before):
    assert (a.pop("l2_loss"), a.pop("start_loss_us"), a.pop("mean_pressure")) == ("-", "-", "1")
    factors = float(a.pop("sensitivity")), float(a.pop("pressure"))
    assert factors == (found[b["model"]] if b["batch"] == "8" and b["model"] in found else (1, 1)), b
    assert a == b
PY
serves calibrate --corun pairs.csv --solo calibrated.csv --out again.csv --quiet
expect "its own output calibrates to the same" cmp calibrated.csv again.csv
serves evaluate --coefficients "$law" --corun pairs.csv --solo calibrated.csv --laws disjoint,disjoint_means --json judged.json
expect "predictions have the factors" python3 - judged.json calibrated.json <<'PY'
import json, sys
judged, said = (json.load(open(f))["laws"] for f in sys.argv[1:])
for law, of in said.items():
    assert judged[law]["errors"]["seen"] == of["with_factors"], (law, judged, of)
PY

# A stream, and a matrix product by tensor cores: by arithmetic intensity they differ, so the rule
# admits them beside each other, and none of them beside itself.
mkdir roofline
python3 - "$data/profiles/lenet_b1.json" roofline <<'PY'
import json, sys
p = json.load(open(sys.argv[1]))
p["operations"] = [next(o for o in p["operations"] if o["kind"] == "kernel")]
p["operations"][0].update(after=[], duration_us=100, grid=[132, 1, 1], block=[128, 1, 1], registers_per_thread=32)
for field in ("graph_replay_us", "graph_replay_us_by_sms"):
    p.pop(field, None)
for model, ipc, pipes, l2, dram in (("stream", 0.8, {"fma": 0.1}, 0.7, 0.8), ("product", 1.2, {"tensor": 0.8}, 0, 0.001)):
    p["model"] = model
    p["operations"][0]["counters"] = {"us": 100, "sm_active": 1, "ipc": ipc, "pipes": pipes, "l2": l2, "l2_hit_rate": 0, "dram": dram}
    json.dump(p, open(f"{sys.argv[2]}/{model}_b1.json", "w"))
PY
{ head -n 1 "$corun" | cut -d, -f1-10
  echo stream,1,132,stream,1,132,100,100,200,200
  echo product,1,132,product,1,132,100,100,190,190
  echo stream,1,132,product,1,132,100,100,110,110; } > roofline.csv
serves evaluate --coefficients "$law" --corun roofline.csv --profiles roofline --laws shared_kernels --safe 1.5 --json roofline.json
expect "compute-bound beside memory-bound" python3 - roofline.json <<'PY'
import json, sys
rules = {r["rule"]: r for r in json.load(open(sys.argv[1]))["rules"]}
numbers = lambda made: (made["admitted"], made["false_safe"], made["false_unsafe"])
rule = rules["arithmetic intensity"]
assert numbers(rule) == numbers(rule["own_limit"]) == (1, 0, 0), rule
own = {name: numbers(r["own_limit"]) for name, r in rules.items()}
assert own["contention law"] == numbers(rules["contention law"]), own
assert own["compute beside memory"] == (1, 0, 0), own  # of the two one is above a half, and one is not
assert own["time with a kernel"] == (0, 0, 1), own     # each has a kernel all the time: 200%
assert own["sum of occupancies"] == (3, 2, 0), own     # each has 4 of 64 warps: 13%
PY

# Groups and probes: a probe is endless, and a row that was held up is skipped.
echo "group,model,batch,sms,solo_us,corun_us" > groups.csv
for m in lenet resnet50 vgg16; do echo "g,$m,8,132,1000,1500"; done >> groups.csv
serves evaluate --coefficients "$law" --corun known.csv --laws shared_kernels --test-groups groups.csv --json groups.json
expect "a group is predicted" python3 - groups.json <<'PY'
import json, sys
p = json.load(open(sys.argv[1]))["laws"]["shared_kernels"]["test_predictions"]
assert len(p) == 3 and all(len(r["beside"]) == 2 and r["predicted"] >= 1 for r in p), p
PY
mkdir probes
python3 - "$data/profiles/lenet_b1.json" probes <<'PY'
import json, sys
p = json.load(open(sys.argv[1]))
p["operations"] = [next(o for o in p["operations"] if o["kind"] == "kernel")]
p["operations"][0].update(after=[], duration_us=100)
for field in ("graph_replay_us", "graph_replay_us_by_sms"):
    p.pop(field, None)
for level, dram in ((1, 0.2), (2, 0.8)):
    p["model"] = f"probe_copy_{level}"
    p["operations"][0].update(grid=[132, 1, 1], counters={"us": 100, "sm_active": 1, "ipc": 1, "l2": dram, "l2_hit_rate": 0, "dram": dram})
    json.dump(p, open(f"{sys.argv[2]}/probe_copy_{level}_b1.json", "w"))
p["model"] = "probe_sleep_1"
p["operations"][0].update(block=[1024, 1, 1], registers_per_thread=64, max_blocks_per_sm=1)
json.dump(p, open(f"{sys.argv[2]}/probe_sleep_1_b1.json", "w"))
PY
columns=probe,victim,batch,victim_sms,probe_sms,kind,blocks,alone_us,beside_us,probe_rate_alone,probe_rate_beside,held_up
{ echo "$columns"
  for level in 1 2; do echo "probe_copy_$level,vgg16,32,64,68,copy,132,16000,17000,1,0.9,0"; done
  echo "probe_sleep_1,vgg16,32,132,132,sleep,132,8000,18000,1,0.9,0" # which takes all registers
  echo "probe_upload_16,vgg16,32,132,132,upload,132,8000,8100,1,1,0"
  echo "probe_copy_1,probe_download_16,1,64,68,copy,68,318,320,1,1,0"
  echo "probe_copy_1,vgg16,32,64,68,copy,132,16000,99999,1,0.9,1"; } > probes.csv
serves evaluate --coefficients "$law" --corun known.csv --laws disjoint --profiles probes --profiles "$data/profiles" \
  --test-probes probes.csv --json probes.json
expect "more traffic slows more" python3 - probes.json <<'PY'
import json, sys
found = json.load(open(sys.argv[1]))
rows = found["probe_rows"]
assert len(rows) == 2 and 1 <= rows[0]["predicted"] < rows[1]["predicted"], rows
assert [r.get("beyond_the_fit") for r in rows] == [None, "dram"], rows
assert found["probe_rows_held_up"] == 2, found["probe_rows_held_up"]
assert found["probe_rows_transfers"] == 2, found["probe_rows_transfers"]
PY
expect "extrapolated rows are counted" grep -q '^1 of 2 rows of --test-probes exceed the demands' out
expect "rows that wait for their probe are counted" grep -q '^2 rows of --test-probes left out: a kernel' out
expect "copies between host and GPU are left out, and counted" \
  grep -q '^2 rows of --test-probes left out: copies between host and GPU' out
{ echo "$columns,probe_sms_seen"; echo "$(tail -n 1 probes.csv),132"; } > waiting.csv
serves evaluate --coefficients "$law" --corun known.csv --laws disjoint --profiles probes --profiles "$data/profiles" \
  --test-probes waiting.csv --json waiting.json
expect "also where all rows wait" grep -q '"probe_rows_held_up": 1' waiting.json

# What graphs lose of L2, of rows beside a slow copy on other SMs: found again, and then predicted.
slow="probe_copy_1,vgg16,32,64,68,copy,40,16000" # of whose 132 blocks 40 take 7% of DRAM
others=(--profiles probes --profiles "$data/profiles" --coefficients "$law")
{ echo "$columns"; echo "$slow,17000,1,0.9,0"; } > slow.csv
serves evaluate "${others[@]}" --corun known.csv --laws disjoint --test-probes slow.csv --json before.json
python3 - before.json > measured.txt <<'PY'
import json, sys
[row] = json.load(open(sys.argv[1]))["probe_rows"]
print(16000 * (row["predicted"] + 0.2))
PY
{ echo "$columns"; echo "$slow,$(cat measured.txt),1,0.9,0"
  echo "probe_copy_2,vgg16,32,64,68,copy,132,16000,99000,1,0.9,0" # too fast to say only this
  echo "probe_copy_1,vgg16,32,132,132,copy,40,8000,99000,1,0.9,0"; } > slow.csv # on the same SMs
serves calibrate "${others[@]}" --probes slow.csv --solo "$solo" --out lost.csv --json lost.json
expect "the loss is printed" grep -qE '^vgg16_b32 +0 +- +- +0\.200 +- +-$' out
expect "and written, and all else stays" python3 - lost.json lost.csv "$solo" <<'PY'
import csv, json, sys
j = json.load(open(sys.argv[1]))
assert [(g["model"], g["batch"], g["l2_loss"]) for g in j["graphs"]] == [("vgg16", 32, 0.2)] and "laws" not in j, j
after, before = (list(csv.DictReader(open(f))) for f in sys.argv[2:])
for a, b in zip(after, before, strict=True):
    assert a.pop("l2_loss") == ("0.2" if (b["model"], b["batch"]) == ("vgg16", "32") else "-"), b
    assert [a.pop(c) for c in ("sensitivity", "pressure", "start_loss_us", "mean_pressure")] == ["1", "1", "-", "1"] and a == b
PY
serves calibrate "${others[@]}" --probes slow.csv --solo lost.csv --out again.csv --quiet
expect "its own output says the same" cmp lost.csv again.csv
{ echo "$columns"; echo "$slow,17000,1,0.9,0"; } > slow_again.csv
serves evaluate "${others[@]}" --corun known.csv --laws disjoint --solo lost.csv --test-probes slow_again.csv --json after.json
expect "predictions have the loss" python3 - before.json after.json <<'PY'
import json, sys
before, after = (json.load(open(f))["probe_rows"][0]["predicted"] for f in sys.argv[1:])
assert abs(after - before - 0.2) < 1e-5, (before, after)
PY
{ echo "$columns"; echo "${slow/vgg16/resnet50},24000,1,0.9,0"; } > slow_other.csv
serves calibrate "${others[@]}" --probes slow_other.csv --solo lost.csv --out more.csv --quiet
expect "graphs that were measured before keep their loss" python3 - more.csv <<'PY'
import csv, sys
lost = {(r["model"], r["batch"]): float(r["l2_loss"]) for r in csv.DictReader(open(sys.argv[1])) if r["l2_loss"] != "-"}
assert lost["vgg16", "32"] == 0.2 and 0.3 < lost["resnet50", "32"] < 0.5 and len(lost) == 2, lost
PY
serves calibrate "${others[@]}" --probes slow.csv --corun pairs.csv --solo "$solo" --out both.csv --quiet
expect "pairs count beside probes where they are given" python3 - both.csv <<'PY'
import csv, sys
rows = {(r["model"], r["batch"]): r for r in csv.DictReader(open(sys.argv[1]))}
assert float(rows["vgg16", "32"]["l2_loss"]) == 0.2 and float(rows["resnet50", "8"]["sensitivity"]) > 1.3, rows
PY
refuses "no graph beside a slow copy on other SMs, expected rows of a probe that uses 4 to 10% of DRAM" calibrate \
  "${others[@]}" --probes probes.csv --solo "$solo"
refuses "--probes" calibrate --probes nowhere.csv
sed '1s/$/,l2_loss/; 2,$s/$/,-0.1/' "$solo" > negative.csv
refuses "negative.csv:2: '-0.1', expected a number from 0 to 10" calibrate "${others[@]}" --probes slow.csv --solo negative.csv

# What graphs lose as kernels of others start, of pairs with a graph that only starts kernels.
pair=model_a,batch_a,sms_a,model_b,batch_b,sms_b,solo_a_us,solo_b_us,corun_a_us,corun_b_us
starts=(--profiles "$data/measured/ticks/profiles" --profiles "$data/profiles" --coefficients "$law")
{ echo "$pair"; echo "resnet50,8,64,ticks,1,68,2100,750,2352,760"
  echo "ticks,1,100,resnet50,8,32,750,3400,760,3638"
  echo "resnet50,8,132,ticks,1,132,1700,750,9000,760"; } > starts.csv # the last one on the same SMs
serves calibrate "${starts[@]}" --starts starts.csv --solo "$solo" --out started.csv --json started.json
expect "the loss by starts is printed" grep -qE '^resnet50_b8 +0 +- +- +- +[0-9]\.[0-9]{3} +-$' out
expect "and written, of that graph alone" python3 - started.json started.csv "$solo" <<'PY'
import csv, json, sys
j = json.load(open(sys.argv[1]))
[graph] = j["graphs"]
assert (graph["model"], graph["batch"]) == ("resnet50", 8) and 0.2 < graph["start_loss_us"] < 1, graph
assert j["starts"] == "starts.csv" and "laws" not in j, j
after, before = (list(csv.DictReader(open(f))) for f in sys.argv[2:])
for a, b in zip(after, before, strict=True):
    known = (b["model"], b["batch"]) == ("resnet50", "8")
    assert a.pop("start_loss_us") == (str(graph["start_loss_us"]) if known else "-"), a
    assert [a.pop(c) for c in ("sensitivity", "pressure", "l2_loss", "mean_pressure")] == ["1", "1", "-", "1"] and a == b
PY
serves calibrate "${starts[@]}" --starts starts.csv --solo started.csv --out again.csv --quiet
expect "its own output says the same of starts" cmp started.csv again.csv
serves evaluate "${starts[@]}" --corun known.csv --laws disjoint --solo started.csv --test-corun starts.csv --json judged.json
expect "predictions have the loss by starts" python3 - judged.json <<'PY'
import json, sys
rows = [r for r in json.load(open(sys.argv[1]))["laws"]["disjoint"]["test_predictions"] if r["of"]["model"] == "resnet50"]
assert len(rows) == 2, rows
assert abs(sum(r["predicted"] - r["measured"] for r in rows)) < 0.01, rows # both rows' mean is met
assert all(abs(r["predicted"] - r["measured"]) < 0.05 for r in rows), rows
PY
refuses "no graph beside one that only starts kernels, on other SMs, expected some, as of measure starts" \
  calibrate "${starts[@]}" --starts pairs.csv --solo "$solo"
refuses "--starts" calibrate --starts nowhere.csv
sed '1s/$/,start_loss_us/; 2,$s/$/,-1/' "$solo" > negative.csv
refuses "negative.csv:2: '-1', expected a number from 0 to 100" calibrate "${starts[@]}" --starts starts.csv --solo negative.csv
grep -v '^resnet50,8,' "$solo" > without.csv
refuses "without.csv: no row of resnet50, batch 8, expected one of each graph that was measured" \
  calibrate "${starts[@]}" --starts starts.csv --solo without.csv --out nothing.csv

# Means are corrected by kernels, with no measurement of graphs beside each other.
table=$data/latency_batch_partition.csv
serves calibrate --coefficients "$law" --table "$table" --solo "$solo" --out means.csv --json means.json
expect "the pressure in means is printed" grep -qE '^vgg16_b32 +0 +- +- +- +- +[01]\.[0-9]{3}$' out
expect "and written, and all else stays" python3 - means.json means.csv "$solo" "$table" <<'PY'
import csv, json, sys
j = json.load(open(sys.argv[1]))
after, before, table = (list(csv.DictReader(open(f))) for f in sys.argv[2:])
found = {(g["model"], str(g["batch"])): g["mean_pressure"] for g in j["graphs"]}
assert len(found) == 15 and set(found) <= {(r["model"], r["batch"]) for r in table} and "laws" not in j, found
assert len(after) == len(before) and len(set(found.values())) > 9 and all(0.5 < p < 2 for p in found.values()), found
for b, a in zip(before, after):
    assert all(a[c] == b[c] for c in b) and a["sensitivity"] == a["pressure"] == "1" and a["l2_loss"] == "-", (b, a)
    assert float(a["mean_pressure"]) == found.get((a["model"], a["batch"]), 1), a
PY
serves calibrate --coefficients "$law" --table "$table" --solo means.csv --out again.csv --quiet
expect "its own output says the same of means" cmp means.csv again.csv
awk -F, 'NR == 1 || NR % 12 == 0' "$corun" > twelfth.csv
for of in solo means; do
  file=$solo; [ $of = solo ] || file=means.csv
  serves evaluate --coefficients "$law" --corun twelfth.csv --solo "$file" --laws disjoint,disjoint_means \
    --test-corun twelfth.csv --json by_$of.json
done
expect "means, and only they, come nearer to what the kernels say" python3 - by_solo.json by_means.json <<'PY'
import json, statistics, sys
(kernels, before), (same, after) = ([json.load(open(f))["laws"][law]["test_predictions"] for law in ("disjoint", "disjoint_means")]
                                    for f in sys.argv[1:])
def apart(means):
    return statistics.fmean((m["predicted"] / k["predicted"] - 1) ** 2 for k, m in zip(kernels, means, strict=True))
assert kernels == same and apart(after) < 0.8 * apart(before), (apart(after), apart(before))
PY
serves calibrate --coefficients "$law" --table "$table" --corun pairs.csv --solo means.csv --out both.csv --quiet
expect "pairs count beside the table where they are given" python3 - both.csv means.csv <<'PY'
import csv, sys
after, means = (list(csv.DictReader(open(f))) for f in sys.argv[1:])
assert [r["mean_pressure"] for r in after] == [r["mean_pressure"] for r in means]
assert any(float(r["sensitivity"]) > 1.3 for r in after if r["model"] == "resnet50"), after
PY
serves calibrate --coefficients "$law" --corun pairs.csv --solo means.csv --out kept.csv --quiet
expect "without a table the numbers stay" cmp both.csv kept.csv
refuses "--table: 'nowhere.csv' does not exist, expected a CSV file" calibrate --table nowhere.csv
sed 's/^[a-z]/un&/; 1s/^un//' "$table" > strange.csv
refuses "calibrate: no graph of --table has solo metrics and a profile with counters, expected some" \
  calibrate --table strange.csv --solo "$solo" --out nothing.csv
expect "nothing is written" test ! -e nothing.csv
sed '1s/$/,mean_pressure/; 2,$s/$/,0/' "$solo" > zero.csv
refuses "zero.csv:2: '0', expected a number from 0.1 to 10" calibrate --table "$table" --solo zero.csv

{ echo "$columns"; echo "probe_copy_1,vgg16,32,5000,68,copy,132,16000,17000,1,0.9,0"; } > sms.csv
refuses "sms.csv:2: 5000 and 68 SMs, expected all 132 for both, or parts of them" evaluate --coefficients "$law" \
  --corun known.csv --laws disjoint --profiles probes --profiles "$data/profiles" --test-probes sms.csv
mkdir set
python3 - probes/probe_copy_1_b1.json > set/probe_copy_1_b1.json <<'PY'
import json, sys
p = json.load(open(sys.argv[1]))
p["operations"] = [{"after": [], "kind": "memset", "bytes": 4, "duration_us": 100}]
print(json.dumps(p))
PY
head -n 2 probes.csv > of_set.csv
{ cat "$solo"; sed -n '2s/^[^,]*,[^,]*/probe_copy_1,1/p' "$solo"; } > with_probe.csv
refuses "of_set.csv:2: the profile of probe_copy_1 is not one kernel, expected one, which is endless" evaluate \
  --coefficients "$law" --corun known.csv --laws disjoint --profiles set --profiles "$data/profiles" --solo with_probe.csv \
  --test-probes of_set.csv

# Single kernels beside a probe: the longest of a profile, and one that is too short to time.
read -r long short count < <(python3 - "$data/profiles/vgg16_b32.json" <<'PY'
import json, sys
all = [(o["duration_us"] if o["kind"] == "kernel" else 5, i) for i, o in enumerate(json.load(open(sys.argv[1]))["operations"])]
print(max(all)[1], min(all)[1], len(all))
PY
)
kernels=probe,model,batch,operation,blocks,threads,alone_us,beside_us,held_up
{ echo "$kernels"
  echo "probe_copy_2_blocks66_threads64,vgg16,32,$long,66,64,1000,1500,0" # as probe_copy_2
  echo "probe_copy_1,vgg16,32,$short,132,1024,7,9,0"
  echo "probe_copy_1,vgg16,32,$long,132,1024,1000,4000,1"; } > kernels.csv
one=(evaluate --coefficients "$law" --corun known.csv --laws disjoint --profiles probes --profiles "$data/profiles")
serves "${one[@]}" --test-kernels kernels.csv --json kernels.json
expect "one kernel beside one probe" python3 - kernels.json "$long" <<'PY'
import json, sys
said = json.load(open(sys.argv[1]))
[row] = said["kernel_rows"]
assert (row["model"], row["batch"], row["operation"]) == ("vgg16", 32, int(sys.argv[2])), row
assert row["measured"] > 1 and row["predicted"] >= 1, row
assert (said["kernel_rows_held_up"], said["kernel_rows_brief"]) == (1, 1), said
found = said["kernels"]
assert set(found) == {"all", "probe_copy_2_blocks66_threads64"} and found["all"]["predictions"] == 1, found
assert 0 < found["all"]["p50"] < 1, found
PY
expect "rows that say nothing are counted" grep -q 'left out: 1 of kernels that wait .* 1 of kernels of less than 10 us' out
{ echo "$kernels"; echo "probe_copy_1,vgg16,32,$count,132,1024,1000,1500,0"; } > beyond.csv
refuses "beyond.csv:2: operation $count of vgg16, batch 32, expected one of $count of its profile" "${one[@]}" --test-kernels beyond.csv
{ echo "$kernels"; echo "probe_chase_1,vgg16,32,$long,132,1024,1000,1500,0"; } > nobody.csv
refuses "probe_chase_1, batch 1 has no row" "${one[@]}" --test-kernels nobody.csv

run --help
expect "help teaches" grep -q 'Errors are those on held-out rows' out

head=$(head -n 1 "$corun")
solo_head=model,batch,solo_us,l2_pct,dram_pct,sm_active_pct
refuses "--corun" evaluate --corun nowhere.csv
refuses "--solo" evaluate --solo nowhere.csv
refuses "given without --test-corun" evaluate --test-solo "$solo"
refuses "unknown law 'square'" evaluate --laws square
refuses "only some of the laws" fit --laws disjoint --out some.json
refuses "one graph" predict --graphs lenet:1
refuses "no batch in" predict --graphs lenet,vgg16:1
refuses "some have SMs of their own" predict --graphs lenet:1@8,vgg16:1
refuses "264 SMs" predict --graphs lenet:1@132,vgg16:1@132
refuses "nothing, batch 1 has no row" predict --graphs nothing:1,lenet:1
refuses "is also that of --json" fit --out same.json --json same.json
refuses "--coefficients: 'h100' does not exist, expected one that ships, as h200, or a file of coefficients" \
  evaluate --coefficients h100
refuses "given beside --coefficients" evaluate --neutral-start --coefficients fitted.json
refuses "command line" fit --coefficients fitted.json
refuses "command line"
refuses "command line: unknown command 'foo', expected fit, evaluate, predict, calibrate or paper" foo
{ echo "$solo_head"; echo "lenet,1,30,1,,5"; } > hole.csv
refuses "hole.csv:2: ''" evaluate --solo hole.csv
{ echo "$solo_head"; echo "lenet,1,30,1,-1,5"; } > negative.csv
refuses "negative.csv:2: '-1'" evaluate --solo negative.csv
{ echo "$solo_head"; echo "lenet,1,30,1,1,5"; echo "lenet,1,31,1,1,5"; } > twice.csv
refuses "twice.csv: lenet, batch 1 is there twice" evaluate --solo twice.csv
{ echo "$head"; echo "lenet,1,64,lenet,1,68,30,32,-34,34"; } > below.csv
refuses "below.csv:2: '-34'" evaluate --corun below.csv
{ echo "$head"; echo "lenet,1,100,lenet,1,68,30,32,34,34"; } > much.csv
refuses "much.csv:2: 100 and 68 SMs" evaluate --corun much.csv
{ echo "$head"; echo "lenet,1,64,lenet,1,68,30,32,34,34"; } > one.csv
refuses "disjoint: 2 measurements, expected at least as many as the 3 coefficients" evaluate --corun one.csv
refuses "one.csv has no pairs for shared_kernels" evaluate --laws shared_kernels --corun one.csv
{ echo "$head"; echo "lenet,1,64,nobody,3,68,30,32,34,34"; } > unknown.csv
refuses "unknown.csv: nobody, batch 3 has no row in" evaluate --coefficients "$law" --corun unknown.csv
refuses "unknown.csv: nobody, batch 3 has no row in" calibrate --corun unknown.csv
refuses "unknown.csv: nobody, batch 3 has no row in" fit --corun unknown.csv --out unknown.json
echo "$head" > none.csv
refuses "none.csv has no rows" evaluate --corun none.csv
refuses "--corun: none.csv has no rows" fit --corun none.csv --out some.json
refuses "--corun: one.csv has no pairs for shared_kernels" fit --corun one.csv --out some.json
{ cat one.csv; tail -n 1 one.csv; } > again.csv
refuses "again.csv:3: lenet beside lenet is there twice" evaluate --corun again.csv
sed 's/,132,/,144,/g' "$corun" > larger.csv
refuses "lenet_b1: a profile of 132 SMs, expected the GPU's 144" evaluate --sms 144 --corun larger.csv
awk -F, 'NR == 1 || $3 == 132' "$corun" > all_sms.csv
refuses "calibrate: no pair on SMs of its own, expected some" calibrate --corun all_sms.csv
awk -F, '!($1 == "vgg16" && $2 == 8)' "$solo" > lacks.csv
refuses "lacks.csv: no row of vgg16, batch 8, expected one of each graph that was measured" calibrate --corun pairs.csv --solo lacks.csv --out x.csv
expect "nothing is written" test ! -e x.csv
echo '{"gsched_interference": 4}' > empty.json
refuses "empty.json: /contention is missing" evaluate --coefficients empty.json

# machine.json beside the files: measurements of two GPUs are refused.
mkdir other
cp "$data/solo_metrics.csv" other/solo.csv
echo '{"gpu": "NVIDIA_S", "compute_capability": "9.0", "sms": 132, "sm_groups": [66, 66]}' >other/machine.json
refuses "--solo other/solo.csv: measured on NVIDIA_S, not NVIDIA H200 as --corun" evaluate --once --solo other/solo.csv
refuses "expected the GPU's 64" predict --graphs resnet50:8,vgg16:8 --sms 64

# Profiles too: those of another folder by its machine.json, and each by the GPU that it names.
five=$data/measured/five/solo_metrics.csv
mine=(predict --graphs resnet50:8@64,vgg16:8@68)
refuses "googlenet_b1.json: measured on NVIDIA H100 80GB HBM3, not NVIDIA H200 as --solo $five" "${mine[@]}" \
  --solo "$five" --profiles "$data/measured/h100/profiles"
refuses "resnet50_b8: a profile of 'NVIDIA H200', expected one of 'NVIDIA H100 80GB HBM3'" "${mine[@]}" \
  --solo "$data/measured/h100/solo_metrics.csv"
mkdir moved
for m in resnet50 vgg16; do sed 's/"NVIDIA H200"/"NVIDIA A100"/' "$data/profiles/${m}_b8.json" > "moved/${m}_b8.json"; done
refuses "resnet50_b8: a profile of 'NVIDIA A100', expected one of 'NVIDIA H200'" "${mine[@]}" --profiles moved
mv moved/vgg16_b8.json moved/other.json # which is not asked for
serves predict --graphs lenet:1,lenet:1 --profiles moved --quiet

# Counters: of each kernel or of none, and with what the law needs.
mkdir counted
counted() { # counted CODE: resnet50_b8 with its kernels changed
  python3 - "$data/profiles/resnet50_b8.json" "$1" > counted/resnet50_b8.json <<'PY'
import json, sys
p = json.load(open(sys.argv[1]))
kernels = [o for o in p["operations"] if o["kind"] == "kernel"]
exec(sys.argv[2])
print(json.dumps(p))
PY
}
one=(predict --graphs resnet50:8,resnet50:8 --profiles counted)
counted 'del kernels[3]["counters"]'
refuses "resnet50_b8.json: /operations/3/counters is missing, expected counters of each kernel, or of none" "${one[@]}"
counted 'kernels[0]["counters"] = {"us": 5}'
refuses "resnet50_b8.json: /operations/0/counters/ipc is missing, expected a number from 0 to 4" "${one[@]}"
counted 'for k in kernels: del k["counters"]'
serves "${one[@]}" --quiet
finish
