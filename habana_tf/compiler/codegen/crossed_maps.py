"""Code for a loop that only stores, and reads a tensor across: that one's memory runs along another axis.

    out[i, j] = f(x[j, i], ...)     a square of points at a time: vectors of x along i, turned in registers and kept on
                                    the stack, then row by row what any other loop does

One element at a time, as any other load of elements apart, would touch a line of memory for each.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from ...ir import extent as ext
from ...ir.extent import Extent, nominal
from ...ir.linearity import stride_of
from ..body import Load
from .axes import Axis
from .contract_micro import at
from .contract_pack import transpose
from .domain_walk import DomainWalk
from .emit import Value, first_lanes
from .evaluator import Guard, Val
from .lanes import memory_type, register_type

ITEMS = 64
"""Work items from which on one has several squares side by side, whose lines of memory follow each other."""
SIDE = 4
"""So many, at most."""
MOST = 4
"""Tensors read across: each has a square on the stack."""


@dataclass
class CrossedMap:
    """Emits it. across: the axis along which the memory of `loads` runs."""

    walk: DomainWalk
    across: Axis
    loads: list[Load]

    @classmethod
    def of(cls, walk: DomainWalk, outer: list[Axis]) -> CrossedMap | None:
        """The one for a loop, if that reads across."""
        vector = walk.vector
        assert vector is not None
        if walk.compact or not isinstance(vector.extent, int) or vector.extent < walk.lanes:
            return None
        found: dict[Axis, list[Load]] = {}
        for v in walk.body.values:
            if not isinstance(v, Load) or v.guard or register_type(v.dtype) not in ("float", "i32"):
                continue
            if stride_of(v.offset, vector.var) in (0, 1, None):
                continue
            for axis in outer:
                if stride_of(v.offset, axis.var) == 1 and isinstance(axis.extent, int) and axis.extent >= walk.lanes:
                    found.setdefault(axis, []).append(v)
        if not found:
            return None
        across, loads = max(found.items(), key=lambda item: len(item[1]))
        return cls(walk, across, loads) if len(loads) <= MOST else None

    def emit(self, outer: list[Axis]) -> tuple[Extent, int]:
        """Writes the function; its grid and grain."""
        walk, fn, lanes = self.walk, self.walk.fn, self.walk.lanes
        assert walk.vector is not None and isinstance(walk.vector.extent, int)
        assert isinstance(self.across.extent, int)
        n, rows = walk.vector.extent, self.across.extent
        rest = [a for a in outer if a is not self.across]
        others, squares = nominal(ext.product(a.extent for a in rest)), -(-rows // lanes)
        side = next((k for k in (SIDE, 2) if others * -(-squares // k) >= ITEMS), 1)
        chunks = -(-squares // side)
        self.stacks = [fn.op(f"alloca [{lanes * lanes * 4} x i8], align 64") for _ in self.loads]
        grid, loops, items, grain = walk.grid(rest, side * lanes * n, chunks)
        with fn.loop("%begin", "%end") as each, walk.ev.scope():
            item, first = each.index, "0"
            if chunks > 1:
                first = fn.integer("mul", fn.integer("urem", item, chunks), side * lanes)
                item = fn.integer("udiv", item, chunks)
            last = fn.minimum(fn.integer("add", first, side * lanes), str(rows)) if chunks > 1 else str(rows)
            walk.decode(item, grid)
            with ExitStack() as stack:
                walk.nest(stack, loops)
                if whole := n - n % lanes:
                    with fn.loop("0", str(whole), lanes) as column:
                        self._squares(first, last, column.index, lanes)
                if n % lanes:
                    self._squares(first, last, str(whole), n % lanes)
        return items, grain

    def _squares(self, first: Value, last: Value, column: Value, count: int) -> None:
        """The squares from row to row at a column, of which so many are left."""
        walk, fn, ev, lanes = self.walk, self.walk.fn, self.walk.ev, self.walk.lanes
        assert walk.vector is not None and isinstance(self.across.extent, int)
        with fn.loop(first, last, lanes) as start, ev.scope():
            ev.vars[walk.vector.var], ev.vars[self.across.var] = column, start.index
            here, mask = str(lanes), None
            if self.across.extent % lanes:
                left = fn.integer("sub", str(self.across.extent), start.index)
                here, mask = fn.minimum(left, here), fn.leading(lanes, left)
            for load, stack in zip(self.loads, self.stacks, strict=True):
                self._turn(load, stack, mask, count)
            with fn.loop("0", here) as row, ev.scope():
                ev.vars[self.across.var] = fn.integer("add", start.index, row.index)
                with ev.guarded(Guard(None, first_lanes(lanes, count) if count < lanes else None)):
                    for load, stack in zip(self.loads, self.stacks, strict=True):
                        place = at(fn, stack, fn.integer("mul", row.index, lanes * 4))
                        register = fn.load(ev.many.type(register_type(load.dtype)), place, lanes * 4)
                        ev.define(load, Val(register, False))
                    walk.store_all()

    def _turn(self, load: Load, stack: Value, mask: Value | None, count: int) -> None:
        """Puts a square of a tensor on the stack, a row of points after the other."""
        fn, ev, lanes, dtype = self.walk.fn, self.walk.ev, self.walk.lanes, load.dtype
        assert self.walk.vector is not None
        step = stride_of(load.offset, self.walk.vector.var)
        assert step is not None
        buffer, begin, element = ev.buffers[load.node], ev.number(load.offset), memory_type(dtype)
        lines = []
        for k in range(lanes):
            if k >= count:
                lines.append("zeroinitializer")
                continue
            place = fn.offset(ev.pointer(buffer), element, fn.integer("add", begin, k * step))
            if mask is None:
                line = fn.load(ev.many.type(element), place, dtype.bytes)
            else:
                line = fn.masked_load(element, lanes, place, mask)
            lines.append(ev.many.from_memory(line, dtype))
        register = register_type(dtype)
        for k, line in enumerate(transpose(fn, register, lines)):
            fn.store(ev.many.type(register), line, at(fn, stack, k * lanes * 4), lanes * 4)
