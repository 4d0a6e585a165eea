"""A curve in one line of text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

_BLOCKS = " ▁▂▃▄▅▆▇█"
_WIDTH = 64


def bar(values: Sequence[int]) -> str:
    """Values as a line of blocks, the largest of each stretch where there are more than fit."""
    if not values:
        return ""
    columns = min(_WIDTH, len(values))
    edges = [k * len(values) // columns for k in range(columns + 1)]
    most = [max(values[a:b]) for a, b in pairwise(edges)]
    top = max(most) or 1
    return "".join(_BLOCKS[-(-value * (len(_BLOCKS) - 1) // top)] for value in most)
