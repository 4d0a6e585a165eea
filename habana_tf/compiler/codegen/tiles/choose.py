"""Tiling decisions of contractions: loop order, packing, splits of k, and the grid.

Each variant of a register tile is code to compile, some milliseconds. *Compact* code, for products that run shorter
than that, has a last tile that overlaps the one before (some rows are computed twice, with the same result) instead of
a second variant, even column panels if nearly free, and less unrolling. It is a few per cent slower, and compiled in
half the time or less.

Loop order, outermost first: [k chunk, batch, outer n, ...] then
    b small (fits the second-level cache):  m..., row tiles, column panels     a tile of a is reused for all of b
    otherwise:                              panels, m..., row tiles            a panel of b is reused for all rows
A prefix of the order is the grid; the rest are loops within a work item.

Both operands are packed in blocks (see `blocks`) if the tile engine cannot read a in place, if guards do not
allow it, if it is faster than strided reads of a, or if one has 8 bits: making them wider takes as long as several
multiply-adds, so each number should be made wider once; and lines of the longest rows are read side by side.

The sum is split into chunks of k (split k), whose partial sums a second call adds in fixed order, if there are too few
tiles for the grid, or if a and b are far larger than the cache and the result is small. No decision depends on the
number of threads, so neither do results.

Symbolic extents count as their nominal sizes in estimates. A symbolic row label is never whole in a tile; its last tile
overlaps the one before, and an extent smaller than a tile is processed row by row. A symbolic label of the sum is a
loop, or split into chunks of constant size, the last one shorter.
"""

from __future__ import annotations

import math
from dataclasses import replace

from habana_tf.compiler.codegen.tiles.accumulate import short_runs
from habana_tf.compiler.codegen.tiles.blocks import cut, is_low
from habana_tf.compiler.codegen.tiles.narrow import LaneAxis, lanes_along, narrow_tiling
from habana_tf.compiler.codegen.tiles.plan import Packing, Plan, grain_for, with_grid
from habana_tf.compiler.codegen.tiles.tiling import (
    Dim,
    Tiling,
    amx_tiling,
    loops_over,
    panel_loops,
    row_loops,
    size_of,
    tiling,
    trip_count,
)
from habana_tf.compiler.contraction import Canonical, Label, guards_in_place, packable
from habana_tf.compiler.costs import CACHE_LINE, L1_SPAN, L1_WAYS, L2_BYTES, MANY_WORK_ITEMS, WORK_ITEMS
from habana_tf.compiler.product_costs import (
    BLOCK_COLUMN_BYTES,
    BLOCK_ROWS,
    CHUNK_STEPS,
    COMPACT_WORK,
    COPY_BLOCK_SIDE,
    COPY_WORK,
    ITEM_WORK,
    L1_PANEL_BYTES,
    LOW_BLOCK_STEPS,
    MOST_CHUNKS,
    PACKED_ONCE_ROWS,
    PAIRED_LAST,
    PAIRED_ROWS,
    PAIRED_STEPS,
    PANEL_ROWS,
    RESIDENT_BYTES,
    SPLIT_STEPS,
    STACK_BYTES,
    STRIDED_BYTES,
    TALL_ROWS,
    TALL_TILE_VECTORS,
    WIDENED_AGAIN,
    WIDENED_BYTES,
    WIDENED_ROWS,
)
from habana_tf.hardware.cpu import Target, TileEngine
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import nominal


