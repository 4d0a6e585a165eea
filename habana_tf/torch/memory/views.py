"""Views of a storage as primitives: how a program reads and writes a tensor with strides.

PyTorch's views are strides over one memory. A program has no memory but values: the row-major contents of a storage. So
a view is taken apart into a grid over the contents, a range of each axis of the grid, a permutation, and broadcast
axes:

    contents [8, 6], view [:, 2:4].t()      strides (1, 6), offset 2
    grid     [8, 6]  ranges 0:8, 2:4        then axes (1, 0)

Axes that follow each other in memory without a gap may be one axis of the grid, so that a range of a flat storage is a
view of any shape: `flat[3:9].view(2, 3)` has the grid [n], range 3:9.

A read is RESHAPE, SLICE, PERMUTE, RESHAPE, EXPAND. A write makes new contents, with the view's elements replaced:

    all of the contents                       the new elements
    a small part of a storage that was read   SCATTER, which a launch does in place: a token into a cache
    one range of the contents                 CONCAT of what is before, the new elements, what is behind
    others                                    SELECT between the padded new elements and the old ones

A view that cannot be taken apart so, as overlapping windows cannot, has no layout; an op on it runs on the CPU.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.conditions import Premises
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent, nominal
from habana_tf.ir.primitives import Node, Op

Shape = tuple[int, ...]
Sizes = tuple[Extent, ...]
Geometry = tuple[Shape, Shape, int]
"""Shape, strides and offset of a tensor, in elements."""


@dataclass(frozen=True)
class Layout:
    """A view taken apart. grid: sizes of the grid over the storage's first elements, outermost first. begin, size: the
    range of each axis of the grid. axes: for each axis of the view that has more than one element, or several such axes
    that are one in the grid, its axis of the grid, in the view's order. shape: of the view. broadcast: the shape with 1
    for axes of stride 0."""

    grid: Sizes
    begin: Sizes
    size: Sizes
    axes: Shape
    shape: Sizes
    broadcast: Sizes


SMALL = 8
"""How many times the elements of a view the storage has at least for its write to be a SCATTER."""
MOST_PARTS = 64
"""Parts of contents that one CONCAT puts together; later ones are written in place, one after the other."""


@functools.lru_cache(maxsize=4096)
def layout(whole: Shape, geometry: Geometry) -> Layout | None:
    """The layout of a view of a storage whose contents have the shape `whole`; None where it has none."""
    shape, strides, offset = geometry
    count = math.prod(whole)
    broadcast = tuple(1 if s == 0 else n for n, s in zip(shape, strides, strict=True))
    own = [(n, s) for n, s in zip(broadcast, strides, strict=True) if n > 1]
    if 0 in shape:
        return None
    gridded = _grid(count, own, offset) or _grid(count, _without_gaps(own), offset)
    if gridded is None:
        return None
    (grid, *_), row = gridded, whole[-1] if whole else 1
    if len(grid) == 1 and 1 < row < count:
        gridded = _in_rows(*gridded, row)
    return Layout(*gridded, shape, broadcast)


def _in_rows(grid: Shape, begin: Shape, size: Shape, axes: Shape, row: int) -> tuple[Shape, Shape, Shape, Shape]:
    """A range of a flat storage as a range of its rows, if it begins and ends with one."""
    if begin[0] % row or size[0] % row:
        return grid, begin, size, axes
    return (grid[0] // row, row), (begin[0] // row, 0), (size[0] // row, row), (0, 1)


def _without_gaps(axes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Axes, as (size, stride), where each one that continues the one before without a gap is joined to it."""
    joined: list[tuple[int, int]] = []
    for n, s in axes:
        if joined and joined[-1][1] == n * s:
            joined[-1] = (joined[-1][0] * n, s)
        else:
            joined.append((n, s))
    return joined


def _grid(count: int, axes: list[tuple[int, int]], offset: int) -> tuple[Shape, Shape, Shape, Shape] | None:
    """Grid, begin, size and axes of a Layout, for axes of a view as (size, stride); None where they are no grid."""
    ordered = sorted(range(len(axes)), key=lambda k: -axes[k][1])
    steps = [axes[k][1] for k in ordered]
    if steps != sorted(set(steps), reverse=True):
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
    size = [axes[k][0] for k in ordered] + [1] * (len(steps) - len(ordered))
    if any(b + n > g for b, n, g in zip(begin, size, grid, strict=True)):
        return None
    return tuple(grid), tuple(begin), tuple(size), tuple(ordered.index(k) for k in range(len(axes)))


def read(b: Builder, contents: Node, lay: Layout) -> Node:
    """The view's elements."""
    grid = _gridded(b, contents, lay)
    part = b.slice(grid, lay.begin, lay.size)
    rest = [k for k in range(len(lay.grid)) if k not in lay.axes]
    return b.expand(b.reshape(b.permute(part, (*lay.axes, *rest)), lay.broadcast), lay.shape)


