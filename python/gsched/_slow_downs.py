# SPDX-License-Identifier: Apache-2.0
"""Measured slow-downs of models beside each other."""

from __future__ import annotations

import ctypes
import os

from ._abi import BAD_ARGUMENT, GschedError, check, gsched_slow_down, load_library, path_in_c, u32


def load_slow_downs(path: str | os.PathLike[str]) -> dict[tuple[str, str], float]:
    """Read the slow-downs of models beside each other from measured pairs.

    Only pairs whose graphs have all SMs of the GPU count.

    Parameters
    ----------
    path : str or os.PathLike
        The file ``corun_pairs.csv`` of ``python -m gsched.measure pairs``. The file ``machine.json``
        beside it has the number of SMs.

    Returns
    -------
    dict
        The option `slow_downs` of a `Server`. A model is named ``NAME_bBATCH``, as its profile is.

    Raises
    ------
    GschedError
        If one of the files cannot be read or is wrong, or no pair has all SMs.
    """
    library = load_library()
    rows, count = ctypes.POINTER(gsched_slow_down)(), u32()
    check(library.gsched_load_slow_downs(path_in_c("path", path), ctypes.byref(rows),
                                         ctypes.byref(count)))
    try:
        return {(row.model.decode(), row.beside.decode()): row.by for row in rows[:count.value]}
    except UnicodeDecodeError:
        raise GschedError(f"{os.fspath(path)}: a name is no text in UTF-8, expected one that is",
                          BAD_ARGUMENT) from None
    finally:
        library.gsched_free_slow_downs(rows)
