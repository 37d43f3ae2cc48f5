# SPDX-License-Identifier: Apache-2.0
"""The options of a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from ._abi import (BAD_ARGUMENT, GschedError, expected_instead, f64, gsched_plan_options,
                   gsched_server_options, gsched_slow_down, gsched_slow_down_limit, in_python,
                   name_in_c, number_in_c, shown)


class ServerOptions(TypedDict, total=False):
    """The options of a `Server` besides `policy` and `gpu`; each has a default. Times are in seconds.

    Attributes
    ----------
    lanes : int
        Streams that segments go to, at most 128. Default 8.
    spare_lanes : int
        Additional lanes, which are used only while part of the GPU is idle. Default: 120 with 8
        lanes that all requests share, otherwise none.
    segments_per_job : int
        Segments of one request in flight at once. Default 2.
    quantum : float
        Time of a segment. Default 100e-6.
    most_quantum : float
        Segments grow to this while no other request waits. Default 800e-6.
    low_mark, high_mark : float
        Low and high watermark: a lane with less queued work than the low one is filled up to the high
        one. 0 is 120e-6 and 200e-6.
    overshoot : float
        Work submitted beyond a full GPU, in GPUs. Default 4.
    threshold : float
        Device time that a client may be owed under the policies with deficit. Default 10e-3.
    slice : float
        Time slice of a request under ``rr``. Default 100e-6.
    slo : float
        Deadline, from arrival, of requests without one. 0 is none, the default.
    max_jobs : int
        Active requests; more are rejected. Default 65536.
    spin : float
        Time that the dispatcher polls before it sleeps. Default 50e-6.
    watchdog : float
        A segment without progress for this long counts as hung, and its request fails. Default 10.
    decision_delay : float
        Busy time added to the dispatcher's thread for each segment, for experiments. Default 0.
    instrumented : int
        1: kernels with ``GSCHED_INSTRUMENT`` report their blocks. Default 0.
    time_driver : int
        1: ``driver`` of `Server.statistics` counts. Default 0.
    real_time_lanes : int
        Lanes of requests with `real_time`, which preempt the others. Default 0: they share lanes.
    yields : int
        1: other lanes stop between two kernels while a real-time request is active. 0: lanes only
        have priorities. Default 1.
    floor : float
        Share of the time that other requests always get. Default 0.
    tolerance : float
        Accepted slowdown of real-time requests by work on `side_sms`, as a fraction of their time.
        Default 0.05.
    side_sms : sequence of int
        Sizes of partitions for work beside real-time requests, up to four. Default none.
    lease : float
        A stopped lane resumes by itself after this time without an update from the dispatcher's
        thread, so that a stopped or dead process does not hold the GPU. Default 20e-3.
    one_long : int
        1: at most one long kernel is queued while a real-time request is expected. Default 0.
    long_kernel : float
        Duration from which a kernel counts as long. Default 100e-6.
    reserve_sms : sequence of int
        Numbers of SMs, rising, up to four. Models with long kernels run on a partition that leaves
        that many SMs to real-time requests. The server learns which number to use for each model.
        Default none.
    reserve_fixed : int
        1: always the first of `reserve_sms`. Default 0.
    reserve_slow_down, reserve_tail : float
        Accepted slowdown of real-time requests by such models, of the mean and the 99th percentile, as
        a fraction of the time alone. Defaults 0.10 and 0.50.
    reserve_share : float
        The fraction that other work keeps of the throughput that real-time requests leave.
        Default 0.80.
    slow_downs : mapping of (str, str) to float
        How much longer requests of the first model take beside the second one: their latency over that
        alone. Names are those of `Server.add_model`; a model may stand beside itself. `load_slow_downs`
        reads measured ones, and `predict_slow_downs` predicts them. Default none.
    slow_down_limit : float
        With `slow_downs`: a request waits while it, or one that runs, would be slowed more than
        this; at least 1. Beside several, the excesses (slow-down - 1) add up. Real-time requests
        never wait for that. Default 0: only models of `slow_down_limits` have one.
    slow_down_limits : mapping of str to float
        Models with other limits than `slow_down_limit`. Default none.
    unknown_apart : int
        1: two models without a slow-down are kept apart, and one that `slow_downs` does not name runs
        alone. 0: they run side by side. Default 0.
    apart_wait : float
        After this time others make room for a model that waits. Default 1e-3.
    """

    lanes: int
    spare_lanes: int
    segments_per_job: int
    quantum: float
    most_quantum: float
    low_mark: float
    high_mark: float
    overshoot: float
    threshold: float
    slice: float
    slo: float
    max_jobs: int
    spin: float
    watchdog: float
    decision_delay: float
    instrumented: int
    time_driver: int
    real_time_lanes: int
    yields: int
    floor: float
    tolerance: float
    side_sms: Sequence[int]
    lease: float
    one_long: int
    long_kernel: float
    reserve_sms: Sequence[int]
    reserve_fixed: int
    reserve_slow_down: float
    reserve_tail: float
    reserve_share: float
    slow_downs: Mapping[tuple[str, str], float]
    slow_down_limit: float
    slow_down_limits: Mapping[str, float]
    unknown_apart: int
    apart_wait: float


class PlanOptions(TypedDict, total=False):
    """The options of a `PlanServer` besides its parameters; each has a default. Times are in seconds.

    Attributes
    ----------
    sms : int
        SMs of each GPU to plan with. Default 0: all.
    replans : int
        1: the plan follows the rates. 0: the first plan stays. Default 1.
    period : float
        Time between two decisions on a plan. Default 20.
    headroom : float
        Plans are for so many times the measured rates. Default 1.2.
    clusters : float
        And for so many standard deviations of the requests within a goal more. Default 1.25.
    tolerance : float
        A plan stays while no rate rises by more than this part. Default 0.1.
    fall : float
        A rate that falls by at most this part counts as unchanged. Default 0.3.
    added : float
        Added to each batch of the table, for its launch and its end. Default 30e-6.
    spin : float
        Time that the server's thread polls before it sleeps. Default 50e-6.
    watchdog : float
        A batch without progress for this long counts as hung, which ends the service. Default 10.
    spare : int
        Partitions of earlier plans that are kept. Default 32.
    at_once : int
        1: a batch starts as soon as its partition is idle and a request waits. 0: it may wait for more
        requests as long as none is late. Default 1.
    learns : int
        1: corrects, by the batches that it serves, how much `solo` says that each model presses on
        others and suffers from them. It needs `interference`, `solo` and `replans`. Default 0.
    """

    sms: int
    replans: int
    period: float
    headroom: float
    clusters: float
    tolerance: float
    fall: float
    added: float
    spin: float
    watchdog: float
    spare: int
    at_once: int
    learns: int


Fields = dict[str, tuple[str, float | None, Any]] # {name here: (field in C, units per second, type)}


def _fields_of(struct: Any, without: tuple[str, ...]) -> Fields:
    return {in_python(field)[0]: (field, in_python(field)[1], kind)
            for field, kind in struct._fields_ if field not in without}


FIELDS = _fields_of(gsched_server_options, ("size", "gpu", "policy", "slow_downs_count",
                                             "slow_down_limits_count", "reserved"))
PLAN_FIELDS = _fields_of(gsched_plan_options,
                         ("size", "gpu", "table", "planner", "interference", "solo", "profiles",
                          "gpus", "gpus_count", "reserved"))


def put_options(into: Any, options: dict[str, Any], fields: Fields = FIELDS) -> None:
    for name, value in options.items():
        if name not in fields:
            raise GschedError(expected_instead(name) or
                              f'option "{name}", expected one of {", ".join(fields)}')
        field, per_second, kind = fields[name]
        if name == "slow_downs":
            into.slow_downs = _slow_downs_in_c(value)
            into.slow_downs_count = len(value)
            continue
        if name == "slow_down_limits":
            into.slow_down_limits = _limits_in_c(value)
            into.slow_down_limits_count = len(value)
            continue
        setattr(into, field, number_in_c(name, value, kind, per_second))


def _limits_in_c(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise GschedError(f"slow_down_limits: {shown(value)}, expected numbers by names", BAD_ARGUMENT)
    return (gsched_slow_down_limit * len(value))(*(
        gsched_slow_down_limit(name_in_c("slow_down_limits", name),
                               number_in_c(f"slow_down_limits: {name}", most, f64))
        for name, most in value.items()))


def _slow_downs_in_c(value: Any) -> Any:
    if not isinstance(value, Mapping) or not all(isinstance(pair, tuple) and len(pair) == 2
                                                 for pair in value):
        raise GschedError(f"slow_downs: {shown(value)}, expected numbers by pairs of names", BAD_ARGUMENT)
    return (gsched_slow_down * len(value))(*(
        gsched_slow_down(*(name_in_c("slow_downs", name) for name in pair),
                         number_in_c(f"slow_downs: {pair}", by, f64))
        for pair, by in value.items()))
