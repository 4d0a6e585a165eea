"""The order of a tensor's axes in memory."""

from __future__ import annotations

import functools


@functools.lru_cache(maxsize=4096)
def order_of_strides(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes of a tensor as its storage holds them; None where its strides are not dense."""
    order = tuple(sorted(range(len(shape)), key=lambda k: (-strides[k], -shape[k], k)))
    step = 1
    for k in reversed(order):
        if shape[k] != 1 and strides[k] != step:
            return None
        step *= shape[k]
    return order


@functools.lru_cache(maxsize=4096)
def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a tensor that is held row by row."""
    strides = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))
