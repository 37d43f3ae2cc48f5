# SPDX-License-Identifier: Apache-2.0
"""PyTorch models served by gsched: captured once, then scheduled segment by segment.

    import gsched, torch, torchvision

    model = torchvision.models.resnet18().cuda()
    with gsched.Server(policy="srpt+deficit") as server:
        resnet = server.add_model(model, torch.randn(1, 3, 224, 224))
        future = server.submit(resnet, torch.randn(1, 3, 224, 224))
        print(future.result().argmax(), future.latency)

One file over libgsched_c and ctypes; torch is imported when the first model is captured. The
library is the file that GSCHED_C_LIBRARY names, or libgsched_c.so beside this file, or in
build/release/cuda/c of the checkout that this file is in, or where the system's loader finds it.

Errors   GschedError, a line each. What a model's forward raises while it is captured comes out as
         it is, and the server goes on.
Units    seconds, as usual in Python, but for names that end in _us and _ns; points in time are
         nanoseconds of time.monotonic_ns().
Threads  everything may be called from any thread; one model is captured at a time.
"""

import atexit
import collections
import concurrent.futures
import contextlib
import ctypes
import ctypes.util
import gc
import os
import pathlib
import subprocess
import sys
import threading
import time
import weakref

__all__ = ["Server", "Model", "Future", "Captured", "GschedError", "capture", "load_library"]

ABI = 1
CancelledError = concurrent.futures.CancelledError
_OK, _CLOSED, _TIMED_OUT = 0, 6, 7
_STATES = ("pending", "finished", "failed", "rejected", "cancelled")


class GschedError(RuntimeError):
    """What went wrong, in one line. `code` is a gsched_code of gsched_c.h, or None."""

    def __init__(self, line, code=None):
        super().__init__(line)
        self.code = code


# The C ABI ----------------------------------------------------------------------------------------

class _Struct(ctypes.Structure):
    """A struct that begins with its size."""

    def __init__(self, **fields):
        super().__init__(size=ctypes.sizeof(type(self)), **fields)


_u32, _i32, _u64, _i64 = ctypes.c_uint32, ctypes.c_int32, ctypes.c_uint64, ctypes.c_int64
_f64, _text, _pointer = ctypes.c_double, ctypes.c_char_p, ctypes.c_void_p


class gsched_server_options(_Struct):
    _fields_ = [("size", _u32), ("gpu", _i32), ("policy", _text), ("lanes", _u32),
                ("segments_per_job", _u32), ("quantum_us", _f64), ("most_quantum_us", _f64),
                ("low_mark_us", _f64), ("high_mark_us", _f64), ("overshoot", _f64),
                ("threshold_us", _f64), ("decision_delay_us", _f64), ("slo_us", _f64),
                ("spin_us", _f64), ("max_jobs", _u64), ("watchdog_ms", _u32),
                ("instrumented", _u32), ("time_driver", _u32), ("reserved", _u32),
                ("real_time_lanes", _u32), ("yields", _u32), ("floor", _f64), ("tolerance", _f64),
                ("side_sms", _u32 * 4)]


class gsched_buffer(ctypes.Structure):
    _fields_ = [("device", _pointer), ("bytes", _u64)]


class gsched_instance(_Struct):
    _fields_ = [("size", _u32), ("reserved", _u32), ("graph", _pointer),
                ("inputs", ctypes.POINTER(gsched_buffer)),
                ("outputs", ctypes.POINTER(gsched_buffer))]


class gsched_model(_Struct):
    _fields_ = [("size", _u32), ("instances_count", _u32),
                ("instances", ctypes.POINTER(gsched_instance)), ("name", _text), ("inputs", _u32),
                ("outputs", _u32), ("durations_us", ctypes.POINTER(_f64)),
                ("durations_count", _u32), ("unmeasured", _u32)]


class gsched_model_facts(_Struct):
    _fields_ = [("size", _u32), ("instances", _u32), ("operations", _u64), ("segments", _u64),
                ("device_bytes", _u64), ("graphs", _u64), ("nodes", _u64), ("measure_ms", _f64),
                ("build_ms", _f64), ("expected_us", _f64), ("graph_replay_us", _f64)]