def write(b: Builder, contents: Node, new: Node, lay: Layout, premises: Premises, often: bool = False) -> Node:
    """The contents with the elements of a view replaced; the view has no broadcast axes. premises: say where the view
    ends if sizes are symbols. often: whether other parts of these contents are written as well."""
    rest = [k for k in range(len(lay.grid)) if k not in lay.axes]
    order = (*lay.axes, *rest)
    part = b.reshape(new, [lay.size[k] for k in order])
    part = b.permute(part, [order.index(k) for k in range(len(order))])
    covered = ext.product(lay.grid)
    if lay.size == lay.grid and covered == contents.numel:
        return b.reshape(part, contents.shape)
    together = lay.size[1:] == lay.grid[1:]
    small = SMALL * nominal(new.numel) <= nominal(contents.numel) and covered == contents.numel
    flat = _flat(contents)
    many = flat.op is Op.CONCAT and len(flat.src) > MOST_PARTS
    if small and (many or flat.op in (Op.INPUT, Op.SCATTER) and not (together and often and flat.op is Op.INPUT)):
        return b.reshape(_scattered(b, b.reshape(contents, lay.grid), part, lay), contents.shape)
    if together:
        inner = ext.product(lay.grid[1:])
        return _range_replaced(b, contents, b.reshape(part, (part.numel,)), ext.mul(lay.begin[0], inner), premises)
    high = [g - o - n for g, o, n in zip(lay.grid, lay.begin, lay.size, strict=True)]
    inside = b.pad(b.const(True, DType.BOOL, part.shape), lay.begin, high, False)
    put = b.select(inside, b.pad(part, lay.begin, high), _gridded(b, contents, lay))
    flat = b.reshape(put, (covered,))
    if covered != contents.numel:
        old = b.reshape(contents, (contents.numel,))
        flat = b.concat([flat, b.slice(old, (covered,), (contents.numel - covered,))], 0)
    return b.reshape(flat, contents.shape)


def _scattered(b: Builder, grid: Node, part: Node, lay: Layout) -> Node:
    """A grid with a part of it replaced by a SCATTER. The part may begin at symbols, which are then numbers at run
    time."""
    cut = [k for k, (g, n) in enumerate(zip(lay.grid, lay.size, strict=True)) if g != n]
    sizes = [lay.size[k] for k in cut]
    coords = [b.binary("add", b.iota(sizes, at), b.extent(lay.begin[k], DType.I64)) for at, k in enumerate(cut)]
    rest = [k for k in range(len(lay.grid)) if k not in cut]
    return b.scatter(grid, b.permute(part, (*cut, *rest)), coords, cut, "set")


def _range_replaced(b: Builder, contents: Node, new: Node, begin: Extent, premises: Premises) -> Node:
    """The contents with a vector in the place of as many elements from `begin` on."""
    end = ext.add(begin, new.numel)
    parts = [*_parts(b, contents, 0, begin, premises), new, *_parts(b, contents, end, contents.numel, premises)]
    return b.reshape(b.concat(parts, 0), contents.shape)


def _flat(contents: Node) -> Node:
    """Contents before they were reshaped."""
    return contents.src[0] if contents.op is Op.RESHAPE else contents


def _parts(b: Builder, contents: Node, begin: Extent, end: Extent, premises: Premises) -> Iterator[Node]:
    """Vectors that together are the elements from `begin` to `end`. Where earlier writes made the contents as a CONCAT,
    they are its parts, so that many writes are one CONCAT, and elements that are replaced are not read."""
    if premises.at_least(begin, end):
        return
    flat = contents.src[0] if contents.op == Op.RESHAPE and contents.src[0].rank == 1 else contents
    known = isinstance(begin, int) and isinstance(end, int) and all(isinstance(p.numel, int) for p in flat.src)
    if flat.op != Op.CONCAT or flat.rank != 1 or not known:
        yield b.slice(b.reshape(contents, (contents.numel,)), (begin,), (ext.add(end, ext.mul(begin, -1)),))
        return
    assert isinstance(begin, int) and isinstance(end, int)
    at = 0
    for part in flat.src:
        assert isinstance(part.numel, int)
        yield from _parts(b, part, max(begin - at, 0), min(end - at, part.numel), premises)
        at += part.numel


def _gridded(b: Builder, contents: Node, lay: Layout) -> Node:
    """The storage's first elements as a grid."""
    covered = ext.product(lay.grid)
    if contents.numel == covered:
        return b.reshape(contents, lay.grid)
    return b.reshape(b.slice(b.reshape(contents, (contents.numel,)), (0,), (covered,)), lay.grid)
