# SPDX-License-Identifier: Apache-2.0
"""Models of a server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from . import _abi
from ._abi import (DEVICE_FAILED, OK, TIMED_OUT, check, facts_of, gsched_model_facts, microseconds)
from ._state import State, keep_for_good

if TYPE_CHECKING:
    from ._capture import Captured


class Model:
    """A model of a server, made by `Server.add_model`.

    Attributes
    ----------
    name : str
        Its name.
    instances : int
        The requests of it that run at once.
    index : int
        Its number in the server.
    captured : Captured
        Its graphs and their memory.
    """

    name: str
    instances: int
    index: int
    captured: Captured

    def __init__(self, state: State, index: int, captured: Captured) -> None:
        self._state, self.index, self.captured = state, index, captured
        self.name, self.instances = captured.name, len(captured.instances)

    def remove(self, timeout: float | None = None) -> None:
        """Remove the model from its server.

        The model accepts no more requests, its pending ones are served, and then the server frees its
        graphs and releases the captured memory.

        Parameters
        ----------
        timeout : float, optional
            Seconds that its requests may take; None is without limit.

        Raises
        ------
        TimeoutError
            If some of its requests have not ended in time. The model still accepts no more requests;
            `remove` may be called again.
        GschedError
            If it was removed before. With the code 5 (``GSCHED_DEVICE_FAILED``) it is removed, but
            one of its kernels hangs, and the captured memory is kept until the process ends.
        """
        self._state.refuse_child()
        until = None if timeout is None else time.monotonic() + timeout
        while True: # in slices, so that signals are handled
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

    def facts(self) -> dict[str, Any]:
        """Return what the model costs.

        Returns
        -------
        dict
            ``instances``; ``operations`` and ``segments`` of one instance; ``device_bytes`` of all
            instances beyond the model's own; ``graphs`` that were instantiated and their ``nodes``;
            in seconds ``measure`` and ``build``, what it took to measure the model and to build the
            graphs, ``expected``, the sum of the operations of one instance, and ``graph_replay``,
            a replay of the whole graph (0 if that was not measured).

        Raises
        ------
        GschedError
            In a child made by `fork()`.
        """
        self._state.refuse_child()
        facts = gsched_model_facts()
        check(_abi.library.gsched_get_model_facts(self._state.handle, self.index, facts))
        return facts_of(facts)
