"""Comparisons, logic, and choices between elements."""

from __future__ import annotations

import math
from collections.abc import Callable

from habana_tf.formulas.ordering import is_negative, limits
from habana_tf.formulas.term import Term
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import COMPARE, Node
from habana_tf.torch.ops.row import Call, Lower, Operand, both, formula, overload


def _common(x: Operand, y: Operand) -> DType:
    """The type in which two operands are compared: PyTorch's promotion, in which a number gives way to a tensor."""
    kinds = [n.dtype for n in (x, y) if isinstance(n, Node)]
    ranked = [n.dtype for n in (x, y) if isinstance(n, Node) and n.rank] or kinds
    floats = [k for k in ranked if k.is_float] or [k for k in kinds if k.is_float]
    if floats:
        return DType.F32 if len(set(floats)) > 1 else floats[0]
    if isinstance(x, float) or isinstance(y, float):  # a number beyond the tensor's type
        return DType.F32
    whole = [k for k in ranked if k.is_int] or [k for k in kinds if k.is_int]
    if not whole:
        return DType.BOOL
    signed = [k for k in whole if k.kind == "i"]
    widest = max(whole, key=lambda k: k.bits)
    if len(signed) in (0, len(whole)) or widest.kind == "i" and any(k.bits < widest.bits for k in whole):
        return widest
    return DType.I16  # int8 with uint8


def _compared(fn: str) -> Lower:
    def lower(c: Call, x: Operand, y: Operand) -> Node:
        dtype = _common(x, y)
        return c.b.binary(fn, c.node(x, dtype), c.node(y, dtype))

    return lower


for _fn in sorted(COMPARE & {"eq", "ne", "lt", "le", "gt", "ge"}):
    overload(f"{_fn}.Tensor", f"{_fn}.Scalar", f"{_fn}_.Tensor", f"{_fn}_.Scalar", runtime=["other"])(_compared(_fn))


def _tested(test: Callable[[Term], Term]) -> Lower:
    """Whether something holds of floating-point numbers, and of no others."""

    def lower(c: Call, x: Node) -> Node:
        return test(c.term(x, x.dtype)).node if x.dtype.is_float else c.b.const(False, DType.BOOL, x.shape)

    return lower


overload("isnan")(_tested(lambda x: x.map("isnan")))
overload("isinf")(_tested(lambda x: x.map("isinf")))
overload("isposinf")(_tested(lambda x: x.test("eq", math.inf)))
overload("isneginf")(_tested(lambda x: x.test("eq", -math.inf)))


@overload("signbit")
def signbit(c: Call, x: Node) -> Node:
    """Of -0.0 and negative NaN, too."""
    t = c.term(x, x.dtype)
    if x.dtype.kind == "i":
        return t.test("lt", 0).node
    return is_negative(t).node if x.dtype.is_float else c.b.const(False, DType.BOOL, x.shape)


# -- logic ------------------------------------------------------------------------------------------------------


overload(*both("logical_not"))(lambda c, x: c.b.map("not", c.b.cast(x, DType.BOOL)))


def _logical(fn: str) -> Lower:
    return lambda c, x, y: c.b.binary(fn, c.node(x, DType.BOOL), c.node(y, DType.BOOL))


def _bitwise(fn: str) -> Lower:
    def lower(c: Call, x: Operand, y: Operand) -> Node:
        if c.dtype.is_float:
            raise c.refused("bits of floating-point numbers")
        return c.b.binary(fn, c.node(x, c.dtype), c.node(y, c.dtype))

    return lower


for _fn in ("and", "or", "xor"):
    overload(*both(f"logical_{_fn}"), runtime=["other"])(_logical(_fn))
    overload(*both(f"bitwise_{_fn}.Tensor", f"bitwise_{_fn}.Scalar"), runtime=["self", "other"])(_bitwise(_fn))


@overload(*both("bitwise_not"))
def bitwise_not(c: Call, x: Node) -> Node:
    if x.dtype.is_float:
        raise c.refused("bits of floating-point numbers")
    return c.b.map("not" if x.dtype is DType.BOOL else "invert", x)


# -- choices ----------------------------------------------------------------------------------------------------


@overload("where.self", runtime=["self", "other"])
def where(c: Call, condition: Node, x: Operand, y: Operand) -> Node:
    return c.b.select(c.node(condition, DType.BOOL), c.node(x, c.dtype), c.node(y, c.dtype))


@overload(*both("masked_fill.Scalar", "masked_fill.Tensor"), runtime=["value"])
def masked_fill(c: Call, x: Node, mask: Node, value: Operand) -> Node:
    return c.b.select(c.node(mask, DType.BOOL), c.node(value, x.dtype), x)


def _clamped(x: Term, min: Term | None = None, max: Term | None = None) -> Term:
    above = x if min is None else x.max(min)
    return above if max is None else above.min(max)


formula(*both("clamp", "clamp.Tensor"), runtime=["min", "max"], floats=False)(_clamped)
formula(*both("clamp_min", "clamp_min.Tensor"), runtime=["min"], floats=False)(lambda x, min: x.max(min))
formula(*both("clamp_max", "clamp_max.Tensor"), runtime=["max"], floats=False)(lambda x, max: x.min(max))
overload("maximum")(lambda c, x, y: c.elementwise("max", x, y))
overload("minimum")(lambda c, x, y: c.elementwise("min", x, y))


def _but_nan(fn: str) -> Lower:
    """The greater or lesser of two, and the other one where one is NaN."""

    def lower(c: Call, x: Operand, y: Operand) -> Node:
        if not c.dtype.is_float:
            return c.elementwise(fn, x, y)
        a, z = c.term(x), c.term(y)
        return a.test("ne", a).where(z, z.test("ne", z).where(a, a.test(fn, z))).node

    return lower


overload("fmax")(_but_nan("max"))
overload("fmin")(_but_nan("min"))


@overload(*both("nan_to_num"))
def nan_to_num(
    c: Call, x: Node, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Node:
    if not x.dtype.is_float:
        return x
    t, (lowest, largest) = c.term(x), limits(x.dtype)
    t = t.test("eq", math.inf).where(largest if posinf is None else posinf, t)
    t = t.test("eq", -math.inf).where(lowest if neginf is None else neginf, t)
    return t.test("ne", t).where(nan or 0.0, t).node


@overload("isin.Tensor_Tensor")
def isin(c: Call, elements: Operand, test_elements: Operand, assume_unique: bool = False, invert: bool = False) -> Node:
    """Compares each element with each tested one."""
    b, dtype = c.b, _common(elements, test_elements)
    x, tested = c.node(elements, dtype), c.node(test_elements, dtype)
    if not isinstance(tested.numel, int) or tested.numel > _MOST_TESTED:
        raise c.refused(f"more than {_MOST_TESTED} tested elements")
    found = b.const(False, DType.BOOL, c.shape)
    if tested.numel:
        row = b.reshape(tested, (*[1] * x.rank, tested.numel))
        same = b.binary("eq", b.reshape(x, (*x.shape, 1)), row)
        found = b.reduce("max", same, [x.rank])
    return b.map("not", found) if invert else found


overload("isin.Tensor_Scalar", runtime=["test_element"])(isin)
_MOST_TESTED = 256
