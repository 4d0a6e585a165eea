"""The kernels of a convolution by Winograd's algorithm: the filter's transformation, then blocks of tiles.

`winograd` explains the algorithm. Layouts in memory (fp32):

    packed filter        [panel][down][across][channel][column]
    transformed filter   [element][panel][channel][column]
    transformed image    [element][tile][channel]               of a block, on the item's stack
    sums                 [element][tile][column]                of a block, on the item's stack
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace

from habana_tf.compiler.codegen.emit import Function, Value
from habana_tf.compiler.codegen.index_evaluator import extent_value
from habana_tf.compiler.codegen.result_sums import ResultSums
from habana_tf.compiler.codegen.tiles.accumulate import Accumulation, KLoop, Micro
from habana_tf.compiler.codegen.tiles.copies import Temp, pack_call
from habana_tf.compiler.codegen.tiles.epilogue import CallBuffer, Epilogue, SumVector, Tile
from habana_tf.compiler.codegen.tiles.kernel import ContractionCall
from habana_tf.compiler.codegen.tiles.nest import TileLoops
from habana_tf.compiler.codegen.tiles.plan import Plan
from habana_tf.compiler.codegen.tiles.winograd import ELEMENTS, OUT, TAP, Winograd
from habana_tf.compiler.codegen.tiles.winograd_transforms import Arithmetic, Patches, filter_, place_of, result
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
    m = Arithmetic(fn, t.lanes)
    packed, made = fn.buffer(0), fn.buffer(1)
    line, plane = t.width * 4, w.depth * t.width * 4
    with fn.loop("%begin", "%end") as item:
        panel, channel = fn.div(item.index, w.depth), fn.rem(item.index, w.depth)
        inside = fn.mul(channel, line)
        first = fn.ptradd(packed, fn.add(fn.mul(panel, TAP * TAP * plane), inside))
        begin = fn.ptradd(made, fn.add(fn.mul(panel, plane), inside))
        with fn.loop("0", str(line), t.lanes * 4) as v:
            p, q = fn.ptradd(first, v.index), fn.ptradd(begin, v.index)
            taps = [fn.load(m.type, fn.ptradd(p, k * plane), 4) for k in range(TAP * TAP)]
            for number, value in enumerate(m.both(taps, filter_)):
                fn.store(m.type, value, fn.ptradd(q, number * t.panels * plane), 4)
    return ContractionCall(fn, (source, target), t.panels * w.depth, WINOGRAD_THREAD_CHANNELS)


class WinogradKernel(TileLoops):
    """Base of the two kernels: memory on the stack, and register tiles."""

    def __init__(self, p: Plan, name: str) -> None:
        assert p.winograd is not None
        self.w = w = p.winograd
        super().__init__(w.c, p, name)
        self.m = Arithmetic(self.fn, self.t.lanes)
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
        start = [fn.load(self.m.type, x, 4) for x in places] if add else None
        turns = loop.trip // WINOGRAD_TURN if isinstance(loop.trip, int) else fn.div(loop.trip, WINOGRAD_TURN)
        loops = [KLoop(turns, loop.a * WINOGRAD_TURN, loop.b * WINOGRAD_TURN), KLoop(WINOGRAD_TURN, loop.a, loop.b)]
        for place, value in zip(places, Accumulation(fn, micro).run(loops, a, b, start), strict=True):
            fn.store(self.m.type, value, place, 4)


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
        zeros, self.tile_results = self.room(self.row), self.room(OUT * OUT * self.line)
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
        """Transforms the block's sums, At m A, and runs the epilogue of each existing result."""
        fn, w, t = self.fn, self.w, self.t
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
                p, q = fn.ptradd(sums, shift), fn.ptradd(self.tile_results, shift)
                elements = [fn.load(self.m.type, fn.ptradd(p, i * w.tiles * self.line), 4) for i in range(ELEMENTS)]
                for k, value in enumerate(self.m.both(elements, result)):
                    fn.store(self.m.type, value, fn.ptradd(q, k * self.line), 4)
            ends = [
                fn.minimum(fn.sub(str(axis.size), begin), str(OUT)) if axis.size % OUT else str(OUT)
                for axis, begin in zip((w.down, w.across), begins, strict=True)
            ]
            starts = {w.image.key: image} if w.image else {}

            def point(i: Value, j: Value, v: Value, active: int) -> Sequence[Value]:
                starts[w.down.out.key] = fn.add(begins[0], i)
                starts[w.across.out.key] = fn.add(begins[1], j)
                number = fn.add(fn.mul(i, OUT), j)
                results = fn.ptradd(self.tile_results, fn.mul(number, self.line))
                return self._point(results, v, self._first_of(before, v), starts, active)

            parts = [x for x in (("0", full, t.lanes), (full, vectors, t.tail_active)) if x[0] != x[1]]
            if self.out.sums:
                for start, end, active in parts:
                    with fn.loop(start, end) as v:
                        self._summed(self.out.sums, ends, before, v.index, active, point)
                return
            with fn.loop("0", ends[0]) as i, fn.loop("0", ends[1]) as j:
                for start, end, active in parts:
                    with fn.loop(start, end) as v:
                        point(i.index, j.index, v.index, active)

    def _summed(
        self, sums: ResultSums, ends: Sequence[Value], before: Value, v: Value, active: int,
        point: Callable[[Value, Value, Value, int], Sequence[Value]],
    ) -> None:  # fmt: skip
        """The epilogue with column sums, for a vector of columns of a tile."""
        fn, column = self.fn, self._first_of(before, v)
        state = [(self.m.type, x) for x in sums.start(fn, column)]
        with fn.loop("0", ends[0], carry=state) as i:
            inner = [(self.m.type, x) for x in i.carried]
            with fn.loop("0", ends[1], carry=inner) as j:
                j.next = sums.add(fn, j.carried, point(i.index, j.index, v, active), True)
            i.next = j.results
        sums.keep(fn, column, i.results, fn.mul(*ends))

    def _first_of(self, before: Value, v: Value) -> Value:
        return self.fn.mul(self.fn.add(before, v), self.t.lanes)

    def _point(self, results: Value, v: Value, column: Value, starts: dict[int, Value], active: int) -> Sequence[Value]:
        fn, t, lane = self.fn, self.t, self.c.lane
        assert lane is not None
        value = fn.load(self.m.type, fn.ptradd(results, fn.mul(v, t.lanes * 4)), 4)
        return self.out.vector(
            fn, SumVector(value, t.lanes, active, Tile(fn, self.c, {**starts, lane.key: column}), {})
        )
