# SPDX-License-Identifier: Apache-2.0
"""PyTorch models served by gsched: captured once, then scheduled segment by segment.

    import gsched, torch, torchvision

    model = torchvision.models.resnet18().cuda()
    with gsched.Server() as server:
        resnet = server.add_model(model, torch.randn(1, 3, 224, 224))
        future = server.submit(resnet, torch.randn(1, 3, 224, 224))
        print(future.result().argmax(), future.latency)

One file over libgsched_c and ctypes; torch is imported when the first model is captured. The
library is the file that GSCHED_C_LIBRARY names, or libgsched_c.so beside this file, or in
build/release/cuda/c of the checkout that this file is in, or where the system's loader finds it.

Errors   GschedError, a line each. What a model's forward raises while it is captured comes out as
         it is, and the server goes on. A child made by fork() opens servers of its own: its parent's
         refuse it.
Units    seconds, as usual in Python, but for names that end in _us and _ns; points in time are
         nanoseconds of time.monotonic_ns().
Threads  everything may be called from any thread, and from signal handlers and finalizers. One model
         is captured at a time, and one is added to a server at a time; a signal handler that starts
         another one in the middle of that gets an error. Every call that waits can be interrupted, by
         Ctrl-C for example.
"""

import atexit
import collections
import concurrent.futures
import contextlib
import copy
import ctypes
import ctypes.util
import dataclasses
import functools
import gc
import os
import pathlib
import subprocess
import sys
import threading
import time
import types
import weakref

__all__ = ["Server", "Model", "Future", "Captured", "GschedError", "capture", "load_library"]

ABI = 1
CancelledError = concurrent.futures.CancelledError
_OK, _BAD_ARGUMENT, _DEVICE_FAILED, _CLOSED, _TIMED_OUT = 0, 1, 5, 6, 7
_STATES = ("pending", "finished", "failed", "rejected", "cancelled")
_DRAIN, _CANCEL = 0, 1


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
                ("instrumented", _u32), ("time_driver", _u32), ("spare_lanes", _u32),
                ("real_time_lanes", _u32), ("yields", _u32), ("floor", _f64), ("tolerance", _f64),
                ("side_sms", _u32 * 4), ("lease_us", _f64), ("reserve_sms", _u32 * 4),
                ("reserve_fixed", _u32), ("one_long", _u32), ("long_kernel_us", _f64),
                ("reserve_slow_down", _f64), ("reserve_tail", _f64), ("reserve_share", _f64),
                ("slice_us", _f64)]


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
                ("durations_count", _u32), ("unmeasured", _u32),
                ("excludes", ctypes.POINTER(_u32)), ("excludes_count", _u32), ("exclusive", _u32)]


class gsched_model_facts(_Struct):
    _fields_ = [("size", _u32), ("instances", _u32), ("operations", _u64), ("segments", _u64),
                ("device_bytes", _u64), ("graphs", _u64), ("nodes", _u64), ("measure_ms", _f64),
                ("build_ms", _f64), ("expected_us", _f64), ("graph_replay_us", _f64)]


class gsched_request(_Struct):
    _fields_ = [("size", _u32), ("model", _u32), ("client", _u32), ("real_time", _u32),
                ("arrival_ns", _u64), ("deadline_us", _f64), ("inputs", ctypes.POINTER(_pointer)),
                ("outputs", ctypes.POINTER(_pointer)), ("done", _pointer), ("user", _pointer),
                ("collected", _u32), ("reserved", _u32), ("wait_event", _pointer),
                ("signal_event", _pointer), ("after", _pointer), ("wait_stream", _pointer)]


class gsched_report(_Struct):
    _fields_ = [("size", _u32), ("state", _u32), ("arrival_ns", _u64), ("start_ns", _u64),
                ("end_ns", _u64), ("segments", _u32), ("instance", _u32), ("user", _pointer),
                ("error", _text), ("code", _u32), ("reserved", _u32)]


class gsched_statistics(_Struct):
    _fields_ = [("size", _u32), ("reserved", _u32), ("submitted", _u64), ("active", _u64),
                ("finished", _u64), ("failed", _u64), ("rejected", _u64), ("cancelled", _u64),
                ("decisions", _u64), ("segments", _u64), ("operations", _u64),
                ("graph_launches", _u64), ("built_late", _u64), ("host_ns", _u64),
                ("driver_ns", _u64), ("sleeps", _u64), ("preemptions", _u64), ("restores", _u64),
                ("preempt_p50_us", _f64), ("preempt_p99_us", _f64), ("restore_p50_us", _f64),
                ("restore_p99_us", _f64), ("expired_leases", _u64), ("opened", _u64),
                ("reserved_segments", _u64), ("hanging", _u64), ("found_to_need_sms", _u64)]


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
    "gsched_remove_model": (ctypes.c_int, [_pointer, _u32, _i64]),
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
_library_lock = threading.RLock()


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

def _is_buffer(x):
    return hasattr(x, "data_ptr") and hasattr(x, "is_cuda") and x.numel() > 0


def _children(tree):
    """What a tuple, list, mapping or dataclass holds, as pairs of a name and a value; None for all
    else, which is constant. transformers' outputs are mappings first, and dataclasses too."""
    if isinstance(tree, collections.abc.Mapping):
        return list(tree.items())
    if isinstance(tree, (tuple, list)):
        return list(enumerate(tree))
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return [(field.name, getattr(tree, field.name)) for field in dataclasses.fields(tree)]
    return None


