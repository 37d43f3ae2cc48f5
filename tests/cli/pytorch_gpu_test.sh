#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Python package with PyTorch on a GPU: answers, tensors wherever they are, captures that fail in every way,
# servers closed with requests in flight. Passes over itself where there is no PyTorch or no GPU.
set -euo pipefail
. "$GSCHED_SOURCE_DIR/tests/cli/pytorch_gpu.sh"

timeout 280 python3 - <<'PY'
import asyncio, atexit, concurrent.futures, faulthandler, gc, os, signal, sys, threading, time
faulthandler.dump_traceback_later(270, exit=True)
import gsched, torch

def step(what):
    print(f"{time.monotonic() - began:6.2f} s  {what}", flush=True)

def raises(kind, text, call, *args, **named):
    try:
        call(*args, **named)
    except kind as e:
        assert text in str(e), repr(e)
        return e
    raise AssertionError(f"no {kind.__name__} that says {text!r}")

class Net(torch.nn.Module):
    """Some work, and an answer whose structure and strides are not the simplest."""
    def __init__(self, depth=8, width=512):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(depth))
    def forward(self, x, scale=None):
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        if scale is not None:
            x = x * scale["by"]
        return {"full": x, "parts": (x.transpose(0, 1), x[:, ::2]), "note": "constant"}

began = time.monotonic()
torch.manual_seed(1)
net = Net()
x = [torch.randn(16, 512) for _ in range(8)]
server = gsched.Server(policy="srpt+deficit")
model = server.add_model(net, x[0], name="net", instances=3)
assert model.facts()["operations"] > 8
step(f"captured: {model.facts()}")

def plain(i): # the same graph, replayed whole, by itself
    return model.captured.replay(x[i])
expected = [plain(i) for i in range(len(x))]
def right(got, i):
    want = expected[i]
    return (torch.equal(got["full"].cpu(), want["full"])
            and all(torch.equal(a.cpu(), b) for a, b in zip(got["parts"], want["parts"]))
            and got["note"] == "constant")
assert not torch.equal(expected[0]["full"], expected[1]["full"])
with torch.inference_mode(): # and it is what the module says
    eager = net(x[0].cuda())["full"].cpu()
assert torch.allclose(eager, expected[0]["full"], rtol=1e-3, atol=1e-3)

for i in range(8):
    assert right(server.submit(model, x[i]).result(30), i)
    assert right(server.submit(model, x[i].pin_memory()).result(30), i)
    got = server.submit(model, x[i].cuda(), outputs="cuda").result(30)
    assert got["full"].is_cuda and right(got, i)
step("inputs and outputs in pageable, pinned and device memory")
for i in range(50): # made by kernels that may still run as they are handed over
    made = x[i % 8].cuda()
    for _ in range(20):
        made = made + 1
    for _ in range(20):
        made = made - 1
    back = server.submit(model, made, outputs="cuda").result(30)["full"] * 1.0
    assert torch.allclose(back.cpu(), expected[i % 8]["full"], rtol=1e-3, atol=1e-3)
step("inputs from torch's current stream")
side, told = torch.cuda.Stream(), torch.cuda.Event()
pinned = torch.empty(16, 512).pin_memory()
for i in range(50): # on another stream, through pinned memory, and back on that stream
    with torch.cuda.stream(side):
        made = x[i % 8].cuda(non_blocking=True)
        for _ in range(20):
            made = made + 1
        for _ in range(20):
            made = made - 1
        pinned.copy_(made, non_blocking=True)
    future = server.submit(model, made if i % 2 else pinned, outputs="cuda", stream=side, signal=told)
    assert future.wait(30)
    with torch.cuda.stream(side):
        side.wait_event(told)
        back = future.result()["full"] * 1.0
    side.synchronize()
    assert torch.allclose(back.cpu(), expected[i % 8]["full"], rtol=1e-3, atol=1e-3)
turned = torch.empty(512, 16).pin_memory() # its transpose has other strides than the example
for i in range(50):
    with torch.cuda.stream(side):
        made = x[i % 8].cuda(non_blocking=True)
        for _ in range(20):
            made = made + 1
        for _ in range(20):
            made = made - 1
        turned.copy_(made.t().contiguous(), non_blocking=True)
    future = server.submit(model, turned.t(), stream=side)
    assert torch.allclose(future.result(30)["full"], expected[i % 8]["full"], rtol=1e-3, atol=1e-3)
