"""Vectorization of products with few columns (classes, colours, one number per example), too few to fill a vector.

The lanes of a vector run along another label, depending on the layout of operand a:

    "sum"    a is contiguous along the sum: a forward product, a convolution. A step multiplies a vector of each row by
             one of each column (b is packed so); horizontal sums come last.
    "rows"   a is contiguous along the rows: the gradient of weights or of a filter. A step multiplies vectors of rows
             by an element of each column; blocks of sums are transposed last.

The epilogue gets a vector per row whose first lanes are the columns, as for other products.
"""

from __future__ import annotations

from typing import Literal

from habana_tf.compiler.codegen.tiles.tiling import Tiling, row_tiles, size_of, split_rows
from habana_tf.compiler.contraction import Canonical
from habana_tf.compiler.product_costs import (
    NARROW_COLUMNS,
    NARROW_ROW_VECTORS,
    NARROW_ROWS,
    NARROW_SUM_VECTORS,
    NARROW_SUMS,
)
from habana_tf.hardware.cpu import Target

LaneAxis = Literal["columns", "sum", "rows"]


def lanes_along(c: Canonical, target: Target, dot: bool) -> LaneAxis:
    """What the lanes run along. dot: whether bf16 is multiplied in pairs."""
    lanes, full = target.lanes, c.columns / target.lanes
    if c.lane in c.batch or not c.k or not c.m or full > NARROW_COLUMNS / 16 or (c.lane and size_of(c.m) < lanes):
        return "columns"
    last, row = c.k[-1], c.m[-1]
    if (
        last.a == 1
        and isinstance(last.extent, int)
        and not any(last.guards)
        and size_of(c.k) >= NARROW_SUM_VECTORS * lanes
    ):
        step = lanes * (2 if dot else 1)
        if last.extent / (-(-last.extent // step) * step) > full:
            return "sum"
    if row.a == 1 and isinstance(row.extent, int) and not c.a.guards and c.lane:
        vectors = -(-row.extent // lanes)
        if row.extent / (vectors * lanes) > full:
            return "rows"
    return "columns"


def narrow_tiling(c: Canonical, target: Target, lanes: LaneAxis) -> Tiling:
    """The register tile, with a vector per row and column (lanes along the sum), or per vector of rows and column."""
    columns, registers = c.columns, target.vector_registers
    if lanes == "sum":
        taken = 2 * columns if c.a.dtype.bits == 8 else columns  # as much again to make a row wider
        most = max(1, min(NARROW_ROWS, (registers - 2) // taken - 1))
        return Tiling(*split_rows(c, most, False), 1, 1, target.lanes, columns)
    row, beside = c.m[-1], min(NARROW_ROW_VECTORS, (registers - 2) // (columns + 1))
    most = 1 if columns >= NARROW_SUMS else max(1, beside)
    assert isinstance(row.extent, int)
    whole, rest = divmod(row.extent, target.lanes)
    tiles = next((whole // v for v in range(most, most // 2, -1) if not rest and whole % v == 0), 0)
    tiles = tiles or -(-row.extent // (most * target.lanes))
    size = -(-row.extent // tiles)
    return Tiling((), row, size, *row_tiles(row.extent, size), 1, 1, target.lanes, columns)
