"""Upsampling and adaptive pooling: along each axis a product with a matrix of weights. It is known where the sizes are;
where these are symbols of a range, the same formula computes it when the program runs.

Where every element becomes the same whole number of neighbours, nearest neighbours are copies of elements and their
gradient a sum, without a product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Contraction, Node
from habana_tf.lowering.formula import Term
from habana_tf.torch.ops.row import Call, overload


@dataclass(frozen=True)
class Weights:
    """A matrix of weights. known: of (elements before, elements after): float32 [after, before]; formula: an element of
    it, of (its row, its column, elements before, elements after)."""

    known: Callable[[int, int], Any]
    formula: Callable[[Term, Term, Term, Term], Term]


def _applied(c: Call, x: Node, axis: int, matrix: Node) -> Node:
    """x multiplied by a matrix [after, before] along an axis."""
    labels = tuple(range(x.rank))
    new = x.rank
    out = tuple(new if k == axis else k for k in labels)
    return c.b.contract(matrix, x, Contraction((new, axis), labels, out, DType.F32))


def _resized(c: Call, x: Node, sizes: Sequence[Extent], weights: Sequence[Weights], backward: bool) -> Node:
    """x with its last axes in other sizes; backward: `sizes` are those of the forward op's input."""
    out = c.b.cast(x, DType.F32)
    first = x.rank - len(sizes)
    for k, (size, weight) in enumerate(zip(sizes, weights, strict=True)):
        n = x.shape[first + k]
        before, after = (size, n) if backward else (n, size)
        if not isinstance(before, int) or not isinstance(after, int):
            made = over_sizes(c, weight, before, after)
            out = _applied(c, out, first + k, c.b.permute(made, (1, 0)) if backward else made)
            continue
        matrix = weight.known(before, after).T if backward else weight.known(before, after)
        if matrix.shape[0] == matrix.shape[1] and (matrix == np.eye(matrix.shape[0], dtype=np.float32)).all():
            continue
        out = _applied(c, out, first + k, c.b.literal(np.ascontiguousarray(matrix)))
    return out


def over_sizes(c: Call, weights: Weights, before: Extent, after: Extent) -> Node:
    """The matrix of weights over sizes that are symbols."""
    b = c.b
    row, column = (Term(b, b.iota((after, before), axis, DType.F32)) for axis in (0, 1))
    n, m = (Term(b, b.extent(e, DType.F32)) for e in (before, after))
    return b.expand(weights.formula(row, column, n, m).node, (after, before))


def _one_where(test: Term) -> Term:
    return Term(test.b, test.b.cast(test.node, DType.F32))


def _source(row: Term, n: Term, m: Term, given: float | None, align: bool) -> Term:
    """`_centres` as a formula."""
    if align:
        return row * ((n - 1) / (m - 1).max(1))
    scale = n / m if given is None or given <= 0 else 1 / given
    return (row + 0.5) * scale - 0.5


def _scale(before: int, after: int, given: float | None, align: bool = False) -> float:
    """How far apart in the input neighbours of the output are."""
    if align:
        return (before - 1) / (after - 1) if after > 1 else 0.0
    return 1 / given if given is not None and given > 0 else before / after


def _nearest(given: float | None, exact: bool) -> Weights:
    def weights(before: int, after: int) -> Any:
        scale = np.float32(_scale(before, after, given))
        places = np.arange(after, dtype=np.float32)
        source = np.floor((places + np.float32(0.5)) * scale if exact else places * scale).astype(np.int64)
        matrix = np.zeros((after, before), np.float32)
        matrix[np.arange(after), np.minimum(source, before - 1)] = 1
        return matrix

    def formula(row: Term, column: Term, n: Term, m: Term) -> Term:
        scale = n / m if given is None or given <= 0 else 1 / given
        source = ((row + 0.5) * scale if exact else row * scale).map("floor").min(n - 1)
        return _one_where(source.test("eq", column))

    return Weights(weights, formula)