step("pinned inputs with other strides, copied on a stream")

# Requests are submitted while torch captures in its default mode, which a query would end.
mine, on_gpu = server.submit(model, x[0], outputs="cuda").result(30), x[1].cuda()
capturing, submitted, failed = threading.Event(), threading.Event(), []
def capture_globally():
    try:
        graph, value = torch.cuda.CUDAGraph(), torch.zeros(64, device="cuda")
        value += 1
        value.zero_() # its kernels are loaded before the capture
        with torch.cuda.graph(graph):
            value += 1
            capturing.set()
            submitted.wait(30)
            value += 1
        graph.replay()
        torch.cuda.synchronize()
        assert value.sum().item() == 128
    except Exception as e:
        failed.append(e)
    finally:
        capturing.set()
other = threading.Thread(target=capture_globally)
other.start()
assert capturing.wait(30)
for _ in range(50):
    assert server.submit(model, on_gpu, outputs=mine).wait(30)
submitted.set()
other.join()
assert not failed, failed
assert right(mine, 1)
step("requests while torch captures in its default mode")
chain = [server.submit(model, x[0])]
for i in range(1, 100):
    chain.append(server.submit(model, x[i % 8], after=chain[-1]))
assert all(right(f.result(30), i % 8) for i, f in enumerate(chain))
assert all(b.report["start"] >= a.report["end"] for a, b in zip(chain, chain[1:]))
step("other streams, events to signal, requests after others")
clients = [server.add_client(w) for w in (1.0, 2.0)]
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    work = lambda n: right(server.submit(model, x[n % 8], clients[n % 2]).result(60), n % 8)
    assert all(pool.map(work, range(1000)))
step("a thousand requests from eight threads")

futures, called = [server.submit(model, x[n % 8]) for n in range(200)], []
order = {f: n for n, f in enumerate(futures)}
for f in futures[::2]:
    f.add_done_callback(called.append)
assert all(right(f.result(), order[f] % 8) for f in concurrent.futures.as_completed(futures, timeout=60))
async def awaited(n): return right(await asyncio.wrap_future(server.submit(model, x[n % 8])), n % 8)
async def all_of_them(): return await asyncio.gather(*map(awaited, range(200)))
assert all(asyncio.run(asyncio.wait_for(all_of_them(), 60)))
limit = time.monotonic() + 20
while len(called) < 100:
    assert time.monotonic() < limit, len(called)
    time.sleep(0.001)
assert set(called) == set(futures[::2])
step("callbacks, as_completed and asyncio")
for n in range(200): # nobody holds on to these
    server.submit(model, x[n % 8])
gc.collect()
assert right(server.submit(model, x[3]).result(60), 3)
named = server.add_model(Net(2), {"x": x[0], "scale": {"by": torch.full((1,), 2.0)}}, "named", 1)
got = server.submit(named, {"x": x[1], "scale": {"by": torch.full((1,), 3.0)}}).result(30)
want = named.captured.replay({"x": x[1], "scale": {"by": torch.full((1,), 3.0)}})
assert torch.equal(got["full"], want["full"])
step("inputs by name")

class Raises(Net):
    calls = 0
    def forward(self, x):
        self.calls += 1
        if self.calls > 3:
            raise ValueError("from inside the capture")
        return super().forward(x)
class Waits(Net):
    def forward(self, x):
        x = super().forward(x)["full"]
        return x if x.sum().item() > 0 else -x
class Unjoined(Net):
    def forward(self, x):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = torch.relu(x)
        return super().forward(x)["full"] if y is not None else x
class Swallows(Net):
    def forward(self, x):
        x = super().forward(x)["full"]
        try:
            return x if x.sum().item() > 0 else -x
        except RuntimeError:
            return x
assert "inside the capture" in str(raises(ValueError, "inside", server.add_model, Raises(1), x[0]))
raises(RuntimeError, "captur", server.add_model, Waits(1), x[0])
for module in (Unjoined(1), Swallows(1)): # these raise nothing, the end of the capture does
    raises(RuntimeError, "captur", server.add_model, module, x[0])
    torch.rand(4, device="cuda").sum().item()
