"""Triangles of a matrix, which a comparison of positions says in two numbers: the mask of causal attention."""

from __future__ import annotations

from typing import Any


def first_row(value: Any) -> int | None:
    """How many elements of the first row are true, if each row has one more than the one before, and all of them stand
    in front of the others.

    value: a NumPy array of bools, all of whose axes but the last two have one point. None for what is no triangle.
    """
    import numpy as np

    if value.ndim < 2 or value.size == 0 or value.size != value.shape[-2] * value.shape[-1]:
        return None
    rows, columns = value.shape[-2:]
    matrix = value.reshape(rows, columns)
    first = int(matrix[0].sum())
    return first if bool((matrix == (np.arange(rows)[:, None] + first > np.arange(columns))).all()) else None
