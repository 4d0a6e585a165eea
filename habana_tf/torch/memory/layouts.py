"""Chooses the order of axes in memory while primitives are built, by moving permutations towards the results of a
program.

PyTorch's pictures have their channels first, and convolutions are fast with channels last. Each lowering permutes as it
needs; this builder moves a PERMUTE behind the primitives that use it, until it meets its inverse and both are gone:

    permute(x, p) + permute(y, p)        permute(x + y, p)
    sum of axes of permute(x, p)         permute(sum of these axes of x, the rest of p)
    product with permute(x, p)           product with x under permuted labels

So only what enters and leaves a program is transposed, and all between has the order of axes that the products want. An
operand without a permutation (a bias over all pixels, a constant) is permuted where that moves nothing large; where it
would, the PERMUTE stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Contraction, Node, Op, Scan

Axes = tuple[int, ...]
_DEPTH = 8
"""How many elementwise functions, one within the other, are permuted operand by operand."""


class SinkingBuilder(Builder):
    """Builds programs in which permutations come as late as they can."""

    def permute(self, x: Node, perm: Sequence[int]) -> Node:
        """Axis i of the result is axis perm[i] of x; one that moves axes of one element only is a reshape."""
        many = [p for p in perm if x.shape[p] != 1]
        if many == sorted(many):
            return self.reshape(x, [x.shape[p] for p in perm])
        return super().permute(x, perm)

    def _node(self, op: Op, src: Sequence[Node], shape: Sequence[Extent], dtype: DType, arg: Any = None) -> Node:
        sink = _SINKS.get(op)
        if sink is not None and any(s.op is Op.PERMUTE for s in src):
            made = sink(self, _Wanted(tuple(src), tuple(shape), dtype, arg))
            if made is not None:
                return made
        return super()._node(op, src, shape, dtype, arg)

    def turned(self, x: Node, axes: Axes, depth: int = _DEPTH) -> Node | None:
        """x permuted by `axes`, if that moves nothing large in memory; never by a PERMUTE. Else None."""
        if x.op is Op.EXPAND:
            shape = [x.shape[a] for a in axes]
            return super()._node(Op.EXPAND, (self.permute(x.src[0], axes),), shape, x.dtype)
        if x.op is Op.PERMUTE and x.src[0].op is Op.EXPAND:
            return self.turned(x.src[0], tuple(x.arg[a] for a in axes), depth)
        if x.op is Op.MAP and depth:
            sources = [self.turned(s, axes, depth - 1) for s in x.src]
            known = [s for s in sources if s is not None]
            if len(known) == len(sources):
                return self.map(x.arg, *known, dtype=x.dtype)
        return None

    def contract(self, a: Node, b: Node, spec: Contraction, dtype: DType | None = None) -> Node:
        """See `Builder.contract`. A batch axis that joins several axes in both operands is taken apart again: PyTorch's
        products have one batch axis, and attention joins examples and heads in it that do not lie side by side in
        memory."""
        kind = dtype or a.dtype
        (a, first), (b, second) = _unturned(a, spec.a), _unturned(b, spec.b)
        for label in set(first) & set(second) & set(spec.out):
            one, two = _joined(a, first.index(label)), _joined(b, second.index(label))
            if not one or one != two:
                continue
            new = tuple(range(1 + max(*first, *second), 1 + max(*first, *second) + len(one)))
            made = [_apart(self, a, first, label, new, one), _apart(self, b, second, label, new, one)]
            at = spec.out.index(label)
            out = (*spec.out[:at], *new, *spec.out[at + 1 :])
            apart = replace(spec, a=made[0][1], b=made[1][1], out=out)
            product = self.contract(made[0][0], made[1][0], apart, kind)
            return self.reshape(product, (*product.shape[:at], ext.product(one), *product.shape[at + len(one) :]))
        return super().contract(a, b, replace(spec, a=first, b=second), kind)

    def alike(self, src: Sequence[Node]) -> tuple[list[Node], Axes] | None:
        """The nodes of which all these nodes are the same permutation; None where they are not."""
        moved = [s for s in src if s.op is Op.PERMUTE]
        large = [s for s in moved if s.src[0].op is not Op.EXPAND] or moved
        perm = large[0].arg
        if any(s.arg != perm for s in large):
            return None
        back = inverse(perm)
        inner = [s.src[0] if s.op is Op.PERMUTE and s.arg == perm else self.turned(s, back) for s in src]
        known = [s for s in inner if s is not None]
        return (known, perm) if len(known) == len(inner) else None


def inverse(perm: Axes) -> Axes:
    """The permutation that undoes another."""
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


@dataclass(frozen=True)
class _Wanted:
    """The arguments of `Builder._node` but for the primitive."""

    src: tuple[Node, ...]
    shape: tuple[Extent, ...]
    dtype: DType
    arg: Any


_Sink = Callable[[SinkingBuilder, _Wanted], "Node | None"]


def _map(b: SinkingBuilder, w: _Wanted) -> Node | None:
    found = b.alike(w.src)
    return None if found is None else b.permute(b.map(w.arg, *found[0], dtype=w.dtype), found[1])


def _concat(b: SinkingBuilder, w: _Wanted) -> Node | None:
    found = b.alike(w.src)
    return None if found is None else b.permute(b.concat(found[0], found[1][w.arg]), found[1])


def _reduce(b: SinkingBuilder, w: _Wanted) -> Node:
    (x,), (kind, axes) = w.src, w.arg
    perm = x.arg
    left = [p for k, p in enumerate(perm) if k not in axes]
    made = b.reduce(kind, x.src[0], [perm[a] for a in axes], w.dtype)
    return b.permute(made, [sorted(left).index(p) for p in left])


def _reshape(b: SinkingBuilder, w: _Wanted) -> Node | None:
    (x,) = w.src
    parts = groups(x.shape, w.shape)
    if parts is None:
        return None
    perm = x.arg
    inner = []
    for mine, made in parts:
        axes = [perm[k] for k in mine if x.shape[k] != 1]
        if axes and axes != list(range(axes[0], axes[0] + len(axes))):
            return None  # axes that are joined and do not lie side by side
        inner.append((axes[0] if axes else -1, made))
    inner.sort(key=lambda part: part[0])
    order = [k for _, made in inner for k in made]
    return b.permute(b.reshape(x.src[0], [w.shape[k] for k in order]), inverse(tuple(order)))


def groups(before: Sequence[Extent], after: Sequence[Extent]) -> list[tuple[list[int], list[int]]] | None:
    """Pairs of the axes of a tensor and the axes that they become under another shape, in groups that are as small as
    can be. None where sizes are symbols of which it is not known, and for tensors without elements."""
    if 0 in (*before, *after):
        return None
    sizes = list(before), list(after)
    found: list[tuple[list[int], list[int]]] = []
    at = [0, 0]
    while at != [len(before), len(after)]:
        axes: tuple[list[int], list[int]] = [], []
        count: list[Extent] = [1, 1]
        sides = [side for side in (0, 1) if at[side] < len(sizes[side])]
        while sides:
            for side in sides:
                if at[side] == len(sizes[side]):
                    return None
                axes[side].append(at[side])
                count[side] = ext.mul(count[side], sizes[side][at[side]])
                at[side] += 1
            less = None if count[0] == count[1] else _smaller(*count)
            if less is None and count[0] != count[1]:
                return None
            sides = [] if less is None else [less]
        found.append(axes)
    return found


def _smaller(a: Extent, b: Extent) -> int | None:
    """Which of two different sizes is a factor of the other or less than it; None where that depends on symbols."""
    if isinstance(a, int) and isinstance(b, int):
        return 0 if a < b else 1
    if ext.divide(b, a) is not None:
        return 0
    return 1 if ext.divide(a, b) is not None else None


def _expand(b: SinkingBuilder, w: _Wanted) -> Node:
    perm = w.src[0].arg
    return b.permute(b.expand(w.src[0].src[0], _reordered(w.shape, perm)), perm)


def _slice(b: SinkingBuilder, w: _Wanted) -> Node:
    perm = w.src[0].arg
    begin, step = (_reordered(values, perm) for values in w.arg)
    return b.permute(b.slice(w.src[0].src[0], begin, _reordered(w.shape, perm), step), perm)


def _pad(b: SinkingBuilder, w: _Wanted) -> Node | None:
    x, value = w.src
    if x.op is not Op.PERMUTE:
        return None
    low, high, interior = (_reordered(values, x.arg) for values in w.arg)
    return b.permute(b.pad(x.src[0], low, high, value, interior), x.arg)


def _window(b: SinkingBuilder, w: _Wanted) -> Node:
    (x,), (axes, size, stride, dilation) = w.src, w.arg
    made = b.window(x.src[0], [x.arg[a] for a in axes], size, stride, dilation)
    return b.permute(made, (*x.arg, *range(x.rank, made.rank)))


def _along(b: SinkingBuilder, w: _Wanted) -> Node:
    """SORT and SCAN, whose arguments name an axis."""
    x = w.src[0]
    turned = replace(w.arg, axis=x.arg[w.arg.axis])
    op = Op.SCAN if isinstance(w.arg, Scan) else Op.SORT
    return b.permute(b._node(op, (x.src[0],), _reordered(w.shape, x.arg), w.dtype, turned), x.arg)


def _unturned(x: Node, labels: Axes) -> tuple[Node, Axes]:
    """An operand of a product without its permutation, and its labels, permuted instead."""
    return (x.src[0], _reordered(labels, x.arg)) if x.op is Op.PERMUTE else (x, labels)


def _joined(x: Node, axis: int) -> tuple[Extent, ...]:
    """The sizes of the axes that a RESHAPE joins to this one; () where it joins none."""
    parts = groups(x.src[0].shape, x.shape) if x.op is Op.RESHAPE else None
    for mine, made in parts or ():
        if made == [axis] and len(mine) > 1:
            return tuple(x.src[0].shape[k] for k in mine)
    return ()


def _apart(b: Builder, x: Node, labels: Axes, label: int, new: Axes, sizes: Sequence[Extent]) -> tuple[Node, Axes]:
    """An operand of a product in which one axis is several axes."""
    at = labels.index(label)
    return b.reshape(x, (*x.shape[:at], *sizes, *x.shape[at + 1 :])), (*labels[:at], *new, *labels[at + 1 :])


def _reordered(values: Sequence[Any], perm: Axes) -> tuple[Any, ...]:
    """Values for the axes of permute(x, perm) in the order of x's."""
    return tuple(values[k] for k in inverse(perm))


_SINKS: dict[Op, _Sink] = {
    Op.MAP: _map, Op.CONCAT: _concat, Op.REDUCE: _reduce, Op.RESHAPE: _reshape, Op.EXPAND: _expand, Op.SLICE: _slice,
    Op.PAD: _pad, Op.WINDOW: _window, Op.SORT: _along, Op.SCAN: _along,
}  # fmt: skip
