"""The plan of a contraction: its loops, which of them are the grid, and how its operands are packed.

`choose` makes plans; the code generators of contractions read them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from habana_tf.compiler.codegen.tiles.blocks import Blocks
from habana_tf.compiler.codegen.tiles.narrow import LaneAxis
from habana_tf.compiler.codegen.tiles.tiling import Dim, Tiling, panel_loops
from habana_tf.compiler.codegen.tiles.winograd import Winograd
from habana_tf.compiler.costs import MANY_WORK_ITEMS, WORK_ITEMS
from habana_tf.compiler.product_costs import ITEM_WORK, SUMMED_ITEM_ROWS, THREAD_WORK
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent, nominal

Packing = Literal["none", "item", "call", "blocks"]


@dataclass(frozen=True)
class Plan:
    """The loop structure of a contraction's kernels."""

    tiling: Tiling
    dims: tuple[Dim, ...]
    grid_dims: int
    """How many of `dims` are the grid."""
    grain: int
    pack: Packing
    """Packing of b: "none", "item" (each work item packs its panel on the stack), "call" (by a separate call); of both
    operands: "blocks"."""
    dot: bool = False
    """Whether bf16 dot products are used, on pairs along the last k label."""
    widen: bool = False
    """Whether a (bf16) is converted to fp32 by a separate call; otherwise loads widen it (without dot products)."""
    amx: int = 0
    """Pairs per step of AMX products; 0: sums in vector registers."""
    compact: bool = False
    """Whether to prefer little code."""
    blocks: Blocks | None = None
    lanes: LaneAxis = "columns"
    """What lanes run along."""
    streams: bool = False
    """Whether a exceeds a core's own cache."""
    masks_halves: bool = False
    masked_memory: bool = False
    float16: bool = False
    """Of the CPU, see `Target`."""
    winograd: Winograd | None = None
    """The convolution, if Winograd's algorithm computes it; its tiling is that of the transformed filter then."""

    @property
    def chunk(self) -> Dim | None:
        """The loop over chunks of the sum."""
        return next((d for d in self.dims if d.kind == "chunk"), None)

    @property
    def chunks(self) -> Extent:
        """How many there are; 1 for a sum that is not cut."""
        return self.chunk.count if self.chunk else 1

    @property
    def grid(self) -> Extent:
        return ext.product(d.count for d in self.dims[: self.grid_dims])

    @property
    def block_rows(self) -> tuple[Dim, ...]:
        """Of both operands in blocks: the loops over a block's row tiles, which are around the one over its panels."""
        return self.dims[self.grid_dims : -1]

    def length(self, dim: Dim) -> int:
        """The most iterations of a loop within a work item."""
        blocks = (d.size for d in self.dims if d.kind == "block" and (d.of, d.label) == (dim.kind, dim.label))
        return next(blocks, nominal(dim.count))


def by_winograd(w: Winograd) -> Plan:
    columns = panel_loops(w.c, w.tiling)[0].blocks(w.panels)
    dims = [columns, Dim("block", w.blocks, w.tile, w.tiles)]
    if w.gradient:
        dims = [Dim("label", w.chunks, w.chunk), columns, Dim("block", w.channel_blocks, w.channel, w.channels)]
    return Plan(w.tiling, tuple(dims), len(dims), 1, "call", winograd=w)


def in_groups(p: Plan) -> Plan:
    """The plan with more rows per work item, for products with column sums: an item's partial sums should be small
    compared with its results."""
    dims, rows = list(p.dims), [k for k in range(p.grid_dims) if p.dims[k].kind == "rows"]
    if not rows:
        return p
    (place,) = rows
    dim = p.dims[place]
    assert isinstance(dim.count, int)
    length = max(1, min(SUMMED_ITEM_ROWS // p.tiling.rows, nominal(p.grid) // MANY_WORK_ITEMS, dim.count))
    if length == 1:
        return p
    dims[place] = dim.blocks(length)
    dims.insert(p.grid_dims, dim)
    made = replace(p, dims=tuple(dims))
    return replace(made, grain=max(1, p.grain * nominal(made.grid) // nominal(p.grid)))


def with_grid(p: Plan, work: float) -> Plan:
    """Chooses the prefix of the loop order that is the grid."""
    count, grid = 0, 1
    while count < len(p.dims) and (grid < WORK_ITEMS or work / grid > ITEM_WORK):
        grid *= nominal(p.dims[count].count)
        count += 1
    return replace(p, grid_dims=count, grain=grain_for(grid, work))


def grain_for(grid: int, work: float) -> int:
    """The least work items per thread, for some ten microseconds of work."""
    return max(1, min(grid, math.ceil(THREAD_WORK * grid / max(work, 1.0))))
