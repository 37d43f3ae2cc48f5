# SPDX-License-Identifier: Apache-2.0
"""Processes that do not outlive the program which started them, each in a session of its own."""

import contextlib
import ctypes
import os
import signal
import subprocess


class Failed(RuntimeError):
    """Why a process gave no result, in one line."""


def _end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL) # PR_SET_PDEATHSIG


def start(words, environment, **files):
    """A Popen with these variables beside the program's own; killed when the calling thread ends."""
    return subprocess.Popen(words, start_new_session=True, preexec_fn=_end_with_parent,
                            env={**os.environ, **environment}, **files)


def stop(process):
    """Ends it and what it has started, by force after 5 s."""
    for how, limit in ((signal.SIGTERM, 5), (signal.SIGKILL, 10)):
        if process.poll() is not None:
            return
        with contextlib.suppress(OSError):
            os.killpg(process.pid, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(limit)


def why_ended(code, said):
    """One line: what it said last, or how it ended."""
    lines = said.strip().splitlines()
    return f"ended by signal {-code}" if code < 0 else lines[-1] if lines else f"exit code {code}"
