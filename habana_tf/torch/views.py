"""Views of a storage as primitives: how a tensor of some strides reads and writes the row-major contents of its block.

PyTorch's views are strides over one memory; a program has values instead. A view is taken apart into a grid over the
storage, a range per axis of it, a permutation, and broadcast axes:

    contents [8, 6], view [:, 2:4].t()      strides (1, 6), offset 2
    grid     [8, 6]  ranges 0:8, 2:4        then axes (1, 0)

Reading is RESHAPE, SLICE, PERMUTE, RESHAPE, EXPAND. Writing puts the new elements in the place of the old ones: all of
them where the ranges are whole, else a SELECT between the padded new ones and the old ones. What cannot be taken apart
so (overlapping windows) has no layout, and such an op runs on the CPU.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from itertools import pairwise

from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node

Shape = tuple[int, ...]
Geometry = tuple[Shape, Shape, int]
"""Shape, strides and offset of a tensor, in elements."""


@dataclass(frozen=True)
class Layout:
    """grid: extents over the storage's first elements, outermost first; begin, size: the range of each. axes: for each
    axis of the view of more than one element, in the view's order, which of the grid it is. shape: of the view;
    broadcast: with 1 for its axes of stride 0."""

    grid: Shape
    begin: Shape
    size: Shape
    axes: Shape
    shape: Shape
    broadcast: Shape


@functools.lru_cache(maxsize=4096)
def layout(count: int, geometry: Geometry) -> Layout | None:
    """The layout of a view of a storage of `count` elements; None where it has none."""
    shape, strides, offset = geometry
    broadcast = tuple(1 if s == 0 else n for n, s in zip(shape, strides, strict=True))
    own = [(s, k) for k, (n, s) in enumerate(zip(broadcast, strides, strict=True)) if n > 1]
    ordered = sorted(own, reverse=True)
    steps = [s for s, _ in ordered]
    if 0 in shape or steps != sorted(set(steps), reverse=True):
        return None
    if not steps or steps[-1] != 1:
        steps.append(1)  # an axis of one element, for what is left of the offset
    if any(outer % inner for outer, inner in pairwise(steps)) or count < steps[0]:
        return None
    grid = [count // steps[0], *(outer // inner for outer, inner in pairwise(steps))]
    begin, rest = [], offset
    for step in steps:
        begin.append(rest // step)
        rest %= step
    size = [shape[k] for _, k in ordered] + [1] * (len(steps) - len(ordered))
    if any(b + n > g for b, n, g in zip(begin, size, grid, strict=True)):
        return None
    place = {k: at for at, (_, k) in enumerate(ordered)}
    return Layout(tuple(grid), tuple(begin), tuple(size), tuple(place[k] for k in sorted(place)), shape, broadcast)


def read(b: Builder, contents: Node, lay: Layout) -> Node:
    """The view's elements."""
    grid = _gridded(b, contents, lay)
    part = b.slice(grid, lay.begin, lay.size)
    rest = [k for k in range(len(lay.grid)) if k not in lay.axes]
    return b.expand(b.reshape(b.permute(part, (*lay.axes, *rest)), lay.broadcast), lay.shape)


def write(b: Builder, contents: Node, new: Node, lay: Layout) -> Node:
    """The contents with the view's elements replaced. Of a view that has no broadcast axes."""
    rest = [k for k in range(len(lay.grid)) if k not in lay.axes]
    order = (*lay.axes, *rest)
    part = b.reshape(new, [lay.size[k] for k in order])
    part = b.permute(part, [order.index(k) for k in range(len(order))])
    covered = math.prod(lay.grid)
    if lay.size == lay.grid and covered == contents.numel:
        return b.reshape(part, contents.shape)
    high = [g - o - n for g, o, n in zip(lay.grid, lay.begin, lay.size, strict=True)]
    inside = b.pad(b.const(True, DType.BOOL, part.shape), lay.begin, high, False)
    put = b.select(inside, b.pad(part, lay.begin, high), _gridded(b, contents, lay))
    flat = b.reshape(put, (covered,))
    if covered != contents.numel:
        old = b.reshape(contents, (contents.numel,))
        assert isinstance(contents.numel, int)
        flat = b.concat([flat, b.slice(old, (covered,), (contents.numel - covered,))], 0)
    return b.reshape(flat, contents.shape)


def _gridded(b: Builder, contents: Node, lay: Layout) -> Node:
    """The storage's first elements as a grid."""
    covered = math.prod(lay.grid)
    if contents.numel == covered:
        return b.reshape(contents, lay.grid)
    return b.reshape(b.slice(b.reshape(contents, (contents.numel,)), (0,), (covered,)), lay.grid)
