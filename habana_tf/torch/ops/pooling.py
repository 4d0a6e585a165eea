"""Max pooling and its gradient. As in PyTorch, and unlike TensorFlow, NaN is the largest number."""

from __future__ import annotations

import math
from collections.abc import Sequence

from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node
from habana_tf.lowering.formula import Term
from habana_tf.torch.ops.row import Call, overload


def _pair(n: Sequence[int] | int, default: Sequence[int] = ()) -> tuple[int, int]:
    """One number for both axes, or one for each."""
    values = [n] if isinstance(n, int) else list(n) or list(default)
    return values[0], values[-1]


@overload("max_pool2d_with_indices", floats=True)
def max_pool2d(
    c: Call, x: Node, kernel: Sequence[int], stride: Sequence[int] = (), padding: Sequence[int] | int = 0,
    dilation: Sequence[int] | int = 1, ceil_mode: bool = False,
) -> list[Node]:  # fmt: skip
    """The maxima, and the place of each in its picture."""
    b, shape = c.b, c.shape
    if x.rank != 4:
        raise c.refused("a picture without a batch")
    (kh, kw), (sh, sw) = _pair(kernel), _pair(stride, kernel)
    (ph, pw), (dh, dw) = _pair(padding), _pair(dilation)
    height, width = (int(str(n)) for n in x.shape[2:])
    reach = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(shape[2:], (sh, sw), (kh, kw), (dh, dw), strict=True)]
    high = [max(r - n - p, 0) for r, n, p in zip(reach, (height, width), (ph, pw), strict=True)]
    padded = b.pad(x, (0, 0, ph, pw), (0, 0, *high), -math.inf)
    view = b.window(padded, (2, 3), (kh, kw), (sh, sw), (dh, dw))
    view = b.slice(view, [0] * 6, (*shape, kh, kw))
    elements = b.reshape(view, (*shape, kh * kw))
    first = Term(b, b.reduce("argmax", elements, [4], DType.I64))
    down = first / kw
    row = Term(b, b.iota(shape, 2)) * sh - ph + down * dh
    column = Term(b, b.iota(shape, 3)) * sw - pw + (first - down * kw) * dw
    return [b.reduce("max", elements, [4]), (row * width + column).node]


@overload("max_pool2d_with_indices_backward", floats=True)
def max_pool2d_backward(
    c: Call, dy: Node, x: Node, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int] | int,
    dilation: Sequence[int] | int, ceil_mode: bool, indices: Node,
) -> Node:  # fmt: skip
    b = c.b
    if x.rank != 4:
        raise c.refused("a picture without a batch")
    kernels, strides = _pair(kernel), _pair(stride, kernel)
    n, channels, height, width = (int(str(m)) for m in x.shape)
    rows, columns = (int(str(m)) for m in dy.shape[2:])
    apart = strides == kernels and _pair(padding) == (0, 0) and _pair(dilation) == (1, 1)
    if apart and rows * kernels[0] <= height and columns * kernels[1] <= width:
        blocks = (n, channels, rows, kernels[0], columns, kernels[1])
        seen = (rows * kernels[0], columns * kernels[1])

        def spread(x: Node) -> Node:  # each element of dy's shape to all that its window saw
            return b.reshape(b.expand(b.reshape(x, (n, channels, rows, 1, columns, 1)), blocks), (n, channels, *seen))

        places = (n, channels, *seen)
        own = Term(b, b.iota(places, 2)) * width + Term(b, b.iota(places, 3))
        taken = own.test("eq", Term(b, spread(indices))).where(Term(b, spread(dy)), 0.0)
        return b.pad(taken.node, (0, 0, 0, 0), (0, 0, height - seen[0], width - seen[1]))
    flat = (n * channels, rows * columns)
    base = b.const(0, DType.F32, (n * channels, height * width))
    coords = [b.iota(flat, 0), b.reshape(indices, flat)]
    return b.reshape(b.scatter(base, b.reshape(c.term(dy).node, flat), coords, [0, 1], "add"), x.shape)
