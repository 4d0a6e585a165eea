"""Padding by a constant, by reflection and by replication, with gradients."""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.ir import extent as ext
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, Operand, overload


def _sides(x: Node, pad: Sequence[int]) -> tuple[list[int], list[int]]:
    """Elements before and after each axis; PyTorch gives pairs from the last axis on."""
    low, high = [0] * x.rank, [0] * x.rank
    for k in range(len(pad) // 2):
        low[x.rank - 1 - k], high[x.rank - 1 - k] = pad[2 * k], pad[2 * k + 1]
    return low, high


def _part(c: Call, x: Node, axis: int, begin: int, size: int) -> Node:
    begins = [begin if k == axis else 0 for k in range(x.rank)]
    return c.b.slice(x, begins, [size if k == axis else n for k, n in enumerate(x.shape)])


def _trimmed(c: Call, x: Node, low: Sequence[int], high: Sequence[int]) -> Node:
    """Without what a negative padding takes away."""
    begin = [max(-n, 0) for n in low]
    size = [ext.add(n, -b - max(-h, 0)) for n, b, h in zip(x.shape, begin, high, strict=True)]
    return c.b.slice(x, begin, size)


@overload("constant_pad_nd", runtime=["value"], literal=lambda n: n == 0)
def constant_pad(c: Call, x: Node, pad: Sequence[int], value: Operand = 0) -> Node:
    low, high = _sides(x, pad)
    if 0 in c.shape:
        return c.b.const(0, c.dtype, c.shape)
    inner = _trimmed(c, x, low, high)
    fill = c.node(value, x.dtype)
    return c.b.pad(inner, [max(n, 0) for n in low], [max(n, 0) for n in high], fill)


def _reflected(c: Call, x: Node, axis: int, low: int, high: int) -> list[Node]:
    n = c.number(x.shape[axis])
    before, after = _part(c, x, axis, 1, low), _part(c, x, axis, n - 1 - high, high)
    return [c.b.reverse(part, [axis]) for part in (before, after)]


def _replicated(c: Call, x: Node, axis: int, low: int, high: int) -> list[Node]:
    n = c.number(x.shape[axis])
    sides = []
    for place, count in ((0, low), (n - 1, high)):
        shape = [count if k == axis else m for k, m in enumerate(x.shape)]
        sides.append(c.b.expand(_part(c, x, axis, place, 1), shape))
    return sides


def _padded(name: str) -> None:
    around = _reflected if name == "reflection" else _replicated

    def forward(c: Call, x: Node, padding: Sequence[int]) -> Node:
        low, high = _sides(x, padding)
        if 0 in c.shape:
            return c.b.const(0, c.dtype, c.shape)
        x = _trimmed(c, x, low, high)
        for axis, (before, after) in enumerate(zip(low, high, strict=True)):
            left, right = around(c, x, axis, max(before, 0), max(after, 0)) if max(before, after) > 0 else (None, None)
            parts = [(left, before), (x, 1), (right, after)]
            x = c.b.concat([part for part, count in parts if part is not None and count > 0], axis)
        return x

    def backward(c: Call, dy: Node, x: Node, padding: Sequence[int]) -> Node:
        low, high = _sides(x, padding)
        if min(*low, *high, 0) < 0 or 0 in dy.shape:
            raise c.refused("a negative padding")
        grad = c.term(dy).node
        for axis, (before, after) in enumerate(zip(low, high, strict=True)):
            if max(before, after) > 0:
                grad = _collected(c, grad, axis, before, after, name == "reflection")
        return grad

    for rank in (1, 2, 3):
        overload(f"{name}_pad{rank}d", floats=True, pictures=[0])(forward)
        overload(f"{name}_pad{rank}d_backward", floats=True, pictures=[1])(backward)


def _collected(c: Call, grad: Node, axis: int, low: int, high: int, mirrored: bool) -> Node:
    """The gradient of one axis: of its own elements, and what its copies on both sides got."""
    b, n = c.b, c.number(grad.shape[axis])
    size = n - low - high
    total = _part(c, grad, axis, low, size)
    for begin, count, place in ((0, low, 1 if mirrored else 0), (n - high, high, size - 1 - (high if mirrored else 0))):
        if not count:
            continue
        part = _part(c, grad, axis, begin, count)
        if mirrored:
            part = b.reverse(part, [axis])
        else:
            kept = [1 if k == axis else m for k, m in enumerate(part.shape)]
            part = b.reshape(b.reduce("sum", part, [axis]), kept)
        width = c.number(part.shape[axis])
        before = [place if k == axis else 0 for k in range(grad.rank)]
        after = [size - place - width if k == axis else 0 for k in range(grad.rank)]
        total = b.binary("add", total, b.pad(part, before, after))
    return total


_padded("reflection")
_padded("replication")
