"""Accumulators of reductions: one vector of partial results and how to add to it, join two, and finish.

Sums and products are kept in the accumulator type of the element type (fp32 for bf16 and fp16). argmax and argmin
keep the extreme and its position; the first of equal ones wins, and NaN beats every number.
"""

from __future__ import annotations

import math

from ...ir.dtypes import DType
from ..body import Reduction
from .emit import Value
from .lanes import literal, register_type
from .scalar import Scalar

POSITION = "i32"
"""The type in which argmax and argmin carry positions."""


class Accumulator:
    """The state of one reduction over `ops.lanes` lanes."""

    def __init__(self, ops: Scalar, reduction: Reduction) -> None:
        self.ops = ops
        self.reduction = reduction
        self.kind: str = reduction.node.arg[0]
        self.dtype = reduction.value.dtype
        self.lane = register_type(self.dtype)
        self.is_arg = self.kind.startswith("arg")
        start = ops.constant(literal(identity(self.kind, self.dtype), self.dtype), self.lane)
        self.values: list[Value] = [start, ops.constant("0", POSITION)] if self.is_arg else [start]

    def fresh(self) -> Accumulator:
        return Accumulator(self.ops, self.reduction)

    def carry(self) -> list[tuple[str, Value]]:
        """(type, value) of what a loop must carry."""
        types = [self.ops.type(self.lane), self.ops.type(POSITION)]
        return list(zip(types, self.values, strict=False))

    def add(self, value: Value, position: Value | None, mask: Value | None) -> None:
        """Adds one value per lane; lanes where `mask` is false are left out."""
        if self.is_arg:
            assert position is not None
            self._choose(value, position, mask)
            return
        new = self._join(self.values[0], value)
        self.values[0] = new if mask is None else self.ops.choose(mask, new, self.values[0], self.lane)

    def combine(self, other: Accumulator) -> None:
        """Adds another accumulator's lanes to the lanes of this one."""
        if self.is_arg:
            self._choose(other.values[0], other.values[1], None)
        else:
            self.values[0] = self._join(self.values[0], other.values[0])

    def result(self) -> Value:
        """One result per lane, in registers of the node's type."""
        return self._finish(self.ops, self.values)

    def across(self) -> Value:
        """The result over all lanes, as a scalar."""
        one = Scalar(self.ops.fn, 1)
        parts = [self._lane(k, one) for k in range(self.ops.lanes)]
        while len(parts) > 1:  # pairwise, neighbours in position order
            for a, b in zip(parts[::2], parts[1::2], strict=True):
                a.combine(b)
            parts = parts[::2]
        return self._finish(one, parts[0].values)

    def _lane(self, k: int, one: Scalar) -> Accumulator:
        acc = Accumulator(one, self.reduction)
        if self.ops.lanes == 1:
            acc.values = list(self.values)
        else:
            types = [self.ops.type(self.lane), self.ops.type(POSITION)]
            acc.values = [
                self.ops.fn.op(f"extractelement {t} {v}, i64 {k}") for t, v in zip(types, self.values, strict=False)
            ]
        return acc

    def _join(self, a: Value, b: Value) -> Value:
        fn = {"sum": "add", "prod": "mul"}.get(self.kind, self.kind)
        return self.ops.apply(fn, [a, b], self.dtype, self.dtype)

    def _choose(self, value: Value, position: Value, mask: Value | None) -> None:
        """Takes the candidate if it is more extreme, or as extreme and earlier."""
        ops = self.ops
        best, at = self.values
        test = "gt" if self.kind == "argmax" else "lt"
        better = ops.apply(test, [value, best], self.dtype, DType.BOOL)
        equal = ops.apply("eq", [value, best], self.dtype, DType.BOOL)
        if self.dtype.is_float:
            nan_new, nan_old = ops.op("fcmp uno", value, value), ops.op("fcmp uno", best, best)
            better = ops.op("or", better, nan_new, "i1")
            both = ops.op("and", nan_new, nan_old, "i1")
            equal = ops.op("or", equal, both, "i1")
            better = ops.choose(nan_old, ops.constant("false", "i1"), better, "i1")
        earlier = ops.op("icmp slt", position, at, POSITION)
        take = ops.op("or", better, ops.op("and", equal, earlier, "i1"), "i1")
        if mask is not None:
            take = ops.op("and", take, mask, "i1")
        self.values = [ops.choose(take, value, best, self.lane), ops.choose(take, position, at, POSITION)]

    def _finish(self, ops: Scalar, values: list[Value]) -> Value:
        if self.is_arg:
            return ops.cast(values[1], DType.I32, self.reduction.node.dtype)
        return values[0]


def identity(kind: str, dtype: DType) -> float | int | bool:
    """What a reduction starts from."""
    if kind == "sum":
        return 0
    if kind == "prod":
        return 1
    highest = kind in ("min", "argmin")
    if dtype is DType.BOOL:
        return highest
    if dtype.is_float:
        return math.inf if highest else -math.inf
    if dtype.kind == "u":
        return (1 << dtype.bits) - 1 if highest else 0
    return (1 << (dtype.bits - 1)) - 1 if highest else -(1 << (dtype.bits - 1))
