# SPDX-License-Identifier: Apache-2.0
"""The server."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Never, Unpack

from . import _abi
from ._abi import (CANCEL, DEVICE_FAILED, DRAIN, GschedError, check, expected_instead, f64, facts_of,
                   gsched_buffer, gsched_instance, gsched_model, gsched_request,
                   gsched_server_options, gsched_statistics, i32, last_line_in_seconds, load_library,
                   moment_in_c, name_in_c, number_in_c, pointer, u32)
from ._capture import Captured, Instance, capture
from ._channel import Channel
from ._future import Future
from ._model import Model
from ._nesting import shape_of, tensors_of, with_tensors
from ._options import ServerOptions, put_options
from ._pinned import result_like
from ._state import State, keep_for_good

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    import torch as _torch

    from ._grpc import GrpcEndpoint


def sent(torch: Any, x: Any, like: Any, direct: bool) -> Any:
    """A tensor with the strides of `like` that a request can read: x itself, or a copy. x is `direct` on
    the GPU and in pinned memory: copies from there are made by torch's current stream, and need not have
    ended."""
    if direct and x.stride() == like.stride():
        return x
    if x.requires_grad:
        x = x.detach()
    made = torch.empty_strided(like.shape, like.stride(), dtype=x.dtype,
                               **({"device": like.device} if direct else {"pin_memory": True}))
    if direct and not x.is_cuda:
        # torch would read pinned memory with other strides on the host, before copies into it end.
        span = 1 + sum((n - 1) * stride for n, stride in zip(x.shape, x.stride()))
        flat = torch.empty_strided((span,), (1,), dtype=x.dtype, device=like.device)
        flat.copy_(x.as_strided((span,), (1,)), non_blocking=True)
        x = flat.as_strided(x.shape, x.stride())
    return made.copy_(x)


servers: weakref.WeakSet[Server] = weakref.WeakSet()


@atexit.register
def close_all() -> None:
    for server in list(servers):
        with contextlib.suppress(Exception):
            server.close(cancel=True, timeout=0.0)
            server._state.wait_for_callbacks(1.0)


class Server:
    """A GPU and the thread that schedules it.

    As a context manager it closes at the end of its block: it serves its pending requests, or cancels
    them if the block ends by an exception. Dropping the last reference cancels them, too.

    Parameters
    ----------
    policy : str
        The order of requests: ``boost``, ``boost:FACTOR`` (1 favours the tail of latency, the default
        0.3 balances mean and tail), ``srpt``, ``sjf``, ``fifo``, ``rr``, ``edf``, ``deficit`` or
        ``srpt+deficit``; the last two share the GPU by the clients' weights. For
        comparison: ``direct``, whole graphs on a stream per client, and ``single``, whole graphs on
        one stream.
    gpu : int
        The number of the GPU, as CUDA's runtime counts.
    **options : ServerOptions
        Further options, times in seconds: `lanes`, `quantum`, `real_time_lanes` and others.

    Attributes
    ----------
    policy : str
        The parameter `policy`.
    gpu : int
        The parameter `gpu`.

    Raises
    ------
    GschedError
        If there is no library, no such GPU, or no such policy or option, or a value is out of range.

    Notes
    -----
    With `lanes` 8 there are 120 spare lanes beside them, so up to 128 small requests run at once.
    With another number of lanes, and with `real_time_lanes`, there are none: with ``lanes=1`` no two
    segments run at the same time. With `real_time_lanes` of 1 or more, requests submitted with
    `real_time` preempt the others, which stop between two kernels and resume there when the
    real-time requests have ended.
    """

    policy: str
    gpu: int
    _needs_inputs = False # else None keeps those of the instance

    def __init__(self, policy: str = "boost", gpu: int = 0, **options: Unpack[ServerOptions]) -> None:
        library = load_library()
        said = gsched_server_options()
        check(library.gsched_default_options(said))
        said.gpu, said.policy = number_in_c("gpu", gpu, i32), name_in_c("policy", policy)
        put_options(said, dict(options))
        handle = pointer()
        code = library.gsched_server_open(said, handle)
        if code != _abi.OK:
            raise GschedError(last_line_in_seconds(), code)
        self._take(handle, policy, gpu)

    def _take(self, handle: Any, policy: str, gpu: int) -> None:
        """Owns a server of the library."""
        self.policy, self.gpu = policy, gpu
        self._state = State(handle.value, gpu)
        self._release = weakref.finalize(self, self._state.release)
        self._release.atexit = False # close_all closes; memory may go with the process
        servers.add(self)
        self._first_clients: list[int] = []

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close(cancel=kind is not None)

    def add_client(self, weight: float = 1.0) -> int:
        """Add a client, such as a tenant.

        Parameters
        ----------
        weight : float
            Its share of the GPU relative to the other clients', under the policies with deficit.

        Returns
        -------
        int
            A number for `submit`.

        Raises
        ------
        GschedError
            If the weight is not more than 0, or the server is closed.
        """
        self._state.refuse_child()
        client = u32()
        check(_abi.library.gsched_add_client(self._state.handle, number_in_c("weight", weight, f64), client))
        return client.value

    def add_model(self, torch_module: Any, example_input: Any = None, name: str | None = None,
                  instances: int | None = None, unmeasured: bool = False) -> Model:
        """Capture a module and add it. Requests of other models are served meanwhile.

        At most as many requests of the model run at once as it has instances. Requests of two models
        never run at once if one writes memory that the other uses (`Captured.writes`).

        Parameters
        ----------
        torch_module : torch.nn.Module or callable or Captured
            What to serve; a module or callable is captured as by `capture`.
        example_input : object
            See `capture`; not with a `Captured`.
        name : str, optional
            Its name; None is that of the module.
        instances : int, optional
            See `capture`.
        unmeasured : bool
            Take all operations as equally long instead of measuring them.

        Returns
        -------
        Model
            The model, for `submit`.

        Raises
        ------
        GschedError
            If the module cannot be captured or scheduled, memory has run out, a kernel of this
            process hangs on the GPU, or the server is closed. An exception of the module during its
            capture is passed on.

        Notes
        -----
        The measurement replays the graph several times, on the memory that it reads and writes, while
        requests of other models run. It is exact if there are none. A model that writes state writes
        it then too, also where a served model reads or writes the same state: set that state again
        afterwards, in place. Or pass ``unmeasured=True``, which replays nothing. Add a model that
        shares state with a served one unmeasured, or while that one has no requests.
        """
        self._state.refuse_child()
        if self.statistics()["hanging"]:
            raise GschedError(f"a kernel of this process hangs on GPU {self.gpu}, expected none, as "
                              f"a model's capture would wait for it", DEVICE_FAILED)
        if isinstance(torch_module, Captured):
            captured = torch_module
            if captured.gpu != self.gpu:
                raise GschedError(f"{captured.name}: captured on GPU {captured.gpu}, expected "
                                  f"{self.gpu}, the server's")
        else:
            captured = capture(torch_module, example_input, instances, name, self.gpu)

        def buffers(tensors: list[Any]) -> Any:
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
                            name=name_in_c("name", name or captured.name), inputs=len(first.inputs),
                            outputs=len(first.outputs), unmeasured=int(unmeasured))
        state = self._state
        with state.adding.hold():
            others = [model.index for _, model in list(state.models)
                      if model is not None and captured.excludes(model.captured)]
            what.excludes, what.excludes_count = (u32 * len(others))(*others), len(others)
            index = u32()
            entry: list[Any] = [captured, None]
            state.models.append(entry) # before: its memory is used from now on
            try:
                check(_abi.library.gsched_add_model(state.handle, what, index))
            except GschedError as e:
                if e.code == DEVICE_FAILED: # a kernel that was measured may hang and use it still
                    keep_for_good(captured)
                state.models.remove(entry)
                raise
            model = entry[1] = Model(state, index.value, captured)
            return model

    def submit(self, model: Model, inputs: Any, client: int | None = None,
               deadline: float | None = None, outputs: Any = None, real_time: bool = False,
               arrival: float | None = None, stream: _torch.cuda.Stream | None = None,
               after: Future | None = None, signal: _torch.cuda.Event | None = None,
               **old: Never) -> Future:
        """Submit one request, without waiting for it.

        Parameters
        ----------
        model : Model
            A model of this server.
        inputs : object
            Inputs like the example's, on the host or the GPU. None keeps the instance's present inputs.
        client : int, optional
            Of `add_client`; None is the server's first one.
        deadline : float, optional
            Seconds after arrival.
        outputs : object, optional
            Where to write. None: new tensors in pinned memory; ``"cuda"``: new ones on the GPU;
            ``()``: nowhere; or tensors like the module's outputs, in its structure.
        real_time : bool
            Whether it runs before other requests, by deadline, and preempts them if the server has
            `real_time_lanes`.
        arrival : float, optional
            When it was due, in seconds of `time.monotonic`; None is now.
        stream : torch.cuda.Stream, optional
            The request starts once the work that this stream holds now has been done, see the notes.
        after : Future, optional
            A request of this server. This one starts once that one has finished, and is cancelled if
            that one ends otherwise.
        signal : torch.cuda.Event, optional
            Recorded at the end of the request: streams that wait for it after `submit` continue once the
            request has ended.

        Returns
        -------
        Future
            The request.

        Other Parameters
        ----------------
        **old
            Names with a unit, such as ``arrival_ns``, are refused with the name to use.

        Raises
        ------
        GschedError
            If an argument does not fit the model or the server, or the server is closed.

        Notes
        -----
        *Order.* An event is recorded on `stream`, and the request alone waits for it: `submit` never
        synchronises. So what made the inputs there, copies into pinned memory included, need not
        have ended, nor what set the model's state. Without `stream` it is torch's current stream, but
        only where tensors on the GPU or in pinned memory take part, `inputs` is None, or the model
        writes state: with inputs in pageable memory alone nothing is recorded. Order what is on other
        streams and threads yourself.

        *Memory.* Inputs on the GPU or in pinned memory are used where they are: until the request has
        ended, do not write to them, and do not use `outputs`. Those with other strides than the
        example's are copied on `stream` first. Inputs in pageable memory are copied at once. Drop a
        result that you are done with: its pinned memory is that of a later one. Results of up to 32 KiB
        share blocks of up to 64 KiB, which are kept as long as one of them is, and which ``torch.save``
        writes as a whole: clone what you keep for long. While results are kept new memory is pinned,
        which takes up to milliseconds, and no request can be launched meanwhile; so pass `outputs`, or
        ``"cuda"``, where you keep many, or have torch pin memory before:
        ``PYTORCH_CUDA_ALLOC_CONF=pinned_reserve_segment_size_mb:2048``, in MiB.

        *Times.* A time stamp is a float of seconds, exact to the nanosecond for 104 days after the
        machine has started.
        """
        import torch

        for name in old:
            raise GschedError(expected_instead(name) or f"submit: no argument {name}")
        state = self._state
        state.refuse_child()
        if model._state is not state:
            raise GschedError(f"{model.name}: another server's model, expected one of this one's")
        if after is not None and after._shared is not state:
            raise GschedError("after: a request of another server, expected one of this one's")
        client = self._default_client() if client is None else number_in_c("client", client, u32)
        if stream is not None and stream.device.index != self.gpu:
            raise GschedError(f"stream: of GPU {stream.device.index}, expected one of GPU {self.gpu}, "
                              "the server's")
        captured, first = model.captured, model.captured.instances[0]
        if inputs is None and self._needs_inputs:
            raise GschedError(f"{model.name}: no inputs, expected those of one request")
        given = [] if inputs is None else captured._checked(inputs)
        direct = [x.is_cuda or x.is_pinned() for x in given]
        orders = stream is not None or inputs is None or captured.writes or any(direct)
        with contextlib.nullcontext() if stream is None else torch.cuda.stream(stream):
            copies = [sent(torch, *each) for each in zip(given, first.inputs, direct)]
            got, fresh = self._received(torch, captured, first, outputs)
            orders = orders or any(x.is_cuda or (not fresh and x.is_pinned()) for x in got)
            unmade = signal is not None and not signal.cuda_event # torch makes it when it is recorded first
            if stream is None and (orders or unmade):
                stream = torch.cuda.current_stream(self.gpu)
            awaited = self._recorded(torch, captured, stream) if orders else None
            if signal is not None and unmade:
                signal.record(stream)
        answer = with_tensors(first.answer, iter(got)) if got else None
        request = gsched_request(
            model=model.index, client=client, real_time=int(real_time),
            arrival_ns=0 if arrival is None else moment_in_c("arrival", arrival),
            deadline_us=0.0 if deadline is None else number_in_c("deadline", deadline, f64, 1e6),
            inputs=(pointer * len(copies))(*[x.data_ptr() for x in copies]) if copies else None,
            outputs=(pointer * len(got))(*[x.data_ptr() for x in got]) if got else None,
            wait_event=None if awaited is None else awaited.cuda_event,
            signal_event=None if signal is None else signal.cuda_event,
            after=None if after is None else after._ticket)
        future = Future(state, model, copies, answer, (signal,), awaited)
        try:
            state.keep(future) # first: the GPU may use its memory also if submission raises
            check(_abi.library.gsched_submit(state.handle, request, future._ticket))
        finally:
            future._submitted = True
            if not future._ticket:
                state.forget(future)
        return future

    def listen(self, socket: str | os.PathLike[str], models: Iterable[Model] = (), *,
               mode: int | None = None, most_clients: int | None = None,
               in_flight: int | None = None, payload_bytes: int | None = None,
               rate: float | None = None, burst: float | None = None,
               weight: float | None = None) -> Channel:
        """Let other processes of this machine submit, as `Client`.

        Their inputs and outputs are in memory that they share with the server, which the GPU reads and
        writes by itself.

        Parameters
        ----------
        socket : str or os.PathLike
            A path, or ``@`` and a name without a file.
        models : iterable of Model
            What clients may ask for, by the models' names; `Channel.offer` adds others.
        mode : int, optional
            Of the socket's file: who may connect; 0o600, this user.
        most_clients : int, optional
            At once; 1024.
        in_flight : int, optional
            Requests of a client at once; 256. Beyond this and the other limits a request is refused.
        payload_bytes : int, optional
            Of a client's requests in flight; None is without limit.
        rate, burst : float, optional
            A client's requests a second, without limit if None, and at once; 64.
        weight : float, optional
            Of each client, as for `add_client`; 1.

        Returns
        -------
        Channel
            To offer further models, and to close it before the server.

        Raises
        ------
        GschedError
            If the socket is in use or cannot be made, or a limit is out of range.

        Notes
        -----
        A request of a client waits for no stream: what sets a model's state has to be done before.
        """
        channel = Channel(self._state, socket, {
            "mode": mode, "most_clients": most_clients, "in_flight": in_flight,
            "bytes": payload_bytes, "rate": rate, "burst": burst, "weight": weight})
        try:
            for model in models:
                channel.offer(model)
        except BaseException:
            channel.close()
            raise
        return channel

    def listen_grpc(self, address: str, models: Iterable[Model] = (), *,
                    tenants: Mapping[str, float] | None = None, requests: int = 256,
                    message_bytes: int = 64 << 20) -> GrpcEndpoint:
        """Let clients of the Open Inference Protocol (KServe v2) submit over gRPC.

        A request may name its ``tenant``, ``priority`` (``real_time`` or ``best_effort``) and
        ``deadline_ms`` among its parameters, or as metadata ``gsched-tenant``, ``gsched-priority`` and
        ``gsched-deadline-ms``; gRPC's own deadline counts, too.

        Parameters
        ----------
        address : str
            ``unix:PATH`` or ``HOST:PORT``; port 0 is a free one.
        models : iterable of Model
            What clients may ask for, by the models' names; `GrpcEndpoint.offer` adds others.
        tenants : mapping, optional
            The weights of tenants by name, as for `add_client`. Requests of other tenants, and of none,
            are those of the server's first client.
        requests : int
            In service at once; further ones end as RESOURCE_EXHAUSTED.
        message_bytes : int
            Of the tensors of one request.

        Returns
        -------
        GrpcEndpoint
            To offer further models; it closes with the server.

        Raises
        ------
        GschedError
            If grpcio or protobuf is not installed, gRPC cannot listen there, or an argument is out of
            range.

        Notes
        -----
        There is no encryption, and a request is believed what it says of its tenant: put a proxy before
        a TCP address that others can reach.
        """
        from ._grpc import GrpcEndpoint

        self._state.refuse_child()
        endpoint = GrpcEndpoint(self, address, tenants, requests, message_bytes)
        try:
            for model in models:
                endpoint.offer(model)
        except BaseException:
            endpoint.close()
            raise
        return endpoint

    def close(self, cancel: bool = False, timeout: float | None = None) -> None:
        """Accept no more requests, and end the pending ones. Closing again does nothing.

        Ctrl-C, or another exception of a signal handler, cancels the remaining requests and is passed
        on. A concurrent call, such as ``close(cancel=True)`` on another thread, ends the first one sooner.

        Parameters
        ----------
        cancel : bool
            Whether to cancel the requests that are not on the GPU. Callbacks of cancelled requests may
            run after the call. If False the requests are served, and their callbacks have returned
            after the call.
        timeout : float, optional
            Seconds that the requests may take before they are cancelled, and that their callbacks
            may take; None is without limit.

        Raises
        ------
        GschedError
            If the GPU has failed or the driver did not come back.
        """
        state = self._state
        if state.closed or not state.is_here():
            return
        if cancel:
            state.close(CANCEL, 0.0)
            return
        failed: list[BaseException] = []

        def drain() -> None: # refers to the server, which is released after this call of the library
            try:
                self._state.close(DRAIN, timeout)
            except BaseException as e:
                failed.append(e)

        # On a thread of its own, since no signal is handled during a call of the library.
        thread = threading.Thread(target=drain, name="gsched drain", daemon=True)
        try:
            try:
                thread.start()
            except RuntimeError: # none starts while the interpreter ends
                drain()
            while thread.is_alive():
                thread.join(0.2)
            until = None if timeout is None else time.monotonic() + timeout
            while not state.left_behind and not state.wait_for_callbacks(0.2):
                if until is not None and time.monotonic() >= until:
                    break
        except BaseException:
            with contextlib.suppress(GschedError):
                state.close(CANCEL, 0.0)
            raise
        if failed:
            raise failed.pop()

    def statistics(self) -> dict[str, Any]:
        """Return the server's counters since it was opened; also when it is closed.

        Returns
        -------
        dict
            Requests: ``submitted``, of which ``active``, ``finished``, ``failed``, ``rejected`` and
            ``cancelled``. Work: ``decisions``, ``segments``, ``operations``, ``graph_launches``,
            ``built_late``. The dispatcher's thread, in seconds: ``host``, and ``driver`` of that
            with `time_driver`; the number of its ``sleeps``. Real-time requests: ``preemptions`` and
            ``restores``, and their times in seconds ``preempt_p50``, ``preempt_p99``,
            ``restore_p50`` and ``restore_p99``; ``expired_leases``, ``opened``,
            ``reserved_segments``, ``found_to_need_sms``. With `slow_downs`, choices of a request that
            had to wait, ``kept_apart``, and the time that requests waited, ``apart_wait``.
            ``hanging`` is 1 while a kernel of the process hangs. See ``gsched_statistics`` of ``gsched_c.h``.

        Raises
        ------
        GschedError
            In a child made by `fork()`, or if the server's thread was left behind in the driver.
        """
        self._state.refuse_child()
        said = gsched_statistics()
        check(_abi.library.gsched_get_statistics(self._state.handle, said))
        return facts_of(said)

    def _default_client(self) -> int:
        if not self._first_clients:
            self._first_clients.append(self.add_client()) # of threads at once the first one counts
        return self._first_clients[0]

    def _recorded(self, torch: Any, captured: Captured, stream: Any) -> Any:
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

    def _received(self, torch: Any, captured: Captured, first: Instance,
                  outputs: Any) -> tuple[list[Any], bool]:
        """The tensors to write to, and whether they are new."""
        if outputs is None or isinstance(outputs, str):
            if outputs not in (None, "cuda"):
                raise GschedError(f'outputs: "{outputs}", expected None, "cuda" or tensors')
            if outputs is None:
                return [result_like(torch, x, ready)
                        for x, ready in zip(first.outputs, captured._ready)], True
            return [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype,
                                        device=torch.device("cuda", self.gpu))
                    for x in first.outputs], True
        given = tensors_of(outputs)
        if isinstance(outputs, tuple) and not outputs:
            return [], True
        if len(given) != len(first.outputs):
            raise GschedError(f"{captured.name}: {len(given)} output tensors, expected "
                              f"{len(first.outputs)}")
        for i, (x, like) in enumerate(zip(given, first.outputs)):
            if (x.shape, x.dtype, x.stride()) != (like.shape, like.dtype, like.stride()):
                raise GschedError(f"{captured.name}: output {i} is {shape_of(x)}, expected "
                                  f"{shape_of(like)} with strides {list(like.stride())}")
            if x.is_cuda and x.get_device() != self.gpu:
                raise GschedError(f"{captured.name}: output {i} is on GPU {x.get_device()}, expected "
                                  f"the host or GPU {self.gpu}")
        return given, False
