"""Elementwise ops: arithmetic, functions of one number, comparisons, logic, bits, casts, selection.

An op that is one scalar function is one MAP in its own type. One that is a formula of several is computed in the
accumulator type (float32 for bfloat16) and rounded once, as the card's vector units do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add

from habana_tf.formulas.term import Term, wrap
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import ALL, FLOATS, INTS, NUMERIC, op

SIGNED = (*FLOATS, DType.I8, DType.I16, DType.I32, DType.I64)

ScalarFormula = Callable[..., Term]


def wide(c: Lowering, formula: ScalarFormula, *operands: Node) -> Node:
    """A formula over operands of one type, in the accumulator type, rounded once."""
    return formula(*(wrap(c.b, x) for x in operands)).done(operands[0].dtype)


# -- one scalar function --------------------------------------------------------------------------------------

_UNARY = {
    "Exp": "exp", "Expm1": "expm1", "Log": "log", "Log1p": "log1p", "Sqrt": "sqrt", "Rsqrt": "rsqrt", "Sin": "sin",
    "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh", "Cosh": "cosh",
    "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh", "Tanh": "tanh", "Sigmoid": "sigmoid", "Erf": "erf",
    "Erfc": "erfc", "Lgamma": "lgamma", "Floor": "floor", "Ceil": "ceil", "Rint": "rint", "IsNan": "isnan",
    "IsInf": "isinf", "IsFinite": "isfinite",
}  # fmt: skip
_UNARY_SIGNED = {"Neg": "neg", "Abs": "abs", "Sign": "sign"}
_BINARY = {
    "AddV2": "add", "Add": "add", "Sub": "sub", "Mul": "mul", "Maximum": "max", "Minimum": "min",
    "FloorMod": "floormod", "Mod": "truncmod", "TruncateMod": "truncmod", "Pow": "pow", "RealDiv": "div", "Div": "div",
    "TruncateDiv": "div",
}  # fmt: skip
_NARROWER = {
    "Add": tuple(d for d in NUMERIC if d not in (DType.U16, DType.U32, DType.U64)),
    "Mod": (*FLOATS, DType.I32, DType.I64),
    "TruncateMod": (*FLOATS, DType.I32, DType.I64),
    "Pow": SIGNED,
    "TruncateDiv": INTS,
}
"""What TensorFlow's op takes, where that is less than all numbers."""
_IN_PLACE = frozenset({"Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "Maximum", "Minimum"})
"""What ring collectives merge or finish with: TensorFlow runs them with the output on the first input."""
_COMPARE = {"Less": "lt", "LessEqual": "le", "Greater": "gt", "GreaterEqual": "ge"}
_EQUALITY = {"Equal": "eq", "NotEqual": "ne"}
_LOGIC = {"LogicalAnd": "and", "LogicalOr": "or"}
_BITS = {"BitwiseAnd": "and", "BitwiseOr": "or", "BitwiseXor": "xor"}


def _unary(fn: str) -> Callable[[Lowering], Node]:
    return lambda c: c.b.map(fn, c.inputs[0])


def _binary(fn: str) -> Callable[[Lowering], Node]:
    return lambda c: c.b.binary(fn, *c.inputs)


def _equality(fn: str) -> Callable[[Lowering], Node]:
    def lower(c: Lowering) -> Node:
        x, y = c.inputs
        if not c.attr("incompatible_shape_error", True) and not _broadcasts(x, y):
            return c.b.const(fn == "ne", DType.BOOL)
        return c.b.binary(fn, x, y)

    return lower


def _broadcasts(x: Node, y: Node) -> bool:
    pairs = zip(reversed(x.shape), reversed(y.shape), strict=False)
    return all(m == n or m == 1 or n == 1 for m, n in pairs)


for _name, _fn in _UNARY.items():
    op(_name, T=FLOATS, generic="elementwise")(_unary(_fn))
for _name, _fn in _UNARY_SIGNED.items():
    op(_name, T=SIGNED, generic="elementwise")(_unary(_fn))
for _name, _fn in _BINARY.items():
    op(_name, T=_NARROWER.get(_name, NUMERIC), generic="elementwise", in_place=_name in _IN_PLACE)(_binary(_fn))
for _name, _fn in _COMPARE.items():
    op(_name, T=NUMERIC, generic="elementwise")(_binary(_fn))
for _name, _fn in _EQUALITY.items():
    op(_name, T=ALL, generic="elementwise")(_equality(_fn))
for _name, _fn in _LOGIC.items():
    op(_name, generic="elementwise")(_binary(_fn))
for _name, _fn in _BITS.items():
    op(_name, T=INTS, generic="elementwise")(_binary(_fn))
op("LogicalNot", generic="elementwise")(_unary("not"))
op("Invert", T=INTS, generic="elementwise")(_unary("invert"))
op("Atan2", T=FLOATS, generic="elementwise")(_binary("atan2"))


@op("Round", T=SIGNED, generic="elementwise")
def round_(c: Lowering) -> Node:
    """Half to even; integers are round already."""
    x = c.inputs[0]
    return c.b.map("rint", x) if x.dtype.is_float else x


@op("FloorDiv", T=NUMERIC, generic="elementwise")
def floor_div(c: Lowering) -> Node:
    """Floats: the quotient is rounded to the type before floor, as TensorFlow does."""
    if c.inputs[0].dtype.is_float:
        return c.b.map("floor", wide(c, lambda x, y: x / y, *c.inputs))
    return c.b.binary("floordiv", *c.inputs)


def _shift(fn: str) -> Callable[[Lowering], Node]:
    """TensorFlow's CPU rule: the amount is clamped to [0, bits - 1]."""

    def lower(c: Lowering) -> Node:
        b, (x, amount) = c.b, c.inputs

        def number(value: int) -> Node:
            return b.const(value, amount.dtype, amount.shape)

        inside = b.map("min", b.map("max", amount, number(0)), number(x.dtype.bits - 1))
        return b.binary(fn, x, inside)

    return lower


op("LeftShift", T=INTS, generic="elementwise")(_shift("shl"))
op("RightShift", T=INTS, generic="elementwise")(_shift("shr"))


# -- formulas -------------------------------------------------------------------------------------------------


def formula(fn: ScalarFormula, *names: str, types: tuple[DType, ...] = FLOATS) -> None:
    """Rows for ops that are a formula of their inputs, with broadcasting."""
    op(*names, T=types, generic="elementwise")(lambda c: wide(c, fn, *c.inputs))


def softplus(x: Term) -> Term:
    """log(1 + e^x), written so that neither side overflows."""
    return x.max(0) + (-x.map("abs")).map("exp").map("log1p")


SELU_SCALE = 1.0507009873554804934193349852946
SELU_SCALE_ALPHA = 1.7580993408473768599402175208123
"""Klambauer et al., Self-Normalizing Neural Networks (2017), as in TensorFlow's relu_op_functor.h."""


def selu(x: Term) -> Term:
    return x.test("lt", 0).where(x.map("expm1") * SELU_SCALE_ALPHA, x * SELU_SCALE)


def guarded(guard: Term, value: Term) -> Term:
    """0 where the guard is 0, else the value."""
    return guard.test("ne", 0).where(value, 0)


formula(lambda x: x * x, "Square", types=SIGNED)
formula(lambda x: 1 / x, "Reciprocal", "Inv")
formula(lambda x, y: (x - y) * (x - y), "SquaredDifference", types=(*FLOATS, DType.I32, DType.I64))
formula(softplus, "Softplus")
formula(lambda x: x / (x.map("abs") + 1), "Softsign")
formula(lambda x: x.test("lt", 0).where(x.map("expm1"), x), "Elu")
formula(selu, "Selu")
formula(lambda x: x.max(0), "Relu", types=NUMERIC)
formula(lambda x: x.max(0).min(6), "Relu6", types=NUMERIC)
formula(lambda x, y: guarded(y, x / y), "DivNoNan")
formula(lambda x, y: guarded(y, x * y), "MulNoNan")
formula(lambda x, y: guarded(x, x * y.map("log")), "Xlogy")
formula(lambda x, y: guarded(x, x * y.map("log1p")), "Xlog1py")
formula(lambda x, y: guarded(x, x / y), "Xdivy")


@op("LeakyRelu", T=FLOATS, generic="elementwise")
def leaky_relu(c: Lowering) -> Node:
    return wide(c, lambda x: x.test("gt", 0).where(x, x * c.attr("alpha")), c.inputs[0])


@op("ApproximateEqual", T=NUMERIC, generic="same")
def approximate_equal(c: Lowering) -> Node:
    b, (x, y) = c.b, c.inputs
    x, y = (b.cast(n, n.dtype.accumulator) for n in (x, y))
    c.require(x.shape == y.shape, "both inputs must have one shape")
    far = b.map("abs", b.map("sub", x, y))
    return b.map("lt", far, b.const(c.attr("tolerance"), far.dtype, far.shape))


@op("ClipByValue", T=NUMERIC, generic="same")
def clip_by_value(c: Lowering) -> Node:
    """max(min(t, high), low); each bound is a scalar or has the shape of t. A bound that is NaN is none."""
    b, (x, low, high) = c.b, c.inputs
    for bound in (low, high):
        if bound.rank and bound.shape != x.shape:
            raise c.error("clip_value_min and clip_value_max must be scalars or have the shape of t")
    low, high = (b.expand(n, x.shape) for n in (low, high))
    if not x.dtype.is_float:
        return b.map("max", b.map("min", x, high), low)
    below = b.select(b.map("lt", high, x), high, x)
    return b.select(b.map("gt", low, below), low, below)


@op("AddN", "AccumulateNV2", T=NUMERIC, generic="same")
def add_n(c: Lowering) -> Node:
    c.require(all(x.shape == c.inputs[0].shape for x in c.inputs), "all inputs must have one shape")
    return wide(c, lambda *xs: reduce(add, xs), *c.inputs)


# -- gradients of unary ops -----------------------------------------------------------------------------------


def _gradient(fn: ScalarFormula, *names: str, types: tuple[DType, ...] = FLOATS, flat: bool = False) -> None:
    """Rows for gradient ops: a formula of two inputs of one shape, in the op's own order.

    flat: the second input may have another shape, as long as it has as many elements.
    """

    def lower(c: Lowering) -> Node:
        x, y = c.inputs
        if flat and x.numel == y.numel:
            y = c.b.reshape(y, x.shape)
        c.require(x.shape == y.shape, "both inputs must have one shape")
        return wide(c, fn, x, y)

    op(*names, T=types, generic="same")(lower)


def _unless_zero(dy: Term, gradient: Term) -> Term:
    """0 where dy is, also at a pole of the function."""
    return dy.test("ne", 0).where(gradient, 0)


def selu_grad(dy: Term, y: Term) -> Term:
    return y.test("lt", 0).where(dy * (y + SELU_SCALE_ALPHA), dy * SELU_SCALE)


def softsign_grad(dy: Term, x: Term) -> Term:
    bottom = x.map("abs") + 1
    return dy / (bottom * bottom)


_gradient(lambda y, dy: dy * (1 - y * y), "TanhGrad", flat=True)
_gradient(lambda y, dy: dy * y * (1 - y), "SigmoidGrad", flat=True)
_gradient(lambda y, dy: _unless_zero(dy, dy * 0.5 / y), "SqrtGrad", flat=True)
_gradient(lambda y, dy: _unless_zero(dy, dy * -0.5 * (y * y * y)), "RsqrtGrad", flat=True)
_gradient(lambda y, dy: _unless_zero(dy, -(dy * (y * y))), "ReciprocalGrad", "InvGrad", flat=True)
_gradient(lambda dy, x: x.test("gt", 0).where(dy, dy * 0), "ReluGrad", types=NUMERIC)
_gradient(lambda dy, x: x.test("gt", 0).test("and", x.test("lt", 6)).where(dy, dy * 0), "Relu6Grad", types=NUMERIC)
_gradient(lambda dy, y: y.test("lt", 0).where((y + 1) * dy, dy), "EluGrad")
_gradient(selu_grad, "SeluGrad")
_gradient(lambda dy, x: dy * x.map("sigmoid"), "SoftplusGrad")
_gradient(softsign_grad, "SoftsignGrad")


@op("LeakyReluGrad", T=FLOATS, generic="same")
def leaky_relu_grad(c: Lowering) -> Node:
    c.require(c.inputs[0].shape == c.inputs[1].shape, "both inputs must have one shape")
    return wide(c, lambda dy, x: x.test("gt", 0).where(dy, dy * c.attr("alpha")), *c.inputs)


# -- casts and selection --------------------------------------------------------------------------------------


@op("Cast", SrcT=ALL, DstT=ALL, generic="elementwise")
def cast(c: Lowering) -> Node:
    b, x, to = c.b, c.inputs[0], c.attr("DstT")
    if c.attr("Truncate") and x.dtype is DType.F32 and to is DType.BF16:
        bits = b.map("bitcast", x, dtype=DType.U32)
        cut = b.map("bitcast", b.map("and", bits, b.const(0xFFFF0000, DType.U32, x.shape)), dtype=DType.F32)
        x = b.map("select", b.map("isnan", x), x, cut)
    return b.map("stored", b.cast(b.map("stored", x), to))


@op("Bitcast", T=ALL[:-1], type=ALL[:-1])
def bitcast(c: Lowering) -> Node:
    """The same bytes as another type; the last axis takes up a change of width (little-endian)."""
    b, x, to = c.b, c.inputs[0], c.attr("type")
    if to.bits == x.dtype.bits:
        return b.map("bitcast", x, dtype=to) if to is not x.dtype else x
    source, target = _unsigned(x.dtype), _unsigned(to)
    bits = b.map("bitcast", x, dtype=source) if x.dtype is not source else x
    if to.bits < x.dtype.bits:
        n = x.dtype.bits // to.bits
        shape = (*x.shape, n)
        shifts = b.map("mul", b.iota(shape, x.rank, source), b.const(to.bits, source, shape))
        parts = b.map("shr", b.expand(b.reshape(bits, (*x.shape, 1)), shape), shifts)
        out = b.cast(parts, target)
    else:
        n = to.bits // x.dtype.bits
        c.require(x.rank != 0 and x.shape[-1] == n, f"the last axis must be {n} to make one {to} of {x.dtype}")
        bits = b.cast(bits, target)
        shifts = b.map("mul", b.iota(x.shape, x.rank - 1, target), b.const(x.dtype.bits, target, x.shape))
        out = b.reduce("sum", b.map("shl", bits, shifts), [x.rank - 1])
    return b.map("bitcast", out, dtype=to) if to is not target else out


def _unsigned(dtype: DType) -> DType:
    return {8: DType.U8, 16: DType.U16, 32: DType.U32, 64: DType.U64}[dtype.bits]


op("SelectV2", T=ALL, generic="elementwise")(lambda c: c.b.select(*c.inputs))


@op("Select", T=ALL)
def select(c: Lowering) -> Node:
    """The old Select: a scalar condition, one of the full shape, or a vector that chooses rows."""
    b, (condition, t, e) = c.b, c.inputs
    c.require(t.shape == e.shape, "`t` and `e` must have one shape")
    if condition.shape != t.shape:
        if condition.rank == 1 and t.rank >= 1 and condition.shape[0] == t.shape[0]:
            condition = b.broadcast_in_dim(condition, t.shape, (0,))
        elif condition.rank == 0:
            condition = b.expand(condition, t.shape)
        else:
            raise c.error("`condition` must be a scalar, a vector over the first axis, or have the shape of `t`")
    return b.map("select", condition, t, e)
