#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What goes on beside lanes that stand, on a GPU: memory that torch takes and gives back, its retry when
# memory has run out, models that come and go, and a long kernel of another process. Real-time and
# best-effort requests go on meanwhile, with the right outputs. Passed over where there is no PyTorch or
# no GPU.
set -euo pipefail
. "$GSCHED_SOURCE_DIR/tests/cli/pytorch_gpu.sh"

timeout 200 python3 - <<'PY'
import faulthandler, random, subprocess, sys, threading, time
faulthandler.dump_traceback_later(190, exit=True)
import gsched, torch

class Net(torch.nn.Module):
    def __init__(self, depth, width):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(depth))
    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return x / x.norm()

torch.manual_seed(1)
server = gsched.Server(policy="fifo", lanes=1, real_time_lanes=1, quantum=5e-3,
                       most_quantum=5e-3, watchdog=3)

class Tenant:
    """Keeps a model busy and compares each answer with the first of its input."""
    def __init__(self, name, net, inputs, real_time, pause_s):
        self.model = server.add_model(net, inputs[0], name=name, instances=2)
        self.inputs, self.real_time, self.pause_s = inputs, real_time, pause_s
        self.expected = [self.model.captured.replay(x) for x in inputs]
        self.done, self.worst_s, self.wrong, self.error = 0, 0.0, 0, None
        self.thread = threading.Thread(target=self.run, daemon=True)
    def run(self):
        draw = random.Random(self.model.name)
        try:
            while not over.is_set():
                i = draw.randrange(len(self.inputs))
                begun = time.monotonic()
                future = server.submit(self.model, self.inputs[i], real_time=self.real_time)
                self.wrong += not torch.equal(future.result(60).cpu(), self.expected[i])
                self.worst_s = max(self.worst_s, time.monotonic() - begun)
                self.done += 1
                time.sleep(draw.random() * self.pause_s)
        except Exception as e:
            self.error = e

over = threading.Event()
tenants = [Tenant("long", Net(60, 2048), [torch.randn(512, 2048) for _ in range(2)], False, 0.0),
           Tenant("urgent", Net(6, 512), [torch.randn(16, 512) for _ in range(2)], True, 1e-3)]
for t in tenants:
    t.thread.start()

def beside(what, act, seconds=1.5, least=20):
    before, preempted = [t.done for t in tenants], server.statistics()["preemptions"]
    for t in tenants:
        t.worst_s = 0.0
    end, turns = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        act()
        turns += 1
    served = [t.done - b for t, b in zip(tenants, before)]
    stood = server.statistics()["preemptions"] - preempted
    print(f"{what:34} {turns:5} times, served {served}, preempted {stood}, longest request "
          f"{1e3 * max(t.worst_s for t in tenants):.0f} ms", flush=True)
    for t in tenants:
        assert t.error is None and t.thread.is_alive(), (what, t.model.name, t.error)
        assert t.wrong == 0, (what, t.model.name, t.wrong)
    assert min(served) >= least and stood > 0, what

def give_back():
    block = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    del block
    torch.cuda.empty_cache() # cudaFree waits for the whole GPU

def run_out():
    kept = [torch.empty(32 << 20, dtype=torch.uint8, device="cuda") for _ in range(4)]
    del kept # cached: freed by the retry
    try:
        torch.empty(torch.cuda.mem_get_info()[0] + (8 << 30), dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        return
    raise AssertionError("more memory than there is")

def come_and_go():
    server.add_model(Net(4, 256), torch.randn(8, 256), name="corunner").remove(timeout=30)

beside("nothing", lambda: time.sleep(0.1))
beside("memory given back", give_back)
beside("memory that has run out", run_out)
beside("pinned memory", lambda: torch.empty(1 << 20, dtype=torch.uint8, pin_memory=True))
beside("models that come and go", come_and_go)

other = subprocess.Popen([sys.executable, "-c", """
import torch
torch.cuda._sleep(1000)
torch.cuda.synchronize()
print("ready", flush=True)
torch.cuda._sleep(int(14e9)) # one kernel of some seven seconds
torch.cuda.synchronize()
"""], stdout=subprocess.PIPE, text=True)
assert other.stdout.readline() == "ready\n"
begun = time.monotonic()
beside("a long kernel of another process", lambda: time.sleep(0.1), 4.0, 5)
assert other.poll() is None, f"its kernel took {time.monotonic() - begun:.1f} s"
assert other.wait(60) == 0
beside("nothing again", lambda: time.sleep(0.1))
over.set()
for t in tenants:
    t.thread.join(60)
    assert t.error is None and t.wrong == 0, (t.model.name, t.error, t.wrong)
server.close(timeout=60)
PY
