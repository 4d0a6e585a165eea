"""The loop nest of a contraction whose sizes and strides are run-time data: the argument of the primitive PRODUCT.

    matmul [128,256] x [256,1024]       rows 128     columns 1024   windows 1   depth 256
    1x1 convolution of [1,40,40,144]    rows 1600    columns 24     windows 1   depth 144
    3x3 convolution of [2,20,20,128]    batch 2      rows 20,20     columns 128    windows 9   depth 128   padded
    depthwise 3x3 of [1,40,40,96]       rows 40,40   channels 96    windows 9                  padded

A `LoopNest` has the extent of each loop and its strides in the operands and in the result. For an eager op all of them
are symbols: one recipe serves all products with the same register tile. In a cluster for a range of sizes they are
expressions of the cluster's symbols.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent

DEEP = 2048
"""The most steps of `depth` of a padded product: rows in the padding read from an array of so many zeros."""
ANYWHERE = 1 << 62
"""A bound beyond any position: no padding."""


@dataclass(frozen=True)
class StridedLoop:
    """The extent of a loop, and its strides (in elements) in a, in b and in the result."""

    extent: Extent = 1
    a: Extent = 0
    b: Extent = 0
    out: Extent = 0


@dataclass(frozen=True)
class RowBounds:
    """Implicit zero padding: a is 0 unless 0 <= start + step * (index of the row loop) + (window's shift) < size."""

    start: Extent = 0
    step: Extent = 0
    size: Extent = ANYWHERE


@dataclass(frozen=True)
class Window:
    """A term of the sum over windows: its offsets (in elements) in a and b, and its shift of both rows' positions."""

    a: int
    b: int
    shifts: tuple[int, int]


@dataclass(frozen=True)
class RegisterTile:
    """What is fixed in the code: the register tile, rows by vectors, and what the lanes of a vector run along.

    lanes: "columns" of b, contiguous; "apart", columns with a stride; or "channels" of all three tensors, as in a
    depthwise convolution.
    """

    rows: int
    vectors: int
    lanes: Literal["columns", "apart", "channels"]


@dataclass(frozen=True)
class LoopNest:
    """arg of PRODUCT: out[batch, rows, column] = sum over windows, then over depth, of a * b, in that order.

    The operands are flat and begin at `offsets`; bounds[i] are those of row loop i. Windows are listed in `windows`, or
    are the points of `window_loops`, or, in a program over symbols, follow the other numbers: `windows` is empty,
    `window_count` is their number and `table` the index of their first number. The loops are tiled: `row_tiles` by
    `panels` of columns, `tiles` of them in all, `share` of which are a work item; there are `items`.
    """

    tile: RegisterTile
    batch: tuple[StridedLoop, ...]
    rows: tuple[StridedLoop, StridedLoop]
    columns: StridedLoop
    depth: StridedLoop
    bounds: tuple[RowBounds, RowBounds]
    offsets: tuple[Extent, Extent]
    row_tiles: Extent
    panels: Extent
    tiles: Extent
    share: Extent
    items: Extent
    window_count: Extent
    windows: tuple[Window, ...] = ()
    table: int = 0
    window_loops: tuple[StridedLoop, ...] = ()

    @property
    def multiply_adds(self) -> Extent:
        """Multiplications of the product."""
        loops = (*self.batch, *self.rows, self.columns, self.depth)
        return ext.mul(ext.product(x.extent for x in loops), self.window_count)

    def numbers(self) -> list[Extent]:
        """The run-time numbers in their order, without the windows."""
        parts = [getattr(self, name) for name in _VARYING]
        return [n for part in parts for n in _flat(part)]

    def over_symbols(self, first: int) -> LoopNest:
        """The loop nest with symbols, numbered from `first` on, for its numbers."""
        count = len(self.numbers())
        symbols = iter([ext.sym(first + k) for k in range(count)])
        parts = {name: _replaced(getattr(self, name), symbols) for name in _VARYING}
        return replace(self, **parts, windows=(), table=first + count)

    def dims(self) -> list[int]:
        """The values of those symbols, then the windows."""
        found = [n for n in self.numbers() if isinstance(n, int)]
        for w in self.windows:
            found += [w.a, w.b, *w.shifts]
        return found

    def bound(self, dims: Sequence[int]) -> LoopNest:
        """The loop nest with the values of its symbols."""
        numbers = iter([ext.evaluate(n, list(dims)) for n in self.numbers()])
        parts = {name: _replaced(getattr(self, name), numbers) for name in _VARYING}
        if self.window_loops:
            loops = [[ext.evaluate(n, list(dims)) for n in _flat(x)] for x in self.window_loops]
            windows = []
            for point in product(*(range(n) for n, *_ in loops)):
                a, b = (sum(i * x[side] for i, x in zip(point, loops, strict=True)) for side in (1, 2))
                windows.append(Window(a, b, (0, 0)))
            return replace(self, **parts, windows=tuple(windows), window_loops=())
        lines = [dims[k : k + 4] for k in range(self.table, self.table + 4 * parts["window_count"], 4)]
        return replace(self, **parts, windows=tuple(Window(a, b, (x, y)) for a, b, x, y in lines))


_VARYING = (
    "batch", "rows", "columns", "depth", "bounds", "offsets", "row_tiles", "panels", "tiles", "share", "items",
    "window_count",
)  # fmt: skip


def _flat(value: Any) -> list[Extent]:
    if isinstance(value, tuple):
        return [n for x in value for n in _flat(x)]
    if isinstance(value, StridedLoop):
        return [value.extent, value.a, value.b, value.out]
    if isinstance(value, RowBounds):
        return [value.start, value.step, value.size]
    return [value]


def _replaced(value: Any, numbers: Iterator[Extent]) -> Any:
    if isinstance(value, tuple):
        return tuple(_replaced(x, numbers) for x in value)
    if isinstance(value, (StridedLoop, RowBounds)):
        return type(value)(*(next(numbers) for _ in _flat(value)))
    return next(numbers)


def as_number(e: Extent) -> int:
    """A constant extent."""
    return ext.evaluate(e, [])


def evaluate(nest: LoopNest, a: Any, b: Any, shape: Sequence[int]) -> Any:
    """The product of flat NumPy arrays, in this shape. All extents and strides are numbers."""
    import numpy as np

    loops = [*nest.batch, *nest.rows, nest.columns, nest.depth]
    index = np.meshgrid(*(np.arange(as_number(n.extent)) for n in loops), indexing="ij", sparse=True)

    def offsets(side: str, start: int) -> Any:
        return sum((i * as_number(getattr(x, side)) for i, x in zip(index, loops, strict=True)), np.array(start))

    sums = np.zeros([as_number(x.extent) for x in loops[:-1]], np.float32)
    for window in nest.windows:
        inside = np.array(True)
        for bounds, i, shift in zip(nest.bounds, index[2:4], window.shifts, strict=True):
            position = i * as_number(bounds.step) + (as_number(bounds.start) + shift)
            inside = inside & (position >= 0) & (position < as_number(bounds.size))
        from_a = np.where(inside, offsets("a", as_number(nest.offsets[0]) + window.a), 0)
        from_b = offsets("b", as_number(nest.offsets[1]) + window.b)
        sums += (np.where(inside, a[from_a], 0) * b[from_b]).sum(-1, dtype=np.float32)
    out = np.zeros(math.prod(shape), np.float32)
    out[np.broadcast_to(offsets("out", 0)[..., 0], sums.shape)] = sums
    return out.reshape(shape)
