"""Calls that copy operands for the calls after them: b in panels, a in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from habana_tf.compiler.codegen.emit import Function, Value
from habana_tf.compiler.codegen.tiles.epilogue import CallBuffer
from habana_tf.compiler.codegen.tiles.fill import Fill
from habana_tf.compiler.codegen.tiles.kernel import ContractionCall
from habana_tf.compiler.codegen.tiles.nest import Cursor, TileLoops
from habana_tf.compiler.codegen.tiles.operand import Across, Along, form_of, forms, packed_panels
from habana_tf.compiler.codegen.tiles.plan import Plan
from habana_tf.compiler.codegen.tiles.tiling import Dim, loops_over, panel_loops, size_of
from habana_tf.compiler.codegen.vector_memory import Form, interleave
from habana_tf.compiler.contraction import Canonical, Label
from habana_tf.compiler.costs import MANY_WORK_ITEMS, THREAD_ELEMENTS
from habana_tf.compiler.product_costs import PACKED_WORDS, SPREAD_ELEMENTS
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent, nominal

Temp = Callable[[Extent], CallBuffer]
"""Makes a workspace of some bytes."""


class PanelFill:
    """Packs panels of b in a kernel (see `PackedPanels`). Create it at the function's entry."""

    def __init__(self, kernel: TileLoops) -> None:
        c, p = kernel.c, kernel.p
        self.kernel, self.layout = kernel, packed_panels(c, p)
        depth = p.tiling.lanes if p.lanes == "sum" else 0
        self.fill = Fill(kernel.fn, forms(c, p)[1], p.tiling.lanes, p.dot, depth, vectors=not depth, exact=True)

    def pack(self, cursor: Cursor, source: Value, target: Value, vectors: int, active: int) -> None:
        """Packs the panel at the cursor, of `vectors` vectors of columns, `active` in the last one."""
        kernel, c = self.kernel, self.kernel.c
        columns = (vectors - 1) * kernel.t.lanes + active
        across = Across(c.lane.b if c.lane else 1, str(columns), columns, columns)
        along = [
            Along(x.b, kernel.trip(cursor, x), step, kernel.multiple(x))
            for x, step in zip(c.k, self.layout.steps, strict=True)
        ]
        place = kernel.address(source, "b", c.b.dtype.bytes, c.b.offset, cursor)
        self.fill.pack(across, along or [Along(0, 1, 0)], place, target, ())


def packed_place(kernel: TileLoops, base: Value, cursor: Cursor) -> Value:
    """The address of the panel at the cursor in the packed copy of b, within it of the chunk's first line."""
    fn, c, p = kernel.fn, kernel.c, kernel.p
    layout = packed_panels(c, p)
    index = fn.mul(kernel.packed_index(c.outer, cursor), p.tiling.panels)
    if p.tiling.panels > 1:
        index = fn.add(index, cursor.panel)
    offset = fn.mul(index, kernel.number(layout.panel))
    if p.chunk and p.chunk.label:
        step = layout.steps[0] // (layout.unit if len(c.k) == 1 else 1)
        offset = fn.add(offset, fn.mul(cursor.starts[p.chunk.label.key], step))
    return fn.ptradd(base, offset)


