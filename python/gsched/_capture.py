# SPDX-License-Identifier: Apache-2.0
"""Modules captured as CUDA graphs."""

from __future__ import annotations

import collections
import collections.abc
import contextlib
import gc
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ._abi import (GschedError, check, gsched_profile_options, load_library, name_in_c, number_in_c,
                   path_in_c, u32)
from ._accesses import Accesses, Range, noting, overlap
from ._nesting import difference, is_buffer, is_dense, shape_of, tensors_of, with_tensors
from ._one_at_a_time import OneAtATime

capturing = OneAtATime("capture")
capture_streams: dict[int, Any] = {}
given_up: list[Any] = []


def versions() -> dict[str, str]:
    """Of torch and the libraries that choose its kernels."""
    import torch

    found = {"torch": torch.__version__, "torch_cuda": torch.version.cuda,
             "cudnn": torch.backends.cudnn.version()}
    for name in ("torchvision", "transformers", "triton"):
        found[name] = getattr(sys.modules.get(name), "__version__", None)
    return {name: str(version) for name, version in found.items() if version}


class Instance:
    """A captured graph and the memory that it reads and writes."""

    def __init__(self, graph: Any, inputs: list[Any], outputs: list[Any], answer: Any) -> None:
        self.graph, self.inputs, self.outputs, self.answer = graph, inputs, outputs, answer


class Captured:
    """A module captured as CUDA graphs, each with memory of its own. Made by `capture`.

    `Server.add_model` takes it in place of a module. The graphs share the module's weights, which
    must stay where they are.

    Attributes
    ----------
    name : str
        Its name, for messages.
    gpu : int
        The GPU that it was captured on.
    example : object
        The example input.
    instances : list
        The graphs, with ``graph``, ``inputs`` and ``outputs`` each.
    reads, writes : set of tuple of int
        Memory from before a call that the call reads and writes, as address ranges (first, end).
    written : list of str
        Names of what it writes.
    """

    name: str
    gpu: int
    example: Any
    instances: list[Instance]
    reads: set[Range]
    writes: set[Range]
    written: list[str]

    def __init__(self, name: str, gpu: int, example: Any, instances: list[Instance], module: Any,
                 state: Accesses | None = None) -> None:
        self.name, self.gpu, self.example, self.instances = name, gpu, example, instances
        self._ready: list[collections.deque[Any]] # pinned memory for results, by output
        self._ready = [collections.deque() for _ in instances[0].outputs]
        self._module = module  # its graphs read the weights at their present addresses
        state = state or Accesses()
        self.reads, self.writes = set(state.reads), set(state.writes)
        self.written = sorted(set(state.writes.values()))

    def excludes(self, other: Captured) -> bool:
        """Return whether requests of this module and of another one must not run at once.

        Parameters
        ----------
        other : Captured
            The other module.

        Returns
        -------
        bool
            True if one writes memory that the other one uses, or if both are the same.
        """
        return (self is other or overlap(self.writes, other.reads | other.writes)
                or overlap(other.writes, self.reads))

    def replay(self, inputs: Any = None, instance: int = 0) -> Any:
        """Run one whole graph on torch's current stream, without any server, and wait.

        Gives a reference for the outputs of requests. No request may use that instance meanwhile.

        Parameters
        ----------
        inputs : object, optional
            Inputs like the example; None keeps the present ones.
        instance : int
            Which graph.

        Returns
        -------
        object
            New tensors on the host, in the structure that the module returned.

        Raises
        ------
        GschedError
            If the inputs are not like the example.
        """
        import torch

        one = self.instances[instance]
        with torch.cuda.device(self.gpu), torch.inference_mode():
            if inputs is not None:
                for mine, given in zip(one.inputs, self._checked(inputs)):
                    mine.copy_(given)
            one.graph.replay()
            copies = [x.to("cpu", copy=True) for x in one.outputs]
            torch.cuda.current_stream(self.gpu).synchronize()
        return with_tensors(one.answer, iter(copies))

    def profile(self, path: str | os.PathLike[str], dtype: str = "fp32", batch: int = 1,
                runs: int = 0) -> None:
        """Measure the graph operation by operation, and write its profile.

        ``serve_mix`` and the simulator read it. Nothing else may run on the GPU meanwhile.

        Parameters
        ----------
        path : str or path-like
            The file to write.
        dtype : str
            The data type that the profile names.
        batch : int
            The batch size that the profile names.
        runs : int
            Replays that the medians are taken from; 0 is the library's default.

        Raises
        ------
        GschedError
            If the graph cannot be measured or the file cannot be written.
        """
        library, one = load_library(), self.instances[0]
        sizes = [sum(x.numel() * x.element_size() for x in tensors)
                 for tensors in (one.inputs, one.outputs)]
        how = gsched_profile_options(gpu=self.gpu, model=name_in_c("name", self.name),
                                     dtype=name_in_c("dtype", dtype),
                                     batch=number_in_c("batch", batch, u32),
                                     runs=number_in_c("runs", runs, u32), input_bytes=sizes[0],
                                     output_bytes=sizes[1])
        check(library.gsched_profile_graph(one.graph.raw_cuda_graph(), how, path_in_c("path", path)))

    def _checked(self, inputs: Any) -> list[Any]:
        """The tensors of the inputs of a request, in order, if they are like the example's."""
        wanted = self.example
        if isinstance(wanted, tuple) and len(wanted) == 1 and is_buffer(inputs):
            inputs = (inputs,)
        different = difference(wanted, inputs)
        if different:
            raise GschedError(f"{self.name}: input{different}")
        given = tensors_of(inputs)
        for i, (x, like) in enumerate(zip(given, tensors_of(wanted))):
            if x.shape != like.shape or x.dtype != like.dtype:
                raise GschedError(f"{self.name}: input {i} is {shape_of(x)}, expected {shape_of(like)}")
            if x.is_cuda and x.get_device() != self.gpu:
                raise GschedError(f"{self.name}: input {i} is on GPU {x.get_device()}, expected "
                                  f"the host or GPU {self.gpu}")
        return given


