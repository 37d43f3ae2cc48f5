# SPDX-License-Identifier: Apache-2.0
"""The C ABI of libgsched_client: its structs, its functions and its errors."""

from __future__ import annotations

import ctypes
import re
import threading
from typing import Any

from ._abi import GschedError, _Struct, f64, i64, open_library, pointer, text, u32, u64

ABI = 1
OK, BAD_ARGUMENT, CLOSED, TIMED_OUT, FULL = 0, 1, 6, 7, 11
WAITS = ("hybrid", "polling", "waiting")
OUTCOMES = ("unknown", "finished", "failed", "rejected", "cancelled", "refused")
REASONS = ("", "unknown_model", "bad_range", "wrong_size", "overlap", "over_in_flight", "over_bytes",
           "over_rate", "bad_option", "server_closed", "device_failed", "job_failed", "out_of_memory",
           "deadline", "by_client", "model_removed")


class gsched_client_options(_Struct):
    _fields_ = [("size", u32), ("slots", u32), ("arena_bytes", u64), ("wait", u32), ("reserved", u32),
                ("poll_before_us", f64), ("poll_for_us", f64), ("connect_within_us", f64)]


class gsched_client_model(_Struct):
    _fields_ = [("size", u32), ("id", u32), ("input_bytes", u64), ("output_bytes", u64),
                ("name", ctypes.c_char * 192)]


class gsched_client_request(_Struct):
    _fields_ = [("size", u32), ("real_time", u32), ("deadline_us", f64)]


class gsched_client_result(_Struct):
    _fields_ = [("size", u32), ("outcome", u32), ("id", u64), ("reason", u32), ("segments", u32),
                ("waited_us", f64), ("latency_us", f64), ("error", ctypes.c_char * 192)]


_P, _int = ctypes.POINTER, ctypes.c_int
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {  # name: (result, arguments)
    "gsched_client_version": (text, []),
    "gsched_client_abi": (u32, []),
    "gsched_client_last_error": (text, []),
    "gsched_client_default_options": (_int, [_P(gsched_client_options)]),
    "gsched_client_connect": (_int, [text, _P(gsched_client_options), _P(pointer)]),
    "gsched_client_close": (_int, [pointer]),
    "gsched_client_release": (_int, [pointer]),
    "gsched_client_models": (_int, [pointer, _P(gsched_client_model), u32, _P(u32)]),
    "gsched_client_find_model": (_int, [pointer, text, _P(gsched_client_model)]),
    "gsched_client_allocate": (_int, [pointer, u64, _P(pointer)]),
    "gsched_client_free": (_int, [pointer, pointer]),
    "gsched_client_predict": (_int, [pointer, u32, pointer, u64, _P(gsched_client_request), _P(u64)]),
    "gsched_client_cancel": (_int, [pointer, u64]),
    "gsched_client_read_result": (_int, [pointer, _P(gsched_client_result), i64]),
    "gsched_client_in_flight": (_int, [pointer, _P(u64), _P(u32)]),
}



def name_of(names: tuple[str, ...], value: int) -> str:
    """Of an outcome or a reason; that of a later library is unknown here."""
    return names[value] if value < len(names) else "unknown"


library: Any = None
_library_lock = threading.RLock()


def load_library() -> Any:
    """libgsched_client, loaded once: the file that GSCHED_CLIENT_LIBRARY names, or where open_library
    looks."""
    global library
    with _library_lock:
        if library is None:
            library = open_library("gsched_client", "GSCHED_CLIENT_LIBRARY",
                                   "build/release/tools/client", FUNCTIONS, "gsched_client_abi", ABI)
        return library


def last_line() -> str:
    """The error line of this thread's last failed call, with the names of this package."""
    line: str = library.gsched_client_last_error().decode(errors="replace")
    return re.sub(r"\b(\w+)_us\b", r"\1", line)


def check(code: int) -> None:
    if code != OK:
        raise GschedError(last_line(), code)
