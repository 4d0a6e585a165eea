"""Column sums fused into a product's epilogue: batch norm's statistics, the gradient of a bias.

    y[n, c] = product;  s[c] = sum over n of y[n, c]          y is not read again for s

A work item adds its rows, tile by tile, to its part of a buffer; a call after the product's combines the parts in
order. The parts depend on the product's tiling only, so results do not depend on the number of threads.

    layout       [part][line][column], fp32; a part has a line per sum, and four lines for a sum of squared deviations:
                 the count, the origin, the sum of differences from the origin, the sum of their squares

Squared deviations are accumulated in the same pass, before the mean is known (shifted data algorithm): the origin is
the first number of a column (0 if that is infinite), and the difference between origin and mean is corrected in the
end. The squared deviation of one of n numbers is at most n times their variance; so three of seven digits are lost at
most in a part of a thousand rows, and none if the first number is typical. Parts are combined by counts, means and
squares (Chan, Golub and LeVeque 1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from habana_tf.compiler.body import Reduction
from habana_tf.compiler.codegen.blocked_sums import block_end, cut
from habana_tf.compiler.codegen.emit import Function, Value
from habana_tf.compiler.codegen.lanes import LaneOps, memory_type
from habana_tf.compiler.codegen.scalar import Scalar
from habana_tf.compiler.costs import THREAD_ADDITIONS
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node


class _Plain:
    """The state of a sum of a vector of columns. lines: in memory; carried: vectors within a tile; joined: vectors
    while parts are combined, of which the one at `result` is the sum."""

    lines, carried, joined, result = 1, 1, 1, 0
    fresh: Sequence[float] = (0.0,)

    def start(self, m: LaneOps, line: Sequence[Value]) -> list[Value]:
        return [m.f(0.0)]

    def add(self, m: LaneOps, state: Sequence[Value], x: Value, first: bool) -> list[Value]:
        return [m.op("fadd", state[0], x)]

    def keep(self, m: LaneOps, line: Sequence[Value], state: Sequence[Value], rows: int | Value) -> None:
        _accumulate(m, line[0], state[0])

    def join(self, m: LaneOps, state: Sequence[Value], part: Sequence[Value]) -> list[Value]:
        return [m.op("fadd", state[0], part[0])]

    def together(self, m: LaneOps, state: Sequence[Value], more: Sequence[Value]) -> list[Value]:
        """Combines the sums of two ranges of parts."""
        return self.join(m, state, more)


class _Squares(_Plain):
    """The state of a sum of squared deviations, and of the sum. Within a tile: origin, sum of differences, sum of their
    squares; while parts are combined: sum, count, mean, sum of squared deviations."""

    lines, carried, joined, result = 4, 3, 4, 3
    fresh = (0.0, float("nan"), 0.0, 0.0)

    def start(self, m: LaneOps, line: Sequence[Value]) -> list[Value]:
        return [m.fn.load(m.type("float"), line[1], 4), m.f(0.0), m.f(0.0)]

    def add(self, m: LaneOps, state: Sequence[Value], x: Value, first: bool) -> list[Value]:
        origin, distances, squares = state
        if first:  # NaN: not set yet; an infinite origin would make all differences NaN
            finite = m.op("fcmp one", m.intrinsic("fabs", x), m.f(float("inf")))
            begin = m.choose(finite, x, m.f(0.0))
            origin = m.choose(m.op("fcmp uno", origin, origin), begin, origin)
        away = m.op("fsub", x, origin)
        return [origin, m.op("fadd", distances, away), m.fma(away, away, squares)]

    def keep(self, m: LaneOps, line: Sequence[Value], state: Sequence[Value], rows: int | Value) -> None:
        _accumulate(m, line[0], _number(m, str(rows)))
        m.fn.store(m.type("float"), state[0], line[1], 4)
        _accumulate(m, line[2], state[1])
        _accumulate(m, line[3], state[2])

    def join(self, m: LaneOps, state: Sequence[Value], part: Sequence[Value]) -> list[Value]:
        total, count, mean, squares = state
        n, origin, distances, own = part
        total = m.op("fadd", total, m.fma(n, origin, distances))
        beyond = m.op("fdiv", distances, n)
        own = m.op("fsub", own, m.op("fmul", distances, beyond))
        own = m.choose(m.op("fcmp olt", own, m.f(0.0)), m.f(0.0), own)
        apart = m.op("fsub", m.op("fadd", origin, beyond), mean)
        both = m.op("fadd", count, n)
        share = m.op("fdiv", n, both)
        between = m.op("fmul", m.op("fmul", apart, count), m.op("fmul", apart, share))  # 0 for the first part
        return [total, both, m.fma(apart, share, mean), m.op("fadd", squares, m.op("fadd", own, between))]

    def together(self, m: LaneOps, state: Sequence[Value], more: Sequence[Value]) -> list[Value]:
        total, count, mean, own = more
        joined = self.join(m, state, [count, mean, m.f(0.0), own])  # with the mean as the origin
        return [m.op("fadd", state[0], total), *joined[1:]]


def _number(m: LaneOps, n: Value) -> Value:
    """An i64 in every lane."""
    return m.f(float(n)) if n.isdigit() else m.fn.splat(m.lanes, "float", m.fn.op(f"sitofp i64 {n} to float"))


def _accumulate(m: LaneOps, pointer: Value, x: Value) -> None:
    m.fn.store(m.type("float"), m.op("fadd", m.fn.load(m.type("float"), pointer, 4), x), pointer, 4)


@dataclass(frozen=True)
class Total:
    """The call that combines the parts: its function, its buffers after that of the parts, grid and grain."""

    function: Function
    results: tuple[Node, ...]
    grid: int
    grain: int


class ResultSums:
    """The column sums of a product. buffer: of the parts, whose number `place` sets before the kernel is emitted."""

    def __init__(self, reductions: Sequence[Reduction], bf16: bool) -> None:
        self.reductions = reductions
        self.bf16 = bf16
        # The state of squared deviations includes the sum of the same value.
        spread = {r.value for r in reductions if r.deviations}
        places = {(r.value, r.deviations): k for k, r in enumerate(reductions) if r.deviations or r.value not in spread}
        self.taken = list(places.values())
        self.kinds = [_Squares() if reductions[k].deviations else _Plain() for k in self.taken]
        order = list(places)
        self._of = [order.index((r.value, r.value in spread)) for r in reductions]
        self.lines = sum(kind.lines for kind in self.kinds)
        self.buffer: tuple[str, int] = ("temp", 0)
        self.parts = self.columns = self.width = self.lanes = 0

    def place(self, parts: Extent, columns: int, width: int, lanes: int) -> None:
        """Sets the number of parts and their layout. width: of a line in columns, whole panels."""
        assert isinstance(parts, int), "a product over sizes known at run time only has no sums beside it"
        self.parts, self.columns, self.width, self.lanes = parts, columns, width, lanes

    @property
    def nbytes(self) -> int:
        return self.parts * self.lines * self.width * 4

    # -- in the product's kernel ------------------------------------------------------------------------------

    def begin(self, pointer: Value) -> None:
        """Sets the pointer to the parts."""
        self._pointer = pointer

    def item(self, fn: Function, part: Value, low: Value, high: Value) -> None:
        """Begins a work item: initializes the columns from low to high of its part."""
        m = LaneOps(fn, self.lanes)
        self._part = fn.ptradd(self._pointer, fn.mul(part, self.lines * self.width * 4))
        fresh = [number for kind in self.kinds for number in kind.fresh]
        with fn.loop(low, high, self.lanes) as column:
            for place, number in zip(self._places(fn, self._part, column.index), fresh, strict=True):
                fn.store(m.type("float"), m.f(number), place, 4)

    def start(self, fn: Function, column: Value) -> list[Value]:
        """The initial state for a tile's rows, of the vector of columns that begins at `column`."""
        m = LaneOps(fn, self.lanes)
        lines = self._split(self._places(fn, self._part, column), [k.lines for k in self.kinds])
        return [x for kind, line in zip(self.kinds, lines, strict=True) for x in kind.start(m, line)]

    def add(self, fn: Function, state: Sequence[Value], terms: Sequence[Value], first: bool) -> list[Value]:
        """The state after a row. first: whether it may be the first row of the part."""
        m = LaneOps(fn, self.lanes)
        states = self._split(state, [k.carried for k in self.kinds])
        parts = zip(self.kinds, states, [terms[k] for k in self.taken], strict=True)
        return [x for kind, some, term in parts for x in kind.add(m, some, term, first)]

    def keep(self, fn: Function, column: Value, state: Sequence[Value], rows: int | Value) -> None:
        """Adds the state after `rows` rows to the part."""
        m = LaneOps(fn, self.lanes)
        lines = self._split(self._places(fn, self._part, column), [k.lines for k in self.kinds])
        states = self._split(state, [k.carried for k in self.kinds])
        for kind, line, some in zip(self.kinds, lines, states, strict=True):
            kind.keep(m, line, some, rows)

    def _places(self, fn: Function, part: Value, column: Value) -> list[Value]:
        """The addresses of a column in the lines of a part."""
        first = fn.ptradd(part, fn.mul(column, 4))
        return [fn.ptradd(first, k * self.width * 4) for k in range(self.lines)]

    def _split(self, values: Sequence[Value], counts: Sequence[int]) -> list[list[Value]]:
        rest = iter(values)
        return [[next(rest) for _ in range(n)] for n in counts]

    # -- the call after it ------------------------------------------------------------------------------------

    def total(self, name: str) -> Total:
        """The call that combines the parts; a work item is a vector of columns."""
        fn = Function(name, self.bf16)
        source = fn.buffer(0)
        pointers = [fn.buffer(1 + k) for k in range(len(self.reductions))]
        vectors = -(-self.columns // self.lanes)
        counts = [kind.joined for kind in self.kinds]
        with fn.loop("%begin", "%end") as item:
            column = fn.mul(item.index, self.lanes)
            states = self._split(self._combined(fn, source, column, "0", str(self.parts), cut(self.parts)), counts)
            mask = None
            if self.columns % self.lanes:
                mask = fn.leading(self.lanes, fn.op(f"sub nsw i64 {self.columns}, {column}"))
            for r, pointer, k in zip(self.reductions, pointers, self._of, strict=True):
                value = states[k][self.kinds[k].result if r.deviations else 0]
                _store(fn, r.node, value, pointer, column, self.lanes, mask)
        grain = max(1, THREAD_ADDITIONS // (self.parts * self.lines * self.lanes))
        return Total(fn, tuple(r.node for r in self.reductions), vectors, min(vectors, grain))

    def _combined(
        self, fn: Function, source: Value, column: Value, first: Value, stop: Value, sizes: Sequence[int]
    ) -> list[Value]:
        """Combines the parts from first to stop, in blocks (see `blocked_sums`)."""
        m = LaneOps(fn, self.lanes)
        counts = [kind.joined for kind in self.kinds]
        step = sizes[0] if sizes else 1
        with fn.loop(first, stop, step, [(m.type("float"), m.f(0.0))] * sum(counts)) as turn:
            states = self._split(turn.carried, counts)
            if sizes:
                end = block_end(fn, turn.index, step, first, stop)
                more = self._split(self._combined(fn, source, column, turn.index, end, sizes[1:]), counts)
                whole = zip(self.kinds, states, more, strict=True)
                turn.next = [x for kind, state, some in whole for x in kind.together(m, state, some)]
            else:
                part = fn.ptradd(source, fn.mul(turn.index, self.lines * self.width * 4))
                read = [fn.load(m.type("float"), x, 4) for x in self._places(fn, part, column)]
                lines = self._split(read, [kind.lines for kind in self.kinds])
                parts = zip(self.kinds, states, lines, strict=True)
                turn.next = [x for kind, state, line in parts for x in kind.join(m, state, line)]
        return turn.results


def _store(
    fn: Function, node: Node, value: Value, pointer: Value, column: Value, lanes: int, mask: Value | None
) -> None:
    lane = memory_type(node.dtype)
    fn.masked_store(lane, lanes, Scalar(fn, lanes).to_memory(value, node.dtype), fn.offset(pointer, lane, column), mask)
