"""Kernels whose tiles read operands where they lie, or where an earlier call put them, and what adds up their chunks.

A plan says what lanes run along. Along columns, a row's element meets vectors of columns; along the sum, a vector of a
row meets one of each column, and horizontal sums come last; along the rows, a column's element meets vectors of rows,
and squares of sums are transposed last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from habana_tf.compiler.codegen.emit import Function, Value
from habana_tf.compiler.codegen.tiles.accumulate import Accumulation, KLoop, Micro, body_of, short_runs
from habana_tf.compiler.codegen.tiles.copies import PanelFill, packed_place
from habana_tf.compiler.codegen.tiles.epilogue import Epilogue, StorePartial, Tile
from habana_tf.compiler.codegen.tiles.kernel import ContractionCall, Kernel
from habana_tf.compiler.codegen.tiles.nest import Cursor
from habana_tf.compiler.codegen.tiles.operand import Source, packed_panels
from habana_tf.compiler.codegen.tiles.padding import guarded
from habana_tf.compiler.codegen.tiles.plan import Plan, in_groups
from habana_tf.compiler.codegen.tiles.tile_engine import Configurations, TileProducts, TileRows, configuration, groups
from habana_tf.compiler.codegen.transpose import transpose
from habana_tf.compiler.contraction import Canonical
from habana_tf.compiler.costs import MANY_WORK_ITEMS
from habana_tf.compiler.product_costs import (
    NARROW_AHEAD,
    NARROW_FETCHING,
    STRIDED_BYTES,
    SUM_STEPS,
    THREAD_PARTIAL_SUMS,
)
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent, nominal


class TileKernel(Kernel):
    """Computes register tiles and passes them to the epilogue (or stores partial sums)."""

    def __init__(self, c: Canonical, p: Plan, name: str, a: Source, b: Source, out: Epilogue) -> None:
        super().__init__(c, p, name, (a.buffer, b.buffer), out)
        self.a, self.b = a, b
        self.layout = packed_panels(c, p)
        self.along = 2 if p.lanes == "sum" and a.form.dtype.bits == 8 else 1

    def prepare(self) -> None:
        fn, p = self.fn, self.p
        self.reserve(self.out, always=p.amx > 0)
        if p.amx:
            forms = [configuration(self._groups(size), p.amx) for size in self.t.sizes]
            self.configurations = Configurations(fn, forms)
            self.spare = self.room(self.tile_bytes) if self._deep() else ""
        if p.pack == "item":
            size = self.layout.panel
            if p.chunk:
                size = ext.mul(
                    ext.ceil_div(p.chunk.size, self.layout.unit if len(self.c.k) == 1 else 1), self.layout.steps[0]
                )
            assert isinstance(size, int), "a panel on the stack has a constant size"
            self.stack = self.room(size)
            self.panel = PanelFill(self)

    def item(self, cursor: Cursor) -> None:
        if self.p.pack == "item":
            pointer = self.pointers[1]
            self.widths(cursor.panel, lambda *width: self.panel.pack(cursor, pointer, self.stack, *width))
        self.inner(self.p.dims[self.p.grid_dims :], cursor, self._tile)

    def _walk(self, cursor: Cursor) -> tuple[list[KLoop], Value, Value]:
        """The loops over the sum, and the addresses of both operands where they begin."""
        fn, c, p = self.fn, self.c, self.p
        a = self.address(self.pointers[0], "a", self.a.unit, self.a.offset, cursor)
        # Steps of the last label that are multiplied at once.
        unit = 2 * p.amx or (self.layout.unit * self.along if p.dot or p.lanes == "sum" else 1)
        if p.pack == "none":
            b = self.address(self.pointers[1], "b", self.b.unit, self.b.offset, cursor)
            b_steps = [x.b * self.b.unit for x in c.k]
        else:
            b = self.stack if p.pack == "item" else packed_place(self, self.pointers[1], cursor)
            b_steps = list(self.layout.steps)
        loops = []
        for label, step in zip(c.k, b_steps, strict=True):
            trip, rest, a_step, most = self.trip(cursor, label), 0, label.a * self.a.unit, self.most(label)
            if label == c.k[-1] and unit > 1:
                a_step, step, most = a_step * unit, step * (unit // self.layout.unit), most // unit
                if isinstance(trip, int):
                    trip, rest = divmod(trip, unit)
                else:  # a chunk, of whole units
                    trip = fn.op(f"udiv i64 {trip}, {unit}")
            loops.append(KLoop(trip, a_step, step, rest, most=most))
        return loops, a, b

    def _tile(self, cursor: Cursor, size: int, vectors: int, active: int) -> None:
        fn, p = self.fn, self.p
        loops, a, b = self._walk(cursor)
        loops, a, b = guarded(self, cursor, size, self.a.unit, loops, a, b)
        if isinstance(self.out, StorePartial):
            self.out.begin_chunk(fn, cursor.chunk)
        self.fetch(self.out, cursor, size, vectors, active)
        if p.amx:
            assert self.configurations is not None
            parts = self._groups(size)
            self.configurations.use(configuration(parts, p.amx))
            TileProducts(fn, parts, vectors, p.amx, self.t.width, self.spare).run(loops, a, b, self.stack_tile)
            self.finish_stacked(self.out, cursor, size, vectors, active)
            return
        if p.lanes == "rows":
            sums = self._along_rows(loops, a, b, size)
        elif p.lanes == "sum":
            sums = self._along_sum(loops, a, b, size)
        else:
            sums = self._along_columns(loops, a, b, size, vectors, active)
        self.finish(self.out, cursor, size, vectors, active, sums)

    def _along_columns(
        self, loops: list[KLoop], a: Value, b: Value, size: int, vectors: int, active: int
    ) -> list[Value]:
        c, p = self.c, self.p
        micro = Micro(
            self.t.lanes, self._distances(size), vectors, active, self.a.form, self.b.form,
            a_vectors="each" if c.lane in c.batch else "none", b_padded=p.pack != "none",
            body=body_of(loops[-1].a if loops else 0, p.compact),
            ahead=loops[-2].a if loops and short_runs([x.trip for x in loops], loops[-1].a) else 0,
        )  # fmt: skip
        return Accumulation(self.fn, micro).run(loops, a, b)

    def _along_sum(self, loops: list[KLoop], a: Value, b: Value, size: int) -> list[Value]:
        columns, lanes, split = self.c.columns, self.t.lanes, self.t.split
        # The next tile's rows are fetched where there is time for it.
        fetches = self.p.streams and split is not None and len(self.c.k) == 1 and columns >= NARROW_FETCHING
        micro = Micro(
            lanes, self._distances(size), columns, lanes, self.a.form, self.b.form, "one", self.along, b_padded=True,
            body=body_of(0, self.p.compact), ahead=split.a * size * self.a.unit if fetches and split else 0,
        )  # fmt: skip
        sums = Accumulation(self.fn, micro).run(loops, a, b)
        return [across(self.fn, lanes, sums[i : i + columns]) for i in range(0, len(sums), columns)]

    def _along_rows(self, loops: list[KLoop], a: Value, b: Value, size: int) -> list[Value]:
        c, lanes = self.c, self.t.lanes
        assert c.lane is not None
        swapped = [KLoop(x.trip, x.b, x.a, most=x.most) for x in loops]
        columns = tuple(c.lane.b * self.b.form.bytes * i for i in range(c.columns))
        vectors = -(-size // lanes)
        micro = Micro(
            lanes, columns, vectors, size - (vectors - 1) * lanes, self.b.form, self.a.form,
            body=body_of(0, self.p.compact),
            b_ahead=loops[-1].a * NARROW_AHEAD if self.p.streams and abs(loops[-1].a) >= STRIDED_BYTES else 0,
        )  # fmt: skip
        sums = Accumulation(self.fn, micro).run(swapped, b, a)
        rows = []
        for v in range(vectors):
            square = [*sums[v::vectors], *["zeroinitializer"] * (lanes - c.columns)]
            rows += transpose(self.fn, "float", square)
        return rows[:size]

    def _deep(self) -> bool:
        """Whether a sum in tile registers may have more steps than a block."""
        return math.prod(self.most(x) for x in self.c.k) // (2 * self.p.amx) > SUM_STEPS

    def _distances(self, size: int) -> tuple[int, ...]:
        """Byte offsets in a of the tile's rows from the first."""
        return tuple(sum(label.a * self.a.unit * i for label, i in row) for row in self.rows(size))

    def _groups(self, size: int) -> list[TileRows]:
        return groups(self._distances(size))


