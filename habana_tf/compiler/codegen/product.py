"""Code for PRODUCT: a contraction whose sizes and strides are run-time data (see `ir.loop_nest`).

A register tile of rows by vectors of columns accumulates, as in `tiles.accumulate`. The addresses of its rows are in a
table, so that they may be rows of a matrix or positions of a sliding window in an image.

    items: for each tile
        for each window
            for each row: the address in a, or of zeros where it lies in the padding; the address in the result
            for each step of depth: load vectors of b; per row one element of a, times all of them
        for each row that there is: store its sums

The last tile may have fewer rows: its last row is computed several times and stored once. Lanes beyond the last column
are masked. Every sum is taken in one order, windows then depth, whatever the tile.

The code is kept small, since a caller waits for its compilation, half of which is for the code around the inner loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from habana_tf.compiler.body import Body
from habana_tf.compiler.code import WorkShare
from habana_tf.compiler.codegen.emit import Function, Value, lane_numbers
from habana_tf.compiler.codegen.index_evaluator import extent_value
from habana_tf.compiler.codegen.turns import summing_turns
from habana_tf.compiler.product_costs import SUM_STEPS, WALKED_AHEAD, WINDOW_BLOCK
from habana_tf.ir.extent import Expr, Extent, Sym
from habana_tf.ir.loop_nest import DEEP, LoopNest, StridedLoop
from habana_tf.ir.primitives import Node

POINTER = 8
"""Bytes of an entry of a table on the stack."""
ZEROS = f"@zeros = internal global [{DEEP} x float] zeroinitializer, align 64"


def emit_product(fn: Function, body: Body, node: Node, memory: Mapping[Node, int], lanes: int) -> WorkShare:
    """Emits the function. memory: the number of each buffer."""
    nest: LoopNest = node.arg
    a, b, out = (fn.buffer(memory[n]) for n in (*node.src, node))
    fn.declarations.add(ZEROS)
    _ProductKernel(fn, nest, lanes, a, b, out).emit()
    return WorkShare(nest.items, 1)


class _ProductKernel:
    """Emits the function of one PRODUCT."""

    def __init__(self, fn: Function, nest: LoopNest, lanes: int, a: Value, b: Value, out: Value) -> None:
        self.fn, self.nest, self.lanes = fn, nest, lanes
        self.a, self.b, self.out = a, b, out
        self.height, self.vectors = nest.tile.rows, nest.tile.vectors
        self.channels, self.apart = nest.tile.lanes == "channels", nest.tile.lanes == "apart"
        self.vector = f"<{lanes} x float>"
        self.places, self.results = self._stack(self.height * POINTER), self._stack(self.height * POINTER)
        self.sums = self._stack(self.height * self.vectors * lanes * 4)

    def emit(self) -> None:
        fn, nest = self.fn, self.nest
        share = self.number(nest.share)
        stop = fn.minimum(fn.mul("%end", share), self.number(nest.tiles))
        with fn.loop(fn.mul("%begin", share), stop) as tile:
            self._tile(tile.index)

    # -- one tile ---------------------------------------------------------------------------------------------

    def _tile(self, item: Value) -> None:
        fn, nest = self.fn, self.nest
        row_tile, item = self._divided(item, nest.row_tiles)
        panel, item = self._divided(item, nest.panels)
        index: list[Value] = []
        for loop in reversed(nest.batch[1:]):
            rest, item = self._divided(item, loop.extent)
            index.insert(0, rest)
        column = fn.mul(panel, self.vectors * self.lanes)
        left = fn.op(f"sub nsw i64 {self.number(nest.columns.extent)}, {column}")
        masks = self._masks(left)
        batch = list(zip(nest.batch, (item, *index), strict=True))
        a = self._place(batch, "a", self.number(nest.offsets[0]))
        if self.channels:
            a = fn.add(a, column)
        b = self._place([*batch, (nest.columns, column)], "b", self.number(nest.offsets[1]))
        out = fn.add(self._place(batch, "out", "0"), column)
        start = fn.mul(row_tile, self.height)
        first = self._divided(start, nest.rows[1].extent)[::-1]
        count = fn.op(f"sub nsw i64 {self._rows()}, {start}")
        count = fn.minimum(count, str(self.height))
        a, b, out = (fn.offset(p, "float", e) for p, e in ((self.a, a), (self.b, b), (self.out, out)))
        zeros = [(self.vector, "zeroinitializer")] * (self.height * self.vectors)

        def turn(state: list[Value], sums: list[Value]) -> list[Value]:
            (now,) = state
            window = self._window_of(now) if nest.window_loops else [self._entry(now, k) for k in range(4)]
            self._window(window, a, out, first, count)
            after = fn.add(now, 1) if nest.window_loops else fn.ptradd(now, 4 * POINTER)
            return [after, *self._steps(fn.offset(b, "float", window[1]), sums, masks)]

        table = ("i64", "0") if nest.window_loops else ("ptr", fn.offset("%dims", "i64", str(nest.table)))
        blocks = WINDOW_BLOCK if nest.window_loops else 0
        self._store(summing_turns(fn, self.number(nest.window_count), blocks, [table], zeros, turn)[1:], count, masks)

    def _window_of(self, turn: Value) -> list[Value]:
        """The window of an iteration of the window loops: its offsets in a and b, and no shifts."""
        places: list[Value] = []
        for loop in reversed(self.nest.window_loops[1:]):
            index, turn = self._divided(turn, loop.extent)
            places.insert(0, index)
        points = list(zip(self.nest.window_loops, (turn, *places), strict=True))
        return [self._place(points, "a", "0"), self._place(points, "b", "0"), "0", "0"]

    def _rows(self) -> Value:
        return self.fn.mul(*(self.number(x.extent) for x in self.nest.rows))

    def _window(self, window: Sequence[Value], a: Value, out: Value, first: Sequence[Value], count: Value) -> None:
        """Fills the tables of the tile's rows, in a window and in the result; missing rows repeat the last one."""
        fn, nest = self.fn, self.nest
        a = fn.offset(a, "float", window[0])
        shifts = [fn.add(self.number(g.start), window[2 + k]) for k, g in enumerate(nest.bounds)]
        if self.height == 1:
            self._row("0", a, out, first, shifts)
            return
        with fn.loop("0", str(self.height), 1, [("i64", i) for i in first]) as row:
            self._row(row.index, a, out, row.carried, shifts)
            more = fn.less(fn.add(row.index, 1), count)
            inner = fn.add(row.carried[1], fn.op(f"zext i1 {more} to i64"))
            over = fn.op(f"icmp eq i64 {inner}, {self.number(nest.rows[1].extent)}")
            outer = fn.add(row.carried[0], fn.op(f"zext i1 {over} to i64"))
            row.next = [outer, fn.op(f"select i1 {over}, i64 0, i64 {inner}")]

    def _row(self, row: Value, a: Value, out: Value, index: Sequence[Value], shifts: Sequence[Value]) -> None:
        """Stores the addresses of a row of the tile, given its indices along the row loops."""
        fn, nest = self.fn, self.nest
        loops = list(zip(nest.rows, index, strict=True))
        inside = []
        for guard, shift, i in zip(nest.bounds, shifts, index, strict=True):
            position = fn.add(shift, fn.mul(i, self.number(guard.step)))
            inside.append(fn.op(f"icmp ult i64 {position}, {self.number(guard.size)}"))
        place = fn.op(f"getelementptr float, ptr {a}, i64 {self._place(loops, 'a', '0')}")
        both = fn.op(f"and i1 {inside[0]}, {inside[1]}")
        self._put(self.places, row, fn.op(f"select i1 {both}, ptr {place}, ptr @zeros"))
        self._put(self.results, row, fn.offset(out, "float", self._place(loops, "out", "0")))

    def _steps(self, b: Value, sums: Sequence[Value], masks: list[Value]) -> list[Value]:
        """The sums after a window."""
        fn, nest = self.fn, self.nest
        if self.channels:
            return self._multiplied("0", b, sums, masks)
        step_a, step_b = self.number(nest.depth.a), self.number(nest.depth.b)

        def turn(state: list[Value], sums: list[Value]) -> list[Value]:
            far, near = state
            if self.height > 1 and not self.apart:
                self._prefetch(near, fn.mul(step_b, WALKED_AHEAD))
            after = self._multiplied(far, near, sums, masks)
            return [fn.add(far, step_a), fn.offset(near, "float", step_b), *after]

        state, line = [("i64", "0"), ("ptr", b)], [(self.vector, x) for x in sums]
        return summing_turns(fn, self.number(nest.depth.extent), SUM_STEPS, state, line, turn)[2:]

    def _prefetch(self, near: Value, ahead: Value) -> None:
        """Prefetches the vectors of a later step, a row of b apart: hardware prefetches within pages only. Not needed
        for tiles of one row, which read long runs."""
        fn = self.fn
        there = fn.op(f"getelementptr float, ptr {near}, i64 {ahead}")
        for v in range(self.vectors):
            fn.prefetch(fn.ptradd(there, v * self.lanes * 4))

    def _multiplied(self, far: Value, b: Value, sums: Sequence[Value], masks: list[Value]) -> list[Value]:
        """The sums after a step; far: the step's offset within each row of a."""
        fn, out = self.fn, list(sums)
        columns = [self._column(b, v, masks[v]) for v in range(self.vectors)]
        for r in range(self.height):
            row = fn.load("ptr", fn.ptradd(self.places, r * POINTER), POINTER)
            if self.channels:
                factors = [self._load(row, v, masks[v]) for v in range(self.vectors)]
            else:
                one = fn.splat(self.lanes, "float", fn.load("float", fn.offset(row, "float", far), 4))
                factors = [one] * self.vectors
            for v, factor in enumerate(factors):
                k, t = r * self.vectors + v, self.vector
                out[k] = fn.call(t, f"llvm.fmuladd.v{self.lanes}f32", (t, factor), (t, columns[v]), (t, sums[k]))
        return out

    def _store(self, sums: Sequence[Value], count: Value, masks: list[Value]) -> None:
        fn, size = self.fn, self.lanes * 4
        if self.height == 1:
            place = self._get(self.results, "0")
            for v, value in enumerate(sums):
                fn.masked_store("float", self.lanes, value, fn.ptradd(place, v * size), masks[v])
            return
        for k, value in enumerate(sums):
            fn.store(self.vector, value, fn.ptradd(self.sums, k * size), size)
        with fn.loop("0", count) as row:
            place = self._get(self.results, row.index)
            line = fn.ptradd(self.sums, fn.mul(row.index, self.vectors * size))
            for v in range(self.vectors):
                value = fn.load(self.vector, fn.ptradd(line, v * size), size)
                fn.masked_store("float", self.lanes, value, fn.ptradd(place, v * size), masks[v])

    # -- numbers and addresses --------------------------------------------------------------------------------

    def number(self, e: Extent) -> Value:
        """A number of the loop nest as i64, loaded where it is used: there are more than registers."""
        match e:
            case Expr(terms=((Sym(index=index), 1),), const=0):
                return self.fn.load("i64", self.fn.offset("%dims", "i64", str(index)), POINTER)
        return extent_value(self.fn, e)

    def _entry(self, line: Value, k: int) -> Value:
        """Number k of a window."""
        return self.fn.load("i64", self.fn.ptradd(line, k * POINTER), POINTER)

    def _divided(self, value: Value, by: Extent) -> tuple[Value, Value]:
        """Remainder and quotient, in 32 bits, where division is faster and its code shorter."""
        fn = self.fn
        a, b = (fn.op(f"trunc i64 {x} to i32") for x in (value, self.number(by)))
        rest, times = (fn.op(f"{o} i32 {a}, {b}") for o in ("urem", "udiv"))
        return fn.op(f"zext i32 {rest} to i64"), fn.op(f"zext i32 {times} to i64")

    def _place(self, loops: Sequence[tuple[StridedLoop, Value]], side: str, start: Value) -> Value:
        """The element offset in a tensor at these loop indices."""
        for loop, index in loops:
            start = self.fn.add(start, self.fn.mul(index, self.number(getattr(loop, side))))
        return start

    def _masks(self, left: Value) -> list[Value]:
        """The masks of a tile's vectors, given the number of columns left."""
        fn, lanes = self.fn, self.lanes
        return [fn.leading(lanes, fn.op(f"sub nsw i64 {left}, {v * lanes}")) for v in range(self.vectors)]

    def _column(self, b: Value, v: int, mask: Value) -> Value:
        """A vector of b: loaded where columns are contiguous, else gathered."""
        if not self.apart:
            return self._load(b, v, mask)
        fn, lanes = self.fn, self.lanes
        steps = lane_numbers("i64", lanes, start=v * lanes)
        places = fn.op(f"mul <{lanes} x i64> {steps}, {fn.splat(lanes, 'i64', self.number(self.nest.columns.b))}")
        pointers = fn.op(f"getelementptr float, ptr {b}, <{lanes} x i64> {places}")
        return fn.gather("float", lanes, pointers, mask)

    def _load(self, pointer: Value, v: int, mask: Value) -> Value:
        return self.fn.masked_load("float", self.lanes, self.fn.ptradd(pointer, v * self.lanes * 4), mask)

    def _stack(self, size: int) -> Value:
        return self.fn.op(f"alloca [{size} x i8], align 64")

    def _put(self, table: Value, index: Value, value: Value) -> None:
        self.fn.store("ptr", value, self.fn.offset(table, "ptr", index), POINTER)

    def _get(self, table: Value, index: Value) -> Value:
        return self.fn.load("ptr", self.fn.offset(table, "ptr", index), POINTER)
