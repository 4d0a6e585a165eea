"""Column reductions with the sums in the first-level cache, so that the input is read row by row.

    sum of x[1600, 1024] over the rows:   for every row, for every vector of columns:   sums of the columns += vector

With sums in registers a wide input would be read in columns of a few vectors, which defeats hardware prefetching: it
took three times as long, and so did two rows or more at a time. Kernels that also store tensors are as fast as the
stores.

Each column's sum has the same order in both forms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from habana_tf.compiler.body import Body, Reduction
from habana_tf.compiler.codegen.axes import LoopAxis
from habana_tf.compiler.codegen.blocked_sums import block_end
from habana_tf.compiler.codegen.blocked_sums import cut as blocks
from habana_tf.compiler.codegen.emit import BYTES, Function, Value
from habana_tf.compiler.codegen.evaluator import Evaluator
from habana_tf.compiler.codegen.lanes import register_type
from habana_tf.compiler.codegen.reduction import Accumulator
from habana_tf.compiler.codegen.vector_access import Mask
from habana_tf.compiler.costs import MANY_WORK_ITEMS, WIDE_COLUMNS, WIDE_ITEM_COLUMNS, WIDE_ROWS
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import nominal


class WideSums:
    """Emits sums along the vector axis, one per reduction, over the reduced axes `inner`.

    add: adds a point to accumulators, under the evaluator's guard, and emits the point's stores.
    """

    def __init__(
        self, fn: Function, ev: Evaluator, reductions: Sequence[Reduction], vector: LoopAxis, inner: Sequence[LoopAxis],
        columns: int, add: Callable[[list[Accumulator]], None], adds: int = 1,
    ) -> None:  # fmt: skip
        """adds: terms that a point adds to each sum."""
        self.fn, self.ev, self.vector, self.inner, self.add, self.adds = fn, ev, vector, inner, add, adds
        self.sums = [Accumulator(ev.many, r) for r in reductions]
        self.columns = -(-columns // ev.lanes) * ev.lanes
        self.memory = [fn.op(f"alloca [{self.columns} x {a.lane}], align 64") for a in self.sums]
        self.totals = self.memory
        if any(a.rounds for a in self.sums) and blocks(ext.product(a.extent for a in inner), adds):
            self.totals = [fn.op(f"alloca [{self.columns} x {a.lane}], align 64") for a in self.sums]

    def clear(self) -> None:
        """Initializes the sums."""
        with self.fn.loop("0", str(self.columns), self.ev.lanes) as loop:
            for pointers in dict.fromkeys((tuple(self.memory), tuple(self.totals))):
                for pointer, acc in zip(pointers, self.sums, strict=True):
                    self._store(acc, pointer, loop.index, acc.fresh().values[0])

    def run(self, start: Value, count: Value | int) -> None:
        """Adds all points of `count` columns from `start` on."""

        def add(index: Value) -> None:
            for acc, pointer in zip(self.sums, self.memory, strict=True):
                acc.values = [self._load(acc, pointer, index)]
            self.add(self.sums)
            for acc, pointer in zip(self.sums, self.memory, strict=True):
                self._store(acc, pointer, index, acc.values[0])

        self._rows(self.inner, lambda: self._columns(start, count, add))

    def _rows(self, inner: Sequence[LoopAxis], row: Callable[[], None]) -> None:
        """Emits `row` for every point of these axes, with partial sums per block (see `blocked_sums`)."""
        if not inner:
            row()
            return
        axis, rest = inner[0], inner[1:]
        below = ext.mul(ext.product(a.extent for a in rest), self.adds)
        sizes = [] if self.totals is self.memory or blocks(below) else blocks(axis.extent, nominal(below))
        stop = self.ev.number(axis.extent)
        with ExitStack() as stack:
            first, last = "0", stop
            if sizes:
                block = stack.enter_context(self.fn.loop("0", stop, sizes[-1])).index
                first, last = block, block_end(self.fn, block, sizes[-1], "0", stop)
            with self.fn.loop(first, last) as loop, self.ev.scope():
                self.ev.vars[axis.var] = loop.index
                self._rows(rest, row)
            if sizes:
                self._keep()

    def _keep(self) -> None:
        """Adds the sums of a block to the totals and clears them."""
        with self.fn.loop("0", str(self.columns), self.ev.lanes) as loop:
            for acc, pointer, place in zip(self.sums, self.memory, self.totals, strict=True):
                total = acc.fresh()
                total.values = [self._load(acc, place, loop.index)]
                acc.values = [self._load(acc, pointer, loop.index)]
                total.combine(acc)
                self._store(acc, place, loop.index, total.values[0])
                self._store(acc, pointer, loop.index, acc.fresh().values[0])

    def each(self, start: Value, count: Value | int, store: Callable[[list[Accumulator]], None]) -> None:
        """Passes every vector of the sums to `store`, with the vector variable set."""

        def finish(index: Value) -> None:
            for acc, pointer in zip(self.sums, self.totals, strict=True):
                acc.values = [self._load(acc, pointer, index)]
            store(self.sums)

        self._columns(start, count, finish)

    def _columns(self, start: Value, count: Value | int, body: Callable[[Value], None]) -> None:
        """Emits `body` for every vector of columns, given its offset in the sums."""
        lanes, fn = self.ev.lanes, self.fn
        left = count % lanes if isinstance(count, int) else fn.op(f"urem i64 {count}, {lanes}")
        whole = fn.sub(str(count), str(left))
        if whole != "0":
            with fn.loop("0", whole, lanes) as loop, self.ev.scope():
                self.ev.vars[self.vector.var] = fn.add(start, loop.index)
                body(loop.index)
        if left == 0:
            return
        with ExitStack() as stack:
            if not isinstance(left, int):
                stack.enter_context(fn.when(fn.less("0", left)))
            stack.enter_context(self.ev.scope())
            stack.enter_context(self.ev.guarded(Mask(None, fn.leading(lanes, str(left)))))
            self.ev.vars[self.vector.var] = fn.add(start, whole)
            body(whole)

    def _load(self, acc: Accumulator, pointer: Value, index: Value) -> Value:
        where = self.fn.offset(pointer, acc.lane, index)
        return self.fn.load(self.ev.many.type(acc.lane), where, BYTES[acc.lane])

    def _store(self, acc: Accumulator, pointer: Value, index: Value, value: Value) -> None:
        where = self.fn.offset(pointer, acc.lane, index)
        self.fn.store(self.ev.many.type(acc.lane), value, where, BYTES[acc.lane])


def pays(body: Body, inner: Sequence[LoopAxis]) -> bool:
    """Whether a body's sums can be kept in memory, and are long enough for it to pay."""
    return (
        bool(body.reductions)
        and nominal(ext.product(a.extent for a in inner)) >= WIDE_ROWS
        and all(register_type(r.value.dtype) in BYTES and not r.is_arg for r in body.reductions)
    )


def cut(columns: int, lanes: int, items: int, points: int = 1) -> int:
    """The columns of a work item. items: number of items without a split of columns (0 if an extent is 0); points: sums
    per column."""
    parts = max(
        -(-columns * points // WIDE_COLUMNS), min(-(-MANY_WORK_ITEMS // max(items, 1)), columns // WIDE_ITEM_COLUMNS)
    )
    return -(-columns // (parts * lanes)) * lanes
