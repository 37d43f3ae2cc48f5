# SPDX-License-Identifier: Apache-2.0
# profile: what is wrong with the command line is told in one line, and so is a GPU that is absent.
set -u
bin=${GSCHED_BIN_DIR:?}/profile
if [ ! -x "$bin" ]; then
  echo "built without CUDA: passed over"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export CUDA_VISIBLE_DEVICES= # the same on machines with a GPU
checks=0
failures=0

ends() { # ends CODE TEXT ARGS...: exit code and, but for 0, one line on stderr alone
  local code=$1 text=$2
  shift 2
  checks=$((checks + 1))
  timeout 60 "$bin" "$@" >out 2>err </dev/null
  local rc=$?
  if [ $rc -eq "$code" ] && { [ "$code" -eq 0 ] || { [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ]; }; } &&
    cat out err | grep -qF -- "$text"; then
    return
  fi
  failures=$((failures + 1))
  printf 'FAILED: expected %s and "%s", got %s: profile %s\n' "$code" "$text" "$rc" "$*"
  head -n 3 out err
}

ends 0 "--partitions" --help
if grep -qE "^.{121}" out; then
  failures=$((failures + 1))
  echo "FAILED: a line of --help is too long"
fi
ends 2 "unknown graph 'fft'" --graph fft
ends 2 "--replay: given beside --graph" --graph sort --replay x.json
ends 2 "--no-cupti: given beside" --no-cupti --partitions 8
ends 2 "--partitions" --partitions 8,x
ends 2 "--partitions" --partitions 0
ends 2 "--replays" --replays 0
ends 2 "--elements" --elements 0
ends 2 "--limit" --limit 0
ends 2 "--device" --device sim:h200
ends 2 "--out" --out
ends 2 "expected" stray
for graph in saxpy sort; do
  ends 1 "CUDA" --graph $graph
done
ends 1 "CUDA" --replay "$GSCHED_SOURCE_DIR/tools/data/profiles/lenet_b1.json" --device cuda:3

printf '%d checks, %d failures\n' "$checks" "$failures"
[ "$failures" -eq 0 ]
