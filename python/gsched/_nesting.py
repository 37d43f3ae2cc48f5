# SPDX-License-Identifier: Apache-2.0
"""Nested inputs and outputs: tensors within tuples, lists, mappings and dataclasses."""

import collections
import contextlib
import copy
import dataclasses

from ._abi import GschedError


def is_buffer(x):
    return hasattr(x, "data_ptr") and hasattr(x, "is_cuda") and x.numel() > 0


def children(tree):
    """What a tuple, list, mapping or dataclass holds, as pairs of a name and a value; None for all
    else, which is constant. transformers' outputs are mappings first, and dataclasses too."""
    if isinstance(tree, collections.abc.Mapping):
        return list(tree.items())
    if isinstance(tree, (tuple, list)):
        return list(enumerate(tree))
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return [(field.name, getattr(tree, field.name)) for field in dataclasses.fields(tree)]
    return None


def tensors_of(tree):
    """The tensors of a nesting, in order."""
    if is_buffer(tree):
        return [tree]
    return [leaf for _, value in children(tree) or () for leaf in tensors_of(value)]


def with_tensors(tree, leaves):
    """The same nesting with other tensors, taken one by one from an iterator."""
    if is_buffer(tree):
        return next(leaves)
    parts = children(tree)
    if parts is None:
        return tree
    values = {key: with_tensors(value, leaves) for key, value in parts}
    for make in makers(tree, values):
        with contextlib.suppress(Exception): # a constructor of whatever kind, or one that looks
            made = make()
            if [(k, id(v)) for k, v in children(made)] == [(k, id(v)) for k, v in values.items()]:
                return made
    raise GschedError(f"a {type(tree).__name__} cannot be made again with other tensors, expected "
                      "tuples, lists, mappings or dataclasses that can")


def makers(tree, values):
    """Ways to make another one like it with other values, the most fitting first."""
    kind = type(tree)

    def copied(put):
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


def difference(wanted, given, where=""):
    """How a nesting differs from another one beside the values of tensors, in some words after the
    name of what it is; None if it does not."""
    if is_buffer(wanted) and is_buffer(given):
        return None
    mine, theirs = children(wanted), children(given)
    if is_buffer(wanted) or is_buffer(given) or (mine is None) != (theirs is None):
        return "s of another structure than the example's, expected tensors in the same places"
    if mine is None:
        if same_constant(wanted, given):
            return None
        return (f"{where} is {said(given)}, expected {said(wanted)} as in the example, since what "
                "is no tensor is part of the graph")
    if [key for key, _ in mine] != [key for key, _ in theirs]:
        return "s of another structure than the example's, expected tensors in the same places"
    for (key, a), (_, b) in zip(mine, theirs):
        different = difference(a, b, f"{where}[{key!r}]")
        if different:
            return different
    return None


def same_constant(a, b):
    if a is b:
        return True
    try:
        if hasattr(a, "data_ptr") and hasattr(b, "data_ptr"): # tensors without elements
            return a.shape == b.shape and a.dtype == b.dtype
        if type(a) is not type(b):
            return False
        same = a == b
        if hasattr(same, "all"): # of arrays
            return getattr(a, "shape", None) == getattr(b, "shape", None) and bool(same.all())
        return bool(same) or (isinstance(a, float) and a != a and b != b)
    except Exception: # what cannot be compared differs
        return False


def said(x):
    try:
        text = " ".join(repr(x).split())
    except Exception:
        text = f"a {type(x).__name__}"
    return text if len(text) < 60 else text[:57] + "..."


def is_dense(x):
    """Whether its elements fill one range of memory, in whatever order."""
    expected = 1
    for stride, size in sorted((st, n) for st, n in zip(x.stride(), x.size()) if n != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def shape_of(x):
    return f"{str(x.dtype).replace('torch.', '')}{list(x.shape)}"
