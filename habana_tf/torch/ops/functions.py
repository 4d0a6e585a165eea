"""Scalar functions of one and two operands."""

from __future__ import annotations

import math

from habana_tf.formulas import special
from habana_tf.formulas.term import Term
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, Lower, Operand, both, overload


def _unary(fn: str) -> Lower:
    def lower(c: Call, x: Operand) -> Node:
        return c.elementwise(fn, x)

    return lower


for _fn in (
    "sqrt rsqrt exp expm1 log log1p sin cos tan asin acos atan sinh cosh asinh acosh atanh tanh sigmoid erf erfc "
    "lgamma abs neg"
).split():
    overload(*both(_fn))(_unary(_fn))


def _whole(fn: str) -> Lower:
    """A rounding, which leaves integers as they are."""

    def lower(c: Call, x: Node) -> Node:
        return c.elementwise(fn, x) if x.dtype.is_float else x

    return lower


for _name, _fn in {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint"}.items():
    overload(*both(_name))(_whole(_fn))


@overload(*both("reciprocal"))
def reciprocal(c: Call, x: Operand) -> Node:
    return (1.0 / c.term(x)).node


@overload(*both("log2"))
def log2(c: Call, x: Operand) -> Node:
    return (c.term(x).map("log") * (1 / math.log(2))).node


@overload(*both("log10"))
def log10(c: Call, x: Operand) -> Node:
    return (c.term(x).map("log") * (1 / math.log(10))).node


@overload(*both("exp2"))
def exp2(c: Call, x: Operand) -> Node:
    t = c.term(x)
    return Term(c.b, c.b.const(2.0, t.node.dtype)).pow(t).node


@overload("angle")
def angle(c: Call, x: Operand) -> Node:
    """Pi for negative numbers, 0 for others; NaN of NaN."""
    t = c.term(x)
    pi, zero = (Term(c.b, c.b.const(n, t.node.dtype)) for n in (math.pi, 0.0))
    return t.test("lt", 0.0).where(pi, t.test("ge", 0.0).where(zero, t)).node


@overload(*both("frac"), floats=True)
def fraction(c: Call, x: Operand) -> Node:
    t = c.term(x)
    return (t - t.map("trunc")).node


@overload(*both("sign", "sgn"))
def sign(c: Call, x: Node) -> Node:
    """1, 0 or -1; 0 of NaN."""
    if x.dtype is DType.BOOL:
        return x
    t = c.term(x)
    one, zero = (Term(c.b, c.b.const(n, t.node.dtype)) for n in (1, 0))
    above = t.test("gt", 0).where(one, zero)
    return above.node if x.dtype.kind == "u" else t.test("lt", 0).where(zero - one, above).node


@overload(*both("digamma"))
def digamma(c: Call, x: Operand) -> Node:
    """Infinite at 0, of the other sign."""
    t = c.term(x)
    return t.test("eq", 0.0).where(-1.0 / t, special.digamma(t)).node


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


@overload(*both("atan2"))
def atan2(c: Call, x: Operand, y: Operand) -> Node:
    return c.elementwise("atan2", x, y)


@overload(*both("hypot"), floats=True)
def hypot(c: Call, x: Operand, y: Operand) -> Node:
    """The greater one taken out, so that no square overflows."""
    a, z = c.term(x).map("abs"), c.term(y).map("abs")
    high, low = a.max(z), a.min(z)
    part = low / high
    usual = high * (part * part + 1.0).map("sqrt")
    plain = Term(c.b, c.b.binary("or", high.test("eq", 0.0).node, low.test("eq", math.inf).node))
    either = Term(c.b, c.b.binary("or", a.test("eq", math.inf).node, z.test("eq", math.inf).node))
    return either.where(Term(c.b, c.b.const(math.inf, high.node.dtype)), plain.where(high, usual)).node


@overload(*both("copysign.Tensor", "copysign.Scalar"), runtime=["other"])
def copysign(c: Call, x: Operand, y: Operand) -> Node:
    b = c.b
    size, other = c.term(x).map("abs"), c.term(y)
    bits = b.map("bitcast", b.cast(other.node, DType.F32), dtype=DType.I32)
    negative = Term(b, b.binary("lt", bits, b.const(0, DType.I32)))
    return negative.where(-size, size).node


def _times(fn: str) -> Lower:
    """A number times a function of another; 0 where the first is 0 and the second a number."""

    def lower(c: Call, x: Operand, y: Operand) -> Node:
        a, z = c.term(x), c.term(y)
        none = Term(c.b, c.b.binary("and", a.test("eq", 0.0).node, z.test("eq", z).node))
        return none.where(Term(c.b, c.b.const(0, a.node.dtype)), a * z.map(fn)).node

    return lower


overload(*both("xlogy.Tensor", "xlogy.Scalar_Other"), "xlogy.Scalar_Self", runtime=["other", "self"])(_times("log"))
overload(
    "special_xlog1py", "special_xlog1py.other_scalar", "special_xlog1py.self_scalar", runtime=["other", "self"]
)(_times("log1p"))  # fmt: skip


def _log_of_sum(base: float) -> Lower:
    def lower(c: Call, x: Operand, y: Operand) -> Node:
        a, z = c.term(x), c.term(y)
        high, scale = a.max(z), math.log(base)
        apart = ((a - z).map("abs") * -scale).map("exp").map("log1p") * (1 / scale)
        alike = Term(c.b, c.b.binary("and", a.test("eq", z).node, high.map("abs").test("eq", math.inf).node))
        return alike.where(high, high + apart).node

    return lower


overload("logaddexp", floats=True)(_log_of_sum(math.e))
overload("logaddexp2", floats=True)(_log_of_sum(2.0))


@overload(*both("heaviside"))
def heaviside(c: Call, x: Operand, values: Operand) -> Node:
    t = c.term(x)
    zero, one = (Term(c.b, c.b.const(n, t.node.dtype)) for n in (0, 1))
    return t.test("eq", 0).where(c.term(values), t.test("gt", 0).where(one, zero)).node


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


@overload("floor_divide", "floor_divide_.Tensor", runtime=["self", "other"])
def floor_divide(c: Call, x: Operand, y: Operand) -> Node:
    return _floor_divided(c, x, y)


@overload(*both("fmod.Tensor", "fmod.Scalar"), runtime=["other"])
def fmod(c: Call, x: Operand, y: Operand) -> Node:
    return c.elementwise("truncmod", x, y)


@overload(*both("remainder.Tensor", "remainder.Scalar"), "remainder.Scalar_Tensor", runtime=["other", "self"])
def remainder(c: Call, x: Operand, y: Operand) -> Node:
    return c.elementwise("floormod", x, y)


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
    overload(*both(f"bitwise_{_name}_shift.Tensor"), runtime=["self", "other"])(_shifted(_fn))
