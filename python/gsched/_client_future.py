# SPDX-License-Identifier: Apache-2.0
"""Futures of requests to a server in another process."""

from __future__ import annotations

import concurrent.futures
from typing import TYPE_CHECKING, Any

from . import _client_abi as abi
from ._abi import GschedError
from ._client_state import NO_NUMBER, ClientState, Piece, number

if TYPE_CHECKING:
    from ._client import ClientModel


class ClientFuture(concurrent.futures.Future[Any]):
    """A request to a server in another process: a `concurrent.futures.Future`, made by `Client.submit`.

    `add_done_callback`, `concurrent.futures.wait`, `concurrent.futures.as_completed` and
    `asyncio.wrap_future` work as with any other future.

    Attributes
    ----------
    model : ClientModel
        The model that the request is for.

    Notes
    -----
    *Result.* The outputs as bytes, in the arena: an array of ``uint8``, whose ``view("float32")`` has
    the values, or a `memoryview` where numpy is not installed. Nothing is copied. The piece of the arena
    is free again when the future, its result and all views of it are dropped.

    *Threads.* All methods may be called from any thread. Callbacks run on the client's thread that
    reads results, one after another; a slow one delays the others of its client.

    *Cancellation.* Once `cancel` has returned True the future ends as cancelled, even if the server
    finished first. It is `done` when the server no longer uses its memory.
    """

    model: ClientModel

    def __init__(self, state: ClientState, model: ClientModel, piece: Piece) -> None:
        super().__init__()
        self._shared, self.model = state, model
        self._piece: Piece | None = piece
        self._number = number()
        self._cancelling = self._ended = False # under the state's lock
        self._report: dict[str, Any] = {"state": "pending", "reason": "", "error": "", "latency": None,
                                        "waited": None, "segments": 0}

    def __repr__(self) -> str:
        return f"<gsched.ClientFuture of {self.model.name} at {id(self):#x}, {self.state}>"

    def _finish(self, result: Any) -> None:
        """Ends the future, once: with a gsched_client_result, or without one as the connection has ended."""
        shared = self._shared
        with shared.lock:
            if self._ended:
                return
            self._ended = True
            shared.starting.pop(id(self), None)
            piece, self._piece = self._piece, None
            assert piece is not None
            report = dict(self._report)
            if result is None:
                report["state"] = "cancelled" if shared.left else "unknown"
                report["error"] = f"{shared.over}; the outcome is unknown"
            else:
                report |= {"state": abi.name_of(abi.OUTCOMES, result.outcome),
                           "reason": abi.name_of(abi.REASONS, result.reason),
                           "error": result.error.decode(errors="replace"),
                           "latency": result.latency_us / 1e6, "waited": result.waited_us / 1e6,
                           "segments": result.segments}
            if self._cancelling:
                report["state"] = "cancelled"
            self._report = report
        state = report["state"]
        if state == "finished":
            self.set_result(piece.view(self.model.input_bytes, self.model.output_bytes))
        elif state == "cancelled":
            super().cancel()
            super().set_running_or_notify_cancel()
        else:
            self.set_exception(GschedError(report["error"] or f"{self.model.name}: {state}",
                                           abi.CLOSED if state == "unknown" else None))

    def _refuse_child(self) -> None:
        """A child made by fork() has no thread that would end this."""
        if not self._ended:
            self._shared.refuse_child()

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
        self._refuse_child()
        return bool(concurrent.futures.wait([self], timeout).done)

    def cancelled(self) -> bool:
        """Return whether the request has been cancelled.

        Returns
        -------
        bool
            True once `cancel` has returned True, and if the server has cancelled it.
        """
        return self._cancelling or self._report["state"] == "cancelled"

    def cancel(self) -> bool:
        """Cancel the request. Does not wait.

        What of it is on the device ends first, and the future with it, see the notes of the class.

        Returns
        -------
        bool
            True if it ends, or has ended, as cancelled; False if it has ended in another way.
        """
        shared = self._shared
        if not shared.is_here():
            return False
        with shared.lock:
            if not self._ended:
                self._cancelling = True
                if self._number.value != NO_NUMBER:
                    shared.handle.library.gsched_client_cancel(shared.handle.value, self._number)
            return self.cancelled()

    def exception(self, timeout: float | None = None) -> BaseException | None:
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
        self._refuse_child()
        return super().exception(timeout)

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the outputs.

        Parameters
        ----------
        timeout : float, optional
            Seconds; None is without limit.

        Returns
        -------
        numpy.ndarray or memoryview
            The bytes of the outputs, in the arena.

        Raises
        ------
        TimeoutError
            If the request has not ended in time.
        concurrent.futures.CancelledError
            If it was cancelled.
        GschedError
            If it failed, was rejected or refused, or the server has gone.
        """
        self._refuse_child()
        return super().result(timeout)

    @property
    def state(self) -> str:
        """str: pending, finished, failed, rejected, cancelled, refused, or unknown: the server has gone."""
        return str(self._report["state"])

    @property
    def latency(self) -> float | None:
        """float or None: Seconds at the server from arrival to the end; None before."""
        latency: float | None = self._report["latency"]
        return latency

    @property
    def report(self) -> dict[str, Any]:
        """dict: `state`, `reason`, `error`, `latency` and `waited` in seconds, `segments`."""
        return dict(self._report)