def _leaves(tree):
    """The tensors of a nesting, in order."""
    if _is_buffer(tree):
        return [tree]
    return [leaf for _, value in _children(tree) or () for leaf in _leaves(value)]


def _rebuilt(tree, leaves):
    """The same nesting with other tensors, taken one by one from an iterator."""
    if _is_buffer(tree):
        return next(leaves)
    children = _children(tree)
    if children is None:
        return tree
    values = {key: _rebuilt(value, leaves) for key, value in children}
    for make in _makers(tree, values):
        with contextlib.suppress(Exception): # a constructor of whatever kind, or one that looks
            made = make()
            if [(k, id(v)) for k, v in _children(made)] == [(k, id(v)) for k, v in values.items()]:
                return made
    raise GschedError(f"a {type(tree).__name__} cannot be made again with other tensors, expected "
                      "tuples, lists, mappings or dataclasses that can")


def _makers(tree, values):
    """Ways to make another one like it with other values, the most fitting first."""
    kind = type(tree)

    def copied(put):
        made = copy.copy(tree)
        for key, value in values.items():
            put(made, key, value)
        return made

    if kind in (dict, tuple, list):
        return [lambda: values if kind is dict else kind(values.values())]
    if isinstance(tree, collections.abc.Mapping):
        return [lambda: kind(**values), lambda: kind(values),
                lambda: copied(lambda made, key, value: made.__setitem__(key, value))]
    if isinstance(tree, (tuple, list)):
        return [lambda: kind(*values.values()), lambda: kind(values.values())]
    return [lambda: copied(object.__setattr__)]


def _difference(wanted, given, where=""):
    """How a nesting differs from another one beside the values of tensors, in some words after the
    name of what it is; None if it does not."""
    if _is_buffer(wanted) and _is_buffer(given):
        return None
    mine, theirs = _children(wanted), _children(given)
    if _is_buffer(wanted) or _is_buffer(given) or (mine is None) != (theirs is None):
        return "s of another structure than the example's, expected tensors in the same places"
    if mine is None:
        if _same_constant(wanted, given):
            return None
        return (f"{where} is {_said(given)}, expected {_said(wanted)} as in the example, since what "
                "is no tensor is part of the graph")
    if [key for key, _ in mine] != [key for key, _ in theirs]:
        return "s of another structure than the example's, expected tensors in the same places"
    for (key, a), (_, b) in zip(mine, theirs):
        different = _difference(a, b, f"{where}[{key!r}]")
        if different:
            return different
    return None


def _same_constant(a, b):
    if a is b:
        return True
    try:
        if hasattr(a, "data_ptr") and hasattr(b, "data_ptr"): # tensors without elements
            return a.shape == b.shape and a.dtype == b.dtype
        if type(a) is not type(b):
            return False
        same = a == b
        if hasattr(same, "all"): # of arrays
            return getattr(a, "shape", None) == getattr(b, "shape", None) and bool(same.all())
        return bool(same) or (isinstance(a, float) and a != a and b != b)
    except Exception: # what cannot be compared differs
        return False


def _said(x):
    try:
        text = " ".join(repr(x).split())
    except Exception:
        text = f"a {type(x).__name__}"
    return text if len(text) < 60 else text[:57] + "..."


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


class _OneAtATime:
    """Long work that one thread does at a time. A call in the middle of it by the same thread, which
    a signal handler or a finalizer can make, is an error: it would wait for itself."""

    def __init__(self, what):
        self.what, self.lock, self.taken = what, threading.RLock(), False

    @contextlib.contextmanager
    def hold(self):
        with self.lock:
            if self.taken:
                raise GschedError(f"{self.what}: called in the middle of another one by the same "
                                  "thread, expected after it")
            self.taken = True
            try:
                yield
            finally:
                self.taken = False


# Capture ------------------------------------------------------------------------------------------

_capturing = _OneAtATime("capture")
_capture_streams = {}
_given_up = []


class _Instance:
    """A captured graph and the memory that it reads and writes."""

    def __init__(self, graph, inputs, outputs, answer):
        self.graph, self.inputs, self.outputs, self.answer = graph, inputs, outputs, answer


class Captured:
    """A module captured as CUDA graphs, each with memory of its own; what add_model makes of a
    module, and takes in place of one. Its weights are shared and must stay where they are.

    `reads` and `writes`: memory from before a call that the call reads and writes, as sets of
    address ranges (first, end). `written`: names of what it writes, for messages."""

    def __init__(self, name, gpu, example, instances, module, state=None):
        self.name, self.gpu, self.example, self.instances = name, gpu, example, instances
        self._module = module  # its graphs read the weights where they are now
        state = state or _Accesses()
        self.reads, self.writes = set(state.reads), set(state.writes)
        self.written = sorted(set(state.writes.values()))

    def excludes(self, other):
        """Whether requests of the two may not run at once: one writes what the other one uses, or
        they are one, on the same memory."""
        return (self is other or _overlap(self.writes, other.reads | other.writes)
                or _overlap(other.writes, self.reads))

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
        different = _difference(wanted, inputs)
        if different:
            raise GschedError(f"{self.name}: input{different}")
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
    """Ends a capture on the current stream during which something was raised, by the module, by the
    begin or the end of the capture itself, or by a signal handler. After this, torch captures and
    allocates as before. The capture may be in any state."""
    _given_up.append(graph) # first: while it is in the allocator's list, it must not be freed
    try:
        graph.capture_end()
        _given_up.remove(graph)
        return
    except Exception:
        # CUDA had given up the capture, or torch has failed to end it: the allocator would ask the
        # graph for ever whether memory is for it, and the random numbers would stay as in a capture
        # until one ends well.
        pass
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


