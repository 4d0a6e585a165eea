"""Padding by a constant, by reflection and by replication, with gradients."""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, Operand, overload


def _sides(x: Node, pad: Sequence[Extent]) -> tuple[list[Extent], list[Extent]]:
    """Elements before and after each axis; PyTorch gives pairs from the last axis on."""
    low: list[Extent] = [0] * x.rank
    high: list[Extent] = [0] * x.rank
    for k in range(len(pad) // 2):
        low[x.rank - 1 - k], high[x.rank - 1 - k] = pad[2 * k], pad[2 * k + 1]
    return low, high


def _gone(n: Extent) -> int:
    """How many elements a negative padding takes away. Symbols are above 0."""
    return max(-n, 0) if isinstance(n, int) else 0


def _more(n: Extent) -> Extent:
    """How many elements a padding adds."""
    return max(n, 0) if isinstance(n, int) else n


def _part(c: Call, x: Node, axis: int, begin: Extent, size: Extent) -> Node:
    begins: list[Extent] = [begin if k == axis else 0 for k in range(x.rank)]
    return c.b.slice(x, begins, [size if k == axis else n for k, n in enumerate(x.shape)])


def _trimmed(c: Call, x: Node, low: Sequence[Extent], high: Sequence[Extent]) -> Node:
    """Without what a negative padding takes away."""
    begin = [_gone(n) for n in low]
    size = [ext.add(n, -b - _gone(h)) for n, b, h in zip(x.shape, begin, high, strict=True)]
    return c.b.slice(x, begin, size)


@overload("constant_pad_nd", runtime=["value"], literal=lambda n: n == 0, amounts=[1])
def constant_pad(c: Call, x: Node, pad: Sequence[Extent], value: Operand = 0) -> Node:
    low, high = _sides(x, pad)
    if 0 in c.shape:
        return c.b.const(0, c.dtype, c.shape)
    inner = _trimmed(c, x, low, high)
    fill = c.node(value, x.dtype)
    return c.b.pad(inner, [_more(n) for n in low], [_more(n) for n in high], fill)


def _reflected(c: Call, x: Node, axis: int, low: Extent, high: Extent) -> list[Node]:
    last = ext.add(x.shape[axis], -1)
    before, after = _part(c, x, axis, 1, low), _part(c, x, axis, _less(last, high), high)
    return [c.b.reverse(part, [axis]) for part in (before, after)]


def _replicated(c: Call, x: Node, axis: int, low: Extent, high: Extent) -> list[Node]:
    sides = []
    places: list[tuple[Extent, Extent]] = [(0, low), (ext.add(x.shape[axis], -1), high)]
    for place, count in places:
        shape = [count if k == axis else m for k, m in enumerate(x.shape)]
        sides.append(c.b.expand(_part(c, x, axis, place, 1), shape))
    return sides


def _padded(name: str) -> None:
    around = _reflected if name == "reflection" else _replicated

    def forward(c: Call, x: Node, padding: Sequence[Extent]) -> Node:
        low, high = _sides(x, padding)
        if 0 in c.shape:
            return c.b.const(0, c.dtype, c.shape)
        x = _trimmed(c, x, low, high)
        for axis, (before, after) in enumerate(zip(low, high, strict=True)):
            left, right = around(c, x, axis, _more(before), _more(after))
            parts = [(left, _more(before)), (x, 1), (right, _more(after))]
            x = c.b.concat([part for part, count in parts if count != 0], axis)
        return x

    def backward(c: Call, dy: Node, x: Node, padding: Sequence[Extent]) -> Node:
        low, high = _sides(x, padding)
        if any(_gone(n) for n in (*low, *high)) or 0 in dy.shape:
            raise c.refused("a negative padding")
        grad = c.term(dy).node
        for axis, (before, after) in enumerate(zip(low, high, strict=True)):
            if before != 0 or after != 0:
                grad = _collected(c, grad, axis, before, after, name == "reflection")
        return grad

    for rank in (1, 2, 3):
        overload(f"{name}_pad{rank}d", floats=True, pictures=[0], amounts=[1])(forward)
        overload(f"{name}_pad{rank}d_backward", floats=True, pictures=[1], amounts=[2])(backward)


def _less(n: Extent, by: Extent) -> Extent:
    return ext.add(n, ext.mul(by, -1))


def _collected(c: Call, grad: Node, axis: int, low: Extent, high: Extent, mirrored: bool) -> Node:
    """The gradient of one axis: of its own elements, and what its copies on both sides got."""
    b, n = c.b, grad.shape[axis]
    size = _less(_less(n, low), high)
    total = _part(c, grad, axis, low, size)
    last = ext.add(_less(size, high) if mirrored else size, -1)
    sides: list[tuple[Extent, Extent, Extent]] = [(0, low, 1 if mirrored else 0), (_less(n, high), high, last)]
    for begin, count, place in sides:
        if count == 0:
            continue
        part = _part(c, grad, axis, begin, count)
        if mirrored:
            part = b.reverse(part, [axis])
        else:
            kept = [1 if k == axis else m for k, m in enumerate(part.shape)]
            part = b.reshape(b.reduce("sum", part, [axis]), kept)
        before: list[Extent] = [0] * grad.rank
        after: list[Extent] = [0] * grad.rank
        before[axis], after[axis] = place, _less(_less(size, place), part.shape[axis])
        total = b.binary("add", total, b.pad(part, before, after))
    return total


_padded("reflection")
_padded("replication")
