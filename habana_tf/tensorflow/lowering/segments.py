"""Rows combined by segment, of a tensor (`UnsortedSegment*`, `SegmentSum`) or of rows picked from it
(`SparseSegment*`, which is how sparse embeddings are combined).

    sparse    out[s] = sum of data[indices[i]] over the i with segment_ids[i] = s, divided by
              their number (mean) or its square root

A product with a sparse matrix is such a sum too. Sums of short floats are kept in float32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from habana_tf.cluster import counts
from habana_tf.formulas.ordering import limits
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.arguments import extents, scalar_extent
from habana_tf.tensorflow.lowering.indexing import gather_axis, scatter_wide
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import FLOATS, INDEX, NUMERIC, op


def combined(c: Lowering, data: Node, ids: Node, kind: str, count: Extent, start: float | None = None) -> Node:
    """The rows of `data` combined by segment, from `start` on or what changes nothing; negative ids are left out."""
    c.require(data.shape[: ids.rank] == ids.shape, "data's shape must begin with that of segment_ids")
    if isinstance(count, int) and count < 0:
        raise c.error(f"num_segments must be non-negative, not {count}")
    c.context.in_range("segment_ids", ids, count, negative=True)
    if start is None:
        least, greatest = limits(data.dtype)
        start = {"add": 0, "mul": 1, "max": least, "min": greatest}[kind]
    base = c.b.const(start, data.dtype, (count, *data.shape[ids.rank :]))
    return scatter_wide(c, base, data, [ids], kind)


def _unsorted(kind: str) -> Callable[[Lowering], Node]:
    return lambda c: combined(c, c.inputs[0], c.inputs[1], kind, scalar_extent(c, "num_segments"))


_KINDS = {"Sum": "add", "Prod": "mul", "Max": "max", "Min": "min"}
for _names, _kind in [*((f"UnsortedSegment{name}", kind) for name, kind in _KINDS.items()), ("SegmentSumV2", "add")]:
    op(_names, fixed=["num_segments"], T=NUMERIC, Tindices=INDEX, Tnumsegments=INDEX)(_unsorted(_kind))


def _sorted_count(c: Lowering) -> Extent:
    """The number of segments, which the last (greatest) id fixes."""
    count = c.counted("segment_ids")
    c.require(count != counts.UNORDERED, "segment ids are not increasing")
    c.require(count != counts.NEGATIVE, "segment ids must be non-negative")
    return count


def _sorted(kind: str) -> Callable[[Lowering], Node]:
    """An op over sorted ids; a segment without rows is 0 (1 for a product)."""

    def lower(c: Lowering) -> Node:
        b, (data, ids), count = c.b, c.inputs, _sorted_count(c)
        if kind == "mean":
            total = combined(c, b.cast(data, data.dtype.accumulator), ids, "add", count)
            return b.cast(_shared(c, total, ids, count, 1.0), data.dtype)
        if kind in ("add", "mul"):
            return combined(c, data, ids, kind, count)
        infinity = (math.inf if kind == "min" else -math.inf) if data.dtype.is_float else None
        found = combined(c, data, ids, kind, count, infinity)
        rows = b.scatter(b.const(False, DType.BOOL, (count,)), b.const(True, DType.BOOL, ids.shape), [ids], [0], "set")
        return b.select(b.broadcast_in_dim(rows, found.shape, [0]), found, b.const(0, data.dtype))

    return lower


for _name, _kind in {**_KINDS, "Mean": "mean"}.items():
    op(f"Segment{_name}", fixed=["segment_ids"], counts=counts.segments, T=FLOATS if _name == "Mean" else NUMERIC,
       Tindices=INDEX)(_sorted(_kind))  # fmt: skip


# -- rows picked first ----------------------------------------------------------------------------------------


def _shares(c: Lowering, ids: Node, count: Extent, power: float) -> Node:
    """float32[count]: (elements of the segment) ** -power, 1 for an empty one."""
    b = c.b
    ones = b.const(1, DType.F32, ids.shape)
    number = b.scatter(b.const(0, DType.F32, (count,)), ones, [ids], [0], "add")
    number = b.map("max", number, b.const(1, DType.F32, (count,)))
    return b.map("pow", number, b.const(-power, DType.F32, (count,)))


def _shared(c: Lowering, total: Node, ids: Node, count: Extent, power: float) -> Node:
    """The sums of segments times their shares."""
    return c.b.map("mul", total, c.b.broadcast_in_dim(_shares(c, ids, count, power), total.shape, [0]))


def _sparse(power: float, sizes: Callable[[Lowering], Extent]) -> Callable[[Lowering], Node]:
    def lower(c: Lowering) -> Node:
        b, data, indices, ids = c.b, c.input("data"), c.input("indices"), c.input("segment_ids")
        count = sizes(c)
        wide = b.cast(gather_axis(c, data, indices, 0), data.dtype.accumulator)
        total = combined(c, wide, ids, "add", count)
        total = _shared(c, total, ids, count, power) if power else total
        return b.cast(total, data.dtype)

    return lower


def _sparse_gradient(power: float) -> Callable[[Lowering], Node]:
    def lower(c: Lowering) -> Node:
        b, dy, indices, ids = c.b, c.input("grad"), c.input("indices"), c.input("segment_ids")
        rows = b.cast(gather_axis(c, dy, ids, 0), dy.dtype.accumulator)
        if power:
            share = b.gather(_shares(c, ids, dy.shape[0], power), [ids], [0])
            rows = b.map("mul", rows, b.broadcast_in_dim(share, rows.shape, [0]))
        return b.cast(combined(c, rows, indices, "add", scalar_extent(c, "output_dim0")), dy.dtype)

    return lower


for _name, _power in {"Sum": 0.0, "Mean": 1.0, "SqrtN": 0.5}.items():
    op(f"SparseSegment{_name}", fixed=["segment_ids"], counts=counts.segments, T=FLOATS, Tidx=INDEX,
       Tsegmentids=INDEX)(_sparse(_power, _sorted_count))  # fmt: skip
    op(f"SparseSegment{_name}WithNumSegments", fixed=["num_segments"], T=FLOATS, Tidx=INDEX, Tsegmentids=INDEX,
       Tnumsegments=INDEX)(_sparse(_power, lambda c: scalar_extent(c, "num_segments")))  # fmt: skip
    op(f"SparseSegment{_name}Grad", fixed=["output_dim0"], T=FLOATS, Tidx=INDEX, Tsegmentids=INDEX)(
        _sparse_gradient(_power)
    )


@op("SparseTensorDenseMatMul", fixed=["a_shape"], T=FLOATS, Tindices=INDEX)
def sparse_times_dense(c: Lowering) -> Node:
    """The product of a matrix, given by the places and values of its elements, with a dense one."""
    b, places, values, dense = c.b, c.input("a_indices"), c.input("a_values"), c.input("b")
    sizes = extents(c, "a_shape")
    if len(sizes) != 2 or places.rank != 2 or places.shape[1] != 2 or values.shape != places.shape[:1]:
        raise c.error("a_indices must be [elements, 2], a_values [elements] and a_shape two numbers")
    row, column = (b.reshape(c.b.along(places, 1, k, 1), values.shape) for k in (0, 1))
    if c.attr("adjoint_a"):
        row, column, sizes = column, row, sizes[::-1]
    dense = b.permute(dense, (1, 0)) if c.attr("adjoint_b") else dense
    if dense.rank != 2 or dense.shape[0] != sizes[1]:
        raise c.error(f"matrices of shapes {sizes} and {list(dense.shape)} do not multiply")
    wide = values.dtype.accumulator
    c.context.in_range("a_indices", row, sizes[0])
    rows = b.cast(gather_axis(c, dense, column, 0), wide)
    parts = b.map("mul", rows, b.broadcast_in_dim(b.cast(values, wide), rows.shape, [0]))
    total = b.scatter(b.const(0, wide, (sizes[0], dense.shape[1])), parts, [row], [0], "add")
    return b.cast(total, values.dtype)
