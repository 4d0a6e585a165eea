"""Max pooling and its gradient. As in PyTorch, and unlike TensorFlow, NaN is the largest number.

Both look for the maxima in pictures with their channels last, so that in a program of forward and backward the places
are found once. Where the gradient's `indices` are what the forward pass of the same program gave, it finds them in the
input. Others, a user's or of another program, it compares with places.
"""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.formulas import max_pooling
from habana_tf.formulas.spatial import WindowAxis
from habana_tf.formulas.term import Term
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, overload

_LAST, _FIRST = (0, 2, 3, 1), (0, 3, 1, 2)

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


@overload("max_pool2d_with_indices", floats=True)
def max_pool2d(
    c: Call, x: Node, kernel: Sequence[int], stride: Sequence[int] = (), padding: Sides = 0, dilation: Sides = 1,
    ceil_mode: bool = False,
) -> list[Node]:  # fmt: skip
    """The maxima, and the place of each in its picture."""
    b, axes = c.b, _axes(c, x, c.shape, kernel, stride, padding, dilation)
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
    b, axes = c.b, _axes(c, x, dy.shape, kernel, stride, padding, dilation)
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
