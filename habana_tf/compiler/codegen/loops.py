"""Code for a loop over a domain: elementwise chains and reductions.

The domain's axes are merged (`axes.py`), the outer ones become the grid, the middle ones plain loops, and one axis
is walked with vectors. Which one: for a kernel that only stores, the last; for a reduction, the last reduced axis
when memory is contiguous along it (*row*: lanes are summed up at the end), else the last kept one (*column*:
each lane is a result of its own).

    row     out[i]   = sum over j of x[i, j]       lanes along j, four accumulators, then across the lanes
    column  out[j]   = sum over i of x[i, j]       lanes along j, up to four vectors side by side

The order of every sum depends on shapes only, never on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from ...ir import extent as ext
from ...ir.extent import Extent, nominal
from ...ir.linearity import stride_of
from ...ir.primitives import Node
from ..body import Body, point
from ..body import Value as BodyValue
from ..code import Call, Code
from .axes import Axis, merge, places_of
from .emit import Function, Value, first_lanes
from .evaluator import Evaluator, Guard, Val
from .reduction import POSITION, Accumulator
from .small_axes import TURNS, beside, dependent, numel, places
from .wide_sums import WideSums, cut, pays

ITEM = 4096
"""Elements that a work item should at least have."""
GRAIN = 16384
"""Elements that are worth waking a second thread for."""
CHUNK = 8192
"""Longest stretch of the vector axis in one work item."""
REGISTERS = 24
"""Vectors of sums that stay in registers, of a CPU with the widest vectors; the others have half as many."""
MASKED = 16
"""Lanes of the CPUs that load and store some lanes of a vector of any type as quickly as all."""


def emit_loop(
    body: Body, name: str, memory: dict[Node, int], nodes: list[Node], lanes: int, bf16: bool, compact: bool = False
) -> Code:
    """The function of a loop; `compact` asks for little code.

    memory: number of each node kept in memory in `nodes`, the kernel's buffer list (loads first, then outputs).
    lanes: fp32 lanes of a vector register. bf16: the CPU rounds to bfloat16 in one instruction.
    """
    fn = Function(name, bf16)
    emitter = _Emitter(fn, body, memory, len(nodes), lanes, compact and lanes >= MASKED)
    grid, grain = emitter.emit()
    return Code((Call(name, fn.text(), tuple(nodes), grid, grain),), frozenset(fn.declarations))


class _Emitter:
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
        if any(r.node.arg[0].startswith("arg") for r in body.reductions):
            decisive.extend(index[k] for k in body.axes)
        self.axes = merge(body.domain, body.axes, decisive)
        places = places_of(body.domain, self.axes)
        self.body = body.over(places)
        self.result = ext.substitute(self.result, places)
        self.position = index[body.axes[0]] if body.axes else 0
        self.vector = self._vector_axis()
        lanes = lanes if self.vector is not None else 1
        self.ev = Evaluator(fn, self.loads, lanes, self.vector.var if self.vector else None)
        self.ev.written = {memory[n] for n in outputs}
        self.ev.preload(buffers)
        self.lanes = lanes
        self.beside: list[Axis] = []
        self.shared: list[BodyValue] = []

    def _vector_axis(self) -> Axis | None:
        if not self.axes:
            return None
        reduced = [a for a in self.axes if a.reduced]
        kept = [a for a in self.axes if not a.reduced]
        if not reduced or not kept:
            return self.axes[-1]
        offsets = [*self.body.offsets(), *(s.offset for s in self.body.stores)]

        def votes(axis: Axis, other: Axis) -> tuple[int, int]:
            """How much is contiguous along an axis; first of what moves along the other too, which is gathered and
            scattered otherwise. What does not is one number for all lanes, the other way round."""
            along = [e for e in offsets if stride_of(e, axis.var) == 1]
            return sum(stride_of(e, other.var) != 0 for e in along), len(along)

        row, column = reduced[-1], kept[-1]
        return row if votes(row, column) > votes(column, row) else column

    def emit(self) -> tuple[Extent, int]:
        """Writes the function; its grid and grain."""
        row = self.vector is not None and self.vector.reduced
        outer = [a for a in self.axes if a is not self.vector and not a.reduced]
        inner = [a for a in self.axes if a is not self.vector and a.reduced]
        if row or self.vector is None:
            return self._row(outer, inner)
        if self._is_wide(outer, inner):
            return self._wide(outer, inner)
        if inner or self.body.reductions:
            return self._column(outer, inner)
        return self._map(outer)

    # -- work items -----------------------------------------------------------------------------------------

    def _grid(self, outer: list[Axis], work: Extent, chunks: Extent) -> tuple[list[Axis], list[Axis], Extent, int]:
        """Which outer axes are spread over work items and which are looped over inside: (grid axes, loop axes,
        number of items, grain). work: elements per point of `outer`."""
        loops: list[Axis] = []
        grid = list(outer)
        while grid and isinstance(work, int) and isinstance(grid[-1].extent, int) and chunks == 1:
            if work >= ITEM or work * grid[-1].extent > 4 * ITEM:
                break
            loops.insert(0, grid[-1])
            work = work * grid.pop().extent
        items = ext.mul(ext.product(a.extent for a in grid), chunks)
        each = work if isinstance(work, int) else ITEM
        return grid, loops, items, max(1, -(-GRAIN // max(each, 1)))

    def _decode(self, item: Value, grid: Sequence[Axis]) -> None:
        """Sets the grid axes' variables from the number of a work item."""
        for k, axis in enumerate(reversed(grid)):
            if k == len(grid) - 1:
                self.ev.vars[axis.var] = item
                return
            size = self.ev.number(axis.extent)
            self.ev.vars[axis.var] = self.fn.op(f"urem i64 {item}, {size}")
            item = self.fn.op(f"udiv i64 {item}, {size}")

    def _nest(self, stack: ExitStack, axes: Sequence[Axis]) -> None:
        """Opens plain loops over axes."""
        for axis in axes:
            loop = stack.enter_context(self.fn.loop("0", self.ev.number(axis.extent)))
            stack.enter_context(self.ev.scope())
            self.ev.vars[axis.var] = loop.index

    # -- elementwise ----------------------------------------------------------------------------------------

    def _map(self, outer: list[Axis]) -> tuple[Extent, int]:
        assert self.vector is not None
        n = self.vector.extent
        chunked = not isinstance(n, int) or n > 2 * CHUNK or (not outer and n >= 2 * ITEM)
        size = ITEM if not outer and isinstance(n, int) else CHUNK
        chunks = ext.div(ext.add(n, size - 1), size) if chunked else 1
        grid, loops, items, grain = self._grid(outer, size if chunked else n, chunks)
        with self.fn.loop("%begin", "%end") as each, self.ev.scope():
            item, start, stop = each.index, "0", self.ev.number(n)
            if chunked:
                count = self.ev.number(chunks)
                part = item if not grid else self.fn.op(f"urem i64 {item}, {count}")
                item = item if not grid else self.fn.op(f"udiv i64 {item}, {count}")
                start = self.fn.integer("mul", part, size)
                stop = self.fn.minimum(self.fn.integer("add", start, size), stop)
            self._decode(item, grid)
            with ExitStack() as stack:
                self._nest(stack, loops)
                self._along(start, stop, n if not chunked else None)
        return items, grain

    def _along(self, start: Value, stop: Value, n: Extent | None) -> None:
        """Stores along the vector axis from start to stop; n: the count when it is all of a constant axis."""
        if self.compact and n is None:
            self._some_along(start, stop)
            return
        whole = stop
        rest: int | None = None
        if isinstance(n, int):
            rest = n % self.lanes
            whole = str(n - rest)
        else:
            count = self.fn.integer("sub", stop, start)
            rest_value = self.fn.op(f"urem i64 {count}, {self.lanes}")
            whole = self.fn.integer("sub", stop, rest_value)
        assert self.vector is not None
        if whole != "0":
            with self.fn.loop(start, whole, self.lanes) as loop, self.ev.scope():
                self.ev.vars[self.vector.var] = loop.index
                self._store_all()
        if rest == 0:
            return
        with ExitStack() as stack:
            if rest is None:
                stack.enter_context(self.fn.when(self.fn.less(whole, stop)))
            stack.enter_context(self.ev.scope())
            stack.enter_context(self.ev.guarded(Guard(None, self._tail_mask(whole, stop, rest))))
            self.ev.vars[self.vector.var] = whole
            self._store_all()

    def _some_along(self, start: Value, stop: Value) -> None:
        """The same with every vector as if it were the last: the code of one for both."""
        assert self.vector is not None
        with self.fn.loop(start, stop, self.lanes) as loop, self.ev.scope():
            left = self.fn.integer("sub", stop, loop.index)
            with self.ev.guarded(Guard(None, self.fn.leading(self.lanes, left))):
                self.ev.vars[self.vector.var] = loop.index
                self._store_all()

    def _tail_mask(self, start: Value, stop: Value, rest: int | None) -> Value:
        """The lanes before `stop` of a vector that begins at `start`."""
        if self.lanes == 1:
            return "true"
        if rest is not None:
            return first_lanes(self.lanes, rest)
        left = self.fn.splat(self.lanes, "i64", self.fn.integer("sub", stop, start))
        steps = "<" + ", ".join(f"i64 {k}" for k in range(self.lanes)) + ">"
        return self.ev.many.op("icmp slt", steps, left, "i64")

    def _store_all(self) -> None:
        for s in self.body.stores:
            self.ev.store(self.memory[s.target], s.target.dtype, s.offset, self.ev.value(s.value))

    # -- reductions -----------------------------------------------------------------------------------------

    def _store_result(self, ev: Evaluator, node: Node, value: Val) -> None:
        ev.store(self.memory[node], node.dtype, self.result, value)

    def _column(self, outer: list[Axis], inner: list[Axis]) -> tuple[Extent, int]:
        """Lanes are results; reduced axes are loops inside."""
        assert self.vector is not None
        n = self.vector.extent
        self.beside = [] if self.compact or self.body.stores or not inner else beside(self.body, outer)
        if self.beside:
            apart = dependent(self.body, self.beside)
            self.shared = [v for v in self.body.values if v not in apart]
        outer = [a for a in outer if a not in self.beside]
        points = numel(self.beside)
        side = 1
        if isinstance(n, int):
            side = next((k for k in (4, 3, 2) if n % (k * self.lanes) == 0), 0) or (min(4, -(-n // self.lanes)))
        side = min(side, self._most_beside())
        if points > 1:
            side = max(1, min(side, (REGISTERS if self.lanes >= MASKED else REGISTERS // 2) // points))
        width = side * self.lanes
        tiles = ext.div(ext.add(n, width - 1), width)
        masked = not (isinstance(n, int) and n % width == 0)
        depth = ext.product(a.extent for a in inner)
        work = ext.mul(depth, width * points)
        grid, loops, items, grain = self._grid(outer, work, tiles)
        with self.fn.loop("%begin", "%end") as each, self.ev.scope():
            count = self.ev.number(tiles)
            tile = each.index if not grid and not loops else self.fn.op(f"urem i64 {each.index}, {count}")
            item = each.index if not grid and not loops else self.fn.op(f"udiv i64 {each.index}, {count}")
            self._decode(item, grid)
            start = self.fn.integer("mul", tile, width)
            with ExitStack() as stack:
                self._nest(stack, loops)
                starts = [self.fn.integer("add", start, k * self.lanes) for k in range(side)]
                guards = [Guard(None, self._tail_mask(s, self.ev.number(n), None) if masked else None) for s in starts]
                every = self.body.reductions * points
                sums = [[Accumulator(self.ev.many, r) for r in every] for _ in range(side)]
                self._accumulate(inner, starts, guards, sums)
                for k in range(side):
                    with self.ev.scope(), self.ev.guarded(guards[k]):
                        self.ev.vars[self.vector.var] = starts[k]
                        for some in self._each_beside(sums[k]):
                            for acc, r in zip(some, self.body.reductions, strict=True):
                                self._store_result(self.ev, r.node, Val(acc.result(), False))
        return items, grain

    def _most_beside(self) -> int:
        """Vectors of columns whose sums are in registers at a time."""
        return 2 if self.body.stores else 4

    def _is_wide(self, outer: list[Axis], inner: list[Axis]) -> bool:
        """Whether sums wait in memory, because a row has more columns than registers would hold sums of."""
        if self.compact or self.vector is None or not isinstance(self.vector.extent, int):
            return False
        if self.vector.extent <= self._most_beside() * self.lanes or not pays(self.body, inner):
            return False
        return bool(self.body.stores) or not beside(self.body, outer)

    def _wide(self, outer: list[Axis], inner: list[Axis]) -> tuple[Extent, int]:
        """Lanes are results; memory is walked row by row."""
        assert self.vector is not None and isinstance(self.vector.extent, int)
        n = self.vector.extent
        columns = cut(n, self.lanes, nominal(ext.product(a.extent for a in outer)))
        blocks = -(-n // columns)
        work = ext.mul(ext.product(a.extent for a in inner), columns)
        grid, loops, items, grain = self._grid(outer, work, blocks)

        def add(sums: Sequence[Accumulator]) -> None:
            self._add(sums, None)
            self._store_all()

        def store(acc: Accumulator, number: int) -> None:
            self._store_result(self.ev, self.body.reductions[number].node, Val(acc.result(), False))

        wide = WideSums(self.fn, self.ev, self.body, self.vector, inner, columns, add)
        with self.fn.loop("%begin", "%end") as each, self.ev.scope():
            start, count, item = "0", n, each.index  # type: Value, Value | int, Value
            if blocks > 1:
                start = self.fn.integer("mul", self.fn.op(f"urem i64 {item}, {blocks}"), columns)
                count = columns
                if n % columns:
                    count = self.fn.minimum(self.fn.integer("sub", str(n), start), str(columns))
                item = self.fn.op(f"udiv i64 {item}, {blocks}")
            self._decode(item, grid)
            with ExitStack() as stack:
                self._nest(stack, loops)
                wide.clear()
                wide.run(start, count)
                wide.each(start, count, store)
        return items, grain

    def _each_beside(self, sums: list[Accumulator]) -> Iterator[list[Accumulator]]:
        """For each point of the axes `beside`, within its scope, the accumulators that are its own."""
        count = len(self.body.reductions)
        for k, place in enumerate(places(self.beside)):
            with self.ev.scope():
                self.ev.vars.update(place)
                yield sums[k * count : (k + 1) * count]

    def _accumulate(
        self, inner: Sequence[Axis], starts: Sequence[Value], guards: Sequence[Guard], sums: list[list[Accumulator]]
    ) -> None:
        """Loops over the reduced axes `inner`, adding each point to the accumulators side by side."""
        assert self.vector is not None
        flat = [a for side in sums for a in side]
        if inner and not self.compact and numel(inner) <= TURNS:
            for place in places(inner):
                with self.ev.scope():
                    self.ev.vars.update(place)
                    self._accumulate((), starts, guards, sums)
            return
        if inner:
            axis, rest = inner[0], inner[1:]
            carry = [c for a in flat for c in a.carry()]
            with self.fn.loop("0", self.ev.number(axis.extent), 1, carry) as loop, self.ev.scope():
                _restore(flat, loop.carried)
                self.ev.vars[axis.var] = loop.index
                self._accumulate(rest, starts, guards, sums)
                loop.next = [v for a in flat for v in a.values]
            _restore(flat, loop.results)
            return
        for start, guard, side in zip(starts, guards, sums, strict=True):
            with self.ev.guarded(guard):
                self.ev.vars[self.vector.var] = start
                for v in self.shared:
                    self.ev.value(v)
                for some in self._each_beside(side):
                    self._add(some, None)
                self._store_all()

    def _add(self, accumulators: Sequence[Accumulator], mask: Value | None) -> None:
        for acc, r in zip(accumulators, self.body.reductions, strict=True):
            value = self.ev.vector_of(r.value)
            position = None
            if acc.is_arg:
                position = self.ev.many.convert("trunc", self.ev.numbers(self.position), "i64", POSITION)
            acc.add(value, position, mask)

    def _row(self, outer: list[Axis], inner: list[Axis]) -> tuple[Extent, int]:
        """Lanes along the innermost reduced axis (or no lanes at all when nothing is left to loop over)."""
        n: Extent = self.vector.extent if self.vector else 1
        work = ext.mul(ext.product(a.extent for a in inner), n)
        grid, loops, items, grain = self._grid(outer, work, 1)
        with self.fn.loop("%begin", "%end") as each, self.ev.scope():
            self._decode(each.index, grid)
            with ExitStack() as stack:
                self._nest(stack, loops)
                sums = [Accumulator(self.ev.many, r) for r in self.body.reductions]
                self._rows(inner, n, sums)
                for acc, r in zip(sums, self.body.reductions, strict=True):
                    one = Evaluator(self.fn, self.loads, 1, None)
                    one.vars, one.pointers, one.written = self.ev.vars, self.ev.pointers, self.ev.written
                    self._store_result(one, r.node, Val(acc.across(), True))
        return items, grain

    def _rows(self, inner: Sequence[Axis], n: Extent, sums: list[Accumulator]) -> None:
        if inner:
            carry = [c for a in sums for c in a.carry()]
            with self.fn.loop("0", self.ev.number(inner[0].extent), 1, carry) as loop, self.ev.scope():
                _restore(sums, loop.carried)
                self.ev.vars[inner[0].var] = loop.index
                self._rows(inner[1:], n, sums)
                loop.next = [v for a in sums for v in a.values]
            _restore(sums, loop.results)
        elif self.vector is None:
            with self.ev.scope():
                self._add(sums, None)
                self._store_all()
        else:
            self._one_row(n, sums)

    def _one_row(self, n: Extent, sums: list[Accumulator]) -> None:
        """The vector axis from 0 to n: four vectors a turn, then one, then a masked rest."""
        assert self.vector is not None
        done: Value = "0"
        stop = self.ev.number(n)
        if self.compact and not isinstance(n, int):
            self._some_of_row(stop, sums)
            return
        if not isinstance(n, int) or n >= 4 * self.lanes:
            side = [[a.fresh() for a in sums] for _ in range(3)]
            every = [*sums, *(a for s in side for a in s)]
            done = self.fn.integer("sub", stop, self.fn.op(f"urem i64 {stop}, {4 * self.lanes}"))
            carry = [c for a in every for c in a.carry()]
            with self.fn.loop("0", done, 4 * self.lanes, carry) as loop:
                _restore(every, loop.carried)
                for k, accumulators in enumerate([sums, *side]):
                    with self.ev.scope():
                        self.ev.vars[self.vector.var] = self.fn.integer("add", loop.index, k * self.lanes)
                        self._add(accumulators, None)
                        self._store_all()
                loop.next = [v for a in every for v in a.values]
            _restore(every, loop.results)
            for a, b, c, d in zip(sums, *side, strict=True):
                b.combine(c)
                a.combine(d)
                a.combine(b)
        whole = self.fn.integer("sub", stop, self.fn.op(f"urem i64 {stop}, {self.lanes}"))
        with self.fn.loop(done, whole, self.lanes, [c for a in sums for c in a.carry()]) as loop, self.ev.scope():
            _restore(sums, loop.carried)
            self.ev.vars[self.vector.var] = loop.index
            self._add(sums, None)
            self._store_all()
            loop.next = [v for a in sums for v in a.values]
        _restore(sums, loop.results)
        if isinstance(n, int) and n % self.lanes == 0:
            return
        mask = self._tail_mask(whole, stop, n % self.lanes if isinstance(n, int) else None)
        with self.ev.scope(), self.ev.guarded(Guard(None, mask)):
            self.ev.vars[self.vector.var] = whole
            self._add(sums, mask)
            self._store_all()

    def _some_of_row(self, stop: Value, sums: list[Accumulator]) -> None:
        """The same with every vector as if it were the last."""
        assert self.vector is not None
        carry = [c for a in sums for c in a.carry()]
        with self.fn.loop("0", stop, self.lanes, carry) as loop, self.ev.scope():
            _restore(sums, loop.carried)
            mask = self.fn.leading(self.lanes, self.fn.integer("sub", stop, loop.index))
            with self.ev.guarded(Guard(None, mask)):
                self.ev.vars[self.vector.var] = loop.index
                self._add(sums, mask)
                self._store_all()
            loop.next = [v for a in sums for v in a.values]
        _restore(sums, loop.results)


def _restore(accumulators: Sequence[Accumulator], values: Sequence[Value]) -> None:
    at = 0
    for a in accumulators:
        a.values = list(values[at : at + len(a.values)])
        at += len(a.values)
