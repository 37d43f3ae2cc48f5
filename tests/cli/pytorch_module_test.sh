#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Python package: what goes over the C ABI, futures and how they end, what is kept in place and until when,
# captures that fail, options in seconds. The library and torch only play their parts.
set -euo pipefail
source "$GSCHED_SOURCE_DIR/tests/cli/pytorch_played.sh"

cat >"$work/test.py" <<'PY'
import collections, concurrent.futures, ctypes, dataclasses, gc, os, signal, sys, threading, time, types
import weakref
import gsched, torch
from gsched import _abi, _capture, _options, _state

played = ctypes.CDLL(os.environ["GSCHED_C_LIBRARY"])
library = gsched.load_library()
number = lambda name: ctypes.c_int.in_dll(played, name)

def raises(kind, text, call, *args, **named):
    try:
        call(*args, **named)
    except kind as e:
        assert text in str(e) and "\n" not in str(e), repr(e)
        return e
    raise AssertionError(f"no {kind.__name__} that says {text!r}")

class Plus:
    """A module, with what it was asked to be."""
    moved = calls = 0
    def eval(self): return self
    def to(self, device): self.moved += 1; return self
    def __call__(self, x):
        self.calls += 1
        return {"sum": x + 1.0, "more": (x + 2.0, None, "constant")}

one = lambda x, **how: torch.tensor([float(x)] * 4, **how)

# Options, and who may be opened.
raises(gsched.GschedError, "policy: unknown", gsched.Server, policy="lifo")
raises(gsched.GschedError, 'option "no_such", expected one of lanes', gsched.Server, policy="fifo",
       no_such=1)
for options, text in (({"lanes": "x"}, "lanes: 'x', expected a number"), ({"lanes": -1}, "lanes: -1, "),
                      ({"lanes": 1 << 32}, "lanes: 4294967296, expected a number from 0"),
                      ({"lanes": 1.5}, "lanes: 1.5, "), ({"overshoot": "x"}, "expected a number"),
                      ({"reserve_sms": 8}, "reserve_sms: 8, expected up to 4 whole numbers"),
                      ({"reserve_sms": [1, 2, 3, 4, 5]}, "5], expected up to 4 whole numbers"),
                      ({"side_sms": [-8]}, "side_sms: [-8], expected up to 4 whole numbers"),
                      ({"slow_downs": {"a": 1.5}}, "slow_downs: {'a': 1.5}, expected numbers by pairs"),
                      ({"slow_downs": [1.5]}, "slow_downs: [1.5], expected numbers by pairs"),
                      ({"slow_downs": {"ab": 2}}, "slow_downs: {'ab': 2}, expected numbers by pairs"),
                      ({"slow_downs": {("a", "b", "c"): 2}}, "expected numbers by pairs of names"),
                      ({"slow_downs": {("a", "b"): "1.5"}}, "slow_downs: ('a', 'b'): '1.5', expected a number"),
                      ({"slow_downs": {("a", "b"): 10**400}}, "0..., expected a number"),
                      ({"slow_downs": {("a", "b"): 10**5000}}, "digits, expected a number"),
                      ({"slow_downs": {("a\0x", "b"): 2}}, "slow_downs: 'a\\x00x', expected a name without"),
                      ({"slow_downs": {("a", "\ud800"): 2}}, "slow_downs: '\\ud800', expected a name"),
                      ({"slow_downs": {(1, "b"): 2}}, "slow_downs: 1, expected a name"),
                      ({"slow_down_limits": {1: 2}}, "slow_down_limits: 1, expected a name"),
                      ({"slow_down_limits": {"a": "2"}}, "slow_down_limits: a: '2', expected a number"),
                      ({"slow_down_limits": [2]}, "slow_down_limits: [2], expected numbers by names"),
                      ({"overshoot": 10**400}, "0..., expected a number"), ({"overshoot": "4"}, "overshoot: '4', "),
                      ({"slo": 10**400}, "expected a number"), ({"gpu": 1 << 32}, "gpu: 4294967296, expected a"),
                      ({"gpu": "0"}, "gpu: '0', "), ({"policy": "fifo\0"}, "policy: 'fifo\\x00', expected a name"),
                      ({"policy": None}, "policy: None, expected a name")):
    raises(gsched.GschedError, text, gsched.Server, **{"policy": "fifo", **options})
server = gsched.Server(policy="fifo", lanes=3, quantum=100e-6, lease=0.03, watchdog=2.5,
                       reserve_sms=[8, 16], slow_downs={("a", "b"): 1.8, ("b", "a"): 1}, slow_down_limit=1.2,
                       slow_down_limits={"a": 1.5}, apart_wait=2e-3)
class Opened(ctypes.Structure):
    _fields_ = _abi.gsched_server_options._fields_
