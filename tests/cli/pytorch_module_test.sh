#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gsched.py against a library and a torch that only play their parts, on the host: what goes over the
# C ABI, futures and how they end, what is kept in place and until when, captures that fail.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONPATH=$GSCHED_SOURCE_DIR/examples/pytorch:$work PYTHONDONTWRITEBYTECODE=1

cat >"$work/played.c" <<'C'
// A server that adds one to each float of the input. Requests end at once, or when told to.
#include <gsched/gsched_c.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct gsched_server { int closed; };
struct gsched_ticket { gsched_report report; float* out; float* in; size_t n; };
static gsched_model model;
static gsched_buffer in[4], out[4];
static struct gsched_ticket* waiting[64];
static const char* said = "";
int held, ends_as = GSCHED_FINISHED, released, closes, opened_lanes, last_client, tickets;
double last_deadline;

static int fail(int code, const char* line) { said = line; return code; }
const char* gsched_version(void) { return "played"; }
uint32_t gsched_abi(void) { return GSCHED_ABI; }
const char* gsched_last_error(void) { return said; }
uint64_t gsched_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
const char* gsched_policy_names(void) { return "fifo"; }
int gsched_default_options(gsched_server_options* o) {
  if (o->size != sizeof *o) return fail(GSCHED_BAD_ARGUMENT, "size");
  o->lanes = 8;
  return GSCHED_OK;
}
int gsched_server_open(const gsched_server_options* o, gsched_server** s) {
  if (strcmp(o->policy, "fifo") != 0) return fail(GSCHED_BAD_ARGUMENT, "policy: unknown, expected fifo");
  opened_lanes = (int)o->lanes;
  *s = calloc(1, sizeof **s);
  return GSCHED_OK;
}
static void end(struct gsched_ticket* t, int state) {
  t->report.state = (uint32_t)state;
  t->report.end_ns = gsched_now_ns();
  t->report.error = state == GSCHED_FINISHED ? "" : "because it was told to";
  if (state == GSCHED_FINISHED)
    for (size_t i = 0; i < t->n && t->out && t->in; ++i) t->out[i] = t->in[i] + 1;
}
void end_held(int state) {
  for (int i = 0; i < held; ++i)
    if (waiting[i]->report.state == GSCHED_PENDING) end(waiting[i], state);
  held = 0;
}
int holding;
int gsched_server_close(gsched_server* s, gsched_close_how how, int64_t t) {
  (void)t;
  ++closes;
  s->closed = 1;
  end_held(how == GSCHED_DRAIN ? GSCHED_FINISHED : GSCHED_CANCELLED);
  return GSCHED_OK;
}
int gsched_server_release(gsched_server* s) { ++released; free(s); return GSCHED_OK; }
int gsched_add_client(gsched_server* s, double w, uint32_t* c) {
  (void)s;
  static uint32_t next;
  if (!(w > 0)) return fail(GSCHED_BAD_ARGUMENT, "weight: expected more than 0");
  *c = next++;
  return GSCHED_OK;
}
int gsched_add_model(gsched_server* s, const gsched_model* m, uint32_t* id) {
  (void)s;
  if (m->size != sizeof *m || m->instances[0].size != sizeof m->instances[0] || !m->instances[0].graph)
    return fail(GSCHED_BAD_ARGUMENT, "model: expected what the header says");
  if (strcmp(m->name, "refused") == 0) return fail(GSCHED_BAD_GRAPH, "refused: a node, expected another");
  model = *m;
  memcpy(in, m->instances[0].inputs, m->inputs * sizeof *in);
  memcpy(out, m->instances[0].outputs, m->outputs * sizeof *out);
  *id = 0;
  return GSCHED_OK;
}
int gsched_get_model_facts(gsched_server* s, uint32_t m, gsched_model_facts* f) {
  (void)s, (void)m;
  f->instances = model.instances_count;
  return GSCHED_OK;
}
int gsched_submit(gsched_server* s, const gsched_request* r, gsched_ticket** ticket) {
  if (s->closed) return fail(GSCHED_CLOSED, "server: closed, expected an open one");
  struct gsched_ticket* t = calloc(1, sizeof *t);
  ++tickets;
  t->report.arrival_ns = r->arrival_ns ? r->arrival_ns : gsched_now_ns();
  t->in = r->inputs ? (float*)(size_t)r->inputs[0] : NULL;
  t->out = r->outputs ? (float*)r->outputs[0] : NULL;
  t->n = in[0].bytes / sizeof(float);
  last_client = (int)r->client;
  last_deadline = r->deadline_us;
  if (holding) waiting[held++] = t;
  else end(t, ends_as);
  *ticket = t;
  return GSCHED_OK;
}
int gsched_wait(gsched_ticket* t, int64_t us) {
  struct timespec nap = {0, 1000000};
  for (int64_t i = 0; t->report.state == GSCHED_PENDING; ++i) {
    if (us >= 0 && i * 1000 >= us) return fail(GSCHED_TIMED_OUT, "timed out");
    nanosleep(&nap, NULL);
  }
  return GSCHED_OK;
}
int gsched_cancel(gsched_ticket* t) {
  if (t->report.state != GSCHED_PENDING) return fail(GSCHED_ENDED, "ended");
  end(t, GSCHED_CANCELLED);
  return GSCHED_OK;
}
int gsched_status(const gsched_ticket* t, gsched_report* r) {
  if (r->size != sizeof *r) return fail(GSCHED_BAD_ARGUMENT, "size");
  *r = t->report;
  return GSCHED_OK;
}
void gsched_release(gsched_ticket* t) { if (t) --tickets; free(t); }
int gsched_collect(gsched_server* s, gsched_ticket** t, uint32_t m, uint32_t* w, int64_t us) {
  (void)s, (void)t, (void)m, (void)w, (void)us;
  return GSCHED_CLOSED;
}
int gsched_get_statistics(gsched_server* s, gsched_statistics* x) { (void)s; x->submitted = 7; return GSCHED_OK; }
int gsched_profile_graph(void* g, const gsched_profile_options* o, const char* p) {
  (void)g, (void)o, (void)p;
  return GSCHED_OK;
}
C
${CC:-cc} -std=gnu11 -shared -fPIC -o "$work/libgsched_c.so" "$work/played.c" \
  -I "$GSCHED_SOURCE_DIR/cuda/c/include" -lm
