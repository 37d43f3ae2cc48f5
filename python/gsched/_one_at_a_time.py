# SPDX-License-Identifier: Apache-2.0
"""Long work that one thread does at a time."""

import contextlib
import threading
import time

from ._abi import GschedError


class OneAtATime:
    """Long work that one thread does at a time. A call in the middle of it by the same thread, which
    a signal handler or a finalizer can make, is an error: it would wait for itself."""

    def __init__(self, what):
        self.what, self.lock, self.taken = what, threading.RLock(), False

    @contextlib.contextmanager
    def hold(self):
        with self.lock:
            if self.taken:
                raise GschedError(f"{self.what}: called in the middle of another one by the same "
                                  "thread, expected after it")
            self.taken = True
            try:
                yield
            finally:
                self.taken = False
