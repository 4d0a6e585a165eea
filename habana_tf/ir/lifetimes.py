"""The curve of memory in use over a launch, from when each tensor is there."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate


def in_use(moments: int, tensors: Iterable[tuple[int, int, int]]) -> list[int]:
    """Bytes in use at each of so many moments. tensors: of each the first and the last moment, and its bytes."""
    change = [0] * (moments + 2)
    for first, last, nbytes in tensors:
        change[first] += nbytes
        change[last + 1] -= nbytes
    return list(accumulate(change[:moments]))
