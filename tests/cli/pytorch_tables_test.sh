#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# python -m gsched.measure with a torch and a library that only play their parts: which graphs and
# options the library gets, and what is refused before anything is captured.
set -euo pipefail
source "$GSCHED_SOURCE_DIR/tests/cli/pytorch_played.sh"
cd "$work"

cat >measure.c <<'C'
// Prints what it gets.
#include <gsched/gsched_measure.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int print(const char* what, int argc, char** argv) {
  printf("%s", what);
  int bad = argc == 1;
  for (int i = 0; i < argc; ++i) {
    printf(" %s", argv[i]);
    bad |= strcmp(argv[i], "--bad") == 0;
  }
  puts("");
  fflush(stdout);
  return bad ? 2 : 0;
}
uint32_t gsched_measure_abi(void) { return GSCHED_MEASURE_ABI; }
int gsched_measure_check_options(int argc, char** argv) { return print("checks", argc, argv); }
int gsched_measure_check_machine(int argc, char** argv) {
  const char* status = getenv("MACHINE");
  return print("begins", argc, argv) ? 2 : status ? atoi(status) : 0;
}
int gsched_measure_graphs(int argc, char** argv, const gsched_measure_graph* g, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) {
    if (g[i].size != sizeof *g) return 5;
    printf("%s %u '%s' %p %llu %llu\n", g[i].model, g[i].batch, g[i].dtype, g[i].graph,
           (unsigned long long)g[i].input_bytes, (unsigned long long)g[i].output_bytes);
  }
  const char* status = getenv("MEASURES");
  return print("measures", argc, argv) ? 2 : status ? atoi(status) : 7;
}
C
${CC:-cc} -std=gnu11 -shared -fPIC -I "$GSCHED_SOURCE_DIR/tools/cuda/measure/library/include" \
  -o libmeasure_graphs.so measure.c
export GSCHED_MEASURE_LIBRARY=$work/libmeasure_graphs.so

cat >net.py <<'PY'
import torch
import beside # what is beside the file can be imported
class Net(torch.nn.Module):
    def __init__(self, batch, dtype): self.batch, self.dtype = batch, dtype
    def parameters(self): # those of the played torch know no type
        class Weight:
            dtype = self.dtype
            def is_floating_point(self): return True
        yield Weight()
    def __call__(self, x): return x + 1
def small(batch): return Net(batch, "torch.float16"), torch.tensor([1.0] * batch)
def writes(batch): # can have one instance only
    net = Net(batch, "torch.float32")
    net.kept = torch.tensor([0.0]).to("cuda")
    def step(x):
        net.kept.add_(1)
        return x + 1
    return step, torch.tensor([1.0] * batch)
def none(batch): return None
PY
cat >raises.py <<'PY'
def missing(batch): return {}["dtype"]
def asserted(batch): assert batch > 8
def short(batch): return [][batch]
def divided(batch): return batch / 0, 1
def lines(batch): raise RuntimeError("first\nsecond")
def leaves(batch): import sys; sys.exit(0)
def empty(batch): return lambda: None, ()
def grows(batch):
    import torch
    if batch > 8: raise MemoryError("no room")
    return lambda x: x + 1, torch.tensor([1.0] * batch)
def untyped(batch):
    import torch
    class Net:
        def __call__(self, x): return x + 1
        def parameters(self): raise ValueError("no weights")
    return Net(), torch.tensor([1.0] * batch)
def forward(batch):
    import torch
    def step(x): raise KeyError("inside")
    return step, torch.tensor([1.0] * batch)
PY
echo 'def no(' >syntax.py
echo 'import nosuch' >imports.py
echo 'import sys; sys.exit(0)' >exits.py
echo 'VALUES = {}["table"]' >loads.py
echo >beside.py
cat >run.py <<'PY'
import sys, types
import torch
import gsched.measure as measure
measure.leave_slow_side = lambda gpu: print("leaves the slow side of", gpu, flush=True)
sys.exit(measure.main())
PY

gets() { # gets STATUS ARGS...: that exit status, and stdout without addresses is stdin
  local status=$1 rc=0
  shift
  timeout 60 python3 run.py "$@" >out 2>err || rc=$?
  sed -i 's/0x[0-9a-f]*/ADDRESS/; s|'"$work"'/||g' out
  [ $rc -eq "$status" ] && diff - out || { echo "measure $*: status $rc, expected $status"; cat err; exit 1; }
}
versions='--library=torch=played --library=torch_cuda=13.0 --library=cudnn=91900'
gets 7 all --models net.py:small,sort,writes_b3 --batches 1,4 --out made --device cuda:1 <<OUT
checks measure all --out made --device cuda:1 --models sort
begins measure all --out made --device cuda:1 --models sort $versions
leaves the slow side of 1
small 1 'fp16' ADDRESS 4 4
small 1 'fp16' ADDRESS 4 4
small 4 'fp16' ADDRESS 16 16
small 4 'fp16' ADDRESS 16 16
writes 3 '' ADDRESS 12 12
measures measure all --out made --device cuda:1 --models sort $versions
OUT
[ "$(wc -l <err)" -eq 3 ] && grep -q 'captures writes_b3, 3 of 3' err || { cat err; exit 1; }
for status in 0 4; do
  printf '%s\n' 'checks measure latency --models sort' 'measures measure latency --models sort' |
    MEASURES=$status gets $status latency --models sort