export GSCHED_C_LIBRARY=$work/libgsched_c.so

mkdir "$work/torch"
cat >"$work/torch/__init__.py" <<'PY'
"""Tensors of floats in host memory, some of which say that they are on the GPU."""
import contextlib, ctypes, types

class Tensor:
    def __init__(self, shape, values=None, cuda=False, pinned=False, stride=None, dtype="torch.f32"):
        self.shape, self.is_cuda, self._pinned, self.dtype = tuple(shape), cuda, pinned, dtype
        n = 1
        strides = []
        for s in reversed(self.shape):
            strides.insert(0, n)
            n *= s
        self._stride = tuple(stride or strides)
        self.values = (ctypes.c_float * n)(*(values or [0.0] * n))
    def numel(self): return len(self.values)
    def size(self): return self.shape
    def element_size(self): return 4
    def stride(self): return self._stride
    def data_ptr(self): return ctypes.addressof(self.values)
    def is_pinned(self): return self._pinned
    def get_device(self): return 0
    def detach(self): return self
    def copy_(self, other, non_blocking=False):
        self.values[:] = other.values[:]
        return self
    def to(self, device, copy=False):
        return Tensor(self.shape, list(self.values), cuda=str(device) != "cpu")
    def __add__(self, x): return Tensor(self.shape, [v + x for v in self.values], self.is_cuda)

class Device:
    def __init__(self, kind, index=0): self.kind = kind
    def __str__(self): return self.kind
device = Device

def tensor(values, **how): return Tensor((len(values),), values, **how)
def empty_strided(shape, stride, dtype=None, device=None, pin_memory=False):
    return Tensor(shape, None, str(device) == "cuda", pin_memory, stride, dtype)
def empty(shape, device=None): return Tensor(shape)
@contextlib.contextmanager
def inference_mode(mode=True): yield

class Stream:
    waits = 0
    def __init__(self, gpu=0): pass
    def synchronize(self): Stream.waits += 1
class CUDAGraph:
    begun = ended = 0
    def __init__(self, keep_graph=False): assert keep_graph
    def capture_begin(self, capture_error_mode): CUDAGraph.begun += 1
    def capture_end(self): CUDAGraph.ended += 1
    def raw_cuda_graph(self): return 4096
    def replay(self): pass
@contextlib.contextmanager
def within(*_): yield
cuda = types.SimpleNamespace(
    is_available=lambda: True, device=within, stream=within, Stream=Stream, CUDAGraph=CUDAGraph,
    default_stream=lambda gpu=0: Stream(), current_stream=lambda gpu=0: Stream(),
    synchronize=lambda gpu=0: None)
