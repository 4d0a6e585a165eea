"""Ops that address diagonals of stacks of matrices, one or a band of them.

Diagonal d of a matrix holds the elements whose column less row is d. A band from k[0] to k[1] is a matrix of its own,
[k[1] - k[0] + 1, length of the longest], the highest diagonal first; shorter ones are padded on the side that `align`
says. Both ways are one gather whose coordinates follow from rows and columns:

    matrix[r, c] = band[k[1] - d, min(r, c along d) + offset(d)]      d = c - r
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from habana_tf.formulas.term import Term, wrap
from habana_tf.ir import extent as ext
from habana_tf.ir.conditions import Premises
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.arguments import extents, ints
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import ALL, op


def row_minus_column(c: Lowering, shape: Sequence[Extent]) -> Node:
    """For every element of a stack of matrices, its row minus its column."""
    rank = len(shape)
    return c.b.map("sub", c.b.iota(shape, rank - 2, DType.I64), c.b.iota(shape, rank - 1, DType.I64))


@op("MatrixBandPart", host=["num_lower", "num_upper"], T=ALL, Tindex=(DType.I32, DType.I64))
def matrix_band_part(c: Lowering) -> Node:
    """Zero outside the band of num_lower diagonals below and num_upper above the main one (negative: all)."""
    b, x = c.b, c.inputs[0]
    c.require(x.rank >= 2, "needs a stack of matrices")
    below = row_minus_column(c, x.shape)
    inside = b.const(True, DType.BOOL, x.shape)
    for bound, distance in ((c.inputs[1], below), (c.inputs[2], b.map("neg", below))):
        limit = b.cast(b.reshape(bound, ()), DType.I64)
        unbounded = b.map("lt", limit, b.const(0, DType.I64))
        fits = b.map("le", distance, b.expand(limit, x.shape))
        inside = b.map("and", inside, b.map("or", fits, b.expand(unbounded, x.shape)))
    return b.select(inside, x, b.const(0, x.dtype))


# -- the main diagonal ----------------------------------------------------------------------------------------


def _on_diagonal(c: Lowering, diagonal: Node, other: Node) -> Node:
    """`other` with its main diagonals replaced."""
    b, shape = c.b, other.shape
    n = c.premises.smallest(*shape[-2:])
    c.require(diagonal.shape == (*shape[:-2], n), f"the diagonal must have shape {[*shape[:-2], n]}")
    rows = b.pad(diagonal, [0] * diagonal.rank, [*[0] * (diagonal.rank - 1), ext.add(shape[-2], ext.mul(n, -1))])
    here = b.map("eq", row_minus_column(c, shape), b.const(0, DType.I64, shape))
    return b.select(here, b.expand(b.reshape(rows, (*rows.shape, 1)), shape), other)


def _diagonal(c: Lowering, x: Node) -> Node:
    """The main diagonals: every (columns + 1)th element of each flattened matrix; where their size is a symbol, the
    elements of each row that stand on it, of which there is one."""
    b = c.b
    *batch, m, n = x.shape
    least = c.premises.smallest(m, n)
    if not isinstance(n, int):
        square = b.slice(x, [0] * x.rank, (*batch, least, least))
        here = b.map("eq", row_minus_column(c, square.shape), b.const(0, DType.I64, square.shape))
        kind, zero = ("max", False) if x.dtype is DType.BOOL else ("sum", 0)
        return b.reduce(kind, b.select(here, square, b.const(zero, x.dtype)), [x.rank - 1])
    flat = b.reshape(x, (*batch, ext.mul(m, n)))
    zeros = [0] * len(batch)
    return b.slice(flat, [*zeros, 0], (*batch, least), [*(1 for _ in batch), n + 1])


@op("MatrixDiag", "BatchMatrixDiag", T=ALL)
def matrix_diag(c: Lowering) -> Node:
    (x,) = c.inputs
    return _on_diagonal(c, x, c.b.const(0, x.dtype, (*x.shape, x.shape[-1])))


op("MatrixDiagPart", "BatchMatrixDiagPart", T=ALL)(lambda c: _diagonal(c, c.inputs[0]))
op("MatrixSetDiag", "BatchMatrixSetDiag", T=ALL)(lambda c: _on_diagonal(c, c.inputs[1], c.inputs[0]))


@op("Diag", T=(DType.F32, DType.BF16, DType.I32, DType.I64))
def diag(c: Lowering) -> Node:
    """A tensor of shape s on the diagonal of one of shape s + s."""
    (x,) = c.inputs
    n = ext.product(x.shape)
    flat = c.b.reshape(x, (n,))
    return c.b.reshape(_on_diagonal(c, flat, c.b.const(0, x.dtype, (n, n))), (*x.shape, *x.shape))


@op("DiagPart", T=(DType.F32, DType.BF16, DType.I32, DType.I64))
def diag_part(c: Lowering) -> Node:
    """The diagonal, of shape s, of a tensor of shape s + s."""
    (x,) = c.inputs
    half = x.shape[: x.rank // 2]
    c.require(x.rank and (*half, *half) == x.shape, "the shape must be one shape twice")
    n = ext.product(half)
    return c.b.reshape(_diagonal(c, c.b.reshape(x, (n, n))), half)


# -- bands ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Band:
    """The diagonals low..high of matrices [rows, columns]; the sides to which those above and below are aligned."""

    low: int
    high: int
    rows: Extent
    columns: Extent
    align: str
    premises: Premises

    @property
    def count(self) -> int:
        return self.high - self.low + 1

    def length(self, d: int) -> Extent:
        return self.premises.smallest(ext.add(self.rows, min(d, 0)), ext.add(self.columns, -max(d, 0)))

    @property
    def longest(self) -> Extent:
        return self.premises.largest(*(self.length(d) for d in range(self.low, self.high + 1)))

    def begins(self, c: Lowering, d: Term) -> Term:
        """Where diagonal d begins in its row of the band: 0, or the padding if it is aligned to the right."""
        rows, columns, longest = (Term(c.b, c.b.extent(n, DType.I32)) for n in (self.rows, self.columns, self.longest))
        length = (d.min(0) + rows).min(columns - d.max(0))
        above, below = self.align.split("_")
        left = Term(c.b, c.b.const(False, DType.BOOL, d.node.shape))
        if above == "LEFT":
            left = left.test("or", d.test("ge", 0))
        if below == "LEFT":
            left = left.test("or", d.test("le", 0))
        padding = longest - length
        return left.where(padding * 0, padding)

    def shape(self, batch: Sequence[Extent]) -> tuple[Extent, ...]:
        return (*batch, self.longest) if self.count == 1 else (*batch, self.count, self.longest)


def _limits(c: Lowering) -> tuple[int, int]:
    k = ints(c, "k")
    if len(k) not in (1, 2) or k[0] > k[-1]:
        raise c.error(f"k = {k} must be one diagonal, or the lowest and the highest of a band")
    return k[0], k[-1]


def _band(c: Lowering, limits: tuple[int, int], rows: Extent, columns: Extent) -> _Band:
    low, high = limits
    inside = c.at_least(rows, 1 - low) and low <= high and c.at_least(columns, high + 1)
    if not inside and (low, high) != (0, 0):
        raise c.error(f"diagonals {low} to {high} do not lie in matrices of {rows} rows and {columns} columns")
    return _Band(low, high, rows, columns, c.attr("align", "LEFT_LEFT"), c.premises)


def _from_band(c: Lowering, band: _Band, diagonals: Node, other: Node) -> Node:
    """`other`, [batch.., rows, columns], with the diagonals of the band replaced."""
    b, shape = c.b, other.shape
    batch = shape[:-2]
    c.require(diagonals.shape == band.shape(batch), f"the diagonals must have shape {list(band.shape(batch))}")
    place = (band.rows, band.columns)
    row, column = (wrap(b, b.iota(place, axis, DType.I32)) for axis in (0, 1))
    d = column - row
    along = row.min(column) + band.begins(c, d)
    inside = d.test("ge", band.low).test("and", d.test("le", band.high))
    full = b.reshape(diagonals, (*batch, band.count, band.longest))
    axes = [len(batch), len(batch) + 1]
    taken = b.gather(full, [(band.high - d).node, along.node], axes)  # [rows, columns, batch..]
    taken = b.permute(taken, [*range(2, taken.rank), 0, 1])
    return b.select(inside.node, taken, other)


def _to_band(c: Lowering, band: _Band, x: Node) -> Node:
    """The diagonals of x, padded with `padding_value`."""
    b = c.b
    batch = x.shape[:-2]
    place = (band.count, band.longest)
    d = band.high - wrap(b, b.iota(place, 0, DType.I32))
    along = wrap(b, b.iota(place, 1, DType.I32)) - band.begins(c, d)
    row, column = along - d.min(0), along + d.max(0)
    inside = along.test("ge", 0).test("and", row.test("lt", _number(c, band.rows)))
    inside = inside.test("and", column.test("lt", _number(c, band.columns)))
    taken = b.gather(x, [row.node, column.node], [len(batch), len(batch) + 1])
    taken = b.permute(taken, [*range(2, taken.rank), 0, 1])
    padding = b.reshape(c.input("padding_value"), ())
    return b.reshape(b.select(inside.node, taken, padding), band.shape(batch))


def _number(c: Lowering, n: Extent) -> Term:
    return Term(c.b, c.b.extent(n, DType.I32))


@op("MatrixDiagV2", "MatrixDiagV3", fixed=["k", "num_rows", "num_cols"], T=ALL)
def matrix_diag_band(c: Lowering) -> Node:
    """Matrices with the given diagonals, `padding_value` elsewhere."""
    x, (low, high) = c.inputs[0], _limits(c)
    shape = x.shape
    batch = shape[:-1] if low == high else shape[:-2]
    rows, columns = extents(c, "num_rows")[0], extents(c, "num_cols")[0]
    least = (ext.add(shape[-1], -min(high, 0)), ext.add(shape[-1], max(low, 0)))
    if rows == columns == -1:
        rows = columns = c.premises.largest(*least)
    else:
        rows, columns = (least[0] if rows == -1 else rows), (least[1] if columns == -1 else columns)
    other = c.b.expand(c.b.reshape(c.input("padding_value"), ()), (*batch, rows, columns))
    if low == high == 0:
        return _on_diagonal(c, x, other)
    band = _Band(low, high, rows, columns, c.attr("align", "LEFT_LEFT"), c.premises)  # TensorFlow cuts off the rest
    return _from_band(c, band, x, other)


@op("MatrixDiagPartV2", "MatrixDiagPartV3", fixed=["k"], T=ALL)
def matrix_diag_part_band(c: Lowering) -> Node:
    x, limits = c.inputs[0], _limits(c)
    c.require(c.input("padding_value").numel == 1, "padding_value must be a scalar")
    if limits == (0, 0):
        return _diagonal(c, x)
    rows, columns = x.shape[-2:]
    return _to_band(c, _band(c, limits, rows, columns), x)


@op("MatrixSetDiagV2", "MatrixSetDiagV3", fixed=["k"], T=ALL)
def matrix_set_diag_band(c: Lowering) -> Node:
    x, diagonals, limits = c.inputs[0], c.inputs[1], _limits(c)
    if limits == (0, 0):
        return _on_diagonal(c, diagonals, x)
    rows, columns = x.shape[-2:]
    return _from_band(c, _band(c, limits, rows, columns), diagonals, x)
