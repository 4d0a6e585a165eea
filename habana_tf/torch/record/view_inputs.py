"""Finds the part of a storage that a view reads and that can be an input of a program by itself.

Where the part begins is then an address that a launch is given, and no number in the program. So minibatches that are
rows of a data set on the card, at another offset in each step, have one program:

    data [50000, 784], view data[64:96]     input [32, 784] at the address of row 64, read whole
    view data[64:96, 2:9].t()               input [32, 784] at that address, read with strides (1, 784), offset 2

A view without gaps is a part. Of a view with gaps the part is the whole rows of its outermost axis, and the offset
within a row stays in the program. Parts are only read: an op that writes into a view has its whole storage as input and
result.
"""

from __future__ import annotations

import functools
import math

from habana_tf.torch.memory.strides import order_of_strides
from habana_tf.torch.memory.views import Geometry, Shape, layout

Range = tuple[int, Shape, Geometry | None]
"""First element in the storage, shape in which the part holds its elements row by row, and the view of it; None where
the view is all of it."""


@functools.lru_cache(maxsize=4096)
def part(count: int, geometry: Geometry) -> Range | None:
    """The part of a storage of `count` elements that a view reads; None where it is the whole storage or has none."""
    shape, strides, offset = geometry
    held = _dense(shape, strides)
    if held is not None:
        whole, plain = held
        return None if math.prod(whole) == count else (offset, whole, None if plain else (shape, strides, 0))
    rows, step = max(((n, s) for n, s in zip(shape, strides, strict=True) if n > 1), key=lambda axis: axis[1])
    first = offset // step * step
    view = shape, strides, offset - first
    if rows * step == count or first + rows * step > count or layout((rows, step), view) is None:
        return None
    return first, (rows, step), view


@functools.lru_cache(maxsize=4096)
def _dense(shape: Shape, strides: Shape) -> tuple[Shape, bool] | None:
    """The shape in which a view's elements lie in memory row by row, and whether that is the view's own; None where
    they have gaps. An axis of stride 0 counts as one element."""
    own = tuple(1 if s == 0 else n for n, s in zip(shape, strides, strict=True))
    order = order_of_strides(own, strides)
    if order is None:
        return None
    many = [k for k in order if own[k] > 1]
    if own == shape and many == sorted(many):
        return shape, True
    return tuple(own[k] for k in order), False
