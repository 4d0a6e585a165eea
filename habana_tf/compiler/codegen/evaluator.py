"""Emits the values of a body, for loop kernels and epilogues.

`Evaluator.value(v)` emits the code of a value, for `lanes` neighbouring points along the vector variable. A value that
does not depend on that variable is *uniform* and stays scalar until it is combined with one that does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from habana_tf.compiler import point_values
from habana_tf.compiler.body import Body, Store
from habana_tf.compiler.codegen.emit import Function, Value
from habana_tf.compiler.codegen.lanes import literal, register_type
from habana_tf.compiler.codegen.vector_access import Mask, Val, VectorAccess
from habana_tf.compiler.point_values import Apply, Constant, Load, Lookup, PointValue, Position, Size, Within
from habana_tf.compiler.view_indices import Range, Unfit, strides
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Atom, Extent, Var
from habana_tf.ir.primitives import Node


class Evaluator(VectorAccess):
    """Emits values within a function. buffers: the buffer number of each node in memory."""

    def __init__(self, fn: Function, buffers: Mapping[Node, int], lanes: int, vector: Var | None) -> None:
        super().__init__(fn, lanes, vector)
        self.buffers = buffers
        self.sure: frozenset[Range] = frozenset()
        self._known: list[dict[PointValue, Val]] = [{}]
        self._inside: list[dict[point_values.Guard, Mask]] = [{}]
        self._loads: list[dict[tuple[int, Extent, point_values.Guard], Val]] = [{}]

    # -- scopes ---------------------------------------------------------------------------------------------

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forgets values emitted inside afterwards: their block does not dominate later code."""
        for known in (self._known, self._numbers, self._inside, self._loads):
            known.append({})
        yield
        for known in (self._known, self._numbers, self._inside, self._loads):
            known.pop()

    @contextmanager
    def shifted(self, places: Mapping[Atom, Extent]) -> Iterator[None]:
        """Evaluates at a shifted point in the same block, by substituting variables. Index values and loads stay known,
        so that loads that points share are emitted once."""
        outer, self._moved = self._moved, {**self._moved, **places}
        for known in (self._known, self._inside):
            known.append({})
        yield
        for known in (self._known, self._inside):
            known.pop()
        self._moved = outer

    @contextmanager
    def guarded(self, guard: Mask) -> Iterator[None]:
        """Evaluates under a predicate."""
        outer, self.guard = self.guard, guard
        with self.scope():
            yield
        self.guard = outer

    @contextmanager
    def assuming(self, ranges: frozenset[Range]) -> Iterator[None]:
        """Evaluates where these ranges are known to hold."""
        outer, self.sure = self.sure, self.sure | ranges
        with self.scope():
            yield
        self.sure = outer

    def define(self, value: PointValue, register: Val) -> None:
        """Sets the register of a value in this scope."""
        self._known[-1][value] = register

    # -- values ---------------------------------------------------------------------------------------------

    def value(self, v: PointValue) -> Val:
        """Emits a value, operands first. Not recursive: chains may be very long."""
        stack = [(v, False)]
        while stack:
            top, ready = stack.pop()
            if self._find(top) is not None:
                continue
            if ready or not top.args:
                self._known[-1][top] = self._value(top)
            else:
                stack.append((top, True))
                stack.extend((a, False) for a in reversed(top.args))
        found = self._find(v)
        assert found is not None
        return found

    def _find(self, v: PointValue) -> Val | None:
        for known in self._known:
            if v in known:
                return known[v]
        return None

    def stored(self, body: Body, s: Store) -> Val:
        """Emits the value that a store of a body writes: where rounding takes several instructions, the rounded one, if
        the body has that."""
        rounded = not self.fn.bf16 and s.target.dtype is DType.BF16
        return self.value(body.rounded.get(s.value, s.value) if rounded else s.value)

    def vector_of(self, v: PointValue) -> Value:
        """A value in every lane."""
        return self.spread(self.value(v), register_type(v.dtype))

    def _value(self, v: PointValue) -> Val:
        match v:
            case Constant():
                return Val(literal(v.number, v.dtype), True)
            case Size():
                return Val(self.one.cast(self.extent(v.extent), DType.I64, v.dtype), True)
            case Position():
                return self._position(v)
            case Load():
                return self._load(v)
            case Lookup():
                with self._under(v.guard):
                    return self._lookup(v)
            case Apply():
                return self._apply(v)
            case Within():
                inside = self._condition(self.within(v.ranges))
                found, padding = self.value(v.inside), self.value(v.outside)
                return found if inside is None else self.pick(inside, found, padding, v.dtype)
        raise Unfit(f"{type(v).__name__.lower()} inside a fused loop")

    def _load(self, v: Load) -> Val:
        buffer = self.buffers[v.node]
        place = buffer, self._here(v.offset), v.guard
        for known in self._loads:
            if place in known and buffer not in self.written:
                return known[place]
        with self._under(v.guard):
            found = self._loads[-1][place] = self.load(buffer, v.dtype, v.offset)
        return found

    def _position(self, v: Position) -> Val:
        if self.depends(v.index):
            if v.dtype is DType.I32:
                return Val(self.words(v.index), False)
            return Val(self.many.cast(self.numbers(v.index), DType.I64, v.dtype), False)
        return Val(self.one.cast(self.number(v.index), DType.I64, v.dtype), True)

    def _apply(self, v: Apply) -> Val:
        args = [self.value(a) for a in v.operands]
        if v.is_free:
            return args[0]
        if all(a.uniform for a in args):
            return Val(self.one.apply(v.fn, [a.name for a in args], v.data, v.dtype), True)
        wide = [self.spread(a, register_type(s.dtype)) for a, s in zip(args, v.operands, strict=True)]
        return Val(self.many.apply(v.fn, wide, v.data, v.dtype), False)

    def pick(self, condition: Val, yes: Val, no: Val, dtype: DType) -> Val:
        lane = register_type(dtype)
        if condition.uniform and yes.uniform and no.uniform:
            return Val(self.one.choose(condition.name, yes.name, no.name, lane), True)
        c = self.spread(condition, "i1")
        return Val(self.many.choose(c, self.spread(yes, lane), self.spread(no, lane), lane), False)

    # -- conditions -----------------------------------------------------------------------------------------

    @contextmanager
    def _under(self, guard: point_values.Guard) -> Iterator[None]:
        """Evaluates under a guard in addition to the current one."""
        outer = self.guard
        if guard:
            self.guard = self._both(outer, self.within(guard))
        yield
        self.guard = outer

    def within(self, ranges: point_values.Guard) -> Mask:
        """The condition that all ranges hold."""
        if self.sure:
            ranges = tuple(r for r in ranges if r not in self.sure)
        for known in self._inside:
            if ranges in known:
                return known[ranges]
        found = Mask()
        for r in ranges:
            one = self.within((r,)) if len(ranges) > 1 else self._range(r)
            found = self._both(found, one)
        self._inside[-1][ranges] = found
        return found

    def _range(self, r: Range) -> Mask:
        if r.always_holds:
            return Mask()
        if self.depends(r.value):
            v = self.numbers(r.value)
            stop = self.fn.splat(self.lanes, "i64", self.number(r.stop))
            c = self.many.op("icmp ult", v, stop, "i64")
            if r.step > 1:
                rest = self.many.op("urem", v, self.many.constant(str(r.step), "i64"), "i64")
                even = self.many.op("icmp eq", rest, self.many.constant("0", "i64"), "i64")
                c = self.many.op("and", c, even, "i1")
            return Mask(None, c)
        n = self.number(r.value)
        c = self.fn.op(f"icmp ult i64 {n}, {self.number(r.stop)}")
        if r.step > 1:
            even = self.fn.op(f"icmp eq i64 {self.fn.op(f'urem i64 {n}, {r.step}')}, 0")
            c = self.fn.op(f"and i1 {c}, {even}")
        return Mask(c, None)

    def _both(self, a: Mask, b: Mask) -> Mask:
        scalar, lanes = a.scalar or b.scalar, a.lanes or b.lanes
        if a.scalar is not None and b.scalar is not None and a.scalar != b.scalar:
            scalar = self.fn.op(f"and i1 {a.scalar}, {b.scalar}")
        if a.lanes is not None and b.lanes is not None and a.lanes != b.lanes:
            lanes = self.many.op("and", a.lanes, b.lanes, "i1")
        return Mask(scalar, lanes)

    def _condition(self, guard: Mask) -> Val | None:
        """A condition as a value; None where it always holds."""
        if guard.lanes is None:
            return None if guard.scalar is None else Val(guard.scalar, True)
        if guard.scalar is None:
            return Val(guard.lanes, False)
        wide = self.fn.splat(self.lanes, "i1", guard.scalar)
        return Val(self.many.op("and", guard.lanes, wide, "i1"), False)

    # -- lookups --------------------------------------------------------------------------------------------

    def _lookup(self, v: Lookup) -> Val:
        source, steps = v.node, strides(v.node.shape)
        values = [(self.value(c), c.dtype, axis) for c, axis in zip(v.coords, v.axes, strict=True)]
        uniform = all(c.uniform for c, _, _ in values)
        ops = self.one if uniform else self.many
        total: Value | None = None
        inside: Value | None = None
        for c, dtype, axis in values:
            at = ops.cast(c.name if uniform else self.spread(c, register_type(dtype)), dtype, DType.I64)
            size = self.number(source.shape[axis])
            size = size if uniform else self.fn.splat(self.lanes, "i64", size)
            ok = ops.op("icmp ult", at, size, "i64")
            inside = ok if inside is None else ops.op("and", inside, ok, "i1")
            step = self.number(steps[axis])
            part = ops.op("mul", at, step if uniform else self.fn.splat(self.lanes, "i64", step), "i64")
            total = part if total is None else ops.op("add", total, part, "i64")
        assert total is not None and inside is not None
        return self._load_found(v, total, inside, uniform)

    def _load_found(self, v: Lookup, at: Value, ok: Value, uniform: bool) -> Val:
        outer, source = self.guard, v.node
        if uniform:
            both = ok if outer.scalar is None else self.fn.op(f"and i1 {outer.scalar}, {ok}")
            with self.guarded(Mask(both, outer.lanes)):
                base = self.fn.op(f"select i1 {both}, i64 {at}, i64 0")
                found = self.load(self.buffers[source], source.dtype, v.offset, base)
        else:
            mask = ok if outer.lanes is None else self.many.op("and", outer.lanes, ok, "i1")
            with self.guarded(Mask(outer.scalar, mask)):
                offsets = self.many.op("add", at, self.numbers(v.offset), "i64")
                found = self.load_lanes(self.buffers[source], source.dtype, offsets)
        return self.pick(Val(ok, uniform), found, Val(literal(0, v.dtype), True), v.dtype)