def _capture_one(torch, module, example, gpu, stream, name):
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
            # Any exception up to the end of the capture gives it up: capture_end raises where forward
            # has not joined a stream, and Ctrl-C is raised between any two calls.
            try:
                with _launch_elsewhere(torch, gpu):
                    graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                answer = module(*args, **kwargs)
                # Without what autograd keeps of the call, which would live as long as the answer.
                outputs = [x.detach() if _is_dense(x) else x.detach().contiguous()
                           for x in _leaves(answer)]
                graph.capture_end()
            except BaseException:
                _give_up(torch, graph, pool, gpu)
                raise
    finally:
        if collecting:
            gc.enable()
        _forget_workspaces(torch)
    if not outputs or not all(x.is_cuda for x in outputs):
        raise GschedError(f"{name}: its answer holds "
                          f"{'a tensor on the host' if outputs else 'no tensor'}, expected tensors "
                          "on the GPU")
    try:
        return _Instance(graph, inputs, outputs, _rebuilt(answer, iter(outputs)))
    except GschedError as e:
        raise GschedError(f"{name}: its answer: {e}") from None


@contextlib.contextmanager
def _without_cast_cache(torch):
    """Autocast keeps what it casts of weights until it ends, and frees it then: a graph that was
    captured meanwhile would read freed memory. Here each call casts them anew, within its graph."""
    enabled = torch.is_autocast_cache_enabled()
    torch.clear_autocast_cache()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(enabled)
        torch.clear_autocast_cache()


def capture(module, example_input, instances=None, name=None, gpu=0, warm_up=3, training=False,
            parameters=()):
    """Captures a module, or another callable, as CUDA graphs.

    A module is moved to the GPU and set to eval(), and runs in inference mode. `example_input` is a
    tensor, a tuple or list of positional arguments or a dict of keyword arguments, nested as they
    like; requests have inputs of the same structure, shapes and types, and what is no tensor is part
    of the graph: requests with another value there are refused. Warm-up runs, one at least, are on
    the default stream (launches on further streams would make every graph of the process slower; see
    leave_slow_side). A forward() that draws random numbers draws the same ones each time.

    State. During the last warm-up run it is noted which memory from before the call is read and
    written (Captured.reads, Captured.writes): a static cache, batch-norm statistics in train mode.
    Such a model has one instance, as two would share its state, and models that share written state
    exclude one another on a server. `instances`: None is 1 then, and 2 else. The warm-up runs write
    that state too: set it in place, by copy_(), before the first request. What kernels write that
    torch does not launch (Triton, extensions without a schema) is not seen.

    `training`: the module keeps its mode, gradients are on, and inference mode is off: for a function
    step(x, y) that runs forward, backward and optimizer.step(). It owes:
    - gradients made anew by each call: optimizer.zero_grad(set_to_none=True) before backward;
    - an optimizer that keeps no state on the host: SGD, or capturable=True where there is a choice;
    - no autograd graph that outlives the call: it returns loss.detach(), and stores no loss;
    - no look at a value, such as loss.item() or a gradient scaler's check on the host.
    Warm-up runs are steps too, so load the weights to start from, in place, after the capture. What
    backward and other threads do is not seen, so all parameters, buffers, gradients and optimizer
    state that can be reached from the callable count as written: through its closure, globals that it
    names, attributes, and `parameters`, which takes tensors, modules and optimizers.
    """
    import torch

    if not torch.cuda.is_available():
        raise GschedError("torch sees no GPU, expected one", 2)
    if instances is not None and instances < 1:
        raise GschedError(f"instances: {instances}, expected at least 1")
    if not _leaves(example_input):
        raise GschedError("example_input: no tensor in it, expected one at least")
    name = name or getattr(module, "__name__", None) or type(module).__name__
    mode = torch.enable_grad() if training else torch.inference_mode()
    with _capturing.hold(), torch.cuda.device(gpu), mode, _without_cast_cache(torch):
        if hasattr(module, "eval") and not training:
            module.eval()
        if hasattr(module, "to"):
            with torch.inference_mode(False): # what is moved within it is never written again outside
                module.to(torch.device("cuda", gpu))
        if gpu not in _capture_streams:
            _capture_streams[gpu] = torch.cuda.Stream(gpu)
        with torch.cuda.stream(torch.cuda.default_stream(gpu)):
            on_gpu = [x.to(torch.device("cuda", gpu)) for x in _leaves(example_input)]
            args, kwargs = _arguments(_rebuilt(example_input, iter(on_gpu)))
            for _ in range(warm_up - 1):
                module(*args, **kwargs)
                torch.clear_autocast_cache()
            with _noting(torch, on_gpu) as accesses:
                module(*args, **kwargs)
            torch.clear_autocast_cache()
            torch.cuda.synchronize(gpu)
            accesses.name(module)
            if accesses.writes or training:
                if (instances or 1) > 1:
                    if training:
                        accesses.add_reachable(torch, module, parameters)
                    raise GschedError(f"{name}: writes {accesses.example()}, which its instances "
                                      f"would share: instances {instances}, expected 1")
                instances = 1
            all_of_them = []
            for _ in range(instances or 2):
                all_of_them.append(_capture_one(torch, module, example_input, gpu,
                                                _capture_streams[gpu], name))
                torch.clear_autocast_cache()
            torch.cuda.synchronize(gpu)
            if training: # now, as gradients are in the graph's memory
                accesses.add_reachable(torch, module, parameters)
    example = example_input if not isinstance(example_input, list) else tuple(example_input)
    return Captured(name, gpu, example, all_of_them, module, accesses)


