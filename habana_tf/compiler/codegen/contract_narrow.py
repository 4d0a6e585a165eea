"""Whether a product has so few columns (classes, colours, one number per example) that lanes along them would be empty.

What the lanes of a sum run along instead depends on how operand a lies in memory:

    "sum"    rows are contiguous along the sum: a forward product, a convolution. A step is a vector of each row times
             one of each column (b is packed so); the lanes of a sum are added up last.
    "rows"   the rows' own label is contiguous: the gradient of weights, or of a filter. A step is vectors of rows times
             one element of each column; squares of sums are turned over last.

Either way the epilogue gets one vector per row, its first lanes the columns, as from any other product.
"""

from __future__ import annotations

from typing import Literal

from habana_tf.compiler.codegen.contract_tiling import Tiling, points, split_rows
from habana_tf.compiler.contraction import Canonical
from habana_tf.compiler.product_costs import (
    NARROW_COLUMNS,
    NARROW_ROW_VECTORS,
    NARROW_ROWS,
    NARROW_SUM_VECTORS,
    NARROW_SUMS,
)
from habana_tf.hardware.cpu import Target

Lanes = Literal["columns", "sum", "rows"]


def lanes_along(c: Canonical, target: Target, dot: bool) -> Lanes:
    """What lanes run along. dot: whether bf16 is multiplied in pairs."""
    lanes, full = target.lanes, c.columns / target.lanes
    if c.lane in c.batch or not c.k or not c.m or full > NARROW_COLUMNS / 16 or (c.lane and points(c.m) < lanes):
        return "columns"
    last, row = c.k[-1], c.m[-1]
    if (
        last.a == 1
        and isinstance(last.extent, int)
        and not any(last.guards)
        and points(c.k) >= NARROW_SUM_VECTORS * lanes
    ):
        step = lanes * (2 if dot else 1)
        if last.extent / (-(-last.extent // step) * step) > full:
            return "sum"
    if row.a == 1 and isinstance(row.extent, int) and not c.a.guards and c.lane:
        vectors = -(-row.extent // lanes)
        if row.extent / (vectors * lanes) > full:
            return "rows"
    return "columns"


def narrow_tiling(c: Canonical, target: Target, lanes: Lanes) -> Tiling:
    """The register tile: sums for each row and column along the sum, for vectors of rows and each column along rows."""
    columns, registers = c.columns, target.vector_registers
    if lanes == "sum":
        most = max(1, min(NARROW_ROWS, (registers - 2) // columns - 1))
        return Tiling(*split_rows(c, most, False), 1, 1, target.lanes, columns)
    row, beside = c.m[-1], min(NARROW_ROW_VECTORS, (registers - 2) // (columns + 1))
    most = 1 if columns >= NARROW_SUMS else max(1, beside)
    assert isinstance(row.extent, int)
    whole, rest = divmod(row.extent, target.lanes)
    tiles = next((whole // v for v in range(most, most // 2, -1) if not rest and whole % v == 0), 0)
    tiles = tiles or -(-row.extent // (most * target.lanes))
    size = -(-row.extent // tiles)
    return Tiling((), row, size, tiles, tiles - (tiles * size - row.extent), 1, 1, target.lanes, columns)
