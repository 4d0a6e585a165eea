"""Ops that count: histograms of whole numbers, and where numbers stand among boundaries."""

from __future__ import annotations

from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.arguments import insert_axis, scalar_extent
from habana_tf.tensorflow.lowering.indexing import scatter_wide
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import INDEX, NUMERIC, op

COUNTS = (DType.F32, DType.I32, DType.I64)


def _counted(c: Lowering, numbers: Node, weights: Node | None, binary: bool) -> Node:
    """How often each of 0 .. size - 1 is among `numbers`, per row if they are rows, or the sum of their weights.

    Numbers that are out of range are left out, as by TensorFlow for those that are too large; it refuses negative ones.
    """
    b, size = c.b, scalar_extent(c, "size")
    if isinstance(size, int) and size < 0:
        raise c.error(f"size must be non-negative, not {size}")
    dtype = c.input("weights").dtype
    c.context.in_range("arr" if c.op == "Bincount" else "input", numbers, 1 << (numbers.dtype.bits - 1))  # not negative
    base = b.const(0, dtype, (*numbers.shape[:-1], size))
    values = weights if weights is not None and not binary else b.const(1, dtype, numbers.shape)
    rows = [b.iota(numbers.shape, axis, numbers.dtype) for axis in range(numbers.rank - 1)]
    return scatter_wide(c, base, values, [*rows, numbers], "set" if binary else "add")


def _weights(c: Lowering, numbers: Node) -> Node | None:
    """The weights, or None when there are none, which an empty tensor says."""
    weights = c.input("weights")
    if weights.numel == 0:
        return None
    c.require(weights.shape == numbers.shape, "weights must be empty or have the shape of the numbers")
    return weights


@op("Bincount", fixed=["size"], T=COUNTS)
def bincount(c: Lowering) -> Node:
    numbers, weights = c.input("arr"), _weights(c, c.input("arr"))
    flat = c.b.reshape(numbers, (numbers.numel,))
    return _counted(c, flat, None if weights is None else c.b.reshape(weights, flat.shape), False)


@op("DenseBincount", fixed=["size"], Tidx=INDEX, T=COUNTS)
def dense_bincount(c: Lowering) -> Node:
    numbers = c.input("input")
    c.require(numbers.rank <= 2, "the input must be a vector or a matrix")
    if numbers.rank == 0:
        numbers = c.b.reshape(numbers, (1,))
    return _counted(c, numbers, _weights(c, numbers), bool(c.attr("binary_output")))


@op("Bucketize", T=COUNTS)
def bucketize(c: Lowering) -> Node:
    """How many of the attribute's sorted boundaries are not above each number."""
    b, (x,) = c.b, c.inputs
    x = b.cast(x, DType.F32)
    total = b.const(0, DType.I32, x.shape)
    for boundary in c.attr("boundaries") or ():
        below = b.map("lt", x, b.const(boundary, DType.F32, x.shape))
        total = b.map("add", total, b.cast(b.map("not", below), DType.I32))
    return total


def _stands(c: Lowering, upper: bool) -> Node:
    """Per row, how many of sorted_inputs [B, N] are before each of values [B, M]."""
    b, line, values = c.b, c.input("sorted_inputs"), c.input("values")
    if line.rank != 2 or values.rank != 2 or line.shape[0] != values.shape[0]:
        raise c.error("sorted_inputs and values must be matrices with the same number of rows")
    shape = (*values.shape, line.shape[1])
    each = b.expand(insert_axis(c, line, 1), shape)
    wanted = b.expand(insert_axis(c, values, 2), shape)
    before = b.map("not", b.map("lt", wanted, each)) if upper else b.map("lt", each, wanted)
    return b.cast(b.reduce("sum", b.cast(before, DType.I32), [2]), c.attr("out_type", DType.I32))


@op("LowerBound", T=NUMERIC, out_type=INDEX)
def lower_bound(c: Lowering) -> Node:
    """How many of the sorted numbers are smaller."""
    return _stands(c, False)


@op("UpperBound", T=NUMERIC, out_type=INDEX)
def upper_bound(c: Lowering) -> Node:
    """How many of the sorted numbers are not greater."""
    return _stands(c, True)