opened = Opened.in_dll(played, "opened")
assert (opened.quantum_us, opened.lease_us, opened.watchdog_ms) == (100.0, 30000.0, 2500)
assert list(opened.reserve_sms) == [8, 16, 0, 0]
assert (opened.slow_downs_count, opened.slow_down_limit, opened.apart_wait_us) == (2, 1.2, 2000.0)
assert (ctypes.c_char * 64).in_dll(played, "opened_slow_downs").value == b"a b 1.8, b a 1, "
assert opened.slow_down_limits_count == 1
assert (ctypes.c_char * 64).in_dll(played, "opened_limits").value == b"a 1.5, "

# Times are seconds; names with other units are refused with the name to use.
times = [name for name, _ in _abi.gsched_server_options._fields_ if name[-3:] in ("_us", "_ms", "_ns")]
assert len(times) == 13, times
for name in times:
    raises(gsched.GschedError, f"{name}: expected {name[:-3]}, in seconds", gsched.Server,
           policy="fifo", **{name: 1})
for value in ("x", None, [1], float("inf")):
    raises(gsched.GschedError, f"watchdog: {value!r}, expected a number", gsched.Server, policy="fifo",
           watchdog=value)
raises(KeyError, "host_ns: expected host, in seconds", lambda: server.statistics()["host_ns"])
raises(KeyError, "'no_such'", lambda: server.statistics()["no_such"])
assert server.statistics()["host"] == 2.5 and server.statistics()["preempt_p99"] == 1.5e-5
said = server.statistics().keys() | _options.FIELDS.keys()
assert not [name for name in said if name.endswith(("_ns", "_us", "_ms"))], said
assert number("opened_lanes").value == 3 and server.statistics()["submitted"] == 7
assert server.statistics()["found_to_need_sms"] == 9
assert (server.statistics()["kept_apart"], server.statistics()["apart_wait"]) == (3, 4e-3)
raises(gsched.GschedError, "weight", server.add_client, 0.0)
raises(gsched.GschedError, "weight: 1000", server.add_client, 10**400)
raises(gsched.GschedError, "weight: '2', expected a number", server.add_client, "2")

# Capture: each instance has memory of its own, workspaces are forgotten before and after.
module = Plus()
model = server.add_model(module, one(1), name="plus", instances=3)
assert model.facts()["instances"] == 3 == model.instances and module.moved == 1
assert (torch.cuda.CUDAGraph.begun, torch.cuda.CUDAGraph.ended) == (3, 3)
assert len(torch.cleared) == 6
addresses = {x.data_ptr() for i in model.captured.instances for x in i.inputs + i.outputs}
assert len(addresses) == 9
raises(gsched.GschedError, "refused: a node", server.add_model, Plus(), one(1), name="refused")
raises(gsched.GschedError, "no tensor", server.add_model, Plus(), "text")
raises(gsched.GschedError, "instances: 0", server.add_model, Plus(), one(1), instances=0)
raises(gsched.GschedError, "name: 'a\\x00b', expected a name", server.add_model, Plus(), one(1), name="a\0b")
raises(gsched.GschedError, "name: 'a\\x00b', expected a name", server.add_model, model.captured, name="a\0b")
raises(gsched.GschedError, "a zero byte in its path", model.captured.profile, "a\0b")
raises(gsched.GschedError, "batch: 4294967297, expected", model.captured.profile, "a", batch=1 + (1 << 32))

# While a kernel hangs nothing is captured, as that would wait for it.
number("hanging").value, unused = 1, Plus()
assert raises(gsched.GschedError, "a kernel of this process hangs on GPU 0", server.add_model, unused,
              one(1)).code == 5
assert unused.calls == unused.moved == 0
number("hanging").value = 0

class Broken(Plus):
    def __call__(self, x):
        self.calls += 1
        if self.calls > 3: # not while warming up
            raise KeyError("from inside")
        return x
begun, ended = torch.cuda.CUDAGraph.begun, torch.cuda.CUDAGraph.ended
raises(KeyError, "from inside", server.add_model, Broken(), one(1))
assert torch.cuda.CUDAGraph.begun - begun == 1 == torch.cuda.CUDAGraph.ended - ended and gc.isenabled()
class Waits(Broken): # CUDA gives the capture up, so that it does not end as it should either
    def __call__(self, x):
        torch.cuda.CUDAGraph.broken = bool(torch.cuda.CUDAGraph.capturing)
        return super().__call__(x)
raises(KeyError, "from inside", server.add_model, Waits(), one(1))
assert len(torch.pools_ended) == 1 and not torch.cuda.CUDAGraph.capturing
class Unjoined(Plus): # nothing is raised but by the end of the capture: a side stream is not joined
    def __call__(self, x):
        torch.cuda.CUDAGraph.broken = bool(torch.cuda.CUDAGraph.capturing)
        return super().__call__(x)
begun, given_up = torch.cuda.CUDAGraph.begun, len(_capture.given_up)
raises(RuntimeError, "the capture was given up", server.add_model, Unjoined(), one(1))
assert len(torch.pools_ended) == 2, "the allocator would still ask the graph"
assert len(_capture.given_up) == given_up + 1, "the allocator may still ask the graph"
assert torch.cuda.CUDAGraph.begun == begun + 2, "the random numbers are still in a capture"
assert not torch.cuda.CUDAGraph.capturing and gc.isenabled()
class Interrupted(BaseException): pass
begin = torch.cuda.CUDAGraph.capture_begin
def begin_and_interrupt(*arguments, **named): # as Ctrl-C in the call, raised when it returns
    torch.cuda.CUDAGraph.capture_begin = begin
    begin(*arguments, **named)
    raise Interrupted()
