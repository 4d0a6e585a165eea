"""The kernels of a convolution by Winograd's algorithm: the filter's transformation, then blocks of tiles.

`winograd` explains the algorithm. Layouts in memory (fp32):

    packed filter        [panel][down][across][channel][column]
    transformed filter   [element][panel][channel][column]
    transformed image    [element][tile][channel]               of a block, on the item's stack
    sums                 [element][tile][column]                of a block, on the item's stack
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from habana_tf.compiler.codegen.emit import Function, Value
from habana_tf.compiler.codegen.lanes import LaneOps
from habana_tf.compiler.codegen.tiles.accumulate import Accumulation, KLoop, Micro, in_turns
from habana_tf.compiler.codegen.tiles.copies import Temp, pack_call
from habana_tf.compiler.codegen.tiles.epilogue import CallBuffer, Epilogue
from habana_tf.compiler.codegen.tiles.kernel import ContractionCall, Kernel
from habana_tf.compiler.codegen.tiles.nest import Cursor
from habana_tf.compiler.codegen.tiles.plan import Plan
from habana_tf.compiler.codegen.tiles.winograd import ELEMENTS, OUT, TAP, Winograd
from habana_tf.compiler.codegen.tiles.winograd_transforms import Patches, both, filter_, place_of, result
from habana_tf.compiler.codegen.vector_memory import F32
from habana_tf.compiler.contraction import Label
from habana_tf.compiler.product_costs import WINOGRAD_THREAD_CHANNELS, WINOGRAD_TURN


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


class WinogradKernel(Kernel):
    """Base of the kernels: products of a block's elements, in register tiles."""

    def __init__(self, p: Plan, name: str, inputs: Sequence[CallBuffer], out: Epilogue) -> None:
        assert p.winograd is not None
        self.w = w = p.winograd
        super().__init__(w.c, p, name, inputs, out)
        self.line = w.panels * self.t.width * 4

    def reserve_block(self, height: int, row: int) -> None:
        """Call it first. height: rows of a block's sums; row: bytes of a tile in the transformed image."""
        self.height, self.row = height, row
        self.image = self.room(ELEMENTS * self.w.tiles * row)
        self.sums_bytes = ELEMENTS * height * self.line
        self.sums = self.room(self.sums_bytes)

    def block(self, cursor: Cursor, kind: str, label: Label) -> tuple[Value, Value]:
        """The first index of a block of the grid, and how many there are in it."""
        low, high = cursor.blocks[kind, label.key]
        return low, self.fn.sub(high, low)

    def multiply(
        self, panels: tuple[Value, Value], step: int, b: Value, plane: int, panel: int, loop: KLoop, add: bool
    ) -> None:
        """Multiplies the transformed image by b, element by element. panels: the first, and how many; step: bytes
        between rows in the image; plane, panel: bytes from an element of b to the next, and from a panel; add: to the
        sums in memory."""
        fn, w, t = self.fn, self.w, self.t
        loops = in_turns(fn, loop.trip, WINOGRAD_TURN, loop.a, loop.b)
        rows = tuple(i * step for i in range(w.rows))
        with fn.loop("0", str(ELEMENTS)) as element, fn.loop("0", panels[1]) as p:
            columns = fn.ptradd(fn.ptradd(b, fn.mul(element.index, plane)), fn.mul(p.index, panel))
            image = fn.ptradd(self.image, fn.mul(element.index, w.tiles * self.row))
            sums = fn.ptradd(self.sums, fn.mul(element.index, self.height * self.line))
            sums = fn.ptradd(sums, fn.mul(p.index, t.width * 4))

            def tiles(vectors: int, _: int, image: Value = image, columns: Value = columns, sums: Value = sums) -> None:
                micro = Micro(t.lanes, rows, vectors, t.lanes, F32, F32, b_padded=True)
                with fn.loop("0", str(self.height // w.rows)) as group:
                    x = fn.ptradd(image, fn.mul(group.index, w.rows * step))
                    y = fn.ptradd(sums, fn.mul(group.index, w.rows * self.line))
                    places = [
                        fn.ptradd(y, i * self.line + v * t.lanes * 4) for i in range(w.rows) for v in range(vectors)
                    ]
                    start = [fn.load(self.vector, place, 4) for place in places] if add else None
                    made = Accumulation(fn, micro).run(loops, x, columns, start)
                    for place, value in zip(places, made, strict=True):
                        fn.store(self.vector, value, place, 4)

            self.widths(fn.add(panels[0], p.index), tiles, padded=True)


class _Blocks(WinogradKernel):
    """Computes blocks of tiles by blocks of columns and passes them to the epilogue."""

    def prepare(self) -> None:
        self.reserve_block(self.w.tiles, self.w.channels * 4)
        self.zeros, self.stack_tile = self.room(self.row), self.room(OUT * OUT * self.line)
        self.clear(self.zeros, self.row)

    def item(self, cursor: Cursor) -> None:
        fn, w, t, lane = self.fn, self.w, self.t, self.c.lane
        assert lane is not None
        tiles, panels = self.block(cursor, "label", w.tile), self.block(cursor, "panels", lane)
        line, plane, many = t.width * 4, w.depth * t.width * 4, w.channels < w.depth
        patches = Patches(fn, w, "a", self.pointers[0], self.zeros, self.row)
        filters = fn.ptradd(self.pointers[1], fn.mul(panels[0], plane))
        if many:
            self.clear(self.sums, self.sums_bytes)
        with fn.loop("0", str(w.depth), w.channels) if many else nullcontext() as loop:
            channel = loop.index if loop else "0"
            trip: int | Value = w.channels
            if w.depth % w.channels:
                trip = fn.minimum(fn.sub(str(w.depth), channel), str(w.channels))
            patches.transform(*tiles, channel, str(trip), self.image)
            b = fn.ptradd(filters, fn.mul(channel, line))
            self.multiply(panels, self.row, b, t.panels * plane, plane, KLoop(trip, 4, line), many)
        self._results(*tiles, *panels)

    def _results(self, first: Value, tiles: Value, panel: Value, panels: Value) -> None:
        """Transforms the block's sums, At m A, and passes each tile's existing results to the epilogue."""
        fn, w, t, lane = self.fn, self.w, self.t, self.c.lane
        assert lane is not None
        columns = fn.minimum(fn.mul(panels, t.width), fn.sub(str(t.columns), fn.mul(panel, t.width)))
        full = fn.div(columns, t.lanes)
        vectors = full if t.tail_active == t.lanes else fn.div(fn.add(columns, t.lanes - 1), t.lanes)
        with fn.loop("0", tiles) as tile:
            image, *begins = place_of(fn, w, fn.add(first, tile.index))
            sums = fn.ptradd(self.sums, fn.mul(tile.index, self.line))
            with fn.loop("0", vectors) as v:
                shift = fn.mul(v.index, t.lanes * 4)
                p, q = fn.ptradd(sums, shift), fn.ptradd(self.stack_tile, shift)
                elements = [fn.load(self.vector, fn.ptradd(p, i * w.tiles * self.line), 4) for i in range(ELEMENTS)]
                for k, value in enumerate(both(LaneOps(fn, t.lanes), elements, result)):
                    fn.store(self.vector, value, fn.ptradd(q, k * self.line), 4)
            starts = {lane.key: fn.mul(panel, t.width), **({w.image.key: image} if w.image else {})}
            rows: list[tuple[Label, int, Value]] = []
            for axis, begin in zip((w.down, w.across), begins, strict=True):
                ends = fn.minimum(fn.sub(str(axis.size), begin), str(OUT)) if axis.size % OUT else str(OUT)
                starts[axis.out.key] = begin
                rows.append((axis.out, OUT, ends))
            self.pass_on(
                self.out, starts, rows, w.panels * t.vectors,
                [("0", full, t.lanes), (full, vectors, t.tail_active)],
            )  # fmt: skip
