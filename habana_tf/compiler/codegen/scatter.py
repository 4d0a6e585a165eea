"""Code of SCATTER: applies updates in order, at run-time coordinates, to the base, which is in the output already.

Lanes run along the last axes that are not indexed (an update is a row of an embedding's gradient, say), merged where
possible. The grid is blocks of columns, other axes that are not indexed, and parts of the first indexed axis: a work
item reads all updates and applies those to its part. So each element gets its updates in order for any number of
threads. Long sums are taken in blocks of updates (see `scattered_sums`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from habana_tf.compiler.body import Body
from habana_tf.compiler.code import WorkShare
from habana_tf.compiler.codegen.axes import LoopAxis, merge, places_of
from habana_tf.compiler.codegen.emit import Function, Value, first_lanes
from habana_tf.compiler.codegen.evaluator import Evaluator
from habana_tf.compiler.codegen.lanes import memory_type, register_type
from habana_tf.compiler.codegen.scattered_sums import ScatteredSums, ScatterTargets, part_size
from habana_tf.compiler.codegen.vector_access import Mask, Val
from habana_tf.compiler.costs import (
    SCATTER_NUMBERS,
    SCATTER_PARTS,
    SCATTER_VECTORS,
    THREAD_ELEMENTS,
    THREAD_SCATTERS,
    WORK_ITEMS,
)
from habana_tf.compiler.point_values import PointValue
from habana_tf.compiler.view_indices import strides
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent, nominal
from habana_tf.ir.linearity import stride_of
from habana_tf.ir.primitives import Node


def emit_scatter(fn: Function, body: Body, node: Node, memory: Mapping[Node, int], lanes: int) -> WorkShare:
    """Emits the function. memory: the number of each buffer."""
    kind, indexed = node.arg
    steps = strides(node.shape)
    lead = node.src[2].rank
    rest = [a for a in range(node.rank) if a not in indexed]
    place: Extent = 0
    for v, a in zip(body.variables[lead:], rest, strict=True):
        place = ext.add(place, ext.mul(ext.of(v), steps[a]))
    axes = merge(body.domain, range(lead), [*body.offsets(), *body.conditions(), place])
    places = places_of(body.domain, axes)
    (updates, *coords), place = body.over(places).inputs, ext.substitute(place, places)
    before, others = [a for a in axes if a.reduced], [a for a in axes if not a.reduced]
    inner = others.pop() if others and stride_of(place, others[-1].var) == 1 else None
    columns = inner.extent if inner else 1
    block = min(max(columns, 1), SCATTER_VECTORS * lanes) if isinstance(columns, int) else SCATTER_VECTORS * lanes
    blocks = ext.ceil_div(columns, block)
    depth = ext.product(a.extent for a in before)
    items = ext.mul(ext.product(a.extent for a in others), blocks)
    parts = _parts(node, depth, columns, -(-block // lanes), items) if inner else 1
    ev = Evaluator(fn, {n: k for n, k in memory.items() if n is not node}, lanes, inner.var if inner else None)
    ev.written = {memory[node]}
    ev.preload(len(memory))
    most = ext.ceil_div(ext.product(node.shape[a] for a in indexed), parts)
    size = part_size(depth, most, block) if kind in ("add", "sub") and node.dtype is DType.F32 and before else 0
    sums = ScatteredSums(fn, ev, memory[node], size, len(memory)) if size else None
    with fn.loop("%begin", "%end") as each, ev.scope():
        item, part = _digit(fn, each.index, str(parts))
        item, number = _digit(fn, item, ev.number(blocks))
        first = fn.mul(number, block)
        for axis in reversed(others):
            item, ev.vars[axis.var] = _digit(fn, item, ev.number(axis.extent))
        start = ev.number(ext.substitute(place, {inner.var: 0}) if inner else place)
        mine = _part(fn, ev.number(node.shape[indexed[0]]), part, parts) if indexed else ("0", "1")
        along = partial(_row, fn, ev, first, block, columns)
        numbers = [ev.number(steps[a]) for a in indexed]

        def own_range(k: int) -> tuple[Value, Value]:
            return ("0", ev.number(node.shape[indexed[k]])) if k else mine

        def update(axes: Sequence[LoopAxis], start: Value, steps: Sequence[Value], begin: Value, end: Value) -> None:
            """Applies the updates from begin to end along the first of these axes. start, steps: the offset of index 0
            and the strides in the target."""
            if axes:
                with fn.loop(begin, end) as loop, ev.scope():
                    ev.vars[axes[0].var] = loop.index
                    update(axes[1:], start, steps, "0", ev.number(axes[1].extent) if axes[1:] else "")
                return
            inside, start = _target(fn, ev, coords, own_range, steps, start)
            with fn.when(inside), ev.scope():
                along(partial(_make, fn, ev, _ScatterUpdate(memory[node], node.dtype, kind, updates, start)))

        if sums:
            further = [ev.number(node.shape[a]) for a in indexed[1:]]
            own = ScatterTargets(start, *mine, parts, further, numbers, first, block, along)
            sums.run(each.index, own, [ev.number(a.extent) for a in before], partial(update, before))
        else:
            update(before, start, numbers, "0", ev.number(before[0].extent) if before else "")
    share, grid = _share(depth), ext.mul(items, parts)
    return WorkShare(grid, share, (ext.mul(grid, sums.nbytes),) if sums and sums.large else ())


def _share(depth: Extent) -> int:
    """The least work items of a thread."""
    return max(1, THREAD_ELEMENTS // max(depth, 1)) if isinstance(depth, int) else THREAD_SCATTERS


def _target(
    fn: Function, ev: Evaluator, coords: Sequence[PointValue], range_of: Callable[[int], tuple[Value, Value]],
    steps: Sequence[Value], start: Value,
) -> tuple[Value, Value]:  # fmt: skip
    """Whether an update's coordinates are in their ranges (first index, size), and its offset."""
    inside: Value = "true"
    for k, (c, step) in enumerate(zip(coords, steps, strict=True)):
        x = ev.one.cast(ev.value(c).name, c.dtype, DType.I64)
        low, size = range_of(k)
        ok = fn.op(f"icmp ult i64 {fn.sub(x, low)}, {size}")
        inside = fn.op(f"and i1 {inside}, {ok}")
        start = fn.add(start, fn.mul(x, step))
    return inside, start


