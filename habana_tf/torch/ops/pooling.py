"""Max pooling and its gradient. As in PyTorch, and unlike TensorFlow, NaN is the largest number.

Both look for the maxima in pictures with their channels last, so that in a program of forward and backward the places
are found once. Where the gradient's `indices` are what the forward pass of the same program gave, it finds them in the
input: where windows do not overlap it has no sum, and else one over the windows that saw an element (see
`tensorflow.lowering.pooling`, whose gradient is built alike). Others, a user's or of another program, it compares with
places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from habana_tf.formulas import spatial
from habana_tf.formulas.spatial import WindowAxis
from habana_tf.formulas.term import Term
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, overload

_LAST, _FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
_I8_PLACES = 128
"""Elements of a window whose offsets an int8 can be."""

Sides = Sequence[int] | int


def _pair(n: Sides, default: Sides = ()) -> tuple[int, int]:
    """One number for both axes, or one for each."""
    values = [n] if isinstance(n, int) else list(n) or list(_pair(default))
    return values[0], values[-1]


def _axes(
    c: Call, x: Node, out: Sequence[Extent], kernel: Sides, stride: Sides, padding: Sides, dilation: Sides
) -> list[WindowAxis]:
    """Of pictures [N, C, height, width]; out: the shape of their maxima."""
    if x.rank != 4:
        raise c.refused("a picture without a batch")
    sizes = c.numbers(x.shape[2:])
    found = []
    for n, k, s, p, d, o in zip(
        sizes, _pair(kernel), _pair(stride, kernel), _pair(padding), _pair(dilation), c.numbers(out[2:]), strict=True
    ):
        seen = (o - 1) * s + (k - 1) * d + 1
        found.append(WindowAxis(n, k, s, d, p, max(seen - n - p, 0), o))
    return found


def _elements(c: Call, x: Node, axes: Sequence[WindowAxis]) -> Node:
    """[N, height, width, C, elements of a window]"""
    view = spatial.windows(c.b, c.b.permute(x, _LAST), axes, -math.inf)
    return c.b.reshape(view, [*view.shape[:4], math.prod(a.kernel for a in axes)])


def _places(c: Call, elements: Node, axes: Sequence[WindowAxis]) -> Node:
    """int32 [N, height, width, C]: the offset in its window of each first maximum. Where all elements are -inf, padding
    before them is no less: the first element of the picture comes later."""
    b, kept = c.b, DType.I8 if math.prod(a.kernel for a in axes) <= _I8_PLACES else DType.I32
    found = b.cast(b.reduce("argmax", elements, (4,), kept), DType.I32)
    if all(a.low == 0 for a in axes):
        return found
    least = Term(b, b.const(0, DType.I32, found.shape))
    for k, a in enumerate(axes):
        begin = Term(b, b.iota(found.shape, k + 1, DType.I32)) * a.stride
        missing = (-begin + c.number(a.low)).max(0)
        least = least * a.kernel + (missing + (a.dilation - 1)) / a.dilation
    return Term(b, found).max(least).node


@overload("max_pool2d_with_indices", floats=True)
def max_pool2d(
    c: Call, x: Node, kernel: Sequence[int], stride: Sequence[int] = (), padding: Sides = 0, dilation: Sides = 1,
    ceil_mode: bool = False,
) -> list[Node]:  # fmt: skip
    """The maxima, and the place of each in its picture."""
    b, axes = c.b, _axes(c, x, c.shape, kernel, stride, padding, dilation)
    elements = _elements(c, x, axes)
    return [b.permute(b.reduce("max", elements, [4]), _FIRST), _indices(c, _places(c, elements, axes), axes)]


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
    b, axes = c.b, _axes(c, x, dy.shape, kernel, stride, padding, dilation)
    first, grad = _places(c, _elements(c, x, axes), axes), b.permute(dy, _LAST)
    if indices is not _indices(c, first, axes):
        return _where(c, dy, indices, axes)
    if spatial.disjoint(axes):
        shape = [x.shape[0], *(n for a in axes for n in (a.out, a.kernel)), x.shape[1]]
        mine = b.map("eq", b.broadcast_in_dim(first, shape, (0, 1, 3, 5)), _offsets(c, axes, shape, (2, 4)))
        taken = b.select(mine, b.broadcast_in_dim(grad, shape, (0, 1, 3, 5)), b.const(0, dy.dtype))
        return b.permute(spatial.unfold(b, taken, axes), _FIRST)
    winner = spatial.spread(b, first, axes, -1)
    many = [axes[k] for k in spatial.kept(axes)]
    turned = _offsets(c, many, winner.shape, range(4, winner.rank))
    last = b.const(math.prod(a.kernel for a in axes) - 1, DType.I32, winner.shape)
    mine = b.map("eq", winner, b.map("sub", last, turned))
    taken = b.cast(b.select(mine, spatial.spread(b, grad, axes), b.const(0, dy.dtype)), dy.dtype.accumulator)
    return b.permute(b.reduce("sum", taken, range(4, taken.rank)), _FIRST)


def _where(c: Call, dy: Node, indices: Node, axes: Sequence[WindowAxis]) -> Node:
    """The gradient of a picture from the places that its windows' maxima are said to have. One outside of its window
    gets nothing, as from PyTorch's kernels for GPUs."""
    b, (height, width), zero = c.b, axes, c.b.const(0, dy.dtype)
    line = c.number(width.size)
    if c.number(height.size) * line > 1 << 31:
        raise c.refused("a picture of more than 2**31 places")
    places, grad = b.permute(b.cast(indices, DType.I32), _LAST), b.permute(dy, _LAST)

    def along(a: WindowAxis, shape: Sequence[Extent], axis: int) -> Term:
        out, offset = (Term(b, b.iota(shape, k, DType.I32)) for k in (axis, axis + 1))
        return out * a.stride - c.number(a.low) + offset * a.dilation

    if spatial.disjoint(axes):
        shape = [dy.shape[0], *(n for a in axes for n in (a.out, a.kernel)), dy.shape[1]]
        own = along(height, shape, 1) * line + along(width, shape, 3)
        mine = b.map("eq", b.broadcast_in_dim(places, shape, (0, 1, 3, 5)), own.node)
        taken = b.select(mine, b.broadcast_in_dim(grad, shape, (0, 1, 3, 5)), zero)
        return b.permute(spatial.unfold(b, taken, axes), _FIRST)
    said = spatial.spread(b, places, axes, -1)
    sizes = said.shape
    row, column = (Term(b, b.iota(sizes, k, DType.I32)) for k in (1, 2))
    mine = b.map("eq", said, (row * line + column).node)
    taken = b.cast(b.select(mine, spatial.spread(b, grad, axes), zero), dy.dtype.accumulator)
    return b.permute(b.reduce("sum", taken, range(4, taken.rank)), _FIRST)


def _offsets(c: Call, axes: Sequence[WindowAxis], shape: Sequence[Extent], places: Sequence[int]) -> Node:
    """int32 of `shape`: the row-major offset in the window, whose axes stand at `places`."""
    sizes = list(shape)
    total = Term(c.b, c.b.const(0, DType.I32, sizes))
    for a, place in zip(axes, places, strict=True):
        total = total * a.kernel + Term(c.b, c.b.iota(sizes, place, DType.I32))
    return total.node
