"""Register blocking of contractions: the number of rows and of vectors of columns of the register tile.

The rows are whole inner m labels times a part of the next one, so that row offsets are constants; other rows have a
second variant of the tile, one step smaller (13+13, not 14+12). Columns are up to four vectors along the lane label.
Each variant is code to compile, so tiles that need only one are preferred if about as fast. In compact code (see
`choose`) the last tile overlaps the one before instead of a second variant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from habana_tf.compiler.contraction import Canonical, Label
from habana_tf.compiler.product_costs import (
    COMPACT_REPEATED,
    COMPACT_SLOWER,
    LEAST_TILE_ROWS,
    LOAD_BESIDE,
    LOAD_WORK,
    STEP_WORK,
    TILE_FORM_WORK,
)
from habana_tf.hardware.cpu import Target, TileEngine
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent, nominal


@dataclass(frozen=True)
class Tiling:
    """The register tile. Labels `whole` are within it; `split` (if any) is cut into `tiles` parts, the first `large` of
    them of `size`, the others of size - 1. If all are large and exceed the extent, the last one overlaps."""

    whole: tuple[Label, ...]
    split: Label | None
    size: int
    tiles: Extent
    large: Extent
    vectors: int
    panels: int
    lanes: int
    columns: int

    @property
    def width(self) -> int:
        """Columns of a full panel."""
        return self.vectors * self.lanes

    @property
    def rows(self) -> int:
        return self.size * size_of(self.whole)

    @property
    def overlaps(self) -> bool:
        """Whether the last tile overlaps the one before, so that all have one size."""
        if self.split is None:
            return False
        extent = self.split.extent
        return not isinstance(extent, int) or (self.large == self.tiles and self.size * nominal(self.tiles) > extent)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of tiles along the split label."""
        if self.split is not None and not isinstance(self.split.extent, int):
            return (self.size, 1) if self.size > 1 else (1,)
        return (self.size, self.size - 1) if nominal(self.large) < nominal(self.tiles) else (self.size,)

    @property
    def tail_vectors(self) -> int:
        """Vectors of the last panel."""
        return -(-(self.columns - (self.panels - 1) * self.width) // self.lanes)

    @property
    def tail_active(self) -> int:
        """Valid lanes in the last vector of all."""
        return (self.columns - 1) % self.lanes + 1


LoopKind = Literal["label", "rows", "panels", "chunk", "block"]


@dataclass(frozen=True)
class Dim:
    """A loop. kind: "label" (a label's indices), "rows" (its row tiles), "panels" (column panels), "chunk" (chunks of
    `size` steps of a k label), or "block" (blocks of `size` iterations of an inner loop of kind `of`)."""

    kind: LoopKind
    count: Extent
    label: Label | None = None
    size: int = 1
    of: LoopKind = "label"

    def blocks(self, size: int) -> Dim:
        """The loop over blocks of this one."""
        return Dim("block", ext.ceil_div(self.count, size), self.label, size, self.kind)


def loops_over(labels: Iterable[Label]) -> list[Dim]:
    return [Dim("label", x.extent, x) for x in labels]


def row_loops(c: Canonical, t: Tiling) -> list[Dim]:
    """The loops over row tiles."""
    around = loops_over(x for x in c.m if x not in t.whole and x != t.split)
    return [*around, Dim("rows", t.tiles, t.split)] if t.split else around


def panel_loops(c: Canonical, t: Tiling) -> list[Dim]:
    """The loop over column panels, if there are columns."""
    return [Dim("panels", t.panels, c.lane)] if c.lane else []


def row_starts(t: Tiling, size: int) -> list[int]:
    """The starts of row tiles of this size along the split label."""
    assert isinstance(t.tiles, int) and isinstance(t.large, int) and t.split is not None
    if t.overlaps:
        return [min(i * t.size, nominal(t.split.extent) - t.size) for i in range(t.tiles)]
    starts = [i * t.size - max(0, i - t.large) for i in range(t.tiles)]
    return starts[: t.large] if size == t.size else starts[t.large :]


def size_of(labels: Iterable[Label]) -> int:
    """The product of the labels' nominal extents."""
    return math.prod(nominal(x.extent) for x in labels)


def trip_count(dims: Iterable[Dim]) -> int:
    """The product of the loops' nominal trip counts."""
    return math.prod(nominal(d.count) for d in dims)


def tiling(c: Canonical, target: Target, compact: bool = False, widest: int = 4) -> Tiling:
    """The tile with the least code of those whose estimated time per k step is within a margin of the best:
    `COMPACT_SLOWER` for compact code, otherwise less, so that compile time (`TILE_FORM_WORK`) and run time balance."""
    lanes = target.lanes
    needed = -(-c.columns // lanes)
    found: list[tuple[float, int, Tiling]] = []
    for vectors, most in _forms(c, target, min(needed, widest)):
        t = split_rows(c, most, compact)
        panels = -(-needed // vectors)
        tile = Tiling(*t, vectors, panels, lanes, c.columns)
        whole = size_of(t[0])
        outer = size_of(c.m) // (whole * size_of([t[1]] if t[1] else []))
        tiles_large, tiles_all = nominal(t[4]), nominal(t[3])
        cost = 0.0
        for rows, tiles in ((t[2], tiles_large), (t[2] - 1, tiles_all - tiles_large)):
            for v, count in ((vectors, panels - 1), (tile.tail_vectors, 1)):
                work = rows * whole * v
                loads = v + rows * whole * (v if c.lane in c.batch else 1)
                cost += tiles * count * (max(work, LOAD_WORK * loads, STEP_WORK) + LOAD_BESIDE * loads + 1)
        second = panels > 1 and (tile.tail_vectors, tile.tail_active) != (vectors, lanes)
        code = sum(tile.sizes) * whole * (vectors + second * tile.tail_vectors)
        found.append((cost * outer, code, tile))
    least = min(cost for cost, _, _ in found)
    product = size_of(c.m) * size_of(c.k) * size_of(c.outer) * needed
    slower = COMPACT_SLOWER if compact else min(COMPACT_SLOWER, TILE_FORM_WORK / max(1, product))
    return min((x for x in found if x[0] <= least * (1 + slower)), key=lambda x: (x[1], x[0]))[2]


def _forms(c: Canonical, target: Target, widest: int) -> Iterator[tuple[int, int]]:
    """Candidates (vectors, rows): the most rows that fit into registers, and the most that divide the extent."""
    for vectors, most in target.register_tiles.items():
        if vectors > max(widest, 1):
            continue
        yield vectors, most
        last = c.m[-1].extent if c.m else 1
        if isinstance(last, int) and last > most:
            even = next((n for n in range(most, 0, -1) if last % n == 0), 1)
            if LEAST_TILE_ROWS <= even < most:
                yield vectors, even


def split_rows(c: Canonical, most: int, compact: bool) -> tuple[tuple[Label, ...], Label | None, int, Extent, Extent]:
    """(whole, split, size, tiles, large) of a `Tiling` with at most `most` rows."""
    whole: list[Label] = []
    rows = 1
    for label in reversed(c.m):
        n = label.extent
        if isinstance(n, int) and rows * n <= most:
            whole.insert(0, label)
            rows *= n
            continue
        size = most // rows
        if not isinstance(n, int):
            return tuple(whole), label, size, *row_tiles(n, size)
        size = -(-n // -(-n // size))
        again = -(-n // size) * size - n
        return tuple(whole), label, size, *row_tiles(n, size, compact and again <= n * COMPACT_REPEATED)
    return tuple(whole), None, 1, 1, 1


def row_tiles(extent: Extent, size: int, overlapping: bool = False) -> tuple[Extent, Extent]:
    """The number of tiles of `size` and size - 1 that make an extent, and of those of `size`: all, if the last one may
    overlap the one before."""
    tiles = ext.ceil_div(extent, size)
    if overlapping or not isinstance(extent, int) or not isinstance(tiles, int):
        return tiles, tiles
    return tiles, tiles - (tiles * size - extent)


def amx_tiling(c: Canonical, engine: TileEngine, compact: bool, packed: bool = False) -> Tiling:
    """Two groups of rows by two vectors if there are enough rows, else one group by up to four. packed: all rows have
    equal distances, not only those along the last label."""
    group, lanes = engine.rows, engine.row_bytes // 4
    last = group if packed else nominal(c.m[-1].extent)
    t = split_rows(c, 2 * min(last, group), compact)
    two = t[2] * size_of(t[0]) > min(last, group)
    needed = -(-c.columns // lanes)
    vectors = min(needed, 2 if two else 4)
    return Tiling(*t, vectors, -(-needed // vectors), lanes, c.columns)