def arguments(tree: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    if isinstance(tree, collections.abc.Mapping):
        return (), tree
    return (tuple(tree), {}) if isinstance(tree, (tuple, list)) else ((tree,), {})


def forget_workspaces(torch: Any) -> None:
    # cuBLAS keeps a workspace for each stream. Two graphs captured with the same one could not run
    # at once, so each gets a new one, from its own pool of memory.
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    if clear is not None:
        clear()


def launch_elsewhere(torch: Any, gpu: int) -> contextlib.AbstractContextManager[Any]:
    """A context in which torch's own launches go to the default stream.

    To begin a capture torch sets the state of its random numbers by two kernels on the stream to
    capture; launches on more streams than one make all graphs of a process slower (docs/research/cliff.md).
    GSCHED_PLAIN_CAPTURE=1 in the environment leaves torch alone.
    """
    if os.environ.get("GSCHED_PLAIN_CAPTURE"):
        return contextlib.nullcontext()
    try:
        from torch.utils._python_dispatch import TorchDispatchMode
    except ImportError:
        return contextlib.nullcontext()

    class Elsewhere(TorchDispatchMode): # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (),
                               kwargs: Any = None) -> Any:
            # That state outlives this capture, and others may write to it without inference mode.
            makes = function._schema.name.startswith("aten::empty")
            with torch.cuda.stream(torch.cuda.default_stream(gpu)), \
                    torch.inference_mode(not makes):
                return function(*args, **(kwargs or {}))

    return Elsewhere()


