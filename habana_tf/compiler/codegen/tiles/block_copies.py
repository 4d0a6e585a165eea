"""Packs blocks of both operands onto a work item's stack: their layout, and the calls of the packer.

    rows       per row tile [unit][slots] words, or for tile registers [register][slots][16 units]
    columns    per panel [unit][width] words

A unit is a step of the sum, or a pair of steps. Missing elements are zero (see `fill`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from habana_tf.compiler.codegen.emit import Value
from habana_tf.compiler.codegen.tiles.blocks import slots
from habana_tf.compiler.codegen.tiles.epilogue import CallBuffer, Epilogue
from habana_tf.compiler.codegen.tiles.fill import Fill
from habana_tf.compiler.codegen.tiles.kernel import Kernel
from habana_tf.compiler.codegen.tiles.nest import Cursor
from habana_tf.compiler.codegen.tiles.operand import Across, Along, Groups, Limit, forms
from habana_tf.compiler.codegen.tiles.plan import Plan
from habana_tf.compiler.codegen.tiles.tiling import Dim
from habana_tf.compiler.codegen.turns import repeat
from habana_tf.compiler.contraction import Canonical, Label
from habana_tf.compiler.product_costs import FILLED_UNITS, SHORT_STEP_WORK
from habana_tf.ir.extent import Extent

Trips = list[int | Value]


@dataclass(frozen=True)
class Parts:
    """An operand's row tiles or panels of columns, and their copies in a block.

    labels: those across a part, outermost first, with their extents in it. split: the one that is cut into `count`
    parts, of which the first `large` have these extents, others `rest` indices; overlap: the last one overlaps the one
    before. at, apart, line: address of the first copy, bytes from one to the next, and bytes of a unit.
    """

    side: Literal["a", "b"]
    labels: Sequence[tuple[Label, int]]
    split: Label | None
    count: Extent
    large: Extent
    rest: int
    overlap: bool
    fill: Fill
    at: Value
    apart: int
    line: int


class BlockCopies(Kernel):
    """Base of the kernel that multiplies packed blocks: packs them."""

    def __init__(self, c: Canonical, p: Plan, name: str, inputs: Sequence[CallBuffer], out: Epilogue) -> None:
        super().__init__(c, p, name, inputs, out)
        assert p.blocks is not None
        self.blocks = p.blocks
        # Units of the sum in a block, and the stride in units of each of its labels in a copy.
        self.pair = 2 if p.dot else 1
        self.unit_steps: list[int] = []
        size = 1
        for label in reversed(self.blocks.inside):
            self.unit_steps.insert(0, size)
            extent = self.blocks.steps if label == self.blocks.split else self.most(label)
            size *= int(self._units(extent)) if label == self.blocks.inside[-1] else extent
        self.most_units = size
        self.most_tiles, self.most_panels = math.prod(map(p.length, p.block_rows)), p.length(p.dims[-1])

    def reserve_blocks(self) -> None:
        """Call it at the function's entry."""
        fn, c, p, t = self.fn, self.c, self.p, self.t
        lines = self.most_units // p.amx if p.amx else self.most_units + t.lanes + FILLED_UNITS
        a_line, b_line = slots(t, p.amx) * (64 if p.amx else 4), t.width * 4
        a_tile = -(-lines * a_line // 64) * 64
        b_panel = (self.most_units + t.lanes + FILLED_UNITS) * b_line
        # Stores of a copy's last vectors may exceed it by less than a step of all rows.
        rows_at, columns_at = map(self.room, (a_tile * self.most_tiles + a_line + 64, b_panel * self.most_panels))
        form_a, form_b = forms(c, p)
        fill_a = Fill(fn, form_a, t.lanes, p.dot, p.amx, 0, p.masked_memory)
        fill_b = Fill(fn, form_b, t.lanes, p.dot, 0, p.amx, p.masked_memory)
        tail = t.columns - (t.panels - 1) * t.width
        columns = [(c.lane, tail if t.panels == 1 else t.width)] if c.lane else []
        self.row_tiles = Parts(
            "a", self.row_labels(t.size), t.split, t.tiles, t.large, min(t.sizes), t.overlaps,
            fill_a, rows_at, a_tile, a_line,
        )  # fmt: skip
        self.panels = Parts(
            "b", columns, c.lane, t.panels, t.panels - 1, tail, False, fill_b, columns_at, b_panel, b_line
        )  # fmt: skip

    def _units(self, steps: int | Value) -> Value:
        """The units of a number of steps of the last label."""
        fn, unit = self.fn, self.pair * max(1, self.p.amx)
        return fn.mul(fn.div(fn.add(steps, unit - 1), unit), max(1, self.p.amx))

    def copy(self, cursor: Cursor, trips: Trips) -> None:
        """Packs a block of both operands. trips: the trip counts of its labels."""
        self._copy(self.panels, self.p.dims[-1:], cursor, trips)
        self._copy(self.row_tiles, self.p.block_rows, cursor, trips)

    def _copy(self, x: Parts, dims: tuple[Dim, ...], cursor: Cursor, trips: Trips) -> None:
        """Packs the parts that `dims` loop over, the last loop's together if they are neighbours in memory."""
        step, inside = (getattr(label, x.side) if label else 0 for label in (x.split, self.blocks.inside[-1]))
        neighbours = bool(dims) and dims[-1].label == x.split and len(x.labels) == 1 and not x.overlap
        if not (neighbours and x.fill.takes_groups(step, inside)):
            self.loops(dims, cursor, lambda: self._pack(x, cursor, trips, None))
            return
        low, high = self.range(dims[-1], cursor)

        def group() -> None:
            self.enter(dims[-1], low, cursor)
            self._pack(x, cursor, trips, (low, high))

        self.loops(dims[:-1], cursor, group)

    def turns(self, trips: Trips) -> int | Value:
        """The number of units of this block."""
        units = self.fn.mul(trips[0], self.unit_steps[0]) if len(trips) > 1 else self._units(trips[0])
        return int(units) if units.isdigit() else units

    def _pack(self, x: Parts, cursor: Cursor, trips: Trips, group: tuple[Value, Value] | None) -> None:
        """Packs the part at the cursor. group: of several, the first and the one behind the last."""
        fn, operand, word = self.fn, getattr(self.c, x.side), 64 if x.fill.depth else 4
        number = self.tile(cursor) if x.side == "a" else self.panel(cursor)
        target = fn.ptradd(x.at, fn.mul(number, x.apart))
        source = self.address(self.pointers[x.side == "b"], x.side, operand.dtype.bytes, operand.offset, cursor)
        walked = [label for label, _ in x.labels[:-1]]
        across, most = x.labels[-1] if x.labels else (None, 1)
        limits = self._limits(x.side, [*walked, *self.blocks.inside], across, cursor)
        along = [
            Along(getattr(label, x.side), self._count(x, label, extent, cursor)[0],
                  math.prod(n for _, n in x.labels[i + 1 :]) * word)
            for i, (label, extent) in enumerate(x.labels[:-1])
        ]  # fmt: skip
        along += self._along(x, trips)
        step = getattr(across, x.side) if across else 1
        if group is None:
            count, least = self._count(x, across, most, cursor)
            x.fill.pack(Across(step, count, least, most), along, source, target, limits)
            self._fill(trips, target, x.line)
            return
        assert isinstance(x.count, int)
        over = -most % self.t.lanes  # what the vectors of a part read of the next one
        whole = x.count if not over and x.rest == most else x.count - 1 if x.rest > over else 0
        low, count = group[0], fn.sub(group[1], group[0])
        groups = Groups(low, count, self.number(x.large), str(whole), most, x.rest, x.apart)
        x.fill.pack(Across(step, str(most), x.rest, most), along, source, target, limits, groups)
        with repeat(fn, count, [("ptr", target)]) as parts:
            self._fill(trips, parts.carried[0], x.line)
            parts.next = [fn.ptradd(parts.carried[0], x.apart)]

    def _along(self, x: Parts, trips: Trips) -> list[Along]:
        """The labels of the sum in a block."""
        found = []
        for label, trip, units in zip(self.blocks.inside, trips, self.unit_steps, strict=True):
            last = label == self.blocks.inside[-1]
            lines = 1 if last else units // x.fill.depth if x.fill.depth else units
            multiple = math.gcd(self.multiple(label), self.blocks.steps if label == self.blocks.split else 0)
            found.append(Along(getattr(label, x.side), trip, x.line * lines, multiple))
        return found

    def _limits(self, side: str, along: Sequence[Label], across: Label | None, cursor: Cursor) -> list[Limit]:
        """An operand's guards at this position."""
        fn, found = self.fn, []
        # Those of the spec's `a` come first.
        first = len(self.c.spec.a.guards) if (side == "a") == self.c.swapped else 0
        for number, guard in enumerate(getattr(self.c, side).guards, first):
            total = str(guard.const)
            for label in self.c.labels():
                if label.guards[number] and label.key in cursor.starts:
                    total = fn.add(total, fn.mul(cursor.starts[label.key], label.guards[number]))
            steps = tuple(label.guards[number] for label in along)
            found.append(Limit(total, across.guards[number] if across else 0, steps, str(guard.size)))
        return found

    def _count(self, x: Parts, label: Label | None, most: int, cursor: Cursor) -> tuple[Value, int]:
        """The extent of a label in this part, and the least in any."""
        fn = self.fn
        if label is None or label != x.split:
            return str(most), most
        if not isinstance(label.extent, int):
            left = fn.sub(self.number(label.extent), cursor.starts[label.key])
            return fn.minimum(left, str(most)), 1
        if x.rest == most:
            return str(most), most
        number = cursor.row_tile if x.side == "a" else cursor.panel
        larger = fn.less(number, self.number(x.large))
        return fn.op(f"select i1 {larger}, i64 {most}, i64 {x.rest}"), x.rest

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
        for dim in self.p.block_rows:
            assert dim.label is not None
            low, _ = self.range(dim, cursor)
            index = cursor.row_tile if dim.kind == "rows" else cursor.starts[dim.label.key]
            number = fn.add(fn.mul(number, self.p.length(dim)), fn.sub(index, low))
        return number

    def panel(self, cursor: Cursor) -> Value:
        """The index of a panel within its block."""
        return self.fn.sub(cursor.panel, self.range(self.p.dims[-1], cursor)[0])
