# SPDX-License-Identifier: Apache-2.0
"""The state that outlives a Server: its handle, the memory that the GPU uses, and the completion thread."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import logging
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

from . import _abi
from ._abi import (BAD_ARGUMENT, CANCEL, CLOSED, ENDED, GschedError, OK, TIMED_OUT, check, last_line,
                   microseconds)
from ._one_at_a_time import OneAtATime

if TYPE_CHECKING:
    from ._channel import Channel
    from ._future import Future
    from ._grpc import GrpcEndpoint
    from ._model import Model

_log = logging.getLogger("gsched")


class State:
    """The handle of a Server, and all memory that the GPU may still access.

    The completion thread (`waiter`) ends futures that have callbacks. It starts with the first of these
    and ends with the server. It sleeps in gsched_collect, so the dispatcher's thread runs no Python.
    """

    def __init__(self, handle: int | None, gpu: int) -> None:
        self.handle, self.gpu, self.process = handle, gpu, os.getpid()
        # Guards `pending`, the ends of futures, and the users of the handle. A signal handler, or a
        # finalizer that the garbage collector runs, may call anything here in the thread that holds
        # the lock, between any two calls of Python. So the thread can take it again; each step under
        # it leaves a state that such a call can use; and under it there is no call of the library or
        # of torch, which may wait for another thread, and nothing is freed that may make one.
        self.lock = threading.RLock()
        # Futures whose tensors the GPU may use, the one checked longest ago first.
        self.pending: collections.OrderedDict[int, Future] = collections.OrderedDict()
        self.closed = False      # the library's server has been closed
        self.left_behind = False # the library's thread did not end when it was closed
        self.adding = OneAtATime("add_model")
        self.models: list[list[Any]] = []  # [captured, the Model once it is added]
        self.events: list[Any] = []  # of torch, in use by nothing
        self.channels: list[Channel] = [] # they end before the handle
        self.endpoints: list[GrpcEndpoint] = [] # as do these
        self.watched: dict[int | None, Future] = {} # by ticket: those that the waiter ends
        self.waiter: threading.Thread | None = None
        self.users, self.released = 1, False # of the handle: the server, and the waiter
        states.add(self)

    def is_here(self) -> bool:
        """False in a child made by fork(): the server's thread, and threads that hold its locks, exist in
        the parent alone."""
        return self.process == os.getpid()

    def refuse_child(self) -> None:
        if not self.is_here():
            raise GschedError(f"a server of process {self.process}, expected one of this process: a "
                              "child made by fork() opens its own", BAD_ARGUMENT)

    def drop_model(self, model: Model) -> None:
        for entry in list(self.models):
            if entry[1] is model:
                with contextlib.suppress(ValueError): # by another thread
                    self.models.remove(entry)

    def keep(self, future: Future) -> None:
        """Keeps the tensors of a future while the GPU may use them. Checks whether some older futures have
        ended, and frees their tensors."""
        old = []
        with self.lock:
            self.pending[id(future)] = future
            # A future stays in the dict while it is moved. If a signal handler changes the order in
            # between, it has checked some itself.
            with contextlib.suppress(KeyError, RuntimeError, StopIteration):
                for _ in range(min(2, len(self.pending) - 1)):
                    key, one = next(iter(self.pending.items()))
                    self.pending.move_to_end(key)
                    old.append(one)
        for one in old:
            one.done()

    def forget(self, future: Future) -> None:
        with self.lock:
            self.pending.pop(id(future), None)

    def watch(self, future: Future) -> bool:
        """Lets the waiter end the future. False if the request has ended already."""
        key = future._ticket.value
        self.watched[key] = future # before: it may end at once
        try:
            if self.waiter is None: # several that start at once: one stays
                threading.Thread(target=self._complete_watched, name="gsched waiter", daemon=True).start()
            code = _abi.library.gsched_watch(future._ticket)
        except BaseException:
            self.watched.pop(key, None)
            raise
        if code in (OK, BAD_ARGUMENT): # BAD_ARGUMENT: it is watched already
            if future._completed:
                self.watched.pop(key, None)
            return True
        self.watched.pop(key, None)
        if code != ENDED:
            check(code)
        return False

    def _complete_watched(self) -> None:
        """The waiter's thread."""
        with self.lock:
            if self.waiter is not None or self.released:
                return
            self.waiter = threading.current_thread()
            self.users += 1
        most = 64
        tickets, written = (_abi.pointer * most)(), _abi.u32()
        while True:
            code = _abi.library.gsched_collect(self.handle, tickets, most, written, -1)
            if code == TIMED_OUT:
                continue
            if code != OK: # the server is closed, and all are handed out
                break
            for ticket in tickets[:written.value]:
                future = self.watched.pop(ticket, None)
                _abi.library.gsched_release(ticket) # the share that was handed out
                if future is not None:
                    self._complete(future)
                del future # the thread may sleep for long
        self._drop_user()

    @staticmethod
    def _complete(future: Future) -> None:
        try:
            future._report()
            future._complete()
        except BaseException: # of a callback; others wait for theirs
            _log.critical("%r: a callback ended its thread", future, exc_info=True)

    def close(self, how: int, timeout: float | None) -> None:
        """Ends the library's server. Of concurrent calls the earliest deadline counts; each returns when
        the server has ended."""
        if not self.is_here():
            return
        for endpoint in self.endpoints:
            endpoint.stop_accepting()
        code = _abi.library.gsched_server_close(self.handle, how, microseconds(timeout))
        line = last_line() if code != OK else ""
        if code == TIMED_OUT:
            self.left_behind = True
            keep_for_good(self) # the GPU may still write to its tensors
        self.closed = True
        if not self.left_behind: # else its thread may use them still
            for channel in self.channels:
                channel.close()
            for endpoint in self.endpoints:
                endpoint.close()
            with self.lock:
                ended = list(self.pending.values())
            for future in ended:
                future.done()
        if code not in (OK, CLOSED):
            raise GschedError(line, code)

    def wait_for_callbacks(self, timeout: float) -> bool:
        """After close(): waits until the waiter has ended all futures. False if the timeout expires first."""
        waiter = self.waiter
        if waiter is None or waiter is threading.current_thread():
            return True
        waiter.join(timeout)
        return not waiter.is_alive()

    def release(self) -> None:
        if not self.is_here():
            return
        if not self.closed:
            with contextlib.suppress(GschedError):
                self.close(CANCEL, 0.0)
        with self.lock:
            if self.left_behind or self.released:
                return # the library's thread still uses the server, and the GPU the memory
            self.released = True
            incomplete = list(self.watched.values()) if self.waiter is None else []
        for future in incomplete: # their waiter could not end them any more
            self._complete(future)
        self._drop_user()
        self.pending.clear()

    def _drop_user(self) -> None:
        """Releases one use of the handle; the last one releases the library's server."""
        with self.lock:
            self.users -= 1
            handle = self.handle
            if self.users > 0 or handle is None:
                return
            self.handle = None
        _abi.library.gsched_server_release(handle)


states: weakref.WeakSet[State] = weakref.WeakSet()


def keep_for_good(memory: object) -> None:
    """Keeps an object until the process ends, beyond the end of the interpreter."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))


def _keep_parents() -> None:
    """In a child made by fork(): keeps the torch objects of the parent's servers until the process ends.

    A child can neither use nor free CUDA objects of its parent: every CUDA call fails there, and torch
    ends the process if the destructor of an event fails. GPU memory belongs to the parent. Host memory is
    shared until one of the two writes to it, so the child holds no more of it than at fork()."""
    for state in list(states):
        if not state.is_here():
            keep_for_good(state)


os.register_at_fork(after_in_child=_keep_parents)
