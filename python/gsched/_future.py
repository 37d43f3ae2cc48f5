# SPDX-License-Identifier: Apache-2.0
"""Futures of requests."""

from __future__ import annotations

import concurrent.futures
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable

from . import _abi
from ._abi import (DEVICE_FAILED, ENDED, Facts, GschedError, OK, STATES, TIMED_OUT, check,
                   gsched_report, microseconds, pointer)
from ._state import State, keep_for_good

if TYPE_CHECKING:
    from ._model import Model

CancelledError = concurrent.futures.CancelledError


class _Waiters(list[Any]):
    """The list to which concurrent.futures.wait and as_completed append. The first entry makes the
    server watch the future.

    The list holds a weak reference: the memory of a future is freed with the last reference to it.
    """

    def __init__(self, future: Future) -> None:
        super().__init__()
        self._future = weakref.ref(future)

    def append(self, waiter: Any) -> None:
        super().append(waiter) # before watching: the future may end at once
        future = self._future()
        if future is not None:
            future._watch()


class Future(concurrent.futures.Future[Any]):
    """A submitted request: a `concurrent.futures.Future`, made by `Server.submit`.

    `add_done_callback`, `concurrent.futures.wait`, `concurrent.futures.as_completed` and
    `asyncio.wrap_future` work as with any other future.

    Attributes
    ----------
    model : Model
        The model that the request is for.

    Notes
    -----
    *Threads.* All methods may be called from any thread. `result`, `exception` and `wait` sleep in
    the library in the calling thread; no other Python thread is involved. Callbacks, `wait` and
    `as_completed` of `concurrent.futures`, and `asyncio.wrap_future`, use the completion thread of
    the server. It starts with the first request that needs it, and ends with the server. Callbacks
    run on that thread, one after another, or in `add_done_callback` if the request has ended. A slow
    callback delays the others of its server. The dispatcher of the server runs no Python and does
    not take the interpreter lock.

    *Costs.* A future without callbacks adds no work to the dispatcher. One with callbacks adds a
    push to a queue at the end, and a system call if the completion thread sleeps; the callback runs
    once that thread has woken up and holds the interpreter lock, tens of microseconds later.

    *Cancellation.* Once `cancel` has returned True the future ends as cancelled, even if the GPU
    finished first: its outputs are dropped then. It is `done` when the request has left the GPU,
    which uses its inputs and outputs until then.
    """

    model: Model

    def __init__(self, state: State, model: Model, inputs: list[Any], outputs: Any,
                 events: tuple[Any, ...] = (), pooled: Any = None) -> None:
        super().__init__()
        self._waiters = _Waiters(self)
        self._shared, self.model, self._ticket = state, model, pointer()
        self._inputs: list[Any] | None
        self._inputs, self._outputs = inputs, outputs
        self._end: Facts | None = None
        self._events, self._pooled = events, pooled
        self._cancelling = False # cancel() has returned True
        self._watched = self._completed = False
        # The library writes the ticket before it submits the request, and deletes the ticket if it
        # cannot: until its call has returned no other thread may use the ticket.
        self._submitted = False

    def __del__(self) -> None:
        ticket = getattr(self, "_ticket", None)
        if ticket and _abi.library is not None and self._shared.is_here():
            _abi.library.gsched_release(ticket)

    def __repr__(self) -> str:
        state = "pending" if self._end is None else self._outcome()
        return f"<gsched.Future of {self.model.name} at {id(self):#x}, {state}>"

    def _report(self) -> Facts:
        """The report of the request; stored once the request has ended."""
        if self._end is not None:
            return self._end
        self._shared.refuse_child()
        return self._reported(self._status())

    def _status(self) -> gsched_report:
        report = gsched_report()
        check(_abi.library.gsched_status(self._ticket, report))
        return report

    def _reported(self, report: gsched_report) -> Facts:
        """What the library says, for Python. If the request has ended, it is stored, and the memory freed."""
        state, arrival, end = report.state, report.arrival_ns, report.end_ns
        said = Facts(state=STATES[state], arrival=arrival / 1e9, start=report.start_ns / 1e9,
                     end=end / 1e9, latency=(end - arrival) / 1e9 if state != 0 else None,
                     segments=report.segments, instance=report.instance,
                     error=(report.error or b"").decode(errors="replace"), code=report.code)
        if state != 0:
            if said["code"] == DEVICE_FAILED: # the GPU may still read and write all of it
                keep_for_good((self._inputs, self._outputs, self.model.captured, self._events,
                               self._pooled))
            inputs, events, pooled = self._inputs, self._events, None # freed without the lock
            outputs = self._outputs
            with self._shared.lock: # keep() of other threads reports it too; one returns the event
                if self._end is not None:
                    return self._end
                pooled, self._pooled = self._pooled, None
                # Before it counts as ended: an ended future would never be removed.
                self._shared.pending.pop(id(self), None)
                self._inputs, self._events, self._end = None, (), said
                if said["state"] != "finished": # never handed out, so their memory is free
                    self._outputs = None
            if pooled is not None and said["code"] != DEVICE_FAILED:
                self._shared.events.append(pooled)
        return said

    def _outcome(self) -> str:
        """The state of a request that has ended."""
        assert self._end is not None
        return "cancelled" if self._cancelling else str(self._end["state"])

    def _error(self) -> GschedError | None:
        assert self._end is not None
        outcome = self._outcome()
        if outcome == "finished":
            return None
        return GschedError(self._end["error"] or f"{self.model.name}: {outcome}")

    def _watch(self) -> None:
        """Lets the completion thread end the future, or ends it here if the request has ended."""
        with self._shared.lock:
            if self._watched:
                return
            self._watched = True
        try:
            if self._end is None:
                self._shared.refuse_child()
                if self._shared.watch(self):
                    return
                self._report()
        except BaseException:
            self._watched = False
            raise
        self._complete()

    def _complete(self) -> None:
        """Ends the future for concurrent.futures, once. Calls its callbacks and waiters."""
        with self._shared.lock:
            if self._completed:
                return
            self._completed = True
        if self._outcome() == "cancelled":
            super().cancel()
            super().set_running_or_notify_cancel()
            return
        error = self._error()
        if error is None:
            super().set_result(self._outputs)
        else:
            super().set_exception(error)

    def add_done_callback(self, fn: Callable[[concurrent.futures.Future[Any]], object]) -> None:
        """Call `fn` with this future when its request has ended, in any state.

        Parameters
        ----------
        fn : callable
            Called once, on the completion thread of the server, or by this call if the request has
            ended already. It must not wait for callbacks of other requests of the server. Its
            exceptions are logged.

        Raises
        ------
        GschedError
            In a child made by `fork()`.
        """
        self._watch()
        super().add_done_callback(fn)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the request has ended, in any state.

        Parameters
        ----------
        timeout : float, optional
            Seconds; None is without limit.

        Returns
        -------
        bool
            False if the timeout expired first.

        Raises
        ------
        GschedError
            In a child made by `fork()`.
        """
        until = None if timeout is None else time.monotonic() + timeout
        if not self.done(): # which keeps the interpreter lock
            self._shared.refuse_child()
        while self._end is None: # in slices, so that signals are handled
            left = 0.2 if until is None else min(0.2, until - time.monotonic())
            code = _abi.library.gsched_wait(self._ticket, microseconds(max(left, 0)))
            if code == OK:
                self._report()
            elif code != TIMED_OUT:
                check(code)
            elif until is not None and time.monotonic() >= until:
                return False
        return True

    def done(self) -> bool:
        """Return whether the request has ended, without waiting.

        Returns
        -------
        bool
            True once it has finished, failed, been rejected or been cancelled, and the GPU no longer
            uses its inputs and outputs.
        """
        if self._submitted and self._end is None and self._shared.is_here():
            if not self._ticket: # submit() has raised, and was interrupted before it forgot this
                self._shared.forget(self)
            elif (report := self._status()).state != 0:
                self._reported(report)
        return self._end is not None

    def running(self) -> bool:
        """Return whether the request runs and cannot be cancelled.

        Returns
        -------
        bool
            False: a request can be cancelled until its end.
        """
        return False

    def cancelled(self) -> bool:
        """Return whether the request has been cancelled.

        Returns
        -------
        bool
            True once `cancel` has returned True, and if the server has cancelled it.

        Raises
        ------
        GschedError
            In a child made by `fork()`.
        """
        return self._cancelling or self._report()["state"] == "cancelled"

    def cancel(self) -> bool:
        """Cancel the request. Does not wait.

        Its work on the GPU ends first, and the future with it, see the notes of the class. Requests
        submitted `after` this one are cancelled too, unless this one finishes first.

        Returns
        -------
        bool
            True if it ends, or has ended, as cancelled; False if it has ended in another way.
        """
        if self._end is None and self._shared.is_here():
            code = _abi.library.gsched_cancel(self._ticket)
            if code == OK:
                with self._shared.lock: # another thread may have ended it meanwhile
                    if self._end is None:
                        self._cancelling = True
                        return True
            elif code == ENDED:
                self.wait()
        return self._end is not None and self._outcome() == "cancelled"

    def exception(self, timeout: float | None = None) -> GschedError | None:
        """Wait for the end, and return what `result` would raise.

        Parameters
        ----------
        timeout : float, optional
            Seconds; None is without limit.

        Returns
        -------
        GschedError or None
            None if the request finished.

        Raises
        ------
        TimeoutError
            If the request has not ended in time.
        concurrent.futures.CancelledError
            If it was cancelled.
        """
        if not self.wait(timeout):
            raise TimeoutError(f"{self.model.name}: no answer in {timeout} s")
        assert self._end is not None
        if self._outcome() == "cancelled":
            raise CancelledError(self._end["error"] or "cancelled")
        return self._error()

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the outputs.

        Parameters
        ----------
        timeout : float, optional
            Seconds; None is without limit.

        Returns
        -------
        object
            Tensors in the structure that the module returned, complete for every stream and for the
            host. They belong to the caller.

        Raises
        ------
        TimeoutError
            If the request has not ended in time.
        concurrent.futures.CancelledError
            If it was cancelled.
        GschedError
            If it failed or was rejected.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._outputs

    @property
    def state(self) -> str:
        """str: pending, finished, failed, rejected or cancelled."""
        said: str = self._report()["state"]
        return "cancelled" if self._cancelling and self._end is not None else said

    @property
    def latency(self) -> float | None:
        """float or None: Seconds from arrival to the end, outputs copied; None before."""
        latency: float | None = self._report()["latency"]
        return latency

    @property
    def report(self) -> dict[str, Any]:
        """dict: The library's report of the request.

        ``state`` as a word; ``arrival``, ``start`` and ``end`` in seconds of `time.monotonic`, of
        which ``start`` is 0 if nothing of it went to the GPU; ``latency`` in seconds; the number of
        ``segments`` that went to the GPU; the ``instance`` that it ran on; ``error``, a line, and
        ``code``, a ``gsched_code``.
        """
        return Facts(self._report())
