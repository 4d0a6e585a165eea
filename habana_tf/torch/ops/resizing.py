"""Upsampling and adaptive pooling: along each axis weighted sums of a few elements (see `taps`). Which ones is known
where the sizes are; where these are symbols of a range, a formula computes places and weights when the program runs.

Where every element becomes the same whole number of neighbours, nearest neighbours are copies of elements and their
gradient a sum, without any places. PyTorch's CPU adds neighbours of weight 0, too: infinity there makes NaN of the sum,
and here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from habana_tf.formulas.term import Term
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, overload
from habana_tf.torch.ops.taps import Taps, over_sizes, summed

Looks = Callable[[Term, Term, Term], list[tuple[Term, Term | None]]]
"""Gives the places and weights (None: 1) of the elements that each element of the result is made of, in float32 as
PyTorch: from its own place, and how many elements there are before and after."""


def _resized(c: Call, x: Node, sizes: Sequence[Extent], looks: Sequence[Looks], backward: bool) -> Node:
    """x with its last axes in other sizes; backward: `sizes` are those of the forward op's input."""
    b, out = c.b, c.b.cast(x, DType.F32)
    first = x.rank - len(sizes)
    for axis, (size, look) in enumerate(zip(sizes, looks, strict=True), first):
        n = x.shape[axis]
        before, after = (size, n) if backward else (n, size)
        row = Term(b, b.iota((after,), 0, DType.F32))
        found = look(row, *(Term(b, b.extent(e, DType.F32)) for e in (before, after)))
        taps = Taps.known(c, found)
        if isinstance(before, int) and taps is not None:
            out = summed(c, out, axis, taps.transposed(before) if backward else taps)
        else:
            out = over_sizes(c, out, axis, found, before, backward)
    return out


def _scale(n: Term, m: Term, given: float | None) -> Term | float:
    """How far apart in the input neighbours of the output are."""
    return n / m if given is None or given <= 0 else 1 / given


def _nearest(given: float | None, exact: bool) -> Looks:
    def looks(row: Term, n: Term, m: Term) -> list[tuple[Term, Term | None]]:
        return [(((row + 0.5 if exact else row) * _scale(n, m, given)).map("floor").min(n - 1), None)]

    return looks


def _source(row: Term, n: Term, m: Term, given: float | None, align: bool) -> Term:
    """Where each element of the output lies in the input."""
    return row * ((n - 1) / (m - 1).max(1)) if align else (row + 0.5) * _scale(n, m, given) - 0.5


def _linear(given: float | None, align: bool) -> Looks:
    def looks(row: Term, n: Term, m: Term) -> list[tuple[Term, Term | None]]:
        source = _source(row, n, m, given, align).max(0)
        low = source.map("floor").min(n - 1)
        part = (source - low).min(1)
        step = n.test("ne", m).where(n.like(1), 0)
        return [(low, 1 - part), ((low + step).min(n - 1), part)]

    return looks


_SHARPNESS = -0.75
"""PyTorch's parameter of cubic convolution."""


def _cubic(given: float | None, align: bool) -> Looks:
    def looks(row: Term, n: Term, m: Term) -> list[tuple[Term, Term | None]]:
        a, source = _SHARPNESS, _source(row, n, m, given, align)
        low = source.map("floor")
        part = source - low
        found: list[tuple[Term, Term | None]] = []
        for k in range(-1, 3):
            t = (part - k).map("abs")
            near, far = ((a + 2) * t - (a + 3)) * t * t + 1, ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
            found.append(((low + k).max(0).min(n - 1), near if k in (0, 1) else far))
        return found

    return looks


def _windows(before: int, after: int) -> Taps:
    """Of adaptive pooling: each window's mean."""
    each = np.arange(after)[:, None]
    first, last = each * before // after, -(-(each + 1) * before // after)
    at = first + np.arange((last - first).max())
    weights = np.where(at < last, np.float32(1) / (last - first), 0)
    return Taps(np.where(at < last, at, -1).astype(np.int32), weights.astype(np.float32))


def _means(c: Call, x: Node, sizes: Sequence[Extent], backward: bool) -> Node:
    """x with means of windows along its last axes, or the gradient of those. Over a size that is a symbol each sum is
    one of all elements, with zero for those out of the window."""
    b, out = c.b, c.b.cast(x, DType.F32)
    for axis, size in enumerate(sizes, x.rank - len(sizes)):
        n = x.shape[axis]
        before, after = (size, n) if backward else (n, size)
        if isinstance(before, int) and isinstance(after, int):
            taps = _windows(before, after)
            out = summed(c, out, axis, taps.transposed(before) if backward else taps)
            continue
        shape = [*x.shape[:axis], *((before, after) if backward else (after, before)), *x.shape[axis + 1 :]]
        shape[:axis] = out.shape[:axis]
        window, element = (Term(b, b.iota(shape, k, DType.F32)) for k in (axis + backward, axis + (not backward)))
        elements, windows = (Term(b, b.extent(e, DType.F32)) for e in (before, after))
        first, last = (window * elements / windows).map("floor"), ((window + 1) * elements / windows).map("ceil")
        spread = b.broadcast_in_dim(out, shape, [k for k in range(len(shape)) if k != axis])
        mine = Term(b, b.map("and", element.test("ge", first).node, element.test("lt", last).node))
        share = Term(b, spread) / (last - first)
        out = b.reduce("sum", mine.where(share, 0).node, [axis + 1])
    return out


