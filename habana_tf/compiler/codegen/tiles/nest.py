"""The loops around a contraction's register tiles, from the number of a work item to its tiles.

`TileLoops` emits a plan's dims (the grid, then loops), tracks each label's start in a `Cursor`, and emits the body once
per variant of the tile: full and one-smaller row tile, full and last column panel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product

from habana_tf.compiler.codegen.emit import Function, Value
from habana_tf.compiler.codegen.index_evaluator import extent_value
from habana_tf.compiler.codegen.result_sums import ResultSums
from habana_tf.compiler.codegen.tiles.epilogue import Epilogue
from habana_tf.compiler.codegen.tiles.plan import Plan
from habana_tf.compiler.codegen.tiles.tiling import Dim
from habana_tf.compiler.contraction import Canonical, Label
from habana_tf.compiler.product_costs import SUM_STEPS
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent


@dataclass
class Cursor:
    """The position of the emitted code in the loop nest."""

    starts: dict[int, Value] = field(default_factory=dict)
    row_tile: Value = "0"
    blocks: dict[tuple[str, int], tuple[Value, Value]] = field(default_factory=dict)
    """The bounds of loops within blocks, by kind and label key."""
    panel: Value = "0"
    chunk: Value = "0"
    chunk_trip: int | Value = 0


TileBody = Callable[[Cursor, int, int, int], None]
"""Emits a tile, given (place, row tile size, vectors, active lanes of the last vector)."""


class TileLoops:
    """Base of kernels that loop over tiles."""

    def __init__(self, c: Canonical, p: Plan, name: str) -> None:
        self.c, self.p, self.t = c, p, p.tiling
        self.fn = Function(name, masks_halves=p.masks_halves, float16=p.float16)
        found = [*(x.extent for x in c.labels()), *(d.count for d in p.dims), self.t.tiles]
        self._numbers = {e: extent_value(self.fn, e) for e in found if not isinstance(e, int)}

    def number(self, e: Extent) -> Value:
        """An extent as i64."""
        return str(e) if isinstance(e, int) else self._numbers.get(e) or extent_value(self.fn, e)

    def items(self, body: Callable[[Cursor], None], out: Epilogue | None = None) -> None:
        """The loop over the call's work items. out: the epilogue, whose column sums begin with each item."""
        with self.fn.loop("%begin", "%end") as item:
            cursor = Cursor()
            indices = self._decode(item.index, cursor)
            if out and out.sums:
                self._begin_sums(out.sums, indices, cursor)
            body(cursor)

    def _begin_sums(self, sums: ResultSums, indices: Sequence[tuple[Dim, Value]], cursor: Cursor) -> None:
        """Begins this item's part of the column sums: items with the same rows share a part."""
        fn, lane = self.fn, self.c.lane
        part, parts = "0", 1  # type: Value, Extent
        low, high = "0", str(self.t.panels)
        for dim, index in indices:
            assert dim.label is not None and lane is not None
            if dim.label.key != lane.key:
                part = fn.add(fn.mul(part, self.number(dim.count)), index)
                parts = ext.mul(parts, dim.count)
            elif dim.kind == "block":
                low, high = self.range(Dim("panels", self.t.panels, dim.label), cursor)
            else:
                low, high = index, fn.add(index, 1)
        t = self.t
        sums.place(parts, t.columns, t.panels * t.width, t.lanes)
        sums.item(fn, part, *(fn.mul(panel, t.width) for panel in (low, high)))

    def _decode(self, item: Value, cursor: Cursor) -> list[tuple[Dim, Value]]:
        """Decodes a work item's number (the last grid dimension varies fastest) into `cursor`; gives each dim's
        index."""
        dims = self.p.dims[: self.p.grid_dims]
        entered = []
        for i, dim in reversed(list(enumerate(dims))):
            index = item
            if i:
                count = self.number(dim.count)
                index = self.fn.rem(item, count) if count != "1" else "0"
                item = self.fn.div(item, count)
            entered.append((dim, index))
        entered.reverse()
        for dim, index in entered:
            self.enter(dim, index, cursor)
        return entered

    def enter(self, dim: Dim, index: Value, cursor: Cursor) -> None:
        """Updates `cursor` for an index of a dim."""
        fn, t = self.fn, self.t
        assert dim.label is not None
        if dim.kind == "block":
            low = fn.mul(index, dim.size)
            most = {"rows": t.tiles, "panels": t.panels}.get(dim.of, dim.label.extent)
            high = fn.add(low, dim.size)
            if not isinstance(most, int) or most % dim.size:
                high = fn.minimum(high, self.number(most))
            cursor.blocks[dim.of, dim.label.key] = low, high
            return
        start = index
        if dim.kind == "rows":
            cursor.row_tile = index
            start = fn.mul(index, t.size)
            if t.overlaps and t.size > 1:
                n = dim.label.extent
                last = str(n - t.size) if isinstance(n, int) else fn.sub(self.number(n), t.size)
                start = fn.minimum(start, last if isinstance(n, int) else self._positive(last))
            elif len(t.sizes) > 1:
                start = fn.sub(start, self._positive(fn.sub(index, self.number(t.large))))
        elif dim.kind == "panels":
            cursor.panel = index
            start = fn.mul(index, t.width)
        elif dim.kind == "chunk":
            start = fn.mul(index, dim.size)
            cursor.chunk, cursor.chunk_trip = index, dim.size
            extent = dim.label.extent
            if not isinstance(extent, int) or extent % dim.size:
                cursor.chunk_trip = fn.minimum(fn.sub(self.number(extent), start), str(dim.size))
        cursor.starts[dim.label.key] = start

    def trip(self, cursor: Cursor, label: Label) -> int | Value:
        """The trip count of a label of the sum."""
        if self.p.chunk and label == self.p.chunk.label:
            return cursor.chunk_trip
        return label.extent if isinstance(label.extent, int) else self.number(label.extent)

    def most(self, label: Label) -> int:
        """An upper bound of the trip count; more than a block's for a symbolic one."""
        if self.p.chunk and label == self.p.chunk.label:
            return self.p.chunk.size
        return label.extent if isinstance(label.extent, int) else SUM_STEPS + 1

    def multiple(self, label: Label) -> int:
        """A number that the trip count is a multiple of."""
        extent = label.extent if isinstance(label.extent, int) else 1
        return math.gcd(extent, self.p.chunk.size) if self.p.chunk and label == self.p.chunk.label else extent

    def _positive(self, x: Value) -> Value:
        """max(x, 0)."""
        self.fn.declarations.add("declare i64 @llvm.smax.i64(i64, i64)")
        return self.fn.op(f"call i64 @llvm.smax.i64(i64 {x}, i64 0)")

    def inner(self, dims: tuple[Dim, ...], cursor: Cursor, body: TileBody) -> None:
        """Loops over `dims`, with the body once per variant of the tile."""
        self.loops(dims, cursor, lambda: self.variants(cursor, body))

    def loops(self, dims: tuple[Dim, ...], cursor: Cursor, body: Callable[[], None]) -> None:
        """Loops over `dims` around a body without variants."""
        if not dims:
            body()
            return
        with self.fn.loop(*self.range(dims[0], cursor)) as loop:
            self.enter(dims[0], loop.index, cursor)
            self.loops(dims[1:], cursor, body)

    def range(self, dim: Dim, cursor: Cursor) -> tuple[Value, Value]:
        """The bounds of a loop at this position."""
        assert dim.label is not None
        return cursor.blocks.get((dim.kind, dim.label.key), ("0", self.number(dim.count)))

    def variants(self, cursor: Cursor, body: TileBody) -> None:
        """Emits `body(cursor, row tile size, vectors, active lanes)` for each variant of the tile."""
        t = self.t

        def columns(size: int) -> None:
            self.widths(cursor.panel, lambda vectors, active: body(cursor, size, vectors, active))

        def row_by_row() -> None:
            assert t.split is not None
            start = cursor.starts[t.split.key]
            with self.fn.loop("0", self.number(t.split.extent)) as row:
                cursor.starts[t.split.key] = row.index
                columns(1)
            cursor.starts[t.split.key] = start

        if t.overlaps and len(t.sizes) > 1 and t.split:  # full tiles if there are rows enough for one
            self.choice(self.number(t.split.extent), str(t.size), [row_by_row, lambda: columns(t.size)])
        else:
            self.choice(cursor.row_tile, self.number(t.large), [partial(columns, size) for size in t.sizes])

    def widths(self, panel: Value, body: Callable[[int, int], None], padded: bool = False) -> None:
        """Emits `body(vectors, active lanes)` for each width that a panel may have. padded: all lanes count."""
        t = self.t
        full, tail = (t.vectors, t.lanes), (t.tail_vectors, t.lanes if padded else t.tail_active)
        forms = [tail] if t.panels == 1 or full == tail else [full, tail]
        self.choice(panel, str(t.panels - 1), [partial(body, *form) for form in forms])

    def choice(self, value: Value, below: Value, bodies: Sequence[Callable[[], None]]) -> None:
        """Emits two alternatives, the first for value < below; or the only one without a test."""
        if len(bodies) == 1:
            bodies[0]()
            return
        fn = self.fn
        blocks, after = [fn.new_block("first"), fn.new_block("second")], fn.new_block("chosen")
        fn.do(f"br i1 {fn.less(value, below)}, label %{blocks[0]}, label %{blocks[1]}")
        for block, body in zip(blocks, bodies, strict=True):
            fn.start(block)
            body()
            fn.branch(after)
        fn.start(after)

    # -- sums in memory ---------------------------------------------------------------------------------------

    @property
    def vector(self) -> str:
        """LLVM's type of a vector of sums."""
        return f"<{self.t.lanes} x float>"

    def room(self, nbytes: int) -> Value:
        """Memory on the stack; call it at the function's entry."""
        return self.fn.op(f"alloca [{nbytes} x i8], align 64")

    def clear(self, memory: Value, nbytes: int) -> None:
        with self.fn.loop("0", str(nbytes), self.t.lanes * 4) as i:
            self.fn.store(self.vector, "zeroinitializer", self.fn.ptradd(memory, i.index), 16)

    def add_up(self, totals: Value, sums: Value, nbytes: int) -> None:
        """Adds sums to totals, and clears them."""
        fn, vector = self.fn, self.vector
        with fn.loop("0", str(nbytes), self.t.lanes * 4) as i:
            total, part = (fn.ptradd(x, i.index) for x in (totals, sums))
            both = fn.op(f"fadd {vector} {fn.load(vector, total, 16)}, {fn.load(vector, part, 16)}")
            fn.store(vector, both, total, 16)
            fn.store(vector, "zeroinitializer", part, 16)

    # -- places -----------------------------------------------------------------------------------------------

    def address(self, pointer: Value, side: str, unit: int, offset: int, cursor: Cursor) -> Value:
        """The address of operand `side` at this position. unit: bytes per element."""
        fn, total = self.fn, str(offset)
        for label in self.c.labels():
            step = getattr(label, side)
            if step and label.key in cursor.starts:
                total = fn.add(total, fn.mul(cursor.starts[label.key], step))
        return fn.ptradd(pointer, fn.mul(total, unit))

    def packed_index(self, labels: Sequence[Label], cursor: Cursor) -> Value:
        """The row-major index of some labels at this position."""
        index = "0"
        for label in labels:
            index = self.fn.add(self.fn.mul(index, self.number(label.extent)), cursor.starts[label.key])
        return index

    def row_labels(self, size: int) -> list[tuple[Label, int]]:
        """The labels that a tile's rows span, outermost first, with their extents in the tile."""
        labels = [(self.t.split, size)] if self.t.split else []
        labels += [(x, x.extent) for x in self.t.whole if isinstance(x.extent, int)]
        return sorted(labels, key=lambda pair: self.c.m.index(pair[0]))

    def rows(self, size: int) -> list[tuple[tuple[Label, int], ...]]:
        """The tile's rows, each as its index along each label of the tile."""
        labels = self.row_labels(size)
        return [
            tuple((label, i) for (label, _), i in zip(labels, point, strict=True))
            for point in product(*(range(extent) for _, extent in labels))
        ]
