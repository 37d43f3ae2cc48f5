# SPDX-License-Identifier: Apache-2.0
"""Undoes the slowdown of graphs that docs/research/cliff.md describes."""

from __future__ import annotations

import ctypes
import subprocess
import sys

from ._abi import GschedError


def leave_slow_side(gpu: int = 0, timeout: float = 60) -> None:
    """Make graphs of small kernels replay as fast as in a new process.

    A process that has launched kernels directly on several streams, such as a warm-up on side streams,
    replays its graphs more slowly from then on (docs/research/cliff.md). When another process creates a context
    on the GPU, replays are fast again until the next such launches. This function runs such a process,
    which takes about half a second. Call it when all eager work is done.

    Parameters
    ----------
    gpu : int
        The number of the GPU.
    timeout : float
        Seconds that the other process may take.

    Raises
    ------
    GschedError
        If the other process could not make a context.
    subprocess.TimeoutExpired
        If it took too long.
    """
    made = subprocess.run(
        [sys.executable, "-c", OTHER_CONTEXT, str(gpu)], timeout=timeout, check=False,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if made.returncode != 0:
        raise GschedError(f"another context on GPU {gpu}: not made, expected one by a process of "
                          f"{sys.executable}: {made.stderr.strip().splitlines()[-1:]}")


OTHER_CONTEXT = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
gpu, context = ctypes.c_int(), ctypes.c_void_p()
for answer in (cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(gpu), int(sys.argv[1])),
               cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), gpu),
               cuda.cuCtxSetCurrent(context), cuda.cuCtxSynchronize()):
    assert answer == 0, f"CUDA code {answer}"
"""