class ChunkSums(Kernel):
    """Adds the chunks' partial sums tile by tile, in order, and passes them to the epilogue."""

    def __init__(self, c: Canonical, p: Plan, name: str, partial: StorePartial, chunks: Extent, out: Epilogue) -> None:
        super().__init__(c, p, name, partial.buffers, out)
        self.partial, self.chunks = partial, chunks

    def prepare(self) -> None:
        self.reserve(self.out)

    def item(self, cursor: Cursor) -> None:
        self.step = self.number(ext.mul(self.partial.size, 4))
        self.turns = self.number(ext.add(self.chunks, -1))
        self.inner(self.p.dims[self.p.grid_dims :], cursor, self._tile)

    def _tile(self, cursor: Cursor, size: int, vectors: int, active: int) -> None:
        fn, vector = self.fn, self.vector
        points = self.result_vectors(Tile(fn, self.c, dict(cursor.starts)), size, vectors, active)
        where = [(fn.offset(self.pointers[0], "float", x.offset(self.partial.strides)), x.mask) for x in points]

        def load(pointer: Value, mask: str | None) -> Value:
            return fn.masked_load("float", self.t.lanes, pointer, mask)

        def add(shift: Value, *sums: Value) -> list[Value]:
            following = [
                fn.op(f"fadd {vector} {total}, {load(fn.ptradd(pointer, shift), mask)}")
                for total, (pointer, mask) in zip(sums, where, strict=True)
            ]
            return [fn.add(shift, self.step), *following]

        first = [load(*x) for x in where]
        carry = [("i64", self.step), *((vector, x) for x in first)]
        with fn.loop("0", self.turns, 1, carry) as loop:
            loop.next = add(*loop.carried)
        self.finish(self.out, cursor, size, vectors, active, loop.results[1:])


