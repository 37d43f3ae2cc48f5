#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Python package: models that write state have one instance and exclude those that share it; training steps;
# autocast; children made by fork(). The library and torch only play their parts. Where there is a
# PyTorch, what operators read and write is noted with it too, on the host, and inputs are copied.
set -euo pipefail
source "$GSCHED_SOURCE_DIR/tests/cli/pytorch_played.sh"

cat >"$work/state.py" <<'PY'
import ctypes, functools, os, sys, threading, time
import gsched, torch
from gsched import _accesses, _server

played = ctypes.CDLL(os.environ["GSCHED_C_LIBRARY"])
number = lambda name: ctypes.c_int.in_dll(played, name)
def excluded():
    ids = (ctypes.c_uint32 * 16).in_dll(played, "excludes")
    return list(ids[:number("last_excludes").value])

def raises(kind, text, call, *args, **named):
    try:
        call(*args, **named)
    except kind as e:
        assert text in str(e) and "\n" not in str(e), repr(e)
        return e
    raise AssertionError(f"no {kind.__name__} that says {text!r}")

one = lambda x=0: torch.tensor([float(x)] * 4, cuda=True)
at = lambda x: (x.data_ptr(), x.data_ptr() + 16)

# What was there before the call counts, what it makes and its inputs do not.
weight, cache, mean, variance = one(), one(), one(), one()
def forward(x):
    made = (x + 1.0) + 2.0
    made.add_(1.0)
    x.add_(weight)
    return made + weight
plain = gsched.capture(forward, one(), name="plain")
assert plain.reads == {at(weight)} and plain.writes == set() and len(plain.instances) == 2

class Cached(torch.Module):
    def __init__(self): self.keys, self.more = cache, one()
    def __call__(self, x):
        self.keys.add_(x)
        return x + self.more
cached = gsched.capture(Cached(), one(), name="cached")
assert cached.writes == {at(cache)} and cached.written == ["keys"] and len(cached.instances) == 1
raises(gsched.GschedError, "cached: writes keys, which its instances would share: instances 2, "
       "expected 1", gsched.capture, Cached(), one(), 2, "cached")
assert len(gsched.capture(Cached(), one(), 1, "cached").instances) == 1
raises(gsched.GschedError, "writes a tensor of float32[4], which", gsched.capture,
       lambda x: (cache.add_(x), x + 1.0)[1], one(), 3)

# Lists of tensors, and batch norm, whose schema does not say that it writes.
lists = gsched.capture(lambda x: (torch.foreach_add_([cache, mean], 1.0), x + 1.0)[1], one())
assert lists.writes == {at(cache), at(mean)}
for training in (True, False):
    norm = gsched.capture(lambda x: torch.batch_norm(x, mean, variance, training), one())
    assert norm.writes == ({at(mean), at(variance)} if training else set())
    assert norm.reads == (set() if training else {at(mean), at(variance)})

# What is made during one call is not state of the next, though it lies where state was.
class Lazy:
    def __init__(self): self.calls = 0
    def __call__(self, x):
        self.calls += 1
        if self.calls == 1:
            self.kept = one()
        self.kept.add_(x)
        return x + 1.0
lazy = Lazy()
assert gsched.capture(lazy, one()).writes == {at(lazy.kept)}, "of the last warm-up run"

# Models of a server exclude those that use what they write, and themselves on the same memory.
server = gsched.Server(policy="fifo")
first = server.add_model(cached)
assert excluded() == []
reads = server.add_model(gsched.capture(lambda x: x + cache, one(), name="reads"))
assert excluded() == [first.index] and reads.instances == 2
other = server.add_model(plain)
assert excluded() == []
server.add_model(plain)
assert excluded() == [other.index]
both = server.add_model(gsched.capture(lambda x: (cache.add_(x), x + weight)[1], one(), name="both"))
assert excluded() == [first.index, reads.index]
first.remove()
server.add_model(cached)
assert excluded() == [reads.index, both.index]
assert _accesses.overlap({(0, 4), (8, 12)}, {(4, 8), (11, 13)})
assert not _accesses.overlap({(0, 4), (8, 12)}, {(4, 8), (12, 13)}) and not _accesses.overlap(set(), {(0, 1)})

# Training: with gradients, in its mode; all that can be reached is written.
net = Cached()
net.bias = one()
net.bias.grad = one()
optimizer = torch.optim.Optimizer([net.bias])
optimizer.state["bias"] = {"momentum": one(), "step": torch.tensor([1.0])}
helper, hidden = one(), one()
modes = []
def used_inside(): return helper
def step(x, y, scale=1.0):
    modes.append(torch.grad_modes[-1])
    assert optimizer
    def inner(): return used_inside
    return net(x) + scale
