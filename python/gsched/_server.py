# SPDX-License-Identifier: Apache-2.0
"""Servers."""

import atexit
import contextlib
import threading
import weakref

from . import _abi
from ._abi import (CANCEL, DEVICE_FAILED, DRAIN, GschedError, check, gsched_buffer,
                   gsched_instance, gsched_model, gsched_request, gsched_server_options,
                   gsched_statistics, load_library, pointer, u32)
from ._capture import Captured, capture
from ._future import Future
from ._model import Model
from ._nesting import shape_of, tensors_of, with_tensors
from ._state import State, keep_for_good


def sent(torch, x, like):
    """A tensor with the strides of `like` that a request can read: x itself, or a copy. Copies from
    pinned memory and on the GPU are made by torch's current stream, and need not have ended."""
    direct = x.is_cuda or x.is_pinned()
    if direct and x.stride() == like.stride():
        return x
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


servers = weakref.WeakSet()


@atexit.register
def close_all():
    for server in list(servers):
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
        check(library.gsched_default_options(said))
        known = [name for name, _ in said._fields_ if name not in ("size", "gpu", "policy")]
        said.gpu, said.policy = gpu, policy.encode()
        for name, value in options.items():
            if name not in known:
                raise GschedError(f'option "{name}", expected one of {", ".join(known)}')
            try:
                setattr(said, name, tuple(value) if name.endswith("_sms") else value)
            except (TypeError, RuntimeError):
                raise GschedError(f"{name}: {value!r}, expected a number") from None
        handle = pointer()
        check(library.gsched_server_open(said, handle))
        self.policy, self.gpu = policy, gpu
        self._state = State(handle.value, gpu)
        self._release = weakref.finalize(self, self._state.release)
        self._release.atexit = False # close_all closes; memory may go with the process
        servers.add(self)
        self._first_clients = []

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.close(cancel=kind is not None)

    def add_client(self, weight=1.0):
        """A tenant, as a number for submit(); its share is relative to the others' weights."""
        self._state.refuse_child()
        client = u32()
        check(_abi.library.gsched_add_client(self._state.handle, weight, client))
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
                              f"a model's capture would wait for it", DEVICE_FAILED)
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
            what.excludes, what.excludes_count = (u32 * len(others))(*others), len(others)
            index = u32()
            entry = [captured, None]
            state.models.append(entry) # before: its memory is used from now on
            try:
                check(_abi.library.gsched_add_model(state.handle, what, index))
            except GschedError as e:
                if e.code == DEVICE_FAILED: # a kernel that was measured may hang and use it still
                    keep_for_good(captured)
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
            copies = [sent(torch, x, like) for x, like in zip(given, first.inputs)]
            got, fresh = self._received(torch, captured, first, outputs)
            awaited = None
            if (orders or any(x.is_cuda or x.is_pinned() for x in given)
                    or any(x.is_cuda for x in got)
                    or (not fresh and any(x.is_pinned() for x in got))):
                awaited = self._recorded(torch, captured, stream)
            if signal is not None and not signal.cuda_event:
                signal.record(stream) # torch makes an event when it is recorded first
        answer = with_tensors(first.answer, iter(got)) if got else None
        request = gsched_request(
            model=model.index, client=client, real_time=int(real_time), arrival_ns=arrival_ns,
            deadline_us=0.0 if deadline is None else deadline * 1e6,
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

    def close(self, cancel=False, timeout=None):
        """Takes no more requests and ends those there are: serves them, for `timeout` seconds at
        most, or cancels what is not on the GPU. Ctrl-C, or whatever else a signal handler raises,
        cancels what is left and comes out. Another call meanwhile, close(cancel=True) on another
        thread say, ends the first one sooner; to close again later does nothing."""
        state = self._state
        if state.closed or not state.is_here():
            return
        if cancel:
            state.close(CANCEL, 0.0)
            return
        failed = []

        def drain(): # refers to the server, which is released after this call of the library
            try:
                self._state.close(DRAIN, timeout)
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
                state.close(CANCEL, 0.0)
            raise
        if failed:
            raise failed.pop()

    def statistics(self):
        """What gsched_statistics holds, as a dict; also when it is closed."""
        self._state.refuse_child()
        said = gsched_statistics()
        check(_abi.library.gsched_get_statistics(self._state.handle, said))
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
