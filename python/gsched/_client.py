# SPDX-License-Identifier: Apache-2.0
"""Clients of a server in another process of this machine."""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import ctypes
import dataclasses
import math
import operator
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Literal

from . import _client_abi as abi
from ._abi import GschedError, f64, name_in_c, path_in_c, shown, u32, u64
from ._client_future import ClientFuture
from ._client_state import Piece, connect, numpy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

clients: weakref.WeakSet[Client] = weakref.WeakSet()


@atexit.register
def close_all() -> None:
    for client in list(clients):
        with contextlib.suppress(Exception):
            client.close(cancel=True)


@dataclasses.dataclass(frozen=True)
class ClientModel:
    """A model that a server offers its clients, made by `Client.models`.

    Attributes
    ----------
    name : str
        Its name.
    id : int
        The server's number of it.
    input_bytes, output_bytes : int
        What a request brings, and what it gets.
    """

    name: str
    id: int
    input_bytes: int
    output_bytes: int


def _seconds(name: str, value: float) -> float:
    """A time in microseconds."""
    try:
        us = f64(value).value * 1e6
    except (TypeError, OverflowError):
        us = math.nan
    if not us >= 0:
        raise GschedError(f"{name}: {shown(value)}, expected seconds from 0", abi.BAD_ARGUMENT)
    return us


