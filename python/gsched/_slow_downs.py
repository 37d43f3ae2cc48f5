# SPDX-License-Identifier: Apache-2.0
"""Measured slow-downs of models beside each other."""

from __future__ import annotations

import json
import math
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Never

from ._abi import BAD_ARGUMENT, GschedError, shown

COLUMNS = ["model_a", "batch_a", "sms_a", "solo_a_us", "corun_a_us",
           "model_b", "batch_b", "sms_b", "solo_b_us", "corun_b_us"]
Side = tuple[str, int, float] # name, SMs, slow-down


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
    file = pathlib.Path(path)
    device = _sms_of(file.with_name("machine.json"))
    found: dict[tuple[str, str], float] = {}
    seen = set()
    for where, a, b in _pairs_in(file):
        shares = a[1] == b[1] == device
        if not shares and a[1] + b[1] > device:
            _refuse(where, f"{a[1]} and {b[1]} SMs", f"all {device} for both, or parts of them")
        if (a[:2], b[:2]) in seen:
            _refuse(where, f"{a[0]} beside {b[0]} is there twice", "each pair of batches and SMs once")
        seen.add((a[:2], b[:2]))
        for slowed, beside in ((a, b), (b, a)) if shares else ():
            pair = (slowed[0], beside[0])
            found[pair] = max(found.get(pair, 0.0), slowed[2])
    if not found:
        _refuse(file, f"no pair on all {device} SMs", "at least one")
    return found


def _refuse(where: object, wrong: str, expected: str) -> Never:
    raise GschedError(f"{where}: {wrong}, expected {expected}", BAD_ARGUMENT) from None


def _text_of(file: pathlib.Path, expected: str) -> str:
    try:
        return file.read_text("utf-8-sig")
    except OSError as e:
        _refuse(file, e.strerror or "cannot be read", expected)
    except ValueError:
        _refuse(file, "no text in UTF-8", expected)


def _sms_of(file: pathlib.Path) -> int:
    expected = "the file that gsched.measure writes beside its pairs"
    try:
        sms = json.loads(_text_of(file, expected))["sms"]
    except (ValueError, LookupError, TypeError, RecursionError):
        sms = None
    if not isinstance(sms, int) or sms < 1:
        _refuse(file, "no number of SMs in it", expected)
    return sms


def _pairs_in(file: pathlib.Path) -> Iterator[tuple[str, Side, Side]]:
    """(file and line, side, side) of each pair."""
    header, *rows = [line.split(",") for line in _text_of(file, "a CSV file").split("\n")]
    for column in COLUMNS:
        if header.count(column) != 1:
            _refuse(f"{file}:1", f"{header.count(column)} columns {column}", ",".join(COLUMNS))
    at = [header.index(column) for column in COLUMNS]
    for number, row in enumerate(rows, 2):
        where = f"{file}:{number}"
        if row == [""]:
            continue
        if len(row) != len(header):
            _refuse(where, f"{len(row)} fields", str(len(header)))
        fields = [row[i] for i in at]
        yield where, _side_of(where, *fields[:5]), _side_of(where, *fields[5:])


def _side_of(where: str, model: str, batch: str, sms: str, solo: str, corun: str) -> Side:
    if not model or not model.isprintable():
        _refuse(where, shown(model), "a name that can be printed")
    return f"{model}_b{_count(where, batch)}", _count(where, sms), _us(where, corun) / _us(where, solo)


def _count(where: str, text: str) -> int:
    if not re.fullmatch("0*[1-9][0-9]{0,8}", text):
        _refuse(where, shown(text), "a whole number from 1")
    return int(text)


def _us(where: str, text: str) -> float:
    try:
        us = float(text)
    except ValueError:
        us = math.nan
    if not 1e-3 <= us <= 3.6e9:
        _refuse(where, shown(text), "a number from 0.001 to 3.6e+09")
    return us