# State --------------------------------------------------------------------------------------------

class _Accesses:
    """Memory from before a call that the call reads and writes: {(first, end): what is there}."""

    def __init__(self):
        self.reads, self.writes = {}, {}

    @staticmethod
    def range_of(x):
        """The address range of a tensor's storage on the GPU; None if it has none."""
        try:
            if not x.is_cuda:
                return None
            storage = x.untyped_storage()
            first = storage.data_ptr()
            return (first, first + storage.nbytes()) if first else None
        except (AttributeError, NotImplementedError, RuntimeError): # sparse, or of another library
            return None

    def note(self, into, x, said=None):
        where = self.range_of(x)
        if where is not None:
            into.setdefault(where, said or f"a tensor of {_shape(x)}")

    def add_reachable(self, torch, what, more):
        found = []
        for name, root in (("", what), ("parameters", more)):
            _collect_state(torch, root, name, found, {}, 8)
        named = {}
        for name, x in sorted(found, key=lambda pair: (len(pair[0]), pair[0])):
            self.note(named, x, name) # by the shortest
        self.writes.update(named)

    def name(self, module):
        """Names what are parameters and buffers of the module."""
        for kind in ("named_parameters", "named_buffers"):
            for name, x in getattr(module, kind, lambda: ())():
                for noted in (self.reads, self.writes):
                    if self.range_of(x) in noted:
                        noted[self.range_of(x)] = name

    def example(self):
        named = sorted(self.writes.values(), key=lambda said: said.startswith("a tensor of "))
        return named[0] if named else "its parameters"


def _collect_state(torch, what, name, found, seen, depth):
    """The tensors that are reached from a callable, an optimizer, a module or what holds them."""
    if depth == 0 or id(what) in seen or isinstance(what, (type, types.ModuleType)):
        return
    if not isinstance(what, torch.Tensor): # which may have several names
        seen[id(what)] = what

    def more(inner, called):
        label = f"{name}.{called}" if name and called else name or str(called)
        _collect_state(torch, inner, label, found, seen, depth - 1)

    if isinstance(what, torch.Tensor):
        found.append((name or "a tensor", what))
        if what.is_leaf and what.grad is not None:
            found.append((f"{name or 'a tensor'}.grad", what.grad))
    elif isinstance(what, torch.nn.Module):
        for called, x in (*what.named_parameters(), *what.named_buffers()):
            more(x, called)
    elif isinstance(what, torch.optim.Optimizer):
        more(what.param_groups, "param_groups")
        more(list(what.state.values()), "state")
    elif isinstance(what, types.FunctionType):
        for called, cell in zip(what.__code__.co_freevars, what.__closure__ or ()):
            with contextlib.suppress(ValueError): # not bound yet
                more(cell.cell_contents, called)
        for called in _names_of(what.__code__) & what.__globals__.keys():
            more(what.__globals__[called], called)
        more(what.__defaults__ or (), "")
        more(what.__kwdefaults__ or {}, "")
    elif isinstance(what, types.MethodType):
        more(what.__self__, "")
        more(what.__func__, "")
    elif isinstance(what, functools.partial):
        more((what.func, what.args, what.keywords), "")
    elif isinstance(what, (list, tuple, set, frozenset)):
        for i, x in enumerate(what):
            more(x, i if isinstance(what, (list, tuple)) else "")
    elif isinstance(what, collections.abc.Mapping):
        for called, x in list(what.items()):
            more(x, called if isinstance(called, str) else "")
    elif not isinstance(what, types.BuiltinFunctionType):
        for called, x in list(getattr(what, "__dict__", {}).items()):
            more(x, called)


def _names_of(code):
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*map(_names_of, inner))


@contextlib.contextmanager
def _noting(torch, inputs):
    """Notes what memory from before it is read and written while this lasts, but for the inputs."""
    accesses = _Accesses()
    try:
        from torch.utils._python_dispatch import TorchDispatchMode
    except ImportError:
        yield accesses
        return

    born = {accesses.range_of(x) for x in inputs}

    def tensors(value):
        if isinstance(value, torch.Tensor):
            return [value]
        if isinstance(value, (list, tuple)):
            return [x for one in value for x in tensors(one)]
        return []

    class Noting(TorchDispatchMode):
        def __torch_dispatch__(self, function, kinds, args=(), kwargs=None):
            kwargs = kwargs or {}
            known = set()
            for value, written in _arguments_of(function, args, kwargs):
                for x in tensors(value):
                    where = accesses.range_of(x)
                    known.add(where)
                    if where not in born:
                        accesses.note(accesses.writes if written else accesses.reads, x)
            out = function(*args, **kwargs)
            born.update(where for x in tensors(out) if (where := accesses.range_of(x)) not in known)
            return out

    with Noting():
        yield accesses


