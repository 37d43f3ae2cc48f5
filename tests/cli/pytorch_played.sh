# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of the PyTorch example: a library and a torch that only play their parts, on
# the host, in $work.

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONPATH=$GSCHED_SOURCE_DIR/python:$GSCHED_SOURCE_DIR/examples/pytorch:$work PYTHONDONTWRITEBYTECODE=1

cat >"$work/played.c" <<'C'
// A server that adds one to each float of the input. Requests end at once, or when told to.
#include <gsched/gsched_c.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct gsched_ticket {
  gsched_report report;
  float* out;
  float* in;
  size_t n;
  gsched_server* at;
  int watched, over, owners;
  gsched_ticket* next;
};
struct gsched_server { // what was collected is under the lock
  int closed, gone[16], all_ended;
  volatile int cut;
  gsched_ticket* ended;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static gsched_model model;
static gsched_buffer in[4], out[4];
static struct gsched_ticket* waiting[64];
static const char* said = "";
int held, ends_as = GSCHED_FINISHED, released, closes, opened_lanes, last_client, tickets, hanging;
int ends_with = GSCHED_OK, models, removes, busy, last_excludes, submits;
int real_time; // requests, each of which preempts
gsched_server_options opened;
char opened_slow_downs[64], opened_limits[64];
int removes_with = GSCHED_OK, closes_with = GSCHED_OK;
uint32_t excludes[16];
void *last_wait, *last_signal, *last_after;
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
  if (strcmp(o->policy, "lifo") == 0) return fail(GSCHED_BAD_ARGUMENT, "policy: unknown, expected fifo");
  opened_lanes = (int)o->lanes;
  opened = *o;
  char* to = opened_slow_downs;
  for (uint32_t i = 0; i < o->slow_downs_count; ++i)
    to += sprintf(to, "%s %s %g, ", o->slow_downs[i].model, o->slow_downs[i].beside, o->slow_downs[i].by);
  to = opened_limits;
  for (uint32_t i = 0; i < o->slow_down_limits_count; ++i)
    to += sprintf(to, "%s %g, ", o->slow_down_limits[i].model, o->slow_down_limits[i].most);
  *s = calloc(1, sizeof **s);
  return GSCHED_OK;
}
static void end(struct gsched_ticket* t, int state) {
  t->report.state = (uint32_t)state;
  t->report.end_ns = gsched_now_ns();
  t->report.code = (uint32_t)ends_with;
  t->report.error = state == GSCHED_FINISHED ? "" : "because it was told to";
  if (state == GSCHED_FINISHED)
    for (size_t i = 0; i < t->n && t->out && t->in; ++i) t->out[i] = t->in[i] + 1;
  pthread_mutex_lock(&lock);
  t->over = 1;
  if (t->watched) {
    gsched_ticket** last = &t->at->ended;
    while (*last) last = &(*last)->next;
    *last = t;
    pthread_cond_broadcast(&changed);
  }
  pthread_mutex_unlock(&lock);
}
void end_held(int state) {
  for (int i = 0; i < held; ++i)
    if (waiting[i]->report.state == GSCHED_PENDING) end(waiting[i], state);
  held = 0;
}
int holding;
volatile int drains, draining; // whether a drain lasts until its time is over or a call cancels; how many do
int gsched_server_close(gsched_server* s, gsched_close_how how, int64_t t) {
  struct timespec nap = {0, 1000000};
  ++closes;
  s->closed = 1;
  if (how == GSCHED_CANCEL) s->cut = 1;
  ++draining;
  for (int64_t i = 0; how == GSCHED_DRAIN && drains && !s->cut && (t < 0 || i * 1000 < t); ++i)
    nanosleep(&nap, NULL);
  --draining;
  end_held(how == GSCHED_DRAIN && !drains ? GSCHED_FINISHED : GSCHED_CANCELLED);
  pthread_mutex_lock(&lock);
  s->all_ended = 1;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return closes_with ? fail(closes_with, "server: closed in another way") : GSCHED_OK;
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
  if (strcmp(m->name, "hangs") == 0) return fail(GSCHED_DEVICE_FAILED, "hangs: the launch timed out");
  last_excludes = (int)m->excludes_count;
  memcpy(excludes, m->excludes, m->excludes_count * sizeof *excludes);
  model = *m;
  memcpy(in, m->instances[0].inputs, m->inputs * sizeof *in);
  memcpy(out, m->instances[0].outputs, m->outputs * sizeof *out);
  *id = (uint32_t)models++;
  return GSCHED_OK;
}
int gsched_remove_model(gsched_server* s, uint32_t m, int64_t us) {
  (void)us;
  ++removes;
  if (s->gone[m % 16]) return fail(GSCHED_BAD_ARGUMENT, "model: removed already");
  if (busy > 0) { --busy; return fail(GSCHED_TIMED_OUT, "model: busy"); }
  s->gone[m % 16] = 1;
  return removes_with ? fail(removes_with, "model: removed, and one of its kernels hangs") : GSCHED_OK;
}
int gsched_get_model_facts(gsched_server* s, uint32_t m, gsched_model_facts* f) {
  (void)s, (void)m;
  f->instances = model.instances_count;
  return GSCHED_OK;
}
int gsched_submit(gsched_server* s, const gsched_request* r, gsched_ticket** ticket) {
  if (s->closed) return fail(GSCHED_CLOSED, "server: closed, expected an open one");
  if (r->size != sizeof *r) return fail(GSCHED_BAD_ARGUMENT, "size");
  struct gsched_ticket* t = *ticket = calloc(1, sizeof *t);
  ++tickets;
  ++submits;
  last_wait = r->wait_event;
  last_signal = r->signal_event;
  last_after = r->after;
  real_time += r->real_time != 0;
  t->report.arrival_ns = r->arrival_ns ? r->arrival_ns : gsched_now_ns();
  t->in = r->inputs ? (float*)(size_t)r->inputs[0] : NULL;
  t->out = r->outputs ? (float*)r->outputs[0] : NULL;
  t->n = in[0].bytes / sizeof(float);
  t->at = s;
  t->owners = 1;
  last_client = (int)r->client;
  last_deadline = r->deadline_us;
  if (holding) waiting[held++] = t;
  else end(t, ends_as);
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
void gsched_release(gsched_ticket* t) {
  pthread_mutex_lock(&lock);
  const int gone = t && --t->owners == 0;
  pthread_mutex_unlock(&lock);
  if (gone) --tickets, free(t);
}
int watches, collects;
int gsched_watch(gsched_ticket* t) {
  pthread_mutex_lock(&lock);
  ++watches;
  const int code = t->over ? GSCHED_ENDED : t->watched ? GSCHED_BAD_ARGUMENT : GSCHED_OK;
  if (code == GSCHED_OK) t->watched = 1, ++t->owners;
  pthread_mutex_unlock(&lock);
  return code ? fail(code, "ticket: ended, or watched") : GSCHED_OK;
}
int gsched_collect(gsched_server* s, gsched_ticket** t, uint32_t m, uint32_t* w, int64_t us) {
  (void)us; // without limit
  pthread_mutex_lock(&lock);
  ++collects;
  while (!s->ended && !s->all_ended) pthread_cond_wait(&changed, &lock);
  for (*w = 0; s->ended && *w < m; ++*w) {
    t[*w] = s->ended;
    s->ended = s->ended->next;
  }
  pthread_mutex_unlock(&lock);
  return *w ? GSCHED_OK : fail(GSCHED_CLOSED, "server: closed");
}
int gsched_get_statistics(gsched_server* s, gsched_statistics* x) {
  (void)s;
  x->submitted = 7;
  x->preemptions = (uint64_t)real_time;
  x->hanging = (uint64_t)hanging;
  x->found_to_need_sms = 9;
  x->kept_apart = 3;
  x->apart_wait_ns = 4000000;
  x->host_ns = 2500000000u;
  x->preempt_p99_us = 15;
  return GSCHED_OK;
}
// A plan: its models are served as others are.
gsched_plan_options plan_opened;
int plan_models, plan_graphs[8], plan_batches[8][64], plan_gpus[8], plan_places[8][64];
double plan_slo_us[8], plan_rate[8];
char plan_names[8][32], plan_texts[256], plan_libraries[256];
int gsched_default_plan_options(gsched_plan_options* o) {
  if (o->size != sizeof *o) return fail(GSCHED_BAD_ARGUMENT, "size");
  o->planner = "best", o->replans = 1, o->headroom = 1.2;
  return GSCHED_OK;
}
int gsched_plan_open(const gsched_plan_options* o, const gsched_plan_model* m, uint32_t n,
                     gsched_server** s) {
  plan_opened = *o;
  snprintf(plan_texts, sizeof plan_texts, "%s %s %s %s %s", o->table, o->planner,
           o->interference ? o->interference : "-", o->solo ? o->solo : "-", o->profiles ? o->profiles : "-");
  snprintf(plan_libraries, sizeof plan_libraries, "%s", o->libraries ? o->libraries : "-");
  if (strcmp(o->table, "none.csv") == 0) return fail(GSCHED_IO, "none.csv: cannot be read, expected a file");
  if (o->period_us > 1e9) return fail(GSCHED_BAD_ARGUMENT, "period_us 2000000000, expected 1000 to 1000000000");
  plan_models = (int)n;
  for (uint32_t i = 0; i < o->gpus_count && i < 8; ++i) plan_gpus[i] = o->gpus[i];
  for (uint32_t i = 0; i < n; ++i) {
    plan_graphs[i] = (int)m[i].graphs_count;
    plan_slo_us[i] = m[i].slo_us, plan_rate[i] = m[i].rate;
    strncpy(plan_names[i], m[i].name, sizeof plan_names[i] - 1);
    for (uint32_t g = 0; g < m[i].graphs_count; ++g) {
      const gsched_plan_graph* of = m[i].graphs + g;
      if (!of->graph || of->inputs[0].bytes != of->batch * m[i].graphs[0].inputs[0].bytes ||
          of->outputs[0].bytes != of->batch * m[i].graphs[0].outputs[0].bytes)
        return fail(GSCHED_BAD_ARGUMENT, "graph: expected what the header says");
      plan_batches[i][g] = (int)of->batch;
      plan_places[i][g] = (int)of->gpu;
    }
    memcpy(in, m[i].graphs[0].inputs, m[i].inputs * sizeof *in);
    memcpy(out, m[i].graphs[0].outputs, m[i].outputs * sizeof *out);
  }
  *s = calloc(1, sizeof **s);
  return GSCHED_OK;
}
int gsched_get_plan_report(gsched_server* s, gsched_plan_report* r) {
  (void)s;
  r->partitions = 3, r->sms = 120, r->factor = 1.5, r->failed_plans = 1;
  strcpy(r->last_failure, "no graph is left");
  strcpy(r->beyond_fit, "graphs");
  strcpy(r->reason, "times");
  r->idle_sms = 12;
  if (strstr(plan_texts, "elastic"))
    strcpy(r->warning, "table latency.csv: measured with driver 1, not 2 as here");
  return GSCHED_OK;
}
int gsched_get_plan_model_report(gsched_server* s, uint32_t m, gsched_plan_model_report* r) {
  (void)s;
  r->arrived = 5 + m, r->p99_us = 2500, r->slow_down = 1.1;
  r->sensitivity = 1.2, r->pressure = 0.9, r->learned_from = 7 + m, r->host_part = 0.02;
  r->sensitivity_error = 0.3, r->pressure_error = 0.4;
  r->time_factor = 1.6, r->rate_factor = 1.2, r->partitions = 2, r->sms = 64 + m, r->too_slow = m;
  return GSCHED_OK;
}
struct gsched_channel {
  int offered;
};
int gsched_default_channel_options(gsched_channel_options* o) {
  o->mode = 0600, o->in_flight = 256;
  return GSCHED_OK;
}
int gsched_channel_open(gsched_server* s, const char* socket, const gsched_channel_options* o,
                        gsched_channel** c) {
  (void)s;
  if (!*socket) return fail(GSCHED_IO, "socket: a path, expected one");
  if (o->mode > 0777) return fail(GSCHED_BAD_ARGUMENT, "mode: expected at most 0777");
  *c = calloc(1, sizeof **c);
  return GSCHED_OK;
}
int gsched_channel_offer(gsched_channel* c, uint32_t model, const char* name) {
  if (name && !*name) return fail(GSCHED_BAD_ARGUMENT, "offer: a name of 0 bytes");
  if (c->offered & 1 << model) return fail(GSCHED_BAD_ARGUMENT, "offer: offered already");
  c->offered |= 1 << model;
  return GSCHED_OK;
}
int gsched_channel_withdraw(gsched_channel* c, uint32_t model) {
  if (!(c->offered & 1 << model)) return fail(GSCHED_BAD_ARGUMENT, "withdraw: not offered");
  c->offered &= ~(1 << model);
  return GSCHED_OK;
}
int gsched_channel_close(gsched_channel* c) {
  free(c);
  return GSCHED_OK;
}
int gsched_load_slow_downs(const char* pairs, gsched_slow_down** slow_downs, uint32_t* count) {
  (void)pairs, (void)slow_downs, (void)count;
  return fail(GSCHED_IO, "pairs: not played, expected the library");
}
int gsched_predict_slow_downs(const char* profiles, const char* law, const char* models,
                              gsched_slow_down** slow_downs, uint32_t* count) {
  (void)profiles, (void)law, (void)models, (void)slow_downs, (void)count;
  return fail(GSCHED_IO, "profiles: not played, expected the library");
}
const char* gsched_slow_downs_beyond_fit(const gsched_slow_down* rows) { return rows ? "" : ""; }
void gsched_free_slow_downs(gsched_slow_down* slow_downs) { free(slow_downs); }
int gsched_profile_graph(void* g, const gsched_profile_options* o, const char* p) {
  (void)g, (void)o, (void)p;
  return GSCHED_OK;
}
C
${CC:-cc} -std=gnu11 -shared -fPIC -o "$work/libgsched_c.so" "$work/played.c" \
  -I "$GSCHED_SOURCE_DIR/cuda/c/include" -lm -pthread
export GSCHED_C_LIBRARY=$work/libgsched_c.so

mkdir "$work/torch" "$work/torchvision"
cat >"$work/torch/__init__.py" <<'PY'
"""Tensors of floats in host memory, some of which say that they are on the GPU. Operators go through
the modes of torch.utils._python_dispatch, with schemas like torch's."""
import contextlib, ctypes, itertools, os, random as _random, sys, time, types

modes = [] # the innermost last
class Operator:
    """`writes`: names of arguments that it writes."""
    def __init__(self, name, arguments, run, writes=()):
        written = types.SimpleNamespace(is_write=True)
        self.run = run
        self._schema = types.SimpleNamespace(name="aten::" + name, arguments=[
            types.SimpleNamespace(name=a, alias_info=written if a in writes else None)
            for a in arguments])
    def __call__(self, *args, **kwargs):
        if not modes:
            return self.run(*args, **kwargs)
        mode = modes.pop()
        try:
            return mode.__torch_dispatch__(self, (), args, kwargs)
        finally:
            modes.append(mode)
class TorchDispatchMode:
    def __enter__(self):
        modes.append(self)
        return self
    def __exit__(self, *_): modes.pop()
sys.modules["torch.utils"] = utils = types.ModuleType("torch.utils")
sys.modules["torch.utils._python_dispatch"] = utils._python_dispatch = types.ModuleType("d")
utils._python_dispatch.TorchDispatchMode = TorchDispatchMode

class Tensor:
    is_leaf, requires_grad, grad = True, False, None
    def __init__(self, shape, values=None, cuda=False, pinned=False, stride=None, dtype="torch.float32"):
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
    def pin_memory(self): return Tensor(self.shape, list(self.values), pinned=True)
    def get_device(self): return 0
    @property
    def device(self): return Device("cuda" if self.is_cuda else "cpu")
    def detach(self): return self
    contiguous = detach
    def view(self, *_): return self
    def numpy(self): return bytes(self.values)
    def all(self): return True
    def argmax(self): return list(self.values).index(max(self.values))
    def copy_(self, other, non_blocking=False):
        if other._pinned and self.is_cuda:
            Stream.copies.append((other, non_blocking, _streams[-1]))
        self.values[:] = other.values[:]
        return self
    def as_strided(self, shape, stride, offset=None):
        """A copy of the view: memory holds this tensor's elements, and zeros between them. With an offset
        it is new memory."""
        if offset is not None:
            return Tensor(shape, None, self.is_cuda, self._pinned, stride, self.dtype)
        def places(shape, stride):
            return [sum(i * s for i, s in zip(at, stride))
                    for at in itertools.product(*map(range, shape))]
        memory = dict(zip(places(self.shape, self._stride), self.values))
        return Tensor(shape, [memory.get(i, 0.0) for i in places(shape, stride)], self.is_cuda,
                      self._pinned, stride, self.dtype)
    def repeat_interleave(self, n, dim):
        assert dim == 0 and self.shape[0] == 1
        return Tensor((n, *self.shape[1:]), list(self.values) * n, self.is_cuda, dtype=self.dtype)
    def to(self, device, copy=False, non_blocking=False):
        return Tensor(self.shape, list(self.values), cuda=str(device) != "cpu")
    def untyped_storage(self):
        return types.SimpleNamespace(data_ptr=self.data_ptr, nbytes=lambda: 4 * self.numel())
    def __add__(self, x): return _add(self, x)
    def add_(self, x): return _add_(self, x)

def _added(self, other):
    by = 0.0 if isinstance(other, Tensor) else other
    out = Tensor(self.shape, [v + by for v in self.values], self.is_cuda)
    for graph in CUDAGraph.capturing:
        graph.nodes.append((out, self, by))
    return out
_add = Operator("add", ["self", "other"], _added)
_add_ = Operator("add_", ["self", "other"], lambda self, other: self, ["self"])
foreach_add_ = Operator("_foreach_add_", ["self", "scalar"], lambda self, scalar: None, ["self"])
batch_norm = Operator("native_batch_norm", ["input", "running_mean", "running_var", "training"],
                      lambda input, running_mean, running_var, training: input + 0.0)

class Device:
    def __init__(self, kind, index=0): self.kind, self.index = kind, index
    def __str__(self): return self.kind
device = Device

class Generator:
    def manual_seed(self, seed):
        self.random = _random.Random(seed)
        return self

__version__, uint8 = "played", "torch.u8"
version = types.SimpleNamespace(cuda="13.0")
backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(version=lambda: 91900))
def tensor(values, **how): return Tensor((len(values),), values, **how)
def randn(*shape, generator=None):
    return tensor([(generator.random if generator else _random).random() for _ in range(4)])
