#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# side_streams.py: help, one line for each kind of bad input, known figures, and runs with a library and
# a torch that only play their parts. Where there is a PyTorch, its models on the host: they make the same
# with and without streams, and each fork is joined.
set -euo pipefail
source "$GSCHED_SOURCE_DIR/tests/cli/pytorch_played.sh"
example=$GSCHED_SOURCE_DIR/examples/pytorch
cd "$work"

python3 "$example/side_streams.py" --help >out && grep -q -- --time-limit out && grep -q -- --json out
says() { # says STATUS TEXT ARGS...: that exit status, and TEXT on the one line of its stderr
  local status=$1 text=$2 rc=0
  shift 2
  timeout 100 python3 "$example/side_streams.py" "$@" >out 2>err || rc=$?
  [ $rc -eq "$status" ] && [ "$(wc -l <err)" -eq 1 ] && grep -q '^side_streams: ' err &&
    grep -qF -- "$text" err ||
    { echo "side_streams $*: status $rc, expected $status and one line with '$text'"; cat err; exit 1; }
}
says 2 'no-such' --no-such
says 2 '--models: "resnet18", expected some of branches' --models lstm,resnet18
says 2 '--repetitions' --repetitions 0
says 2 '--check' --check 0
says 2 '--in-flight' --in-flight 0
says 2 'expected a file in a folder' --json no/out.json
NO_GPU=1 says 1 'torch sees no GPU, expected one' --models lstm

timeout 100 python3 - >out <<'PY' || { cat out; exit 1; }
import json, os, sys
import gsched, models, side_streams, torch

torch.allclose = lambda x, y, **_: list(x.values) == list(y.values)
slow_sides = []
gsched.leave_slow_side = slow_sides.append
side_streams.MAKERS = dict.fromkeys(("a", "b"), lambda torch, name, seed, gpu, streams: models.make("resnet18"))
def run(*args):
    sys.argv = ["side_streams.py", "--repetitions", "20", "--check", "3", "--json", "side.json", *args]
    status = side_streams.main()
    return status, json.load(open("side.json"))
status, found = run("--models", "a,b")
assert status == 0 and list(found["models"]) == ["a", "b"] and slow_sides == [0]
for f in found["models"].values():
    assert f["wrong"] == {"whole": 0, "segments": 0, "growing": 0}
    assert tuple(f["ways"]) == side_streams.WAYS
    for way in f["ways"].values():
        assert way["n"] == 20 and way["p10"] <= way["p50"] <= way["p90"]
assert found["worst_ratio"]["growing"] == max(f["ways"]["growing"]["ratio"]
                                              for f in found["models"].values())
os.environ["ADDS"] = "2" # the library adds one
status, found = run("--models", "a")
assert status == 1 and found["models"]["a"]["wrong"] == {"whole": 3, "segments": 3, "growing": 3}
del os.environ["ADDS"]

# A model that makes something else with streams is refused.
def other(torch, name, seed, gpu, streams):
    return (lambda x: x + float(streams)), models.make("resnet18")[1]
side_streams.MAKERS["b"] = other
try:
    side_streams.capture(torch, type("a", (), {"seed": 1, "gpu": 0}), "b")
    raise SystemExit("not refused")
except gsched.GschedError as e:
    assert str(e) == "b: other outputs with streams than without, expected the same"

# Known numbers.
said = side_streams.summed_up({"torch": [9.0] * 10, "whole": [10.0] * 9 + [50.0],
                               "segments": [10.0, 10.2, 10.4, 99.0],
                               "growing": [10.1] * 3}, dict.fromkeys(side_streams.WAYS, 4))
assert said["whole"] == {"n": 10, "segments": 4, "p10": 10.0, "p50": 10.0, "p90": 10.0, "ratio": 1.0}
assert said["segments"]["ratio"] == 1.02 and said["segments"]["p90"] == 99.0
assert said["torch"]["ratio"] == 0.9 and said["growing"]["ratio"] == 1.01
figures = {"operations": 9, "wrong": dict.fromkeys(side_streams.WAYS[1:], 0), "ways": said}
for strict, ratio, status in (([], 1.04, 0), (["--strict"], 1.04, 1), (["--strict"], 1.03, 0)):
    said["growing"]["ratio"] = ratio
    side_streams.measure = lambda *_: {"a": figures}
    assert run(*strict, "--models", "a")[0] == status
