"""Column reductions: each lane is a result of its own, the reduced axes are loops inside.

    out[j] = sum over i of x[i, j]       lanes along j, up to four vectors at a time

With more columns the sums are kept in memory (`wide_sums.py`). Reductions over a window's taps (pooling) process a row
of an image per work item, without guards in its interior (`interior.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from habana_tf.compiler.codegen.axes import LoopAxis
from habana_tf.compiler.codegen.blocked_sums import summing_loop
from habana_tf.compiler.codegen.domain_walk import DomainWalk, restore
from habana_tf.compiler.codegen.emit import Value
from habana_tf.compiler.codegen.interior import Interior, interior
from habana_tf.compiler.codegen.reduction import Accumulator
from habana_tf.compiler.codegen.small_axes import beside, dependent, numel, places
from habana_tf.compiler.codegen.vector_access import Mask, Val
from habana_tf.compiler.codegen.wide_sums import WideSums, cut, pays
from habana_tf.compiler.costs import (
    PLACE_VECTORS,
    WINDOW_GUARDED,
    WINDOW_ROW_ITEMS,
    WINDOW_STRIPS,
    WRITTEN_OUT_POINTS,
    window_sum_registers,
)
from habana_tf.compiler.point_values import PointValue
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Atom, Extent, Var, nominal


class _Strip(NamedTuple):
    """Neighbouring points of an axis that are computed together. points: emits them, given the first."""

    width: int
    points: Callable[[Value], None]


class ColumnSums:
    """Emits a column reduction. beside: kept axes, all of whose points have sums in registers; shared: values that
    these points have in common."""

    def __init__(self, walk: DomainWalk) -> None:
        assert walk.vector is not None
        self.walk, self.vector = walk, walk.vector
        self.fn, self.ev, self.body = walk.fn, walk.ev, walk.body
        self.lanes, self.compact = walk.lanes, walk.compact
        self.beside: list[LoopAxis] = []
        self.shared: list[PointValue] = []

    def emit(self, outer: list[LoopAxis], inner: list[LoopAxis]) -> tuple[Extent, int]:
        """Emits the function; gives its grid and grain."""
        return self._wide(outer, inner) if self._is_wide(outer, inner) else self._column(outer, inner)

    def _column(self, outer: list[LoopAxis], inner: list[LoopAxis]) -> tuple[Extent, int]:
        """Sums in registers: lanes are results, reduced axes are loops inside."""
        n = self.vector.extent
        row, middle = self._row_of_windows(outer, inner) or (None, None)
        alone = self.compact or bool(self.body.stores) or not inner or row is not None
        outer = self._set_beside([] if alone else beside(self.body, outer, inner), outer)
        points, side = numel(self.beside), self._vectors(inner)
        width = side * self.lanes
        tiles = ext.ceil_div(n, width)
        masked = not (isinstance(n, int) and n % width == 0)
        depth = ext.product(a.extent for a in inner)
        work = ext.mul(depth, width * points)
        every = self.body.reductions * points
        if row:
            outer, work = outer[:-1], ext.mul(work, ext.mul(row.extent, tiles))
        grid, loops, items, grain = self.walk.grid(outer, work, 1 if row else tiles)

        def columns(tile: Value) -> None:
            """The results of a tile of columns at the current point of the other axes."""
            start = self.fn.mul(tile, width)
            starts = [self.fn.add(start, k * self.lanes) for k in range(side)]
            guards = [Mask(None, self.walk.tail_mask(s, self.ev.number(n), None) if masked else None) for s in starts]
            sums = [[Accumulator(self.ev.many, r) for r in every] for _ in range(side)]

            def add() -> None:
                for start, guard, some in zip(starts, guards, sums, strict=True):
                    with self.ev.guarded(guard):
                        self.ev.vars[self.vector.var] = start
                        self._add_point(some)

            self._accumulate(inner, [a for some in sums for a in some], add)
            for start, guard, some in zip(starts, guards, sums, strict=True):
                with self.ev.scope(), self.ev.guarded(guard):
                    self.ev.vars[self.vector.var] = start
                    self._store_results(some)

        def all_columns() -> None:
            with self.fn.loop("0", count) as loop, self.ev.scope():
                columns(loop.index)

        with self.fn.loop("%begin", "%end") as each, self.ev.scope():
            count, item, tile = self.ev.number(tiles), each.index, each.index
            if not row and (grid or loops):
                tile, item = self.fn.op(f"urem i64 {item}, {count}"), self.fn.op(f"udiv i64 {item}, {count}")
            self.walk.decode(item, grid)
            with ExitStack() as stack:
                self.walk.nest(stack, loops)
                if row and middle:
                    strip = None if self.body.stores else self._strip(row, middle, inner)
                    self._walk(row, middle, (), all_columns, strip=strip)
                else:
                    columns(tile)
        return items, grain

    def _vectors(self, inner: list[LoopAxis]) -> int:
        """Vectors of a tile: as many as divide the columns, and as have registers for their sums."""
        n, vectors = self.vector.extent, 1
        if isinstance(n, int):
            vectors = next((k for k in (4, 3, 2) if n % (k * self.lanes) == 0), 0) or (min(4, -(-n // self.lanes)))
        finds_places = any(r.is_arg for r in self.body.reductions)
        vectors = min(vectors, self._most_beside())
        if finds_places and numel(inner) <= WRITTEN_OUT_POINTS:
            vectors = min(vectors, PLACE_VECTORS)
        if (points := numel(self.beside)) > 1:
            taken = points * (2 if finds_places else 1)
            vectors = max(1, min(vectors, window_sum_registers(self.lanes) // taken))
        return vectors

    def _strip(self, row: LoopAxis, middle: Interior, inner: Sequence[LoopAxis]) -> _Strip:
        """Register blocking along a row's interior: neighbouring windows share most of their loads, and all of them the
        factors. The order of each sum stays the same."""
        n, whole = self.vector.extent, middle.stop - middle.first
        # w windows of three columns read w + 2 columns together; what is left over is guarded
        width = min(WINDOW_STRIPS, key=lambda w: whole // w * (w + 2) + whole % w * WINDOW_GUARDED)
        first = Var(f"{row.var.name}s", row.extent)
        taps: list[dict[Atom, Extent]] = [{v: int(k) for v, k in tap.items()} for tap in places(inner)]
        points: list[dict[Atom, Extent]] = [{row.var: ext.add(ext.of(first), k)} for k in range(width)]

        def vector() -> None:
            """A vector of columns of all points."""
            sums = [[Accumulator(self.ev.many, r) for r in self.body.reductions] for _ in points]
            for tap in taps:
                for point, some in zip(points, sums, strict=True):
                    with self.ev.shifted(tap | point):
                        self.walk.add(some, None)
            for point, some in zip(points, sums, strict=True):
                with self.ev.shifted(point):
                    self._store_results(some)

        def strip(index: Value) -> None:
            self.ev.vars[first] = index
            with self.fn.loop("0", self.ev.number(n), self.lanes) as loop, self.ev.scope():
                self.ev.vars[self.vector.var] = loop.index
                full = isinstance(n, int) and n % self.lanes == 0
                mask = None if full else self.walk.tail_mask(loop.index, self.ev.number(n), None)
                with self.ev.guarded(Mask(None, mask)):
                    vector()

        return _Strip(width, strip)

    def _row_of_windows(self, outer: Sequence[LoopAxis], inner: Sequence[LoopAxis]) -> tuple[LoopAxis, Interior] | None:
        """The row axis of an image and its interior, where windows need no guards, if there are enough rows for a row
        per work item."""
        if self.compact or not outer or numel(inner) > WRITTEN_OUT_POINTS:
            return None
        items = nominal(ext.product(a.extent for a in outer[:-1]))
        middle = interior(self.body, outer[-1], inner, self.vector) if items >= WINDOW_ROW_ITEMS else None
        return (outer[-1], middle) if middle else None

    def _set_beside(self, axes: list[LoopAxis], outer: Sequence[LoopAxis]) -> list[LoopAxis]:
        """Sets the axes all of whose sums are in registers; gives the other ones."""
        self.beside = axes
        if axes:
            apart = dependent(self.body, axes)
            self.shared = [v for v in self.body.values if v not in apart]
        return [a for a in outer if a not in axes]

    def _most_beside(self) -> int:
        """The most vectors of columns at a time."""
        return 2 if self.body.stores else 4

    def _is_wide(self, outer: list[LoopAxis], inner: list[LoopAxis]) -> bool:
        """Whether to keep sums in memory, because a row has more columns than registers can hold."""
        if self.compact or not isinstance(self.vector.extent, int):
            return False
        if self.vector.extent <= self._most_beside() * self.lanes or not pays(self.body, inner):
            return False
        return bool(self.body.stores) or len(inner) > 1 or not beside(self.body, outer, inner)

    def _wide(self, outer: list[LoopAxis], inner: list[LoopAxis]) -> tuple[Extent, int]:
        """Sums in memory: input is read row by row. With axes `beside`, sums stay in registers along the last reduced
        axis, so that shared values are loaded once per point."""
        assert self.vector is not None and isinstance(self.vector.extent, int)
        n = self.vector.extent
        outer = self._set_beside([] if self.body.stores else beside(self.body, outer, inner), outer)
        points = numel(self.beside)
        inner, along = (inner[:-1], inner[-1:]) if self.beside else (inner, [])
        columns = cut(n, self.lanes, nominal(ext.product(a.extent for a in outer)), points)
        blocks = -(-n // columns)
        work = ext.mul(ext.product(a.extent for a in (*inner, *along)), columns * points)
        grid, loops, items, grain = self.walk.grid(outer, work, blocks)

        def add(sums: list[Accumulator]) -> None:
            self._accumulate(along, sums, lambda: self._add_point(sums))

        adds = nominal(ext.product(a.extent for a in along))
        wide = WideSums(self.fn, self.ev, self.body.reductions * points, self.vector, inner, columns, add, adds)
        with self.fn.loop("%begin", "%end") as each, self.ev.scope():
            start, count, item = "0", n, each.index  # type: Value, Value | int, Value
            if blocks > 1:
                start = self.fn.mul(self.fn.op(f"urem i64 {item}, {blocks}"), columns)
                count = columns
                if n % columns:
                    count = self.fn.minimum(self.fn.sub(str(n), start), str(columns))
                item = self.fn.op(f"udiv i64 {item}, {blocks}")
            self.walk.decode(item, grid)
            with ExitStack() as stack:
                self.walk.nest(stack, loops)
                wide.clear()
                wide.run(start, count)
                wide.each(start, count, self._store_results)
        return items, grain

    def _each_beside(self, sums: list[Accumulator]) -> Iterator[list[Accumulator]]:
        """For each point of the axes `beside`, in a scope of its own: its accumulators."""
        count = len(self.body.reductions)
        for k, place in enumerate(places(self.beside)):
            with self.ev.scope():
                self.ev.vars.update(place)
                yield sums[k * count : (k + 1) * count]

    def _accumulate(self, inner: Sequence[LoopAxis], sums: Sequence[Accumulator], add: Callable[[], None]) -> None:
        """Loops over the reduced axes `inner` with `sums` in registers; `add` adds a point to them."""
        if inner and not self.compact and numel(inner) <= WRITTEN_OUT_POINTS:
            for place in places(inner):
                with self.ev.scope():
                    self.ev.vars.update(place)
                    add()
            return
        if inner:
            rest = inner[1:]
            adds = nominal(ext.product(a.extent for a in rest))

            def point() -> None:
                self._accumulate(rest, sums, add)

            if numel(rest) <= WRITTEN_OUT_POINTS:
                small = [*self.beside, *rest]  # unrolled by `point`
                middle = None if self.compact else interior(self.body, inner[0], small, self.vector)
                self._walk(inner[0], middle, sums, point, adds)
            else:
                self._part(inner[0], "0", self.ev.number(inner[0].extent), sums, point, adds)
            return
        add()

    def _walk(
        self, axis: LoopAxis, middle: Interior | None, sums: Sequence[Accumulator], point: Callable[[], None],
        adds: int = 1, strip: _Strip | None = None,
    ) -> None:  # fmt: skip
        """A loop over an axis with `sums` in registers, split so that its interior has no guards. adds: terms that a
        point adds to each sum. strip: register blocking of the interior."""
        stop = self.ev.number(axis.extent)
        if middle is None:
            self._part(axis, "0", stop, sums, point, adds)
            return
        low, high = str(middle.first), str(middle.stop)
        for value, end in middle.others:
            inside = self.fn.op(f"icmp ult i64 {self.ev.number(value)}, {end}")
            low = self.fn.op(f"select i1 {inside}, i64 {low}, i64 {stop}")
            high = self.fn.op(f"select i1 {inside}, i64 {high}, i64 {stop}")
        if strip:
            length = self.fn.sub(high, low)
            high = self.fn.sub(high, self.fn.op(f"urem i64 {length}, {strip.width}"))
        with self.fn.loop("0", "2", 1, [c for a in sums for c in a.carry()]) as end_, self.ev.scope():
            restore(sums, end_.carried)
            second = self.fn.op(f"icmp eq i64 {end_.index}, 1")
            first = self.fn.op(f"select i1 {second}, i64 {high}, i64 0")
            last = self.fn.op(f"select i1 {second}, i64 {stop}, i64 {low}")
            self._part(axis, first, last, sums, point, adds)
            with self.ev.assuming(middle.sure):
                last = self.fn.op(f"select i1 {second}, i64 {low}, i64 {high}")
                if strip:
                    with self.fn.loop(low, last, strip.width) as loop, self.ev.scope():
                        strip.points(loop.index)
                else:
                    self._part(axis, low, last, sums, point, adds)
            end_.next = [v for a in sums for v in a.values]
        restore(sums, end_.results)

    def _part(
        self,
        axis: LoopAxis,
        start: Value,
        stop: Value,
        sums: Sequence[Accumulator],
        point: Callable[[], None],
        adds: int,
    ) -> None:
        """A loop over an axis from start to stop; adds: terms that a point adds to each sum."""
        with summing_loop(self.fn, start, stop, 1, sums, axis.extent, adds) as index, self.ev.scope():
            self.ev.vars[axis.var] = index
            point()

    def _add_point(self, sums: list[Accumulator]) -> None:
        """Adds a point to the sums of all points beside, and emits its stores."""
        for v in self.shared:
            self.ev.value(v)
        for some in self._each_beside(sums):
            self.walk.add(some, None)
        self.walk.store_all()

    def _store_results(self, sums: list[Accumulator]) -> None:
        for some in self._each_beside(sums):
            for acc, r in zip(some, self.body.reductions, strict=True):
                self.walk.store_result(self.ev, r.node, Val(acc.result(), False))
