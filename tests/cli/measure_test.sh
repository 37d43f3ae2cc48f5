# SPDX-License-Identifier: Apache-2.0
# measure: what is wrong with the command line is told in one line, and so is a GPU that is absent; the
# same from Python.
set -u
bin=${GSCHED_BIN_DIR:?}/measure
if [ ! -x "$bin" ]; then
  echo "built without CUDA: passed over"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export CUDA_VISIBLE_DEVICES= # the same on machines with a GPU
export PYTHONPATH=$GSCHED_SOURCE_DIR/python PYTHONDONTWRITEBYTECODE=1
export GSCHED_MEASURE_LIBRARY=$GSCHED_BIN_DIR/libmeasure_graphs.so
checks=0
failures=0

ends() { # ends CODE TEXT ARGS...: exit code and, but for 0, one line on stderr alone
  local code=$1 text=$2
  shift 2
  checks=$((checks + 1))
  timeout 60 "${run[@]}" "$@" >out 2>err </dev/null
  local rc=$?
  if [ $rc -eq "$code" ] && { [ "$code" -eq 0 ] || { [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ] &&
    grep -q '^measure: ' err && grep -qF ', expected ' err; }; } && cat out err | grep -qF -- "$text"; then
    return
  fi
  failures=$((failures + 1))
  printf 'FAILED: expected %s and "%s", got %s: %s %s\n' "$code" "$text" "$rc" "${run[*]}" "$*"
  head -n 3 out err
}

profile=$GSCHED_SOURCE_DIR/tools/data/profiles/lenet_b1.json
both() { # what the program and the module of Python refuse alike
  for what in latency pairs starts probes kernels counters all; do
    ends 0 "--out" "$what" --help
    ends 2 "--out: not given" "$what" --models sort
    ends 2 "--models: not given" "$what" --out made
    ends 1 "CUDA" "$what" --models saxpy,sort --out made
  done
  ends 1 "CUDA" all --models "$profile" --out made --json made.json
  for models in --models=sort --models=lenet; do
    ends 2 "no command, expected latency, pairs, starts, probes, kernels, counters or all" $models --out made
  done
  ends 2 "stray" all stray --models sort --out made
  ends 2 "--sms" pairs --sms 8 --models sort --out made
  ends 2 "--groups" latency --groups 8 --models sort --out made
  ends 2 "--group-sizes" pairs --group-sizes 3,2 --models sort --out made
  ends 2 "--sms" latency --sms 8,x --models sort --out made
  for what in latency kernels all; do ends 0 "Usage: measure $what [OPTIONS]" "$what" --help; done
  ends 0 "KINDs: sleep, copy, read, write, shared, fp32" kernels --help
  ends 0 "KINDs: sleep, copy, read, write, atomics, chase, l1, shared," probes --help
  for probe in tensor copy,tensor; do
    ends 2 "--probes: kernels has no usual probe of tensor, expected sleep, copy, read, write, shared, fp32, or KIND:LEVEL" \
      kernels --probes $probe --models sort --out made
  done
  ends 1 "CUDA" kernels --probes tensor:4 --models sort --out made
  ends 1 "CUDA" probes --probes sleep:registers=128:shared=1024 --models sort --out made
  ends 2 "--probes: probe fp32: 128 registers, expected " probes --probes fp32:registers=128 --models sort --out made
  for what in probes kernels counters all; do
    ends 0 "KIND[:LEVEL[:BLOCKS[:THREADS]]]" "$what" --help
    ends 2 '--probes: probe "fft", expected one of sleep, copy, ' "$what" --probes sleep,fft --models sort --out made
    ends 2 "--probes: probe fp32: level 5, expected 1 to 4" "$what" --probes fp32:5 --models sort --out made
    ends 1 "CUDA" "$what" --probes fp32,copy:4096:34 --models sort --out made
  done
  ends 2 '--probes: probe "copy:x", expected KIND[' probes --probes copy:x --models sort --out made
  ends 2 "expected a multiple of 32" probes --probes copy:1:1:40 --models sort --out made
  ends 2 "--probes" latency --probes copy --models sort --out made
  ends 0 "--split" probes --help
  ends 1 "CUDA" probes --split shared --models sort --out made
  ends 2 "--split: unknown value 'half'" all --split half --models sort --out made
  ends 1 "CUDA" probes --split 40 --models sort --out made
  ends 2 "--split: '0'" probes --split 0 --models sort --out made
  ends 2 "--split" kernels --split own --models sort --out made
  ends 0 "All of these but kernels" --help
  ends 0 "4 where it is incomplete" --help
  ends 2 "--minutes" all --minutes 0 --models sort --out made
  ends 2 "--window" all --window 0 --models sort --out made
  ends 2 "--device" all --device sim:h200 --models sort --out made
  ends 2 "'torch'" all --library torch --models sort --out made
  ends 2 "--adaptor: 'none.so'" all --adaptor none.so --out made
  ends 2 "--adaptor: 'none.so' does not exist" all --adaptor none.so:net_b8=8:1 --out made
  ends 2 "expected LIB:NAME" all --adaptor "$profile:=8" --out made
  ends 2 "out is a file" all --models sort --out out
  ends 2 "none.json" all --models none.json --out made
}
run=("$bin")
both
for graph in fft lenet net.py:x; do
  ends 2 "unknown graph '$graph', expected saxpy, sort, ticks or a profile's file (.json); --adaptor takes others, and \
python -m gsched.measure modules of PyTorch" all --models $graph --out made
done
run=(python3 -m gsched.measure)
both
echo "def net(batch): return None, None" >net.py
ends 2 'fft.py is not there' all --models fft.py:fft --out made
ends 2 '"net.py:", expected FILE.py:NAME' all --models net.py: --out made
ends 2 'net in batches of 8 twice' all --models net.py:net,net_b8 --out made
ends 2 '--batches: "1,0"' all --models net.py:net --batches 1,0 --out made
ends 2 '--batches: twice' all --models net.py:net --batches 1 --batches 2 --out made
if ! python3 -c 'import torch' 2>/dev/null; then
  ends 1 'torch is not installed' all --models net.py:net --out made
  ends 1 'torch is not installed' all --models lenet_b2,vgg16 --out made
fi
# What a module needs before it is captured, asked of the library as Python does.
cat >begins.py <<'PY'
import sys
import gsched.measure as measure
sys.exit(measure.open_library().gsched_measure_check_machine(*measure.words_of(sys.argv[1:])))
PY
run=(python3 begins.py)
ends 1 "CUDA" latency --out made
ends 2 "--out: not given" latency
run=(python3 -m gsched.measure)
GSCHED_MEASURE_LIBRARY=none.so ends 1 'libmeasure_graphs.so: not found' all --models sort --out made
echo 'int none;' | ${CC:-cc} -x c -shared -fPIC -o other.so -
GSCHED_MEASURE_LIBRARY=other.so ends 1 'other.so: ABI 0, expected 1' all --models sort --out made
if [ -e made ]; then
  echo "FAILED: a folder was made"
  failures=$((failures + 1))
fi

printf '%d checks, %d failures\n' "$checks" "$failures"
[ "$failures" -eq 0 ]
