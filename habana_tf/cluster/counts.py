"""Counts the number that decides an output's shape from an argument whose values are data otherwise.

Of the ids of a segment sum only the last one decides a shape, of the indices of a stitch the greatest. As values in a
signature they would make every call a recipe of its own. So the number takes their place there (`resolver.request`),
and the ids themselves are read when the recipe runs:

    segment_ids [0, 0, 2, 7]      Count 8
    segment_ids [0, 1, 7, 7]      Count 8, the same recipe; in a range of sizes the number is a symbol
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

NEGATIVE, UNORDERED = -1, -2
"""Counts of ids that an op refuses."""
MOST = (1 << 63) - 1
"""The greatest count, as int64 has it: no memory holds a tensor of so many rows."""


class Count(np.ndarray[Any, Any]):
    """A number (an array without axes) in the place of the values that it was counted from."""

    @classmethod
    def of(cls, n: int) -> Count:
        """This number."""
        return np.array(n, np.int64).view(cls)


def places(values: Sequence[Any]) -> int:
    """The rows that indices go to: the greatest one and one more. NEGATIVE where one of them is."""
    flat = [np.asarray(v).reshape(-1) for v in values]
    if any(v.size and v.min() < 0 for v in flat):
        return NEGATIVE
    return min(max((int(v.max()) for v in flat if v.size), default=-1) + 1, MOST)


def segments(values: Sequence[Any]) -> int:
    """The segments of rising ids; UNORDERED where they do not rise."""
    (ids,) = (np.asarray(v).reshape(-1) for v in values)
    return UNORDERED if (ids[1:] < ids[:-1]).any() else places([ids])
