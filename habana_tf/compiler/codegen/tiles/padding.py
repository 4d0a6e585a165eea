"""Implicit padding of contractions: k loops skip the elements of operand a that are padding.

A guard of operand a relates a row label to a summed label: output position and window offset. If the position is fixed
within a tile, the loop over offsets is clipped to those inside. If it varies along the tile's rows, the loop is
unrolled, each offset with the rows that are inside; a row that is inside only in some tiles is predicated: otherwise it
reads a neighbour and takes zero.

                      positions 0..4 of one tile, window of 3, one column of padding on each side
    offset 0                . r r r r
    offset 1                r r r r r           r: the row is multiplied at this offset
    offset 2                r r r r .
"""

from __future__ import annotations

from dataclasses import replace

from habana_tf.compiler.codegen.emit import Value
from habana_tf.compiler.codegen.tiles.accumulate import KLoop
from habana_tf.compiler.codegen.tiles.nest import Cursor, TileLoops
from habana_tf.compiler.codegen.tiles.tiling import row_starts
from habana_tf.compiler.contraction import Label, Padding


def guarded(
    kernel: TileLoops, cursor: Cursor, size: int, unit: int, loops: list[KLoop], a: Value, b: Value
) -> tuple[list[KLoop], Value, Value]:
    """The k loops and the tile's addresses adapted to the guards of a. unit: bytes of an element of a."""
    loops = list(loops)
    for number, guard in enumerate(kernel.c.a.guards):
        k, m = sorted((x for x in kernel.c.labels() if x.guards[number]), key=lambda x: x.kind)
        i = kernel.c.k.index(k)
        if m in kernel.t.whole or (m == kernel.t.split and kernel.t.size > 1):
            loops[i] = _by_row(kernel, cursor, size, unit, loops[i], guard, m, m.guards[number], k.guards[number])
        else:
            loops[i], a, b = _from_to(kernel, cursor, loops[i], guard, m, k, number, a, b)
    return loops, a, b


def _from_to(
    kernel: TileLoops, cursor: Cursor, loop: KLoop, guard: Padding, m: Label, k: Label, number: int, a: Value, b: Value
) -> tuple[KLoop, Value, Value]:
    """A position per tile: clips the loop to the offsets inside."""
    fn, step = kernel.fn, k.guards[number]
    position = fn.add(fn.mul(cursor.starts[m.key], m.guards[number]), guard.const)
    before = fn.op(f"sub nsw i64 0, {position}")
    before = fn.op(f"select i1 {fn.less(before, '0')}, i64 0, i64 {before}")
    first = fn.div(fn.add(before, step - 1), step)
    last = fn.div(fn.op(f"sub nsw i64 {guard.size - 1}, {position}"), step)
    stop = fn.minimum(fn.add(last, 1), str(k.extent))
    a = fn.ptradd(a, fn.mul(first, loop.a))
    b = fn.ptradd(b, fn.mul(first, loop.b))
    return replace(loop, trip=fn.sub(stop, first)), a, b


def _by_row(
    kernel: TileLoops, cursor: Cursor, size: int, unit: int, loop: KLoop, guard: Padding, m: Label, by_m: int, by_k: int
) -> KLoop:
    """Positions along the tile's rows: per offset and row, inside, outside, or a run-time predicate."""
    fn = kernel.fn
    starts = row_starts(kernel.t, size) if m == kernel.t.split else [0]
    known: dict[tuple[int, int], bool | tuple[Value, Value]] = {}

    def state(offset: int, row: int) -> bool | tuple[Value, Value]:
        const = guard.const + by_m * row + by_k * offset
        inside = {0 <= const + by_m * start < guard.size for start in starts}
        if len(inside) == 1:
            return inside.pop()
        value = fn.add(fn.mul(cursor.starts[m.key], by_m), const)
        low = fn.op(f"select i1 {fn.less(value, '0')}, i64 0, i64 {value}")
        nearest = fn.minimum(low, str(guard.size - 1))
        move = fn.mul(fn.op(f"sub nsw i64 {nearest}, {value}"), m.a // by_m * unit)
        return move, fn.op(f"icmp eq i64 {nearest}, {value}")

    assert isinstance(loop.trip, int)
    rows = [{x.key: i for x, i in row}[m.key] for row in kernel.rows(size)]
    for offset in range(loop.trip):
        for row in rows:
            if (offset, row) not in known:
                known[offset, row] = state(offset, row)
    return replace(loop, cases=tuple(tuple(known[offset, row] for row in rows) for offset in range(loop.trip)))