def _arguments_of(function, args, kwargs):
    """Each argument of an operator, and whether it is written."""
    schema = getattr(function, "_schema", None)
    if schema is None:
        return [(value, True) for value in (*args, *kwargs.values())]
    given = dict(zip((a.name for a in schema.arguments), args), **kwargs)
    # Schemas of batch norm and the like do not say that they write the statistics while training.
    flags = [given.get(n) for n in ("training", "train", "use_input_stats") if n in given]
    moving = any(flags) if flags else "no_training" not in schema.name
    statistics = {"running_mean", "running_var"} if moving else set()
    # record_stream() changes the allocator's records of a block, not its content.
    quiet = schema.name == "aten::record_stream"
    return [(given[a.name],
             not quiet and (a.name in statistics
                            or (a.alias_info is not None and a.alias_info.is_write)))
            for a in schema.arguments if a.name in given]


def _overlap(a, b):
    """Whether some range of one set shares a byte with some of the other."""
    a, b = sorted(a), sorted(b)
    i = k = 0
    while i < len(a) and k < len(b):
        if a[i][0] < b[k][1] and b[k][0] < a[i][1]:
            return True
        if a[i][1] <= b[k][1]:
            i += 1
        else:
            k += 1
    return False


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

    def remove(self, timeout=None):
        """Takes no more requests, serves those there are, and removes the model: the server frees
        its graphs and releases the captured memory. TimeoutError after `timeout` seconds: the model
        still takes no more requests, and remove() may be called again. GschedError with the code
        GSCHED_DEVICE_FAILED: the model is removed, but one of its kernels hangs, so that the
        captured memory is kept until the process ends."""
        self._state.refuse_child()
        until = None if timeout is None else time.monotonic() + timeout
        while True: # in slices, so that signals are heard
            left = 0.2 if until is None else min(0.2, until - time.monotonic())
            code = _library.gsched_remove_model(self._state.handle, self.index,
                                                _microseconds(max(left, 0)))
            if code != _TIMED_OUT:
                break
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"{self.name}: requests have not ended in {timeout} s")
        if code == _DEVICE_FAILED:
            _keep_for_good(self.captured)
        if code in (_OK, _DEVICE_FAILED):
            self._state.drop_model(self)
        _check(code)

    def facts(self):
        """What gsched_model_facts holds, as a dict."""
        self._state.refuse_child()
        facts = gsched_model_facts()
        _check(_library.gsched_get_model_facts(self._state.handle, self.index, facts))
        return {name: getattr(facts, name) for name, _ in facts._fields_ if name != "size"}


class Future:
    """A request under way, in the manner of concurrent.futures.Future."""

    def __init__(self, state, model, inputs, outputs, events=(), pooled=None):
        self._state, self.model, self._ticket = state, model, _pointer()
        self._inputs, self._outputs, self._end = inputs, outputs, None
        self._events, self._pooled = events, pooled
        # The library writes the ticket before it posts the request, and deletes the ticket if it
        # cannot: until its call has returned no other thread may use the ticket.
        self._submitted = False

    def __del__(self):
        ticket = getattr(self, "_ticket", None)
        if ticket and _library is not None and self._state.is_here():
            _library.gsched_release(ticket)

    def _report(self):
        """What has become of it; kept once it has ended."""
        if self._end is not None:
            return self._end
        self._state.refuse_child()
        report = gsched_report()
        _check(_library.gsched_status(self._ticket, report))
        said = {name: getattr(report, name) for name, _ in report._fields_
                if name not in ("user", "reserved")}
        said["state"] = _STATES[report.state]
        said["error"] = (report.error or b"").decode(errors="replace")
        if report.state != 0:
            if report.code == _DEVICE_FAILED: # the GPU may still read and write all of it
                _keep_for_good((self._inputs, self._outputs, self.model.captured, self._events,
                                self._pooled))
            inputs, events, pooled = self._inputs, self._events, None # freed without the lock
            with self._state.lock: # keep() of other threads reports it too; one returns the event
                if self._end is not None:
                    return self._end
                pooled, self._pooled = self._pooled, None
                self._state.pending.pop(id(self), None) # before: what has ended stays in there for good
                self._inputs, self._events, self._end = None, (), said
            if pooled is not None and report.code != _DEVICE_FAILED:
                self._state.events.append(pooled)
        return said

    def wait(self, timeout=None):
        """True once it has ended, whatever way; False after `timeout` seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        if self._end is None:
            self._state.refuse_child()
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
        if self._submitted and self._end is None and self._state.is_here():
            if not self._ticket: # submit() has raised, and was interrupted before it forgot this
                self._state.forget(self)
            elif _library.gsched_wait(self._ticket, 0) == _OK:
                self._report()
        return self._end is not None

    def cancelled(self):
        return self._report()["state"] == "cancelled"

    def cancel(self):
        """Asks for its end. True if it has not ended yet: then it may still finish or be cancelled,
        which result() and state say."""
        return (self._end is None and self._state.is_here()
                and _library.gsched_cancel(self._ticket) == _OK)

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
        """The outputs, in the structure that the module returned, complete for every stream and the
        host. They belong to the caller."""
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
        """What gsched_report holds, as a dict: state, times in ns, segments, instance, error, code.
        """
        return dict(self._report())


def _sent(torch, x, like):
    """A tensor with the strides of `like` that a request can read: x itself, or a copy. Copies from
    pinned memory and on the GPU are made by torch's current stream, and need not have ended."""
    direct = x.is_cuda or x.is_pinned()
    if direct and x.stride() == like.stride():
        return x
    x = x.detach()
    copy = torch.empty_strided(like.shape, like.stride(), dtype=x.dtype,
                               **({"device": like.device} if direct else {"pin_memory": True}))
    if direct and not x.is_cuda:
        # torch would read pinned memory with other strides on the host, before copies into it end.
        span = 1 + sum((n - 1) * stride for n, stride in zip(x.shape, x.stride()))
        flat = torch.empty_strided((span,), (1,), dtype=x.dtype, device=like.device)
        flat.copy_(x.as_strided((span,), (1,)), non_blocking=True)
        x = flat.as_strided(x.shape, x.stride())
    return copy.copy_(x)


