# SPDX-License-Identifier: Apache-2.0
"""Pinned memory for results."""

from __future__ import annotations

import collections
from typing import Any

MOST_BYTES, MOST_RESULTS = 64 << 10, 64 # of a block


def result_like(torch: Any, x: Any, ready: collections.deque[Any]) -> Any:
    """A new tensor like x in pinned memory: one of `ready`, where the further ones of a block are kept.

    To pin memory takes up to milliseconds, in which the driver launches nothing, so small results are
    made several at a time. Their block is torch's again when all of them are gone. A deque needs no lock: a
    signal handler may submit too, between any two calls.
    """
    try:
        return ready.popleft()
    except IndexError:
        pass
    count = min(MOST_RESULTS, MOST_BYTES // max(1, x.numel() * x.element_size()))
    if count < 2 or x.numel() == 0:
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, pin_memory=True)
    block = torch.empty_strided((count * x.numel(),), (1,), dtype=x.dtype, pin_memory=True)
    made = [block.as_strided(x.shape, x.stride(), i * x.numel()) for i in range(count)]
    ready.extend(made[1:])
    return made[0]