def _parts(node: Node, depth: Extent, columns: Extent, vectors: int, items: Extent) -> int:
    """The parts of the first indexed axis. vectors: of a block of columns; items: work items of one part."""
    if nominal(depth) * nominal(columns) < SCATTER_NUMBERS:
        return 1
    wanted = min(SCATTER_PARTS * vectors, -(-WORK_ITEMS // max(1, nominal(items))))
    return max(1, min(wanted, nominal(node.shape[node.arg[1][0]])))


class _ScatterUpdate(NamedTuple):
    """An update of the elements of a buffer at `start` plus the vector variable."""

    buffer: int
    dtype: DType
    kind: str
    value: PointValue
    start: Value


def _digit(fn: Function, number: Value, base: Value) -> tuple[Value, Value]:
    """Quotient and remainder by a base."""
    if base == "1":
        return number, "0"
    return fn.op(f"udiv i64 {number}, {base}"), fn.op(f"urem i64 {number}, {base}")


def _part(fn: Function, size: Value, part: Value, parts: int) -> tuple[Value, Value]:
    """The start and the length of a part of `size` indices."""
    if parts == 1:
        return "0", size
    ends = [fn.op(f"udiv i64 {fn.mul(size, fn.add(part, k))}, {parts}") for k in (0, 1)]
    return ends[0], fn.sub(ends[1], ends[0])


def _row(
    fn: Function, ev: Evaluator, first: Value, block: int, columns: Extent, make: Callable[[], None]
) -> None:  # fmt: skip
    """Emits `make` for each vector of `block` columns from `first` on, or of those left."""
    if ev.vector is None:
        make()
        return
    lanes = ev.lanes
    if isinstance(columns, int) and columns <= lanes:
        with ev.guarded(Mask(None, first_lanes(lanes, columns) if columns < lanes else None)):
            ev.vars[ev.vector] = "0"
            make()
        return
    stop = fn.minimum(fn.add(first, block), ev.number(columns))
    full = isinstance(columns, int) and columns % lanes == 0
    with fn.loop(first, stop, lanes) as loop, ev.scope():
        mask = None if full else fn.leading(lanes, fn.sub(stop, loop.index))
        with ev.guarded(Mask(None, mask)):
            ev.vars[ev.vector] = loop.index
            make()


def _make(fn: Function, ev: Evaluator, update: _ScatterUpdate) -> None:
    buffer, dtype, kind, value, start = update
    lane = memory_type(dtype)
    new = ev.value(value)
    if kind != "set":
        old = ev.load(buffer, dtype, ext.of(ev.vector) if ev.vector else 0, start)
        args = [ev.spread(x, register_type(dtype)) for x in (old, new)]
        new = Val(ev.many.apply(kind, args, dtype, dtype), ev.vector is None)
    at = fn.add(start, ev.vars[ev.vector]) if ev.vector else start
    address = fn.offset(ev.pointer(buffer), lane, at)
    raw = ev.many.to_memory(ev.spread(new, register_type(dtype)), dtype)
    mask = ev.mask()
    if mask is None:
        fn.store(ev.many.type(lane), raw, address, dtype.bytes)
    else:
        fn.masked_store(lane, ev.lanes, raw, address, mask)
