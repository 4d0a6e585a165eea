"""Ops that address elements by index: gathers, scatters, stitches, top-k, sequences turned round.

Indices are run-time values. As on TensorFlow's other accelerators an index out of range is no error: a gather
gives 0 for it, a scatter leaves it out. A launch that met one says so (`LoweringContext.in_range`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from habana_tf.cluster import counts
from habana_tf.formulas.ordering import float_key
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.arguments import (
    axis_of,
    constant_shape,
    extents,
    scalar,
    scalar_extent,
)
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import ALL, FLOATS, INDEX, INTS, NUMERIC, op

WIDE_INDEX = (DType.I16, *INDEX)
PICKED = 16
"""The most that are picked one after the other, each in two readings of a row; more are the beginning of a sort."""
WORTH = 16
"""Elements of a row, for each that is picked, from which on that is sooner done."""

# -- gathers --------------------------------------------------------------------------------------------------


def gather_axis(c: Lowering, x: Node, indices: Node, axis: int, batch: int = 0) -> Node:
    """x[b..., :, ..., indices[b..., i...], ...] for the first `batch` axes b in common.

    The result's axes are x's before `axis`, those of the indices after the batch, x's after `axis`.
    """
    b = c.b
    c.context.in_range("indices", indices, x.shape[axis])
    if batch and indices.dtype is DType.I16:  # which may not hold the number of an example
        indices = b.cast(indices, DType.I32)
    coords = [b.cast(b.iota(indices.shape, k, DType.I32), indices.dtype) for k in range(batch)]
    out = b.gather(x, [*coords, indices], [*range(batch), axis])
    before = axis - batch  # axes of x between the batch and `axis`; they follow the indices in `out`
    order = [
        *range(batch),
        *range(indices.rank, indices.rank + before),
        *range(batch, indices.rank),
        *range(indices.rank + before, out.rank),
    ]
    return b.permute(out, order)


@op("Gather", Tparams=ALL, Tindices=INDEX)
def gather(c: Lowering) -> Node:
    c.require(c.inputs[0].rank, "params must have at least one axis")
    return gather_axis(c, c.inputs[0], c.inputs[1], 0)


@op("GatherV2", fixed=["axis"], Tparams=ALL, Tindices=WIDE_INDEX, Taxis=INDEX)
def gather_v2(c: Lowering) -> Node:
    x, indices, _ = c.inputs
    return gather_in_batches(c, x, indices, c.attr("batch_dims", 0), axis_of(c, scalar(c, "axis"), x.rank))


def gather_in_batches(c: Lowering, x: Node, indices: Node, batch: int, axis: int | None = None) -> Node:
    """`gather_axis`, by default along the first axis after the batch; a negative batch counts from indices' rank."""
    batch = batch + indices.rank if batch < 0 else batch
    axis = batch if axis is None else axis
    if not 0 <= batch <= min(indices.rank, axis) or axis >= x.rank or x.shape[:batch] != indices.shape[:batch]:
        raise c.error(f"batch_dims {batch} must be common to params and indices and come before axis {axis}")
    return gather_axis(c, x, indices, axis, batch)


def coordinates(c: Lowering, indices: Node, shape: Sequence[Extent]) -> list[Node]:
    """The coordinate tensors in the last axis of `indices`, which address leading axes of a tensor of that shape."""
    rank = len(shape)
    c.require(indices.rank, "indices must have at least one axis")
    (depth,) = constant_shape(c, indices, indices.rank - 1, "it says how many axes the indices address")
    c.require(depth <= rank, f"indices address {depth} axes of a tensor that has {rank}")
    last = indices.rank - 1
    coords = [c.b.reshape(c.b.along(indices, last, k, 1), indices.shape[:-1]) for k in range(depth)]
    for each, size in zip(coords, shape, strict=False):
        c.context.in_range("indices", each, size)
    return coords


@op("GatherNd", Tparams=ALL, Tindices=WIDE_INDEX)
def gather_nd(c: Lowering) -> Node:
    x, indices = c.inputs
    coords = coordinates(c, indices, x.shape)
    if not coords:
        return c.b.expand(x, (*indices.shape[:-1], *x.shape))
    return c.b.gather(x, coords, range(len(coords)))


# -- scatters -------------------------------------------------------------------------------------------------


def scatter_wide(c: Lowering, base: Node, updates: Node, coords: Sequence[Node], kind: str) -> Node:
    """SCATTER over the leading axes; sums of short floats are kept in float32 and rounded once."""
    b, dtype = c.b, base.dtype
    wide = dtype if kind == "set" else dtype.accumulator
    return b.cast(b.scatter(b.cast(base, wide), b.cast(updates, wide), coords, range(len(coords)), kind), dtype)


def passed_over(c: Lowering, updates: Node, kind: str) -> Node:
    """The updates of a greatest or a least with what changes nothing in the place of NaN, as TensorFlow's kernels take
    them (a NaN that is updated stays)."""
    if kind not in ("max", "min") or not updates.dtype.is_float:
        return updates
    nothing = c.b.const(-math.inf if kind == "max" else math.inf, updates.dtype)
    return c.b.select(c.b.map("isnan", updates), nothing, updates)


