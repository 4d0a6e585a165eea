"""Packing of a contraction's operands in the order in which the micro-kernel reads them.

`PanelPacker` copies a column panel of b to [k][width] 32-bit words: fp32 (bf16 is widened), or, for bf16 dot products,
pairs of neighbours along the last k label (an odd one is paired with zero). It loads along the contiguous direction and
transposes blocks of lanes x lanes in registers if that is k. Columns past the panel's end stay undefined.

`spread` turns every element e of a bf16 operand into a 32-bit word: the pair (e, e + step) for dot products if a is not
contiguous along k, or e as fp32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from habana_tf.compiler.codegen.emit import BYTES, Function, Value, first_lanes
from habana_tf.compiler.codegen.turns import repeat
from habana_tf.compiler.codegen.vector_memory import interleave, widen, widen_one
from habana_tf.compiler.contraction import Label
from habana_tf.compiler.product_costs import SPREAD_ELEMENTS
from habana_tf.ir.dtypes import DType


@dataclass(frozen=True)
class _Stretch:
    """Steps of a panel along one k label: `row` and `step` are the strides in bytes of its elements and of their copies
    (if dot, of pairs); of the last of `vectors` vectors `active` lanes are columns."""

    trip: int | Value
    row: int
    step: int
    vectors: int
    active: int


class PanelPacker:
    """Emits the packing of a panel. width: words per k step in the copy; column: stride of b along the columns."""

    def __init__(self, fn: Function, dtype: DType, lanes: int, width: int, dot: bool, column: int) -> None:
        self.fn = fn
        self.size = dtype.bytes
        self.bf16 = dtype is DType.BF16
        self.lanes = lanes
        self.width = width
        self.dot = dot
        self.column = column * self.size  # bytes from one column to the next
        self.element = "i16" if self.bf16 else "float"

    def pack(
        self, k: Sequence[Label], trips: Sequence[int | Value], source: Value, target: Value, vectors: int, active: int
    ) -> None:
        """Packs all k steps (`trips` per label, at least 1) of the columns that begin at `source`."""
        loops = zip(k, trips, self.steps(k), strict=True)
        found = [_Stretch(trip, x.b * self.size, step, vectors, active) for x, trip, step in loops]
        self._outer(found or [_Stretch(1, 0, 0, vectors, active)], source, target)

    def steps(self, k: Sequence[Label]) -> list[int]:
        """The k labels' strides in bytes in the packed copy (of the last one, per pair if dot)."""
        out: list[int] = []
        step = self.width * 4
        for i, label in enumerate(reversed(k)):
            out.insert(0, step)
            if i + 1 < len(k):  # the first label's extent may be symbolic, and is in no stride
                assert isinstance(label.extent, int)
                step *= -(-label.extent // 2) if self.dot and i == 0 else label.extent
        return out

    def _outer(self, loops: Sequence[_Stretch], source: Value, target: Value) -> None:
        fn, first = self.fn, loops[0]
        if len(loops) > 1:
            with repeat(fn, first.trip, [("ptr", source), ("ptr", target)]) as t:
                p, q = t.carried
                self._outer(loops[1:], p, q)
                t.next = [fn.ptradd(p, first.row), fn.ptradd(q, first.step)]
        elif self.column == self.size:
            self._rows(first, source, target)
        elif first.row == self.size:
            self._transposed(first, source, target)
        else:
            self._single(first, source, target)

    def _split(self, trip: int | Value, by: int) -> tuple[int | Value, int | Value]:
        """trip // by and trip % by."""
        if isinstance(trip, int):
            return divmod(trip, by)
        return self.fn.op(f"udiv i64 {trip}, {by}"), self.fn.op(f"urem i64 {trip}, {by}")

    @contextmanager
    def _times(self, trip: int | Value, source: Value, target: Value, a: int, b: int) -> Iterator[tuple[Value, Value]]:
        """A loop that advances two pointers, by a and b bytes."""
        assert trip != 0, "there is nothing to emit"
        with _unless_zero(self.fn, trip), repeat(self.fn, trip, [("ptr", source), ("ptr", target)]) as t:
            p, q = t.carried
            yield p, q
            t.next = [self.fn.ptradd(p, a), self.fn.ptradd(q, b)]

    # -- columns contiguous: copy rows ------------------------------------------------------------------------

    def _rows(self, x: _Stretch, source: Value, target: Value) -> None:
        fn, lanes = self.fn, self.lanes
        if not self.dot:
            with self._times(x.trip, source, target, x.row, x.step) as (p, q):
                for v in range(x.vectors):
                    line = self._load(p, v, x)
                    if self.bf16:
                        line = widen(fn, lanes, line)
                    fn.store(f"<{lanes} x float>", line, fn.ptradd(q, v * lanes * 4), 4)
            return
        full, odd = self._split(x.trip, 2)
        if full != 0:
            with self._times(full, source, target, 2 * x.row, x.step) as (p, q):
                for v in range(x.vectors):
                    first, second = (self._load(line, v, x) for line in (p, fn.ptradd(p, x.row)))
                    self._interleave(first, second, q, v)
        if odd == 0:
            return
        with self._times(odd, *self._after(full, source, target, 2 * x.row, x.step), 0, 0) as (p, q):
            for v in range(x.vectors):
                self._interleave(self._load(p, v, x), "zeroinitializer", q, v)

    def _after(self, trip: int | Value, source: Value, target: Value, a: int, b: int) -> tuple[Value, Value]:
        fn = self.fn
        return fn.ptradd(source, fn.mul(trip, a)), fn.ptradd(target, fn.mul(trip, b))

    def _load(self, p: Value, v: int, x: _Stretch) -> Value:
        mask = first_lanes(self.lanes, x.active) if v == x.vectors - 1 and x.active < self.lanes else None
        return self.fn.masked_load(self.element, self.lanes, self.fn.ptradd(p, v * self.lanes * self.size), mask)

    def _interleave(self, first: Value, second: Value, q: Value, v: int) -> None:
        both = interleave(self.fn, self.lanes, first, second)
        self.fn.store(f"<{2 * self.lanes} x i16>", both, self.fn.ptradd(q, v * self.lanes * 4), 4)

    # -- k contiguous: transpose blocks -----------------------------------------------------------------------

    def _transposed(self, x: _Stretch, source: Value, target: Value) -> None:
        lanes, word = self.lanes, 2 * self.size if self.dot else self.size
        block = lanes * word // self.size
        full, rest = self._split(x.trip, block)
        if full != 0:
            with self._times(full, source, target, lanes * word, lanes * x.step) as (p, q):
                self._blocks(replace(x, trip=block), p, q)
        if rest != 0:
            p, q = self._after(full, source, target, lanes * word, lanes * x.step)
            with _unless_zero(self.fn, rest):
                self._single(replace(x, trip=rest), p, q)

    def _blocks(self, x: _Stretch, source: Value, target: Value) -> None:
        """As many elements along k of each column as a vector of words has."""
        lanes = self.lanes
        whole = x.vectors if x.active == lanes else x.vectors - 1
        if whole:
            with self._times(whole, source, target, lanes * self.column, lanes * 4) as (p, q):
                self._block(p, q, x.step, lanes)
        if whole < x.vectors:
            p, q = self.fn.ptradd(source, whole * lanes * self.column), self.fn.ptradd(target, whole * lanes * 4)
            if whole:  # a short remainder is not worth another block's code
                self._single(replace(x, vectors=1), p, q)
            else:
                self._block(p, q, x.step, x.active)

    def _block(self, source: Value, target: Value, step: int, valid: int) -> None:
        """A vector of words along k of each of `valid` columns, transposed."""
        fn, lanes = self.fn, self.lanes
        kind = "i32" if self.dot else "float"
        lines = []
        for i in range(valid):
            x = fn.load(
                f"<{lanes} x {'i32' if self.dot else self.element}>", fn.ptradd(source, i * self.column), self.size
            )
            lines.append(widen(fn, lanes, x) if self.bf16 and not self.dot else x)
        lines += ["zeroinitializer"] * (lanes - valid)
        for i, x in enumerate(transpose(fn, kind, lines)):
            fn.store(f"<{lanes} x {kind}>", x, fn.ptradd(target, i * step), 4)

    # -- neither: element by element --------------------------------------------------------------------------

    def _single(self, x: _Stretch, source: Value, target: Value) -> None:
        fn = self.fn
        columns = (x.vectors - 1) * self.lanes + x.active
        if not self.dot:
            with (
                self._times(x.trip, source, target, x.row, x.step) as (p, q),
                self._times(columns, p, q, self.column, 4) as (from_, to),
            ):
                value = fn.load(self.element, from_, self.size)
                fn.store("i32" if self.bf16 else "float", widen_one(fn, value) if self.bf16 else value, to, 4)
            return
        full, odd = self._split(x.trip, 2)
        if full != 0:
            with (
                self._times(full, source, target, 2 * x.row, x.step) as (p, q),
                self._times(columns, p, q, self.column, 4) as (from_, to),
            ):
                fn.store("i16", fn.load("i16", from_, 2), to, 4)
                fn.store("i16", fn.load("i16", fn.ptradd(from_, x.row), 2), fn.ptradd(to, 2), 2)
        if odd == 0:
            return
        p, q = self._after(full, source, target, 2 * x.row, x.step)
        with self._times(odd, p, q, 0, 0) as (p, q), self._times(columns, p, q, self.column, 4) as (from_, to):
            fn.store("i32", fn.op(f"zext i16 {fn.load('i16', from_, 2)} to i32"), to, 4)


@contextmanager
def _unless_zero(fn: Function, count: int | Value) -> Iterator[None]:
    """Skips its body if a symbolic count is zero."""
    if isinstance(count, int):
        yield
        return
    inside, after = fn.new_block("some"), fn.new_block("after")
    fn.do(f"br i1 {fn.op(f'icmp sgt i64 {count}, 0')}, label %{inside}, label %{after}")
    fn.start(inside)
    yield
    fn.branch(after)
    fn.start(after)


def transpose(fn: Function, element: str, lines: list[Value]) -> list[Value]:
    """Transposes a square block of vectors in log2(lanes) rounds of shuffles.

    First within 128-bit blocks, by interleaving halves of two vectors, then whole blocks, by taking every other one of
    two vectors: each shuffle is a single x86 instruction for any width. A fence between the rounds, which is no
    instruction, stops LLVM's search for better shuffles across all of them, which took ten milliseconds in vain.
    """
    lanes = len(lines)
    vector = f"<{lanes} x {element}>"
    block = min(lanes, 16 // BYTES[element])

    def shuffled(x: Value, y: Value, order: Sequence[int]) -> Value:
        if x == y == "zeroinitializer":
            return x
        places = ", ".join(f"i32 {k}" for k in order)
        return fn.op(f"shufflevector {vector} {x}, {vector} {y}, <{lanes} x i32> <{places}>")

    def pairs(lines: Sequence[Value], order: Sequence[int]) -> list[Value]:
        """The same shuffle of each pair of neighbours."""
        return [shuffled(x, y, order) for x, y in zip(lines[::2], lines[1::2], strict=True)]

    def within(lines: Sequence[Value], unit: int) -> list[Value]:
        """Interleaves runs of `unit` elements within blocks, of their first halves, then of their second ones."""
        if len(lines) == 1:
            return list(lines)
        made = []
        for half in (0, block // 2):
            starts = (k for first in range(half, lanes, block) for k in range(first, first + block // 2, unit))
            order = [side + k for start in starts for side in (0, lanes) for k in range(start, start + unit)]
            made += within(pairs(lines, order), 2 * unit)
        return made

    def across(lines: Sequence[Value]) -> list[Value]:
        """Even blocks of both vectors, then odd ones."""
        if len(lines) == 1:
            return list(lines)
        made = []
        for first in (0, block):
            starts = range(first, 2 * lanes, 2 * block)
            made.append(across(pairs(lines, [k for start in starts for k in range(start, start + block)])))
        return [x for both in zip(*made, strict=True) for x in both]

    groups = [[_fenced(fn, element, lanes, x) for x in within(lines[k : k + block], 1)] for k in range(0, lanes, block)]
    columns = [across(column) for column in zip(*groups, strict=True)]
    return [x for row in zip(*columns, strict=True) for x in row]


def _fenced(fn: Function, element: str, lanes: int, value: Value) -> Value:
    """The value behind an optimization fence, for lanes of 32 bits."""
    if BYTES[element] != 4 or value == "zeroinitializer":
        return value
    vector, floats = f"<{lanes} x {element}>", f"<{lanes} x float>"
    if element != "float":
        value = fn.op(f"bitcast {vector} {value} to {floats}")
    value = fn.call(floats, f"llvm.arithmetic.fence.v{lanes}f32", (floats, value))
    return value if element == "float" else fn.op(f"bitcast {floats} {value} to {vector}")


def spread(fn: Function, low: int, high: int, step: int | None, lanes: int) -> None:
    """Emits word[e - low] = (a[e], a[e + step]) for e in [low, high]; the second is undefined if out of range.

    Without a step the words are the elements as fp32. Buffer 0 is a (bf16), buffer 1 the words; a work item is `SPREAD`
    elements.
    """
    a, words = fn.buffer(0), fn.buffer(1)
    a = fn.ptradd(a, 2 * low)
    count = high - low + 1
    shift = step or 0
    valid_from, valid_to = max(0, -shift), count - max(0, shift)

    def clamp(x: Value, least: Value, most: Value) -> Value:
        x = fn.op(f"select i1 {fn.less(x, least)}, i64 {least}, i64 {x}")
        return fn.minimum(x, most)

    def one_by_one(start: Value, stop: Value) -> None:
        with fn.loop(start, stop) as e:
            other = clamp(fn.add(e.index, shift), "0", str(count - 1))
            word = fn.op(f"zext i16 {fn.load('i16', fn.offset(a, 'i16', other), 2)} to i32")
            word = fn.op(f"shl i32 {word}, 16")
            if step is not None:
                first = fn.op(f"zext i16 {fn.load('i16', fn.offset(a, 'i16', e.index), 2)} to i32")
                word = fn.op(f"or i32 {first}, {word}")
            fn.store("i32", word, fn.offset(words, "i32", e.index), 4)

    with fn.loop("%begin", "%end") as item:
        start = fn.mul(item.index, SPREAD_ELEMENTS)
        stop = fn.minimum(fn.add(start, SPREAD_ELEMENTS), str(count))
        first = clamp(str(valid_from), start, stop)
        last = clamp(str(valid_to), first, stop)
        last = fn.add(first, fn.op(f"and i64 {fn.sub(last, first)}, {-lanes}"))
        one_by_one(start, first)
        half, full = f"<{lanes} x i16>", f"<{2 * lanes} x i16>"
        with fn.loop(first, last, lanes) as e:
            y = fn.load(half, fn.offset(a, "i16", fn.add(e.index, shift)), 2)
            if step is None:
                fn.store(f"<{lanes} x float>", widen(fn, lanes, y), fn.offset(words, "i32", e.index), 4)
            else:
                x = fn.load(half, fn.offset(a, "i16", e.index), 2)
                fn.store(full, interleave(fn, lanes, x, y), fn.offset(words, "i32", e.index), 4)
        one_by_one(last, stop)