gc.collect()
some = [torch.rand(n, 1000, device="cuda") for n in range(1, 200)] # the allocator asks its captures
assert all(s.sum().item() > 0 for s in some)
del some
raises(gsched.GschedError, "expected tensors", server.add_model, lambda x: 5, x[0])
torch.cuda.synchronize()
torch.rand(4, device="cuda").sum().item() # torch's random numbers still work
assert right(server.submit(model, x[2]).result(30), 2)
again = server.add_model(Net(1), x[0], "again", 1)
server.submit(again, x[0]).result(30)
step("captures that failed, and one after them")

class Sum(torch.nn.Module):
    """Writes its own tensor, and reads it."""
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(64, 64))
    def forward(self, x):
        self.total.add_(x)
        return self.total * 2
sums = Sum()
adds = server.add_model(sums, torch.ones(64, 64), "sums")
assert adds.instances == 1 and adds.captured.written == ["total"], adds.captured.written
reads = server.add_model(lambda x: sums.total + x, torch.ones(64, 64), "reads")
assert reads.instances == 2 and reads.captured.excludes(adds.captured)
raises(gsched.GschedError, "writes total", server.add_model, Sum(), torch.ones(64, 64), "sums", 2)
norm = torch.nn.BatchNorm1d(64)
with torch.no_grad():
    assert not gsched.capture(norm, torch.randn(8, 64)).writes
sums.total.zero_()
torch.cuda.synchronize()
futures = [server.submit(reads if n % 3 else adds, torch.ones(64, 64)) for n in range(150)]
assert all(f.wait(30) for f in futures)
assert torch.equal(sums.total.cpu(), torch.full((64, 64), 50.0))
seen = [f.result() for f in futures]
assert all((s == s[0, 0]).all() for s in seen), "a request read what another was writing"
adds.remove(30)
reads.remove(30)
raises(gsched.GschedError, "removed", server.submit, adds, torch.ones(64, 64))
step("models that share state, and models that are removed")

with torch.autocast("cuda", dtype=torch.bfloat16):
    cast = server.add_model(net, x[0], "cast")
    eager = net(x[1].cuda())["full"].float().cpu()
rubbish = [torch.full((512, 512), float("nan"), device="cuda") for _ in range(200)] # where weights were
got = server.submit(cast, x[1]).result(30)["full"].float()
assert torch.allclose(got, eager, rtol=0.05, atol=0.05), (got - eager).abs().max()
del rubbish
step("captured under autocast")

