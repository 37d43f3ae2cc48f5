# SPDX-License-Identifier: Apache-2.0
"""Servers that serve by plans."""

from __future__ import annotations

import contextlib
import copy
import math
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

from . import _abi
from ._abi import (BAD_ARGUMENT, DEVICE_FAILED, Facts, GschedError, check, f64, facts_of, gsched_buffer,
                   gsched_plan_graph, gsched_plan_model, gsched_plan_model_report,
                   gsched_plan_options, gsched_plan_report, i32, last_line_in_seconds, load_library,
                   name_in_c, number_in_c, path_in_c, pointer)
from ._capture import Captured, capture, versions
from ._model import Model
from ._nesting import shape_of, tensors_of, with_tensors
from ._options import PLAN_FIELDS, PlanOptions, put_options
from ._pinned import result_like
from ._server import Server
from ._state import keep_for_good


class PlanModel:
    """A model for a `PlanServer`: a module, and what is asked of its service.

    Parameters
    ----------
    module : torch.nn.Module, callable or mapping
        What to serve, as for `capture`. It takes batches: the first dimension of all its inputs and
        outputs. On several GPUs a module is copied to each but the first one. Of another callable, or of
        a module that cannot be copied, give a mapping: by the numbers of all GPUs, what to run on each.
    example : object
        Inputs of one request, see `capture`: the first dimension of all tensors is 1.
    slo : float
        The longest latency of a request, in seconds.
    rate : float
        Requests a second that the first plan is for.
    name : str, optional
        As the table of latencies has it; None is that of the module.
    batches : sequence of int
        The batch sizes to capture, rising from 1. Other batches run as the next larger one.
    instances : int
        Graphs of each batch size on each GPU: so many of its partitions run the model at once, and a
        switch to another plan takes twice as many.

    Attributes
    ----------
    module, example, name : object
        The parameters.
    slo, rate : float
        The parameters.
    batches : tuple of int
        The parameter `batches`.
    instances : int
        The parameter `instances`.
    """

    module: Any
    example: Any
    name: str
    slo: float
    rate: float
    batches: tuple[int, ...]
    instances: int

    def __init__(self, module: Any, example: Any, slo: float, rate: float = 0.0,
                 name: str | None = None, batches: Sequence[int] = (1, 2, 4, 8, 16, 32),
                 instances: int = 3) -> None:
        self.module, self.example, self.slo, self.rate = module, example, slo, rate
        if not name:
            one = next(iter(module.values()), None) if isinstance(module, Mapping) else module
            name = getattr(one, "__name__", None) or type(one).__name__
        self.name = name
        self.batches, self.instances = tuple(batches), instances


class PlannedModel(Model):
    """A model of a `PlanServer`, in `PlanServer.models`. Its `captured` has the graphs of batches of 1."""

    def report(self) -> dict[str, Any]:
        """Return what came of the model's requests since the server was opened.

        Returns
        -------
        dict
            Requests: ``arrived``, of which ``in_time``, ``late``, ``dropped``, ``cancelled``,
            ``waiting`` and ``running``; the number of ``batches``; ``rate``, as measured, requests
            a second; ``p50`` and ``p99``, latencies in seconds of those that were answered;
            ``slow_down``, the measured time of all batches over the planned one; with `learns`,
            ``sensitivity`` and ``pressure``, how much the model suffers from others and presses on
            them, times what `solo` says, and ``learned_from``, from how many batches (without, 1, 1
            and 0), and ``sensitivity_error`` and ``pressure_error``, standard deviations of their
            logarithms; ``host_part``, the part of the batches' time that a busy host added at most;
            ``time_factor``, its batches take so many times the planned time, and ``rate_factor``,
            plans are for so many times its rate, both learned; ``too_slow``, 1 if none of its
            requests can be in time for that; ``partitions`` of the plan that serve it, and their
            ``sms``.

        Raises
        ------
        GschedError
            In a child made by `fork()`, or if the server's thread was left behind in the driver.
        """
        self._state.refuse_child()
        said = gsched_plan_model_report()
        check(_abi.library.gsched_get_plan_model_report(self._state.handle, self.index, said))
        return facts_of(said)


