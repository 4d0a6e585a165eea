"""The contraction kernel with packing of both operands and cache blocking (see `blocks` for the blocks).

    for each block of the sum:   pack rows, pack columns
                                 for each row tile, for each panel:   sums of the tile += rows * columns
    after several blocks:        totals += sums, sums = 0
    for each row tile, for each panel:   epilogue

Missing rows and columns are zeros in the copies, so that one inner loop serves all tiles (two if the last panel has
fewer vectors); only the stores differ. With a single block each tile's sums go directly to the epilogue. Totals are for
long sums only (see `blocked_sums`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from habana_tf.compiler.codegen.emit import Value
from habana_tf.compiler.codegen.tiles.accumulate import Accumulation, KLoop, Micro, in_turns
from habana_tf.compiler.codegen.tiles.block_copies import BlockCopies, Trips
from habana_tf.compiler.codegen.tiles.epilogue import StorePartial
from habana_tf.compiler.codegen.tiles.nest import Cursor
from habana_tf.compiler.codegen.tiles.tile_engine import Configurations, TileProducts, configuration, groups
from habana_tf.compiler.codegen.tiles.tiling import size_of
from habana_tf.compiler.codegen.vector_memory import F32, PAIRS
from habana_tf.compiler.contraction import Label
from habana_tf.compiler.product_costs import SUM_BLOCKS, SUM_STEPS


class BlockKernel(BlockCopies):
    """Multiplies packed blocks and passes the sums to the epilogue (or stores partial sums)."""

    def prepare(self) -> None:
        fn, p, t = self.fn, self.p, self.t
        self.several = len(self.blocks.outer) > 0 or self.blocks.split is not None
        self.inline = not p.amx and self.stands_inline(self.out)
        if p.amx:
            self.parts = groups([64 * i for i in range(t.rows)])
            self.configurations = Configurations(fn, [configuration(self.parts, p.amx)])
        sums = self.tile_bytes * (self.most_tiles * self.most_panels if self.several else 1)
        self.sums_at, self.sums_bytes = self.room(sums), sums
        self.results_at = self.sums_at
        self.long = self._most_blocks() > self._kept_together()
        if self.long:
            self.totals_at = self.room(sums)
            self.waiting, self.kept = (fn.op("alloca i64, align 8") for _ in range(2))
        self.reserve_blocks()

    def item(self, cursor: Cursor) -> None:
        fn = self.fn
        if self.several:
            self.clear(self.sums_at, self.sums_bytes)
        if self.long:
            for counter in (self.waiting, self.kept):
                fn.store("i64", "0", counter, 8)
        blocks = self.blocks
        around = [*((label, 1) for label in blocks.outer), *([(blocks.split, blocks.steps)] if blocks.split else [])]
        self._sum(cursor, around, self.trip(cursor, blocks.inside[0]))
        if self.long:
            kept = fn.op(f"icmp ne i64 {fn.load('i64', self.kept, 8)}, 0")
            with fn.when(kept):
                self.add_up(self.totals_at, self.sums_at, self.sums_bytes)
            self.results_at = fn.op(f"select i1 {kept}, ptr {self.totals_at}, ptr {self.sums_at}")
        if self.several:
            self._tiles(cursor, lambda: self._finish(cursor))

    def _tiles(self, cursor: Cursor, body: Callable[[], None]) -> None:
        self.loops((*self.p.block_rows, self.p.dims[-1]), cursor, body)

    # -- blocks of the sum ------------------------------------------------------------------------------------

    def _sum(self, cursor: Cursor, around: Sequence[tuple[Label, int]], first: int | Value) -> None:
        """Loops over labels of the sum in steps of several indices, around a block. first: the trip count of the
        block's first label, unless it is cut."""
        if not around:
            self._block(cursor, first)
            return
        fn, (label, steps) = self.fn, around[0]
        trip = self.trip(cursor, label)
        with fn.loop("0", str(trip), steps) as loop:
            start = fn.add(cursor.starts.get(label.key, "0"), loop.index)
            if label == self.blocks.split:
                even = isinstance(trip, int) and trip % steps == 0
                first = steps if even else fn.minimum(fn.sub(str(trip), loop.index), str(steps))
            self._sum(replace(cursor, starts={**cursor.starts, label.key: start}), around[1:], first)

    def _block(self, cursor: Cursor, first: int | Value) -> None:
        """Packs and multiplies a block. first: the trip count of its first label."""
        inside = self.blocks.inside[1:]
        trips: Trips = [first, *(x.extent for x in inside if isinstance(x.extent, int))]
        self.copy(cursor, trips)
        units = self.turns(trips)
        self._tiles(cursor, lambda: self._multiply(cursor, units))
        if self.long:
            fn = self.fn
            waiting = fn.add(fn.load("i64", self.waiting, 8), 1)
            fn.store("i64", waiting, self.waiting, 8)
            with fn.when(fn.op(f"icmp eq i64 {waiting}, {self._kept_together()}")):
                with fn.when(fn.op(f"icmp eq i64 {fn.load('i64', self.kept, 8)}, 0")):
                    self.clear(self.totals_at, self.sums_bytes)
                    fn.store("i64", "1", self.kept, 8)
                self.add_up(self.totals_at, self.sums_at, self.sums_bytes)
                fn.store("i64", "0", self.waiting, 8)

    def _most_blocks(self) -> int:
        """The most blocks of the sum in a work item; more than MANY for a symbolic size."""
        split, steps = self.blocks.split, self.blocks.steps
        count = 1
        for label in (*self.blocks.outer, *([split] if split else [])):
            n = label.extent if isinstance(label.extent, int) else (SUM_BLOCKS + 1) * steps
            chunk = self.p.chunk
            n = min(n, chunk.size) if chunk and chunk.label == label else n
            count *= -(-n // (steps if label == split else 1))
        return count

    def _kept_together(self) -> int:
        """The number of blocks that are accumulated before the sums are added to the totals."""
        return max(1, SUM_STEPS * self.p.amx // self.most_units) if self.p.amx else SUM_BLOCKS

    # -- tiles ------------------------------------------------------------------------------------------------

    def _sums(self, cursor: Cursor, memory: Value = "") -> Value:
        """The address of a tile's sums between blocks, in `sums_at` or another memory of that layout."""
        memory = memory or self.sums_at
        if not self.several:
            return memory
        fn = self.fn
        number = fn.add(fn.mul(self.tile(cursor), self.most_panels), self.panel(cursor))
        return fn.ptradd(memory, fn.mul(number, self.tile_bytes))

    def _multiply(self, cursor: Cursor, units: int | Value) -> None:
        fn, t = self.fn, self.t
        a = fn.ptradd(self.row_tiles.at, fn.mul(self.tile(cursor), self.row_tiles.apart))
        b = fn.ptradd(self.panels.at, fn.mul(self.panel(cursor), self.panels.apart))
        sums = self._sums(cursor)
        if not self.several:
            self.fetch(self.out, cursor, t.size, t.vectors, t.lanes)  # smaller tiles, too: harmless
        self.widths(cursor.panel, lambda vectors, _: self._products(a, b, sums, units, vectors), padded=True)
        if not self.several:
            self._finish(cursor)

    def _products(self, a: Value, b: Value, sums: Value, units: int | Value, vectors: int) -> None:
        fn, p, t = self.fn, self.p, self.t
        if p.amx:
            trip = units // p.amx if isinstance(units, int) else fn.div(units, p.amx)
            loop = KLoop(trip, self.row_tiles.line, self.panels.line * p.amx)
            TileProducts(fn, self.parts, vectors, p.amx, t.width).run([loop], a, b, sums, self.several)
            return
        form, body = PAIRS if p.dot else F32, self.body
        micro = Micro(t.lanes, tuple(4 * i for i in range(t.rows)), vectors, t.lanes, form, form, b_padded=True)
        loops = in_turns(fn, units, body, self.row_tiles.line, self.panels.line)
        vector = self.vector
        for i, value in enumerate(Accumulation(fn, micro).run(loops, a, b)):
            address = fn.ptradd(sums, i * t.lanes * 4)
            total = fn.op(f"fadd {vector} {fn.load(vector, address, 16)}, {value}") if self.several else value
            fn.store(vector, total, address, 16)

    def _finish(self, cursor: Cursor) -> None:
        fn, t, base = self.fn, self.t, self._sums(cursor, self.results_at)
        if isinstance(self.out, StorePartial):
            self.out.begin_chunk(fn, cursor.chunk)

        def finish(cursor: Cursor, size: int, vectors: int, active: int) -> None:
            if self.several:
                self.fetch(self.out, cursor, size, vectors, active)
            first = base
            if size < t.size and t.overlaps and t.split is not None:  # row by row
                first = fn.mul(cursor.starts[t.split.key], size_of(t.whole) * vectors * t.lanes * 4)
                first = fn.ptradd(base, first)
            if self.inline:
                count = size * size_of(t.whole) * vectors
                loads = [fn.load(f"<{t.lanes} x float>", fn.ptradd(first, i * t.lanes * 4), 16) for i in range(count)]
                self.finish(self.out, cursor, size, vectors, active, loads)
                return
            self.stack_tile = first
            self.finish_stacked(self.out, cursor, size, vectors, active)

        self.variants(cursor, finish)
