"""Elementwise overloads: sums and products, fills and copies, and the steps of optimizers."""

from __future__ import annotations

from typing import Any

from habana_tf.formulas.term import Term
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, Lower, Operand, both, formula, overload

for _fn in ("mul", "div"):
    overload(*both(f"{_fn}.Tensor", f"{_fn}.Scalar"), runtime=["self", "other"])(
        lambda c, x, y, fn=_fn: c.elementwise(fn, x, y)
    )


def _plus(fn: str) -> Lower:
    def lower(c: Call, x: Operand, y: Operand, alpha: Operand = 1) -> Node:
        return c.elementwise(fn, x, y if alpha == 1 else (c.term(y) * c.term(alpha)).node)

    return lower


for _fn in ("add", "sub"):
    overload(*both(f"{_fn}.Tensor", f"{_fn}.Scalar"), runtime=["self", "other", "alpha"])(_plus(_fn))
overload("rsub.Tensor", "rsub.Scalar", runtime=["other", "alpha"])(
    lambda c, x, y, alpha=1: _plus("sub")(c, y, x, alpha)
)


overload("fill_.Scalar", runtime=["value"], drops=True)(lambda c, x, value: c.b.expand(c.node(value, c.dtype), c.shape))
overload("zero_", drops=True)(lambda c, x: c.b.const(0, c.dtype, c.shape))


@overload("copy_", drops=True)
def copy(c: Call, target: Node | None, source: Node, non_blocking: bool = False) -> Node:
    return c.b.expand(c.b.cast(source, c.dtype), c.shape)


@overload("_to_copy")
def to_copy(c: Call, x: Node, **options: Any) -> Node:
    """options: the type and the strides of the result, in which it is stored."""
    return x


# -- steps of optimizers ----------------------------------------------------------------------------------------


@formula(*both("lerp.Scalar", "lerp.Tensor"), runtime=["weight"])
def lerp(x: Term, end: Term, weight: Term) -> Term:
    """As PyTorch's kernels: from the nearer end."""
    near = weight.map("abs").test("lt", 0.5)
    return near.where(x + weight * (end - x), end - (end - x) * (1 - weight))


formula("addcmul", "addcmul_", runtime=["value"], floats=False)(
    lambda x, a, b, value=1: x + (a * b if value == 1 else value * (a * b))
)
formula("addcdiv", "addcdiv_", runtime=["value"])(lambda x, a, b, value=1: x + (a if value == 1 else value * a) / b)