def _copied(c: Call, x: Node, sizes: Sequence[Extent], times: Sequence[int], backward: bool) -> Node:
    """Each element several times along the last axes, or the sums of such copies."""
    b, first = c.b, x.rank - len(sizes)
    small = list(x.shape[:first]) + (list(sizes) if backward else list(x.shape[first:]))
    apart = [*small[:first], *(n for size in small[first:] for n in (size, 1))]
    full = [*small[:first], *(n for size, t in zip(small[first:], times, strict=True) for n in (size, t))]
    if backward:
        split = b.reshape(b.cast(x, DType.F32), full)
        return b.reduce("sum", split, [first + 1 + 2 * k for k in range(len(sizes))])
    return b.reshape(b.expand(b.reshape(x, apart), full), c.shape)


def _times(before: Sequence[Extent], after: Sequence[Extent], scales: Sequence[float | None]) -> list[int] | None:
    """How often each element occurs, where nearest neighbours are plain copies."""
    times = []
    for n, m, scale in zip(before, after, scales, strict=True):
        whole = ext.divide(m, n)
        if not isinstance(whole, int) or scale is not None and scale != whole:
            return None
        times.append(whole)
    return times


def _nearest_rows(name: str, exact: bool, rank: int) -> None:
    def forward(c: Call, x: Node, output_size: Sequence[Extent], *scales: float | None) -> Node:
        given = list(scales) or [None] * rank
        if 0 in c.shape:
            return c.b.const(0, c.dtype, c.shape)
        times = _times(x.shape[-rank:], output_size, given)
        if times is not None:
            return _copied(c, x, output_size, times, False)
        return _resized(c, x, output_size, [_nearest(s, exact) for s in given], False)

    def backward(
        c: Call, dy: Node, output_size: Sequence[Extent], input_size: Sequence[Extent], *scales: float | None
    ) -> Node:
        given, sizes = list(scales) or [None] * rank, list(input_size)[-rank:]
        times = _times(sizes, output_size, given)
        if times is not None:
            return _copied(c, dy, sizes, times, True)
        return _resized(c, dy, sizes, [_nearest(s, exact) for s in given], True)

    overload(f"{name}{rank}d", floats=True, amounts=[1])(forward)
    overload(f"{name}{rank}d_backward", floats=True, amounts=[1, 2])(backward)


def _smooth_rows(name: str, rank: int, kind: Callable[[float | None, bool], Looks]) -> None:
    def forward(c: Call, x: Node, output_size: Sequence[Extent], align_corners: bool, *scales: float | None) -> Node:
        given = list(scales) or [None] * rank
        return _resized(c, x, output_size, [kind(s, align_corners) for s in given], False)

    def backward(
        c: Call, dy: Node, output_size: Sequence[Extent], input_size: Sequence[Extent], align_corners: bool,
        *scales: float | None,
    ) -> Node:  # fmt: skip
        given = list(scales) or [None] * rank
        if kind is _cubic and dy.shape[2:] == tuple(input_size)[2:]:
            return dy  # a copy on PyTorch's CPU, too
        return _resized(c, dy, list(input_size)[-rank:], [kind(s, align_corners) for s in given], True)

    overload(name, floats=True, amounts=[1])(forward)
    overload(f"{name}_backward", floats=True, amounts=[1, 2])(backward)


for _rank in (1, 2, 3):
    _nearest_rows("upsample_nearest", False, _rank)
    _nearest_rows("_upsample_nearest_exact", True, _rank)
for _name, _rank in {"upsample_linear1d": 1, "upsample_bilinear2d": 2, "upsample_trilinear3d": 3}.items():
    _smooth_rows(_name, _rank, _linear)
_smooth_rows("upsample_bicubic2d", 2, _cubic)


@overload("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", floats=True, amounts=[1])
def adaptive_average(c: Call, x: Node, output_size: Sequence[Extent]) -> Node:
    if 0 in c.shape:
        return c.b.const(0, c.dtype, c.shape)
    return _means(c, x, output_size, False)


def _adaptive_backward(rank: int) -> Callable[..., Node]:
    def backward(c: Call, dy: Node, x: Node) -> Node:
        if 0 in dy.shape:
            return c.b.const(0, c.dtype, c.shape)
        return _means(c, dy, x.shape[-rank:], True)

    return backward


for _rank in (2, 3):
    overload(f"_adaptive_avg_pool{_rank}d_backward", floats=True)(_adaptive_backward(_rank))