def trainer(seed):
    torch.manual_seed(seed)
    student = Net(3, 128).cuda()
    optimizer = torch.optim.SGD(student.parameters(), lr=1e-3, momentum=0.9)
    begin = [p.detach().clone() for p in student.parameters()]
    def train(x, y):
        optimizer.zero_grad(set_to_none=True)
        loss = (student(x)["full"] - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach().reshape(1)
    captured = gsched.capture(train, (torch.randn(32, 128), torch.randn(32, 128)), training=True)
    def restart(): # what warms it up and measures it are steps, too
        with torch.no_grad():
            for p, b in zip(student.parameters(), begin):
                p.copy_(b)
                optimizer.state[p]["momentum_buffer"].zero_()
        torch.cuda.synchronize()
    return captured, student, restart
batches = [(torch.randn(32, 128), torch.randn(32, 128)) for _ in range(200)]
alone, served = trainer(5), trainer(5)
assert len(served[0].instances) == 1 and served[0].writes
apart = gsched.Server(policy="fifo", lanes=1, real_time_lanes=1, quantum=2e-3)
train, urgent = apart.add_model(served[0]), apart.add_model(model.captured)
for _, _, restart in (alone, served):
    restart()
last, requests = None, 0
for batch in batches:
    alone[0].replay(batch)
for batch in batches:
    last = apart.submit(train, batch, after=last)
while not last.done():
    assert right(apart.submit(urgent, x[requests % 8], real_time=True).result(30), requests % 8)
    requests += 1
last.result(60)
for p, q in zip(alone[1].parameters(), served[1].parameters()):
    assert torch.equal(p, q), (p - q).abs().max()
s = apart.statistics()
assert s["preemptions"] > 0 and s["expired_leases"] == 0, s
apart.close(timeout=60)
step(f"{len(batches)} steps of training, preempted {s['preemptions']} times by {requests} requests, whose weights are "
     "those of the graph replayed")

child = os.fork()
if child == 0:
    raises(gsched.GschedError, "fork()", server.submit, model, x[0])
    server.close()
    atexit._run_exitfuncs() # and no more: torch aborts where events of this test end in a child
    os._exit(0)
limit = time.monotonic() + 60
while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
    assert time.monotonic() < limit, "the child hangs"
    time.sleep(0.01)
assert ended[1] == 0, ended
assert right(server.submit(model, x[1]).result(30), 1)
step("a child made by fork()")

futures = [server.submit(model, x[n % 8], deadline=5.0) for n in range(300)]
cancelled = sum(f.cancel() for f in futures[100:200])
server.close(timeout=60)
states = [f.state for f in futures]
assert set(states) <= {"finished", "cancelled"} and states.count("finished") >= 200, states
assert all(right(f.result(), n % 8) for n, f in enumerate(futures) if f.state == "finished")
raises(gsched.GschedError, "", server.submit, model, x[0])
s = server.statistics()
assert s["submitted"] == s["finished"] + s["failed"] + s["rejected"] + s["cancelled"], s
assert s["active"] == 0 and s["failed"] == 0
step(f"closed with requests in flight, {cancelled} cancelled: {s}")

def cut_short(interrupt):
    busy = gsched.Server(policy="fifo")
    slow = busy.add_model(model.captured)
    with torch.cuda.stream(side):
        torch.cuda._sleep(5 * 10**9) # some seconds, for which all requests wait
    futures = [busy.submit(slow, on_gpu, stream=side) for _ in range(100)]
    timer, heard = threading.Timer(0.3, lambda: interrupt(busy)), False
    timer.start()
    try:
        busy.close()
    except KeyboardInterrupt:
        heard = True
    timer.join()
    assert all(f.done() and f.cancelled() for f in futures)
    torch.cuda.synchronize()
    return heard
assert cut_short(lambda busy: os.kill(os.getpid(), signal.SIGINT))
assert not cut_short(lambda busy: busy.close(cancel=True))
step("a close cut short by Ctrl-C, and by another thread")

other = gsched.Server(policy="fifo")
slow = other.add_model(model.captured)
futures = [other.submit(slow, x[0]) for _ in range(500)]
closing = time.monotonic()
other.close(cancel=True)
assert time.monotonic() - closing < 20 and all(f.done() for f in futures)
step(f"closed by cancelling: {sum(f.cancelled() for f in futures)} of 500 cancelled")
for policy in ("direct", "single", "rr", "edf"):
    with gsched.Server(policy=policy) as one:
        m = one.add_model(model.captured)
        assert all(right(f.result(60), n % 8)
                   for n, f in enumerate([one.submit(m, x[n % 8]) for n in range(50)]))
step("the other policies")
abandoned = gsched.Server()
abandoned.submit(abandoned.add_model(model.captured), x[0])
del abandoned
gc.collect()
at_exit = gsched.Server()
pending = [at_exit.submit(at_exit.add_model(model.captured), x[0]) for _ in range(3)]
step("servers dropped and left open")
gsched.leave_slow_side()
raises(gsched.GschedError, "another context on GPU 99: not made", gsched.leave_slow_side, 99)
assert all(future.result(30) is not None for future in pending)
step("another context on the GPU, and none where there is no GPU")
PY

# A child that ends as usual, by its interpreter's end.
timeout 100 python3 - <<'PY'
import os, sys, time
import gsched, torch

server = gsched.Server(policy="fifo")
model = server.add_model(lambda x: x + 1, torch.ones(8))
on_gpu = torch.ones(8, device="cuda")
done = [server.submit(model, on_gpu) for _ in range(8)]
assert all(f.wait(30) for f in done) and server._state.events
held = [server.submit(model, on_gpu) for _ in range(200)]
child = os.fork()
if child == 0:
    sys.exit(0)
limit = time.monotonic() + 60
while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
    assert time.monotonic() < limit, "the child hangs"
    time.sleep(0.01)
assert ended[1] == 0, ended
assert all(f.result(30) is not None for f in held)
print("a child made by fork() ends as usual")
PY

# Clients in other processes, without torch: results in shared memory, which the GPU writes.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/serves.py" <<'PY'
import gsched, sys, torch
torch.manual_seed(1)
net = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)])
x = torch.linspace(-1, 1, 4 * 512).reshape(4, 512)
with torch.no_grad():
    torch.save((x, net.cuda()(x.cuda()).cpu()), sys.argv[2])
