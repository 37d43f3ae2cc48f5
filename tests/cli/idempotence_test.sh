# SPDX-License-Identifier: Apache-2.0
# idempotence: verdicts of the shipped traces, declarations, and what is wrong told in one line.
set -u
bin=${GSCHED_BIN_DIR:?}/idempotence
traces=${GSCHED_SOURCE_DIR:?}/tools/data/traces
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export CUDA_VISIBLE_DEVICES= # the same on machines with a GPU
checks=0
failures=0

fail() { # fail WHAT: says it with the last run's output
  failures=$((failures + 1))
  printf 'FAILED: %s\n' "$1"
  head -n 5 out err
}

ends() { # ends CODE TEXT ARGS...: exit code and text; but for 0, one line on stderr alone
  local code=$1 text=$2
  shift 2
  checks=$((checks + 1))
  timeout 60 "$bin" "$@" >out 2>err </dev/null
  local rc=$?
  if [ $rc -eq "$code" ] && grep -qF -- "$text" out err; then
    if [ "$code" -eq 0 ]; then
      [ ! -s err ] && return
    else
      [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ] && grep -q '^idempotence: ' err && return
    fi
  fi
  fail "expected $code and '$text', got $rc: idempotence $*"
}

says() { # says TEXT: a line of the last run's output has it
  checks=$((checks + 1))
  grep -qE -- "$1" out || fail "no '$1'"
}

ends 0 "stopped half-way" --help
ends 0 "11 kernels: 3 alone, 5 with a group of up to 6, 3 to wait for" --trace "$traces/block.json"
says '^ +1 +kernel +gemm +alone +overwrites none'
says '^ +2 +kernel +bias_relu +from 1 +overwrites its input, 16384 bytes'
says '^ +8 +kernel +gate +from 3 .*; and 4 overwrites its own, 8192 bytes'
says '^ +9 +memset +clear_sums +wait for it +a memset runs once'
says '^ +10 +kernel +add_row +wait for it'
says '^with source they may leave: 3 at checkpoints, 8 between blocks alone$'
ends 0 "4 at checkpoints, 7 between blocks" --trace "$traces/block.json" --declare 2=saves,9=saves
says '^ +2 +kernel +bias_relu +from 1 +overwrites its input'
says '^ +9 +memset +clear_sums +wait for it'
ends 0 "7 with a group of up to 9, 1 to wait for" --trace "$traces/block.json" \
  --declare 9=idempotent --json verdicts.json
says '^ +9 +memset +clear_sums +alone +declared idempotent'
says '^ +10 +kernel +add_row +from 9'
says '^ +11 +kernel +divide +from 3'
checks=$((checks + 1))
python3 - <<'PY' || fail "verdicts.json"
import json
run, = json.load(open("verdicts.json"))["runs"]
ops = run["operations"]
assert run["kernels"] == {"alone": 3, "with_group": 7, "longest_group": 9, "wait": 1}, run["kernels"]
assert [o["index"] for o in ops] == list(range(14))
assert ops[2]["verdict"] == "group" and ops[2]["restart_from"] == 1
assert ops[2]["overwrites_its_input"]["bytes"] == 16384
assert ops[12]["verdict"] == "wait" and ops[12]["restart_from"] is None
assert ops[0]["barrier"] and not ops[9]["barrier"] and ops[9]["declared"]
assert ops[1]["may_leave"] == "at checkpoints" and ops[2]["may_leave"] == "between blocks"
assert "may_leave" not in ops[9]
PY
ends 0 "from 1" --trace "$traces/block_reuse.json"
says '^ +8 +kernel +gate +from 1 .*; and 2 overwrites its own, 16384 bytes'
ends 0 "declared to clobber" --trace "$traces/block.json" --declare 1=clobbers,3=idempotent
says '^ +2 +kernel +bias_relu +wait for it'

ends 2 "not given, nor --device, expected one of both"
ends 2 "given beside --trace" --trace "$traces/block.json" --device cuda
ends 2 "none.json" --trace none.json
ends 2 "expected" stray
ends 2 "--check: given without a GPU" --trace "$traces/block.json" --check
ends 2 "--reuse: given beside --trace" --trace "$traces/block.json" --reuse
ends 2 "--save-trace: given beside --trace" --trace "$traces/block.json" --save-trace x.json
ends 2 "expected host, cuda or cuda:N" --device sim:h200
for wrong in 3 3=maybe =idempotent x=clobbers 1=clobbers,1=clobbers 1=clobbers,; do
  ends 2 "--declare" --trace "$traces/block.json" --declare "$wrong"
done
ends 2 "operation 99, expected 0 to 13" --trace "$traces/block.json" --declare 99=clobbers
ends 2 "--limit" --device cuda --limit 0
ends 2 "--json" --trace "$traces/block.json" --json none/x.json
printf '{"model": "m", "operations": [{"kind": "sort"}]}' >bad.json
ends 2 'bad.json: /operations/0/kind is "sort", expected kernel' --trace bad.json
# An operation whose accesses are missing would count as one that may run again.
printf '{"model": "m", "operations": [{"kind": "kernel", "name": "k"}]}' >bad.json
ends 2 'bad.json: /operations/0/reads is missing, expected [[address' --trace bad.json
ends 2 "/operations/0/reads is missing" --trace "${traces%/*}/profiles/resnet18_b1.json"
printf '{"model": "m", "operations": [' >bad.json
ends 2 "bad.json: ends too early" --trace bad.json

timeout 60 "$bin" --device host >out 2>err </dev/null
if [ $? -eq 0 ]; then # built with CUDA, which the host's trace needs as well
  ends 0 "3 alone, 5 with a group of up to 6" --device host --save-trace mine.json
  ends 0 "3 alone, 5 with a group of up to 6" --trace mine.json
  ends 0 "3 alone, 5 with a group of up to 8" --device host --reuse --save-trace mine.json
  ends 1 "CUDA" --device cuda
else
  ends 1 "this build has no CUDA" --device host
  ends 1 "this build has no CUDA" --device cuda
fi

printf '%d checks, %d failures\n' "$checks" "$failures"
[ "$failures" -eq 0 ]