def zeros(n, device=None): return Tensor((4,))
def manual_seed(seed): pass
def isfinite(x): return x
def equal(a, b): return list(a.values) == list(b.values)
def empty_strided(shape, stride, dtype=None, device=None, pin_memory=False):
    return Tensor(shape, None, str(device) == "cuda", pin_memory, stride, dtype)
def empty(shape, device=None): return Tensor(shape)
grad_modes = [] # the innermost last
@contextlib.contextmanager
def inference_mode(mode=True):
    grad_modes.append("inference" if mode else "plain")
    try: yield
    finally: grad_modes.pop()
@contextlib.contextmanager
def enable_grad():
    grad_modes.append("grad")
    try: yield
    finally: grad_modes.pop()
cast_cache = {"enabled": True, "cleared": 0}
def is_autocast_cache_enabled(): return cast_cache["enabled"]
def set_autocast_cache_enabled(on): cast_cache["enabled"] = on
def clear_autocast_cache(): cast_cache["cleared"] += 1

class Module:
    """As torch.nn's: tensors among its attributes are its parameters."""
    training = True
    def eval(self):
        self.training = False
        return self
    def to(self, device): return self
    def named_parameters(self): return [(n, x) for n, x in vars(self).items() if isinstance(x, Tensor)]
    def named_buffers(self): return []
