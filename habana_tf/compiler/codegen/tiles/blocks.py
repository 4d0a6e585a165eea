"""Cache blocking of contractions with packing of both operands (as in GotoBLAS): blocks of rows, columns and the sum.

    work item    a block of row tiles x a block of column panels
    block        of the sum, some 256 steps: a's rows [tile][step][row] and b's panels [panel][step][column] are packed
                 on the item's stack, then all tiles are multiplied by all panels; sums are in memory between blocks

Packing handles strided rows, guards (padding becomes zeros) and bf16 (pairs, or widened). Copies are padded with zeros
to the unrolling of the inner loop.

Packing pays if elements are reused often: a row by many panels, a column by many rows. It is required for some guards
and for a tile engine; otherwise `choose` estimates it. On a CPU with one vector multiply-add per cycle packing
took a tenth of the time, and reading a in place was faster for all strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from habana_tf.compiler.codegen.tiles.tiling import Dim, Tiling, panel_loops, row_loops, size_of, trip_count
from habana_tf.compiler.contraction import Canonical, Label
from habana_tf.compiler.costs import MANY_WORK_ITEMS
from habana_tf.compiler.product_costs import (
    BLOCK_COLUMN_BYTES,
    BLOCK_ROW_BYTES,
    BLOCK_ROWS,
    BLOCK_STEPS,
    BLOCK_SUM_BYTES,
    LOW_BLOCK_ROWS,
    LOW_BLOCK_STEPS,
)
from habana_tf.ir.extent import nominal


@dataclass(frozen=True)
class Blocks:
    """Of the sum's labels, `outer` ones are loops around blocks, `split` (if any) is cut into parts of `steps`, `whole`
    ones are within a block."""

    outer: tuple[Label, ...]
    split: Label | None
    steps: int
    whole: tuple[Label, ...]

    @property
    def inside(self) -> tuple[Label, ...]:
        """The labels within a block; only the first one's extent varies, at its end."""
        return ((self.split,) if self.split else ()) + self.whole


def is_low(c: Canonical) -> bool:
    """Whether blocks of b are low and wide (see `LOW_BLOCK_ROWS`)."""
    return size_of(c.m) <= LOW_BLOCK_ROWS and c.lane is not None and c.lane.b == 1


def along_sum(c: Canonical, dot: bool, unit: int) -> Blocks:
    """The sum in blocks. unit: steps of the last label that are multiplied at once."""
    words = LOW_BLOCK_STEPS if is_low(c) else BLOCK_STEPS
    most, inside, whole = words * (2 if dot else 1), 1, []  # type: int, int, list[Label]
    for place in reversed(range(len(c.k))):
        label = c.k[place]
        n = label.extent
        if isinstance(n, int) and inside * n <= most:
            whole.insert(0, label)
            inside *= n
            continue
        steps = max(1, most // inside)
        if isinstance(n, int):
            steps = -(-n // -(-n // steps))
        if not whole:
            steps = -(-steps // unit) * unit
        return Blocks(c.k[:place], label, steps, tuple(whole))
    return Blocks((), None, 1, tuple(whole))


def cut(c: Canonical, t: Tiling, dot: bool, amx: int, head: Sequence[Dim]) -> tuple[Blocks, tuple[Dim, ...], int]:
    """The blocks, all loops of the kernel, and how many of them are the grid. amx: pairs per step of a tile engine, or
    0; head: the outermost grid dimensions."""
    unit = (2 if dot else 1) * max(1, amx)
    blocks = along_sum(c, dot, unit)
    whole = blocks.whole
    last = nominal(whole[-1].extent) if whole else blocks.steps
    turns = size_of(whole) * blocks.steps // last * -(-last // unit)  # of the inner loop's instructions
    panels = max(1, min(t.panels, BLOCK_COLUMN_BYTES // (turns * max(1, amx) * t.width * 4)))
    most = BLOCK_ROW_BYTES // (turns * slots(t, amx) * (64 if amx else 4))
    if blocks.outer or blocks.split is not None:
        most = min(most, BLOCK_SUM_BYTES // (t.rows * panels * t.width * 4))
    tiles_wanted = max(1, most)
    loops = row_loops(c, t)
    items = trip_count(head) * -(-t.panels // panels)
    tiles = trip_count(loops)
    # Fewer rows in a block where there would be too few items, but enough to pay for packing the columns.
    enough = max(1, min(tiles_wanted, -(-BLOCK_ROWS // t.rows)))
    tiles_wanted = max(enough, min(tiles_wanted, tiles * items // MANY_WORK_ITEMS))
    panels = -(-t.panels // -(-t.panels // panels))
    inner: list[Dim] = []
    front: list[Dim] = []
    count = 1
    for dim in reversed(loops):
        n = dim.count
        if front:
            front.insert(0, dim)
        elif isinstance(n, int) and count * n <= tiles_wanted:
            inner.insert(0, dim)
            count *= n
        else:
            length = max(1, tiles_wanted // count)
            if isinstance(n, int):
                length = -(-n // -(-n // length))
            front.insert(0, dim.blocks(length))
            inner.insert(0, dim)
            count *= length
    (columns,) = panel_loops(c, t)
    grid = (*head, *front, columns.blocks(panels))
    return blocks, (*grid, *inner, columns), len(grid)


def slots(t: Tiling, amx: int) -> int:
    """Rows per step of a packed row tile, padding included. Runs of rows are padded to whole vectors; with a single run
    of words the next step overwrites the excess instead."""
    if not t.whole and t.size <= t.lanes and not amx:
        return t.size
    run = size_of(t.whole[-1:]) if t.whole else t.size
    return t.rows - run + -(-run // t.lanes) * t.lanes
