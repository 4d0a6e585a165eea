"""Elementwise loops with transposed inputs: blocks of the input are transposed in registers.

    out[i, j] = f(x[j, i], ...)     a square block at a time: vectors of x along i are transposed and kept on the stack,
                                    then the block is computed row by row

Strided loads or gathers would touch a cache line per element.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from habana_tf.compiler.codegen.axes import LoopAxis, slope
from habana_tf.compiler.codegen.domain_walk import DomainWalk
from habana_tf.compiler.codegen.emit import Value, first_lanes
from habana_tf.compiler.codegen.lanes import memory_type, register_type
from habana_tf.compiler.codegen.transpose import transpose
from habana_tf.compiler.codegen.vector_access import Mask, Val
from habana_tf.compiler.costs import CROSSED_POINTS, CROSSED_SQUARES, CROSSED_TENSORS, MANY_WORK_ITEMS
from habana_tf.compiler.point_values import Load
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent, nominal


@dataclass
class CrossedMap:
    """Emits such a loop. across: the axis along which `loads` are contiguous."""

    walk: DomainWalk
    across: LoopAxis
    loads: list[Load]

    @classmethod
    def of(cls, walk: DomainWalk, outer: list[LoopAxis]) -> CrossedMap | None:
        """The emitter for a loop with transposed loads that is large enough, else None."""
        vector, found = walk.vector, {}  # type: LoopAxis | None, dict[LoopAxis, list[Load]]
        points = ext.product(a.extent for a in walk.axes)
        assert vector is not None
        if nominal(vector.extent) < walk.lanes or (isinstance(points, int) and points < CROSSED_POINTS):
            return None
        for v in walk.body.values:
            if not isinstance(v, Load) or v.guard or register_type(v.dtype) not in ("float", "i32"):
                continue
            if isinstance(v.offset, int) or slope(v.offset, vector.var) in (0, 1, None):
                continue
            for axis in outer:
                if slope(v.offset, axis.var) == 1 and nominal(axis.extent) >= walk.lanes:
                    found.setdefault(axis, []).append(v)
        if not found:
            return None
        across, loads = max(found.items(), key=lambda item: len(item[1]))
        return cls(walk, across, loads) if len(loads) <= CROSSED_TENSORS else None

    def emit(self, outer: list[LoopAxis]) -> tuple[Extent, int]:
        """Emits the function; gives its grid and grain."""
        walk, fn, ev, lanes = self.walk, self.walk.fn, self.walk.ev, self.walk.lanes
        assert walk.vector is not None
        n, rows = walk.vector.extent, self.across.extent
        rest = [a for a in outer if a is not self.across]
        side = next((k for k in (CROSSED_SQUARES, 2) if nominal(self._chunks(rest, k * lanes)) >= MANY_WORK_ITEMS), 1)
        chunks = self._chunks([], side * lanes)
        self.stacks = [fn.op(f"alloca [{lanes * lanes * 4} x i8], align 64") for _ in self.loads]
        grid, loops, items, grain = walk.grid(rest, ext.mul(side * lanes, n), chunks)
        with fn.loop("%begin", "%end") as each, ev.scope():
            count, stop = ev.number(chunks), ev.number(rows)
            first = fn.mul(fn.rem(each.index, count), side * lanes) if chunks != 1 else "0"
            last = fn.minimum(fn.add(first, side * lanes), stop) if chunks != 1 else stop
            walk.decode(fn.div(each.index, count), grid)
            with ExitStack() as stack:
                walk.nest(stack, loops)
                if not isinstance(n, int):
                    with fn.loop("0", ev.number(n), lanes) as column, ev.scope():
                        self._squares(first, last, column.index, fn.sub(ev.number(n), column.index))
                    return items, grain
                if whole := n - n % lanes:
                    with fn.loop("0", str(whole), lanes) as column, ev.scope():
                        self._squares(first, last, column.index, lanes)
                if n % lanes:
                    self._squares(first, last, str(whole), n % lanes)
        return items, grain

    def _chunks(self, rest: list[LoopAxis], rows: int) -> Extent:
        """The number of pieces of `rows` rows, over all points of the axes `rest`."""
        pieces = ext.ceil_div(self.across.extent, rows)
        return ext.mul(ext.product(a.extent for a in rest), pieces)

    def _squares(self, first: Value, last: Value, column: Value, count: int | Value) -> None:
        """The blocks of rows first to last at a column. count: columns left, at most the lanes if it is an int."""
        walk, fn, ev, lanes = self.walk, self.walk.fn, self.walk.ev, self.walk.lanes
        assert walk.vector is not None
        some = None
        if count != lanes:
            some = first_lanes(lanes, count) if isinstance(count, int) else fn.leading(lanes, count)
        with fn.loop(first, last, lanes) as start, ev.scope():
            ev.vars[walk.vector.var], ev.vars[self.across.var] = column, start.index
            here, mask = str(lanes), None
            if not isinstance(self.across.extent, int) or self.across.extent % lanes:
                left = fn.sub(last, start.index)
                here, mask = fn.minimum(left, here), fn.leading(lanes, left)
            for load, stack in zip(self.loads, self.stacks, strict=True):
                self._turn(load, stack, mask, count)
            with fn.loop("0", here) as row, ev.scope():
                ev.vars[self.across.var] = fn.add(start.index, row.index)
                with ev.guarded(Mask(None, some)):
                    for load, stack in zip(self.loads, self.stacks, strict=True):
                        place = fn.ptradd(stack, fn.mul(row.index, lanes * 4))
                        register = fn.load(ev.many.type(register_type(load.dtype)), place, lanes * 4)
                        ev.define(load, Val(register, False))
                    walk.store_all()

    def _turn(self, load: Load, stack: Value, mask: Value | None, count: int | Value) -> None:
        """Stores a transposed block of a tensor on the stack. Missing columns are zeros, or repeat the last one."""
        fn, ev, lanes, dtype = self.walk.fn, self.walk.ev, self.walk.lanes, load.dtype
        assert self.walk.vector is not None and not isinstance(load.offset, int)
        step = slope(load.offset, self.walk.vector.var)
        assert step is not None
        begin, apart, element = ev.number(load.offset), ev.number(step), memory_type(dtype)
        pointer = ev.pointer(ev.buffers[load.node])
        final = None if isinstance(count, int) else fn.sub(count, 1)
        lines = []
        for k in range(lanes if final else int(count)):
            column = str(k) if final is None else fn.minimum(str(k), final)
            place = fn.offset(pointer, element, fn.add(begin, fn.mul(column, apart)))
            lines.append(ev.many.from_memory(fn.masked_load(element, lanes, place, mask), dtype))
        lines += ["zeroinitializer"] * (lanes - len(lines))
        register = register_type(dtype)
        for k, line in enumerate(transpose(fn, register, lines)):
            fn.store(ev.many.type(register), line, fn.ptradd(stack, k * lanes * 4), lanes * 4)