# Servers ------------------------------------------------------------------------------------------

class _State:
    """What must outlive a Server: its handle, and all memory that the GPU may still touch."""

    def __init__(self, handle, gpu):
        self.handle, self.gpu, self.process = handle, gpu, os.getpid()
        # Guards `pending` and the ends of futures. A signal handler, or a finalizer that the garbage
        # collector runs, may call anything here in the thread that holds the lock, between any two
        # calls of Python. So it is one that the thread can take again; each step under it leaves a
        # state that such a call can use; and under it there is no call of the library or of torch,
        # which may wait for another thread, and nothing is freed that may make one.
        self.lock = threading.RLock()
        self.pending = collections.OrderedDict() # what the GPU may use, the longest unlooked at first
        self.closed = False      # the library's server has been closed
        self.left_behind = False # the library's thread did not end when it was closed
        self.adding = _OneAtATime("add_model")
        self.models = []  # [captured, the Model once it is added]
        self.events = []  # of torch, in use by nothing
        _states.add(self)

    def is_here(self):
        """Not in a child made by fork(): the server's thread, and others that hold its locks, are in
        the parent."""
        return self.process == os.getpid()

    def refuse_child(self):
        if not self.is_here():
            raise GschedError(f"a server of process {self.process}, expected one of this process: a "
                              "child made by fork() opens its own", _BAD_ARGUMENT)

    def drop_model(self, model):
        for entry in list(self.models):
            if entry[1] is model:
                with contextlib.suppress(ValueError): # by another thread
                    self.models.remove(entry)

    def keep(self, future):
        """Keeps the tensors of a future while the GPU may use them, and frees those of some futures
        that have ended and were not queried since."""
        old = []
        with self.lock:
            self.pending[id(future)] = future
            # A future stays in there while it is moved. If a signal handler changes the order in
            # between, it has looked after some itself.
            with contextlib.suppress(KeyError, RuntimeError, StopIteration):
                for _ in range(min(2, len(self.pending) - 1)):
                    key, one = next(iter(self.pending.items()))
                    self.pending.move_to_end(key)
                    old.append(one)
        for one in old:
            one.done()

    def forget(self, future):
        with self.lock:
            self.pending.pop(id(future), None)

    def close(self, how, timeout):
        """Ends the library's server. Of calls at the same time the earliest end counts, and each
        returns when the server has ended."""
        if not self.is_here():
            return
        code = _library.gsched_server_close(self.handle, how, _microseconds(timeout))
        line = _library.gsched_last_error().decode(errors="replace") if code != _OK else ""
        if code == _TIMED_OUT:
            self.left_behind = True
            _keep_for_good(self) # the GPU may still write to its tensors
        self.closed = True
        if not self.left_behind:
            with self.lock:
                ended = list(self.pending.values())
            for future in ended:
                future.done()
        if code not in (_OK, _CLOSED):
            raise GschedError(line, code)

    def release(self):
        if not self.is_here():
            return
        if not self.closed:
            with contextlib.suppress(GschedError):
                self.close(_CANCEL, 0.0)
        if self.left_behind:
            return # the library's thread still uses the server, and the GPU the memory
        handle, self.handle = self.handle, None
        if handle:
            _library.gsched_server_release(handle)
        self.pending.clear()


_servers = weakref.WeakSet()
_states = weakref.WeakSet()