trained = gsched.capture(step, (one(), one()), training=True, parameters=[hidden])
assert set(modes) == {"grad"} and net.training and trained.name == "step"
expected = [net.keys, net.more, net.bias, net.bias.grad, optimizer.state["bias"]["momentum"], helper,
            hidden]
assert trained.writes == {at(x) for x in expected}, trained.written
assert "net.bias.grad" in trained.written and any("momentum" in w for w in trained.written)
assert len(trained.instances) == 1
assert "expected 1" in str(raises(gsched.GschedError, "step: writes ", gsched.capture, step,
                                  (one(), one()), 2, training=True))
def closed(net):
    def step(x): return net(x)
    return step
class Trainer:
    def __init__(self): self.net = net
    def step(self, x): return self.net(x)
for callable in (closed(net), functools.partial(closed(net)), Trainer().step):
    assert gsched.capture(callable, one(), training=True).writes >= {at(net.bias), at(net.bias.grad)}
class Opaque:
    __slots__ = ()
    def __call__(self, x): return x + 1.0
assert len(gsched.capture(Opaque(), one(), training=True).instances) == 1
raises(gsched.GschedError, "writes its parameters", gsched.capture, Opaque(), one(), 2, training=True)
modes.clear()
plain_again = gsched.capture(lambda x: (modes.append(torch.grad_modes[-1]), x + 1.0)[1], one())
assert set(modes) == {"inference"}

# Autocast keeps nothing of what it casts while anything is captured, and is as it was afterwards.
kept = []
def casts(x):
    kept.append(torch.is_autocast_cache_enabled())
    return x + 1.0
cleared = torch.cast_cache["cleared"]
gsched.capture(casts, one(), warm_up=2)
assert kept == [False] * 4 and torch.is_autocast_cache_enabled()
assert torch.cast_cache["cleared"] >= cleared + 5
torch.set_autocast_cache_enabled(False)
gsched.capture(casts, one())
assert not torch.is_autocast_cache_enabled()
torch.set_autocast_cache_enabled(True)
def fails(x): raise KeyError("inside")
raises(KeyError, "inside", gsched.capture, fails, one())
assert torch.is_autocast_cache_enabled()
assert torch.modes == [] and torch.grad_modes == []

# A child made by fork() is refused, frees nothing of its parent's, and ends.
number("holding").value = 1
future = server.submit(reads, one())
closes, released, tickets = (number(n).value for n in ("closes", "released", "tickets"))
locked, unlock = threading.Event(), threading.Event()
def hold_lock():
    with server._state.lock:
        locked.set()
        unlock.wait(60)
holder = threading.Thread(target=hold_lock)
holder.start()
locked.wait(60)
child = os.fork()
if child == 0:
    said = lambda call, *args, **named: raises(gsched.GschedError, "fork()", call, *args, **named)
    said(server.submit, reads, one())
    said(server.add_client)
    said(server.add_model, plain)
    said(server.statistics)
    said(reads.remove)
    said(reads.facts)
    said(future.result)
    said(future.wait, 1)
    said(lambda: future.state)
    assert not future.done() and not future.cancel()
    server.close()
    with server:
        pass
    server._release()
    del server, future
    _server.close_all()
    assert (number("closes").value, number("released").value) == (closes, released)
    assert number("tickets").value == tickets
    sys.exit(0) # through everything that runs at exit
deadline = time.monotonic() + 30
while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
    assert time.monotonic() < deadline, "the child hangs"
    time.sleep(0.01)
assert ended[1] == 0, ended
unlock.set()
holder.join()
played.end_held(1)
assert future.result(5) is not None
print("state, training, autocast and fork() are as they should be")
PY
timeout 120 python3 "$work/state.py"

# A child that ends as usual destroys no event of torch: neither of the pool nor of requests.
cat >"$work/child.py" <<'PY'
import ctypes, os, sys
import gsched, torch

played = ctypes.CDLL(os.environ["GSCHED_C_LIBRARY"])
one = lambda: torch.tensor([1.0] * 4, cuda=True)
server, dropped = gsched.Server(policy="fifo"), gsched.Server(policy="fifo")
ctypes.c_int.in_dll(played, "holding").value = 1
models = [s.add_model(lambda x: x + 1.0, one()) for s in (server, dropped)]
futures = [server.submit(models[0], one()) for _ in range(3)]
futures += [dropped.submit(models[1], one(), signal=torch.cuda.Event()) for _ in range(3)]
played.end_held(1)
assert futures[0].done() and futures[3].done()
futures = futures[2:3] + futures[5:] # the others are kept by their servers
assert all(s._state.events and len(s._state.pending) == 2 for s in (server, dropped))
del dropped
child = os.fork()
if child == 0:
    del server, futures
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0, "the child aborts"
os._exit(0)
PY
timeout 60 python3 "$work/child.py"