class gsched_request(_Struct):
    _fields_ = [("size", _u32), ("model", _u32), ("client", _u32), ("real_time", _u32),
                ("arrival_ns", _u64), ("deadline_us", _f64), ("inputs", ctypes.POINTER(_pointer)),
                ("outputs", ctypes.POINTER(_pointer)), ("done", _pointer), ("user", _pointer),
                ("collected", _u32), ("reserved", _u32)]


class gsched_report(_Struct):
    _fields_ = [("size", _u32), ("state", _u32), ("arrival_ns", _u64), ("start_ns", _u64),
                ("end_ns", _u64), ("segments", _u32), ("instance", _u32), ("user", _pointer),
                ("error", _text)]


class gsched_statistics(_Struct):
    _fields_ = [("size", _u32), ("reserved", _u32), ("submitted", _u64), ("active", _u64),
                ("finished", _u64), ("failed", _u64), ("rejected", _u64), ("cancelled", _u64),
                ("decisions", _u64), ("segments", _u64), ("operations", _u64),
                ("graph_launches", _u64), ("built_late", _u64), ("host_ns", _u64),
                ("driver_ns", _u64), ("sleeps", _u64), ("preemptions", _u64), ("restores", _u64),
                ("preempt_p50_us", _f64), ("preempt_p99_us", _f64), ("restore_p50_us", _f64),
                ("restore_p99_us", _f64)]


class gsched_profile_options(_Struct):
    _fields_ = [("size", _u32), ("gpu", _i32), ("model", _text), ("dtype", _text), ("batch", _u32),
                ("runs", _u32), ("input_bytes", _u64), ("output_bytes", _u64)]


_P = ctypes.POINTER
_FUNCTIONS = {  # name: (result, arguments)
    "gsched_version": (_text, []),
    "gsched_abi": (_u32, []),
    "gsched_last_error": (_text, []),
    "gsched_now_ns": (_u64, []),
    "gsched_policy_names": (_text, []),
    "gsched_default_options": (ctypes.c_int, [_P(gsched_server_options)]),
    "gsched_server_open": (ctypes.c_int, [_P(gsched_server_options), _P(_pointer)]),
    "gsched_server_close": (ctypes.c_int, [_pointer, ctypes.c_int, _i64]),
    "gsched_server_release": (ctypes.c_int, [_pointer]),
    "gsched_add_client": (ctypes.c_int, [_pointer, _f64, _P(_u32)]),
    "gsched_add_model": (ctypes.c_int, [_pointer, _P(gsched_model), _P(_u32)]),
    "gsched_get_model_facts": (ctypes.c_int, [_pointer, _u32, _P(gsched_model_facts)]),
    "gsched_submit": (ctypes.c_int, [_pointer, _P(gsched_request), _P(_pointer)]),
    "gsched_wait": (ctypes.c_int, [_pointer, _i64]),
    "gsched_cancel": (ctypes.c_int, [_pointer]),
    "gsched_status": (ctypes.c_int, [_pointer, _P(gsched_report)]),
    "gsched_release": (None, [_pointer]),
    "gsched_get_statistics": (ctypes.c_int, [_pointer, _P(gsched_statistics)]),
    "gsched_profile_graph": (ctypes.c_int, [_pointer, _P(gsched_profile_options), _text]),
}

_library = None
_library_lock = threading.Lock()


def _candidates():
    named = os.environ.get("GSCHED_C_LIBRARY")
    if named:
        return [named]
    here = pathlib.Path(__file__).resolve().parent
    files = [here / "libgsched_c.so"]
    if len(here.parents) > 1:
        files.append(here.parents[1] / "build" / "release" / "cuda" / "c" / "libgsched_c.so")
    found = [str(f) for f in files if f.is_file()]
    return found or [n for n in [ctypes.util.find_library("gsched_c")] if n]


