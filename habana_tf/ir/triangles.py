"""Recognizes triangular masks (causal attention's), which compare a row's number with a column's."""

from __future__ import annotations

from typing import Any


def first_row(value: Any) -> int | None:
    """The number of true elements in the first row, if row i begins with i more of them and the rest is false.

    value: a NumPy array of bools; all axes but the last two have extent 1. None if it is no such triangle.
    """
    import numpy as np

    if value.ndim < 2 or value.size == 0 or value.size != value.shape[-2] * value.shape[-1]:
        return None
    rows, columns = value.shape[-2:]
    matrix = value.reshape(rows, columns)
    first = int(matrix[0].sum())
    return first if bool((matrix == (np.arange(rows)[:, None] + first > np.arange(columns))).all()) else None
