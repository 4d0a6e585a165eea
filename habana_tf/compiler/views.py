"""Where a view's elements come from: indices of a view turned into indices of its source.

A view primitive never moves data by itself. Asked for its element at an index, it names its source, the index
there and, for a pad, the conditions under which the source has that element at all. Everything that reads tensors
(fusion, code generation, contractions) goes through these functions.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import extent as ext
from .extent import Extent
from .ir import Node, Op

Index = tuple[Extent, ...]


class Unfit(Exception):
    """A node whose form the code generator cannot take; the cluster is then interpreted. Says which and why."""


@dataclass(frozen=True)
class Range:
    """The condition 0 <= value < stop, and value divisible by `step` (a pad's interior)."""

    value: Extent
    stop: Extent
    step: int = 1


def reshape_index(index: Index, shape: tuple[Extent, ...], source: tuple[Extent, ...]) -> Index:
    """The index in `source` of element `index` of its reshape to `shape`.

    Works on the smallest groups of axes with equal element counts, so that axes which the reshape leaves alone
    stay simple.
    """
    if 0 in shape:
        return (0,) * len(source)
    out: list[Extent] = []
    i = j = 0
    while i < len(shape) or j < len(source):
        new, old = [i], [j]
        left: Extent = shape[i] if i < len(shape) else 1
        right: Extent = source[j] if j < len(source) else 1
        i, j = i + 1, j + 1
        while left != right:
            if isinstance(left, int) and isinstance(right, int):
                grow_left = left < right
            elif ext.divide(left, right) is not None:
                grow_left = False
            elif ext.divide(right, left) is not None:
                grow_left = True
            else:
                grow_left = i < len(shape) and (j >= len(source) or len(new) <= len(old))
            if grow_left and i < len(shape):
                left, i = ext.mul(left, shape[i]), i + 1
                new.append(i - 1)
            elif j < len(source):
                right, j = ext.mul(right, source[j]), j + 1
                old.append(j - 1)
            else:
                raise Unfit(f"reshape of {source} to {shape} over run-time extents")
        new = [k for k in new if k < len(shape) and shape[k] != 1]
        old = [k for k in old if k < len(source)]
        offset = ext.ravel([index[k] for k in new], [shape[k] for k in new])
        wide = [k for k in old if source[k] != 1]
        if len(wide) <= 1:
            parts: tuple[Extent, ...] = (offset,)
        else:
            sizes = [source[k] for k in wide]
            if len(new) == len(wide) and [shape[k] for k in new] == sizes:
                parts = tuple(index[k] for k in new)
            elif all(isinstance(n, int) for n in sizes[1:]):
                parts = ext.unravel(offset, sizes)
            else:
                raise Unfit(f"reshape of {source} to {shape} over run-time extents")
        found = dict(zip(wide, parts, strict=False))
        out.extend(found.get(k, 0) for k in old)
    return tuple(out)


def in_memory_order(reshape: Node) -> bool:
    """Whether a reshape's elements can only be told by their place in memory: its source must then be kept there."""
    source = reshape.src[0].shape
    if all(isinstance(n, int) for n in (*reshape.shape, *source)):
        return False
    try:
        reshape_index(tuple(ext.var(f"x{k}", n) for k, n in enumerate(reshape.shape)), reshape.shape, source)
    except Unfit:
        return True
    return False


def source_of(node: Node, index: Index) -> tuple[Node, Index, list[Range]]:
    """The source of a one-source view, the index there, and the ranges that must hold (else: the pad's value)."""
    x = node.src[0]
    match node.op:
        case Op.RESHAPE:
            return x, reshape_index(index, node.shape, x.shape), []
        case Op.EXPAND:
            return x, tuple(0 if n == 1 else i for i, n in zip(index, x.shape, strict=True)), []
        case Op.PERMUTE:
            inner: list[Extent] = [0] * x.rank
            for i, p in zip(index, node.arg, strict=True):
                inner[p] = i
            return x, tuple(inner), []
        case Op.SLICE:
            begin, step = node.arg
            return x, tuple(ext.add(b, ext.mul(i, s)) for i, b, s in zip(index, begin, step, strict=True)), []
        case Op.WINDOW:
            axes, size, stride, dilation = node.arg
            inner = list(index[: x.rank])
            for k, (a, _, s, d) in enumerate(zip(axes, size, stride, dilation, strict=True)):
                inner[a] = ext.add(ext.mul(index[a], s), ext.mul(index[x.rank + k], d))
            return x, tuple(inner), []
        case Op.PAD:
            low, high, interior = node.arg
            inner, ranges = [], []
            for i, n, lo, hi, gap in zip(index, x.shape, low, high, interior, strict=True):
                at = ext.add(i, ext.mul(lo, -1))
                if gap:
                    ranges.append(Range(at, ext.add(ext.mul(ext.add(n, -1), gap + 1), 1), gap + 1))
                    at = ext.div(at, gap + 1)
                elif lo or hi:
                    ranges.append(Range(at, n))
                inner.append(at)
            return x, tuple(inner), ranges
    raise AssertionError(f"{node} is not a view of one source")


def strides(shape: tuple[Extent, ...]) -> tuple[Extent, ...]:
    """Row-major strides in elements."""
    out: list[Extent] = []
    step: Extent = 1
    for n in reversed(shape):
        out.append(step)
        step = ext.mul(step, n)
    return tuple(reversed(out))