def load_library():
    """The library, loaded and checked once. Called by everything here that needs it."""
    global _library
    with _library_lock:
        if _library is not None:
            return _library
        candidates = _candidates()
        if not candidates:
            raise GschedError("libgsched_c.so: not found, expected beside gsched.py, in "
                              "build/release/cuda/c, or where GSCHED_C_LIBRARY says")
        try:
            library = ctypes.CDLL(candidates[0])
            for name, (result, arguments) in _FUNCTIONS.items():
                function = getattr(library, name)
                function.restype, function.argtypes = result, arguments
        except (OSError, AttributeError) as e:
            raise GschedError(f"{candidates[0]}: cannot be used, expected libgsched_c: "
                              f"{str(e).splitlines()[0]}") from None
        if library.gsched_abi() != ABI:
            raise GschedError(f"{candidates[0]}: ABI {library.gsched_abi()}, expected {ABI}")
        _library = library
        return library


def _check(code):
    if code != _OK:
        raise GschedError(_library.gsched_last_error().decode(errors="replace"), code)


def _microseconds(seconds):
    """None is without limit."""
    return -1 if seconds is None else max(0, min(int(seconds * 1e6), 1 << 60))


# Nested inputs and outputs ------------------------------------------------------------------------

def _leaves(tree):
    """The tensors of nested tuples, lists and mappings, in order; all else in them is constant."""
    if _is_buffer(tree):
        return [tree]
    if isinstance(tree, collections.abc.Mapping):
        return [leaf for value in tree.values() for leaf in _leaves(value)]
    if isinstance(tree, (tuple, list)):
        return [leaf for value in tree for leaf in _leaves(value)]
    return []


def _rebuilt(tree, leaves):
    """The same nesting with other tensors, taken one by one from an iterator."""
    if _is_buffer(tree):
        return next(leaves)
    if isinstance(tree, collections.abc.Mapping):
        values = {key: _rebuilt(value, leaves) for key, value in tree.items()}
        return values if type(tree) is dict else type(tree)(**values)
    if isinstance(tree, (tuple, list)):
        values = [_rebuilt(value, leaves) for value in tree]
        return type(tree)(*values) if hasattr(tree, "_fields") else type(tree)(values)
    return tree


def _is_buffer(x):
    return hasattr(x, "data_ptr") and hasattr(x, "is_cuda") and x.numel() > 0


def _same_nesting(a, b):
    if _is_buffer(a) or _is_buffer(b):
        return _is_buffer(a) and _is_buffer(b)
    if isinstance(a, collections.abc.Mapping):
        return (isinstance(b, collections.abc.Mapping) and list(a) == list(b)
                and all(_same_nesting(a[k], b[k]) for k in a))
    if isinstance(a, (tuple, list)):
        return (isinstance(b, (tuple, list)) and len(a) == len(b)
                and all(map(_same_nesting, a, b)))
    return True


