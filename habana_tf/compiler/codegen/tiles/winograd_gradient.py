"""The kernels of a filter's gradient by Winograd's algorithm: blocked sums over tiles, then their transformation.

`winograd` explains the algorithm. Layouts in memory (fp32):

    transformed image     [element][tile][channel]          of a block, on the item's stack
    transformed results   [element][tile][column]           of a block, on the item's stack
    block's sums          [element][channel][column]        on the item's stack
    sums                  [chunk][element][channel][column]
"""

from __future__ import annotations

from dataclasses import replace

from habana_tf.compiler.codegen.emit import Value
from habana_tf.compiler.codegen.lanes import LaneOps
from habana_tf.compiler.codegen.tiles.accumulate import KLoop
from habana_tf.compiler.codegen.tiles.copies import Temp
from habana_tf.compiler.codegen.tiles.epilogue import CallBuffer, Epilogue
from habana_tf.compiler.codegen.tiles.kernel import ContractionCall, Kernel
from habana_tf.compiler.codegen.tiles.nest import Cursor
from habana_tf.compiler.codegen.tiles.plan import Plan
from habana_tf.compiler.codegen.tiles.tiling import Dim
from habana_tf.compiler.codegen.tiles.winograd import ELEMENTS, TAP
from habana_tf.compiler.codegen.tiles.winograd_kernels import WinogradKernel
from habana_tf.compiler.codegen.tiles.winograd_transforms import Patches, both, filter_back
from habana_tf.compiler.product_costs import SUM_STEPS, WINOGRAD_THREAD_COLUMNS


def gradient_calls(
    p: Plan, name: str, names: tuple[CallBuffer, CallBuffer], temp: Temp, out: Epilogue
) -> list[ContractionCall]:
    """The calls: the sums, and the gradient from them. names: the buffers of the image and of the result's gradient."""
    w = p.winograd
    assert w is not None
    sums = temp(w.chunks * ELEMENTS * w.depth * w.c.columns * 4)
    grain = max(1, min(w.depth, WINOGRAD_THREAD_COLUMNS // w.c.columns))
    return [_Sums(p, name).emit(names, sums), _Gradient(p, f"{name}_sum", sums, out).emit(grain)]


class _Sums(WinogradKernel):
    """Sums over the tiles of a chunk, for a block of channels by a block of columns."""

    def __init__(self, p: Plan, name: str) -> None:
        w = p.winograd
        assert w is not None
        tall, lanes = -(-w.channels // w.rows) * w.rows, p.tiling.lanes
        # Register tiles may exceed the last channel, by less than a vector.
        super().__init__(p, name, tall, -(-tall // lanes) * lanes * 4)
        self.deep = SUM_STEPS // w.tiles * w.tiles  # tiles per block of the sum
        long = not isinstance(w.blocks, int) or w.blocks // w.chunks * w.tiles > self.deep
        self.totals = self.room(self.sums_bytes) if long else self.sums

    def emit(self, operands: tuple[CallBuffer, CallBuffer], target: CallBuffer) -> ContractionCall:
        fn, w = self.fn, self.w
        self.results = self.room(ELEMENTS * w.tiles * self.line)
        zeros = self.room(max(self.row, self.line))
        self.clear(zeros, max(self.row, self.line))
        self.made = fn.buffer(2)
        layout = (("a", self.row), ("b", self.line))
        self.sides = [Patches(fn, w, x, fn.buffer(k), zeros, row) for k, (x, row) in enumerate(layout)]
        self.share = fn.mul(fn.div(fn.add(self.number(w.blocks), w.chunks - 1), w.chunks), w.tiles)
        self.items(self._item)
        return ContractionCall(fn, (*operands, target), self.p.grid, 1)

    def _item(self, cursor: Cursor) -> None:
        fn, w, t, lane = self.fn, self.w, self.t, self.c.lane
        assert lane is not None
        panels, channels = self.block(cursor, "panels", lane), self.block(cursor, "label", w.channel)
        column = fn.mul(panels[0], t.width)
        columns = fn.minimum(fn.mul(panels[1], t.width), fn.sub(str(t.columns), column))
        chunk = cursor.starts[w.chunk.key]
        begin = fn.mul(chunk, self.share)
        end = fn.minimum(fn.add(begin, self.share), self.number(w.total))

        def add(first: Value, stop: Value) -> None:
            """Sums the tiles from first to stop."""
            with fn.loop(first, stop, w.tiles) as block:
                tiles = fn.minimum(fn.sub(stop, block.index), str(w.tiles))
                with fn.when(fn.less(tiles, str(w.tiles))):  # missing tiles are zeros
                    self.clear(self.image, ELEMENTS * w.tiles * self.row)
                    self.clear(self.results, ELEMENTS * w.tiles * self.line)
                self.sides[0].transform(block.index, tiles, *channels, self.image)
                self.sides[1].transform(block.index, tiles, column, columns, self.results)
                loop = KLoop(w.tiles, self.row, self.line)
                self.multiply(panels, 4, self.results, w.tiles * self.line, t.width * 4, loop, True)

        self.clear(self.sums, self.sums_bytes)
        if self.totals == self.sums:
            add(begin, end)
        else:
            self.clear(self.totals, self.sums_bytes)
            with fn.loop(begin, end, self.deep) as several:
                add(several.index, fn.minimum(fn.add(several.index, self.deep), end))
                self.add_up(self.totals, self.sums, self.sums_bytes)
        place = fn.add(fn.mul(channels[0], t.columns), column)
        place = fn.add(place, fn.mul(chunk, ELEMENTS * w.depth * t.columns))
        self._keep(self.totals, fn.ptradd(self.made, fn.mul(place, 4)), channels[1], columns)

    def _keep(self, sums: Value, target: Value, channels: Value, columns: Value) -> None:
        """Copies the block's sums to the buffer of all sums."""
        fn, w, t = self.fn, self.w, self.t
        with fn.loop("0", str(ELEMENTS)) as element, fn.loop("0", channels) as c:
            p = fn.ptradd(sums, fn.mul(element.index, self.height * self.line))
            p = fn.ptradd(p, fn.mul(c.index, self.line))
            q = fn.ptradd(target, fn.mul(element.index, w.depth * t.columns * 4))
            q = fn.ptradd(q, fn.mul(c.index, t.columns * 4))
            with fn.loop("0", columns, t.lanes) as v:
                shift = fn.mul(v.index, 4)
                fn.store(self.vector, fn.load(self.vector, fn.ptradd(p, shift), 4), fn.ptradd(q, shift), 4)


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
