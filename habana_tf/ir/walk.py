"""A product whose sizes are data: the argument of the primitive PRODUCT, and what it means.

    matmul [128,256] x [256,1024]       rows 128     columns 1024   windows 1   depth 256
    1x1 convolution of [1,40,40,144]    rows 1600    columns 24     windows 1   depth 144
    3x3 convolution of [2,20,20,128]    batch 2      rows 20,20     columns 128    windows 9   depth 128   padded
    depthwise 3x3 of [1,40,40,96]       rows 40,40   channels 96    windows 9                  padded

A `Walk` says how far each loop goes and how far apart its steps are in the operands and in the result. In the program
of an op by itself they are all symbols: one recipe serves every product of one form. In a cluster for a range of sizes
they are what follows from its symbols.
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
"""The most inner steps of a padded product: a row in the padding reads zeros, of which the code has so many."""
ANYWHERE = 1 << 62
"""More than any position: a row is always inside."""


@dataclass(frozen=True)
class Loop:
    """How far a loop goes, and the elements from one step to the next in a, in b, in the result."""

    extent: Extent = 1
    a: Extent = 0
    b: Extent = 0
    out: Extent = 0


@dataclass(frozen=True)
class Inside:
    """Padding that is not in memory: a is 0 unless 0 <= start + step * (index of the row loop) + (the window's move)
    < size."""

    start: Extent = 0
    step: Extent = 0
    size: Extent = ANYWHERE


@dataclass(frozen=True)
class Window:
    """A step of the sum over windows: elements from the first one in a and in b, and the moves of both guards."""

    a: int
    b: int
    moves: tuple[int, int]


@dataclass(frozen=True)
class Form:
    """What is in the code of a walk: its tile, and which operand the lanes read.

    lanes: "columns" of b that lie side by side, or "apart", or "channels", which all three tensors have, as in a
    depthwise convolution.
    """

    rows: int
    vectors: int
    lanes: Literal["columns", "apart", "channels"]


@dataclass(frozen=True)
class Walk:
    """arg of PRODUCT: out[batch, rows, column] = sum over windows, and in each over depth, of a * b, in that order.

    The operands are flat and begin at `offsets`; guard i goes with row loop i. The windows are `windows`, or the points
    of the loops `around`, or in a program over symbols they stand behind its other numbers: `windows` is empty, `turns`
    how many there are, and `table` where they begin. The rest is how the loops are cut: panels of columns and tiles of
    rows, all `tiles` of them, a `share` of which is one of the `items` of the launch.
    """

    form: Form
    batch: tuple[Loop, ...]
    rows: tuple[Loop, Loop]
    columns: Loop
    depth: Loop
    guards: tuple[Inside, Inside]
    offsets: tuple[Extent, Extent]
    row_tiles: Extent
    panels: Extent
    tiles: Extent
    share: Extent
    items: Extent
    turns: Extent
    windows: tuple[Window, ...] = ()
    table: int = 0
    around: tuple[Loop, ...] = ()

    @property
    def multiply_adds(self) -> Extent:
        """Products that are summed."""
        loops = (*self.batch, *self.rows, self.columns, self.depth)
        return ext.mul(ext.product(x.extent for x in loops), self.turns)

    def numbers(self) -> list[Extent]:
        """What differs from walk to walk of a form, in order, without the windows."""
        parts = [getattr(self, name) for name in _VARYING]
        return [n for part in parts for n in _flat(part)]

    def over_symbols(self, first: int) -> Walk:
        """The walk of its form whose numbers are symbols, from this one on."""
        count = len(self.numbers())
        symbols = iter([ext.sym(first + k) for k in range(count)])
        parts = {name: _replaced(getattr(self, name), symbols) for name in _VARYING}
        return replace(self, **parts, windows=(), table=first + count)

    def dims(self) -> list[int]:
        """The values of those symbols, and the windows."""
        found = [n for n in self.numbers() if isinstance(n, int)]
        for w in self.windows:
            found += [w.a, w.b, *w.moves]
        return found

    def bound(self, dims: Sequence[int]) -> Walk:
        """It with numbers in the place of symbols."""
        numbers = iter([ext.evaluate(n, list(dims)) for n in self.numbers()])
        parts = {name: _replaced(getattr(self, name), numbers) for name in _VARYING}
        if self.around:
            loops = [[ext.evaluate(n, list(dims)) for n in _flat(x)] for x in self.around]
            windows = []
            for point in product(*(range(n) for n, *_ in loops)):
                a, b = (sum(i * x[side] for i, x in zip(point, loops, strict=True)) for side in (1, 2))
                windows.append(Window(a, b, (0, 0)))
            return replace(self, **parts, windows=tuple(windows), around=())
        lines = [dims[at : at + 4] for at in range(self.table, self.table + 4 * parts["turns"], 4)]
        return replace(self, **parts, windows=tuple(Window(a, b, (x, y)) for a, b, x, y in lines))


_VARYING = (
    "batch", "rows", "columns", "depth", "guards", "offsets", "row_tiles", "panels", "tiles", "share", "items", "turns"
)  # fmt: skip


def _flat(value: Any) -> list[Extent]:
    if isinstance(value, tuple):
        return [n for x in value for n in _flat(x)]
    if isinstance(value, Loop):
        return [value.extent, value.a, value.b, value.out]
    if isinstance(value, Inside):
        return [value.start, value.step, value.size]
    return [value]


def _replaced(value: Any, numbers: Iterator[Extent]) -> Any:
    if isinstance(value, tuple):
        return tuple(_replaced(x, numbers) for x in value)
    if isinstance(value, (Loop, Inside)):
        return type(value)(*(next(numbers) for _ in _flat(value)))
    return next(numbers)


def as_number(e: Extent) -> int:
    """An extent that is one."""
    return ext.evaluate(e, [])


def evaluate(walk: Walk, a: Any, b: Any, shape: Sequence[int]) -> Any:
    """The product of flat arrays, in NumPy, in this shape. Every extent and step is a number."""
    import numpy as np

    loops = [*walk.batch, *walk.rows, walk.columns, walk.depth]
    at = np.meshgrid(*(np.arange(as_number(n.extent)) for n in loops), indexing="ij", sparse=True)

    def place(side: str, start: int) -> Any:
        return sum((i * as_number(getattr(x, side)) for i, x in zip(at, loops, strict=True)), np.array(start))

    sums = np.zeros([as_number(x.extent) for x in loops[:-1]], np.float32)
    for window in walk.windows:
        inside = np.array(True)
        for guard, i, move in zip(walk.guards, at[2:4], window.moves, strict=True):
            position = i * as_number(guard.step) + (as_number(guard.start) + move)
            inside = inside & (position >= 0) & (position < as_number(guard.size))
        from_a = np.where(inside, place("a", as_number(walk.offsets[0]) + window.a), 0)
        from_b = place("b", as_number(walk.offsets[1]) + window.b)
        sums += (np.where(inside, a[from_a], 0) * b[from_b]).sum(-1, dtype=np.float32)
    out = np.zeros(math.prod(shape), np.float32)
    out[np.broadcast_to(place("out", 0)[..., 0], sums.shape)] = sums
    return out.reshape(shape)
