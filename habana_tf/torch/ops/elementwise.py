"""Elementwise overloads: arithmetic, comparisons, activations and their gradients, and the steps of optimizers."""

from __future__ import annotations

import math

from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import COMPARE, Node
from habana_tf.lowering.formula import Term
from habana_tf.torch.ops.row import Call, Lower, Operand, overload


def _binary(fn: str) -> Lower:
    def lower(c: Call, x: Operand, y: Operand) -> Node:
        return c.elementwise(fn, x, y)

    return lower


for _fn in ("mul", "div"):
    _names = [f"{_fn}{place}.{kind}" for place in ("", "_") for kind in ("Tensor", "Scalar")]
    overload(*_names, runtime=["other"])(_binary(_fn))
overload("maximum")(_binary("max"))
overload("minimum")(_binary("min"))


def _plus(c: Call, fn: str, x: Operand, y: Operand, alpha: Operand) -> Node:
    scaled = y if alpha == 1 else c.term(y) * c.term(alpha)
    return c.elementwise(fn, x, scaled.node if isinstance(scaled, Term) else scaled)


@overload("add.Tensor", "add_.Tensor", "add.Scalar", "add_.Scalar", runtime=["other", "alpha"])
def add(c: Call, x: Operand, y: Operand, alpha: Operand = 1) -> Node:
    return _plus(c, "add", x, y, alpha)


@overload("sub.Tensor", "sub_.Tensor", "sub.Scalar", "sub_.Scalar", runtime=["other", "alpha"])
def sub(c: Call, x: Operand, y: Operand, alpha: Operand = 1) -> Node:
    return _plus(c, "sub", x, y, alpha)


@overload("rsub.Tensor", "rsub.Scalar", runtime=["other", "alpha"])
def rsub(c: Call, x: Operand, y: Operand, alpha: Operand = 1) -> Node:
    return _plus(c, "sub", y, x, alpha)


def _compared(fn: str) -> Lower:
    def lower(c: Call, x: Operand, y: Operand) -> Node:
        dtype = next((n.dtype for n in (x, y) if isinstance(n, Node) and n.rank), None)
        kinds = [n.dtype for n in (x, y) if isinstance(n, Node)]
        if dtype is None or any(k.is_float for k in kinds) and not dtype.is_float:
            dtype = DType.F32 if any(k.is_float for k in kinds) else DType.I64
        wide = max((k for k in kinds if k.kind == dtype.kind), key=lambda k: k.bits, default=dtype)
        return c.b.binary(fn, c.term(x, wide).node, c.term(y, wide).node)

    return lower


for _fn in sorted(COMPARE & {"eq", "ne", "lt", "le", "gt", "ge"}):
    overload(f"{_fn}.Tensor", f"{_fn}.Scalar", runtime=["other"])(_compared(_fn))


def _unary(fn: str) -> Lower:
    def lower(c: Call, x: Operand) -> Node:
        return c.elementwise(fn, x)

    return lower


for _fn in "sqrt rsqrt exp expm1 log log1p sin cos tanh sigmoid erf abs neg".split():
    overload(_fn, f"{_fn}_", floats=_fn not in ("abs", "neg"))(_unary(_fn))


@overload("reciprocal", "reciprocal_", floats=True)
def reciprocal(c: Call, x: Operand) -> Node:
    return (1.0 / c.term(x)).node


@overload("relu", "relu_")
def relu(c: Call, x: Operand) -> Node:
    return c.elementwise("max", x, 0)


@overload("threshold_backward")
def threshold_backward(c: Call, dy: Node, x: Node, threshold: float) -> Node:
    return c.term(x).test("le", threshold).where(Term(c.b, c.b.const(0, dy.dtype.accumulator)), c.term(dy)).node


@overload("sigmoid_backward", floats=True)
def sigmoid_backward(c: Call, dy: Node, y: Node) -> Node:
    out = c.term(y)
    return (c.term(dy) * (1.0 - out) * out).node


@overload("tanh_backward", floats=True)
def tanh_backward(c: Call, dy: Node, y: Node) -> Node:
    out = c.term(y)
    return (c.term(dy) * (1.0 - out * out)).node


