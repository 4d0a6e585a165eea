"""The kernels of a filter's gradient by Winograd's algorithm: blocked sums over tiles, then their transformation.

`winograd` explains the algorithm. Layouts in memory (fp32):

    transformed image     [element][tile][channel]          of a block, on the item's stack
    transformed results   [element][tile][column]           of a block, on the item's stack
    block's sums          [element][channel][column]        on the item's stack
    sums                  [chunk][element][channel][column]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from habana_tf.compiler.codegen.emit import Function, Value
from habana_tf.compiler.codegen.lanes import LaneOps
from habana_tf.compiler.codegen.tiles.accumulate import KLoop
from habana_tf.compiler.codegen.tiles.copies import Temp
from habana_tf.compiler.codegen.tiles.epilogue import CallBuffer, Epilogue, SumVector
from habana_tf.compiler.codegen.tiles.kernel import ContractionCall, Kernel
from habana_tf.compiler.codegen.tiles.nest import Cursor
from habana_tf.compiler.codegen.tiles.plan import Plan
from habana_tf.compiler.codegen.tiles.tiling import Dim
from habana_tf.compiler.codegen.tiles.winograd import ELEMENTS, TAP, Winograd
from habana_tf.compiler.codegen.tiles.winograd_kernels import WinogradKernel
from habana_tf.compiler.codegen.tiles.winograd_transforms import Patches, both, filter_back
from habana_tf.compiler.product_costs import SUM_STEPS, WINOGRAD_THREAD_COLUMNS
from habana_tf.ir.extent import nominal


def gradient_calls(
    p: Plan, name: str, names: tuple[CallBuffer, CallBuffer], temp: Temp, out: Epilogue
) -> list[ContractionCall]:
    """The calls: the sums, and the gradient from them. names: the buffers of the image and of the result's gradient."""
    w = p.winograd
    assert w is not None
    sums = temp(w.chunks * ELEMENTS * w.depth * w.c.columns * 4)
    grain = max(1, min(w.depth, WINOGRAD_THREAD_COLUMNS // w.c.columns))
    return [_Sums(p, name, names, _StoreSums(w, sums)).emit(), _Gradient(p, f"{name}_sum", sums, out).emit(grain)]


class _StoreSums(Epilogue):
    """Stores the sums of a chunk's block."""

    buffers: Sequence[CallBuffer] = ()

    def __init__(self, w: Winograd, sums: CallBuffer) -> None:
        self.w, self.buffers = w, (sums,)

    def begin(self, fn: Function, pointers: list[Value]) -> None:
        self.pointer = pointers[0]

    def vector(self, fn: Function, p: SumVector) -> Sequence[Value]:
        w, place = self.w, "0"
        for label in (w.chunk, w.element, w.channel, *w.c.n):
            place = fn.add(fn.mul(place, nominal(label.extent)), p.tile.starts[label.key])
        fn.masked_store("float", p.lanes, p.value, fn.offset(self.pointer, "float", place), p.mask)
        return ()


class _Sums(WinogradKernel):
    """Sums over the tiles of a chunk, for a block of channels by a block of columns."""

    def prepare(self) -> None:
        fn, w = self.fn, self.w
        tall, lanes = -(-w.channels // w.rows) * w.rows, self.t.lanes
        # Register tiles may exceed the last channel, by less than a vector.
        self.reserve_block(tall, -(-tall // lanes) * lanes * 4)
        self.deep = SUM_STEPS // w.tiles * w.tiles  # tiles per block of the sum
        long = not isinstance(w.blocks, int) or w.blocks // w.chunks * w.tiles > self.deep
        self.stack_tile = self.room(self.sums_bytes) if long else self.sums
        self.results = self.room(ELEMENTS * w.tiles * self.line)
        self.zeros = self.room(max(self.row, self.line))
        self.clear(self.zeros, max(self.row, self.line))
        self.share = fn.mul(fn.div(fn.add(self.number(w.blocks), w.chunks - 1), w.chunks), w.tiles)

    def item(self, cursor: Cursor) -> None:
        fn, w, t, lane = self.fn, self.w, self.t, self.c.lane
        assert lane is not None
        image = Patches(fn, w, "a", self.pointers[0], self.zeros, self.row)
        results = Patches(fn, w, "b", self.pointers[1], self.zeros, self.line)
        panels, channels = self.block(cursor, "panels", lane), self.block(cursor, "label", w.channel)
        column = fn.mul(panels[0], t.width)
        columns = fn.minimum(fn.mul(panels[1], t.width), fn.sub(str(t.columns), column))
        begin = fn.mul(cursor.starts[w.chunk.key], self.share)
        end = fn.minimum(fn.add(begin, self.share), self.number(w.total))

        def add(first: Value, stop: Value) -> None:
            """Sums the tiles from first to stop."""
            with fn.loop(first, stop, w.tiles) as block:
                tiles = fn.minimum(fn.sub(stop, block.index), str(w.tiles))
                with fn.when(fn.less(tiles, str(w.tiles))):  # missing tiles are zeros
                    self.clear(self.image, ELEMENTS * w.tiles * self.row)
                    self.clear(self.results, ELEMENTS * w.tiles * self.line)
                image.transform(block.index, tiles, *channels, self.image)
                results.transform(block.index, tiles, column, columns, self.results)
                loop = KLoop(w.tiles, self.row, self.line)
                self.multiply(panels, 4, self.results, w.tiles * self.line, t.width * 4, loop, True)

        self.clear(self.sums, self.sums_bytes)
        if self.stack_tile == self.sums:
            add(begin, end)
        else:
            self.clear(self.stack_tile, self.sums_bytes)
            with fn.loop(begin, end, self.deep) as several:
                add(several.index, fn.minimum(fn.add(several.index, self.deep), end))
                self.add_up(self.stack_tile, self.sums, self.sums_bytes)
        starts = {**cursor.starts, w.channel.key: channels[0], lane.key: column}
        rows = [(w.element, ELEMENTS, str(ELEMENTS)), (w.channel, self.height, channels[1])]
        self.pass_on(self.out, starts, rows, w.panels * t.vectors, [("0", fn.div(columns, t.lanes), t.lanes)])


class _Gradient(Kernel):
    """Gt s G of the chunks' sums, added in order; a work item is a channel."""

    def __init__(self, p: Plan, name: str, sums: CallBuffer, out: Epilogue) -> None:
        assert p.winograd is not None
        self.w = w = p.winograd
        super().__init__(w.c, replace(p, dims=(Dim("label", w.depth, w.channel),), grid_dims=1), name, [sums], out)

    def prepare(self) -> None:
        self.stack_tile = self.room(TAP * TAP * self.t.lanes * 4)

    def item(self, cursor: Cursor) -> None:
        fn, w, t, lane = self.fn, self.w, self.t, self.c.lane
        assert lane is not None
        m, channel, plane = LaneOps(fn, t.lanes), cursor.starts[w.channel.key], w.depth * t.columns * 4
        with fn.loop("0", str(t.columns), t.lanes) as column:
            p = fn.ptradd(self.pointers[0], fn.mul(fn.add(fn.mul(channel, t.columns), column.index), 4))
            total = [fn.load(self.vector, fn.ptradd(p, k * plane), 4) for k in range(ELEMENTS)]
            if w.chunks > 1:
                with fn.loop("1", str(w.chunks), carry=[(self.vector, x) for x in total]) as chunk:
                    q = fn.ptradd(p, fn.mul(chunk.index, ELEMENTS * plane))
                    chunk.next = [
                        m.op("fadd", x, fn.load(self.vector, fn.ptradd(q, k * plane), 4))
                        for k, x in enumerate(chunk.carried)
                    ]
                total = chunk.results
            for k, value in enumerate(both(m, total, filter_back)):
                fn.store(self.vector, value, fn.ptradd(self.stack_tile, k * t.lanes * 4), 4)
            rows = [(axis.tap, TAP, str(TAP)) for axis in (w.down, w.across)]
            self.pass_on(self.out, {**cursor.starts, lane.key: column.index}, rows, 1, [("0", None, t.lanes)])
