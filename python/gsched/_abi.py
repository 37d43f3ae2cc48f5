# SPDX-License-Identifier: Apache-2.0
"""The C ABI of libgsched_c: its structs and functions, and the library."""

import ctypes
import ctypes.util
import os
import pathlib
import threading

ABI = 1
OK, BAD_ARGUMENT, DEVICE_FAILED, CLOSED, TIMED_OUT = 0, 1, 5, 6, 7
STATES = ("pending", "finished", "failed", "rejected", "cancelled")
DRAIN, CANCEL = 0, 1


class GschedError(RuntimeError):
    """What went wrong, in one line. `code` is a gsched_code of gsched_c.h, or None."""

    def __init__(self, line, code=None):
        super().__init__(line)
        self.code = code


class _Struct(ctypes.Structure):
    """A struct that begins with its size."""

    def __init__(self, **fields):
        super().__init__(size=ctypes.sizeof(type(self)), **fields)


u32, i32, u64, i64 = ctypes.c_uint32, ctypes.c_int32, ctypes.c_uint64, ctypes.c_int64
f64, text, pointer = ctypes.c_double, ctypes.c_char_p, ctypes.c_void_p


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
                ("slice_us", f64)]


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
                ("reserved_segments", u64), ("hanging", u64), ("found_to_need_sms", u64)]


class gsched_profile_options(_Struct):
    _fields_ = [("size", u32), ("gpu", i32), ("model", text), ("dtype", text), ("batch", u32),
                ("runs", u32), ("input_bytes", u64), ("output_bytes", u64)]


_P = ctypes.POINTER
FUNCTIONS = {  # name: (result, arguments)
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
    "gsched_get_statistics": (ctypes.c_int, [pointer, _P(gsched_statistics)]),
    "gsched_profile_graph": (ctypes.c_int, [pointer, _P(gsched_profile_options), text]),
}

library = None
_library_lock = threading.RLock()


def _candidates():
    named = os.environ.get("GSCHED_C_LIBRARY")
    if named:
        return [named]
    here = pathlib.Path(__file__).resolve().parent
    files = [here / "libgsched_c.so"]
    if len(here.parents) > 1:
        files.append(here.parents[1] / "build" / "release" / "cuda" / "c" / "libgsched_c.so")
    found = [str(f) for f in files if f.is_file()]
    return found or [n for n in [ctypes.util.find_library("gsched_c")] if n]


def load_library():
    """The library, loaded and checked once. Called by everything here that needs it."""
    global library
    with _library_lock:
        if library is not None:
            return library
        candidates = _candidates()
        if not candidates:
            raise GschedError("libgsched_c.so: not found, expected in the package, in "
                              "build/release/cuda/c, or where GSCHED_C_LIBRARY says")
        try:
            loaded = ctypes.CDLL(candidates[0])
            for name, (result, arguments) in FUNCTIONS.items():
                function = getattr(loaded, name)
                function.restype, function.argtypes = result, arguments
        except (OSError, AttributeError) as e:
            raise GschedError(f"{candidates[0]}: cannot be used, expected libgsched_c: "
                              f"{str(e).splitlines()[0]}") from None
        if loaded.gsched_abi() != ABI:
            raise GschedError(f"{candidates[0]}: ABI {loaded.gsched_abi()}, expected {ABI}")
        library = loaded
        return library


def check(code):
    if code != OK:
        raise GschedError(library.gsched_last_error().decode(errors="replace"), code)


def microseconds(seconds):
    """None is without limit."""
    return -1 if seconds is None else max(0, min(int(seconds * 1e6), 1 << 60))
