"""The kernels of a contraction: the main kernel, packing of b, reduction of partial sums (split k), spreading of a."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from habana_tf.compiler.codegen.emit import Function, Value
from habana_tf.compiler.codegen.tiles.accumulate import Accumulation, KLoop, Micro, body_of, short_runs
from habana_tf.compiler.codegen.tiles.drain import TileResults
from habana_tf.compiler.codegen.tiles.epilogue import CallBuffer, Epilogue, StorePartial, Tile, begin_epilogue
from habana_tf.compiler.codegen.tiles.nest import Cursor, TileLoops
from habana_tf.compiler.codegen.tiles.padding import guarded
from habana_tf.compiler.codegen.tiles.panels import PanelPacker, spread
from habana_tf.compiler.codegen.tiles.plan import Plan, in_groups
from habana_tf.compiler.codegen.tiles.tile_engine import (
    Configurations,
    TileProducts,
    TileRows,
    configuration,
    groups,
    release,
)
from habana_tf.compiler.codegen.tiles.tiling import Dim, loops_over, size_of
from habana_tf.compiler.codegen.turns import repeat
from habana_tf.compiler.contraction import Canonical, Label
from habana_tf.compiler.costs import MANY_WORK_ITEMS, THREAD_ELEMENTS
from habana_tf.compiler.product_costs import PACKED_WORDS, SPREAD_ELEMENTS, SUM_STEPS, THREAD_PARTIAL_SUMS
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent, nominal


@dataclass(frozen=True)
class ContractionCall:
    """A call of a contraction's kernel; see `code.Call`."""

    function: Function
    buffers: tuple[CallBuffer, ...]
    grid: Extent
    grain: int
    once: bool = False

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def ir(self) -> str:
        return self.function.text()


@dataclass(frozen=True)
class Source:
    """How the micro-kernel reads an operand: format, bytes per element, constant offset, buffer."""

    form: str
    unit: int
    offset: int
    buffer: CallBuffer


class MainKernel(TileResults):
    """Computes register tiles and passes them to the epilogue (or stores partial sums)."""

    def __init__(
        self, c: Canonical, p: Plan, name: str, a: Source, b: Source, out: Epilogue, partial: StorePartial | None
    ) -> None:
        super().__init__(c, p, name)
        self.a, self.b, self.partial = a, b, partial
        self.out = partial or out
        self.packer = _packer(self.fn, c, p)

    def emit(self) -> ContractionCall:
        fn, p = self.fn, self.p
        self.reserve(self.out, always=p.amx > 0)
        if p.amx:
            forms = [configuration(self._groups(size), p.amx) for size in self.t.sizes]
            self.configurations = Configurations(fn, forms)
            self.spare = fn.op(f"alloca [{self.tile_bytes} x i8], align 64") if self._deep() else ""
        if p.pack == "item":
            steps = self.packer.steps(self.c.k)
            size = steps[0] * _chunk_extent(self.c, p) if self.c.k else p.tiling.width * 4
            self.stack = fn.op(f"alloca [{size} x i8], align 64")
        self.pa, self.pb = fn.buffer(0), fn.buffer(1)
        begin_epilogue(fn, self.out, 2)
        if p.amx:
            self.configurations.start()
        self.items(self._item, self.out)
        if p.amx:
            release(fn)
        return ContractionCall(fn, (self.a.buffer, self.b.buffer, *self.out.buffers), p.grid, p.grain)

    def _item(self, cursor: Cursor) -> None:
        if self.p.pack == "item":
            self.variants(cursor, (False, True), self._pack)
        self.inner(self.p.dims[self.p.grid_dims :], cursor, self._tile)

    def _pack(self, cursor: Cursor, size: int, vectors: int, active: int) -> None:
        source = self.address(self.pb, "b", self.c.b.dtype.bytes, self.c.b.offset, cursor)
        self.packer.pack(self.c.k, _trips(self, cursor), source, self.stack, vectors, active)

    def _tile(self, cursor: Cursor, size: int, vectors: int, active: int) -> None:
        fn, c, p = self.fn, self.c, self.p
        a = self.address(self.pa, "a", self.a.unit, self.a.offset, cursor)
        if p.pack == "none":
            b = self.address(self.pb, "b", self.b.unit, self.b.offset, cursor)
            b_steps = [x.b * self.b.unit for x in c.k]
            b_form = self.b.form
        else:
            b = self.stack if p.pack == "item" else _packed(self, self.packer, self.pb, cursor)
            b_steps = self.packer.steps(c.k)
            b_form = "pair" if p.dot else "f32"
        loops = []
        for label, step in zip(c.k, b_steps, strict=True):
            trip = self.trip(cursor, label)
            rest = 0
            a_step = label.a * self.a.unit
            if p.dot and label is c.k[-1]:
                rest = label.extent % 2 if isinstance(label.extent, int) else 0
                pairs = p.amx or 1
                trip = trip // (2 * pairs) if isinstance(trip, int) else fn.op(f"udiv i64 {trip}, {2 * pairs}")
                a_step, step = a_step * 2 * pairs, step * pairs
            loops.append(KLoop(trip, a_step, step, rest, most=self.most(cursor, label)))
        loops, a, b = guarded(self, cursor, size, self.a.unit, loops, a, b)
        if self.partial:
            self.partial.begin_chunk(self.fn, cursor.chunk)
        self.fetch(self.out, cursor, size, vectors, active)
        if p.amx:
            parts = self._groups(size)
            self.configurations.use(configuration(parts, p.amx))
            TileProducts(fn, parts, vectors, p.amx, self.t.width, self.spare).run(loops, a, b, self.stack_tile)
            self.finish_stacked(self.out, cursor, size, vectors, active)
            return
        micro = Micro(
            self.t.lanes,
            self._distances(size),
            vectors,
            active,
            self.a.form,
            b_form,
            a_vectors="each" if c.lane in c.batch else "none",
            b_padded=p.pack != "none",
            body=body_of(loops[-1].a if loops else 0, p.compact),
            ahead=loops[-2].a if loops and short_runs([x.trip for x in loops], loops[-1].a) else 0,
        )
        sums = Accumulation(fn, micro).run(loops, a, b)
        self.finish(self.out, cursor, size, vectors, active, sums)

    def _deep(self) -> bool:
        """Whether a sum in tile registers may have more steps than a block."""
        cursor = Cursor(chunk_label=self.p.chunk.label if self.p.chunk else None)
        return math.prod(self.most(cursor, x) for x in self.c.k) // (2 * self.p.amx) > SUM_STEPS

    def _distances(self, size: int) -> tuple[int, ...]:
        """Byte offsets in a of the tile's rows from the first."""
        return tuple(sum(label.a * self.a.unit * i for label, i in row) for row in self.rows(size))

    def _groups(self, size: int) -> list[TileRows]:
        return groups(self._distances(size))