def pack_call(c: Canonical, p: Plan, name: str, source: CallBuffer, temp: Temp) -> ContractionCall:
    """The call that packs all of b: a work item per panel and block of the first k label."""
    layout = packed_panels(c, p)
    panels = ext.mul(ext.product(x.extent for x in c.outer), p.tiling.panels)
    words = nominal(panels) * nominal(layout.panel) // 4
    blocks = max(1, min(words // PACKED_WORDS, MANY_WORK_ITEMS))
    dims = loops_over(c.outer) + panel_loops(c, p.tiling)
    if c.k and blocks > 1:
        depth = c.k[0].extent
        size = -(-nominal(depth) // -(-blocks // nominal(panels)))
        if len(c.k) == 1:
            size = -(-size // 64) * 64
        if size < nominal(depth):
            dims.insert(0, Dim("chunk", ext.ceil_div(depth, size), c.k[0], size))
    kernel = TileLoops(c, replace(p, dims=tuple(dims), grid_dims=len(dims)), name)
    fn = kernel.fn
    fill, raw, packed = PanelFill(kernel), fn.buffer(0), fn.buffer(1)

    def item(cursor: Cursor) -> None:
        kernel.widths(cursor.panel, lambda *width: fill.pack(cursor, raw, packed_place(kernel, packed, cursor), *width))

    kernel.items(item)
    grain = max(1, nominal(kernel.p.grid) * THREAD_ELEMENTS // (size_of((*c.outer, *c.k)) * c.columns))
    return ContractionCall(fn, (source, temp(ext.mul(panels, layout.panel))), kernel.p.grid, grain)


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


def spread_call(c: Canonical, p: Plan, name: str, source: CallBuffer, temp: Temp) -> ContractionCall:
    """The call that turns every element e of a short operand into a 32-bit word, in the operand's own order: the pair
    (e, e + step) for dot products if a is not contiguous along k, or e as fp32."""
    low, high = (c.a.offset + r for r in reach(c))
    fn = Function(name, float16=p.float16)
    _spread(fn, form_of(c.a), low, high, c.k[-1].a if p.dot else None, p.tiling.lanes)
    count = high - low + 1
    return ContractionCall(fn, (source, temp(count * 4)), -(-count // SPREAD_ELEMENTS), 4)


def _spread(fn: Function, form: Form, low: int, high: int, step: int | None, lanes: int) -> None:
    """Emits word[e - low] = (a[e], a[e + step]) for e in [low, high]; the second is undefined if out of range.

    Without a step the words are the elements as fp32. Buffer 0 is a, buffer 1 the words.
    """
    a, words = fn.buffer(0), fn.buffer(1)
    a = fn.ptradd(a, form.bytes * low)
    count = high - low + 1
    shift = step or 0
    valid_from, valid_to = max(0, -shift), count - max(0, shift)

    def clamp(x: Value, least: Value, most: Value) -> Value:
        x = fn.op(f"select i1 {fn.less(x, least)}, i64 {least}, i64 {x}")
        return fn.minimum(x, most)

    def load(lanes: int, index: Value) -> Value:
        type_ = form.lane if lanes == 1 else f"<{lanes} x {form.lane}>"
        return fn.load(type_, fn.offset(a, form.lane, index), form.bytes)

    def one_by_one(start: Value, stop: Value) -> None:
        with fn.loop(start, stop) as e:
            other = clamp(fn.add(e.index, shift), "0", str(count - 1))
            place = fn.offset(words, "i32", e.index)
            if step is None:
                fn.store("float", form.floats(fn, 1, load(1, other)), place, 4)
            else:
                for half, index in enumerate((e.index, other)):
                    fn.store("i16", form.halves(fn, 1, load(1, index)), fn.ptradd(place, 2 * half), 2)

    with fn.loop("%begin", "%end") as item:
        start = fn.mul(item.index, SPREAD_ELEMENTS)
        stop = fn.minimum(fn.add(start, SPREAD_ELEMENTS), str(count))
        first = clamp(str(valid_from), start, stop)
        last = clamp(str(valid_to), first, stop)
        last = fn.add(first, fn.op(f"and i64 {fn.sub(last, first)}, {-lanes}"))
        one_by_one(start, first)
        with fn.loop(first, last, lanes) as e:
            place, y = fn.offset(words, "i32", e.index), load(lanes, fn.add(e.index, shift))
            if step is None:
                fn.store(f"<{lanes} x float>", form.floats(fn, lanes, y), place, 4)
            else:
                both = (form.halves(fn, lanes, v) for v in (load(lanes, e.index), y))
                fn.store(f"<{2 * lanes} x i16>", interleave(fn, lanes, *both), place, 4)
        one_by_one(last, stop)