torch.cuda.CUDAGraph.capture_begin = begin_and_interrupt
raises(Interrupted, "", server.add_model, Plus(), one(1))
assert not torch.cuda.CUDAGraph.capturing, "the stream of captures still captures"
assert len(_capture.given_up) == given_up + 1, "this one has ended well"
server.add_model(Plus(), one(1)).remove()
class Host(Plus):
    def __call__(self, x): return torch.tensor([1.0])
raises(gsched.GschedError, "on the host", server.add_model, Host(), one(1))
raises(gsched.GschedError, "no tensor", server.add_model, lambda x: None, one(1))
class Lost(dict): # a mapping that cannot be made
    def __init__(self, secret, other): super().__init__(secret)
    def __setitem__(self, *_): raise TypeError("no")
raises(gsched.GschedError, "Answers: its answer: a Lost cannot be made again", server.add_model,
       type("Answers", (Plus,), {"__call__": lambda self, x: Lost({"a": x + 1.0}, 2)})(), one(1))

# Answers have the module's structure; inputs may be anywhere.
answer = server.submit(model, one(5)).result(1)
assert list(answer) == ["sum", "more"] and list(answer["sum"].values) == [6.0] * 4
assert answer["more"][1:] == (None, "constant") and answer["sum"].is_pinned()
waits = torch.cuda.Stream.waits
assert list(server.submit(model, one(6, cuda=True)).result()["sum"].values) == [7.0] * 4
assert server.submit(model, one(7, pinned=True), outputs="cuda").result()["sum"].is_cuda
mine = {"sum": one(0, pinned=True), "more": (one(0, pinned=True), None, None)}
assert server.submit(model, one(8), outputs=mine).result()["sum"] is mine["sum"]
assert list(mine["sum"].values) == [9.0] * 4
assert server.submit(model, None, outputs=()).result() is None
raises(gsched.GschedError, "arrival_ns: expected arrival, in seconds", server.submit, model, one(1),
       arrival_ns=time.monotonic_ns())
raises(gsched.GschedError, "submit: no argument other", server.submit, model, one(1), other=1)
for named, text in (({"client": 1 << 32}, "client: 4294967296, expected a number from 0"),
                    ({"client": "a"}, "client: 'a', "), ({"deadline": 10**400}, "0..., expected a number"),
                    ({"deadline": "1"}, "deadline: '1', "), ({"arrival": float("nan")}, "arrival: nan, expected seconds"),
                    ({"arrival": 1e20}, "arrival: 1e+20, "), ({"arrival": 10**400}, "0..., expected seconds")):
    raises(gsched.GschedError, text, server.submit, model, one(1), **named)
since = time.monotonic()
report = server.submit(model, one(1)).report
assert since <= report["arrival"] <= report["end"] <= time.monotonic() and report["start"] == 0
assert abs(report["latency"] - (report["end"] - report["arrival"])) < 1e-6
raises(KeyError, "end_ns: expected end, in seconds", lambda: report["end_ns"])
future = server.submit(model, one(1), client=5, deadline=0.25,
                       arrival=time.monotonic() - 1.0)
assert number("last_client").value == 5 and 1.0 < future.latency < 2.0 and future.state == "finished"
assert ctypes.c_double.in_dll(played, "last_deadline").value == 250000.0
assert future.report["end"] and future.exception() is None and not future.cancel()
for inputs, text in ((torch.tensor([1.0] * 5), "input 0 is float32[5], expected float32[4]"),
                     ((one(1), one(2)), "structure"), ("x", "structure"),
                     (one(1, dtype="torch.i64"), "i64[4]")):
    raises(gsched.GschedError, text, server.submit, model, inputs)
raises(gsched.GschedError, "1 output tensors, expected 2", server.submit, model, one(1),
       outputs=one(2))
class Elsewhere(torch.Tensor):
    def get_device(self): return 1
elsewhere = {"sum": Elsewhere((4,), cuda=True), "more": (one(0, pinned=True), None, None)}
raises(gsched.GschedError, "plus: output 0 is on GPU 1, expected the host or GPU 0", server.submit,
       model, one(1), outputs=elsewhere)
raises(gsched.GschedError, 'outputs: "host"', server.submit, model, one(1), outputs="host")

# Several inputs, by place and by name; answers of every kind.
Pair = collections.namedtuple("Pair", "a b")
both = gsched.capture(lambda x, y=None: Pair(x + 1.0, y["deep"][0] + 2.0), (one(1), {"deep": [one(2)]}),
                      instances=1, name="both")
two = server.add_model(both)
assert isinstance(server.submit(two, [one(3), {"deep": [one(4)]}]).result(), Pair)
named = server.add_model(lambda x, y: x, {"x": one(1), "y": one(2)}, name="named", instances=1)
raises(gsched.GschedError, "structure", server.submit, named, {"x": one(1)})

