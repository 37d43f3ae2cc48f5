# SPDX-License-Identifier: Apache-2.0
"""A lock for long work."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from ._abi import GschedError


class OneAtATime:
    """A lock for long work. Locking it again on the same thread, from a signal handler or a finalizer, is
    an error instead of a deadlock."""

    def __init__(self, what: str) -> None:
        self.what, self.lock, self.taken = what, threading.RLock(), False

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        with self.lock:
            if self.taken:
                raise GschedError(f"{self.what}: called in the middle of another one by the same "
                                  "thread, expected after it")
            self.taken = True
            try:
                yield
            finally:
                self.taken = False
