# SPDX-License-Identifier: Apache-2.0
"""Requests under way."""

import concurrent.futures
import time

from . import _abi
from ._abi import (DEVICE_FAILED, GschedError, OK, STATES, TIMED_OUT, check, gsched_report,
                   microseconds, pointer)
from ._state import keep_for_good

CancelledError = concurrent.futures.CancelledError


class Future:
    """A request under way, in the manner of concurrent.futures.Future."""

    def __init__(self, state, model, inputs, outputs, events=(), pooled=None):
        self._state, self.model, self._ticket = state, model, pointer()
        self._inputs, self._outputs, self._end = inputs, outputs, None
        self._events, self._pooled = events, pooled
        # The library writes the ticket before it posts the request, and deletes the ticket if it
        # cannot: until its call has returned no other thread may use the ticket.
        self._submitted = False

    def __del__(self):
        ticket = getattr(self, "_ticket", None)
        if ticket and _abi.library is not None and self._state.is_here():
            _abi.library.gsched_release(ticket)

    def _report(self):
        """What has become of it; kept once it has ended."""
        if self._end is not None:
            return self._end
        self._state.refuse_child()
        report = gsched_report()
        check(_abi.library.gsched_status(self._ticket, report))
        said = {name: getattr(report, name) for name, _ in report._fields_
                if name not in ("user", "reserved")}
        said["state"] = STATES[report.state]
        said["error"] = (report.error or b"").decode(errors="replace")
        if report.state != 0:
            if report.code == DEVICE_FAILED: # the GPU may still read and write all of it
                keep_for_good((self._inputs, self._outputs, self.model.captured, self._events,
                                self._pooled))
            inputs, events, pooled = self._inputs, self._events, None # freed without the lock
            with self._state.lock: # keep() of other threads reports it too; one returns the event
                if self._end is not None:
                    return self._end
                pooled, self._pooled = self._pooled, None
                self._state.pending.pop(id(self), None) # before: what has ended stays in there for good
                self._inputs, self._events, self._end = None, (), said
            if pooled is not None and report.code != DEVICE_FAILED:
                self._state.events.append(pooled)
        return said

    def wait(self, timeout=None):
        """True once it has ended, whatever way; False after `timeout` seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        if self._end is None:
            self._state.refuse_child()
        while self._end is None: # in slices, so that signals are heard
            left = 0.2 if until is None else min(0.2, until - time.monotonic())
            code = _abi.library.gsched_wait(self._ticket, microseconds(max(left, 0)))
            if code == OK:
                self._report()
            elif code != TIMED_OUT:
                check(code)
            elif until is not None and time.monotonic() >= until:
                return False
        return True

    def done(self):
        if self._submitted and self._end is None and self._state.is_here():
            if not self._ticket: # submit() has raised, and was interrupted before it forgot this
                self._state.forget(self)
            elif _abi.library.gsched_wait(self._ticket, 0) == OK:
                self._report()
        return self._end is not None

    def cancelled(self):
        return self._report()["state"] == "cancelled"

    def cancel(self):
        """Asks for its end. True if it has not ended yet: then it may still finish or be cancelled,
        which result() and state say."""
        return (self._end is None and self._state.is_here()
                and _abi.library.gsched_cancel(self._ticket) == OK)

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