done
gets 7 latency --models sort,p.json --batches=1 --out made <<'OUT'
checks measure latency --out made --models sort,p.json
measures measure latency --out made --models sort,p.json
OUT
gets 2 latency --models net.py:small --bad <<'OUT'
checks measure latency --bad
OUT
[ ! -s err ] # captures nothing after bad options
MACHINE=1 gets 1 latency --models net.py:small --out made <<OUT
checks measure latency --out made
begins measure latency --out made $versions
OUT
[ ! -s err ] # nor on a GPU in use, or into a folder of another one
gets 2 <<'OUT'
checks measure
OUT
gets 7 pairs --models resnet18 --batches 1 --instances 1 --out made <<OUT
checks measure pairs --out made
begins measure pairs --out made $versions
leaves the slow side of 0
resnet18 1 '' ADDRESS 16 16
measures measure pairs --out made $versions
OUT

# What cannot be captured is told, and the others are measured.
checks="checks measure all --out made
begins measure all --out made $versions"
measures="measures measure all --out made $versions"
printf '%s\n' "$checks" 'leaves the slow side of 0' "small 2 'fp16' ADDRESS 8 8" \
  "small 2 'fp16' ADDRESS 8 8" "writes 2 '' ADDRESS 8 8" "$measures" |
  gets 7 all --models net.py:small_b2,raises.py:forward_b2,empty_b2,net.py:writes_b2 --out made
grep -q "^measure: raises.py: forward(2): KeyError: 'inside', expected" err &&
  grep -q '^measure: example_input: no tensor in it, expected one at least' err &&
  [ "$(tail -n 1 err)" = 'measure: forward_b2, empty_b2 not captured, expected all 4 graphs' ] ||
  { cat err; exit 1; }
printf '%s\n' "$checks" 'leaves the slow side of 0' "small 2 'fp16' ADDRESS 8 8" \
  "small 2 'fp16' ADDRESS 8 8" "$measures" |
  MEASURES=0 gets 4 all --models raises.py:forward_b2,net.py:small_b2 --out made
[ "$(tail -n 1 err)" = 'measure: forward_b2 not captured, expected all 2 graphs' ] || { cat err; exit 1; }
gets 1 all --models raises.py:forward_b2,empty_b2 --out made <<<"$checks"
[ "$(grep -vc ': captures ' err)" -eq 2 ] || { cat err; exit 1; }
# Likewise what cannot be made, as there is no memory for one of the batches.
printf '%s\n' "$checks" 'leaves the slow side of 0' "small 2 'fp16' ADDRESS 8 8" \
  "small 2 'fp16' ADDRESS 8 8" "grows 2 '' ADDRESS 8 8" "grows 2 '' ADDRESS 8 8" \
  "writes 2 '' ADDRESS 8 8" "$measures" |
  MEASURES=0 gets 4 all --models net.py:small_b2,raises.py:grows_b2,grows_b32,untyped_b2,net.py:none_b2,writes_b2 \
    --out made
expected='expected (module, example_input)'
[ "$(grep -v ': captures ' err)" = "measure: raises.py: grows(32): MemoryError: no room, $expected
measure: raises.py: untyped(2): ValueError: no weights, expected a module that can be captured
measure: net.py: none(2) is no pair, $expected
measure: grows_b32, untyped_b2, none_b2 not captured, expected all 6 graphs" ] || { cat err; exit 1; }

says() { # says TEXT ARGS...: exit status 1, and TEXT on the last line of stderr
  local text=$1 rc=0
  shift
  timeout 60 python3 run.py "$@" >out 2>err || rc=$?
  [ $rc -eq 1 ] && tail -n 1 err | grep -q '^measure: ' && tail -n 1 err | grep -qF -- "$text" ||
    { echo "measure $*: status $rc, expected 1 and '$text'"; cat err; exit 1; }
}
says 'net.py: neither a function tiny nor make, expected one of them' all --models net.py:tiny --out made
says 'net.py: none(1) is no pair, expected (module, example_input)' all --models net.py:none_b1 --out made
says 'model "resnet99_b1", expected one of' all --models resnet99_b1 --out made
says "raises.py: missing(8): KeyError: 'dtype', $expected" all --models raises.py:missing_b8 --out made
says "raises.py: asserted(8): AssertionError, $expected" all --models raises.py:asserted_b8 --out made
says "raises.py: short(8): IndexError: list index out of range, $expected" all --models raises.py:short_b8 --out made
says "raises.py: divided(8): ZeroDivisionError: division by zero, $expected" all --models raises.py:divided_b8 --out made
says "raises.py: leaves(8): SystemExit: 0, $expected" all --models raises.py:leaves_b8 --out made
says "raises.py: lines(8): RuntimeError: first, $expected" all --models raises.py:lines_b8 --out made
says "raises.py: forward(8): KeyError: 'inside', expected a module that can be captured" \
  all --models raises.py:forward_b8 --out made
expected='expected a file of Python that can be loaded'
says 'syntax.py: SyntaxError: ' all --models syntax.py:no --out made
says ", $expected" all --models syntax.py:no --out made
says "imports.py: ModuleNotFoundError: No module named 'nosuch', $expected" all --models imports.py:a --out made
says "exits.py: SystemExit: 0, $expected" all --models exits.py:a --out made
says "loads.py: KeyError: 'table', $expected" all --models net.py:small,loads.py:a --out made
! grep -q ': captures ' err || { echo 'captured before all files were loaded'; exit 1; }
NO_GPU=1 says 'torch sees no GPU, expected one' all --models net.py:small --out made
echo 'measures what it is asked to'