def _is_dense(x):
    """Whether its elements fill one range of memory, in whatever order."""
    expected = 1
    for stride, size in sorted((st, n) for st, n in zip(x.stride(), x.size()) if n != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def _shape(x):
    return f"{str(x.dtype).replace('torch.', '')}{list(x.shape)}"


# Capture ------------------------------------------------------------------------------------------

_capture_lock = threading.Lock()
_capture_streams = {}
_given_up = []


class _Instance:
    """A captured graph and the memory that it reads and writes."""

    def __init__(self, graph, inputs, outputs, answer):
        self.graph, self.inputs, self.outputs, self.answer = graph, inputs, outputs, answer


class Captured:
    """A module captured as CUDA graphs, each with memory of its own; what add_model makes of a
    module, and takes in place of one. Its weights are shared and must stay as they are."""

    def __init__(self, name, gpu, example, instances, module):
        self.name, self.gpu, self.example, self.instances = name, gpu, example, instances
        self._module = module  # its graphs read the weights where they are now

    def replay(self, inputs=None, instance=0):
        """Runs one whole graph on torch's current stream, without any server, and waits: what the
        outputs of requests can be compared with. No request may be on that instance meanwhile.
        Returns new tensors on the host."""
        import torch

        one = self.instances[instance]
        with torch.cuda.device(self.gpu), torch.inference_mode():
            if inputs is not None:
                for mine, given in zip(one.inputs, self.checked(inputs)):
                    mine.copy_(given)
            one.graph.replay()
            copies = [x.to("cpu", copy=True) for x in one.outputs]
            torch.cuda.current_stream(self.gpu).synchronize()
        return _rebuilt(one.answer, iter(copies))

    def profile(self, path, dtype="fp32", batch=1, runs=0):
        """Measures the graph operation by operation, with the GPU for itself, and writes its
        profile, which serve_mix and the simulator read."""
        library, one = load_library(), self.instances[0]
        sizes = [sum(x.numel() * x.element_size() for x in tensors)
                 for tensors in (one.inputs, one.outputs)]
        how = gsched_profile_options(gpu=self.gpu, model=self.name.encode(), dtype=dtype.encode(),
                                     batch=batch, runs=runs, input_bytes=sizes[0],
                                     output_bytes=sizes[1])
        _check(library.gsched_profile_graph(one.graph.raw_cuda_graph(), how, os.fsencode(path)))

    def checked(self, inputs):
        """The tensors of the inputs of a request, in order, if they are like the example's."""
        wanted = self.example
        if isinstance(wanted, tuple) and len(wanted) == 1 and _is_buffer(inputs):
            inputs = (inputs,)
        if not _same_nesting(wanted, inputs):
            raise GschedError(f"{self.name}: inputs of another structure than the example's, "
                              "expected tensors in the same places")
        given = _leaves(inputs)
        for i, (x, like) in enumerate(zip(given, _leaves(wanted))):
            if x.shape != like.shape or x.dtype != like.dtype:
                raise GschedError(f"{self.name}: input {i} is {_shape(x)}, expected {_shape(like)}")
            if x.is_cuda and x.get_device() != self.gpu:
                raise GschedError(f"{self.name}: input {i} is on GPU {x.get_device()}, expected "
                                  f"the host or GPU {self.gpu}")
        return given


def _arguments(tree):
    if isinstance(tree, collections.abc.Mapping):
        return (), tree
    return (tuple(tree), {}) if isinstance(tree, (tuple, list)) else ((tree,), {})


def _forget_workspaces(torch):
    # cuBLAS keeps a workspace for each stream. Two graphs captured with the same one could not run
    # at once, so each gets a new one, from its own pool of memory.
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    if clear is not None:
        clear()


def _launch_elsewhere(torch, gpu):
    """While this lasts, what torch itself launches goes to the default stream.

    To begin a capture torch sets the state of its random numbers by two kernels on the stream to
    capture; launches on more streams than one make all graphs of a process slower (docs/cliff.md).
    GSCHED_PLAIN_CAPTURE=1 in the environment leaves torch alone.
    """
    if os.environ.get("GSCHED_PLAIN_CAPTURE"):
        return contextlib.nullcontext()
    try:
        from torch.utils._python_dispatch import TorchDispatchMode
    except ImportError:
        return contextlib.nullcontext()

    class Elsewhere(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            # That state outlives this capture, and others may write to it without inference mode.
            makes = function._schema.name.startswith("aten::empty")
            with torch.cuda.stream(torch.cuda.default_stream(gpu)), \
                    torch.inference_mode(not makes):
                return function(*args, **(kwargs or {}))

    return Elsewhere()


def _give_up(torch, graph, pool, gpu):
    """Ends a capture on the current stream in which something was raised."""
    try:
        graph.capture_end()
        return
    except Exception:
        # CUDA had given up the capture, and so torch its end: the allocator would ask the graph for
        # ever whether memory is for it, and the random numbers would stay as in a capture until one
        # ends well.
        _given_up.append(graph)
    with contextlib.suppress(AttributeError, RuntimeError):
        torch._C._cuda_endAllocateToPool(gpu, pool)
    with contextlib.suppress(RuntimeError):
        small = torch.cuda.CUDAGraph(keep_graph=True)
        with _launch_elsewhere(torch, gpu):
            small.capture_begin(capture_error_mode="thread_local")
        try:
            torch.zeros(1, device=torch.device("cuda", gpu))
        finally:
            small.capture_end()


def _capture_one(torch, module, example, gpu, stream):
    """An _Instance. What the module raises ends the capture and comes out as it is."""
    device = torch.device("cuda", gpu)
    inputs = []
    for x in _leaves(example):
        strides = x.stride() if _is_dense(x) else torch.empty(x.shape, device="meta").stride()
        static = torch.empty_strided(x.shape, strides, dtype=x.dtype, device=device)
        inputs.append(static.copy_(x)) # also what the graph is measured with
    args, kwargs = _arguments(_rebuilt(example, iter(inputs)))
    _forget_workspaces(torch)
    torch.cuda.synchronize(gpu)
    graph, pool = torch.cuda.CUDAGraph(keep_graph=True), torch.cuda.graph_pool_handle()
    collecting = gc.isenabled()
    gc.disable() # what it frees could call CUDA in the middle of the capture
    try:
        with torch.cuda.stream(stream):
            with _launch_elsewhere(torch, gpu):
                graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                answer = module(*args, **kwargs)
                outputs = [x if _is_dense(x) else x.contiguous() for x in _leaves(answer)]
            except BaseException:
                _give_up(torch, graph, pool, gpu)
                raise
            graph.capture_end()
    finally:
        if collecting:
            gc.enable()
        _forget_workspaces(torch)
    if not outputs or not all(x.is_cuda for x in outputs):
        raise GschedError(f"{type(module).__name__}: its answer holds "
                          f"{'a tensor on the host' if outputs else 'no tensor'}, expected tensors "
                          "on the GPU")
    return _Instance(graph, inputs, outputs, answer)


def capture(module, example_input, instances=2, name=None, gpu=0, warm_up=3):
    """Captures a module as CUDA graphs.

    The module is moved to the GPU and set to eval(). `example_input` is a tensor, a tuple or list
    of positional arguments or a dict of keyword arguments, nested as they like; requests have
    inputs of the same structure, shapes and types, and what is no tensor is part of the graph.
    Warm-up runs are on the default stream (launches on further streams would make every graph of
    the process slower; see leave_slow_side). A forward() that draws random numbers draws the same ones each
    time; one that writes to its module's own tensors is not fit for more than one instance.
    """
    import torch

    if not torch.cuda.is_available():
        raise GschedError("torch sees no GPU, expected one", 2)
    if instances < 1:
        raise GschedError(f"instances: {instances}, expected at least 1")
    if not _leaves(example_input):
        raise GschedError("example_input: no tensor in it, expected one at least")
    name = name or type(module).__name__
    with _capture_lock, torch.cuda.device(gpu), torch.inference_mode():
        if hasattr(module, "eval"):
            module.eval().to(torch.device("cuda", gpu))
        if gpu not in _capture_streams:
            _capture_streams[gpu] = torch.cuda.Stream(gpu)
        with torch.cuda.stream(torch.cuda.default_stream(gpu)):
            on_gpu = [x.to(torch.device("cuda", gpu)) for x in _leaves(example_input)]
            args, kwargs = _arguments(_rebuilt(example_input, iter(on_gpu)))
            for _ in range(warm_up):
                module(*args, **kwargs)
            torch.cuda.synchronize(gpu)
            all_of_them = [_capture_one(torch, module, example_input, gpu, _capture_streams[gpu])
                           for _ in range(instances)]
            torch.cuda.synchronize(gpu)
    example = example_input if not isinstance(example_input, list) else tuple(example_input)
    return Captured(name, gpu, example, all_of_them, module)


def leave_slow_side(gpu=0, timeout=60):
    """Puts this process back on the fast side, where graphs of small kernels replay as before.

    A process that has launched kernels on several streams replays its graphs more slowly from then
    on (docs/cliff.md), as one does that warmed up models on side streams. That another process makes
    a context on the GPU ends this, until there are such launches again. Here one does, and goes,
    which takes about half a second. To be called when all eager work is done."""
    made = subprocess.run(
        [sys.executable, "-c", _OTHER_CONTEXT, str(gpu)], timeout=timeout, check=False,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if made.returncode != 0:
        raise GschedError(f"another context on GPU {gpu}: not made, expected one by a process of "
                          f"{sys.executable}: {made.stderr.strip().splitlines()[-1:]}")


_OTHER_CONTEXT = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
gpu, context = ctypes.c_int(), ctypes.c_void_p()
for answer in (cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(gpu), int(sys.argv[1])),
               cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), gpu),
               cuda.cuCtxSetCurrent(context), cuda.cuCtxSynchronize()):
    assert answer == 0, f"CUDA code {answer}"
