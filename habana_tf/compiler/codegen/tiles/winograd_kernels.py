"""The kernels of a convolution by Winograd's algorithm: the filter's transformation, then blocks of tiles.

`winograd` explains the algorithm. Layouts in memory (fp32):

    packed filter        [panel][down][across][channel][column]
    transformed filter   [element][panel][channel][column]
    transformed image    [element][tile][channel]               of a block, on the item's stack
    sums                 [element][tile][column]                of a block, on the item's stack
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

from habana_tf.compiler.codegen.emit import Function, Value
from habana_tf.compiler.codegen.index_evaluator import extent_value
from habana_tf.compiler.codegen.lanes import LaneOps
from habana_tf.compiler.codegen.tiles.accumulate import Accumulation, KLoop, Micro
from habana_tf.compiler.codegen.tiles.copies import Temp, pack_call
from habana_tf.compiler.codegen.tiles.drain import TileResults
from habana_tf.compiler.codegen.tiles.epilogue import CallBuffer, Epilogue
from habana_tf.compiler.codegen.tiles.kernel import ContractionCall
from habana_tf.compiler.codegen.tiles.plan import Plan
from habana_tf.compiler.codegen.tiles.winograd import ELEMENTS, OUT, TAP, Winograd
from habana_tf.compiler.codegen.tiles.winograd_transforms import Patches, both, filter_, place_of, result
from habana_tf.compiler.contraction import Label
from habana_tf.compiler.product_costs import WINOGRAD_THREAD_CHANNELS, WINOGRAD_TURN
from habana_tf.ir import extent as ext


def convolution_calls(
    p: Plan, name: str, names: tuple[CallBuffer, CallBuffer], temp: Temp, out: Epilogue, once: bool
) -> list[ContractionCall]:
    """The calls: packing of the filter, its transformation, the blocks. names: the buffers of image and filter; once:
    the filter is loop-invariant."""
    w = p.winograd
    assert w is not None
    packed = pack_call(w.c, p, f"{name}_pack", names[1], temp)
    filters = temp(ELEMENTS * w.tiling.panels * w.depth * w.tiling.width * 4)
    transform = _filters(w, f"{name}_filters", packed.buffers[1], filters)
    before = [replace(call, once=once) for call in (packed, transform)]
    return [*before, _Blocks(p, name, (names[0], filters), out).emit()]


def _filters(w: Winograd, name: str, source: CallBuffer, target: CallBuffer) -> ContractionCall:
    """The call that computes G g Gt for all channels and columns; a work item is a channel of a panel."""
    fn, t = Function(name), w.tiling
    m = LaneOps(fn, t.lanes)
    packed, made = fn.buffer(0), fn.buffer(1)
    line, plane = t.width * 4, w.depth * t.width * 4
    with fn.loop("%begin", "%end") as item:
        panel, channel = fn.div(item.index, w.depth), fn.rem(item.index, w.depth)
        inside = fn.mul(channel, line)
        first = fn.ptradd(packed, fn.add(fn.mul(panel, TAP * TAP * plane), inside))
        begin = fn.ptradd(made, fn.add(fn.mul(panel, plane), inside))
        with fn.loop("0", str(line), t.lanes * 4) as v:
            p, q = fn.ptradd(first, v.index), fn.ptradd(begin, v.index)
            taps = [fn.load(m.type("float"), fn.ptradd(p, k * plane), 4) for k in range(TAP * TAP)]
            for number, value in enumerate(both(m, taps, filter_)):
                fn.store(m.type("float"), value, fn.ptradd(q, number * t.panels * plane), 4)
    return ContractionCall(fn, (source, target), t.panels * w.depth, WINOGRAD_THREAD_CHANNELS)


class WinogradKernel(TileResults):
    """Base of the two kernels: memory on the stack, and register tiles."""

    def __init__(self, p: Plan, name: str) -> None:
        assert p.winograd is not None
        self.w = w = p.winograd
        super().__init__(w.c, p, name)
        self.m = LaneOps(self.fn, self.t.lanes)
        self.columns = w.panels * self.t.width
        self.line = self.columns * 4

    def part(self, total: int, size: int, first: Value) -> Value:
        """The size of the block that begins at `first`: `size`, or less for the last one."""
        if total % size == 0:
            return str(size)
        return self.fn.minimum(self.fn.sub(str(total), first), str(size))

    def products(
        self, a: Value, b: Value, sums: Value, rows: tuple[int, ...], vectors: int, loop: KLoop, add: bool
    ) -> None:
        """A register tile with rows at these byte offsets in a; sums of rows are `line` bytes apart. add: to the sums
        in memory."""
        fn, t = self.fn, self.t
        micro = Micro(t.lanes, rows, vectors, t.lanes, "f32", "f32", b_padded=True)
        places = [fn.ptradd(sums, i * self.line + v * t.lanes * 4) for i in range(len(rows)) for v in range(vectors)]
        start = [fn.load(self.vector, x, 4) for x in places] if add else None
        turns = loop.trip // WINOGRAD_TURN if isinstance(loop.trip, int) else fn.div(loop.trip, WINOGRAD_TURN)
        loops = [KLoop(turns, loop.a * WINOGRAD_TURN, loop.b * WINOGRAD_TURN), KLoop(WINOGRAD_TURN, loop.a, loop.b)]
        for place, value in zip(places, Accumulation(fn, micro).run(loops, a, b, start), strict=True):
            fn.store(self.vector, value, place, 4)


class _Blocks(WinogradKernel):
    """Computes blocks of tiles by blocks of columns and passes them to the epilogue."""

    def __init__(self, p: Plan, name: str, operands: tuple[CallBuffer, CallBuffer], out: Epilogue) -> None:
        super().__init__(p, name)
        w = self.w
        self.operands, self.out = operands, out
        self.many = w.channels < w.depth
        self.row = w.channels * 4

    def emit(self) -> ContractionCall:
        fn, w = self.fn, self.w
        sums = ELEMENTS * w.tiles * self.line
        self.image, self.sums = self.room(ELEMENTS * w.tiles * self.row), self.room(sums)
        zeros, self.stack_tile = self.room(self.row), self.room(OUT * OUT * self.line)
        self.filters = fn.buffer(1)
        patches = Patches(fn, w, "a", fn.buffer(0), zeros, self.row)
        self.out.begin(fn, [fn.buffer(2 + i) for i in range(len(self.out.buffers))])
        total, blocks = extent_value(fn, w.total), extent_value(fn, w.blocks)
        self.clear(zeros, self.row)
        with fn.loop("%begin", "%end") as item:
            first = fn.mul(fn.rem(item.index, blocks), w.tiles)
            tiles = fn.minimum(fn.sub(total, first), str(w.tiles))
            panel = fn.mul(fn.div(item.index, blocks), w.panels)
            panels = self.part(self.t.panels, w.panels, panel)
            if self.out.sums:
                part, high = fn.rem(item.index, blocks), fn.add(panel, panels)
                self.begin_part(self.out.sums, w.blocks, part, panel, high)
            if self.many:
                self.clear(self.sums, sums)
            with fn.loop("0", str(w.depth), w.channels) if self.many else nullcontext() as loop:
                channel = loop.index if loop else "0"
                trip = self.part(w.depth, w.channels, channel)
                patches.transform(first, tiles, channel, trip, self.image)
                self._multiply(channel, trip, panel, panels)
            self._results(first, tiles, panel, panels)
        grid = ext.mul(w.blocks, w.column_blocks)
        return ContractionCall(fn, (*self.operands, *self.out.buffers), grid, 1)

    def _multiply(self, channel: Value, trip: Value, panel: Value, panels: Value) -> None:
        """Adds the products over a block of channels to the sums, for each element of the tiles."""
        fn, w, t = self.fn, self.w, self.t
        plane = w.depth * t.width * 4
        rows = tuple(i * self.row for i in range(w.rows))
        steps = int(trip) if trip.isdigit() else trip
        with fn.loop("0", str(ELEMENTS)) as element, fn.loop("0", panels) as p:
            number = fn.add(panel, p.index)
            b = fn.ptradd(self.filters, fn.mul(element.index, t.panels * plane))
            b = fn.ptradd(b, fn.mul(number, plane))
            b = fn.ptradd(b, fn.mul(channel, t.width * 4))
            a = fn.ptradd(self.image, fn.mul(element.index, w.tiles * self.row))
            sums = fn.ptradd(self.sums, fn.mul(element.index, w.tiles * self.line))
            sums = fn.ptradd(sums, fn.mul(p.index, t.width * 4))

            def tiles(vectors: int, a: Value = a, b: Value = b, sums: Value = sums) -> None:
                with fn.loop("0", str(w.tiles // w.rows)) as group:
                    x = fn.ptradd(a, fn.mul(group.index, w.rows * self.row))
                    y = fn.ptradd(sums, fn.mul(group.index, w.rows * self.line))
                    self.products(x, b, y, rows, vectors, KLoop(steps, 4, t.width * 4), self.many)

            self.widths(number, tiles)

    def _results(self, first: Value, tiles: Value, panel: Value, panels: Value) -> None:
        """Transforms the block's sums, At m A, and passes each tile's existing results to the epilogue."""
        fn, w, t, lane = self.fn, self.w, self.t, self.c.lane
        assert lane is not None
        most = -(-t.columns // t.lanes)
        before = fn.mul(panel, t.vectors)
        vectors = fn.minimum(fn.mul(panels, t.vectors), fn.sub(str(most), before))
        full = vectors
        if t.tail_active < t.lanes:
            last = fn.op(f"icmp eq i64 {fn.add(before, vectors)}, {most}")
            full = fn.sub(vectors, fn.op(f"zext i1 {last} to i64"))
        with fn.loop("0", tiles) as tile:
            image, *begins = place_of(fn, w, fn.add(first, tile.index))
            sums = fn.ptradd(self.sums, fn.mul(tile.index, self.line))
            with fn.loop("0", vectors) as v:
                shift = fn.mul(v.index, t.lanes * 4)
                p, q = fn.ptradd(sums, shift), fn.ptradd(self.stack_tile, shift)
                elements = [fn.load(self.vector, fn.ptradd(p, i * w.tiles * self.line), 4) for i in range(ELEMENTS)]
                for k, value in enumerate(both(self.m, elements, result)):
                    fn.store(self.vector, value, fn.ptradd(q, k * self.line), 4)
            starts = {lane.key: fn.mul(panel, t.width), **({w.image.key: image} if w.image else {})}
            rows: list[tuple[Label, int, Value]] = []
            for axis, begin in zip((w.down, w.across), begins, strict=True):
                ends = fn.minimum(fn.sub(str(axis.size), begin), str(OUT)) if axis.size % OUT else str(OUT)
                starts[axis.out.key] = begin
                rows.append((axis.out, OUT, ends))
            self.pass_on(
                self.out, starts, rows, self.columns // t.lanes,
                [("0", full, t.lanes), (full, vectors, t.tail_active)],
            )  # fmt: skip
