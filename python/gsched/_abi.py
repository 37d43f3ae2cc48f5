# SPDX-License-Identifier: Apache-2.0
"""The C ABI of libgsched_c: its structs, its functions, its units and its errors."""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import operator
import os
import pathlib
import re
import threading
from typing import Any

ABI = 1
OK, BAD_ARGUMENT, DEVICE_FAILED, CLOSED, TIMED_OUT, ENDED = 0, 1, 5, 6, 7, 8
STATES = ("pending", "finished", "failed", "rejected", "cancelled")
DRAIN, CANCEL = 0, 1


class GschedError(RuntimeError):
    """An error of gsched, in one line.

    Parameters
    ----------
    line : str
        What is wrong, and what was expected.
    code : int, optional
        A ``gsched_code`` of ``gsched_c.h``; of a `Client`, a ``gsched_client_code`` of
        ``gsched_client.h``.

    Attributes
    ----------
    code : int or None
        The parameter `code`.
    """

    code: int | None

    def __init__(self, line: str, code: int | None = None) -> None:
        super().__init__(line)
        self.code = code


class _Struct(ctypes.Structure):
    """A struct that begins with its size."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(size=ctypes.sizeof(type(self)), **fields)


u32, i32, u64, i64 = ctypes.c_uint32, ctypes.c_int32, ctypes.c_uint64, ctypes.c_int64
f64, text, pointer = ctypes.c_double, ctypes.c_char_p, ctypes.c_void_p


class gsched_slow_down(ctypes.Structure):
    _fields_ = [("model", text), ("beside", text), ("by", f64)]


class gsched_slow_down_limit(ctypes.Structure):
    _fields_ = [("model", text), ("most", f64)]


class gsched_server_options(_Struct):
    _fields_ = [("size", u32), ("gpu", i32), ("policy", text), ("lanes", u32),
                ("segments_per_job", u32), ("quantum_us", f64), ("most_quantum_us", f64),
                ("low_mark_us", f64), ("high_mark_us", f64), ("overshoot", f64),
                ("threshold_us", f64), ("decision_delay_us", f64), ("slo_us", f64),
                ("spin_us", f64), ("max_jobs", u64), ("watchdog_ms", u32),
                ("instrumented", u32), ("time_driver", u32), ("spare_lanes", u32),
                ("real_time_lanes", u32), ("yields", u32), ("floor", f64), ("tolerance", f64),
                ("side_sms", u32 * 4), ("lease_us", f64), ("reserve_sms", u32 * 4),
                ("reserve_fixed", u32), ("one_long", u32), ("long_kernel_us", f64),
                ("reserve_slow_down", f64), ("reserve_tail", f64), ("reserve_share", f64),
                ("slice_us", f64), ("slow_downs", ctypes.POINTER(gsched_slow_down)),
                ("slow_downs_count", u32), ("unknown_apart", u32), ("slow_down_limit", f64),
                ("apart_wait_us", f64), ("slow_down_limits", ctypes.POINTER(gsched_slow_down_limit)),
                ("slow_down_limits_count", u32), ("reserved", u32)]


class gsched_buffer(ctypes.Structure):
    _fields_ = [("device", pointer), ("bytes", u64)]


class gsched_instance(_Struct):
    _fields_ = [("size", u32), ("reserved", u32), ("graph", pointer),
                ("inputs", ctypes.POINTER(gsched_buffer)),
                ("outputs", ctypes.POINTER(gsched_buffer))]


class gsched_model(_Struct):
    _fields_ = [("size", u32), ("instances_count", u32),
                ("instances", ctypes.POINTER(gsched_instance)), ("name", text), ("inputs", u32),
                ("outputs", u32), ("durations_us", ctypes.POINTER(f64)),
                ("durations_count", u32), ("unmeasured", u32),
                ("excludes", ctypes.POINTER(u32)), ("excludes_count", u32), ("exclusive", u32)]


class gsched_model_facts(_Struct):
    _fields_ = [("size", u32), ("instances", u32), ("operations", u64), ("segments", u64),
                ("device_bytes", u64), ("graphs", u64), ("nodes", u64), ("measure_ms", f64),
                ("build_ms", f64), ("expected_us", f64), ("graph_replay_us", f64)]


class gsched_request(_Struct):
    _fields_ = [("size", u32), ("model", u32), ("client", u32), ("real_time", u32),
                ("arrival_ns", u64), ("deadline_us", f64), ("inputs", ctypes.POINTER(pointer)),
                ("outputs", ctypes.POINTER(pointer)), ("done", pointer), ("user", pointer),
                ("collected", u32), ("reserved", u32), ("wait_event", pointer),
                ("signal_event", pointer), ("after", pointer), ("wait_stream", pointer)]


class gsched_report(_Struct):
    _fields_ = [("size", u32), ("state", u32), ("arrival_ns", u64), ("start_ns", u64),
                ("end_ns", u64), ("segments", u32), ("instance", u32), ("user", pointer),
                ("error", text), ("code", u32), ("reserved", u32)]


class gsched_statistics(_Struct):
    _fields_ = [("size", u32), ("reserved", u32), ("submitted", u64), ("active", u64),
                ("finished", u64), ("failed", u64), ("rejected", u64), ("cancelled", u64),
                ("decisions", u64), ("segments", u64), ("operations", u64),
                ("graph_launches", u64), ("built_late", u64), ("host_ns", u64),
                ("driver_ns", u64), ("sleeps", u64), ("preemptions", u64), ("restores", u64),
                ("preempt_p50_us", f64), ("preempt_p99_us", f64), ("restore_p50_us", f64),
                ("restore_p99_us", f64), ("expired_leases", u64), ("opened", u64),
                ("reserved_segments", u64), ("hanging", u64), ("found_to_need_sms", u64),
                ("kept_apart", u64), ("apart_wait_ns", u64)]


class gsched_profile_options(_Struct):
    _fields_ = [("size", u32), ("gpu", i32), ("model", text), ("dtype", text), ("batch", u32),
                ("runs", u32), ("input_bytes", u64), ("output_bytes", u64)]


class gsched_channel_options(_Struct):
    _fields_ = [("size", u32), ("mode", u32), ("most_clients", u32), ("in_flight", u32),
                ("bytes", u64), ("rate", f64), ("burst", f64), ("weight", f64)]


class gsched_plan_options(_Struct):
    _fields_ = [("size", u32), ("gpu", i32), ("table", text), ("planner", text),
                ("interference", text), ("solo", text), ("sms", u32), ("replans", u32),
                ("period_us", f64), ("headroom", f64), ("clusters", f64), ("tolerance", f64),
                ("fall", f64), ("added_us", f64), ("spin_us", f64), ("watchdog_ms", u32),
                ("spare", u32), ("at_once", u32), ("learns", u32), ("profiles", text), ("libraries", text),
                ("gpus", ctypes.POINTER(i32)), ("gpus_count", u32), ("reserved", u32)]


class gsched_plan_graph(_Struct):
    _fields_ = [("size", u32), ("batch", u32), ("graph", pointer),
                ("inputs", ctypes.POINTER(gsched_buffer)),
                ("outputs", ctypes.POINTER(gsched_buffer)), ("gpu", u32), ("reserved", u32)]


class gsched_plan_model(_Struct):
    _fields_ = [("size", u32), ("graphs_count", u32), ("graphs", ctypes.POINTER(gsched_plan_graph)),
                ("name", text), ("inputs", u32), ("outputs", u32), ("slo_us", f64), ("rate", f64)]


class gsched_plan_report(_Struct):
    _fields_ = [("size", u32), ("partitions", u32), ("sms", u32), ("idle_sms", u32),
                ("factor", f64), ("batches", u64), ("switches", u64), ("failed_plans", u64),
                ("last_failure", ctypes.c_char * 256), ("warning", ctypes.c_char * 512),
                ("beyond_fit", ctypes.c_char * 256), ("reason", ctypes.c_char * 16)]


class gsched_plan_model_report(_Struct):
    _fields_ = [("size", u32), ("too_slow", u32), ("arrived", u64), ("in_time", u64), ("late", u64),
                ("dropped", u64), ("cancelled", u64), ("waiting", u64), ("running", u64),
                ("batches", u64), ("rate", f64), ("p50_us", f64), ("p99_us", f64),
                ("slow_down", f64), ("sensitivity", f64), ("pressure", f64), ("learned_from", u64),
                ("sensitivity_error", f64), ("pressure_error", f64), ("host_part", f64),
                ("time_factor", f64), ("rate_factor", f64), ("partitions", u32), ("sms", u32)]


_P = ctypes.POINTER
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {  # name: (result, arguments)
    "gsched_version": (text, []),
    "gsched_abi": (u32, []),
    "gsched_last_error": (text, []),
    "gsched_now_ns": (u64, []),
    "gsched_policy_names": (text, []),
    "gsched_default_options": (ctypes.c_int, [_P(gsched_server_options)]),
    "gsched_server_open": (ctypes.c_int, [_P(gsched_server_options), _P(pointer)]),
    "gsched_server_close": (ctypes.c_int, [pointer, ctypes.c_int, i64]),
    "gsched_server_release": (ctypes.c_int, [pointer]),
    "gsched_add_client": (ctypes.c_int, [pointer, f64, _P(u32)]),
    "gsched_add_model": (ctypes.c_int, [pointer, _P(gsched_model), _P(u32)]),
    "gsched_remove_model": (ctypes.c_int, [pointer, u32, i64]),
    "gsched_get_model_facts": (ctypes.c_int, [pointer, u32, _P(gsched_model_facts)]),
    "gsched_submit": (ctypes.c_int, [pointer, _P(gsched_request), _P(pointer)]),
    "gsched_wait": (ctypes.c_int, [pointer, i64]),
    "gsched_cancel": (ctypes.c_int, [pointer]),
    "gsched_status": (ctypes.c_int, [pointer, _P(gsched_report)]),
    "gsched_release": (None, [pointer]),
    "gsched_watch": (ctypes.c_int, [pointer]),
    "gsched_collect": (ctypes.c_int, [pointer, _P(pointer), u32, _P(u32), i64]),
    "gsched_get_statistics": (ctypes.c_int, [pointer, _P(gsched_statistics)]),
    "gsched_default_channel_options": (ctypes.c_int, [_P(gsched_channel_options)]),
    "gsched_channel_open": (ctypes.c_int, [pointer, text, _P(gsched_channel_options), _P(pointer)]),
    "gsched_channel_offer": (ctypes.c_int, [pointer, u32, text]),
    "gsched_channel_withdraw": (ctypes.c_int, [pointer, u32]),
    "gsched_channel_close": (ctypes.c_int, [pointer]),
    "gsched_default_plan_options": (ctypes.c_int, [_P(gsched_plan_options)]),
    "gsched_plan_open": (ctypes.c_int, [_P(gsched_plan_options), _P(gsched_plan_model), u32,
                                        _P(pointer)]),
    "gsched_get_plan_report": (ctypes.c_int, [pointer, _P(gsched_plan_report)]),
    "gsched_get_plan_model_report": (ctypes.c_int, [pointer, u32, _P(gsched_plan_model_report)]),
    "gsched_profile_graph": (ctypes.c_int, [pointer, _P(gsched_profile_options), text]),
    "gsched_load_slow_downs": (ctypes.c_int, [text, _P(_P(gsched_slow_down)), _P(u32)]),
    "gsched_predict_slow_downs": (ctypes.c_int, [text, text, text, _P(_P(gsched_slow_down)),
                                                 _P(u32)]),
    "gsched_slow_downs_beyond_fit": (text, [_P(gsched_slow_down)]),
    "gsched_free_slow_downs": (None, [_P(gsched_slow_down)]),
}

# These read some words and wait for nothing, so the thread keeps the interpreter lock. To have it again takes
# up to 5 ms where other threads are busy, and each request asks for its status at least once.
AT_ONCE = ("gsched_status",)

library: Any = None
_library_lock = threading.RLock()


def open_library(name: str, variable: str, built: str, functions: dict[str, tuple[Any, list[Any]]],
                 abi_of: str, abi: int) -> Any:
    """The library `name`, its functions with their types, of this ABI. It is the file that the environment
    variable names; without it that in the package, then that in the folder `built` of the checkout that
    holds the package, then that of the system's loader. Those of AT_ONCE keep the interpreter lock."""
    named, here = os.environ.get(variable), pathlib.Path(__file__).resolve().parent
    files = [here / f"lib{name}.so"]
    if len(here.parents) > 1:
        files.append(here.parents[1] / built / f"lib{name}.so")
    found = [named] if named else [str(f) for f in files if f.is_file()]
    found = found or [n for n in [ctypes.util.find_library(name)] if n]
    if not found:
        raise GschedError(f"lib{name}.so: not found, expected in the package, in {built}, or where "
                          f"{variable} says")
    try:
        loaded, keeping_the_lock = ctypes.CDLL(found[0]), ctypes.PyDLL(found[0])
        for function_name, (result, arguments) in functions.items():
            if function_name in AT_ONCE:
                setattr(loaded, function_name, getattr(keeping_the_lock, function_name))
            function = getattr(loaded, function_name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as e:
        raise GschedError(f"{found[0]}: cannot be used, expected lib{name}: "
                          f"{str(e).splitlines()[0]}") from None
    if getattr(loaded, abi_of)() != abi:
        raise GschedError(f"{found[0]}: ABI {getattr(loaded, abi_of)()}, expected {abi}")
    return loaded


def load_library() -> Any:
    """Load libgsched_c and check its ABI, once.

    Everything that needs the library calls this; `Client` needs another one. The library is the file
    that the environment variable ``GSCHED_C_LIBRARY`` names; without it ``libgsched_c.so`` in the
    package, then that in ``build/release/cuda/c`` of the checkout that holds the package, then that of
    the system's loader.

    Returns
    -------
    ctypes.CDLL
        The library, its functions with their types.

    Raises
    ------
    GschedError
        If there is no library, or one that cannot be loaded, or one of another ABI.
    """
    global library
    with _library_lock:
        if library is None:
            library = open_library("gsched_c", "GSCHED_C_LIBRARY", "build/release/cuda/c", FUNCTIONS,
                                   "gsched_abi", ABI)
        return library


# Units: seconds here, whole numbers or floats of _us, _ms and _ns there ---------------------------

_PER_SECOND = {"_us": 1e6, "_ms": 1e3, "_ns": 1e9}


def in_python(field: str) -> tuple[str, float | None]:
    """The name of a field in this package, and its units per second; None if it is not a time."""
    per_second = _PER_SECOND.get(field[-3:])
    return (field, None) if per_second is None else (field[:-3], per_second)


_TIMES = {field: in_python(field) for struct in (
    gsched_server_options, gsched_model_facts, gsched_request, gsched_report, gsched_statistics,
    gsched_plan_options, gsched_plan_model, gsched_plan_model_report)
    for field, *_ in struct._fields_ if in_python(field)[1] is not None}


def expected_instead(name: str) -> str | None:
    """An error line for a name of the C ABI that has a unit; None for other names."""
    if name not in _TIMES:
        return None
    return f"{name}: expected {_TIMES[name][0]}, in seconds"


class Facts(dict[str, Any]):
    """The fields of a struct of the C ABI, times in seconds. Names with units are refused."""

    def __missing__(self, name: str) -> Any:
        raise KeyError(expected_instead(name) or name)


def facts_of(struct: ctypes.Structure, without: tuple[str, ...] = ("size", "reserved")) -> Facts:
    facts = Facts()
    for field, *_ in struct._fields_:
        if field not in without:
            name, per_second = in_python(field)
            value = getattr(struct, field)
            facts[name] = value if per_second is None else value / per_second
    return facts


def last_line() -> str:
    """The error line of this thread's last failed call, with the names of this package."""
    line = library.gsched_last_error().decode(errors="replace")
    return re.sub(r"\b\w+_[umn]s\b", lambda found: _TIMES.get(found[0], (found[0],))[0], line)


def last_line_in_seconds() -> str:
    """last_line() of a call with options: the numbers after the name of a time are seconds."""
    line = library.gsched_last_error().decode(errors="replace")
    found = re.match(r"(\w+)(:? )(.*)", line, re.DOTALL)
    if not found or found[1] not in _TIMES:
        return last_line()
    name, per_second = _TIMES[found[1]]
    rest = re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?",
                  lambda number: f"{float(number[0]) / (per_second or 1):.6g}", found[3])
    return f"{name}{found[2]}{rest}, in seconds"


