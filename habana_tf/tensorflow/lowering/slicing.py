"""Slices: Slice, StridedSlice, its gradient and update, ReverseV2, Roll.

Sizes are compile-time constants since they fix a shape. Where a slice begins is not: if `begin` comes from outside
the cluster, it is read at run time although its value is known, so that v[i] is one program for every i. If it
follows from constants or shapes inside the cluster, the slice is a view and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node, Op
from habana_tf.tensorflow.lowering.arguments import axis_of, extents, ints
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import ALL, INDEX, op


def at_run_time(node: Node) -> bool:
    """Whether a value depends on any input of the cluster."""
    seen: set[Node] = set()
    stack = [node]
    while stack:
        n = stack.pop()
        if n.op is Op.INPUT:
            return True
        if n not in seen:
            seen.add(n)
            stack.extend(n.src)
    return False


@dataclass(frozen=True)
class AxisSlice:
    """One axis of a slice: `size` elements from `begin` in steps of `step`.

    start: the run-time scalar that says where to begin (negative: from the back) in the place of `begin`.
    """

    begin: Extent
    size: Extent
    step: int = 1
    start: Node | None = None


def element(c: Lowering, vector: Node, i: int) -> Node:
    """Element i of a vector as a scalar."""
    return c.b.reshape(c.b.along(vector, 0, i, 1), ())


def _line(c: Lowering, cut: AxisSlice, extent: Extent, shape: Sequence[Extent], axis: int) -> Node:
    """The positions that a run-time cut takes, along `axis` of `shape`."""
    b, start = c.b, cut.start
    assert start is not None
    negative = b.map("lt", start, b.const(0, start.dtype))
    start = b.map("add", start, b.select(negative, b.extent(extent, start.dtype), b.const(0, start.dtype)))
    steps = b.map("mul", b.iota(shape, axis, start.dtype), b.const(cut.step, start.dtype, shape))
    return b.map("add", b.expand(start, shape), steps)


def _positions(c: Lowering, extents: Sequence[Extent], cuts: Sequence[AxisSlice]) -> tuple[list[int], list[Node]]:
    """The axes cut at run time and, for each, the coordinates over the grid of all of them."""
    axes = [a for a, cut in enumerate(cuts) if cut.start is not None]
    grid: list[Extent] = [cuts[a].size for a in axes]
    return axes, [_line(c, cuts[a], extents[a], grid, k) for k, a in enumerate(axes)]


def _view(cut: AxisSlice) -> tuple[Extent, int]:
    return (cut.begin, cut.step) if cut.start is None else (0, 1)


def cut_out(c: Lowering, x: Node, cuts: Sequence[AxisSlice]) -> Node:
    """The elements of x that the cuts choose."""
    b, extents = c.b, x.shape
    views = [_view(cut) for cut in cuts]
    sizes = [n if cut.start is not None else cut.size for n, cut in zip(extents, cuts, strict=True)]
    x = b.slice(x, [v[0] for v in views], sizes, [v[1] for v in views])
    axes, coords = _positions(c, extents, cuts)
    if not axes:
        return x
    order = [*axes, *(a for a in range(x.rank) if a not in axes)]
    return b.permute(b.gather(x, coords, axes), [order.index(a) for a in range(x.rank)])


def put_in(c: Lowering, base: Node, value: Node, cuts: Sequence[AxisSlice]) -> Node:
    """`base` with the elements that the cuts choose replaced by `value` (of the cuts' sizes)."""
    b, extents = c.b, base.shape
    full = [cut.start is None and cut.size == n and cut.step == 1 for cut, n in zip(cuts, extents, strict=True)]
    axes = [a for a in range(base.rank) if not full[a]]
    if not axes:
        return value
    grid = [cuts[a].size for a in axes]
    coords = []
    for k, a in enumerate(axes):
        cut = cuts[a]
        start = cut.start if cut.start is not None else b.extent(cut.begin, DType.I64)
        coords.append(_line(c, AxisSlice(0, cut.size, cut.step, start), extents[a], grid, k))
    updates = b.permute(value, [*axes, *(a for a in range(base.rank) if full[a])])
    return b.scatter(base, updates, coords, axes, "set")


# -- Slice ----------------------------------------------------------------------------------------------------


@op("Slice", fixed=["begin", "size"], T=ALL, Index=INDEX)
def slice_(c: Lowering) -> Node:
    x, begin, size = c.inputs[0], extents(c, "begin"), extents(c, "size")
    c.require(len(begin) == x.rank and len(size) == x.rank, f"begin {begin} and size {size} must have {x.rank} entries")
    moving = at_run_time(c.inputs[1])
    cuts = []
    for axis, (at, count, n) in enumerate(zip(begin, size, x.shape, strict=True)):
        rest = ext.add(n, ext.mul(at, -1))
        count = rest if count == -1 else count
        if not (c.at_least(at) and c.at_least(count) and c.at_least(rest, count)):
            raise c.error(f"begin {at} and size {count} do not fit axis {axis} of size {n}")
        numbers = isinstance(n, int) and isinstance(count, int) and isinstance(at, int)
        runs = moving and numbers and c.at_least(count, 1) and count != n
        cuts.append(AxisSlice(at, count, 1, element(c, c.inputs[1], axis) if runs else None))
    return cut_out(c, x, cuts)


# -- StridedSlice and its relatives -----------------------------------------------------------------------------


def entries_of_slice(c: Lowering, count: int, rank: int) -> list[tuple[str, int]]:
    """What each of `count` entries of a slice stands for: ("new" | "keep" | "range" | "shrink", entry number).

    An ellipsis becomes one "keep" per axis it covers; missing entries at the end are kept axes too.
    """
    bits = {name: c.attr(f"{name}_mask", 0) for name in ("ellipsis", "new_axis", "shrink_axis")}
    kinds = []
    for i in range(count):
        if bits["ellipsis"] >> i & 1:
            kinds.append(("ellipsis", i))
        elif bits["new_axis"] >> i & 1:
            kinds.append(("new", i))
        else:
            kinds.append(("shrink" if bits["shrink_axis"] >> i & 1 else "range", i))
    ellipses = [i for kind, i in kinds if kind == "ellipsis"]
    c.require(len(ellipses) < 2, "begin, end and strides must have at most one ellipsis")
    used = sum(kind in ("range", "shrink") for kind, _ in kinds)
    c.require(used <= rank, f"{used} indices into {rank} axes")
    at = ellipses[0] if ellipses else count
    return [*kinds[:at], *[("keep", -1)] * (rank - used), *kinds[at + 1 :]]


def strided_cuts(c: Lowering, sizes: Sequence[Extent], first: int) -> tuple[list[AxisSlice], list[Extent]]:
    """Cuts of each axis and the shape of the result, from the inputs begin, end, strides (at index `first`).

    Follows Python's indexing as TensorFlow encodes it: bit i of the masks speaks of entry i of begin.
    """
    begin, end = extents(c, first), extents(c, first + 1)
    strides = ints(c, first + 2)
    moving = at_run_time(c.inputs[first])

    def masked(name: str, i: int) -> bool:
        return bool(c.attr(f"{name}_mask", 0) >> i & 1)

    c.require(len(begin) == len(end) == len(strides), "begin, end and strides must be of one length")
    cuts: list[AxisSlice] = []
    shape: list[Extent] = []
    for kind, i in entries_of_slice(c, len(begin), len(sizes)):
        if kind == "new":
            shape.append(1)
            continue
        axis, n = len(cuts), sizes[len(cuts)]
        if kind == "keep":
            cut = AxisSlice(0, n)
        else:
            cut = _strided_cut(c, axis, n, (begin[i], end[i], strides[i]), masked, i)
            variable = not masked("begin", i) or kind == "shrink"
            if moving and variable and _moves(cut, n, begin[i]):
                cut = AxisSlice(cut.begin, cut.size, cut.step, element(c, c.inputs[first], i))
        cuts.append(cut)
        if kind != "shrink":
            shape.append(cut.size)
    return cuts, shape


def _strided_cut(
    c: Lowering, axis: int, n: Extent, entry: tuple[Extent, Extent, int], masked: Callable[[str, int], bool], i: int
) -> AxisSlice:
    """Python's `slice.indices` over sizes that may be symbols: what it compares is asked of the premises."""
    first, last, step = entry
    c.require(step != 0, f"strides[{i}] must be non-zero")
    from_back = not c.at_least(first)
    first = ext.add(first, n) if from_back else first
    if masked("shrink_axis", i):
        c.require(step >= 0, "only stride 1 allowed on non-range indexing")
        if not (c.at_least(first) and c.at_least(n, ext.add(first, 1))):
            raise c.error(f"slice index {entry[0]} of dimension {axis} out of bounds")
        return AxisSlice(first, 1)
    last = last if c.at_least(last) else ext.add(last, n)
    lowest, highest = (0, n) if step > 0 else (-1, ext.add(n, -1))
    at, stop = (lowest, highest) if step > 0 else (highest, lowest)
    if not masked("begin", i):
        at = c.premises.smallest(c.premises.largest(first, lowest), highest)
    if not masked("end", i):
        stop = c.premises.smallest(c.premises.largest(last, lowest), highest)
    way = ext.add(stop, ext.mul(at, -1)) if step > 0 else ext.add(at, ext.mul(stop, -1))
    if not c.at_least(way, 1):
        return AxisSlice(at, 0, step)
    return AxisSlice(at, ext.div(ext.add(way, abs(step) - 1), abs(step)), step)


def _moves(cut: AxisSlice, n: Extent, begin: Extent) -> bool:
    """Whether another `begin` could give the same size: not for whole or empty axes, nor for a clamped begin.

    Over an axis whose size is a symbol only one element moves: how many more there are could depend on where it begins.
    """
    size = cut.size
    if not isinstance(n, int) or not isinstance(size, int):
        return size == 1 and isinstance(begin, int) and cut.begin in (begin, ext.add(n, begin))
    return size > 0 and (size < n or cut.step != 1) and cut.begin in (begin, ext.add(n, begin))


_STRIDED = ("begin", "end", "strides")


@op("StridedSlice", fixed=_STRIDED, T=ALL, Index=INDEX)
def strided_slice(c: Lowering) -> Node:
    cuts, shape = strided_cuts(c, c.inputs[0].shape, 1)
    return c.b.reshape(cut_out(c, c.inputs[0], cuts), shape)


@op("StridedSliceGrad", fixed=["shape", *_STRIDED], T=ALL, Index=INDEX)
def strided_slice_grad(c: Lowering) -> Node:
    """dy where the slice took its elements, 0 elsewhere."""
    b, dy, whole = c.b, c.inputs[4], extents(c, "shape")
    cuts, shape = strided_cuts(c, whole, 1)
    c.require(_of_shape(c, dy, shape), f"dy must have the slice's shape {shape}")
    cuts = _sized(cuts, shape, dy.shape)
    dy = b.reshape(dy, [cut.size for cut in cuts])
    if any(cut.size == 0 for cut in cuts):
        return b.const(0, dy.dtype, whole)
    if any(cut.start is not None for cut in cuts):
        return put_in(c, b.const(0, dy.dtype, whole), dy, cuts)
    dy = b.reverse(dy, [a for a, cut in enumerate(cuts) if cut.step < 0])
    low: list[Extent] = []
    high: list[Extent] = []
    gaps = []
    for cut, n in zip(cuts, whole, strict=True):
        reach = ext.mul(ext.add(cut.size, -1), abs(cut.step))
        lowest = cut.begin if cut.step > 0 else ext.add(cut.begin, ext.mul(reach, -1))
        after = ext.add(n, ext.mul(ext.add(lowest, ext.add(reach, 1)), -1))
        low.append(lowest)
        high.append(after)
        gaps.append(abs(cut.step) - 1 if cut.size != 1 else 0)
    return b.pad(dy, low, high, 0, gaps)


def _of_shape(c: Lowering, x: Node, shape: Sequence[Extent]) -> bool:
    """Whether x has this shape; of sizes that are symbols it is asked of the premises."""
    return x.rank == len(shape) and all(c.premises.equal(n, m) for n, m in zip(x.shape, shape, strict=True))


def _sized(cuts: Sequence[AxisSlice], shape: Sequence[Extent], known: Sequence[Extent]) -> list[AxisSlice]:
    """The cuts of a slice of this shape, with its sizes as another tensor of the shape has them."""
    same = dict(zip(shape, known, strict=True))
    return [replace(cut, size=same.get(cut.size, cut.size)) for cut in cuts]


@op("TensorStridedSliceUpdate", fixed=_STRIDED, T=ALL, Index=INDEX)
def tensor_strided_slice_update(c: Lowering) -> Node:
    """`input` with a slice replaced by `value`, which may broadcast."""
    return update_slice(c, c.inputs[0], c.inputs[4], 1)


def update_slice(c: Lowering, x: Node, value: Node, first: int) -> Node:
    """x with the slice that inputs first.. (begin, end, strides) choose replaced by `value`."""
    cuts, shape = strided_cuts(c, x.shape, first)
    if any(isinstance(n, ext.Expr) for n in (*shape, *value.shape)) and _of_shape(c, value, shape):
        cuts, shape = _sized(cuts, shape, value.shape), list(value.shape)
    value = c.b.reshape(c.b.expand(value, shape), [cut.size for cut in cuts])
    return x if any(cut.size == 0 for cut in cuts) else put_in(c, x, value, cuts)


# -- ReverseV2, Roll ------------------------------------------------------------------------------------------


@op("ReverseV2", fixed=["axis"], T=ALL, Tidx=INDEX)
def reverse_v2(c: Lowering) -> Node:
    x, axis = c.inputs
    if not x.rank:  # TensorFlow looks at no axis then
        return x
    c.require(axis.rank == 1, "axis must be a vector")
    axes = [axis_of(c, a, x.rank) for a in ints(c, "axis")]
    c.require(len(set(axes)) == len(axes), f"axis {axes} names an axis twice")
    return c.b.reverse(x, axes)


@op("Roll", fixed=["axis"], host=["shift"], T=ALL, Tshift=INDEX, Taxis=INDEX)
def roll(c: Lowering) -> Node:
    """Elements move up by `shift` along each axis and re-enter at the front; shifts are run-time values."""
    b, (x, shift, _) = c.b, c.inputs
    axes = [axis_of(c, a, x.rank) for a in ints(c, "axis")]
    c.require(shift.shape == c.input("axis").shape and shift.rank <= 1, "shift and axis must have the same size")
    known = None if at_run_time(shift) else c.known(shift)
    shifts = b.reshape(shift, (len(axes),))
    for k, axis in enumerate(axes):
        n = x.shape[axis]
        if n == 0:
            return x
        if known is not None and isinstance(by := known.reshape(-1)[k], int | np.integer) and isinstance(n, int):
            at: Extent | None = -int(by) % n
        else:
            at = None if known is None else _rolled(c, ext.mul(known.reshape(-1).tolist()[k], -1), n)
        if at is not None:
            rest = ext.add(n, ext.mul(at, -1))
            x = b.concat([c.b.along(x, axis, at, rest), c.b.along(x, axis, 0, at)], axis)
        else:
            back, size = b.expand(element(c, shifts, k), (n,)), b.expand(b.extent(n, shift.dtype), (n,))
            source = b.map("floormod", b.map("sub", b.iota((n,), 0, shift.dtype), back), size)
            moved = b.gather(x, [source], [axis])
            x = b.permute(moved, [a + 1 if a < axis else 0 if a == axis else a for a in range(x.rank)])
    return x


def _rolled(c: Lowering, at: Extent, n: Extent) -> Extent | None:
    """Where axis n begins when rolled: `at`, brought into [0, n) by one turn at most; None where that is not enough."""
    at = at if c.at_least(at) else ext.add(at, n)
    return at if c.at_least(at) and c.at_least(n, ext.add(at, 1)) else None
