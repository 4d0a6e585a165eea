"""The transformations of Winograd's F(2x2, 3x3) on vectors of channels (see `winograd`).

Bt = 1  0 -1  0      G =  1    0    0       At = 1  1  1  0
     0  1  1  0          1/2  1/2  1/2           0  1 -1 -1
     0 -1  1  0          1/2 -1/2  1/2
     0  1  0 -1           0    0    1
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from habana_tf.compiler.codegen.emit import Function, Value
from habana_tf.compiler.codegen.lanes import LaneOps
from habana_tf.compiler.codegen.tiles.operand import form_of
from habana_tf.compiler.codegen.tiles.winograd import IN, OUT, ImageAxis, Winograd

Transform = Callable[[LaneOps, Sequence[Value]], list[Value]]
"""Multiplies a matrix of the algorithm by a column vector."""


def both(m: LaneOps, values: Sequence[Value], along: Transform) -> list[Value]:
    """A transformation along both axes of a square of values, in row-major order."""
    side = round(len(values) ** 0.5)
    columns = [along(m, values[j::side]) for j in range(side)]
    return [x for i in range(len(columns[0])) for x in along(m, [column[i] for column in columns])]


def image(m: LaneOps, d: Sequence[Value]) -> list[Value]:
    """Bt d."""
    return [m.op("fsub", d[0], d[2]), m.op("fadd", d[1], d[2]), m.op("fsub", d[2], d[1]), m.op("fsub", d[1], d[3])]


def filter_(m: LaneOps, g: Sequence[Value]) -> list[Value]:
    """G g."""
    ends = m.op("fadd", g[0], g[2])
    return [g[0], _half(m, m.op("fadd", ends, g[1])), _half(m, m.op("fsub", ends, g[1])), g[2]]


def result(m: LaneOps, x: Sequence[Value]) -> list[Value]:
    """At x."""
    first, last = m.op("fadd", x[0], x[1]), m.op("fsub", x[1], x[2])
    return [m.op("fadd", first, x[2]), m.op("fsub", last, x[3])]


def result_back(m: LaneOps, y: Sequence[Value]) -> list[Value]:
    """A y."""
    return [y[0], m.op("fadd", y[0], y[1]), m.op("fsub", y[0], y[1]), m.fn.op(f"fneg {m.type('float')} {y[1]}")]


def filter_back(m: LaneOps, x: Sequence[Value]) -> list[Value]:
    """Gt x."""
    middle = _half(m, m.op("fadd", x[1], x[2]))
    return [m.op("fadd", x[0], middle), _half(m, m.op("fsub", x[1], x[2])), m.op("fadd", middle, x[3])]


def _half(m: LaneOps, x: Value) -> Value:
    return m.op("fmul", x, m.f(0.5))


def place_of(fn: Function, w: Winograd, tile: Value) -> tuple[Value, Value, Value]:
    """The image of a tile, and the position of its first result down and across."""
    down, across = w.down.tiles, w.across.tiles
    inside = fn.rem(tile, down * across)
    row, column = fn.div(inside, across), fn.rem(inside, across)
    return fn.div(tile, down * across), fn.mul(row, OUT), fn.mul(column, OUT)


class Patches:
    """Transforms tiles of the image (4 x 4 points of operand a), or of results (2 x 2 of operand b).

    Points outside are read from `zeros`, of a block's channels. row: bytes per tile in the transformed copy.
    """

    def __init__(self, fn: Function, w: Winograd, side: str, pointer: Value, zeros: Value, row: int) -> None:
        self.fn, self.w, self.side = fn, w, side
        self.pointer, self.zeros, self.row = pointer, zeros, row
        self.operand = w.c.a if side == "a" else w.c.b
        self.along: Transform = image if side == "a" else result_back
        self.points = IN if side == "a" else OUT
        self.m = LaneOps(fn, w.tiling.lanes)

    def transform(self, first: Value, tiles: Value, channel: Value, trip: Value, target: Value) -> None:
        """Transforms `tiles` tiles from `first` on, and `trip` channels from `channel` on."""
        fn, w, unit, lanes = self.fn, self.w, self.operand.dtype.bytes, self.w.tiling.lanes
        with fn.loop("0", tiles) as tile:
            number, *begins = place_of(fn, w, fn.add(first, tile.index))
            start = fn.add(channel, self.operand.offset)
            if w.image:
                start = fn.add(start, fn.mul(number, getattr(w.image, self.side)))
            valid = []
            for axis, begin in zip((w.down, w.across), begins, strict=True):
                start = fn.add(start, fn.mul(begin, self._step(axis)))
                low, high = axis.inside if self.side == "a" else (0, axis.size)
                valid.append([self._inside(fn.add(begin, i), low, high) for i in range(self.points)])
            source = fn.ptradd(self.pointer, fn.mul(start, unit))
            pointers = []
            for i, in_row in enumerate(valid[0]):
                line = fn.ptradd(source, i * self._step(w.down) * unit)
                for j, in_column in enumerate(valid[1]):
                    there = fn.op(f"and i1 {in_row}, {in_column}")
                    point = fn.ptradd(line, j * self._step(w.across) * unit)
                    pointers.append(fn.op(f"select i1 {there}, ptr {point}, ptr {self.zeros}"))
            made = fn.ptradd(target, fn.mul(tile.index, self.row))
            with fn.loop("0", trip, lanes) as c:
                values = [self._load(fn.ptradd(p, fn.mul(c.index, unit))) for p in pointers]
                here = fn.ptradd(made, fn.mul(c.index, 4))
                for k, value in enumerate(both(self.m, values, self.along)):
                    fn.store(self.m.type("float"), value, fn.ptradd(here, k * w.tiles * self.row), 4)

    def _step(self, axis: ImageAxis) -> int:
        """The stride of points along an axis."""
        return axis.out.a if self.side == "a" else axis.out.b

    def _inside(self, index: Value, low: int, high: int) -> Value:
        return self.fn.op(f"icmp ult i64 {self.fn.sub(index, low)}, {high - low}")

    def _load(self, pointer: Value) -> Value:
        fn, lanes = self.fn, self.w.tiling.lanes
        form = form_of(self.operand)
        return form.floats(fn, lanes, fn.load(self.m.type(form.lane), pointer, form.bytes))