def in_batches(x: Any, batch: int) -> bool:
    """Whether a tensor holds the data of so many requests, one behind the other."""
    return bool(x.shape) and x.shape[0] == batch and (
        batch == 1 or x.stride()[0] * batch == x.numel())


def module_on(of: PlanModel, gpu: int, gpus: Sequence[int]) -> Any:
    """What to capture of the model on one of these GPUs."""
    if isinstance(of.module, Mapping):
        if set(of.module) != set(gpus):
            raise GschedError(f"{of.name}: modules of GPUs {list(of.module)}, expected those of {list(gpus)}",
                              BAD_ARGUMENT)
        return of.module[gpu]
    if gpu == gpus[0]:
        return of.module
    if not hasattr(of.module, "to"):
        raise GschedError(f"{of.name}: a callable for {len(gpus)} GPUs, expected a mapping with one for each",
                          BAD_ARGUMENT)
    try:
        return copy.deepcopy(of.module)
    except Exception as e:
        raise GschedError(f"{of.name}: its module cannot be copied to GPU {gpu} ({e}), expected a mapping "
                          "with one for each GPU", BAD_ARGUMENT) from e


def capture_batches(of: PlanModel, module: Any, gpu: int) -> dict[int, Captured]:
    """The model's graphs on a GPU by batch size."""
    if not of.batches or of.batches[0] != 1 or list(of.batches) != sorted(set(of.batches)):
        raise GschedError(f"{of.name}: batches {of.batches}, expected some that rise from 1")
    for x in tensors_of(of.example):
        if not in_batches(x, 1):
            raise GschedError(f"{of.name}: example {shape_of(x)}, expected a first dimension of 1: that "
                              "of the batch")
    made = {}
    for batch in of.batches:
        example = with_tensors(of.example, (x.repeat_interleave(batch, 0)
                                            for x in tensors_of(of.example)))
        one = made[batch] = capture(module, example, of.instances, of.name, gpu)
        if one.writes:
            raise GschedError(f"{of.name}: writes {one.written[0]}, expected a model without state: "
                              "its batches run at once")
        first, like = one.instances[0], made[1].instances[0]
        for what, mine, theirs in (("input", first.inputs, like.inputs),
                                   ("output", first.outputs, like.outputs)):
            for x, y in zip(mine, theirs):
                if not in_batches(x, batch) or x.shape[1:] != y.shape[1:] or (
                        x.stride()[1:] != y.stride()[1:]):
                    raise GschedError(f"{of.name}: {what} {shape_of(x)} of a batch of {batch}, expected "
                                      "the requests' tensors one behind the other")
    return made


def graphs_of(made: list[dict[int, Captured]], kept: list[Any]) -> Any:
    """All graphs of a model for the library, by GPU; `kept` keeps what they point to."""
    def buffers(tensors: list[Any]) -> Any:
        kept.append((gsched_buffer * len(tensors))(
            *[gsched_buffer(x.data_ptr(), x.numel() * x.element_size()) for x in tensors]))
        return kept[-1]

    all_of_them = [gsched_plan_graph(batch=batch, graph=one.graph.raw_cuda_graph(),
                                     inputs=buffers(one.inputs), outputs=buffers(one.outputs), gpu=place)
                   for place, on_one in enumerate(made) for batch, captured in on_one.items()
                   for one in captured.instances]
    kept.append((gsched_plan_graph * len(all_of_them))(*all_of_them))
    return kept[-1]