class Optimizer:
    def __init__(self, parameters): self.param_groups, self.state = [{"params": parameters}], {}
nn, optim = types.SimpleNamespace(Module=Module), types.SimpleNamespace(Optimizer=Optimizer)

class Stream:
    waits, capturing, copies = 0, False, [] # from pinned memory to the GPU
    def __init__(self, gpu=0): self.device = Device("cuda", gpu)
    def synchronize(self): Stream.waits += 1
_default = Stream()
_streams = [_default]
@contextlib.contextmanager
def _on(stream):
    _streams.append(stream)
    try: yield
    finally: _streams.pop()
class Event:
    made = queries = 0
    def __init__(self, enable_timing=False):
        Event.made += 1
        self.cuda_event, self.on, self.process = 0, None, os.getpid()
    def __del__(self, getpid=os.getpid, abort=os.abort):
        if self.process != getpid():
            abort() # as torch does where an event of the parent is destroyed
    def record(self, stream=None):
        self.ns, self.on, self.cuda_event = time.monotonic_ns(), stream, id(self)
    def query(self):
        Event.queries += 1
        return True
    def synchronize(self): pass
    def elapsed_time(self, other): return (other.ns - self.ns) / 1e6
class CUDAGraph:
    begun = ended = 0
    capturing, broken = [], False
    def __init__(self, keep_graph=False):
        assert keep_graph
        self.nodes = []
    def capture_begin(self, capture_error_mode, pool=None):
        CUDAGraph.begun += 1
        CUDAGraph.capturing.append(self)
    def capture_end(self):
        CUDAGraph.ended += 1
        CUDAGraph.capturing.remove(self)
        if CUDAGraph.broken:
            CUDAGraph.broken = False
            raise RuntimeError("the capture was given up")
    def instantiate(self): pass
    def raw_cuda_graph(self): return 4096
    def replay(self):
        for out, x, by in self.nodes:
            out.values[:] = [v + by for v in x.values]
