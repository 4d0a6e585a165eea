"""The micro-kernel of contractions: outer products accumulated in a register tile over nested k loops.

A tile is R rows by V vectors of `lanes` columns. A k step loads V vectors of b, broadcasts an element of a per row, and
does R*V fused multiply-adds. Depthwise products load V vectors of a per row instead; where lanes run along the sum
there is one vector of a per row, and each of the V is another column.

    acc[r][v] += a[row r] * b[vector v]          r < R, v < V; the sums stay in registers over all k loops

Rows are at constant byte offsets from the tile's first one, so every address is a pointer plus a constant. The sum has
the order of the k loops (by pairs for bf16 dot instructions, which also flush denormals). Long sums are taken in blocks
of SUM_STEPS steps (see `blocked_sums`).

Elements become float32 when they are loaded, unless they are pairs (see `vector_memory.Form`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from habana_tf.compiler.codegen.emit import Function, Value, everywhere, first_lanes
from habana_tf.compiler.codegen.turns import block_turns, summing_turns
from habana_tf.compiler.codegen.vector_memory import Form, part
from habana_tf.compiler.costs import CACHE_LINE
from habana_tf.compiler.product_costs import (
    COMPACT_TURN_WORK,
    NEAR_TURN_WORK,
    STRIDED_BYTES,
    STRIDED_RUN,
    TURN_WORK,
    UNROLLED_WORK,
)
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent


@dataclass(frozen=True)
class TileRow:
    """A row of the tile: its number, its byte offset in a, and, if it may be padding, the condition (i1) that it is not
    and the offset (`move`) to an address that can be read anyway."""

    number: int
    distance: int
    move: Value = "0"
    valid: Value | None = None


Cases = tuple[tuple["bool | tuple[Value, Value]", ...], ...]
"""Per k step and row: in memory, in padding, or (move, valid) where only the running kernel knows."""


@dataclass(frozen=True)
class KLoop:
    """A k loop: trip count (an int, or an SSA i64 of at least 1) and the strides of both pointers in bytes.

    rest: elements after the last full step (of the innermost loop, if a step is a pair or a vector along the sum).
    cases: padding along this loop, which is then fully unrolled with its own rows in each step.
    most: an upper bound of a trip count that is no int, 0 if it is small.
    """

    trip: int | Value
    a: int
    b: int
    rest: int = 0
    cases: Cases | None = None
    most: int = 0

    @property
    def turns(self) -> int:
        return self.trip if isinstance(self.trip, int) else self.most


def in_turns(fn: Function, steps: int | Value, turn: int, a: int, b: int) -> list[KLoop]:
    """The loops over a sum whose operands are filled up with zeros to whole turns. turn: its steps."""
    turns = -(-steps // turn) if isinstance(steps, int) else fn.div(fn.add(steps, turn - 1), turn)
    return [KLoop(turns, a * turn, b * turn), KLoop(turn, a, b)]


def short_runs(trips: Sequence[Extent | Value], step: int) -> bool:
    """Whether a sum over these loops reads many short strided runs (of `step` bytes in the innermost loop), as a
    filter's gradient reads the image. Hardware does not prefetch them."""
    last = trips[-1]
    return len(trips) > 1 and abs(step) >= STRIDED_BYTES and isinstance(last, int) and last <= STRIDED_RUN


def body_of(step: int, compact: bool) -> int:
    """The unrolling in multiply-adds, for a stride of `step` bytes in a."""
    if compact:
        return COMPACT_TURN_WORK
    return NEAR_TURN_WORK if abs(step) < CACHE_LINE else TURN_WORK


@dataclass(frozen=True)
class Micro:
    """A tile's shape and formats. rows: byte offsets in a; active: valid lanes of the last vector."""

    lanes: int
    rows: tuple[int, ...]
    vectors: int
    active: int
    a_form: Form
    b_form: Form
    a_vectors: Literal["none", "each", "one"] = "none"
    """What of a is multiplied by b's vectors: "none": a broadcast element; "each": a vector per vector of b; "one": the
    same vector."""
    along: int = 1
    """Vectors of a row in a step, where lanes run along the sum."""
    b_padded: bool = False
    """b may be read past the last valid lane (it is packed)."""
    body: int = TURN_WORK
    """The unrolling in multiply-adds."""
    ahead: int = 0
    """The prefetch distance in a, in bytes; 0: no prefetch."""
    b_ahead: int = 0
    """The prefetch distance in b, for all its lines."""

    @property
    def type(self) -> str:
        return f"<{self.lanes} x float>"

    @property
    def work(self) -> int:
        return len(self.rows) * self.vectors

    def mask(self, vector: int) -> str | None:
        """The constant mask of a vector's valid lanes; None if all are valid."""
        if vector < self.vectors - 1 or self.active == self.lanes:
            return None
        return first_lanes(self.lanes, self.active)