def give_up(torch: Any, graph: Any, pool: Any, gpu: int) -> None:
    """Aborts a capture on the current stream after an exception of the module, of the begin or the end of
    the capture, or of a signal handler. The capture may be in any state. Afterwards torch captures and
    allocates as before."""
    given_up.append(graph) # first: while it is in the allocator's list, it must not be freed
    try:
        graph.capture_end()
        given_up.remove(graph)
        return
    except Exception:
        # CUDA has aborted the capture, or torch has failed to end it: the allocator would ask the
        # graph for every allocation, and the random number generators would stay in capture mode
        # until a capture succeeds.
        pass
    with contextlib.suppress(AttributeError, RuntimeError):
        torch._C._cuda_endAllocateToPool(gpu, pool)
    with contextlib.suppress(RuntimeError):
        small = torch.cuda.CUDAGraph(keep_graph=True)
        with launch_elsewhere(torch, gpu):
            small.capture_begin(capture_error_mode="thread_local")
        try:
            torch.zeros(1, device=torch.device("cuda", gpu))
        finally:
            small.capture_end()


def capture_one(torch: Any, module: Any, example: Any, gpu: int, stream: Any, name: str) -> Instance:
    """Captures one graph. An exception of the module ends the capture and is passed on."""
    device = torch.device("cuda", gpu)
    inputs = []
    for x in tensors_of(example):
        strides = x.stride() if is_dense(x) else torch.empty(x.shape, device="meta").stride()
        static = torch.empty_strided(x.shape, strides, dtype=x.dtype, device=device)
        inputs.append(static.copy_(x)) # also what the graph is measured with
    args, kwargs = arguments(with_tensors(example, iter(inputs)))
    forget_workspaces(torch)
    torch.cuda.synchronize(gpu)
    graph, pool = torch.cuda.CUDAGraph(keep_graph=True), torch.cuda.graph_pool_handle()
    collecting = gc.isenabled()
    gc.disable() # a destructor could call CUDA during the capture
    try:
        with torch.cuda.stream(stream):
            # Any exception up to the end of the capture aborts it: capture_end raises where forward
            # has not joined a stream, and Ctrl-C is raised between any two calls.
            try:
                with launch_elsewhere(torch, gpu):
                    graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                answer = module(*args, **kwargs)
                # Without the autograd graph, which would live as long as the outputs.
                outputs = [x.detach() if is_dense(x) else x.detach().contiguous()
                           for x in tensors_of(answer)]
                graph.capture_end()
            except BaseException:
                give_up(torch, graph, pool, gpu)
                raise
    finally:
        if collecting:
            gc.enable()
        forget_workspaces(torch)
    if not outputs or not all(x.is_cuda for x in outputs):
        raise GschedError(f"{name}: its answer holds "
                          f"{'a tensor on the host' if outputs else 'no tensor'}, expected tensors "
                          "on the GPU")
    try:
        return Instance(graph, inputs, outputs, with_tensors(answer, iter(outputs)))
    except GschedError as e:
        raise GschedError(f"{name}: its answer: {e}") from None


@contextlib.contextmanager
def without_cast_cache(torch: Any) -> Iterator[None]:
    """A context in which autocast casts weights anew in each call, within the graph. Otherwise autocast
    frees its copies when it ends, and a graph that was captured before would read freed memory."""
    enabled = torch.is_autocast_cache_enabled()
    torch.clear_autocast_cache()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(enabled)
        torch.clear_autocast_cache()