class Output(collections.OrderedDict):
    """As transformers' ModelOutput: a mapping and a dataclass."""
    logits: object = None
    cache: object = None
    def __init__(self, logits=None, cache=None):
        super().__init__({k: v for k, v in (("logits", logits), ("cache", cache)) if v is not None})
        self.logits, self.cache = logits, cache
Output = dataclasses.dataclass(Output, init=False, repr=False)
@dataclasses.dataclass(frozen=True)
class Frozen:
    first: object
    second: str = "constant"
    third: object = dataclasses.field(init=False, default=3)
class Sums(tuple): # torch's own answers of several tensors are such
    pass
make = lambda x: {
    "proxy": types.MappingProxyType({"a": x + 1.0}), "model": Output(logits=x + 2.0),
    "default": collections.defaultdict(list, {"b": x + 3.0}), "user": collections.UserDict(c=x + 4.0),
    "frozen": Frozen(x + 5.0), "sums": Sums((x + 6.0, 7)), "numbers": {1: x + 7.0}}
of_every_kind = server.add_model(gsched.capture(make, one(0), name="kinds"))
got = server.submit(of_every_kind, one(1)).result()
assert type(got["proxy"]) is types.MappingProxyType and list(got["proxy"]) == ["a"]
assert type(got["model"]) is Output and got["model"].logits is got["model"]["logits"]
assert got["model"].cache is None and type(got["default"]) is collections.defaultdict
assert got["user"]["c"] is not None and got["frozen"].second == "constant" and got["frozen"].third == 3
assert type(got["sums"]) is Sums and got["sums"][1] == 7 and list(got["numbers"]) == [1]
all_of_them = gsched.tensors_of(got)
assert len(all_of_them) == 7 and all(x.is_pinned() for x in all_of_them)

# What is no tensor must be as in the example.
scaled = server.add_model(lambda x, k, how: x + 1.0, (one(1), 2, {"mode": "fast", "nan": float("nan")}),
                          name="scaled", instances=1)
server.submit(scaled, (one(1), 2, {"mode": "fast", "nan": float("nan")})).result()
for k, how, text in ((3, {"mode": "fast", "nan": float("nan")}, "scaled: input[1] is 3, expected 2"),
                     (2.0, {"mode": "fast", "nan": float("nan")}, "input[1] is 2.0, expected 2"),
                     (2, {"mode": "slow" * 50, "nan": float("nan")}, "input[2]['mode'] is 'slow"),
                     (2, {"mode": "fast"}, "structure"), (one(1), {}, "structure"),
                     (2, {"mode": "fast", "nan": object()}, "input[2]['nan'] is <object")):
    raises(gsched.GschedError, text, server.submit, scaled, (one(1), k, how))

# A request waits for what the stream holds: nothing is synchronised.
address = lambda name: ctypes.c_void_p.in_dll(played, name).value
made = torch.cuda.Event.made
future = server.submit(model, one(1))
assert address("last_wait") is None, "pageable memory is copied at once"
for inputs, outputs in ((one(1, cuda=True), None), (one(1, pinned=True), None), (None, "cuda"),
                        (one(1), mine)):
    server.submit(model, inputs, outputs=outputs).result()
    assert address("last_wait"), (inputs, outputs)
for inputs, more in ((one(1), {"stream": torch.cuda.Stream()}), (None, {})):
    server.submit(model, one(1)).result()
    assert address("last_wait") is None
    server.submit(model, inputs, **more).result()
    assert address("last_wait"), "a stream that is named, and inputs that are in place"
assert torch.cuda.Event.made == made, "events are used again"
assert torch.cuda.Stream.waits == waits
number("holding").value = 1
first = server.submit(model, one(1, cuda=True))
second = server.submit(model, one(1, cuda=True))
assert first._pooled is not second._pooled and first._pooled.on is torch._default
side = torch.cuda.Stream()
third = server.submit(model, one(1, cuda=True), stream=side)
assert third._pooled.on is side and torch.cuda.Event.made == made + 2
played.end_held(1)
number("holding").value = 0
assert first.done() and second.done() and third.done() and third._pooled is None
server.submit(model, one(1, cuda=True)).result()
assert address("last_wait") and torch.cuda.Event.queries == 0, "a query ends captures elsewhere"
raises(gsched.GschedError, "stream: of GPU 1, expected one of GPU 0, the server's", server.submit,
       model, one(1, cuda=True), stream=torch.cuda.Stream(1))
torch.cuda.Stream.capturing = True
raises(gsched.GschedError, "plus: submitted in the middle of a capture", server.submit, model,
       one(1, cuda=True))
