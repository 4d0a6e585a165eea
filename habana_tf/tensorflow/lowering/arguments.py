"""Arguments of ops as numbers and sizes, and the views that lowerings of many families make."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.lowering import Lowering

T = TypeVar("T")


def ints(c: Lowering, which: int | str) -> list[int]:
    """The numbers of an input that fixes a shape."""
    values = extents(c, which)
    if not all(isinstance(v, int) for v in values):
        raise c.needs_number(f"its input {which!r} follows from a size that changes, and must be numbers")
    return [v for v in values if isinstance(v, int)]


def extents(c: Lowering, which: int | str) -> list[Extent]:
    """The output shape in a fixed input; symbolic when one recipe serves all shapes."""
    return [v if isinstance(v, ext.Expr) else int(v) for v in np.asarray(c.value(which)).reshape(-1)]


def scalar(c: Lowering, which: int | str) -> int:
    """The one number of an input that fixes a shape."""
    return _only(c, which, ints(c, which))


def scalar_extent(c: Lowering, which: int | str) -> Extent:
    """The one size of an input that fixes a shape; symbolic when one recipe serves all shapes."""
    return _only(c, which, extents(c, which))


def _only(c: Lowering, which: int | str, values: list[T]) -> T:
    c.require(len(values) == 1, f"input {which!r} must be one number, not {values}")
    return values[0]


def axis_of(c: Lowering, axis: int, rank: int) -> int:
    """An axis counted from the front; negative ones count from the back."""
    c.require(-rank <= axis < rank, f"axis {axis} is not in [{-rank}, {rank})")
    return axis % rank


def constant_shape(c: Lowering, x: Node, first: int = 0, why: str = "") -> tuple[int, ...]:
    """The shape of a node from axis `first` on, whose extents must be numbers; `why` is for the user of others."""
    out = tuple(n for n in x.shape[first:] if isinstance(n, int))
    if len(out) != len(x.shape[first:]):
        axis = next(k for k, n in enumerate(x.shape) if k >= first and not isinstance(n, int))
        raise c.needs_number(f"axis {axis} of its input must not change{why and ': ' + why}")
    return out


def size_of(c: Lowering, n: Extent, what: str) -> int:
    """A size that must be a number; `what` names it to the user of another."""
    if not isinstance(n, int):
        raise c.needs_number(f"{what} must not change")
    return n


def insert_axis(c: Lowering, x: Node, axis: int) -> Node:
    """x with a new axis of size 1 before `axis`."""
    return c.b.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))