# The operators of a real PyTorch, whichever there is, on the host.
for python in python3 /usr/bin/python3; do
  if PYTHONPATH= "$python" -c 'import torch' 2>/dev/null; then
    PYTHONPATH=$GSCHED_SOURCE_DIR/python:$GSCHED_SOURCE_DIR/examples/pytorch timeout 200 "$python" - <<'PY'
import types
import gsched, torch
from gsched import _accesses, _server

if not hasattr(torch.Tensor, "untyped_storage"): # before 2.0
    torch.Tensor.untyped_storage = lambda x: types.SimpleNamespace(
        data_ptr=x.storage().data_ptr, nbytes=x.storage().nbytes)
def on_the_host(x):
    storage = x.untyped_storage()
    return (storage.data_ptr(), storage.data_ptr() + storage.nbytes())
_accesses.Accesses.range_of = staticmethod(on_the_host)

def noted(call, *inputs, inference=True):
    with torch.inference_mode(inference), _accesses.noting(torch, inputs) as accesses:
        call(*inputs)
    return accesses
at = on_the_host

linear, norm, x = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.ones(2, 4)
weights = {at(p) for p in (*linear.parameters(), *norm.parameters())}
statistics = {at(norm.running_mean), at(norm.running_var), at(norm.num_batches_tracked)}
for inference in (True, False):
    norm.train()
    a = noted(lambda x: norm(linear(x)), x, inference=inference)
    assert set(a.writes) == statistics, (a.writes, statistics)
    assert weights <= set(a.reads)
    norm.eval()
    a = noted(lambda x: norm(linear(x)), x, inference=inference)
    assert not a.writes and weights <= set(a.reads)

cache, position = torch.zeros(1, 2, 8, 4), torch.tensor([3])
def attend(x):
    cache.index_copy_(2, position, x.view(1, 2, 1, 4))
    y = torch.softmax(cache @ cache.transpose(-1, -2), -1)
    y.mul_(2)
    position.add_(1)
    return y.sum()
a = noted(attend, torch.ones(8))
assert set(a.writes) == {at(cache), at(position)}, a.writes
a = noted(lambda x: torch.cat([x, cache.flatten()]).add_(1).view(2, -1)[0].zero_(), torch.ones(8))
assert not a.writes and set(a.reads) == {at(cache)}
def view_of_input(x): x[1:].view(-1).fill_(3)
assert not noted(view_of_input, torch.ones(4, 2)).writes
if hasattr(torch, "_foreach_add_"):
    several = [torch.zeros(3), torch.zeros(2)]
    assert set(noted(lambda x: torch._foreach_add_(several, 1.0), x).writes) == set(map(at, several))

parameters = list(linear.parameters())
optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
def step(x):
    optimizer.zero_grad(set_to_none=True)
    loss = linear(x).square().sum()
    loss.backward()
    optimizer.step()
    return loss.detach()
step(x)
a = noted(step, x, inference=False)
assert {at(p) for p in parameters} <= set(a.writes), a.writes
a.add_reachable(torch, step, ())
momentum = {at(s["momentum_buffer"]) for s in optimizer.state.values()}
assert {at(p) for p in parameters} | {at(p.grad) for p in parameters} | momentum <= set(a.writes)
assert any("weight" in w for w in a.writes.values()), a.writes

# The step of training of models.py writes what it says, as torch's optimizer does by itself.
import copy, models
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3))
other, labels = copy.deepcopy(net), torch.tensor([0, 2, 1, 1, 0])
step, written = models.descent(net)
optimizer, data = torch.optim.SGD(other.parameters(), lr=1e-3, momentum=0.9), torch.randn(5, 4)
for _ in range(3):
    a = noted(step, data, labels, inference=False)
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(other(data), labels).backward()
    optimizer.step()
assert all(torch.equal(x, y) for x, y in zip(net.state_dict().values(), other.state_dict().values()))
buffers = [optimizer.state[p]["momentum_buffer"] for p in other.parameters()]
assert all(torch.equal(x, y) for x, y in zip(written[6:12], buffers)), "the momentum"
gradients = {at(p.grad) for p in net.parameters()}
assert set(a.writes) - gradients == {at(x) for x in written}

# Copies of tensors in pinned memory with any strides, where the host takes the GPU's place.
base = torch.arange(24.0)
like = torch.empty(2, 3, 4)
for x in (base.view(4, 3, 2).permute(2, 1, 0), torch.arange(96.0).view(4, 6, 4)[1:3, ::2],
          torch.arange(6.0).view(2, 3, 1).expand(2, 3, 4), torch.tensor(3.0).expand(2, 3, 4),
          base.view(2, 3, 4).requires_grad_().transpose(1, 2).transpose(1, 2) * 2):
    sent = _server.sent(torch, x, like, direct=True)
    assert sent.stride() == like.stride() and torch.equal(sent, x)
    assert (sent is x) == (x.stride() == like.stride())
print(f"noted and copied with PyTorch {torch.__version__}")
PY
    break
  fi
done
