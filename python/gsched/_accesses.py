# SPDX-License-Identifier: Apache-2.0
"""Finds the memory from before a call that the call reads and writes."""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import types
from collections.abc import Iterator
from typing import Any

from ._nesting import shape_of

Range = tuple[int, int] # of addresses: the first, and the one after the last


class Accesses:
    """Memory from before a call that the call reads and writes: {(first, end): name}."""

    def __init__(self) -> None:
        self.reads: dict[Range, str]
        self.writes: dict[Range, str]
        self.reads, self.writes = {}, {}

    @staticmethod
    def range_of(x: Any) -> Range | None:
        """The address range of a tensor's storage on the GPU; None if it has none."""
        try:
            if not x.is_cuda:
                return None
            storage = x.untyped_storage()
            first = storage.data_ptr()
            return (first, first + storage.nbytes()) if first else None
        except (AttributeError, NotImplementedError, RuntimeError): # sparse, or of another library
            return None

    def note(self, into: dict[Range, str], x: Any, said: str | None = None) -> None:
        where = self.range_of(x)
        if where is not None:
            into.setdefault(where, said or f"a tensor of {shape_of(x)}")

    def add_reachable(self, torch: Any, what: Any, more: Any) -> None:
        found: list[tuple[str, Any]] = []
        for name, root in (("", what), ("parameters", more)):
            collect_state(torch, root, name, found, {}, 8)
        named: dict[Range, str] = {}
        for name, x in sorted(found, key=lambda pair: (len(pair[0]), pair[0])):
            self.note(named, x, name) # by the shortest
        self.writes.update(named)

    def name(self, module: Any) -> None:
        """Names those accesses that are parameters and buffers of the module."""
        for kind in ("named_parameters", "named_buffers"):
            for name, x in getattr(module, kind, lambda: ())():
                where = self.range_of(x)
                for noted in (self.reads, self.writes):
                    if where is not None and where in noted:
                        noted[where] = name

    def example(self) -> str:
        named = sorted(self.writes.values(), key=lambda said: said.startswith("a tensor of "))
        return named[0] if named else "its parameters"


def collect_state(torch: Any, what: Any, name: str, found: list[tuple[str, Any]],
                  seen: dict[int, Any], depth: int) -> None:
    """Collects the tensors that can be reached from a callable, an optimizer, a module or a container."""
    if depth == 0 or id(what) in seen or isinstance(what, (type, types.ModuleType)):
        return
    if not isinstance(what, torch.Tensor): # which may have several names
        seen[id(what)] = what

    def more(inner: Any, called: Any) -> None:
        label = f"{name}.{called}" if name and called else name or str(called)
        collect_state(torch, inner, label, found, seen, depth - 1)

    if isinstance(what, torch.Tensor):
        found.append((name or "a tensor", what))
        if what.is_leaf and what.grad is not None:
            found.append((f"{name or 'a tensor'}.grad", what.grad))
    elif isinstance(what, torch.nn.Module):
        for called, x in (*what.named_parameters(), *what.named_buffers()):
            more(x, called)
    elif isinstance(what, torch.optim.Optimizer):
        more(what.param_groups, "param_groups")
        more(list(what.state.values()), "state")
    elif isinstance(what, types.FunctionType):
        for called, cell in zip(what.__code__.co_freevars, what.__closure__ or ()):
            with contextlib.suppress(ValueError): # not bound yet
                more(cell.cell_contents, called)
        for called in names_of(what.__code__) & what.__globals__.keys():
            more(what.__globals__[called], called)
        more(what.__defaults__ or (), "")
        more(what.__kwdefaults__ or {}, "")
    elif isinstance(what, types.MethodType):
        more(what.__self__, "")
        more(what.__func__, "")
    elif isinstance(what, functools.partial):
        more((what.func, what.args, what.keywords), "")
    elif isinstance(what, (list, tuple, set, frozenset)):
        for i, x in enumerate(what):
            more(x, i if isinstance(what, (list, tuple)) else "")
    elif isinstance(what, collections.abc.Mapping):
        for called, x in list(what.items()):
            more(x, called if isinstance(called, str) else "")
    elif not isinstance(what, types.BuiltinFunctionType):
        for called, x in list(getattr(what, "__dict__", {}).items()):
            more(x, called)


def names_of(code: types.CodeType) -> set[str]:
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*map(names_of, inner))


@contextlib.contextmanager
def noting(torch: Any, inputs: list[Any]) -> Iterator[Accesses]:
    """A context that records which memory from before it is read and written, without the inputs."""
    accesses = Accesses()
    try:
        from torch.utils._python_dispatch import TorchDispatchMode
    except ImportError:
        yield accesses
        return

    born = {accesses.range_of(x) for x in inputs}

    def tensors(value: Any) -> list[Any]:
        if isinstance(value, torch.Tensor):
            return [value]
        if isinstance(value, (list, tuple)):
            return [x for one in value for x in tensors(one)]
        return []

    class Noting(TorchDispatchMode): # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (),
                               kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            known = set()
            for value, written in arguments_of(function, args, kwargs):
                for x in tensors(value):
                    where = accesses.range_of(x)
                    known.add(where)
                    if where not in born:
                        accesses.note(accesses.writes if written else accesses.reads, x)
            out = function(*args, **kwargs)
            born.update(where for x in tensors(out) if (where := accesses.range_of(x)) not in known)
            return out

    with Noting():
        yield accesses


def arguments_of(function: Any, args: Any, kwargs: Any) -> list[tuple[Any, bool]]:
    """Each argument of an operator, and whether it is written."""
    schema = getattr(function, "_schema", None)
    if schema is None:
        return [(value, True) for value in (*args, *kwargs.values())]
    given = dict(zip((a.name for a in schema.arguments), args), **kwargs)
    # Schemas of batch norm and the like do not say that they write the statistics while training.
    flags = [given.get(n) for n in ("training", "train", "use_input_stats") if n in given]
    moving = any(flags) if flags else "no_training" not in schema.name
    statistics = {"running_mean", "running_var"} if moving else set()
    # record_stream() changes the allocator's records of a block, not its content.
    quiet = schema.name == "aten::record_stream"
    return [(given[a.name],
             not quiet and (a.name in statistics
                            or (a.alias_info is not None and a.alias_info.is_write)))
            for a in schema.arguments if a.name in given]


def overlap(some: set[Range], others: set[Range]) -> bool:
    """Whether a range of one set overlaps a range of the other."""
    a, b = sorted(some), sorted(others)
    i = k = 0
    while i < len(a) and k < len(b):
        if a[i][0] < b[k][1] and b[k][0] < a[i][1]:
            return True
        if a[i][1] <= b[k][1]:
            i += 1
        else:
            k += 1
    return False