torch.cuda.Stream.capturing = False
told = torch.cuda.Event()
future = server.submit(model, one(1), signal=told)
assert address("last_signal") == told.cuda_event != 0
following = server.submit(model, one(1), after=future)
assert address("last_after") == future._ticket.value
turned = torch.empty_strided((4,), (2,), "torch.float32", pin_memory=True) # a stream reads it later
turned.values[:] = [1.0, 2.0, 3.0, 4.0]
copies = len(torch.cuda.Stream.copies)
number("holding").value = 1
future = server.submit(model, turned, stream=side)
(source, non_blocking, stream), = torch.cuda.Stream.copies[copies:]
assert source.stride() == (1,) and list(source.values) == [1.0, 0.0, 2.0, 0.0, 3.0, 0.0, 4.0]
assert non_blocking and stream is side is future._pooled.on and future._inputs[0].is_cuda
assert address("last_wait") == future._pooled.cuda_event
played.end_held(1)
number("holding").value = 0
assert list(future.result()["sum"].values) == [2.0, 3.0, 4.0, 5.0]
assert torch.cuda.Stream.waits == waits

# What is under way stays in place, though nobody holds on to it; then it goes.
number("holding").value = 1
x = one(1, pinned=True)
future = server.submit(model, x)
assert not future.done() and future.latency is None and future.state == "pending"
raises(TimeoutError, "no answer", future.result, 0.01)
gone = [weakref.ref(x), weakref.ref(future._outputs["sum"])]
del x, future
gc.collect()
assert all(g() is not None for g in gone)
threading.Timer(0.05, lambda: played.end_held(1)).start()
waited = server.submit(model, one(2))
assert list(waited.result(5)["sum"].values) == [3.0] * 4
number("holding").value = 0
for _ in range(3):
    server.submit(model, one(1)).result()
gc.collect()
assert all(g() is None for g in gone), "nobody asked, and still it is let go"

# Nobody gets the outputs of a request that was rejected: their memory goes, though somebody holds the future.
number("ends_as").value = gsched._abi.STATES.index("rejected")
future = server.submit(model, one(1))
gone = weakref.ref(future._outputs["sum"])
assert future.wait(5) and future.state == "rejected" and gone() is None
number("ends_as").value = gsched._abi.STATES.index("finished")

# Two threads see its end at once: its event goes back to the pool once.
class Slow(list):
    def append(self, event):
        super().append(event)
        time.sleep(0.2) # so that the other thread goes on first
number("holding").value = 1
future = server.submit(model, one(1, cuda=True))
both, event, status = threading.Barrier(2), future._pooled, library.gsched_status
played.end_held(1)
number("holding").value = 0
def seen_by_both(*arguments):
    code = status(*arguments)
    both.wait(10)
    return code
library.gsched_status, server._state.events = seen_by_both, Slow()
thread = threading.Thread(target=future.done)
thread.start()
assert future.result() is not None
thread.join()
library.gsched_status = status
assert server._state.events == [event], server._state.events
server._state.events = []
assert future.report["state"] == "finished" and future._inputs is None

# Other ends.
number("holding").value = 1
future = server.submit(model, one(1))
assert future.cancel() and future.cancelled() and future.done()
raises(concurrent.futures.CancelledError, "told", future.result)
number("holding").value = 0
for state, text in ((2, "told"), (3, "told")):
    number("ends_as").value = state
    future = server.submit(model, one(1))
    e = raises(gsched.GschedError, text, future.result)
    assert str(future.exception()) == str(e)
    assert future.state == ("failed", "rejected")[state - 2]
number("ends_as").value = 1

# A device that failed may still use the memory of its requests: it is kept for good.
number("ends_as").value, number("ends_with").value = 2, 5
fragile = server.add_model(Plus(), one(1), name="fragile", instances=1)
x, y = one(1, pinned=True), {"sum": one(0, pinned=True), "more": (one(0, pinned=True), None, None)}
gone = [weakref.ref(t) for t in (x, y["sum"], y["more"][0], fragile.captured.instances[0].inputs[0])]
future = server.submit(fragile, x, outputs=y)
assert raises(gsched.GschedError, "told", future.result) and future.report["code"] == 5
number("ends_as").value, number("ends_with").value = 2, 0
x2 = one(1, pinned=True)
others = weakref.ref(x2)
server.submit(fragile, x2).wait()
fragile.remove()
del x, y, x2, future, fragile
gc.collect()
assert others() is None and all(g() is not None for g in gone)
number("ends_as").value = 1

# Removal: in slices, until it is done or the time is over.
passing = server.add_model(Plus(), one(1), name="passing")
memory = weakref.ref(passing.captured.instances[0])
removes = number("removes").value
number("busy").value = 2
passing.remove()
assert number("removes").value == removes + 3
raises(gsched.GschedError, "removed already", passing.remove)
del passing
gc.collect()
assert memory() is None
passing = server.add_model(Plus(), one(1), name="passing")
number("busy").value = 1000000
raises(TimeoutError, "passing: requests have not ended in 0.02 s", passing.remove, 0.02)
number("busy").value = 0
passing.remove(1)

