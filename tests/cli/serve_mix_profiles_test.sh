# SPDX-License-Identifier: Apache-2.0
# Whatever is wrong with an input file ends with 2 and one line that names the file and the place.
. "${GSCHED_SOURCE_DIR:?}/tests/cli/expect.sh"

good=$data/profiles/lenet_b1.json
few=(--requests 20 --policy fifo --load 0.5)

# bad TEXT NAME: NAME.json is refused, beside a good profile and alone.
bad() {
  refuses "$2.json: $1" "${few[@]}" --profiles "$2.json"
  refuses "$2.json: $1" "${few[@]}" --profiles "$good" "$2.json"
}
# edited TEXT NAME SCRIPT: as bad, with the good file edited by sed first.
edited() {
  sed -E "$3" "$good" >"$2.json"
  checks=$((checks + 1))
  cmp -s "$good" "$2.json" && fail "'$3' changes nothing"
  bad "$1" "$2"
}

serves "${few[@]}" --profiles "$good"

: >empty.json
bad "empty" empty
printf '\n \t\n' >blank.json
bad "empty" blank
head -c 4000 "$good" >truncated.json
bad "ends too early" truncated
printf '\x7fELF\x02\x01\x01' >binary.json
bad "line 1, column 1 is not JSON" binary
echo 'model: lenet' >yaml.json
bad "line 1, column 1 is not JSON" yaml
echo '[]' >list.json
bad "the document is an array" list
truncate -s 100G huge.json
bad "too large" huge
{
  printf '{"model": '
  head -c 3000000 /dev/zero | tr '\0' '['
} >deep.json
bad "nested deeper" deep
mkdir directory.json
mkdir -p holder/inner.json
refuses "--profiles: no .json file in 'holder'" "${few[@]}" --profiles holder

edited "/batch is missing" no_batch '1s/"batch": [0-9]+, //'
edited "/operations is missing" no_operations '1s/"operations"/"operation"/'
edited "/operations/1/grid is missing" no_grid '3s/"grid":[^]]*\],//'
edited "/operations/0/duration_us is missing" no_duration '2s/"duration_us":[^,]*,//'
edited "/operations/0/duration_us is -1" negative_time '2s/"duration_us":[^,]*,/"duration_us":-1,/'
edited "/operations/0/grid/0 is 0" zero_grid '2s/"grid":\[[0-9]+/"grid":[0/'
edited "/operations/0/block/1 is 0" zero_block '2s/"block":\[([0-9]+),[0-9]+/"block":[\1,0/'
edited "/operations/0/registers_per_thread is \"many\"" text '2s/("registers_per_thread"):[0-9]+/\1:"many"/'
edited "/operations/0/kind is \"kernal\"" kind '2s/"kind":"kernel"/"kind":"kernal"/'
edited "/operations/1/after/0 is the operation itself" itself '3s/"after":\[0\]/"after":[1]/'
edited "/operations/1/after/0 is 2, a later operation" later '3s/"after":\[0\]/"after":[2]/'
edited "/operations/0/after/0 is 1, a later operation" cycle '2s/"after":\[\]/"after":[1]/'
edited "/operations/1/after/0 is 999" nowhere '3s/"after":\[0\]/"after":[999]/'
edited "/graph_replay_us is 0" no_time '1s/("graph_replay_us"): [0-9.]+/\1: 0/'

# Parses, and yet no SM has room for it.
sed -E '3s/("dynamic_shared_bytes"):[0-9]+/\1:300000/' "$good" >fat.json
refuses "operation 1: " "${few[@]}" --profiles fat.json
sed -E '3s/("block"):\[[0-9,]+\]/\1:[1024,2,1]/' "$good" >wide.json
refuses "operation 1: " "${few[@]}" --profiles wide.json

# Arrival traces.
: >empty.csv
refuses "empty.csv" --requests 20 --policy fifo --arrivals trace:empty.csv
head -c 2000 /dev/urandom >noise.csv
refuses "noise.csv" --requests 20 --policy fifo --arrivals trace:noise.csv

finish