def scatter_nd_into(c: Lowering, base: Node, indices: Node, updates: Node, kind: str) -> Node:
    """`base` with updates[i...] put at base[indices[i...]]."""
    coords = coordinates(c, indices, base.shape)
    wanted = (*indices.shape[:-1], *base.shape[len(coords) :])
    c.require(updates.shape == wanted, f"updates must have shape {list(wanted)}")
    c.require(coords, "indices address no axis")
    return scatter_wide(c, base, passed_over(c, updates, kind), coords, kind)


@op("ScatterNd", fixed=["shape"], T=ALL, Tindices=WIDE_INDEX)
def scatter_nd(c: Lowering) -> Node:
    indices, updates, _ = c.inputs
    return scatter_nd_into(c, c.b.const(0, updates.dtype, extents(c, "shape")), indices, updates, "add")


def _tensor_scatter(kind: str) -> Callable[[Lowering], Node]:
    return lambda c: scatter_nd_into(c, c.inputs[0], c.inputs[1], c.inputs[2], kind)


op("TensorScatterUpdate", T=ALL, Tindices=WIDE_INDEX)(_tensor_scatter("set"))
for _name, _kind in {"Add": "add", "Sub": "sub", "Min": "min", "Max": "max"}.items():
    op(f"TensorScatter{_name}", T=NUMERIC, Tindices=INDEX)(_tensor_scatter(_kind))


@op("InvertPermutation", T=INDEX)
def invert_permutation(c: Lowering) -> Node:
    (x,) = c.inputs
    c.context.in_range("x", x, x.shape[0])
    return c.b.scatter(c.b.const(0, x.dtype, x.shape), c.b.iota(x.shape, 0, x.dtype), [x], [0], "set")


# -- stitch, top-k --------------------------------------------------------------------------------------------


@op("DynamicStitch", "ParallelDynamicStitch", fixed=["indices"], counts=counts.places, T=ALL)
def dynamic_stitch(c: Lowering) -> Node:
    """Rows of all parts put where their indices say; the last writer of a row wins, rows that no index names are 0."""
    b, n = c.b, c.attr("N")
    parts, index_nodes, count = c.inputs[n:], c.inputs[:n], c.counted("indices")
    row = parts[0].shape[index_nodes[0].rank :]
    for x, indices in zip(parts, index_nodes, strict=True):
        if x.shape != (*indices.shape, *row):
            raise c.error("each part must have its indices' shape, then a shape common to all parts")
    c.require(count != counts.NEGATIVE, "indices must be non-negative")
    rows = b.concat([b.reshape(x, (i.numel, *row)) for x, i in zip(parts, index_nodes, strict=True)], 0)
    places = [c.known(i) for i in index_nodes]
    if any(p is None for p in places):
        wanted = b.concat([b.reshape(i, (i.numel,)) for i in index_nodes], 0)
        return b.scatter(b.const(0, rows.dtype, (count, *row)), rows, [wanted], [0], "set")
    flat = [int(i) for p in places if p is not None for i in p.reshape(-1)]  # of shapes: a gather of known places
    source = [-1] * (max(flat, default=-1) + 1)
    for at, i in enumerate(flat):
        source[i] = at
    if source == list(range(len(flat))):
        return rows
    if not source:
        return b.const(0, rows.dtype, (0, *row))
    return b.gather(rows, [b.literal(np.array(source, np.int32))], [0])


@op("TopKV2", fixed=["k"], T=(*FLOATS, *INTS), Tk=WIDE_INDEX, index_type=WIDE_INDEX)
def top_k(c: Lowering) -> Sequence[Node]:
    """The k largest along the last axis, in falling order; equal ones by rising position."""
    b, x, k = c.b, c.inputs[0], scalar_extent(c, "k")
    c.require(x.rank, "input must have at least one axis")
    n = x.shape[-1]
    c.require(c.at_least(k) and c.at_least(n, k), f"k = {k} must be between 0 and the last axis, {n}")
    flat = b.reshape(x, (ext.product(x.shape[:-1]), n))
    if isinstance(k, int) and isinstance(n, int) and 0 < k <= PICKED and n >= WORTH * k and x.dtype.bits <= 32:
        order = _largest(b, flat, k)
    elif isinstance(k, int) and k > 0:
        order = b.sort(flat, 1, descending=True, first=k)
    else:
        order = c.b.along(b.sort(flat, 1, descending=True), 1, 0, k)
    rows = b.iota(order.shape, 0, DType.I32)
    shape = (*x.shape[:-1], k)
    values = b.reshape(b.gather(flat, [rows, order], [0, 1]), shape)
    return values, b.cast(b.reshape(order, shape), c.attr("index_type", DType.I32))