def plan(c: Canonical, target: Target, compact: bool = False, once: bool = False) -> Plan:
    """The plan of a contraction for a CPU. compact: prefer little code; once: b is loop-invariant and packed only
    once."""
    rows = size_of(c.m)
    depth = size_of(c.k)
    batch = size_of(x for x in c.batch if x is not c.lane)
    engine = target.tile_engine
    dot = _paired(c, rows, depth, PACKED_ONCE_ROWS if once else PAIRED_ROWS)
    amx = _amx(c, engine) if dot and engine and c.lane else 0
    compact = compact and rows * depth * batch * -(-c.columns // target.lanes) <= COMPACT_WORK
    narrow = 8 in (c.a.dtype.bits, c.b.dtype.bits)
    if packable(c) and (narrow or not guards_in_place(c) or (dot and engine and not amx)):
        return block_plan(c, target, compact)
    along = dot and c.a.dtype is DType.BF16 and target.bf16_products == "dot"
    lanes: LaneAxis = "columns" if amx else lanes_along(c, target, along)
    if lanes == "columns" and packable(c) and not amx and _pays(c, target):
        return block_plan(c, target, compact)
    if lanes != "columns":
        return narrow_plan(c, target, lanes, along, compact)
    if c.lane is None or (c.symbolic and dot and c.k[-1].a != 1):
        dot = False  # a would have to be spread, but its size is unknown
    dot = dot and (amx > 0 or target.bf16_products == "dot")
    t = amx_tiling(c, engine, compact) if amx and engine else tiling(c, target, compact)
    once = once and rows >= PACKED_ONCE_ROWS and bool(c.k) and not c.symbolic
    return _tiled(c, target, t, dot, amx, compact, once)


def _tiled(c: Canonical, target: Target, t: Tiling, dot: bool, amx: int, compact: bool, once: bool) -> Plan:
    """The plan of a contraction in register tiles whose lanes run along columns."""
    rows, depth, elements = size_of(c.m), size_of(c.k), _read(c)
    batch = size_of(x for x in c.batch if x is not c.lane)
    b_bytes = depth * c.columns * c.b.dtype.bytes
    lead, row_dims = loops_over(c.outer), row_loops(c, t)
    panel_dim = panel_loops(c, t)
    outer_count = trip_count(lead)
    tiles = outer_count * trip_count(row_dims) * t.panels
    work = rows * t.panels * t.vectors * depth * outer_count  # multiply-adds in vectors
    unit = 2 * amx or (2 if dot else 1)  # steps of the last k label that must not be cut
    results, nbytes = rows * c.columns * outer_count, elements * c.a.dtype.bytes + b_bytes
    head = _chunks(c, unit, depth, tiles, results, nbytes // batch, work, 4 * t.width)
    chunks = trip_count(head)
    often = rows * depth * t.panels > WIDENED_AGAIN * elements
    widen = c.a.dtype is not DType.F32 and not dot and often and work > ITEM_WORK / 4 and not c.symbolic
    large = elements * batch * 4 > WIDENED_BYTES and c.columns < COPY_BLOCK_SIDE
    if widen and large and target.widens_in_copies and packable(c):
        return block_plan(c, target, compact)  # such a copy of a would go to memory and come back, for a few panels
    small = b_bytes // chunks <= L2_BYTES // 2
    order = head + lead + (row_dims + panel_dim if small else panel_dim + row_dims)
    packed = _must_pack(c, dot) or ((once or _worth_packing(c, target, t, dot)) and depth > 0 and c.lane in c.n)
    made = Plan(t, tuple(order), 0, 1, "call" if packed else "none", dot, widen, amx, compact)
    if packed and once:
        return with_grid(replace(made, dims=(*head, *lead, *panel_dim, *row_dims)), work)
    fits = depth // chunks * t.width * (2 if dot else 4) <= STACK_BYTES
    if packed and fits and (not c.k or isinstance(c.k[0].extent, int) or head):
        front, inner, items = _packing_rows(row_dims, rows, chunks * outer_count * t.panels)
        if items >= max(WORK_ITEMS // 2, min(work / ITEM_WORK, MANY_WORK_ITEMS)) or work < ITEM_WORK:
            grid = head + lead + front + panel_dim
            made = replace(made, dims=(*grid, *inner), grid_dims=len(grid), pack="item")
            return replace(made, grain=grain_for(nominal(made.grid), work))
    return with_grid(made, work)


def _must_pack(c: Canonical, dot: bool) -> bool:
    """Whether b can only be read as a packed copy: in pairs, or because its columns are not adjacent."""
    return dot or (c.lane is not None and c.lane.b != 1 and size_of(c.k) > 0)


def _worth_packing(c: Canonical, target: Target, t: Tiling, dot: bool) -> bool:
    """Whether a packed b is faster although it could be read in place: panels of distant rows that would not stay in
    the first-level cache, and bf16 that each row tile would widen again."""
    rows, depth = size_of(c.m), size_of(c.k)
    panel = depth * t.width * (2 if dot else 4)
    step = min((abs(x.b) for x in c.k), default=0) * (4 if dot else c.b.dtype.bytes)
    kept = panel <= L1_PANEL_BYTES and depth <= L1_WAYS * (L1_SPAN // math.gcd(step, L1_SPAN))
    tall = step >= STRIDED_BYTES and rows >= TALL_ROWS and not kept
    widened = target.widens_in_copies and c.b.dtype is not DType.F32 and not c.symbolic
    return tall or (widened and rows >= (WIDENED_ROWS if depth * c.columns * 4 <= L2_BYTES else TALL_ROWS))


def _packing_rows(inner: list[Dim], rows: int, items: int) -> tuple[list[Dim], list[Dim], int]:
    """Divides loops over rows into those of the grid and those of a work item, which has as many rows as pay for
    packing a panel: (grid, item, work items). items: those of the other loops."""
    front: list[Dim] = []
    while items < WORK_ITEMS and inner:
        first = inner[0]
        per = rows // trip_count(front)
        count = nominal(first.count)
        if first.kind == "label" and per // count >= PANEL_ROWS:
            front.append(inner.pop(0))
            items *= count
            continue
        blocks = min(count, max(1, per // PANEL_ROWS), -(-WORK_ITEMS // items))
        if blocks > 1 and first.kind == "rows":
            front.append(first.blocks(-(-count // blocks)))
            items *= nominal(front[-1].count)
        break
    return front, inner, items


def _read(c: Canonical) -> int:
    """Distinct elements of a per batch index: overlapping windows span fewer than the product of their extents."""
    return min(size_of(c.m) * size_of(c.k), 1 + sum(abs(x.a) * (nominal(x.extent) - 1) for x in c.m + c.k))


def _pays(c: Canonical, target: Target) -> bool:
    """Whether packing both operands costs less than strided reads of a, given the reuse within a block."""
    rows, columns, depth = size_of(c.m), c.columns, size_of(c.k)
    batch = size_of(c.outer)
    if (
        min(abs(x.a) for x in c.k) * c.a.dtype.bytes < STRIDED_BYTES
        or rows * columns / target.lanes * depth * batch < ITEM_WORK
    ):
        return False
    return 1 + COPY_WORK * (1 / min(rows, COPY_BLOCK_SIDE) + 1 / min(columns, COPY_BLOCK_SIDE)) < target.strided_rows


def narrow_plan(c: Canonical, target: Target, lanes: LaneAxis, dot: bool, compact: bool) -> Plan:
    """The plan of a contraction whose lanes do not run along columns. dot: whether bf16 is multiplied in pairs if they
    run along the sum."""
    t, rows, depth = narrow_tiling(c, target, lanes), size_of(c.m), size_of(c.k)
    dot = dot and lanes == "sum"
    lead, inner = loops_over(c.outer), row_loops(c, t)
    outer = trip_count(lead)
    work = rows * depth * outer * c.columns / t.lanes
    unit = (t.lanes if lanes == "sum" else 1) * (2 if dot or c.a.dtype.bits == 8 else 1)
    nbytes = _read(c) * c.a.dtype.bytes
    again = 0 if lanes == "sum" else nbytes  # where rows are read as they lie, the longer the better
    head = _chunks(c, unit, depth, outer * trip_count(inner), rows * c.columns * outer, again, work)
    pack: Packing = "call" if lanes == "sum" else "none"
    made = Plan(t, (*head, *lead, *inner, *panel_loops(c, t)), 0, 1, pack, dot, compact=compact, lanes=lanes)
    return with_grid(replace(made, streams=nbytes > L2_BYTES), work)


def block_plan(c: Canonical, target: Target, compact: bool = False) -> Plan:
    """The plan of a contraction that packs both operands."""
    engine, rows, depth = target.tile_engine, size_of(c.m), size_of(c.k)
    dot = _paired(c, rows, depth, PAIRED_ROWS)
    c = _fullest(c, engine) if dot and engine else c
    amx = _filled(c.k[-1], engine) if dot and engine else 0
    dot = dot and (amx > 0 or target.bf16_products == "dot")
    t = amx_tiling(c, engine, compact, True) if amx and engine else tiling(c, target, compact, TALL_TILE_VECTORS)
    unit = 2 * max(amx, 1) if dot else 1
    lead = loops_over(c.outer)
    outer = trip_count(lead)
    work = float(rows * t.panels * t.vectors * depth * outer)
    side = BLOCK_COLUMN_BYTES // (4 * LOW_BLOCK_STEPS) if is_low(c) else COPY_BLOCK_SIDE
    parts = -(-rows // BLOCK_ROWS) * -(-c.columns // side) * outer
    head = _chunks(c, unit, depth, parts, rows * c.columns * outer, 0, work, packed=True)
    blocks, dims, grid_dims = cut(c, t, dot, amx, [*head, *lead])
    made = Plan(t, dims, grid_dims, 1, "blocks", dot, False, amx, compact, blocks)
    return replace(made, grain=grain_for(nominal(made.grid), work))


def _filled(last: Label, engine: TileEngine) -> int:
    """Pairs per step of the tile engine if copies are padded to whole steps along this label."""
    pairs, most = -(-nominal(last.extent) // 2), engine.row_bytes // 4
    return -(-pairs // -(-pairs // most))


def _fullest(c: Canonical, engine: TileEngine) -> Canonical:
    """Moves the summed label that best fills the engine's registers to the end, unless vectors are loaded along the
    last one."""
    last, lane = c.k[-1], c.lane
    if last.a == 1 or (last.b == 1 and lane is not None and lane.b != 1):
        return c

    def full(label: Label) -> float:
        n, most = nominal(label.extent), engine.row_bytes // 2
        return n / (-(-n // most) * most)

    best = max((x for x in reversed(c.k) if isinstance(x.extent, int)), key=full, default=last)
    rest = tuple(x for x in c.k if x is not best)
    if any(not isinstance(x.extent, int) for x in rest[1:]):
        return c
    return replace(c, k=(*rest, best))


def _paired(c: Canonical, rows: int, depth: int, least: int) -> bool:
    """Whether multiplying bf16 in pairs pays: b must then be packed, for which it takes at least `least` rows."""
    if DType.F32 in (c.a.dtype, c.b.dtype):
        return False
    if not c.k or c.lane in c.batch:
        return False
    last = c.k[-1].extent
    return rows >= least and depth >= PAIRED_STEPS and isinstance(last, int) and last >= PAIRED_LAST


def _amx(c: Canonical, engine: TileEngine) -> int:
    """Pairs per step of the tile engine: the most that divide the last k label; 0 if unsuitable."""
    last = c.k[-1].extent
    if c.a.guards or not c.m or c.k[-1].a != 1 or not isinstance(last, int) or last % 2:
        return 0
    pairs, most = last // 2, engine.row_bytes // 4
    return next((d for d in range(most, most // 2 - 1, -1) if pairs % d == 0), 0)


def _chunks(
    c: Canonical, unit: int, depth: int, tiles: int, results: int, nbytes: int, work: float, panel: int = 0,
    packed: bool = False,
) -> list[Dim]:  # fmt: skip
    """The loop over chunks of the outermost k label; none if it is not split. panel: bytes of a panel of b per step.
    packed: both operands are packed, which handles guards and partial steps."""
    wanted = 1
    if tiles < WORK_ITEMS:
        wanted = min(-(-WORK_ITEMS // tiles), depth // CHUNK_STEPS, int(work / (ITEM_WORK / 8)))
    if not packed and c.k and short_runs([x.extent for x in c.k], c.k[-1].a * c.a.dtype.bytes):
        wanted = max(wanted, min(-(-depth // unit * (panel + CACHE_LINE) // RESIDENT_BYTES), depth // CHUNK_STEPS))
    if nbytes > L2_BYTES and depth >= SPLIT_STEPS:
        by_cache = -(-nbytes // (L2_BYTES // 2))
        wanted = max(wanted, min(by_cache, depth // (2 * CHUNK_STEPS), max(1, nbytes // (16 * results))))
    label = c.k[0] if c.k else None
    if wanted <= 1 or label is None or (any(label.guards) and not packed):
        return []
    wanted = min(1 << (wanted - 1).bit_length(), MOST_CHUNKS)
    size = -(-nominal(label.extent) // wanted)
    if len(c.k) == 1 and unit > 1:
        if not packed and (not isinstance(label.extent, int) or label.extent % unit):
            return []
        size = -(-size // unit) * unit
    count = ext.ceil_div(label.extent, size)
    return [Dim("chunk", count, label, size)] if nominal(count) > 1 else []