"""


# Requests -----------------------------------------------------------------------------------------

class Model:
    """A model of a server. `facts()` says what it costs."""

    def __init__(self, state, index, captured):
        self._state, self.index, self.captured = state, index, captured
        self.name, self.instances = captured.name, len(captured.instances)

    def facts(self):
        """What gsched_model_facts holds, as a dict."""
        facts = gsched_model_facts()
        _check(_library.gsched_get_model_facts(self._state.handle, self.index, facts))
        return {name: getattr(facts, name) for name, _ in facts._fields_ if name != "size"}


class Future:
    """A request under way, in the manner of concurrent.futures.Future."""

    def __init__(self, state, model, ticket, inputs, outputs):
        self._state, self.model, self._ticket = state, model, ticket
        self._inputs, self._outputs, self._end = inputs, outputs, None

    def __del__(self):
        ticket, self._ticket = getattr(self, "_ticket", None), None
        if ticket and _library is not None:
            _library.gsched_release(ticket)

    def _report(self):
        """What has become of it; kept once it has ended."""
        if self._end is not None:
            return self._end
        report = gsched_report()
        _check(_library.gsched_status(self._ticket, report))
        said = {name: getattr(report, name) for name, _ in report._fields_ if name != "user"}
        said["state"] = _STATES[report.state]
        said["error"] = (report.error or b"").decode(errors="replace")
        if report.state != 0:
            self._end, self._inputs = said, None
            self._state.forget(self)
        return said

    def wait(self, timeout=None):
        """True once it has ended, whatever way; False after `timeout` seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        while self._end is None: # in slices, so that signals are heard
            left = 0.2 if until is None else min(0.2, until - time.monotonic())
            code = _library.gsched_wait(self._ticket, _microseconds(max(left, 0)))
            if code == _OK:
                self._report()
            elif code != _TIMED_OUT:
                _check(code)
            elif until is not None and time.monotonic() >= until:
                return False
        return True

    def done(self):
        if self._end is None and _library.gsched_wait(self._ticket, 0) == _OK:
            self._report()
        return self._end is not None

    def cancelled(self):
        return self._report()["state"] == "cancelled"

    def cancel(self):
        """Asks for its end. True if it has not ended yet: then it may still finish or be cancelled,
        which result() and state say."""
        return self._end is None and _library.gsched_cancel(self._ticket) == _OK

    def exception(self, timeout=None):
        """None if it finished; what result() would raise if it failed or was rejected."""
        if not self.wait(timeout):
            raise TimeoutError(f"{self.model.name}: no answer in {timeout} s")
        end = self._end
        if end["state"] == "cancelled":
            raise CancelledError(end["error"] or "cancelled")
        if end["state"] == "finished":
            return None
        return GschedError(end["error"] or f"{self.model.name}: {end['state']}")

    def result(self, timeout=None):
        """The outputs, in the structure that the module returned. They belong to the caller."""
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._outputs

    @property
    def state(self):
        """pending, finished, failed, rejected or cancelled."""
        return self._report()["state"]

    @property
    def latency(self):
        """Seconds from arrival to the end, outputs copied; None before."""
        end = self._report()
        return None if end["state"] == "pending" else (end["end_ns"] - end["arrival_ns"]) / 1e9

    @property
    def report(self):
        """What gsched_report holds, as a dict: state, times in ns, segments, instance, error."""
        return dict(self._report())


