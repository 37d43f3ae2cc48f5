# SPDX-License-Identifier: Apache-2.0
"""Clients over gRPC, by the Open Inference Protocol."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import math
import os
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Never

from ._abi import BAD_ARGUMENT, CLOSED, GschedError
from ._nesting import tensors_of, with_tensors
from ._open_inference import SERVICE, InvalidTensor, bytes_of, message_classes, tensor_types

if TYPE_CHECKING:
    from types import TracebackType

    from ._future import Future
    from ._model import Model
    from ._server import Server

_MOST_DEADLINE = 3600.0
_AROUND_TENSORS = 1 << 20 # bytes of a message beside its tensors


class _Refusal(Exception):
    """Ends a call: a status of gRPC by its name, one line, and seconds after which it may fare better."""

    def __init__(self, status: str, line: str, retry_after: float = 0.0) -> None:
        super().__init__(line)
        self.status, self.line, self.retry_after = status, line, retry_after


class _Offer:
    """A model as clients know it."""

    def __init__(self, name: str, model: Model) -> None:
        first = model.captured.instances[0]
        self.name, self.model, self.answer = name, model, first.answer
        self.likes = first.inputs
        try:
            self.inputs = tensor_types("input", first.inputs)
            self.outputs = tensor_types("output", first.outputs)
        except InvalidTensor as e:
            raise GschedError(f"{name}: {e}", BAD_ARGUMENT) from None


class _Terms:
    """What a request asks for beside its tensors, under the names of `gsched_server`."""

    def __init__(self) -> None:
        self.tenant, self.real_time = "", False
        self.deadline: float | None = None

    def limit(self, seconds: float | None) -> None:
        if seconds is not None:
            self.deadline = seconds if self.deadline is None else min(self.deadline, seconds)

    def set(self, name: str, value: Any) -> None:
        def refuse(expected: str) -> Never:
            raise _Refusal("INVALID_ARGUMENT", f"parameter {name}: {value!r}, expected {expected}")

        if name == "tenant":
            if not isinstance(value, str) or not 1 <= len(value.encode()) <= 256:
                refuse("a name of 1 to 256 bytes")
            self.tenant = value
        elif name == "priority":
            if value not in ("real_time", "best_effort"):
                refuse("real_time or best_effort")
            self.real_time = value == "real_time"
        elif name == "real_time":
            if not isinstance(value, bool):
                refuse("true or false")
            self.real_time = value
        elif name == "deadline_ms":
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1e3 * _MOST_DEADLINE:
                refuse("milliseconds above 0, at most 3.6e6")
            self.limit(value / 1e3)

    def set_metadata(self, name: str, value: Any) -> None:
        if not name.startswith("gsched-") or not isinstance(value, str):
            return
        name = name.removeprefix("gsched-").replace("-", "_")
        read: Any = value
        if name == "real_time":
            read = {"true": True, "false": False}.get(value, value)
        elif name == "deadline_ms":
            with contextlib.suppress(ValueError):
                read = float(value)
        self.set(name, read)


def _varint(n: int) -> bytes:
    out = b""
    while n >= 0x80:
        out, n = out + bytes([0x80 | n & 0x7f]), n >> 7
    return out + bytes([n])


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value) if value else b""
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _retry_details(code: int, line: str, seconds: float) -> bytes:
    """A google.rpc.Status with a google.rpc.RetryInfo."""
    delay = _field(1, int(seconds)) + _field(2, int(seconds % 1 * 1e9))
    info = _field(1, b"type.googleapis.com/google.rpc.RetryInfo") + _field(2, _field(1, delay))
    return _field(1, code) + _field(2, line.encode()) + _field(3, info)


class GrpcEndpoint:
    """An address on which clients submit to a server over gRPC, made by `Server.listen_grpc`.

    They speak the Open Inference Protocol (KServe v2). As a context manager it closes at the end of its block. It closes with its server, too.

    Attributes
    ----------
    address : str
        Where it listens: ``unix:PATH`` or ``HOST:PORT``, with the port that it has.
    """

    address: str

    def __init__(self, server: Server, address: str, tenants: Mapping[str, float] | None, requests: int,
                 message_bytes: int) -> None:
        try:
            import grpc.aio
            import google.protobuf # noqa: F401
        except ImportError as e:
            raise GschedError(f"{(e.name or 'grpc').split('.')[0]}: not installed, expected grpcio and protobuf for gRPC "
                              f"(pip install gsched[grpc])", BAD_ARGUMENT) from None
        if not isinstance(requests, int) or requests < 1:
            raise GschedError(f"requests: {requests!r}, expected a number from 1", BAD_ARGUMENT)
        if not isinstance(message_bytes, int) or not 1 <= message_bytes < (1 << 31) - _AROUND_TENSORS:
            raise GschedError(f"message_bytes: {message_bytes!r}, expected 1 to 2 GiB less 1 MiB", BAD_ARGUMENT)
        self._grpc, self._server, self._requests = grpc, weakref.ref(server), requests
        self._clients = {name: server.add_client(weight) for name, weight in (tenants or {}).items()}
        self._classes = message_classes()
        self._offers: dict[str, _Offer] = {}
        self._in_service = 0 # of the loop's thread alone
        self._accepts = True
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gsched grpc", daemon=True)
        self._thread.start()
        try:
            self.address = self._on_loop(self._open(address, message_bytes + _AROUND_TENSORS))
        except BaseException:
            self._end_thread()
            raise
        server._state.endpoints.append(self)

    def __enter__(self) -> GrpcEndpoint:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def offer(self, model: Model, name: str | None = None) -> None:
        """Let clients ask for a model of the server.

        Parameters
        ----------
        model : Model
            The model. Its tensors are called ``input`` and ``output``, or ``input_0``, ``input_1`` and
            so on where there are several, and have the shapes of the example.
        name : str, optional
            What clients call it; None is its own name.

        Raises
        ------
        GschedError
            If it is another server's, the name was offered before, or a tensor has a type that the
            protocol does not have.
        """
        server = self._server()
        if server is None or model._state is not server._state:
            raise GschedError(f"{model.name}: another server's model, expected one of this one's",
                              BAD_ARGUMENT)
        name = model.name if name is None else name
        if not name or len(name.encode()) > 256:
            raise GschedError(f"offer: {name!r}, expected a name of 1 to 256 bytes", BAD_ARGUMENT)
        if self._offers.setdefault(name, offer := _Offer(name, model)) is not offer:
            raise GschedError(f"offer: \"{name}\" was offered already, expected another name", BAD_ARGUMENT)

    def withdraw(self, model: Model) -> None:
        """Refuse further requests for a model, as before `Model.remove`.

        Parameters
        ----------
        model : Model
            One that was offered.

        Raises
        ------
        GschedError
            If it was not offered.
        """
        names = [name for name, offer in list(self._offers.items()) if offer.model is model]
        for name in names:
            self._offers.pop(name, None)
        if not names:
            raise GschedError(f"{model.name}: not offered, expected a model that is", BAD_ARGUMENT)

    def stop_accepting(self) -> None:
        """Refuse further requests as unavailable; health checks and ``ServerReady`` say so."""
        self._accepts = False

    def close(self, timeout: float = 5.0) -> None:
        """Refuse further calls, and end.

        Parameters
        ----------
        timeout : float
            Seconds that calls under way may take until they are cancelled.
        """
        self._accepts = False
        if os.getpid() != self._process:
            return
        if threading.current_thread() is self._thread: # the server's last reference went there
            self._loop.create_task(self._listener.stop(0))
            return
        with contextlib.suppress(RuntimeError): # closed by another thread meanwhile
            self._on_loop(self._listener.stop(timeout))
        self._end_thread()

    # The loop's thread ----------------------------------------------------------------------------

    def _on_loop(self, work: Any) -> Any:
        try:
            running = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise
        return running.result()

    def _end_thread(self) -> None:
        with contextlib.suppress(RuntimeError): # closed by another thread meanwhile
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        if not self._loop.is_closed():
            self._loop.close()

    async def _open(self, address: str, most_bytes: int) -> str:
        grpc = self._grpc
        self._listener = grpc.aio.server(options=[("grpc.max_receive_message_length", most_bytes),
                                                  ("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)])
        classes = self._classes

        def unary(call: Callable[..., Any], name: str) -> Any:
            return grpc.unary_unary_rpc_method_handler(
                call, classes[f"{name}Request"].FromString, classes[f"{name}Response"].SerializeToString)

        methods = {name: unary(getattr(self, f"_{name}"), name) for name in (
            "ServerLive", "ServerReady", "ServerMetadata", "ModelReady", "ModelMetadata", "RepositoryIndex",
            "ModelInfer")}
        methods["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(
            self._ModelStreamInfer, classes["ModelInferRequest"].FromString,
            classes["ModelStreamInferResponse"].SerializeToString)
        health = {"Check": grpc.unary_unary_rpc_method_handler(self._check_health)} # bytes as they are
        self._listener.add_generic_rpc_handlers((
            grpc.method_handlers_generic_handler(SERVICE, methods),
            grpc.method_handlers_generic_handler("grpc.health.v1.Health", health)))
        try:
            port = self._listener.add_insecure_port(address)
        except RuntimeError:
            port = 0
        if port == 0:
            await self._listener.stop(0)
            raise GschedError(f"{address}: gRPC cannot listen there, expected unix:PATH or HOST:PORT that is free",
                              BAD_ARGUMENT)
        await self._listener.start()
        return address if address.startswith("unix:") else f"{address.rpartition(':')[0]}:{port}"

    @property
    def _ready(self) -> bool:
        server = self._server()
        return self._accepts and server is not None and not server._state.closed

    async def _check_health(self, request: bytes, context: Any) -> bytes:
        return b"\x08\x01" if self._ready else b"\x08\x02"

    async def _ServerLive(self, request: Any, context: Any) -> Any:
        return self._classes["ServerLiveResponse"](live=True)

    async def _ServerReady(self, request: Any, context: Any) -> Any:
        return self._classes["ServerReadyResponse"](ready=self._ready)

    async def _ServerMetadata(self, request: Any, context: Any) -> Any:
        from . import __version__
        return self._classes["ServerMetadataResponse"](name="gsched", version=__version__,
                                                       extensions=["model_repository"])

    async def _ModelReady(self, request: Any, context: Any) -> Any:
        await self._found(request, context)
        return self._classes["ModelReadyResponse"](ready=self._ready)

    async def _ModelMetadata(self, request: Any, context: Any) -> Any:
        offer = await self._found(request, context)
        out = self._classes["ModelMetadataResponse"](name=offer.name, versions=["1"], platform="pytorch_cuda_graph")
        for to, types in ((out.inputs, offer.inputs), (out.outputs, offer.outputs)):
            for t in types:
                to.add(name=t.name, datatype=t.datatype, shape=t.shape)
        out.properties["instances"] = str(offer.model.instances)
        out.properties["gpu"] = str(offer.model.captured.gpu)
        return out

    async def _RepositoryIndex(self, request: Any, context: Any) -> Any:
        out = self._classes["RepositoryIndexResponse"]()
        ready = self._ready
        for name in sorted(self._offers) if ready or not request.ready else ():
            out.models.add(name=name, version="1", state="READY" if ready else "UNAVAILABLE",
                           reason="" if ready else "the server shuts down")
        return out

    async def _found(self, request: Any, context: Any) -> _Offer:
        try:
            return self._find(request.name, request.version)
        except _Refusal as e:
            await self._abort(context, e)
            raise

    async def _abort(self, context: Any, why: _Refusal) -> None:
        status = getattr(self._grpc.StatusCode, why.status)
        if why.retry_after > 0:
            details = _retry_details(status.value[0], why.line, why.retry_after)
            context.set_trailing_metadata((("grpc-status-details-bin", details),))
        await context.abort(status, why.line)

    def _find(self, name: str, version: str) -> _Offer:
        offer = self._offers.get(name)
        if offer is None:
            raise _Refusal("NOT_FOUND", f"model \"{name}\": unknown, expected one of the repository's index")
        if version not in ("", "1"):
            raise _Refusal("NOT_FOUND", f"model \"{name}\": version \"{version}\", expected 1")
        return offer

    # Requests -------------------------------------------------------------------------------------

    async def _ModelInfer(self, request: Any, context: Any) -> Any:
        try:
            return await self._infer(request, context)
        except _Refusal as e:
            await self._abort(context, e)

    async def _ModelStreamInfer(self, requests: Any, context: Any) -> Any:
        """Responses come as their requests end; a request that fails has a line in its place."""
        answers: asyncio.Queue[Any] = asyncio.Queue()
        running: set[asyncio.Task[None]] = set()

        async def one(request: Any) -> None:
            out = self._classes["ModelStreamInferResponse"]()
            try:
                out.infer_response.CopyFrom(await self._infer(request, context))
            except _Refusal as e:
                out.infer_response.id, out.error_message = request.id, e.line
            await answers.put(out)

        async def read() -> None:
            async for request in requests:
                task = asyncio.ensure_future(one(request))
                running.add(task)
                task.add_done_callback(running.discard)
            await asyncio.gather(*running)
            await answers.put(None)

        reader = asyncio.ensure_future(read())
        try:
            while (out := await answers.get()) is not None:
                yield out
        finally:
            for task in (reader, *running):
                task.cancel()

    async def _infer(self, request: Any, context: Any) -> Any:
        offer, given, terms = self._decoded(request, context)
        if self._in_service >= self._requests:
            raise _Refusal("RESOURCE_EXHAUSTED", f"{self._requests} requests are in service, expected fewer", 0.01)
        server = self._server()
        if not self._ready or server is None:
            raise _Refusal("UNAVAILABLE", "the server shuts down, expected another one", 1.0)
        self._in_service += 1
        try:
            future = self._submit(server, offer, given, terms)
            del server # a call does not keep it open
            return self._response(request, offer, future, await self._result(future))
        finally:
            self._in_service -= 1

    def _decoded(self, request: Any, context: Any) -> tuple[_Offer, list[bytes], _Terms]:
        offer, terms = self._find(request.model_name, request.model_version), _Terms()
        for name, value in context.invocation_metadata() or ():
            terms.set_metadata(name, value)
        for name, parameter in request.parameters.items():
            kind = parameter.WhichOneof("parameter_choice")
            terms.set(name, None if kind is None else getattr(parameter, kind))
        left = context.time_remaining()
        if left is not None and left < _MOST_DEADLINE:
            terms.limit(max(left, 1e-6))
        raws, types = list(request.raw_input_contents), {t.name: i for i, t in enumerate(offer.inputs)}
        if raws and len(raws) != len(request.inputs):
            raise _Refusal("INVALID_ARGUMENT", f"raw_input_contents: {len(raws)} of them, expected one for each of "
                                               f"{len(request.inputs)} inputs")
        found: list[bytes | None] = [None] * len(offer.inputs)
        for i, one in enumerate(request.inputs):
            at = types.get(one.name)
            if at is None or found[at] is not None:
                raise _Refusal("INVALID_ARGUMENT", f"input \"{one.name}\": " + (
                    f"unknown, expected {' or '.join(types) or 'none'}" if at is None else "there twice, expected once"))
            try:
                found[at] = offer.inputs[at].contents(one, raws[i] if raws else None)
            except InvalidTensor as e:
                raise _Refusal("INVALID_ARGUMENT", str(e)) from None
        for t, raw in zip(offer.inputs, found):
            if raw is None:
                raise _Refusal("INVALID_ARGUMENT", f"input \"{t.name}\": missing, expected it")
        outputs = {t.name for t in offer.outputs}
        for asked in request.outputs:
            if asked.name not in outputs:
                raise _Refusal("INVALID_ARGUMENT", f"output \"{asked.name}\": unknown, expected one of the model's")
        return offer, [raw for raw in found if raw is not None], terms

    def _submit(self, server: Server, offer: _Offer, given: list[bytes], terms: _Terms) -> Future:
        import torch

        inputs = []
        for t, raw in zip(offer.inputs, given):
            strides = [math.prod(t.shape[i + 1:]) for i in range(len(t.shape))]
            made = torch.empty_strided(t.shape, strides, dtype=t.dtype, pin_memory=True)
            ctypes.memmove(made.data_ptr(), raw, len(raw))
            inputs.append(made)
        try:
            return server.submit(offer.model, with_tensors(offer.model.captured.example, inputs) if inputs else None,
                                 client=self._clients.get(terms.tenant), deadline=terms.deadline,
                                 real_time=terms.real_time)
        except GschedError as e:
            raise _Refusal("UNAVAILABLE" if e.code == CLOSED else "INTERNAL", str(e),
                           1.0 if e.code == CLOSED else 0.0) from None

    @staticmethod
    async def _result(future: Future) -> Any:
        """The tensors of the outputs. If the call is cancelled, so is the request."""
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            why = future.report
            raise _Refusal("UNAVAILABLE" if why["code"] == CLOSED else "CANCELLED",
                           why["error"] or "cancelled by the server") from None
        except GschedError as e:
            raise _Refusal("DEADLINE_EXCEEDED" if future.state == "rejected" else "INTERNAL", str(e)) from None

    def _response(self, request: Any, offer: _Offer, future: Future, answer: Any) -> Any:
        out = self._classes["ModelInferResponse"](model_name=offer.name, model_version="1", id=request.id)
        report = future.report
        out.parameters["latency_us"].int64_param = math.ceil(report["latency"] * 1e6)
        out.parameters["wait_us"].int64_param = math.ceil(max(report["start"] - report["arrival"], 0.0) * 1e6)
        asked = {one.name for one in request.outputs}
        for t, tensor in zip(offer.outputs, tensors_of(answer)):
            if not asked or t.name in asked:
                out.outputs.add(name=t.name, datatype=t.datatype, shape=t.shape)
                out.raw_output_contents.append(bytes_of(tensor))
        return out