# A model with a kernel that hangs is removed, and its memory is kept for good; so is that of a model
# that hangs when it is added. After other errors the memory is freed.
passing = server.add_model(Plus(), one(1), name="passing")
hangs, entries = weakref.ref(passing.captured.instances[0]), len(server._state.models)
number("removes_with").value = 5
assert raises(gsched.GschedError, "one of its kernels hangs", passing.remove).code == 5
number("removes_with").value = 0
assert len(server._state.models) == entries - 1
del passing
kept_for_good = []
for name, code in (("hangs", 5), ("refused", 3)):
    captured = gsched.capture(Plus(), one(1), name=name)
    kept_for_good.append(weakref.ref(captured.instances[0]))
    assert raises(gsched.GschedError, name, server.add_model, captured).code == code
    assert len(server._state.models) == entries - 1
    del captured
gc.collect()
assert hangs() is not None and kept_for_good[0]() is not None and kept_for_good[1]() is None

# A server whose thread does not end keeps its requests and models, and is not released.
stuck = gsched.Server(policy="fifo")
captured = gsched.capture(Plus(), one(1), name="stuck")
x = one(1, pinned=True)
gone = [weakref.ref(captured.instances[0]), weakref.ref(x)]
number("holding").value = 1
stuck.submit(stuck.add_model(captured), x)
number("holding").value, number("closes_with").value = 0, 7
state, released, counts = stuck._state, number("released").value, sys.getrefcount(stuck._state)
assert raises(gsched.GschedError, "another way", stuck.close).code == 7
assert state.left_behind and sys.getrefcount(state) > counts
number("closes_with").value = 0
del stuck, captured, x, state
gc.collect()
assert number("released").value == released and all(g() is not None for g in gone)

# Whatever is raised around a submission, live memory stays and no ticket is lost.
number("holding").value = 1
x = one(1, pinned=True)
alive, before = weakref.ref(x), number("tickets").value
real = library.gsched_submit
def interrupted(*arguments): # as Ctrl-C in the middle of the call, heard when it returns
    real(*arguments)
    raise Interrupted()
library.gsched_submit = interrupted
raises(Interrupted, "", server.submit, model, x)
library.gsched_submit = real
del x
gc.collect()
assert number("tickets").value == before + 1 and alive() is not None
played.end_held(1)
number("holding").value = 0
for _ in range(4):
    server.submit(model, one(1)).result()
gc.collect()
assert alive() is None and number("tickets").value <= before + 1
submits = number("submits").value
def unable(*_): raise Interrupted() # before the call
library.gsched_submit = unable
raises(Interrupted, "", server.submit, model, one(1))
library.gsched_submit = real
assert number("submits").value == submits and not any(
    not f._ticket for f in server._state.pending.values())

# While the library's call lasts, no other thread uses the ticket, which may be deleted in the call.
def refuses(handle, request, ticket):
    ticket.value = 4096 # no memory is there
    sweep = threading.Thread(target=lambda: [f.done() for f in list(server._state.pending.values())])
    sweep.start()
    sweep.join()
    ticket.value = None
    return _abi.CLOSED
library.gsched_submit = refuses
assert raises(gsched.GschedError, "", server.submit, model, one(1)).code == 6
library.gsched_submit = real

# Ctrl-C on each line of a submission and of what follows it: while the library uses memory, it is
# kept; what has ended goes, without a question for it.
number("holding").value = 0
while server._state.pending:
    server.submit(model, one(1)).result()
submit, State, Future = gsched.Server.submit, _state.State, gsched.Future
traced = {f.__code__ for f in (submit, State.keep, State.forget, Future._report, Future.done)}
unheard = ("future._submitted = True", "lock:") # signals are heard after calls, so not where these end
source = {c.co_filename: open(c.co_filename).read().splitlines() for c in traced}
def interrupt_at(n, call):
    """Raises on the n-th line of the traced functions. False if they have fewer."""
    lines = 0
    def local(frame, event, _):
        nonlocal lines
        if event == "line" and not any(text in source[frame.f_code.co_filename][frame.f_lineno - 1] for text in unheard):
            lines += 1
            if lines == n:
                raise Interrupted()
        return local
    sys.settrace(lambda frame, event, _: local if frame.f_code in traced else None)
    try:
        call()
    except Interrupted:
        pass
    finally:
        sys.settrace(None)
    return lines >= n
tickets = number("tickets").value
for n in range(1, 400):
    number("holding").value = 1
    x = [one(i, pinned=True) for i in range(3)]
    alive = [weakref.ref(t) for t in x]
    submits = number("submits").value
    server.submit(model, x[0])
    server.submit(model, x[1])
    more = interrupt_at(n, lambda: server.submit(model, x[2]))
    accepted = number("submits").value - submits
    assert accepted in (2, 3)
    del x
    gc.collect()
    assert all(a() is not None for a in alive[:accepted]), f"line {n}: the library still uses it"
    played.end_held(1)
    number("holding").value = 0
    def ends():
        for future in list(server._state.pending.values()):
            future.done()
    more |= interrupt_at(n, ends)
    for _ in range(4):
        server.submit(model, one(1)).result()
    gc.collect()
    assert not server._state.pending, f"line {n}: kept for good"
    assert all(a() is None for a in alive) and number("tickets").value == tickets, f"line {n}"
    if not more:
        break
