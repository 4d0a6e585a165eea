"""Padding by a constant, by reflection and by replication, with gradients."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from habana_tf.formulas import padding
from habana_tf.formulas.term import Term
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
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


def _replicated(b: Builder, x: Node, axis: int, low: Extent, high: Extent) -> list[Node]:
    sides = []
    places: list[tuple[Extent, Extent]] = [(0, low), (ext.add(x.shape[axis], -1), high)]
    for place, count in places:
        shape = [count if k == axis else m for k, m in enumerate(x.shape)]
        sides.append(b.expand(b.along(x, axis, place, 1), shape))
    return sides


def _padded(name: str) -> None:
    reflected = name == "reflection"
    around = partial(padding.mirrored, skip=1) if reflected else _replicated
    gradient = partial(padding.mirrored_gradient, skip=1) if reflected else _replicated_gradient

    def forward(c: Call, x: Node, pad: Sequence[Extent]) -> Node:
        low, high = _sides(x, pad)
        if 0 in c.shape:
            return c.b.const(0, c.dtype, c.shape)
        x = _trimmed(c, x, low, high)
        for axis, (before, after) in enumerate(zip(low, high, strict=True)):
            left, right = around(c.b, x, axis, _more(before), _more(after))
            parts = [(left, _more(before)), (x, 1), (right, _more(after))]
            x = c.b.concat([part for part, count in parts if count != 0], axis)
        return x

    def backward(c: Call, dy: Node, x: Node, pad: Sequence[Extent]) -> Node:
        low, high = _sides(x, pad)
        if any(_gone(n) for n in (*low, *high)) or 0 in dy.shape:
            raise c.refused("a negative padding")
        grad = c.term(dy).node
        for axis, (before, after) in enumerate(zip(low, high, strict=True)):
            if before != 0 or after != 0:
                grad = gradient(c.b, grad, axis, before, after)
        return grad

    for rank in (1, 2, 3):
        overload(f"{name}_pad{rank}d", floats=True, pictures=[0], amounts=[1])(forward)
        overload(f"{name}_pad{rank}d_backward", floats=True, pictures=[1], amounts=[2])(backward)


def _replicated_gradient(b: Builder, grad: Node, axis: int, low: Extent, high: Extent) -> Node:
    """The gradient of one axis: of its own elements, and the sums of what the copies of both ends got."""
    n = grad.shape[axis]
    size = padding.less(padding.less(n, low), high)
    places = (0, low, 0), (padding.less(n, high), high, ext.add(size, -1))
    sides = [
        (Term(b, b.along(grad, axis, begin, count)).sum([axis]).node, place)
        for begin, count, place in places if count != 0
    ]  # fmt: skip
    return padding.added(b, b.along(grad, axis, low, size), axis, sides)


_padded("reflection")
_padded("replication")