def chunk_sums(c: Canonical, p: Plan, name: str, partial: StorePartial, final: Epilogue) -> ContractionCall:
    """The call that adds the chunks' partial sums and runs the epilogue."""
    dims = tuple(d for d in p.dims if d.kind not in ("chunk", "block"))
    grid_dims, grid = 0, 1
    while grid_dims < len(dims) and grid < MANY_WORK_ITEMS:
        grid *= nominal(dims[grid_dims].count)
        grid_dims += 1
    whole = replace(p, dims=dims, grid_dims=grid_dims, pack="none", dot=False)
    whole = in_groups(whole) if final.sums else whole
    items = nominal(whole.grid)
    share = max(1, items * THREAD_PARTIAL_SUMS // (nominal(p.chunks) * nominal(partial.size)))
    return ChunkSums(c, whole, name, partial, p.chunks, final).emit(min(share, items))


def across(fn: Function, lanes: int, sums: Sequence[Value]) -> Value:
    """Horizontal sums: a vector whose lane i is the sum of the lanes of vector i. Pairs of vectors are folded into one
    until one is left, whose lanes are then added up."""
    vector, several = f"<{lanes} x float>", list(sums)
    several += ["zeroinitializer"] * ((1 << (len(several) - 1).bit_length()) - len(several))
    width = lanes

    def shuffled(x: Value, y: Value, order: Callable[[int], int]) -> Value:
        places = ", ".join(f"i32 {order(i)}" for i in range(lanes))
        return fn.op(f"shufflevector {vector} {x}, {vector} {y}, <{lanes} x i32> <{places}>")

    while len(several) > 1:
        half, width = len(several) // 2, width // 2

        def lower(i: int, width: int = width) -> int:
            return i if not i & width else i - width + lanes

        def upper(i: int, width: int = width) -> int:
            return i + width if not i & width else i + lanes

        several = [
            fn.op(f"fadd {vector} {shuffled(x, y, lower)}, {shuffled(x, y, upper)}")
            for x, y in zip(several[:half], several[half:], strict=True)
        ]
    (total,), apart = several, width
    while width > 1:
        width //= 2
        total = fn.op(f"fadd {vector} {total}, {shuffled(total, 'poison', width.__xor__)}")
    return shuffled(total, "poison", lambda i: i * apart % lanes) if apart > 1 else total