assert 40 < n < 399, n
for n in range(1, 400): # so does what the library refuses
    library.gsched_submit = lambda *_: _abi.CLOSED
    server._state.pending[0] = types.SimpleNamespace(done=bool)
    def refused():
        raises(gsched.GschedError, "", server.submit, model, one(1))
    more = interrupt_at(n, refused)
    library.gsched_submit = real
    del server._state.pending[0]
    for _ in range(2):
        server.submit(model, one(1)).result()
    assert not server._state.pending, f"line {n}: kept for good"
    if not more:
        break
assert 20 < n < 399, n

# A signal handler or a finalizer calls the server in the middle of a call of the same thread.
def in_time(call):
    ended = concurrent.futures.Future()
    threading.Thread(target=lambda: ended.set_result(call()), daemon=True).start()
    ended.result(20) # of a thread that raises or waits for itself there is none
inner = []
def anything():
    with server._state.lock: # where a handler may run
        inner.append(server.submit(model, one(1)))
        inner.append(server.submit(server.add_model(model.captured), one(1)))
        inner[1].model.remove()
        other = gsched.Server(policy="fifo")
        other.submit(other.add_model(model.captured), one(1))
        other.close()
in_time(anything)
assert list(inner[0].result()["sum"].values) == [2.0] * 4 and inner[1].done()
class Reenters(collections.OrderedDict):
    left = 3
    def move_to_end(self, *arguments):
        if self.left > 0:
            self.left -= 1
            inner.append(server.submit(model, one(len(inner))))
        super().move_to_end(*arguments)
number("holding").value, server._state.pending, inner = 1, Reenters(), []
outer = [server.submit(model, one(i)) for i in range(3)]
assert len(inner) == 3 and set(map(id, inner + outer)) == set(server._state.pending)
played.end_held(1)
number("holding").value = 0
assert all(f.result() is not None for f in inner + outer) and not server._state.pending
class Ends(collections.OrderedDict):
    def move_to_end(self, *arguments):
        played.end_held(1)
        for future in list(self.values()):
            future.done()
        super().move_to_end(*arguments)
number("holding").value, server._state.pending = 1, Ends()
outer = [server.submit(model, one(i)) for i in range(3)]
played.end_held(1)
number("holding").value = 0
assert all(f.result() is not None for f in outer) and not server._state.pending
server._state.pending, inner, outer = collections.OrderedDict(), [], []
add, passing = library.gsched_add_model, server.add_model(model.captured)
def adds_again(*arguments):
    library.gsched_add_model = add
    passing.remove()
    raises(gsched.GschedError, "add_model: called in the middle of another one", server.add_model,
           model.captured)
    return add(*arguments)
library.gsched_add_model = adds_again
in_time(lambda: server.add_model(model.captured).remove())
class Nested(Plus):
    def __call__(self, x):
        if torch.cuda.CUDAGraph.capturing:
            gsched.capture(Plus(), one(1))
        return super().__call__(x)
def captures():
    inner.append(raises(gsched.GschedError, "capture: called in the middle of another one",
                        gsched.capture, Nested(), one(1)))
in_time(captures)
assert inner

# No call of the library while the lock is held: another thread could take it.
calls = set()
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    def watched(state, name, function):
        def free():
            got = state.lock.acquire(timeout=1)
            if got:
                state.lock.release()
            return got
        def called(*arguments):
            assert pool.submit(free).result(), f"{name} is called under the lock"
            calls.add(name)
            return function(*arguments)
        return called
    watching = gsched.Server(policy="fifo")
    functions = {name: getattr(library, name) for name in _abi.FUNCTIONS}
    for name, function in functions.items():
        setattr(library, name, watched(watching._state, name, function))
    added = watching.add_model(model.captured)
    for _ in range(4):
        future = watching.submit(added, one(1, cuda=True))
        future.cancel()
        assert future.result() is not None
    number("holding").value = 1
    future = watching.submit(added, one(1))
    assert not future.wait(0.01)
    played.end_held(1)
    number("holding").value = 0
    added.remove()
    watching.close()
    del added, future
    for name, function in functions.items():
        setattr(library, name, function)
assert calls >= {"gsched_add_client", "gsched_add_model", "gsched_submit", "gsched_wait", "gsched_cancel",
                 "gsched_status", "gsched_remove_model", "gsched_server_close", "gsched_release"}
del watching

# A close that waits: Ctrl-C cancels what is left, as does close(cancel=True) on another thread.
draining = lambda: number("draining").value
def draining_server():
    number("holding").value = number("drains").value = 1
    server = gsched.Server(policy="fifo")
    return server, server.submit(server.add_model(model.captured), one(1, pinned=True))
def when_draining(call):
    def run():
        limit = time.monotonic() + 20
        while not draining() and time.monotonic() < limit:
            time.sleep(0.01)
        call()
    thread = threading.Thread(target=run)
    thread.start()
    return thread