def _centres(before: int, after: int, given: float | None, align: bool) -> Any:
    """Where each element of the output lies in the input."""
    scale = _scale(before, after, given, align)
    places = np.arange(after, dtype=np.float64)
    return places * scale if align else (places + 0.5) * scale - 0.5


def _linear(given: float | None, align: bool) -> Weights:
    def weights(before: int, after: int) -> Any:
        source = np.maximum(_centres(before, after, given, align), 0)
        low = np.minimum(source.astype(np.int64), before - 1)
        part = source - low
        matrix = np.zeros((after, before), np.float64)
        rows = np.arange(after)
        np.add.at(matrix, (rows, low), 1 - part)
        np.add.at(matrix, (rows, np.minimum(low + 1, before - 1)), part)
        return matrix.astype(np.float32)

    def formula(row: Term, column: Term, n: Term, m: Term) -> Term:
        source = _source(row, n, m, given, align).max(0).min(n - 1)
        return (1 - (source - column).map("abs")).max(0)

    return Weights(weights, formula)


_SHARPNESS = -0.75
"""PyTorch's parameter of cubic convolution."""


def _cubic(given: float | None, align: bool) -> Weights:
    def kernel(t: Any) -> Any:
        a, t = _SHARPNESS, np.abs(t)
        near = ((a + 2) * t - (a + 3)) * t * t + 1
        far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        return np.where(t <= 1, near, np.where(t < 2, far, 0.0))

    def weights(before: int, after: int) -> Any:
        source = _centres(before, after, given, align)
        low = np.floor(source).astype(np.int64)
        matrix = np.zeros((after, before), np.float64)
        for k in range(-1, 3):
            np.add.at(matrix, (np.arange(after), np.clip(low + k, 0, before - 1)), kernel(source - (low + k)))
        return matrix.astype(np.float32)

    def formula(row: Term, column: Term, n: Term, m: Term) -> Term:
        a, source = _SHARPNESS, _source(row, n, m, given, align)
        low = source.map("floor")
        part, total = source - low, None
        for k in range(-1, 3):
            t = (part - k).map("abs")
            near, far = ((a + 2) * t - (a + 3)) * t * t + 1, ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
            mine = _one_where((low + k).max(0).min(n - 1).test("eq", column)) * (near if k in (0, 1) else far)
            total = mine if total is None else total + mine
        assert total is not None
        return total

    return Weights(weights, formula)


def _means(before: int, after: int) -> Any:
    """Of adaptive pooling: each window's mean."""
    matrix = np.zeros((after, before), np.float32)
    for k in range(after):
        first, last = k * before // after, -((-(k + 1) * before) // after)
        matrix[k, first:last] = 1 / (last - first)
    return matrix


def _means_formula(row: Term, column: Term, n: Term, m: Term) -> Term:
    first, last = (row * n / m).map("floor"), ((row + 1) * n / m).map("ceil")
    return _one_where(column.test("ge", first)) * _one_where(column.test("lt", last)) / (last - first)


_MEAN = Weights(_means, _means_formula)


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


def _smooth_rows(name: str, rank: int, kind: Callable[[float | None, bool], Weights]) -> None:
    def forward(c: Call, x: Node, output_size: Sequence[Extent], align_corners: bool, *scales: float | None) -> Node:
        given = list(scales) or [None] * rank
        return _resized(c, x, output_size, [kind(s, align_corners) for s in given], False)

    def backward(
        c: Call, dy: Node, output_size: Sequence[Extent], input_size: Sequence[Extent], align_corners: bool,
        *scales: float | None,
    ) -> Node:  # fmt: skip
        given = list(scales) or [None] * rank
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
    return _resized(c, x, output_size, [_MEAN] * len(output_size), False)


def _adaptive_backward(rank: int) -> Callable[..., Node]:
    def backward(c: Call, dy: Node, x: Node) -> Node:
        if 0 in dy.shape:
            return c.b.const(0, c.dtype, c.shape)
        return _resized(c, dy, x.shape[-rank:], [_MEAN] * rank, True)

    return backward


for _rank in (2, 3):
    overload(f"_adaptive_avg_pool{_rank}d_backward", floats=True)(_adaptive_backward(_rank))