@contextlib.contextmanager
def within(*_, **__): yield
random = types.SimpleNamespace(fork_rng=within)
cuda = types.SimpleNamespace(
    is_available=lambda: "NO_GPU" not in os.environ, device=within, stream=_on, Stream=Stream,
    Event=Event, CUDAGraph=CUDAGraph, default_stream=lambda gpu=0: _default,
    is_current_stream_capturing=lambda: Stream.capturing,
    current_stream=lambda gpu=0: _streams[-1], synchronize=lambda gpu=0: None, graph_pool_handle=lambda: (0, next(_pools)), init=lambda: None,
    set_device=lambda gpu: None, get_device_name=lambda gpu: "no GPU at all")
_pools, pools_ended = itertools.count(1), []
cleared = []
_C = types.SimpleNamespace(_cuda_endAllocateToPool=lambda gpu, pool: pools_ended.append(pool),
                           _cuda_clearCublasWorkspaces=lambda: cleared.append(1))
PY
cat >"$work/torchvision/__init__.py" <<'PY'
import os, time
class Model:
    def eval(self): return self
    def requires_grad_(self, _): return self
    def to(self, _): return self
    def cuda(self): return self
    def __call__(self, x):
        if "HANG" in os.environ:
            time.sleep(1000)
        return x + float(os.environ.get("ADDS", 1))
class models:
    resnet18 = resnet50 = staticmethod(lambda weights=None: Model())
PY
