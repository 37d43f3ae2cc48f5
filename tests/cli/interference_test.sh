#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# interference: errors within what is promised, on rows and on models that no fit has seen, by a
# count of our own from the JSON; and one line for each kind of bad input.
program=interference
# shellcheck source=expect.sh
. "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

corun=$data/corun_pairs.csv
solo=$data/solo_metrics.csv

# Partitions, all of the pairs that ship.
serves evaluate --laws disjoint --json disjoint.json
expect "errors of partitions" python3 - disjoint.json <<'PY'
import json, sys
e = json.load(open(sys.argv[1]))["laws"]["disjoint"]["errors"]
assert e["seen"]["predictions"] == e["rows_left_out"]["predictions"] == 720, e
assert e["rows_left_out"]["p90"] <= 0.06, e
assert e["models_left_out"]["p90"] <= 0.08, e
assert len(e["models_left_out"]["by_model"]) == 5, e
PY

# Shared SMs, kernel by kernel: without the pairs of batch 8, which take half of the time.
awk -F, 'NR == 1 || ($2 != 8 && $5 != 8 && $3 == 132)' "$corun" > large.csv
serves evaluate --laws shared,shared_kernels --corun large.csv --json shared.json
expect "errors on shared SMs" python3 - shared.json <<'PY'
import json, sys
j = json.load(open(sys.argv[1]))
e = j["laws"]["shared_kernels"]["errors"]
linear = j["laws"]["shared"]["errors"]
assert e["seen"]["predictions"] == 110 and j["without_profile"] == [], j
assert e["models_left_out"]["p90"] <= 0.2 < linear["models_left_out"]["p90"], (e, linear)
assert e["rows_left_out"]["p90"] <= 0.15, e
assert e["models_left_out_without_profiles"]["p90"] <= 0.35, e
PY

# A model that no fit has seen, from files of its own, once with a profile and once without. What is
# said of it is counted again.
awk -F, 'NR == 1 || ($1 != "vgg16" && $4 != "vgg16")' "$corun" > known.csv
awk -F, 'NR == 1 || $1 == "vgg16" || $4 == "vgg16"' "$corun" > other.csv
awk -F, '$1 != "vgg16"' "$solo" > known_solo.csv
awk -F, 'NR == 1 || $1 == "vgg16"' "$solo" > other_solo.csv
serves evaluate --once --corun known.csv --solo known_solo.csv --test-corun other.csv \
  --test-solo other_solo.csv --json other.json
expect "nothing is said of profiles" bash -c '! grep -q "no profile" out'
mkdir profiles
cp "$data"/profiles/{lenet,googlenet,resnet50,ssdlite_mobilenet}_b*.json profiles
serves evaluate --once --corun known.csv --solo known_solo.csv --test-corun other.csv \
  --test-solo other_solo.csv --profiles profiles --json unprofiled.json
expect "models without a profile are named" \
  grep -qF "other.csv: no profile, so estimated from solo metrics alone: vgg16_b1, vgg16_b8, vgg16_b32" out
expect "the model is predicted" python3 - other.json unprofiled.json <<'PY'
import json, sys
def p90(errors):
    errors = sorted(errors)
    at = 0.9 * (len(errors) - 1)
    low, part = int(at), at - int(at)
    return errors[low] + (errors[min(low + 1, len(errors) - 1)] - errors[low]) * part
limits = {"disjoint": (0.08, 0.08), "shared_kernels": (0.25, 0.6)}
for which, file in enumerate(sys.argv[1:]):
    j = json.load(open(file))
    assert "vgg16" not in j["models"]
    for law, limit in limits.items():
        said = j["laws"][law]
        errors = [abs(p["predicted"] - p["measured"]) / p["measured"] for p in said["test_predictions"]]
        assert all("vgg16" in (p["of"]["model"], p["beside"]["model"]) for p in said["test_predictions"])
        e = said["errors"]
        assert e["test"]["predictions"] == e["test_new_models"]["predictions"] == len(errors), e
        assert "test_known_models" not in e
        assert abs(p90(errors) - e["test"]["p90"]) < 1e-4, (law, p90(errors), e)
        assert p90(errors) <= limit[which], (law, file, p90(errors))