ctrl_c = lambda: os.kill(os.getpid(), signal.SIGINT)
for in_with in (False, True):
    slow, future = draining_server()
    thread, since, released = when_draining(ctrl_c), time.monotonic(), number("released").value
    try:
        if in_with:
            with slow:
                pass
        else:
            slow.close()
        raise AssertionError("Ctrl-C went unheard")
    except KeyboardInterrupt:
        assert time.monotonic() - since < 5
    thread.join()
    assert future.cancelled() and slow._state.closed and not slow._state.pending
    assert raises(gsched.GschedError, "closed", slow.submit, future.model, one(1)).code == 6
    closes = number("closes").value
    slow.close()
    assert number("closes").value == closes
    del slow, future
    limit = time.monotonic() + 20
    while number("released").value == released: # by the thread that was in the library's close
        assert time.monotonic() < limit
        time.sleep(0.01)
        gc.collect()
    assert not draining(), "released while a thread is in it"
slow, future = draining_server()
thread, since = when_draining(lambda: slow.close(cancel=True)), time.monotonic()
slow.close()
assert time.monotonic() - since < 5 and future.cancelled()
thread.join()
slow, future = draining_server()
slow.close(timeout=0.05)
assert future.cancelled(), "the time was over"
number("closes_with").value = 5
slow, future = draining_server()
assert raises(gsched.GschedError, "another way", slow.close, timeout=0).code == 5
number("closes_with").value = number("drains").value = number("holding").value = 0
start = threading.Thread.start
def none_starts(self): raise RuntimeError("can't start new thread")
slow = gsched.Server(policy="fifo")
threading.Thread.start, closes = none_starts, number("closes").value
slow.close() # at the end of the interpreter
threading.Thread.start = start
assert slow._state.closed and number("closes").value == closes + 1
del slow, future, thread

# Threads submit at once, each gets its own answer.
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    for i, got in enumerate(pool.map(lambda i: server.submit(model, one(i)).result(10), range(400))):
        assert list(got["sum"].values) == [i + 1.0] * 4

# Ends of servers.
other = gsched.Server(policy="fifo")
raises(gsched.GschedError, "another server's", other.submit, model, one(1))
closes, released = number("closes").value, number("released").value
del other
gc.collect()
assert number("released").value == released + 1
number("holding").value = 1
with server:
    last = server.submit(model, one(1))
assert last.state == "finished"
closes = number("closes").value
server.close()
assert number("closes").value == closes
assert raises(gsched.GschedError, "closed", server.submit, model, one(1)).code == 6
kept = gsched.Server(policy="fifo")
try:
    with kept:
        held = kept.submit(kept.add_model(Plus(), one(1)), one(1))
        raise ValueError("the caller's")
except ValueError:
    assert held.cancelled()
del server, kept, model, two, named, last, held, waited, e, of_every_kind, scaled
del first, second, third, following
gc.collect()
assert number("tickets").value == 1, f"{number('tickets').value} left, expected that of stuck"
at_exit = gsched.Server(policy="fifo")

# Another process makes a context on the GPU that is asked for, or it is told why not.
asked = os.environ["ASKED_OF_CUDA"]
gsched.leave_slow_side(3)
assert open(asked).read().split() == ["init", "get", "3", "retain", "set", "synchronize"]
raises(gsched.GschedError, "another context on GPU 9: not made, expected one by a process of ",
       gsched.leave_slow_side, 9)
raises(gsched.GschedError, "CUDA code 101", gsched.leave_slow_side, 9)
print("the package does as it should")
PY
cat >"$work/driver.c" <<'C'
// The calls of CUDA's driver that make a context, on GPUs 0 to 7.
#include <stdio.h>
#include <stdlib.h>
static int told(const char* what, int code) {
  FILE* f = fopen(getenv("ASKED_OF_CUDA"), "a");
  fprintf(f, "%s\n", what);
  fclose(f);
  return code;
}
int cuInit(unsigned flags) { return told("init", (int)flags); }
int cuDeviceGet(int* gpu, int ordinal) {
  char text[16];
  snprintf(text, sizeof text, "get %d", *gpu = ordinal);
  return told(text, ordinal < 8 ? 0 : 101);
}
int cuDevicePrimaryCtxRetain(void** context, int gpu) {
  *context = malloc(1);
  return told("retain", gpu < 8 ? 0 : 101);
}
int cuCtxSetCurrent(void* context) { return told("set", context ? 0 : 201); }
int cuCtxSynchronize(void) { return told("synchronize", 0); }
C
mkdir "$work/driver"
${CC:-cc} -std=gnu11 -shared -fPIC -o "$work/driver/libcuda.so.1" "$work/driver.c"
export ASKED_OF_CUDA=$work/asked
LD_LIBRARY_PATH=$work/driver timeout 120 python3 "$work/test.py"

if GSCHED_C_LIBRARY=$work/none.so timeout 60 python3 -c 'import gsched; gsched.Server()' 2>"$work/err"; then
  echo "a missing library went unnoticed"
  exit 1
fi
tail -n 1 "$work/err" | grep -q 'GschedError: .*none.so: cannot be used, expected libgsched_c' ||
  { cat "$work/err"; exit 1; }