class Accumulation:
    """Emits the sums of a tile."""

    def __init__(self, fn: Function, micro: Micro) -> None:
        self.fn = fn
        self.micro = micro

    def run(self, loops: Sequence[KLoop], a: Value, b: Value, start: Sequence[Value] | None = None) -> list[Value]:
        """acc[r][v], row by row, summed over `loops` (outermost first). a, b: the addresses of the tile's first
        elements."""
        acc = list(start) if start is not None else ["zeroinitializer"] * self.micro.work
        if any(loop.trip == 0 and not loop.rest for loop in loops):
            return acc
        rows = [TileRow(i, distance) for i, distance in enumerate(self.micro.rows)]
        return self._nest(list(loops), a, b, acc, rows)

    def _nest(self, loops: list[KLoop], a: Value, b: Value, acc: list[Value], rows: list[TileRow]) -> list[Value]:
        if not rows:
            return acc
        if not loops:
            return self._step(a, b, acc, rows, 0)
        loop, inner = loops[0], loops[1:]
        trip = loop.trip
        if loop.cases is not None:
            for i, case in enumerate(loop.cases):
                some = self._inside(rows, case)
                acc = self._nest(inner, self.fn.ptradd(a, i * loop.a), self.fn.ptradd(b, i * loop.b), acc, some)
            return acc
        work = step = len(rows) * self.micro.vectors
        for x in loops:
            work *= x.trip + (x.rest > 0) if isinstance(x.trip, int) else UNROLLED_WORK + 1
        unroll = work <= UNROLLED_WORK
        if not unroll and (not isinstance(trip, int) or trip > 1):
            turns, body = trip, 1
            if not inner and isinstance(trip, int):
                body = _body(trip, step, self.micro.body)
                turns = trip // body
            if turns != 1:
                acc, a, b = self._turns(turns, body, loop, inner, a, b, acc, rows)
                trip = trip % body if isinstance(trip, int) else 0
        assert isinstance(trip, int)
        for i in range(trip):
            acc = self._nest(inner, self.fn.ptradd(a, i * loop.a), self.fn.ptradd(b, i * loop.b), acc, rows)
        if loop.rest:
            acc = self._step(self.fn.ptradd(a, trip * loop.a), self.fn.ptradd(b, trip * loop.b), acc, rows, loop.rest)
        return acc

    def _turns(
        self, turns: int | Value, body: int, loop: KLoop, inner: list[KLoop], a: Value, b: Value, acc: list[Value],
        rows: list[TileRow],
    ) -> tuple[list[Value], Value, Value]:  # fmt: skip
        fn, vectors = self.fn, self.micro.vectors
        live = [row.number * vectors + v for row in rows for v in range(vectors)]
        acc = list(acc)

        def turn(pointers: list[Value], some: list[Value]) -> list[Value]:
            (pa, pb), sums = pointers, list(acc)
            for i, x in zip(live, some, strict=True):
                sums[i] = x
            for i in range(body):
                sums = self._nest(inner, fn.ptradd(pa, i * loop.a), fn.ptradd(pb, i * loop.b), sums, rows)
            return [fn.ptradd(pa, body * loop.a), fn.ptradd(pb, body * loop.b), *(sums[i] for i in live)]

        steps = body * math.prod(max(x.turns, 1) for x in inner)
        size = block_turns(turns if isinstance(turns, int) else loop.most, steps)
        state = [("ptr", a), ("ptr", b)]
        a, b, *made = summing_turns(fn, turns, size, state, [(self.micro.type, acc[i]) for i in live], turn)
        for i, x in zip(live, made, strict=True):
            acc[i] = x
        return acc, a, b

    def _inside(self, rows: list[TileRow], case: tuple[bool | tuple[Value, Value], ...]) -> list[TileRow]:
        """The rows that are not padding, or may not be."""
        found = []
        for row in rows:
            state = case[row.number]
            if isinstance(state, tuple):
                move, valid = state
                if row.valid is not None:
                    valid = self.fn.op(f"and i1 {row.valid}, {valid}")
                found.append(TileRow(row.number, row.distance, self.fn.add(row.move, move), valid))
            elif state:
                found.append(row)
        return found

    def _step(self, a: Value, b: Value, acc: list[Value], rows: list[TileRow], rest: int) -> list[Value]:
        micro, out = self.micro, list(acc)
        # No code: keeps LLVM from sharing loads between steps, which costs more registers than it saves loads.
        self.fn.do('fence syncscope("singlethread") acq_rel')
        if micro.ahead:
            for row in rows if micro.a_vectors == "one" else rows[-1:]:
                self.fn.prefetch(self.fn.ptradd(a, row.distance + micro.ahead))
        stride = micro.lanes * micro.b_form.bytes
        if micro.b_ahead:
            for v in range(0, micro.vectors, max(1, CACHE_LINE // stride)):
                self.fn.prefetch(self.fn.ptradd(b, v * stride + micro.b_ahead))
        along = min(micro.along, -(-rest // micro.lanes)) if rest else micro.along
        columns = [self._b(self.fn.ptradd(b, v * stride), v % micro.vectors) for v in range(along * micro.vectors)]
        for row in rows:
            place = self.fn.ptradd(self.fn.ptradd(a, row.move), row.distance)
            elements = [""]
            if micro.a_vectors == "one":
                elements = self._along(place, row.valid, rest, along)
            elif micro.a_vectors == "none":
                elements = [self._a(place, row.valid, rest)]
            for (k, element), v in product(enumerate(elements), range(micro.vectors)):
                if micro.a_vectors == "each":
                    at = self.fn.ptradd(place, v * micro.lanes * micro.a_form.bytes)
                    element = self._vector(at, micro.a_form, micro.mask(v))
                    element = self._or_zero(row.valid, micro.type, element)
                i = row.number * micro.vectors + v
                out[i] = self._fma(element, columns[k * micro.vectors + v], out[i])
        return out

    def _or_zero(self, valid: Value | None, type_: str, x: Value) -> Value:
        if valid is None:
            return x
        zero = {"float": "0.0", "i8": "0", "i16": "0", "i32": "0"}.get(type_, "zeroinitializer")
        return self.fn.op(f"select i1 {valid}, {type_} {x}, {type_} {zero}")

    def _fma(self, a: Value, b: Value, acc: Value) -> Value:
        t, lanes = self.micro.type, self.micro.lanes
        if self.micro.b_form.pairs:
            pairs = f"<{2 * lanes} x bfloat>"
            return self.fn.call(t, f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}", (t, acc), (pairs, a), (pairs, b))
        return self.fn.call(t, f"llvm.fmuladd.v{lanes}f32", (t, a), (t, b), (t, acc))

    def _along(self, pointer: Value, valid: Value | None, rest: int, vectors: int) -> list[Value]:
        """Vectors of a row along the sum, or only their first `rest` elements."""
        fn, lanes, form = self.fn, self.micro.lanes, self.micro.a_form
        count = lanes * (2 if form.pairs else vectors)
        found = fn.masked_load(form.lane, count, pointer, first_lanes(count, rest) if rest else None)
        found = self._or_zero(valid, f"<{count} x {form.lane}>", found)
        if form.pairs:
            return [fn.op(f"bitcast <{count} x i16> {found} to <{count} x bfloat>")]
        found = form.floats(fn, count, found)
        return [found] if vectors == 1 else [part(fn, lanes, found, k * lanes) for k in range(vectors)]

    def _a(self, pointer: Value, valid: Value | None, half: int) -> Value:
        fn, lanes, form = self.fn, self.micro.lanes, self.micro.a_form
        if form.dtype is not DType.BF16:
            found = self._or_zero(valid, form.lane, fn.load(form.lane, pointer, form.bytes))
            return fn.splat(lanes, "float", form.floats(fn, 1, found))
        if not form.pairs:
            # bf16 is the upper half of fp32: the element in both halves of a word, the lower one cleared.
            half_word = self._or_zero(valid, "i16", fn.load("i16", pointer, 2))
            word = fn.splat(2 * lanes, "i16", half_word)
            word = fn.op(f"bitcast <{2 * lanes} x i16> {word} to <{lanes} x i32>")
            word = fn.op(f"and <{lanes} x i32> {word}, {everywhere('i32', '-65536')}")
            return fn.op(f"bitcast <{lanes} x i32> {word} to {self.micro.type}")
        if half:
            single = fn.load("i16", pointer, 2)
            word = fn.op(f"zext i16 {single} to i32")
        else:
            word = fn.load("i32", pointer, 2)
        word = fn.splat(lanes, "i32", self._or_zero(valid, "i32", word))
        return fn.op(f"bitcast <{lanes} x i32> {word} to <{2 * lanes} x bfloat>")

    def _b(self, pointer: Value, v: int) -> Value:
        return self._vector(pointer, self.micro.b_form, None if self.micro.b_padded else self.micro.mask(v))

    def _vector(self, pointer: Value, form: Form, mask: str | None) -> Value:
        fn, lanes = self.fn, self.micro.lanes
        if not form.pairs:
            return form.floats(fn, lanes, fn.masked_load(form.lane, lanes, pointer, mask))
        words = fn.masked_load("i32", lanes, pointer, mask)
        return fn.op(f"bitcast <{lanes} x i32> {words} to <{2 * lanes} x bfloat>")


def _body(trip: int, work: int, wanted: int) -> int:
    """The unrolling of the innermost loop in steps: preferably a divisor of the trip count."""
    least = max(1, -(-wanted // work))
    for steps in range(least, 2 * least + 1):
        if trip % steps == 0:
            return steps
    return min(least, trip)
