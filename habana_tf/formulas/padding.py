"""Padding by what lies at the ends of an axis, mirrored, and its gradient.

skip: 1 for a mirror on the last element, which is not repeated (`reflect`), 0 for one behind it (`symmetric`):

    a b c    low 2, high 1    skip 1: c b | a b c | b    skip 0: b a | a b c | c
"""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node


def less(n: Extent, by: Extent) -> Extent:
    """n - by."""
    return ext.add(n, ext.mul(by, -1))


def mirrored(b: Builder, x: Node, axis: int, low: Extent, high: Extent, skip: int) -> list[Node]:
    """What comes before and behind an axis, `low` and `high` elements of its other side."""
    places = (skip, low), (less(x.shape[axis], ext.add(high, skip)), high)
    return [b.reverse(b.along(x, axis, begin, size), [axis]) for begin, size in places]


def mirrored_gradient(b: Builder, grad: Node, axis: int, low: Extent, high: Extent, skip: int) -> Node:
    """The gradient of one axis: of its own elements, and what its mirrored ones got, added where these came from."""
    size = less(less(grad.shape[axis], low), high)
    at = (low, 0, skip), (high, less(grad.shape[axis], high), less(size, ext.add(high, skip)))
    sides = [(b.reverse(b.along(grad, axis, begin, n), [axis]), place) for n, begin, place in at if n != 0]
    return added(b, b.along(grad, axis, low, size), axis, sides)


def added(b: Builder, total: Node, axis: int, sides: Sequence[tuple[Node, Extent]]) -> Node:
    """A tensor and others with fewer elements along an axis, each from its place on."""
    size = total.shape[axis]
    for side, place in sides:
        before: list[Extent] = [0] * total.rank
        after: list[Extent] = [0] * total.rank
        before[axis], after[axis] = place, less(size, ext.add(place, side.shape[axis]))
        total = b.binary("add", total, b.pad(side, before, after))
    return total