# Servers ------------------------------------------------------------------------------------------

class _State:
    """What must outlive a Server: its handle, and all memory that the GPU may still touch."""

    def __init__(self, handle, gpu):
        self.handle, self.gpu, self.models = handle, gpu, []
        self.lock, self.pending, self.closed = threading.Lock(), collections.OrderedDict(), False

    def keep(self, future):
        """Holds on to it, so that its tensors stay while the GPU may use them, and lets go of some
        that have ended though nobody asked."""
        old = []
        with self.lock:
            self.pending[id(future)] = future
            for _ in range(min(2, len(self.pending) - 1)):
                key, one = self.pending.popitem(last=False)
                self.pending[key] = one
                old.append(one)
        for one in old:
            one.done()

    def forget(self, future):
        with self.lock:
            self.pending.pop(id(future), None)

    def close(self, how, timeout):
        """The code of gsched_server_close."""
        with self.lock:
            self.closed = True
        code = _library.gsched_server_close(self.handle, how, _microseconds(timeout))
        if code == _TIMED_OUT:
            _left_behind.append(self) # the GPU may still write to its tensors
        else:
            with self.lock:
                ended = list(self.pending.values())
            for future in ended:
                future.done()
        return code

    def release(self):
        code = self.close(1, 0.0) if not self.closed else _OK
        handle, self.handle = self.handle, None
        if handle and code != _TIMED_OUT and self not in _left_behind:
            _library.gsched_server_release(handle)
        self.pending.clear()


