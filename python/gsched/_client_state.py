# SPDX-License-Identifier: Apache-2.0
"""What outlives a Client: its handle, the pieces of its arena, and the thread that reads results."""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

from . import _client_abi as abi
from ._abi import GschedError, pointer, u64

if TYPE_CHECKING:
    from ._client_future import ClientFuture

_log = logging.getLogger("gsched")
NO_NUMBER = (1 << 64) - 1


@functools.lru_cache(None)
def numpy() -> Any:
    """The module numpy, or None where it is not installed."""
    try:
        import numpy as found
    except ImportError:
        return None
    return found


@functools.lru_cache(1024)
def _memory_of(size: int) -> Any:
    """A type of arrays of bytes that can have attributes."""
    return type("Memory", (ctypes.c_ubyte * size,), {})


class Handle:
    """The library's client, released when this and all pieces of its arena are gone.

    Where the garbage collector frees a circle it finalizes objects in any order, so a piece may be
    finalized after the handle that it refers to."""

    def __init__(self, value: int | None) -> None:
        self.library, self.value = abi.library, value
        self.in_use: dict[int, None] = {} # addresses of pieces
        self._owned, self._finalized = [value], False

    def __del__(self) -> None:
        self._finalized = True
        self._release_if_unused()

    def give_back(self, address: int) -> None:
        self.in_use.pop(address) # first: another thread may get this address at once
        self.library.gsched_client_free(self.value, address)
        self._release_if_unused()

    def _release_if_unused(self) -> None:
        if self._finalized and not self.in_use and self._owned:
            self.library.gsched_client_release(self._owned.pop())


class Piece:
    """A piece of the arena; given back with the last reference to it, which views of it hold."""

    def __init__(self, handle: Handle, size: int) -> None:
        self.handle, self.size, self.address = handle, size, 0
        at = pointer()
        abi.check(handle.library.gsched_client_allocate(handle.value, size, at))
        assert at.value is not None
        handle.in_use[at.value] = None
        self.address = at.value

    def __del__(self) -> None:
        if self.address:
            self.handle.give_back(self.address)

    def view(self, begin: int, size: int) -> Any:
        """A writable array of bytes, or a memoryview where there is no numpy."""
        memory = _memory_of(max(self.size, 1)).from_address(self.address)
        memory.piece = self
        np = numpy()
        if np is None:
            return memoryview(memory).cast("B")[begin:begin + size]
        return np.ndarray((size,), np.uint8, buffer=memory, offset=begin)


class ClientState:
    """The handle of a Client, and its requests in flight.

    The reader, a Python thread, sleeps in the library and ends futures. It refers to this, not to the
    client, so a client that is dropped is closed.
    """

    def __init__(self, handle: Handle) -> None:
        self.handle, self.process = handle, os.getpid()
        # A signal handler may call anything here in the thread that holds the lock, which can take it
        # again. The library takes no lock of Python, so it may be called under it.
        self.lock = threading.RLock()
        self.in_flight: dict[int, ClientFuture] = {}  # by the number of the request
        # Those whose submission has begun, by identity: should it be interrupted after the library has
        # taken the request, its memory stays in use until the result.
        self.starting: dict[int, ClientFuture] = {}
        self.pieces: weakref.WeakValueDictionary[int, Piece] = weakref.WeakValueDictionary()
        self.closing = False  # no more requests
        self.left = False     # by close(): what has no result then is cancelled
        self.over: str | None = None  # why the connection has ended
        self.reader = threading.Thread(target=self._read_all, name="gsched client", daemon=True)

    def is_here(self) -> bool:
        return self.process == os.getpid()

    def refuse_child(self) -> None:
        if not self.is_here():
            raise GschedError(f"a client of process {self.process}, expected one of this process: a "
                              "child made by fork() connects itself", abi.BAD_ARGUMENT)

    def refuse_closed(self) -> None:
        self.refuse_child()
        if self.closing:
            raise GschedError("the client is closed, expected an open one", abi.CLOSED)
        if self.over is not None:
            raise GschedError(self.over, abi.CLOSED)

    def leave(self) -> None:
        """Ends the connection, and with it the reader."""
        if self.is_here():
            self.closing = self.left = True
            self.handle.library.gsched_client_close(self.handle.value)

    def submit(self, future: ClientFuture, model: int, request: Any) -> None:
        number, piece = future._number, future._piece
        assert piece is not None
        self.starting[id(future)] = future
        try:
            with self.lock:
                self.refuse_closed()
                abi.check(self.handle.library.gsched_client_predict(
                    self.handle.value, model, piece.address, piece.size, request, number))
                self.in_flight[number.value] = future
                self.starting.pop(id(future), None)
        finally:
            if number.value == NO_NUMBER:
                self.starting.pop(id(future), None)

    def _take(self, number: int) -> ClientFuture | None:
        with self.lock:
            future = self.in_flight.pop(number, None)
            if future is None: # its submission was interrupted
                future = next((f for f in self.starting.values() if f._number.value == number), None)
            if future is not None:
                self.starting.pop(id(future), None)
            return future

    def _read_all(self) -> None:
        """The reader's thread."""
        result = abi.gsched_client_result()
        while True:
            code = self.handle.library.gsched_client_read_result(self.handle.value, result, -1)
            if code == abi.OK:
                future = self._take(result.id)
                if future is not None:
                    self._end(future, result)
                del future # the thread may sleep for long
            elif code != abi.TIMED_OUT:
                break
        line = abi.last_line()
        if code != abi.CLOSED: # what the server would still write must not be waited for
            self.handle.library.gsched_client_close(self.handle.value)
        with self.lock:
            self.over = line
            rest = [*self.in_flight.values(),
                    *(f for f in self.starting.values() if f._number.value != NO_NUMBER)]
            self.in_flight.clear()
        for future in rest:
            self._end(future, None)

    @staticmethod
    def _end(future: ClientFuture, result: Any) -> None:
        try:
            future._finish(result)
        except BaseException: # of a callback; others wait for theirs
            _log.critical("%r: a callback ended its thread", future, exc_info=True)


def connect(socket: bytes, options: Any) -> ClientState:
    """A client of the library, and its state; the reader is not started yet."""
    value = pointer()
    abi.check(abi.load_library().gsched_client_connect(socket, options, value))
    return ClientState(Handle(value.value))


def number() -> ctypes.c_uint64:
    return u64(NO_NUMBER)

