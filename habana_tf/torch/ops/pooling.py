"""Max and average pooling and their gradients. As in PyTorch, and unlike TensorFlow, NaN is the largest number.

Maxima and their gradient are looked for in pictures with their channels last, so that in a program of forward and
backward the places are found once. Where the gradient's `indices` are what the forward pass of the same program gave,
it finds them in the input. Others, a user's or of another program, it compares with places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from habana_tf.formulas import max_pooling
from habana_tf.formulas.spatial import WindowAxis
from habana_tf.formulas.term import Term
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, overload
from habana_tf.torch.ops.taps import Taps, summed

_LAST, _FIRST = (0, 2, 3, 1), (0, 3, 1, 2)

Sides = Sequence[int] | int


def _each(n: Sides, rank: int, default: Sequence[int] = ()) -> list[int]:
    """One number for all axes, or one for each."""
    values = [n] if isinstance(n, int) else list(n) or list(default)
    return values * rank if len(values) == 1 else values


def _axes(
    c: Call, sizes: Sequence[Extent], out: Sequence[Extent], kernel: Sides, stride: Sides, padding: Sides,
    dilation: Sides = 1,
) -> list[WindowAxis]:  # fmt: skip
    """Of pictures of these sizes; out: those of the result."""
    rank, found = len(out), []
    kernels = _each(kernel, rank)
    given = (_each(stride, rank, kernels), _each(padding, rank), _each(dilation, rank))
    for n, o, k, s, p, d in zip(c.numbers(sizes), c.numbers(out), kernels, *given, strict=True):
        seen = (o - 1) * s + (k - 1) * d + 1
        found.append(WindowAxis(n, k, s, d, p, max(seen - n - p, 0), o))
    return found


def _axes_of_maxima(c: Call, x: Node, out: Sequence[Extent], *sides: Sides) -> list[WindowAxis]:
    if x.rank != 4:
        raise c.refused("a picture without a batch")
    return _axes(c, x.shape[2:], out[2:], *sides)


@overload("max_pool2d_with_indices", floats=True)
def max_pool2d(
    c: Call, x: Node, kernel: Sequence[int], stride: Sequence[int] = (), padding: Sides = 0, dilation: Sides = 1,
    ceil_mode: bool = False,
) -> list[Node]:  # fmt: skip
    """The maxima, and the place of each in its picture."""
    b, axes = c.b, _axes_of_maxima(c, x, c.shape, kernel, stride, padding, dilation)
    elements = max_pooling.elements(b, b.permute(x, _LAST), axes)
    return [
        b.permute(b.reduce("max", elements, [4]), _FIRST),
        _indices(c, max_pooling.winners(b, elements, axes), axes),
    ]


def _indices(c: Call, places: Node, axes: Sequence[WindowAxis]) -> Node:
    """int64 [N, C, height, width]: the place in its picture of an element, from its offset in a window."""
    b, (height, width), shape = c.b, axes, places.shape
    first = Term(b, b.cast(places, DType.I64))

    def place(a: WindowAxis, axis: int, offset: Term) -> Term:
        return Term(b, b.iota(shape, axis)) * a.stride - c.number(a.low) + offset * a.dilation

    down = first / width.kernel
    row, column = place(height, 1, down), place(width, 2, first - down * width.kernel)
    return b.permute((row * c.number(width.size) + column).node, _FIRST)


@overload("max_pool2d_with_indices_backward", floats=True)
def max_pool2d_backward(
    c: Call, dy: Node, x: Node, kernel: Sequence[int], stride: Sequence[int], padding: Sides, dilation: Sides,
    ceil_mode: bool, indices: Node,
) -> Node:  # fmt: skip
    b, axes = c.b, _axes_of_maxima(c, x, dy.shape, kernel, stride, padding, dilation)
    first = max_pooling.winners(b, max_pooling.elements(b, b.permute(x, _LAST), axes), axes)
    grad = b.permute(dy, _LAST)
    if indices is _indices(c, first, axes):
        return b.permute(max_pooling.gradient_of_winners(b, grad, axes, first), _FIRST)
    height, width = axes
    line = c.number(width.size)
    if c.number(height.size) * line > 1 << 31:
        raise c.refused("a picture of more than 2**31 places")

    def own(shape: Sequence[Extent], by_window: bool) -> Node:
        """The place in its picture. One that is said to be outside of its window gets nothing, as from PyTorch's
        kernels for GPUs."""

        def along(a: WindowAxis, axis: int) -> Term:
            out, offset = (Term(b, b.iota(shape, k, DType.I32)) for k in (axis, axis + 1))
            return out * a.stride - c.number(a.low) + offset * a.dilation if by_window else out

        return (along(height, 1) * line + along(width, 3 if by_window else 2)).node

    places = b.permute(b.cast(indices, DType.I32), _LAST)
    return b.permute(max_pooling.gradient(b, grad, axes, places, own), _FIRST)


# -- averages ---------------------------------------------------------------------------------------------------


def _averages(
    c: Call, x: Node, out: Sequence[Extent], kernel: Sides, stride: Sides, padding: Sides, include_pad: bool,
    override: int | None,
) -> tuple[list[WindowAxis], Node]:  # fmt: skip
    """The axes, and float32 [O..]: what each sum is divided by, if nothing else how many elements it has."""
    rank = int(c.name.removeprefix("avg_pool")[0])
    axes, counts = _axes(c, x.shape[-rank:], out[-rank:], kernel, stride, padding), np.ones((), np.float32)
    for a in axes:
        number, size, low = c.numbers((a.out, a.size, a.low))
        first = np.arange(number) * a.stride - low
        last = np.minimum(first + a.kernel, size + low)
        held = last - first if include_pad else np.minimum(last, size) - np.maximum(first, 0)
        counts = np.multiply.outer(counts, held.astype(np.float32))
    return axes, c.b.literal(np.full_like(counts, override) if override else counts)


@overload("avg_pool2d", "avg_pool3d", floats=True)
def average_pool(
    c: Call, x: Node, kernel: Sides, stride: Sides = (), padding: Sides = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Node:  # fmt: skip
    if 0 in c.shape:
        return c.b.const(0, c.dtype, c.shape)
    axes, divisor = _averages(c, x, c.shape, kernel, stride, padding, count_include_pad, divisor_override)
    b, rest = c.b, x.rank - len(axes)
    padded = b.pad(x, (*[0] * rest, *(a.low for a in axes)), (*[0] * rest, *(a.high for a in axes)))
    kernels = [a.kernel for a in axes]
    view = b.window(padded, range(rest, x.rank), kernels, [a.stride for a in axes])
    view = b.slice(view, [0] * view.rank, (*x.shape[:rest], *(a.out for a in axes), *kernels))
    return b.binary("div", b.reduce("sum", b.cast(view, DType.F32), range(x.rank, view.rank)), divisor)


@overload("avg_pool2d_backward", "avg_pool3d_backward", floats=True)
def average_pool_backward(
    c: Call, dy: Node, x: Node, kernel: Sides, stride: Sides, padding: Sides, ceil_mode: bool, *divisor: Any
) -> Node:
    """Each share goes to all elements of its window."""
    if 0 in dy.shape:
        return c.b.const(0, c.dtype, c.shape)
    axes, by = _averages(c, x, dy.shape, kernel, stride, padding, *divisor)
    grad = c.b.binary("div", c.b.cast(dy, DType.F32), by)
    for axis, a in enumerate(axes, x.rank - len(axes)):
        number, size, low = c.numbers((a.out, a.size, a.low))
        at = (np.arange(number) * a.stride - low)[:, None] + np.arange(a.kernel)
        places = np.where((at >= 0) & (at < size), at, -1).astype(np.int32)
        grad = summed(c, grad, axis, Taps(places, np.ones(at.shape, np.float32)).transposed(size))
    return grad