def _trips(kernel: TileLoops, cursor: Cursor) -> list[int | Value]:
    return [kernel.trip(cursor, x) for x in kernel.c.k]


def _packed(kernel: TileLoops, packer: PanelPacker, base: Value, cursor: Cursor) -> Value:
    """The panel's address in the packed copy of b: [outer b labels][panel][k][width]."""
    fn, c, p = kernel.fn, kernel.c, kernel.p
    index = fn.add(fn.mul(kernel.packed_index(c.outer, cursor), p.tiling.panels), cursor.panel)
    steps = packer.steps(c.k)
    offset = fn.mul(index, kernel.number(_panel_bytes(c, p)))
    if cursor.chunk_label is not None:
        step = steps[0] // 2 if p.dot and len(steps) == 1 else steps[0]
        offset = fn.add(offset, fn.mul(cursor.starts[cursor.chunk_label.key], step))
    return fn.ptradd(base, offset)


def _chunk_extent(c: Canonical, p: Plan) -> int:
    """Steps of the packed copy along the first k label."""
    extent = p.chunk.size if p.chunk else c.k[0].extent
    assert isinstance(extent, int), "a panel on the stack has a constant size"
    return -(-extent // 2) if p.dot and len(c.k) == 1 else extent


def _packer(fn: Function, c: Canonical, p: Plan) -> PanelPacker:
    column = c.lane.b if c.lane else 1
    return PanelPacker(fn, c.b.dtype, p.tiling.lanes, p.tiling.width, p.dot, column)


def _panel_bytes(c: Canonical, p: Plan) -> Extent:
    if not c.k:
        return p.tiling.width * 4
    extent = c.k[0].extent
    if p.dot and len(c.k) == 1:
        extent = ext.ceil_div(extent, 2)
    return ext.mul(extent, _packer(Function(""), c, p).steps(c.k)[0])


def pack_call(
    c: Canonical, p: Plan, name: str, source: CallBuffer, temp: Callable[[Extent], CallBuffer]
) -> ContractionCall:
    """The call that packs all of b: a work item per panel and block of the first k label."""
    panels = ext.mul(ext.product(x.extent for x in c.outer), p.tiling.panels)
    words = nominal(panels) * nominal(_panel_bytes(c, p)) // 4
    blocks = max(1, min(words // PACKED_WORDS, MANY_WORK_ITEMS))
    dims = loops_over(c.outer)
    if c.lane:
        dims.append(Dim("panels", p.tiling.panels, c.lane))
    if c.k and blocks > 1:
        depth = c.k[0].extent
        size = -(-nominal(depth) // -(-blocks // nominal(panels)))
        if len(c.k) == 1:
            size = -(-size // 64) * 64
        if size < nominal(depth):
            dims.insert(0, Dim("chunk", ext.ceil_div(depth, size), c.k[0], size))
    whole = replace(p, dims=tuple(dims), grid_dims=len(dims), chunks=1)
    buffer = temp(ext.mul(panels, _panel_bytes(c, p)))
    return _PackKernel(c, whole, name).emit(source, buffer)


class _PackKernel(TileLoops):
    """Packs b for the next call."""

    def emit(self, source: CallBuffer, target: CallBuffer) -> ContractionCall:
        fn, c, p = self.fn, self.c, self.p
        raw, packed = fn.buffer(0), fn.buffer(1)
        packer = _packer(fn, c, p)

        def pack(cursor: Cursor, size: int, vectors: int, active: int) -> None:
            panel = self.address(raw, "b", c.b.dtype.bytes, c.b.offset, cursor)
            packer.pack(c.k, _trips(self, cursor), panel, _packed(self, packer, packed, cursor), vectors, active)

        self.items(lambda cursor: self.variants(cursor, (False, True), pack))
        words = size_of((*c.outer, *c.k)) * c.columns
        return ContractionCall(fn, (source, target), p.grid, max(1, nominal(p.grid) * THREAD_ELEMENTS // words))


def reach(c: Canonical) -> tuple[int, int]:
    """The lowest and the highest element offset of a in memory, relative to its constant offset."""
    ends = [(0, x.a * (_known(x) - 1)) for x in c.labels() if not any(x.guards)]
    for number, guard in enumerate(c.a.guards):
        label = next(x for x in c.m if x.guards[number])
        step = label.a // label.guards[number]
        ends.append((-guard.const * step, (guard.size - 1 - guard.const) * step))
    return sum(min(e) for e in ends), sum(max(e) for e in ends)


def _known(x: Label) -> int:
    assert isinstance(x.extent, int), "an operand of a size known at run time only is not spread"
    return x.extent


def spread_call(
    c: Canonical, p: Plan, name: str, source: CallBuffer, temp: Callable[[Extent], CallBuffer]
) -> ContractionCall:
    """The call that spreads a (see `panels.spread`)."""
    low, high = (c.a.offset + r for r in reach(c))
    fn = Function(name)
    spread(fn, low, high, c.k[-1].a if p.dot else None, p.tiling.lanes)
    count = high - low + 1
    buffer = temp(count * 4)
    return ContractionCall(fn, (source, buffer), -(-count // SPREAD_ELEMENTS), 4)


def reduce_call(c: Canonical, p: Plan, name: str, partial: StorePartial, final: Epilogue) -> ContractionCall:
    """The call that adds the chunks' partial sums in order and runs the epilogue."""
    dims = tuple(d for d in p.dims if d.kind not in ("chunk", "block"))
    grid_dims, grid = 0, 1
    while grid_dims < len(dims) and grid < MANY_WORK_ITEMS:
        grid *= nominal(dims[grid_dims].count)
        grid_dims += 1
    whole = replace(p, dims=dims, grid_dims=grid_dims, pack="none", dot=False, chunks=1)
    whole = in_groups(whole) if final.sums else whole
    return _ReduceKernel(c, whole, name).emit(partial, p.chunks, final)


class _ReduceKernel(TileResults):
    """Reduces the chunks' partial sums tile by tile."""

    def emit(self, partial: StorePartial, chunks: Extent, out: Epilogue) -> ContractionCall:
        fn, p = self.fn, self.p
        self.reserve(out)
        base = fn.buffer(0)
        begin_epilogue(fn, out, 1)
        vector, step = f"<{self.t.lanes} x float>", self.number(ext.mul(partial.size, 4))
        turns = chunks - 1 if isinstance(chunks, int) else self.number(ext.add(chunks, -1))

        def load(pointer: Value, mask: str | None) -> Value:
            return fn.masked_load("float", self.t.lanes, pointer, mask)

        def tile(cursor: Cursor, size: int, vectors: int, active: int) -> None:
            points = self.result_vectors(Tile(fn, self.c, dict(cursor.starts)), size, vectors, active)
            where = [(fn.offset(base, "float", x.offset(partial.strides)), x.mask) for x in points]
            first = [load(*x) for x in where]
            carry = [("i64", step), *((vector, x) for x in first)]

            def add(shift: Value, *sums: Value) -> list[Value]:
                following = [
                    fn.op(f"fadd {vector} {total}, {load(fn.ptradd(pointer, shift), mask)}")
                    for total, (pointer, mask) in zip(sums, where, strict=True)
                ]
                return [fn.add(shift, step), *following]

            if isinstance(turns, int):
                with repeat(fn, turns, carry) as t:
                    t.next = add(*t.carried)
                total = t.next
            else:
                with fn.loop("0", turns, 1, carry) as loop:
                    loop.next = add(*loop.carried)
                total = loop.results
            self.finish(out, cursor, size, vectors, active, total[1:])

        self.items(lambda cursor: self.inner(p.dims[p.grid_dims :], cursor, tile), out)
        grid = nominal(p.grid)
        share = max(1, grid * THREAD_PARTIAL_SUMS // (nominal(chunks) * nominal(partial.size)))
        return ContractionCall(fn, (*partial.buffers, *out.buffers), p.grid, min(share, grid))
