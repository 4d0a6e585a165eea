"""Shape-generic recipes for small eager products: matmuls, convolutions and depthwise convolutions as PRODUCT nodes.

The sizes and strides are run-time data of one recipe (see `ir.loop_nest`), and `generic_product` computes them. This
saves compilation; products with enough work to pay for code of their own are left out.

Invariant: the choice, and each number, depend on the program and the target only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

from habana_tf.compiler.codegen.tiles.narrow import lanes_along
from habana_tf.compiler.contraction import (
    Canonical,
    ContractSpec,
    Label,
    Operand,
    StridedView,
    SymbolicLabel,
    canonical,
)
from habana_tf.compiler.contraction_operands import specification, view_of
from habana_tf.compiler.costs import WIDEST_LANES
from habana_tf.compiler.product_costs import (
    SHALLOW_CHANNELS,
    SHALLOW_WORK,
    THREAD_WORK,
    WALKED_APART_WORK,
    WALKED_FEW_ROWS,
    WALKED_NARROW_WORK,
    WALKED_WINDOWS,
    WALKED_WORK,
    walked_rows,
)
from habana_tf.compiler.view_indices import Unfit, strides
from habana_tf.hardware.cpu import Target
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.loop_nest import DEEP, LoopNest, RegisterTile, RowBounds, StridedLoop, Window, as_number
from habana_tf.ir.primitives import Node, Op, Program


@dataclass(frozen=True)
class GenericProduct:
    """A program of one PRODUCT over symbols, the values of the symbols, and the shape of the result."""

    program: Program
    dims: list[int]
    shape: tuple[int, ...]


def generic_product(program: Program, target: Target) -> GenericProduct | None:
    """The generic form of a program that is one small product; None for other programs."""
    if not target.masked_memory or len(program.outputs) != 1 or program.states or program.conditions:
        return None
    (out,) = program.outputs
    found = _product(out, set(program.inputs))
    if found is None:
        return None
    spec, a, b = found
    try:
        c = canonical(spec)
        nest = _loop_nest(c, target)
    except Unfit:
        return None
    if nest is None:
        return None
    if c.swapped:
        a, b = b, a
    flat = {b: replace(b, shape=(ext.sym(1),))}
    flat[a] = replace(a, shape=(ext.sym(0),))
    made = Node(Op.PRODUCT, (flat[a], flat[b]), (ext.sym(2),), out.dtype, nest.over_symbols(3), out.origin)
    sizes = [as_number(n.numel) for n in (a, b, out)]
    shape = tuple(map(as_number, out.shape))
    return GenericProduct(Program([flat.get(n, n) for n in program.inputs], [made]), [*sizes, *nest.dims()], shape)


# -- which product it is --------------------------------------------------------------------------------------


def _product(out: Node, inputs: set[Node]) -> tuple[ContractSpec, Node, Node] | None:
    """The product that an output consists of, and the inputs that it multiplies."""
    node = out
    while node.op is Op.RESHAPE:
        node = node.src[0]
    if out.dtype is not DType.F32 or any(not isinstance(n, int) for x in (out, *inputs) for n in x.shape):
        return None
    if node.op is Op.CONTRACT:
        pair = node.src
    elif node.op is Op.REDUCE and node.arg[0] == "sum" and node.src[0].op is Op.MAP and node.src[0].arg == "mul":
        pair = node.src[0].src
    else:
        return None
    a, b = (view_of(s, inputs) for s in pair)
    if a is None or b is None or a.base.dtype is not DType.F32 or b.base.dtype is not DType.F32:
        return None
    spec = specification(node, (a, b)) if node.op is Op.CONTRACT else _by_element(node, a, b)
    return spec, a.base, b.base


def _by_element(node: Node, a: StridedView, b: StridedView) -> ContractSpec:
    """A sum of elementwise products as a contraction: each axis is a label."""
    (_, axes), times = node.arg, node.src[0]
    steps = iter(strides(node.shape))
    out = tuple(0 if k in axes else next(steps) for k in range(times.rank))
    sides = [Operand(v.base.dtype, v.strides, v.offset, v.guards) for v in (a, b)]
    return ContractSpec(times.shape, sides[0], sides[1], Operand(node.dtype, out))


# -- its loops ------------------------------------------------------------------------------------------------


def _loop_nest(c: Canonical, target: Target) -> LoopNest | None:
    """The loop nest of a product; None if it does not fit one, or is large enough for code of its own."""
    lanes = target.lanes
    if c.lane is None or c.b.guards or any(x.extent == 0 for x in c.labels()):
        return None
    channels = c.lane in c.batch
    batch = [*c.outer, *c.m[:-2]]
    rows = list(c.m[-2:])
    free = [x for x in c.k if not any(x.guards)]
    depth = free[-1] if free and not channels else None
    window_labels = [x for x in c.k if x is not depth]
    guards = _row_bounds(c, rows, window_labels)
    columns = c.columns
    window_count = _points(window_labels)
    if guards is None or len(batch) > 2 or window_count > WALKED_WINDOWS or (channels and columns < lanes // 2):
        return None
    steps = StridedLoop() if depth is None else strided_loop(depth)
    deep = 1 if depth is None else _points([depth])
    if c.a.guards and (steps.a not in (0, 1) or deep > DEEP):  # rows in the padding read contiguous zeros
        return None
    tile = register_tile(_points(rows), "channels" if channels else "columns" if c.lane.b == 1 else "apart", lanes)
    if tile.lanes == "apart" and tile.rows == 1:  # each element gathered would be used once
        return None
    panels = -(-columns // (tile.vectors * lanes))
    row_tiles = -(-_points(rows) // tile.rows)
    tiles = _points(batch) * panels * row_tiles
    work = tiles * tile.rows * tile.vectors * window_count * float(deep)
    narrow = lanes_along(c, target, False) != "columns"
    shallow = not channels and window_count > 1 and deep < SHALLOW_CHANNELS
    most = WALKED_APART_WORK if tile.lanes == "apart" else WALKED_NARROW_WORK if narrow else WALKED_WORK
    if work > (min(most, SHALLOW_WORK) if shallow else most):
        return None
    share = -(-tiles // max(1, min(tiles, round(work / THREAD_WORK))))
    return LoopNest(
        tile, two_loops(batch), two_loops(rows), strided_loop(c.lane), steps, guards, (c.a.offset, c.b.offset),
        row_tiles, panels, tiles, share, -(-tiles // share), window_count, tuple(_windows(c, window_labels, rows)),
    )  # fmt: skip


def _row_bounds(c: Canonical, rows: list[Label], window_labels: list[Label]) -> tuple[RowBounds, RowBounds] | None:
    """The padding of each row loop; None if a guard depends on other labels than those of a row and of windows."""
    found = [RowBounds(), RowBounds()]
    for number, guard in enumerate(c.a.guards):
        tied = [x for x in c.labels() if x.guards[number]]
        over = [x for x in tied if x not in window_labels]
        if len(over) != 1 or over[0] not in rows:
            return None
        slot = rows.index(over[0]) + 2 - len(rows)
        if found[slot] != RowBounds():
            return None
        found[slot] = RowBounds(guard.const, over[0].guards[number], guard.size)
    return found[0], found[1]


def _windows(c: Canonical, window_labels: list[Label], rows: list[Label]) -> Iterator[Window]:
    """The terms of the sum over windows, the last label varying fastest."""
    slots: list[int | None] = [None, None]
    for number in range(len(c.a.guards)):
        (row,) = (x for x in rows if x.guards[number])
        slots[rows.index(row) + 2 - len(rows)] = number
    for point in product(*(range(_points([x])) for x in window_labels)):
        pairs = list(zip(window_labels, point, strict=True))
        shifts = [0 if s is None else sum(x.guards[s] * i for x, i in pairs) for s in slots]
        yield Window(sum(x.a * i for x, i in pairs), sum(x.b * i for x, i in pairs), (shifts[0], shifts[1]))


def register_tile(rows: int, lanes: Literal["columns", "apart", "channels"], count: int) -> RegisterTile:
    """The register tile. count: lanes of a vector."""
    if lanes == "channels":
        return RegisterTile(4, 4 if count >= WIDEST_LANES else 2, lanes)
    if rows < WALKED_FEW_ROWS:
        return RegisterTile(1, 4, lanes)
    return RegisterTile(walked_rows(count), 2, lanes)


def strided_loop(x: Label | SymbolicLabel) -> StridedLoop:
    """The loop over a label."""
    return StridedLoop(x.extent, x.a, x.b, x.out)


def _points(labels: Sequence[Label]) -> int:
    return math.prod(as_number(x.extent) for x in labels)


def two_loops(labels: Sequence[Label | SymbolicLabel]) -> tuple[StridedLoop, StridedLoop]:
    """Two loops; missing outer ones have extent 1."""
    outer, inner = [*[StridedLoop()] * (2 - len(labels)), *map(strided_loop, labels)]
    return outer, inner