PY
grep -q 'worst ratio to whole: segments [0-9.]* (.), growing [0-9.]* (.); 0 wrong outputs' out

cd / # where no torch but a real one is
for python in python3 /usr/bin/python3; do
  if PYTHONPATH= "$python" -c 'import torch' 2>/dev/null; then
    PYTHONPATH=$example timeout 200 "$python" - <<'PY'
import contextlib
import side_streams, torch
from torch import nn

capturing, told = False, [] # what streams were told, in order
class Stream:
    def __init__(self, gpu=0): pass
    def wait_stream(self, other): told.append((self, other))
main = Stream()
on = [main]
@contextlib.contextmanager
def stream(one):
    on.append(one)
    yield
    on.pop()
torch.cuda.is_current_stream_capturing = lambda: capturing
torch.cuda.Stream, torch.cuda.stream = Stream, stream
torch.cuda.current_stream = lambda gpu=0: on[-1]

# A block of each kind, whose branches have the names of torchvision's modules.
def block(kind):
    names = {n for words in side_streams.BLOCKS[kind] for n in words.replace("|", " ").split()}
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            for name in sorted(names - {"average", "maximum"}):
                setattr(self, name, nn.Conv2d(4, 4, 3, padding=1, stride=1))
        def forward(self, x): raise AssertionError("the old one")
    Block.__name__ = kind
    return Block()
a = lambda x: nn.functional.avg_pool2d(x, kernel_size=3, stride=1, padding=1)
x = torch.randn(2, 4, 9, 9)
with torch.no_grad():
    for kind, branches in side_streams.BLOCKS.items():
        one = block(kind)
        net = side_streams.in_branches(torch, 0, nn.Sequential(one))
        if "maximum" in branches: # the others make smaller images too, with stride 2
            for conv in (m for n, m in one.named_children() if n in (
                    "branch3x3", "branch3x3dbl_3", "branch3x3_2", "branch7x7x3_4")):
                conv.stride, conv.padding = (2, 2), (0, 0)
        capturing = False
        alone = net(x)
        assert told == [], "nothing forks outside a capture"
        capturing = True
        both = net(x)
        assert torch.equal(alone, both)
        sides = [s for s, other in told if other is main]
        assert len(set(sides)) == len(branches) - 1 and main not in sides
        assert told == [(s, main) for s in sides] + [(main, s) for s in sides], "forks, then joins"
        told.clear()
    assert len(side_streams._sides[0]) == 3
    one = block("InceptionE")
    side_streams.in_branches(torch, 0, nn.Sequential(one))
    capturing = False
    s, d = one.branch3x3_1(x), one.branch3x3dbl_2(one.branch3x3dbl_1(x))
    expected = [one.branch1x1(x), one.branch3x3_2a(s), one.branch3x3_2b(s), one.branch3x3dbl_3a(d),
                one.branch3x3dbl_3b(d), one.branch_pool(a(x))]
    assert torch.equal(one(x), torch.cat(expected, 1))

    # The other models: the same with and without streams.
    side_streams.STEPS, side_streams.WIDTH = 5, 16
    asked = type("a", (), {"seed": 3, "gpu": 0})
    for name in ("branches", "lstm", "lstm_directions", "lstm_layers"):
        capturing = True
        (forks, x), (plain, y) = (side_streams.make(torch, name, asked, s) for s in (True, False))
        assert torch.equal(x, y)
        made = forks(x)
        assert bool(told) == (name != "lstm")
        assert not told or told[0][1] is main is told[-1][0], "forked from it, and joined in the end"
        told.clear()
        assert torch.equal(made, plain(x)) and not told
    assert made.shape == (5, side_streams.BATCH, 16)
try:
    side_streams.in_branches(torch, 0, nn.Linear(2, 2))
    raise SystemExit("not refused")
except side_streams.gsched.GschedError as e:
    assert "expected torchvision's" in str(e)
print(f"branches on streams with PyTorch {torch.__version__}")
PY
    break
  fi
done
echo 'side_streams.py does as it should'