def check(code: int) -> None:
    if code != OK:
        raise GschedError(last_line(), code)


# Arguments, as the library takes them; a GschedError for those that it cannot take --------------

def shown(value: Any) -> str:
    """A value in an error line."""
    try:
        text = repr(value)
    except ValueError: # an int of more than 4300 digits
        return "a number of too many digits"
    return text if len(text) <= 100 else text[:97] + "..."


def number_in_c(name: str, value: Any, kind: Any, per_second: float | None = None) -> Any:
    """A number, or a sequence of them, in the units and the type of its field."""
    try:
        return _converted(value, kind, per_second)
    except (TypeError, ValueError, OverflowError):
        raise GschedError(f"{name}: {shown(value)}, expected {_expected(kind)}", BAD_ARGUMENT) from None


def _converted(value: Any, kind: Any, per_second: float | None) -> Any:
    """A ValueError for what ctypes would truncate."""
    if issubclass(kind, ctypes.Array):
        numbers = tuple(_converted(each, kind._type_, None) for each in value)
        if len(numbers) > kind._length_:
            raise ValueError
        return numbers
    if per_second is not None:
        value = round(value * per_second, 3) # to the nanosecond
    if kind is f64:
        return f64(value).value
    number = int(value) if per_second is not None else operator.index(value)
    if kind(number).value != number:
        raise ValueError
    return number


