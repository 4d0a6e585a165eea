"""Passes the sums of a contraction's tiles to the epilogue.

Unrolled, or, if that is too much code, in a loop over the tile on the stack. Column sums of the epilogue's results are
accumulated on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from habana_tf.compiler.codegen.emit import Function, Value
from habana_tf.compiler.codegen.tiles.epilogue import Epilogue, PrefetchLine, SumVector, Tile
from habana_tf.compiler.codegen.tiles.nest import Cursor, TileLoops
from habana_tf.compiler.codegen.tiles.plan import Plan
from habana_tf.compiler.codegen.turns import repeat
from habana_tf.compiler.contraction import Canonical, Label
from habana_tf.compiler.costs import CACHE_LINE
from habana_tf.compiler.product_costs import (
    FETCH_LEVEL,
    FETCHED_VECTORS,
    INLINE_EPILOGUE,
    LONG_SUM_EPILOGUE,
    LONG_SUM_STEPS,
)
from habana_tf.ir import extent as ext


class TileResults(TileLoops):
    """Base of kernels whose tiles are results."""

    stack_tile: Value = ""
    """The address of a tile's sums on the stack, for an epilogue in a loop; empty if it is unrolled."""

    @property
    def tile_bytes(self) -> int:
        return self.t.rows * self.t.vectors * self.t.lanes * 4

    def reserve(self, out: Epilogue, always: bool = False) -> None:
        """Call it first: reserves stack for a tile if the epilogue is not unrolled."""
        if always or not self.stands_inline(out):
            self.stack_tile = self.room(self.tile_bytes)

    def stands_inline(self, out: Epilogue) -> bool:
        """Whether the epilogue is unrolled over a tile's vectors, at the cost of code size and compile time."""
        terms = ext.product(label.extent for label in self.c.k)
        steps = terms // 2 if isinstance(terms, int) and self.p.dot else terms
        long = isinstance(steps, int) and steps >= LONG_SUM_STEPS
        looped = long or self.p.lanes == "rows"  # transposed blocks have many rows
        most = LONG_SUM_EPILOGUE if looped else INLINE_EPILOGUE
        return epilogue_length(out, self.c, self.p) * self.t.rows * self.t.vectors <= most

    def finish(
        self, out: Epilogue, cursor: Cursor, size: int, vectors: int, active: int, sums: Sequence[Value]
    ) -> None:
        """Passes a tile's final sums (row by row) to the epilogue."""
        if self.stack_tile:
            for i, value in enumerate(sums):
                self.fn.store(self.vector, value, self.fn.ptradd(self.stack_tile, i * self.t.lanes * 4), 16)
            self.finish_stacked(out, cursor, size, vectors, active)
            return
        tile = Tile(self.fn, self.c, dict(cursor.starts))
        added: dict[int, list[Value]] = {}
        for number, (point, value) in enumerate(
            zip(self.result_vectors(tile, size, vectors, active), sums, strict=True)
        ):
            terms = out.vector(self.fn, SumVector(value, point.lanes, point.active, tile, point.within))
            if out.sums:
                v = number % vectors
                state = added.get(v) or out.sums.start(self.fn, self._column(cursor.starts, v))
                added[v] = out.sums.add(self.fn, state, terms, number < vectors)
        for v, state in added.items():
            assert out.sums is not None
            out.sums.keep(self.fn, self._column(cursor.starts, v), state, len(sums) // vectors)

    def _column(self, starts: Mapping[int, Value], v: Value | int) -> Value:
        """The position of a tile's vector along the lane label."""
        assert self.c.lane is not None
        return self.fn.add(starts.get(self.c.lane.key, "0"), self.fn.mul(v, self.t.lanes))

    def fetch(self, out: Epilogue, cursor: Cursor, size: int, vectors: int, active: int) -> None:
        """Prefetches the memory of a tile's epilogue while the sums are computed, in loops over rows and lines:
        unrolled it would be more code than the sums."""
        points = self.result_vectors(Tile(self.fn, self.c, dict(cursor.starts)), size, vectors, active)
        if len(points) > FETCHED_VECTORS:
            return
        walks = [(label.key, count, 1) for label, count in self.row_labels(size)]
        per_line = max(1, CACHE_LINE // (4 * self.t.lanes))
        if self.c.lane and vectors > per_line:
            walks.append((self.c.lane.key, -(-vectors // per_line), per_line * self.t.lanes))
        lines = out.lines(self.fn, points[0])
        self._fetch(walks, [line.pointer for line in lines], lines)

    def _fetch(
        self, walks: Sequence[tuple[int, int, int]], pointers: list[Value], lines: Sequence[PrefetchLine]
    ) -> None:
        """Prefetches lines in nested loops. walks: (label key, trip count, indices per step)."""
        if not lines:
            return
        if not walks:
            for pointer in pointers:
                self.fn.prefetch(pointer, FETCH_LEVEL)
            return
        key, count, indices = walks[0]
        with repeat(self.fn, count, [("ptr", pointer) for pointer in pointers]) as turns:
            self._fetch(walks[1:], turns.carried, lines)
            steps = [line.steps[key] * indices for line in lines]
            turns.next = [self.fn.ptradd(x, step) for x, step in zip(turns.carried, steps, strict=True)]

    def result_vectors(self, tile: Tile, size: int, vectors: int, active: int) -> list[SumVector]:
        """The positions of a tile's vectors, row by row, without values."""
        lanes, found = self.t.lanes, []
        for row in self.rows(size):
            for v in range(vectors):
                within = {label.key: i for label, i in row}
                if self.c.lane:
                    within[self.c.lane.key] = v * lanes
                found.append(SumVector("", lanes, active if v == vectors - 1 else lanes, tile, within))
        return found

    def finish_stacked(self, out: Epilogue, cursor: Cursor, size: int, vectors: int, active: int) -> None:
        """Passes the sums in `stack_tile` to the epilogue."""
        rows = [(label, extent, str(extent)) for label, extent in self.row_labels(size)]
        full = vectors if active == self.t.lanes else vectors - 1
        columns: list[tuple[Value, Value | None, int]] = [("0", str(full), self.t.lanes)] if full else []
        columns += [(str(full), None, active)] if full < vectors else []
        self.pass_on(out, cursor.starts, rows, vectors, columns)

    def pass_on(
        self, out: Epilogue, first: Mapping[int, Value], labels: Sequence[tuple[Label, int, Value]], line: int,
        columns: Sequence[tuple[Value, Value | None, int]],
    ) -> None:  # fmt: skip
        """Passes the sums in `stack_tile` to the epilogue: row by row, or column by column for column sums.

        first: the position of the first sum. labels: those that rows span, outermost first, with their extents in
        memory and how many of them there are. line: vectors of a row in memory. columns: ranges of vectors (first,
        behind the last: None for one vector), and how many of their lanes are results.
        """
        fn, lanes, vector = self.fn, self.t.lanes, self.vector

        def emit(starts: Mapping[int, Value], row: Value, v: Value, valid: int) -> Sequence[Value]:
            if self.c.lane:
                starts = {**starts, self.c.lane.key: self._column(starts, v)}
            offset = fn.mul(fn.add(fn.mul(row, line), v), lanes * 4)
            value = fn.load(vector, fn.ptradd(self.stack_tile, offset), 16)
            return out.vector(fn, SumVector(value, lanes, valid, Tile(fn, self.c, starts), {}))

        def across(body: Callable[[Value, int], None]) -> None:
            for low, high, active in columns:
                if high is None:
                    body(low, active)
                elif low != high:
                    with fn.loop(low, high) as v:
                        body(v.index, active)

        def rows(
            labels: Sequence[tuple[Label, int, Value]], starts: Mapping[int, Value], row: Value, state: list[Value],
            body: Callable[[Mapping[int, Value], Value, list[Value]], list[Value]],
        ) -> list[Value]:  # fmt: skip
            if not labels:
                return body(starts, row, state)
            label, extent, trip = labels[0]
            with fn.loop("0", trip, carry=[(vector, x) for x in state]) as i:
                inner = {**starts, label.key: fn.add(starts.get(label.key, "0"), i.index)}
                number = fn.add(fn.mul(row, extent), i.index)
                i.next = rows(labels[1:], inner, number, i.carried, body)
            return i.results

        def along_row(starts: Mapping[int, Value], row: Value, state: list[Value]) -> list[Value]:
            def one(v: Value, valid: int) -> None:
                emit(starts, row, v, valid)

            across(one)
            return []

        def down(v: Value, valid: int) -> None:
            sums = out.sums
            assert sums is not None
            column = self._column(first, v)
            state = rows(
                labels, first, "0", sums.start(fn, column),
                lambda starts, row, state: sums.add(fn, state, emit(starts, row, v, valid), True),
            )  # fmt: skip
            sums.keep(fn, column, state, reduce(fn.mul, (trip for _, _, trip in labels), "1"))

        if out.sums:
            across(down)
        else:
            rows(labels, first, "0", [], along_row)


def epilogue_length(out: Epilogue, c: Canonical, p: Plan) -> int:
    """The instructions of an epilogue per vector, without those shared by a tile's vectors: emitted twice to a scratch
    function."""
    fn, lanes = Function("probe", masks_halves=p.masks_halves), p.tiling.lanes
    out.begin(fn, [f"%p{i}" for i in range(len(out.buffers))])
    tile = Tile(fn, c, {label.key: "%start" for label in c.labels()})
    before = 0
    for _ in range(2):
        before = len(fn.lines)
        out.vector(fn, SumVector("%sum", lanes, lanes, tile, {}))
    return len(fn.lines) - before
