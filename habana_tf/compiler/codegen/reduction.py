"""Accumulators of reductions: a vector of partial results, with operations to add, to combine, and to finish.

Sums and products have the accumulator type of the elements (fp32 for bf16 and fp16). argmax and argmin keep the extreme
and its position; the first of equal elements wins, and NaN beats every number.
"""

from __future__ import annotations

from habana_tf.compiler.body import Reduction
from habana_tf.compiler.codegen.emit import Value
from habana_tf.compiler.codegen.lanes import literal, register_type
from habana_tf.compiler.codegen.scalar import Scalar
from habana_tf.compiler.point_values import Apply, Constant, PointValue
from habana_tf.ir.dtypes import DType

_BETTER = {"max": "gt", "min": "lt"}


def is_never_nan(value: PointValue) -> bool:
    """Whether a float is never NaN, because it is clamped by a constant with a select (relu); max and min are then
    single instructions."""
    if not (isinstance(value, Apply) and value.fn == "select"):
        return False
    test, kept, instead = value.operands
    if not (isinstance(test, Apply) and test.fn in ("gt", "lt") and isinstance(instead, Constant)):
        return False
    tested = test.operands[0]
    while isinstance(tested, Apply) and tested.fn == "stored":
        tested = tested.operands[0]
    return tested is kept and instead.number == instead.number


def extreme_operand(reduction: Reduction) -> tuple[PointValue, float | None]:
    """The operand and the initial value (None for the identity) of an extreme. The maximum of a value clamped from
    below by a constant is that of the value itself, starting from the constant, which ignores NaN; likewise the
    minimum."""
    kind, value = str(reduction.node.arg[0]).removeprefix("arg"), reduction.value
    if value.dtype.is_float and isinstance(value, Apply) and is_never_nan(value):
        test, kept, instead = value.operands
        if isinstance(test, Apply) and isinstance(instead, Constant) and test.fn == _BETTER.get(kind):
            return kept, float(instead.number)
    return value, None


def position_type(reduction: Reduction) -> str:
    """The type in which argmax and argmin carry positions: the shortest that has those of the axis."""
    (axis,) = reduction.node.arg[1]
    n = reduction.node.src[0].shape[axis]
    return "i32" if isinstance(n, int) and n <= 1 << 31 else "i64"


class Accumulator:
    """The state of a reduction of `source` over `ops.lanes` lanes."""

    def __init__(self, ops: Scalar, reduction: Reduction) -> None:
        self.ops = ops
        self.reduction = reduction
        self.kind: str = reduction.node.arg[0]
        self.dtype = reduction.value.dtype
        self.lane = register_type(self.dtype)
        self.is_arg = reduction.is_arg
        self.rounds = self.kind == "sum" and self.dtype.is_float
        self.may_be_nan = self.dtype.is_float and not is_never_nan(reduction.value)
        self.source, first = extreme_operand(reduction)
        first = identity(self.kind, self.dtype) if first is None else first
        start = ops.constant(literal(first, self.dtype), self.lane)
        self.position = position_type(reduction) if self.is_arg else ""
        self.values: list[Value] = [start, ops.constant("0", self.position)] if self.is_arg else [start]

    def fresh(self) -> Accumulator:
        return Accumulator(self.ops, self.reduction)

    @property
    def _types(self) -> list[str]:
        """Of the values."""
        return [self.ops.type(lane) for lane in ((self.lane, self.position) if self.is_arg else (self.lane,))]

    def carry(self) -> list[tuple[str, Value]]:
        """(type, value) of the values that a loop carries."""
        return list(zip(self._types, self.values, strict=True))

    def add(self, value: Value, position: Value | None, mask: Value | None) -> None:
        """Adds a value per lane, at a later position than those before, in the lanes of `mask`."""
        if self.is_arg:
            assert position is not None
            self._take(self._is_better(value), value, position, mask)
            return
        new = self._join(self.values[0], value)
        self.values[0] = new if mask is None else self.ops.choose(mask, new, self.values[0], self.lane)

    def combine(self, other: Accumulator) -> None:
        """Combines with another accumulator, lane by lane."""
        if self.is_arg:
            value, position = other.values
            better = self.ops.op("or", self._is_better(value), self._is_earlier(value, position), "i1")
            self._take(better, value, position, None)
        else:
            self.values[0] = self._join(self.values[0], other.values[0])

    def result(self) -> Value:
        """The result of each lane, in registers of the node's type."""
        return self._finish(self.ops, self.values)

    def across(self) -> Value:
        """The horizontal reduction of all lanes to a scalar, pairwise."""
        fn, lanes, all_ = self.ops.fn, self.ops.lanes, self.fresh()
        types = self._types
        all_.values, step = list(self.values), 1
        while step < lanes:
            other, order = self.fresh(), ", ".join(f"i32 {k ^ step}" for k in range(lanes))
            other.values = [
                fn.op(f"shufflevector {t} {v}, {t} poison, <{lanes} x i32> <{order}>")
                for t, v in zip(types, all_.values, strict=True)
            ]
            all_.combine(other)
            step *= 2
        values = all_.values
        if lanes > 1:
            values = [fn.op(f"extractelement {t} {v}, i64 0") for t, v in zip(types, values, strict=True)]
        return self._finish(Scalar(fn, 1), values)

    def _join(self, a: Value, b: Value) -> Value:
        if self.kind in _BETTER and self.dtype.is_float and not self.may_be_nan:
            return self.ops.choose(self.ops.op(f"fcmp o{_BETTER[self.kind]}", b, a, self.lane), b, a, self.lane)
        fn = {"sum": "add", "prod": "mul"}.get(self.kind, self.kind)
        return self.ops.apply(fn, [a, b], self.dtype, self.dtype)

    def _is_better(self, value: Value) -> Value:
        """Whether a candidate beats the current extreme; NaN beats numbers, and nothing beats NaN."""
        ops, best = self.ops, self.values[0]
        test = "gt" if self.kind == "argmax" else "lt"
        if not self.may_be_nan:
            return ops.apply(test, [value, best], self.dtype, DType.BOOL)
        above = ops.op(f"fcmp u{test}", value, best, self.lane)  # or one of them is NaN
        return ops.op("and", above, ops.op("fcmp ord", best, best, self.lane), "i1")

    def _is_earlier(self, value: Value, position: Value) -> Value:
        """Whether a candidate equals the current extreme at an earlier position."""
        ops, (best, at) = self.ops, self.values
        equal = ops.apply("eq", [value, best], self.dtype, DType.BOOL)
        if self.may_be_nan:
            a, b = (ops.op("fcmp uno", x, x, self.lane) for x in (value, best))
            equal = ops.op("or", equal, ops.op("and", a, b, "i1"), "i1")
        return ops.op("and", equal, ops.op("icmp slt", position, at, self.position), "i1")

    def _take(self, better: Value, value: Value, position: Value, mask: Value | None) -> None:
        ops, (best, at) = self.ops, self.values
        if mask is not None:
            better = ops.op("and", better, mask, "i1")
        self.values = [ops.choose(better, value, best, self.lane), ops.choose(better, position, at, self.position)]

    def _finish(self, ops: Scalar, values: list[Value]) -> Value:
        if self.is_arg:
            carried = DType.I32 if self.position == "i32" else DType.I64
            return ops.cast(values[1], carried, self.reduction.node.dtype)
        return values[0]


def identity(kind: str, dtype: DType) -> float | int | bool:
    """The identity of a reduction, its initial value."""
    return {"sum": 0, "prod": 1}.get(kind, dtype.limit(highest=kind in ("min", "argmin")))