def _whole(name: str, value: int, bits: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number < 1 << bits:
        raise GschedError(f"{name}: {shown(value)}, expected a whole number from 0", abi.BAD_ARGUMENT)
    return number


def _bytes_of(array: Any) -> Any:
    """The bytes of an array or another buffer, in C's order, where it is or as a copy."""
    np = numpy()
    try:
        if np is not None and not isinstance(array, (bytes, bytearray, memoryview)):
            return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        view = memoryview(array)
        return view.cast("B") if view.c_contiguous and view.ndim > 0 else memoryview(view.tobytes())
    except (TypeError, ValueError) as e:
        raise GschedError(f"{type(array).__name__}: not an array of values, expected one: "
                          f"{str(e).splitlines()[0]}", abi.BAD_ARGUMENT) from None


def _address_of(view: Any) -> int:
    """Where writable bytes of _bytes_of are; 0 for others."""
    if isinstance(view, memoryview):
        if view.readonly or view.nbytes == 0:
            return 0
        return ctypes.addressof(ctypes.c_char.from_buffer(view))
    return int(view.__array_interface__["data"][0])


class Client:
    """A client of a gsched server in another process of this machine. It needs neither CUDA nor a GPU.

    As a context manager it closes at the end of its block: it waits for the results of its requests,
    or cancels them if the block ends by an exception. Dropping the last reference cancels them, too.

    Parameters
    ----------
    socket : str or os.PathLike
        The socket of the server: a path, or ``@`` and a name without a file.
    slots : int
        Most requests in flight, a power of two. The server may allow fewer.
    arena_bytes : int
        Shared memory for inputs and outputs, a multiple of 64.
    wait : str
        How the thread that reads results waits: ``polling`` has the least latency and costs a core,
        ``waiting`` sleeps until a result is there, ``hybrid`` sleeps until a request is almost
        finished and then polls.
    poll_before, poll_for : float
        ``hybrid`` polls from so many seconds before the expected end of a request until so many after
        it, and then sleeps until the result is there.
    connect_within : float
        Seconds that the server may take to answer.

    Raises
    ------
    GschedError
        If there is no library or no server, or the server refuses this client, or a value is out of
        range.

    Notes
    -----
    *Memory.* Inputs and outputs of a request lie in one piece of the arena, which the server uses in
    place. `submit` copies arrays into a new piece. An array of `allocate` is in the arena already, and
    is not copied: until its request has ended do not write it or submit it again; the outputs of a
    later request replace those of an earlier one. A piece is free again when all arrays in it are
    dropped, which may be after the client has been closed.

    *Threads.* Everything may be called from any thread. One Python thread for each client reads the
    results and ends the futures; it sleeps in the library, without the interpreter lock.

    *fork.* A child made by ``fork()`` cannot use its parent's clients, but opens its own.
    """

    def __init__(self, socket: str | os.PathLike[str], *, slots: int = 256,
                 arena_bytes: int = 64 << 20, wait: Literal["hybrid", "polling", "waiting"] = "hybrid",
                 poll_before: float = 100e-6, poll_for: float = 200e-6,
                 connect_within: float = 5.0) -> None:
        if wait not in abi.WAITS:
            raise GschedError(f'wait: {wait!r}, expected one of {", ".join(abi.WAITS)}',
                              abi.BAD_ARGUMENT)
        path = path_in_c("socket", socket)
        self._state = connect(path, abi.gsched_client_options(
            slots=_whole("slots", slots, 32), arena_bytes=_whole("arena_bytes", arena_bytes, 64),
            wait=abi.WAITS.index(wait), poll_before_us=_seconds("poll_before", poll_before),
            poll_for_us=_seconds("poll_for", poll_for),
            connect_within_us=_seconds("connect_within", connect_within)))
        self._socket, self._known = os.fsdecode(path), dict[str, ClientModel]()
        self._state.reader.start()
        clients.add(self)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close(cancel=kind is not None)

    def __del__(self) -> None:
        state = getattr(self, "_state", None)
        if state is not None:
            state.leave() # without a wait: this may be any thread, within anything

    def __repr__(self) -> str:
        return f"<gsched.Client of {self._socket}>"

    @property
    def models(self) -> dict[str, ClientModel]:
        """dict: What the server offers, by name. The server is asked each time; `submit` asks it once
        for each name."""
        self._state.refuse_closed()
        handle, count, most = self._state.handle, u32(), 16
        while True:
            found = (abi.gsched_client_model * most)()
            found[0].size = ctypes.sizeof(abi.gsched_client_model)
            abi.check(handle.library.gsched_client_models(handle.value, found, most, count))
            if count.value <= most:
                break
            most = count.value
        self._known = {m.name: m for m in map(_model_of, found[:count.value])}
        return dict(self._known)

    @property
    def in_flight(self) -> int:
        """int: Requests whose results have not come."""
        return self._counts()[0]

    @property
    def most_in_flight(self) -> int:
        """int: So many requests the server takes at once; `submit` refuses more."""
        return self._counts()[1]

    def _counts(self) -> tuple[int, int]:
        self._state.refuse_child()
        handle, now, most = self._state.handle, u64(), u32()
        abi.check(handle.library.gsched_client_in_flight(handle.value, now, most))
        return now.value, most.value

    def _model(self, model: ClientModel | str) -> ClientModel:
        if isinstance(model, ClientModel):
            return model
        known = self._known.get(model)
        if known is None:
            handle, found = self._state.handle, abi.gsched_client_model()
            abi.check(handle.library.gsched_client_find_model(handle.value, name_in_c("model", model), found))
            known = self._known[model] = _model_of(found)
        return known

    def _piece(self, model: ClientModel) -> Piece:
        piece = Piece(self._state.handle, model.input_bytes + model.output_bytes)
        self._state.pieces[piece.address] = piece
        return piece

    def allocate(self, model: ClientModel | str, shape: Sequence[int] | None = None,
                 dtype: Any = None) -> Any:
        """Allocate the inputs of a request in the arena, with room for its outputs behind them.

        Parameters
        ----------
        model : ClientModel or str
            A model of the server, or its name.
        shape : sequence of int, optional
            Of the array; None is one dimension.
        dtype : optional
            As numpy takes it; where numpy is not installed, a character of `struct` such as ``"f"``.
            None is bytes.

        Returns
        -------
        numpy.ndarray or memoryview
            All inputs of the model, to be written and then given to `submit`, which does not copy them.

        Raises
        ------
        GschedError
            If the arena has no free piece of that size, or the array has another size than the inputs.
        """
        self._state.refuse_closed()
        model = self._model(model)
        whole = self._piece(model).view(0, model.input_bytes)
        try:
            if numpy() is not None:
                array = whole if dtype is None else whole.view(dtype)
                return array if shape is None else array.reshape(tuple(shape))
            array = whole if dtype is None else whole.cast(dtype)
            return array if shape is None else array.cast("B").cast(dtype or "B", tuple(shape))
        except (TypeError, ValueError) as e:
            raise GschedError(f"{model.name}: {model.input_bytes} bytes of inputs cannot be "
                              f"{dtype or 'bytes'} in the shape {shape}: {str(e).splitlines()[0]}",
                              abi.BAD_ARGUMENT) from None

    def submit(self, model: ClientModel | str, *arrays: Any, deadline: float | None = None,
               real_time: bool = False) -> ClientFuture:
        """Submit one request, without waiting for it.

        Parameters
        ----------
        model : ClientModel or str
            A model of the server, or its name.
        *arrays
            The inputs, one after another: arrays of numpy, or other buffers. Or one array of
            `allocate`, which is not copied.
        deadline : float, optional
            Seconds after its arrival; None is the server's default.
        real_time : bool
            Whether it runs before other requests, by deadline.

        Returns
        -------
        ClientFuture
            The request; its result is the bytes of the outputs.

        Raises
        ------
        GschedError
            If the inputs do not have the model's size, `most_in_flight` requests are in flight, the
            arena is full, the client is closed or the server has gone. What the server finds wrong is
            raised by the future.
        """
        self._state.refuse_closed()
        model = self._model(model)
        request = abi.gsched_client_request(
            real_time=int(bool(real_time)),
            deadline_us=0.0 if deadline is None else max(_seconds("deadline", deadline), 1e-3))
        parts = [_bytes_of(array) for array in arrays]
        total = sum(part.nbytes for part in parts)
        if total != model.input_bytes:
            raise GschedError(f"{model.name}: {total} bytes of inputs, expected {model.input_bytes}",
                              abi.BAD_ARGUMENT)
        piece = None
        if len(parts) == 1:
            piece = self._state.pieces.get(_address_of(parts[0]))
        if piece is None or piece.size != model.input_bytes + model.output_bytes:
            piece, at = self._piece(model), 0
            into = piece.view(0, model.input_bytes)
            for part in parts:
                into[at:at + part.nbytes] = part
                at += part.nbytes
        future = ClientFuture(self._state, model, piece)
        self._state.submit(future, model.id, request)
        return future

    def close(self, cancel: bool = False, timeout: float | None = None) -> None:
        """Accept no more requests, wait for the results of those in flight, and leave the server.

        All futures have ended when it returns, unless a callback calls it. Closing again does nothing.

        Parameters
        ----------
        cancel : bool
            Whether to cancel the requests in flight instead of waiting for them.
        timeout : float, optional
            Seconds to wait before what is left is cancelled; None is without limit.
        """
        state = self._state
        if not state.is_here():
            return
        state.closing = True
        of_reader = threading.current_thread() is state.reader
        try:
            if not cancel and not of_reader:
                with state.lock:
                    rest = list(state.in_flight.values())
                concurrent.futures.wait(rest, timeout)
        finally:
            state.leave()
            if not of_reader:
                state.reader.join()


def _model_of(found: Any) -> ClientModel:
    return ClientModel(found.name.decode(errors="replace"), found.id, found.input_bytes,
                       found.output_bytes)