assert json.load(open(sys.argv[1]))["test_without_profile"] == []
assert len(json.load(open(sys.argv[2]))["test_without_profile"]) == 3
PY

# What ships is what a fit finds, and what it writes is what it reads.
serves fit --once --out fitted.json
expect "the coefficients that ship are the fit's" python3 - fitted.json "$data/interference/h200.json" <<'PY'
import json, sys
fitted, shipped = (json.load(open(f)) for f in sys.argv[1:])
for law in ("disjoint", "shared", "shared_kernels"):
    assert fitted[law].keys() == shipped[law].keys()
    for name, x in fitted[law].items(): # compilers round differently, and the last search takes steps
        assert abs(x - shipped[law][name]) <= (0.03 if law == "shared_kernels" else 0.001), (law, name)
PY
serves evaluate --coefficients fitted.json --json given.json
expect "coefficients that are given are not fitted" python3 - given.json fitted.json <<'PY'
import json, sys
given, fitted = (json.load(open(f)) for f in sys.argv[1:])
assert given["fitted"] is False
for law in given["laws"]:
    assert given["laws"][law]["coefficients"] == fitted[law], law
    assert list(given["laws"][law]["errors"]) == ["seen"]
PY

run --help
expect "help teaches" grep -q 'Errors are those on held-out rows' out

head=$(head -n 1 "$corun")
solo_head=model,batch,solo_us,l2_pct,dram_pct,sm_active_pct
refuses "--corun" evaluate --corun nowhere.csv
refuses "--solo" evaluate --solo nowhere.csv
refuses "given without --test-corun" evaluate --test-solo "$solo"
refuses "unknown law 'square'" evaluate --laws square
refuses "only some of the laws" fit --laws disjoint --out some.json
refuses "is also that of --json" fit --out same.json --json same.json
refuses "given beside --coefficients" evaluate --neutral-start --coefficients fitted.json
refuses "command line" fit --coefficients fitted.json
refuses "command line"
{ echo "$solo_head"; echo "lenet,1,30,1,,5"; } > hole.csv
refuses "hole.csv:2: ''" evaluate --solo hole.csv
{ echo "$solo_head"; echo "lenet,1,30,1,-1,5"; } > negative.csv
refuses "negative.csv:2: '-1'" evaluate --solo negative.csv
{ echo "$solo_head"; echo "lenet,1,30,1,1,5"; echo "lenet,1,31,1,1,5"; } > twice.csv
refuses "twice.csv: lenet, batch 1 is there twice" evaluate --solo twice.csv
awk -F, '$1 != "googlenet"' "$solo" > fewer.csv
refuses "googlenet, batch 1 has no row in fewer.csv" evaluate --solo fewer.csv
{ echo "$head"; echo "lenet,1,64,lenet,1,68,30,32,-34,34"; } > below.csv
refuses "below.csv:2: '-34'" evaluate --corun below.csv
{ echo "$head"; echo "lenet,1,100,lenet,1,68,30,32,34,34"; } > much.csv
refuses "much.csv:2: 100 and 68 SMs" evaluate --corun much.csv
{ echo "$head"; echo "lenet,1,64,lenet,1,68,30,32,34,34"; } > one.csv
refuses "disjoint: 2 measurements, expected at least as many as the 5 coefficients" evaluate --corun one.csv
refuses "one.csv has no pairs for shared" evaluate --laws shared --corun one.csv
echo "$head" > none.csv
refuses "none.csv has no rows" evaluate --corun none.csv
awk -F, 'NR == 1 || ($1 == "lenet" && $4 == "vgg16")' "$corun" > two.csv
refuses "disjoint, without lenet: 0 measurements" evaluate --corun two.csv
sed 's/,132,/,144,/g' "$corun" > larger.csv
refuses "lenet_b1: a profile of 132 SMs, expected the GPU's 144" evaluate --sms 144 --corun larger.csv
echo '{"gsched_interference": 1}' > empty.json
refuses "empty.json: /disjoint is missing" evaluate --coefficients empty.json

finish