def capture(module: Any, example_input: Any, instances: int | None = None, name: str | None = None,
            gpu: int = 0, warm_up: int = 3, training: bool = False,
            parameters: Any = ()) -> Captured:
    """Capture a module, or another callable, as CUDA graphs.

    A module is moved to the GPU and set to ``eval()``, and runs in inference mode.

    Parameters
    ----------
    module : torch.nn.Module or callable
        What to capture. If it draws random numbers it draws the same ones in each request.
    example_input : object
        A tensor, a tuple or list of positional arguments, or a dict of keyword arguments, nested as
        needed. Requests have inputs of the same structure, shapes and types. Values that are not
        tensors are part of the graph: a request with another value is refused.
    instances : int, optional
        Graphs to capture, each with memory of its own; so many requests run at once. None is 1 for
        a module that writes state, and 2 otherwise.
    name : str, optional
        Its name; None is that of the module.
    gpu : int
        The number of the GPU.
    warm_up : int
        Runs before the capture, one at least, on the default stream (launches on further streams
        would make every graph of the process slower; see `leave_slow_side`).
    training : bool
        Whether this is a training step, see the notes.
    parameters : object
        With `training`: tensors, modules and optimizers that the callable writes and that cannot be
        reached from it.

    Returns
    -------
    Captured
        The graphs, for `Server.add_model`.

    Raises
    ------
    GschedError
        If torch sees no GPU, the example or the output holds no tensor, or several instances would
        share state. An exception of the module during the capture is passed on.

    Notes
    -----
    *State.* During the last warm-up run it is noted which memory from before the call is read and
    written (`Captured.reads`, `Captured.writes`): a static cache, batch-norm statistics in train
    mode. Such a model has one instance, as two would share its state, and models that share written
    state exclude one another on a server. The warm-up runs write that state too: set it in place, by
    ``copy_()``, before the first request. Writes of kernels that torch does not launch (Triton,
    extensions without a schema) are not found.

    *Training.* With `training` the module keeps its mode, gradients are on, and inference mode is
    off: for a function ``step(x, y)`` that runs forward, backward and ``optimizer.step()``. It needs

    - gradients made anew by each call: ``optimizer.zero_grad(set_to_none=True)`` before backward;
    - an optimizer that keeps no state on the host: SGD, or ``capturable=True`` where there is a
      choice;
    - no autograd graph that outlives the call: it returns ``loss.detach()``, and stores no loss;
    - no read of a value on the host, such as ``loss.item()`` or the check of a gradient scaler.

    Warm-up runs are steps too, so load the initial weights, in place, after the capture. Accesses of
    backward and of other threads are not found, so all parameters, buffers, gradients and optimizer
    state that can be reached from the callable count as written: through its closure, globals that it
    names, attributes, and `parameters`.
    """
    import torch

    if not torch.cuda.is_available():
        raise GschedError("torch sees no GPU, expected one", 2)
    if instances is not None and instances < 1:
        raise GschedError(f"instances: {instances}, expected at least 1")
    if not tensors_of(example_input):
        raise GschedError("example_input: no tensor in it, expected one at least")
    name = name or getattr(module, "__name__", None) or type(module).__name__
    name_in_c("name", name)
    mode = torch.enable_grad() if training else torch.inference_mode()
    with capturing.hold(), torch.cuda.device(gpu), mode, without_cast_cache(torch):
        if hasattr(module, "eval") and not training:
            module.eval()
        if hasattr(module, "to"):
            with torch.inference_mode(False): # what is moved within it is never written again outside
                module.to(torch.device("cuda", gpu))
        if gpu not in capture_streams:
            capture_streams[gpu] = torch.cuda.Stream(gpu)
        with torch.cuda.stream(torch.cuda.default_stream(gpu)):
            on_gpu = [x.to(torch.device("cuda", gpu)) for x in tensors_of(example_input)]
            args, kwargs = arguments(with_tensors(example_input, iter(on_gpu)))
            for _ in range(warm_up - 1):
                module(*args, **kwargs)
                torch.clear_autocast_cache()
            with noting(torch, on_gpu) as accesses:
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
                all_of_them.append(capture_one(torch, module, example_input, gpu,
                                                capture_streams[gpu], name))
                torch.clear_autocast_cache()
            torch.cuda.synchronize(gpu)
            if training: # now, as gradients are in the graph's memory
                accesses.add_reachable(torch, module, parameters)
    example = example_input if not isinstance(example_input, list) else tuple(example_input)
    return Captured(name, gpu, example, all_of_them, module, accesses)