cleared = []
_C = types.SimpleNamespace(_cuda_clearCublasWorkspaces=lambda: cleared.append(1))
PY

cat >"$work/test.py" <<'PY'
import collections, concurrent.futures, ctypes, gc, os, threading, time, weakref
import gsched, torch

played = ctypes.CDLL(os.environ["GSCHED_C_LIBRARY"])
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
raises(gsched.GschedError, "lanes", gsched.Server, policy="fifo", lanes="x")
server = gsched.Server(policy="fifo", lanes=3)
assert number("opened_lanes").value == 3 and server.statistics()["submitted"] == 7
raises(gsched.GschedError, "weight", server.add_client, 0.0)

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

class Broken(Plus):
    def __call__(self, x):
        self.calls += 1
        if self.calls > 3: # not while warming up
            raise KeyError("from inside")
        return x
begun, ended = torch.cuda.CUDAGraph.begun, torch.cuda.CUDAGraph.ended
raises(KeyError, "from inside", server.add_model, Broken(), one(1))
assert torch.cuda.CUDAGraph.begun - begun == 1 == torch.cuda.CUDAGraph.ended - ended and gc.isenabled()
class Host(Plus):
    def __call__(self, x): return torch.tensor([1.0])
raises(gsched.GschedError, "on the host", server.add_model, Host(), one(1))
raises(gsched.GschedError, "no tensor", server.add_model, lambda x: None, one(1))

# Answers have the module's structure; inputs may be anywhere.
answer = server.submit(model, one(5)).result(1)
assert list(answer) == ["sum", "more"] and list(answer["sum"].values) == [6.0] * 4
assert answer["more"][1:] == (None, "constant") and answer["sum"].is_pinned()
waits = torch.cuda.Stream.waits
assert list(server.submit(model, one(6, cuda=True)).result()["sum"].values) == [7.0] * 4
assert torch.cuda.Stream.waits == waits + 1, "a CUDA input needs what its stream holds"
assert server.submit(model, one(7, pinned=True), outputs="cuda").result()["sum"].is_cuda
mine = {"sum": one(0, pinned=True), "more": (one(0, pinned=True), None, None)}
assert server.submit(model, one(8), outputs=mine).result()["sum"] is mine["sum"]
assert list(mine["sum"].values) == [9.0] * 4
assert server.submit(model, None, outputs=()).result() is None
future = server.submit(model, one(1), client=5, deadline=0.25,
                       arrival_ns=time.monotonic_ns() - 10**9)
assert number("last_client").value == 5 and 1.0 < future.latency < 2.0 and future.state == "finished"
assert ctypes.c_double.in_dll(played, "last_deadline").value == 250000.0
assert future.report["end_ns"] and future.exception() is None and not future.cancel()
for inputs, text in ((torch.tensor([1.0] * 5), "input 0 is f32[5], expected f32[4]"),
                     ((one(1), one(2)), "structure"), ("x", "structure"),
                     (one(1, dtype="torch.i64"), "i64[4]")):
    raises(gsched.GschedError, text, server.submit, model, inputs)
raises(gsched.GschedError, "1 output tensors, expected 2", server.submit, model, one(1),
       outputs=one(2))
raises(gsched.GschedError, 'outputs: "host"', server.submit, model, one(1), outputs="host")

# Several inputs, by place and by name; a namedtuple for an answer.
Pair = collections.namedtuple("Pair", "a b")
both = gsched.capture(lambda x, y=None: Pair(x + 1.0, y["deep"][0] + 2.0), (one(1), {"deep": [one(2)]}),
                      instances=1, name="both")
two = server.add_model(both)
assert isinstance(server.submit(two, [one(3), {"deep": [one(4)]}]).result(), Pair)
named = server.add_model(lambda x, y: x, {"x": one(1), "y": one(2)}, name="named", instances=1)
raises(gsched.GschedError, "structure", server.submit, named, {"x": one(1)})

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
del server, kept, model, two, named, last, held, waited, future, e
gc.collect()
assert number("tickets").value == 0, f"{number('tickets').value} left: every ticket is given back"
at_exit = gsched.Server(policy="fifo")
print("gsched.py does as it should")
PY
timeout 120 python3 "$work/test.py"

if GSCHED_C_LIBRARY=$work/none.so timeout 60 python3 -c 'import gsched; gsched.Server()' 2>"$work/err"; then
  echo "a missing library went unnoticed"
  exit 1
fi
tail -n 1 "$work/err" | grep -q 'GschedError: .*none.so: cannot be used, expected libgsched_c' ||
  { cat "$work/err"; exit 1; }
