"""Maxima of windows: where each is, and what its gradient gives back.

Images have their channels last. Small windows are looked through as [N, O.., C, elements of a window], alike by the
maxima and by their places, so that one kernel finds both. Where windows do not overlap each element of the input
belongs to one window at most, and the gradient needs no sum:

    places[N, O1, O2, C] --repeat--> [N, O1, K1, O2, K2, C] == own place ? dy : 0  --unfold--> [N, S.., C]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from habana_tf.formulas import spatial
from habana_tf.formulas.spatial import WindowAxis
from habana_tf.formulas.term import Term
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node

LOWEST = float("-inf")
_I8_PLACES = 128
"""Elements of a window whose offsets an int8 can be."""


def elements(b: Builder, x: Node, axes: Sequence[WindowAxis]) -> Node:
    """[N, O.., C, elements of a window]"""
    view = spatial.windows(b, x, axes, LOWEST)
    return b.reshape(view, [*view.shape[: x.rank], math.prod(a.kernel for a in axes)])


def offsets(b: Builder, axes: Sequence[WindowAxis], shape: Sequence[Extent], places: Sequence[int]) -> Node:
    """int32 of `shape`: the row-major offset in the window, whose axes stand at `places`."""
    total = Term(b, b.const(0, DType.I32, shape))
    for a, place in zip(axes, places, strict=True):
        total = total * a.kernel + Term(b, b.iota(shape, place, DType.I32))
    return total.node


def begins(b: Builder, axes: Sequence[WindowAxis], i: int) -> Term:
    """int32 [1, .., O, .., 1] of axis i: the place in the input, padding counted, where each window begins."""
    shape = [a.out if k == i + 1 else 1 for k, a in enumerate((axes[0], *axes, axes[0]))]
    return Term(b, b.iota(shape, i + 1, DType.I32)) * axes[i].stride


def first_elements(b: Builder, axes: Sequence[WindowAxis]) -> Node:
    """int32 [1, O.., 1]: the offset in each window of the first element that is not padding."""
    total = Term(b, b.const(0, DType.I32, [1] * (len(axes) + 2)))
    for i, a in enumerate(axes):
        missing = (Term(b, b.extent(a.low, DType.I32)) - begins(b, axes, i)).max(0)  # of which a step takes `dilation`
        steps = missing if a.dilation == 1 else (missing + (a.dilation - 1)) / a.dilation
        total = total * a.kernel + steps
    return total.node


def winners(b: Builder, elements: Node, axes: Sequence[WindowAxis]) -> Node:
    """int32 [N, O.., C]: the offset in its window of each first maximum.

    Where all elements of a window are -inf, padding before them is no less: the first element of x comes later.
    """
    few = math.prod(a.kernel for a in axes) <= _I8_PLACES  # they stay in memory from the forward pass on
    found = b.reduce("argmax", elements, (elements.rank - 1,), DType.I8 if few else DType.I32)
    first = b.cast(found, DType.I32)
    return b.binary("max", first, first_elements(b, axes)) if any(a.low != 0 for a in axes) else first


def gradient(
    b: Builder, dy: Node, axes: Sequence[WindowAxis], places: Node, own: Callable[[Sequence[Extent], bool], Node]
) -> Node:
    """[N, S.., C]: for each element the sum of dy of the windows whose maximum is there.

    places: int32 [N, O.., C], where each is. own: gives what places say of an element itself, in a shape: of elements
    by window, [N, O1, K1, O2, K2, .., C], if it is told so, else of elements and windows that saw them, as `spread`.
    """
    zero = b.const(0, dy.dtype)
    if spatial.disjoint(axes):
        shape = [dy.shape[0], *(n for a in axes for n in (a.out, a.kernel)), dy.shape[-1]]
        at = [0, *(1 + 2 * i for i in range(len(axes))), len(shape) - 1]
        mine = b.map("eq", b.broadcast_in_dim(places, shape, at), own(shape, True))
        return spatial.unfold(b, b.select(mine, b.broadcast_in_dim(dy, shape, at), zero), axes)
    said = spatial.spread(b, places, axes, -1)
    taken = b.select(b.map("eq", said, own(said.shape, False)), spatial.spread(b, dy, axes), zero)
    return b.reduce("sum", taken, range(dy.rank, taken.rank))


def gradient_of_winners(b: Builder, dy: Node, axes: Sequence[WindowAxis], first: Node) -> Node:
    """`gradient` where places are offsets in windows, as `winners` gives them."""

    def own(shape: Sequence[Extent], by_window: bool) -> Node:
        if by_window:
            return offsets(b, axes, shape, range(2, len(shape), 2))
        turned = offsets(b, [axes[k] for k in spatial.kept(axes)], shape, range(dy.rank, len(shape)))
        return b.map("sub", b.const(math.prod(a.kernel for a in axes) - 1, DType.I32, shape), turned)

    return gradient(b, dy, axes, first, own)
