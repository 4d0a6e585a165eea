"""Copies a part of an operand in the order in which a tile's sums read it: any strides, any guards.

    words        [unit][across]            a unit is a step of the sum as fp32, or a pair of steps in bf16
    registers    [units][across][unit]     as many units along the sum as a register or an instruction takes

*Across* is the copy's contiguous direction (rows of a, columns of b), *along* is the sum. Vectors are loaded in the
direction that is contiguous in memory, and transposed in registers if that is along; if neither is, elements are copied
one by one. Elements outside a limit are never read and are zero in the copy: those past the last row or step, and
padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace

from habana_tf.compiler.codegen.emit import Function, Value, first_lanes, lane_numbers
from habana_tf.compiler.codegen.tiles.operand import Across, Along, Groups, Limit
from habana_tf.compiler.codegen.transpose import transpose
from habana_tf.compiler.codegen.turns import repeat
from habana_tf.compiler.codegen.vector_memory import Form, interleave
from habana_tf.compiler.product_costs import COPY_AHEAD


class Fill:
    """Emits the packing of an operand. Create it at the function's entry.

    dot: units are pairs; depth: units of a register, 0 for words; fill: words are padded with zeros to a multiple of it
    along the last label. vectors: whether the copy may use masked vectors; exact: nothing is written behind the last
    unit, where another work item's copy may begin.
    """

    def __init__(
        self, fn: Function, form: Form, lanes: int, dot: bool, depth: int = 0, fill: int = 0, vectors: bool = True,
        exact: bool = False,
    ) -> None:  # fmt: skip
        self.fn, self.lanes, self.depth, self.fill, self.dot = fn, lanes, depth, max(fill, depth, 1), dot
        self.form, self.size = form, form.bytes
        self.vectors, self.exact = vectors, exact
        self.zero = fn.op("alloca i64, align 8")
        fn.store("i64", "0", self.zero, 8)

    def pack(
        self, across: Across, along: Sequence[Along], source: Value, target: Value, limits: Sequence[Limit],
        groups: Groups | None = None,
    ) -> None:  # fmt: skip
        """Packs all of `along` (at least one index each) for all of `across`, and for all groups."""
        fn, first = self.fn, along[0]
        if len(along) == 1:
            self._last(across, first, source, target, list(limits), groups)
            return
        moved = [x for x in limits if x.along[0]]
        carry = [("ptr", source), ("ptr", target), *(("i64", x.value) for x in moved)]
        with repeat(fn, first.trip, carry) as t:
            p, q, *values = t.carried
            now = dict(zip(moved, values, strict=True))
            inner = [replace(x, value=now.get(x, x.value), along=x.along[1:]) for x in limits]
            self.pack(across, along[1:], p, q, inner, groups)
            following = [fn.add(v, x.along[0]) for x, v in zip(moved, values, strict=True)]
            t.next = [fn.ptradd(p, first.step * self.size), fn.ptradd(q, first.line), *following]

    def takes_groups(self, across: int, along: int) -> bool:
        """Whether groups are packed together. across, along: strides in elements."""
        return self.vectors and across == 1 and along != 1

    def _last(
        self, across: Across, along: Along, p: Value, q: Value, limits: list[Limit], groups: Groups | None
    ) -> None:
        if not self.vectors or (across.step != 1 and along.step != 1 and across.most > 1):
            self._single(across, along, p, q, limits)
        elif along.step != 1 or (across.step == 1 and across.most > 1):
            self._across(across, along, p, q, limits, groups)
        else:
            self._along(across, along, p, q, limits)

    # -- limits -----------------------------------------------------------------------------------------------

    def _inside(self, limits: Sequence[Limit], i: Value, j: Value) -> Value | None:
        """Whether an element exists (i1); None if it always does."""
        fn, found = self.fn, None
        for x in limits:
            where = fn.add(x.value, fn.mul(i, x.across))
            where = fn.add(where, fn.mul(j, x.along[-1]))
            test = fn.op(f"icmp ult i64 {where}, {x.size}")
            found = test if found is None else fn.op(f"and i1 {found}, {test}")
        return found

    def _mask(self, limits: Sequence[Limit], lanes: int, i: Value, j: Value, across: bool) -> Value | None:
        """The mask of a vector that starts at (i, j), across or along; None if all lanes exist."""
        fn, found = self.fn, None
        bits = f"<{lanes} x i1>"
        uniform = [x for x in limits if not (x.across if across else x.along[-1])]
        tests = []
        if (one := self._inside(uniform, i, j)) is not None:
            tests.append(fn.splat(lanes, "i1", one))
        for x in limits:
            step = x.across if across else x.along[-1]
            if not step:
                continue
            where = fn.add(x.value, fn.mul(i, x.across))
            where = fn.add(where, fn.mul(j, x.along[-1]))
            if step == 1 and x.value == "0":
                left = fn.sub(x.size, where)
                if not left.isdigit():
                    tests.append(fn.leading(lanes, left))
                elif int(left) < lanes:
                    tests.append(first_lanes(lanes, int(left)))
                continue
            steps = lane_numbers("i32", lanes, step)
            wide = f"<{lanes} x i32>"
            first = fn.splat(lanes, "i32", fn.op(f"trunc i64 {where} to i32"))
            size = fn.splat(lanes, "i32", fn.op(f"trunc i64 {x.size} to i32"))
            tests.append(fn.op(f"icmp ult {wide} {fn.op(f'add {wide} {first}, {steps}')}, {size}"))
        for test in tests:
            found = test if found is None else fn.op(f"and {bits} {found}, {test}")
        return found

    def _line(self, pointer: Value, lanes: int, mask: Value | None) -> Value:
        return self._read(self.fn.masked_load(self.form.lane, lanes, pointer, mask), lanes)

    def _read(self, x: Value, lanes: int) -> Value:
        """Elements from memory as the copy has them, as fp32 or as halves of pairs."""
        return self.form.halves(self.fn, lanes, x) if self.dot else self.form.floats(self.fn, lanes, x)

    def _turns(self, along: Along, units: int) -> tuple[Value, bool]:
        """The number of iterations of `units` (a divisor or a multiple of `fill`) that cover a label with its padding,
        and whether they exceed its last step."""
        pair = 2 if self.dot else 1
        turns = self._divided(str(along.trip), self.fill * pair)
        if units != self.fill:
            turns = self._divided(self.fn.mul(turns, self.fill), units)
        multiple = along.trip if isinstance(along.trip, int) else along.multiple
        return turns, multiple % (max(units, self.fill) * pair) != 0

    def _divided(self, x: Value, by: int) -> Value:
        """x / by, rounded up."""
        return self.fn.div(self.fn.add(x, by - 1), by) if by > 1 else x

    # -- vectors across ---------------------------------------------------------------------------------------

    def _across(
        self, across: Across, along: Along, p: Value, q: Value, limits: list[Limit], groups: Groups | None
    ) -> None:
        fn, pair = self.fn, 2 if self.dot else 1
        count, uneven = self._turns(along, max(1, self.depth))
        if uneven:
            limits = [*limits, Limit("0", 0, (1,), str(along.trip))]
        row, units = along.step * self.size, max(1, self.depth)
        some = Limit("0", 1, (0,), across.count)
        if groups is None and (across.least < across.most or across.most % self.lanes):
            limits = [*limits, some]
        with repeat(fn, count, [("ptr", p), ("ptr", q), ("i64", "0")]) as t:
            x, y, j = t.carried
            if groups is None:
                self._lines(across, row, x, y, j, limits)
            else:
                self._groups(groups, across, row, x, y, j, limits)
            following = fn.add(j, pair * units)
            t.next = [fn.ptradd(x, pair * units * row), fn.ptradd(y, along.line), following]

    def _groups(
        self, groups: Groups, across: Across, row: int, p: Value, q: Value, j: Value, limits: list[Limit]
    ) -> None:
        """A step of all groups."""
        fn = self.fn
        carry = [("ptr", p), ("ptr", q), ("i64", groups.first), ("i64", "0")]
        with repeat(fn, groups.count, carry) as t:
            x, y, index, offset = t.carried
            size: Value = str(groups.most)
            if groups.rest < groups.most:
                size = fn.op(f"select i1 {fn.less(index, groups.large)}, i64 {groups.most}, i64 {groups.rest}")
            now = [replace(m, value=fn.add(m.value, fn.mul(offset, m.across))) for m in limits]
            some = [*now, Limit("0", 1, (0,), size)]
            if now or self.depth:
                self._lines(across, row, x, y, j, some)
            else:
                whole = fn.less(index, groups.whole)
                with fn.when(whole):
                    self._lines(across, row, x, y, j, [])
                with fn.when(fn.op(f"xor i1 {whole}, true")):
                    self._lines(across, row, x, y, j, some)
            t.next = [
                fn.ptradd(x, fn.mul(size, self.size)), fn.ptradd(y, groups.apart),
                fn.add(index, 1), fn.add(offset, size),
            ]  # fmt: skip

    def _lines(self, across: Across, row: int, x: Value, y: Value, j: Value, limits: list[Limit]) -> None:
        """A step (or as many as a register holds) of all elements across."""
        fn, lanes = self.fn, self.lanes
        if self.form.dtype.bits == 8 and not self.dot and not self.depth and across.most % (2 * lanes) == 0:
            lanes *= 2  # what is done in 16 bits takes as long of twice as many
        vectors = -(-across.most // lanes)
        if self.depth and vectors > 1:  # not unrolled, since it is much code
            with repeat(fn, vectors, [("ptr", x), ("ptr", y), ("i64", "0")]) as t:
                p, q, i = t.carried
                self._vectors(row, p, q, i, j, limits, lanes)
                t.next = [fn.ptradd(p, lanes * self.size), fn.ptradd(q, lanes * lanes * 4), fn.add(i, lanes)]
            return
        for v in range(vectors):
            p, q = fn.ptradd(x, v * lanes * self.size), fn.ptradd(y, v * lanes * 4)
            self._vectors(row, p, q, str(v * lanes), j, limits, lanes)

    def _vectors(self, row: int, p: Value, q: Value, i: Value, j: Value, limits: list[Limit], lanes: int) -> None:
        """All steps of a unit or register, of one vector across."""
        fn, units = self.fn, max(1, self.depth)
        moving = [x for x in limits if x.along[-1]]
        mask = self._mask([x for x in limits if not x.along[-1]], lanes, i, j, True)

        def line(k: int) -> Value:
            own = self._mask(moving, lanes, i, fn.add(j, k), True) if moving else None
            if own is not None and mask is not None:
                own = fn.op(f"and <{lanes} x i1> {own}, {mask}")
            return self._line(fn.ptradd(p, k * row), lanes, own or mask)

        fn.prefetch(fn.ptradd(p, (units + COPY_AHEAD) * row))
        words = [self._word(line, u) for u in range(units)]
        if self.depth:
            words = transpose(fn, "i32", words + ["zeroinitializer"] * (lanes - units))
        for k, word in enumerate(words):
            fn.store(self._vector(lanes), word, fn.ptradd(q, k * lanes * 4), 4)

    def _vector(self, lanes: int) -> str:
        return f"<{lanes} x {'i32' if self.dot else 'float'}>"

    def _word(self, line: Callable[[int], Value], unit: int) -> Value:
        """A unit's words from the vectors of its steps."""
        fn, lanes = self.fn, self.lanes
        if not self.dot:
            return line(unit)
        both = interleave(fn, lanes, line(2 * unit), line(2 * unit + 1))
        return fn.op(f"bitcast <{2 * lanes} x i16> {both} to <{lanes} x i32>")

    # -- vectors along ----------------------------------------------------------------------------------------

    def _along(self, across: Across, along: Along, p: Value, q: Value, limits: list[Limit]) -> None:
        fn, taken = self.fn, self.lanes * (2 if self.dot else 1)
        if not self.exact or self.depth:
            turns, uneven = self._turns(along, self.depth or self.lanes)
            if uneven or (self.depth and self.depth < self.lanes):
                limits = [*limits, Limit("0", 0, (1,), str(along.trip))]
            self._by_rows(across, along, p, q, limits, turns)
            return
        count, left = fn.div(str(along.trip), taken), fn.rem(str(along.trip), taken)
        self._if_any(count, lambda: self._by_rows(across, along, p, q, limits, count))
        x, y = fn.ptradd(p, fn.mul(count, taken * self.size)), fn.ptradd(q, fn.mul(count, self.lanes * along.line))
        rest = replace(along, trip=int(left) if left.isdigit() else left)
        self._if_any(left, lambda: self._single(across, rest, x, y, limits))

    def _if_any(self, count: Value, body: Callable[[], None]) -> None:
        """Emits the body, to be skipped if a count is zero."""
        if not count.isdigit():
            with self.fn.when(self.fn.op(f"icmp sgt i64 {count}, 0")):
                body()
        elif count != "0":
            body()

    def _by_rows(
        self, across: Across, along: Along, p: Value, q: Value, limits: list[Limit], count: int | Value
    ) -> None:
        """Vectors along the sum: stored row by row, or transposed."""
        fn, lanes, pair = self.fn, self.lanes, 2 if self.dot else 1
        last = Limit("0", 1, (0,), across.count)
        groups = -(-across.most // lanes)
        if across.least < across.most or (groups > 1 and across.most % lanes and not self.depth):
            limits = [*limits, last]
        wide, taken = lanes * pair, pair * (self.depth or lanes)  # steps of a vector, of an iteration
        line = along.line if self.depth else lanes * along.line
        with repeat(fn, count, [("ptr", p), ("ptr", q), ("i64", "0")]) as t:
            x, y, j = t.carried
            uniform = [m for m in limits if not m.across]
            mask = self._mask(uniform, wide, "0", j, False)
            if taken < wide:  # steps of the next iteration
                own = first_lanes(wide, taken)
                mask = own if mask is None else fn.op(f"and <{wide} x i1> {mask}, {own}")
            by_row = [m for m in limits if m.across]
            step = across.step * self.size
            if self.depth:
                with repeat(fn, str(across.most), [("ptr", x), ("ptr", y), ("i64", "0")]) as rows:
                    r, w, i = rows.carried
                    fn.store(self._vector(lanes), self._row(r, wide, mask, by_row, i, j), w, 4)
                    rows.next = [fn.ptradd(r, step), fn.ptradd(w, lanes * 4), fn.add(i, 1)]
            else:
                with repeat(fn, str(groups), [("ptr", x), ("ptr", y), ("i64", "0")]) as rows:
                    r, w, i = rows.carried
                    lines = []
                    for k in range(lanes):
                        if groups == 1 and k >= across.most:
                            lines.append("zeroinitializer")
                            continue
                        certain = k < across.least - (groups - 1) * lanes
                        some = [m for m in by_row if m is not last] if certain else by_row
                        number = str(k) if groups == 1 else fn.add(i, k)
                        lines.append(self._row(fn.ptradd(r, k * step), wide, mask, some, number, j))
                    for k, word in enumerate(transpose(fn, "i32" if self.dot else "float", lines)):
                        fn.store(self._vector(lanes), word, fn.ptradd(w, k * along.line), 4)
                    rows.next = [fn.ptradd(r, lanes * step), fn.ptradd(w, lanes * 4), fn.add(i, lanes)]
            t.next = [fn.ptradd(x, taken * self.size), fn.ptradd(y, line), fn.add(j, taken)]

    def _row(self, pointer: Value, wide: int, mask: Value | None, limits: Sequence[Limit], i: Value, j: Value) -> Value:
        """Loads a vector of words along the sum."""
        fn = self.fn
        if limits and mask is None and not any(x.along[-1] for x in limits):
            x = self._read(fn.load_if(self._inside(limits, i, j) or "true", self.form.lane, wide, pointer), wide)
        else:
            own = self._mask(limits, wide, i, j, False)
            if own is not None and mask is not None:
                own = fn.op(f"and <{wide} x i1> {own}, {mask}")
            x = self._line(pointer, wide, own or mask)
        if self.dot:
            return fn.op(f"bitcast <{wide} x i16> {x} to <{self.lanes} x i32>")
        return x

    # -- element by element -----------------------------------------------------------------------------------

    def _single(self, across: Across, along: Along, p: Value, q: Value, limits: list[Limit]) -> None:
        fn, pair, depth = self.fn, 2 if self.dot else 1, max(1, self.depth)
        if across.least < across.most:
            limits = [*limits, Limit("0", 1, (0,), across.count)]
        count, uneven = self._turns(along, depth)
        if uneven:
            limits = [*limits, Limit("0", 0, (1,), str(along.trip))]
        word = 4 * (self.lanes if self.depth else 1)
        with repeat(fn, count, [("ptr", q), ("i64", "0")]) as t:
            y, j = t.carried
            with fn.loop("0", str(across.most)) as row:
                out = fn.ptradd(y, fn.mul(row.index, word))
                with fn.loop("0", str(depth)) if depth > 1 else nullcontext() as unit:
                    first = fn.add(j, fn.mul(unit.index, pair)) if unit else j
                    place = fn.ptradd(out, fn.mul(unit.index, 4)) if unit else out
                    for half in range(pair):
                        step = fn.add(first, half)
                        self._element(fn.ptradd(place, half * 2), row.index, step, across, along, p, limits)
            t.next = [fn.ptradd(y, along.line), fn.add(j, pair * depth)]

    def _element(
        self, out: Value, i: Value, j: Value, across: Across, along: Along, p: Value, limits: Sequence[Limit]
    ) -> None:
        fn = self.fn
        place = fn.add(fn.mul(i, across.step), fn.mul(j, along.step))
        place = fn.ptradd(p, fn.mul(place, self.size))
        inside = self._inside(limits, i, j)
        if inside is not None:
            place = fn.op(f"select i1 {inside}, ptr {place}, ptr {self.zero}")
        value = self._read(fn.load(self.form.lane, place, self.size), 1)
        fn.store("i16" if self.dot else "float", value, out, 2 if self.dot else 4)