def pin_ahead(models: Sequence[PlanModel], firsts: Sequence[Captured], most_bytes: int = 256 << 20) -> None:
    """Has torch pin memory for so many requests as arrive within twice each model's goal, and keep it.

    Torch pins what it has not when it is asked for. That takes up to milliseconds each time, in which the
    driver launches nothing: requests become late, more of them wait, and more memory is pinned.
    """
    import torch

    left, pinned = most_bytes, []
    for of, captured in zip(models, firsts):
        one = captured.instances[0]
        size = sum(x.numel() * x.element_size() for x in one.inputs + one.outputs)
        count = min(1 + math.ceil(min(255.0, 2 * of.rate * of.slo)), left // max(1, size))
        left -= count * size
        with contextlib.suppress(RuntimeError): # there is not so much: what is asked for later may fail
            for _ in range(count):
                pinned += [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, pin_memory=True)
                           for x in one.inputs]
                pinned += [result_like(torch, *each) for each in zip(one.outputs, captured._ready)]


class PlanServer(Server):
    """GPUs that serve models by a plan: on partitions of their SMs, in batches of all threads' requests.

    The partitions follow the measured rates. It is a `Server`: `submit` returns futures, and closing,
    callbacks, channels and gRPC are the same. A request that cannot be in time ends as rejected.

    Parameters
    ----------
    models : iterable of PlanModel
        What to serve.
    table : str or os.PathLike
        Measured latencies by batch and SMs, a CSV file: model, batch, sms, latency_us.
    gpu : int or sequence of int
        The number of the GPU, as CUDA's runtime counts, or those of several of one kind, which `table` is
        of. Tensors, streams and events of requests are on the host or on the first one.
    planner : str
        ``elastic``, ``best`` or ``ideal``. With ``+share`` behind it, as in ``best+share``, models may
        also run at the same time on the same SMs, where there is no plan otherwise or only one on more
        SMs; that needs `interference` and `solo`.
    interference, solo : str or os.PathLike, optional
        How much models beside each other slow each other: a file of coefficients, and a CSV file of
        each model's metrics alone. None: not at all.
    profiles : str or os.PathLike, optional
        For ``+share``: a folder of the models' profiles (`Captured.profile`), ``NAME_bBATCH.json``. Kernels
        of a model without one are assumed by its metrics. None: of all models.
    **options : PlanOptions
        Further options, times in seconds: `sms`, `period`, `headroom` and others.

    Attributes
    ----------
    models : list of PlannedModel
        The models, in their order, for `submit`.

    Raises
    ------
    GschedError
        If there is no library or GPU, a file cannot be read or was measured on another GPU, a model is
        not in the table or cannot be captured, or no plan serves the models at all. An exception of a module during its capture is
        passed on.

    Notes
    -----
    Set ``CUDA_DEVICE_MAX_CONNECTIONS=32`` before CUDA starts: otherwise batches of different partitions
    wait for each other. Call `leave_slow_side` after the models were made and used by torch.

    Memory for the requests within twice each goal, at the rates of the models, is pinned at the start, up
    to 256 MiB: to pin memory later holds up launches.

    Files with a ``machine.json`` beside them that names other versions of the driver, CUDA, torch, its
    libraries or gsched than there are here are used, with a `RuntimeWarning`; so are files without one,
    as their GPU is unknown.

    `submit` takes no `deadline`, `after` or client's weight: a model's goal counts. Inputs and outputs
    are those of one request. A future can be cancelled until its batch starts. An error of the GPU ends
    the service.
    """

    models: list[PlannedModel]
    _needs_inputs = True

    def __init__(self, models: Iterable[PlanModel], table: str | os.PathLike[str],
                 gpu: int | Sequence[int] = 0, planner: str = "best",
                 interference: str | os.PathLike[str] | None = None, solo: str | os.PathLike[str] | None = None,
                 profiles: str | os.PathLike[str] | None = None, **options: Unpack[PlanOptions]) -> None:
        library = load_library()
        said = gsched_plan_options()
        check(library.gsched_default_plan_options(said))
        gpus = list(gpu) if isinstance(gpu, Sequence) else [gpu]
        if not gpus or len(set(gpus)) != len(gpus):
            raise GschedError(f"gpu: {gpus}, expected one GPU at least, each once", BAD_ARGUMENT)
        said.gpus = (i32 * len(gpus))(*(number_in_c("gpu", one, i32) for one in gpus))
        said.gpus_count, said.table = len(gpus), path_in_c("table", table)
        said.planner = name_in_c("planner", planner)
        if interference is not None:
            said.interference = path_in_c("interference", interference)
        if solo is not None:
            said.solo = path_in_c("solo", solo)
        if profiles is not None:
            said.profiles = path_in_c("profiles", profiles)
        put_options(said, dict(options), PLAN_FIELDS)
        asked = list(models)
        goals = [{"name": name_in_c("name", one.name),
                  "slo_us": number_in_c(f"{one.name}: slo", one.slo, f64, 1e6),
                  "rate": number_in_c(f"{one.name}: rate", one.rate, f64)} for one in asked]
        made = [[capture_batches(one, module_on(one, each, gpus), each) for each in gpus] for one in asked]
        said.libraries = ",".join(f"{name}={version}" for name, version in versions().items()).encode()
        kept: list[Any] = []
        each = (gsched_plan_model * len(asked))()
        for i, (goal, graphs) in enumerate(zip(goals, made)):
            first = graphs[0][1].instances[0]
            all_of_them = graphs_of(graphs, kept)
            each[i] = gsched_plan_model(
                graphs_count=len(all_of_them), graphs=all_of_them, inputs=len(first.inputs),
                outputs=len(first.outputs), **goal)
        pin_ahead(asked, [graphs[0][1] for graphs in made])
        handle = pointer()
        code = library.gsched_plan_open(said, each, len(asked), handle)
        if code == DEVICE_FAILED: # a kernel may hang and use their memory still
            keep_for_good(made)
        if code != _abi.OK:
            raise GschedError(last_line_in_seconds(), code)
        self._take(handle, "plan", gpus[0])
        self._first_clients.append(0)
        self.models = [PlannedModel(self._state, i, graphs[0][1]) for i, graphs in enumerate(made)]
        # Without a Model: what is removed stays in the graphs of partitions until the end.
        self._state.models.extend([graphs, None] for graphs in made)
        if warning := self.report()["warning"]:
            warnings.warn(warning, RuntimeWarning, stacklevel=2)

    def add_model(self, torch_module: Any, example_input: Any = None, name: str | None = None,
                  instances: int | None = None, unmeasured: bool = False) -> Model:
        """Refuse: the models of a plan are those that the server was made with.

        Parameters
        ----------
        torch_module, example_input, name, instances, unmeasured : object
            As `Server.add_model` has them.

        Returns
        -------
        Model
            Never.

        Raises
        ------
        GschedError
            Always.
        """
        raise GschedError("add_model: of a server of a plan, expected its models when it is made",
                          BAD_ARGUMENT)

    def report(self) -> dict[str, Any]:
        """Return the plan in service; also when the server is closed.

        Returns
        -------
        dict
            ``partitions`` of the plan, their ``sms`` together, and ``idle_sms`` of the GPUs;
            ``reason``, why another plan was asked for last: ``rates``, ``times`` of batches,
            ``interference`` or ``violations``, or nothing; ``factor``, so many times the rates
            that it was made for it serves; ``batches`` and ``switches`` to another plan since the
            server was opened; ``failed_plans``, which were chosen but could not be made, and
            ``last_failure`` of these, a line; ``warning``, a line about files that were measured with
            another driver, CUDA or gsched than there are here, or without ``machine.json``, so that
            their GPU is unknown, or nothing; ``beyond_fit``, what the
            plan's predicted slow-downs are extrapolated in, such as ``graphs, dram``, or nothing.

        Raises
        ------
        GschedError
            In a child made by `fork()`, or if the server's thread was left behind in the driver.
        """
        self._state.refuse_child()
        said = gsched_plan_report()
        check(_abi.library.gsched_get_plan_report(self._state.handle, said))
        facts: Facts = facts_of(said)
        for line in ("last_failure", "warning", "beyond_fit", "reason"):
            facts[line] = facts[line].decode(errors="replace")
        return facts
