"""Overloads that move elements to places that are known: joins, repetitions, reversals, triangles."""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, both, overload


@overload("cat")
def cat(c: Call, tensors: Sequence[Node], dim: int = 0) -> Node:
    parts = [c.node(t, c.dtype) for t in tensors if t.shape != (0,) or len(c.shape) == 1]
    return c.b.concat(parts, dim % len(c.shape)) if parts else c.b.const(0, c.dtype, c.shape)


def _axes(x: Node, dims: Sequence[int] | int) -> list[int]:
    return [d % max(x.rank, 1) for d in ([dims] if isinstance(dims, int) else dims)]


overload("flip")(lambda c, x, dims: c.b.reverse(x, _axes(x, dims)) if x.rank and 0 not in c.shape else x)


@overload("roll", pictures=[0])
def roll(c: Call, x: Node, shifts: Sequence[int] | int, dims: Sequence[int] | int = ()) -> Node:
    b = c.b
    moves = [shifts] if isinstance(shifts, int) else list(shifts)
    axes = _axes(x, dims)
    if 0 in c.shape or not x.rank:
        return x
    out = x if axes else b.reshape(x, (x.numel,))
    for shift, axis in zip(moves, axes or [0], strict=True):
        n = c.number(out.shape[axis])
        cut = -shift % n
        if cut:
            out = b.concat([b.along(out, axis, cut, n - cut), b.along(out, axis, 0, cut)], axis)
    return b.reshape(out, c.shape)


@overload("repeat", amounts=[1])
def repeat(c: Call, x: Node, repeats: Sequence[int]) -> Node:
    b = c.b
    if 0 in c.shape:
        return b.const(0, c.dtype, c.shape)
    shape = (*[1] * (len(repeats) - x.rank), *x.shape)
    apart = [n for extent in shape for n in (1, extent)]
    full = [n for times, extent in zip(repeats, shape, strict=True) for n in (times, extent)]
    return b.reshape(b.expand(b.reshape(x, apart), full), c.shape)


def _triangle(c: Call, x: Node, fn: str, diagonal: Extent) -> Node:
    b = c.b
    rows, columns = b.iota(x.shape, x.rank - 2), b.iota(x.shape, x.rank - 1)
    kept = b.binary(fn, columns, b.binary("add", rows, b.extent(diagonal, DType.I64)))
    return b.select(kept, x, b.const(0, x.dtype))


overload(*both("tril"), amounts=[1])(lambda c, x, diagonal=0: _triangle(c, x, "le", diagonal))
overload(*both("triu"), amounts=[1])(lambda c, x, diagonal=0: _triangle(c, x, "ge", diagonal))


@overload("im2col")
def im2col(
    c: Call, x: Node, kernel_size: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]
) -> Node:
    """Windows of pictures, each a column."""
    b = c.b
    if x.rank != 4:
        raise c.refused("a picture without a batch")
    padded = b.pad(x, (0, 0, *padding), (0, 0, *padding))
    view = b.window(padded, (2, 3), tuple(kernel_size), tuple(stride), tuple(dilation))
    return b.reshape(b.permute(view, (0, 1, 4, 5, 2, 3)), c.shape)


@overload("linalg_cross")
def cross(c: Call, x: Node, y: Node, dim: int = -1) -> Node:
    b = c.b
    axis = dim % len(c.shape)
    a, z = (b.expand(c.node(n, c.dtype.accumulator), c.shape) for n in (x, y))

    def turned(n: Node, by: int) -> Node:
        return b.concat([b.along(n, axis, (k + by) % 3, 1) for k in range(3)], axis)

    first = b.binary("mul", turned(a, 1), turned(z, 2))
    return b.binary("sub", first, b.binary("mul", turned(a, 2), turned(z, 1)))
