"""Elementwise loops: lanes are neighbouring points of the vectorized axis."""

from __future__ import annotations

from contextlib import ExitStack

from habana_tf.compiler.codegen.axes import LoopAxis
from habana_tf.compiler.codegen.domain_walk import DomainWalk
from habana_tf.compiler.codegen.emit import Value
from habana_tf.compiler.codegen.vector_access import Mask
from habana_tf.compiler.costs import ITEM_ELEMENTS, ITEM_STRETCH
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent


class MapLoop:
    """Emits an elementwise loop."""

    def __init__(self, walk: DomainWalk) -> None:
        assert walk.vector is not None
        self.walk, self.vector = walk, walk.vector
        self.fn, self.ev, self.body = walk.fn, walk.ev, walk.body
        self.lanes, self.compact = walk.lanes, walk.compact

    def emit(self, outer: list[LoopAxis]) -> tuple[Extent, int]:
        n = self.vector.extent
        chunked = not isinstance(n, int) or n > 2 * ITEM_STRETCH or (not outer and n >= 2 * ITEM_ELEMENTS)
        size = ITEM_ELEMENTS if not outer and isinstance(n, int) else ITEM_STRETCH
        chunks = ext.ceil_div(n, size) if chunked else 1
        grid, loops, items, grain = self.walk.grid(outer, size if chunked else n, chunks)
        with self.fn.loop("%begin", "%end") as each, self.ev.scope():
            item, start, stop = each.index, "0", self.ev.number(n)
            if chunked:
                count = self.ev.number(chunks)
                part = item if not grid else self.fn.op(f"urem i64 {item}, {count}")
                item = item if not grid else self.fn.op(f"udiv i64 {item}, {count}")
                start = self.fn.mul(part, size)
                stop = self.fn.minimum(self.fn.add(start, size), stop)
            self.walk.decode(item, grid)
            with ExitStack() as stack:
                self.walk.nest(stack, loops)
                self._along(start, stop, n if not chunked else None)
        return items, grain

    def _along(self, start: Value, stop: Value, n: Extent | None) -> None:
        """The vectorized loop from start to stop, with a masked rest. n: its length if it is the whole axis."""
        if self.compact and n is None:
            self._some_along(start, stop)
            return
        whole = stop
        rest: int | None = None
        if isinstance(n, int):
            rest = n % self.lanes
            whole = str(n - rest)
        else:
            count = self.fn.sub(stop, start)
            rest_value = self.fn.op(f"urem i64 {count}, {self.lanes}")
            whole = self.fn.sub(stop, rest_value)
        if whole != "0":
            with self.fn.loop(start, whole, self.lanes) as loop, self.ev.scope():
                self.ev.vars[self.vector.var] = loop.index
                self.walk.store_all()
        if rest == 0:
            return
        with ExitStack() as stack:
            if rest is None:
                stack.enter_context(self.fn.when(self.fn.less(whole, stop)))
            stack.enter_context(self.ev.scope())
            stack.enter_context(self.ev.guarded(Mask(None, self.walk.tail_mask(whole, stop, rest))))
            self.ev.vars[self.vector.var] = whole
            self.walk.store_all()

    def _some_along(self, start: Value, stop: Value) -> None:
        """The same with all vectors masked, which needs no code for the rest."""
        with self.fn.loop(start, stop, self.lanes) as loop, self.ev.scope():
            left = self.fn.sub(stop, loop.index)
            with self.ev.guarded(Mask(None, self.fn.leading(self.lanes, left))):
                self.ev.vars[self.vector.var] = loop.index
                self.walk.store_all()
