# SPDX-License-Identifier: Apache-2.0
"""Starts NVIDIA's MPS for the processes of one program, and ends it with that program."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

NAME = "nvidia-cuda-mps-control"


class NotAvailable(RuntimeError):
    """Why there is no MPS here, in one line."""


def _ask(environment, folder, words, command, limit):
    """The exit code and the output of the control program; output by a file, as a daemon keeps its
    standard output open."""
    output = pathlib.Path(folder) / "asked"
    with open(output, "wb") as to:
        done = subprocess.run([NAME, *words], input=command.encode(), stdout=to,
                              stderr=subprocess.STDOUT, env={**os.environ, **environment},
                              timeout=limit, check=False)
    return done.returncode, output.read_text(errors="replace").strip()


def _end(folder):
    """Ends the daemon of that folder, by the number that it wrote there, if it still runs."""
    def runs():
        try:
            number = int((pathlib.Path(folder) / f"{NAME}.pid").read_text())
            command = pathlib.Path(f"/proc/{number}/cmdline").read_bytes() # empty once it has ended
        except (OSError, ValueError):
            return None
        return number if NAME.encode() in command else None

    for how, limit in ((None, 2), (signal.SIGTERM, 3), (signal.SIGKILL, 3)):
        if how is not None and (number := runs()):
            with contextlib.suppress(OSError):
                os.kill(number, how)
        until = time.monotonic() + limit
        while runs() and time.monotonic() < until:
            time.sleep(0.05)


@contextlib.contextmanager
def control_daemon(limit=20.0):
    """The environment of processes that use it. A daemon that runs already is left alone. Each
    step has `limit` seconds; raises NotAvailable."""
    if shutil.which(NAME) is None:
        raise NotAvailable(f"{NAME} is not on the path")
    with tempfile.TemporaryDirectory(prefix="mps", ignore_cleanup_errors=True) as folder:
        environment = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        try:
            for words, command in ((["-d"], ""), ([], "get_server_list\n")):
                code, text = _ask(environment, folder, words, command, limit)
                if code != 0 or "cannot" in text.lower():
                    said = text.splitlines()[0] if text else f"exit code {code}"
                    raise NotAvailable(f"{NAME}: {said}")
            yield environment
        except subprocess.TimeoutExpired:
            raise NotAvailable(f"{NAME} did not answer within {limit:g} s") from None
        finally:
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                _ask(environment, folder, [], "quit\n", limit)
            _end(folder)