gsched.serve({"net": (net, x), "twice": (lambda y: 2 * y, torch.ones(1 << 20))}, sys.argv[1],
             grpc=sys.argv[3] if len(sys.argv) > 3 else None, policy="srpt+deficit",
             ready=lambda server: print("ready", flush=True))
print("drained", flush=True)
PY
timeout 200 python3 - "$work" <<'PY'
import os, signal, subprocess, sys
import numpy as np
import gsched
assert "torch" not in sys.modules
work = sys.argv[1]
socket = f"@gsched-serves-{os.getpid()}"
try:
    import google.protobuf, grpc
    over_grpc = [f"unix:{work}/grpc.sock"]
except ImportError:
    over_grpc = []
served = subprocess.Popen([sys.executable, f"{work}/serves.py", socket, f"{work}/expected", *over_grpc],
                          stdout=subprocess.PIPE, text=True)
assert served.stdout.readline() == "ready\n"
x = np.linspace(-1, 1, 4 * 512, dtype=np.float32)
with gsched.Client(socket) as one, gsched.Client(socket) as other:
    nets = [client.submit("net", x) for client in (one, other) for _ in range(20)]
    ramp = np.arange(1 << 20, dtype=np.float32)
    twice = [other.submit("twice", ramp + i) for i in range(5)]
    for i, future in enumerate(twice):
        got = np.asarray(future.result(60)).reshape(-1).view(np.float32)
        assert np.array_equal(got, 2 * (ramp + i)), i
    answers = [np.asarray(f.result(60)).reshape(-1).view(np.float32).copy() for f in nets]
    assert all(np.array_equal(a, answers[0]) for a in answers)
if over_grpc: # real numbers over the network's protocol
    import time
    from gsched._open_inference import SERVICE, message_classes
    pb = message_classes()
    infer = grpc.insecure_channel(over_grpc[0]).unary_unary(
        f"/{SERVICE}/ModelInfer", request_serializer=pb["ModelInferRequest"].SerializeToString,
        response_deserializer=pb["ModelInferResponse"].FromString)
    request = pb["ModelInferRequest"](model_name="net", raw_input_contents=[x.tobytes()])
    request.inputs.add(name="input", datatype="FP32", shape=[4, 512])
    took = []
    for _ in range(200):
        begin = time.perf_counter()
        answer = infer(request, timeout=60)
        took.append(time.perf_counter() - begin)
        assert np.array_equal(np.frombuffer(answer.raw_output_contents[0], np.float32), answers[0])
    at_once = [infer.future(request, timeout=60) for _ in range(100)]
    assert all(np.array_equal(np.frombuffer(f.result().raw_output_contents[0], np.float32), answers[0]) for f in at_once)
    print(f"gRPC: p50 {sorted(took)[100] * 1e6:.0f} us, p99 {sorted(took)[198] * 1e6:.0f} us")
else:
    print("no grpcio: gRPC was not tried")
served.send_signal(signal.SIGTERM)
assert served.communicate(timeout=60)[0] == "drained\n" and served.returncode == 0
import torch
_, expected = torch.load(f"{work}/expected", weights_only=True)
assert np.allclose(answers[0].reshape(4, 512), expected.numpy(), atol=1e-5)
print("clients in other processes have their results")
PY

cd "$GSCHED_SOURCE_DIR/examples/pytorch"
timeout 120 python3 decode_loop.py --layers 2 --width 256 --tokens 32 --prompt 16
timeout 200 python3 bit_equal.py --models resnet18,bert_base --inferences 50 --inputs 5 --time-limit 90
