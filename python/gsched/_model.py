# SPDX-License-Identifier: Apache-2.0
"""Models of a server."""

import time

from . import _abi
from ._abi import DEVICE_FAILED, GschedError, OK, TIMED_OUT, check, gsched_model_facts, microseconds
from ._state import keep_for_good


class Model:
    """A model of a server. `facts()` says what it costs."""

    def __init__(self, state, index, captured):
        self._state, self.index, self.captured = state, index, captured
        self.name, self.instances = captured.name, len(captured.instances)

    def remove(self, timeout=None):
        """Takes no more requests, serves those there are, and removes the model: the server frees
        its graphs and releases the captured memory. TimeoutError after `timeout` seconds: the model
        still takes no more requests, and remove() may be called again. GschedError with the code
        GSCHED_DEVICE_FAILED: the model is removed, but one of its kernels hangs, so that the
        captured memory is kept until the process ends."""
        self._state.refuse_child()
        until = None if timeout is None else time.monotonic() + timeout
        while True: # in slices, so that signals are heard
            left = 0.2 if until is None else min(0.2, until - time.monotonic())
            code = _abi.library.gsched_remove_model(self._state.handle, self.index,
                                                microseconds(max(left, 0)))
            if code != TIMED_OUT:
                break
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"{self.name}: requests have not ended in {timeout} s")
        if code == DEVICE_FAILED:
            keep_for_good(self.captured)
        if code in (OK, DEVICE_FAILED):
            self._state.drop_model(self)
        check(code)

    def facts(self):
        """What gsched_model_facts holds, as a dict."""
        self._state.refuse_child()
        facts = gsched_model_facts()
        check(_abi.library.gsched_get_model_facts(self._state.handle, self.index, facts))
        return {name: getattr(facts, name) for name, _ in facts._fields_ if name != "size"}
