# SPDX-License-Identifier: Apache-2.0
"""Measured and predicted slow-downs of models beside each other."""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from ._abi import (BAD_ARGUMENT, GschedError, check, gsched_slow_down, load_library, name_in_c, path_in_c,
                   u32)


def table_of(path: str | os.PathLike[str], call: Callable[[Any, Any], Any]) -> dict[tuple[str, str], float]:
    """What the library writes when it is called with two places, for rows and their number."""
    rows, count = ctypes.POINTER(gsched_slow_down)(), u32()
    check(call(ctypes.byref(rows), ctypes.byref(count)))
    try:
        if beyond := load_library().gsched_slow_downs_beyond_fit(rows):
            warnings.warn("slow-downs predicted beyond what the fit of the law has seen: "
                          + beyond.decode(errors="replace"), RuntimeWarning, stacklevel=3)
        return {(row.model.decode(), row.beside.decode()): row.by for row in rows[:count.value]}
    except UnicodeDecodeError:
        raise GschedError(f"{os.fspath(path)}: a name is no text in UTF-8, expected one that is",
                          BAD_ARGUMENT) from None
    finally:
        load_library().gsched_free_slow_downs(rows)


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
    pairs = path_in_c("path", path)
    return table_of(path, lambda rows, count: load_library().gsched_load_slow_downs(pairs, rows, count))


def predict_slow_downs(profiles: str | os.PathLike[str], law: str | os.PathLike[str],
                       models: Iterable[str] | None = None) -> dict[tuple[str, str], float]:
    """Predict the slow-downs of models beside each other from the counters of their kernels.

    Of each model beside each, itself too, when they share all SMs. It takes 0.06 to 0.2 s of a core for
    each pair, on all cores.

    Parameters
    ----------
    profiles : str or os.PathLike
        A folder of profiles, ``NAME_bBATCH.json``, as ``python -m gsched.measure counters`` writes them,
        with ``machine.json`` in it or one folder above.
    law : str or os.PathLike
        A file of coefficients: ``interference/h200.json`` of the data that ships, or what ``interference
        fit --out`` writes.
    models : iterable of str, optional
        Which profiles, by their names ``NAME_bBATCH``. None: all of the folder.

    Returns
    -------
    dict
        The option `slow_downs` of a `Server`.

    Raises
    ------
    GschedError
        If a file cannot be read or is wrong, a profile lacks counters, or the law is of another GPU.

    Warns
    -----
    RuntimeWarning
        If models together take more of something than the fit of the law has seen: such predictions are
        extrapolations.
    """
    folder, coefficients = path_in_c("profiles", profiles), path_in_c("law", law)
    if isinstance(models, str):
        raise GschedError(f"models: {models!r}, expected several names", BAD_ARGUMENT)
    names = None if models is None else b",".join(name_in_c("models", name) for name in models)
    return table_of(profiles, lambda rows, count: load_library().gsched_predict_slow_downs(
        folder, coefficients, names, rows, count))
