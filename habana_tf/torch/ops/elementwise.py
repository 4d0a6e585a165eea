"""Elementwise overloads: sums and products, fills and copies, and the steps of optimizers."""

from __future__ import annotations

from typing import Any

from habana_tf.formulas.term import Term
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, Lower, Operand, both, overload


def _binary(fn: str) -> Lower:
    def lower(c: Call, x: Operand, y: Operand) -> Node:
        return c.elementwise(fn, x, y)

    return lower


for _fn in ("mul", "div"):
    _names = [f"{_fn}{place}.{kind}" for place in ("", "_") for kind in ("Tensor", "Scalar")]
    overload(*_names, runtime=["self", "other"])(_binary(_fn))


def _plus(c: Call, fn: str, x: Operand, y: Operand, alpha: Operand) -> Node:
    scaled = y if alpha == 1 else c.term(y) * c.term(alpha)
    return c.elementwise(fn, x, scaled.node if isinstance(scaled, Term) else scaled)


@overload("add.Tensor", "add_.Tensor", "add.Scalar", "add_.Scalar", runtime=["self", "other", "alpha"])
def add(c: Call, x: Operand, y: Operand, alpha: Operand = 1) -> Node:
    return _plus(c, "add", x, y, alpha)


@overload("sub.Tensor", "sub_.Tensor", "sub.Scalar", "sub_.Scalar", runtime=["self", "other", "alpha"])
def sub(c: Call, x: Operand, y: Operand, alpha: Operand = 1) -> Node:
    return _plus(c, "sub", x, y, alpha)


@overload("rsub.Tensor", "rsub.Scalar", runtime=["other", "alpha"])
def rsub(c: Call, x: Operand, y: Operand, alpha: Operand = 1) -> Node:
    return _plus(c, "sub", y, x, alpha)


@overload("fill_.Scalar", runtime=["value"], drops=True)
def fill(c: Call, x: Node | None, value: Operand) -> Node:
    return c.b.expand(c.node(value, c.dtype), c.shape)


@overload("zero_", drops=True)
def zero(c: Call, x: Node | None) -> Node:
    return c.b.const(0, c.dtype, c.shape)


@overload("copy_", drops=True)
def copy(c: Call, target: Node | None, source: Node, non_blocking: bool = False) -> Node:
    return c.b.expand(c.b.cast(source, c.dtype), c.shape)


@overload("_to_copy")
def to_copy(c: Call, x: Node, **options: Any) -> Node:
    """options: the type and the strides of the result, in which it is stored."""
    return x


# -- steps of optimizers ----------------------------------------------------------------------------------------


@overload(*both("lerp.Scalar", "lerp.Tensor"), runtime=["weight"], floats=True)
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
