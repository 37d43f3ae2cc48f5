# SPDX-License-Identifier: Apache-2.0
"""Nested inputs and outputs: tensors within tuples, lists, mappings and dataclasses."""

from __future__ import annotations

import collections.abc
import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from ._abi import GschedError


def is_buffer(x: Any) -> bool:
    return hasattr(x, "data_ptr") and hasattr(x, "is_cuda") and x.numel() > 0


def children(tree: Any) -> list[tuple[Any, Any]] | None:
    """The (key, value) pairs of a tuple, list, mapping or dataclass; None for a constant, which is
    anything else. Outputs of transformers are both mappings and dataclasses: the mapping counts."""
    if isinstance(tree, collections.abc.Mapping):
        return list(tree.items())
    if isinstance(tree, (tuple, list)):
        return list(enumerate(tree))
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return [(field.name, getattr(tree, field.name)) for field in dataclasses.fields(tree)]
    return None


def tensors_of(tree: Any) -> list[Any]:
    """List the tensors of a nested structure, as requests have them for inputs and outputs.

    Parameters
    ----------
    tree : object
        Tuples, lists, mappings and dataclasses, nested. What is neither that nor a tensor, or a
        tensor without elements, counts as a constant.

    Returns
    -------
    list of torch.Tensor
        The tensors, in order.
    """
    if is_buffer(tree):
        return [tree]
    if type(tree) in (tuple, list) and all(map(is_buffer, tree)): # as most are
        return list(tree)
    return [leaf for _, value in children(tree) or () for leaf in tensors_of(value)]


def with_tensors(tree: Any, tensors: Iterable[Any]) -> Any:
    """Make the same nested structure with other tensors.

    Parameters
    ----------
    tree : object
        The structure, see `tensors_of`.
    tensors : iterable of torch.Tensor
        The tensors in the order of `tensors_of`. An iterator is advanced by as many as are used.

    Returns
    -------
    object
        The structure, of the same types. Without tensors in it, `tree` itself.

    Raises
    ------
    GschedError
        If a container in it cannot be made anew, or there are too few tensors.
    """
    leaves = iter(tensors)
    if is_buffer(tree):
        try:
            return next(leaves)
        except StopIteration:
            raise GschedError("tensors: too few, expected as many as the structure holds") from None
    parts = children(tree)
    if parts is None:
        return tree
    values = {key: with_tensors(value, leaves) for key, value in parts}
    for make in makers(tree, values):
        with contextlib.suppress(Exception): # any constructor, or one that checks its arguments
            made = make()
            if [(k, id(v)) for k, v in children(made) or ()] == [(k, id(v)) for k, v in values.items()]:
                return made
    raise GschedError(f"a {type(tree).__name__} cannot be made again with other tensors, expected "
                      "tuples, lists, mappings or dataclasses that can")


def makers(tree: Any, values: dict[Any, Any]) -> list[Callable[[], Any]]:
    """Functions that make a container of the same type with other values, the best one first."""
    kind = type(tree)

    def copied(put: Callable[[Any, Any, Any], object]) -> Any:
        made = copy.copy(tree)
        for key, value in values.items():
            put(made, key, value)
        return made

    if kind in (dict, tuple, list):
        return [lambda: values if kind is dict else kind(values.values())]
    if isinstance(tree, collections.abc.Mapping):
        return [lambda: kind(**values), lambda: kind(values),
                lambda: copied(lambda made, key, value: made.__setitem__(key, value))]
    if isinstance(tree, (tuple, list)):
        return [lambda: kind(*values.values()), lambda: kind(values.values())]
    return [lambda: copied(object.__setattr__)]


def difference(wanted: Any, given: Any, where: str = "") -> str | None:
    """The first difference between two structures, apart from the values of tensors, as the end of an error
    line; None if there is none."""
    if is_buffer(wanted) and is_buffer(given):
        return None
    mine, theirs = children(wanted), children(given)
    if is_buffer(wanted) or is_buffer(given) or (mine is None) != (theirs is None):
        return "s of another structure than the example's, expected tensors in the same places"
    if mine is None or theirs is None:
        if same_constant(wanted, given):
            return None
        return (f"{where} is {short_repr(given)}, expected {short_repr(wanted)} as in the example, since what "
                "is no tensor is part of the graph")
    if [key for key, _ in mine] != [key for key, _ in theirs]:
        return "s of another structure than the example's, expected tensors in the same places"
    for (key, a), (_, b) in zip(mine, theirs):
        different = difference(a, b, f"{where}[{key!r}]")
        if different:
            return different
    return None


def same_constant(a: Any, b: Any) -> bool:
    if a is b:
        return True
    try:
        if hasattr(a, "data_ptr") and hasattr(b, "data_ptr"): # tensors without elements
            return bool(a.shape == b.shape and a.dtype == b.dtype)
        if type(a) is not type(b):
            return False
        same = a == b
        if hasattr(same, "all"): # of arrays
            return getattr(a, "shape", None) == getattr(b, "shape", None) and bool(same.all())
        return bool(same) or (isinstance(a, float) and a != a and b != b)
    except Exception: # values that cannot be compared differ
        return False


def short_repr(x: Any) -> str:
    try:
        text = " ".join(repr(x).split())
    except Exception:
        text = f"a {type(x).__name__}"
    return text if len(text) < 60 else text[:57] + "..."


def is_dense(x: Any) -> bool:
    """Whether its elements fill one range of memory, in any order."""
    expected = 1
    for stride, size in sorted((st, n) for st, n in zip(x.stride(), x.size()) if n != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def shape_of(x: Any) -> str:
    return f"{str(x.dtype).replace('torch.', '')}{list(x.shape)}"
