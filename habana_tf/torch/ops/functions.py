"""Scalar functions of one and two operands."""

from __future__ import annotations

import math
from collections.abc import Callable

from habana_tf.formulas import special
from habana_tf.formulas.ordering import is_negative
from habana_tf.formulas.term import Term
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, Lower, Operand, both, formula, overload


def _scalar(fn: str) -> Lower:
    return lambda c, *operands: c.elementwise(fn, *operands)


for _fn in (
    "sqrt rsqrt exp expm1 log log1p sin cos tan asin acos atan sinh cosh asinh acosh atanh tanh sigmoid erf erfc "
    "lgamma abs neg"
).split():
    overload(*both(_fn))(_scalar(_fn))


def _whole(fn: str) -> Lower:
    """A rounding, which leaves integers as they are."""

    def lower(c: Call, x: Node) -> Node:
        return c.elementwise(fn, x) if x.dtype.is_float else x

    return lower


for _name, _fn in {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint"}.items():
    overload(*both(_name))(_whole(_fn))


formula(*both("reciprocal"), floats=False)(lambda x: 1 / x)
formula(*both("log10"), floats=False)(lambda x: x.map("log") * (1 / math.log(10)))
formula(*both("exp2"), floats=False)(lambda x: x.like(2).pow(x))
formula(*both("frac"))(lambda x: x - x.map("trunc"))


@formula(*both("log2"), floats=False)
def log2(x: Term) -> Term:
    """The exponent, plus the logarithm of a mantissa from 3/4 to 3/2: exact of powers of two."""
    b = x.b
    bits = b.map("bitcast", x.node, dtype=DType.I32)
    exponent = b.binary("shr", b.binary("sub", bits, b.const(0x3F400000, DType.I32)), b.const(23, DType.I32))
    rest = b.binary("sub", bits, b.binary("shl", exponent, b.const(23, DType.I32)))
    mantissa = Term(b, b.map("bitcast", rest, dtype=DType.F32))
    normal = x.test("lt", math.inf).where(x, 0).test("ge", 2.0**-126)
    log = normal.where(mantissa, x).map("log") * (1 / math.log(2))
    return normal.where(log + Term(b, b.cast(exponent, DType.F32)), log)


@formula("angle", floats=False)
def angle(x: Term) -> Term:
    """Pi for negative numbers, 0 for others; NaN of NaN."""
    return x.test("lt", 0).where(math.pi, x.test("ge", 0).where(0, x))


@overload(*both("sign", "sgn"))
def sign(c: Call, x: Node) -> Node:
    """1, 0 or -1; 0 of NaN."""
    if x.dtype is DType.BOOL:
        return x
    t = c.term(x)
    above = t.test("gt", 0).where(t.like(1), 0)
    return above.node if x.dtype.kind == "u" else t.test("lt", 0).where(t.like(0) - 1, above).node


@formula(*both("digamma"), floats=False)
def digamma(x: Term) -> Term:
    """Infinite at 0, of the other sign."""
    return x.test("eq", 0).where(-1 / x, special.digamma(x))


# -- of two operands --------------------------------------------------------------------------------------------


@overload(
    "pow.Tensor_Scalar", "pow_.Scalar", runtime=["exponent"],
    literal=lambda n: isinstance(n, int) or (2 * n).is_integer(),
)  # fmt: skip
def power(c: Call, x: Node, exponent: Operand) -> Node:
    t = c.term(x)
    if isinstance(exponent, Node):
        return t.pow(c.term(exponent)).node
    if not c.dtype.is_float:
        if x.dtype is DType.BOOL and isinstance(exponent, bool):
            raise c.refused("a boolean power of booleans, which PyTorch's meta kernel takes for an integer,")
        if exponent < 0:
            raise c.refused("a negative power of integers")
        return t.pow(int(exponent)).node if exponent != 2 or c.dtype is DType.BOOL else (t * t).node
    if exponent == 1:
        return t.node
    if exponent == 2:
        return (t * t).node
    if exponent == 0.5:
        return t.map("sqrt").node
    if exponent == 3:
        return (t * t * t).node
    return t.pow(float(exponent)).node


@overload("pow.Tensor_Tensor", "pow_.Tensor", "pow.Scalar", runtime=["self"])
def power_of(c: Call, x: Operand, exponent: Operand) -> Node:
    if not c.dtype.is_float:
        raise c.refused("a power of integers by a tensor")
    return c.term(x).pow(c.term(exponent)).node


overload(*both("atan2"))(_scalar("atan2"))


@formula(*both("hypot"))
def hypot(x: Term, y: Term) -> Term:
    """The greater one taken out, so that no square overflows."""
    x, y = x.map("abs"), y.map("abs")
    high, low = x.max(y), x.min(y)
    part = low / high
    plain = high.test("eq", 0).test("or", low.test("eq", math.inf))
    either = x.test("eq", math.inf).test("or", y.test("eq", math.inf))
    return either.where(math.inf, plain.where(high, high * (part * part + 1).map("sqrt")))


formula(*both("copysign.Tensor", "copysign.Scalar"), runtime=["other"], floats=False)(
    lambda x, other: is_negative(other).where(-x.map("abs"), x.map("abs"))
)


def _times(fn: str) -> Callable[[Term, Term], Term]:
    """A number times a function of another; 0 where the first is 0 and the second a number."""

    def times(self: Term, other: Term) -> Term:
        return self.test("eq", 0).test("and", other.test("eq", other)).where(0, self * other.map(fn))

    return times


for _names, _fn in (
    ([*both("xlogy.Tensor", "xlogy.Scalar_Other"), "xlogy.Scalar_Self"], "log"),
    (["special_xlog1py", "special_xlog1py.other_scalar", "special_xlog1py.self_scalar"], "log1p"),
):
    formula(*_names, runtime=["other", "self"], floats=False)(_times(_fn))


def _log_of_sum(base: float) -> Callable[[Term, Term], Term]:
    def log_of_sum(x: Term, y: Term) -> Term:
        high, scale = x.max(y), math.log(base)
        apart = ((x - y).map("abs") * -scale).map("exp").map("log1p") * (1 / scale)
        alike = x.test("eq", y).test("and", high.map("abs").test("eq", math.inf))
        return alike.where(high, high + apart)

    return log_of_sum


formula("logaddexp")(_log_of_sum(math.e))
formula("logaddexp2")(_log_of_sum(2.0))
formula(*both("heaviside"), floats=False)(
    lambda x, values: x.test("eq", 0).where(values, x.test("gt", 0).where(x.like(1), 0))
)


# -- division with a whole result, and its rest -----------------------------------------------------------------


def _floor_divided(c: Call, x: Operand, y: Operand) -> Node:
    """As PyTorch has it for floats: from the exact rest, so that no quotient is rounded up to the next whole number."""
    a, z = c.term(x), c.term(y)
    if not c.dtype.is_float:
        return c.b.binary("floordiv", a.node, z.node)
    rest = Term(c.b, c.b.binary("truncmod", a.node, z.node))
    opposite = Term(c.b, c.b.binary("and", rest.test("ne", 0.0).node,
                                    c.b.binary("ne", z.test("lt", 0.0).node, rest.test("lt", 0.0).node)))  # fmt: skip
    quotient = (a - rest) / z
    quotient = opposite.where(quotient - 1.0, quotient)
    down = quotient.map("floor")
    near = (quotient - down).test("gt", 0.5).where(down + 1.0, down)
    made = quotient.test("ne", 0.0).where(near, a / z * 0.0)
    return z.test("eq", 0.0).where(a / z, made).node


@overload(*both("div.Tensor_mode", "div.Scalar_mode"), runtime=["other"])
def divide(c: Call, x: Operand, y: Operand, rounding_mode: str | None = None) -> Node:
    if rounding_mode is None:
        return c.elementwise("div", x, y)
    if rounding_mode == "floor":
        return _floor_divided(c, x, y)
    quotient = c.elementwise("div", x, y)
    return c.b.map("trunc", quotient) if c.dtype.is_float else quotient


overload("floor_divide", "floor_divide_.Tensor", runtime=["self", "other"])(_floor_divided)
overload(*both("fmod.Tensor", "fmod.Scalar"), runtime=["other"])(_scalar("truncmod"))
overload(*both("remainder.Tensor", "remainder.Scalar"), "remainder.Scalar_Tensor", runtime=["other", "self"])(
    _scalar("floormod")
)


def _shifted(fn: str) -> Lower:
    def lower(c: Call, x: Operand, y: Operand) -> Node:
        if c.dtype.is_float:
            raise c.refused("bits of floating-point numbers")
        b, a, z = c.b, c.term(x), c.term(y)
        inside = Term(b, b.binary("and", z.test("ge", 0).node, z.test("lt", c.dtype.bits).node))
        moved = Term(b, b.binary(fn, a.node, inside.where(z, 0).node))
        zero = Term(b, b.const(0, c.dtype))
        none = zero if fn == "shl" or c.dtype.kind == "u" else a.test("lt", 0).where(zero - 1, zero)
        return inside.where(moved, none).node

    return lower


for _name, _fn in {"left": "shl", "right": "shr"}.items():
    _operators = [f"__{_in}{_name[0]}shift__.{_kind}" for _in in ("", "i") for _kind in ("Tensor", "Scalar")]
    overload(*both(f"bitwise_{_name}_shift.Tensor"), *_operators, runtime=["self", "other"])(_shifted(_fn))
