"""Sorted order, running sums, and extremes with their places."""

from __future__ import annotations

from typing import Any

from habana_tf.formulas.ordering import float_key
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, Lower, both, overload

MOST_SORTED = 1 << 31
"""Elements of an axis that are sorted at most."""


def _along(c: Call, x: Node, places: Node, axis: int) -> Node:
    """The elements of x at places along an axis, of a tensor that has its other axes."""
    b = c.b
    coords = [places if k == axis else b.iota(places.shape, k, places.dtype) for k in range(x.rank)]
    return b.gather(x, coords, list(range(x.rank)))


def _keyed(c: Call, x: Node) -> Node:
    """What to sort instead of x: NaN counts as the greatest number, as in PyTorch."""
    if not x.dtype.is_float:
        return x if x.dtype is not DType.BOOL else c.b.cast(x, DType.U8)
    return float_key(c.b, x)


def _sorted(c: Call, x: Node, dim: int, descending: bool, first: int | None = None) -> list[Node]:
    if not x.rank or 0 in x.shape:
        return [c.b.slice(x, [0] * x.rank, c.shape), c.b.const(0, DType.I64, c.shape)]
    axis = dim % x.rank
    if not c.context.premises.at_least(MOST_SORTED, x.shape[axis]):
        raise c.refused("an axis of more than 2**31 elements, whose places are no int32,")
    places = c.b.sort(_keyed(c, x), axis, descending, first)
    return [_along(c, x, places, axis), places]


overload("sort")(lambda c, x, dim=-1, descending=False: _sorted(c, x, dim, descending))
overload("sort.stable")(lambda c, x, stable=None, dim=-1, descending=False: _sorted(c, x, dim, descending))
overload("argsort.stable")(lambda c, x, stable=False, dim=-1, descending=False: _sorted(c, x, dim, descending)[1])


@overload("topk", amounts=[1])
def topk(c: Call, x: Node, k: Extent, dim: int = -1, largest: bool = True, sorted: bool = True) -> list[Node]:
    if isinstance(k, int):
        return _sorted(c, x, dim, largest, k)
    return [c.b.slice(n, [0] * x.rank, c.shape) for n in _sorted(c, x, dim, largest)]


def _running(kind: str) -> Lower:
    def lower(c: Call, x: Node, dim: int, dtype: Any = None) -> Node:
        t = c.term(x).node
        return c.b.scan(kind, t, dim % x.rank) if x.rank else t

    return lower


overload(*both("cumsum"))(_running("sum"))
overload(*both("cumprod"))(_running("prod"))


def _extreme(c: Call, x: Node, dim: int, kind: str) -> list[Node]:
    """The extreme along an axis, and the first place where it is."""
    if not x.rank:
        return [x, c.b.const(0, DType.I64)]
    axis = dim % x.rank
    if x.shape[axis] == 0:
        raise c.refused("an extreme of nothing")
    plain = c.b.cast(x, DType.U8) if x.dtype is DType.BOOL else x
    made = c.b.reduce(kind, plain, [axis]), c.b.reduce(f"arg{kind}", plain, [axis])
    return [c.b.reshape(n, c.shape) for n in made]


for _kind in ("max", "min"):
    overload(f"{_kind}.dim")(lambda c, x, dim, keepdim=False, kind=_kind: _extreme(c, x, dim, kind))
