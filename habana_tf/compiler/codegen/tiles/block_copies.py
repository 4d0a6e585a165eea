"""Packs blocks of both operands onto a work item's stack: their layout, and the calls of the packer.

    rows       per row tile [unit][slots] words, or for tile registers [register][slots][16 units]
    columns    per panel [unit][width] words

A unit is a step of the sum, or a pair of steps. Missing elements are zero (see `fill`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from habana_tf.compiler.codegen.emit import Value
from habana_tf.compiler.codegen.tiles.blocks import slots
from habana_tf.compiler.codegen.tiles.epilogue import CallBuffer, Epilogue
from habana_tf.compiler.codegen.tiles.fill import Fill
from habana_tf.compiler.codegen.tiles.kernel import Kernel
from habana_tf.compiler.codegen.tiles.nest import Cursor
from habana_tf.compiler.codegen.tiles.operand import Across, Along, Groups, Limit
from habana_tf.compiler.codegen.tiles.plan import Plan
from habana_tf.compiler.codegen.tiles.tiling import Dim, size_of
from habana_tf.compiler.codegen.turns import repeat
from habana_tf.compiler.contraction import Canonical, Label, Operand
from habana_tf.compiler.product_costs import FILLED_UNITS, SHORT_STEP_WORK
from habana_tf.ir.extent import nominal

Trips = list[int | Value]


class BlockCopies(Kernel):
    """Base of the kernel that multiplies packed blocks: packs them."""

    def __init__(self, c: Canonical, p: Plan, name: str, inputs: Sequence[CallBuffer], out: Epilogue) -> None:
        super().__init__(c, p, name, inputs, out)
        assert p.blocks is not None
        self.blocks = p.blocks
        # Units of the sum in a block, and the stride in units of each of its labels in a copy.
        self.pair = 2 if p.dot else 1
        self.unit_steps: list[int] = []
        chunk = p.chunk
        self.chunk = chunk.size if chunk else 0
        size = 1
        for label in reversed(self.blocks.inside):
            self.unit_steps.insert(0, size)
            extent = self.blocks.steps if label == self.blocks.split else label.extent
            if chunk and label == chunk.label and label != self.blocks.split:
                extent = chunk.size
            assert isinstance(extent, int)
            size *= self._units(extent) if label == self.blocks.inside[-1] else extent
        self.most_units = size

    def reserve_blocks(self) -> None:
        """Call it at the function's entry."""
        fn, p, t, blocks = self.fn, self.p, self.t, self.blocks
        lines = self.most_units // p.amx if p.amx else self.most_units + t.lanes + FILLED_UNITS
        self.a_line, self.b_line = slots(t, p.amx) * (64 if p.amx else 4), t.width * 4
        self.a_tile = -(-lines * self.a_line // 64) * 64
        self.b_panel = (self.most_units + t.lanes + FILLED_UNITS) * self.b_line
        # Stores of a copy's last vectors may exceed it by less than a step of all rows.
        sizes = self.a_tile * blocks.tiles + self.a_line + 64, self.b_panel * blocks.panels
        self.rows_at, self.columns_at = map(self.room, sizes)
        self.pack_a = Fill(fn, self.c.a.dtype, t.lanes, p.dot, p.amx, 0, blocks.vectors)
        self.pack_b = Fill(fn, self.c.b.dtype, t.lanes, p.dot, 0, p.amx, blocks.vectors)

    def _units(self, steps: int) -> int:
        """The units of a number of steps of the last label."""
        unit = self.pair * max(1, self.p.amx)
        return -(-steps // unit) * max(1, self.p.amx)

    def copy(self, cursor: Cursor, trips: Trips) -> None:
        """Packs a block of both operands. trips: the trip counts of its labels."""
        fn, inside, rows = self.fn, self.blocks.inside, self.blocks.rows
        columns, lane = self.p.dims[-1], self.c.lane
        assert lane is not None
        low, high = self.range(columns, cursor)
        if self.pack_b.takes_groups(lane.b, inside[-1].b):
            self.enter(columns, low, cursor)
            self._pack_columns(cursor, trips, (low, high))
        else:
            with fn.loop(low, high) as loop:
                self.enter(columns, loop.index, cursor)
                self._pack_columns(cursor, trips, None)
        split = self.t.split
        alone = rows and rows[-1].kind == "rows" and not self.t.whole and not self.t.overlaps
        if not (alone and split is not None and self.pack_a.takes_groups(split.a, inside[-1].a)):
            self.loops(cursor, rows, lambda: self._pack_rows(cursor, trips, None))
            return
        low, high = self.range(rows[-1], cursor)

        def together() -> None:
            self.enter(rows[-1], low, cursor)
            self._pack_rows(cursor, trips, (low, high))

        self.loops(cursor, rows[:-1], together)

    def loops(self, cursor: Cursor, dims: tuple[Dim, ...], body: Callable[[], None]) -> None:
        """Loops over `dims` around a body without variants."""
        if not dims:
            body()
            return
        with self.fn.loop(*self.range(dims[0], cursor)) as loop:
            self.enter(dims[0], loop.index, cursor)
            self.loops(cursor, dims[1:], body)

    def turns(self, trips: Trips) -> int | Value:
        """The number of units of this block."""
        fn, first = self.fn, trips[0]
        if isinstance(first, int):
            return self._units(first) if len(trips) == 1 else first * self.unit_steps[0]
        if len(trips) > 1:
            return fn.mul(first, self.unit_steps[0])
        unit = self.pair * max(1, self.p.amx)
        return fn.mul(fn.div(fn.add(first, unit - 1), unit), max(1, self.p.amx))

    def _limits(self, cursor: Cursor, operand: Operand, first: int, across: Label | None) -> list[Limit]:
        """An operand's guards at this position. first: the number of its first guard in the spec."""
        fn, found = self.fn, []
        for number, guard in enumerate(operand.guards, first):
            total = str(guard.const)
            for label in self.c.labels():
                if label.guards[number] and label.key in cursor.starts:
                    total = fn.add(total, fn.mul(cursor.starts[label.key], label.guards[number]))
            along = tuple(x.guards[number] for x in self.blocks.inside)
            found.append(Limit(total, across.guards[number] if across else 0, along, str(guard.size)))
        return found

    def _first_guard(self, of_a: bool) -> int:
        """The number of an operand's first guard: those of the spec's `a` come first."""
        return len(self.c.spec.a.guards) if of_a == self.c.swapped else 0

    def _along(self, side: str, trips: Trips, line: int) -> list[Along]:
        found = []
        for label, trip, units in zip(self.blocks.inside, trips, self.unit_steps, strict=True):
            last = label == self.blocks.inside[-1]
            per = line if last else line * (units // self.p.amx if self.p.amx and side == "a" else units)
            extent = label.extent if isinstance(label.extent, int) else 1
            found.append(Along(getattr(label, side), trip, per, math.gcd(self.blocks.steps, extent, self.chunk)))
        return found

    def _pack_columns(self, cursor: Cursor, trips: Trips, together: tuple[Value, Value] | None) -> None:
        fn, t, lane = self.fn, self.t, self.c.lane
        assert lane is not None
        tail = self.c.columns - (t.panels - 1) * t.width
        count: Value = str(t.width)
        if tail < t.width:
            last = fn.op(f"icmp eq i64 {cursor.panel}, {t.panels - 1}")
            count = str(tail) if t.panels == 1 else fn.op(f"select i1 {last}, i64 {tail}, i64 {t.width}")
        across = Across(lane.b, count, tail, tail if t.panels == 1 else t.width)
        source = self.address(self.pointers[1], "b", self.c.b.dtype.bytes, self.c.b.offset, cursor)
        target = fn.ptradd(self.columns_at, fn.mul(self.panel(cursor), self.b_panel))
        limits = self._limits(cursor, self.c.b, self._first_guard(False), lane)
        along = self._along("b", trips, self.b_line)
        if together is None:
            self.pack_b.pack(across, along, source, target, limits)
            self._fill(trips, target, self.b_line)
            return
        low, count = together[0], fn.sub(together[1], together[0])
        full = str(t.panels if tail == t.width else t.panels - 1)
        across = Across(1, str(t.width), min(tail, t.width), tail if t.panels == 1 else t.width)
        groups = Groups(low, count, full, full, t.width if t.panels > 1 else tail, tail, self.b_panel)
        self.pack_b.pack(across, along, source, target, limits, groups)
        self._filled(trips, target, self.b_line, count, self.b_panel)

    def _filled(self, trips: Trips, target: Value, line: int, count: Value, apart: int) -> None:
        with repeat(self.fn, count, [("ptr", target)]) as t:
            self._fill(trips, t.carried[0], line)
            t.next = [self.fn.ptradd(t.carried[0], apart)]

    def _pack_rows(self, cursor: Cursor, trips: Trips, together: tuple[Value, Value] | None) -> None:
        fn, t = self.fn, self.t
        target = fn.ptradd(self.rows_at, fn.mul(self.tile(cursor), self.a_tile))
        source = self.address(self.pointers[0], "a", self.c.a.dtype.bytes, self.c.a.offset, cursor)
        labels = self.row_labels(t.size)
        across = labels[-1][0] if labels else None
        limits = self._limits(cursor, self.c.a, self._first_guard(True), across)
        along = self._along("a", trips, self.a_line)
        numbers = range(self._first_guard(True), self._first_guard(True) + len(limits))
        word = 64 if self.p.amx else 4

        if together is not None:
            low, count = together[0], fn.sub(together[1], together[0])
            assert isinstance(t.tiles, int)
            rest = min(t.sizes)
            over = -(-t.size // t.lanes) * t.lanes - t.size
            whole = t.tiles - 1 if rest >= over + 1 else 0
            groups = Groups(low, count, self.number(t.large), str(whole), t.size, rest, self.a_tile)
            self.pack_a.pack(Across(1, str(t.size), rest, t.size), along, source, target, limits, groups)
            self._filled(trips, target, self.a_line, count, self.a_tile)
            return

        def runs(outer: list[tuple[Label, int]], p: Value, q: Value, values: list[Value]) -> None:
            if not outer:
                now = [Limit(v, x.across, x.along, x.size) for v, x in zip(values, limits, strict=True)]
                most = labels[-1][1] if labels else 1
                count, least = self._count(cursor, across, most)
                step = across.a if across else 1
                self.pack_a.pack(Across(step, count, least, most), along, p, q, now)
                return
            label, extent = outer[0]
            size = size_of(x for x, _ in labels[labels.index(outer[0]) + 1 :] if x != t.split)
            trip, _ = self._count(cursor, label, extent)
            with repeat(fn, trip, [("ptr", p), ("ptr", q), *(("i64", v) for v in values)]) as turns:
                x, y, *carried = turns.carried
                runs(outer[1:], x, y, carried)
                moved = [fn.add(v, label.guards[n]) for v, n in zip(carried, numbers, strict=True)]
                turns.next = [fn.ptradd(x, label.a * self.c.a.dtype.bytes), fn.ptradd(y, size * word), *moved]

        runs(labels[:-1], source, target, [x.value for x in limits])
        self._fill(trips, target, self.a_line)

    def _count(self, cursor: Cursor, label: Label | None, most: int) -> tuple[Value, int]:
        """The extent of a label in this tile, and the least in any tile."""
        fn, t = self.fn, self.t
        if label is None or label != t.split:
            return str(most), most
        if not isinstance(label.extent, int):
            left = fn.sub(self.number(label.extent), cursor.starts[label.key])
            return fn.minimum(left, str(most)), 1
        if len(t.sizes) == 1:
            return str(most), most
        larger = fn.less(cursor.row_tile, self.number(t.large))
        return fn.op(f"select i1 {larger}, i64 {t.size}, i64 {t.size - 1}"), t.size - 1

    def _fill(self, trips: Trips, target: Value, line: int) -> None:
        """Pads with zeros to a multiple of the inner loop's unrolling."""
        fn, units = self.fn, self.turns(trips)
        if self.p.amx or (isinstance(units, int) and units % self.body == 0):
            return
        start = fn.ptradd(target, fn.mul(units, line))
        with fn.loop("0", str((self.body - 1) * line), self.t.lanes * 4) as i:
            fn.store(f"<{self.t.lanes} x float>", "zeroinitializer", fn.ptradd(start, i.index), 4)

    @property
    def body(self) -> int:
        """The unrolling of the inner loop, in units."""
        work = self.t.rows * self.t.vectors
        return FILLED_UNITS if work <= SHORT_STEP_WORK else FILLED_UNITS // 2

    def tile(self, cursor: Cursor) -> Value:
        """The index of a row tile within its block."""
        fn, number = self.fn, "0"
        for dim in self.blocks.rows:
            assert dim.label is not None
            low, _ = self.range(dim, cursor)
            index = cursor.row_tile if dim.kind == "rows" else cursor.starts[dim.label.key]
            most = next((d.size for d in self.p.dims if d.kind == "block" and d.label == dim.label), nominal(dim.count))
            number = fn.add(fn.mul(number, most), fn.sub(index, low))
        return number

    def panel(self, cursor: Cursor) -> Value:
        """The index of a panel within its block."""
        return self.fn.sub(cursor.panel, self.range(self.p.dims[-1], cursor)[0])