_left_behind = []
_servers = weakref.WeakSet()


@atexit.register
def _close_all():
    for server in list(_servers):
        with contextlib.suppress(Exception):
            server.close(cancel=True, timeout=0.0)


class Server:
    """A GPU and the thread that schedules it.

    `policy`: srpt+deficit, srpt, sjf, fifo, rr, edf, deficit; or "direct" (whole graphs, a
    stream per client) and "single" (whole graphs on one stream), for comparison. `options`: the
    other fields of gsched_server_options in gsched_c.h, such as lanes=8, quantum_us=100. With
    real_time_lanes=1 or more, requests submitted with real_time=True have the GPU at once: what
    others have there makes way between two kernels, and goes on where it was when they are done.

    To drop the last reference, or to leave a `with` because of an exception, cancels what is under
    way; to leave it otherwise waits for it.
    """

    def __init__(self, policy="srpt+deficit", gpu=0, **options):
        library = load_library()
        said = gsched_server_options()
        _check(library.gsched_default_options(said))
        known = [name for name, _ in said._fields_ if name not in ("size", "gpu", "policy")]
        said.gpu, said.policy = gpu, policy.encode()
        for name, value in options.items():
            if name not in known:
                raise GschedError(f'option "{name}", expected one of {", ".join(known)}')
            try:
                setattr(said, name, tuple(value) if name == "side_sms" else value)
            except (TypeError, RuntimeError):
                raise GschedError(f"{name}: {value!r}, expected a number") from None
        handle = _pointer()
        _check(library.gsched_server_open(said, handle))
        self.policy, self.gpu = policy, gpu
        self._state = _State(handle.value, gpu)
        self._release = weakref.finalize(self, self._state.release)
        self._release.atexit = False # _close_all closes; memory may go with the process
        _servers.add(self)
        self._first_client = None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.close(cancel=kind is not None)

    def add_client(self, weight=1.0):
        """A tenant, as a number for submit(); its share is relative to the others' weights."""
        client = _u32()
        _check(_library.gsched_add_client(self._state.handle, weight, client))
        return client.value

    def add_model(self, torch_module, example_input=None, name=None, instances=2, unmeasured=False):
        """Captures a module, see capture(), and adds it: as many requests as it has instances run
        at once, more wait. Takes what capture() made, too. Other requests wait for some 10 ms now
        and then meanwhile; the measurement is exact if there are none."""
        if isinstance(torch_module, Captured):
            captured = torch_module
            if captured.gpu != self.gpu:
                raise GschedError(f"{captured.name}: captured on GPU {captured.gpu}, expected "
                                  f"{self.gpu}, the server's")
        else:
            captured = capture(torch_module, example_input, instances, name, self.gpu)

        def buffers(tensors):
            return (gsched_buffer * len(tensors))(
                *[gsched_buffer(x.data_ptr(), x.numel() * x.element_size()) for x in tensors])

        count = len(captured.instances)
        each, kept = (gsched_instance * count)(), []
        for i, one in enumerate(captured.instances):
            ins, outs = buffers(one.inputs), buffers(one.outputs)
            each[i] = gsched_instance(graph=one.graph.raw_cuda_graph(), inputs=ins, outputs=outs)
            kept += [ins, outs]
        first = captured.instances[0]
        what = gsched_model(instances_count=count, instances=each,
                            name=(name or captured.name).encode(), inputs=len(first.inputs),
                            outputs=len(first.outputs), unmeasured=int(unmeasured))
        index = _u32()
        self._state.models.append(captured) # before: its memory is used from now on
        try:
            _check(_library.gsched_add_model(self._state.handle, what, index))
        except GschedError:
            self._state.models.remove(captured)
            raise
        return Model(self._state, index.value, captured)

    def submit(self, model, inputs, client=None, deadline=None, outputs=None, real_time=False,
               arrival_ns=0):
        """Asks for one inference, and does not wait for it: a Future.

        `inputs` are like the example's, on the host or the GPU; from pageable memory they are
        copied here first; None runs on what is in the instance's memory. `outputs`: None for new
        tensors in pinned memory; "cuda" for new ones on the GPU; () for no outputs; or tensors like
        the module's outputs, in its structure, to be overwritten. Where CUDA tensors take part,
        this waits for what torch's current stream holds so far: the server does not know of that
        stream, and may read or write them as soon as it likes. In turn what result() returns is
        complete, for any stream. `deadline`: seconds after arrival. `client`: of add_client(); None
        is the server's first one. `arrival_ns`: when it was due, if that was not now.
        """
        import torch

        if model._state is not self._state:
            raise GschedError(f"{model.name}: another server's model, expected one of this one's")
        if client is None:
            client = self._default_client()
        captured, first = model.captured, model.captured.instances[0]
        sent = [] if inputs is None else [
            self._sent(torch, x, like) for x, like in zip(captured.checked(inputs), first.inputs)]
        got = self._received(torch, captured, first, outputs)
        if any(x.is_cuda for x in sent) or any(x.is_cuda for x in got):
            torch.cuda.current_stream(self.gpu).synchronize()
        request = gsched_request(
            model=model.index, client=client, real_time=int(real_time), arrival_ns=arrival_ns,
            deadline_us=0.0 if deadline is None else deadline * 1e6,
            inputs=(_pointer * len(sent))(*[x.data_ptr() for x in sent]) if sent else None,
            outputs=(_pointer * len(got))(*[x.data_ptr() for x in got]) if got else None)
        ticket = _pointer()
        _check(_library.gsched_submit(self._state.handle, request, ticket))
        answer = _rebuilt(first.answer, iter(got)) if got else None
        future = Future(self._state, model, ticket.value, sent, answer)
        self._state.keep(future)
        return future

    def close(self, cancel=False, timeout=None):
        """Takes no more requests and ends those there are: serves them, for `timeout` seconds at
        most, or cancels what is not on the GPU. To close again does nothing."""
        state = self._state
        if state.closed:
            return
        code = state.close(1 if cancel else 0, 86400.0 if timeout is None else timeout)
        if code not in (_OK, _CLOSED):
            _check(code)

    def statistics(self):
        """What gsched_statistics holds, as a dict; also when it is closed."""
        said = gsched_statistics()
        _check(_library.gsched_get_statistics(self._state.handle, said))
        return {name: getattr(said, name) for name, _ in said._fields_
                if name not in ("size", "reserved")}

    def _default_client(self):
        with self._state.lock:
            if self._first_client is None:
                self._first_client = self.add_client()
            return self._first_client

    @staticmethod
    def _sent(torch, x, like):
        if x.stride() == like.stride() and (x.is_cuda or x.is_pinned()):
            return x
        where = {"device": x.device} if x.is_cuda else {"pin_memory": True}
        return torch.empty_strided(like.shape, like.stride(), dtype=x.dtype,
                                   **where).copy_(x.detach())

    def _received(self, torch, captured, first, outputs):
        if outputs is None or isinstance(outputs, str):
            if outputs not in (None, "cuda"):
                raise GschedError(f'outputs: "{outputs}", expected None, "cuda" or tensors')
            where = {"device": torch.device("cuda", self.gpu)} if outputs else {"pin_memory": True}
            return [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, **where)
                    for x in first.outputs]
        given = _leaves(outputs)
        if isinstance(outputs, tuple) and not outputs:
            return []
        if len(given) != len(first.outputs):
            raise GschedError(f"{captured.name}: {len(given)} output tensors, expected "
                              f"{len(first.outputs)}")
        for i, (x, like) in enumerate(zip(given, first.outputs)):
            if (x.shape, x.dtype, x.stride()) != (like.shape, like.dtype, like.stride()):
                raise GschedError(f"{captured.name}: output {i} is {_shape(x)}, expected "
                                  f"{_shape(like)} with strides {list(like.stride())}")
        return given