def _expected(kind: Any) -> str:
    if issubclass(kind, ctypes.Array):
        return f"up to {kind._length_} whole numbers"
    return "a number" if kind is f64 else "a number from 0"


def name_in_c(what: str, value: Any) -> bytes:
    with contextlib.suppress(UnicodeEncodeError):
        if isinstance(value, str) and "\0" not in value:
            return value.encode()
    raise GschedError(f"{what}: {shown(value)}, expected a name without zero bytes", BAD_ARGUMENT)


def path_in_c(what: str, value: Any) -> bytes:
    path = os.fsencode(value)
    if b"\0" in path:
        raise GschedError(f"{what}: a zero byte in its path, expected none", BAD_ARGUMENT)
    return path


def moment_in_c(name: str, seconds: float) -> int:
    """A point in time of time.monotonic, in nanoseconds."""
    try:
        return int(_converted(max(round(seconds * 1e9), 0), u64, None))
    except (TypeError, ValueError, OverflowError):
        raise GschedError(f"{name}: {shown(seconds)}, expected seconds", BAD_ARGUMENT) from None


def microseconds(seconds: float | None) -> int:
    """The timeout of a call of the library. None is without limit."""
    return -1 if seconds is None else max(0, min(int(seconds * 1e6), 1 << 60))
