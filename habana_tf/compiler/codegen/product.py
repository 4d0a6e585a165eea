"""Code for PRODUCT: a product whose loops are data (see `ir.walk`). One function serves every size.

A tile of rows by vectors of columns keeps its sums in registers, as in `contract_micro`. Where the rows lie is looked
up, so that they may be any rows: of a matrix, or the positions of an image that a window slides over.

    items: for each tile
        for each window
            for each row: the address in a, or of zeros where it lies in the padding; the address in the result
            for each step of depth: load vectors of b; per row one element of a, times all of them
        for each row that there is: store its sums

The last tile may have fewer rows: its last row is computed several times and stored once. Lanes beyond the last column
are neither read nor stored. Every sum has one order, windows then depth, whatever the tile.

It is little code, since compiling it is what is waited for: half of the time goes into what is around the inner loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from habana_tf.compiler.body import Body
from habana_tf.compiler.code import Work
from habana_tf.compiler.codegen.emit import Function, Value
from habana_tf.compiler.codegen.index_evaluator import extent_value
from habana_tf.compiler.codegen.turns import summing_turns
from habana_tf.compiler.codegen.vector_memory import at
from habana_tf.compiler.product_costs import SUM_STEPS, WALKED_AHEAD, WINDOW_BLOCK
from habana_tf.ir.extent import Expr, Extent, Sym
from habana_tf.ir.primitives import Node
from habana_tf.ir.walk import DEEP, Loop, Walk

POINTER = 8
"""Bytes of an entry of a table on the stack."""
ZEROS = f"@zeros = internal global [{DEEP} x float] zeroinitializer, align 64"


def emit_product(fn: Function, body: Body, node: Node, memory: Mapping[Node, int], lanes: int) -> Work:
    """Writes the function. memory: the number of each buffer."""
    walk: Walk = node.arg
    a, b, out = (fn.buffer(memory[n]) for n in (*node.src, node))
    fn.declarations.add(ZEROS)
    _Product(fn, walk, lanes, a, b, out).emit()
    return Work(walk.items, 1)


class _Product:
    def __init__(self, fn: Function, walk: Walk, lanes: int, a: Value, b: Value, out: Value) -> None:
        self.fn, self.walk, self.lanes = fn, walk, lanes
        self.a, self.b, self.out = a, b, out
        self.height, self.vectors = walk.form.rows, walk.form.vectors
        self.channels, self.apart = walk.form.lanes == "channels", walk.form.lanes == "apart"
        self.vector = f"<{lanes} x float>"
        self.places, self.results = self._stack(self.height * POINTER), self._stack(self.height * POINTER)
        self.sums = self._stack(self.height * self.vectors * lanes * 4)

    def emit(self) -> None:
        fn, walk = self.fn, self.walk
        share = self.number(walk.share)
        stop = fn.minimum(fn.integer("mul", "%end", share), self.number(walk.tiles))
        with fn.loop(fn.integer("mul", "%begin", share), stop) as tile:
            self._tile(tile.index)

    # -- one tile ---------------------------------------------------------------------------------------------

    def _tile(self, item: Value) -> None:
        fn, walk = self.fn, self.walk
        row_tile, item = self._divided(item, walk.row_tiles)
        panel, item = self._divided(item, walk.panels)
        index: list[Value] = []
        for loop in reversed(walk.batch[1:]):
            rest, item = self._divided(item, loop.extent)
            index.insert(0, rest)
        column = fn.integer("mul", panel, self.vectors * self.lanes)
        left = fn.op(f"sub nsw i64 {self.number(walk.columns.extent)}, {column}")
        masks = self._masks(left)
        batch = list(zip(walk.batch, (item, *index), strict=True))
        a = self._place(batch, "a", self.number(walk.offsets[0]))
        if self.channels:
            a = fn.integer("add", a, column)
        b = self._place([*batch, (walk.columns, column)], "b", self.number(walk.offsets[1]))
        out = fn.integer("add", self._place(batch, "out", "0"), column)
        start = fn.integer("mul", row_tile, self.height)
        first = self._divided(start, walk.rows[1].extent)[::-1]
        count = fn.op(f"sub nsw i64 {self._rows()}, {start}")
        count = fn.minimum(count, str(self.height))
        a, b, out = (fn.offset(p, "float", e) for p, e in ((self.a, a), (self.b, b), (self.out, out)))
        zeros = [(self.vector, "zeroinitializer")] * (self.height * self.vectors)

        def turn(state: list[Value], sums: list[Value]) -> list[Value]:
            (now,) = state
            window = self._around(now) if walk.around else [self._entry(now, k) for k in range(4)]
            self._window(window, a, out, first, count)
            after = fn.integer("add", now, 1) if walk.around else at(fn, now, 4 * POINTER)
            return [after, *self._steps(fn.offset(b, "float", window[1]), sums, masks)]

        table = ("i64", "0") if walk.around else ("ptr", fn.offset("%dims", "i64", str(walk.table)))
        blocks = WINDOW_BLOCK if walk.around else 0
        self._store(summing_turns(fn, self.number(walk.turns), blocks, [table], zeros, turn)[1:], count, masks)

    def _around(self, turn: Value) -> list[Value]:
        """A window as the point of the loops around that a turn is: elements in a and b, and no moves."""
        places: list[Value] = []
        for loop in reversed(self.walk.around[1:]):
            index, turn = self._divided(turn, loop.extent)
            places.insert(0, index)
        points = list(zip(self.walk.around, (turn, *places), strict=True))
        return [self._place(points, "a", "0"), self._place(points, "b", "0"), "0", "0"]

    def _rows(self) -> Value:
        return self.fn.integer("mul", *(self.number(x.extent) for x in self.walk.rows))

    def _window(self, window: Sequence[Value], a: Value, out: Value, first: Sequence[Value], count: Value) -> None:
        """Where the tile's rows are in a window, and in the result; those that there are not are the last one."""
        fn, walk = self.fn, self.walk
        a = fn.offset(a, "float", window[0])
        moves = [fn.integer("add", self.number(g.start), window[2 + k]) for k, g in enumerate(walk.guards)]
        if self.height == 1:
            self._row("0", a, out, first, moves)
            return
        with fn.loop("0", str(self.height), 1, [("i64", i) for i in first]) as row:
            self._row(row.index, a, out, row.carried, moves)
            more = fn.less(fn.integer("add", row.index, 1), count)
            inner = fn.integer("add", row.carried[1], fn.op(f"zext i1 {more} to i64"))
            over = fn.op(f"icmp eq i64 {inner}, {self.number(walk.rows[1].extent)}")
            outer = fn.integer("add", row.carried[0], fn.op(f"zext i1 {over} to i64"))
            row.next = [outer, fn.op(f"select i1 {over}, i64 0, i64 {inner}")]

    def _row(self, row: Value, a: Value, out: Value, index: Sequence[Value], moves: Sequence[Value]) -> None:
        """Notes where a row of the tile is, which has this index along the row loops."""
        fn, walk = self.fn, self.walk
        loops = list(zip(walk.rows, index, strict=True))
        inside = []
        for guard, move, i in zip(walk.guards, moves, index, strict=True):
            position = fn.integer("add", move, fn.integer("mul", i, self.number(guard.step)))
            inside.append(fn.op(f"icmp ult i64 {position}, {self.number(guard.size)}"))
        place = fn.op(f"getelementptr float, ptr {a}, i64 {self._place(loops, 'a', '0')}")
        both = fn.op(f"and i1 {inside[0]}, {inside[1]}")
        self._put(self.places, row, fn.op(f"select i1 {both}, ptr {place}, ptr @zeros"))
        self._put(self.results, row, fn.offset(out, "float", self._place(loops, "out", "0")))

    def _steps(self, b: Value, sums: Sequence[Value], masks: list[Value]) -> list[Value]:
        """The sums after one window."""
        fn, walk = self.fn, self.walk
        if self.channels:
            return self._multiplied("0", b, sums, masks)
        step_a, step_b = self.number(walk.depth.a), self.number(walk.depth.b)

        def turn(state: list[Value], sums: list[Value]) -> list[Value]:
            far, near = state
            if self.height > 1 and not self.apart:
                self._prefetch(near, fn.integer("mul", step_b, WALKED_AHEAD))
            after = self._multiplied(far, near, sums, masks)
            return [fn.integer("add", far, step_a), fn.offset(near, "float", step_b), *after]

        state, line = [("i64", "0"), ("ptr", b)], [(self.vector, x) for x in sums]
        return summing_turns(fn, self.number(walk.depth.extent), SUM_STEPS, state, line, turn)[2:]

    def _prefetch(self, near: Value, ahead: Value) -> None:
        """Asks for the vectors of a later step: they lie a row of b apart, which the CPU foresees within a page only.
        Wide tiles of one row take so much of each that the rest follows."""
        fn = self.fn
        there = fn.op(f"getelementptr float, ptr {near}, i64 {ahead}")
        for v in range(self.vectors):
            fn.prefetch(at(fn, there, v * self.lanes * 4))

    def _multiplied(self, far: Value, b: Value, sums: Sequence[Value], masks: list[Value]) -> list[Value]:
        """The sums after one step; `far`: elements from where each row begins."""
        fn, out = self.fn, list(sums)
        columns = [self._column(b, v, masks[v]) for v in range(self.vectors)]
        for r in range(self.height):
            row = fn.load("ptr", at(fn, self.places, r * POINTER), POINTER)
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
                fn.masked_store("float", self.lanes, value, at(fn, place, v * size), masks[v])
            return
        for k, value in enumerate(sums):
            fn.store(self.vector, value, at(fn, self.sums, k * size), size)
        with fn.loop("0", count) as row:
            place = self._get(self.results, row.index)
            line = at(fn, self.sums, fn.integer("mul", row.index, self.vectors * size))
            for v in range(self.vectors):
                value = fn.load(self.vector, at(fn, line, v * size), size)
                fn.masked_store("float", self.lanes, value, at(fn, place, v * size), masks[v])

    # -- numbers and addresses --------------------------------------------------------------------------------

    def number(self, e: Extent) -> Value:
        """One of the walk's numbers as i64, read or computed where it is used: there are more than registers."""
        match e:
            case Expr(terms=((Sym(index=index), 1),), const=0):
                return self.fn.load("i64", self.fn.offset("%dims", "i64", str(index)), POINTER)
        return extent_value(self.fn, e)

    def _entry(self, line: Value, k: int) -> Value:
        """A number of a window."""
        return self.fn.load("i64", at(self.fn, line, k * POINTER), POINTER)

    def _divided(self, value: Value, by: Extent) -> tuple[Value, Value]:
        """Remainder and quotient; in 32 bits, where dividing is quick and its code short."""
        fn = self.fn
        a, b = (fn.op(f"trunc i64 {x} to i32") for x in (value, self.number(by)))
        rest, times = (fn.op(f"{o} i32 {a}, {b}") for o in ("urem", "udiv"))
        return fn.op(f"zext i32 {rest} to i64"), fn.op(f"zext i32 {times} to i64")

    def _place(self, loops: Sequence[tuple[Loop, Value]], side: str, start: Value) -> Value:
        """Elements from the beginning of a tensor, for these indices of these loops."""
        for loop, index in loops:
            start = self.fn.integer("add", start, self.fn.integer("mul", index, self.number(getattr(loop, side))))
        return start

    def _masks(self, left: Value) -> list[Value]:
        """The lanes of each vector of a tile that has so many columns left."""
        fn, lanes = self.fn, self.lanes
        return [fn.leading(lanes, fn.op(f"sub nsw i64 {left}, {v * lanes}")) for v in range(self.vectors)]

    def _column(self, b: Value, v: int, mask: Value) -> Value:
        """A vector of b: of columns side by side, or each from its place."""
        if not self.apart:
            return self._load(b, v, mask)
        fn, lanes = self.fn, self.lanes
        steps = "<" + ", ".join(f"i64 {v * lanes + k}" for k in range(lanes)) + ">"
        places = fn.op(f"mul <{lanes} x i64> {steps}, {fn.splat(lanes, 'i64', self.number(self.walk.columns.b))}")
        pointers = fn.op(f"getelementptr float, ptr {b}, <{lanes} x i64> {places}")
        return fn.gather("float", lanes, pointers, mask)

    def _load(self, pointer: Value, v: int, mask: Value) -> Value:
        return self.fn.masked_load("float", self.lanes, at(self.fn, pointer, v * self.lanes * 4), mask)

    def _stack(self, size: int) -> Value:
        return self.fn.op(f"alloca [{size} x i8], align 64")

    def _put(self, table: Value, index: Value, value: Value) -> None:
        self.fn.store("ptr", value, self.fn.offset(table, "ptr", index), POINTER)

    def _get(self, table: Value, index: Value) -> Value:
        return self.fn.load("ptr", self.fn.offset(table, "ptr", index), POINTER)
