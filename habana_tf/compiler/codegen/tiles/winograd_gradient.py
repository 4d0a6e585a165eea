"""The kernels of a filter's gradient by Winograd's algorithm: blocked sums over tiles, then their transformation.

`winograd` explains the algorithm. Layouts in memory (fp32):

    transformed image     [element][tile][channel]          of a block, on the item's stack
    transformed results   [element][tile][column]           of a block, on the item's stack
    block's sums          [element][channel][column]        on the item's stack
    sums                  [chunk][element][channel][column]
"""

from __future__ import annotations

from habana_tf.compiler.codegen.emit import Value
from habana_tf.compiler.codegen.index_evaluator import extent_value
from habana_tf.compiler.codegen.tiles.accumulate import KLoop
from habana_tf.compiler.codegen.tiles.copies import Temp
from habana_tf.compiler.codegen.tiles.epilogue import CallBuffer, Epilogue
from habana_tf.compiler.codegen.tiles.kernel import ContractionCall
from habana_tf.compiler.codegen.tiles.plan import Plan
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
    return [_Sums(p, name).emit(names, sums), _Gradient(p, f"{name}_sum").emit(sums, out)]


class _Sums(WinogradKernel):
    """Sums over the tiles of a chunk, for a block of channels by a block of columns."""

    def __init__(self, p: Plan, name: str) -> None:
        super().__init__(p, name)
        w = self.w
        self.tall = -(-w.channels // w.rows) * w.rows
        # Register tiles may exceed the last channel, by less than a vector.
        self.row = -(-self.tall // self.t.lanes) * self.t.lanes * 4

    def emit(self, operands: tuple[CallBuffer, CallBuffer], target: CallBuffer) -> ContractionCall:
        fn, w, t = self.fn, self.w, self.t
        size = ELEMENTS * self.tall * self.line
        image, results, sums = (
            self.room(x) for x in (ELEMENTS * w.tiles * self.row, ELEMENTS * w.tiles * self.line, size)
        )
        deep = SUM_STEPS // w.tiles * w.tiles  # tiles per block of the sum
        long = not isinstance(w.blocks, int) or w.blocks // w.chunks * w.tiles > deep
        totals = self.room(size) if long else sums
        zeros = self.room(max(self.row, self.line))
        self.clear(zeros, max(self.row, self.line))
        made = fn.buffer(2)
        layout = (("a", self.row), ("b", self.line))
        sides = [Patches(fn, w, x, fn.buffer(k), zeros, row) for k, (x, row) in enumerate(layout)]
        total = extent_value(fn, w.total)
        share = fn.div(fn.add(extent_value(fn, w.blocks), w.chunks - 1), w.chunks)
        share = fn.mul(share, w.tiles)
        with fn.loop("%begin", "%end") as item:
            number = item.index
            channel = fn.mul(fn.rem(number, w.channel_blocks), w.channels)
            number = fn.div(number, w.channel_blocks)
            panel = fn.mul(fn.rem(number, w.column_blocks), w.panels)
            chunk = fn.div(number, w.column_blocks)
            channels, panels = self.part(w.depth, w.channels, channel), self.part(t.panels, w.panels, panel)
            column = fn.mul(panel, t.width)
            columns = fn.minimum(fn.mul(panels, t.width), fn.sub(str(t.columns), column))
            begin = fn.mul(chunk, share)
            end = fn.minimum(fn.add(begin, share), total)

            def add(first: Value, stop: Value) -> None:
                """Sums the tiles from first to stop."""
                with fn.loop(first, stop, w.tiles) as block:
                    tiles = fn.minimum(fn.sub(stop, block.index), str(w.tiles))
                    with fn.when(fn.less(tiles, str(w.tiles))):  # missing tiles are zeros
                        self.clear(image, ELEMENTS * w.tiles * self.row)
                        self.clear(results, ELEMENTS * w.tiles * self.line)
                    sides[0].transform(block.index, tiles, channel, channels, image)
                    sides[1].transform(block.index, tiles, column, columns, results)
                    self._multiply(image, results, sums, panel, panels)

            self.clear(sums, size)
            if totals == sums:
                add(begin, end)
            else:
                self.clear(totals, size)
                with fn.loop(begin, end, deep) as several:
                    add(several.index, fn.minimum(fn.add(several.index, deep), end))
                    self.add_up(totals, sums, size)
            place = fn.add(fn.mul(channel, t.columns), column)
            place = fn.add(place, fn.mul(chunk, ELEMENTS * w.depth * t.columns))
            self._keep(totals, fn.ptradd(made, fn.mul(place, 4)), channels, columns)
        grid = w.chunks * w.column_blocks * w.channel_blocks
        return ContractionCall(fn, (*operands, target), grid, 1)

    def _multiply(self, image: Value, results: Value, sums: Value, panel: Value, panels: Value) -> None:
        fn, w, t = self.fn, self.w, self.t
        rows = tuple(4 * i for i in range(w.rows))
        with fn.loop("0", str(ELEMENTS)) as element, fn.loop("0", panels) as p:
            b = fn.ptradd(results, fn.mul(element.index, w.tiles * self.line))
            b = fn.ptradd(b, fn.mul(p.index, t.width * 4))
            a = fn.ptradd(image, fn.mul(element.index, w.tiles * self.row))
            s = fn.ptradd(sums, fn.mul(element.index, self.tall * self.line))
            s = fn.ptradd(s, fn.mul(p.index, t.width * 4))

            def groups(vectors: int, a: Value = a, b: Value = b, s: Value = s) -> None:
                with fn.loop("0", str(self.tall // w.rows)) as group:
                    x = fn.ptradd(a, fn.mul(group.index, w.rows * 4))
                    y = fn.ptradd(s, fn.mul(group.index, w.rows * self.line))
                    self.products(x, b, y, rows, vectors, KLoop(w.tiles, self.row, self.line), True)

            self.widths(fn.add(panel, p.index), groups)

    def _keep(self, sums: Value, target: Value, channels: Value, columns: Value) -> None:
        """Copies the block's sums to the buffer of all sums."""
        fn, w, t = self.fn, self.w, self.t
        with fn.loop("0", str(ELEMENTS)) as element, fn.loop("0", channels) as c:
            p = fn.ptradd(sums, fn.mul(element.index, self.tall * self.line))
            p = fn.ptradd(p, fn.mul(c.index, self.line))
            q = fn.ptradd(target, fn.mul(element.index, w.depth * t.columns * 4))
            q = fn.ptradd(q, fn.mul(c.index, t.columns * 4))
            with fn.loop("0", columns, t.lanes) as v:
                shift = fn.mul(v.index, 4)
                fn.store(self.vector, fn.load(self.vector, fn.ptradd(p, shift), 4), fn.ptradd(q, shift), 4)


class _Gradient(WinogradKernel):
    """Gt s G of the chunks' sums, added in order; a work item is a channel."""

    def emit(self, sums: CallBuffer, out: Epilogue) -> ContractionCall:
        fn, w, t, lane = self.fn, self.w, self.t, self.c.lane
        assert lane is not None
        plane = w.depth * t.columns * 4
        self.stack_tile = self.room(TAP * TAP * t.lanes * 4)
        source = fn.buffer(0)
        out.begin(fn, [fn.buffer(1 + i) for i in range(len(out.buffers))])
        with fn.loop("%begin", "%end") as channel, fn.loop("0", str(t.columns), t.lanes) as column:
            place = fn.add(fn.mul(channel.index, t.columns), column.index)
            p = fn.ptradd(source, fn.mul(place, 4))
            total = [fn.load(self.vector, fn.ptradd(p, k * plane), 4) for k in range(ELEMENTS)]
            if w.chunks > 1:
                carry = [(self.vector, x) for x in total]
                with fn.loop("1", str(w.chunks), carry=carry) as chunk:
                    q = fn.ptradd(p, fn.mul(chunk.index, ELEMENTS * plane))
                    chunk.next = [
                        self.m.op("fadd", x, fn.load(self.vector, fn.ptradd(q, k * plane), 4))
                        for k, x in enumerate(chunk.carried)
                    ]
                total = chunk.results
            for k, value in enumerate(both(self.m, total, filter_back)):
                fn.store(self.vector, value, fn.ptradd(self.stack_tile, k * t.lanes * 4), 4)
            starts = {w.channel.key: channel.index, lane.key: column.index}
            rows = [(axis.tap, TAP, str(TAP)) for axis in (w.down, w.across)]
            self.pass_on(out, starts, rows, 1, [("0", None, t.lanes)])
        return ContractionCall(
            fn, (sums, *out.buffers), w.depth, max(1, min(w.depth, WINOGRAD_THREAD_COLUMNS // t.columns))
        )
