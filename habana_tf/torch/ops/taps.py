"""Sums of a few elements along an axis, each times a weight: what resizing, average pooling and their gradients are.

    y[.., i, ..] = the sum over k of x[.., places[i, k], ..] * weights[i, k]

Elements are gathered, not multiplied by a matrix of weights: its zeros times infinity or NaN, which a gradient may
hold, would be NaN in all of a picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from habana_tf.formulas.term import Term
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call

_APART = 64
"""Elements of a sum up to which each is a gather of its own, which is faster than one gather of all and takes longer to
compile."""


class Taps(NamedTuple):
    """places: int32 [after, k], -1 for none; weights: float32 [after, k]."""

    places: Any
    weights: Any

    @classmethod
    def known(cls, c: Call, taps: Sequence[tuple[Term, Term | None]]) -> Taps | None:
        """From formulas of places and weights, as in `over_sizes`. None where they depend on sizes that are symbols, or
        are too many."""
        places: list[Any] = [c.context.known(c.b.cast(place.node, DType.I32)) for place, _ in taps]
        if any(p is None or p.dtype == object for p in places):
            return None
        parts: list[Any] = [
            np.ones_like(places[0]) if weight is None else c.context.known(weight.node) for _, weight in taps
        ]
        return cls(np.stack(places, 1), np.stack(parts, 1).astype(np.float32))

    def transposed(self, before: int) -> Taps:
        """Those of the gradient: for each of `before` elements the sums that it is in."""
        rows, columns = (self.places >= 0).nonzero()
        places, weights = self.places[rows, columns], self.weights[rows, columns]
        order = np.argsort(places, kind="stable")
        counts = np.bincount(places, minlength=before)
        turn = np.arange(len(order)) - (np.cumsum(counts) - counts)[places[order]]
        shape = before, max(1, counts.max(initial=0))
        made = Taps(np.full(shape, -1, np.int32), np.zeros(shape, np.float32))
        made.places[places[order], turn], made.weights[places[order], turn] = rows[order], weights[order]
        return made


def summed(c: Call, x: Node, axis: int, taps: Taps) -> Node:
    """x with such sums along an axis."""
    b, (places, weights) = c.b, taps
    after, most = places.shape
    before, one = c.number(x.shape[axis]), weights.flat[0]
    alike = bool((weights == one).all())
    if alike and before == after * most and (places.ravel() == np.arange(before)).all():  # pieces side by side
        split = b.reshape(x, [*x.shape[:axis], after, most, *x.shape[axis + 1 :]])
        total = b.reduce("sum", split, [axis + 1])
        return total if one == 1 else b.binary("mul", total, b.const(float(one), DType.F32))
    if most > _APART:
        every = b.gather(x, [b.literal(places)], [axis])
        every = b.map("mul", every, b.broadcast_in_dim(b.literal(weights), every.shape, [0, 1]))
        return _axis_back(c, b.reduce("sum", every, [1]), axis)
    parts = [_taken(c, x, axis, np.ascontiguousarray(places[:, k])) for k in range(most)]
    if not alike:
        each = [b.literal(np.ascontiguousarray(w)) for w in weights.T]
        parts = [_weighed(c, part, axis, w) for part, w in zip(parts, each, strict=True)]
    total = added(c, parts)
    return total if not alike or one == 1 else b.binary("mul", total, b.const(float(one), DType.F32))


def over_sizes(
    c: Call, x: Node, axis: int, taps: Sequence[tuple[Term, Term | None]], size: Extent, backward: bool
) -> Node:
    """The same where sizes are symbols. taps: places and weights of the forward op, along the axis of its result; a
    gradient, of `size` elements, adds up what was seen at each place."""
    b, parts = c.b, []
    places = [b.cast(place.node, DType.I32) for place, _ in taps]
    if not backward:
        for at, (_, weight) in zip(places, taps, strict=True):
            part = _axis_back(c, b.gather(x, [at], [axis]), axis)
            parts.append(part if weight is None else _weighed(c, part, axis, weight.node))
        return added(c, parts)
    total = b.const(0, DType.F32, [size if k == axis else n for k, n in enumerate(x.shape)])
    for at, (_, weight) in zip(places, taps, strict=True):
        part = x if weight is None else _weighed(c, x, axis, weight.node)
        rows = b.permute(part, [axis, *(k for k in range(x.rank) if k != axis)])
        total = b.scatter(total, rows, [at], [axis], "add")
    return total


def added(c: Call, parts: Sequence[Node]) -> Node:
    total = parts[0]
    for part in parts[1:]:
        total = c.b.map("add", total, part)
    return total


def _axis_back(c: Call, gathered: Node, axis: int) -> Node:
    """With the axis of a gather's places, its first, where it was in x."""
    return c.b.permute(gathered, [*range(1, axis + 1), 0, *range(axis + 1, gathered.rank)])


def _weighed(c: Call, x: Node, axis: int, weights: Node) -> Node:
    return c.b.map("mul", x, c.b.broadcast_in_dim(weights, x.shape, [axis]))


def _taken(c: Call, x: Node, axis: int, places: Any) -> Node:
    """x at places along an axis; zero where there is none. Where each element occurs equally often, copies."""
    b, before, after = c.b, c.number(x.shape[axis]), len(places)
    times, left = divmod(after, before)
    if left or not times or (places != np.arange(after) // times).any():
        return _axis_back(c, b.gather(x, [b.literal(places)], [axis]), axis)
    shape = [*x.shape[: axis + 1], times, *x.shape[axis + 1 :]]
    copies = b.broadcast_in_dim(x, shape, [k for k in range(len(shape)) if k != axis + 1])
    return b.reshape(copies, [*x.shape[:axis], after, *x.shape[axis + 1 :]])
