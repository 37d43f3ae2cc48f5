# SPDX-License-Identifier: Apache-2.0
"""What outlives a Server."""

import collections
import contextlib
import ctypes
import os
import threading
import weakref

from . import _abi
from ._abi import BAD_ARGUMENT, CANCEL, CLOSED, GschedError, OK, TIMED_OUT, microseconds
from ._one_at_a_time import OneAtATime


class State:
    """What must outlive a Server: its handle, and all memory that the GPU may still touch."""

    def __init__(self, handle, gpu):
        self.handle, self.gpu, self.process = handle, gpu, os.getpid()
        # Guards `pending` and the ends of futures. A signal handler, or a finalizer that the garbage
        # collector runs, may call anything here in the thread that holds the lock, between any two
        # calls of Python. So it is one that the thread can take again; each step under it leaves a
        # state that such a call can use; and under it there is no call of the library or of torch,
        # which may wait for another thread, and nothing is freed that may make one.
        self.lock = threading.RLock()
        self.pending = collections.OrderedDict() # what the GPU may use, the longest unlooked at first
        self.closed = False      # the library's server has been closed
        self.left_behind = False # the library's thread did not end when it was closed
        self.adding = OneAtATime("add_model")
        self.models = []  # [captured, the Model once it is added]
        self.events = []  # of torch, in use by nothing
        states.add(self)

    def is_here(self):
        """Not in a child made by fork(): the server's thread, and others that hold its locks, are in
        the parent."""
        return self.process == os.getpid()

    def refuse_child(self):
        if not self.is_here():
            raise GschedError(f"a server of process {self.process}, expected one of this process: a "
                              "child made by fork() opens its own", BAD_ARGUMENT)

    def drop_model(self, model):
        for entry in list(self.models):
            if entry[1] is model:
                with contextlib.suppress(ValueError): # by another thread
                    self.models.remove(entry)

    def keep(self, future):
        """Keeps the tensors of a future while the GPU may use them, and frees those of some futures
        that have ended and were not queried since."""
        old = []
        with self.lock:
            self.pending[id(future)] = future
            # A future stays in there while it is moved. If a signal handler changes the order in
            # between, it has looked after some itself.
            with contextlib.suppress(KeyError, RuntimeError, StopIteration):
                for _ in range(min(2, len(self.pending) - 1)):
                    key, one = next(iter(self.pending.items()))
                    self.pending.move_to_end(key)
                    old.append(one)
        for one in old:
            one.done()

    def forget(self, future):
        with self.lock:
            self.pending.pop(id(future), None)

    def close(self, how, timeout):
        """Ends the library's server. Of calls at the same time the earliest end counts, and each
        returns when the server has ended."""
        if not self.is_here():
            return
        code = _abi.library.gsched_server_close(self.handle, how, microseconds(timeout))
        line = _abi.library.gsched_last_error().decode(errors="replace") if code != OK else ""
        if code == TIMED_OUT:
            self.left_behind = True
            keep_for_good(self) # the GPU may still write to its tensors
        self.closed = True
        if not self.left_behind:
            with self.lock:
                ended = list(self.pending.values())
            for future in ended:
                future.done()
        if code not in (OK, CLOSED):
            raise GschedError(line, code)

    def release(self):
        if not self.is_here():
            return
        if not self.closed:
            with contextlib.suppress(GschedError):
                self.close(CANCEL, 0.0)
        if self.left_behind:
            return # the library's thread still uses the server, and the GPU the memory
        handle, self.handle = self.handle, None
        if handle:
            _abi.library.gsched_server_release(handle)
        self.pending.clear()


states = weakref.WeakSet()


def keep_for_good(memory):
    """Until the process ends, the interpreter's own end included."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))


def keep_parents():
    """In a child made by fork(): keeps what the parent's servers hold of torch, for good.

    A child can neither use CUDA's objects of its parent nor free them: each call of CUDA fails there,
    and torch ends the process where the destructor of an event does. Memory of the GPU is the
    parent's. That of the host is shared until one of the two writes to it, and the child holds no
    more of it than there was at fork()."""
    for state in list(states):
        if not state.is_here():
            keep_for_good(state)


os.register_at_fork(after_in_child=keep_parents)