def _keep_for_good(memory):
    """Until the process ends, the interpreter's own end included."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))


def _keep_parents():
    """In a child made by fork(): keeps what the parent's servers hold of torch, for good.

    A child can neither use CUDA's objects of its parent nor free them: each call of CUDA fails there,
    and torch ends the process where the destructor of an event does. Memory of the GPU is the
    parent's. That of the host is shared until one of the two writes to it, and the child holds no
    more of it than there was at fork()."""
    for state in list(_states):
        if not state.is_here():
            _keep_for_good(state)


os.register_at_fork(after_in_child=_keep_parents)


@atexit.register
def _close_all():
    for server in list(_servers):
        with contextlib.suppress(Exception):
            server.close(cancel=True, timeout=0.0)


class Server:
    """A GPU and the thread that schedules it.

    `policy`: boost, boost:FACTOR (1 is for the tail of latency, the default 0.3 for the mean and the
    tail), srpt, sjf, fifo, rr, edf, deficit, srpt+deficit (with these two clients' weights count);
    or "direct" (whole graphs, a stream per client) and "single" (whole graphs on one stream), for
    comparison. `options`: the
    other fields of gsched_server_options in gsched_c.h, such as lanes=8, quantum_us=100. With
    real_time_lanes=1 or more, requests submitted with real_time=True preempt the others: those stop
    between two kernels, and resume there when the real-time requests have ended.

    To drop the last reference, or to leave a `with` because of an exception, cancels what is under
    way; to leave it otherwise waits for it.
    """

    def __init__(self, policy="boost", gpu=0, **options):
        library = load_library()
        said = gsched_server_options()
        _check(library.gsched_default_options(said))
        known = [name for name, _ in said._fields_ if name not in ("size", "gpu", "policy")]
        said.gpu, said.policy = gpu, policy.encode()
        for name, value in options.items():
            if name not in known:
                raise GschedError(f'option "{name}", expected one of {", ".join(known)}')
            try:
                setattr(said, name, tuple(value) if name.endswith("_sms") else value)
            except (TypeError, RuntimeError):
                raise GschedError(f"{name}: {value!r}, expected a number") from None
        handle = _pointer()
        _check(library.gsched_server_open(said, handle))
        self.policy, self.gpu = policy, gpu
        self._state = _State(handle.value, gpu)
        self._release = weakref.finalize(self, self._state.release)
        self._release.atexit = False # _close_all closes; memory may go with the process
        _servers.add(self)
        self._first_clients = []

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.close(cancel=kind is not None)

    def add_client(self, weight=1.0):
        """A tenant, as a number for submit(); its share is relative to the others' weights."""
        self._state.refuse_child()
        client = _u32()
        _check(_library.gsched_add_client(self._state.handle, weight, client))
        return client.value

    def add_model(self, torch_module, example_input=None, name=None, instances=None,
                  unmeasured=False):
        """Captures a module, see capture(), and adds it: as many requests as it has instances run
        at once, more wait. Takes what capture() made, too. Requests of models one of which writes
        what the other one uses never run at once (Captured.writes). Other requests are served
        meanwhile; the measurement is exact if there are none.

        The measurement replays the graph several times, on the memory that it reads and writes, while
        requests of other models run: a model that writes state writes it then too, also where a model
        that is served reads or writes the same state. Set that state again afterwards, in place. Or
        pass `unmeasured=True`, which replays nothing and takes all operations as equally long. Add a
        model that shares state with a served one unmeasured, or while that one has no requests."""
        self._state.refuse_child()
        if self.statistics()["hanging"]:
            raise GschedError(f"a kernel of this process hangs on GPU {self.gpu}, expected none, as "
                              f"a model's capture would wait for it", _DEVICE_FAILED)
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
        state = self._state
        with state.adding.hold():
            others = [model.index for _, model in list(state.models)
                      if model is not None and captured.excludes(model.captured)]
            what.excludes, what.excludes_count = (_u32 * len(others))(*others), len(others)
            index = _u32()
            entry = [captured, None]
            state.models.append(entry) # before: its memory is used from now on
            try:
                _check(_library.gsched_add_model(state.handle, what, index))
            except GschedError as e:
                if e.code == _DEVICE_FAILED: # a kernel that was measured may hang and use it still
                    _keep_for_good(captured)
                state.models.remove(entry)
                raise
            entry[1] = Model(state, index.value, captured)
            return entry[1]

    def submit(self, model, inputs, client=None, deadline=None, outputs=None, real_time=False,
               arrival_ns=0, stream=None, after=None, signal=None):
        """Asks for one inference, and does not wait for it: a Future.

        `inputs` are like the example's, on the host or the GPU; None runs on what is in the
        instance's memory. `outputs`: None for new tensors in pinned memory; "cuda" for new ones on
        the GPU; () for no outputs; or tensors like the module's outputs, in its structure, to be
        overwritten. `deadline`: seconds after arrival. `client`: of add_client(); None is the
        server's first one. `arrival_ns`: when it was due, if that was not now.

        Order. The request starts when all has been done that `stream` holds now: an event is recorded
        there, and nothing waits for it but the request. So what made the inputs there, copies into
        pinned memory included, need not have ended, nor what set the model's state. With stream=None
        it is torch's current one, but only where tensors on the GPU or in pinned memory take part,
        inputs is None, or the model writes state: with inputs in pageable memory alone nothing is
        recorded. submit() never synchronises. The caller owes what is on other streams and threads. `after`: another Future of this server: this request
        starts once that one has finished, and is cancelled if it ends otherwise. `signal`: a
        torch.cuda.Event that is recorded when the request has ended: streams made to wait for it
        after that go on behind the request.

        Memory. Inputs on the GPU or in pinned memory are used where they are: until the request has
        ended, do not write to them, and do not use outputs. Those with other strides than the
        example's are copied on `stream` first. Inputs in pageable memory are copied at once. What
        result() returns is complete for every stream.
        """
        import torch

        state = self._state
        state.refuse_child()
        if model._state is not state:
            raise GschedError(f"{model.name}: another server's model, expected one of this one's")
        if after is not None and after._state is not state:
            raise GschedError("after: a request of another server, expected one of this one's")
        if client is None:
            client = self._default_client()
        if stream is not None and stream.device.index != self.gpu:
            raise GschedError(f"stream: of GPU {stream.device.index}, expected one of GPU {self.gpu}, "
                              "the server's")
        captured, first = model.captured, model.captured.instances[0]
        given = [] if inputs is None else captured.checked(inputs)
        orders = stream is not None or inputs is None or captured.writes
        with contextlib.nullcontext() if stream is None else torch.cuda.stream(stream):
            stream = stream or torch.cuda.current_stream(self.gpu)
            sent = [_sent(torch, x, like) for x, like in zip(given, first.inputs)]
            got, fresh = self._received(torch, captured, first, outputs)
            awaited = None
            if (orders or any(x.is_cuda or x.is_pinned() for x in given)
                    or any(x.is_cuda for x in got)
                    or (not fresh and any(x.is_pinned() for x in got))):
                awaited = self._recorded(torch, captured, stream)
            if signal is not None and not signal.cuda_event:
                signal.record(stream) # torch makes an event when it is recorded first
        answer = _rebuilt(first.answer, iter(got)) if got else None
        request = gsched_request(
            model=model.index, client=client, real_time=int(real_time), arrival_ns=arrival_ns,
            deadline_us=0.0 if deadline is None else deadline * 1e6,
            inputs=(_pointer * len(sent))(*[x.data_ptr() for x in sent]) if sent else None,
            outputs=(_pointer * len(got))(*[x.data_ptr() for x in got]) if got else None,
            wait_event=None if awaited is None else awaited.cuda_event,
            signal_event=None if signal is None else signal.cuda_event,
            after=None if after is None else after._ticket)
        future = Future(state, model, sent, answer, (signal,), awaited)
        try:
            state.keep(future) # first: the GPU may use its memory also if submission raises
            _check(_library.gsched_submit(state.handle, request, future._ticket))
        finally:
            future._submitted = True
            if not future._ticket:
                state.forget(future)
        return future

    def close(self, cancel=False, timeout=None):
        """Takes no more requests and ends those there are: serves them, for `timeout` seconds at
        most, or cancels what is not on the GPU. Ctrl-C, or whatever else a signal handler raises,
        cancels what is left and comes out. Another call meanwhile, close(cancel=True) on another
        thread say, ends the first one sooner; to close again later does nothing."""
        state = self._state
        if state.closed or not state.is_here():
            return
        if cancel:
            state.close(_CANCEL, 0.0)
            return
        failed = []

        def drain(): # refers to the server, which is released after this call of the library
            try:
                self._state.close(_DRAIN, timeout)
            except BaseException as e:
                failed.append(e)

        # On a thread of its own, since no signal is heard during a call of the library.
        thread = threading.Thread(target=drain, name="gsched drain", daemon=True)
        try:
            try:
                thread.start()
            except RuntimeError: # none starts while the interpreter ends
                drain()
            while thread.is_alive():
                thread.join(0.2)
        except BaseException:
            with contextlib.suppress(GschedError):
                state.close(_CANCEL, 0.0)
            raise
        if failed:
            raise failed.pop()

    def statistics(self):
        """What gsched_statistics holds, as a dict; also when it is closed."""
        self._state.refuse_child()
        said = gsched_statistics()
        _check(_library.gsched_get_statistics(self._state.handle, said))
        return {name: getattr(said, name) for name, _ in said._fields_
                if name not in ("size", "reserved")}

    def _default_client(self):
        if not self._first_clients:
            self._first_clients.append(self.add_client()) # of threads at once the first one counts
        return self._first_clients[0]

    def _recorded(self, torch, captured, stream):
        """An event on the stream. The server asks for it at once, on a thread whose queries no
        capture forbids; a query here would end captures of other threads."""
        if torch.cuda.is_current_stream_capturing():
            raise GschedError(f"{captured.name}: submitted in the middle of a capture, expected a "
                              "stream that runs what it is given")
        try:
            event = self._state.events.pop()
        except IndexError:
            event = torch.cuda.Event()
        event.record(stream)
        return event

    def _received(self, torch, captured, first, outputs):
        """The tensors to write to, and whether they are new."""
        if outputs is None or isinstance(outputs, str):
            if outputs not in (None, "cuda"):
                raise GschedError(f'outputs: "{outputs}", expected None, "cuda" or tensors')
            where = {"device": torch.device("cuda", self.gpu)} if outputs else {"pin_memory": True}
            return [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, **where)
                    for x in first.outputs], True
        given = _leaves(outputs)
        if isinstance(outputs, tuple) and not outputs:
            return [], True
        if len(given) != len(first.outputs):
            raise GschedError(f"{captured.name}: {len(given)} output tensors, expected "
                              f"{len(first.outputs)}")
        for i, (x, like) in enumerate(zip(given, first.outputs)):
            if (x.shape, x.dtype, x.stride()) != (like.shape, like.dtype, like.stride()):
                raise GschedError(f"{captured.name}: output {i} is {_shape(x)}, expected "
                                  f"{_shape(like)} with strides {list(like.stride())}")
            if x.is_cuda and x.get_device() != self.gpu:
                raise GschedError(f"{captured.name}: output {i} is on GPU {x.get_device()}, expected "
                                  f"the host or GPU {self.gpu}")
        return given, False