def _largest(b: Builder, x: Node, k: int) -> Node:
    """The positions [rows, k] of the k largest of each row, as a sort would give them: of those that come behind the
    one before, the largest, and of its equals the first."""
    numbers, lowest = b.iota(x.shape, 1, DType.I32), b.const(-(1 << 31), DType.I32)
    keys, found = _sort_key(b, x), []  # type: Node, list[Node]

    def along(each: Node) -> Node:
        return b.expand(b.reshape(each, (x.shape[0], 1)), x.shape)

    left, best, at = None, keys, numbers  # type: Node | None, Node, Node
    for _ in range(k):
        if found:
            again = b.map("and", b.map("eq", keys, best), b.map("gt", numbers, at))
            left = b.map("or", b.map("lt", keys, best), again)
        best = along(b.reduce("max", keys if left is None else b.select(left, keys, lowest), [1]))
        equal = b.map("eq", keys, best)
        equal = equal if left is None else b.map("and", equal, left)
        found.append(b.reduce("min", b.select(equal, numbers, b.const((1 << 31) - 1, DType.I32)), [1]))
        at = along(found[-1])
    return b.concat([b.reshape(each, (x.shape[0], 1)) for each in found], 1)


def _sort_key(b: Builder, x: Node) -> Node:
    """Integers that order as numbers of up to 32 bits do, NaN above all."""
    if not x.dtype.is_float:
        # what is added to one without a sign turns its order into that of integers with one
        offset = b.const(-(1 << 31) if x.dtype is DType.U32 else 0, DType.I32, x.shape)
        return b.map("xor", b.cast(x, DType.I32), offset)
    return float_key(b, x)


@op("InTopK", T=INDEX)
@op("InTopKV2", T=INDEX, host=["k"])
def in_top_k(c: Lowering) -> Node:
    """Whether fewer than k predictions of a row are larger than the target's; never beside NaN or infinities."""
    b, x, targets = c.b, c.input("predictions"), c.input("targets")
    if x.rank != 2 or targets.rank != 1 or x.shape[0] != targets.shape[0]:
        raise c.error("predictions must be [batch, classes] and targets [batch]")
    k = c.inputs[2] if c.op == "InTopKV2" else b.const(c.attr("k"), DType.I32)
    rows = b.iota(targets.shape, 0, targets.dtype)
    mine = b.gather(x, [rows, targets], [0, 1])
    larger = b.map("gt", x, b.broadcast_in_dim(mine, x.shape, [0]))
    number = b.reduce("sum", b.cast(larger, DType.I32), [1])
    usable = b.reduce("min", b.cast(b.map("isfinite", x), DType.I32), [1])
    classes = b.expand(b.extent(x.shape[1], targets.dtype), targets.shape)
    inside = b.map("and", b.map("ge", targets, b.const(0, targets.dtype, targets.shape)), b.map("lt", targets, classes))
    found = b.map("lt", b.cast(number, DType.I64), b.expand(b.cast(k, DType.I64), number.shape))
    return b.map("and", b.map("and", found, inside), b.cast(usable, DType.BOOL))


@op("NthElement", T=NUMERIC)
def nth_element(c: Lowering) -> Node:
    """The n-th smallest of the last axis (or the n-th largest, with `reverse`)."""
    b, (x, n) = c.b, c.inputs
    order = b.sort(x, x.rank - 1, descending=bool(c.attr("reverse")))
    shape = x.shape[:-1]
    c.context.in_range("n", n, x.shape[-1])
    at = b.expand(b.reshape(n, ()), shape)
    rows = [b.iota(shape, axis, DType.I32) for axis in range(x.rank - 1)]
    place = b.gather(order, [*rows, at], range(x.rank))
    return b.gather(x, [*rows, place], range(x.rank))


@op("ReverseSequence", T=ALL, Tlen=INDEX)
def reverse_sequence(c: Lowering) -> Node:
    """Turns round the first seq_lengths[b] elements of each sequence b."""
    b, (x, lengths) = c.b, c.inputs
    sequence, batch = c.attr("seq_dim"), c.attr("batch_dim", 0)
    if not (0 <= sequence < x.rank and 0 <= batch < x.rank) or sequence == batch:
        raise c.error(f"seq_dim {sequence} and batch_dim {batch} must be two of the {x.rank} axes")
    c.require(lengths.shape == (x.shape[batch],), "seq_lengths must have one number for each sequence")
    shape = (x.shape[batch], x.shape[sequence])
    c.context.in_range("seq_lengths", lengths, ext.add(x.shape[sequence], 1))
    at, count = b.iota(shape, 1, DType.I64), b.broadcast_in_dim(b.cast(lengths, DType.I64), shape, [0])
    turned = b.map("sub", b.map("sub", count, b.const(1, DType.I64, shape)), at)
    place = b.select(b.map("lt", at, count), turned, at)
    out = b.gather(x, [b.iota(shape, 0, DType.I64), place], [batch, sequence])
    rest = [axis for axis in range(x.rank) if axis not in (batch, sequence)]
    order = [batch, sequence, *rest]
    return b.permute(out, [order.index(axis) for axis in range(x.rank)])
