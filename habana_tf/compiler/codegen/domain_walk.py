"""The common part of loops over a domain: merged axes, the vectorized axis, work items, and the code of a point."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from habana_tf.compiler.body import Body, point
from habana_tf.compiler.codegen.axes import LoopAxis, merge, places_of
from habana_tf.compiler.codegen.emit import Function, Value, first_lanes, lane_numbers
from habana_tf.compiler.codegen.evaluator import Evaluator
from habana_tf.compiler.codegen.reduction import Accumulator
from habana_tf.compiler.codegen.vector_access import Val
from habana_tf.compiler.costs import ITEM_ELEMENTS, SPARSE_VECTOR, THREAD_ELEMENTS
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent, nominal
from habana_tf.ir.linearity import stride_of
from habana_tf.ir.primitives import Node


class DomainWalk:
    """A kernel's domain as loop axes, and the evaluator of its body."""

    def __init__(
        self, fn: Function, body: Body, memory: dict[Node, int], buffers: int, lanes: int, compact: bool
    ) -> None:
        self.fn = fn
        self.compact = compact
        self.memory = memory
        outputs = set(body.outputs)
        self.loads = {n: k for n, k in memory.items() if n not in outputs}
        index = point(body.domain)
        kept = [k for k in range(len(body.domain)) if k not in body.axes]
        decisive = [*body.offsets(), *body.conditions(), *(s.offset for s in body.stores)]
        self.result: Extent = 0
        if body.reductions:
            self.result = ext.ravel([index[k] for k in kept], [body.domain[k] for k in kept])
            decisive.append(self.result)
        if any(r.is_arg for r in body.reductions):
            decisive.extend(index[k] for k in body.axes)
        self.axes = merge(body.domain, body.axes, decisive)
        places = places_of(body.domain, self.axes)
        self.body = body.over(places)
        self.result = ext.substitute(self.result, places)
        self.position = index[body.axes[0]] if body.axes else 0
        self.vector = self._vector_axis(lanes)
        lanes = lanes if self.vector is not None else 1
        self.ev = Evaluator(fn, self.loads, lanes, self.vector.var if self.vector else None)
        self.ev.written = {memory[n] for n in (*outputs, *body.overwritten)}
        self.ev.streamed = {memory[n] for n in body.streamed}
        self.ev.preload(buffers)
        self.lanes = lanes

    def _vector_axis(self, lanes: int) -> LoopAxis | None:
        if not self.axes:
            return None
        reduced = [a for a in self.axes if a.reduced]
        kept = [a for a in self.axes if not a.reduced]
        if not reduced:
            return self._long_axis(lanes) or self.axes[-1]
        if not kept:
            return self.axes[-1]
        offsets = [*self.body.offsets(), *(s.offset for s in self.body.stores)]

        def votes(axis: LoopAxis, other: LoopAxis) -> tuple[int, int]:
            """The contiguous accesses along an axis: first the number of those that depend on the other axis, too, and
            would need gathers or scatters along that; the others would be uniform."""
            along = [e for e in offsets if stride_of(e, axis.var) == 1]
            return sum(stride_of(e, other.var) != 0 for e in along), len(along)

        row, column = reduced[-1], kept[-1]
        return row if votes(row, column) > votes(column, row) else column

    def _long_axis(self, lanes: int) -> LoopAxis | None:
        """If the last axis is too short to fill vectors (channels of images), the axis along which loads are
        contiguous, for scattered stores."""
        last = self.axes[-1].extent
        if not isinstance(last, int) or last * SPARSE_VECTOR > lanes:
            return None
        loads = list(self.body.offsets())
        along = {a: sum(stride_of(e, a.var) == 1 for e in loads) for a in self.axes[:-1] if nominal(a.extent) >= lanes}
        best = max(along, key=along.__getitem__, default=None)
        if best is None or along[best] <= sum(stride_of(e, self.axes[-1].var) == 1 for e in loads):
            return None
        return best

    def grid(
        self, outer: list[LoopAxis], work: Extent, chunks: Extent
    ) -> tuple[list[LoopAxis], list[LoopAxis], Extent, int]:
        """Splits outer axes into the grid and loops within a work item: (grid axes, loop axes, number of items, grain).
        work: elements per point of `outer`."""
        loops: list[LoopAxis] = []
        grid = list(outer)
        while grid and isinstance(work, int) and isinstance(grid[-1].extent, int) and chunks == 1:
            if work >= ITEM_ELEMENTS or work * grid[-1].extent > 4 * ITEM_ELEMENTS:
                break
            loops.insert(0, grid[-1])
            work = work * grid.pop().extent
        items = ext.mul(ext.product(a.extent for a in grid), chunks)
        each = work if isinstance(work, int) else ITEM_ELEMENTS
        return grid, loops, items, max(1, -(-THREAD_ELEMENTS // max(each, 1)))

    def decode(self, item: Value, grid: Sequence[LoopAxis]) -> None:
        """Decodes a work item's number into the grid axes' variables."""
        for k, axis in enumerate(reversed(grid)):
            if k == len(grid) - 1:
                self.ev.vars[axis.var] = item
                return
            size = self.ev.number(axis.extent)
            self.ev.vars[axis.var] = self.fn.op(f"urem i64 {item}, {size}")
            item = self.fn.op(f"udiv i64 {item}, {size}")

    def nest(self, stack: ExitStack, axes: Sequence[LoopAxis]) -> None:
        """Opens plain loops over axes."""
        for axis in axes:
            loop = stack.enter_context(self.fn.loop("0", self.ev.number(axis.extent)))
            stack.enter_context(self.ev.scope())
            self.ev.vars[axis.var] = loop.index

    def tail_mask(self, start: Value, stop: Value, rest: int | None) -> Value:
        """The mask of a vector's lanes before `stop`, for a vector that begins at `start`."""
        if self.lanes == 1:
            return "true"
        if rest is not None:
            return first_lanes(self.lanes, rest)
        left = self.fn.splat(self.lanes, "i64", self.fn.sub(stop, start))
        return self.ev.many.op("icmp slt", lane_numbers("i64", self.lanes), left, "i64")

    def store_all(self) -> None:
        """Emits the body's stores at the current point."""
        for v in self.body.loaded_first:
            self.ev.value(v)
        for s in self.body.stores:
            self.ev.store(self.memory[s.target], s.target.dtype, s.offset, self.ev.stored(self.body, s))

    def store_result(self, ev: Evaluator, node: Node, value: Val) -> None:
        """Stores the result of a reduction."""
        ev.store(self.memory[node], node.dtype, self.result, value)

    def add(self, accumulators: Sequence[Accumulator], mask: Value | None) -> None:
        """Adds the current point to the accumulators, one per reduction, in the lanes of `mask`."""
        for acc in accumulators:
            value = self.ev.vector_of(acc.source)
            places = self.ev.words if acc.position == "i32" else self.ev.numbers
            acc.add(value, places(self.position) if acc.is_arg else None, mask)


def restore(accumulators: Sequence[Accumulator], values: Sequence[Value]) -> None:
    """Sets the accumulators' values from those that a loop carries."""
    at = 0
    for a in accumulators:
        a.values = list(values[at : at + len(a.values)])
        at += len(a.values)