@overload("gelu", floats=True)
def gelu(c: Call, x: Node, approximate: str = "none") -> Node:
    t = c.term(x)
    if approximate == "tanh":
        inner = (t + t * t * t * 0.044715) * math.sqrt(2 / math.pi)
        return (t * 0.5 * (inner.map("tanh") + 1.0)).node
    return (t * 0.5 * ((t * math.sqrt(0.5)).map("erf") + 1.0)).node


@overload("gelu_backward", floats=True)
def gelu_backward(c: Call, dy: Node, x: Node, approximate: str = "none") -> Node:
    t, grad = c.term(x), c.term(dy)
    if approximate == "tanh":
        beta = math.sqrt(2 / math.pi)
        bent = ((t + t * t * t * 0.044715) * beta).map("tanh")
        slope = (1.0 - bent * bent) * beta * (t * t * (3 * 0.044715) + 1.0)
        return (grad * ((bent + 1.0) * 0.5 + t * 0.5 * slope)).node
    below = ((t * math.sqrt(0.5)).map("erf") + 1.0) * 0.5
    density = (t * t * -0.5).map("exp") * (1 / math.sqrt(2 * math.pi))
    return (grad * (below + t * density)).node


@overload("clamp", "clamp_", runtime=["min", "max"])
def clamp(c: Call, x: Node, min: Operand | None = None, max: Operand | None = None) -> Node:
    t = c.term(x)
    if min is not None:
        t = t.max(c.term(min))
    return (t if max is None else t.min(c.term(max))).node


@overload("pow.Tensor_Scalar", "pow_.Scalar", floats=True)
def power(c: Call, x: Node, exponent: float) -> Node:
    t = c.term(x)
    if exponent == 2:
        return (t * t).node
    if exponent == 0.5:
        return t.map("sqrt").node
    return t.pow(float(exponent)).node


@overload("where.self")
def where(c: Call, condition: Node, x: Operand, y: Operand) -> Node:
    return c.b.select(c.node(condition, DType.BOOL), c.node(x, c.dtype), c.node(y, c.dtype))


@overload("masked_fill.Scalar", "masked_fill_.Scalar", runtime=["value"])
def masked_fill(c: Call, x: Node, mask: Node, value: Operand) -> Node:
    return c.b.select(mask, c.node(value, x.dtype), x)


@overload("logical_not")
def logical_not(c: Call, x: Node) -> Node:
    return c.b.map("not", c.b.cast(x, DType.BOOL))


@overload("fill_.Scalar", runtime=["value"], drops=True)
def fill(c: Call, x: Node | None, value: Operand) -> Node:
    return c.b.expand(c.node(value, c.dtype), c.shape)


@overload("zero_", drops=True)
def zero(c: Call, x: Node | None) -> Node:
    return c.b.const(0, c.dtype, c.shape)


@overload("copy_", drops=True)
def copy(c: Call, target: Node | None, source: Node, non_blocking: bool = False) -> Node:
    return c.b.expand(c.b.cast(source, c.dtype), c.shape)


# -- steps of optimizers ----------------------------------------------------------------------------------------


@overload("lerp.Scalar", "lerp_.Scalar", runtime=["weight"], floats=True)
def lerp(c: Call, x: Node, end: Node, weight: Operand) -> Node:
    """As PyTorch's kernels: from the nearer end."""
    a, z, w = c.term(x), c.term(end), c.term(weight)
    near = w.map("abs").test("lt", 0.5)
    return near.where(a + w * (z - a), z - (z - a) * (1.0 - w)).node


@overload("addcmul", "addcmul_", runtime=["value"])
def addcmul(c: Call, x: Node, a: Node, b: Node, value: Operand = 1) -> Node:
    product = c.term(a) * c.term(b)
    return (c.term(x) + (product if value == 1 else c.term(value) * product)).node


@overload("addcdiv", "addcdiv_", runtime=["value"], floats=True)
def addcdiv(c: Call, x: Node, a: Node, b: Node, value: Operand = 1) -> Node:
    top = c.term(a) if value == 1 else c.term(value) * c.term(a)
    return (c.term(x) + top / c.term(b)).node
